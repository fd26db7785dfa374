"""Figures as files, where matplotlib is here."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

#: What to say where there is none.
NO_FIGURES = "curves are drawn where matplotlib is: pip install 'captau[report]'"


def can_draw() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def files_of(figure: Any, name: str) -> dict[str, bytes]:
    """A figure as NAME.svg and NAME.png."""
    pictures: dict[str, bytes] = {}
    for ending in ("svg", "png"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, dpi=150)
        pictures[f"{name}.{ending}"] = buffer.getvalue()
    return pictures
