"""PASCAL-50S: which of two captions of an image is the better one (Vedantam et al. 2015).

Four categories of pairs: HC (two human captions, both right), HI (two human captions, one of
another image), HM (a human and a machine caption), MM (two machine captions). The file at hand
holds one fixed draw of 5 of the 50 references; papers average over several draws.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..preferences import make_preferences
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import find
from ..registry import dataset
from ..schema import CaptionSet, Card, make_items
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
    citation="""@inproceedings{vedantam2015cider,
  title={CIDEr: Consensus-based Image Description Evaluation},
  author={Vedantam, Ramakrishna and Zitnick, C. Lawrence and Parikh, Devi},
  booktitle={CVPR},
  pages={4566--4575},
  year={2015}
}""",
    homepage="https://vrama91.github.io/cider/",
    sources=(PAIRS,),
    expected={"images": 1000, "preferences": 4000},
)


@dataset(CARD)
def load_pascal50s(root: Path) -> CaptionSet:
    """PASCAL-50S as preferences; a caption that stands in several pairs of an image is one item."""
    path = find(root, CARD, PAIRS)
    table = read_json(path)
    keys: dict[tuple[str, str, tuple[str, ...]], int] = {}
    pairs: list[tuple[str, int, int, str, str]] = []
    for category in CATEGORIES:
        for number, pair in enumerate(field(table, category, list, str(path))):
            where = f"{path}: {category}[{number}]"
            image_id = Path(field(pair, "image", str, where)).name
            captions, references = texts(pair, "captions", where), texts(pair, "references", where)
            label = field(pair, "label", int, where)
            if len(captions) != 2 or label not in (0, 1):
                raise InputError(f"{where}: two captions and a label of 0 or 1 are expected")
            a, b = (keys.setdefault((image_id, c, references), len(keys)) for c in captions)
            pairs.append((f"{category}-{number:04d}", a, b, category, "ab"[label]))
    items = make_items([k[0] for k in keys], [k[1] for k in keys], [k[2] for k in keys])
    ids = list(items["item_id"])
    preferences = make_preferences(
        (pair_id, ids[a], ids[b], category, winner) for pair_id, a, b, category, winner in pairs
    )
    return CaptionSet(items, preferences=preferences, card=CARD)
