"""THumB 1.0: expert ratings of precision, recall and text quality of strong systems on COCO.

Kasai et al. 2022. Five systems, the human reference among them, on 500 images of the Karpathy test
split. `precision` and `recall` are whole numbers from 1 to 5; `fluency`, `inclusive` and `conciseness` are penalties,
stored negative as the release does; `total` is the mean of the first two plus the penalties.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..reading.json_files import field, rating, read_json_lines, texts
from ..reading.source_files import bibtex, find, github_file
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, Scale, SourceFile

_COMMIT = "fd099b4f311d9c4fd24e6c58ef0df038ec1615f3"


def _source(name: str, sha256: str) -> SourceFile:
    return github_file(f"thumb/{name}", "jungokasai/THumB", _COMMIT, f"mscoco/{name}", sha256)


JUDGEMENTS = _source(
    "mscoco_THumB-1.0.jsonl", "463ebf947c793a541922ead33eb10a885e77c19e9c7d27cf89e034bfff643efa"
)
# JSON lines, whatever its ending says.
REFERENCES = _source(
    "mscoco_references.json", "897672f1f53ed33a376237c33fabc89ebbd04b40e9ced82691c2e9c9324d8fdf"
)

# The release's key → our dimension.
DIMENSIONS = {
    "P": "precision",
    "R": "recall",
    "Fl": "fluency",
    "Inc": "inclusive",
    "Con": "conciseness",
    "human_score": "total",
}

CARD = Card(
    name="thumb",
    title="THumB 1.0",
    short_title="THumB",
    revision=_COMMIT,
    licence="not stated by the release; captions CC BY 4.0 (COCO)",
    citation=bibtex("kasai2022transparent"),
    homepage="https://github.com/jungokasai/THumB",
    scales={
        "precision": Scale(1, 5, 1),
        "recall": Scale(1, 5, 1),
        "fluency": Scale(-5, 0),
        "inclusive": Scale(-5, 0),
        "conciseness": Scale(-5, 0),
        "total": Scale(-9, 5),
    },
    totals=("total",),
    headline="total",
    single_values={
        **dict.fromkeys(("precision", "recall"), "one rating"),
        **dict.fromkeys(("fluency", "inclusive", "conciseness"), "one penalty"),
        "total": "the mean of precision and recall less the penalties",
    },
    sources=(JUDGEMENTS, REFERENCES),
    expected={"images": 500, "items": 2500, "ratings": 15000},
)


@dataset(CARD)
def load_thumb(root: Path) -> CaptionSet:
    """THumB 1.0 with its four references an image (the fifth is what the system Human says)."""
    references_path = find(root, CARD, REFERENCES)
    references: dict[str, tuple[str, ...]] = {}
    for number, row in read_json_lines(references_path):
        where = f"{references_path}:{number}"
        image_id = field(row, "seg_id", str, where)
        references[image_id] = texts(row, "refs", where)

    path = find(root, CARD, JUDGEMENTS)
    # A system has one caption an image, as is checked below.
    builder = CaptionSetBuilder(joins_equal=False)
    lines: dict[tuple[str, str], int] = {}
    for number, row in read_json_lines(path):
        where = f"{path}:{number}"
        image_id = field(row, "seg_id", str, where)
        if image_id not in references:
            raise InputError(f"{where}: image '{image_id}' has no line in {references_path}")

        caption = field(row, "hyp", str, where)
        system = field(row, "SYS", str, where)
        first = lines.setdefault((image_id, system), number)
        if first != number:
            raise InputError(
                f"{where}: system '{system}' has a caption of image '{image_id}' on line {first} already; keep one"
            )

        item = builder.add_item(image_id, caption, references[image_id], system)
        for key, dimension in DIMENSIONS.items():
            # Adding 0.0 turns the release's -0.0 into 0.0.
            value = rating(row, key, CARD.scales[dimension], where) + 0.0
            builder.rate(item, dimension, "authors", value)

    return builder.build(CARD)
