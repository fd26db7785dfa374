"""Context Matters: descriptions of images in Wikipedia's articles, rated by sighted and by blind or low-vision people.

Kreiss et al. 2022. A description is read instead of the image, in the article that the image stands in, which is each item's
`context`. Sighted people rated it from 1 to 5 before they saw the image and after (`overall_before`, `overall_after`); blind or
low-vision people rated a part of the descriptions once. `reconstructivity` asks how well one can imagine the image,
`relevance` whether what matters is there, `irrelevance` whether what does not matter is left out, and `imgfit` whether the
*image* fits the article, whatever its description says.
"""

from __future__ import annotations

from pathlib import Path

from ..reading.source_files import bibtex, find, github_file
from ..reading.table import read_table
from ..registry import dataset
from ..schema import CaptionSet, CaptionSetBuilder, Card, Scale, SourceFile

_REPOSITORY = "elisakreiss/contextual-description-evaluation"
_COMMIT = "46407c28cb41efc7bb28936b86351726547ee154"
SCALE = Scale(1, 5, 1)


def _source(name: str, sha256: str) -> SourceFile:
    path = f"context_matters/{name}"
    return github_file(path, _REPOSITORY, _COMMIT, f"behavioral_data/{name}", sha256)


def _card(
    name: str, title: str, source: SourceFile, dimensions: tuple[str, ...], counts: tuple[int, int]
) -> Card:
    return Card(
        name=name,
        title=title,
        revision=_COMMIT,
        licence="MIT",
        citation=bibtex("kreiss2022context"),
        homepage=f"https://github.com/{_REPOSITORY}",
        scales=dict.fromkeys(dimensions, SCALE),
        headline=dimensions[0],
        sources=(source,),
        expected={"images": 18, "items": counts[0], "ratings": counts[1]},
        has_references=False,
        needs_images=True,
    )


_TIMES = {"preimg": "before", "postimg": "after"}
#: The dimension of each column of the sighted people's file.
SIGHTED_COLUMNS = {
    f"q_{question}.{time}": f"{question}_{word}"
    for question in ("overall", "relevance", "irrelevance", "imgfit")
    for time, word in _TIMES.items()
} | {"q_reconstructivity.preimg": "reconstructivity"}
BLV_COLUMNS = {
    f"q_{question}": question
    for question in ("overall", "reconstructivity", "relevance", "irrelevance", "imgfit")
}
SIGHTED = _card(
    "context_matters",
    "Context Matters, sighted raters",
    _source(
        "sighted_data_criticaltrials.csv",
        "2f0ffa58843065d5647212c25f21e709795e22057f37eb9b5e56096820dab5a6",
    ),
    tuple(SIGHTED_COLUMNS.values()),
    (270, 8874),
)
BLV = _card(
    "context_matters_blv",
    "Context Matters, blind and low-vision raters",
    _source(
        "blv_data_criticaltrials.csv",
        "7edd71867b814b60a733e380190277df7e2f23362f79babeb65d91c43e9868d5",
    ),
    tuple(BLV_COLUMNS.values()),
    (68, 1360),
)


@dataset(SIGHTED)
def load_context_matters(root: Path) -> CaptionSet:
    """Read the ratings of sighted people."""
    return _load(root, SIGHTED, SIGHTED_COLUMNS, "anon_worker_id")


@dataset(BLV)
def load_context_matters_blv(root: Path) -> CaptionSet:
    """Read the ratings of blind or low-vision people."""
    return _load(root, BLV, BLV_COLUMNS, "participant")


def _load(root: Path, card: Card, columns: dict[str, str], rater: str) -> CaptionSet:
    """Read one row a rater and description; a description of an image in an article is an item.

    Raises:
        InputError: where the file is missing or malformed, or a rating is not on the scale.
    """
    table = read_table(find(root, card, card.sources[0]))
    descriptions = [table.filled(name) for name in ("img_id", "description", "article_text")]
    raters = table.filled(rater)
    values = {dimension: table.floats(name, SCALE) for name, dimension in columns.items()}

    # An item is added at the first of its rows: articles tell descriptions apart too, unseen by the builder.
    builder = CaptionSetBuilder(joins_equal=False)
    number_of: dict[tuple[str, ...], int] = {}
    for row, description in enumerate(zip(*descriptions, strict=True)):
        if description not in number_of:
            image_id, caption, _ = description
            number_of[description] = builder.add_item(image_id, caption)
        for dimension in columns.values():
            builder.rate(number_of[description], dimension, raters[row], values[dimension][row])

    return builder.build(card, optional={"context": [article for *_, article in number_of]})
