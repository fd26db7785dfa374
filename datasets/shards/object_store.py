"""Access to object stores and other file systems behind a URL, by fsspec, with a time limit."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
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


def call_in_time(call: Callable[[], Result], size: int = 0) -> Result:
    """Return the result of a call to a store, whose client might wait for a silent store for ever.

    Args:
        call: the call.
        size: how many bytes it moves.

    Raises:
        TimeoutError: where it takes longer than the store's answer and the slowest line would.
    """
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
