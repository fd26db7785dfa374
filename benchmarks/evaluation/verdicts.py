"""Verdicts: the sentence above a table that says what it shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..runs.tables import coefficient_cell, format_coefficient, format_number
from ..statistics.coefficients.coefficient import find_coefficient
from .pair_tests import Finding, PairTests, Standing
from .wording import list_words, number_word, ordinal

#: The most names that `list_words` writes out.
_MOST_NAMED = 4


def metric_verdict(
    standings: Sequence[Standing],
    tests: PairTests,
    coefficient: str,
    dimension: str = "",
    person: float = math.nan,
    *,
    chance: float | None = None,
    head: str = "",
    has_differences: bool = False,
) -> str:
    """Say in one sentence where the user's own metrics stand, or else which metric agrees best with people.

    Args:
        standings: of the metrics with a value, the best first.
        tests: of every two of them, by this coefficient.
        coefficient: the name of the coefficient that they are sorted by.
        dimension: what tables call its dimension; empty where that goes without saying.
        person: what one person reaches against another; NaN where it is unknown.
        chance: the value of scores that say nothing; NaN where it is unknown, None where the coefficient alone says it.
        head: what the values are called, where they are no coefficient but a mean of several.
        has_differences: whether a table of differences stands below, with which the sentence must agree. Otherwise a
            difference is that of the rounded values, which the reader has.
    """
    if not standings:
        return "No metric has a coefficient."
    coefficient_object = find_coefficient(coefficient)
    joined = f" by the {head}" if head else ""
    difference = _difference_of_printed
    if has_differences:
        difference = _printed_difference
    head = head or f"{dimension} {coefficient_object.symbol.removesuffix(' %')}".strip()
    if chance is None:
        chance = math.nan if coefficient_object.chance is None else coefficient_object.chance
    own_standings = [standing for standing in standings if standing.is_own]
    # A metric alone is first of one, which says nothing; it is told by its value below.
    if own_standings and len(standings) > 1:
        sentences: list[str] = []
        for standing in own_standings:
            sentences.append(
                _own_verdict(
                    standing, standings, tests, coefficient, joined=joined, difference=difference
                )
            )
            sentences += _beyond_chance(standing, coefficient, head, chance)
        return " ".join(sentences)

    best = standings[0]
    number = f"{head} {format_coefficient(best.value, coefficient)}"
    if not best.is_beyond(chance):
        numbers = _chance_words(best, coefficient, head, chance)
        if best.is_below(chance):
            # The others' values are lower still, but their intervals may reach chance.
            subject = f"Even the best, {best.label}," if len(standings) > 1 else best.label
            return f"{subject} orders captions against people ({numbers})."
        return f"No metric agrees with people beyond chance; the best is {best.label} ({numbers})."
    sentence = f"{best.label} reaches {number}"
    if len(standings) > 1:
        sentence = f"{best.label} agrees best with people ({number})"
        sentence += lead_words(standings, tests)
    if not math.isnan(person):
        sentence += (
            f"; one person reaches {format_coefficient(person, coefficient)} against another"
        )
    return f"{sentence}."


def _beyond_chance(standing: Standing, coefficient: str, head: str, chance: float) -> list[str]:
    """Say of a metric that does not agree with people beyond chance that it does not; nothing of another."""
    if standing.is_beyond(chance):
        return []

    reading = "does not agree with people beyond chance"
    if standing.is_below(chance):
        reading = "orders captions against people"
    return [f"{standing.label} {reading} ({_chance_words(standing, coefficient, head, chance)})."]


def _chance_words(standing: Standing, coefficient: str, head: str, chance: float) -> str:
    """Give a value with its interval, and what chance reaches where that is not 0."""
    words = f"{head} {format_coefficient(standing.value, coefficient)}"
    if not (math.isnan(standing.low) or math.isnan(standing.high)):
        low, high = (format_coefficient(end, coefficient) for end in (standing.low, standing.high))
        words += f", interval {low} to {high}"
    if chance:
        words += f"; chance reaches {format_coefficient(chance, coefficient)}"
    return words


def _own_verdict(
    standing: Standing,
    standings: Sequence[Standing],
    tests: PairTests,
    coefficient: str,
    *,
    joined: str,
    difference: Callable[[float, float, str], str],
) -> str:
    """Say where one of the user's metrics stands.

    Args:
        joined: by what the metrics are sorted, where it is no coefficient, as in " by the mean".
        difference: prints how far one value is above another.
        standing, standings, tests, coefficient: as `metric_verdict` has them.
    """
    best, second = standings[:2]
    parts = [
        f"{standing.label} is {ordinal(standings.index(standing) + 1)} of {number_word(len(standings))}{joined}"
    ]
    if standing is best:
        ahead = difference(standing.value, second.value, coefficient)
        parts.append(f"{ahead} above {second.label}")
        return f"{', '.join(parts)}{lead_words(standings, tests)}."
    level: list[str] = []
    for rival in standings:
        if rival is not standing and tests.find(standing.key, rival.key) is Finding.LEVEL:
            level.append(rival.label)
    finding = tests.find(best.key, standing.key)
    below = f"{difference(best.value, standing.value, coefficient)} below {best.label}"
    if level == [best.label]:
        parts.append(f"{below}, which is not significant")
    else:
        parts += [f"level with {list_words(level)}", below] if level else [below]
    sentence = ", ".join(parts)
    # What was not tested is not equal.
    if finding is Finding.UNTESTED:
        return f"{sentence}; this difference was not tested."
    if finding is Finding.TOO_FEW:
        return f"{sentence}; {tests.too_few} to tell whether this difference is more than chance."
    return f"{sentence}."


def _difference_of_printed(high: float, low: float, coefficient: str) -> str:
    """Return the difference of two values as a reader of the table finds it, of the rounded ones."""
    rounded = (
        coefficient_cell(high, coefficient).printed - coefficient_cell(low, coefficient).printed
    )
    return format_number(rounded, 1, find_coefficient(coefficient).decimals)


def _printed_difference(high: float, low: float, coefficient: str) -> str:
    """Return the difference of two values as a table of differences prints it."""
    return format_coefficient(high - low, coefficient)


def lead_words(standings: Sequence[Standing], tests: PairTests) -> str:
    """Say of whom the first is significantly ahead, and of whom not, as the end of a sentence about it.

    Args:
        standings: two or more, the best first.
        tests: of every two of them.
    """
    best, *followers = standings
    ahead_of: list[str] = []
    not_ahead_of: list[str] = []
    unclear: list[str] = []
    untested: list[str] = []
    for follower in followers:
        finding = tests.find(best.key, follower.key)
        if finding is Finding.AHEAD:
            ahead_of.append(follower.label)
        elif finding in (Finding.LEVEL, Finding.BEHIND):
            not_ahead_of.append(follower.label)
        elif finding is Finding.TOO_FEW:
            unclear.append(follower.label)
        elif finding is Finding.UNTESTED:
            untested.append(follower.label)
    if len(untested) == len(followers):
        return "; its lead was not tested for significance"
    words = _ahead_words(ahead_of, not_ahead_of, len(followers))
    if unclear:
        words += f"; {tests.too_few} to tell whether its lead is more than chance"
    if untested:
        words += f"; it was not tested against {list_words(untested)}"
    return words


def _ahead_words(ahead_of: Sequence[str], not_ahead_of: Sequence[str], n_others: int) -> str:
    """Name those of whom one is significantly ahead, or count them where they are many, and those of whom it is not."""
    if not ahead_of and not not_ahead_of:
        return ""
    if not ahead_of:
        return f", but its lead over {list_words(not_ahead_of)} is not significant"
    names = list_words(ahead_of)
    if len(ahead_of) > _MOST_NAMED:
        names = f"{number_word(len(ahead_of))} of the {number_word(n_others)} others"
    if len(ahead_of) == n_others > _MOST_NAMED:
        names = f"all {number_word(n_others)} others"
    words = f", significantly ahead of {names}"
    if not_ahead_of:
        words += f", but not of {list_words(not_ahead_of)}"
    return words


def agreement_verdict(alphas: Mapping[str, float]) -> str:
    """Say how well raters agree, by the limits that Krippendorff (2004, p. 241) sets for α.

    Args:
        alphas: Krippendorff's ordinal α, by dimension or dataset; NaN where it is undefined.
    """
    defined: dict[str, float] = {}
    numbers: dict[str, str] = {}
    for name, alpha in alphas.items():
        if not math.isnan(alpha):
            defined[name] = alpha
            numbers[name] = f"α {format_number(alpha, 100, 1)}"
    if not defined:
        return "Krippendorff's α is undefined for these ratings."

    best = max(defined, key=defined.__getitem__)
    worst = min(defined, key=defined.__getitem__)
    if len(defined) == 1:
        grade = "too low for conclusions (below 66.7)"
        if defined[best] >= 0.8:
            grade = "reliable (80 or more)"
        elif defined[best] >= 0.667:
            grade = "enough for tentative conclusions (66.7 to 80)"
        return (
            f"The agreement of single ratings, {numbers[best]}, is {grade}, by Krippendorff's rule."
        )
    n_enough = sum(alpha >= 0.667 for alpha in defined.values())
    return (
        f"Raters agree best on {best} ({numbers[best]}) and least on {worst} ({numbers[worst]}); "
        f"{n_enough} of {len(defined)} reach 66.7, which Krippendorff asks for tentative conclusions."
    )


def order_verdict(shares: Mapping[str, float], n_systems: int = 3) -> str:
    """Say which metrics order systems most as people do.

    Args:
        shares: by the metrics' labels, the share of pairs of systems in people's order; NaN where it is undefined.
        n_systems: the number of systems; of two there is one pair, which a coin orders as people do half of the time.
    """
    labels_by_share: dict[float, list[str]] = {}
    for label, share in shares.items():
        if not math.isnan(share):
            labels_by_share.setdefault(share, []).append(label)
    if not labels_by_share:
        return "No metric's order of the systems can be compared with people's."

    highest_share = max(labels_by_share)
    closest = labels_by_share[highest_share]
    names, is_one = list_words(closest), len(closest) == 1
    if n_systems == 2 and highest_share == 1:
        return (
            f"{names} put{'s' * is_one} the same one of the two systems first as people do; one pair of systems says little of "
            "a metric."
        )
    if highest_share == 1:
        return f"{names} order{'s' * is_one} the systems as people do."
    verb, share = "comes" if is_one else "come", f"{100 * highest_share:.0f} %"
    if highest_share == 0:
        return "No metric puts any pair of systems in people's order."
    if highest_share <= 0.5:
        return f"No metric puts more than half of the pairs of systems in people's order; {names} {verb} closest, with {share}."
    return f"{names} {verb} closest to people's order, with {share} of the pairs of systems in the same order."
