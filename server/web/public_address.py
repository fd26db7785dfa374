"""A site's address as visitors see it, behind a proxy as well."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request

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


def visible_origin(address: PublicAddress, request: Request) -> str:
    """Return scheme and host for links that people copy: those of `url=`, else of the port that was asked.

    The header `Host` is whatever a visitor writes, and is not used.
    """
    if address.origin:
        return address.origin
    host, port = request.scope["server"]
    return f"{request.scope['scheme']}://{f'[{host}]' if ':' in host else host}:{port}"
