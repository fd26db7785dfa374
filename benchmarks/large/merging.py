"""Counts over all shards at once, by DuckDB: beyond memory it works on the disk.

The workers write Parquet files; DuckDB adds the document frequencies of n-grams, puts scores in order for their
percentiles, fills histograms, and counts the rows that repeat an earlier one.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...datasets.errors import InputError
from ...metrics.text.frequency_table import Counts, write_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The most memory that DuckDB takes; what needs more lies on the disk.
MEMORY = "1GB"
#: The percentiles that are reported.
SHARES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
#: How many n-grams are copied at a time.
_STRETCH = 1 << 20


def check_duckdb() -> None:
    """Raise InputError where DuckDB is not installed."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise InputError(
            f"large sets need {error.name}, which is not installed: pip install 'captau[large]'"
        ) from error

    assert duckdb.apilevel


@contextmanager
def open_database(folder: Path, threads: int) -> Generator[DuckDBPyConnection]:
    """Open an empty database in a folder of its own, which is removed at the end.

    Args:
        folder: where that folder is made.
        threads: how many threads it may use.
    """
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        settings: dict[str, Any] = {
            "memory_limit": MEMORY,
            "threads": threads,
            "temp_directory": temporary,
        }
        with duckdb.connect(Path(temporary) / "large.duckdb", config=settings) as database:
            yield database


def add_counts(
    files: Sequence[str], documents: int, target: Path, folder: Path, threads: int
) -> int:
    """Add the document frequencies of shards, and write them as a table.

    Args:
        files: the Parquet files of the shards, with `high`, `low` and `documents`.
        documents: how many documents they count.
        target: the folder of the table.
        folder: of temporary files.
        threads: how many threads may run.

    Returns:
        How many n-grams the table has: those of more than one document, as the others weigh as those of none.
    """
    query = """
        create table counts as
        from read_parquet(?) select high, low, sum(documents)::uinteger as documents
        group by high, low having sum(documents) > 1 order by high, low
    """
    with open_database(folder, threads) as database:
        database.execute(query, [list(files)])
        (n_ngrams,) = fetch_row(database.execute("select count(*) from counts"))
        write_table(target, documents, n_ngrams, _read_counts(database, n_ngrams))

    return n_ngrams


def _read_counts(database: DuckDBPyConnection, n_ngrams: int) -> Iterator[Counts]:
    query = "from counts where rowid >= ? and rowid < ? order by rowid"
    for first in range(0, n_ngrams, _STRETCH):
        columns: Any = database.execute(query, [first, first + _STRETCH]).fetchnumpy()
        yield columns["high"], columns["low"], columns["documents"]


def fetch_row(result: DuckDBPyConnection) -> tuple[Any, ...]:
    """Return the one row of a result."""
    row = result.fetchone()
    assert row is not None
    return row


@dataclass(frozen=True)
class Distribution:
    """The distribution of some scores.

    Attributes:
        n: how many there are.
        percentiles: in the order of `SHARES`; NaN where there are none.
        counts: how many are in each bin of a histogram; empty without edges.
    """

    n: int
    percentiles: list[float]
    counts: list[int]


def quote(name: str) -> str:
    """Return a column's name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def measure_distribution(
    database: DuckDBPyConnection, scores: str, values: Sequence[Any], edges: Sequence[float]
) -> Distribution:
    """Measure the distribution of the scores that a query selects.

    Args:
        database: an open database, whose table `ordered` is written anew.
        scores: a query of one column, `score`, without NaN.
        values: what stands in its place holders.
        edges: of the bins of a histogram, of which the last is closed at both ends; empty for none.
    """
    database.execute(
        f"create or replace table ordered as select score from ({scores}) order by score", values
    )
    (n,) = fetch_row(database.execute("select count(*) from ordered"))
    percentiles = read_percentiles(database, n, SHARES)
    if not edges:
        return Distribution(n, percentiles, [])

    lows = list(edges[:-1])
    numbers = list(range(len(lows)))
    database.execute("create or replace table bins (number integer, low double)")
    database.execute("insert into bins select unnest(?), unnest(?)", [numbers, lows])
    query = """
        select number, count(*) from ordered asof join bins on ordered.score >= bins.low
        group by number
    """
    counts = dict(database.execute(query).fetchall())
    return Distribution(n, percentiles, [counts.get(number, 0) for number in numbers])


def read_percentiles(
    database: DuckDBPyConnection, n: int, shares: Sequence[float | Fraction]
) -> list[float]:
    """Return percentiles of the table `ordered`, interpolated as NumPy does by default.

    Args:
        database: an open database.
        n: how many rows the table has.
        shares: 0 to 100.
    """
    if not n:
        return [math.nan] * len(shares)

    # Fractions, since a float may miss a whole position by its last digit.
    positions = [Fraction(share) * (n - 1) / 100 for share in shares]
    ranks = {*map(math.floor, positions), *map(math.ceil, positions)}
    query = "select rowid, score from ordered where list_contains(?, rowid)"
    scores: Mapping[int, float] = dict(database.execute(query, [sorted(ranks)]).fetchall())

    percentiles: list[float] = []
    for position in positions:
        low = scores[math.floor(position)]
        high = scores[math.ceil(position)]
        weight = float(position - math.floor(position))
        # The difference of infinite scores is no number.
        percentiles.append(low if low == high or not weight else low + (high - low) * weight)

    return percentiles


def count_repeated(database: DuckDBPyConnection, files: Sequence[str]) -> int:
    """Count the rows that repeat the image and the caption of an earlier row, by the keys of rows in Parquet files."""
    query = """
        select coalesce(sum(n - 1), 0)::bigint
        from (select count(*) as n from read_parquet(?) group by high, low)
    """
    return int(fetch_row(database.execute(query, [list(files)]))[0])


def count_images(database: DuckDBPyConnection, files: Sequence[str]) -> int:
    """Count the images that have captions in Parquet files of scores."""
    query = "select count(*) from (select distinct image_id from read_parquet(?))"
    return int(fetch_row(database.execute(query, [list(files)]))[0])


def make_edges(low: float, high: float, bins: int) -> list[float]:
    """Return the edges of equally wide bins from one score to another; none where a score is not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return []
    return np.linspace(low, high if high > low else low + 1, bins + 1).tolist()
