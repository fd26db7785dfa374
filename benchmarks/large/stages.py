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
that is started again goes on after the tasks that have one. Some of the functions are those of `part_rows`;
engines call `perform`.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import chdir
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ...datasets.schema import item_ids
from ...datasets.shards.shard_rows import CorruptError
from ...metrics.base import Floats, Metric
from ...metrics.rows import Rows
from ...metrics.text import frequency_table
from ...metrics.text.cider import ORDERS, Cider, count_documents
from ...metrics.text.tokens.corpus import Corpus, corpus_key
from . import part_rows
from .exact import DigitCounts, add_digit_counts, count_bins, count_digits, exact_sum
from .part_rows import add_image_files, read_part
from .plan import RunPlan, read_plan

#: Metrics with the batch size that is fastest here, by their spec; found by trial, once in each process.
_fitted_metrics: dict[str, Metric] = {}
#: Rows of a trial, and the factors by which it multiplies the metric's own batch size.
_TRIAL_ROWS, _TRIAL_FACTORS = 512, (1, 4, 16)


def score_models(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Score a part by the metrics that run a model (stage `model`)."""
    from ...datasets.cache import keep
    from ...metrics.neural.store import forget

    keep(False)  # the features of so many captions would fill the cache
    frame = add_image_files(plan, read_part(plan, task["id"]))
    scores: dict[str, Floats] = {}
    remarks: dict[str, list[str]] = {}
    batches: dict[str, int] = {}
    for metric in plan.loaded_metrics:
        spec = metric.spec
        if spec not in plan.model_specs:
            continue
        if spec not in _fitted_metrics:
            _fitted_metrics[spec] = fit_batch_size(metric, frame)
        fitted, rows = _fitted_metrics[spec], Rows(frame)
        scores[spec] = fitted.score(rows)
        if texts := rows.remarks.get(fitted.spec):
            remarks[spec] = texts
        if "batch_size" in fitted.parameters:
            batches[spec] = fitted.parameters["batch_size"]
        forget()
    with replacing(plan.path("model", f"{task['id']}.npz")) as stream:
        np.savez(stream, **cast("Any", scores))
        written = stream.tell()
    return {"rows": len(frame), "remarks": remarks, "batches": batches, "written": written}


def fit_batch_size(metric: Metric, frame: pd.DataFrame) -> Metric:
    """Return a metric with the batch size that scores some rows fastest and that memory holds."""
    from ...metrics.neural.store import forget

    size = metric.parameters.get("batch_size")
    sample = frame.head(_TRIAL_ROWS)
    if not isinstance(size, int) or len(sample) < _TRIAL_ROWS:
        return metric
    fastest, least_seconds = metric, math.inf
    metric.score(Rows(sample.head(1)))  # loads the model
    for factor in _TRIAL_FACTORS:
        candidate = dataclasses.replace(cast("Any", metric), batch_size=size * factor)
        rows = Rows(sample)
        forget()
        started = time.perf_counter()
        candidate.score(rows)
        seconds = time.perf_counter() - started
        if any("memory was full" in text for texts in rows.remarks.values() for text in texts):
            break  # larger batches would be halved again and again
        if seconds < 0.9 * least_seconds:  # a gain that is more than chance
            fastest, least_seconds = candidate, seconds
    forget()
    return fastest


def count_ngrams(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write a part's tokens, and in how many of its documents each n-gram occurs (stage `count`)."""
    rows, _ = Rows(read_part(plan, task["id"])).unique
    corpus = Corpus.of_rows(rows, plan.cider_by_table[str(plan.own_frequencies)].tokenizer)
    with replacing(plan.path("tokens", f"{task['id']}.npz")) as stream:
        corpus.write(stream)
        token_bytes = stream.tell()
    counts = frequency_table.key_counts(
        frequency_table.ngram_keys(corpus, ORDERS),
        count_documents(corpus, rows.weights),
        int(rows.weights.sum()),
    )
    path = plan.path("counts", f"{task['id']}.bin")
    written = frequency_table.write_counts(path, counts)
    return {
        "rows": counts.documents,
        "words": len(corpus.words),
        "ngrams": len(counts.counts),
        "shuffled": written,
        "written": token_bytes + written,
    }


def merge_counts(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Add the counts of one range of keys over a group of files (stage `merge`)."""
    kind, level_text, number_text = str(task["id"]).split("-")
    level, number = int(level_text), int(number_text)
    rounds = plan.rounds[kind]
    range_number, n_ranges, files = rounds[level].inputs(number)
    counts = [
        frequency_table.read_range(plan.merge_file(kind, level - 1, file), range_number, n_ranges)
        for file in files
    ]
    # An n-gram of one document weighs as much as one of none, so that only those of two are kept in the end.
    total = frequency_table.merge(counts, min_documents=2 if level == len(rounds) - 1 else 1)
    return {
        "keys": len(total.counts),
        "occurrences": int(total.counts.sum(dtype=np.int64)),
        "read": sum(part.nbytes for part in counts),
        "written": frequency_table.write_counts(plan.merge_file(kind, level, number), total),
    }


def write_saved_table(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write a saved file of document frequencies as a table (stage `table`)."""
    saved = plan.cider_by_table[task["name"]].read_frequencies()
    counts = frequency_table.key_saved_counts(saved.counts, saved.documents)
    path = plan.frequency_table(task["name"])
    return {"written": frequency_table.write_counts(path, counts)}


@lru_cache(maxsize=4)
def _open_table(path: Path, _modified: int) -> frequency_table.FrequencyTable:
    return frequency_table.FrequencyTable(path)


def score_part(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Write a part's scores by every metric, and return what the corpus scores sum (stage `score`)."""
    part = str(task["id"])
    frame = read_part(plan, part)
    rows = Rows(frame)
    unique, inverse = rows.unique
    _share_frequencies(plan, part, unique)
    ids = item_ids(frame["image_id"].tolist(), frame["caption"].tolist(), [None] * len(frame))
    columns: dict[str, Any] = {"item_id": ids, "image_id": frame["image_id"], "row": frame["row"]}
    summary_by_spec: dict[str, Any] = {}
    model_scores: Mapping[str, Floats] = {}
    if plan.model_specs:
        with np.load(plan.path("model", f"{part}.npz")) as arrays:
            model_scores = dict(arrays)
    for metric in plan.loaded_metrics:
        spec = metric.spec
        # A text metric scores equal rows once.
        is_unique = metric.depends_only_on_content and spec not in model_scores
        scored = unique if is_unique else rows
        scores = model_scores[spec] if spec in model_scores else metric.score(scored)
        summands = metric.corpus_summands(scored, scores)
        if summands is None:
            raise InputError(f"metric {spec}: has no corpus score of parts")
        if is_unique:
            scores, summands = scores[inverse], summands[inverse]
        columns[spec] = scores
        summary_by_spec[spec] = _summarise(scores, summands)
    texts = (f"{len(i)}:{i}{c}" for i, c in zip(frame["image_id"], frame["caption"], strict=True))
    id_bytes = frequency_table.write_counts(
        plan.path("ids", f"{part}.bin"), frequency_table.key_texts(texts)
    )
    path = Path(plan.scores) / f"{part}.parquet"
    with replacing(path) as stream:
        pq.write_table(pa.table(columns), stream, compression="zstd")
        written = stream.tell()
    return {
        "rows": len(frame),
        "metrics": summary_by_spec,
        "remarks": unique.remarks | rows.remarks,
        "id_bytes": id_bytes,
        "sha256": sha256(path),
        "written": written,
    }


def _share_frequencies(plan: RunPlan, part: str, rows: Rows) -> None:
    """Hand the document frequencies of a part's n-grams to the metrics that look them up."""
    if own_table := plan.own_frequencies:
        tokens = plan.path("tokens", f"{part}.npz")
        key = corpus_key(plan.cider_by_table[own_table].tokenizer)
        rows.compute_once(key, lambda: Corpus.read(tokens))
    keys_by_tokenizer: dict[str, list[frequency_table.KeyHalves]] = {}
    for name, metric in plan.cider_by_table.items():
        tokenizer = metric.tokenizer
        if tokenizer not in keys_by_tokenizer:
            corpus = Corpus.of_rows(rows, tokenizer)
            keys_by_tokenizer[tokenizer] = frequency_table.ngram_keys(corpus, ORDERS)
        keys = keys_by_tokenizer[tokenizer]
        bounds = np.cumsum([key.shape[1] for key in keys])[:-1]
        path = plan.frequency_table(name)
        table = _open_table(path, path.stat().st_mtime_ns)
        # All lengths at once: a search of denser keys stays longer in what caches hold of the table.
        counts = np.split(table.look_up(np.concatenate(keys, axis=1)), bounds)
        rows.compute_once(name, lambda table=table, counts=counts: (table.documents, counts))


def _summarise(scores: Floats, summands: Floats) -> dict[str, Any]:
    """Return the exact sums of a metric's summands, and the count and range of its scores."""
    defined = scores[~np.isnan(scores)]
    sums = [exact_sum(np.asarray(column, dtype=np.float64)) for column in summands.T]
    return {
        "sums": [None if total is None else format(total, "x") for total in sums],
        "undefined": len(scores) - len(defined),
        "low": float(defined.min()) if len(defined) else None,
        "high": float(defined.max()) if len(defined) else None,
    }


def count_score_digits(plan: RunPlan, task: Mapping[str, Any]) -> dict[str, Any]:
    """Count digits of some parts' scores for percentiles, and fill histograms (stage `digits`)."""
    counts: defaultdict[str, DigitCounts] = defaultdict(dict)
    bins: dict[str, list[int]] = {}
    prefixes, edges = task["prefixes"], task["edges"]
    specs = list(dict.fromkeys([*prefixes, *edges]))
    for names in plan.parts[task["first"] : task["end"]]:
        table = pq.read_table(Path(plan.scores) / f"{names[0]}.parquet", columns=specs)
        for spec in specs:
            scores = table[spec].to_numpy()
            if spec in edges:
                part_bins = count_bins(scores, np.asarray(edges[spec])).tolist()
                bins[spec] = add_counts(bins.get(spec), part_bins)
            if spec in prefixes:
                digits = count_digits(scores, task["position"], prefixes[spec])
                add_digit_counts(counts[spec], digits)
    # JSON has no numbers for keys, so that mappings go as pairs.
    pairs = {
        spec: [[prefix, sorted(digits.items())] for prefix, digits in by_prefix.items()]
        for spec, by_prefix in counts.items()
    }
    return {"digits": pairs, "bins": bins}


def add_counts(total: list[int] | None, part: list[int]) -> list[int]:
    """Add the counts of a part's bins to a total."""
    return part if total is None else [a + b for a, b in zip(total, part, strict=True)]


def check_parts_suffice(metric: Metric) -> None:
    """Raise InputError where a metric has to see all captions at once."""
    is_own_cider = isinstance(metric, Cider) and metric.backend == "captau"
    if metric.depends_on_corpus and not is_own_cider:
        raise InputError(f"metric {metric.spec} has to see all captions at once; leave it out")


Task = Mapping[str, Any]
Result = dict[str, Any]

STAGES: dict[str, Callable[[RunPlan, Task], Result]] = {
    "pool": part_rows.build_pool,
    "read": part_rows.read_shard,
    "model": score_models,
    "count": count_ngrams,
    "merge": merge_counts,
    "table": write_saved_table,
    "score": score_part,
    "digits": count_score_digits,
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
