"""Agreement on words: the words that people use of an image, and the distance of a system's words from them.

Chen et al. 2015, section 4.2. A held-out caption that has a word predicts that the
other k captions have it; precision and recall are weighted: an image counts as often as captions of it
have the word, and once where none has. Of T captions with the word among an image's k + 1, and with one
of these held out at random, the expected values (as in the authors' own code, github.com/s-gupta/visual-concepts,
`cap_eval_utils.py`) are

    tp = T (T - 1) / (k + 1)     cw = k T / (k + 1)     fp = [T = 1] / (k + 1)

and, over all images, precision = Σ tp / (Σ tp + Σ fp), recall = Σ tp / Σ cw.
`word_measures` puts them together for `captau agree kind=words`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.special import comb

from ....datasets.errors import InputError
from ....datasets.reading.table import read_table
from ....metrics.base import Floats
from ....metrics.text.tokens.ptb import tokenize

#: The greatest k that is tried when the model's curve is fitted.
LARGEST_K = 100.0


@dataclass(frozen=True)
class WordUses:
    """The words that each of an image's k + 1 people used.

    Attributes:
        words: the most used first.
        image_ids: the images.
        by_place: for each of the k + 1 places of a caption, whether it has the word, sparse, shape
            (n_images, n_words).
    """

    words: list[str]
    image_ids: list[str]
    by_place: list[Any]

    @property
    def k(self) -> int:
        """The number of captions beside the held-out one."""
        return len(self.by_place) - 1

    @property
    def counts(self) -> Any:
        """The number of captions that have the word, sparse, shape (n_images, n_words)."""
        return sum(self.by_place[1:], self.by_place[0])

    @classmethod
    def count(
        cls, captions: Mapping[str, tuple[str, ...]], n_words: int, extra_words: Iterable[str]
    ) -> WordUses:
        """Count the uses of words.

        Args:
            captions: k + 1 of each image.
            n_words: the number of words, those that most captions have; ties go by the alphabet.
            extra_words: further words to count, where some caption has them.
        """
        tokenized = iter(tokenize(chain.from_iterable(captions.values())))
        word_sets: list[list[set[str]]] = []
        for texts in captions.values():
            word_sets.append([set(next(tokenized).split()) for _ in texts])

        # A caption counts once for a word, however often it has it.
        counts: Counter[str] = Counter()
        for used in chain.from_iterable(word_sets):
            counts.update(used)

        ranked = sorted(counts, key=lambda w: (-counts[w], w))
        frequent = dict.fromkeys(ranked[:n_words])
        used_extra_words = [word for word in extra_words if word in counts]
        words = list(frequent | dict.fromkeys(used_extra_words))
        column = {word: number for number, word in enumerate(words)}
        by_place: list[Any] = []

        for position in range(len(word_sets[0])):
            rows: list[int] = []
            columns: list[int] = []
            for i, of_image in enumerate(word_sets):
                used_columns = [column[w] for w in of_image[position] if w in column]
                rows += [i] * len(used_columns)
                columns += used_columns
            by_place.append(_mark(rows, columns, (len(word_sets), len(words))))

        return cls(words, list(captions), by_place)


def _mark(rows: list[int], columns: list[int], shape: tuple[int, int]) -> Any:
    """Return a sparse matrix with 1.0 at some places."""
    places = (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
    return csr_array((np.ones(len(rows)), places), shape=shape)


@dataclass(frozen=True)
class ExpectedCounts:
    """True positives, false positives and possible positives, sparse, shape (n_images, n_words)."""

    tp: Any
    fp: Any
    cw: Any

    @classmethod
    def compute(cls, uses: WordUses, k: int, held_out: str) -> ExpectedCounts:
        """Compute the counts of the held-out caption against k others.

        Args:
            uses: with `uses.k` captions beside the held-out one.
            k: up to that many. With fewer, all ways to choose them count alike.
            held_out: `each` of the captions alike, or the `last` against the first k.
        """
        if held_out == "last":
            last = uses.by_place[-1]
            first_uses = sum(uses.by_place[1:k], uses.by_place[0])
            return cls(last * first_uses, _drop_zeros(last - last * (first_uses > 0)), first_uses)

        # Each caption in turn is held out, and all ways to choose k of the others count alike.
        counts = uses.counts
        people = uses.k + 1
        count = counts.data
        # Given that the held-out caption has the word, none of k others does, drawn from the rest.
        none_has_it = comb(people - count, k) / comb(people - 1, k)
        return cls(
            tp=_replace_data(counts, count * (count - 1) * k / (people * (people - 1))),
            fp=_drop_zeros(_replace_data(counts, count / people * none_has_it)),
            cw=_replace_data(counts, count * k / people),
        )

    def precision(self, weights: Floats) -> Floats:
        """Return the precision by word, shape (n_words, n_samples).

        Args:
            weights: of the images, shape (n_images, n_samples).
        """
        tp = self.tp.T @ weights
        fp = self.fp.T @ weights
        return safe_ratio(tp, tp + fp)

    def recall(self, weights: Floats) -> Floats:
        """Return the recall by word; see `precision`."""
        return safe_ratio(self.tp.T @ weights, self.cw.T @ weights)


def _replace_data(matrix: Any, data: Floats) -> Any:
    """Replace the data at the same places, which are copied because `_drop_zeros` moves them."""
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)


def _drop_zeros(matrix: Any) -> Any:
    matrix.eliminate_zeros()
    return matrix


def safe_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide; NaN where the denominator is 0."""
    undefined = np.full_like(numerator, np.nan)
    return np.divide(numerator, denominator, out=undefined, where=denominator > 0)


def model_precision(p: Floats, k: float) -> Floats:
    """Return the precision where the model's recall is p (Chen et al. 2015, section 4.2).

    H̃_p = p k / (p k + (1 - p)^k).
    """
    return p * k / (p * k + (1 - p) ** k)


def fit_k(precision: Floats, recall: Floats) -> float:
    """Fit the k whose curve is nearest to the points, by least squares in precision; NaN without points.

    Nothing forces k to be the number of captions: where people are less alike, given the thing, than
    the model has it, the curve that fits lies lower.
    """
    from scipy.optimize import minimize_scalar

    is_defined = np.isfinite(precision) & np.isfinite(recall)
    if not is_defined.any():
        return float("nan")

    def squared_error(log_k: float) -> float:
        fitted = model_precision(recall[is_defined], np.exp(log_k))
        return float(((precision[is_defined] - fitted) ** 2).sum())

    bounds = (np.log(0.01), np.log(LARGEST_K))
    minimum: Any = minimize_scalar(
        squared_error, bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )

    return float(np.exp(minimum.x))


@dataclass(frozen=True)
class SystemWordScores:
    """A system's score of each image for some words.

    Attributes:
        path: the file.
        by_word: the images' scores, in the images' order, shape (n_images,).
    """

    path: Path
    by_word: dict[str, Floats]

    @classmethod
    def read(cls, path: Path, image_ids: list[str]) -> SystemWordScores:
        """Read CSV, JSON lines or Parquet with `image_id`, `word` and `score`, one row a pair.

        Raises:
            InputError: where it cannot be read, an image is unknown, a pair stands there twice, or a
                word lacks an image: a missing score is an error, never 0.
        """
        table = read_table(path)
        images = table.texts("image_id")
        words = table.filled("word")
        values = np.array(table.floats("score", None))

        row_by_image = {image: n for n, image in enumerate(image_ids)}
        rows = np.array([row_by_image.get(image, -1) for image in images], dtype=np.int64)
        if (rows < 0).any():
            first = int(np.argmax(rows < 0))
            raise InputError(
                f"{table.places[first]}: image '{images[first]}' is none of the {len(image_ids):,} "
                f"images whose captions count"
            )

        codes, names = pd.factorize(pd.Series(words, dtype=object))
        pairs = codes.astype(np.int64) * len(image_ids) + rows
        is_repeated = pd.Series(pairs).duplicated().to_numpy()
        if is_repeated.any():
            second = int(np.argmax(is_repeated))
            raise InputError(
                f"{table.places[second]}: a second score of '{words[second]}' for image "
                f"'{images[second]}'; keep one"
            )

        grid = np.full(len(names) * len(image_ids), np.nan)
        grid[pairs] = values
        grid = grid.reshape(len(names), len(image_ids))
        for word, row in zip(names, grid, strict=True):
            n_missing = int(np.isnan(row).sum())
            if not n_missing:
                continue

            image = image_ids[int(np.argmax(np.isnan(row)))]
            remainder = f" and {n_missing - 1:,} more" if n_missing > 1 else ""
            raise InputError(
                f"{path}: '{word}' has no score for image '{image}'{remainder}; every word of the file "
                f"needs every image"
            )

        return cls(path, {str(word): row for word, row in zip(names, grid, strict=True)})


def precision_at_human_recall(
    scores: SystemWordScores, uses: WordUses, held_out: str, recall: Floats
) -> tuple[Floats, list[str]]:
    """Compute a system's precision at the recall of people, word by word.

    Args:
        scores: the system's.
        uses: of the words.
        held_out: see `ExpectedCounts.compute`.
        recall: of people, shape (n_words,).

    Returns:
        shape (n_words,), NaN for words without scores, and a note for each word.
    """
    precision = np.full(len(uses.words), np.nan)
    notes = [""] * len(uses.words)
    k = uses.k
    if held_out == "last":
        counts: Any = sum(uses.by_place[1:-1], uses.by_place[0])
        people = k
    else:
        counts = uses.counts
        people = k + 1

    # Of people's captions, k count for the word's weight; `each`: all ways to choose them alike.
    by_word = counts.tocsc()
    for j, word in enumerate(uses.words):
        if word not in scores.by_word:
            continue
        if not recall[j] > 0:
            notes[j] = "undefined: people never agree on the word"
            continue

        count = by_word[:, [j]].toarray()[:, 0]
        gain = count * k / people
        loss = comb(people - count, k) / comb(people, k)
        precision[j] = precision_at(scores.by_word[word], gain, loss, float(recall[j]))

    return precision, notes


def precision_at(scores: Floats, gain: Floats, loss: Floats, recall: float) -> float:
    """Return the precision at the greatest threshold that reaches a recall; equal scores go together.

    Args:
        scores: of the images, shape (n_images,); more is better.
        gain: an image's part of the true positives, shape (n_images,).
        loss: its part of the false ones, shape (n_images,).
        recall: above 0 and up to 1.
    """
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))

    tp = np.cumsum(gain[order])[last]
    fp = np.cumsum(loss[order])[last]
    # A sum of shares may miss the recall by its rounding.
    first = int(np.argmax(tp / tp[-1] >= recall - 1e-12))

    return float(tp[first] / (tp[first] + fp[first]))
