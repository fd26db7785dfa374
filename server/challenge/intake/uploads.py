"""What comes in: a file taken to the disk, and every fault of it found before anything is scored."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from ....benchmarks.commands.validate import (
    CONVENTION,
    Faults,
    Verdict,
    check_captions,
    check_scores,
    results_in,
)
from ....datasets.errors import InputError
from ...storage.database import StoreError
from ...web.errors import RefusedError
from ...yaml_fields import INVISIBLE
from ..definition_file import Challenge
from ..evaluation.evaluator import Prepared
from ..submission_store import Account, Store

#: The endings of what is taken, by kind; what else a file is called is the sender's own affair.
ENDINGS = {
    "captions": (".json", ".jsonl", ".ndjson", ".zip"),
    "metrics": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"),
}
#: What is evaluated of a submission of captions, taken out of an archive.
CAPTIONS = ("captions.json", "captions.jsonl")
#: So many names are listed at once: of a file of something else each of 40,000 images is lacking.
_NAME = re.compile(r"[^\w. ()+-]")


@dataclass(frozen=True)
class Sent:
    """A file that lies on the disk, and is nobody's yet."""

    key: str
    file: str
    sha256: str
    bytes: int


def file_name(given: str) -> str:
    """A stranger's name of a file, without its path and what shows otherwise than it is."""
    name = re.split(r"[/\\]", given)[-1]
    return _NAME.sub("_", name)[-100:] or "submission"


async def take(store: Store, challenge: Challenge, name: str, body: AsyncIterator[bytes]) -> Sent:
    """A file from the network to the disk, as it comes.

    Args:
        store: whose folder it goes to.
        challenge: what it is sent to.
        name: what its sender calls it.
        body: its bytes.

    Raises:
        RefusedError: on another ending than the kind's, or more bytes than are taken.
        StoreError: where the disk takes no more.
    """
    shown = file_name(name)
    ending = Path(shown).suffix.lower()
    if ending not in ENDINGS[challenge.kind]:
        raise RefusedError(
            f"{shown}: a file called {', '.join(ENDINGS[challenge.kind])} is expected here."
        )
    key, most = secrets.token_hex(8), challenge.limits.megabytes << 20
    digest, size = hashlib.sha256(), 0
    folder = store.folder / key
    path = folder / f"upload{ending}"
    try:
        folder.mkdir(mode=0o700)
        with path.open("xb") as file:
            async for piece in body:
                size += len(piece)
                if size > most:
                    raise RefusedError(
                        f"{shown}: more than {challenge.limits.megabytes:,} MB; that is the most here."
                    )
                digest.update(piece)
                await run_in_threadpool(file.write, piece)
            await run_in_threadpool(_to_disk, file, folder, store.folder)
    except OSError as error:
        discard(store, key)
        raise StoreError(error.strerror or type(error).__name__) from error
    except BaseException:
        discard(store, key)
        raise
    return Sent(key, shown, digest.hexdigest(), size)


def _to_disk(file: Any, *folders: Path) -> None:
    """That it is there after the power failed: the file, and its names."""
    file.flush()
    os.fsync(file.fileno())
    if os.name == "posix":
        for folder in folders:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def discard(store: Store, key: str) -> None:
    """Remove what became of no submission."""
    folder = store.folder / key
    for path in folder.glob("*"):
        path.unlink(missing_ok=True)
    if folder.exists():
        folder.rmdir()


async def receive(
    store: Store, challenge: Challenge, account: Account, sent: Sent, system: str, note: str
) -> int:
    """Make a file a submission; it is acknowledged once this returns its number.

    Raises:
        RefusedError: where it is not taken now.
    """
    # Others read these: nothing that is not seen, or that turns what stands after it.
    system, note = INVISIBLE.sub("", " ".join(system.split())), INVISIBLE.sub("", note)
    given = {
        "key": sent.key,
        "system": system.strip()[:64] or Path(sent.file).stem[:64],
        "note": note.strip()[:2000],
        "file": sent.file,
        "sha256": sent.sha256,
        "bytes": sent.bytes,
    }
    try:
        return await store.receive(challenge, account, given)
    except BaseException:
        await run_in_threadpool(discard, store, sent.key)
        raise


def upload_of(folder: Path) -> Path:
    """The file as it was sent."""
    (path,) = folder.glob("upload.*")
    return path


def evaluated_file(challenge: Challenge, folder: Path) -> Path:
    """The file that is scored."""
    if challenge.kind == "metrics":
        return upload_of(folder)
    return next(path for name in CAPTIONS if (path := folder / name).exists())


def check(prepared: Prepared, folder: Path, file: str) -> Verdict:
    """All that is wrong with a submission; of a valid one, what is scored is laid beside it.

    Args:
        prepared: the challenge.
        folder: of the submission.
        file: what its sender calls it.
    """
    challenge = prepared.challenge
    faults = Faults(challenge.limits.faults)
    path = upload_of(folder)
    shown = Path(file)
    if challenge.kind == "captions":
        found = _captions(prepared, path.read_bytes(), folder, shown, faults)
    else:
        found = _scores(prepared, path, shown, faults)
    if not faults.count:
        return Verdict([], 0, f"{shown}: valid: {found}")
    word = "fault" if faults.count == 1 else "faults"
    rest = f", the first {faults.limit:,} listed" if faults.count > faults.limit else ""
    lines = [line.replace(str(path), str(shown)) for line in faults.lines]
    summary = f"{shown}: not valid: {faults.count:,} {word}{rest}; {found}"
    return Verdict(lines, faults.count, summary)


def _captions(prepared: Prepared, data: bytes, folder: Path, shown: Path, faults: Faults) -> str:
    split = prepared.challenge.split
    texts = results_in(shown, data, faults)
    if len(texts) > 1 and split:
        texts = {n: t for n, t in texts.items() if (m := CONVENTION.fullmatch(n)) and m[1] == split}
    if len(texts) > 1:
        faults.add(f"{shown}: results on {len(texts)} sets; this challenge is of one")
    if faults.count or not texts:
        if not faults.count:
            faults.add(f"{shown}: no results on {split} in it")
        return "no captions read"
    ((name, content),) = texts.items()
    number = check_captions(content, shown, name, prepared.images, faults)
    if not faults.count:
        lines = (name or shown.name).lower().endswith((".jsonl", ".ndjson"))
        part = folder / "part"
        part.write_bytes(content)
        part.replace(folder / CAPTIONS[lines])
    return f"{number:,} captions"


def _scores(prepared: Prepared, path: Path, shown: Path, faults: Faults) -> str:
    try:
        named, number = check_scores(path, prepared.items, faults)
    except InputError as error:
        faults.add(str(error))
        return "no scores"
    if len(named) > 1:
        faults.add(f"{shown}: scores of {len(named)} metrics; one a submission")
    return f"{number:,} scores"
