"""PASCAL-50S: which of two captions of an image is the better one (Vedantam et al. 2015).

Four categories of pairs: HC (two human captions, both right), HI (two human captions, one of
another image), HM (a human and a machine caption), MM (two machine captions). The file at hand
holds one fixed draw of 5 of the 50 references; papers average over several draws.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import bibtex, find
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card
from .fleur import COMMIT, fleur

CATEGORIES = ("HC", "HI", "HM", "MM")

PAIRS = fleur(
    "pascal50s/pascal_50s.json",
    sha256="f6033bbcf74583a22d289cf080fff5b930c04cf6d29e33e0170552e8e0237da9",
)

CARD = Card(
    name="pascal50s",
    title="PASCAL-50S",
    revision=COMMIT,
    licence="not stated by the release",
    citation=bibtex("vedantam2015cider"),
    homepage="https://vrama91.github.io/cider/",
    sources=(PAIRS,),
    expected={"images": 1000, "preferences": 4000},
)


@dataset(CARD)
def load_pascal50s(root: Path) -> CaptionSet:
    """PASCAL-50S as preferences; a caption that stands in several pairs of an image is one item."""
    path = find(root, CARD, PAIRS)
    table = read_json(path)
    builder = CaptionSetBuilder(joins_equal=True)
    for category in CATEGORIES:
        for number, pair in enumerate(field(table, category, list, str(path))):
            where = f"{path}: {category}[{number}]"
            image_id = Path(field(pair, "image", str, where)).name
            captions = texts(pair, "captions", where)
            references = texts(pair, "references", where)
            label = field(pair, "label", int, where)
            if len(captions) != 2 or label not in (0, 1):
                raise InputError(f"{where}: two captions and a label of 0 or 1 are expected")

            a, b = (builder.add_item(image_id, caption, references) for caption in captions)
            builder.prefer(f"{category}-{number:04d}", a, b, category, "ab"[label])

    return builder.build(CARD)
