"""`captau score`: a user's own captions, scored as the COCO server scores a submission.

Each system is scored against each set of references by itself. `captions` reads the files, `trials`
scores, `systems` draws images, `trust` knows how metrics agree with people, `own_tables` says what came out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Floats
from ..evaluation.metric_reliability import Agreement, agreements
from ..options import Named, ScoreOptions
from ..reporting.corpus_score_tables import tables_of
from ..runs.progress_bar import StepProgress
from ..runs.results import FORMAT, describe_environment, table_files, to_csv, to_json
from ..runs.tables import ResultTable
from ..scoring.caption_files import read_candidates, read_references
from ..scoring.corpus_scores import SystemScores, make_caption_items, score_system, select_images
from ..scoring.system_comparison import compare_systems, make_difference_table
from ..scoring.unavailable_metrics import find_unavailable
from ..statistics.bootstrap import Interval, count_blocks
from ..statistics.significance import MetricDifference


@dataclass(frozen=True)
class Scored:
    """Scores of a user's captions.

    Attributes:
        trials: each system against each set of references.
        trust: how metrics agree with people, by spec.
        differences: of every two systems, columns `systems.COLUMNS`; None where there is one, or no
            image is drawn.
        run: what it takes to recompute them.
        tables: what is printed.
        kept: the captions above the threshold, as a COCO results list; None where nobody asked.
    """

    trials: list[SystemScores]
    trust: dict[str, Agreement]
    differences: pd.DataFrame | None
    run: dict[str, Any]
    tables: list[ResultTable]
    kept: list[dict[str, Any]] | None = None

    @property
    def _systems(self) -> bool:
        return len({t.system for t in self.trials}) > 1

    @property
    def _sets(self) -> bool:
        return len({t.references for t in self.trials}) > 1

    @property
    def corpus(self) -> dict[str, Any]:
        """Metric → its score of all; below system and set of references, where there are several."""
        found: dict[str, Any] = {}
        for one in self.trials:
            at = found.setdefault(one.system, {}) if self._systems else found
            at = at.setdefault(one.references, {}) if self._sets else at
            at.update(one.corpus)
        return found

    @property
    def corpus_rows(self) -> pd.DataFrame:
        """One row a system, set of references and metric: score, interval, agreement with people."""
        rows: list[dict[str, Any]] = []
        for one in self.trials:
            for spec, score in one.corpus.items():
                ends, known = one.intervals.get(spec, Interval()), self.trust.get(spec)
                rows.append(
                    {
                        "system": one.system,
                        "references": one.references,
                        "metric": spec,
                        "score": score,
                        "ci_low": ends.low,
                        "ci_high": ends.high,
                        "n_images": len(one.items),
                        "agreement": known.value if known else math.nan,
                        "agreement_coefficient": known.coefficient if known else "",
                        "agreement_on": known.on if known else "",
                        "agreement_source": known.source if known else "",
                        "note": one.undefined(spec) or ends.note,
                    }
                )
        return pd.DataFrame(rows)

    @property
    def scores(self) -> pd.DataFrame:
        """One row a caption: `item_id, image_id`, `system` where there are several, a column a metric.

        Of several sets of references each has its columns, `cider@c5`, empty for images that it lacks.
        """
        keys = ["item_id", "image_id", *(["system"] if self._systems else [])]
        by_set: dict[str, list[pd.DataFrame]] = {}
        for one in self.trials:
            frame = one.items[keys].assign(**one.scores)
            by_set.setdefault(one.references, []).append(frame)
        wholes = {name: pd.concat(frames, ignore_index=True) for name, frames in by_set.items()}
        if len(wholes) == 1:
            return next(iter(wholes.values()))
        every = pd.concat([whole[keys] for whole in wholes.values()])
        found = every.drop_duplicates(ignore_index=True)
        for name, whole in wholes.items():
            columns = {c: f"{c}@{name}" for c in whole.columns if c not in keys}
            found = found.merge(whole.rename(columns=columns), on=keys, how="left")
        return found

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        files = {} if self.kept is None else {"kept.json": to_json(self.kept)}
        if self.differences is not None:
            files["differences.csv"] = to_csv(self.differences)
        return {
            **files,
            "corpus.json": to_json(self.corpus),  # null where the table's notes say why
            "corpus.csv": to_csv(self.corpus_rows),
            "scores.csv": to_csv(self.scores),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }

    def printed(self, name: str) -> bytes:
        """One of the files alone, or `scores.jsonl`: scores.csv as JSON lines, null for NaN."""
        if name != "scores.jsonl":
            return self.files()[name]
        lines = (
            json.dumps(
                {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row},
                ensure_ascii=False,
            )
            for row in (record.items() for record in self.scores.to_dict("records"))
        )
        return "".join(f"{line}\n" for line in lines).encode()


def run(config: ScoreOptions) -> Scored:
    """Score captions.

    Raises:
        InputError: on a missing or malformed file, two captions for an image, a caption of an image
            without references, or an image without a caption.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    trust = (
        {} if config.trust is None else agreements([m.spec for m in config.metrics], config.trust)
    )
    systems = {one.name: read_candidates(one.path) for one in config.candidates}
    sets = {one.name: read_references(one.path) for one in config.references}
    if not sets and (needing := _needing(config)):
        raise InputError(f"metric {needing[0]} needs references; give references=FILE")
    items = {
        (name, system): make_caption_items(
            candidates,
            sets.get(name),
            image_ids,
            config.images,
            system if len(systems) > 1 else None,
        )
        for name, image_ids in select_images(systems, sets, config.partial).items()
        for system, candidates in systems.items()
    }
    missing = find_unavailable(config.metrics, config.optional, next(iter(items.values())))
    metrics = [m for m in config.metrics if m not in missing]
    store, options = config.locations.store(), config.statistics
    draws = count_blocks(options.replicates) * max(len(sets), 1) if options.uses_resampling else 0
    trials: list[SystemScores] = []
    differences: dict[str, list[MetricDifference]] = {}
    with StepProgress(len(items) * len(metrics) + draws) as progress:
        for name in dict.fromkeys(name for name, _ in items):
            here = [
                score_system(system, name, items[name, system], metrics, store, progress)
                for system in systems
            ]
            if options.uses_resampling:
                here, differences[name] = compare_systems(here, options, progress.advance)
            trials += here
    kept = None if config.keep is None else _kept(trials[0], config.keep)
    found = Scored(
        trials,
        {spec: one for spec, one in trust.items() if spec in trials[0].corpus},
        make_difference_table(differences, options)
        if len(systems) > 1 and options.uses_resampling
        else None,
        {},
        [],
        kept,
    )
    files = [*systems.values(), *sets.values()]
    images = {name: sum(map(bool, one.texts.values())) for name, one in sets.items()}
    return replace(
        found,
        tables=tables_of(config, metrics, missing, found, images),
        run={
            "command": "score",
            "format": FORMAT,
            "config": dict(config.configuration),
            "candidates": _paths(config.candidates),
            "references": _paths(config.references) if config.references else None,
            "undefined": _undefined(trials),
            "trust": {spec: vars(one) for spec, one in found.trust.items()},
            "signatures": {m.spec: m.signature for m in metrics},
            "missing": {m.spec: reason for m, reason in missing.items()},
            "data": {one.source.name: one.source.sha256 for one in files},
            **describe_environment(),
            "scores_computed": store.misses,
            "scores_read_back": store.hits,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
    )


def _kept(one: SystemScores, keep: tuple[str, float]) -> list[dict[str, Any]]:
    """The captions with enough of a score, as COCO has results: an image's number is a number.

    Raises:
        InputError: where a caption has no score, or the metric could not be computed.
    """
    metric, above = keep
    if metric not in one.scores:
        raise InputError(f"keep.metric={metric}: it cannot be computed here")
    scores: Floats = one.scores[metric]
    if np.isnan(scores).any():
        row = one.items.iloc[int(np.argmax(np.isnan(scores)))]
        raise InputError(f"keep.metric={metric}: image '{row['image_id']}' has no score")
    chosen = one.items[scores >= above]
    return [
        {"image_id": int(i) if str(i).isdecimal() else i, "caption": c}
        for i, c in zip(chosen["image_id"], chosen["caption"], strict=True)
    ]


def _undefined(trials: list[SystemScores]) -> dict[str, Any]:
    """Why metrics have no corpus score, by metric; by trial where there are several."""
    found = {
        f"{one.system} {one.references}".strip(): {
            spec: why for spec in one.corpus if (why := one.undefined(spec))
        }
        for one in trials
    }
    return next(iter(found.values())) if len(trials) == 1 else found


def _needing(config: ScoreOptions) -> list[str]:
    """The metrics that need references and were named, or all where nothing else was asked for."""
    needing = [m.spec for m in config.metrics if "references" in m.needs]
    named = [spec for spec in needing if spec not in config.optional]
    return named or (needing if len(needing) == len(config.metrics) else [])


def _paths(files: tuple[Named, ...]) -> str | Mapping[str, str]:
    """One path, or several by name."""
    if len(files) == 1:
        return str(files[0].path)
    return {one.name: str(one.path) for one in files}
