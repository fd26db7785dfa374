"""SugarCrepe: which of two captions is right, COCO's or the same with one fault that reads as well (Hsieh et al. 2023).

A large model wrote the faulty captions, and people checked them, so that neither fluency nor common sense tells them
apart. The seven kinds, which are the dimensions, replace, swap or add an object, an attribute or a relation.

The right caption is one of COCO's of its image: `own_references: leave_out_pair` leaves it out for both. References are joined
by image. Of the images of the Karpathy test split 852 of the 7,511 pairs have some; with COCO's own captions all
validation images do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..reading.json_files import field
from ..reading.source_files import bibtex, github_file
from ..registry import dataset
from ..schema import CaptionSet, Card, SourceFile
from .coco_captions import ADDED_REFERENCES, TEST_REFERENCES
from .foil_pairs import FoilPair, join_references, read_rows

_REPOSITORY = "RAIVNLab/sugar-crepe"
_COMMIT = "0047054b243992f0fad63d6f64f7544862daf846"
#: Each kind's SHA-256.
_HASHES = {
    "replace_obj": "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898",
    "replace_att": "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee",
    "replace_rel": "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9",
    "swap_obj": "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad",
    "swap_att": "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0",
    "add_obj": "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682",
    "add_att": "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d",
}


def _source(kind: str, sha256: str) -> SourceFile:
    return github_file(f"sugarcrepe/{kind}.json", _REPOSITORY, _COMMIT, f"data/{kind}.json", sha256)


FILES = {kind: _source(kind, sha256) for kind, sha256 in _HASHES.items()}
CARD = Card(
    name="sugarcrepe",
    title="SugarCrepe",
    revision=_COMMIT,
    licence="MIT",
    citation=bibtex("hsieh2023sugarcrepe"),
    homepage=f"https://github.com/{_REPOSITORY}",
    sources=(*FILES.values(), TEST_REFERENCES, ADDED_REFERENCES),
    expected={"images": 183, "preferences": 852},
    has_foils=True,
)


@dataset(CARD)
def load_sugarcrepe(root: Path) -> CaptionSet:
    """SugarCrepe's pairs of images whose references are here."""
    return join_references(root, CARD, list(_pairs(root)))


def _pairs(root: Path) -> Iterator[FoilPair]:
    for kind, key, row, where in read_rows(root, CARD, FILES):
        yield FoilPair(
            pair_id=f"{kind}-{key}",
            kind=kind,
            image=field(row, "filename", str, where),
            right=field(row, "caption", str, where),
            foil=field(row, "negative_caption", str, where),
        )
