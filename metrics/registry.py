"""The registry of metrics, and the parser of what a person types for one.

A module under `metrics/`, at any depth, puts `@register("name")` over its class; so does a module of another
package that the entry-point group `captau.metrics` names. A person types the name, with the parameters that
differ from their defaults in brackets: `cider`, `cider(variant=plain)`, `file(path=scores.csv,name=Mine)`.
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
from pathlib import Path
from typing import Any

from ..datasets.errors import InputError, unknown
from ..datasets.plugins import import_plugins
from .base import Metric, MetricClass
from .spec_text import plain_name, spell_out, split_at_commas

_METRICS: dict[str, tuple[type[Metric], dict[str, Any]]] = {}
_REGISTRATION = re.compile(r'^@register\("(\w+)"', re.MULTILINE)
_SPEC = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


def register(name: str, **fixed: Any) -> Callable[[MetricClass], MetricClass]:
    """Register a metric class under a name, with the fields that the name fixes.

    The class gets a property `name` with it, unless it has a property or a field of that name. A class that is
    defined again, as in a notebook, takes the place of the one before.
    """

    def decorate(cls: MetricClass) -> MetricClass:
        before = _METRICS[name][0] if name in _METRICS else cls
        is_same = (before.__module__, before.__qualname__) == (cls.__module__, cls.__qualname__)
        if not is_same or _own_modules().get(name, cls.__module__) != cls.__module__:
            raise ValueError(f"metric {name} is registered twice")

        _METRICS[name] = (cls, fixed)
        if not hasattr(cls, "name") and "name" not in cls.__dataclass_fields__:
            setattr(cls, "name", property(_find_own_name))  # noqa: B010 - a property is no str
        return cls

    return decorate


@cache
def import_modules(package: str) -> None:
    """Import the modules of a package and of the packages in it, so that they register their classes.

    Modules whose name begins with `_` register nothing and are left alone: they may import heavy libraries.
    """
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if "._" not in module.name:
            importlib.import_module(module.name)


@cache
def _own_modules() -> dict[str, str]:
    """Map each name that captau registers to its module.

    The sources are read rather than imported, since a command needs few of some fifty modules.
    """
    root = Path(__file__).parent
    modules: dict[str, str] = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join([__package__ or "", *parts])
        names = _REGISTRATION.findall(path.read_text(encoding="utf-8"))
        modules |= dict.fromkeys(names, module)

    return modules


def metric_names() -> list[str]:
    """List the registered metrics, sorted."""
    import_plugins("captau.metrics")
    return sorted({*_own_modules(), *_METRICS})


#: What others call metrics: `cider` is CIDEr-D unless a variant is named.
_SYNONYMS = {"cider_d": "cider", "ciderd": "cider"}


def find_metric_name(name: str) -> str | None:
    """Return the registered name for one as tables have it, such as `BLEU-4`; None for an unknown one."""
    plain = plain_name(name)
    spellings = (name, plain, _SYNONYMS.get(plain, plain))
    # captau's own names are known without looking for plugins, which takes longer.
    for spelling in spellings:
        if spelling in _own_modules():
            return spelling

    return next((spelling for spelling in spellings if spelling in metric_names()), None)


def metric_class(name: str) -> tuple[type[Metric], dict[str, Any]]:
    """Return the class of a registered name, and the fields that the name fixes."""
    if name not in _METRICS:
        importlib.import_module(_own_modules()[name])
    return _METRICS[name]


def registered_name(metric: Metric) -> str | None:
    """Return the name that a metric's class is registered under; None for a class from elsewhere."""
    return _find_name(type(metric), metric)


def recipe_of(metric: Metric) -> str | None:
    """Return the spec that makes a metric, whatever results call it; None for one that Python code gave."""
    name = registered_name(metric)
    if metric.origin or name is None:
        return metric.origin or None

    # A metric that goes by a name of its own still has the spec that any metric has.
    spec: Any = Metric.spec.fget  # pyright: ignore[reportAttributeAccessIssue]
    return f"{name}{spec(metric).removeprefix(metric.name)}"


def _find_name(cls: type, metric: Metric) -> str | None:
    for name, (registered, fixed) in _METRICS.items():
        if registered is not cls:
            continue
        values = {field: getattr(metric, field) for field in fixed}
        if values == dict(fixed):
            return name

    return None


def _find_own_name(metric: Metric) -> str:
    """Return the name that a metric's class, or a class that it extends, is registered under."""
    names = (_find_name(cls, metric) for cls in type(metric).__mro__)
    return next(filter(None, names), type(metric).__name__)


def metric(spec: str) -> Metric:
    """Make a metric of what is typed; Python code that it names is not loaded, as `external.metric` does.

    Args:
        spec: the metric's name (`bleu_4`, or `BLEU-4`), and parameters in brackets; or what `spell_out` takes.

    Raises:
        InputError: if a name or parameter is unknown, a parameter has the wrong type, or brackets do not match.

    Example:
        >>> metric("cider(variant=plain)").score([
        ...     {"caption": "a dog runs", "references": ["a dog runs fast"]},
        ...     {"caption": "a cat", "references": ["a dog"]},
        ... ]).round(4).tolist()
        [5.3033, 0.0]
    """
    if not isinstance(spec, str):
        raise InputError(f"metric {spec!r}: a name is expected, such as 'cider'")

    match = _SPEC.fullmatch(spell_out(spec))
    if match is None:
        raise InputError(f"metric '{spec}': a name is expected, or name(parameter=value,…)")

    name = find_metric_name(match.group(1))
    inside = match.group(2) or ""
    if name is None:
        raise unknown("metric", match.group(1), metric_names())

    cls, fixed = metric_class(name)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for field in dataclasses.fields(cls):
        # What the name fixes is no parameter.
        if field.name not in fixed:
            fields[field.name] = field
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for position, (key, text) in enumerate(split_parameters(inside, spec)):
        # The first parameter needs no name.
        if key is None:
            if position or not fields:
                raise InputError(f"metric '{spec}': '{text}' is not of the form parameter=value")
            positional = [field.name for field in fields.values() if not field.kw_only]
            key = positional[0] if positional else ""
        if key not in fields:
            raise unknown(f"parameter of metric {name}", key, fields)
        if key in values:
            raise InputError(f"metric '{spec}': the parameter {key} is given twice")
        values[key] = _parse_value(text, hints[key], f"metric '{spec}': {key}")

    for field in fields.values():
        if field.default is dataclasses.MISSING and field.name not in values:
            raise InputError(f"metric '{spec}': the parameter {field.name} is needed")

    return cls(**fixed, **values)


def split_parameters(inside: str, spec: str) -> list[tuple[str | None, str]]:
    """Split the inside of a spec's brackets into names and values.

    `a=1,b='x,y'` gives `[("a", "1"), ("b", "'x,y'")]`: commas inside quotes or brackets do not split.

    Raises:
        InputError: if quotes or brackets do not match.
    """
    parts = split_at_commas(inside)
    if parts is None:
        raise InputError(f"metric '{spec}': quotes or brackets do not match")

    parameters: list[tuple[str | None, str]] = []
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key.strip().isidentifier():
            parameters.append((key.strip(), value.strip()))
        elif part.strip():
            parameters.append((None, part.strip()))

    return parameters


def _parse_value(text: str, hint: Any, label: str) -> Any:
    """Convert `text` to the type that the field's annotation asks for."""
    kinds = typing.get_args(hint) or (hint,)
    literals = [kind for kind in kinds if isinstance(kind, str)]
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    bare = text[1:-1] if is_quoted else text

    if literals:
        if bare not in literals:
            raise unknown(f"value ({label})", bare, literals)
        return bare

    if text.lower() in ("none", "null") and type(None) in kinds:
        return None
    if bool in kinds and bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    for kind in (int, float):
        number = _parse_number(bare, kind) if kind in kinds else None
        if number is not None:
            return number
    if str in kinds:
        return bare

    names = [getattr(kind, "__name__", str(kind)) for kind in kinds]
    expected = " or ".join(names)
    raise InputError(f"{label} is '{text}', not {expected}")


def _parse_number(text: str, kind: type[int] | type[float]) -> int | float | None:
    try:
        value = kind(text)
    except ValueError:
        return None

    return value if isinstance(value, int) or math.isfinite(value) else None
