"""A plan on paper: what `captau score` of 10⁹ captions would take, from runs that were measured.

    python scripts/benchmark_scale.py --rows 10000 100000 --engines local --output scale.json
    python scripts/plan_scale.py scale.json
    python scripts/plan_scale.py scale.json --by-metric 10000 --output docs/scale_plan.md

Each stage's CPU seconds are fitted as a start and a cost a row, its bytes and the driver's memory likewise;
what n-grams there are as a power of the rows (Heaps' law). `--by-metric` runs each metric by itself as well.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from captau.benchmarks.large.run import partitions_of
from captau.benchmarks.options.large import ROWS

INTRODUCTION = """\
Nobody has run this. It is what [measured runs](large_sets.md) come to when they are extended: use it to ask for
the right cluster, then measure a million rows of your own there (`scripts/benchmark_scale.py`) and make the plan
again from those (`scripts/plan_scale.py`), which wrote this page."""
METRICS = ["bleu_4", "rouge_l", "cider", "meteor", "sentence_cosine"]
WORKERS = (16, 64, 256, 1024)
#: What there is of each: bytes of a driver, of a worker, of the disk that all share; reads of merge.
LIMITS = {"driver": 1e9, "worker": 16e9, "disk": 10e12, "reads": 1e9}
#: What of a cluster's time goes to other things than work, as a share: waiting at stages' ends, starting.
IDLE = 0.2


def line(rows: list[float], values: list[float]) -> tuple[float, float]:
    """Start and cost a row; with one run, or where a start would be negative, the cost alone."""
    if len(set(rows)) > 1:
        slope, start = np.polyfit(rows, values, 1)
        if start >= 0 and slope > 0:
            return float(start), float(slope)
    return 0.0, values[-1] / rows[-1]


def memory(rows: list[float], values: list[float]) -> tuple[float, float]:
    """Start and bytes a row; none a row where more rows took no more."""
    if len(set(rows)) > 1:
        slope, start = np.polyfit(rows, values, 1)
        if slope > 0:
            return float(start), float(slope)
    return max(values), 0.0


def power(rows: list[float], values: list[float]) -> tuple[float, float]:
    """Factor and exponent of values = factor · rows ** exponent, the exponent at most 1."""
    if len(set(rows)) > 1 and all(v > 0 for v in values):
        exponent, log = np.polyfit(np.log(rows), np.log(values), 1)
        if exponent < 1:
            return math.exp(log), float(exponent)
    return values[-1] / rows[-1], 1.0


def reads(rows: float, part: int) -> float:
    """How many slices of files merge reads: of each part one for each partition of the n-grams."""
    parts = math.ceil(rows / part)
    return float(parts * partitions_of(parts))


def plan(runs: list[dict[str, Any]], target: float, part: int) -> str:
    """The tables, as Markdown."""
    runs = sorted(runs, key=lambda run: run["rows"])
    rows = [float(run["rows"]) for run in runs]
    names = list(runs[-1]["stages"])

    def series(stage: str, key: str) -> list[float]:
        return [float(run["stages"].get(stage, {}).get(key, 0)) for run in runs]

    out = [
        f"From {len(runs)} runs of {', '.join(f'{int(r):,}' for r in rows)} rows of "
        f"{runs[-1]['references']} references, engine {runs[-1]['engine']}.",
        "",
        f"| stage | CPU s per million rows | CPU hours for {target:.0e} | bytes written a row |",
        "|:--|--:|--:|--:|",
    ]
    hours, written = 0.0, 0.0
    for stage in names:
        start, each = line(rows, series(stage, "cpu_seconds"))
        factor, exponent = power(rows, series(stage, "written"))
        bytes_there = factor * target**exponent
        spent = (start + each * target) / 3600
        hours, written = hours + spent, written + bytes_there
        out.append(f"| {stage} | {each * 1e6:.1f} | {spent:.1f} | {bytes_there / target:.1f} |")
    out.append(
        f"| all | {hours * 3600 / target * 1e6:.1f} | {hours:.1f} | {written / target:.1f} |"
    )
    out += [
        "",
        "| workers (a core each) | wall time, hours |",
        "|--:|--:|",
        *(f"| {n:,} | {hours / n / (1 - IDLE):.1f} |" for n in WORKERS),
    ]
    _, shuffled = line(rows, series("count", "written"))
    factor, exponent = power(rows, series("merge", "written"))
    table = factor * target**exponent
    driver = memory(rows, [float(run["driver_rss"]) for run in runs])
    worker = max(float(run["worker_rss"]) for run in runs)
    out += [
        "",
        "| what | how much |",
        "|:--|--:|",
        f"| read, GB | {runs[-1]['input_bytes'] / rows[-1] * target / 1e9:,.0f} |",
        f"| shuffled (written by count, read by merge), GB | {shuffled * target / 1e9:,.0f} |",
        f"| written in all, GB | {written / 1e9:,.0f} |",
        f"| slices of files that merge reads, with `rows={part}` | {reads(target, part):.1e} |",
        f"| table of document frequencies, mapped by every worker, GB | {table / 1e9:,.1f} |",
        f"| memory of a worker without it, GB, as measured with `rows={ROWS}` | {worker / 1e9:.1f} |",
        f"| memory of the driver, GB, with `rows={ROWS}` | {(driver[0] + driver[1] * target) / 1e9:.1f} |",
    ]
    sizes = [10 ** (i / 10) for i in range(60, 121)]
    breaks = [
        *(
            (
                next((n for n in sizes if reads(n, per) > LIMITS["reads"]), math.inf),
                f"merge reads more than {LIMITS['reads']:.0e} slices with `rows={per}`",
                "more rows a part, up to what a worker's memory holds",
            )
            for per in (ROWS, part)
        ),
        (
            (LIMITS["driver"] - driver[0]) / driver[1] if driver[1] else math.inf,
            f"the driver's memory passes {LIMITS['driver'] / 1e9:g} GB with `rows={ROWS}`",
            "more rows a part (`rows=`)",
        ),
        (
            (LIMITS["worker"] / factor) ** (1 / exponent),
            f"the table of document frequencies passes the {LIMITS['worker'] / 1e9:g} GB of a node",
            "nodes of more memory, or a saved table: `cider(df=FILE)` needs neither count nor merge",
        ),
        (
            LIMITS["disk"] * target / written,
            f"the work folder passes {LIMITS['disk'] / 1e12:g} TB",
            "a saved table, or several runs of a part each",
        ),
    ]
    out += [
        "",
        "What breaks first, by the fit:",
        "",
        "| at rows | what | what then |",
        "|--:|:--|:--|",
    ]
    out += [
        f"| {'not seen' if math.isinf(at) else f'{at:.1e}'} | {what} | {then} |"
        for at, what, then in sorted(breaks)
    ]
    out += [
        "",
        "Assumptions: costs a row stay as between the measured sizes; a worker is a core as fast as the "
        f"measured one; {IDLE:.0%} of the cluster's time is lost to waiting and starting; n-grams grow by "
        "the measured power (no slower); disks and network keep up with the bytes above; no task is done "
        "twice.",
    ]
    return "\n".join(out)


def by_metric(rows: int, names: list[str], target: float) -> str:
    """Each metric by itself: what its scores take, and what reading and counting for it do."""
    sys.path.insert(0, str(Path(__file__).parent))
    import benchmark_scale

    lines = [
        f"Each metric by itself, over {rows:,} rows, starting and loading included:",
        "",
        f"| metric alone | its scores, CPU s per million | all stages | CPU hours for {target:.0e} |",
        "|:--|--:|--:|--:|",
    ]
    with tempfile.TemporaryDirectory(prefix="captau-plan-") as temporary:
        folder = Path(temporary)
        candidates = benchmark_scale.make(folder, rows)
        for name in names:
            benchmark_scale.METRICS = f"[{name}]"
            found = benchmark_scale.measure(candidates, folder, rows, "local", 1)
            own, every = (
                sum(found["stages"].get(stage, {}).get("cpu_seconds", 0) for stage in stages) / rows
                for stages in (("model", "score"), found["stages"])
            )
            hours = every * target / 3600
            lines.append(f"| {name} | {own * 1e6:,.0f} | {every * 1e6:,.0f} | {hours:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("measured", type=Path, help="JSON of scripts/benchmark_scale.py")
    parser.add_argument("--engine", default="local")
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument(
        "--part", type=int, default=40_000, help="rows a part (default: %(default)s)"
    )
    parser.add_argument("--by-metric", type=int, help="so many rows with each metric by itself")
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    parser.add_argument("--output", type=Path, help="a Markdown page")
    chosen = parser.parse_args()
    measured = json.loads(chosen.measured.read_text(encoding="utf-8"))
    runs = [run for run in measured if run["engine"] == chosen.engine]
    if not runs:
        raise SystemExit(f"{chosen.measured} has no run of engine {chosen.engine}")
    text = plan(runs, chosen.rows, chosen.part)
    if chosen.by_metric:
        text += "\n\n" + by_metric(chosen.by_metric, chosen.metrics, chosen.rows)
    print(text)
    if chosen.output:
        command = shlex.join(["python", *sys.argv])
        page = f"# A plan for {chosen.rows:.0e} captions\n\n{INTRODUCTION}\n\n<!-- {command} -->\n{text}\n"
        chosen.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
