"""Training of one learned rater in a folder, its card, its errors, and its lead over other metrics.

`captau train` calls these for each job. `rater.json` is read by programs (`metrics/learned/rater.py`); `README.md`
says the same to people. `rating_errors.csv` has the columns of Levinboim et al. 2021, Table 3.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.schema import CaptionSet
from ....metrics.base import Floats, Metric
from ....metrics.learned.common.agreement import Coefficient
from ....metrics.learned.common.examples import Examples
from ....metrics.learned.common.recipe import RaterModel, Recipe
from ....metrics.learned.common.training import HISTORY_COLUMNS, TrainingSession
from ....metrics.learned.rater import CARD_FILE, PAGE_FILE, RaterCard
from ....metrics.rows import Rows
from ...runs.frames import groups_of, make_frame
from ...runs.results import describe_environment, to_csv
from ...runs.tables import (
    AnyCell,
    ResultTable,
    Row,
    count_cell,
    format_number,
    number_cells,
)
from ...scoring.catalog import metric_labels
from ...statistics.coefficients.coefficient import (
    RatingCoefficient,
    correlate,
    find_coefficient,
    undefined_reason,
)
from ...statistics.rated_points import RatedPoints
from ..measured_dataset import MeasuredDataset
from .training_designs import TrainingCorpus, TrainingJob, TrainingPlan

#: Shares of the captions that are no longer than the lengths on the card.
_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)


def make_card(
    plan: TrainingPlan,
    job: TrainingJob,
    corpora: Mapping[str, TrainingCorpus],
    session: TrainingSession,
    fingerprint: str,
) -> RaterCard:
    """Describe a rater that was just trained, without figures."""
    caption_sets = {name: corpus.selection.caption_set for name, corpus in corpora.items()}
    train_images = set(map(str, job.train.image_ids))
    validation_images = set(map(str, job.validation.image_ids))
    # A rater that reads no examples has seen only what its session says.
    example_images: set[str] = set()
    if session.reads_examples:
        example_images = train_images | validation_images

    # What was learned from in place of the datasets, where a recipe says so.
    captions = {"captions": _describe_captions(session)} if session.captions else {}

    return RaterCard(
        rater=plan.recipe.name,
        options=_absolute_sources(plan.recipe),
        seed=job.seed,
        images=tuple(sorted(example_images | session.extra_image_ids)),
        fingerprint=fingerprint,
        about={
            "design": plan.design,
            "shuffled": plan.shuffled,
            "control": plan.recipe.control,
            "data": _describe_data(job, caption_sets) if session.reads_examples else {},
            "train": _count_examples(job.train) if session.reads_examples else {},
            "validation": _count_examples(job.validation) if session.reads_examples else {},
            "dropped": job.n_dropped,
            "validation_images": sorted(validation_images & example_images),
            "test_images": sorted(job.test_image_ids),
            "features": plan.recipe.signature,
            **captions,
            **describe_environment(),
        },
    )


def _absolute_sources(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe's options with the paths of its features made absolute, so that other folders find them."""
    options = recipe.options
    for name in recipe.source_options:
        source = options[name]
        # The words for the demo's features are no paths, even where a folder is called so.
        if source is None or source in ("demo", "demo_context"):
            continue
        if (path := expand_home(source)).exists():
            options[name] = str(path.absolute())

    return options


def _describe_captions(session: TrainingSession) -> dict[str, Any]:
    """Return what a card says of captions that were learned from in place of the datasets'."""
    words = np.quantile(session.captions["words"], _QUANTILES, method="nearest")
    return {**session.captions, "words": words.astype(int).tolist()}


def _count_examples(examples: Examples) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for name, images in examples.rows.frame.groupby("dataset", sort=False)["image_id"]:
        counts[str(name)] = {"captions": len(images), "images": int(images.nunique())}

    return counts


def _describe_data(
    job: TrainingJob, caption_sets: Mapping[str, CaptionSet]
) -> dict[str, dict[str, Any]]:
    """Return what a card says of the datasets that were learned from, in the order of `caption_sets`."""
    learned = set(job.train.rows.frame["dataset"]) | set(job.validation.rows.frame["dataset"])
    described: dict[str, dict[str, Any]] = {}
    for name, caption_set in caption_sets.items():
        if name in learned:
            described[name] = {
                "title": caption_set.card.title,
                "revision": caption_set.card.revision,
                "digest": caption_set.digest,
                "licence": caption_set.card.licence,
                "ranges": _describe_ranges(job, name),
            }

    return described


def _describe_ranges(job: TrainingJob, name: str) -> dict[str, list[int]]:
    """Return quantiles of words a caption, and the least and greatest number of references, of a dataset."""
    words: list[int] = []
    counts: list[int] = []
    for examples in (job.train, job.validation):
        frame = examples.rows.frame
        frame = frame[frame["dataset"] == name]
        words += [len(caption.split()) for caption in frame["caption"]]
        counts += [len(texts) for texts in frame["references"]]

    return {
        "caption_words": np.quantile(words, _QUANTILES, method="nearest").astype(int).tolist(),
        "references": [min(counts), max(counts)],
    }


def write_card(card: RaterCard, folder: Path) -> None:
    """Write the page for people and then the card, whose presence says that the rater is complete."""
    with replacing(folder / PAGE_FILE) as stream:
        stream.write(_describe_rater(card).encode())
    card.write(folder)


def _describe_rater(card: RaterCard) -> str:
    """Return the card as a page in Markdown."""
    about = card.about
    lines = [
        f"# A rater of captau: {card.rater}",
        "",
        f"Trained with design={about['design']}, seed {card.seed}. As a metric: `rater(path=FOLDER)`.",
    ]

    if about["shuffled"]:
        lines.append(f"CONTROL: it was trained on {about['control']}.")
    if about["design"] == "all" and about["data"]:
        lines.append(
            "It was trained on every caption of the datasets below, so none of their images can test it; "
            "`captau train design=leave_one_out` measures raters that were made alike."
        )

    lines += ["", "| learned from | captions | images | words a caption | references | licence |"]
    lines.append("|:--|--:|--:|:--|:--|:--|")
    for name, data in about["data"].items():
        captions = 0
        images = 0
        for side in ("train", "validation"):
            counts = about[side].get(name, {})
            captions += counts.get("captions", 0)
            images += counts.get("images", 0)

        low, _, middle, _, high = data["ranges"]["caption_words"]
        low_count, high_count = data["ranges"]["references"]

        cells = [
            f"{data['title']} ({data['revision']})",
            f"{captions:,}",
            f"{images:,}",
            f"{low} to {high}, median {middle}",
            f"{low_count} to {high_count}",
            data["licence"],
        ]
        lines.append(f"| {' | '.join(cells)} |")

    if captions := about.get("captions"):
        low, _, middle, _, high = captions["words"]
        words = f"{low} to {high}, median {middle}"
        counts = f"{captions['captions']:,} | {captions['images']:,}"
        lines.append(f"| captions: {captions['origin']} | {counts} | {words} | none | not known |")

    lines += [
        "",
        "The ratings and captions remain under the licences above, which bind the use of this rater.",
    ]
    lines += ["", *_describe_figures(about), ""]
    return "\n".join(lines)


def _describe_figures(about: Mapping[str, Any]) -> list[str]:
    """Return a table of how the rater agrees with people on the rows that it was tested on."""
    if not about.get("test"):
        reasons = {
            "all": "design=all leaves nothing to test it on",
            "folds": "those of the run are of the raters of all folds together",
        }
        reason = reasons.get(about["design"], "no caption with a rating was tested")
        return [f"No figures: {reason}."]

    lines = ["| tested on | dimension | coefficient ×100 | captions |", "|:--|:--|--:|--:|"]
    for row in about["test"]:
        symbol = find_coefficient(row["coefficient"]).symbol
        value = format_number(row["value"], 100, 1)
        cells = [row["dataset"], row["dimension"], f"{symbol} {value}", f"{row['n_items']:,}"]
        lines.append(f"| {' | '.join(cells)} |")

    return lines


#: The file in a rater's folder with a row an epoch.
HISTORY_FILE = "training.csv"
#: Distributions whose version may move any rater's weights; features name their makers themselves.
WEIGHT_DISTRIBUTIONS = ("captau", "numpy", "scipy", "torch", "transformers")


@dataclass(frozen=True)
class TrainedRater(Metric):
    """A rater that was just trained, as a metric: the protocol's references are its references, too.

    Attributes:
        label: of its predictions.
        model: the trained model; None where the predictions are there already.
        inputs: the parts of the rows that it reads.
    """

    label: str
    model: RaterModel | None = None
    inputs: frozenset[str] = frozenset()
    backend: Literal["captau"] = "captau"

    is_cacheable: ClassVar[bool] = False
    depends_only_on_content: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inputs

    @property
    def name(self) -> str:
        return self.label

    @property
    def spec(self) -> str:
        return self.label

    def compute(self, rows: Rows) -> Floats:
        if self.model is None:
            raise ValueError(f"{self.label} has predictions and no model")
        return self.model.predict(rows)


def train_rater(
    plan: TrainingPlan,
    job: TrainingJob,
    corpora: Mapping[str, TrainingCorpus],
    folder: Path,
) -> tuple[RaterModel, RaterCard]:
    """Train the rater of a job, continue its training, or read it where it is complete.

    Raises:
        InputError: where the folder holds a rater of another training.
    """
    recipe = plan.recipe
    fingerprint = _fingerprint(plan, job)
    if (folder / CARD_FILE).is_file():
        card = RaterCard.read(folder)
        # Its weights rest on other data, options or versions: to go on with them would mix two trainings.
        if card.fingerprint != fingerprint:
            raise InputError(
                f"{folder}: a rater of another training lies there (other options, data or versions); "
                f"remove it, or set another output_dir"
            )
        return recipe.load(folder), card

    train = job.train
    validation = job.validation
    if plan.shuffled:
        train = shuffle_labels(train, job.seed)
        validation = shuffle_labels(validation, job.seed)

    session = TrainingSession(
        job.seed,
        folder,
        fingerprint,
        plan.device,
        is_control=plan.shuffled,
        test_image_ids=job.test_image_ids,
        correlate=correlate_for_training,
    )
    with _restore_torch(plan.threads):
        model = recipe.fit(train, validation, session)

    folder.mkdir(parents=True, exist_ok=True)

    model.save(folder)
    history = make_frame(session.history, HISTORY_COLUMNS)
    (folder / HISTORY_FILE).write_bytes(to_csv(history))
    # The card comes last: its presence says that the rater is complete.

    card = make_card(plan, job, corpora, session, fingerprint)
    write_card(card, folder)
    session.remove_checkpoints()
    return model, card


def correlate_for_training(scores: Floats, ratings: Floats, coefficient: Coefficient) -> float:
    """Compute the coefficient by which a training chooses among epochs or weights; NaN where it is undefined.

    Args:
        scores, ratings: shape (n_points,), paired.
        coefficient: the name of a coefficient of ratings.
    """
    coefficient_object = find_coefficient(coefficient)
    if not isinstance(coefficient_object, RatingCoefficient):
        raise ValueError(f"coefficient {coefficient} is not of scores and ratings")
    if undefined_reason(scores, ratings) is not None:
        return float("nan")

    # As of a weighted sample, which sums ranks exactly: of two epochs with the same coefficient neither is better by
    # a last bit, so that the first of them is taken.
    points = RatedPoints.unweighted(scores, ratings)
    values = coefficient_object.prepare(points)(points.sample)
    return float(values[0])


@contextmanager
def _restore_torch(threads: int | None) -> Generator[None]:
    """Restore torch's generator and number of threads afterwards."""
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


def _fingerprint(plan: TrainingPlan, job: TrainingJob) -> str:
    """Return a digest of everything that the trained weights depend on."""
    digest = hashlib.sha256()
    # Of what is installed only this moves the weights.
    weight_versions: dict[str, str] = {}
    for name, version in describe_environment()["versions"].items():
        if name in WEIGHT_DISTRIBUTIONS:
            weight_versions[name] = version
    table = [
        plan.recipe.name,
        plan.recipe.options,
        plan.recipe.signature,
        job.seed,
        plan.shuffled,
        plan.device,
        sorted(job.test_image_ids),
        weight_versions,
    ]

    digest.update(json.dumps(table, default=str).encode())
    for examples in (job.train, job.validation):
        frame = examples.rows.frame[["dataset", "item_id", "image_id", "caption", "references"]]
        rows = frame.itertuples(index=False, name=None)
        for row in zip(rows, map(tuple, examples.ratings), strict=True):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        digest.update(examples.preferences.tobytes())

    return digest.hexdigest()


def shuffle_labels(examples: Examples, seed: int) -> Examples:
    """Give rows each other's ratings, and draw winners at random, so that nothing can be learned."""
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(examples))

    is_turned = rng.random(len(examples.preferences)) < 0.5
    turned = examples.preferences[:, ::-1]
    pairs = np.where(is_turned[:, None], turned, examples.preferences)

    ratings = [examples.ratings[i] for i in order]
    return Examples(examples.rows, tuple(ratings), pairs)


#: `mse` is in squared units of the predictions; `n_items` counts captions with a rating.
ERROR_COLUMNS = ("dataset", "rater", "split", "spearman", "mse", "n_items")


@dataclass(frozen=True)
class RatingEstimates:
    """A rater's predictions beside mean ratings on the same scale, both of shape (n_items,)."""

    dataset: str
    rater: str
    split: str
    predictions: Floats
    mean_ratings: Floats


def estimate_ratings(
    recipe: Recipe,
    job: TrainingJob,
    model: RaterModel,
    test_predictions: Mapping[str, Floats],
    corpora: Mapping[str, TrainingCorpus],
) -> Iterator[RatingEstimates]:
    """Yield a job's estimates of each dataset's validation and test rows; none of a recipe that only orders.

    Args:
        test_predictions: by dataset, for the rows of `job.test`.
    """
    if recipe.rating_scale is None:
        return
    low, high = recipe.rating_scale

    def pair(dataset: str, split: str, predictions: Floats, examples: Examples) -> RatingEstimates:
        has_rating = examples.has_rating
        means = low + (high - low) * examples.mean_ratings[has_rating]
        return RatingEstimates(dataset, job.label, split, predictions[has_rating], means)

    datasets = job.validation.rows.frame["dataset"]
    for dataset in datasets.unique():
        examples = job.validation.take(np.flatnonzero(datasets == dataset))
        yield pair(str(dataset), "validation", model.predict(examples.rows), examples)

    for dataset, rows in job.test.items():
        examples = corpora[dataset].examples.take(rows)
        yield pair(dataset, "test", test_predictions[dataset], examples)


def error_rows(estimates: Sequence[RatingEstimates]) -> pd.DataFrame:
    """Return columns `ERROR_COLUMNS`; the folds of one rater are pooled, rows without ratings left out."""
    grouped: dict[tuple[str, str, str], list[RatingEstimates]] = {}
    for part in estimates:
        if len(part.predictions):
            grouped.setdefault((part.dataset, part.rater, part.split), []).append(part)

    rows: list[tuple[str | float, ...]] = []
    for key, parts in grouped.items():
        predictions = np.concatenate([part.predictions for part in parts])
        means = np.concatenate([part.mean_ratings for part in parts])
        spearman = correlate(predictions, means, "spearman").value
        mse = float(np.mean((predictions - means) ** 2))
        rows.append((*key, spearman, mse, len(means)))

    return make_frame(rows, ERROR_COLUMNS)


def error_table(errors: pd.DataFrame) -> ResultTable:
    """Return the rows as a table."""
    rows: list[Row] = []
    for dataset, rater, split, spearman, mse, n_items in errors.to_numpy().tolist():
        numbers = number_cells((spearman, mse), 1, 3)
        rows.append(Row(f"{rater}: {dataset}, {split}", [*numbers, count_cell(n_items)]))

    title = "Predictions and mean ratings"
    return ResultTable(title, "rater: dataset, rows", ["Spearman", "MSE", "captions"], rows)


LEAD_COLUMNS = ("coefficient", "rater", "best other", "its value", "lead", "interval")


def lead_table(measured: Sequence[MeasuredDataset], metrics: Sequence[Metric]) -> ResultTable:
    """Return the table of leads: the rater's coefficient less the greatest of the metrics' coefficients.

    Each dataset's first coefficient counts, and of preferences the mean accuracy of the dimensions.

    Args:
        measured: with differences, of raters and `metrics`.
        metrics: the others.
    """
    labels = metric_labels(metrics)
    rows: list[Row] = []
    for dataset in measured:
        differences = dataset.differences
        if differences is None:
            continue

        are_metrics = differences[["metric_a", "metric_b"]].isin(list(labels))
        # Raters stand first among the metrics that are compared, and so in the pairs.
        leads = differences[~are_metrics["metric_a"] & are_metrics["metric_b"]]
        headline = dataset.protocol.coefficients[0]
        groups = groups_of(leads, "dimension", "coefficient", "metric_a")
        for (dimension, coefficient, rater), group in groups:
            if coefficient == headline and find_coefficient(coefficient).is_summary(dimension):
                label = f"{rater}: {dataset.selection.name}, {dimension}"
                rows.append(Row(label, _lead_cells(group, coefficient, labels)))

    title = "Lead over the best of the other metrics"
    corner = "rater: dataset, dimension"
    note = (
        "×100. The interval is the paired bootstrap's over images; significance.csv has every two."
    )
    return ResultTable(title, corner, list(LEAD_COLUMNS), rows, notes=[note])


def _lead_cells(group: pd.DataFrame, coefficient: str, labels: dict[str, str]) -> list[AnyCell]:
    """Return the cells of `LEAD_COLUMNS` of a rater's differences from all other metrics."""
    best = group.sort_values("value_b", kind="stable").iloc[-1]
    columns = ["value_a", "value_b", "difference", "ci_low", "ci_high"]
    value, other_value, lead, low, high = number_cells(best[columns], 100, 2)
    symbol = find_coefficient(coefficient).symbol

    return [symbol, value, labels[best["metric_b"]], other_value, lead, f"{low} to {high}"]
