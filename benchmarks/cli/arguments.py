"""The words behind a command: flags apart from overrides, keys and names checked, paths quoted."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_origin

from ...conf import CONFIG_DIR
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...metrics.spec_text import split_at_commas
from ..options.declaration import Option
from .command import Command

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
#: Hydra's flags, with the words that may follow each.
FLAGS: dict[str, tuple[str, ...]] = {
    "--help": ("all",),
    "-h": ("all",),
    "--hydra-help": (),
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--resolve": (),
    "--package": (),
    "-p": (),
    "--run": (),
    "-r": (),
    "--multirun": (),
    "-m": (),
    "--config-name": (),
    "-cn": (),
    "--info": _INFO,
    "-i": _INFO,
}
#: Flags that a word of the user's own follows, with an example of it.
_NAMING_FLAGS = {
    "--package": "statistics",
    "-p": "statistics",
    "--config-name": "my_bench",
    "-cn": "my_bench",
}
_SHOWING_FLAGS = {"--cfg", "-c"}
_MULTIRUN_FLAGS = {"--multirun", "-m"}
#: Hydra's flags that captau does not have, and what is written instead.
_REFUSED_FLAGS = {
    "--config-path": "captau's own files stay; --config-dir DIR adds yours",
    "-cp": "captau's own files stay; --config-dir DIR adds yours",
    "--experimental-rerun": "captau unpickles no file; run=DIR repeats a finished run",
    "--version": "captau --version prints the version",
    "--shell-completion": "captau -sc install=bash comes without a command",
    "-sc": "captau -sc install=bash comes without a command",
}

#: Standard input, as a word of its own.
_STDIN = "-"
#: Endings of files of captions.
_CAPTION_FILES = (".json", ".jsonl", ".csv", ".tsv", ".gz", ".parquet")

#: The option of experiments, and their group as Hydra's overrides name it: an experiment's options are the command's.
EXPERIMENT = "experiment"
EXPERIMENT_GROUP = f"{EXPERIMENT}@_global_"
#: The flag that names a folder of one's own files (docs/own_files.md), and its short form.
OWN_FILES = "--config-dir"
_SHORT_OWN_FILES = "-cd"


@contextlib.contextmanager
def use_config_dir(words: list[str]) -> Generator[list[str]]:
    """Let own files of `--config-dir DIR` count while the block lasts; yields the other words.

    Raises:
        InputError: where the folder is not named or not there.
    """
    flags = [word.partition("=")[0] for word in words]
    indices = [index for index, flag in enumerate(flags) if flag in (OWN_FILES, _SHORT_OWN_FILES)]
    if not indices:
        yield words
        return
    if len(indices) > 1:
        raise InputError(
            f"{OWN_FILES} is given {len(indices)} times; hydra.searchpath=[file://DIR] adds another folder"
        )
    index = indices[0]
    _, equals, folder = words[index].partition("=")
    end = index + (1 if equals else 2)
    folder = folder or "".join(words[index + 1 : end])
    path = expand_home(folder)
    if not path.is_dir() or not folder:
        raise InputError(f"{OWN_FILES} {folder}: a folder is expected, as {OWN_FILES} my_files")
    before = os.environ.get(CONFIG_DIR)
    os.environ[CONFIG_DIR] = str(path.absolute())
    try:
        yield [*words[:index], *words[end:]]
    finally:
        os.environ.pop(CONFIG_DIR)
        os.environ.update({} if before is None else {CONFIG_DIR: before})


def spell_out(command: Command, words: Sequence[str]) -> list[str]:
    """Return words with options spelt in full: `--dataset demo`, `seed=3` and `protocol=spearman` say the same as
    `dataset=demo`, `statistics.seed=3` and `protocol.coefficients=spearman`.

    Raises:
        InputError: where a word may mean several options, or a flag is none.
    """
    options = {option.key: option for option in command.declared()}
    spelt: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.lstrip("-").partition("=")
        flag = word.partition("=")[0]
        if flag in _REFUSED_FLAGS:
            raise InputError(f"{flag}: {_REFUSED_FLAGS[flag]}")
        if flag in ("--run", "-r"):
            _check_run_flag(word, rest)
        if word == _STDIN:
            spelt.append(word)
        elif flag in _NAMING_FLAGS:
            spelt += _read_naming_flag(flag, value, rest)
        elif word.startswith("-") and flag not in FLAGS:
            key = _full_key(key.replace("-", "_"), options)
            if key not in options:
                flags = [flag for flag in FLAGS if flag.startswith("--")]
                raise unknown(f"flag of captau {command.name}", word, flags)
            if not equals and options[key].type is bool and (not rest or rest[0] not in _BOOLEANS):
                value = "true"
            elif not equals and (not rest or rest[0].startswith("--")):
                raise InputError(f"{word}: a value is expected, as {key}=VALUE")
            spelt.append(f"{key}={value if equals or value else rest.pop(0)}")
        elif equals and not word.startswith("-"):
            spelt.append(f"{_full_key(key, options)}={value}")
        else:
            spelt.append(word)
    resolved: list[str] = []
    for word in spelt:
        resolved.append(read_protocol_word(word) if word.startswith("protocol=") else word)
    return resolved


_BOOLEANS = ("true", "false")


def _check_run_flag(word: str, rest: Sequence[str]) -> None:
    """Check that `--run`, Hydra's flag without a value, is not meant as the option `run=`.

    Raises:
        InputError: where a value follows.
    """
    value = word.partition("=")[2]
    if not value and rest and "=" not in rest[0] and not rest[0].startswith(("-", "~")):
        value = rest[0]
    if value:
        raise InputError(f"--run {value}: write run={value}; --run by itself is Hydra's flag")


def _read_naming_flag(flag: str, value: str, rest: list[str]) -> list[str]:
    """Return a flag and the word that it names, which is taken from the rest where it does not follow an equals sign.

    Raises:
        InputError: where there is none.
    """
    if not value and rest and not rest[0].startswith("-") and "=" not in rest[0]:
        value = rest.pop(0)
    if not value:
        raise InputError(f"{flag}: a name is expected, as {flag} {_NAMING_FLAGS[flag]}")
    return [f"{flag}={value}"]


#: Spellings of options that name the columns of one file.
_FILE_COLUMNS = {
    "candidates.columns.image_id": "columns.candidate_id",
    "candidates.columns.caption": "columns.candidate_caption",
    "candidates.columns.rows": "columns.candidate_rows",
    "references.columns.image_id": "columns.image_id",
    "references.columns.caption": "columns.caption",
    "references.columns.references": "columns.references",
    "references.columns.rows": "columns.rows",
}


def _full_key(key: str, options: Mapping[str, Option]) -> str:
    """Return the one option whose key ends in a word, `statistics.seed` for `seed`; other words as they are.

    The option `candidates` is a file, below which Hydra has no place for `candidates.columns.image_id`.
    """
    if _FILE_COLUMNS.get(key) in options:
        return _FILE_COLUMNS[key]

    full_keys = [name for name in options if name.endswith(f".{key}")]
    if key in options or not full_keys:
        return key
    if len(full_keys) > 1:
        raise InputError(f"{key}= may be {' or '.join(full_keys)}; write one of them")
    return full_keys[0]


def read_protocol_word(word: str) -> str:
    """Return `protocol.coefficients=spearman` for `protocol=spearman`; the names of protocols stay as they are."""
    from ..scoring.catalog import choices_of
    from ..scoring.protocol import CHOICES

    value = word.partition("=")[2]
    names = set(re.findall(r"[^\[\],\s'\"]+", value))
    if not names or names & set(choices_of("protocol")):
        return word
    keys: list[str] = []
    for name, choice in CHOICES.items():
        if names <= set(choice.allowed()):
            keys.append(f"protocol.{name}")
    if len(keys) > 1:
        meanings = " or ".join(f"{key}={value}" for key in keys)
        raise InputError(f"{word} may be {meanings}; write one of them")
    return f"{keys[0]}={value}" if keys else word


def split_flags(command: Command, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return overrides and Hydra's flags; its own parser takes overrides only together.

    Raises:
        InputError: on a flag without its word, or a word that is no key=value of an option of the command.
    """
    overrides: list[str] = []
    flags: list[str] = []
    unnamed_files: list[str] = []
    is_sweep = not _MULTIRUN_FLAGS.isdisjoint(words) or "hydra.mode=MULTIRUN" in words
    for word in words:
        flag, equals, value = word.partition("=")
        if _is_unnamed_file(command, word, overrides):
            unnamed_files.append(word)
        elif flag in _NAMING_FLAGS:
            flags += [flag, value]
        elif word.startswith("-"):
            if equals and value not in FLAGS[flag]:
                raise InputError(f"{word}: {_expected_words(flag)}")
            flags += [flag, value] if equals else [flag]
        elif flags and word in FLAGS.get(flags[-1], ()):
            flags.append(word)
        elif flags and "=" not in word and flags[-1] in (*_SHOWING_FLAGS, "--info", "-i"):
            raise InputError(f"{flags[-1]} {word}: {_expected_words(flags[-1])}")
        elif equals or word.startswith("~"):
            overrides += _read_override(command, word, words, is_sweep=is_sweep)
        elif len(command.options.positional) == 1 and not _is_given(
            key := command.options.positional[0], overrides
        ):
            overrides += _read_override(command, f"{key}={word}", words, is_sweep=is_sweep)
        else:
            raise _unexpected_word(command, word, overrides)
    for named in _name_files(command, unnamed_files, overrides):
        overrides += _read_override(command, named, words, is_sweep=is_sweep)
    _refuse_second_values(command, overrides)
    _check_flags(flags)
    if "--hydra-help" in flags:
        # That text is of Hydra alone, without a command's options.
        overrides = [word for word in overrides if word.startswith("hydra")]
    return overrides, flags


def _is_given(key: str, overrides: Sequence[str]) -> bool:
    return any(override.startswith(f"{key}=") for override in overrides)


def _is_unnamed_file(command: Command, word: str, overrides: Sequence[str]) -> bool:
    """Tell whether a word is a file of a command whose files need no keys, and the first of these is not named."""
    keys = command.options.positional
    if len(keys) < 2 or _is_given(keys[0], overrides):
        return False
    if word == _STDIN:
        return True

    may_be_file = "=" not in word and not word.startswith(("-", "~"))
    return may_be_file and (word.endswith(_CAPTION_FILES) or expand_home(word).exists())


def _name_files(command: Command, files: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return files as values of the options that they are of: the last of several is the second option's.

    Where the second option is typed with its key, all files are the first one's.
    """
    if not files:
        return []

    first_key, second_key = command.options.positional
    if len(files) == 1 or _is_given(second_key, overrides):
        return [f"{first_key}={_joined(files)}"]
    return [f"{first_key}={_joined(files[:-1])}", f"{second_key}={files[-1]}"]


def _joined(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"[{','.join(files)}]"


def _check_flags(flags: Sequence[str]) -> None:
    """Check that flags have their words and go together.

    Raises:
        InputError: where one does not.
    """
    for flag, follower in pairwise([*flags, ""]):
        if flag in _SHOWING_FLAGS and follower not in FLAGS[flag]:
            raise InputError(f"{flag}: {_expected_words(flag)}")
    for flag in ("--resolve", "--package", "-p"):
        if flag in flags and _SHOWING_FLAGS.isdisjoint(flags):
            example = f"{flag} {_NAMING_FLAGS.get(flag, '')}".strip()
            raise InputError(f"{flag} goes with --cfg: --cfg job {example}")

    used_flags: list[str] = []
    for kind in (_SHOWING_FLAGS, _MULTIRUN_FLAGS, {"--run", "-r"}, {"--info", "-i"}):
        used_flags += sorted(kind & set(flags))[:1]
    if len(used_flags) > 1:
        raise InputError(f"{used_flags[0]} does not go with {used_flags[1]}; leave one of them out")


def _refuse_second_values(command: Command, overrides: Sequence[str]) -> None:
    """Check that no option is given twice, of which Hydra would take the last without a word.

    Raises:
        InputError: where one is.
    """
    keys = Counter(override.partition("=")[0] for override in overrides)
    for option in command.declared():
        count = keys[option.key]
        if count < 2:
            continue

        takes_list = option.has_several or bool(option.config_group) or option.type is Any
        remedy = f"several are written {option.key}=A,B" if takes_list else "leave one of them out"
        raise InputError(f"{option.key}= is given {count} times; {remedy}")


def _unexpected_word(command: Command, word: str, overrides: Sequence[str]) -> InputError:
    """Return the error for a word without a key."""
    if word in ("help", "?"):
        return InputError(f"captau {command.name} --help shows the options")
    advice = f"see captau {command.name} --help"
    from ..scoring.catalog import choices_of

    groups = {option.key: option.config_group for option in command.declared()}
    named: list[str] = []
    for key, name in groups.items():
        if name and word in choices_of(name):
            named.append(key)
    files: list[str] = []
    for key in ("candidates", "references"):
        if key in groups and not _is_given(key, overrides):
            files.append(key)
    if "baseline" in groups and word.endswith((".yaml", ".yml")):
        advice = f"write baseline={word}; {advice}"
    elif files and (expand_home(word).is_file() or word.endswith(_CAPTION_FILES)):
        example = [f"{files[0]}={word}", *(f"{key}=FILE" for key in files[1:])]
        advice = f"write {' '.join(example)}; {advice}"
    elif overrides:
        last_key, _, value = overrides[-1].partition("=")
        value = value.strip("[]").replace('"', "")
        advice = f"a list has commas and no blanks, as in {last_key}={value},{word}; {advice}"
    elif named:
        advice = f"write {named[0]}={word}"
    elif word in groups:
        advice = f"write {word}=VALUE; {advice}"
    return InputError(f"'{word}' is not of the form key=value; {advice}")


def _expected_words(flag: str) -> str:
    words = FLAGS[flag]
    return f"one of {', '.join(words)} is expected" if words else "it takes no value"


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


def _read_override(
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
                overrides += _read_override(command, part, words, is_sweep=is_sweep)
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
        listed_by = f"captau {command.name} --help all"
        raise unknown(f"option of captau {command.name}", key, options, listed_by=listed_by)

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
        listed_by = f"captau {command.name} --help all"
        raise unknown(f"option of captau {command.name}", key, options, listed_by=listed_by)


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


#: Hydra's functions of values that a sweep takes in turn.
_SWEEP_FUNCTION = re.compile(r"(choice|glob|range|interval|shuffle|sort|tag)\(")


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
