"""Launchers, which give the jobs of a sweep their processes: `hydra/launcher=`.

joblib's launcher is Hydra's own. submitit's is Hydra's but for how it waits: Hydra's gives all jobs up
with the first whose process died. Ray's is captau's, as Hydra's cannot join a cluster that is running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from .jobs import JobTask


def check_installed(options: Sequence[str]) -> None:
    """Check that the modules of a launcher are installed; without them Hydra would not know its name.

    Raises:
        InputError: where one is not.
    """
    for word in options:
        name = word.partition("=")[2]
        if word.startswith("hydra/launcher=") and name in LAUNCHERS:
            extra, modules, _ = LAUNCHERS[name]
            for module in modules:
                if not _is_installed(module):
                    raise InputError(f"{word} needs {module}: pip install 'captau[{extra}]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False


def make_launcher(config: DictConfig, loader: Any, task: JobTask) -> Launcher:
    """Return the launcher that a configuration chooses, set up to run a task."""
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext

    context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
    name = config.hydra.runtime.choices["hydra/launcher"]
    if name not in LAUNCHERS:  # Hydra's basic launcher, or a plugin
        return Plugins.instance().instantiate_launcher(
            hydra_context=context, config=config, task_function=task
        )
    options: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    options.pop("_target_", None)
    launcher = LAUNCHERS[name][2](options)
    launcher.setup(hydra_context=context, config=config, task_function=task)
    return launcher


def _make_joblib(options: dict[str, Any]) -> Launcher:
    from hydra_plugins.hydra_joblib_launcher.joblib_launcher import JoblibLauncher

    # One job after another: a batch would have to be done again as a whole.
    return JoblibLauncher(**{**options, "batch_size": 1})


def _make_submitit_local(options: dict[str, Any]) -> Launcher:
    from .launch_submitit import SubmititLauncher

    limit = max(1, count_cores() // (options["cpus_per_task"] or 1))
    return SubmititLauncher("local", limit, **options)


def _make_slurm(options: dict[str, Any]) -> Launcher:
    from .launch_submitit import SubmititLauncher

    return SubmititLauncher("slurm", **options)


def _make_ray(options: dict[str, Any]) -> Launcher:
    from .launch_ray import RayLauncher

    return RayLauncher(**options)


_SUBMITIT = ("submitit", "hydra_plugins.hydra_submitit_launcher")
#: By name: the extra and the modules that a launcher needs, and the function that makes it of its options.
LAUNCHERS: dict[str, tuple[str, Sequence[str], Callable[[dict[str, Any]], Launcher]]] = {
    "joblib": ("sweeps", ("joblib", "hydra_plugins.hydra_joblib_launcher"), _make_joblib),
    "submitit_local": ("sweeps", _SUBMITIT, _make_submitit_local),
    "submitit_slurm": ("sweeps", _SUBMITIT, _make_slurm),
    "slurm": ("sweeps", _SUBMITIT, _make_slurm),
    "ray": ("ray", ("ray",), _make_ray),
}
