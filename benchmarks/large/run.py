"""`captau score` of large sets: shards in, shards of scores out, by a pool's workers.

`run` hands out the tasks of the stages, goes on where an earlier run of the same settings stopped, and puts the corpus
scores together. `cli.tasks` calls it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...datasets.reading.caption_checks import describe_large
from ...datasets.reading.shard_files import Shard, check_unchanged, find_shards
from ...datasets.reading.shard_rows import CorruptError
from ...metrics.base import Metric
from ...metrics.rows import Rows
from ..evaluation.caption_ranges import measure_range
from ..evaluation.evidence import load_evidence
from ..options.large import ROWS, LargeOptions
from ..runs.progress_bar import RowProgress
from ..runs.results import (
    RunClock,
    add_run_file,
    describe_environment,
    table_files,
    to_csv,
    to_json,
)
from ..scoring.unavailable_metrics import (
    UnavailableMetrics,
    find_unavailable,
    record_reasons,
    warn_unavailable,
)
from .merging import SHARES, check_duckdb, make_edges
from .plan import Plan, Task, describe_metric, digest_of, name_shard
from .pools import open_pool
from .run_folder import FORMAT, MANIFEST, RECORD, RunFolder
from .score_report import (
    LargeScores,
    histogram_rows,
    make_table,
    percentile_rows,
    report_scores,
)
from .shard_reader import open_shard
from .stage_runner import StageRunner
from .tasks import (
    Result,
    add_finite,
    check_shards_suffice,
    describe_file_error,
    place_captions,
    place_references,
)

#: How many bins a histogram has.
BINS = 100
#: The most captions of which all checks look for faults of the files.
_MOST_CHECKED = 10_000
#: The folders of intermediate files of each set of settings.
_WORK_FOLDERS = ("references", "tokens", "count", "merge", "frequencies", "model", "score")


def run(options: LargeOptions) -> LargeScores:
    """Score a large set; what an earlier run of the same settings did is not repeated.

    Raises:
        InputError: on shards, options or stores that are wrong; what is done is kept.
    """
    try:
        return _score_large_set(options)
    except OSError as error:
        raise InputError(describe_file_error(error, options.output)) from error


@dataclass(frozen=True)
class Scored:
    """The findings of a run beside the files of scores.

    Attributes:
        shards: the shards.
        results: of the stage `score`, a shard each; of a shard that is left out, `skipped` says why.
        metrics: those that were computed.
        missing: the others, with the reasons.
        record: all that the run reports.
    """

    shards: Sequence[Shard]
    results: Sequence[Result]
    metrics: Sequence[Metric]
    missing: UnavailableMetrics
    record: dict[str, Any]

    def score_names(self) -> list[str | None]:
        """Return the name of each shard's scores; None for one that is left out."""
        names: list[str | None] = []
        for number, result in enumerate(self.results):
            names.append(None if "skipped" in result else f"{number:06d}.parquet")
        return names


def _score_large_set(options: LargeOptions) -> LargeScores:
    clock = RunClock()
    evidence = load_evidence([m.spec for m in options.metrics], options.trust)
    shards = find_shards(options.candidates)
    # A folder or a glob that names no shards is no reason to install a database.
    check_duckdb()
    folder = RunFolder(options, shards)
    with ExitStack() as stack:
        folder.claim(stack)
        # The same settings and shards: its report is made anew from the record alone.
        if (record := folder.read_finished_record()) is not None:
            folder.remove_work()
            return report_scores(options, record, evidence, is_new=False)

        pool = stack.enter_context(open_pool(options.engine, options.workers, options.address))
        progress = stack.enter_context(RowProgress())
        runner = StageRunner(pool, progress, options.skip_corrupt)
        scored = _score_shards(options, shards, folder, runner)
        for shard in shards:
            # A shard that was written while it was read may be scored in parts of two versions.
            check_unchanged(shard)

        manifest = _make_manifest(options, folder, scored)
        run_record = {
            **_describe_run(options, manifest),
            "engine": pool.engine,
            "workers": pool.workers,
            "costs": runner.describe_costs(),
            **clock.record(),
        }
        record = scored.record
        files = add_run_file(
            {
                "corpus.json": to_json(record["corpus"]),
                "percentiles.csv": to_csv(percentile_rows(record["distributions"])),
                "histograms.csv": to_csv(histogram_rows(record["distributions"])),
                RECORD: to_json(record),
                **table_files([make_table(options, record, evidence)]),
                MANIFEST: to_json(manifest),
            },
            run_record,
        )
        files[MANIFEST] = files.pop(MANIFEST)  # it comes last: with it the run is finished
        score_files: dict[str, Path] = {}
        for name, result in zip(scored.score_names(), scored.results, strict=True):
            if name is not None:
                score_files[name] = Path(result["file"])

        folder.write_results(score_files, files)

    folder.remove_work()
    return report_scores(options, record, evidence, is_new=True)


def _score_shards(
    options: LargeOptions, shards: Sequence[Shard], folder: RunFolder, runner: StageRunner
) -> Scored:
    """Run the stages."""
    earlier_rows = folder.read_earlier_rows()
    plan = _make_plan(options, folder, runner.pool.workers)
    n_referenced: int | None = None
    if options.references:
        details = {"paths": list(options.references)}
        sources = ", ".join(options.references)
        task = Task("references", sources, details=details)
        n_referenced = runner.run(plan, "references", [task])[0]["images"]

    tasks = [Task(name_shard(shard), shard.path, shard) for shard in shards]
    first_rows, missing, column_notes = _read_first_rows(plan, options, shards)
    warn_unavailable([missing])
    metrics = [metric for metric in options.metrics if metric not in missing]
    plan = _choose_metrics(plan, metrics)
    # Before the scores: a CIDEr of the set needs the document frequencies of all its shards.
    plan = _make_frequency_tables(plan, runner, tasks)
    model_results = runner.run(plan, "model", tasks) if plan.model_metrics else []
    Path(plan.work, plan.score_kind).mkdir(exist_ok=True)
    results = runner.run(plan, "score", tasks)
    for shard, result in zip(shards, results, strict=True):
        if "skipped" not in result:
            folder.check_not_shorter(shard.path, result["rows"], earlier_rows.get(shard.path, 0))

    remarks = _collect_remarks(metrics, [*model_results, *results], first_rows)
    record = _make_record(plan, runner, metrics, results)
    record["remarks"] = remarks
    faults = _describe_files(shards, results, record["rows"], first_rows)
    record["file_notes"] = [*column_notes, *faults]
    record["captions"] = measure_range(first_rows).record()
    record["missing"] = record_reasons(missing)
    # It stands in the record beside the number of images that have references.
    n_captioned = record.pop("n_images")
    record["images"] = None
    if n_referenced is not None:
        record["images"] = {"captioned": n_captioned, "referenced": n_referenced}
    return Scored(shards, results, metrics, missing, record)


# The plan.


def _make_plan(options: LargeOptions, folder: RunFolder, threads: int) -> Plan:
    """Return the plan of what is known before the shards are read, and make its folders."""
    for name in _WORK_FOLDERS:
        (folder.settings_work / name).mkdir(exist_ok=True)
    return Plan(
        work=str(folder.settings_work.resolve()),
        columns=options.columns,
        rows=options.rows or ROWS,
        threads=threads,
        needs_references=_needs_references(options),
        has_reference_lookup=bool(options.references),
        needs_images=any("images" in m.needs for m in options.metrics),
        image_folder=None if options.images is None else str(options.images.resolve()),
    )


def _needs_references(options: LargeOptions) -> bool:
    """Say whether every metric needs references, or one does and a file of references is named."""
    needing = [metric for metric in options.metrics if "references" in metric.needs]
    return bool(needing) and (bool(options.references) or len(needing) == len(options.metrics))


def _read_first_rows(
    plan: Plan, options: LargeOptions, shards: Sequence[Shard]
) -> tuple[pd.DataFrame, UnavailableMetrics, tuple[str, ...]]:
    """Read the first rows that are scored together, which stand for all, and find the metrics that they do not suit.

    The last of what it returns are sentences on columns of other names than the usual.

    Raises:
        InputError: where there are no captions, or no metric suits them.
    """
    skipped: list[str] = []
    for shard in shards:
        try:
            with open_shard(plan, shard) as opened:
                frame = next(opened.frames(), None)
                if frame is not None:
                    unavailable = find_unavailable(options.metrics, frame.head(1))
                    return frame, unavailable, opened.describe_columns()
        except CorruptError as error:
            if not options.skip_corrupt:
                raise

            skipped.append(str(error))

    names = ", ".join(options.candidates)
    if skipped:
        raise InputError(
            f"{names}: {len(skipped):,} of {len(shards):,} shards were corrupt and no captions "
            f"are left; the first: {skipped[0]}"
        )

    raise InputError(f"{names}: it contains no captions")


def _choose_metrics(plan: Plan, metrics: Sequence[Metric]) -> Plan:
    """Return the plan of the metrics that can be computed.

    Raises:
        InputError: where one has to see all captions at once, or CIDEr counts the set's own document frequencies
            under two tokenisers.
    """
    for metric in metrics:
        check_shards_suffice(metric)

    plan = replace(plan, metrics=tuple(map(describe_metric, metrics)))
    specs = [metric.spec for metric in plan.frequency_tables.values() if metric.df is None]
    if len(specs) > 1:
        raise InputError(
            f"metrics={','.join(specs)} count the document frequencies of a large set under different "
            f"tokenisers; score them apart, or give them df=FILE"
        )

    return plan


def _make_frequency_tables(plan: Plan, runner: StageRunner, tasks: Sequence[Task]) -> Plan:
    """Make the tables that CIDEr looks up, of saved files and of the set itself, and return the plan that has them."""
    files: list[str] = []
    documents = 0
    if plan.counting_metric is not None:
        counted = runner.run(plan, "count", tasks)
        for result in counted:
            if "skipped" not in result:
                files.append(result["file"])
                documents += result["rows"]

        plan = replace(plan, set_key=digest_of(sorted(files)))

    merges: list[Task] = []
    for key, metric in plan.frequency_tables.items():
        name = plan.frequency_folder(key).name
        if metric.df is None:
            details = {"key": key, "files": files, "documents": documents}
            merges.append(Task(name, "the document frequencies", details=details))
        else:
            merges.append(Task(name, metric.df, details={"key": key}))

    if merges:
        runner.run(plan, "merge", merges)
    return plan


# The results.


def _make_record(
    plan: Plan,
    runner: StageRunner,
    metrics: Sequence[Metric],
    results: Sequence[Result],
) -> dict[str, Any]:
    """Return what the run reports of the scores, and the number of images."""
    scored = [result for result in results if "skipped" not in result]
    results_with_rows = [result for result in scored if result["rows"]]
    edges: dict[str, list[float]] = {}
    corpus: dict[str, float] = {}
    undefined: dict[str, int] = {}
    for metric in metrics:
        totals = [result["totals"][metric.spec] for result in results_with_rows]
        corpus[metric.spec] = _compute_corpus_score(metric, totals)
        edges[metric.spec] = _choose_edges(metric, totals)
        undefined[metric.spec] = sum(total["undefined"] for total in totals)

    details = {"files": [result["file"] for result in scored], "edges": edges}
    (summary,) = runner.run(plan, "summarise", [Task("summary", "scores", details=details)])

    distributions: dict[str, dict[str, Any]] = {}
    for spec, distribution in summary["distributions"].items():
        percentiles: dict[str, float] = {}
        for share, value in zip(SHARES, distribution["percentiles"], strict=True):
            percentiles[f"{share:g}"] = value

        distributions[spec] = {
            "n": distribution["n"],
            "percentiles": percentiles,
            "edges": edges[spec],
            "counts": distribution["counts"],
        }

    n_rows = 0
    has_systems = False
    for result in scored:
        n_rows += result["rows"]
        has_systems = has_systems or result["names_systems"]

    return {
        "shards": len(results),
        "skipped": [result["skipped"] for result in results if "skipped" in result],
        "corpus": corpus,
        "undefined": undefined,
        "rows": n_rows,
        "n_images": summary["images"],
        "has_systems": has_systems,
        "repeated": summary["repeated"],
        "distributions": distributions,
    }


def _compute_corpus_score(metric: Metric, totals: Sequence[Mapping[str, Any]]) -> float:
    """Return a metric's corpus score; NaN where a caption has none."""
    sums_by_shard = [total["sums"] for total in totals]
    sums = add_finite(np.array(sums_by_shard))
    return math.nan if any(map(math.isnan, sums)) else metric.corpus_score_from_sums(sums)


def _choose_edges(metric: Metric, totals: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the edges of a histogram over the metric's bounds; none without a finite range of scores."""
    lows: list[float] = []
    highs: list[float] = []
    for total in totals:
        # A shard without a finite score has neither.
        if total["low"] is not None:
            lows.append(total["low"])
            highs.append(total["high"])

    if not lows:
        return []

    # A score may lie beyond its metric's bounds; it belongs in the histogram all the same.
    least_bound, greatest_bound = metric.bounds
    low = min(lows) if least_bound is None else min(least_bound, *lows)
    high = max(highs) if greatest_bound is None else max(greatest_bound, *highs)
    return make_edges(low, high, BINS)


def _collect_remarks(
    metrics: Sequence[Metric], results: Sequence[Result], first_rows: pd.DataFrame
) -> dict[str, list[str]]:
    """Return the remarks of metrics on their scores, by spec."""
    remarks: dict[str, list[str]] = {}
    for result in results:
        for spec, texts in result.get("remarks", {}).items():
            remarks[spec] = sorted({*remarks.get(spec, []), *texts})

    for metric in metrics:
        if remark := metric.unsegmented_remark(Rows(first_rows)):
            texts = remarks.setdefault(metric.spec, [])
            texts.append(f"in the first {len(first_rows):,} rows {remark}")

    return remarks


def _describe_files(
    shards: Sequence[Shard], results: Sequence[Result], n_rows: int, first_rows: pd.DataFrame
) -> list[str]:
    """Return the lines on what looks like a fault of the captions."""
    counts: list[Any] = []
    paths: list[str] = []
    for shard, result in zip(shards, results, strict=True):
        counts += result.get("faults", ())
        if result.get("rows"):
            paths.append(shard.path)

    # The first shard may be empty, or corrupt and left out.
    path = paths[0] if paths else shards[0].path
    checked = first_rows.iloc[:_MOST_CHECKED]
    captions = place_captions(checked, path)
    return describe_large(counts, n_rows, captions, place_references(checked, path))


def _make_manifest(options: LargeOptions, folder: RunFolder, scored: Scored) -> dict[str, Any]:
    """Return the content of manifest.json: the settings, and the shards with their scores."""
    shards: list[dict[str, Any]] = []
    rows = zip(scored.shards, scored.results, scored.score_names(), strict=True)
    for shard, result, name in rows:
        entry = asdict(shard)
        for key in ("sha256", "skipped"):
            if key in result:
                entry[key] = result[key]

        entry["rows"] = result["rows"]
        entry["scores"] = None if name is None else {"name": name, **result["scores"]}
        shards.append(entry)

    return {
        "format": FORMAT,
        "key": folder.key,
        "rows": scored.record["rows"],
        **folder.candidates,
        "signatures": {metric.spec: metric.signature for metric in scored.metrics},
        "missing": scored.record["missing"],
        "columns": asdict(options.columns),
        "batch_rows": options.rows or ROWS,
        "shards": shards,
    }


def _describe_run(options: LargeOptions, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run.json says of the run's settings."""
    return {
        "command": "score",
        "measures": "captions with metrics",
        "config": dict(options.configuration),
        "candidates": list(options.candidates),
        "references": list(options.references) or None,
        "signatures": manifest["signatures"],
        "missing": manifest["missing"],
        **describe_environment(),
    }
