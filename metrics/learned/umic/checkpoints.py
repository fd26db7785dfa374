"""Checkpoints of UNITER and UMIC, the authors' and captau's own, as networks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ....datasets.errors import InputError
from ...neural.models import load_checkpoint
from ..common.weights import parse_card, save_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from ._uniter_network import Uniter

#: UMIC's head, or UNITER's own (image-text matching).
Head = Literal["rank", "itm"]
HEADS: dict[Head, str] = {"rank": "rank_output", "itm": "itm_output"}
#: Tensors on which no score depends: heads and masks of pretraining and of other tasks.
_UNUSED = re.compile(
    r"(cls|feat_regress|region_classifier|vqa_output|nlvr2_output|attn_pool)\.|.*\.mask_embedding\."
)
#: Prefixes of a body's tensors: UNITER's, BERT's, and none where a body is stored alone.
_BODY_PREFIXES = ("uniter.", "bert.", "")


def load_uniter(
    path: Path, head: Head | None, heads: int | None = None, dropout: float = 0.0
) -> Uniter:
    """Load a network from a checkpoint, in evaluation mode. Sizes are read off the tensors.

    Args:
        path: safetensors, or a file of torch that loads with `weights_only`.
        head: which head the checkpoint must have. None is for training: UMIC's if the checkpoint has
            it, else one made of UNITER's, from the logit of a match.
        heads: attention heads, where they are not one for each 64 dimensions.
        dropout: for training.

    Raises:
        InputError: if it is not a checkpoint, lacks the head, or is of another architecture: with keys
            and shapes.
    """
    import torch

    from ._uniter_network import INTERMEDIATE, POSITIONS, REGIONS, WORDS, Uniter, read_sizes

    tensors = _rename_tensors(load_checkpoint(path))
    matrices = (WORDS, POSITIONS, REGIONS, INTERMEDIATE)
    if missing := [k for k in matrices if k not in tensors or tensors[k].ndim != 2]:
        samples = ", ".join(f"{k} {tuple(v.shape)}" for k, v in list(tensors.items())[:3])
        raise InputError(
            f"{path}: not a checkpoint of UNITER: no {', no '.join(missing)}; it holds {len(tensors)} "
            f"tensors such as {samples}"
        )
    sizes = read_sizes(tensors, heads or _read_n_heads(path))
    if not sizes.heads or sizes.hidden % sizes.heads:
        raise InputError(
            f"{path}: {sizes.hidden} dimensions are not a whole number of attention heads of 64; set heads"
        )
    present: list[Head] = [h for h, name in HEADS.items() if f"{name}.weight" in tensors]
    if head not in (*present, None):
        raise InputError(
            f"{path}: no head {HEADS[head]}"
            + ("; a checkpoint of UNITER? metric umic_c rates with it" if head == "rank" else "")
        )
    with torch.random.fork_rng(devices=[]):  # the random weights are overwritten
        network = Uniter(sizes, dropout)
    required: list[Head] = [head] if head else present
    shapes = {
        k: tuple(v.shape)
        for k, v in network.state_dict().items()
        if k.startswith(("uniter.", *(HEADS[h] for h in required)))
    }
    _check_shapes(path, shapes, tensors)
    for module in (network.rank_output, network.itm_output):
        torch.nn.init.zeros_(module.weight)
        torch.nn.init.zeros_(module.bias)
    network.load_state_dict({k: tensors[k] for k in shapes}, strict=False)
    if head is None and "rank" not in present:
        network.start_ranking()
    return network.eval()


def _rename_tensors(table: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the names of `Uniter`, without unused ones."""
    word_embeddings = "embeddings.word_embeddings.weight"
    body = next((p for p in _BODY_PREFIXES if f"{p}{word_embeddings}" in table), "uniter.")
    heads = tuple(HEADS.values())
    tensors: dict[str, Tensor] = {}
    for key, value in table.items():
        key = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", key))
        if _UNUSED.match(key):
            continue
        if not key.startswith(heads) and key.startswith(body):
            key = f"uniter.{key.removeprefix(body)}"
        tensors[key] = value
    return tensors


def _check_shapes(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor]
) -> None:
    """Raise `InputError`, with names and shapes, if tensors do not fit a network."""
    heads = tuple(HEADS.values())
    misfits = [
        *(f"{k} {shape} is lacking" for k, shape in shapes.items() if k not in tensors),
        *(
            f"{k} is {tuple(tensors[k].shape)}, not {shape}"
            for k, shape in shapes.items()
            if k in tensors and tuple(tensors[k].shape) != shape
        ),
        *(
            f"{k} {tuple(v.shape)} is unknown"
            for k, v in tensors.items()
            if k not in shapes and not k.startswith(heads)
        ),
    ]
    if misfits:
        more = f", and {len(misfits) - 6} more" if len(misfits) > 6 else ""
        raise InputError(
            f"{path}: {len(misfits)} tensors do not fit UNITER: {'; '.join(misfits[:6])}{more}"
        )


def _read_n_heads(path: Path) -> int | None:
    """Read the number of attention heads from a file of `save_uniter`; None for other files."""
    if path.suffix != ".safetensors":
        return None
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        heads = parse_card(file.metadata()).get("heads", "")
    return int(heads) if heads.isdecimal() else None


def save_uniter(network: Uniter, path: Path) -> None:
    """Write a network as safetensors, with the authors' tensor names and its attention heads."""
    save_tensors(path, network.state_dict(), {"heads": str(network.sizes.heads)})
