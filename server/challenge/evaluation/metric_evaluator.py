"""Correlation of metrics' scores with private ratings, by the functions of `captau bench`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....benchmarks.commands.validate import check_scores
from ....benchmarks.evaluation.evaluation_set import EvaluationSet
from ....benchmarks.evaluation.measured_dataset import build_panels, correlate_dataset
from ....benchmarks.evaluation.scored_dataset import ScoredDataset, score_dataset
from ....benchmarks.runs.results import describe_environment
from ....benchmarks.scoring.score_store import ScoreStore
from ....benchmarks.scoring.submission_archive import Faults
from ....benchmarks.statistics.bootstrap import resample
from ....datasets.errors import InputError
from ....datasets.reading.table import read_table
from ....datasets.schema import CaptionSet
from ....metrics.base import Floats
from ....metrics.score_file import ScoreFile
from ..submission_files import find_upload
from .evaluator import Evaluation, Evaluator, ReportedProgress, ReportProgress, make_score_row

#: The name of a submitted metric.
SUBMITTED = "submitted"


class MetricEvaluator(Evaluator):
    """Evaluates the submissions of a challenge of metrics."""

    @cached_property
    def caption_set(self) -> CaptionSet:
        """Return the rated dataset."""
        return self.challenge.load_items()

    @cached_property
    def items(self) -> pd.DataFrame:
        """Return the items that are scored."""
        return self.challenge.bound_protocol(self.caption_set).select_items(self.caption_set)

    def check_challenge(self) -> None:
        _ = self.items

    def list_items(self) -> Iterator[dict[str, Any]]:
        columns = ["item_id", "image_id", "caption"]
        if self.challenge.shows_references:
            columns.append("references")
        rows: Any = self.items[columns].to_dict("records")
        yield from rows

    def check_file(self, folder: Path, name: Path, faults: Faults) -> str:
        try:
            metrics, n_scores = check_scores(find_upload(folder), self.items, faults)
        except InputError as error:
            faults.add(str(error))
            return "no scores"

        if len(metrics) > 1:
            faults.add(f"{name}: scores of {len(metrics)} metrics; a submission has one")

        return f"{n_scores:,} scores"

    def evaluate(self, folder: Path, report: ReportProgress) -> Evaluation:
        report(0.0, "reading")
        path = find_upload(folder)
        protocol = self.challenge.protocol
        options = self.challenge.statistics
        if protocol is None:
            raise ValueError("a challenge of metrics has a protocol")

        # A table may name the metric in a column; here every submitted metric has the same name.
        table = read_table(path)
        name = str(table.column("metric")[0]) if "metric" in table else None
        metric = ScoreFile(path=str(path), name=SUBMITTED, metric=name)

        selection = EvaluationSet.select(self.caption_set, protocol)
        progress = ReportedProgress(1, lambda share, step: report(0.3 * share, step))
        scored = score_dataset(selection, [metric], ScoreStore(None), progress)

        report(0.3, "intervals")
        progress = ReportedProgress(0, lambda share, _: report(0.3 + 0.7 * share, "intervals"))
        measured = correlate_dataset(scored, progress, statistics=options)

        items = selection.items[["item_id", "image_id"]].reset_index(drop=True)
        items["score"] = np.asarray(scored.by_metric[SUBMITTED])
        run = {
            "kind": "metrics",
            "protocol": vars(selection.protocol),
            "statistics": vars(options),
            "dataset": self.caption_set.card.title,
            **describe_environment(),
        }

        return Evaluation(
            scores=[_score_row(row) for row in measured.printed_correlations.to_dict("records")],
            run=run,
            items=items,
            replicates=self._resample(scored) if options.uses_resampling else {},
        )

    def _resample(self, scored: ScoredDataset) -> dict[tuple[str, str], Floats]:
        """Return bootstrap replicates of each correlation."""
        options = self.challenge.statistics
        replicates: dict[tuple[str, str], Floats] = {}
        # Rows are put in order before anything is drawn, so that submissions share their samples.
        scored = scored.in_order()
        for panel in build_panels(scored.selection, scored.oriented):
            points = panel.comparable_points(SUBMITTED)
            if points is None or panel.n_images < 2:
                continue

            statistic = panel.statistic(SUBMITTED, points)
            (values,) = resample([statistic], panel.n_images, options.replicates, options.seed)
            for (dimension, coefficient), row in zip(panel.keys, values, strict=True):
                replicates["", f"{coefficient} {dimension}"] = row

        return replicates


def _score_row(correlation: dict[Any, Any]) -> dict[str, Any]:
    metric = f"{correlation['coefficient']} {correlation['dimension']}"
    values = [correlation[name] for name in ("value", "ci_low", "ci_high")]
    return make_score_row(
        references="",
        metric=metric,
        values=values,
        n_captions=int(correlation["n_items"]),
        note=correlation["note"],
    )
