"""CapArena: 6,523 battles of detailed captions by 15 systems, people among them (Cheng et al. 2025).

The reader follows what the authors' code reads (github.com/njucckevin/CapArena, `caparena_metrics.py` and
`vlm_as_a_judge.py`); it was not run on the original file.
"""

from __future__ import annotations

from pathlib import Path

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
    revision="2025, as the authors' page has it; the reader was not run on the original",
    licence="not stated by the release",
    citation=bibtex("cheng2025caparena"),
    homepage="https://github.com/njucckevin/CapArena",
    sources=(BATTLES,),
    expected={"preferences": 6523},
    has_references=False,
)


@dataset(CARD)
def load_caparena(root: Path) -> CaptionSet:
    """Read the battles; a system's caption of an image is one item, in however many battles it stands.

    Raises:
        InputError: where the file is missing or malformed, a winner is neither system, or a system meets itself.
    """
    path = find(root, CARD, BATTLES)
    builder = CaptionSetBuilder(joins_equal=True)
    for number, (where, row) in enumerate(read_json_entries(path)):
        image = field(row, "img", str, where)
        first = field(row, "source1", str, where)
        second = field(row, "source2", str, where)
        if first == second:
            raise InputError(f"{where}: '{first}' meets itself")

        first_caption = collapse_blanks(field(row, "caption1", str, where))
        second_caption = collapse_blanks(field(row, "caption2", str, where))
        winner = field(row, "winner", str, where)
        sides = {first: "a", second: "b", "equal": "tie"}
        if winner not in sides:
            raise InputError(
                f"{where}: 'winner' is '{winner}', neither '{first}' nor '{second}' nor equal"
            )

        a = builder.add_item(image, first_caption, system=first)
        b = builder.add_item(image, second_caption, system=second)
        builder.prefer(f"battle-{number:04d}", a, b, DIMENSION, sides[winner])

    return builder.build(CARD)
