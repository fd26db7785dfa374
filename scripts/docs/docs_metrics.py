"""The site's pages of metrics: registry, YAML and docstring of each."""

from __future__ import annotations

import dataclasses
import re
import sys
import typing
from contextlib import suppress
from functools import cache
from typing import Any

from docs_text import code, docstring, guides, plain, table

from captau.benchmarks.scoring.catalog import bibliography, read_config
from captau.conf import group
from captau.datasets.errors import InputError
from captau.metrics import registry as metrics
from captau.metrics.base import Metric, UnavailableError

#: What the kinds of metrics are called.
TITLES = {
    "reference-based": "Against references",
    "reference-free": "Without references",
    "learned": "Learned from people",
    "given": "Yours",
}
#: A call on one caption.
PYTHON = """
import captau

captau.metric("{name}").score(
    [{{"caption": "a dog runs", "references": ["the dog runs fast", "a dog in a field"]}}]
)
"""


def metric_names() -> list[str]:
    """All metrics, in the order in which tables show them."""
    return sorted(
        metrics.metric_names(), key=lambda name: (read_config("metric", name)["order"], name)
    )


def label_of(name: str) -> str:
    return read_config("metric", name).get("label", name)


def class_of(name: str) -> tuple[type[Any], dict[str, Any]]:
    return metrics.metric_class(name)


def home_of(name: str) -> str:
    """The module that a metric is in, below `metrics/`."""
    return class_of(name)[0].__module__.removeprefix("captau.metrics.")


def kind_of_metric(name: str) -> str:
    """One of `METRIC_KINDS`, by the same rule as in tables."""
    by_needs = (
        "reference-based" if "references" in (trait(name, "needs") or ()) else "reference-free"
    )
    return read_config("metric", name).get("kind") or by_needs


def is_text(name: str) -> bool:
    """Whether it needs captions and references alone, and no model."""
    return home_of(name).startswith("text.")


def metrics_index() -> str:
    parts = [
        "# Metrics",
        "`captau bench metrics=NAME,…` accepts these names, and parameters in brackets: "
        '`metrics="cider(variant=plain)"`.',
    ]
    for kind, title in TITLES.items():
        rows = [
            (f"[`{name}`]({name}.md)", label_of(name), needs_of(name), summary(name))
            for name in metric_names()
            if kind_of_metric(name) == kind
        ]
        parts.append(f"## {title}\n\n{table(('name', 'label', 'needs', 'definition'), rows)}")
    rows = [
        (f"`{name}`", ", ".join(f"[`{m}`]({m}.md)" for m in read_config("suite", name)["metrics"]))
        for name in group("suite")
    ]
    parts.append(
        "## Suites\n\nA suite is a list of metrics under one name; `metrics=` accepts it like a metric. Tables "
        "list metrics that cannot be computed, for instance without weights or images, with the remedy.\n\n"
        + table(("name", "metrics"), rows)
    )
    return "\n\n".join(parts)


def summary(name: str) -> str:
    """The first sentence of a metric's docstring."""
    text, _ = docstring(class_of(name)[0])
    return re.split(r"(?<=[.])\s|\n\n", " ".join(text.split("\n\n")[0].split()))[0]


@cache
def default_of_metric(name: str) -> Metric | None:
    """The metric with its defaults; None where a parameter is needed."""
    try:
        return metrics.metric(name)
    except InputError:
        return None


def trait(name: str, which: str) -> Any:
    """A trait that may depend on parameters: of the defaults, or None where there are none."""
    value = getattr(default_of_metric(name) or class_of(name)[0], which)
    return None if isinstance(value, property) else value


def needs_of(name: str) -> str:
    needs = trait(name, "needs")
    return (
        "as its parameters say"
        if needs is None
        else ", ".join(sorted(needs)) or "neither references nor images"
    )


def metric_page(name: str) -> str:
    cls, fixed = class_of(name)
    text, said = docstring(cls)
    about, _ = docstring(sys.modules[cls.__module__])
    shown_as = read_config("metric", name)
    fields = [f for f in dataclasses.fields(cls) if f.name not in fixed]
    label = str(shown_as.get("label", name))
    is_spelt = re.sub(r"\W", "_", label).lower() == name
    title = label if is_spelt else f"{label} ({name})"  # people look for either
    parts = [f"# {title}", f"`{name}`", text, about]
    if note := shown_as.get("note"):
        parts.append(f'!!! note "Below a table"\n    {note}')
    parts += [
        "## Facts",
        table(("", ""), facts(name)),
        "## Parameters",
        parameters(cls, fields, said.get("Args", {})),
        "## Signature",
        signature(name),
        "## Use",
        usage(name, fields),
        "## Cite\n\n" + code("\n\n".join(bibliography()[k] for k in cites), "bibtex")
        if (cites := shown_as.get("cites"))
        else "",
        guides(rf"`{name}[`(]", rf"[\[,\"]{name}[\],\"(]", rf"metrics={name}\b"),
    ]
    return "\n\n".join(p for p in parts if p)


def facts(name: str) -> list[tuple[str, str]]:
    cls, fixed = class_of(name)
    shown_as = read_config("metric", name)
    low, high = trait(name, "bounds")
    backends = literals(typing.get_type_hints(cls).get("backend"))
    by = ", ".join(f"`{d}`" for d in trait(name, "distributions"))
    suites = [s for s in group("suite") if name in read_config("suite", s)["metrics"]]
    rows = [
        ("needs", needs_of(name)),
        (
            "lowest and highest value",
            f"{'no bound' if low is None else f'{low:g}'}, {'no bound' if high is None else f'{high:g}'}",
        ),
        ("better scores are", "higher" if trait(name, "higher_is_better") else "lower"),
        (
            "scores depend on other rows",
            "yes: corpus statistics" if trait(name, "depends_on_corpus") else "no",
        ),
        ("computed by", ", ".join(f"`{b}`" for b in backends)),
        ("versions in the signature", by),
        (
            "in tables",
            f"× {shown_as['scale']:g}, {shown_as['decimals']} decimal{'s' * (shown_as['decimals'] != 1)}",
        ),
        ("suites", ", ".join(f"`{s}`" for s in suites)),
        ("module", f"`metrics/{home_of(name).replace('.', '/')}.py`"),
        ("install", install_of(name)),
    ]
    if fixed:
        rows.insert(0, ("fixed by the name", ", ".join(f"`{k}={v}`" for k, v in fixed.items())))
    return [(what, value) for what, value in rows if value]


def install_of(name: str) -> str:
    heavy = home_of(name).partition(".")[0] in ("neural", "learned")
    return "`pip install 'captau[neural]'`" if heavy else ""


def literals(hint: Any) -> list[str]:
    """The texts that a type allows, where it is a choice of texts."""
    if typing.get_origin(hint) is typing.Literal:
        return [str(value) for value in typing.get_args(hint)]
    return [text for inner in typing.get_args(hint) for text in literals(inner)]


def kind_of(hint: Any) -> str:
    """A type in words."""
    inner = [a for a in typing.get_args(hint) if a is not type(None)]
    none = " or none" if type(None) in typing.get_args(hint) else ""
    if choice := literals(hint):
        return ", ".join(f"`{c}`" for c in choice) + none
    words = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}
    return " or ".join(words.get(a, getattr(a, "__name__", str(a))) for a in inner or [hint]) + none


#: What parameters mean that many metrics share.
COMMON_MEANINGS = {
    "backend": "the package that computes it",
    "tokenize": "the tokeniser: `ptb` for English, the others for other languages ([languages](../languages.md))",
}


def parameters(cls: type[Any], fields: list[Any], said: dict[str, str]) -> str:
    hints = typing.get_type_hints(cls)
    rows = [
        (
            f"`{f.name}`",
            kind_of(hints[f.name]),
            "needed" if f.default is dataclasses.MISSING else plain(f.default),
            said.get(f.name, COMMON_MEANINGS.get(f.name, "")),
        )
        for f in fields
    ]
    return table(("parameter", "value", "default", "meaning"), rows)


def signature(name: str) -> str:
    """The default's signature, where it is the same on every machine."""
    one = default_of_metric(name)
    with suppress(UnavailableError):  # of a program that is not on this machine
        if one is not None and is_text(name) and not one.programs:
            return (
                "Every run records it in `run.json`. With the defaults, and the versions that built this page:\n\n"
                + code(one.signature)
            )
    return (
        "The signature has all parameters, with digests of weights and files, and the versions of the packages "
        "that compute the metric. Every run records it in `run.json`."
    )


def usage(name: str, fields: list[Any]) -> str:
    needed = [f.name for f in fields if f.default is dataclasses.MISSING]
    if needed:
        inside = ",".join(f"{key}=…" for key in needed)
        return f"`'metrics={name}({inside})'` with any command that scores, or from Python " + (
            f'`captau.metric("{name}({inside})")`.'
        )
    command = code(f"captau bench metrics={name}")
    return f"{command}\n{code(PYTHON.format(name=name), 'python')}" if is_text(name) else command
