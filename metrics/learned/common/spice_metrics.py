"""SPICE's metrics and its parser, which the in-domain rater and the combination use where it is installed."""

from __future__ import annotations

from ...text.spice import models as spice_models

SPICE_METRICS = (
    *("spice", "spice_precision", "spice_recall", "spice_object", "spice_relation"),
    *("spice_attribute", "spice_color", "spice_count", "spice_size"),
)


def has_parser() -> bool:
    """Say whether the parser's files are on this machine."""
    return not spice_models.missing_jars(spice_models.jar_folder())
