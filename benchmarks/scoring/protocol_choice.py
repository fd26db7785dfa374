"""The declaration of one choice of the protocol: its usual value, its type, its values and its words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet

#: What a number is of, for the words of a choice: any score, ratings, preferences, or one of these two.
Judged = Literal["", "ratings", "pairs", "judgements"]


@dataclass(frozen=True)
class Choice:
    """The declaration of one choice of the protocol.

    Attributes:
        usual: its value in the usual protocol, as YAML has it.
        help: the help text of its option, in which `{values}` stands for all values.
        values: those that it may have, or a function that lists them; empty where any text is one.
        words: its clause of a methods section in LaTeX, by value, or for each value but the usual one, which stands at
            `{value}`; empty for a choice that another one's clause tells.
        said_of: the numbers whose methods the clause belongs to.
        noted: whether the line below a table names it always, where it is not the usual one, or never.
        type: that of its option; Any takes a name or a list of names.
        takes: the placeholder of its option in help texts.
        least: the least whole number that it may be; None for a choice that is no number. An unset one, None, is allowed
            where the type takes it.
        is_compared: whether numbers that differ in it cannot be compared.
        is_later: whether older files and digests lack it, which is so of every new choice; see `metrics.base.later_options`.
        is_signed: whether it changes the texts that are scored, and so belongs to the signatures of scores.
        change_ratings: returns the ratings of a dataset as a value of the choice has them: scaled, or fewer; None for a
            choice that leaves them as they are.
        left_out: what notes say of the ratings that it leaves out, behind their number.
    """

    usual: Any
    help: str
    values: tuple[str, ...] | Callable[[], Iterable[str]] = ()
    words: str | Mapping[str, str] = ""
    said_of: Judged = ""
    noted: Literal["always", "changed", "never"] = "changed"
    type: Any = str | None
    takes: str = ""
    least: int | None = None
    is_compared: bool = True
    is_later: bool = False
    is_signed: bool = False
    change_ratings: Callable[[CaptionSet, pd.DataFrame, Any], pd.DataFrame] | None = None
    left_out: str = ""

    def allowed(self) -> tuple[str, ...]:
        """List the values that it may have; none where any text is one."""
        return tuple(self.values() if callable(self.values) else self.values)

    def check_number(self, value: Any, key: str) -> None:
        """Check a value of a choice that is a whole number.

        Raises:
            InputError: where it is none, or less than `least`.
        """
        is_unset = value is None and self.usual is None
        if self.least is None or is_unset:
            return
        if type(value) is not int or value < self.least:
            raise InputError(f"{key} is {value!r}; a whole number from {self.least} on is expected")

    def clause(self, value: Any) -> str:
        """Return the clause of a value for a methods section; empty where it has none."""
        if not isinstance(self.words, str):
            return self.words.get(value, "")
        return self.words if value and value != self.usual else ""


def as_tuple(value: Any, key: str) -> tuple[str, ...] | None:
    """Return one name or several as a tuple, each once."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        raise InputError(f"protocol.{key} is {value!r}; a name or a list of names is expected")

    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    names = value if is_list else [value]
    return tuple(dict.fromkeys(map(str, names)))


def choice(usual: Any, help_text: str, **attributes: Any) -> Any:
    """Declare a field of `Protocol`; the attributes are those of `Choice`."""
    declared = Choice(usual, help_text, **attributes)
    default = as_tuple(usual, "") if declared.type is Any else usual
    return dataclasses.field(default=default, metadata={"choice": declared})
