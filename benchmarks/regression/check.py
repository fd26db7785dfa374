"""`captau check`: scores and correlations beside a baseline's; what moved, by how much, and why."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ...datasets.cache import keep, keeps
from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric, Unavailability, version_of
from ...metrics.external import PythonFunction, ScoreFile
from ...metrics.registry import metric as metric_of
from ...metrics.registry import registered_name
from ..evaluation.measured_dataset import MeasuredDataset, measure
from ..options.check import CheckOptions
from ..runs.output_folder import check_writable, write_file
from ..runs.progress_bar import StepProgress
from ..runs.tables import COEFFICIENT_STYLE, ResultTable, markdown_of
from ..runs.tables import format_number as printed
from ..scoring.catalog import optional_specs, resolve_metrics, usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import UnavailableMetrics, split_available
from .baseline_file import (
    PARTS,
    Baseline,
    MetricBaseline,
    coefficient_of,
    decimals_of,
    draw_sample,
    mean,
    moved,
    number,
    parts_of,
    read,
    std,
    steady,
    unit_of,
    written,
)

#: What a new baseline has where nobody says.
SAMPLE, SEED, TOLERANCE, VERSIONS = 25, 0, 1e-9, "signatures"
#: Packages that may move a text metric's score or a correlation, whether its signature names them or not.
_PACKAGES = ("captau", "numba", "numpy", "pandas", "pycocoevalcap", "scipy")
_OUR_CODE = "no version, parameter or data changed: the code of captau"
_USER_CODE = "no version, parameter or data changed: the code of the function"
#: The parts of a check, in the order in which the table has them.
_PARTS = ("data", "versions", "parameters", "scores", "correlations")


@dataclass(frozen=True)
class Difference:
    """One line of the table.

    Attributes:
        part: one of `_PARTS`.
        metrics: whose it is; empty where it is of all.
        what: what differs.
        before, now, by: as they are printed.
        cause: the likely cause, or what becomes of it.
        fails: whether it fails the check.
    """

    part: str
    metrics: tuple[str, ...]
    subject: str
    before: str
    now: str
    change: str = ""
    cause: str = ""
    fails: bool = True


@dataclass(frozen=True)
class Checked:
    """The outcome of a check.

    Attributes:
        path: the baseline.
        differences: in the order of the table.
        metrics: what was checked, and of which dataset.
        summary: a closing line.
        updated: whether the baseline was written instead of held against.
        junit: where the report goes.
    """

    path: Path
    dataset: str
    metrics: tuple[str, ...]
    differences: tuple[Difference, ...]
    summary: str
    updated: bool = False
    junit: Path | None = None

    @property
    def status(self) -> int:
        """The exit status: 1 where something fails."""
        return int(not self.updated and any(d.fails for d in self.differences))

    @property
    def tables(self) -> list[ResultTable]:
        """The table of differences, where there are any."""
        if not self.differences:
            return []
        rows = [
            (d.part, [self._whose(d), d.subject, d.before, d.now, d.change, d.cause])
            for d in self.differences
        ]
        columns = ["metric", "what", "baseline", "now", "by", "likely cause"]
        title = f"{self.path}: what differs"
        return [ResultTable(title, "part", columns, rows, numeric=False)]

    def _whose(self, difference: Difference) -> str:
        if len(difference.metrics) == len(self.metrics) > 3:
            return f"all {len(self.metrics)}"
        return ", ".join(difference.metrics)

    def markdown(self) -> str:
        """The table and the closing line, for GitHub's step summary."""
        return "\n\n".join(["### captau check", *map(markdown_of, self.tables), self.summary, ""])

    def xml(self) -> bytes:
        """A JUnit report: a case for the data, the versions, and each part of each metric."""
        suite = ElementTree.Element("testsuite", name=f"captau check {self.path}")
        cases = [(part, part, "") for part in _PARTS[:2]]
        cases += [(f"{m}: {part}", part, m) for m in self.metrics for part in _PARTS[2:]]
        failures = 0
        for name, part, metric in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"captau.{_legal(self.dataset)}", name=_legal(name)
            )
            failing = [
                d
                for d in self.differences
                if d.part == part and d.fails and (not metric or metric in d.metrics)
            ]
            if failing and not self.updated:
                failures += 1
                lines = [_legal(_line(d)) for d in failing]
                failure = ElementTree.SubElement(case, "failure", message=lines[0])
                failure.text = "\n".join(lines)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(failures))
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"

    def report(self) -> None:
        """Write the JUnit report, and add to GitHub's step summary, where there are such.

        Raises:
            InputError: where they cannot be written.
        """
        if self.junit is not None:
            write_file(self.junit, self.xml())
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with Path(summary).open("a", encoding="utf-8", errors="replace") as stream:
                    stream.write(self.markdown())
            except OSError as error:
                raise InputError(
                    f"GITHUB_STEP_SUMMARY={summary}: cannot be written ({error.strerror})"
                ) from error


def _line(difference: Difference) -> str:
    change = f", by {difference.change}" if difference.change else ""
    cause = f" ({difference.cause})" if difference.cause else ""
    return f"{difference.subject}: {difference.before} → {difference.now}{change}{cause}"


def _legal(text: str) -> str:
    """A text without the characters that XML has no word for."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def run(config: CheckOptions) -> Checked:
    """Compute everything anew, and hold it against the baseline, or write that.

    Raises:
        InputError: on a baseline that is not there or not valid, options that it contradicts, or whatever
            else keeps a score from being computed.
    """
    path = config.baseline
    exists = path.exists()
    if not exists and not config.update:
        raise InputError(
            f"no baseline {path}; captau check baseline={path} update=true dataset=… metrics=… makes it"
        )
    before = read(path) if exists else None
    for file in (path if config.update else None, config.junit):
        if file is not None:
            check_writable(file)
    plan = _plan(config, before)
    if before is not None and not config.update:
        _check_options(config, plan, before)
    measured, metrics, unavailable = _measure(plan)
    now = _current_baseline(plan, measured, metrics, before)
    differences: list[Difference] = []
    # A baseline recorded on other data, by choice, cannot be compared.
    if before is not None and _identity(before) == _identity(now):
        differences = _compare(before, now, measured, plan)
    checked = Checked(
        path=path,
        dataset=now.dataset,
        metrics=tuple(now.metrics),
        differences=tuple(differences),
        summary="",
        updated=config.update,
        junit=config.junit,
    )
    left_out = "".join(f"\nleft out: {m.spec}: {reason}" for m, reason in unavailable.items())
    if not config.update:
        return replace(checked, summary=_summary(checked, before, now))
    text = written(steady(now, before)).encode()
    same = exists and path.read_bytes() == text
    if not same:
        write_file(path, text)
    outcome = (
        f"{path}: {'is as it was' if same else 'written'}: {len(now.metrics)} metrics on "
        f"{now.dataset}, {len(now.sample)} of {now.data['items']} items shown"
    )
    return replace(checked, summary=outcome + left_out)


def _identity(baseline: Baseline) -> tuple[str, dict[str, Any], Protocol]:
    return baseline.dataset, dict(baseline.file_options), baseline.protocol


def _summary(checked: Checked, before: Baseline | None, now: Baseline) -> str:
    coverage = (
        f"{len(checked.metrics)} metrics on {now.data['items']} items of {now.dataset}, "
        f"{len(before.sample) if before else 0} of them one by one"
    )
    failing = sorted({d.part for d in checked.differences if d.fails}, key=_PARTS.index)
    if failing:
        return (
            f"{checked.path}: {', '.join(failing)} differ ({coverage}). If that is meant: captau check "
            f"baseline={checked.path} update=true"
        )
    return f"{checked.path}: as in the baseline ({coverage})"


@dataclass(frozen=True)
class _CheckPlan:
    """The work of a check, by the options, else the baseline, else the defaults."""

    config: CheckOptions
    dataset: str
    file_options: Mapping[str, Any]
    protocol: Protocol
    metrics: tuple[Metric, ...]
    optional: frozenset[str]
    sample: int
    seed: int
    tolerance: float
    versions: str
    packages: tuple[str, ...]


def _plan(config: CheckOptions, before: Baseline | None) -> _CheckPlan:
    dataset = config.dataset or (before.dataset if before else "demo")
    if before is not None and dataset == before.dataset and config.protocol is None:
        protocol = before.protocol
    else:
        protocol = Protocol.resolve(dataset, usual_protocol(dataset), config.protocol or {})
    file_options = config.locations.file_options
    if not file_options and before is not None and dataset == before.dataset:
        file_options = before.file_options
    metrics, optional = config.metrics, config.optional
    if metrics is None and before is not None:
        metrics = tuple(_make_metric(config.baseline, before, name) for name in before.metrics)
    elif metrics is None:
        metrics, optional = resolve_metrics("text"), optional_specs("text")

    def choose(option: Any, baseline_value: Any, default: Any) -> Any:
        return option if option is not None else default if before is None else baseline_value

    return _CheckPlan(
        config=config,
        dataset=dataset,
        file_options=file_options,
        protocol=protocol,
        metrics=metrics,
        optional=optional,
        sample=choose(config.sample, before and len(before.sample), SAMPLE),
        seed=choose(config.seed, before and before.seed, SEED),
        tolerance=choose(config.tolerance, before and before.tolerance, TOLERANCE),
        versions=choose(config.versions, before and before.versions, VERSIONS),
        packages=(*config.packages, *(before.packages if before else ())),
    )


def _at(path: Path, before: Baseline, keys: tuple[str, ...], error: InputError | str) -> InputError:
    return InputError(f"{path}:{before.lines[keys]}: {error}")


def _make_metric(path: Path, before: Baseline, name: str) -> Metric:
    """Make a metric of a baseline.

    Raises:
        InputError: where the file does not say how it is made, or says something else.
    """
    recipe = before.metrics[name].recipe
    where = ("metrics", name, "made")
    if recipe is None:
        raise _at(
            path,
            before,
            where,
            f"{name} is handed over by a test (captau.testing.assert_scores); run that test",
        )
    try:
        metric = metric_of(recipe)
    except InputError as error:
        raise _at(path, before, where, error) from error
    if metric.spec != name:
        raise _at(path, before, where, f"{recipe} makes {metric.spec}, not {name}; mend the line")
    return metric


def _check_options(config: CheckOptions, plan: _CheckPlan, before: Baseline) -> None:
    """Check that the options agree with the baseline.

    Raises:
        InputError: where it is not.
    """
    compared = {
        "dataset": (plan.dataset, before.dataset),
        "file": (dict(plan.file_options), dict(before.file_options)),
        "protocol": (plan.protocol, before.protocol),
        "sample": (min(plan.sample, before.data["items"]), len(before.sample)),
        "seed": (plan.seed, before.seed),
        "tolerance": (plan.tolerance, before.tolerance),
    }
    for option, (current, recorded) in compared.items():
        if current != recorded:
            recorded_name = recorded.name if isinstance(recorded, Protocol) else recorded
            raise InputError(
                f"{option}=… was given, and {config.baseline} has {recorded_name}; leave it out, or make the "
                f"baseline anew with update=true"
            )
    for metric in plan.metrics:
        if metric.spec not in before.metrics:
            raise unknown(f"metric of {config.baseline}", metric.spec, before.metrics)
    for package in config.packages:
        if package not in before.packages:
            raise unknown(f"package of {config.baseline}", package, before.packages)


def _measure(plan: _CheckPlan) -> tuple[MeasuredDataset, list[Metric], UnavailableMetrics]:
    """Compute scores and correlations anew; return them, the metrics, and those left out."""
    where = replace(plan.config.locations, file_options=plan.file_options)
    caption_set = where.load(plan.dataset)
    metrics, unavailable = list(plan.metrics), dict[Metric, Unavailability]()
    if plan.config.update:  # else all must be computed, and one that cannot be says why
        metrics, unavailable = split_available(
            plan.metrics, plan.optional, plan.protocol, caption_set
        )
    before = keeps()
    keep(False)
    try:
        with StepProgress(len(metrics)) as progress:
            measured = measure(caption_set, plan.protocol, metrics, ScoreStore(None), progress)
    finally:
        keep(before)
    return measured, metrics, unavailable


def _current_baseline(
    plan: _CheckPlan, measured: MeasuredDataset, metrics: Sequence[Metric], before: Baseline | None
) -> Baseline:
    """Make a baseline of the current scores."""
    item_ids = measured.items["item_id"].tolist()
    sampled_ids = draw_sample(item_ids, plan.sample, plan.seed)
    records: Any = measured.correlations.to_dict("records")
    metric_baselines: dict[str, MetricBaseline] = {}
    for metric in metrics:
        scores = np.asarray(measured.by_metric[metric.spec], dtype=np.float64)
        defined = scores[~np.isnan(scores)].tolist()
        metric_baselines[metric.spec] = MetricBaseline(
            recipe=_recipe(metric),
            signature=metric.signature,
            correlations={
                f"{r['dimension']} {r['coefficient']}": float(r["value"])
                for r in records
                if r["metric"] == metric.spec
            },
            items=len(scores),
            undefined=int(np.isnan(scores).sum()),
            mean=mean(defined),
            std=std(defined),
            parts=parts_of(item_ids, scores),
        )
    names = {*_PACKAGES, *plan.packages, *(d for m in metrics for d in m.distributions)}
    return Baseline(
        dataset=plan.dataset,
        file_options=plan.file_options,
        data={
            "revision": measured.caption_set.card.revision,
            "items": len(item_ids),
            "digest": measured.caption_set.digest,
        },
        protocol=plan.protocol,
        seed=plan.seed,
        tolerance=plan.tolerance,
        versions=plan.versions,
        packages={n: _version(n) for n in sorted(names | {"python"})},
        metrics=metric_baselines,
        sample={
            item: {m.spec: float(measured.by_metric[m.spec].loc[item]) for m in metrics}
            for item in sampled_ids
        },
    )


def _version(package: str) -> str:
    if package == "python":
        return ".".join(platform.python_version_tuple()[:2])
    return version_of(package)


def _recipe(metric: Metric) -> str | None:
    """Return the spec that makes a metric, whatever results call it; None for an unregistered class."""
    name = registered_name(metric)
    if name is None:
        return None
    # A metric that goes by a name of its own still has the spec that any metric has.
    spec: Any = Metric.spec.fget  # pyright: ignore[reportAttributeAccessIssue]
    return f"{name}{spec(metric).removeprefix(metric.name)}"


# Comparing.


def _compare(
    before: Baseline, now: Baseline, measured: MeasuredDataset, plan: _CheckPlan
) -> list[Difference]:
    data = _data(before, now)
    by_spec = {m.spec: m for m in plan.metrics}
    names = [name for name in now.metrics if name in before.metrics]
    signature_changes = {
        name: _signature_changes(before.metrics[name], now.metrics[name]) for name in names
    }
    in_signatures = {key for fields in signature_changes.values() for key in fields}
    changed = {
        name: (before.packages.get(name, "–"), version)
        for name, version in now.packages.items()
        if before.packages.get(name) != version
        and (name in before.packages or name in in_signatures)
    }
    parameters: dict[tuple[str, str, str, bool], list[str]] = {}
    scores: list[Difference] = []
    correlations: list[Difference] = []
    for name in names:
        is_user_function = isinstance(by_spec[name], PythonFunction)
        cause = _cause(
            data, signature_changes[name], changed, _USER_CODE if is_user_function else _OUR_CODE
        )
        for key, (old, new) in signature_changes[name].items():
            if key not in changed:
                # A file of scores is made anew for every check; what counts is what is in it.
                fails = not (isinstance(by_spec[name], ScoreFile) and key == "path")
                parameters.setdefault((key, old, new, fails), []).append(name)
        scores += _scores(before, now, measured, name, cause, plan.config.baseline)
        correlations += _correlations(before.metrics[name], now.metrics[name], name, cause)
    moving = {d.metrics[0] for d in (*scores, *correlations)}
    return [
        *data,
        *_versions(changed, signature_changes, plan.versions, moving),
        *(
            Difference("parameters", tuple(metric_names), key, old, new, fails=fails)
            for (key, old, new, fails), metric_names in parameters.items()
        ),
        *scores,
        *correlations,
    ]


def _data(before: Baseline, now: Baseline) -> list[Difference]:
    return [
        Difference("data", (), key, _short(before.data[key]), _short(now.data[key]))
        for key in before.data
        if before.data[key] != now.data[key]
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:12]}…"


def _signature_changes(before: MetricBaseline, now: MetricBaseline) -> dict[str, tuple[str, str]]:
    """Return the changes between two signatures: parameter or package → before and now."""
    old, new = _fields(before.signature), _fields(now.signature)
    return {
        key: (_short(old.get(key, "–")), _short(new.get(key, "–")))
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    }


def _fields(signature: str) -> dict[str, str]:
    name, *parts = signature.split("|")
    return {"name": name} | {k: v for k, _, v in (part.partition(":") for part in parts)}


def _versions(
    changed: Mapping[str, tuple[str, str]],
    signature_changes: Mapping[str, Mapping[str, tuple[str, str]]],
    policy: str,
    moving: set[str],
) -> list[Difference]:
    """List the packages of another version; `moving` are the metrics of which something moved."""
    rows: list[Difference] = []
    for package, (old, new) in changed.items():
        affected = tuple(name for name, fields in signature_changes.items() if package in fields)
        fails = policy == "all" or (policy == "signatures" and bool(affected))
        effect = "" if moving & set(affected) or (moving and not affected) else "no score moved"
        policy_note = "" if fails else f"told only (versions={policy})"
        cause = "; ".join(filter(None, (effect, policy_note)))
        rows.append(Difference("versions", affected, package, old, new, cause=cause, fails=fails))
    return rows


def _cause(
    data: Sequence[Difference],
    signature_changes: Mapping[str, tuple[str, str]],
    changed: Mapping[str, tuple[str, str]],
    fallback: str,
) -> str:
    """Return the likely cause of a moved score: changed data, then signature, then packages."""
    if data:
        return "changed data"
    if signature_changes:
        return "; ".join(
            f"{key} {old} → {new}" if key in changed else f"parameter {key}: {old} → {new}"
            for key, (old, new) in signature_changes.items()
        )
    if changed:
        changes = ", ".join(f"{key} {old} → {new}" for key, (old, new) in changed.items())
        return f"perhaps {changes}"
    return fallback


def _scores(
    before: Baseline, now: Baseline, measured: MeasuredDataset, name: str, cause: str, path: Path
) -> list[Difference]:
    """List a line for the sampled items of a metric that moved, and one for all of its items."""
    reach, digits = before.tolerance, decimals_of(before.tolerance)
    current = measured.by_metric[name]
    pairs: list[tuple[str, float, float]] = []
    for item, scores in before.sample.items():
        if item in current.index:
            pairs.append((item, scores[name], float(current.loc[item])))
        elif before.data == now.data:
            raise _at(
                path,
                before,
                ("sample", item),
                f"item '{item}' is not in dataset {before.dataset}; mend the line, or take the file anew "
                f"from version control",
            )
    rows: list[Difference] = []

    def add_line(subject: str, old: float, new: float) -> None:
        old_text, new_text = (number(v, digits).replace("null", "undefined") for v in (old, new))
        rows.append(
            Difference("scores", (name,), subject, old_text, new_text, _by(old, new), cause)
        )

    if gone := [pair for pair in pairs if moved(*pair[1:], reach)]:
        item, old, new = max(gone, key=lambda p: _distance(p[1], p[2]))
        title = " ".join(item.split())
        add_line(f"{len(gone)} of {len(pairs)} sampled items, most of all {title}", old, new)
    old_kept, new_kept = before.metrics[name], now.metrics[name]
    if old_kept.undefined != new_kept.undefined:
        add_line("undefined scores of all items", old_kept.undefined, new_kept.undefined)
    if moved(old_kept.mean, new_kept.mean, reach):
        add_line(f"mean of all {new_kept.items} items", old_kept.mean, new_kept.mean)
    elif moved(old_kept.std, new_kept.std, reach):
        add_line(f"standard deviation of all {new_kept.items} items", old_kept.std, new_kept.std)
    elif parts := [
        (i, *pair)
        for i, pair in enumerate(zip(old_kept.parts, new_kept.parts, strict=True))
        if moved(*pair, reach)
    ]:
        i, old, new = max(parts, key=lambda p: _distance(p[1], p[2]))
        add_line(
            f"{len(parts)} of {PARTS} parts of the items, most the mean of part {i + 1}", old, new
        )
    return rows


def _correlations(
    before: MetricBaseline, now: MetricBaseline, name: str, cause: str
) -> list[Difference]:
    rows: list[Difference] = []
    for key in dict.fromkeys([*before.correlations, *now.correlations]):
        coefficient = coefficient_of(key)
        label, _, scale, decimals = COEFFICIENT_STYLE[coefficient]
        subject = f"{key.rpartition(' ')[0]} {label}"
        if key not in before.correlations or key not in now.correlations:
            old_text, new_text = (
                "there" if key in metric.correlations else "–" for metric in (before, now)
            )
            rows.append(
                Difference("correlations", (name,), subject, old_text, new_text, cause=cause)
            )
            continue
        old, new = before.correlations[key], now.correlations[key]
        # Not whether the printed digits are others: where rounding turns, the last bit turns them.
        if moved(old, new, unit_of(coefficient) / 2):
            old_text, new_text = (printed(v, scale, decimals + 2) for v in (old, new))
            difference = _by(old * scale, new * scale)
            rows.append(
                Difference("correlations", (name,), subject, old_text, new_text, difference, cause)
            )
    return rows


def _distance(old: float, new: float) -> float:
    return math.inf if math.isnan(old) or math.isnan(new) else abs(new - old)


def _by(old: float, new: float) -> str:
    distance = _distance(old, new)
    return f"{new - old:+.3g}" if math.isfinite(distance) else ""
