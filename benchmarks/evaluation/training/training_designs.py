"""The designs of `captau train`: the images that each rater learns from, is chosen by, and is tested on.

- `split`: the shared split (train on 64 %, choose on 16 %, test on 20 % of the images), or the split that the
  data come with;
- `transfer`: the same for each dataset by itself, tested on the others' test images as well (Scott et
  al. 2023, Table 4);
- `folds`: k folds of images, each predicted by a rater trained on the others;
- `leave_one_out`: each dataset predicted by a rater trained on the others, without images that share an id or a
  reference with it;
- `all`: one rater trained on everything, which nothing is left to test on.

To add one, write a function like `_split_jobs` and name it in `plan_jobs` and in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np
import pandas as pd

from ....datasets.caption_texts import comparison_form
from ....datasets.errors import InputError
from ....datasets.reading.source_files import way_to_get_split
from ....datasets.schema import CaptionSet, split_of
from ....metrics.learned.common.examples import Examples, Ints
from ....metrics.learned.common.recipe import Recipe
from ....metrics.rows import Rows
from ...scoring.protocol import Protocol
from ...statistics.bootstrap import number_images
from ..evaluation_set import EvaluationSet

#: The dimension that is learnt where a dataset has several.
OVERALL = ("overall", "total")
#: The share of the images outside the test fold that the epoch is chosen by, as in the shared split.
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class TrainingPlan:
    """The rater to train, and the images that it learns from, is chosen by and is tested on.

    Attributes:
        recipe: of the rater.
        design: one of `DESIGNS`.
        seeds: of trainings and folds.
        folds: their number, in the design `folds`.
        strict: whether to leave out the images that a tested caption was borrowed from.
        strict_control: whether to leave out as many random images.
        shuffled: whether to train on ratings in random order, as a control.
        device, threads: what trains; None for torch's own number of threads.
    """

    recipe: Recipe
    design: str
    seeds: tuple[int, ...]
    folds: int
    strict: bool = False
    strict_control: bool = False
    shuffled: bool = False
    device: str = "cpu"
    threads: int | None = None


@dataclass(frozen=True)
class TrainingCorpus:
    """A dataset that raters learn from or are tested on.

    Attributes:
        selection: the items, and what people said of them.
        examples: the same rows with their ratings.
    """

    selection: EvaluationSet
    examples: Examples

    @classmethod
    def prepare(
        cls, caption_set: CaptionSet, protocol: Protocol, target: str | None
    ) -> TrainingCorpus:
        """Select a dataset's items and join them to their ratings.

        Args:
            caption_set, protocol: the dataset.
            target: the dimension to learn; None takes the only one, or one of `OVERALL`.

        Raises:
            InputError: where it is not clear which dimension is meant.
        """
        selection = EvaluationSet.select(caption_set, protocol).in_order()
        return cls(selection, _make_examples(selection, _target_dimension(selection, target)))

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.selection.name

    @property
    def items(self) -> pd.DataFrame:
        """The items, in the order of the examples."""
        return self.selection.items

    @property
    def has_shared_split(self) -> bool:
        """Tell whether each image's split is that of `schema.split_of`, and none that the data come with."""
        return bool((self.items["split"] == self.items["image_id"].map(split_of)).all())

    def rows_of(self, split: str) -> Ints:
        """Return the rows of a split.

        Raises:
            InputError: where there is none, or the protocol selects a split by itself.
        """
        # A selected split is all that the corpus has, which leaves nothing for the others.
        if chosen_split := self.selection.protocol.split:
            raise InputError(
                f"dataset {self.name}: protocol.split={chosen_split}: with this design captau train divides the "
                "images by itself; leave the option out, or choose design=folds or leave_one_out"
            )

        rows = np.flatnonzero(self.items["split"] == split)
        if not len(rows):
            remedy = way_to_get_split(self.selection.caption_set.card, split)
            raise InputError(f"dataset {self.name}: no row has the split '{split}'{remedy}")

        return rows

    def take(self, split: str) -> Examples:
        """Return the examples of a split; see `rows_of`."""
        return self.examples.take(self.rows_of(split))


def _target_dimension(selection: EvaluationSet, target: str | None) -> str | None:
    """Return the dimension to learn; None where the dataset has preferences alone."""
    dimensions = selection.caption_set.dimensions
    candidates = selection.protocol.dimension if target is None else (target,)
    if len(candidates) > 1:
        candidates = [dimension for dimension in candidates if dimension in OVERALL]

    if not candidates and not dimensions:
        return None

    choices = f"target={'|'.join(dimensions)}"
    if target is not None and target not in dimensions:
        raise InputError(f"dataset {selection.name}: it has no ratings of '{target}'; {choices}")
    if len(candidates) != 1 or candidates[0] not in dimensions:
        raise InputError(f"dataset {selection.name}: name the dimension to learn: {choices}")

    return candidates[0]


def _make_examples(selection: EvaluationSet, dimension: str | None) -> Examples:
    caption_set = selection.caption_set
    index = pd.Index(selection.items["item_id"])
    n_items = len(selection.items)

    ratings_by_row: list[list[float]] = [[] for _ in range(n_items)]
    if dimension is not None:
        scale = caption_set.card.scales[dimension]
        ratings = caption_set.ratings
        ratings = ratings[ratings["dimension"] == dimension]
        rows = index.get_indexer(pd.Index(ratings["item_id"]))

        for row, value in zip(rows, ratings["value"], strict=True):
            if row >= 0:
                # As a share of the scale, so that datasets with scales of their own can be joined.
                ratings_by_row[row].append(scale.share(value))

    pairs = selection.protocol.select_pairs(caption_set)
    # A tie teaches no order.
    pairs = pairs[pairs["winner"] != "tie"]
    prefers_a = pairs["winner"] == "a"
    winner = np.where(prefers_a, pairs["item_a"], pairs["item_b"])
    loser = np.where(prefers_a, pairs["item_b"], pairs["item_a"])
    winner_rows = index.get_indexer(pd.Index(winner))
    loser_rows = index.get_indexer(pd.Index(loser))
    pair_rows = np.column_stack([winner_rows, loser_rows])
    pair_rows = pair_rows[(pair_rows >= 0).all(axis=1)].astype(np.intp)

    # Ratings and pairs are in an order of their own, so that nothing depends on that of the file.
    rows = Rows(selection.items.assign(dataset=caption_set.name))
    sorted_ratings = [np.sort(np.array(r, dtype=np.float64)) for r in ratings_by_row]
    pair_order = np.lexsort((pair_rows[:, 1], pair_rows[:, 0]))

    return Examples(rows, tuple(sorted_ratings), pair_rows[pair_order])


@dataclass(frozen=True)
class TrainingJob:
    """One training, and the rows that are predicted with it.

    Attributes:
        name: of its folder.
        label: of its predictions, which all jobs of one seed of one comparison share.
        seed: of the training.
        train, validation: the examples that it learns from and is chosen by.
        test: by dataset, the rows of the corpus that are predicted.
        n_dropped: the number of rows left out because their image is tested on.
        test_image_ids: the images of the predicted rows.
    """

    name: str
    label: str
    seed: int
    train: Examples
    validation: Examples
    test: Mapping[str, Ints]
    n_dropped: int = 0
    test_image_ids: frozenset[str] = field(default_factory=frozenset[str])


def plan_jobs(plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus]) -> list[TrainingJob]:
    """Plan the trainings of a design.

    Raises:
        InputError: where the design needs another number of datasets, or an image is on two sides.
    """
    jobs: list[TrainingJob] = []
    for seed in plan.seeds:
        jobs += DESIGNS[plan.design](plan, corpora, seed)
    for job in jobs:
        _check_disjoint(job, corpora)

    return [replace(job, test_image_ids=_find_test_images(job, corpora)) for job in jobs]


def _find_test_images(job: TrainingJob, corpora: Mapping[str, TrainingCorpus]) -> frozenset[str]:
    image_ids: set[str] = set()
    for name, rows in job.test.items():
        image_ids.update(map(str, corpora[name].examples.image_ids[rows]))

    return frozenset(image_ids)


def _split_jobs(
    plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus], seed: int
) -> Iterator[TrainingJob]:
    train: list[Examples] = []
    validation: list[Examples] = []
    for corpus in corpora.values():
        train.append(corpus.take("train"))
        validation.append(corpus.take("validation"))
    yield TrainingJob(
        name=f"seed-{seed}",
        label=_label(plan, seed),
        seed=seed,
        train=Examples.join(train),
        validation=Examples.join(validation),
        test=_test_rows(corpora),
    )


def _test_rows(corpora: Mapping[str, TrainingCorpus]) -> dict[str, Ints]:
    """Return the rows of the test split of each dataset."""
    return {name: corpus.rows_of("test") for name, corpus in corpora.items()}


def _transfer_jobs(
    plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus], seed: int
) -> Iterator[TrainingJob]:
    for name, corpus in corpora.items():
        yield TrainingJob(
            name=f"{name}-seed-{seed}",
            label=_label(plan, seed, f"on {name}"),
            seed=seed,
            train=corpus.take("train"),
            validation=corpus.take("validation"),
            test=_test_rows(corpora),
        )


def _fold_jobs(
    plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus], seed: int
) -> Iterator[TrainingJob]:
    if len(corpora) != 1:
        raise InputError("design=folds takes one dataset at a time; name one")
    ((name, corpus),) = corpora.items()

    image_ids = corpus.examples.image_ids
    image, n_images = number_images(image_ids)
    if n_images < 2 * plan.folds:
        raise InputError(f"dataset {name}: {n_images} images are too few for {plan.folds} folds")

    # Folds of images, of nearly equal size: captions of one image stay together.
    fold = np.random.default_rng([seed, plan.folds]).permutation(n_images) % plan.folds
    fold_of_row = fold[image]
    borrowed = _borrowed_images(corpus) if plan.strict or plan.strict_control else {}

    for index in range(plan.folds):
        is_test = fold_of_row == index
        test = np.flatnonzero(is_test)
        training_images = pd.unique(image_ids[~is_test])

        # Strictly, an image of which a tested caption is a reference is left out as well.
        lenders: set[str] = set()
        for row in test.tolist():
            lenders |= borrowed.get(row, set())
        excluded = training_images[np.isin(training_images, sorted(lenders))]
        if plan.strict_control:
            rng = np.random.default_rng([seed, plan.folds, index, 1])
            # As many images, but any: what is lost by fewer images alone.
            excluded = rng.choice(training_images, size=len(excluded), replace=False)
        usable = np.flatnonzero(~is_test & ~np.isin(image_ids, excluded))

        usable_images = pd.unique(image_ids[usable])
        # Whole images, so that no image is on both sides.
        shuffled = np.random.default_rng([seed, plan.folds, index]).permutation(usable_images)
        n_validation = round(VALIDATION_SHARE * len(usable_images))
        is_validation = np.isin(image_ids[usable], shuffled[:n_validation])

        yield TrainingJob(
            name=f"seed-{seed}-fold-{index + 1}",
            label=_label(plan, seed),
            seed=seed,
            train=corpus.examples.take(usable[~is_validation]),
            validation=corpus.examples.take(usable[is_validation]),
            test={name: test},
            n_dropped=int((~is_test).sum()) - len(usable),
        )


def _borrowed_images(corpus: TrainingCorpus) -> dict[int, set[str]]:
    """Return by row the other images that have its candidate among their references."""
    rows = corpus.examples.rows
    image_ids = corpus.examples.image_ids
    owners: dict[str, set[str]] = {}
    for image, references in zip(image_ids, rows.references, strict=True):
        for text in references:
            owners.setdefault(comparison_form(text), set()).add(str(image))

    borrowed: dict[int, set[str]] = {}
    for row, (text, image) in enumerate(zip(rows.captions, image_ids, strict=True)):
        borrowed[row] = owners.get(comparison_form(text), set()) - {str(image)}

    return borrowed


def _leave_one_out_jobs(
    plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus], seed: int
) -> Iterator[TrainingJob]:
    if len(corpora) < 2:
        raise InputError("design=leave_one_out needs two datasets at least: dataset=a,b")

    for name, corpus in corpora.items():
        test_references = chain.from_iterable(corpus.examples.rows.references)
        test_texts = {comparison_form(text) for text in test_references}
        train: list[Examples] = []
        validation: list[Examples] = []
        n_dropped = 0
        for learnt in corpora.values():
            if learnt is corpus:
                continue

            # An image is shared under another name, too, where it has a reference in common.
            shared_images = set(corpus.examples.image_ids) | _images_with(learnt, test_texts)
            for parts, splits in ((train, ("train", "test")), (validation, ("validation",))):
                rows = np.flatnonzero(learnt.items["split"].isin(splits))
                is_shared = np.isin(learnt.examples.image_ids[rows], list(shared_images))
                n_dropped += int(is_shared.sum())
                parts.append(learnt.examples.take(rows[~is_shared]))

        train_examples = Examples.join(train)
        if not len(train_examples):
            raise InputError(
                f"dataset {name}: nothing is left to learn from; the other datasets share all their images with it"
            )

        yield TrainingJob(
            name=f"without-{name}-seed-{seed}",
            label=_label(plan, seed),
            seed=seed,
            train=train_examples,
            validation=Examples.join(validation),
            test={name: np.arange(len(corpus.items))},
            n_dropped=n_dropped,
        )


def _images_with(corpus: TrainingCorpus, texts: Set[str]) -> set[str]:
    """Return the images that have one of these texts, in `comparison_form`, among their references."""
    images: set[str] = set()
    references = corpus.examples.rows.references
    for image, image_texts in zip(corpus.examples.image_ids, references, strict=True):
        if not texts.isdisjoint(map(comparison_form, image_texts)):
            images.add(str(image))

    return images


def _all_jobs(
    plan: TrainingPlan, corpora: Mapping[str, TrainingCorpus], seed: int
) -> Iterator[TrainingJob]:
    train = Examples.join([corpus.examples for corpus in corpora.values()])
    validation = train.take(np.empty(0, dtype=np.intp))
    yield TrainingJob(f"seed-{seed}", _label(plan, seed), seed, train, validation, {})


#: The functions that plan the jobs of one seed, by design.
DESIGNS: Mapping[
    str, Callable[[TrainingPlan, Mapping[str, TrainingCorpus], int], Iterator[TrainingJob]]
] = {
    "split": _split_jobs,
    "transfer": _transfer_jobs,
    "folds": _fold_jobs,
    "leave_one_out": _leave_one_out_jobs,
    "all": _all_jobs,
}


def name_mean(label: str) -> str:
    """Return the name of the mean over seeds that a rater of one seed is part of; empty for any other rater."""
    rater, is_of_seed, seed = label.rpartition(" seed ")
    return f"{rater} mean" if is_of_seed and seed.isdecimal() else ""


def _label(plan: TrainingPlan, seed: int, suffix: str = "") -> str:
    parts = [plan.recipe.name]
    if suffix:
        parts.append(suffix)
    if len(plan.seeds) > 1:
        parts.append(f"seed {seed}")

    return " ".join(parts)


def _check_disjoint(job: TrainingJob, corpora: Mapping[str, TrainingCorpus]) -> None:
    """Check that no image is on two sides.

    Raises:
        InputError: with the first that is.
    """
    sides = {"training": set(job.train.image_ids), "validation": set(job.validation.image_ids)}
    for name, rows in job.test.items():
        sides[f"test ({name})"] = set(corpora[name].examples.image_ids[rows])

    for first, second in combinations(sides, 2):
        # Tests of two datasets may share images.
        is_learnt = first in ("training", "validation")
        if is_learnt and (shared := sides[first] & sides[second]):
            raise InputError(
                f"image '{min(shared)}' is in {first} and in {second} ({len(shared)} images are); the datasets' splits "
                "differ: choose design=leave_one_out, which drops such rows, or other datasets"
            )
