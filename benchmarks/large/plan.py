"""The plan of a large run, which all its tasks know wherever they run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ...datasets.reading.shard_files import Shard
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ...metrics.external import metric as make_metric
from ...metrics.text.cider import Cider


@dataclass(frozen=True)
class Plan:
    """The settings of a run that its tasks need.

    Attributes:
        work: the folder of intermediate files, of these settings alone.
        columns: the names of the columns of captions.
        rows: how many rows a worker scores at a time.
        threads: how many threads DuckDB may use.
        metrics: the metrics that can be computed, as `describe_metric` describes them.
        needs_references: whether a row without references is an error.
        has_reference_lookup: whether references are looked up by image id.
        needs_images: whether a metric looks at images.
        image_folder: the folder of the images of shards that hold none.
        set_key: what tells the shards apart from those of another run: the set's own document frequencies, and all scores
            that depend on them, are of these shards alone. Empty where scores depend on the caption alone.
        directory: where relative paths start, also on another machine.
        environment: captau's environment variables, also on another machine.
    """

    work: str
    columns: Columns
    rows: int
    threads: int
    metrics: tuple[str, ...] = ()
    needs_references: bool = False
    has_reference_lookup: bool = False
    needs_images: bool = False
    image_folder: str | None = None
    set_key: str = ""
    directory: str = field(default_factory=lambda: str(Path.cwd()))
    environment: dict[str, str] = field(
        default_factory=lambda: {k: v for k, v in os.environ.items() if k.startswith("CAPTAU_")}
    )

    def file(self, kind: str, name: str) -> Path:
        """Return the path of an intermediate file."""
        return Path(self.work) / kind / name

    @property
    def score_kind(self) -> str:
        """The name of the stage `score`, whose results may be of these shards alone."""
        return f"score-{self.set_key}" if self.set_key else "score"

    @property
    def loaded_metrics(self) -> list[Metric]:
        """The metrics as objects, the same ones as long as a process lasts."""
        return [build_metric(description) for description in self.metrics]

    @property
    def model_metrics(self) -> list[Metric]:
        """The metrics that run a model."""
        return [metric for metric in self.loaded_metrics if runs_model(metric)]

    @property
    def frequency_tables(self) -> dict[str, Cider]:
        """By the key of a table of document frequencies, a metric that looks it up."""
        return {m.frequencies_key: m for m in self.loaded_metrics if isinstance(m, Cider)}

    @property
    def counting_metric(self) -> Cider | None:
        """A metric that looks up the document frequencies of the set itself; None without any."""
        for metric in self.frequency_tables.values():
            # With `df=` a metric looks them up in a saved file.
            if metric.df is None:
                return metric

        return None

    def frequency_folder(self, key: str) -> Path:
        """Return the folder of the table of document frequencies that has a key."""
        is_of_set = self.frequency_tables[key].df is None
        number = list(self.frequency_tables).index(key)
        return self.file("frequencies", self.set_key if is_of_set else f"saved-{number}")


@dataclass(frozen=True)
class Task:
    """Something that a worker does.

    Attributes:
        id: the name of its result.
        source: what messages call it.
        shard: the shard that it reads.
        details: what else it has to know.
    """

    id: str
    source: str
    shard: Shard | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


def name_shard(shard: Shard) -> str:
    """Return a name for the intermediate files of a shard as it is now."""
    return digest_of(asdict(shard))


def digest_of(value: Any) -> str:
    """Return a digest of what can be JSON, of 16 characters."""
    content = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def runs_model(metric: Metric) -> bool:
    """Say whether a metric's scores come out of a model, which takes long to load."""
    return type(metric).__module__.split(".")[-2] in ("neural", "learned")


def describe_metric(metric: Metric) -> str:
    """Describe a metric for another process, in JSON; its spec would not do where the user named it."""
    if metric.origin:
        return json.dumps({"origin": metric.origin})

    kind = type(metric)
    description = {
        "module": kind.__module__,
        "class": kind.__name__,
        "parameters": metric.parameters,
    }
    return json.dumps(description)


@lru_cache(maxsize=256)
def build_metric(description: str) -> Metric:
    """Make the metric that `describe_metric` described."""
    fields = json.loads(description)
    if "origin" in fields:
        return make_metric(fields["origin"])

    module = import_module(fields["module"])
    return getattr(module, fields["class"])(**fields["parameters"])
