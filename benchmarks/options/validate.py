"""Options of `captau validate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from .common import path_of, plain_of

#: What `captau validate` checks, and the endings that are of scores where nobody says.
SUBMITTED = ("captions", "scores")

_SCORES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class ValidateOptions:
    """What `captau validate` does.

    Attributes:
        file: the submission.
        kind: `captions` or `scores`; None goes by the dataset and the file's ending.
        references: of the images that need a caption each.
        dataset: whose items need a score each.
        member: which file of a zip the references are of; None where there is one.
        limit: how many faults are listed.
        data_root: the data folder; None for the usual one.
    """

    file: Path
    kind: str | None = None
    references: Path | None = None
    dataset: str | None = None
    member: str | None = None
    limit: int = 20
    data_root: Path | None = None

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in SUBMITTED:
            raise unknown("kind", self.kind, SUBMITTED)
        if self.limit < 1:
            raise InputError(f"limit is {self.limit}; a whole number from 1 on is expected")
        if self.of_scores and (self.references or self.member):
            raise InputError("references=… and member=… are of captions; scores want dataset=NAME")
        if not self.of_scores and self.dataset:
            raise InputError("dataset=… is of scores; captions want references=FILE")

    @property
    def of_scores(self) -> bool:
        """Whether the file holds a metric's scores."""
        if self.kind is not None:
            return self.kind == "scores"
        return self.dataset is not None or self.file.suffix.lower() in _SCORES


def validate_config(config: DictConfig) -> ValidateOptions:
    """From the composed configuration of `captau validate`.

    Raises:
        InputError: on several datasets, or an option that makes no sense.
    """
    plain = plain_of(config)
    names = list(plain["datasets"])
    if len(names) > 1:
        raise InputError(f"dataset is [{','.join(names)}]; scores are of one dataset")
    return ValidateOptions(
        file=Path(plain["file"]).expanduser(),
        kind=plain["kind"],
        references=path_of(plain["references"]),
        dataset=names[0] if names else None,
        member=plain["member"],
        limit=plain["limit"],
        data_root=path_of(plain["data"]["root"]),
    )
