"""`captau.testing`: gate a metric of your own in a test of your own.

    from captau.testing import assert_scores

    def test_scores():
        assert_scores(my_metric, baseline=Path(__file__).parent / "golden/my_metric.yaml")

`docs/ci_gate.md` says more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Metric
from ...metrics.external import metric as make_metric
from ...metrics.python_function import GivenFunction
from ...metrics.score_file import ScoreFile
from ..runs.markdown_table import markdown_of
from ..scoring.catalog import changes_of, optional_specs, resolve_metrics
from ..scoring.score_store import Locations
from .baseline_file import read
from .check import run
from .choices import CheckChoices

__all__ = ["assert_scores"]

#: With it in the environment, baselines are written instead of held against.
UPDATE = "CAPTAU_UPDATE"


def assert_scores(
    metric: Callable[[pd.DataFrame], Any] | Path | str | Metric,
    baseline: str | Path,
    *,
    name: str | None = None,
    update: bool | None = None,
    dataset: str | None = None,
    protocol: str | Mapping[str, Any] | None = None,
    sample: int | None = None,
    seed: int | None = None,
    tolerance: float | None = None,
    versions: str | None = None,
    packages: Sequence[str] = (),
    data_root: str | Path | None = None,
) -> None:
    """Fail where a metric's scores, its correlations or what they rest on differ from a baseline's.

    Args:
        metric: a function, as in docs/new_metric.md; a file of scores, as a `Path`; a spec such as `"cider"`; or a
            `Metric`.
        baseline: the file. It is made by a run with `CAPTAU_UPDATE=1` in the environment. A relative path is of the
            current folder.
        name: what the baseline calls a function (default: its own name) or a file (its stem).
        update: write the baseline instead; None asks the environment.
        dataset, protocol, sample, seed, tolerance, packages: what goes into a new baseline, as in
            `captau check`; None for the default, which is the demo. With a baseline that is there they
            are to be what it has, or left out.
        versions: which changed versions fail by themselves; see `choices.POLICIES`.
        data_root: where the data lies; by default `CAPTAU_DATA`, else the user's cache folder.

    Raises:
        AssertionError: with the table of what differs.
        InputError: on a baseline that is not there or not valid, or a metric that cannot be computed.
    """
    # pytest shows the caller's line instead.
    __tracebackhide__ = True
    path = Path(baseline)
    if update is None:
        update = os.environ.get(UPDATE, "").lower() not in ("", "0", "false")

    try:
        metrics = _metrics(metric, name)
        _check_metrics(path, metrics, is_update=update)
        checked = run(
            path,
            CheckChoices(
                dataset=dataset,
                protocol=None if protocol is None else changes_of(protocol),
                metrics=metrics,
                optional=optional_specs(metric) if isinstance(metric, str) else frozenset(),
                sample=sample,
                seed=seed,
                tolerance=tolerance,
                versions=versions,
                packages=tuple(packages),
                locations=Locations(data_root=Path(data_root) if data_root else None),
            ),
            update=update,
            remedy=f"{UPDATE}=1 pytest",
        )
    except InputError as error:
        # The sentence says what to do; captau's own lines above it would hide it.
        raise error.with_traceback(None) from error.__cause__

    if checked.status:
        raise AssertionError("\n\n".join([checked.summary, *map(markdown_of, checked.tables)]))


def _check_metrics(path: Path, metrics: Sequence[Metric], *, is_update: bool) -> None:
    """Check that a baseline has the metrics of a call; one that is rewritten must have no others.

    Raises:
        InputError: where there is no baseline, it lacks a metric, or would lose one.
    """
    if not path.exists():
        if is_update:
            return
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise InputError(
            f"no baseline {path}{where}; run the test once with {UPDATE}=1 to make it, or name the one that is there "
            f"by a path from the test's own folder: Path(__file__).parent / …"
        )

    baseline_specs = read(path).metrics
    specs = [metric.spec for metric in metrics]
    absent_specs = sorted(set(baseline_specs) - set(specs))
    if is_update and absent_specs:
        raise InputError(
            f"{path} has other metrics as well ({', '.join(absent_specs)}); write one baseline for each call"
        )

    for spec in specs:
        if not is_update and spec not in baseline_specs:
            raise InputError(
                f"{path} has no metric '{spec}', but {', '.join(baseline_specs)}; name=… says which of "
                f"them a function is, and {UPDATE}=1 makes the baseline anew"
            )


def _metrics(metric: Any, name: str | None) -> tuple[Metric, ...]:
    if isinstance(metric, Path):
        return (_File(path=str(metric), name=name or metric.stem),)
    if isinstance(metric, str | Metric):
        if name is not None:
            raise InputError(f"name={name} is for a function or a file of scores")

        return resolve_metrics(metric)

    if not callable(metric):
        raise InputError(
            f"metric is {metric!r}; a function, the Path of a file of scores, a spec or a Metric is "
            f"expected"
        )

    instance = make_metric(metric, name or "")
    # A baseline holds whatever the function is called in the code, if it has the same name there.
    is_function = isinstance(instance, GivenFunction)
    return (replace(instance, function=f"test:{instance.name}") if is_function else instance,)


class _File(ScoreFile):
    """A file of scores that a test hands over; where it lies is the test's affair."""
