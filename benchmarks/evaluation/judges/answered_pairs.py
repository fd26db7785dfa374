"""A judge's answers of a file, set beside the pairs of a dataset that people judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....datasets.caption_texts import collapse_blanks
from ....datasets.reading.caption_ids import match_forms, rules_for
from ....datasets.reading.pair_answers import ORDERS, PairAnswer
from ....datasets.schema import CaptionSet
from ....metrics.neural.judge.pairs import PairJudgements

#: A pair of captions of an image, whichever of them stands first.
_Key = tuple[str, frozenset[str]]


def place_answers(
    answers: Sequence[PairAnswer], captions: CaptionSet, judge: str
) -> PairJudgements:
    """Find the pair of the dataset that each answer is about; there may be none.

    Args:
        answers: of one judge.
        captions: a set with preferences.
        judge: its name.
    """
    pairs = captions.preferences.drop_duplicates("pair_id")[["pair_id", "item_a", "item_b"]]
    items = captions.items.set_index("item_id")
    texts = items["caption"].map(collapse_blanks)
    images = items["image_id"]

    # Of two systems' equal pairs the first stands for both.
    number_of: dict[_Key, int] = {}
    for number, (_, a, b) in enumerate(pairs.itertuples(index=False)):
        number_of.setdefault((images[a], frozenset((texts[a], texts[b]))), number)

    image_of = _match_images([answer.image_id for answer in answers], set(images))
    sums = np.full((len(pairs), len(ORDERS)), np.nan)
    first_texts = texts.loc[pairs["item_a"]].to_list()
    for answer in answers:
        caption_a, caption_b = map(collapse_blanks, answer.captions)
        image_id = image_of.get(answer.image_id, "")
        number = number_of.get((image_id, frozenset((caption_a, caption_b))))
        if number is None:
            continue

        # The file may have the captions of a pair the other way round.
        is_turned = caption_a != first_texts[number]
        order = ORDERS.index(answer.order)
        place = (number, 1 - order if is_turned else order)
        strength = -answer.strength if is_turned else answer.strength
        sums[place] = strength if np.isnan(sums[place]) else sums[place] + strength

    orders = pairs.reset_index(drop=True)
    orders = orders.assign(**{order: sums[:, place] for place, order in enumerate(ORDERS)})
    n_orders = (~np.isnan(sums)).sum(axis=1)
    asks_once = bool(n_orders.max() < len(ORDERS))
    # Beside pairs that were shown in both orders, one of a single order says as much of its captions as of their places.
    n_needed = 1 if asks_once else len(ORDERS)
    return PairJudgements(captions, judge, orders[n_orders >= n_needed], 0, asks_once=asks_once)


def _match_images(ids: Sequence[str], images: set[str]) -> dict[str, str]:
    """Return the image of the dataset for each id of the answers, by the first rule that finds any."""
    found = {image_id: image_id for image_id in ids if image_id in images}
    if found:
        return found

    named = {image_id: image_id for image_id in images}
    for rule in rules_for(ids, images):
        matched, _ = match_forms(ids, named, rule.reduce)
        if matched:
            return matched
    return {}
