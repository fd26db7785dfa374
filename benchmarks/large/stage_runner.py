"""Running the stages of a large run: the tasks that have no result yet, with their cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ...datasets.errors import InputError
from ..runs.progress_bar import RowProgress
from . import tasks
from .plan import Plan, Task
from .pools import Pool
from .tasks import Result


@dataclass
class StageCost:
    """The cost of a stage, as run.json reports it.

    Attributes:
        tasks: how many were performed.
        again: how many had a result of an earlier run.
        rows: how many rows the performed tasks had.
        seconds, cpu_seconds: of the stage, and of all its workers.
        rss: the most memory that one worker had, in bytes.
    """

    tasks: int = 0
    again: int = 0
    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rss: int = 0

    def add(self, result: Result) -> None:
        """Add the cost of a task that was performed."""
        self.tasks += 1
        self.rows += result.get("rows", 0)
        self.cpu_seconds += result["cpu_seconds"]
        self.rss = max(self.rss, result["rss"])


@dataclass(frozen=True)
class StageRunner:
    """The stages of a run, whose tasks a pool performs.

    Attributes:
        pool: performs the tasks.
        progress: shows how far a stage is.
        skips_corrupt: whether a corrupt shard is left out, where it would end the run else.
        skipped: the results of shards that are left out, by the task's id; later stages do not read them.
        costs: by stage.
    """

    pool: Pool
    progress: RowProgress
    skips_corrupt: bool = False
    skipped: dict[str, Result] = field(default_factory=dict[str, Result])
    costs: dict[str, StageCost] = field(default_factory=dict[str, StageCost])

    def run(self, plan: Plan, stage: str, todo: Sequence[Task]) -> list[Result]:
        """Run a stage, and return the results of its tasks in their order; only those without a result are performed.

        Args:
            plan: of the run.
            stage: its name.
            todo: its tasks.

        Raises:
            InputError: where a task fails.
        """
        started = time.perf_counter()
        cost = self.costs.setdefault(stage, StageCost())
        results: dict[str, Result] = {}
        for task in todo:
            # A shard that an earlier stage left out is left out of all that follow.
            if task.id in self.skipped:
                results[task.id] = self.skipped[task.id]
                continue

            result = tasks.read_result(plan, stage, task)
            if result is None:
                continue

            results[task.id] = result
            cost.again += 1
            if "skipped" in result:
                self.skipped[task.id] = result

        unfinished = [task for task in todo if task.id not in results]
        run = self.pool.run_models if stage == "model" else self.pool.run
        work = partial(tasks.perform, plan, stage)
        with self.progress.stage(stage, len(todo), len(results)) as advance:
            for task, result in run(work, unfinished):
                if result.get("corrupt") and self.skips_corrupt:
                    result = {"rows": 0, "skipped": result["error"]}
                    tasks.write_result(plan, stage, task, result)
                    self.skipped[task.id] = result
                elif "error" in result:
                    raise InputError(result["error"])
                else:
                    cost.add(result)

                results[task.id] = result
                advance(1)

        cost.seconds += time.perf_counter() - started
        return [results[task.id] for task in todo]

    def describe_costs(self) -> dict[str, Any]:
        """Return the cost of each stage, and the most memory that this process and a worker had, for run.json."""
        return {
            "stages": {stage: asdict(cost) for stage, cost in self.costs.items()},
            "driver_rss": tasks.measure_peak_memory(),
            "worker_rss": max((cost.rss for cost in self.costs.values()), default=0),
        }
