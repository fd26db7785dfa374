"""People's mean ratings of systems, differences and win rates from few ratings: rows, tables and what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ...runs.frames import make_frame
from ...runs.tables import (
    ResultTable,
    Row,
    TableNote,
    format_number,
    number_cell,
    number_cells,
    p_value_cell,
)
from ...statistics.intervals import correct_p_values
from ...statistics.prediction_powered import Estimate, PoweredMean, estimate_mean
from .few_ratings import (
    LEAST_RATED,
    PlacedRatings,
    RatedChoice,
    ScoredSystems,
    make_sample,
    pair_samples,
)

ESTIMATE_COLUMNS = (
    "system",
    "quantity",
    "method",
    "value",
    "ci_low",
    "ci_high",
    "n_rated",
    "n_captions",
    "effective_n",
    "note",
)
GAIN_COLUMNS = ("system", "quantity", "metric", "effective_n", "n_rated", "n_captions")
MEAN = "mean rating"
SHARE = "share of yes"
DIFFERENCE = "difference"
WIN_RATE = "win rate"
#: The columns of the ratings alone, which a narrow terminal leaves out first; see `ResultTable.spare`.
_COLUMNS_OF_RATINGS_ALONE = (3, 4, 5)
#: Of whom the intervals speak, by population.
POPULATION_WORDS = {
    "captions": "these captions, rated by these raters",
    "images": "images like these, rated by these raters",
    "raters": "images and raters like these",
}


@dataclass(frozen=True)
class EstimateChoices:
    """The choices of a run.

    Attributes:
        population: of whom intervals speak.
        level: of the intervals.
        correction: of the p-values of several differences.
        seed: of the folds.
    """

    population: str
    level: float
    correction: str
    seed: int


@dataclass(frozen=True)
class Quantity:
    """An estimated quantity.

    Attributes:
        systems: the system, or the two.
        name: `MEAN`, `SHARE`, `DIFFERENCE` or `WIN_RATE`.
        mean: its estimates.
        by_metric: the number of ratings that those with one metric's help are worth, by its spec.
        is_share: whether it is a share, or a difference of two, which tables print in per cent.
    """

    systems: tuple[str, ...]
    name: str
    mean: PoweredMean
    by_metric: Mapping[str, float]
    is_share: bool

    @property
    def label(self) -> str:
        """The system, or the two with the word between them."""
        between = " over " if self.name == WIN_RATE else " − "
        return between.join(self.systems)

    @property
    def scale(self) -> tuple[float, int]:
        """The factor and the decimals of printed values."""
        return (100, 1) if self.is_share else (1, 2)

    @property
    def neutral(self) -> float:
        """The value at which neither of two systems is better."""
        return 0.5 if self.name == WIN_RATE else 0.0


def estimate_systems(
    placed: PlacedRatings,
    systems: ScoredSystems,
    image_choice: RatedChoice,
    choices: EstimateChoices,
    *,
    is_compared: bool,
    is_binary: bool,
) -> list[Quantity]:
    """Estimate each system's mean rating and the differences, or the win rate of every two that were compared.

    Raises:
        InputError: where a system, or two, have too few ratings, or raters are too few to speak of others.
    """
    _check_raters(placed, choices.population)
    if is_compared:
        rates: list[Quantity] = []
        # Each two systems that were compared, in the order in which they first were.
        for names in dict.fromkeys(placed.system):
            _check_enough(placed, names)
            rates.append(_quantity(placed, systems, image_choice, choices, names, WIN_RATE))
        return rates

    name = SHARE if is_binary else MEAN
    means: list[Quantity] = []
    for system in systems.names:
        _check_enough(placed, (system,))
        means.append(_quantity(placed, systems, image_choice, choices, (system,), name))

    # The best first, so that a difference is of the better system less the worse one.
    means.sort(key=lambda q: -q.mean.powered.value)
    differences: list[Quantity] = []
    for a, b in combinations(means, 2):
        differences.append(_difference(placed, systems, image_choice, choices, a, b))
    return [*means, *differences]


def _check_raters(placed: PlacedRatings, population: str) -> None:
    if population == "raters" and len(np.unique(placed.rater)) < 3:
        raise InputError(
            "population=raters needs a column rater with three raters or more; population=images speaks of the given ones"
        )


def _check_enough(placed: PlacedRatings, names: tuple[str, ...]) -> None:
    """Raise InputError where a system, or two, have too few ratings."""
    n_rated = len(np.unique(placed.image[placed.of_systems(*names)]))
    if n_rated >= LEAST_RATED:
        return

    subject = f"captions of '{names[0]}'"
    if len(names) > 1:
        subject = f"pairs of {' and '.join(names)}"
    raise InputError(
        f"{n_rated} {subject} are rated, and intervals are known to hold from {LEAST_RATED} on; "
        "captau estimate plan=true chooses more"
    )


def _quantity(
    placed: PlacedRatings,
    systems: ScoredSystems,
    image_choice: RatedChoice,
    choices: EstimateChoices,
    names: tuple[str, ...],
    quantity: str,
) -> Quantity:
    sample = make_sample(placed, systems, image_choice, names)
    # With one metric's help alone: what each is worth.
    by_metric: dict[str, float] = {}
    for metric in systems.metrics:
        alone = make_sample(placed, systems, image_choice, names, [metric])
        by_metric[metric] = estimate_mean(alone, choices.seed).effective_n
    mean = estimate_mean(sample, choices.seed)
    return Quantity(names, quantity, mean, by_metric, is_share=quantity in (SHARE, WIN_RATE))


def _difference(
    placed: PlacedRatings,
    systems: ScoredSystems,
    image_choice: RatedChoice,
    choices: EstimateChoices,
    a: Quantity,
    b: Quantity,
) -> Quantity:
    """Return the difference of two systems: of the same rated images by image, else of both means."""
    names = (a.systems[0], b.systems[0])
    paired = None
    # By image, raters cannot be told apart any more.
    if choices.population != "raters":
        paired = pair_samples(placed, systems, image_choice, names)
    if paired is None:
        return Quantity(names, DIFFERENCE, a.mean.subtract(b.mean), {}, is_share=a.is_share)

    mean = estimate_mean(paired, choices.seed)
    return Quantity(names, DIFFERENCE, mean, {}, is_share=a.is_share)


def estimate_rows(
    quantities: Sequence[Quantity], choices: EstimateChoices, notes: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of `estimates.csv`, two a quantity."""
    rows: list[dict[str, Any]] = []
    for quantity in quantities:
        for method in ("classical", "powered"):
            estimate: Estimate = getattr(quantity.mean, method)
            low, high = _interval(estimate, quantity, choices)
            row = {
                "system": quantity.label,
                "quantity": quantity.name,
                "method": method,
                "value": estimate.value,
                "ci_low": low,
                "ci_high": high,
                "n_rated": estimate.n_rated,
                "n_captions": estimate.n_captions,
                "effective_n": estimate.n_rated
                if method == "classical"
                else quantity.mean.effective_n,
                "note": "; ".join(notes) if method == "powered" else "",
            }
            rows.append(row)
    return make_frame(rows, ESTIMATE_COLUMNS)


def gain_rows(quantities: Sequence[Quantity]) -> pd.DataFrame:
    """Return the rows of `gains.csv`: what the ratings are worth with one metric's help."""
    rows: list[dict[str, Any]] = []
    for quantity in quantities:
        for metric, effective_n in quantity.by_metric.items():
            row = {
                "system": quantity.label,
                "quantity": quantity.name,
                "metric": metric,
                "effective_n": effective_n,
                "n_rated": quantity.mean.classical.n_rated,
                "n_captions": quantity.mean.classical.n_captions,
            }
            rows.append(row)
    return make_frame(rows, GAIN_COLUMNS)


def _interval(
    estimate: Estimate, quantity: Quantity, choices: EstimateChoices
) -> tuple[float, float]:
    """Return the interval; of shares it ends at 0 and 1."""
    low, high = estimate.interval(choices.level, choices.population)
    # Student's t knows no bounds, and a share has some.
    if quantity.name in (SHARE, WIN_RATE):
        return max(0.0, low), min(1.0, high)

    return low, high


def estimate_tables(
    quantities: Sequence[Quantity],
    choices: EstimateChoices,
    labels: Mapping[str, str],
    notes: Sequence[str],
) -> list[ResultTable]:
    """Return a table of means or win rates, one of differences, and one of each metric's worth."""
    means = [q for q in quantities if q.name != DIFFERENCE]
    differences = [q for q in quantities if q.name == DIFFERENCE]
    ranks = _ranks(means, differences, choices)
    tables = [_mean_table(means, ranks, choices, notes, differences)]
    if differences:
        tables.append(_difference_table(differences, choices))
    if len(labels) > 1:
        tables.append(_gain_table(means, labels))
    return tables


def _mean_table(
    means: Sequence[Quantity],
    ranks: Mapping[str, int],
    choices: EstimateChoices,
    notes: Sequence[str],
    differences: Sequence[Quantity],
) -> ResultTable:
    name = means[0].name
    scale, decimals = means[0].scale
    columns = [name, "low", "high", "ratings alone", "their low", "their high"]
    columns += ["rated", "count as"]
    if ranks:
        columns.append("rank")

    rows: list[Row] = []
    for quantity in means:
        cells: list[Any] = []
        for estimate in (quantity.mean.powered, quantity.mean.classical):
            low, high = _interval(estimate, quantity, choices)
            cells += number_cells((estimate.value, low, high), scale, decimals)
        cells.append(number_cell(estimate.n_rated, 1, 0))
        cells.append(number_cell(quantity.mean.effective_n, 1, 0))
        if ranks:
            cells.append(number_cell(ranks[quantity.systems[0]], 1, 0))
        rows.append(Row(quantity.label, cells))

    level = f"{100 * choices.level:g} %"
    lines: list[str] = [
        TableNote(
            f"low, high: {level} intervals with the metrics' help, for {POPULATION_WORDS[choices.population]}; ratings alone: the "
            "same without metrics. count as: the number of ratings that would give as narrow an interval without metrics.",
            brief=f"low, high: {level} intervals for {POPULATION_WORDS[choices.population]}; count as: as many ratings "
            "without metrics give as narrow an interval.",
        ),
    ]
    if ranks:
        better = "rank: one more than the number of systems that are significantly better"
        words = f"{better} (Student's t, corrected by {choices.correction})."
        lines.append(TableNote(words, ("rank",), brief=f"{better}."))
    n_captions = means[0].mean.classical.n_captions
    percent = " ×100" if scale == 100 else ""
    return ResultTable(
        f"People's judgement of {n_captions:,} captions a system from few ratings: {name}{percent}",
        "system",
        columns,
        rows,
        notes=[*lines, *notes],
        verdict=_verdict(means, differences, choices),
        spare=(_COLUMNS_OF_RATINGS_ALONE,),
    )


def _verdict(
    means: Sequence[Quantity], differences: Sequence[Quantity], choices: EstimateChoices
) -> str:
    """Say what the ratings show: of two systems which is better, of one how good it is."""
    comparisons = differences or [q for q in means if q.name == WIN_RATE]
    first = comparisons[0] if comparisons else means[0]
    n_rated = first.mean.classical.n_rated
    n_rated_of_system = means[0].mean.classical.n_rated
    worth = f"{n_rated:,} ratings count as {first.mean.effective_n:,.0f}."
    # A difference of systems with other rated images has the ratings of both; what one system's count as says more.
    if first.name == DIFFERENCE and n_rated != n_rated_of_system:
        worth = f"{n_rated_of_system:,} ratings of {means[0].label} count as {means[0].mean.effective_n:,.0f}."

    powered = first.mean.powered
    low, high = _interval(powered, first, choices)
    scale, decimals = first.scale
    value = format_number(powered.value, scale, decimals)
    low_text = format_number(low, scale, decimals)
    high_text = format_number(high, scale, decimals)
    if not comparisons:
        unit = " %" if scale == 100 else ""
        return f"People's {first.name} of {first.label} is {value}{unit} ({low_text} to {high_text}); {worth}"
    if len(comparisons) > 1:
        n_decided = sum(_is_decided(q, choices) for q in comparisons)
        return f"Of {len(comparisons)} pairs of systems, the intervals of {n_decided} show which is better; {worth}"

    a, b = first.systems
    if not _is_decided(first, choices):
        return (
            f"Which of {a} and {b} is better these ratings do not tell: the {first.name} is {value} "
            f"({low_text} to {high_text}); {worth}"
        )
    # The sentence names the better one first.
    if powered.value < first.neutral:
        a, b = b, a
    return f"People rate {a} better than {b}: the {first.name} is {value} ({low_text} to {high_text}); {worth}"


def _is_decided(quantity: Quantity, choices: EstimateChoices) -> bool:
    low, high = _interval(quantity.mean.powered, quantity, choices)
    return low > quantity.neutral or high < quantity.neutral


def _corrected(differences: Sequence[Quantity], choices: EstimateChoices) -> list[float]:
    """Return the differences' p-values, corrected for their number."""
    p_values = [q.mean.powered.p_value(choices.population) for q in differences]
    return [float(p) for p in correct_p_values(p_values, choices.correction)]


def _ranks(
    means: Sequence[Quantity], differences: Sequence[Quantity], choices: EstimateChoices
) -> dict[str, int]:
    """Return each system's rank: one more than the systems that are significantly better."""
    ranks = {q.systems[0]: 1 for q in means} if differences else {}
    for quantity, p_value in zip(differences, _corrected(differences, choices), strict=True):
        if p_value > 1 - choices.level:
            continue
        is_first_better = quantity.mean.powered.value > 0
        worse = quantity.systems[1] if is_first_better else quantity.systems[0]
        ranks[worse] += 1
    return ranks


def _difference_table(differences: Sequence[Quantity], choices: EstimateChoices) -> ResultTable:
    rows: list[Row] = []
    for quantity, p_value in zip(differences, _corrected(differences, choices), strict=True):
        powered = quantity.mean.powered
        low, high = _interval(powered, quantity, choices)
        cells = number_cells((powered.value, low, high), *quantity.scale)
        low, high = _interval(quantity.mean.classical, quantity, choices)
        cells += number_cells((quantity.mean.classical.value, low, high), *quantity.scale)
        cells += [p_value_cell(p_value), number_cell(quantity.mean.effective_n, 1, 0)]
        rows.append(Row(quantity.label, cells))

    columns = ["difference", "low", "high", "ratings alone", "their low", "their high", "p"]
    notes = [
        "Systems whose same images were rated are compared image by image; p is corrected by "
        f"{choices.correction}, intervals are not."
    ]
    return ResultTable(
        "Differences of shares of yes ×100"
        if differences[0].is_share
        else "Differences of mean ratings",
        "systems",
        [*columns, "count as"],
        rows,
        notes=notes,
        spare=(_COLUMNS_OF_RATINGS_ALONE,),
    )


def _gain_table(means: Sequence[Quantity], labels: Mapping[str, str]) -> ResultTable:
    rows: list[Row] = []
    for metric, label in labels.items():
        counts = [quantity.by_metric[metric] for quantity in means]
        rows.append(Row(label, number_cells(counts, 1, 0), spec=metric))
    counts_of_all = [quantity.mean.effective_n for quantity in means]
    rows.append(Row("all", number_cells(counts_of_all, 1, 0)))
    return ResultTable(
        "What the ratings count as with the help of one metric, and of all",
        "metric",
        [q.label for q in means],
        rows,
        notes=[
            "The estimates use all; to choose the best one here would make intervals too narrow."
        ],
        is_detail=True,
    )
