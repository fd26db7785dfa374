"""Polaris: 131,020 judgements by 550 people of captions by ten systems (Wada et al. 2024); and the reader that Nebula and LongCap-Arena share.

One row is a judgement, in the layout of the Hugging Face Hub. The columns, with what the CSV files and the other
dataset call them: `refs`, `cand` (`mt`), `human_score` (`score`), and the image `img` (`image`), of which the file
name alone is read, or `imgid` (`file_name`). Parquet, JSON lines, JSON and CSV are read, one file or several a split.
Where an image's name is not given, its references name it, as they are the same in all of its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path, PurePosixPath

from ..caption_texts import collapse_blanks
from ..errors import InputError
from ..reading.source_files import HUB, bibtex, count_parts, find, hub_file, locate_all
from ..reading.table import JudgementColumns, Table, read_table
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile

#: How splits are called in file names, and what they are called here.
SPLITS = {"train": "train", "val": "validation", "test": "test"}
_IMAGES = ("imgid", "file_name", "img.path", "image.path", "img", "image")
_CAPTIONS = ("cand", "mt")
_SCORES = ("human_score", "score")


def sources_of(name: str, repository: str, revision: str, file: str) -> tuple[SourceFile, ...]:
    """List the files of a dataset on the hub, one a split: the name of the CSV, and patterns for other formats.

    Args:
        name: the dataset's.
        repository, revision: where it is on the hub.
        file: the name there, or a pattern of names, with `{}` for the split.
    """
    sources: list[SourceFile] = []
    for split, split_name in SPLITS.items():
        patterns: list[str] = []
        for ending, folder, prefix in product(
            ("parquet", "jsonl", "json", "csv"), ("", "data/"), ("", f"{name}_")
        ):
            patterns.append(f"{name}/{folder}{prefix}{split}*.{ending}")
        source = hub_file(
            f"{name}/{name}_{split}.csv",
            repository,
            revision,
            file.format(split),
            also=tuple(patterns),
            split=split_name,
        )
        sources.append(source)

    return tuple(sources)


def read_hub(
    root: Path, card: Card, dimensions: Mapping[SourceFile, str] | None = None
) -> CaptionSet:
    """Read the files that are there; at least one has to be.

    Args:
        root: the data folder.
        card: its sources name their splits.
        dimensions: what each file's scores are of; `overall` where it is not named.

    Raises:
        InputError: where none is there, a part of one is missing, or a file is malformed.
    """
    paths_by_source = {source: locate_all(root, card, source) for source in card.sources}
    if not any(paths_by_source.values()):
        find(root, card, card.sources[0])  # raises the error that says how to get it

    places: list[str] = []
    image_ids: list[str] = []
    captions: list[str] = []
    values: list[float] = []
    references: list[tuple[str, ...]] = []
    splits: list[str] = []
    rated_dimensions: list[str] = []

    for source, paths in paths_by_source.items():
        _check_parts(paths)
        dimension = (dimensions or {}).get(source, "overall")
        for path in paths:
            table = read_table(path)
            references_column = table.references("refs")
            row_references = [tuple(map(collapse_blanks, texts)) for texts in references_column]
            # Where a table has none of the names, the usual one makes the error that names the missing column.
            caption_column = table.first_of(*_CAPTIONS) or _CAPTIONS[0]
            score_column = table.first_of(*_SCORES) or _SCORES[0]

            places += table.places
            image_ids += _image_ids(table, row_references)
            captions += [collapse_blanks(text) for text in table.texts(caption_column)]
            values += table.floats(score_column, card.scales[dimension])
            references += row_references
            splits += [source.split] * len(table)
            rated_dimensions += [dimension] * len(table)

    return JudgementColumns(
        places=places,
        image_ids=image_ids,
        captions=captions,
        values=values,
        references=references,
        splits=splits,
        dimensions=rated_dimensions,
        images=_image_files(root / card.name / "images", image_ids),
        # A caption of an image with other references is another item.
        apart=True,
    ).caption_set(card)


def _image_files(folder: Path, image_ids: Sequence[str]) -> list[str] | None:
    """Return the file of each row's image; None where the folder of images is not there."""
    if not folder.is_dir():
        return None

    return [str(folder / image_id) for image_id in image_ids]


def _image_ids(table: Table, references: Sequence[tuple[str, ...]]) -> list[str]:
    column = table.first_of(*_IMAGES)
    names = table.column(column) if column else [None] * len(table)

    image_ids: list[str] = []
    for image_name, texts in zip(names, references, strict=True):
        if isinstance(image_name, str) and image_name:
            image_ids.append(PurePosixPath(image_name).name)
        else:
            image_ids.append(_name_of(texts))

    return image_ids


def _name_of(references: tuple[str, ...]) -> str:
    digest = hashlib.blake2s("\0".join(references).encode("utf-8", "surrogatepass"), digest_size=8)
    return f"references-{digest.hexdigest()}"


def _check_parts(paths: Sequence[Path]) -> None:
    """Check that every part is there, and no more."""
    n_parts = count_parts(paths)
    if n_parts != len(paths):
        raise InputError(
            f"{paths[0]}: one of {n_parts} parts, of which {len(paths)} are there; get the others"
        )


_REPOSITORY = "yuwd/Polaris"
#: The authors' first upload, which has CSV files beside the images. Later ones have Parquet files with the images inside.
_REVISION = "7d823575f89ed87c0db0cb7aa5fe7bd4fdbca2cb"

CARD = Card(
    name="polaris",
    title="Polaris",
    revision=f"{_REVISION}; the download was not tried",
    licence="BSD",
    citation=bibtex("wada2024polos"),
    homepage=f"{HUB}/datasets/{_REPOSITORY}",
    scales={"overall": Scale(0, 1)},
    sources=sources_of("polaris", _REPOSITORY, _REVISION, "polaris_{}.csv"),
    expected={"ratings": 131020},
    partial=True,
)


@dataset(CARD)
def load_polaris(root: Path) -> CaptionSet:
    """Polaris, whichever of its splits are there."""
    return read_hub(root, CARD)
