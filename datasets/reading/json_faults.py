"""Faults of JSON that cannot be read: a comma too many, what Python prints instead of JSON, or a file that was cut."""

from __future__ import annotations

import re

#: How far before a fault its comma is looked for.
_NEAR = 1000
#: What Python prints where JSON has double quotes, null, true, false or NaN.
_PYTHON = re.compile(r"'|(?:None|True|False|nan|inf)\b")
_EXPECTS_VALUE = ("Expecting value", "Expecting property name")
#: A list that begins as no list of JSON or Python does, but as a line of a log: [INFO] loading.
_LOGGED = re.compile(
    r"\[(?!(?:null|true|false|NaN|Infinity|None|True|False|nan|inf)\b)[A-Za-z][^\]\[\n{\"',]*\]"
)
#: Where a list or an object of captions begins below other lines.
_BELOW = re.compile(r"\n[ \t]*(?=[\[{]\s*[\[{\"])")
#: A line of YAML: the mark of a document, an element of a list, or a key.
_YAML = re.compile(r"---\s|-\s+\S|[\w\"' -]{1,40}:\s")
#: The longest beginning of a file in a message.
_MOST_QUOTED = 40


def find_fault(text: str, position: int, problem: str) -> tuple[int, str]:
    """Return where a fault of JSON is, and what it is and what to do.

    Args:
        text: the JSON, or the part of it around the fault.
        position: where reading ended.
        problem: what Python's reader says.
    """
    if text.startswith(("//", "#", "/*"), position):
        return position, "not valid JSON: there is a comment, which JSON has none of; take it out"
    before = text[max(0, position - _NEAR) : position]
    filled = before.rstrip()
    char = text[position : position + 1]
    is_value_expected = problem.startswith(_EXPECTS_VALUE)
    if char in ("]", "}") and is_value_expected and filled.endswith(","):
        n_blanks = len(before) - len(filled)
        comma = position - n_blanks - 1
        return comma, f"not valid JSON: there is a comma too many before '{char}'; delete it"

    if char == "," and problem == "Extra data":
        return position, (
            "not valid JSON: there is a comma too many after a value that is complete; JSON lines have no commas between "
            "them, and a list begins with '['"
        )

    if char in ("\0", "\x1a"):
        return (
            position,
            f"not valid JSON: there is a control character, {char!r}; the file is damaged, take it out or get a new copy",
        )

    if is_value_expected and _PYTHON.match(text, position):
        return position, (
            "not JSON but what Python prints of a list or an object, with single quotes, None, True or nan; write it with "
            "json.dump"
        )

    if problem.startswith("Expecting property name") and char.isalpha():
        return (
            position,
            "not valid JSON: a key has no quotes; write it in double quotes, with json.dump",
        )

    return position, f"not valid JSON ({problem}); the file may be truncated, get a new copy"


def is_yaml(text: str) -> bool:
    """Tell whether a text begins as YAML does."""
    return _YAML.match(text) is not None


def is_logged(text: str) -> bool:
    """Tell whether a text begins with a line of a log in brackets, which looks like a list."""
    return _LOGGED.match(text) is not None


def describe_beginning(text: str) -> str:
    """Say what a file is that was read as JSON, and begins as none does."""
    if "```" in text[:_NEAR]:
        return "not valid JSON but a block of Markdown (```); keep what stands between its fences"
    if text.startswith(("//", "#", "/*")):
        return "not valid JSON: it begins with a comment, which JSON has none of; take it out"
    below = _BELOW.search(text)
    if below:
        n_lines = text.count("\n", 0, below.end())
        lines = "line of text stands" if n_lines == 1 else "lines of text stand"
        return f"not valid JSON: {n_lines} {lines} above it, such as of a log; take {'it' if n_lines == 1 else 'them'} out"
    if is_yaml(text):
        return "not valid JSON: it looks like YAML, which is not read; write it as JSON, with json.dump"

    line = text.partition("\n")[0].rstrip("\r")
    beginning = line if len(line) <= _MOST_QUOTED else f"{line[:_MOST_QUOTED]}…"
    columns = [column.strip(" \"'") for column in re.split("[,;\t|]", line)]
    if len(columns) > 1 and "caption" in columns:
        return (
            f"not valid JSON but a table, whose first line is '{beginning}'; write a list of objects with image_id and caption, "
            "with json.dump"
        )
    return (
        f"not valid JSON: it begins with '{beginning}', as no list and no object does; write JSON, or a table whose first line "
        "names its columns, such as image_id,caption"
    )


def describe_encoded_twice(value: object) -> str:
    """Say what to do about a text that is JSON itself; empty for other values."""
    is_json = isinstance(value, str) and value.lstrip().startswith(("[", "{"))
    return (
        "; it is JSON that was written as a text of JSON, write it with json.dump once"
        if is_json
        else ""
    )
