"""A YAML file as plain data, with the line of every value."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ...datasets.errors import InputError, unknown
from ...datasets.reading.json_files import read_text
from ...datasets.reading.yaml_fields import MalformedYamlError, compose_yaml


def parse_scalar(text: str) -> Any:
    """Return the value of a word without quotes: as in JSON, else a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class YamlTree:
    """A YAML file as plain data, with the line of every value.

    Raises:
        InputError: where it is no YAML, or uses more of it than a baseline has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], int] = {(): 1}
        self._nodes: set[int] = set()
        text = read_text(path)
        try:
            root = compose_yaml(text)
            self.plain = {} if root is None else self._plain(root, ())
        except MalformedYamlError as error:
            raise self._broken(error.problem, error.line) from error
        except RecursionError as error:
            raise self._broken("nested too deeply", 1) from error

    def _broken(self, problem: str, line: int) -> InputError:
        problem = " ".join(problem.split())
        return InputError(
            f"{self.path}:{line}: not a valid baseline ({problem}); mend the line, or take the file anew from "
            f"version control"
        )

    def _plain(self, node: yaml.Node, key_path: tuple[str, ...]) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(key_path, line)
        if id(node) in self._nodes:
            raise self._broken("an alias of YAML, which baselines do not have", line)
        self._nodes.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return parse_scalar(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(child, (*key_path, str(i))) for i, child in enumerate(node.value)]
        mapping: dict[str, Any] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._broken("a key that is not a text", line)
            key = key_node.value
            if key in mapping:
                raise self._broken(f"'{key}' appears twice", line)
            self.lines[*key_path, key] = line
            mapping[key] = self._plain(value, (*key_path, key))
        return mapping

    def fail(self, key_path: tuple[str, ...], problem: str) -> InputError:
        """Return the error at a value, or at what should hold a missing one."""
        while key_path not in self.lines:
            key_path = key_path[:-1]
        return self._broken(problem, self.lines[key_path])

    def get(self, *key_path: str, kind: type | tuple[type, ...]) -> Any:
        """Return a value of a kind; an int passes for a float, a bool never for a number."""
        value: Any = self.plain
        for depth, key in enumerate(key_path):
            if not isinstance(value, dict):
                raise self.fail(
                    key_path[:depth], f"{'.'.join(key_path[:depth]) or 'all'} has no keys"
                )
            if key not in value:
                raise self.fail(key_path[:depth], f"'{key}' is missing")
            value = value[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if isinstance(value, int) and float in kinds and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**1000 else math.inf
        if not isinstance(value, kinds) or (
            isinstance(value, bool) and not {bool, object} & set(kinds)
        ):
            expected = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
            raise self.fail(key_path, f"{key_path[-1]} is {describe_value(value)}, not {expected}")
        return value

    def keys(self, *key_path: str, expected_keys: Sequence[str] | None = None) -> list[str]:
        """List the keys of a mapping, after checking that they are the expected ones, if given."""
        keys = list(self.get(*key_path, kind=dict)) if key_path else list(self.plain)
        if expected_keys is None:
            return keys
        for key in keys:
            if key not in expected_keys:
                raise self.fail((*key_path, key), str(unknown("key", key, expected_keys)))
        for key in expected_keys:
            self.get(*key_path, key, kind=object)
        return keys

    def number(self, *key_path: str) -> float:
        """Return a number; null is NaN."""
        value = self.get(*key_path, kind=(float, type(None)))
        if value is not None and math.isnan(value):
            raise self.fail(key_path, f"{key_path[-1]} is NaN; write null for what is undefined")
        return math.nan if value is None else value

    def count(self, *key_path: str) -> int:
        """Return a whole number from 0 on."""
        value = self.get(*key_path, kind=int)
        if value < 0:
            raise self.fail(
                key_path, f"{key_path[-1]} is {value}; a whole number from 0 on is expected"
            )
        return value

    def texts(self, *key_path: str) -> tuple[str, ...]:
        """Return a list of texts."""
        count = len(self.get(*key_path, kind=list))
        return tuple(self._entry(key_path, i) for i in range(count))

    def _entry(self, key_path: tuple[str, ...], index: int) -> str:
        value = self.get(*key_path, kind=list)[index]
        if not isinstance(value, str):
            raise self.fail(
                (*key_path, str(index)), f"{key_path[-1]} holds {describe_value(value)}, not a text"
            )
        return value

    def choice(self, *key_path: str, choices: Sequence[str]) -> str:
        """Return one of several words."""
        value = self.get(*key_path, kind=str)
        if value not in choices:
            raise self.fail(key_path, str(unknown(key_path[-1], value, choices)))
        return value


def describe_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
