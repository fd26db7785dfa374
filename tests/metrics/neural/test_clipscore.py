"""CLIPScore and its kin, against a plain loop written from the papers, on a tiny random model."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from captau.benchmarks.scoring.scorer import run_side_by_side
from captau.datasets.sources.demo import render
from captau.metrics.base import UnavailableError
from captau.metrics.neural import clip as clip_module
from captau.metrics.neural.store import FeatureStore
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, says, use_cores

pytestmark = pytest.mark.neural

FAMILY = ("clipscore", "refclipscore", "refonlyclipscore", "pac_s", "refpac_s")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for number in range(6):
        paths.append(str(folder / f"{number}.png"))
        render(f"demo_{number:03d}.png", size=40 + 8 * number).save(paths[-1])
    return paths


@pytest.fixture(scope="session")
def rows(pictures):
    found = [
        {
            "caption": caption,
            "references": [AWKWARD[(i + k + 1) % 10] for k in range(1 + i % 3)],
            "image": pictures[(i + shift) % 6],
        }
        for shift in (0, 2)
        for i, caption in enumerate(AWKWARD)
    ]
    return [*found, {**found[3], "caption": "a red square left of a blue star"}]


@pytest.fixture(scope="session")
def plain(tiny, rows):
    """Scores by the papers' formulas, one row at a time, with open_clip alone."""
    name = f"local-dir:{tiny / 'ViT-B-32-quickgelu'}"
    preprocess = open_clip.create_model_and_transforms(name)[2]
    tokenize = open_clip.get_tokenizer(name)

    def direction(vector):
        return (vector / vector.norm()).detach().double().numpy()[0]

    def scores(model, weight):
        out = {"image": [], "text": [], "both": []}
        with torch.no_grad():
            for row in rows:

                def text(t):
                    return direction(model.encode_text(tokenize([f"A photo depicts {t}"])))

                picture = preprocess(Image.open(row["image"]))[None]
                v, c = direction(model.encode_image(picture)), text(row["caption"])
                image = weight * max(c @ v, 0.0)
                reference = max(max(c @ text(r), 0.0) for r in row["references"])
                both = 0.0 if 0 in (image, reference) else 2 / (1 / image + 1 / reference)
                for key, value in (("image", image), ("text", reference), ("both", both)):
                    out[key].append(value)
        return out

    model = open_clip.create_model(name).eval()
    of_clip = scores(model, 2.5)
    table = torch.load(tiny / "clip_ViT-B-32.pth", weights_only=True)["state_dict"]
    model.load_state_dict(table)
    of_pac = scores(model, 2.0)
    return {
        "clipscore": of_clip["image"],
        "refclipscore": of_clip["both"],
        "refonlyclipscore": of_clip["text"],
        "pac_s": of_pac["image"],
        "refpac_s": of_pac["both"],
    }


@pytest.mark.parametrize("size", [1, 7, 256])
@pytest.mark.parametrize("name", FAMILY)
def test_equal_to_a_plain_loop_for_any_batch_size_and_order(weights, rows, plain, name, size):
    order = np.random.default_rng(size).permutation(len(rows))
    found = metric(f"{name}(batch_size={size})").score([rows[i] for i in order])
    np.testing.assert_allclose(found, np.array(plain[name])[order], atol=1e-6, rtol=0)


def test_the_plain_loop_sees_both_signs(plain):
    """Else neither the floor at 0 nor what is above it was tested."""
    assert min(plain["clipscore"]) == 0 < max(plain["clipscore"])
    assert min(plain["pac_s"]) == 0 < max(plain["pac_s"])
    assert any(0 < r < 1 for r in plain["refclipscore"])


def test_kin_that_run_side_by_side_share_one_pass(weights, rows, monkeypatch):
    """Threads that ask at the same moment: the second finds what the first encoded."""
    kept = []
    save = FeatureStore._save

    def count(self, keys, features):
        kept.extend((self.signature, key) for key in keys)
        return save(self, keys, features)

    monkeypatch.setattr(FeatureStore, "_save", count)
    use_cores(monkeypatch, 5)
    shared = Rows.from_items(rows)

    def do(one):
        one.score(shared)

    run_side_by_side(do, [metric(name) for name in FAMILY])
    assert kept
    assert len(kept) == len(set(kept))


def test_kin_share_one_pass_and_a_second_run_encodes_nothing(weights, rows, monkeypatch):
    calls = []
    for kind in ("encode_text", "encode_image"):
        true = getattr(open_clip.CLIP, kind)

        def count(self, batch, *rest, _true=true, _kind=kind, **more):
            calls.append((_kind, len(batch)))
            return _true(self, batch, *rest, **more)

        monkeypatch.setattr(open_clip.CLIP, kind, count)
    metric("refclipscore").score(rows)
    texts = {t for r in rows for t in (r["caption"], *r["references"])}
    assert sum(n for kind, n in calls if kind == "encode_text") == len(texts)
    assert sum(n for kind, n in calls if kind == "encode_image") == 6
    calls.clear()
    for name in ("clipscore", "refonlyclipscore", "refclipscore(batch_size=7)"):
        metric(name).score(rows)
    assert not calls


@pytest.mark.parametrize("policy", ["split_mean", "split_max"])
def test_a_long_caption_is_scored_by_its_sentences(tiny, weights, pictures, policy):
    """Equal to the formulas with open_clip alone, each sentence encoded by itself."""
    sentences = [("red square " * 30).strip() + ".", ("blue star " * 30).strip() + "."]
    reference = "a blue star"
    name = f"local-dir:{tiny / 'ViT-B-32-quickgelu'}"
    model, _, preprocess = open_clip.create_model_and_transforms(name)
    tokenize = open_clip.get_tokenizer(name)
    with torch.no_grad():

        def direct(text):
            vector = model.eval().encode_text(tokenize([f"A photo depicts {text}"]))
            return (vector / vector.norm()).detach().double().numpy()[0]

        image = model.encode_image(preprocess(Image.open(pictures[0]))[None])
    image = (image / image.norm()).double().numpy()[0]
    pieces = np.array([direct(sentence) for sentence in sentences])
    if policy == "split_mean":
        pieces = pieces.mean(axis=0, keepdims=True) / np.linalg.norm(pieces.mean(axis=0))
    by_image = 2.5 * max(0, (pieces @ image).max())
    by_text = max(0, (pieces @ direct(reference)).max())
    row = {"caption": " ".join(sentences), "references": [reference], "image": pictures[0]}
    scores = [metric(f"{m}(long={policy})").score([row])[0] for m in FAMILY[:3]]
    harmonic = 2 * by_image * by_text / (by_image + by_text) if by_image + by_text else 0
    np.testing.assert_allclose(scores, [by_image, harmonic, by_text], atol=1e-6)


def test_texts_that_were_cut_short_are_counted(weights, pictures):
    long = "word " * 200
    exact = "dog " * (77 - 2 - 3)  # with the three words of the prefix the context is just full
    rows = Rows.from_items(
        [{"caption": c, "image": pictures[0]} for c in (long, long, exact, "short")]
    )
    found = metric("clipscore").score(rows)
    assert (
        "1 text is longer than the model's context and was cut short" in (rows.remarks["clipscore"])
    )
    same = metric("clipscore").score([{"caption": long + "more", "image": pictures[0]}])
    assert found[0] == pytest.approx(same[0], abs=1e-7)


# Guards


def folder_of(tiny, target, **changes):
    """A copy of the tiny model, with another configuration."""
    shutil.copytree(tiny / "ViT-B-32-quickgelu", target)
    path = target / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["model_cfg"].update(changes)
    path.write_text(json.dumps(config))
    return target


def score(spec, picture):
    return metric(spec).score([{"caption": "a dog", "references": ["a cat"], "image": picture}])


def test_openai_weights_want_quickgelu(weights, tmp_path, pictures):
    file = tmp_path / "openai.safetensors"
    shutil.copy(weights / "ViT-B-32-quickgelu" / "open_clip_model.safetensors", file)
    with says("openai.safetensors is OpenAI's", "ViT-B-32", "use model=ViT-B-32-quickgelu"):
        score(f"clipscore(model=ViT-B-32,checkpoint={file})", pictures[0])
    other = folder_of(weights, tmp_path / "vit.openai", quick_gelu=False)
    with says("OpenAI's", '"quick_gelu": true', str(other)):
        score(f"clipscore(model={other})", pictures[0])
    named = folder_of(weights, tmp_path / "ViT-B-32-quickgelu", quick_gelu=False)
    with says("quick_gelu is not true", str(named)):
        score(f"clipscore(model={named})", pictures[0])


def test_a_checkpoint_fits_whole_or_not_at_all(weights, tmp_path, pictures):
    folder = weights / "ViT-B-32-quickgelu"
    table = load_file(folder / "open_clip_model.safetensors")

    def refused(name, changed, *parts):
        save_file(changed, tmp_path / name)
        with says(str(tmp_path / name), *parts):
            score(f"clipscore(checkpoint={tmp_path / name})", pictures[0])

    less = {k: v for k, v in table.items() if k not in ("ln_final.weight", "visual.proj")}
    refused("less.safetensors", less, "ln_final.weight: missing", "visual.proj: missing")
    more = {**table, "stranger": torch.zeros(1)}
    refused("more.safetensors", more, "stranger: (1,) where none is expected")
    other = {**table, "visual.proj": torch.zeros(3, 3)}
    refused("other.safetensors", other, "visual.proj: (3, 3)")


@pytest.mark.parametrize("layout", ["plain", "state_dict", "module", "both"])
def test_both_layouts_of_keys(weights, rows, plain, tmp_path, layout):
    table = torch.load(weights / "clip_ViT-B-32.pth", weights_only=True)["state_dict"]
    if layout in ("module", "both"):
        table = {f"module.{k}": v for k, v in table.items()}
    if layout in ("state_dict", "both"):
        table = {"state_dict": table, "epoch": 3}
    torch.save(table, tmp_path / "pac.pth")
    found = metric(f"pac_s(checkpoint={tmp_path / 'pac.pth'})").score(rows)
    np.testing.assert_allclose(found, plain["pac_s"], atol=1e-6, rtol=0)


class Harmful:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"<!DOCTYPE html><html>not found</html>", "a web page and not the weights"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
        (b"", "an empty file"),
        (b"\x08\0\0\0\0\0\0\0{}      " + b"\0" * 9, "not a checkpoint, or damaged"),
    ],
)
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_files_that_are_no_weights(weights, tmp_path, pictures, content, part, ending):
    path = tmp_path / f"w.{ending}"
    path.write_bytes(content)
    with says(str(path), part):
        score(f"clipscore(checkpoint={path})", pictures[0])


def test_nothing_is_unpickled(weights, tmp_path, pictures, capsys):
    torch.save({"state_dict": {"a": Harmful()}}, tmp_path / "w.pt")
    with says(str(tmp_path / "w.pt"), "holds more than tensors and is not unpickled"):
        score(f"clipscore(checkpoint={tmp_path / 'w.pt'})", pictures[0])
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(tmp_path / "jit.pt"))
    with says(str(tmp_path / "jit.pt"), "TorchScript", "safetensors"):
        score(f"clipscore(checkpoint={tmp_path / 'jit.pt'})", pictures[0])
    assert "must never run" not in capsys.readouterr().out


def test_nan_from_a_model_is_an_error(weights, tmp_path, pictures):
    folder = folder_of(weights, tmp_path / "nan")
    path = folder / "open_clip_model.safetensors"
    table = load_file(path)
    table["visual.proj"][0] = float("nan")
    save_file(table, path)
    with says("not finite", pictures[0], str(path)):
        score(f"clipscore(model={folder})", pictures[0])
    table["visual.proj"][0] = 0
    table["text_projection"][0] = float("nan")
    save_file(table, path)
    with says("not finite", "A photo depicts a dog"):
        score(f"clipscore(model={folder})", pictures[0])


@pytest.fixture
def encode_images_by(monkeypatch):
    """Return a function that puts another one in the place of the model's of images."""
    return lambda function: monkeypatch.setattr(open_clip.CLIP, "encode_image", function)


def test_full_memory_halves_the_batch(weights, rows, plain, encode_images_by):
    true = open_clip.CLIP.encode_image

    def limited(self, batch, *rest, **more):
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return true(self, batch, *rest, **more)

    encode_images_by(limited)
    given = Rows.from_items(rows)
    found = metric("clipscore").score(given)
    np.testing.assert_allclose(found, plain["clipscore"], atol=1e-6, rtol=0)
    assert "memory was full: batches of 1" in given.remarks["clipscore"] or (
        "memory was full: batches of 2" in given.remarks["clipscore"]
    )


def test_memory_that_does_not_hold_one(weights, pictures, encode_images_by):
    def full(*_, **__):
        raise torch.OutOfMemoryError("out of memory")

    encode_images_by(full)
    with says("a batch of one", "device=cpu"):
        score("clipscore", pictures[0])


def test_other_errors_of_a_model_are_not_taken_for_full_memory(weights, pictures, encode_images_by):
    def wrong(*_, **__):
        raise RuntimeError("shapes do not match")

    encode_images_by(wrong)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        score("clipscore", pictures[0])


def test_what_is_not_there(weights, tmp_path, pictures, monkeypatch):
    with says("no_such.png", "cannot be read"):
        score("clipscore", str(tmp_path / "no_such.png"))
    with says("needs the checkpoint 'x.pt'", str(weights)):
        score("clipscore(checkpoint=x.pt)", pictures[0])
    with says("unknown open_clip model 'ViT-B-33'", "ViT-B-32"):
        path = weights / "ViT-B-32-quickgelu" / "open_clip_model.safetensors"
        score(f"clipscore(model=ViT-B-33,checkpoint={path})", pictures[0])
    with says(str(tmp_path), "no open_clip_config.json"):
        score(f"clipscore(model={tmp_path})", pictures[0])
    if not torch.cuda.is_available():
        with says("device=cuda: torch finds none"):
            score("clipscore(device=cuda)", pictures[0])
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    with says("needs the weights of ViT-B-32-quickgelu", str(tmp_path), "hf download"):
        score("clipscore", pictures[0])
    with says("clip_ViT-B-32.pth", "github.com/aimagelab/pacscore"):
        score("pac_s", pictures[0])


def test_without_the_extra(weights, pictures, monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with says("pip install 'captau[neural]'", "open_clip"):
        score("clipscore", pictures[0])
    row = {"caption": "a dog", "image": pictures[0]}
    assert "open_clip" in str(metric("clipscore").find_unavailability([row]))


def test_missing_says_so_before_anything_is_loaded(weights, tmp_path, pictures, monkeypatch):
    def never(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(clip_module, "_load", never)
    row = {"caption": "a dog", "image": pictures[0]}
    assert metric("clipscore").find_unavailability([row]) is None
    assert "has none" in str(metric("clipscore").find_unavailability([{"caption": "a dog"}]))
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    assert "not here" in str(metric("clipscore").find_unavailability([row]))
    with pytest.raises(UnavailableError):
        metric("clipscore").score([row])


def test_the_weights_enter_the_signature_by_content(weights, tmp_path, monkeypatch):
    before = metric("clipscore").signature
    shutil.copytree(weights, tmp_path / "copy")
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path / "copy"))
    assert metric("clipscore").signature == before
    path = tmp_path / "copy" / "ViT-B-32-quickgelu" / "open_clip_model.safetensors"
    table = load_file(path)
    table["visual.proj"][0] += 1
    save_file(table, path)
    assert metric("clipscore").signature != before
    assert "|on:" in before
    assert "|precision:fp32" in before or torch.cuda.is_available()
