"""`captau check`: scores and correlations beside a baseline's; what moved, by how much, and why.

The options, the baseline and the defaults choose together what is computed: the plan of a check.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.cache import keep, keeps
from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric, version_of
from ...metrics.external import load_metric, user_code_of
from ...metrics.registry import metric as metric_of
from ...metrics.registry import recipe_of
from ..evaluation.measured_dataset import MeasuredDataset, measure
from ..runs.output_folder import check_writable, write_file
from ..runs.progress_bar import StepProgress
from ..runs.tables import count_of
from ..scoring.catalog import optional_specs, resolve_metrics, usual_protocol, usual_protocol_of
from ..scoring.protocol import Protocol, sign
from ..scoring.score_store import OWN, Locations, ScoreStore
from ..scoring.unavailable_metrics import UnavailableMetrics, split_available
from .baseline_file import (
    Baseline,
    MetricBaseline,
    draw_sample,
    mean,
    parts_of,
    read,
    std,
    steady,
    written,
)
from .checked import Checked, count_metrics
from .choices import CheckChoices
from .differences import ASPECTS, Difference, compare_baselines
from .failed_functions import failure_differences, measure_without_failed

#: What a new baseline has where nobody says.
SAMPLE = 25
SEED = 0
TOLERANCE = 1e-9
VERSIONS = "signatures"

#: The metric that sends captions and a key to an address.
JUDGE = "mllm_judge"


@dataclass(frozen=True)
class CheckPlan:
    """The work of a check, by the caller's choices, else the baseline, else the defaults.

    Attributes:
        failures: the errors of functions that the baseline names and that cannot be loaded, by spec.
        path, locations, dataset, file_options, protocol, metrics, optional, sample, seed, tolerance, versions, packages:
            see `CheckChoices` and `Baseline`.
    """

    path: Path
    locations: Locations
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
    failures: Mapping[str, str]


def make_plan(
    path: Path, choices: CheckChoices, before: Baseline | None, *, needs_all: bool
) -> CheckPlan:
    """Make the plan of a check.

    Args:
        path: the file of the baseline.
        choices: the caller's.
        before: the baseline in the file, if there is one.
        needs_all: whether a function that cannot be loaded ends the check, as one that is to be recorded does.

    Raises:
        InputError: as `_make_metric` and `_check_allowed` do.
    """
    dataset = choices.dataset or (before.dataset if before else "demo")
    # Those of the file describe its own dataset, and no other.
    file_options = choices.locations.file_options
    if not file_options and before is not None and dataset == before.dataset:
        file_options = before.file_options

    if before is not None and dataset == before.dataset and choices.protocol is None:
        protocol = before.protocol
    else:
        usual = usual_protocol(dataset)
        if dataset == OWN:
            locations = replace(choices.locations, file_options=file_options)
            usual = usual_protocol_of(locations.load(dataset))
        protocol = Protocol.resolve(dataset, usual, choices.protocol or {})

    metrics = choices.metrics
    optional = choices.optional
    failures: dict[str, str] = {}
    if metrics is None and before is not None:
        metrics, failures = _load_metrics(choices, before, needs_all=needs_all)
    elif metrics is None:
        metrics = resolve_metrics("text")
        optional = optional_specs("text")

    def choose(option: Any, baseline_value: Any, default: Any) -> Any:
        if option is not None:
            return option
        return default if before is None else baseline_value

    return CheckPlan(
        path=path,
        locations=choices.locations,
        dataset=dataset,
        file_options=file_options,
        protocol=protocol,
        metrics=metrics,
        optional=optional,
        sample=choose(choices.sample, before and len(before.sample), SAMPLE),
        seed=choose(choices.seed, before and before.seed, SEED),
        tolerance=choose(choices.tolerance, before and before.tolerance, TOLERANCE),
        versions=choose(choices.versions, before and before.versions, VERSIONS),
        packages=(*choices.packages, *(before.packages if before else ())),
        failures=failures,
    )


def _load_metrics(
    choices: CheckChoices, before: Baseline, *, needs_all: bool
) -> tuple[tuple[Metric, ...], dict[str, str]]:
    """Return a baseline's metrics with the user's code loaded, and by spec the errors of code that cannot be.

    Raises:
        InputError: as `_make_metric` and `_check_allowed` do; and an error of code where all are needed, or no other
            metric is left.
    """
    made = {name: _make_metric(before, name) for name in before.metrics}
    _check_allowed(before, made, choices.allow)

    metrics: list[Metric] = []
    failures: dict[str, str] = {}
    for name, metric in made.items():
        try:
            metric = load_metric(metric)
        except InputError as error:
            is_last = name == list(made)[-1]
            if needs_all or (is_last and not metrics):
                raise
            failures[name] = str(error)
            continue

        if metric.spec != name:
            recipe = before.metrics[name].recipe
            raise before.error_at(
                ("metrics", name, "made"),
                f"{recipe} makes {metric.spec}, not {name}; mend the line",
            )
        metrics.append(metric)

    return tuple(metrics), failures


def _make_metric(before: Baseline, name: str) -> Metric:
    """Make a metric of a baseline, without loading code of the user's.

    Raises:
        InputError: where the file does not say how it is made, or says something else.
    """
    recipe = before.metrics[name].recipe
    where = ("metrics", name, "made")
    if recipe is None:
        raise before.error_at(
            where,
            f"{name} is handed over by a test (captau.testing.assert_scores); run that test",
        )
    try:
        return metric_of(recipe)
    except InputError as error:
        raise before.error_at(where, error) from error


def _check_allowed(before: Baseline, made: Mapping[str, Metric], allowed: Sequence[str]) -> None:
    """Check that the command line names all code and every judge that a baseline names.

    Raises:
        InputError: at the first that it does not name, with the `allow=` that names all.
    """
    subjects: dict[str, str] = {}
    for name, metric in made.items():
        # Of a judge, however the recipe spells it, the name alone is allowed.
        subject = metric.name if metric.name == JUDGE else user_code_of(metric)
        if subject:
            subjects[name] = subject

    for name, subject in subjects.items():
        if subject in allowed:
            continue
        use = f"code, {subject}, which runs"
        if subject == JUDGE:
            use = f"a judge, {JUDGE}, which gets the captions and your key"

        all_subjects = list(dict.fromkeys(subjects.values()))
        trusted = "it" if len(all_subjects) == 1 else "all that it names"
        raise before.error_at(
            ("metrics", name, "made"),
            f"the baseline names {use} only if the command line names it too; "
            f"if you trust {trusted}: allow={','.join(all_subjects)}",
        )


def check_choices(choices: CheckChoices, plan: CheckPlan, before: Baseline) -> None:
    """Check that the caller's choices agree with the baseline.

    Raises:
        InputError: where they do not.
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
                f"{option}=… was given, and {plan.path} has {recorded_name}; leave it out, or make the "
                f"baseline anew with update=true"
            )
    for metric in plan.metrics:
        if metric.spec not in before.metrics:
            raise unknown(f"metric of {plan.path}", metric.spec, before.metrics)
    for package in choices.packages:
        if package not in before.packages:
            raise unknown(f"package of {plan.path}", package, before.packages)


#: Packages that may move a text metric's score or a correlation, whether its signature names them or not.
_PACKAGES = ("captau", "numba", "numpy", "pandas", "pycocoevalcap", "scipy")


def run(
    path: Path,
    choices: CheckChoices,
    *,
    update: bool = False,
    junit: Path | None = None,
    remedy: str | None = None,
) -> Checked:
    """Compute everything anew, and hold it against the baseline, or write that.

    Args:
        path: the baseline.
        choices: what the caller says beside the baseline.
        update: whether the baseline is written.
        junit: where the JUnit report goes; None for none.
        remedy: what the closing line says to type where the scores are meant to differ; None for `captau check` with
            `update=true`.

    Raises:
        InputError: on a baseline that is not there or not valid, options that it contradicts, or whatever
            else keeps a score from being computed.
    """
    exists = path.exists()
    if not exists and not update:
        raise InputError(
            f"no baseline {path}; captau check baseline={path} update=true dataset=… metrics=… makes it"
        )

    before = read(path) if exists else None
    # A file that cannot be written is said before the scores are computed.
    if update:
        check_writable(path)
    if junit is not None:
        check_writable(junit)

    plan = make_plan(path, choices, before, needs_all=update)
    if before is not None and not update:
        check_choices(choices, plan, before)

    measured, metrics, unavailable, failures = _measure(plan, is_update=update)
    now = _current_baseline(plan, measured, metrics, before)
    differences: list[Difference] = []
    # A baseline recorded on other data, by choice, cannot be compared.
    if before is not None and _identity(before) == _identity(now):
        differences = compare_baselines(before, now, measured, plan.metrics, plan.versions)
        differences += failure_differences(before, failures)

    checked = Checked(
        path=path,
        dataset=now.dataset,
        metrics=(*now.metrics, *failures),
        failed=tuple(failures),
        differences=tuple(differences),
        summary="",
        updated=update,
        junit=junit,
    )
    if not update:
        assert before is not None, "only an update makes a baseline"
        remedy = remedy or _update_command(path, choices)
        return replace(checked, summary=_summary(checked, before, now, remedy))

    summary = _write_baseline(path, now, before)
    for metric, reason in unavailable.items():
        summary += f"\nleft out: {metric.spec}: {reason}"

    return replace(checked, summary=summary)


def _update_command(path: Path, choices: CheckChoices) -> str:
    """Return the command that writes a baseline anew; it names again the code that the caller allowed."""
    command = f"captau check baseline={path} update=true"
    return f"{command} allow={','.join(choices.allow)}" if choices.allow else command


def _write_baseline(path: Path, now: Baseline, before: Baseline | None) -> str:
    """Write a baseline where it is not as it was, and say in a line which of both.

    Raises:
        InputError: where it cannot be written.
    """
    text = written(steady(now, before)).encode()
    is_same = path.exists() and path.read_bytes() == text
    if not is_same:
        write_file(path, text)

    outcome = "is as it was" if is_same else "written"
    return (
        f"{path}: {outcome}: {count_metrics(now.metrics)} on "
        f"{now.dataset}, {len(now.sample)} of {now.data['items']} items shown"
    )


def _identity(baseline: Baseline) -> tuple[str, dict[str, Any], Protocol]:
    return baseline.dataset, dict(baseline.file_options), baseline.protocol


def _summary(checked: Checked, before: Baseline, now: Baseline, remedy: str) -> str:
    """Return the closing line, with the remedy where something differs."""
    compared = [name for name in checked.metrics if name not in checked.failed]
    # Of data that changed, some captions of the sample may be gone.
    n_single = len(before.sample.keys() & now.sample.keys())
    coverage = (
        f"{count_metrics(compared)} on {count_of(now.data['items'], 'item')} of {now.dataset}, "
        f"{n_single} of them one by one"
    )
    moved = [d for d in checked.differences if not set(d.metrics) & set(checked.failed)]
    failing = _list_parts(d for d in moved if d.fails)
    told = _list_parts(d for d in moved if not d.fails)

    errors = ""
    if checked.failed:
        verb = "raises" if len(checked.failed) == 1 else "raise"
        errors = f"{', '.join(checked.failed)} {verb} an error; "
    if failing:
        outcome = f"{', '.join(failing)} differ ({coverage})"
        return f"{checked.path}: {errors}{outcome}. If that is meant: {remedy}"

    rest = "the rest is " if checked.failed else ""
    outcome = f"{rest}as in the baseline"
    if told:
        outcome += f" but for {' and '.join(told)}, which alone do not fail the check"
    return f"{checked.path}: {errors}{outcome} ({coverage})"


def _list_parts(differences: Iterable[Difference]) -> list[str]:
    """Return the parts that differences are of, in the order of the table."""
    parts = {difference.part for difference in differences}
    return [aspect for aspect in ASPECTS if aspect in parts]


def _measure(
    plan: CheckPlan, *, is_update: bool
) -> tuple[MeasuredDataset, list[Metric], UnavailableMetrics, dict[str, str]]:
    """Compute scores and correlations anew.

    Returns:
        them; their metrics; those that a suite names and that cannot be computed here, which a new baseline leaves out;
        and the errors of the user's functions, by spec, which an existing one tells.
    """
    where = replace(plan.locations, file_options=plan.file_options)
    caption_set = where.load(plan.dataset)
    metrics = list(plan.metrics)
    unavailable: UnavailableMetrics = {}
    failures = dict(plan.failures)
    # Otherwise all must be computed, and one that cannot be says why.
    if is_update:
        metrics, unavailable = split_available(
            plan.metrics, plan.optional, plan.protocol, caption_set
        )

    # Nothing that an earlier version computed may be read back.
    before = keeps()
    keep(False)
    try:
        with StepProgress(len(metrics)) as progress:
            if is_update:
                store = ScoreStore(None)
                measured = measure(caption_set, plan.protocol, metrics, store, progress)
            else:
                measured, raised = measure_without_failed(
                    caption_set, plan.protocol, metrics, progress
                )
                failures |= raised
    finally:
        keep(before)

    metrics = [metric for metric in metrics if metric.spec not in failures]
    return measured, metrics, unavailable, failures


def _current_baseline(
    plan: CheckPlan, measured: MeasuredDataset, metrics: Sequence[Metric], before: Baseline | None
) -> Baseline:
    """Make a baseline of the current scores."""
    item_ids = measured.items["item_id"].tolist()
    sampled_ids = draw_sample(item_ids, plan.sample, plan.seed)
    records: Any = measured.printed_correlations.to_dict("records")

    metric_baselines: dict[str, MetricBaseline] = {}
    for metric in metrics:
        correlations: dict[str, float] = {}
        for record in records:
            if record["metric"] == metric.spec:
                key = f"{record['dimension']} {record['coefficient']}"
                correlations[key] = float(record["value"])

        scores = np.asarray(measured.by_metric[metric.spec], dtype=np.float64)
        defined = scores[~np.isnan(scores)].tolist()
        metric_baselines[metric.spec] = MetricBaseline(
            recipe=recipe_of(metric),
            signature=sign(metric, [plan.protocol]),
            correlations=correlations,
            items=len(scores),
            undefined=int(np.isnan(scores).sum()),
            mean=mean(defined),
            std=std(defined),
            parts=parts_of(item_ids, scores),
        )
    sample: dict[str, dict[str, float]] = {}
    for item in sampled_ids:
        sample[item] = {m.spec: float(measured.by_metric[m.spec].loc[item]) for m in metrics}

    # What may move any score, whether a signature names it or not; and what the metrics name.
    packages = {"python", *_PACKAGES, *plan.packages}
    for metric in metrics:
        packages.update(metric.distributions)

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
        packages={package: _version(package) for package in sorted(packages)},
        metrics=metric_baselines,
        sample=sample,
    )


def _version(package: str) -> str:
    if package == "python":
        return ".".join(platform.python_version_tuple()[:2])
    return version_of(package)
