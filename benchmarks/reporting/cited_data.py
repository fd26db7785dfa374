"""The appendix of `captau cite` on datasets: which data, under which protocol, with what as data points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ...conf import group
from ..evaluation.wording import revision_words
from ..runs.latex_text import break_signature, escape_latex
from ..scoring.catalog import bibliography, read_config
from ..scoring.protocol import CHOICES, Protocol
from ..scoring.protocol_choice import Judged
from ..statistics.coefficients.coefficient import are_of_preferences, find_coefficient
from .bibliography import Bibliography
from .tables import named_run

#: The largest number of metrics or systems that a sentence names.
N_NAMED = 6


def list_once(names: Sequence[str], kind: str = "") -> str:
    """Return names once each, the last behind "and"; more than a few of a kind are only counted."""
    names = list(dict.fromkeys(names))
    if kind and len(names) > N_NAMED:
        return f"{len(names)} {kind}"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def describe_data(
    data: Mapping[str, Any], split: str | None, works: Bibliography, details: Sequence[str]
) -> str:
    """Return a dataset's title with its citation, and its revision and details in parentheses.

    Args:
        data: what run.json says of it.
        split: the split that was used; None for all.
        works: take its citation.
        details: what else to say.
    """
    cited = ",".join(works.add(data["citation"]))
    kind = "the synthetic dataset " if data["synthetic"] else ""
    revision = revision_words(data, split, lambda path: rf"\texttt{{{break_signature(path)}}}")
    remarks = "; ".join([revision, *details])
    return rf"{kind}{escape_latex(data['title'])} \cite{{{cited}}} ({remarks})"


def find_measured_rows(
    source: named_run.NamedRun,
) -> list[tuple[named_run.ColumnKey, dict[str, Any]]]:
    """Return the rows of the datasets on which a metric of the run has a number; the others were read alone."""
    frame = source.run.correlations
    measured = set(frame.loc[frame["value"].notna(), "dataset"])
    return [(key, row) for key, row in source.rows if row["dataset"] in measured]


def describe_measured_data(
    source: named_run.NamedRun,
    rows_by_column: Sequence[tuple[named_run.ColumnKey, dict[str, Any]]],
    works: Bibliography,
) -> list[str]:
    """Return a sentence for each dataset of a run's rows, under each protocol."""
    sentences: list[str] = []
    rows_by_block: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for key, row in rows_by_column:
        rows_by_block.setdefault(key[:2], []).append(row)

    for block_rows in rows_by_block.values():
        protocol = source.protocol(block_rows[0])
        rows = [row for row in block_rows if row["coefficient"] in protocol.coefficients]
        frame = pd.DataFrame(rows)
        data = source.run.run["data"][rows[0]["dataset"]]
        is_compared = are_of_preferences(frame["coefficient"])
        rated = frame[~is_compared]
        compared = frame[is_compared]
        sizes = [f"{frame['n_items'].max():,} captions"]
        if len(rated):
            dimensions = ", ".join(dict.fromkeys(rated["dimension"])).replace("_", " ")
            sizes.append(f"{rated['n_ratings'].max():,} data points of {dimensions}")
        if len(compared):
            sizes.append(f"{compared['n_ratings'].max():,} preference pairs")
        coefficients = [find_coefficient(name).words for name in frame["coefficient"]]
        described = describe_data(data, protocol.split, works, [", ".join(sizes)])
        choices = describe_choices(
            protocol,
            works,
            ratings=_say_data_points(protocol, rated, data, works) if len(rated) else "",
            compared=len(compared) > 0,
        )
        listed = list_once(coefficients)
        sentences.append(f"On {described} we report {listed}: {'; '.join(choices)}.")
    return sentences


def _say_data_points(
    protocol: Protocol, rated: pd.DataFrame, data: Mapping[str, Any], works: Bibliography
) -> str:
    """Say what the data points of ratings are.

    Args:
        protocol: the one that was applied.
        rated: the run's rows of coefficients of ratings.
        data: what run.json says of the dataset.
        works: take the citation of "method A".
    """
    # Runs of former versions say nothing of single values.
    single_values: Mapping[str, str] = data.get("single_values", {})
    dimensions = list(dict.fromkeys(rated["dimension"]))
    dimensions_by_value: dict[str, list[str]] = {}
    for dimension in dimensions:
        value = single_values.get(dimension, "")
        dimensions_by_value.setdefault(value, []).append(dimension.replace("_", " "))
    clauses: list[str] = []
    for value, names in dimensions_by_value.items():
        of_dimensions = f"of {list_once(names)} " if len(dimensions_by_value) > 1 else ""
        if value:
            rounded = ", rounded, halves up" if protocol.ratings == "rounded_mean" else ""
            clauses.append(
                f"{of_dimensions}each caption's data point is {escape_latex(value)}{rounded}"
            )
            continue
        words = CHOICES["ratings"].clause(protocol.ratings)
        if protocol.ratings == "per_rating":
            of_names = rated[rated["dimension"].str.replace("_", " ").isin(names)]
            has_several = (of_names["n_ratings"] > of_names["n_items"]).any()
            if has_several:
                # Scott et al. 2023 use the words "method A" of Hessel et al. 2021, and not of Flickr8k's own paper.
                (key,) = works.add(bibliography()["hessel2021clipscore"])
                words += rf" (method A of \cite{{{key}}})"
            else:
                words = "each caption has one rating, which is a data point"
        clauses.append(f"{of_dimensions}{words}")
    return "; ".join(clauses)


def describe_choices(
    protocol: Protocol, works: Bibliography, *, ratings: str = "", compared: bool = False
) -> list[str]:
    """Every choice of a protocol in words.

    Args:
        protocol: the one that was applied.
        works: take the paper that it is of.
        ratings: what the data points of ratings are; empty where there are none.
        compared: whether preferences were judged.
    """
    clauses: list[str] = []
    named = protocol.name.partition(" ")[0]
    if named in group("paper"):
        (key,) = works.add(read_config("paper", named)["citation"])
        clauses.append(rf"the protocol is that of \cite{{{key}}}")
    said_of: list[Judged] = [""]
    if ratings:
        said_of.append("ratings")
    if compared:
        said_of.append("pairs")
    if ratings or compared:
        said_of.append("judgements")
    # What becomes of undefined scores is said last.
    choices = protocol.clauses(said_of, escape_latex)
    for name, words in sorted(choices, key=lambda clause: clause[0] == "undefined"):
        clauses.append(ratings if name == "ratings" else words)
    return clauses
