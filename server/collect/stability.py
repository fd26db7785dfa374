"""A study and its re-run by other people, compared: `captau collect stability`.

Levinboim et al. 2021, section 3.3: p̂ of each pair in both runs, and how their differences lie.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...benchmarks.runs.results import table_files, to_csv, to_json
from ...benchmarks.runs.tables import ResultTable, format_number
from ...benchmarks.statistics.coefficients import correlate
from ...benchmarks.statistics.rater_agreement import (
    AgreementMeasure,
    difference_histogram,
    stability,
)
from ...datasets.caption_quality import FEWEST, p_hat
from ...datasets.errors import InputError
from ...datasets.registry import load
from ...datasets.schema import CaptionSet
from .protocols import FORMS

COLUMNS = ("dimension", "measure", "value", "published", "n_items", "note")
#: What the paper prints of 509 pairs, each twice shown to ten people (section 3.3, Figure 3).
PUBLISHED = {"mean": 0.015, "std": 0.212, "within_0.25": 0.85}
_OF = "Levinboim et al. 2021, section 3.3: 509 pairs, ten people each, 4 weeks apart"


@dataclass(frozen=True)
class Compared:
    """What two runs have in common, and how far they are apart.

    Attributes:
        measures: one row a dimension and measure, columns `COLUMNS`; differences in parts of the
            scale's width, first run less second.
        histograms: by dimension, the share of the differences nearest to -1, -0.75, …, 1.
        run: where they come from, and what was left out.
    """

    measures: pd.DataFrame
    histograms: dict[str, dict[float, float]]
    run: dict[str, Any]

    @property
    def tables(self) -> list[ResultTable]:
        """The measures, and the differences."""
        rows = [
            (
                f"{row['dimension']}: {row['measure']}",
                [
                    format_number(row["value"], 1, 3),
                    format_number(row["published"], 1, 3),
                    f"{row['n_items']:,}",
                ],
            )
            for row in self.measures.to_dict("records")
        ]
        notes = ["Differences in parts of the scale's width, first run less second."]
        if self.run["protocol"] == "good_bad":
            notes.append(f"Published: {_OF}.")
        notes += sorted({str(n) for n in self.measures["note"] if n})
        steps = next(iter(self.histograms.values()))
        shares = [
            (
                f"{step:+.2f}" if step else "0.00",
                [format_number(h[step], 100, 1) for h in self.histograms.values()],
            )
            for step in steps
        ]
        return [
            ResultTable(
                "A study and its re-run",
                "measure",
                ["value", "published", "items"],
                rows,
                notes=notes,
            ),
            ResultTable(
                "Differences of the items' means, to the nearest quarter: shares in %",
                "difference",
                list(self.histograms),
                shares,
            ),
        ]

    def files(self) -> dict[str, bytes]:
        """The files of a comparison, by name."""
        return {
            "stability.csv": to_csv(self.measures),
            **table_files(self.tables),
            "run.json": to_json(self.run),
        }


def compare(folders: Sequence[Path], least: int | None = None) -> Compared:
    """Compare two exports (`captau collect export`) of one study's two runs.

    Args:
        folders: the two, each with `ratings.csv` and `run.json`.
        least: how many ratings an item needs in either run; None for the paper's 8 of `good_bad`, else 1.

    Raises:
        InputError: where they are not two exports of one protocol, or have no item in common.
    """
    if len(folders) != 2:
        raise InputError(f"run has {len(folders)} folders; two are compared: run=[FIRST,AGAIN]")
    records = [_record(folder) for folder in folders]
    protocols = [str(record["protocol"]) for record in records]
    if protocols[0] != protocols[1]:
        raise InputError(f"{folders[1]}: its protocol is {protocols[1]}, not {protocols[0]}")
    protocol = protocols[0]
    scales = FORMS[protocol].scales
    if not scales:
        raise InputError(f"{folders[0]}: {protocol} gathers captions, which have no stability")
    needed = least or (FEWEST if protocol == "good_bad" else 1)
    first, again = (load("file", path=folder / "ratings.csv") for folder in folders)
    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    for dimension, scale in scales.items():
        both = pd.concat(
            [_means(first, dimension, needed), _means(again, dimension, needed)],
            axis=1,
            join="inner",
        )
        if both.empty:
            raise InputError(
                f"{folders[0]} and {folders[1]}: no item has {needed} ratings or more in both runs; "
                f"least= says how many it needs"
            )
        one, two = (both.iloc[:, k].to_numpy(float) for k in (0, 1))
        if protocol == "good_bad":
            one, two = p_hat(one), p_hat(two)
        pairs = [(one, two)]
        found = {k.removeprefix("stability_"): f for k, f in stability(pairs, scale).items()}
        rho = correlate(one, two, "spearman")
        found["spearman"] = AgreementMeasure(rho.value, len(one), note=rho.note)
        published = PUBLISHED if protocol == "good_bad" else {}
        rows += [
            {
                "dimension": dimension,
                "measure": measure,
                "value": f.value,
                "published": published.get(measure, float("nan")),
                "n_items": f.n_items,
                "note": f.note,
            }
            for measure, f in found.items()
        ]
        histograms[dimension] = difference_histogram(pairs, scale)
    run = {
        "command": "collect stability",
        "runs": [str(folder) for folder in folders],
        "studies": [record["study"] for record in records],
        "protocol": protocol,
        "least": needed,
        "items": [len(first.items), len(again.items)],
        "stability_histogram": histograms,
    }
    return Compared(pd.DataFrame(rows, columns=pd.Index(COLUMNS)), histograms, run)


def _record(folder: Path) -> dict[str, Any]:
    """What an export says of itself.

    Raises:
        InputError: where it is none, or in the papers' form, which not every reader's ratings are in.
    """
    path = folder / "run.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); captau collect export writes it"
        ) from error
    if (
        not isinstance(record, dict)
        or record.get("command") != "collect export"
        or record.get("form") != "captau"
        or record.get("protocol") not in FORMS
    ):
        raise InputError(f"{folder}: no folder of captau collect export with form=captau")
    return record


def _means(found: CaptionSet, dimension: str, least: int) -> pd.Series[float]:
    """The mean ratings of the items that have so many, by item."""
    ratings = found.ratings[found.ratings["dimension"] == dimension]
    by_item = ratings.groupby("item_id")["value"].agg(["mean", "size"])
    return by_item.loc[by_item["size"] >= least, "mean"]
