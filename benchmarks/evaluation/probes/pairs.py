"""Pairs of a caption and the same caption with one fault, made by rule and seed, or published as a dataset of foils.

`make_probe_pairs` and `take_foils` are what `captau probe` calls; `Probes.items` are the captions that metrics score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ....datasets.caption_texts import comparison_form
from ....datasets.errors import InputError
from ....datasets.schema import CaptionSet, make_items
from ...runs.frames import make_frame, records_of
from ..evaluation_set import order_by_content
from ..wording import join_notes
from .faults import (
    CONTROLS,
    ENGLISH_FAULTS,
    FAULTS,
    CannotMakeError,
    Obstacle,
    Original,
    make_fault,
)
from .words import english_words

#: A row a pair. `item_id` stands for the original caption and `pair_id` for the faulty one wherever these are scored.
PAIR_COLUMNS = (
    "pair_id",
    "fault",
    "item_id",
    "image_id",
    "image",
    "caption",
    "faulty_caption",
    "references",
)
#: How often another image is drawn, where its caption says the same.
_DRAWS = 20


@dataclass(frozen=True)
class Probes:
    """The pairs of all faults.

    Attributes:
        pairs: columns `PAIR_COLUMNS`.
        notes: by fault, how many captions it could not be made of, and why; empty where there is none.
    """

    pairs: pd.DataFrame
    notes: Mapping[str, str]

    @property
    def items(self) -> pd.DataFrame:
        """The captions to score, original and faulty: the columns of a `CaptionSet`'s items that metrics read."""
        shared = ["image_id", "image", "references"]
        originals = self.pairs[["item_id", "caption", *shared]].drop_duplicates("item_id")
        faulty = self.pairs[["pair_id", "faulty_caption", *shared]]
        names = {"pair_id": "item_id", "faulty_caption": "caption"}
        items = pd.concat([originals, faulty.rename(columns=names)], ignore_index=True)
        return items.assign(system=None, weight=1)

    def join(self, other: Probes) -> Probes:
        """Return these pairs and others, which have other faults."""
        pairs = pd.concat([self.pairs, other.pairs], ignore_index=True)
        return Probes(pairs, {**self.notes, **other.notes})


def items_of_references(references: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Make items of references alone: each is a caption once, and is left out of its own references then."""
    rows: list[tuple[str, str, tuple[str, ...]]] = []
    for image_id, texts in references.items():
        for index, text in enumerate(texts):
            other_texts = (*texts[:index], *texts[index + 1 :])
            if other_texts:
                rows.append((image_id, text, other_texts))
    if not rows:
        raise InputError(
            "no image has two references; one of them is the caption, so give two an image, or candidates=FILE"
        )

    return make_items(*(list(column) for column in zip(*rows, strict=True)))


def make_probe_pairs(items: pd.DataFrame, faults: Sequence[str], n_pairs: int, seed: int) -> Probes:
    """Make pairs: of each fault at most so many, of as many images as there are.

    Each image gives a first caption before any gives a second one. Copies of a caption are left out of its references.

    Args:
        items: of a `CaptionSet`, with references.
        faults: names of `FAULTS` and `CONTROLS`.
        n_pairs: the most pairs of a fault.
        seed: of all draws; neither the order of rows, nor names of images, nor the choice of faults moves them.

    Raises:
        InputError: where no caption has references.
    """
    rows = _order_items(items, seed)
    if not rows:
        raise InputError("no caption has a reference that differs from it; probes need one")

    lists = english_words()
    is_english = lists.is_english([row["caption"] for row in rows])

    pairs: list[dict[str, Any]] = []
    notes: dict[str, str] = {}
    for fault in faults:
        if fault in ENGLISH_FAULTS and not is_english:
            notes[fault] = "needs English captions"
            continue
        # A generator for each fault, so that no fault's draws depend on the choice of the others.
        index = [*FAULTS, *CONTROLS].index(fault)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))

        obstacles: Counter[Obstacle] = Counter()
        pairs_of_fault: list[dict[str, Any]] = []
        for row in rows:
            if len(pairs_of_fault) == n_pairs:
                break
            try:
                pairs_of_fault.append(_make_pair(fault, row, rows, rng))
            except CannotMakeError as error:
                obstacles[error.obstacle] += 1

        pairs += pairs_of_fault

        n_tried = len(pairs_of_fault) + obstacles.total()
        counts = [f"{n:,} {obstacle}" for obstacle, n in sorted(obstacles.items())]
        notes[fault] = ""
        if counts:
            notes[fault] = (
                f"captions left out: {obstacles.total():,} of {n_tried:,} ({', '.join(counts)})"
            )

    if "other_image" in notes:
        notes["other_image"] = join_notes(_describe_borrowed(rows), notes["other_image"])
    return Probes(make_frame(pairs, PAIR_COLUMNS), notes)


def take_foils(caption_set: CaptionSet, kinds: Sequence[str], n_pairs: int, seed: int) -> Probes:
    """Take the pairs of a dataset of foils: of each kind at most so many, drawn by seed.

    Neither caption is scored against a reference that is one of the two. Pairs are left out of which people do not prefer
    the right caption, or that have no other reference.

    Args:
        caption_set: its preferences are between a right caption, the first, and the same with a fault.
        kinds: dimensions of its preferences.
        n_pairs: the most pairs of a kind.
        seed: of the draw; the order of rows does not move it.
    """
    items = caption_set.items.set_index("item_id")
    by_pair = caption_set.preferences.groupby("pair_id", sort=True)
    judged = by_pair.agg({"item_a": "first", "item_b": "first", "dimension": "first"})
    strengths = by_pair["strength"].mean()

    pairs: list[dict[str, Any]] = []
    notes: dict[str, str] = {}
    for kind in kinds:
        of_kind = judged[judged["dimension"] == kind]
        rng = np.random.default_rng(seed)
        n_not_preferred = 0
        n_without = 0
        pairs_of_kind: list[dict[str, Any]] = []
        for index in rng.permutation(len(of_kind)):
            if len(pairs_of_kind) == n_pairs:
                break

            pair_id = str(of_kind.index[index])
            right_id, foil_id = of_kind.iloc[index][["item_a", "item_b"]]
            pair = _make_foil_pair(pair_id, kind, items.loc[right_id], items.loc[foil_id])
            if strengths[pair_id] <= 0:
                n_not_preferred += 1
            elif not pair["references"]:
                n_without += 1
            else:
                pairs_of_kind.append(pair)

        pairs += pairs_of_kind
        notes[kind] = _describe_left_out(n_not_preferred, n_without)

    return Probes(make_frame(pairs, PAIR_COLUMNS), notes)


def _make_foil_pair(pair_id: str, kind: str, right: pd.Series, foil: pd.Series) -> dict[str, Any]:
    own_forms = {comparison_form(right["caption"]), comparison_form(foil["caption"])}
    references = [text for text in right["references"] if comparison_form(text) not in own_forms]
    return {
        "pair_id": pair_id,
        "fault": kind,
        # In each pair the caption may have other references.
        "item_id": f"{pair_id}|original",
        "image_id": right["image_id"],
        "image": right["image"],
        "caption": right["caption"],
        "faulty_caption": foil["caption"],
        "references": tuple(references),
    }


def _describe_left_out(n_not_preferred: int, n_without: int) -> str:
    """Say how many published pairs are left out, and why; empty where none is."""
    reasons: list[str] = []
    if n_not_preferred:
        reasons.append(f"{n_not_preferred:,} whose right caption people do not prefer")
    if n_without:
        reasons.append(f"{n_without:,} without another reference")
    if not reasons:
        return ""

    return f"pairs left out: {n_not_preferred + n_without:,} ({', '.join(reasons)})"


def _describe_borrowed(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say where most captions are references of other images, so that another image's caption is no fault of theirs."""
    images_by_form: dict[str, set[str]] = {}
    for row in rows:
        for text in row["references"]:
            images_by_form.setdefault(comparison_form(text), set()).add(row["image_id"])

    n_borrowed = 0
    for row in rows:
        images = images_by_form.get(comparison_form(row["caption"]), set())
        n_borrowed += bool(images) and row["image_id"] not in images

    if n_borrowed <= len(rows) / 2:
        return ""

    return (
        f"{n_borrowed:,} of the {len(rows):,} captions are references of other images themselves, so that the caption of yet "
        "another image is hardly worse"
    )


def _order_items(items: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Return the items with references, copies left out, in a random order: first captions of images come first."""
    rows: list[dict[str, Any]] = []
    contents: list[tuple[Any, ...]] = []
    for text, references, system in zip(
        items["caption"], items["references"], items["system"], strict=True
    ):
        contents.append((text, references, str(system)))
    ordered = order_by_content(items, contents)

    for row in records_of(ordered):
        form = comparison_form(row["caption"])
        # A caption that is one of its references is no caption beside them.
        references = [text for text in row["references"] if comparison_form(text) != form]
        if references and form:
            rows.append({**row, "references": tuple(references)})

    rng = np.random.default_rng(seed)
    shuffled = [rows[index] for index in rng.permutation(len(rows))]

    n_captions: Counter[str] = Counter()
    rounds: list[int] = []
    for row in shuffled:
        rounds.append(n_captions[row["image_id"]])
        n_captions[row["image_id"]] += 1

    return [shuffled[index] for index in np.argsort(rounds, kind="stable")]


def _make_pair(
    fault: str, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], rng: np.random.Generator
) -> dict[str, Any]:
    """Make one pair.

    Raises:
        CannotMakeError: where the fault cannot be made of this caption.
    """
    references: tuple[str, ...] = row["references"]

    def draw_other() -> str:
        for _ in range(_DRAWS):
            drawn = rows[int(rng.integers(len(rows)))]
            is_same = comparison_form(drawn["caption"]) == comparison_form(row["caption"])
            if drawn["image_id"] != row["image_id"] and not is_same:
                return drawn["caption"]
        raise CannotMakeError(Obstacle.UNCHANGED)

    item_id = row["item_id"]
    pair_id = f"{item_id}|{fault}"
    # Both captions are scored without the reference that is the second one.
    if fault == "other_reference":
        if len(references) < 2:
            raise CannotMakeError(Obstacle.NO_REFERENCE)

        faulty = references[int(rng.integers(len(references)))]
        form = comparison_form(faulty)
        other_references = [text for text in references if comparison_form(text) != form]
        references = tuple(other_references)
        item_id = f"{pair_id}|original"
        if not references:
            raise CannotMakeError(Obstacle.NO_REFERENCE)
    else:
        original = Original(
            caption=row["caption"],
            references=references,
            draw_other=draw_other,
            lists=english_words(),
            rng=rng,
        )
        faulty = make_fault(fault, original)

    return {
        "pair_id": pair_id,
        "fault": fault,
        "item_id": item_id,
        "image_id": row["image_id"],
        "image": row["image"],
        "caption": row["caption"],
        "faulty_caption": faulty,
        "references": references,
    }
