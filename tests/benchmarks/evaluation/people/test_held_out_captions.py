"""`captau agree kind=captions`: which caption is held out, and that it is scored as a system's is."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.evaluation.people.held_out_captions import (
    HUMAN_COLUMNS,
    ImageCaptions,
    hold_out,
    random_group_interval,
    score_held_out_captions,
)
from captau.benchmarks.options.analyses import AgreeOptions
from captau.benchmarks.runs.results import AGREEMENT_COLUMNS
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.scoring.score_store import Locations, ScoreStore
from captau.datasets.registry import load
from captau.datasets.schema import CaptionSet, Card, make_items
from captau.metrics.base import Metric
from captau.metrics.text.tokens.ptb import tokenize
from tests.benchmarks.printed import lines_of
from tests.conftest import AWKWARD, run_captau, says

CAPTIONS = {
    "1": ("a dog runs on the grass", "the brown dog runs", "a dog on green grass"),
    "2": ("two cats sleep on a bed", "cats lie on the bed", "a bed with two cats on it"),
    "3": ("a red bus", "one big red bus in the street", "the bus is red"),
    "4": ("people at a table", "a family eats at the table", "they eat dinner"),
}


def score_file(path, **options):
    metrics = options.pop("metrics", resolve_metrics(["bleu_1", "bleu_4", "rouge_l", "cider"]))
    source = ImageCaptions.from_file(path)
    return score_held_out_captions([source], metrics, ScoreStore(None), **options)


@pytest.fixture
def references(tmp_path):
    path = tmp_path / "refs.json"
    path.write_text(json.dumps(CAPTIONS), encoding="utf-8")
    return path


def test_each_place_is_held_out_in_turn():
    captions = {"1": ("a", "b", "c"), "2": ("d", "e", "f", "g")}
    assert list(hold_out(captions, "each", 1, 0)) == [
        ("1", {"1": "a", "2": "d"}, {"1": ("b", "c"), "2": ("e", "f", "g")}),
        ("2", {"1": "b", "2": "e"}, {"1": ("a", "c"), "2": ("d", "f", "g")}),
        ("3", {"1": "c", "2": "f"}, {"1": ("a", "b"), "2": ("d", "e", "g")}),
    ]


def test_the_last_is_held_out_as_in_the_paper():
    captions = {"1": ("a", "b", "c"), "2": ("d", "e", "f", "g")}
    assert list(hold_out(captions, "last", 1, 0)) == [
        ("last", {"1": "c", "2": "g"}, {"1": ("a", "b"), "2": ("d", "e", "f")})
    ]


def test_a_draw_is_of_its_seed_and_of_all_places():
    first = list(hold_out(CAPTIONS, "draw", 40, 7))
    assert first == list(hold_out(CAPTIONS, "draw", 40, 7))
    assert first != list(hold_out(CAPTIONS, "draw", 40, 8))
    for image_id, texts in CAPTIONS.items():
        assert {trial[1][image_id] for trial in first} == set(texts)
        for _, chosen, others in first:
            assert sorted([chosen[image_id], *others[image_id]]) == sorted(texts)


def test_equal_to_captau_score_on_the_same_files(references, tmp_path):
    found = score_file(references, held_out="last").choices.set_index("metric")["value"]
    (tmp_path / "c.json").write_text(json.dumps({i: t[-1] for i, t in CAPTIONS.items()}))
    (tmp_path / "r.json").write_text(json.dumps({i: t[:-1] for i, t in CAPTIONS.items()}))
    names = "[bleu_1,bleu_4,rouge_l,cider]"
    folder = tmp_path / "out"
    assert not run_captau(
        *["score", f"candidates={tmp_path}/c.json", f"references={tmp_path}/r.json"],
        *[f"metrics={names}", f"output_dir={folder}"],
    )
    assert found.to_dict() == json.loads((folder / "corpus.json").read_text(encoding="utf-8"))


def test_equal_to_pycocoevalcap(tmp_path):
    """Parity, on captions that break things; by the same tokens."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    captions = {str(i): (text, *CAPTIONS["1"]) for i, text in enumerate(AWKWARD)}
    path = tmp_path / "awkward.json"
    path.write_text(json.dumps(captions), encoding="utf-8")
    found = score_file(path, held_out="each").choices
    for place in range(4):
        res = {i: tokenize([t[place]]) for i, t in captions.items()}
        gts = {i: tokenize([*t[:place], *t[place + 1 :]]) for i, t in captions.items()}
        bleu = Bleu(4).compute_score(gts, res, verbose=0)[0]
        wanted = {
            "bleu_1": bleu[0],
            "bleu_4": bleu[3],
            "rouge_l": Rouge().compute_score(gts, res)[0],
            "cider": Cider().compute_score(gts, res)[0],
        }
        of_place = found[found["choice"] == str(place + 1)].set_index("metric")["value"]
        assert of_place.to_dict() == pytest.approx(wanted, abs=1e-12)


def test_mean_and_deviation_over_the_choices(references):
    result = score_file(references)
    assert list(result.agreement.columns) == list(AGREEMENT_COLUMNS)
    assert list(result.choices.columns) == list(HUMAN_COLUMNS)
    for row in result.agreement.to_dict("records"):
        part = result.choices[result.choices["metric"] == row["measure"]].set_index("choice")
        assert list(part.index) == ["1", "2", "3", "mean"]
        values = part["value"].to_numpy()
        assert row["value"] == values[3] == pytest.approx(values[:3].mean())
        assert row["std"] == pytest.approx(values[:3].std(ddof=1))
        assert row["n_items"] == 4
        assert "mean over 3 choices" in row["note"]
        assert "against 2 others" in row["note"]


def test_k_cuts_to_the_first_captions(references):
    two = {i: texts[:2] for i, texts in CAPTIONS.items()}
    references.with_name("two.json").write_text(json.dumps(two))
    cut, whole = (
        score_file(references, k=1),
        score_file(references.with_name("two.json")),
    )
    pd.testing.assert_series_equal(cut.choices["value"], whole.choices["value"])


def test_images_with_one_caption_are_counted(references):
    references.write_text(json.dumps({**CAPTIONS, "9": ["alone"]}))
    result = score_file(references)
    assert (result.agreement["n_items"] == 4).all()
    assert result.agreement["note"].str.contains("1 image with fewer captions left out").all()


def test_interval_by_random_groups():
    # Worked by hand: mean 3, s = 1, s / √4 = 0.5, t of 3 degrees at 97.5 % = 3.182446.
    groups = np.array([2.0, 4.0, 2.0 + 1e-15, 4.0]) * np.sqrt(3) / 2
    low, high = random_group_interval(10.0, groups)
    assert high - 10 == pytest.approx(3.182446305 * 0.5, abs=1e-6)
    assert 10 - low == pytest.approx(high - 10)
    assert np.isnan(random_group_interval(1.0, np.empty(0))).all()


def test_interval_covers():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        sample = rng.exponential(1.0, 400)
        low, high = random_group_interval(sample.mean(), sample.reshape(20, 20).mean(axis=1))
        hits += low <= 1.0 <= high
    assert 0.92 <= hits / 400 <= 0.97


def test_of_a_dataset_and_its_files(tmp_path):
    folder = tmp_path / "out"
    assert not run_captau(
        "agree", "kind=captions", "metrics=[bleu_1,cider]", f"output_dir={folder}"
    )
    names = {p.name for p in folder.iterdir() if p.is_file()}
    assert names == {"agreement.csv", "human.csv", "table.md", "table.tex", "run.json"}
    assert "SYNTHETIC" in (folder / "table.md").read_text(encoding="utf-8")
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert told["command"] == "agree"
    assert set(told["signatures"]) == {"bleu_1", "cider"}
    assert not run_captau("agree", f"output_dir={folder}")
    assert not (folder / "human.csv").exists(), "of the run before"


def test_metrics_that_look_at_images_see_a_datasets(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "captau.metrics.python_function.PythonFunction._load",
        lambda self: lambda items: seen.append(items["image"]) or [0.0] * len(items),
    )
    metrics = resolve_metrics(["python(any:looks)"])
    source = ImageCaptions.from_dataset(load("demo"))
    score_held_out_captions([source], metrics, Locations().store(), held_out="last")
    assert seen[0].map(lambda path: str(path).endswith(".png")).all()


@pytest.mark.slow
def test_bad_input(references, tmp_path, capsys):
    references.write_text(json.dumps({"1": ["alone"]}))
    with says(str(references), "no image has 2 captions", "the most is 1"):
        score_file(references)
    with says("unknown value of held_out 'lst'", "did you mean last"):
        AgreeOptions(kind="captions", datasets={}, references=references, held_out="lst")
    for words, part in [
        (["kind=caption"], "did you mean captions"),
        ([f"references={references}"], "belongs to kind=captions"),
        (
            ["kind=captions", "dataset=thumb", f"references={references}"],
            "references=FILE or dataset=NAME, not both",
        ),
        (["kind=captions", "words.n=3"], "words.n=… belongs to kind=words"),
        (["kind=words", "metrics=text"], "metrics=… belongs to kind=captions"),
        (["kind=words", "protocol.split=test"], "protocol.split=… belongs to kind=ratings"),
        (["kind=captions", "k=0"], "k is 0"),
        (["kind=words", "held_out=draw"], "held_out=draw needs kind=captions"),
        (["kind=captions", f"references={tmp_path}/none.json"], "none.json"),
    ]:
        assert run_captau("agree", *words, f"output_dir={tmp_path}/out") == 2
        error = capsys.readouterr().err
        assert part in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_people_on_coco_against_fewer_captions(data_root, tmp_path):
    """As Chen et al. 2015, Table I, from c5 to c40: more references, higher BLEU, ROUGE and METEOR."""
    path = data_root / "coco" / "karpathy_test_references.json"
    some = dict(list(json.loads(path.read_text(encoding="utf-8")).items())[:200])
    (tmp_path / "some.json").write_text(json.dumps(some))
    metrics = resolve_metrics(["bleu_1", "bleu_4", "rouge_l"])
    by_k = [
        score_file(tmp_path / "some.json", k=k, held_out="last", metrics=metrics).agreement["value"]
        for k in (1, 4)
    ]
    assert (by_k[1] > by_k[0]).all()


def test_table_1_where_the_references_are(tmp_path):
    """`captau reproduce`: a held-out caption an image, against c5; without files, the reason."""
    coco = tmp_path / "data" / "coco"
    (coco / "annotations").mkdir(parents=True)
    held = [{"image_id": int(i), "caption": t[0]} for i, t in CAPTIONS.items()]
    others = {i: t[1:] for i, t in CAPTIONS.items()}
    (coco / "captions_test2014_human_results.json").write_text(json.dumps(held))
    (coco / "captions_test2014_c5.json").write_text(json.dumps(others))
    annotations = [{"image_id": int(i), "caption": c} for i, t in CAPTIONS.items() for c in t]
    train = coco / "annotations" / "captions_train2014.json"
    train.write_text(json.dumps({"annotations": annotations}))
    where = [f"data.root={tmp_path}/data", "leave_out=[meteor]"]
    folder = tmp_path / "out"
    assert not run_captau("reproduce", "paper=coco_captions_2015", *where, f"output_dir={folder}")
    table = pd.read_csv(folder / "comparison.csv", keep_default_na=False, dtype=str)
    cells = table.set_index(["row", "column"])
    (tmp_path / "r.json").write_text(json.dumps(others))
    wanted = tmp_path / "score"
    assert not run_captau(
        *["score", f"candidates={coco}/captions_test2014_human_results.json"],
        *[f"references={tmp_path}/r.json", "metrics=[bleu_4,cider]", f"output_dir={wanted}"],
    )
    corpus = json.loads((wanted / "corpus.json").read_text(encoding="utf-8"))
    for row, metric in (("BLEU 4", "bleu_4"), ("CIDEr-D", "cider")):
        reproduced = float(cells.loc[(row, "MS COCO c5"), "reproduced"])
        assert reproduced == pytest.approx(corpus[metric], abs=1e-6)
        assert "captions_test2014_c40.json" in cells.loc[(row, "MS COCO c40"), "note"]
        assert cells.loc[(row, "MS COCO c40"), "match"] == ""
    assert cells.loc[("METEOR", "MS COCO c5"), "note"] == "missing: leave_out=meteor"
    assert float(cells.loc[("training", "captions"), "reproduced"]) == 12
    assert float(cells.loc[("training", "images"), "reproduced"]) == 4
    assert "captions_val2014.json" in cells.loc[("validation", "images"), "note"]


def test_the_printed_counts_do_not_add_up():
    """A check on the typing of section 2: test is c5 and c40, and the total is not the sum."""
    from captau.benchmarks.evaluation.papers.published_numbers import read_published

    printed = read_published("coco_captions_2015").query("table == 'Section 2'")
    n = printed.query("column == 'captions'").set_index("row")["published"].astype(int)
    images = printed.query("column == 'images'").set_index("row")["published"].astype(int)
    assert n["test"] == n["test c5"] + n["test c40"]
    parts = n["training"] + n["validation"] + n["test"]
    assert (parts, parts + images["test"]) == (995684, 1036459)
    assert n["in all"] == 1026459


@dataclass(frozen=True)
class Words(Metric):
    """Count the words of a caption."""

    @property
    def name(self):
        return "words"

    def compute(self, rows):
        return np.array([float(len(caption.split())) for caption in rows.captions])


#: Captions of 1, 2 and 3 words, of 4, 1 and 2, of 2, 2 and 5, and of 1, 1 and 6.
LENGTHS = {"1": (1, 2, 3), "2": (4, 1, 2), "3": (2, 2, 5), "4": (1, 1, 6)}


def people(lengths=LENGTHS, **fields):
    texts = {i: tuple(" ".join(["w"] * n) for n in sizes) for i, sizes in lengths.items()}
    return ImageCaptions("mine", texts, **fields)


def test_scores_of_people_with_their_intervals_by_hand():
    """Means over images: 2, 1.5 and 4; their mean 2.5, deviation √(7/4)."""
    result = score_held_out_captions([people()], [Words()], ScoreStore(None), seed=3)
    groups = np.array_split(np.random.default_rng(3).permutation(4), 2)
    table = np.array(list(LENGTHS.values()), dtype=float)
    by_group = np.array([table[g].mean(axis=0) for g in groups]).T
    rows = [*zip("123", table.mean(axis=0), by_group, strict=True)]
    rows.append(("mean", 2.5, by_group.mean(axis=0)))
    # t of one degree at 97.5 % is 12.7062.
    halves = [12.706204736 * abs(b[0] - b[1]) / 2 for _, _, b in rows]
    assert result.choices[
        ["dataset", "metric", "choice", "n_references", "note"]
    ].to_numpy().tolist() == [
        ["mine", "words", choice, "2", ""] for choice in ("1", "2", "3", "mean")
    ]
    assert result.choices["value"].tolist() == pytest.approx([2.0, 1.5, 4.0, 2.5])
    assert (result.choices["n_items"] == 4).all()
    for side, sign in (("ci_low", -1), ("ci_high", 1)):
        expected = [value + sign * half for (_, value, _), half in zip(rows, halves, strict=True)]
        assert result.choices[side].tolist() == pytest.approx(expected)
    (row,) = result.agreement.to_dict("records")
    assert row == {
        "dataset": "mine",
        "measure": "words",
        "value": 2.5,
        "std": pytest.approx(np.sqrt(7 / 4)),
        "n_items": 4,
        "note": "mean over 3 choices of the held-out caption, against 2 others",
    }
    (table,) = result.tables
    assert table.title == "mine: one person's caption against the others"
    assert (table.corner, table.heads) == ("metric", ["score", "±", "95 %"])
    ends = f"{2.5 - halves[3]:.3f} to {2.5 + halves[3]:.3f}"
    assert lines_of(table) == [("words", ["2.500", "1.323", ends])]
    assert table.notes == [
        "Each of an image's captions in turn is held out and scored against the others (2 references); 4 images. "
        "Corpus scores, as the COCO server computes them; those of a scale of 100 are ×100.",
        "±: standard deviation over the choices. 95 %: over images, by random groups.",
    ]
    assert result.missing == {"mine": {}}
    assert [m.spec for m in result.metrics] == ["words"]


def test_a_single_choice_has_no_deviation_and_two_images_no_interval():
    """Of images with 3 and 2 captions; a third has one alone, and one was left out before."""
    source = people({"1": (1, 2, 3), "2": (4, 1), "3": (9,)}, n_left_out=1)
    result = score_held_out_captions([source], [Words()], ScoreStore(None), held_out="last")
    (row,) = result.choices.to_dict("records")
    assert (row["choice"], row["value"], row["n_references"], row["n_items"]) == (
        "last",
        2.0,
        "1-2",
        2,
    )
    assert np.isnan([row["ci_low"], row["ci_high"]]).all()
    assert row["note"] == "2 images with fewer captions left out"
    (row,) = result.agreement.to_dict("records")
    assert np.isnan(row["std"])
    assert row["note"] == (
        "the last caption of each image held out, against 1-2 others; 2 images with fewer captions left out"
    )
    (table,) = result.tables
    assert lines_of(table) == [("words", ["2.000", "–", "–"])]
    assert table.notes[0].startswith(
        "The last caption of each image is held out and scored against the others (1-2 references); 2 images. "
    )
    assert table.notes[2] == "2 images with fewer captions left out."
    each = score_held_out_captions([source], [Words()], ScoreStore(None), k=1)
    assert each.choices["value"].tolist() == [2.5, 1.5, 2.0]
    assert set(each.choices["n_references"]) == {"1"}
    drawn = score_held_out_captions([source], [Words()], ScoreStore(None), held_out="draw", draws=2)
    assert drawn.choices["choice"].tolist() == ["draw 1", "draw 2", "mean"]
    assert drawn.tables[0].notes[0].startswith("One random caption of each image is held out")


def test_captions_are_kept_and_counted():
    source = people({"1": (1, 2, 3), "2": (4, 1), "3": (9,)})
    assert {i: len(t) for i, t in source.keep_first(None).captions.items()} == {"1": 3, "2": 2}
    assert {i: len(t) for i, t in source.keep_first(1).captions.items()} == {"1": 2, "2": 2}
    two = source.keep_first(2)
    assert two.captions == {"1": ("w", "w w", "w w w")}
    assert (two.n_left_out, two.left_out_note) == (2, "2 images with fewer captions left out")
    assert source.left_out_note == ""
    assert people(n_left_out=1234).left_out_note == "1,234 images with fewer captions left out"
    assert people(n_left_out=1).left_out_note == "1 image with fewer captions left out"
    with says("mine: no image has 4 captions, of which one is held out; the most is 3"):
        source.keep_first(3)
    with says("mine: no image has 2 captions, of which one is held out; the most is 0"):
        people({}).keep_first(None)


def test_captions_of_a_dataset_are_its_references():
    items = make_items(
        ["1", "1", "2"], ["x", "y", "z"], [("a", "b"), ("a", "b"), ("c",)], images=["p", "p", None]
    )
    made = CaptionSet(items, card=Card(*("made", "Made", "1", "", "", "")))
    found = ImageCaptions.from_dataset(made)
    assert (found.name, found.captions) == ("made", {"1": ("a", "b"), "2": ("c",)})
    assert found.image_files == {"1": "p", "2": None}
    assert (found.caption_set, found.file, found.n_left_out, found.is_synthetic) == (
        made,
        None,
        0,
        False,
    )
    assert ImageCaptions.from_dataset(load("demo")).is_synthetic
    items["references"] = [("a", "b"), ("b", "a"), ("c",)]
    with says(
        "dataset made: rows of image '1' have different references; give the image's in a file, references=FILE"
    ):
        ImageCaptions.from_dataset(CaptionSet(items, card=made.card))


@dataclass(frozen=True)
class SomeWords(Words):
    """As `Words`, but undefined for a caption of five words."""

    @property
    def name(self):
        return "some words"

    def compute(self, rows):
        return np.where((found := super().compute(rows)) == 5, np.nan, found)


def test_a_choice_without_every_score_is_undefined():
    result = score_held_out_captions([people()], [SomeWords()], ScoreStore(None))
    undefined = "undefined: not every caption has a score"
    assert result.choices["note"].tolist() == ["", "", undefined, undefined]
    assert result.choices["value"].isna().tolist() == [False, False, True, True]
    assert lines_of(result.tables[0]) == [("some words", ["–", "0.354", "–"])]
