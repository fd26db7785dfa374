"""BILLBOARD's scores of THumB's machine captions, for `captau reproduce paper=thumb_2022`.

Kasai et al. 2022 (BILLBOARD) publish the scores of metrics that THumB's paper prints means and correlations of. Those of
CLIPScore and RefCLIPScore are read, which need images and a model here. They are scores of metrics and not judgements of
people, though they stand as ratings. The files have a row for each image, in columns `SYS, seg_id, set_id, metric, score`.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from ..errors import InputError
from ..reading.source_files import bibtex, find, github_file
from ..reading.table import read_table
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, Scale, SourceFile
from .thumb import JUDGEMENTS, REFERENCES, load_thumb

_COMMIT = "94c71690539d4dc64ade209055248542504c696c"
#: The SHA-256 of the file of each system and metric, as the release calls them.
_HASHES = {
    ("VinVL-large", "CLIPS"): "a0c42440e76d58b5c7057b0e9503601fba64edf3e467c409f714ebe76f68662c",
    ("VinVL-base", "CLIPS"): "c8c8752a7891a04b54da453555420b3c68c7ab22e9af7fa6e4fd8ca82774c8e8",
    ("Unified-VLP", "CLIPS"): "5571fbe8d0e5084606dd2ee62f07fcee4e6bd1d49f6c73610d317a2e5cade0a7",
    ("Up-Down", "CLIPS"): "65eb196c788a6f9ad25f3a5d2555631fd9495342907bd19223f3cea1381fed41",
    ("VinVL-large", "RefCLIPS"): "c38f639bbd030f871c8ccd0516902f5aeb2fc60adc1f5ba57b79e51734c403b0",
    ("VinVL-base", "RefCLIPS"): "b51607d458f0f2ac33d2ab424780d28e697095154e0ff292deaa7f182a0f0dcc",
    ("Unified-VLP", "RefCLIPS"): "a51586e71d2e1bdefb91338d1681d3783bc6d9a7ecf4f8d4d9e87832e4abbf0d",
    ("Up-Down", "RefCLIPS"): "4abbee75c41f3c7f1eb7d058e5053509cd8ccd71d8a36b2f78723c4f1cce5a70",
}


def _source(system: str, metric: str, sha256: str) -> SourceFile:
    file = f"{system}||{metric}.csv"
    return github_file(
        f"billboard_thumb/{file}",
        "jungokasai/billboard",
        _COMMIT,
        f"results/mscoco/{quote(file)}",
        sha256,
    )


FILES = {
    (system, metric): _source(system, metric, sha256)
    for (system, metric), sha256 in _HASHES.items()
}
#: CLIPScore is 2.5 times a cosine that is 0 at least.
_SCALE = Scale(0, 2.5)
CARD = Card(
    name="billboard_thumb",
    title="BILLBOARD's scores of THumB's captions (metrics', not people's)",
    revision=_COMMIT,
    licence="not stated by the release, which must not be redistributed",
    citation=bibtex("kasai2022bidimensional"),
    homepage="https://github.com/jungokasai/billboard",
    scales={"CLIPS": _SCALE, "RefCLIPS": _SCALE},
    single_values={
        "CLIPS": "the authors' CLIPScore, no judgement of people",
        "RefCLIPS": "the authors' RefCLIPScore of five references, no judgement of people",
    },
    sources=(*FILES.values(), JUDGEMENTS, REFERENCES),
    expected={"images": 500, "items": 2000, "ratings": 4000},
    has_references=False,
)


@dataset(CARD)
def load_billboard_thumb(root: Path) -> CaptionSet:
    """Read the two metrics' scores of the captions of THumB's four machines.

    Raises:
        InputError: where a file scores an image that its system has no caption of.
    """
    tables = {key: read_table(find(root, CARD, source)) for key, source in FILES.items()}
    items = load_thumb(root).items
    captions: dict[tuple[str, str], str] = {}
    columns = (items["system"], items["image_id"], items["caption"])
    for system, image_id, caption in zip(*columns, strict=True):
        captions[system, image_id] = caption

    builder = CaptionSetBuilder(joins_equal=False)
    item_numbers: dict[tuple[str, str], int] = {}
    for (system, metric), table in tables.items():
        image_ids = table.texts("seg_id")
        scores = table.floats("score", _SCALE)
        for location, image_id, score in zip(table.places, image_ids, scores, strict=True):
            key = system, image_id
            if key not in captions:
                raise InputError(
                    f"{location}: {system} has no caption of image '{image_id}' in THumB"
                )
            if key not in item_numbers:
                item_numbers[key] = builder.add_item(image_id, captions[key], system=system)
            builder.rate(item_numbers[key], metric, "BILLBOARD", score)

    return builder.build(CARD)
