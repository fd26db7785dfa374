"""The scales of a table of ratings, in a YAML file beside it: `ratings.csv` has them in `ratings.yaml`.

`dataset=file` reads it, and `captau collect export` writes it:

```yaml
scales:
  precision: {low: 1, high: 5, step: 1}
  fluency: {low: -5, high: 0}
  total: {low: -9, high: 5}
  invented: {low: 0, high: 1, step: 1}
totals: [total]
faults: [invented]
conditions: {countries: "US, UK", pay: "$10 an hour"}
```

`totals` names the dimensions that are sums of others, `faults` those on which more is worse, and `conditions` says in texts how
the ratings were collected; all three may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from ..errors import InputError
from ..schema import Scale, on_scale
from .yaml_fields import YamlFields, read_yaml_fields

#: How far the ends of a scale may lie from 0.
_FARTHEST = 1e9
#: How YAML is written: as people write it, without lines being broken.
_STYLE: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": float("inf")}


def scales_path(table: Path) -> Path:
    """Return where the scales of a table lie."""
    return table.with_suffix(".yaml")


def format_scales(scales: Mapping[str, Scale], totals: Sequence[str] = ()) -> str:
    """Return the text of the file of scales, which `read_scales` and `read_dimensions` read back."""
    by_dimension = {dimension: _fields_of(scale) for dimension, scale in scales.items()}
    fields: dict[str, Any] = {"scales": by_dimension}
    if totals:
        fields["totals"] = list(totals)

    return yaml.safe_dump(fields, default_flow_style=None, **_STYLE)


def read_scales(table: Path) -> dict[str, Scale]:
    """Return the scales of a table by dimension; none where there is no file of them.

    Raises:
        InputError: where the file is malformed, with file and line.
    """
    path = scales_path(table)
    if not path.is_file():
        return {}

    fields = read_yaml_fields(path)
    scales = _read_all(fields.section("scales"))
    if not scales:
        raise fields.error(
            "scales", "it is empty; write for each dimension NAME: {low: 1, high: 5, step: 1}"
        )

    for key in ("totals", "faults"):
        for dimension in fields.texts(key):
            if dimension not in scales:
                raise fields.error(key, f"'{dimension}' has no scale above; add it there")

    _ = read_conditions(fields)  # reading checks them
    fields.reject_unknown()

    return scales


#: The conditions of collecting judgements that the papers report.
CONDITIONS = ("countries", "approval_rate", "tasks", "pay", "qualification", "training", "raters")


def read_conditions(fields: YamlFields) -> dict[str, str]:
    """Return the texts of a section `conditions`, by name.

    Raises:
        InputError: on a name that is not one of `CONDITIONS`, or a value that is no text.
    """
    section = fields.section("conditions")
    conditions: dict[str, str] = {}
    for name in CONDITIONS:
        text = section.text(name, "", 500)
        if text:
            conditions[name] = text
    section.reject_unknown()

    return conditions


def format_conditions(conditions: Mapping[str, str]) -> str:
    """Return the lines of a file of scales that have the conditions; empty without any."""
    if not conditions:
        return ""

    return yaml.safe_dump({"conditions": dict(conditions)}, **_STYLE)


def read_table_conditions(table: Path) -> dict[str, str]:
    """Return how the ratings of a table were collected, as the file of its scales says; empty without such a file."""
    path = scales_path(table)
    if not path.is_file():
        return {}

    return read_conditions(read_yaml_fields(path))


def read_dimensions(table: Path, key: Literal["totals", "faults"]) -> tuple[str, ...]:
    """Return the dimensions that the file of a table's scales names under a key; none without such a file."""
    path = scales_path(table)
    if not path.is_file():
        return ()

    return read_yaml_fields(path).texts(key)


def scales_of_option(value: Any, key: str) -> dict[str, Scale]:
    """Return the scales by dimension that an option holds, as the file does below `scales`.

    Raises:
        InputError: where it is anything else.
    """
    try:
        text = yaml.safe_dump(value)  # the options of the command line are plain data
        return _read_all(YamlFields.parse(text, key))
    except (InputError, yaml.YAMLError) as error:
        raise InputError(
            f"{key} is {value!r}; {{DIMENSION: {{low: 1, high: 5, step: 1}}}} is expected"
        ) from error


def _read_all(fields: YamlFields) -> dict[str, Scale]:
    scales = {name: _read_scale(fields.section(name)) for name in fields.names}
    fields.reject_unknown()

    return scales


def _read_scale(fields: YamlFields) -> Scale:
    low = fields.number("low", None, -_FARTHEST, _FARTHEST)
    high = fields.number("high", None, -_FARTHEST, _FARTHEST)
    step = None
    if fields.plain_data("step") is not None:
        step = fields.number("step", None, 0, _FARTHEST)

    if low >= high:
        raise fields.error("high", f"{high:g} is not above low, {low:g}")
    if step is not None and not (step and on_scale(Scale(low, high, step), high)):
        raise fields.error("step", f"steps of {step:g} do not lead from {low:g} to {high:g}")

    return Scale(low, high, step)


def _fields_of(scale: Scale) -> dict[str, float]:
    """Return a scale as plain data; whole numbers without a point."""
    fields: dict[str, float] = {}
    for name, number in (("low", scale.low), ("high", scale.high), ("step", scale.step)):
        if number is not None:
            fields[name] = int(number) if float(number).is_integer() else float(number)

    return fields
