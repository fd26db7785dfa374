"""Errors of Hydra and OmegaConf on what was typed, each as one line that says what to write instead."""

from __future__ import annotations

import re

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationResolutionError,
    OmegaConfBaseException,
)

from ...datasets.errors import InputError, unknown
from ..scoring.catalog import choices_of
from .command import Command
from .registry import COMMANDS

#: Exceptions of Hydra and OmegaConf on overrides that cannot be composed.
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, ValueError, KeyError)
#: The packages that bring launchers and sweepers which Hydra's own documentation names.
_PLUGINS = {
    "joblib": "captau[sweeps]",
    "submitit_local": "captau[sweeps]",
    "submitit_slurm": "captau[sweeps]",
    "ray": "hydra-ray-launcher",
    "rq": "hydra-rq-launcher",
    "optuna": "hydra-optuna-sweeper",
    "ax": "hydra-ax-sweeper",
    "nevergrad": "hydra-nevergrad-sweeper",
}


def explain_interpolation(error: OmegaConfBaseException) -> InputError:
    """Return one line for a value that refers to something that is not there."""
    reason = str(error).splitlines()[0].rpartition("interpolation: ")[2].replace('"', "")
    if reason.startswith("Recursive interpolation") and "full_key: output_dir" in str(error):
        return InputError(
            "output_dir= refers to itself, as Hydra's override_dirname holds it; write hydra.run.dir=… instead"
        )
    return InputError(f"{reason}; write the value itself")


def explain(error: Exception, command: Command) -> InputError:
    """Return one line for an error of Hydra or OmegaConf on the overrides."""
    text = str(error)
    if isinstance(error, InterpolationKeyError | InterpolationResolutionError):
        return explain_interpolation(error)
    if isinstance(error, MissingConfigException):
        return _explain_missing_file(error, command)
    if "full_key: hydra.sweeper.params" in text or text.startswith("Unexpected type"):
        return InputError(
            "Hydra cannot set hydra.sweeper.params on the command line; write KEY=A,B or KEY=range(…) there, or "
            "hydra.sweeper.params in an experiment's file"
        )
    if (failed_function := _explain_function(text)) is not None:
        return failed_function
    if (missing_default := _explain_missing_default(text)) is not None:
        return missing_default
    if (advice := _advise(text)) is not None:
        return InputError(f"{text.strip().splitlines()[0].rstrip('.')}; {advice}")

    match = (
        re.search(r"Could not override '([^']+)'", text)
        or re.search(r"Key '([^']+)' (?:is )?not in '", text)
        or re.search(r"full_key: ([\w.]+)", text)
    )
    if match and ("Could not override" in text or "not in" in text):
        key = match.group(1)
        new_key = re.search(r"Key '([^']+)' is not in struct", f"{text}\n{error.__cause__}")
        if key.startswith("hydra") and new_key and not key.endswith(f".{new_key[1]}"):
            return InputError(f"{key} has no {new_key[1]} yet; +{key}=… adds it")
        if key.startswith("hydra"):
            return InputError(f"Hydra has no option {key}; +{key}=… adds it")
        if key.startswith("rater.") and command.name == "train":
            return InputError(
                f"'{key}' is not an option of this rater; captau train rater=NAME --cfg job shows them"
            )
        keys = [option.key for option in command.declared()]
        listed_by = f"captau {command.name} --help all"
        return unknown(f"option of captau {command.name}", key, keys, listed_by=listed_by)

    return _explain_value(error, text)


def _explain_missing_file(error: MissingConfigException, command: Command) -> InputError:
    """Return one line for a configuration that is not there, or whose plugin is not."""
    path = (error.missing_cfg_file or "").strip("/")
    folder, _, name = path.rpartition("/")
    if name in {other.slug for other in COMMANDS.values()}:
        return InputError(
            f"the primary file is of another command, {name}; for captau {command.name} its defaults begin with "
            f"[{command.slug}, _self_]"
        )
    if not folder:
        return InputError(
            f"there is no configuration '{name}'; --config-dir DIR says where it lies"
        )
    if folder in ("hydra/launcher", "hydra/sweeper") and name in _PLUGINS:
        return InputError(f"{folder}={name} needs a plugin: pip install '{_PLUGINS[name]}'")
    return unknown(folder, name, list(error.options or choices_of(folder)))


def _explain_function(text: str) -> InputError | None:
    """Return one line for a function of Hydra's grammar that has no value, or is none; None for other errors."""
    match = re.search(r"while evaluating '(.+)': (.+)(?:\nAvailable: (.+))?", text)
    if match is None:
        return None

    function, reason, known = match.groups()
    if known is None:
        return InputError(f"{function}: {reason}")
    return InputError(f"Hydra 1.3 has no function {function.partition('(')[0]}; known: {known}")


def _explain_missing_default(text: str) -> InputError | None:
    """Return one line for a group of the user's own that is not among the defaults; None for other errors."""
    match = re.search(r"append to your default list use (\+\S+)", text)
    if match is None:
        return None

    group = match[1].removeprefix("+").partition("=")[0]
    return InputError(f"the defaults lack {group}; write {match[1]}")


def _advise(text: str) -> str | None:
    """Return what to write instead of an override that Hydra refuses; None where its error needs no advice."""
    if text.startswith("Could not append to config. An item is already"):
        return "leave out the +"
    if text.startswith("force-add of config groups is not supported"):
        return "leave out the ++"
    if "appears more than once in the final defaults list" in text:
        return "leave out the +, or write a list, [A,B]"
    if text.startswith("Multiple values for"):
        return "on the command line, leave out the +"
    if text.startswith("Could not delete from config"):
        return "leave out the ~ and what follows it"
    if text.startswith("provider=hydra.searchpath"):
        return "name a folder that is there: hydra.searchpath=[file://FOLDER]"
    if text.startswith("Ambiguous value for argument"):
        return "write [A,B] for a list, or add --multirun for a run of each"
    if text.startswith("Sweep parameters") and "requires --multirun" in text:
        return "add --multirun"
    return None


def _explain_value(error: Exception, text: str) -> InputError:
    """Return one line for a value of another type, or for what else Hydra says in its first line."""
    first_line = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if type(error).__name__ == "OverrideParseException":
        override = getattr(error, "override", "")
        return InputError(
            f"'{override}' is not of the form key=value ({first_line}); quote what has brackets or blanks: "
            "'metrics=cider(df=FILE)'"
        )

    first_line = first_line.partition(", set env var HYDRA_FULL_ERROR")[0]

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
    if isinstance(causes[-1], ModuleNotFoundError):
        reason += "; PYTHONPATH=FOLDER says where a module of your own lies"
    return InputError(first_line if reason in ("", first_line) else f"{first_line}: {reason}")
