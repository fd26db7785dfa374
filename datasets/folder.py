"""The data folder: the state of a dataset's files in it, and writing them whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from .errors import InputError
from .files import git_blob, locate, locate_all, sha256
from .schema import Card, SourceFile

#: Takes a line that a person may want to read while something goes on.
Note = Callable[[str], None]


def silent(*_: object) -> None:
    """Ignore a note or a step of progress."""


def used(root: Path, card: Card) -> list[SourceFile]:
    """List the files that a dataset is read from.

    Its own ones; or, where one of those is missing and all stand-ins are there, the stand-ins.
    """
    regular = [s for s in card.sources if not s.alternative]
    stand_ins = [s for s in card.sources if s.alternative]
    is_incomplete = any(locate(root, card, s) is None for s in regular)
    if stand_ins and is_incomplete and all(locate(root, card, s) for s in stand_ins):
        return stand_ins
    return regular


def missing(root: Path, card: Card) -> list[SourceFile]:
    """List the files that are still needed."""
    return [s for s in used(root, card) if locate(root, card, s) is None]


def partly(root: Path, card: Card) -> bool:
    """Tell whether a dataset that can be read without some files lacks some."""
    return card.partial and 0 < len(missing(root, card)) < len(used(root, card))


State = Literal["missing", "right", "differs", "unchecked"]


def state(root: Path, card: Card, source: SourceFile) -> State:
    """Tell whether a file is there and of the revision that the card names.

    `unchecked` is one of which no hash is known, or that lies there in another form (its `also`).

    Raises:
        InputError: where the file cannot be read.
    """
    path = locate(root, card, source)
    if path is None:
        return "missing"
    verdict = fits(path, source) if path.name == Path(source.path).name else None
    return "unchecked" if verdict is None else "right" if verdict else "differs"


def fits(path: Path, source: SourceFile) -> bool | None:
    """Tell whether a file is of the revision that the card names; None where no hash is known.

    Raises:
        InputError: where the file cannot be read.
    """
    try:
        if source.sha256:
            return sha256(path) == source.sha256
        if source.git_blob:
            return git_blob(path) == source.git_blob
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return None


def size(root: Path, card: Card) -> int:
    """Return how many bytes the files in use take."""
    paths = [path for source in used(root, card) for path in locate_all(root, card, source)]
    return sum(path.stat().st_size for path in paths)


@contextmanager
def arriving(path: Path) -> Generator[Path]:
    """A temporary file that takes the name `path` when the block ends well, and goes if it does not.

    Raises:
        InputError: where there is no room or no right to write; what was at `path` is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if temporary.exists():
            temporary.unlink()


def write(chunks: Iterable[bytes], path: Path) -> None:
    """Write a file down to the disk, for `arriving`; what reads the chunks raises `InputError`."""
    with path.open("wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())


def unwritable(path: Path, error: OSError) -> InputError:
    """Return the error for a full disk, a folder without the right to write, and the like."""
    return InputError(
        f"{path}: cannot be written ({error.strerror}); make room or set data.root=DIR"
    )


@contextmanager
def locked(root: Path, note: Note = silent) -> Generator[None]:
    """Keep other captau runs from writing to a data folder, which is made if need be; wait in turn.

    Raises:
        InputError: where the folder cannot be made or written to.
    """
    from filelock import FileLock, Timeout

    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / ".captau.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            note(f"another captau is writing to {root}; waiting for it")
            lock.acquire()
    except OSError as error:
        raise unwritable(root, error) from error
    try:
        yield
    finally:
        lock.release()
