"""`captau validate FILE`: list the faults of a submission, offline.

A submission is a system's captions (COCO results, Chen et al. 2015, section 5: JSON, in a zip or not; JSON
lines) or a metric's scores; `scoring.submission_archive` unpacks a zip. `cli.tasks` calls `validate`, and the
challenge server the checks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    read_references,
    read_systems,
)
from ...datasets.reading.caption_ids import match_image_ids
from ...datasets.reading.cells import parse_number
from ...datasets.reading.file_kinds import find_kind
from ...datasets.reading.source_files import refuse_device
from ...datasets.reading.table import USUAL_COLUMNS, Columns, Table, read_table
from ...datasets.reading.table_folders import holds_table
from ...datasets.registry import load
from ..options.validate import ValidateOptions
from ..runs.tables import count_of
from ..scoring.submission_archive import MOST_BYTES, Faults, is_zip, quote, results_in

if TYPE_CHECKING:
    import pandas as pd

#: The most rows of a Parquet file, whose rows may be packed into a few bytes.
MOST_ROWS = 5_000_000
#: So many faults say that a file holds no captions; reading on would only take time.
_MOST_FAULTS = 100_000


@dataclass(frozen=True)
class Verdict:
    """The verdict on a submission.

    Attributes:
        faults: a line for each, as many as the limit allows; empty where the file is valid.
        n_faults: the count of all faults.
        remarks: lines on what only looks like a fault, such as Markdown, as many as the limit allows.
        summary: the closing line.
    """

    faults: list[str]
    n_faults: int
    summary: str
    remarks: list[str] = field(default_factory=list[str])

    @classmethod
    def of_faults(
        cls, path: Path, faults: Faults, content: str, remarks: Faults | None = None
    ) -> Verdict:
        """Return the verdict on a file in which these faults were found, and so much content."""
        remarked = [] if remarks is None else remarks.lines
        if remarks is not None and remarks.count:
            content += f"; {count_of(remarks.count, 'place')} may be wrong, and none is changed"
        if not faults.count:
            return cls([], 0, f"{path}: valid: {content}", remarked)
        rest = f", the first {faults.limit:,} listed" if faults.count > faults.limit else ""
        summary = f"{path}: not valid: {count_of(faults.count, 'fault')}{rest}; {content}"
        return cls(faults.lines, faults.count, summary, remarked)


def validate(options: ValidateOptions) -> Verdict:
    """Check a submission.

    Raises:
        InputError: where there is no such file, the references or the dataset to check it against
            cannot be read, or the options do not fit it. Faults of the submission itself are in the
            verdict.
    """
    path = options.file
    try:
        # A name that is too long for a file is an error here, and not a missing file.
        is_folder = path.is_dir()
        is_there = is_folder or path.is_file()
        size = path.stat().st_size if is_there and not is_folder else 0
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if not is_there:
        refuse_device(path)
        raise InputError(f"{path}: no such file")
    if is_folder and not holds_table(path):
        raise InputError(f"{path}: it is a folder without a table; name a file")

    faults = Faults(options.limit)
    remarks = Faults(options.limit)
    # A file of any size may be sent to a challenge's site.
    if size > MOST_BYTES:
        faults.add(f"{path}: {size:,} bytes; {MOST_BYTES:,} at most are read")
        content = "nothing read"
    elif _holds_scores(options):
        content = _check_score_file(options, faults)
    else:
        content = _check_caption_file(options, faults, remarks)

    return Verdict.of_faults(path, faults, content, remarks)


def _holds_scores(options: ValidateOptions) -> bool:
    """Tell whether a file holds a metric's scores, by the options or, of a table, by its columns."""
    # What the user says goes before what the file looks like.
    if options.named_kind is not None:
        return options.named_kind == "scores"
    if not _is_table(options.file):
        return False

    try:
        return "score" in read_table(options.file)
    except InputError:
        # What is wrong with it is said where its captions are read.
        return False


def _is_table(path: Path) -> bool:
    """Tell whether a file is a table, and no JSON; one that cannot be told is none."""
    try:
        return find_kind(path) != "json"
    except InputError:
        return False


def _check_caption_file(options: ValidateOptions, faults: Faults, remarks: Faults) -> str:
    """Check captions, and return words on how many there are."""
    references = None
    if options.references is not None:
        references = read_references(options.references, columns=options.columns)
        for finding in references.find_faults(with_folder=True):
            remarks.add_places(finding.lines)
    # XLSX is a zip archive too, and a table.
    if _is_table(options.file) or not is_zip(options.file, _read_head(options.file)):
        if options.member is not None:
            raise InputError(
                f"member={options.member} names a file in a zip archive, which {options.file} is not"
            )
        return _check_systems(options, references, faults, remarks)

    return _check_archive(options, references, faults, remarks)


def _read_head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(4)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _check_systems(
    options: ValidateOptions, references: ReferenceFile | None, faults: Faults, remarks: Faults
) -> str:
    """Check the captions of a file as `captau score` reads it, of one system or several, and return words on them."""
    try:
        _check_rows_of_parquet(options.file)
    except InputError as error:
        faults.add(str(error))
        return "no captions"
    systems = _read_systems(options.file, None, options.columns, faults)
    notes = [*references.notes] if references is not None else []
    n_captions = 0
    for file in systems.values():
        # Systems of one file share its notes.
        notes += [note for note in file.notes if note not in notes]
        candidates = file
        if references is not None:
            candidates, id_notes = _match_ids(file, references, faults)
            notes += id_notes
        _check_captions(candidates, _needed_images(references), faults, remarks, references)
        n_captions += len(candidates.captions)

    words = count_of(n_captions, "caption") if n_captions else "no captions"
    if len(systems) > 1:
        words += f" of {len(systems):,} systems"
    if _is_table(options.file):
        notes.append("a challenge takes captions as JSON, JSON lines or a zip, and not as a table")
    return "; ".join([words, *map(_as_clause, notes)])


def _needed_images(references: ReferenceFile | None) -> list[str] | None:
    """Return the images that need a caption; None where any may have one."""
    if references is None:
        return None

    return [i for i in references.texts if i not in references.void_images]


def _as_clause(note: str) -> str:
    """Return a sentence as a part of another."""
    # A name in capitals, such as COCO, keeps them.
    second_letter = note[1:2]
    begins_with_word = second_letter.islower() or second_letter == " "
    first_letter = note[:1].lower() if begins_with_word else note[:1]
    return first_letter + note[1:].removesuffix(".")


def _check_archive(
    options: ValidateOptions, references: ReferenceFile | None, faults: Faults, remarks: Faults
) -> str:
    """Check the captions in a zip archive of results, and return words on how many there are."""
    try:
        data = options.file.read_bytes()
    except OSError as error:
        raise InputError(f"{options.file}: cannot be read ({error.strerror})") from error

    texts = results_in(options.file, data, faults)
    if options.member is not None:
        texts = {name: text for name, text in texts.items() if name == options.member}
        if not texts and not faults.count:
            raise InputError(f"{options.file}: member={options.member} is not in it")

    # Of an archive of several sets, the references are those of one; the captions of the others are checked without.
    covering = None
    if references is not None and len(texts) > 1:
        covering = _find_covering_member(options.file, texts, list(references.texts))
    counts: list[int] = []
    notes: list[str] = []
    for name, content in texts.items():
        is_of_other_set = covering is not None and name != covering
        expected = None if is_of_other_set else references
        candidates = _read_captions(content, options.file, name, faults)
        if candidates is None:
            # Its faults are reported already; the verdict counts it all the same.
            counts.append(0)
            continue
        if expected is not None:
            candidates, id_notes = _match_ids(candidates, expected, faults)
            notes += map(_as_clause, id_notes)
        _check_captions(candidates, _needed_images(expected), faults, remarks, expected)
        counts.append(len(candidates.captions))

    words = [count_of(n, "caption") if n else "no captions" for n in counts]
    words_on_counts = " and ".join(words) or "no captions"
    verdict = "; ".join([words_on_counts, *notes])
    return f"{verdict}; {covering} is of the references' images" if covering else verdict


def _match_ids(
    candidates: CandidateFile, references: ReferenceFile, faults: Faults
) -> tuple[CandidateFile, list[str]]:
    """Return captions with the image ids of the references, by the rules of `captau score`, and words on the rule."""
    try:
        # Systems and sets have names; the one system and the one set of a submission need none.
        matched, notes = match_image_ids({"": candidates}, {"": references})
    except InputError as error:
        faults.add(str(error))
        return candidates, []

    return matched[""], notes


def _find_covering_member(
    path: Path, texts: Mapping[str, bytes], image_ids: Collection[str]
) -> str:
    """Return the name of the results with the most of the images that references are of.

    Raises:
        InputError: where none has any, or several have as many.
    """
    expected = set(image_ids)
    counts: dict[str, int] = {}
    for name, content in texts.items():
        candidates = _read_captions(content, path, name, Faults(0))
        captions = {} if candidates is None else candidates.captions
        counts[name] = len(expected & captions.keys())
    highest_count = max(counts.values())
    names_by_count: dict[int, list[str]] = {}
    for name, count in counts.items():
        names_by_count.setdefault(count, []).append(name)
    covering = names_by_count[highest_count]
    if not highest_count or len(covering) > 1:
        raise InputError(
            f"{path}: it holds results on {len(texts)} sets, and the references have {highest_count:,} images of each; name the "
            f"set that they belong to: member=NAME"
        )
    return covering[0]


def check_captions(
    data: bytes,
    path: Path,
    member: str,
    image_ids: Collection[str] | None,
    faults: Faults,
    remarks: Faults | None = None,
) -> int:
    """Check one file of captions that is sent to a challenge, of any shape that `captau score` reads.

    A file that has captions twice, such as `prediction` beside `caption`, is at fault: its sender meant one of them.

    Args:
        data: the content of the file.
        path: its name for messages, or that of the archive that it is in.
        member: its name in the archive; empty where there is no archive.
        image_ids: the images that must have a caption, and no others may; None where any may.
        faults: takes the faults.
        remarks: takes what only looks like one.

    Returns:
        The number of images that have a caption.
    """
    candidates = _read_captions(data, path, member, faults)
    if candidates is None:
        return 0

    if candidates.unread_columns:
        name = f"{path}: {member}" if member else str(path)
        columns = (candidates.caption_column, *candidates.unread_columns)
        quoted_names = " and ".join(map(quote, columns))
        faults.add(
            f"{name}: its rows have {quoted_names}, and one caption an image is scored; keep one of them"
        )
    _check_captions(candidates, image_ids, faults, remarks)
    return len(candidates.captions)


def _check_captions(
    candidates: CandidateFile,
    image_ids: Collection[str] | None,
    faults: Faults,
    remarks: Faults | None,
    references: ReferenceFile | None = None,
) -> None:
    """Check the captions of one system; see `check_captions`.

    Args:
        references: those whose void images may have a caption, and need none.
    """
    expected = None if image_ids is None else set(image_ids)
    if expected is not None and references is not None:
        # A caption of a void image is neither demanded nor a fault.
        expected |= references.void_images
    for image_id in candidates.captions:
        if expected is not None and image_id not in expected:
            where = f"{candidates.source.name}:{candidates.lines[image_id]}"
            faults.add(f"{where}: unknown image {quote(image_id)}")
    for finding in candidates.find_faults(with_folder=True):
        if finding.is_fatal:
            faults.add_all(finding.lines)
        elif remarks is not None:
            remarks.add_places(finding.lines)
    for image_id in image_ids or ():
        if image_id not in candidates.captions:
            faults.add(f"{candidates.source.name}: no caption of image {quote(image_id)}")


class _NoCaptionFileError(Exception):
    """A file has so many faults that reading on is no use."""


def _read_captions(data: bytes, path: Path, member: str, faults: Faults) -> CandidateFile | None:
    """Return the captions of one system; None where the file has none, or those of several systems."""
    name = f"{path}: {member}" if member else str(path)
    systems = _read_systems(Path(name), data, USUAL_COLUMNS, faults)
    if len(systems) > 1:
        faults.add(f"{name}: captions of {len(systems)} systems, where one is expected")
    return next(iter(systems.values())) if len(systems) == 1 else None


def _read_systems(
    path: Path, data: bytes | None, columns: Columns, faults: Faults
) -> dict[str, CandidateFile]:
    """Return the captions of each system; none where the file has none. Its faults go to `faults`."""
    n_before = faults.count

    def report(error: InputError) -> None:
        faults.add(str(error))
        # A million lines of something else would be a million faults.
        if faults.count - n_before >= _MOST_FAULTS:
            raise _NoCaptionFileError

    try:
        return read_systems(path, data, columns, report=report)
    except InputError as error:
        faults.add(str(error))
    except _NoCaptionFileError:
        faults.add(f"{path}: more than {_MOST_FAULTS:,} faults; not a file of captions")
    return {}


def _check_score_file(options: ValidateOptions, faults: Faults) -> str:
    """Check a metric's scores, and return words on how many there are."""
    items = None if options.dataset is None else load(options.dataset, options.data_root).items
    _, n_scores = check_scores(options.file, items, faults)
    return count_of(n_scores, "score") if n_scores else "no scores"


def check_scores(path: Path, items: pd.DataFrame | None, faults: Faults) -> tuple[list[str], int]:
    """Check a file of scores.

    Args:
        path: the file; its ending says its format.
        items: those that must have a score, and no others may; None where any may.
        faults: takes the faults.

    Returns:
        The metrics that the file names, and the number of its scores.
    """
    try:
        table = _read_table(path)
    except InputError as error:
        faults.add(str(error))
        return [], 0
    # Public files name the image and the caption, where captau's have an id.
    keys = ["item_id"] if "item_id" in table else ["image_id", "caption"]
    if absent := [name for name in (*keys, "score") if name not in table]:
        faults.add(
            f"{path}: no column {absent[0]}; a score file has score and either item_id or image_id and "
            f"caption"
        )
        return [], 0

    expected: dict[tuple[str, ...], None] | None = None
    if items is not None:
        rows = items[keys].astype(str).itertuples(index=False, name=None)
        expected = dict.fromkeys(rows)
    metrics: list[str] = []
    if "metric" in table:
        metrics = list(dict.fromkeys(map(str, table.column("metric"))))
    return metrics, _check_rows(table, keys, expected, faults)


def _read_table(path: Path) -> Table:
    """Read the rows of a file.

    Raises:
        InputError: where it cannot be read, or has too many.
    """
    _check_rows_of_parquet(path)
    return read_table(path)


def _check_rows_of_parquet(path: Path) -> None:
    """Check that a Parquet file has no more rows than are read; other files pass.

    Raises:
        InputError: where it has, or cannot be read.
    """
    if path.suffix.lower() != ".parquet":
        return

    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.ParquetFile(path).metadata.num_rows
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not valid Parquet ({error})") from error
    if rows > MOST_ROWS:
        raise InputError(f"{path}: {rows:,} rows; {MOST_ROWS:,} at most are read")


def _check_rows(
    table: Table, keys: list[str], expected: Collection[tuple[str, ...]] | None, faults: Faults
) -> int:
    """Check that the item of each row may have a score, that it is a finite number; return how many there are."""
    metrics = map(str, table.column("metric")) if "metric" in table else [""] * len(table)
    key_columns = [map(str, table.column(name)) for name in keys]
    row_keys = zip(*key_columns, strict=True)
    first_locations: dict[tuple[str, tuple[str, ...]], str] = {}
    scores = table.column("score")
    for location, metric, key, score in zip(table.places, metrics, row_keys, scores, strict=True):
        item = _describe_item(key, metric)
        if first := first_locations.get((metric, key)):
            faults.add(f"{location}: a second score of {item}, whose first is at {first}")
        elif expected is not None and key not in expected:
            faults.add(f"{location}: unknown item {item}")
        # The first stays, so that a third one is told where the first is.
        first_locations.setdefault((metric, key), location)
        if not math.isfinite(parse_number(score)):
            faults.add(f"{location}: the score of {item} is {quote(score)}, not a finite number")

    if not first_locations:
        faults.add(f"{table.path}: no scores in it")
    scored_metrics = dict.fromkeys(metric for metric, _ in first_locations)
    for metric in scored_metrics:
        for key in expected or ():
            if (metric, key) not in first_locations:
                faults.add(f"{table.path}: no score of {_describe_item(key, metric)}")
    return len(first_locations)


def _describe_item(key: tuple[str, ...], metric: str) -> str:
    """Quote the columns that identify an item, and the metric, if any."""
    words = " ".join(map(quote, key))
    return f"{words} of metric {quote(metric)}" if metric else words
