"""UMIC, a score of whether a caption fits its image, without references (Lee et al. 2021).

The metrics `umic` and `umic_c`: they look for a checkpoint, a vocabulary and region features.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....datasets.errors import InputError
from ...base import Floats, Metric, UnavailableError
from ...neural.models import (
    MODEL_LOCK,
    Device,
    hash_of,
    local,
    need_extra,
    on,
    random_note,
    resolve,
    weights_root,
)
from ...registry import register
from ...rows import Rows, row_keys
from .checkpoints import Head, load_uniter
from .regions import Regions, hash_regions
from .scoring import WordPieces, read_vocabulary, score_pairs, truncate

#: File names in the weights folder; the first that exists is used.
CHECKPOINTS: dict[Head, tuple[str, ...]] = {
    "rank": ("umic.safetensors", "umic.pt"),
    "itm": ("uniter-base.safetensors", "uniter-base.pt"),
}
FEATURES = "img_db"
VOCABULARIES = ("vocab.txt", "bert-base-cased-vocab.txt")
#: Repositories in which the authors offer checkpoints.
REPOSITORIES: dict[Head, str] = {
    "rank": "github.com/hwanheelee1993/UMIC",
    "itm": "github.com/ChenRocks/UNITER",
}


@register("umic", head="rank")
@register("umic_c", head="itm")
@dataclass(frozen=True)
class Umic(Metric):
    """UNITER's score of an image and a caption (Lee et al. 2021, section 3.1).

        umic   = sigmoid(W i + b)           the head that contrastive learning trained
        umic_c = softmax(V i + c)[match]    UNITER's own head of pretraining, image-text matching

    with i the encoder's first state, after a dense layer and tanh.

    Args:
        checkpoint: a file of the authors' (umic.pt; for `umic_c` uniter-base.pt) or of `captau train`,
            by its path or its name in the weights folder.
        features: a folder of region features (`regions.py`), likewise; the default is `img_db`.
        vocabulary: bert-base-cased's word pieces, one a line, likewise; the default is `vocab.txt`
            beside the checkpoint, or `bert-base-cased-vocab.txt` there or in the weights folder.
        head: fixed by the name.
        batch_size: captions in a batch.
        device: auto takes CUDA or MPS where they are available; float32 on all.
    """

    checkpoint: str | None = None
    features: str | None = None
    vocabulary: str | None = None
    head: Head = "rank"
    batch_size: int = 32
    device: Device = "auto"
    backend: Literal["captau"] = "captau"

    needs: ClassVar[frozenset[str]] = frozenset()
    #: Features are looked up by the image's id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False
    lock: ClassVar[AbstractContextManager[Any]] = MODEL_LOCK
    distributions: ClassVar[tuple[str, ...]] = ("captau", "torch", "tokenizers")
    name_fields: ClassVar[tuple[str, ...]] = ("head",)

    @property
    def name(self) -> str:
        return {"rank": "umic", "itm": "umic_c"}[self.head]

    def _checkpoint(self) -> Path:
        if self.checkpoint is not None:
            path = local(self.checkpoint)
        else:
            path = next(filter(None, map(local, CHECKPOINTS[self.head])), None)
        if path is None:
            name = self.checkpoint or CHECKPOINTS[self.head][-1]
            raise UnavailableError(
                f"metric {self.spec}",
                f"needs the checkpoint '{name}', which is not here",
                f"put it at {weights_root() / name}, or give checkpoint=FILE (its authors offer it at "
                f"{REPOSITORIES[self.head]})",
            )
        return path

    def _features(self) -> Path:
        path = local(self.features or FEATURES)
        if path is None:
            raise UnavailableError(
                f"metric {self.spec}",
                f"needs region features, and there is no folder "
                f"'{self.features or weights_root() / FEATURES}'",
                "give features=FOLDER (docs/umic.md says where to get or how to write them)",
            )
        return path

    def _vocabulary(self) -> Path:
        if self.vocabulary is not None:
            path = local(self.vocabulary)
        else:
            root = weights_root()
            folders = (self._checkpoint().parent, root, root / "bert-base-cased")
            paths = (folder / name for folder in folders for name in VOCABULARIES)
            path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise UnavailableError(
                f"metric {self.spec}",
                f"needs bert-base-cased's word pieces, and there is no "
                f"'{self.vocabulary or weights_root() / VOCABULARIES[-1]}'",
                "give vocabulary=FILE (vocab.txt of huggingface.co/google-bert/bert-base-cased)",
            )
        return path

    def check_rows(self, rows: Rows) -> None:
        need_extra(self.spec, ("torch", "tokenizers", "safetensors"))
        super().check_rows(rows)
        self._vocabulary()
        with Regions(self._features()) as regions:
            image_ids = dict.fromkeys(self._image_ids(rows))
            missing = [i for i in image_ids if i not in regions]
            if missing:
                raise UnavailableError(
                    f"metric {self.spec}",
                    f"needs region features of every image, and {regions.folder} has none of "
                    f"{', '.join(missing[:3])} ({len(missing)} of {len(image_ids)} images lack them)",
                )

    def _image_ids(self, rows: Rows) -> list[str]:
        return [image_id for (image_id,) in row_keys(rows, ["image_id"], self._features())]

    @property
    def programs(self) -> tuple[str, ...]:
        """Weights, vocabulary, features and device, for the signature."""
        parts: list[str] = []
        for label, find_path, compute_hash in (
            ("weights", self._checkpoint, lambda path: hash_of([path])),
            ("pieces", self._vocabulary, lambda path: hash_of([path])),
            ("regions", self._features, hash_regions),
        ):
            try:
                parts.append(f"{label}:{compute_hash(find_path())}")
            except InputError:
                parts.append(f"{label}:missing")
        return (*parts, on(self.device))

    def compute(self, rows: Rows) -> Floats:
        """Score rows, shape (len(rows),).

        Raises:
            InputError: if the checkpoint, the vocabulary and the features do not fit one another.
        """
        path = self._checkpoint()
        network = load_uniter(path, self.head).to(resolve(self.device))
        pieces = read_vocabulary(self._vocabulary())
        if len(pieces) != network.sizes.vocabulary:
            raise InputError(
                f"{self._vocabulary()}: {len(pieces)} word pieces, but {path} was trained with "
                f"{network.sizes.vocabulary}; another vocabulary?"
            )
        pairs = list(zip(self._image_ids(rows), rows.captions, strict=True))
        index = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        ids = WordPieces(pieces)([caption for _, caption in index])
        texts, n_cut = truncate(ids, network.sizes.positions)
        if n_cut:
            rows.add_remark(
                self.spec,
                f"{n_cut:,} captions are longer than the model's context and were cut short",
            )
        if note := random_note(path.parent):
            rows.add_remark(self.spec, note)
        with Regions(self._features()) as regions:
            scores = score_pairs(
                network,
                texts,
                [image_id for image_id, _ in index],
                regions,
                head=self.head,
                batch_size=self.batch_size,
                metric=self.spec,
                remark=lambda text: rows.add_remark(self.spec, text),
            )
        return scores[[index[pair] for pair in pairs]]
