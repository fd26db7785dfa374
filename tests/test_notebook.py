"""The notebooks of docs/ run, and their stored outputs are those of today."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs" / "run_notebook.py"))


def outputs_without_pictures(notebook: dict[str, Any]) -> list[Any]:
    """Return what the cells show; a figure's bytes change with matplotlib."""
    text = json.dumps([c["outputs"] for c in notebook["cells"] if c["cell_type"] == "code"])
    return json.loads(re.sub(r"base64,[\w+/=]+", "base64,", text))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_give(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    again = SCRIPT["run_notebook"](notebook)
    assert outputs_without_pictures(again) == outputs_without_pictures(notebook)
    assert "base64," in str(outputs_without_pictures(notebook))  # it draws something


def test_a_page_of_a_notebook_has_its_cells_and_outputs() -> None:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {**cell, "source": ["x = 2\n", "x + 1"]},
    ]
    cells.append({**cell, "source": ["print('so')\n", "x = x * 2"]})
    page = SCRIPT["markdown_page"](SCRIPT["run_notebook"]({"cells": cells}))
    assert page.split("\n\n") == [
        "# Title",
        "```python\nx = 2\nx + 1\n```",
        "```text\n3\n```",
        "```python\nprint('so')\nx = x * 2\n```",
        "```text\nso\n```\n",
    ]
