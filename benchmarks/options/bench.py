"""Options of `captau bench` and `captau compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..statistics.bootstrap import TESTS, StatisticsOptions
from . import shared
from .declaration import Composed, Options, option


@dataclass(frozen=True, kw_only=True)
class BenchOptions(shared.MeasuringOptions):
    """Options of `captau bench`."""

    examples: ClassVar[str] = """
captau bench                                           the embedded demo, the text suite
captau bench dataset=flickr8k_expert                   the protocol of CLIPScore's Table 1
captau bench dataset=flickr8k_expert,thumb metrics=bleu_4,cider,sacrebleu
captau bench dataset=thumb protocol.dimension=recall protocol.coefficients=tau_c
captau bench dataset=thumb 'metrics=file(path=mine.csv,name=Mine),cider'
captau bench dataset=file file.path=mine.csv file.low=1 file.high=5
captau bench dataset=flickr8k_expert statistics.interval=bca statistics.replicates=10000
captau bench dataset=flickr8k_expert,thumb --multirun  one run each
"""
    writes: ClassVar[str] = """
Writes correlations.csv, scores.parquet, table.md, table.tex, table.csv (a further table: table_2.csv), run.json. In a sweep (--multirun), a job
that fails leaves the others alone; hydra/launcher=joblib, submitit_local or submitit_slurm spreads them
(docs/clusters.md).
"""
    objective: ClassVar[str] = (
        "the headline coefficient of the first metric, of several datasets their mean"
    )

    ceilings: bool = option(
        True,
        "false leaves out the rows of what people reach; they stand below the metrics where items"
        " have several ratings (captau agree)",
    )
    floors: bool = option(
        False,
        "true adds rows that a metric has to beat; these are random scores and caption length",
    )
    details: bool = shared.details_option()
    statistics: StatisticsOptions = shared.statistics_part(
        "interval", "replicates", "level", "seed", "correction", "disattenuate"
    )
    tests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tests and len(self.metrics) < 2:
            specs = ",".join(metric.spec for metric in self.metrics)
            raise InputError(f"metrics={specs}; two are needed to compare")
        if self.tests and not self.statistics.uses_resampling:
            raise InputError(
                f"statistics.interval={self.statistics.interval} draws no images, which a comparison "
                "needs; choose expanded, percentile or bca"
            )


def _tests_of(value: Any, _: str) -> tuple[str, ...]:
    tests: Any = [value] if isinstance(value, str) else value
    if not isinstance(tests, list | tuple) or not tests:
        raise InputError(f"tests is {value!r}; one or several of {','.join(TESTS)} are expected")
    return tuple(dict.fromkeys(map(str, tests)))


@dataclass(frozen=True)
class RunComparisonOptions(Options):
    """Options of `captau compare run=A,B`: the folders of the two runs."""

    before: Path
    now: Path


@dataclass(frozen=True, kw_only=True)
class CompareOptions(BenchOptions):
    """Options of `captau compare`."""

    examples: ClassVar[str] = """
captau compare dataset=flickr8k_expert metrics=cider,rouge_l
captau compare dataset=thumb metrics=text protocol.coefficients=pearson
captau compare dataset=pascal50s tests=permutation statistics.swap=item
captau compare 'metrics=file(path=mine.csv,name=Mine),text' statistics.correction=holm
captau compare run=DIR_A,DIR_B                         what moved between two finished runs, and why
"""
    notes: ClassVar[str] = """
Every two metrics are compared on the same resampled images. With two folders in run=, nothing is computed: a table shows
which data, options, versions, signatures, scores and correlations differ between two finished runs, and the likely cause.
"""
    writes: ClassVar[str] = """
Writes significance.csv (a row a pair, coefficient and test) and matrix.csv (corrected p-values) beside the files of
captau bench.
"""

    statistics: StatisticsOptions = shared.statistics_part(*StatisticsOptions.__dataclass_fields__)
    tests: tuple[str, ...] = option(
        list(TESTS),
        "which significance tests; bootstrap is paired, over images; permutation is PERM-BOTH; "
        "williams (Pearson's r) and mcnemar (accuracy) treat data points as independent "
        "(docs/statistics.md)",
        read=_tests_of,
        takes="A,B",
        check=shared.one_of(TESTS, "test"),
    )

    @classmethod
    def has_run_folder(cls, composed: Composed) -> bool:
        """Tell whether the command writes a run into a folder, which a comparison of two finished runs does not."""
        return composed.get("run") is None

    @classmethod
    def read(cls, composed: Composed) -> Any:
        """Make the options of a composed configuration: `RunComparisonOptions` where `run=` names two folders.

        Raises:
            InputError: where it names more, or there are other options beside them, or a value makes no sense.
        """
        folders = composed["run"]
        if folders is None:
            return super().read(composed)
        if other_keys := sorted(composed.typed - {"run"}):
            raise InputError(f"run=A,B compares two finished runs; leave out {other_keys[0]}=")
        if len(folders) != 2:
            raise InputError(f"run= names {len(folders)} folders; two runs are compared")
        return RunComparisonOptions(*(expand_home(folder) for folder in folders))
