"""Models of YAML files: pydantic says what is wrong, and the document in which line.

A module that defines a model imports pydantic, which takes a while: import it where a file is read, not above.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
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
        return model.model_validate(document.plain)
    except ValidationError as error:
        faults = [(_keys_of(document, details), details) for details in error.errors()]
        # In the order of lines; missing values come last.
        faults.sort(key=lambda f: (f[1]["type"] == "missing", document.lines.get(f[0], 0)))
        keys, details = faults[0]
        raise document.error(keys, _describe(details)) from error


def _keys_of(document: YamlDocument, details: ErrorDetails) -> KeyPath:
    """Return where an error is, without the names of validators that pydantic adds."""
    keys: KeyPath = ()
    for key in details["loc"]:
        if (*keys, key) in document.lines:
            keys = (*keys, key)
    if details["type"] == "missing":
        keys = (*keys, details["loc"][-1])
    return (*keys, *details.get("ctx", {}).get("below", ()))


class YamlModel(BaseModel):
    """A mapping of a YAML file; a field that the model does not have is an error, as a misspelt one would have no effect.

    Attributes:
        field_label: what messages call a field.
        fields_listed_by: the command that lists the fields, where there are too many for a message.
    """

    field_label: ClassVar[str] = "field"
    fields_listed_by: ClassVar[str] = ""

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
                error = unknown(cls.field_label, str(name), known, listed_by=cls.fields_listed_by)
                raise fault(str(error), below=name)
        return value


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


def _refuse_invisible(text: str) -> str:
    if problem := describe_invisible(text):
        raise fault(problem)
    return text


#: Checks that all characters of a text can be seen; limits of the length stand before it.
VISIBLE = AfterValidator(_refuse_invisible)
Text = Annotated[str, VISIBLE]
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

    shown = repr(details["input"])
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
    expected = _EXPECTED.get(details["type"].partition("_")[0])
    if expected and details["type"].endswith(_OF_TYPE):
        return f"{shown}: {expected} is expected"
    return f"{shown}: {details['msg'][0].lower()}{details['msg'][1:]}"
