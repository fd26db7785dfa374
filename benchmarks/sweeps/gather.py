"""`captau gather`: what a sweep's jobs found, as one table, and which jobs are still to be done.

A pure function of files: nothing is scored. The cells are those of each run's own files, as they stand
there.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ..evaluation.wording import interval_words
from ..options.gather import GatherOptions
from ..reporting.joined_table import Source, words_of
from ..runs.finished_run import FinishedRun, read_run
from ..runs.output_folder import OutputFolder
from ..runs.results import to_csv, to_json
from ..runs.tables import COEFFICIENT_STYLE, ResultTable, format_number, markdown_of
from .jobs import JOB, Outcome, Sweep, read_sweep
from .sweep import counted

#: Which of a run's files are gathered, by command.
GATHERED = {
    **dict.fromkeys(("bench", "compare", "reproduce", "train"), "correlations.csv"),
    "agree": "agreement.csv",
    "score": "corpus.csv",
    "sensitivity": "sensitivity.csv",
    "complement": "complementarity.csv",
    "thresholds": "thresholds.csv",
}


@dataclass(frozen=True)
class Gathered:
    """What the jobs of a sweep found.

    Attributes:
        sweep: what was asked for.
        outcomes: how each job stands.
        runs: those that are done, by number.
        rows: of all of them, columns `job`, `overrides` (what is the job's own) and those of the runs'
            files; every cell is the text that stands there.
        damaged: which jobs were done and cannot be read.
        folder: where the files are written to.
    """

    sweep: Sweep
    outcomes: Sequence[Outcome]
    runs: Mapping[int, FinishedRun]
    rows: pd.DataFrame
    damaged: Sequence[int]
    folder: Path

    @property
    def lacking(self) -> list[str]:
        """A line for each job that there is no result of."""
        return [
            f"{self.sweep.name(n)}: {outcome.state}"
            + (f": {outcome.message}" if outcome.message else "")
            for n, outcome in enumerate(self.outcomes)
            if n not in self.runs
        ]

    @property
    def arguments(self) -> list[str]:
        """What `captau` is told to run the jobs that are not done."""
        return [*self.sweep.words(), f"output_dir={self.sweep.folder.resolve()}"]

    @property
    def summary(self) -> str:
        """How many jobs there are of each state, and the command that runs the lacking ones."""
        told = counted(self.outcomes)
        if len(self.runs) == len(self.outcomes):
            return told
        command = shlex.join(["captau", *self.arguments])
        if Path(self.sweep.directory) != Path.cwd():
            command = f"cd {shlex.quote(self.sweep.directory)} && {command}"
        return (
            f"{told}\n\nThis runs those that are not done, and no others (so does rerun=true):\n\n"
            f"  {command}"
        )

    @cached_property
    def table(self) -> ResultTable:
        """The rows for people: coefficients as they are printed, all else as it stands."""
        rows: Any = self.rows.to_dict("records")
        notes = [counted(self.outcomes), *self.lacking, *self._of_data()]
        title = f"{len(self.runs)} of {len(self.outcomes)} jobs of captau {self.sweep.command}"
        own = sorted({word.partition("=")[0] for words in self.sweep.swept for word in words})
        if GATHERED[self.sweep.command] != "correlations.csv":
            columns = [str(c) for c in self.rows if c not in ("job", "overrides")]
            cells = [[row["overrides"], *(row[c] for c in columns)] for row in rows]
        else:
            columns = [*("dataset", "protocol", "dimension", "metric", "coefficient", "value")]
            columns += ["low", "high"]
            cells = [
                [row["overrides"], *(row[c] for c in columns[:4]), *_printed(row)] for row in rows
            ]
            sources = [Source(run, f"job {n}") for n, run in self.runs.items()]
            notes += ["Coefficients ×100."]
            notes += [f"low, high: the {words}." for words in words_of(sources, interval_words)]
        return ResultTable(
            title,
            "job",
            [", ".join(own), *columns],
            [(row["job"], line) for row, line in zip(rows, cells, strict=True)],
            notes=[note for note in notes if note],
            numeric=False,
        )

    def _of_data(self) -> list[str]:
        """What must be said of datasets: that they are synthetic, or not the same in all jobs."""
        digests: dict[str, set[str]] = {}
        synthetic: list[str] = []
        for run in self.runs.values():
            for name, data in run.run.get("data", {}).items():
                digests.setdefault(name, set()).add(data["digest"])
                synthetic += [name] * bool(data["synthetic"])
        notes = [
            f"{name} is SYNTHETIC, drawn by rule: nothing about real metrics follows."
            for name in dict.fromkeys(synthetic)
        ]
        return notes + [
            f"{name} is not of the same content in all jobs."
            for name, found in digests.items()
            if len(found) > 1
        ]

    def files(self) -> dict[str, bytes]:
        """The files by name."""
        jobs = [
            {"job": n, "overrides": job, **vars(self.outcomes[n]), "folder": str(n)}
            for n, job in enumerate(self.sweep.jobs)
        ]
        rows: Any = self.rows.to_dict("records")
        told = {
            "format": 1,
            "command": self.sweep.command,
            "jobs": jobs,
            "rows": [{key: _typed(key, text) for key, text in row.items()} for row in rows],
        }
        return {
            "gathered.csv": to_csv(self.rows),
            "gathered.md": markdown_of(self.table).encode() + b"\n",
            "gathered.json": to_json(told),
        }


def run(config: GatherOptions) -> Gathered:
    """Gather what a sweep's jobs found, and write it; where it is asked for, run the lacking jobs first.

    Raises:
        InputError: where there is no sweep, or its command makes no table.
    """
    gathered = gather(config.run, config.output_dir)
    if config.rerun and gathered.lacking:
        for number in gathered.damaged:
            (gathered.sweep.place(number) / JOB).unlink(missing_ok=True)
        # In a process of its own: this one is in the midst of Hydra's work.
        program = "from captau.benchmarks.cli.main import main; main()"
        words = [sys.executable, "-c", program, *gathered.arguments]
        try:
            subprocess.run(words, cwd=gathered.sweep.directory, check=False)
        except OSError as error:
            raise InputError(
                f"{gathered.sweep.directory}, where the sweep was begun: {error.strerror}"
            ) from error
        gathered = gather(config.run, config.output_dir)
    with OutputFolder(gathered.folder, "gather") as folder:
        folder.write(gathered.files())
    return gathered


def gather(folder: Path, output_dir: Path | None = None) -> Gathered:
    """What the jobs of a sweep found so far.

    Raises:
        InputError: see `run`.
    """
    sweep = read_sweep(folder)
    if sweep.command not in GATHERED:
        raise InputError(
            f"{folder} is a sweep of captau {sweep.command}, which has no numbers to gather; one of "
            f"{', '.join(GATHERED)} is expected"
        )
    outcomes: list[Outcome] = []
    runs: dict[int, FinishedRun] = {}
    damaged: list[int] = []
    parts: list[pd.DataFrame] = []
    for n in range(len(sweep.jobs)):
        outcome = sweep.outcome(n)
        if outcome.state == "done":
            try:
                finished = read_run(sweep.place(n), tuple(GATHERED))
                part = finished.read_texts(GATHERED[sweep.command])
            except InputError as error:
                damaged.append(n)
                outcome = Outcome("failed", message=str(error), captau=outcome.captau)
            else:
                runs[n] = finished
                part.insert(0, "job", str(n))
                part.insert(1, "overrides", " ".join(sweep.swept[n]))
                parts.append(part)
        outcomes.append(outcome)
    rows = pd.concat(parts, ignore_index=True).fillna("") if parts else pd.DataFrame()
    return Gathered(sweep, outcomes, runs, rows, damaged, output_dir or folder)


def _printed(row: Mapping[str, str]) -> list[str]:
    """A coefficient's name, value and interval as tables print them."""
    name, _, scale, decimals = COEFFICIENT_STYLE[row["coefficient"]]
    ends = (row["value"], row["ci_low"], row["ci_high"])
    return [name, *(format_number(float(end or "nan"), scale, decimals) for end in ends)]


#: Columns that are texts even where one reads as a number.
_TEXTS = ("overrides", "dataset", "protocol", "dimension", "metric", "note", "system", "kind")


def _typed(key: str, text: str) -> Any:
    """A cell for JSON: a number where it is one, None where it is empty."""
    if key in _TEXTS:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
