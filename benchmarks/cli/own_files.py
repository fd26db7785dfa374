"""Options that are stored, in the run.json of a finished run (`run=DIR`) and in own files, and the check of these files.

Stored options become words before those that are typed, which win. The folder of `--config-dir` is checked here, so that
errors name file and line. Its files are plain YAML: `dataset/NAME.yaml` has `file` (the options of `dataset=file`) and
`protocol`, `protocol/NAME.yaml` what differs from a dataset's usual protocol, `suite/NAME.yaml` a list `metrics`,
`paper/NAME.yaml` what captau's own papers have, with the printed numbers in `paper/NAME.csv`, and `experiment/NAME.yaml`
options of a command. `docs/own_files.md` shows one of each.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

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
from .arguments import quoted
from .command import Command
from .registry import COMMANDS

_KEYS = tuple(option.key for option in STORED)
#: A text that means the same in Hydra's grammar with and without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")


def expand_stored_options(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words of a command with `experiment=` and `run=` replaced by the options that these store.

    Raises:
        InputError: on an unknown experiment, a folder without a run, or an option that the command lacks.
    """
    options = {option.key: option for option in command.declared()}
    if not _has_stored(options):
        return list(words)

    typed = [word for word in words if word.partition("=")[0] not in _KEYS]
    stored: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key == "experiment":
            stored |= _read_experiment(command, options, value)
        elif key == "run":
            folders = [str(find_run(f)) for f in split_folders(value)]
            if len(folders) == 1:
                stored |= _read_run_options(command, options, folders[0], typed)
            elif command.name == "compare":
                typed.append(f"run=[{','.join(map(quoted, folders))}]")
            else:
                raise InputError(f"{word}: one folder is expected; captau compare takes two")

    typed_keys = {word.partition("=")[0] for word in typed}
    for key in sorted({"java.home", "java.spice"} & stored.keys() - typed_keys):
        raise InputError(
            f"{key} of a stored run or experiment names programs to run; if you trust {stored[key]}, type {key}= as well"
        )
    if "dataset" in typed_keys:
        # Options of a stored file belong to the stored dataset.
        typed_keys.add("file")

    expanded: list[str] = []
    for key, value in stored.items():
        # A typed `protocol=` takes the place of all stored options of the protocol.
        if key not in typed_keys and key.partition(".")[0] not in typed_keys:
            expanded.append(f"{key}={value}")
    return [*expanded, *typed]


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


def _read_experiment(command: Command, options: Mapping[str, Option], name: str) -> dict[str, str]:
    """Return the options of an experiment's file.

    Raises:
        InputError: where there is no such file, or it has an option that the command lacks or a value of another type.
    """
    files = own_files("experiment")
    if name not in files:
        listed_names = ", ".join(files) or "none; --config-dir=DIR says where they lie"
        raise InputError(f"unknown experiment '{name}'; known: {listed_names}")

    def walk(fields: YamlFields, prefix: str) -> Iterator[tuple[str, str]]:
        for field in fields:
            key = f"{prefix}{field}"
            value = fields.plain_data(field)
            if isinstance(value, dict) and any(k.startswith(f"{key}.") for k in options):
                yield from walk(fields.section(field), f"{key}.")
                continue

            if key not in options or key in _KEYS:
                listed_by = f"captau {command.name} --help all"
                label = f"option of captau {command.name}"
                raise fields.error(field, str(unknown(label, key, options, listed_by=listed_by)))
            kinds = get_args(options[key].type) or (options[key].type,)
            numbers = {bool, int, float} & set(kinds)
            if numbers and type(value) not in (*kinds, int if float in kinds else bool):
                expected = " or ".join(sorted(kind.__name__ for kind in numbers))
                raise fields.error(field, f"{value!r} is not of type {expected}")
            yield key, _hydra_text(value)

    return dict(walk(read_yaml_fields(files[name]), ""))


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
    """Check the files of a folder.

    Raises:
        InputError: on the first file that is no YAML, lies in an unknown folder, has the name of one of captau's, or
            has a field or value that captau does not know.
    """
    paths = sorted(folder.glob("*/*.yaml"))
    if not paths:
        groups = ", ".join(f"{name}/" for name in OWN_GROUPS)
        raise InputError(
            f"--config-dir={folder}: no YAML file in it; they lie in its folders {groups}"
        )
    for path in paths:
        group_name = path.parent.name
        name = path.stem
        if group_name not in OWN_GROUPS:
            raise InputError(f"{path}: {unknown('folder', group_name, OWN_GROUPS)}")
        if not re.fullmatch(r"\w+", name):
            raise InputError(f"{path}: rename it; letters, digits and '_' are expected")
        if name in (registry.names() if group_name == "dataset" else shipped_names(group_name)):
            raise InputError(f"{path}: captau has a {group_name} of this name; rename the file")

    for path in paths:
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
