"""Metrics, datasets and papers of `conf/` as plain data: suites, styles, usual protocols, BibTeX."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ...conf import group, own_files, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, MissingFileError, unknown
from ...datasets.reading.source_files import is_here
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ...metrics.external import load_metric, tell_apart
from ...metrics.external import metric as make_metric
from ...metrics.registry import find_metric_name, metric_names, registered_name
from ...metrics.registry import metric as parse_metric
from ...metrics.spec_text import spell_out
from .protocol import Protocol

logger = logging.getLogger(__name__)

_CONF = "captau.conf"
#: libyaml's loader where PyYAML has it, ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bibliography() -> dict[str, str]:
    """Return the entries of `conf/citations.bib` by key; blank lines part them."""
    text = (resources.files(_CONF) / "citations.bib").read_text(encoding="utf-8")
    entries: dict[str, str] = {}
    for entry in text.split("\n\n"):
        key = entry.partition("{")[2].partition(",")[0]
        entries[key] = entry

    return entries


def read_config(group_name: str, name: str) -> dict[str, Any]:
    """Read a file of a config group as plain data, captau's or one's own."""
    path = own_files(group_name).get(name)
    if path:
        return YamlDocument.read(path).plain
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


#: In the order in which tables group metrics; `given` are score files and functions of one's own, `released` files of scores
#: that somebody published.
METRIC_KINDS = ("reference-based", "reference-free", "learned", "given", "released")


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


def metric_labels(metrics: Iterable[Metric]) -> dict[str, str]:
    """Return what tables call each metric, by its spec."""
    return {metric.spec: metric_style(metric).label for metric in metrics}


def record_styles(metrics: Iterable[Metric]) -> dict[str, dict[str, Any]]:
    """Return the fields of metrics' styles by their specs, for run.json."""
    return {metric.spec: vars(metric_style(metric)) for metric in metrics}


def own_labels(styles: Mapping[str, MetricStyle]) -> frozenset[str]:
    """Return the labels of the user's own metrics."""
    return frozenset(style.label for style in styles.values() if style.kind == "given")


def style_notes(styles: Iterable[MetricStyle]) -> list[str]:
    """Return the notes of metrics' styles, each once, as metrics of one family share theirs."""
    notes = dict.fromkeys(style.note for style in styles)
    return list(filter(None, notes))


def metric_style(instance: Metric) -> MetricStyle:
    """Return the style of a metric, from its file in `conf/metric/`."""
    name = registered_name(instance)  # not its own name, which another class may bear
    if name is None or name not in shipped_names("metric"):
        return MetricStyle(
            label=instance.spec,
            order=1000,  # below captau's own
            scale=1,
            decimals=3,
            note="",
            kind="given",
            higher_is_better=instance.higher_is_better,
            citation="",
        )

    table = read_config("metric", name)
    preset = instance.parameters.get("preset")
    cites = table.get("cites_by_preset", {}).get(preset, table.get("cites", ()))
    brackets = instance.label_spec.removeprefix(instance.name)
    kind = "released" if instance.is_published else table.get("kind")
    # What a function needs is known only once its code is loaded; the file of functions names their kind, so that none is
    # asked here.
    if kind is None:
        kind = "reference-based" if "references" in instance.needs else "reference-free"

    return MetricStyle(
        label=f"{table.get('label', instance.name)}{brackets}",
        order=table["order"],
        scale=table["scale"],
        decimals=table["decimals"],
        note=table.get("note", ""),
        kind=kind,
        higher_is_better=instance.higher_is_better,
        citation="\n".join(bibliography()[key] for key in cites),
    )


def resolve_metrics(selection: Any, *, loads_code: bool = True) -> tuple[Metric, ...]:
    """Return metrics from suites and whatever `external.metric` takes, each once, in the given order.

    Args:
        selection: one, or several.
        loads_code: whether Python code that specs name is loaded, without which a class stands as a function.

    Raises:
        InputError: on an unknown name, an empty list, or two different metrics of one name.
    """
    by_spec: dict[str, Metric] = {}
    instances: list[Metric] = []
    for entry in _entries_of(selection):
        for instance in _metrics_of(entry, loads_code=loads_code):
            if instance in instances:
                continue

            instances.append(instance)
            # Two files or functions of one name are told apart by their folders.
            named = tell_apart(instance, by_spec) if instance.spec in by_spec else instance
            by_spec[named.spec] = named

    if not by_spec:
        raise InputError("metrics is empty; name a suite or metrics, such as metrics=cider")
    return tuple(by_spec.values())


def _entries_of(selection: Any) -> list[Any]:
    if isinstance(selection, str | Metric) or callable(selection):
        return [selection]
    if not isinstance(selection, Iterable | None) or isinstance(selection, Mapping):
        raise InputError(
            f"metrics is {selection!r}; suites or metrics are expected, as metrics=cider"
        )
    return list(selection or ())


def _metrics_of(entry: Any, *, loads_code: bool) -> list[Metric]:
    """Return the metrics of a suite, or one metric."""
    if not isinstance(entry, str):
        if not isinstance(entry, Metric) and not callable(entry):
            raise InputError(
                f"metrics: '{entry}' is not a metric; quote what has brackets: 'metrics=cider(df=FILE)'"
            )
        return [make_metric(entry)]

    suites = group("suite")
    specs = [entry]
    if entry.strip() in suites:
        specs = read_config("suite", entry.strip())["metrics"]
    else:
        name = spell_out(entry).partition("(")[0].strip()
        if find_metric_name(name) is None:
            if name.endswith(".py"):
                raise InputError(
                    f"metrics={name}: name a function or class in it, as {name}:FUNCTION"
                )
            if Path(name).is_file():
                raise InputError(
                    f"metrics={name}: scores in a file of this ending are named as file(path={name}), with "
                    "source=FLEUR if it is FLEUR's"
                )
            raise unknown("metric or suite", name, [*metric_names(), *suites])

    metrics = [parse_metric(spec) for spec in specs]
    if not loads_code:
        return metrics
    return [load_metric(metric) for metric in metrics]


def describe_left_out(selection: Any) -> list[str]:
    """Return a line for each suite that leaves out metrics which its name promises.

    Args:
        selection: what `resolve_metrics` takes.
    """
    lines: list[str] = []
    for entry in _entries_of(selection):
        if not isinstance(entry, str) or entry.strip() not in group("suite"):
            continue
        name = entry.strip()
        text = read_config("suite", name).get("leaves_out")
        if text:
            lines.append(f"metrics={name} leaves out {text}; name them beside it")
    return lines


def optional_specs(selection: Any) -> frozenset[str]:
    """Return the specs of metrics that only suites name, of the entries that `resolve_metrics` takes."""
    suites = group("suite")
    named: list[Any] = []
    for entry in _entries_of(selection):
        if not isinstance(entry, str) or entry.strip() not in suites:
            named.append(entry)

    # Whatever is named as well is not optional, whichever suite it is in.
    named_specs = set[str]()
    if named:
        named_specs = {metric.spec for metric in resolve_metrics(named)}

    all_specs = {metric.spec for metric in resolve_metrics(selection)}
    return frozenset(all_specs - named_specs)


def dataset_names() -> list[str]:
    """List all datasets, sorted: those of the registry and those of one's own files."""
    return sorted({*registry.names(), *own_files("dataset")})


#: Datasets that `dataset=` takes together: the mission's seven, and those of which papers on metrics print numbers.
DATASET_SETS: dict[str, tuple[str, ...]] = {
    "core": (
        "flickr8k_expert",
        "cocog",
        "flickrg",
        "iicr16k",
        "caption_quality",
        "capeval1k",
        "thumb",
    ),
    "classic": (
        "flickr8k_expert",
        "flickr8k_cf",
        "composite",
        "pascal50s",
        "thumb",
        "capeval1k",
        "nebula",
        "cxc_sits",
    ),
}
#: The name that stands for all datasets that are in the data folder.
HERE = "here"
SET_NAMES = (*DATASET_SETS, HERE)
#: Datasets that are parts of another one, which counts in their stead where it is here.
_PARTS = {"composite": ("composite_8k", "composite_30k", "composite_coco")}
#: Scores in place of ratings, which only `captau reproduce` reads.
_NOT_JUDGED = ("billboard_thumb", "fleur")


def expand_sets(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return datasets' names with those of sets spelt out, each once, and those that a set names alone; `here` is one of these."""
    names = list(names)
    sets = dict(DATASET_SETS)
    if HERE in names:
        sets[HERE] = _list_downloaded()

    expanded: list[str] = []
    for name in names:
        for dataset in sets.get(name, (name,)):
            if dataset not in expanded:
                expanded.append(dataset)

    optional = [name for name in expanded if name not in names]
    # It tells `leave_out_absent` that only what is here was asked for.
    if HERE in names:
        optional.append(HERE)
    return expanded, optional


def _list_downloaded() -> tuple[str, ...]:
    """List the judged datasets of the registry that are read from files, wherever these are."""
    left_out = {*own_files("dataset"), *_NOT_JUDGED}
    downloaded: list[str] = []
    for name in dataset_names():
        # A dataset without sources is made up, or the user's own.
        if name not in left_out and registry.card(name).sources:
            downloaded.append(name)
    return tuple(downloaded)


def leave_out_absent(
    names: Sequence[str], optional: Collection[str], root: Path | None
) -> tuple[list[str], list[str]]:
    """Return the datasets that can be read, and those of a set that are not here, which are logged; `here` asks for none.

    Args:
        names: of datasets.
        optional: those of them that a set names alone.
        root: the data folder; None for the usual one.

    Raises:
        InputError: where another one is not here, or all that a set names are not.
    """
    folder = registry.data_root(root)
    own_names = own_files("dataset")
    absent = [n for n in names if n not in own_names and not is_here(folder, registry.card(n))]
    named_absent = [name for name in absent if name not in optional]

    if len(named_absent) == 1:
        registry.load(named_absent[0], root)  # raises the error that names the file
    is_nothing_left = bool(absent) and len(absent) == len(names)
    if named_absent or is_nothing_left:
        raise MissingFileError(
            f"not in the data folder {folder}: {_describe_absent(named_absent or absent)}"
        )

    present = [name for name in names if name not in absent]
    parts = set[str]()
    for dataset in present:
        parts.update(_PARTS.get(dataset, ()))
    counted: list[str] = []
    for name in present:
        # A part that the user named stays beside the whole.
        is_counted_in_whole = name in parts and name in optional
        if not is_counted_in_whole:
            counted.append(name)

    # `here` asks for what is here, so that nothing is missed.
    reported = [] if HERE in optional else absent
    if reported:
        logger.warning("left out, not here: %s", _describe_absent(reported))
    return counted, reported


def _describe_absent(absent: Sequence[str]) -> str:
    """Name datasets that are not here, and the command that gets them."""
    return f"{', '.join(absent)}; captau data fetch dataset={','.join(absent)} gets them, or says where they are"


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


def usual_protocol_of(caption_set: CaptionSet) -> dict[str, Any]:
    """Return what a dataset that was read changes in the usual protocol of `protocol.CHOICES`.

    Of a file of one's own, its card says what is usual for what the file holds; one's own file in `conf/dataset/`
    goes before it.
    """
    # A set made in Python has any name.
    is_known = caption_set.name in dataset_names()
    changes = usual_protocol(caption_set.name) if is_known else {}
    return {**caption_set.card.usual_protocol, **changes}
