"""The stages of a large run, as tasks that any process on any node may do.

    read    a shard → its rows in parts of a fixed length
    model   a part → scores of the metrics that run a model
    count   a part → tokens, and in how many of its documents n-grams occur
    merge   a partition of the n-grams → their counts in all parts
    score   a part → a Parquet file of scores, and what the corpus scores sum
    digits  some parts → counts for percentiles, and histograms
    filter  a shard and its scores → a shard of the rows that are kept

A task writes whatever it makes under a temporary name, renames it, and last writes its result, so that
a run that is started again goes on after the tasks that have one.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib import import_module
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
from ...datasets.shards.row_filter import copy_kept_rows
from ...datasets.shards.row_reader import IMAGES, Columns, CorruptError, batch_rows, read_rows
from ...datasets.shards.shard_files import Shard, local_copy, plain_name
from ...metrics.base import Floats, Metric
from ...metrics.rows import Rows
from ...metrics.text import frequency_table
from ...metrics.text.cider import Cider
from ...metrics.text.document_frequencies import ORDERS, DocumentFrequencies, count_documents
from ...metrics.text.tokens.corpus import Corpus
from ..scoring.caption_files import read_candidates
from .exact import digit_counts, exact_sum, histogram
from .folders import Folder
from .lookup import Lookup, build

#: Where a metric's counts of n-grams lie, when the set's own are wanted.
OWN_DF = "df"
#: Rows that are read of a shard at a time, where they need not be a part.
ROWS_READ = 10_000

Task = Mapping[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What a run does; all that its tasks need to know.

    Attributes:
        cwd: what paths are relative to, also on another node.
        environment: captau's own settings, likewise.
        work: the folder of what is made on the way.
        scores: the folder of the parts' scores.
        shards: of the candidates.
        columns: their columns' names.
        size: rows of a part.
        references: whether rows must have some.
        pool: whence rows take their references by image id; None where they bring them.
        metrics: all metrics, as `described`.
        models: the specs of those that run a model.
        frequencies: the tables of document frequencies by what metrics call them, and the saved file
            that each is made of; None for the set's own.
        images: whether metrics look at images, which tar shards bring.
        pictures: the folder of the other shards' images.
        skip_corrupt: whether a shard that cannot be read is left out.
    """

    cwd: str
    environment: dict[str, str]
    work: str
    scores: str
    shards: tuple[Shard, ...]
    columns: Columns
    size: int
    references: bool
    pool: bool
    metrics: tuple[dict[str, Any], ...]
    models: tuple[str, ...]
    frequencies: dict[str, str | None]
    images: bool
    pictures: str | None
    skip_corrupt: bool

    def write(self, path: Path) -> None:
        """As JSON."""
        with replacing(path) as stream:
            stream.write(json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: str) -> Plan:
        """What `write` wrote; read once by a process."""
        return _plan(path, Path(path).stat().st_mtime_ns)

    def file(self, kind: str, name: str) -> Path:
        """A file of the run's own."""
        return Path(self.work) / kind / name

    @property
    def table(self) -> Path:
        """The folder of document frequencies."""
        return Path(self.work) / "frequencies"

    def table_of(self, name: str) -> Path:
        """The table of document frequencies that a metric looks up."""
        return self.table / f"{list(self.frequencies).index(name)}.bin"

    @cached_property
    def chosen(self) -> list[Metric]:
        """The metrics."""
        return [_built(one) for one in self.metrics]


def settings() -> dict[str, str]:
    """Of this process' environment what is captau's."""
    return {key: value for key, value in os.environ.items() if key.startswith("CAPTAU_")}


def described(one: Metric) -> dict[str, Any]:
    """A metric for a file; its spec would not do, where results call it by a name of its own."""
    kind = type(one)
    return {"module": kind.__module__, "class": kind.__name__, "parameters": one.parameters}


def _built(description: Mapping[str, Any]) -> Metric:
    module = import_module(description["module"])
    return getattr(module, description["class"])(**description["parameters"])


@lru_cache(maxsize=4)
def _plan(path: str, _modified: int) -> Plan:
    found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    found["shards"] = tuple(Shard(**shard) for shard in found["shards"])
    found["columns"] = Columns(**found["columns"])
    for key in ("metrics", "models"):
        found[key] = tuple(found[key])
    return Plan(**found)


def perform(stage: str, plan: str, task: Task) -> Result:
    """Do a task; what comes back has its cost, or an `error` for people.

    Args:
        stage: of `STAGES`.
        plan: the path of the run's plan.
        task: its `id`, and what else the stage wants to know.
    """
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        chosen = Plan.read(plan)
        if Path.cwd() != Path(chosen.cwd):  # a cluster's workers begin elsewhere
            os.chdir(chosen.cwd)
        os.environ.update(chosen.environment)
        result = STAGES[stage](chosen, task)
    except CorruptError as error:
        return {"error": str(error), "corrupt": True}
    except InputError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": said(error, str(task.get("source", task["id"])), plan)}
    result |= {
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - cpu,
        "rss": peak_rss(),
        "pid": os.getpid(),
    }
    if task.get("kept", True):
        try:
            path = chosen.file(stage, f"{task['id']}.json")
            with replacing(path) as stream:
                stream.write(json.dumps(result).encode())
        except OSError as error:
            return {"error": said(error, str(task.get("source", task["id"])), plan)}
    return result


def said(error: OSError, where: str, plan: str | None = None) -> str:
    """A line for a disk that is full, or whatever else was wrong with a file.

    Args:
        error: what was wrong, which knows the file's name or does not.
        where: what is named then.
        plan: beside it is written, and so it is named where there is no room; None for `where`.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    name = error.filename or (str(Path(plan).parent) if full and plan else where)
    remedy = "make room" if full else "see to it"
    return f"{name}: {error.strerror or error}; {remedy}, and start the same command again: what is done is kept"


def peak_rss() -> int:
    """The most memory that this process has had, in bytes."""
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


def part_name(shard: int, part: int) -> str:
    """How a part of a shard is called."""
    return f"{shard:06d}-{part:05d}"


def _pool(plan: Plan, task: Task) -> Result:
    entries, size = build(
        plan.file("pool", "references"), task["paths"], Columns(**task["columns"])
    )
    return {"images": entries, "written": size}


def _read(plan: Plan, task: Task) -> Result:
    number = int(task["id"])
    shard = plan.shards[number]
    sizes: list[int] = []
    written = 0
    images = plan.file("images", task["id"]) if plan.images and shard.kind == "tar" else None
    if images is not None:
        images.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        pool = stack.enter_context(Lookup(plan.file("pool", "references"))) if plan.pool else None
        path = stack.enter_context(local_copy(shard, plan.file("read", "")))
        digest = sha256(path)
        for table in _tables(plan, shard, path, images):
            if pool is not None:
                table = _with_references(table, pool, shard.path)
            if plan.references:
                _check_references(table, shard.path)
            part = part_name(number, len(sizes))
            written += _write_rows(plan.file("rows", f"{part}.arrow"), table)
            sizes.append(len(table))
    return {
        "sha256": digest,
        "parts": sizes,
        "rows": sum(sizes),
        "read": shard.size,
        "written": written,
    }


def _tables(plan: Plan, shard: Shard, path: Path, images: Path | None) -> Iterator[pa.Table]:
    if shard.kind != "json":
        return read_rows(path, shard, plan.columns, plan.size, images)
    captions = read_candidates(path).captions
    return batch_rows(((i, caption, None) for i, caption in captions.items()), plan.size)


def _with_references(table: pa.Table, pool: Lookup, name: str) -> pa.Table:
    found: list[list[str]] = []
    for row, image_id in zip(table["row"].to_pylist(), table["image_id"].to_pylist(), strict=True):
        texts = pool.get(image_id)
        if texts is None:
            raise InputError(
                f"{name}: row {row}: image '{image_id}' has no references in those given; add them or "
                f"leave the row out"
            )
        found.append(texts)
    place = table.schema.get_field_index("references")
    return table.set_column(place, "references", pa.array(found, pa.list_(pa.string())))


def _check_references(table: pa.Table, name: str) -> None:
    for row, texts in zip(table["row"].to_pylist(), table["references"].to_pylist(), strict=True):
        if not texts:
            raise InputError(
                f"{name}: row {row}: no references; give references=FILE, or metrics that need none"
            )


def _write_rows(path: Path, table: pa.Table) -> int:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with replacing(path) as stream:
        with pa.ipc.new_file(stream, table.schema, options=options) as writer:
            writer.write_table(table)
        return stream.tell()


def read_part(path: Path) -> pd.DataFrame:
    """The rows of a part, as metrics take them."""
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    frame = pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    )
    frame["references"] = pd.Series(
        [tuple(texts or ()) for texts in frame["references"]], dtype=object
    )
    return frame


def first_row(plan: Plan, part: str) -> pd.DataFrame:
    """A row to try metrics on."""
    return _pictured(plan, read_part(plan.file("rows", f"{part}.arrow")).head(1))


class Model:
    """Metrics that run a model, which stays loaded between tasks.

    Args:
        plan: the path of the run's plan.
    """

    def __init__(self, plan: str) -> None:
        self._plan = plan

    def perform(self, task: Task) -> Result:
        """Do a task of the stage `model`."""
        return perform("model", self._plan, task)


#: How many texts or images at a time suit a metric here, by its spec; found by trial.
_fitting: dict[str, Metric] = {}
#: Rows that trials are made with, and what they multiply the metric's own batch size by.
_TRIED, _FACTORS = 512, (1, 4, 16)


def _model(plan: Plan, task: Task) -> Result:
    from ...datasets.cache import keep
    from ...metrics.neural.store import forget

    keep(False)  # of so many captions no features are kept
    frame = _pictured(plan, read_part(plan.file("rows", f"{task['id']}.arrow")))
    found: dict[str, Floats] = {}
    remarks: dict[str, list[str]] = {}
    batches: dict[str, int] = {}
    for model in plan.chosen:
        spec = model.spec
        if spec not in plan.models:
            continue
        if spec not in _fitting:
            _fitting[spec] = fitting(model, frame)
        one, rows = _fitting[spec], Rows(frame)
        found[spec] = one.score(rows)
        if said := rows.remarks.get(one.spec):
            remarks[spec] = said
        if "batch_size" in one.parameters:
            batches[spec] = one.parameters["batch_size"]
        forget()
    with replacing(plan.file("model", f"{task['id']}.npz")) as stream:
        np.savez(stream, **cast("Any", found))
        written = stream.tell()
    return {"rows": len(frame), "remarks": remarks, "batches": batches, "written": written}


def fitting(one: Metric, frame: pd.DataFrame) -> Metric:
    """A metric with the batch size that some rows are scored fastest with, and that memory holds."""
    from ...metrics.neural.store import forget

    size = one.parameters.get("batch_size")
    some = frame.head(_TRIED)
    if not isinstance(size, int) or len(some) < _TRIED:
        return one
    best, least = one, math.inf
    one.score(Rows(some.head(1)))  # loads the model
    for factor in _FACTORS:
        tried = dataclasses.replace(cast("Any", one), batch_size=size * factor)
        rows = Rows(some)
        forget()
        begun = time.perf_counter()
        tried.score(rows)
        seconds = time.perf_counter() - begun
        if any("memory was full" in text for said in rows.remarks.values() for text in said):
            break  # larger ones would be halved again and again
        if seconds < 0.9 * least:  # a gain that is more than chance
            best, least = tried, seconds
    forget()
    return best


def _pictured(plan: Plan, frame: pd.DataFrame) -> pd.DataFrame:
    """With the image file of each row, where there is a folder of images."""
    if plan.pictures is None or "image" in frame.columns:
        return frame
    folder = Path(plan.pictures)
    found = [_picture(folder, image_id) for image_id in frame["image_id"]]
    if None in found:
        row = frame.iloc[found.index(None)]
        raise InputError(f"row {row['row']}: image '{row['image_id']}' has no file in {folder}")
    return frame.assign(image=pd.Series(found, dtype=object))


def _picture(folder: Path, image_id: str) -> str | None:
    """An image's file: named by its id, with or without an ending."""
    name = Path(image_id).name
    for path in (folder / name, *(folder / f"{name}.{ending}" for ending in IMAGES)):
        if path.is_file():
            return str(path)
    return None


def _count(plan: Plan, task: Task) -> Result:
    rows, _ = Rows(read_part(plan.file("rows", f"{task['id']}.arrow"))).unique
    corpus = Corpus.of_rows(rows)
    with replacing(plan.file("tokens", f"{task['id']}.npz")) as stream:
        corpus.write(stream)
        tokens = stream.tell()
    held = count_documents(corpus, rows.weights)
    found = frequency_table.key_counts(
        frequency_table.ngram_keys(corpus, ORDERS), held, int(rows.weights.sum())
    )
    path = plan.file("counts", f"{task['id']}.bin")
    written = frequency_table.write_counts(path, found, task["partitions"])
    return {
        "rows": found.documents,
        "words": len(corpus.words),
        "ngrams": len(found.counts),
        "shuffled": written,
        "written": tokens + written,
    }


def _merge(plan: Plan, task: Task) -> Result:
    partition = int(task["id"])
    parts = [
        frequency_table.read_partition(plan.file("counts", f"{p}.bin"), partition)
        for p in task["parts"]
    ]
    # What one document holds weighs as much as what none does.
    total = frequency_table.merge(parts, min_documents=2)
    written = frequency_table.write_counts(plan.file("merge", f"{task['id']}.bin"), total, 1)
    return {
        "documents": total.documents,
        "ngrams": len(total.counts),
        "read": sum(p.nbytes for p in parts),
        "written": written,
    }


def _table(plan: Plan, task: Task) -> Result:
    """A saved file of document frequencies as a table."""
    saved = DocumentFrequencies.read(Path(task["path"]).expanduser())
    found = frequency_table.key_saved_counts(saved.counts, saved.documents)
    return {"written": frequency_table.write_counts(plan.table_of(task["name"]), found, 1)}


@lru_cache(maxsize=4)
def _opened(path: Path, _modified: int) -> frequency_table.FrequencyTable:
    return frequency_table.FrequencyTable(path)


def _score(plan: Plan, task: Task) -> Result:
    part = str(task["id"])
    frame = read_part(plan.file("rows", f"{part}.arrow"))
    rows = Rows(frame)
    unique, inverse = rows.unique
    tokens = plan.file("tokens", f"{part}.npz")
    if OWN_DF in plan.frequencies:
        unique.compute_once("corpus", lambda: Corpus.read(tokens))
    keys: list[frequency_table.KeyHalves] = []
    for name in plan.frequencies:
        keys = keys or frequency_table.ngram_keys(Corpus.of_rows(unique), ORDERS)
        path = plan.table_of(name)
        table = _opened(path, path.stat().st_mtime_ns)
        held = [table.look_up(key) for key in keys]
        unique.compute_once(name, lambda table=table, held=held: (table.documents, held))
    ids = item_ids(frame["image_id"].tolist(), frame["caption"].tolist(), [None] * len(frame))
    columns: dict[str, Any] = {"item_id": ids, "image_id": frame["image_id"], "row": frame["row"]}
    sums: dict[str, Any] = {}
    models: Mapping[str, Floats] = {}
    if plan.models:
        with np.load(plan.file("model", f"{part}.npz")) as found:
            models = dict(found)
    for one in plan.chosen:
        # What rows of a text metric are equal is scored once.
        scored = unique if one.depends_only_on_content and one.spec not in models else rows
        scores = models[one.spec] if one.spec in models else one.score(scored)
        summands = one.corpus_summands(scored, scores)
        if summands is None:
            raise InputError(f"metric {one.spec}: has no corpus score of parts")
        if scored is unique:
            scores, summands = scores[inverse], summands[inverse]
        columns[one.spec] = scores
        defined = scores[~np.isnan(scores)]
        total = [exact_sum(np.asarray(column, dtype=np.float64)) for column in summands.T]
        sums[one.spec] = {
            "sums": [None if t is None else format(t, "x") for t in total],
            "undefined": len(scores) - len(defined),
            "low": float(defined.min()) if len(defined) else None,
            "high": float(defined.max()) if len(defined) else None,
        }
    path = Path(plan.scores) / f"{part}.parquet"
    with replacing(path) as stream:
        pq.write_table(pa.table(columns), stream, compression="zstd")
        written = stream.tell()
    return {
        "rows": len(frame),
        "metrics": sums,
        "remarks": unique.remarks | rows.remarks,
        "sha256": sha256(path),
        "written": written,
    }


def scores_of(folder: str, part: Mapping[str, Any], spec: str) -> Floats:
    """A metric's scores of a part, shape (n_rows,).

    Args:
        folder: of the parts, a path or a URL.
        part: as the manifest lists it.

    Raises:
        InputError: where its file is not there, or is not the one that the manifest lists.
    """
    name = part["name"]
    content = Folder(folder).read(name)
    if content is None:
        raise InputError(f"{folder}/{name}: is not there; score the set anew")
    if hashlib.sha256(content).hexdigest() != part["sha256"]:
        raise InputError(f"{folder}/{name}: is not what was scored; score the set anew")
    return pq.read_table(pa.BufferReader(content), columns=[spec])[spec].to_numpy()


def _filter(plan: Plan, task: Task) -> Result:
    shard = plan.shards[int(task["id"])]
    if task["skipped"]:
        nothing = {"rows": 0, "kept_rows": 0, "undefined": 0, "texts": []}
        return {**nothing, "file": "", "sha256": ""}
    parts = [scores_of(plan.scores, part, task["metric"]) for part in task["parts"]]
    values = np.concatenate([np.empty(0), *parts])
    kept = values >= task["threshold"]
    shown = set(task["shown"])
    target = Path(task["folder"]) / f"{task['id']}-{plain_name(shard.path)}"
    texts: list[tuple[int, str, str]] = []
    with local_copy(shard, plan.file("filter", "")) as path:
        if sha256(path) != task["sha256"]:
            raise InputError(f"{shard.path}: is not what was scored; score the set anew")
        if shard.kind == "json":
            raise InputError(f"{shard.path}: write it as JSON lines to filter it")
        with replacing(target) as stream:
            copy_kept_rows(path, shard.path, shard.kind, kept.tolist(), stream)
        if shown:
            for table in read_rows(path, shard, plan.columns, plan.size):
                some = table.select(["row", "image_id", "caption"]).to_pylist()
                texts += [tuple(row.values()) for row in some if row["row"] in shown]
    return {
        "rows": len(values),
        "kept_rows": int(kept.sum()),
        "undefined": int(np.isnan(values).sum()),
        "texts": texts,
        "file": target.name,
        "sha256": sha256(target),
    }


def _digits(plan: Plan, task: Task) -> Result:
    found: dict[str, dict[int, dict[int, int]]] = {}
    bins: dict[str, list[int]] = {}
    wanted = dict.fromkeys([*task["ask"], *task["edges"]])
    for part in task["parts"]:
        table = pq.read_table(Path(plan.scores) / f"{part}.parquet", columns=list(wanted))
        for spec in wanted:
            values = table[spec].to_numpy()
            if spec in task["edges"]:
                counts = histogram(values, np.asarray(task["edges"][spec])).tolist()
                bins[spec] = [
                    a + b for a, b in zip(bins.get(spec, [0] * len(counts)), counts, strict=True)
                ]
            if spec in task["ask"]:
                prefixes = [int(p) for p in task["ask"][spec]]
                add_digits(
                    found.setdefault(spec, {}), digit_counts(values, task["place"], prefixes)
                )
    # JSON has no numbers for keys.
    plain = {
        spec: [[prefix, sorted(digits.items())] for prefix, digits in of.items()]
        for spec, of in found.items()
    }
    return {"digits": plain, "bins": bins}


def add_digits(total: dict[int, dict[int, int]], more: Mapping[int, Mapping[int, int]]) -> None:
    """Add counts of digits by prefix to others."""
    for prefix, digits in more.items():
        into = total.setdefault(prefix, {})
        for digit, count in digits.items():
            into[digit] = into.get(digit, 0) + count


STAGES: dict[str, Callable[[Plan, Task], Result]] = {
    "pool": _pool,
    "read": _read,
    "model": _model,
    "count": _count,
    "merge": _merge,
    "table": _table,
    "score": _score,
    "digits": _digits,
    "filter": _filter,
}


def needs_counts(one: Metric) -> bool:
    """Whether a metric wants the document frequencies of the whole set.

    Raises:
        InputError: where it wants to see all captions at once.
    """
    if isinstance(one, Cider) and one.backend == "captau":
        return one.df is None
    if one.depends_on_corpus:
        raise InputError(f"metric {one.spec} has to see all captions at once; leave it out")
    return False
