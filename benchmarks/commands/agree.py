"""`captau agree`: how well the raters of datasets agree, and the ceilings that follow for metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from ...datasets.schema import CaptionSet
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.provenance import provenance
from ..options.agree import AgreeOptions
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import ResultTable, format_number
from ..scoring.protocol import Protocol
from ..statistics.rater_agreement import (
    AgreementMeasure,
    RatingTable,
    compute_measures,
    count_by_level,
)

AGREEMENT_COLUMNS = ("dataset", "measure", "value", "std", "n_items", "note")


@dataclass(frozen=True)
class Agreed:
    """What a run found.

    Attributes:
        agreement: one row a measure, columns `AGREEMENT_COLUMNS`; values in their natural range.
        run: what it takes to recompute them.
        tables: what is printed: the measures, how the ratings are distributed, and how far halves of
            the raters are apart.
    """

    agreement: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "agreement.csv": to_csv(self.agreement),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }


def run(config: AgreeOptions) -> Agreed:
    """Measure how well raters agree.

    Raises:
        InputError: on an unknown name, missing or malformed data, or a dataset without ratings.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    caption_sets: list[CaptionSet] = []
    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    distributions: dict[str, dict[float, int]] = {}
    with StepProgress(len(config.datasets)) as progress:
        for name, protocol in config.datasets.items():
            with progress.step(name):
                caption_set = config.locations.load(name)
                caption_sets.append(caption_set)
                found, apart, spread = _measure(
                    caption_set, protocol.for_dataset(caption_set), config
                )
                distributions |= spread
                rows += [
                    {"dataset": caption_set.name, "measure": m, **vars(f)} for m, f in found.items()
                ]
                histograms |= apart
    agreement = pd.DataFrame(rows, columns=pd.Index(AGREEMENT_COLUMNS))
    synthetic = [c.name for c in caption_sets if c.card.synthetic]
    return Agreed(
        agreement=agreement,
        run={
            "command": "agree",
            "config": dict(config.configuration),
            "protocols": {n: vars(p) for n, p in config.datasets.items()},
            "seed": config.seed,
            "draws": config.draws,
            "rating_distribution": distributions,
            "stability_histogram": histograms,
            **provenance([], caption_sets, config.locations),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=[
            _table(agreement, synthetic),
            *(_distribution_table(name, counts) for name, counts in distributions.items()),
            *_histogram_table(histograms),
        ],
    )


def _measure(
    caption_set: CaptionSet, protocol: Protocol, config: AgreeOptions
) -> tuple[dict[str, AgreementMeasure], dict[str, dict[float, float]], dict[str, dict[float, int]]]:
    """The measures of each dimension; by dataset and dimension, the histograms of differences
    and the distributions of ratings.
    """
    name = caption_set.name
    selection = EvaluationSet.select(caption_set, protocol)
    selection.require_ratings("it has preferences and no ratings to agree on")
    items = selection.items["item_id"]
    found: dict[str, AgreementMeasure] = {}
    histograms: dict[str, dict[float, float]] = {}
    distributions: dict[str, dict[float, int]] = {}
    for dimension in protocol.dimension:
        prefix = f"{dimension}:" if len(protocol.dimension) > 1 else ""
        ratings = RatingTable.from_ratings(caption_set.ratings, items, dimension)
        scale = caption_set.card.scales[dimension]
        measured, histogram = compute_measures(ratings, scale, config.seed, config.draws)
        found |= {prefix + measure: one for measure, one in measured.items()}
        where = f"{name} {prefix.rstrip(':')}".strip()
        chosen = caption_set.ratings
        chosen = chosen[(chosen["dimension"] == dimension) & chosen["item_id"].isin(items)]
        distributions[where] = count_by_level(chosen, scale)
        if histogram:
            histograms[where] = histogram
    return found, histograms, distributions


def _table(agreement: pd.DataFrame, synthetic: list[str]) -> ResultTable:
    """Measures as rows, datasets as columns; ×100, with the standard deviation over draws."""
    datasets = list(dict.fromkeys(agreement["dataset"]))
    cells: dict[tuple[str, str], str] = {}
    measures: list[str] = []
    noted: dict[tuple[str, str], list[str]] = {}
    last = ""
    for row in agreement.to_dict("records"):
        dataset, measure, note = row["dataset"], row["measure"], row["note"]
        text = format_number(float(row["value"]), 100, 1)
        if not pd.isna(row["std"]):
            text += f" ± {format_number(float(row['std']), 100, 1)}"
        if measure not in measures:  # which another dataset lacks: after the one before it
            measures.insert(measures.index(last) + 1 if last in measures else 0, measure)
        last = measure
        cells[measure, dataset] = text
        noted.setdefault((note, measure), []).append(dataset)
    remarks: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (note, measure), where in noted.items():
        if note:
            remarks.setdefault((note, tuple(where)), []).append(measure)
    rows = [(m, [cells.get((m, d), "") for d in datasets]) for m in measures]
    counts = agreement.groupby("dataset", sort=False)["n_items"].max()
    notes = [
        f"{name}: SYNTHETIC data: it only shows that captau works, and says nothing about real raters."
        for name in synthetic
    ]
    notes.append(
        "Measures ×100; ± is the standard deviation over draws. Items with two ratings or more: "
        + ", ".join(f"{name} {int(n):,}" for name, n in counts.items())
        + "."
    )
    for (note, where), named in remarks.items():
        which = ", ".join(named) if len(named) <= 6 else f"{len(named)} measures"
        of = "" if len(where) == len(datasets) else f" of {', '.join(where)}"
        notes.append(f"{which}{of}: {note}.")
    return ResultTable("How well the raters agree", "measure", datasets, rows, notes=notes)


def _distribution_table(name: str, counts: Mapping[float, int]) -> ResultTable:
    """How the items' mean ratings are distributed, with a bar for the eye."""
    total, most = sum(counts.values()), max(counts.values())
    rows = [
        (f"{level:g}", [f"{n:,}", format_number(n / total, 100, 1), "█" * round(30 * n / most)])
        for level, n in counts.items()
    ]
    title = f"{name}: mean ratings of the items, to the nearest level"
    return ResultTable(title, "rating", ["items", "%", ""], rows, numeric=False)


def _histogram_table(histograms: Mapping[str, Mapping[float, float]]) -> list[ResultTable]:
    """How far two halves of an item's raters are apart, in text."""
    if not histograms:
        return []
    steps = next(iter(histograms.values()))
    rows = [
        (
            f"{step:+.2f}" if step else "0.00",
            [format_number(h[step], 100, 1) for h in histograms.values()],
        )
        for step in steps
    ]
    title = "Differences of the mean ratings by two halves of the raters"
    notes = ["Differences in parts of the scale's width, to the nearest quarter; shares in %."]
    return [ResultTable(title, "difference", list(histograms), rows, notes=notes)]
