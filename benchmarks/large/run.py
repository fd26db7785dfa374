"""`captau score` of large sets: shards in, shards of scores out, by an engine's workers.

The stages are `stages`' tasks; this is what hands them out, goes on where an earlier run of the same
settings stopped, and puts the corpus scores together. Sums are exact (`exact`), so that neither engine
nor workers nor the order of anything shows in the scores.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.cache import cache_folder, replacing
from ...datasets.errors import InputError
from ...datasets.reading.source_files import sha256
from ...datasets.shards.object_store import is_url
from ...datasets.shards.row_reader import CorruptError, column_types
from ...datasets.shards.shard_files import Shard, check_unchanged, find_shards, kind_of
from ...metrics.base import Metric, Unavailability
from ...metrics.text import frequency_table
from ...metrics.text.cider import Cider
from ..evaluation.metric_reliability import UNKNOWN, Reliability, look_up_reliability
from ..options.large import LargeOptions
from ..reporting.corpus_score_tables import scale_note
from ..runs.output_folder import COMMAND_FILES, OPTIONAL_FILES, RUN_FILE
from ..runs.progress_bar import RowProgress
from ..runs.results import describe_environment, table_files, to_csv, to_json
from ..runs.tables import ResultTable, format_number
from ..scoring.catalog import metric_style
from ..scoring.unavailable_metrics import add_unavailable_rows, describe_reasons, find_unavailable
from . import stages
from .engines import engine_of
from .exact import added, percentiles, to_float
from .folders import Folder, alone
from .stages import OWN_DF, Plan, part_name

FORMAT = 1
MANIFEST = "manifest.json"
#: Within the output folder: the scores, and what is made on the way.
SCORES, WORK = "scores", ".work"
#: Which percentiles are found.
SHARES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
#: Bins of a histogram.
BINS = 100
#: Parts whose scores a task looks through for percentiles.
_TOGETHER = 25
#: The least number of partitions of the n-grams; more parts make more.
_PARTITIONS = 64


@dataclass(frozen=True)
class Scored:
    """A large set's scores.

    Attributes:
        corpus: metric → its score of all captions.
        tables: what is printed.
        summary: what else there is to say.
    """

    corpus: dict[str, float]
    tables: list[ResultTable]
    summary: str


def run(config: LargeOptions) -> Scored:
    """Score a large set; what an earlier run of the same settings did is not done again.

    Raises:
        InputError: on shards, options or stores that are wrong; what is done is kept.
    """
    try:
        return _Run(config).run()
    except OSError as error:
        raise InputError(stages.said(error, config.output)) from error


@dataclass
class _Total:
    """What the parts' scores of a metric come to.

    Attributes:
        sums: of its summands, exact; None where one is not finite.
        undefined: how many captions have no score.
        low, high: the least and the greatest score.
    """

    sums: list[int | None] | None = None
    undefined: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, part: Mapping[str, Any]) -> None:
        """A part's, as `stages` gives it."""
        more = [None if s is None else int(s, 16) for s in part["sums"]]
        sums = self.sums or [0] * len(more)
        self.sums = [added(pair) for pair in zip(sums, more, strict=True)]
        self.undefined += part["undefined"]
        if part["low"] is not None:
            self.low, self.high = min(self.low, part["low"]), max(self.high, part["high"])


@dataclass
class _Cost:
    """What a stage took."""

    tasks: int = 0
    again: int = 0
    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    read: int = 0
    written: int = 0
    rss: int = 0


def partitions_of(parts: int) -> int:
    """Into how many partitions the n-grams of so many parts go; merge reads each part once for each."""
    return max(_PARTITIONS, 1 << (parts // 4).bit_length())


class _Run:
    def __init__(self, config: LargeOptions) -> None:
        self.config = config
        self.output = Folder(config.output)
        # A folder of this run's own: it is removed at the end.
        named = str(self.output.local.resolve()) if self.output.local else config.output
        own = hashlib.sha256(named.encode()).hexdigest()[:16]
        if config.work:
            self.work = config.work / f"captau-{own}"
        elif self.output.local:
            self.work = self.output.local / WORK
        else:
            self.work = cache_folder("large", own)
        self.costs: dict[str, _Cost] = {}
        self.workers: set[int] = set()

    def run(self) -> Scored:
        begun, started = time.perf_counter(), datetime.now(UTC)
        config = self.config
        trust = (
            {}
            if config.trust is None
            else look_up_reliability([m.spec for m in config.metrics], config.trust)
        )
        self.shards = find_shards(config.candidates)
        self._check_schemas()
        with ExitStack() as stack:
            self._claim(stack)
            if (finished := self._finished()) is not None:
                shutil.rmtree(self.work, ignore_errors=True)  # it is empty
                return self._told(finished, trust, again=True)
            self.engine = stack.enter_context(
                engine_of(config.engine, config.workers, config.address)
            )
            self.flow = stack.enter_context(RowProgress())
            self._prepare()
            parts = self._read()
            self._choose(parts)
            self._models(parts)
            self._frequencies(parts)
            scored = self._score(parts)
            record = self._summed() | {"rows": sum(parts.values())}
            record |= {"distributions": self._distributions(list(parts), record["rows"])}
            for shard in self.shards:
                check_unchanged(shard)
            self._write(parts, scored, record, trust, started, begun)
        shutil.rmtree(self.work, ignore_errors=True)
        return self._told(record, trust, again=False)

    # What there is.

    def _check_schemas(self) -> None:
        """That the Parquet shards have one schema, before anything is computed.

        Raises:
            InputError: where one differs, and what of it.
        """
        first: tuple[str, dict[str, str]] | None = None
        for shard in self.shards:
            if shard.kind != "parquet" or is_url(shard.path):
                continue
            try:
                found = column_types(Path(shard.path), shard, self.config.columns)
            except CorruptError:
                if self.config.skip_corrupt:
                    continue
                raise
            if first is None:
                first = shard.path, found
            for name in sorted({*first[1], *found}):
                ours, theirs = found.get(name, "not there"), first[1].get(name, "not there")
                if ours != theirs:
                    raise InputError(
                        f"{shard.path}: '{name}' is {ours}, where in {first[0]} it is {theirs}; write "
                        f"the shards with one schema, or score them apart"
                    )

    @cached_property
    def _key(self) -> str:
        """Of all that the scores depend on."""
        config = self.config
        references = [
            asdict(shard)
            for path in config.references
            for shard in ([_file(path)] if kind_of(path) is None else find_shards([path]))
        ]
        settings = {
            "format": FORMAT,
            "shards": [asdict(shard) for shard in self.shards],
            "references": references,
            "metrics": [m.signature for m in config.metrics],
            "optional": sorted(config.optional),
            "columns": asdict(config.columns),
            "rows": config.rows,
            "skip_corrupt": config.skip_corrupt,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def _claim(self, stack: ExitStack) -> None:
        """Take the output folder for this run alone, and see to whose it was.

        Raises:
            InputError: where another run is at it, or one of other settings left something there.
        """
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            self.output.prepare(SCORES)
            stack.enter_context(alone(self.work, self.config.output))
        except OSError as error:
            raise InputError(
                f"output folder {self.config.output} cannot be written ({error.strerror}); set "
                f"output_dir=DIR"
            ) from error
        before = self.work / "key"
        if before.is_file() and before.read_text() != self._key:
            if not any((self.work / "score").glob("*.json")):  # nothing that took long is lost
                shutil.rmtree(self.work)
                self.work.mkdir()
                return
            raise InputError(
                f"{self.config.output}: a run of other shards or settings was begun there; put them back, "
                f"remove {self.work}, or name another output_dir="
            )

    def _finished(self) -> dict[str, Any] | None:
        """What a run of these settings that came to its end found; None where there is none."""
        manifest = self.output.read(MANIFEST)
        if manifest is None or (self.work / "key").is_file():
            return None
        found = json.loads(manifest)
        if found.get("key") != self._key:
            return None
        for part in found["parts"]:
            if self.output.size(f"{SCORES}/{part['name']}") != part["bytes"]:
                return None
        return json.loads(self.output.read("distributions.json") or b"null")

    def _prepare(self) -> None:
        """The folders of the stages, and the plan of what is known so far."""
        for stage in (*stages.STAGES, "rows", "tokens", "counts", "frequencies", "images"):
            (self.work / stage).mkdir(parents=True, exist_ok=True)
        scores = self.output.local / SCORES if self.output.local else self.work / SCORES
        scores.mkdir(parents=True, exist_ok=True)
        metrics = self.config.metrics
        self.plan = Plan(
            cwd=str(Path.cwd()),
            environment=stages.settings(),
            work=str(self.work.resolve()),
            scores=str(scores.resolve()),
            shards=tuple(self.shards),
            columns=self.config.columns,
            size=self.config.rows,
            references=self._needs("references"),
            pool=bool(self.config.references),
            metrics=tuple(map(stages.described, metrics)),
            models=(),
            frequencies={},
            images=any("images" in m.needs for m in metrics),
            pictures=None if self.config.images is None else str(self.config.images.resolve()),
            skip_corrupt=self.config.skip_corrupt,
        )
        self._save()
        with replacing(self.work / "key") as stream:
            stream.write(self._key.encode())

    def _needs(self, what: str) -> bool:
        """Whether a metric that was named needs it, or every one that was asked for."""
        needing = [m for m in self.config.metrics if what in m.needs]
        named = [m for m in needing if m.spec not in self.config.optional]
        return bool(named) or (bool(needing) and len(needing) == len(self.config.metrics))

    def _save(self) -> None:
        self._path = str(self.work.resolve() / "plan.json")
        self.plan.write(Path(self._path))

    # The stages.

    def _do(
        self, stage: str, tasks: Sequence[dict[str, Any]], rows: int | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Do the tasks of a stage that have no result yet; all results, in any order.

        Args:
            rows: how many rows there are in all; None where that is not known.

        Raises:
            InputError: of the first task that fails.
        """
        begun = time.perf_counter()
        cost = self.costs.setdefault(stage, _Cost())
        left: list[dict[str, Any]] = []
        earlier: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for task in tasks:
            found = _result(self.plan.file(stage, f"{task['id']}.json"))
            if found is None or not self._holds(stage, task, found):
                left.append(task)
            else:
                earlier.append((task, found))
        cost.tasks, cost.again = cost.tasks + len(left), cost.again + len(earlier)
        done = sum(found.get("rows", 0) for _, found in earlier)
        with self.flow.stage(stage, rows or len(tasks), done if rows else len(earlier)) as advance:
            yield from earlier
            engine = self.engine
            results = (
                engine.run_models(self._path, left)
                if stage == "model"
                else engine.run(stage, self._path, left)
            )
            for task, found in results:
                if "error" in found:
                    if found.get("corrupt") and self.config.skip_corrupt:
                        found = dict[str, Any](skipped=found["error"], parts=[], rows=0)
                        _put(self.plan.file(stage, f"{task['id']}.json"), found)
                    else:
                        raise InputError(found["error"])
                else:
                    cost.cpu_seconds += found["cpu_seconds"]
                    cost.rows += found.get("rows", 0)
                    cost.read += found.get("read", 0)
                    cost.written += found.get("written", 0)
                    cost.rss = max(cost.rss, found["rss"])
                advance(found.get("rows", 0) if rows else 1)
                yield task, found
        cost.seconds += time.perf_counter() - begun

    def _holds(self, stage: str, task: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
        """Whether what a task made is still there."""
        name = str(task["id"])
        if stage == "read":
            parts = [part_name(int(name), i) for i in range(len(found["parts"]))]
            return all(self.plan.file("rows", f"{p}.arrow").is_file() for p in parts)
        if stage == "score":
            path = Path(self.plan.scores) / f"{name}.parquet"
            return path.is_file() and sha256(path) == found["sha256"]
        made = {
            "pool": [self.plan.file("pool", "references")],
            "model": [self.plan.file("model", f"{name}.npz")],
            "count": [
                self.plan.file("tokens", f"{name}.npz"),
                *([] if self._joined else [self.plan.file("counts", f"{name}.bin")]),
            ],
            "merge": [self.plan.file("merge", f"{name}.bin")],
            "table": [self.plan.table_of(str(task["name"]))] if stage == "table" else [],
        }
        return all(path.exists() for path in made[stage])

    @property
    def _joined(self) -> bool:
        """Whether the set's own document frequencies are one table already."""
        return OWN_DF in self.plan.frequencies and self.plan.table_of(OWN_DF).is_file()

    def _read(self) -> dict[str, int]:
        """The parts and how many rows each has."""
        if self.plan.pool:
            task = {
                "id": "references",
                "paths": list(self.config.references),
                "columns": asdict(self.config.columns),
            }
            for _ in self._do("pool", [task]):
                pass
        tasks = [{"id": f"{i:06d}", "source": s.path} for i, s in enumerate(self.shards)]
        results = dict(sorted((t["id"], found) for t, found in self._do("read", tasks)))
        self.sources = list(results.values())
        parts = {
            part_name(int(shard), i): rows
            for shard, found in results.items()
            for i, rows in enumerate(found["parts"])
        }
        if not parts:
            named = ", ".join(self.config.candidates)
            if skipped := [found["skipped"] for found in self.sources if "skipped" in found]:
                raise InputError(
                    f"{named}: {len(skipped):,} of {len(self.shards):,} shards were corrupt and no captions "
                    f"are left; the first: {skipped[0]}"
                )
            raise InputError(f"{named}: no captions in it")
        return parts

    def _choose(self, parts: Mapping[str, int]) -> None:
        """Which metrics can be computed; the plan knows them from here on."""
        first = stages.first_row(self.plan, next(iter(parts)))
        config = self.config
        self.missing = find_unavailable(config.metrics, config.optional, first)
        self.metrics = [m for m in config.metrics if m not in self.missing]
        tables: dict[str, str | None] = {}
        for one in self.metrics:
            stages.needs_counts(one)
            if isinstance(one, Cider):
                tables[one.frequencies_key] = one.df
        self.plan = replace(
            self.plan,
            metrics=tuple(map(stages.described, self.metrics)),
            models=tuple(m.spec for m in self.metrics if _runs_model(m)),
            frequencies=tables,
        )
        self._save()

    def _tasks(self, parts: Iterable[str]) -> list[dict[str, Any]]:
        return [{"id": part, "source": self.shards[int(part[:6])].path} for part in parts]

    def _models(self, parts: Mapping[str, int]) -> None:
        if self.plan.models:
            for _ in self._do("model", self._tasks(parts), sum(parts.values())):
                pass

    def _frequencies(self, parts: Mapping[str, int]) -> None:
        """The tables that CIDEr looks up: of saved files, and the set's own."""
        saved = [
            {"id": str(i), "name": name, "path": path}
            for i, (name, path) in enumerate(self.plan.frequencies.items())
            if path is not None
        ]
        for _ in self._do("table", saved) if saved else ():
            pass
        if OWN_DF not in self.plan.frequencies:
            return
        partitions = partitions_of(len(parts))
        tasks = [{**task, "partitions": partitions} for task in self._tasks(parts)]
        for _ in self._do("count", tasks, sum(parts.values())):
            pass
        if self._joined:
            return
        names = list(parts)
        merges = [{"id": f"{i:06d}", "parts": names} for i in range(partitions)]
        for _ in self._do("merge", merges):
            pass
        made = [self.plan.file("merge", f"{task['id']}.bin") for task in merges]
        frequency_table.join_partitions(self.plan.table_of(OWN_DF), made, sum(parts.values()))
        shutil.rmtree(self.work / "counts", ignore_errors=True)

    def _score(self, parts: Mapping[str, int]) -> dict[str, str]:
        """The SHA-256 of each part's scores; what they come to is added up on the way."""
        self.totals = {m.spec: _Total() for m in self.metrics}
        self.remarks: dict[str, list[str]] = {}
        digests: dict[str, str] = {}
        for name in (
            MANIFEST,
            RUN_FILE,
        ):  # of an earlier run, whose scores are about to be replaced
            if self.output.size(name) is not None:
                self.output.remove(name)
        for task, found in self._do("score", self._tasks(parts), sum(parts.values())):
            digests[task["id"]] = found["sha256"]
            for spec, total in self.totals.items():
                total.add(found["metrics"][spec])
            for spec, said in found["remarks"].items():
                self.remarks[spec] = sorted({*self.remarks.get(spec, []), *said})
        return dict(sorted(digests.items()))

    # What comes of it.

    def _summed(self) -> dict[str, Any]:
        """The corpus scores, and what was remarked."""
        corpus: dict[str, float] = {}
        for one in self.metrics:
            sums = [to_float(total) for total in self.totals[one.spec].sums or ()]
            corpus[one.spec] = (
                math.nan if any(map(math.isnan, sums)) else one.corpus_score_from_sums(sums)
            )
        return {
            "shards": len(self.shards),
            "skipped": [s["skipped"] for s in self.sources if "skipped" in s],
            "corpus": corpus,
            "undefined": {spec: total.undefined for spec, total in self.totals.items()},
            "remarks": self.remarks,
            "missing": describe_reasons(self.missing),
        }

    def _distributions(self, parts: Sequence[str], rows: int) -> dict[str, Any]:
        """Percentiles and histogram of each metric."""
        edges: dict[str, list[float]] = {}
        counts = {spec: rows - total.undefined for spec, total in self.totals.items()}
        for one in self.metrics:
            total = self.totals[one.spec]
            if not (math.isfinite(total.low) and math.isfinite(total.high)):
                continue  # no score, or an infinite one
            least, most = one.bounds
            low = total.low if least is None else min(least, total.low)
            high = total.high if most is None else max(most, total.high)
            edges[one.spec] = np.linspace(low, high if high > low else low + 1, BINS + 1).tolist()
        bins: dict[str, list[int]] = {spec: [0] * BINS for spec in edges}
        groups = [list(parts[i : i + _TOGETHER]) for i in range(0, len(parts), _TOGETHER)]

        def look(
            place: int, ask: Mapping[str, Sequence[int]]
        ) -> dict[str, dict[int, dict[int, int]]]:
            total: dict[str, dict[int, dict[int, int]]] = {
                spec: {prefix: {} for prefix in prefixes} for spec, prefixes in ask.items()
            }
            tasks = [
                {
                    "id": f"{place}-{i}",
                    "kept": False,
                    "parts": group,
                    "place": place,
                    "ask": {spec: list(prefixes) for spec, prefixes in ask.items()},
                    "edges": edges if place == 0 else {},
                }
                for i, group in enumerate(groups)
            ]
            for _, found in self._do("digits", tasks):
                for spec, of in found["digits"].items():
                    stages.add_digits(total[spec], {p: dict(d) for p, d in of})
                for spec, more in found["bins"].items():
                    bins[spec] = [a + b for a, b in zip(bins[spec], more, strict=True)]
            return total

        found = percentiles(counts, SHARES, look)
        return {
            spec: {
                "n": counts[spec],
                "percentiles": dict(zip(map(_plain, SHARES), found[spec], strict=True)),
                "edges": edges.get(spec, []),
                "counts": bins.get(spec, []),
            }
            for spec in found
        }

    def _write(
        self,
        parts: Mapping[str, int],
        scored: Mapping[str, str],
        record: dict[str, Any],
        trust: Mapping[str, Reliability],
        started: datetime,
        begun: float,
    ) -> None:
        """The files of the run, `manifest.json` last, whose presence says that all are there."""
        names = {part: f"{part}.parquet" for part in parts}
        if not self.output.local:
            for name in names.values():
                self.output.take(f"{SCORES}/{name}", Path(self.plan.scores) / name)
        known = set(names.values())
        for name in self.output.names(SCORES):
            if name.endswith(".parquet") and name not in known:
                self.output.remove(f"{SCORES}/{name}")  # an earlier run's, of other settings
        manifest = {
            "format": FORMAT,
            "key": self._key,
            "rows": record["rows"],
            "signatures": {m.spec: m.signature for m in self.metrics},
            "missing": record["missing"],
            "columns": asdict(self.config.columns),
            "shards": [
                {
                    **asdict(shard),
                    **({"sha256": found["sha256"]} if "sha256" in found else {}),
                    **({"skipped": found["skipped"]} if "skipped" in found else {}),
                    "rows": found["rows"],
                    "parts": [names[part_name(i, j)] for j in range(len(found["parts"]))],
                }
                for i, (shard, found) in enumerate(zip(self.shards, self.sources, strict=True))
            ],
            "parts": [
                {
                    "name": names[part],
                    "rows": parts[part],
                    "bytes": (Path(self.plan.scores) / names[part]).stat().st_size,
                    "sha256": digest,
                }
                for part, digest in scored.items()
            ],
        }
        record["costs"] = self._costs()
        tables = self._tables(record, trust)
        files = {
            "corpus.json": to_json(record["corpus"]),
            "percentiles.csv": to_csv(_percentile_rows(record)),
            "histograms.csv": to_csv(_histogram_rows(record)),
            "distributions.json": to_json(record),
            **table_files(tables),
            "run.json": to_json(
                {
                    "command": "score",
                    "config": dict(self.config.configuration),
                    "candidates": list(self.config.candidates),
                    "references": list(self.config.references) or None,
                    "signatures": manifest["signatures"],
                    "missing": manifest["missing"],
                    **describe_environment(),
                    "engine": self.engine.name,
                    "workers": self.engine.workers,
                    "costs": record["costs"],
                    "started": started.isoformat(timespec="seconds"),
                    "seconds": round(time.perf_counter() - begun, 3),
                }
            ),
            MANIFEST: to_json(manifest),
        }
        for name in (*COMMAND_FILES["score"], *OPTIONAL_FILES):
            if name not in files and self.output.size(name) is not None:
                self.output.remove(name)  # of an earlier run that was not of shards
        for name, content in files.items():
            self.output.write(name, content)

    def _costs(self) -> dict[str, Any]:
        """What each stage took, and the most memory that a process had."""
        return {
            "stages": {name: asdict(cost) for name, cost in self.costs.items()},
            "driver_rss": stages.peak_rss(),
            "worker_rss": max((cost.rss for cost in self.costs.values()), default=0),
        }

    def _told(
        self, record: Mapping[str, Any], trust: Mapping[str, Reliability], *, again: bool
    ) -> Scored:
        done = "was done before: nothing to do; " if again else ""
        skipped = len(record["skipped"])
        left_out = (
            f"; {skipped} of {record['shards']} shards were corrupt and left out" if skipped else ""
        )
        corpus = {k: math.nan if v is None else v for k, v in record["corpus"].items()}
        return Scored(
            corpus,
            self._tables({**record, "corpus": corpus}, trust),
            f"{done}{record['rows']:,} captions in {self.config.output}{left_out}",
        )

    def _tables(
        self, record: Mapping[str, Any], trust: Mapping[str, Reliability]
    ) -> list[ResultTable]:
        shown = ("5", "50", "95")
        rows: list[tuple[str, list[str]]] = []
        chosen = {m.spec: m for m in self.config.metrics if m.spec in record["corpus"]}
        for spec, one in sorted(chosen.items(), key=lambda pair: metric_style(pair[1]).order):
            how = metric_style(one)
            found = record["distributions"][spec]["percentiles"]
            values = [record["corpus"][spec], *(found[share] for share in shown)]
            cells = [
                format_number(math.nan if v is None else v, how.scale, how.decimals) for v in values
            ]
            if trust:
                cells.append(str(trust.get(spec, UNKNOWN)))
            rows.append((how.label, cells))
        styles = [metric_style(one) for one in chosen.values()]
        notes = [
            f"{record['rows']:,} captions. {scale_note(styles)}. P5, P50, P95: percentiles of their scores.",
            *(note for note in dict.fromkeys(how.note for how in styles) if note),
            *(
                f"{metric_style(chosen[spec]).label}: undefined for {count:,} captions."
                for spec, count in record["undefined"].items()
                if count
            ),
        ]
        if skipped := record["skipped"]:
            notes.append(f"{len(skipped):,} corrupt shards are left out; the first: {skipped[0]}.")
        trusted = ["agreement with people"] if trust else []
        columns = ["score", *(f"P{share}" for share in shown), *trusted]
        table = ResultTable("Corpus scores", "metric", columns, rows, notes=notes)
        missing = {
            m: Unavailability.parse(record["missing"][m.spec])
            for m in self.config.metrics
            if m.spec in record["missing"]
        }
        return [add_unavailable_rows(table, list(chosen.values()), record["remarks"], missing)]


def _file(path: str) -> Shard:
    """A file of references in another form than shards, for the key."""
    try:
        stat = Path(path).expanduser().stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return Shard(path, "json", stat.st_size, str(stat.st_mtime_ns))


def _runs_model(one: Metric) -> bool:
    """Whether a metric's scores come out of a model, which takes long to load."""
    return type(one).__module__.split(".")[-2] in ("neural", "learned")


def _result(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _put(path: Path, found: Mapping[str, Any]) -> None:
    with replacing(path) as stream:
        stream.write(json.dumps(found).encode())


def _plain(share: float) -> str:
    return f"{share:g}"


def _percentile_rows(record: Mapping[str, Any]) -> pd.DataFrame:
    rows = [
        {"metric": spec, "percentile": float(share), "value": value}
        for spec, found in record["distributions"].items()
        for share, value in found["percentiles"].items()
    ]
    return pd.DataFrame(rows, columns=pd.Index(["metric", "percentile", "value"]))


def _histogram_rows(record: Mapping[str, Any]) -> pd.DataFrame:
    rows = [
        {"metric": spec, "low": low, "high": high, "count": count}
        for spec, found in record["distributions"].items()
        for low, high, count in zip(
            found["edges"][:-1], found["edges"][1:], found["counts"], strict=True
        )
    ]
    return pd.DataFrame(rows, columns=pd.Index(["metric", "low", "high", "count"]))
