"""The work of a check: what the options, the baseline and the defaults choose together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ...metrics.external import PythonFunction
from ...metrics.registry import metric as metric_of
from ..scoring.catalog import optional_specs, resolve_metrics, usual_protocol
from ..scoring.protocol import Protocol
from ..scoring.score_store import Locations
from .baseline_file import POLICIES, TOLERANCES, Baseline, tolerance_fault

#: What a new baseline has where nobody says.
SAMPLE, SEED, TOLERANCE, VERSIONS = 25, 0, 1e-9, "signatures"


@dataclass(frozen=True)
class CheckChoices:
    """What a caller says of a check; None where the baseline, or its default, decides.

    Attributes:
        dataset: its name.
        protocol: the differences from its usual protocol.
        metrics: those that are checked.
        optional: specs of those that are left out where they cannot be computed.
        sample: the number of items whose scores the file shows.
        seed: of their draw.
        tolerance: how far a score may move.
        versions: one of `POLICIES`.
        packages: more packages whose versions are recorded.
        allow: functions that the baseline may run, and `mllm_judge` if it may ask a judge.
        locations: where data lie.

    Raises:
        InputError: where a value makes no sense.
    """

    dataset: str | None = None
    protocol: Mapping[str, Any] | None = None
    metrics: tuple[Metric, ...] | None = None
    optional: frozenset[str] = frozenset()
    sample: int | None = None
    seed: int | None = None
    tolerance: float | None = None
    versions: str | None = None
    packages: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    locations: Locations = field(default_factory=Locations)

    def __post_init__(self) -> None:
        for name, value, least in (("sample", self.sample, 1), ("seed", self.seed, 0)):
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; a whole number from {least} on is expected")
        if self.tolerance is not None and not TOLERANCES[0] <= self.tolerance <= TOLERANCES[1]:
            raise InputError(tolerance_fault(self.tolerance))
        if self.versions is not None and self.versions not in POLICIES:
            raise unknown("value of versions", self.versions, POLICIES)


@dataclass(frozen=True)
class CheckPlan:
    """The work of a check, by the caller's choices, else the baseline, else the defaults."""

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


def make_plan(path: Path, choices: CheckChoices, before: Baseline | None) -> CheckPlan:
    """Make the plan of a check; `before` is the baseline in the file, if there is one.

    Raises:
        InputError: as `_make_metric` does.
    """
    dataset = choices.dataset or (before.dataset if before else "demo")
    if before is not None and dataset == before.dataset and choices.protocol is None:
        protocol = before.protocol
    else:
        protocol = Protocol.resolve(dataset, usual_protocol(dataset), choices.protocol or {})
    file_options = choices.locations.file_options
    if not file_options and before is not None and dataset == before.dataset:
        file_options = before.file_options
    metrics, optional = choices.metrics, choices.optional
    if metrics is None and before is not None:
        metrics = tuple(_make_metric(path, choices, before, name) for name in before.metrics)
    elif metrics is None:
        metrics, optional = resolve_metrics("text"), optional_specs("text")

    def choose(option: Any, baseline_value: Any, default: Any) -> Any:
        return option if option is not None else default if before is None else baseline_value

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
    )


def error_at(
    path: Path, before: Baseline, keys: tuple[str, ...], error: InputError | str
) -> InputError:
    return InputError(f"{path}:{before.lines[keys]}: {error}")


def _make_metric(path: Path, choices: CheckChoices, before: Baseline, name: str) -> Metric:
    """Make a metric of a baseline.

    Raises:
        InputError: where the file does not say how it is made, or says something else, or names a
            function or a judge that the options do not allow.
    """
    recipe = before.metrics[name].recipe
    where = ("metrics", name, "made")
    if recipe is None:
        raise error_at(
            path,
            before,
            where,
            f"{name} is handed over by a test (captau.testing.assert_scores); run that test",
        )
    try:
        metric = metric_of(recipe)
    except InputError as error:
        raise error_at(path, before, where, error) from error
    if metric.spec != name:
        raise error_at(
            path, before, where, f"{recipe} makes {metric.spec}, not {name}; mend the line"
        )
    subject, use = "", ""
    if isinstance(metric, PythonFunction):
        subject, use = metric.function, f"code, {metric.function}, which runs"
    elif metric.name == "mllm_judge":  # however the recipe spells it
        subject = metric.name
        use = "a judge, mllm_judge, which gets the captions and your key"
    if subject and subject not in choices.allow:
        raise error_at(
            path,
            before,
            where,
            f"the baseline names {use} only if the command line names it too; "
            f"if you trust it: allow={subject}",
        )
    return metric


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
