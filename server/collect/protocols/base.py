"""What a form is: fields in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ....datasets.schema import Scale
from ...web.forms import field_value


class FormError(Exception):
    """What a person filled in is incomplete or wrong; the message says what to do."""


class Form(Protocol):
    """A way to judge what is shown at once.

    Attributes:
        name: the protocol's.
        template: the page that shows it.
        scales: of its dimensions; empty where it gathers no ratings.
    """

    name: str
    template: str
    scales: Mapping[str, Scale]

    def read(self, fields: Mapping[str, Sequence[str]], n: int, words: int) -> list[dict[str, Any]]:
        """The values of what was shown, in its order.

        Args:
            fields: what the browser sent; a field's values by its name.
            n: how many captions were shown.
            words: the fewest words of a reference.

        Raises:
            FormError: where something is missing or makes no sense.
        """
        ...

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """A value as ratings by dimension; empty where it is none."""
        ...


def level(fields: Mapping[str, Sequence[str]], name: str, what: str) -> int:
    """A whole number from 1 to 5.

    Raises:
        FormError: where it is none.
    """
    text = field_value(fields, name)
    if text not in ("1", "2", "3", "4", "5"):
        raise FormError(f"Choose {what}: 1, 2, 3, 4 or 5.")
    return int(text)
