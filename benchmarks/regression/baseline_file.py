"""Baselines: small text files of what scores and correlations were, which `captau check` compares with.

`docs/ci_gate.md` shows one. The layout is YAML, so that it takes comments and every value has a line
to complain of; the writer below makes the same bytes of the same content anywhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.files import read_text
from ...metrics.base import Floats
from ..runs.tables import COEFFICIENT_STYLE
from ..scoring.protocol import Protocol

FORMAT = 1
#: Which changed versions fail a check by themselves: of any recorded package, of those in a checked
#: metric's signature, or none.
POLICIES = ("all", "signatures", "none")
#: Over how many parts the scores of all items are averaged; see `parts_of`.
PARTS = 16
#: Below the first, scores differ between machines; above the second, everything is alike.
TOLERANCES = (1e-12, 1.0)
_HEAD = """\
# A baseline of captau: what `captau check baseline=FILE` compares with; docs/ci_gate.md explains the lines.
# Review it like code. With update=true the command rewrites what moved, and that alone.
"""


@dataclass(frozen=True)
class Kept:
    """One metric in a baseline.

    Attributes:
        made: the spec that makes it; None where a test hands over a function.
        signature: `Metric.signature`.
        correlations: "dimension coefficient" → value, NaN where it is undefined.
        items, undefined: how many scores there are, and how many of them are NaN.
        mean, std: of the scores that are defined.
        parts: `parts_of` them.
    """

    made: str | None
    signature: str
    correlations: Mapping[str, float]
    items: int
    undefined: int
    mean: float
    std: float
    parts: tuple[float, ...]


@dataclass(frozen=True)
class Baseline:
    """What a baseline file says.

    Attributes:
        dataset: its name; `own` are the options of `dataset=file`.
        data: the dataset's `revision`, number of `items` and `digest`.
        protocol: how scores meet ratings.
        seed: of the draw of the sample.
        tolerance: how far a score may move.
        versions: one of `POLICIES`.
        packages: distribution → version, of what may move a score; and `python`.
        metrics: by spec.
        sample: item id → metric → score.
        lines: path of keys → line, of a baseline that was read.
    """

    dataset: str
    own: Mapping[str, Any]
    data: Mapping[str, Any]
    protocol: Protocol
    seed: int
    tolerance: float
    versions: str
    packages: Mapping[str, str]
    metrics: Mapping[str, Kept]
    sample: Mapping[str, Mapping[str, float]]
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])


def decimals_of(tolerance: float) -> int:
    """How many decimals of a score matter: one more than the tolerance has."""
    return math.ceil(-math.log10(tolerance)) + 1


def unit_of(coefficient: str) -> float:
    """The last printed digit of a coefficient, in its natural range."""
    _, _, scale, decimals = COEFFICIENT_STYLE[coefficient]
    return 10**-decimals / scale


def moved(before: float, now: float, reach: float) -> bool:
    """Whether a number is off by more than `reach`; NaN is like NaN alone."""
    if math.isnan(before) or math.isnan(now):
        return math.isnan(before) != math.isnan(now)
    return before != now and not abs(before - now) <= reach


def drawn(item_ids: Iterable[str], size: int, seed: int) -> list[str]:
    """A sample of items in the given order: those with the smallest hashes of seed and id.

    Whatever draws it, with whichever NumPy, the sample is the same; and of data to which some items
    were added, most of the old sample stays.
    """
    ids = list(item_ids)
    chosen = set(sorted(ids, key=lambda i: _hash(f"{seed}:{i}"))[:size])
    return [i for i in ids if i in chosen]


def parts_of(item_ids: Sequence[str], scores: Floats) -> tuple[float, ...]:
    """Means of the defined scores of `PARTS` parts, NaN for an empty one; an item's hash says which.

    This is the digest of all scores. A hash of rounded scores would be smaller, but some score lies so
    near to where rounding turns that the last bit, in which machines differ, turns the hash. A mean
    moves no further than the furthest of its scores, so that scores within the tolerance have means
    within it, on every machine; and with few items to a part, one item that moves shows.
    """
    parts: list[list[float]] = [[] for _ in range(PARTS)]
    for item_id, score in zip(item_ids, scores.tolist(), strict=True):
        if not math.isnan(score):
            parts[_hash(item_id)[0] % PARTS].append(score)
    return tuple(map(mean, parts))


def mean(values: Sequence[float]) -> float:
    """The mean, the sum rounded once, so that the order does not matter; NaN of none."""
    return _sum(values) / len(values) if values else math.nan


def std(values: Sequence[float]) -> float:
    """The standard deviation of these values, taken as the population; NaN of none."""
    middle = mean(values)
    return math.sqrt(mean([(v - middle) ** 2 for v in values])) if values else math.nan


def _sum(values: Iterable[float]) -> float:
    values = list(values)
    # fsum has no word for infinity less infinity.
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _hash(text: str) -> bytes:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def steady(now: Baseline, before: Baseline | None) -> Baseline:
    """`now` with the numbers of `before` where they differ by no more than the last written digit.

    So a baseline that is written anew on another machine has new lines just where something moved.
    """
    if before is None:
        return now
    digits = decimals_of(now.tolerance)
    reach = 10.0**-digits

    def keep(new: float, old: float | None, reach: float = reach) -> float:
        return new if old is None or moved(old, new, reach) else old

    metrics = dict(now.metrics)
    for name, kept in now.metrics.items():
        if name not in before.metrics:
            continue
        old = before.metrics[name]
        metrics[name] = dataclasses.replace(
            kept,
            correlations={
                key: keep(value, old.correlations.get(key), 10.0 ** -_decimals_at(key))
                for key, value in kept.correlations.items()
            },
            mean=keep(kept.mean, old.mean),
            std=keep(kept.std, old.std),
            parts=tuple(map(keep, kept.parts, old.parts)),
        )
    sample = {
        item: {name: keep(v, before.sample.get(item, {}).get(name)) for name, v in scores.items()}
        for item, scores in now.sample.items()
    }
    return dataclasses.replace(now, metrics=metrics, sample=sample)


def coefficient_of(key: str) -> str:
    """The coefficient of a "dimension coefficient"."""
    return key.rpartition(" ")[2]


def _decimals_at(key: str) -> int:
    """How many decimals of a correlation are written: two more than tables print."""
    return round(-math.log10(unit_of(coefficient_of(key)))) + 2


# Writing.


def written(baseline: Baseline) -> str:
    """The text of a baseline: the same for the same content."""
    digits = decimals_of(baseline.tolerance)
    lines = [
        f"format: {FORMAT}",
        f"dataset: {_text(baseline.dataset)}",
        *([f"file: {_flow(baseline.own)}"] if baseline.own else []),
        f"data: {_flow(baseline.data)}",
        f"protocol: {_flow(vars(baseline.protocol))}",
        f"seed: {baseline.seed}",
        f"tolerance: {_float(baseline.tolerance)}",
        f"versions: {baseline.versions}",
        "packages:",
        *(f"  {_text(name)}: {_text(v, quoted=True)}" for name, v in baseline.packages.items()),
        "metrics:",
    ]
    for name, kept in baseline.metrics.items():
        correlations = (
            f"{_text(key)}: {number(value, _decimals_at(key))}"
            for key, value in kept.correlations.items()
        )
        lines += [
            f"  {_text(name)}:",
            f"    made: {_flow(kept.made)}",
            f"    signature: {_text(kept.signature, quoted=True)}",
            f"    correlations: {{{', '.join(correlations)}}}",
            f"    scores: {{items: {kept.items}, undefined: {kept.undefined}, "
            f"mean: {number(kept.mean, digits)}, std: {number(kept.std, digits)}}}",
            f"    parts: [{', '.join(number(p, digits) for p in kept.parts)}]",
        ]
    lines.append("sample:")
    for item, scores in baseline.sample.items():
        inside = (f"{_text(name)}: {number(score, digits)}" for name, score in scores.items())
        lines.append(f"  {_text(item, quoted=True)}: {{{', '.join(inside)}}}")
    return _HEAD + "\n".join(lines) + "\n"


def number(value: float, decimals: int) -> str:
    """A number with so many decimals, zeros at the end left out; `null` for NaN."""
    if math.isnan(value):
        return "null"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if abs(value) >= 1e15:
        return _float(value)
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _float(value: float) -> str:
    """The shortest text that reads back as the same number, in YAML 1.1 as well, which wants a point."""
    mantissa, exponent, power = repr(float(value)).partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}{power}"


def _flow(value: Any) -> str:
    """Plain data in a line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        return _float(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


#: What YAML has no letter for within quotes, or takes for the end of a line.
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def _text(text: str, *, quoted: bool = False) -> str:
    """A text as YAML; without quotes where every reader takes it for a text."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*( [A-Za-z0-9_]+)*", text)
    if plain and not quoted and yaml.safe_load(text) == text and _scalar(text) == text:
        return text
    return _UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


# Reading.


def _scalar(text: str) -> Any:
    """What a word without quotes means: what it means in JSON, else a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class _Tree:
    """A YAML file as plain data, with the line of every value.

    Raises:
        InputError: where it is no YAML, or uses more of it than a baseline has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], int] = {(): 1}
        self._nodes: set[int] = set()
        text = read_text(path)
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.plain = {} if root is None else self._plain(root, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._broken(error.problem or "not YAML", mark.line + 1 if mark else 1) from error
        except yaml.reader.ReaderError as error:
            # Of a text that was decoded already, the position is that of a character.
            line = text.count("\n", 0, error.position) + 1
            raise self._broken("a character that YAML does not allow", line) from error
        except RecursionError as error:
            raise self._broken("nested too deeply", 1) from error

    def _broken(self, what: str, line: int) -> InputError:
        what = " ".join(what.split())
        return InputError(
            f"{self.path}:{line}: no baseline ({what}); mend the line, or take the file anew from "
            f"version control"
        )

    def _plain(self, node: yaml.Node, at: tuple[str, ...]) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(at, line)
        if id(node) in self._nodes:
            raise self._broken("an alias of YAML, which baselines do not have", line)
        self._nodes.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(one, (*at, str(i))) for i, one in enumerate(node.value)]
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._broken("a key that is no text", line)
            key = key_node.value
            if key in found:
                raise self._broken(f"'{key}' stands twice", line)
            self.lines[*at, key] = line
            found[key] = self._plain(value, (*at, key))
        return found

    def fail(self, at: tuple[str, ...], said: str) -> InputError:
        """The error at a value, or where it is missing at what should hold it."""
        while at not in self.lines:
            at = at[:-1]
        return self._broken(said, self.lines[at])

    def get(self, *at: str, kind: type | tuple[type, ...]) -> Any:
        """A value of a kind; an int passes for a float, a bool never for a number."""
        value: Any = self.plain
        for depth, key in enumerate(at):
            if not isinstance(value, dict):
                raise self.fail(at[:depth], f"{'.'.join(at[:depth]) or 'all'} has no keys")
            if key not in value:
                raise self.fail(at[:depth], f"'{key}' is missing")
            value = value[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if isinstance(value, int) and float in kinds and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**1000 else math.inf
        if not isinstance(value, kinds) or (
            isinstance(value, bool) and not {bool, object} & set(kinds)
        ):
            wanted = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
            raise self.fail(at, f"{at[-1]} is {_shown(value)}, not {wanted}")
        return value

    def keys(self, *at: str, known: Sequence[str] | None = None) -> list[str]:
        """The keys of a mapping; where they are known, all of them and no other."""
        found = list(self.get(*at, kind=dict)) if at else list(self.plain)
        if known is None:
            return found
        for key in found:
            if key not in known:
                raise self.fail((*at, key), str(unknown("key", key, known)))
        for key in known:
            self.get(*at, key, kind=object)
        return found

    def number(self, *at: str) -> float:
        """A number; null is NaN."""
        value = self.get(*at, kind=(float, type(None)))
        if value is not None and math.isnan(value):
            raise self.fail(at, f"{at[-1]} is NaN; write null for what is undefined")
        return math.nan if value is None else value

    def count(self, *at: str) -> int:
        """A whole number from 0 on."""
        value = self.get(*at, kind=int)
        if value < 0:
            raise self.fail(at, f"{at[-1]} is {value}; a whole number from 0 on is expected")
        return value

    def texts(self, *at: str) -> tuple[str, ...]:
        """A list of texts."""
        count = len(self.get(*at, kind=list))
        return tuple(self._entry(at, i) for i in range(count))

    def _entry(self, at: tuple[str, ...], index: int) -> str:
        value = self.get(*at, kind=list)[index]
        if not isinstance(value, str):
            raise self.fail((*at, str(index)), f"{at[-1]} holds {_shown(value)}, not a text")
        return value

    def choice(self, *at: str, of: Sequence[str]) -> str:
        """One of some words."""
        value = self.get(*at, kind=str)
        if value not in of:
            raise self.fail(at, str(unknown(at[-1], value, of)))
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        InputError: where it cannot be read, or something in it is missing, unknown or of another kind;
            with the line.
    """
    tree = _Tree(path)
    if not isinstance(tree.plain, dict):
        raise tree.fail((), "keys and values are expected")
    version = tree.get("format", kind=int)
    if version != FORMAT:
        line = tree.lines["format",]
        raise InputError(
            f"{path}:{line}: format {version}, and this captau reads {FORMAT}; install the captau that "
            f"made it, or delete it and make it anew with update=true"
        )
    wanted = ("format", "dataset", "data", "protocol", "seed", "tolerance", "versions", "packages")
    own = ("file",) if "file" in tree.plain else ()
    tree.keys(known=(*wanted, "metrics", "sample", *own))
    tree.keys("data", known=("revision", "items", "digest"))
    tolerance = tree.get("tolerance", kind=float)
    if not TOLERANCES[0] <= tolerance <= TOLERANCES[1]:
        raise tree.fail(("tolerance",), tolerance_fault(tolerance))
    metrics = {name: _kept(tree, name) for name in tree.keys("metrics")}
    if not metrics:
        raise tree.fail(("metrics",), "no metric is in it")
    sample = {
        item: {
            name: tree.number("sample", item, name)
            for name in sorted(
                tree.keys("sample", item, known=tuple(metrics)), key=list(metrics).index
            )
        }
        for item in tree.keys("sample")
    }
    return Baseline(
        dataset=tree.choice("dataset", of=group("dataset")),
        own={k: tree.get("file", k, kind=(str, float, int)) for k in tree.keys("file")}
        if own
        else {},
        data={
            "revision": tree.get("data", "revision", kind=str),
            "items": tree.count("data", "items"),
            "digest": tree.get("data", "digest", kind=str),
        },
        protocol=_protocol(tree),
        seed=tree.count("seed"),
        tolerance=tolerance,
        versions=tree.choice("versions", of=POLICIES),
        packages={k: tree.get("packages", k, kind=str) for k in tree.keys("packages")},
        metrics=metrics,
        sample=sample,
        lines=tree.lines,
    )


def tolerance_fault(tolerance: float) -> str:
    """What is wrong with a tolerance out of range."""
    return f"tolerance is {tolerance:g}; a number from {TOLERANCES[0]:g} to {TOLERANCES[1]:g} is expected"


def _kept(tree: _Tree, name: str) -> Kept:
    at = ("metrics", name)
    tree.keys(*at, known=("made", "signature", "correlations", "scores", "parts"))
    tree.keys(*at, "scores", known=("items", "undefined", "mean", "std"))
    for key in tree.keys(*at, "correlations"):
        if coefficient_of(key) not in COEFFICIENT_STYLE or " " not in key:
            raise tree.fail(
                (*at, "correlations", key), f"'{key}' is no dimension and coefficient, as 'd tau_c'"
            )
    parts = tree.get(*at, "parts", kind=list)
    if len(parts) != PARTS:
        raise tree.fail((*at, "parts"), f"parts holds {len(parts)} numbers; {PARTS} are expected")
    for index, part in enumerate(parts):
        if isinstance(part, bool) or not isinstance(part, int | float | None):
            raise tree.fail((*at, "parts", str(index)), f"parts holds {_shown(part)}, not a number")
    return Kept(
        made=tree.get(*at, "made", kind=(str, type(None))),
        signature=tree.get(*at, "signature", kind=str),
        correlations={
            key: tree.number(*at, "correlations", key) for key in tree.keys(*at, "correlations")
        },
        items=tree.count(*at, "scores", "items"),
        undefined=tree.count(*at, "scores", "undefined"),
        mean=tree.number(*at, "scores", "mean"),
        std=tree.number(*at, "scores", "std"),
        parts=tuple(math.nan if p is None else float(p) for p in parts),
    )


def _protocol(tree: _Tree) -> Protocol:
    fields = [f.name for f in dataclasses.fields(Protocol)]
    tree.keys("protocol", known=fields)
    values: dict[str, Any] = {}
    for name in fields:
        at = ("protocol", name)
        if name in ("dimension", "coefficients"):
            values[name] = tree.texts(*at)
        elif name == "systems":
            given = tree.get(*at, kind=(list, type(None)))
            values[name] = None if given is None else tree.texts(*at)
        elif name == "k":
            values[name] = tree.get(*at, kind=(int, type(None)))
        else:
            values[name] = tree.get(*at, kind=(str, type(None)) if name == "split" else str)
    try:
        return Protocol(**values)
    except InputError as error:
        raise tree.fail(("protocol",), str(error)) from error
