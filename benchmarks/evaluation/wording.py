"""Protocols, intervals, corrections and ranks in words, for tables, reports and citations; `verdicts` has what tables show."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...datasets.schema import CaptionSet
from ..runs.tables import TableNote, join_titles
from ..scoring.protocol import CHOICES, Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient
from ..statistics.preferences import MEAN_DIMENSION

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

    if not sources:
        return f"revision {shorten_revision(data['revision'])}"

    revisions = {source["revision"] for source in sources}
    if len(revisions) == 1 and "" not in revisions:
        return f"revision {shorten_revision(sources[0]['revision'])}"

    files: list[str] = []
    for source in sources:
        # Twelve digits, as of commits: enough for a reader to compare two files by.
        version = f"SHA-256 {source['sha256'][:12]}"
        if source["revision"]:
            version = f"revision {shorten_revision(source['revision'])}"
        files.append(f"{show_path(source['path'])}, {version}")
    return "; ".join(files)


def distinct_notes(rows: pd.DataFrame) -> list[str]:
    """Return each note of a table's rows once, as a sentence."""
    notes = filter(None, dict.fromkeys(rows["note"]))
    return [f"{note}." for note in notes]


def notes_by_subject(notes: Iterable[tuple[str, str, str]]) -> list[TableNote]:
    """Return each note of a subject once, as a sentence: `SUBJECT: NOTE.`

    Where some parts of the subject have the note and others lack it, they are named: `SUBJECT (PART, PART): NOTE.`

    Args:
        notes: the subject, a part of it, and its note, which may be empty.
    """
    parts_of: dict[str, set[str]] = {}
    parts_with: dict[tuple[str, str], list[str]] = {}
    for subject, part, note in notes:
        parts_of.setdefault(subject, set()).add(part)
        if note:
            noted_parts = parts_with.setdefault((subject, note), [])
            if part not in noted_parts:
                noted_parts.append(part)

    sentences: list[TableNote] = []
    for (subject, note), parts in parts_with.items():
        head = subject
        # A note that holds for all parts names none of them.
        if len(parts) < len(parts_of[subject]):
            head = f"{subject} ({', '.join(parts)})"
        sentences.append(TableNote(f"{head}: {note}.", (subject,)))
    return sentences


def references_words(protocol: Protocol) -> str:
    """Say how references are used where it is not all at once, which most readers take for granted; else nothing."""
    if protocol.references == CHOICES["references"].usual:
        return ""
    return protocol.describe_choice("references")


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
    # A protocol of one split lacks no other.
    if protocol.split is None and caption_set.missing_splits:
        splits = " and ".join(caption_set.missing_splits)
        notes.append(f"{caption_set.name}: without {splits}, which the data folder does not have.")

    for left_out in protocol.change_ratings(caption_set).left_out:
        if words := left_out.describe(protocol.dimension):
            notes.append(f"{caption_set.name}: {words}.")
    return notes


def half_width_note(statistics: StatisticsOptions, file: str, remark: str = "") -> TableNote:
    """Return the note on the column `±`, with the method in files and details alone.

    Args:
        statistics: of the intervals.
        file: which has both ends; empty where none is named.
        remark: what else there is to say of the method, from its comma on.
    """
    ends = f"; both ends in {file}" if file else ""
    how = "bootstrap over images" if statistics.uses_resampling else "by a formula"
    return TableNote(
        f"±: half the width of the {interval_words(statistics)}{remark}{ends}.",
        ("±",),
        brief=f"±: half the width of the {100 * statistics.level:g} % interval ({how}).",
    )


def rank_note(statistics: StatisticsOptions, coefficients: Sequence[str] = ()) -> TableNote:
    """Return the note on the column of ranks, with the test in files and details alone; the arguments are `rank_words`'."""
    brief_words = brief_rank_words(statistics, coefficients)
    return TableNote(
        f"rank: {rank_words(statistics, coefficients)}.",
        ("rank",),
        brief=f"{brief_words[:1].upper()}{brief_words[1:]}.",
    )


def brief_rank_words(statistics: StatisticsOptions, coefficients: Iterable[str] = ()) -> str:
    """Describe ranks in a clause, with the kind of test and its level alone; the arguments are `rank_words`'."""
    level = f"{100 * (1 - statistics.level):g} %"
    tests = {find_coefficient(name).tests[0] for name in coefficients}
    test = "permutation test" if tests == {"permutation"} else "paired bootstrap"
    return f"metrics that share a rank do not differ significantly ({test}, {level})"


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
    joined = join_titles(titles)
    # A coefficient whose value of chance is 0 is on the mean's scale already.
    chances = [find_coefficient(name).chance for name in coefficients]
    if all(chance in (None, 0) for chance in chances):
        return f"over {joined}"

    scale = "an accuracy a counts as 2a − 1"
    return f"over {joined} ({scale})" if ";" in joined else f"over {joined}; {scale}"


def left_out_words(titles: Sequence[str]) -> str:
    """Say which datasets a mean leaves out although some metrics have numbers there, as the end of a sentence; empty for none."""
    if not titles:
        return ""
    verb = "is" if len(titles) == 1 else "are"
    return f"; {list_words(titles, len(titles))} {verb} left out, since not all metrics have a number there"


def level_notes(
    correlations: pd.DataFrame, labels: Mapping[str, str], protocol: Protocol
) -> list[str]:
    """Return the notes of coefficients that have a value, each once.

    That is: how many groups or systems a coefficient is of, the threshold of calibrated ties, and the value of chance.

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

    # In three steps: metrics with one note, then coefficients with one note, then notes of the same metrics.
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


def undefined_notes(
    correlations: pd.DataFrame, labels: Mapping[str, str], metrics: Collection[str]
) -> list[TableNote]:
    """Say which coefficients are undefined and why, in one sentence for each reason that metrics share.

    Args:
        correlations: rows of `correlations.csv`.
        labels: the names in tables, of what people reach as well.
        metrics: those that are named only where they do not all share the reason.
    """
    undefined = correlations[correlations["value"].isna()]
    specs_by_cell: dict[tuple[str, str, str], list[str]] = {}
    for row in undefined.to_dict("records"):
        cell = (row["dimension"], row["coefficient"], row["note"])
        specs_by_cell.setdefault(cell, []).append(row["metric"])

    # Coefficients by dimension, for each reason of the same metrics.
    cells_by_reason: dict[tuple[tuple[str, ...], str], dict[str, list[str]]] = {}
    for (dimension, coefficient, note), specs in specs_by_cell.items():
        names = () if set(metrics) <= set(specs) else tuple(labels[spec] for spec in specs)
        cells = cells_by_reason.setdefault((names, note), {})
        cells.setdefault(dimension, []).append(coefficient)

    n_coefficients = correlations.groupby("dimension")["coefficient"].nunique()
    notes: list[TableNote] = []
    for (names, note), cells in cells_by_reason.items():
        parts: list[str] = []
        for dimension, coefficients in cells.items():
            # A dimension is named alone where all its coefficients are undefined.
            symbols = [find_coefficient(name).symbol for name in coefficients]
            is_whole = len(coefficients) == n_coefficients[dimension]
            parts.append(dimension if is_whole else f"{dimension} {', '.join(symbols)}")
        subject = ", ".join(names or ["All metrics"])
        # What holds for every coefficient of the table names none.
        if sum(map(len, cells.values())) < n_coefficients.sum():
            subject += f" ({'; '.join(parts)})"
        notes.append(TableNote(f"{subject}: {note}.", names))
    return notes


def copies_note(selection: EvaluationSet) -> str:
    """Say how many captions are one of their image's references, and how people rate them; empty without any.

    The note says what became of them, and which option treats them otherwise.
    """
    copies = selection.copies
    if not copies.n_copies:
        return ""

    counted = copies.count()
    details = "; ".join(_judgements_of_copies(selection))
    if details:
        counted += f" ({details})"

    # Captions, or pairs of them, that have no reference left.
    n_single = copies.is_single.sum()
    except_captions = f", but for {n_single:,} left out that have no other" if n_single else ""
    n_pairs = selection.n_pairs_without_references
    pair_words = "pair is left out that has" if n_pairs == 1 else "pairs are left out that have"
    except_pairs = f"; {n_pairs:,} {pair_words} no other" if n_pairs else ""

    keeping = "protocol.own_references=keep scores them with it"
    leaving_out = "leave_out scores them without that reference"
    if not selection.protocol.dimension:
        leaving_out = "leave_out_pair scores both captions of their pairs without that reference"

    sentences = {
        "keep": f"{counted}: protocol.own_references=drop leaves them out, {leaving_out}.",
        "drop": f"{counted}, and are left out: protocol.own_references=keep counts them.",
        "leave_out": f"{counted}, and are scored without it{except_captions}: {keeping}.",
        "leave_out_image": f"{counted}, and all captions of these images are scored without it{except_captions}: {keeping}.",
        "leave_out_pair": f"{counted}, and both captions of their pairs are scored without it{except_pairs}: {keeping}.",
    }
    return sentences[selection.protocol.own_references]


def _judgements_of_copies(selection: EvaluationSet) -> Iterator[str]:
    """Yield the mean rating of copies beside that of the other captions, and how often they are preferred."""
    is_copy = pd.Series(
        selection.copies.is_copy, index=pd.Index(selection.candidate_rows["item_id"])
    )
    ratings = selection.caption_set.ratings
    ratings = ratings[ratings["item_id"].isin(is_copy.index)]
    for dimension in selection.protocol.dimension:
        rated = ratings[ratings["dimension"] == dimension]
        is_of_copy = is_copy.loc[rated["item_id"]].to_numpy()
        means = rated["value"].groupby(is_of_copy).mean()
        # Perhaps no copy was rated in this dimension, or no other caption.
        if True in means.index:
            rest = f", of the others {means[False]:.2f}" if False in means.index else ""
            yield f"mean {dimension} {means[True]:.2f}{rest}"

    pairs = selection.caption_set.preferences
    copy_ids = is_copy.index[is_copy]
    is_copy_a = pairs["item_a"].isin(copy_ids)
    is_copy_b = pairs["item_b"].isin(copy_ids)
    is_decided = (is_copy_a != is_copy_b) & (pairs["winner"] != "tie")
    n_decided = int(is_decided.sum())
    if selection.uses_preferences and n_decided:
        wins_a = is_copy_a & (pairs["winner"] == "a")
        wins_b = is_copy_b & (pairs["winner"] == "b")
        n_preferred = int((is_decided & (wins_a | wins_b)).sum())
        yield f"preferred in {n_preferred:,} of {n_decided:,} pairs with a caption that repeats none"


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
    if rank % 100 in (11, 12, 13):
        ending = "th"
    return f"{rank}{ending}"
