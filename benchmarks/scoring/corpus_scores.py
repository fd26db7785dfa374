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
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import CandidateFile, ReferenceFile
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
from .image_files import find_image_files
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
        resamplers: the same by how often each caption counts, of the metrics that have it.
        remarks: what metrics remarked, by spec.
        intervals: of the corpus scores, where images were drawn.
        replicates: the corpus scores of drawn images, shape (replicates,), by spec.
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
    weighted = items.assign(weight=np.ones(len(items), dtype=np.int64))
    return Scorer("captions", weighted, PLAIN_PROTOCOL)


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

    corpus: dict[str, float] = {}
    resamplers: dict[str, CorpusResampler] = {}
    for metric in metrics:
        of_captions = scores[metric.spec]
        corpus[metric.spec] = metric.corpus_score(scorer.rows, of_captions)
        # Without a score of all captions there is none of a resample either.
        if not math.isfinite(corpus[metric.spec]):
            continue
        # A metric whose program would have to run for every draw has none.
        resampler = metric.corpus_resampler(scorer.rows, of_captions)
        if resampler is not None:
            resamplers[metric.spec] = resampler

    return SystemScores(
        system=system,
        references=references,
        items=items,
        scores=scores,
        corpus=corpus,
        resamplers=resamplers,
        remarks=scorer.remarks,
    )


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
    all_candidates = list(systems.values())
    # Without references the first system says which images count.
    if not sets:
        first = all_candidates[0]
        images = _select_common(all_candidates, first.captions, first.source.name, partial=partial)
        return {"": images}

    for candidates in all_candidates:
        if not partial:
            _check_references(candidates, sets)

    images_by_set: dict[str, list[str]] = {}
    for name, references in sets.items():
        images_by_set[name] = _select_common(
            all_candidates,
            _images_with_references(references),
            references.source.name,
            partial=partial,
            has_references=True,
        )

    return images_by_set


def _images_with_references(references: ReferenceFile) -> list[str]:
    return [image_id for image_id, texts in references.texts.items() if texts]


def _check_references(candidates: CandidateFile, sets: Mapping[str, ReferenceFile]) -> None:
    """Check that each image with a caption has references in one of the sets.

    Raises:
        InputError: where one has none.
    """
    images_with_references: list[str] = []
    excused = set[str]()
    for references in sets.values():
        images_with_references += _images_with_references(references)
        # Where a file flags all references of an image as void, its caption is left out as well.
        excused |= set(references.void_images)
    excused.update(images_with_references)

    without = [image_id for image_id in candidates.captions if image_id not in excused]
    if not without:
        return

    where = " or ".join(references.source.name for references in sets.values())
    example = images_with_references[0] if images_with_references else "none"
    n_captions = len(candidates.captions)
    has_or_have = "has" if len(without) == 1 else "have"
    raise InputError(
        f"{candidates.locate(without[0])} has no references in {where} ({len(without):,} of {n_captions:,} images "
        f"{has_or_have} none; an image there is '{example}'); add them, or score the others with partial=true"
    )


def _select_common(
    all_candidates: Sequence[CandidateFile],
    images: Iterable[str],
    file_name: str,
    *,
    partial: bool,
    has_references: bool = False,
) -> list[str]:
    """Return those of a file's images that every system has a caption of, in the order of the first system's.

    Raises:
        InputError: where there are none, or where one is lacking or too many, unless `partial`.
    """
    expected_images = list(images)
    if not partial:
        for candidates in all_candidates:
            _check_complete(candidates, expected_images, file_name, has_references=has_references)

    expected = set(expected_images)
    common: list[str] = []
    for image_id in all_candidates[0].captions:
        # Systems are compared on the same images only.
        is_captioned = all(image_id in candidates.captions for candidates in all_candidates)
        if image_id in expected and is_captioned:
            common.append(image_id)

    if not common:
        names = ", ".join(candidates.source.name for candidates in all_candidates)
        where = f" and references in {file_name}" if has_references else ""
        raise InputError(f"no image has a caption by {names}{where}")
    return common


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
        left_out = f" ({candidates.left_out.removesuffix('.')})" if candidates.left_out else ""
        raise InputError(
            f"{candidates.source.name}: {len(uncaptioned):,} of the {len(images):,} images of {file_name} "
            f"have no caption, such as '{min(uncaptioned)}'; add them, or score the others with partial=true{left_out}"
        )

    # With references, one too many was found before: it has none.
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
    files: list[str] | None = None
    if images is not None:
        files = find_image_files(candidates, references, image_ids, images)
    return make_items(
        image_ids,
        [candidates.captions[i] for i in image_ids],
        [texts.get(i, ()) for i in image_ids],
        systems=None if system is None else [system] * len(image_ids),
        images=files,
    )


DIFFERENCE_COLUMNS = (
    "references",
    "metric",
    "system_a",
    "system_b",
    "score_a",
    "score_b",
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_holm",
    "p_bh",
    "n_images",
    "replicates",
    "note",
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
        corpus: dict[str, Statistic] = {}
        for system, by_metric in resamplers.items():
            corpus[system] = _stack([by_metric[spec] for spec in specs])

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
    specs = list(systems[0].corpus)
    for system in systems:
        # A metric without a resampler in one system has no interval in any.
        specs = [spec for spec in specs if spec in system.resamplers]

    n_images = len(systems[0].items)
    if n_images < 2 or not specs:
        none = Interval(remarks=(remark(Note.TOO_FEW_IMAGES, n_images=n_images),))
        return [replace(system, intervals=dict.fromkeys(specs, none)) for system in systems], []

    resamplers = {system.system: system.resamplers for system in systems}
    panel = SystemPanel.from_resamplers(resamplers, tuple(specs), n_images)
    comparison = compare_on_images(panel, options, advance)

    measured: list[SystemScores] = []
    for system in systems:
        with_intervals = replace(
            system,
            intervals=comparison.intervals[system.system],
            replicates=comparison.replicates[system.system],
        )
        measured.append(with_intervals)

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
    n_images = panel.n_images
    all_points = np.ones(n_images, dtype=bool)
    prepared = {name: PreparedMetric.prepare(panel, name, all_points) for name in panel.metrics}

    # All systems at once, so that they meet the same draws.
    samples = resample(
        [metric.statistic for metric in prepared.values()],
        n_units=n_images,
        replicates=options.replicates,
        seed=options.seed,
        advance=advance,
    )
    replicates: dict[str, Floats] = dict(zip(prepared, samples, strict=True))

    intervals: dict[str, dict[str, Interval]] = {}
    replicates_by_spec: dict[str, dict[str, Floats]] = {}
    for system, metric in prepared.items():
        of_system = statistic_intervals(
            metric.statistic,
            metric.values,
            replicates=replicates[system],
            n_units=n_images,
            options=options,
        )
        intervals[system] = dict(zip(panel.specs, of_system, strict=True))
        replicates_by_spec[system] = dict(zip(panel.specs, replicates[system], strict=True))

    differences = compare_metrics(
        panel,
        panel.metrics,
        prepared=prepared,
        replicates=replicates,
        options=options,
        advance=advance,
    )
    return SystemComparison(intervals, replicates_by_spec, differences)


def make_difference_table(
    differences: Mapping[str, Sequence[MetricDifference]], options: StatisticsOptions
) -> pd.DataFrame:
    """Make the table of systems' differences by set of references, columns `DIFFERENCE_COLUMNS`.

    p-values are corrected within a set and a metric.
    """
    rows: list[dict[str, Any]] = []
    for references, of_pairs in differences.items():
        for difference in of_pairs:
            result = difference.result
            # In a panel of systems these stand in the metrics' place, and the metric in the coefficient's.
            row = {
                "references": references,
                "metric": difference.coefficient,
                "system_a": difference.metric_a,
                "system_b": difference.metric_b,
                "score_a": difference.value_a,
                "score_b": difference.value_b,
                "difference": difference.value_a - difference.value_b,
                "ci_low": result.interval.low,
                "ci_high": result.interval.high,
                "p_value": result.p_value,
                "n_images": difference.n_images,
                "replicates": options.replicates,
                "note": result.note,
            }
            rows.append(row)

    table = make_frame(rows, DIFFERENCE_COLUMNS)
    return fill_corrected_p_values(table, ("references", "metric"))
