"""One file from one address, by pooch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import unwritable
from .hub import address_of, headers_of, remedy_of
from .writing import REMEDY

if TYPE_CHECKING:
    import requests

# pooch and requests are imported where they are used: reading a dataset does not need them.

_CHUNK = 1 << 16


class AddressError(Exception):
    """An address that does not give the file; the message says why."""


@dataclass(frozen=True)
class FetchLimits:
    """The limits of a download.

    Attributes:
        tries: how often an address that fails is tried again.
        timeout: seconds without an answer.
        offline: whether to leave the network alone.
    """

    tries: int = 2
    timeout: float = 30.0
    offline: bool = False


def download_file(
    url: str, path: Path, limits: FetchLimits, progress: Callable[[int, int], None]
) -> None:
    """Download a file, which takes its name when it is whole; what is there is replaced.

    Args:
        url: its address; one on Hugging Face's hub may be at the mirror that HF_ENDPOINT names.
        path: where to write it.
        limits: the limits of the download.
        progress: called with the bytes that are here, and the bytes in all (0: not known).

    Raises:
        AddressError: if the address does not give the file.
        InputError: if the file cannot be written.
    """
    import pooch
    from requests import RequestException

    pooch.get_logger().setLevel(logging.WARNING)
    # pooch's annotations know neither a bar of one's own, nor a file without a hash.
    bar: Any = _ProgressBar(progress)
    registry: dict[str, Any] = {path.name: None}
    downloader: Any = pooch.HTTPDownloader(
        progressbar=bar,
        chunk_size=_CHUNK,
        timeout=limits.timeout,
        headers={
            "Accept-Encoding": "identity",
            "User-Agent": f"captau/{version('captau')}",
            **headers_of(url),
        },
        hooks={"response": _refuse_plain_redirect},
    )
    folder = pooch.Pooch(
        path=path.parent,
        base_url="",
        registry=registry,
        urls={path.name: address_of(url)},
        retry_if_failed=limits.tries,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        folder.fetch(path.name, downloader=downloader)
    except RequestException as error:
        raise AddressError(_describe(error, url, limits)) from error
    except OSError as error:
        raise unwritable(path, error, REMEDY) from error


class _ProgressBar:
    """A bar as pooch moves one, which tells a function the bytes."""

    def __init__(self, progress: Callable[[int, int], None]) -> None:
        self.total = 0
        self._progress = progress
        self._n_bytes = 0

    def update(self, n_bytes: int) -> None:
        """Add bytes; pooch counts whole chunks, of which the last is shorter."""
        self._n_bytes += n_bytes
        if self.total:
            self._n_bytes = min(self._n_bytes, self.total)
        self._progress(self._n_bytes, self.total)

    def reset(self) -> None:
        """Begin anew, as pooch does before it reports all bytes together."""
        self._n_bytes = 0

    def close(self) -> None:
        """End; the function needs no such word."""


def _refuse_plain_redirect(response: requests.Response, **_: object) -> None:
    """Raise AddressError where an address with TLS leads to one without."""
    location = response.headers.get("Location", "")
    if response.url.startswith("https:") and location.startswith("http:"):
        raise AddressError("it redirects to an address without TLS")


def _describe(error: requests.RequestException, url: str, limits: FetchLimits) -> str:
    """Return the reason why an address does not give a file."""
    from requests import exceptions

    if isinstance(error, exceptions.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"{status} {error.response.reason or ''}".strip() + remedy_of(url, status)

    reasons = {
        exceptions.TooManyRedirects: "it redirects without end",
        exceptions.SSLError: "its TLS certificate is not trusted",
        exceptions.Timeout: f"no answer within {limits.timeout:g} s",
        exceptions.ChunkedEncodingError: "the connection breaks off",
        exceptions.ConnectionError: "the connection fails",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return reason
    return f"the request failed ({type(error).__name__})"
