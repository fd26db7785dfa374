"""Object stores and other file systems behind a URL, which fsspec opens, with a time limit for each call."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError

Result = TypeVar("Result")

#: How long a store may take to answer, in seconds, and the fewest bytes a second that it must send.
_SECONDS, _SLOWEST = 60.0, 100_000


def is_url(path: str) -> bool:
    """Tell whether a place is a URL rather than a path."""
    return re.match(r"[a-z][a-z0-9+.-]+://", path) is not None


def open_file_system(url: str) -> tuple[Any, str]:
    """Open a URL's file system, and return it with the path in it.

    Raises:
        InputError: where fsspec, or what it needs for this store, is not installed.
    """
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise InputError(f"{url}: fsspec is not installed: pip install 'captau[remote]'") from error
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:  # the store's own client
        raise InputError(f"{url}: {error}; for s3:// pip install 'captau[remote]'") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}") from error


@contextmanager
def reporting_store_errors(url: str) -> Generator[None]:
    """Report whatever goes wrong with an object store in one line.

    Raises:
        InputError: in place of whatever its client raises.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{url}: is not there") from error
    except Exception as error:  # each store's client has errors of its own
        reason = " ".join(str(error).split()) or "no answer in time"
        raise InputError(
            f"{url}: cannot be reached ({type(error).__name__}: {reason[:200]}); what is done is kept: "
            f"start the same command again once it can"
        ) from error


def call_in_time(call: Callable[[], Result], size: int = 0, seconds: float | None = None) -> Result:
    """Return the result of a call to a store, whose client might wait for a silent store for ever.

    Args:
        call: the call.
        size: how many bytes it moves.
        seconds: how long the call may take, whatever its size; None for `CAPTAU_STORE_SECONDS`, else the
            usual time, and what the slowest line takes for the bytes.

    Raises:
        TimeoutError: where it takes longer than the store's answer and the slowest line would.
    """
    if seconds is not None:
        size = 0
    else:
        seconds = float(os.environ.get("CAPTAU_STORE_SECONDS") or _SECONDS)
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(seconds + size / _SLOWEST)
    except TimeoutError as error:
        reason = (
            str(error) or f"no answer in {seconds:g} s; CAPTAU_STORE_SECONDS= sets another patience"
        )
        raise TimeoutError(reason) from error


class RemotePath:
    """A file or folder in an object store; its methods do what those of `Path` do, within a time limit.

    Args:
        url: the address, as people know it.
        reporting: a context manager that turns errors of the store's client into errors for people, whose
            messages name the URL that it takes.
        seconds: how long a call may take; see `call_in_time`.

    Raises:
        InputError: where fsspec, or what it needs for this store, is not installed.
    """

    def __init__(
        self,
        url: str,
        reporting: Callable[[str], AbstractContextManager[None]] = reporting_store_errors,
        seconds: float | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.reporting, self.seconds = reporting, seconds
        with reporting(url):
            self.system, path = open_file_system(url)
        self.path = path.rstrip("/")

    def __truediv__(self, name: str) -> RemotePath:
        below = copy(self)
        below.url, below.path = f"{self.url}/{name}", f"{self.path}/{name}"
        return below

    def __str__(self) -> str:
        return self.url

    def _call(self, method: Callable[..., Result], *arguments: Any, size: int = 0) -> Result:
        with self.reporting(self.url):
            return call_in_time(lambda: method(*arguments), size, self.seconds)

    def exists(self) -> bool:
        """Say whether there is a file or folder."""
        return bool(self._call(self.system.exists, self.path))

    def is_file(self) -> bool:
        """Say whether there is a file; False where the store cannot be reached and errors are OSErrors."""
        try:
            return self.exists()
        except OSError:
            return False

    def size(self) -> int:
        """Return how many bytes a file has."""
        return int(self._call(self.system.size, self.path))

    def read_bytes(self, size: int = 0) -> bytes:
        """Return the content of a file, which has `size` bytes as far as that is known."""
        return self._call(self.system.cat_file, self.path, size=size)

    def write_bytes(self, content: bytes) -> None:
        """Write a file, whole or not at all."""
        self._call(self.system.pipe_file, self.path, content, size=len(content))

    def copy_from(self, source: Path) -> None:
        """Write a file with the content of one of this machine."""
        size = source.stat().st_size
        self._call(self.system.put_file, str(source), self.path, size=size)

    def list_names(self) -> list[str]:
        """Return the names in a folder; none where it does not exist."""
        if not self._call(self.system.isdir, self.path):
            return []
        paths = self._call(self.system.ls, self.path, False)
        return [path.rpartition("/")[2] for path in paths]

    def unlink(self) -> None:
        """Remove a file."""
        self._call(self.system.rm_file, self.path)
