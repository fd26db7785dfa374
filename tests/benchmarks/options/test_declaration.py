"""Declarations: keys, types, headings and checks of options follow from the fields that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from captau.benchmarks.options.declaration import NEEDED, Composed, Options, option
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
