"""The FLEUR release: judgements of several datasets, and FLEUR's own scores, for `captau reproduce paper=fleur_2024`.

Lee et al. 2024 ask a large model for a number (`raw`) and smooth it by the probabilities of its digits
(`smoothed`). These are scores of a metric and not judgements of people, though they stand as ratings here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import read_text
from ..reading.source_files import bibtex, find, github_file
from ..reading.table import Table
from ..registry import dataset
from ..schema import (
    CaptionSet,
    CaptionSetBuilder,
    Card,
    Scale,
    SourceFile,
)
from .coco_captions import coco_id

COMMIT = "b9cd6c9c086113b9ad3d040522a85c776aff1225"


def fleur(path: str, folder: str = "annotations", **attributes: Any) -> SourceFile:
    """Return a file of the release.

    Args:
        path: where it lies in the data folder; its name is that of the release.
        folder: the release's, that it is in.
        attributes: as of a `SourceFile`.
    """
    name = f"{folder}/{PurePosixPath(path).name}"
    return github_file(path, "Yebin46/FLEUR", COMMIT, name, **attributes)


#: How many characters tell one of the authors' files.
_HEAD = 1000
#: Each file's SHA-256, by the part of the data that it scores.
_HASHES = {
    "composite": "e876d84113a4af0a859e41bf0323106fdcec81c7ff2f2cb05cbf9e35ce4efb1e",
    "flickr8k_expert": "841cf2aa636cbacd2d78ace9a02f812d786e4ff60aedea39648ca8fbedff8662",
    "pascal_HC": "c32a4570944e24ea5940ce0dea174bad208a7a8ea7c3ab01179d1c5c8917528d",
    "pascal_HI": "8b9fab1a7c68533f4f1c1f833ac34e30cd2c2f0c6eac9d2b8f224dfd140686fd",
    "pascal_HM": "452ee589d94fd1ed71c8fa5d3e92f69a8ea1a57f5d75ff135307e1064b764d34",
    "pascal_MM": "1c0222478d3431bd996647aafcc734a0a514e80f7a08a4a04af2f0e408ca5294",
}
FILES = {
    part: fleur(f"fleur/fleur_{part}.txt", sha256=digest, folder="results")
    for part, digest in _HASHES.items()
}
CARD = Card(
    name="fleur",
    title="FLEUR's own scores (a metric's, not people's)",
    revision=COMMIT,
    licence="not stated by the release",
    citation=bibtex("lee2024fleur"),
    homepage="https://github.com/Yebin46/FLEUR",
    scales={"raw": Scale(0, 1), "smoothed": Scale(0, 1)},
    single_values={
        "raw": "the number that FLEUR's model answered, no judgement of people",
        "smoothed": "FLEUR's score, no judgement of people",
    },
    sources=tuple(FILES.values()),
    expected={"images": 4998, "items": 24718, "ratings": 49436, "preferences": 4000},
    has_references=False,
)


@dataclass
class ScoredImage:
    """A block of one of the authors' files.

    Attributes:
        image_id: the image's file name, or COCO's number.
        label: of a pair of captions the index of the better one; None for a caption alone.
        captions, raw, smoothed: one entry a caption.
    """

    image_id: str
    label: int | None = None
    captions: list[str] = field(default_factory=list[str])
    raw: list[float] = field(default_factory=list[float])
    smoothed: list[float] = field(default_factory=list[float])


@dataset(CARD)
def load_fleur(root: Path) -> CaptionSet:
    """Read FLEUR's scores of Composite, Flickr8k-Expert and PASCAL-50S; `system` is the file that a score is from.

    The pairs' labels are those of the files, which are not in every pair those of dataset pascal50s.
    """
    keys: dict[tuple[str, str, str], tuple[float, float]] = {}
    pairs: list[tuple[str, tuple[str, str, str], tuple[str, str, str], str, str]] = []
    for part, source in FILES.items():
        for number, block in enumerate(read_scores(find(root, CARD, source))):
            rows = [(block.image_id, caption, part) for caption in block.captions]
            for row, raw, smoothed in zip(rows, block.raw, block.smoothed, strict=True):
                keys[row] = (raw, smoothed)
            if block.label is not None:
                category = part.removeprefix("pascal_")
                winner = "ab"[block.label]
                pairs.append((f"{category}-{number:04d}", rows[0], rows[1], category, winner))

    # The keys are different items already.
    builder = CaptionSetBuilder(joins_equal=False)
    numbers: dict[tuple[str, str, str], int] = {}
    for key in keys:
        image_id, caption, part = key
        numbers[key] = builder.add_item(image_id, caption, system=part)

    for key, scores in keys.items():
        for dimension, score in zip(CARD.scales, scores, strict=True):
            builder.rate(numbers[key], dimension, "FLEUR", score)

    for pair_id, a, b, category, winner in pairs:
        builder.prefer(pair_id, numbers[a], numbers[b], category, winner)

    return builder.build(CARD)


def read_scores(path: Path) -> list[ScoredImage]:
    """Read one of the authors' files, a list of lines `image file : …`, `label : …`, `caption : …` and scores.

    Raises:
        InputError: with file and line, where a value is not a number or a score lacks its caption.
    """
    blocks: list[ScoredImage] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        key, _, value = line.partition(" : ")
        if key == "image file":
            # COCO's images have their number in all datasets, the others their file's name.
            name = value.strip().rpartition("/")[2]
            blocks.append(ScoredImage(coco_id(name) if name.startswith("COCO_") else name))
        elif key in ("label", "caption", "model score", "our score"):
            if not blocks:
                raise InputError(f"{path}:{number}: '{key}' before any 'image file'")
            try:
                _add_line(blocks[-1], key, value.strip())
            except ValueError:
                expected = "0 or 1" if key == "label" else "a number from 0 to 1"
                raise InputError(
                    f"{path}:{number}: '{key}' is '{value}', not {expected}; get a new copy of the file"
                ) from None
            if max(len(blocks[-1].raw), len(blocks[-1].smoothed)) > len(blocks[-1].captions):
                raise InputError(f"{path}:{number}: a score without a caption of its own")

    for block in blocks:
        n_captions = 1 if block.label is None else 2
        n_entries = {len(block.captions), len(block.raw), len(block.smoothed)}
        if n_entries != {n_captions}:
            raise InputError(
                f"{path}: image '{block.image_id}' has not {n_captions} captions with both scores; get a new copy"
            )

    if not blocks:
        raise InputError(f"{path}: no scores; lines such as 'our score : 0.4' are expected")

    return blocks


def read_score_table(path: Path) -> Table | None:
    """Return one of the authors' files as a table of scores, which a metric can be; None for any other file.

    Of a caption that stands twice with one image the last scores count, as in `load_fleur`.

    Returns:
        Columns `image, caption`, `score` and `our score` (the smoothed one), and `model score` (the raw one).
    """
    text = read_text(path)
    lines = [line for line in text[:_HEAD].splitlines() if line.strip()]
    # A copy may have a line above the first image.
    if not any(line.startswith("image file : ") for line in lines[:2]):
        return None

    columns: dict[str, list[Any]] = {
        "image": [],
        "caption": [],
        "model score": [],
        "our score": [],
    }
    rows: dict[tuple[str, str], tuple[float, float]] = {}
    for block in read_scores(path):
        for caption, raw, smoothed in zip(block.captions, block.raw, block.smoothed, strict=True):
            rows[block.image_id, caption] = (raw, smoothed)
    for (image_id, caption), (raw, smoothed) in rows.items():
        columns["image"].append(image_id)
        columns["caption"].append(caption)
        columns["model score"].append(raw)
        columns["our score"].append(smoothed)
    columns["score"] = columns["our score"]
    places = [f"{path}: image '{image_id}'" for image_id in columns["image"]]
    return Table(path, list(columns), places, columns.__getitem__)


def _add_line(block: ScoredImage, key: str, value: str) -> None:
    if key == "caption":
        block.captions.append(collapse_blanks(value))
        return
    if key == "label":
        block.label = ("0", "1").index(value)
        return

    score = float(value)
    if not 0 <= score <= 1:  # NaN is in no interval
        raise ValueError(value)
    scores = block.raw if key == "model score" else block.smoothed
    scores.append(score)
