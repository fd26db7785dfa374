"""Running the stages of a large run: the tasks that have no result yet, by an engine, with their cost.

The stage `read` cuts each shard into pieces. A part, which one task scores, is a piece, or neighbouring pieces together,
which may come from several small shards: as many rows as suit the size of the set.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ...datasets.shards.shard_rows import MOST_BYTES
from ..options.large import ROWS, LargeOptions
from ..runs.progress_bar import RowProgress
from . import stages
from .engines import Engine
from .part_rows import piece_file
from .plan import RunPlan, part_name, plan_rounds
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


#: The number of parts beyond which a part gets more rows, and the rows that it gets at most.
_MANY_PARTS, _MOST_ROWS = 2_500, 32_000


@dataclass(frozen=True)
class Parts:
    """The parts into which the shards were read.

    Attributes:
        rows: how many rows each part has, by name.
        pieces: the names of each part's pieces, of which the first names the part.
        sources: the results of the stage `read`, a shard each.
        tasks: a task for each part.
        n_referenced_images: how many images have references in files of their own; None where the rows bring them.
    """

    rows: dict[str, int]
    pieces: tuple[tuple[str, ...], ...]
    sources: list[Result]
    tasks: list[Task]
    n_referenced_images: int | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows of all parts."""
        return sum(self.rows.values())

    @property
    def skipped(self) -> list[str]:
        """Messages on the shards that are corrupt and left out."""
        return [source["skipped"] for source in self.sources if "skipped" in source]

    @property
    def has_systems(self) -> bool:
        """Whether a shard has a column `system`, which is not read."""
        return any(source.get("names_systems", False) for source in self.sources)

    def names_by_shard(self) -> list[list[str]]:
        """Return the names of the parts that hold rows of each shard, in order."""
        names: list[dict[str, None]] = [{} for _ in self.sources]
        for pieces in self.pieces:
            for piece in pieces:
                names[shard_number(piece)][pieces[0]] = None
        return list(map(list, names))


def shard_number(piece: str) -> int:
    """Return the number of the shard that a piece comes from."""
    return int(piece.partition("-")[0])


def read_parts(options: LargeOptions, runner: StageRunner) -> tuple[RunPlan, Parts]:
    """Read the shards, with references by image id where the rows do not bring them, and write the parts in the plan.

    Raises:
        InputError: where there are no captions.
    """
    shards = runner.plan.shards
    n_referenced_images: int | None = None
    if runner.plan.has_reference_lookup:
        pool_task = {
            "id": "references",
            "paths": list(options.references),
            "columns": asdict(options.columns),
        }
        for _, pool in runner.run("pool", [pool_task]):
            n_referenced_images = pool["images"]
    tasks = [{"id": f"{i:06d}", "source": shard.path} for i, shard in enumerate(shards)]
    results = {task["id"]: result for task, result in runner.run("read", tasks)}
    sources = [results[task["id"]] for task in tasks]
    rows_by_piece, bytes_by_piece = (
        {
            part_name(number, i): size
            for number, source in enumerate(sources)
            for i, size in enumerate(source[key])
        }
        for key in ("parts", "bytes")
    )
    part_rows = options.rows or choose_part_rows(sum(rows_by_piece.values()))
    kinds = [shard.kind for shard in shards]
    pieces = join_pieces(rows_by_piece, bytes_by_piece, kinds, part_rows)
    part_tasks: list[Task] = [
        {"id": names[0], "source": shards[shard_number(names[0])].path} for names in pieces
    ]
    rows = {names[0]: sum(map(rows_by_piece.__getitem__, names)) for names in pieces}
    parts = Parts(rows, pieces, sources, part_tasks, n_referenced_images)
    if not pieces:
        names = ", ".join(options.candidates)
        if skipped := parts.skipped:
            raise InputError(
                f"{names}: {len(skipped):,} of {len(shards):,} shards were corrupt and no captions "
                f"are left; the first: {skipped[0]}"
            )
        raise InputError(f"{names}: it contains no captions")
    return replace(runner.plan, parts=pieces), parts


def choose_piece_rows(part_rows: int) -> int:
    """Choose how many rows a piece has: an equal share of a part, so that parts may span shards."""
    return part_rows // -(-part_rows // ROWS)


def choose_part_rows(n_rows: int) -> int:
    """Choose how many rows a part has: more where there would be many parts."""
    part_rows = ROWS
    while n_rows > part_rows * _MANY_PARTS and part_rows < _MOST_ROWS:
        part_rows *= 2
    return part_rows


def join_pieces(
    rows_by_piece: dict[str, int],
    bytes_by_piece: dict[str, int],
    kinds: Sequence[str],
    part_rows: int,
) -> tuple[tuple[str, ...], ...]:
    """Join neighbouring pieces of shards of one kind as long as memory holds them and they have `part_rows` rows."""
    parts: list[list[str]] = []
    n_rows, n_bytes = 0, 0
    for piece, piece_rows in rows_by_piece.items():
        n_rows += piece_rows
        n_bytes += bytes_by_piece[piece]
        is_of_kind = parts and kinds[shard_number(parts[-1][0])] == kinds[shard_number(piece)]
        if is_of_kind and n_rows <= part_rows and n_bytes <= MOST_BYTES:
            parts[-1].append(piece)
        else:
            parts.append([piece])
            n_rows, n_bytes = piece_rows, bytes_by_piece[piece]
    return tuple(map(tuple, parts))
