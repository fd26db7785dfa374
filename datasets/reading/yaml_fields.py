"""A YAML file read field by field; errors name the file, the line and the field.

PyYAML's nodes know their lines, as ruamel.yaml's do, which is slower and bounds neither aliases nor nesting either.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import yaml

from ..errors import InputError, unknown

#: The deepest nesting; the most values, each counted as often as aliases repeat it; and the most characters.
MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_CHARACTERS = 2_000_000


class MalformedYamlError(ValueError):
    """A text is no YAML.

    Attributes:
        problem: what is wrong, in one line.
        line: where, from 1.
    """

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"{line}: {problem}")
        self.problem = problem
        self.line = line


class _BoundedLoader(yaml.SafeLoader):
    """A loader that ends at too many values, before they have taken seconds and memory."""

    n_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise MalformedYamlError("too many values", self.line + 1)

        return super().compose_node(parent, index)


def compose_yaml(text: str) -> yaml.Node | None:
    """Return the root node of a text; None where it is empty.

    Raises:
        MalformedYamlError: where it is no YAML.
    """
    if len(text) > MAX_CHARACTERS:
        raise MalformedYamlError(f"more than {MAX_CHARACTERS:,} characters", 1)

    try:
        root = yaml.compose(text, Loader=_BoundedLoader)
        _check_size(root)
        return root
    except yaml.MarkedYAMLError as error:
        mark = cast("yaml.Mark", error.problem_mark)  # which all errors of a text have
        raise MalformedYamlError(" ".join(str(error.problem).split()), mark.line + 1) from error
    except yaml.reader.ReaderError as error:
        # Of a text that was decoded already, the position is that of a character.
        line = text.count("\n", 0, error.position) + 1
        problem = f"YAML does not allow the character U+{error.character:04X}; take it out"
        raise MalformedYamlError(problem, line) from error
    except RecursionError as error:
        raise MalformedYamlError("nested too deeply", 1) from error


def _check_size(root: yaml.Node | None) -> None:
    """Check that a text is nested as people nest, aliases followed, so that readers may recurse and quote it.

    Raises:
        MalformedYamlError: where it is nested too deeply, or aliases make it too large.
    """
    nodes = [] if root is None else [(root, 0)]
    n_nodes = 0

    while nodes:
        node, depth = nodes.pop()
        n_nodes += 1
        if depth > MAX_DEPTH:
            line = node.start_mark.line + 1
            raise MalformedYamlError("nested too deeply, or recursive", line)
        if n_nodes > MAX_NODES:
            raise MalformedYamlError("too many values", node.start_mark.line + 1)

        if isinstance(node, yaml.SequenceNode):
            nodes += [(child, depth + 1) for child in node.value]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                nodes += [(key, depth + 1), (value, depth + 1)]


#: Characters that show nothing, or hide what is there: controls, halves of surrogate pairs, and those that
#: turn the direction of the text after them.
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class YamlFields:
    """The fields of one mapping of a YAML file; fields that were never read count as unknown.

    The methods that read a field raise `InputError` if its value is not of their type.

    Args:
        node: the mapping as YAML's composer returns it; None if it is missing.
        file: the file's name, for messages.
        prefix: the names of the mappings around it, dotted.
    """

    def __init__(self, node: yaml.Node | None, file: str, prefix: str = "") -> None:
        self._file = file
        self._prefix = prefix
        self._line = node.start_mark.line + 1 if node else 1
        self._nodes: dict[str, tuple[int, yaml.Node]] = {}
        self._sections: dict[str, YamlFields] = {}
        self._names_read: set[str] = set()

        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{file}:{self._line}: {prefix or 'the file'}: fields are expected")

        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in self._nodes:
                raise InputError(
                    f"{file}:{line}: {self._dotted(name)} appears twice; keep one of them"
                )
            self._nodes[name] = (line, value)

    @classmethod
    def parse(cls, text: str, file: str) -> YamlFields:
        """Parse the text of a whole file.

        Raises:
            InputError: if it is not YAML.
        """
        try:
            node = compose_yaml(text)
        except MalformedYamlError as error:
            raise InputError(f"{file}:{error}") from error

        return cls(node, file)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that stand there, read or not."""
        return tuple(self._nodes)

    @property
    def location(self) -> str:
        """File and line of the mapping."""
        return f"{self._file}:{self._line}"

    def location_of(self, name: str) -> str:
        """File and line of a field, and its name; of a field that is missing, the line of the mapping."""
        line, _ = self._nodes.get(name, (self._line, None))
        return f"{self._file}:{line}: {self._dotted(name)}"

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

        hidden = INVISIBLE.search(str(value))
        if hidden:
            code = f"U+{ord(hidden[0]):04X}"
            raise self.error(name, f"the character {code} is not shown; take it out")

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
        return {name: self.text(name) for name in self._nodes}

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
            node = self._nodes[name][1] if name in self._nodes else None
            self._sections[name] = YamlFields(node, self._file, self._dotted(name))
        return self._sections[name]

    def sections(self, name: str) -> Iterator[YamlFields]:
        """Yield the fields of each mapping of a list."""
        if not self._has_value(name):
            return
        _, node = self._nodes[name]
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(name, "a list is expected: lines that begin with '- '")
        for number, entry in enumerate(node.value, start=1):
            yield YamlFields(entry, self._file, f"{self._dotted(name)}[{number}]")

    def is_list(self, name: str) -> bool:
        """Return whether a field holds a list."""
        return name in self._nodes and isinstance(self._nodes[name][1], yaml.SequenceNode)

    def reject_unknown(self) -> None:
        """Check that every field of the mapping, and of its sections, has been read.

        Raises:
            InputError: on a field that nothing has read.
        """
        for section in self._sections.values():
            section.reject_unknown()

        for name in self._nodes:
            # A misspelt field would have no effect, in silence.
            if name not in self._names_read:
                raise self.error(name, str(unknown("field", name, self._names_read)))

    def _dotted(self, name: str) -> str:
        if not self._prefix:
            return name

        return f"{self._prefix}.{name}"

    def _has_value(self, name: str) -> bool:
        self._names_read.add(name)
        if name not in self._nodes:
            return False
        node = self._nodes[name][1]
        return not (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"))

    def _value(self, name: str, default: Any) -> Any:
        if not self._has_value(name):
            if default is None:
                raise self.error(name, "this field is required")
            return default

        _, node = self._nodes[name]
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error(name, str(error).splitlines()[0]) from error


def read_yaml_fields(path: Path) -> YamlFields:
    """Read the fields of a file.

    Raises:
        InputError: if it cannot be read, or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error

    return YamlFields.parse(text, str(path))


def _is_count(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
