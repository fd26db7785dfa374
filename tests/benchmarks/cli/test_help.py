"""Help texts of a made-up command, to the letter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from captau.benchmarks.cli.command import Command
from captau.benchmarks.cli.help import (
    _short_examples,
    default_text,
    help_text,
    paragraphs,
    short_help,
)
from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.options.declaration import NEEDED, Options, option
from captau.benchmarks.options.shared import SCORING, words_of


@dataclass(frozen=True, kw_only=True)
class MadeUpOptions(Options):
    """Options of each kind: needed, with and without defaults, long, dotted, and of scoring."""

    examples: ClassVar[str] = f"""
captau made file=a.csv   the usual use
captau made file={"x" * 80}
captau made draws=5 file=a_file_with_a_long_name.csv   a command that needs a line for itself
captau made kind=a
captau made kind=b
"""
    notes: ClassVar[str] = "One note\nof two lines.\n\nAnother one."
    writes: ClassVar[str] = "Writes made.csv."
    headings: ClassVar[Mapping[str, str]] = {"draws": "Options of drawing", "store": SCORING}

    file: str = option(NEEDED, "FILE is what is read; a table", takes="FILE")
    a_long_name_of_an_option: int | None = option(None, "what it counts, whatever it is called")
    draws: int = option(20, "how often something is drawn. A second sentence")
    level: float = option(
        0.95, "the level of intervals, which is given as a share of all", key="s.level"
    )
    kinds: tuple[str, ...] = option(
        ["a", "b"], "which kinds are read (default: both)", key="kind", read=words_of
    )
    names: tuple[str, ...] = option(["c", "d"], "which names", read=words_of)
    quick: bool = option(
        False, "true is quicker, and says less of what it found on the way to the end"
    )
    slow: bool = option(True, "false is quicker")
    store: str = option("x", "where scores are stored", key="cache.root")


SHORT = """\
captau made: made up for tests

  captau made file=a.csv
                         the usual use
  captau made draws=5 file=a_file_with_a_long_name.csv
                         a command that needs a line for itself
  captau made kind=a

Options:
  file=FILE              is what is read (needed)
  a_long_name_of_an_option=N
                         what it counts, whatever it is called
  draws=N                how often something is drawn (default: 20)
  kind=NAME              which kinds are read (default: both)
  names=NAME             which names (default: c,d)
  quick=true             is quicker, and says less of what it found on the way …
  slow=false             is quicker
  s.*                    level
  cache.*                root

captau made --help all explains options and files."""
LONG = """\
captau made: made up for tests.

  captau made file=a.csv   the usual use
  captau made file=XXXX
  captau made draws=5 file=a_file_with_a_long_name.csv
                         a command that needs a line for itself
  captau made kind=a
  captau made kind=b

One note of two lines.

Another one.

Options:
  file=FILE              is what is read; a table (needed)
  a_long_name_of_an_option=N
                         what it counts, whatever it is called

Options of drawing:
  draws=N                how often something is drawn. A second
                         sentence (default: 20)
  s.level=NUMBER         the level of intervals, which is given
                         as a share of all (default: 0.95)
  kind=NAME              which kinds are read (default: both)
  names=NAME             which names (default: c,d)
  quick=true             is quicker, and says less of what it
                         found on the way to the end
  slow=false             is quicker

SCORING:
  cache.root=NAME        where scores are stored (default: x)

Writes made.csv.

Flags (Hydra's)"""


@pytest.fixture
def command() -> Command:
    return Command("made", f"{__name__}:MadeUpOptions", lambda *_: 0, "made up for tests", "Tests")


def test_the_short_help_fits_a_screen(command: Command) -> None:
    assert short_help(command) == SHORT


def test_the_long_help_explains_everything(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "65")
    text = help_text(command)
    expected = LONG.replace("XXXX", "x" * 80).replace("SCORING", SCORING)
    assert text.startswith(expected)
    assert max(map(len, text.partition("Flags")[2].splitlines())) <= 65
    monkeypatch.setenv("COLUMNS", "300")
    assert 100 < max(map(len, help_text(command).partition("Flags")[2].splitlines())) <= 110


@pytest.mark.parametrize("name", COMMANDS)
def test_the_long_help_fits_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is to be copied stands on one line, however long it is."""
    monkeypatch.setenv("COLUMNS", "80")
    for line in help_text(COMMANDS[name]).splitlines():
        is_example = "captau " in line and line.startswith("  ")
        assert len(line) <= 80 or is_example


def test_defaults_are_as_they_would_be_typed() -> None:
    assert [default_text(v) for v in (True, [1, False], "a", 0.5)] == [
        "true",
        "1,false",
        "a",
        "0.5",
    ]


def test_paragraphs_are_lines() -> None:
    assert paragraphs("\n a\nb\n \n\nc ") == ["a b", "c"]


@pytest.mark.parametrize(
    ("lengths", "shown"),
    [
        ([78, 79, 10], [78, 10]),  # two blanks stand before an example, and 80 fit
        ([10, 20, 30, 40], [10, 20, 30]),
        ([79, 90, 80, 81], [79, 90, 80]),  # where none fits
    ],
)
def test_the_first_examples_that_fit_a_screen_are_shown(lengths, shown) -> None:
    """What follows two blanks is the explanation, which may be longer."""
    examples = [f"{'x' * length}  {'explained ' * 20}".strip() for length in lengths]
    command: Any = SimpleNamespace(options=SimpleNamespace(examples="\n".join(examples)))
    found = _short_examples(command)
    assert [len(example.partition("  ")[0]) for example in found] == shown
