"""Learned raters: metrics that were trained, on captioned images or on people's ratings.

- `icr.py`, `qe.py`, `umic/`: the raters, a `Recipe` each;
- `rater.py`: the metric `rater`, which scores with what `captau train` wrote;
- `common/`: the interface `recipe.py`, the examples, the training loop, weight files, captioned images, feature sources.

To add a rater, write one module here, `NAME.py`, as `icr.py` is, and `conf/rater/NAME.yaml`.
"""
