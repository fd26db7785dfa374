"""Models of YAML files: pydantic says what is wrong, and the document in which line.

A module that defines a model imports pydantic, which takes a while: import it where a file is read, not above.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterable
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from ..errors import InputError, unknown
from .yaml_document import MOST_SHOWN, KeyPath, YamlDocument, describe_invisible

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


def validate(document: YamlDocument, model: type[Model]) -> Model:
    """Return the content of a file as a model.

    Raises:
        InputError: on the first value that the model does not allow.
    """
    try:
        entries = model.model_validate(document.plain)
    except ValidationError as error:
        faults = [(_keys_of(document, details), details) for details in error.errors()]
        # In the order of lines; missing values come last.
        faults.sort(key=lambda f: (f[1]["type"] == "missing", document.lines.get(f[0], 0)))
        keys, details = faults[0]
        raise document.error(keys, _describe(details)) from error

    _locate(entries, document, ())
    return entries


def _locate(value: Any, document: YamlDocument, keys: KeyPath) -> None:
    """Tell each model in a value where it stands in a file."""
    if isinstance(value, YamlModel):
        value.locate(document, keys)
        for name, field in type(value).model_fields.items():
            _locate(getattr(value, name), document, (*keys, field.alias or name))

    elif isinstance(value, RootModel):
        _locate(value.root, document, keys)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _locate(entry, document, (*keys, number))
    elif isinstance(value, dict):
        for name, entry in value.items():
            _locate(entry, document, (*keys, name))


def _keys_of(document: YamlDocument, details: ErrorDetails) -> KeyPath:
    """Return where an error is, without the names of validators that pydantic adds."""
    location = details["loc"]
    is_missing = details["type"] == "missing"
    keys: KeyPath = ()
    for key in location[:-1] if is_missing else location:
        if (*keys, key) in document.lines:
            keys = (*keys, key)
    if is_missing:
        keys = (*keys, location[-1])
    return (*keys, *details.get("ctx", {}).get("below", ()))


class YamlModel(BaseModel):
    """A mapping of a YAML file; a field that the model does not have is an error, as a misspelt one would have no effect.

    Where a section may be missing, its default is made by a `default_factory`, as each model knows where it stands.

    Attributes:
        field_label: what messages call a field.
        fields_listed_by: the command that lists the fields, where there are too many for a message.
        empty_is_missing: whether a field without a value, as in `title:`, counts as missing, unless its type has None.
    """

    field_label: ClassVar[str] = "field"
    fields_listed_by: ClassVar[str] = ""
    empty_is_missing: ClassVar[bool] = True

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    _document: YamlDocument | None = PrivateAttr(None)
    _keys: KeyPath = PrivateAttr(())

    def locate(self, document: YamlDocument, keys: KeyPath) -> None:
        """Keep where the mapping stands: its file, and the keys that lead to it."""
        self._document = document
        self._keys = keys

    @property
    def location(self) -> str:
        """File and line of the mapping; empty if it is of no file."""
        return "" if self._document is None else self._document.line_of(*self._keys)

    def error(self, name: str | None, message: str) -> InputError:
        """Return an error that names file, line and field; None stands for the mapping itself."""
        keys = self._keys if name is None else (*self._keys, name)
        if self._document is None:
            return InputError(f"{YamlDocument.name_of(keys)}: {message}")

        return self._document.error(keys, message)

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
                error = unknown(cls.field_label, str(name), known, listed_by=cls.fields_listed_by)
                raise fault(str(error), below=name)

        if not cls.empty_is_missing:
            return value

        needs_value = {
            field.alias or name
            for name, field in cls.model_fields.items()
            if field.annotation is not Any and type(None) not in get_args(field.annotation)
        }
        return {
            name: entry
            for name, entry in value.items()
            if entry is not None or name not in needs_value
        }


def fault(message: str, *, below: str | int | None = None) -> PydanticCustomError:
    """Return the error that a validator raises at a value, or at one that is `below` it."""
    keys = () if below is None else (below,)
    return PydanticCustomError("fault", "{message}", {"message": message, "below": keys})


@contextlib.contextmanager
def refused(below: str | int | None = None) -> Generator[None]:
    """Make an `InputError` of a block the fault of the value that a validator looks at, or of one `below` it."""
    try:
        yield
    except InputError as error:
        raise fault(str(error), below=below) from error


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


def whole_number(low: int, high: int = 1_000_000) -> BeforeValidator:
    """Return a validator of a whole number from `low` to `high`."""

    def check(value: Any) -> int:
        if not is_whole_number(value, low, high):
            raise fault(f"{_show(value)} is not a whole number from {low} to {high}")
        return value

    return BeforeValidator(check)


def is_whole_number(value: Any, low: int, high: int) -> bool:
    """Tell whether a value is a whole number from `low` to `high`; true is none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def number(low: float, high: float) -> BeforeValidator:
    """Return a validator of a number from `low` to `high`; true is none."""

    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise fault(f"{_show(value)} is not a number from {low:g} to {high:g}")
        return float(value)

    return BeforeValidator(check)


def _refuse_invisible(text: str) -> str:
    if problem := describe_invisible(text):
        raise fault(problem)
    return text


#: Checks that all characters of a text can be seen; limits of the length stand before it.
VISIBLE = AfterValidator(_refuse_invisible)
Text = Annotated[str, VISIBLE]
LongText = Annotated[str, Field(max_length=20_000), VISIBLE]
#: Whole numbers; true is none, as it would be to pydantic's own types.
Count = Annotated[int, Field(strict=True, ge=0)]
Integer = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]
#: Finite numbers; true is none.
Number = Annotated[float, Field(strict=True, ge=-1e9, le=1e9, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]


def _describe(details: ErrorDetails) -> str:
    """Return what is wrong with a value: in our words where a validator of ours says it, else in pydantic's."""
    if details["type"] == "missing":
        return "this field is required"
    if "message" in details.get("ctx", {}):
        return details["msg"]

    if details["type"] == "string_too_long":
        most = details.get("ctx", {})["max_length"]
        return f"{len(str(details['input'])):,} characters; at most {most:,} are expected"

    if details["type"] == "string_unicode":
        return describe_invisible(details["input"])

    shown = _show(details["input"])
    expected = _EXPECTED.get(details["type"].partition("_")[0])
    if expected and details["type"].endswith(_OF_TYPE):
        return f"{shown}: {expected} is expected"
    return f"{shown}: {details['msg'][0].lower()}{details['msg'][1:]}"


def _show(value: Any) -> str:
    """Return a value as messages show it."""
    shown = repr(value)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
