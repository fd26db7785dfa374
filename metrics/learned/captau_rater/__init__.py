"""captau's own rater: text and references only, on a sentence encoder; `recipe.py` is where to start."""
