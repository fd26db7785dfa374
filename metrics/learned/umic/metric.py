"""UMIC, a score of whether a caption fits its image, without references (Lee et al. 2021).

The metrics `umic` and `umic_c`: they look for a checkpoint, the authors' or captau's own, a vocabulary and region features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ....datasets.errors import InputError
from ....datasets.reading.json_files import read_text
from ...base import Floats, Metric, UnavailableError
from ...neural.models import (
    MODEL_LOCK,
    Device,
    batches,
    check_shapes,
    hash_of,
    load_checkpoint,
    local,
    need_extra,
    on,
    random_note,
    require,
    resolve,
    weights_root,
)
from ...progress import progress_counter
from ...registry import register
from ...rows import Rows, row_keys
from ..common.weight_files import parse_card, save_tensors
from .regions import ImageRegions, Regions, hash_regions

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
    _check_matrices(path, tensors, (WORDS, POSITIONS, REGIONS, INTERMEDIATE))
    sizes = read_sizes(tensors, heads or _read_n_heads(path))
    if not sizes.heads or sizes.hidden % sizes.heads:
        raise InputError(
            f"{path}: {sizes.hidden} dimensions are not a whole number of attention heads of 64; set heads"
        )

    present = _find_heads(tensors)
    if head is not None and head not in present:
        remedy = "; a checkpoint of UNITER? metric umic_c rates with it" if head == "rank" else ""
        raise InputError(f"{path}: no head {HEADS[head]}{remedy}")

    with torch.random.fork_rng(devices=[]):  # the random weights are overwritten
        network = Uniter(sizes, dropout)

    required: list[Head] = [head] if head else present
    parts = ("uniter.", *(HEADS[h] for h in required))
    expected: dict[str, Tensor] = {}
    for name, tensor in network.state_dict().items():
        if name.startswith(parts):
            expected[name] = tensor

    # The other head may be in the file as well, and of other sizes.
    unused_heads = tuple(name for other_head, name in HEADS.items() if other_head not in required)
    used: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not name.startswith(unused_heads):
            used[name] = tensor
    check_shapes(path, expected, used)

    # A head that the file lacks stays at zero.
    for module in (network.rank_output, network.itm_output):
        torch.nn.init.zeros_(module.weight)
        torch.nn.init.zeros_(module.bias)
    network.load_state_dict(used, strict=False)
    if head is None and "rank" not in present:
        network.start_ranking()

    return network.eval()


def _find_heads(tensors: Mapping[str, Tensor]) -> list[Head]:
    """Return the heads that a checkpoint has."""
    heads: list[Head] = []
    for head, name in HEADS.items():
        if f"{name}.weight" in tensors:
            heads.append(head)
    return heads


def _check_matrices(path: Path, tensors: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """Check that a checkpoint has the matrices from which sizes are read.

    Raises:
        InputError: where it lacks one, with some of what it has.
    """
    missing = [name for name in names if name not in tensors or tensors[name].ndim != 2]
    if not missing:
        return

    first_tensors = list(tensors.items())[:3]
    samples = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in first_tensors)
    raise InputError(
        f"{path}: not a checkpoint of UNITER: no {', no '.join(missing)}; it holds {len(tensors)} "
        f"tensors such as {samples}"
    )


def _rename_tensors(table: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the names of `Uniter`, without unused ones."""
    word_embeddings = "embeddings.word_embeddings.weight"
    body = "uniter."
    for prefix in _BODY_PREFIXES:
        if f"{prefix}{word_embeddings}" in table:
            body = prefix
            break
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
    truncated: list[list[int]] = []
    n_cut = 0
    for ids in texts:
        if len(ids) > positions:
            truncated.append([*ids[: positions - 1], ids[-1]])
            n_cut += 1
        else:
            truncated.append(ids)

    return truncated, n_cut


def collate(
    texts: Sequence[Sequence[int]], images: Sequence[ImageRegions], device: str
) -> tuple[Tensor, ...]:
    """Return the arguments of `Uniter` for pairs of a text and an image, padded to the longest."""
    import torch

    text_lengths = [len(text) for text in texts]
    region_counts = [len(image) for image in images]
    width = images[0].features.shape[1]
    box_width = images[0].boxes.shape[1]

    ids = np.zeros((len(texts), max(text_lengths)), dtype=np.int64)
    features = np.zeros((len(texts), max(region_counts), width), dtype=np.float32)
    boxes = np.zeros((len(texts), max(region_counts), box_width), dtype=np.float32)
    for i, (text, image) in enumerate(zip(texts, images, strict=True)):
        ids[i, : len(text)] = text
        features[i, : len(image)] = image.features
        boxes[i, : len(image)] = image.boxes

    arrays = (ids, np.array(text_lengths), features, boxes, np.array(region_counts))
    return tuple(torch.from_numpy(array).to(device) for array in arrays)


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

            # Pairs of like lengths share a batch, which is padded to its longest; what does not fit fails first.
            lengths: dict[int, int] = {}
            for j in rows:
                lengths[j] = len(texts[j]) + len(images[image_ids[j]])
            longest_first = sorted(rows, key=lengths.__getitem__, reverse=True)
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
        distinct_ids = dict.fromkeys(image_ids[row] for row in rows)
        images = {image_id: regions[image_id] for image_id in distinct_ids}
        for image_id, image in images.items():
            if image.features.shape[1] != width:
                raise InputError(
                    f"{regions.folder}: the regions of image '{image_id}' have "
                    f"{image.features.shape[1]} numbers, but the checkpoint of metric {metric} reads "
                    f"{width}; features of another detector?"
                )

        yield rows, images


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

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Features are looked up by the image's id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False
    lock: ClassVar[AbstractContextManager[Any]] = MODEL_LOCK
    distributions: ClassVar[tuple[str, ...]] = ("captau", "torch", "tokenizers")
    name_fields: ClassVar[tuple[str, ...]] = ("head",)

    def _checkpoint(self) -> Path:
        names = CHECKPOINTS[self.head] if self.checkpoint is None else (self.checkpoint,)
        paths = list(filter(None, map(local, names)))
        return require(
            paths[0] if paths else None,
            f"metric {self.spec}",
            f"needs the checkpoint '{names[-1]}', which is not here",
            f"put it at {weights_root() / names[-1]}, or give checkpoint=FILE (its authors offer it at "
            f"{REPOSITORIES[self.head]})",
        )

    def _features(self) -> Path:
        return require(
            local(self.features or FEATURES),
            f"metric {self.spec}",
            f"needs region features, and there is no folder "
            f"'{self.features or weights_root() / FEATURES}'",
            "give features=FOLDER (docs/umic.md says where to get or how to write them)",
        )

    def _vocabulary(self) -> Path:
        if self.vocabulary is not None:
            path = local(self.vocabulary)
        else:
            root = weights_root()
            folders = (self._checkpoint().parent, root, root / "bert-base-cased")
            paths = [folder / name for folder in folders for name in VOCABULARIES]
            path = next((path for path in paths if path.is_file()), None)
        return require(
            path,
            f"metric {self.spec}",
            f"needs bert-base-cased's word pieces, and there is no "
            f"'{self.vocabulary or weights_root() / VOCABULARIES[-1]}'",
            "give vocabulary=FILE (vocab.txt of huggingface.co/google-bert/bert-base-cased)",
        )

    def check_rows(self, rows: Rows) -> None:
        need_extra(self.spec, ("torch", "tokenizers", "safetensors"))
        super().check_rows(rows)
        self._vocabulary()
        with Regions(self._features()) as regions:
            image_ids = dict.fromkeys(self._image_ids(rows))
            missing = [image_id for image_id in image_ids if image_id not in regions]
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
