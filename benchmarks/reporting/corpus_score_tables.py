"""The tables of `captau score`: corpus scores beside how far to trust each, and which systems differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from ...metrics.base import Metric
from ..evaluation.metric_reliability import PUBLISHED, UNKNOWN, sources
from ..options import ScoreOptions
from ..runs.tables import MISSING, ResultTable, format_number
from ..scoring.catalog import MetricStyle, metric_style
from ..scoring.corpus_scores import SystemScores
from ..scoring.unavailable_metrics import UnavailableMetrics, add_unavailable_rows

if TYPE_CHECKING:
    from ..commands.score import Scored

#: What stands behind a difference that is significant.
STAR = "*"


def tables_of(
    config: ScoreOptions,
    metrics: Sequence[Metric],
    missing: UnavailableMetrics,
    found: Scored,
    images: Mapping[str, int],
) -> list[ResultTable]:
    """All tables of a run.

    Args:
        images: how many images each set of references has.
    """
    tables = [_scores(config, metrics, missing, found, images)]
    if found.differences is not None:
        by_label = sorted(((metric_style(m).order, m) for m in metrics), key=lambda pair: pair[0])
        ordered = [m for _, m in by_label]
        for name, rows in found.differences.groupby("references", sort=False):
            title = "Differences" + (f", references {name}" if len(images) > 1 else "")
            tables.append(_differences(title, ordered, rows, config))
    return tables


def _scores(
    config: ScoreOptions,
    metrics: Sequence[Metric],
    missing: UnavailableMetrics,
    found: Scored,
    images: Mapping[str, int],
) -> ResultTable:
    trials, several = found.trials, len(found.trials) > 1
    styles = sorted(((metric_style(m), m.spec) for m in metrics), key=lambda pair: pair[0].order)
    drawn = config.statistics.uses_resampling
    columns: list[str] = []
    for one in trials:
        columns += [_head(one, trials)] if several else ["score"]
        columns += ["±"] if drawn else []
    if config.trust is not None:
        columns.append("agreement with people")
    rows: list[tuple[str, list[str]]] = []
    for chosen, spec in styles:
        cells: list[str] = []
        for one in trials:
            cells.append(format_number(one.corpus[spec], chosen.scale, chosen.decimals))
            cells += [_half(one, spec, chosen)] if drawn else []
        if config.trust is not None:
            cells.append(str(found.trust.get(spec, UNKNOWN)))
        rows.append((chosen.label, cells))
    table = ResultTable(
        "Corpus scores",
        "metric",
        columns,
        rows,
        notes=_notes(config, styles, found, images),
        spare=tuple(index for index, column in enumerate(columns) if column == "±"),
    )
    remarks: dict[str, list[str]] = {}
    for one in trials:
        for spec, said in one.remarks.items():
            remarks.setdefault(spec, []).extend(t for t in said if t not in remarks.get(spec, ()))
    return add_unavailable_rows(table, metrics, remarks, missing)


def _head(one: SystemScores, trials: Sequence[SystemScores]) -> str:
    """The column of a trial: whatever tells it from the others."""
    parts = [
        name
        for name, every in (
            (one.system, {t.system for t in trials}),
            (one.references, {t.references for t in trials}),
        )
        if len(every) > 1
    ]
    return ", ".join(parts)


def _half(one: SystemScores, spec: str, chosen: MetricStyle) -> str:
    ends = one.intervals.get(spec)
    return (
        MISSING
        if ends is None
        else format_number((ends.high - ends.low) / 2, chosen.scale, chosen.decimals)
    )


def scale_of(styles: Sequence[MetricStyle]) -> str:
    """What a table's scores are multiplied by, in words."""
    own = [s.label for s in styles if s.scale != 100]
    if len(own) == len(styles):
        return "Scores as computed"
    return "Scores ×100" + (f", but for {', '.join(own)}: as computed" if own else "")


def _notes(
    config: ScoreOptions,
    styles: Sequence[tuple[MetricStyle, str]],
    found: Scored,
    images: Mapping[str, int],
) -> list[str]:
    trials = found.trials
    scale = scale_of([s for s, _ in styles])
    counts = {t.references: len(t.items) for t in trials}
    fewest = min(counts.values())
    if len(set(counts.values())) == 1:
        notes = [f"{fewest:,} captions. {scale}."]
    else:
        said = ", ".join(f"{count:,} with {name}" for name, count in counts.items())
        notes = [f"Captions: {said}. {scale}."]
    if len({t.system for t in trials}) > 1:
        notes[0] = notes[0].replace(" captions.", " captions of each system.", 1)
    notes += [
        f"partial: {counts[name]:,} of the {total:,} images of {name}."
        for name, total in images.items()
        if counts[name] < total
    ]
    if any(spec.startswith("cider") and "df=" not in spec for _, spec in styles) and fewest < 50:
        notes.append(
            "CIDEr's IDF is taken over these captions' references alone: with few images it says "
            "little; use cider(df=FILE), see captau data df --help."
        )
    notes += [n for n in dict.fromkeys(s.note for s, _ in styles) if n]
    for one in trials:
        which = f" ({_head(one, trials)})" if len(trials) > 1 else ""
        notes += [f"{s.label}{which}: {why}." for s, spec in styles if (why := one.undefined(spec))]
    options = config.statistics
    if any(one.intervals for one in trials):
        kind = {"percentile": "percentile", "bca": "BCa"}[options.interval]
        notes.append(
            f"±: half the width of the {100 * options.level:g} % interval ({kind} bootstrap over images, "
            f"{options.replicates:,} replicates); both ends in corpus.csv."
        )
    reasons = dict.fromkeys(i.note for one in trials for i in one.intervals.values() if i.note)
    notes += [f"{reason}." for reason in reasons]
    if config.trust is not None:
        notes += _trusted(config, styles, found)
    if found.kept is not None and config.keep is not None:
        notes.append(
            f"Kept {len(found.kept):,} of {fewest:,}: {config.keep[0]} of {config.keep[1]!r} or more."
        )
    return notes


def _trusted(
    config: ScoreOptions, styles: Sequence[tuple[MetricStyle, str]], found: Scored
) -> list[str]:
    """Where the metrics' agreement with people is from."""
    labels = {spec: s.label for s, spec in styles}
    where = "as published" if config.trust == PUBLISHED else "as measured"
    said = "; ".join(sources(found.trust, labels)) or "of none"
    notes = [
        f"agreement with people: caption by caption, coefficients ×100, on other captions than these, "
        f"{where} ({said})."
    ]
    if len(found.trust) < len(labels):
        remedy = (
            "captau bench dataset=… output_dir=DIR measures it, trust=DIR shows it"
            if config.trust == PUBLISHED
            else f"not in the run {config.trust}"
        )
        notes.append(f"{UNKNOWN}: {remedy}.")
    return notes


def _differences(
    title: str, metrics: Sequence[Metric], rows: pd.DataFrame, config: ScoreOptions
) -> ResultTable:
    options = config.statistics
    p_value = {"none": "p_value"}.get(options.correction, f"p_{options.correction}")
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows.to_dict("records"):
        chosen = next(metric_style(m) for m in metrics if m.spec == row["metric"])
        text = format_number(row["difference"], chosen.scale, chosen.decimals)
        if text != MISSING and float(text) > 0:
            text = f"+{text}"
        star = STAR if row[p_value] <= 1 - options.level else ""
        cells.setdefault((row["system_a"], row["system_b"]), {})[row["metric"]] = text + star
    correction = {"bh": "Benjamini-Hochberg", "holm": "Holm", "none": "uncorrected"}
    return ResultTable(
        title,
        "systems",
        [metric_style(m).label for m in metrics],
        [
            (f"{a} − {b}", [of.get(m.spec, MISSING) for m in metrics])
            for (a, b), of in cells.items()
        ],
        notes=[
            f"{STAR}: significant at level {100 * (1 - options.level):g} % (paired bootstrap over images, "
            f"{options.replicates:,} replicates, {correction[options.correction]}); intervals in "
            f"differences.csv."
        ],
    )
