"""Run the driver of `captau score` over a set of up to 10⁹ rows whose tasks are not performed.

    python scripts/speed/simulate_large_set.py --rows 1e9

Each shard is a link to the same file of 20,000 generated captions. The driver does all that it does in a run: it finds
and checks the shards, plans the parts and the rounds of merging, hands out every task, adds the results and writes the
manifest. The engine performs only the first tasks of each stage, and answers the others as if they had the same result.
Prints as JSON the driver's peak memory and CPU seconds, and the number of tasks and of opened files by stage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import benchmark_scale

from captau.benchmarks.large import run as large_run
from captau.benchmarks.large.engines import Engine, PoolEngine
from captau.benchmarks.large.plan import RunPlan, read_plan
from captau.benchmarks.large.stages import Result, Task, peak_memory
from captau.benchmarks.options.large import LargeOptions
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.metrics.text.frequency_table import DocumentCounts, key_texts, write_counts

METRICS = "bleu_1,bleu_2,bleu_3,bleu_4,rouge_l,cider"


class SimulatedEngine(Engine):
    """An engine that performs the first tasks of a stage, and answers the others in their likeness."""

    name = "simulated"
    workers = 1

    def __init__(self, shuffled_bytes: float) -> None:
        self.shuffled_bytes = shuffled_bytes  # of n-grams' counts, a row
        self.opens: Counter[str] = Counter()
        self.pool = PoolEngine(1)  # so that the memory of this process is that of the driver
        self.rounds: dict[str, Any] = {}

    def __exit__(self, *details: object) -> None:
        self.pool.__exit__(*details)

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        run_plan = read_plan(plan)
        self.rounds |= run_plan.rounds
        answer = getattr(self, f"_{stage}")
        first: Result | None = None
        for task in tasks:
            # The first part has rows of the second shard.
            is_second_shard = stage == "read" and task["id"] == "000001"
            if stage != "merge" and (first is None or is_second_shard):
                performed = {**task, "end": 1} if stage == "digits" else task
                ((_, first),) = self.pool.run(stage, plan, [performed])
            costs = {"cpu_seconds": 0.0, "rss": 0}
            yield task, costs | answer(run_plan, task, first)

    def _read(self, plan: RunPlan, task: Task, first: Result) -> Result:
        self.opens["read"] += 1 + len(first["parts"])
        return {key: first[key] for key in ("sha256", "parts", "bytes", "rows", "read", "written")}

    def _count(self, plan: RunPlan, task: Task, first: Result) -> Result:
        self.opens["count"] += len(plan.pieces[task["id"]]) + 2
        shuffled = int(first["rows"] * self.shuffled_bytes)
        return {"rows": first["rows"], "shuffled": shuffled, "written": shuffled}

    def _merge(self, plan: RunPlan, task: Task, _: None) -> Result:
        kind, level, number = task["id"].split("-")
        merge_round = plan.rounds[kind][int(level)]
        self.opens["merge"] += 1 + len(merge_round.inputs(int(number))[2])
        if merge_round is plan.rounds[kind][-1] and kind == "counts":  # the driver joins these
            write_counts(plan.merge_file(kind, int(level), int(number)), _NO_COUNTS)
        return {"keys": 0, "occurrences": 0}

    def _score(self, plan: RunPlan, task: Task, first: Result) -> Result:
        self.opens["score"] += len(plan.pieces[task["id"]]) + 3
        (Path(plan.scores) / f"{task['id']}.parquet").touch()
        return first

    def _digits(self, plan: RunPlan, task: Task, first: Result) -> Result:
        n_parts = len(plan.parts[task["first"] : task["end"]])
        self.opens["digits"] += n_parts
        digits = {
            spec: [[prefix, [(d, n * n_parts) for d, n in pairs]] for prefix, pairs in by_prefix]
            for spec, by_prefix in first["digits"].items()
        }
        return {"digits": digits, "bins": first["bins"]}


_NO_COUNTS: DocumentCounts = key_texts([])


def simulate(rows: int, shuffled_bytes: float, folder: Path) -> dict[str, Any]:
    """Run the driver over a set of `rows` rows, a multiple of a shard's, in a folder."""
    shard = next(benchmark_scale.make(folder, benchmark_scale.SHARD).iterdir())
    shards = folder / "shards"
    shards.mkdir()
    for number in range(rows // benchmark_scale.SHARD):
        os.link(shard, shards / f"part-{number:06d}.parquet")
    engine = SimulatedEngine(shuffled_bytes)
    large_run.open_engine = lambda *_: engine  # pyright: ignore[reportAttributeAccessIssue]
    output = folder / "scored"
    started, cpu_started = time.perf_counter(), time.process_time()
    large_run.run(
        LargeOptions(
            candidates=(str(shards),),
            references=(),
            metrics=resolve_metrics(METRICS.split(",")),
            output=str(output),
            trust=None,
        )
    )
    record = json.loads((output / "run.json").read_text(encoding="utf-8"))
    manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
    return {
        "rows": manifest["rows"],
        "parts": len(manifest["parts"]),
        "tasks": {stage: cost["tasks"] for stage, cost in record["costs"]["stages"].items()},
        "opens": dict(engine.opens),
        "rounds": {kind: len(rounds) for kind, rounds in engine.rounds.items()},
        "driver_rss": peak_memory(),
        "driver_seconds": time.perf_counter() - started,
        "driver_cpu_seconds": time.process_time() - cpu_started,
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--shuffled", type=float, default=2000, help="bytes of n-gram counts a row")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="captau-simulation-") as temporary:
        print(json.dumps(simulate(int(chosen.rows), chosen.shuffled, Path(temporary))))


if __name__ == "__main__":
    main()
