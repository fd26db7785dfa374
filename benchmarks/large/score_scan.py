"""A scan of a scored set for `captau score keep.run=`: counts, percentiles and examples on both sides of a threshold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from ...datasets.errors import InputError
from .merging import (
    SHARES,
    fetch_row,
    measure_distribution,
    open_database,
    read_percentiles,
)
from .run_folder import read_scores

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: How many captions are shown of the worst, and on each side of the threshold.
EXAMPLES = 5

#: The score, the number of the shard and the row of a caption.
Example = tuple[float, int, int]


@dataclass(frozen=True)
class ScoreScan:
    """Counts, percentiles and examples of a set's scores on both sides of a threshold, `kept` and `dropped`.

    Attributes:
        n_rows, n_kept, n_undefined: how many captions there are, are kept, and have no score.
        n_tied: how many score exactly the threshold.
        examples: captions to show, by the side on which they are.
        percentiles: by side, in the order of `SHARES`.
    """

    n_rows: int
    n_kept: int
    n_undefined: int
    n_tied: int
    examples: dict[str, list[Example]]
    percentiles: dict[str, list[float]]

    def percentile_rows(self) -> pd.DataFrame:
        """Return the rows of percentiles.csv."""
        rows: list[dict[str, Any]] = []
        for side, values in self.percentiles.items():
            for share, value in zip(SHARES, values, strict=True):
                rows.append({"captions": side, "percentile": share, "score": value})

        return pd.DataFrame(rows)

    def example_rows(self) -> dict[int, list[int]]:
        """Return the sorted rows of the examples by the number of their shard."""
        # A caption may be an example of two sides, and is read once.
        shards_and_rows = set[tuple[int, int]]()
        for examples in self.examples.values():
            for _, shard, row in examples:
                shards_and_rows.add((shard, row))

        rows: defaultdict[int, list[int]] = defaultdict(list)
        for shard, row in sorted(shards_and_rows):
            rows[shard].append(row)
        return rows


class SetScores:
    """The scores of a finished run by one metric, in a database on the disk.

    Args:
        database: an open database.
        folder: of the scores, a path or a URL.
        manifest: of the run.
        metric: the metric's spec.

    Raises:
        InputError: where a file of scores is not what the manifest lists.
    """

    def __init__(
        self, database: DuckDBPyConnection, folder: str, manifest: Mapping[str, Any], metric: str
    ) -> None:
        self._database = database
        self._folder = folder
        self._metric = metric
        database.execute("create table scores (shard integer, row bigint, score double)")
        for number, shard in enumerate(manifest["shards"]):
            if shard["scores"] is not None:
                self._add_shard(number, shard["scores"])

    def _add_shard(self, number: int, scores: Mapping[str, Any]) -> None:
        values = read_scores(self._folder, scores, self._metric)
        table = pa.table({"row": range(len(values)), "score": values})
        self._database.register("of_shard", table)
        self._database.execute("insert into scores select ?, row, score from of_shard", [number])
        self._database.unregister("of_shard")

    def find_best(self, share: float) -> tuple[int, float]:
        """Return how many captions are the best share of those with a score, rounded up, and the least score of these.

        Raises:
            InputError: where no caption has a score.
        """
        query = "create or replace table ordered as select score from scores where not isnan(score) order by score"
        self._database.execute(query)
        (n_scored,) = fetch_row(self._database.execute("select count(*) from ordered"))
        if not n_scored:
            raise InputError(f"{self._folder}: no caption has a score by {self._metric}")

        n_best = math.ceil(Fraction(str(share)) * n_scored)  # 0.1 of 30 are 3
        percentile = Fraction(100 * (n_scored - n_best), max(1, n_scored - 1))
        (least_score,) = read_percentiles(self._database, n_scored, [percentile])
        return n_best, least_score

    def scan(self, threshold: float) -> ScoreScan:
        """Scan the scores on both sides of a threshold, the least score that is kept."""
        database = self._database
        query = """
            select count(*), count(*) filter (where isnan(score)), count(*) filter (where score = ?)
            from scores
        """
        n_rows, n_undefined, n_tied = fetch_row(database.execute(query, [threshold]))

        # DuckDB takes NaN for the greatest number.
        below = "from scores where score < ?"
        above = "from scores where score >= ? and not isnan(score)"
        sides: dict[str, list[float]] = {}
        sizes: dict[str, int] = {}
        for side, source in (("kept", above), ("dropped", below)):
            distribution = measure_distribution(
                database, f"select score {source}", [threshold], edges=[]
            )
            sides[side] = distribution.percentiles
            sizes[side] = distribution.n

        examples: dict[str, list[Example]] = {}
        for name, source, order in (
            ("lowest", below, "asc"),
            ("just below", below, "desc"),
            ("just above", above, "asc"),
        ):
            query = f"select score, shard, row {source} order by score {order}, shard, row limit ?"
            examples[name] = []
            for row in database.execute(query, [threshold, EXAMPLES]).fetchall():
                examples[name].append((float(row[0]), int(row[1]), int(row[2])))

        return ScoreScan(
            n_rows=n_rows,
            n_kept=sizes["kept"],
            n_undefined=n_undefined,
            n_tied=n_tied,
            examples=examples,
            percentiles=sides,
        )


@contextmanager
def open_scores(
    folder: str, manifest: Mapping[str, Any], metric: str, work: Path, threads: int
) -> Generator[SetScores]:
    """Read the scores of a finished run into a database, which is removed at the end.

    Args:
        folder: of the scores, a path or a URL.
        manifest: of the run.
        metric: the metric's spec.
        work: a folder for temporary files.
        threads: how many threads may run.
    """
    with open_database(work, threads) as database:
        yield SetScores(database, folder, manifest, metric)
