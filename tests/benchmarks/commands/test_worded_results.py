"""Notes, tables of means, and steps of progress of commands, on small results made by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.commands import probe, train
from captau.benchmarks.evaluation.training.seed_means import compute_seed_means, make_mean_tables
from captau.benchmarks.options.analyses import ProbeOptions
from captau.benchmarks.options.score import NamedFile
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.metrics.base import Unavailability
from tests.benchmarks.printed import lines_of


def test_means_over_seeds_by_hand() -> None:
    """Of 0.25 and 0.75 the mean is 0.5 and the deviation 0.5 · √½ · … = 0.353553; another metric has no mean."""
    rows = [
        ("d", "p", "x", "tau_c", "icr seed 0", 0.25, 8, 9),
        ("d", "p", "x", "tau_c", "cider", 0.5, 8, 9),
        ("d", "p", "x", "tau_c", "icr seed 1", 0.75, 7, 6),
    ]
    columns = ["dataset", "protocol", "dimension", "coefficient", "metric", "value"]
    frame = pd.DataFrame(rows, columns=[*columns, "n_items", "n_ratings"])
    (mean,) = compute_seed_means(frame, (0, 1))
    assert math.isnan(mean.pop("p_value"))
    assert mean == {
        **{"dataset": "d", "protocol": "p", "dimension": "x", "coefficient": "tau_c"},
        **{"metric": "icr mean", "value": 0.5, "std": pytest.approx(0.5 / math.sqrt(2))},
        **{"n_items": 8, "n_ratings": 9, "note": "mean of 2 seeds, standard deviation 0.353553"},
    }
    (table,) = make_mean_tables([mean], (0, 1))
    assert (table.title, table.heads) == ("Mean of 2 seeds", ["coefficient", "mean", "std"])
    assert lines_of(table) == [("icr: d, x", ["τ_c", "50.00", "35.36"])]
    assert make_mean_tables([], (0, 1)) == []
    assert compute_seed_means(frame, (0,)) == []


def corpora(**shared: bool) -> Any:
    return {name: SimpleNamespace(has_shared_split=x) for name, x in shared.items()}


FOLDS = "icr: predicted by raters that had not seen the image (5 folds); trained on this dataset's other images, so supervised on it"


@pytest.mark.parametrize(("values", "n_dropped", "notes"), [
    ({"design": "split"}, 0, ["icr: trained on the training images of the shared split, chosen on its validation images; "
                              "all rows here are of its test images."]),
    ({"design": "split", "select": "last"}, 0, ["icr: trained on the training images of the shared split, the last epoch taken; "
                                                "all rows here are of its test images."]),
    ({"design": "transfer"}, 0, ["icr: each trained on one dataset's training images; all rows here are of test images."]),
    ({"design": "all", "shuffled": True}, 0, ["icr: trained on every row, so that nothing is left to test on.",
                                              "CONTROL: trained on shuffled ratings."]),
    ({"design": "leave_one_out"}, 1, ["icr: trained on the other datasets; images that this one shares with them left out.",
                                      "2 rows left out of training in all."]),
    ({"design": "folds"}, 0, [f"{FOLDS}."]),
    ({"design": "folds", "strict": True}, 1000, [f"{FOLDS}, but for images that a tested caption was borrowed from.",
                                                 "2,000 rows left out of training in all."]),
    ({"design": "folds", "strict_control": True}, 0,
     [f"{FOLDS}, but for as many random images as a tested caption was borrowed from."]),
])  # fmt: skip
def test_notes_of_designs(values: dict[str, Any], n_dropped: int, notes: list[str]) -> None:
    values = {"folds": 5, "strict": False, "strict_control": False, "shuffled": False} | values
    selection = {"select": values.get("select", "tau_c")}
    recipe = SimpleNamespace(name="icr", options=selection, control="shuffled ratings")
    options: Any = SimpleNamespace(recipe=recipe, **values)
    jobs: Any = [SimpleNamespace(n_dropped=n_dropped)] * 2
    assert train.design_notes(options, jobs, corpora(a=True)) == notes


@pytest.mark.parametrize("design", ["split", "transfer", "folds", "leave_one_out"])
@pytest.mark.parametrize(
    ("captions", "source"),
    [("texts/coco.csv", "coco.csv"), ("demo", "the demo's further scenes")],
)
def test_a_rater_of_captions_elsewhere_is_not_said_to_learn_from_the_datasets(
    design: str, captions: str, source: str
) -> None:
    """UMIC with `rater.captions=FILE` reads no rating and no caption of the datasets."""
    values = {"folds": 5, "strict": False, "strict_control": False, "shuffled": False}
    recipe = SimpleNamespace(name="umic", options={"captions": captions})
    options: Any = SimpleNamespace(recipe=recipe, design=design, **values)
    jobs: Any = [SimpleNamespace(n_dropped=0)]
    assert train.design_notes(options, jobs, corpora(a=True)) == [
        f"umic: learned from the captions of {source} and from no ratings, without the images that are tested here."
    ]
    options.design = "all"
    assert train.design_notes(options, jobs, corpora(a=True)) == [
        f"umic: learned from the captions of {source} and from no ratings, and tested on nothing."
    ]
    recipe.options["captions"] = "references"
    (note,) = train.design_notes(options, jobs, corpora(a=True))
    assert "learned from the captions" not in note


def test_a_missing_metric_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows stand below those of the others, a row a fault, without a share."""
    metrics = resolve_metrics(["bleu_1", "cider"])
    reason = Unavailability("not here")
    monkeypatch.setattr(probe, "find_unavailable", lambda *_: {metrics[1]: reason})
    content = b'{"1": ["two dogs run on grass", "two brown dogs run"], "2": ["a cat", "a red cat"]}'
    options = ProbeOptions(
        **{"metrics": metrics, "faults": ("attribute", "number"), "dataset": None},
        references=NamedFile("r", Path("r.json"), content),
        statistics=StatisticsOptions(interval="none"),
    )
    frame = probe.run(options).frames["probes.csv"]
    missing = frame[frame["metric"] == "cider"]
    assert set(missing["fault"]) == {"attribute", "number"}
    assert list(missing["n_pairs"]) == [0, 0]
    assert set(missing["note"]) == {frame["note"].iloc[-1]}
    assert "not here" in frame["note"].iloc[-1]
    assert missing.drop(columns=["metric", "fault", "n_pairs", "note"]).isna().all(axis=None)
    assert list(frame["metric"]) == ["bleu_1", "bleu_1", "cider", "cider"]
