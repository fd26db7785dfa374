"""Results of a run as Python holds them: tidy tables, printed tables, figures, and the files that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from ..runs.results import add_run_file, table_files, to_csv, to_parquet
from .charts.figure_files import Figures
from .printed_tables import PrintedTables


@dataclass(frozen=True)
class JudgementTables:
    """People's judgements of the scored items, so that a report needs a run's folder alone.

    Attributes:
        items, ratings, preferences: of all datasets of the run, columns `dataset` and those of a
            `CaptionSet`; of the items that the protocol chose.
    """

    items: pd.DataFrame
    ratings: pd.DataFrame
    preferences: pd.DataFrame


@dataclass(frozen=True, repr=False)
class Results(PrintedTables):
    """Results of a run, which print and draw themselves; the command also writes `tables` as Markdown and LaTeX.

    Attributes:
        frames: the rows by file name, `.csv` or `.parquet`; the main table comes first.
        run: what it takes to recompute them; the content of `run.json`.
        figures: figures as files by name; none without matplotlib.
        other_files: further files by name.
        summary: a closing line, which may be empty.
        objective: the headline value, which a sweep may optimise; None of a command that has none.
    """

    frames: Mapping[str, pd.DataFrame]
    run: dict[str, Any]
    figures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    other_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    summary: str = ""
    objective: float | None = None

    @property
    def correlations(self) -> pd.DataFrame:
        """One row per coefficient, columns `CORRELATION_COLUMNS`; values in their natural range."""
        return self.frames["correlations.csv"]

    @property
    def overview(self) -> pd.DataFrame | None:
        """The headlines of several datasets and their joint mean, columns `OVERVIEW_COLUMNS`; None of one dataset."""
        return self.frames.get("overview.csv")

    @property
    def scores(self) -> pd.DataFrame:
        """One row per item and metric, columns `SCORE_COLUMNS`."""
        return self.frames["scores.parquet"]

    @property
    def significance(self) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Differences of metrics, columns `SIGNIFICANCE_COLUMNS`, and the matrix of their p-values; of `compare` alone."""
        if "matrix.csv" not in self.frames:
            return None
        return self.frames["significance.csv"], self.frames["matrix.csv"]

    @property
    def disattenuated(self) -> pd.DataFrame | None:
        """Correlations corrected for the ratings' noise, columns `DISATTENUATED_COLUMNS`; None unless asked for."""
        return self.frames.get("disattenuated.csv")

    @property
    def comparison(self) -> pd.DataFrame | None:
        """Recomputed cells beside the printed ones; of `captau reproduce` alone."""
        return self.frames.get("comparison.csv")

    @property
    def judgements(self) -> JudgementTables | None:
        """People's judgements of the items; None where the run keeps none."""
        frames: list[pd.DataFrame] = []
        for name in JudgementTables.__dataclass_fields__:
            frame = self.frames.get(f"{name}.parquet")
            # All are kept or none, so that each judgement has its item.
            if frame is None:
                return None
            frames.append(frame)
        return JudgementTables(*frames)

    @property
    def words(self) -> pd.DataFrame | None:
        """The words that people mark and metrics blame, columns `BLAME_COLUMNS`; None if there are none."""
        return self.frames.get("words.parquet")

    @property
    def ranks(self) -> pd.DataFrame | None:
        """The ranks of metrics, columns `RANK_COLUMNS`: metrics that share a rank do not differ significantly."""
        return self.frames.get("ranks.csv")

    def files(self) -> dict[str, bytes]:
        """Return the run's files by name; `run.json` comes last, so its presence says that all are there."""
        frames: dict[str, bytes] = {}
        for name, frame in self.frames.items():
            frames[name] = to_parquet(frame) if name.endswith(".parquet") else to_csv(frame)
        files = {**frames, **self.other_files, **table_files(self.tables), **self.figures}
        verdicts = {t.dataset or t.title: t.verdict for t in self.tables if t.verdict}
        run = {**self.run, "verdicts": verdicts} if verdicts else self.run
        return add_run_file(files, run)

    def plot(
        self,
        kind: str | Sequence[str] | None = None,
        *,
        format: str | Sequence[str] = "svg",  # noqa: A002
    ) -> Figures:
        """Draw figures of the run, as `captau plot` does.

        Args:
            kind: which figures, such as `forest` (docs/python.md lists them) or, of commands that draw their own,
                the beginnings of their names, such as `systems`; all that the run has by default.
            format: `svg`, `png` or `pdf`, or several.

        Raises:
            InputError: where matplotlib is missing, or there is nothing to draw.
        """
        from .charts.run_charts import draw_charts

        kinds = () if kind is None else _words_of(kind)
        with TemporaryDirectory() as folder:
            for name, content in self.files().items():
                (Path(folder) / name).write_bytes(content)
            return draw_charts(Path(folder), kinds, _words_of(format))


def _words_of(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
