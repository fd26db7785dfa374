"""`captau agree kind=captions`: one person's caption scored against the others', as a system's would be.

Chen et al. 2015, section 4.1 and Table I: what metrics give to people, for whoever compares a system with
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ...datasets.errors import InputError
from ...datasets.files import sha256
from ...datasets.schema import CaptionSet, make_items
from ...metrics.base import Floats, Metric
from ...metrics.rows import Rows
from ..evaluation.provenance import provenance
from ..options.agree import AgreeOptions
from ..runs.progress_bar import StepProgress
from ..runs.results import table_files, to_csv, to_json
from ..runs.tables import MISSING, ResultTable, format_number
from ..scoring.caption_files import read_references
from ..scoring.catalog import metric_style
from ..scoring.corpus_scores import make_scorer
from ..scoring.locations import Locations
from ..scoring.score_store import ScoreStore
from ..scoring.scorer import score_all
from ..scoring.unavailable_metrics import UnavailableMetrics, add_unavailable_rows, find_unavailable
from .agree import AGREEMENT_COLUMNS

#: `choice` is the place of the held-out caption, the number of a draw, or `mean` of them all.
HUMAN_COLUMNS = (
    "dataset",
    "metric",
    "choice",
    "value",
    "ci_low",
    "ci_high",
    "n_items",
    "n_references",
    "note",
)

#: Into so many random groups the images are divided, for the interval.
GROUPS = 20
LEVEL = 0.95


@dataclass(frozen=True)
class Described:
    """Images and what people wrote of them.

    Attributes:
        name: of the file or dataset.
        captions: by image id, two or more of each image.
        alone: how many images were left out for want of captions.
        source: the file; None where it is a dataset.
        caption_set: the dataset; None where it is a file.
        images: the image files, where a dataset has them.
    """

    name: str
    captions: dict[str, tuple[str, ...]]
    alone: int
    source: Path | None = None
    caption_set: CaptionSet | None = None
    images: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @property
    def left_out(self) -> str:
        """What must be said of the images left out; empty where there is none."""
        images = "image" if self.alone == 1 else "images"
        return f"{self.alone:,} {images} with fewer captions left out" if self.alone else ""

    def first(self, k: int | None) -> Described:
        """Cut to the first k + 1 captions of each image that has so many; None keeps all.

        Raises:
            InputError: where no image has enough.
        """
        least = 2 if k is None else k + 1
        kept = {
            i: texts if k is None else texts[:least]
            for i, texts in self.captions.items()
            if len(texts) >= least
        }
        if not kept:
            most = max(map(len, self.captions.values()), default=0)
            raise InputError(
                f"{self.source or self.name}: no image has {least} captions, of which one is held out; "
                f"the most is {most}"
            )
        alone = self.alone + len(self.captions) - len(kept)
        return replace(self, captions=kept, alone=alone)


def described(config: AgreeOptions) -> list[Described]:
    """The references of a file, or those of datasets.

    Raises:
        InputError: where they cannot be read, or a dataset's differ within an image.
    """
    if config.references is not None:
        path = config.references
        return [Described(path.stem, read_references(path).texts, 0, source=path)]
    return [_of_dataset(config.locations.load(name)) for name in config.datasets]


def _of_dataset(caption_set: CaptionSet) -> Described:
    captions: dict[str, tuple[str, ...]] = {}
    items = caption_set.items
    for image_id, references in zip(items["image_id"], items["references"], strict=True):
        if captions.setdefault(image_id, references) != references:
            raise InputError(
                f"dataset {caption_set.name}: rows of image '{image_id}' have different references; "
                f"give the image's in a file, references=FILE"
            )
    images = dict(zip(items["image_id"], items["image"], strict=True))
    return Described(caption_set.name, captions, 0, caption_set=caption_set, images=images)


def told(
    config: AgreeOptions, sets: Sequence[Described], metrics: Sequence[Metric], locations: Locations
) -> dict[str, Any]:
    """For run.json: what the numbers rest on."""
    found = provenance(metrics, [s.caption_set for s in sets if s.caption_set], locations)
    files = {str(s.source): sha256(s.source) for s in sets if s.source is not None}
    return {
        "command": "agree",
        "config": dict(config.configuration),
        "kind": config.kind,
        "seed": config.seed,
        **found,
        "references": files,
    }


@dataclass(frozen=True)
class Human:
    """What people reach in metrics.

    Attributes:
        agreement: one row a metric, columns `agree.AGREEMENT_COLUMNS`: mean and standard deviation over
            the choices of the held-out caption.
        choices: one row a metric and choice, and one for their mean, columns `HUMAN_COLUMNS`.
        run: what it takes to recompute them.
        tables: what is printed.
    """

    agreement: pd.DataFrame
    choices: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        return {
            "agreement.csv": to_csv(self.agreement),
            "human.csv": to_csv(self.choices),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }


def run(config: AgreeOptions) -> Human:
    """Score people's captions.

    Raises:
        InputError: on missing or malformed references, or where no image has two captions.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    store = config.locations.store()
    sets = described(config)
    choices: list[dict[str, Any]] = []
    tables: list[ResultTable] = []
    missing: dict[str, UnavailableMetrics] = {}
    with StepProgress(None) as progress:
        for one in sets:
            chosen = one.first(config.k)
            trials = list(held_out(chosen.captions, config.held_out, config.draws, config.seed))
            items = _items(*trials[0][1:], chosen.images)
            absent = find_unavailable(config.metrics, config.optional, items)
            metrics = [m for m in config.metrics if m not in absent]
            found, remarks = measured(
                trials, metrics, store, progress, config.seed, images=chosen.images
            )
            rows = _rows(chosen, config, found)
            choices += rows
            tables.append(
                add_unavailable_rows(
                    _table(chosen, config, rows, metrics), metrics, remarks, absent
                )
            )
            missing[one.name] = absent
    frame = pd.DataFrame(choices, columns=pd.Index(HUMAN_COLUMNS))
    computed = [m for m in config.metrics if any(m not in absent for absent in missing.values())]
    return Human(
        agreement=_agreement(frame),
        choices=frame,
        run={
            **told(config, sets, computed, config.locations),
            "missing": {n: {m.spec: r for m, r in a.items()} for n, a in missing.items()},
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=tables,
    )


#: The name of a choice; by image the held-out caption, and the others.
Trial = tuple[str, dict[str, str], dict[str, tuple[str, ...]]]


def held_out(
    captions: Mapping[str, tuple[str, ...]], how: str, draws: int, seed: int
) -> Iterator[Trial]:
    """Ways to hold out one caption of each image.

    Args:
        captions: two or more of each image.
        how: `last`, as in the paper, whose held-out captions were collected after the others; `each`
            place in turn, as many as every image has; `draw`, an image's by lot.
        draws, seed: how often to draw, and from where.
    """
    if how == "last":
        ways = [("last", dict.fromkeys(captions, -1))]
    elif how == "each":
        least = min(map(len, captions.values()))
        ways = [(str(j + 1), dict.fromkeys(captions, j)) for j in range(least)]
    else:
        rng = np.random.default_rng(seed)
        sizes = np.array([len(texts) for texts in captions.values()])
        ways = [
            (f"draw {d + 1}", dict(zip(captions, rng.integers(sizes).tolist(), strict=True)))
            for d in range(draws)
        ]
    for name, places in ways:
        yield (
            name,
            {i: captions[i][j] for i, j in places.items()},
            {i: _without(captions[i], j) for i, j in places.items()},
        )


def _without(texts: tuple[str, ...], place: int) -> tuple[str, ...]:
    place %= len(texts)
    return texts[:place] + texts[place + 1 :]


def _items(
    candidates: Mapping[str, str],
    others: Mapping[str, tuple[str, ...]],
    images: Mapping[str, str | None],
) -> pd.DataFrame:
    return make_items(
        list(candidates),
        list(candidates.values()),
        [others[i] for i in candidates],
        images=[images.get(i) for i in candidates],
    )


@dataclass(frozen=True)
class _Found:
    """A metric's corpus score for each choice, and in each group of images, shape (n_choices, groups)."""

    names: list[str]
    values: Floats
    grouped: Floats


def measured(
    trials: Iterable[Trial],
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: StepProgress,
    seed: int,
    *,
    images: Mapping[str, str | None] | None = None,
) -> tuple[dict[str, _Found], dict[str, list[str]]]:
    """The metrics' corpus scores, as the COCO server computes them, and what they remarked.

    Args:
        trials: what is scored against what.
        metrics: by what.
        store, progress: where scores are kept and steps are counted.
        seed: of the random groups of images.
        images: the files of those that metrics may look at.
    """
    names: list[str] = []
    values: dict[str, list[float]] = {m.spec: [] for m in metrics}
    grouped: dict[str, list[list[float]]] = {m.spec: [] for m in metrics}
    remarks: dict[str, list[str]] = {}
    for name, candidates, others in trials:
        names.append(name)
        items = _items(candidates, others, images or {})
        scorer = make_scorer(items)
        progress.add_steps(len(metrics), name)
        columns = score_all(scorer, metrics, store, progress)
        groups = _groups(len(items), seed)
        parts = [Rows(items.iloc[g]) for g in groups]  # shared, as the metrics share their counts
        for metric in metrics:
            column = columns[metric.spec]
            values[metric.spec].append(metric.corpus_score(scorer.rows, column))
            grouped[metric.spec].append(
                [metric.corpus_score(p, column[g]) for p, g in zip(parts, groups, strict=True)]
            )
        for spec, texts in scorer.remarks.items():
            remarks[spec] = list(dict.fromkeys([*remarks.get(spec, []), *texts]))
    found = {
        m.spec: _Found(names, np.array(values[m.spec]), np.array(grouped[m.spec])) for m in metrics
    }
    return found, remarks


def _groups(n: int, seed: int) -> list[Any]:
    """Images in random groups of nearly equal size, two images a group at least; none where too few."""
    count = min(GROUPS, n // 2)
    return np.array_split(np.random.default_rng(seed).permutation(n), count) if count > 1 else []


def interval(value: float, groups: Floats) -> tuple[float, float]:
    """By the method of random groups (Wolter 2007, chapter 2): t of the groups' standard error.

    It takes one pass over the images whatever a corpus score does with them, and no resampling of
    BLEU's or METEOR's counts.

    Args:
        value: of all images.
        groups: the same statistic in each group, shape (n_groups,); without any there is no interval.
    """
    if len(groups) < 2:
        return float("nan"), float("nan")
    error = groups.std(ddof=1) / np.sqrt(len(groups))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(groups) - 1) * error)
    return value - half, value + half


def _rows(
    one: Described, config: AgreeOptions, found: Mapping[str, _Found]
) -> list[dict[str, Any]]:
    sizes = [len(texts) - 1 for texts in one.captions.values()]
    counts = {
        "n_items": len(sizes),
        "n_references": str(min(sizes))
        if min(sizes) == max(sizes)
        else f"{min(sizes)}-{max(sizes)}",
    }
    rows: list[dict[str, Any]] = []
    for metric, of_metric in found.items():
        table = [*zip(of_metric.names, of_metric.values, of_metric.grouped, strict=True)]
        if len(table) > 1:
            table.append(("mean", of_metric.values.mean(), of_metric.grouped.mean(axis=0)))
        for choice, value, groups in table:
            low, high = interval(float(value), groups)
            notes = ["" if np.isfinite(value) else "undefined: not every caption has a score"]
            notes.append(one.left_out)
            rows.append(
                {
                    "dataset": one.name,
                    "metric": metric,
                    "choice": choice,
                    "value": float(value),
                    "ci_low": low,
                    "ci_high": high,
                    **counts,
                    "note": "; ".join(n for n in notes if n),
                }
            )
    return rows


def _agreement(choices: pd.DataFrame) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (dataset, metric), part in choices.groupby(["dataset", "metric"], sort=False):
        last = part.iloc[-1]  # the mean, or the only one
        values = part.loc[part["choice"] != "mean", "value"]
        how = "the last caption of each image held out"
        if len(values) > 1:
            how = f"mean over {len(values)} choices of the held-out caption"
        rows.append(
            {
                "dataset": dataset,
                "measure": metric,
                "value": last["value"],
                "std": values.std(ddof=1) if len(values) > 1 else np.nan,
                "n_items": last["n_items"],
                "note": "; ".join(
                    n for n in (f"{how}, against {last['n_references']} others", last["note"]) if n
                ),
            }
        )
    return pd.DataFrame(rows, columns=pd.Index(AGREEMENT_COLUMNS))


_HOW = {
    "each": "Each of an image's captions in turn is held out and scored against the others",
    "last": "The last caption of each image is held out and scored against the others",
    "draw": "One caption of each image, drawn by lot, is held out and scored against the others",
}


def _table(
    one: Described,
    config: AgreeOptions,
    rows: Sequence[Mapping[str, Any]],
    metrics: Sequence[Metric],
) -> ResultTable:
    by_metric = pd.DataFrame(rows, columns=pd.Index(HUMAN_COLUMNS)).groupby("metric", sort=False)
    parts = {str(metric): part for metric, part in by_metric}
    cells: list[tuple[str, list[str]]] = []
    styles = sorted(((metric_style(m), m.spec) for m in metrics), key=lambda pair: pair[0].order)
    for how, spec in styles:
        part, last = parts[spec], parts[spec].iloc[-1]
        values = part.loc[part["choice"] != "mean", "value"]
        ends = [
            format_number(float(last[end]), how.scale, how.decimals)
            for end in ("ci_low", "ci_high")
        ]
        spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        cells.append(
            (
                how.label,
                [
                    format_number(float(last["value"]), how.scale, how.decimals),
                    format_number(spread, how.scale, how.decimals),
                    " to ".join(ends) if MISSING not in ends else MISSING,
                ],
            )
        )
    first = rows[0]
    notes = [
        f"{_HOW[config.held_out]} ({first['n_references']} references); {first['n_items']:,} images. "
        f"Corpus scores, as the COCO server computes them; those of a scale of 100 are ×100.",
        "±: standard deviation over the choices. 95 %: over images, by random groups.",
    ]
    if one.caption_set is not None and one.caption_set.card.synthetic:
        notes.insert(
            0,
            "SYNTHETIC data: it only shows that captau works, and says nothing about real people.",
        )
    if one.left_out:
        notes.append(f"{one.left_out}.")
    notes += [n for n in dict.fromkeys(s.note for s, _ in styles) if n]
    title = f"{one.name}: one person's caption against the others"
    return ResultTable(title, "metric", ["score", "±", "95 %"], cells, notes=notes)
