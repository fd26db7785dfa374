"""Parts that all learned raters share: the recipe interface, the training loop, features, weights."""
