"""The stages of a large run, as tasks that any process on any node can perform.

    pool    files of references → a lookup by image id
    read    a shard → its rows in pieces of a fixed length, which make parts
    model   a part → scores of the metrics that run a model
    count   a part → tokens, and in how many of its documents n-grams occur
    merge   a range of the keys of n-grams or rows, in a group of files → their counts in one file
    table   a saved file of document frequencies → a table to look them up in
    score   a part → a Parquet file of scores, and what the corpus scores sum
    digits  some parts → counts for percentiles, and histograms
    filter  a shard and its scores → a shard of the rows that score well enough

A task writes each file under a temporary name and renames it, and writes its result last, so that a run
that is started again goes on after the tasks that have one. The functions are those of `part_rows` and
`part_scores`; engines call `perform`.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.shards.shard_rows import CorruptError
from . import part_rows, part_scores
from .plan import RunPlan, read_plan

Task = Mapping[str, Any]
Result = dict[str, Any]

STAGES: dict[str, Callable[[RunPlan, Task], Result]] = {
    "pool": part_rows.build_pool,
    "read": part_rows.read_shard,
    "model": part_scores.score_models,
    "count": part_scores.count_ngrams,
    "merge": part_scores.merge_counts,
    "table": part_scores.write_saved_table,
    "score": part_scores.score_part,
    "digits": part_scores.count_score_digits,
    "filter": part_rows.filter_shard,
}
#: Stages whose results are not stored: those that are quick, or depend on other settings.
_TRANSIENT = ("digits", "filter")


def perform(stage: str, plan_file: str, task: Task) -> Result:
    """Perform a task, and return its result with its cost, or with an `error` for people.

    Args:
        stage: a key of `STAGES`.
        plan_file: the path of the run's plan.
        task: its `id`, perhaps its `source` for error messages, and what its stage reads.
    """
    started, cpu_started = time.perf_counter(), time.process_time()
    try:
        plan = read_plan(plan_file)
        os.environ.update(plan.environment)
        with chdir(plan.directory):  # a cluster's workers begin elsewhere
            result = STAGES[stage](plan, task)
        result |= {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu_started,
            "rss": peak_memory(),
            "pid": os.getpid(),
        }
        if stage not in _TRANSIENT:
            write_result(plan, stage, task, result)
    except CorruptError as error:
        return {"error": str(error), "corrupt": True}
    except InputError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": describe_file_error(error, str(task.get("source", task["id"])), plan_file)}
    return result


def _result_file(plan: RunPlan, stage: str, task: Task) -> Path:
    return plan.path(stage, f"{task['id']}.json")


def write_result(plan: RunPlan, stage: str, task: Task, result: Mapping[str, Any]) -> None:
    """Store a task's result, for a run that is started again."""
    with replacing(_result_file(plan, stage, task)) as stream:
        stream.write(json.dumps(result).encode())


def read_result(plan: RunPlan, stage: str, task: Task) -> Result | None:
    """Return a task's stored result; None where there is none."""
    try:
        return json.loads(_result_file(plan, stage, task).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def describe_file_error(error: OSError, location: str, plan_file: str | None = None) -> str:
    """Return a line for people on a full disk, or on whatever else was wrong with a file.

    Args:
        error: what was wrong; it may know the file's name.
        location: the name of the file where it does not.
        plan_file: its folder is named where there is no room for a file without a name.
    """
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    name = error.filename or (str(Path(plan_file).parent) if is_full and plan_file else location)
    remedy = "make room" if is_full else "see to it"
    return f"{name}: {error.strerror or error}; {remedy}, and start the same command again: what is done is kept"


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    try:
        # Linux counts in getrusage what a process had before it became another program.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
