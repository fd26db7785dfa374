"""The types of the fields of run.json that readers of finished runs use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ..statistics.bootstrap import StatisticsOptions

_TEXT, _NUMBER, _NONE = (str,), (int, float), (type(None),)
#: Types by path; `*` stands for any name or position. A path that ends in `!` must be there.
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "config!": (dict,),
    "config.statistics": (dict, *_NONE),
    "protocols": (dict,),
    "protocols.*": (dict,),
    "protocols.*.name!": _TEXT,
    "protocols.*.dimension": (list,),
    "protocols.*.dimension.*": _TEXT,
    "protocols.*.ratings!": _TEXT,
    "protocols.*.coefficients!": (list,),
    "protocols.*.coefficients.*": _TEXT,
    "protocols.*.systems": (list, *_NONE),
    "protocols.*.systems.*": _TEXT,
    "protocols.*.split": (*_TEXT, *_NONE),
    "signatures": (dict,),
    "signatures.*": _TEXT,
    "data": (dict,),
    "data.*": (dict,),
    "data.*.digest!": _TEXT,
    "data.*.revision!": _TEXT,
    "data.*.title!": _TEXT,
    "data.*.synthetic!": (bool,),
    "data.*.files": (dict,),
    "data.*.files.*": _TEXT,
    "data.*.licence": _TEXT,
    "data.*.citation!": _TEXT,
    "data.*.scales": (dict,),
    "data.*.scales.*": (dict,),
    "data.*.scales.*.low!": _NUMBER,
    "data.*.scales.*.high!": _NUMBER,
    "data.*.scales.*.step": (*_NUMBER, *_NONE),
    "data.*.faults": (list,),
    "data.*.faults.*": _TEXT,
    "versions!": (dict,),
    "versions.captau!": _TEXT,
    "versions.*": _TEXT,
    "metrics": (dict,),
    "metrics.*": (dict,),
    "metrics.*.label!": _TEXT,
    "metrics.*.order!": _NUMBER,
    "metrics.*.scale!": _NUMBER,
    "metrics.*.decimals!": (int,),
    "metrics.*.note!": _TEXT,
    "metrics.*.kind!": _TEXT,
    "metrics.*.higher_is_better!": (bool,),
    "metrics.*.citation!": _TEXT,
    "floors": (dict,),
    "floors.*": _TEXT,
    "ceilings": (dict,),
    "ceilings.*": _TEXT,
    "missing": (dict,),
    "missing.*": (dict,),
    "missing.*.*": _TEXT,
    "unfinished": (list,),
    "unfinished.*": _TEXT,
    "files": (dict,),
    "files.*": _TEXT,
}


def check_record(record: Mapping[str, Any], path: Path, *, has_correlations: bool) -> None:
    """Check the fields of a run.json.

    Args:
        record: its content.
        path: the file, for messages.
        has_correlations: whether it must have `protocols`, `signatures` and `data` by dataset; a run of
            `score` must have `signatures`, `metrics` and the options of its tests.

    Raises:
        InputError: where a field is missing, or of another type.
    """
    is_score = record["command"] == "score"
    required = {"signatures", "metrics", "config.statistics"} if is_score else set[str]()
    if has_correlations:
        required = {"protocols", "data", "signatures"}
    for marked_path, types in _FIELD_TYPES.items():
        field_path = marked_path.removesuffix("!")
        if field_path.startswith("data.") and is_score:
            continue
        if field_path == "config.statistics" and is_score:
            types = (dict,)
        is_required = marked_path.endswith("!") or field_path in required
        for name, value in _find_values(record, field_path.split("."), is_required):
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                expected = " or ".join("null" if t is type(None) else t.__name__ for t in types)
                problem = "is missing" if value is _MISSING else f"is {value!r:.60}, not {expected}"
                raise InputError(f"{path}: {name} {problem}; the file was edited; run it again")
    try:
        StatisticsOptions(**record["config"].get("statistics") or {})
    except TypeError as error:
        raise InputError(f"{path}: config.statistics: {error}; run it again") from error


_MISSING = object()


def _find_values(
    value: Any, keys: list[str], is_required: bool, prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a path with their names; `_MISSING` where the last key of a required one is absent."""
    if not keys:
        yield prefix.removeprefix("."), value
        return
    key, *rest = keys
    if key == "*":
        children = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for name, child in children:
            yield from _find_values(child, rest, is_required, f"{prefix}.{name}")
    elif isinstance(value, dict) and key in value:
        yield from _find_values(value[key], rest, is_required, f"{prefix}.{key}")
    elif isinstance(value, dict) and is_required and not rest:
        yield f"{prefix}.{key}".removeprefix("."), _MISSING
