"""What captau says of an option that the command does not have, where spelling misleads."""

from __future__ import annotations

import pytest

from captau.benchmarks.cli.option_hints import refuse_option
from captau.benchmarks.cli.registry import COMMANDS


@pytest.mark.parametrize(
    ("name", "key", "hint"),
    [
        # What the command calls the same thing.
        ("validate", "candidates", "did you mean file? captau validate --help all lists them"),
        ("validate", "path", "did you mean file?"),
        ("submit", "candidates", "did you mean file?"),
        ("score", "file", "did you mean candidates?"),
        ("bench", "file", "did you mean file.path?"),
        ("bench", "data", "did you mean dataset?"),
        ("collect", "challenge", "did you mean study?"),
        ("serve", "study", "did you mean challenge?"),
        # The commands that have it.
        ("score", "dataset", "captau bench, captau compare and 15 others take dataset="),
        ("collect", "dataset", "captau bench, captau compare and 15 others take dataset="),
        ("rank", "candidates", "captau score, captau probe and 3 others take candidates="),
        ("table", "trust", "captau score takes trust=; captau table --help all lists its own"),
        # A slip of spelling.
        ("bench", "metrix", "did you mean metrics?"),
        ("data list", "nothing", ": captau data list --help all lists them"),
    ],
)
def test_an_unknown_option_is_answered_by_the_one_that_is_meant(name, key, hint):
    command = COMMANDS[name]
    options = {option.key: option for option in command.declared()}
    message = str(refuse_option(command, key, options))
    assert message.startswith(f"unknown option of captau {name} '{key}': ")
    assert hint in message
