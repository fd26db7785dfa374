"""The words behind a command: keys spelt in full, files without keys named, flags apart from `overrides`."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...conf import CONFIG_DIR
from ...datasets.errors import InputError, unknown
from ...datasets.paths import exists, expand_home, is_file
from ..options.declaration import Option
from .command import Command
from .overrides import OWN_FILES, read_override

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

#: The short form of `OWN_FILES`.
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
    # Of a score that is filtered, `keep.dataset` is no dataset to score, as which other commands take the word.
    if key in options or not full_keys or full_keys == ["keep.dataset"]:
        return key
    # `seed=3` beside an option `seeds` may as well be that one with its last letter left out.
    if f"{key}s" in options:
        full_keys.insert(0, f"{key}s")
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
            overrides += read_override(command, word, words, is_sweep=is_sweep)
        elif len(command.options.positional) == 1 and not _is_given(
            key := command.options.positional[0], overrides
        ):
            overrides += read_override(command, f"{key}={word}", words, is_sweep=is_sweep)
        else:
            raise _unexpected_word(command, word, overrides)
    for named in _name_files(command, unnamed_files, overrides):
        overrides += read_override(command, named, words, is_sweep=is_sweep)
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
    return may_be_file and (word.endswith(_CAPTION_FILES) or exists(expand_home(word)))


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
    for key in ("candidates", "against", "references"):
        if key in groups and not _is_given(key, overrides):
            files.append(key)
    example = " ".join(
        [f"{key}={word if number == 0 else 'FILE'}" for number, key in enumerate(files)]
    )
    is_there = is_file(expand_home(word))
    takes_judgements = "file.path" in groups and "against" not in groups
    may_be_judgements = takes_judgements and not _is_given("dataset", overrides)
    problem = f"'{word}' is not of the form key=value"
    if "baseline" in groups and word.endswith((".yaml", ".yml")):
        advice = f"write baseline={word}; {advice}"
    elif is_there and may_be_judgements:
        judged = f"dataset=file file.path={word}"
        advice = f"write {judged}{f' for judgements, else {example}' if files else ''}; {advice}"
    elif files and (is_there or word.endswith(_CAPTION_FILES)):
        advice = f"write {example}; {advice}"
    elif overrides:
        last_key, _, value = overrides[-1].partition("=")
        value = value.strip("[]").replace('"', "")
        advice = f"a list has commas and no blanks, as in {last_key}={value},{word}; {advice}"
    elif named:
        advice = f"write {named[0]}={word}"
    elif word in groups:
        advice = f"write {word}=VALUE; {advice}"
    elif len(command.options.positional) > 1 and not is_there:
        problem = f"{problem}, and there is no file of this name"
    return InputError(f"{problem}; {advice}")


def _expected_words(flag: str) -> str:
    words = FLAGS[flag]
    return f"one of {', '.join(words)} is expected" if words else "it takes no value"
