"""Protocols, intervals, corrections, ranks and verdicts in words, for tables, reports and citations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...datasets.schema import CaptionSet
from ..runs.tables import TableNote, coefficient_cell, format_coefficient, format_number
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.preferences import MEAN_DIMENSION
from .pair_tests import Finding, PairTests, Standing

if TYPE_CHECKING:
    from .evaluation_set import EvaluationSet

#: Names of the bootstrap intervals.
INTERVAL_LABELS = {"expanded": "expanded percentile", "percentile": "percentile", "bca": "BCa"}
#: Names of the corrections of p-values for the number of comparisons.
CORRECTION_LABELS = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}
#: What each test of the difference of two metrics does, and asks.
TEST_WORDS = {
    "bootstrap": "the bootstrap draws the images anew and asks whether the lead would hold on other images",
    "permutation": "the permutation test swaps the two metrics' scores at random and asks whether equally good metrics would "
    "differ as much",
    "williams": "Williams' test takes the data points as independent",
    "mcnemar": "McNemar's test takes the pairs of captions as independent",
}
#: Names of the measures of `captau agree`, as tables and reports print them.
MEASURE_LABELS = {
    "tau_X-YZ": "virtual rater X against Y and Z, τ_c",
    "tau_Y-XZ": "virtual rater Y against X and Z, τ_c",
    "tau_Z-XY": "virtual rater Z against X and Y, τ_c",
    "kendall_w": "Kendall's W",
    "fleiss_kappa": "Fleiss' κ",
    "fleiss_kappa_4=5": "Fleiss' κ, the two highest of five levels as one",
    "krippendorff_alpha_nominal": "Krippendorff's α, nominal",
    "krippendorff_alpha_ordinal": "Krippendorff's α, ordinal",
    "krippendorff_alpha_interval": "Krippendorff's α, interval",
    "cohen_kappa": "Cohen's κ",
    "cohen_kappa_linear": "Cohen's κ, linear weights",
    "cohen_kappa_quadratic": "Cohen's κ, quadratic weights",
    "icc1": "ICC(1), one rating",
    "icc1k": "ICC(1,k), mean of ratings",
    "percent_agreement": "equal ratings",
    "leave_one_rater_out_tau_c": "one rater left out, τ_c",
    "leave_one_rater_out_spearman": "one rater left out, ρ",
    "leave_one_rater_out_pearson": "one rater left out, r",
    "split_half": "split-half reliability",
    "stability_pearson": "means of two halves of the raters, r",
    "stability_mean": "difference of the halves' means, mean",
    "stability_std": "difference of the halves' means, standard deviation",
    "stability_within_0.25": "difference of the halves' means, share within 0.25",
    "ceiling_one_vs_one": "one person against another, τ_c",
    "ceiling_one_vs_rest": "best virtual rater, τ_c",
    "ceiling_oracle": "oracle (mean rating), τ_c",
}
#: What is said where nothing can be said of agreement.
NO_AGREEMENT = "Agreement needs items with two ratings; there are none."
#: What is said below the distributions of ratings where they are all that a run has.
DISTRIBUTIONS_ONLY = (
    "Each item has at most one rating, so that agreement between raters is undefined (agreement.csv); "
    "the tables, distributions.csv and the figure rating_distribution hold how the ratings are distributed."
)


def shorten_revision(revision: str) -> str:
    """Return a revision with the first twelve digits of each commit in it."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{4,}\b", r"\1", revision)


def revision_words(
    data: Mapping[str, Any], split: str | None, show_path: Callable[[str], str] = str
) -> str:
    """Name the revision of the files that a run read of a dataset.

    A file is named by its SHA-256 where its revision is not known, or where it is not what the revision has.

    Args:
        data: what `run.json` says of the dataset.
        split: the split that was used; files of other splits are not named. None where all were.
        show_path: how a file's path is written.
    """
    sources: list[Mapping[str, Any]] = []
    for source in data.get("sources", ()):
        # A file without a split holds every split.
        if split is None or source["split"] in ("", split):
            sources.append(source)

    revisions = {source["revision"] for source in sources}
    if not sources:
        return f"revision {shorten_revision(data['revision'])}"
    if len(revisions) == 1 and "" not in revisions:
        return f"revision {shorten_revision(sources[0]['revision'])}"
    files: list[str] = []
    for source in sources:
        # Twelve digits, as of commits: enough for a reader to compare two files by.
        of_file = f"SHA-256 {source['sha256'][:12]}"
        if source["revision"]:
            of_file = f"revision {shorten_revision(source['revision'])}"
        files.append(f"{show_path(source['path'])}, {of_file}")
    return "; ".join(files)


def distinct_notes(rows: pd.DataFrame) -> list[str]:
    """Return each note of a table's rows once, as a sentence."""
    notes = filter(None, dict.fromkeys(rows["note"]))
    return [f"{note}." for note in notes]


def notes_by_subject(notes: Iterable[tuple[str, str, str]]) -> list[TableNote]:
    """Return each note once, as a sentence behind its subject, and behind the parts that have it where others lack it.

    Args:
        notes: the subject, a part of it, and its note, which may be empty.
    """
    parts_of: dict[str, set[str]] = {}
    parts_with: dict[tuple[str, str], dict[str, None]] = {}
    for subject, part, note in notes:
        parts_of.setdefault(subject, set()).add(part)
        if note:
            parts_with.setdefault((subject, note), {})[part] = None

    sentences: list[TableNote] = []
    for (subject, note), parts in parts_with.items():
        head = subject
        # A note that holds for all parts names none of them.
        if len(parts) < len(parts_of[subject]):
            head = f"{subject} ({', '.join(parts)})"
        sentences.append(TableNote(f"{head}: {note}.", (subject,)))
    return sentences


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty."""
    return "; ".join(filter(None, notes))


def synthetic_note(subject: str) -> str:
    """Return the warning that belongs to every number of synthetic data.

    Args:
        subject: whom the numbers might be taken to describe, in the plural.
    """
    return (
        f"SYNTHETIC data: it only shows that captau works, and says nothing about real {subject}."
    )


def dataset_notes(caption_set: CaptionSet, protocol: Protocol) -> list[str]:
    """Say what a number of the whole dataset lacks, and what its reader made of unusual files.

    That is: splits whose files are not there, ratings that a choice of the protocol leaves out, and the remarks of the card.
    """
    notes = [f"{caption_set.name}: {remark}" for remark in caption_set.card.remarks]
    if splits := caption_set.missing_splits if protocol.split is None else ():
        notes.append(
            f"{caption_set.name}: without {' and '.join(splits)}, which the data folder does not have."
        )
    for left_out in protocol.change_ratings(caption_set).left_out:
        if words := left_out.describe(protocol.dimension):
            notes.append(f"{caption_set.name}: {words}.")
    return notes


def interval_words(statistics: StatisticsOptions) -> str:
    """Describe an interval: its level, kind and replicates."""
    method = "Fisher's formula, data points taken as independent"
    if statistics.uses_resampling:
        kind = INTERVAL_LABELS[statistics.interval]
        method = f"{kind} bootstrap over images, {statistics.replicates:,} replicates"
    return f"{100 * statistics.level:g} % interval ({method})"


def rank_words(statistics: StatisticsOptions, coefficients: Iterable[str] = ()) -> str:
    """Describe ranks: the test, its level and its correction.

    Args:
        statistics: how the ranks were made.
        coefficients: the names of those ranked; without them the test is the bootstrap.
    """
    names_by_test: dict[str, list[str]] = {}
    # Ranks rest on each coefficient's first test.
    for name in dict.fromkeys(coefficients):
        names_by_test.setdefault(find_coefficient(name).tests[0], []).append(name)

    tests: list[str] = []
    if "bootstrap" in names_by_test or not names_by_test:
        tests.append("paired bootstrap over images")
    for test, names in names_by_test.items():
        if test != "bootstrap":
            tests.append(f"permutation test of {', '.join(names)}")

    return (
        f"metrics that share a rank do not differ significantly ({', '.join(tests)}, "
        f"level {100 * (1 - statistics.level):g} %, {CORRECTION_LABELS[statistics.correction]})"
    )


def system_level_note(n_systems: int) -> str:
    """Say that tests of systems' scores draw images, and keep the systems."""
    return f"The tests draw or swap images of these {n_systems} systems; ranks and intervals say nothing of other systems."


def mean_words(titles: Sequence[str], coefficients: Iterable[str]) -> str:
    """Describe a mean over datasets.

    Args:
        titles: of the datasets.
        coefficients: the names of those that are in the mean.
    """
    # A chance of 0 is on the scale already.
    is_rescaled = any(find_coefficient(name).chance for name in coefficients)
    return f"over {', '.join(titles)}" + "; an accuracy a counts as 2a − 1" * is_rescaled


def level_notes(
    correlations: pd.DataFrame, labels: Mapping[str, str], protocol: Protocol
) -> list[str]:
    """Return the notes of defined coefficients on groups, systems and thresholds, and of chance, each once.

    Args:
        correlations: rows of `correlations.csv`.
        labels: the metrics' names in tables.
        protocol: of the coefficients.
    """
    metrics_by_note: dict[tuple[str, str, str], list[str]] = {}
    for row in correlations[correlations["value"].notna()].to_dict("records"):
        coefficient = find_coefficient(row["coefficient"])
        is_noted = coefficient.has_standing_note or protocol.level != "pooled"
        if coefficient.is_of_preferences:
            is_noted = protocol.ties == "calibrated" and row["dimension"] != MEAN_DIMENSION
        if is_noted and row["note"]:
            key = (row["dimension"], row["coefficient"], row["note"])
            metrics_by_note.setdefault(key, []).append(labels[row["metric"]])
    # In three steps: metrics with one note, then coefficients with one note, then notes of one head.
    n_metrics = correlations["metric"].nunique()
    coefficients_by_note: dict[tuple[str, str], list[str]] = {}
    for (dimension, coefficient, note), metrics in metrics_by_note.items():
        prefix = "" if len(metrics) == n_metrics else f"{', '.join(metrics)}, "
        coefficients_by_note.setdefault((prefix, note), []).append(f"{dimension} {coefficient}")
    notes_by_prefix: dict[str, list[str]] = {}
    for (prefix, note), coefficients in coefficients_by_note.items():
        notes_by_prefix.setdefault(prefix, []).append(f"{', '.join(coefficients)}: {note}")

    # What holds for all metrics comes first, a sentence each.
    sentences = [f"{note}." for note in notes_by_prefix.pop("", [])]
    for prefix, notes in notes_by_prefix.items():
        sentences.append(f"{prefix}{'; '.join(notes)}.")
    return sentences


def copies_note(selection: EvaluationSet) -> str:
    """Say how many captions are one of their image's references, and how people rate them; empty without any.

    The note says what became of them, and which option treats them otherwise.
    """
    copies = selection.copies
    if not copies.n_copies:
        return ""
    details = "; ".join(_judgements_of_copies(selection))
    counted = copies.count() + (f" ({details})" if details else "")
    n_single = copies.is_single.sum()
    but_for = f", but for {n_single:,} left out that have no other" if n_single else ""
    n_pairs = selection.n_pairs_without_references
    words = "pair is left out that has" if n_pairs == 1 else "pairs are left out that have"
    but_for_pairs = f"; {n_pairs:,} {words} no other" if n_pairs else ""
    with_it = f"{but_for}: protocol.own_references=keep scores them with it"
    otherwise = "leave_out scores them without that reference"
    if not selection.protocol.dimension:
        otherwise = "leave_out_pair scores both captions of their pairs without that reference"
    return {
        "keep": f"{counted}: protocol.own_references=drop leaves them out, {otherwise}",
        "drop": f"{counted}, and are left out: protocol.own_references=keep counts them",
        "leave_out": f"{counted}, and are scored without it{with_it}",
        "leave_out_image": f"{counted}, and all captions of these images are scored without it{with_it}",
        "leave_out_pair": f"{counted}, and both captions of their pairs are scored without it{but_for_pairs}: "
        "protocol.own_references=keep scores them with it",
    }[selection.protocol.own_references] + "."


def _judgements_of_copies(selection: EvaluationSet) -> Iterator[str]:
    """Yield the mean rating of copies beside that of the other captions, and how often they are preferred."""
    is_copy = pd.Series(
        selection.copies.is_copy, index=pd.Index(selection.candidate_rows["item_id"])
    )
    ratings = selection.caption_set.ratings
    ratings = ratings[ratings["item_id"].isin(is_copy.index)]
    for dimension in selection.protocol.dimension:
        rated = ratings[ratings["dimension"] == dimension]
        means = rated["value"].groupby(is_copy.loc[rated["item_id"]].to_numpy()).mean()
        # No copy may have a rating of this dimension.
        if True in means.index:
            rest = f", of the others {means[False]:.2f}" if False in means.index else ""
            yield f"mean {dimension} {means[True]:.2f}{rest}"
    pairs = selection.caption_set.preferences
    sides = pairs[["item_a", "item_b"]].isin(is_copy.index[is_copy])
    decided = sides[(sides["item_a"] != sides["item_b"]) & (pairs["winner"] != "tie")]
    if selection.uses_preferences and len(decided):
        winners = pairs.loc[decided.index, "winner"]
        n_preferred = int((decided["item_a"] == (winners == "a")).sum())
        yield f"preferred in {n_preferred:,} of {len(decided):,} pairs with a caption that repeats none"


def metric_verdict(
    standings: Sequence[Standing],
    tests: PairTests,
    coefficient: str,
    dimension: str = "",
    person: float = math.nan,
    *,
    chance: float | None = None,
    head: str = "",
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
    """
    if not standings:
        return "No metric has a coefficient."
    coefficient_object = find_coefficient(coefficient)
    head = head or f"{dimension} {coefficient_object.symbol.removesuffix(' %')}".strip()
    if chance is None:
        chance = math.nan if coefficient_object.chance is None else coefficient_object.chance
    own_standings = [standing for standing in standings if standing.is_own]
    # A metric alone is first of one, which says nothing; it is told by its value below.
    if own_standings and len(standings) > 1:
        sentences: list[str] = []
        for standing in own_standings:
            sentences.append(_own_verdict(standing, standings, tests, coefficient))
            if not standing.is_beyond(chance):
                numbers = _chance_words(standing, coefficient, head, chance)
                sentences.append(
                    f"{standing.label} does not agree with people beyond chance ({numbers})."
                )
        return " ".join(sentences)

    best = standings[0]
    number = f"{head} {format_coefficient(best.value, coefficient)}"
    if not best.is_beyond(chance):
        numbers = _chance_words(best, coefficient, head, chance)
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
    standing: Standing, standings: Sequence[Standing], tests: PairTests, coefficient: str
) -> str:
    best, second = standings[:2]
    parts = [
        f"{standing.label} is {ordinal(standings.index(standing) + 1)} of {number_word(len(standings))}"
    ]
    if standing is best:
        ahead = _printed_difference(standing.value, second.value, coefficient)
        parts.append(f"{ahead} above {second.label}")
        return f"{', '.join(parts)}{lead_words(standings, tests)}."
    level: list[str] = []
    for rival in standings:
        if rival is not standing and tests.find(standing.key, rival.key) is Finding.LEVEL:
            level.append(rival.label)
    finding = tests.find(best.key, standing.key)
    below = f"{_printed_difference(best.value, standing.value, coefficient)} below {best.label}"
    if level == [best.label]:
        parts.append(f"{below}, and level with it")
    else:
        parts += [f"level with {list_words(level)}", below] if level else [below]
    sentence = ", ".join(parts)
    # What was not tested is not equal.
    if finding is Finding.UNTESTED:
        return f"{sentence}; this difference was not tested."
    if finding is Finding.TOO_FEW:
        return f"{sentence}; {tests.too_few} to tell whether this difference is more than chance."
    return f"{sentence}."


def _printed_difference(high: float, low: float, coefficient: str) -> str:
    """Return the difference of two values as a reader of the table finds it, of the rounded ones."""
    difference = (
        coefficient_cell(high, coefficient).printed - coefficient_cell(low, coefficient).printed
    )
    return format_number(difference, 1, find_coefficient(coefficient).decimals)


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


def order_verdict(shares: Mapping[str, float]) -> str:
    """Say which metrics order systems most as people do.

    Args:
        shares: by the metrics' labels, the share of pairs of systems in people's order; NaN where it is undefined.
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
    if highest_share == 1:
        return f"{names} order{'s' * is_one} the systems as people do."
    verb, share = "comes" if is_one else "come", f"{100 * highest_share:.0f} %"
    if highest_share == 0:
        return "No metric puts any pair of systems in people's order."
    if highest_share <= 0.5:
        return f"No metric puts more than half of the pairs of systems in people's order; {names} {verb} closest, with {share}."
    return f"{names} {verb} closest to people's order, with {share} of the pairs of systems in the same order."


#: The most names that `list_words` writes out.
_MOST_NAMED = 4


def list_words(words: Sequence[str], n_shown: int = 3) -> str:
    """Join words with commas and an `and`; of many the first few, and how many others there are."""
    if len(words) > n_shown + 1:
        words = [*words[:n_shown], f"{len(words) - n_shown} others"]
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


_NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)


def number_word(number: int) -> str:
    """Write a number up to twelve as a word."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def ordinal(rank: int) -> str:
    """Write a place from 1, up to twelve as a word."""
    if rank <= len(_ORDINALS):
        return _ORDINALS[rank - 1]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{'th' if rank % 100 in (11, 12, 13) else ending}"
