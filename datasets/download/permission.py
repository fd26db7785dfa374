"""Permission for large downloads: nothing above 50 MB is fetched unless a person allows it.

`weights.download=true` (CAPTAU_DOWNLOAD=1) allows it for a run; on a terminal the command line asks before a run
begins. `captau data fetch` is permission by itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

#: Downloads of no more bytes need no permission.
LIMIT = 50_000_000


@dataclass(frozen=True)
class LargeDownload:
    """Files from the network that a metric needs.

    Attributes:
        name: as `captau data fetch dataset=` takes it.
        description: what they are and who needs them, for the question.
        licence: their licences.
        n_bytes: the size of what is not here yet.
    """

    name: str
    description: str
    licence: str
    n_bytes: int


def may_download(name: str = "") -> bool:
    """Say whether CAPTAU_DOWNLOAD allows all downloads, or the one of this name."""
    words = os.environ.get("CAPTAU_DOWNLOAD", "").lower().split(",")
    return bool({"1", "true", "yes"} & set(words)) or (bool(name) and name in words)


def is_allowed(download: LargeDownload) -> bool:
    """Say whether a download may begin: it is small, or a person has allowed it."""
    return download.n_bytes <= LIMIT or may_download(download.name)
