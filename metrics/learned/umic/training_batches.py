"""UMIC's training batches: pairs of captions and images, their negatives, masks, and the learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..common.captioned_images import CaptionedImages
from ..common.training import TrainingSession, clip_gradients, schedule_learning_rates
from .negatives import NegativeKind, Negatives, join_words
from .regions import Regions
from .scoring import WordPieces, collate, truncate

if TYPE_CHECKING:
    from ._uniter_network import Uniter

#: The authors' optimiser (ChenRocks/UNITER, config/train-itm-coco-base-16gpu-hn.json).
BETAS, WEIGHT_DECAY, GRADIENT_NORM = (0.9, 0.98), 0.01, 2.0
#: The share of the steps over which the learning rate rises.
WARMUP_SHARE = 0.1
#: BERT's share of word pieces to be guessed, and the piece in their place.
MASKED_SHARE = 0.15
MASK_PIECE = "[MASK]"


class Schedule:
    """AdamW as UNITER's authors set it: biases and norms do not decay, gradients are clipped, and the
    learning rate rises over the first tenth of the steps and falls to nothing over the others.

    Args:
        network: to be trained.
        rate: the greatest learning rate.
        steps: in all.
        steps_per_epoch: at most.
    """

    def __init__(self, network: Uniter, rate: float, steps: int, steps_per_epoch: int) -> None:
        import torch

        self.steps, self.steps_per_epoch = steps, steps_per_epoch
        self.epochs = math.ceil(steps / steps_per_epoch)
        decaying: list[Any] = []
        constant: list[Any] = []
        for name, parameter in network.named_parameters():
            is_constant = name.endswith("bias") or "norm" in name.lower()
            (constant if is_constant else decaying).append(parameter)
        groups = [
            {"params": decaying, "weight_decay": WEIGHT_DECAY},
            {"params": constant, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=rate, betas=BETAS)
        clip_gradients(self.optimizer, network, GRADIENT_NORM)

    def draw_rows(self, stage: str, epoch: int, table: PairTable, size: int) -> Iterator[list[int]]:
        """Yield rows for an epoch's steps, setting the learning rate before each."""
        first_step = epoch * self.steps_per_epoch
        n_steps = min(self.steps_per_epoch, self.steps - first_step)
        batches = table.draw_rows(stage, first_step, n_steps, size)
        return schedule_learning_rates(self.optimizer, batches, first_step, self._share)

    def _share(self, step: int) -> float:
        warmup = max(1.0, WARMUP_SHARE * self.steps)
        return min((step + 1) / warmup, (self.steps - step) / max(1.0, self.steps - warmup))


@dataclass(frozen=True)
class MatchingBatch:
    """A batch of pretraining.

    Attributes:
        pairs: the arguments of `Uniter`.
        matches: 1 for pairs of an image and its own caption, else 0, shape (n,).
        masked_words: ids of the words to be guessed, -1 for others, shape (n, longest); or None.
    """

    pairs: Any
    matches: Any
    masked_words: Any


class PairTable:
    """The pairs of captioned images, and batches of them with random negatives and masks.

    Args:
        captioned: the images.
        negatives: of their captions.
        regions: their features.
        pieces: the vocabulary.
        positions: the number of word pieces that the network reads of a text.
        kinds: of the negatives of a group.
        session: the seed, and whether pairs are shuffled as in a control.
    """

    def __init__(
        self,
        captioned: CaptionedImages,
        negatives: Negatives,
        regions: Regions,
        pieces: Sequence[str],
        positions: int,
        kinds: Sequence[NegativeKind],
        session: TrainingSession,
    ) -> None:
        self._pairs = [(i, caption) for i, captions in captioned.items() for caption in captions]
        self._negatives = negatives
        self._regions = regions
        self._tokenise = WordPieces(pieces)
        self._mask_id = pieces.index(MASK_PIECE) if MASK_PIECE in pieces else -1
        self._positions = positions
        self._kinds = kinds
        self._session = session

    def split_rows(self, size: int) -> list[list[int]]:
        """Return the rows of all pairs in order, `size` at a time."""
        rows = list(range(len(self._pairs)))
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    def draw_rows(
        self, stage: str, first_step: int, n_steps: int, size: int
    ) -> Iterator[list[int]]:
        """Yield rows for steps of a stage; every pair comes once before any comes again."""
        pass_number, order = -1, [0]
        for step in range(first_step, first_step + n_steps):
            rows: list[int] = []
            for index in range(step * size, (step + 1) * size):
                number, row = divmod(index, len(self._pairs))
                if number != pass_number:
                    rng = self._session.rng(stage, "order", number)
                    pass_number, order = number, rng.permutation(len(self._pairs)).tolist()
                rows.append(order[row])
            yield rows

    def make_groups(self, rng: np.random.Generator, rows: Sequence[int]) -> Any:
        """Return each caption followed by its negatives, as arguments of `Uniter`.

        In a control, a random caption of each group comes first.
        """
        texts: list[str] = []
        image_ids: list[str] = []
        for image_id, caption in (self._pairs[i] for i in rows):
            words = self._negatives.tagged_words(caption)
            group = [join_words(words)]
            group += [self._negatives.draw(rng, image_id, words, kind) for kind in self._kinds]
            if self._session.is_control:
                group = [group[int(i)] for i in rng.permutation(len(group))]
            texts += group
            image_ids += [image_id] * len(group)
        return self._collate(self._encode(texts), image_ids)

    def make_matching(
        self, rng: np.random.Generator, rows: Sequence[int], *, has_masks: bool
    ) -> MatchingBatch:
        """Return each image with its caption, some words masked, and with one that may be another's.

        In a control all images are permuted, so that neither words nor matches can be learned.
        """
        import torch

        texts: list[str] = []
        matches: list[int] = []
        for image_id, caption in (self._pairs[i] for i in rows):
            words = self._negatives.tagged_words(caption)
            is_match = rng.random() < 0.5
            negative = None if is_match else self._negatives.draw(rng, image_id, words, "random")
            texts += [caption, negative or join_words(words)]
            matches += [1, int(is_match)]
        ids = self._encode(texts)
        device = self._session.device
        masked_words = (
            torch.from_numpy(self._mask_words(rng, ids)).to(device) if has_masks else None
        )
        order = rng.permutation(len(rows)) if self._session.is_control else range(len(rows))
        image_ids = [self._pairs[rows[int(i)]][0] for i in order for _ in range(2)]
        target = torch.tensor(matches, device=device)
        return MatchingBatch(self._collate(ids, image_ids), target, masked_words)

    def _mask_words(self, rng: np.random.Generator, ids: list[list[int]]) -> NDArray[np.int_]:
        """Mask words of every other text, in place; return their ids, -1 for others."""
        masked_words = np.full((len(ids), max(map(len, ids))), -1)
        for i in range(0, len(ids), 2):
            inner = np.arange(1, len(ids[i]) - 1)
            for j in inner[rng.random(len(inner)) < MASKED_SHARE].tolist():
                masked_words[i, j], ids[i][j] = ids[i][j], self._mask_id
        return masked_words

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return truncate(self._tokenise(texts), self._positions)[0]

    def _collate(self, ids: Sequence[Sequence[int]], image_ids: Sequence[str]) -> Any:
        regions = {image_id: self._regions[image_id] for image_id in dict.fromkeys(image_ids)}
        return collate(ids, [regions[i] for i in image_ids], self._session.device)
