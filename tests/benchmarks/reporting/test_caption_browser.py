"""What pages hold of captions and pictures, how far captions are in dispute, which rows are chosen, and texts in a script: by hand."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from PIL import Image, features
from PIL.JpegImagePlugin import JpegImageFile

from captau.benchmarks.reporting import caption_browser
from captau.benchmarks.reporting.caption_browser import (
    Embedded,
    _picture,
    _View,
    embed,
    script_json,
)
from captau.datasets.schema import Scale


def view(*, by_image: bool) -> _View:
    """Ranks of two metrics that put the middle captions in other orders."""
    items = pd.DataFrame({"image_id": ["1", "1", "2", "2"]}, index=list("abcd"))
    oriented = pd.DataFrame({"m": [1.0, 2, 3, 4], "n": [1.0, 3, 2, 4]}, index=items.index)
    part = SimpleNamespace(
        items=items, oriented=oriented, metrics=["m", "n"], scales={}, is_by_image=by_image,
        people=lambda _: pd.Series(dtype=float),
    )  # fmt: skip
    return _View(cast(Any, part))


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


def unpacked(text: str, kind: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), dtype=kind).tolist()


def test_a_page_holds_captions_in_few_bytes() -> None:
    data = _View(part()).make_page_data([0, 2, 3])
    scores, ranks = data.pop("scores"), data.pop("ranks")
    assert data == {
        "title": "T",
        "total": 4,
        "by_image": False,
        "higher": [True, False, True],
        "formats": [[1, 4], [100, 1], [1, 4]],
        "leading": 1,
        "metrics": ["M", "N", "MORE"],
        "asked": 2,
        "people": [{"name": "p", "scale": str(Scale(1, 5, 1))}],
        "images": ["1", "2"],
        "systems": ["A", "B"],
        "splits": ["test", "train"],
        "references": [("r", "s"), (), ("t",)],
        "items": {
            "id": [" a", "x", " "],
            "caption": ["c1", "c3", "c4"],
            "image": [0, 1, 1],
            "system": [0, 1, 0],
            "split": [0, 1, 0],
            "references": [0, 1, 2],
        },
        "ratings": [[[2, 2.5], [], [3]]],
        "blamed": {0: [[0, "people", 1.0], [1, "M", 0.05]], 2: [[3, "N", 0.46]]},
        "compared": ["style"],
        "pairs": [[2, 1, 0, "tie"]],
        "pictures": {},
    }
    assert unpacked(scores, "<f4") == pytest.approx([0.1, NAN, 0.4, 4, 2, 1, 0.5, 0.5, 0.5], nan_ok=True)  # fmt: skip
    # Ranks from 0 to 10,000: of 3 scores 1/6, 3/6 and 5/6; of less-is-better n turned; then the people's means.
    m, n, more, people = [1667, 65535, 8333], [1250, 6250, 8750], [5000] * 3, [1667, 65535, 5000]
    assert unpacked(ranks, "<u2") == [*m, *n, *more, *people]
    second = _View(part()).make_page_data([1])
    assert (second["ratings"], second["systems"]) == ([[[0.1234]]], [""])
    assert (second["compared"], second["pairs"], second["blamed"]) == ([], [], {})
    assert unpacked(second["ranks"], "<u2") == [5000, 3750, 5000, 8333]


def test_people_and_the_metrics_that_were_asked_for_are_weighed() -> None:
    """Ranks of m are 1/6, 3/6, –, 5/6; of n 1/8, 3/8, 5/8, 7/8; of people 1/6, 5/6, –, 3/6; of more all 1/2."""
    found = _View(part())
    assert found.n_correlated == 2
    assert found.disagreement == pytest.approx([1 / 6 - 1 / 8, 5 / 6 - 3 / 8, 0, 7 / 8 - 3 / 6])
    assert found.images_of([0, 3, 1]) == ["1", "2"]
    assert found.images_of([0, 3]) == ["2", "1"]


def test_pictures_are_looked_for_in_the_given_folder_first(tmp_path: Path) -> None:
    (tmp_path / "one.png").touch()
    (tmp_path / "images").mkdir()
    found = _View(part(tmp_path))
    assert found.files(None) == {"1": tmp_path / "one.png"}
    assert found.files(tmp_path / "images") == {"1": tmp_path / "one.png"}
    for name in "12":
        (tmp_path / "images" / name).touch()
    assert found.files(tmp_path / "images") == {n: tmp_path / "images" / n for n in "12"}
    assert _View(part(tmp_path / "gone")).files(None) == {}


PICTURE = "data:" + "x" * 983


def embedded(room: int, folder: Path, calls: list[Path], **changes: Any) -> Embedded:
    def picture(path: Path) -> str | None:
        calls.append(path)
        return None if path.name == "1" and changes.get("broken") else PICTURE

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caption_browser, "_picture", picture)
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
    text = _picture(path)
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
        assert _picture(tmp_path / name) is None


def test_pictures_are_saved_with_the_quality_of_sixty(tmp_path: Path) -> None:
    noise = Image.effect_noise((128, 128), 90).convert("RGB")
    noise.save(tmp_path / "noise.png")
    for form, name in (("WEBP", "webp"), ("JPEG", "jpeg")):
        buffer = io.BytesIO()
        noise.save(buffer, format=form, quality=60)
        expected = base64.b64encode(buffer.getvalue()).decode()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(features, "check", lambda feature, name=name: feature == name)
            assert _picture(tmp_path / "noise.png") == f"data:image/{name};base64,{expected}"


def test_a_large_jpeg_is_read_in_twice_the_size_of_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(JpegImageFile, "draft", lambda _, *words: asked.append(words))
    Image.new("RGB", (600, 300)).save(tmp_path / "large.jpg")
    assert address(tmp_path / "large.jpg")[1].size == (128, 64)
    assert ("RGB", (256, 256)) in asked
