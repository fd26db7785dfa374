"""Finished runs: the files of a folder, checked. Tables, reports, plots and citations read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ...metrics.base import Unavailability
from ..statistics.bootstrap import StatisticsOptions
from .output_folder import RUN_FILE, UNNAMED_FILES
from .results import (
    BLAME_COLUMNS,
    CORPUS_COLUMNS,
    CORRELATION_COLUMNS,
    FORMAT,
    METRIC_ORDERS,
    ORDER_COLUMNS,
    OVERVIEW_COLUMNS,
    RANK_COLUMNS,
    RECORD_DIGEST,
    SCORE_COLUMNS,
    SIGNIFICANCE_COLUMNS,
    digest_of_record,
)

logger = logging.getLogger(__name__)

#: Columns of the CSV files that are texts even where they are empty, or say "NA".
_TEXTS = (
    "dataset",
    "protocol",
    "dimension",
    "metric",
    "metric_a",
    "metric_b",
    "coefficient",
    "test",
    "note",
    "references",
    "system",
    "system_a",
    "system_b",
    "item_id",
    "image_id",
    "agreement_coefficient",
    "agreement_on",
)
#: Endings of the files whose digests are checked when a run is opened; tables and figures for people, when they are read.
_NUMBERS = (".csv", ".parquet", ".json")


_TEXT = (str,)
_NUMBER = (int, float)
_NONE = type(None)


def _types_by_path(
    *paths_of_types: tuple[tuple[type, ...], str],
) -> dict[str, tuple[type, ...]]:
    """Return the types of each path, of which many have the same."""
    types_by_path: dict[str, tuple[type, ...]] = {}
    for types, paths in paths_of_types:
        types_by_path |= dict.fromkeys(paths.split(), types)
    return types_by_path


#: Types of the fields of run.json that readers use, by path; `*` stands for any name or position. A path that ends in `!` must be there.
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = _types_by_path(
    ((dict,), "config! protocols protocols.* n_images signatures data data.* data.*.files"),
    ((dict,), "data.*.scales data.*.scales.* versions! metrics metrics.* floors ceilings"),
    ((dict,), "missing missing.* left_out left_out.* files verdicts"),
    ((dict, _NONE), "config.statistics"),
    ((list,), "protocols.*.dimension protocols.*.coefficients! data.*.faults unfinished"),
    ((list,), "data.*.sources"),
    ((dict,), "data.*.sources.* data.*.single_values"),
    (_TEXT, "data.*.sources.*.path! data.*.sources.*.split! data.*.sources.*.revision!"),
    (_TEXT, "data.*.sources.*.sha256! data.*.single_values.*"),
    ((list, _NONE), "protocols.*.systems"),
    (_TEXT, "protocols.*.name! protocols.*.dimension.* protocols.*.ratings!"),
    (_TEXT, "protocols.*.coefficients.* protocols.*.systems.* signatures.* data.*.digest!"),
    (_TEXT, "data.*.revision! data.*.title! data.*.headline data.*.files.* data.*.licence"),
    (_TEXT, "data.*.citation! data.*.faults.* versions.captau! versions.* metrics.*.label!"),
    (_TEXT, "metrics.*.note! metrics.*.kind! metrics.*.citation! floors.* ceilings.*"),
    (_TEXT, "left_out.*.message! measures unfinished.* files.* verdicts.*"),
    ((str, _NONE), "protocols.*.split"),
    (_NUMBER, "data.*.scales.*.low! data.*.scales.*.high! metrics.*.order! metrics.*.scale!"),
    ((int, float, _NONE), "data.*.scales.*.step"),
    ((int,), "n_images.* metrics.*.decimals!"),
    ((bool,), "data.*.synthetic! metrics.*.higher_is_better!"),
)


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
    def files(self) -> tuple[str, ...]:
        """The names of the files that the run wrote, the main one first."""
        if "files" in self.run:
            return tuple(self.run["files"])
        # A run of captau 0.1.
        file_names = [name for name in UNNAMED_FILES if (self.folder / name).is_file()]
        return tuple(file_names)

    @property
    def verdicts(self) -> Mapping[str, str]:
        """A sentence on each of the run's tables, by its dataset or else their title; runs before captau 0.2 kept none."""
        return self.run.get("verdicts", {})

    @property
    def has_correlations(self) -> bool:
        """Tell whether the run correlates metrics with people's judgements."""
        return "correlations.csv" in self.files

    @property
    def has_corpus_scores(self) -> bool:
        """Tell whether the run scores a user's own captions, and is not one of a large set."""
        return "corpus.csv" in self.files

    @property
    def has_own_table(self) -> bool:
        """Tell whether the run's table is the one that it wrote, as nothing joins its numbers with others'."""
        return not (self.has_correlations or self.has_corpus_scores)

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """Columns `CORRELATION_COLUMNS`; an empty note is an empty text."""
        return self._table("correlations.csv", CORRELATION_COLUMNS)

    def find_protocol(self, dataset: str, name: str) -> Mapping[str, Any] | None:
        """Return the options of a protocol, which run.json has by dataset, or by a paper's table; None for an unknown one."""
        protocols: dict[str, Any] = self.run.get("protocols", {})
        if protocols.get(dataset):
            return protocols[dataset]

        for options in protocols.values():
            if options["name"] == name:
                return options
        return None

    def find_reasons(self, dataset: str) -> dict[str, Unavailability]:
        """Return why metrics could not be computed on a dataset, by their specs.

        Raises:
            InputError: where run.json says it in a way that captau does not write.
        """
        records: Mapping[str, Any] = self.run.get("missing", {}).get(dataset, {})
        try:
            return {spec: Unavailability(**record) for spec, record in records.items()}
        except (AttributeError, TypeError) as error:
            raise InputError(
                f"{self.folder}/run.json: missing.{dataset}: {error}; run captau {self.command} again"
            ) from error

    @cached_property
    def printed_correlations(self) -> pd.DataFrame:
        """The correlations of the coefficients that the protocols name; others stand in the file alone."""
        frame = self.correlations
        columns = (frame["dataset"], frame["protocol"], frame["coefficient"])
        is_printed: list[bool] = []
        for dataset, protocol, coefficient in zip(*columns, strict=True):
            options = self.find_protocol(dataset, protocol)
            is_printed.append(options is None or coefficient in options["coefficients"])

        return frame[is_printed].reset_index(drop=True)

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
    def rank_by_key(self) -> dict[tuple[str, str, str, str], int]:
        """Ranks by dataset, dimension, coefficient and metric; none where the run has no `ranks.csv`."""
        if not self.has_file("ranks.csv"):
            return {}

        rows: Any = self.ranks[list(RANK_COLUMNS)].itertuples(index=False, name=None)
        return {tuple(key): int(rank) for *key, rank in rows}

    @cached_property
    def overview(self) -> pd.DataFrame:
        """Columns `OVERVIEW_COLUMNS`; of `captau bench` of several datasets alone."""
        return self._table("overview.csv", OVERVIEW_COLUMNS)

    @cached_property
    def significance(self) -> pd.DataFrame:
        """Columns `SIGNIFICANCE_COLUMNS`; of `captau compare` alone."""
        return self._table("significance.csv", SIGNIFICANCE_COLUMNS)

    @cached_property
    def metric_orders(self) -> pd.DataFrame:
        """Columns `ORDER_COLUMNS`; of `captau rank` alone."""
        return self._table(METRIC_ORDERS, ORDER_COLUMNS)

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """Corpus scores, one row a system, set of references and metric; of `captau score` alone."""
        frame = self._table("corpus.csv", CORPUS_COLUMNS)
        for metric in frame["metric"].unique():
            if metric not in self.run["metrics"]:
                raise InputError(
                    f"{self.folder / RUN_FILE}: metrics.{metric} is missing; {self._remedy}"
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
        try:
            return pd.read_csv(self.folder / name, dtype=str, keep_default_na=False)
        except FileNotFoundError as error:
            raise InputError(f"{self.folder / name} is missing; {self._remedy}") from error
        except (OSError, ValueError) as error:
            raise self._unreadable(name, error) from error

    def path_of(self, name: str) -> Path:
        """Return the path of a table or figure for people, after checking that it is as the run wrote it.

        Raises:
            InputError: where it is not, or is missing.
        """
        if not self.has_file(name):
            raise InputError(f"{self.folder / name} is missing; {self._remedy}")
        self._check_digest(name)
        return self.folder / name

    def has_file(self, name: str) -> bool:
        """Say whether the run wrote a file of that name, which is still here."""
        return name in self.files and (self.folder / name).is_file()

    def check_numbers(self) -> None:
        """Check that run.json and the files with the run's numbers are as the run wrote them.

        Raises:
            InputError: where one was cut short or edited.
        """
        written = self.run.get(RECORD_DIGEST)
        if written is not None and written != digest_of_record(self.run):
            raise InputError(f"{self.folder / RUN_FILE} was edited after the run; {self._remedy}")

        for name in self.files:
            if name.endswith(_NUMBERS):
                self._check_digest(name)

    def _table(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        path = self.folder / name
        try:
            if path.suffix == ".csv":
                kinds = dict.fromkeys(_TEXTS, "str")
                frame = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=[""])
                # An empty note is an empty text, and no NaN.
                text_columns = [name for name in _TEXTS if name in frame]
                frame = frame.fillna(dict.fromkeys(text_columns, ""))
            else:
                frame = upgrade_preferences(pd.read_parquet(path))
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing; {self._remedy}") from error
        except (OSError, ValueError) as error:
            raise self._unreadable(name, error) from error

        missing_columns = [column for column in columns if column not in frame.columns]
        if missing_columns:
            raise InputError(f"{path} has no column {', '.join(missing_columns)}; {self._remedy}")

        return frame

    def _unreadable(self, name: str, error: Exception) -> InputError:
        # pandas' parser errors and pyarrow's are ValueErrors, of several lines.
        reason = str(error).strip().splitlines()[0]
        return InputError(f"{self.folder / name} cannot be read ({reason}); {self._remedy}")

    def _check_digest(self, name: str) -> None:
        path = self.folder / name
        written = self.run.get("files", {}).get(name)
        if written is not None and path.is_file() and sha256(path) != written:
            raise InputError(
                f"{path} is not as the run wrote it: cut short, or edited; {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        return f"run captau {self.command} output_dir={self.folder} again"


def read_run(folder: str | Path, needs: str = "", *, checks_numbers: bool = True) -> FinishedRun:
    """Read a finished run's folder.

    Args:
        folder: the run's.
        needs: the name of a file that the run must have written; empty for any run.
        checks_numbers: whether its files have to be as it wrote them; not where its options alone are read.

    Raises:
        InputError: where there is no run, it is unfinished, of another form, or without that file, or where its
            numbers are not those that it wrote.
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

    command = _check_form(run, folder)
    finished = FinishedRun(folder, run)
    _check_record(finished, record)
    if needs and needs not in finished.files:
        remark = "; table.md in it is its table" if finished.has_file("table.md") else ""
        raise InputError(
            f"{folder} is a run of captau {command}, which writes no {needs}; name a run that has it{remark}"
        )
    if checks_numbers:
        finished.check_numbers()

    unfinished = run.get("unfinished")
    if unfinished:
        names = ", ".join(unfinished)
        logger.warning(
            f"{folder} is unfinished: {names} is missing; "
            f"captau {command} run={folder} output_dir={folder} completes it"
        )
    return finished


def _check_form(run: Any, folder: Path) -> str:
    """Check that a run.json is of a measure and of today's form, and return the command that wrote it."""
    command = run.get("command") if isinstance(run, dict) else None
    if not isinstance(command, str):
        raise InputError(f"{folder / RUN_FILE} names no command; it is not captau's")
    if command == "collect export":
        raise InputError(
            f"{folder} holds a study's answers, and no measure of them yet; run captau agree dataset=file "
            f"file.path={folder / 'ratings.csv'} output_dir=agreement, then captau report run=agreement"
        )
    if run.get("format") != FORMAT:
        # Its fields are not checked yet.
        versions = run.get("versions")
        version = versions.get("captau") if isinstance(versions, dict) else "another version"
        raise InputError(
            f"{folder} was written in another form, by captau {version}; run captau {command} "
            f"output_dir={folder} again"
        )
    return command


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read runs that can be shown together: all with correlations, all with corpus scores, or all with neither.

    Raises:
        InputError: as `read_run` does, or where a run is not of the first one's kind.
    """
    first, *other_runs = (read_run(folder) for folder in folders)
    kinds = (first.has_correlations, first.has_corpus_scores)
    for run in other_runs:
        if (run.has_correlations, run.has_corpus_scores) != kinds:
            raise InputError(
                f"{run.folder} is a run of captau {run.command}, which has other results than {first.folder}, one of "
                f"captau {first.command}; name runs with the same kind of results"
            )
    return [first, *other_runs]


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
                    f"{first.folder} and {run.folder} measure different data: {name} has the digest "
                    f"{digest[:12]} in one and {data['digest'][:12]} in the other; run one of them again"
                )


def _name_types(types: Iterable[type]) -> str:
    """Name types as an error does, such as `str or null`."""
    names = ["null" if t is type(None) else t.__name__ for t in types]
    return " or ".join(names)


def _check_record(run: FinishedRun, path: Path) -> None:
    """Check the fields of a run.json.

    Args:
        run: the run; with correlations it must have `protocols`, `signatures` and `data` by dataset, and with corpus
            scores `signatures`, `metrics` and the options of its tests.
        path: the file, for messages.

    Raises:
        InputError: where a field is missing, or of another type.
    """
    record = run.run
    names = record.get("files", {})
    if not isinstance(names, dict):
        raise InputError(
            f"{path}: files is {names!r:.60}, not dict; the file was edited; run it again"
        )

    required = set[str]()
    if run.has_corpus_scores:
        required = {"signatures", "metrics", "config.statistics"}
    if run.has_correlations:
        required = {"protocols", "data", "signatures"}

    has_own_captions = record["command"] == "score"
    for marked_path, types in _FIELD_TYPES.items():
        field_path = marked_path.removesuffix("!")
        # `score` records its files under `data`, and no datasets.
        if field_path.startswith("data.") and has_own_captions:
            continue
        if field_path == "config.statistics" and run.has_corpus_scores:
            types = (dict,)

        is_required = marked_path.endswith("!") or field_path in required
        for name, value in _find_values(record, field_path.split("."), is_required):
            # To Python a bool is an int.
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                problem = f"is {value!r:.60}, not {_name_types(types)}"
                if value is _MISSING:
                    problem = "is missing"
                raise InputError(f"{path}: {name} {problem}; the file was edited; run it again")

    try:
        StatisticsOptions(**record["config"].get("statistics") or {})
    except TypeError as error:
        raise InputError(f"{path}: config.statistics: {error}; run it again") from error


_MISSING = object()


def _find_values(
    value: Any, keys: list[str], is_required: bool, prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a path with their names; `_MISSING` where the last key of a required one is absent."""
    if not keys:
        yield prefix.removeprefix("."), value
        return

    key, *rest = keys
    if key == "*":
        children: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            children = value.items()
        elif isinstance(value, list):
            children = enumerate(value)
        for name, child in children:
            yield from _find_values(child, rest, is_required, f"{prefix}.{name}")
    elif isinstance(value, dict) and key in value:
        yield from _find_values(value[key], rest, is_required, f"{prefix}.{key}")
    elif isinstance(value, dict) and is_required and not rest:
        yield f"{prefix}.{key}".removeprefix("."), _MISSING
