"""captau: how well do image-caption metrics agree with people?

`load(name)` reads a dataset of human judgements, `metric(spec)` makes a metric, and
`bench(dataset, metrics)` scores the one with the other and correlates. What they were given and
cannot use, they answer with an `InputError`. All four are imported on first use, so that
`import captau` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captau.benchmarks.run import bench
    from captau.datasets.errors import InputError
    from captau.datasets.registry import load
    from captau.metrics.registry import metric

__version__ = "0.1.0"
__all__ = ["InputError", "bench", "load", "metric"]

_HOMES = {
    "InputError": "captau.datasets.errors",
    "load": "captau.datasets.registry",
    "metric": "captau.metrics.registry",
    "bench": "captau.benchmarks.run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'captau' has no attribute '{name}'")
