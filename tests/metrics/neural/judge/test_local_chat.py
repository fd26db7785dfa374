"""The judge with a local model: a tiny one that gives the probabilities of the worked example."""

from __future__ import annotations

import dataclasses
import math
import shutil
import sys
from types import SimpleNamespace

import pytest
from PIL import Image

from captau.metrics.neural.judge.metric import MllmJudge
from tests.conftest import says
from tests.metrics.neural.judge.judge_stub import cache, kept, rows

__all__ = ["cache"]  # the fixture

pytestmark = pytest.mark.neural

#: Characters, and what follows each of them with which probability; the model knows no more.
FOLLOWS = {
    ":": {"0": 1.0},
    "0": {".": 1.0},
    ".": {"8": 0.5, "9": 0.3, "7": 0.1, "a": 0.1},
    "8": {"5": 0.6, "0": 0.4},
    "5": {"</s>": 1.0},
}
CHARACTERS = ["</s>", "<unk>", "<image>", *":.0123456789abcdefghijklmnopqrstuvwxyz "]


def save_tokenizer(folder):
    """One token a character."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({c: i for i, c in enumerate(CHARACTERS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="</s>",
        extra_special_tokens={"image_token": "<image>"},
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def text_config():
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=len(CHARACTERS),
        hidden_size=len(CHARACTERS) + len(CHARACTERS) % 2,
        intermediate_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )


def rig(embedding, layer, head):
    """Make a Llama of one layer pass each character on as it is, to be followed as `FOLLOWS` says."""
    import torch

    with torch.no_grad():
        embedding.weight.copy_(torch.eye(*embedding.weight.shape))
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        head.weight.fill_(0)
        for one, likely in FOLLOWS.items():
            column = torch.full((len(CHARACTERS),), -100.0)
            for other, p in likely.items():
                column[CHARACTERS.index(other)] = math.log(p)
            # The norm before the head makes a one out of n into √n.
            head.weight[:, CHARACTERS.index(one)] = column / embedding.weight.shape[1] ** 0.5


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    import transformers

    folder = tmp_path_factory.mktemp("model")
    save_tokenizer(folder)
    model = transformers.LlamaForCausalLM(text_config())
    rig(model.model.embed_tokens, model.model.layers[0], model.lm_head)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def multimodal_model(tmp_path_factory):
    """LLaVA's architecture, which FLEUR uses; what it says does not depend on the picture."""
    import transformers

    folder = tmp_path_factory.mktemp("model")
    vision = transformers.CLIPVisionConfig(
        hidden_size=4,
        intermediate_size=4,
        num_hidden_layers=2,
        num_attention_heads=1,
        image_size=8,
        patch_size=4,
    )
    model = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            vision_config=vision,
            text_config=text_config(),
            image_token_index=CHARACTERS.index("<image>"),
        )
    )
    rig(
        model.model.language_model.embed_tokens,
        model.model.language_model.layers[0],
        model.lm_head,
    )
    model.save_pretrained(folder)
    sizes = {"size": {"shortest_edge": 8}, "crop_size": {"height": 8, "width": 8}}
    transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(**sizes),
        tokenizer=save_tokenizer(folder),
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<image>"
            "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}"
        ),
    ).save_pretrained(folder)
    return str(folder)


def test_a_local_language_model(language_model, cache):
    """The worked example above, from a model that gives those very probabilities."""
    one = MllmJudge(language_model, preset="references", device="cpu", backend="transformers")
    assert one.score(rows(2)) == pytest.approx([0.77, 0.77], abs=1e-5)
    assert len(kept(cache)) == 2
    assert one.score(rows(2)) == pytest.approx([0.77, 0.77], abs=1e-5)
    assert "weights:sha256-" in one.signature


def test_a_local_multimodal_model(multimodal_model, tmp_path):
    one = MllmJudge(multimodal_model, device="cpu", backend="transformers")
    Image.new("RGB", (9, 7), "red").save(tmp_path / "a.png")
    row = {**rows()[0], "image": str(tmp_path / "a.png")}
    assert one.score([row]) == pytest.approx([0.77], abs=1e-5)
    (tmp_path / "b.png").write_bytes(b"<html>")
    with says("x0: ", "b.png: not an image that can be read"):
        one.score([{**row, "image": str(tmp_path / "b.png")}])


def test_kept_answers_of_a_local_model_need_no_model(language_model, cache, monkeypatch):
    from captau.metrics.neural.judge.local_chat import LocalChat

    one = MllmJudge(language_model, preset="references", device="cpu", backend="transformers")
    first = one.score(rows())
    monkeypatch.setattr(LocalChat, "_loaded", property(lambda self: pytest.fail("it was loaded")))
    assert one.score(rows()) == first


def test_a_local_model_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    one = MllmJudge("absent", preset="references", device="cpu", backend="transformers")
    assert "needs the model 'absent', which is not here" in str(one.find_unavailability(rows()))
    assert "weights:missing" in one.signature
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "llama"}')
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with says("broken: the model cannot be loaded"):
        dataclasses.replace(one, model="broken").score(rows())


def test_a_local_model_that_lacks_weights(language_model, tmp_path):
    """What a checkpoint lacks would be drawn by lot, with no more than a warning."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(language_model, folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with says(str(folder), "1 parameters of the model are not in it: lm_head.weight"):
        MllmJudge(str(folder), preset="references", device="cpu", backend="transformers").score(
            rows()
        )


@pytest.mark.parametrize(
    ("images", "kinds"),
    [
        (False, ("AutoModelForCausalLM", "AutoTokenizer")),
        (True, ("AutoModelForImageTextToText", "AutoProcessor")),
    ],
)
@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("cuda", "auto")])
def test_a_model_is_loaded_from_its_folder_alone(
    images, kinds, device, dtype, tmp_path, monkeypatch
):
    """Nothing is fetched, whatever the folder lacks."""
    import torch

    from captau.metrics.neural.judge.local_chat import LocalChat

    asked = []

    class Model:
        def to(self, device):
            asked.append(device)
            return self

        def eval(self):
            return self

    model, loading = Model(), {"missing_keys": [], "unexpected_keys": []}

    def answer_with(value):
        return lambda *args, **options: asked.append((*args, options)) or value

    values = (model, loading), "processor"
    package = SimpleNamespace(
        **{
            k: SimpleNamespace(from_pretrained=answer_with(v))
            for k, v in zip(kinds, values, strict=True)
        }
    )
    monkeypatch.setitem(sys.modules, "transformers", package)
    assert LocalChat(tmp_path, device, 5, 5, images, None)._loaded == (model, "processor")
    options = {"dtype": getattr(torch, dtype, dtype), "output_loading_info": True}
    local = {"local_files_only": True}
    assert asked == [(tmp_path, {**options, **local}), (tmp_path, local), device]
