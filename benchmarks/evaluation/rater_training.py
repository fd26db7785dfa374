"""Training of one learned rater in a folder, and its predictions; `captau train` calls these for each job."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from ...datasets.errors import InputError
from ...metrics.base import Floats, Metric
from ...metrics.learned.common.recipe import Examples, RaterModel
from ...metrics.learned.common.training import HISTORY_COLUMNS, TrainingSession
from ...metrics.learned.rater import CARD_FILE, RaterCard
from ...metrics.rows import Rows
from ..runs.results import describe_environment, to_csv
from .rater_card import make_card, write_card
from .training_designs import TrainingCorpus, TrainingJob, TrainingPlan

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


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Hold the folder's lock meanwhile, and leave none behind in a folder that stays empty.

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
        if [p.name for p in folder.iterdir()] == [".lock"]:
            (folder / ".lock").unlink(missing_ok=True)


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
        if card.fingerprint != fingerprint:
            raise InputError(
                f"{folder}: a rater of another training lies there (other options, data or versions); "
                f"remove it, or set another output_dir"
            )
        return recipe.load(folder), card
    train, validation = job.train, job.validation
    if plan.shuffled:
        train, validation = (shuffle_labels(e, job.seed) for e in (train, validation))
    session = TrainingSession(
        job.seed,
        folder,
        fingerprint,
        plan.device,
        is_control=plan.shuffled,
        test_image_ids=job.test_image_ids,
    )
    with _restore_torch(plan.threads):
        model = recipe.fit(train, validation, session)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder)
    history = pd.DataFrame(session.history, columns=pd.Index(HISTORY_COLUMNS))
    (folder / HISTORY_FILE).write_bytes(to_csv(history))
    card = make_card(plan, job, corpora, session, fingerprint)
    write_card(card, folder)
    session.remove_checkpoints()
    return model, card


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
    versions = describe_environment()["versions"]
    table = [
        plan.recipe.name,
        plan.recipe.options,
        plan.recipe.signature,
        job.seed,
        plan.shuffled,
        plan.device,
        sorted(job.test_image_ids),
        {k: v for k, v in versions.items() if k in WEIGHT_DISTRIBUTIONS},
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


def shuffle_labels(examples: Examples, seed: int) -> Examples:
    """Give rows each other's ratings, and draw winners at random, so that nothing can be learned."""
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(examples))
    is_turned = rng.random(len(examples.preferences)) < 0.5
    pairs = np.where(is_turned[:, None], examples.preferences[:, ::-1], examples.preferences)
    return Examples(examples.rows, tuple(examples.ratings[i] for i in order), pairs)
