"""The scales of judgements of one's own: those of options, of the YAML file beside the table, or what the ratings span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError, unknown
from ..schema import Scale, format_rating, on_scale
from .judgement_options import JudgementOptions
from .rating_scales import read_scales, scales_of_option, scales_path
from .table import Table


def find_scales(
    path: Path,
    dimensions: Sequence[str],
    values: Sequence[float],
    options: JudgementOptions,
) -> dict[str, Scale]:
    """Return the scale of each rated dimension.

    Args:
        path: the table.
        dimensions, values: of each row.
        options: the scales that are given, or a scale for all other dimensions.

    Raises:
        InputError: where one is malformed or missing, or the option names another dimension.
    """
    names = list(dict.fromkeys(dimensions))
    option_scales: Mapping[str, Scale] = {}
    if options.scales is not None:
        option_scales = scales_of_option(options.scales, "file.scales")
    for name in option_scales:
        if name not in names:
            raise unknown(f"dimension of {path} in file.scales", name, names)

    stored_scales = read_scales(path)
    missing = [name for name in names if name not in stored_scales and name not in option_scales]
    if stored_scales and missing:
        raise InputError(
            f"{scales_path(path)}:1: scales: {path.name} has ratings of '{missing[0]}', which has no "
            f"scale there; there are {', '.join(stored_scales)}; add it"
        )

    scale_by_dimension: dict[str, Scale] = {}
    for name in names:
        rated = [v for d, v in zip(dimensions, values, strict=True) if d == name]
        usual = stored_scales.get(name, Scale(min(rated), max(rated)))
        scale_by_dimension[name] = option_scales.get(name) or _scale(usual, options)

    return scale_by_dimension


def _scale(usual: Scale, options: JudgementOptions) -> Scale:
    """Return a scale with the parts that are given changed."""
    parts: dict[str, float] = {}
    for name in ("low", "high", "step"):
        number = getattr(options, name)
        if number is not None:
            parts[name] = number
    scale = replace(usual, **parts)

    if scale.low > scale.high or (options.step is not None and options.step <= 0):
        raise InputError(
            f"file.low={scale.low:g}, file.high={scale.high:g}, file.step={options.step}: these make no scale; "
            f"low must not exceed high, and the step must be above 0"
        )

    return scale


def check_scales(
    table: Table, column: str, values: Sequence[float], scales: Sequence[Scale]
) -> None:
    """Check each row's rating against its scale.

    Raises:
        InputError: at the first that is not on it.
    """
    for location, number, scale in zip(table.places, values, scales, strict=True):
        if not on_scale(scale, number):
            raise InputError(
                f"{location}: {column} is {format_rating(number)}, not on the scale {scale}"
            )
