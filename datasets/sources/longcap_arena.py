"""LongCap-Arena: long captions of DCI's images, rated for descriptiveness, relevance and fluency (Matsuda et al. 2025).

The Hugging Face Hub holds a split for each test part and dimension: `dci_val.desc` is Test A's descriptiveness, `dci_test.flu` Test B's
fluency. Parquet files of a split are read from `longcap_arena/default/dci_val.desc/` (as the Hub converts them) or
`longcap_arena/data/`, and the CSV files `desc_dci_val.csv`. The reader was not run on the original files.
"""

from __future__ import annotations

from pathlib import Path

from ..reading.source_files import HUB, bibtex, hub_file
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile
from .polaris import read_hub

_REPOSITORY = "Ka2ukiMatsuda/LongCap-Arena"
DIMENSIONS = {"desc": "descriptiveness", "rel": "relevance", "flu": "fluency"}
PARTS = {"val": "test_a", "test": "test_b"}
#: The release does not say its scale where it could be read: numbers from 0 to 1 and from 1 to 5 are both on it.
SCALE = Scale(0, 5)


def _source(part: str, dimension: str) -> SourceFile:
    name = f"dci_{part}.{dimension}"
    return hub_file(
        f"longcap_arena/{name}.parquet",
        _REPOSITORY,
        "main",
        f"data/{name}-*.parquet",
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
    revision="2025, no revision of the hub is known here; neither the reader nor the download was run on the original",
    licence="BSD-3-Clause-Clear",
    citation=bibtex("matsuda2025vela"),
    homepage=f"{HUB}/datasets/{_REPOSITORY}",
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
    dimensions = {FILES[part, key]: DIMENSIONS[key] for part, key in FILES}
    return read_hub(root, CARD, dimensions)
