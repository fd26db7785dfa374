"""captau's own rater, for captions of kinds that nobody rated yet; `recipe.py` is where to start."""
