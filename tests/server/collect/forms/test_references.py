"""Written reference captions: the instructions that are checked, and COCO's annotations, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from captau.server.collect.forms.form import FormError
from captau.server.collect.forms.references import ReferencesForm, caption_faults
from captau.server.texts import ENGLISH
from tests.conftest import raises_exactly, says
from tests.server.collect.conftest import read_study_fields
from tests.server.collect.forms.answers import answer, gather, make_unit


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("A large brown dog is lying on the grass", ""),
        ("a dog", "at least 8 words"),
        ("There is a large brown dog on the green grass", "There is"),
        ("there's a large brown dog lying on the green grass", "There is"),
        ("There are some large dogs that lie on the grass", "There is"),
        ("Thereby hangs a tale of a large old dog", ""),
        ("A dog lies on the grass. It is a large one.", "one sentence"),
        ("Look at this large brown dog! “It lies on the grass.”", "one sentence"),
        ("A St. Bernard dog sits on the big red sofa", ""),
        ("Dogs of Dr. Smith in the U.S. Army at 5 p.m. on Main St. in town", ""),
        ("A dog lies on approx. two thirds of the big red sofa", ""),
        ("word " * 200, "at most 500"),
    ],
)
def test_references_follow_the_instructions(text, fault):
    """Chen et al. 2015, section 2: what can be checked of the instructions."""
    faults = caption_faults(text)
    assert bool(faults) == bool(fault)
    assert fault in " ".join(faults)


EIGHT = "one two three four five six seven eight"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (EIGHT, []),
        ("one two three four five six seven", ["Write at least 8 words; there are 7."]),
        ("one's two-three four, five! six. seven? eight nine ten", []),
        ("", ["Write at least 8 words; there are 0."]),
        (f"There is {EIGHT}", ["Do not begin with “There is”: say what is there."]),
        (f"  there’s {EIGHT}", ["Do not begin with “There is”: say what is there."]),
        (f"“There were {EIGHT}", ["Do not begin with “There is”: say what is there."]),
        (f"Therein {EIGHT} there is", []),
        (f"{EIGHT}. Nine", ["Write one sentence."]),
        (f"{EIGHT}. nine", []),
        (f"{EIGHT}! Nine", ["Write one sentence."]),
        (f"{EIGHT} st! Nine", ["Write one sentence."]),  # a period alone ends an abbreviation
        (f"{EIGHT} St. Nine", []),
        (f"{EIGHT} J. Nine", []),  # an initial
        (f"{EIGHT} go. Nine", ["Write one sentence."]),
        (f"{EIGHT} J? Nine", ["Write one sentence."]),
        (f"{EIGHT}.” (“Nine", ["Write one sentence."]),
        (f"{EIGHT}.” “Nine", ["Write one sentence."]),
        (f"{EIGHT} {'x' * (499 - len(EIGHT))}", []),
        (f"{EIGHT} {'x' * (500 - len(EIGHT))}", ["Write at most 500 characters; there are 501."]),
        (
            f"There are xyz. Y {'x' * 500}",
            [
                "Write at least 8 words; there are 5.",
                "Do not begin with “There is”: say what is there.",
                "Write one sentence.",
                "Write at most 500 characters; there are 517.",
            ],
        ),
    ],
)
def test_faults_of_a_caption_in_whole(text, faults):
    assert caption_faults(text) == faults
    if faults:
        with raises_exactly(" ".join(caption_faults(" ".join(text.split()))), FormError):
            ReferencesForm(min_words=8).read_answer({"text": [text.replace(" ", " \n ")]}, 1)


def test_a_study_says_how_many_words_a_caption_needs():
    def form_of(**fields):
        return ReferencesForm.from_study(read_study_fields(ReferencesForm, **fields), ENGLISH)

    assert form_of().min_words == 8
    assert [form_of(min_words=n_words).min_words for n_words in (1, 50)] == [1, 50]
    assert ReferencesForm().min_words == 8
    assert form_of(min_words=2).read_answer({"text": ["a  dog "]}, 1) == [{"text": "a dog"}]
    for n_words in (0, 51):
        with says("study.yaml:1: min_words"):
            form_of(min_words=n_words)


@pytest.mark.parametrize(
    ("images", "numbers"),
    [
        (("COCO_val2014_000000000042.jpg", "7.jpg"), [42, 7]),
        (("7.jpg", "007.jpg"), [1, 2]),  # one number twice
        (("7.jpg", "a.jpg"), [1, 2]),
        ((f"{'1' * 18}.jpg", "7.jpg"), [int("1" * 18), 7]),
        ((f"{'1' * 19}.jpg", "7.jpg"), [1, 2]),  # more than 64 bits hold
    ],
)
def test_images_have_coco_s_numbers_where_each_has_its_own(images, numbers):
    import json

    units = [make_unit(k, "", image=image) for k, image in enumerate(images, start=1)]
    answers = gather(*(answer(unit, {"text": "x"}) for unit in units))
    content = json.loads(ReferencesForm().captau_files(answers)["captions.json"])
    assert content["images"] == [
        {"id": number, "file_name": image} for number, image in zip(numbers, images, strict=True)
    ]
    assert [row["image_id"] for row in content["annotations"]] == numbers


def test_written_captions_are_no_ratings_and_become_coco_s_annotations():
    form = ReferencesForm()
    assert (form.ratings({"text": "x"}), form.main_dimension) == ({}, None)
    units = [make_unit(k, "", image=image) for k, image in ((1, "b.png"), (2, "a.png"))]
    answers = gather(
        answer(units[0], {"text": "A dög."}),
        answer(units[1], {"text": "A cat."}),
        answer(units[0], {"text": "A fox."}, "r2"),
    )
    text = (
        '{\n "images": [\n  {\n   "id": 1,\n   "file_name": "b.png"\n  },\n'
        '  {\n   "id": 2,\n   "file_name": "a.png"\n  }\n ],\n "annotations": [\n'
        '  {\n   "id": 1,\n   "image_id": 1,\n   "caption": "A dög."\n  },\n'
        '  {\n   "id": 2,\n   "image_id": 2,\n   "caption": "A cat."\n  },\n'
        '  {\n   "id": 3,\n   "image_id": 1,\n   "caption": "A fox."\n  }\n ]\n}\n'
    )
    assert form.captau_files(answers)["captions.json"].decode() == text
    assert form.paper_files(answers) == form.captau_files(answers)


def test_a_simulated_writer_puts_two_colours_and_shapes_in_an_accepted_sentence():
    class Draws:
        def permutation(self, n):
            return np.array([2, 1, 0, 3])[:n]

    fields = ReferencesForm().simulate_answer(lambda caption: 3, [""], Draws())
    text = "A blue circle stands on white, not far from a green square."
    assert fields == {"text": text}
    assert ReferencesForm().read_answer({"text": [text]}, 1) == [{"text": text}]
    texts = {
        ReferencesForm().simulate_answer(lambda caption: 3, [""], np.random.default_rng(k))["text"]
        for k in range(30)
    }
    assert len(texts) > 5


def test_items_of_one_image_are_one_image_to_write_about():
    first = make_unit(1, "one", "two").items
    other = make_unit(2, "three", image="p1.png").items
    units = ReferencesForm().group_items([*first, *other])
    assert [(u.pool, u.image_id, u.image, u.items[0].item_id) for u in units] == [
        ("main", "p0.png", "/x/p0.png", "p0.png"),
        ("main", "p1.png", "/x/p1.png", "p1.png"),
    ]
    assert [(i.caption, i.references, i.system) for u in units for i in u.items] == [
        ("", (), None)
    ] * 2
    assert ReferencesForm().template_variables() == {"max_length": 500}
