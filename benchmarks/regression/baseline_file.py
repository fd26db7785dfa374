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
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from ...datasets.errors import InputError, unknown
from ...datasets.reading.yaml_document import KeyPath, YamlDocument, plain_yaml
from ...datasets.reading.yaml_model import Count, YamlModel, fault, one_of, validate
from ...metrics.base import Floats
from ..scoring.catalog import dataset_names
from ..scoring.protocol import CHOICES, Protocol
from ..statistics.coefficients.coefficient import coefficient_names, find_coefficient
from .choices import POLICIES, TOLERANCES, tolerance_fault

FORMAT = 1

#: Over how many parts the scores of all items are averaged; see `parts_of`.
PARTS = 16

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
    lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])

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
    if before == now:
        return False
    # The distance to NaN is NaN, which is within no reach.
    is_within_reach = abs(before - now) <= reach
    return not is_within_reach


def draw_sample(item_ids: Iterable[str], size: int, seed: int) -> list[str]:
    """Draw a sample of items, in the given order: those with the smallest hashes of seed and id.

    Whatever draws it, with whichever NumPy, the sample is the same; and of data to which some items
    were added, most of the old sample stays.
    """
    ids = list(item_ids)
    sampled = set(sorted(ids, key=lambda i: _sample_hash(seed, i))[:size])
    return [i for i in ids if i in sampled]


def _sample_hash(seed: int, item_id: str) -> bytes:
    """Return what orders items for the draw of a sample."""
    return _hash(f"{seed}:{item_id}")


def find_new_items(before: Baseline, item_ids: Iterable[str]) -> list[str]:
    """Return the items of which a baseline's sample tells that they were not there.

    Of a sample of all items these are all new ones; of a smaller one those that would have been drawn, too.
    """
    new_ids = [item_id for item_id in item_ids if item_id not in before.sample]
    if len(before.sample) == before.data["items"]:
        return new_ids

    last_drawn = max((_sample_hash(before.seed, i) for i in before.sample), default=b"")
    return [i for i in new_ids if _sample_hash(before.seed, i) < last_drawn]


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
    if not values:
        return math.nan
    # The rounded-once mean: on every machine the same.
    middle = mean(values)
    squares = [(value - middle) ** 2 for value in values]
    return math.sqrt(mean(squares))


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
    # The first baseline has nothing to keep.
    if before is None:
        return now
    digits = decimals_of(now.tolerance)
    reach_of_scores = 10.0**-digits

    def keep(new: float, old: float | None, reach: float = reach_of_scores) -> float:
        return new if old is None or moved(old, new, reach) else old

    metrics = dict(now.metrics)
    for name, metric in now.metrics.items():
        if name not in before.metrics:
            continue
        old = before.metrics[name]
        correlations: dict[str, float] = {}
        for key, value in metric.correlations.items():
            # A correlation is written with fewer digits than a score, see `_decimals_at`.
            last_digit = 10.0 ** -_decimals_at(key)
            correlations[key] = keep(value, old.correlations.get(key), last_digit)
        metrics[name] = dataclasses.replace(
            metric,
            correlations=correlations,
            mean=keep(metric.mean, old.mean),
            std=keep(metric.std, old.std),
            parts=tuple(map(keep, metric.parts, old.parts)),
        )

    sample: dict[str, dict[str, float]] = {}
    for item, scores in now.sample.items():
        # Another seed may have drawn other items.
        old_scores = before.sample.get(item, {})
        sample[item] = {name: keep(v, old_scores.get(name)) for name, v in scores.items()}
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
    ]
    if baseline.file_options:
        lines.append(f"file: {_flow(baseline.file_options)}")
    lines += [
        f"data: {_flow(baseline.data)}",
        f"protocol: {_flow(vars(baseline.protocol))}",
        f"seed: {baseline.seed}",
        f"tolerance: {_float(baseline.tolerance)}",
        f"versions: {baseline.versions}",
        "packages:",
    ]
    for name, version in baseline.packages.items():
        # Quoted, since YAML takes 1.10 for the number 1.1.
        lines.append(f"  {yaml_text(name)}: {yaml_text(version, quoted=True)}")

    lines.append("metrics:")
    for name, metric in baseline.metrics.items():
        correlations: list[str] = []
        for key, value in metric.correlations.items():
            correlations.append(f"{yaml_text(key)}: {number(value, _decimals_at(key))}")
        parts = [number(part, digits) for part in metric.parts]
        lines += [
            f"  {yaml_text(name)}:",
            f"    made: {_flow(metric.recipe)}",
            f"    signature: {yaml_text(metric.signature, quoted=True)}",
            f"    correlations: {{{', '.join(correlations)}}}",
            f"    scores: {{items: {metric.items}, undefined: {metric.undefined}, "
            f"mean: {number(metric.mean, digits)}, std: {number(metric.std, digits)}}}",
            f"    parts: [{', '.join(parts)}]",
        ]
    lines.append("sample:")
    for item, scores in baseline.sample.items():
        entries = [f"{yaml_text(name)}: {number(score, digits)}" for name, score in scores.items()]
        lines.append(f"  {yaml_text(item, quoted=True)}: {{{', '.join(entries)}}}")
    return _HEAD + "\n".join(lines) + "\n"


def number(value: float, decimals: int) -> str:
    """Return a number with so many decimals, zeros at the end left out; `null` for NaN."""
    if math.isnan(value):
        return "null"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    # Beyond that a fixed number of decimals would print digits that a float does not have.
    if abs(value) >= 1e15:
        return _float(value)
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _float(value: float) -> str:
    """Return the shortest text that reads back as the same number, in YAML 1.1 as well, which wants a point."""
    mantissa, exponent, power = repr(float(value)).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}{exponent}{power}"


def _flow(value: Any) -> str:
    """Return plain data in a line."""
    if isinstance(value, Mapping):
        entries = [f"{yaml_text(str(key))}: {_flow(entry)}" for key, entry in value.items()]
        return "{" + ", ".join(entries) + "}"
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
    if plain and not quoted and plain_yaml(text) == text:
        return text
    return _UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


#: What helps where a line of a baseline is wrong.
REMEDY = "; mend the line, or take the file anew from version control"


def _read_number(value: Any) -> Any:
    """Return what stands for a number; null is NaN."""
    if value is None:
        return math.nan
    # To Python `true` is the number 1.
    if isinstance(value, bool):
        raise fault(f"{value!r}: a number is expected")
    if isinstance(value, float) and math.isnan(value):
        raise fault("it is NaN; write null for what is undefined")
    return value


#: A number, which null leaves undefined.
Number = Annotated[float, BeforeValidator(_read_number)]


def _check_correlation(key: str) -> str:
    if " " not in key or coefficient_of(key) not in coefficient_names():
        raise fault(f"'{key}' is no dimension and coefficient, as 'd tau_c'")
    return key


class _DataFields(YamlModel):
    """The dataset of a baseline, as it was then."""

    revision: str
    items: Count
    digest: str


class _ScoresFields(YamlModel):
    """The scores of all items, in a few numbers."""

    items: Count
    undefined: Count
    mean: Number
    std: Number


class _MetricFields(YamlModel):
    """A metric."""

    made: str | None
    signature: str
    correlations: dict[Annotated[str, AfterValidator(_check_correlation)], Number]
    scores: _ScoresFields
    parts: Annotated[list[Number], Field(min_length=PARTS, max_length=PARTS)]


def _make_protocol_fields() -> type[YamlModel]:
    """Return the model of a protocol: a field for each choice, of the type that its declaration says."""
    choice_fields: dict[str, Any] = {}
    for name, declared in CHOICES.items():
        # A choice that takes one name or several is written as a list.
        kind: Any = list[str] if declared.type is Any else declared.type
        if declared.usual is None:
            kind = kind | None
        elif type(None) in get_args(kind):
            # A choice with a usual value has one in every baseline: `str`, not `str | None`.
            kind = get_args(kind)[0]
        choice_fields[name] = (kind, declared.usual if declared.is_later else ...)
    return create_model("_ProtocolFields", __base__=YamlModel, **choice_fields)


_ProtocolFields = _make_protocol_fields()


def _check_tolerance(value: float) -> float:
    if not TOLERANCES[0] <= value <= TOLERANCES[1]:
        raise fault(tolerance_fault(value))
    return value


class _BaselineFields(YamlModel):
    """The keys of a baseline."""

    format: Annotated[int, Field(strict=True)]
    dataset: Annotated[str, one_of("dataset", dataset_names)]
    file: dict[str, str | float | int | dict[str, Any]] = Field(default_factory=dict)
    data: _DataFields
    protocol: _ProtocolFields  # pyright: ignore[reportInvalidTypeForm]
    seed: Count
    tolerance: Annotated[float, AfterValidator(_check_tolerance)]
    versions: Annotated[str, one_of("versions", lambda: POLICIES)]
    packages: dict[str, str]
    metrics: Annotated[dict[str, _MetricFields], Field(min_length=1)]
    sample: dict[str, dict[str, Number]]


def read(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        InputError: where it cannot be read, or something in it is missing, unknown or of another kind;
            with the line.
    """
    document = YamlDocument.read(path, remedy=REMEDY)
    check_format(document, FORMAT)
    entries = validate(document, _BaselineFields)
    try:
        protocol = Protocol.from_record(entries.protocol.model_dump())
    except InputError as error:
        raise document.error(("protocol",), str(error)) from error

    return Baseline(
        dataset=entries.dataset,
        file_options=entries.file,
        data=entries.data.model_dump(),
        protocol=protocol,
        seed=entries.seed,
        tolerance=entries.tolerance,
        versions=entries.versions,
        packages=entries.packages,
        metrics={name: _make_metric(metric) for name, metric in entries.metrics.items()},
        sample=_order_sample(document, entries),
        path=path,
        lines=document.lines,
    )


def check_format(document: YamlDocument, expected: int) -> None:
    """Check that a file is of the format that is read here, before its keys are.

    Raises:
        InputError: where it is of another.
    """
    version = document.plain.get("format") if isinstance(document.plain, dict) else None
    if isinstance(version, int) and version != expected:
        line = document.lines[("format",)]
        raise InputError(
            f"{document.file}:{line}: format {version}, and this captau reads {expected}; "
            f"install the captau that made it, or delete it and make it anew with update=true"
        )


def _make_metric(metric: _MetricFields) -> MetricBaseline:
    return MetricBaseline(
        recipe=metric.made,
        signature=metric.signature,
        correlations=metric.correlations,
        items=metric.scores.items,
        undefined=metric.scores.undefined,
        mean=metric.scores.mean,
        std=metric.scores.std,
        parts=tuple(metric.parts),
    )


def _order_sample(document: YamlDocument, entries: _BaselineFields) -> dict[str, dict[str, float]]:
    """Return the sampled items' scores, of all metrics in their order.

    Raises:
        InputError: where an item lacks a metric, or has another.
    """
    sample: dict[str, dict[str, float]] = {}
    for item, scores in entries.sample.items():
        for name in scores:
            if name not in entries.metrics:
                message = str(unknown("metric", name, entries.metrics))
                raise document.error(("sample", item, name), message)
        for name in entries.metrics:
            if name not in scores:
                raise document.error(("sample", item), f"'{name}' is missing")
        sample[item] = {name: scores[name] for name in entries.metrics}
    return sample
