"""Results of a run as Python holds them: tidy tables, printed tables, figures, and the files that they become.

Commands that Python can call return a `RunResults`: `Results` of metrics that meet ratings, `RunOutput` of tables of
rows, and `commands.score.ScoreResults` of a user's captions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ..runs.results import add_run_file, table_files, to_csv, to_json, to_parquet
from ..runs.tables import ResultTable, csv_of, frame_of, html_of, latex_of, markdown_of
from .figure_files import Figures, require_packages


class RunResults(ABC):
    """Results of a run, which print themselves.

    Attributes:
        tables: the tables that the command prints.
        run: what it takes to recompute them; the content of `run.json`.
    """

    tables: list[ResultTable]
    run: dict[str, Any]

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Return the run's files by name; `run.json` comes last, so its presence says that all are there."""

    def __repr__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        """Return the printed tables as a notebook shows them."""
        return "".join(html_of(table) for table in self.tables)

    def table(self, number: int = 0) -> pd.DataFrame:
        """Return a printed table as a DataFrame, with its row labels as index; the notes are left out.

        Args:
            number: which of `tables`, from 0.
        """
        return frame_of(self.tables[number])

    def to_markdown(self) -> str:
        """Return the printed tables as Markdown."""
        return "\n\n".join(map(markdown_of, self.tables))

    def to_latex(self) -> str:
        """Return the printed tables as LaTeX (booktabs)."""
        return "\n\n".join(map(latex_of, self.tables))

    def plot(
        self,
        kind: str | Sequence[str] | None = None,
        *,
        format: str | Sequence[str] = "svg",  # noqa: A002
    ) -> Figures:
        """Draw figures of the run, as `captau plot` does.

        Args:
            kind: which figures, such as `forest` (docs/python.md lists them); all that the run has by default.
            format: `svg`, `png` or `pdf`, or several.

        Raises:
            InputError: where matplotlib is missing, or there is nothing to draw.
        """
        from .charts import draw_charts

        options: dict[str, Any] = {} if kind is None else {"kinds": _words_of(kind)}
        with TemporaryDirectory() as folder:
            for name, content in self.files().items():
                (Path(folder) / name).write_bytes(content)
            return draw_charts(Path(folder), formats=_words_of(format), **options)


def _words_of(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


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

    def files(self) -> dict[str, bytes]:
        """Return the three as Parquet files by name."""
        return {f"{name}.parquet": to_parquet(frame) for name, frame in vars(self).items()}


@dataclass(frozen=True, repr=False)
class Results(RunResults):
    """Results of a run of `captau bench`, `compare` or `reproduce`.

    Attributes:
        correlations: one row per coefficient, columns `CORRELATION_COLUMNS`; values in their natural range.
        scores: one row per item and metric, columns `SCORE_COLUMNS`.
        run: everything that is needed to repeat the run: configuration, versions, signatures, hashes, times.
        tables: the printed tables, which are also written as Markdown and LaTeX.
        significance: differences of metrics, columns `SIGNIFICANCE_COLUMNS`, and the matrix of their p-values; only
            for `captau compare`, otherwise None.
        disattenuated: correlations corrected for the ratings' noise, columns `DISATTENUATED_COLUMNS`; None unless
            the options ask for them.
        comparison: recomputed cells beside the printed ones; only for `captau reproduce`, otherwise None.
        judgements: people's judgements of the items; None if a run has several protocols.
        words: the words that people mark and metrics blame, columns `BLAME_COLUMNS`; None if there are none.
        ranks: the ranks of metrics, columns `RANK_COLUMNS`: metrics that share a rank do not differ significantly;
            None without intervals.
        summary: a closing line, which may be empty.
    """

    correlations: pd.DataFrame
    scores: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable] = field(default_factory=list[ResultTable])
    significance: tuple[pd.DataFrame, pd.DataFrame] | None = None
    disattenuated: pd.DataFrame | None = None
    comparison: pd.DataFrame | None = None
    judgements: JudgementTables | None = None
    words: pd.DataFrame | None = None
    ranks: pd.DataFrame | None = None
    summary: str = ""

    def files(self) -> dict[str, bytes]:
        files = {
            "correlations.csv": to_csv(self.correlations),
            "scores.parquet": to_parquet(self.scores),
            **table_files(self.tables),
            "table.csv": "\n".join(csv_of(t) for t in self.tables).encode(),
        }
        if self.significance is not None:
            files["significance.csv"], files["matrix.csv"] = map(to_csv, self.significance)
        if self.disattenuated is not None:
            files["disattenuated.csv"] = to_csv(self.disattenuated)
        if self.judgements is not None:
            files |= self.judgements.files()
        if self.words is not None:
            files["words.parquet"] = to_parquet(self.words)
        if self.ranks is not None:
            files["ranks.csv"] = to_csv(self.ranks)
        if self.comparison is not None:
            files["comparison.csv"] = to_csv(self.comparison)
        return add_run_file(files, self.run)


@dataclass(frozen=True, repr=False)
class RunOutput(RunResults):
    """The results of a command whose files are tables of rows.

    Attributes:
        frames: the rows by file name.
        run: what it takes to recompute them.
        tables: the tables that are printed.
        figures: figures as files by name; none without matplotlib.
    """

    frames: Mapping[str, pd.DataFrame]
    run: dict[str, Any]
    tables: list[ResultTable]
    figures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def files(self) -> dict[str, bytes]:
        return {
            **{name: to_csv(frame) for name, frame in self.frames.items()},
            **table_files(self.tables),
            **self.figures,
            "run.json": to_json(self.run),
        }

    def plot(
        self,
        kind: str | Sequence[str] | None = None,
        *,
        format: str | Sequence[str] = "svg",  # noqa: A002
    ) -> Figures:
        """Return figures of the run.

        Args:
            kind: beginnings of figures' names, such as `systems`; all by default.
            format: `svg` or `png`, or both.

        Raises:
            InputError: where there are none.
        """
        kinds, formats = _words_of(kind or ""), _words_of(format)
        figures = {
            name: content
            for name, content in self.figures.items()
            if name.endswith(formats) and name.startswith(kinds)
        }
        if not figures:
            require_packages(self.run["command"], "matplotlib")
            names = ", ".join(self.figures) or "none"
            raise InputError(f"no figure of this kind and format; the run has {names}")
        return Figures(figures)
