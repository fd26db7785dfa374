"""Options of `captau score`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError, unknown
from ...datasets.normalisation import NORMALISATIONS
from ...datasets.reading.streams import STDIN
from ...metrics.base import Metric
from ..scoring.catalog import resolve_metrics
from ..statistics.bootstrap import StatisticsOptions
from .declaration import NEEDED, Composed, Option, Options, option, part
from .large import LARGE_ONLY, SMALL_ONLY, TRUST, LargeOptions, is_large
from .shared import (
    METRICS,
    ScoringOptions,
    check_not_fisher,
    metrics_part,
    one_of,
    statistics_part,
)

#: What `captau score` can print: tables, or one of its files and nothing else.
PRINTED = ("table", "scores.jsonl", "scores.csv", "corpus.json", "corpus.csv", "kept.json")


@dataclass(frozen=True)
class NamedFile:
    """A file of the user's, `-` for standard input, and its name in results."""

    name: str
    path: Path


def files_of(value: Any, key: str) -> tuple[NamedFile, ...]:
    """Return files, from one or several, each as `path` or `name=path`.

    A file without a name is called by its own without the ending, or, where two would be called
    alike, by its path.

    Raises:
        InputError: where there is none, or two have one name.
    """
    entries: Any = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not entries or not all(entries):
        raise InputError(f"{key} is {value!r}; a file is expected, or several as [A,B]")
    named_paths: list[tuple[str, Path]] = []
    for entry in map(str, entries):
        name, equals, rest = entry.partition("=")
        # A path may hold an equals sign as well: lr=0.1/results.json
        has_name = equals and rest and "/" not in name and not Path(entry).expanduser().exists()
        named_paths.append((name, Path(rest)) if has_name else ("", Path(entry)))
    stems = [_stem(path) for name, path in named_paths if not name]
    files = [
        NamedFile(
            name or (_stem(path) if stems.count(_stem(path)) == 1 else str(path)),
            path.expanduser(),
        )
        for name, path in named_paths
    ]
    names = [file.name for file in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two of {key} are called '{twice}'; name them: {key}=[a=FILE,b=FILE]")
    return tuple(files)


def _stem(path: Path) -> str:
    if path == STDIN:
        return "stdin"
    return path.with_suffix("").stem if path.suffix == ".gz" else path.stem


def _keep_of(composed: Composed) -> tuple[str, float] | None:
    name, above = composed["keep.metric"], composed["keep.above"]
    if (name is None) != (above is None):
        raise InputError("keep.metric=METRIC and keep.above=SCORE go together")
    if name is None:
        return None
    spec, specs = (
        resolve_metrics(name)[0].spec,
        [m.spec for m in resolve_metrics(composed["metrics"])],
    )
    if spec not in specs:
        raise unknown("metric to keep by", spec, specs)
    return spec, above


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ScoringOptions):
    """Options of `captau score` of files; `LargeOptions` are those of shards."""

    examples: ClassVar[str] = """
captau score candidates=captions_val2014_mine_results.json references=captions_val2014.json
captau score candidates=mine.json,base=their/results.json references=refs.json
captau score candidates=mine.json references=c5.json,c40.json
captau score candidates=mine.jsonl references=refs.jsonl metrics=bleu_4,cider,meteor
caption.py | captau score candidates=- references=refs.json stdout=scores.jsonl | head
captau score candidates=mine.json 'metrics=rater(path=DIR)' 'keep.metric="rater(path=DIR)"' keep.above=0.7
captau score candidates=one.json references=one_refs.json 'metrics=cider(df=coco_df.json)'
captau score 'candidates=shards/*.parquet' metrics=bleu_4,cider output_dir=scored
captau score candidates=shards engine=ray metrics=bleu_4,cider
"""
    notes: ClassVar[str] = """
Large sets (docs/large_sets.md): candidates=PATH|[A,B] are then shards of one set: Parquet, JSON lines (also .gz, .zst),
WebDataset's tar, here or behind a URL (s3://…). Rows bring their references, or references=PATH|[A,B] has them by
image_id, in shards or a file as below. A folder, a glob, a URL, a Parquet or a tar file is a large set, and so is a
plain file with engine=.
"""
    writes: ClassVar[str] = """
Writes corpus.json (a metric's score of the whole set; null where it is undefined, for the reason that run.json has),
corpus.csv (the same with intervals and agreement), scores.csv (one row a caption), table.md, table.tex and run.json; of
several systems differences.csv as well. Of a large set it writes scores/ (Parquet), corpus.json, percentiles.csv,
histograms.csv, distributions.json, manifest.json, table.md, table.tex and run.json; started again with the same options,
it continues where it was stopped.
"""
    variants: ClassVar[tuple[type[Options], ...]] = (LargeOptions,)

    candidates: tuple[NamedFile, ...] = option(
        NEEDED,
        'COCO results ([{"image_id", "caption"}]), an object image id -> caption, or JSON lines with image_id and '
        "caption; - is standard input, .gz is unpacked. Several are compared; NAME=FILE gives one a name other "
        "than the file's",
        read=files_of,
        takes="FILE|[A,B]",
        is_literal=True,
        has_several=True,
    )
    references: tuple[NamedFile, ...] = option(
        None,
        "COCO caption annotations, an object image id -> list of captions, or JSON lines with image_id and "
        "references; each of several is scored against",
        read=lambda value, key: files_of(value, key) if value else (),
        takes="FILE|[A,B]",
        is_literal=True,
        has_several=True,
    )
    images: Path | None = option(
        None, "the folder of the images, for metrics that look at them", takes="DIR"
    )
    partial: bool = option(
        False,
        "true scores the images that every system has captioned; else a lacking one is an error. Of several sets of "
        "references each may have images of its own",
    )
    normalise: str = option(
        "none",
        "the text rule for captions and references before they are scored: none, thumb (docs/protocols.md)",
        key="protocol.normalise",
        check=one_of(NORMALISATIONS, "value of protocol.normalise"),
    )
    metrics: tuple[Metric, ...] = metrics_part(METRICS)
    trust: str | None = part(lambda composed: composed["trust"], TRUST, default=None)
    stdout: str = option(
        "table",
        "prints that alone, and writes a folder only where output_dir= is set: scores.jsonl, scores.csv, "
        "corpus.json, corpus.csv, kept.json",
        takes="NAME",
        check=one_of(PRINTED, "value of stdout"),
    )
    keep: tuple[str, float] | None = part(
        _keep_of,
        Option(
            "keep.metric",
            None,
            "writes kept.json: the captions whose score of that metric is keep.above or more (captau thresholds "
            "shows which threshold retains what)",
            str | None,
            takes="METRIC",
        ),
        Option("keep.above", None, "the least score of a caption in kept.json", float | None),
        default=None,
    )
    statistics: StatisticsOptions = statistics_part(
        *("interval", "replicates", "level", "seed", "correction"),
        interval="percentile or bca, by resampling images; none also compares no systems",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_fisher(self.statistics)
        if self.keep is not None and len(self.candidates) * len(self.references or "-") > 1:
            raise InputError("keep.metric= is of one system and one set of references")
        if self.stdout == "kept.json" and self.keep is None:
            raise InputError("stdout=kept.json needs keep.metric=METRIC and keep.above=SCORE")
        if sum(file.path == STDIN for file in (*self.candidates, *self.references)) > 1:
            raise InputError("standard input can be read once; name a file for the others")

    @classmethod
    def read(cls, composed: Composed) -> Any:
        """Make the options of a composed configuration: `LargeOptions` where candidates are shards.

        Raises:
            InputError: where a value makes no sense, or options do not go together.
        """
        if not is_large(composed):
            for key in cls.changed_keys(composed, LARGE_ONLY):
                raise InputError(f"{key}= is of large sets, in shards; add engine=local")
            return super().read(composed)
        for key in cls.changed_keys(composed, SMALL_ONLY):
            raise InputError(
                f"{key}= is not of large sets, in shards; leave it out, or engine= where the files are small"
            )
        if composed["keep.metric"] is not None:
            raise InputError(
                "keep.metric= is not of large sets; score first, then captau filter run=DIR keep.metric=METRIC"
            )
        return LargeOptions.read(composed)
