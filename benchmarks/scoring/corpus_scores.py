"""Scores of systems' captions against sets of references, the images that count, and comparisons of systems on these.

Images are drawn, as in `bootstrap`; `Metric.corpus_resampler` gives a metric's score of the drawn ones, and every
system meets the same draws. `captau score` and challenge sites call `compare_systems`, and `captau rank`
`compare_on_images`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import make_items
from ...metrics.base import CorpusResampler, Metric
from ..runs.frames import make_frame
from ..runs.progress_bar import StepProgress
from ..statistics.bootstrap import (
    Interval,
    StatisticsOptions,
    resample,
    statistic_intervals,
)
from ..statistics.intervals import fill_corrected_p_values
from ..statistics.panels import Panel
from ..statistics.remarks import Note, Undefined, remark
from ..statistics.significance import MetricDifference, PreparedMetric, compare_metrics
from ..statistics.weighted_pairs import Floats, Ints, Mask, Statistic
from .caption_files import CandidateFile, ReferenceFile
from .protocol import Protocol
from .score_store import ScoreStore
from .scorer import Scorer, score_all

#: All references at once, and all captions as the corpus; nothing here meets ratings.
PLAIN_PROTOCOL = Protocol(name="score", dimension=(), ratings="mean", coefficients=("tau_c",))


@dataclass(frozen=True)
class SystemScores:
    """A system's captions against a set of references.

    Attributes:
        system, references: their names; `references` is empty where there are none.
        items: one row a caption.
        scores: a column a metric, and its companions, by spec.
        corpus: each metric's score of all captions.
        pooled: the same by how often each caption counts, of the metrics that have it.
        intervals: of the corpus scores, where images were drawn.
        drawn: the corpus scores of drawn images, shape (replicates,), by spec.
        remarks: what metrics remarked, by spec.
    """

    system: str
    references: str
    items: pd.DataFrame
    scores: dict[str, Floats]
    corpus: dict[str, float]
    resamplers: dict[str, CorpusResampler]
    remarks: Mapping[str, Sequence[str]]
    intervals: dict[str, Interval] = field(default_factory=dict[str, Interval])
    replicates: dict[str, Floats] = field(default_factory=dict[str, Floats])

    def undefined_note(self, spec: str) -> str:
        """Return why a metric has no corpus score; empty where it has one."""
        if math.isfinite(self.corpus[spec]):
            return ""
        gaps = int((~np.isfinite(self.scores[spec])).sum())
        return f"undefined: {gaps} of {len(self.items)} captions have no finite score"


def make_scorer(items: pd.DataFrame) -> Scorer:
    """Make a scorer of unrated captions: each counts once, and all are the corpus."""
    return Scorer(
        "captions", items.assign(weight=np.ones(len(items), dtype=np.int64)), PLAIN_PROTOCOL
    )


def score_system(
    system: str,
    references: str,
    items: pd.DataFrame,
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
    measure_beside: Callable[[], None] | None = None,
) -> SystemScores:
    """Score a system's captions, as `make_caption_items` has them; `measure_beside` is as in `score_all`.

    Raises:
        InputError: of the first metric that fails.
    """
    scorer = make_scorer(items)
    scores = score_all(scorer, metrics, store, progress, measure_beside)
    corpus = {m.spec: m.corpus_score(scorer.rows, scores[m.spec]) for m in metrics}
    pooled = {
        m.spec: resampler
        for m in metrics
        if math.isfinite(corpus[m.spec])
        and (resampler := m.corpus_resampler(scorer.rows, scores[m.spec])) is not None
    }
    return SystemScores(system, references, items, scores, corpus, pooled, scorer.remarks)


def select_images(
    systems: Mapping[str, CandidateFile], sets: Mapping[str, ReferenceFile], partial: bool
) -> dict[str, list[str]]:
    """Return the images that count for each set of references, by "" where there is none.

    A set may have fewer images than another, as c40 has than c5 (Chen et al. 2015, section 2).

    Args:
        partial: whether a system may lack images that a set or another system has; these are left out.

    Raises:
        InputError: on a caption of an image that no set has, or one that is lacking.
    """
    for candidates in systems.values():
        reference_sets = [s.texts for s in sets.values()]
        for image_id in candidates.captions if sets else ():
            if not any(texts.get(image_id) for texts in reference_sets):
                where = " or ".join(s.source.name for s in sets.values())
                raise InputError(f"{candidates.locate(image_id)} has no references in {where}")
    everywhere = list(systems.values())
    images_by_set: dict[str, list[str]] = {}
    for name, texts in {n: s.texts for n, s in sets.items()}.items() or [("", None)]:
        first = everywhere[0].captions if texts is None else [i for i, t in texts.items() if t]
        if not partial:
            file_name = everywhere[0].source.name if texts is None else sets[name].source.name
            for candidates in everywhere:
                _check_complete(candidates, first, file_name, has_references=texts is not None)
        # In the order of the first system's file.
        expected_images = set(first)
        images_by_set[name] = [
            image_id
            for image_id in everywhere[0].captions
            if image_id in expected_images and all(image_id in c.captions for c in everywhere)
        ]
        if not images_by_set[name]:
            raise InputError(
                f"no image has a caption by {', '.join(c.source.name for c in everywhere)}"
                + (f" and references in {sets[name].source.name}" if name else "")
            )
    return images_by_set


def _check_complete(
    candidates: CandidateFile, images: Iterable[str], file_name: str, *, has_references: bool
) -> None:
    """Check that these images have a caption, and without references that no other has one.

    Raises:
        InputError: where one is lacking, or one is too many.
    """
    images = set(images)
    uncaptioned = [i for i in images if i not in candidates.captions]
    if uncaptioned:
        raise InputError(
            f"{candidates.source.name}: {len(uncaptioned):,} of the {len(images):,} images of {file_name} "
            f"have no caption, such as '{min(uncaptioned)}'; add them, or score the others with partial=true"
        )
    for image_id in candidates.captions:
        if not has_references and image_id not in images:
            raise InputError(
                f"{candidates.locate(image_id)} is not in {file_name}; leave it out, or score the others "
                f"with partial=true"
            )


def make_caption_items(
    candidates: CandidateFile,
    references: ReferenceFile | None,
    image_ids: Sequence[str],
    images: Path | None,
    system: str | None = None,
) -> pd.DataFrame:
    """Make the table of items, a row for each image's caption.

    Raises:
        InputError: where the folder of images lacks one.
    """
    texts = {} if references is None else references.texts
    return make_items(
        image_ids,
        [candidates.captions[i] for i in image_ids],
        [texts.get(i, ()) for i in image_ids],
        systems=None if system is None else [system] * len(image_ids),
        images=None if images is None else _files(candidates, image_ids, images),
    )


def _files(candidates: CandidateFile, image_ids: Sequence[str], folder: Path) -> list[str | None]:
    """Return each image's file, which is named by its id, with or without an ending."""
    if not folder.is_dir():
        raise InputError(f"images={folder} is not a folder")
    files = {p.name: str(p) for p in sorted(folder.iterdir()) if p.is_file()}
    by_stem = {Path(name).stem: path for name, path in files.items()}
    paths: list[str | None] = []
    for image_id in image_ids:
        path = files.get(image_id) or by_stem.get(image_id)
        if path is None:
            raise InputError(f"{candidates.locate(image_id)} has no file in {folder}")
        paths.append(path)
    return paths


DIFFERENCE_COLUMNS = (
    *("references", "metric", "system_a", "system_b", "score_a", "score_b", "difference"),
    *("ci_low", "ci_high", "p_value", "p_holm", "p_bh", "n_images", "replicates", "note"),
)


@dataclass(frozen=True)
class SystemPanel(Panel):
    """Systems' captions of the same images, in the same order; the systems stand in a panel's metrics' place.

    Attributes:
        specs: the metrics, or names of other statistics.
        corpus: each system's statistics by the images' weights, in the same order.
    """

    specs: tuple[str, ...]
    corpus: Mapping[str, Statistic]

    @classmethod
    def from_resamplers(
        cls,
        resamplers: Mapping[str, Mapping[str, CorpusResampler]],
        specs: tuple[str, ...],
        n_images: int,
    ) -> SystemPanel:
        """Make a panel of each system's corpus resamplers by metric."""
        corpus = {s: _stack([by_metric[m] for m in specs]) for s, by_metric in resamplers.items()}
        return cls.from_statistics(corpus, specs, n_images)

    @classmethod
    def from_statistics(
        cls, corpus: Mapping[str, Statistic], specs: tuple[str, ...], n_images: int
    ) -> SystemPanel:
        """Make a panel of each system's statistics."""
        index = np.arange(n_images)
        return cls(
            image=index,
            n_images=n_images,
            item=index,
            specs=specs,
            corpus=corpus,
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.corpus)

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [("", spec) for spec in self.specs]

    @property
    def undefined_value(self) -> Undefined:
        return Undefined.UNDEFINED_SYSTEM_SCORE

    def find_coefficient(self, name: str) -> None:
        return None

    def defined_points(self, metric: str) -> Mask:
        return np.ones(self.n_images, dtype=bool)

    def prepare(self, metrics: Sequence[str], mask: Mask, units: Sequence[Ints]) -> Statistic:
        return self.corpus[metrics[0]]

    def standardise(self, a: str, b: str, mask: Mask) -> SystemPanel:
        return self


def _stack(resamplers: Sequence[CorpusResampler]) -> Statistic:
    return lambda weights: np.stack([resampler(weights) for resampler in resamplers])


def compare_systems(
    systems: Sequence[SystemScores],
    options: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> tuple[list[SystemScores], list[MetricDifference]]:
    """Return systems with their intervals, and the differences of every two.

    A metric that is undefined for one of them, or of a program that would have to run for every draw,
    has neither.

    Args:
        systems: scored on the same images.
        options: the kind of intervals; they must resample.
        advance: called at each of `count_steps(replicates, n_systems)` steps, if there is anything to resample.
    """
    specs = [spec for spec in systems[0].corpus if all(spec in s.resamplers for s in systems)]
    n_images = len(systems[0].items)
    if n_images < 2 or not specs:
        none = Interval(remarks=(remark(Note.TOO_FEW_IMAGES, n_images=n_images),))
        return [replace(system, intervals=dict.fromkeys(specs, none)) for system in systems], []
    resamplers = {system.system: system.resamplers for system in systems}
    panel = SystemPanel.from_resamplers(resamplers, tuple(specs), n_images)
    comparison = compare_on_images(panel, options, advance)
    measured = [
        replace(
            system,
            intervals=comparison.intervals[system.system],
            replicates=comparison.replicates[system.system],
        )
        for system in systems
    ]
    return measured, comparison.differences


@dataclass(frozen=True)
class SystemComparison:
    """Systems on the same resampled images.

    Attributes:
        intervals: by system and statistic.
        replicates: by system and statistic, shape (replicates,).
        differences: of every two systems; each names a statistic as its coefficient.
    """

    intervals: Mapping[str, Mapping[str, Interval]]
    replicates: Mapping[str, Mapping[str, Floats]]
    differences: list[MetricDifference]


def compare_on_images(
    panel: SystemPanel,
    options: StatisticsOptions,
    advance: Callable[[], None] | None = None,
) -> SystemComparison:
    """Compare systems by statistics of the same images.

    Args:
        panel: the systems and their statistics, of two images at least.
        options: the kind of intervals; they must resample.
        advance: called at each of `count_steps(replicates, n_systems)` steps.
    """
    names, n_images = panel.specs, panel.n_images
    all_points = np.ones(n_images, dtype=bool)
    prepared = {name: PreparedMetric.prepare(panel, name, all_points) for name in panel.metrics}
    samples = resample(
        [metric.statistic for metric in prepared.values()],
        *(n_images, options.replicates, options.seed),
        advance=advance,
    )
    replicates: dict[str, Floats] = dict(zip(prepared, samples, strict=True))
    intervals: dict[str, dict[str, Interval]] = {}
    for system, metric in prepared.items():
        values = metric.values, replicates[system]
        of_system = statistic_intervals(metric.statistic, *values, n_images, options)
        intervals[system] = dict(zip(names, of_system, strict=True))
    return SystemComparison(
        intervals,
        {s: dict(zip(names, values, strict=True)) for s, values in replicates.items()},
        compare_metrics(panel, panel.metrics, prepared, replicates, options, advance=advance),
    )


def make_difference_table(
    differences: Mapping[str, Sequence[MetricDifference]], options: StatisticsOptions
) -> pd.DataFrame:
    """Make the table of systems' differences by set of references, columns `DIFFERENCE_COLUMNS`.

    p-values are corrected within a set and a metric.
    """
    rows = [
        {
            "references": references,
            "metric": difference.coefficient,
            "system_a": difference.metric_a,
            "system_b": difference.metric_b,
            "score_a": difference.value_a,
            "score_b": difference.value_b,
            "difference": difference.value_a - difference.value_b,
            "ci_low": difference.result.interval.low,
            "ci_high": difference.result.interval.high,
            "p_value": difference.result.p_value,
            "n_images": difference.n_images,
            "replicates": options.replicates,
            "note": difference.result.note,
        }
        for references, pairs in differences.items()
        for difference in pairs
    ]
    table = make_frame(rows, DIFFERENCE_COLUMNS)
    return fill_corrected_p_values(table, ("references", "metric"))
