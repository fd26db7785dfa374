"""Human judgements of captions: what they look like, where they come from, how they are read."""
