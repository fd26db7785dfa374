"""Options of `captau validate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...datasets.errors import InputError
from ...datasets.reading.table import Columns
from . import shared
from .declaration import NEEDED, Composed, Options, option, part
from .large import columns_part

KINDS = ("captions", "scores")


def _dataset_of(composed: Composed) -> str | None:
    names = list(composed["datasets"])
    if len(names) > 1:
        raise InputError(f"dataset={','.join(names)}; a file of scores is checked with one dataset")
    return names[0] if names else None


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(Options):
    """Options of `captau validate`."""

    positional: ClassVar[tuple[str, ...]] = ("file",)
    examples: ClassVar[str] = """
captau validate captions_val2014_mine_results.json
captau validate results.zip references=captions_val2014.json
captau validate results.zip references=captions_val2014.json member=captions_val2014_mine_results.json
captau validate answers.csv references=captions_val2014.json columns.caption=answer
captau validate mine.csv dataset=flickr8k_expert
"""
    notes: ClassVar[str] = """
Each fault is a line on stderr with its place; the verdict is a line on stdout. Exit status 0: valid; 2: not.
docs/submissions.md shows the formats.
"""

    file: Path = option(
        NEEDED,
        'the submission (file= may be left out); captions: COCO results ([{"image_id", '
        '"caption"}]), a zip of them, an object image id -> caption, JSON lines, or a table (CSV, TSV, Parquet, Excel), '
        "as captau score reads them; scores: CSV, TSV, JSON lines or Parquet with score and either item_id or image_id and "
        "caption",
        takes="FILE",
    )
    kind: str | None = option(
        None,
        "what the file holds; the default is scores if dataset= is set, or if it is a table with a column score, and else "
        "captions",
        takes="captions|scores",
        check=shared.one_of(KINDS),
    )
    references: Path | None = option(
        None,
        "references, in any form that captau score takes; each of their images needs a caption, "
        "and no other image may have one",
        takes="FILE",
    )
    member: str | None = option(
        None,
        "the file to check in a zip with results on two sets; the default is both, and the "
        "references go with the file that has their images",
        takes="NAME",
    )
    dataset: str | None = part(
        _dataset_of,
        *shared.dataset_options(None, "the dataset; each of its items needs a score", takes="NAME"),
        default=None,
    )
    columns: Columns = columns_part()
    limit: int = option(
        20,
        "the largest number of faults to list, and of places at which one check found something",
        check=shared.at_least(1),
    )
    data_root: Path | None = part(shared.data_root_of, shared.DATA_ROOT, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.kind == "scores" or self.dataset) and (self.references or self.member):
            raise InputError(
                "references=… and member=… belong to captions; scores need dataset=NAME"
            )
        if self.kind == "captions" and self.dataset:
            raise InputError("dataset=… belongs to scores; captions need references=FILE")

    @property
    def named_kind(self) -> str | None:
        """The kind of file that the options name, `captions` or `scores`; None where its content tells."""
        if self.kind is not None:
            return self.kind
        if self.dataset is not None:
            return "scores"
        return "captions" if self.references or self.member else None
