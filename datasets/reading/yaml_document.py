"""A YAML file that a model checks: pydantic says what is wrong, and ruamel.yaml in which line.

A module that defines a model imports pydantic, which takes a while: import it where a file is read, not above.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from ruamel.yaml import YAML, MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from ..errors import InputError, unknown
from .yaml_fields import INVISIBLE, MAX_CHARACTERS, MAX_DEPTH, MAX_NODES

#: The keys and the numbers of entries (from 0) that lead to a value.
KeyPath = tuple[str | int, ...]

Model = TypeVar("Model", bound=BaseModel)

#: What people call the types of pydantic's errors, which end so where a value is of another type.
_EXPECTED = {
    "bool": "true or false",
    "dict": "a mapping of fields",
    "float": "a number",
    "int": "a whole number",
    "list": "a list, with lines that begin with '- ',",
    "string": "a text",
}
_OF_TYPE = ("_type", "_parsing", "_from_float")
#: The most characters of a wrong value that a message shows.
_MOST_SHOWN = 60


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
        self.file = file
        self._remedy = remedy
        self.lines: dict[KeyPath, int] = {(): 1}
        self._n_values = 0

        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _BoundedComposer
        if len(text) > MAX_CHARACTERS:
            raise self.error((), f"it has more than {MAX_CHARACTERS:,} characters")
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
        except RecursionError as error:
            raise self._malformed("nested too deeply", 1) from error

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

    def location_of(self, *keys: str | int) -> str:
        """File and line of a value, and its name; of a value that is missing, the line of what should hold it."""
        present = keys
        while present not in self.lines:
            present = present[:-1]

        name = ""
        for key in keys:
            name += f"[{key + 1}]" if isinstance(key, int) else f".{key}"
        return f"{self.file}:{self.lines[present]}: {name.removeprefix('.') or 'the file'}"

    def error(self, keys: KeyPath, message: str) -> InputError:
        """Return an error that names file, line and value."""
        return InputError(f"{self.location_of(*keys)}: {message}{self._remedy}")

    def validate(self, model: type[Model]) -> Model:
        """Return the content as a model.

        Raises:
            InputError: on the first value that the model does not allow.
        """
        try:
            return model.model_validate(self.plain)
        except ValidationError as error:
            details = min(error.errors(), key=self._place_of)
            keys = self._keys_of(details)
            raise self.error(keys, _describe(details)) from error

    def _place_of(self, details: ErrorDetails) -> tuple[bool, int]:
        """Return what puts errors in the order of lines; those of missing values come last."""
        return details["type"] == "missing", self.lines.get(self._keys_of(details), 0)

    def _keys_of(self, details: ErrorDetails) -> KeyPath:
        """Return where an error is, without the names of validators that pydantic adds."""
        keys: KeyPath = ()
        for key in details["loc"]:
            if (*keys, key) not in self.lines and details["type"] != "missing":
                break
            keys = (*keys, key)
        return (*keys, *details.get("ctx", {}).get("below", ()))

    def _malformed(self, problem: str, line: int) -> InputError:
        return InputError(f"{self.file}:{line}: {' '.join(problem.split())}{self._remedy}")

    def _make_plain(self, node: Any, keys: KeyPath, constructor: Any) -> Any:
        """Return the value of a node, and note the lines of all that is in it."""
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        self._n_values += 1
        # Aliases may lead back to what holds them, or stand for thousands of values each.
        if len(keys) > MAX_DEPTH:
            raise self._malformed("nested too deeply, or recursive", line)
        if self._n_values > MAX_NODES:
            raise self._malformed("too many values", line)

        if isinstance(node, ScalarNode):
            try:
                return constructor.construct_object(node)
            except ConstructorError as error:
                raise self.error(keys, str(error.problem)) from error
            except ValueError as error:  # the 30th of February, or a number of thousands of digits
                is_short = len(node.value) <= _MOST_SHOWN
                raise self.error(keys, str(error) if is_short else "it is too long") from error
        if isinstance(node, SequenceNode):
            return [
                self._make_plain(child, (*keys, number), constructor)
                for number, child in enumerate(node.value)
            ]

        mapping: dict[Any, Any] = {}
        for key_node, value in cast("MappingNode", node).value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                raise self._malformed("a key that is not a text", line)
            key = key_node.value
            if key in mapping:
                raise self._malformed(f"{key} appears twice; keep one of them", line)
            self.lines[*keys, key] = line
            mapping[key] = self._make_plain(value, (*keys, key), constructor)
        return mapping


class _BoundedComposer(Composer):
    """A composer that ends at too many values, or too deep ones, before they have taken seconds and memory."""

    n_nodes = 0
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.n_nodes += 1
        self.depth += 1
        mark = self.parser.peek_event().start_mark
        if self.n_nodes > MAX_NODES:
            raise MarkedYAMLError(problem="too many values", problem_mark=mark)
        if self.depth > MAX_DEPTH:
            raise MarkedYAMLError(problem="nested too deeply", problem_mark=mark)

        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def plain_yaml(text: str) -> Any:
    """Return what YAML takes a text without quotes for, such as a number."""
    return YAML(typ="safe", pure=True).load(text)


class YamlModel(BaseModel):
    """A mapping of a YAML file; a field that the model does not have is an error, as a misspelt one would have no effect."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise fault("fields are expected")

        known = [field.alias or name for name, field in cls.model_fields.items()]
        for name in value:
            if name not in known:
                message = str(unknown("field", str(name), known))
                raise fault(message, below=name)
        return value


def fault(message: str, *, below: str | int | None = None) -> PydanticCustomError:
    """Return the error that a validator raises at a value, or at one that is `below` it."""
    keys = () if below is None else (below,)
    return PydanticCustomError("fault", "{message}", {"message": message, "below": keys})


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator of a text that has to match a pattern; `expected` says so in words."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise fault(f"'{value}': {expected}")
        return value

    return AfterValidator(check)


def one_of(label: str, choices: Callable[[], Iterable[str]]) -> AfterValidator:
    """Return a validator of a text that has to be one of the choices, which are asked for when it is needed."""

    def check(value: str) -> str:
        if value not in (known := list(choices())):
            raise fault(str(unknown(label, value, known)))
        return value

    return AfterValidator(check)


def _refuse_invisible(text: str) -> str:
    if hidden := INVISIBLE.search(text):
        raise fault(f"the character U+{ord(hidden[0]):04X} is not shown; take it out")
    return text


#: Checks that all characters of a text can be seen; limits of the length stand before it.
VISIBLE = AfterValidator(_refuse_invisible)
Text = Annotated[str, VISIBLE]
#: Whole numbers; true is none, as it would be to pydantic's own types.
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]


def _describe(details: ErrorDetails) -> str:
    """Return what is wrong with a value: in our words where a validator of ours says it, else in pydantic's."""
    if details["type"] == "missing":
        return "this field is required"
    if "message" in details.get("ctx", {}):
        return details["msg"]

    shown = repr(details["input"])
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
    expected = _EXPECTED.get(details["type"].partition("_")[0])
    if expected and details["type"].endswith(_OF_TYPE):
        return f"{shown}: {expected} is expected"
    return f"{shown}: {details['msg'][0].lower()}{details['msg'][1:]}"
