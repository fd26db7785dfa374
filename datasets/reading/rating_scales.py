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
the ratings were collected; all three may be left out. A file with none of the four fields holds something else, such as the
baseline that `captau check` wrote under the name of the table, and is not read.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from ..errors import InputError
from ..schema import Scale
from .yaml_document import YamlDocument

if TYPE_CHECKING:
    from .scales_model import ScalesFile

#: The fields of the file.
_FIELDS = ("scales", "totals", "faults", "conditions")
_FIELDS_OF_SCALE = {"low", "high", "step"}
#: How YAML is written: as people write it, without lines being broken.
_STYLE: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": float("inf")}


def scales_path(table: Path) -> Path:
    """Return where the scales of a table lie."""
    return table.with_suffix(".yaml")


def has_scales_file(table: Path) -> bool:
    """Tell whether a file of scales lies beside a table.

    Raises:
        InputError: where a file of that name is no YAML.
    """
    return _read_document(table) is not None


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
    file = _read(table)
    if file is None:
        return {}

    scales = file.scales.scales
    if not scales:
        raise file.error(
            "scales", "it is empty; write for each dimension NAME: {low: 1, high: 5, step: 1}"
        )

    for key, dimensions in (("totals", file.totals), ("faults", file.faults)):
        for dimension in dimensions:
            if dimension not in scales:
                raise file.error(key, f"'{dimension}' has no scale above; add it there")

    return scales


def format_conditions(conditions: Mapping[str, str]) -> str:
    """Return the lines of a file of scales that have the conditions; empty without any."""
    if not conditions:
        return ""

    return yaml.safe_dump({"conditions": dict(conditions)}, **_STYLE)


def read_table_conditions(table: Path) -> dict[str, str]:
    """Return how the ratings of a table were collected, as the file of its scales says; empty without such a file."""
    file = _read(table)
    return {} if file is None else file.conditions.texts


def read_dimensions(table: Path, key: Literal["totals", "faults"]) -> tuple[str, ...]:
    """Return the dimensions that the file of a table's scales names under a key; none without such a file."""
    file = _read(table)
    if file is None:
        return ()

    return tuple(file.totals if key == "totals" else file.faults)


def scales_of_option(value: Any, key: str) -> dict[str, Scale]:
    """Return the scales by dimension that an option holds, as the file does below `scales`.

    Raises:
        InputError: where it is anything else.
    """
    # Pydantic takes a while to import, and most tables have no scales beside them.
    from pydantic import ValidationError

    from .scales_model import ScalesByDimension

    try:
        return ScalesByDimension.model_validate(value).scales
    except ValidationError as error:
        raise InputError(
            f"{key} is {value!r}; {{DIMENSION: {{low: 1, high: 5, step: 1}}}} is expected"
        ) from error


def _read(table: Path) -> ScalesFile | None:
    """Return the content of the file of a table's scales; None where there is none."""
    document = _read_document(table)
    if document is None:
        return None

    from .scales_model import ScalesFile
    from .yaml_model import validate

    return validate(document, ScalesFile)


def _read_document(table: Path) -> YamlDocument | None:
    """Return the file of a table's scales; None where there is none, or a file of something else."""
    path = scales_path(table)
    if not path.is_file():
        return None

    document = YamlDocument.read(path)
    return document if _is_of_scales(document.plain) else None


def _is_of_scales(content: Any) -> bool:
    """Tell whether a file under a table's name is one of scales.

    It is empty, or has a field of theirs, possibly misspelt, or the scale of a dimension above which the field is missing.
    """
    if not isinstance(content, dict):
        return False

    for key, value in content.items():
        if difflib.get_close_matches(str(key), _FIELDS, n=1, cutoff=0.8):
            return True
        # Else the scale would be guessed from the ratings in silence.
        if isinstance(value, dict) and {"low", "high"} <= value.keys() <= _FIELDS_OF_SCALE:
            return True
    return not content


def _fields_of(scale: Scale) -> dict[str, float]:
    """Return a scale as plain data; whole numbers without a point."""
    fields: dict[str, float] = {}
    for name, number in (("low", scale.low), ("high", scale.high), ("step", scale.step)):
        if number is not None:
            fields[name] = int(number) if float(number).is_integer() else float(number)

    return fields
