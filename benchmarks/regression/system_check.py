"""`captau check candidates=NEW against=OLD`: whether a captioning system fell significantly by any metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ...datasets.caption_texts import normalise_items
from ...datasets.errors import InputError
from ...datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    read_references,
    read_systems,
)
from ...datasets.reading.table import Columns
from ...datasets.reading.yaml_document import MAX_CHARACTERS, MAX_NODES
from ...metrics.base import Metric
from ..evaluation.pair_tests import find_shortage
from ..evaluation.wording import list_words
from ..runs.finished_run import read_run
from ..runs.output_folder import check_writable, write_file
from ..runs.progress_bar import StepProgress
from ..runs.tables import MISSING, ResultTable, Row, count_of, number_cell, p_value_cell
from ..scoring.catalog import MetricStyle, metric_style, resolve_metrics
from ..scoring.corpus_scores import SystemScores, compare_systems, score_system
from ..scoring.score_store import ScoreStore
from ..scoring.system_items import make_system_items
from ..scoring.unavailable_metrics import (
    check_works_without_references,
    find_unavailable,
    warn_unavailable,
)
from ..statistics.bootstrap import Interval, count_steps
from ..statistics.intervals import correct_p_values
from ..statistics.significance import MetricDifference
from .checked import Checked, count_metrics
from .choices import SystemCheckChoices
from .differences import Difference, make_difference_table
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
class _Change:
    """The change of a metric's score of all captions.

    Attributes:
        spec, style: the metric, and how tables show it.
        old, new: the scores; NaN where there is none.
        interval: of the new one less the old one.
        p_value: of their difference, corrected; NaN without a test.
    """

    spec: str
    style: MetricStyle
    old: float
    new: float
    interval: Interval
    p_value: float

    @property
    def value(self) -> float:
        """The new score less the old one."""
        return self.new - self.old

    @property
    def is_worse(self) -> bool:
        """Tell whether the new score is the worse one."""
        return self.value < 0 if self.style.higher_is_better else self.value > 0


@dataclass(frozen=True)
class SystemCheck:
    """The check whether a system fell: two systems' captions of the same images, with a test for each metric.

    The test is the paired bootstrap over images of `captau score`. Its p-values are corrected for the number of metrics,
    and a fall counts at level 1 - `statistics.level`. Where no outcome of it could be significant, there is no check,
    unless a tolerance decides in the test's place.

    Attributes:
        choices: the captions, and how they are compared.
    """

    choices: SystemCheckChoices

    def run(self) -> CheckedSystem:
        """Score both systems' captions, and test them; or write the baseline.

        Raises:
            InputError: where a file cannot be read or written, images lack captions or references, or no metric can be
                tested, or none could have a significant outcome.
        """
        baseline = self._read_baseline()
        # Without metrics= those of the baseline, as their scores are what it holds.
        metrics = self.choices.metrics
        if metrics is None:
            metrics = resolve_metrics("text") if baseline is None else baseline.make_metrics()

        systems = self._read_systems(baseline)
        references = None
        if self.choices.references is None:
            check_works_without_references(metrics)
        else:
            references = read_references(self.choices.references, columns=self.choices.columns)
        items, file_notes = self._make_items(systems, references)
        image_ids = items[NEW]["image_id"].tolist()

        missing = find_unavailable(metrics, items[NEW])
        held_scores = {} if baseline is None else baseline.scores
        # A held score that cannot be computed anew would pass the check unseen.
        lost_metrics = [metric for metric in missing if metric.spec in held_scores]
        if lost_metrics:
            reason = missing[lost_metrics[0]]
            raise InputError(
                f"{self.choices.against} holds {lost_metrics[0].spec}, which {reason}; or name other metrics, metrics=…"
            )
        warn_unavailable([missing])
        metrics = [m for m in metrics if m not in missing]

        scored, differences = self._score(items, metrics)
        now = SystemBaseline.make(
            systems[scored[-1].system],
            digest_references(references, image_ids),
            scored[-1].corpus,
            metrics,
            self.choices.normalise,
        )
        if self.choices.update:
            return self._write_baseline(now)

        moved: list[Difference] = []
        # A held score is of all captions; of a part there is none to compare with.
        if baseline is not None and len(image_ids) == len(baseline.captions.captions):
            moved = baseline.compare(now, metrics)

        changes = self._changes(scored, differences, metrics)
        if self.choices.tolerance is None:
            self._check_testable(changes, len(image_ids))
        elif not any(self._is_compared(change) for change in changes):
            raise InputError(
                f"{self.choices.candidates}: no metric has a score of both; name other metrics"
            )

        return self._outcome(changes, len(image_ids), moved, file_notes)

    def _read_systems(self, baseline: SystemBaseline | None) -> dict[str, CandidateFile]:
        """Return the captions of both systems, the new one's first; without the old ones where these are to be replaced."""
        # The new one first, since differences are of the first less the second.
        systems = {NEW: _read_captions(self.choices.candidates, self.choices.columns)}
        if self.choices.update:
            return systems

        if baseline is None:
            systems[OLD] = _read_captions(self.choices.against, self.choices.columns)
        else:
            systems[OLD] = baseline.captions

        return systems

    def _score(
        self, items: Mapping[str, pd.DataFrame], metrics: Sequence[Metric]
    ) -> tuple[list[SystemScores], list[MetricDifference]]:
        """Score each system's items, and test the differences; there are none where a baseline is made."""
        n_steps = 0
        if not self.choices.update:
            n_steps = count_steps(self.choices.statistics.replicates, len(items))
        differences: list[MetricDifference] = []
        with StepProgress(len(items) * len(metrics) + n_steps) as progress:
            scored: list[SystemScores] = []
            for system, frame in items.items():
                # Without a store: a check computes what it compares.
                scored.append(score_system(system, "", frame, metrics, ScoreStore(None), progress))
            if not self.choices.update:
                _, differences = compare_systems(scored, self.choices.statistics, progress.advance)

        return scored, differences

    def _changes(
        self,
        scored: Sequence[SystemScores],
        differences: Sequence[MetricDifference],
        metrics: Sequence[Metric],
    ) -> list[_Change]:
        """Return the change of each metric's score, with the p-value that is corrected for the number of tests."""
        corpus_by_system = {scores.system: scores.corpus for scores in scored}
        new = corpus_by_system[NEW]
        old = corpus_by_system[OLD]
        tests = {d.coefficient: d.result for d in differences}
        p_values: list[float] = []
        intervals: list[Interval] = []
        for metric in metrics:
            # A metric without a corpus score of resamples has no test.
            is_tested = metric.spec in tests
            p_values.append(tests[metric.spec].p_value if is_tested else math.nan)
            intervals.append(tests[metric.spec].interval if is_tested else Interval())
        corrected = correct_p_values(p_values, self.choices.statistics.correction)

        changes: list[_Change] = []
        for metric, interval, p_value in zip(metrics, intervals, corrected, strict=True):
            change = _Change(
                spec=metric.spec,
                style=metric_style(metric),
                old=old[metric.spec],
                new=new[metric.spec],
                interval=interval,
                p_value=float(p_value),
            )
            changes.append(change)

        return changes

    def _check_testable(self, changes: Sequence[_Change], n_images: int) -> None:
        """Check that some outcome of the tests could have been significant.

        Raises:
            InputError: where none could, so that the check would pass whatever fell.
        """
        # The correction divides the level by as many: of many metrics none may be able to reach it.
        n_tested = sum(not math.isnan(change.p_value) for change in changes)
        images = count_of(n_images, "image")
        if not n_tested:
            raise InputError(
                f"{self.choices.candidates}: no metric has a test of {images}; name other metrics, or more images, or how far "
                "a score may fall, tolerance=NUMBER"
            )
        if shortage := find_shortage(self.choices.statistics, n_images, n_tested):
            raise InputError(
                f"{self.choices.candidates}: {shortage} for any fall to be significant; say how far a score may fall, "
                "tolerance=NUMBER, which needs no test"
            )

    def _make_items(
        self, systems: Mapping[str, CandidateFile], references: ReferenceFile | None
    ) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Return the items of each system, of the same images in the same order, and lines on the files.

        Raises:
            InputError: where images lack captions or references.
        """
        system_items = make_system_items(
            systems, references, partial=self.choices.partial, images=self.choices.images
        )
        items: dict[str, pd.DataFrame] = {}
        for system, frame in system_items.items.items():
            items[system] = normalise_items(frame, self.choices.normalise)

        return items, system_items.notes

    def _read_baseline(self) -> SystemBaseline | None:
        """Read the baseline; return None where `against` is none, or one that `update` is to make.

        Raises:
            InputError: where it cannot be read, or cannot be written and is to be.
        """
        path = self.choices.against
        if not is_baseline(path):
            if self.choices.update:
                raise InputError(
                    f"update=true writes a baseline, and {path} is no name of one; write against=system.yaml"
                )
            return None

        if self.choices.update:
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
        candidates = self.choices.candidates
        path = self.choices.against
        text = baseline.written()
        n_captions = len(baseline.captions.captions)
        if len(text) > MAX_CHARACTERS or 2 * n_captions > MAX_NODES - 1000:
            raise InputError(
                f"{candidates}: {n_captions:,} captions are too many for a baseline; keep the file, and compare "
                f"with it: against={candidates}"
            )

        is_same = path.exists() and path.read_bytes() == text.encode()
        if not is_same:
            write_file(path, text.encode())

        outcome = "is as it was" if is_same else "written"
        captions = f"{count_of(n_captions, 'caption')} of {candidates}"
        specs = ",".join(baseline.scores)
        return CheckedSystem(
            path=candidates,
            dataset=str(path),
            metrics=tuple(baseline.scores),
            differences=(),
            summary=f"{path}: {outcome}: {captions} and their scores by {specs}",
            updated=True,
            tables_made=(),
        )

    def _is_compared(self, change: _Change) -> bool:
        """Tell whether a metric takes part: it has a test, or, where a tolerance decides, both scores."""
        number = change.p_value if self.choices.tolerance is None else change.value
        return not math.isnan(number)

    def _counts(self, change: _Change) -> bool:
        """Tell whether a change is significant, or greater than the tolerance."""
        if self.choices.tolerance is None:
            return change.p_value < 1 - self.choices.statistics.level
        # The last bits of a score are rounding.
        return abs(change.value) > self.choices.tolerance + 1e-12

    def _judge(self, changes: Sequence[_Change]) -> tuple[list[Row], list[Difference]]:
        """Return a row of the table for each metric, and a line for each change that counts."""
        rows: list[Row] = []
        lines: list[Difference] = []
        for change in changes:
            style = change.style
            if not self._is_compared(change):
                reason = "not tested" if self.choices.tolerance is None else "not compared"
                rows.append(Row(style.label, [MISSING] * 6 + [reason]))
                continue

            counts = self._counts(change)
            verdict = "fell" if change.is_worse else "rose"
            if not counts:
                is_tested = self.choices.tolerance is None
                verdict = "no significant change" if is_tested else "within the tolerance"

            interval = change.interval
            values = (change.old, change.new, change.value, interval.low, interval.high)
            cells = [number_cell(value, style.scale, style.decimals) for value in values]
            p_value = MISSING if math.isnan(change.p_value) else p_value_cell(change.p_value)
            rows.append(Row(style.label, [*cells, p_value, verdict]))

            if counts:
                cause = f"p {p_value}"
                if self.choices.tolerance is not None:
                    cause = f"more than tolerance={self.choices.tolerance:g}"
                line = Difference(
                    part="scores",
                    metrics=(change.spec,),
                    subject=style.label,
                    before=cells[0].text,
                    now=cells[1].text,
                    # As the table prints it.
                    change=f"{cells[2].printed:+.{style.decimals}f}",
                    cause=cause,
                    fails=change.is_worse,
                )
                lines.append(line)

        return rows, lines

    def _test_words(self, changes: Sequence[_Change]) -> str:
        """Explain the columns of intervals and p-values, after a blank; empty where nothing was tested."""
        tested = [change for change in changes if not math.isnan(change.p_value)]
        if not tested:
            return ""

        number = count_metrics(tested)
        correction = {
            "bh": f"corrected for {number} (Benjamini-Hochberg)",
            "holm": f"corrected for {number} (Holm)",
            "none": "not corrected",
        }
        statistics = self.choices.statistics
        return (
            f" from, to: the {100 * statistics.level:g} % interval of the change (paired bootstrap over "
            f"images, {statistics.replicates:,} replicates); p is "
            f"{correction[statistics.correction]}."
        )

    def _outcome(
        self,
        changes: Sequence[_Change],
        n_images: int,
        moved: Sequence[Difference],
        file_notes: Sequence[str],
    ) -> CheckedSystem:
        candidates = self.choices.candidates
        against = self.choices.against
        rows, lines = self._judge(changes)
        fallen = [line for line in lines if line.fails]
        names = tuple(change.spec for change in changes if self._is_compared(change))

        notes = [
            f"{count_of(n_images, 'image')}.{self._test_words(changes)}",
            *_scale_notes(changes),
            *file_notes,
        ]
        if self.choices.tolerance is not None:
            notes.append(
                f"A metric fails where its score, as computed (this table prints most ×100), falls by more than "
                f"tolerance={self.choices.tolerance:g}, whatever its p is."
            )
        table = ResultTable(
            f"{candidates} against {against}",
            "metric",
            ["old", "new", "change", "from", "to", "p", "verdict"],
            rows,
            file="",
            notes=notes,
        )

        tables = [table]
        summary = self._summarise(fallen, names)
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
            junit=self.choices.junit,
            tables_made=tuple(tables),
        )

    def _summarise(self, fallen: Sequence[Difference], names: Sequence[str]) -> str:
        """Say whether the system fell, by which of the metrics and how far."""
        is_tested = self.choices.tolerance is None
        how = "significantly" if is_tested else f"by more than {self.choices.tolerance:g}"
        coverage = f"({'tested' if is_tested else 'compared'}: {count_metrics(names)})"
        if not fallen:
            return f"{self.choices.candidates} did not fall {how} below {self.choices.against} {coverage}"

        changes = ", ".join(f"{line.subject} ({line.change})" for line in fallen)
        return f"{self.choices.candidates} fell {how} below {self.choices.against} by {changes} {coverage}"


def _scale_notes(changes: Sequence[_Change]) -> list[str]:
    """Say which scores are multiplied where not all are by the same number; no line where all are."""
    labels_by_scale: dict[float, list[str]] = {}
    for change in changes:
        labels_by_scale.setdefault(change.style.scale, []).append(change.style.label)
    if len(labels_by_scale) < 2:
        return []

    parts: list[str] = []
    for scale, labels in labels_by_scale.items():
        how = "as computed" if scale == 1 else f"×{scale:g}"
        parts.append(f"{', '.join(labels)} {how}")
    return [f"{'; '.join(parts)}."]


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

        # With several sets of references, the run has each caption once for each.
        items = pd.read_parquet(path / "items.parquet")
        names = [name for name in ("image_id", "system", "caption") if name in items]
        content = items[names].drop_duplicates().to_json(orient="records").encode()
        systems = read_systems(path / "items.parquet", content)
    else:
        systems = read_systems(path, columns=columns)

    if len(systems) > 1:
        raise InputError(
            f"{path} holds {len(systems)} systems, {list_words(list(systems))}; name the file of one of them"
        )
    return next(iter(systems.values()))
