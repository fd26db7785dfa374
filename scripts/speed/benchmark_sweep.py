"""What a sweep costs beside its jobs: `captau bench --multirun` against the same jobs in one warm process.

    python scripts/speed/benchmark_sweep.py
    python scripts/speed/benchmark_sweep.py --datasets flickr8k_expert,thumb --metrics text --seeds 20
    python scripts/speed/benchmark_sweep.py --seeds 1 --launcher submitit_local

A job is a metric, or a suite, on a dataset under a seed of the bootstrap; nothing comes from the store of scores. The
jobs' own time is the CPU time of the same work, one after another, in a process that has imported and compiled
everything: what as many cores as there are workers can at best share. Beside it stand the sweep's CPU time and
its seconds times the cores, starting, importing and waiting included; the former holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

METRICS = "bleu_1,bleu_2,bleu_3,bleu_4,rouge_1,rouge_2,rouge_l,rouge_s,meteor,cider"
PROGRAM = "from captau.benchmarks.cli.main import main; main()"
#: The same work in one process: once to warm up, then each job, timed.
WARM = """
import contextlib, io, json, sys, time
from captau.benchmarks.cli.main import _run
jobs, per = json.loads(sys.argv[1])
def run(words):
    with contextlib.redirect_stdout(io.StringIO()):
        assert _run(words) == 0
for words in jobs[::per]:
    run([*words, "output_dir=warm"])
cpu = time.process_time()
for number, words in enumerate(jobs):
    run([*words, f"output_dir=alone/{number}"])
print(time.process_time() - cpu)
"""


def words(dataset: str, metric: str, seed: str, replicates: int) -> list[str]:
    """A job, or with several values of an option a sweep of them."""
    return [
        *("bench", f"dataset={dataset}", f"metrics={metric}", "cache.use=false"),
        *(f"statistics.replicates={replicates}", f"statistics.seed={seed}"),
    ]


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--datasets", default="demo", help="comma-separated (default: %(default)s)")
    parser.add_argument("--metrics", default=METRICS, help="comma-separated (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=4, help="how many (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replicates", type=int, default=1000, help="the longer a job takes")
    parser.add_argument("--launcher", default="joblib")
    chosen = parser.parse_args()
    datasets = chosen.datasets.split(",")
    metrics = [f"[{metric}]" for metric in chosen.metrics.split(",")]
    seeds = [str(n) for n in range(chosen.seeds)]
    # Byte code is written, as on a user's machine.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="captau-sweep-") as folder:
        jobs = [words(*axes, chosen.replicates) for axes in product(datasets, metrics, seeds)]
        alone = subprocess.run(
            [sys.executable, "-c", WARM, json.dumps([jobs, chosen.seeds])],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        own_cpu = float(alone.stdout)
        launcher = [f"hydra/launcher={chosen.launcher}"]
        if chosen.launcher == "joblib":
            launcher.append(f"hydra.launcher.n_jobs={chosen.workers}")
        swept = (",".join(values) for values in (datasets, metrics, seeds))
        sweep = [*words(*swept, chosen.replicates), "--multirun", *launcher]
        wall, cpu = time.perf_counter(), of_children()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *sweep, "output_dir=sweep"],
            cwd=folder,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wall, cpu = time.perf_counter() - wall, of_children() - cpu
        for number in range(len(jobs)):
            one, other = (
                Path(folder, where, str(number), "correlations.csv").read_bytes()
                for where in ("alone", "sweep")
            )
            if one != other:
                raise SystemExit(f"job {number} has other numbers in the sweep")
    print(
        f"{len(jobs)} jobs, {chosen.launcher}, {chosen.workers} at once\n\n"
        "| | the jobs' own | the sweep's | ratio |\n|:--|--:|--:|--:|\n"
        f"| CPU seconds | {own_cpu:.1f} | {cpu:.1f} | {cpu / own_cpu:.2f} |\n"
        f"| cores × seconds | {own_cpu:.1f} | {wall * chosen.workers:.1f} | "
        f"{wall * chosen.workers / own_cpu:.2f} |"
    )


if __name__ == "__main__":
    main()
