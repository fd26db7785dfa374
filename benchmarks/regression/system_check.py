"""`captau check candidates=NEW against=OLD`: whether a captioning system fell significantly by any metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ...datasets.caption_texts import normalise_items
from ...datasets.errors import InputError
from ...metrics.base import Metric
from ..runs.finished_run import read_run
from ..runs.progress_bar import StepProgress
from ..runs.tables import MISSING, ResultTable, format_number, format_p_value
from ..scoring.caption_files import CandidateFile, read_references, read_systems
from ..scoring.catalog import metric_style
from ..scoring.corpus_scores import (
    compare_systems,
    make_caption_items,
    score_system,
    select_images,
)
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import find_unavailable, warn_unavailable
from ..statistics.bootstrap import StatisticsOptions, count_blocks
from ..statistics.intervals import correct_p_values
from ..statistics.significance import MetricDifference
from .check import Checked
from .differences import Difference, format_change

#: What the two systems are called in tables.
NEW, OLD = "candidates", "against"


@dataclass(frozen=True)
class CheckedSystem(Checked):
    """The outcome of the check of a system; its path is the file of the new captions."""

    aspects: tuple[str, ...] = ("scores",)
    table: ResultTable | None = field(kw_only=True)

    @property
    def tables(self) -> list[ResultTable]:
        """The scores of both systems, with a test for each metric."""
        return [] if self.table is None else [self.table]


def run(
    candidates: Path,
    against: Path,
    references: Path | None,
    metrics: Sequence[Metric],
    statistics: StatisticsOptions,
    *,
    images: Path | None = None,
    partial: bool = False,
    normalise: str = "none",
    junit: Path | None = None,
) -> CheckedSystem:
    """Score two systems' captions of the same images, and test for each metric whether the new one fell.

    The test is the paired bootstrap over images of `captau score`. Its p-values are corrected for the number of metrics,
    and a fall counts at level 1 - `statistics.level`.

    Args:
        candidates: the file of the new captions.
        against: the file of the old captions, or the folder of a run of `captau score` that scored them.
        references: the file of the references; None for metrics that need none.
        metrics: that are tested; those that cannot be computed here are left out with a warning.
        statistics: the kind of intervals, which must resample.
        images: the folder of the images, for metrics that look at them.
        partial: whether to compare only the images that both have captioned.
        normalise: the text rule for captions and references.
        junit: where the JUnit report goes; None for none.

    Raises:
        InputError: where a file cannot be read, images lack captions or references, or no metric can be tested.
    """
    systems = {NEW: _read_captions(candidates), OLD: _read_captions(against)}
    reference_sets = {} if references is None else {"references": read_references(references)}
    if not reference_sets and all("references" in m.needs for m in metrics):
        raise InputError(f"metric {metrics[0].spec} needs references; give references=FILE")
    ((name, image_ids),) = select_images(systems, reference_sets, partial).items()
    items = {
        system: normalise_items(
            make_caption_items(captions, reference_sets.get(name), image_ids, images), normalise
        )
        for system, captions in systems.items()
    }
    missing = find_unavailable(metrics, items[NEW])
    warn_unavailable([missing])
    metrics = [m for m in metrics if m not in missing]
    n_blocks = count_blocks(statistics.replicates)
    with StepProgress(2 * len(metrics) + n_blocks) as progress:
        scored = [
            score_system(system, name, frame, metrics, ScoreStore(None), progress)
            for system, frame in items.items()
        ]
        _, differences = compare_systems(scored, statistics, progress.advance)
    tested = [d for d in differences if d.result.p_value == d.result.p_value]
    if not tested:
        raise InputError(
            f"{candidates}: no metric has a test of {len(image_ids)} image(s); name other metrics, or more images"
        )
    return _outcome(candidates, against, tested, metrics, statistics, len(image_ids), junit)


def _read_captions(path: Path) -> CandidateFile:
    """Read one system's captions, of a file or of a run of `captau score`.

    Raises:
        InputError: where there is none, or several.
    """
    if path.is_dir():
        finished = read_run(path)
        if finished.command != "score":
            raise InputError(
                f"{path} is a run of captau {finished.command}; one of score is expected"
            )
        items = pd.read_parquet(path / "items.parquet").drop_duplicates(["image_id", "caption"])
        content = items[["image_id", "caption"]].to_json(orient="records").encode()
        systems = read_systems(path / "items.parquet", content)
    else:
        systems = read_systems(path)
    if len(systems) > 1:
        raise InputError(
            f"{path} holds {len(systems)} systems; put the captions of one into a file"
        )
    return next(iter(systems.values()))


def _outcome(
    candidates: Path,
    against: Path,
    tested: Sequence[MetricDifference],
    metrics: Sequence[Metric],
    statistics: StatisticsOptions,
    n_images: int,
    junit: Path | None,
) -> CheckedSystem:
    corrected = correct_p_values([d.result.p_value for d in tested], statistics.correction)
    styles = {m.spec: metric_style(m) for m in metrics}
    by_metric = dict(
        zip([d.coefficient for d in tested], zip(tested, corrected, strict=True), strict=True)
    )
    rows: list[tuple[str, list[str]]] = []
    lines: list[Difference] = []
    for spec, style in styles.items():
        if spec not in by_metric:
            rows.append((style.label, [MISSING] * 6 + ["not tested"]))
            continue
        difference, p_value = by_metric[spec]
        interval = difference.result.interval
        change = difference.value_a - difference.value_b
        is_worse = change < 0 if style.higher_is_better else change > 0
        is_significant = p_value < 1 - statistics.level
        verdict = ("fell" if is_worse else "rose") if is_significant else "no significant change"
        values = [difference.value_b, difference.value_a, change, interval.low, interval.high]
        old, new, *others = [format_number(v, style.scale, style.decimals) for v in values]
        rows.append((style.label, [old, new, *others, format_p_value(p_value), verdict]))
        if is_significant:
            moved = format_change(
                difference.value_b * style.scale, difference.value_a * style.scale
            )
            cause = f"p {format_p_value(p_value)}"
            lines.append(
                Difference("scores", (spec,), style.label, old, new, moved, cause, fails=is_worse)
            )
    fallen = [line for line in lines if line.fails]
    n_metrics = "one metric" if len(tested) == 1 else f"{len(tested)} metrics"
    correction = {
        "bh": f"corrected for {n_metrics} (Benjamini-Hochberg)",
        "holm": f"corrected for {n_metrics} (Holm)",
        "none": "not corrected",
    }
    table = ResultTable(
        f"{candidates} against {against}",
        "metric",
        ["old", "new", "change", "from", "to", "p", "verdict"],
        rows,
        notes=[
            f"{n_images:,} images. from, to: the {100 * statistics.level:g} % interval of the change (paired bootstrap over "
            f"images, {statistics.replicates:,} replicates); p is "
            f"{correction[statistics.correction]}."
        ],
    )
    names = ", ".join(f"{line.subject} ({line.change})" for line in fallen)
    summary = (
        f"{candidates} fell significantly below {against} by {len(fallen)} of {n_metrics}: {names}"
        if fallen
        else f"{candidates} did not fall significantly below {against} (tested: {n_metrics})"
    )
    return CheckedSystem(
        path=candidates,
        dataset=str(against),
        metrics=tuple(by_metric),
        differences=tuple(lines),
        summary=summary,
        junit=junit,
        table=table,
    )
