"""Images of every awkward kind are read as PIL and the authors' code read them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captau.datasets.sources.demo import render
from captau.metrics.base import UnavailableError
from captau.metrics.neural import (
    clip,
    clipscore,
)
from captau.metrics.neural.models import hash_of
from tests.conftest import raises_exactly, says
from tests.metrics.neural.stand_ins import stand_in

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


MODEL = "ViT-B-32-quickgelu"


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = tmp_path / "weights"
    root.mkdir()
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(root))
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    monkeypatch.setattr(clip, "_builtin", lambda model: {"quick_gelu": model == "quick"})
    return root


def write(path, content="weights"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def config(**text):
    return {"model_cfg": {"text_cfg": {}, "vision_cfg": {}, **text}}


def find(model=MODEL, checkpoint=None):
    return clip.Clip.of("clipscore", model, checkpoint, "cpu", "fp32", 64)


def refused(model=MODEL, checkpoint=None):
    with pytest.raises(UnavailableError) as error:
        find(model, checkpoint)
    return str(error.value)


def test_weights_of_a_models_name(root):
    needs = "metric clipscore needs the weights of {0}, which are not here; put an open_clip model's folder at {1}/{0}"
    end = ", or name a file with checkpoint=FILE"
    assert refused() == (
        needs.format(MODEL, root)
        + " (hf download timm/vit_base_patch32_clip_224.openai --local-dir …)"
        + end
        + ", or allow the download with weights.download=true"
    )
    assert refused("RN50") == needs.format("RN50", root) + end
    for ending in (".bin", ".pt", ".safetensors"):
        path = write(root / f"{MODEL}{ending}")
        found = find()
        assert found == clip.Clip("clipscore", MODEL, None, path, "cpu", "fp32", 64)
    assert found.weights == hash_of([path])
    assert found.note == ""
    write(root / "RANDOM_WEIGHTS.txt", "random\n")
    assert found.note == "random"


def test_weights_of_a_folder(root):
    folder = root / "mine"
    folder.mkdir()
    with says(f"{folder}: no open_clip_config.json; a folder of an open_clip model is expected"):
        find("mine")
    write(folder / clip.CONFIG, config())
    assert refused("mine") == (
        f"metric clipscore needs weights, and {folder} has none; open_clip_model.safetensors or "
        f"open_clip_pytorch_model.bin or open_clip_pytorch_model.pt is expected in it"
    )
    for name in reversed(clip.NAMES):
        path = write(folder / name)
        assert find("mine") == clip.Clip("clipscore", "mine", folder, path, "cpu", "fp32", 64)


def test_weights_of_a_checkpoint(root, monkeypatch):
    needs = (
        f"metric clipscore needs the checkpoint '{{}}', which is neither a file nor in {root}; {{}}"
    )
    tag = "a tag of open_clip is fetched with weights.download=true"
    assert refused(checkpoint="openai") == needs.format("openai", tag)
    pacs = "clip_ViT-B-32.pth"
    source = "its authors offer it at github.com/aimagelab/pacscore"
    assert refused(checkpoint=pacs) == needs.format(pacs, source)
    (root / "folder").mkdir()
    assert refused(checkpoint="folder") == needs.format("folder", tag)
    path = write(root / pacs)
    assert find(checkpoint=pacs).checkpoint == path
    # A download is asked for where it is allowed, of a name without a folder.
    asked = []
    monkeypatch.setattr(
        clip, "download_weights", lambda model, tag: asked.append((model, tag)) or path
    )
    assert refused(checkpoint="openai") == needs.format("openai", tag)
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "1")
    assert find(checkpoint="openai").checkpoint == path
    assert find().checkpoint == path
    assert asked == [(MODEL, "openai")] * 2
    assert refused("RN50").startswith("metric clipscore needs the weights of RN50")
    write(root / "mine" / clip.CONFIG, config(quick_gelu=True))
    assert refused("mine", "openai") == needs.format("openai", tag)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("model", "name", "quick", "remedy"),
    [
        ("ViT-B-32", "openai.pt", None, "model=ViT-B-32-quickgelu"),
        ("ViT-B-32", "x.openAI/w.pt", None, "model=ViT-B-32-quickgelu"),
        ("ViT-B-32", "models--openai/a/w.pt", None, "model=ViT-B-32-quickgelu"),
        ("ViT-B-32", "openai/a/w.pt", None, None),
        ("ViT-B-32", "w.pt", None, None),
        ("quick", "openai.pt", None, None),
        ("ViT-B-32-QuickGELU", "openai.pt", None, None),
        ("mine", "openai.pt", False, '"quick_gelu": true in {}/open_clip_config.json'),
        ("mine", "openai.pt", True, None),
        ("mine", "w.pt", False, None),
    ],
)
def test_openais_weights_need_quick_gelu(model, name, quick, remedy, root):
    path = write(root / "files" / name)
    if quick is not None:
        write(root / model / clip.CONFIG, config(quick_gelu=quick))
    if remedy is None:
        assert find(model, str(path)).checkpoint == path
    else:
        with says(
            f"metric clipscore: {path.name} is OpenAI's, trained with QuickGELU, and {model} has another "
            f"activation; use {remedy.format(root / model)}"
        ):
            find(model, str(path))


def test_a_folder_of_a_quickgelu_model_says_so(root):
    write(root / MODEL / clip.NAMES[0])
    write(root / MODEL / clip.CONFIG, config())
    with says(
        f"{root / MODEL}/open_clip_config.json: quick_gelu is not true, but the model is {MODEL}"
    ):
        find()
    write(root / MODEL / clip.CONFIG, config(quick_gelu=True))
    assert find().folder == root / MODEL


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"model_cfg": {"text_cfg": {}}}', '{"model_cfg": 1}']
)
def test_a_description_that_is_none_is_said(content, root):
    write(root / clip.CONFIG, content)
    with says(f"{root}/open_clip_config.json: no description of an open_clip model ("):
        clip.read_model_config(root)
    write(root / clip.CONFIG, config(a=1))
    assert clip.read_model_config(root) == config(a=1)


@pytest.mark.parametrize(
    ("precision", "device", "half", "expected"),
    [
        ("auto", "cuda", True, "fp16"),
        ("auto", "cuda", False, "fp32"),
        ("auto", "cpu", True, "fp32"),
        ("fp16", "cpu", False, "fp16"),
        ("fp32", "cuda", True, "fp32"),
    ],
)
def test_auto_precision_is_what_the_authors_computed_with(precision, device, half, expected, root):
    assert clip.precision_on(precision, device, half) == expected
    kind = clipscore.ClipScore if half else clipscore.PacS
    found = kind(checkpoint=None, device=device, precision=precision).programs
    assert found == ("weights:missing", f"on:{device}", f"precision:{expected}")


def test_a_signature_has_all_that_features_depend_on(root, monkeypatch):
    monkeypatch.setattr(clip, "version_of", lambda name: f"v-{name}")
    path = write(root / f"{MODEL}.pt")
    end = "fp32:cpu|torch:v-torch|open_clip_torch:v-open_clip_torch"
    assert find().signature == f"{hash_of([path])}|arch:{MODEL}|{end}"
    found = clipscore.ClipScore(device="cpu").programs
    assert found[0] == f"weights:{hash_of([path])}|{hash_of([])}"
    description = write(root / "mine" / clip.CONFIG, config(quick_gelu=True))
    path = write(root / "mine" / clip.NAMES[0])
    text = json.dumps(config(quick_gelu=True), sort_keys=True)
    assert find("mine").signature == f"{hash_of([path])}|{text}|{end}"
    found = clipscore.ClipScore(model="mine", device="cpu").programs
    assert found[0] == f"weights:{hash_of([path])}|{hash_of([description])}"


def test_errors_of_open_clip_are_one_line(monkeypatch):
    def create_model(name, *, load_weights, precision, pretrained_text):
        assert (load_weights, precision, pretrained_text) == (False, "fp32", False)
        raise KeyError("x" * 300 + "\nmore")

    def fetch(pretrained):
        raise OSError("y" * 201 + "\nmore")

    stand_in(
        monkeypatch,
        "open_clip",
        list_models=lambda: ["known"],
        create_model=create_model,
        get_pretrained_cfg=lambda model, tag: {"url": "u"} if tag == "known" else {},
        download_pretrained=fetch,
    )
    of_name = clip.Clip("m", "known", None, Path("w.pt"), "cpu", "fp32", 1)
    with raises_exactly(f"known: open_clip cannot build the model ('{'x' * 199})"):
        clip.LoadedClip(of_name)
    with says("local-dir:folder: open_clip cannot build the model ("):
        clip.LoadedClip(dataclasses.replace(of_name, model="any", folder=Path("folder")))
    with says("unknown open_clip model 'any'"):
        clip.LoadedClip(dataclasses.replace(of_name, model="any"))
    assert clip.download_weights("m", "unknown") is None
    with raises_exactly(f"the weights 'known' of m could not be fetched ({'y' * 200})"):
        clip.download_weights("m", "known")
