"""Six images with three references each, and a caption of each: the set that files of the field's shapes say in other words.

The captions are made up. CIDEr of pycocoevalcap is 1.5879 of them, so that any other number means that a file changed the
score.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REFERENCES = {
    391895: (
        "a man riding a motorcycle on a dirt road",
        "a rider on a motorbike in the country",
        "a person on a bike on a muddy path",
    ),
    522418: (
        "a woman cutting a cake in a kitchen",
        "a lady slices a large white cake",
        "a woman wearing a net on her head cutting a cake",
    ),
    184613: (
        "a child holding a flowered umbrella and petting a yak",
        "a boy with an umbrella touching a cow",
        "a young boy stands next to cattle",
    ),
    318219: (
        "a young boy standing in front of a computer keyboard",
        "a little kid looks at a computer screen",
        "a boy at a desk with a computer",
    ),
    554625: (
        "a boy wearing headphones using a computer",
        "a child in headphones types",
        "a kid sits at a computer with headphones on",
    ),
    574769: (
        "a woman in a room with a cat",
        "a girl smiles as she holds a cat",
        "a woman is holding a cat in her kitchen",
    ),
}
CAPTIONS = {
    391895: "a man rides a motorbike on a dirt road",
    522418: "a woman cuts a cake with a knife",
    184613: "a child holds an umbrella next to a cow",
    318219: "a boy sits in front of a computer",
    554625: "a kid with headphones types on a keyboard",
    574769: "a woman sits with a cat on her lap",
}
#: CIDEr of the set, as pycocoevalcap computes it, times 100 and rounded as tables are.
CIDER = 158.8

RESULTS = [{"image_id": i, "caption": caption} for i, caption in CAPTIONS.items()]
ROWS = [{"image_id": i, "references": list(texts)} for i, texts in REFERENCES.items()]
ANNOTATIONS = [
    {"image_id": i, "id": 10 * number + k, "caption": text}
    for number, (i, texts) in enumerate(REFERENCES.items())
    for k, text in enumerate(texts)
]


def file_name(image_id: int) -> str:
    """The name of an image's file in COCO's validation set."""
    return f"COCO_val2014_{image_id:012}.jpg"


#: COCO's annotations of the set.
COCO: dict[str, Any] = {
    "info": {},
    "licenses": [],
    "type": "captions",
    "images": [{"id": i, "file_name": file_name(i)} for i in REFERENCES],
    "annotations": ANNOTATIONS,
}


def write(path: Path, content: Any) -> Path:
    """Write bytes or a text as it is, and anything else as JSON."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return path


def with_captions(change: Any) -> list[dict[str, Any]]:
    """COCO results whose captions are changed by a function."""
    return [{**row, "caption": change(row["caption"])} for row in RESULTS]


def with_ids(change: Any) -> list[dict[str, Any]]:
    """COCO results whose image ids are changed by a function."""
    return [{**row, "image_id": change(row["image_id"])} for row in RESULTS]
