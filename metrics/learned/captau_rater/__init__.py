"""captau's own rater: a formula without ratings, or a regression on them; `recipe.py` is where to start."""
