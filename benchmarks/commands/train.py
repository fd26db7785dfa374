"""`captau train`: train a learned rater on some images, and see how it agrees with people on others.

Four designs say which images are whose:

- `split`: the shared split; train on 64 %, choose on 16 %, test on 20 % of the images;
- `transfer`: the same for each dataset by itself, tested on the others' test images as well (Scott et
  al. 2023, Table 4);
- `folds`: k folds of images, each predicted by a rater trained on the others;
- `leave_one_out`: each dataset predicted by a rater trained on the others.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Floats, Metric
from ...metrics.learned.captau_rater.background import normalise_caption
from ...metrics.learned.common.recipe import Examples, Ints, Model
from ...metrics.learned.common.training import HISTORY_COLUMNS, Session
from ...metrics.learned.rater import CARD_FILE, RaterCard
from ...metrics.rows import Rows
from ..evaluation.correlation_tables import correlation_table
from ..evaluation.evaluation_set import EvaluationSet
from ..evaluation.measured_dataset import MeasuredDataset, ScoredDataset, by_item, correlate_dataset
from ..evaluation.provenance import provenance
from ..options.train import TrainOptions
from ..runs.output_folder import RUN_FILE
from ..runs.progress_bar import StepProgress
from ..runs.results import (
    add_run_file,
    describe_environment,
    make_correlations,
    table_files,
    to_csv,
)
from ..runs.tables import ResultTable, format_number
from ..scoring.protocol import Protocol
from ..scoring.scorer import Scorer, metric_caveats, score_all

#: The dimension that is learnt where a dataset has several.
OVERALL = ("overall", "total")
#: Distributions whose version may move any rater's weights; features name their makers themselves.
MATTERS = ("captau", "numpy", "scipy", "torch", "transformers")
#: Of the images that are not tested on, the share that the epoch is chosen by, as in the shared split.
VALIDATION = 0.2


@dataclass(frozen=True)
class Corpus:
    """A dataset as raters meet it.

    Attributes:
        set, protocol: what its agreement is measured by.
        items: what `Protocol.select` gives.
        examples: the same rows with their ratings.
    """

    set: CaptionSet
    protocol: Protocol
    items: pd.DataFrame
    examples: Examples

    @classmethod
    def of(cls, caption_set: CaptionSet, protocol: Protocol, target: str | None) -> Corpus:
        """
        Args:
            target: the dimension to learn; None takes the only one, or one of `OVERALL`.

        Raises:
            InputError: where it is not clear which dimension is meant.
        """
        protocol = protocol.for_dataset(caption_set)
        if protocol.split is not None:
            raise InputError(
                f"protocol.split={protocol.split}: captau train says itself which images are for what"
            )
        items = protocol.select_items(caption_set)
        dimension = _target(caption_set, protocol, target)
        return cls(caption_set, protocol, items, _examples(caption_set, items, dimension))

    @property
    def name(self) -> str:
        return self.set.name


def _target(caption_set: CaptionSet, protocol: Protocol, wanted: str | None) -> str | None:
    known = protocol.dimension if wanted is None else (wanted,)
    if len(known) > 1:
        known = tuple(d for d in known if d in OVERALL)
    if not known and not caption_set.dimensions:
        return None
    if len(known) != 1 or known[0] not in caption_set.dimensions:
        raise InputError(
            f"dataset {caption_set.name}: which dimension is to be learnt? target="
            f"{'|'.join(caption_set.dimensions)}"
        )
    return known[0]


def _examples(caption_set: CaptionSet, items: pd.DataFrame, dimension: str | None) -> Examples:
    place = pd.Index(items["item_id"])
    given: list[list[float]] = [[] for _ in range(len(items))]
    if dimension is not None:
        scale = caption_set.card.scales[dimension]
        ratings = caption_set.ratings
        ratings = ratings[ratings["dimension"] == dimension]
        at = place.get_indexer(pd.Index(ratings["item_id"]))
        for row, value in zip(at, ratings["value"], strict=True):
            if row >= 0:
                given[row].append(scale.share(value))
    pairs = caption_set.preferences
    pairs = pairs[pairs["winner"] != "tie"]
    first = np.where(pairs["winner"] == "a", pairs["item_a"], pairs["item_b"])
    second = np.where(pairs["winner"] == "a", pairs["item_b"], pairs["item_a"])
    both = np.column_stack(
        [place.get_indexer(pd.Index(first)), place.get_indexer(pd.Index(second))]
    )
    return Examples(
        Rows(items.assign(dataset=caption_set.name)),
        tuple(np.array(g, dtype=np.float64) for g in given),
        both[(both >= 0).all(axis=1)].astype(np.intp),
    )


@dataclass(frozen=True)
class Job:
    """One training and what is predicted with it.

    Attributes:
        name: of its folder.
        label: of its predictions, which all jobs of one seed of one comparison share.
        seed: of the training.
        train, validation: what it learns from and is chosen by.
        test: by dataset, the rows of the corpus that are predicted.
        tested: their images.
        dropped: how many rows were left out because their image is tested on.
    """

    name: str
    label: str
    seed: int
    train: Examples
    validation: Examples
    test: Mapping[str, Ints]
    dropped: int = 0
    tested: frozenset[str] = frozenset()


def jobs_of(config: TrainOptions, corpora: Mapping[str, Corpus]) -> list[Job]:
    """The trainings of a design.

    Raises:
        InputError: where the design wants another number of datasets, or an image is on two sides.
    """
    designs = {
        "split": _split,
        "transfer": _transfer,
        "folds": _folds,
        "leave_one_out": _leave_one_out,
    }
    found = [job for seed in config.seeds for job in designs[config.design](config, corpora, seed)]
    for job in found:
        _check_apart(job, corpora)
    return [replace(job, tested=_tested(job, corpora)) for job in found]


def _tested(job: Job, corpora: Mapping[str, Corpus]) -> frozenset[str]:
    return frozenset(
        str(image)
        for name, rows in job.test.items()
        for image in corpora[name].examples.image_ids[rows]
    )


def _split(config: TrainOptions, corpora: Mapping[str, Corpus], seed: int) -> Iterator[Job]:
    train, validation = (
        Examples.join([_side(c, side) for c in corpora.values()])
        for side in ("train", "validation")
    )
    yield Job(
        f"seed-{seed}",
        _label(config, seed),
        seed,
        train,
        validation,
        {name: _rows(c, "test") for name, c in corpora.items()},
    )


def _transfer(config: TrainOptions, corpora: Mapping[str, Corpus], seed: int) -> Iterator[Job]:
    for name, corpus in corpora.items():
        yield Job(
            f"{name}-seed-{seed}",
            _label(config, seed, f"on {name}"),
            seed,
            _side(corpus, "train"),
            _side(corpus, "validation"),
            {other: _rows(c, "test") for other, c in corpora.items()},
        )


def _folds(config: TrainOptions, corpora: Mapping[str, Corpus], seed: int) -> Iterator[Job]:
    if len(corpora) != 1:
        raise InputError("design=folds is of one dataset at a time; name one")
    ((name, corpus),) = corpora.items()
    ids = corpus.examples.image_ids
    images = np.unique(ids)
    if len(images) < 2 * config.folds:
        raise InputError(
            f"dataset {name}: {len(images)} images are too few for {config.folds} folds"
        )
    fold = np.random.default_rng([seed, config.folds]).permutation(len(images)) % config.folds
    of_row = fold[np.searchsorted(images, ids)]
    borrowed = _borrowed(corpus) if config.strict else {}
    for index in range(config.folds):
        test = np.flatnonzero(of_row == index)
        out = {i for row in test.tolist() for i in borrowed.get(row, ())}
        left = np.flatnonzero((of_row != index) & ~np.isin(ids, sorted(out)))
        rest = np.unique(ids[left])
        mixed = np.random.default_rng([seed, config.folds, index]).permutation(rest)
        choose = np.isin(ids[left], mixed[: round(VALIDATION * len(rest))])
        yield Job(
            f"seed-{seed}-fold-{index + 1}",
            _label(config, seed),
            seed,
            corpus.examples.take(left[~choose]),
            corpus.examples.take(left[choose]),
            {name: test},
            dropped=int((of_row != index).sum()) - len(left),
        )


def _borrowed(corpus: Corpus) -> dict[int, set[str]]:
    """By row, the other images that its candidate is a reference of."""
    owners: dict[str, set[str]] = {}
    rows = corpus.examples.rows
    for image, references in zip(corpus.examples.image_ids, rows.references, strict=True):
        for text in references:
            owners.setdefault(normalise_caption(text), set()).add(str(image))
    return {
        row: owners.get(normalise_caption(text), set()) - {str(image)}
        for row, (text, image) in enumerate(
            zip(rows.captions, corpus.examples.image_ids, strict=True)
        )
    }


def _leave_one_out(config: TrainOptions, corpora: Mapping[str, Corpus], seed: int) -> Iterator[Job]:
    if len(corpora) < 2:
        raise InputError("design=leave_one_out wants two datasets at least: dataset=[a,b,…]")
    for name, corpus in corpora.items():
        tested = np.unique(corpus.examples.image_ids)
        sides: list[Examples] = []
        dropped = 0
        for wanted in (("train", "test"), ("validation",)):
            parts: list[Examples] = []
            for other in corpora.values():
                if other is corpus:
                    continue
                rows = np.flatnonzero(other.items["split"].isin(wanted))
                kept = rows[~np.isin(other.examples.image_ids[rows], tested)]
                dropped += len(rows) - len(kept)
                parts.append(other.examples.take(kept))
            sides.append(Examples.join(parts))
        yield Job(
            f"without-{name}-seed-{seed}",
            _label(config, seed),
            seed,
            sides[0],
            sides[1],
            {name: np.arange(len(corpus.items))},
            dropped=dropped,
        )


def _label(config: TrainOptions, seed: int, more: str = "") -> str:
    parts = [config.recipe.name, more, f"seed {seed}" if len(config.seeds) > 1 else ""]
    return " ".join(p for p in parts if p)


def _rows(corpus: Corpus, side: str) -> Ints:
    found = np.flatnonzero(corpus.items["split"] == side)
    if not len(found):
        raise InputError(f"dataset {corpus.name}: no row is of the split '{side}'")
    return found


def _side(corpus: Corpus, side: str) -> Examples:
    return corpus.examples.take(_rows(corpus, side))


def _check_apart(job: Job, corpora: Mapping[str, Corpus]) -> None:
    """That no image is on two sides.

    Raises:
        InputError: with the first that is.
    """
    sides = {"training": set(job.train.image_ids), "validation": set(job.validation.image_ids)}
    for name, rows in job.test.items():
        sides[f"test ({name})"] = set(corpora[name].examples.image_ids[rows])
    learnt = ("training", "validation")
    for i, one in enumerate(learnt):
        for other in list(sides)[i + 1 :]:
            if both := sides[one] & sides[other]:
                raise InputError(
                    f"image '{min(both)}' is in {one} and in {other} ({len(both)} images are); the "
                    f"datasets' splits differ: choose design=leave_one_out, which drops such rows, or "
                    f"other datasets"
                )


@dataclass(frozen=True)
class Trained:
    """What a run found.

    Attributes:
        correlations: columns of `correlations.csv`; a row `mean of …` for several seeds.
        scores: predictions for test rows, and compared metrics' scores; columns of `scores.parquet`.
        training: a row an epoch, columns `rater` and `training.HISTORY_COLUMNS`.
        run: what it takes to recompute them.
        tables: what is printed.
        summary: how a rater is used.
        spare: folders of raters that nobody wants to keep, to be removed when all is written.
    """

    correlations: pd.DataFrame
    scores: pd.DataFrame
    training: pd.DataFrame
    run: dict[str, Any]
    tables: list[ResultTable]
    summary: str
    spare: list[Path]

    def files(self) -> dict[str, bytes]:
        """The run's files by name; `run.json` comes last, so its presence says all are there."""
        buffer = self.scores.to_parquet(index=False)
        files = {
            "training.csv": to_csv(self.training),
            "correlations.csv": to_csv(self.correlations),
            "scores.parquet": buffer,
            **table_files(self.tables),
        }
        return add_run_file(files, self.run)


@dataclass(frozen=True)
class Predicted(Metric):
    """A rater that was just trained, as a metric: the protocol's references are its references, too."""

    label: str
    model: Model | None = None
    wants: frozenset[str] = frozenset()
    backend: Literal["captau"] = "captau"

    is_cacheable: ClassVar[bool] = False
    depends_only_on_content: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.wants

    @property
    def name(self) -> str:
        return self.label

    @property
    def spec(self) -> str:
        return self.label

    def compute(self, rows: Rows) -> Floats:
        assert self.model is not None
        return self.model.predict(rows)


def run(config: TrainOptions, folder: Path) -> Trained:
    """Train raters into folders of their own in `folder`, and measure their predictions.

    Where a training of just these options was stopped there, it goes on; where it was finished, it is
    not done again.

    Raises:
        InputError: on unknown names, data that cannot be had, a split that leaks, another training's
            remains in the folder, or what the recipe itself finds wrong.
    """
    began = time.perf_counter()
    started = datetime.now(UTC)
    corpora = {
        name: Corpus.of(config.locations.load(name), protocol, config.target)
        for name, protocol in config.datasets.items()
    }
    jobs = jobs_of(config, corpora)
    labels = {job.label for job in jobs}
    for metric in config.metrics:
        if metric.spec in labels:
            raise InputError(f"metrics: two different metrics are called '{metric.spec}'")
    again = (folder / RUN_FILE).is_file()
    spare: list[Path] = []
    predictions: dict[str, dict[str, Floats]] = {name: {} for name in corpora}
    tested = {name: np.zeros(len(c.items), dtype=bool) for name, c in corpora.items()}
    histories: list[pd.DataFrame] = []
    store = config.locations.store()
    with _locked(folder), StepProgress(len(jobs)) as progress:
        print(
            f"captau: training in {folder}; if stopped, output_dir={folder} goes on",
            file=sys.stderr,
        )
        cards: dict[str, RaterCard] = {}
        for job in jobs:
            with progress.step(job.name):
                # Raters of a finished run that kept them stay; those of one that was killed do not.
                if not config.keep and not (again and (folder / job.name / CARD_FILE).is_file()):
                    spare.append(folder / job.name)
                model, cards[job.name] = _trained(config, job, corpora, folder / job.name)
                for name, rows in job.test.items():
                    corpus = corpora[name]
                    column = predictions[name].setdefault(
                        job.label, np.full(len(corpus.items), np.nan)
                    )
                    tested[name][rows] = True
                    items = corpus.items.iloc[rows].reset_index(drop=True)
                    scorer = Scorer(name, items, corpus.protocol)
                    column[rows] = scorer.score(
                        Predicted(job.label, model, config.recipe.needs), store
                    )
                history = pd.read_csv(folder / job.name / "training.csv")
                histories.append(history.assign(rater=job.name))
        measured = [
            _measured(corpora[name], tested[name], columns, config, store, progress)
            for name, columns in predictions.items()
            if columns
        ]
        _add_scores(config, cards, jobs, measured, folder)
    frame = pd.concat([m.correlations for m in measured], ignore_index=True)
    means, deviations = _means(frame, config)
    tables = [correlation_table(m, m.scored.metrics) for m in measured]
    return Trained(
        correlations=pd.concat([frame, make_correlations(means)], ignore_index=True),
        scores=pd.concat([m.scored.frame for m in measured], ignore_index=True),
        training=pd.concat(histories, ignore_index=True)[["rater", *HISTORY_COLUMNS]],
        run={
            "command": "train",
            "config": dict(config.configuration),
            "rater": config.recipe.name,
            "options": config.recipe.options,
            "design": config.design,
            "protocols": {n: vars(c.protocol) for n, c in corpora.items()},
            "raters": {
                job.name: {
                    "seed": job.seed,
                    "train": len(job.train),
                    "validation": len(job.validation),
                    "test": {n: len(rows) for n, rows in job.test.items()},
                    "dropped": job.dropped,
                    "fingerprint": cards[job.name].fingerprint,
                }
                for job in jobs
            },
            **provenance(list(config.metrics), [c.set for c in corpora.values()], config.locations),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        tables=[replace(t, notes=[*t.notes, *_notes(config, jobs)]) for t in tables]
        + _mean_tables(means, deviations, config),
        summary=_advice(config, jobs, folder) if config.keep else "",
        spare=spare,
    )


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """The folder's lock is held meanwhile, and leaves nothing behind.

    Raises:
        InputError: where another run trains there.
    """
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"{folder}: another run trains there; set another output_dir") from error
    try:
        yield
    finally:
        lock.release()
        if [p.name for p in folder.iterdir()] == [".lock"]:  # nothing came of it
            (folder / ".lock").unlink(missing_ok=True)


def _trained(
    config: TrainOptions, job: Job, corpora: Mapping[str, Corpus], folder: Path
) -> tuple[Model, RaterCard]:
    """The rater of a job: trained, gone on with, or read where it is whole."""
    made = config.recipe
    fingerprint = _fingerprint(config, job)
    if (folder / CARD_FILE).is_file():
        card = RaterCard.read(folder)
        if card.fingerprint != fingerprint:
            raise InputError(
                f"{folder}: a rater of another training lies there (other options, data or versions); "
                f"remove it, or set another output_dir"
            )
        return made.load(folder), card
    train, validation = job.train, job.validation
    if config.shuffled:
        train, validation = (shuffled_labels(e, job.seed) for e in (train, validation))
    session = Session(
        job.seed,
        folder,
        fingerprint,
        config.device,
        is_control=config.shuffled,
        test_image_ids=job.tested,
    )
    with _own_torch(config.threads):
        model = made.fit(train, validation, session)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder)
    history = pd.DataFrame(session.history, columns=pd.Index(HISTORY_COLUMNS))
    (folder / "training.csv").write_bytes(to_csv(history))
    card = RaterCard(
        rater=made.name,
        options=made.options,
        seed=job.seed,
        images=tuple(
            sorted(
                {
                    *map(str, job.train.image_ids),
                    *map(str, job.validation.image_ids),
                    *session.extra_image_ids,
                }
            )
        ),
        fingerprint=fingerprint,
        about={
            "design": config.design,
            "shuffled": config.shuffled,
            "data": {
                name: {"revision": c.set.card.revision, "digest": c.set.digest}
                for name, c in corpora.items()
            },
            "train": _counts(job.train),
            "validation": _counts(job.validation),
            "dropped": job.dropped,
            "validation_images": sorted({*map(str, job.validation.image_ids)}),
            "test_images": sorted(job.tested),
            "features": made.signature,
            **describe_environment(),
        },
    )
    card.write(folder)
    session.remove_checkpoints()
    return model, card


@contextmanager
def _own_torch(threads: int | None) -> Generator[None]:
    """Torch's generator and number of threads are the caller's again afterwards."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    with torch.random.fork_rng():
        try:
            torch.set_num_threads(threads or before)
            yield
        finally:
            torch.set_num_threads(before)


def _counts(examples: Examples) -> dict[str, dict[str, int]]:
    grouped = examples.rows.frame.groupby("dataset", sort=False)["image_id"]
    return {
        str(name): {"captions": len(images), "images": int(images.nunique())}
        for name, images in grouped
    }


def _fingerprint(config: TrainOptions, job: Job) -> str:
    digest = hashlib.sha256()
    table = [
        config.recipe.name,
        config.recipe.options,
        config.recipe.signature,
        job.seed,
        config.shuffled,
        config.device,
        sorted(job.tested),
        {k: v for k, v in describe_environment()["versions"].items() if k in MATTERS},
    ]
    digest.update(json.dumps(table, default=str).encode())
    for examples in (job.train, job.validation):
        frame = examples.rows.frame[["dataset", "item_id", "image_id", "caption", "references"]]
        for row in zip(
            frame.itertuples(index=False, name=None), map(tuple, examples.ratings), strict=True
        ):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        digest.update(examples.preferences.tobytes())
    return digest.hexdigest()


def shuffled_labels(examples: Examples, seed: int) -> Examples:
    """The same rows with each other's ratings, and winners drawn by lot: what is there to be learnt
    by chance alone.
    """
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(examples))
    turned = rng.random(len(examples.preferences)) < 0.5
    pairs = np.where(turned[:, None], examples.preferences[:, ::-1], examples.preferences)
    return Examples(examples.rows, tuple(examples.ratings[i] for i in order), pairs)


def _measured(
    corpus: Corpus,
    tested: NDArray[np.bool_],
    columns: Mapping[str, Floats],
    config: TrainOptions,
    store: Any,
    progress: StepProgress,
) -> MeasuredDataset:
    """Predictions and compared metrics on the rows that were predicted."""
    items = corpus.items.iloc[tested].reset_index(drop=True)
    raters: list[Metric] = [Predicted(label) for label in columns]
    caveats = metric_caveats(config.metrics, items)
    scorer = Scorer(corpus.name, items, corpus.protocol)
    compared = score_all(scorer, config.metrics, store, progress) if config.metrics else {}
    metrics = [*raters, *config.metrics]
    scores = {**{label: column[tested] for label, column in columns.items()}, **compared}
    selection = EvaluationSet(corpus.set, corpus.protocol, items)
    scored = ScoredDataset(selection, tuple(metrics), by_item(scores, items), caveats)
    return correlate_dataset(scored, progress, statistics=config.statistics)


def _add_scores(
    config: TrainOptions,
    cards: Mapping[str, RaterCard],
    jobs: Sequence[Job],
    measured: Sequence[MeasuredDataset],
    folder: Path,
) -> None:
    """Onto each rater's card, how it did on its test rows, where those are its own."""
    frame = pd.concat([m.correlations for m in measured], ignore_index=True)
    for job in jobs if config.design != "folds" else ():  # a fold's figures are of all folds
        rows = frame[(frame["metric"] == job.label) & frame["dataset"].isin(list(job.test))]
        columns = ["dataset", "dimension", "coefficient", "value", "n_items"]
        card = cards[job.name]
        replace(card, about={**card.about, "test": rows[columns].to_dict("records")}).write(
            folder / job.name
        )


def _means(frame: pd.DataFrame, config: TrainOptions) -> tuple[list[dict[str, Any]], list[float]]:
    """Means over seeds as rows of correlations, and their standard deviations; none of a single seed."""
    rows: list[dict[str, Any]] = []
    deviations: list[float] = []
    if len(config.seeds) < 2:
        return rows, deviations
    of_seed = frame["metric"].str.extract(r"^(.*) seed \d+$")[0]
    keys = ["dataset", "protocol", "dimension", "coefficient"]
    grouped: Any = (
        frame[of_seed.notna()].assign(rater=of_seed).groupby(["rater", *keys], sort=False)
    )
    for (rater, *key), group in grouped:
        values = group["value"].to_numpy(dtype=float)
        deviations.append(float(values.std(ddof=1)))
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "metric": f"{rater} mean",
                "value": float(values.mean()),
                "n_items": int(group["n_items"].iloc[0]),
                "n_ratings": int(group["n_ratings"].iloc[0]),
                "p_value": float("nan"),
                "note": f"mean of {len(values)} seeds, standard deviation {deviations[-1]:.6f}",
            }
        )
    return rows, deviations


def _mean_tables(
    means: Sequence[Mapping[str, Any]], deviations: Sequence[float], config: TrainOptions
) -> list[ResultTable]:
    if not means:
        return []
    rows: list[tuple[str, list[str]]] = []
    for row, std in zip(means, deviations, strict=True):
        label = f"{row['metric'].removesuffix(' mean')}: {row['dataset']}, {row['dimension']}"
        cells = [
            str(row["coefficient"]),
            format_number(float(row["value"]), 100, 2),
            format_number(std, 100, 2),
        ]
        rows.append((label, cells))
    title = f"Mean of {len(config.seeds)} seeds"
    return [ResultTable(title, "rater: dataset, dimension", ["coefficient", "mean", "std"], rows)]


def _notes(config: TrainOptions, jobs: Sequence[Job]) -> list[str]:
    """What a reader has to know of the design."""
    said = {
        "split": "trained on the shared split's training images, chosen on its validation images; "
        "all rows here are of its test images",
        "transfer": "each trained on one dataset's training images; all rows here are of test images",
        "folds": f"predicted by raters that had not seen the image ({config.folds} folds)",
        "leave_one_out": "trained on the other datasets; images that this one shares with them left out",
    }[config.design]
    if config.design == "folds":
        said += "; trained on this dataset's other images, so supervised on it"
        if config.strict:
            said += ", but for images that a tested caption was borrowed from"
    dropped = sum(job.dropped for job in jobs)
    notes = [f"{config.recipe.name}: {said}."]
    if dropped:
        notes.append(f"{dropped:,} rows left out of training in all.")
    if config.shuffled:
        notes.append("CONTROL: trained on shuffled ratings.")
    return notes


def _advice(config: TrainOptions, jobs: Sequence[Job], folder: Path) -> str:
    path = folder / jobs[0].name
    where = {
        "leave_one_out": f" dataset={next(iter(jobs[0].test))}",
        "folds": "",
    }.get(config.design, " protocol.split=test")
    return f"as a metric: 'metrics=[\"rater(path={path})\"]'{where}"
