"""A key=value as Hydra reads it: names checked, lists and paths quoted, `all` and sets of datasets spelt out."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_origin

from ...conf import CONFIG_DIR
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home, is_file
from ...metrics.spec_text import split_at_commas
from ..options.declaration import Option
from .command import Command
from .option_hints import refuse_option

#: The option of experiments, and their group as Hydra's overrides name it: an experiment's options are the command's.
EXPERIMENT = "experiment"
EXPERIMENT_GROUP = f"{EXPERIMENT}@_global_"
#: The flag that names a folder of one's own files (docs/own_files.md).
OWN_FILES = "--config-dir"
#: Hydra's functions of values that a sweep takes in turn.
_SWEEP_FUNCTION = re.compile(r"(choice|glob|range|interval|shuffle|sort|tag)\(")


def _may_be_of_own_group(key: str, words: Sequence[str]) -> bool:
    """Tell whether a key may be of a config group of the user's own, which Hydra knows."""
    if _has_other_folders(words):
        return True
    folder = os.environ.get(CONFIG_DIR)
    group_name = re.split(r"[./]", key)[0]
    return bool(folder and group_name and (Path(folder) / group_name).is_dir())


def _has_other_folders(words: Sequence[str]) -> bool:
    """Tell whether Hydra has a search path of the user's own."""
    return any(word.lstrip("+").startswith("hydra.searchpath=") for word in words)


def _split_dictionary(
    word: str, options: Mapping[str, Option], *, is_sweep: bool
) -> list[str] | None:
    """Return `statistics.seed=3` for `statistics={seed:3}`; a sweep's `{seed:3},{seed:4}` is left to Hydra.

    None is returned where no option lies below the key, or where Hydra cannot read the value.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key = word.partition("=")[0]
    if not any(name.startswith(f"{key}.") for name in options):
        return None
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException:
        return None

    if override.is_sweep_override():
        return [word] if is_sweep else None

    values: Any = override.value()
    overrides: list[str] = []
    for name, value in values.items():
        part = replace(override, _value=value)
        overrides.append(f"{key}.{name}={part.get_value_element_as_str()}")
    return overrides


def read_override(
    command: Command, word: str, words: Sequence[str], *, is_sweep: bool
) -> list[str]:
    """Return a key=value as Hydra reads it: names checked, lists and paths quoted, `all` spelt out.

    `metrics=a,b` is a list, but for a sweep, where Hydra makes a run of each.

    Raises:
        InputError: on an unknown option or name.
    """
    key, _, value = word.partition("=")
    options = {option.key: option for option in command.declared()}

    if EXPERIMENT in options and word in (f"~{EXPERIMENT}", f"{EXPERIMENT}=null"):
        return [f"~{EXPERIMENT_GROUP}"]

    if value.startswith("{"):
        parts = _split_dictionary(word, options, is_sweep=is_sweep)
        if parts == [word]:
            return [word]
        if parts is not None:
            overrides: list[str] = []
            for part in parts:
                overrides += read_override(command, part, words, is_sweep=is_sweep)
            return overrides

    if key.lstrip("+") == EXPERIMENT and EXPERIMENT in options:
        names = _list_parts(value) or []
        is_list = len(names) > 1 and value[0] != "[" and not is_sweep
        return [f"{EXPERIMENT_GROUP}={f'[{value}]' if is_list else value}"]

    if key.startswith("+"):
        _check_added_key(command, key, options)
    if key.startswith(("hydra.help.", "hydra/help")):
        raise InputError(
            f"{key}= changes nothing, as captau {command.name} --help shows a text of its own; leave it out"
        )

    # What Hydra itself, or the chosen rater, reads and checks.
    if key.startswith(("hydra.", "hydra/", "datasets.", "+", "~")) or "@" in key:
        return [word]
    if key.startswith("rater.") and command.name == "train":
        return [word]

    if key not in options:
        if _may_be_of_own_group(key, words):
            return [word]
        raise refuse_option(command, key, options, value)

    option = options[key]
    if not option.config_group:
        return [_quote_override(option, value, word, is_sweep=is_sweep)]
    try:
        return _read_names(command, key, value, is_sweep=is_sweep)
    except InputError as error:
        if not _has_other_folders(words):
            raise
        raise InputError(f"{error}; a {key} of your own lies in {OWN_FILES} DIR") from error


def _quote_override(option: Option, value: str, word: str, *, is_sweep: bool) -> str:
    """Return the key=value of an option with lists and literal texts quoted as Hydra needs them.

    Args:
        option: the option.
        value: what follows the equals sign.
        word: the key=value as it was given.
        is_sweep: whether commas part runs, and not elements.
    """
    key = option.key
    if key == "metrics":
        if is_sweep:
            return f"metrics={_quote_swept_specs(value)}"

        specs = _list_parts(value)
        if specs is not None:
            return f"metrics=[{','.join(map(_quote_spec, specs))}]"

    if option.is_literal and value and value[0] not in "'\"" and value != "null":
        # A sweep has one folder, whatever its name.
        is_swept = is_sweep and key != "output_dir"
        quote = _quote_swept_files if is_swept else _quoted_value
        return f"{key}={quote(option, value)}"

    is_list = get_origin(option.type) is list and value[:1] != "["
    has_parts = option.type is Any and len(split_at_commas(value) or []) > 1
    if (is_list or has_parts) and not is_sweep:
        return f"{key}=[{value}]"
    return word


def _check_added_key(command: Command, key: str, options: Mapping[str, Option]) -> None:
    """Check that a key that `+` adds is no slip for an option: nothing would read it.

    Raises:
        InputError: where it is one.
    """
    name = key.lstrip("+")
    if name in options or "@" in name or name.startswith("hydra"):
        return
    if difflib.get_close_matches(name, options, n=1, cutoff=0.85):
        raise refuse_option(command, key, options)


def _list_parts(value: str) -> list[str] | None:
    """Return the elements of `A,B` or `[A,B]`; None where brackets or quotes do not match."""
    is_bracketed = value.startswith("[") and value.endswith("]")
    parts = split_at_commas(value[1:-1] if is_bracketed else value)
    if parts is None:
        return None
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]


def _quote_swept_specs(value: str) -> str:
    """Return the metrics of a sweep with those in quotes that have parameters; Hydra's own functions stay."""
    parts = split_at_commas(value)
    if parts is None or _SWEEP_FUNCTION.match(value):
        return value
    specs: list[str] = []
    for part in parts:
        is_bare = "(" in part and part[0] not in "['\""
        specs.append(_quote_spec(part) if is_bare else part)
    return ",".join(specs)


def _quote_spec(spec: str) -> str:
    """Return a metric in quotes of Hydra's grammar, in which brackets mean something else."""
    if spec[0] in "'\"" and spec[-1] == spec[0]:
        return spec
    return f'"{spec}"' if '"' not in spec else f"'{spec}'"


def _read_names(command: Command, key: str, value: str, *, is_sweep: bool) -> list[str]:
    """Return the overrides for files of a config group."""
    if _SWEEP_FUNCTION.match(value):
        return [f"{key}={value}"]

    resolved = resolve_names(command, key, value)
    is_as_typed = list(resolved) == [key] and value != "all"
    if key == "protocol" and len(resolved[key]) > 1 and value[0] != "[" and not is_sweep:
        raise InputError(
            f"{key}={value}: a run has one protocol; add --multirun for a run of each, or write {key}=[{value}] to put "
            "the choices of the later ones over those of the first"
        )
    if is_as_typed and (len(resolved[key]) == 1 or value[0] == "[" or is_sweep):
        return [f"{key}={value}"]
    return [f"{name}=[{','.join(names)}]" for name, names in resolved.items()]


def resolve_names(command: Command, key: str, value: str) -> dict[str, list[str]]:
    """Return the names that a text of a config group means, by the option that takes them: sets of datasets spelt out.

    Raises:
        InputError: on an unknown name.
    """
    from ..scoring.catalog import SET_NAMES, choices_of, expand_sets

    options = command.options
    known_names = choices_of(key)
    models = options.model_names if key == "dataset" else ()
    sets = SET_NAMES if key == "dataset" and options.takes_sets else ()
    choices = [*known_names, *models, *sets, *(["all"] if key == options.takes_all else [])]
    if value == "all" and "all" in choices:
        return {key: known_names}

    names = re.findall(r"[^\[\],\s'\"]+", value)
    if not names:
        raise InputError(f"{key}= is empty; known: {', '.join(choices)}")
    for name in names:
        if name in (*known_names, *models, *sets):
            continue
        if key == "rater":
            from ...metrics.learned.common.recipe import unknown_rater

            raise unknown_rater(name, choices)
        if key == "dataset" and is_file(name):
            raise InputError(f"dataset={name} is a file; write dataset=file file.path={name}")
        raise unknown(key, name, choices)
    if not set(names).isdisjoint(sets):
        names, optional = expand_sets(names)
        return {key: names, "optional_datasets": optional}

    named_models = [name for name in names if name in models]
    if not named_models:
        return {key: names}

    datasets = [name for name in names if name not in models]
    resolved = {"models": named_models}
    if datasets:
        resolved[key] = datasets
    return resolved


def _quoted_value(option: Option, value: str) -> str:
    is_list = value[0] == "[" and value[-1] == "]"
    if "," in value and not expand_home(value).exists():
        # Files that are there tell a list from a name with a comma in it.
        files = [part.rpartition("=")[2] for part in value.split(",")]
        is_list = is_list or any(expand_home(file).exists() for file in files)
    if option.has_several and is_list:
        paths = re.findall(
            r"(?:'[^']*'|\"[^\"]*\"|\\\\.|[^,])+", value.removeprefix("[").removesuffix("]")
        )
        bare_paths: list[str] = []
        for path in paths:
            bare_paths.append(re.sub(r"^(\w+=)?(['\"])(.*)\2$", r"\1\3", path.strip()))
        return f"[{','.join(quoted(_unescaped(path)) for path in bare_paths)}]"
    return quoted(_unescaped(value))


def _unescaped(path: str) -> str:
    """Return a path without the backslashes that Hydra's grammar has before signs of its own; files that are there stay."""
    if "\\" not in path or expand_home(path).exists():
        return path
    return re.sub(r"\\([\\()\[\]{}:=, \t])", r"\1", path)


def _quote_swept_files(option: Option, value: str) -> str:
    """Return the files of a sweep in quotes, each of which is a job's; Hydra's own functions stay."""
    parts = split_at_commas(value)
    if _SWEEP_FUNCTION.match(value):
        return value
    if parts is None or len(parts) < 2 or expand_home(value).exists():
        return _quoted_value(option, value)

    return ",".join(
        part if part[0] in "'\"" else _quoted_value(option, part) for part in parts if part
    )


def quoted(path: str) -> str:
    """Return a path in quotes of Hydra's grammar, its `~` spelt out.

    Raises:
        InputError: as `expand_home` does.
    """
    path = str(expand_home(path)) if path.startswith("~") else path
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
