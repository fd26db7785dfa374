"""A YAML file read field by field: whatever is wrong is said with file, line and field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

from ..datasets.errors import InputError, unknown

#: Characters that make no text, or show another than there is: controls, halves of surrogate pairs, and
#: those that turn the direction of what comes after.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Fields:
    """The fields of one mapping of a YAML file; every field has to be asked for, or is unknown.

    Args:
        node: what YAML's composer made of the mapping; None for one that is not there.
        file: the file's name, for messages.
        within: the names of the mappings around it, dotted.
    """

    def __init__(self, node: yaml.Node | None, file: str, within: str = "") -> None:
        self._file, self._within = file, within
        self._line = node.start_mark.line + 1 if node else 1
        self._nodes: dict[str, tuple[int, yaml.Node]] = {}
        self._asked: set[str] = set()
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{file}:{self._line}: {within or 'the file'}: fields are expected")
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in self._nodes:
                raise InputError(f"{file}:{line}: {self._name(name)} stands there twice; keep one")
            self._nodes[name] = (line, value)

    @classmethod
    def of(cls, text: str, file: str) -> Fields:
        """Of a whole file.

        Raises:
            InputError: where it is no YAML.
        """
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise InputError(f"{file}:{line}: {error.problem}") from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise InputError(
                f"{file}:{line}: the character U+{error.character:04X} is none of YAML's; take it out"
            ) from error
        return cls(node, file)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    @property
    def place(self) -> str:
        """File and line of the mapping."""
        return f"{self._file}:{self._line}"

    def wrong(self, name: str, what: str) -> InputError:
        """The error for a field."""
        line, _ = self._nodes.get(name, (self._line, None))
        return InputError(f"{self._file}:{line}: {self._name(name)}: {what}")

    def text(self, name: str, default: str | None = None, most: int = 20_000) -> str:
        """A text; without a default the field is needed."""
        value = self._value(name, default)
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.wrong(name, f"{value!r} is no text")
        if len(str(value)) > most:
            raise self.wrong(name, f"{len(str(value)):,} characters; at most {most:,} are expected")
        if found := UNSEEN.search(str(value)):
            raise self.wrong(name, f"the character U+{ord(found[0]):04X} is not shown; take it out")
        return str(value)

    def optional(self, name: str) -> str | None:
        """A text, or None where there is none."""
        return self.text(name) if self._given(name) else None

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """One of some words."""
        value = self.text(name, default)
        if value not in known:
            raise self.wrong(name, str(unknown(name, value, known)))
        return value

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """A number between two ends."""
        value = self._value(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise self.wrong(name, f"{value!r} is no number from {low:g} to {high:g}")
        return float(value)

    def count(self, name: str, default: int | None, low: int, high: int = 1_000_000) -> int:
        """A whole number between two ends."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"{value!r} is no whole number from {low} to {high}")
        return value

    def at_most(self, name: str) -> int | None:
        """A whole number from 1 on, or None where there is none."""
        return self.count(name, None, 1) if self._given(name) else None

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, f"{value!r} is neither true nor false")
        return value

    def texts(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of texts."""
        value = self._value(name, list(default))
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.wrong(name, "a list of texts is expected")
        return tuple(value)

    def levels(self, name: str, low: int, high: int) -> tuple[int, ...]:
        """One whole number between two ends, or a list of them."""
        value = self._value(name, None)
        found = value if isinstance(value, list) else [value]
        ok = all(isinstance(v, int) and not isinstance(v, bool) and low <= v <= high for v in found)
        if not found or not ok:
            raise self.wrong(name, f"{value!r}: whole numbers from {low} to {high} are expected")
        return tuple(found)

    def time(self, name: str) -> float | None:
        """A date or a time, in seconds since 1970, or None where there is none; UTC unless it says."""
        if not self._given(name):
            return None
        value = self._value(name, None)
        try:
            # Of a date alone it is the day's beginning.
            found = datetime.fromisoformat(str(value)) if isinstance(value, str | date) else None
        except ValueError:
            found = None
        if found is None:
            raise self.wrong(
                name, f"{value!r} is no time; 2027-01-31 or 2027-01-31 12:00:00 is expected"
            )
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def plain(self, name: str) -> Any:
        """Whatever stands there, as plain data; None where there is nothing."""
        return self._value(name, None) if self._given(name) else None

    def within(self, name: str) -> Fields:
        """The fields of a mapping inside; all are missing where it is."""
        self._asked.add(name)
        _, node = self._nodes.get(name, (0, None))
        return Fields(node, self._file, self._name(name))

    def each(self, name: str) -> Iterator[Fields]:
        """The mappings of a list."""
        self._asked.add(name)
        if not self._given(name):
            return
        _, node = self._nodes[name]
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(name, "a list is expected: lines that begin with '- '")
        for number, entry in enumerate(node.value, start=1):
            yield Fields(entry, self._file, f"{self._name(name)}[{number}]")

    def is_list(self, name: str) -> bool:
        """Whether there is a list under the name."""
        return name in self._nodes and isinstance(self._nodes[name][1], yaml.SequenceNode)

    def done(self) -> None:
        """No more fields are known.

        Raises:
            InputError: where there are others.
        """
        for name in self._nodes:
            if name not in self._asked:
                raise self.wrong(name, str(unknown("field", name, self._asked)))

    def _name(self, name: str) -> str:
        return f"{self._within}.{name}" if self._within else name

    def _given(self, name: str) -> bool:
        self._asked.add(name)
        if name not in self._nodes:
            return False
        node = self._nodes[name][1]
        return not (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"))

    def _value(self, name: str, default: Any) -> Any:
        if not self._given(name):
            if default is None:
                raise self.wrong(name, "it is needed")
            return default
        _, node = self._nodes[name]
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            raise self.wrong(name, str(error).splitlines()[0]) from error


def read_fields(path: Path) -> Fields:
    """The fields of a file.

    Raises:
        InputError: where it cannot be read, or is no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return Fields.of(text, str(path))
