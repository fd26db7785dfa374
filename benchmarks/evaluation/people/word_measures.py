"""The measures of `captau agree kind=words`: rows of `words.csv` and `agreement.csv`, by part of speech too, and their tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....metrics.base import Floats
from ....metrics.text.tokens.ptb import tag_parts, tokenize
from ...runs.progress_bar import StepProgress
from ...runs.tables import (
    AnyCell,
    ResultTable,
    Row,
    TableNote,
    count_cell,
    count_of,
    format_number,
    number_cell,
    number_cells,
)
from ...statistics.bootstrap import StatisticsOptions, resample, resampling_interval
from ..wording import INTERVAL_LABELS, join_notes, synthetic_note
from . import word_agreement
from .held_out_captions import ImageCaptions

#: First letters of Penn Treebank's tags, and the parts of speech that they are; all others are `other`.
_PART_BY_LETTER = {"N": "noun", "V": "verb", "J": "adjective"}
#: In the order of the tables.
PARTS = (*_PART_BY_LETTER.values(), "other")


def find_parts(captions: Iterable[str], words: Sequence[str]) -> list[str]:
    """Return the part of speech that each word has most often in the captions, one of `PARTS`.

    Equal counts go by the order of `PARTS`; a word that no caption has is `other`.

    Raises:
        UnavailableError: if the tagger is not installed.
    """
    counts: dict[str, Counter[str]] = {word: Counter() for word in words}
    for text in tokenize(captions):
        for word, tag in tag_parts(text.split()):
            if word in counts:
                counts[word][_PART_BY_LETTER.get(tag[:1], "other")] += 1

    parts: list[str] = []
    for of_word in counts.values():
        part = "other"
        if of_word:
            part = max(PARTS, key=lambda part: (of_word[part], -PARTS.index(part)))
        parts.append(part)

    return parts


def part_rows(frame: pd.DataFrame) -> Iterator[tuple[str, float, float, str]]:
    """Yield measure, mean, standard deviation and note for each part of speech that words have.

    Args:
        frame: a row a word, columns `word_measures.WORD_COLUMNS`; without parts of speech there are no rows.
    """
    measures = {
        "human_recall": "recall",
        "human_precision": "precision",
        "precision_at_human_recall": "precision_at_human_recall",
    }
    for part in PARTS:
        of_part = frame[frame["part"] == part]
        for measure, column in measures.items():
            values = of_part[column].dropna()
            if values.empty:
                continue

            note = f"mean over {count_of(len(values), 'word')}; std over words"
            if measure == "precision_at_human_recall":
                of_people = float(of_part.loc[values.index, "precision"].mean())
                note = f"{note}; people's precision on these is {of_people:.4f}"

            yield f"{measure}_{part}", float(values.mean()), _std(values), note


WORD_COLUMNS = (
    "dataset",
    "word",
    "part",
    "n_captions",
    "n_images",
    "precision",
    "precision_low",
    "precision_high",
    "recall",
    "recall_low",
    "recall_high",
    "p",
    "q",
    "k",
    "model_precision",
    "precision_at_human_recall",
    "note",
)
#: The number of words in a table and a figure, where none are named.
N_EXAMPLES = 12
#: Names of the measures in tables, by the beginning of those in `agreement.csv`; the longer ones first.
_LABELS = {
    "human_precision": "people's precision",
    "human_recall": "people's recall",
    "model_k": "the model's best k",
    "model_error_fitted": "the model's error with its best k",
    "model_error": "the model's error",
    "precision_at_human_recall": "precision at people's recall",
}
#: The note where q, a probability, comes out above 1.
_Q_ABOVE_ONE = "q above 1: people agree on it more evenly than the model has it"


@dataclass(frozen=True)
class WordMeasures:
    """People's agreement on the words of a file or dataset.

    Attributes:
        people: the captions that count.
        frame: one row a word, columns `WORD_COLUMNS`.
        by_k: precision and recall of the words against fewer captions, by their number.
        fitted_k: the k of the model's curve that fits.
        held_out: which caption is held out, `each` in turn or the `last`.
        has_system: whether a system's scores are compared.
        note: a note on the system's scores; empty where there is nothing to say.
    """

    people: ImageCaptions
    frame: pd.DataFrame
    by_k: dict[int, pd.DataFrame]
    fitted_k: float
    held_out: str
    has_system: bool
    note: str

    @property
    def k(self) -> int:
        """The number of captions beside the held-out one."""
        return int(self.frame["k"].iloc[0])


def measure_words(
    source: ImageCaptions,
    progress: StepProgress,
    *,
    n_words: int = 1000,
    named_words: Sequence[str] = (),
    system_scores: Path | None = None,
    held_out: str = "each",
    k: int | None = None,
    has_parts: bool = False,
    seed: int = 0,
) -> WordMeasures:
    """Measure the agreement on words.

    Args:
        source: the captions.
        progress: advanced by each block of replicates.
        n_words: the number of words, the most frequent ones.
        named_words: further words.
        system_scores: the file of a system's scores; None without.
        held_out: which caption of an image is held out, `each` in turn or the `last`.
        k: the number of other captions; None for one less than most images have.
        has_parts: whether to find parts of speech.
        seed: of the intervals.

    Raises:
        InputError: where no image has two captions, the scores are malformed, or a word that nobody
            uses is to be named.
    """
    # As many captions of each image, so that precision and recall are of one k.
    people = source.keep_first(_usual_k(source) if k is None else k)

    scores = None
    system_words: list[str] = []
    if system_scores is not None:
        scores = word_agreement.SystemWordScores.read(system_scores, list(people.captions))
        system_words = list(scores.by_word)

    # Words of the system's scores count even where they are rare.
    uses = word_agreement.WordUses.count(people.captions, n_words, [*named_words, *system_words])
    if unknown := [w for w in named_words if w not in uses.words]:
        raise InputError(f"words.label: no caption of {people.name} has the word '{unknown[0]}'")

    by_k, frame = _measure_people(people, uses, held_out, seed, progress, has_parts=has_parts)
    precision = by_k[uses.k]["precision"].to_numpy()
    recall = by_k[uses.k]["recall"].to_numpy()
    if scores is not None:
        values, notes = word_agreement.precision_at_human_recall(scores, uses, held_out, recall)
        frame["precision_at_human_recall"] = values
        frame["note"] = list(map(join_notes, notes, frame["note"]))

    return WordMeasures(
        people=people,
        frame=frame,
        by_k=by_k,
        fitted_k=word_agreement.fit_k(precision, recall),
        held_out=held_out,
        has_system=scores is not None,
        note=_describe_unused(system_words, uses),
    )


def _describe_unused(system_words: Sequence[str], uses: word_agreement.WordUses) -> str:
    """Say how many words of a system's scores nobody uses; empty where there is none."""
    unused = [word for word in system_words if word not in uses.words]
    if not unused:
        return ""

    return f"{count_of(len(unused), 'word')} of the scores that nobody uses left out"


def _measure_people(
    people: ImageCaptions,
    uses: word_agreement.WordUses,
    held_out: str,
    seed: int,
    progress: StepProgress,
    *,
    has_parts: bool,
) -> tuple[dict[int, pd.DataFrame], pd.DataFrame]:
    """Return precision and recall by the number of other captions, and the rows of `words.csv`.

    Args:
        people, uses: the captions, and the uses of words in them.
        held_out, seed, progress, has_parts: see `measure_words`.
    """
    n_images = len(uses.image_ids)
    ones = np.ones((n_images, 1))
    compute = partial(word_agreement.ExpectedCounts.compute, uses, held_out=held_out)
    by_k = {fewer: _points(compute(fewer), ones) for fewer in range(1, uses.k)}
    expected = compute(uses.k)
    points = _points(expected, ones)
    by_k[uses.k] = points

    parts = [""] * len(uses.words)
    if has_parts:
        parts = find_parts(chain.from_iterable(people.captions.values()), uses.words)

    intervals = _intervals(expected, points, n_images, seed, progress)
    weight = np.asarray(expected.cw.sum(axis=0), dtype=float)
    frame = _make_frame(people, uses, points.assign(**intervals, part=parts), weight)

    return by_k, frame


def _make_frame(
    people: ImageCaptions, uses: word_agreement.WordUses, points: pd.DataFrame, weight: Floats
) -> pd.DataFrame:
    """Return the rows of `words.csv`, without a system's precision.

    Args:
        people, uses: the captions, and the uses of words in them.
        points: a row a word, columns `part`, `precision`, `recall` and their intervals.
        weight: the number of possible positives of each word, shape (n_words,).
    """
    recall = points["recall"].to_numpy()
    # E[cw] = k p q an image, and the recall is p.
    q = word_agreement.safe_ratio(weight, len(uses.image_ids) * uses.k * recall)

    columns = {
        "dataset": people.name,
        "word": uses.words,
        "n_captions": np.asarray(uses.counts.sum(axis=0), dtype=np.int64),
        "n_images": np.asarray((uses.counts > 0).sum(axis=0), dtype=np.int64),
        "p": recall,
        "q": q,
        "k": uses.k,
        "model_precision": word_agreement.model_precision(recall, uses.k),
        "precision_at_human_recall": np.nan,
        "note": np.where(q > 1, _Q_ABOVE_ONE, "").tolist(),
    }

    return points.assign(**columns)[list(WORD_COLUMNS)]


def _points(expected: word_agreement.ExpectedCounts, weights: Floats) -> pd.DataFrame:
    """Return precision and recall of the words."""
    points = {
        "precision": expected.precision(weights)[:, 0],
        "recall": expected.recall(weights)[:, 0],
    }
    return pd.DataFrame(points)


def _usual_k(source: ImageCaptions) -> int:
    """Return one less than most images have captions, and 1 at least."""
    sizes = Counter(len(texts) for texts in source.captions.values())
    # Of two that are as frequent, the greater.
    usual_size = max(sizes, key=lambda n: (sizes[n], n), default=0)
    return max(usual_size - 1, 1)


def _intervals(
    expected: word_agreement.ExpectedCounts,
    points: pd.DataFrame,
    n_images: int,
    seed: int,
    progress: StepProgress,
) -> dict[str, Floats]:
    """Compute intervals over images, columns of `words.csv`."""
    names = ("precision", "recall")
    # One image resampled is always itself.
    if n_images < 2:
        undefined = np.full(len(points), np.nan)
        ends = product(names, ("low", "high"))
        return {f"{name}_{end}": undefined for name, end in ends}

    options = StatisticsOptions(seed=seed)
    statistics = [expected.precision, expected.recall]
    replicates = resample(
        statistics, n_images, options.replicates, options.seed, advance=progress.advance
    )

    columns: dict[str, Floats] = {}
    for name, drawn in zip(names, replicates, strict=True):
        low: list[float] = []
        high: list[float] = []
        for value, row in zip(points[name].tolist(), drawn, strict=True):
            interval = resampling_interval(value, row, n_images, options)
            low.append(interval.low)
            high.append(interval.high)
        columns[f"{name}_low"] = np.array(low)
        columns[f"{name}_high"] = np.array(high)

    return columns


def summary_rows(measures: WordMeasures) -> list[dict[str, Any]]:
    """Return the rows of `agreement.csv`: means over words, and the errors of the model."""
    frame = measures.frame
    k = measures.k
    fitted = measures.fitted_k
    n_words = len(frame)

    rows: list[tuple[str, float, float, str]] = []
    for fewer, points in measures.by_k.items():
        suffix = "" if fewer == k else f"_k{fewer}"
        for name in ("precision", "recall"):
            column = points[name].dropna()
            n_undefined = n_words - len(column)
            undefined = f"undefined of {n_undefined}" if n_undefined else ""
            mean = f"mean over {count_of(n_words, 'word')}; std over words"
            note = join_notes(mean, undefined, f"against {count_of(fewer, 'caption')}")
            rows.append((f"human_{name}{suffix}", float(column.mean()), _std(column), note))

    rows.append(("model_k", fitted, float("nan"), "least squares over the words"))

    precision = frame["precision"].to_numpy(dtype=np.float64)
    recall = frame["recall"].to_numpy(dtype=np.float64)
    models = (
        ("model_error", float(k), f"k = {k}"),
        ("model_error_fitted", fitted, f"the k that fits, {fitted:.3f}"),
    )
    for name, model_k, model in models:
        squares = (precision - word_agreement.model_precision(recall, model_k)) ** 2
        error = float(np.sqrt(np.nanmean(squares)))
        words = count_of(n_words, "word")
        note = f"root mean square over {words} of the model's precision with {model}"
        rows.append((name, error, float("nan"), note))

    at_recall = frame["precision_at_human_recall"].dropna()
    if len(at_recall) or measures.note:
        of_people = float(frame.loc[at_recall.index, "precision"].mean())
        words = count_of(len(at_recall), "word")
        note = f"mean over {words}, of which people's precision is {of_people:.4f}"
        note = join_notes(note, measures.note)
        mean = float(at_recall.mean())
        rows.append(("precision_at_human_recall", mean, _std(at_recall), note))

    rows += part_rows(frame)

    people = measures.people
    records: list[dict[str, Any]] = []
    for name, value, std, note in rows:
        record = {
            "dataset": people.name,
            "measure": name,
            "value": value,
            "std": std,
            "n_items": len(people.captions),
            "note": join_notes(note, people.left_out_note),
        }
        records.append(record)

    return records


def _std(column: pd.Series) -> float:
    return float(column.std()) if len(column) > 1 else float("nan")


def select_examples(frame: pd.DataFrame, label: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the words in `label`, else of some from the least recall to the greatest."""
    if label:
        return frame.set_index("word", drop=False).loc[list(label)]

    # Among the more frequent half, whose points are not an accident of a few captions.
    is_frequent = frame["n_captions"] >= frame["n_captions"].median()
    ranked = frame[is_frequent].dropna(subset=["recall"]).sort_values(["recall", "word"])

    places = np.linspace(0, len(ranked) - 1, N_EXAMPLES).round().astype(int)
    return ranked.iloc[np.unique(places)] if len(ranked) else ranked


def _label(measure: str) -> str:
    """Return a measure of `summary_rows` as tables print it: `people's recall, k = 2` for `human_recall_k2`."""
    matching_names = [name for name in _LABELS if measure.startswith(name)]
    name = matching_names[0]
    part = measure.removeprefix(name).removeprefix("_")
    part = re.sub(r"^k(\d+)$", r"k = \1", part)

    return f"{_LABELS[name]}, {part}" if part else _LABELS[name]


def summary_table(measures: WordMeasures, rows: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Return the table of the rows of `agreement.csv`."""
    people = measures.people
    cells: list[Row] = []
    for row in rows:
        numbers = number_cells((row["value"], row["std"]), 1, 3)
        cells.append(Row(_label(row["measure"]), numbers))

    n_images = count_of(len(people.captions), "image")
    notes: list[str] = [f"{n_images}. ±: standard deviation over words."]
    for row in rows:
        # People's own measures have no note.
        if not row["measure"].startswith("human"):
            label = _label(row["measure"])
            notes.append(TableNote(f"{label}: {row['note']}.", (label,)))

    title = f"{people.name}: agreement on words"
    return ResultTable(title, "measure", ["value", "±"], cells, notes=notes)


def word_table(measures: WordMeasures, named_words: Sequence[str]) -> ResultTable:
    """Return the table of the named words, or else of some examples."""
    people = measures.people
    frame = measures.frame
    examples = select_examples(frame, named_words)
    columns = ["captions", "recall = p", "95 %", "q", "precision", "95 %", "model's"]
    columns += ["system's"] if measures.has_system else []

    rows: list[Row] = []
    for row in examples.to_dict("records"):
        cells: list[AnyCell] = [
            count_cell(row["n_captions"]),
            number_cell(row["recall"], 1, 3),
            _range(row["recall_low"], row["recall_high"]),
            number_cell(row["q"], 1, 4),
            number_cell(row["precision"], 1, 3),
            _range(row["precision_low"], row["precision_high"]),
            number_cell(row["model_precision"], 1, 3),
        ]
        if measures.has_system:
            cells.append(number_cell(row["precision_at_human_recall"], 1, 3))
        rows.append(Row(row["word"], cells))

    notes = [synthetic_note("people")] if people.is_synthetic else []
    notes.append(
        f"{len(examples)} of {len(frame):,} words; all are in words.csv. One of {measures.k + 1} "
        f"captions held out ({measures.held_out}); 95 %: {INTERVAL_LABELS[StatisticsOptions().interval]} bootstrap over images."
    )

    return ResultTable(f"{people.name}: people's words", "word", columns, rows, notes=notes)


def _range(low: float, high: float) -> str:
    return f"{format_number(low, 1, 3)} to {format_number(high, 1, 3)}"
