"""The public names of captau, which measures how well image-caption metrics agree with people.

`bench` correlates metrics with people's judgements, `compare` tests which metrics differ, `probe` shows which faults in
captions they notice, `rank` compares captioning systems, `score` scores your own captions, `estimate` estimates people's
rating of them from few ratings, and `reward` makes a metric the reward of a trainer. `agree` measures how far people
agree, `calibrate` whether a metric's yes can be believed, `reproduce` rebuilds published tables, `table` joins finished runs
in one table, and `complement`, `sensitivity` and `thresholds` study metrics as the commands of these names do. `load` reads a dataset of judgements, and `metric` makes a
metric by its name. To write a metric, extend `Metric` and `register` it. Wrong input raises an `InputError`. Each name is
imported on first use, so that `import captau` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captau import compat, testing
    from captau.benchmarks.commands.agree import agree
    from captau.benchmarks.commands.bench import bench, compare
    from captau.benchmarks.commands.calibrate import calibrate
    from captau.benchmarks.commands.complement import complement
    from captau.benchmarks.commands.estimate import estimate
    from captau.benchmarks.commands.probe import probe
    from captau.benchmarks.commands.rank import rank
    from captau.benchmarks.commands.reproduce import reproduce
    from captau.benchmarks.commands.score import score
    from captau.benchmarks.commands.sensitivity import sensitivity
    from captau.benchmarks.commands.table import table
    from captau.benchmarks.commands.thresholds import thresholds
    from captau.benchmarks.reporting.run_results import Results
    from captau.benchmarks.scoring.protocol import Protocol
    from captau.datasets.errors import InputError
    from captau.datasets.registry import load
    from captau.datasets.schema import CaptionSet
    from captau.metrics.base import Metric
    from captau.metrics.external import metric
    from captau.metrics.registry import register
    from captau.metrics.reward import reward

__version__ = "0.2.0"
__all__ = [
    "CaptionSet",
    "InputError",
    "Metric",
    "Protocol",
    "Results",
    "agree",
    "bench",
    "calibrate",
    "compare",
    "compat",
    "complement",
    "estimate",
    "load",
    "metric",
    "probe",
    "rank",
    "register",
    "reproduce",
    "reward",
    "score",
    "sensitivity",
    "table",
    "testing",
    "thresholds",
]

_MODULES = {
    "CaptionSet": "captau.datasets.schema",
    "InputError": "captau.datasets.errors",
    "Metric": "captau.metrics.base",
    "Protocol": "captau.benchmarks.scoring.protocol",
    "Results": "captau.benchmarks.reporting.run_results",
    "agree": "captau.benchmarks.commands.agree",
    "bench": "captau.benchmarks.commands.bench",
    "calibrate": "captau.benchmarks.commands.calibrate",
    "compare": "captau.benchmarks.commands.bench",
    "complement": "captau.benchmarks.commands.complement",
    "estimate": "captau.benchmarks.commands.estimate",
    "load": "captau.datasets.registry",
    "metric": "captau.metrics.external",
    "probe": "captau.benchmarks.commands.probe",
    "rank": "captau.benchmarks.commands.rank",
    "register": "captau.metrics.registry",
    "reproduce": "captau.benchmarks.commands.reproduce",
    "reward": "captau.metrics.reward",
    "score": "captau.benchmarks.commands.score",
    "sensitivity": "captau.benchmarks.commands.sensitivity",
    "table": "captau.benchmarks.commands.table",
    "thresholds": "captau.benchmarks.commands.thresholds",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name in __all__:
        return import_module(f"captau.{name}")
    raise AttributeError(f"module 'captau' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
