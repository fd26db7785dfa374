"""Exports of studies, read back as dataset=file and by the readers of the papers' files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

import captau
from captau.benchmarks.evaluation.threshold_curves import Conjunction, mark_good_captions
from captau.benchmarks.evaluation.wording import MEASURE_LABELS
from captau.benchmarks.statistics.rater_agreement import compute_measures
from captau.benchmarks.statistics.rating_table import RatingTable
from captau.datasets.download.imports import take
from captau.datasets.reading.caption_files import read_references
from captau.datasets.registry import card, load
from captau.server.collect.export import export_files
from captau.server.collect.forms.counted_answers import CountedAnswer, CountedAnswers
from captau.server.collect.rater_figures import (
    collect_answers,
    compute_rater_figures,
    make_caption_set,
    measure_agreement,
)
from captau.server.collect.simulated_browser import join_study
from captau.server.collect.study import read_study
from tests.conftest import run_captau, says
from tests.server.collect.conftest import CAPTIONS, make_site, serve_site, write_study


@pytest.fixture
def run_study(tmp_path):
    """Return a function that lets raters answer a study by a rule, and returns its store and rows."""

    def run(protocol, raters, rule, **changes):
        site = make_site(tmp_path, protocol, ratings=raters, **changes)
        with serve_site(site) as url:
            for k in range(raters):
                browser = join_study(url)
                while "key" in (page := browser.get("/rate")).hidden:
                    browser.post("/rate", {**page.hidden, **rule(k, page.captions)})
            rows = site.store.database.run_blocking(site.store.load_rows)
        return site.store, rows

    return run


def write_files(files, folder):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_game_export_loads_as_dataset_file(run_study, tmp_path):
    level = {c: 1 + k % 5 for k, (_, c, _) in enumerate(CAPTIONS)}

    def rule(k, captions):
        return {"rating": min(5, level.get(captions[0], 4) + (k == 1))}

    store, rows = run_study(
        "game", 3, rule, game={"points": -100, "tutorial_pairs": 0, "tutorial": []}
    )
    folder = write_files(export_files(store, rows, "captau"), tmp_path / "out")
    dataset = load("file", path=folder / "ratings.csv", low=1, high=5, step=1)
    assert len(dataset.items) == len(CAPTIONS)
    assert len(dataset.ratings) == 3 * len(CAPTIONS)
    captions = dataset.items.set_index("item_id")["caption"]
    for row in dataset.ratings.to_dict("records"):
        assert row["value"] - level[captions[row["item_id"]]] in (0, 1)
    assert set(dataset.items["references"]) == {(r,) for _, _, r in CAPTIONS}
    assert {r[:1] for r in dataset.ratings["rater"]} == {"r"}
    # The dashboard's agreement is the suite's own of what reads back.
    table = RatingTable.from_ratings(dataset.ratings, dataset.items["item_id"], "overall")
    measures, _ = compute_measures(table, dataset.card.scales["overall"], draws=5)
    agreement = measure_agreement(store, rows)
    for name in ("kendall_w", "fleiss_kappa", "krippendorff_alpha_ordinal"):
        assert agreement[MEASURE_LABELS[name]][0] == pytest.approx(measures[name].value, abs=1e-12)
    results = captau.bench(
        "file", ["bleu_1"], file={"path": str(folder / "ratings.csv"), "low": 1, "high": 5}
    )
    assert set(results.correlations["metric"]) >= {"bleu_1"}
    assert np.isfinite(results.correlations["value"].astype(float)).all()
    assert json.loads((folder / "run.json").read_text())["answers"] == 3 * len(CAPTIONS)
    scales = yaml.safe_load((folder / "ratings.yaml").read_text())
    assert scales == {"scales": {"overall": {"low": 1, "high": 5, "step": 1}}}


@pytest.mark.parametrize(("name", "image"), [("cocog", "391895"), ("flickrg", "f.jpg")])
def test_a_game_export_reads_back_as_cocog_or_flickrg(run_study, tmp_path, name, image):
    """FlickrG is joined with Flickr8k-Expert, of which one pair of another image was not played."""
    level = {c: 1 + k % 5 for k, (_, c, _) in enumerate(CAPTIONS)}
    store, rows = run_study(
        "game",
        2,
        lambda k, captions: {"rating": min(5, level.get(captions[0], 4) + k)},
        game={"points": -100, "tutorial_pairs": 0, "tutorial": []},
    )
    units = {n: replace(u, image_id=image) for n, u in store.units.items()}
    store.units.update(units)
    files = export_files(store, rows, "paper")
    assert set(files) == {f"{name}.csv", "run.json"}
    root = tmp_path / "root"
    take(card(name), write_files(files, tmp_path / "out"), root)
    played = [
        (image, caption, system, "overall", float(min(5, value + k)))
        for caption, value in level.items()
        for k in range(2)
        for system in [f"sys-{len(caption.split())}"]
    ]
    if name == "flickrg":
        other = {"caption": "A cow .", "rating": 1}
        images = {
            key: {
                "image_path": f"Flickr8k_Dataset/{key}",
                "ground_truth": ["A dog ."],
                "human_judgement": [other] * 3,
            }
            for key in (image, "g.jpg")
        }
        (root / "flickr8k").mkdir()
        (root / "flickr8k" / "flickr8k.json").write_text(json.dumps(images))
        played += [(i, "A cow .", None, "overall", 1.0) for i in (image, "g.jpg")] * 3
    dataset = load(name, root)
    joined = dataset.ratings.merge(dataset.items, on="item_id")
    columns = ["image_id", "caption", "system", "dimension", "value"]
    assert Counter(joined[columns].itertuples(index=False, name=None)) == Counter(played)


def test_a_good_bad_export_imports_as_caption_quality(run_study, tmp_path):
    n_good = {c: 3 + k % 8 for k, (_, c, _) in enumerate(CAPTIONS)}  # of ten, how many say good

    def rule(k, captions):
        if captions[0] == CAPTIONS[0][1] and k < 3:
            return {"answer": "skip"}  # three skips: left out
        if captions[0] == CAPTIONS[1][1] and k < 2:
            return {"answer": "skip"}  # two: kept, with eight answers
        return {"answer": "good" if k < n_good[captions[0]] else "bad"}

    store, rows = run_study("good_bad", 10, rule)
    folder = write_files(export_files(store, rows, "paper"), tmp_path / "out")
    root = tmp_path / "root"
    # The columns of the released development fold (Levinboim et al. 2021), whose counts leave skips out.
    frames = [pd.read_csv(path, sep="\t") for path in folder.glob("*.tsv")]
    released = ["Index", "IMAGE_KEY", "CAPTION_PRED", "COUNT_RATINGS", "COUNT_GOOD_RATINGS"]
    released += ["ROUNDED_AVG_USER_RATING", "MODEL"]
    assert all([*f.columns, "MODEL"][:7] == released for f in frames)
    table = pd.concat(frames).set_index("CAPTION_PRED")
    assert table.loc[CAPTIONS[1][1], "COUNT_RATINGS"] == 8
    # The release's second file has a row for each image.
    metas = [pd.read_csv(path, sep="\t") for path in sorted(folder.glob("*.tsv.meta"))]
    assert len(metas) == 3
    meta = pd.concat(metas)
    assert (len(meta.columns), list(meta.columns[:4])) == (
        13,
        ["Index", "Author", "AuthorProfileURL", "IMAGE_KEY"],
    )
    assert sorted(meta["IMAGE_KEY"]) == sorted(table["IMAGE_KEY"].unique())
    assert meta["OriginalURL"].tolist() == meta["IMAGE_KEY"].tolist()  # a study's own files
    assert meta["Author"].isna().all()
    take(card("caption_quality"), folder, root)
    assert sorted(p.name for p in (root / "caption_quality").glob("*.meta")) == sorted(
        p.name for p in folder.glob("*.meta")
    )
    dataset = load("caption_quality", root)
    captions = dataset.items.set_index("item_id")["caption"]
    assert set(captions) == {c for _, c, _ in CAPTIONS[1:]}
    overall = dataset.ratings[dataset.ratings["dimension"] == "overall"]
    good = dataset.ratings[dataset.ratings["dimension"] == "good"].groupby("item_id")["value"].sum()
    assert good.rename(captions).to_dict() == table["COUNT_GOOD_RATINGS"].to_dict()
    for row in overall.to_dict("records"):
        caption = captions[row["item_id"]]
        total = 8 if caption == CAPTIONS[1][1] else 10
        share = (n_good[caption] - (10 - total)) / total
        # The paper's p̂: round(8 mean) / 8.
        assert row["value"] == np.round(share * 8) / 8
    # Fewer than eight answers do not read back, so they are not in the paper's form (section 3.2).
    record = json.loads((folder / "run.json").read_text())
    assert record["left_out"]["pairs_of_fewer_than_8_answers"] == 0
    (item_id,) = (
        i.id for u in store.units.values() for i in u.items if i.caption == CAPTIONS[2][1]
    )
    dropped_answers = {r["id"] for r in [a for a in rows["answers"] if a["item"] == item_id][7:]}
    fewer_rows = {**rows, "answers": [a for a in rows["answers"] if a["id"] not in dropped_answers]}
    fewer_files = export_files(store, fewer_rows, "paper")
    assert json.loads(fewer_files["run.json"])["left_out"]["pairs_of_fewer_than_8_answers"] == 1
    take(card("caption_quality"), write_files(fewer_files, tmp_path / "fewer"), tmp_path / "less")
    assert set(load("caption_quality", tmp_path / "less").items["caption"]) == set(captions) - {
        CAPTIONS[2][1]
    }
    # Our own form leaves the same pair out, and its answers are those of people.
    captau_folder = write_files(export_files(store, rows, "captau"), tmp_path / "mine")
    ratings = pd.read_csv(captau_folder / "ratings.csv")
    assert set(ratings["dimension"]) == {"good"}
    assert len(ratings) == 10 * (len(CAPTIONS) - 2) + 8
    assert json.loads((captau_folder / "run.json").read_text())["left_out"] == {
        "excluded_raters": 0,
        "pairs_of_more_than_2_skips": 1,
    }


def test_a_thumb_export_imports_the_last_states(run_study, tmp_path):
    """The second annotator takes one point of precision off one caption; the first's scores are kept."""

    def rule(k, captions):
        answer = {}
        for n, caption in enumerate(captions, start=1):
            is_lower = k == 1 and caption == "A square number 0."
            answer |= {f"precision_{n}": 5 - is_lower, f"recall_{n}": 3}
            answer |= {f"inclusive_{n}": 5, f"fault_{n}": "grammar"}
        return answer

    store, rows = run_study("thumb", 2, rule)
    assert len(collect_answers(store, rows).settled) == len(CAPTIONS)
    # What nobody has checked, since whoever checked it is left out, is not in the paper's form.
    rows["raters"][1]["excluded_at"] = 1.0
    assert not collect_answers(store, rows).settled
    assert not export_files(store, rows, "paper")["mscoco_THumB-1.0.jsonl"]
    rows["raters"][1]["excluded_at"] = None
    folder = write_files(export_files(store, rows, "paper"), tmp_path / "out")
    root = tmp_path / "root"
    take(card("thumb"), folder, root)
    dataset = load("thumb", root)
    expected = Counter()
    for image, caption, reference in CAPTIONS:
        shown = caption[0].upper() + caption[1:] + "."
        precision = 4 if shown == "A square number 0." else 5
        values = {"precision": precision, "recall": 3, "fluency": -0.1, "inclusive": -0.5}
        values |= {"conciseness": 0, "total": (precision + 3) / 2 - 0.6}
        system = f"sys-{len(caption.split())}"
        row = image, shown, (reference,), system
        expected.update((*row, name, round(value, 9)) for name, value in values.items())
    joined = dataset.ratings.merge(dataset.items, on="item_id").round({"value": 9})
    columns = ["image_id", "caption", "references", "system", "dimension", "value"]
    assert Counter(joined[columns].itertuples(index=False, name=None)) == expected
    # The released rows number the images and name their files.
    lines = (folder / "mscoco_THumB-1.0.jsonl").read_text(encoding="utf-8").splitlines()
    image_ids = {unit.id: unit.image_id for unit in store.units.values()}
    for line in map(json.loads, lines):
        assert list(line)[:5] == ["SYS", "hyp", "seg_id", "set_id", "image"]
        assert (image_ids[line["set_id"]], line["image"]) == (line["seg_id"], line["seg_id"])
    assert len({json.loads(line)["set_id"] for line in lines}) == 6
    captau_folder = write_files(export_files(store, rows, "captau"), tmp_path / "mine")
    ratings = load("file", path=captau_folder / "ratings.csv")
    assert len(ratings.ratings) == 2 * len(CAPTIONS) * 6  # both states of everything
    assert set(pd.read_csv(captau_folder / "settled.csv")["rater"]) == {"settled"}


def test_ext_good_is_a_majority_of_partially_correct_and_somewhat_useful(run_study, tmp_path):
    """Levinboim et al. 2021, section 6.2: worked by hand on the yes (1) and no (0) of three raters."""
    levels = {
        CAPTIONS[0][1]: [(0, 1), (1, 1), (1, 0)],  # two of three each, though not the same two
        CAPTIONS[3][1]: [(1, 1), (1, 0), (1, 0)],  # correct, and useful to one
        CAPTIONS[6][1]: [(0, 1), (0, 1), (1, 1)],  # useful, and correct to one
    }

    def rule(k, captions):
        correct, helpful = levels.get(captions[0], [(1, 1)] * 3)[k]
        return {"correct_1": correct, "helpful_1": helpful, "fluent_1": 1}

    store, rows = run_study("extrinsic", 3, rule)
    table = pd.read_csv(pd.io.common.BytesIO(export_files(store, rows, "paper")["caption_ext.csv"]))
    ext_good = dict(zip(table["caption"], table["ext_good"], strict=True))
    assert {caption for caption, is_good in ext_good.items() if not is_good} == {
        CAPTIONS[3][1],
        CAPTIONS[6][1],
    }
    shares = table.set_index("caption").loc[CAPTIONS[3][1]]
    assert (shares["correct"], round(shares["helpful"], 4), shares["ratings"]) == (1, 0.3333, 3)
    folder = write_files(export_files(store, rows, "captau"), tmp_path / "out")
    dataset = load("file", path=folder / "ratings.csv")
    assert set(dataset.ratings["dimension"]) == {"correct", "helpful", "fluent"}
    # `captau thresholds` finds the same captions good of what reads back.
    good = Conjunction.parse("correct>=1 and helpful>=1", "good")
    scales = dataset.card.scales
    is_good = mark_good_captions(dataset.ratings, str(good), scales, good, "file")
    captions = dataset.items.set_index("item_id")["caption"]
    assert is_good.rename(captions).to_dict() == ext_good


def test_a_four_export_imports_as_capeval1k(run_study, tmp_path):
    store, rows = run_study(
        "four", 2, lambda k, c: {f"overall_{n}": 1 + (n + k) % 5 for n in range(1, len(c) + 1)}
    )
    table = pd.read_csv(pd.io.common.BytesIO(export_files(store, rows, "paper")["capeval.csv"]))
    assert len(table) == len(CAPTIONS)
    assert table["value"].between(0, 1).all()
    assert set(table["ratings"]) == {2}
    caption_set = make_caption_set(store, collect_answers(store, rows))
    mean = caption_set.ratings.groupby("item_id")["value"].mean()
    assert sorted((mean - 1) / 4) == pytest.approx(sorted(table["value"]))
    folder = write_files(export_files(store, rows, "paper"), tmp_path / "out")
    take(card("capeval1k"), folder, tmp_path / "root")
    dataset = load("capeval1k", tmp_path / "root")  # nothing else is there: no vocabulary, no COCO
    assert Counter(
        zip(dataset.items["image_id"], dataset.items["caption"], strict=True)
    ) == Counter((i, c) for i, c, _ in CAPTIONS)
    assert set(dataset.items["references"]) == {(r,) for _, _, r in CAPTIONS}
    assert dataset.ratings["value"].tolist() == pytest.approx(table["value"].tolist())
    assert set(dataset.items["system"]) == set(caption_set.items["system"])


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (["391895", "7", "60623", "5", "4", "3"], [391895, 7, 60623, 5, 4, 3]),
        (["7", "007", "60623", "522418", "184613", "318219"], None),
        (["1", "a.png", "3", "b.png", "2", "9"], None),
        (["9" * 30, "7", "60623", "522418", "184613", "318219"], None),
        (
            [f"COCO_val2014_{k:012d}.jpg" for k in (391895, 7, 60, 5, 4, 3)],
            [391895, 7, 60, 5, 4, 3],
        ),
    ],
)
def test_an_image_always_has_the_same_number(tmp_path, ids, numbers):
    store = make_site(tmp_path, "references").store
    for unit, image in zip(list(store.units.values()), ids, strict=True):
        store.units[unit.id] = replace(unit, image_id=image)
    unit_ids = {u.image_id: n for n, u in store.units.items()}
    expected = dict(zip(ids, numbers, strict=True)) if numbers else unit_ids
    for order in (ids, ids[::-1], ids[2:4]):  # whatever is answered first
        written = [
            CountedAnswer(
                store.units[unit_ids[i]], store.units[unit_ids[i]].items[0], "r", {"text": i}, 1
            )
            for i in order
        ]
        answers = CountedAnswers(tuple(written), {}, {}, tuple(store.units.values()))
        content = json.loads(store.form.paper_files(answers)["captions.json"])
        assert {i["file_name"]: i["id"] for i in content["images"]} == {
            i: expected[i] for i in order
        }
        assert all(expected[a["caption"]] == a["image_id"] for a in content["annotations"])
    store.database.close()


def test_references_export_as_coco_annotations(run_study, tmp_path):
    def rule(k, captions):
        return {"text": f"A picture, seen by person number {k}, of one plain colour"}

    store, rows = run_study("references", 2, rule)
    folder = write_files(export_files(store, rows, "paper"), tmp_path / "out")
    content = json.loads((folder / "captions.json").read_text())
    numbers = {image["file_name"]: str(image["id"]) for image in content["images"]}
    assert [annotation["id"] for annotation in content["annotations"]] == list(range(1, 13))
    written = [rule(k, [])["text"] for k in range(2)]
    references = read_references(folder / "captions.json")
    assert {image: sorted(texts) for image, texts in references.texts.items()} == {
        numbers[f"p{k}.png"]: written for k in range(6)
    }


def test_excluded_raters_do_not_count_and_figures_point_out_poor_raters(run_study):
    def rule(k, captions):
        return {"answer": "good" if k == 2 or len(captions[0]) % 2 else "bad"}

    store, rows = run_study("good_bad", 3, rule)
    figures = compute_rater_figures(store, rows)
    assert [bool(f.notes) for f in figures.values()] == [False, False, True]
    assert figures[3].notes == ("nearly always the same answer",)
    assert figures[3].longest_run == len(CAPTIONS)
    # Worked by hand: two who always agree, and the third's mean distance from them.
    assert figures[1].distance == pytest.approx(figures[3].distance / 2)
    rows["raters"][2]["excluded_at"] = 1.0
    assert len(collect_answers(store, rows).answers) == 2 * len(CAPTIONS)
    assert compute_rater_figures(store, rows)[1].correlation == pytest.approx(1.0)


def test_a_study_s_conditions_are_in_its_exports_and_stated_by_agree(run_study, tmp_path, capsys):
    """Lee et al. 2021, appendix B.4, as a study of one's own would record it."""
    store, rows = run_study(
        "four",
        2,
        lambda k, captions: dict.fromkeys(
            (f"overall_{n}" for n in range(1, len(captions) + 1)), 3 + k
        ),
    )
    conditions = {"countries": "US, UK", "pay": "$0.20 for four captions"}
    store.study = replace(store.study, conditions=conditions)
    folder = write_files(export_files(store, rows, "captau"), tmp_path / "out")
    assert json.loads((folder / "run.json").read_text())["conditions"] == conditions
    assert load("file", path=folder / "ratings.csv").card.conditions == conditions
    words = ["dataset=file", f"file.path={folder / 'ratings.csv'}", f"output_dir={tmp_path / 'a'}"]
    assert run_captau("agree", *words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "collected under these conditions: countries: US, UK; pay: $0.20 for four captions."
        in printed
    )


def test_a_study_s_conditions_have_known_names(tmp_path):
    path = write_study(tmp_path, "four", conditions={"contries": "US"})
    with says(f"{path}", "conditions.contries"):
        read_study(str(path))
