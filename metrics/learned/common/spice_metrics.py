"""SPICE's metrics and its parser, which the in-domain rater and the combination use where it is installed."""

from __future__ import annotations

from ...text.spice import models as spice_models

SPICE_METRICS = (
    *("spice", "spice_precision", "spice_recall", "spice_object", "spice_relation"),
    *("spice_attribute", "spice_color", "spice_count", "spice_size"),
)
#: The parser's name as a dataset of `captau data fetch`.
PARSER_NAME = spice_models.NAME


def parser_download_size() -> int:
    """Return the bytes of the parser's files that are not on this machine; 0 where it is complete."""
    return sum(jar.size for jar in spice_models.missing_jars(spice_models.jar_folder()))
