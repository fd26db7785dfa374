"""`Protocol`: every choice that moves a number, and the data points that it makes of a dataset.

A choice is a field of `Protocol`, declared by `choice` with its usual value, its type, its help text, its values and its
words. The options `protocol.*`, the check of YAML and of baselines, notes below tables and the sentences of `captau cite`
follow from it. To add one, declare a field; a choice among ratings names the function that changes them, and others are
applied in the method that they concern.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...datasets.caption_texts import (
    NORMALISATIONS,
    OwnReferences,
    find_own_references,
    leave_out_of_pairs,
    normalise_items,
)
from ...datasets.errors import InputError, Lack, LackingError, unknown
from ...datasets.reading.source_files import way_to_get_split
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..statistics.coefficients.coefficient import (
    SystemCoefficient,
    coefficient_names,
    find_coefficient,
)
from ..statistics.levels import LEVELS, level_column
from ..statistics.preferences import TIE_POLICIES
from .changed_ratings import ChangedRatings, LeftOutRatings, merge_near, scale_by_rater
from .protocol_choice import Choice, Judged, as_tuple, choice

#: The policies over references that `k` bears on.
K_POLICIES = ("first_k", "mean_over_single", "max_over_single")
#: The dimension that stands for all of a dataset's.
ALL_DIMENSIONS = "all"
#: The key of a dataset's usual protocol under which the choices stand that are usual for one of its dimensions alone.
BY_DIMENSION = "by_dimension"


@dataclass(frozen=True)
class Protocol:
    """All choices that turn scores and ratings into a coefficient.

    Attributes:
        name: its name in results.
        dimension: the dimensions of ratings and of preferences that are used, or `all`. If it names no dimension of
            preferences, all of these are used.
        ratings: `per_rating` (each rating is a data point, what Scott et al. 2023 call "method A" of Hessel et al. 2021),
            `mean`, `rounded_mean` or `median` of an item's ratings.
        references: `all`; `mean_over_single` or `max_over_single` (score against one reference at a
            time, then average or maximise); `first_k`.
        k: the number of references, for `K_POLICIES`; None for all of them.
        corpus: the rows over which corpus statistics (CIDEr's document frequencies) are counted: the whole
            `dataset`, or each system alone (`per_system`).
        systems: the systems whose rows are used; None for all.
        split: the split whose rows are used; None for all.
        coefficients: any of `coefficient.coefficient_names()`.
        undefined: what happens if a score is undefined: the coefficient is NaN (`nan`), the data point or pair is
            left out and counted (`drop`), or the run stops (`error`).
        level: which data points are correlated: all (`pooled`), those of each image or system, with the mean over
            these (`by_image`, `by_system`), or the systems' means (`system`).
        own_references: what happens to captions that are among their own references (`datasets.caption_texts` has
            the rule): they stay (`keep`), are left out with their preferences (`drop`), are scored without that
            reference (`leave_out`), or all captions of the image are (`leave_out_image`, Hessel et al. 2021, Table 3),
            or both captions of a pair are of which one is that reference (`leave_out_pair`).
        normalise: the text rule of `datasets.caption_texts` for captions and references, or `none`.
        ties: how ties of preferences count: `half`, `drop` or `calibrated`
            (`statistics.preferences.judge_differences`).
        rater_scale: whether ratings count as they are (`none`) or as z-scores (`z`, as WMT does): less the mean of the
            rater's ratings of the dimension in the whole dataset, in their standard deviations. A rater whose ratings
            are all equal has no z-scores, and is left out.
    """

    name: str = choice(
        "usual", "the name of the protocol in results", noted="never", is_compared=False
    )
    dimension: tuple[str, ...] = choice(
        ALL_DIMENSIONS,
        "the rated dimension, or several (precision,recall), or all",
        type=Any,
        noted="never",
        is_compared=False,
    )
    ratings: str = choice(
        "per_rating",
        "{values}",
        values=("per_rating", "mean", "rounded_mean", "median"),
        words={
            "per_rating": "each rating is a data point",
            "mean": "an item's ratings are averaged",
            "rounded_mean": "an item's ratings are averaged and rounded, halves up",
            "median": "the median of an item's ratings counts",
        },
        said_of="ratings",
        noted="always",
    )
    references: str = choice(
        "all",
        "{values}",
        values=("all", "mean_over_single", "max_over_single", "first_k"),
        words={
            "all": "candidates are scored against all references at once",
            "first_k": "candidates are scored against the first {first_k}",
            "mean_over_single": "candidates are scored against one reference at a time and the scores averaged{of_k}",
            "max_over_single": "candidates are scored against one reference at a time and the highest counts{of_k}",
        },
        noted="always",
    )
    k: int | None = choice(
        None,
        "the number of references (needed by first_k)",
        type=int | None,
        least=1,
        noted="never",  # the references' note has it
    )
    corpus: str = choice(
        "dataset",
        "the captions that CIDEr's IDF is counted over: {values}",
        values=("dataset", "per_system"),
        words={
            "dataset": "corpus statistics (document frequencies) are taken over the dataset",
            "per_system": "corpus statistics (document frequencies) are taken over each system alone",
        },
        noted="always",
    )
    systems: tuple[str, ...] | None = choice(
        None,
        "only rows of these systems",
        words="captions are those of {value}",
        type=Any,
        takes="A,B",
    )
    split: str | None = choice(
        None,
        "only rows of this split",
        words="captions are those of the split {value}",
        takes="NAME",
    )
    coefficients: tuple[str, ...] = choice(
        ["tau_c", "tau_b", "accuracy"],
        "any of {values} (docs/kinds.md)",
        values=coefficient_names,
        type=Any,
        noted="never",
        is_compared=False,
    )
    undefined: str = choice(
        "nan",
        "how an undefined score is treated: {values}",
        values=("nan", "drop", "error"),
        words={
            "nan": "an undefined score leaves the coefficient undefined",
            "drop": "data points with an undefined score are left out",
            "error": "no score is undefined",
        },
        said_of="judgements",
        noted="never",
    )
    level: str = choice(
        "pooled",
        "{values}",
        values=LEVELS,
        words={
            "pooled": "coefficients are over all data points",
            "by_image": "coefficients are within images, and averaged over them",
            "by_system": "coefficients are within systems, and averaged over them",
            "system": "coefficients are of the systems' mean scores and mean ratings",
        },
        said_of="ratings",
    )
    own_references: str = choice(
        "keep",
        "how captions that are one of their image's references are treated: keep, drop (the "
        "caption), leave_out (that reference), leave_out_image (that reference, for every caption of "
        "the image), leave_out_pair (that reference, for both captions of a pair)",
        values=("keep", "drop", "leave_out", "leave_out_image", "leave_out_pair"),
        words={
            "drop": "captions that are one of their image's references are left out",
            "leave_out": "no caption is scored against a reference that it is a copy of",
            "leave_out_image": "no caption is scored against a reference of which a caption of the image is a copy",
            "leave_out_pair": "no caption of a pair is scored against a reference of which one of the two is a copy",
        },
        is_later=True,
    )
    normalise: str = choice(
        "none",
        "the text rule for captions and references before they are scored: {values}",
        values=tuple(NORMALISATIONS),
        words="captions and references are normalised by the rule {value}",
        is_later=True,
        is_signed=True,
    )
    ties: str = choice(
        "half",
        "how ties between preferences count: half (people's ties are left out, a metric's tie "
        "counts half), drop (both are left out), calibrated (people's ties count, and a metric "
        "ties within a threshold)",
        values=TIE_POLICIES,
        words={
            "half": "equal scores of a pair count half",
            "drop": "pairs of equal scores are left out",
            "calibrated": "ties count, and scores within a threshold are equal",
        },
        said_of="pairs",
        is_later=True,
        is_compared=False,
    )
    rater_scale: str = choice(
        "none",
        "how each rater's ratings are scaled: {values} (z-scores)",
        values=("none", "z"),
        words={"z": "each rater's ratings are standardised to z-scores"},
        said_of="ratings",
        is_later=True,
        change_ratings=scale_by_rater,
        left_out="have no z-score and are left out, as their raters gave all captions the same",
    )

    #: Fields that older files and digests lack, from their declarations below; see `metrics.base.later_options`.
    later_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, declared in CHOICES.items():
            value = getattr(self, name)
            declared.check_number(value, f"protocol.{name}")
            # Without listed values any is allowed, such as a system's name.
            allowed = declared.allowed()
            elements = value if isinstance(value, tuple) else (value,)
            for element in elements:
                if allowed and element not in allowed:
                    raise unknown(f"value of protocol.{name}", str(element), allowed)

        if not self.coefficients:
            raise InputError("protocol.coefficients is empty; name at least one")
        for coefficient in self.coefficients:
            compares_systems = isinstance(find_coefficient(coefficient), SystemCoefficient)
            if compares_systems and self.level != "system":
                raise InputError(
                    f"protocol.coefficients={coefficient} compares systems; set protocol.level=system"
                )

        if self.rater_scale == "z" and self.ratings == "rounded_mean":
            raise InputError(
                "protocol.ratings=rounded_mean rounds to grades, which z-scores are not; set protocol.ratings=mean"
            )

        if self.references == "first_k" and self.k is None:
            raise InputError("protocol.references=first_k needs protocol.k=N")
        if self.k is not None and self.references not in K_POLICIES:
            raise InputError(
                f"protocol.k={self.k} needs protocol.references to be one of {', '.join(K_POLICIES)}; "
                f"it is {self.references}"
            )

    @classmethod
    def resolve(
        cls, dataset: str, usual: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> Protocol:
        """Return a dataset's usual protocol with some fields changed; None means unchanged.

        Args:
            dataset: its name, for messages.
            usual: what differs in its usual protocol from that of `CHOICES`; under `by_dimension`, what differs besides
                where `changes` names one dimension.
            changes: what differs from that.

        Raises:
            InputError: where a value is not known.
        """
        named_dimensions = as_tuple(changes.get("dimension"), "dimension") or ()
        # Papers quote some dimensions by a coefficient of their own.
        if len(named_dimensions) == 1:
            usual = {**usual, **_usual_of_dimension(dataset, usual, named_dimensions[0])}

        usual_values: dict[str, Any] = {}
        for name, declared in CHOICES.items():
            value = usual.get(name, declared.usual)
            # A null of YAML is a value where any is allowed (no split), and none where values are listed.
            is_unset = value is None and bool(declared.values)
            usual_values[name] = declared.usual if is_unset else value

        values: dict[str, Any] = {}
        for name, value in usual_values.items():
            values[name] = value if changes.get(name) is None else changes[name]
        if changes.get("k") is None and values["references"] not in K_POLICIES:
            values["k"] = None  # the usual policy's, which was changed for one without it

        for key, declared in CHOICES.items():
            if declared.type is Any:
                values[key] = as_tuple(values[key], key)
        values["split"] = None if values["split"] is None else str(values["split"])
        # These two are tuples also where a dataset's file has null.
        values["dimension"] = values["dimension"] or ()
        values["coefficients"] = values["coefficients"] or ()
        protocol = cls(**values)

        # Results name the protocol by what differs from the usual one of the dataset.
        words = [str(changes.get("name") or "usual")]
        for name, usual_value in usual_values.items():
            value = getattr(protocol, name)
            if name != "name" and _normal(value) != _normal(usual_value):
                words.append(f"{name}={_show(value)}")
        return dataclasses.replace(protocol, name=" ".join(words))

    def for_dataset(self, caption_set: CaptionSet) -> Protocol:
        """Return this protocol for one dataset.

        Its dimensions are then the rated ones alone, `all` standing for all that the dataset has. The accuracy on
        preferences is left out where there are ratings alone, and other coefficients.
        """
        protocol = self
        only_of_pairs = set(self.pair_dimensions(caption_set)) - set(caption_set.dimensions)
        if only_of_pairs:
            rated = [dimension for dimension in self.dimension if dimension not in only_of_pairs]
            protocol = dataclasses.replace(protocol, dimension=tuple(rated))

        of_ratings: list[str] = []
        for name in self.coefficients:
            if not find_coefficient(name).is_of_preferences:
                of_ratings.append(name)
        has_both_kinds = 0 < len(of_ratings) < len(self.coefficients)
        has_ratings_alone = caption_set.preferences.empty and bool(caption_set.dimensions)
        if has_both_kinds and has_ratings_alone:
            protocol = dataclasses.replace(protocol, coefficients=tuple(of_ratings))

        # A dataset may have a dimension of that name.
        takes_all = protocol.dimension == (ALL_DIMENSIONS,)
        if takes_all and ALL_DIMENSIONS not in caption_set.dimensions:
            protocol = dataclasses.replace(protocol, dimension=caption_set.dimensions)
        return protocol

    def pair_dimensions(self, caption_set: CaptionSet) -> tuple[str, ...]:
        """Return the dimensions of preferences that are named; all count where none is."""
        judged = set(caption_set.preferences["dimension"])
        return tuple(d for d in self.dimension if d in judged)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Protocol:
        """Return the protocol of a finished run, as its `run.json` has it.

        Choices that came later than the run have their usual values.

        Raises:
            TypeError: where there is an unknown option, or one is missing.
        """
        # Old runs may lack `level` as well, which is no later field, since digests have it.
        optional = {"level", *cls.later_fields}
        missing = CHOICES.keys() - record.keys() - optional
        if missing:
            raise TypeError(f"the protocol lacks {', '.join(sorted(missing))}")

        values: dict[str, Any] = {}
        for name, value in record.items():
            values[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
        return cls(**values)

    def describe(self) -> str:
        """Describe in a clause each the choices that move numbers: `each rating is a data point; …`."""
        parts: list[str] = []
        for name, declared in CHOICES.items():
            value = getattr(self, name)
            is_changed = value not in (declared.usual, None)
            is_noted = declared.noted == "always" or (declared.noted == "changed" and is_changed)
            if not is_noted:
                continue
            # Where people compared captions alone, nothing is said of ratings.
            if declared.said_of == "ratings" and declared.noted == "always" and not self.dimension:
                continue

            parts.append(self.describe_choice(name))
        return "; ".join(parts)

    def describe_choice(self, name: str) -> str:
        """Describe one choice in a clause: `each rating is a data point`."""
        value = getattr(self, name)
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        clause = CHOICES[name].clause(value).format(value=text, **self._counted_references())
        return clause or f"{name.replace('_', ' ')} {text}"

    def clauses(
        self, said_of: Iterable[Judged], escape: Callable[[str], str]
    ) -> Iterator[tuple[str, str]]:
        """Yield each choice that has a clause of a methods section, and this clause in LaTeX.

        Args:
            said_of: what the numbers are of.
            escape: makes LaTeX of the user's words.
        """
        for name, declared in CHOICES.items():
            value = getattr(self, name)
            words = declared.clause(value)
            if declared.said_of in said_of and words:
                text = escape(", ".join(value) if isinstance(value, tuple) else str(value))
                yield name, words.format(value=text, **self._counted_references())

    def _counted_references(self) -> dict[str, str]:
        """Return the words of `k` that clauses about references have."""
        return {
            "first_k": "reference" if self.k == 1 else f"{self.k} references",
            "of_k": f", of the first {self.k}" if self.k else "",
        }

    def select_items(self, caption_set: CaptionSet) -> pd.DataFrame:
        """Return the items that count, normalised, with their `weight` (their data points).

        Raises:
            InputError: on an unknown system, split or dimension, where nothing is left, or where
                `own_references` leaves an item without references. Pairs that `leave_out_pair` leaves without
                are left out.
        """
        items = self.select_rows(caption_set)
        where = f"dataset {caption_set.name}"
        if self.own_references == "leave_out_pair":
            items = self._without_references_of_pairs(caption_set, items)
        elif self.own_references != "keep":
            items = self._without_own_references(caption_set, items)

        if level_column(self.level) == "system" and items["system"].isna().any():
            raise LackingError(
                Lack.SYSTEM,
                f"protocol.level={self.level} needs the system of every item, and it is not known",
                caption_set.name,
            )
        for dimension in self.dimension:
            if dimension not in caption_set.dimensions:
                dimensions = [
                    *caption_set.dimensions,
                    *caption_set.preferences["dimension"].unique(),
                ]
                error = unknown(f"dimension of {where}", dimension, dict.fromkeys(dimensions))
                raise LackingError(Lack.DIMENSION, str(error))

        first_dimension = self.dimension[0] if self.dimension else None
        weights = self._weights(caption_set, items, first_dimension)
        items = normalise_items(items, self.normalise)
        return items.assign(weight=weights).reset_index(drop=True)

    def select_rows(self, caption_set: CaptionSet) -> pd.DataFrame:
        """Return the items whose system and split count, whatever `own_references` says of them.

        Where each dimension was judged of captions of its own, they are those of the protocol's dimensions.

        Raises:
            InputError: on an unknown system or split, or where nothing is left.
        """
        items = caption_set.items
        where = f"dataset {caption_set.name}"

        dimensions = set(self.dimension) & set(caption_set.dimensions)
        if caption_set.card.items_by_dimension and dimensions:
            ratings = caption_set.ratings
            judged = ratings.loc[ratings["dimension"].isin(dimensions), "item_id"]
            items = items[items["item_id"].isin(judged)]

        if self.systems is not None:
            available = sorted({s for s in items["system"] if isinstance(s, str)})
            for system in self.systems:
                if system not in available:
                    error = unknown(f"system of {where}", system, available)
                    raise LackingError(Lack.SYSTEM, str(error))
            items = items[items["system"].isin(self.systems)]

        if self.split is not None:
            available = sorted({s for s in caption_set.items["split"] if isinstance(s, str)})
            # A known split whose file is not here has another remedy than a wrong name.
            if self.split in caption_set.missing_splits:
                remedy = way_to_get_split(caption_set.card, self.split)
                message = f"{where}: no item belongs to the split '{self.split}'{remedy}"
                raise LackingError(Lack.SPLIT, message)
            if self.split not in available:
                error = unknown(f"split of {where}", self.split, available)
                raise LackingError(Lack.SPLIT, str(error))
            items = items[items["split"] == self.split]

        if items.empty:
            raise InputError(
                f"{where}: no item is left; change protocol.systems={_show(self.systems)} or "
                f"protocol.split={self.split}"
            )
        return items

    def find_own_references(self, caption_set: CaptionSet, items: pd.DataFrame) -> OwnReferences:
        """Mark the items whose caption is one of their references, and find the references that are left.

        Args:
            caption_set: the dataset.
            items: the items to mark, some or all of the dataset's in its order.
        """
        of_image = self.own_references == "leave_out_image"
        # Where all items are left, the dataset's own marks are the same, and are made once.
        if len(items) == len(caption_set.items) and not of_image:
            return caption_set.own_references
        return find_own_references(items, of_image=of_image)

    def _without_own_references(self, caption_set: CaptionSet, items: pd.DataFrame) -> pd.DataFrame:
        """Leave out the items that are copies of references, or these references."""
        where = f"dataset {caption_set.name}"
        copies = self.find_own_references(caption_set, items)
        # A copy is scored without its own reference, unless that is its only one.
        excluded = copies.is_copy if self.own_references == "drop" else copies.is_single
        if excluded.all():
            raise InputError(
                f"{where}: protocol.own_references={self.own_references} leaves nothing, because every "
                f"caption is one of its references, or its only one"
            )
        if self.own_references == "drop":
            return items[~excluded]

        # Rows are left out only where somebody asked for it.
        if excluded.any() and self.undefined != "drop":
            first = items["item_id"].iloc[int(np.argmax(excluded))]
            raise InputError(
                f"{where}: protocol.own_references={self.own_references} leaves {excluded.sum():,} captions without "
                f"references, first '{first}'; protocol.undefined=drop leaves them out, "
                f"protocol.own_references=drop all copies"
            )

        references = pd.Series(copies.other_references, index=items.index, dtype=object)
        return items.assign(references=references)[~excluded]

    def _without_references_of_pairs(
        self, caption_set: CaptionSet, items: pd.DataFrame
    ) -> pd.DataFrame:
        """Leave out, for both captions of each pair, the references that one of the two is.

        Raises:
            InputError: where there are no pairs, or none of them has a reference left.
        """
        where = f"dataset {caption_set.name}: protocol.own_references=leave_out_pair"
        if caption_set.preferences.empty:
            raise LackingError(
                Lack.JUDGEMENTS,
                f"{where} is a rule for pairs, and there are ratings alone; set protocol.own_references=leave_out",
            )

        pairs = leave_out_of_pairs(caption_set.items, caption_set.preferences)
        is_selected = np.isin(pairs.source_ids, items["item_id"].to_numpy(dtype=object))
        is_left = is_selected & ~pairs.is_without
        if not is_left.any():
            raise InputError(
                f"{where} leaves nothing, because no pair has a reference beside its own captions; "
                "protocol.own_references=keep scores them with it"
            )
        return pairs.items[is_left]

    def select_pairs(self, caption_set: CaptionSet) -> pd.DataFrame:
        """Return the preferences of a dataset, of items as `select_items` names them."""
        preferences = caption_set.preferences
        if self.own_references != "leave_out_pair" or preferences.empty:
            return preferences
        return leave_out_of_pairs(caption_set.items, preferences).preferences

    def check_equal_weights(
        self, caption_set: CaptionSet, items: pd.DataFrame, metric: str
    ) -> None:
        """Check that every requested dimension gives the items of `select_items` the same weights.

        Raises:
            InputError: where they differ, so that a metric with corpus statistics would have other
                scores for each dimension.
        """
        # Weights are those of the first dimension.
        for dimension in self.dimension[1:]:
            weights = self._weights(caption_set, items, dimension)
            if not np.array_equal(weights, items["weight"]):
                raise InputError(
                    f"dataset {caption_set.name}: items have more or fewer ratings of "
                    f"{dimension} than of {self.dimension[0]}, and the corpus statistics of metric "
                    f"{metric} depend on them; run the dimensions one at a time, "
                    f"protocol.dimension={dimension}"
                )

    def _weights(
        self, caption_set: CaptionSet, items: pd.DataFrame, dimension: str | None
    ) -> np.ndarray:
        """Count the data points of each item; an item without any still counts once.

        Args:
            caption_set: the dataset.
            items: those that count.
            dimension: whose ratings are counted; None where preferences alone are used.
        """
        if dimension is None:
            # A pair that several raters judged is one data point of its captions.
            preferences = self.select_pairs(caption_set).drop_duplicates("pair_id")
            points = pd.concat([preferences["item_a"], preferences["item_b"]])
        elif self.ratings == "per_rating":
            ratings = self.change_ratings(caption_set).ratings
            points = ratings.loc[ratings["dimension"] == dimension, "item_id"]
        else:
            # Where ratings count, but not one by one, every item counts once.
            return np.ones(len(items), dtype=int)

        counts = points.value_counts().reindex(items["item_id"], fill_value=0)
        return np.maximum(counts.to_numpy(dtype=int), 1)

    def change_ratings(self, caption_set: CaptionSet) -> ChangedRatings:
        """Return a dataset's ratings as the choices among them have it, and how many each choice left out.

        Raises:
            LackingError: where a choice needs what the dataset does not say.
        """
        ratings = caption_set.ratings
        left_out: list[LeftOutRatings] = []
        for name, declared in CHOICES.items():
            if declared.change_ratings is None or ratings.empty:
                continue

            before = ratings
            ratings = declared.change_ratings(caption_set, before, getattr(self, name))
            # Choices keep the index of the rows that they keep, which tells the others.
            is_left_out = ~before.index.isin(ratings.index)
            if is_left_out.any():
                reason = declared.left_out or f"are left out by protocol.{name}"
                left_out.append(LeftOutRatings(reason, before[is_left_out], before))

        return ChangedRatings(ratings, tuple(left_out))

    def data_points_of(
        self, ratings: pd.DataFrame, items: pd.DataFrame, dimension: str
    ) -> pd.DataFrame:
        """Return the data points of a dimension, in the order of the items: each rating, or one value an item.

        Args:
            ratings: columns `RATING_COLUMNS`, as `change_ratings` returns them.
            items: those that count.
            dimension: of the ratings.

        Returns:
            columns `item_id, value`.
        """
        item_places = pd.Index(items["item_id"]).get_indexer(pd.Index(ratings["item_id"]))
        # Ratings of other items have the place -1.
        is_counted = (item_places >= 0) & (ratings["dimension"] == dimension).to_numpy()
        in_order_of_items = np.argsort(item_places[is_counted], kind="stable")
        counted = ratings[is_counted].iloc[in_order_of_items]
        if self.ratings == "per_rating":
            return counted[["item_id", "value"]].reset_index(drop=True)

        grouped = counted.groupby("item_id", sort=False)["value"]
        values = grouped.median() if self.ratings == "median" else grouped.mean()
        if self.ratings == "rounded_mean":
            # Halves go up: 2.5 is 3, as people round, not 2 as IEEE does.
            values = np.floor(values + 0.5)
        if self.rater_scale == "z":
            values[:] = merge_near(values.to_numpy(dtype=np.float64))

        return values.rename("value").reset_index()


#: The choices of a protocol by name.
CHOICES: dict[str, Choice] = {f.name: f.metadata["choice"] for f in dataclasses.fields(Protocol)}
Protocol.later_fields = tuple(name for name, declared in CHOICES.items() if declared.is_later)


def record_protocols(protocols: Mapping[str, Protocol]) -> dict[str, dict[str, Any]]:
    """Return the choices of each protocol, for run.json."""
    return {name: vars(protocol) for name, protocol in protocols.items()}


def sign(metric: Metric, protocols: Iterable[Protocol]) -> str:
    """Return a metric's signature, with the unusual choices of protocols that change the texts it scores."""
    changes = set[str]()
    for protocol in protocols:
        for name, declared in CHOICES.items():
            value = getattr(protocol, name)
            if declared.is_signed and value != declared.usual:
                changes.add(f"{name}:{value}")

    return "|".join([metric.signature, *sorted(changes)])


def _usual_of_dimension(
    dataset: str, usual: Mapping[str, Any], dimension: str
) -> Mapping[str, Any]:
    """Return what is usual for one dimension of a dataset besides; nothing for most.

    Raises:
        InputError: where a name is no choice of the protocol.
    """
    choices = (usual.get(BY_DIMENSION) or {}).get(dimension) or {}
    for name in choices:
        if name not in CHOICES:
            raise unknown(f"choice of dataset {dataset}, {BY_DIMENSION}.{dimension}", name, CHOICES)

    return choices


def _normal(value: Any) -> Any:
    """Return a value as it compares with others: one name as a tuple, and no names as None."""
    if value is None or value == ():
        return None
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(value)
    return value


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return str(value)
