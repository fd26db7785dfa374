"""People beside people: captions held out, words in common, and distributions of ratings."""
