"""Your own judgements, from a CSV, JSON, JSON lines or Parquet file with one row a rating or a comparison.

`docs/own_judgements.md` walks through it. The options (`reading.judgement_options`) name columns; one that is not given
is looked for under its usual name, which is the option's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .. import registry
from ..caption_texts import leave_out_of_pairs
from ..errors import InputError, unknown
from ..paths import expand_home
from ..reading.caption_checks import check_captions, check_references
from ..reading.cells import ANSWER_WORDS
from ..reading.judgement_exports import (
    BETTER_AND_WORSE,
    add_winner,
    drop_missing,
    find_pair,
    find_rater_columns,
    name_sides,
    read_export,
    select_rows,
    suggest_rater_columns,
    unfold_raters,
)
from ..reading.judgement_options import JudgementOptions
from ..reading.pairs import PairColumns
from ..reading.rating_scales import (
    read_dimensions,
    read_scales,
    read_table_conditions,
    scales_of_option,
    scales_path,
)
from ..reading.suspected_faults import PlacedText, summarise
from ..reading.table import JudgementColumns, Table, read_table
from ..reading.votes import count_unread_pairs, has_votes, read_votes
from ..reading.winners import describe_strengths, read_strengths, read_winners
from ..registry import dataset
from ..schema import CaptionSet, Card, Scale, SourceFile, format_rating, on_scale

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
    }
    columns: dict[str, str | None] = {}
    for option, column in named_columns.items():
        columns[option] = _column_of(table, option, column)
    if options.cluster is None and "source1" in table and "in-400" in table:
        # CapArena's clusters are levels of difficulty, and nothing that was sampled.
        columns["cluster"] = None
    dimension_column = _column_of(table, "dimension", options.dimension)
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
    if pair[0] in table or pair[1] in table:
        options = replace(options, caption_a=pair[0], caption_b=pair[1])
        return _load_pairs(table, columns, dimension_column, card, options, remarks)

    return _load_ratings(table, value, columns, dimension_column, card, options, remarks)


def _load_pairs(
    table: Table,
    columns: Mapping[str, str | None],
    dimension_column: str | None,
    card: Card,
    options: JudgementOptions,
    remarks: Sequence[str],
) -> CaptionSet:
    """Load one row a comparison; the columns of both captions are those of the options.

    Raises:
        InputError: see `load_file`.
    """
    pair = (options.caption_a, options.caption_b)
    table, pair, winner_notes = add_winner(table, pair, options.winner)
    options = replace(options, caption_a=pair[0], caption_b=pair[1])
    table, left_out = read_winners(
        table,
        options.winner,
        (columns["system_a"], columns["system_b"]),
        options.winners,
        name_sides(pair),
    )
    strength_notes = describe_strengths(table, columns["strength"])
    card = replace(card, remarks=(*remarks, *winner_notes, *left_out, *strength_notes))
    dimensions = _dimensions(table, dimension_column)
    pairs = _read_pairs(table, columns, dimensions, card, options)
    return _with_text_remarks(pairs, table.path)


def _load_ratings(
    table: Table,
    value: str,
    columns: Mapping[str, str | None],
    dimension_column: str | None,
    card: Card,
    options: JudgementOptions,
    remarks: Sequence[str],
) -> CaptionSet:
    """Load one row a rating, of the column `value`.

    Raises:
        InputError: see `load_file`.
    """
    table, without_rating = drop_missing(table, value, options.missing)
    table, options, word_notes = _read_answer_words(table, value, options)
    dimensions = _dimensions(table, dimension_column)
    card = replace(card, remarks=(*remarks, *without_rating, *word_notes))
    image_ids = table.filled(options.image, "; name the column with file.image=")
    captions = table.texts(options.caption, "; name the column with file.caption=")
    hint = "" if value in table else f"{_LONG}{suggest_rater_columns(table)}"
    values = table.floats(value, None, hint)

    scale_by_dimension = _scales(table.path, dimensions, values, options)
    scale_by_row = [scale_by_dimension[dimension] for dimension in dimensions]
    _check_scales(table, value, values, scale_by_row)
    card = replace(
        card,
        scales=scale_by_dimension,
        totals=read_dimensions(table.path, "totals"),
        faults=read_dimensions(table.path, "faults"),
    )

    caption_set = JudgementColumns(
        places=table.places,
        image_ids=image_ids,
        captions=captions,
        values=values,
        raters=_texts(table, columns, "rater"),
        references=_references(table, columns),
        systems=_texts(table, columns, "system"),
        splits=_texts(table, columns, "split"),
        images=_images(table.path.parent, image_ids),
        dimensions=dimensions,
        clusters=_texts(table, columns, "cluster"),
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
    rater_columns = find_rater_columns(table, options.value)
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
    files = [file for file in (table.path, scales_path(table.path)) if file.is_file()]
    return replace(
        CARD,
        name=name,
        title=name if name != CARD.name else table.path.name,
        sources=tuple(SourceFile(str(file.absolute()), "your own file") for file in files),
        has_references=columns["references"] is not None,
        anonymous_raters=columns["rater"] is None,
        conditions=read_table_conditions(table.path),
    )


def _read_pairs(
    table: Table,
    columns: Mapping[str, str | None],
    dimensions: Sequence[str],
    card: Card,
    options: JudgementOptions,
) -> CaptionSet:
    """Read one row a comparison.

    Args:
        table: the rows.
        columns: by option; None where there is none.
        dimensions: of each row.
        card: of the set.
        options: the names of the columns of images, of both captions and of winners.

    Raises:
        InputError: see `load_file`.
    """
    if (columns["system_a"] is None) != (columns["system_b"] is None):
        missing = "system_b" if columns["system_b"] is None else "system_a"
        raise InputError(
            f"{table.path}: no column '{missing}'; name the column with file.{missing}="
        )

    image_ids = table.filled(options.image, "; name the column with file.image=")
    pairs = PairColumns(
        places=table.places,
        image_ids=image_ids,
        captions_a=table.filled(options.caption_a, "; name the column with file.caption_a="),
        captions_b=table.filled(options.caption_b, "; name the column with file.caption_b="),
        strengths=read_strengths(table, options.winner, columns["strength"]),
        dimensions=dimensions,
        raters=_texts(table, columns, "rater"),
        systems_a=_texts(table, columns, "system_a"),
        systems_b=_texts(table, columns, "system_b"),
        references=_references(table, columns),
        splits=_texts(table, columns, "split"),
        images=_images(table.path.parent, image_ids),
        clusters=_texts(table, columns, "cluster"),
        is_graded=columns["strength"] is not None,
    ).caption_set(card)
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


def _texts(table: Table, columns: Mapping[str, str | None], option: str) -> list[str] | None:
    """Return the column of an option; None where there is none."""
    column = columns[option]
    if column is None:
        return None

    return table.filled(column, f"; see file.{option}=")


def _references(table: Table, columns: Mapping[str, str | None]) -> list[tuple[str, ...]] | None:
    """Return each row's references; None where there is no column of them."""
    column = columns["references"]
    if column is None:
        return None

    return table.references(column, "; see file.references=")


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


def _check_scales(
    table: Table, column: str, values: Sequence[float], scales: Sequence[Scale]
) -> None:
    """Check each row's rating against its scale.

    Raises:
        InputError: at the first that is not on it.
    """
    for location, number, scale in zip(table.places, values, scales, strict=True):
        if not on_scale(scale, number):
            raise InputError(
                f"{location}: {column} is {format_rating(number)}, not on the scale {scale}"
            )


def _dimensions(table: Table, dimension: str | None) -> list[str]:
    """Return each row's dimension: from a column, or one name for all."""
    if dimension is not None and dimension in table:
        return table.filled(dimension)

    return [dimension or "overall"] * len(table)


def _scales(
    path: Path,
    dimensions: Sequence[str],
    values: Sequence[float],
    options: JudgementOptions,
) -> dict[str, Scale]:
    """Return the scale of each rated dimension.

    Args:
        path: the table.
        dimensions, values: of each row.
        options: the scales that are given, or a scale for all other dimensions.

    Raises:
        InputError: where one is malformed or missing, or the option names another dimension.
    """
    names = list(dict.fromkeys(dimensions))
    option_scales: Mapping[str, Scale] = {}
    if options.scales is not None:
        option_scales = scales_of_option(options.scales, "file.scales")
    for name in option_scales:
        if name not in names:
            raise unknown(f"dimension of {path} in file.scales", name, names)

    stored_scales = read_scales(path)
    missing = [name for name in names if name not in stored_scales and name not in option_scales]
    if stored_scales and missing:
        raise InputError(
            f"{scales_path(path)}:1: scales: {path.name} has ratings of '{missing[0]}', which has no "
            f"scale there; there are {', '.join(stored_scales)}; add it"
        )

    scale_by_dimension: dict[str, Scale] = {}
    for name in names:
        rated = [v for d, v in zip(dimensions, values, strict=True) if d == name]
        usual = stored_scales.get(name, Scale(min(rated), max(rated)))
        scale_by_dimension[name] = option_scales.get(name) or _scale(usual, options)

    return scale_by_dimension


def _scale(usual: Scale, options: JudgementOptions) -> Scale:
    """Return a scale with the parts that are given changed."""
    parts: dict[str, float] = {}
    for name in ("low", "high", "step"):
        number = getattr(options, name)
        if number is not None:
            parts[name] = number
    scale = replace(usual, **parts)

    if scale.low > scale.high or (options.step is not None and options.step <= 0):
        raise InputError(
            f"file.low={scale.low:g}, file.high={scale.high:g}, file.step={options.step}: these make no scale; "
            f"low must not exceed high, and the step must be above 0"
        )

    return scale


def _images(folder: Path, image_ids: Sequence[str]) -> list[str | None]:
    """Return the path of each image that is a file, seen from the table's folder."""
    path_by_image: dict[str, str | None] = {}
    for image_id in set(image_ids):
        path = folder / image_id
        try:
            path_by_image[image_id] = str(path) if path.is_file() else None
        except OSError:  # too long for a file name
            path_by_image[image_id] = None

    return [path_by_image[image_id] for image_id in image_ids]
