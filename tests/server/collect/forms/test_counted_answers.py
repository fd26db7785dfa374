"""The table of ratings that `dataset=file` reads, to the letter."""

from __future__ import annotations

from dataclasses import replace

from captau.server.collect.forms.game import GameForm
from captau.server.collect.forms.thumb import ThumbForm
from tests.server.collect.forms.answers import answer, gather, make_unit


def rate(precision, recall, **changes):
    return {
        "precision": precision,
        "recall": recall,
        "faults": {},
        "wordy": False,
        "inclusive": 0,
    } | changes


def test_a_row_a_rating_with_the_columns_that_every_item_has():
    """A rater's first answer to equal captions stands; the reference is JSON in CSV."""
    first, second = make_unit(1, "one, “two”"), make_unit(2, ("three", None))
    repeated = make_unit(3, "one, “two”")
    answers = gather(
        answer(first, {"overall": 4}, "r1", seconds=2.04),
        answer(second, {"overall": 5}, "r1", seconds=0.05),
        answer(repeated, {"overall": 1}, "r1"),
        answer(repeated, {"overall": 2}, "r2", seconds=600),
    )
    scales = "scales:\n  overall: {low: 1, high: 5, step: 1}\n"
    files = GameForm().captau_files(answers)
    assert {name: content.decode() for name, content in files.items()} == {
        "ratings.csv": (
            "image,caption,references,rater,dimension,value,seconds\n"
            'p0.png,"one, “two”","[""a ref""]",r1,overall,4,2.0\n'
            'p0.png,three,"[""a ref""]",r1,overall,5,0.1\n'
            'p0.png,"one, “two”","[""a ref""]",r2,overall,2,600.0\n'
        ),
        "ratings.yaml": scales,
    }
    assert [len(group) for group in answers.by_item()] == [1, 1, 2]
    accented = replace(first.items[0], references=("é", '"'))
    files = GameForm().captau_files(
        gather(answer(replace(first, items=(accented,)), {"overall": 4}))
    )
    assert files["ratings.csv"].decode().splitlines()[1] == (
        'p0.png,"one, “two”","[""é"", ""\\""""]",sys,r1,overall,4,1.0'
    )
    item = replace(first.items[0], references=(), split="test")
    bare = gather(answer(replace(first, items=(item,)), {"overall": 4}))
    assert GameForm().captau_files(bare)["ratings.csv"].decode() == (
        "image,caption,system,split,rater,dimension,value,seconds\n"
        'p0.png,"one, “two”",sys,test,r1,overall,4,1.0\n'
    )


def test_answers_that_another_annotator_checked_stand_in_a_table_of_their_own():
    unit = make_unit(1, "one", "two")
    checked = rate(5, 4, faults={"grammar": 1})
    answers = gather(
        answer(unit, rate(4, 4), "r1", 0, 30.0, "score"),
        answer(unit, rate(3, 3), "r1", 1, 30.0, "score"),
        answer(unit, checked, "r2", 0, 10.0, "check"),
        settled={10: checked, 99: checked},  # of 99 there is no answer left
    )
    files = {name: text.decode() for name, text in ThumbForm().captau_files(answers).items()}
    assert list(files) == ["ratings.csv", "ratings.yaml", "settled.csv", "settled.yaml"]
    assert files["ratings.csv"].splitlines()[:3] == [
        "image,caption,references,system,rater,dimension,value,seconds,stage",
        'p0.png,one,"[""a ref""]",sys,r1,precision,4,30.0,score',
        'p0.png,one,"[""a ref""]",sys,r1,recall,4,30.0,score',
    ]
    assert len(files["ratings.csv"].splitlines()) == 1 + 3 * 6
    head = 'p0.png,one,"[""a ref""]",sys,settled'
    assert files["settled.csv"].splitlines() == [
        "image,caption,references,system,rater,dimension,value",
        f"{head},precision,5",
        f"{head},recall,4",
        f"{head},fluency,-0.1",
        f"{head},inclusive,0",
        f"{head},conciseness,0",
        f"{head},total,4.4",
    ]
    assert files["settled.yaml"] == files["ratings.yaml"]
    assert files["ratings.yaml"].endswith("totals: [total]\n")


def test_the_game_s_paper_files_go_by_coco_s_numbers():
    for images, name in (
        (("COCO_val2014_000000000042.jpg", "7.jpg"), "cocog.csv"),
        (("7.jpg", "a.jpg"), "flickrg.csv"),
    ):
        units = [
            make_unit(k, (f"c{k}", None if k else "sys"), image=i) for k, i in enumerate(images)
        ]
        files = GameForm().paper_files(gather(*(answer(u, {"overall": 3}) for u in units)))
        assert files == {
            name: (
                f"image,caption,rater,value,source\n{images[0]},c0,r1,3,sys\n{images[1]},c1,r1,3,\n"
            ).encode()
        }
