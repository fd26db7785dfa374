"""`ScoreStore`: scores that were computed once are read back, not computed again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq

from ..metrics.base import Floats


def cache_root(root: str | Path | None = None) -> Path:
    """The cache folder: `root`, else the environment's `CAPTAU_CACHE`, else the user's."""
    chosen = root or os.environ.get("CAPTAU_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("captau")


#: A temporary file this old, in seconds, is of a killed run: writing one takes moments.
STALE = 3600.0


class ScoreStore:
    """One Parquet file per content of the scored rows, metric signature and policy.

    A file is written under a temporary name and renamed, so a killed run leaves whole files alone,
    and two runs at once do each other no harm. A file that cannot be read is computed anew.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.hits = 0
        self.misses = 0

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
                    self.hits += 1
                    return table.column("score").to_numpy().astype(np.float64)
            except (pa.ArrowException, OSError, KeyError, ValueError):
                pass  # truncated or of another make: computed anew and replaced
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
            _sweep(path.parent)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as stream:
                    table = pa.table({"item_id": list(item_ids), "score": scores})
                    if remarks:
                        table = table.replace_schema_metadata(
                            {"remarks": json.dumps(list(remarks))}
                        )
                    pq.write_table(table, stream)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            print(
                f"captau: warning: scores are not kept for the next run: {path.parent} cannot be "
                f"written ({error.strerror}); set cache.root=DIR",
                file=sys.stderr,
            )
            self.root = None


def _sweep(folder: Path) -> None:
    """Remove what killed runs left behind; by age, for the folder may be shared between machines."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()
        except FileNotFoundError:  # another run was quicker
            continue
