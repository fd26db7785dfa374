"""Which metrics there are, and how one is made from what a person types.

A metric registers itself: a module under `metrics/` puts `@register("name")` over its class. What a
person types is the name, with parameters in brackets where they differ from the defaults:
`cider`, `cider(variant=plain)`, `file(path=scores.csv,name=Mine)`.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import re
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from ..datasets.errors import InputError, unknown
from .base import Metric, MetricClass

_METRICS: dict[str, tuple[type[Metric], dict[str, Any]]] = {}
_SPEC = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


def register(name: str, **fixed: Any) -> Callable[[MetricClass], MetricClass]:
    """Register a metric class under a name, with the fields that the name fixes."""

    def decorate(cls: MetricClass) -> MetricClass:
        if name in _METRICS:
            raise ValueError(f"metric {name} is registered twice")
        _METRICS[name] = (cls, fixed)
        return cls

    return decorate


@cache
def import_modules(package: str) -> None:
    """Import the modules of a package, which register what they hold.

    One whose name begins with `_` holds nothing of the kind and may import what is heavy.
    """
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if "._" not in module.name:
            importlib.import_module(module.name)


def _discover() -> None:
    import_modules(__package__ or "")


def metric_names() -> list[str]:
    """The registered metrics, sorted."""
    _discover()
    return sorted(_METRICS)


def registered_name(one: Metric) -> str | None:
    """The name that a metric's class is registered under; None for a class from elsewhere."""
    _discover()
    for name, (cls, fixed) in _METRICS.items():
        if type(one) is cls and all(getattr(one, k) == v for k, v in fixed.items()):
            return name
    return None


def metric(spec: str) -> Metric:
    """Make a metric.

    Args:
        spec: its name, with parameters in brackets where they differ from the defaults.

    Raises:
        InputError: on an unknown name or parameter (with the nearest known ones), a parameter of
            the wrong type, or brackets that do not match.
    """
    _discover()
    if not isinstance(spec, str):
        raise InputError(f"metric {spec!r}: a name is expected, such as 'cider'")
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InputError(f"metric '{spec}': a name is expected, or name(parameter=value,…)")
    name, inside = match.group(1), match.group(2)
    if name not in _METRICS:
        raise unknown("metric", name, _METRICS)
    cls, fixed = _METRICS[name]
    fields = {f.name: f for f in dataclasses.fields(cls) if f.name not in fixed}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for position, (key, text) in enumerate(split_parameters(inside or "", spec)):
        if key is None:
            if position or not fields:
                raise InputError(f"metric '{spec}': '{text}' is no parameter=value")
            key = next(iter(fields))
        if key not in fields:
            raise unknown(f"parameter of metric {name}", key, fields)
        if key in values:
            raise InputError(f"metric '{spec}': the parameter {key} is given twice")
        values[key] = _value(text, hints[key], f"metric '{spec}': {key}")
    lacking = [
        f.name for f in fields.values() if f.default is dataclasses.MISSING and f.name not in values
    ]
    if lacking:
        raise InputError(f"metric '{spec}': the parameter {lacking[0]} is needed")
    return cls(**fixed, **values)


def split_parameters(inside: str, spec: str) -> list[tuple[str | None, str]]:
    """`a=1,b='x,y'` → `[("a", "1"), ("b", "'x,y'")]`; commas within quotes or brackets stay.

    Raises:
        InputError: where quotes or brackets do not match.
    """
    parts, depth, quote = [""], 0, ""
    for char in inside:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if depth < 0:
            break
        if char == "," and not quote and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if quote or depth:
        raise InputError(f"metric '{spec}': quotes or brackets do not match")
    out: list[tuple[str | None, str]] = []
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key.strip().isidentifier():
            out.append((key.strip(), value.strip()))
        elif part.strip():
            out.append((None, part.strip()))
    return out


def _value(text: str, hint: Any, where: str) -> Any:
    """`text` as the type that the field's annotation asks for."""
    kinds = typing.get_args(hint) or (hint,)
    literals = [k for k in kinds if isinstance(k, str)]
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if literals:
        if bare not in literals:
            raise unknown(f"value ({where})", bare, literals)
        return bare
    if text.lower() in ("none", "null") and type(None) in kinds:
        return None
    if bool in kinds and bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    for kind in (int, float):
        if kind in kinds and (number := _number(bare, kind)) is not None:
            return number
    if str in kinds:
        return bare
    wanted = " or ".join(getattr(k, "__name__", str(k)) for k in kinds)
    raise InputError(f"{where} is '{text}', not {wanted}")


def _number(text: str, kind: type[int] | type[float]) -> int | float | None:
    try:
        value = kind(text)
    except ValueError:
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None
