"""LongCap-Arena: long captions of DCI's images, rated for descriptiveness, relevance and fluency (Matsuda et al. 2025).

The Hugging Face Hub holds a split for each test part and dimension: `dci_val.desc` is Test A's descriptiveness, `dci_test.flu` Test B's
fluency. Parquet files of a split are read from `longcap_arena/default/dci_val.desc/` (as the Hub converts them) or
`longcap_arena/data/`, and the CSV files `desc_dci_val.csv`. The reader was not run on the original files.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ..reading.source_files import find, locate_all
from ..reading.table import JudgementColumns, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile

_PAGE = "https://huggingface.co/datasets/Ka2ukiMatsuda/LongCap-Arena"
DIMENSIONS = {"desc": "descriptiveness", "rel": "relevance", "flu": "fluency"}
PARTS = {"val": "test_a", "test": "test_b"}
#: The release does not say its scale where it could be read: numbers from 0 to 1 and from 1 to 5 are both on it.
SCALE = Scale(0, 5)


def _source(part: str, dimension: str) -> SourceFile:
    name = f"dci_{part}.{dimension}"
    return SourceFile(
        f"longcap_arena/{name}.parquet",
        _PAGE,
        also=(
            f"longcap_arena/default/{name}/*.parquet",
            f"longcap_arena/data/{name}-*.parquet",
            f"longcap_arena/{dimension}_dci_{part}.csv",
        ),
        split=PARTS[part],
    )


FILES = {(part, dimension): _source(part, dimension) for part in PARTS for dimension in DIMENSIONS}
CARD = Card(
    name="longcap_arena",
    title="LongCap-Arena",
    revision="2025; the reader was not run on the original",
    licence="BSD-3-Clause-Clear",
    citation="""@inproceedings{matsuda2025vela,
  title={{VELA}: An {LLM}-Hybrid-as-a-Judge Approach for Evaluating Long Image Captions},
  author={Matsuda, Kazuki and Wada, Yuiga and Hirano, Shinnosuke and Otsuki, Seitaro and Sugiura, Komei},
  booktitle={EMNLP},
  pages={8691--8707},
  year={2025}
}""",
    homepage=_PAGE,
    scales=dict.fromkeys(DIMENSIONS.values(), SCALE),
    sources=tuple(FILES.values()),
    partial=True,
)


@dataset(CARD)
def load_longcap_arena(root: Path) -> CaptionSet:
    """Read the test parts and dimensions that are there; at least one has to be.

    Raises:
        InputError: where none is there, or a file is malformed.
    """
    paths = [
        (keys, path) for keys, source in FILES.items() for path in locate_all(root, CARD, source)
    ]
    if not paths:
        find(root, CARD, CARD.sources[0])
    places: list[str] = []
    image_ids: list[str] = []
    captions: list[str] = []
    values: list[float] = []
    references: list[tuple[str, ...]] = []
    splits: list[str] = []
    dimensions: list[str] = []
    for (part, dimension), path in paths:
        table = read_table(path)
        name = table.first_of("file_name", "imgid", "image.path", "image") or "file_name"
        places += table.places
        image_ids += [PurePosixPath(image).name for image in table.filled(name)]
        captions += [
            " ".join(caption.split()) for caption in table.filled(table.first_of("mt") or "cand")
        ]
        values += table.floats(table.first_of("human_score") or "score", SCALE)
        references += [
            tuple(" ".join(text.split()) for text in texts) for texts in table.references("refs")
        ]
        splits += [PARTS[part]] * len(table)
        dimensions += [DIMENSIONS[dimension]] * len(table)
    return JudgementColumns(
        places,
        image_ids,
        captions,
        values,
        references=references,
        splits=splits,
        dimensions=dimensions,
        apart=True,
    ).caption_set(CARD)
