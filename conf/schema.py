"""The types of every option. Hydra checks what a person types against them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class ProtocolOptions:
    """Options of `protocol.`; None leaves the dataset's usual choice as it is."""

    name: str | None = None
    dimension: Any = None
    ratings: str | None = None
    references: str | None = None
    k: int | None = None
    corpus: str | None = None
    systems: Any = None
    split: str | None = None
    coefficients: Any = None
    undefined: str | None = None
    level: str | None = None


@dataclass
class DatasetOptions:
    """What a file in `dataset/` says."""

    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)


@dataclass
class DataOptions:
    root: str | None = None


@dataclass
class CacheOptions:
    root: str | None = None
    use: bool = True


@dataclass
class ScoringCacheOptions(CacheOptions):
    scores: str | None = None


@dataclass
class JavaOptions:
    home: str | None = None


@dataclass
class SpiceOptions:
    spice: str | None = None


@dataclass
class ScoringJavaOptions(JavaOptions, SpiceOptions):
    pass


@dataclass
class WeightsOptions:
    root: str | None = None
    download: bool = False


@dataclass
class CommonOptions:
    """Options of every command that scores."""

    data: DataOptions = field(default_factory=DataOptions)
    cache: ScoringCacheOptions = field(default_factory=ScoringCacheOptions)
    java: ScoringJavaOptions = field(default_factory=ScoringJavaOptions)
    weights: WeightsOptions = field(default_factory=WeightsOptions)
    output_dir: str | None = None


@dataclass
class FileOptions:
    """Options of `dataset=file`, your own judgements; None leaves the reader's default."""

    path: str | None = None
    name: str | None = None
    image: str | None = None
    caption: str | None = None
    value: str | None = None
    rater: str | None = None
    references: str | None = None
    dimension: str | None = None
    system: str | None = None
    split: str | None = None
    low: float | None = None
    high: float | None = None
    step: float | None = None


@dataclass
class StatisticsOptions:
    """Options of `statistics.`; see `benchmarks/statistics/bootstrap.py`."""

    interval: str = "percentile"
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    correction: str = "bh"
    swap: str = "both"
    disattenuate: bool = False


@dataclass
class StudyOptions(CommonOptions):
    """Options of every command that scores datasets."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    metrics: Any = "text"
    file: FileOptions = field(default_factory=FileOptions)


@dataclass
class BenchOptions(StudyOptions):
    """`captau bench`."""

    ceilings: bool = True
    floors: bool = False
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)


@dataclass
class CompareOptions(BenchOptions):
    """`captau compare`."""

    tests: Any = field(default_factory=lambda: ["bootstrap", "permutation", "williams", "mcnemar"])


@dataclass
class AgreeProtocolOptions:
    """What of `protocol.` bears on raters alone."""

    dimension: Any = None
    systems: Any = None
    split: str | None = None


@dataclass
class WordsOptions:
    """Options of `captau agree kind=words`."""

    n: int = 1000
    scores: str | None = None
    label: Any = field(default_factory=list)


@dataclass
class AgreeOptions(CommonOptions):
    """`captau agree`."""

    kind: str = "ratings"
    references: str | None = None
    metrics: Any = None
    held_out: str = "each"
    k: int | None = None
    words: WordsOptions = field(default_factory=WordsOptions)

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    protocol: AgreeProtocolOptions = field(default_factory=AgreeProtocolOptions)
    file: FileOptions = field(default_factory=FileOptions)
    seed: int = 0
    draws: int = 20


@dataclass
class SensitivityOptions(StudyOptions):
    """`captau sensitivity`."""

    kind: Any = "images"
    seed: int = 0
    draws: int | None = None


@dataclass
class ComplementOptions(StudyOptions):
    """`captau complement`."""

    seed: int = 0
    draws: int = 100


@dataclass
class ThresholdsOptions(StudyOptions):
    """`captau thresholds`."""

    good: float = 0.5
    precision: float = 0.8


@dataclass
class TrainOptions(CommonOptions):
    """`captau train`; `rater` holds the options of the chosen file in `rater/`."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    rater: dict[str, Any] = field(default_factory=dict)
    design: str = "split"
    folds: int = 5
    strict: bool = False
    seeds: Any = 0
    target: str | None = None
    shuffled: bool = False
    keep: bool | None = None
    metrics: Any = field(default_factory=list)
    device: str = "auto"
    threads: int | None = None
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    file: FileOptions = field(default_factory=FileOptions)


@dataclass
class TableOptions:
    """One table of a paper: see `benchmarks/commands/reproduce.py` for its kinds."""

    table: str = MISSING
    kind: str = MISSING
    dataset: str = MISSING
    title: str = ""
    scale: float = 1.0
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    rows: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass
class PaperOptions:
    """What a file in `paper/` says."""

    title: str = MISSING
    citation: str = MISSING
    tables: list[TableOptions] = field(default_factory=list)


@dataclass
class ReproduceOptions(CommonOptions):
    """`captau reproduce`."""

    papers: dict[str, PaperOptions] = field(default_factory=dict)
    leave_out: list[str] = field(default_factory=list)


@dataclass
class KeepOptions:
    """Which captions `captau score` keeps: those whose score of `metric` is `above` or more."""

    metric: str | None = None
    above: float | None = None


@dataclass
class ScoreStatisticsOptions:
    """What of `statistics.` bears on corpus scores."""

    interval: str = "percentile"
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0
    correction: str = "bh"


@dataclass
class ColumnsOptions:
    """What the columns of shards are called."""

    image_id: str = "image_id"
    caption: str = "caption"
    references: str = "references"


@dataclass
class RayOptions:
    """A Ray cluster; None is this machine."""

    address: str | None = None


@dataclass
class ScoreOptions(CommonOptions):
    """`captau score`."""

    candidates: Any = MISSING
    references: Any = None
    images: str | None = None
    partial: bool = False
    metrics: Any = "text"
    trust: str | None = "published"
    stdout: str = "table"
    keep: KeepOptions = field(default_factory=KeepOptions)
    statistics: ScoreStatisticsOptions = field(default_factory=ScoreStatisticsOptions)
    engine: str | None = None
    workers: int | None = None
    rows: int | None = None
    columns: ColumnsOptions = field(default_factory=ColumnsOptions)
    skip_corrupt: bool = False
    work: str | None = None
    ray: RayOptions = field(default_factory=RayOptions)


@dataclass
class JudgedOnOptions:
    """Which curve of a run of `captau thresholds`, where it has several."""

    dataset: str | None = None
    dimension: str | None = None


@dataclass
class FilterOptions:
    """`captau filter`."""

    run: str = MISSING
    keep: KeepOptions = field(default_factory=KeepOptions)
    thresholds: str | None = None
    precision: float | None = None
    on: JudgedOnOptions = field(default_factory=JudgedOnOptions)
    engine: str = "local"
    workers: int | None = None
    ray: RayOptions = field(default_factory=RayOptions)
    output_dir: str | None = None


@dataclass
class CheckOptions:
    """`captau check`; None leaves what the baseline says, or the default of a new one."""

    baseline: str = MISSING
    update: bool = False
    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    metrics: Any = None
    sample: int | None = None
    seed: int | None = None
    tolerance: float | None = None
    versions: str | None = None
    packages: Any = field(default_factory=list)
    junit: str | None = None
    file: FileOptions = field(default_factory=FileOptions)
    data: DataOptions = field(default_factory=DataOptions)
    # Nothing is kept or read back: what was kept yesterday would hide what moved today.
    cache: DataOptions = field(default_factory=DataOptions)
    java: ScoringJavaOptions = field(default_factory=ScoringJavaOptions)
    weights: WeightsOptions = field(default_factory=WeightsOptions)


@dataclass
class ValidateOptions:
    """`captau validate`."""

    file: str = MISSING
    kind: str | None = None
    references: str | None = None
    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    member: str | None = None
    limit: int = 20
    data: DataOptions = field(default_factory=DataOptions)


@dataclass
class PlotOptions:
    """`captau plot`."""

    run: str = MISSING
    kind: Any = None
    good: float = 0.5
    precision: float = 0.8
    output_dir: str | None = None


@dataclass
class ReportOptions:
    """`captau report`."""

    run: str = MISSING
    output: str | None = None
    images: str | None = None
    megabytes: float = 3.0
    good: float = 0.5
    precision: float = 0.8


@dataclass
class DataListOptions:
    """`captau data list`."""

    data: DataOptions = field(default_factory=DataOptions)


@dataclass
class FetchOptions(DataOptions):
    offline: bool = False


@dataclass
class DataFetchOptions:
    """`captau data fetch`; `models` are what a metric needs, among the datasets on the command line."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    data: FetchOptions = field(default_factory=FetchOptions)
    java: SpiceOptions = field(default_factory=SpiceOptions)


@dataclass
class DataImportOptions:
    """`captau data import`."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    source: str = MISSING
    data: DataOptions = field(default_factory=DataOptions)


@dataclass
class VerifyOptions(DataOptions):
    images: str | None = None


@dataclass
class DataVerifyOptions:
    """`captau data verify`; see `DataFetchOptions` for `models`."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    data: VerifyOptions = field(default_factory=VerifyOptions)
    java: SpiceOptions = field(default_factory=SpiceOptions)


@dataclass
class DataOverlapOptions:
    """`captau data overlap`."""

    datasets: dict[str, DatasetOptions] = field(default_factory=dict)
    data: DataOptions = field(default_factory=DataOptions)


@dataclass
class DataDfOptions:
    """`captau data df`."""

    references: str = MISSING
    output: str = MISSING
    java: JavaOptions = field(default_factory=JavaOptions)


@dataclass
class JoinedTableOptions:
    """`captau table`."""

    run: Any = MISSING
    style: str = "markdown"
    intervals: str | None = "subscript"
    published: Any = None
    coefficients: Any = None
    dimensions: Any = None
    title: str | None = None
    label: str | None = None
    output: str | None = None


@dataclass
class CiteOptions:
    """`captau cite`."""

    run: Any = MISSING
    output: str | None = None


@dataclass
class GatherOptions:
    """`captau gather`."""

    run: str = MISSING
    rerun: bool = False
    output_dir: str | None = None


@dataclass
class CollectOptions:
    """`captau collect`."""

    study: str = "demo_game"
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None
    proxy: bool = False
    data: DataOptions = field(default_factory=DataOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)


@dataclass
class CollectExportOptions:
    """`captau collect export`."""

    study: str = MISSING
    database: str | None = None
    output_dir: str | None = None
    form: str = "captau"
    data: DataOptions = field(default_factory=DataOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)


@dataclass
class CollectStabilityOptions:
    """`captau collect stability`."""

    run: Any = MISSING
    least: int | None = None
    output_dir: str | None = None


@dataclass
class CollectSimulateOptions:
    """`captau collect simulate`."""

    study: str = "demo_game"
    database: str | None = None
    players: Any = None
    answers: int = 60
    wait: float = 0.0
    seed: int = 0
    output_dir: str | None = None
    data: DataOptions = field(default_factory=DataOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)


@dataclass
class ServeOptions:
    """`captau serve`."""

    challenge: Any = "demo"
    title: str | None = None
    database: str | None = None
    files: str | None = None
    queue: str | None = None
    workers: int = 1
    rescore: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None
    proxy: bool = False
    data: DataOptions = field(default_factory=DataOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)
    java: ScoringJavaOptions = field(default_factory=ScoringJavaOptions)


@dataclass
class SubmitOptions:
    """`captau submit`."""

    file: str = MISSING
    challenge: str = MISSING
    url: str = "http://127.0.0.1:8000"
    token: str | None = None
    system: str | None = None
    note: str | None = None
    wait: bool = True


#: The options of each command, as the command line has its name.
OPTIONS: dict[str, type[Any]] = {
    "bench": BenchOptions,
    "compare": CompareOptions,
    "agree": AgreeOptions,
    "sensitivity": SensitivityOptions,
    "complement": ComplementOptions,
    "thresholds": ThresholdsOptions,
    "train": TrainOptions,
    "reproduce": ReproduceOptions,
    "score": ScoreOptions,
    "validate": ValidateOptions,
    "report": ReportOptions,
    "plot": PlotOptions,
    "data list": DataListOptions,
    "data fetch": DataFetchOptions,
    "data import": DataImportOptions,
    "data verify": DataVerifyOptions,
    "data overlap": DataOverlapOptions,
    "data df": DataDfOptions,
    "check": CheckOptions,
    "table": JoinedTableOptions,
    "cite": CiteOptions,
    "collect": CollectOptions,
    "collect export": CollectExportOptions,
    "collect simulate": CollectSimulateOptions,
    "filter": FilterOptions,
    "gather": GatherOptions,
    "collect stability": CollectStabilityOptions,
    "serve": ServeOptions,
    "submit": SubmitOptions,
}


def register(command: str) -> None:
    """Make a command's schema known to Hydra, under the group `schema`; each costs some of its start."""
    name = command.replace(" ", "_")
    ConfigStore.instance().store(
        group="schema", name=name, node=OPTIONS[command], package="_global_"
    )
