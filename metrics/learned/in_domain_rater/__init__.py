"""The in-domain rater: ratings of one dataset learned as well as text allows; `recipe.py` is where to start."""
