"""What the generated pages of the site are written with: tables, docstrings as Markdown, links between pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Where a file at the root is found on the site.
AT_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "docs/quickstart.ipynb": "notebook.md",
}


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table; what would end a cell early is escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + " :-- |" * len(head)]
    for row in rows:
        cells = (re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split())) for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def code(text: str, language: str = "") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def docstring(thing: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """A docstring's text, and its sections `Args:`, `Raises:`, …: name → what is said of it."""
    paragraphs: list[str] = []
    found: dict[str, dict[str, str]] = {}
    example = ""
    # A section's entries are indented, and so is a formula; but that has no heading.
    for block in re.split(r"\n\n(?=\S)", inspect.getdoc(thing) or ""):
        heading, _, inside = block.partition("\n")
        if match := re.fullmatch(r"(Args|Attributes|Returns|Raises):", heading):
            found[match[1]] = entries(dedent(inside))
        elif heading == "Example:":
            example = f"\n\n```python\n{dedent(inside)}\n```"
        else:
            paragraphs.append(block)
    return escaped("\n\n".join(paragraphs)) + example, {
        k: {n: escaped(t) for n, t in v.items()} for k, v in found.items()
    }


def entries(text: str) -> dict[str, str]:
    """`a, b: text` with its continuation lines → one entry a name; plain text has the name ""."""
    out: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        match = re.match(r"([\w, ]+):\s+(.*)", block, re.S)
        names = match[1].split(", ") if match else [""]
        said = " ".join((match[2] if match else block).split())
        out |= {name: f"{out[name]} {said}" if name in out else said for name in names}
    return out


def escaped(text: str) -> str:
    """Text in which `<` and `*` stand for themselves; code and formulas stay as they are."""
    parts = re.split(r"(``[^`]+``|`[^`]+`|^ {4}.*$)", text, flags=re.M)
    return "".join(p if i % 2 else re.sub(r"[<*]", r"\\\g<0>", p) for i, p in enumerate(parts))


def guides(*wanted: str) -> str:
    """Links to the hand-written pages that speak of something by one of these patterns."""
    found = [
        f"- [{title_of(path)}](../{path.name})"
        for path in sorted(DOCS.glob("*.md"))
        if any(re.search(w, path.read_text(encoding="utf-8")) for w in wanted)
    ]
    return "## Read on\n\n" + "\n".join(found) + "\n" if found else ""


def relink(text: str, name: str) -> str:
    """Links between files as links between pages; one whose text is the path reads as a title.

    Args:
        text: Markdown.
        name: the file that it stands in, from the root.
    """
    where = Path(name).parent

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        path = (ROOT / where / target).resolve()
        if not path.is_relative_to(ROOT):
            return match[0]
        path = path.relative_to(ROOT)
        page = AT_ROOT.get(str(path), str(path.relative_to("docs")) if "docs" in path.parts else "")
        if not page:
            return match[0]
        if label in (target, str(path), path.name):
            label = title_of(ROOT / path)
        return f"[{label}]({page}{anchor})"

    return re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+\.(?:md|ipynb))(#[^)\s]*)?\)", link, text)


def title_of(path: Path) -> str:
    """What a Markdown file is called: its first heading, up to a colon."""
    match = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.M)
    return match[1].partition(":")[0].strip() if match else path.stem


def plain(value: Any) -> str:
    """A default as it would be typed."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return "`[" + ",".join(map(str, value)) + "]`"
    return f"`{value}`" if str(value) else "empty"


def linked(text: str) -> str:
    """`docs/NAME.md` as a link to that page."""

    def link(match: re.Match[str]) -> str:
        path = DOCS / match[1]
        return f"[{title_of(path)}](../{match[1]})" if path.is_file() else match[0]

    return re.sub(r"docs/(\w+\.md)", link, text)
