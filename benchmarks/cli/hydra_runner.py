"""Hydra at the edge: the schema and defaults of a command, composition, and its errors as one line.

Hydra composes and checks what is typed; the command makes its options of that and runs its task.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args, get_origin

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
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
    open_dict,
)
from omegaconf.errors import OmegaConfBaseException

from ...conf import own_files, shipped_names
from ...datasets.errors import InputError, unknown
from ..options.declaration import Composed, Option
from ..scoring.catalog import choices_of, dataset_names, read_config, usual_protocol
from .command import Command
from .registry import find_command
from .tasks import JOB_FOLDER
from .terminal import show_text

_NODES: dict[Any, Callable[..., Any]] = {
    str: StringNode,
    int: IntegerNode,
    float: FloatNode,
    bool: BooleanNode,
}
#: Exceptions of Hydra and OmegaConf on overrides that cannot be composed.
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, ValueError, KeyError)


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


def configuration_of(command: Command) -> DictConfig:
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

    tree["hydra"] = {
        "output_subdir": None,
        "run": {"dir": "."},
        "sweep": {"dir": "results/runs/${now:%Y%m%d-%H%M%S}-multirun", "subdir": "."},
        "job": {"name": "captau"},
        "help": {"app_name": f"captau {command.name}"},
    }
    quiet = [{f"override /hydra/{name}": "none"} for name in ("job_logging", "hydra_logging")]
    return OmegaConf.create({"defaults": ["_self_", *groups, *quiet], **tree})


def register(command: Command) -> None:
    """Make a command known to Hydra as `command/NAME`."""
    store = ConfigStore.instance().store
    store(command.slug, configuration_of(command), group="command", package="_global_")
    # Hydra reads captau's own files by itself.
    takes_datasets = any(option.config_group == "dataset" for option in command.declared())
    if takes_datasets:
        for dataset in sorted({*dataset_names()} - shipped_names("dataset")):
            node = {"protocol": usual_protocol(dataset)}
            store(dataset, node, group="dataset", package=f"datasets.{dataset}")

    for group_name, package in (("protocol", "protocol"), ("paper", "papers.{}")):
        for name in own_files(group_name):
            named = {"name": name} if group_name == "protocol" else {}
            node = {**named, **read_config(group_name, name)}
            store(name, node, group=group_name, package=package.format(name))


def composed_of(config: DictConfig) -> Composed:
    """Return a composed configuration as plain data, with the keys that were typed.

    Raises:
        InputError: on the first option that is needed and missing.
    """
    try:
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0].rpartition("interpolation: ")[2].replace('"', "")
        raise InputError(f"{reason}; write the value itself") from error

    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise InputError(f"the option {missing[0]}=… is needed; see --help")

    plain: Any = OmegaConf.to_container(config)
    plain.pop("hydra", None)
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    return Composed(plain, frozenset(word.partition("=")[0].lstrip("+") for word in words))


def run_composed(name: str, config: DictConfig) -> int:
    """Run a command on its composed configuration, and return its exit status.

    Raises:
        InputError: on whatever of the user's cannot be used.
    """
    hydra_config = HydraConfig.get()
    is_job = hydra_config.mode == RunMode.MULTIRUN
    token = JOB_FOLDER.set(hydra_config.runtime.output_dir if is_job else None)
    try:
        return find_command(name).run(composed_of(config))
    finally:
        JOB_FOLDER.reset(token)


def _compose(command: Command, words: Sequence[str]) -> DictConfig:
    """Compose overrides once, where Hydra's own program would do so twice, to see whether it is a sweep.

    Raises:
        InputError: on overrides that cannot be composed.
    """
    try:
        with hydra.initialize_config_module("captau.conf", job_name="captau", version_base="1.3"):
            config = hydra.compose(f"command/{command.slug}", list(words), return_hydra_config=True)
            HydraConfig.instance().set_config(config)
    except COMPOSITION_ERRORS as error:
        raise explain(error, command) from error
    with open_dict(config):
        del config["hydra"]
    return config


def run_hydra(command: Command, words: Sequence[str]) -> int:
    """Run a command, or one of Hydra's flags, as Hydra's own program does, and return the exit status.

    Raises:
        InputError: on overrides that cannot be composed, and whatever else of the user's cannot be used.
    """
    register(command)
    if not any(word.startswith("-") for word in words):
        return run_composed(command.name, _compose(command, words))

    failure: Exception | None = None
    status = 0

    def task(config: DictConfig) -> None:
        # Hydra would print a line of its own about an exception; it is raised outside instead.
        nonlocal failure, status
        try:
            status = run_composed(command.name, config)
        except Exception as error:
            failure = error

    # Without this Hydra prints errors itself, over many lines, and exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    argv = sys.argv
    sys.argv = ["captau", *words]
    try:
        name = f"command/{command.slug}"
        hydra.main(version_base="1.3", config_path="pkg://captau.conf", config_name=name)(task)()
    except COMPOSITION_ERRORS as error:
        raise explain(error, command) from error
    finally:
        sys.argv = argv

    if failure is not None:
        raise failure
    return status


def run_multirun(command: Command, overrides: Sequence[str]) -> int:
    """Run `--multirun`: a run for each combination, each in a folder of its own within the sweep's.

    Raises:
        InputError: where the sweep cannot begin; faults of jobs are lines on stderr.
    """
    from ..runs.output_folder import OutputFolder
    from ..sweeps.sweep import compose_sweep, count_states, run_sweep

    register(command)
    output_dirs = [w.partition("=")[2].strip("'") for w in overrides if w.startswith("output_dir=")]
    hydra_words = [w for w in overrides if w.startswith(("hydra.", "hydra/"))]
    command_words = [w for w in overrides if not w.startswith(("hydra.", "hydra/", "output_dir="))]
    with OutputFolder(output_dirs[-1] if output_dirs else None, "multirun") as folder:
        try:
            composed = compose_sweep(command.name, command_words, hydra_words, folder.path)
        except COMPOSITION_ERRORS as error:
            raise explain(error, command) from error
        if not composed.sweep.jobs:
            raise InputError(
                "the sweep has no runs, as one of its lists or ranges is empty; give it a value"
            )
        outcomes = run_sweep(composed, partial(run_composed, command.name))

    sweep = composed.sweep
    for number, outcome in enumerate(outcomes):
        if outcome.state != "done":
            show_text(f"captau: {sweep.name(number)}: {outcome.message}", sys.stderr)
    show_text(f"\nwritten to {sweep.folder}: {count_states(outcomes)}")
    return max(outcome.status for outcome in outcomes)


def explain(error: Exception, command: Command) -> InputError:
    """Return one line for an error of Hydra or OmegaConf on the overrides."""
    text = str(error)
    missing = getattr(error, "missing_cfg_file", None)
    if isinstance(missing, str) and "/" in missing:
        folder, _, name = missing.strip("/").rpartition("/")
        return unknown(folder, name, choices_of(folder))

    match = (
        re.search(r"Could not override '([^']+)'", text)
        or re.search(r"Key '([^']+)' (?:is )?not in '", text)
        or re.search(r"full_key: ([\w.]+)", text)
    )
    if match and ("Could not override" in text or "not in" in text):
        key = match.group(1).partition("@")[0]
        if key.startswith("rater.") and command.name == "train":
            return InputError(
                f"'{key}' is not an option of this rater; captau train rater=NAME --cfg job shows them"
            )
        keys = [option.key for option in command.declared()]
        listed_by = f"captau {command.name} --help all"
        return unknown(f"option of captau {command.name}", key, keys, listed_by=listed_by)

    first_line = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if type(error).__name__ == "OverrideParseException":
        override = getattr(error, "override", "")
        return InputError(
            f"'{override}' is not of the form key=value ({first_line}); quote what has brackets or blanks: "
            "'metrics=cider(df=FILE)'"
        )

    # The reason stands at the end of the chain: "Value 'abc' … could not be converted to Integer".
    # OmegaConf adds one more cause where a debugger or a coverage tool traces the program.
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    reason = str(causes[-1]).strip().partition("\n")[0]

    override = re.match(r"Error merging override (.+)", first_line)
    kind = re.search(
        r"converted to (Integer|Float)|not a valid (bool)", "\n".join(map(str, causes))
    )
    if override and kind:
        expected = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
        return InputError(f"{override[1]}: {expected[kind[1] or kind[2]]} is expected")
    return InputError(first_line if reason in ("", first_line) else f"{first_line}: {reason}")
