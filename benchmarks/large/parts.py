"""The parts of a set, each of which one task scores: as many rows as suit the size of the set.

The stage `read` cuts each shard into pieces. A part is a piece, or neighbouring pieces together, which may come from
several small shards. `run` hands out the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from ...datasets.errors import InputError
from ...datasets.shards.shard_rows import MOST_BYTES
from ..options.large import ROWS, LargeOptions
from .plan import RunPlan, part_name
from .stage_runner import StageRunner
from .stages import Result, Task

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
    """

    rows: dict[str, int]
    pieces: tuple[tuple[str, ...], ...]
    sources: list[Result]
    tasks: list[Task]

    @property
    def n_rows(self) -> int:
        """The number of rows of all parts."""
        return sum(self.rows.values())

    @property
    def skipped(self) -> list[str]:
        """Messages on the shards that are corrupt and left out."""
        return [source["skipped"] for source in self.sources if "skipped" in source]

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


def read_parts(config: LargeOptions, runner: StageRunner) -> tuple[RunPlan, Parts]:
    """Read the shards, with references by image id where the rows do not bring them, and write the parts in the plan.

    Raises:
        InputError: where there are no captions.
    """
    shards = runner.plan.shards
    if runner.plan.has_reference_lookup:
        paths, columns = list(config.references), asdict(config.columns)
        runner.finish("pool", [{"id": "references", "paths": paths, "columns": columns}])
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
    part_rows = config.rows or choose_part_rows(sum(rows_by_piece.values()))
    kinds = [shard.kind for shard in shards]
    pieces = join_pieces(rows_by_piece, bytes_by_piece, kinds, part_rows)
    part_tasks: list[Task] = [
        {"id": names[0], "source": shards[shard_number(names[0])].path} for names in pieces
    ]
    rows = {names[0]: sum(map(rows_by_piece.__getitem__, names)) for names in pieces}
    parts = Parts(rows, pieces, sources, part_tasks)
    if not pieces:
        names = ", ".join(config.candidates)
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
