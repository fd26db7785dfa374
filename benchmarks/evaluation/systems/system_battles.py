"""Comparisons of two systems' captions: counted by image, with wins, Elo ratings, and metrics' means per system.

`preference_ranking` makes strengths of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ....datasets.errors import InputError
from ....datasets.schema import cluster_of
from ...runs.frames import make_frame
from ...statistics.bradley_terry import elo_ratings, find_groups
from ...statistics.weighted_pairs import Floats, Ints, Statistic
from ..evaluation_set import EvaluationSet
from ..judged_pairs import count_words

WIN_COLUMNS = ("dataset", "dimension", "system_a", "system_b", "wins_a", "wins_b", "ties")
ELO_COLUMNS = ("dataset", "dimension", "system", "elo", "lowest", "highest", "n_orders")
#: Random orders of the comparisons in which Elo ratings are computed.
N_ORDERS = 100


@dataclass(frozen=True)
class Battles:
    """The comparisons of two systems' captions on one dimension.

    Attributes:
        dimension: its name.
        systems: the systems' names.
        n_images: the number of images that are compared on any dimension.
        first, second: the systems that stand first and second, shape (n_battles,).
        signs: 1 where people prefer the first, -1 the second, 0 where they tie, shape (n_battles,).
        image: shape (n_battles,).
        lengths: 1 where the first caption has more words, -1 the second, 0 where as many, shape (n_battles,).
        n_items: how many captions of each system are compared, shape (n_systems,).
        first_items, second_items: the item ids of the captions, shape (n_battles,).
    """

    dimension: str
    systems: tuple[str, ...]
    n_images: int
    first: Ints
    second: Ints
    signs: Floats
    image: Ints
    lengths: Floats
    n_items: Ints
    first_items: Sequence[str]
    second_items: Sequence[str]

    @cached_property
    def _counts(self) -> Any:
        """Wins (row over column) and ties of every two systems by image, sparse, shape (2 S², n_images)."""
        n = len(self.systems)
        winner = np.where(self.signs >= 0, self.first, self.second)
        loser = np.where(self.signs >= 0, self.second, self.first)
        # The first S² cells count wins, the others ties.
        cells = winner * n + loser + (self.signs == 0) * n**2
        ones = np.ones(len(cells))
        counts = sparse.coo_array((ones, (cells, self.image)), shape=(2 * n**2, self.n_images))

        return counts.tocsr()

    def count(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return wins and ties, shape (n_systems, n_systems, n), where images have weights of shape (n_images, n)."""
        n = len(self.systems)
        wins, ties = (self._counts @ weights).reshape(2, n, n, -1)

        # A tie is counted once, at the system that stands first; it is both systems'.
        return wins, ties + ties.transpose(1, 0, 2)

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """Wins and ties of all images, shape (n_systems, n_systems)."""
        wins, ties = self.count(np.ones((self.n_images, 1)))
        return wins[:, :, 0], ties[:, :, 0]

    @property
    def n_judgements(self) -> Ints:
        """The number of comparisons of each system, shape (n_systems,)."""
        wins, ties = self.totals
        return (wins + wins.T + ties).sum(axis=1).astype(np.int64)

    @property
    def win_shares(self) -> Floats:
        """The share of its comparisons that each system wins, ties counting half, shape (n_systems,)."""
        wins, ties = self.totals
        return (wins + ties / 2).sum(axis=1) / self.n_judgements

    def check_groups(self, dataset: str) -> None:
        """Check that all systems meet, directly or through others.

        Raises:
            InputError: naming the groups that never meet.
        """
        wins, ties = self.totals

        groups = find_groups(wins + wins.T + ties)
        if len(groups) > 1:
            names: list[str] = []
            for group in groups:
                names.append(",".join(self.systems[i] for i in group))
            # The first of the largest groups.
            sizes = list(map(len, groups))
            largest = names[sizes.index(max(sizes))]
            raise InputError(
                f"dataset {dataset}, {self.dimension}: {len(groups)} groups of systems are never compared with each other, so "
                f"that strengths have no common scale: {' | '.join(names)}; protocol.systems={largest} ranks the largest"
            )

    def win_rows(self, dataset: str) -> pd.DataFrame:
        """Return columns `WIN_COLUMNS`, of every two systems that meet."""
        wins, ties = self.totals
        rows: list[tuple[str | int, ...]] = []
        for (i, a), (j, b) in combinations(enumerate(self.systems), 2):
            counts = (int(wins[i, j]), int(wins[j, i]), int(ties[i, j]))
            if any(counts):
                rows.append((dataset, self.dimension, a, b, *counts))

        return make_frame(rows, WIN_COLUMNS)

    def elo_rows(self, dataset: str, seed: int) -> pd.DataFrame:
        """Return columns `ELO_COLUMNS`: the mean and the range over random orders of the comparisons."""
        # A stream of its own, apart from that of the replicates.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 3)))
        orders = np.stack([rng.permutation(len(self.signs)) for _ in range(N_ORDERS)])
        ratings = elo_ratings(self.first, self.second, (self.signs + 1) / 2, orders)

        columns = {
            "dataset": dataset,
            "dimension": self.dimension,
            "system": self.systems,
            "elo": ratings.mean(axis=1),
            "lowest": ratings.min(axis=1),
            "highest": ratings.max(axis=1),
            "n_orders": N_ORDERS,
        }
        return pd.DataFrame(columns)[list(ELO_COLUMNS)]

    def floor_shares(self) -> tuple[float, float]:
        """Return how often people prefer the longer and the first caption, where they decide."""
        is_decided = self.signs != 0
        agrees = self.signs * self.lengths
        length = np.where(agrees == 0, 0.5, agrees > 0)[is_decided]
        position = (self.signs > 0)[is_decided]
        if not len(length):
            return float("nan"), float("nan")

        return float(length.mean()), float(position.mean())


@dataclass(frozen=True)
class BattleSet:
    """All comparisons of two systems' captions of a dataset.

    Attributes:
        by_dimension: those of each dimension.
        image_ids: the compared images, as the battles number them.
        n_same_system: how many comparisons are left out, since one system wrote both captions.
        order_is_source: see `EvaluationSet.order_is_source`.
    """

    by_dimension: tuple[Battles, ...]
    image_ids: pd.Index
    n_same_system: int
    order_is_source: bool

    @classmethod
    def make(cls, selection: EvaluationSet) -> BattleSet:
        """Return a dataset's comparisons, those included that people tie.

        Raises:
            InputError: where no comparison is of two systems, or systems never meet.
        """
        items = selection.items.set_index("item_id")
        systems = tuple(dict.fromkeys(items["system"]))
        codes = pd.Index(systems).get_indexer(pd.Index(items["system"]))
        number = pd.Series(codes, index=items.index)

        pairs = selection.all_pairs
        frame = pairs.frame
        first = number.loc[frame["item_a"]].to_numpy(np.int64)
        second = number.loc[frame["item_b"]].to_numpy(np.int64)
        is_battle = first != second
        if not is_battle.any():
            raise InputError(
                f"dataset {selection.name}: no pair has captions of two different systems, which captau rank compares"
            )

        frame = frame[is_battle]
        first = first[is_battle]
        second = second[is_battle]
        image, names = pd.factorize(cluster_of(items).loc[frame["item_a"]])
        signs = np.sign(frame["strength"].to_numpy(dtype=np.float64))
        n_words = count_words(selection.items)
        n_first = n_words.loc[frame["item_a"]].to_numpy(float)
        n_second = n_words.loc[frame["item_b"]].to_numpy(float)
        lengths = np.sign(n_first - n_second)

        battles: list[Battles] = []
        for dimension in pairs.dimensions:
            is_own = (frame["dimension"] == dimension).to_numpy()
            if not is_own.any():
                continue

            captions = pd.unique(pd.concat([frame["item_a"][is_own], frame["item_b"][is_own]]))
            of_dimension = Battles(
                dimension=str(dimension),
                systems=systems,
                n_images=len(names),
                first=first[is_own],
                second=second[is_own],
                signs=signs[is_own],
                image=image[is_own].astype(np.int64),
                lengths=lengths[is_own],
                n_items=np.bincount(number.loc[captions], minlength=len(systems)),
                first_items=frame["item_a"][is_own].tolist(),
                second_items=frame["item_b"][is_own].tolist(),
            )
            of_dimension.check_groups(selection.name)
            battles.append(of_dimension)

        n_same_system = int((~is_battle).sum())
        return cls(tuple(battles), pd.Index(names), n_same_system, selection.order_is_source)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems' names."""
        return self.by_dimension[0].systems

    @property
    def n_images(self) -> int:
        """The number of compared images."""
        return len(self.image_ids)

    def means(self, items: pd.DataFrame, scores: Mapping[str, pd.Series]) -> dict[str, Statistic]:
        """Return means per system as functions of the weights of the compared images, shape (n_systems, n).

        Args:
            items: columns `item_id, image_id, system, caption`; those of images without a comparison do not count.
            scores: by metric and item id.

        Returns:
            By metric; and `floor_length`, the mean number of words, and `floor_position`, how often the system
            stands first, unless the order says whose captions they are.
        """
        image = self.image_ids.get_indexer(pd.Index(cluster_of(items)))
        system = pd.Index(self.systems).get_indexer(pd.Index(items["system"]))
        is_counted = image >= 0
        cells = system[is_counted] * self.n_images + image[is_counted]

        means: dict[str, Statistic] = {}
        for name, series in {**scores, "floor_length": count_words(items)}.items():
            values = series.loc[items["item_id"]].to_numpy(np.float64)
            means[name] = self._mean(cells, values[is_counted])
        if self.order_is_source:
            return means

        # Each comparison counts for both of its systems: once as the first, once as the second.
        places: list[Ints] = []
        is_first: list[Floats] = []
        for battles in self.by_dimension:
            for side, share in ((battles.first, 1.0), (battles.second, 0.0)):
                places.append(battles.image + side * self.n_images)
                is_first.append(np.full(len(battles.image), share))
        means["floor_position"] = self._mean(np.concatenate(places), np.concatenate(is_first))

        return means

    def _mean(self, cells: Ints, values: Floats) -> Statistic:
        """Return a mean by system of values in cells, which number systems and within them images."""
        n_systems = len(self.systems)
        n_cells = n_systems * self.n_images
        sums = np.bincount(cells, values, n_cells).reshape(n_systems, self.n_images)
        counts = np.bincount(cells, minlength=n_cells).reshape(n_systems, self.n_images)

        def statistic(weights: Floats) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):
                return (sums @ weights) / (counts @ weights)

        return statistic


def unbounded_reason(battles: Battles) -> str:
    """Say which systems are never beaten nor tied by the others, so that their strengths are infinite."""
    wins, ties = battles.totals
    beats = wins + ties > 0
    _, labels = connected_components(beats, directed=True, connection="strong")
    if not labels.any():
        return "too few wins beside the ties to tell strengths from the chance of ties, so that strengths have no bound"

    for group in range(labels.max() + 1):
        is_own = labels == group
        if not beats[~is_own][:, is_own].any():
            names = ", ".join(np.array(battles.systems)[is_own].tolist())
            return f"no other system beats or ties {names}, so that strengths have no bound"
    return "strengths have no bound"
