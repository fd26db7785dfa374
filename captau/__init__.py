"""captau: how well do image-caption metrics agree with people?

`load(name)` reads a dataset of human judgements, `metric(spec)` makes a metric, and
`bench(dataset, metrics)` scores the one with the other and correlates. What they were given and
cannot use, they answer with an `InputError`. All four are imported on first use, so that
`import captau` stays quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captau.benchmarks.commands.bench import bench
    from captau.datasets.errors import InputError
    from captau.datasets.registry import load
    from captau.metrics.registry import metric

__version__ = "0.1.0"
__all__ = ["InputError", "bench", "load", "metric"]

_HOMES = {
    "InputError": "captau.datasets.errors",
    "load": "captau.datasets.registry",
    "metric": "captau.metrics.registry",
    "bench": "captau.benchmarks.commands.bench",
}

#: Modules that go by a shorter name, as in `from captau.testing import assert_scores`.
_MODULES = {
    "captau.compat": "captau.benchmarks.scoring.coco_compat",
    "captau.testing": "captau.benchmarks.regression.assert_scores",
}


class _Alias(ModuleType):
    """Stands for a module, which is imported when a name in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        # Who looks through all modules asks for `__file__` and the like, and is to import nothing.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return getattr(import_module(_MODULES[self.__name__]), name)


for _name in _MODULES:
    sys.modules.setdefault(_name, _Alias(_name))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if f"captau.{name}" in _MODULES:
        return sys.modules[f"captau.{name}"]
    raise AttributeError(f"module 'captau' has no attribute '{name}'")
