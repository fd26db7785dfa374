"""UMIC's training: contrastive, on captioned images without ratings (Lee et al. 2021, section 3).

`captau train rater=umic` makes it. Batches are pairs of captions and images with their negatives and masks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...base import Floats, UnavailableError
from ...neural.models import hash_of, local, need_extra, require, resolve
from ...rows import Rows
from ..common.captioned_images import OWN_REFERENCES, CaptionedImages, load_captioned_images
from ..common.examples import Examples
from ..common.features import image_ids
from ..common.recipe import RaterModel, Recipe, register_recipe
from ..common.training import TrainingSession, clip_gradients, schedule_learning_rates
from .metric import (
    Head,
    WordPieces,
    load_uniter,
    read_vocabulary,
    save_uniter,
    score_pairs,
    truncate,
)
from .negatives import (
    MASK_PIECE,
    NEGATIVE_KINDS,
    PAPER_KINDS,
    SIMILAR_SHARE,
    MatchingBatch,
    NegativeKind,
    Negatives,
    PairTable,
    Substitution,
)
from .regions import Regions, hash_regions, open_regions
from .similar_images import SIMILARITY_RULES, find_similar_images

if TYPE_CHECKING:
    import torch

    from ._uniter_network import Uniter


#: The authors' optimiser (ChenRocks/UNITER, config/train-itm-coco-base-16gpu-hn.json).
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.01
GRADIENT_NORM = 2.0
#: The share of the steps over which the learning rate rises.
WARMUP_SHARE = 0.1
#: Steps of pretraining for each step of contrastive training, where nothing is said of them.
PRETRAIN_SHARE = 3


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

        self.steps = steps
        self.steps_per_epoch = steps_per_epoch
        self.epochs = math.ceil(steps / steps_per_epoch)

        decaying: list[Any] = []
        constant: list[Any] = []
        for name, parameter in network.named_parameters():
            is_constant = name.endswith("bias") or "norm" in name.lower()
            if is_constant:
                constant.append(parameter)
            else:
                decaying.append(parameter)

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


WEIGHTS_FILE = "model.safetensors"
VOCABULARY_FILE = "vocab.txt"
#: Captions in a batch of validation or prediction.
_BATCH_SIZE = 64
#: Special word pieces of a network without `init`, at their ids.
_SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK_PIECE)
_WORD = re.compile(r"\w+|[^\w\s]")
#: Word pieces that a network without `init` reads of a text.
_POSITIONS = 512
#: The options that are sizes of a network without `init`.
_SIZES = ("hidden", "layers", "heads", "intermediate")


@register_recipe("umic")
@dataclass(frozen=True)
class UmicRecipe(Recipe):
    """max(0, M − (s⁺ − s⁻)), a caption against its negatives, s the sigmoid of the rank logit.

    Args:
        regions: a folder of region features (`regions.py`), or `demo`.
        captions: captioned images to learn from: `references`, a file, or `demo`
            (`load_captioned_images`).
        init: a checkpoint of UNITER to start from, by its path or its name in the weights folder. With
            None, a small network of the sizes below is trained first, by two of UNITER's own tasks:
            guessing masked words, and telling captions from those of other images.
        vocabulary: word pieces of `init`; the default lies beside `init`. A network without `init` has
            the words of the captions that it is trained on.
        head: `rank` is UMIC; `itm` is UMIC_C, which has no contrastive training.
        negatives: the kinds of negatives in a group, one each; a kind may be repeated.
        substitution: which words are substituted: `keywords`, `paper` or `code` (`negatives.py`).
        similar: where similar images come from, whose captions are the hard negatives: `regions`, the nearest
            mean region features (the default); `cider`, the most similar captions; or a file
            (`load_similar_images`). Of several, each is as likely.
        margin: M.
        learning_rate: AdamW's.
        batch_size: captions of a step, positives and negatives.
        steps: at most, of contrastive training.
        validate_every: steps between validations; the network of the least validation loss is returned.
        dropout: the network's.
        hidden, layers, heads, intermediate: sizes of a network without `init`.
        pretrain_steps: of a network without `init`; with None three times `steps`, so that `steps` shortens
            the whole training.
        pretrain_rate: AdamW's learning rate in these steps.
    """

    regions: str
    captions: str = OWN_REFERENCES
    init: str | None = None
    vocabulary: str | None = None
    head: Head = "rank"
    negatives: tuple[NegativeKind, ...] = PAPER_KINDS
    substitution: Substitution = "paper"
    similar: tuple[str, ...] | None = None
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
    pretrain_steps: int | None = None
    pretrain_rate: float = 1e-3

    source_options: ClassVar[tuple[str, ...]] = ("regions",)
    control: ClassVar[str] = "captions and altered captions in random order"

    def __post_init__(self) -> None:
        if not self.negatives:
            kinds = ",".join(NEGATIVE_KINDS)
            raise InputError(f"rater.negatives is empty; name at least one of {kinds}")
        self.check_range("batch_size", low=1 + len(self.negatives))
        self.check_range("steps", "validate_every", *_SIZES, low=1)
        if self.pretrain_steps is not None:
            self.check_range("pretrain_steps", low=0)
        if self.init is not None and self.pretrain_steps:
            raise InputError(
                f"rater.pretrain_steps is {self.pretrain_steps}, and rater.init={self.init} is pretrained already; "
                "leave out one of the two"
            )
        if self.init is not None:
            self._check_sizes()
        self.check_range("margin", low=0, is_open=True)
        self.check_range("learning_rate", "pretrain_rate", low=0)
        self.check_range("dropout", low=0, high=1)

    def _check_sizes(self) -> None:
        """Check that no size is given beside a checkpoint, whose matrices say their sizes.

        Raises:
            InputError: with the first that is not the default.
        """
        for option in fields(self):
            if option.name in _SIZES and getattr(self, option.name) != option.default:
                raise InputError(
                    f"rater.{option.name} is {getattr(self, option.name)}, and rater.init={self.init} has its own sizes; "
                    "leave out one of the two"
                )

    @property
    def signature(self) -> str:
        folder = self._folder()
        # The name of a rule is none of a file, even where a folder is called so.
        files_of_similar_images = [n for n in self._similarities if n not in SIMILARITY_RULES]
        files: list[Path] = []
        for name in (self.init, self.vocabulary, *files_of_similar_images):
            path = local(name) if name else None
            if path:
                files.append(path)

        regions = hash_regions(folder) if folder else "demo"
        return f"{regions}|{hash_of(files)}"

    @property
    def _similarities(self) -> tuple[str, ...]:
        """Return where similar images come from."""
        return self.similar or ("regions",)

    @property
    def _n_pretrain_steps(self) -> int:
        """Return the number of steps that come before contrastive training."""
        if self.init is not None:
            return 0
        if self.pretrain_steps is None:
            return PRETRAIN_SHARE * self.steps
        return self.pretrain_steps

    def _folder(self) -> Path | None:
        """Return the folder of the features; None for the demo's.

        Raises:
            UnavailableError: if it does not exist.
        """
        if self.regions == "demo":
            return None

        return require(
            local(self.regions),
            f"rater {self.name}",
            f"needs region features, and there is no folder '{self.regions}'",
            "docs/umic.md says where to get or how to write them",
        )

    def check_features(self, rows: Rows) -> None:
        with self.open_regions() as regions:
            distinct_ids = dict.fromkeys(image_ids(rows))
            missing = [image_id for image_id in distinct_ids if image_id not in regions]
        if missing:
            raise UnavailableError(
                f"rater {self.name}",
                f"needs region features of every image, and {self.regions} has none of {len(missing):,} of "
                f"{len(distinct_ids):,}, such as '{missing[0]}'",
                "name a folder that has them (regions=FOLDER)",
            )

    def open_regions(self) -> Regions:
        """Return the region features, for use in a `with`."""
        return open_regions(self._folder())

    def fit(self, train: Examples, validation: Examples, session: TrainingSession) -> RaterModel:
        """Train on captioned images; the least loss on the validation groups selects the step.

        Raises:
            InputError: if an option is out of range, or an image has no features.
        """
        need_extra(f"rater {self.name}", ("torch", "tokenizers", "safetensors"))
        train_side, validation_side = load_captioned_images(
            self.captions, train, validation, session
        )
        session.reads_examples = self.captions == OWN_REFERENCES
        session.extra_image_ids |= train_side.keys() | validation_side.keys()
        if not session.reads_examples:
            session.note_captions(self.captions, train_side, validation_side)

        with self.open_regions() as regions:
            network, pieces = self._start(train_side, regions, session)
            network.to(session.device)
            positions = network.sizes.positions
            train_table = self.make_table(train_side, regions, pieces, positions, session)
            validation_table = self.make_table(validation_side, regions, pieces, positions, session)

            if self._n_pretrain_steps:
                self._pretrain(network, train_table, validation_table, session)
            if self.head == "rank":
                self._contrast(network, train_table, validation_table, session)

        return UmicModel(self, network, pieces)

    def make_table(
        self,
        captioned: CaptionedImages,
        regions: Regions,
        pieces: Sequence[str],
        positions: int,
        session: TrainingSession,
    ) -> PairTable:
        """Return the pairs of captioned images, with their negatives; see `PairTable` for the arguments.

        Raises:
            InputError: if an image has no features, or the file of similar images does not fit.
        """
        negatives = Negatives(
            captioned,
            [find_similar_images(origin, captioned, regions) for origin in self._similarities],
            substitution=self.substitution,
            similar_share=0.0 if "hard" in self.negatives else SIMILAR_SHARE,
        )
        return PairTable(captioned, negatives, regions, pieces, positions, self.negatives, session)

    def _start(
        self, captioned: CaptionedImages, regions: Regions, session: TrainingSession
    ) -> tuple[Uniter, list[str]]:
        """Return the network to be trained, and its word pieces."""
        if self.init is not None:
            path = local(self.init)
            default = path.parent / VOCABULARY_FILE if path is not None else None
            vocabulary = local(self.vocabulary) if self.vocabulary else default
            if path is None or vocabulary is None or not vocabulary.is_file():
                raise UnavailableError(
                    f"rater {self.name}",
                    f"has no checkpoint '{self.init}', or no word pieces "
                    f"'{self.vocabulary or VOCABULARY_FILE}' beside it",
                    "give rater.init=FILE and rater.vocabulary=FILE, or rater.init=null for a small "
                    "network of its own",
                )
            return load_uniter(path, None, dropout=self.dropout), read_vocabulary(vocabulary)

        if self.hidden % self.heads:
            raise InputError(f"rater.hidden={self.hidden} is not a multiple of heads={self.heads}")
        from ._uniter_network import Uniter, UniterSizes

        words: set[str] = set()
        for texts in captioned.values():
            for text in texts:
                words.update(_WORD.findall(text))
        pieces = [*_SPECIAL_PIECES, *sorted(words - set(_SPECIAL_PIECES))]

        session.reseed("weights")
        width = regions[next(iter(captioned))].features.shape[1]
        body = (self.hidden, self.layers, self.heads, self.intermediate)
        sizes = UniterSizes(*body, len(pieces), _POSITIONS, width)
        return Uniter(sizes, self.dropout), pieces

    def _pretrain(
        self, network: Uniter, train: PairTable, validation: PairTable, session: TrainingSession
    ) -> None:
        """Train by UNITER's masked words and image-text matching, half of whose captions are wrong."""
        from torch.nn import functional

        validation_batches: list[MatchingBatch] = []
        for i, rows in enumerate(validation.split_rows(_BATCH_SIZE)):
            rng = session.rng("matching", i)
            validation_batches.append(validation.make_matching(rng, rows, has_masks=False))

        def loss(batch: MatchingBatch) -> torch.Tensor:
            states = network.uniter(*batch.pairs, n_states=batch.pairs[0].shape[1])
            logits = network.itm_output(network.uniter.pool(states))
            matching = functional.cross_entropy(logits, batch.matches)
            if batch.masked_words is None:
                return matching

            is_masked = batch.masked_words >= 0
            embeddings = network.uniter.embeddings.word_embeddings.weight
            logits = states[is_masked] @ embeddings.T
            return matching + functional.cross_entropy(logits, batch.masked_words[is_masked])

        schedule = Schedule(
            network, self.pretrain_rate, self._n_pretrain_steps, self.validate_every
        )
        session.train(
            "umic-pretraining",
            network,
            steps=lambda rng, epoch: (
                train.make_matching(rng, rows, has_masks=True)
                for rows in schedule.draw_rows("pretraining", epoch, train, self.batch_size // 2)
            ),
            loss=loss,
            optimizer=schedule.optimizer,
            epochs=schedule.epochs,
            validate=lambda: float(np.mean([float(loss(b)) for b in validation_batches])),
            higher_is_better=False,
        )
        network.start_ranking()

    def _contrast(
        self, network: Uniter, train: PairTable, validation: PairTable, session: TrainingSession
    ) -> None:
        """Train the rank head to score captions above their negatives, by the margin."""
        import torch

        from ._uniter_network import compute_logit

        group_size = 1 + len(self.negatives)
        validation_batches: list[Any] = []
        for i, rows in enumerate(validation.split_rows(_BATCH_SIZE // group_size or 1)):
            validation_batches.append(validation.make_groups(session.rng("validation", i), rows))

        def loss(batch: Any) -> torch.Tensor:
            logits = compute_logit(network, network(*batch), "rank")
            scores = torch.sigmoid(logits).view(-1, group_size)
            return torch.clamp(self.margin - (scores[:, :1] - scores[:, 1:]), min=0).mean()

        schedule = Schedule(network, self.learning_rate, self.steps, self.validate_every)
        session.train(
            "umic",
            network,
            steps=lambda rng, epoch: (
                train.make_groups(rng, rows)
                for rows in schedule.draw_rows("umic", epoch, train, self.batch_size // group_size)
            ),
            loss=loss,
            optimizer=schedule.optimizer,
            epochs=schedule.epochs,
            validate=lambda: float(np.mean([float(loss(b)) for b in validation_batches])),
            higher_is_better=False,
        )

    def load(self, folder: Path) -> RaterModel:
        network = load_uniter(folder / WEIGHTS_FILE, self.head).to(resolve("auto"))
        return UmicModel(self, network, read_vocabulary(folder / VOCABULARY_FILE))


class UmicModel(RaterModel):
    """A trained network and its word pieces."""

    def __init__(self, recipe: UmicRecipe, network: Uniter, pieces: Sequence[str]) -> None:
        self.recipe = recipe
        self.network = network
        self.pieces = list(pieces)

    def predict(self, rows: Rows) -> Floats:
        ids = WordPieces(self.pieces)(rows.captions)
        texts, _ = truncate(ids, self.network.sizes.positions)
        with self.recipe.open_regions() as regions:
            return score_pairs(
                self.network.eval(),
                texts,
                image_ids(rows),
                regions,
                head=self.recipe.head,
                batch_size=_BATCH_SIZE,
                metric=self.recipe.name,
                remark=lambda _: None,
            )

    def save(self, folder: Path) -> None:
        save_uniter(self.network, folder / WEIGHTS_FILE)
        with replacing(folder / VOCABULARY_FILE) as stream:
            stream.write("".join(f"{piece}\n" for piece in self.pieces).encode())
