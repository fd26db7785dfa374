"""Metrics that uv runs in an environment of their own: scripts of our own, without dependencies."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from captau.metrics import script as module
from captau.metrics.external import metric, user_code_of
from tests.conftest import run_captau, says

pytestmark = pytest.mark.dev
TEMPLATE = """# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
import json
import sys

for line in sys.stdin:
    row = json.loads(line)
    {body}
    print(json.dumps({{"score": score}}), flush=True)
"""
ROWS = [
    {"caption": "a dog runs", "references": ["a dog"], "image": "images/1.jpg"},
    {"caption": "ein Mädchen\u2028läuft", "references": ["x y", "z"]},
]


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")


def write(folder: Path, body: str) -> Path:
    (folder / "mine.py").write_text(TEMPLATE.format(body=body))
    return folder / "mine.py"


def test_a_script_gets_captions_references_and_images(tmp_path: Path) -> None:
    """Worked: words, references, and whether the image's path is absolute."""
    body = (
        "score = len(row['caption'].split()) + 10 * len(row['references']) "
        "+ 100 * (row['image'] or '').startswith('/')"
    )
    instance = metric(f"script(path={write(tmp_path, body)})")
    assert instance.name == "mine"
    assert instance.score(ROWS).tolist() == [113, 23]
    assert user_code_of(instance) == str(tmp_path / "mine.py")


def test_null_is_an_undefined_score(tmp_path: Path) -> None:
    instance = metric(f"script(path={write(tmp_path, 'score = None')})")
    assert all(map(math.isnan, instance.score(ROWS)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "raise ValueError('no such model')",
            "status 1 after 0 of 2 captions: ValueError: no such model",
        ),
        ("sys.exit()", "it ended with status 0 after 0 of 2 captions"),
        ("score = 'high'", "is expected, and other words on stderr"),
        ("score = 1; print('loading')", "it wrote 'loading' for row 0"),
        ("score = 1; print(json.dumps({'score': 2}), flush=True)", "it wrote more than 2 lines"),
    ],
)
def test_a_script_that_fails_says_so_in_one_line(body: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, body)
    with says(f"metric script(path={path}): ", message):
        metric(f"script(path={path})").score(ROWS)


def test_without_uv_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with says("needs uv, which is not on the PATH; pip install uv"):
        metric(f"script(path={write(tmp_path, 'score = 1')})").score(ROWS)
    with says("no file none.py"):
        metric("script(path=none.py)").score(ROWS)


def test_scores_are_stored_under_a_hash_of_the_file(tmp_path: Path, monkeypatch) -> None:
    """A second run does not start the script again, and one of another text does."""
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    starts = tmp_path / "starts"
    note = f"open({str(starts)!r}, 'a').write('.'); score = len(row['caption'])"
    for text, expected in ((note, 1), (note, 1), (f"{note} + 1", 2)):
        path = write(tmp_path, text)
        words = [
            f"metrics=script(path={path})",
            f"output_dir={tmp_path}/out",
            "statistics.interval=none",
        ]
        before = len(starts.read_text()) if starts.is_file() else 0
        assert run_captau("bench", *words) == 0
        grew = len(starts.read_text()) > before
        assert grew == (expected == 2 or before == 0)
