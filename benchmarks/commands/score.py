"""`captau score`: a user's own captions, scored as the COCO server scores a submission.

Each system is scored against each set of references by itself.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.normalisation import normalise_items
from ...metrics.base import Metric
from ...metrics.text.document_frequencies import document_frequencies
from ..evaluation.caption_ranges import measure_range
from ..evaluation.caption_scores import CaptionScores, keep_captions
from ..evaluation.metric_reliability import MetricReliability, load_evidence
from ..options.score import DocumentFrequencyOptions, NamedFile, ScoreOptions
from ..reporting.corpus_score_tables import make_score_tables
from ..runs.progress_bar import StepProgress
from ..runs.results import FORMAT, describe_environment, table_files, to_csv, to_json
from ..runs.run_output import RunClock
from ..runs.tables import ResultTable
from ..scoring.caption_files import CandidateFile, ReferenceFile, read_candidates, read_references
from ..scoring.corpus_scores import SystemScores, make_caption_items, score_system, select_images
from ..scoring.protocol import sign
from ..scoring.score_store import ScoreStore
from ..scoring.system_comparison import compare_systems, make_difference_table
from ..scoring.unavailable_metrics import describe_reasons, find_unavailable, warn_unavailable
from ..statistics.bootstrap import count_blocks
from ..statistics.significance import MetricDifference

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoreOutput:
    """The results of `captau score`.

    Attributes:
        scores: the captions' scores.
        run: what it takes to recompute them.
        tables: the tables that are printed.
    """

    scores: CaptionScores
    run: dict[str, Any]
    tables: list[ResultTable]

    def files(self) -> dict[str, bytes]:
        """Return the files by name; `run.json` comes last, so its presence says that all are there."""
        files: dict[str, bytes] = {}
        if self.scores.kept_captions is not None:
            files["kept.json"] = to_json(self.scores.kept_captions)
        if self.scores.differences is not None:
            files["differences.csv"] = to_csv(self.scores.differences)
        return {
            **files,
            "corpus.json": to_json(self.scores.corpus),  # null where the table's notes say why
            "corpus.csv": to_csv(self.scores.corpus_rows),
            "scores.csv": to_csv(self.scores.frame),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }

    def stream(self, name: str) -> bytes:
        """Return one file alone, or `scores.jsonl`: scores.csv as JSON lines, null for NaN."""
        if name != "scores.jsonl":
            return self.files()[name]
        lines: list[str] = []
        for row in self.scores.frame.to_dict("records"):
            finite = {
                name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
                for name, cell in row.items()
            }
            lines.append(f"{json.dumps(finite, ensure_ascii=False)}\n")
        return "".join(lines).encode()


def run(config: ScoreOptions) -> ScoreOutput:
    """Score captions.

    Raises:
        InputError: on a missing or malformed file, two captions for an image, a caption of an image
            without references, or an image without a caption.
    """
    clock = RunClock()
    evidence = None
    if config.trust is not None:
        evidence = load_evidence([m.spec for m in config.metrics], config.trust)
    systems = {file.name: read_candidates(file.path) for file in config.candidates}
    references = {file.name: read_references(file.path) for file in config.references}
    if not references and all("references" in m.needs for m in config.metrics):
        raise InputError(f"metric {config.metrics[0].spec} needs references; give references=FILE")
    items = {
        (name, system): normalise_items(
            make_caption_items(
                candidates,
                references.get(name),
                image_ids,
                config.images,
                system if len(systems) > 1 else None,
            ),
            config.normalise,
        )
        for name, image_ids in select_images(systems, references, config.partial).items()
        for system, candidates in systems.items()
    }
    missing = find_unavailable(config.metrics, next(iter(items.values())))
    warn_unavailable([missing])
    metrics = [m for m in config.metrics if m not in missing]
    store = config.locations.store()
    scored, differences = _score_systems(items, metrics, store, config)
    reliability = MetricReliability()
    if evidence is not None:
        reference_free = {m.spec for m in metrics if "references" not in m.needs}
        ranges = {
            _name_captions(name, system, len(references), len(systems)): measure_range(frame)
            for (name, system), frame in items.items()
        }
        reliability = evidence.apply_to(ranges, reference_free).select(scored[0].corpus)
    scores = CaptionScores(
        scored,
        reliability,
        make_difference_table(differences, config.statistics) if differences else None,
        None if config.keep is None else keep_captions(scored[0], *config.keep),
    )
    if config.stdout != "table":
        _log_remarks(scored)
    n_images = {name: sum(map(bool, file.texts.values())) for name, file in references.items()}
    return ScoreOutput(
        scores,
        {
            **_record(config, scores, [*systems.values(), *references.values()]),
            "signatures": {m.spec: sign(m, [config.normalise]) for m in metrics},
            "missing": describe_reasons(missing),
            **describe_environment(),
            "scores_computed": store.misses,
            "scores_read_back": store.hits,
            **clock.record(),
        },
        make_score_tables(config, metrics, missing, scores, n_images),
    )


def save_document_frequencies(options: DocumentFrequencyOptions) -> int:
    """Count the references' document frequencies, write them, and return the number of images.

    Raises:
        InputError: where the references cannot be read or the file cannot be written.
    """
    frequencies = document_frequencies(read_references(options.references).texts.values())
    temporary = options.output.with_name(f".{options.output.name}.{os.getpid()}.tmp")
    try:
        frequencies.write(temporary)
        temporary.replace(options.output)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{options.output}: cannot be written ({error.strerror})") from error
    return frequencies.documents


def _log_remarks(scored: Sequence[SystemScores]) -> None:
    """Log what metrics remarked, where no table is printed below which it would stand."""
    remarks = {
        (spec, text) for one in scored for spec, texts in one.remarks.items() for text in texts
    }
    for spec, text in sorted(remarks):
        logger.warning("metric %s: %s", spec, text)


def _score_systems(
    items: Mapping[tuple[str, str], pd.DataFrame],
    metrics: list[Metric],
    store: ScoreStore,
    config: ScoreOptions,
) -> tuple[list[SystemScores], dict[str, list[MetricDifference]]]:
    """Score each system against each set of references.

    Args:
        items: by set of references and system.
        metrics, store, config: how they are scored.

    Returns:
        the scores, and by set the differences of every two systems; empty where there is one
        system, or no images are drawn.
    """
    statistics = config.statistics
    by_references: dict[str, dict[str, pd.DataFrame]] = {}
    for (name, system), frame in items.items():
        by_references.setdefault(name, {})[system] = frame
    n_blocks = count_blocks(statistics.replicates) if statistics.uses_resampling else 0
    scored: list[SystemScores] = []
    differences: dict[str, list[MetricDifference]] = {}
    with StepProgress(len(items) * len(metrics) + n_blocks * len(by_references)) as progress:
        for name, by_system in by_references.items():
            against_set = [
                score_system(system, name, frame, metrics, store, progress)
                for system, frame in by_system.items()
            ]
            if statistics.uses_resampling:
                against_set, of_set = compare_systems(against_set, statistics, progress.advance)
                differences |= {name: of_set} if len(by_system) > 1 else {}
            scored += against_set
    return scored, differences


def _record(
    config: ScoreOptions, scores: CaptionScores, files: list[CandidateFile | ReferenceFile]
) -> dict[str, Any]:
    """Return what `run.json` says of the options, the files and the results."""
    return {
        "command": "score",
        "format": FORMAT,
        "config": dict(config.configuration),
        "candidates": _paths(config.candidates),
        "references": _paths(config.references) if config.references else None,
        "undefined": scores.undefined,
        "trust": {spec: r.record() for spec, r in scores.reliability.by_spec.items()},
        "outside_evidence": dict(scores.reliability.outside),
        "data": {file.source.name: file.source.sha256 for file in files},
    }


def _name_captions(references: str, system: str, n_references: int, n_systems: int) -> str:
    """Return what tells captions from the others; empty where there is one system and one set of references."""
    return ", ".join([system] * (n_systems > 1) + [references] * (n_references > 1))


def _paths(files: tuple[NamedFile, ...]) -> str | Mapping[str, str]:
    """Return one path, or several by name."""
    if len(files) == 1:
        return str(files[0].path)
    return {file.name: str(file.path) for file in files}
