"""What pages hold of captions and pictures, how far captions are in dispute, which rows are chosen, and texts in a script: by hand."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from PIL import Image

from captau.benchmarks.reporting import caption_browser
from captau.benchmarks.reporting.caption_browser import (
    CaptionView,
    Embedded,
    embed,
    make_thumbnail,
    script_json,
)
from captau.datasets.schema import Scale


def view(*, by_image: bool) -> CaptionView:
    """Ranks of two metrics that put the middle captions in other orders."""
    items = pd.DataFrame({"image_id": ["1", "1", "2", "2"]}, index=list("abcd"))
    oriented = pd.DataFrame({"m": [1.0, 2, 3, 4], "n": [1.0, 3, 2, 4]}, index=items.index)
    part = SimpleNamespace(
        items=items, oriented=oriented, metrics=["m", "n"], scales={}, is_by_image=by_image,
        people=lambda _: pd.Series(dtype=float),
    )  # fmt: skip
    return CaptionView(cast(Any, part))


def test_captions_disagree_by_how_far_their_ranks_lie_apart() -> None:
    found = view(by_image=False)
    assert found.ranks["m"].tolist() == [0.125, 0.375, 0.625, 0.875]
    assert found.ranks["n"].tolist() == [0.125, 0.625, 0.375, 0.875]
    assert found.disagreement.tolist() == [0.0, 0.25, 0.25, 0.0]
    assert found.unit.tolist() == [0, 1, 2, 3]


def test_images_disagree_by_how_far_the_ranks_of_a_metric_lie_apart() -> None:
    found = view(by_image=True)
    assert found.disagreement.tolist() == [0.5, 0.5]
    assert found.unit.tolist() == [0, 0, 1, 1]


def test_the_most_disputed_and_some_evenly_spaced_captions_are_chosen() -> None:
    found = view(by_image=False)
    assert found.choose_rows(1.0) == [0, 1, 2, 3]
    assert found.choose_rows(0.75) == [0, 1, 2]
    assert found.choose_rows(0.5) == [0, 1]
    assert found.choose_rows(0.25) == [1]
    assert found.choose_rows(0.2) == []
    assert found.images_of([0, 3, 2]) == ["2", "1"]
    assert view(by_image=True).choose_rows(0.5) == [0, 1]


def test_texts_in_a_script_cannot_end_it() -> None:
    text = "</script><!--&\u2028\u2029\ud800é"
    script = script_json({"a": [text, 1.5]})
    assert script == ('{"a":["\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\u2029\\ud800é",1.5]}')
    assert json.loads(script) == {"a": [text, 1.5]}


NAN = float("nan")


class Part(SimpleNamespace):
    """Captions of two images by two systems, scored by two metrics, rated on one dimension and compared."""

    def label(self, metric: str) -> str:
        return metric.upper()

    def people(self, dimension: str) -> pd.Series:
        return pd.Series({"1a": 2.0, "1b": 4.0, "x": NAN, "2": 3.0})


def part(folder: Path | None = None, **changes: Any) -> Any:
    ids = ["1a", "1b", "x", "2"]
    items = pd.DataFrame(
        {
            "item_id": ids,
            "image_id": ["1", "1", "2", "2"],
            "image": [str(folder / "one.png") if folder else None, None, NAN, 5],
            "caption": ["c1", "c2", "c3", "c4"],
            "system": ["A", None, "B", "A"],
            "split": ["test", "test", "train", "test"],
            "references": [("r", "s"), ("r", "s"), (), ("t",)],
        },
        index=ids,
    )
    scores = pd.DataFrame({"m": [0.1, 0.2, NAN, 0.4], "n": [4.0, 3, 2, 1], "more": 0.5}, index=ids)
    pairs = [("1a", "1b", "fit", "a"), ("x", "gone", "fit", "b"), ("2", "x", "style", "tie")]
    ratings = [
        *(("1a", "p", 2.0), ("1a", "p", 2.5), ("2", "p", 3.00004), ("2", "q", 1.0)),
        *(("gone", "p", 1.0), ("1b", "p", 0.123449)),
    ]
    words = [
        *(("1a", 0, "people", 1.0), ("1a", 1, "m", 0.05), ("1a", 2, "m", 0.0499)),
        *(("gone", 0, "m", 1.0), ("2", 3, "n", 0.456)),
    ]
    made = {
        "dataset": "d", "title": "T", "items": items, "scores": scores, "oriented": scores * [1, -1, 1],
        "metrics": ["m", "gone", "n"], "scales": {"p": Scale(1, 5, 1)}, "is_by_image": False,
        "styles": {"n": {"higher_is_better": False, "scale": 100, "decimals": 1}}, "leading_position": 1,
        "preferences": pd.DataFrame(pairs, columns=["item_a", "item_b", "dimension", "winner"]),
        "ratings": pd.DataFrame(ratings, columns=["item_id", "dimension", "value"]),
        "words": pd.DataFrame(words, columns=["item_id", "position", "source", "value"]),
    }  # fmt: skip
    return Part(**{**made, **changes})


PICTURE = "data:" + "x" * 983


def embedded(room: int, folder: Path, calls: list[Path], **changes: Any) -> Embedded:
    def picture(path: Path) -> str | None:
        calls.append(path)
        return None if path.name == "1" and changes.get("broken") else PICTURE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caption_browser, "make_thumbnail", picture)
        return embed([part(), part(title="U")], folder, room, lambda: calls.append(Path("step")))


def test_captions_come_first_and_then_pictures_as_far_as_there_is_room(tmp_path: Path) -> None:
    """A picture takes 988 bytes and 12 more."""
    for name in "12":
        (tmp_path / name).touch()
    calls: list[Path] = []
    everything = embedded(100_000, tmp_path, calls)
    assert dataclasses.replace(everything, text="") == Embedded("", 8, 8, 4, 4, 0)
    assert [call.name for call in calls] == ["1", "step", "2", "step"] * 2
    data = json.loads(everything.text)
    assert [part["title"] for part in data] == ["T", "U"]
    assert [part["pictures"] for part in data] == [{"0": PICTURE, "1": PICTURE}] * 2
    alone = embed([part(), part(title="U")], None, 100_000)
    size = len(alone.text)
    assert dataclasses.replace(alone, text="") == Embedded("", 8, 8, 0, 0, 0)
    assert embed([part(), part(title="U")], None, size).text == alone.text
    for room, n_pictures in ((size + 2999, 2), (size + 3000, 3), (size + 4000, 4)):
        found = embedded(room, tmp_path, [])
        assert (found.n_shown, found.n_pictures, found.n_found) == (8, n_pictures, 4)
    calls.clear()
    broken = embedded(100_000, tmp_path, calls, broken=True)
    assert (broken.n_pictures, broken.n_unreadable) == (2, 2)
    assert [call.name for call in calls] == ["1", "step", "2", "step"] * 2
    calls.clear()
    assert embedded(size + 2000, tmp_path, calls).n_pictures == 2
    assert [call.name for call in calls] == ["1", "step", "2", "step"]
    # Where captions take more than 0.7 of the room they give way.
    assert embedded(int(size / 0.7) + 1, tmp_path, []).n_shown == 8
    assert embedded(int(size / 0.7) - 1, tmp_path, []).n_shown < 8


@pytest.mark.parametrize(("share", "shown"), [(1.0, 8), (0.99, 6), (0.9, 6), (0.76, 2), (0.7, 2), (0.5, 0), (0.01, 0)])  # fmt: skip
def test_captions_that_have_no_room_are_left_out(share: float, shown: int) -> None:
    size = len(embed([part(), part()], None, 100_000).text)
    found = embed([part(), part()], None, int(share * size))
    assert (found.n_shown, found.n_total) == (shown, 8)


def address(path: Path) -> tuple[str, Image.Image]:
    text = make_thumbnail(path)
    assert text is not None
    head, _, data = text.partition(",")
    return head, Image.open(io.BytesIO(base64.b64decode(data)))


def test_pictures_become_small_and_upright_on_white(tmp_path: Path) -> None:
    """What is clear becomes white; the orientation of a camera, 6, is a quarter turn."""
    clear = Image.new("RGBA", (512, 256), (255, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    head, small = address(tmp_path / "clear.png")
    assert (head, small.size, small.mode) == ("data:image/webp;base64", (128, 64), "RGB")
    assert min(small.getpixel((5, 5))) > 250
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (300, 600), "black").save(tmp_path / "turned.jpg", exif=exif)
    _, turned = address(tmp_path / "turned.jpg")
    assert (turned.size, max(turned.getpixel((3, 3))) < 5) == ((128, 64), True)
    Image.new("L", (3, 2)).save(tmp_path / "tiny.png")
    assert address(tmp_path / "tiny.png")[1].size == (3, 2)
    (tmp_path / "text.png").write_text("no picture")
    for name in ("text.png", "absent.png"):
        assert make_thumbnail(tmp_path / name) is None
