"""`captau probe`: what it writes, counted anew from the captions that it wrote."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import captau
from captau.benchmarks.evaluation.probes.faults import CONTROLS, FAULTS
from captau.benchmarks.evaluation.probes.noticed import (
    find_noticed,
    measure_probes,
    probe_cell,
    weakest_sentences,
)
from captau.benchmarks.evaluation.probes.pairs import take_foils
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, make_items
from captau.datasets.sources import sugarcrepe
from captau.datasets.sources.coco_captions import COCO_REFERENCES
from tests.conftest import run_captau, says

REFERENCES = {
    f"{n}.jpg": [
        f"A man with a {colour} hat is riding a horse.",
        f"Two dogs with the big {colour} ball and a cat.",
        f"The man in a {colour} hat on a brown horse near a road.",
    ]
    for n, colour in enumerate(["red", "blue", "green", "pink", "purple", "yellow"] * 3)
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    (folder / "refs.json").write_text(json.dumps(REFERENCES))
    words = ("metrics=bleu_1,cider", "statistics.replicates=200", f"output_dir={folder / 'run'}")
    assert run_captau("probe", f"references={folder / 'refs.json'}", *words) == 0
    return folder / "run"


def test_the_files_of_the_contract(run: Path) -> None:
    rows = pd.read_csv(run / "probes.csv")
    assert list(rows) == ["metric", "fault", "value", "ci_low", "ci_high", "n_pairs", "note"]
    assert rows["metric"].unique().tolist() == ["bleu_1", "cider"]
    for _, part in rows.groupby("metric"):
        assert part["fault"].tolist() == [*FAULTS, *CONTROLS]
    defined = rows.dropna(subset=["value"])
    assert (defined["ci_low"] <= defined["value"]).all()
    assert (defined["value"] <= defined["ci_high"]).all()
    for name in ("table.md", "table.tex", "table.csv", "run.json"):
        assert (run / name).stat().st_size
    table = (run / "table.md").read_text()
    assert (
        "| metric | object | attribute | number | gender | roles | negation | addition |" in table
    )
    assert "in which the changed caption scores lower; ties count ½" in table
    assert "| fault | caption | with the fault | scored higher by |" in table
    joined = next(line for line in table.splitlines() if line.startswith("| joined |"))
    assert joined.endswith("| BLEU-1 |") or joined.endswith("| BLEU-1, CIDEr |")


def test_shares_counted_anew_from_the_pairs(run: Path) -> None:
    """Scores of the written captions by `Metric.score`, and shares of them by hand."""
    rows = pd.read_csv(run / "probes.csv").set_index(["metric", "fault"])
    pairs = pd.read_parquet(run / "probe_pairs.parquet")
    bleu = captau.metric("bleu_1")

    def score(column: str) -> np.ndarray:
        frame = pairs[[column, "references"]].rename(columns={column: "caption"})
        return bleu.score(
            [{**r, "references": list(r["references"])} for r in frame.to_dict("records")]
        )

    pairs["noticed"] = np.sign(score("caption") - score("faulty_caption")) / 2 + 0.5
    for fault, part in pairs.groupby("fault"):
        assert rows.loc[("bleu_1", fault), "n_pairs"] == len(part)
        assert rows.loc[("bleu_1", fault), "value"] == pytest.approx(part["noticed"].mean())
    np.testing.assert_allclose(pairs["score_bleu_1"], score("caption"))
    assert rows.loc[("bleu_1", "case"), "value"] == 0.5  # its tokens are lower-cased
    assert rows.loc[("bleu_1", "empty"), "value"] == 1.0


def test_pairs_are_original_captions_and_faulty_ones(run: Path) -> None:
    pairs = pd.read_parquet(run / "probe_pairs.parquet")
    assert pairs["pair_id"].is_unique
    for row in pairs.to_dict("records"):
        own = REFERENCES[row["image_id"]]
        assert row["caption"] in own
        left_out = {row["caption"]} | (
            {row["faulty_caption"]} if row["fault"] == "other_reference" else set()
        )
        assert list(row["references"]) == [text for text in own if text not in left_out]
    other = pairs[pairs["fault"] == "other_image"]
    assert not any(r.faulty_caption in REFERENCES[r.image_id] for r in other.itertuples())
    # Each image gives a first caption before any gives a second one.
    first = pairs[pairs["fault"] == "empty"].head(len(REFERENCES))
    assert first["image_id"].nunique() == len(REFERENCES)


def test_scores_of_a_file_are_read_back(run: Path, tmp_path: Path) -> None:
    """CIDEr's scores as a file of somebody else's give CIDEr's shares."""
    pairs = pd.read_parquet(run / "probe_pairs.parquet")
    rows = [*zip(pairs["item_id"], pairs["score_cider"], strict=True)]
    rows += zip(pairs["pair_id"], pairs["faulty_score_cider"], strict=True)
    scores = pd.DataFrame(dict(rows).items(), columns=pd.Index(["item_id", "score"]))
    scores.to_csv(tmp_path / "theirs.csv", index=False)
    metric = f"metrics=file(path={tmp_path / 'theirs.csv'})"
    assert run_captau("probe", f"run={run}", metric, f"output_dir={tmp_path / 'again'}") == 0
    theirs = pd.read_csv(tmp_path / "again" / "probes.csv")
    own = pd.read_csv(run / "probes.csv").query("metric == 'cider'").reset_index(drop=True)
    assert theirs["metric"].unique().tolist() == ["theirs"]
    pd.testing.assert_frame_equal(theirs.drop(columns="metric"), own.drop(columns="metric"))


def test_the_order_and_names_of_images_and_the_choice_of_faults_move_nothing() -> None:
    renamed = {image: f"{99 - n}" for n, image in enumerate(REFERENCES)}
    reordered = {renamed[image]: texts for image, texts in reversed(REFERENCES.items())}
    statistics = {"interval": "none"}
    a = captau.probe(references=REFERENCES, metrics="bleu_1", statistics=statistics)
    b = captau.probe(
        references=reordered, metrics="bleu_1", faults=["number", "joined"], statistics=statistics
    )
    frame = a.frames["probe_pairs.parquet"]
    chosen = frame[frame["fault"].isin(["number", "joined"])].reset_index(drop=True)
    contents = ["fault", "caption", "faulty_caption", "references", "score_bleu_1"]
    pd.testing.assert_frame_equal(b.frames["probe_pairs.parquet"][contents], chosen[contents])
    c = captau.probe(references=REFERENCES, metrics="bleu_1", faults=["shuffled"], seed=1)
    assert set(c.frames["probe_pairs.parquet"]["faulty_caption"]) != set(
        frame.query("fault == 'shuffled'")["faulty_caption"]
    )


def test_own_captions_and_a_metric_of_ones_own() -> None:
    """Word counts: eight times as long a caption has more words, half a caption fewer."""
    candidates = {image: texts[0] for image, texts in REFERENCES.items()}
    faults = ["half", "eight_times"]
    result = captau.probe(
        candidates=candidates,
        references=REFERENCES,
        metrics=lambda caption: len(caption.split()),
        faults=faults,
    )
    rows = result.frames["probes.csv"]
    assert rows["value"].tolist() == [1.0, 0.0]
    # Wilson's interval of 18 of 18 and 0 of 18 images, z = 1.959964: 18 / (18 + z²).
    assert rows["ci_low"].tolist() == pytest.approx([18 / (18 + 1.959964**2), 0.0])
    assert rows["ci_high"].tolist() == pytest.approx([1.0, 1.959964**2 / (18 + 1.959964**2)])
    references = result.frames["probe_pairs.parquet"]["references"]
    assert all(len(texts) == 2 for texts in references)  # the caption's own copy is left out


def test_the_figure_shows_each_share_and_marks_the_weak_ones(run: Path, tmp_path: Path) -> None:
    """The texts of the SVG, row by row, are the cells of the printed tables; `captau plot` writes it again."""
    assert run_captau("plot", f"run={run}", f"output_dir={tmp_path}") == 0
    svg = (tmp_path / "probes.svg").read_text()
    assert svg == (run / "probes.svg").read_text()
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    rows = pd.read_csv(run / "probes.csv").dropna(subset=["value"])
    cells = [probe_cell(row).text for row in rows.to_dict("records")]
    assert [text for text in texts if re.fullmatch(r"\d+!?", text)] == cells
    assert any(cell.endswith("!") for cell in cells)
    faults = rows["fault"].unique().tolist()
    assert [text for text in texts if text in faults] == faults
    assert {"BLEU-1", "CIDEr", "refs: faults noticed, in % of pairs"} <= set(texts)


def test_ties_rounding_and_undefined_scores() -> None:
    """Of four pairs one is noticed, one tied, one tied but for rounding, and one has no score: (1 + ½ + ½) / 3."""
    pairs = pd.DataFrame(
        {
            "fault": "half",
            "image_id": list("abcd"),
            "item_id": [f"{i}w" for i in "abcd"],
            "pair_id": [f"{i}f" for i in "abcd"],
        }
    )
    metric = captau.metric("bleu_1")
    originals, faulty = [0.5, 0.5, 0.5, np.nan], [0.4, 0.5, 0.5 + 1e-8, 0.1]
    scores = {
        "bleu_1": pd.Series([*originals, *faulty], index=[*pairs["item_id"], *pairs["pair_id"]])
    }
    noticed = find_noticed(pairs, scores, [metric])
    assert noticed["bleu_1"].tolist()[:3] == [1.0, 0.5, 0.5]
    (row,) = measure_probes(pairs, noticed, {"half": "x"}, StatisticsOptions(interval="none"))
    assert row["value"] == pytest.approx(2 / 3)
    assert (row["n_pairs"], row["note"]) == (3, "pairs left out for want of a score: 1; x")


def test_the_sentence() -> None:
    rows = pd.DataFrame(
        {
            "metric": ["a", "a", "b", "b"],
            "fault": ["gender", "half", "negation", "copy"],
            "value": [0.66, 0.9, 0.26, 0.0],
            "n_pairs": [50, 50, 50, 50],
        }
    )
    assert weakest_sentences(rows, {"a": "CIDEr", "b": "Mine"}) == (
        "Mine notices only one negation out of four. CIDEr misses one gender swap out of three."
    )


def test_other_languages_get_the_faults_without_words() -> None:
    references = {
        f"{n}": [f"Ein Hund läuft über Platz {n}", f"Der Hund rennt auf Platz {n}"]
        for n in range(4)
    }
    rows = captau.probe(references=references, metrics="bleu_1").frames["probes.csv"]
    by_fault = rows.set_index("fault")
    assert by_fault.loc["gender", "n_pairs"] == 0
    assert np.isnan(by_fault.loc["gender", "value"])
    assert "needs English captions" in by_fault.loc["gender", "note"]
    assert by_fault.loc["half", "n_pairs"] == 8


def test_wrong_input() -> None:
    with says("no image has two references"):
        captau.probe(references={"1.jpg": ["A dog."]}, metrics="bleu_1")
    with says("fault 'genders'", "gender"):
        captau.probe(references=REFERENCES, metrics="bleu_1", faults=["genders"])
    with says("candidates= needs references=FILE"):
        captau.probe(candidates={"1.jpg": "A dog."}, metrics="bleu_1")
    with says("needs"):
        captau.probe(references=REFERENCES, metrics="clipscore")


def test_several_datasets_and_two_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = json.dumps([{"image": "1", "caption": "A dog.", "value": 1}])
    (tmp_path / "mine.json").write_text(table)
    own = f"file.path={tmp_path / 'mine.json'}"
    assert run_captau("probe", "dataset=demo,file", own) == 2
    assert "one dataset" in capsys.readouterr().err
    assert run_captau("probe", "dataset=file", own, "references=refs.json") == 2
    assert "not both" in capsys.readouterr().err


#: Two right captions of an image, each beside the same with a fault; the third pair has no other reference.
FOILS = {
    "replace_obj": [
        ("1", "A dog runs on the green grass.", "A cat runs on the green grass."),
        ("2", "A red bus.", "A red car."),
    ],
    "swap_obj": [("1", "A dog runs on the green grass.", "The green grass runs on a dog.")],
}
FOIL_REFERENCES = {
    "1": ["A dog runs on the green grass.", "A dog on green grass.", "The dog is running."],
    "2": ["A red bus."],
}


def write_foils(root: Path) -> None:
    for folder in ("coco", "sugarcrepe"):
        (root / folder).mkdir()
    (root / COCO_REFERENCES.path).write_text(json.dumps(FOIL_REFERENCES))
    for kind, source in sugarcrepe.FILES.items():
        rows: dict[str, dict[str, str]] = {}
        for number, (image, right, foil) in enumerate(FOILS.get(kind, [])):
            row = {"filename": f"{image}.jpg", "caption": right, "negative_caption": foil}
            rows[str(number)] = row
        (root / source.path).write_text(json.dumps(rows))


def test_published_faults_stand_beside_captaus_own(tmp_path: Path) -> None:
    """Against the two other references a cat has fewer of the words; ROUGE-L falls where two things change places."""
    write_foils(tmp_path)
    result = captau.probe(
        "sugarcrepe", "rouge_l", faults=["half", "swap_obj", "replace_obj"], data_root=tmp_path
    )
    pairs = result.frames["probe_pairs.parquet"]
    right, cat = FOILS["replace_obj"][0][1:]
    half = "A dog runs"
    assert pairs[["fault", "caption", "faulty_caption"]].to_numpy().tolist() == [
        ["replace_obj", right, cat],
        ["swap_obj", right, FOILS["swap_obj"][0][2]],
        ["half", right, half],
    ]
    assert pairs["references"].map(list).tolist() == [FOIL_REFERENCES["1"][1:]] * 3
    rows = result.frames["probes.csv"].set_index("fault")
    assert rows["n_pairs"].to_dict() == {"replace_obj": 1, "swap_obj": 1, "half": 1}
    assert rows.loc["replace_obj", "value"] == rows.loc["swap_obj", "value"] == 1.0
    left_out = "pairs left out: 1 (1 without another reference)"
    assert rows.loc["replace_obj", "note"].endswith(left_out)
    titles = [table.title for table in result.tables]
    assert titles[0] == "SugarCrepe: published faults, which people checked"
    assert titles[1] == "SugarCrepe: another text in its place"


def test_kinds_of_published_faults_are_known_by_their_names(tmp_path: Path) -> None:
    write_foils(tmp_path)
    with says("unknown fault 'swap_ob': did you mean swap_obj"):
        captau.probe("sugarcrepe", "rouge_l", faults=["swap_ob"], data_root=tmp_path)
    with says("unknown fault 'swap_obj'"):
        captau.probe("demo", "rouge_l", faults=["swap_obj"])


def test_pairs_of_which_people_do_not_prefer_the_right_caption_are_no_faults() -> None:
    items = make_items(["1", "1", "1"], ["A dog.", "A cat.", "A cow."], [("Dogs run.",)] * 3)
    ids = items["item_id"].tolist()
    votes = [("one", ids[0], ids[1], "noun", -1.0), ("two", ids[0], ids[2], "noun", 1.0)]
    card = replace(sugarcrepe.CARD, name="votes")
    foils = CaptionSet(items, preferences=make_preferences(votes), card=card)
    probes = take_foils(foils, ["noun"], n_pairs=10, seed=0)
    assert probes.pairs["faulty_caption"].tolist() == ["A cow."]
    assert probes.notes == {
        "noun": "pairs left out: 1 (1 whose right caption people do not prefer)"
    }
    assert take_foils(foils, ["noun"], n_pairs=0, seed=0).pairs.empty
