"""Your own judgements, from a CSV, JSON, JSON lines or Parquet file with one row a rating or a comparison.

`docs/own_judgements.md` walks through it. The options (`reading.judgement_options`) name columns; one that is not given
is looked for under its usual name, which is the option's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registry
from ..caption_texts import leave_out_of_pairs
from ..errors import InputError
from ..paths import expand_home, is_file
from ..reading.caption_checks import check_captions, check_references
from ..reading.cells import ANSWER_WORDS
from ..reading.judgement_exports import (
    BETTER_AND_WORSE,
    add_winner,
    drop_missing,
    find_pair,
    find_several_columns,
    name_sides,
    read_export,
    select_rows,
    suggest_rater_columns,
    unfold_raters,
)
from ..reading.judgement_options import JudgementOptions
from ..reading.judgement_scales import check_scales, find_scales
from ..reading.pairs import PairColumns
from ..reading.rating_scales import (
    has_scales_file,
    read_dimensions,
    read_table_conditions,
    scales_path,
)
from ..reading.suspected_faults import PlacedText, summarise
from ..reading.table import JudgementColumns, Table, read_table
from ..reading.votes import count_unread_pairs, has_votes, read_votes
from ..reading.winners import describe_strengths, read_strengths, read_winners
from ..registry import dataset
from ..schema import CaptionSet, Card, SourceFile

CARD = Card(
    name="file",
    title="Your own judgements",
    revision="your own",
    licence="yours",
    citation="""@misc{own,
  title={Judgements of my own}
}""",
    homepage="",
    has_references=False,
)

#: What is usual of votes: a metric is right where it prefers the caption that most of a pair's votes prefer.
VOTES_PROTOCOL = {"ratings": "mean", "coefficients": ["accuracy"]}

_LONG = "; name the column with file.value=; one row a rating is expected; "


@dataclass(frozen=True)
class _OwnJudgements:
    """The rows of a file that count, and what is known of them.

    Attributes:
        table: the rows.
        value: the column of ratings.
        columns: by option, the column; None where there is none. That of `dimension` may be one name for all rows instead.
        card: of the set.
        options: of which those of both captions name the columns that were found.
        remarks: sentences on rows that were left out, and on names that were found.
    """

    table: Table
    value: str
    columns: Mapping[str, str | None]
    card: Card
    options: JudgementOptions
    remarks: Sequence[str]

    def image_ids(self) -> list[str]:
        """Return each row's image."""
        return self.table.filled(self.options.image, "; name the column with file.image=")

    def dimensions(self) -> list[str]:
        """Return each row's dimension: from a column, or one name for all."""
        dimension = self.columns["dimension"]
        if dimension is not None and dimension in self.table:
            return self.table.filled(dimension)

        return [dimension or "overall"] * len(self.table)

    def texts(self, option: str) -> list[str] | None:
        """Return the column of an option; None where there is none."""
        column = self.columns[option]
        if column is None:
            return None

        return self.table.filled(column, f"; see file.{option}=")

    def references(self) -> list[tuple[str, ...]] | None:
        """Return each row's references; None where there is no column of them."""
        column = self.columns["references"]
        if column is None:
            return None

        several = find_several_columns(self.table, "references", column)
        if several:
            return self.table.joined_references(several)
        return self.table.references(column, "; see file.references=")


@dataset(CARD, options=JudgementOptions)
def load_file(_root: Path, options: JudgementOptions) -> CaptionSet:
    """Read judgements of your own: ratings, or preferences where the table has two columns of captions.

    Exports of Mechanical Turk, Label Studio and Qualtrics are known by their columns (`reading.judgement_exports`).

    A JSON file of votes on pairs, as AudioCaps-Eval is published, is known by its keys (`reading.votes.read_votes`).

    Args:
        _root: not used; the file may lie anywhere.
        options: the path, the names of columns, the scales, and which rows count.

    Raises:
        InputError: where a file is malformed, the table lacks a column, a dimension has no scale where
            others have one, a rating is not on its scale, a pair is of one caption, or a winner is neither.
    """
    _check_name(options.name)
    table, value, remarks = _read_rows(options)
    named_columns = {
        "rater": options.rater,
        "system": options.system,
        "split": options.split,
        "references": options.references,
        "strength": options.strength,
        "system_a": options.system_a,
        "system_b": options.system_b,
        "cluster": options.cluster,
        "dimension": options.dimension,
    }
    columns: dict[str, str | None] = {}
    for option, column in named_columns.items():
        columns[option] = _column_of(table, option, column)
    if options.cluster is None and "source1" in table and "in-400" in table:
        # CapArena's clusters are levels of difficulty, and nothing that was sampled.
        columns["cluster"] = None
    card = _make_card(table, options.name, columns)

    if has_votes(table):
        unread = count_unread_pairs(table)
        card = replace(
            card,
            anonymous_raters=True,
            usual_protocol=VOTES_PROTOCOL,
            remarks=(*remarks, unread) if unread else tuple(remarks),
        )
        return read_votes(table, options.image).caption_set(card)

    pair = find_pair(table, (options.caption_a, options.caption_b))
    is_of_pairs = pair[0] in table or pair[1] in table
    if is_of_pairs:
        options = replace(options, caption_a=pair[0], caption_b=pair[1])

    judgements = _OwnJudgements(
        table=table, value=value, columns=columns, card=card, options=options, remarks=remarks
    )
    return _load_pairs(judgements) if is_of_pairs else _load_ratings(judgements)


def _load_pairs(judgements: _OwnJudgements) -> CaptionSet:
    """Load one row a comparison; the columns of both captions are those of the options.

    Raises:
        InputError: see `load_file`.
    """
    options = judgements.options
    columns = judgements.columns
    pair = (options.caption_a, options.caption_b)
    table, pair, winner_notes = add_winner(judgements.table, pair, options.winner)
    options = replace(options, caption_a=pair[0], caption_b=pair[1])
    table, left_out = read_winners(
        table,
        options.winner,
        (columns["system_a"], columns["system_b"]),
        options.winners,
        name_sides(pair),
    )
    strength_notes = describe_strengths(table, columns["strength"])
    remarks = (*judgements.remarks, *winner_notes, *left_out, *strength_notes)
    card = replace(judgements.card, remarks=remarks)
    pairs = _read_pairs(replace(judgements, table=table, card=card, options=options))
    return _with_text_remarks(pairs, table.path)


def _load_ratings(judgements: _OwnJudgements) -> CaptionSet:
    """Load one row a rating, of the column `value`.

    Raises:
        InputError: see `load_file`.
    """
    value = judgements.value
    options = judgements.options
    table, without_rating = drop_missing(judgements.table, value, options.missing)
    table, options, word_notes = _read_answer_words(table, value, options)
    judgements = replace(judgements, table=table)
    dimensions = judgements.dimensions()
    image_ids = judgements.image_ids()
    captions = table.texts(options.caption, "; name the column with file.caption=")
    hint = "" if value in table else f"{_LONG}{suggest_rater_columns(table)}"
    values = table.floats(value, None, hint)

    scale_by_dimension = find_scales(table.path, dimensions, values, options)
    scale_by_row = [scale_by_dimension[dimension] for dimension in dimensions]
    check_scales(table, value, values, scale_by_row)
    card = replace(
        judgements.card,
        remarks=(*judgements.remarks, *without_rating, *word_notes),
        scales=scale_by_dimension,
        totals=read_dimensions(table.path, "totals"),
        faults=read_dimensions(table.path, "faults"),
    )

    caption_set = JudgementColumns(
        places=table.places,
        image_ids=image_ids,
        captions=captions,
        values=values,
        raters=judgements.texts("rater"),
        references=judgements.references(),
        systems=judgements.texts("system"),
        splits=judgements.texts("split"),
        images=_images(table.path.parent, image_ids),
        dimensions=dimensions,
        clusters=judgements.texts("cluster"),
    ).caption_set(card)
    return _with_text_remarks(caption_set, table.path)


def _read_answer_words(
    table: Table, value: str, options: JudgementOptions
) -> tuple[Table, JudgementOptions, list[str]]:
    """Return ratings in words, such as yes and no, as 1 and 0 on a scale of both, with a sentence on that; others as they are."""
    if value not in table:
        return table, options, []

    words = [str(cell).strip().lower() for cell in table.column(value)]
    if not words or not set(words) <= ANSWER_WORDS.keys():
        return table, options, []

    numbers = [ANSWER_WORDS[word] for word in words]
    scale = {"low": 0.0, "high": 1.0, "step": 1.0}
    given = {name: getattr(options, name) for name in scale}
    options = replace(
        options, **{name: scale[name] if end is None else end for name, end in given.items()}
    )
    by_number = {1.0: "1", 0.0: "0"}
    meanings = [f"{word} is {by_number[ANSWER_WORDS[word]]}" for word in dict.fromkeys(words)]
    return (
        table.with_columns({value: numbers}),
        options,
        [f"Ratings are words: {', '.join(meanings)}."],
    )


def _read_rows(options: JudgementOptions) -> tuple[Table, str, list[str]]:
    """Return a row for each judgement that counts, the column of ratings, and what was left out.

    Raises:
        InputError: see `load_file`.
    """
    assert options.path is not None, "made without a path"
    table, own_names = read_export(read_table(expand_home(options.path)))
    sheet_note = [table.note] if table.note else []
    # Votes have columns of their own.
    names_note = [] if has_votes(table) else _describe_names(table, own_names, options)
    table, left_out = select_rows(table, options.where, keep_flagged=options.flagged == "keep")
    remarks = [*sheet_note, *left_out, *names_note]
    rater_columns = find_several_columns(table, "value", options.value)
    if not rater_columns:
        return table, options.value, remarks

    table, empty_cells = unfold_raters(table, rater_columns)
    return table, "value", [*remarks, *empty_cells]


def _describe_names(
    table: Table, own_names: Mapping[str, str], options: JudgementOptions
) -> list[str]:
    """Say which columns were found under other names than the usual ones; no line where none was.

    Args:
        table: the rows.
        own_names: the names in the file by the usual ones.
        options: a column that they name is none that was found.
    """
    found: dict[str, str] = {}
    named_pair = options.caption_a, options.caption_b
    pair = find_pair(table, named_pair)
    for usual, name in own_names.items():
        # A caption of a pair is no verdict.
        if getattr(options, usual) in (None, usual) and name not in pair:
            found[usual] = name
    # Which caption is the better one by its column is told where winners are read.
    is_told = pair == named_pair or pair in BETTER_AND_WORSE
    if not is_told and pair[0] in table:
        found |= dict(zip(("caption_a", "caption_b"), pair, strict=True))

    parts = [f"{usual} is the column '{name}'" for usual, name in found.items()]
    return [f"{', '.join(parts)}."] if parts else []


def _with_text_remarks(caption_set: CaptionSet, path: Path) -> CaptionSet:
    """Return a set whose card counts what looks like a fault of its captions and references."""
    captions: list[PlacedText] = []
    references: dict[tuple[str, str], PlacedText] = {}
    items = caption_set.items
    columns = (items["image_id"], items["caption"], items["references"])
    for image_id, caption, texts in zip(*columns, strict=True):
        captions.append(PlacedText(path.name, image_id, caption))
        for text in texts:
            references[image_id, text] = PlacedText(path.name, image_id, text)

    findings = [*check_references(list(references.values())), *check_captions(captions)]
    if not findings:
        return caption_set
    remarks = (*caption_set.card.remarks, *summarise(findings))
    return CaptionSet(
        items,
        ratings=caption_set.ratings,
        preferences=caption_set.preferences,
        card=replace(caption_set.card, remarks=remarks),
    )


def _make_card(table: Table, name: str, columns: Mapping[str, str | None]) -> Card:
    """Return the card of a table, without scales."""
    files = [table.path] if table.path.is_file() else []
    if has_scales_file(table.path):
        files.append(scales_path(table.path))
    return replace(
        CARD,
        name=name,
        title=name if name != CARD.name else table.path.name,
        sources=tuple(SourceFile(str(file.absolute()), "your own file") for file in files),
        has_references=columns["references"] is not None,
        anonymous_raters=columns["rater"] is None,
        conditions=read_table_conditions(table.path),
    )


def _read_pairs(judgements: _OwnJudgements) -> CaptionSet:
    """Read one row a comparison.

    Raises:
        InputError: see `load_file`.
    """
    table = judgements.table
    columns = judgements.columns
    options = judgements.options
    dimensions = judgements.dimensions()
    if (columns["system_a"] is None) != (columns["system_b"] is None):
        missing = "system_b" if columns["system_b"] is None else "system_a"
        raise InputError(
            f"{table.path}: no column '{missing}'; name the column with file.{missing}="
        )

    image_ids = judgements.image_ids()
    pairs = PairColumns(
        places=table.places,
        image_ids=image_ids,
        captions_a=table.filled(options.caption_a, "; name the column with file.caption_a="),
        captions_b=table.filled(options.caption_b, "; name the column with file.caption_b="),
        strengths=read_strengths(table, options.winner, columns["strength"]),
        dimensions=dimensions,
        raters=judgements.texts("rater"),
        systems_a=judgements.texts("system_a"),
        systems_b=judgements.texts("system_b"),
        references=judgements.references(),
        splits=judgements.texts("split"),
        images=_images(table.path.parent, image_ids),
        clusters=judgements.texts("cluster"),
        is_graded=columns["strength"] is not None,
    ).caption_set(judgements.card)
    return _with_usual_references(pairs)


def _with_usual_references(pairs: CaptionSet) -> CaptionSet:
    """Return preferences whose usual protocol leaves a reference that is one of a pair's captions out for both.

    It says nothing where no caption of a pair is a reference, or where no pair would keep a reference.
    """
    items, preferences = pairs.items, pairs.preferences
    without = leave_out_of_pairs(items, preferences)
    n_references = items["references"].map(len).sum()
    is_same = len(without.items) == len(items) and (
        without.items["references"].map(len).sum() == n_references
    )
    if is_same or without.is_pair_without.all():
        return pairs

    card = replace(pairs.card, usual_protocol={"own_references": "leave_out_pair"})
    return CaptionSet(items, preferences=preferences, card=card)


def _check_name(name: str) -> None:
    """Check that results can call a set by this name.

    Raises:
        InputError: where it has other characters than a file's name, or another dataset has it.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(f"file.name is '{name}'; letters, digits, '_', '-' and '.' are expected")
    if name in registry.names() and name != CARD.name:
        raise InputError(f"file.name={name} is one of captau's datasets; choose another name")


def _column_of(table: Table, option: str, column: str | None) -> str | None:
    """Return the column that an option names; by default the one of the option's name, if it is there."""
    if column is not None:
        return column

    return option if option in table else None


def _images(folder: Path, image_ids: Sequence[str]) -> list[str | None]:
    """Return the path of each image that is a file, seen from the table's folder."""
    path_by_image: dict[str, str | None] = {}
    for image_id in set(image_ids):
        path = folder / image_id
        path_by_image[image_id] = str(path) if is_file(path) else None

    return [path_by_image[image_id] for image_id in image_ids]
