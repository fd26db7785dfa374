"""`captau score keep.run=`: the captions of a large scored set that score well enough, and a report of the others.

Levinboim et al. 2021, section 6.2: a caption is served where its score is at least a threshold, and
the threshold is chosen on captions that people judged, for the share of good ones among those that are
served (`captau thresholds`). Shards are written anew in their own format, each row as it was. `cli.tasks`
calls `run`; `score_scan` looks at the scores.
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

from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.table import Columns
from ...datasets.shards.shard_files import Shard, stat_shard
from ..options.large import FilterOptions
from ..runs.frames import make_frame
from ..runs.output_folder import OutputFolder
from ..runs.progress_bar import RowProgress
from ..runs.results import RunClock, add_run_file, describe_environment, table_files, to_csv
from ..runs.tables import MISSING, AnyCell, ResultTable, Row, count_cell, number_cell
from ..scoring.catalog import resolve_metrics
from ..statistics.preferences import wilson_interval
from .engines import Engine, open_engine
from .plan import RunPlan
from .run_folder import MANIFEST, SCORES, WORK, ResultFolder, lock_folder
from .score_report import SHARES
from .score_scan import ScoreReader, ScoreScan, scan_scores
from .stage_runner import choose_piece_rows
from .stages import Result, describe_file_error


@dataclass(frozen=True)
class Threshold:
    """The least score that is kept, with what judged captions promise of the captions above it.

    Attributes:
        value: the least score.
        precision: the share of good captions among the judged ones above it; NaN where none were judged.
        low, high: its 95 % interval (Wilson 1927), the judged captions being a sample.
        n_above, n_judged: how many judged captions are above it, and how many there are.
        judgements: their dataset and dimension.
    """

    value: float
    precision: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n_above: int = 0
    n_judged: int = 0
    judgements: str = ""

    @property
    def precision_words(self) -> str:
        """The precision, in words; empty where there is none."""
        if math.isnan(self.precision):
            return ""
        return (
            f"expected precision {self.precision:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}; "
            f"of {self.n_judged:,} judged captions of {self.judgements}, {self.n_above:,} are above the "
            f"threshold)"
        )

    def as_record(self) -> dict[str, Any]:
        """Return the threshold as run.json has it."""
        return {
            "threshold": self.value,
            "precision": self.precision,
            "low": self.low,
            "high": self.high,
            "kept": self.n_above,
            "judged": self.n_judged,
            "on": self.judgements,
        }


def choose_threshold(
    options: FilterOptions, signature: str, lowest_score: float | None
) -> Threshold:
    """Choose the threshold: a score, or the lowest that reaches a precision.

    Args:
        options: the options.
        signature: the metric's, as the set was scored.
        lowest_score: the lowest score that is kept; None for the precision of the options.

    Raises:
        InputError: where the curve of `captau thresholds` cannot be read or does not suit the metric, or no
            threshold reaches the precision.
    """
    if options.thresholds is None:
        assert lowest_score is not None
        return Threshold(lowest_score)
    metric = resolve_metrics(options.metric)[0]
    if metric.depends_on_corpus and metric.parameters.get("df") is None:
        raise InputError(
            f"metric {options.metric} weighs words by the set that it scores, so a threshold found on another "
            f"set says nothing here; take a metric that scores each caption by itself, or cider(df=FILE)"
        )
    path = options.thresholds / "thresholds.csv"
    curve = _read_curve(options, path, signature)
    if options.precision is not None:
        sufficient = curve[curve["precision"] >= options.precision]
        if sufficient.empty:
            raise InputError(
                f"{path}: no threshold of {options.metric} reaches precision {options.precision:g}; the most is "
                f"{curve['precision'].max():.3f}"
            )
        point = sufficient.sort_values("n_kept").iloc[-1]  # the most captions
        value = float(point["threshold"])
    else:
        assert lowest_score is not None
        value = lowest_score
        points_above = curve[curve["threshold"] >= value]
        if points_above.empty:
            return Threshold(value)
        point = points_above.sort_values("n_kept").iloc[-1]
    precision, n_above = float(point["precision"]), int(point["n_kept"])
    low, high = wilson_interval(precision, n_above)
    judgements = f"{point['dataset']}, {point['dimension']}"
    return Threshold(value, precision, low, high, n_above, int(point["n_items"]), judgements)


def _read_curve(options: FilterOptions, path: Path, signature: str) -> pd.DataFrame:
    """Read the one curve of a run of `captau thresholds` that the options name.

    Raises:
        InputError: where there is none, there are several, or its metric had another signature.
    """
    try:
        points = pd.read_csv(path)
        record = json.loads((path.parent / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"keep.thresholds={options.thresholds}: no finished run of captau thresholds ({path} cannot be read)"
        ) from error
    requested = {
        "dataset": options.dataset,
        "dimension": options.dimension,
        "metric": options.metric,
    }
    for column, name in requested.items():
        if name is not None:
            if name not in set(points[column]):
                raise unknown(f"{column} of {path}", name, map(str, points[column].unique()))
            points = points[points[column] == name]
    curves = points[["dataset", "dimension"]].drop_duplicates()
    if len(curves) > 1:
        choices = ", ".join(
            f"keep.dataset={d} keep.dimension={m}" for d, m in curves.itertuples(index=False)
        )
        raise InputError(f"{path}: several curves of {options.metric}; choose one: {choices}")
    curve_signature = (record.get("signatures") or {}).get(options.metric)
    if curve_signature is not None and curve_signature != signature:
        raise InputError(
            f"metric {options.metric} was another one when {path} was made ({curve_signature}) than when the "
            f"captions were scored ({signature}); run captau thresholds anew"
        )
    return points


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
    try:
        return _filter(options)
    except OSError as error:
        raise InputError(describe_file_error(error, str(options.output_dir))) from error


def _filter(options: FilterOptions) -> FilteredCaptions:
    clock = RunClock()
    source = ResultFolder(options.run)
    manifest = _read_manifest(source)
    if options.metric not in manifest["signatures"]:
        raise unknown("metric of this run", options.metric, manifest["signatures"])
    signature = manifest["signatures"][options.metric]
    stored = ScoreReader.of_run(source, manifest, options.metric)
    n_best, lowest_score = None, options.above
    if options.share is not None:
        n_best, lowest_score = stored.find_best(options.share)
    threshold = choose_threshold(options, signature, lowest_score)
    if source.local and options.output_dir and _is_same(source.local, options.output_dir):
        raise InputError(
            f"output_dir={options.output_dir} is the scored run itself; name another folder"
        )
    _check_shards(manifest)
    scan = scan_scores(stored, threshold.value)
    with ExitStack() as stack:
        folder = stack.enter_context(OutputFolder(options.output_dir, "filter"))
        kept_folder, work = folder.path / KEPT_FOLDER, folder.path / WORK
        stack.enter_context(lock_folder(work, str(folder.path)))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        for stage_folder in ("filter", KEPT_FOLDER):
            (work / stage_folder).mkdir(parents=True, exist_ok=True)
        plan = _make_plan(source, manifest, work)
        engine = stack.enter_context(open_engine(options.engine, options.workers, options.address))
        progress = stack.enter_context(RowProgress())
        tasks = _make_tasks(manifest, threshold.value, stored, scan, work / KEPT_FOLDER)
        results = _filter_shards(plan, tasks, engine, progress)
        examples = _example_rows(scan, results)
        tables = _make_tables(options.metric, threshold, scan, examples, n_best)
        _replace_kept_shards(kept_folder, work / KEPT_FOLDER)
        files = {
            "shards.csv": to_csv(_shard_rows(plan, results)),
            "percentiles.csv": to_csv(scan.percentile_rows()),
            "examples.csv": to_csv(examples),
            **table_files(tables),
        }
        record = {
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
            **describe_environment(),
            **clock.record(),
        }
        folder.write(add_run_file(files, record))
    return FilteredCaptions(tables, _summarise(scan, threshold, kept_folder), folder.path)


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
        return json.loads(content)
    except ValueError as error:
        raise InputError(
            f"{source.location}/{MANIFEST}: not valid JSON; score the set anew"
        ) from error


def _shards(manifest: Mapping[str, Any]) -> tuple[Shard, ...]:
    return tuple(
        Shard(**{key: shard[key] for key in ("path", "kind", "size", "stamp")})
        for shard in manifest["shards"]
    )


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
    for path in folder.glob("[0-9]" * 6 + "-*"):
        path.unlink()
    for path in new_folder.iterdir():
        path.rename(folder / path.name)


def _make_plan(source: ResultFolder, manifest: Mapping[str, Any], work: Path) -> RunPlan:
    local = source.local
    plan = RunPlan(
        work=str(work.resolve()),
        scores=str(local.resolve() / SCORES) if local else f"{source.location}/{SCORES}",
        shards=_shards(manifest),
        columns=Columns(**manifest["columns"]),
        # Texts of so many rows were not too long for memory.
        part_rows=choose_piece_rows(max(part["rows"] for part in manifest["parts"])),
        directory=str(Path(_directory(manifest)).resolve()),
    )
    plan.save()
    return plan


def _make_tasks(
    manifest: Mapping[str, Any],
    threshold: float,
    stored: ScoreReader,
    scan: ScoreScan,
    folder: Path,
) -> list[dict[str, Any]]:
    example_rows = scan.example_rows()
    return [
        {
            "id": f"{number:06d}",
            "source": shard["path"],
            "metric": stored.metric,
            "threshold": threshold,
            "parts": stored.parts[number],
            "is_skipped": "skipped" in shard,
            "sha256": shard.get("sha256"),
            "folder": str(folder.resolve()),
            "example_rows": example_rows.get(number, []),
        }
        for number, shard in enumerate(manifest["shards"])
    ]


def _filter_shards(
    plan: RunPlan, tasks: list[dict[str, Any]], engine: Engine, progress: RowProgress
) -> list[Result]:
    """Write the kept shards, and return the tasks' results in the order of the shards.

    Raises:
        InputError: where a shard is not what was scored.
    """
    results: dict[str, Result] = {}
    with progress.stage("filter", len(tasks)) as advance:
        for task, result in engine.run("filter", plan.file, tasks):
            if "error" in result:
                raise InputError(result["error"])
            results[task["id"]] = result
            advance(1)
    return [results[task["id"]] for task in tasks]


def _shard_rows(plan: RunPlan, results: list[Result]) -> pd.DataFrame:
    """Return the rows of shards.csv."""
    return pd.DataFrame(
        [
            {
                "shard": shard.path,
                "rows": result["rows"],
                "kept": result["kept_rows"],
                "dropped": result["rows"] - result["kept_rows"],
                "undefined": result["undefined"],
                "file": result["file"],
                "sha256": result["sha256"],
            }
            for shard, result in zip(plan.shards, results, strict=True)
        ]
    )


def _example_rows(scan: ScoreScan, results: list[Result]) -> pd.DataFrame:
    """Return the rows of examples.csv: captions with their scores."""
    texts = {
        (number, int(row)): (str(image_id), str(caption))
        for number, result in enumerate(results)
        for row, image_id, caption in result["texts"]
    }
    rows = [
        (name, score, *texts[shard, row])
        for name, examples in scan.examples.items()
        for score, shard, row in examples
    ]
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
        cells += [number_cell(percentiles[share], 1, 4) for share in _TABLE_SHARES]
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
        lines = [
            Row(str(row["captions"]), [number_cell(float(row["score"]), 1, 4), str(row["caption"])])
            for row in examples.to_dict("records")
        ]
        tables.append(
            ResultTable("Examples", "captions", ["score", "caption"], lines, numeric=False)
        )
    return tables
