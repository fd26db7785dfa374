"""The differences between a baseline and what is computed now, and their causes.

`run_comparison` uses the same lines and causes for two finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.base import Metric
from ...metrics.external import user_code_of
from ...metrics.score_file import ScoreFile
from ..evaluation.measured_dataset import MeasuredDataset
from ..runs.tables import ResultTable, Row
from ..runs.tables import format_number as printed
from ..statistics.coefficients.coefficient import find_coefficient
from .baseline_file import (
    PARTS,
    Baseline,
    coefficient_of,
    decimals_of,
    find_new_items,
    moved,
    number,
    unit_of,
)

OUR_CODE = "no version, parameter or data changed: the code of captau"

USER_CODE = "no recorded version, parameter or data changed: the code of the function, or a package that packages= does not name"

#: The most items that a line names.
_MOST_ITEMS = 3

#: What a check compares, in the order in which the table has it.
ASPECTS = ("data", "versions", "parameters", "scores", "correlations")


@dataclass(frozen=True)
class Difference:
    """One line of the table.

    Attributes:
        part: one of `ASPECTS`.
        metrics: whose it is; empty where it is of all.
        subject: what differs.
        before, now, change: as they are printed.
        cause: the likely cause, or what becomes of it.
        fails: whether it fails the check.
        is_in_one: whether the subject is on one side alone, so that nothing moved.
    """

    part: str
    metrics: tuple[str, ...]
    subject: str
    before: str
    now: str
    change: str = ""
    cause: str = ""
    fails: bool = True
    is_in_one: bool = False


def difference_in_one(
    part: str, metrics: tuple[str, ...], subject: str, *, is_in_old: bool, cause: str = ""
) -> Difference:
    """Return the line of a subject that is on one side alone."""
    before, now = ("there", "–") if is_in_old else ("–", "there")
    return Difference(part, metrics, subject, before, now, cause=cause, is_in_one=True)


def compare_baselines(
    before: Baseline,
    now: Baseline,
    measured: MeasuredDataset,
    metrics: Sequence[Metric],
    versions: str,
) -> list[Difference]:
    """List what differs between a baseline and its recomputation; `versions` is one of `POLICIES`."""
    data = _data(before, now)
    if data:
        data += _item_differences(before, measured.items["item_id"].tolist())
    by_spec = {m.spec: m for m in metrics}
    names = [name for name in now.metrics if name in before.metrics]
    signature_changes: dict[str, dict[str, tuple[str, str]]] = {}
    for name in names:
        signature_changes[name] = signature_changes_of(
            before.metrics[name].signature, now.metrics[name].signature
        )
    changed = _changed_packages(before, now, signature_changes)

    parameters: dict[tuple[str, str, str, bool], list[str]] = {}
    scores: list[Difference] = []
    correlations: list[Difference] = []
    for name in names:
        cause = cause_of(
            bool(data),
            signature_changes[name],
            changed,
            USER_CODE if user_code_of(by_spec[name]) else OUR_CODE,
        )

        for key, (old, new) in signature_changes[name].items():
            # A package has its line among the versions.
            if key not in changed:
                # A file of scores is made anew for every check; what counts is what is in it.
                fails = not (isinstance(by_spec[name], ScoreFile) and key == "path")
                parameters.setdefault((key, old, new, fails), []).append(name)
        scores += compare_scores(before, now, measured, name, cause)
        correlations += correlation_differences(
            before.metrics[name].correlations, now.metrics[name].correlations, name, cause
        )

    moving = {d.metrics[0] for d in (*scores, *correlations)}
    return [
        *data,
        *version_differences(changed, signature_changes, versions, moving),
        *_parameter_lines(parameters),
        *scores,
        *correlations,
    ]


def _changed_packages(
    before: Baseline,
    now: Baseline,
    signature_changes: Mapping[str, Mapping[str, tuple[str, str]]],
) -> dict[str, tuple[str, str]]:
    """Return the packages of another version, with both versions.

    A package that the baseline does not record counts only where a signature names it.
    """
    in_signatures: set[str] = set()
    for fields in signature_changes.values():
        in_signatures.update(fields)

    changed: dict[str, tuple[str, str]] = {}
    for name, version in now.packages.items():
        recorded = before.packages.get(name)
        is_counted = recorded is not None or name in in_signatures
        if is_counted and recorded != version:
            changed[name] = ("–" if recorded is None else recorded, version)

    return changed


def _parameter_lines(
    parameters: Mapping[tuple[str, str, str, bool], Sequence[str]],
) -> list[Difference]:
    """Return a line for each change of a parameter, with the metrics that it is of."""
    lines: list[Difference] = []
    for (key, old, new, fails), metric_names in parameters.items():
        line = Difference(
            part="parameters",
            metrics=tuple(metric_names),
            subject=key,
            before=old,
            now=new,
            fails=fails,
        )
        lines.append(line)

    return lines


def _data(before: Baseline, now: Baseline) -> list[Difference]:
    lines: list[Difference] = []
    for key, old in before.data.items():
        new = now.data[key]
        if old != new:
            lines.append(Difference("data", (), key, _short(old), _short(new)))

    return lines


def _item_differences(before: Baseline, item_ids: Sequence[str]) -> list[Difference]:
    """Name the items that are gone and those that are new, as far as a baseline's sample tells."""
    present_ids = set(item_ids)
    gone_ids = [item_id for item_id in before.sample if item_id not in present_ids]
    new_ids = find_new_items(before, item_ids)

    lines: list[Difference] = []
    for ids, is_old in ((gone_ids, True), (new_ids, False)):
        if ids:
            # An item's id may hold line breaks.
            listed = ", ".join(" ".join(item_id.split()) for item_id in ids[:_MOST_ITEMS])
            more = f" and {len(ids) - _MOST_ITEMS} more" if len(ids) > _MOST_ITEMS else ""
            noun = "item" if len(ids) == 1 else "items"
            subject = f"{noun} {listed}{more}"
            lines.append(difference_in_one("data", (), subject, is_in_old=is_old))
    return lines


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:12]}…"


def signature_changes_of(before: str, now: str) -> dict[str, tuple[str, str]]:
    """Return the changes between two signatures: parameter or package → before and now."""
    old = _fields(before)
    new = _fields(now)
    changes: dict[str, tuple[str, str]] = {}
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            changes[key] = (_short(old.get(key, "–")), _short(new.get(key, "–")))

    return changes


def _fields(signature: str) -> dict[str, str]:
    name, *parts = signature.split("|")
    fields = {"name": name}
    for part in parts:
        key, _, value = part.partition(":")
        fields[key] = value

    return fields


def version_differences(
    changed: Mapping[str, tuple[str, str]],
    signature_changes: Mapping[str, Mapping[str, tuple[str, str]]],
    policy: str,
    moving: set[str],
) -> list[Difference]:
    """List the packages of another version; `moving` are the metrics of which something moved."""
    rows: list[Difference] = []
    for package, (old, new) in changed.items():
        affected: list[str] = []
        for name, fields in signature_changes.items():
            if package in fields:
                affected.append(name)
        fails = policy == "all" or (policy == "signatures" and bool(affected))
        # A package that no signature names may have moved any metric's score.
        suspected_metrics = moving
        if affected:
            suspected_metrics = moving & set(affected)

        causes: list[str] = []
        if not suspected_metrics:
            causes.append("no score moved")
        if not fails:
            causes.append(f"told only (versions={policy})")

        line = Difference(
            part="versions",
            metrics=tuple(affected),
            subject=package,
            before=old,
            now=new,
            cause="; ".join(causes),
            fails=fails,
        )
        rows.append(line)

    return rows


def cause_of(
    is_other_data: bool,
    signature_changes: Mapping[str, tuple[str, str]],
    changed: Mapping[str, tuple[str, str]],
    fallback: str,
) -> str:
    """Return the likely cause of a moved score: changed data, then signature, then packages."""
    if is_other_data:
        return "changed data"
    if signature_changes:
        causes: list[str] = []
        for key, (old, new) in signature_changes.items():
            subject = key if key in changed else f"parameter {key}:"
            causes.append(f"{subject} {old} → {new}")
        return "; ".join(causes)

    if changed:
        changes = [f"{key} {old} → {new}" for key, (old, new) in changed.items()]
        return f"perhaps {', '.join(changes)}"

    return fallback


def _sampled_pairs(
    before: Baseline, now: Baseline, measured: MeasuredDataset, name: str
) -> list[tuple[str, float, float]]:
    """Return each sampled item that is there with its score before and now.

    Raises:
        InputError: where a sampled item is not in data that are the same.
    """
    current = measured.by_metric[name]
    pairs: list[tuple[str, float, float]] = []
    for item, scores in before.sample.items():
        if item in current.index:
            pairs.append((item, scores[name], float(current.loc[item])))
        elif before.data == now.data:
            raise before.error_at(
                ("sample", item),
                f"item '{item}' is not in dataset {before.dataset}; mend the line, or take the file anew "
                f"from version control",
            )
    return pairs


def compare_scores(
    before: Baseline, now: Baseline, measured: MeasuredDataset, name: str, cause: str
) -> list[Difference]:
    """List a line for the sampled items of a metric that moved, and one for all of its items."""
    reach = before.tolerance
    digits = decimals_of(reach)
    pairs = _sampled_pairs(before, now, measured, name)
    rows: list[Difference] = []

    def add_line(subject: str, old: float, new: float) -> None:
        line = Difference(
            part="scores",
            metrics=(name,),
            subject=subject,
            before=score_text(old, digits),
            now=score_text(new, digits),
            change=format_change(old, new),
            cause=cause,
        )
        rows.append(line)

    moved_pairs = [(item, old, new) for item, old, new in pairs if moved(old, new, reach)]
    if moved_pairs:
        item, old, new = _find_farthest(moved_pairs)
        # An item's id may hold line breaks.
        title = " ".join(item.split())
        add_line(f"{len(moved_pairs)} of {len(pairs)} sampled items, most of all {title}", old, new)

    old_kept = before.metrics[name]
    new_kept = now.metrics[name]
    if old_kept.undefined != new_kept.undefined:
        add_line("undefined scores of all items", old_kept.undefined, new_kept.undefined)

    # The plainest of the three that moved is enough to tell.
    if moved(old_kept.mean, new_kept.mean, reach):
        add_line(f"mean of all {new_kept.items} items", old_kept.mean, new_kept.mean)
    elif moved(old_kept.std, new_kept.std, reach):
        add_line(f"standard deviation of all {new_kept.items} items", old_kept.std, new_kept.std)
    elif before.data == now.data:
        # Of other items a part is another group, which a line on the data tells.
        moved_parts: list[tuple[str, float, float]] = []
        both_parts = zip(old_kept.parts, new_kept.parts, strict=True)
        for number, (old, new) in enumerate(both_parts, start=1):
            if moved(old, new, reach):
                moved_parts.append((str(number), old, new))

        if moved_parts:
            group, old, new = _find_farthest(moved_parts)
            counted = f"{len(moved_parts)} of the {PARTS} groups of items (parts)"
            add_line(f"means of {counted}, most that of group {group}", old, new)

    return rows


def correlation_differences(
    before: Mapping[str, float], now: Mapping[str, float], name: str, cause: str
) -> list[Difference]:
    """List a line for each correlation of a metric that moved by half a printed digit, or is in one alone.

    Args:
        before, now: by dimension and coefficient, `overall tau_c`.
        name: the metric.
        cause: the likely cause.
    """
    rows: list[Difference] = []
    for key in dict.fromkeys([*before, *now]):
        coefficient = coefficient_of(key)
        style = find_coefficient(coefficient)
        subject = f"{key.rpartition(' ')[0]} {style.symbol}"
        if key not in before or key not in now:
            line = difference_in_one(
                "correlations", (name,), subject, is_in_old=key in before, cause=cause
            )
            rows.append(line)
            continue

        old = before[key]
        new = now[key]
        # Printed digits are not compared: near a half, the last bit of a number decides how it is rounded.
        if moved(old, new, unit_of(coefficient) / 2):
            decimals = style.decimals + 2
            line = Difference(
                part="correlations",
                metrics=(name,),
                subject=subject,
                before=printed(old, style.scale, decimals),
                now=printed(new, style.scale, decimals),
                change=format_change(old * style.scale, new * style.scale),
                cause=cause,
            )
            rows.append(line)

    return rows


def make_difference_table(
    title: str, differences: Sequence[Difference], metrics: Sequence[str], columns: tuple[str, str]
) -> ResultTable:
    """Make the table of differences; a cause that is that of all rows stands once, below the table.

    Args:
        metrics: all that were compared; where there are more than three, a difference of all gives their number.
        columns: the headings of the numbers before and now.
    """

    def name_metrics(difference: Difference) -> str:
        is_of_all = len(difference.metrics) == len(metrics)
        if is_of_all and len(metrics) > 3:
            return f"all {len(metrics)}"
        return ", ".join(difference.metrics)

    causes: list[str] = []
    # What the lines of versions say is that no score moved, or that they do not fail: no cause.
    has_other_remarks = False
    for difference in differences:
        if difference.part not in ("scores", "correlations"):
            # Data, options and versions are causes themselves; what their lines say there is another remark.
            has_other_remarks = has_other_remarks or bool(difference.cause)
            continue

        # What one run lacks has not moved, so that it may be without a cause.
        has_moved = not difference.is_in_one
        if has_moved or difference.cause:
            causes.append(difference.cause)

    is_one_cause = len(causes) > 1 and len(set(causes)) == 1
    is_shared = is_one_cause and causes[0] != "" and not has_other_remarks

    rows: list[Row] = []
    for difference in differences:
        cells = [
            name_metrics(difference),
            difference.subject,
            difference.before,
            difference.now,
            difference.change,
        ]
        if not is_shared:
            cells.append(difference.cause)
        rows.append(Row(difference.part, cells))

    headings = ["metric", "what", *columns, "by"]
    notes: list[str] = []
    if is_shared:
        notes.append(f"Likely cause of what moved: {causes[0]}.")
    elif not has_other_remarks:
        headings.append("likely cause")
    else:
        headings.append("likely cause, or remark" if any(causes) else "remark")
    return ResultTable(title, "part", headings, rows, notes=notes, numeric=False)


def _find_farthest(pairs: Sequence[tuple[str, float, float]]) -> tuple[str, float, float]:
    """Return the first of the names with two numbers that are farthest apart."""
    distances = [_distance(old, new) for _, old, new in pairs]
    return pairs[distances.index(max(distances))]


def _distance(old: float, new: float) -> float:
    """Return how far two numbers are apart; without bound where one of them is undefined."""
    return math.inf if math.isnan(old) or math.isnan(new) else abs(new - old)


def score_text(score: float, decimals: int) -> str:
    """Return a score as baselines write it, but for NaN, which is `undefined` to people."""
    return "undefined" if math.isnan(score) else number(score, decimals)


def format_change(old: float, new: float) -> str:
    """Return the change of a number with its sign; empty where one of the two is undefined."""
    return f"{new - old:+.3g}" if math.isfinite(_distance(old, new)) else ""
