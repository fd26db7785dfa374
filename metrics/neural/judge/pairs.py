"""A judge that says which of two captions is better, asked in both orders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from ....datasets.errors import InputError
from ....datasets.preferences import make_preferences
from ....datasets.schema import CaptionSet
from ...base import Floats
from .endpoint import Question
from .metric import MllmJudge
from .presets import Preset, UnusableError, choice_of, load_preset

PairPreset = Literal["pairwise", "pairwise_references"]
ORDERS = ("ab", "ba")


@dataclass(frozen=True)
class PairJudgements:
    """A judge's answers about pairs.

    Attributes:
        captions: the set that the pairs are of.
        judge: the model's name, which is the rater.
        orders: a row a pair: `pair_id, item_a, item_b`, and by order in which the captions were shown (`ab`,
            `ba`) the sum of the votes for a (1), for b (-1) and for neither (0); NaN without a usable one.
        n_unusable: how many answers were no judgement.
        asks_once: whether each pair was shown in one order alone, as in files of others' answers.
    """

    captions: CaptionSet
    judge: str
    orders: pd.DataFrame
    n_unusable: int
    asks_once: bool = False

    @property
    def signs(self) -> Floats:
        """By pair and order, 1 where a is preferred, -1 where b is, 0 for neither, NaN without a usable answer, shape (n_pairs, 2)."""
        return np.sign(self.orders[list(ORDERS)].to_numpy(dtype=np.float64))

    @property
    def strengths(self) -> pd.Series:
        """By pair 1 where both orders prefer a, -1 where both prefer b, else 0: a tie.

        Pairs without a usable answer in some order are left out. Where a judge was asked once, its one answer counts.
        """
        orders = self.orders.set_index("pair_id")
        if self.asks_once:
            sums = orders[list(ORDERS)].sum(axis=1, min_count=1).dropna()
            return pd.Series(np.sign(sums.to_numpy()), index=sums.index, name="strength")

        orders = orders.dropna()
        signs = np.sign(orders[list(ORDERS)].to_numpy(dtype=np.float64))
        strengths = np.where(signs[:, 0] == signs[:, 1], signs[:, 0], 0.0)
        return pd.Series(strengths, index=orders.index, name="strength")

    @property
    def preferences(self) -> pd.DataFrame:
        """The judge's preferences, columns `PREFERENCE_COLUMNS`, on the dimension `overall`."""
        strengths = self.strengths
        items = self.orders.set_index("pair_id").loc[strengths.index]
        rows: list[tuple[str, str, str, str, float]] = []
        for pair_id, a, b, strength in zip(
            strengths.index, items["item_a"], items["item_b"], strengths, strict=True
        ):
            rows.append((pair_id, a, b, "overall", float(strength)))

        return make_preferences(rows, self.judge)

    def write(self, path: Path) -> None:
        """Write the preferences as a table that `dataset=file file.path=…` reads (CSV)."""
        items = self.captions.items.set_index("item_id")
        preferences = self.preferences
        first = items.loc[preferences["item_a"]]
        second = items.loc[preferences["item_b"]]
        table: dict[str, Any] = {
            "image": first["image_id"].to_list(),
            "caption_a": first["caption"].to_list(),
            "caption_b": second["caption"].to_list(),
            "winner": preferences["strength"].map({1.0: "a", -1.0: "b", 0.0: "tie"}).to_list(),
            "dimension": preferences["dimension"].to_list(),
            "rater": preferences["rater"].to_list(),
            "references": [json.dumps(texts, ensure_ascii=False) for texts in first["references"]],
        }
        if (items["system"] != "").any():
            table |= {
                "system_a": first["system"].to_list(),
                "system_b": second["system"].to_list(),
            }

        pd.DataFrame(table).to_csv(path, index=False)


def judge_pairs(
    judge: MllmJudge, captions: CaptionSet, preset: PairPreset = "pairwise"
) -> PairJudgements:
    """Ask a judge which caption of each pair is better, in both orders.

    Args:
        judge: who is asked, and how: its own preset does not matter, all else does (a prompt of one's own has
            `{caption_1}` and `{caption_2}`; each order is asked as often as it has votes).
        captions: a set with preferences; each of its pairs is asked about once, whoever judged it.
        preset: `pairwise` shows the image, `pairwise_references` the references.

    Raises:
        InputError: where the set has no pairs, a pair is of one caption, an image or references are missing,
            or (`unusable=error`) an answer is no judgement; and as of `MllmJudge.ask`.
    """
    columns = ["pair_id", "item_a", "item_b"]
    pairs = captions.preferences.drop_duplicates("pair_id")[columns].reset_index(drop=True)
    if pairs.empty:
        raise InputError(f"dataset {captions.name}: it has no pairs of captions to be judged")

    prompt = judge.effective_preset(load_preset(preset))
    items = captions.items.set_index("item_id").to_dict("index")

    # By pair, then by order, then by vote, which is how the answers are read below.
    questions: list[Question] = []
    for pair in pairs.to_dict("records"):
        for order in ORDERS:
            questions += _questions(judge, prompt, pair, items, order)

    per_pair = len(ORDERS) * judge.votes
    labels = pairs["pair_id"].to_list()
    answers = judge.ask(questions, prompt, lambda i: f"pair {labels[i // per_pair]}")

    votes = np.full(len(answers), np.nan)
    for i, answer in enumerate(answers):
        try:
            votes[i] = (0.0, 1.0, -1.0)[choice_of(answer)]
        except UnusableError as error:
            if judge.unusable == "error":
                raise InputError(
                    f"judge {judge.model}: pair {labels[i // per_pair]}: {error}; "
                    f"unusable=undefined leaves such answers out"
                ) from error

    # In the second order caption 1 is b.
    by_order = votes.reshape(len(pairs), len(ORDERS), judge.votes) * np.array([[1.0], [-1.0]])
    is_usable = ~np.isnan(by_order)
    sums = np.where(is_usable.any(axis=2), np.nansum(by_order, axis=2), np.nan)

    orders = pairs.assign(**{order: sums[:, i] for i, order in enumerate(ORDERS)})
    return PairJudgements(captions, judge.model, orders, int((~is_usable).sum()))


def _questions(
    judge: MllmJudge, prompt: Preset, pair: dict[Any, Any], items: dict[Any, Any], order: str
) -> Sequence[Question]:
    """Make the questions about a pair whose captions are shown in an order, one a vote.

    Raises:
        InputError: where both captions are one, or what the prompt shows is missing.
    """
    where = f"pair {pair['pair_id']}"
    first, second = (items[pair[f"item_{side}"]] for side in order)
    if pair["item_a"] == pair["item_b"]:
        raise InputError(f"{where}: both captions are item {pair['item_a']}")
    if prompt.shows_references and not first["references"]:
        raise InputError(f"{where}: it has no references; preset=pairwise shows the image")
    if prompt.shows_image and first["image"] is None:
        raise InputError(f"{where}: its image is not here; preset=pairwise_references does without")

    captions = {"caption_1": first["caption"], "caption_2": second["caption"]}
    text = prompt.fill(captions, first["references"])
    image = first["image"] if prompt.shows_image else None
    return [Question(text, image, vote) for vote in range(judge.votes)]
