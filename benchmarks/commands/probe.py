"""`captau probe`: which faults in captions a metric notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ...datasets.reading.caption_files import describe_files, read_candidates, read_references
from ...datasets.reading.caption_ids import match_image_ids
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..evaluation.prepared_datasets import provenance
from ..evaluation.probes.faults import CONTROLS
from ..evaluation.probes.noticed import (
    PROBE_COLUMNS,
    example_table,
    find_noticed,
    measure_probes,
    probe_tables,
)
from ..evaluation.probes.pairs import items_of_references, make_probe_pairs, take_foils
from ..options.analyses import ProbeOptions
from ..options.python_function import make_function
from ..reporting.charts.score_charts import probe_figure
from ..reporting.run_results import Results
from ..runs.frames import make_frame, mean_of
from ..runs.progress_bar import StepProgress
from ..runs.results import RunClock, missing_note, tables_as_csv
from ..scoring.catalog import metric_labels, record_styles
from ..scoring.corpus_scores import make_caption_items, select_images
from ..scoring.protocol import Protocol
from ..scoring.scorer import Scorer, score_all
from ..scoring.unavailable_metrics import (
    UnavailableMetrics,
    add_unavailable_rows,
    find_unavailable,
    record_reasons,
    warn_unavailable,
)

#: All references, and a score that is undefined leaves its pair out.
PROBE_PROTOCOL = Protocol(
    name="probe", dimension=(), ratings="mean", coefficients=("tau_c",), undefined="drop"
)


def run(options: ProbeOptions) -> Results:
    """Make captions with faults, score them beside the original ones, and count which the metrics notice.

    Raises:
        InputError: on missing or malformed data, or captions of which no fault can be made.
    """
    clock = RunClock()
    items, caption_sets, source, file_notes = _load_captions(options)
    foil_sets = [caption_set for caption_set in caption_sets if caption_set.card.has_foils]
    published: list[str] = []
    for foil_set in foil_sets:
        published += foil_set.preferences["dimension"].unique().tolist()
    kinds, faults = options.choose_faults(published)

    probes = make_probe_pairs(items, faults, options.pairs, options.seed)
    for foil_set in foil_sets:
        probes = take_foils(foil_set, kinds, options.pairs, options.seed).join(probes)
    scorer = Scorer("probe", probes.items, PROBE_PROTOCOL)
    missing = find_unavailable(options.metrics, probes.items)
    warn_unavailable([missing])
    metrics = [metric for metric in options.metrics if metric not in missing]

    with StepProgress(len(metrics)) as progress:
        columns = score_all(scorer, metrics, options.locations.store(), progress)

    item_ids = probes.items["item_id"]
    scores = {m.spec: pd.Series(columns[m.spec], index=item_ids) for m in metrics}
    noticed = find_noticed(probes.pairs, scores, metrics)
    measured = measure_probes(probes.pairs, noticed, probes.notes, options.statistics)
    rows = make_frame(measured, PROBE_COLUMNS)

    tables = probe_tables(rows, metrics, source, options.statistics.level, kinds)
    tables[-1] = add_unavailable_rows(tables[-1], metrics, scorer.remarks, missing)
    tables[0] = replace(tables[0], notes=[*file_notes, *tables[0].notes])
    tables.append(example_table(probes.pairs, noticed, metrics))

    frames = {
        "probes.csv": _with_missing_rows(rows, missing, list(probes.notes)),
        "probe_pairs.parquet": _add_scores(probes.pairs, scores),
    }

    figures = probe_figure(rows, metric_labels(metrics), source)
    other_files = {**tables_as_csv(tables), **figures}
    return Results(
        frames,
        _record(options, caption_sets, metrics, missing, source) | clock.record(),
        tables=tables,
        other_files=other_files,
        objective=_find_objective(rows, options.metrics[0].spec),
    )


def _record(
    options: ProbeOptions,
    caption_sets: Sequence[CaptionSet],
    metrics: Sequence[Metric],
    missing: UnavailableMetrics,
    source: str,
) -> dict[str, Any]:
    """Return what `run.json` says of the run, but for its time."""
    return {
        "command": "probe",
        "config": dict(options.configuration),
        "seed": options.seed,
        "source": source,
        **provenance(metrics, caption_sets, options.locations, [PROBE_PROTOCOL]),
        "metrics": record_styles(metrics),
        "missing": record_reasons(missing),
        "measures": "which faults in captions metrics notice",
    }


def _with_missing_rows(
    rows: pd.DataFrame, missing: UnavailableMetrics, faults: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of `probes.csv`: below the measured ones, one for each fault and metric that could not be computed."""
    unavailable: list[dict[str, Any]] = []
    for metric, reason in missing.items():
        note = missing_note(reason)
        for fault in faults:
            row = {"metric": metric.spec, "fault": fault, "n_pairs": 0, "note": note}
            unavailable.append(row)
    joined = pd.concat([rows, pd.DataFrame(unavailable)], ignore_index=True)
    return joined[list(PROBE_COLUMNS)]


def _find_objective(rows: pd.DataFrame, metric: str) -> float | None:
    """Return the mean share of faults that a metric notices; controls, which are no faults, do not enter."""
    is_fault = ~rows["fault"].isin(list(CONTROLS))
    return mean_of(rows.loc[is_fault & (rows["metric"] == metric), "value"])


def _add_scores(pairs: pd.DataFrame, scores: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return the pairs with both scores by each metric."""
    columns: dict[str, Any] = {}
    for spec, of_metric in scores.items():
        columns[f"score_{spec}"] = of_metric.loc[pairs["item_id"]].to_numpy()
        columns[f"faulty_score_{spec}"] = of_metric.loc[pairs["pair_id"]].to_numpy()
    return pairs.assign(**columns)


def _load_captions(
    options: ProbeOptions,
) -> tuple[pd.DataFrame, list[CaptionSet], str, list[str]]:
    """Return the original captions with their references, the dataset that they are of, its name, and lines on files.

    Raises:
        InputError: where a file or a dataset cannot be read.
    """
    if options.references is None:
        caption_set = options.locations.load(str(options.dataset))
        items = caption_set.items
        if caption_set.card.has_foils:
            # The others have a fault already.
            items = items[items["item_id"].isin(caption_set.preferences["item_a"])]
        if options.captions == "references":
            references_by_image = zip(items["image_id"], items["references"], strict=True)
            items = items_of_references(dict(references_by_image))
        return items, [caption_set], caption_set.card.title, list(caption_set.card.remarks)
    references = read_references(
        options.references.path, options.references.content, options.columns
    )
    if options.candidates is None:
        notes = describe_files([references])
        return items_of_references(references.texts), [], options.references.name, notes
    candidates = read_candidates(
        options.candidates.path, options.candidates.content, options.columns
    )
    systems, id_notes = match_image_ids({"": candidates}, {"": references})
    candidates = systems[""]
    images = select_images(systems, {"": references}, partial=True)[""]
    items = make_caption_items(candidates, references, images, None)
    notes = [*id_notes, *describe_files([references, candidates])]
    return items, [], options.candidates.name, notes


probe = make_function(
    "probe",
    ProbeOptions,
    run,
    summary="Measure which faults in captions metrics notice",
    returns="`Results`, whose `frames` have `probes.csv` and `probe_pairs.parquet`.",
    raises="on an unknown name, missing or malformed data, or captions without references.",
)
