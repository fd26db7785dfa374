"""Tables of judgements as the platforms export them: Mechanical Turk, Label Studio, Qualtrics, and a column a rater.

Each becomes a table of the usual columns. Rows that the file itself calls void are left out, and counted.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InputError
from .cells import is_missing, parse_number
from .flags import FLAGS, describe_void, find_flags
from .table import Table

#: What exports call the columns of judgements, by their usual names.
_NAMES = {
    "image": (
        "image_id",
        "image_url",
        "img",
        "file_name",
        "filename",
        "image_name",
        "image_path",
        "image_file",
        "img_id",
        "imgid",
        "video_id",
        "audio_id",
    ),
    "system_a": ("source1", "model_a"),
    "system_b": ("source2", "model_b"),
    "references": ("refs", "ref", "gts", "ground_truth", "ground_truths", "reference"),
    "value": (
        "rating",
        "score",
        "human_score",
        "human_rating",
        "human_judgement",
        "human_judgment",
        "mean_rating",
        "avg_rating",
        "mos",
    ),
    "winner": ("preference", "choice", "label", "verdict", "vote", "better", "selected"),
}
#: What tables of ratings call captions, where they are texts of several words.
_CAPTIONS = (
    "candidate",
    "cand",
    "candidate_caption",
    "generated_caption",
    "prediction",
    "pred",
    "hypothesis",
)
#: Columns of captions of which the first is the better one by its name.
BETTER_AND_WORSE = (
    ("chosen", "rejected"),
    ("preferred", "rejected"),
    ("win", "lose"),
    ("winner", "loser"),
    ("better", "worse"),
    ("positive", "negative"),
    ("pos_caption", "neg_caption"),
    ("positive_caption", "negative_caption"),
)
#: What files call the two captions of a pair.
_PAIRS = (
    ("caption1", "caption2"),
    ("caption_1", "caption_2"),
    ("caption_0", "caption_1"),
    ("caption0", "caption1"),
    ("caption_A", "caption_B"),
    ("captionA", "captionB"),
    ("response_a", "response_b"),
    ("response_A", "response_B"),
    ("response_1", "response_2"),
    ("output_1", "output_2"),
    ("output_a", "output_b"),
    *BETTER_AND_WORSE,
)
#: Of these, columns that may hold numbers of wins, or other words, in place of captions.
_MAYBE_COUNTS = (
    ("win", "lose"),
    ("winner", "loser"),
    ("better", "worse"),
    ("positive", "negative"),
)
#: Columns that only an export of Label Studio or Mechanical Turk has, and what it calls the rater.
_RATERS = {"annotation_id": "annotator", "HITId": "WorkerId"}
_TRUE = ("true", "1", "yes", "on")
#: The most columns that an error names.
_MOST_SUGGESTED = 12


def read_export(table: Table) -> tuple[Table, dict[str, str]]:
    """Return a table with the usual columns besides its own, and the names in the file of those that were added.

    A table that has the usual columns is returned as it is.
    """
    table = _skip_qualtrics_heads(table)
    has_task_data = any(name.startswith("data.") for name in table.names)
    if has_task_data and "annotations" in table:
        table = _unfold_tasks(table)
    if "HITId" in table:
        table = _read_mturk(table)

    own_names: dict[str, str] = {}
    for usual, names in _NAMES.items():
        name = table.first_of(*names)
        if usual not in table and name is not None:
            own_names[usual] = name
    # Where there is a column `caption`, no other one stands for it.
    captions = table.first_of("caption", *_CAPTIONS)
    if captions in _CAPTIONS and _holds_texts(table, captions):
        own_names["caption"] = captions
    added: dict[str, list[Any]] = {}
    if "winner" not in table and "winner" not in own_names:
        # Label Studio's question of two captions.
        selected = [name for name in table.names if name.endswith(".selected")]
        if len(selected) == 1:
            own_names["winner"] = selected[0]
        elif "label_0" in table and "label_1" in table:
            labels = zip(table.column("label_0"), table.column("label_1"), strict=True)
            added["winner"] = [_compare_labels(first, second) for first, second in labels]
    if "rater" not in table:
        for mark, name in _RATERS.items():
            if mark in table and name in table:
                own_names["rater"] = name

    for usual, name in own_names.items():
        added[usual] = table.column(name)
    return table.with_columns(added) if added else table, own_names


def find_pair(table: Table, names: tuple[str, str]) -> tuple[str, str]:
    """Return the columns of both captions: those that are named, or the first pair of usual names that is there."""
    if names[0] in table or names[1] in table:
        return names

    for pair in _PAIRS:
        if pair[0] not in table or pair[1] not in table:
            continue
        # Columns of such names may hold how often each caption won.
        if pair not in _MAYBE_COUNTS:
            return pair
        if _holds_texts(table, pair[0]) and _holds_texts(table, pair[1]):
            return pair
    return names


def _holds_texts(table: Table, name: str) -> bool:
    """Tell whether a column holds texts of several words, and no numbers or single words."""
    return any(isinstance(cell, str) and " " in cell.strip() for cell in table.column(name))


def name_sides(names: tuple[str, str]) -> dict[str, str]:
    """Return what 0 and 1 mean in a verdict on the columns `caption_0` and `caption_1`."""
    are_numbered = names[0].endswith("0") and names[1].endswith("1")
    return {"0": "a", "1": "b"} if are_numbered else {}


def add_winner(
    table: Table, names: tuple[str, str], winner: str
) -> tuple[Table, tuple[str, str], list[str]]:
    """Return a table whose columns say which caption is better, with the column of winners, and a sentence on that.

    Args:
        table: one row a pair.
        names: the columns of the two captions.
        winner: the column of winners.

    Returns:
        The table, the columns of the two captions in it, and the sentence, if there is one.
    """
    # `winner` and `better`, which elsewhere tell which caption is better, are in tables of these pairs that caption itself.
    is_caption = names in (("winner", "loser"), ("better", "worse"))
    has_winners = winner in table and not is_caption
    if names not in BETTER_AND_WORSE or has_winners:
        return table, names, []

    note = f"The caption in '{names[0]}' is taken for the better one of each pair."
    captions = ("caption_a", "caption_b")
    columns = {
        captions[0]: table.column(names[0]),
        captions[1]: table.column(names[1]),
        winner: ["a"] * len(table),
    }
    return table.with_columns(columns), captions, [note]


def _compare_labels(first: Any, second: Any) -> str | None:
    """Return the winner of two captions of which each has a number, such as 1 and 0 or both 0.5; None where one is missing."""
    difference = parse_number(first) - parse_number(second)
    if difference != difference:
        return None
    if difference == 0:
        return "tie"
    return "a" if difference > 0 else "b"


def _skip_qualtrics_heads(table: Table) -> Table:
    """Leave out the two rows below the names in which Qualtrics writes the questions and their ids."""
    if len(table) < 2 or not table.names:
        return table

    for name in table.names:
        if not str(table.column(name)[1]).startswith('{"ImportId"'):
            return table
    return table.keep(range(2, len(table)))


def _read_mturk(table: Table) -> Table:
    """Return a batch of results with what workers saw and answered under names without `Input.` and `Answer.`."""
    columns: dict[str, list[Any]] = {}
    answers: set[str] = set()
    for name in table.names:
        # All answers in one cell are unfolded below.
        if name == "Answer.taskAnswers":
            continue
        for prefix in ("Input.", "Answer."):
            if name.startswith(prefix):
                columns[name.removeprefix(prefix)] = table.column(name)
        if name.startswith("Answer."):
            answers.add(name.removeprefix("Answer."))

    if "Answer.taskAnswers" in table:
        rows = list(map(_read_task_answers, table.column("Answer.taskAnswers"), table.places))
        for name in _names_in_rows(rows):
            columns[name] = [row.get(name) for row in rows]
            answers.add(name)

    # A question of radio buttons may have a column each: rating.1, rating.2.
    buttons: dict[str, dict[str, list[Any]]] = {}
    for name in sorted(answers):
        question, dot, level = name.rpartition(".")
        if dot:
            buttons.setdefault(question, {})[level] = columns.pop(name)
            answers.discard(name)
    for question, by_level in buttons.items():
        answers.add(question)
        columns[question] = []
        for row_number in range(len(table)):
            buttons_of_row = {level: cells[row_number] for level, cells in by_level.items()}
            columns[question].append(_find_pressed(buttons_of_row))

    # The one answer is the rating, whatever the question is called.
    if len(answers) == 1 and "value" not in columns:
        columns["value"] = columns[next(iter(answers))]
    new_columns = {name: cells for name, cells in columns.items() if name not in table}
    return table.with_columns(new_columns)


def _names_in_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the names that any row has, in the order in which they appear."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return list(names)


def _read_task_answers(cell: Any, where: str) -> dict[str, Any]:
    """Return the answers in a cell of `Answer.taskAnswers`: a list of one object by question.

    Raises:
        InputError: where it is something else.
    """
    try:
        content = json.loads(cell) if isinstance(cell, str) else cell
    except ValueError as error:
        raise InputError(f"{where}: Answer.taskAnswers is not JSON ({error})") from error
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict):
        raise InputError(f"{where}: Answer.taskAnswers is not a list of one object of answers")

    answers: dict[str, Any] = {}
    for question, answer in content.items():
        answers[question] = _find_pressed(answer) if isinstance(answer, dict) else answer
    return answers


def _find_pressed(buttons: Mapping[str, Any]) -> str | None:
    """Return the one radio button that is on; None where none or several are."""
    pressed: list[str] = []
    for level, state in buttons.items():
        if str(state).strip().lower() in _TRUE:
            pressed.append(level)
    return pressed[0] if len(pressed) == 1 else None


def _unfold_tasks(table: Table) -> Table:
    """Return a row for each annotation of a full export of Label Studio, with the answers under their questions' names."""
    data_columns: dict[str, list[Any]] = {}
    for name in table.names:
        if name.startswith("data."):
            data_columns[name.removeprefix("data.")] = table.column(name)
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    for number, cell in enumerate(table.column("annotations")):
        annotations: list[Any] = cell if isinstance(cell, list) else []
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise InputError(f"{table.places[number]}: annotations are not objects")
            row = {name: column[number] for name, column in data_columns.items()}
            row["was_cancelled"] = annotation.get("was_cancelled", False)
            row["rater"] = _name_annotator(annotation.get("completed_by"))
            for answer in annotation.get("result") or ():
                row |= _read_answer(answer)
            rows.append(row)
            places.append(table.places[number])

    names = _names_in_rows(rows)
    return Table(table.path, names, places, lambda name: [row.get(name) for row in rows])


def _name_annotator(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        return str(completed_by.get("id", completed_by.get("email", "")))

    return str(completed_by)


def _read_answer(answer: Any) -> dict[str, Any]:
    """Return the answer to one question of Label Studio by the question's name."""
    value = answer.get("value") if isinstance(answer, dict) else None
    if not isinstance(value, dict):
        return {}

    for kind in ("rating", "number", "selected", "choices", "text"):
        if kind in value:
            content = value[kind]
            name = str(answer.get("from_name", kind))
            # The choice between two captions is a winner, whatever the question is called.
            if kind == "selected":
                name = f"{name}.selected"
            is_single = isinstance(content, list) and len(content) == 1
            return {name: content[0] if is_single else content}

    return {}


def select_rows(table: Table, where: str | None, *, keep_flagged: bool) -> tuple[Table, list[str]]:
    """Return the rows that count, and sentences on those that were left out.

    Args:
        table: the rows.
        where: `COLUMN=VALUE`, what rows have to have; None for all.
        keep_flagged: whether rows that the file itself calls void count.

    Raises:
        InputError: where `where` is malformed, names no column, or selects no row.
    """
    if where is not None:
        column, equals, value = where.partition("=")
        if not equals:
            raise InputError(f"file.where is '{where}'; COLUMN=VALUE is expected")
        cells = [str(cell).strip() for cell in table.column(column, "; see file.where=")]
        matching_rows = [number for number, cell in enumerate(cells) if cell == value.strip()]
        if not matching_rows:
            values = ", ".join(list(dict.fromkeys(cells))[:5])
            raise InputError(f"{table.path}: no row has {where}; {column} is {values}")
        table = table.keep(matching_rows)

    flagged: dict[str, list[Any]] = {}
    for name in FLAGS:
        if name in table:
            flagged[name] = table.column(name)
    if not flagged or keep_flagged:
        return table, []

    counts: Counter[str] = Counter()
    valid_rows: list[int] = []
    for number in range(len(table)):
        flags = find_flags({name: column[number] for name, column in flagged.items()})
        counts.update(flags)
        if not flags:
            valid_rows.append(number)
    if not counts:
        return table, []

    if not valid_rows:
        raise InputError(f"{table.path}: each row is flagged as void; file.flagged=keep reads them")
    remark = describe_void(
        len(table) - len(valid_rows),
        counts,
        noun="row",
        file_name=table.path.name,
        option="file.flagged=keep",
    )
    return table.keep(valid_rows), [remark]


def find_several_columns(table: Table, option: str, names: str) -> list[str]:
    """Return the columns that an option names together: `r1,r2,r3`, `[r1,r2,r3]` or `rater_*`; nothing where it names one.

    Args:
        table: the rows.
        option: `value`, whose columns are a rater each, or `references`, whose columns are a reference each.
        names: the option's value.

    Raises:
        InputError: where it names a column that is not there.
    """
    if names in table:
        return []
    if names.startswith("[") and names.endswith("]"):
        names = names[1:-1]
    elif "," not in names and "*" not in names:
        return []

    columns: list[str] = []
    for pattern in names.split(","):
        pattern = pattern.strip()
        matching_names = [name for name in table.names if fnmatch.fnmatchcase(name, pattern)]
        if not matching_names:
            # This raises the error that names the columns there are.
            table.column(pattern, f"; see file.{option}=")
        columns += matching_names
    return list(dict.fromkeys(columns))


def suggest_rater_columns(table: Table) -> str:
    """Return what to write where each rater has a column: the names of the columns that hold numbers alone, if several do."""
    names: list[str] = []
    for name in table.names:
        cells = [cell for cell in table.column(name) if not is_missing(cell)]
        are_numbers = all(math.isfinite(parse_number(cell)) for cell in cells)
        if cells and are_numbers:
            names.append(name)
    if not 2 <= len(names) <= _MOST_SUGGESTED:
        return "where each rater has a column, name all: file.value=r1,r2 or file.value=rater_*"

    return f"where each rater has a column, write file.value={','.join(names)}"


def unfold_raters(table: Table, columns: Sequence[str]) -> tuple[Table, list[str]]:
    """Return a row for each rating of a table with a column a rater, columns `rater` and `value`.

    An empty cell is no rating; a sentence says how many there are.
    """
    numbers: list[int] = []
    raters: list[str] = []
    values: list[Any] = []
    cells = {name: table.column(name) for name in columns}
    n_empty = 0
    for number in range(len(table)):
        for name in columns:
            value = cells[name][number]
            if is_missing(value):
                n_empty += 1
                continue
            numbers.append(number)
            raters.append(name)
            values.append(value)

    unfolded = table.keep(numbers).with_columns({"rater": raters, "value": values})
    if not n_empty:
        return unfolded, []
    cells_are = "cell of a rater's column is" if n_empty == 1 else "cells of raters' columns are"
    return unfolded, [f"{n_empty:,} {cells_are} empty, and no rating."]


def drop_missing(table: Table, value: str, missing: str) -> tuple[Table, list[str]]:
    """Return the rows that have a rating, and a sentence on how many have none.

    Args:
        table: the rows.
        value: the column of ratings.
        missing: `drop`, or `error` where a missing rating is one.

    Raises:
        InputError: where ratings are missing, unless they are to be dropped; where all are.
    """
    if value not in table:
        return table, []

    cells = table.column(value)
    empty = [number for number, cell in enumerate(cells) if is_missing(cell)]
    if not empty:
        return table, []

    is_or_are = "is" if len(empty) == 1 else "are"
    count = f"{len(empty):,} of {len(table):,} ratings {is_or_are} missing"
    if missing != "drop" or len(empty) == len(table):
        raise InputError(
            f"{table.places[empty[0]]}: {value} is {cells[empty[0]]!r}, not a number; {count} "
            f"({_list_places(table, empty)}); file.missing=drop leaves them out"
        )

    rated_rows = sorted(set(range(len(table))) - set(empty))
    return table.keep(rated_rows), [f"{count} ({_list_places(table, empty)}) and left out."]


def _list_places(table: Table, numbers: Iterable[int]) -> str:
    """Return the places of some rows within their file, twenty at most."""
    places: list[str] = []
    for number in numbers:
        places.append(table.places[number].removeprefix(str(table.path)).lstrip(": "))

    listed = ", ".join(places[:20])
    if len(places) > 20:
        listed += ", …"
    # Where places are lines, they are numbers alone.
    if not places[0].isdigit():
        return listed
    return f"lines {listed}" if len(places) > 1 else f"line {listed}"
