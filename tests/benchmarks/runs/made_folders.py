"""Folders of runs that tests write by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def make_run(files: Mapping[str, str], command: str = "bench", **record: Any) -> Path:
    """Write files and a run.json with their digests into the folder `run`, or another that is named."""
    folder = Path(record.pop("folder", "run"))
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    digests = {n: hashlib.sha256(t.encode()).hexdigest() for n, t in files.items()}
    plain = {"command": command, "format": 1, "config": {}, "versions": {"captau": "9"}}
    (folder / "run.json").write_text(json.dumps({**plain, "files": digests, **record}))
    return folder
