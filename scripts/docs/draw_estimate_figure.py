"""Draw the figure of docs/estimate.md: what 100 ratings count as with a metric's help.

python scripts/checks/simulate_estimates.py > TABLES
python scripts/docs/draw_estimate_figure.py TABLES
"""

from __future__ import annotations

import sys
from pathlib import Path

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.reporting.charts.figure_files import (
    INK,
    MUTED,
    files_of,
    make_figure,
    style,
)

FIGURE = Path(__file__).parents[2] / "docs" / "images" / "estimate.svg"
N_RATED = "100"
LABELS = {
    "pascal50s_votes": "PASCAL-50S, pairs",
    "nebula": "Nebula",
    "composite": "Composite",
    "cxc_sits": "Crisscrossed Captions",
    "thumb": "THumB",
}
METRICS = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr", "all four")


def read_gains(path: Path) -> dict[str, list[float]]:
    """Return what 100 ratings count as with each metric and with all, by dataset, of the first seed."""
    gains: dict[str, list[float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_gain = len(cells) == 3 + len(METRICS) and cells[1] == N_RATED
        if is_gain and cells[0] in LABELS:
            gains.setdefault(cells[0], [float(cell.partition(" ")[0]) for cell in cells[3:]])
    return gains


def main(tables: str) -> None:
    """Write `docs/images/estimate.svg`."""
    gains = read_gains(Path(tables))
    names = [name for name in LABELS if name in gains]
    with style():
        figure, axis = make_figure(6.4, 0.6 + 0.42 * len(names))
        for number, metric in enumerate(METRICS):
            is_joint = number == len(METRICS) - 1
            axis.plot(
                [gains[name][number] for name in names],
                range(len(names)),
                linestyle="none",
                marker="D" if is_joint else "osv^"[number],
                markersize=7 if is_joint else 4.5,
                color=INK if is_joint else None,
                label=metric,
            )
        axis.axvline(float(N_RATED), color=MUTED, linewidth=1)
        axis.set_yticks(range(len(names)), [LABELS[name] for name in names])
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_xlabel("100 ratings count as")
        axis.legend(loc="lower right")
        FIGURE.write_bytes(files_of(figure, "estimate", ("svg",))["estimate.svg"])


if __name__ == "__main__":
    show_manual(__doc__)
    main(sys.argv[1])
