"""A YAML file as plain data, with the line of every value; ruamel.yaml reads it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InputError

# ruamel.yaml takes a while to import: every command would wait for it, and most read no such file.

#: The keys and the numbers of entries (from 0) that lead to a value.
KeyPath = tuple[str | int, ...]

#: The deepest nesting; the most values and keys, each counted as often as aliases repeat it; and the most characters.
MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_CHARACTERS = 2_000_000

#: Characters that show nothing, or hide what is there: controls, halves of surrogate pairs, and those that
#: turn the direction of the text after them.
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

#: The most characters of a wrong value that a message shows.
MOST_SHOWN = 60

_TOO_DEEP = "nested too deeply, or recursive"


class YamlDocument:
    """A YAML file as plain data, with the line of every value.

    Args:
        text: the content.
        file: its name, for messages.
        remedy: what follows each error.

    Attributes:
        file: its name.
        plain: its content; an empty mapping where it is empty.
        lines: the line of each value, from 1: in a mapping that of the key.

    Raises:
        InputError: if it is not YAML, or larger or deeper than people write; with the line.
    """

    def __init__(self, text: str, file: str, remedy: str = "") -> None:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError
        from ruamel.yaml.reader import ReaderError

        self.file = file
        self._remedy = remedy
        self.lines: dict[KeyPath, int] = {(): 1}
        self._n_nodes = 0
        if len(text) > MAX_CHARACTERS:
            raise self._malformed(f"more than {MAX_CHARACTERS:,} characters", 1)

        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _bounded_composer()
        try:
            root = yaml.compose(text)
            self.plain: Any = {} if root is None else self._make_plain(root, (), yaml.constructor)
        except MarkedYAMLError as error:
            line = 1 if error.problem_mark is None else error.problem_mark.line + 1
            raise self._malformed(str(error.problem), line) from error
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            problem = f"YAML does not allow the character U+{error.character:04X}; take it out"
            raise self._malformed(problem, line) from error

    @classmethod
    def read(cls, path: Path, remedy: str = "") -> YamlDocument:
        """Read a file.

        Raises:
            InputError: if it cannot be read, or is not YAML.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error

        return cls(text, str(path), remedy)

    @property
    def location(self) -> str:
        """File and line of the first value."""
        return f"{self.file}:{self.lines[()]}"

    def line_of(self, *keys: str | int) -> str:
        """File and line of a value; of a value that is missing, the line of what should hold it."""
        present = keys
        while present not in self.lines:
            present = present[:-1]

        return f"{self.file}:{self.lines[present]}"

    def location_of(self, *keys: str | int) -> str:
        """File and line of a value, and its name."""
        return f"{self.line_of(*keys)}: {self.name_of(keys)}"

    def error(self, keys: KeyPath, message: str) -> InputError:
        """Return an error that names file, line and value."""
        return InputError(f"{self.location_of(*keys)}: {message}{self._remedy}")

    @staticmethod
    def name_of(keys: KeyPath) -> str:
        """Return the dotted name of a value, as `phases[2].name`."""
        name = "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in keys)
        return name.removeprefix(".") or "the file"

    def _malformed(self, problem: str, line: int) -> InputError:
        return InputError(f"{self.file}:{line}: {' '.join(problem.split())}{self._remedy}")

    def _make_plain(self, node: Any, keys: KeyPath, constructor: Any) -> Any:
        """Return the value of a node, and note the lines of all that is in it."""
        from ruamel.yaml import ScalarNode, SequenceNode
        from ruamel.yaml.constructor import ConstructorError

        line = node.start_mark.line + 1
        if keys:
            self.lines.setdefault(keys, line)  # of a field that of its key, which is there already
        else:
            self.lines[keys] = line
        self._n_nodes += 1
        # Aliases may lead back to what holds them, or stand for thousands of values each.
        if len(keys) > MAX_DEPTH:
            raise self._malformed(_TOO_DEEP, line)
        if self._n_nodes > MAX_NODES:
            raise self._malformed("too many values", line)

        if isinstance(node, ScalarNode):
            try:
                return constructor.construct_object(node)
            except ConstructorError as error:
                raise self.error(keys, str(error.problem)) from error
            except ValueError as error:  # the 30th of February, or a number of thousands of digits
                is_short = len(node.value) <= MOST_SHOWN
                raise self.error(keys, str(error) if is_short else "it is too long") from error
        if isinstance(node, SequenceNode):
            return [
                self._make_plain(child, (*keys, number), constructor)
                for number, child in enumerate(node.value)
            ]

        mapping: dict[Any, Any] = {}
        for key_node, value in node.value:
            self._n_nodes += 1
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                raise self._malformed("a key that is not a text", line)
            key = key_node.value
            if key in mapping:
                raise self._malformed(
                    f"{self.name_of((*keys, key))} appears twice; keep one of them", line
                )
            self.lines[*keys, key] = line
            mapping[key] = self._make_plain(value, (*keys, key), constructor)
        return mapping


@cache
def _bounded_composer() -> type[Any]:
    """Return a composer that ends at too many values, or too deep ones, before they have taken seconds and memory."""
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import MarkedYAMLError

    class BoundedComposer(Composer):
        n_nodes = 0
        nesting = -1

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # A name may stand for another value further down, as YAML 1.2 says.
            self.warn_double_anchors = False

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.n_nodes += 1
            self.nesting += 1
            mark = self.parser.peek_event().start_mark
            if self.n_nodes > MAX_NODES:
                raise MarkedYAMLError(problem="too many values", problem_mark=mark)
            if self.nesting > MAX_DEPTH:
                raise MarkedYAMLError(problem=_TOO_DEEP, problem_mark=mark)

            node = super().compose_node(parent, index)
            self.nesting -= 1
            return node

    return BoundedComposer


def describe_invisible(text: str) -> str:
    """Return what is wrong with a text that has a character which shows nothing; empty where it has none."""
    hidden = INVISIBLE.search(text)
    return f"the character U+{ord(hidden[0]):04X} is not shown; take it out" if hidden else ""


def plain_yaml(text: str) -> Any:
    """Return what YAML takes a text without quotes for, such as a number."""
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(text)
