"""Challenge files: YAML read into `definition.Challenge`; every fault is named with file, line and field.

The models below say which fields a file has, and of which kind; the functions check what fields are together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from ...benchmarks.scoring.catalog import resolve_metrics, usual_protocol_of
from ...benchmarks.scoring.protocol import Protocol
from ...benchmarks.statistics.bootstrap import RESAMPLED_INTERVALS, StatisticsOptions
from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.judgement_options import JudgementOptions
from ...datasets.reading.source_files import sha256
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.reading.yaml_model import (
    VISIBLE,
    Count,
    LongText,
    PositiveCount,
    Text,
    YamlModel,
    matching,
    one_of,
    validate,
)
from ...datasets.registry import load, names
from .definition import Challenge, Limits, Phase, ReferenceSet
from .leaderboard.board import rank_keys

#: The kinds of challenges: captions are submitted, or a metric's scores of rated captions.
KINDS = ("captions", "metrics")
#: The fields that only the other kind has.
_FIELDS_OF_OTHER_KIND = {
    "captions": ("dataset", "ratings", "protocol"),
    "metrics": ("references", "metrics", "split", "human"),
}
#: The dataset that reads the user's own ratings.
OWN_DATASET = "file"
#: The challenges of `captau serve challenge=demo`.
DEMO_CHALLENGES = ("demo_captions", "demo_metrics")
#: The values of `human` besides a file: as in `captau agree kind=captions`, or `none`.
HUMAN_CHOICES = ("last", "each", "draw", "none")


def _list_datasets() -> list[str]:
    """Return the datasets whose references a set may have."""
    return [name for name in names() if name != OWN_DATASET]


class _PhaseFields(YamlModel):
    """A phase as a file has it; a time is UTC unless it names a zone."""

    name: Annotated[str, Field(max_length=64), VISIBLE]
    begins: datetime | None = Field(None, alias="from")
    ends: datetime | None = Field(None, alias="to")
    per_day: PositiveCount | None = None
    in_all: PositiveCount | None = None


class _ReferenceFields(YamlModel):
    """A set of references as a file has it."""

    name: Annotated[
        str,
        Field(max_length=32),
        matching(r"[\w-]+", "another word for each set is expected, such as c5"),
    ]
    file: Text | None = None
    dataset: Annotated[str, one_of("dataset", _list_datasets)] | None = None
    first: PositiveCount | None = None
    split: (
        Annotated[
            str, matching("[a-z]+[0-9]*", "a split as file names have it is expected: val2014")
        ]
        | None
    ) = None


class _VisibilityFields(YamlModel):
    """The texts that visitors and teams see."""

    leaderboard: Literal["private", "public"] = "private"
    per_item: bool = False
    exact: bool = False


class _MetricsVisibilityFields(_VisibilityFields):
    """The same of a challenge of metrics, whose items may have references."""

    references: bool = False


_usual = StatisticsOptions()


class _StatisticsFields(YamlModel):
    """The intervals of scores."""

    interval: Annotated[str, one_of("interval", lambda: (*RESAMPLED_INTERVALS, "none"))] = (
        _usual.interval
    )
    replicates: Annotated[PositiveCount, Field(le=100_000)] = _usual.replicates
    seed: Count = _usual.seed


#: Each limit is a whole number from 1 on.
_limit_fields: dict[str, Any] = {
    name: (PositiveCount, usual) for name, usual in asdict(Limits()).items()
}
_LimitsFields = create_model("_LimitsFields", __base__=YamlModel, **_limit_fields)

#: The choices of the protocol, which `Protocol` checks itself.
_protocol_fields: dict[str, Any] = {
    field.name: (Any, None) for field in fields(Protocol) if field.name != "name"
}
_ProtocolFields = create_model("_ProtocolFields", __base__=YamlModel, **_protocol_fields)


class _ChallengeFields(YamlModel):
    """The fields of both kinds."""

    name: Annotated[
        str,
        Field(max_length=64),
        matching("[a-z0-9][a-z0-9_-]*", "small letters, digits, '_' and '-' are expected"),
    ]
    kind: str
    title: Annotated[str, Field(max_length=200), VISIBLE] | None = None
    intro: LongText = ""
    phases: list[_PhaseFields] = Field(default_factory=list)
    rank_by: str = Field("", max_length=64)
    statistics: _StatisticsFields = Field(default_factory=_StatisticsFields)
    limits: _LimitsFields = Field(default_factory=_LimitsFields)  # pyright: ignore[reportInvalidTypeForm]


class _CaptionsFields(_ChallengeFields):
    """A challenge of captions."""

    references: list[_ReferenceFields] = Field(default_factory=list)
    metrics: Any = None
    split: str | None = None
    human: Any = None
    visibility: _VisibilityFields = Field(default_factory=_VisibilityFields)


class _MetricsFields(_ChallengeFields):
    """A challenge of metrics."""

    dataset: Annotated[str, one_of("dataset", names)]
    ratings: dict[str, Any] | None = None
    protocol: _ProtocolFields = Field(default_factory=_ProtocolFields)  # pyright: ignore[reportInvalidTypeForm]
    visibility: _MetricsVisibilityFields = Field(default_factory=_MetricsVisibilityFields)


def read_challenges(
    requested: str | Sequence[str], data_root: Path | None = None
) -> tuple[Challenge, ...]:
    """Read challenges.

    Args:
        requested: names of captau's own challenges, files, or folders of files.
        data_root: the folder of datasets; None for the default.

    Raises:
        InputError: if there is none, one has a fault, or two have the same name.
    """
    paths: list[Path] = []
    requests = [requested] if isinstance(requested, str) else requested
    for request in requests:
        paths += _find_files(request)

    if not paths:
        raise InputError("the option challenge=… is needed: demo, a name, FILE.yaml or a folder")

    challenges: dict[str, Challenge] = {}
    for path in paths:
        document = YamlDocument.read(path)
        challenge = _read_challenge(document, path.parent.resolve(), data_root)
        name = challenge.name
        if name in challenges:
            raise document.error(
                ("name",), f"that of {challenges[name].source} is '{name}' as well"
            )
        challenges[name] = challenge

    return tuple(challenges.values())


def _find_files(request: str) -> list[Path]:
    """Return the challenge files that a name, file or folder stands for."""
    own_names = group("challenges")
    if request == "demo" or request in own_names:
        folder = Path(str(resources.files("captau.conf") / "challenges"))
        challenges = DEMO_CHALLENGES if request == "demo" else (request,)
        return [folder / f"{challenge}.yaml" for challenge in challenges]

    path = expand_home(request)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
        if not files:
            raise InputError(f"challenge={path}: no YAML file in the folder")
        return files

    if path.suffix not in (".yaml", ".yml"):
        raise unknown("challenge", request, ["demo", *own_names, "FILE.yaml", "FOLDER"])

    return [path]


def _read_challenge(document: YamlDocument, folder: Path, data_root: Path | None) -> Challenge:
    """Read a challenge.

    Args:
        document: its file.
        folder: the one that files are relative to.
        data_root: the folder of datasets.
    """
    model: type[_CaptionsFields | _MetricsFields] = _CaptionsFields
    if isinstance(document.plain, dict) and "kind" in document.plain:
        kind = document.plain["kind"]
        if kind not in KINDS:
            raise document.error(("kind",), str(unknown("kind", str(kind), KINDS)))
        for key in _FIELDS_OF_OTHER_KIND[kind]:
            if key in document.plain:
                raise document.error((key,), f"the kind is {kind}; leave it out")
        if kind == "metrics":
            model = _MetricsFields

    entries = validate(document, model)
    phases = _make_phases(document, entries.phases)
    # Datasets and references may take long to read; what costs nothing is checked before.
    shows_references = False
    if isinstance(entries, _CaptionsFields):
        fields_of_kind = _read_captions_fields(document, entries, folder)
    else:
        fields_of_kind = _read_metrics_fields(document, entries, folder, data_root)
        shows_references = entries.visibility.references

    challenge = Challenge(
        source=document.location,
        name=entries.name,
        title=entries.name if entries.title is None else entries.title,
        kind=entries.kind,
        intro=entries.intro,
        phases=phases,
        **fields_of_kind,
        statistics=StatisticsOptions(**entries.statistics.model_dump()),
        rank_by=entries.rank_by,
        is_public=entries.visibility.leaderboard == "public",
        per_item=entries.visibility.per_item,
        exact=entries.visibility.exact,
        shows_references=shows_references,
        limits=Limits(**entries.limits.model_dump()),
        data_root=data_root,
    )

    keys = rank_keys(challenge)
    if not keys:
        message = f"dataset {challenge.dataset} has nothing for its coefficients"
        raise document.error(("protocol",), message)
    if challenge.rank_by and challenge.rank_by not in keys:
        raise document.error(("rank_by",), str(unknown("score", challenge.rank_by, keys)))

    if not challenge.rank_by:
        challenge = replace(challenge, rank_by=keys[-1])

    return challenge


def _make_phases(document: YamlDocument, entries: Sequence[_PhaseFields]) -> tuple[Phase, ...]:
    """Return the phases; there is at least one, each has another name, and none ends before it begins."""
    phases: list[Phase] = []
    for number, entry in enumerate(entries):
        phase = Phase(
            name=entry.name,
            begins=_timestamp(entry.begins),
            ends=_timestamp(entry.ends),
            per_day=entry.per_day,
            in_all=entry.in_all,
        )
        if phase.name in [earlier.name for earlier in phases]:
            message = f"two phases are called '{phase.name}'"
            raise document.error(("phases", number, "name"), message)

        has_bounds = phase.begins is not None and phase.ends is not None
        # A phase that is not open at its own beginning is never open.
        if has_bounds and not phase.is_open(phase.begins or 0):
            raise document.error(("phases", number, "to"), "the phase ends before it begins")
        phases.append(phase)

    if not phases:
        raise document.error(("phases",), "at least one phase is needed, with a name")

    return tuple(phases)


def _timestamp(moment: datetime | None) -> float | None:
    """Return seconds since 1970."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _read_captions_fields(
    document: YamlDocument, entries: _CaptionsFields, folder: Path
) -> dict[str, Any]:
    """Read the fields of kind `captions`."""
    reference_sets = _make_reference_sets(document, entries.references, folder)
    splits = {references.split for references in reference_sets}
    if entries.split is not None and splits != {None}:
        message = "the sets of references name their splits; leave it out"
        raise document.error(("split",), message)

    return {
        "reference_sets": reference_sets,
        "metric_specs": _read_metrics(document, entries.metrics),
        "metrics_source": document.location_of("metrics"),
        "split": entries.split,
        **_read_human(document, entries.human, folder),
    }


def _read_human(document: YamlDocument, value: Any, folder: Path) -> dict[str, Any]:
    """Read which captions of people are scored: a choice, a file, or both as a list."""
    keys = ("human",)
    if isinstance(value, list):
        requests = value
    elif value is None:
        requests = ["none"]
    else:
        requests = [value]

    choices: list[str] = []
    file_names: list[str] = []
    for request in requests:
        if request in HUMAN_CHOICES:
            choices.append(request)
        elif isinstance(request, str):
            file_names.append(request)
    is_known = len(requests) > 0 and len(choices) + len(file_names) == len(requests)
    if not is_known or len(choices) > 1 or len(file_names) > 1:
        message = f"one of {', '.join(HUMAN_CHOICES)}, a file, or one of each is expected"
        raise document.error(keys, message)

    human = choices[0] if choices else "none"
    if not file_names:
        return {"human": human, "human_mark": human}

    path = folder / expand_home(file_names[0])
    if not path.suffix:
        message = str(unknown("human", file_names[0], [*HUMAN_CHOICES, "FILE.json"]))
        raise document.error(keys, message)
    if not _is_file(path):
        raise document.error(keys, f"{path}: no such file")

    return {"human": human, "human_file": path, "human_mark": f"{human} {sha256(path)}"}


def _make_reference_sets(
    document: YamlDocument, entries: Sequence[_ReferenceFields], folder: Path
) -> tuple[ReferenceSet, ...]:
    """Return the sets of references: each has another name, and a file or a dataset."""
    reference_sets: list[ReferenceSet] = []
    for number, entry in enumerate(entries):
        keys = ("references", number)
        earlier_names = [earlier.name for earlier in reference_sets]
        if entry.name in earlier_names:
            message = f"'{entry.name}': another word for each set is expected, such as c5"
            raise document.error((*keys, "name"), message)

        split = entry.split
        if (entry.file is None) == (entry.dataset is None):
            message = "either file or dataset is needed beside it"
            raise document.error((*keys, "name"), message)
        if entry.file is None:
            reference_set = ReferenceSet(
                entry.name, dataset=entry.dataset, k=entry.first, split=split
            )
        else:
            if entry.first is not None:
                message = "unknown field 'first' beside file; only a dataset has it"
                raise document.error((*keys, "first"), message)
            path = folder / expand_home(entry.file)
            if not _is_file(path):
                raise document.error((*keys, "file"), f"{path}: no such file")
            reference_set = ReferenceSet(entry.name, file=path, split=split)
        reference_sets.append(reference_set)

    if not reference_sets:
        message = "at least one set is needed: a name, and file or dataset"
        raise document.error(("references",), message)

    splits = {references.split for references in reference_sets}
    if None in splits and len(splits) > 1:
        raise document.error(("references",), "each set needs a split, or none has one")
    if len(splits) > 2:
        message = f"{len(splits)} splits; a submission has results on two at most"
        raise document.error(("references",), message)

    return tuple(reference_sets)


def _is_file(path: Path) -> bool:
    """Return whether a file is there; one whose name is too long is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def _read_metrics(document: YamlDocument, requested: Any) -> tuple[str, ...]:
    """Return the suites and metrics, none of which looks at images."""
    keys = ("metrics",)
    specs = ["text"] if requested is None else requested
    if isinstance(specs, str):
        specs = [specs]
    if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
        raise document.error(keys, "suites or metrics are expected, as [text]")

    try:
        metrics = resolve_metrics(specs)
    except InputError as error:
        raise document.error(keys, str(error)) from error

    for metric in metrics:
        if "images" in metric.needs:
            message = f"{metric.spec} looks at images, which are not evaluated here yet"
            raise document.error(keys, message)

    return tuple(specs)


def _read_metrics_fields(
    document: YamlDocument, entries: _MetricsFields, folder: Path, data_root: Path | None
) -> dict[str, Any]:
    """Read the fields of kind `metrics`."""
    dataset = entries.dataset
    options = _read_dataset_options(document, entries, folder)
    try:
        items = load(dataset, data_root, **options)
    except (InputError, TypeError) as error:
        key = "ratings" if dataset == OWN_DATASET else "dataset"
        raise document.error((key,), str(error)) from error

    try:
        changes = entries.protocol.model_dump()
        protocol = Protocol.resolve(dataset, usual_protocol_of(items), changes)
        _ = protocol.for_dataset(items).select_items(items)
    except (InputError, TypeError) as error:
        raise document.error(("protocol",), str(error)) from error

    return {"dataset": dataset, "dataset_options": options, "protocol": protocol}


def _read_dataset_options(
    document: YamlDocument, entries: _MetricsFields, folder: Path
) -> dict[str, Any]:
    """Return the options of the dataset `file`; no other dataset has any."""
    keys = ("ratings",)
    dataset = entries.dataset
    if dataset == OWN_DATASET and entries.ratings is None:
        message = "this field is required: options of the dataset file (docs/own_judgements.md)"
        raise document.error(keys, message)
    if dataset != OWN_DATASET and entries.ratings is not None:
        message = f"the dataset is {dataset}, not {OWN_DATASET}; leave it out"
        raise document.error(keys, message)

    options = dict(entries.ratings or {})
    for field in fields(JudgementOptions):
        # Names of columns; the file's reader looks for them, and for signs in them.
        value = options.get(field.name, field.default)
        is_text = field.type in ("str", "str | None")
        if is_text and value != field.default and not isinstance(value, str):
            raise document.error((*keys, field.name), f"{value!r}: a text is expected")
    if "path" in options:
        options["path"] = str(folder / expand_home(str(options["path"])))

    return options
