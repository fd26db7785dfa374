"""The training of one learned rater, and the designs by which images are split."""
