"""Scorer of items with metrics under a protocol's reference and corpus policies."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from ...datasets.schema import print_rows
from ...metrics.base import Floats, Metric
from ...metrics.python_function import PythonFunction
from ...metrics.registry import metric as metric_of
from ...metrics.rows import Rows
from ..runs.progress_bar import StepProgress
from .protocol import Protocol
from .score_store import ScoreLocation, ScoreStore, StoredScores

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Part:
    """Rows that are scored together, and the indices of their items."""

    index: np.ndarray
    rows: Rows


class Scorer:
    """Scorer of the items of one dataset under one protocol.

    Metrics share what they have in common (tokenised text, BLEU's counts) through the same `Rows`.

    Args:
        items: what `Protocol.select` returned.
    """

    def __init__(self, dataset: str, items: pd.DataFrame, protocol: Protocol) -> None:
        self.dataset = dataset
        self.items = items
        self.protocol = protocol
        self._passes: list[list[_Part]] | None = None
        self._lock = threading.Lock()
        self.rows = Rows(items, allows_gaps=protocol.undefined == "drop")
        #: What metrics remarked while they scored, by spec.
        self.remarks: dict[str, list[str]] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    def score(self, metric: Metric, store: ScoreStore, *, companion: bool = False) -> Floats:
        """Return scores of shape (n_items,), from the store where they are stored.

        Args:
            companion: whether nobody asked for this metric itself; then NaN is no error.

        Raises:
            InputError: where the metric lacks what it needs, or gives NaN and
                `protocol.undefined=error`.
        """
        path = self.path(metric, store)
        stored = store.get(path, self.items["item_id"])
        if stored is None:
            # Remarks are stored with the scores: a run that reads these back has them as well.
            stored = StoredScores(self._compute(metric), self._remarks(metric))
            store.put(path, self.items["item_id"], stored.scores, stored.remarks)

        scores, remarks = stored
        # Of the texts as they are, and so not among what is stored.
        unsegmented = metric.unsegmented_remark(self.rows)
        self.remarks[metric.spec] = list(remarks)
        if unsegmented:
            self.remarks[metric.spec].append(unsegmented)

        gaps = np.flatnonzero(np.isnan(scores))
        if gaps.size and self.protocol.undefined == "error" and not companion:
            raise InputError(
                f"metric {metric.spec} is undefined for {gaps.size} of {len(scores)} items of "
                f"{self.dataset}, first '{self.items['item_id'].iloc[gaps[0]]}'; protocol.undefined=drop "
                f"leaves them out"
            )
        return scores

    def path(self, metric: Metric, store: ScoreStore) -> ScoreLocation | None:
        """Return the location of this metric's scores in the store; None where it does not store them."""
        if store.root is None or not _is_stored(metric):
            return None
        return store.path(self.dataset, metric.spec, self._key(metric))

    def _compute(self, metric: Metric) -> Floats:
        if not _may_read_references(metric):
            return metric.score(self.rows)

        columns: list[Floats] = []
        for parts in self._reference_passes():
            column = np.full(len(self.items), np.nan)
            for part in parts:
                column[part.index] = metric.score(part.rows)
            columns.append(column)
        if len(columns) == 1:
            return columns[0]

        # An item with fewer references than another is not in the later passes.
        table = np.stack(columns)
        scored = self._scored_in_pass()
        if self.protocol.references == "max_over_single":
            return np.where(scored, table, -np.inf).max(axis=0)
        return np.where(scored, table, 0.0).sum(axis=0) / scored.sum(axis=0)

    def _remarks(self, metric: Metric) -> list[str]:
        """Return a metric's remarks in all passes, each once."""
        all_rows = [self.rows]
        for parts in self._passes or []:
            all_rows += [part.rows for part in parts]

        remarks: list[str] = []
        for rows in all_rows:
            remarks += rows.remarks.get(metric.spec, [])
        return list(dict.fromkeys(remarks))

    def _references(self) -> list[tuple[str, ...]]:
        return [texts[: self.protocol.k] for texts in self.items["references"]]

    def _scored_in_pass(self) -> np.ndarray:
        """Say which items have a reference of each pass, shape (n_passes, n_items)."""
        counts = np.array([len(texts) for texts in self._references()])
        return np.arange(counts.max())[:, None] < counts[None, :]

    def _reference_passes(self) -> list[list[_Part]]:
        """Return the rows of each pass over the references, cut by system where the corpus is."""
        with self._lock:  # metrics that run side by side share the rows
            if self._passes is None:
                self._passes = self._cut()
            return self._passes

    def _cut(self) -> list[list[_Part]]:
        references = self._references()
        is_plain = self.protocol.references == "all" and self.protocol.corpus == "dataset"
        # Rows without references are for the metric to refuse, with its own message.
        if is_plain or not all(references):
            return [[_Part(np.arange(len(self.items)), self.rows)]]

        if self.protocol.references in ("all", "first_k"):
            return [self._parts(references, np.ones(len(self.items), dtype=bool))]

        passes: list[list[_Part]] = []
        for number, is_scored in enumerate(self._scored_in_pass()):
            single_references = [texts[number : number + 1] for texts in references]
            passes.append(self._parts(single_references, is_scored))
        return passes

    def _parts(self, references: list[tuple[str, ...]], is_scored: np.ndarray) -> list[_Part]:
        """Return the rows that are scored with these references, a part for each corpus."""
        frame = self.items.assign(references=pd.Series(references, dtype=object))

        if self.protocol.corpus == "dataset":
            groups = [np.flatnonzero(is_scored)]
        else:
            systems = self.items["system"]
            if systems.isna().any():
                raise InputError(
                    f"dataset {self.dataset}: protocol.corpus=per_system needs the system of every "
                    f"item, and it is not known"
                )
            groups: list[np.ndarray] = []
            for system in dict.fromkeys(systems):
                is_own = (systems == system).to_numpy()
                groups.append(np.flatnonzero(is_scored & is_own))

        parts: list[_Part] = []
        for group in groups:
            # In a later pass a system may have no item with so many references.
            if group.size:
                parts.append(_Part(group, Rows(frame.iloc[group])))
        return parts

    def _key(self, metric: Metric) -> str:
        """Return everything that the scores depend on, as a text."""
        parts = [metric.signature, self.protocol.references, str(self.protocol.k)]
        columns = ("item_id", "caption", "references")
        # Of most metrics scores rest on the texts alone, whatever the image's file is called.
        if "images" in metric.needs or not metric.depends_only_on_content:
            columns = (*columns, "image")  # a path, which on another machine may be another one
        if not metric.depends_only_on_content:
            columns = (*columns, "image_id")

        if metric.depends_on_corpus:
            parts.append(self.protocol.corpus)
            columns = (*columns, "weight", "system")
        if "images" in metric.needs:
            parts.append(self._image_files())

        return "\n".join([*parts, self._digest(columns)])

    def _image_files(self) -> str:
        """Digest sizes and times of the image files, so that an image that was replaced is scored anew."""
        digest = hashlib.sha256()
        for image in dict.fromkeys(self.items["image"]):
            if image is not None and Path(image).is_file():
                stat = Path(image).stat()
                digest.update(f"{image}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _digest(self, columns: tuple[str, ...]) -> str:
        if columns not in self._digests:
            text = print_rows(self.items[list(columns)]).encode("utf-8", "surrogatepass")
            self._digests[columns] = hashlib.sha256(text).hexdigest()
        return self._digests[columns]


def _may_read_references(metric: Metric) -> bool:
    """Tell whether the protocol chooses a metric's references, which one that does not say what it needs may read."""
    if isinstance(metric, PythonFunction) and metric.takes_items:
        return True
    # `Metric` itself has a default, which says nothing of what a class of one's own reads.
    own_classes = [c for c in type(metric).__mro__ if c is not Metric]
    says_needs = any("needs" in vars(c) for c in own_classes)
    return "references" in metric.needs or not says_needs


def _is_stored(metric: Metric) -> bool:
    """Tell whether scores are stored, for which the signature has to change with the code that computes them."""
    # captau's own metrics name the distributions that they use; those of others have to.
    outside = [c for c in type(metric).__mro__ if not c.__module__.startswith("captau.")]
    is_of_captau = type(metric) not in outside
    names_distributions = any("distributions" in vars(c) for c in outside)
    return metric.is_cacheable and (is_of_captau or names_distributions)


def metric_caveats(metrics: Sequence[Metric], items: pd.DataFrame) -> dict[str, str]:
    """Return the caveats of correlations of metrics on these items, by spec.

    Raises:
        InputError: where a metric was trained on these images and may not be judged by them.
    """
    images = items["image_id"].tolist()
    caveats: dict[str, str] = {}
    for metric in metrics:
        note = metric.training_overlap_note(images)
        if note:
            caveats[metric.spec] = note
    return caveats


def score_all(
    scorer: Scorer,
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
    measure_beside: Callable[[], None] | None = None,
) -> dict[str, Floats]:
    """Score items with metrics, and return scores by spec, companions' last.

    Metrics run side by side, as many as there are cores. What takes longest is second, behind the metric that makes the
    tokens of both; last is `measure_beside`, where there is something else to measure.

    Raises:
        InputError: of the first metric that fails.
    """
    paths = {m: scorer.path(m, store) for m in metrics}
    for metric, path in paths.items():
        if path is None or not path.is_file():
            metric.start()  # a Java takes a while

    scores: dict[str, Floats] = {}
    companion_scores: dict[str, Floats] = {}

    def score_metric(metric: Metric) -> None:
        with progress.step(f"{scorer.dataset}: {metric.spec}"):
            scores[metric.spec] = scorer.score(metric, store)
            for spec in metric.companions:
                companion_scores[spec] = scorer.score(metric_of(spec), store, companion=True)

    longest = [metric for metric in metrics if metric.takes_longest]
    other_metrics = [metric for metric in metrics if not metric.takes_longest]
    ordered = [*other_metrics[:1], *longest, *other_metrics[1:]]
    jobs: list[Callable[[], None]] = [partial(score_metric, metric) for metric in ordered]
    if measure_beside:
        jobs.append(measure_beside)
    run_side_by_side(lambda job: job(), jobs)

    # In the order in which metrics were asked for, whichever thread was quicker.
    scores_by_spec = {metric.spec: scores[metric.spec] for metric in metrics}
    for metric in metrics:
        for spec in metric.companions:
            scores_by_spec.setdefault(spec, companion_scores[spec])
    return scores_by_spec


def run_side_by_side(do: Callable[[Item], None], items: Sequence[Item]) -> None:
    """Call `do` with each item, such as a metric, in as many threads as there are cores.

    Threads share tokens and n-grams without copies; what takes long lets go of Python meanwhile
    (NumPy, a Java, a network). They are daemons, so that Ctrl-C need not wait for the slowest.

    Raises:
        whatever the first failing call, in the order given, raises; no further one is begun.
    """
    waiting = iter(enumerate(items))
    lock = threading.Lock()
    failed: dict[int, BaseException] = {}

    def work() -> None:
        while not failed:
            with lock:
                numbered_item = next(waiting, None)
            if numbered_item is None:
                return
            index, item = numbered_item
            try:
                do(item)
            except BaseException as error:  # raised again below, in the caller's thread
                failed[index] = error

    n_workers = min(count_cores(), len(items))
    workers = [threading.Thread(target=work, daemon=True) for _ in range(n_workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    if failed:
        raise failed[min(failed)]
