"""Declarations of options: an option's key, type, default and help stand once, on the field that holds it.

The options of a command are a frozen dataclass below `Options`. Its fields are made by `option`, which
reads one key, by `part`, which builds a value from several, or by `dataclass_part`, which builds a dataclass of the
domain, such as the choices of a table, whose fields are options. `benchmarks.cli` makes of them the schema and defaults that Hydra composes, the help text and the completion, `python_function` the command's function from
Python, and `scripts/docs/docs_commands.py` the page; `Options.read` makes the object that a command takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ...datasets.errors import InputError
from ...datasets.paths import expand_home

if TYPE_CHECKING:
    from ...metrics.base import Metric

#: The default of an option that has to be typed; OmegaConf's mark.
NEEDED = "???"

_METADATA = "captau"
_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "Path": str}


@dataclass(frozen=True)
class Given:
    """A value of an option that was given from Python.

    Attributes:
        value: what `Options.read` reads.
        spelling: the same as plain data, as it would be typed; run.json records it.
        is_in_memory: whether the spelling cannot stand for the value, as with a function.
    """

    value: Any
    spelling: Any
    is_in_memory: bool = False


@dataclass(frozen=True)
class PythonValue:
    """The values that an option takes from Python beside those that can be typed.

    Attributes:
        annotation: the type of the keyword, as a signature shows it.
        help: a text for the function's docstring, with a full stop; empty for the option's own.
        read: makes a `Given` of a value and the option's key; None takes plain data.
        is_needed: whether the keyword has no default, where the command line says itself what is missing.
    """

    annotation: str
    help: str = ""
    read: Callable[[Any, str], Given] | None = None
    is_needed: bool = False


@dataclass(frozen=True)
class Option:
    """One option as it is typed.

    Attributes:
        key: dotted, `protocol.k`.
        default: as YAML has it; `NEEDED` where there is none.
        help: a text without a full stop, in which `{values}` stands for all values; empty for a key of the schema that
            nobody types.
        type: a class that OmegaConf checks; Any takes lists as well.
        takes: a placeholder of the value in the help text; empty for one that follows from the type.
        heading: the section of the help text; empty for the first one.
        config_group: the folder of `conf/` whose files it chooses from.
        is_literal: whether the value is a path or free text, taken as it is typed.
        has_several: whether a literal value may be a list, `[A,B]`.
        values: lists the values that `help` names; not before they are asked for, since packages may bring some.
        python: what the option takes from Python; None for a type that follows from the field's.
        is_of_terminal: whether it says what a terminal shows or where its text goes, and the function from Python lacks it.
    """

    key: str
    default: Any
    help: str
    type: Any = Any
    takes: str = ""
    heading: str = ""
    config_group: str = ""
    is_literal: bool = False
    has_several: bool = False
    values: Callable[[], Iterable[str]] = tuple
    python: PythonValue | None = None
    is_of_terminal: bool = False

    @property
    def help_text(self) -> str:
        """The help text with all values."""
        return self.help.replace("{values}", ", ".join(self.values()))


@dataclass(frozen=True)
class Composed:
    """A configuration as Hydra composed it, or as a function from Python did.

    Attributes:
        plain: nested mappings of plain data, by key.
        typed: the keys that were typed, which a default otherwise equals.
        objects: by dotted key, values from Python that stand in place of the plain ones.
    """

    plain: Mapping[str, Any]
    typed: frozenset[str] = frozenset()
    objects: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __getitem__(self, key: str) -> Any:
        """Return the value of a dotted key; a KeyError where the command has no such option."""
        if key in self.objects:
            return self.objects[key]

        value: Any = self.plain
        for name in key.split("."):
            value = value[name]
        return value

    def get(self, key: str) -> Any:
        """Return the value of a dotted key; None where the command has no such option."""
        try:
            return self[key]
        except KeyError:
            return None


@dataclass(frozen=True)
class Declaration:
    """The way in which a field is read.

    Attributes:
        options: those that it is read from.
        read: makes its value; None takes it as it is.
        check: raises InputError on a value that makes no sense, and the key.
        has_one_key: whether `read` takes one option's value and key, and not the whole configuration.
        held_fields: of a field that holds a dataclass, how the fields of that are read, by name.
        annotation: the type of the field that is read from one key, as its class says it.
    """

    options: tuple[Option, ...]
    read: Callable[..., Any] | None
    check: Callable[[Any, str], None] | None = None
    has_one_key: bool = False
    held_fields: Mapping[str, Declaration] = field(default_factory=dict[str, "Declaration"])
    annotation: str = ""

    def check_value(self, value: Any) -> None:
        """Check a value of the field; of a tuple each element, None not at all.

        Raises:
            InputError: where it makes no sense.
        """
        for name, declaration in self.held_fields.items():
            declaration.check_value(getattr(value, name))

        if self.check is None or value is None:
            return
        for element in value if isinstance(value, tuple) else (value,):
            self.check(element, self.options[0].key)


def option(
    default: Any,
    text: str,
    *,
    key: str = "",
    read: Callable[[Any, str], Any] | None = None,
    check: Callable[[Any, str], None] | None = None,
    **attributes: Any,
) -> Any:
    """Declare a field that is read from one option.

    Args:
        default: as YAML has it.
        text: the help text, see `Option`.
        key: the option's key; empty for the field's name.
        read: makes the field's value of the option's value and key; None takes it as it is, or makes the
            `Path` that the field's type asks for.
        check: raises InputError on a value and key; of a tuple it checks each element, None it does not see.
        attributes: other attributes of `Option`.
    """
    # Without `read`, the type follows from the field's annotation: `_complete` puts it in the place of None.
    attributes = {"type": Any if read else None, **attributes}
    declared = Option(key, default, text, **attributes)
    metadata = {_METADATA: Declaration((declared,), read, check, has_one_key=True)}
    if default == NEEDED:
        return field(metadata=metadata)
    if read is None:
        return field(default=default, metadata=metadata)
    # The key, which is empty here where it is the field's name, is for errors, and a default makes none.
    return field(default_factory=lambda: read(default, key), metadata=metadata)


def part(read: Callable[[Composed], Any], *options: Option, **default: Any) -> Any:
    """Declare a field that is built from several options, or from those of other fields.

    Args:
        read: makes the value of the whole configuration.
        options: those that belong to this field.
        default: `default` or `default_factory` of the field.
    """
    return field(metadata={_METADATA: Declaration(options, read)}, **default)


def dataclass_part(kind: type[Any], **declared: Any) -> Any:
    """Declare a field that holds a dataclass of the domain, whose fields are options.

    The dataclass gives the options' names and types, so that nothing copies them from one object to the other.

    Args:
        kind: the dataclass; its own defaults are those of the field.
        declared: what `option` or `part` declares, by the name of the dataclass's field.
    """
    held_fields: dict[str, Declaration] = {}
    options: list[Option] = []
    types = {dataclass_field.name: str(dataclass_field.type) for dataclass_field in fields(kind)}
    for name, declared_field in declared.items():
        declaration = _complete(declared_field.metadata[_METADATA], name, types[name])
        held_fields[name] = declaration
        options += declaration.options

    def read(composed: Composed) -> Any:
        return kind(**_read_fields(held_fields, composed))

    declaration = Declaration(tuple(options), read, held_fields=held_fields)
    return field(metadata={_METADATA: declaration}, default_factory=kind)


class Options:
    """Base of the options of a command, and of groups of options.

    Attributes:
        examples: commands with a remark behind two blanks, a line each.
        notes: paragraphs of the help text, below the examples.
        writes: a sentence on the files that the command writes.
        objective: the headline value that the command returns to a sweeper which optimises; empty where it returns none.
        environment: options that act through environment variables, see `apply_environment`.
        variants: further classes that read the same configuration.
        headings: the section of the help text by the field with which it begins.
        positional: the option that words without a key are the value of; of two options the second takes the last of
            several words, and such words name files.
        python_positional: the keywords of the function from Python that may go unnamed, in their order.
        takes_all: the config group of which `all` stands for every name.
        takes_sets: whether `dataset=` takes the names of sets of datasets that are in part not here.
        model_names: names that `dataset=` takes beside datasets.
        own_meaning: options that mean something else in other commands, whose runs do not set them.
    """

    examples: ClassVar[str] = ""
    notes: ClassVar[str] = ""
    writes: ClassVar[str] = ""
    objective: ClassVar[str] = ""
    environment: ClassVar[tuple[Option, ...]] = ()
    variants: ClassVar[tuple[type[Options], ...]] = ()
    headings: ClassVar[Mapping[str, str]] = {}
    positional: ClassVar[tuple[str, ...]] = ()
    python_positional: ClassVar[tuple[str, ...]] = ()
    takes_all: ClassVar[str] = ""
    takes_sets: ClassVar[bool] = False
    model_names: ClassVar[tuple[str, ...]] = ()
    own_meaning: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, declaration in declarations(type(self)).items():
            declaration.check_value(getattr(self, name))

    def needed_metrics(self) -> Iterable[Metric]:
        """Return the metrics that the command computes, as far as its options name them."""
        return getattr(self, "metrics", None) or ()

    @classmethod
    def read(cls, composed: Composed) -> Self:
        """Make the options of a composed configuration.

        Raises:
            InputError: where a value makes no sense, or values do not go together.
        """
        check_finite(composed.plain)
        return cls(**_read_fields(declarations(cls), composed))

    @classmethod
    def declared(cls) -> list[Option]:
        """List the options, in the order of the fields; each key once."""
        options: list[Option] = []
        for options_class in (cls, *cls.variants):
            for declaration in declarations(options_class).values():
                options += declaration.options

        # Of a key that is declared twice the first declaration counts, at the place of the last.
        by_key: dict[str, Option] = {}
        for declared in (*options, *cls.environment):
            first_declaration = by_key.pop(declared.key, declared)
            by_key[declared.key] = first_declaration
        return list(by_key.values())

    @classmethod
    def has_run_folder(cls, composed: Composed) -> bool:
        """Tell whether the command writes a run into a folder, with these options; `get` reads them."""
        return False

    @classmethod
    def changed_keys(cls, composed: Composed, keys: Iterable[str]) -> list[str]:
        """Return those of some keys whose values are not the defaults."""
        defaults = {declared.key: declared.default for declared in cls.declared()}
        return [key for key in keys if composed[key] != defaults[key]]

    @classmethod
    def allow_only(cls, composed: Composed, keys: Iterable[str], *, beside: str) -> None:
        """Raise InputError where an option was changed that does not go with another one, which `beside` names."""
        other_keys: list[str] = []
        for declared in cls.declared():
            if declared.key not in keys and composed.get(declared.key) is not None:
                other_keys.append(declared.key)
        for key in cls.changed_keys(composed, other_keys):
            raise InputError(f"{key}= does not go with {beside}=; leave one of them out")


def check_finite(value: Any, key: str = "") -> None:
    """Raise an InputError if a number among an option's values is nan or infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key} is {value:g}; a number is expected")
    if isinstance(value, Mapping):
        for name, child in value.items():
            check_finite(child, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for child in value:
            check_finite(child, key)


def _read_fields(by_field: Mapping[str, Declaration], composed: Composed) -> dict[str, Any]:
    """Read the values of a dataclass's fields from a composed configuration."""
    values: dict[str, Any] = {}
    for name, declaration in by_field.items():
        if declaration.has_one_key:
            key = declaration.options[0].key
            value = composed[key]
            values[name] = declaration.read(value, key) if declaration.read else value
        elif declaration.read:
            values[name] = declaration.read(composed)
    return values


@cache
def declarations(cls: type[Any]) -> Mapping[str, Declaration]:
    """Return the declarations of a dataclass by field; keys, types and headings follow from its fields."""
    headings: Mapping[str, str] = getattr(cls, "headings", {})
    heading = ""
    by_field: dict[str, Declaration] = {}
    for dataclass_field in fields(cls):
        name = dataclass_field.name
        heading = headings.get(name, heading)
        declaration = dataclass_field.metadata.get(_METADATA)
        if declaration is None:
            continue

        declaration = _complete(declaration, name, str(dataclass_field.type))
        by_field[name] = _below_heading(declaration, heading)
    return by_field


def _below_heading(declaration: Declaration, heading: str) -> Declaration:
    """Return a declaration whose options stand below a heading, unless they have one of their own."""
    options: list[Option] = []
    for declared in declaration.options:
        options.append(replace(declared, heading=declared.heading or heading))
    held_fields: dict[str, Declaration] = {}
    for name, held_declaration in declaration.held_fields.items():
        held_fields[name] = _below_heading(held_declaration, heading)
    return replace(declaration, options=tuple(options), held_fields=held_fields)


def _complete(declaration: Declaration, name: str, annotation: str) -> Declaration:
    """Add to the declaration of one key what follows from its field's name and annotation."""
    if not declaration.has_one_key:
        return declaration

    (typed,) = declaration.options
    is_path = annotation.startswith("Path")
    if typed.type is None:
        kind = _TYPES.get(annotation.removesuffix(" | None"), Any)
        if typed.default is None and kind is not Any:
            kind = kind | None
        typed = replace(typed, type=kind)
    if is_path and declaration.read is None:
        # A path that cannot be None has to be typed.
        read = _read_needed_path if annotation == "Path" else _read_path
        declaration = replace(declaration, read=read)

    is_literal = typed.is_literal or is_path
    typed = replace(typed, key=typed.key or name, is_literal=is_literal)
    return replace(declaration, options=(typed,), annotation=annotation)


def _read_path(text: str | None, _key: str) -> Path | None:
    return path_of(text)


def _read_needed_path(text: str | None, key: str) -> Path:
    if not text:
        raise InputError(f"the option {key}=… is needed; see --help")
    return expand_home(text)


def path_of(text: str | None) -> Path | None:
    """Return a path with its `~` spelt out; None for no text."""
    return expand_home(text) if text else None
