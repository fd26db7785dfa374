"""CLIP's weights are found and described, and scores of the family by hand: without open_clip."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from captau.metrics import base
from captau.metrics.base import UnavailableError
from captau.metrics.neural import clip, clipscore
from captau.metrics.neural.models import hash_of
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import says

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
    monkeypatch.setattr(clip, "_download", lambda model, tag: asked.append((model, tag)) or path)
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
        clip._config(root)
    write(root / clip.CONFIG, config(a=1))
    assert clip._config(root) == config(a=1)


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
    found = clip.programs("m", MODEL, None, device, precision, half)
    assert found == ("weights:missing", f"on:{device}", f"precision:{expected}")


def test_a_signature_has_all_that_features_depend_on(root, monkeypatch):
    monkeypatch.setattr(clip, "version_of", lambda name: f"v-{name}")
    path = write(root / f"{MODEL}.pt")
    end = "fp32:cpu|torch:v-torch|open_clip_torch:v-open_clip_torch"
    assert find().signature == f"{hash_of([path])}|arch:{MODEL}|{end}"
    found = clip.programs("m", MODEL, None, "cpu", "auto", True)
    assert found[0] == f"weights:{hash_of([path])}|{hash_of([])}"
    description = write(root / "mine" / clip.CONFIG, config(quick_gelu=True))
    path = write(root / "mine" / clip.NAMES[0])
    text = json.dumps(config(quick_gelu=True), sort_keys=True)
    assert find("mine").signature == f"{hash_of([path])}|{text}|{end}"
    found = clip.programs("m", "mine", None, "cpu", "auto", True)
    assert found[0] == f"weights:{hash_of([path])}|{hash_of([description])}"


@pytest.mark.parametrize(("precision", "end"), [("fp16", "; try precision=fp32"), ("fp32", "")])
def test_features_that_are_not_finite_name_what_they_are_of(precision, end):
    one = clip.Clip("m", MODEL, None, Path("w.pt"), "cpu", precision, 64)
    one._check_finite([np.ones(2)], ["'a'"])
    with pytest.raises(clip.InputError) as error:
        one._check_finite([np.ones(2), np.array([1, math.inf])], ["'a'", "'b'"])
    assert str(error.value) == f"metric m: w.pt gives numbers that are not finite for 'b'{end}"


# Scores

AXES = {"dog": (1, 0), "cat": (0, 1), "not": (-1, 0), "both": (3, 4)}


class FakeClip:
    """Texts are the mean of their words' axes, of which two fit; images are named by a word."""

    note = ""

    def texts(self, texts, remark):
        rows = []
        for text in texts:
            start, words = text[:16], text[16:].split()
            assert start == "A photo depicts "
            rows.append([*np.mean([AXES[w] for w in words[:2]], axis=0) * 2, len(words) > 2])
        return np.array(rows, float)

    def fits(self, text):
        return len(text[16:].split()) <= 2

    def images(self, paths, remark):
        assert len(set(paths)) == len(paths)
        return np.array([AXES[Path(path).stem] for path in paths], float)


ROWS = [
    {"caption": "both", "references": ["dog", "cat"], "image": "dog.png"},
    {"caption": "dog", "references": ["not"], "image": "not.png"},
    {"caption": "cat", "references": ["cat", "dog"], "image": "both.png"},
    {"caption": "dog", "references": ["cat"], "image": "dog.png"},
    {"caption": "dog dog cat", "references": ["cat"], "image": "cat.png"},
]


def harmonic(a, b):
    return 2 * a * b / (a + b)


@pytest.mark.parametrize(
    ("spec", "expected", "last"),
    [
        ("clipscore", [1.5, 0, 2.0, 2.5, 0], 2.5),
        ("refonlyclipscore", [0.8, 0, 1, 0, 0], 1),
        ("refclipscore", [harmonic(1.5, 0.8), 0, harmonic(2, 1), 0, 0], harmonic(2.5, 1)),
        ("pac_s", [1.2, 0, 1.6, 2, 0], 2),
        ("refpac_s", [harmonic(1.2, 0.8), 0, harmonic(1.6, 1), 0, 0], harmonic(2, 1)),
    ],
)
def test_the_family_by_hand(spec, expected, last, monkeypatch):
    """Cosines of captions and images: 0.6, -1, 0.8, 1; of "dog dog cat" the last word is cut, or a piece."""
    monkeypatch.setattr(base, "find_spec", lambda name: True)
    monkeypatch.setattr(clipscore, "CHUNK", 2)
    monkeypatch.setattr(clipscore._ClipMetric, "_clip", lambda self: FakeClip())
    monkeypatch.setattr(clipscore._ClipMetric, "programs", ())
    rows = Rows.from_items(ROWS)
    chosen = metric(spec)
    assert chosen.compute(rows) == pytest.approx(expected)
    cut = "1 texts are longer than the model's context and were cut short"
    assert rows.remarks == {chosen.spec: [cut]}
    split = metric(f"{spec}(long=split_max)")
    monkeypatch.setattr(FakeClip, "note", "random")
    assert split.compute(rows) == pytest.approx([*expected[:4], last])
    assert rows.remarks[split.spec] == [
        "random",
        "1 texts are longer than the model's context and were split into 2 pieces (long=split_max)",
    ]


def test_the_model_is_asked_for_at_the_precision_of_the_authors(root, monkeypatch):
    monkeypatch.setattr(clipscore, "resolve", lambda device: "cuda")
    path = write(root / f"{MODEL}.pt")
    one = metric("clipscore(batch_size=3)")
    assert one._clip() == clip.Clip(one.spec, MODEL, None, path, "cuda", "fp16", 3)
    write(root / "clip_ViT-B-32.pth")
    assert metric("pac_s")._clip().precision == "fp32"


def test_texts_that_were_cut_short_have_more_tokens_than_the_context():
    loaded = object.__new__(clip._Loaded)
    loaded.tokenizer = SimpleNamespace(encode=lambda text: text.split())
    assert loaded._padding == 0
    assert loaded._length("a b c") == 5
    loaded.tokenizer = SimpleNamespace(tokenizer=lambda text: {"input_ids": text.split()})
    assert loaded._length("a b c") == 3
    loaded.tokenizer = SimpleNamespace(tokenizer=SimpleNamespace(pad_token_id=7))
    assert loaded._padding == 7
