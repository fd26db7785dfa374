"""The links by which editors and type checkers find the clone's packages (`scripts/link_packages.py`)."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def link(site_packages: Path) -> None:
    """Run the script's function as `make` does."""
    runpy.run_path(str(ROOT / "scripts" / "link_packages.py"))["link_packages"](site_packages)


def test_links_of_a_clone_that_was_moved_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    links = tmp_path / "links" / "captau"
    links.mkdir(parents=True)
    (links / "metrics").symlink_to(tmp_path / "nowhere" / "metrics")
    link(tmp_path)
    assert (links / "metrics").readlink() == ROOT / "metrics"
    assert (links / "testing.py").readlink() == ROOT / "captau" / "testing.py"
    before = (links / "metrics").lstat().st_ino
    link(tmp_path)
    assert (links / "metrics").lstat().st_ino == before, "right links stay"
    assert (tmp_path / "captau_links.pth").read_text() == f"{links.parent}\n"
