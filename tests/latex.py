"""Articles that LaTeX compiles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def compile_article(text: str, columns: str, folder: Path) -> str:
    """Compile tables in an article that loads what they name, and return what LaTeX prints."""
    packages = "\n".join(dict.fromkeys(re.findall(r"^% (\\usepackage.*)$", text, re.M)))
    source = f"\\documentclass[{columns}]{{article}}\n{packages}\n\\begin{{document}}\n{text}\n\\end{{document}}\n"
    (folder / "page.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Float too large" not in done.stdout
    return done.stdout
