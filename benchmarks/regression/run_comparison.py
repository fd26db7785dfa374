"""`captau compare run=A,B`: what moved between two finished runs, and the likely causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..runs.finished_run import FinishedRun, read_run
from ..runs.tables import ResultTable
from .baseline_file import number
from .differences import (
    OUR_CODE,
    Difference,
    cause_of,
    correlation_differences,
    difference_in_one,
    format_change,
    make_difference_table,
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
    before, now = (
        read_run(folder, needs="correlations.csv") for folder in (before_folder, now_folder)
    )
    differences = list_differences(before, now)
    metrics = sorted({*before.run.get("signatures", {}), *now.run.get("signatures", {})})
    names = f"{before.folder} and {now.folder}"
    old_cells, new_cells = _cells(before), _cells(now)
    n_correlations = sum(len(old_cells[cell]) for cell in old_cells.keys() & new_cells.keys())
    n_moved = sum(d.part == "correlations" and not d.is_in_one for d in differences)
    summary = f"{names}: {n_moved} of {n_correlations} correlations differ by half a printed digit or more"
    columns = (before.folder.name or "before", now.folder.name or "now")
    title = f"{names}: what differs"
    tables = [make_difference_table(title, differences, metrics, columns)] if differences else []
    return RunComparison(tables, summary)


def list_differences(before: FinishedRun, now: FinishedRun) -> list[Difference]:
    """List what differs between two runs: data, options, versions, parameters, scores, correlations."""
    old, new = before.run, now.run
    data = list(_data_differences(old.get("data", {}), new.get("data", {})))
    options = list(_option_differences(old.get("config", {}), new.get("config", {})))
    old_signatures, new_signatures = old.get("signatures", {}), new.get("signatures", {})
    changes = {
        name: signature_changes_of(old_signatures[name], signature)
        for name, signature in new_signatures.items()
        if name in old_signatures
    }
    old_versions, new_versions = (r.get("versions", {}) for r in (old, new))
    packages = {
        name: (old_versions.get(name, "–"), new_versions.get(name, "–"))
        for name in dict.fromkeys([*old_versions, *new_versions])
        if old_versions.get(name) != new_versions.get(name)
    }
    changed_data = {d.subject.partition(" ")[0] for d in data}
    old_cells, new_cells = _cells(before), _cells(now)
    scores: list[Difference] = []
    correlations: list[Difference] = []
    for dataset, metric in dict.fromkeys([*old_cells, *new_cells]):
        cause = _protocol_change(before, now, dataset) or cause_of(
            dataset in changed_data, changes.get(metric, {}), packages, OUR_CODE
        )
        cell = dataset, metric
        if cell not in old_cells or cell not in new_cells:
            is_in_old = cell in old_cells
            correlations.append(
                difference_in_one("correlations", (metric,), dataset, is_in_old=is_in_old)
            )
            continue
        scores += _score_differences(before, now, dataset, metric, cause)
        correlations += correlation_differences(old_cells[cell], new_cells[cell], metric, cause)
    moving = {d.metrics[0] for d in (*scores, *correlations)}
    parameters = [
        Difference("parameters", (name,), key, *pair)
        for name, fields in changes.items()
        for key, pair in fields.items()
        if key not in packages
    ]
    versions = version_differences(packages, changes, "all", moving)
    return [*data, *options, *versions, *parameters, *scores, *correlations]


def _data_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            yield difference_in_one("data", (), name, is_in_old=name in old)
            continue
        for key in ("revision", "digest"):
            before, now = str(old[name].get(key)), str(new[name].get(key))
            if before != now:
                yield Difference("data", (), f"{name} {key}", before[:12], now[:12])


def _option_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the options that differ, of those that both runs have."""
    before, now = dict(_flatten(old)), dict(_flatten(new))
    for key in before:
        if key in now and key.partition(".")[0] not in _PLACES and before[key] != now[key]:
            yield Difference("options", (), key, _text_of(before[key]), _text_of(now[key]))


def _text_of(value: Any) -> str:
    is_list = isinstance(value, list)
    return ", ".join(map(str, value)) if is_list else "–" if value is None else str(value)


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _protocol_change(before: FinishedRun, now: FinishedRun, dataset: str) -> str:
    """Describe how a dataset's protocol differs; empty where it does not."""
    old, new = (dict(r.run.get("protocols", {}).get(dataset) or {}) for r in (before, now))
    changes = [
        f"protocol.{key}: {old[key]} → {new[key]}"
        for key in old
        if key in new and key not in ("name", "coefficients") and old[key] != new[key]
    ]
    return "; ".join(changes)


def _cells(run: FinishedRun) -> dict[tuple[str, str], dict[str, float]]:
    """Return the correlations by dataset and metric, and in these by `DATASET DIMENSION COEFFICIENT`."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in run.printed_correlations.to_dict("records"):
        key = " ".join(filter(None, (row["dataset"], row["dimension"], row["coefficient"])))
        cells.setdefault((row["dataset"], row["metric"]), {})[key] = float(row["value"])
    return cells


def _score_differences(
    before: FinishedRun, now: FinishedRun, dataset: str, metric: str, cause: str
) -> list[Difference]:
    """List a line where scores of items that both runs have differ."""
    old, new = (
        run.scores[(run.scores["dataset"] == dataset) & (run.scores["metric"] == metric)]
        .drop_duplicates("item_id")
        .set_index("item_id")["score"]
        for run in (before, now)
    )
    pairs = pd.concat([old, new], axis=1, join="inner", keys=["old", "new"])
    values = pairs.to_numpy(dtype=float)
    distances = np.where(np.isnan(values).all(axis=1), 0.0, np.abs(values[:, 1] - values[:, 0]))
    distances = np.where(np.isnan(distances), np.inf, distances)
    if not (n_moved := int((distances > _TOLERANCE).sum())):
        return []
    farthest_index = int(np.argmax(distances))
    item, (score_before, score_now) = pairs.index[farthest_index], values[farthest_index]
    text_before = number(score_before, 10).replace("null", "undefined")
    text_now = number(score_now, 10).replace("null", "undefined")
    subject = f"{n_moved:,} of {len(pairs):,} items of {dataset}, most of all {item}"
    return [
        Difference(
            part="scores",
            metrics=(metric,),
            subject=subject,
            before=text_before,
            now=text_now,
            change=format_change(score_before, score_now),
            cause=cause,
        )
    ]
