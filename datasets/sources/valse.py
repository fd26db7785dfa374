"""VALSE: which of two captions is right, with the votes of three people a pair (Parcalabescu et al. 2022).

A foil differs from its caption in one phenomenon, which is the dimension: existence, plurality, counting, spatial
relations, actions, coreference, or a noun exchanged (`foil_it`). A vote is for the caption, for the foil (which the person
found to describe the image, maybe beside the caption), or for neither; the last counts as a tie. The authors call a pair
valid where at least two of three votes are for the caption.

References are joined by image. Those of the Karpathy test split have 345 of the 8,782 pairs, all of kinds whose images
are COCO's. The images of other kinds are those of SWiG, Visual7W and Visual Dialog; a number in their file names
(`foraging_137.jpg`) is no COCO id.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..reading.json_files import field
from ..reading.source_files import bibtex, github_file
from ..registry import dataset
from ..schema import CaptionSet, Card, SourceFile
from .coco_captions import ADDED_REFERENCES, TEST_REFERENCES
from .foil_pairs import FoilPair, join_references, read_rows

_REPOSITORY = "Heidelberg-NLP/VALSE"
_COMMIT = "2152d90d4aecd11f7f74cf03420abcb63efff9c5"
#: Each file's SHA-256.
_HASHES = {
    "existence": "b20fca52eba86c544083d423345a2e28e60e601ef61c56c9ac1c73a95a3a6d18",
    "plurals": "43760db7fc8c6f2a21d3536d52f81539cb101f3370e8d2effb09de43d91486a3",
    "counting-small-quant": "ca0645885b05738f6c6df2dffec70c669aaff64114017f33425821faab4bc374",
    "counting-adversarial": "0d23529308449c98b37a91048a865a5f377325eceb9accd73f2947bc512d12b0",
    "counting-hard": "2cc83615653675fb50914ce2d8ab4041cce1278eed7ac0abf6f319dbce5c967a",
    "relations": "061fc557459c318ccd6734d07c21cfa5bf5ae87aa6b1110b8f5ec3d6b2911043",
    "action-replacement": "336ba134f29a3475d0508809067218909a6bd30f079c59309d19244eccb7917f",
    "actant-swap": "915294ac3ade7c4c067b1c6841d0db93b60cb8a61ac8e2fb6b125c2a1c0ca93a",
    "coreference-standard": "dae1d9eb018acb54e29a1c4983f3563f86ec3b6beb4037a261564270b0473e95",
    "coreference-hard": "ef54d8d971d9e0f264e07de08d9915c6e3d6129a2f239888f2b938f5c2eb4139",
    "foil-it": "6f6f0d7494271ed28f6e6f075c3ba36ba1bc45d00ecf7403920f060915130460",
}
#: The winner that a vote is for.
WINNERS = {"caption": "a", "foil": "b", "other": "tie"}


def _source(name: str, sha256: str) -> SourceFile:
    return github_file(f"valse/{name}.json", _REPOSITORY, _COMMIT, f"data/{name}.json", sha256)


FILES = {name: _source(name, sha256) for name, sha256 in _HASHES.items()}
CARD = Card(
    name="valse",
    title="VALSE",
    revision=_COMMIT,
    licence="MIT",
    citation=bibtex("parcalabescu2022valse"),
    homepage=f"https://github.com/{_REPOSITORY}",
    sources=(*FILES.values(), TEST_REFERENCES, ADDED_REFERENCES),
    expected={"images": 316, "preferences": 1035},
    anonymous_raters=True,
    has_foils=True,
)


@dataset(CARD)
def load_valse(root: Path) -> CaptionSet:
    """VALSE's pairs of images whose references are here, with the votes of each."""
    return join_references(root, CARD, list(_pairs(root)))


def _pairs(root: Path) -> Iterator[FoilPair]:
    for name, key, row, where in read_rows(root, CARD, FILES):
        kind = name.replace("-", "_")
        yield FoilPair(
            pair_id=f"{kind}-{key}",
            kind=kind,
            image=field(row, "image_file", str, where),
            right=field(row, "caption", str, where),
            foil=field(row, "foil", str, where),
            winners=_winners(row, where),
        )


def _winners(row: Any, where: str) -> dict[str, str]:
    """Return the winner of each vote.

    Raises:
        InputError: where votes are no counts, or there are none.
    """
    counts = field(row, "mturk", dict, where)
    winners: list[str] = []
    for answer, winner in WINNERS.items():
        count = field(counts, answer, int, f"{where}: mturk")
        if count < 0:
            raise InputError(
                f"{where}: mturk: '{answer}' is {count}; a number of votes is expected"
            )
        winners += [winner] * count

    if not winners:
        raise InputError(f"{where}: no votes; mturk counts those for caption, foil and other")

    return {f"vote_{number}": winner for number, winner in enumerate(winners, start=1)}
