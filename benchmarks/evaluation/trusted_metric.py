"""The sentence of `captau score` on which metrics agree best with people by a run, and on what that run tested."""

from __future__ import annotations

from collections.abc import Mapping

from ..runs.finished_run import FinishedRun
from ..runs.frames import records_of
from ..runs.tables import format_coefficient
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient
from .evidence import count_systems
from .pair_tests import Finding, PairTests, Standing
from .reliability import MetricReliability, describe_judgements
from .wording import list_words


def describe_trusted_metric(
    finished: FinishedRun, reliability: MetricReliability, labels: Mapping[str, str]
) -> str:
    """Say which metrics agree best with people by a run, and at which level; empty where it tested nothing of them.

    Metrics whose difference from the best is not significant are named together with it. `captau rank` tests systems, and
    no metrics, so that nothing is said by its run.

    Args:
        finished: the run that `trust=` names.
        reliability: of the metrics, from this run.
        labels: the metrics' names in tables.
    """
    specs_by_column: dict[tuple[str, str], list[str]] = {}
    for spec, number in reliability.by_spec.items():
        specs_by_column.setdefault((number.judgements, number.coefficient), []).append(spec)
    if not specs_by_column or not finished.has_correlations:
        return ""

    # Values of unlike coefficients or judgements do not compare.
    column = max(specs_by_column, key=lambda key: len(specs_by_column[key]))
    specs = specs_by_column[column]
    if len(specs) < 2:
        return ""

    return _describe_column(finished, *column, {spec: labels[spec] for spec in specs})


def _describe_column(
    finished: FinishedRun, judgements: str, coefficient: str, labels: Mapping[str, str]
) -> str:
    """Return the sentence on one column of a run's coefficients."""
    standings: list[Standing] = []
    dataset = dimension = protocol = ""
    for row in records_of(finished.correlations):
        is_own = row["coefficient"] == coefficient and row["metric"] in labels
        if not is_own or describe_judgements(row["dataset"], row["dimension"]) != judgements:
            continue

        dataset, dimension, protocol = row["dataset"], row["dimension"], row["protocol"]
        key = (dataset, dimension, coefficient, row["metric"])
        rank = finished.rank_by_key.get(key)
        label = labels[row["metric"]]
        standings.append(Standing(label, row["value"], rank=rank, name=row["metric"]))

    standings.sort(key=lambda standing: -standing.value)
    options = finished.find_protocol(dataset, protocol) or {}
    are_systems = options.get("level") == "system"
    n_systems = count_systems(finished, dataset, protocol)

    tests = _find_tests(finished, standings, dataset, (dimension, coefficient), n_systems)
    best, *followers = standings
    level = [best.label]
    ahead_of: list[str] = []
    for follower in followers:
        finding = tests.find(best.key, follower.key)
        if finding is Finding.LEVEL:
            level.append(follower.label)
        elif finding is Finding.AHEAD:
            ahead_of.append(follower.label)
    # What was not tested is not said.
    if len(level) == 1 and not ahead_of:
        return ""

    symbol = find_coefficient(coefficient).symbol.removesuffix(" %")
    number = f"{symbol} {format_coefficient(best.value, coefficient)}"
    where = "By systems' means" if are_systems else "Caption by caption"
    agree = f"{best.label} agrees best with people ({number})"
    if len(level) > 1:
        agree = f"{list_words(level)} agree best with people, without a significant difference"
    ahead = ""
    if ahead_of:
        of_whom = f"{best.label} " if len(level) > 1 else ""
        ahead = f", {of_whom}significantly ahead of {list_words(ahead_of)}"
    untested = "" if are_systems else "; how metrics order systems was not tested"
    return f"{where} on {judgements}, {agree}{ahead}{untested} (run {finished.folder})."


def _find_tests(
    finished: FinishedRun,
    standings: list[Standing],
    dataset: str,
    column: tuple[str, str],
    n_systems: int | None,
) -> PairTests:
    """Return what the tests of every two metrics found, or what the ranks say of it where the run kept no tests."""
    statistics = StatisticsOptions(**finished.run.get("config", {}).get("statistics") or {})
    if finished.has_file("significance.csv"):
        rows = finished.significance
        rows = rows[rows["dataset"] == dataset]
        tests = PairTests.of_significance(rows, column, statistics, n_systems)
        if tests.findings:
            return tests

    n_images = finished.run.get("n_images", {}).get(dataset)
    return PairTests.of_ranks(standings, statistics, n_images, n_systems)
