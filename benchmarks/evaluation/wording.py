"""Protocols, intervals, corrections and ranks in words, for tables, reports and citations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from ...datasets.schema import CaptionSet
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient

if TYPE_CHECKING:
    from .evaluation_set import EvaluationSet

#: Names of the bootstrap intervals.
INTERVAL_LABELS = {"percentile": "percentile", "bca": "BCa"}
#: Names of the corrections of p-values for the number of comparisons.
CORRECTION_LABELS = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}
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
    "ceiling_one_vs_rest": "ceiling: one human against the rest, τ_c",
    "ceiling_oracle": "ceiling: oracle (mean rating), τ_c",
}


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty."""
    return "; ".join(note for note in notes if note)


def synthetic_note(subject: str) -> str:
    """Return the warning that belongs to every number of synthetic data.

    Args:
        subject: whom the numbers might be taken to describe, in the plural.
    """
    return (
        f"SYNTHETIC data: it only shows that captau works, and says nothing about real {subject}."
    )


def missing_splits_note(caption_set: CaptionSet, protocol: Protocol) -> str:
    """Say which splits are not in a number of the whole dataset, since their files are not there."""
    splits = caption_set.missing_splits if protocol.split is None else ()
    return (
        f"{caption_set.name}: without {' and '.join(splits)}, which the data folder does not have."
        if splits
        else ""
    )


def interval_words(statistics: StatisticsOptions) -> str:
    """Describe an interval: its level, kind and replicates."""
    method = "Fisher's formula, data points taken as independent"
    if statistics.uses_resampling:
        kind = INTERVAL_LABELS[statistics.interval]
        method = f"{kind} bootstrap over images, {statistics.replicates:,} replicates"
    return f"{100 * statistics.level:g} % interval ({method})"


def rank_words(statistics: StatisticsOptions) -> str:
    """Describe ranks: the test, its level and its correction."""
    return (
        "metrics that share a rank do not differ significantly (paired bootstrap over images, "
        f"level {100 * (1 - statistics.level):g} %, {CORRECTION_LABELS[statistics.correction]})"
    )


def level_notes(correlations: pd.DataFrame, labels: Mapping[str, str], level: str) -> list[str]:
    """Return the notes of defined coefficients on groups, systems and thresholds, and of chance, each once.

    Args:
        correlations: rows of `correlations.csv`.
        labels: the metrics' names in tables.
        level: of the coefficients.
    """
    metrics_by_note: dict[tuple[str, str, str], list[str]] = {}
    for row in correlations[correlations["value"].notna()].to_dict("records"):
        coefficient = find_coefficient(row["coefficient"])
        is_noted = coefficient.has_standing_note or level != "pooled"
        if is_noted and not coefficient.is_of_preferences and row["note"]:
            key = (row["dimension"], row["coefficient"], row["note"])
            metrics_by_note.setdefault(key, []).append(labels[row["metric"]])
    n_metrics = correlations["metric"].nunique()
    coefficients_by_note: dict[tuple[str, str], list[str]] = {}
    for (dimension, coefficient, note), metrics in metrics_by_note.items():
        prefix = "" if len(metrics) == n_metrics else f"{', '.join(metrics)}, "
        coefficients_by_note.setdefault((prefix, note), []).append(f"{dimension} {coefficient}")
    return [
        f"{prefix}{', '.join(coefficients)}: {note}."
        for (prefix, note), coefficients in coefficients_by_note.items()
    ]


def copies_note(selection: EvaluationSet) -> str:
    """Say how many captions are one of their image's references, and how people rate them; empty without any.

    The note says what became of them, and which option treats them otherwise.
    """
    copies = selection.copies
    if not copies.n_copies:
        return ""
    details = "".join(f"; {text}" for text in _judgements_of_copies(selection))
    counted = f"{copies.count()} ({copies.n_exact:,} letter by letter{details})"
    return {
        "keep": f"{counted}: protocol.own_references=drop leaves them out, leave_out scores "
        "them without that reference",
        "drop": f"{counted}, and left out: protocol.own_references=keep counts them",
        "leave_out": f"{counted}, and scored without it"
        + (f", but for {n:,} left out that have no other" if (n := copies.is_single.sum()) else "")
        + ": protocol.own_references=keep scores them with it",
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
        if True in means.index:
            rest = f", of the others {means[False]:.2f}" if False in means.index else ""
            yield f"mean {dimension} {means[True]:.2f}{rest}"
    pairs = selection.caption_set.preferences
    sides = pairs[["item_a", "item_b"]].isin(is_copy.index[is_copy])
    decided = sides[(sides["item_a"] != sides["item_b"]) & (pairs["winner"] != "tie")]
    if selection.uses_preferences and len(decided):
        winners = pairs.loc[decided.index, "winner"]
        n_preferred = int((decided["item_a"] == (winners == "a")).sum())
        yield f"preferred in {n_preferred:,} of {len(decided):,} pairs with a caption that is none"
