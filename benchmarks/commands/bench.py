"""`captau bench`: score datasets with metrics and correlate with what people said."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from ...datasets import registry
from ...datasets.errors import InputError
from ...datasets.files import locate, sha256
from ...datasets.folder import used
from ...datasets.schema import ITEM_COLUMNS, PREFERENCE_COLUMNS, RATING_COLUMNS, CaptionSet
from ...metrics.base import Floats, Metric
from ..options import (
    BenchConfig,
    Where,
    changes_of,
    metrics_of,
    names_of,
    optional_of,
    statistics_of,
    style,
    usual_protocol,
)
from ..runs.output_folder import OutputFolder
from ..runs.progress_bar import Progress
from ..runs.results import (
    RANK_COLUMNS,
    SCORE_COLUMNS,
    Judged,
    Results,
    correlation_rows,
    environment,
)
from ..runs.tables import COEFFICIENT_STYLE, Table, number
from ..scoring.protocol import Protocol
from ..scoring.score_store import ScoreStore
from ..scoring.scorer import Scorer, marks_of, score_all
from ..scoring.unavailable_metrics import Missing, advice, listed, missing_rows, present
from ..statistics.bootstrap import Statistics, blocks
from ..statistics.coefficients import Agreement, pairwise_accuracy
from ..statistics.intervals import (
    DISATTENUATED_COLUMNS,
    Extra,
    Uncertainty,
    disattenuated,
    fisher_intervals,
    p_column,
    preferred_panel,
    rated_panel,
)
from ..statistics.levels import correlate_at, remarks
from ..statistics.preferences import MEAN, with_wilson
from ..statistics.rater_agreement import CEILINGS, RatingTable
from ..statistics.rater_agreement import ceilings as ceilings_of
from ..statistics.significance import ONLY, Panel, Rated
from ..statistics.weighted_coefficients import Ints

#: What a metric has to beat, as tables call them.
FLOORS = {"floor_random": "random scores", "floor_length": "caption length"}
_FLOOR_NOTES = {
    "floor_random": "scores drawn by lot",
    "floor_length": "the number of words in the caption",
}


def bench(
    dataset: str | Sequence[str] = "demo",
    metrics: str | Metric | Sequence[str | Metric] = "text",
    *,
    protocol: str | Mapping[str, Any] | None = None,
    ceilings: bool = True,
    floors: bool = False,
    statistics: Mapping[str, Any] | None = None,
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
        floors: whether to add random scores and caption length.
        statistics: options of intervals and tests that differ from the usual ones, such as
            `{"interval": "bca", "replicates": 10000}`; see `Statistics`.
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
    chosen_statistics = statistics_of(statistics)
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
            "floors": floors,
            "statistics": vars(chosen_statistics),
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
        ceilings=ceilings,
        floors=floors,
        statistics=chosen_statistics,
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
            found = measure(
                caption_set,
                protocol,
                metrics,
                store,
                progress,
                config.ceilings,
                config.floors,
            )
            found.judge(config.statistics, progress, config.tests)
            measured.append(found)
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
            "command": "compare" if config.tests else "bench",
            "config": dict(config.resolved),
            "protocols": {m.caption_set.name: vars(m.protocol) for m in measured},
            **provenance(reached, [m.caption_set for m in measured], config.where),
            "metrics": {m.spec: vars(style(m)) for m in config.metrics},
            "floors": FLOORS,
            "ceilings": CEILINGS,
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
            table
            for m, lacking in zip(measured, missing, strict=True)
            for table in (
                _listed(m, [x for x in config.metrics if x not in lacking], lacking),
                *difference_tables(m, config),
                *_disattenuated_tables(m, config),
            )
        ],
        summary=advice(missing),
        significance=_significance(measured, config) if config.tests else None,
        disattenuated=pd.concat([m.disattenuated for m in measured], ignore_index=True)
        if config.statistics.disattenuate
        else None,
        judged=_judged(measured),
        ranks=pd.DataFrame(
            [
                (m.caption_set.name, dimension, coefficient, metric, rank)
                for m in measured
                for (metric, dimension, coefficient), rank in m.ranks.items()
            ],
            columns=pd.Index(RANK_COLUMNS),
        ),
    )


def _judged(measured: Sequence[Measured]) -> Judged:
    """What people said of the measured items, in their order."""
    items: list[pd.DataFrame] = []
    ratings: list[pd.DataFrame] = []
    preferences: list[pd.DataFrame] = []
    for one in measured:
        of_set, name = one.caption_set, one.caption_set.name
        here = of_set.ratings["item_id"].isin(one.items["item_id"])
        for frames, frame, columns in (
            (items, one.items, ITEM_COLUMNS),
            (ratings, of_set.ratings[here], RATING_COLUMNS),
            (preferences, one.preferences(), PREFERENCE_COLUMNS),
        ):
            frames.append(frame[list(columns)].assign(dataset=name)[["dataset", *columns]])
    return Judged(
        *(pd.concat(frames, ignore_index=True) for frames in (items, ratings, preferences))
    )


def _listed(measured: Measured, metrics: Sequence[Metric], lacking: Missing) -> Table:
    return listed(table_of(measured, metrics), metrics, measured.remarks, lacking)


class Measured:
    """One dataset under one protocol: its scores and correlations.

    Args:
        caption_set, protocol, items, metrics: what was measured.
        scores: by metric, in the order of `items`; those of companions are not correlated.
        ceilings: whether to add rows of `agreement.CEILINGS`.
        floors: whether to add rows of `FLOORS`.
        marks: what must be said beside a metric's correlations, by spec.
    """

    def __init__(
        self,
        caption_set: CaptionSet,
        protocol: Protocol,
        items: pd.DataFrame,
        metrics: Sequence[Metric],
        scores: Mapping[str, Floats],
        *,
        ceilings: bool = False,
        floors: bool = False,
        marks: Mapping[str, str] | None = None,
    ) -> None:
        self.caption_set = caption_set
        self.protocol = protocol
        self.items = items
        self.by_metric = {k: pd.Series(v, index=items["item_id"]) for k, v in scores.items()}
        #: The metrics that were asked for, companions left out.
        self.asked = tuple(m.spec for m in metrics)
        # Of a metric where less is better, the negative agrees with people.
        self._sign = {m.spec: 1.0 if m.higher_is_better else -1.0 for m in metrics}
        self._keys = items.set_index("item_id")[["image_id", "system"]]
        self._floors = _floors(items) if floors else {}
        self._extras: dict[str, list[Extra]] = {}
        self.remark = ""
        #: What metrics remarked while they scored, by spec.
        self.remarks: dict[str, list[str]] = {}
        marks = marks or {}
        rows = [
            {**row, "note": _joined(row["note"], marks.get(metric.spec, ""))}
            for metric in metrics
            for row in self._rows(metric.spec)
        ]
        for name in self._floors:
            rows += [
                {**row, "note": _joined(row["note"], _FLOOR_NOTES[name])}
                for row in self._rows(name)
            ]
        self.correlations = correlation_rows(rows + (self._ceilings() if ceilings else []))
        self.statistics = Statistics(interval="none")
        self.uncertainty: Uncertainty | None = None
        self.ranks: dict[tuple[str, str, str], int] = {}
        self.disattenuated = pd.DataFrame(columns=pd.Index(DISATTENUATED_COLUMNS))

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
            if self.protocol.level != "pooled":
                self.remark = (
                    "No ceilings: they are of all ratings together, protocol.level=pooled."
                )
                continue
            for coefficient in rated:
                for name, found in ceilings_of(ratings, coefficient).items():
                    ceiling = Agreement(found.value, float("nan"), found.note)
                    if not np.isnan(found.value):
                        extra = Extra((name, dimension, coefficient), found.points)
                        self._extras.setdefault(dimension, []).append(extra)
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
        chosen = self._of(metric).loc[points["item_id"]]
        scores = np.asarray(chosen, dtype=np.float64)
        gaps = np.isnan(scores)
        dropped = ""
        if self.protocol.undefined == "drop" and gaps.any():
            dropped = f"{int(gaps.sum())} of {len(scores)} data points dropped: undefined score"
            points, scores = points[~gaps], scores[~gaps]
        keys = self._keys.loc[points["item_id"]]
        ratings = points["value"].to_numpy(dtype=float)
        found = correlate_at(self.protocol.level, scores, ratings, keys, coefficient)
        return Agreement(found.value, found.p_value, _joined(found.note, dropped)), points

    def _of(self, metric: str) -> pd.Series:
        """A metric's scores by item id; more is better."""
        if metric in self._floors:
            return self._floors[metric]
        return self._sign[metric] * self.by_metric[metric]

    def preferences(self) -> pd.DataFrame:
        """The dataset's, of two measured items each."""
        preferences = self.caption_set.preferences
        here = set(self.items["item_id"])
        return preferences[preferences["item_a"].isin(here) & preferences["item_b"].isin(here)]

    def panels(self) -> list[tuple[Panel, Ints]]:
        """The data points of each rated dimension, and the preferences, of metrics and floors; and
        the image of each item there.
        """
        scores = {m: self._of(m).to_numpy(dtype=np.float64) for m in (*self.asked, *self._floors)}
        drop = self.protocol.undefined == "drop"
        rated = [c for c in self.protocol.coefficients if c != "accuracy"]
        found: list[tuple[Panel, Ints]] = []
        for dimension in self.protocol.dimension if rated else ():
            points = self.protocol.points(self.caption_set, self.items, dimension)
            level = self.protocol.level
            found.append(
                rated_panel(self.items, points, scores, dimension, rated, drop=drop, level=level)
            )
        pairs = self.preferences()
        if "accuracy" in self.protocol.coefficients and len(pairs):
            categories = list(dict.fromkeys(pairs["category"]))
            decided = pairs[pairs["winner"] != "tie"]
            panel = preferred_panel(self.items, decided, scores, categories, MEAN, drop=drop)
            found.append((panel, np.empty(0, dtype=np.int64)))
        return found

    def judge(self, options: Statistics, progress: Progress, tests: Sequence[str] = ()) -> None:
        """Fill in intervals, rank clusters and differences; see `Uncertainty`.

        Args:
            options: which intervals, of what.
            progress: is told of each block of replicates and pair of metrics.
            tests: what `captau compare` wants to see; rank clusters rest on the bootstrap anyway.

        Raises:
            InputError: where there are tests and fewer than two images or metrics.
        """
        self.statistics = options
        if options.disattenuate:
            self.disattenuated = self._disattenuated(options)
        records: Any = self.correlations.to_dict("records")
        if options.interval == "fisher" and self.protocol.level != "pooled":
            raise InputError(
                f"statistics.interval=fisher is of data points; protocol.level={self.protocol.level} "
                f"takes statistics.interval=percentile or bca"
            )
        if options.interval == "fisher":
            intervals = fisher_intervals(records, options.level)
        elif options.resamples:
            found = self.panels()
            panels = [panel for panel, _ in found]
            if tests:
                self._check_comparable(panels, tests)
            pairs = len(self.asked) * (len(self.asked) - 1) // 2
            steps = len(panels) * (blocks(options.replicates) + pairs)
            progress.more(steps, f"{self.caption_set.name}: replicates")
            self.uncertainty = Uncertainty(
                panels,
                list(self.asked),
                options,
                tuple(dict.fromkeys(("bootstrap", *tests))),
                extras={
                    index: self._extras.get(panel.dimension, [])
                    for index, panel in enumerate(panels)
                    if isinstance(panel, Rated)
                },
                image_of_item=[of_item for _, of_item in found],
                advance=progress.advance,
            )
            intervals = self.uncertainty.intervals
            competing = {_key(r): float(r["value"]) for r in records if r["metric"] in self.asked}
            self.ranks = self.uncertainty.ranks(competing)
        else:
            intervals = {}
        for row in records:
            one = intervals.get(_key(row))
            if one is not None and not np.isnan(row["value"]):
                row |= {
                    "ci_low": one.low,
                    "ci_high": one.high,
                    "note": _joined(row["note"], one.note),
                }
        if options.interval != "none":
            records = with_wilson(records, options.level)
        self.correlations = correlation_rows(records)

    def _check_comparable(self, panels: Sequence[Panel], tests: Sequence[str]) -> None:
        """
        Raises:
            InputError: where there is nothing to compare, too little, or no test for it.
        """
        name = self.caption_set.name
        if not panels:
            raise InputError(
                f"dataset {name}: it has no preferences, and protocol.coefficients names accuracy "
                "alone; name a coefficient of ratings"
            )
        if (fewest := min(panel.n_images for panel in panels)) < 2:
            raise InputError(
                f"dataset {name}: too few images with judgements ({fewest}); a comparison needs two"
            )
        have = {"accuracy"} if any(not isinstance(p, Rated) for p in panels) else set[str]()
        if any(isinstance(p, Rated) for p in panels):
            have |= set(self.protocol.coefficients) - {"accuracy"}
        if not any(ONLY.get(test, "") in ("", *have) for test in tests):
            raise InputError(
                f"dataset {name}: tests=[{','.join(tests)}] are of "
                f"{' and '.join(ONLY[test] for test in tests)}; here is {', '.join(sorted(have))}: "
                "name another test, or another of protocol.coefficients"
            )
        if len(self.asked) < 2:
            raise InputError(
                f"dataset {name}: of the metrics {', '.join(self.asked)} alone can be computed here; "
                "a comparison needs two"
            )

    def _disattenuated(self, options: Statistics) -> pd.DataFrame:
        """Columns `DISATTENUATED_COLUMNS`."""
        rows: list[dict[str, Any]] = []
        for panel, of_item in self.panels():
            if isinstance(panel, Rated):
                ratings = self.caption_set.ratings
                table = RatingTable.of(ratings, self.items["item_id"], panel.dimension)
                found = disattenuated(panel, table, of_item, self.protocol.ratings, options)
                rows += [{**self._common(row["metric"]), **row} for row in found]
        return pd.DataFrame(rows, columns=pd.Index(DISATTENUATED_COLUMNS))

    def _accuracy(self, metric: str) -> list[dict[str, Any]]:
        preferences = self.preferences()
        scores = self._of(metric)
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
                found = replace(found, note=_joined(*notes))
            items = pd.concat([used["item_a"], used["item_b"]]).nunique()
            rows.append(
                {
                    "dimension": category,
                    "coefficient": "accuracy",
                    **_cells(found, items, len(used)),
                }
            )
        return rows


def _floors(items: pd.DataFrame) -> dict[str, pd.Series]:
    """What a metric has to beat, by item id; the lot is always the same."""
    random = np.random.default_rng(0).random(len(items))
    words = np.array([len(caption.split()) for caption in items["caption"]], dtype=np.float64)
    return {
        name: pd.Series(scores, index=items["item_id"])
        for name, scores in zip(FLOORS, (random, words), strict=True)
    }


def _joined(*notes: str) -> str:
    return "; ".join(n for n in notes if n)


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["metric"], row["dimension"], row["coefficient"]


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
    floors: bool = False,
) -> Measured:
    """Score one dataset and correlate; see `Measured`.

    Raises:
        InputError: where a metric has corpus statistics and the dimensions' items other weights.
    """
    protocol = protocol.on(caption_set)
    items = protocol.select(caption_set)
    if of_corpus := [m.spec for m in metrics if m.depends_on_corpus]:
        protocol.check_one_weight(caption_set, items, of_corpus[0])
    marks = marks_of(metrics, items)
    scorer = Scorer(caption_set.name, items, protocol)
    scores = score_all(scorer, metrics, store, progress)
    found = Measured(
        caption_set,
        protocol,
        items,
        metrics,
        scores,
        ceilings=ceilings,
        floors=floors,
        marks=marks,
    )
    found.remarks = {
        m.spec: [*scorer.remarks.get(m.spec, []), *([marks[m.spec]] if m.spec in marks else [])]
        for m in metrics
    }
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
            "title": card.title,
            "synthetic": card.synthetic,
            "scales": {name: vars(scale) for name, scale in card.scales.items()},
            "licence": card.licence,
            "citation": card.citation,
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
    found = {_key(row): row for row in cast("Any", frame.to_dict("records"))}
    several = len(measured.protocol.dimension) > 1
    heads: list[str] = []
    latex: list[str] = []
    columns: list[tuple[str, str, str]] = []
    spare: list[int] = []
    for dimension, coefficient in dict.fromkeys(
        zip(frame["dimension"], frame["coefficient"], strict=True)
    ):
        plain, tex, _, _ = COEFFICIENT_STYLE[coefficient]
        if several or coefficient == "accuracy":
            plain, tex = f"{dimension} {plain}", f"{dimension.replace('_', ' ')} {tex}"
        shown = [("value", plain, tex)]
        if coefficient != "accuracy" or dimension == MEAN:
            here = (frame["dimension"] == dimension) & (frame["coefficient"] == coefficient)
            if frame.loc[here, "ci_low"].notna().any():
                shown.append(("reach", "±", r"$\pm$"))
            if any(key[1:] == (dimension, coefficient) for key in measured.ranks):
                shown.append(("rank", "rank", "rank"))
        for what, head, latex_head in shown:
            spare += [len(heads)] if what != "value" else []
            heads.append(head)
            latex.append(latex_head)
            columns.append((what, dimension, coefficient))

    def cell(metric: str, what: str, dimension: str, coefficient: str) -> str:
        key = (metric, dimension, coefficient)
        if key not in found or (what == "rank" and key not in measured.ranks):
            return ""
        if what == "rank":
            return str(measured.ranks[key])
        row = found[key]
        value = row["value"] if what == "value" else (row["ci_high"] - row["ci_low"]) / 2
        return number(float(value), *COEFFICIENT_STYLE[coefficient][2:])

    below = {
        name: label
        for name, label in {**FLOORS, **CEILINGS}.items()
        if name in set(frame["metric"])
    }
    labels = {**{spec: one.label for spec, one in styles.items()}, **below}
    rows = [
        (labels[name], [cell(name, *column) for column in columns]) for name in (*order, *below)
    ]
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
    notes += [f"{FLOORS[name]}: {_FLOOR_NOTES[name]}." for name in below if name in FLOORS]
    of_people = frame[frame["metric"].isin(CEILINGS) & ~frame["note"].str.startswith("undefined")]
    notes += dict.fromkeys(
        f"{CEILINGS[r['metric']]}: {r['note']}." for r in of_people.to_dict("records")
    )
    notes += _statistics_notes(measured, {what for what, _, _ in columns})
    notes += [measured.remark] if measured.remark else []
    notes += remarks(frame[frame["metric"].isin(order)], labels, measured.protocol.level)
    undefined = frame[frame["note"].str.startswith("undefined")]
    notes += [
        f"{labels[r['metric']]}, {r['dimension']} {r['coefficient']}: {r['note']}."
        for r in undefined.to_dict("records")
    ]
    title = card.title + (" (synthetic)" if card.synthetic else "")
    return Table(
        f"{title}: agreement with people", "metric", heads, rows, latex, notes, spare=tuple(spare)
    )


def _significance(
    measured: Sequence[Measured], config: BenchConfig
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The differences by the tests that were asked for; and the corrected p-values as a matrix with a
    row a metric, columns `dataset, protocol, dimension, coefficient, test, metric` and the metrics.
    """
    frames = [
        m.uncertainty.frame(m.caption_set.name, m.protocol.name)
        for m in measured
        if m.uncertainty is not None
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["test"].isin(config.tests)].reset_index(drop=True)
    p_value = p_column(config.statistics.correction)
    metrics = [m.spec for m in config.metrics]
    rows: list[dict[str, Any]] = []
    keys = ["dataset", "protocol", "dimension", "coefficient", "test"]
    grouped: Any = frame.groupby(keys, sort=False)
    for names, group in grouped:
        for metric in metrics:
            row: dict[str, Any] = dict(zip(keys, names, strict=True)) | {"metric": metric}
            for side, other in (("metric_a", "metric_b"), ("metric_b", "metric_a")):
                here = group[group[side] == metric]
                row |= dict(zip(here[other], here[p_value], strict=True))
            rows.append(row)
    return frame, pd.DataFrame(rows, columns=pd.Index([*keys, "metric", *metrics]))


def difference_tables(measured: Measured, config: BenchConfig) -> list[Table]:
    """What `captau compare` prints: of each coefficient every two metrics, the better one first."""
    if measured.uncertainty is None or not config.tests:
        return []
    options = config.statistics
    labels = {m.spec: style(m).label for m in config.metrics}
    frame = measured.uncertainty.frame(measured.caption_set.name, measured.protocol.name)
    p_value = p_column(options.correction)
    heads = {
        "bootstrap": "p bootstrap",
        "permutation": "p permutation",
        "williams": "p Williams",
        "mcnemar": "p McNemar",
    }
    tables: list[Table] = []
    grouped: Any = frame.groupby(["dimension", "coefficient"], sort=False)
    for (dimension, coefficient), group in grouped:
        if coefficient == "accuracy" and dimension != MEAN:
            continue
        name, _, *scale = COEFFICIENT_STYLE[coefficient]
        shown = [t for t in config.tests if t in set(group["test"])]
        rows: list[tuple[str, list[str]]] = []
        for (a, b), pair in group.groupby(["metric_a", "metric_b"], sort=False):
            by_test = pair.set_index("test")
            first = by_test.loc["bootstrap"]
            sign = -1 if first["difference"] < 0 else 1
            ends = sorted((sign * first["ci_low"], sign * first["ci_high"]))
            cells = [number(float(v), *scale) for v in (abs(first["difference"]), *ends)]
            cells += [_p(float(by_test.loc[test, p_value])) for test in shown]
            better, worse = (labels[m] for m in ((a, b) if sign > 0 else (b, a)))
            rows.append((f"{better} over {worse}", cells))
        title = f"{measured.caption_set.card.title}, {dimension}: differences of {name}"
        columns = ["difference", "from", "to", *(heads[test] for test in shown)]
        how = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "none"}[options.correction]
        notes = [
            f"from, to: the {100 * options.level:g} % interval, images resampled; "
            f"correction of p for {len(rows)} pairs: {how}; all in significance.csv."
        ]
        tables.append(Table(title, "metrics", columns, rows, notes=notes))
    return tables


def _disattenuated_tables(measured: Measured, config: BenchConfig) -> list[Table]:
    """Pearson's r before and after correction for the ratings' noise, a table a dimension."""
    labels = {**FLOORS, **{m.spec: style(m).label for m in config.metrics}}
    tables: list[Table] = []
    grouped: Any = measured.disattenuated.groupby("dimension", sort=False)
    for dimension, group in grouped:
        rows: list[tuple[str, list[str]]] = []
        for row in group.to_dict("records"):
            numbers = [row[c] for c in ("pearson", "reliability", "corrected")]
            numbers.append((row["ci_high"] - row["ci_low"]) / 2)
            rows.append((labels[row["metric"]], [number(float(v), 100, 1) for v in numbers]))
        title = (
            f"{measured.caption_set.card.title}, {dimension}: r corrected for the ratings' noise"
        )
        notes = ["corrected: r over the root of the reliability (disattenuated.csv says which)."]
        notes += dict.fromkeys(f"{note}." for note in group["note"] if note)
        columns = ["r", "reliability", "corrected", "±"]
        tables.append(Table(title, "metric", columns, rows, notes=notes))
    return tables


def _p(value: float) -> str:
    """A p-value as it is printed."""
    return "<0.001" if value < 0.001 else number(value, 1, 3)


def _statistics_notes(measured: Measured, shown: set[str]) -> list[str]:
    """What the columns of intervals and ranks mean."""
    options = measured.statistics
    notes: list[str] = []
    if "reach" in shown:
        notes.append(
            f"±: half the width of the {interval_words(options)}; both ends in correlations.csv."
        )
    if "rank" in shown:
        notes.append(f"rank: {rank_words(options)}.")
        competing = len(measured.asked)
        pairs = competing * (competing - 1) // 2
        needed = int(np.ceil(2 * pairs / (1 - options.level)))
        if options.correction == "holm" and options.replicates < needed:
            notes.append(
                f"Holm's correction for {pairs} pairs finds nothing with so few replicates: set "
                f"statistics.replicates={needed} or more."
            )
    return notes


def interval_words(options: Statistics) -> str:
    """What an interval is."""
    how = "Fisher's formula, data points taken as independent"
    if options.resamples:
        kind = {"percentile": "percentile", "bca": "BCa"}[options.interval]
        how = f"{kind} bootstrap over images, {options.replicates:,} replicates"
    return f"{100 * options.level:g} % interval ({how})"


def rank_words(options: Statistics) -> str:
    """What a rank is."""
    which = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}
    return (
        "a new one begins with the first metric that one of the rank before beats significantly "
        f"(paired bootstrap over images, level {100 * (1 - options.level):g} %, "
        f"{which[options.correction]})"
    )


def describe(protocol: Protocol) -> str:
    """A protocol in a line."""
    parts = [f"ratings {protocol.ratings}"] if protocol.dimension else []
    parts.append(f"references {protocol.references}" + (f" k={protocol.k}" if protocol.k else ""))
    parts.append(f"corpus {protocol.corpus}")
    if protocol.level != "pooled":
        parts.append(f"level {protocol.level}")
    if protocol.systems:
        parts.append(f"systems {', '.join(protocol.systems)}")
    if protocol.split:
        parts.append(f"split {protocol.split}")
    return ", ".join(parts)
