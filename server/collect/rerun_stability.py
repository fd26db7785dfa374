"""A study and its re-run by other raters, compared: `captau collect stability`.

Levinboim et al. 2021, section 3.3: p̂ of each pair in both runs, and the distribution of their differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...benchmarks.reporting.charts.rating_charts import difference_figure
from ...benchmarks.reporting.run_results import Results
from ...benchmarks.runs.results import RunClock, describe_environment
from ...benchmarks.runs.tables import AnyCell, ResultTable, Row, count_cell, number_cell
from ...benchmarks.statistics.coefficients.coefficient import correlate
from ...benchmarks.statistics.rater_agreement import difference_histogram, stability
from ...benchmarks.statistics.rating_table import AgreementMeasure
from ...datasets.errors import InputError
from ...datasets.reading.rating_scales import read_scales
from ...datasets.registry import load
from ...datasets.schema import Scale
from .forms import FORMS
from .forms.form import Form

#: What the command measures, as reports and citations say it.
MEASURES = "how stable a study is when other raters repeat it"
COLUMNS = ("dimension", "measure", "value", "published", "n_items", "note")


@dataclass(frozen=True)
class _Judgements:
    """The results of a run by caption, or by pair of captions.

    Attributes:
        frame: columns `item_id, dimension, value`; of pairs the pair and the strength of a preference.
        scales: by dimension.
    """

    frame: pd.DataFrame
    scales: Mapping[str, Scale]

    @classmethod
    def load(cls, folder: Path, form_name: str) -> _Judgements:
        """Read the tables of an export.

        Raises:
            InputError: if there is none.
        """
        path = folder / "preferences.csv"
        if path.is_file():
            preferences = load("file", path=path).preferences
            columns = {"pair_id": "item_id", "strength": "value"}
            return cls(preferences.rename(columns=columns), read_scales(path))

        path = folder / "ratings.csv"
        if not path.is_file():
            raise InputError(
                f"{folder}: {form_name} exports neither ratings nor preferences here, which stability needs"
            )

        caption_set = load("file", path=path)
        return cls(caption_set.ratings, caption_set.card.scales)

    def means(self, dimension: str, min_ratings: int) -> pd.Series[float]:
        """Return the mean values of the items that have enough, by item."""
        values = self.frame[self.frame["dimension"] == dimension]
        by_item = values.groupby("item_id")["value"].agg(["mean", "size"])

        return by_item.loc[by_item["size"] >= min_ratings, "mean"]


def compare_runs(folders: Sequence[Path], min_ratings: int | None = None) -> Results:
    """Compare two exports (`captau collect export`) of a study's two runs.

    Args:
        folders: the two, each with `run.json` and `ratings.csv`, or `preferences.csv` of pairs.
        min_ratings: the ratings that an item needs in either run; None for the form's own number.

    Returns:
        `stability.csv`, a row for each dimension and measure, columns `COLUMNS`, whose differences are in parts of the
        scale's width, first run less second; in the record, by dimension, the share of the differences at each step,
        see `difference_histogram`.

    Raises:
        InputError: if they are not two exports of one protocol, or have no item in common.
    """
    clock = RunClock()
    records = _load_records(folders)
    form_name = str(records[0]["protocol"])
    form = FORMS[form_name]
    min_ratings = min_ratings or form.stability.min_ratings
    runs = [_Judgements.load(folder, form_name) for folder in folders]

    rows: list[dict[str, Any]] = []
    histograms: dict[str, dict[float, float]] = {}
    for dimension, scale in runs[0].scales.items():
        means_by_run = [run.means(dimension, min_ratings) for run in runs]
        # An item counts only if both runs have enough ratings of it.
        means = pd.concat(means_by_run, axis=1, join="inner")
        if means.empty:
            raise InputError(
                f"{folders[0]} and {folders[1]}: no item has {min_ratings} ratings or more in both "
                f"runs; least= says how many it needs"
            )

        dimension_rows, histograms[dimension] = _compare_means(form, dimension, scale, means)
        rows += dimension_rows

    measures = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    folder_names = [str(folder) for folder in folders]
    record = {
        "command": "collect stability",
        "config": {"run": folder_names, "least": min_ratings},
        "runs": folder_names,
        "studies": [record["study"] for record in records],
        "protocol": form_name,
        "least": min_ratings,
        "items": [run.frame["item_id"].nunique() for run in runs],
        "stability_histogram": histograms,
        **describe_environment(),
        **clock.record(),
        "measures": MEASURES,
    }
    tables = _tables(measures, histograms, form.stability.source)
    figures = difference_figure(histograms)
    return Results({"stability.csv": measures}, record, figures=figures, tables=tables)


def _tables(
    measures: pd.DataFrame, histograms: Mapping[str, Mapping[float, float]], source: str
) -> list[ResultTable]:
    """Return the measures, and the distribution of the differences.

    Args:
        measures: columns `COLUMNS`.
        histograms: by dimension, the share of the differences at each step.
        source: the publication of the `published` column; empty if there is none.
    """
    is_published = bool(measures["published"].notna().any())
    columns = ["value", "published", "items"] if is_published else ["value", "items"]

    rows: list[Row] = []
    for row in measures.to_dict("records"):
        cells = [number_cell(row["value"], 1, 3)]
        if is_published:
            cells.append(number_cell(row["published"], 1, 3))
        cells.append(count_cell(row["n_items"]))
        rows.append(Row(f"{row['dimension']}: {row['measure']}", cells))

    notes = ["Differences in parts of the scale's width, first run less second."]
    if source:
        notes.append(f"Published: {source}.")
    notes += sorted({str(note) for note in measures["note"] if note})

    steps: set[float] = set()
    for shares in histograms.values():
        steps.update(shares)

    share_rows: list[Row] = []
    for step in sorted(steps):
        cells: list[AnyCell] = []
        for shares in histograms.values():
            cells.append(number_cell(shares[step], 100, 1) if step in shares else "")
        share_rows.append(Row(f"{step:+.3g}" if step else "0", cells))

    return [
        ResultTable(
            title="A study and its re-run",
            corner="measure",
            columns=columns,
            rows=rows,
            notes=notes,
        ),
        ResultTable(
            title="Differences of the items' means: shares in %",
            corner="difference",
            columns=list(histograms),
            rows=share_rows,
        ),
    ]


def _compare_means(
    form: type[Form], dimension: str, scale: Scale, means: pd.DataFrame
) -> tuple[list[dict[str, Any]], dict[float, float]]:
    """Return the rows of a dimension's measures, and the histogram of its differences.

    Args:
        form: the form of both runs.
        dimension, scale: the dimension and its scale.
        means: the items' means, a column a run.
    """
    first = form.stability.estimate(means.iloc[:, 0].to_numpy(float))
    second = form.stability.estimate(means.iloc[:, 1].to_numpy(float))
    pairs = [(first, second)]

    measures: dict[str, AgreementMeasure] = {}
    for name, measure in stability(pairs, scale).items():
        measures[name.removeprefix("stability_")] = measure
    rho = correlate(first, second, "spearman")
    measures["spearman"] = AgreementMeasure(rho.value, len(first), remarks=rho.remarks)

    rows: list[dict[str, Any]] = []
    for name, measure in measures.items():
        row = {
            "dimension": dimension,
            "measure": name,
            "value": measure.value,
            "published": form.stability.published.get(name, float("nan")),
            "n_items": measure.n_items,
            "note": measure.note,
        }
        rows.append(row)

    return rows, difference_histogram(pairs, scale)


def _load_records(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the `run.json` of two exports.

    Raises:
        InputError: if there are not two, or their protocols differ.
    """
    if len(folders) != 2:
        raise InputError(f"run has {len(folders)} folders; two are compared: run=FIRST,AGAIN")

    records = [_load_record(folder) for folder in folders]
    form_name = records[0]["protocol"]
    second_name = records[1]["protocol"]
    if form_name != second_name:
        raise InputError(f"{folders[1]}: its protocol is {second_name}, not {form_name}")
    return records


def _load_record(folder: Path) -> dict[str, Any]:
    """Return the `run.json` of an export.

    Raises:
        InputError: if there is none, or its format is a paper's, which does not have every rater's ratings.
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
