"""Study files: those of captau, faults with file, line and field, and the rules of the forms."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from PIL import Image

from captau.conf import group
from captau.server.collect.forms import FORMS
from captau.server.collect.forms.form import FormError
from captau.server.collect.study import StudyLimits, read_study
from captau.server.collect.web.rater_pages import image_response
from captau.server.web.errors import NotFoundError
from tests.conftest import says
from tests.server.collect.conftest import write_study

ATTENTION = {"attention": [{"image": "p0.png", "caption": "x", "accepted": 1}], "per_rater": 4}


@pytest.mark.parametrize("name", group("collect"))
def test_captau_s_own_studies_are_valid(name):
    study = read_study(name)
    assert study.name == name
    assert all(u.image for u in study.units)
    if study.form.name == "game":
        pools = [u.pool for u in study.units]
        assert (pools.count("tutorial"), pools.count("probation")) == (10, 20)
        main = {(u.image_id, u.items[0].caption) for u in study.units if u.pool == "main"}
        practice = {(u.image_id, u.items[0].caption) for u in study.units if u.pool != "main"}
        assert not main & practice
        assert all(len(u.fixed) == 2 for u in study.units if u.pool == "main")
        assert all(u.explanation for u in study.units if u.pool == "tutorial")


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("demo_game", "0de7a9f5adba8099"),
        ("demo_thumb", "b439634c019dbed7"),
        ("demo_references", "0149cf74a124b0e9"),
    ],
)
def test_the_digests_of_the_demo_studies_are_those_that_databases_hold(name, digest):
    """Source: captau before forms said what they must implement; another digest would refuse existing databases."""
    assert read_study(name, prepares_units=False).digest.startswith(digest)


def line_of(path, text):
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize(
    ("changes", "line_text", "parts"),
    [
        ({"rating": 3}, "rating:", ["rating", "did you mean ratings"]),
        ({"ratings": "many"}, "ratings: many", ["ratings", "'many'", "whole number"]),
        ({"ratings": 0}, "ratings: 0", ["ratings", "from 1"]),
        ({"ratings": True}, "ratings: true", ["ratings", "True"]),
        ({"protocol": "gaem"}, "protocol:", ["protocol", "game"]),
        ({"participants": "all"}, "participants:", ["participants", "open"]),
        ({"name": "a b"}, "name: a b", ["name", "letters"]),
        ({"game": {"wait": -1}}, "wait: -1", ["game.wait", "-1"]),
        ({"game": {"pause": 1}}, "pause: 1", ["game.pause", "unknown"]),
        ({"game": {"tutorial_pairs": 5}}, "tutorial:", ["game.tutorial", "2 pairs"]),
        ({"game": {"probation": 9}}, "probation:", ["game.probation", "list the pairs"]),
        ({"game": {"cold_start": ["bleu_9"]}}, "cold_start:", ["game.cold_start", "bleu_9"]),
        ({"game": {"pairs": 99}}, "probation:", ["4 pairs", "game.pairs=99"]),
        ({"items": {"file": "captions.jsonl", "limit": 0}}, "limit: 0", ["items.limit"]),
        ({"items": {"file": "captions.jsonl", "limit": 2}}, "limit: 2", ["items.limit", "pairs=3"]),
        ({"game": {"points": 7}}, "points: 7", ["game.points", "game.pairs=3 bring 6"]),
        ({"per_rater": 2}, "per_rater: 2", ["per_rater", "game.pairs=3"]),
        ({"min_words": 9}, "min_words: 9", ["min_words", "leave it out"]),
        ({"attention_every": 9}, "attention_every: 9", ["no attention item"]),
        ({**ATTENTION, "attention_every": 5}, "attention_every: 5", ["per_rater=4"]),
        ({"items": {"file": "none.csv"}}, "file: none.csv", ["items.file", "there is no file"]),
        ({"items": {"images": "none"}}, "images: none", ["items.images", "not a folder"]),
        ({"items": {"systems": ["sys-9"]}}, "systems:", ["items.systems", "sys-9"]),
        ({"crowd": {"parameter": "x"}}, "crowd:", ["crowd", "leave it out"]),
        ({"attention": [{"image": "p0.png", "caption": "x", "accepted": 9}]}, "accepted", ["9"]),
        ({"title": "half \ud83d"}, "title:", ["title", "U+D83D", "take it out"]),
        ({"consent": "pay \u202e$01"}, "consent:", ["consent", "U+202E"]),
        ({"title": "a\x1b[2Jb"}, "title:", ["title", "U+001B"]),
        ({"attention": [{"image": "px.png", "caption": "x", "accepted": 1}]}, "px", ["px.png"]),
    ],
)
def test_faults_are_reported_with_file_line_and_field(tmp_path, changes, line_text, parts):
    path = write_study(tmp_path, **changes)
    with says(f"{path}:{line_of(path, line_text)}: ", *parts):
        read_study(str(path))


def test_unreadable_study_files_are_reported(tmp_path):
    path = write_study(tmp_path)
    text = path.read_text(encoding="utf-8")
    with says("nothing.yaml", "No such file"):
        read_study(str(tmp_path / "nothing.yaml"))
    with says("unknown study 'demo_gaem'", "demo_game"):
        read_study("demo_gaem")
    path.write_text(text + "name: twice\n", encoding="utf-8")
    with says("name appears twice"):
        read_study(str(path))
    path.write_text(text.replace("consent:", "consent: [", 1), encoding="utf-8")
    with says(str(path), ":"):
        read_study(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with says("UTF-8"):
        read_study(str(path))
    path.write_text(text.replace("consent: You take part in a test.\n", ""), encoding="utf-8")
    with says(f"{path}:1: consent: this field is required"):
        read_study(str(path))


def test_images_must_exist_inside_the_folder_and_be_readable(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = write_study(inside)
    (inside / "p3.png").unlink()
    with says("3 of 24 items have no image file", "p3.png", "items.images"):
        read_study(str(path))
    (inside / "p3.png").write_bytes(b"no image at all")
    with says("p3.png", "no image that can be read"):
        read_study(str(path))
    (tmp_path / "secret.png").write_bytes((inside / "p2.png").read_bytes())
    rows = (inside / "captions.jsonl").read_text(encoding="utf-8")
    for name in ("../secret.png", str(tmp_path / "secret.png")):
        (inside / "captions.jsonl").write_text(rows.replace("p3.png", name), encoding="utf-8")
        with says("captions.jsonl:10", "lies outside of"):
            read_study(str(path))
    (inside / "p3.png").unlink()
    (inside / "p3.png").symlink_to(tmp_path / "secret.png")
    (inside / "captions.jsonl").write_text(rows, encoding="utf-8")
    with says("captions.jsonl:10", "lies outside of"):
        read_study(str(path))


def test_a_tutorial_caption_is_not_rated_for_any_system(tmp_path):
    """An equal caption by another system is no secret once one copy is a tutorial pair."""
    pair = {"image": "p0.png", "caption": "a square number 0", "ratings": [4], "explanation": "So."}
    path = write_study(tmp_path, game={"tutorial": [pair], "tutorial_pairs": 1})
    rows = (tmp_path / "captions.jsonl").read_text(encoding="utf-8")
    copy = {
        "image": "p0.png",
        "caption": "a square number 0",
        "references": ["r"],
        "system": "other",
    }
    (tmp_path / "captions.jsonl").write_text(rows + json.dumps(copy) + "\n", encoding="utf-8")
    study = read_study(str(path))
    main = [u.items[0].caption for u in study.units if u.pool == "main"]
    assert len(main) == 17
    assert pair["caption"] not in main


def test_an_image_with_too_many_pixels_is_reported(tmp_path, monkeypatch):
    path = write_study(tmp_path, "good_bad")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40 * 30 // 2 - 1)
    with says("p0.png", "too many pixels"):
        read_study(str(path))
    with pytest.raises(NotFoundError):
        image_response(str(tmp_path / "p0.png"))


@pytest.mark.parametrize(
    ("fields", "total"),
    [
        # Rows of the paper's Table 1: 1-A, 1-B, 2-A, 5-C's 4.7 (P 5, R 5, fluency .3).
        ({"precision": ["3"], "recall": ["4"]}, 3.5),
        ({"precision": ["5"], "recall": ["4"], "fault": ["grammar"]}, 4.4),
        ({"precision": ["5"], "recall": ["3"]}, 4.0),
        ({"precision": ["5"], "recall": ["5"], "fault": ["awkward"], "tenths_awkward": ["3"]}, 4.7),
        # Conciseness .5 and the graver of the two remarks on looks, 2.0 (section 2.2.2).
        ({"precision": ["5"], "recall": ["5"], "wordy": ["yes"], "inclusive": ["20"]}, 2.5),
    ],
)
def test_thumb_totals_match_the_paper(fields, total):
    form = FORMS["thumb"]()
    (value,) = form.read_answer({f"{name}_1": values for name, values in fields.items()}, 1)
    ratings = form.ratings(value)
    assert ratings["total"] == total
    assert set(ratings) == set(form.scales)
    for dimension, scale in form.scales.items():
        assert scale.low <= ratings[dimension] <= scale.high


@pytest.mark.parametrize(
    "fields",
    [
        {"precision": ["6"], "recall": ["4"]},
        {"recall": ["4"]},
        {"precision": ["3"], "recall": ["4"], "fault": ["invented"]},
        {"precision": ["3"], "recall": ["4"], "fault": ["broken"], "tenths_broken": ["-9"]},
        {"precision": ["3"], "recall": ["4"], "inclusive": ["3"]},
    ],
)
def test_thumb_refuses_invalid_answers(fields):
    with pytest.raises(FormError):
        FORMS["thumb"]().read_answer({f"{name}_1": v for name, v in fields.items()}, 1)


def test_the_digest_covers_what_is_rated_and_nothing_else(tmp_path, monkeypatch):
    attention = [{"image": "p1.png", "caption": "a known answer", "accepted": 4}]
    path = write_study(tmp_path, attention=attention)
    study = read_study(str(path))
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert read_study("study.yaml").digest == study.digest
    for old, new in (
        ("intro: Look", "\n\n# A longer one.\nintro: Look twice"),
        ("title: A small", "title: Another small"),
        ("ratings: 3", "ratings: 5"),
        ("wait: 0", "wait: 2"),
        ("It says what is there.", "All is there."),
        ("- rouge_l", "- bleu_4"),  # other computed ratings
    ):
        path.write_text(text.replace(old, new), encoding="utf-8")
        assert read_study("study.yaml").digest == study.digest, new
        assert text != text.replace(old, new)
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path, moved, dirs_exist_ok=False, ignore=lambda *_: ["moved"])
    assert read_study(str(moved / "study.yaml")).digest == study.digest
    for old, new in (
        ("points: 3", "points: 4"),
        ("practice 1", "practice 2"),
        ("accepted: 4", "accepted: 3"),
        ("probation 3\n", "probation 4\n"),
    ):
        path.write_text(text.replace(old, new), encoding="utf-8")
        assert read_study("study.yaml").digest != study.digest, new
    path.write_text(text, encoding="utf-8")
    table = tmp_path / "captions.jsonl"
    rows = table.read_text(encoding="utf-8")
    for old, new in (("a reference of", "the reference of"), ("sys-4", "sys-5"), ("p3", "p4")):
        table.write_text(rows.replace(old, new), encoding="utf-8")
        assert read_study("study.yaml").digest != study.digest, new


def test_what_a_study_s_file_leaves_out_is_usual(tmp_path):
    path = write_study(tmp_path, "good_bad", title=None, ratings=None, limits=None, intro=None)
    study = read_study(str(path))
    usual = {
        **{"name": "small", "title": "small", "intro": "", "ratings": 10, "per_rater": None},
        **{"participants": "open", "worker_parameter": "worker", "completion": ""},
        **{"nicknames": False, "attention_every": 10, "conditions": {}},
        **{"limits": StudyLimits(joins=60, logins=10, requests=20), "annotator_names": ()},
    }
    assert {name: getattr(study, name) for name in usual} == usual
    assert [(unit.id, unit.pool) for unit in study.units] == [(k, "main") for k in range(1, 19)]
    changed = write_study(
        tmp_path,
        "game",
        nicknames=False,
        participants="crowd",
        per_rater=12,
        crowd={"parameter": "PID", "completion": "C0DE"},
        limits={"joins": 1, "logins": 2, "requests": 3},
    )
    study = read_study(str(changed))
    assert (study.nicknames, study.per_rater, study.ratings) == (False, 12, 3)
    assert (study.worker_parameter, study.completion) == ("PID", "C0DE")
    assert study.limits == StudyLimits(1, 2, 3)
    assert read_study(str(write_study(tmp_path, "game"))).nicknames


def test_bounds_of_a_study_s_fields_belong_to_them(tmp_path):
    """A game's points and answers, and the lengths of texts; one more is a fault."""
    for protocol, changes, part in (
        ("game", {"game": {"points": 6}}, None),  # twice game.pairs, 3
        ("game", {"per_rater": 3}, None),
        ("game", {"per_rater": 2}, "per_rater: 2; game.pairs=3 at least are needed"),
        ("good_bad", {"title": "t" * 200, "question": "q" * 500}, None),
        ("good_bad", {"title": "t" * 201}, "title: 201 characters; at most 200"),
        ("good_bad", {"question": "q" * 501}, "question: 501 characters; at most 500"),
        ("good_bad", {**ATTENTION, "attention_every": 3}, None),
        ("good_bad", {**ATTENTION, "attention_every": 4}, "attention_every: 4; per_rater=4"),
        ("good_bad", {"name": "a.b-c_1"}, None),
        ("good_bad", {"name": ".a"}, "name: '.a': letters, digits"),
        ("good_bad", {"ratings": 1000}, None),
        ("good_bad", {"ratings": 1001}, "ratings: 1001 is not a whole number from 1 to 1000"),
    ):
        path = write_study(tmp_path, protocol, **changes)
        if part is None:
            assert read_study(str(path)).form.name == protocol
        else:
            with says(part):
                read_study(str(path))


@pytest.mark.parametrize(
    ("code", "translations", "part"),
    [
        ("xx", None, "lang: 'xx': captau has en, de; name your own texts with translations="),
        ("xx", {"Next": "Nächstes %"}, "Next: its %-placeholders differ from the text's"),
    ],
)
def test_a_language_without_texts_is_reported(code, translations, part, tmp_path):
    own = {}
    if translations:
        (tmp_path / "own.yaml").write_text(yaml.safe_dump(translations, allow_unicode=True))
        own["translations"] = "own.yaml"
    with says(part):
        read_study(str(write_study(tmp_path, "good_bad", lang=code, **own)))
