"""Systems ranked by people's preferences with length, or other features of captions, held equal.

People and judges may like longer captions; a system that writes them then ranks higher for that alone. `control=length` adds
a ranking in which the difference of the captions' lengths has a term of its own (`statistics.controlled_strengths`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...runs.frames import make_frame
from ...runs.tables import ResultTable, Row, count_cell, format_number, number_cell, number_cells
from ...statistics.bootstrap import StatisticsOptions
from ...statistics.controlled_strengths import ControlledStrengths, fit_controlled
from ...statistics.intervals import correct_p_values, rank_clusters
from ...statistics.weighted_pairs import Floats
from .system_battles import Battles
from .system_ranking import SYSTEM_COLUMNS

CONTROL_COLUMNS = ("dataset", "dimension", "feature", "effect", "ci_low", "ci_high", "note")
#: The least comparisons for each system and feature, and the least images.
LEAST_COMPARISONS = 10
LEAST_IMAGES = 10


#: The share of comparisons with the greater feature on the same system's side from which on equal features extrapolate.
LITTLE_OVERLAP = 0.9


@dataclass(frozen=True)
class Feature:
    """A number that is told from a caption's text.

    Attributes:
        measure: of a caption.
        step: the difference of which effects are told.
        words: what a caption with so much more is, after "A caption".
    """

    measure: Callable[[str], float]
    step: float
    words: str


def count_sentences(caption: str) -> int:
    """Count the parts of a caption that end in a full stop, an exclamation mark or a question mark, at least one."""
    parts = re.split(r"[.!?]+(?:\s|$)", caption)
    sentences = [part for part in parts if part.strip()]
    return max(1, len(sentences))


def _count_words(caption: str) -> float:
    return float(len(caption.split()))


FEATURES: Mapping[str, Feature] = {
    "length": Feature(_count_words, 10.0, "10 words longer"),
    "characters": Feature(lambda caption: float(len(caption)), 50.0, "50 characters longer"),
    "sentences": Feature(
        lambda caption: float(count_sentences(caption)), 1.0, "one sentence longer"
    ),
    "words_per_sentence": Feature(
        lambda caption: _count_words(caption) / count_sentences(caption),
        5.0,
        "with sentences 5 words longer",
    ),
    "commas": Feature(lambda caption: float(caption.count(",")), 1.0, "with one comma more"),
}


@dataclass(frozen=True)
class HeldFeature:
    """A feature of the captions of a dataset.

    Attributes:
        values: by item id; not finite where there is none.
        step, words: as of a `Feature`.
    """

    values: Mapping[str, float]
    step: float
    words: str


def hold_features(
    names: Sequence[str], captions: Mapping[str, str], scores: Mapping[str, pd.Series]
) -> dict[str, HeldFeature]:
    """Return features by name: those of `FEATURES`, and metrics' scores, of which effects are told by standard deviations.

    Args:
        names: of `FEATURES`, or metrics.
        captions: by item id.
        scores: by metric and item id.
    """
    held_features: dict[str, HeldFeature] = {}
    for name in names:
        if name in FEATURES:
            feature = FEATURES[name]
            values = {item: feature.measure(caption) for item, caption in captions.items()}
            held_features[name] = HeldFeature(values, feature.step, feature.words)
            continue

        # A metric's scores have a unit of their own, so that their spread is the step.
        by_item = scores[name].astype(np.float64)
        step = float(np.std(by_item[np.isfinite(by_item)]))
        words = f"whose {name} is greater by {step:.3g} (one standard deviation)"
        held_features[name] = HeldFeature(dict(by_item.items()), step, words)  # pyright: ignore[reportArgumentType]
    return held_features


def held_equal(dimension: str, names: Sequence[str]) -> str:
    """Return what the dimension is called in tables when features are held equal."""
    return f"{dimension} ({', '.join(names)} held equal)"


@dataclass(frozen=True)
class ControlledRanking:
    """Systems of a dimension with features held equal.

    Attributes:
        systems: columns `SYSTEM_COLUMNS`, the best system first.
        controls: columns `CONTROL_COLUMNS`, a row a feature.
        table: both, as they are printed.
    """

    systems: pd.DataFrame
    controls: pd.DataFrame
    table: ResultTable


def rank_controlled(
    dataset: str,
    battles: Battles,
    features: Mapping[str, HeldFeature],
    statistics: StatisticsOptions,
    plain: pd.DataFrame,
) -> ControlledRanking:
    """Rank systems with features held equal.

    Args:
        dataset: its name.
        battles: the comparisons of a dimension.
        features: by name, as `hold_features` returns them.
        statistics: the level of intervals and the correction of p-values; intervals are sandwiches, by image.
        plain: the rows of `systems.csv` of the same dimension, which the table shows beside.
    """
    fit = None
    names = list(features)
    differences = np.column_stack([_differences(battles, f) for f in features.values()])
    reason = _find_gap(battles, names)
    undefined: list[str] = []
    constant: list[str] = []
    for name, differences_of_feature in zip(names, differences.T, strict=True):
        if not np.isfinite(differences_of_feature).all():
            undefined.append(name)
        if not differences_of_feature.any():
            constant.append(name)
    if undefined and not reason:
        reason = f"compared captions have no finite {undefined[0]}"
    elif constant and not reason:
        reason = f"compared captions do not differ in {constant[0]}"
    if not reason:
        fit = fit_controlled(
            battles.first, battles.second, battles.signs, differences, battles.image
        )
        if fit is None:
            reason = "strengths or effects have no bound: comparisons do not tell them apart"

    systems = _system_rows(
        dataset, battles, fit, held_equal(battles.dimension, names), statistics, reason
    )
    controls = _control_rows(dataset, battles, fit, features, statistics, reason)
    table = _table(dataset, battles, systems, controls, plain, statistics, features)
    for name, differences_of_feature in zip(names, differences.T, strict=True):
        if not reason:
            table = table.with_note(_describe_overlap(battles, name, differences_of_feature))
    return ControlledRanking(systems, controls, table)


def _find_gap(battles: Battles, names: Sequence[str]) -> str:
    """Say why there is too little data; empty where there is enough."""
    n_images = len(np.unique(battles.image))
    if n_images < LEAST_IMAGES:
        return f"{n_images} images are compared, and holding features equal needs {LEAST_IMAGES} or more"

    n_needed = LEAST_COMPARISONS * (len(battles.systems) + len(names))
    if len(battles.signs) < n_needed:
        return (
            f"{len(battles.signs):,} comparisons of {len(battles.systems)} systems, and holding {', '.join(names)} equal needs "
            f"{n_needed:,} or more"
        )
    return ""


def _describe_overlap(battles: Battles, name: str, differences: Floats) -> str:
    """Say how often the same one of two systems has the greater feature, as equal features are extrapolated where it always has.

    Args:
        battles: the comparisons.
        name: of the feature.
        differences: of the feature, the first caption's less the second's, shape (n_battles,).
    """
    is_turned = battles.first > battles.second
    signs = np.sign(np.where(is_turned, -differences, differences))
    pairs = np.minimum(battles.first, battles.second) * len(battles.systems)
    pairs = pairs + np.maximum(battles.first, battles.second)

    n_same = 0
    for pair in np.unique(pairs):
        of_pair = signs[pairs == pair]
        n_same += max(int((of_pair > 0).sum()), int((of_pair < 0).sum()))

    share = n_same / len(signs)
    words = f"{name}: in {100 * share:.0f} % of the comparisons it is greater for the same one of the two systems"
    if share >= LITTLE_OVERLAP:
        return f"{words}, so that captions of equal {name} are hardly seen, and strengths at equal {name} extrapolate."
    return f"{words}."


def _differences(battles: Battles, feature: HeldFeature) -> Floats:
    """Return a feature of each comparison's first caption less that of its second."""
    first = np.array([feature.values[item] for item in battles.first_items], dtype=np.float64)
    second = np.array([feature.values[item] for item in battles.second_items], dtype=np.float64)
    return first - second


def _system_rows(
    dataset: str,
    battles: Battles,
    fit: ControlledStrengths | None,
    dimension: str,
    statistics: StatisticsOptions,
    reason: str,
) -> pd.DataFrame:
    n_systems = len(battles.systems)
    values = np.full(n_systems, np.nan)
    intervals = np.full((n_systems, 2), np.nan)
    ranks: dict[str, int] = {}
    if fit is not None:
        values = fit.strengths
        intervals = fit.strength_intervals(statistics.level)
        ranks = _ranks(battles, fit, statistics)

    rows: list[dict[str, Any]] = []
    # NaN sorts last, so that without a fit the systems keep their order.
    for i in np.argsort(-values, kind="stable"):
        row = {
            "dataset": dataset,
            "dimension": dimension,
            "system": battles.systems[i],
            "value": values[i],
            "ci_low": intervals[i, 0],
            "ci_high": intervals[i, 1],
            "rank": ranks.get(battles.systems[i]),
            "n_items": int(battles.n_items[i]),
            "n_judgements": int(battles.n_judgements[i]),
            "note": reason,
        }
        rows.append(row)
    return make_frame(rows, SYSTEM_COLUMNS).astype({"rank": "Int64"})


def _ranks(
    battles: Battles, fit: ControlledStrengths, statistics: StatisticsOptions
) -> dict[str, int]:
    """Return the systems' ranks; systems that share one do not differ significantly."""
    pairs = list(combinations(range(len(battles.systems)), 2))
    uncorrected = [fit.difference_p_value(a, b) for a, b in pairs]
    p_values = correct_p_values(uncorrected, statistics.correction)
    by_pair: dict[frozenset[str], float] = {}
    for (a, b), p_value in zip(pairs, p_values, strict=True):
        # Whichever of the two stands first, it is one pair.
        by_pair[frozenset((battles.systems[a], battles.systems[b]))] = float(p_value)

    values = dict(zip(battles.systems, fit.strengths.tolist(), strict=True))
    return rank_clusters(values, by_pair, 1 - statistics.level)


def _control_rows(
    dataset: str,
    battles: Battles,
    fit: ControlledStrengths | None,
    features: Mapping[str, HeldFeature],
    statistics: StatisticsOptions,
    reason: str,
) -> pd.DataFrame:
    rows: list[tuple[object, ...]] = []
    for number, (name, feature) in enumerate(features.items()):
        # Without a fit the row says why, and has no number.
        share = (np.nan, np.nan, np.nan)
        note = reason
        if fit is not None:
            share = fit.win_share(number, feature.step, statistics.level)
            note = f"the share that a caption {feature.words} wins, all else equal"
        rows.append((dataset, battles.dimension, name, *share, note))
    return make_frame(rows, CONTROL_COLUMNS)


def _table(
    dataset: str,
    battles: Battles,
    systems: pd.DataFrame,
    controls: pd.DataFrame,
    plain: pd.DataFrame,
    statistics: StatisticsOptions,
    features: Mapping[str, HeldFeature],
) -> ResultTable:
    """Return the table of strengths with features held equal, beside the plain ones."""
    plain_by_system = plain.set_index("system")
    rows: list[Row] = []
    for row in systems.to_dict("records"):
        cells = number_cells((row["value"], row["ci_low"], row["ci_high"]), 1, 3)
        rank = row["rank"]
        plain_row = plain_by_system.loc[row["system"]]
        plain_rank = plain_row["rank"]
        cells_of_row: list[Any] = [
            *cells,
            count_cell(None if pd.isna(rank) else int(rank)),
            number_cell(float(plain_row["value"]), 1, 3),
            count_cell(None if pd.isna(plain_rank) else int(plain_rank)),
        ]
        rows.append(Row(str(row["system"]), cells_of_row))

    level = f"{100 * statistics.level:g} %"
    notes = [
        f"low, high: {level} intervals (sandwich, by image); plain: without the features. A feature that people's judgement "
        "rests on, such as the details that a longer caption has, is taken out as well."
    ]
    reason = str(systems["note"].iloc[0])
    # One reason holds for all systems: the first row's says it.
    verdict = f"{reason[:1].upper()}{reason[1:]}." if reason else effect_words(controls, features)
    title = f"{dataset}, {held_equal(battles.dimension, list(features))}: strengths of {len(rows)} systems"
    columns = ["strength", "low", "high", "rank", "plain strength", "plain rank"]
    return ResultTable(title, "system", columns, rows, notes=notes, verdict=verdict)


def effect_words(controls: pd.DataFrame, features: Mapping[str, HeldFeature]) -> str:
    """Say how often a caption wins whose feature is greater, all else equal."""
    sentences: list[str] = []
    for row in controls.to_dict("records"):
        value = format_number(row["effect"], 100, 0)
        low = format_number(row["ci_low"], 100, 0)
        high = format_number(row["ci_high"], 100, 0)
        words = features[str(row["feature"])].words
        sentence = f"A caption {words} wins {value} % of the time, all else equal ({low} to {high})"
        # A half is what a feature without any effect has.
        if row["ci_low"] <= 0.5 <= row["ci_high"]:
            sentence += ", which is not beyond chance"
        sentences.append(f"{sentence}.")
    return " ".join(sentences)
