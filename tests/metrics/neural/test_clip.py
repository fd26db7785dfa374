"""Images of every awkward kind are read as PIL and the authors' code read them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from captau.datasets.sources.demo import render
from captau.metrics.neural import clip
from tests.conftest import says

SIZE = 24


@pytest.fixture
def picture():
    return render("demo_000.png", size=SIZE)


def array(image):
    return np.asarray(image.convert("RGB"))


def read(path):
    (found,) = clip.decode_images([str(path)], array)
    return found


def test_order_and_number_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(clip, "AHEAD", 3)
    paths = []
    for value in range(20):
        paths.append(str(tmp_path / f"{value}.png"))
        Image.new("L", (2, 2), value).save(paths[-1])
    found = list(clip.decode_images(paths, array))
    assert [int(a[0, 0, 0]) for a in found] == list(range(20))


def test_few_wait_for_the_model(tmp_path, monkeypatch):
    """The queue is bounded: a slow model does not fill memory with pictures."""
    monkeypatch.setattr(clip, "AHEAD", 4)
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    begun = []

    def slow(image):
        begun.append(1)
        return array(image)

    found = clip.decode_images([str(tmp_path / "a.png")] * 50, slow)
    next(found)
    assert len(begun) <= 4 + 1 + clip.WORKERS
    assert len(list(found)) == 49


def test_cmyk(tmp_path, picture):
    picture.convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read(tmp_path / "a.jpg").astype(int) - array(picture)).mean() < 8


def test_sixteen_bit_grey_is_clipped(tmp_path):
    Image.fromarray(np.array([[0, 100, 255, 256, 65535]], dtype=np.uint16)).save(tmp_path / "a.png")
    assert read(tmp_path / "a.png")[0, :, 0].tolist() == [0, 100, 255, 255, 255]


def test_transparency_is_dropped(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png", transparency=0)
    assert read(tmp_path / "a.png").tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_exif_rotation_is_not_applied(tmp_path, picture):
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = picture.resize((SIZE * 2, SIZE))
    wide.save(tmp_path / "a.png", exif=exif)
    assert read(tmp_path / "a.png").shape == (SIZE, SIZE * 2, 3)


def test_the_first_frame_of_an_animation_counts(tmp_path):
    red, blue = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    red.save(tmp_path / "a.gif", save_all=True, append_images=[blue])
    assert read(tmp_path / "a.gif")[0, 0].tolist() == [255, 0, 0]


def test_an_unreadable_one_is_named(tmp_path, picture):
    picture.save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no image", whole[:20] + b"\0" * 99):
        (tmp_path / "b.png").write_bytes(content)
        with says(str(tmp_path / "b.png"), "not an image that PIL can read"):
            read(tmp_path / "b.png")
    with says(str(tmp_path / "none.png"), "cannot be read"):
        clip.compute_image_keys([str(tmp_path / "none.png")])


def test_equal_files_have_equal_keys(tmp_path, picture):
    for name in ("a.png", "b.png"):
        picture.save(tmp_path / name)
    Image.new("L", (2, 2)).save(tmp_path / "c.png")
    one, two, other = clip.compute_image_keys([str(tmp_path / f"{n}.png") for n in "abc"])
    assert one == two != other
