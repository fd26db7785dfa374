"""The question before a large download, which is asked on a terminal before a run begins."""

from __future__ import annotations

import os
import sys

from ...datasets.download.permission import LargeDownload, is_allowed
from ..options.declaration import Options


def ask_downloads(options: Options) -> None:
    """Ask for permission to download what a command's metrics need, each download once; elsewhere than on a terminal, do nothing.

    A yes is added to CAPTAU_DOWNLOAD, so that it holds for child processes too.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    pending = (metric.pending_download() for metric in options.needed_metrics())
    downloads = {download.name: download for download in pending if download is not None}
    for download in downloads.values():
        if not is_allowed(download) and _ask(download):
            allowed = os.environ.get("CAPTAU_DOWNLOAD", "")
            os.environ["CAPTAU_DOWNLOAD"] = ",".join(filter(None, [allowed, download.name]))


def _ask(download: LargeDownload) -> bool:
    question = (
        f"captau: {download.description} ({download.n_bytes / 1e6:.0f} MB, licence {download.licence}). "
        f"Download now? [y/N] "
    )
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
