"""`captau agree kind=words`: which words people use of an image, and how far a system's words are from theirs.

Chen et al. 2015, section 4.2. Whether a held-out caption has a word is a prediction of whether the
other k captions have it; precision and recall are weighted: an image counts as often as captions of it
have the word, and once where none has. Of T captions with the word among an image's k + 1, and with one
of these held out by lot, what is expected (as in the authors' own code, github.com/s-gupta/visual-concepts,
`cap_eval_utils.py`) is

    tp = T (T - 1) / (k + 1)     cw = k T / (k + 1)     fp = [T = 1] / (k + 1)

and, over all images, precision = Σ tp / (Σ tp + Σ fp), recall = Σ tp / Σ cw.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import comb

from ...datasets.errors import InputError
from ...datasets.files import sha256
from ...datasets.table import read_table
from ...metrics.base import Floats
from ...metrics.text.tokens.ptb import tokenize
from ..options.agree import AgreeOptions
from ..reporting.figure_files import can_draw, files_of
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import ResultTable, format_number
from ..statistics.bootstrap import StatisticsOptions, count_blocks, resample, resampling_interval
from ..statistics.weighted_coefficients import Statistic
from .agree import AGREEMENT_COLUMNS
from .agree_captions import Described, described, told

WORD_COLUMNS = (
    "dataset",
    "word",
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

#: So many words are named in a figure and shown in a table, where nobody says which.
SHOWN = 12
#: Where the fit looks for k.
MOST_K = 100.0


@dataclass(frozen=True)
class Uses:
    """Who of an image's k + 1 people used which word.

    Attributes:
        words: the words, the most used first.
        image_ids: the images.
        places: for each of the k + 1 places of a caption, whether it has the word, sparse, shape
            (n_images, n_words).
    """

    words: list[str]
    image_ids: list[str]
    places: list[Any]

    @property
    def k(self) -> int:
        """How many captions the held-out one is set against."""
        return len(self.places) - 1

    @property
    def total(self) -> Any:
        """How many of the captions have the word, sparse, shape (n_images, n_words)."""
        return sum(self.places[1:], self.places[0])

    @classmethod
    def of(cls, captions: Mapping[str, tuple[str, ...]], n_words: int, also: Iterable[str]) -> Uses:
        """Count.

        Args:
            captions: k + 1 of each image.
            n_words: how many words, those that most captions have; of equally many by the alphabet.
            also: other words to count, where some caption has them.
        """
        made = iter(tokenize(t for texts in captions.values() for t in texts))
        held = [[set(next(made).split()) for _ in texts] for texts in captions.values()]
        counts = Counter(w for sets in held for words in sets for w in words)
        ranked = sorted(counts, key=lambda w: (-counts[w], w))
        first = dict.fromkeys(ranked[:n_words])
        words = list(first | dict.fromkeys(w for w in also if w in counts))
        at = {w: j for j, w in enumerate(words)}
        places: list[Any] = []
        for place in range(len(held[0])):
            pairs = [(i, at[w]) for i, sets in enumerate(held) for w in sets[place] if w in at]
            where = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            shape = (len(held), len(words))
            places.append(csr_array((np.ones(len(where)), (where[:, 0], where[:, 1])), shape=shape))
        return cls(words, list(captions), places)


@dataclass(frozen=True)
class Expected:
    """Sparse, shape (n_images, n_words): the prediction's true and false positives, and what could be."""

    tp: Any
    fp: Any
    cw: Any

    @classmethod
    def of(cls, uses: Uses, k: int, held_out: str) -> Expected:
        """Of the held-out caption against k others.

        Args:
            uses: with `uses.k` captions beside the held-out one.
            k: up to that many. With fewer, all ways to choose them count alike.
            held_out: `each` of the captions alike, or the `last` against the first k.
        """
        if held_out == "last":
            last = uses.places[-1]
            others = sum(uses.places[1:k], uses.places[0])
            return cls(last * others, _dry(last - last * (others > 0)), others)
        total, people = uses.total, uses.k + 1
        held = total.data
        none = comb(people - held, k) / comb(people - 1, k)  # that none of the k has it too
        return cls(
            _with(total, held * (held - 1) * k / (people * (people - 1))),
            _dry(_with(total, held / people * none)),
            _with(total, held * k / people),
        )

    def precision(self, weights: Floats) -> Floats:
        """By word, shape (n_words, n), of images that count as often as weights (n_images, n) say."""
        tp, fp = self.tp.T @ weights, self.fp.T @ weights
        return _ratio(tp, tp + fp)

    def recall(self, weights: Floats) -> Floats:
        """As `precision`."""
        return _ratio(self.tp.T @ weights, self.cw.T @ weights)


def _with(matrix: Any, data: Floats) -> Any:
    """Other data at the same places; the places are copied, for `_dry` moves them."""
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)


def _dry(matrix: Any) -> Any:
    matrix.eliminate_zeros()
    return matrix


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where nothing is below."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def model_precision(p: Floats, k: float) -> Floats:
    """H̃_p = p k / (p k + (1 - p)^k): precision where the model's recall is p (Chen et al. 2015, 4.2)."""
    return p * k / (p * k + (1 - p) ** k)


def fit_k(precision: Floats, recall: Floats) -> float:
    """The k whose curve is nearest to the points, by least squares in precision; NaN without points.

    Nothing forces k to be the number of captions: where people are less alike, given the thing, than
    the model has it, the curve that fits lies lower.
    """
    known = np.isfinite(precision) & np.isfinite(recall)
    if not known.any():
        return float("nan")

    def off(log_k: float) -> float:
        return float(
            ((precision[known] - model_precision(recall[known], np.exp(log_k))) ** 2).sum()
        )

    found: Any = minimize_scalar(
        off, bounds=(np.log(0.01), np.log(MOST_K)), method="bounded", options={"xatol": 1e-9}
    )
    return float(np.exp(found.x))


@dataclass(frozen=True)
class Words:
    """What people use, and what a system reaches at their recall.

    Attributes:
        agreement: what it comes to, columns `agree.AGREEMENT_COLUMNS`.
        words: one row a word, columns `WORD_COLUMNS`.
        run: what it takes to recompute them.
        tables: what is printed.
        pictures: the figure as files by name; none without matplotlib.
    """

    agreement: pd.DataFrame
    words: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]
    pictures: dict[str, bytes]

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "agreement.csv": to_csv(self.agreement),
            "words.csv": to_csv(self.words),
            **table_files(self.tables),
            **self.pictures,
            "run.json": to_json(self.run),
        }


def run(config: AgreeOptions) -> Words:
    """Measure how well people agree on words.

    Raises:
        InputError: on missing or malformed references or scores, where no image has two captions, or
            a word that nobody uses is to be named.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    sets = described(config)
    frames: list[pd.DataFrame] = []
    summaries: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    panels: list[tuple[str, pd.DataFrame, dict[int, pd.DataFrame], float]] = []
    with StepProgress(len(sets) * count_blocks(StatisticsOptions().replicates)) as progress:
        for one in sets:
            chosen = one.first(_usual_k(one) if config.k is None else config.k)
            frame, by_k, fitted, note = _of_set(chosen, config, progress)
            frames.append(frame)
            rows = _summary(chosen, frame, by_k, fitted, note)
            summaries += rows
            tables += [_word_table(chosen, frame, config), _summary_table(chosen, rows)]
            panels.append((one.name, frame, by_k, fitted))
    agreement = pd.DataFrame(summaries, columns=pd.Index(AGREEMENT_COLUMNS))
    return Words(
        agreement=agreement,
        words=pd.concat(frames, ignore_index=True),
        run={
            **told(config, sets, [], config.locations),
            "scores": {str(config.scores): sha256(config.scores)} if config.scores else {},
            "replicates": StatisticsOptions().replicates,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=tables,
        pictures=_pictures(panels, config.label),
    )


def _usual_k(one: Described) -> int:
    """One less than most images have captions, and 1 at least."""
    sizes = Counter(map(len, one.captions.values()))
    most = max(sizes, key=lambda n: (sizes[n], n), default=0)
    return max(most - 1, 1)


def _of_set(
    one: Described, config: AgreeOptions, progress: StepProgress
) -> tuple[pd.DataFrame, dict[int, pd.DataFrame], float, str]:
    """The words' rows; by number of captions, from 1 to k, their precision and recall; the k that
    fits; what must be said of the system's scores.
    """
    scores = None if config.scores is None else Scores.read(config.scores, list(one.captions))
    wanted = [*config.label, *(scores.words if scores else ())]
    uses = Uses.of(one.captions, config.n_words, wanted)
    if strangers := [w for w in config.label if w not in uses.words]:
        raise InputError(f"words.label: nobody uses '{strangers[0]}' in {one.name}")
    every = np.ones((len(uses.image_ids), 1))
    expected = Expected.of(uses, uses.k, config.held_out)
    precision, recall = expected.precision(every)[:, 0], expected.recall(every)[:, 0]
    by_k = {uses.k: pd.DataFrame({"precision": precision, "recall": recall})}
    for k in range(1, uses.k):
        fewer = Expected.of(uses, k, config.held_out)
        by_k[k] = pd.DataFrame(
            {"precision": fewer.precision(every)[:, 0], "recall": fewer.recall(every)[:, 0]}
        )
    ends = _intervals(
        [expected.precision, expected.recall], [precision, recall], len(every), config, progress
    )
    total = uses.total
    # E[cw] = k p q a image, and the recall is p.
    q = _ratio(np.asarray(expected.cw.sum(axis=0), dtype=float), len(every) * uses.k * recall)
    at_recall = np.full(len(uses.words), np.nan)
    notes = [""] * len(uses.words)
    if scores is not None:
        at_recall, notes = _at_human_recall(scores, uses, config.held_out, recall)
    for j, share in enumerate(q.tolist()):
        if share > 1:
            notes[j] = "; ".join(n for n in (notes[j], _EVEN) if n)
    frame = pd.DataFrame(
        {
            "dataset": one.name,
            "word": uses.words,
            "n_captions": np.asarray(total.sum(axis=0), dtype=np.int64),
            "n_images": np.asarray((total > 0).sum(axis=0), dtype=np.int64),
            "precision": precision,
            "precision_low": ends[0][:, 0],
            "precision_high": ends[0][:, 1],
            "recall": recall,
            "recall_low": ends[1][:, 0],
            "recall_high": ends[1][:, 1],
            "p": recall,
            "q": q,
            "k": uses.k,
            "model_precision": model_precision(recall, uses.k),
            "precision_at_human_recall": at_recall,
            "note": notes,
        },
        columns=pd.Index(WORD_COLUMNS),
    )
    unused = [] if scores is None else [w for w in scores.words if w not in uses.words]
    of = "word" if len(unused) == 1 else "words"
    note = f"{len(unused)} {of} of the scores that nobody uses left out" if unused else ""
    return frame, dict(sorted(by_k.items())), fit_k(precision, recall), note


#: Where q, a probability, comes out above 1.
_EVEN = "q above 1: people agree on it more evenly than the model has it"


def _intervals(
    statistics: Sequence[Statistic],
    values: Sequence[Floats],
    n_images: int,
    config: AgreeOptions,
    progress: StepProgress,
) -> list[Floats]:
    """Percentile intervals over images, of each statistic shape (n_words, 2)."""
    options = StatisticsOptions(seed=config.seed)
    nothing = np.full((len(values[0]), 2), np.nan)
    if n_images < 2:
        return [nothing] * len(values)
    drawn = resample(
        statistics, n_images, options.replicates, options.seed, advance=progress.advance
    )
    found: list[Floats] = []
    for of_words, replicates in zip(values, drawn, strict=True):
        ends = [
            resampling_interval(v, r, options)
            for v, r in zip(of_words.tolist(), replicates, strict=True)
        ]
        found.append(np.array([(e.low, e.high) for e in ends]))
    return found


@dataclass(frozen=True)
class Scores:
    """A system's score of each image for some words.

    Attributes:
        path: the file.
        words: the words.
        of: by word the images' scores, in the images' order, shape (n_images,).
    """

    path: Path
    words: list[str]
    of: dict[str, Floats]

    @classmethod
    def read(cls, path: Path, image_ids: list[str]) -> Scores:
        """CSV, JSON lines or Parquet with `image_id`, `word` and `score`, one row a pair.

        Raises:
            InputError: where it cannot be read, an image is unknown, a pair stands there twice, or a
                word lacks an image: a missing score is an error, never 0.
        """
        table = read_table(path)
        images, words = table.texts("image_id"), table.filled("word")
        values = np.array(table.floats("score", None))
        at = {i: n for n, i in enumerate(image_ids)}
        rows = np.array([at.get(i, -1) for i in images], dtype=np.int64)
        if (rows < 0).any():
            first = int(np.argmax(rows < 0))
            raise InputError(
                f"{table.places[first]}: image '{images[first]}' is none of the {len(at):,} images "
                f"whose captions count"
            )
        codes, names = pd.factorize(pd.Series(words, dtype=object))
        pairs = codes.astype(np.int64) * len(at) + rows
        _, first, how_often = np.unique(pairs, return_index=True, return_counts=True)
        if (how_often > 1).any():
            again = np.flatnonzero(pd.Series(pairs).duplicated())[0]
            raise InputError(
                f"{table.places[int(again)]}: a second score of '{words[again]}' for image "
                f"'{images[again]}'; keep one"
            )
        grid = np.full(len(names) * len(at), np.nan)
        grid[pairs] = values
        grid = grid.reshape(len(names), len(at))
        for word, row in zip(names, grid, strict=True):
            if lacking := int(np.isnan(row).sum()):
                image = image_ids[int(np.argmax(np.isnan(row)))]
                raise InputError(
                    f"{path}: '{word}' has no score for image '{image}'"
                    + (f" and {lacking - 1:,} more" if lacking > 1 else "")
                    + "; every word of the file needs every image"
                )
        return cls(
            path, list(map(str, names)), {str(w): r for w, r in zip(names, grid, strict=True)}
        )


def _at_human_recall(
    scores: Scores, uses: Uses, held_out: str, recall: Floats
) -> tuple[Floats, list[str]]:
    """Precision at human recall of each word that has scores, and what must be said of it."""
    found = np.full(len(uses.words), np.nan)
    notes = [""] * len(uses.words)
    if held_out == "last":
        having: Any = sum(uses.places[1:-1], uses.places[0])
        people, k = uses.k, uses.k
    else:
        having, people, k = uses.total, uses.k + 1, uses.k
    by_word = having.tocsc()
    for j, word in enumerate(uses.words):
        if word not in scores.of:
            continue
        held = by_word[:, [j]].toarray()[:, 0]
        # Of people's captions, k count for the word's weight; `each`: all ways to choose them alike.
        gain, loss = held * k / people, comb(people - held, k) / comb(people, k)
        if not recall[j] > 0:
            notes[j] = "undefined: people never agree on the word"
            continue
        found[j] = precision_at(scores.of[word], gain, loss, float(recall[j]))
    return found, notes


def precision_at(scores: Floats, gain: Floats, loss: Floats, recall: float) -> float:
    """Precision at the greatest threshold from which the recall is reached; equal scores go together.

    Args:
        scores: of the images, shape (n,); more is better.
        gain: what an image that is kept adds to the true positives, shape (n,).
        loss: what it adds to the false ones, shape (n,).
        recall: above 0 and up to 1.
    """
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    tp, fp = np.cumsum(gain[order])[last], np.cumsum(loss[order])[last]
    reached = int(np.argmax(tp / tp[-1] >= recall - 1e-12))
    return float(tp[reached] / (tp[reached] + fp[reached]))


def _summary(
    one: Described,
    frame: pd.DataFrame,
    by_k: Mapping[int, pd.DataFrame],
    fitted: float,
    note: str,
) -> list[dict[str, Any]]:
    """What the words come to: rows of agreement.csv."""
    n_words, k = len(frame), int(frame["k"].iloc[0])
    over = f"mean over {n_words} words; std over words"
    rows: list[tuple[str, float, float, str]] = []
    for fewer, points in by_k.items():
        of = "" if fewer == k else f"_k{fewer}"
        for what in ("precision", "recall"):
            column = points[what].dropna()
            lost = f"; undefined of {n_words - len(column)}" if len(column) < n_words else ""
            spread = float(column.std()) if len(column) > 1 else float("nan")
            against = f"{over}{lost}; against {fewer} captions"
            rows.append((f"human_{what}{of}", float(column.mean()), spread, against))
    precision, recall = (frame[c].to_numpy(dtype=np.float64) for c in ("precision", "recall"))
    errors = {
        "model_error": (float(k), f"of the model's precision with k = {k}"),
        "model_error_fitted": (
            fitted,
            f"of the model's precision with the k that fits, {fitted:.3f}",
        ),
    }
    rows.append(("model_k", fitted, float("nan"), "least squares over the words"))
    for name, (of_k, what) in errors.items():
        off = float(np.sqrt(np.nanmean((precision - model_precision(recall, of_k)) ** 2)))
        rows.append((name, off, float("nan"), f"root mean square over {n_words} words {what}"))
    at_recall = frame["precision_at_human_recall"].dropna()
    if len(at_recall) or note:
        same = float(frame.loc[at_recall.index, "precision"].mean())
        said = f"mean over {len(at_recall)} words, of which people's precision is {same:.4f}"
        spread = float(at_recall.std()) if len(at_recall) > 1 else float("nan")
        rows.append(
            (
                "precision_at_human_recall",
                float(at_recall.mean()),
                spread,
                "; ".join(t for t in (said, note) if t),
            )
        )
    return [
        {
            "dataset": one.name,
            "measure": name,
            "value": value,
            "std": std,
            "n_items": len(one.captions),
            "note": "; ".join(t for t in (text, one.left_out) if t),
        }
        for name, value, std, text in rows
    ]


def _summary_table(one: Described, rows: Sequence[Mapping[str, Any]]) -> ResultTable:
    cells = [
        (
            str(r["measure"]),
            [format_number(float(r["value"]), 1, 3), format_number(float(r["std"]), 1, 3)],
        )
        for r in rows
    ]
    notes = [f"{len(one.captions):,} images. ±: standard deviation over words."]
    notes += [f"{r['measure']}: {r['note']}." for r in rows if not r["measure"].startswith("human")]
    return ResultTable(
        f"{one.name}: agreement on words", "measure", ["value", "±"], cells, notes=notes
    )


def spread_out(frame: pd.DataFrame, label: Sequence[str]) -> pd.DataFrame:
    """The rows of some words: those asked for, else some from the least recall to the greatest."""
    if label:
        return frame.set_index("word", drop=False).loc[list(label)]
    # Among the more frequent half, whose points are not an accident of a few captions.
    often = frame[frame["n_captions"] >= frame["n_captions"].median()].dropna(subset=["recall"])
    ranked = often.sort_values(["recall", "word"])
    return ranked.iloc[np.unique(np.linspace(0, len(ranked) - 1, SHOWN).round().astype(int))]


def _word_table(one: Described, frame: pd.DataFrame, config: AgreeOptions) -> ResultTable:
    chosen = spread_out(frame, config.label)
    heads = ["captions", "recall = p", "95 %", "q", "precision", "95 %", "model's"]
    rows: list[tuple[str, list[str]]] = []
    system = config.scores is not None
    for row in chosen.to_dict("records"):
        cells = [
            f"{row['n_captions']:,}",
            format_number(row["recall"], 1, 3),
            f"{format_number(row['recall_low'], 1, 3)} to {format_number(row['recall_high'], 1, 3)}",
            format_number(row["q"], 1, 4),
            format_number(row["precision"], 1, 3),
            f"{format_number(row['precision_low'], 1, 3)} to {format_number(row['precision_high'], 1, 3)}",
            format_number(row["model_precision"], 1, 3),
        ]
        rows.append(
            (
                row["word"],
                cells + ([format_number(row["precision_at_human_recall"], 1, 3)] if system else []),
            )
        )
    notes = [
        f"{len(chosen)} of {len(frame):,} words; all are in words.csv. One of {frame['k'].iloc[0] + 1} "
        f"captions held out ({config.held_out}); 95 %: percentile bootstrap over images."
    ]
    if one.caption_set is not None and one.caption_set.card.synthetic:
        notes.insert(
            0,
            "SYNTHETIC data: it only shows that captau works, and says nothing about real people.",
        )
    return ResultTable(
        f"{one.name}: people's words",
        "word",
        [*heads, *(["system's"] if system else [])],
        rows,
        notes=notes,
    )


def _labels(chosen: pd.DataFrame) -> list[tuple[str, float, float, float]]:
    """Word and point of each row, and the height of its label: below the one before, where they are near."""
    found: list[tuple[str, float, float, float]] = []
    ranked = chosen.dropna(subset=["recall", "precision"]).sort_values(
        ["precision", "recall"], ascending=[False, True]
    )
    for word, x, y in zip(ranked["word"], ranked["recall"], ranked["precision"], strict=True):
        near = [at for _, other, _, at in found if abs(other - x) < 0.25]
        found.append((word, x, y, min([y - 0.03, *(at - 0.045 for at in near)])))
    return found


def _pictures(
    panels: Sequence[tuple[str, pd.DataFrame, dict[int, pd.DataFrame], float]],
    label: Sequence[str],
) -> dict[str, bytes]:
    """As Figure 3: named words, all words with the model's curve, fewer captions; a row a dataset."""
    if not can_draw():
        return {}
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 3, squeeze=False)
    p = np.linspace(0, 1, 501)
    for (name, frame, by_k, fitted), (named, every, fewer) in zip(panels, grid, strict=True):
        k = int(frame["k"].iloc[0])
        chosen = spread_out(frame, label)
        named.scatter(chosen["recall"], chosen["precision"], s=14)
        for word, x, y, at in _labels(chosen):
            side = "right" if x > 0.6 else "left"
            shift = -0.04 if x > 0.6 else 0.04
            line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.5}
            named.annotate(
                word,
                (x, y),
                xytext=(x + shift, at),
                ha=side,
                va="center",
                fontsize="small",
                arrowprops=line,
            )
        named.set_title(f"{name}: some words")
        every.scatter(frame["recall"], frame["precision"], s=6, alpha=0.5, label="words")
        every.plot(p, model_precision(p, k), color="tab:blue", label=f"model, k = {k}")
        if np.isfinite(fitted):
            label_ = f"model, k = {fitted:.2f} (fitted)"
            every.plot(p, model_precision(p, fitted), "--", color="tab:red", label=label_)
        every.set_title(f"all {len(frame):,} words")
        every.legend(fontsize="small", loc="lower right")
        for number_, (of_k, points) in enumerate(by_k.items()):
            color = f"C{number_}"
            fewer.scatter(points["recall"], points["precision"], s=4, alpha=0.4, color=color)
            fewer.plot(p, model_precision(p, of_k), color=color, label=f"{of_k} captions")
        fewer.set_title("against fewer captions")
        fewer.legend(fontsize="small", loc="lower right")
        for axis in (named, every, fewer):
            axis.set_xlabel("human recall")
            axis.set_ylabel("human precision")
            axis.set_xlim(0, 1.02)
            axis.set_ylim(0, 1.02)
    return files_of(figure, "word_agreement")
