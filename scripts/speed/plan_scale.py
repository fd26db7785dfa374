"""A plan on paper: what `captau score` of 10⁹ captions would take, from measured runs and a simulation.

    python scripts/speed/benchmark_scale.py --rows 10000 100000 1000000 --engines local --output scale.json
    python scripts/speed/simulate_large_set.py --rows 1e9 > simulation.json
    python scripts/speed/plan_scale.py scale.json simulation.json --output docs/scale_plan.md

CPU seconds of a stage are a start and a cost a row where that fits the measured runs; the page says where it does not.
Bytes and the table of document frequencies grow by a power of the rows (Heaps' law). The driver's memory, its serial
work, and the numbers of tasks and opens are those of the simulation.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from captau.benchmarks.options.large import ROWS

INTRODUCTION = """\
Nobody has run this. The page extends runs that `scripts/speed/benchmark_scale.py` measured, and simulates the work of the driver for
all tasks. Use it to ask for the right cluster. Then measure a million rows of your own there, and write this page again from your
measurements (`scripts/speed/plan_scale.py`). CPU seconds are higher on a busy machine."""
WORKERS = (16, 64, 256, 1024)
#: The cores of a node, the bytes of its memory, of the disk that all share, and bytes a second of disk and network.
NODE_CORES, NODE_MEMORY, DISK, BANDWIDTH = 16, 64e9, 10e12, 1e9
#: The share of a cluster's time that goes to other things than work: waiting at stages' ends, starting.
IDLE = 0.2
#: The largest relative distance of a measured run from a line that counts as linear.
TOLERANCE = 0.05


def fit_line(rows: list[float], values: list[float]) -> tuple[float, float, float]:
    """Fit values by a start and a cost a row, neither negative, with the least relative errors.

    Returns:
        The start, the cost a row, and the largest relative error at a measured size.
    """
    design = np.column_stack([np.ones(len(rows)), rows]) / np.array(values)[:, None]
    (start, slope), _ = nnls(design, np.ones(len(rows)))
    return float(start), float(slope), float(np.abs(design @ [start, slope] - 1).max())


def extend_cost(rows: list[float], values: list[float], target: float) -> tuple[float, str]:
    """Extend CPU seconds to a number of rows; the words say by which law."""
    if not min(values):
        return values[-1] * target / rows[-1], "the last run"
    start, slope, error = fit_line(rows, values)
    if error <= TOLERANCE:
        fit = f"within {error:.1%}" if len(rows) > 2 or error > 0.001 else "through both runs"
        return start + slope * target, f"line, {fit}"
    factor, exponent = fit_power(rows[-2:], values[-2:])
    return factor * target**exponent, f"not linear: rows^{exponent:.2f} of the last two runs"


def fit_power(rows: list[float], values: list[float]) -> tuple[float, float]:
    """Return the factor and the exponent of values = factor · rows ** exponent."""
    exponent, log = np.polyfit(np.log(rows), np.log(values), 1)
    return float(np.exp(log)), float(exponent)


def plan(runs: list[dict[str, Any]], simulation: dict[str, Any]) -> str:
    """Return the tables, as Markdown."""
    runs = sorted(runs, key=lambda run: run["rows"])
    rows, target = [float(run["rows"]) for run in runs], float(simulation["rows"])
    sizes = " | ".join(f"{run['rows']:,}" for run in runs)
    lines = [
        f"From {len(runs)} runs of captions with {runs[-1]['references']} references, engine {runs[-1]['engine']}: CPU "
        f"seconds per million rows by the number of rows.",
        "",
        f"| stage | {sizes} | CPU hours for {target:.0e} | extended by |",
        f"|:--|{'--:|' * (len(runs) + 1)}:--|",
    ]
    hours, totals = 0.0, [0.0] * len(runs)
    for stage in runs[-1]["stages"]:
        seconds = [float(run["stages"][stage]["cpu_seconds"]) for run in runs]
        cost, law = extend_cost(rows, seconds, target)
        hours += cost / 3600
        measured = " | ".join(f"{s / n * 1e6:.1f}" for s, n in zip(seconds, rows, strict=True))
        lines.append(f"| {stage} | {measured} | {cost / 3600:.1f} | {law} |")
        totals = [total + s / n * 1e6 for total, s, n in zip(totals, seconds, rows, strict=True)]
    lines.append(f"| all | {' | '.join(f'{total:.1f}' for total in totals)} | {hours:.1f} | |")

    def written(stage: str) -> float:
        factor, exponent = fit_power(rows, [float(run["stages"][stage]["written"]) for run in runs])
        return factor * target**exponent

    table, shuffled = written("merge"), written("count")
    n_rounds = simulation["rounds"]["counts"]
    copied = table / BANDWIDTH / 60
    driver = simulation["driver_cpu_seconds"] / 60 + 2 * copied
    lines += [
        "",
        f"Wall time adds what workers cannot share: {simulation['driver_cpu_seconds'] / 60:.1f} minutes of the driver's "
        f"own work, {2 * copied:.1f} minutes in which it joins the table of document frequencies ({table / 1e9:.0f} GB, "
        f"read and written), and {copied:.1f} minutes in which each node reads that table for the first time.",
        "",
        f"| workers (a core each, {NODE_CORES} a node) | wall time, hours |",
        "|--:|--:|",
        *(f"| {n:,} | {hours / n / (1 - IDLE) + (driver + copied) / 60:.1f} |" for n in WORKERS),
        "",
        f"| in the simulation of {target:.0e} rows | how much |",
        "|:--|--:|",
        f"| memory of the driver, GB | {simulation['driver_rss'] / 1e9:.2f} |",
        f"| parts | {simulation['parts']:,} |",
        f"| tasks | {sum(simulation['tasks'].values()):,} |",
        *(f"| files opened by {stage} | {n:,} |" for stage, n in simulation["opens"].items()),
        "",
        "| extended from the runs | how much |",
        "|:--|--:|",
        f"| counts that {n_rounds} rounds of merging read and write, GB each | {shuffled / 1e9:,.0f} |",
        f"| disk, GB: the counts of two rounds at a time, and rows and scores | "
        f"{(2 * shuffled + written('read') + written('score')) / 1e9:,.0f} |",
        f"| table of document frequencies, mapped by every worker, GB | {table / 1e9:,.0f} |",
        f"| memory of a worker without it, GB, as measured with parts of {ROWS:,} rows | "
        f"{max(run['worker_rss'] for run in runs) / 1e9:.1f} |",
        "",
        *limits(runs, simulation, shuffled),
        "",
        "Assumptions: a stage goes on as its line or power says; a worker is a core as fast as the measured one; "
        f"{IDLE:.0%} of the cluster's time is lost to waiting and starting; disks and network bring each node "
        f"{BANDWIDTH / 1e9:g} GB a second; no task is done twice; n-grams are looked up in the table of all documents as fast "
        "as in the measured ones.",
    ]
    return "\n".join(lines)


def limits(runs: list[dict[str, Any]], simulation: dict[str, Any], shuffled: float) -> list[str]:
    """Return the table of what breaks first."""
    factor, exponent = fit_power(
        [float(run["rows"]) for run in runs],
        [float(run["stages"]["merge"]["written"]) for run in runs],
    )
    grown = simulation["driver_rss"] - runs[-1]["driver_rss"]
    breaks = [
        (
            (NODE_MEMORY / factor) ** (1 / exponent),
            f"the table of document frequencies passes the {NODE_MEMORY / 1e9:g} GB of a node",
            "nodes of more memory, or a saved table: `cider(df=FILE)` needs neither count nor merge",
        ),
        (
            DISK * simulation["rows"] / (2 * shuffled),
            f"the counts of two rounds pass a disk of {DISK / 1e12:g} TB",
            "a saved table, or several runs of a part each",
        ),
        (
            NODE_MEMORY / max(grown, 1) * simulation["rows"],
            f"the driver's memory passes {NODE_MEMORY / 1e9:g} GB",
            "several runs of a part each",
        ),
    ]
    return [
        "| at rows | what breaks | what then |",
        "|--:|:--|:--|",
        *(f"| {at:.1e} | {event} | {remedy} |" for at, event, remedy in sorted(breaks)),
    ]


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("measured", type=Path, help="JSON of scripts/speed/benchmark_scale.py")
    parser.add_argument("simulation", type=Path, help="JSON of scripts/speed/simulate_large_set.py")
    parser.add_argument("--engine", default="local")
    parser.add_argument("--output", type=Path, help="a Markdown page")
    chosen = parser.parse_args()
    measured = json.loads(chosen.measured.read_text(encoding="utf-8"))
    runs = [run for run in measured if run["engine"] == chosen.engine]
    if len(runs) < 2:
        raise SystemExit(f"{chosen.measured} has fewer than two runs of engine {chosen.engine}")
    simulation = json.loads(chosen.simulation.read_text(encoding="utf-8"))
    text = plan(runs, simulation)
    print(text)
    if chosen.output:
        command = shlex.join(["python", *sys.argv])
        title = f"# A plan for {simulation['rows']:.0e} captions"
        page = f"{title}\n\n{INTRODUCTION}\n\n<!-- {command} -->\n{text}\n"
        chosen.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
