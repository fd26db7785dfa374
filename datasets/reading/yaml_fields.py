"""A YAML file read field by field; errors name the file, the line and the field."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown
from .yaml_document import KeyPath, YamlDocument, describe_invisible


class YamlFields:
    """The fields of one mapping of a YAML file; fields that were never read count as unknown.

    The methods that read a field raise `InputError` if its value is not of their type.

    Args:
        values: the mapping; None if it is missing.
        document: the file.
        keys: what leads to the mapping.
    """

    def __init__(self, values: Any, document: YamlDocument, keys: KeyPath = ()) -> None:
        self._document = document
        self._keys = keys
        self._sections: dict[str, YamlFields] = {}
        self._names_read: set[str] = set()
        if values is not None and not isinstance(values, dict):
            raise document.error(keys, "fields are expected")
        self._values: dict[str, Any] = values or {}

    @classmethod
    def parse(cls, text: str, file: str) -> YamlFields:
        """Parse the text of a whole file.

        Raises:
            InputError: if it is not YAML.
        """
        document = YamlDocument(text, file)
        return cls(document.plain, document)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that stand there, read or not."""
        return tuple(self._values)

    @property
    def location(self) -> str:
        """File and line of the mapping: of its first field, if it has any."""
        first = next(iter(self._values), None)
        keys = self._keys if first is None else (*self._keys, first)
        return self._document.location_of(*keys).rpartition(": ")[0]

    def location_of(self, name: str) -> str:
        """File and line of a field, and its name; of a field that is missing, the line of the mapping."""
        if name in self._values:
            return self._document.location_of(*self._keys, name)
        return f"{self.location}: {self._document.name_of((*self._keys, name))}"

    def error(self, name: str, message: str) -> InputError:
        """Return an error that names file, line and field."""
        return InputError(f"{self.location_of(name)}: {message}")

    def text(self, name: str, default: str | None = None, max_length: int = 20_000) -> str:
        """Return a text; without a default the field is required."""
        value = self._value(name, default)
        # A title such as 2024 is a number to YAML.
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.error(name, f"{value!r} is not a text")
        if len(str(value)) > max_length:
            raise self.error(
                name, f"{len(str(value)):,} characters; at most {max_length:,} are expected"
            )

        if problem := describe_invisible(str(value)):
            raise self.error(name, problem)

        return str(value)

    def optional(self, name: str) -> str | None:
        """Return a text, or None if it is missing."""
        if not self._has_value(name):
            return None

        return self.text(name)

    def choice(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        """Return a text that is one of the choices."""
        value = self.text(name, default)
        if value not in choices:
            raise self.error(name, str(unknown(name, value, choices)))
        return value

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        value = self._value(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise self.error(name, f"{value!r} is not a number from {low:g} to {high:g}")
        return float(value)

    def optional_number(self, name: str) -> float | None:
        """Return a number, or None if it is missing."""
        if not self._has_value(name):
            return None

        return self.number(name, None, -1e9, 1e9)

    def count(self, name: str, default: int | None, low: int, high: int = 1_000_000) -> int:
        """Return a whole number from `low` to `high`."""
        value = self._value(name, default)
        if not _is_count(value, low, high):
            raise self.error(name, f"{value!r} is not a whole number from {low} to {high}")
        return value

    def optional_count(self, name: str) -> int | None:
        """Return a whole number from 1 on, or None if it is missing."""
        if not self._has_value(name):
            return None

        return self.count(name, None, 1)

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"{value!r} is neither true nor false")

        return value

    def texts(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._value(name, list(default))
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(name, "a list of texts is expected")
        return tuple(value)

    def all_texts(self) -> dict[str, str]:
        """Return all fields of the mapping, each a text, by name."""
        return {name: self.text(name) for name in self._values}

    def levels(self, name: str, low: int, high: int) -> tuple[int, ...]:
        """Return whole numbers from `low` to `high`, given as one number or as a list."""
        value = self._value(name, None)
        levels = value if isinstance(value, list) else [value]
        if not levels or not all(_is_count(level, low, high) for level in levels):
            raise self.error(name, f"{value!r}: whole numbers from {low} to {high} are expected")

        return tuple(levels)

    def time(self, name: str) -> float | None:
        """Return a date or time in seconds since 1970, or None if it is missing.

        Times are UTC unless they name a zone; a date stands for the beginning of its day.
        """
        if not self._has_value(name):
            return None

        value = self._value(name, None)
        moment = None
        if isinstance(value, str | date):
            # What is no time in a text leaves none.
            with contextlib.suppress(ValueError):
                moment = datetime.fromisoformat(str(value))

        if moment is None:
            raise self.error(
                name, f"{value!r} is not a time; 2027-01-31 or 2027-01-31 12:00:00 is expected"
            )

        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)

        return moment.timestamp()

    def plain_data(self, name: str) -> Any:
        """Return a value as YAML loads it, or None if it is missing."""
        if not self._has_value(name):
            return None

        return self._value(name, None)

    def section(self, name: str) -> YamlFields:
        """Return the fields of an inner mapping; if it is missing, so are all of its fields."""
        self._names_read.add(name)
        if name not in self._sections:
            section = YamlFields(self._values.get(name), self._document, (*self._keys, name))
            self._sections[name] = section
        return self._sections[name]

    def sections(self, name: str) -> Iterator[YamlFields]:
        """Yield the fields of each mapping of a list."""
        if not self._has_value(name):
            return
        entries = self._values[name]
        if not isinstance(entries, list):
            raise self.error(name, "a list is expected: lines that begin with '- '")
        for number, entry in enumerate(entries):
            yield YamlFields(entry, self._document, (*self._keys, name, number))

    def is_list(self, name: str) -> bool:
        """Return whether a field holds a list."""
        return isinstance(self._values.get(name), list)

    def reject_unknown(self) -> None:
        """Check that every field of the mapping, and of its sections, has been read.

        Raises:
            InputError: on a field that nothing has read.
        """
        for section in self._sections.values():
            section.reject_unknown()

        for name in self._values:
            # A misspelt field would have no effect, in silence.
            if name not in self._names_read:
                raise self.error(name, str(unknown("field", name, self._names_read)))

    def _has_value(self, name: str) -> bool:
        self._names_read.add(name)
        return self._values.get(name) is not None

    def _value(self, name: str, default: Any) -> Any:
        if self._has_value(name):
            return self._values[name]
        if default is None:
            raise self.error(name, "this field is required")
        return default


def read_yaml_fields(path: Path) -> YamlFields:
    """Read the fields of a file.

    Raises:
        InputError: if it cannot be read, or is not YAML.
    """
    document = YamlDocument.read(path)
    return YamlFields(document.plain, document)


def _is_count(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
