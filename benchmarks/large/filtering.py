"""`captau filter`: of a large scored set, the captions that score well enough, and what went.

Levinboim et al. 2021, section 6.2: a caption is served where its score is at least a threshold, and
the threshold is chosen on captions that people judged, for the share of good ones among those that are
served (`captau thresholds`). Shards are written anew in their own format, each row as it was.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError, unknown
from ...datasets.shards.row_reader import Columns
from ...datasets.shards.shard_files import Shard
from ..options.large import FilterOptions
from ..runs.output_folder import OutputFolder
from ..runs.progress_bar import RowProgress
from ..runs.results import describe_environment, table_files, to_csv, to_json
from ..runs.tables import MISSING, ResultTable, format_number
from ..scoring.catalog import resolve_metrics
from . import stages
from .engines import engine_of
from .exact import digit_counts, percentiles
from .folders import Folder, alone
from .run import MANIFEST, SCORES, SHARES
from .stages import Plan

#: Where the kept shards are written, in the output folder.
KEPT = "kept"
#: How many captions are shown of the worst, and on each side of the threshold.
EXAMPLES = 5
LEVEL = 0.95


@dataclass(frozen=True)
class Known:
    """What is known of the captions above a threshold.

    Attributes:
        threshold: the least score that is kept.
        precision: of the judged captions above it, the share of good ones; NaN where nobody judged.
        low, high: its 95 % interval (Wilson 1927), the judged captions being a sample.
        kept, judged: how many judged captions are above it, and in all.
        on: of which dataset and dimension.
    """

    threshold: float
    precision: float = math.nan
    low: float = math.nan
    high: float = math.nan
    kept: int = 0
    judged: int = 0
    on: str = ""

    @property
    def said(self) -> str:
        """The precision, in words; empty where it is not known."""
        if math.isnan(self.precision):
            return ""
        return (
            f"expected precision {self.precision:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}; "
            f"of {self.judged:,} judged captions of {self.on}, {self.kept:,} are above the threshold)"
        )


@dataclass(frozen=True)
class Filtered:
    """What was kept.

    Attributes:
        tables: what is printed.
        summary: a line.
    """

    tables: list[ResultTable]
    summary: str
    folder: Path


def run(config: FilterOptions) -> Filtered:
    """Filter.

    Raises:
        InputError: where the run is none, its metric unknown, no threshold reaches the precision, or
            a shard is not what was scored.
    """
    try:
        return _run(config)
    except OSError as error:
        raise InputError(stages.said(error, str(config.output_dir))) from error


def _run(config: FilterOptions) -> Filtered:
    begun, started = time.perf_counter(), datetime.now(UTC)
    source = Folder(config.run)
    manifest = _manifest(source)
    if config.metric not in manifest["signatures"]:
        raise unknown("metric of this run", config.metric, manifest["signatures"])
    known = _known(config, manifest["signatures"][config.metric])
    if source.local and config.output_dir and _same(source.local, config.output_dir):
        raise InputError(
            f"output_dir={config.output_dir} is the scored run itself; name another folder"
        )
    shards = [
        Shard(**{k: s[k] for k in ("path", "kind", "size", "stamp")}) for s in manifest["shards"]
    ]
    listed = {part["name"]: part for part in manifest["parts"]}
    parts = [[listed[name] for name in s["parts"]] for s in manifest["shards"]]
    looked = _Look(source, config.metric, known.threshold, parts)
    with ExitStack() as stack:
        folder = stack.enter_context(OutputFolder(config.output_dir, "filter"))
        looked.look()
        kept_in = folder.path / KEPT
        work = folder.path / ".work"
        stack.enter_context(alone(work, str(folder.path)))
        for path in (kept_in, work / "filter"):
            path.mkdir(parents=True, exist_ok=True)
        for path in kept_in.glob("[0-9]" * 6 + "-*"):  # an earlier run's, perhaps of more shards
            path.unlink()
        plan = Plan(
            cwd=str(Path.cwd()),
            environment=stages.settings(),
            work=str(work.resolve()),
            scores=str(source.local.resolve() / SCORES)
            if source.local
            else f"{source.place}/{SCORES}",
            shards=tuple(shards),
            columns=Columns(**manifest["columns"]),
            size=stages.ROWS_READ,
            references=False,
            pool=False,
            metrics=(),
            models=(),
            frequencies={},
            images=False,
            pictures=None,
            skip_corrupt=False,
        )
        where = work.resolve() / "plan.json"
        plan.write(where)
        rows, texts = _shards(config, where, manifest, known, looked, kept_in, stack)
        examples = _examples(looked, texts)
        tables = _tables(known, looked, examples, config.metric)
        folder.write(
            {
                "shards.csv": to_csv(rows),
                "percentiles.csv": to_csv(looked.percentile_rows()),
                "examples.csv": to_csv(examples),
                **table_files(tables),
                "run.json": to_json(
                    {
                        "command": "filter",
                        "config": dict(config.configuration),
                        "scores": config.run,
                        "metric": config.metric,
                        "signature": manifest["signatures"][config.metric],
                        "known": asdict(known),
                        "rows": looked.rows,
                        "kept": looked.kept,
                        "undefined": looked.undefined,
                        **describe_environment(),
                        "started": started.isoformat(timespec="seconds"),
                        "seconds": round(time.perf_counter() - begun, 3),
                    }
                ),
            }
        )
        shutil.rmtree(work, ignore_errors=True)
    share = looked.kept / looked.rows if looked.rows else math.nan
    summary = f"kept {looked.kept:,} of {looked.rows:,} captions ({share:.1%}), in {kept_in}" + (
        f"; {known.said}" if known.said else ""
    )
    return Filtered(tables, summary, folder.path)


def _same(one: Path, other: Path) -> bool:
    return one.expanduser().resolve() == other.expanduser().resolve()


def _manifest(source: Folder) -> dict[str, Any]:
    found = source.read(MANIFEST)
    if found is None:
        raise InputError(
            f"{source.place}: no {MANIFEST} in it; run=DIR is the folder of a finished captau score of shards"
        )
    try:
        return json.loads(found)
    except ValueError as error:
        raise InputError(
            f"{source.place}/{MANIFEST}: not valid JSON; score the set anew"
        ) from error


def _known(config: FilterOptions, signature: str) -> Known:
    """The threshold, and what is known of the captions above it.

    Raises:
        InputError: see `run`.
    """
    if config.thresholds is None:
        assert config.above is not None
        return Known(config.above)
    one = resolve_metrics(config.metric)[0]
    if one.depends_on_corpus and one.parameters.get("df") is None:
        raise InputError(
            f"metric {config.metric} weighs words by the set that it scores, so a threshold found on another "
            f"set says nothing here; take a metric of the caption by itself, or cider(df=FILE)"
        )
    path = config.thresholds / "thresholds.csv"
    try:
        rows = pd.read_csv(path)
        record = json.loads((config.thresholds / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"thresholds={config.thresholds}: no finished run of captau thresholds ({path} cannot be read)"
        ) from error
    for name in ("dataset", "dimension"):
        if (wanted := getattr(config, name)) is not None:
            if wanted not in set(rows[name]):
                raise unknown(f"{name} of {path}", wanted, map(str, rows[name].unique()))
            rows = rows[rows[name] == wanted]
    if config.metric not in set(rows["metric"]):
        raise unknown(f"metric of {path}", config.metric, map(str, rows["metric"].unique()))
    rows = rows[rows["metric"] == config.metric]
    curves = rows[["dataset", "dimension"]].drop_duplicates()
    if len(curves) > 1:
        several = ", ".join(f"dataset={d} dimension={m}" for d, m in curves.itertuples(index=False))
        raise InputError(f"{path}: several curves of {config.metric}; choose one: {several}")
    judged_by = (record.get("signatures") or {}).get(config.metric)
    if judged_by is not None and judged_by != signature:
        raise InputError(
            f"metric {config.metric} was another one when {path} was made ({judged_by}) than when the "
            f"captions were scored ({signature}); run captau thresholds anew"
        )
    if config.precision is not None:
        enough = rows[rows["precision"] >= config.precision]
        if enough.empty:
            raise InputError(
                f"{path}: no threshold of {config.metric} reaches precision {config.precision:g}; the most is "
                f"{rows['precision'].max():.3f}"
            )
        row = enough.sort_values("n_kept").iloc[-1]  # the most captions
        threshold = float(row["threshold"])
    else:
        assert config.above is not None
        over = rows[rows["threshold"] >= config.above]
        if over.empty:
            return Known(config.above)
        row, threshold = over.sort_values("n_kept").iloc[-1], config.above
    kept = int(row["n_kept"])
    low, high = wilson(round(float(row["precision"]) * kept), kept)
    return Known(
        threshold,
        float(row["precision"]),
        low,
        high,
        kept,
        int(row["n_items"]),
        f"{row['dataset']}, {row['dimension']}",
    )


def wilson(good: int, n: int) -> tuple[float, float]:
    """The ends of a share's 95 % interval (Wilson 1927)."""
    from scipy.stats import binomtest

    found = binomtest(good, n).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


class _Look:
    """What a run's scores say of a threshold, before a shard is touched."""

    def __init__(
        self,
        source: Folder,
        metric: str,
        threshold: float,
        parts: Sequence[Sequence[Mapping[str, Any]]],
    ) -> None:
        self.source, self.metric, self.threshold = source, metric, threshold
        self.parts = parts
        self.rows = self.kept = self.undefined = 0
        #: Shard, row and score of captions to show, by which side they are on.
        self.examples: dict[str, list[tuple[float, int, int]]] = {}
        self.percentiles: dict[str, list[float]] = {}

    def _scores(self) -> Any:
        for shard, parts in enumerate(self.parts):
            first = 0
            for part in parts:
                values = stages.scores_of(f"{self.source.place}/{SCORES}", part, self.metric)
                yield shard, first, values
                first += len(values)

    def _sides(self, values: Any) -> dict[str, Any]:
        return {
            "kept": values[values >= self.threshold],
            "dropped": values[values < self.threshold],
        }

    def look(self) -> None:
        """Count, and find percentiles of both sides and examples."""
        sizes = {"kept": 0, "dropped": 0}
        wanted: dict[str, list[tuple[float, int, int]]] = {
            "lowest": [],
            "just below": [],
            "just above": [],
        }
        for shard, first, values in self._scores():
            self.rows += len(values)
            self.undefined += int(np.isnan(values).sum())
            for side, some in self._sides(values).items():
                sizes[side] += len(some)
            for name, (here, order) in {
                "lowest": (values < self.threshold, values),
                "just below": (values < self.threshold, -values),
                "just above": (values >= self.threshold, values),
            }.items():
                places = np.flatnonzero(here)
                best = places[np.argsort(order[places], kind="stable")[:EXAMPLES]]
                more = [(float(values[i]), shard, first + int(i)) for i in best]
                sign = -1 if name == "just below" else 1
                wanted[name] = sorted([*wanted[name], *more], key=lambda e: (sign * e[0], e[1:]))[
                    :EXAMPLES
                ]
        self.kept = sizes["kept"]
        self.examples = wanted

        def count(place: int, ask: Mapping[str, Sequence[int]]) -> Any:
            total: dict[str, dict[int, dict[int, int]]] = {
                side: {p: {} for p in prefixes} for side, prefixes in ask.items()
            }
            for _, _, values in self._scores():
                for side, some in self._sides(values).items():
                    if side in ask:
                        stages.add_digits(total[side], digit_counts(some, place, ask[side]))
            return total

        self.percentiles = percentiles(sizes, SHARES, count)

    def percentile_rows(self) -> pd.DataFrame:
        """A row a side and percentile."""
        return pd.DataFrame(
            [
                {"captions": side, "percentile": share, "score": value}
                for side, values in self.percentiles.items()
                for share, value in zip(SHARES, values, strict=True)
            ]
        )


def _shards(
    config: FilterOptions,
    plan: Path,
    manifest: Mapping[str, Any],
    known: Known,
    looked: _Look,
    kept_in: Path,
    stack: ExitStack,
) -> tuple[pd.DataFrame, dict[tuple[int, int], tuple[str, str]]]:
    """Write the kept shards; a row a shard, and image id and caption of the examples by shard and row."""
    engine = stack.enter_context(engine_of(config.engine, config.workers, config.address))
    flow = stack.enter_context(RowProgress())
    tasks: list[dict[str, Any]] = []
    for index, shard in enumerate(manifest["shards"]):
        shown = [row for some in looked.examples.values() for _, i, row in some if i == index]
        tasks.append(
            {
                "id": f"{index:06d}",
                "source": shard["path"],
                "metric": config.metric,
                "threshold": known.threshold,
                "parts": looked.parts[index],
                "skipped": "skipped" in shard,
                "sha256": shard.get("sha256"),
                "folder": str(kept_in.resolve()),
                "shown": sorted(set(shown)),
                "kept": False,
            }
        )
    rows: dict[str, dict[str, Any]] = {}
    with flow.stage("filter", len(tasks)) as advance:
        for task, found in engine.run("filter", str(plan), tasks):
            if "error" in found:
                raise InputError(found["error"])
            rows[task["id"]] = found
            advance(1)
    texts = {
        (int(task_id), int(row)): (str(image_id), str(caption))
        for task_id, found in rows.items()
        for row, image_id, caption in found["texts"]
    }
    table = pd.DataFrame(
        [
            {
                "shard": manifest["shards"][int(task_id)]["path"],
                "rows": found["rows"],
                "kept": found["kept_rows"],
                "dropped": found["rows"] - found["kept_rows"],
                "undefined": found["undefined"],
                "file": found["file"],
                "sha256": found["sha256"],
            }
            for task_id, found in sorted(rows.items())
        ]
    )
    return table, texts


def _examples(looked: _Look, texts: Mapping[tuple[int, int], tuple[str, str]]) -> pd.DataFrame:
    """A row a caption that is shown."""
    return pd.DataFrame(
        [
            {"captions": name, "score": score, "image_id": image_id, "caption": caption}
            for name, some in looked.examples.items()
            for score, shard, row in some
            for image_id, caption in [texts[shard, row]]
        ],
        columns=pd.Index(["captions", "score", "image_id", "caption"]),
    )


def _tables(known: Known, looked: _Look, examples: pd.DataFrame, metric: str) -> list[ResultTable]:
    shown = (5.0, 50.0, 95.0)
    sides = {"kept": looked.kept, "dropped": looked.rows - looked.kept - looked.undefined}
    rows: list[tuple[str, list[str]]] = []
    for side, count in sides.items():
        found = dict(zip(SHARES, looked.percentiles[side], strict=True))
        cells = [f"{count:,}", format_number(count / looked.rows, 100, 1)]
        rows.append((side, [*cells, *(format_number(found[share], 1, 4) for share in shown)]))
    if looked.undefined:
        share = format_number(looked.undefined / looked.rows, 100, 1)
        rows.append(("dropped, without a score", [f"{looked.undefined:,}", share, *[MISSING] * 3]))
    notes = [f"Kept are captions with {metric} of {known.threshold:g} or more."]
    if known.said:
        notes.append(f"{known.said[0].upper()}{known.said[1:]}.")
    columns = ["number", "%", *(f"P{share:g}" for share in shown)]
    tables = [ResultTable("Filtered captions", "captions", columns, rows, notes=notes)]
    if len(examples):
        told = [
            (str(e["captions"]), [format_number(float(e["score"]), 1, 4), str(e["caption"])])
            for e in examples.to_dict("records")
        ]
        tables.append(
            ResultTable("Examples", "captions", ["score", "caption"], told, numeric=False)
        )
    return tables
