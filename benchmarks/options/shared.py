"""Options that several commands share: places, the environment, datasets, protocol, metrics and statistics.

Each stands here once, with its key, default and help text; the options of a command name those it has.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ...conf import own_files
from ...datasets.cache import keep
from ...datasets.errors import InputError, unknown
from ...datasets.reading.judgement_options import JudgementOptions
from ...metrics.base import Metric
from ...metrics.registry import recipe_of
from ...metrics.text.java import java_program
from ..runs.output_folder import find_runs
from ..scoring.catalog import describe_left_out, leave_out_absent, resolve_metrics, usual_protocol
from ..scoring.protocol import CHOICES, Protocol
from ..scoring.protocol_choice import Choice
from ..scoring.score_store import OWN, Locations
from ..statistics.bootstrap import StatisticsOptions
from .declaration import (
    Composed,
    Given,
    Option,
    Options,
    PythonValue,
    check_finite,
    option,
    part,
    path_of,
)

logger = logging.getLogger(__name__)

SCORING = "Options of every command that scores"
OWN_JUDGEMENTS = "Options of dataset=file, your own judgements (docs/own_judgements.md)"
#: The most random draws; more would run for days, or take more memory than machines have.
MAX_DRAWS = 100_000

# Values, and checks of values.


def words_of(value: Any, key: str) -> tuple[str, ...]:
    """Return one word or several, each once; none for None.

    Raises:
        InputError: where there is anything else.
    """
    words: Any = value
    if value is None:
        words = []
    elif not isinstance(value, list | tuple):
        words = [value]
    if not all(isinstance(word, str | int | float) for word in words):
        raise InputError(f"{key} is {value!r}; a name or a list of names is expected")
    return tuple(dict.fromkeys(map(str, words)))


def at_least(lowest: int, highest: float = math.inf) -> Callable[[int, str], None]:
    """Return a check that a whole number lies between the least and the most that make sense."""

    def check(value: int, key: str) -> None:
        if value < lowest:
            raise InputError(f"{key} is {value}; a whole number from {lowest} on is expected")
        if value > highest:
            raise InputError(f"{key} is {value:,}; at most {highest:,} is expected")

    return check


def check_share(value: float, key: str) -> None:
    """Raise InputError where a share is not above 0 and up to 1."""
    if not 0 < value <= 1:
        raise InputError(f"{key} is {value}; a number above 0 and up to 1 is expected")


def one_of(choices: Iterable[str], label: str = "") -> Callable[[str, str], None]:
    """Return a check that a word is one of the choices; messages call it by the label, else by its key."""
    return lambda value, key: check_choice(label or key, value, choices)


def check_choice(label: str, value: str, choices: Iterable[str]) -> None:
    """Raise InputError where a value is none of the choices."""
    if value not in choices:
        raise unknown(label, value, list(choices))


def _folders_of(value: Any, key: str) -> tuple[Path, ...]:
    folders = words_of(value, key)
    if not folders or not all(folders):
        raise InputError(
            f"{key}= is empty; name the folder of a finished run, or several: {key}=A,B"
        )
    paths: dict[Path, None] = {}
    for folder in folders:
        paths |= dict.fromkeys(find_runs(folder))
    return tuple(paths)


def runs_option(
    text: str, takes: str = "DIR|A,B", default: str = "last", python: PythonValue | None = None
) -> Any:
    """Declare `run=`, the folders of finished runs."""
    return option(
        default,
        text,
        key="run",
        read=_folders_of,
        takes=takes,
        is_literal=True,
        has_several=True,
        python=python,
    )


# Places.


def _place(key: str, text: str, takes: str = "DIR") -> Option:
    return Option(key, None, text, str | None, takes=takes, heading=SCORING, is_literal=True)


DATA_ROOT = _place(
    "data.root", "the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder)"
)
OUTPUT_DIR = replace(
    _place("output_dir", "the output folder (default: a new one in results/runs/)"),
    python=PythonValue(
        "str | Path | None", "the folder for the run's files; None writes no files."
    ),
)
CACHE_ROOT = _place(
    "cache.root",
    "the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the user's "
    "cache folder)",
)
CACHE_USE = Option(
    "cache.use", True, "false neither reads nor stores scores", bool, heading=SCORING
)
CACHE_SCORES = _place(
    "cache.scores",
    "another place for stored scores: a shared folder, or s3://BUCKET/FOLDER",
    takes="PLACE",
)
JAVA_HOME = _place(
    "java.home", "the Java to use (default: $CAPTAU_JAVA, else the one that came with captau)"
)
JAVA_SPICE = _place(
    "java.spice", "the folder of spice_models (default: $CAPTAU_SPICE_JARS; docs/spice.md)"
)
WEIGHTS_ROOT = _place(
    "weights.root",
    "the folder of models (default: $CAPTAU_WEIGHTS, else weights in the cache folder)",
)
WEIGHTS_DOWNLOAD = Option(
    "weights.download",
    False,
    "true downloads models and parsers that are missing, without asking",
    bool,
    heading=SCORING,
)
PLACES = (DATA_ROOT, OUTPUT_DIR, CACHE_ROOT, CACHE_SCORES, CACHE_USE)
#: What a command has that reads data and serves it.
SERVED = (DATA_ROOT, CACHE_ROOT, CACHE_USE)
#: Options that stand for stored ones: Hydra composes an experiment, and `cli.stored_options` puts a run's in their place.
EXPERIMENT = Option(
    "experiment",
    None,
    "options from experiment/NAME.yaml in --config-dir",
    takes="NAME",
    heading=SCORING,
)
STORED = (
    EXPERIMENT,
    Option(
        "run",
        None,
        "repeats a finished run; last is the newest in results/runs/. Options that you type win over the run's",
        takes="DIR",
        heading=SCORING,
    ),
)
#: What acts through environment variables wherever metrics are computed.
ENVIRONMENT = (JAVA_HOME, JAVA_SPICE, WEIGHTS_ROOT, WEIGHTS_DOWNLOAD)


def data_root_of(composed: Composed) -> Path | None:
    """Return the data folder; None for the usual one."""
    return path_of(composed["data.root"])


def locations_of(composed: Composed) -> Locations:
    """Return the places of a run, and the options of the dataset `file`.

    Raises:
        InputError: where there are options of the dataset `file` and it is not among the datasets.
    """
    use_cache = composed.get("cache.use")
    file_options: dict[str, Any] = {}
    for name, value in (composed.get("file") or {}).items():
        if value is not None:
            file_options[name] = value
    loaded = composed.get("loaded") or {}
    if file_options and OWN not in composed["datasets"]:
        raise InputError(
            f"file.{next(iter(file_options))}=… belongs to dataset=file; choose that too"
        )
    return Locations(
        data_root=data_root_of(composed),
        cache_root=path_of(composed["cache.root"]),
        # A command without `cache.use` neither stores scores nor reads them back.
        use_cache=bool(use_cache),
        cache_scores=composed.get("cache.scores"),
        output_dir=path_of(composed.get("output_dir")),
        file_options=file_options,
        loaded=loaded,
    )


def apply_environment(composed: Composed) -> None:
    """Set the environment variables that `java.*`, `cache.*` and `weights.*` stand for.

    They reach child processes too. The command line calls this once, before the command runs.

    Raises:
        InputError: where `java.home` is no Java home, before anything is computed.
    """
    variables = {
        "CAPTAU_WEIGHTS": composed.get("weights.root"),
        "CAPTAU_DOWNLOAD": "1" if composed.get("weights.download") else None,
        "CAPTAU_SPICE_JARS": composed.get("java.spice"),
        "CAPTAU_JAVA": composed.get("java.home"),
        "CAPTAU_CACHE": composed.get("cache.root"),
    }
    for name, value in variables.items():
        if value:
            os.environ[name] = value
    if composed.get("java.home"):
        java_program()
    if composed.get("cache") is not None:
        keep(composed.get("cache.use") is not False)


# Datasets and how they are judged.


def _optional(kind: Any) -> Any:
    """Return a type that None is of too, which changes nothing of a dataset's usual protocol."""
    return kind if kind is Any else kind | None


def _schema_of_protocol(name: str, value_of: Callable[[Choice], Any]) -> type[Any]:
    """Make a class with a field for each choice of the protocol, whose default the function gives."""
    schema_fields: list[tuple[str, Any, Any]] = []
    for key, choice in CHOICES.items():
        default = field(default_factory=partial(value_of, choice))
        schema_fields.append((key, _optional(choice.type), default))
    return make_dataclass(name, schema_fields)


#: What differs from a dataset's usual protocol; None changes nothing.
ProtocolChanges = _schema_of_protocol("ProtocolChanges", lambda _: None)
#: Every choice of the protocol with its usual value.
_UsualChoices: Any = _schema_of_protocol("UsualChoices", lambda choice: choice.usual)


@dataclass
class UsualProtocol(_UsualChoices):
    """A dataset's usual protocol, of which its file in `conf/dataset/` says what differs.

    Attributes:
        by_dimension: what differs besides where one dimension is named, by its name.
    """

    by_dimension: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class DatasetSchema:
    """The schema of a file in `conf/dataset/`."""

    protocol: Any = field(default_factory=UsualProtocol)


PROTOCOL = tuple(
    Option(
        f"protocol.{name}",
        None,
        choice.help,
        _optional(choice.type),
        takes=choice.takes,
        values=choice.allowed,
    )
    for name, choice in CHOICES.items()
)


def _file_option(declared: Field[Any]) -> Option:
    """Return `file.NAME` of an option of the reader; None leaves the reader's default."""
    kind: Any = str | None
    if str(declared.type).startswith("Mapping"):
        kind = Any
    elif str(declared.type).startswith("float"):
        kind = float | None
    return Option(
        f"file.{declared.name}",
        None,
        declared.metadata["help"],
        kind,
        takes=declared.metadata["takes"],
        heading=OWN_JUDGEMENTS,
        is_literal=declared.metadata["is_literal"],
    )


#: Options of `dataset=file`, the user's own judgements.
FILE = tuple(map(_file_option, fields(JudgementOptions)))

_DATASETS_FROM_PYTHON = PythonValue(
    "str | CaptionSet | Sequence[str | CaptionSet]",
    "the names of datasets or of named sets, or your own `CaptionSet` objects, which have the usual protocol of "
    "`dataset=file`.",
)


def dataset_options(
    default: str | None,
    text: str,
    takes: str = "NAME|A,B",
    python: PythonValue = _DATASETS_FROM_PYTHON,
) -> tuple[Option, ...]:
    """Return the option `dataset=` and the key of the schema in which its files arrive."""
    typed = Option("dataset", default, text, takes=takes, config_group="dataset", python=python)
    return typed, Option("datasets", {}, "", dict[str, DatasetSchema])


#: The key under which the names that a named set alone brings arrive.
OPTIONAL_DATASETS = Option("optional_datasets", [], "", list[str])
DATASETS = (
    *dataset_options(
        "demo",
        "which datasets (captau data list), or a named set, of which those on this machine count: core (the mission's "
        "seven), classic (those of which papers print numbers), here (every dataset)",
    ),
    OPTIONAL_DATASETS,
)
NAMED_PROTOCOL = Option(
    "protocol",
    "usual",
    "a named protocol; usual means each dataset's own choices",
    takes="NAME",
    config_group="protocol",
)


def names_of(dataset: Any) -> list[str]:
    """Return datasets' names, from one or several.

    Raises:
        InputError: where there is none, or something that is no name.
    """
    names: Any = [dataset] if isinstance(dataset, str) else dataset
    names = list(names) if isinstance(names, Iterable) else [names]
    if not names:
        raise InputError("dataset is empty; name at least one, see captau data list")
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"dataset is {dataset!r}; a name or a list of names is expected")
    return names


def protocols_of(composed: Composed) -> dict[str, Protocol]:
    """Return each dataset's protocol, the usual one with what was typed; a command may lack choices of it."""
    names_of(composed["datasets"])
    changes = composed.get("protocol") or {}
    loaded = composed.get("loaded") or {}
    protocols: dict[str, Protocol] = {}
    for name, entry in composed["datasets"].items():
        usual = entry["protocol"]
        if name in loaded:
            own_choices = usual_protocol(name) if name in own_files("dataset") else {}
            usual = {**usual, **loaded[name].card.usual_protocol, **own_choices}
        protocols[name] = Protocol.resolve(name, usual, changes)
    return protocols


def protocols_of_people(composed: Composed) -> dict[str, Protocol]:
    """Return each dataset's protocol for a command that measures what people say.

    The usual rule for pairs among whose captions are references would make items of one caption several and leave out
    pairs without another reference, none of which concerns people; it applies only where it was typed.
    """
    protocols = protocols_of(composed)
    if (composed.get("protocol") or {}).get("own_references") is not None:
        return protocols

    for name, protocol in protocols.items():
        if protocol.own_references == "leave_out_pair":
            protocols[name] = replace(protocol, own_references="keep")
    return protocols


# Metrics.


def _metrics_from_python(value: Any, _: str) -> Given:
    """Resolve metrics once; run.json gets what makes each of them anew, or its name."""
    if value is None:
        return Given(None, None)
    metrics = resolve_metrics(value)
    recipes = [recipe_of(metric) for metric in metrics]
    spelling = [recipe or metric.spec for recipe, metric in zip(recipes, metrics, strict=True)]
    return Given(metrics, spelling, is_in_memory=None in recipes)


_METRICS_FROM_PYTHON = PythonValue(
    "MetricSource | Sequence[MetricSource]",
    'suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`), functions, or `Metric` '
    "objects and classes (docs/new_metric.md).",
    _metrics_from_python,
)


def metrics_option(default: Any, text: str = "") -> Option:
    """Return the option `metrics=`."""
    text = text or 'suites and metrics; parameters in brackets: "cider(variant=plain)"'
    return Option("metrics", default, text, takes="SUITE|A,B", python=_METRICS_FROM_PYTHON)


METRICS = metrics_option("text")


def metrics_part(*options: Option) -> Any:
    """Declare the field of the metrics that `metrics=` names; what a suite leaves out is logged."""
    return part(_read_metrics, *options)


def _read_metrics(composed: Composed) -> tuple[Metric, ...]:
    for line in describe_left_out(composed["metrics"]):
        logger.info("%s", line)
    return resolve_metrics(composed["metrics"])


def details_option() -> Any:
    """Declare the field `details`, by which a command prints all that it has to say."""
    return option(
        False,
        "true prints every table and column; table.md and the CSV files always have them",
        is_of_terminal=True,
    )


# Statistics.

STATISTICS = tuple(
    Option(
        f"statistics.{name}",
        getattr(StatisticsOptions, name),
        text,
        type(getattr(StatisticsOptions, name)),
    )
    for name, text in {
        "interval": "expanded, percentile or bca (bootstrap over images), fisher (formulas: Fisher's of Pearson's "
        "r, Wilson's of accuracy), none",
        "replicates": "the number of bootstrap samples",
        "level": "the level of intervals, such as 0.95",
        "seed": "the seed of all random draws",
        "correction": "the correction of p-values for the number of pairs: bh, holm, none",
        "disattenuate": "true adds disattenuated.csv: Pearson's r corrected for the ratings' noise",
        "swap": "what a permutation exchanges: both (systems and images), image, item",
    }.items()
)


def statistics_of(values: Any) -> StatisticsOptions:
    """Return statistics with some values changed; None for the usual ones.

    Raises:
        InputError: on an unknown option, or a value that makes no sense.
    """
    if not isinstance(values, Mapping | None):
        raise InputError(f"statistics is {values!r}; a dict of options is expected")
    for key in values or {}:
        check_choice("option of statistics", str(key), StatisticsOptions.__dataclass_fields__)
    return StatisticsOptions(**(values or {}))


def statistics_part(*names: str, **texts: str) -> Any:
    """Declare the field `statistics` with some of its options, and help texts of the command's own."""
    options: list[Option] = []
    for statistic in STATISTICS:
        name = statistic.key.partition(".")[2]
        if name in names:
            options.append(replace(statistic, help=texts.get(name, statistic.help)))
    return part(
        lambda composed: statistics_of(composed["statistics"]),
        *options,
        default_factory=StatisticsOptions,
    )


def check_not_fisher(statistics: StatisticsOptions) -> None:
    """Raise InputError on Fisher's intervals, for numbers that are no correlations."""
    if statistics.interval == "fisher":
        raise InputError(
            "statistics.interval=fisher needs correlations; choose expanded, percentile, bca or none"
        )


# Commands that score.


def configuration_part() -> Any:
    """Declare the field of all options as plain data, which run.json records."""
    return part(lambda composed: composed.plain, default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(Options):
    """Options of every command that scores.

    Attributes:
        locations: where data, scores and the run lie.
        configuration: all options as plain data, which run.json records.
    """

    environment: ClassVar[tuple[Option, ...]] = (*STORED, *ENVIRONMENT)
    takes_sets: ClassVar[bool] = True
    #: Whether `references=` stands in place of the datasets, which then need not be here.
    references_replace_datasets: ClassVar[bool] = True

    locations: Locations = part(locations_of, *PLACES, default_factory=Locations)
    configuration: Mapping[str, Any] = configuration_part()

    @classmethod
    def has_run_folder(cls, composed: Composed) -> bool:
        """Tell whether the command writes a run into a folder, with these options."""
        return True

    @classmethod
    def read(cls, composed: Composed) -> Any:
        """Make the options of a composed configuration, without the datasets of a set that are not here.

        Raises:
            InputError: where a dataset that was named itself is not here, or a value makes no sense.
        """
        check_finite(composed.plain)
        is_replaced = cls.references_replace_datasets and bool(composed.get("references"))
        if not composed.get("datasets") or is_replaced:
            return super().read(composed)

        optional = composed.get("optional_datasets") or ()
        loaded = composed.get("loaded") or ()
        on_disk = [name for name in composed["datasets"] if name not in loaded]
        present, absent = leave_out_absent(on_disk, optional, data_root_of(composed))
        datasets: dict[str, Any] = {}
        for name, usual in composed["datasets"].items():
            if name in loaded or name in present:
                datasets[name] = usual
        plain = {**composed.plain, "datasets": datasets, "optional_datasets": [], "absent": absent}
        composed = replace(composed, plain=plain)

        # What is usual for a file of one's own depends on what it holds.
        locations = locations_of(composed)
        own_sets: dict[str, Any] = {}
        for name in present:
            if name == OWN or name in own_files("dataset"):
                own_sets[name] = locations.load(name)
        objects = {**composed.objects, "loaded": {**locations.loaded, **own_sets}}
        return super().read(replace(composed, objects=objects))


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(ScoringOptions):
    """Options of every command that scores datasets and sets the scores against ratings.

    Attributes:
        datasets: each dataset's protocol.
        metrics: what is computed.
    """

    python_positional: ClassVar[tuple[str, ...]] = ("dataset", "metrics")

    datasets: dict[str, Protocol] = part(protocols_of, *DATASETS, NAMED_PROTOCOL, *PROTOCOL, *FILE)
    metrics: tuple[Metric, ...] = metrics_part(METRICS)
