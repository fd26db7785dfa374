"""Finished runs: the files of a folder, checked. Tables, reports, plots and citations read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.preferences import PREFERENCE_COLUMNS, upgrade_preferences
from ...datasets.reading.source_files import sha256
from ...datasets.schema import ITEM_COLUMNS, RATING_COLUMNS
from .output_folder import RUN_FILE
from .results import (
    BLAME_COLUMNS,
    CORPUS_COLUMNS,
    CORRELATION_COLUMNS,
    FORMAT,
    RANK_COLUMNS,
    SCORE_COLUMNS,
    SIGNIFICANCE_COLUMNS,
)
from .run_record import check_record

logger = logging.getLogger(__name__)

#: Columns of the CSV files that are texts even where they are empty, or say "NA".
_TEXTS = (
    *("dataset", "protocol", "dimension", "metric", "metric_a", "metric_b"),
    *("coefficient", "test", "note", "references", "system", "system_a", "system_b"),
    *("item_id", "image_id", "agreement_coefficient", "agreement_on"),
)
#: Commands whose runs have correlations.
COMMANDS = ("bench", "compare", "reproduce", "train")
#: The same, and the command that scores a user's own captions.
COMMANDS_WITH_SCORE = (*COMMANDS, "score")
#: Commands that study datasets and metrics; their runs have no correlations, and tables of their own.
STUDY_COMMANDS = ("rank", "agree", "sensitivity", "complement", "thresholds")


@dataclass(frozen=True)
class FinishedRun:
    """Results of a run; each table is read on first use.

    Attributes:
        folder: the run's folder.
        run: its run.json.

    Raises:
        InputError: from a table that is missing, cannot be read, or lacks columns.
    """

    folder: Path
    run: dict[str, Any]

    @property
    def command(self) -> str:
        """The command that ran."""
        return self.run["command"]

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """Columns `CORRELATION_COLUMNS`; an empty note is an empty text."""
        return self._table("correlations.csv", CORRELATION_COLUMNS)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Columns `SCORE_COLUMNS`."""
        return self._table("scores.parquet", SCORE_COLUMNS)

    @cached_property
    def items(self) -> pd.DataFrame:
        """Columns `dataset` and `ITEM_COLUMNS`."""
        return self._table("items.parquet", ("dataset", *ITEM_COLUMNS))

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """Columns `dataset` and `RATING_COLUMNS`."""
        return self._table("ratings.parquet", ("dataset", *RATING_COLUMNS))

    @cached_property
    def preferences(self) -> pd.DataFrame:
        """Columns `dataset`, `PREFERENCE_COLUMNS` and `winner`, of runs of captau 0.1 as well."""
        return self._table("preferences.parquet", ("dataset", *PREFERENCE_COLUMNS, "winner"))

    @cached_property
    def words(self) -> pd.DataFrame:
        """Columns `BLAME_COLUMNS`; empty where nobody marks or blames words."""
        if not self.has_file("words.parquet"):
            return pd.DataFrame(columns=pd.Index(BLAME_COLUMNS))
        return self._table("words.parquet", BLAME_COLUMNS)

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Columns `RANK_COLUMNS`."""
        return self._table("ranks.csv", RANK_COLUMNS)

    @cached_property
    def significance(self) -> pd.DataFrame:
        """Columns `SIGNIFICANCE_COLUMNS`; of `captau compare` alone."""
        return self._table("significance.csv", SIGNIFICANCE_COLUMNS)

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """Corpus scores, one row a system, set of references and metric; of `captau score` alone."""
        frame = self._table("corpus.csv", CORPUS_COLUMNS)
        if missing := [m for m in frame["metric"].unique() if m not in self.run["metrics"]]:
            raise InputError(
                f"{self.folder / RUN_FILE}: metrics.{missing[0]} is missing; {self._remedy}"
            )
        return frame

    @cached_property
    def caption_scores(self) -> pd.DataFrame:
        """Scores of captions, one row a caption and a column a metric; of `captau score` alone."""
        return self._table("scores.csv", ("item_id", "image_id"))

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Differences of every two systems; of `captau score` of several systems alone."""
        return self._table("differences.csv", ("references", "metric", "system_a", "system_b"))

    def read_texts(self, name: str) -> pd.DataFrame:
        """Return a CSV file whose cells are all texts, empty cells empty ones."""
        self._unchanged(name)
        try:
            return pd.read_csv(self.folder / name, dtype=str, keep_default_na=False)
        except FileNotFoundError as error:
            raise InputError(f"{self.folder / name} is missing; {self._remedy}") from error

    def has_file(self, name: str) -> bool:
        """Say whether the run wrote a file of that name."""
        return (self.folder / name).is_file()

    def _table(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        path = self.folder / name
        try:
            if path.suffix == ".csv":
                kinds = dict.fromkeys(_TEXTS, "str")
                frame = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=[""])
                frame = frame.fillna({name: "" for name in _TEXTS if name in frame})
            else:
                frame = upgrade_preferences(pd.read_parquet(path))
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing; {self._remedy}") from error
        except (OSError, ValueError) as error:
            # pandas' parser errors and pyarrow's are ValueErrors, of several lines.
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{path} cannot be read ({reason}); {self._remedy}") from error
        if missing_columns := [c for c in columns if c not in frame.columns]:
            raise InputError(f"{path} has no column {', '.join(missing_columns)}; {self._remedy}")
        self._unchanged(name)
        return frame

    def _unchanged(self, name: str) -> None:
        path = self.folder / name
        written = self.run.get("files", {}).get(name)
        if written is not None and path.is_file() and sha256(path) != written:
            raise InputError(
                f"{path} is not as the run wrote it: cut short, or edited; {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        return f"run captau {self.command} output_dir={self.folder} again"


def read_run(folder: str | Path, commands: Sequence[str] = COMMANDS) -> FinishedRun:
    """Read a finished run's folder.

    Args:
        commands: the commands whose runs are accepted.

    Raises:
        InputError: where there is no run, it is unfinished, of another form, or another command's.
    """
    folder = expand_home(folder)
    record = folder / RUN_FILE
    if not folder.is_dir():
        raise InputError(f"run={folder} is not a folder; captau bench says where it wrote to")
    if not record.is_file():
        raise InputError(
            f"{folder} has no {RUN_FILE}: the run is unfinished, or this is not a run's folder; run it again"
        )
    try:
        run = json.loads(record.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{record} cannot be read ({error}); run it again") from error
    command = run.get("command") if isinstance(run, dict) else None
    if not isinstance(command, str):
        raise InputError(f"{record} names no command; it is not captau's")
    if command == "score" and "score" in commands and (folder / "manifest.json").is_file():
        raise InputError(
            f"{folder} is the run of a large set, which run= does not take: captau score candidates=SHARDS "
            f"output_dir={folder} continues it, captau score keep.run={folder} filters it, and table.md in it is its table"
        )
    if run.get("format") != FORMAT:
        versions = run.get("versions")
        version = versions.get("captau") if isinstance(versions, dict) else "another version"
        raise InputError(
            f"{folder} was written in another form, by captau {version}; run captau {command} "
            f"output_dir={folder} again"
        )
    if command not in commands:
        remark = "; table.md in it is its table" if command in STUDY_COMMANDS else ""
        raise InputError(
            f"{folder} is a run of captau {command}; one of {', '.join(commands)} is expected{remark}"
        )
    check_record(run, record, has_correlations=command in COMMANDS)
    if unfinished := run.get("unfinished"):
        logger.warning(
            "%s is unfinished: %s is missing; captau %s run=%s output_dir=%s completes it",
            *(folder, ", ".join(unfinished), command, folder, folder),
        )
    return FinishedRun(folder, run)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read runs that are all of `captau score`, all of commands that correlate, or all of `STUDY_COMMANDS`.

    Raises:
        InputError: as `read_run` does, where a run is not of the first one's kind.
    """
    first = read_run(folders[0], (*COMMANDS_WITH_SCORE, *STUDY_COMMANDS))
    kinds = (("score",), COMMANDS, STUDY_COMMANDS)
    commands = next(commands for commands in kinds if first.command in commands)
    return [first, *(read_run(folder, commands) for folder in folders[1:])]


def check_same_data(runs: Sequence[FinishedRun]) -> None:
    """Check that runs agree on the contents of the datasets that they share.

    Raises:
        InputError: where two runs have a dataset of one name and different contents.
    """
    first_runs: dict[str, FinishedRun] = {}
    for run in runs:
        for name, data in run.run.get("data", {}).items():
            first = first_runs.setdefault(name, run)
            digest = first.run["data"][name]["digest"]
            if digest != data["digest"]:
                raise InputError(
                    f"{first.folder} and {run.folder} are over different data: {name} is of digest "
                    f"{digest[:12]} and {data['digest'][:12]}; run one again"
                )
