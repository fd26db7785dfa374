"""From Hydra's configuration to plain dataclasses; nothing behind this module knows Hydra."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from omegaconf import DictConfig, OmegaConf

from ..conf import group
from ..datasets.cache import cache_root, keep
from ..datasets.errors import InputError, unknown
from ..datasets.registry import load
from ..datasets.schema import CaptionSet
from ..datasets.streams import STDIN
from ..metrics.base import Metric
from ..metrics.learned.recipe import Recipe, make
from ..metrics.neural.device import Device, resolve
from ..metrics.registry import metric, registered_name
from ..metrics.registry import names as metric_names
from ..metrics.text.java import java
from .baseline import POLICIES, TOLERANCES, tolerance_fault
from .bootstrap import TESTS, Statistics
from .protocol import Protocol
from .store import ScoreStore

_CONF = "captau.conf"
#: In a rater's file, an option that has no default.
NEEDED = "needed"
#: The dataset that reads judgements of your own.
OWN = "file"


@dataclass(frozen=True)
class Where:
    """Folders of a run, and where a user's own judgements are: the options of the dataset `file`."""

    data_root: Path | None = None
    cache_root: Path | None = None
    use_cache: bool = True
    output_dir: Path | None = None
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def load(self, dataset: str) -> CaptionSet:
        """A dataset from these folders."""
        options = self.own if dataset == OWN else {}
        return load(dataset, self.data_root, **options)

    def store(self) -> ScoreStore:
        """Where scores are kept."""
        return ScoreStore(cache_root(self.cache_root) if self.use_cache else None)


@dataclass(frozen=True)
class BenchConfig:
    """What `captau bench` does: datasets with their protocols, and metrics; and `captau compare`, which
    has `tests` besides.
    """

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ceilings: bool = True
    floors: bool = False
    statistics: Statistics = field(default_factory=Statistics)
    tests: tuple[str, ...] = ()
    #: Specs that suites alone asked for: what cannot be computed of them is listed as missing.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for test in self.tests:
            if test not in TESTS:
                raise unknown("test", test, TESTS)
        if self.tests and len(self.metrics) < 2:
            named = ", ".join(metric.spec for metric in self.metrics)
            raise InputError(f"metrics is [{named}]; two are needed to compare")
        if self.tests and not self.statistics.resamples:
            raise InputError(
                f"statistics.interval={self.statistics.interval} draws no images, which a comparison "
                "needs; choose percentile or bca"
            )


@dataclass(frozen=True)
class AgreeConfig:
    """What `captau agree` does: datasets with their protocols, and what is drawn by lot."""

    datasets: dict[str, Protocol]
    seed: int = 0
    draws: int = 20
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws is {self.draws}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


#: What `captau agree` measures: ratings, captions, or the words that people use.
AGREED = ("ratings", "captions", "words")
#: Which caption of an image is held out.
HELD_OUT = ("each", "last", "draw")


@dataclass(frozen=True)
class HumanConfig:
    """What `captau agree kind=captions` and `kind=words` do.

    Attributes:
        kind: `captions` or `words`.
        references: a file of them; None for those of the datasets.
        held_out: which caption of an image is held out, see `human.held_out`.
        k: how many captions the held-out one is set against; the first k + 1 of an image count.
        n_words: how many words, the most frequent ones.
        scores: a system's file of `image_id, word, score`.
        label: words to name in the figure; empty for some of all.
    """

    kind: str
    datasets: tuple[str, ...]
    references: Path | None = None
    metrics: tuple[Metric, ...] = ()
    optional: frozenset[str] = frozenset()
    held_out: str = "each"
    k: int | None = None
    seed: int = 0
    draws: int = 20
    n_words: int = 1000
    scores: Path | None = None
    label: tuple[str, ...] = ()
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.held_out not in HELD_OUT:
            raise unknown("value of held_out", self.held_out, HELD_OUT)
        if self.kind == "words" and self.held_out == "draw":
            raise InputError(
                "held_out=draw is of kind=captions; of words, held_out=each is the mean of all draws"
            )
        for name, value in (("draws", self.draws), ("k", self.k), ("words.n", self.n_words)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


#: What `captau sensitivity` varies.
KINDS = ("images", "raters", "references", "power", "protocols")


@dataclass(frozen=True)
class SensitivityConfig:
    """What `captau sensitivity` does: datasets with their protocols, metrics, and what is varied."""

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    kinds: tuple[str, ...] = ("images",)
    seed: int = 0
    draws: int | None = None
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchConfig`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise unknown("kind", kind, KINDS)
        if not self.kinds:
            raise InputError(f"kind is empty; name one at least: {', '.join(KINDS)}")
        if self.draws is not None and self.draws < 2:
            raise InputError(f"draws is {self.draws}; a whole number from 2 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


@dataclass(frozen=True)
class ComplementConfig:
    """What `captau complement` does: datasets with their protocols, metrics, and how often to draw."""

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    seed: int = 0
    draws: int = 100
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchConfig`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws is {self.draws}; a whole number from 1 on is expected")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")


@dataclass(frozen=True)
class ThresholdsConfig:
    """What `captau thresholds` does.

    Attributes:
        good: the share of the scale from which a rating is a good one.
        precision: what share of the kept captions shall be good.
    """

    datasets: dict[str, Protocol]
    metrics: tuple[Metric, ...]
    good: float = 0.5
    precision: float = 0.8
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: As in `BenchConfig`.
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _check_shares(self)


def _check_shares(chosen: ThresholdsConfig | ChartOptions) -> None:
    """
    Raises:
        InputError: where what shall be a share is none.
    """
    for name in ("good", "precision"):
        if not 0 < getattr(chosen, name) <= 1:
            raise InputError(
                f"{name} is {getattr(chosen, name)}; a number above 0 and up to 1 is expected"
            )


#: What is drawn, and what it shows.
CHARTS = {
    "forest": "Coefficients with intervals",
    "categories": "Accuracy by category of preferences",
    "significance": "Which metrics differ",
    "ratings": "How people rated",
    "agreement": "How well people agree, and the ceilings",
    "scores": "Scores against ratings",
    "correlations": "Metrics against one another",
    "precision_recall": "Filtering captions by a metric",
}


@dataclass(frozen=True)
class ChartOptions:
    """What charts can be told; `good` and `precision` as in `ThresholdsConfig`."""

    good: float = 0.5
    precision: float = 0.8

    def __post_init__(self) -> None:
        _check_shares(self)


@dataclass(frozen=True)
class ReportConfig:
    """What `captau report` does.

    Attributes:
        run: the run's folder.
        output: the page; None for `report.html` in that folder.
        images: a folder to look for pictures in.
        megabytes: how large the page may be, in 10⁶ bytes.
        options: of its charts.
    """

    run: Path
    output: Path | None = None
    images: Path | None = None
    megabytes: float = 3.0
    options: ChartOptions = field(default_factory=ChartOptions)

    def __post_init__(self) -> None:
        if not self.megabytes > 0:
            raise InputError(f"megabytes is {self.megabytes}; a number above 0 is expected")
        if self.images is not None and not self.images.is_dir():
            raise InputError(f"images={self.images} is no folder")


@dataclass(frozen=True)
class PlotConfig:
    """What `captau plot` does.

    Attributes:
        run: the run's folder.
        kinds: of `CHARTS`.
        output_dir: where to; None for `plots` in that folder.
        options: of the charts.
    """

    run: Path
    kinds: tuple[str, ...] = tuple(CHARTS)
    output_dir: Path | None = None
    options: ChartOptions = field(default_factory=ChartOptions)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in CHARTS:
                raise unknown("kind", kind, CHARTS)
        if not self.kinds:
            raise InputError(f"kind is empty; name one at least: {', '.join(CHARTS)}")


DESIGNS = ("split", "transfer", "folds", "leave_one_out")


@dataclass(frozen=True)
class TrainConfig:
    """What `captau train` does.

    Attributes:
        recipe: the rater with its options.
        datasets: with their protocols, by which predictions are judged.
        design: which images are trained, chosen and tested on; see `train`.
        folds: how many, for `design=folds`.
        strict: whether folds leave out of training the images that a tested caption was borrowed from.
        seeds: one training of each job for each.
        target: the dimension to learn; None where there is no choice.
        shuffled: train on ratings in another order: the control that every rater must beat.
        keep: whether the raters stay; after `design=folds` they do not as a rule.
        metrics: what the predictions are compared with, on the same rows.
        device, threads: of torch.
    """

    recipe: Recipe
    datasets: dict[str, Protocol]
    design: str = "split"
    folds: int = 5
    strict: bool = False
    seeds: tuple[int, ...] = (0,)
    target: str | None = None
    shuffled: bool = False
    keep: bool = True
    metrics: tuple[Metric, ...] = ()
    device: str = "cpu"
    threads: int | None = None
    statistics: Statistics = field(default_factory=Statistics)
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise unknown("value of design", self.design, DESIGNS)
        if self.folds < 2:
            raise InputError(f"folds is {self.folds}; a whole number from 2 on is expected")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads is {self.threads}; a whole number from 1 on is expected")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(
                f"seeds is {list(self.seeds)}; different whole numbers from 0 on are expected"
            )
        if self.strict and self.design != "folds":
            raise InputError("strict=true is of design=folds")


@dataclass(frozen=True)
class Named:
    """A file of the user's, `-` for standard input, and what results call it."""

    name: str
    path: Path


#: What `captau score` can print: tables, or one of its files and nothing else.
PRINTED = ("table", "scores.jsonl", "scores.csv", "corpus.json", "corpus.csv", "kept.json")


@dataclass(frozen=True)
class ScoreConfig:
    """What `captau score` does.

    Attributes:
        candidates: each system's captions.
        references: sets of references, each scored against by itself; empty for metrics without.
        images: the folder of the images.
        partial: whether images may lack a caption, or references in some set.
        trust: where metrics' agreement with people is from: `published`, or a run's folder; None for
            no word on it.
        keep: a metric's spec and the least score of a caption that is kept.
        stdout: what is printed, of `PRINTED`.
    """

    candidates: tuple[Named, ...]
    references: tuple[Named, ...]
    images: Path | None
    metrics: tuple[Metric, ...]
    optional: frozenset[str] = frozenset()
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keep: tuple[str, float] | None = None
    partial: bool = False
    trust: str | None = None
    stdout: str = "table"
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        if self.statistics.interval == "fisher":
            raise InputError(
                "statistics.interval=fisher is of correlations; choose percentile, bca or none"
            )
        if self.keep is not None and len(self.candidates) * len(self.references or "-") > 1:
            raise InputError("keep.metric= is of one system and one set of references")
        if self.stdout not in PRINTED:
            raise unknown("value of stdout", self.stdout, PRINTED)
        if self.stdout == "kept.json" and self.keep is None:
            raise InputError("stdout=kept.json needs keep.metric=METRIC and keep.above=SCORE")
        if sum(one.path == STDIN for one in (*self.candidates, *self.references)) > 1:
            raise InputError("standard input can be read once; name a file for the others")


@dataclass(frozen=True)
class CheckConfig:
    """What `captau check` does. What goes into a baseline is None where the file says it, or the default.

    Attributes:
        baseline: the file.
        update: whether to write it.
        dataset, protocol, metrics: what is scored, how (what differs from the usual), and with what.
        optional: as in `BenchConfig`.
        sample: how many items' scores the file shows; drawn with `seed`.
        tolerance: how far a score may move.
        versions: which changed versions fail by themselves, one of `baseline.POLICIES`.
        packages: distributions whose versions are recorded beside those that metrics name.
        junit: where to write a JUnit report.
    """

    baseline: Path
    update: bool = False
    dataset: str | None = None
    protocol: Mapping[str, Any] | None = None
    metrics: tuple[Metric, ...] | None = None
    optional: frozenset[str] = frozenset()
    sample: int | None = None
    seed: int | None = None
    tolerance: float | None = None
    versions: str | None = None
    packages: tuple[str, ...] = ()
    junit: Path | None = None
    where: Where = field(default_factory=Where)

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 1:
            raise InputError(f"sample is {self.sample}; a whole number from 1 on is expected")
        if self.seed is not None and self.seed < 0:
            raise InputError(f"seed is {self.seed}; a whole number from 0 on is expected")
        if self.tolerance is not None and not TOLERANCES[0] <= self.tolerance <= TOLERANCES[1]:
            raise InputError(tolerance_fault(self.tolerance))
        if self.versions is not None and self.versions not in POLICIES:
            raise unknown("value of versions", self.versions, POLICIES)


#: What `captau validate` checks, and the endings that are of scores where nobody says.
SUBMITTED = ("captions", "scores")
_SCORES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class ValidateConfig:
    """What `captau validate` does.

    Attributes:
        file: the submission.
        kind: `captions` or `scores`; None goes by the dataset and the file's ending.
        references: of the images that need a caption each.
        dataset: whose items need a score each.
        member: which file of a zip the references are of; None where there is one.
        limit: how many faults are listed.
        data_root: the data folder; None for the usual one.
    """

    file: Path
    kind: str | None = None
    references: Path | None = None
    dataset: str | None = None
    member: str | None = None
    limit: int = 20
    data_root: Path | None = None

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in SUBMITTED:
            raise unknown("kind", self.kind, SUBMITTED)
        if self.limit < 1:
            raise InputError(f"limit is {self.limit}; a whole number from 1 on is expected")
        if self.of_scores and (self.references or self.member):
            raise InputError("references=… and member=… are of captions; scores want dataset=NAME")
        if not self.of_scores and self.dataset:
            raise InputError("dataset=… is of scores; captions want references=FILE")

    @property
    def of_scores(self) -> bool:
        """Whether the file holds a metric's scores."""
        if self.kind is not None:
            return self.kind == "scores"
        return self.dataset is not None or self.file.suffix.lower() in _SCORES


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper, as its file in `conf/paper/` describes it."""

    table: str
    kind: str
    dataset: str
    title: str
    scale: float
    protocol: dict[str, Any]
    rows: dict[str, Any]
    columns: dict[str, dict[str, Any]]
    note: str


@dataclass(frozen=True)
class ReproduceConfig:
    """What `captau reproduce` does: papers with their tables, but for some metrics."""

    papers: dict[str, tuple[PaperTable, ...]]
    leave_out: tuple[str, ...] = ()
    where: Where = field(default_factory=Where)
    resolved: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class DataConfig:
    """What `captau data fetch`, `import` and `verify` do.

    Attributes:
        names: datasets; all of them where none was named.
        named: whether the names were given one by one.
        models: what else was named: files that a metric needs.
        root: the data folder; None for the usual one.
        offline: whether to leave the network alone.
        source: what to import from.
        images: where image files lie.
    """

    names: tuple[str, ...]
    named: bool
    models: tuple[str, ...]
    root: Path | None
    offline: bool
    source: Path
    images: Path | None


#: How `captau table` prints, and how it shows intervals.
STYLES = ("markdown", "latex", "html", "csv", "json")
SHOWN_AS = ("subscript", "plusminus", "none")


@dataclass(frozen=True)
class TableConfig:
    """What `captau table` does.

    Attributes:
        runs: folders of finished runs.
        style: one of `STYLES`.
        intervals: one of `SHOWN_AS`.
        published: papers whose numbers are joined.
        coefficients, dimensions: which columns, in this order; empty for all.
        title, label: of the table; None for one of captau's own, and for none.
        output: the file to write; None for standard output.
    """

    runs: tuple[Path, ...]
    style: str = "markdown"
    intervals: str = "subscript"
    published: tuple[str, ...] = ()
    coefficients: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    title: str | None = None
    label: str | None = None
    output: Path | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise unknown("style", self.style, STYLES)
        if self.intervals not in SHOWN_AS:
            raise unknown("value of intervals", self.intervals, SHOWN_AS)
        if self.label and re.search(r"[{}%\\#\s]", self.label):
            raise InputError(
                f"label={self.label}: LaTeX takes no blank and none of {{ }} % \\ # in a label"
            )
        for paper in self.published:
            if paper not in group("paper"):
                raise unknown("paper", paper, [*group("paper"), "all"])


@dataclass(frozen=True)
class CiteConfig:
    """What `captau cite` does: folders of finished runs, and the file to write, if any."""

    runs: tuple[Path, ...]
    output: Path | None = None


@cache
def bibliography() -> dict[str, str]:
    """The entries of `conf/citations.bib` by key; blank lines part them."""
    text = (resources.files(_CONF) / "citations.bib").read_text(encoding="utf-8")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.split("\n\n")}


@cache
def read(group_name: str, name: str) -> dict[str, Any]:
    """One file of a config group, as plain data."""
    text = (resources.files(_CONF) / group_name / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


#: In the order in which tables group metrics; `given` are score files and functions of one's own.
METRIC_KINDS = ("reference-based", "reference-free", "learned", "given")


@dataclass(frozen=True)
class MetricStyle:
    """How tables show a metric, from its file in `conf/metric/`.

    Attributes:
        label, order: what it is called, and where it stands.
        scale, decimals: the factor of its own scores, and their digits.
        note: what stands below a table that has it.
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


def style(chosen: Metric) -> MetricStyle:
    """The style of a metric, from its file in `conf/metric/`."""
    name = registered_name(chosen)  # not its own name, which another class may bear
    if name is None or name not in group("metric"):
        return MetricStyle(chosen.spec, 1000, 1, 3, "", "given", chosen.higher_is_better, "")
    table = read("metric", name)
    brackets = chosen.spec.removeprefix(chosen.name)
    return MetricStyle(
        label=f"{table.get('label', chosen.name)}{brackets}",
        order=table["order"],
        scale=table["scale"],
        decimals=table["decimals"],
        note=table.get("note", ""),
        kind=table.get("kind")
        or ("reference-based" if "references" in chosen.needs else "reference-free"),
        higher_is_better=chosen.higher_is_better,
        citation="\n".join(bibliography()[key] for key in table.get("cites", ())),
    )


def metrics_of(wanted: Any) -> tuple[Metric, ...]:
    """Metrics from names, specs, suites and `Metric` objects, each once, in the given order.

    Raises:
        InputError: on an unknown name, an empty list, or two different metrics of one name.
    """
    entries: Any = [wanted] if isinstance(wanted, str | Metric) else wanted or []
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise InputError(
            f"metrics is {wanted!r}; suites or metrics are expected, as metrics=[cider]"
        )
    suites = group("suite")
    found: dict[str, Metric] = {}
    for entry in entries:
        if isinstance(entry, Metric):
            chosen = [entry]
        elif not isinstance(entry, str):
            raise InputError(
                f"metrics: '{entry}' is no metric; quote it: metrics=[\"cider(df=F)\"]"
            )
        elif entry.strip() in suites:
            chosen = [metric(name) for name in read("suite", entry.strip())["metrics"]]
        elif entry.partition("(")[0].strip() not in metric_names():
            raise unknown("metric or suite", entry.partition("(")[0], [*metric_names(), *suites])
        else:
            chosen = [metric(entry)]
        for one in chosen:
            if found.setdefault(one.spec, one) != one:
                raise InputError(f"metrics: two different metrics are called '{one.spec}'")
    if not found:
        raise InputError("metrics is empty; name a suite or metrics, such as metrics=[cider]")
    return tuple(found.values())


def optional_of(wanted: Any) -> frozenset[str]:
    """The specs of metrics that suites alone ask for, of what `metrics_of` takes."""
    entries: Any = [wanted] if isinstance(wanted, str | Metric) else wanted or []
    suites = group("suite")
    named = [e for e in entries if not isinstance(e, str) or e.strip() not in suites]
    by_name = {m.spec for m in metrics_of(named)} if named else set[str]()
    return frozenset({m.spec for m in metrics_of(wanted)} - by_name)


def bench_config(config: DictConfig) -> BenchConfig:
    """From the composed configuration of `captau bench` or `captau compare`."""
    plain = _plain(config)
    return BenchConfig(
        **_scored(plain),
        ceilings=plain["ceilings"],
        floors=plain["floors"],
        statistics=statistics_of(plain["statistics"]),
        tests=_tests(plain["tests"]) if "tests" in plain else (),
    )


def _scored(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What every command that scores datasets has, by field."""
    return {
        "datasets": _datasets(plain),
        "metrics": metrics_of(plain["metrics"]),
        "optional": optional_of(plain["metrics"]),
        "where": _where(plain),
        "resolved": plain,
    }


def _tests(wanted: Any) -> tuple[str, ...]:
    """Tests, from one or several; at least one."""
    tests: Any = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(tests, Iterable) or isinstance(tests, Mapping) or not list(tests):
        raise InputError(f"tests is {wanted!r}; one or several of {', '.join(TESTS)} are expected")
    return tuple(dict.fromkeys(str(test) for test in tests))


#: Options of `captau agree` that not all kinds have: which have them, and what they are where nobody says.
_OF_KINDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "references": (("captions", "words"), None),
    "held_out": (("captions", "words"), "each"),
    "k": (("captions", "words"), None),
    "metrics": (("captions",), None),
    "words.n": (("words",), 1000),
    "words.scores": (("words",), None),
    "words.label": (("words",), []),
    "protocol.dimension": (("ratings",), None),
    "protocol.systems": (("ratings",), None),
    "protocol.split": (("ratings",), None),
}


def _agreed(config: DictConfig) -> dict[str, Any]:
    """The plain configuration of `captau agree`.

    Raises:
        InputError: on an unknown kind, or an option of another one.
    """
    plain = _plain(config)
    if plain["kind"] not in AGREED:
        raise unknown("kind", plain["kind"], AGREED)
    for name, (kinds, usual) in _OF_KINDS.items():
        group_, _, key = name.rpartition(".")
        value = (plain[group_] if group_ else plain)[key]
        if value != usual and plain["kind"] not in kinds:
            raise InputError(f"{name}=… belongs to {' or '.join(f'kind={k}' for k in kinds)}")
    return plain


def agree_config(config: DictConfig) -> AgreeConfig:
    """From the composed configuration of `captau agree kind=ratings`."""
    plain = _agreed(config)
    return AgreeConfig(_datasets(plain), plain["seed"], plain["draws"], _where(plain), plain)


def human_config(config: DictConfig) -> HumanConfig:
    """From the composed configuration of `captau agree kind=captions` or `kind=words`.

    Raises:
        InputError: where both a file of references and a dataset are given, or an option makes no
            sense.
    """
    plain = _agreed(config)
    references, datasets = _path(plain["references"]), tuple(plain["datasets"])
    if references is not None and datasets != ("demo",):
        raise InputError("give references=FILE or dataset=NAME, not both")
    names_of(plain["datasets"])
    words, captions = plain["words"], plain["kind"] == "captions"
    wanted = "text" if plain["metrics"] is None else plain["metrics"]
    label: Any = [words["label"]] if isinstance(words["label"], str) else words["label"]
    return HumanConfig(
        kind=plain["kind"],
        datasets=datasets if references is None else (),
        references=references,
        metrics=metrics_of(wanted) if captions else (),
        optional=optional_of(wanted) if captions else frozenset(),
        held_out=plain["held_out"],
        k=plain["k"],
        seed=plain["seed"],
        draws=plain["draws"],
        n_words=words["n"],
        scores=_path(words["scores"]),
        label=tuple(map(str, label)),
        where=_where(plain),
        resolved=plain,
    )


def sensitivity_config(config: DictConfig) -> SensitivityConfig:
    """From the composed configuration of `captau sensitivity`.

    Raises:
        InputError: on an unknown kind, or a number that makes no sense.
    """
    plain = _plain(config)
    kind = plain["kind"]
    kinds = kind if isinstance(kind, list) else [kind]
    return SensitivityConfig(
        **_scored(plain),
        kinds=tuple(dict.fromkeys(map(str, kinds))),
        seed=plain["seed"],
        draws=plain["draws"],
    )


def complement_config(config: DictConfig) -> ComplementConfig:
    """From the composed configuration of `captau complement`."""
    plain = _plain(config)
    return ComplementConfig(**_scored(plain), seed=plain["seed"], draws=plain["draws"])


def thresholds_config(config: DictConfig) -> ThresholdsConfig:
    """From the composed configuration of `captau thresholds`."""
    plain = _plain(config)
    return ThresholdsConfig(**_scored(plain), good=plain["good"], precision=plain["precision"])


def report_config(config: DictConfig) -> ReportConfig:
    """From the composed configuration of `captau report`."""
    plain = _plain(config)
    return ReportConfig(
        run=Path(plain["run"]).expanduser(),
        output=_path(plain["output"]),
        images=_path(plain["images"]),
        megabytes=plain["megabytes"],
        options=ChartOptions(plain["good"], plain["precision"]),
    )


def plot_config(config: DictConfig) -> PlotConfig:
    """From the composed configuration of `captau plot`."""
    plain = _plain(config)
    kind = plain["kind"]
    chosen = list(CHARTS) if kind is None else kind if isinstance(kind, list) else [kind]
    return PlotConfig(
        run=Path(plain["run"]).expanduser(),
        kinds=tuple(dict.fromkeys(map(str, chosen))),
        output_dir=_path(plain["output_dir"]),
        options=ChartOptions(plain["good"], plain["precision"]),
    )


def train_config(config: DictConfig, given: Iterable[str] = ()) -> TrainConfig:
    """From the composed configuration of `captau train`.

    Args:
        given: the overrides as typed, `rater.epochs=10`: these stand against what a rater's file has
            for the demo.

    Raises:
        InputError: on a missing rater, or an option that makes no sense.
    """
    plain = _plain(config)
    options = dict(plain["rater"])
    name = options.pop("name", None)
    if name is None:
        raise InputError(f"the option rater=… is needed: {', '.join(group('rater'))}")
    for_demo = options.pop("demo", {})
    typed = {word.partition("=")[0].lstrip("+") for word in given}
    if set(plain["datasets"]) == {"demo"}:
        options |= {k: v for k, v in for_demo.items() if f"rater.{k}" not in typed}
    lacking = [k for k, v in options.items() if v == NEEDED]
    if lacking:
        raise InputError(
            f"rater {name}: the option rater.{lacking[0]}=… is needed; see captau train --help"
        )
    if plain["device"] not in get_args(Device):
        raise unknown("device", plain["device"], get_args(Device))
    # A rater's card names its files wherever it is used from.
    options = {k: _absolute(v) for k, v in options.items()}
    seeds: Any = plain["seeds"]
    design = plain["design"]
    return TrainConfig(
        recipe=make(name, options),
        datasets=_datasets(plain),
        design=design,
        folds=plain["folds"],
        strict=plain["strict"],
        seeds=_whole_numbers(seeds, "seeds"),
        target=plain["target"],
        shuffled=plain["shuffled"],
        keep=design != "folds" if plain["keep"] is None else plain["keep"],
        metrics=metrics_of(plain["metrics"]) if plain["metrics"] else (),
        device=resolve(plain["device"]),
        threads=plain["threads"],
        statistics=statistics_of(plain["statistics"]),
        where=_where(plain),
        resolved={**plain, "rater": {"name": name, **options}},
    )


def _absolute(value: Any) -> Any:
    """A path of something that is here as one from the root; anything else as it is."""
    if not isinstance(value, str) or not (Path(value).suffix or "/" in value or "\\" in value):
        return value
    path = Path(value).expanduser()
    return str(path.resolve()) if path.exists() else value


def _whole_numbers(given: Any, what: str) -> tuple[int, ...]:
    """One whole number, or several.

    Raises:
        InputError: where there is anything else.
    """
    numbers: Any = [given] if isinstance(given, int) else given
    if not isinstance(numbers, list | tuple) or not all(type(n) is int for n in numbers):
        raise InputError(f"{what} is {given!r}; whole numbers are expected, as {what}=[0,1,2]")
    return tuple(numbers)


def names_of(dataset: Any) -> list[str]:
    """Datasets' names, from one or several.

    Raises:
        InputError: where there is none, or something that is no name.
    """
    names: Any = [dataset] if isinstance(dataset, str) else dataset
    names = list(names) if isinstance(names, Iterable) else [names]
    if not names:
        raise InputError("dataset is empty; name one at least, see captau data list")
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"dataset is {dataset!r}; a name or a list of names is expected")
    return names


def changes_of(protocol: Any) -> dict[str, Any]:
    """What differs from the usual protocol: a mapping, or the name of a file in `conf/protocol/`.

    Raises:
        InputError: on an unknown name or option, or anything else.
    """
    if isinstance(protocol, str):
        if protocol not in group("protocol"):
            raise unknown("protocol", protocol, group("protocol"))
        protocol = read("protocol", protocol)
    if not isinstance(protocol, Mapping | None):
        raise InputError(f"protocol is {protocol!r}; a name or a dict of options is expected")
    changes = dict(protocol or {})
    known = Protocol.__dataclass_fields__
    for key in changes:
        if key not in known:
            raise unknown("option of protocol", str(key), known)
    return changes


def statistics_of(options: Any) -> Statistics:
    """From a mapping of options; None for the usual ones.

    Raises:
        InputError: on an unknown option, or a value that makes no sense.
    """
    if not isinstance(options, Mapping | None):
        raise InputError(f"statistics is {options!r}; a dict of options is expected")
    for key in options or {}:
        if key not in Statistics.__dataclass_fields__:
            raise unknown("option of statistics", str(key), Statistics.__dataclass_fields__)
    return Statistics(**(options or {}))


def _datasets(plain: Mapping[str, Any]) -> dict[str, Protocol]:
    names_of(plain["datasets"])
    return {
        name: Protocol.resolve(name, options["protocol"], plain["protocol"])
        for name, options in plain["datasets"].items()
    }


def reproduce_config(config: DictConfig) -> ReproduceConfig:
    """From the composed configuration of `captau reproduce`."""
    plain = _plain(config)
    papers = {
        name: tuple(PaperTable(**table) for table in paper["tables"])
        for name, paper in plain["papers"].items()
    }
    for name in plain["leave_out"]:
        if name not in metric_names():
            raise unknown("metric", name, metric_names())
    return ReproduceConfig(papers, tuple(plain["leave_out"]), _where(plain), plain)


def score_config(config: DictConfig) -> ScoreConfig:
    """From the composed configuration of `captau score`.

    Raises:
        InputError: where one of `keep.metric` and `keep.above` is given without the other, or the
            metric is not among those that are computed.
    """
    plain = _plain(config)
    wanted, above = plain["keep"]["metric"], plain["keep"]["above"]
    if (wanted is None) != (above is None):
        raise InputError("keep.metric=METRIC and keep.above=SCORE go together")
    keep = None
    if wanted is not None:
        keep = metrics_of(wanted)[0].spec, above
        known = [m.spec for m in metrics_of(plain["metrics"])]
        if keep[0] not in known:
            raise unknown("metric to keep by", keep[0], known)
    return ScoreConfig(
        keep=keep,
        candidates=files_of(plain["candidates"], "candidates"),
        references=files_of(plain["references"], "references") if plain["references"] else (),
        images=_path(plain["images"]),
        metrics=metrics_of(plain["metrics"]),
        optional=optional_of(plain["metrics"]),
        where=_where(plain),
        resolved=plain,
        partial=plain["partial"],
        trust=plain["trust"],
        stdout=plain["stdout"],
        statistics=statistics_of(plain["statistics"]),
    )


def check_config(config: DictConfig, given: Iterable[str]) -> CheckConfig:
    """From the composed configuration of `captau check`.

    Args:
        given: the overrides as typed, `dataset=demo`: the dataset and the protocol that nobody typed are
            the baseline's.

    Raises:
        InputError: on several datasets, or an option that makes no sense.
    """
    plain = _plain(config)
    typed = {word.partition("=")[0] for word in given}
    names = names_of(list(plain["datasets"]))
    if len(names) > 1:
        raise InputError(f"dataset is [{','.join(names)}]; a baseline is of one dataset")
    packages: Any = plain["packages"]
    return CheckConfig(
        baseline=Path(plain["baseline"]).expanduser(),
        update=plain["update"],
        dataset=names[0] if "dataset" in typed else None,
        protocol=plain["protocol"]
        if any(word.partition(".")[0] == "protocol" for word in typed)
        else None,
        metrics=None if plain["metrics"] is None else metrics_of(plain["metrics"]),
        optional=frozenset() if plain["metrics"] is None else optional_of(plain["metrics"]),
        sample=plain["sample"],
        seed=plain["seed"],
        tolerance=plain["tolerance"],
        versions=plain["versions"],
        packages=(packages,) if isinstance(packages, str) else tuple(map(str, packages)),
        junit=_path(plain["junit"]),
        where=Where(
            data_root=_path(plain["data"]["root"]),
            cache_root=_path(plain["cache"]["root"]),
            use_cache=False,
            own=_own(plain),
        ),
    )


def files_of(given: Any, option: str) -> tuple[Named, ...]:
    """Files, from one or several, each as `path` or `name=path`.

    A file without a name is called by its own without the ending, or, where two would be called
    alike, by its path.

    Raises:
        InputError: where there is none, or two have one name.
    """
    entries: Any = [given] if isinstance(given, str) else given
    if not isinstance(entries, list | tuple) or not entries or not all(entries):
        raise InputError(f"{option} is {given!r}; a file is expected, or several as [A,B]")
    found: list[tuple[str, Path]] = []
    for entry in map(str, entries):
        name, equals, rest = entry.partition("=")
        # A path may hold an equals sign as well: lr=0.1/results.json
        named = equals and rest and "/" not in name and not Path(entry).expanduser().exists()
        found.append((name, Path(rest)) if named else ("", Path(entry)))
    own = [_own_name(path) for name, path in found if not name]
    files = [
        Named(
            name or (_own_name(path) if own.count(_own_name(path)) == 1 else str(path)),
            path.expanduser(),
        )
        for name, path in found
    ]
    names = [one.name for one in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(
            f"two of {option} are called '{twice}'; name them: {option}=[a=FILE,b=FILE]"
        )
    return tuple(files)


def _own_name(path: Path) -> str:
    if path == STDIN:
        return "stdin"
    return path.with_suffix("").stem if path.suffix == ".gz" else path.stem


def validate_config(config: DictConfig) -> ValidateConfig:
    """From the composed configuration of `captau validate`.

    Raises:
        InputError: on several datasets, or an option that makes no sense.
    """
    plain = _plain(config)
    names = list(plain["datasets"])
    if len(names) > 1:
        raise InputError(f"dataset is [{','.join(names)}]; scores are of one dataset")
    return ValidateConfig(
        file=Path(plain["file"]).expanduser(),
        kind=plain["kind"],
        references=_path(plain["references"]),
        dataset=names[0] if names else None,
        member=plain["member"],
        limit=plain["limit"],
        data_root=_path(plain["data"]["root"]),
    )


def data_config(config: DictConfig, *, needed: bool = True) -> DataConfig:
    """From the composed configuration of `captau data fetch`, `import` and `verify`.

    Raises:
        InputError: where no dataset is given and one is `needed`.
    """
    plain = _plain(config)
    chosen, models = tuple(plain["datasets"]), tuple(plain.get("models", ()))
    if needed and not chosen and not models:
        raise InputError(
            "the option dataset=… is needed: a name, [A,B] or all; see captau data list"
        )
    everything = tuple(group("dataset"))
    return DataConfig(
        names=chosen if chosen or models else everything,
        named=bool(chosen) and set(chosen) != set(everything),
        models=models,
        root=_path(plain["data"]["root"]),
        offline=plain["data"].get("offline", False),
        source=_path(plain.get("source")) or Path(),
        images=_path(plain["data"].get("images")),
    )


def df_config(config: DictConfig) -> tuple[Path, Path]:
    """References and output file of `captau data df`."""
    plain = _plain(config)
    return Path(plain["references"]).expanduser(), Path(plain["output"]).expanduser()


def usual_protocol(dataset: str) -> dict[str, Any]:
    """A dataset's usual protocol, from its file in `conf/dataset/`."""
    known = group("dataset")
    if dataset not in known:
        raise unknown("dataset", dataset, known)
    return read("dataset", dataset)["protocol"]


def use_java(home: str | None = None, spice: str | None = None) -> None:
    """`java.home=`, `java.spice=`: every Java that is started from here on, and by child processes.

    Raises:
        InputError: where `home` is no Java home, before anything is computed.
    """
    if spice:
        os.environ["CAPTAU_SPICE_JARS"] = spice
    if home:
        os.environ["CAPTAU_JAVA"] = home
        java()


def use_cache(root: str | None, use: bool) -> None:
    """`cache.root=`, `cache.use=`: also for what metrics keep, here and in child processes."""
    if root:
        os.environ["CAPTAU_CACHE"] = root
    keep(use)


def use_weights(root: str | None, download: bool) -> None:
    """`weights.root=` and `weights.download=`: where models lie, and whether they may be fetched."""
    if root:
        os.environ["CAPTAU_WEIGHTS"] = root
    if download:
        os.environ["CAPTAU_DOWNLOAD"] = "1"


def _plain(config: DictConfig) -> dict[str, Any]:
    """Plain data, with the first option that is needed and not given named.

    Raises:
        InputError: where a needed option is missing.
    """
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise InputError(f"the option {missing[0]}=… is needed; see --help")
    plain: Any = OmegaConf.to_container(config, resolve=True)
    plain.pop("hydra", None)
    if weights := plain.get("weights"):
        use_weights(weights["root"], weights["download"])
    use_java(**(plain.get("java") or {}))
    if cache := plain.get("cache"):
        use_cache(cache["root"], cache.get("use", True))
    return plain


def _where(plain: Mapping[str, Any]) -> Where:
    return Where(
        data_root=_path(plain["data"]["root"]),
        cache_root=_path(plain["cache"]["root"]),
        use_cache=plain["cache"]["use"],
        output_dir=_path(plain["output_dir"]),
        own=_own(plain),
    )


def _own(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of the dataset `file`.

    Raises:
        InputError: where there are some and it is not among the datasets.
    """
    given = {k: v for k, v in plain.get("file", {}).items() if v is not None}
    if given and OWN not in plain["datasets"]:
        raise InputError(f"file.{next(iter(given))}=… belongs to dataset=file; choose that too")
    return given


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


def table_config(config: DictConfig) -> TableConfig:
    """From the composed configuration of `captau table`."""
    plain = _plain(config)
    published = _listed(plain["published"], "published")
    return TableConfig(
        runs=_runs(plain),
        style=str(plain["style"]),
        intervals=str(plain["intervals"] or "none"),
        published=tuple(group("paper")) if published == ("all",) else published,
        coefficients=_listed(plain["coefficients"], "coefficients"),
        dimensions=_listed(plain["dimensions"], "dimensions"),
        title=plain["title"],
        label=plain["label"],
        output=_path(plain["output"]),
    )


def cite_config(config: DictConfig) -> CiteConfig:
    """From the composed configuration of `captau cite`."""
    plain = _plain(config)
    return CiteConfig(_runs(plain), _path(plain["output"]))


def _runs(plain: Mapping[str, Any]) -> tuple[Path, ...]:
    """The folders of `run=`, each once.

    Raises:
        InputError: where there is none.
    """
    folders = _listed(plain["run"], "run")
    if not folders:
        raise InputError("run= is empty; name the folder of a finished run, or several: run=[A,B]")
    return tuple(Path(folder).expanduser() for folder in folders)


def _listed(given: Any, option: str) -> tuple[str, ...]:
    """One word or several, each once; none where nothing was given.

    Raises:
        InputError: where there is anything else.
    """
    words: Any = [] if given is None else given if isinstance(given, list) else [given]
    if not all(isinstance(word, str | int | float) for word in words):
        raise InputError(f"{option} is {given!r}; a name or a list of names is expected")
    return tuple(dict.fromkeys(str(word) for word in words))


def collect_config(config: DictConfig) -> dict[str, Any]:
    """The options of `captau collect` and its kin, as plain data; the web side makes of them what it needs."""
    return _plain(config)
