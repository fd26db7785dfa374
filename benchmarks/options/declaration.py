"""Declarations of options: an option's key, type, default and help stand once, on the field that holds it.

The options of a command are a frozen dataclass below `Options`. Its fields are made by `option`, which
reads one key, or by `part`, which builds a value from several. `benchmarks.cli` makes of them the schema
and defaults that Hydra composes, the help text and the completion, and `scripts/docs_commands.py` the
page; `Options.read` makes the object that a command takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

#: The default of an option that has to be typed; OmegaConf's mark.
NEEDED = "???"

_METADATA = "captau"
_KINDS = (str, int, float, bool)
_TYPES: dict[Any, Any] = {
    **{kind.__name__: kind for kind in _KINDS},
    **{f"{kind.__name__} | None": kind | None for kind in _KINDS},
}


@dataclass(frozen=True)
class Option:
    """One option as it is typed.

    Attributes:
        key: dotted, `protocol.k`.
        default: as YAML has it; `NEEDED` where there is none.
        help: a text without a full stop; empty for a key of the schema that nobody types.
        type: a class that OmegaConf checks; Any takes lists as well.
        takes: a placeholder of the value in the help text; empty for one that follows from the type.
        heading: the section of the help text; empty for the first one.
        config_group: the folder of `conf/` whose files it chooses from.
        is_literal: whether the value is a path or free text, taken as it is typed.
        has_several: whether a literal value may be a list, `[A,B]`.
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


@dataclass(frozen=True)
class Composed:
    """A configuration as Hydra composed it, as plain data.

    Attributes:
        plain: nested mappings, by key.
        typed: the keys that were typed, which a default otherwise equals.
    """

    plain: Mapping[str, Any]
    typed: frozenset[str] = frozenset()

    def __getitem__(self, key: str) -> Any:
        """Return the value of a dotted key; a KeyError where the command has no such option."""
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
class _Declaration:
    options: tuple[Option, ...]
    read: Callable[[Any], Any] | None
    has_one_key: bool


def option(
    default: Any, text: str, *, key: str = "", read: Callable[[Any], Any] | None = None, **more: Any
) -> Any:
    """Declare a field that is read from one option.

    Args:
        default: as YAML has it.
        text: the help text, see `Option`.
        key: the option's key; empty for the field's name.
        read: makes the field's value of the option's; None takes it as it is.
        more: other attributes of `Option`.
    """
    attributes: dict[str, Any] = {"type": Any if read else None} | more
    declared = Option(key, default, text, **attributes)
    metadata = {_METADATA: _Declaration((declared,), read, has_one_key=True)}
    if default == NEEDED:
        return field(metadata=metadata)
    if read is None:
        return field(default=default, metadata=metadata)
    return field(default_factory=lambda: read(default), metadata=metadata)


def part(read: Callable[[Composed], Any], *options: Option, **more: Any) -> Any:
    """Declare a field that is built from several options, or from those of other fields.

    Args:
        read: makes the value of the whole configuration.
        options: those that belong to this field.
        more: `default` or `default_factory` of the field.
    """
    return field(metadata={_METADATA: _Declaration(options, read, has_one_key=False)}, **more)


class Options:
    """Base of the options of a command, and of groups of options.

    Attributes:
        examples: commands with a remark behind two blanks, a line each.
        notes: paragraphs of the help text, below the examples.
        writes: a sentence on the files that the command writes.
        environment: options that act through environment variables, see `apply_environment`.
        variants: further classes that read the same configuration.
    """

    examples: ClassVar[str] = ""
    notes: ClassVar[str] = ""
    writes: ClassVar[str] = ""
    environment: ClassVar[tuple[Option, ...]] = ()
    variants: ClassVar[tuple[type[Options], ...]] = ()

    @classmethod
    def read(cls, composed: Composed) -> Self:
        """Make the options of a composed configuration.

        Raises:
            InputError: where a value makes no sense, or values do not go together.
        """
        values: dict[str, Any] = {}
        for attribute, declaration in declarations(cls).items():
            source: Any = composed
            if declaration.has_one_key:
                source = composed[declaration.options[0].key]
            values[attribute] = declaration.read(source) if declaration.read else source
        return cls(**values)

    @classmethod
    def declared(cls) -> list[Option]:
        """List the options, in the order of the fields; each key once."""
        classes = (cls, *cls.variants)
        options = [o for c in classes for d in declarations(c).values() for o in d.options]
        return list({o.key: o for o in reversed([*options, *cls.environment])}.values())[::-1]


def declarations(cls: type[Any]) -> dict[str, _Declaration]:
    """Return the declarations of a dataclass by field; keys and types follow from its fields."""
    declared: dict[str, _Declaration] = {}
    for one_field in fields(cls):
        declaration = one_field.metadata.get(_METADATA)
        if declaration is None:
            continue
        if declaration.has_one_key:
            (one,) = declaration.options
            kind = _TYPES.get(one_field.type, Any) if one.type is None else one.type
            one = replace(one, key=one.key or one_field.name, type=kind)
            declaration = replace(declaration, options=(one,))
        declared[one_field.name] = declaration
    return declared


def options_of(cls: type[Any], prefix: str, **more: Any) -> tuple[Option, ...]:
    """Return the options of a group's fields, their keys behind a prefix such as `protocol.`."""
    return tuple(
        replace(one, key=f"{prefix}{one.key}", **more)
        for declaration in declarations(cls).values()
        for one in declaration.options
    )
