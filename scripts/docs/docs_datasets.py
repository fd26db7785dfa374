"""The site's pages of datasets, from their cards, and of the published cells, from docs/reproduction.csv."""

from __future__ import annotations

import sys
from dataclasses import fields

import pandas as pd
from docs_text import DOCS, ROOT, code, docstring, escaped, guides, plain, table

from captau.benchmarks.commands.reproduce import MATCHES, OTHER_SPLIT, WITHIN_DRAW
from captau.benchmarks.scoring.catalog import read_config, usual_protocol
from captau.benchmarks.scoring.protocol import CHOICES
from captau.datasets import registry as datasets
from captau.datasets.schema import Card, SourceFile


def datasets_index() -> str:
    rows = []
    for name in datasets.names():
        card = datasets.card(name)
        counts = ", ".join(f"{n:,} {what}" for what, n in card.expected.items())
        rows.append((f"[`{name}`]({name}.md)", card.title, counts or "–", card.licence))
    return (
        "# Datasets\n\n`captau data list` shows which datasets are on your machine. `captau data fetch dataset=NAME` "
        "downloads a dataset and checks its hashes. If a file must be downloaded by hand, it names the page; `captau "
        "data import dataset=NAME source=PATH` then puts the file into the data folder.\n\n"
        + table(("name", "title", "holds", "licence"), rows)
    )


def dataset_page(name: str) -> str:
    card = datasets.card(name)
    reader = datasets.reader(name)
    about, _ = docstring(sys.modules[reader.__module__])
    text, _ = docstring(reader)
    rows = [
        ("licence", card.licence),
        ("revision", f"`{card.revision}`" if card.revision else ""),
        ("homepage", f"<{card.homepage}>" if card.homepage.startswith("http") else card.homepage),
        *((f"number of {what}", f"{n:,}") for what, n in card.expected.items()),
        ("references", "yes" if card.has_references else "none"),
        ("images needed", "yes" if card.needs_images else ""),
        ("synthetic", "yes: it says nothing about real metrics" if card.synthetic else ""),
    ]
    scales = [(f"`{d}`", str(scale)) for d, scale in card.scales.items()]
    parts = [
        f"# {card.title}",
        f"`{name}`",
        about,
        text,
        table(("", ""), [(what, value) for what, value in rows if value]),
        "## What was rated\n\n" + table(("dimension", "scale"), scales) if scales else "",
        options_of_reader(name),
        protocol_of(name),
        split_of(card),
        sources_of(card),
        published_on(name),
        "## Cite\n\n" + code(card.citation, "bibtex") if card.citation else "",
        guides(rf"`{name}`", rf"dataset=(\[[^\]\n]*)?\b{name}\b"),
    ]
    return "\n\n".join(p for p in parts if p)


def options_of_reader(name: str) -> str:
    options_class = datasets._OPTIONS.get(name)
    declared = () if options_class is None else fields(options_class)
    rows = [(f"`file.{option.name}`", escaped(option.metadata["help"])) for option in declared]
    return "## Options\n\n" + table(("option", "meaning"), rows) if rows else ""


def protocol_of(name: str) -> str:
    """The usual protocol, with what its file, if any, says of it."""
    file = ROOT / "conf" / "dataset" / f"{name}.yaml"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    said = " ".join(
        line.removeprefix("#").strip()
        for line in text.splitlines()
        if line.startswith("#") and "@package" not in line
    )
    rows = [
        (f"`protocol.{key}`", plain(value))
        for key, choice in CHOICES.items()
        for value in (usual_protocol(name).get(key, choice.usual),)
        if key != "name"
    ]
    option = "" if datasets.card(name).has_references else " metrics=reference_free"
    return (
        f"## Usual protocol\n\n{escaped(said or 'Each choice has its usual value.')} Every choice is an option ([protocols](../protocols.md)).\n\n"
        + table(("option", "value"), rows)
        + "\n"
        + code(f"captau bench dataset={name}" + (" file.path=FILE" if name == "file" else option))
    )


def split_of(card: Card) -> str:
    if card.name == "file":
        return ""
    files = [f"{source.split}: `{source.path}`" for source in card.sources if source.split]
    if files:
        return (
            f"## Split\n\nThe authors' own, with a file for each part: {'; '.join(files)}. One part can be used without "
            "the others, with `protocol.split=validation`. If you use the whole dataset and a file is missing, tables "
            "say so."
        )
    return (
        "## Split\n\nBy image: 64 % train, 16 % validation, 20 % test. An image has the same split in every dataset "
        "([the split](../protocols.md#the-split)). `protocol.split=test` uses only one part."
    )


def _role(source: SourceFile) -> str:
    return (
        " (instead of others)" if source.alternative else " (optional)" if source.optional else ""
    )


def sources_of(card: Card) -> str:
    if not card.sources:
        return ""
    rows = [
        (
            f"`{source.path}`" + _role(source),
            "`captau data fetch`" if source.is_downloaded else "by hand",
            f"<{source.url}>",
            f"`{source.sha256[:12]}…`" if source.sha256 else "",
        )
        for source in card.sources
    ]
    fetch = f"captau data fetch dataset={card.name}"
    by_hand = f"captau data import dataset={card.name} source=PATH"
    commands = (
        [fetch] if all(s.is_downloaded or s.alternative or s.optional for s in card.sources) else []
    )
    commands += [by_hand] if any(not s.is_downloaded for s in card.sources) else []
    return (
        "## Where to get it\n\n"
        + table(("file below `data.root`", "how", "from", "SHA-256"), rows)
        + "\n"
        + code("\n".join([*commands, f"captau data verify dataset={card.name}"]))
    )


def published_on(name: str) -> str:
    """How many of the published cells of this dataset captau reproduces."""
    cells = read_cells()
    cells = cells[cells["dataset"] == name]
    if cells.empty:
        return ""
    rows = [
        (
            paper,
            table_,
            *(str(n) for n in counts_of(one)),
            f"`captau reproduce paper={paper}`",
        )
        for (paper, table_), one in cells.groupby(["paper", "table"], sort=False)
    ]
    head = (
        "paper",
        "table",
        "match",
        "within the draw",
        "of another split",
        "differ",
        "not computed",
        "command",
    )
    return (
        "## Published numbers\n\n"
        + table(head, rows)
        + "\n[Every cell](../reproduced_cells.md), and [why some differ](../reproduction.md).\n"
    )


def read_cells() -> pd.DataFrame:
    """docs/reproduction.csv, all of it text."""
    return pd.read_csv(DOCS / "reproduction.csv", dtype=str, keep_default_na=False)


def counts_of(cells: pd.DataFrame) -> tuple[int, ...]:
    """How many cells match, lie within the spread of draws, are of another split, differ, and are not computed."""
    return tuple(int((cells["match"] == value).sum()) for value in MATCHES)


def cells_page() -> str:
    cells = read_cells()
    parts = [
        "# Every published cell",
        "This is `comparison.csv` of `captau reproduce paper=all`. [What reproduces](reproduction.md) says why some "
        "cells differ.",
    ]
    for (paper, name, dataset), one in cells.groupby(["paper", "table", "dataset"], sort=False):
        good, within, other, bad, absent = counts_of(one)
        said = {
            "true": "yes",
            WITHIN_DRAW: "within the draw",
            OTHER_SPLIT: "another split",
            "false": "**no**",
            "": "not computed",
        }
        rows = [
            (c.row, c.column, c.published, c.reproduced, said[c.match], escaped(c.note))
            for c in one.itertuples()
        ]
        head = ("row", "column", "printed", "recomputed", "match", "note")
        title = read_config("paper", str(paper))["title"]
        parts.append(
            f"## {paper}, {name}: {dataset}\n\n{title}. {good} match, {within} lie within the draw of references, "
            f"{other} are of another split, {bad} differ, {absent} not computed.\n\n{table(head, rows)}"
        )
    return "\n\n".join(parts)
