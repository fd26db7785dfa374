"""Files of votes on pairs of captions, as AudioCaps-Eval and Clotho-Eval are published."""

from __future__ import annotations

import re
from typing import Any

from ..errors import InputError
from .cells import parse_references
from .pairs import PairColumns
from .table import Table

#: The keys of pairs in a file of votes: who wrote the two captions, in two letters or in two words, and a number where
#: there are several. In AudioCaps-Eval they are two people's (HC), one of them of another recording (HI), a person's and a
#: machine's (HM), and two machines' (MM; Zhou et al. 2022, "Can Audio Captions Be Evaluated with Image Caption Metrics?").
#: Others have kinds of their own, such as HH.
_VOTES = re.compile(r"([A-Z]{2}|[A-Za-z]+-[A-Za-z]+)(?:_\d+)?")
#: The kinds that are known without a look at what stands below the key.
_KNOWN_KINDS = ("HC", "HI", "HM", "MM")
#: Where such a file names the recording, in the order of preference; `raw_name` is missing in half of AudioCaps-Eval.
_RECORDINGS = ("raw_name", "audio_id", "image_id", "file_name", "id")


def has_votes(table: Table) -> bool:
    """Tell whether a table is a file of votes: it has `references`, and a key such as `HC` or `MM_1` with pairs."""
    return "references" in table and bool(_find_kinds(table))


def _find_kinds(table: Table) -> list[str]:
    """List the keys of pairs: those that are named as kinds are, and have pairs if their kind is no known one."""
    keys: list[str] = []
    for key in table.names:
        match = _VOTES.fullmatch(key)
        if match and (match[1] in _KNOWN_KINDS or any(map(_has_form_of_pair, table.column(key)))):
            keys.append(key)
    return keys


def _has_form_of_pair(cell: Any) -> bool:
    """Tell whether a cell is a list as long as a pair with its votes, which are a list at its end."""
    return isinstance(cell, list) and len(cell) in (5, 6) and isinstance(cell[-1], list)


def count_unread_pairs(table: Table) -> str:
    """Say how many cells of a file of votes have the form of a pair below a key that names no kind; empty without any."""
    kinds = _find_kinds(table)
    counts: dict[str, int] = {}
    for key in table.names:
        n_pairs = sum(map(_has_form_of_pair, table.column(key)))
        if key not in kinds and n_pairs:
            counts[key] = n_pairs
    if not counts:
        return ""

    n_unread = sum(counts.values())
    words = "pair is" if n_unread == 1 else "pairs are"
    return (
        f"{n_unread:,} {words} not read, of the keys {', '.join(counts)}; a key of pairs is two letters or two words "
        "joined by a hyphen, and may have a number, such as HM_1 or Human-Machine_1."
    )


def read_votes(table: Table, image: str = "image") -> PairColumns:
    """Read votes on pairs of captions, as AudioCaps-Eval and Clotho-Eval have them.

    Each entry is a recording, or image, with `references`, and below keys such as `HC`, `MM_1` or `Human-Machine_1` a pair:
    `[caption_a, caption_b, source_a, source_b, [1, 0, -1, 1]]`, whose votes are 1 for a, -1 for b and 0 for neither. The
    key without its number is the dimension. Where one of the captions is a reference, both are scored without it; where
    both are, as in `HC`, each is scored without itself.

    Raises:
        InputError: where a pair is of another form.
    """
    name = image if image in table else _find_recordings(table)
    image_ids = None if name is None else table.filled(name)
    all_references = table.column("references")

    rows: list[tuple[Any, ...]] = []
    for key in _find_kinds(table):
        dimension = key.partition("_")[0]
        for number, cell in enumerate(table.column(key)):
            if cell is None:
                continue
            where = f"{table.places[number]}: {key}"
            captions, sources, votes = _read_pair(cell, where)
            texts = parse_references(all_references[number], table.places[number])

            # Where both captions are references, as in HC, each is scored beside the other.
            copied_texts = [text for text in captions if text in texts]
            references: list[tuple[str, ...]] = []
            for caption in captions:
                left_out = copied_texts if len(copied_texts) == 1 else [caption]
                references.append(tuple(text for text in texts if text not in left_out))
            if not all(references):
                raise InputError(f"{where}: no reference is left beside the pair's own captions")

            image_id = str(number) if image_ids is None else image_ids[number]
            for vote in votes:
                rows.append((where, image_id, *captions, vote, dimension, *sources, *references))

    if not rows:
        raise InputError(f"{table.path}: it has no votes")

    columns = list(zip(*rows, strict=True))
    return PairColumns(
        places=columns[0],
        image_ids=columns[1],
        captions_a=columns[2],
        captions_b=columns[3],
        strengths=columns[4],
        dimensions=columns[5],
        systems_a=columns[6],
        systems_b=columns[7],
        references=columns[8],
        references_b=columns[9],
    )


def _find_recordings(table: Table) -> str | None:
    """Return the first column that names the recording of each row; None where no column does."""
    for name in _RECORDINGS:
        if name in table and None not in table.column(name):
            return name
    return None


def _read_pair(cell: Any, where: str) -> tuple[list[str], list[str], list[float]]:
    """Return captions, sources and votes of a pair; half of AudioCaps-Eval has a number before the votes."""
    if _has_form_of_pair(cell):
        texts = cell[:4]
        votes = cell[-1]
        are_texts = all(isinstance(text, str) and text.strip() for text in texts)
        are_votes = all(vote in (1, 0, -1) for vote in votes)
        if are_texts and votes and are_votes:
            return texts[:2], texts[2:], [float(vote) for vote in votes]

    raise InputError(
        f"{where} is not [caption_a, caption_b, source_a, source_b, votes], votes being a list of 1, 0 and -1"
    )
