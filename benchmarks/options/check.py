"""Options of `captau check`; `regression.choices` checks their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...metrics.base import Metric
from ..regression.choices import CheckChoices, SystemCheckChoices
from ..scoring.catalog import optional_specs, resolve_metrics
from . import shared
from .declaration import Composed, Option, Options, dataclass_part, option, part, path_of
from .large import columns_part

_CACHE_ROOT = replace(
    shared.CACHE_ROOT,
    help="where METEOR's tables are stored (default: $CAPTAU_CACHE, else the user's cache folder); scores are "
    "neither stored nor read back",
)


def _dataset_of(composed: Composed) -> str | None:
    names = shared.names_of(list(composed["datasets"]))
    if len(names) > 1:
        raise InputError(f"dataset={','.join(names)}; a baseline has one dataset")
    return names[0] if "dataset" in composed.typed else None


def _protocol_of(composed: Composed) -> Mapping[str, Any] | None:
    is_typed = any(key.partition(".")[0] == "protocol" for key in composed.typed)
    return composed["protocol"] if is_typed else None


def _metrics_of(composed: Composed) -> tuple[Metric, ...] | None:
    return None if composed["metrics"] is None else resolve_metrics(composed["metrics"])


def _optional_of(composed: Composed) -> frozenset[str]:
    return frozenset() if composed["metrics"] is None else optional_specs(composed["metrics"])


@dataclass(frozen=True, kw_only=True)
class SystemCheckOptions(Options):
    """Options of `captau check` of a system's captions; `CheckOptions` are those of a baseline."""

    headings: ClassVar[Mapping[str, str]] = {"choices": "Options that compare a system's captions"}

    choices: SystemCheckChoices = dataclass_part(
        SystemCheckChoices,
        candidates=option(
            None,
            "the new captions of a system, as captau score takes them",
            takes="FILE",
        ),
        against=option(
            None,
            "its old captions: a file, the folder of a run of captau score that scored them, or a baseline (.yaml) that "
            "update=true wrote; the check fails if the new ones are significantly worse by a metric",
            takes="FILE|DIR",
        ),
        references=option(None, "the references of both", takes="FILE"),
        columns=columns_part(),
        images=option(None, "the folder of images, for metrics that look at them", takes="DIR"),
        partial=option(False, "true compares the images that both have captioned"),
        metrics=part(_metrics_of),
        normalise=part(lambda composed: dict(composed["protocol"]).get("normalise") or "none"),
        statistics=shared.statistics_part(
            "interval",
            "replicates",
            "level",
            "seed",
            "correction",
            level="how sure a fall is: the check fails at level 1 - statistics.level",
            interval="expanded, percentile or bca, by resampling images",
        ),
        junit=part(lambda composed: path_of(composed["junit"])),
        update=part(lambda composed: bool(composed["update"])),
        tolerance=part(lambda composed: composed["tolerance"]),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        statistics = self.choices.statistics
        shared.check_not_fisher(statistics)
        if not statistics.uses_resampling:
            raise InputError("statistics.interval=none has no test; leave it out")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Options of `captau check`. A value that the baseline stores is None where the file, or its default, decides."""

    examples: ClassVar[str] = """
captau check baseline=golden/demo.yaml update=true metrics=text_all
captau check baseline=golden/demo.yaml
captau check baseline=golden/demo.yaml metrics=cider
captau check baseline=golden/demo.yaml update=true      accepts what moved: review the diff
captau check baseline=golden/demo.yaml junit=captau.xml versions=none
captau check baseline=mine.yaml update=true dataset=flickr8k_expert metrics=mine:score
captau check baseline=mine.yaml allow=mine:score        runs the function that this baseline names
captau check candidates=new.json against=old.json references=refs.json   fails if the system fell
captau check candidates=old.json against=system.yaml references=refs.json update=true metrics=cider
captau check candidates=new.json against=system.yaml references=refs.json   by the baseline's metrics
"""
    notes: ClassVar[str] = """
Every score is computed anew. A table shows what moved: by how much, and the likely cause (the version of a package, a
parameter, the data, or none of them: the code). Exit status 0: as in the baseline; 1: something moved; 2: bad
input. docs/ci_gate.md shows how other projects use it.

With candidates= and against=, the captions of two systems, or of one before and after a change, are scored, and exit
status 1 says that the new ones are significantly worse by a metric (paired bootstrap over images), or that a score that
a baseline holds moved. A baseline of a system holds its captions and their scores. Where there are too few images for any
fall to be significant, exit status 2 says so; tolerance=NUMBER then decides in the test's place.
"""
    variants: ClassVar[tuple[type[Options], ...]] = (SystemCheckOptions,)
    environment: ClassVar[tuple[Option, ...]] = shared.ENVIRONMENT
    headings: ClassVar[Mapping[str, str]] = {
        "choices": "Options that the baseline stores, typed when it is made or with update=true"
    }

    baseline: Path = option(
        None,
        "the baseline file; it is text, and belongs under version control",
        takes="FILE",
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
    choices: CheckChoices = dataclass_part(
        CheckChoices,
        dataset=part(_dataset_of, *shared.dataset_options("demo", "which dataset", takes="NAME")),
        protocol=part(_protocol_of, shared.NAMED_PROTOCOL, *shared.PROTOCOL),
        metrics=part(
            _metrics_of,
            shared.metrics_option(
                None,
                "suites and metrics (default: text); metrics of a suite that cannot be computed here "
                "are left out. Without update=true, only these metrics of the file are checked",
            ),
        ),
        optional=part(_optional_of),
        sample=option(
            None,
            "the number of items whose scores the file shows (default: 25); means are over all items",
        ),
        seed=option(None, "the seed that draws these items (default: 0)"),
        tolerance=option(
            None,
            "how far a score may move (default: 1e-9); a correlation may move by half of the last "
            "printed digit. With candidates=, how far a metric's score of all captions may fall, in place of the test",
        ),
        versions=option(
            None,
            "which changed versions are failures; all fails for every recorded one, signatures (the "
            "default) for those in a checked metric's signature, none for no version. Other changes "
            "are listed, and suspected where a score moved",
        ),
        packages=option(
            [],
            "more Python packages whose versions are recorded",
            takes="A,B",
            read=shared.words_of,
        ),
        allow=option(
            [],
            "functions that the baseline may run, as MODULE:FUNCTION, and mllm_judge if it may ask a "
            "judge; a baseline that names another is refused. What you name in metrics= may run too",
            takes="A,B",
            read=shared.words_of,
        ),
        locations=part(shared.locations_of, *shared.FILE, shared.DATA_ROOT, _CACHE_ROOT),
    )

    @classmethod
    def read(cls, composed: Composed) -> Any:
        """Make the options of a composed configuration: `SystemCheckOptions` where `candidates=` or `against=` is typed.

        Raises:
            InputError: where a value makes no sense, or options do not go together.
        """
        if composed["candidates"] is None and composed["against"] is None:
            if composed["baseline"] is None:
                raise InputError(
                    "name the baseline, baseline=FILE, or captions, candidates=FILE against=FILE"
                )
            return super().read(composed)
        own_keys = {option_.key for option_ in SystemCheckOptions.declared()}
        shared_keys = {"metrics", "junit", "update", "tolerance", "protocol.normalise"}
        for key in sorted(composed.typed - own_keys - shared_keys):
            raise InputError(f"{key}= does not go with candidates=; leave one of them out")
        return SystemCheckOptions.read(composed)
