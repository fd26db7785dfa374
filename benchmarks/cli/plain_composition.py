"""Composition of plain options without Hydra, whose import and composition take as long as a short run.

A plain override is `key=value` with a name, a number, a text in quotes, true, false, null, or a list of these.
`compose_plainly` makes of such overrides what Hydra would. Everything else, and with it every error, is left to Hydra
(`hydra_runner`): sweeps, dictionaries, interpolations, values of a type that the option does not have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, get_args, get_origin

from ...conf import CONFIG_DIR, shipped_names
from ..options.declaration import NEEDED, Composed, Option
from ..options.shared import PROTOCOL, names_of
from ..scoring.catalog import read_config
from .command import Command

_QUOTED = r"'[^'\"\\$?]*'|\"[^'\"\\$?]*\""
_BARE = r"[\w./-]+"
_VALUE = re.compile(f"{_QUOTED}|{_BARE}", re.ASCII)
_LIST = re.compile(rf"\[(?:{_QUOTED}|{_BARE})(?:,(?:{_QUOTED}|{_BARE}))*\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*(?:[./-]\w+)*", re.ASCII)
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_CONSTANTS = {"true": True, "false": False, "null": None}
#: Hydra's special words, whose capitals do not count.
_RESERVED = {*_CONSTANTS, "nan", "inf"}


class _NotPlainError(Exception):
    """Sign that Hydra has to compose the options."""


def compose_plainly(command: Command, overrides: Sequence[str]) -> Composed | None:
    """Compose overrides as Hydra would; return None where it takes Hydra."""
    parts = [override.partition("=") for override in overrides]
    typed = {key: value for key, _, value in parts}
    if len(typed) < len(parts) or os.environ.get(CONFIG_DIR):
        return None
    try:
        values = {key: _read_value(text) for key, text in typed.items()}
        return Composed(_compose(command, values), frozenset(typed))
    except _NotPlainError:
        return None


def _read_value(text: str) -> Any:
    """Return the value of a plain override, as Hydra's grammar reads it.

    Raises:
        _NotPlainError: where the value is not plain.
    """
    if _LIST.fullmatch(text):
        return [_read_scalar(element) for element in _VALUE.findall(text)]
    return _read_scalar(text)


def _read_scalar(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if _DECIMAL_NUMBER.fullmatch(text):
        return float(text)
    if _VALUE.fullmatch(text) and text[0] in "'\"":
        return text[1:-1]
    if _NAME.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    raise _NotPlainError


def _compose(command: Command, typed: dict[str, Any]) -> dict[str, Any]:
    """Return defaults, the chosen files of config groups, and typed values, which win, as nested mappings."""
    options = {option.key: option for option in command.options.declared()}
    groups = {
        o.config_group: typed.pop(key, o.default) for key, o in options.items() if o.config_group
    }
    datasets, protocol = groups.pop("dataset", None), groups.pop("protocol", None)
    if typed.keys() - options.keys() or "rater" in groups or any(groups.values()):
        raise _NotPlainError
    values = {key: option.default for key, option in options.items() if not option.config_group}
    if protocol is not None:
        values |= {f"protocol.{name}": v for name, v in _read_group("protocol", protocol).items()}
    values |= typed
    if values.keys() - options.keys():
        raise _NotPlainError
    composed = _nest((key, _checked(options[key], value)) for key, value in values.items())
    if datasets is not None:
        composed["datasets"] = {name: _read_dataset(name) for name in names_of(datasets)}
    return composed


def _nest(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by dotted key as nested mappings."""
    nested: dict[str, Any] = {}
    for key, value in values:
        *parents, name = key.split(".")
        branch = nested
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return nested


def _read_dataset(name: str) -> dict[str, Any]:
    """Return a file of `conf/dataset/` with every option of a protocol, in the order of `DatasetSchema`."""
    file = _read_group("dataset", name)
    if file.keys() != {"protocol"}:
        raise _NotPlainError
    values = {f"protocol.{option}": value for option, value in file["protocol"].items()}
    if values.keys() - {option.key for option in PROTOCOL}:
        raise _NotPlainError
    return _nest((o.key, _checked(o, values.get(o.key, o.default))) for o in PROTOCOL)


def _read_group(group_name: str, name: Any) -> dict[str, Any]:
    if name not in shipped_names(group_name):
        raise _NotPlainError
    return read_config(group_name, name)


def _checked(option: Option, value: Any) -> Any:
    """Return a copy of a value that Hydra would neither convert to an option's type nor refuse.

    Raises:
        _NotPlainError: where it would.
    """
    origin, kinds = get_origin(option.type), get_args(option.type) or (option.type,)
    if value is option.default:
        if value == NEEDED:
            raise _NotPlainError
        return float(value) if type(value) is int and float in kinds else deepcopy(value)
    if isinstance(value, list):
        fits = option.type is Any or (origin is list and {*map(type, value)} <= {*kinds})
    else:
        is_scalar = origin not in (list, dict) and not isinstance(option.default, list)
        fits = is_scalar and (option.type is Any or type(value) in kinds)
    if not fits:
        raise _NotPlainError
    return value
