"""`captau compare run=A,B`: what moved between two finished runs, and the likely causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..runs.finished_run import FinishedRun, read_run
from ..runs.tables import ResultTable
from .differences import (
    OUR_CODE,
    Difference,
    cause_of,
    correlation_differences,
    difference_in_one,
    format_change,
    make_difference_table,
    score_text,
    signature_changes_of,
    version_differences,
)

#: Scores that differ by less are equal, as for baselines.
_TOLERANCE = 1e-9
#: Options that move no number.
_PLACES = ("output_dir", "cache", "data", "java", "weights", "run", "experiment")


@dataclass(frozen=True)
class RunComparison:
    """The differences of two runs: a table, if there are any, and a closing line."""

    tables: list[ResultTable]
    summary: str


def compare_runs(before_folder: Path, now_folder: Path) -> RunComparison:
    """Compare two finished runs that have correlations.

    Raises:
        InputError: where a folder holds no such run, or a file that was changed.
    """
    before = read_run(before_folder, needs="correlations.csv")
    now = read_run(now_folder, needs="correlations.csv")
    differences = list_differences(before, now)

    old_cells = _cells(before)
    new_cells = _cells(now)
    # What one run lacks has not moved; it has a line of its own.
    n_correlations = sum(len(old_cells[cell]) for cell in old_cells.keys() & new_cells.keys())
    n_moved = sum(d.part == "correlations" and not d.is_in_one for d in differences)
    names = f"{before.folder} and {now.folder}"
    summary = f"{names}: {n_moved} of {n_correlations} correlations differ by half a printed digit or more"

    tables: list[ResultTable] = []
    if differences:
        metrics = sorted({*before.run.get("signatures", {}), *now.run.get("signatures", {})})
        columns = (before.folder.name or "before", now.folder.name or "now")
        title = f"{names}: differences"
        tables.append(make_difference_table(title, differences, metrics, columns))

    return RunComparison(tables, summary)


def list_differences(before: FinishedRun, now: FinishedRun) -> list[Difference]:
    """List what differs between two runs: data, options, versions, parameters, scores, correlations."""
    old = before.run
    new = now.run
    differences_by_dataset = _data_differences(old.get("data", {}), new.get("data", {}))
    data = list(chain.from_iterable(differences_by_dataset.values()))
    options = list(_option_differences(old.get("config", {}), new.get("config", {})))
    packages = _changed_packages(old.get("versions", {}), new.get("versions", {}))

    old_signatures = old.get("signatures", {})
    signature_changes: dict[str, dict[str, tuple[str, str]]] = {}
    for name, signature in new.get("signatures", {}).items():
        if name in old_signatures:
            signature_changes[name] = signature_changes_of(old_signatures[name], signature)

    old_cells = _cells(before)
    new_cells = _cells(now)
    scores: list[Difference] = []
    correlations: list[Difference] = []

    for dataset, metric in dict.fromkeys([*old_cells, *new_cells]):
        cell = (dataset, metric)
        if cell not in old_cells or cell not in new_cells:
            line = difference_in_one(
                "correlations", (metric,), dataset, is_in_old=cell in old_cells
            )
            correlations.append(line)
            continue

        # Another protocol explains more than any code could.
        cause = _protocol_change(before, now, dataset)
        if not cause:
            changes = signature_changes.get(metric, {})
            cause = cause_of(dataset in differences_by_dataset, changes, packages, OUR_CODE)
        scores += _score_differences(before, now, dataset, metric, cause)
        correlations += correlation_differences(old_cells[cell], new_cells[cell], metric, cause)

    parameters: list[Difference] = []
    for name, fields in signature_changes.items():
        for key, (old_value, new_value) in fields.items():
            # A package has its line among the versions.
            if key not in packages:
                parameters.append(Difference("parameters", (name,), key, old_value, new_value))

    moving = {difference.metrics[0] for difference in (*scores, *correlations)}
    versions = version_differences(packages, signature_changes, "all", moving)
    return [*data, *options, *versions, *parameters, *scores, *correlations]


def _changed_packages(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return both versions of each package whose version differs; `–` where a run lacks it."""
    changed: dict[str, tuple[str, str]] = {}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            changed[name] = (old.get(name, "–"), new.get(name, "–"))

    return changed


def _data_differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, list[Difference]]:
    """Return the differences of each dataset that changed, or that one run lacks, by its name."""
    differences: dict[str, list[Difference]] = {}
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            line = difference_in_one("data", (), name, is_in_old=name in old)
            differences[name] = [line]
            continue

        for key in ("revision", "digest"):
            before = str(old[name].get(key))
            now = str(new[name].get(key))
            if before != now:
                line = Difference("data", (), f"{name} {key}", before[:12], now[:12])
                differences.setdefault(name, []).append(line)

    return differences


def _option_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the options that differ, of those that both runs have."""
    before = dict(_flatten(old))
    now = dict(_flatten(new))
    for key, value in before.items():
        # Where a run lies does not matter to it.
        is_place = key.partition(".")[0] in _PLACES
        if key in now and not is_place and value != now[key]:
            yield Difference("options", (), key, _text_of(value), _text_of(now[key]))


def _text_of(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(str, value))

    return str(value)


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _protocol_change(before: FinishedRun, now: FinishedRun, dataset: str) -> str:
    """Describe how a dataset's protocol differs; empty where it does not."""
    old = before.run.get("protocols", {}).get(dataset) or {}
    new = now.run.get("protocols", {}).get(dataset) or {}
    changes: list[str] = []
    for key, value in old.items():
        # Neither the name nor what is printed moves a number.
        if key in ("name", "coefficients") or key not in new:
            continue
        if value != new[key]:
            changes.append(f"protocol.{key}: {value} → {new[key]}")

    return "; ".join(changes)


def _cells(run: FinishedRun) -> dict[tuple[str, str], dict[str, float]]:
    """Return the correlations by dataset and metric, and in these by `DATASET DIMENSION COEFFICIENT`."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in run.printed_correlations.to_dict("records"):
        parts = (row["dataset"], row["dimension"], row["coefficient"])
        key = " ".join(filter(None, parts))
        cells.setdefault((row["dataset"], row["metric"]), {})[key] = float(row["value"])

    return cells


def _score_differences(
    before: FinishedRun, now: FinishedRun, dataset: str, metric: str, cause: str
) -> list[Difference]:
    """List a line where scores of items that both runs have differ."""
    old = _scores_of(before, dataset, metric)
    new = _scores_of(now, dataset, metric)
    pairs = pd.concat([old, new], axis=1, join="inner", keys=["old", "new"])
    values = pairs.to_numpy(dtype=float)
    distances = np.abs(values[:, 1] - values[:, 0])
    # Two undefined scores are equal; one alone is farther from any number than all others.
    distances[np.isnan(distances)] = np.inf
    distances[np.isnan(values).all(axis=1)] = 0.0
    n_moved = int((distances > _TOLERANCE).sum())
    if not n_moved:
        return []

    farthest_index = int(np.argmax(distances))
    item = pairs.index[farthest_index]
    score_before, score_now = values[farthest_index]
    line = Difference(
        part="scores",
        metrics=(metric,),
        subject=f"{n_moved:,} of {len(pairs):,} items of {dataset}, most of all {item}",
        before=score_text(score_before, 10),
        now=score_text(score_now, 10),
        change=format_change(score_before, score_now),
        cause=cause,
    )
    return [line]


def _scores_of(run: FinishedRun, dataset: str, metric: str) -> pd.Series:
    """Return a metric's scores on a dataset, by item id."""
    is_own = (run.scores["dataset"] == dataset) & (run.scores["metric"] == metric)
    return run.scores[is_own].drop_duplicates("item_id").set_index("item_id")["score"]
