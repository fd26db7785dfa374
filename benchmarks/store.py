"""`ScoreStore`: scores that were computed once are read back, not computed again."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..datasets.cache import replacing, sweep
from ..metrics.base import Floats


class ScoreStore:
    """One Parquet file per content of the scored rows, metric signature and policy.

    A file is written under a temporary name and renamed, so a killed run leaves whole files alone,
    and two runs at once do each other no harm. A file that cannot be read is computed anew.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()

    def path(self, dataset: str, metric: str, key: str) -> Path | None:
        """Where the scores of a key lie; None where nothing is kept."""
        if self.root is None:
            return None
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", metric)[:60]
        return self.root / "scores" / dataset / f"{safe}-{digest}.parquet"

    def get(self, path: Path | None, item_ids: pd.Series) -> Floats | None:
        """Scores of shape (n_items,), or None where they are not there in that order."""
        if path is not None and path.is_file():
            try:
                table = pq.read_table(path)
                if table.column("item_id").to_pylist() == list(item_ids):
                    with self._lock:
                        self.hits += 1
                    return table.column("score").to_numpy().astype(np.float64)
            except (pa.ArrowException, OSError, KeyError, ValueError):
                pass  # truncated or of another make: computed anew and replaced
        with self._lock:
            self.misses += 1
        return None

    def remarks(self, path: Path | None) -> list[str]:
        """What belongs below a table of scores that were read back."""
        if path is None:
            return []
        try:
            kept = (pq.read_schema(path).metadata or {}).get(b"remarks", b"[]")
            return [str(text) for text in json.loads(kept)]
        except (pa.ArrowException, OSError, ValueError):
            return []

    def put(
        self, path: Path | None, item_ids: pd.Series, scores: Floats, remarks: Sequence[str] = ()
    ) -> None:
        """Keep scores. A cache that cannot be written costs time later, not this run."""
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep(path.parent)
            table = pa.table({"item_id": list(item_ids), "score": scores})
            if remarks:
                table = table.replace_schema_metadata({"remarks": json.dumps(list(remarks))})
            with replacing(path) as stream:
                pq.write_table(table, stream)
        except OSError as error:
            with self._lock:
                first, self.root = self.root is not None, None
            if not first:
                return
            print(
                f"captau: warning: scores are not kept for the next run: {path.parent} cannot be "
                f"written ({error.strerror}); set cache.root=DIR",
                file=sys.stderr,
            )
