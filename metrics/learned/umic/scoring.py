"""Scores of pairs of a caption and an image: word pieces, batches, and the run through UNITER."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....datasets.errors import InputError
from ....datasets.reading.json_files import read_text
from ...base import Floats
from ...neural.models import batches
from ...progress import progress_counter
from .checkpoints import Head
from .regions import ImageRegions, Regions

if TYPE_CHECKING:
    from torch import Tensor

    from ._uniter_network import Uniter

#: Pairs whose features are in memory at once.
CHUNK = 256


def read_vocabulary(path: Path) -> list[str]:
    """Read word pieces, one a line.

    Raises:
        InputError: if a piece is missing that every text needs.
    """
    pieces = read_text(path).removesuffix("\n").split("\n")
    if missing := {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}.difference(pieces):
        raise InputError(f"{path}: no {min(missing)}; a BERT vocabulary (vocab.txt) is expected")
    return pieces


class WordPieces:
    """The authors' tokeniser: texts as ids of word pieces, between [CLS] and [SEP].

    Texts are split at blanks and punctuation and keep their case and accents (bert-base-cased).

    Args:
        pieces: as `read_vocabulary` reads them.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        from tokenizers import BertWordPieceTokenizer

        ids = {piece: i for i, piece in enumerate(pieces)}
        self._ends = ids["[CLS]"], ids["[SEP]"]
        self._tokenizer: Any = BertWordPieceTokenizer(
            ids, lowercase=False, strip_accents=False, clean_text=True
        )

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text's word pieces, with [CLS] and [SEP]."""
        # The authors split words at Python's blanks before BERT's rules apply.
        normalised = [" ".join(text.split()) for text in texts]
        first, last = self._ends
        encodings: Any = self._tokenizer.encode_batch(normalised, add_special_tokens=False)
        return [[first, *encoding.ids, last] for encoding in encodings]


def truncate(texts: Sequence[list[int]], positions: int) -> tuple[list[list[int]], int]:
    """Return texts cut to a network's positions, keeping the last id, and the number of texts cut."""
    n_cut = sum(len(ids) > positions for ids in texts)
    return [
        ids if len(ids) <= positions else [*ids[: positions - 1], ids[-1]] for ids in texts
    ], n_cut


def collate(
    texts: Sequence[Sequence[int]], images: Sequence[ImageRegions], device: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the arguments of `Uniter` for pairs of a text and an image, padded to the longest."""
    import torch

    text_lengths, region_counts = [len(text) for text in texts], [len(image) for image in images]
    ids = np.zeros((len(texts), max(text_lengths)), dtype=np.int64)
    width, box_width = images[0].features.shape[1], images[0].boxes.shape[1]
    features = np.zeros((len(texts), max(region_counts), width), dtype=np.float32)
    boxes = np.zeros((len(texts), max(region_counts), box_width), dtype=np.float32)
    for i, (text, image) in enumerate(zip(texts, images, strict=True)):
        ids[i, : len(text)] = text
        features[i, : len(image)] = image.features
        boxes[i, : len(image)] = image.boxes
    arrays = (ids, np.array(text_lengths), features, boxes, np.array(region_counts))
    a, b, c, d, e = (torch.from_numpy(array).to(device) for array in arrays)
    return a, b, c, d, e


def score_pairs(
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
    """Score pairs of a text and an image, shape (n,), from 0 to 1.

    Args:
        texts: ids of word pieces, at most as many as the network has positions.
        image_ids: the image of each text.
        batch_size: pairs in a batch.
        metric: its name, for messages.
        remark: called with a sentence for the notes below the table.

    Raises:
        InputError: if an image has no features, or features of another dimension than the network's;
            or a score is not finite.
    """
    import torch

    from ._uniter_network import compute_logit

    device = str(next(network.parameters()).device)
    logits = np.empty(len(texts))
    with progress_counter(f"{metric}: captions", len(texts)) as advance:
        for rows, images in _read_chunks(image_ids, regions, network.sizes.features, metric):

            def run(batch: Sequence[int], images: Mapping[str, ImageRegions] = images) -> Floats:
                batch_images = [images[image_ids[j]] for j in batch]
                pairs = collate([texts[j] for j in batch], batch_images, device)
                with torch.inference_mode():
                    return compute_logit(network, network(*pairs), head).double().cpu().numpy()

            lengths = {j: len(texts[j]) + len(images[image_ids[j]]) for j in rows}
            longest_first = sorted(rows, key=lambda j: -lengths[j])
            for batch, batch_logits in batches(longest_first, batch_size, run, remark):
                logits[list(batch)] = batch_logits
                advance(len(batch))
    if not np.isfinite(logits).all():
        i = int(np.argmin(np.isfinite(logits)))
        raise InputError(
            f"metric {metric}: the checkpoint gives a number that is not finite for a caption of image "
            f"'{image_ids[i]}'"
        )
    # In double precision, as the authors do: good captions would be equal in single.
    return 1 / (1 + np.exp(-logits))


def _read_chunks(
    image_ids: Sequence[str], regions: Regions, width: int, metric: str
) -> Iterator[tuple[list[int], dict[str, ImageRegions]]]:
    """Yield rows, an image's together, and the regions of their images, which are read once.

    Raises:
        InputError: if an image has no features, or they are not `width` wide.
    """
    order = sorted(range(len(image_ids)), key=lambda i: image_ids[i])
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        images = {i: regions[i] for i in dict.fromkeys(image_ids[j] for j in rows)}
        for image_id, image in images.items():
            if image.features.shape[1] != width:
                raise InputError(
                    f"{regions.folder}: the regions of image '{image_id}' have "
                    f"{image.features.shape[1]} numbers, but the checkpoint of metric {metric} reads "
                    f"{width}; features of another detector?"
                )
        yield rows, images
