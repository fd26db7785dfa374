"""Running the stages of a large run: the tasks that have no result yet, by an engine, with their cost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ..runs.progress_bar import RowProgress
from . import stages
from .engines import Engine
from .merge_rounds import plan_rounds
from .part_rows import piece_file
from .plan import RunPlan, part_name
from .stages import Result, Task


@dataclass
class StageCost:
    """The cost of a stage, as run.json reports it.

    Attributes:
        tasks: how many were performed.
        again: how many had a result of an earlier run.
        rows: how many rows the performed tasks had.
        seconds, cpu_seconds: of the stage, and of all its workers.
        read, written: bytes.
        rss: the most memory that one worker had, in bytes.
    """

    tasks: int = 0
    again: int = 0
    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    read: int = 0
    written: int = 0
    rss: int = 0

    def add(self, result: Result) -> None:
        """Add the cost of a task that was performed."""
        self.cpu_seconds += result["cpu_seconds"]
        self.rows += result.get("rows", 0)
        self.read += result.get("read", 0)
        self.written += result.get("written", 0)
        self.rss = max(self.rss, result["rss"])


@dataclass(frozen=True)
class StageRunner:
    """The stages of a plan, which an engine runs.

    Attributes:
        plan: the plan, whose file is written.
        engine: performs the tasks.
        progress: shows how far a stage is.
        skips_corrupt: whether a corrupt shard is left out, where it would end the run else.
        costs: by stage.
    """

    plan: RunPlan
    engine: Engine
    progress: RowProgress
    skips_corrupt: bool
    costs: dict[str, StageCost] = field(default_factory=dict[str, StageCost])

    def run(
        self, stage: str, tasks: Sequence[Task], n_rows: int | None = None
    ) -> Iterator[tuple[Task, Result]]:
        """Yield the tasks of a stage with their results in any order; only those without one are performed.

        Args:
            stage: a key of `stages.STAGES`.
            tasks: all tasks of the stage.
            n_rows: how many rows they have; None where that is not known.

        Raises:
            InputError: where a task fails.
        """
        started = time.perf_counter()
        cost = self.costs.setdefault(stage, StageCost())
        unfinished: list[Task] = []
        finished: list[tuple[Task, Result]] = []
        for task in tasks:
            result = stages.read_result(self.plan, stage, task)
            if result is None or not self._has_files(stage, task, result):
                unfinished.append(task)
            else:
                finished.append((task, result))
        cost.tasks += len(unfinished)
        cost.again += len(finished)
        n_finished = sum(r.get("rows", 0) for _, r in finished) if n_rows else len(finished)
        with self.progress.stage(stage, n_rows or len(tasks), n_finished) as advance:
            yield from finished
            for task, result in self._perform(stage, unfinished):
                if "error" not in result:
                    cost.add(result)
                elif result.get("corrupt") and self.skips_corrupt:
                    result = Result(skipped=result["error"], parts=[], bytes=[], rows=0)
                    stages.write_result(self.plan, stage, task, result)
                else:
                    raise InputError(result["error"])
                advance(result.get("rows", 0) if n_rows else 1)
                yield task, result
        cost.seconds += time.perf_counter() - started

    def finish(self, stage: str, tasks: Sequence[Task], n_rows: int | None = None) -> None:
        """Run a stage whose results are files."""
        for _ in self.run(stage, tasks, n_rows):
            pass

    def _perform(self, stage: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        if stage == "model":
            return self.engine.run_models(self.plan.file, tasks)
        return self.engine.run(stage, self.plan.file, tasks)

    def _has_files(self, stage: str, task: Task, result: Result) -> bool:
        """Say whether the files that a task wrote are still there."""
        plan, name = self.plan, str(task["id"])
        match stage:
            case "read":
                pieces = [part_name(int(name), i) for i in range(len(result["parts"]))]
                return all(piece_file(plan, piece).is_file() for piece in pieces)
            case "count":
                has_counts = plan.has_own_frequencies or self._is_mergeable("counts", name)
                return has_counts and plan.path("tokens", f"{name}.npz").exists()
            case "merge":
                kind, level, number = name.split("-")
                return plan.merge_file(kind, int(level), int(number)).exists()
            case "table":
                return plan.frequency_table(str(task["name"])).exists()
            case "score":
                path = Path(plan.scores) / f"{name}.parquet"
                is_whole = path.is_file() and sha256(path) == result["sha256"]
                return is_whole and self._is_mergeable("ids", name)
            case _:
                files = {"pool": "references", "model": f"{name}.npz"}
                return plan.path(stage, files[stage]).exists()

    def _is_mergeable(self, kind: str, part: str) -> bool:
        """Say whether a part's keys are still there, or the first round has merged them."""
        plan = self.plan
        return plan.path(kind, f"{part}.bin").exists() or plan.merge_mark(kind, 0).exists()

    def merge(self, kind: str, n_bytes: int) -> tuple[list[Path], int]:
        """Merge the keys that each part has in a folder, and leave out those that occur once.

        Args:
            kind: the name of the folder.
            n_bytes: how many bytes all its files have.

        Returns:
            The files of the merged ranges, in order, and how many occurrences repeat an earlier one.

        Raises:
            InputError: where a task fails.
        """
        rounds = plan_rounds(len(self.plan.parts), n_bytes)
        plan = replace(self.plan, rounds={**self.plan.rounds, kind: rounds})
        plan.save()
        runner = replace(self, plan=plan)
        n_repeats = 0
        for level, merge_round in enumerate(rounds):
            if plan.merge_mark(kind, level).exists():
                continue
            plan.merge_folder(kind, level).mkdir(exist_ok=True)
            tasks = [{"id": f"{kind}-{level}-{i:06d}"} for i in range(merge_round.n_tasks)]
            n_repeats = sum(r["occurrences"] - r["keys"] for _, r in runner.run("merge", tasks))
            if merge_round is not rounds[-1]:
                plan.merge_mark(kind, level).touch()
                shutil.rmtree(plan.merge_folder(kind, level - 1))
        last = len(rounds) - 1
        files = [plan.merge_file(kind, last, i) for i in range(rounds[-1].n_tasks)]
        return files, n_repeats

    def describe_costs(self) -> dict[str, Any]:
        """Return the cost of each stage, and the most memory that this process and a worker had, for run.json."""
        return {
            "stages": {stage: asdict(cost) for stage, cost in self.costs.items()},
            "driver_rss": stages.peak_memory(),
            "worker_rss": max((cost.rss for cost in self.costs.values()), default=0),
        }
