"""Hugging Face's hub as a place to download from: its address, the token, and the files of a pattern of names.

HF_ENDPOINT names a mirror and HF_TOKEN a token, as for huggingface_hub, after whose client the addresses and the list of
files are written. They were tried against a server on one machine, not against the hub.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ..reading.json_files import field
from ..reading.source_files import HUB
from ..schema import SourceFile


def is_hub(url: str) -> bool:
    """Tell whether an address is on the hub."""
    return url.startswith(f"{HUB}/")


def address_of(url: str) -> str:
    """Return an address at the mirror that HF_ENDPOINT names; others stay."""
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if not mirror or not is_hub(url):
        return url
    return mirror + url.removeprefix(HUB)


def headers_of(url: str) -> dict[str, str]:
    """Return the header with the user's token; none for other addresses than the hub's."""
    token = os.environ.get("HF_TOKEN", "").strip()
    return {"Authorization": f"Bearer {token}"} if token and is_hub(url) else {}


def remedy_of(url: str, status: int) -> str:
    """Return what a person can do about a refusal, to follow its reason; empty where it is none of the hub."""
    if status not in (401, 403) or not is_hub(url):
        return ""
    # The repository's page is what stands before a file's path, or before that of a list of files.
    page = url.replace("/api/", "/", 1)
    for separator in ("/resolve/", "/tree/"):
        page = page.partition(separator)[0]
    return f": accept the terms on {page}, and set HF_TOKEN to a token of your account"


def listing_of(source: SourceFile) -> str:
    """Return the address that lists the folder of a pattern; empty where the source has no pattern."""
    url = source.downloads[0] if source.downloads else ""
    has_pattern = "*" in url or "?" in url
    if not is_hub(url) or not has_pattern:
        return ""
    page, _, rest = url.partition("/resolve/")
    return f"{HUB}/api{page.removeprefix(HUB)}/tree/{posixpath.dirname(rest)}"


def files_of(source: SourceFile, entries: Any, where: str) -> tuple[list[SourceFile], int]:
    """Return the files of a pattern, with the hash that the hub lists for each, and their bytes in all.

    Args:
        source: its address has the pattern.
        entries: what the hub lists: objects with `type`, `path`, `oid`, `size` and, of large files, `lfs.oid`.
        where: the address of the list, for messages.

    Raises:
        InputError: where it is no such list.
    """
    page, _, rest = source.downloads[0].partition("/resolve/")
    revision, _, pattern = rest.partition("/")
    files: list[SourceFile] = []
    n_bytes = 0
    # What is no list is refused below, as one entry without a path.
    listed: list[Any] = entries if isinstance(entries, list) else [entries]
    for entry in listed:
        path = field(entry, "path", str, where)
        if posixpath.dirname(path) != posixpath.dirname(pattern) or not fnmatchcase(path, pattern):
            continue
        large = entry.get("lfs")
        n_bytes += field(entry, "size", int, where)
        files.append(
            replace(
                source,
                path=f"{source.path.partition('/')[0]}/{path}",
                sha256=field(large, "oid", str, where) if large else "",
                git_blob="" if large else field(entry, "oid", str, where),
                downloads=(f"{page}/resolve/{revision}/{path}",),
                also=(),
            )
        )
    return files, n_bytes
