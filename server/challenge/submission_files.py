"""Uploads, written to disk as they arrive, and the other files in a submission's folder.

`upload.*` is the file as it was sent; `captions.json` or `captions.jsonl` the captions that a check took out
of it; `items.parquet` the score of each caption; `drawn.parquet` the bootstrap replicates of each score.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from starlette.concurrency import run_in_threadpool

from ...benchmarks.statistics.weighted_pairs import Floats
from ...datasets.cache import replacing, store_names
from ...datasets.reading.yaml_document import INVISIBLE
from ..storage.database import StoreError
from ..web.errors import RefusedError
from .definition import Challenge
from .members import Account
from .submissions import SubmissionStore

#: The accepted endings of uploaded files, by the challenge's kind.
ENDINGS = {
    "captions": (".json", ".jsonl", ".ndjson", ".zip"),
    "metrics": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"),
}
_CAPTIONS_JSON = "captions.json"
_CAPTIONS_LINES = "captions.jsonl"
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
    name = _CAPTIONS_LINES if is_json_lines else _CAPTIONS_JSON
    with replacing(folder / name, survives_power_loss=True) as file:
        file.write(content)


def write_item_scores(folder: Path, items: pd.DataFrame) -> None:
    """Write the score of each caption."""
    _write_parquet(folder / "items.parquet", items)


def write_replicates(folder: Path, replicates: Mapping[tuple[str, str], Floats]) -> None:
    """Write bootstrap replicates, by reference set and metric."""
    columns = {_SEPARATOR.join(key): values for key, values in replicates.items()}
    _write_parquet(folder / "drawn.parquet", pd.DataFrame(columns))


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


def _write_parquet(path: Path, frame: pd.DataFrame) -> None:
    with replacing(path, survives_power_loss=True) as file:
        frame.to_parquet(file, index=False, compression="zstd")


_UNSAFE_CHARACTERS = re.compile(r"[^\w. ()+-]")


@dataclass(frozen=True)
class Upload:
    """A file that is stored and belongs to no submission yet.

    Attributes:
        key: the name of its folder.
        file: as its sender calls it.
    """

    key: str
    file: str
    sha256: str
    bytes: int


def clean_file_name(name: str) -> str:
    """Return a sender's file name without its path and unsafe characters."""
    base_name = re.split(r"[/\\]", name)[-1]
    return _UNSAFE_CHARACTERS.sub("_", base_name)[-100:] or "submission"


async def store_upload(
    store: SubmissionStore, challenge: Challenge, name: str, body: AsyncIterator[bytes]
) -> Upload:
    """Write a file to disk as it arrives.

    Args:
        store: whose folder it goes to.
        challenge: the one that it is sent to.
        name: as its sender calls it.
        body: its bytes.

    Raises:
        RefusedError: if its ending is not one of the challenge's kind, or it is too large.
        StoreError: if the disk cannot take it.
    """
    file_name = clean_file_name(name)
    ending = Path(file_name).suffix.lower()
    endings = ENDINGS[challenge.kind]
    megabytes = challenge.limits.megabytes
    if ending not in endings:
        raise RefusedError(f"{file_name}: the name of the file must end in {', '.join(endings)}.")

    # Programs that read the leaderboard's table would take digits, or 12e4, for a number.
    key = f"c{secrets.token_hex(8)[1:]}"
    folder = store.folder / key
    digest = hashlib.sha256()
    size = 0
    try:
        folder.mkdir(mode=0o700)
        with (folder / f"upload{ending}").open("xb") as file:
            async for piece in body:
                size += len(piece)
                if size > megabytes << 20:
                    raise RefusedError(
                        f"{file_name}: larger than {megabytes:,} MB, the limit of this site."
                    )
                digest.update(piece)
                # A slow disk does not hold up other visitors.
                await run_in_threadpool(file.write, piece)
            await run_in_threadpool(_flush_to_disk, file, folder, store.folder)
    except OSError as error:
        discard_upload(store, key)
        raise StoreError(error.strerror or type(error).__name__) from error
    except BaseException:
        discard_upload(store, key)
        raise

    return Upload(key, file_name, digest.hexdigest(), size)


def _flush_to_disk(file: Any, *folders: Path) -> None:
    """Make a file and its names survive a power failure."""
    file.flush()
    os.fsync(file.fileno())
    for folder in folders:
        store_names(folder)


def discard_upload(store: SubmissionStore, key: str) -> None:
    """Remove an upload that became no submission."""
    folder = store.folder / key
    for path in folder.glob("*"):
        path.unlink(missing_ok=True)
    if folder.exists():
        folder.rmdir()


async def submit_upload(
    store: SubmissionStore,
    challenge: Challenge,
    account: Account,
    upload: Upload,
    system: str,
    note: str,
) -> int:
    """Make an upload a submission, which is acknowledged once this returns its number.

    Args:
        store, challenge, account: where it goes, and its sender.
        upload: discarded if it is refused.
        system: its name on the leaderboard; empty for the file's.
        note: for its team.

    Raises:
        RefusedError: if no submission is accepted now.
    """
    # Others read these, so invisible characters and those that turn the text direction are removed.
    file_name = Path(upload.file).stem
    columns = {
        **asdict(upload),
        "system": _clean_system(system) or _clean_system(file_name) or "system",
        "note": INVISIBLE.sub("", note).strip()[:2000],
    }
    try:
        return await store.add_submission(challenge, account, columns)
    except BaseException:
        await run_in_threadpool(discard_upload, store, upload.key)
        raise


def _clean_system(name: str) -> str:
    """Return a system's name without the signs by which a spreadsheet takes a cell for a formula."""
    return INVISIBLE.sub("", " ".join(name.split())).lstrip("=+-@ ").rstrip()[:64]
