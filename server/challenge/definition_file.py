"""A challenge: what is scored, by what, when, and who sees it; read from YAML."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ...benchmarks.scoring.catalog import resolve_metrics, usual_protocol
from ...benchmarks.scoring.protocol import Protocol
from ...benchmarks.statistics.bootstrap import StatisticsOptions
from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.files import sha256
from ...datasets.registry import load, names
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..yaml_fields import YamlFields, read_yaml_fields

#: What is submitted: a system's captions, or a metric's scores of captions that people rated.
KINDS = ("captions", "metrics")
#: The dataset that reads ratings of one's own.
OWN = "file"
#: What `captau serve challenge=demo` stands for.
DEMO = ("demo_captions", "demo_metrics")
#: Which captions people are scored by: as in `captau agree kind=captions`, or none.
HUMAN = ("last", "each", "draw", "none")


@dataclass(frozen=True)
class Phase:
    """A time in which submissions are taken, and how many.

    Attributes:
        begins, ends: seconds since 1970; None for ever.
        per_day: how many valid submissions a team may make on a day (UTC); None for any number.
        in_all: how many in the whole phase.
    """

    name: str
    begins: float | None
    ends: float | None
    per_day: int | None
    in_all: int | None

    def open_at(self, now: float) -> bool:
        """Whether submissions are taken."""
        return (self.begins is None or self.begins <= now) and (
            self.ends is None or now < self.ends
        )


@dataclass(frozen=True)
class References:
    """A set of references that stays on the server: a file's, or a dataset's first `k` of each image."""

    name: str
    file: Path | None = None
    dataset: str | None = None
    k: int | None = None


@dataclass(frozen=True)
class Limits:
    """How much somebody may ask for, and an evaluation may take.

    Attributes:
        joins: new accounts from one address in a minute.
        logins: tries to sign in from one address in ten minutes.
        requests: pages a second, of one account or address.
        uploads: files an account may send in an hour, valid or not.
        megabytes: of a file, as it is sent.
        memory: megabytes that checking or evaluating may take.
        seconds: that evaluating may take.
        attempts: how often it is tried.
        faults: how many of a file's are listed.
    """

    joins: int = 20
    logins: int = 10
    requests: int = 20
    uploads: int = 30
    megabytes: int = 32
    memory: int = 3000
    seconds: int = 900
    attempts: int = 3
    faults: int = 50


@dataclass(frozen=True)
class Challenge:
    """A challenge as its file says.

    Attributes:
        source: its file and line, for messages.
        references: of kind `captions`: each set is scored against by itself.
        metrics: of kind `captions`: suites and specs.
        split: of kind `captions`: which results of an archive count (`test2014`), where there are several.
        dataset, own: of kind `metrics`: whose items are scored; options of the dataset `file`.
        protocol: of kind `metrics`: how scores meet ratings.
        statistics: how intervals are made.
        rank_by: what the leaderboard is ordered by: a metric, or a coefficient and dimension.
        public: whether everybody sees the leaderboard; else it is published by hand.
        per_item: whether a team sees the score of each of its captions.
        exact: whether scores are told with all digits; else with those that tables print.
        shown: of kind `metrics`: whether the items are shown with their references.
        human: which of people's captions are scored, for the human row.
    """

    source: str
    name: str
    title: str
    kind: str
    intro: str
    phases: tuple[Phase, ...]
    references: tuple[References, ...]
    metrics: tuple[str, ...]
    split: str | None
    dataset: str | None
    own: Mapping[str, Any]
    protocol: Protocol | None
    statistics: StatisticsOptions
    rank_by: str
    public: bool
    per_item: bool
    exact: bool
    shown: bool
    human: str
    limits: Limits
    data_root: Path | None = field(repr=False)

    def phase(self, now: float) -> Phase | None:
        """The one that takes submissions now; of several the first."""
        return next((p for p in self.phases if p.open_at(now)), None)

    @property
    def chosen(self) -> tuple[Metric, ...]:
        """The metrics of kind `captions`."""
        return resolve_metrics(list(self.metrics))

    @property
    def digest(self) -> str:
        """Of what scores depend on; titles, dates and limits may change while a challenge runs."""
        parts = [
            self.kind,
            [m.spec for m in self.chosen] if self.kind == "captions" else [],
            [[r.name, r.k, self._digest_of(r)] for r in self.references],
            self.caption_set().digest if self.dataset else "",
            repr(self.protocol),
            repr(self.statistics),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _digest_of(self, one: References) -> str:
        if one.file is not None:
            return sha256(one.file)
        return load(str(one.dataset), self.data_root).digest

    def caption_set(self) -> CaptionSet:
        """The dataset of kind `metrics`."""
        return load(str(self.dataset), self.data_root, **self.own)


def read_challenges(
    wanted: str | Sequence[str], data_root: Path | None = None
) -> tuple[Challenge, ...]:
    """Challenges by their names among captau's own, by files, or by a folder of files.

    Raises:
        InputError: where there is none, one has a fault (said with line and field), or two have one name.
    """
    known = group("challenges")
    paths: list[Path] = []
    for one in [wanted] if isinstance(wanted, str) else wanted:
        if one == "demo" or one in known:
            named = DEMO if one == "demo" else (one,)
            folder = Path(str(resources.files("captau.conf") / "challenges"))
            paths += [folder / f"{name}.yaml" for name in named]
        elif (path := Path(one).expanduser()).is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml"))
            if not found:
                raise InputError(f"challenge={path}: no YAML file in the folder")
            paths += found
        elif path.suffix in (".yaml", ".yml"):
            paths.append(path)
        else:
            raise unknown("challenge", one, ["demo", *known, "FILE.yaml", "FOLDER"])
    if not paths:
        raise InputError("the option challenge=… is needed: demo, a name, FILE.yaml or a folder")
    read: dict[str, Challenge] = {}
    for path in paths:
        top = read_yaml_fields(path)
        one = _challenge(top, path.parent.resolve(), data_root)
        if one.name in read:
            raise top.error("name", f"that of {read[one.name].source} is '{one.name}' as well")
        read[one.name] = one
    return tuple(read.values())


def _challenge(top: YamlFields, folder: Path, data_root: Path | None) -> Challenge:
    name = top.text("name", max_length=64)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise top.error("name", f"'{name}': small letters, digits, '_' and '-' are expected")
    kind = top.choice("kind", KINDS)
    for key in {
        "captions": ("dataset", "ratings", "protocol"),
        "metrics": ("references", "metrics", "split", "human"),
    }[kind]:
        if key in top:
            raise top.error(key, f"the kind is {kind}; leave it out")
    visibility, statistics = top.section("visibility"), top.section("statistics")
    usual = StatisticsOptions()
    challenge = Challenge(
        source=top.location,
        name=name,
        title=top.text("title", name, 200),
        kind=kind,
        intro=top.text("intro", ""),
        phases=_phases(top),
        references=_references(top, folder) if kind == "captions" else (),
        metrics=_metrics(top) if kind == "captions" else (),
        split=top.optional("split") if kind == "captions" else None,
        **_rated(top, folder, data_root) if kind == "metrics" else _UNRATED,
        statistics=StatisticsOptions(
            interval=statistics.choice("interval", ("percentile", "bca", "none"), usual.interval),
            replicates=statistics.count("replicates", usual.replicates, 1, 100_000),
            seed=statistics.count("seed", usual.seed, 0),
        ),
        rank_by=top.text("rank_by", "", 64),
        public=visibility.choice("leaderboard", ("private", "public"), "private") == "public",
        per_item=visibility.flag("per_item", False),
        exact=visibility.flag("exact", False),
        shown=visibility.flag("references", False) if kind == "metrics" else False,
        human=top.choice("human", HUMAN, "none") if kind == "captions" else "none",
        limits=_limits(top.section("limits")),
        data_root=data_root,
    )
    for some in (visibility, statistics, top):
        some.reject_unknown()
    ranks = ranked(challenge)
    if not ranks:
        raise top.error("protocol", f"dataset {challenge.dataset} has nothing for its coefficients")
    if challenge.rank_by and challenge.rank_by not in ranks:
        raise top.error("rank_by", str(unknown("score", challenge.rank_by, ranks)))
    return challenge if challenge.rank_by else replace(challenge, rank_by=ranks[-1])


def ranked(challenge: Challenge) -> list[str]:
    """What a leaderboard can be ordered by: metrics, or `coefficient dimension`."""
    if challenge.kind == "captions":
        return [m.spec for m in challenge.chosen]
    protocol = challenge.protocol
    if protocol is None:
        raise ValueError("a challenge of metrics has a protocol")
    protocol = protocol.for_dataset(challenge.caption_set())
    found = [
        f"{c} {d}" for d in protocol.dimension for c in protocol.coefficients if c != "accuracy"
    ]
    return [*(["accuracy mean"] if "accuracy" in protocol.coefficients else []), *found]


def _phases(top: YamlFields) -> tuple[Phase, ...]:
    found: list[Phase] = []
    for one in top.sections("phases"):
        phase = Phase(
            one.text("name", max_length=64),
            one.time("from"),
            one.time("to"),
            one.optional_count("per_day"),
            one.optional_count("in_all"),
        )
        one.reject_unknown()
        if phase.name in [p.name for p in found]:
            raise one.error("name", f"two phases are called '{phase.name}'")
        if None not in (phase.begins, phase.ends) and not phase.open_at(phase.begins or 0):
            raise one.error("to", "the phase ends before it begins")
        found.append(phase)
    if not found:
        raise top.error("phases", "one at least is needed, with a name")
    return tuple(found)


def _references(top: YamlFields, folder: Path) -> tuple[References, ...]:
    found: list[References] = []
    for one in top.sections("references"):
        name = one.text("name", max_length=32)
        if not re.fullmatch(r"[\w-]+", name) or name in [r.name for r in found]:
            raise one.error("name", f"'{name}': another word for each set is expected, such as c5")
        if len([k for k in ("file", "dataset") if k in one]) != 1:
            raise one.error("name", "either file or dataset is needed beside it")
        if "dataset" in one:
            known = [dataset for dataset in names() if dataset != OWN]
            found.append(
                References(
                    name, dataset=one.choice("dataset", known), k=one.optional_count("first")
                )
            )
        else:
            path = folder / Path(one.text("file")).expanduser()
            if not path.is_file():
                raise one.error("file", f"{path}: no such file")
            found.append(References(name, file=path))
        one.reject_unknown()
    if not found:
        raise top.error("references", "one set at least is needed: a name, and file or dataset")
    return tuple(found)


def _metrics(top: YamlFields) -> tuple[str, ...]:
    wanted = top.plain_data("metrics")
    given = ["text"] if wanted is None else [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(given, list) or not all(isinstance(m, str) for m in given):
        raise top.error("metrics", "suites or metrics are expected, as [text]")
    try:
        found = resolve_metrics(given)
    except InputError as error:
        raise top.error("metrics", str(error)) from error
    if needing := [m.spec for m in found if "images" in m.needs]:
        raise top.error(
            "metrics", f"{needing[0]} looks at images, which are not evaluated here yet"
        )
    return tuple(given)


_UNRATED: dict[str, Any] = {"dataset": None, "own": {}, "protocol": None}


def _rated(top: YamlFields, folder: Path, data_root: Path | None) -> dict[str, Any]:
    """Whose items are scored, and how they meet ratings."""
    dataset = top.choice("dataset", names())
    given = top.plain_data("ratings")
    if dataset == OWN and given is None:
        raise top.error("ratings", "it is needed: options of the dataset file (docs/own-data.md)")
    if dataset != OWN and given is not None:
        raise top.error("ratings", f"the dataset is {dataset}, not {OWN}; leave it out")
    if not isinstance(given or {}, dict) or not all(isinstance(key, str) for key in given or {}):
        raise top.error("ratings", "options of the dataset file are expected, such as path:")
    own = dict(given or {})
    if "path" in own:
        own["path"] = str(folder / Path(str(own["path"])).expanduser())
    changes = top.section("protocol")
    wanted = {f.name: changes.plain_data(f.name) for f in fields(Protocol) if f.name != "name"}
    changes.reject_unknown()
    try:
        items = load(dataset, data_root, **own)
    except (InputError, TypeError) as error:
        raise top.error("dataset" if given is None else "ratings", str(error)) from error
    try:
        protocol = Protocol.resolve(dataset, usual_protocol(dataset), wanted)
        _ = protocol.for_dataset(items).select_items(items)
    except (InputError, TypeError) as error:
        raise top.error("protocol", str(error)) from error
    return {"dataset": dataset, "own": own, "protocol": protocol}


def _limits(given: YamlFields) -> Limits:
    usual = asdict(Limits())
    found = Limits(**{name: given.count(name, least, 1) for name, least in usual.items()})
    given.reject_unknown()
    return found
