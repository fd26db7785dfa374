"""Own files of configuration: the folder of `--config-dir` is checked here, so that errors name file and line.

The files are plain YAML: `dataset/NAME.yaml` has `file` (the options of `dataset=file`) and `protocol`,
`protocol/NAME.yaml` what differs from a dataset's usual protocol, `suite/NAME.yaml` a list `metrics`,
`paper/NAME.yaml` what captau's own papers have, with the printed numbers in `paper/NAME.csv`, and
`experiment/NAME.yaml` options of a command. `docs/own_files.md` shows one of each.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...conf import OWN_GROUPS, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.rating_scales import scales_path
from ...datasets.reading.yaml_fields import YamlFields, read_yaml_fields
from ..evaluation.published_numbers import PaperTable
from ..runs.results import parse_missing_note
from ..scoring.catalog import dataset_names, resolve_metrics, usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import OWN
from ..statistics.coefficients.coefficient import coefficient_names
from .reproduce import PaperSchema
from .shared import FILE


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
        group_name, name = path.parent.name, path.stem
        if group_name not in OWN_GROUPS:
            raise InputError(f"{path}: {unknown('folder', group_name, OWN_GROUPS)}")
        if not re.fullmatch(r"\w+", name):
            raise InputError(f"{path}: rename it; letters, digits and '_' are expected")
        if name in (registry.names() if group_name == "dataset" else shipped_names(group_name)):
            raise InputError(f"{path}: captau has a {group_name} of this name; rename the file")
    for path in paths:
        fields = read_yaml_fields(path)
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
    _check_protocol(fields.section("protocol"), path)


def _check_protocol(fields: YamlFields, _: Path) -> None:
    names = [field.name for field in dataclasses.fields(Protocol)]
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
        resolve_metrics(fields.texts("metrics"))
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
            _ = () if spec is None or parse_missing_note(str(spec)) else resolve_metrics(spec)
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
