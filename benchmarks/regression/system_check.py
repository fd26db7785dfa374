"""`captau check candidates=NEW against=OLD`: whether a captioning system fell significantly by any metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ...datasets.caption_texts import normalise_items
from ...datasets.errors import InputError
from ...datasets.reading.table import USUAL_COLUMNS, Columns
from ...datasets.reading.yaml_fields import MAX_CHARACTERS, MAX_NODES
from ...metrics.base import Metric
from ..runs.finished_run import read_run
from ..runs.output_folder import check_writable, write_file
from ..runs.progress_bar import StepProgress
from ..runs.tables import MISSING, ResultTable, count_of, format_number, format_p_value
from ..scoring.caption_files import CandidateFile, ReferenceFile, read_references, read_systems
from ..scoring.catalog import metric_style, resolve_metrics
from ..scoring.corpus_scores import (
    compare_systems,
    make_caption_items,
    score_system,
    select_images,
)
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import find_unavailable, warn_unavailable
from ..statistics.bootstrap import StatisticsOptions, count_steps
from ..statistics.intervals import correct_p_values
from ..statistics.significance import MetricDifference
from .check import Checked, count_metrics
from .differences import Difference, format_change, make_difference_table
from .system_baseline import SystemBaseline, digest_references, is_baseline

#: What the two systems are called in tables.
NEW, OLD = "candidates", "against"


@dataclass(frozen=True)
class CheckedSystem(Checked):
    """The outcome of the check of a system; its path is the file of the new captions.

    Attributes:
        tables_made: the scores of both systems with a test for each metric, and the held scores that moved.
    """

    aspects: tuple[str, ...] = ("scores",)
    tables_made: tuple[ResultTable, ...] = field(kw_only=True)

    @property
    def tables(self) -> list[ResultTable]:
        return list(self.tables_made)


@dataclass(frozen=True)
class SystemCheck:
    """The check whether a system fell: two systems' captions of the same images, with a test for each metric.

    The test is the paired bootstrap over images of `captau score`. Its p-values are corrected for the number of metrics,
    and a fall counts at level 1 - `statistics.level`.

    Attributes:
        candidates: the file of the new captions.
        against: the file of the old captions, the folder of a run of `captau score` that scored them, or a baseline
            (`.yaml`) that holds them and their scores; a held score that moved fails the check as well.
        references: the file of the references; None for metrics that need none.
        metrics: that are tested; those that cannot be computed here are left out with a warning. None for those of the
            baseline, else the suite text.
        statistics: the kind of intervals, which must resample.
        columns: the names of the columns, or keys, in all of these files.
        images: the folder of the images, for metrics that look at them.
        partial: whether to compare only the images that both have captioned.
        normalise: the text rule for captions and references.
        junit: where the JUnit report goes; None for none.
        update: whether to write the new captions and their scores as the baseline instead.
    """

    candidates: Path
    against: Path
    references: Path | None
    metrics: Sequence[Metric] | None
    statistics: StatisticsOptions
    columns: Columns = USUAL_COLUMNS
    images: Path | None = None
    partial: bool = False
    normalise: str = "none"
    junit: Path | None = None
    update: bool = False

    def run(self) -> CheckedSystem:
        """Score both systems' captions, and test them; or write the baseline.

        Raises:
            InputError: where a file cannot be read or written, images lack captions or references, or no metric can be
                tested.
        """
        baseline, metrics = self._read_baseline(), self.metrics
        if metrics is None:
            metrics = resolve_metrics("text") if baseline is None else baseline.make_metrics()
        systems = {NEW: _read_captions(self.candidates, self.columns)}
        if not self.update:
            systems[OLD] = (
                _read_captions(self.against, self.columns)
                if baseline is None
                else baseline.captions
            )
        if self.references is None and all("references" in m.needs for m in metrics):
            raise InputError(f"metric {metrics[0].spec} needs references; give references=FILE")
        references = None
        if self.references is not None:
            references = read_references(self.references, columns=self.columns)
        items = self._make_items(systems, references)
        image_ids = items[NEW]["image_id"].tolist()
        missing = find_unavailable(metrics, items[NEW])
        if baseline is not None and (lost := [m for m in missing if m.spec in baseline.scores]):
            raise InputError(
                f"{self.against} holds {lost[0].spec}, which {missing[lost[0]]}; or name other metrics, metrics=…"
            )
        warn_unavailable([missing])
        metrics = [m for m in metrics if m not in missing]
        n_steps = 0 if self.update else count_steps(self.statistics.replicates, len(items))
        with StepProgress(len(items) * len(metrics) + n_steps) as progress:
            scored = [
                score_system(system, "", frame, metrics, ScoreStore(None), progress)
                for system, frame in items.items()
            ]
            differences: list[MetricDifference] = []
            if not self.update:
                differences = compare_systems(scored, self.statistics, progress.advance)[1]
        digest = digest_references(references, image_ids)
        now = SystemBaseline.make(
            systems[scored[-1].system], digest, scored[-1].corpus, metrics, self.normalise
        )
        if self.update:
            return self._write_baseline(now)
        tested = [d for d in differences if not math.isnan(d.result.p_value)]
        if not tested:
            raise InputError(
                f"{self.candidates}: no metric has a test of {len(image_ids)} image(s); name other metrics, or more images"
            )
        is_all = baseline is not None and len(image_ids) == len(baseline.captions.captions)
        moved = baseline.compare(now, metrics) if baseline is not None and is_all else []
        return self._outcome(tested, metrics, len(image_ids), moved)

    def _make_items(
        self, systems: Mapping[str, CandidateFile], references: ReferenceFile | None
    ) -> dict[str, pd.DataFrame]:
        """Return the items of each system, of the same images in the same order.

        Raises:
            InputError: where images lack captions or references.
        """
        reference_sets = {} if references is None else {"references": references}
        (image_ids,) = select_images(systems, reference_sets, self.partial).values()
        return {
            system: normalise_items(
                make_caption_items(captions, references, image_ids, self.images), self.normalise
            )
            for system, captions in systems.items()
        }

    def _read_baseline(self) -> SystemBaseline | None:
        """Read the baseline; return None where `against` is none, or one that `update` is to make.

        Raises:
            InputError: where it cannot be read, or cannot be written and is to be.
        """
        path = self.against
        if not is_baseline(path):
            if self.update:
                raise InputError(
                    f"update=true writes a baseline, and {path} is no name of one; write against=system.yaml"
                )
            return None
        if self.update:
            check_writable(path)
        elif not path.exists():
            raise InputError(
                f"no baseline {path}; captau check candidates=OLD.json against={path} references=FILE update=true makes it"
            )
        return SystemBaseline.read(path) if path.exists() else None

    def _write_baseline(self, baseline: SystemBaseline) -> CheckedSystem:
        """Write the baseline of new captions, where it is not as it was.

        Raises:
            InputError: where it cannot be written, or the captions are too many.
        """
        candidates, path, text = self.candidates, self.against, baseline.written()
        n_captions = len(baseline.captions.captions)
        if len(text) > MAX_CHARACTERS or 2 * n_captions > MAX_NODES - 1000:
            raise InputError(
                f"{candidates}: {n_captions:,} captions are too many for a baseline; keep the file, and compare "
                f"with it: against={candidates}"
            )
        is_same = path.exists() and path.read_bytes() == text.encode()
        if not is_same:
            write_file(path, text.encode())
        return CheckedSystem(
            path=candidates,
            dataset=str(path),
            metrics=tuple(baseline.scores),
            differences=(),
            summary=f"{path}: {'is as it was' if is_same else 'written'}: {count_of(n_captions, 'caption')} of {candidates} and "
            f"their scores by {','.join(baseline.scores)}",
            updated=True,
            tables_made=(),
        )

    def _judge(
        self, tested: Sequence[MetricDifference], metrics: Sequence[Metric]
    ) -> tuple[list[tuple[str, list[str]]], list[Difference]]:
        """Return a row of the table for each metric, and a line for each significant change."""
        corrected = correct_p_values([d.result.p_value for d in tested], self.statistics.correction)
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
            is_significant = p_value < 1 - self.statistics.level
            verdict = (
                ("fell" if is_worse else "rose") if is_significant else "no significant change"
            )
            values = [difference.value_b, difference.value_a, change, interval.low, interval.high]
            old, new, *others = [format_number(v, style.scale, style.decimals) for v in values]
            rows.append((style.label, [old, new, *others, format_p_value(p_value), verdict]))
            if is_significant:
                change_text = format_change(
                    difference.value_b * style.scale, difference.value_a * style.scale
                )
                cause = f"p {format_p_value(p_value)}"
                lines.append(
                    Difference(
                        "scores", (spec,), style.label, old, new, change_text, cause, fails=is_worse
                    )
                )
        return rows, lines

    def _outcome(
        self,
        tested: Sequence[MetricDifference],
        metrics: Sequence[Metric],
        n_images: int,
        moved: Sequence[Difference],
    ) -> CheckedSystem:
        candidates, against, statistics = self.candidates, self.against, self.statistics
        rows, lines = self._judge(tested, metrics)
        fallen = [line for line in lines if line.fails]
        n_metrics = count_metrics(tested)
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
            file="",
            notes=[
                f"{count_of(n_images, 'image')}. from, to: the {100 * statistics.level:g} % interval of the change (paired bootstrap over "
                f"images, {statistics.replicates:,} replicates); p is "
                f"{correction[statistics.correction]}."
            ],
        )
        names = tuple(d.coefficient for d in tested)
        changes = ", ".join(f"{line.subject} ({line.change})" for line in fallen)
        summary = (
            f"{candidates} fell significantly below {against} by {changes} (tested: {n_metrics})"
            if fallen
            else f"{candidates} did not fall significantly below {against} (tested: {n_metrics})"
        )
        tables = [table]
        if moved:
            title = f"{against}: scores of the old captions that are no longer as it holds them"
            columns = ("baseline", "now")
            tables.append(make_difference_table(title, moved, names, columns))
            summary += f". Scores that {against} holds moved; if that is meant, make it anew with update=true"
        return CheckedSystem(
            path=candidates,
            dataset=str(against),
            metrics=names,
            differences=(*lines, *moved),
            summary=summary,
            junit=self.junit,
            tables_made=tuple(tables),
        )


def _read_captions(path: Path, columns: Columns) -> CandidateFile:
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
        systems = read_systems(path, columns=columns)
    if len(systems) > 1:
        raise InputError(
            f"{path} holds {len(systems)} systems; put the captions of one into a file"
        )
    return next(iter(systems.values()))
