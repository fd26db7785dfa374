"""Draw the figure of README, the overview of a run of several datasets, for light and for dark pages.

captau bench dataset=classic metrics=text,mine.py:overlap output_dir=RUN
python scripts/docs/draw_readme_figure.py RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.reporting.charts.figure_files import (
    GRID,
    INK,
    MUTED,
    PAPER,
    SERIES,
)
from captau.benchmarks.reporting.charts.run_charts import draw_charts

FOLDER = Path(__file__).parents[2] / "docs" / "images"
#: The colours of a dark page, as in the report page's style sheet.
DARK = {INK: "#e9e9ec", MUTED: "#a3a3ab", GRID: "#3c3e44", PAPER: "#17181b"} | dict(
    zip(SERIES, ("#56b4e9", "#ff9a4d", "#3fcf9f", "#e39bd0", "#e0c04a", "#9aa5ff"), strict=True)
)


def main(run: str) -> None:
    """Write `docs/images/agreement-light.svg` and `-dark.svg`."""
    files = draw_charts(Path(run), kinds=("overview",), formats=("svg",)).files
    light = next(iter(files.values())).decode()
    dark = light
    for colour, replacement in DARK.items():
        dark = dark.replace(colour, replacement)
    FOLDER.mkdir(exist_ok=True)
    for theme, text in (("light", light), ("dark", dark)):
        (FOLDER / f"agreement-{theme}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1])
