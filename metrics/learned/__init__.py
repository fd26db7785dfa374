"""Learned raters: what is trained on captions, references and ratings."""
