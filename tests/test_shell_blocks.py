"""The shell commands of README and the documentation can be pasted into bash and into zsh.

An interactive zsh knows no comments (macOS leaves `interactivecomments` off): a `#` and what follows are words of the command. A word
with a bracket, `*` or `?` that is not quoted names files, and where there are none zsh runs nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: A text in quotes, of which shells take every sign as it stands, but for `!` in double ones.
QUOTED = re.compile(r"'[^']*'|\"[^\"!]*\"")
#: Signs of names of files, of history and of command paths.
UNQUOTED = re.compile(r"[\[\]*?!]|(?:^|\s)=\w|(?:^|\s)#")

#: How a command begins, maybe behind variables that are set for it.
COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(captau|cat|cd|curl|docker|export|git|hf|make|pip|pytest|python|ray|source|uv)\b|#"
)


def shell_lines(text: str) -> list[str]:
    """Return the commands of a page's shell blocks, one on several lines as one; blocks without a language hold other texts too."""
    lines: list[str] = []
    for language, content in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        if language in ("", "bash", "console", "sh", "zsh"):
            lines += re.sub(r"\\\n\s*", "", content).splitlines()
    lines = [line.removeprefix("$ ") for line in lines]
    return [line for line in lines if COMMAND.match(line)]


def captau_commands() -> list[str]:
    """Return the captau commands of all pages; a form with `…` stands for a command."""
    lines = [line for page in PAGES for line in shell_lines(page.read_text(encoding="utf-8"))]
    return [line for line in lines if line.startswith("captau ") and "…" not in line]


def test_the_check_finds_what_zsh_refuses():
    text = """```
captau bench metrics=[a,b]
captau score 'candidates=shards/*.parquet'
captau table run=sweep/* "title=[a]"
make bench   # installs
captau cite \\
  note="well!"
```
"""
    found = [line for line in shell_lines(text) if UNQUOTED.search(QUOTED.sub("", line))]
    assert found == [
        "captau bench metrics=[a,b]",
        'captau table run=sweep/* "title=[a]"',
        "make bench   # installs",
        'captau cite note="well!"',
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_hold_nothing_that_zsh_reads_otherwise(page):
    lines = shell_lines(page.read_text(encoding="utf-8"))
    assert [line for line in lines if UNQUOTED.search(QUOTED.sub("", line))] == []


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_passes_the_words_of_every_captau_command_on(tmp_path):
    commands = captau_commands()
    assert len(commands) > 100
    script = "captau() { cat >/dev/null; }\n"
    for command in commands:
        script += f"({command}\n) </dev/null || exit 1\n"
    done = subprocess.run(
        ["zsh", "-f", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
