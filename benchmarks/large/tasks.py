"""The tasks of a large run, which any process on any machine can perform.

    references  files of references → a lookup by image id
    count       a shard → its tokens, and in how many of its documents each n-gram occurs
    merge       the counts of all shards, or a saved file of them → a table of document frequencies
    model       a shard → scores of the metrics that run a model
    score       a shard → a Parquet file of scores, and what the corpus scores sum
    summarise   the scores of all shards → percentiles, histograms, repeated rows
    filter      a shard and its scores → a shard of the rows that score well enough

A task writes each file under a temporary name and renames it, and its result last, so that a run that is started again
goes on after the tasks that have one. Pools call `perform`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, chdir
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...datasets.cache import replacing
from ...datasets.errors import InputError
from ...datasets.reading.kept_rows import copy_kept_rows
from ...datasets.reading.shard_files import local_copy, name_of_copy
from ...datasets.reading.shard_rows import CorruptError, read_rows
from ...datasets.reading.source_files import sha256
from ...datasets.reading.suspected_faults import PlacedText
from ...datasets.reading.text_checks import FatalCount, count_fatal
from ...datasets.schema import item_ids
from ...metrics.base import Floats, Metric
from ...metrics.rows import Rows
from ...metrics.text.cider import ORDERS, Cider, count_documents
from ...metrics.text.frequency_table import (
    FrequencyTable,
    key_saved_counts,
    ngram_keys,
    word_keys,
    write_table,
)
from ...metrics.text.tokens.corpus import Corpus, corpus_key
from . import merging
from .plan import Plan, Task
from .reference_lookup import build_reference_lookup
from .run_folder import read_scores
from .shard_reader import open_shard

#: What a task returns: what its stage finds out, with its cost; or an `error` for people.
Result = dict[str, Any]

_COUNTS = pa.schema({"high": pa.uint64(), "low": pa.uint64(), "documents": pa.uint32()})
_KEYS = pa.schema({"high": pa.uint64(), "low": pa.uint64()})


def build_references(plan: Plan, task: Task) -> Result:
    """Build the lookup of references by image id (stage `references`)."""
    path = plan.file("references", "lookup")
    return {"images": build_reference_lookup(path, task.details["paths"], plan.columns)}


def count_ngrams(plan: Plan, task: Task) -> Result:
    """Write a shard's tokens, and in how many of its documents each n-gram occurs (stage `count`)."""
    assert task.shard is not None
    assert plan.counting_metric is not None
    tokenizer = plan.counting_metric.tokenizer
    path = plan.file("count", f"{task.id}.parquet")
    n_rows = 0
    with (
        open_shard(plan, task.shard) as shard,
        replacing(path) as stream,
        pq.ParquetWriter(stream, _COUNTS, compression="none", use_dictionary=False) as writer,
    ):
        for number, frame in enumerate(shard.frames()):
            rows, _ = Rows(frame).unique
            corpus = Corpus.of_rows(rows, tokenizer)
            with replacing(_token_file(plan, task, number)) as tokens:
                corpus.write(tokens)

            keys = np.concatenate(ngram_keys(corpus, ORDERS), axis=1)
            documents = np.concatenate(count_documents(corpus, rows.weights))
            is_counted = documents > 0
            high, low = keys[:, is_counted]
            counts = documents[is_counted].astype(np.uint32)
            writer.write_table(pa.table([high, low, counts], schema=_COUNTS))
            n_rows += len(frame)

    return {"rows": n_rows, "file": str(path)}


def _token_file(plan: Plan, task: Task, number: int) -> Path:
    """Return the path of the tokens of the rows that are scored together."""
    return plan.file("tokens", f"{task.id}-{number:06d}.npz")


def merge_counts(plan: Plan, task: Task) -> Result:
    """Write a table of document frequencies: of the set, or of a saved file (stage `merge`)."""
    key = task.details["key"]
    folder = plan.frequency_folder(key)
    metric = plan.frequency_tables[key]
    if metric.df is None:
        n_ngrams = merging.add_counts(
            files=task.details["files"],
            documents=task.details["documents"],
            target=folder,
            folder=Path(plan.work),
            threads=plan.threads,
        )
    else:
        saved = metric.read_frequencies()
        n_ngrams = len(saved.counts)
        write_table(folder, saved.documents, n_ngrams, [key_saved_counts(saved.counts)])

    return {"ngrams": n_ngrams, "file": str(folder / "counts.npy")}


def score_models(plan: Plan, task: Task) -> Result:
    """Score a shard by the metrics that run a model (stage `model`)."""
    from ...datasets.cache import keep
    from ...metrics.neural.store import forget

    keep(False)  # the features of so many captions would fill the cache
    assert task.shard is not None
    path = plan.file("model", f"{task.id}.parquet")
    specs = [metric.spec for metric in plan.model_metrics]
    schema = pa.schema([(spec, pa.float64()) for spec in specs])
    remarks: dict[str, list[str]] = {}
    n_rows = 0
    with (
        open_shard(plan, task.shard) as shard,
        replacing(path) as stream,
        pq.ParquetWriter(stream, schema) as writer,
    ):
        for frame in shard.frames():
            rows = Rows(frame)
            scores = [metric.score(rows) for metric in plan.model_metrics]
            writer.write_table(pa.table(scores, schema=schema))
            _add_remarks(remarks, rows)
            n_rows += len(frame)
            forget()

    return {"rows": n_rows, "remarks": remarks, "file": str(path)}


def score_shard(plan: Plan, task: Task) -> Result:
    """Write a shard's scores by every metric, and return what the corpus scores sum (stage `score`)."""
    assert task.shard is not None
    path = plan.file(plan.score_kind, f"{task.id}.parquet")
    specs = [metric.spec for metric in plan.loaded_metrics]
    schema = pa.schema(
        [
            ("item_id", pa.string()),
            ("image_id", pa.string()),
            ("row", pa.int64()),
            *((spec, pa.float64()) for spec in specs),
        ]
    )
    totals = {spec: Total() for spec in specs}
    remarks: dict[str, list[str]] = {}
    faults: list[dict[str, FatalCount]] = []
    n_rows = 0
    with ExitStack() as stack:
        shard = stack.enter_context(open_shard(plan, task.shard))
        writer = _open_writer(stack, path, schema)
        key_writer = _open_writer(stack, _key_file(path), _KEYS)
        model_scores: pa.Table | None = None
        if plan.model_metrics:
            model_scores = pq.read_table(plan.file("model", f"{task.id}.parquet"))

        for number, frame in enumerate(shard.frames()):
            models: dict[str, Floats] = {}
            if model_scores is not None:
                # Both files have the shard's rows in its order.
                of_frame = model_scores.slice(n_rows, len(frame))
                models = {spec: of_frame[spec].to_numpy() for spec in of_frame.column_names}

            rows = Rows(frame)
            tokens = _token_file(plan, task, number)
            scores = _score_rows(plan, rows, models, tokens, totals)
            _add_remarks(remarks, rows)
            faults.append(count_fatal(place_captions(frame, task.shard.path)))
            columns = {**_identify_rows(frame), **{spec: scores[spec] for spec in specs}}
            writer.write_table(pa.table(columns, schema=schema))
            key_writer.write_table(_key_rows(frame))
            n_rows += len(frame)

        names_systems = shard.names_systems
        digest = sha256(shard.path)

    return {
        "rows": n_rows,
        "sha256": digest,
        "names_systems": names_systems,
        "file": str(path),
        "scores": {"bytes": path.stat().st_size, "sha256": sha256(path)},
        "totals": {spec: vars(total) for spec, total in totals.items()},
        "remarks": remarks,
        "faults": faults,
    }


def place_captions(frame: pd.DataFrame, name: str) -> list[PlacedText]:
    """Return the captions of a frame of a shard with their places."""
    # The name of a shard is enough: a path would fill the line.
    name = name.rpartition("/")[2]
    placed: list[PlacedText] = []
    for row, image_id, caption in zip(
        frame["row"], frame["image_id"], frame["caption"], strict=True
    ):
        placed.append(PlacedText(f"{name}: row {row}", image_id, caption))

    return placed


def place_references(frame: pd.DataFrame, name: str) -> list[PlacedText]:
    """Return the references of a frame of a shard with their places, those of an image once."""
    name = name.rpartition("/")[2]
    placed: list[PlacedText] = []
    image_ids: set[str] = set()
    for row, image_id, references in zip(
        frame["row"], frame["image_id"], frame["references"], strict=True
    ):
        if image_id in image_ids:
            continue
        image_ids.add(image_id)
        for text in references:
            placed.append(PlacedText(f"{name}: row {row}", image_id, text))
    return placed


def _open_writer(stack: ExitStack, path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a Parquet file, which gets its name when the stack closes."""
    stream = stack.enter_context(replacing(path))
    return stack.enter_context(pq.ParquetWriter(stream, schema, compression="zstd"))


def _key_file(path: Path) -> Path:
    """Return the path of the keys of a shard's rows, beside its scores."""
    return path.with_suffix(".keys.parquet")


class Total:
    """The sums and the range of a metric's scores.

    Attributes:
        sums: of the summands of its corpus score; NaN where one is not finite.
        undefined: how many captions have no score.
        low, high: the least and the greatest score; None where there is none.
    """

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.undefined = 0
        self.low: float | None = None
        self.high: float | None = None

    def add(self, scores: Floats, summands: Floats) -> None:
        """Add scores, shape (n,), and what the corpus score sums of them, shape (n, k)."""
        sums = add_finite(np.asarray(summands, dtype=np.float64))
        self.sums = add_finite(np.array([self.sums, sums])) if self.sums else sums
        defined = scores[~np.isnan(scores)]
        self.undefined += len(scores) - len(defined)
        if len(defined):
            extremes = [defined.min(), defined.max()]
            extremes += [value for value in (self.low, self.high) if value is not None]
            self.low = float(min(extremes))
            self.high = float(max(extremes))


def add_finite(values: Floats) -> list[float]:
    """Add the rows of an array, shape (n, k); a sum is NaN where one of its numbers is not finite."""
    sums: list[float] = []
    for column in values.T:
        is_finite = bool(np.isfinite(column).all())
        sums.append(float(column.sum()) if is_finite else math.nan)

    return sums


def _score_rows(
    plan: Plan,
    rows: Rows,
    model_scores: dict[str, Floats],
    tokens: Path,
    totals: dict[str, Total],
) -> dict[str, Floats]:
    """Score rows by every metric, and add the scores to the totals.

    Args:
        plan: the plan.
        rows: the rows.
        model_scores: by spec, what the stage `model` found.
        tokens: the file of their tokens, if they were counted.
        totals: by spec.
    """
    unique, inverse = rows.unique
    _share_frequencies(plan, unique, tokens)
    scores_by_spec: dict[str, Floats] = {}
    for metric in plan.loaded_metrics:
        # A text metric scores equal rows once.
        is_unique = metric.depends_only_on_content and metric.spec not in model_scores
        scored = unique if is_unique else rows
        scores = model_scores.get(metric.spec)
        if scores is None:
            scores = metric.score(scored)

        summands = metric.corpus_summands(scored, scores)
        if summands is None:
            raise InputError(f"metric {metric.spec}: has no corpus score of parts")
        if is_unique:
            scores, summands = scores[inverse], summands[inverse]

        totals[metric.spec].add(scores, summands)
        scores_by_spec[metric.spec] = scores

    for spec, texts in unique.remarks.items():
        for text in texts:
            rows.add_remark(spec, text)

    return scores_by_spec


def _share_frequencies(plan: Plan, rows: Rows, tokens: Path) -> None:
    """Hand the document frequencies of rows' n-grams to the metrics that look them up."""
    if plan.counting_metric is not None and tokens.is_file():
        key = corpus_key(plan.counting_metric.tokenizer)
        rows.compute_once(key, lambda: Corpus.read(tokens))

    for name, metric in plan.frequency_tables.items():
        corpus = Corpus.of_rows(rows, metric.tokenizer)
        keys = ngram_keys(corpus, ORDERS)
        bounds = np.cumsum([key.shape[1] for key in keys])[:-1]
        table = _open_table(plan.frequency_folder(name))
        # All lengths at once: a search of denser keys stays longer in what caches hold of the table.
        counts = np.split(table.look_up(np.concatenate(keys, axis=1)), bounds)
        frequencies = (table.documents, counts)
        rows.compute_once(name, lambda frequencies=frequencies: frequencies)


@lru_cache(maxsize=4)
def _open_table(folder: Path) -> FrequencyTable:
    return FrequencyTable(folder)


def _identify_rows(frame: pd.DataFrame) -> dict[str, Any]:
    image_ids = frame["image_id"].tolist()
    ids = item_ids(image_ids, frame["caption"].tolist(), [None] * len(frame))
    return {"item_id": ids, "image_id": image_ids, "row": frame["row"].tolist()}


def _key_rows(frame: pd.DataFrame) -> pa.Table:
    """Return keys of rows, equal for rows of equal image and caption."""
    # The length of the id keeps "1" and "2 dogs" apart from "12" and " dogs".
    texts = [
        f"{len(image_id)}:{image_id}{caption}"
        for image_id, caption in zip(frame["image_id"], frame["caption"], strict=True)
    ]
    high, low = word_keys(texts)
    return pa.table([high, low], schema=_KEYS)


def _add_remarks(remarks: dict[str, list[str]], rows: Rows) -> None:
    for spec, texts in rows.remarks.items():
        # Sorted, so that they are the same however a shard's rows are cut into frames.
        remarks[spec] = sorted({*remarks.get(spec, []), *texts})


def summarise_scores(plan: Plan, task: Task) -> Result:
    """Compute percentiles and histograms, and count repeated rows and images (stage `summarise`)."""
    files = task.details["files"]
    distributions: dict[str, Any] = {}
    with merging.open_database(Path(plan.work), plan.threads) as database:
        for spec, edges in task.details["edges"].items():
            name = merging.quote(spec)
            scores = f"select {name} as score from read_parquet(?) where not isnan({name})"
            distribution = merging.measure_distribution(database, scores, [files], edges)
            distributions[spec] = vars(distribution)

        key_files = [str(_key_file(Path(file))) for file in files]
        repeated = merging.count_repeated(database, key_files)
        images = merging.count_images(database, files)

    return {"distributions": distributions, "repeated": repeated, "images": images}


def filter_shard(plan: Plan, task: Task) -> Result:
    """Write the rows of a shard whose score reaches a threshold (stage `filter`)."""
    shard, details = task.shard, task.details
    assert shard is not None
    # A JSON document cannot be copied row by row.
    if shard.kind == "json":
        raise InputError(f"{shard.path}: write it as JSON lines to filter it")

    scores = read_scores(details["scores_folder"], details["scores"], details["metric"])
    # NaN reaches no threshold.
    is_kept = scores >= details["threshold"]
    example_rows = details["example_rows"]
    target = Path(details["folder"]) / f"{task.id}-{name_of_copy(shard.path)}"
    texts: list[tuple[int, str, str]] = []
    with local_copy(shard, Path(plan.work)) as path:
        # By content: a shard may have been written anew with the same size and time.
        if sha256(path) != details["sha256"]:
            raise InputError(f"{shard.path}: is not what was scored; score the set anew")

        copy_kept_rows(path, shard.path, shard.kind, is_kept.tolist(), target)
        tables = read_rows(path, shard, plan.columns, plan.rows)
        while len(texts) < len(example_rows):
            table = next(tables).select(["row", "image_id", "caption"])
            is_example = np.isin(table["row"].to_numpy(), example_rows)
            texts += [tuple(row.values()) for row in table.filter(is_example).to_pylist()]

    return {
        "rows": len(scores),
        "kept_rows": int(is_kept.sum()),
        "undefined": int(np.isnan(scores).sum()),
        "texts": texts,
        "file": target.name,
        "sha256": sha256(target),
    }


def check_shards_suffice(metric: Metric) -> None:
    """Raise InputError where a metric has to see all captions at once."""
    is_own_cider = isinstance(metric, Cider) and metric.backend == "captau"
    if metric.depends_on_corpus and not is_own_cider:
        raise InputError(f"metric {metric.spec} has to see all captions at once; leave it out")


# Performing them.


#: The function of each stage, by its name.
STAGES: dict[str, Callable[[Plan, Task], Result]] = {
    "references": build_references,
    "count": count_ngrams,
    "merge": merge_counts,
    "model": score_models,
    "score": score_shard,
    "summarise": summarise_scores,
    "filter": filter_shard,
}
#: Stages whose results depend on other settings.
_TRANSIENT = ("summarise", "filter")


def perform(plan: Plan, stage: str, task: Task) -> Result:
    """Perform a task, and return its result with its cost, or with an `error` for people.

    Args:
        plan: of the run.
        stage: the name of the stage.
        task: what to do.
    """
    started = time.perf_counter()
    cpu_started = time.process_time()
    os.environ.update(plan.environment)
    try:
        with chdir(plan.directory):  # a cluster's workers begin elsewhere
            result = STAGES[stage](plan, task)
            result["seconds"] = time.perf_counter() - started
            result["cpu_seconds"] = time.process_time() - cpu_started
            result["rss"] = measure_peak_memory()
            if stage not in _TRANSIENT:
                write_result(plan, stage, task, result)
    except CorruptError as error:
        return {"error": str(error), "corrupt": True}
    except InputError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": describe_file_error(error, task.source, plan.work)}
    except Exception as error:
        # DuckDB's errors are told by name, so that a worker without it imports none.
        if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
            raise

        reason = " ".join(str(error).split())
        return {
            "error": f"{plan.work}: {reason}; start the same command again: what is done is kept"
        }

    return result


def _result_file(plan: Plan, stage: str, task: Task) -> Path:
    kind = plan.score_kind if stage == "score" else stage
    return plan.file(kind, f"{task.id}.json")


def write_result(plan: Plan, stage: str, task: Task, result: Result) -> None:
    """Store a task's result, for a run that is started again."""
    with replacing(_result_file(plan, stage, task)) as stream:
        stream.write(json.dumps(result).encode())


def read_result(plan: Plan, stage: str, task: Task) -> Result | None:
    """Return a task's stored result; None where there is none, or the file that it wrote is gone."""
    try:
        result = json.loads(_result_file(plan, stage, task).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

    # A result whose file was removed is computed again.
    return result if Path(result.get("file", plan.work)).exists() else None


def describe_file_error(error: OSError, location: str, work: str | None = None) -> str:
    """Return a line for people on a full disk, or on whatever else was wrong with a file.

    Args:
        error: what was wrong; it may know the file's name.
        location: the name of the file where it does not.
        work: the folder that is named where there is no room for a file without a name.
    """
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    name = error.filename or (work if is_full and work else location)
    remedy = "make room" if is_full else "see to it"
    return f"{name}: {error.strerror or error}; {remedy}, and start the same command again: what is done is kept"


def measure_peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    try:
        # Linux counts in getrusage what a process had before it became another program.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
