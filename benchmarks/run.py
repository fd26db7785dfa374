"""`captau bench`: score datasets with metrics and correlate with what people said."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..datasets import registry
from ..datasets.errors import InputError
from ..datasets.files import locate, sha256
from ..datasets.folder import used
from ..datasets.schema import CaptionSet
from ..metrics.base import Floats, Metric
from .agreement import CEILINGS, RatingTable
from .agreement import ceilings as ceilings_of
from .config import (
    BenchConfig,
    Where,
    changes_of,
    metrics_of,
    names_of,
    optional_of,
    style,
    usual_protocol,
)
from .correlation import Agreement, correlate, pairwise_accuracy
from .missing import Missing, advice, listed, missing_rows, present
from .output import OutputFolder
from .progress import Progress
from .protocol import Protocol
from .results import SCORE_COLUMNS, Results, correlation_rows, environment
from .scoring import Scorer, score_all
from .store import ScoreStore
from .tables import COEFFICIENT_STYLE, Table, number

#: What `dimension` says for the average over the categories of preferences.
MEAN = "mean"


def bench(
    dataset: str | Sequence[str] = "demo",
    metrics: str | Metric | Sequence[str | Metric] = "text",
    *,
    protocol: str | Mapping[str, Any] | None = None,
    ceilings: bool = True,
    data_root: str | Path | None = None,
    cache_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Score datasets with metrics and correlate with people's ratings; `captau bench` from Python.

    Args:
        dataset: one dataset's name, or several.
        metrics: suites, metric specs (`"cider(variant=plain)"`) or `Metric` objects.
        protocol: what differs from each dataset's usual protocol, such as
            `{"dimension": "recall", "coefficients": ["tau_c"]}`; see `Protocol`. Or the name of one
            in `conf/protocol/`, such as `"umic_2021"`.
        ceilings: whether to add how well people agree with each other, where the dataset tells.
        data_root: where the data lies; by default `CAPTAU_DATA`, else the user's cache folder.
        cache_root: where scores are kept; by default `CAPTAU_CACHE`, else the user's cache folder.
        output_dir: where to write the run's files; None writes none.
        file: options of the dataset `file`, which reads judgements of your own, such as
            `{"path": "mine.csv", "value": "score"}`.

    Returns:
        `Results`, whose `correlations` and `scores` are DataFrames.

    Raises:
        InputError: on an unknown name, missing or malformed data, or an unwritable folder.
    """
    chosen = names_of(dataset)
    changes = changes_of(protocol)
    wanted = metrics_of(metrics)
    if file is not None and not isinstance(file, Mapping):
        raise InputError(f"file is {file!r}; a dict of options is expected")
    config = BenchConfig(
        datasets={name: Protocol.resolve(name, usual_protocol(name), changes) for name in chosen},
        metrics=wanted,
        where=Where(
            data_root=Path(data_root) if data_root else None,
            cache_root=Path(cache_root) if cache_root else None,
            output_dir=Path(output_dir) if output_dir else None,
            own=dict(file or {}),
        ),
        resolved={
            "dataset": chosen,
            "metrics": [m.spec for m in wanted],
            "protocol": changes,
            "ceilings": ceilings,
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
        ceilings=ceilings,
        optional=optional_of(metrics),
    )
    if output_dir is None:
        return run(config)
    with OutputFolder(output_dir, "bench") as folder:
        results = run(config)
        folder.write(results.files())
    return results


def run(config: BenchConfig) -> Results:
    """Run a benchmark.

    Raises:
        InputError: see `bench`.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    store = config.where.store()
    measured: list[Measured] = []
    missing: list[Missing] = []
    with Progress(len(config.datasets) * len(config.metrics)) as progress:
        for name, protocol in config.datasets.items():
            caption_set = config.where.load(name)
            metrics, lacking = present(config.metrics, config.optional, protocol, caption_set)
            missing.append(lacking)
            measured.append(
                measure(caption_set, protocol, metrics, store, progress, config.ceilings)
            )
    reached = [m for m in config.metrics if any(m not in lacking for lacking in missing)]
    return Results(
        correlations=pd.concat(
            [
                pd.concat([m.correlations, missing_rows(m.correlations, lacking)])
                for m, lacking in zip(measured, missing, strict=True)
            ],
            ignore_index=True,
        ),
        scores=pd.concat([m.scores for m in measured], ignore_index=True),
        run={
            "command": "bench",
            "config": dict(config.resolved),
            "protocols": {n: vars(p) for n, p in config.datasets.items()},
            **provenance(reached, [m.caption_set for m in measured], config.where),
            "missing": {
                m.caption_set.name: {one.spec: reason for one, reason in lacking.items()}
                for m, lacking in zip(measured, missing, strict=True)
            },
            "scores_computed": store.misses,
            "scores_read_back": store.hits,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=[
            _listed(m, [x for x in config.metrics if x not in lacking], lacking)
            for m, lacking in zip(measured, missing, strict=True)
        ],
        summary=advice(missing),
    )


def _listed(measured: Measured, metrics: Sequence[Metric], lacking: Missing) -> Table:
    return listed(table_of(measured, metrics), metrics, measured.remarks, lacking)


class Measured:
    """One dataset under one protocol: its scores and correlations.

    Args:
        caption_set, protocol, items, metrics: what was measured.
        scores: by metric, in the order of `items`.
        ceilings: whether to add rows of `agreement.CEILINGS`.
    """

    def __init__(
        self,
        caption_set: CaptionSet,
        protocol: Protocol,
        items: pd.DataFrame,
        metrics: Sequence[Metric],
        scores: Mapping[str, Floats],
        ceilings: bool = False,
    ) -> None:
        self.caption_set = caption_set
        self.protocol = protocol
        self.items = items
        self.by_metric = {k: pd.Series(v, index=items["item_id"]) for k, v in scores.items()}
        # Of a metric where less is better, the negative agrees with people.
        self._sign = {m.spec: 1.0 if m.higher_is_better else -1.0 for m in metrics}
        self.remark = ""
        #: What metrics remarked while they scored, by spec.
        self.remarks: dict[str, list[str]] = {}
        rows = [row for metric in scores for row in self._rows(metric)]
        self.correlations = correlation_rows(rows + (self._ceilings() if ceilings else []))

    @property
    def scores(self) -> pd.DataFrame:
        """Long form, columns `SCORE_COLUMNS`."""
        frames = [
            self.items.assign(dataset=self.caption_set.name, metric=metric, score=series.to_numpy())
            for metric, series in self.by_metric.items()
        ]
        return pd.concat(frames, ignore_index=True)[list(SCORE_COLUMNS)]

    def _common(self, metric: str) -> dict[str, Any]:
        return {
            "dataset": self.caption_set.name,
            "protocol": self.protocol.name,
            "metric": metric,
        }

    def _ceilings(self) -> list[dict[str, Any]]:
        """How well people do as a metric, where items have two ratings or more.

        Only where each rating is a data point: a metric that meets an item's mean rating has an
        easier task, and may well pass a person who meets single ratings.
        """
        rows: list[dict[str, Any]] = []
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        for dimension in self.protocol.dimension:
            ratings = RatingTable.of(self.caption_set.ratings, self.items["item_id"], dimension)
            if not ratings.n_items or not rated:
                continue
            if self.protocol.ratings != "per_rating":
                self.remark = (
                    "No ceilings: people meet single ratings, protocol.ratings=per_rating."
                )
                continue
            for coefficient in rated:
                for name, found in ceilings_of(ratings, coefficient).items():
                    ceiling = Agreement(found.value, float("nan"), found.note)
                    rows.append(
                        {
                            **self._common(name),
                            "dimension": dimension,
                            "coefficient": coefficient,
                            **_cells(ceiling, found.n_items, found.n_ratings),
                        }
                    )
        # By ceiling, as the metrics' rows are by metric.
        return sorted(rows, key=lambda row: list(CEILINGS).index(row["metric"]))

    def _rows(self, metric: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        common = self._common(metric)
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        for dimension in self.protocol.dimension:
            points = self.protocol.points(self.caption_set, self.items, dimension)
            for coefficient in rated:
                found, used = self._correlate(metric, points, coefficient)
                rows.append(
                    {
                        **common,
                        "dimension": dimension,
                        "coefficient": coefficient,
                        **_cells(found, used["item_id"].nunique(), len(used)),
                    }
                )
        if "accuracy" in self.protocol.coefficients:
            rows += [{**common, **row} for row in self._accuracy(metric)]
        if not rows:
            raise no_dimension(
                self.caption_set,
                "it has preferences and no ratings; set protocol.coefficients=[accuracy]",
            )
        return rows

    def _correlate(
        self, metric: str, points: pd.DataFrame, coefficient: str
    ) -> tuple[Agreement, pd.DataFrame]:
        chosen = self.by_metric[metric].loc[points["item_id"]]
        scores = self._sign[metric] * np.asarray(chosen, dtype=np.float64)
        gaps = np.isnan(scores)
        dropped = ""
        if self.protocol.undefined == "drop" and gaps.any():
            dropped = f"{int(gaps.sum())} of {len(scores)} data points dropped: undefined score"
            points, scores = points[~gaps], scores[~gaps]
        found = correlate(scores, points["value"].to_numpy(dtype=float), coefficient)
        notes = "; ".join(n for n in (found.note, dropped) if n)
        return Agreement(found.value, found.p_value, notes), points

    def _accuracy(self, metric: str) -> list[dict[str, Any]]:
        preferences = self.caption_set.preferences
        here = set(self.items["item_id"])
        preferences = preferences[
            preferences["item_a"].isin(here) & preferences["item_b"].isin(here)
        ]
        scores = self._sign[metric] * self.by_metric[metric]
        ties = preferences["winner"] == "tie"
        gaps = preferences[["item_a", "item_b"]].isin(scores.index[scores.isna()]).any(axis=1)
        out = ties | gaps if self.protocol.undefined == "drop" else ties
        rows: list[dict[str, Any]] = []
        for category in [*dict.fromkeys(preferences["category"]), MEAN]:
            if category == MEAN:
                used = preferences[~out]
                found = _mean({row["dimension"]: row["value"] for row in rows})
            else:
                within = preferences["category"] == category
                used = preferences[within & ~out]
                found = pairwise_accuracy(scores, used)
                decided = within & ~ties
                tied, lost = int((within & ties).sum()), int((decided & out).sum())
                notes = [
                    found.note,
                    f"{tied} pairs left out on which people tied" if tied else "",
                    f"{lost} of {int(decided.sum())} pairs dropped: undefined score"
                    if lost
                    else "",
                ]
                found = replace(found, note="; ".join(n for n in notes if n))
            items = pd.concat([used["item_a"], used["item_b"]]).nunique()
            rows.append(
                {
                    "dimension": category,
                    "coefficient": "accuracy",
                    **_cells(found, items, len(used)),
                }
            )
        return rows


def _mean(values: Mapping[str, float]) -> Agreement:
    """The mean of the categories' accuracies."""
    gaps = [category for category, value in values.items() if np.isnan(value)]
    if gaps or not values:
        return Agreement.undefined(f"accuracy of {', '.join(gaps)}" if gaps else "no preferences")
    return Agreement(float(np.mean(list(values.values()))), float("nan"), "mean of the categories")


def no_dimension(caption_set: CaptionSet, otherwise: str) -> InputError:
    """The error where no rated dimension is left to look at; `otherwise` where there are none."""
    if known := caption_set.dimensions:
        otherwise = f"protocol.dimension is empty; name one at least: {', '.join(known)}"
    return InputError(f"dataset {caption_set.name}: {otherwise}")


def _cells(found: Agreement, n_items: int, n_ratings: int) -> dict[str, Any]:
    return {
        "value": found.value,
        "n_items": n_items,
        "n_ratings": n_ratings,
        "p_value": found.p_value,
        "note": found.note,
    }


def measure(
    caption_set: CaptionSet,
    protocol: Protocol,
    metrics: Sequence[Metric],
    store: ScoreStore,
    progress: Progress,
    ceilings: bool = False,
) -> Measured:
    """Score one dataset and correlate; see `Measured`.

    Raises:
        InputError: where a metric has corpus statistics and the dimensions' items other weights.
    """
    protocol = protocol.on(caption_set)
    items = protocol.select(caption_set)
    if of_corpus := [m.spec for m in metrics if m.corpus_statistics]:
        protocol.check_one_weight(caption_set, items, of_corpus[0])
    scorer = Scorer(caption_set.name, items, protocol)
    scores = score_all(scorer, metrics, store, progress)
    found = Measured(caption_set, protocol, items, metrics, scores, ceilings)
    found.remarks = scorer.remarks
    return found


def provenance(
    metrics: Sequence[Metric], caption_sets: Sequence[CaptionSet], where: Where
) -> dict[str, Any]:
    """What the numbers rest on, for run.json; a file of another revision is warned of."""
    root = registry.data_root(where.data_root)
    data: dict[str, Any] = {}
    for caption_set in {c.name: c for c in caption_sets}.values():
        card = caption_set.card
        files: dict[str, str] = {}
        for source in used(root, card):
            path = locate(root, card, source)
            if path is None:
                continue
            files[source.path] = sha256(path)
            if source.sha256 and files[source.path] != source.sha256:
                print(
                    f"captau: warning: {path} is not revision {card.revision[:12]} of {card.title}; "
                    f"its numbers may differ from published ones",
                    file=sys.stderr,
                )
        data[card.name] = {
            "revision": card.revision,
            "synthetic": card.synthetic,
            "digest": caption_set.digest,
            "files": files,
        }
    return {
        "signatures": {m.spec: m.signature for m in metrics},
        "data": data,
        **environment(),
    }


def table_of(measured: Measured, metrics: Sequence[Metric]) -> Table:
    """The printed table of one dataset: metrics as rows in the field's order."""
    frame = measured.correlations
    styles = {m.spec: style(m) for m in metrics}
    order = sorted(styles, key=lambda spec: styles[spec].order)
    columns = list(dict.fromkeys(zip(frame["dimension"], frame["coefficient"], strict=True)))
    several = len(measured.protocol.dimension) > 1
    heads: list[str] = []
    latex: list[str] = []
    for dimension, coefficient in columns:
        plain, tex, _, _ = COEFFICIENT_STYLE[coefficient]
        if several or coefficient == "accuracy":
            plain, tex = f"{dimension} {plain}", f"{dimension.replace('_', ' ')} {tex}"
        heads.append(plain)
        latex.append(tex)
    values = {
        (row["metric"], row["dimension"], row["coefficient"]): float(row["value"])
        for row in frame.to_dict("records")
    }
    rows = [
        (
            styles[spec].label,
            [number(values[spec, d, c], *COEFFICIENT_STYLE[c][2:]) for d, c in columns],
        )
        for spec in order
    ]
    human = [name for name in CEILINGS if name in set(frame["metric"])]
    for name in human:
        known = [(values.get((name, d, c)), c) for d, c in columns]
        cells = ["" if v is None else number(v, *COEFFICIENT_STYLE[c][2:]) for v, c in known]
        rows.append((CEILINGS[name], cells))
    labels = {**CEILINGS, **{spec: one.label for spec, one in styles.items()}}
    card = measured.caption_set.card
    counts = frame.groupby("coefficient", sort=False)[["n_items", "n_ratings"]].max()
    notes = ["Coefficients ×100."]
    if card.synthetic:
        notes.insert(0, "SYNTHETIC data, drawn by rule: nothing about real metrics follows.")
    what = "preference pairs" if set(frame["coefficient"]) == {"accuracy"} else "data points"
    notes.append(
        f"{int(counts['n_items'].max()):,} items, {int(counts['n_ratings'].max()):,} {what}; "
        f"protocol {measured.protocol.name}: {describe(measured.protocol)}."
    )
    if k := measured.protocol.k:
        fewer = sum(len(r) < k for r in measured.items["references"])
        if fewer:
            notes.append(f"Items with fewer than {k} references, of which all count: {fewer:,}.")
    notes += [n for n in dict.fromkeys(styles[spec].note for spec in order) if n]
    of_people = frame[frame["metric"].isin(human) & ~frame["note"].str.startswith("undefined")]
    notes += dict.fromkeys(
        f"{CEILINGS[r['metric']]}: {r['note']}." for r in of_people.to_dict("records")
    )
    notes += [measured.remark] if measured.remark else []
    undefined = frame[frame["note"].str.startswith("undefined")]
    notes += [
        f"{labels[r['metric']]}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in undefined.to_dict("records")
    ]
    title = card.title + (" (synthetic)" if card.synthetic else "")
    return Table(f"{title}: agreement with people", "metric", heads, rows, latex, notes)


def describe(protocol: Protocol) -> str:
    """A protocol in a line."""
    parts = [f"ratings {protocol.ratings}"] if protocol.dimension else []
    parts.append(f"references {protocol.references}" + (f" k={protocol.k}" if protocol.k else ""))
    parts.append(f"corpus {protocol.corpus}")
    if protocol.systems:
        parts.append(f"systems {', '.join(protocol.systems)}")
    if protocol.split:
        parts.append(f"split {protocol.split}")
    return ", ".join(parts)
