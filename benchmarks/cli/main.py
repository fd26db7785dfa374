"""The command line: `captau <command> [key=value …]`, on Hydra's override grammar.

Hydra, which stays in `hydra_runner`, composes what is typed. The options of a command are made of that, and a plain
function does the work. Whatever a person typed wrong becomes one line on stderr and status 2.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

from ...conf import CONFIG_DIR, group
from ...datasets.errors import InputError, one_line
from .arguments import spell_out, split_flags, use_config_dir
from .command import Command
from .overrides import OWN_FILES
from .registry import COMMANDS, packaged_commands, split_command
from .terminal import PLAIN_LETTERS, show_log, show_text

#: The width of a terminal.
_WIDTH = 80
#: The name that errors of standard output bear, as errors of files bear the file's.
_STANDARD_OUTPUT = "standard output"
#: What the system may refuse whatever captau does, and the remedy, where there is one beside what the system says. Errors of
#: these kinds are mostly told where a file is opened or written; here are those of files that libraries write.
_REMEDIES = {
    errno.ENAMETOOLONG: None,
    errno.ELOOP: None,
    errno.EIO: None,
    errno.EROFS: None,
    errno.EFBIG: None,
    errno.ENOSPC: None,
    errno.EDQUOT: None,
    errno.EMFILE: "raise the limit with ulimit -n",
    errno.ENFILE: "raise the limit with ulimit -n",
}

# Heavy imports stay inside the functions: `captau --help` answers at once.


def main(arguments: list[str] | None = None) -> None:
    """Run the program; ends the process with status 0, 2 (the user's input) or 1 (our fault)."""
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None:  # a process of captau's own, and not of a caller's
        # captau's own threads use the cores; OpenBLAS's would wait beside them, busily.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Imports and captions make a million objects and hardly any cycle of them.
        gc.set_threshold(2_000_000, 20, 100)
        _prepare_streams()
    show_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN_LETTERS)
    try:
        with use_config_dir(words) as words:
            status = _run(words)
        if sys.stdout:  # None where a program that calls this has closed it
            sys.stdout.flush()
    except InputError as error:
        message = " ".join(str(error).split())
        show_text(f"captau: {message}", sys.stderr)
        status = 2
    except KeyboardInterrupt:
        if line := _stopped_line(words):
            show_text(f"captau: {line}", sys.stderr)
        status = 130
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename == _STANDARD_OUTPUT:
            status = 0  # `| head` is no fault
        elif error.errno in _REMEDIES:
            show_text(f"captau: {_system_line(error)}", sys.stderr)
            status = 2
        else:
            raise
        if error.filename == _STANDARD_OUTPUT:
            # The rest of the output goes nowhere, so that the end of the process does not fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(status)


def _system_line(error: OSError) -> str:
    """Return the line about something that the system refused: the file where it is known, the reason, the remedy."""
    parts = [str(error.filename or "a file could not be written"), str(error.strerror)]
    if remedy := _REMEDIES.get(error.errno or 0):
        parts.append(remedy)
    return one_line(": ".join(parts))


class _StandardOutput(io.FileIO):
    """Standard output, whose errors bear its name, so that nobody takes another file's for them."""

    def write(self, content: Any, /) -> int | None:
        """Write bytes.

        Raises:
            OSError: if they cannot be written, as on a full disk or where the reader has gone.
        """
        try:
            return super().write(content)
        except OSError as error:
            error.filename = _STANDARD_OUTPUT
            raise


def _prepare_streams() -> None:
    """Open closed standard streams on the null device, and give standard output a buffer and its errors a name.

    Else the first file that is opened would take the place of a closed stream, and what a full disk cuts off would be
    lost in silence under PYTHONUNBUFFERED.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this stream's
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_StandardOutput(stream.fileno(), "w", closefd=False)),
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering or is_unbuffered,
        )


def _run(words: list[str]) -> int:
    if words and words[0] in ("-sc", "--shell-completion"):
        from .help import complete

        print(complete(words))
        return 0
    if words[1:] == ["all"] and words[0] in ("-h", "--help", "help"):
        print(overview())
        print(f"\n{known_names()}")
        return 0
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    is_of_data = words in (["data", "-h"], ["data", "--help"])
    if not words or words[0] in ("-h", "--help", "help") or is_of_data:
        print(overview())
        return 0
    if words[0] in ("--version", "-V"):
        from importlib.metadata import version

        print(f"captau {version('captau')}")
        return 0
    return _run_command(*split_command(words))


def _run_command(command: Command, words: list[str]) -> int:
    words = spell_out(command, words)
    experiments: dict[str, dict[str, Any]] = {}
    if not {"-h", "--help"} & set(words):
        words, experiments = _read_own_files(command, words)
    overrides, flags = split_flags(command, words)
    if {"-h", "--help"} & set(flags):
        from .help import help_text, short_help

        print(help_text(command) if "all" in flags else short_help(command))
        return 0
    from .hydra_runner import run_hydra

    return run_hydra(command, [*overrides, *flags], experiments)


def _read_own_files(
    command: Command, words: list[str]
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Check the files of `--config-dir`; return the words, with stored options in their places, and the user's experiments."""
    if folder := os.environ.get(CONFIG_DIR):
        from .own_files import check_config_dir

        check_config_dir(Path(folder))
    if any(word.startswith("run=") for word in words):
        from .stored_options import expand_stored_options

        words = expand_stored_options(command, words)
    if folder or any(word.lstrip("+").startswith("experiment") for word in words):
        from .own_experiments import read_experiments

        return words, read_experiments(command, words)
    return words, {}


#: Commands that score nothing, or keep no score: what they would write is not there, or as it was.
_LEAVES_NOTHING = ("check", "cite", "plot", "report", "submit", "table", "validate")
#: What another stopped command leaves in place, by the first word of its name.
_LEFT_IN_PLACE = {
    "data": "what was downloaded",
    "train": "what was trained",
    "collect": "every answer that was acknowledged",
    "serve": "every submission that was acknowledged",
}


def _stopped_line(words: list[str]) -> str:
    """Return the line for a command that was stopped; an empty one while a shell completes words."""
    if not words or words[0] in ("-sc", "--shell-completion"):
        return ""
    results = _LEFT_IN_PLACE.get(words[0], "what was scored")
    keeps_no_scores = words[0] not in _LEFT_IN_PLACE and "cache.use=false" in words
    if words[0] in _LEAVES_NOTHING or keeps_no_scores:
        return "stopped"
    return f"stopped; {results} is kept"


def overview() -> str:
    """Return the text of `captau --help`."""
    lines = ["captau: which image-caption metric agrees with people?", ""]
    lines += ["usage: captau <command> [key=value …]", ""]
    commands_by_group: dict[str, list[Command]] = {}
    for command in COMMANDS.values():
        commands_by_group.setdefault(command.group, []).append(command)
    for heading, commands in commands_by_group.items():
        lines.append(f"{heading}:")
        for command in commands:
            text = f"  {command.name:<19}{command.summary}"
            lines.append(textwrap.fill(text, _WIDTH, subsequent_indent=" " * 21))
    lines += ["", f"{OWN_FILES} DIR adds your own files (docs/own_files.md)."]
    lines += ["captau <command> --help explains a command. Start with: captau bench"]
    lines.append("captau --help all lists datasets, metrics, suites and papers as well.")
    return "\n".join(lines)


def known_names() -> str:
    """Return the names of datasets, metrics and so on, for `captau --help all`."""
    from ..scoring.catalog import choices_of

    names = {
        "datasets": choices_of("dataset"),
        "metrics": group("metric"),
        "suites": group("suite"),
        "papers": [*group("paper"), "all"],
        "experiments": group("experiment"),
        "commands of other packages": list(packaged_commands()),
    }
    lines: list[str] = []
    for kind, words in names.items():
        if words:
            lines.append(f"{kind}: {', '.join(words)}")
    wrapper = textwrap.TextWrapper(_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, lines))
