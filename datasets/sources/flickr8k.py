"""Flickr8k's references, and people's ratings of retrieved captions: Flickr8k-Expert and Flickr8k-CF.

Hodosh et al. 2013. The candidates are captions that retrieval found, so most are unrelated, and some are the image's
own. Of Flickr8k-Expert, the 158 pairs whose candidate is one of the image's own references are left out, as the field
does since Anderson et al. 2016. In Flickr8k-CF such a one counts, as in Hessel et al. 2021, whose script takes it out
of the image's references, so that it is not compared with itself. The JSON is that script's output; of the original
files this reader does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as field_
from math import isnan
from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.cells import parse_number
from ..reading.json_files import field, rating, read_json, read_text, texts
from ..reading.source_files import bibtex, find, locate
from ..registry import dataset
from ..schema import (
    CaptionSet,
    CaptionSetBuilder,
    Card,
    Scale,
    SourceFile,
    format_rating,
    on_scale,
)
from .fleur import COMMIT, fleur

ZIP = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k/Flickr8k_text.zip"

EXPERT_JSON = fleur(
    "flickr8k/flickr8k.json",
    sha256="835162c77b014cd2191bea942189272af1a54628e0b6c4693f08a2a8d2691fff",
)


def _zip_file(name: str, sha256: str) -> SourceFile:
    """Return a file of Flickr8k_text.zip, which is the same in every copy that was looked at."""
    path = f"flickr8k/{name}"
    return SourceFile(path, ZIP, sha256, alternative=True, downloads=(ZIP,), member=name)


TOKENS = _zip_file(
    "Flickr8k.token.txt", "1e1f3a371ba1a1bf742e6930521c037e046b2bf3fcc2390ba8405e0301ed7689"
)
EXPERTS = _zip_file(
    "ExpertAnnotations.txt", "56c2b1a9e1a46ba73b8b151abd7c3c8b1676fbacadb559d0c2eb6524b166cf4f"
)

FLICKR8K_EXPERT = Card(
    name="flickr8k_expert",
    title="Flickr8k-Expert",
    short_title="F8k-Expert",
    revision=COMMIT,
    licence="CC0-1.0 for the judgements; the photographs remain their owners'",
    citation=bibtex("hodosh2013framing"),
    homepage="https://hockenmaier.cs.illinois.edu/Framing_Image_Description/KCCA.html",
    scales={"overall": Scale(1, 4, 1)},
    sources=(EXPERT_JSON, TOKENS, EXPERTS),
    expected={"images": 1000, "items": 5664, "ratings": 16992},
    anonymous_raters=True,
)


CROWD_JSON = fleur(
    "flickr8k/crowdflower_flickr8k.json", git_blob="418620d6c9b6d7fda903556da4359b97ca508cba"
)
CROWD = _zip_file(
    "CrowdFlowerAnnotations.txt",
    "72a74aef443df4848fb1f3c23654ee9e0ca5b528198f68e2efedf11b6ca61260",
)

FLICKR8K_CF = replace(
    FLICKR8K_EXPERT,
    name="flickr8k_cf",
    title="Flickr8k-CF",
    short_title="F8k-CF",
    scales={"overall": Scale(0, 1)},
    sources=(CROWD_JSON, TOKENS, CROWD),
    expected={"images": 1000, "ratings": 47830},
    single_values={"overall": "the share of three or more people who said that it fits the image"},
)


@dataclass(frozen=True)
class Pair:
    """A candidate of an image, the image's references, and how the candidate was rated."""

    image_id: str
    caption: str
    references: tuple[str, ...]
    ratings: list[float] = field_(default_factory=list[float])


@dataset(FLICKR8K_EXPERT)
def load_flickr8k_expert(root: Path) -> CaptionSet:
    """Flickr8k-Expert: three experts' ratings."""
    card = FLICKR8K_EXPERT
    path, pairs = _read_pairs(
        root,
        card,
        json_file=EXPERT_JSON,
        text_file=EXPERTS,
        numbers="three ratings",
        ratings=lambda values, _: values,
    )
    foreign_pairs = [pair for pair in pairs if pair.caption not in pair.references]
    for pair in foreign_pairs:
        if len(pair.ratings) != 3:
            raise InputError(
                f"{path}: image '{pair.image_id}', caption '{pair.caption}': the ratings of three "
                f"experts are expected, not {len(pair.ratings)}"
            )

    return _caption_set(foreign_pairs, root, card, "expert")


def read_expert_pairs(root: Path) -> list[Pair]:
    """Read all pairs of Flickr8k-Expert's original file, those with a caption of the image's own references among them.

    Raises:
        InputError: where a file is missing or malformed.
    """
    card = FLICKR8K_EXPERT
    tokens = find(root, card, TOKENS)
    judgements = find(root, card, EXPERTS)
    return _pairs_of_text(tokens, judgements, card, "three ratings", lambda values, _: values)


@dataset(FLICKR8K_CF)
def load_flickr8k_cf(root: Path) -> CaptionSet:
    """Flickr8k-CF: the share of three or more people on CrowdFlower who say that a caption fits an image."""
    card = FLICKR8K_CF
    path, pairs = _read_pairs(
        root,
        card,
        json_file=CROWD_JSON,
        text_file=CROWD,
        numbers="the share of yes, the count of yes and the count of no",
        ratings=_share,
    )
    # The JSON is what the script wrote; of the original files its work is still to be done.
    if path.suffix == ".txt":
        references = {pair.image_id: list(pair.references) for pair in pairs}
        for pair in pairs:
            for _ in pair.ratings:  # as the script does: of two equal references one stays
                if pair.caption in references[pair.image_id]:
                    references[pair.image_id].remove(pair.caption)
        references_left = {image_id: tuple(texts) for image_id, texts in references.items()}
        pairs = [
            Pair(pair.image_id, pair.caption, references_left[pair.image_id], pair.ratings)
            for pair in pairs
        ]

    return _caption_set(pairs, root, card, "crowd")


def _share(values: list[float], where: str) -> list[float]:
    share, yes, no = values
    n_answers = yes + no
    is_share = yes >= 0 and no >= 0 and n_answers >= 3 and abs(share * n_answers - yes) < 1e-4
    if not is_share:
        raise InputError(
            f"{where}: the share of yes {share:g} is not that of {yes:g} yes and {no:g} no, "
            f"or these are fewer than three"
        )

    return [share]


def _read_pairs(
    root: Path,
    card: Card,
    json_file: SourceFile,
    text_file: SourceFile,
    numbers: str,
    ratings: Callable[[list[float], str], list[float]],
) -> tuple[Path, list[Pair]]:
    """Read the pairs from the JSON where it is there, else from the two original text files.

    Args:
        root, card, json_file, text_file: the files and where they are.
        numbers, ratings: see `_pairs_of_text`.

    Returns:
        The file of the judgements, and the pairs.
    """
    tokens = locate(root, card, TOKENS)
    judgements = locate(root, card, text_file)
    if locate(root, card, json_file) is None and tokens is not None and judgements is not None:
        return judgements, _pairs_of_text(tokens, judgements, card, numbers, ratings)

    path = find(root, card, json_file)
    return path, _pairs_of_json(path, card)


def _pairs_of_json(path: Path, card: Card) -> list[Pair]:
    """From the JSON of the CLIPScore authors' script; a pair rated several times is one.

    Raises:
        InputError: where the file is malformed, or a rating is not on the card's scale.
    """
    pairs: dict[tuple[str, str], Pair] = {}
    for where, image_id, references, image in _images(path):
        for judgement in field(image, "human_judgement", list, where):
            caption = collapse_blanks(field(judgement, "caption", str, where))
            pair = pairs.setdefault((image_id, caption), Pair(image_id, caption, references))
            pair.ratings.append(rating(judgement, "rating", card.scales["overall"], where))

    return list(pairs.values())


def _pairs_of_text(
    tokens: Path,
    judgements: Path,
    card: Card,
    numbers: str,
    ratings: Callable[[list[float], str], list[float]],
) -> list[Pair]:
    """From a token file and a text file of judgements: image, caption id and three numbers a line.

    Args:
        tokens, judgements: the files.
        card: has the scale.
        numbers: what the three numbers are, for messages.
        ratings: makes ratings of them; given the place too, for messages.

    Raises:
        InputError: where a file is malformed, or a rating is not on the scale.
    """
    captions = read_token_file(tokens)
    references = references_of(captions)
    pairs: dict[tuple[str, str], Pair] = {}
    # Many lines have the same three numbers, which are read and checked once.
    ratings_of_cells: dict[tuple[str, ...], list[float]] = {}
    for number, line in enumerate(read_text(judgements).split("\n"), start=1):
        if not line.strip():
            continue

        where = f"{judgements}:{number}"
        cells = line.split()
        if len(cells) != 5:
            raise InputError(
                f"{where}: image, caption id and {numbers} are expected, not {len(cells)} columns"
            )

        image_id, caption_id, *number_cells = cells
        if caption_id not in captions:
            raise InputError(f"{where}: caption '{caption_id}' is not in {tokens.name}")
        if image_id not in references:
            raise InputError(f"{where}: image '{image_id}' is not in {tokens.name}")

        cells_of_line = tuple(number_cells)
        if cells_of_line not in ratings_of_cells:
            values = ratings(_parse_numbers(number_cells, where), where)
            _check_on_scale(values, card.scales["overall"], where)
            ratings_of_cells[cells_of_line] = values
        key = image_id, captions[caption_id]
        pair = pairs.setdefault(key, Pair(*key, references[image_id]))
        pair.ratings.extend(ratings_of_cells[cells_of_line])

    return list(pairs.values())


def _parse_numbers(cells: list[str], where: str) -> list[float]:
    """Return the numbers of a line of judgements.

    Raises:
        InputError: where a cell is not a number.
    """
    numbers = list(map(parse_number, cells))
    for cell, number in zip(cells, numbers, strict=True):
        if isnan(number):
            raise InputError(f"{where}: a rating is not a number ('{cell}')")

    return numbers


def _check_on_scale(values: list[float], scale: Scale, where: str) -> None:
    """Check that ratings are on the scale.

    Raises:
        InputError: where one of them is not.
    """
    for value in values:
        if not on_scale(scale, value):
            raise InputError(f"{where}: rating {format_rating(value)} is not on the scale {scale}")


def read_token_file(path: Path) -> dict[str, str]:
    """Flickr's token file: caption id (`IMAGE.jpg#N`) → caption.

    Raises:
        InputError: at a line without a tab or without `#` in its caption id.
    """
    captions: dict[str, str] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        caption_id, tab, caption = line.partition("\t")
        if not tab or "#" not in caption_id:
            raise InputError(f"{path}:{number}: 'IMAGE.jpg#N', a tab and a caption are expected")
        captions[caption_id] = collapse_blanks(caption)

    return captions


def references_of(captions: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Image id → its captions, from what `read_token_file` returns."""
    references: dict[str, tuple[str, ...]] = {}
    for caption_id, caption in captions.items():
        image_id = caption_id.rpartition("#")[0]
        references[image_id] = (*references.get(image_id, ()), caption)

    return references


def flickr8k_references(root: Path, card: Card) -> dict[str, tuple[str, ...]]:
    """Image id → its five references, from the token file, else from the JSON.

    Raises:
        InputError: where neither is there.
    """
    tokens = locate(root, card, TOKENS)
    if tokens is not None:
        return references_of(read_token_file(tokens))

    path = find(root, card, EXPERT_JSON)
    return {image_id: references for _, image_id, references, _ in _images(path)}


def _images(path: Path) -> Iterator[tuple[str, str, tuple[str, ...], Any]]:
    """Each image of the JSON: its place for messages, its id, its references, and all of it."""
    images = read_json(path)
    if not isinstance(images, dict):
        raise InputError(f"{path}: an object of images is expected; is this flickr8k.json?")

    places: dict[str, str] = {}
    for key, image in images.items():
        where = f"{path}: image '{key}'"
        image_id = Path(field(image, "image_path", str, where)).name
        if places.setdefault(image_id, key) != key:
            raise InputError(
                f"{where}: its file {image_id} is that of image '{places[image_id]}' too"
            )
        references = tuple(collapse_blanks(text) for text in texts(image, "ground_truth", where))
        yield where, image_id, references, image


def _caption_set(pairs: list[Pair], root: Path, card: Card, rater: str) -> CaptionSet:
    """A set of pairs, whose k-th rating is by `RATER_k`; with images where the photographs are."""
    # Pairs are different already.
    builder = CaptionSetBuilder(joins_equal=False)
    for pair in pairs:
        item = builder.add_item(pair.image_id, pair.caption, pair.references)
        for k, value in enumerate(pair.ratings, start=1):
            builder.rate(item, "overall", f"{rater}_{k}", value)

    folder = root / "flickr8k" / "Flickr8k_Dataset"
    images = None
    if folder.is_dir():
        images = [str(folder / pair.image_id) for pair in pairs]

    return builder.build(card, images=images)
