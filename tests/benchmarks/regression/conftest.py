"""A baseline of the demo for the tests of checks."""

from __future__ import annotations

import re

import pytest

from tests.conftest import run_captau

NAMES = ["bleu_1", "cider", "rouge_score_l"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A baseline of the demo, as the command makes it."""
    path = tmp_path_factory.mktemp("made") / "demo.yaml"
    assert (
        run_captau("check", f"baseline={path}", "update=true", f"metrics=[{','.join(NAMES)}]") == 0
    )
    return path


@pytest.fixture
def base(recipe, tmp_path):
    """A copy of it, to be edited."""
    path = tmp_path / "base.yaml"
    path.write_bytes(recipe.read_bytes())
    return path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def fault(err, path):
    """The one line, after its place; and the line number."""
    (line,) = err.strip().splitlines()
    match = re.fullmatch(rf"captau: {re.escape(str(path))}:(\d+): (.+)", line)
    assert match, line
    return int(match[1]), match[2]
