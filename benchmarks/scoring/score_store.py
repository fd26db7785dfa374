"""`ScoreStore`: scores are computed once, and read back by later runs.

The store may be a folder of this machine, of a network file system, or of an object store, and any number
of runs may share it. It needs no locks: a file's name is a digest of all that the scores depend on, so
that two writers of one name write the same; a file appears whole (renamed on a file system, put on an
object store); and what a reader finds is checked page by page.

`Locations` are the places of a run: its data, its score store, its output folder, and the user's own judgement file.
Commands read datasets and open the store through those that their options hold.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...conf import own_files
from ...datasets.cache import cache_root, replacing, sweep
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.object_stores import RemotePath
from ...datasets.registry import load
from ...datasets.schema import CaptionSet
from ...metrics.base import Floats
from .catalog import read_config

logger = logging.getLogger(__name__)

#: How long an object store may take for one object, in seconds. Its client's own patience would be
#: minutes, and has no end while a store does not say whether it wants what it is sent.
PATIENCE = 30.0


#: The location of one file's scores, or of all.
ScoreLocation = Path | RemotePath


class StoredScores(NamedTuple):
    """A metric's stored scores, and the remarks that belong below a table of them."""

    scores: Floats
    remarks: list[str]


def open_score_location(location: str) -> ScoreLocation:
    """Open a folder by its path, or a place in an object store by its URL.

    Raises:
        InputError: where what it takes is not installed, or it does not answer.
    """
    if "://" not in location:
        return expand_home(location)
    try:
        store = RemotePath(location, _raising_os_errors, PATIENCE)
    except InputError as error:
        raise InputError(f"cache.scores={error}") from error
    # Whether it can be written is found out before anything is scored. The object stays: every run puts the same.
    try:
        (store / "captau-store").write_bytes(b"captau's scores\n")
    except OSError as error:
        raise InputError(
            f"cache.scores={location} cannot be written ({error.strerror or _reason(error)}); is it right, "
            f"and reachable?"
        ) from error
    return store


@contextmanager
def _raising_os_errors(url: str) -> Generator[None]:
    """Raise OSError in place of whatever a store's client raises; a missing file stays a FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, InputError):
        raise
    except Exception as error:
        # Without a number of the system's: its `strerror` is the reason, its `filename` the address.
        raise OSError(None, _reason(error), url) from error


def _reason(error: BaseException) -> str:
    if "timeout" in type(error).__name__.lower():
        return f"no answer within {PATIENCE:g} s"
    return " ".join(str(error).split()) or type(error).__name__


class ScoreStore:
    """One Parquet file per content of the scored rows, metric signature and policy.

    A killed run leaves whole files alone, and runs at once do each other no harm. A file that cannot be
    read is computed anew. A store that fails midway is done without: the run says so once and goes on.

    Args:
        root: a folder; None keeps nothing.
        scores: another place for the scores.
    """

    def __init__(self, root: Path | None, scores: ScoreLocation | None = None) -> None:
        self.root = root
        self.scores = scores
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()

    def path(self, dataset: str, metric: str, key: str) -> ScoreLocation | None:
        """Return the location of a key's scores; None where nothing is stored."""
        if self.root is None:
            return None
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", metric)[:60]
        folder = self.scores or self.root / "scores"
        return folder / dataset / f"{safe}-{digest}.parquet"

    def get(self, path: ScoreLocation | None, item_ids: pd.Series) -> StoredScores | None:
        """Read scores of shape (n_items,) and remarks; None where they are not stored in that order."""
        table = self._table(path)
        if table is not None:
            try:
                stored_ids = table.column("item_id")
                if stored_ids.equals(pa.chunked_array([item_ids.to_numpy()], stored_ids.type)):
                    scores = table.column("score").to_numpy().astype(np.float64)
                    metadata = table.schema.metadata or {}
                    remarks = json.loads(metadata.get(b"remarks", b"[]"))
                    with self._lock:
                        self.hits += 1
                    return StoredScores(scores, [str(text) for text in remarks])
            except (KeyError, ValueError, pa.ArrowException):
                pass  # of another make: computed anew and replaced

        with self._lock:
            self.misses += 1
        return None

    def _table(self, path: ScoreLocation | None) -> pa.Table | None:
        """Read a file's table; None where there is none, or it is cut short or damaged."""
        if path is None:
            return None

        try:
            content = io.BytesIO(path.read_bytes())
            return pq.ParquetFile(content, page_checksum_verification=True).read()
        except FileNotFoundError:
            return None
        except OSError as error:
            # One without a file's name is pyarrow's, of a damaged file.
            if isinstance(path, RemotePath) and error.filename is not None:
                self._do_without(path, error)
            return None
        except (pa.ArrowException, ValueError):
            return None

    def put(
        self,
        path: ScoreLocation | None,
        item_ids: pd.Series,
        scores: Floats,
        remarks: Sequence[str] = (),
    ) -> None:
        """Store scores. A store that cannot be written costs time later, not this run."""
        if path is None:
            return
        table = pa.table({"item_id": list(item_ids), "score": scores})
        if remarks:
            table = table.replace_schema_metadata({"remarks": json.dumps(list(remarks))})

        try:
            if isinstance(path, RemotePath):
                buffer = io.BytesIO()
                pq.write_table(table, buffer, write_page_checksum=True)
                path.write_bytes(buffer.getvalue())
                return

            path.parent.mkdir(parents=True, exist_ok=True)
            sweep(path.parent)
            with replacing(path) as stream:
                pq.write_table(table, stream, write_page_checksum=True)
        except OSError as error:
            self._do_without(path, error)
            if isinstance(path, RemotePath) and self.root is not None:
                *_, dataset, name = path.path.split("/")
                self.put(self.root / "scores" / dataset / name, item_ids, scores, remarks)

    def _do_without(self, path: ScoreLocation, error: OSError) -> None:
        """Warn once that the store fails; from then on nothing more is stored there."""
        with self._lock:
            # Metrics score side by side, and several may fail at once: the first one warns.
            if isinstance(path, RemotePath):
                is_first = isinstance(self.scores, RemotePath)
                self.scores = None
            else:
                is_first = self.root is not None
                self.root = None
        if not is_first:
            return

        reason = error.strerror
        if isinstance(path, RemotePath):
            logger.warning(
                "%s cannot be reached (%s); what is there is kept, and this run's scores lie in %s",
                path,
                reason,
                self.root,
            )
        else:
            logger.warning(
                "scores are not kept for the next run: %s cannot be written (%s); set cache.root=DIR",
                path.parent,
                reason,
            )


#: The dataset that reads the user's own judgements.
OWN = "file"


@dataclass(frozen=True)
class Locations:
    """Folders of a run, and the options of the dataset `file`.

    Attributes:
        data_root: the data folder; None for `CAPTAU_DATA`, else the user's cache folder.
        cache_root: the cache folder; None for `CAPTAU_CACHE`, else the user's cache folder.
        use_cache: whether scores are read back and stored.
        cache_scores: a folder or URL that holds scores instead of the cache folder.
        output_dir: the output folder; None makes a fresh one.
        file_options: options of the dataset `file`, such as its path and columns.
        loaded: datasets that are in memory, by name; they are not read.
    """

    data_root: Path | None = None
    cache_root: Path | None = None
    use_cache: bool = True
    cache_scores: str | None = None
    output_dir: Path | None = None
    file_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loaded: Mapping[str, CaptionSet] = field(default_factory=dict[str, CaptionSet])

    def load(self, dataset: str) -> CaptionSet:
        """Load a dataset from these places."""
        if dataset in self.loaded:
            return self.loaded[dataset]

        own_file = own_files("dataset").get(dataset)
        if own_file:
            options = dict(read_config("dataset", dataset)["file"])
            path = own_file.parent / expand_home(options.pop("path"))
            return load(OWN, self.data_root, path=path, name=dataset, **options)

        if dataset == OWN:
            return load(dataset, self.data_root, **self.file_options)
        return load(dataset, self.data_root)

    def store(self) -> ScoreStore:
        """Open the score store."""
        if not self.use_cache:
            return ScoreStore(None)
        scores = open_score_location(self.cache_scores) if self.cache_scores else None
        return ScoreStore(cache_root(self.cache_root), scores)
