"""Options that are stored, in the run.json of a finished run (`run=DIR`) and in own files, and the check of these files.

Stored options become words before those that are typed, which win. The folder of `--config-dir` is checked here, so that
errors name file and line. Its files are plain YAML: `dataset/NAME.yaml` has `file` (the options of `dataset=file`) and
`protocol`, `protocol/NAME.yaml` what differs from a dataset's usual protocol, `suite/NAME.yaml` a list `metrics`,
`paper/NAME.yaml` what captau's own papers have, with the printed numbers in `paper/NAME.csv`, and `experiment/NAME.yaml`
options of a command. `docs/own_files.md` shows one of each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from ...conf import OWN_GROUPS, own_files, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.rating_scales import scales_path
from ...datasets.reading.yaml_fields import YamlFields, read_yaml_fields
from ..evaluation.papers.published_numbers import PaperTable
from ..options.declaration import Option
from ..options.reproduce import PaperSchema
from ..options.shared import FILE, STORED
from ..runs.finished_run import read_run
from ..runs.output_folder import find_run
from ..runs.results import find_missing_reason
from ..scoring.catalog import dataset_names, resolve_metrics, usual_protocol
from ..scoring.protocol import CHOICES, Protocol
from ..scoring.score_store import OWN
from ..statistics.coefficients.coefficient import coefficient_names
from .arguments import (
    EXPERIMENT,
    EXPERIMENT_GROUP,
    quoted,
    read_protocol_word,
    resolve_names,
)
from .command import Command
from .registry import COMMANDS

_KEYS = tuple(option.key for option in STORED)
RUN = "run"
#: A text that means the same in Hydra's grammar with and without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")


def expand_stored_options(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words of a command with `run=` replaced by the options that the run stored.

    Raises:
        InputError: on a folder without a run, or an option that the command lacks.
    """
    options = {option.key: option for option in command.declared()}
    if not _has_stored(options):
        return list(words)

    typed = [word for word in words if word.partition("=")[0] != RUN]
    stored: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key == RUN:
            folders = [str(find_run(f)) for f in split_folders(value)]
            if len(folders) == 1:
                stored |= _read_run_options(command, options, folders[0], typed)
            elif command.name == "compare":
                typed.append(f"run=[{','.join(map(quoted, folders))}]")
            else:
                raise InputError(f"{word}: one folder is expected; captau compare takes two")

    typed_keys = {word.partition("=")[0] for word in typed}
    _check_programs(stored, typed_keys)
    if "dataset" in typed_keys:
        # Options of a stored file belong to the stored dataset.
        typed_keys.add("file")

    expanded: list[str] = []
    for key, value in stored.items():
        # A typed `protocol=` takes the place of all stored options of the protocol.
        if key not in typed_keys and key.partition(".")[0] not in typed_keys:
            expanded.append(f"{key}={value}")
    return [*expanded, *typed]


def _check_programs(stored: Mapping[str, Any], typed_keys: Collection[str]) -> None:
    """Check that programs to run are typed, and not only stored.

    Raises:
        InputError: where one is not.
    """
    for key in ("java.home", "java.spice"):
        if key in stored and key not in typed_keys:
            raise InputError(
                f"{key} of a stored run or experiment names programs to run; if you trust {stored[key]}, type {key}= as well"
            )


def _has_stored(options: Mapping[str, Option]) -> bool:
    """Say whether a command can take stored options; `run` of other commands is another option."""
    return all(options.get(option.key) == option for option in STORED)


def split_folders(value: str) -> list[str]:
    """Return the folders of `A,B` or `[A,B]`; a folder that is there may have commas in its name."""
    if expand_home(value).is_dir():
        return [value]
    return [part.strip(" '\"") for part in value.removeprefix("[").removesuffix("]").split(",")]


def _read_run_options(
    command: Command, options: Mapping[str, Option], folder: str, typed: Sequence[str]
) -> dict[str, str]:
    """Return the options of a finished run that this command has too and that are not its defaults.

    Raises:
        InputError: where Python objects were scored, which no file holds, and `typed` names none instead; where the
            run's datasets are no names.
    """
    commands = [c.name for c in COMMANDS.values() if c is command]
    if "dataset" in options:
        declared = {c: {option.key: option for option in c.declared()} for c in COMMANDS.values()}
        # Commands that take datasets and stored options take the runs of one another.
        commands = []
        for peer, by_key in declared.items():
            if peer is command or (_has_stored(by_key) and "dataset" in by_key):
                commands.append(peer.name)

    run = read_run(folder, checks_numbers=False)
    if (run.folder / "manifest.json").is_file():
        raise InputError(
            f"{folder} is the run of a large set, which run= does not take: captau score candidates=SHARDS "
            f"output_dir={folder} continues it, captau score keep.run={folder} filters it, and table.md in it is its table"
        )
    if run.command not in commands:
        raise InputError(
            f"{folder} is a run of captau {run.command}; one of {', '.join(commands)} is expected"
        )

    config = dict(run.run.get("config") or {})
    replaced = {word.partition("=")[0] for word in typed}
    if in_memory := [key for key in config.get("in_memory", ()) if key not in replaced]:
        raise InputError(
            f"{folder} was run from Python objects that were not saved ({', '.join(in_memory)}); run it again from "
            f"Python, or type {' '.join(f'{key}=…' for key in in_memory)} as well"
        )

    for group_name, key in (("dataset", "datasets"), ("paper", "papers")):
        names: Any = config.get(key) or config.get(group_name) or ()
        if not isinstance(names, list | dict | str | tuple):
            raise InputError(
                f"{folder}/run.json: config.{key} is {names!r}; names are expected; run it again"
            )
        config[group_name] = list(names)

    if isinstance(rater := config.get("rater"), Mapping):
        options = {**options, **{f"rater.{k}": Option(f"rater.{k}", None, "") for k in rater}}
        config |= {f"rater.{k}": v for k, v in rater.items()} | {"rater": rater.get("name")}

    left_out = command.options.own_meaning if run.command != command.name else ()
    stored: dict[str, str] = {}
    for key, option in options.items():
        value = _look_up(config, key, option.default)
        is_choice = key in ("protocol", "output_dir", *_KEYS, "rater.name", "rater.demo", *left_out)
        if not is_choice and value not in ([], option.default):
            stored[key] = _hydra_text(value)
    return stored


def _look_up(config: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return the value of a dotted key, or the default where there is none."""
    value: Any = config
    if key in config:
        return config[key]
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return default
        value = value[name]
    return value


def read_experiments(command: Command, words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return one's own experiments by name, as Hydra composes them; those that words choose are checked.

    Raises:
        InputError: where a chosen experiment is not there, has an option that the command lacks or a value of another
            type, or names a program to run.
    """
    typed_keys = {word.partition("=")[0] for word in words}
    chosen: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        if key.lstrip("+") in (EXPERIMENT, EXPERIMENT_GROUP):
            chosen += re.findall(r"[\w-]+", re.sub(r"^(choice|glob|sort|shuffle|tag)\(", "", value))

    files = own_files(EXPERIMENT)
    has_other_folders = any(key.lstrip("+") == "hydra.searchpath" for key in typed_keys)
    experiments: dict[str, dict[str, Any]] = {}
    for name in chosen:
        if name in files:
            experiments[name] = _read_experiment(command, files[name], typed_keys)
        elif not (has_other_folders or name == "null"):
            listed_names = ", ".join(files) or "none; --config-dir=DIR says where they lie"
            raise InputError(f"unknown experiment '{name}'; known: {listed_names}")

    # Those that are named only in the defaults of others may be of another command.
    for name in files.keys() - experiments.keys():
        with contextlib.suppress(InputError):
            experiments[name] = _read_experiment(command, files[name], typed_keys)
    return experiments


def _read_experiment(command: Command, path: Path, typed_keys: Collection[str]) -> dict[str, Any]:
    """Return an experiment's file as Hydra composes it: names of config groups stand among its defaults.

    Raises:
        InputError: where it has an option that the command lacks, a value of another type, or a program to run.
    """
    options = {option.key: option for option in command.declared()}
    fields = read_yaml_fields(path)
    defaults: list[Any] = []
    values: dict[str, Any] = {}

    def walk(fields: YamlFields, prefix: str) -> None:
        for name in fields:
            key = f"{prefix}{name}"
            value = fields.plain_data(name)
            if not prefix and name in ("defaults", "hydra"):
                continue
            if isinstance(value, dict) and any(k.startswith(f"{key}.") for k in options):
                walk(fields.section(name), f"{key}.")
                continue

            if key not in options or key in _KEYS:
                listed_by = f"captau {command.name} --help all"
                label = f"option of captau {command.name}"
                raise fields.error(name, str(unknown(label, key, options, listed_by=listed_by)))
            try:
                _place_value(command, options[key], value, defaults=defaults, values=values)
            except InputError as error:
                raise fields.error(name, str(error)) from error

    walk(fields, "")
    _check_programs(values, typed_keys)
    node: dict[str, Any] = {}
    for key, value in values.items():
        *parents, name = key.split(".")
        branch = node
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value

    own_defaults = fields.plain_data("defaults") if "defaults" in fields else []
    if "hydra" in fields:
        node["hydra"] = fields.plain_data("hydra")
    return {"defaults": [*own_defaults, *defaults], **node}


def _place_value(
    command: Command,
    option: Option,
    value: Any,
    *,
    defaults: list[Any],
    values: dict[str, Any],
) -> None:
    """Put a value of an experiment where Hydra expects it: a name of a config group among the defaults.

    Raises:
        InputError: on an unknown name or a value of another type.
    """
    if option.config_group and not isinstance(value, Mapping):
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        key, _, text = read_protocol_word(f"{option.key}={text}").partition("=")
        if key != option.key:  # protocol: spearman
            values[key] = text.split(",")
            return
        for name, names in resolve_names(command, key, text).items():
            if name == key:
                defaults.append({f"override /{name}": names if len(names) > 1 else names[0]})
            else:
                values[name] = names
        return

    kinds = get_args(option.type) or (option.type,)
    numbers = {bool, int, float} & set(kinds)
    is_interpolation = isinstance(value, str) and "${" in value
    accepted = (*kinds, int if float in kinds else bool)
    if numbers and not is_interpolation and type(value) not in accepted:
        expected = " or ".join(sorted(kind.__name__ for kind in numbers))
        raise InputError(f"{value!r} is not of type {expected}")
    is_list = get_origin(option.type) is list
    values[option.key] = value.split(",") if is_list and isinstance(value, str) else value


def _hydra_text(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_hydra_text(k)}:{_hydra_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return quoted(value)
    text = str(value)
    return text.lower() if isinstance(value, bool) else text


def check_config_dir(folder: Path) -> None:
    """Check the files of a folder; groups of the user's own are left to Hydra.

    Raises:
        InputError: on the first file that is no YAML, has the name of one of captau's, or has a field or value that
            captau does not know; on a folder whose name is nearly that of one of captau's.
    """
    paths = sorted(folder.glob("*/*.yaml"))
    if not paths and not any(folder.rglob("*.yaml")):
        groups = ", ".join(f"{name}/" for name in OWN_GROUPS)
        raise InputError(
            f"--config-dir={folder}: no YAML file in it; they lie in its folders {groups}"
        )
    for path in paths:
        group_name = path.parent.name
        name = path.stem
        if group_name not in OWN_GROUPS:
            if difflib.get_close_matches(group_name, OWN_GROUPS, n=1, cutoff=0.8):
                raise InputError(f"{path}: {unknown('folder', group_name, OWN_GROUPS)}")
            continue
        if not re.fullmatch(r"\w+", name):
            raise InputError(f"{path}: rename it; letters, digits and '_' are expected")
        if name in (registry.names() if group_name == "dataset" else shipped_names(group_name)):
            raise InputError(f"{path}: captau has a {group_name} of this name; rename the file")

    for path in paths:
        if path.parent.name not in OWN_GROUPS:
            continue
        fields = read_yaml_fields(path)
        if not fields.names:
            raise InputError(
                f"{fields.location}: the file is empty; write its fields, or remove it"
            )
        _CHECKS[path.parent.name](fields, path)
        fields.reject_unknown()


def _check_dataset(fields: YamlFields, path: Path) -> None:
    options = fields.section("file")
    table = path.parent / expand_home(options.text("path"))
    if not table.is_file():
        raise options.error("path", f"there is no file {table}")
    if scales_path(table) == path:
        raise options.error(
            "path", f"{path.name} would be its file of scales; rename {options.text('path')}"
        )
    field_names = [option.key.partition(".")[2] for option in FILE]
    _check_keys(options, [key for key in field_names if key != "name"])
    for key in ("low", "high", "step"):
        options.optional_number(key)
    _check_protocol(fields.section("protocol"), path)


def _check_protocol(fields: YamlFields, _: Path) -> None:
    names = list(CHOICES)
    changes = _check_keys(fields, names)
    # Field by field: the first after which the protocol is not valid is the wrong one. `k` needs `references`.
    resolved: dict[str, Any] = {}
    for name in sorted(changes, key=["references", "level", *names].index):
        resolved[name] = changes[name]
        if name == "references" and "k" in changes:
            resolved["k"] = changes["k"]
        try:
            Protocol.resolve(OWN, usual_protocol(OWN), resolved)
        except InputError as error:
            raise fields.error(name, str(error)) from error


def _check_suite(fields: YamlFields, _: Path) -> None:
    try:
        resolve_metrics(fields.texts("metrics"), loads_code=False)
    except InputError as error:
        raise fields.error("metrics", str(error)) from error


def _check_paper(fields: YamlFields, path: Path) -> None:
    for name in [field.name for field in dataclasses.fields(PaperSchema)][:2]:
        fields.text(name)
    for table in fields.sections("tables"):
        _check_table(table, path)
        table.reject_unknown()
    if not path.with_suffix(".csv").is_file():
        raise InputError(f"{path}: the printed numbers are missing; put them into {path.stem}.csv")


def _check_table(table: YamlFields, path: Path) -> None:
    """Check a table of metrics' correlations; captau's own papers have other kinds besides."""
    table.text("table")
    table.choice("kind", ["correlation"])
    table.choice("dataset", dataset_names())
    _check_protocol(table.section("protocol"), path)
    rows = table.section("rows")
    for row, spec in _check_keys(rows).items():
        try:
            if spec is not None and not find_missing_reason(str(spec)):
                resolve_metrics(spec, loads_code=False)
        except InputError as error:
            raise rows.error(row, str(error)) from error
    columns = table.section("columns")
    for name in columns:
        column = columns.section(name)
        if "missing" not in column:
            column.choice("coefficient", coefficient_names())
        _check_protocol(column.section("protocol"), path)
        _check_keys(column, ["coefficient", "dimension", "protocol", "bound", "missing"])
    _check_keys(table, [field.name for field in dataclasses.fields(PaperTable)])


def _check_experiment(fields: YamlFields, _: Path) -> None:
    """Check that the file holds values; the command that reads it checks the names of its options."""
    _check_keys(fields)


_CHECKS: Mapping[str, Callable[[YamlFields, Path], None]] = {
    "dataset": _check_dataset,
    "protocol": _check_protocol,
    "suite": _check_suite,
    "paper": _check_paper,
    "experiment": _check_experiment,
}


def _check_keys(fields: YamlFields, field_names: list[str] | None = None) -> dict[str, Any]:
    """Return the values of all fields, after checking that their names are known; None knows all.

    Raises:
        InputError: on the first that is not.
    """
    for name in fields:
        if field_names is not None and name not in field_names:
            raise fields.error(name, str(unknown("field", name, field_names)))
    return {name: fields.plain_data(name) for name in fields}
