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
from typing import Any, get_args

import yaml

from ...datasets.errors import InputError
from ...metrics.base import Floats, later_options
from ..scoring.catalog import dataset_names
from ..scoring.protocol import CHOICES, Protocol
from ..statistics.coefficients.coefficient import coefficient_names, find_coefficient
from .choices import POLICIES, TOLERANCES, tolerance_fault
from .yaml_tree import YamlTree, describe_value, parse_scalar

FORMAT = 1

#: Over how many parts the scores of all items are averaged; see `parts_of`.
PARTS = 16

#: The keys that every file has.
_KEYS = (
    "format",
    "dataset",
    "data",
    "protocol",
    "seed",
    "tolerance",
    "versions",
    "packages",
    "metrics",
    "sample",
)

_HEAD = """\
# A baseline of captau: what `captau check baseline=FILE` compares with; docs/ci_gate.md explains the lines.
# Review it like code. With update=true the command rewrites what moved, and that alone.
"""


@dataclass(frozen=True)
class MetricBaseline:
    """One metric in a baseline.

    Attributes:
        recipe: the spec that makes it; None where a test hands over a function.
        signature: `Metric.signature`.
        correlations: "dimension coefficient" → value, NaN where it is undefined.
        items, undefined: how many scores there are, and how many of them are NaN.
        mean, std: of the scores that are defined.
        parts: `parts_of` them.
    """

    recipe: str | None
    signature: str
    correlations: Mapping[str, float]
    items: int
    undefined: int
    mean: float
    std: float
    parts: tuple[float, ...]


@dataclass(frozen=True)
class Baseline:
    """The content of a baseline file.

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
        path, lines: the file, and path of keys → line, of a baseline that was read.
    """

    dataset: str
    file_options: Mapping[str, Any]
    data: Mapping[str, Any]
    protocol: Protocol
    seed: int
    tolerance: float
    versions: str
    packages: Mapping[str, str]
    metrics: Mapping[str, MetricBaseline]
    sample: Mapping[str, Mapping[str, float]]
    path: Path = Path()
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])

    def error_at(self, keys: tuple[str, ...], error: InputError | str) -> InputError:
        """Return an error with the file and the line of these keys."""
        return InputError(f"{self.path}:{self.lines[keys]}: {error}")


def decimals_of(tolerance: float) -> int:
    """Return how many decimals of a score matter: one more than the tolerance has."""
    return math.ceil(-math.log10(tolerance)) + 1


def unit_of(coefficient: str) -> float:
    """Return the last printed digit of a coefficient, in its natural range."""
    style = find_coefficient(coefficient)
    return 10**-style.decimals / style.scale


def moved(before: float, now: float, reach: float) -> bool:
    """Tell whether a number is off by more than `reach`; NaN equals only NaN."""
    if math.isnan(before) and math.isnan(now):
        return False
    return before != now and not abs(before - now) <= reach


def draw_sample(item_ids: Iterable[str], size: int, seed: int) -> list[str]:
    """Draw a sample of items, in the given order: those with the smallest hashes of seed and id.

    Whatever draws it, with whichever NumPy, the sample is the same; and of data to which some items
    were added, most of the old sample stays.
    """
    ids = list(item_ids)
    sampled = set(sorted(ids, key=lambda i: _hash(f"{seed}:{i}"))[:size])
    return [i for i in ids if i in sampled]


def parts_of(item_ids: Sequence[str], scores: Floats) -> tuple[float, ...]:
    """Return the means of the defined scores of `PARTS` parts, by items' hashes; NaN for an empty one.

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
    """Return the mean, its sum rounded once, so that the order does not matter; NaN of none."""
    return _sum(values) / len(values) if values else math.nan


def std(values: Sequence[float]) -> float:
    """Return the standard deviation of these values, taken as the population; NaN of none."""
    middle = mean(values)
    return math.sqrt(mean([(v - middle) ** 2 for v in values])) if values else math.nan


def _sum(values: Iterable[float]) -> float:
    values = list(values)
    # fsum has no word for infinity less infinity.
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _hash(text: str) -> bytes:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def steady(now: Baseline, before: Baseline | None) -> Baseline:
    """Return `now` with the numbers of `before` where they differ by no more than the last written digit.

    So a baseline that is written anew on another machine has new lines just where something moved.
    """
    if before is None:
        return now
    digits = decimals_of(now.tolerance)
    reach = 10.0**-digits

    def keep(new: float, old: float | None, reach: float = reach) -> float:
        return new if old is None or moved(old, new, reach) else old

    metrics = dict(now.metrics)
    for name, metric in now.metrics.items():
        if name not in before.metrics:
            continue
        old = before.metrics[name]
        metrics[name] = dataclasses.replace(
            metric,
            correlations={
                key: keep(value, old.correlations.get(key), 10.0 ** -_decimals_at(key))
                for key, value in metric.correlations.items()
            },
            mean=keep(metric.mean, old.mean),
            std=keep(metric.std, old.std),
            parts=tuple(map(keep, metric.parts, old.parts)),
        )
    sample = {
        item: {name: keep(v, before.sample.get(item, {}).get(name)) for name, v in scores.items()}
        for item, scores in now.sample.items()
    }
    return dataclasses.replace(now, metrics=metrics, sample=sample)


def coefficient_of(key: str) -> str:
    """Return the coefficient of a "dimension coefficient"."""
    return key.rpartition(" ")[2]


def _decimals_at(key: str) -> int:
    """Return how many decimals of a correlation are written: two more than tables print."""
    return round(-math.log10(unit_of(coefficient_of(key)))) + 2


def written(baseline: Baseline) -> str:
    """Return the text of a baseline: the same for the same content."""
    digits = decimals_of(baseline.tolerance)
    lines = [
        f"format: {FORMAT}",
        f"dataset: {yaml_text(baseline.dataset)}",
        *([f"file: {_flow(baseline.file_options)}"] if baseline.file_options else []),
        f"data: {_flow(baseline.data)}",
        f"protocol: {_flow(vars(baseline.protocol))}",
        f"seed: {baseline.seed}",
        f"tolerance: {_float(baseline.tolerance)}",
        f"versions: {baseline.versions}",
        "packages:",
        *(
            f"  {yaml_text(name)}: {yaml_text(v, quoted=True)}"
            for name, v in baseline.packages.items()
        ),
        "metrics:",
    ]
    for name, metric in baseline.metrics.items():
        correlations = (
            f"{yaml_text(key)}: {number(value, _decimals_at(key))}"
            for key, value in metric.correlations.items()
        )
        lines += [
            f"  {yaml_text(name)}:",
            f"    made: {_flow(metric.recipe)}",
            f"    signature: {yaml_text(metric.signature, quoted=True)}",
            f"    correlations: {{{', '.join(correlations)}}}",
            f"    scores: {{items: {metric.items}, undefined: {metric.undefined}, "
            f"mean: {number(metric.mean, digits)}, std: {number(metric.std, digits)}}}",
            f"    parts: [{', '.join(number(p, digits) for p in metric.parts)}]",
        ]
    lines.append("sample:")
    for item, scores in baseline.sample.items():
        inside = (f"{yaml_text(name)}: {number(score, digits)}" for name, score in scores.items())
        lines.append(f"  {yaml_text(item, quoted=True)}: {{{', '.join(inside)}}}")
    return _HEAD + "\n".join(lines) + "\n"


def number(value: float, decimals: int) -> str:
    """Return a number with so many decimals, zeros at the end left out; `null` for NaN."""
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
    """Return the shortest text that reads back as the same number, in YAML 1.1 as well, which wants a point."""
    mantissa, exponent, power = repr(float(value)).partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}{power}"


def _flow(value: Any) -> str:
    """Return plain data in a line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_text(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        return _float(value)
    return yaml_text(value) if isinstance(value, str) else json.dumps(value)


#: What YAML has no letter for within quotes, or takes for the end of a line.
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def yaml_text(text: str, *, quoted: bool = False) -> str:
    """Return a text as YAML; without quotes where every reader takes it for a text."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*( [A-Za-z0-9_]+)*", text)
    if plain and not quoted and yaml.safe_load(text) == text and parse_scalar(text) == text:
        return text
    return _UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def read(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        InputError: where it cannot be read, or something in it is missing, unknown or of another kind;
            with the line.
    """
    tree = YamlTree(path)
    has_file_options = "file" in _check_head(tree)
    tree.keys("data", expected_keys=("revision", "items", "digest"))
    tolerance = tree.get("tolerance", kind=float)
    if not TOLERANCES[0] <= tolerance <= TOLERANCES[1]:
        raise tree.fail(("tolerance",), tolerance_fault(tolerance))
    metrics = {name: _read_metric(tree, name) for name in tree.keys("metrics")}
    if not metrics:
        raise tree.fail(("metrics",), "no metric is in it")
    return Baseline(
        dataset=tree.choice("dataset", choices=dataset_names()),
        file_options={
            k: tree.get("file", k, kind=(str, float, int, dict)) for k in tree.keys("file")
        }
        if has_file_options
        else {},
        data={
            "revision": tree.get("data", "revision", kind=str),
            "items": tree.count("data", "items"),
            "digest": tree.get("data", "digest", kind=str),
        },
        protocol=_protocol(tree),
        seed=tree.count("seed"),
        tolerance=tolerance,
        versions=tree.choice("versions", choices=POLICIES),
        packages={k: tree.get("packages", k, kind=str) for k in tree.keys("packages")},
        metrics=metrics,
        sample=_read_sample(tree, list(metrics)),
        path=path,
        lines=tree.lines,
    )


def _check_head(tree: YamlTree) -> list[str]:
    """Check the format and the keys of the file, and return the keys.

    Raises:
        InputError: where the format is another, or a key is missing or unknown.
    """
    if not isinstance(tree.plain, dict):
        raise tree.fail((), "keys and values are expected")
    version = tree.get("format", kind=int)
    if version != FORMAT:
        raise InputError(
            f"{tree.path}:{tree.lines['format',]}: format {version}, and this captau reads {FORMAT}; "
            f"install the captau that made it, or delete it and make it anew with update=true"
        )
    optional_keys = ("file",) if "file" in tree.plain else ()
    return tree.keys(expected_keys=(*_KEYS, *optional_keys))


def _read_sample(tree: YamlTree, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read the sampled items' scores, in the order of the metrics."""
    return {
        item: {
            name: tree.number("sample", item, name)
            for name in sorted(tree.keys("sample", item, expected_keys=metrics), key=metrics.index)
        }
        for item in tree.keys("sample")
    }


def _read_metric(tree: YamlTree, name: str) -> MetricBaseline:
    key_path = ("metrics", name)
    tree.keys(*key_path, expected_keys=("made", "signature", "correlations", "scores", "parts"))
    tree.keys(*key_path, "scores", expected_keys=("items", "undefined", "mean", "std"))
    for key in tree.keys(*key_path, "correlations"):
        if coefficient_of(key) not in coefficient_names() or " " not in key:
            raise tree.fail(
                (*key_path, "correlations", key),
                f"'{key}' is no dimension and coefficient, as 'd tau_c'",
            )
    parts = tree.get(*key_path, "parts", kind=list)
    if len(parts) != PARTS:
        raise tree.fail(
            (*key_path, "parts"), f"parts holds {len(parts)} numbers; {PARTS} are expected"
        )
    for index, part in enumerate(parts):
        if isinstance(part, bool) or not isinstance(part, int | float | None):
            raise tree.fail(
                (*key_path, "parts", str(index)),
                f"parts holds {describe_value(part)}, not a number",
            )
    return MetricBaseline(
        recipe=tree.get(*key_path, "made", kind=(str, type(None))),
        signature=tree.get(*key_path, "signature", kind=str),
        correlations={
            key: tree.number(*key_path, "correlations", key)
            for key in tree.keys(*key_path, "correlations")
        },
        items=tree.count(*key_path, "scores", "items"),
        undefined=tree.count(*key_path, "scores", "undefined"),
        mean=tree.number(*key_path, "scores", "mean"),
        std=tree.number(*key_path, "scores", "std"),
        parts=tuple(math.nan if p is None else float(p) for p in parts),
    )


def _protocol(tree: YamlTree) -> Protocol:
    absent = later_options(Protocol).keys() - set(tree.keys("protocol"))
    fields = [f.name for f in dataclasses.fields(Protocol) if f.name not in absent]
    tree.keys("protocol", expected_keys=fields)
    values = {name: _read_choice(tree, name) for name in fields}
    try:
        return Protocol(**values)
    except InputError as error:
        raise tree.fail(("protocol",), str(error)) from error


def _read_choice(tree: YamlTree, name: str) -> Any:
    """Return the value of a choice of the protocol, of the type that its declaration says."""
    declared = CHOICES[name]
    key_path = ("protocol", name)
    is_optional = declared.usual is None
    absent = (type(None),) if is_optional else ()

    if declared.type is Any:
        value = tree.get(*key_path, kind=(list, *absent))
        return None if value is None else tree.texts(*key_path)

    kinds = get_args(declared.type) or (declared.type,)
    plain_kinds = tuple(kind for kind in kinds if kind is not type(None))
    return tree.get(*key_path, kind=(*plain_kinds, *absent))
