"""Declarations: keys, types, headings and checks of options follow from the fields that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from captau.benchmarks.options.declaration import (
    NEEDED,
    Composed,
    Options,
    dataclass_part,
    option,
    part,
)
from captau.benchmarks.options.shared import at_least, check_share, one_of, words_of
from tests.conftest import says


@dataclass(frozen=True, kw_only=True)
class ExampleOptions(Options):
    """Options of no command."""

    headings: ClassVar[Mapping[str, str]] = {"draws": "Options of drawing"}

    file: Path = option(NEEDED, "what is read", takes="FILE")
    output: Path | None = option(None, "where to write", takes="FILE")
    draws: int | None = option(None, "how often", check=at_least(2))
    good: float = option(0.5, "a share", key="curve.good", check=check_share)
    kinds: tuple[str, ...] = option(
        "images", "which", key="kind", read=words_of, check=one_of(("images", "raters"))
    )


@dataclass(frozen=True)
class Drawing:
    """A dataclass of a domain, which knows no options."""

    size: int | None = None
    folder: Path | None = None
    colours: tuple[str, ...] = ()
    name: str = "none"


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(Options):
    """Options that hold a dataclass of a domain."""

    headings: ClassVar[Mapping[str, str]] = {"drawing": "Options of drawing"}

    is_new: bool = option(False, "whether it is new", key="new")
    drawing: Drawing = dataclass_part(
        Drawing,
        size=option(None, "how large", key="draw.size", check=at_least(2)),
        folder=option(None, "where to write"),
        colours=option(None, "which", read=words_of, check=one_of(("red", "blue"), "colour")),
        name=part(lambda composed: f"{composed['new']} {composed['colours']}"),
    )


PLAIN = {"file": "~/a", "output": None, "draws": 3, "curve": {"good": 1.0}, "kind": ["raters"]}


def test_keys_types_and_headings_follow_from_the_fields():
    by_key = {declared.key: declared for declared in ExampleOptions.declared()}
    assert list(by_key) == ["file", "output", "draws", "curve.good", "kind"]
    assert [by_key[key].type for key in ("file", "output", "draws")] == [
        *(str, str | None, int | None),
    ]
    assert [declared.is_literal for declared in by_key.values()] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [declared.heading for declared in by_key.values()] == [
        "",
        "",
        *["Options of drawing"] * 3,
    ]


def test_a_composed_configuration_becomes_paths_and_tuples():
    options = ExampleOptions.read(Composed(PLAIN))
    assert (options.file, options.output) == (Path("~/a").expanduser(), None)
    assert (options.draws, options.good, options.kinds) == (3, 1.0, ("raters",))


def test_defaults_are_those_of_the_declarations():
    options = ExampleOptions(file=Path("a"))
    assert (options.draws, options.good, options.kinds) == (None, 0.5, ("images",))


def test_a_bad_value_is_named_by_its_key_whoever_makes_the_options():
    with says("draws is 1; a whole number from 2 on is expected"):
        ExampleOptions(file=Path("a"), draws=1)
    with says("curve.good is 0.0; a number above 0 and up to 1 is expected"):
        ExampleOptions.read(Composed(PLAIN | {"curve": {"good": 0.0}}))
    with says("unknown kind 'rater'", "did you mean raters"):
        ExampleOptions.read(Composed(PLAIN | {"kind": ["images", "rater"]}))


def test_a_dataclass_of_the_domain_gives_its_options_their_keys_and_types():
    declared = DrawingOptions.declared()
    assert [(o.key, o.type, o.heading) for o in declared] == [
        ("new", bool, ""),
        ("draw.size", int | None, "Options of drawing"),
        ("folder", str | None, "Options of drawing"),
        ("colours", Any, "Options of drawing"),
    ]
    assert [o.key for o in declared if o.is_literal] == ["folder"]


def test_a_dataclass_of_the_domain_is_read_from_its_options():
    plain = {"new": True, "draw": {"size": 3}, "folder": "a", "colours": "red"}
    options = DrawingOptions.read(Composed(plain))
    assert options.is_new
    assert options.drawing == Drawing(3, Path("a"), ("red",), "True red")
    assert DrawingOptions().drawing == Drawing()


def test_values_of_a_dataclass_of_the_domain_are_checked_by_their_keys():
    with says("draw.size is 1; a whole number from 2 on is expected"):
        DrawingOptions(drawing=Drawing(size=1))
    with says("unknown colour 'reds'", "did you mean red"):
        DrawingOptions(drawing=Drawing(colours=("blue", "reds")))
