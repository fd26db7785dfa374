"""PASCAL-50S: which of two captions of an image is the better one (Vedantam et al. 2015).

Four categories of pairs: HC (two human captions, both right), HI (two human captions, one of
another image), HM (a human and a machine caption), MM (two machine captions).

There are two sets of judgements of the same 4,000 pairs. `pascal50s` has those that papers of 2021 and later take: which
caption more of 48 people preferred, who each compared the two with one reference. FLEUR's file of them holds one fixed draw
of 5 of the 50 references; papers average over several draws. `pascal50s_votes` has the 11 votes a pair that CLIPScore's
Table 7 and UMIC's Table 1 rest on, and all 50 references of an image, from MATLAB files of CIDEr's authors.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import field, read_json, texts
from ..reading.source_files import bibtex, find, github_file
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

            a = builder.add_item(image_id, captions[0], references)
            b = builder.add_item(image_id, captions[1], references)
            builder.prefer(f"{category}-{number:04d}", a, b, category, "ab"[label])

    return builder.build(CARD)


_MATLAB_COMMIT = "febe63b05723c1fdb4cb47d646a9ca90f33e8c59"


def _matlab_file(name: str, sha256: str) -> Any:
    path = f"pascal50s_votes/{name}"
    return github_file(path, "vrama91/cider-matlab", _MATLAB_COMMIT, f"data/{name}", sha256)


VOTES = _matlab_file(
    "pair_pascal.mat", "63925be0d9a9d98d68cfdef2be6667a87b6ee23f08f3a1397edaaee07ad09d84"
)
ALL_REFERENCES = _matlab_file(
    "pascal50S.mat", "f927c038104d9579ce89be6b8c1a10415b41ce02519becc28238b6fb75a145ac"
)
VOTES_CARD = replace(
    CARD,
    name="pascal50s_votes",
    title="PASCAL-50S, 11 votes a pair",
    short_title="P50S votes",
    revision=_MATLAB_COMMIT,
    sources=(VOTES, ALL_REFERENCES),
    expected={"images": 1000, "preferences": 43994},
    anonymous_raters=True,
)


@dataset(VOTES_CARD)
def load_pascal50s_votes(root: Path) -> CaptionSet:
    """PASCAL-50S with the 11 votes of each pair; the references are the image's 50 but for the pair's own captions."""
    path = find(root, VOTES_CARD, VOTES)
    all_references = read_all_references(find(root, VOTES_CARD, ALL_REFERENCES))
    table = _read_matlab(path, "new_input", "category", "result")
    pairs, categories, results = table["new_input"], table["category"], table["result"]
    if not len(pairs) == len(categories) == len(results):
        raise InputError(
            f"{path}: {len(pairs):,} pairs, {len(categories):,} categories and {len(results):,} results are not as many "
            "of each; download the file anew"
        )
    builder = CaptionSetBuilder(joins_equal=True)
    for number, (pair, category, result) in enumerate(zip(pairs, categories, results, strict=True)):
        where = f"{path}: pair {number}"
        image_id = Path(_text(pair, "name", where)).name
        captions = (_text(pair, "sent1", where), _text(pair, "sent2", where))
        if image_id not in all_references:
            raise InputError(
                f"{where}: {ALL_REFERENCES.path} has no references of its image '{image_id}'"
            )
        if category not in range(1, len(CATEGORIES) + 1):
            raise InputError(
                f"{where}: its category is {category}; a number from 1 to 4 is expected"
            )
        references = leave_out_captions(all_references[image_id], captions)
        a = builder.add_item(image_id, captions[0], references)
        b = builder.add_item(image_id, captions[1], references)
        dimension = CATEGORIES[int(category) - 1]
        for rater, vote in enumerate(_votes(result, where), start=1):
            builder.prefer(
                pair_id=f"{dimension}-{number:04d}",
                item_a=a,
                item_b=b,
                dimension=dimension,
                winner=float(vote),
                rater=f"vote_{rater}",
            )
    return builder.build(VOTES_CARD)


def leave_out_captions(references: tuple[str, ...], captions: tuple[str, ...]) -> tuple[str, ...]:
    """Return an image's references but for those that are one of a pair's captions.

    People's captions of the pairs are among the image's 50 sentences.
    """
    return tuple(reference for reference in references if reference not in captions)


def read_all_references(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the 50 references of each image, by its file name, from `pascal50S.mat`.

    Raises:
        InputError: where the file is malformed.
    """
    references: dict[str, tuple[str, ...]] = {}
    for number, image in enumerate(_read_matlab(path, "refs")["refs"]):
        where = f"{path}: image {number}"
        sentences = _cell(image, "sent", where).ravel()
        image_id = Path(_text(image, "image", where)).name
        texts_of_image: list[str] = []
        for sentence in sentences:
            texts_of_image.append(collapse_blanks(_as_text(sentence, where)))
        references[image_id] = tuple(texts_of_image)
    return references


def _read_matlab(path: Path, *names: str) -> dict[str, NDArray[Any]]:
    """Read variables of a MATLAB file of version 5, each flat.

    Raises:
        InputError: where it is something else, or lacks one.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        table = loadmat(path)
    except (
        MatReadError,
        LookupError,
        NotImplementedError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(
            f"{path}: not a MATLAB file that can be read ({error}); download it anew"
        ) from error
    except (struct.error, zlib.error, MemoryError) as error:
        raise InputError(f"{path}: a damaged MATLAB file ({error}); download it anew") from error
    for name in names:
        if name not in table:
            raise InputError(f"{path}: no variable '{name}'; is this the file of CIDEr's authors?")
    # MATLAB's vectors have two dimensions.
    return {name: np.asarray(table[name]).ravel() for name in names}


def _cell(record: Any, name: str, where: str) -> NDArray[Any]:
    fields = getattr(getattr(record, "dtype", None), "names", None) or ()
    if name not in fields:
        raise InputError(f"{where}: no field '{name}'; is this the file of CIDEr's authors?")
    return np.asarray(record[name])


def _text(record: Any, name: str, where: str) -> str:
    return collapse_blanks(_as_text(_cell(record, name, where), where))


def _as_text(value: Any, where: str) -> str:
    texts_of_cell = np.asarray(value).ravel()
    if len(texts_of_cell) != 1 or not isinstance(texts_of_cell[0], str):
        raise InputError(f"{where}: a text is expected, not {np.asarray(value)!r:.60}")
    return str(texts_of_cell[0])


def _votes(result: Any, where: str) -> Iterator[int]:
    """Yield 1 for each vote for the first caption, -1 for each for the second."""
    votes = _cell(result, "result", where).ravel().tolist()
    for vote in votes:
        if vote not in (1, -1):
            raise InputError(
                f"{where}: a vote is {vote!r}; 1 (the first caption) or -1 is expected"
            )
    if not votes:
        raise InputError(f"{where}: no votes")
    yield from votes
