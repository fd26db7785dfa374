"""Correlations under variation: more or fewer images, raters and references, and other protocols.

`SensitivityAnalysis` holds one method a kind of `captau sensitivity`; each yields rows of `sensitivity.csv`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.caption_texts import comparison_form, find_own_references
from ...datasets.errors import Lack
from ...metrics.base import Floats
from ..runs.tables import count_of
from ..scoring.protocol import CHOICES, Protocol
from ..statistics.bootstrap import BLOCK
from ..statistics.coefficients.coefficient import CoefficientValue
from ..statistics.distributions import normal_quantile
from ..statistics.levels import prepare_at_level
from ..statistics.remarks import Undefined, remark
from .evaluation_set import QUOTED_COEFFICIENTS, EvaluationSet
from .judged_pairs import count_words
from .length_bands import LengthBand, compute_band_accuracies, cut_bands
from .prepared_datasets import PreparedDataset
from .wording import join_notes

SENSITIVITY_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "kind",
    "metric",
    "other",
    "coefficient",
    "size",
    "value",
    "low",
    "high",
    "difference",
    "power",
    "rank",
    "draws",
    "note",
)
#: Sizes of a curve over images, in parts of the dataset's.
SIZE_FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)
#: The share of draws within a band.
BAND = 0.95
#: The level of the tests whose power is computed, and the power that is looked for.
TEST_LEVEL, POWER = 0.05, 0.8
#: The number of draws of each kind where `draws` does not say; `references` scores anew each time.
DRAWS = {"images": 1000, "raters": 50, "references": 5}

Row = dict[str, Any]
#: Dimension, metric and coefficient.
CurveKey = tuple[str, str, str]


@dataclass(frozen=True)
class _Variant:
    """A treatment of copies and duplicates: its protocol, the end of its name, its note, and the ids of items left out."""

    protocol: Protocol
    suffix: str = ""
    note: str = ""
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SensitivityAnalysis:
    """The variations of one dataset.

    Attributes:
        prepared: the dataset and its metrics.
        seed: of all draws.
        n_draws: the number of draws of every kind; None for `DRAWS`.
    """

    prepared: PreparedDataset
    seed: int
    n_draws: int | None

    def rows(self, kind: str) -> list[Row]:
        """Return the rows of a kind of variation.

        Raises:
            LackingError: where the dataset has too few images, ratings or references, or too few
                metrics are compared.
        """
        kinds: dict[str, Callable[[], Iterator[Row]]] = {
            "images": self.images,
            "raters": self.raters,
            "references": self.references,
            "power": self.power,
            "protocols": self.protocols,
            "length": self.length,
        }
        return list(kinds[kind]())

    @property
    def selection(self) -> EvaluationSet:
        """The dataset's items."""
        return self.prepared.selection

    def images(self) -> Iterator[Row]:
        """Yield curves over the number of images, drawn with replacement."""
        scores = self.prepared.scores()
        for dimension in self.selection.protocol.dimension:
            points = self.selection.points(dimension)
            for size in self._sizes(points, "images"):
                drawn = self._resample(scores, points, size)

                for metric, table in drawn.items():
                    reason = self.selection.data_points(scores[metric], points).reason
                    phrase = reason.phrase if reason else ""
                    for coefficient, values in zip(self.prepared.coefficients, table, strict=True):
                        names = self._names("images", dimension, metric, coefficient, size)
                        yield names | make_curve_point(values, phrase)

    def raters(self) -> Iterator[Row]:
        """Yield curves over the number of ratings an item, drawn anew each time."""
        scores = self.prepared.scores()
        rng = np.random.default_rng(self.seed)
        for dimension in self.selection.protocol.dimension:
            of_all = self.selection.ratings
            ratings = of_all[of_all["dimension"] == dimension]
            counts = ratings["item_id"].value_counts()
            usual = int(np.median(counts)) if len(counts) else 0
            if usual < 2:
                message = f"most items have one rating of {dimension}; kind=raters needs two"
                raise self.selection.lacking(Lack.VARIATION, message)

            # Every size is of the same items, so that the curve shows raters and not items.
            complete = set(counts.index[counts >= usual])
            ratings = ratings[ratings["item_id"].isin(complete)]
            n_left_out = len(counts) - len(complete)
            note = f"{n_left_out} items left out, with fewer than {usual} ratings"

            for size in range(1, usual + 1):
                drawn: dict[CurveKey, list[CoefficientValue]] = {}
                for _ in self._draws("raters", size, usual, is_whole=size == int(counts.max())):
                    shuffled = ratings.assign(lot=rng.random(len(ratings))).sort_values("lot")
                    lot_rank = shuffled.groupby("item_id", sort=False).cumcount()
                    points = self.selection.protocol.data_points_of(
                        shuffled[lot_rank < size].sort_index(), self.selection.items, dimension
                    )
                    self._add_draw(drawn, self.selection, scores, points, dimension)

                yield from self._curves("raters", size, drawn, note if n_left_out else "")

    def references(self) -> Iterator[Row]:
        """Yield curves over the number of references, drawn anew and scored again each time."""
        metrics = [m for m in self.prepared.metrics if "references" in m.needs]
        if not metrics:
            message = "kind=references: none of the metrics uses references"
            raise self.selection.lacking(Lack.VARIATION, message)

        counts = self.selection.items["references"].map(len)
        max_count = int(counts.max())
        if max_count < 2:
            message = "no item has two references; kind=references needs them"
            raise self.selection.lacking(Lack.VARIATION, message)

        rng = np.random.default_rng(self.seed)
        n_fewer = int((counts < max_count).sum())
        note = f"{n_fewer} items have fewer than {max_count} references" if n_fewer else ""

        for size in range(1, max_count + 1):
            drawn: dict[CurveKey, list[CoefficientValue]] = {}
            for _ in self._draws("references", size, max_count, is_whole=size == max_count):
                items = draw_references(self.selection.items, size, rng)
                selection = self.selection.with_items(items)
                scores = self.prepared.scores(selection, metrics)
                for dimension in self.selection.protocol.dimension:
                    points = selection.points(dimension)
                    self._add_draw(drawn, selection, scores, points, dimension)

            yield from self._curves("references", size, drawn, note)

    def power(self) -> Iterator[Row]:
        """Yield the least difference of two metrics that is detected four times in five, by bootstrap.

        Resampled datasets of a size give the standard error of a difference; the least difference
        is (z of the test + z of the power) times it. The power of the observed difference is the
        share of resampled datasets in which it would be significant.
        """
        scores = self.prepared.scores()
        if len(scores) < 2:
            message = "kind=power compares metrics; name two at least"
            raise self.selection.lacking(Lack.METRICS, message)

        # z of a two-sided test, and with it z of the power: what a difference must be, in standard errors.
        significant = normal_quantile(1 - TEST_LEVEL / 2)
        detectable = significant + normal_quantile(POWER)

        protocol = self.selection.protocol
        coefficients = self.prepared.coefficients
        for dimension in protocol.dimension:
            points = self.selection.points(dimension)
            rated = {m: self.selection.data_points(s, points) for m, s in scores.items()}
            observed: dict[str, list[float]] = {}
            for metric, data in rated.items():
                observed[metric] = [data.correlate(protocol, c).value for c in coefficients]

            pairs = list(combinations(scores, 2))
            for size in self._sizes(points, "power"):
                drawn = self._resample(scores, points, size)
                for (a, b), (row, coefficient) in product(pairs, enumerate(coefficients)):
                    differences = drawn[a][row] - drawn[b][row]
                    error = float("nan")
                    if len(differences) > 1:
                        error = float(np.std(differences, ddof=1))

                    is_undefined = bool(np.isnan(differences).any())
                    power = float((np.abs(differences) > significant * error).mean())
                    reason = rated[a].reason or rated[b].reason or remark(Undefined.IN_SOME_DRAWS)

                    yield {
                        **self._names("power", dimension, a, coefficient, size),
                        "other": b,
                        "value": detectable * error,
                        "difference": observed[a][row] - observed[b][row],
                        "power": float("nan") if is_undefined else power,
                        "draws": len(differences),
                        "note": str(reason) if is_undefined else "",
                    }

    def length(self) -> Iterator[Row]:
        """Yield each coefficient within bands of captions of similar length, with intervals by image.

        Bands hold about equally many captions; `size` is the number of words of a band's longest caption. Bands of
        preferences are of pairs, by how many words longer one caption is.

        Raises:
            InputError: where all captions are equally long.
        """
        scores = self.prepared.scores() if self.prepared.metrics else {}
        items = self.selection.items
        if self.selection.uses_preferences and not self.selection.preferences.empty:
            yield from self._pair_bands(scores)

        n_words = count_words(items)
        for dimension in self.selection.protocol.dimension:
            points = self.selection.points(dimension)
            words = n_words.loc[points["item_id"]].to_numpy()
            for band in cut_bands(words, self.prepared.name):
                part = points[band.is_in]
                yield from self._length_band(scores, part, dimension, band)

    def _pair_bands(self, scores: Mapping[str, pd.Series]) -> Iterator[Row]:
        """Yield the accuracies of the bands of pairs."""
        n_draws = self.n_draws or DRAWS["images"]
        for accuracy in compute_band_accuracies(self.selection, scores, n_draws, self.seed):
            reason = Undefined.UNDEFINED_METRIC.value if np.isnan(accuracy.value) else ""
            band = accuracy.band
            names = self._names(
                kind="length",
                dimension=accuracy.dimension,
                metric=accuracy.metric,
                coefficient="accuracy",
                size=band.longest,
            )
            row = names | make_curve_point(accuracy.drawn, reason, accuracy.note)
            row |= {"value": accuracy.value, "other": band.label}
            yield row

    def _length_band(
        self,
        scores: Mapping[str, pd.Series],
        points: pd.DataFrame,
        dimension: str,
        band: LengthBand,
    ) -> Iterator[Row]:
        """Yield the coefficients of one band, with the band of its resampled images."""
        n_images = self.selection.image_of(points).nunique()
        note = (
            f"{band.label}: {count_of(len(points), 'judgement')} of {count_of(n_images, 'image')}"
        )

        drawn = self._resample(scores, points, n_images)

        for metric, table in drawn.items():
            rated = self.selection.data_points(scores[metric], points)
            for coefficient, values in zip(self.prepared.coefficients, table, strict=True):
                correlation = rated.correlate(self.selection.protocol, coefficient)
                reason = rated.reason.phrase if rated.reason else correlation.explanation
                names = self._names("length", dimension, metric, coefficient, band.longest)
                row = names | make_curve_point(values, reason, note)
                row |= {"value": correlation.value, "other": band.label}
                # All resamples of one image are alike.
                if n_images < 2:
                    row |= {"low": float("nan"), "high": float("nan")}
                yield row

    def protocols(self) -> Iterator[Row]:
        """Yield every sensible combination of ratings, references, coefficient, copies and duplicates."""
        counts = self.selection.items["references"].map(len)
        policies = [r for r in CHOICES["references"].allowed() if counts.max() > 1 or r == "all"]

        for variant, references in product(list(self._variants()), policies):
            k = 1 if references == "first_k" else None
            for dimension in self.selection.protocol.dimension:
                allowed = CHOICES["ratings"].allowed()
                if not self._has_several_ratings(dimension):
                    # Of single ratings, every choice makes the same data points.
                    allowed = (variant.protocol.ratings,)

                for ratings in allowed:
                    changes = {"references": references, "k": k, "ratings": ratings}
                    protocol = replace(variant.protocol, dimension=(dimension,), **changes)
                    selection = EvaluationSet.select(self.selection.caption_set, protocol)
                    is_left_out = selection.items["item_id"].isin(variant.left_out)
                    counted = selection.items[~is_left_out]
                    selection = selection.with_items(counted.reset_index(drop=True))

                    name = f"{ratings}, {references}" + (" k=1" if k else "") + variant.suffix
                    yield from self._ranked(selection, dimension, name, variant.note)

    def _variants(self) -> Iterator[_Variant]:
        """Yield the treatments of copies of references, and of duplicates, that the dataset has."""
        rows = self.selection.candidate_rows
        copies = self.selection.copies
        usual = self.selection.protocol
        yield _Variant(replace(usual, own_references="keep"))

        if copies.n_copies and not copies.is_copy.all():
            note = f"{copies.n_copies} copies of references left out"
            yield _Variant(replace(usual, own_references="drop"), ", own_references=drop", note)

        if copies.n_copies and not copies.is_single.all():
            note = f"{copies.n_copies} copies of references scored without these"
            undefined = usual.undefined
            if n_single := int(copies.is_single.sum()):
                note += f", but for {n_single} left out that have no other"
                undefined = "drop"
            protocol = replace(usual, own_references="leave_out", undefined=undefined)
            yield _Variant(protocol, ", own_references=leave_out", note)

        # Copies are among the duplicates; without others this would be `own_references=drop` again.
        is_duplicate = find_duplicates(rows).to_numpy()
        if is_duplicate.sum() > copies.n_copies and not is_duplicate.all():
            note = f"{int(is_duplicate.sum())} duplicates left out"
            left_out = frozenset(rows["item_id"][is_duplicate])
            protocol = replace(usual, own_references="keep")
            yield _Variant(protocol, ", without duplicates", note, left_out)

    def _ranked(
        self, selection: EvaluationSet, dimension: str, name: str, note: str
    ) -> Iterator[Row]:
        """Yield each metric's value and rank under one protocol, coefficient by coefficient."""
        points = selection.points(dimension)
        scores = self.prepared.scores(selection)
        protocol = selection.protocol
        rated = {m: selection.data_points(s, points) for m, s in scores.items()}

        for coefficient in dict.fromkeys((*QUOTED_COEFFICIENTS, *self.prepared.coefficients)):
            values: dict[str, float] = {}
            for metric, data in rated.items():
                values[metric] = data.correlate(protocol, coefficient).value
            # The greatest value has rank 1, and an undefined one none.
            all_values = np.array(list(values.values()))
            for metric, value in values.items():
                rank = math.nan
                if not math.isnan(value):
                    rank = 1 + int((all_values > value).sum())
                reason = rated[metric].reason
                names = self._names("protocols", dimension, metric, coefficient, len(points))
                cells = {"protocol": name, "value": value, "rank": rank}
                yield {**names, **cells, "note": join_notes(str(reason or ""), note)}

    def _has_several_ratings(self, dimension: str) -> bool:
        """Return whether any item of the dataset has two ratings of a dimension."""
        ratings = self.selection.caption_set.ratings
        ratings = ratings[ratings["dimension"] == dimension]
        return bool(ratings["item_id"].duplicated().any())

    def _sizes(self, points: pd.DataFrame, kind: str) -> list[int]:
        """Return the sizes of a curve over images.

        Raises:
            LackingError: where there is one image alone, of which all samples are alike.
        """
        n_images = self.selection.image_of(points).nunique()
        if n_images < 2:
            message = f"too few images with judgements ({n_images}); kind={kind} draws images and needs two"
            raise self.selection.lacking(Lack.VARIATION, message)

        return sorted({max(2, round(n_images * factor)) for factor in SIZE_FACTORS})

    def _resample(
        self, scores: Mapping[str, pd.Series], points: pd.DataFrame, size: int
    ) -> dict[str, Floats]:
        """Compute the coefficients in samples of so many images, the same for all metrics.

        Returns:
            by metric, shape (n_coefficients, n_draws).
        """
        n_images = self.selection.image_of(points).nunique()
        n_draws = self.n_draws or DRAWS["images"]
        # A seed for each size, so that no size's samples depend on the others that are asked for.
        rng = np.random.default_rng([self.seed, size])
        weights = rng.multinomial(size, np.full(n_images, 1 / n_images), n_draws).T.astype(float)

        blocks = [weights[:, i : i + BLOCK] for i in range(0, n_draws, BLOCK)]

        level = self.selection.protocol.level
        coefficients = self.prepared.coefficients
        drawn: dict[str, Floats] = {}
        for metric, by_item in scores.items():
            rated = self.selection.data_points(by_item, points)
            if rated.reason:
                drawn[metric] = np.full((len(coefficients), n_draws), np.nan)
                continue

            statistic = prepare_at_level(
                level, rated.scores, rated.ratings, rated.keys, coefficients, rated.image
            )
            drawn[metric] = np.concatenate([statistic(block) for block in blocks], axis=1)

        return drawn

    def _draws(self, kind: str, size: int, max_size: int, *, is_whole: bool) -> Iterator[None]:
        """Count the draws of a size on the progress bar; one where nothing is left to chance."""
        n_draws = 1 if is_whole else self.n_draws or DRAWS[kind]
        for draw in range(1, n_draws + 1):
            step = f"{self.prepared.name}: {size} of {max_size} {kind}, draw {draw} of {n_draws}"
            with self.prepared.progress.step(step):
                yield

    def _add_draw(
        self,
        drawn: dict[CurveKey, list[CoefficientValue]],
        selection: EvaluationSet,
        scores: Mapping[str, pd.Series],
        points: pd.DataFrame,
        dimension: str,
    ) -> None:
        """Append one draw of every coefficient."""
        for metric, by_item in scores.items():
            rated = selection.data_points(by_item, points)
            for coefficient in self.prepared.coefficients:
                correlation = rated.correlate(selection.protocol, coefficient)
                drawn.setdefault((dimension, metric, coefficient), []).append(correlation)

    def _curves(
        self, kind: str, size: int, drawn: Mapping[CurveKey, Sequence[CoefficientValue]], note: str
    ) -> Iterator[Row]:
        """Yield a point of each curve."""
        for key, correlations in drawn.items():
            values = np.array([c.value for c in correlations])
            undefined = [c for c in correlations if not c.is_defined]

            # Many draws are undefined for one reason, which stands once.
            reason = ", ".join(dict.fromkeys(c.explanation for c in undefined))
            yield self._names(kind, *key, size) | make_curve_point(values, reason, note)

    def _names(self, kind: str, dimension: str, metric: str, coefficient: str, size: int) -> Row:
        names = {"kind": kind, "metric": metric, "coefficient": coefficient, "size": size}
        return self.selection.row_names(dimension) | names


def make_curve_point(drawn: Floats, reason: str, note: str = "") -> Row:
    """Return the mean over draws and the band that holds most of them.

    Args:
        drawn: shape (n_draws,); NaN where the coefficient is undefined.
        reason: the reason why it is.
        note: added to the row's.
    """
    defined = drawn[~np.isnan(drawn)]
    value = low = high = float("nan")
    if len(defined):
        value = float(defined.mean())
    if len(defined) > 1:
        low, high = map(float, np.quantile(defined, [(1 - BAND) / 2, (1 + BAND) / 2]))

    undefined = ""
    if n_undefined := len(drawn) - len(defined):
        undefined = f"undefined: {reason}"
        if len(defined):
            undefined = f"undefined in {n_undefined} of {len(drawn)} draws"
            undefined += f": {reason}" if reason else ""

    point = {"value": value, "low": low, "high": high, "draws": len(drawn)}
    return point | {"note": join_notes(undefined, note)}


def draw_references(items: pd.DataFrame, size: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw so many references of each image, the same for all its captions; fewer where it has fewer."""
    places_by_image: dict[tuple[str, int], np.ndarray] = {}
    drawn: list[tuple[str, ...]] = []

    for image, texts in zip(items["image_id"], items["references"], strict=True):
        key = (image, len(texts))
        if key not in places_by_image:
            places_by_image[key] = np.sort(rng.permutation(len(texts))[:size])
        drawn.append(tuple(texts[i] for i in places_by_image[key]))

    return items.assign(references=pd.Series(drawn, dtype=object))


def find_duplicates(items: pd.DataFrame) -> pd.Series:
    """Mark the items that repeat a reference of theirs, or an earlier caption of the image.

    Captions are compared as `datasets.caption_texts` compares them with references.
    """
    forms = items["caption"].map(comparison_form)
    pairs = pd.DataFrame({"image": items["image_id"], "caption": forms})
    return pairs.duplicated() | find_own_references(items).is_copy
