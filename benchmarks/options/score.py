"""Options of `captau score`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeGuard

import pandas as pd

from ...datasets.caption_texts import NORMALISATIONS
from ...datasets.errors import InputError, unknown
from ...datasets.paths import exists, expand_home
from ...datasets.reading.json_source import STDIN
from ...datasets.reading.packed_files import without_packing
from ...datasets.reading.shard_files import is_url
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ...metrics.text.tokens.ptb import Tokenize
from ..scoring.catalog import resolve_metrics
from ..statistics.bootstrap import StatisticsOptions
from . import large, shared
from .declaration import Composed, Given, Option, Options, PythonValue, option, part

#: What becomes of references that their own file flags as void.
FLAGGED = ("drop", "keep")

#: What `captau score` can print: tables, or one of its files and nothing else.
PRINTED = ("table", "scores.jsonl", "scores.csv", "corpus.json", "corpus.csv", "kept.json")


#: What stands below the table of scores.
NOTES = ("brief", "full", "short")


@dataclass(frozen=True)
class NamedFile:
    """A file of the user's, `-` for standard input, and its name in results; `content` is read instead of the file."""

    name: str
    path: Path
    content: bytes | None = None

    @property
    def spelling(self) -> str:
        """The file as `files_of` reads it."""
        has_own_name = self.name not in (_stem(self.path), str(self.path))
        return f"{self.name}={self.path}" if has_own_name else str(self.path)


def files_of(value: Any, key: str) -> tuple[NamedFile, ...]:
    """Return files, from one or several, each as `path` or `name=path`.

    A file without a name is called by its own without the ending, or, where two would be called
    alike, by its path.

    Raises:
        InputError: where there is none, or two have one name.
    """
    entries: Any = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not entries or not all(entries):
        raise InputError(f"{key} is {value!r}; a file is expected, or several as A,B")
    if all(isinstance(entry, NamedFile) for entry in entries):  # from Python
        return tuple(entries)

    named_paths: list[tuple[str, Path]] = []
    for entry in map(str, entries):
        name, equals, rest = entry.partition("=")
        # A path may hold an equals sign as well: lr=0.1/results.json
        has_name = equals and rest and "/" not in name and not exists(expand_home(entry))
        named_paths.append((name, Path(rest)) if has_name else ("", Path(entry)))
    stems = Counter(_stem(path) for name, path in named_paths if not name)
    files: list[NamedFile] = []
    for name, path in named_paths:
        stem = _stem(path)
        own_name = stem if stems[stem] == 1 else str(path)
        files.append(NamedFile(name or own_name, expand_home(path)))

    for name, count in Counter(file.name for file in files).items():
        if count > 1:
            raise InputError(f"two of {key} are called '{name}'; name them: {key}=a=FILE,b=FILE")
    return tuple(files)


def one_file_of(value: Any, key: str, command: str) -> NamedFile | None:
    """Return one file as `files_of` does; None for none.

    Args:
        value, key: of the option.
        command: as it is typed, for the message.

    Raises:
        InputError: where there are several.
    """
    files = files_of(value, key) if value else ()
    if len(files) > 1:
        raise InputError(f"{key}= names {len(files)} files; {command} takes one")
    return files[0] if files else None


def _stem(path: Path) -> str:
    if path == STDIN:
        return "stdin"
    return Path(without_packing(path.name)).stem


#: Captions of one system, and a set of references: a file, or what its JSON would hold, or a DataFrame.
Captions: TypeAlias = (
    str | Path | Mapping[Any, str] | Sequence[Mapping[str, Any]] | pd.DataFrame | pd.Series
)
References: TypeAlias = (
    str
    | Path
    | Mapping[Any, Sequence[str]]
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Any]
    | pd.DataFrame
    | pd.Series
)


def captions_from_python(value: Any, key: str) -> tuple[NamedFile, ...]:
    """Return candidates or references, `key`, of one set or several, as `captau.score` takes them.

    What is in memory becomes the JSON of a file, so that it is read and checked as a file is.

    Raises:
        InputError: where there is none, it is a large set, or it cannot be JSON.
    """
    if value is None:
        return ()
    paths = [value] if isinstance(value, str | Path) else value
    are_paths = isinstance(paths, list | tuple) and all(
        isinstance(path, str | Path) for path in paths
    )
    files: Sequence[NamedFile] = ()
    if are_paths:
        _check_no_captions(paths, key)
        files = files_of(list(map(str, paths)), key)
    elif key == "candidates" and _has_systems(value):
        if value["system"].isna().any():
            raise InputError(
                f"{key}: some rows have no value in the column 'system'; name their system"
            )
        by_system = value.groupby("system", sort=False, observed=True)
        files = [_in_memory(rows, key, str(name)) for name, rows in by_system]
    elif _has_sets(value):
        files = []
        for name, captions in value.items():
            if isinstance(captions, Path):
                files.append(NamedFile(str(name), expand_home(captions)))
            else:
                files.append(_in_memory(captions, key, str(name)))
    else:
        files = (_in_memory(value, key),)
    for file in files:
        # Of references a folder is one table in parts, or says what it is when it is read.
        is_table = key == "references" and file.path.is_dir()
        if file.content is None and not is_table and large.is_large_path(str(file.path)):
            raise InputError(
                f"{key}: {file.path} is a large set, in shards; the command captau score takes it (docs/large_sets.md)"
            )
    return tuple(files)


def _check_no_captions(paths: Sequence[str | Path], key: str) -> None:
    """Check that a list of files is none of captions.

    Raises:
        InputError: on a text of several words that is neither the name nor the path of a file.
    """
    for text in paths:
        # `base=my captions.json` names a file as well.
        if not isinstance(text, str) or len(text.split()) < 2 or set(text) & set("=/\\"):
            continue

        path = expand_home(text)
        has_ending = len(path.suffix) > 1 and " " not in path.suffix
        if not has_ending and not exists(path):
            raise InputError(
                f"{key}: a text is a file, and there is no file {text!r}; captions are given with their images: "
                '{"1.jpg": "a dog runs"}'
            )


def _has_systems(value: Any) -> TypeGuard[pd.DataFrame]:
    """Say whether a value is a DataFrame with a column `system`."""
    is_frame = isinstance(value, pd.DataFrame)
    return is_frame and value.columns.is_unique and "system" in value.columns


def _given_captions(value: Any, key: str) -> Given:
    """Return captions from Python, and the names of their files, which run.json records."""
    files = captions_from_python(value, key)
    is_in_memory = any(file.content is not None for file in files)
    return Given(files, [file.spelling for file in files], is_in_memory)


CANDIDATES_FROM_PYTHON = PythonValue(
    "Captions | Mapping[str, Captions] | Sequence[str | Path]",
    "one caption per image: a file (docs/own_captions.md), a dict image id → caption, a list of "
    '`{"image_id": …, "caption": …}`, or a DataFrame with these columns. Several systems are a list of files, '
    "a dict from names to any of these except a text, or a DataFrame with a column `system`.",
    _given_captions,
)
REFERENCES_FROM_PYTHON = PythonValue(
    "References | Mapping[str, References] | Sequence[str | Path] | None",
    'a file, a dict image id → captions, a list of `{"image_id": …, "references": […]}`, COCO\'s '
    "annotations, or a DataFrame with the columns `image_id` and `references`, or `image_id` and `caption`. "
    "Several sets are a list of files, or a dict from names to any of these except a text.",
    _given_captions,
)


def _has_sets(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Say whether a value is a mapping of sets by name, and not one set."""
    sets = (Path, pd.DataFrame, Mapping)
    # COCO's annotations are a mapping too, and one set.
    if not isinstance(value, Mapping) or "annotations" in value:
        return False
    return any(isinstance(entry, sets) or _is_list_of_rows(entry) for entry in value.values())


def _is_list_of_rows(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(row, Mapping) for row in value)


def _in_memory(value: Any, key: str, name: str = "") -> NamedFile:
    """Return captions in memory as a file's content.

    Raises:
        InputError: where they are of another kind.
    """
    where = f"{key} {name}".strip()
    if isinstance(value, pd.Series):
        if not value.index.is_unique:
            raise InputError(f"{where}: an image id is twice in the index of the Series; keep one")
        value = value.to_dict()
    if not isinstance(value, Mapping | list | tuple | pd.DataFrame):
        raise InputError(
            f"{where}: a path, a dict, a list of dicts or a DataFrame is expected, and not {type(value).__name__}"
        )
    if isinstance(value, pd.DataFrame):
        if not value.columns.is_unique:
            raise InputError(f"{where}: two columns have one name; keep one")
        # A table is often kept by its images.
        if value.index.name == "image_id" and "image_id" not in value.columns:
            value = value.reset_index()
        value = value.to_dict("records")
    elif isinstance(value, Mapping):
        n_keys = len(value)
        value = {str(k): v for k, v in value.items()}
        if len(value) < n_keys:
            raise InputError(
                f"{where}: an image id is there twice, as a number and as text; keep one"
            )
    if key == "references" and isinstance(value, list | tuple):
        is_row_per_image = any(isinstance(row, Mapping) and "references" in row for row in value)
        values = value if is_row_per_image else [{"annotations": value}]
    else:
        values = [value]
    try:
        content = "\n".join(json.dumps(value, default=_plain) for value in values).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}; image ids and texts are expected") from error
    return NamedFile(name or key, Path(where), content)


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is in it")


def _keep_of(composed: Composed) -> tuple[str, float] | None:
    return threshold_of(
        composed["keep.metric"], composed["keep.above"], resolve_metrics(composed["metrics"])
    )


def threshold_of(
    name: str | None, above: float | None, metrics: Sequence[Metric]
) -> tuple[str, float] | None:
    """Return the metric and the least score of captions to keep; None for None.

    Raises:
        InputError: where one is set without the other, or the metric is not among those that are computed.
    """
    if (name is None) != (above is None):
        raise InputError("keep.metric=METRIC and keep.above=SCORE go together")
    if name is None or above is None:
        return None

    spec = resolve_metrics(name)[0].spec
    specs = [metric.spec for metric in metrics]
    if spec not in specs:
        raise unknown("metric to keep by", spec, specs)
    return spec, above


def _counted_references_of(composed: Composed) -> Path:
    if composed["references"] is None:
        raise InputError("save_df= needs references=FILE, whose document frequencies it writes")
    files = files_of(composed["references"], "references")
    if len(files) != 1:
        raise InputError("save_df= counts one file of references; name one")
    return files[0].path


@dataclass(frozen=True, kw_only=True)
class DocumentFrequencyOptions(Options):
    """Options of `captau score` that count document frequencies, and score nothing."""

    references: Path = part(_counted_references_of)
    output: Path = option(
        None,
        "writes CIDEr's document frequencies to FILE; they are those of references=, for "
        "cider(df=FILE), and nothing is scored",
        key="save_df",
        takes="FILE",
    )
    tokenize: Tokenize = option(
        "ptb",
        "the tokeniser of save_df=: ptb, intl, zh, ja or char; it must be that of the metric that reads the file",
        takes="RULE",
    )
    flagged: str = part(lambda composed: composed["flagged"], default="drop")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(shared.ScoringOptions):
    """Options of `captau score` of files; `variants` are those of its other uses."""

    examples: ClassVar[str] = """
captau score mine.json refs.json
captau score mine.json theirs.json refs.json
cat mine.json | captau score - refs.json
captau score candidates=mine.json,base=their/results.json references=refs.json
captau score candidates=mine.json references=c5.json,c40.json
captau score candidates=mine.jsonl references=refs.jsonl metrics=bleu_4,cider,meteor
caption.py | captau score candidates=- references=refs.json stdout=scores.jsonl | head
captau score candidates=mine.json 'metrics=rater(path=DIR)' 'keep.metric="rater(path=DIR)"' keep.above=0.7
captau score references=captions_train2014.json save_df=coco_df.json
captau score candidates=one.json references=one_refs.json 'metrics=cider(df=coco_df.json)'
captau score 'candidates=shards/*.parquet' metrics=bleu_4,cider output_dir=scored
captau score candidates=shards engine=ray metrics=bleu_4,cider
captau score keep.run=scored keep.metric=cider keep.above=0.4
captau score keep.run=scored keep.metric=cider keep.share=0.5
captau score keep.run=scored keep.metric=rouge_l keep.thresholds=curves keep.precision=0.7
"""
    notes: ClassVar[str] = """
Large sets (docs/large_sets.md): candidates=PATH|A,B are then shards of one set: Parquet, JSON lines and CSV (also .gz,
.zst), WebDataset's tar, here or behind a URL (s3://…). Rows bring their references, or references=PATH|A,B has them by
image_id, in shards or a file as below. A folder, a glob, a URL or a tar file is a large set, and so is whatever goes
with engine=.
"""
    writes: ClassVar[str] = """
Writes corpus.json (a metric's score of the whole set; null where it is undefined, for the reason that run.json has),
corpus.csv (the same with intervals and agreement), scores.csv (one row a caption), table.md, table.tex and run.json; of
several systems differences.csv as well. Of a large set it writes scores/ (Parquet), corpus.json, percentiles.csv,
histograms.csv, distributions.json, manifest.json, table.md, table.tex and run.json; started again with the same options,
it continues where it was stopped. With keep.run= it writes the kept rows of each shard, as they were and in the shard's
own format, into kept/, and shards.csv (how many of each shard), percentiles.csv (scores of kept and dropped captions),
examples.csv, table.md, table.tex and run.json.
"""
    objective: ClassVar[str] = (
        "the corpus score of the first system by the first metric, of a large set too"
    )
    positional: ClassVar[tuple[str, ...]] = ("candidates", "references")
    python_positional: ClassVar[tuple[str, ...]] = ("candidates", "references", "metrics")
    variants: ClassVar[tuple[type[Options], ...]] = (
        DocumentFrequencyOptions,
        large.LargeOptions,
        large.FilterOptions,
    )

    candidates: tuple[NamedFile, ...] = option(
        None,
        'your captions; COCO results ([{"image_id", "caption"}]), an object image id -> caption, '
        "JSON lines, or CSV or Parquet with columns image_id and caption. Several files are compared, and "
        "so are the names in a column system; NAME=FILE names one. - is standard input; .gz, .bz2, .xz, "
        ".zst and .lz4 are unpacked",
        read=files_of,
        takes="FILE|A,B",
        is_literal=True,
        has_several=True,
        python=replace(CANDIDATES_FROM_PYTHON, is_needed=True),
    )
    references: tuple[NamedFile, ...] = option(
        None,
        "reference captions; COCO annotations, an object image id -> list of captions, JSON lines, CSV "
        "or Parquet with image_id and references, or CSV with image_id and caption, a row for each "
        "reference. Captions are scored against each of several files",
        read=lambda value, key: files_of(value, key) if value else (),
        takes="FILE|A,B",
        is_literal=True,
        has_several=True,
        python=REFERENCES_FROM_PYTHON,
    )
    columns: Columns = large.columns_part()
    images: Path | None = option(
        None, "the folder of images, for metrics that look at them", takes="DIR"
    )
    partial: bool = option(
        False,
        "true scores the images that all systems have captioned; without it, a missing caption is "
        "an error. With several sets of references, each may have its own images",
    )
    flagged: str = option(
        "drop",
        "drop leaves out references that their own file flags as void, such as VizWiz's is_rejected and is_precanned, and "
        "counts them; keep scores with them",
        takes="drop|keep",
        check=shared.one_of(FLAGGED, "value of flagged"),
    )
    split: str | None = option(
        None,
        "of references that name splits, such as Karpathy's files, those of this one; the default is all",
        takes="NAME",
    )
    normalise: str = option(
        "none",
        "the text rule for captions and references before they are scored: none, thumb (docs/protocols.md)",
        key="protocol.normalise",
        check=shared.one_of(NORMALISATIONS, "value of protocol.normalise"),
    )
    metrics: tuple[Metric, ...] = shared.metrics_part(shared.METRICS)
    trust: str | None = part(lambda composed: composed["trust"], large.TRUST, default=None)
    stdout: str = option(
        "table",
        "prints one file and nothing else; scores.jsonl, scores.csv, corpus.json, corpus.csv or "
        "kept.json. A folder is then written only where output_dir= is set",
        takes="NAME",
        check=shared.one_of(PRINTED, "value of stdout"),
        is_of_terminal=True,
    )
    printed_notes: str = option(
        "brief",
        "brief says what a reader of the table needs, full explains all that it shows, as table.md does; short prints the metrics' signatures in one line, as papers quote them, and what looks like "
        "a fault of the files; the rest is in run.json",
        key="notes",
        check=shared.one_of(NOTES, "value of notes"),
        takes="KIND",
    )
    keep: tuple[str, float] | None = part(
        _keep_of,
        Option(
            "keep.metric",
            None,
            "writes kept.json: the captions that this metric gives keep.above or more (captau "
            "thresholds shows what a threshold keeps)",
            str | None,
            takes="METRIC",
        ),
        Option("keep.above", None, "the lowest score that is kept", float | None),
        default=None,
    )
    statistics: StatisticsOptions = shared.statistics_part(
        "interval",
        "replicates",
        "level",
        "seed",
        "correction",
        interval="expanded, percentile or bca, by resampling images; with none, systems are not compared",
    )

    #: How the line below the tables says that there is more to print.
    way_to_details: ClassVar[str] = "notes=full"

    @property
    def details(self) -> bool:
        """Tell whether all notes are printed."""
        return self.printed_notes != "brief"

    def __post_init__(self) -> None:
        super().__post_init__()
        shared.check_not_fisher(self.statistics)
        if self.keep is not None and len(self.candidates) * len(self.references or "-") > 1:
            raise InputError("keep.metric= needs one system and one set of references")
        if self.stdout == "kept.json" and self.keep is None:
            raise InputError("stdout=kept.json needs keep.metric=METRIC and keep.above=SCORE")
        paths = [file.path for file in (*self.candidates, *self.references)]
        if paths.count(STDIN) > 1:
            raise InputError("standard input can be read only once; name a file for the others")

    @classmethod
    def has_run_folder(cls, composed: Composed) -> bool:
        """Tell whether the command writes a run into a folder; what goes to a pipe or an object store does not."""
        output_dir = composed.get("output_dir")
        if output_dir is not None:
            return not is_url(str(output_dir))
        return composed.get("stdout") == "table" and composed.get("save_df") is None

    @classmethod
    def read(cls, composed: Composed) -> Any:
        """Make the options of a composed configuration, of the variant that it asks for.

        Raises:
            InputError: where a value makes no sense, or options do not go together.
        """
        if composed["keep.run"] is not None:
            keys = ["output_dir", "engine", "workers", "ray.address"]
            for declared in cls.declared():
                if declared.key.startswith("keep."):
                    keys.append(declared.key)
            cls.allow_only(composed, keys, beside="keep.run")
            return large.FilterOptions.read(composed)
        filter_keys = [declared.key for declared in large.FilterOptions.declared()]
        for key in cls.changed_keys(composed, filter_keys):
            raise InputError(f"{key}= needs keep.run=DIR, a finished captau score of shards")
        if composed["save_df"] is not None:
            cls.allow_only(
                composed, ["references", "save_df", "tokenize", "flagged"], beside="save_df"
            )
            return DocumentFrequencyOptions.read(composed)
        if cls.changed_keys(composed, ["tokenize"]):
            raise InputError(
                "tokenize= goes with save_df=; of a metric write 'metrics=cider(tokenize=zh)'"
            )
        if not composed["candidates"]:
            raise InputError("the option candidates=… is needed: the captions to score; see --help")
        if not large.is_large(composed):
            for key in cls.changed_keys(composed, large.LARGE_ONLY):
                raise InputError(f"{key}= works on large sets only; add engine=local")
            return super().read(composed)
        for key in cls.changed_keys(composed, large.SMALL_ONLY):
            raise InputError(
                f"{key}= does not work on large sets; leave it out, or leave out engine= if the files are small"
            )
        if composed["keep.metric"] is not None:
            raise InputError(
                "keep.metric= does not go with shards; score them first, then captau score keep.run=DIR "
                "keep.metric=METRIC keep.above=SCORE"
            )
        return large.LargeOptions.read(composed)
