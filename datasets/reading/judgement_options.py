"""The options of `dataset=file`, by which a user's own judgements are read: each is declared once, with its help text.

`captau.load("file", …)` takes them by these names, and the command line and the functions from Python as `file.NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import InputError

_DEFAULT = "(default: as the YAML beside FILE says, else"


def _option(default: Any, text: str, *, takes: str = "", is_literal: bool = False) -> Any:
    """Declare an option.

    Args:
        default: the value where nobody gives one.
        text: the help text, without a full stop.
        takes: a placeholder of the value in help; empty for a column or a number.
        is_literal: whether the value is a path or free text, taken as it is typed.
    """
    metadata = {"help": text, "takes": takes, "is_literal": is_literal}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class JudgementOptions:
    """Options of reading a file of a user's own judgements: names of columns, scales, and which rows count.

    Raises:
        InputError: where there is no path, or a value makes no sense.
    """

    path: str | Path | None = _option(
        None,
        "CSV, TSV, JSON, JSON lines or Parquet, one row a rating or a comparison of two captions",
        takes="FILE",
        is_literal=True,
    )
    name: str = _option("file", "the name of the dataset in results")
    image: str = _option("image", "the column of images (default: image)")
    caption: str = _option("caption", "the column of captions (default: caption)")
    value: str = _option(
        "value",
        "the column of ratings (default: value), or the columns of a rater each: r1,r2 or rater_*",
        takes="NAME|A,B",
        is_literal=True,
    )
    rater: str | None = _option(None, "the column of raters, if there is one")
    references: str | None = _option(
        None,
        "the column of references, if there is one, or the columns of a reference each: ref1,ref2 or ref_*",
        takes="NAME|A,B",
        is_literal=True,
    )
    dimension: str | None = _option(
        None, "the column of rated dimensions, or the one dimension of all rows"
    )
    system: str | None = _option(None, "the column of systems, if there is one")
    split: str | None = _option(None, "the column of splits, if there is one")
    low: float | None = _option(None, f"the lower end of the scale {_DEFAULT} the least rating)")
    high: float | None = _option(
        None, f"the upper end of the scale {_DEFAULT} the greatest rating)"
    )
    step: float | None = _option(
        None, f"the distance between two grades of the scale {_DEFAULT} none)"
    )
    scales: Mapping[str, Any] | None = _option(
        None,
        "a scale per dimension, as the YAML beside FILE has them: "
        "'{precision: {low: 1, high: 5, step: 1}}'",
        takes="{..}",
    )
    caption_a: str = _option(
        "caption_a",
        "the column of first captions, in a table of comparisons (default: caption_a)",
    )
    caption_b: str = _option(
        "caption_b",
        "the column of second captions (default: caption_b)",
    )
    winner: str = _option(
        "winner",
        "the column that says which is better: a, b, tie, left, model_a, a system's name (default: winner)",
    )
    winners: Mapping[str, str] | None = _option(
        None,
        "what other words there mean, a, b, tie or none: '{first: a, second: b, both bad: none}'",
        takes="{..}",
    )
    strength: str | None = _option(
        None,
        "the column of graded preferences, positive for a and negative for b, if there is one",
    )
    system_a: str | None = _option(
        None, "the column of the first caption's systems, if there is one"
    )
    system_b: str | None = _option(
        None, "the column of the second caption's systems, if there is one"
    )
    cluster: str | None = _option(
        None, "the column of what intervals resample instead of images, if there is one"
    )
    missing: str = _option(
        "error", "drop leaves out rows without a rating (default: error)", takes="error|drop"
    )
    flagged: str = _option(
        "drop",
        "keep reads rows that the file itself flags as void, such as rejected assignments (default: drop)",
        takes="drop|keep",
    )
    where: str | None = _option(
        None,
        "the rows to read: those whose COLUMN is VALUE",
        takes="COLUMN=VALUE",
        is_literal=True,
    )

    def __post_init__(self) -> None:
        if self.path is None:
            raise InputError("dataset file: the option file.path=FILE is needed")
        if not isinstance(self.path, str | Path):
            raise InputError(f"file.path is {self.path!r}; the path of a file is expected")

        for option in fields(self):
            value = getattr(self, option.name)
            takes_text = option.type in ("str", "str | None")
            if takes_text and value is not None and not isinstance(value, str):
                raise InputError(
                    f"file.{option.name} is {value!r}; a text is expected, such as "
                    f"file.{option.name}=NAME, and of several columns 'NAME,NAME'"
                )

        for name, known_words in (("missing", ("error", "drop")), ("flagged", ("drop", "keep"))):
            word = getattr(self, name)
            if word not in known_words:
                raise InputError(f"file.{name} is '{word}', not {' or '.join(known_words)}")

        for name in ("low", "high", "step"):
            number = getattr(self, name)
            # To Python a bool is an int.
            if isinstance(number, bool) or not isinstance(number, int | float | None):
                raise InputError(
                    f"file.{name} is {number!r}; a number is expected, such as file.{name}=1"
                )
