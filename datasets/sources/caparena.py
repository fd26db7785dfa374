"""CapArena: 6,523 battles of detailed captions by 15 systems, people among them (Cheng et al. 2025).

By the authors' code (github.com/njucckevin/CapArena, `caparena_metrics.py` and `vlm_as_a_judge.py`): the names of images,
systems, captions and winners, and `equal` for a tie. By the author's word in public threads: the reference in `ref`, and the
winners `bad` and `skip`, which are no verdict. By the original file: nothing, as the reader was not run on it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.json_files import field, read_json_entries
from ..reading.source_files import bibtex, find
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, SourceFile

DIMENSION = "overall"
BATTLES = SourceFile(
    "caparena/caparena_annots_eval.json", "https://box.nju.edu.cn/f/0fd0a0d3dce243ab8c12/"
)
CARD = Card(
    name="caparena",
    title="CapArena",
    revision="2025, as the authors' page has it; its fields by the authors' code and threads, the reader was not run on the original",
    licence="not stated by the release",
    citation=bibtex("cheng2025caparena"),
    homepage="https://github.com/njucckevin/CapArena",
    sources=(BATTLES,),
)
#: Winners that are no verdict: of a pair that cannot be judged, and of one that was passed over.
NO_VERDICTS = ("bad", "skip")


@dataset(CARD)
def load_caparena(root: Path) -> CaptionSet:
    """Read the battles; a system's caption of an image is one item, in however many battles it stands.

    Battles without a verdict are left out, and a remark counts them. The set has references if each battle has one.

    Raises:
        InputError: where the file is missing or malformed, a winner is neither system, a system meets itself, or no
            battle has a verdict.
    """
    path = find(root, CARD, BATTLES)
    rows = list(read_json_entries(path))
    has_references = True
    builder = CaptionSetBuilder(joins_equal=True)
    n_left_out: Counter[str] = Counter()
    for number, (where, row) in enumerate(rows):
        image = field(row, "img", str, where)
        first = field(row, "source1", str, where)
        second = field(row, "source2", str, where)
        if first == second:
            raise InputError(f"{where}: '{first}' meets itself")

        first_caption = collapse_blanks(field(row, "caption1", str, where))
        second_caption = collapse_blanks(field(row, "caption2", str, where))
        references = _read_reference(row, where)
        winner = field(row, "winner", str, where)
        sides = {first: "a", second: "b", "equal": "tie"}
        if winner not in sides and winner in NO_VERDICTS:
            n_left_out[winner] += 1
            continue

        if winner not in sides:
            raise InputError(
                f"{where}: 'winner' is '{winner}', neither '{first}' nor '{second}' nor equal, {' or '.join(NO_VERDICTS)}"
            )

        has_references &= bool(references)
        a = builder.add_item(image, first_caption, references, system=first)
        b = builder.add_item(image, second_caption, references, system=second)
        builder.prefer(f"battle-{number:04d}", a, b, DIMENSION, sides[winner])

    if n_left_out.total() == len(rows):
        raise InputError(
            f"{path}: no battle has a verdict; get a copy whose 'winner' names systems"
        )

    remarks: tuple[str, ...] = ()
    if n_left_out:
        counts = ", ".join(f"'{winner}' {n_left_out[winner]:,}" for winner in sorted(n_left_out))
        remarks = (
            f"{n_left_out.total():,} of {len(rows):,} battles have no verdict and are left out (winner {counts}).",
        )
    return builder.build(replace(CARD, has_references=has_references, remarks=remarks))


def _read_reference(row: dict[str, Any], where: str) -> tuple[str, ...]:
    """Return the battle's reference; nothing where there is none.

    Raises:
        InputError: where it is no text.
    """
    if row.get("ref") is None:
        return ()

    reference = collapse_blanks(field(row, "ref", str, where))
    return (reference,) if reference else ()
