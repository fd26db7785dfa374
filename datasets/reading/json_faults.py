"""What is wrong with JSON that cannot be read: a comma too many, what Python prints instead of JSON, or a file that was cut."""

from __future__ import annotations

import re

#: How far before a fault its comma is looked for.
_NEAR = 1000
#: What Python prints where JSON has double quotes, null, true, false or NaN.
_PYTHON = re.compile(r"'|(?:None|True|False|nan|inf)\b")
_EXPECTS_VALUE = ("Expecting value", "Expecting property name")


def find_fault(text: str, position: int, problem: str) -> tuple[int, str]:
    """Return where a fault of JSON is, and what it is and what to do.

    Args:
        text: the JSON, or the part of it around the fault.
        position: where reading ended.
        problem: what Python's reader says.
    """
    before = text[max(0, position - _NEAR) : position]
    filled = before.rstrip()
    char = text[position : position + 1]
    is_value_expected = problem.startswith(_EXPECTS_VALUE)
    if char and char in "]}" and is_value_expected and filled.endswith(","):
        comma = position - len(before) + len(filled) - 1
        return comma, f"not valid JSON: there is a comma too many before '{char}'; delete it"

    if char == "," and problem == "Extra data":
        return position, (
            "not valid JSON: there is a comma too many after a value that is complete; JSON lines have no commas between "
            "them, and a list begins with '['"
        )

    if is_value_expected and _PYTHON.match(text, position):
        return position, (
            "not JSON but what Python prints of a list or an object, with single quotes, None, True or nan; write it with "
            "json.dump"
        )

    return position, f"not valid JSON ({problem}); the file may be truncated, get a new copy"
