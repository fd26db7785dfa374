"""Options of `captau check`; `regression.check.CheckChoices` checks their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...metrics.base import Metric
from ..scoring.catalog import optional_specs, resolve_metrics
from ..scoring.score_store import Locations
from .declaration import NEEDED, Composed, Option, Options, option, part
from .shared import (
    CACHE_ROOT,
    DATA_ROOT,
    ENVIRONMENT,
    FILE,
    NAMED_PROTOCOL,
    PROTOCOL,
    dataset_options,
    locations_of,
    metrics_option,
    names_of,
    words_of,
)

_CACHE_ROOT = replace(
    CACHE_ROOT,
    help="where METEOR's tables are stored (default: $CAPTAU_CACHE, else the user's cache folder); scores are "
    "neither stored nor read back",
)


def _dataset_of(composed: Composed) -> str | None:
    names = names_of(list(composed["datasets"]))
    if len(names) > 1:
        raise InputError(f"dataset is {','.join(names)}; a baseline is of one dataset")
    return names[0] if "dataset" in composed.typed else None


def _protocol_of(composed: Composed) -> Mapping[str, Any] | None:
    is_typed = any(key.partition(".")[0] == "protocol" for key in composed.typed)
    return composed["protocol"] if is_typed else None


def _metrics_of(composed: Composed) -> tuple[Metric, ...] | None:
    return None if composed["metrics"] is None else resolve_metrics(composed["metrics"])


def _optional_of(composed: Composed) -> frozenset[str]:
    return frozenset() if composed["metrics"] is None else optional_specs(composed["metrics"])


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Options of `captau check`. A value that the baseline stores is None where the file, or its default, decides."""

    examples: ClassVar[str] = """
captau check baseline=golden/demo.yaml update=true metrics=text_all   makes the baseline
captau check baseline=golden/demo.yaml                  recomputes and compares by the file's options
captau check baseline=golden/demo.yaml metrics=cider  checks one of its metrics
captau check baseline=golden/demo.yaml update=true      accepts what moved: review the diff
captau check baseline=golden/demo.yaml junit=captau.xml versions=none
captau check baseline=mine.yaml update=true dataset=flickr8k_expert metrics=mine:score
captau check baseline=mine.yaml allow=mine:score        runs the function that this baseline names
"""
    notes: ClassVar[str] = """
Every score is computed anew. A table shows what moved: by how much, and the likely cause (the version of a package, a
parameter, the data, or none of them: the code). Exit status 0: as in the baseline; 1: something moved; 2: bad
input. docs/ci_gate.md shows how other projects use it.
"""
    environment: ClassVar[tuple[Option, ...]] = ENVIRONMENT
    headings: ClassVar[Mapping[str, str]] = {
        "dataset": "Options that the baseline stores, typed when it is made or with update=true"
    }

    baseline: Path = option(
        NEEDED, "the baseline file; it is text, and belongs under version control", takes="FILE"
    )
    update: bool = option(
        False, "true writes the baseline; numbers that have not moved keep their digits"
    )
    junit: Path | None = option(
        None,
        "also writes a JUnit report; if GITHUB_STEP_SUMMARY is set, the table is added to that "
        "file",
        takes="FILE",
    )
    dataset: str | None = part(
        _dataset_of, *dataset_options("demo", "which dataset", takes="NAME"), default=None
    )
    protocol: Mapping[str, Any] | None = part(_protocol_of, NAMED_PROTOCOL, *PROTOCOL, default=None)
    metrics: tuple[Metric, ...] | None = part(
        _metrics_of,
        metrics_option(
            None,
            "suites and metrics (default: text); metrics of a suite that cannot be computed here "
            "are left out. Without update=true, only these metrics of the file are checked",
        ),
        default=None,
    )
    optional: frozenset[str] = part(_optional_of, default=frozenset())
    sample: int | None = option(
        None,
        "the number of items whose scores the file shows (default: 25); means are over all items",
    )
    seed: int | None = option(None, "the seed that draws these items (default: 0)")
    tolerance: float | None = option(
        None,
        "how far a score may move (default: 1e-9); a correlation may move by half of the last "
        "printed digit",
    )
    versions: str | None = option(
        None,
        "which changed versions are failures; all fails for every recorded one, signatures (the "
        "default) for those in a checked metric's signature, none for no version. Other changes "
        "are listed, and suspected where a score moved",
    )
    packages: tuple[str, ...] = option(
        [], "more Python packages whose versions are recorded", takes="A,B", read=words_of
    )
    allow: tuple[str, ...] = option(
        [],
        "functions that the baseline may run, as MODULE:FUNCTION, and mllm_judge if it may ask a "
        "judge; a baseline that names another is refused. What you name in metrics= may run too",
        takes="A,B",
        read=words_of,
    )
    locations: Locations = part(
        locations_of, *FILE, DATA_ROOT, _CACHE_ROOT, default_factory=Locations
    )
