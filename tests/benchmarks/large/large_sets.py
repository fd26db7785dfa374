"""Small sets in shards of every kind, with awkward captions among ordinary ones."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.large.run import run
from captau.benchmarks.large.score_report import LargeScores
from captau.benchmarks.options.large import LargeOptions
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD

METRICS = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
WORDS = [
    "a",
    "dog",
    "cat",
    "bird",
    "runs",
    "sits",
    "on",
    "in",
    "the",
    "grass",
    "park",
    "red",
    "brown",
    "of",
    "two",
    "men",
    "ball",
    "field",
    "water",
]


def rows_of(size: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows with references; the first captions are awkward, and some occur more than once."""
    rng = np.random.default_rng(seed)

    def text() -> str:
        return " ".join(rng.choice(WORDS, rng.integers(2, 9))).capitalize() + "."

    captions = [*AWKWARD, *(text() for _ in range(size - len(AWKWARD)))]
    captions[-2:] = captions[-3:-1]
    return [
        {
            "image_id": f"image {i}",
            "caption": caption,
            "references": [
                AWKWARD[i % len(AWKWARD)] if i % 7 == 0 else text() for _ in range(1 + i % 4)
            ],
        }
        for i, caption in enumerate(captions)
    ]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a shard of the kind that its name says, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=7)
    elif ".tar" in name:
        with tarfile.open(path, "w:gz" if name.endswith(".gz") else "w") as archive:
            for row in rows:
                key = row["image_id"].replace(" ", "-")
                put(archive, f"{key}.json", json.dumps(row).encode())
                put(archive, f"{key}.txt", row["caption"].encode())
                put(archive, f"{key}.cls", b"0")
    elif ".csv" in name:
        table = pd.DataFrame([{**row, "references": json.dumps(row["references"])} for row in rows])
        table.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines))
    elif name.endswith(".bz2"):
        path.write_bytes(bz2.compress(lines))
    elif name.endswith(".zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(lines)
    else:
        path.write_bytes(lines)
    return path


def put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def score(
    candidates: Any, output: Any, metrics: Sequence[str] = METRICS, **options: Any
) -> LargeScores:
    """Score as `captau score` does, in this process unless `workers` says otherwise."""
    paths = candidates if isinstance(candidates, list | tuple) else [candidates]
    options = {"workers": 0, "references": (), **options}
    return run(
        LargeOptions(
            candidates=tuple(map(str, paths)),
            metrics=resolve_metrics(list(metrics)),
            output=str(output),
            **options,
        )
    )


def scores_in(output: Path) -> pd.DataFrame:
    """Read all scores of a run, in the order of its parts."""
    return pd.concat(
        [pd.read_parquet(path) for path in sorted((output / "scores").glob("*.parquet"))],
        ignore_index=True,
    )


def plain(rows: Sequence[dict[str, Any]]) -> Rows:
    return Rows(pd.DataFrame([{**row, "references": tuple(row["references"])} for row in rows]))


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code
