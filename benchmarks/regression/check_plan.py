"""The work of a check: what the options, the baseline and the defaults choose together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ...metrics.external import PythonFunction
from ...metrics.registry import metric as metric_of
from ..options.check import CheckOptions
from ..scoring.catalog import optional_specs, resolve_metrics, usual_protocol
from ..scoring.protocol import Protocol
from .baseline_file import Baseline

#: What a new baseline has where nobody says.
SAMPLE, SEED, TOLERANCE, VERSIONS = 25, 0, 1e-9, "signatures"


@dataclass(frozen=True)
class CheckPlan:
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


def make_plan(config: CheckOptions, before: Baseline | None) -> CheckPlan:
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
        metrics = tuple(_make_metric(config, before, name) for name in before.metrics)
    elif metrics is None:
        metrics, optional = resolve_metrics("text"), optional_specs("text")

    def choose(option: Any, baseline_value: Any, default: Any) -> Any:
        return option if option is not None else default if before is None else baseline_value

    return CheckPlan(
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


def error_at(
    path: Path, before: Baseline, keys: tuple[str, ...], error: InputError | str
) -> InputError:
    return InputError(f"{path}:{before.lines[keys]}: {error}")


def _make_metric(config: CheckOptions, before: Baseline, name: str) -> Metric:
    """Make a metric of a baseline.

    Raises:
        InputError: where the file does not say how it is made, or says something else, or names a
            function or a judge that the options do not allow.
    """
    path = config.baseline
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
    if subject and subject not in config.allow:
        raise error_at(
            path,
            before,
            where,
            f"the baseline names {use} only if the command line names it too; "
            f"if you trust it: allow={subject}",
        )
    return metric


def check_options(config: CheckOptions, plan: CheckPlan, before: Baseline) -> None:
    """Check that the options agree with the baseline.

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
                f"{option}=… was given, and {config.baseline} has {recorded_name}; leave it out, or make the "
                f"baseline anew with update=true"
            )
    for metric in plan.metrics:
        if metric.spec not in before.metrics:
            raise unknown(f"metric of {config.baseline}", metric.spec, before.metrics)
    for package in config.packages:
        if package not in before.packages:
            raise unknown(f"package of {config.baseline}", package, before.packages)
