"""Metrics, datasets and papers of `conf/` as plain data: suites, styles, usual protocols, BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ...conf import group, own_files, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, unknown
from ...metrics.base import Metric
from ...metrics.registry import find_metric_name, metric, metric_names, registered_name
from .protocol import Protocol

_CONF = "captau.conf"
#: libyaml's loader where PyYAML has it, ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bibliography() -> dict[str, str]:
    """Return the entries of `conf/citations.bib` by key; blank lines part them."""
    text = (resources.files(_CONF) / "citations.bib").read_text(encoding="utf-8")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.split("\n\n")}


def read_config(group_name: str, name: str) -> dict[str, Any]:
    """Read a file of a config group as plain data, captau's or one's own."""
    if path := own_files(group_name).get(name):
        return yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    return _read_shipped(group_name, name)


@cache
def _read_shipped(group_name: str, name: str) -> dict[str, Any]:
    text = (resources.files(_CONF) / group_name / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, _LOADER)


def changes_of(protocol: Any) -> dict[str, Any]:
    """Return the differences from the usual protocol: a mapping, or the name of a file in `conf/protocol/`.

    Raises:
        InputError: on an unknown name or option, or anything else.
    """
    if isinstance(protocol, str):
        if protocol not in group("protocol"):
            raise unknown("protocol", protocol, group("protocol"))
        protocol = read_config("protocol", protocol)
    if not isinstance(protocol, Mapping | None):
        raise InputError(f"protocol is {protocol!r}; a name or a dict of options is expected")
    changes = dict(protocol or {})
    for key in changes:
        if str(key) not in Protocol.__dataclass_fields__:
            raise unknown("option of protocol", str(key), list(Protocol.__dataclass_fields__))
    return changes


#: In the order in which tables group metrics; `given` are score files and functions of one's own.
METRIC_KINDS = ("reference-based", "reference-free", "learned", "given")


@dataclass(frozen=True)
class MetricStyle:
    """Style of a metric in tables, from its file in `conf/metric/`.

    Attributes:
        label, order: its name in tables, and its place.
        scale, decimals: the factor of its own scores, and their digits.
        note: a line below each table that has it.
        kind: one of `METRIC_KINDS`.
        higher_is_better: whether more of it is better.
        citation: BibTeX of its paper, and of the code that computes it; may be empty.
    """

    label: str
    order: float
    scale: float
    decimals: int
    note: str
    kind: str
    higher_is_better: bool
    citation: str

    def __post_init__(self) -> None:
        if self.kind not in METRIC_KINDS:
            raise unknown(f"kind of metric {self.label}", self.kind, METRIC_KINDS)


def metric_style(instance: Metric) -> MetricStyle:
    """Return the style of a metric, from its file in `conf/metric/`."""
    name = registered_name(instance)  # not its own name, which another class may bear
    if name is None or name not in shipped_names("metric"):
        return MetricStyle(instance.spec, 1000, 1, 3, "", "given", instance.higher_is_better, "")
    table = read_config("metric", name)
    preset = instance.parameters.get("preset")
    cites = table.get("cites_by_preset", {}).get(preset, table.get("cites", ()))
    brackets = instance.label_spec.removeprefix(instance.name)
    return MetricStyle(
        label=f"{table.get('label', instance.name)}{brackets}",
        order=table["order"],
        scale=table["scale"],
        decimals=table["decimals"],
        note=table.get("note", ""),
        kind=table.get("kind")
        or ("reference-based" if "references" in instance.needs else "reference-free"),
        higher_is_better=instance.higher_is_better,
        citation="\n".join(bibliography()[key] for key in cites),
    )


def resolve_metrics(selection: Any) -> tuple[Metric, ...]:
    """Return metrics from names, specs, suites and `Metric` objects, each once, in the given order.

    Raises:
        InputError: on an unknown name, an empty list, or two different metrics of one name.
    """
    entries: Any = [selection] if isinstance(selection, str | Metric) else selection or []
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise InputError(
            f"metrics is {selection!r}; suites or metrics are expected, as metrics=[cider]"
        )
    suites = group("suite")
    by_spec: dict[str, Metric] = {}
    for entry in entries:
        if isinstance(entry, Metric):
            instances = [entry]
        elif not isinstance(entry, str):
            raise InputError(
                f"metrics: '{entry}' is not a metric; quote it: metrics=[\"cider(df=F)\"]"
            )
        elif entry.strip() in suites:
            instances = [metric(name) for name in read_config("suite", entry.strip())["metrics"]]
        elif find_metric_name(entry.partition("(")[0].strip()) is None:
            raise unknown("metric or suite", entry.partition("(")[0], [*metric_names(), *suites])
        else:
            instances = [metric(entry)]
        for instance in instances:
            if by_spec.setdefault(instance.spec, instance) != instance:
                raise InputError(f"metrics: two different metrics are called '{instance.spec}'")
    if not by_spec:
        raise InputError("metrics is empty; name a suite or metrics, such as metrics=[cider]")
    return tuple(by_spec.values())


def optional_specs(selection: Any) -> frozenset[str]:
    """Return the specs of metrics that only suites name, of the entries that `resolve_metrics` takes."""
    entries: Any = [selection] if isinstance(selection, str | Metric) else selection or []
    suites = group("suite")
    named = [e for e in entries if not isinstance(e, str) or e.strip() not in suites]
    by_name = {m.spec for m in resolve_metrics(named)} if named else set[str]()
    return frozenset({m.spec for m in resolve_metrics(selection)} - by_name)


def dataset_names() -> list[str]:
    """List all datasets, sorted: those of the registry and those of one's own files."""
    return sorted({*registry.names(), *own_files("dataset")})


def choices_of(group_name: str) -> list[str]:
    """Return the names in a config group, such as `suite` or `dataset`."""
    return dataset_names() if group_name == "dataset" else group(group_name)


def usual_protocol(dataset: str) -> dict[str, Any]:
    """Return what a dataset changes in the usual protocol of `protocol.CHOICES`.

    Its file in `conf/dataset/`, or one's own, says so; without a file, its registration does.

    Raises:
        InputError: where there is no dataset of this name.
    """
    if dataset not in dataset_names():
        raise unknown("dataset", dataset, dataset_names())
    if dataset in group("dataset"):
        return read_config("dataset", dataset).get("protocol") or {}
    return dict(registry.protocol_changes(dataset))
