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
        first, second = systems = [field(row, f"source{side}", str, where) for side in (1, 2)]
        if first == second:
            raise InputError(f"{where}: '{first}' meets itself")
        captions = [collapse_blanks(field(row, f"caption{s}", str, where)) for s in (1, 2)]
        winner = field(row, "winner", str, where)
        if winner not in (*systems, "equal"):
            raise InputError(
                f"{where}: 'winner' is '{winner}', neither '{first}' nor '{second}' nor equal"
            )
        a, b = (
            builder.add_item(image, caption, system=system)
            for caption, system in zip(captions, systems, strict=True)
        )
        side = "tie" if winner == "equal" else "ab"[systems.index(winner)]
        builder.prefer(f"battle-{number:04d}", a, b, DIMENSION, side)
    return builder.build(CARD)
