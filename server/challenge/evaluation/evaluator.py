"""The interface by which workers check and score submissions of either kind of challenge.

An evaluator keeps what all submissions of its challenge share: tokenised references, or the rated dataset.
Each worker has its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ....benchmarks.commands.validate import Verdict
from ....benchmarks.runs.progress_bar import StepProgress
from ....benchmarks.scoring.submission_archive import Faults
from ....metrics.base import Floats
from ..definition import Challenge
from ..submission_files import find_upload
from ..submissions import finite_or_none

#: Receives the share of an evaluation that is done, from 0 to 1, and its current step.
ReportProgress = Callable[[float, str], None]


@dataclass(frozen=True)
class Evaluation:
    """The scores of a submission.

    Attributes:
        scores: rows with `references` (the set; empty for challenges of metrics), `metric` (for
            challenges of metrics: coefficient and dimension), `value, ci_low, ci_high` (None where
            undefined), `n` (captions) and `note`.
        run: the versions and options that recompute them.
        items: the score of each caption: `item_id, image_id`, and a column a metric (and set).
        replicates: scores of bootstrap samples of images, the same samples for every submission, by set
            and metric; shape (n_replicates,).
    """

    scores: list[dict[str, Any]]
    run: dict[str, Any]
    items: pd.DataFrame
    replicates: dict[tuple[str, str], Floats]


class Evaluator(ABC):
    """Checks and scores the submissions of a challenge."""

    def __init__(self, challenge: Challenge) -> None:
        self.challenge = challenge

    @abstractmethod
    def check_challenge(self) -> None:
        """Check that submissions can be scored.

        Raises:
            InputError: if references cannot be read, or a metric cannot be computed.
        """

    def warm_up(self) -> None:
        """Do in advance what the first submission would have to wait for."""
        self.check_challenge()

    @abstractmethod
    def list_items(self) -> Iterator[dict[str, Any]]:
        """Yield the items that a submission must caption or score, without private fields."""

    def check_submission(self, folder: Path, file_name: str) -> Verdict:
        """Check an uploaded file; all of its faults are found before anything is scored.

        Args:
            folder: the submission's.
            file_name: as the sender calls the file.
        """
        faults = Faults(self.challenge.limits.faults)
        name = Path(file_name)
        content = self.check_file(folder, name, faults)
        verdict = Verdict.of_faults(name, faults, content)

        # Readers name the file in the submission's folder, and its sender knows it by another name.
        upload = str(find_upload(folder))
        lines = [line.replace(upload, str(name)) for line in verdict.faults]
        return replace(verdict, faults=lines)

    @abstractmethod
    def check_file(self, folder: Path, name: Path, faults: Faults) -> str:
        """Add the faults of an uploaded file.

        Args:
            folder: the submission's; the file that `evaluate` reads is there if there are no faults.
            name: the file's name, for messages.
            faults: where to add them.

        Returns:
            the number of captions or scores in words.
        """

    @abstractmethod
    def evaluate(self, folder: Path, report: ReportProgress) -> Evaluation:
        """Score a submission that was found valid.

        Args:
            folder: the submission's.
            report: receives the progress, from any thread.
        """

    def score_human_captions(self) -> list[dict[str, Any]]:
        """Return the scores of human captions: rows as in `Evaluation.scores`, and `people`, what they are."""
        return []


def make_score_row(
    references: str, metric: str, values: Sequence[Any], n_captions: int, note: str
) -> dict[str, Any]:
    """Return a row of `Evaluation.scores`; `values` are the score and its interval's bounds."""
    value, ci_low, ci_high = map(finite_or_none, values)
    return {
        "references": references,
        "metric": metric,
        "value": value,
        "ci_low": ci_low,
        "ci_high": ci_high,
        "n": n_captions,
        "note": note,
    }


class ReportedProgress(StepProgress):
    """Progress that is reported to a function instead of drawn as a bar.

    Args:
        total: the expected number of steps.
        report: receives the share that is done, at most 0.99, and the current step.
    """

    def __init__(self, total: int, report: ReportProgress) -> None:
        super().__init__(None)
        self._n_done = 0
        self._total = total
        self._report = report

    def add_steps(self, steps: int, description: str) -> None:
        self._total += steps

    def advance(self) -> None:
        self._n_done += 1
        self._report(self._share, "")

    @contextmanager
    def step(self, description: str) -> Generator[None]:
        self._report(self._share, description.rpartition(": ")[2])
        yield
        self.advance()

    @property
    def _share(self) -> float:
        # Only a result that is stored is complete.
        return min(self._n_done / max(self._total, 1), 0.99)
