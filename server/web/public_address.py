"""A site's address as visitors see it, behind a proxy as well."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from ...datasets.errors import InputError


@dataclass(frozen=True)
class PublicAddress:
    """Parts of the address under which visitors see a site.

    Attributes:
        base: the path under which a proxy shows the site, without a slash at its end.
        secure: whether it is served by https.
        origin: scheme and host; empty if `url=` was not set.
    """

    base: str = ""
    secure: bool = False
    origin: str = ""


def parse_public_address(url: str | None) -> PublicAddress:
    """Read the option `url=`.

    Raises:
        InputError: if it is no http or https address.
    """
    parts = urlsplit(url or "")
    if url and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise InputError(f"url={url}: http://… or https://… is expected")
    origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return PublicAddress(parts.path.rstrip("/"), parts.scheme == "https", origin)
