"""`captau score keep.run=`: the captions of a large scored set that score well enough, and a report of the others.

Shards are written anew in their own format, each row as it was. `cli.tasks` calls `run`; `threshold` chooses the threshold,
and `score_scan` looks at the scores.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...datasets.cache import cache_folder
from ...datasets.cores import count_cores
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.shard_files import Shard, stat_shard
from ...datasets.reading.table import Columns
from ..options.large import FilterOptions
from ..runs.frames import make_frame, records_of
from ..runs.output_folder import OutputFolder
from ..runs.progress_bar import RowProgress
from ..runs.results import RunClock, add_run_file, describe_environment, table_files, to_csv
from ..runs.tables import MISSING, AnyCell, ResultTable, Row, count_cell, number_cell, number_cells
from .merging import SHARES, check_duckdb
from .plan import Plan, Task
from .pools import open_pool
from .run_folder import FORMAT, MANIFEST, SCORES, WORK, ResultFolder, lock_folder
from .score_scan import ScoreScan, open_scores
from .stage_runner import StageRunner
from .tasks import Result, describe_file_error
from .threshold import Threshold, choose_threshold

#: The folder of the kept shards within the output folder.
KEPT_FOLDER = "kept"
#: The percentiles that the table shows.
_TABLE_SHARES = (5.0, 50.0, 95.0)


@dataclass(frozen=True)
class FilteredCaptions:
    """The report of a filtered set.

    Attributes:
        tables: tables to print.
        summary: a line below them.
        folder: the output folder.
    """

    tables: list[ResultTable]
    summary: str
    folder: Path


def run(options: FilterOptions) -> FilteredCaptions:
    """Write the captions of a scored set that reach a threshold.

    Raises:
        InputError: where the scored run or its metric does not exist, no threshold reaches the precision, or
            a shard is not what was scored.
    """
    check_duckdb()
    try:
        return _filter(options)
    except OSError as error:
        raise InputError(describe_file_error(error, str(options.output_dir))) from error


@dataclass(frozen=True)
class _KeptScores:
    """The choice of the captions that are kept of a scored run.

    Attributes:
        threshold: the score from which on they are.
        n_best: the number that was wished for; None where the threshold was given.
        scan: how the scores lie on both sides.
        signature: of the metric.
    """

    threshold: Threshold
    n_best: int | None
    scan: ScoreScan
    signature: str


def _choose(options: FilterOptions, manifest: Mapping[str, Any], scores_folder: str) -> _KeptScores:
    """Find the threshold, and look at the scores on both of its sides."""
    if options.metric not in manifest["signatures"]:
        raise unknown("metric of this run", options.metric, manifest["signatures"])

    signature = manifest["signatures"][options.metric]

    n_best: int | None = None
    # A share is turned into a score, so that all that follows knows scores alone.
    lowest_score = options.above
    stored_scores = open_scores(
        scores_folder,
        manifest,
        options.metric,
        work=cache_folder("large"),
        threads=count_cores(),
    )
    with stored_scores as stored:
        if options.share is not None:
            n_best, lowest_score = stored.find_best(options.share)

        threshold = choose_threshold(options, signature, lowest_score)
        return _KeptScores(threshold, n_best, stored.scan(threshold.value), signature)


def _filter(options: FilterOptions) -> FilteredCaptions:
    clock = RunClock()
    source = ResultFolder(options.run)
    manifest = _read_manifest(source)
    scores_folder = f"{source.location}/{SCORES}"
    choice = _choose(options, manifest, scores_folder)
    threshold = choice.threshold
    scan = choice.scan

    if source.local and options.output_dir and _is_same(source.local, options.output_dir):
        raise InputError(
            f"output_dir={options.output_dir} is the scored run itself; name another folder"
        )

    # Before anything is written: a shard that changed would give other captions to these scores.
    _check_shards(manifest)

    with ExitStack() as stack:
        folder = stack.enter_context(OutputFolder(options.output_dir, "filter"))
        kept_folder = folder.path / KEPT_FOLDER
        work = folder.path / WORK
        # Two runs at once would remove each other's shards.
        stack.enter_context(lock_folder(work, str(folder.path)))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        (work / KEPT_FOLDER).mkdir(parents=True, exist_ok=True)

        plan = _make_plan(manifest, work)
        tasks = _make_tasks(
            manifest,
            scores_folder,
            metric=options.metric,
            threshold=threshold.value,
            scan=scan,
            folder=work / KEPT_FOLDER,
        )
        pool = stack.enter_context(open_pool(options.engine, options.workers, options.address))
        progress = stack.enter_context(RowProgress())
        results = StageRunner(pool, progress).run(plan, "filter", tasks)

        examples = _example_rows(scan, tasks, results)
        tables = _make_tables(options.metric, threshold, scan, examples, choice.n_best)
        # Only now: a run that was stopped before leaves the kept shards of an earlier one.
        _replace_kept_shards(kept_folder, work / KEPT_FOLDER)
        files = {
            "shards.csv": to_csv(_shard_rows(manifest, tasks, results)),
            "percentiles.csv": to_csv(scan.percentile_rows()),
            "examples.csv": to_csv(examples),
            **table_files(tables),
        }
        record = {
            **_describe_run(options, choice.signature, threshold, scan),
            **describe_environment(),
            **clock.record(),
        }
        folder.write(add_run_file(files, record))

    return FilteredCaptions(tables, _summarise(scan, threshold, kept_folder), folder.path)


def _describe_run(
    options: FilterOptions, signature: str, threshold: Threshold, scan: ScoreScan
) -> dict[str, Any]:
    """Return what run.json says of the run's settings and counts."""
    return {
        "command": "filter",
        "measures": "which captions reach a threshold",
        "config": dict(options.configuration),
        "scores": options.run,
        "metric": options.metric,
        "signature": signature,
        "known": threshold.as_record(),
        "rows": scan.n_rows,
        "kept": scan.n_kept,
        "undefined": scan.n_undefined,
        "tied": scan.n_tied,
    }


def _summarise(scan: ScoreScan, threshold: Threshold, folder: Path) -> str:
    share = scan.n_kept / scan.n_rows if scan.n_rows else math.nan
    summary = f"kept {scan.n_kept:,} of {scan.n_rows:,} captions ({share:.1%}), in {folder}"
    return "; ".join(filter(None, [summary, threshold.precision_words]))


def _is_same(path: Path, other_path: Path) -> bool:
    return expand_home(path).resolve() == expand_home(other_path).resolve()


def _read_manifest(source: ResultFolder) -> dict[str, Any]:
    """Read the manifest of a scored run.

    Raises:
        InputError: where there is none, or it is damaged.
    """
    content = source.read(MANIFEST)
    if content is None:
        raise InputError(
            f"{source.location}: no {MANIFEST} in it; keep.run=DIR is the folder of a finished captau score of "
            f"shards"
        )

    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise InputError(
            f"{source.location}/{MANIFEST}: not valid JSON; score the set anew"
        ) from error

    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{source.location}/{MANIFEST}: another version of captau wrote it; score the set anew"
        )

    return manifest


def _shards(manifest: Mapping[str, Any]) -> tuple[Shard, ...]:
    shards: list[Shard] = []
    for entry in manifest["shards"]:
        shard = Shard(
            path=entry["path"], kind=entry["kind"], size=entry["size"], stamp=entry["stamp"]
        )
        shards.append(shard)

    return tuple(shards)


def _check_shards(manifest: Mapping[str, Any]) -> None:
    """Check that all shards that were scored are as they were, before anything is written.

    Raises:
        InputError: where one is not.
    """
    with chdir(_directory(manifest)):
        for shard, record in zip(_shards(manifest), manifest["shards"], strict=True):
            if "skipped" not in record and stat_shard(shard.path) != shard:
                raise InputError(
                    f"{shard.path}: changed since it was scored; put it back, or score the set anew"
                )


def _directory(manifest: Mapping[str, Any]) -> str:
    """Return the folder where the relative paths of the shards start; this one if it no longer exists."""
    directory = manifest.get("directory", "")
    return directory if Path(directory).is_dir() else os.curdir


def _replace_kept_shards(folder: Path, new_folder: Path) -> None:
    """Replace the kept shards of an earlier run, which may have had more."""
    folder.mkdir(exist_ok=True)
    # Captau's own names alone: the folder may hold other files.
    for path in folder.glob("[0-9]" * 6 + "-*"):
        path.unlink()

    for path in new_folder.iterdir():
        path.rename(folder / path.name)


def _make_plan(manifest: Mapping[str, Any], work: Path) -> Plan:
    return Plan(
        work=str(work.resolve()),
        columns=Columns(**manifest["columns"]),
        rows=manifest["batch_rows"],  # texts of so many rows were not too long for memory
        threads=1,
        directory=str(Path(_directory(manifest)).resolve()),
    )


def _make_tasks(
    manifest: Mapping[str, Any],
    scores_folder: str,
    metric: str,
    threshold: float,
    scan: ScoreScan,
    folder: Path,
) -> list[Task]:
    """Return a task for each shard that was scored, whose id is the shard's number."""
    example_rows = scan.example_rows()
    tasks: list[Task] = []
    for number, (shard, record) in enumerate(
        zip(_shards(manifest), manifest["shards"], strict=True)
    ):
        # A corrupt shard was left out of the scores, and has none to filter by.
        if record["scores"] is None:
            continue

        details = {
            "metric": metric,
            "threshold": threshold,
            "scores_folder": scores_folder,
            "scores": record["scores"],
            "sha256": record["sha256"],
            "folder": str(folder.resolve()),
            "example_rows": example_rows.get(number, []),
        }
        tasks.append(Task(f"{number:06d}", shard.path, shard, details))

    return tasks


def _shard_rows(
    manifest: Mapping[str, Any], tasks: list[Task], results: list[Result]
) -> pd.DataFrame:
    """Return the rows of shards.csv."""
    result_by_id = {task.id: result for task, result in zip(tasks, results, strict=True)}
    skipped = {**dict.fromkeys(("rows", "kept_rows", "undefined"), 0), "file": "", "sha256": ""}
    rows: list[dict[str, Any]] = []
    for number, shard in enumerate(manifest["shards"]):
        result = result_by_id.get(f"{number:06d}", skipped)
        row = {
            "shard": shard["path"],
            "rows": result["rows"],
            "kept": result["kept_rows"],
            "dropped": result["rows"] - result["kept_rows"],
            "undefined": result["undefined"],
            "file": result["file"],
            "sha256": result["sha256"],
        }
        rows.append(row)

    return pd.DataFrame(rows)


def _example_rows(scan: ScoreScan, tasks: list[Task], results: list[Result]) -> pd.DataFrame:
    """Return the rows of examples.csv: captions with their scores."""
    texts: dict[tuple[int, int], tuple[str, str]] = {}
    for task, result in zip(tasks, results, strict=True):
        for row, image_id, caption in result["texts"]:
            texts[int(task.id), int(row)] = (str(image_id), str(caption))

    rows: list[tuple[str, float, str, str]] = []
    for name, examples in scan.examples.items():
        for score, shard, row in examples:
            rows.append((name, score, *texts[shard, row]))

    return make_frame(rows, ["captions", "score", "image_id", "caption"])


def _make_tables(
    metric: str,
    threshold: Threshold,
    scan: ScoreScan,
    examples: pd.DataFrame,
    n_best: int | None,
) -> list[ResultTable]:
    """Make the table of both sides of the threshold, and that of examples.

    Args:
        n_best: how many captions are the best share, without further ones that tie; None where no share was named.
    """
    sizes = {"kept": scan.n_kept, "dropped": scan.n_rows - scan.n_kept - scan.n_undefined}
    rows: list[Row] = []
    for side, size in sizes.items():
        percentiles = dict(zip(SHARES, scan.percentiles[side], strict=True))
        cells: list[AnyCell] = [count_cell(size), number_cell(size / scan.n_rows, 100, 1)]
        cells += number_cells((percentiles[share] for share in _TABLE_SHARES), 1, 4)
        rows.append(Row(side, cells))

    if scan.n_undefined:
        share = number_cell(scan.n_undefined / scan.n_rows, 100, 1)
        cells = [count_cell(scan.n_undefined), share, *[MISSING] * len(_TABLE_SHARES)]
        rows.append(Row("dropped, without a score", cells))

    notes = [f"Kept are captions with {metric} of {threshold.value:g} or more."]
    if n_best is not None and scan.n_kept > n_best:
        notes.append(
            f"{scan.n_tied:,} captions tie at {threshold.value:g}. All of them are kept, "
            f"{scan.n_kept - n_best:,} more than the share."
        )

    if words := threshold.precision_words:
        notes.append(f"{words[0].upper()}{words[1:]}.")

    columns = ["number", "%", *(f"P{share:g}" for share in _TABLE_SHARES)]
    tables = [ResultTable("Filtered captions", "captions", columns, rows, notes=notes)]
    if len(examples):
        lines: list[Row] = []
        for row in records_of(examples):
            score = number_cell(float(row["score"]), 1, 4)
            lines.append(Row(str(row["captions"]), [score, str(row["caption"])]))

        tables.append(
            ResultTable("Examples", "captions", ["score", "caption"], lines, numeric=False)
        )

    return tables
