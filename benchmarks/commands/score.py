"""`captau score`: a user's own captions, scored as the COCO server scores a submission.

Each system is scored against each set of references by itself.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from ...datasets.caption_texts import normalise_items
from ...datasets.errors import InputError
from ...datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    describe_files,
    join_systems,
    read_references,
    read_systems,
)
from ...datasets.reading.caption_ids import match_image_ids
from ...metrics.base import Metric
from ..evaluation.caption_ranges import CaptionRange, measure_range
from ..evaluation.caption_scores import CaptionScores, keep_captions
from ..evaluation.evidence import Evidence, load_evidence
from ..evaluation.reliability import MetricReliability
from ..options.python_function import make_function
from ..options.score import DocumentFrequencyOptions, NamedFile, ScoreOptions
from ..reporting.run_results import Results
from ..reporting.tables.corpus_score_tables import ScoreChoices, make_score_tables
from ..runs.progress_bar import StepProgress
from ..runs.results import FORMAT, RunClock, describe_environment, to_json
from ..runs.tables import ResultTable
from ..scoring.catalog import record_styles
from ..scoring.corpus_scores import (
    SystemScores,
    compare_systems,
    make_caption_items,
    make_difference_table,
    score_system,
    select_images,
)
from ..scoring.protocol import Protocol, sign
from ..scoring.score_store import ScoreStore
from ..scoring.unavailable_metrics import (
    check_works_without_references,
    find_unavailable,
    record_reasons,
    warn_unavailable,
)
from ..statistics.bootstrap import count_steps
from ..statistics.significance import MetricDifference

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False, kw_only=True)
class ScoreResults(Results):
    """Results of `captau score`.

    Attributes:
        caption_scores: the scores of each system against each set of references.
    """

    caption_scores: CaptionScores

    @classmethod
    def make(
        cls, scores: CaptionScores, run: dict[str, Any], tables: list[ResultTable]
    ) -> ScoreResults:
        """Make the results of these scores, with the files that they become."""
        frames = {
            "corpus.csv": scores.corpus_rows,
            "scores.csv": scores.frame,
            "items.parquet": scores.items,
        }
        if scores.differences is not None:
            frames["differences.csv"] = scores.differences

        # A score is null where the table's notes say why.
        files = {"corpus.json": to_json(scores.corpus)}
        if scores.kept_captions is not None:
            files["kept.json"] = to_json(scores.kept_captions)
        first_score = next(iter(scores.corpus_rows["score"]), None)
        return cls(
            frames=frames,
            run=run,
            tables=tables,
            other_files=files,
            objective=None if first_score is None else float(first_score),
            caption_scores=scores,
        )

    @property
    def corpus(self) -> pd.DataFrame:
        """One row a system, set of references and metric: score, interval, agreement; as corpus.csv."""
        return self.frames["corpus.csv"]

    @property
    def scores(self) -> pd.DataFrame:
        """One row a caption, one column a metric; as scores.csv."""
        return self.frames["scores.csv"]

    @property
    def differences(self) -> pd.DataFrame | None:
        """One row a metric and pair of systems, with tests, as differences.csv; None where there is one system."""
        return self.frames.get("differences.csv")

    @property
    def kept_captions(self) -> list[dict[str, Any]] | None:
        """The captions above the threshold as COCO results, as kept.json; None where no threshold is set."""
        return self.caption_scores.kept_captions

    def stream(self, name: str) -> bytes:
        """Return one file alone, or `scores.jsonl`: scores.csv as JSON lines, null for NaN."""
        if name != "scores.jsonl":
            return self.files()[name]

        lines: list[str] = []
        for row in self.scores.to_dict("records"):
            # JSON has no NaN and no infinity.
            for column, cell in row.items():
                if isinstance(cell, float) and not math.isfinite(cell):
                    row[column] = None
            lines.append(f"{json.dumps(row, ensure_ascii=False)}\n")
        return "".join(lines).encode()


def run(options: ScoreOptions) -> ScoreResults:
    """Score captions.

    Raises:
        InputError: on a missing or malformed file, two captions for an image, a caption of an image
            without references, or an image without a caption.
    """
    clock = RunClock()
    # First, since a wrong `trust` would be told after all the work else.
    evidence = load_evidence([m.spec for m in options.metrics], options.trust)
    systems = _read_all_systems(options)
    references = _read_all_references(options)
    systems, id_notes = match_image_ids(systems, references)
    items = _make_items(systems, references, options)
    # What metrics need is the same for all systems: the first stands for all.
    missing = find_unavailable(options.metrics, next(iter(items.values())))
    warn_unavailable([missing])
    metrics = [m for m in options.metrics if m not in missing]

    store = options.locations.store()
    scored, differences, ranges = _score_and_measure(
        items, metrics, store=store, options=options, has_evidence=evidence is not None
    )

    scores = CaptionScores(
        scored,
        _find_reliability(evidence, ranges, metrics),
        make_difference_table(differences, options.statistics) if differences else None,
        _keep_captions(options, systems, scored),
    )
    file_notes = [*id_notes, *describe_files([*references.values(), *systems.values()])]
    # A stream on standard output has no notes, so that they go to the log.
    if options.stdout != "table":
        _log_remarks(scored, file_notes)

    choices = ScoreChoices(options.statistics, options.normalise, options.trust, options.keep)
    tables = make_score_tables(
        choices,
        metrics,
        missing=missing,
        scores=scores,
        n_images=_count_images(references),
        file_notes=file_notes,
        trusted_run=None if evidence is None else evidence.run,
    )

    record: dict[str, Any] = {
        **_record(options, scores, [*systems.values(), *references.values()]),
        **_record_metrics(options, metrics),
        "notes": list(tables[0].notes),
        "missing": record_reasons(missing),
        **describe_environment(),
        "scores_computed": store.misses,
        "scores_read_back": store.hits,
        **clock.record(),
    }
    if options.printed_notes == "short":
        signature_line = " · ".join(record["signatures"].values())
        # What may be wrong with the numbers is said beside them.
        tables[0] = replace(tables[0], notes=[signature_line, *file_notes])
    return ScoreResults.make(scores, record, tables)


def _read_all_systems(options: ScoreOptions) -> dict[str, CandidateFile]:
    """Return the captions of each system: that of a file, or those of its column `system`.

    Raises:
        InputError: where a file cannot be read, two systems have one name, or one is expected.
    """
    files: list[tuple[str, dict[str, CandidateFile]]] = []
    for file in options.candidates:
        files.append((file.name, read_systems(file.path, file.content, options.columns)))

    systems = join_systems(files)
    if options.keep is not None and len(systems) > 1:
        raise InputError(
            f"keep.metric= keeps captions of one system; there are {', '.join(systems)}"
        )

    return systems


def _read_all_references(options: ScoreOptions) -> dict[str, ReferenceFile]:
    """Return the references of each file, by its name.

    Raises:
        InputError: where one cannot be read, or there is none and every metric needs them.
    """
    references: dict[str, ReferenceFile] = {}
    for file in options.references:
        references[file.name] = read_references(
            file.path,
            file.content,
            options.columns,
            keep_flagged=options.flagged == "keep",
            split=options.split,
        )

    if not references:
        check_works_without_references(options.metrics)

    return references


def _keep_captions(
    options: ScoreOptions, systems: Mapping[str, CandidateFile], scored: Sequence[SystemScores]
) -> list[dict[str, Any]] | None:
    """Return the captions of the only system above the threshold of `keep`; None where none is set."""
    if options.keep is None:
        return None

    (system,) = systems.values()
    return keep_captions(scored[0], system.captions, *options.keep)


def _count_images(references: Mapping[str, ReferenceFile]) -> dict[str, int]:
    """Count the images of each file that have references; one may be in the file without any."""
    n_images: dict[str, int] = {}
    for name, file in references.items():
        n_images[name] = sum(map(bool, file.texts.values()))

    return n_images


def _make_items(
    systems: Mapping[str, CandidateFile],
    references: Mapping[str, ReferenceFile],
    options: ScoreOptions,
) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the captions of each system with each set of references, normalised.

    Raises:
        InputError: on a caption of an image without references, or an image without a caption.
    """
    items: dict[tuple[str, str], pd.DataFrame] = {}
    for name, image_ids in select_images(systems, references, options.partial).items():
        for system, candidates in systems.items():
            # One system alone needs no column with its name.
            label = system if len(systems) > 1 else None
            of_system = make_caption_items(
                candidates,
                references.get(name),
                image_ids=image_ids,
                images=options.images,
                system=label,
            )
            items[name, system] = normalise_items(of_system, options.normalise)

    return items


def _find_reliability(
    evidence: Evidence | None,
    ranges: Mapping[tuple[str, str], CaptionRange],
    metrics: Sequence[Metric],
) -> MetricReliability:
    """Return how far the metrics are to be believed of captions like these; nothing without evidence."""
    if evidence is None:
        return MetricReliability()

    reference_free = {m.spec for m in metrics if "references" not in m.needs}
    reliability = evidence.apply_to(_label_ranges(ranges), reference_free)
    return reliability.select([m.spec for m in metrics])


def _label_ranges(ranges: Mapping[tuple[str, str], CaptionRange]) -> dict[str, CaptionRange]:
    """Return the ranges of each system's captions by those of its names that tell it from the others."""
    reference_names = set[str]()
    system_names = set[str]()
    for name, system in ranges:
        reference_names.add(name)
        system_names.add(system)

    labelled: dict[str, CaptionRange] = {}
    for (name, system), caption_range in ranges.items():
        labels: list[str] = []
        if len(system_names) > 1:
            labels.append(system)
        if len(reference_names) > 1:
            labels.append(name)
        labelled[", ".join(labels)] = caption_range

    return labelled


def save_document_frequencies(options: DocumentFrequencyOptions) -> int:
    """Count the references' document frequencies, write them, and return the number of images.

    Raises:
        InputError: where the references cannot be read or the file cannot be written.
    """
    from ...metrics.text.cider import document_frequencies

    references = read_references(options.references, keep_flagged=options.flagged == "keep")
    for note in references.notes:
        logger.warning("%s", note)
    documents: list[tuple[str, ...]] = []
    for image_id, texts in references.texts.items():
        # An image whose references are all left out is no document.
        if image_id not in references.void_images:
            documents.append(texts)
    frequencies = document_frequencies(documents, options.tokenize)

    try:
        frequencies.write(options.output)
    except OSError as error:
        raise InputError(f"{options.output}: cannot be written ({error.strerror})") from error

    return frequencies.documents


def _log_remarks(scored: Sequence[SystemScores], file_notes: Sequence[str]) -> None:
    """Log what was found in the files, and what metrics remarked, where no table is printed below which it would stand."""
    for note in file_notes:
        logger.warning("%s", note)

    remarks: set[tuple[str, str]] = set()
    for scores in scored:
        for spec, texts in scores.remarks.items():
            remarks.update((spec, text) for text in texts)

    # Several systems may have the same remark.
    for spec, text in sorted(remarks):
        logger.warning("metric %s: %s", spec, text)


def _score_and_measure(
    items: Mapping[tuple[str, str], pd.DataFrame],
    metrics: list[Metric],
    store: ScoreStore,
    options: ScoreOptions,
    *,
    has_evidence: bool,
) -> tuple[
    list[SystemScores],
    dict[str, list[MetricDifference]],
    dict[tuple[str, str], CaptionRange],
]:
    """Score each system as `_score_systems` does, and measure its captions' range if evidence is compared with them."""
    ranges: dict[tuple[str, str], CaptionRange] = {}

    def measure(names: tuple[str, str]) -> None:
        ranges[names] = measure_range(items[names])

    scored, differences = _score_systems(
        items,
        metrics,
        store=store,
        options=options,
        measure=measure if has_evidence else None,
    )
    return scored, differences, ranges


def _score_systems(
    items: Mapping[tuple[str, str], pd.DataFrame],
    metrics: list[Metric],
    store: ScoreStore,
    options: ScoreOptions,
    measure: Callable[[tuple[str, str]], None] | None,
) -> tuple[list[SystemScores], dict[str, list[MetricDifference]]]:
    """Score each system against each set of references.

    Args:
        items: by set of references and system.
        metrics, store, options: how they are scored.
        measure: what else to measure of each system beside its metrics, by its names; None for nothing.

    Returns:
        the scores, and by set the differences of every two systems; empty where there is one
        system, or no images are drawn.
    """
    statistics = options.statistics
    by_references: dict[str, dict[str, pd.DataFrame]] = {}
    for (name, system), frame in items.items():
        by_references.setdefault(name, {})[system] = frame

    n_steps = len(items) * len(metrics)
    if statistics.uses_resampling:
        n_steps += sum(count_steps(statistics.replicates, len(s)) for s in by_references.values())

    scored: list[SystemScores] = []
    differences: dict[str, list[MetricDifference]] = {}
    with StepProgress(n_steps) as progress:
        for name, by_system in by_references.items():
            against_set: list[SystemScores] = []
            for system, frame in by_system.items():
                measure_system = None if measure is None else partial(measure, (name, system))
                scored_system = score_system(
                    system,
                    name,
                    items=frame,
                    metrics=metrics,
                    store=store,
                    progress=progress,
                    measure_beside=measure_system,
                )
                against_set.append(scored_system)

            if statistics.uses_resampling:
                against_set, of_set = compare_systems(against_set, statistics, progress.advance)
                if len(by_system) > 1:
                    differences[name] = of_set

            scored += against_set

    return scored, differences


def _record(
    options: ScoreOptions, scores: CaptionScores, files: list[CandidateFile | ReferenceFile]
) -> dict[str, Any]:
    """Return what `run.json` says of the options, the files and the results."""
    return {
        "command": "score",
        "format": FORMAT,
        "config": dict(options.configuration),
        "candidates": _paths(options.candidates),
        "references": _paths(options.references) if options.references else None,
        "undefined": scores.undefined,
        "trust": {spec: r.record() for spec, r in scores.reliability.by_spec.items()},
        "outside_evidence": dict(scores.reliability.outside),
        "data": {file.source.name: file.source.sha256 for file in files},
    }


def _record_metrics(options: ScoreOptions, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return what `run.json` says of the metrics: their signatures, and how tables show them."""
    protocol = Protocol(normalise=options.normalise)
    signatures = {metric.spec: sign(metric, [protocol]) for metric in metrics}
    return {"signatures": signatures, "metrics": record_styles(metrics)}


def _paths(files: tuple[NamedFile, ...]) -> str | Mapping[str, str]:
    """Return one path, or several by name."""
    if len(files) == 1:
        return str(files[0].path)
    return {file.name: str(file.path) for file in files}


score = make_function(
    "score",
    ScoreOptions,
    run,
    summary="Score your own captions",
    returns="`ScoreResults`, whose `corpus`, `scores` and `differences` are DataFrames.",
    returned="ScoreResults",
    raises="on an unknown name, a missing or malformed file, two captions for an image, a caption of an image without "
    "references, an image without a caption, or captions of none of the forms above.",
)
