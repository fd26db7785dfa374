"""The tables of `captau score`: corpus scores beside each metric's reliability, and systems' differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ....datasets.caption_texts import find_own_references
from ....metrics.base import Metric
from ...evaluation.caption_scores import CaptionScores
from ...evaluation.pair_tests import PairTests, Standing
from ...evaluation.reliability import reliability_notes
from ...evaluation.trusted_metric import describe_trusted_metric
from ...evaluation.verdicts import lead_words
from ...evaluation.wording import CORRECTION_LABELS, half_width_note, list_words
from ...runs.finished_run import FinishedRun
from ...runs.frames import groups_of, records_of
from ...runs.tables import (
    MISSING,
    AnyCell,
    Cell,
    ResultTable,
    Row,
    TableNote,
    count_of,
    format_coefficient,
    format_number,
    number_cell,
)
from ...scoring.catalog import MetricStyle, metric_style
from ...scoring.corpus_scores import SystemScores
from ...scoring.unavailable_metrics import UnavailableMetrics, add_unavailable_rows
from ...statistics.bootstrap import StatisticsOptions
from ...statistics.coefficients.coefficient import find_coefficient
from ...statistics.intervals import p_value_column, rank_clusters

#: The mark of a significant difference.
STAR = "*"

#: Metrics with their names in tables, in the field's order.
StyledMetrics = Sequence[tuple[str, MetricStyle]]

#: The images of COCO's Karpathy test split, over which captioning papers count CIDEr's IDF: half of them already raise
#: CIDEr by 1.4 % (scripts/checks/measure_cider_idf.py, which the numbers in the note are from as well).
IMAGES_OF_PUBLISHED_CIDER = 5000


@dataclass(frozen=True)
class ScoreChoices:
    """The choices of a run of `captau score` that its tables show.

    Attributes:
        statistics: of intervals and tests.
        normalise: the rule for texts.
        trust: the source of each metric's agreement with people; None leaves the agreement out.
        keep: the metric and the threshold from which on captions are kept; None keeps none.
    """

    statistics: StatisticsOptions
    normalise: str
    trust: str | None
    keep: tuple[str, float] | None


def make_score_tables(
    choices: ScoreChoices,
    metrics: Sequence[Metric],
    missing: UnavailableMetrics,
    scores: CaptionScores,
    n_images: Mapping[str, int],
    file_notes: Sequence[str],
    trusted_run: FinishedRun | None = None,
) -> list[ResultTable]:
    """Make all tables of a run.

    Args:
        choices: those of the run.
        metrics: those that were computed.
        missing: those that could not be.
        scores: of the captions.
        n_images: the number of images of each set of references.
        file_notes: what there is to say of the files, for the lines below the first table.
        trusted_run: the run that `trust=` names; None where it names none.
    """
    styled_metrics = [(metric.spec, metric_style(metric)) for metric in metrics]
    styled_metrics.sort(key=lambda styled: styled[1].order)
    table = _score_table(choices, styled_metrics, scores, n_images)
    # What may be wrong with the numbers stands before what explains them.
    table = replace(table, notes=[*table.notes[:1], *file_notes, *table.notes[1:]])

    remarks: dict[str, list[str]] = {}
    for scored in scores.systems:
        for spec, texts in scored.remarks.items():
            remarks[spec] = list(dict.fromkeys([*remarks.get(spec, []), *texts]))

    # Without a metric there is nothing to order systems by.
    verdicts = _verdicts(choices, styled_metrics, scores) if metrics else []
    if trusted_run is not None:
        labels = {spec: style.label for spec, style in styled_metrics}
        verdicts.append(describe_trusted_metric(trusted_run, scores.reliability, labels))
    table = replace(table, verdict=" ".join(filter(None, verdicts)))
    tables = [add_unavailable_rows(table, metrics, remarks, missing)]
    if scores.differences is not None:
        for name, rows in groups_of(scores.differences, "references"):
            title = "Differences" + (f", references {name}" if len(n_images) > 1 else "")
            tables.append(_difference_table(title, styled_metrics, rows, choices))
    return tables


def _verdicts(choices: ScoreChoices, metrics: StyledMetrics, scores: CaptionScores) -> list[str]:
    """Say of each set of references which system is best."""
    verdicts: list[str] = []
    for name, rows in groups_of(scores.corpus_rows, "references"):
        standings: dict[str, list[Standing]] = {}
        tests: dict[str, PairTests] = {}
        for spec, style in metrics:
            is_high = style.higher_is_better
            corpus_rows = rows[rows["metric"] == spec]
            differences = _differences_of(scores.differences, name, spec)
            standings[spec] = rank_by_score(
                corpus_rows, differences, choices.statistics, higher_is_better=is_high
            )
            tests[spec] = find_score_tests(
                differences, choices.statistics, higher_is_better=is_high
            )

        verdict = score_verdict(rows, standings, tests, dict(metrics))
        verdicts.append(f"{name}: {verdict}" if scores.has_several_references else verdict)
    return verdicts


def _differences_of(
    differences: pd.DataFrame | None, references: str, metric: str
) -> pd.DataFrame | None:
    """Return the rows of a metric with one set of references; None without tests."""
    if differences is None:
        return None

    is_of_references = differences["references"] == references
    return differences[is_of_references & (differences["metric"] == metric)]


def _score_table(
    choices: ScoreChoices,
    metrics: StyledMetrics,
    scores: CaptionScores,
    n_images: Mapping[str, int],
) -> ResultTable:
    """Return the table of corpus scores: a row a metric, a column a system and set of references."""
    has_intervals = choices.statistics.uses_resampling
    columns: list[str] = []
    for scored in scores.systems:
        columns.append(_head(scored, scores) or "score")
        if has_intervals:
            columns.append("±")
    if choices.trust is not None:
        columns.append("agreement with people")

    rows: list[Row] = []
    for spec, style in metrics:
        cells: list[AnyCell] = []
        for scored in scores.systems:
            cells.append(number_cell(scored.corpus[spec], style.scale, style.decimals))
            if has_intervals:
                cells.append(_half_width(scored, spec, style))
        if choices.trust is not None:
            cells.append(scores.reliability.cell(spec))
        rows.append(Row(style.label, cells))

    notes = list(list_notes(choices, metrics, scores, n_images))
    spare = (tuple(index for index, column in enumerate(columns) if column == "±"),)
    return ResultTable("Corpus scores", "metric", columns, rows, notes=notes, spare=spare)


def _head(scored: SystemScores, scores: CaptionScores) -> str:
    """Return what tells a column of scores from the others; empty where there is one."""
    parts = [scored.system] if scores.has_several_systems else []
    parts += [scored.references] if scores.has_several_references else []
    return ", ".join(parts)


def _half_width(scored: SystemScores, spec: str, style: MetricStyle) -> AnyCell:
    """Return the cell of half the width of a score's interval."""
    interval = scored.intervals.get(spec)
    if interval is None:
        return MISSING
    return number_cell((interval.high - interval.low) / 2, style.scale, style.decimals)


def scale_note(styles: Sequence[MetricStyle]) -> str:
    """Say by what a table's scores are multiplied."""
    unscaled: list[str] = []
    for style in styles:
        if style.scale != 100:
            unscaled.append(style.label)
    if len(unscaled) == len(styles):
        return "Scores as computed"
    if not unscaled:
        return "Scores ×100"
    return f"Scores ×100, but for {', '.join(unscaled)}: as computed"


def list_notes(
    choices: ScoreChoices,
    metrics: StyledMetrics,
    scores: CaptionScores,
    n_images: Mapping[str, int],
) -> Iterator[str]:
    """Yield the notes below the table of corpus scores."""
    counts = {scored.references: len(scored.items) for scored in scores.systems}
    fewest = min(counts.values())
    has_own_idf = False
    for spec, _ in metrics:
        has_own_idf = has_own_idf or (spec.startswith("cider") and "df=" not in spec)
    has_high_idf = has_own_idf and fewest < IMAGES_OF_PUBLISHED_CIDER

    scored_words = (
        f"{_captions_note(counts, scores)}. {scale_note([style for _, style in metrics])}."
    )
    images = count_of(fewest, "image")
    brief_warning = f" Compare CIDEr on these {images} alone." if has_high_idf else ""
    yield TableNote(scored_words, brief=f"{scored_words}{brief_warning}")

    if choices.normalise != "none":
        yield f"Captions and references are normalised by the rule {choices.normalise}."
    for name, total in n_images.items():
        if counts[name] < total:
            yield f"partial: {counts[name]:,} of the {total:,} images of {name}."

    if counts_of_copies := _count_copies(scores):
        yield (
            f"{'; '.join(counts_of_copies)}. These captions are scored against themselves, and too high: remove them from "
            "the references."
        )

    if has_high_idf:
        yield TableNote.detail(
            f"CIDEr's IDF is counted over the references of {images} alone, and the fewer they are, "
            "the higher is CIDEr (by 15 % on 50 of COCO's 5,000 test images, by 7 % on 400): compare it with CIDEr of the "
            "same images alone. cider(df=FILE) counts it over another set's references (docs/own_captions.md)."
        )

    for note in dict.fromkeys(style.note for _, style in metrics if style.note):
        yield TableNote.detail(note)
    for scored in scores.systems:
        head = _head(scored, scores)
        for spec, style in metrics:
            if reason := scored.undefined_note(spec):
                of_system = f" ({head})" if head else ""
                yield TableNote(f"{style.label}{of_system}: {reason}.", (style.label,))

    yield from _interval_notes(choices, scores)

    if choices.trust is not None:
        labels = {spec: style.label for spec, style in metrics}
        yield from reliability_notes(choices.trust, scores.reliability, labels)
    if scores.kept_captions is not None and choices.keep is not None:
        metric, threshold = choices.keep
        yield f"Kept {len(scores.kept_captions):,} of {fewest:,}: {metric} of {threshold!r} or more."


def _count_copies(scores: CaptionScores) -> list[str]:
    """Say of each system how many of its captions are among their references, if any is."""
    counts_of_copies: list[str] = []
    for scored in scores.systems:
        own_references = find_own_references(scored.items)
        if own_references.n_copies:
            head = _head(scored, scores)
            count = own_references.count()
            counts_of_copies.append(f"{head}: {count}" if head else count)
    return counts_of_copies


def _captions_note(counts: Mapping[str, int], scores: CaptionScores) -> str:
    """Say how many captions were scored with each set of references, without a full stop."""
    if len(set(counts.values())) > 1:
        parts = [f"{n:,} with {name}" for name, n in counts.items()]
        return f"Captions: {', '.join(parts)}"

    per_system = " of each system" if scores.has_several_systems else ""
    return f"{count_of(min(counts.values()), 'caption')}{per_system}"


def _interval_notes(choices: ScoreChoices, scores: CaptionScores) -> Iterator[str]:
    """Yield what intervals are, and each remark on one of them once."""
    if any(scored.intervals for scored in scores.systems):
        yield half_width_note(choices.statistics, "corpus.csv")

    notes: dict[str, None] = {}
    for scored in scores.systems:
        for interval in scored.intervals.values():
            if interval.note:
                notes[f"{interval.note}."] = None
    yield from notes


def _difference_table(
    title: str, metrics: StyledMetrics, rows: pd.DataFrame, choices: ScoreChoices
) -> ResultTable:
    """Return the table of the differences of every two systems, a star where one is significant."""
    statistics = choices.statistics
    styles = dict(metrics)
    p_value = p_value_column(statistics.correction)
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    for row in rows.to_dict("records"):
        style = styles[row["metric"]]
        cell = number_cell(row["difference"], style.scale, style.decimals)
        plus = "+" if cell.printed > 0 else ""
        star = STAR if row[p_value] <= 1 - statistics.level else ""
        cell = replace(cell, text=f"{plus}{cell}{star}")
        cells.setdefault((row["system_a"], row["system_b"]), {})[row["metric"]] = cell

    table_rows: list[Row] = []
    for (system_a, system_b), by_metric in cells.items():
        row_cells = [by_metric.get(spec, MISSING) for spec in styles]
        table_rows.append(Row(f"{system_a} − {system_b}", row_cells))
    level = f"significant at level {100 * (1 - statistics.level):g} %"
    note = TableNote(
        f"{STAR}: {level} (paired bootstrap over images, {statistics.replicates:,} replicates, "
        f"{CORRECTION_LABELS[statistics.correction]}); intervals in differences.csv.",
        brief=f"{STAR}: {level}; intervals in differences.csv.",
    )
    columns = [style.label for style in styles.values()]
    return ResultTable(title, "systems", columns, table_rows, notes=[note])


def rank_by_score(
    corpus: pd.DataFrame,
    differences: pd.DataFrame | None,
    statistics: StatisticsOptions,
    *,
    higher_is_better: bool,
) -> list[Standing]:
    """Return where systems stand by one metric against one set of references, the best first.

    Args:
        corpus: a row a system, columns `CORPUS_COLUMNS`; a system without a score has no place.
        differences: of every two systems, columns `DIFFERENCE_COLUMNS`; None or empty without tests.
        statistics: the correction of p-values and the level.
        higher_is_better: whether the metric's greater scores are better.
    """
    sign = 1 if higher_is_better else -1
    by_system = corpus.set_index("system")["score"].dropna() * sign
    values = {str(system): float(score) for system, score in by_system.items()}

    # What was not tested has no rank.
    ranks: Mapping[str, int] = {}
    if differences is not None and len(differences):
        by_pair: dict[frozenset[str], float] = {}
        p_values = differences[p_value_column(statistics.correction)]
        pairs = zip(differences["system_a"], differences["system_b"], p_values, strict=True)
        for system_a, system_b, p_value in pairs:
            by_pair[frozenset((system_a, system_b))] = float(p_value)
        ranks = rank_clusters(values, by_pair, 1 - statistics.level)

    order = sorted(values, key=lambda system: -values[system])
    standings: list[Standing] = []
    for system in order:
        standings.append(Standing(system, values[system], ranks.get(system)))
    return standings


def find_score_tests(
    differences: pd.DataFrame | None, statistics: StatisticsOptions, *, higher_is_better: bool
) -> PairTests:
    """Return what the tests of every two systems found by one metric, as `rank_by_score` takes them."""
    if differences is None or not len(differences):
        return PairTests()
    return PairTests.of_rows(
        differences,
        statistics,
        int(differences["n_images"].max()),
        names=("system_a", "system_b"),
        higher_is_better=higher_is_better,
    )


def describe_agreement(row: Mapping[str, Any]) -> str:
    """Return a metric's agreement with people in a row of corpus.csv in words; empty if it is unknown."""
    coefficient = row["agreement_coefficient"]
    if not coefficient:
        return ""
    symbol = find_coefficient(coefficient).symbol.removesuffix(" %")
    return f"{symbol} {format_coefficient(row['agreement'], coefficient)} on {row['agreement_on']}"


def find_leading_metric(corpus: pd.DataFrame, metrics: Sequence[str]) -> str:
    """Return the metric by which a sentence orders systems.

    Of the metrics whose agreement with people is known by one coefficient on the same judgements, it is that of the
    greatest; of several such groups the largest counts, as values of unlike coefficients or judgements do not
    compare. Where no agreement is known, it is the first metric.

    Args:
        corpus: rows of corpus.csv with one set of references.
        metrics: in the order of tables.
    """
    rows = {row["metric"]: row for row in records_of(corpus.drop_duplicates("metric"))}
    groups: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        row = rows[metric]
        if not math.isnan(row["agreement"]):
            key = row["agreement_coefficient"], row["agreement_on"]
            groups.setdefault(key, []).append(metric)
    if not groups:
        return metrics[0]

    largest = max(groups.values(), key=len)
    return max(largest, key=lambda metric: float(rows[metric]["agreement"]))


def score_verdict(
    corpus: pd.DataFrame,
    standings: Mapping[str, Sequence[Standing]],
    tests: Mapping[str, PairTests],
    styles: Mapping[str, MetricStyle],
) -> str:
    """Say which system is best by the leading metric, whether its lead is significant, and how many metrics put it first.

    Nothing is said of which metric agrees best with people: no test compares the numbers that `trust` finds.

    Args:
        corpus: rows of corpus.csv with one set of references.
        standings: of the systems, by metric in the order of tables.
        tests: of every two systems, by metric.
        styles: by metric.
    """
    metric = find_leading_metric(corpus, list(standings))
    leaders = standings[metric]
    style = styles[metric]
    if not leaders:
        return f"{style.label} has no score of these captions."

    row = records_of(corpus[corpus["metric"] == metric])[0]
    agreement = describe_agreement(row)
    metric_words = style.label
    if agreement:
        metric_words += f" (agreement with people: {agreement})"

    best = leaders[0].label
    # Standings hold scores of which more is better.
    value = leaders[0].value if style.higher_is_better else -leaders[0].value
    score = format_number(value, style.scale, style.decimals)
    if len(leaders) == 1:
        return f"{best or 'The captions'} reach{'es' * bool(best)} {score} by {metric_words}."

    level = [leader.label for leader in leaders if leader.value == leaders[0].value]
    if len(level) > 1:
        what = "the same score" if len(level) == len(leaders) else "the best score"
        return f"By {metric_words}, {list_words(level)} have {what} ({score})."

    sentence = f"By {metric_words}, {best} is best ({score}){lead_words(leaders, tests[metric])}"
    if len(standings) > 1:
        n_first = 0
        for by_metric in standings.values():
            n_first += bool(by_metric) and by_metric[0].label == best
        sentence += f"; {n_first} of {len(standings)} metrics put it first"
    return f"{sentence}."
