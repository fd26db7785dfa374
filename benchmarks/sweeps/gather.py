"""`captau table sweep=DIR`: the results of a sweep's jobs as one table, and the jobs that are not done.

Nothing is scored: the cells are those of each run's own files, character by character. `cli.tasks` calls
`run`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.wording import interval_words
from ..options.finished_runs import SweepTableOptions
from ..reporting.tables.joined_table import join
from ..reporting.tables.named_run import NamedRun, describe_statistics
from ..reporting.tables.table_layouts import LAYOUTS
from ..runs.finished_run import FinishedRun, read_run
from ..runs.html_table import html_of
from ..runs.latex_table import latex_of
from ..runs.markdown_table import markdown_of
from ..runs.output_folder import RUN_FILE
from ..runs.results import to_csv, to_json
from ..runs.tables import ResultTable, Row, format_coefficient
from ..statistics.coefficients.coefficient import find_coefficient
from .jobs import JOB_FILE, JobOutcome, Sweep, read_sweep
from .sweep import count_states


@dataclass(frozen=True)
class GatheredRuns:
    """The results of a sweep's jobs.

    Attributes:
        sweep: the sweep.
        outcomes: the state of each job.
        runs: the finished runs, by number of their job.
        rows: all rows of the runs' files, every cell a text; columns `job`, `overrides` (the job's distinct
            ones) and those of the files.
        damaged: the numbers of jobs that are done and whose files cannot be read.
    """

    sweep: Sweep
    outcomes: Sequence[JobOutcome]
    runs: Mapping[int, FinishedRun]
    rows: pd.DataFrame
    damaged: Sequence[int]

    @property
    def unfinished(self) -> list[str]:
        """A line for each job without a result."""
        return [
            f"{self.sweep.name(n)}: {outcome.state}"
            + (f": {outcome.message}" if outcome.message else "")
            for n, outcome in enumerate(self.outcomes)
            if n not in self.runs
        ]

    @property
    def arguments(self) -> list[str]:
        """The arguments of `captau` that run the jobs that are not done."""
        return [*self.sweep.arguments(), f"output_dir={self.sweep.folder.resolve()}"]

    @property
    def remedy(self) -> list[str]:
        """A line with the command that runs the jobs that are not done; none where all are."""
        if not self.unfinished:
            return []
        command = shlex.join(["captau", *self.arguments])
        if Path(self.sweep.directory) != Path.cwd():
            command = f"cd {shlex.quote(self.sweep.directory)} && {command}"
        return [f"rerun=true runs the jobs that are not done, and so does: {command}"]

    @cached_property
    def table(self) -> ResultTable:
        """The table for people: coefficients are formatted, all other cells are as in the files."""
        rows: Any = self.rows.to_dict("records")
        notes = [count_states(self.outcomes), *self.unfinished, *self._data_notes()]
        title = f"{len(self.runs)} of {len(self.outcomes)} jobs of captau {self.sweep.command}"
        overrides = self.sweep.distinct_overrides
        keys = sorted({word.partition("=")[0] for words in overrides for word in words})
        if not all(run.has_correlations for run in self.runs.values()):
            columns = [str(c) for c in self.rows if c not in ("job", "overrides")]
            cells = [[row["overrides"], *(row[c] for c in columns)] for row in rows]
        else:
            columns = ["dataset", "protocol", "dimension", "metric"]
            columns += ["coefficient", "value", "low", "high"]
            cells = [
                [row["overrides"], *(row[c] for c in columns[:4]), *_coefficient_cells(row)]
                for row in rows
            ]
            sources = [NamedRun(run, f"job {n}") for n, run in self.runs.items()]
            notes += ["Coefficients ×100."]
            notes += [
                f"low, high: the {words}." for words in describe_statistics(sources, interval_words)
            ]
        return ResultTable(
            title,
            "job",
            [", ".join(keys), *columns],
            [Row(row["job"], line) for row, line in zip(rows, cells, strict=True)],
            notes=[note for note in notes if note],
            numeric=False,
        )

    def _data_notes(self) -> list[str]:
        """Return notes on datasets that are synthetic, or not the same in all jobs."""
        synthetic = [
            name
            for run in self.runs.values()
            for name, data in run.run.get("data", {}).items()
            if data["synthetic"]
        ]
        notes = [
            f"{name} is SYNTHETIC, drawn by rule: nothing about real metrics follows."
            for name in dict.fromkeys(synthetic)
        ]
        return notes + [
            f"{name} is not of the same content in all jobs."
            for name, contents in self._digests().items()
            if len(contents) > 1
        ]

    def _digests(self) -> dict[str, set[str]]:
        """Return the digests of each dataset in the finished jobs."""
        digests: dict[str, set[str]] = {}
        for run in self.runs.values():
            for name, data in run.run.get("data", {}).items():
                digests.setdefault(name, set()).add(data["digest"])
        return digests

    def render(self, style: str) -> str:
        """Return the table in one of the styles of `captau table`; CSV and JSON have every cell of the runs' files."""
        if style == "csv":
            return to_csv(self.rows).decode()
        if style == "json":
            return to_json(self._record()).decode()
        if self.is_grid:
            text = LAYOUTS[style](self._grid())
        else:
            text = {"markdown": markdown_of, "latex": latex_of, "html": html_of}[style](self.table)
        return text.rstrip("\n") + "\n"

    @property
    def drawn(self) -> ResultTable:
        """The table as a terminal draws it."""
        return self._grid() if self.is_grid else self.table

    @property
    def is_grid(self) -> bool:
        """Tell whether the finished jobs are runs of `captau bench` that differ in datasets and metrics alone."""
        words = [word for job in self.sweep.distinct_overrides for word in job]
        return (
            self.sweep.command == "bench"
            and bool(self.runs)
            and all(word.startswith(("dataset=", "metrics=")) for word in words)
            and all(len(contents) == 1 for contents in self._digests().values())
        )

    def _grid(self) -> ResultTable:
        """Return the finished jobs as `captau table run=` joins them: metrics by datasets."""
        table = join(list(self.runs.values()))
        lines = [count_states(self.outcomes), *self.unfinished]
        return replace(table, notes=[*table.notes, *(f"{line.rstrip('.')}." for line in lines)])

    def _record(self) -> dict[str, Any]:
        """Return the jobs with their states, and the rows, for JSON."""
        jobs = [
            {"job": n, "overrides": job, **vars(self.outcomes[n]), "folder": str(n)}
            for n, job in enumerate(self.sweep.jobs)
        ]
        rows: Any = self.rows.to_dict("records")
        return {
            "format": 1,
            "command": self.sweep.command,
            "jobs": jobs,
            "rows": [{key: _parse_cell(key, text) for key, text in row.items()} for row in rows],
        }


def run(options: SweepTableOptions) -> GatheredRuns:
    """Gather the results of a sweep's jobs; `rerun` runs the unfinished jobs first.

    Raises:
        InputError: where there is no sweep.
    """
    gathered = gather(options.sweep)
    if options.rerun and gathered.unfinished:
        for number in gathered.damaged:
            (gathered.sweep.job_folder(number) / JOB_FILE).unlink(missing_ok=True)
        # Hydra is at work in this process, so that the sweep needs one of its own.
        program = "from captau.benchmarks.cli.main import main; main()"
        words = [sys.executable, "-c", program, *gathered.arguments]
        try:
            # What the jobs print goes to standard error, so that the table stands alone on standard output.
            subprocess.run(words, cwd=gathered.sweep.directory, check=False, stdout=2)
        except OSError as error:
            raise InputError(
                f"{gathered.sweep.directory}, where the sweep was begun: {error.strerror}"
            ) from error
        gathered = gather(options.sweep)
    return gathered


def gather(folder: Path) -> GatheredRuns:
    """Gather the results that the jobs of a sweep have so far.

    Raises:
        InputError: where there is no sweep, or no job that is done wrote a run.
    """
    sweep = read_sweep(folder)
    outcomes: list[JobOutcome] = []
    runs: dict[int, FinishedRun] = {}
    damaged: list[int] = []
    parts: list[pd.DataFrame] = []
    for n in range(len(sweep.jobs)):
        outcome = sweep.outcome(n)
        if outcome.state == "done":
            try:
                finished = read_run(sweep.job_folder(n))
                part = finished.read_texts(finished.main_table)
            except InputError as error:
                damaged.append(n)
                outcome = JobOutcome("failed", message=str(error), captau=outcome.captau)
            else:
                runs[n] = finished
                part.insert(0, "job", str(n))
                part.insert(1, "overrides", " ".join(sweep.distinct_overrides[n]))
                parts.append(part)
        outcomes.append(outcome)
    if damaged and not any((sweep.job_folder(n) / RUN_FILE).is_file() for n in (*runs, *damaged)):
        raise InputError(
            f"{folder} is a sweep of captau {sweep.command}, which has no numbers to join"
        )
    rows = pd.concat(parts, ignore_index=True).fillna("") if parts else pd.DataFrame()
    return GatheredRuns(sweep, outcomes, runs, rows, damaged)


def _coefficient_cells(row: Mapping[str, str]) -> list[str]:
    """Return a coefficient's name, value and interval as tables print them."""
    name = row["coefficient"]
    ends = (row["value"], row["ci_low"], row["ci_high"])
    cells = [format_coefficient(float(end or "nan"), name) for end in ends]
    return [find_coefficient(name).symbol, *cells]


#: Columns that are texts even where one reads as a number.
_TEXTS = ("overrides", "dataset", "protocol", "dimension", "metric", "note", "system", "kind")


def _parse_cell(key: str, text: str) -> Any:
    """Return a cell for JSON: a number where the text is one, None where it is empty."""
    if key in _TEXTS:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
