"""The question before a large download, which is asked once a run on a terminal."""

from __future__ import annotations

import os
import sys

from ...datasets.download.permission import LargeDownload

_answers: dict[str, bool] = {}


def is_terminal() -> bool:
    """Say whether a person can read a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_download(download: LargeDownload) -> bool:
    """Ask whether to download files, once for each name; a yes holds for child processes too."""
    if download.name not in _answers:
        question = (
            f"captau: {download.description} ({download.n_bytes / 1e6:.0f} MB, licence {download.licence}). "
            f"Download now? [y/N] "
        )
        print(question, end="", file=sys.stderr, flush=True)
        _answers[download.name] = sys.stdin.readline().strip().lower() in ("y", "yes")
        if _answers[download.name]:
            allowed = os.environ.get("CAPTAU_DOWNLOAD", "")
            os.environ["CAPTAU_DOWNLOAD"] = ",".join(filter(None, [allowed, download.name]))
    return _answers[download.name]
