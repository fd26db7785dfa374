"""`captau score` of large sets: shards in, shards of scores out, by an engine's workers.

`run` hands out the tasks of the stages, goes on where an earlier run of the same settings stopped, and puts
the corpus scores together. Sums are exact, so that the scores depend on neither the engine, nor the number
of workers, nor the order of the tasks. `cli.tasks` calls it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from ...datasets.errors import InputError
from ...datasets.shards.shard_files import Shard, check_unchanged, find_shards, is_url
from ...datasets.shards.shard_rows import CorruptError, column_types
from ...metrics.base import Metric
from ...metrics.rows import Rows
from ...metrics.text import frequency_table
from ...metrics.text.cider import Cider
from ..evaluation.caption_ranges import measure_range
from ..evaluation.caption_scores import load_evidence
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
from .engines import open_engine
from .part_rows import read_first_row, read_part
from .plan import RunPlan, describe_metric
from .run_folder import FORMAT, MANIFEST, RECORD, RunFolder
from .score_report import (
    LargeScores,
    MetricTotal,
    compute_distributions,
    histogram_rows,
    make_table,
    percentile_rows,
    report_scores,
)
from .stage_runner import Parts, StageRunner, choose_piece_rows, read_parts
from .stages import STAGES, check_parts_suffice, describe_file_error


def run(options: LargeOptions) -> LargeScores:
    """Score a large set; what an earlier run of the same settings did is not repeated.

    Raises:
        InputError: on shards, options or stores that are wrong; what is done is kept.
    """
    try:
        return _score_large_set(options)
    except OSError as error:
        raise InputError(describe_file_error(error, options.output)) from error


def _score_large_set(options: LargeOptions) -> LargeScores:
    clock = RunClock()
    evidence = load_evidence([m.spec for m in options.metrics], options.trust)
    shards = find_shards(options.candidates)
    _check_schemas(options, shards)
    folder = RunFolder(options, shards)
    with ExitStack() as stack:
        folder.claim(stack)
        if (record := folder.read_finished_record()) is not None:
            folder.remove_work()
            return report_scores(options, record, evidence, is_new=False)
        earlier_rows = folder.read_earlier_rows()
        engine = stack.enter_context(open_engine(options.engine, options.workers, options.address))
        progress = stack.enter_context(RowProgress())
        plan = _make_plan(options, shards, folder)
        runner = StageRunner(plan, engine, progress, options.skip_corrupt)
        plan, parts = read_parts(options, runner)
        runner = replace(runner, plan=plan)
        for shard, source in zip(shards, parts.sources, strict=True):
            if "skipped" not in source:
                folder.check_not_shorter(
                    shard.path, source["rows"], earlier_rows.get(shard.path, 0)
                )
        first_row = read_first_row(plan, next(iter(parts.rows)))
        missing = find_unavailable(options.metrics, first_row)
        warn_unavailable([missing])
        metrics = [metric for metric in options.metrics if metric not in missing]
        runner = replace(runner, plan=_choose_metrics(plan, metrics))
        if runner.plan.model_specs:
            runner.finish("model", parts.tasks, parts.n_rows)
        _make_frequency_tables(runner, parts)
        folder.invalidate_results()
        scores = _score_parts(runner, metrics, parts)
        record = _make_record(runner, metrics, missing, parts, scores)
        for shard in shards:
            check_unchanged(shard)
        manifest = _make_manifest(options, folder, plan, metrics, parts, scores, record)
        tables = [make_table(options, record, evidence)]
        run_record = {
            **_describe_run(options, manifest),
            "engine": engine.name,
            "workers": engine.workers,
            "costs": runner.describe_costs(),
            **clock.record(),
        }
        files = add_run_file(
            {
                "corpus.json": to_json(record["corpus"]),
                "percentiles.csv": to_csv(percentile_rows(record["distributions"])),
                "histograms.csv": to_csv(histogram_rows(record["distributions"])),
                RECORD: to_json(record),
                **table_files(tables),
                MANIFEST: to_json(manifest),
            },
            run_record,
        )
        files[MANIFEST] = files.pop(MANIFEST)  # it comes last: with it the run is finished
        folder.write_results([_score_file(plan, part) for part in parts.rows], files)
    folder.remove_work()
    return report_scores(options, record, evidence, is_new=True)


# The plan.


def _check_schemas(options: LargeOptions, shards: Iterable[Shard]) -> None:
    """Check that the Parquet shards have one schema, before anything is computed.

    Raises:
        InputError: where a column differs.
    """
    first: tuple[str, dict[str, str]] | None = None
    for shard in shards:
        if shard.kind != "parquet" or is_url(shard.path):
            continue
        try:
            types = column_types(Path(shard.path), shard, options.columns)
        except CorruptError:
            if options.skip_corrupt:
                continue
            raise
        if first is None:
            first = shard.path, types
        for name in sorted({*first[1], *types}):
            ours, theirs = types.get(name, "not there"), first[1].get(name, "not there")
            if ours != theirs:
                raise InputError(
                    f"{shard.path}: column '{name}' is {ours}, and in {first[0]} it is {theirs}; write "
                    f"the shards with one schema, or score them apart"
                )


def _make_plan(options: LargeOptions, shards: Sequence[Shard], folder: RunFolder) -> RunPlan:
    """Write the plan of what is known before the shards are read."""
    plan = RunPlan(
        work=str(folder.work.resolve()),
        scores=str(folder.prepare(STAGES).resolve()),
        shards=tuple(shards),
        columns=options.columns,
        part_rows=choose_piece_rows(options.rows or ROWS),
        needs_references=_needs_references(options),
        has_reference_lookup=bool(options.references),
        metrics=tuple(map(describe_metric, options.metrics)),
        needs_images=any("images" in m.needs for m in options.metrics),
        image_folder=None if options.images is None else str(options.images.resolve()),
    )
    plan.save()
    folder.mark_begun()
    return plan


def _needs_references(options: LargeOptions) -> bool:
    """Say whether every metric needs references, or one does and a file of references is named."""
    needing = [metric for metric in options.metrics if "references" in metric.needs]
    return bool(needing) and (bool(options.references) or len(needing) == len(options.metrics))


def _choose_metrics(plan: RunPlan, metrics: Sequence[Metric]) -> RunPlan:
    """Write the plan of the metrics that can be computed.

    Raises:
        InputError: where one has to see all captions at once, or CIDEr counts the set's own document frequencies
            under two tokenisers.
    """
    for metric in metrics:
        check_parts_suffice(metric)
    specs = {m.frequencies_key: m.spec for m in metrics if isinstance(m, Cider) and m.df is None}
    if len(specs) > 1:
        raise InputError(
            f"metrics={','.join(specs.values())} count the document frequencies of a large set under different "
            f"tokenisers; score them apart, or give them df=FILE"
        )
    plan = replace(
        plan,
        metrics=tuple(map(describe_metric, metrics)),
        model_specs=tuple(metric.spec for metric in metrics if _runs_model(metric)),
        frequencies={m.frequencies_key: m.df for m in metrics if isinstance(m, Cider)},
    )
    plan.save()
    return plan


def _runs_model(metric: Metric) -> bool:
    """Say whether a metric's scores come out of a model, which takes long to load."""
    return type(metric).__module__.split(".")[-2] in ("neural", "learned")


# The stages.


def _make_frequency_tables(runner: StageRunner, parts: Parts) -> None:
    """Make the tables that CIDEr looks up: of saved files, and of the set itself."""
    plan = runner.plan
    saved = [
        {"id": str(i), "name": name, "path": path}
        for i, (name, path) in enumerate(plan.frequencies.items())
        if path is not None
    ]
    if saved:
        runner.finish("table", saved)
    if plan.own_frequencies is None:
        return
    counts = list(runner.run("count", parts.tasks, parts.n_rows))
    if plan.has_own_frequencies:
        return
    ranges, _ = runner.merge("counts", sum(result["shuffled"] for _, result in counts))
    frequency_table.join_ranges(plan.frequency_table(plan.own_frequencies), ranges, parts.n_rows)
    for folder in (plan.path("counts", ""), *plan.path("merge", "").glob("counts-*/")):
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class PartScores:
    """The results of the stage `score`.

    Attributes:
        digests: the SHA-256 of each part's file, by part.
        totals: by spec.
        remarks: of metrics on their scores, by spec.
        repeated: how many rows repeat the image and the caption of another row.
    """

    digests: dict[str, str]
    totals: dict[str, MetricTotal]
    remarks: dict[str, list[str]]
    repeated: int


def _score_parts(runner: StageRunner, metrics: Sequence[Metric], parts: Parts) -> PartScores:
    totals = {metric.spec: MetricTotal() for metric in metrics}
    remarks: dict[str, list[str]] = {}
    digests: dict[str, str] = {}
    id_bytes = 0
    for task, result in runner.run("score", parts.tasks, parts.n_rows):
        digests[task["id"]] = result["sha256"]
        id_bytes += result["id_bytes"]
        for spec, total in totals.items():
            total.add(result["metrics"][spec])
        for spec, texts in result["remarks"].items():
            remarks[spec] = sorted({*remarks.get(spec, []), *texts})
    _, repeated = runner.merge("ids", id_bytes)
    return PartScores(dict(sorted(digests.items())), totals, remarks, repeated)


# The results.


def _score_file(plan: RunPlan, part: str) -> Path:
    return Path(plan.scores) / f"{part}.parquet"


def _count_images(plan: RunPlan, parts: Parts) -> int:
    """Return how many images the captions are of, by 64-bit hashes of the image ids, 8 bytes an image in memory."""
    hashes = np.empty(0, np.uint64)
    for part in parts.rows:
        image_ids = pq.read_table(_score_file(plan, part), columns=["image_id"])["image_id"]
        of_part = pd.util.hash_array(image_ids.to_numpy(zero_copy_only=False).astype(object))
        hashes = np.union1d(hashes, of_part)
    return len(hashes)


def _make_record(
    runner: StageRunner,
    metrics: Sequence[Metric],
    missing: UnavailableMetrics,
    parts: Parts,
    scores: PartScores,
) -> dict[str, Any]:
    """Return all that the run reports of the scores, but for its costs, as `distributions.json` has it."""
    images = None
    if parts.n_referenced_images is not None:
        n_captioned = _count_images(runner.plan, parts)
        images = {"captioned": n_captioned, "referenced": parts.n_referenced_images}
    totals = scores.totals
    corpus = {metric.spec: totals[metric.spec].corpus_score(metric) for metric in metrics}
    # The first part stands for all: reading the others again would take as long as scoring them.
    first_rows = read_part(runner.plan, next(iter(parts.rows)))
    remarks = {spec: list(texts) for spec, texts in scores.remarks.items()}
    for metric in metrics:
        if remark := metric.unsegmented_remark(Rows(first_rows)):
            texts = remarks.setdefault(metric.spec, [])
            texts.append(f"in the first {len(first_rows):,} rows {remark}")
    return {
        "shards": len(parts.sources),
        "skipped": parts.skipped,
        "corpus": corpus,
        "undefined": {spec: total.undefined for spec, total in totals.items()},
        "remarks": remarks,
        "captions": measure_range(first_rows).record(),
        "missing": record_reasons(missing),
        "rows": parts.n_rows,
        "images": images,
        "has_systems": parts.has_systems,
        "repeated": scores.repeated,
        "distributions": compute_distributions(runner, metrics, totals, parts.n_rows),
    }


def _make_manifest(
    options: LargeOptions,
    folder: RunFolder,
    plan: RunPlan,
    metrics: Sequence[Metric],
    parts: Parts,
    scores: PartScores,
    record: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of manifest.json: the settings, and which shards became which parts."""
    names_by_shard = parts.names_by_shard()
    return {
        "format": FORMAT,
        "key": folder.key,
        "rows": record["rows"],
        **folder.candidates,
        "signatures": {metric.spec: metric.signature for metric in metrics},
        "missing": record["missing"],
        "columns": asdict(options.columns),
        "shards": [
            {
                **asdict(shard),
                **{key: source[key] for key in ("sha256", "skipped") if key in source},
                "rows": source["rows"],
                "parts": [f"{name}.parquet" for name in names],
            }
            for shard, source, names in zip(plan.shards, parts.sources, names_by_shard, strict=True)
        ],
        "parts": [
            {
                "name": f"{part}.parquet",
                "rows": parts.rows[part],
                "bytes": _score_file(plan, part).stat().st_size,
                "sha256": digest,
            }
            for part, digest in scores.digests.items()
        ],
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
