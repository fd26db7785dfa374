"""Flickr8k-CF: how many of three or more people on CrowdFlower say that a caption fits an image.

Hodosh et al. 2013. A rating is the share of yes. The candidates are captions that retrieval found,
often one of the image's own. Such a one counts, as in Hessel et al. 2021, whose script takes it out of
the image's references, so that it is not compared with itself. The JSON is that script's output; of
the original files this reader does the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..reading.source_files import find, locate
from ..registry import dataset
from ..schema import CaptionSet, Scale, SourceFile
from .fleur import COMMIT, fleur
from .flickr8k import CARD as EXPERT
from .flickr8k import TOKENS, ZIP, caption_set_of, pairs_of_json, pairs_of_text

JSON = fleur(
    "flickr8k/crowdflower_flickr8k.json", git_blob="418620d6c9b6d7fda903556da4359b97ca508cba"
)
CROWD = SourceFile(
    "flickr8k/CrowdFlowerAnnotations.txt",
    ZIP,
    "72a74aef443df4848fb1f3c23654ee9e0ca5b528198f68e2efedf11b6ca61260",
    alternative=True,
    downloads=(ZIP,),
    member="CrowdFlowerAnnotations.txt",
)

CARD = replace(
    EXPERT,
    name="flickr8k_cf",
    title="Flickr8k-CF",
    revision=COMMIT,
    scales={"overall": Scale(0, 1)},
    sources=(JSON, TOKENS, CROWD),
    expected={"images": 1000, "ratings": 47830},
)


@dataset(CARD)
def load_flickr8k_cf(root: Path) -> CaptionSet:
    """Flickr8k-CF, from the JSON where it is there, else from the two original text files."""
    tokens, crowd = locate(root, CARD, TOKENS), locate(root, CARD, CROWD)
    if locate(root, CARD, JSON) is None and tokens is not None and crowd is not None:
        return from_text(tokens, crowd, root)
    return from_json(find(root, CARD, JSON), root)


def from_json(path: Path, root: Path) -> CaptionSet:
    """From the JSON that the CLIPScore authors' script writes: image → references, judgements."""
    return caption_set_of(pairs_of_json(path, CARD), root, CARD, "crowd")


def from_text(tokens: Path, crowd: Path, root: Path) -> CaptionSet:
    """From the original `Flickr8k.token.txt` and `CrowdFlowerAnnotations.txt`."""
    numbers = "the share of yes, the count of yes and the count of no"
    pairs = pairs_of_text(tokens, crowd, CARD, numbers, _share)
    references = {pair.image_id: list(pair.references) for pair in pairs}
    for pair in pairs:
        for _ in pair.ratings:  # as the script does: of two equal references one stays
            if pair.caption in references[pair.image_id]:
                references[pair.image_id].remove(pair.caption)
    referenced_pairs = [replace(p, references=tuple(references[p.image_id])) for p in pairs]
    return caption_set_of(referenced_pairs, root, CARD, "crowd")


def _share(values: list[float], where: str) -> list[float]:
    share, yes, no = values
    if not (yes >= 0 and no >= 0 and yes + no >= 3 and abs(share * (yes + no) - yes) < 1e-4):
        raise InputError(
            f"{where}: the share of yes {share:g} is not that of {yes:g} yes and {no:g} no, "
            f"or these are fewer than three"
        )
    return [share]
