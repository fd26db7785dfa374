"""Measure the ranges of the datasets that papers print numbers of: `results/published/ranges.json`.

    python scripts/published/measure_ranges.py [--check]

reads every dataset of the file that lies in the data folder (`CAPTAU_DATA`) and measures it anew; the others stay as
they are. `language`, `systems` and, of datasets that were not at hand, `script` and the reason under `unknown` are
written by hand.
`--check` writes nothing and ends with status 1 where a measured range differs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from captau.benchmarks.evaluation.caption_ranges import measure_range
from captau.datasets import registry
from captau.datasets.errors import InputError

FILE = Path(__file__).parents[2] / "results" / "published" / "ranges.json"


def measured_record(name: str, record: dict[str, Any], root: Path | None) -> dict[str, Any]:
    """Return a dataset's record, measured anew where its files are at hand."""
    try:
        caption_set = registry.load(name, root)
    except InputError:
        return record
    measured = measure_range(caption_set.items)
    described = replace(
        measured, language=record.get("language", ""), systems=record.get("systems", "")
    )
    return described.record()


def text_of(records: dict[str, dict[str, Any]], about: str) -> str:
    """Return the file's text: a line a field, so that a change can be read."""
    text = json.dumps({"about": about, "datasets": records}, indent=1, ensure_ascii=False) + "\n"
    text = re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    return re.sub(
        r'"frequent_words": \{\s+([^{}]*?)\s+\}',
        lambda m: f'"frequent_words": {{{" ".join(m[1].split())}}}',
        text,
    )


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    before = FILE.read_text(encoding="utf-8")
    content = json.loads(before)
    records: dict[str, dict[str, Any]] = {
        name: measured_record(name, record, options.data)
        for name, record in content["datasets"].items()
    }
    text = text_of(records, content["about"])
    if options.check:
        return int(text != before)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
