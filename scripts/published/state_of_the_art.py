"""The page docs/state_of_the_art.md: every dataset's printed correlations, sorted.

    python scripts/published/state_of_the_art.py

It follows from results/published/, conf/paper/ and docs/reproduction.csv; `refresh_reproduction.py` writes it anew too.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import pandas as pd

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.commands.reproduce import OTHER_SPLIT, WITHIN_DRAW
from captau.benchmarks.evaluation.papers.published_numbers import (
    COMPARED_CHOICES,
    PLAIN_PROTOCOL,
    PublishedNumber,
    protocol_differences,
    read_numbers,
)
from captau.benchmarks.scoring.catalog import dataset_names, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.coefficients.coefficient import find_coefficient
from captau.conf import group
from captau.datasets import registry

PAGE = Path(__file__).parents[2] / "docs" / "state_of_the_art.md"
CELLS = Path(__file__).parents[2] / "docs" / "reproduction.csv"
#: Dimensions that stand for all of a dataset's, of which the others are left to the page of all cells.
SUMMARIES = ("mean", "total")
HEAD = """# State of the art

This page shows how well metrics agree with people, as papers print it: for each dataset, the numbers of `results/published/` with
the highest first. Papers print no intervals; on Flickr8k-Expert a difference of one or two points may be due to chance
([sensitivity](sensitivity.md)). `python scripts/published/state_of_the_art.py` makes the page.

- The **line above a table** names the coefficient (×100) and, in brackets, how the protocol differs from the dataset's usual one.
  For example, `references mean_over_single` means that a caption is scored against one reference at a time and the scores are
  averaged; `own_references leave_out` means that a caption is not scored against a copy of itself ([protocols](protocols.md)).
- **references**: whether the metric compares a caption with references.
- **training**: a `formula` is not trained; a `zero-shot` metric uses models that never saw people's ratings of captions; a
  `supervised` metric learned from such ratings, with `of this set` if they were the dataset's own.
- **reproduced**: `yes` if captau recomputes the printed digits; `no` with captau's number if it differs; `printed only` if captau
  lacks the metric, its weights, the images or the data ([every cell](reproduction.md)).
- **†**: the value was read from CaptionEvalKit 0.1.3 and not from the paper.
- Numbers under different protocols, or for different revisions of a dataset, are in separate tables; do not compare them
  ([why papers disagree](why_papers_disagree.md)). If papers disagree under one protocol, the table has both numbers.
- Of Crisscrossed Captions, SugarCrepe and VALSE there are no numbers of a paper here; captau's own are
  in [several datasets](several_datasets.md#crisscrossed-captions) and [probes](probes.md#faults-that-others-made).
"""


@dataclass(frozen=True)
class MetricFacts:
    """A metric in print: its name, year, need of references and training, from `results/published/metrics.csv`."""

    metric: str
    year: str
    references: str
    training: str


@dataclass
class Entry:
    """A metric's number, with all papers that print it."""

    facts: MetricFacts
    numbers: list[PublishedNumber] = field(default_factory=list[PublishedNumber])

    @property
    def text(self) -> str:
        """The number with one decimal where a paper prints it so, else the shortest."""
        texts = [n.text for n in self.numbers]
        return min(texts, key=lambda text: (len(text.partition(".")[2]) != 1, len(text)))

    def is_same(self, number: PublishedNumber) -> bool:
        """Tell whether a number is this one, where both are rounded to the digits of the shorter."""
        digits = min(len(text.partition(".")[2]) for text in (self.text, number.text))
        return abs(float(self.text) - float(number.text)) <= 0.5 * 10.0**-digits + 1e-9


def read_facts() -> dict[str, MetricFacts]:
    """Read the facts about metrics, by each name that a paper prints."""
    file = resources.files("captau.results") / "published" / "metrics.csv"
    rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    return {
        name: MetricFacts(row["metric"], row["year"], row["references"], row["training"])
        for row in rows
        for name in row["printed_as"].split("|")
    }


def state_of_the_art() -> str:
    """Return the page."""
    numbers = [number for paper in group("paper") for number in read_numbers(paper)]
    by_set: dict[tuple[str, str], list[PublishedNumber]] = {}
    for number in numbers:
        by_set.setdefault((number.dataset, number.revision), []).append(number)
    revisions = {name for name, revision in by_set if revision}
    parts = [HEAD]
    for (dataset, revision), members in sorted(by_set.items(), key=lambda item: -len(item[1])):
        title = registry.card(dataset).title
        parts.append(f"## {title}{f', revision {revision}' if revision else ''}")
        if dataset in revisions and revision:
            parts.append(
                f"Do not compare these numbers with those of other revisions of `{dataset}`."
            )
        parts += tables_of(dataset, members)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def tables_of(dataset: str, numbers: Sequence[PublishedNumber]) -> Iterable[str]:
    """Yield a table for each dimension, coefficient and protocol of a dataset, the usual protocol first."""
    dimensions = {n.dimension for n in numbers}
    shown = dimensions & set(SUMMARIES) or dimensions
    by_column: dict[tuple[object, ...], list[PublishedNumber]] = {}
    for number in numbers:
        if number.dimension in shown:
            choices = tuple(getattr(number.protocol, name) for name in COMPARED_CHOICES)
            by_column.setdefault((number.dimension, number.coefficient, choices), []).append(number)
    usual = Protocol.resolve(
        dataset, usual_protocol(dataset) if dataset in dataset_names() else PLAIN_PROTOCOL, {}
    )
    cells = read_cells()
    for members in sorted(by_column.values(), key=lambda m: -len(m)):
        first = members[0]
        differences = protocol_differences(first.protocol, usual)
        differ = [text.partition(" (here")[0] for text in differences]
        split = f", {first.protocol.split.replace('_', ' ')}" if first.protocol.split else ""
        name = find_coefficient(first.coefficient).symbol.removesuffix(" %")
        head = "" if first.dimension in ("overall", "") else f", {first.dimension}{split}"
        caption = f"**{name}{head}**" + (f" ({', '.join(differ)})" if differ else "")
        yield f"{caption}\n\n{table_of(members, cells)}"


def table_of(numbers: Sequence[PublishedNumber], cells: dict[tuple[str, ...], str]) -> str:
    """Return the sorted table of numbers that may be compared."""
    facts = read_facts()
    entries: list[Entry] = []
    for number in numbers:
        metric = facts[number.row]
        equal_entries = [e for e in entries if e.facts == metric and e.is_same(number)]
        if not equal_entries:
            entries.append(Entry(metric))
        (equal_entries or entries)[-1].numbers.append(number)
    lines = [
        "| metric | year | references | training | value | reproduced | printed by |",
        "|:--|--:|:--|:--|--:|:--|:--|",
    ]
    for entry in sorted(entries, key=lambda e: (-float(e.text), e.facts.metric)):
        trained = {str(n.training) for n in entry.numbers}
        training = entry.facts.training + (", of this set" if "yes" in trained else "")
        lines.append(
            f"| {entry.facts.metric} | {entry.facts.year or '–'} | {entry.facts.references} | {training} "
            f"| {entry.text} | {reproduction_of(entry, cells)} | {printers_of(entry)} |"
        )
    return "\n".join(lines)


def reproduction_of(entry: Entry, cells: dict[tuple[str, ...], str]) -> str:
    """Say whether captau recomputes a number; where it differs, what it has instead."""
    states = [
        cells.get((n.paper, n.table, n.dataset, n.row, n.column), "printed only")
        for n in entry.numbers
    ]
    return "yes" if "yes" in states else max(states, key=lambda s: s.startswith("no"))


def printers_of(entry: Entry) -> str:
    """List the papers and tables that print a number."""
    sources = [
        n.source.replace(", as CaptionEvalKit 0.1.3 gives it", " †").partition(";")[0]
        for n in entry.numbers
    ]
    shortened = [s.replace(", expected output of compute_correlations.py", "") for s in sources]
    return "; ".join(dict.fromkeys(shortened))


def read_cells() -> dict[tuple[str, ...], str]:
    """Read what captau reproduces, by paper, table, dataset, row and column."""
    cells = pd.read_csv(CELLS, dtype=str, keep_default_na=False)
    states: dict[tuple[str, ...], str] = {}
    for cell in cells.to_dict("records"):
        place = tuple(cell[name] for name in ("paper", "table", "dataset", "row", "column"))
        value = f"{float(cell['reproduced'] or 'nan'):.{cell['decimals']}f}"
        words = {
            "true": "yes",
            WITHIN_DRAW: f"within the draw: {value}",
            OTHER_SPLIT: f"another split: {value}",
            "false": f"no: {value}",
            "": "printed only",
        }
        states[place] = words[cell["match"]]
    return states


if __name__ == "__main__":
    show_manual(__doc__)
    PAGE.write_text(state_of_the_art(), encoding="utf-8")
