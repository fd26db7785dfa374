"""Challenge files: YAML read into `definition.Challenge`; every fault is named with file, line and field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ...benchmarks.scoring.catalog import resolve_metrics, usual_protocol_of
from ...benchmarks.scoring.protocol import Protocol
from ...benchmarks.statistics.bootstrap import RESAMPLED_INTERVALS, StatisticsOptions
from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.source_files import sha256
from ...datasets.reading.yaml_fields import YamlFields, read_yaml_fields
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
        file_fields = read_yaml_fields(path)
        challenge = _read_challenge(file_fields, path.parent.resolve(), data_root)
        name = challenge.name
        if name in challenges:
            raise file_fields.error(
                "name", f"that of {challenges[name].source} is '{name}' as well"
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


def _read_challenge(top: YamlFields, folder: Path, data_root: Path | None) -> Challenge:
    """Read a challenge.

    Args:
        top: the fields of its file.
        folder: the one that files are relative to.
        data_root: the folder of datasets.
    """
    name = top.text("name", max_length=64)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise top.error("name", f"'{name}': small letters, digits, '_' and '-' are expected")

    kind = top.choice("kind", KINDS)
    for key in _FIELDS_OF_OTHER_KIND[kind]:
        if key in top:
            raise top.error(key, f"the kind is {kind}; leave it out")

    visibility = top.section("visibility")
    title = top.text("title", name, 200)
    intro = top.text("intro", "")
    phases = _read_phases(top)
    # Datasets and references may take long to read; what costs nothing is checked before.
    if kind == "captions":
        fields_of_kind = _read_captions_fields(top, folder)
    else:
        fields_of_kind = _read_metrics_fields(top, folder, data_root)

    challenge = Challenge(
        source=top.location,
        name=name,
        title=title,
        kind=kind,
        intro=intro,
        phases=phases,
        **fields_of_kind,
        statistics=_read_statistics(top.section("statistics")),
        rank_by=top.text("rank_by", "", 64),
        is_public=visibility.choice("leaderboard", ("private", "public"), "private") == "public",
        per_item=visibility.flag("per_item", False),
        exact=visibility.flag("exact", False),
        shows_references=visibility.flag("references", False) if kind == "metrics" else False,
        limits=_read_limits(top.section("limits")),
        data_root=data_root,
    )
    visibility.reject_unknown()
    top.reject_unknown()

    keys = rank_keys(challenge)
    if not keys:
        raise top.error("protocol", f"dataset {challenge.dataset} has nothing for its coefficients")
    if challenge.rank_by and challenge.rank_by not in keys:
        raise top.error("rank_by", str(unknown("score", challenge.rank_by, keys)))

    if not challenge.rank_by:
        challenge = replace(challenge, rank_by=keys[-1])

    return challenge


def _read_phases(top: YamlFields) -> tuple[Phase, ...]:
    phases: list[Phase] = []
    for entry in top.sections("phases"):
        phase = Phase(
            name=entry.text("name", max_length=64),
            begins=entry.time("from"),
            ends=entry.time("to"),
            per_day=entry.optional_count("per_day"),
            in_all=entry.optional_count("in_all"),
        )
        entry.reject_unknown()

        if phase.name in [earlier.name for earlier in phases]:
            raise entry.error("name", f"two phases are called '{phase.name}'")
        has_bounds = phase.begins is not None and phase.ends is not None
        # A phase that is not open at its own beginning is never open.
        if has_bounds and not phase.is_open(phase.begins or 0):
            raise entry.error("to", "the phase ends before it begins")
        phases.append(phase)

    if not phases:
        raise top.error("phases", "at least one phase is needed, with a name")

    return tuple(phases)


def _read_statistics(entry: YamlFields) -> StatisticsOptions:
    default = StatisticsOptions()
    statistics = StatisticsOptions(
        interval=entry.choice("interval", (*RESAMPLED_INTERVALS, "none"), default.interval),
        replicates=entry.count("replicates", default.replicates, 1, 100_000),
        seed=entry.count("seed", default.seed, 0),
    )
    entry.reject_unknown()

    return statistics


def _read_limits(entry: YamlFields) -> Limits:
    limits = {name: entry.count(name, default, 1) for name, default in asdict(Limits()).items()}
    entry.reject_unknown()
    return Limits(**limits)


def _read_captions_fields(top: YamlFields, folder: Path) -> dict[str, Any]:
    """Read the fields of kind `captions`."""
    reference_sets = _read_reference_sets(top, folder)
    splits = {references.split for references in reference_sets}
    if "split" in top and splits != {None}:
        raise top.error("split", "the sets of references name their splits; leave it out")

    return {
        "reference_sets": reference_sets,
        "metric_specs": _read_metrics(top),
        "metrics_source": top.location_of("metrics"),
        "split": top.optional("split"),
        **_read_human(top, folder),
    }


def _read_human(top: YamlFields, folder: Path) -> dict[str, Any]:
    """Read which captions of people are scored: a choice, a file, or both as a list."""
    value = top.plain_data("human")
    if isinstance(value, list):
        requests = value
    elif value is None:
        requests = ["none"]
    else:
        requests = [value]

    choices = [request for request in requests if request in HUMAN_CHOICES]
    file_names = [
        request for request in requests if isinstance(request, str) and request not in HUMAN_CHOICES
    ]
    is_known = len(requests) > 0 and len(choices) + len(file_names) == len(requests)
    if not is_known or len(choices) > 1 or len(file_names) > 1:
        raise top.error(
            "human", f"one of {', '.join(HUMAN_CHOICES)}, a file, or one of each is expected"
        )

    human = choices[0] if choices else "none"
    if not file_names:
        return {"human": human, "human_mark": human}

    path = folder / expand_home(file_names[0])
    if not path.suffix:
        raise top.error(
            "human", str(unknown("human", file_names[0], [*HUMAN_CHOICES, "FILE.json"]))
        )
    if not _is_file(path):
        raise top.error("human", f"{path}: no such file")

    return {"human": human, "human_file": path, "human_mark": f"{human} {sha256(path)}"}


def _read_reference_sets(top: YamlFields, folder: Path) -> tuple[ReferenceSet, ...]:
    reference_sets: list[ReferenceSet] = []
    for entry in top.sections("references"):
        name = entry.text("name", max_length=32)
        earlier_names = [earlier.name for earlier in reference_sets]
        if not re.fullmatch(r"[\w-]+", name) or name in earlier_names:
            message = f"'{name}': another word for each set is expected, such as c5"
            raise entry.error("name", message)

        split = entry.optional("split")
        if split is not None and not re.fullmatch(r"[a-z]+[0-9]*", split):
            raise entry.error(
                "split", f"'{split}': a split as file names have it is expected: val2014"
            )

        if ("file" in entry) == ("dataset" in entry):
            raise entry.error("name", "either file or dataset is needed beside it")

        if "dataset" in entry:
            datasets = [dataset for dataset in names() if dataset != OWN_DATASET]
            dataset = entry.choice("dataset", datasets)
            k = entry.optional_count("first")
            reference_sets.append(ReferenceSet(name, dataset=dataset, k=k, split=split))
        else:
            path = folder / expand_home(entry.text("file"))
            if not _is_file(path):
                raise entry.error("file", f"{path}: no such file")
            reference_sets.append(ReferenceSet(name, file=path, split=split))
        entry.reject_unknown()

    if not reference_sets:
        message = "at least one set is needed: a name, and file or dataset"
        raise top.error("references", message)

    splits = {references.split for references in reference_sets}
    if None in splits and len(splits) > 1:
        raise top.error("references", "each set needs a split, or none has one")
    if len(splits) > 2:
        raise top.error(
            "references", f"{len(splits)} splits; a submission has results on two at most"
        )

    return tuple(reference_sets)


def _is_file(path: Path) -> bool:
    """Return whether a file is there; one whose name is too long is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def _read_metrics(top: YamlFields) -> tuple[str, ...]:
    requested = top.plain_data("metrics")
    specs = ["text"] if requested is None else requested
    if isinstance(specs, str):
        specs = [specs]
    if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
        raise top.error("metrics", "suites or metrics are expected, as [text]")

    try:
        metrics = resolve_metrics(specs)
    except InputError as error:
        raise top.error("metrics", str(error)) from error

    for metric in metrics:
        if "images" in metric.needs:
            message = f"{metric.spec} looks at images, which are not evaluated here yet"
            raise top.error("metrics", message)

    return tuple(specs)


def _read_metrics_fields(top: YamlFields, folder: Path, data_root: Path | None) -> dict[str, Any]:
    """Read the fields of kind `metrics`."""
    dataset = top.choice("dataset", names())
    options = _read_dataset_options(top, dataset, folder)

    entry = top.section("protocol")
    changes = {f.name: entry.plain_data(f.name) for f in fields(Protocol) if f.name != "name"}
    entry.reject_unknown()

    try:
        items = load(dataset, data_root, **options)
    except (InputError, TypeError) as error:
        field = "ratings" if dataset == OWN_DATASET else "dataset"
        raise top.error(field, str(error)) from error

    try:
        protocol = Protocol.resolve(dataset, usual_protocol_of(items), changes)
        _ = protocol.for_dataset(items).select_items(items)
    except (InputError, TypeError) as error:
        raise top.error("protocol", str(error)) from error

    return {"dataset": dataset, "dataset_options": options, "protocol": protocol}


def _read_dataset_options(top: YamlFields, dataset: str, folder: Path) -> dict[str, Any]:
    options = top.plain_data("ratings")
    if dataset == OWN_DATASET and options is None:
        message = "this field is required: options of the dataset file (docs/own_judgements.md)"
        raise top.error("ratings", message)
    if dataset != OWN_DATASET and options is not None:
        message = f"the dataset is {dataset}, not {OWN_DATASET}; leave it out"
        raise top.error("ratings", message)

    options = options or {}
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise top.error("ratings", "options of the dataset file are expected, such as path:")

    if "path" in options:
        options["path"] = str(folder / expand_home(str(options["path"])))

    return options
