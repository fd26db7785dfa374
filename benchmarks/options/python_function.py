"""The function from Python that a command's options make, such as `captau.bench`.

An option is declared once, on the field that holds it (`declaration.py`). Its keyword, type, default and help text in
Python follow from there, as its key on the command line does:

- an option is a keyword of its own name, or of its field's where the key has a dot (`rank.by` is `by`);
- options that share one of the prefixes of `DICTIONARIES` are one dictionary, as `statistics={"level": 0.9}`;
- what a function takes beside plain data, such as a `Metric`, is the option's `PythonValue`.

`compose` makes of the arguments what Hydra makes of typed words, so that `Options.read` reads and checks both alike.
"""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.schema import CaptionSet
from ..runs.output_folder import run_into
from ..scoring.catalog import changes_of, expand_sets, read_config, usual_protocol
from ..scoring.score_store import OWN
from .declaration import NEEDED, Composed, Declaration, Option, Options, PythonValue, declarations
from .shared import names_of

#: Prefixes of options that are one dictionary in Python, and what its help text says before it lists the keys.
DICTIONARIES = {
    "protocol": "what differs from each dataset's usual protocol, such as "
    '`{"dimension": "recall", "coefficients": ["tau_c"]}` (see `Protocol`)',
    "statistics": 'options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`',
    "file": "options of the dataset `file`, which reads your own judgements, such as "
    '`{"path": "mine.csv", "value": "score"}`',
    "columns": 'the columns, or keys, of files of captions, such as `{"caption": "text"}`',
}
#: Types of keywords by the types of fields that hold other things than what is given.
_ANNOTATIONS = {
    "Path": "str | Path",
    "Path | None": "str | Path | None",
    "tuple[str, ...]": "str | Sequence[str]",
    "tuple[Path, ...]": "str | Path | Sequence[str | Path]",
    "dict[str, float]": "Mapping[str, float]",
    "dict[str, str]": "Mapping[str, str]",
}
_PLAIN_TYPES = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Parameter:
    """A keyword of a function.

    Attributes:
        name: of the keyword.
        annotation: its type, as a signature shows it.
        default: its default; `inspect.Parameter.empty` where there is none.
        help: a text for the docstring.
        options: those that it gives values to; several of a dictionary.
    """

    name: str
    annotation: str
    default: Any
    help: str
    options: tuple[Option, ...]


def parameters_of(options_class: type[Options]) -> list[Parameter]:
    """List the keywords of a command's function, in the order of its signature.

    Options with a heading of their own, such as the places of a run, come last, as in the help text.
    """
    plain: list[Parameter] = []
    by_prefix: dict[str, list[Option]] = {}
    for field_name, declaration in _fields_of(options_class):
        for option in declaration.options:
            prefix = option.key.partition(".")[0]
            if not option.help or option.is_of_terminal:
                continue
            if prefix in DICTIONARIES and not declaration.has_one_key:
                by_prefix.setdefault(prefix, []).append(option)
            else:
                plain.append(_plain_parameter(field_name, declaration, option))

    for prefix, options in by_prefix.items():
        plain.append(_dictionary(prefix, options))
    first = options_class.python_positional

    def order(parameter: Parameter) -> tuple[int, bool]:
        if parameter.name in first:
            return first.index(parameter.name), False
        return len(first), bool(parameter.options[0].heading)

    return sorted(plain, key=order)


def _fields_of(options_class: type[Options]) -> Iterator[tuple[str, Declaration]]:
    """Yield the declarations by field; a field that holds a dataclass gives way to the fields of that."""
    for name, declaration in declarations(options_class).items():
        if declaration.held_fields:
            yield from declaration.held_fields.items()
        else:
            yield name, declaration


def _plain_parameter(field_name: str, declaration: Declaration, option: Option) -> Parameter:
    """Return the keyword of one option."""
    name = option.key
    if "." in name:
        name = field_name if declaration.has_one_key else name.replace(".", "_")
    python = option.python or PythonValue("")
    annotation = python.annotation
    if not annotation and declaration.has_one_key:
        field_type = declaration.annotation
        annotation = _ANNOTATIONS.get(field_type, field_type)
    elif not annotation:
        annotation = _annotation_of(option)

    default: Any = option.default
    if isinstance(default, list):
        default = tuple(default)
    if default == NEEDED or python.is_needed:
        default = inspect.Parameter.empty
    elif default is None and "None" not in annotation:
        annotation = f"{annotation} | None"
    return Parameter(name, annotation, default, python.help or _help_of(option), (option,))


def _help_of(option: Option) -> str:
    """Return an option's help text as sentences; the words that it may be follow where `takes` alone names them."""
    text = f"{option.help_text}."
    words = option.takes.split("|")
    if len(words) > 1 and option.takes.islower() and words[0] not in option.help:
        choices = ", ".join(f"`{word}`" for word in words)
        text += f" One of {choices}."
    return text


def _annotation_of(option: Option) -> str:
    """Return the type of a keyword whose field is built from several options."""
    kind: Any = option.type
    text = kind.__name__ if isinstance(kind, type) or kind is Any else str(kind)
    return text.replace("str", "str | Path") if option.is_literal else text


def _dictionary(prefix: str, options: list[Option]) -> Parameter:
    """Return the keyword of all options of a prefix."""
    names: list[str] = []
    for option in options:
        _, dot, name = option.key.partition(".")
        if dot:
            names.append(name)
    text = DICTIONARIES[prefix]
    annotation = "Mapping[str, Any] | None"
    if len(names) < len(options):  # the prefix alone is an option too, as protocol=NAME
        text += f", or the name of a {prefix}"
        annotation = f"str | {annotation}"
    return Parameter(prefix, annotation, None, f"{text}. Keys: {', '.join(names)}.", tuple(options))


def make_function(
    command: str,
    options_class: type[Options],
    run: Callable[[Any], Any],
    *,
    summary: str,
    returns: str,
    returned: str = "Results",
    raises: str = "on an unknown name, missing or malformed data, or an unwritable folder.",
) -> Callable[..., Any]:
    """Make the function from Python of a command.

    Args:
        command: its name.
        options_class: its options, whose declarations give the keywords.
        run: does its work on these options, and returns results.
        summary: the first sentence of the docstring, without a full stop.
        returns: what the docstring says of the results.
        returned: their type.
        raises: when the docstring says that an `InputError` is raised.
    """
    parameters = parameters_of(options_class)
    signature = _make_signature(parameters, options_class, returned)

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"captau.{command}: {error}") from None
        composed = compose(options_class, arguments)
        options = options_class.read(composed)
        return run_into(composed.get("output_dir"), command, lambda: run(options))

    function.__name__ = function.__qualname__ = command
    function.__module__ = run.__module__
    function.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    function.__annotations__ = {**annotations, "return": returned}
    sections = {
        "Args": [f"{parameter.name}: {parameter.help}" for parameter in parameters],
        "Returns": [returns],
        "Raises": [f"InputError: {raises}"],
    }
    function.__doc__ = f"{summary}; `captau {command}` from Python.\n"
    for heading, entries in sections.items():
        function.__doc__ += f"\n{heading}:\n"
        for entry in entries:
            function.__doc__ += f"{_wrap(entry)}\n"
    return function


def _make_signature(
    parameters: Sequence[Parameter], options_class: type[Options], returned: str
) -> inspect.Signature:
    """Return the signature of a command's function; few keywords can be given by position."""
    signature_parameters: list[inspect.Parameter] = []
    for parameter in parameters:
        kind = inspect.Parameter.KEYWORD_ONLY
        if parameter.name in options_class.python_positional:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature_parameters.append(
            inspect.Parameter(
                parameter.name, kind, default=parameter.default, annotation=parameter.annotation
            )
        )
    return inspect.Signature(signature_parameters, return_annotation=returned)


def _wrap(entry: str) -> str:
    """Return an entry of a docstring's section, its further lines indented."""
    return textwrap.fill(
        entry,
        width=100,
        initial_indent=" " * 4,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def compose(options_class: type[Options], arguments: Mapping[str, Any]) -> Composed:
    """Compose the arguments of a command's function as Hydra composes what is typed.

    Args:
        options_class: the command's options.
        arguments: those that were given, by keyword.

    Raises:
        InputError: on an unknown key of a dictionary, an unknown name, or a value of another type.
    """
    parameters = parameters_of(options_class)
    plain: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    in_memory: list[str] = []
    for option in options_class.declared():
        if not option.config_group:
            _set(plain, option.key, _copy_of(option.default))

    for parameter in parameters:
        value = arguments.get(parameter.name, parameter.default)
        option = parameter.options[0]
        if parameter.name in DICTIONARIES:
            _set_dictionary(plain, parameter, value)
        elif option.config_group == "dataset":
            loaded = _set_datasets(plain, value)
            if loaded:
                objects["loaded"] = loaded
                in_memory.append(option.key)
        elif option.config_group:
            _set_files(plain, option, value, takes_all=options_class.takes_all == option.key)
        elif option.python is not None and option.python.read is not None:
            read = option.python.read(value, option.key)
            objects[option.key] = read.value
            _set(plain, option.key, read.spelling)
            if read.is_in_memory:
                in_memory.append(option.key)
        else:
            _check_type(option, value)
            _set(plain, option.key, _plain_data(value))

    if in_memory:
        plain["in_memory"] = in_memory
    return Composed(plain, frozenset(arguments), objects)


def _set(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key in nested dictionaries."""
    *parents, name = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[name] = value


def _copy_of(default: Any) -> Any:
    """Return a default that no caller can change for the next one."""
    if isinstance(default, dict | list):
        return default.copy()
    return default


def _plain_data(value: Any) -> Any:
    """Return a value without paths and tuples, as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain_data(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_data(child) for child in value]
    return value


def _check_type(option: Option, value: Any) -> None:
    """Raise InputError where a truth value or a number is expected and something else is given."""
    kinds = (option.type,)
    if isinstance(option.type, types.UnionType):
        kinds = option.type.__args__
    expected = [text for kind, text in _PLAIN_TYPES.items() if kind in kinds]
    is_absent = value is None and type(None) in kinds
    if not expected or is_absent or type(value) in kinds:
        return
    if float in kinds and type(value) is int:
        return
    raise InputError(f"{option.key} is {value!r}; {' or '.join(expected)} is expected")


def _set_dictionary(plain: dict[str, Any], parameter: Parameter, values: Any) -> None:
    """Set the options of a prefix that a dictionary names, or a file of the config group."""
    prefix = parameter.name
    if prefix == "protocol":
        values = changes_of(values)
    if not isinstance(values, Mapping | None):
        raise InputError(f"{prefix} is {values!r}; a dict of options is expected")

    by_key = {option.key: option for option in parameter.options}
    known_names: list[str] = []
    for key in by_key:
        _, dot, name = key.partition(".")
        if dot:
            known_names.append(name)
    for name, value in (values or {}).items():
        key = f"{prefix}.{name}"
        if key not in by_key and (prefix, name) != ("protocol", "name"):
            raise unknown(f"option of {prefix}", str(name), known_names)
        _set(plain, key, _plain_data(value))


def _set_datasets(plain: dict[str, Any], value: Any) -> dict[str, CaptionSet]:
    """Set the datasets that are named, and return those that are in memory, by name."""
    if isinstance(value, pd.DataFrame):
        raise InputError(
            "dataset is a DataFrame; a name, a captau.CaptionSet or a list of these is expected (docs/own_judgements.md reads a "
            "table of ratings)"
        )

    entries: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    loaded: dict[str, CaptionSet] = {}
    given_names: list[Any] = []
    for entry in entries:
        if isinstance(entry, CaptionSet):
            loaded[entry.card.name] = entry
            given_names.append(entry.card.name)
        else:
            given_names.append(entry)

    names, optional_names = expand_sets(names_of(given_names if loaded else value))
    plain["datasets"] = {}
    for name in names:
        # A set in memory has no file in conf/dataset/, and is one's own.
        usual = usual_protocol(OWN if name in loaded else name)
        plain["datasets"][name] = {"protocol": usual}
    plain["optional_datasets"] = optional_names
    return loaded


def _set_files(plain: dict[str, Any], option: Option, value: Any, *, takes_all: bool) -> None:
    """Set what the files of a config group say, by the names that are given."""
    known_names = group(option.config_group)
    names = [value] if isinstance(value, str) else list(value or ())
    if takes_all and names == ["all"]:
        names = list(known_names)
    for name in names:
        if name not in known_names:
            raise unknown(option.config_group, str(name), known_names)
    plain[f"{option.key}s"] = {name: read_config(option.config_group, name) for name in names}
