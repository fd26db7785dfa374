"""Records of finished runs that tests change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def edited_record(folder: Path, target: Path | None = None) -> Iterator[dict[str, Any]]:
    """Give the content of a run's run.json, and write it back as the block left it.

    It is written without its digest, by which captau notices that a record was edited.

    Args:
        folder: that of the run.
        target: another folder that the changed file is written to.
    """
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    record.pop("digest", None)

    yield record

    text = json.dumps(record)
    ((target or folder) / "run.json").write_text(text, encoding="utf-8")
