"""`captau score`: a user's own captions, scored as the COCO server scores a submission."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..datasets.errors import InputError
from ..datasets.files import field, read_json, read_json_lines, read_text, sha256, texts
from ..datasets.schema import make_items
from ..metrics.base import Floats, Metric
from .config import ScoreConfig, style
from .missing import lacking, listed
from .progress import Progress
from .protocol import Protocol
from .results import environment, to_csv, to_json
from .scoring import Scorer, score_all
from .tables import Table, number

#: All references at once, and all captions as the corpus; nothing here meets ratings.
_PLAIN = Protocol(
    name="score",
    dimension=(),
    ratings="mean",
    references="all",
    k=None,
    corpus="dataset",
    systems=None,
    split=None,
    coefficients=("tau_c",),
    undefined="nan",
)


@dataclass(frozen=True)
class Scored:
    """Scores of a user's captions.

    Attributes:
        corpus: metric → its score of the whole set.
        scores: one row a caption: `item_id, image_id` and a column a metric.
        run: what it takes to recompute them.
        tables: what is printed.
        kept: the captions above the threshold, as a COCO results list; None where nobody asked.
    """

    corpus: dict[str, float]
    scores: pd.DataFrame
    run: dict[str, Any]
    tables: list[Table]
    kept: list[dict[str, Any]] | None = None

    def files(self) -> dict[str, bytes]:
        return {
            **({} if self.kept is None else {"kept.json": to_json(self.kept)}),
            "corpus.json": to_json(self.corpus),  # null where the table's notes say why
            "scores.csv": to_csv(self.scores),
            "run.json": to_json(self.run),
        }


def run(config: ScoreConfig) -> Scored:
    """Score captions.

    Raises:
        InputError: on a missing or malformed file, two captions for an image, or a candidate whose
            image has no references.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    candidates = read_candidates(config.candidates)
    references: dict[str, tuple[str, ...]] = {}
    if config.references is not None:
        references = read_references(config.references)
        for image_id, where in candidates.places.items():
            if not references.get(image_id):
                raise InputError(
                    f"{where}: image '{image_id}' has no references in {config.references}"
                )
    elif needing := _needing(config):
        raise InputError(f"metric {needing[0]} needs references; give references=FILE")
    image_ids = list(candidates.captions)
    items = make_items(
        image_ids,
        list(candidates.captions.values()),
        [references.get(i, ()) for i in image_ids],
        images=_images(config, candidates),
    )
    items = items.assign(weight=np.ones(len(items), dtype=np.int64))
    store = config.where.store()
    scorer = Scorer("captions", items, _PLAIN)
    missing = lacking(config.metrics, config.optional, items)
    metrics = [m for m in config.metrics if m not in missing]
    with Progress(len(metrics)) as progress:
        columns = score_all(scorer, metrics, store, progress)
    corpus = {m.spec: m.corpus(scorer.whole, columns[m.spec]) for m in metrics}
    undefined = {
        spec: f"undefined: {int((~np.isfinite(columns[spec])).sum())} of {len(items)} captions have "
        f"no finite score"
        for spec, value in corpus.items()
        if not np.isfinite(value)
    }
    files = [path for path in (config.candidates, config.references) if path is not None]
    table = listed(_table(metrics, corpus, len(items), undefined), metrics, scorer.remarks, missing)
    kept = None
    if config.keep is not None:
        kept = _kept(items, columns, config.keep)
        said = (
            f"Kept {len(kept):,} of {len(items):,}: {config.keep[0]} of {config.keep[1]!r} or more."
        )
        table = replace(table, notes=[*table.notes, said])
    return Scored(
        kept=kept,
        corpus=corpus,
        scores=items[["item_id", "image_id"]].assign(**columns),
        run={
            "command": "score",
            "config": dict(config.resolved),
            "candidates": str(config.candidates),
            "references": str(config.references) if config.references else None,
            "undefined": undefined,
            "signatures": {m.spec: m.signature for m in metrics},
            "missing": {m.spec: reason for m, reason in missing.items()},
            "data": {str(path): sha256(path) for path in files},
            **environment(),
            "scores_computed": store.misses,
            "scores_read_back": store.hits,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=[table],
    )


def _kept(
    items: pd.DataFrame, columns: Mapping[str, Floats], keep: tuple[str, float]
) -> list[dict[str, Any]]:
    """The captions with enough of a score, as COCO has results: an image's number is a number.

    Raises:
        InputError: where a caption has no score, or the metric could not be computed.
    """
    metric, above = keep
    if metric not in columns:
        raise InputError(f"keep.metric={metric}: it cannot be computed here")
    scores = columns[metric]
    if np.isnan(scores).any():
        row = items.iloc[int(np.argmax(np.isnan(scores)))]
        raise InputError(f"keep.metric={metric}: image '{row['image_id']}' has no score")
    chosen = items[scores >= above]
    return [
        {"image_id": int(i) if str(i).isdecimal() else i, "caption": c}
        for i, c in zip(chosen["image_id"], chosen["caption"], strict=True)
    ]


def _needing(config: ScoreConfig) -> list[str]:
    """The metrics that need references and were named, or all where nothing else was asked for."""
    needing = [m.spec for m in config.metrics if "references" in m.needs]
    named = [spec for spec in needing if spec not in config.optional]
    return named or (needing if len(needing) == len(config.metrics) else [])


@dataclass(frozen=True)
class Candidates:
    """One caption an image, and where each was read, for messages."""

    captions: dict[str, str]
    places: dict[str, str]


def read_candidates(path: Path) -> Candidates:
    """COCO results, an object image id → caption, or JSON lines with `image_id` and `caption`.

    Raises:
        InputError: where it is none of them, or two captions are of one image.
    """
    captions: dict[str, str] = {}
    places: dict[str, str] = {}
    for where, image_id, caption in _candidate_rows(path):
        if image_id in captions:
            raise InputError(f"{where}: a second caption for image '{image_id}'; keep one an image")
        captions[image_id] = caption
        places[image_id] = where
    if not captions:
        raise InputError(f"{path}: no captions in it")
    return Candidates(captions, places)


def _candidate_rows(path: Path) -> Iterable[tuple[str, str, str]]:
    if _is_json_lines(path):
        for number_, row in read_json_lines(path):
            where = f"{path}:{number_}"
            yield where, image_key(row, "image_id", where), field(row, "caption", str, where)
        return
    table = read_json(path)
    if isinstance(table, dict) and {"image_id", "caption"} <= table.keys():
        table = [table]  # JSON lines of one line
    if isinstance(table, list):
        for index, row in enumerate(table):
            where = f"{path}: entry {index}"
            yield where, image_key(row, "image_id", where), field(row, "caption", str, where)
    elif isinstance(table, dict):
        for key in table:
            where = f"{path}: image '{key}'"
            yield where, str(key), field(table, key, str, where)
    else:
        raise InputError(
            f"{path}: COCO results, an object image id → caption, or JSON lines are expected"
        )


def read_references(path: Path) -> dict[str, tuple[str, ...]]:
    """COCO caption annotations, an object image id → captions, or JSON lines with `references`.

    Raises:
        InputError: where it is none of them.
    """
    found: dict[str, tuple[str, ...]] = {}
    if _is_json_lines(path):
        for number_, row in read_json_lines(path):
            where = f"{path}:{number_}"
            image_id = image_key(row, "image_id", where)
            if image_id in found:
                raise InputError(f"{where}: image '{image_id}' has a line already; keep one")
            found[image_id] = texts(row, "references", where)
        return found
    table = read_json(path)
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: COCO annotations, an object image id → captions, or JSON lines are expected"
        )
    if {"image_id", "references"} <= table.keys():  # JSON lines of one line
        return {image_key(table, "image_id", str(path)): texts(table, "references", str(path))}
    if isinstance(table.get("annotations"), list):
        for index, row in enumerate(table["annotations"]):
            where = f"{path}: annotation {index}"
            image_id = image_key(row, "image_id", where)
            found[image_id] = (*found.get(image_id, ()), field(row, "caption", str, where))
        return found
    return {str(key): texts(table, key, f"{path}: image '{key}'") for key in table}


def image_key(row: Any, key: str, where: str) -> str:
    """An image id as text; COCO's numbers and file names are both legal."""
    return str(field(row, key, (str, int), where))


def _is_json_lines(path: Path) -> bool:
    """Whether each line is an object of its own; an ending of .jsonl says so, else the text does."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    lines = [line.strip() for line in read_text(path).split("\n") if line.strip()][:2]
    return len(lines) == 2 and all(s.startswith("{") and s.endswith("}") for s in lines)


def _images(config: ScoreConfig, candidates: Candidates) -> list[str | None] | None:
    """The image file of each candidate: named by its id, with or without an ending."""
    if config.images is None:
        return None
    if not config.images.is_dir():
        raise InputError(f"images={config.images} is no folder")
    files = {p.name: str(p) for p in sorted(config.images.iterdir()) if p.is_file()}
    by_stem = {Path(name).stem: path for name, path in files.items()}
    found: list[str | None] = []
    for image_id, where in candidates.places.items():
        path = files.get(image_id) or by_stem.get(image_id)
        if path is None:
            raise InputError(f"{where}: no file for image '{image_id}' in {config.images}")
        found.append(path)
    return found


def _table(
    metrics: Iterable[Metric],
    corpus: Mapping[str, float],
    captions: int,
    undefined: Mapping[str, str],
) -> Table:
    styles = sorted(((style(m), m.spec) for m in metrics), key=lambda pair: pair[0].order)
    rows = [(s.label, [number(corpus[spec], s.scale, s.decimals)]) for s, spec in styles]
    own = [s.label for s, _ in styles if s.scale != 100]
    scale = "Scores ×100" + (f", but for {', '.join(own)}: as computed" if own else "")
    if len(own) == len(rows):
        scale = "Scores as computed"
    notes = [f"{captions:,} captions. {scale}."]
    if any(spec.startswith("cider") and "df=" not in spec for _, spec in styles) and captions < 50:
        notes.append(
            "CIDEr's IDF is taken over these captions' references alone: with few images it says "
            "little; use cider(df=FILE), see captau data df --help."
        )
    notes += [n for n in dict.fromkeys(s.note for s, _ in styles) if n]
    notes += [f"{s.label}: {undefined[spec]}." for s, spec in styles if spec in undefined]
    return Table("Corpus scores", "metric", ["score"], rows, notes=notes)
