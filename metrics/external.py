"""The way in for metrics from outside: a file of scores, a Python function, and a metric class that is not registered.

A person types `fleur.csv` or `file(path=fleur.csv,name=FLEUR)`, and `mine.py:overlap` or `python(module:function)`;
in Python a function, a class and an object are metrics as they are. `metric` takes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

from ..datasets.errors import InputError
from .base import Metric
from .outside_metric import OutsideMetric
from .python_function import GivenFunction, PythonFunction, make_instance
from .registry import metric as parse_metric

#: Whatever `metric` makes a metric of.
MetricSource = str | Metric | type[Metric] | Callable[..., Any]


def metric(source: MetricSource, name: str = "") -> Metric:
    """Make a metric.

    Args:
        source: a metric's name, with parameters in brackets (`cider(variant=plain)`); `mine.py:overlap` or
            `module:overlap`, a function, metric class or metric in Python code; `mine.csv`, a file of scores; or
            a function, class or metric itself (docs/new_metric.md).
        name: what results call a function; by default its own name.

    Raises:
        InputError: if a name, file or function is unknown, a parameter is wrong, or Python code raises an exception.

    Example:
        >>> metric(lambda caption: len(caption.split())).score([{"caption": "a dog runs"}]).tolist()
        [3.0]
    """
    if callable(source) and not isinstance(source, Metric | type):
        return GivenFunction.wrap(source, name)
    if name:
        raise InputError(f"name={name} is for a function, not for {source!r}")
    if isinstance(source, str):
        return load_metric(parse_metric(source))
    if isinstance(source, type):
        return make_instance(source, f"metric {source.__name__}")
    if not isinstance(source, Metric):
        raise InputError(f"metric {source!r}: a name is expected, such as 'cider', or a function")
    return source


def load_metric(metric: Metric) -> Metric:
    """Return a metric with the user's code loaded: of a class or metric that a spec names in Python code, that metric.

    Raises:
        InputError: if the code cannot be loaded, or names nothing that is a metric.
    """
    return metric.load_metric() if isinstance(metric, PythonFunction) else metric


def user_code_of(metric: Metric) -> str:
    """Return the code of the user's that a metric runs, as `mine.py:overlap` or `polos.py`; empty for other metrics."""
    return metric.code if isinstance(metric, OutsideMetric) and metric.code else metric.origin


def tell_apart(metric: Metric, taken_names: Container[str]) -> Metric:
    """Return a metric under a name that is free: `mine_2`, where `mine` is what it is called by default.

    Raises:
        InputError: if the name is not one that captau chose.
    """
    if not isinstance(metric, OutsideMetric) or metric.name != metric.default_name:
        raise InputError(f"metrics: two different metrics are called '{metric.spec}'")

    number = 2
    while f"{metric.name}_{number}" in taken_names:
        number += 1
    return replace(metric, **{"name": f"{metric.name}_{number}"})
