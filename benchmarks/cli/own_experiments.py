"""One's own experiments, `experiment/NAME.yaml` in the folder of `--config-dir`, as Hydra composes them.

An experiment holds options of a command. The model of its file is made of their declarations: of an option's type, and
of what checks its values.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_origin

from pydantic import (
    AfterValidator,
    Discriminator,
    Tag,
    WrapValidator,
)

from ...conf import CONFIG_DIR, own_files
from ...datasets.errors import InputError
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.reading.yaml_model import (
    YamlModel,
    fault,
    refused,
    validate,
)
from ..options.declaration import Option, declarations
from ..options.shared import STATISTICS, STORED, statistics_of
from .arguments import read_protocol_word
from .command import Command
from .overrides import EXPERIMENT, EXPERIMENT_GROUP, resolve_names
from .own_files import (
    ComposedModel,
    TypedProtocolBase,
    as_typed,
    check_words,
    is_interpolation,
    make_model,
    pass_interpolation,
    type_of,
)
from .stored_options import check_programs

#: Options that stand for stored ones, which an experiment does not have.
_STORED_KEYS = tuple(option.key for option in STORED)


def read_experiments(command: Command, words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return one's own experiments by name, as Hydra composes them; those that words choose are checked.

    Raises:
        InputError: where a chosen experiment is not there, has an option that the command lacks or a value of another
            type, or names a program to run.
    """
    typed_keys = {word.partition("=")[0] for word in words}
    files = own_files(EXPERIMENT)
    experiment_names: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        if key.lstrip("+") in (EXPERIMENT, EXPERIMENT_GROUP):
            if value.startswith("glob("):
                experiment_names += _match_experiments(word, list(files))
                continue
            # Hydra's functions of a sweep stand around names.
            names = re.sub(r"^(choice|sort|shuffle|tag)\(", "", value)
            experiment_names += re.findall(r"[\w/-]+", names)

    has_other_folders = any(key.lstrip("+") == "hydra.searchpath" for key in typed_keys)
    model = _experiment_model(command)
    experiments: dict[str, dict[str, Any]] = {}
    for name in experiment_names:
        if name in files:
            experiments[name] = _read_experiment(command, model, files[name], typed_keys)
        elif not (has_other_folders or name == "null" or _is_in_subfolder(name)):
            listed_names = ", ".join(files) or "none; --config-dir=DIR says where they lie"
            raise InputError(f"unknown experiment '{name}'; known: {listed_names}")

    # Those that are named only in the defaults of others may be of another command.
    for name in files.keys() - experiments.keys():
        with contextlib.suppress(InputError):
            experiments[name] = _read_experiment(command, model, files[name], typed_keys)
    return experiments


def _match_experiments(word: str, names: list[str]) -> list[str]:
    """Return the experiments that a word such as `experiment=glob(a*)` means.

    Raises:
        InputError: where there is none, so that Hydra would start no job.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        pattern: Any = OverridesParser.create().parse_override(word).value()
    except HydraException:
        # Hydra meets the same error next, and says it.
        return []

    matched_names: list[str] = pattern.filter(names)
    if not matched_names:
        raise InputError(f"{word}: no experiment matches; known: {', '.join(names) or 'none'}")
    return matched_names


def _is_in_subfolder(name: str) -> bool:
    """Tell whether Hydra finds a name such as `deep/quick` in a folder below that of experiments."""
    folder = os.environ.get(CONFIG_DIR)
    return bool(folder) and "/" in name and Path(folder, EXPERIMENT, f"{name}.yaml").is_file()


def _experiment_model(command: Command) -> type[YamlModel]:
    """Return the model of an experiment of a command: its options, nested by the dots of their keys."""
    checks: dict[str, Callable[[Any], None]] = {}
    for declaration in declarations(command.options).values():
        # What is read into another form is checked when it is read.
        if declaration.has_one_key and declaration.read is None:
            checks[declaration.options[0].key] = declaration.check_value
    types: dict[str, Any] = {"defaults": list[Any], "hydra": dict[str, Any]}
    for option in command.declared():
        if option.key in _STORED_KEYS:
            continue
        if option.config_group:
            kind: Any = Annotated[Any, AfterValidator(partial(_check_names, command, option))]
        else:
            kind = type_of(option)
        if option.key in checks:
            kind = Annotated[kind, AfterValidator(partial(_run_check, checks[option.key]))]
        if option in STATISTICS:
            kind = Annotated[kind, AfterValidator(partial(_check_statistic, option))]
        types[option.key] = Annotated[kind, WrapValidator(pass_interpolation)]

    model = _nest(command.slug, types)
    model.field_label = f"option of captau {command.name}"
    model.fields_listed_by = f"captau {command.name} --help all"
    return model


def _nest(name: str, types: Mapping[str, Any]) -> Any:
    """Return a model of types by dotted key, with a model for each first part that several keys share."""
    fields_here: dict[str, Any] = {}
    fields_below: dict[str, dict[str, Any]] = {}
    for key, kind in types.items():
        first, dot, rest = key.partition(".")
        if dot:
            fields_below.setdefault(first, {})[rest] = kind
        else:
            fields_here[key] = kind

    for first, types_below in fields_below.items():
        base = TypedProtocolBase if first == "protocol" else ComposedModel
        fields = make_model(first, types_below, base)
        has_names = first in fields_here
        fields_here[first] = _names_or_fields(fields_here[first], fields) if has_names else fields
    return make_model(name, fields_here)


def _names_or_fields(names: Any, fields: Any) -> Any:
    """Return the type of a value that is names of a config group, or a mapping of its options."""
    of_names: Any = Annotated[names, Tag("names of a group")]
    of_fields: Any = Annotated[fields, Tag("fields of a group")]

    def choose(value: Any) -> str:
        return "fields of a group" if isinstance(value, dict) else "names of a group"

    return Annotated[of_names | of_fields, Discriminator(choose)]


def _run_check(check: Callable[[Any], None], value: Any) -> Any:
    with refused():
        check(value)
    return value


def _check_statistic(option: Option, value: Any) -> Any:
    with refused():
        statistics_of({option.key.partition(".")[2]: value})
    return value


def _check_names(command: Command, option: Option, value: Any) -> Any:
    """Check the names of a config group; options of a rater are left to it."""
    if option.config_group == "rater" and isinstance(value, dict):
        return value

    check_words(value)
    if not all(str(name).strip() for name in _names_of(value)):
        raise fault("an empty name; take it out")
    with refused():
        _resolve(command, option, value)
    return value


def _names_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resolve(command: Command, option: Option, value: Any) -> dict[str, Any]:
    """Return what the names of a config group mean, by the option that takes it: lists of names, or a choice.

    Raises:
        InputError: on an unknown name.
    """
    text = ",".join(map(str, _names_of(value)))
    if option.key == "protocol":
        key, _, choice = read_protocol_word(f"protocol={text}").partition("=")
        if key != "protocol":  # protocol: spearman
            return {key: as_typed(choice)}
    return resolve_names(command, option.key, text)


def _read_experiment(
    command: Command, model: type[YamlModel], path: Path, typed_keys: Collection[str]
) -> dict[str, Any]:
    """Return an experiment's file as Hydra composes it: names of config groups stand among its defaults.

    Raises:
        InputError: where it has an option that the command lacks, a value of another type, or a program to run.
    """
    document = YamlDocument.read(path)
    _check_package(path)
    validate(document, model)
    options = {option.key: option for option in command.declared()}
    node = {key: value for key, value in document.plain.items() if key in ("defaults", "hydra")}
    defaults: list[Any] = list(node.get("defaults", []))
    values: dict[str, Any] = {}
    for key, value in _flatten(document.plain, options):
        if key in node:
            continue

        option = options[key]
        if not option.config_group or isinstance(value, Mapping) or is_interpolation(value):
            is_list = get_origin(option.type) is list
            values[key] = value.split(",") if is_list and isinstance(value, str) else value
            continue

        for name, names in _resolve(command, option, value).items():
            if name == key:
                defaults.append({f"override /{name}": names if len(names) > 1 else names[0]})
            else:
                values[name] = names

    check_programs(values, typed_keys)
    for key, value in values.items():
        *parents, name = key.split(".")
        branch = node
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return {**node, "defaults": defaults}


def _check_package(path: Path) -> None:
    """Check that an experiment's file has no header that puts its keys below another one, which Hydra alone would read.

    Raises:
        InputError: where it has one.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        header = re.match(r"#\s*@package\s+(\S+)", line)
        if header is not None and header[1] != "_global_":
            raise InputError(
                f"{path}:{number}: the header '@package {header[1]}' is not read in an experiment; leave it out, and write "
                f"its keys below {header[1]}:"
            )


def _flatten(
    plain: Mapping[str, Any], options: Mapping[str, Option], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the values of an experiment by the dotted keys of options."""
    for name, value in plain.items():
        key = f"{prefix}{name}"
        is_section = any(option_key.startswith(f"{key}.") for option_key in options)
        if is_section and isinstance(value, Mapping):
            yield from _flatten(value, options, f"{key}.")
        elif key in options or value is not None:  # a section may be empty
            yield key, value
