"""Paths that a user writes."""

from __future__ import annotations

import re
from pathlib import Path

from captau.datasets.paths import expand_home
from tests.conftest import says

ROOT = Path(__file__).parents[2]


def test_a_tilde_is_the_home_folder_and_an_unknown_users_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_home("~/a") == tmp_path / "a"
    assert expand_home(Path("a~/b")) == Path("a~/b")
    with says("~nobody-here/x: no user has this home folder; write ./~nobody-here/x for a file"):
        expand_home("~nobody-here/x")


def test_every_module_spells_out_a_home_folder_by_this_function():
    modules = [
        str(path.relative_to(ROOT))
        for package in ("benchmarks", "datasets", "metrics", "server")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"\.expanduser\(\)", path.read_text(encoding="utf-8"))
    ]
    assert modules == ["datasets/paths.py"]
