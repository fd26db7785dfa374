"""How the code reads, as far as a test can tell: no literal is packed, and docstrings describe names that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("benchmarks", "captau", "conf", "datasets", "metrics", "server")
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
#: The sections of a docstring whose entries begin with names.
SECTION = re.compile(r"^ *(?:Args|Attributes):\n((?:(?: {4,}.*)?\n)*)", re.MULTILINE)


def find_packed_literals(tree: ast.Module) -> Iterator[int]:
    """Yield the lines on which a literal is unpacked into a call, a list, a tuple, a set or a dictionary."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None and isinstance(value, ast.Dict):
                    yield value.lineno
        elements: list[ast.expr] = []
        if isinstance(node, ast.Call):
            elements = node.args
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            elements = node.elts
        for element in elements:
            if isinstance(element, ast.Starred) and isinstance(element.value, ast.Tuple | ast.List):
                yield element.lineno


def find_described_names(docstring: str) -> Iterator[str]:
    """Yield the names that the sections Args and Attributes of a docstring describe."""
    for section in SECTION.findall(f"{docstring}\n"):
        lines = [line for line in section.splitlines() if line.strip()]
        least_indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
        for line in lines:
            entry = re.match(r"([a-z_][\w, *]*):", line[least_indent:])
            if entry:
                yield from re.findall(r"\w+", entry[1])


def find_known_names(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters of a function, or all names that a class uses."""
    if not isinstance(node, ast.ClassDef):
        return {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}

    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            names.add(inner.arg)
        elif isinstance(inner, ast.Name):
            names.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            names.add(inner.attr)
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(inner.name)
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_literal_is_packed_and_no_docstring_is_stale(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert list(find_packed_literals(tree)) == []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            described = set(find_described_names(ast.get_docstring(node) or ""))
            assert described <= find_known_names(node), f"line {node.lineno}: {node.name}"


def test_the_checks_see_what_they_look_for() -> None:
    packed = 'f(*(a, b), c)\n[*[1], 2]\n{**{"a": 1}}\n(*names, 1)\n'
    assert sorted(find_packed_literals(ast.parse(packed))) == [1, 2, 3]
    docstring = "Do it.\n\nArgs:\n    a, b: two.\n    c: one,\n        and more: of it.\n\nReturns:\n    d: x.\n"
    assert list(find_described_names(docstring)) == ["a", "b", "c"]
    (function,) = ast.parse("def f(a, *, b=1, **c): ...").body
    assert isinstance(function, ast.FunctionDef)
    assert find_known_names(function) == {"a", "b", "c"}
