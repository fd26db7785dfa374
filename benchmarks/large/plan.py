"""The plan of a large run: the file that tells each task, in any process on any node, what the run computes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ...datasets.cache import replacing
from ...datasets.reading.table import Columns
from ...datasets.shards.shard_files import Shard
from ...metrics.base import Metric
from ...metrics.external import metric as make_metric
from ...metrics.text.cider import Cider

#: The bytes that a task reads and the files that it opens, at most.
TASK_BYTES, FAN = 1 << 27, 256
#: The smallest number of ranges in the last round, so that many workers share it, and the smallest size of a range.
_RANGES, _RANGE_BYTES = 16, 1 << 20
#: The smallest number of files for which it pays to join whole files before their ranges are split.
_LEAST_FAN = 4


@dataclass(frozen=True)
class MergeRound:
    """A round of merging, with a task for each group of files and each range.

    Attributes:
        n_files: the number of files of each range before the round.
        n_ranges: the number of ranges before the round.
        fan: the number of files of a group.
        split: the number of ranges into which the round cuts each range.
    """

    n_files: int
    n_ranges: int
    fan: int
    split: int

    @property
    def n_groups(self) -> int:
        """The number of files of each range after the round."""
        return -(-self.n_files // self.fan)

    @property
    def n_tasks(self) -> int:
        """The number of tasks, each of which writes a file."""
        return self.n_groups * self.n_ranges * self.split

    def inputs(self, task: int) -> tuple[int, int, list[int]]:
        """Return the range that a task reads, the number of ranges, and the numbers of the files that it opens."""
        n_ranges = self.n_ranges * self.split
        group, number = divmod(task, n_ranges)
        files = range(group * self.fan, min(self.n_files, (group + 1) * self.fan))
        return number, n_ranges, [file * self.n_ranges + number // self.split for file in files]


def plan_rounds(n_files: int, n_bytes: int) -> tuple[MergeRound, ...]:
    """Plan the rounds by which files become one file for each range, with tasks that hold few keys and open few files.

    Merging each range of keys over all files at once would open files × ranges. In rounds, the number grows as n log n:
    each task reads one range of keys from a group of neighbouring files and writes one file, so that every round has
    fewer files for each range, and more ranges, until each range is one file.

    Args:
        n_files: how many files there are, each with keys of all ranges.
        n_bytes: how many bytes all of them have.
    """
    rounds: list[MergeRound] = []
    n_ranges = 1
    fan = min(FAN, TASK_BYTES * n_files // max(1, n_bytes))
    if n_files > FAN and fan >= _LEAST_FAN:
        rounds.append(MergeRound(n_files, 1, fan, 1))
        n_files = rounds[-1].n_groups
    while n_files > FAN:
        rounds.append(MergeRound(n_files, n_ranges, FAN, FAN))
        n_files, n_ranges = rounds[-1].n_groups, n_ranges * FAN
    n_needed = max(n_bytes // TASK_BYTES, min(_RANGES, n_bytes // _RANGE_BYTES)) // n_ranges
    rounds.append(MergeRound(n_files, n_ranges, n_files, 1 << n_needed.bit_length()))
    return tuple(rounds)


#: The files of plans in the folder of intermediate files.
PLAN_FILES = "plan-*.json"


@dataclass(frozen=True)
class RunPlan:
    """All that the tasks of a run need to know.

    Attributes:
        work: the folder of intermediate files.
        scores: the folder of the parts' scores, a path or a URL.
        shards: the shards of candidates.
        columns: the names of their columns.
        part_rows: how many rows a piece of a shard has.
        parts: the names of each part's pieces, of which the first names the part. Tasks carry names or numbers of parts.
        rounds: the rounds of merging, by the folder of the files that are merged.
        needs_references: whether each row must have references.
        has_reference_lookup: whether rows take their references by image id, and do not bring them.
        metrics: as `describe_metric` writes them.
        model_specs: the specs of the metrics that run a model.
        frequencies: the tables of document frequencies by the name that metrics have for them, and the
            saved file that each is made from; None for the set's own.
        needs_images: whether metrics look at images, which tar shards bring.
        image_folder: the folder of the other shards' images.
        directory: where relative paths start, also on another node.
        environment: captau's environment variables.
    """

    work: str
    scores: str
    shards: tuple[Shard, ...]
    columns: Columns
    part_rows: int
    parts: tuple[tuple[str, ...], ...] = ()
    rounds: dict[str, tuple[MergeRound, ...]] = field(
        default_factory=dict[str, tuple[MergeRound, ...]]
    )
    needs_references: bool = False
    has_reference_lookup: bool = False
    metrics: tuple[dict[str, Any], ...] = ()
    model_specs: tuple[str, ...] = ()
    frequencies: dict[str, str | None] = field(default_factory=dict[str, str | None])
    needs_images: bool = False
    image_folder: str | None = None
    directory: str = field(default_factory=lambda: str(Path.cwd()))
    environment: dict[str, str] = field(
        default_factory=lambda: {k: v for k, v in os.environ.items() if k.startswith("CAPTAU_")}
    )

    @cached_property
    def _content(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @cached_property
    def file(self) -> str:
        """The path of the plan's own file: another one for another plan, so that no worker reads a former plan."""
        digest = hashlib.sha256(self._content).hexdigest()[:16]
        return str(Path(self.work) / PLAN_FILES.replace("*", digest))

    def save(self) -> None:
        """Write the plan's file."""
        with replacing(Path(self.file)) as stream:
            stream.write(self._content)

    def path(self, kind: str, name: str) -> Path:
        """Return the path of an intermediate file."""
        return Path(self.work) / kind / name

    @cached_property
    def pieces(self) -> dict[str, tuple[str, ...]]:
        """The names of the pieces of each part, by the part's name."""
        return {names[0]: names for names in self.parts}

    def merge_file(self, kind: str, level: int, number: int) -> Path:
        """Return the path of a file that a round of merging writes; of a part's own file where the level is -1."""
        if level < 0:
            return self.path(kind, f"{self.parts[number][0]}.bin")
        return self.merge_folder(kind, level) / f"{number:06d}.bin"

    def merge_folder(self, kind: str, level: int) -> Path:
        """Return the folder of a round of merging; of the parts' own files where the level is -1."""
        return self.path(kind, "") if level < 0 else self.path("merge", f"{kind}-{level}")

    def merge_mark(self, kind: str, level: int) -> Path:
        """Return the path of the file which says that a round is finished and its inputs are removed."""
        return self.path("merge", f"{kind}-{level}.done")

    def frequency_table(self, name: str) -> Path:
        """Return the path of the table of document frequencies that metrics call by a name."""
        return self.path("frequencies", f"{list(self.frequencies).index(name)}.bin")

    @property
    def own_frequencies(self) -> str | None:
        """The name of the table of the scored set itself; None where no metric looks it up."""
        return next((name for name, path in self.frequencies.items() if path is None), None)

    @property
    def has_own_frequencies(self) -> bool:
        """True once the set's own document frequencies are one table."""
        name = self.own_frequencies
        return name is not None and self.frequency_table(name).is_file()

    @cached_property
    def cider_by_table(self) -> dict[str, Cider]:
        """By the name of a table of document frequencies, a metric that looks it up."""
        return {m.frequencies_key: m for m in self.loaded_metrics if isinstance(m, Cider)}

    @cached_property
    def loaded_metrics(self) -> list[Metric]:
        """The metrics as objects."""
        return [build_metric(description) for description in self.metrics]


@lru_cache(maxsize=4)
def read_plan(path: str) -> RunPlan:
    """Read a plan's file, once in each process."""
    fields: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    fields["shards"] = tuple(Shard(**shard) for shard in fields["shards"])
    fields["columns"] = Columns(**fields["columns"])
    fields["parts"] = tuple(map(tuple, fields["parts"]))
    fields["rounds"] = {
        kind: tuple(MergeRound(**merge_round) for merge_round in rounds)
        for kind, rounds in fields["rounds"].items()
    }
    for key in ("metrics", "model_specs"):
        fields[key] = tuple(fields[key])
    return RunPlan(**fields)


def describe_metric(metric: Metric) -> dict[str, Any]:
    """Describe a metric for the plan's file; its spec would not do where the user named it."""
    if metric.origin:
        return {"origin": metric.origin}
    kind = type(metric)
    return {"module": kind.__module__, "class": kind.__name__, "parameters": metric.parameters}


def build_metric(description: Mapping[str, Any]) -> Metric:
    if "origin" in description:
        return make_metric(description["origin"])
    module = import_module(description["module"])
    return getattr(module, description["class"])(**description["parameters"])


def part_name(shard: int, part: int) -> str:
    """Return the name of a piece by the numbers of its shard and of itself; the first piece names a part."""
    return f"{shard:06d}-{part:05d}"
