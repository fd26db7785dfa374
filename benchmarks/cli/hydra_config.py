"""The configuration of a command for Hydra: its schema with defaults, its config groups, and where its runs go.

Hydra composes a command's configuration of this, of captau's YAML files and of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import (
    AnyNode,
    BooleanNode,
    DictConfig,
    FloatNode,
    IntegerNode,
    ListConfig,
    OmegaConf,
    StringNode,
)

from ...conf import own_files, shipped_names
from ...datasets.paths import expand_home
from ..options.declaration import Composed, Option
from ..options.shared import EXPERIMENT
from ..runs.output_folder import DEFAULT_FOLDER, HYDRA_FOLDER, temporary_of
from ..scoring.catalog import dataset_names, read_config, usual_protocol
from .command import Command
from .registry import find_command

_NODES: dict[Any, Callable[..., Any]] = {
    str: StringNode,
    int: IntegerNode,
    float: FloatNode,
    bool: BooleanNode,
}
#: Hydra's choice of a log that leaves loggers alone; captau prints its own.
QUIET = "none"
#: The value of `hydra.run.dir` for commands that write no run: the present folder, but not as people type it.
NO_FOLDER = "./."


def _node_of(option: Option) -> Any:
    """Return an OmegaConf node that checks values of an option and has its default."""
    origin = get_origin(option.type)
    arguments = get_args(option.type)
    if origin is list:
        return ListConfig(option.default, element_type=arguments[0])
    if origin is dict:
        return DictConfig(option.default, key_type=arguments[0], element_type=arguments[1])

    # A plain list becomes OmegaConf's own.
    if option.type is Any and isinstance(option.default, list):
        return option.default
    if option.type is Any:
        return AnyNode(option.default)

    (kind,) = {*(arguments or (option.type,))} - {type(None)}
    return _NODES[kind](option.default, is_optional=type(None) in arguments)


def configuration_of(command: Command) -> dict[str, Any]:
    """Return the primary configuration of a command: its schema with defaults, its groups, and Hydra's own."""
    groups: list[Any] = []
    tree: dict[str, Any] = {}
    for option in command.options.declared():
        if option.config_group:
            groups.append({f"/{option.config_group}": option.default})
            if option.config_group == "rater":
                tree["rater"] = DictConfig({}, key_type=str, element_type=Any)
            continue

        branch = tree
        *parents, name = option.key.split(".")
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = _node_of(option)

    if EXPERIMENT in command.options.declared():
        # The options of an experiment are those of the command, whatever the file's header says.
        groups.append({"/experiment@_global_": None})

    tree["hydra"] = _hydra_configuration(command)
    quiet = [{f"override /hydra/{name}": QUIET} for name in ("job_logging", "hydra_logging")]
    return {"defaults": ["_self_", *groups, *quiet], **tree}


def _hydra_configuration(command: Command) -> dict[str, Any]:
    """Return where runs and sweeps of a command go, unless something else is typed."""
    new_folder = f"{DEFAULT_FOLDER}/${{now:%Y%m%d-%H%M%S-%f}}"
    return {
        "run": {"dir": f"${{captau.run_dir:'{command.name}',{new_folder}-{command.slug}}}"},
        "sweep": {"dir": f"${{captau.sweep_dir:{new_folder}-multirun}}"},
        "output_subdir": "${captau.output_subdir:${hydra.run.dir}}",
        "job": {"name": "captau"},
        "help": {"app_name": f"captau {command.name}"},
        "callbacks": {"captau": {"_target_": f"{__package__}.hydra_runner.FolderCallback"}},
    }


def _run_dir(name: str, new_folder: str, *, _root_: DictConfig) -> str:
    """Return the folder of a run: `output_dir=`, else a fresh one, or none for what writes no run."""
    composed = Composed(_root_)
    if not find_command(name).options.has_run_folder(composed):
        return NO_FOLDER
    return _named_folder(_root_) or new_folder


def _sweep_dir(new_folder: str, *, _root_: DictConfig) -> str:
    """Return the folder of a sweep: `output_dir=`, else a fresh one."""
    return _named_folder(_root_) or new_folder


def _named_folder(root: DictConfig) -> str:
    """Return the folder of `output_dir=`; empty where none is named."""
    output_dir = Composed(root).get("output_dir")
    return str(expand_home(output_dir)) if output_dir else ""


def _output_subdir(run_dir: str, *, _root_: DictConfig) -> str | None:
    """Return the folder of Hydra's own files in a run's; None where there is no run.

    Outside of sweeps it has a temporary name until the run is written, as the folder may hold an earlier run.
    """
    if run_dir == NO_FOLDER:
        return None
    if _root_.hydra.mode == RunMode.MULTIRUN:
        return HYDRA_FOLDER
    return temporary_of(Path(HYDRA_FOLDER)).name


# The processes of launchers import this module with the job that they are given.
OmegaConf.register_new_resolver("captau.run_dir", _run_dir, replace=True)
OmegaConf.register_new_resolver("captau.sweep_dir", _sweep_dir, replace=True)
OmegaConf.register_new_resolver("captau.output_subdir", _output_subdir, replace=True)


#: The folder of `CommandSource` in Hydra's store, which launchers send to their processes.
_STORED = "captau"


class CommandSource(ConfigSource):
    """Hydra's source of the commands, and of one's own files that mean something only to captau.

    It comes before the folder of `--config-dir`: Hydra would otherwise read captau's own kinds of files there, such as
    `dataset/NAME.yaml`, without knowing what their fields mean.
    """

    @staticmethod
    def scheme() -> str:
        """Return the scheme of its place in the search path."""
        return "captau"

    def available(self) -> bool:
        """Tell whether it can be read."""
        return True

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the configuration of a path."""
        stored = ConfigStore.instance().load(f"{_STORED}/{self._normalize_file_name(config_path)}")
        return ConfigResult(
            provider=self.provider,
            path=self.full_path(),
            config=stored.node,
            header={"package": stored.package},
        )

    def is_group(self, config_path: str) -> bool:
        """Tell whether a path is of a config group."""
        stored_type = ConfigStore.instance().get_type(f"{_STORED}/{config_path}".rstrip("/"))
        return stored_type == ObjectType.GROUP

    def is_config(self, config_path: str) -> bool:
        """Tell whether a path is of a configuration."""
        name = self._normalize_file_name(config_path.rstrip("/"))
        return ConfigStore.instance().get_type(f"{_STORED}/{name}") == ObjectType.CONFIG

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List the names in a group, without their endings."""
        if not self.is_group(config_path):
            return []
        names: list[str] = []
        for name in ConfigStore.instance().list(f"{_STORED}/{config_path}".rstrip("/")):
            path = f"{config_path}/{name}".lstrip("/")
            self._list_add_result(names, path, name, results_filter)
        return sorted(set(names))


class CommandSearchPath(SearchPathPlugin):
    """Search path in which captau's own configurations come before those of the user."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put them right behind captau's own files."""
        anchor = SearchPathQuery(provider="main")
        search_path.append(provider="captau", path="captau://", anchor=anchor)


def _store(group_name: str, name: str, node: Any, package: str) -> None:
    """Make a configuration known to `CommandSource`."""
    group_path = f"{_STORED}/{group_name}".rstrip("/")
    ConfigStore.instance().store(name, node, group=group_path, package=package)


def register(command: Command, experiments: Mapping[str, dict[str, Any]] | None = None) -> None:
    """Make a command known to Hydra by its slug, with the names that Hydra does not read from files itself.

    Args:
        command: the command.
        experiments: the user's own experiments by name, as `read_experiments` returns them.
    """
    for plugin in (CommandSource, CommandSearchPath):
        Plugins.instance().register(plugin)
    # Forget the commands that ran before in this process: Hydra copies its whole store for each composition.
    ConfigStore.instance().repo.pop(_STORED, None)
    # A name at the top lets Hydra look for groups of `+group=NAME` there.
    _store("", command.slug, configuration_of(command), "_global_")

    # Hydra reads captau's own files by itself.
    takes_datasets = any(option.config_group == "dataset" for option in command.declared())
    if takes_datasets:
        for dataset in sorted({*dataset_names()} - shipped_names("dataset")):
            node = {"protocol": usual_protocol(dataset)}
            _store("dataset", dataset, node, f"datasets.{dataset}")

    for group_name, package in (("protocol", "protocol"), ("paper", "papers.{}")):
        for name in own_files(group_name):
            named = {"name": name} if group_name == "protocol" else {}
            node = {**named, **read_config(group_name, name)}
            _store(group_name, name, node, package.format(name))

    for name, node in (experiments or {}).items():
        _store("experiment", name, node, "_global_")
