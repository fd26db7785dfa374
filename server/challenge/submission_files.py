"""The files in a submission's folder.

`upload.*` is the file as it was sent; `captions.json` or `captions.jsonl` the captions that a check took out
of it; `items.parquet` the score of each caption; `drawn.parquet` the bootstrap replicates of each score.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ...benchmarks.statistics.weighted_pairs import Floats

#: The accepted endings of uploaded files, by the challenge's kind.
ENDINGS = {
    "captions": (".json", ".jsonl", ".ndjson", ".zip"),
    "metrics": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"),
}
_CAPTIONS_JSON, _CAPTIONS_LINES = "captions.json", "captions.jsonl"
#: Between the reference set and the metric in the names of columns of replicates.
_SEPARATOR = "\t"


def find_upload(folder: Path) -> Path:
    """Return the file as it was sent."""
    (path,) = folder.glob("upload.*")
    return path


def find_captions(folder: Path) -> Path:
    """Return the file of captions that a check took out of the upload."""
    path = folder / _CAPTIONS_JSON
    return path if path.exists() else folder / _CAPTIONS_LINES


def write_captions(folder: Path, content: bytes, *, is_json_lines: bool) -> None:
    """Write the file of captions that is evaluated."""
    _write_whole(folder / (_CAPTIONS_LINES if is_json_lines else _CAPTIONS_JSON), content)


def write_item_scores(folder: Path, items: pd.DataFrame) -> None:
    """Write the score of each caption."""
    _write_whole(folder / "items.parquet", _to_parquet(items))


def write_replicates(folder: Path, replicates: Mapping[tuple[str, str], Floats]) -> None:
    """Write bootstrap replicates, by reference set and metric."""
    columns = {_SEPARATOR.join(key): values for key, values in replicates.items()}
    _write_whole(folder / "drawn.parquet", _to_parquet(pd.DataFrame(columns)))


def read_replicates(path: Path) -> dict[tuple[str, str], Floats]:
    """Return bootstrap replicates, shape (n_replicates,), by reference set and metric.

    Raises:
        OSError: if there are none.
    """
    frame = pd.read_parquet(io.BytesIO(path.read_bytes()))
    replicates: dict[tuple[str, str], Floats] = {}
    for column in frame.columns:
        references, _, metric = str(column).partition(_SEPARATOR)
        replicates[references, metric] = frame[column].to_numpy(dtype=np.float64)
    return replicates


def _to_parquet(frame: pd.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.to_parquet(stream, index=False, compression="zstd")
    return stream.getvalue()


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
