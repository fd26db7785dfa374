"""Shared images and captions of datasets, of made-up sets by hand and of the real ones."""

from __future__ import annotations

import pytest

from captau.benchmarks.commands import data_overlap as module
from captau.benchmarks.commands.data_overlap import overlap
from captau.datasets.errors import InputError
from captau.datasets.schema import CaptionSet, Card, make_items


def made(name, rows):
    card = Card(name, name, "1", "none", "none", "", has_references=False)
    return CaptionSet(
        make_items(
            [r[0] for r in rows],
            [r[1] for r in rows],
            [()] * len(rows),
            splits=[r[2] for r in rows],
        ),
        card=card,
    )


def test_shared_images_captions_and_leaks_are_counted(monkeypatch):
    sets = {
        "a": made("a", [("1", "x", "train"), ("2", "y", "test"), ("3", "z", "train")]),
        "b": made("b", [("1", "x", "train"), ("2", "other", "train"), ("9", "z", "test")]),
    }
    monkeypatch.setattr(module.registry, "load", lambda name, _: sets[name])
    (row,) = overlap(["a", "b"], None).rows
    # images of a, of b, shared; shared and on the same side: train, validation, test; leaks; captions
    assert row == ("a, b", ["3", "3", "2", "1", "0", "0", "1", "1"])


def test_captions_among_their_own_references_are_counted(monkeypatch):
    items = make_items(["1", "2", "3"], ["A dog.", "a cat", "x"], [("a dog",), ("a cat",), ("y",)])
    card = Card("a", "a", "1", "none", "none", "")
    sets = {"a": CaptionSet(items, card=card), "b": made("b", [("1", "x", "train")])}
    monkeypatch.setattr(module.registry, "load", lambda name, _: sets[name])
    assert overlap(["a", "b"], None).notes[1:] == [
        "a: 2 of 3 captions are one of their image's references, 1 letter by letter.",
        "b: 0 of 1 captions are one of their image's references, 0 letter by letter.",
    ]


def test_two_datasets_are_needed():
    with pytest.raises(InputError, match="two datasets are needed"):
        overlap(["demo", "demo"], None)


def test_no_leaks_between_the_real_sets_of_coco(data_root):
    (row,) = overlap(["capeval1k", "thumb"], data_root).rows
    assert row == ("capeval1k, thumb", ["250", "500", "26", "20", "4", "2", "0", "0"])
