"""People's captions by image, and one person's caption scored against the others', as a system's would be.

Chen et al. 2015, section 4.1 and Table I: the scores that metrics give to people, to compare systems with.
`captau agree kind=captions`, `captau reproduce` and challenge sites call this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....datasets.reading.caption_files import read_references
from ....datasets.schema import CaptionSet, make_items
from ....metrics.base import Floats, Metric
from ....metrics.rows import Rows
from ...runs.frames import groups_of, make_frame
from ...runs.progress_bar import StepProgress
from ...runs.results import AGREEMENT_COLUMNS
from ...runs.tables import MISSING, AnyCell, Cell, ResultTable, Row, count_of, number_cell
from ...scoring.catalog import MetricStyle, metric_style, style_notes
from ...scoring.corpus_scores import make_scorer
from ...scoring.score_store import ScoreStore
from ...scoring.scorer import score_all
from ...scoring.unavailable_metrics import (
    UnavailableMetrics,
    add_unavailable_rows,
    find_unavailable,
)
from ...statistics.distributions import student_quantile
from ..wording import join_notes, synthetic_note


@dataclass(frozen=True)
class ImageCaptions:
    """Images and the captions that people wrote of them.

    Attributes:
        name: of the file or dataset.
        captions: by image id.
        n_left_out: the number of images left out because they have too few captions.
        file: the file; None where it is a dataset.
        caption_set: the dataset; None where it is a file.
        image_files: by image id, where a dataset has them.
    """

    name: str
    captions: Mapping[str, tuple[str, ...]]
    n_left_out: int = 0
    file: Path | None = None
    caption_set: CaptionSet | None = None
    image_files: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @classmethod
    def from_file(cls, path: Path) -> ImageCaptions:
        """Read a file of references.

        Raises:
            InputError: where it cannot be read.
        """
        return cls(path.stem, read_references(path).texts, file=path)

    @classmethod
    def from_dataset(cls, caption_set: CaptionSet) -> ImageCaptions:
        """Take the references of a dataset.

        Raises:
            InputError: where they differ within an image.
        """
        captions: dict[str, tuple[str, ...]] = {}
        items = caption_set.items
        for image_id, references in zip(items["image_id"], items["references"], strict=True):
            # Rows are captions of systems: of an image's references there must be one set, whatever row has it.
            if captions.setdefault(image_id, references) != references:
                raise InputError(
                    f"dataset {caption_set.name}: rows of image '{image_id}' have different references; "
                    f"give the image's in a file, references=FILE"
                )

        image_files = dict(zip(items["image_id"], items["image"], strict=True))
        return cls(caption_set.name, captions, caption_set=caption_set, image_files=image_files)

    @property
    def is_synthetic(self) -> bool:
        """Tell whether the captions are made up by a rule."""
        return self.caption_set is not None and self.caption_set.card.synthetic

    @property
    def left_out_note(self) -> str:
        """A note on the images left out; empty where there is none."""
        if not self.n_left_out:
            return ""

        return f"{count_of(self.n_left_out, 'image')} with fewer captions left out"

    def keep_first(self, k: int | None) -> ImageCaptions:
        """Keep the first k + 1 captions of each image that has so many; None keeps all, where there are two.

        Raises:
            InputError: where no image has enough.
        """
        min_captions = 2 if k is None else k + 1
        captions: dict[str, tuple[str, ...]] = {}
        for image_id, texts in self.captions.items():
            if len(texts) >= min_captions:
                captions[image_id] = texts if k is None else texts[:min_captions]

        if not captions:
            largest = max(map(len, self.captions.values()), default=0)
            raise InputError(
                f"{self.file or self.name}: no image has {min_captions} captions, of which one is held out; "
                f"the most is {largest}"
            )

        n_left_out = self.n_left_out + len(self.captions) - len(captions)
        return replace(self, captions=captions, n_left_out=n_left_out)


#: `choice` is the place of the held-out caption, the number of a draw, or `mean` of them all.
HUMAN_COLUMNS = (
    "dataset",
    "metric",
    "choice",
    "value",
    "ci_low",
    "ci_high",
    "n_items",
    "n_references",
    "note",
)
#: The number of random groups of images, for the interval, and its level.
N_GROUPS = 20
LEVEL = 0.95

_HELD_OUT_NOTES = {
    "each": "Each of an image's captions in turn is held out and scored against the others",
    "last": "The last caption of each image is held out and scored against the others",
    "draw": "One random caption of each image is held out and scored against the others",
}

#: The name of a choice; by image the held-out caption, and the others.
Trial = tuple[str, dict[str, str], dict[str, tuple[str, ...]]]


@dataclass(frozen=True)
class HeldOutScores:
    """People's scores.

    Attributes:
        metrics: those that were computed for some of them.
        missing: by source, the metrics that could not be.
        choices: one row a metric and choice, and one for their mean, columns `HUMAN_COLUMNS`.
        agreement: one row a metric, columns `AGREEMENT_COLUMNS`: mean and standard deviation over
            the choices of the held-out caption.
        tables: the tables that are printed.
    """

    metrics: list[Metric]
    missing: dict[str, UnavailableMetrics]
    choices: pd.DataFrame
    agreement: pd.DataFrame
    tables: list[ResultTable]


def score_held_out_captions(
    sources: Sequence[ImageCaptions],
    metrics: Sequence[Metric],
    store: ScoreStore,
    *,
    held_out: str = "each",
    k: int | None = None,
    draws: int = 20,
    seed: int = 0,
) -> HeldOutScores:
    """Score people's captions.

    Args:
        sources: the captions of files or datasets.
        metrics: those that score them.
        store: where scores are kept.
        held_out: which caption of an image is held out; see `hold_out`.
        k: the number of other captions; None for all.
        draws, seed: of random choices, and of the groups of images.

    Raises:
        InputError: where no image has enough captions.
    """
    rows: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    missing: dict[str, UnavailableMetrics] = {}
    computed_somewhere = set[Metric]()
    with StepProgress(None) as progress:
        for source in sources:
            people = source.keep_first(k)

            trials = list(hold_out(people.captions, held_out, draws, seed))
            # What metrics need is the same for all trials: the first stands for all.
            _, first_held_out, first_references = trials[0]
            items = _make_items(first_held_out, first_references, people.image_files)

            unavailable = find_unavailable(metrics, items)
            computed = [m for m in metrics if m not in unavailable]
            computed_somewhere.update(computed)
            scores, remarks = score_trials(
                trials, computed, store, progress, seed, image_files=people.image_files
            )

            of_source = _choice_rows(people, scores)
            rows += of_source
            table = _table(people, held_out, of_source, computed)
            tables.append(add_unavailable_rows(table, computed, remarks, unavailable))
            missing[source.name] = unavailable

    choices = make_frame(rows, HUMAN_COLUMNS)
    # Those that some source has scores of.
    scored = [m for m in metrics if m in computed_somewhere]

    return HeldOutScores(scored, missing, choices, _agreement(choices), tables)


def hold_out(
    captions: Mapping[str, tuple[str, ...]], method: str, draws: int, seed: int
) -> Iterator[Trial]:
    """Yield ways to hold out one caption of each image.

    Args:
        captions: two or more of each image.
        method: `last`, as in the paper, whose held-out captions were collected after the others;
            `each` place in turn, as many as every image has; `draw`, a random one of each image.
        draws, seed: the number of draws, and their seed.
    """
    for name, index_by_image in _choose_places(captions, method, draws, seed):
        held_out: dict[str, str] = {}
        references: dict[str, tuple[str, ...]] = {}
        for image, index in index_by_image.items():
            texts = captions[image]
            held_out[image] = texts[index]
            references[image] = _without(texts, index)

        yield name, held_out, references


def _choose_places(
    captions: Mapping[str, tuple[str, ...]], method: str, draws: int, seed: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the name of each choice, and the place of the held-out caption by image; see `hold_out`."""
    if method == "last":
        yield "last", dict.fromkeys(captions, -1)
        return

    if method == "each":
        # A place that some image lacks would leave that image out of one choice.
        fewest = min(len(texts) for texts in captions.values())
        for index in range(fewest):
            yield str(index + 1), dict.fromkeys(captions, index)
        return

    rng = np.random.default_rng(seed)
    sizes = np.array([len(texts) for texts in captions.values()])
    for draw in range(draws):
        places = rng.integers(sizes).tolist()
        yield f"draw {draw + 1}", dict(zip(captions, places, strict=True))


def _without(texts: tuple[str, ...], index: int) -> tuple[str, ...]:
    # The last place is -1.
    index %= len(texts)
    return texts[:index] + texts[index + 1 :]


def _make_items(
    held_out: Mapping[str, str],
    references: Mapping[str, tuple[str, ...]],
    image_files: Mapping[str, str | None],
) -> pd.DataFrame:
    other_texts = [references[image_id] for image_id in held_out]
    files = [image_files.get(image_id) for image_id in held_out]

    return make_items(list(held_out), list(held_out.values()), other_texts, images=files)


@dataclass(frozen=True)
class ChoiceScores:
    """A metric's corpus score for each choice of the held-out captions.

    Attributes:
        names: of the choices.
        values: shape (n_choices,).
        by_group: the same in each group of images, shape (n_choices, n_groups).
    """

    names: list[str]
    values: Floats
    by_group: Floats


def score_trials(
    trials: Iterable[Trial],
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
    seed: int,
    *,
    image_files: Mapping[str, str | None] | None = None,
) -> tuple[dict[str, ChoiceScores], dict[str, list[str]]]:
    """Compute the metrics' corpus scores, as the COCO server does.

    Args:
        trials: the held-out captions and the others.
        metrics: the metrics.
        store, progress: where scores are kept and steps are counted.
        seed: of the random groups of images.
        image_files: by image id, for metrics that look at images.

    Returns:
        scores and remarks, by spec.
    """
    names: list[str] = []
    values: dict[str, list[float]] = {m.spec: [] for m in metrics}
    by_group: dict[str, list[list[float]]] = {m.spec: [] for m in metrics}
    remarks: dict[str, list[str]] = {}

    for name, held_out, references in trials:
        names.append(name)
        items = _make_items(held_out, references, image_files or {})
        scorer = make_scorer(items)
        progress.add_steps(len(metrics), name)
        columns = score_all(scorer, metrics, store, progress)

        groups = _random_groups(len(items), seed)
        # Metrics share the rows of a group, and with them the counts that they make of these.
        group_rows = [Rows(items.iloc[places]) for places in groups]
        for metric in metrics:
            column = columns[metric.spec]
            values[metric.spec].append(metric.corpus_score(scorer.rows, column))
            group_scores: list[float] = []
            for places, rows in zip(groups, group_rows, strict=True):
                group_scores.append(metric.corpus_score(rows, column[places]))
            by_group[metric.spec].append(group_scores)

        for spec, texts in scorer.remarks.items():
            # A remark of several trials stands once.
            earlier_texts = remarks.get(spec, [])
            remarks[spec] = list(dict.fromkeys([*earlier_texts, *texts]))

    scores: dict[str, ChoiceScores] = {}
    for metric in metrics:
        spec = metric.spec
        scores[spec] = ChoiceScores(names, np.array(values[spec]), np.array(by_group[spec]))

    return scores, remarks


def _random_groups(n_images: int, seed: int) -> list[Any]:
    """Draw groups of nearly equal size, two images each at least; none where there are too few."""
    # A corpus score such as CIDEr's needs more than one image in a group.
    n_groups = min(N_GROUPS, n_images // 2)
    if n_groups < 2:
        return []

    return np.array_split(np.random.default_rng(seed).permutation(n_images), n_groups)


def random_group_interval(value: float, by_group: Floats) -> tuple[float, float]:
    """Return an interval by the method of random groups: t of the groups' standard error.

    Wolter 2007, chapter 2. It takes one pass over the images whatever a corpus score does with them,
    and no resampling of BLEU's or METEOR's counts.

    Args:
        value: of all images.
        by_group: the same statistic in each group, shape (n_groups,); NaN without two groups.
    """
    if len(by_group) < 2:
        return float("nan"), float("nan")

    error = by_group.std(ddof=1) / np.sqrt(len(by_group))
    quantile = student_quantile((1 + LEVEL) / 2, len(by_group) - 1)
    half_width = float(quantile * error)
    return value - half_width, value + half_width


def _choice_rows(people: ImageCaptions, scores: Mapping[str, ChoiceScores]) -> list[dict[str, Any]]:
    sizes = [len(texts) - 1 for texts in people.captions.values()]
    min_size = min(sizes)
    max_size = max(sizes)
    n_references = str(min_size) if min_size == max_size else f"{min_size}-{max_size}"

    rows: list[dict[str, Any]] = []
    for metric, of_metric in scores.items():
        choices = list(zip(of_metric.names, of_metric.values, of_metric.by_group, strict=True))
        # The interval of the mean rests on the groups' means over the choices, as the choices share images.
        if len(choices) > 1:
            choices.append(("mean", of_metric.values.mean(), of_metric.by_group.mean(axis=0)))

        for choice, value, by_group in choices:
            low, high = random_group_interval(float(value), by_group)
            undefined = "" if np.isfinite(value) else "undefined: not every caption has a score"
            row = {
                "dataset": people.name,
                "metric": metric,
                "choice": choice,
                "value": float(value),
                "ci_low": low,
                "ci_high": high,
                "n_items": len(sizes),
                "n_references": n_references,
                "note": join_notes(undefined, people.left_out_note),
            }
            rows.append(row)

    return rows


def _spread(part: pd.DataFrame) -> tuple[int, float]:
    """Return the number of a metric's choices, and their standard deviation, NaN of a single one."""
    values = part.loc[part["choice"] != "mean", "value"]
    std = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return len(values), std


def _agreement(choices: pd.DataFrame) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (dataset, metric), part in groups_of(choices, "dataset", "metric"):
        # The mean stands last; a single choice has none, and stands for itself.
        last = part.iloc[-1]
        n_choices, std = _spread(part)
        method = "the last caption of each image held out"
        if n_choices > 1:
            method = f"mean over {n_choices} choices of the held-out caption"

        row = {
            "dataset": dataset,
            "measure": metric,
            "value": last["value"],
            "std": std,
            "n_items": last["n_items"],
            "note": join_notes(f"{method}, against {last['n_references']} others", last["note"]),
        }
        rows.append(row)

    return make_frame(rows, AGREEMENT_COLUMNS)


def _table(
    people: ImageCaptions,
    held_out: str,
    rows: Sequence[Mapping[str, Any]],
    metrics: Sequence[Metric],
) -> ResultTable:
    parts = dict(groups_of(make_frame(rows, HUMAN_COLUMNS), "metric"))
    styles = {m.spec: metric_style(m) for m in metrics}
    styles = dict(sorted(styles.items(), key=lambda pair: pair[1].order))
    first = rows[0]
    notes = [synthetic_note("people")] if people.is_synthetic else []
    notes += [
        f"{_HELD_OUT_NOTES[held_out]} ({first['n_references']} references); "
        f"{count_of(first['n_items'], 'image')}. Corpus scores, as the COCO server computes them; those of a "
        f"scale of 100 are ×100.",
        "±: standard deviation over the choices. 95 %: over images, by random groups.",
    ]
    if people.left_out_note:
        notes.append(f"{people.left_out_note}.")
    notes += style_notes(styles.values())
    rows_of_metrics: list[Row] = []
    for spec, style in styles.items():
        rows_of_metrics.append(Row(style.label, _cells(parts[spec], style)))
    title = f"{people.name}: one person's caption against the others"
    return ResultTable(title, "metric", ["score", "±", "95 %"], rows_of_metrics, notes=notes)


def _cells(part: pd.DataFrame, style: MetricStyle) -> list[AnyCell]:
    """Return a metric's score, its deviation over choices and its interval."""
    last = part.iloc[-1]
    _, deviation = _spread(part)

    def cell_of(number: float) -> Cell:
        return number_cell(float(number), style.scale, style.decimals)

    value = cell_of(last["value"])
    std = cell_of(deviation)
    low = cell_of(last["ci_low"])
    high = cell_of(last["ci_high"])
    has_interval = MISSING not in (low.text, high.text)
    return [value, std, f"{low} to {high}" if has_interval else MISSING]
