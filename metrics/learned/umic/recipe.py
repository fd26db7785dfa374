"""How UMIC is trained: contrastively, on captioned images without ratings (Lee et al. 2021, section 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...base import Floats, UnavailableError
from ...neural.device import resolve
from ...neural.weights import hash_of, local, need_extra
from ...rows import Rows
from ..common.captioned_images import Captioned, captioned
from ..common.features import image_ids
from ..common.recipe import Examples, Model, Recipe, register_recipe
from ..common.training import clip_gradients, schedule_learning_rates
from .negatives import KINDS, Kind, Negatives, nearest_images, text_of
from .regions import Regions, Seen, open_regions, regions_hash
from .uniter import (
    Head,
    WordPieces,
    collate,
    fitting,
    load_uniter,
    rate,
    save_uniter,
    vocabulary_of,
)

if TYPE_CHECKING:
    import torch

    from ..common.training import Session
    from ._uniter_network import Uniter

WEIGHTS = "model.safetensors"
VOCABULARY = "vocab.txt"
#: Of the authors' optimiser (ChenRocks/UNITER, config/train-itm-coco-base-16gpu-hn.json).
BETAS, DECAY, CLIP = (0.9, 0.98), 0.01, 2.0
#: The share of the steps over which the learning rate rises.
WARMING = 0.1
#: Captions at a time where none learns.
_BATCH = 64
#: BERT's share of word pieces to be guessed, and what stands in their place.
_GUESSED = 0.15
_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MASK = _PIECES.index("[MASK]")


@register_recipe("umic")
@dataclass(frozen=True)
class UmicRecipe(Recipe):
    """max(0, M − (s⁺ − s⁻)), a caption against its negatives, s the sigmoid of the rank logit.

    Args:
        regions: a folder of region features (`regions.py`), or `demo`.
        captions: captioned images to learn from: `references`, a file, or `demo` (`captioned.py`).
        init: a checkpoint of UNITER to start from, by its path or its name in the weights folder. With
            None a small network of the sizes below is trained first, by two of UNITER's own tasks:
            guessing masked words, and telling captions from those of other images.
        vocabulary: word pieces of `init`; without it they lie beside `init`. A network without `init` has the
            words of the captions that it is trained on.
        head: `rank` is UMIC; `itm` is UMIC_C, to which no contrastive step belongs.
        negatives: the kinds of negatives in a group, one each; a kind may be named twice.
        margin: M.
        learning_rate: AdamW's.
        batch_size: captions of a step, positives and negatives.
        steps: at most.
        validate_every: steps after which the loss on validation groups is taken; the least wins.
        dropout: the network's.
        hidden, layers, heads, intermediate: sizes of a network without `init`.
        pretrain_steps, pretrain_rate: of a network without `init`.
    """

    regions: str
    captions: str = "references"
    init: str | None = None
    vocabulary: str | None = None
    head: Head = "rank"
    negatives: tuple[Kind, ...] = KINDS
    margin: float = 0.2
    learning_rate: float = 2e-6
    batch_size: int = 320
    steps: int = 4000
    validate_every: int = 1000
    dropout: float = 0.1
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    intermediate: int = 256
    pretrain_steps: int = 0
    pretrain_rate: float = 1e-3

    source_options: ClassVar[tuple[str, ...]] = ("regions",)

    def __post_init__(self) -> None:
        if not self.negatives:
            raise InputError(f"rater.negatives is empty; of {', '.join(KINDS)} one is expected")
        self.check_range("batch_size", low=1 + len(self.negatives))
        self.check_range(
            "steps", "validate_every", "hidden", "layers", "heads", "intermediate", low=1
        )
        self.check_range("pretrain_steps", low=0)
        self.check_range("margin", low=0, is_open=True)
        self.check_range("learning_rate", "pretrain_rate", low=0)
        self.check_range("dropout", low=0, high=1)

    @property
    def signature(self) -> str:
        folder = self._folder()
        files = [path for name in (self.init, self.vocabulary) if name and (path := local(name))]
        return f"{regions_hash(folder) if folder else 'demo'}|{hash_of(files)}"

    def _folder(self) -> Path | None:
        """The folder of the features; None for the demo's.

        Raises:
            UnavailableError: where it is not there.
        """
        if self.regions == "demo":
            return None
        folder = local(self.regions)
        if folder is None:
            raise UnavailableError(
                f"rater {self.name}: no folder '{self.regions}' of region features; docs/umic.md says where "
                f"to get or how to write them"
            )
        return folder

    def open(self) -> Regions:
        """The region features, to be used in a `with`."""
        return open_regions(self._folder())

    def fit(self, train: Examples, validation: Examples, session: Session) -> Model:
        """Train on captioned images; the validation groups with the least loss choose the step.

        Raises:
            InputError: where an option is out of range, or an image has no features.
        """
        need_extra(f"rater {self.name}", ("torch", "tokenizers", "safetensors"))
        sides = captioned(self.captions, train, validation, session)
        with self.open() as regions:
            means = [_means(regions, side) for side in sides]
            network, pieces, limit = self._start(sides[0], regions, session)
            network.to(session.device)
            tables = [
                _Table(self, side, mean, pieces, limit, regions, session)
                for side, mean in zip(sides, means, strict=True)
            ]
            if self.init is None and self.pretrain_steps:
                self._pretrain(network, tables, session)
            if self.head == "rank":
                self._contrast(network, tables, session)
        return UmicModel(self, network, pieces)

    def _start(
        self, side: Captioned, regions: Regions, session: Session
    ) -> tuple[Uniter, list[str], int]:
        """The network, its word pieces, and how many of a text it reads."""
        from ._uniter_network import Shape, Uniter

        if self.init is not None:
            path = local(self.init)
            beside = path.parent / VOCABULARY if path is not None else None
            given = local(self.vocabulary) if self.vocabulary else beside
            if path is None or given is None or not given.is_file():
                raise UnavailableError(
                    f"rater {self.name}: no checkpoint '{self.init}', or no word pieces "
                    f"'{self.vocabulary or VOCABULARY}' beside it; give rater.init=FILE and "
                    f"rater.vocabulary=FILE, or rater.init=null for a small network of its own"
                )
            network = load_uniter(path, None, dropout=self.dropout)
            return network, vocabulary_of(given), network.shape.positions
        if self.hidden % self.heads:
            raise InputError(f"rater.hidden={self.hidden} is no multiple of heads={self.heads}")
        words = {w for texts in side.captions for text in texts for w in _WORDS.findall(text)}
        pieces = [*_PIECES, *sorted(words - set(_PIECES))]
        width = regions[side.image_ids[0]].features.shape[1]
        limit = 512
        session.reseed("weights")
        shape = Shape(
            self.hidden, self.layers, self.heads, self.intermediate, len(pieces), limit, width
        )
        return Uniter(shape, self.dropout), pieces, limit

    def _pretrain(self, network: Uniter, tables: Sequence[_Table], session: Session) -> None:
        """UNITER's masked words and image-text matching, half of whose captions are other images'."""
        from torch.nn import functional

        table, unseen = tables
        fixed = [
            unseen.matching(session.rng("matching", i), part, masked=False)
            for i, part in enumerate(unseen.parts(_BATCH))
        ]

        def losses(batch: _Matching) -> torch.Tensor:
            states = network.uniter(*batch.pairs, wanted=batch.pairs[0].shape[1])
            sides = network.itm_output(network.uniter.pooled(states))
            loss = functional.cross_entropy(sides, batch.fits)
            if batch.hidden is not None:
                there = batch.hidden >= 0
                words = network.uniter.embeddings.word_embeddings.weight
                loss = loss + functional.cross_entropy(states[there] @ words.T, batch.hidden[there])
            return loss

        schedule = _Schedule(network, self.pretrain_rate, self.pretrain_steps, self.validate_every)
        session.train(
            "umic-pretraining",
            network,
            steps=lambda rng, epoch: (
                table.matching(rng, some, masked=True)
                for some in schedule.over(
                    epoch,
                    table.epoch("pretraining", epoch, self.pretrain_steps, self.batch_size // 2),
                )
            ),
            loss=losses,
            optimizer=schedule.optimizer,
            epochs=schedule.epochs,
            validate=lambda: float(np.mean([float(losses(batch)) for batch in fixed])),
            higher_is_better=False,
        )
        network.start_ranking()

    def _contrast(self, network: Uniter, tables: Sequence[_Table], session: Session) -> None:
        import torch

        from ._uniter_network import logit

        table, unseen = tables
        group = 1 + len(self.negatives)
        fixed = [
            unseen.groups(session.rng("validation", i), part)
            for i, part in enumerate(unseen.parts(_BATCH // group or 1))
        ]

        def loss(batch: Any) -> torch.Tensor:
            scores = torch.sigmoid(logit(network, network(*batch), "rank")).view(-1, group)
            return torch.clamp(self.margin - (scores[:, :1] - scores[:, 1:]), min=0).mean()

        schedule = _Schedule(network, self.learning_rate, self.steps, self.validate_every)
        session.train(
            "umic",
            network,
            steps=lambda rng, epoch: (
                table.groups(rng, some)
                for some in schedule.over(
                    epoch, table.epoch("umic", epoch, self.steps, self.batch_size // group)
                )
            ),
            loss=loss,
            optimizer=schedule.optimizer,
            epochs=schedule.epochs,
            validate=lambda: float(np.mean([float(loss(batch)) for batch in fixed])),
            higher_is_better=False,
        )

    def load(self, folder: Path) -> Model:
        network = load_uniter(folder / WEIGHTS, self.head).to(resolve("auto"))
        return UmicModel(self, network, vocabulary_of(folder / VOCABULARY))


_WORDS = re.compile(r"\w+|[^\w\s]")


class _Schedule:
    """AdamW as UNITER's authors set it: biases and norms do not decay, gradients are clipped, and the
    learning rate rises over the first tenth of the steps and falls to nothing over the others.

    Args:
        network: what is trained.
        rate: the greatest learning rate.
        steps: in all.
        every: steps of an epoch.
    """

    def __init__(self, network: Uniter, rate: float, steps: int, every: int) -> None:
        import torch

        self.steps, self.every = steps, every
        self.epochs = math.ceil(steps / every)
        named = list(network.named_parameters())
        steady = [p for n, p in named if n.endswith("bias") or "norm" in n.lower()]
        known = {id(p) for p in steady}
        rest = [p for _, p in named if id(p) not in known]
        groups = [{"params": rest, "weight_decay": DECAY}, {"params": steady, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=rate, betas=BETAS)
        clip_gradients(self.optimizer, network, CLIP)

    def over(self, epoch: int, batches: Iterator[list[int]]) -> Iterator[list[int]]:
        """The batches of an epoch, the learning rate set before each."""
        return schedule_learning_rates(self.optimizer, batches, epoch * self.every, self._share)

    def _share(self, step: int) -> float:
        rising = max(1.0, WARMING * self.steps)
        return min((step + 1) / rising, (self.steps - step) / max(1.0, self.steps - rising))


def _means(regions: Regions, side: Captioned) -> NDArray[np.float32]:
    """The mean features of each image, shape (n_images, dimensions).

    Raises:
        InputError: where an image has none, or of another dimension than the first.
    """
    first = regions[side.image_ids[0]].features.shape[1]
    means = np.empty((len(side), first), dtype=np.float32)
    for i, image_id in enumerate(side.image_ids):
        features = regions[image_id].features
        if features.shape[1] != first:
            raise InputError(
                f"{regions.folder}: image '{image_id}' has features of {features.shape[1]} numbers, and "
                f"'{side.image_ids[0]}' of {first}; of two detectors?"
            )
        means[i] = features.mean(axis=0)
    return means


@dataclass(frozen=True)
class _Matching:
    """A batch of pretraining: pairs, whether each fits, and the words to be guessed (−1: none)."""

    pairs: Any
    fits: Any
    hidden: Any


class _Table:
    """Captioned images as pairs, and batches of them with what is made of them by lot."""

    def __init__(
        self,
        made: UmicRecipe,
        side: Captioned,
        means: NDArray[np.float32],
        pieces: Sequence[str],
        limit: int,
        regions: Regions,
        session: Session,
    ) -> None:
        self.made, self.regions, self.session, self.limit = made, regions, session, limit
        captions = dict(zip(side.image_ids, side.captions, strict=True))
        self.pairs = [(i, c) for i, texts in captions.items() for c in texts]
        self.negatives = Negatives(captions, nearest_images(means, side.image_ids))
        self._pieces = WordPieces(pieces)

    def parts(self, size: int) -> list[list[int]]:
        """All pairs in order, `size` at a time."""
        places = list(range(len(self.pairs)))
        return [places[i : i + size] for i in range(0, len(places), size)]

    def epoch(self, stage: str, number: int, steps: int, size: int) -> Iterator[list[int]]:
        """The pairs of an epoch's steps; every pair comes once before any comes again."""
        every = self.made.validate_every
        first = number * every * size
        for at in range(first, first + min(every, steps - number * every) * size, size):
            yield [self._at(stage, i) for i in range(at, at + size)]

    def _at(self, stage: str, index: int) -> int:
        turn, place = divmod(index, len(self.pairs))
        if getattr(self, "_turn", None) != (stage, turn):
            rng = self.session.rng(stage, "order", turn)
            self._turn, self._order = (stage, turn), rng.permutation(len(self.pairs))
        return int(self._order[place])

    def groups(self, rng: np.random.Generator, some: Sequence[int]) -> Any:
        """Each caption followed by its negatives; in a control one of them is put first by lot."""
        texts: list[str] = []
        images: list[str] = []
        for image, caption in (self.pairs[i] for i in some):
            words = self.negatives.words(caption)
            group = [text_of(words)] + [
                self.negatives.draw(rng, image, words, kind) for kind in self.made.negatives
            ]
            if self.session.is_control:
                group = [group[int(i)] for i in rng.permutation(len(group))]
            texts += group
            images += [image] * len(group)
        return self._collated(texts, images)

    def matching(self, rng: np.random.Generator, some: Sequence[int], *, masked: bool) -> _Matching:
        """Each image with its caption, words of which are masked, and with one that may be another's.

        In a control all images are each other's, so that neither words nor matches tell anything.
        """
        import torch

        texts: list[str] = []
        fits: list[int] = []
        for image, caption in (self.pairs[i] for i in some):
            words = self.negatives.words(caption)
            fit = rng.random() < 0.5
            drawn = None if fit else self.negatives.draw(rng, image, words, "random")
            texts += [caption, drawn or text_of(words)]
            fits += [1, int(fit)]
        ids, _ = fitting(self._pieces(texts), self.limit)
        hidden: Any = None
        if masked:
            hidden = np.full((len(ids), max(map(len, ids))), -1)
            for i in range(0, len(ids), 2):
                inner = np.arange(1, len(ids[i]) - 1)
                for j in inner[rng.random(len(inner)) < _GUESSED].tolist():
                    hidden[i, j], ids[i][j] = ids[i][j], _MASK
            hidden = torch.from_numpy(hidden).to(self.session.device)
        order = rng.permutation(len(some)) if self.session.is_control else range(len(some))
        images = [self.pairs[some[int(i)]][0] for i in order for _ in range(2)]
        target = torch.tensor(fits, device=self.session.device)
        return _Matching(collate(ids, self._seen(images), self.session.device), target, hidden)

    def _collated(self, texts: Sequence[str], images: Sequence[str]) -> Any:
        ids, _ = fitting(self._pieces(texts), self.limit)
        return collate(ids, self._seen(images), self.session.device)

    def _seen(self, images: Sequence[str]) -> list[Seen]:
        found = {image: self.regions[image] for image in dict.fromkeys(images)}
        return [found[image] for image in images]


class UmicModel(Model):
    """A trained network and its word pieces."""

    def __init__(self, made: UmicRecipe, network: Uniter, pieces: Sequence[str]) -> None:
        self.recipe = made
        self.network = network
        self.pieces = list(pieces)

    def predict(self, rows: Rows) -> Floats:
        images = image_ids(rows)
        texts, _ = fitting(WordPieces(self.pieces)(rows.captions), self.network.shape.positions)
        with self.recipe.open() as regions:
            return rate(
                self.network.eval(),
                texts,
                images,
                regions,
                head=self.recipe.head,
                batch_size=_BATCH,
                metric=self.recipe.name,
                remark=lambda _: None,
            )

    def save(self, folder: Path) -> None:
        save_uniter(self.network, folder / WEIGHTS)
        with replacing(folder / VOCABULARY) as stream:
            stream.write("".join(f"{piece}\n" for piece in self.pieces).encode())
