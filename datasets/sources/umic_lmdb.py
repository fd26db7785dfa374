"""The LMDB text databases of the UMIC authors (Lee et al. 2021): CapEval1k and Composite.

A value is LZ4-framed msgpack `{input_ids, img_fname, target}`. The candidate is stored as
bert-base-cased word pieces and is joined back at `##`, which puts blanks around punctuation. References are joined
from elsewhere, by image.

The blanks move Composite's coefficients by two tenths: "in the scene.The dog" is other tokens than "in the scene . the
dog". So its captions have the text that FLEUR's file of scores holds. Where one of these files is not there, Composite is
read from the FLEUR release's JSON alone, which holds captions as text, references and judgements.

In CapEval1k's place there may be a table, `capeval.csv`, with the columns `image, caption, references, value` (0 to 1) and
`system`: what `captau collect export` writes.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pandas as pd

from ..caption_texts import collapse_blanks, comparison_form
from ..errors import InputError
from ..reading.json_files import field, rating, read_json, read_text, texts
from ..reading.source_files import bibtex, find, github_file, locate_all, sha256, used
from ..reading.table import read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile, make_items, make_ratings
from .coco_captions import COCO_REFERENCES, coco_id, coco_references
from .fleur import FILES, fleur, read_scores
from .flickr8k import TOKENS, flickr8k_references, read_token_file, references_of

_COMMIT = "9d897ee575d754dada84e00da426bbceabffc450"

VOCABULARY = SourceFile(
    "capeval1k/bert-base-cased-vocab.txt",
    "https://huggingface.co/google-bert/bert-base-cased/blob/main/vocab.txt",
    "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
    downloads=(
        "https://huggingface.co/google-bert/bert-base-cased/resolve/"
        "cd5ef92a9fb2f889e972770a36d4ed042daf221e/vocab.txt",
        "https://s3.amazonaws.com/models.huggingface.co/bert/bert-base-cased-vocab.txt",
    ),
)


def _multi30k(name: str, git_blob: str) -> SourceFile:
    return github_file(
        f"flickr30k/{PurePosixPath(name).name}",
        "multi30k/dataset",
        "a3d2e0d26b56f3846f66a952536ffed4e401d05a",
        f"data/task2/{name}",
        git_blob=git_blob,
    )


#: Multi30k's task 2: the five references of the 1,000 images of `test_2016_flickr`, a file each, and the images' names.
MULTI30K = (
    _multi30k("raw/test_2016.1.en.gz", "5ecc27645c8357cb0245811581a594507acaa5d9"),
    _multi30k("raw/test_2016.2.en.gz", "c128cc809937373fa6dfbe15debab4f6c17f6e6c"),
    _multi30k("raw/test_2016.3.en.gz", "9a635d77c4bf27473acdcbc4d40935a047c12319"),
    _multi30k("raw/test_2016.4.en.gz", "fc010e512b7a1304d375da0b93c93a8b01ef7eb7"),
    _multi30k("raw/test_2016.5.en.gz", "96327b8adf1f03c4d86dc4b071c9d1d4e4b754cd"),
    _multi30k("image_splits/test_2016_images.txt", "836c0a93c6ab1f95d79fae6760bee6c68c3d0d6a"),
)
# The whole file is in flickr30k.tar.gz, whose address is sent to those who fill in a form
# (https://shannon.cs.illinois.edu/DenotationGraph/).
FLICKR30K_TOKENS = SourceFile(
    "flickr30k/results_20130124.token",
    "https://github.com/multi30k/dataset",
    also=("flickr30k/test_2016*",),
    parts=MULTI30K,
)
FLICKR8K_TOKENS = replace(TOKENS, alternative=False)
#: `{"flickr8k": [...], "flickr30k": [...], "coco": [...]}`, with the references in each row.
COMPOSITE_JSON = fleur(
    "composite/composite.json",
    git_blob="7e2807562168bf83fe4a744b3426e51aefad9f43",
    alternative=True,
)

#: FLEUR's scores of Composite, of which the captions alone are read here.
COMPOSITE_TEXTS = FILES["composite"]

#: A study of one's own in CapEval1k's place.
CAPEVAL_TABLE = SourceFile(
    "capeval1k/capeval.csv", "https://github.com/hwanheelee1993/UMIC", alternative=True
)

_LEE = bibtex("lee2021umic")
_ADITYA = bibtex("aditya2015images")


def _card(
    name: str,
    title: str,
    citation: str,
    scale: Scale,
    references: SourceFile,
    sha256: str,
    expected: Mapping[str, int],
    single_value: str,
    *other_files: SourceFile,
) -> Card:
    return Card(
        name=name,
        title=title,
        revision=_COMMIT,
        licence="MIT (the UMIC release)",
        citation=citation,
        homepage="https://github.com/hwanheelee1993/UMIC",
        scales={"overall": scale},
        sources=(
            github_file(
                f"{name}/data.mdb",
                "hwanheelee1993/UMIC",
                _COMMIT,
                f"txt_db/{name}/data.mdb",
                sha256,
                url=f"https://github.com/hwanheelee1993/UMIC/tree/{_COMMIT}/txt_db/{name}",
            ),
            VOCABULARY,
            references,
            *other_files,
        ),
        expected=expected,
        single_values={"overall": single_value},
    )


def _composite_card(
    name: str, part: str, references: SourceFile, sha256: str, n_images: int
) -> Card:
    """Return the card of a part of Composite, which has three captions an image, each with one rating."""
    n_items = 3 * n_images
    return _card(
        f"composite_{name}",
        f"Composite ({part})",
        _ADITYA,
        Scale(1, 5, 1),
        references,
        sha256,
        {"images": n_images, "items": n_items, "ratings": n_items},
        "one rating",
        COMPOSITE_JSON,
        COMPOSITE_TEXTS,
    )


# The mean of five ratings of 1–5, scaled to 0–1; 76 can only be means of four, and four only of six, so there is no step.
CAPEVAL1K = _card(
    "capeval1k",
    "CapEval1k",
    _LEE,
    Scale(0, 1),
    COCO_REFERENCES,
    "08b4deeefd32c2371b566cecc744434d06de4a9a84673f6cbd82ad54b3f5d8f2",
    {"images": 250, "items": 1000, "ratings": 1000},
    "the mean of five ratings, of some captions of four or six, scaled to 0 to 1",
    CAPEVAL_TABLE,
)
COMPOSITE_8K = _composite_card(
    "8k",
    "Flickr8k",
    FLICKR8K_TOKENS,
    "149481ba1e1b78773383656a925b990c6e621eb934a6999d025638e619078568",
    997,
)
COMPOSITE_30K = _composite_card(
    "30k",
    "Flickr30k",
    FLICKR30K_TOKENS,
    "06964aba2343f7c186bcaba4350b24137e9a6cb1d5d2775018eec67d5957fa78",
    991,
)
COMPOSITE_COCO = _composite_card(
    "coco",
    "COCO",
    COCO_REFERENCES,
    "8a2ad8771818afe2736e393911c64863ff655734f889f43288775d616145e830",
    2007,
)
_PARTS = (COMPOSITE_8K, COMPOSITE_30K, COMPOSITE_COCO)
COMPOSITE = replace(
    COMPOSITE_8K,
    name="composite",
    title="Composite",
    short_title="Comp.",
    sources=tuple(dict.fromkeys(source for part in _PARTS for source in part.sources)),
    expected={name: sum(part.expected[name] for part in _PARTS) for name in COMPOSITE_8K.expected},
)

#: The beginning of a file name that names its source; the image's id stands behind it.
_SOURCE = re.compile(r"(coco_(train|val|test)\d{4}|flickr8k|flickr30k|pascal50s)_.")

_RELEASED_HASHES = {
    card.sources[0].sha256 for card in (CAPEVAL1K, COMPOSITE_8K, COMPOSITE_30K, COMPOSITE_COCO)
}


@dataset(CAPEVAL1K)
def load_capeval1k(root: Path) -> CaptionSet:
    """Read CapEval1k: four systems' captions of 250 COCO images (Lee et al. 2021, section 4.3)."""
    if CAPEVAL_TABLE in used(root, CAPEVAL1K):
        return _from_table(find(root, CAPEVAL1K, CAPEVAL_TABLE))

    return _caption_set(root, CAPEVAL1K, coco_references(root, CAPEVAL1K))


def _from_table(path: Path) -> CaptionSet:
    table = read_table(path)
    hint = "; image, caption and value are needed"
    n_rows = len(table)
    references = table.references("references") if "references" in table else [()] * n_rows
    image_ids = [coco_id(image) for image in table.filled("image", hint)]
    captions = table.filled("caption", hint)
    values = table.floats("value", CAPEVAL1K.scales["overall"], hint)
    systems = None
    if "system" in table:
        systems = [system or None for system in table.texts("system")]

    return _rated(
        replace(CAPEVAL1K, has_references=all(references)),
        image_ids=image_ids,
        candidates=captions,
        references=references,
        values=values,
        systems=systems,
    )


@dataset(COMPOSITE_8K)
def load_composite_8k(root: Path) -> CaptionSet:
    """Read the Flickr8k part of Composite (Aditya et al. 2015)."""
    return _read_part(_PART_8K, root, _CompositeTexts(root))


@dataset(COMPOSITE_30K)
def load_composite_30k(root: Path) -> CaptionSet:
    """Read the Flickr30k part of Composite (Aditya et al. 2015)."""
    return _read_part(_PART_30K, root, _CompositeTexts(root))


@dataset(COMPOSITE_COCO)
def load_composite_coco(root: Path) -> CaptionSet:
    """Read the COCO part of Composite (Aditya et al. 2015)."""
    return _read_part(_PART_COCO, root, _CompositeTexts(root))


@dataset(COMPOSITE)
def load_composite(root: Path) -> CaptionSet:
    """Read all three parts of Composite, 11,985 rows, as one set (Aditya et al. 2015)."""
    written_texts = _CompositeTexts(root)
    parts = [_read_part(part, root, written_texts) for part in (_PART_8K, _PART_30K, _PART_COCO)]
    items = pd.concat([part.items for part in parts])
    ratings = pd.concat([part.ratings for part in parts])

    return _rated(
        COMPOSITE,
        image_ids=items["image_id"].tolist(),
        candidates=items["caption"].tolist(),
        references=items["references"].tolist(),
        values=ratings["value"].tolist(),
    )


def _flickr30k_references(root: Path, card: Card) -> dict[str, tuple[str, ...]]:
    find(root, card, FLICKR30K_TOKENS)  # or an error that says how to get it
    # The whole file of tokens alone, or Multi30k's five files and, as the last, that of the images' names.
    *caption_files, last_file = locate_all(root, card, FLICKR30K_TOKENS)
    if not caption_files:
        return references_of(read_token_file(last_file))

    image_ids = read_text(last_file).split()
    columns: list[list[str]] = []
    for path in caption_files:
        lines = [collapse_blanks(line) for line in _read_packed_lines(path)]
        if len(lines) != len(image_ids):
            raise InputError(f"{path}: {len(lines)} lines, where {last_file} has {len(image_ids)}")
        columns.append(lines)

    # Each image has one reference of each file.
    references = zip(*columns, strict=True)
    return dict(zip(image_ids, references, strict=True))


def _read_packed_lines(path: Path) -> list[str]:
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not a complete gzip file of text ({error}); get a new copy"
        ) from error


class _CompositeTexts:
    """Composite's captions as they were written, which the file has of all parts and is read once for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._by_form: dict[tuple[str, str], str] = {}

    def read(self, card: Card) -> dict[tuple[str, str], str]:
        """Return the captions by image id and `comparison_form`, for a part that the card describes."""
        if not self._by_form:
            for block in read_scores(find(self._root, card, COMPOSITE_TEXTS)):
                for text in block.captions:
                    self._by_form[block.image_id, comparison_form(text)] = text

        return self._by_form


class _CompositePart(NamedTuple):
    """A part of Composite: its card, its key in the JSON, and what reads its references."""

    card: Card
    key: str
    read_references: Callable[[Path, Card], Mapping[str, tuple[str, ...]]]


_PART_8K = _CompositePart(COMPOSITE_8K, "flickr8k", flickr8k_references)
_PART_30K = _CompositePart(COMPOSITE_30K, "flickr30k", _flickr30k_references)
_PART_COCO = _CompositePart(COMPOSITE_COCO, "coco", coco_references)


def _read_part(part: _CompositePart, root: Path, written_texts: _CompositeTexts) -> CaptionSet:
    """Read a part of Composite from its database, or from the JSON where a file is not there."""
    card = part.card
    if COMPOSITE_JSON in used(root, card):
        return _from_json(find(root, card, COMPOSITE_JSON), part.key, card)

    texts_by_form = written_texts.read(card)
    return _caption_set(root, card, part.read_references(root, card), texts_by_form)


def _from_json(path: Path, part: str, card: Card) -> CaptionSet:
    image_ids: list[str] = []
    captions: list[str] = []
    references_by_row: list[tuple[str, ...]] = []
    values: list[float] = []
    for number, row in enumerate(field(read_json(path), part, list, str(path))):
        where = f"{path}: {part}[{number}]"
        image = field(row, "image", str, where)
        value = rating(row, "human", card.scales["overall"], where)
        references = tuple(collapse_blanks(r) for r in texts(row, "references", where))
        if not references:
            raise InputError(f"{where}: 'references' is empty; at least one is needed")

        image_ids.append(coco_id(image) if card is COMPOSITE_COCO else Path(image).name)
        captions.append(collapse_blanks(field(row, "caption", str, where)))
        references_by_row.append(references)
        values.append(value)

    return _rated(
        card,
        image_ids=image_ids,
        candidates=captions,
        references=references_by_row,
        values=values,
    )


def read_lmdb(folder: Path, vocabulary: Path) -> list[tuple[str, str, float]]:
    """Read the rows of one text database, in the order of its keys as numbers.

    Args:
        folder: the folder that holds `data.mdb`; it is opened read-only and without a lock.
        vocabulary: word pieces, one a line.

    Returns:
        (image file name without its `.npz`, candidate, target) of each row.

    Raises:
        InputError: where the database or a value in it is damaged, with its key.
    """
    import lmdb
    import lz4.frame
    import msgpack

    database = folder / "data.mdb"
    # A file whose hash is the release's needs no check, which takes another process.
    if sha256(database) not in _RELEASED_HASHES:
        check_whole(folder)

    pieces = read_text(vocabulary).removesuffix("\n").split("\n")
    rows: list[tuple[bytes, bytes]] = []
    try:
        env = lmdb.open(str(folder), readonly=True, lock=False)
        with env, env.begin() as transaction:
            rows = [(bytes(k), bytes(v)) for k, v in transaction.cursor()]
    except lmdb.Error as error:
        raise InputError(
            f"{database}: not a complete LMDB ({error}); it may be truncated; get a new copy"
        ) from error

    judged_rows: list[tuple[str, str, float]] = []
    # Keys are texts of numbers: the shorter one is the smaller number.
    for key, value in sorted(rows, key=lambda row: (len(row[0]), row[0])):
        where = f"{database}: key '{key.decode('utf-8', 'replace')}'"
        try:
            row: Any = msgpack.unpackb(lz4.frame.decompress(value), raw=False)
        except (RuntimeError, ValueError, msgpack.exceptions.UnpackException) as error:
            raise InputError(
                f"{where}: not LZ4-framed msgpack ({error}); get a new copy of the file"
            ) from error

        ids = field(row, "input_ids", list, where)
        for word_id in ids:
            if not isinstance(word_id, int) or not 0 <= word_id < len(pieces):
                raise InputError(
                    f"{where}: a word piece is not in {vocabulary}; is it bert-base-cased's?"
                )

        candidate = " ".join([pieces[word_id] for word_id in ids]).replace(" ##", "")
        image = field(row, "img_fname", str, where).removesuffix(".npz")
        judged_rows.append((image, candidate, float(field(row, "target", float, where))))

    return judged_rows


# What `check_whole` runs in a process of its own: are all pages there, can all be read?
_READ_ALL = """
import os, sys, lmdb
with lmdb.open(sys.argv[1], readonly=True, lock=False) as env, env.begin() as transaction:
    pages = env.info()["last_pgno"] + 1
    assert os.path.getsize(sys.argv[1] + "/data.mdb") >= pages * env.stat()["psize"]
    for _ in transaction.cursor().iternext(values=sys.argv[2] == "values"):
        pass
"""


def check_whole(folder: Path, *, values: bool = True) -> None:
    """Check that a database is not truncated, and that its keys (and values, if asked) can be read.

    LMDB maps its file and trusts it: a truncated or damaged one kills the process that reads it. So
    another process reads it first.

    Raises:
        InputError: where that one ended badly.
    """
    command = [sys.executable, "-c", _READ_ALL, str(folder), "values" if values else "keys"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        path = folder / "data.mdb"
        raise InputError(f"{path}: not a complete LMDB; it is truncated or damaged; get a new copy")


def named_image(name: str) -> str | None:
    """Return the image's id where a file's name bears its source in front; None elsewhere."""
    return image_id_of(name) if _SOURCE.match(name) else None


def image_id_of(name: str) -> str:
    """`coco_val2014_000000060623` → `60623`, `flickr8k_3482974845_db4f` → `3482974845_db4f.jpg`."""
    source, _, rest = name.partition("_")
    if source == "coco":
        return rest.rpartition("_")[2].lstrip("0")
    return f"{rest.lstrip('0')}.jpg"


def _caption_set(
    root: Path,
    card: Card,
    references: Mapping[str, tuple[str, ...]],
    texts_by_form: Mapping[tuple[str, str], str] | None = None,
) -> CaptionSet:
    """Read a database.

    Args:
        root: the data folder.
        card: its third source has the references.
        references: by image id.
        texts_by_form: captions as they were written, by image id and `comparison_form`; they take the place of the
            database's, which were joined from word pieces.
    """
    database = find(root, card, card.sources[0])
    rows = read_lmdb(database.parent, find(root, card, VOCABULARY))

    references_path = card.sources[2].path
    written_texts = texts_by_form or {}
    image_ids: list[str] = []
    captions: list[str] = []
    values: list[float] = []
    for image, candidate, target in rows:
        image_id = image_id_of(image)
        if image_id not in references:
            raise InputError(
                f"dataset {card.name}: image '{image_id}' has no references in {references_path}"
            )

        key = (image_id, comparison_form(candidate))
        image_ids.append(image_id)
        captions.append(written_texts.get(key, candidate))
        values.append(target)

    return _rated(
        card,
        image_ids=image_ids,
        candidates=captions,
        references=[references[image_id] for image_id in image_ids],
        values=values,
    )


def _rated(
    card: Card,
    image_ids: list[str],
    candidates: list[str],
    references: list[tuple[str, ...]],
    values: list[float],
    systems: list[str | None] | None = None,
) -> CaptionSet:
    items = make_items(image_ids, candidates, references, systems=systems)
    item_ids = items["item_id"].tolist()
    n_items = len(item_ids)
    ratings = make_ratings(item_ids, ["overall"] * n_items, ["mean"] * n_items, values)
    return CaptionSet(items, ratings, card=card)
