"""UNITER as a rater: checkpoints, word pieces, and pairs of images and captions in batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ....datasets.errors import InputError
from ....datasets.files import read_text
from ...base import Floats
from ...neural.device import batches
from ...neural.weights import load_checkpoint
from ...progress import progress_counter
from ..common.weights import card_of, save_tensors
from .regions import Regions, Seen

if TYPE_CHECKING:
    from torch import Tensor

    from ._uniter_network import Uniter

#: UMIC's head, or UNITER's own (image-text matching).
Head = Literal["rank", "itm"]
HEADS: dict[Head, str] = {"rank": "rank_output", "itm": "itm_output"}
#: Tensors that take no part in rating: heads and masks of pretraining and of other tasks.
_SPARE = re.compile(
    r"(cls|feat_regress|region_classifier|vqa_output|nlvr2_output|attn_pool)\.|.*\.mask_embedding\."
)
#: What a body's tensors are called by UNITER, by BERT and by a body alone.
_BODIES = ("uniter.", "bert.", "")
#: Pairs whose features are in memory at once.
CHUNK = 256


def load_uniter(
    path: Path, head: Head | None, heads: int | None = None, dropout: float = 0.0
) -> Uniter:
    """A network from a checkpoint of UNITER or UMIC, ready to rate. Sizes are read off the tensors.

    Args:
        path: safetensors, or what torch saved and can load with `weights_only`.
        head: which head has to be there. None is for training: UMIC's if it is there, else made from
            UNITER's, of which it becomes the logit of a match.
        heads: attention heads, where they are not one for each 64 dimensions.
        dropout: for training.

    Raises:
        InputError: where it is no checkpoint, lacks the head, or is of another architecture: with keys
            and shapes.
    """
    import torch

    from ._uniter_network import INNER, POSITIONS, REGIONS, WORDS, Uniter, shape_of

    table = _renamed(load_checkpoint(path))
    tell = (WORDS, POSITIONS, REGIONS, INNER)
    if lacking := [k for k in tell if k not in table or table[k].ndim != 2]:
        holds = ", ".join(f"{k} {tuple(v.shape)}" for k, v in list(table.items())[:3])
        raise InputError(
            f"{path}: not a checkpoint of UNITER: no {', no '.join(lacking)}; it holds {len(table)} "
            f"tensors such as {holds}"
        )
    shape = shape_of(table, heads or _heads_of(path))
    if not shape.heads or shape.hidden % shape.heads:
        raise InputError(
            f"{path}: {shape.hidden} dimensions are no whole number of attention heads of 64; say how "
            f"many there are"
        )
    there: list[Head] = [h for h, name in HEADS.items() if f"{name}.weight" in table]
    if head not in (*there, None):
        raise InputError(
            f"{path}: no head {HEADS[head]}"
            + ("; a checkpoint of UNITER? metric umic_c rates with it" if head == "rank" else "")
        )
    with torch.random.fork_rng(devices=[]):  # its fresh weights are drawn for nothing
        network = Uniter(shape, dropout)
    needed: list[Head] = [head] if head else there
    wanted = {
        k: tuple(v.shape)
        for k, v in network.state_dict().items()
        if k.startswith(("uniter.", *(HEADS[h] for h in needed)))
    }
    _check(path, wanted, table)
    for module in (network.rank_output, network.itm_output):
        torch.nn.init.zeros_(module.weight)
        torch.nn.init.zeros_(module.bias)
    network.load_state_dict({k: table[k] for k in wanted}, strict=False)
    if head is None and "rank" not in there:
        network.start_ranking()
    return network.eval()


def _renamed(table: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Under the names of `Uniter`, without what is spare."""
    body = next((b for b in _BODIES if f"{b}embeddings.word_embeddings.weight" in table), "uniter.")
    heads = tuple(HEADS.values())
    found: dict[str, Tensor] = {}
    for key, value in table.items():
        key = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", key))
        if _SPARE.match(key):
            continue
        if not key.startswith(heads) and key.startswith(body):
            key = f"uniter.{key.removeprefix(body)}"
        found[key] = value
    return found


def _check(path: Path, wanted: Mapping[str, tuple[int, ...]], table: Mapping[str, Tensor]) -> None:
    """That tensors fill a network; whatever does not fit is named with its shape."""
    heads = tuple(HEADS.values())
    misfits = [
        *(f"{k} {shape} is lacking" for k, shape in wanted.items() if k not in table),
        *(
            f"{k} is {tuple(table[k].shape)}, not {shape}"
            for k, shape in wanted.items()
            if k in table and tuple(table[k].shape) != shape
        ),
        *(
            f"{k} {tuple(v.shape)} is unknown"
            for k, v in table.items()
            if k not in wanted and not k.startswith(heads)
        ),
    ]
    if misfits:
        more = f", and {len(misfits) - 6} more" if len(misfits) > 6 else ""
        raise InputError(
            f"{path}: {len(misfits)} tensors do not fit UNITER: {'; '.join(misfits[:6])}{more}"
        )


def _heads_of(path: Path) -> int | None:
    """Attention heads as a checkpoint of `save_uniter` says."""
    if path.suffix != ".safetensors":
        return None
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        said = card_of(file.metadata()).get("heads", "")
    return int(said) if said.isdecimal() else None


def save_uniter(network: Uniter, path: Path) -> None:
    """Write a network as safetensors, under the authors' names; the heads stand in the metadata."""
    save_tensors(path, network.state_dict(), {"heads": str(network.shape.heads)})


def vocabulary_of(path: Path) -> list[str]:
    """Word pieces, one a line.

    Raises:
        InputError: where a piece is lacking that every text needs.
    """
    pieces = read_text(path).removesuffix("\n").split("\n")
    if missing := {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}.difference(pieces):
        raise InputError(f"{path}: no {min(missing)}; a BERT vocabulary (vocab.txt) is expected")
    return pieces


class WordPieces:
    """Texts as numbers of word pieces, [CLS] before and [SEP] behind them, as the authors have them.

    Words are parted at blanks and punctuation and keep their case and accents (bert-base-cased).

    Args:
        pieces: as `vocabulary_of` reads them.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        from tokenizers import BertWordPieceTokenizer

        numbers = {piece: i for i, piece in enumerate(pieces)}
        self._size = len(pieces)
        self._ends = numbers["[CLS]"], numbers["[SEP]"]
        self._tokenizer: Any = BertWordPieceTokenizer(
            numbers, lowercase=False, strip_accents=False, clean_text=True
        )

    def __len__(self) -> int:
        return self._size

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of each text's word pieces, [CLS] and [SEP] among them."""
        # The authors part words at Python's blanks before BERT's rules apply.
        plain = [" ".join(text.split()) for text in texts]
        first, last = self._ends
        found: Any = self._tokenizer.encode_batch(plain, add_special_tokens=False)
        return [[first, *one.ids, last] for one in found]


def fitting(texts: Sequence[list[int]], positions: int) -> tuple[list[list[int]], int]:
    """Texts cut to as many word pieces as a network has positions, and how many were cut."""
    long = sum(len(ids) > positions for ids in texts)
    return [
        ids if len(ids) <= positions else [*ids[: positions - 1], ids[-1]] for ids in texts
    ], long


def collate(
    texts: Sequence[Sequence[int]], images: Sequence[Seen], device: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What `Uniter` takes, of pairs of a text and an image, padded to the longest of each."""
    import torch

    words, counts = [len(text) for text in texts], [len(image) for image in images]
    ids = np.zeros((len(texts), max(words)), dtype=np.int64)
    width = images[0].features.shape[1]
    features = np.zeros((len(texts), max(counts), width), dtype=np.float32)
    places = np.zeros((len(texts), max(counts), images[0].places.shape[1]), dtype=np.float32)
    for i, (text, image) in enumerate(zip(texts, images, strict=True)):
        ids[i, : len(text)] = text
        features[i, : len(image)] = image.features
        places[i, : len(image)] = image.places
    arrays = (ids, np.array(words), features, places, np.array(counts))
    a, b, c, d, e = (torch.from_numpy(array).to(device) for array in arrays)
    return a, b, c, d, e


def rate(
    network: Uniter,
    texts: Sequence[Sequence[int]],
    image_ids: Sequence[str],
    regions: Regions,
    *,
    head: Head,
    batch_size: int,
    metric: str,
    remark: Callable[[str], None],
) -> Floats:
    """Scores of pairs of a text and an image, shape (n,), from 0 to 1.

    Args:
        texts: numbers of word pieces, none longer than the network has positions.
        image_ids: the image of each text.
        batch_size: pairs at a time.
        metric: whose name messages bear.
        remark: told what belongs below the table.

    Raises:
        InputError: where an image has no features, or features of another dimension than the
            network's; or a score is not finite.
    """
    import torch

    from ._uniter_network import logit

    device = str(next(network.parameters()).device)
    logits = np.empty(len(texts))
    # An image's captions are rated together, so that its features are read once.
    order = sorted(range(len(texts)), key=lambda i: image_ids[i])
    with progress_counter(f"{metric}: captions", len(texts)) as advance:
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            seen = {i: regions[i] for i in dict.fromkeys(image_ids[j] for j in chunk)}
            for image_id, one in seen.items():
                if one.features.shape[1] != network.shape.features:
                    raise InputError(
                        f"{regions.folder}: the regions of image '{image_id}' have "
                        f"{one.features.shape[1]} numbers, but the checkpoint of metric {metric} reads "
                        f"{network.shape.features}; features of another detector?"
                    )
            length = {j: len(texts[j]) + len(seen[image_ids[j]]) for j in chunk}

            def run(batch: Sequence[int], seen: dict[str, Seen] = seen) -> Floats:
                pairs = collate(
                    [texts[j] for j in batch], [seen[image_ids[j]] for j in batch], device
                )
                with torch.inference_mode():
                    return logit(network, network(*pairs), head).double().cpu().numpy()

            for batch, found in batches(
                sorted(chunk, key=lambda j: -length[j]), batch_size, run, remark
            ):
                logits[list(batch)] = found
                advance(len(batch))
    if not np.isfinite(logits).all():
        i = int(np.argmin(np.isfinite(logits)))
        raise InputError(
            f"metric {metric}: the checkpoint gives a number that is not finite for a caption of image "
            f"'{image_ids[i]}'"
        )
    # In double precision, as the authors do: good captions would be equal in single.
    return 1 / (1 + np.exp(-logits))
