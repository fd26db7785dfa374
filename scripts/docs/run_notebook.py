"""Run the notebooks of docs/ without Jupyter, and store what their cells show.

    python scripts/docs/run_notebook.py docs/quickstart.ipynb

A cell shows what it prints, and its last expression as a notebook would. `tests/test_notebook.py` runs them again and
compares; `docs_site.py` makes a page of each.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from captau.benchmarks.cli.script_options import show_manual


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells, which share one namespace."""
    namespace: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run_cell("".join(cell["source"]), namespace, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run_cell(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_())} | data
        outputs.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def markdown_page(notebook: dict[str, Any]) -> str:
    """Return a notebook as a Markdown page, with its outputs below their cells."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                # An empty line would end the HTML for Markdown, and a class of its own keeps the site's look away.
                html = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]))
                html = re.sub(r"<style scoped>.*?</style>", "", html, flags=re.DOTALL)
                html = html.replace(' border="1" class="dataframe"', "")
                parts.append(f'<div class="output">\n{html}\n</div>')
            else:
                text = "".join(data.get("text/plain", output.get("text", [])))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def main(paths: list[str]) -> None:
    """Run notebooks and write them with their outputs."""
    for path in map(Path, paths):
        notebook = run_notebook(json.loads(path.read_text(encoding="utf-8")))
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1:])
