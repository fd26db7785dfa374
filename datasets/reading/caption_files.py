"""A user's captions and references, in each of the forms that they may have, among them the outputs of lmms-eval and VLMEvalKit."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..caption_texts import replace_surrogates
from ..errors import InputError, shorten
from .caption_checks import check_captions, check_references
from .caption_names import NameFinder, is_name, may_name_system
from .caption_rows import CaptionRow, read_caption_rows
from .cells import (
    SEPARATOR,
    fill_empty,
    is_printed_list,
    parse_references,
    split_joined,
    text_of,
)
from .flags import describe_void, find_flags
from .json_files import Report, field
from .json_source import JsonSource
from .suspected_faults import PlacedText, SuspectedFault, summarise
from .table import USUAL_COLUMNS, Columns

#: An image's name, and the number of one of its references.
_NUMBERED_NAME = re.compile(r".+\.\w{2,5}#\d+")


@dataclass(frozen=True)
class CandidateFile:
    """One caption an image, and the line of each, for messages.

    Attributes:
        source: the file.
        captions, lines: by image.
        notes: sentences on how it was read.
        left_out: that of them on a part that is not read, such as another sheet of Excel; empty where there is none.
        caption_column: what the file calls captions.
        unread_columns: columns that look like captions too, and are not read.
    """

    source: JsonSource
    captions: dict[str, str]
    lines: dict[str, int]
    notes: tuple[str, ...] = ()
    left_out: str = ""
    caption_column: str = "caption"
    unread_columns: tuple[str, ...] = ()

    def locate(self, image_id: str) -> str:
        """Return the place of an image's caption, for messages."""
        return f"{self.source.name}:{self.lines[image_id]}: image '{image_id}'"

    def find_faults(self, *, with_folder: bool = False) -> list[SuspectedFault]:
        """Return what looks like a fault of the file, whose places name it with its folder or without."""
        name = self.source.name if with_folder else Path(self.source.name).name
        texts: list[PlacedText] = []
        for image_id, caption in self.captions.items():
            texts.append(PlacedText(f"{name}:{self.lines[image_id]}", image_id, caption))
        return check_captions(texts)


@dataclass(frozen=True)
class ReferenceFile:
    """The references of each image.

    Attributes:
        source: the file.
        texts: by image; none of an image whose references are all flagged as void.
        lines: the line of the first of each, for messages.
        other_names: what else the file calls its images, such as `file_name`: by that key, each name's image.
        void_images: those whose references are all flagged as void.
        notes: sentences on how it was read, and on what was left out.
    """

    source: JsonSource
    texts: dict[str, tuple[str, ...]]
    lines: dict[str, int] = dataclasses.field(default_factory=dict[str, int])
    other_names: dict[str, dict[str, str]] = dataclasses.field(
        default_factory=dict[str, dict[str, str]]
    )
    void_images: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def find_faults(self, *, with_folder: bool = False) -> list[SuspectedFault]:
        """Return what looks like a fault of the file, whose places name it with its folder or without."""
        name = self.source.name if with_folder else Path(self.source.name).name
        placed: list[PlacedText] = []
        for image_id, texts in self.texts.items():
            location = f"{name}:{self.lines[image_id]}" if image_id in self.lines else name
            placed += [PlacedText(location, image_id, text) for text in texts]
        return check_references(placed)


def read_candidates(
    path: Path, content: bytes | None = None, columns: Columns = USUAL_COLUMNS
) -> CandidateFile:
    """Read one system's captions; see `read_systems`.

    Raises:
        InputError: where `read_systems` does, or there are several systems.
    """
    candidates, *other_systems = read_systems(path, content, columns).values()
    if other_systems:
        raise InputError(
            f"{path}: captions of {1 + len(other_systems)} systems, where one is expected"
        )
    return candidates


def read_systems(
    path: Path,
    content: bytes | None = None,
    columns: Columns = USUAL_COLUMNS,
    report: Report | None = None,
) -> dict[str, CandidateFile]:
    """Read COCO results, an object image id → caption, or JSON lines or a table with `image_id` and `caption`.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: the names of the columns, or the keys of objects.
        report: takes each fault after which reading goes on; by default the first is raised.

    Returns:
        The captions by system, of the column `system` of a table or that key of JSON's rows; without it, the one key
        is empty. There is none where all that the file has is a fault that was reported.

    Raises:
        InputError: where it is none of them, some rows name a system and others do not, or a system has two captions
            of one image.
    """
    source = JsonSource(path, content)
    finder = NameFinder(columns, "caption")
    systems: dict[str, CandidateFile] = {}
    n_faults = 0

    def count_fault(error: InputError) -> None:
        nonlocal n_faults
        n_faults += 1
        if report is None:
            raise error
        report(error)

    first_list: str | None = None
    for row in read_caption_rows(
        source, "caption", finder, None if report is None else count_fault
    ):
        if first_list is None:
            first_list = row.key
        try:
            _add_caption(systems, source, row, is_of_other_list=row.key != first_list)
        except InputError as error:
            count_fault(error)

    if not systems and not n_faults:
        raise InputError(f"{source.name}: it contains no captions")
    _check_systems(systems)
    notes = _describe_names(source, finder)
    read: dict[str, CandidateFile] = {}
    for name, file in systems.items():
        read[name] = dataclasses.replace(
            file,
            notes=notes,
            left_out=" ".join(finder.remarks),
            caption_column=finder.used.get("caption", finder.columns.caption),
            unread_columns=tuple(finder.unread),
        )
    return read


def _add_caption(
    systems: dict[str, CandidateFile],
    source: JsonSource,
    row: CaptionRow,
    *,
    is_of_other_list: bool,
) -> None:
    """Add a row's caption to those of its system.

    Args:
        systems: the captions so far, by system.
        source: the file.
        row: its next row.
        is_of_other_list: whether the row stands in another list of the file than its first row.

    Raises:
        InputError: where it is malformed, or its image has a caption of the system already.
    """
    image_id = image_key(row.cells, row.where)
    caption = field(row.cells, "caption", str, row.where)
    system = _find_system(row.cells, row.where)
    candidates = systems.setdefault(system, CandidateFile(source, {}, {}))
    if image_id in candidates.captions:
        # Parquet and Arrow have no lines.
        unit = "row" if ": row " in row.where else "line"
        remedy = f"keep one per image{_swapped(row)}"
        # In pycocoevalcap's dictionaries each list is that of an image, and none can be read alone.
        if is_of_other_list and row.key != image_id:
            # The references, too, are read by `columns.rows`.
            remedy = (
                f"the file's lists are read as one, and columns.candidate_rows={row.key} reads that "
                "list alone"
            )
        raise InputError(
            f"{row.where}: a second caption for image '{image_id}', whose first is on {unit} "
            f"{candidates.lines[image_id]}; {remedy}{_uncalled_system(row)}"
        )
    candidates.captions[image_id] = replace_surrogates(caption)
    candidates.lines[image_id] = row.line


def _check_systems(systems: Mapping[str, CandidateFile]) -> None:
    """Check that all captions name their system, or none does.

    Raises:
        InputError: where some do.
    """
    if "" in systems and len(systems) > 1:
        nameless = systems[""]
        raise InputError(
            f"{nameless.locate(next(iter(nameless.captions)))} names no system, and others do; name it in 'system', "
            f"or leave 'system' out of all"
        )


def _swapped(row: CaptionRow) -> str:
    if row.key != "annotations":
        return ""

    return "; COCO annotations are references: candidates= and references= may be swapped"


def _uncalled_system(row: CaptionRow) -> str:
    """Say what to do about a column that may name the system, but is called otherwise."""
    if "system" in row.cells:
        return ""
    for name in row.row:
        if may_name_system(name):
            return f", or, if '{name}' names systems, call it 'system'"
    return ""


def _describe_names(source: JsonSource, finder: NameFinder) -> tuple[str, ...]:
    """Return the notes on the columns of a file that had other names than the usual ones, and on those not read."""
    return tuple(finder.describe(Path(source.name).name))


def _find_system(row: Mapping[str, Any], where: str) -> str:
    """Return the system that a row names; an empty text where it names none.

    Raises:
        InputError: where the name is no text, or blank.
    """
    if row.get("system") is None:
        return ""
    system = replace_surrogates(str(field(row, "system", (str, int), where)))
    if not system.strip():
        raise InputError(f"{where}: system is empty")
    return system


def join_systems(
    files: Iterable[tuple[str, Mapping[str, CandidateFile]]],
) -> dict[str, CandidateFile]:
    """Return the systems of several files by name: that of the column `system`, or of the file where it has none.

    Args:
        files: the name of each file, and its systems as `read_systems` returns them.

    Raises:
        InputError: where two systems have one name.
    """
    systems: dict[str, CandidateFile] = {}
    for file_name, by_column in files:
        for column_name, candidates in by_column.items():
            system = column_name or file_name
            if system in systems:
                raise InputError(
                    f"{candidates.source.path}: a second system is called '{system}'; rename one"
                )
            systems[system] = candidates

    return systems


def read_references(
    path: Path,
    content: bytes | None = None,
    columns: Columns = USUAL_COLUMNS,
    *,
    keep_flagged: bool = False,
    split: str | None = None,
) -> ReferenceFile:
    """Read COCO caption annotations, an object image id → captions, or objects or a table with `references`.

    A table, or a list of objects, may have `caption` instead, with a row for each reference. An image may come several
    times if its references are the same, as in the items of a `CaptionSet`. References that the file itself flags as
    void (`reading.flags`) are left out.

    Args:
        path: the file.
        content: what to read instead, no table; the path is then its name.
        columns: as of `read_systems`.
        keep_flagged: whether to read what the file flags as void.
        split: of a file that names splits, the one to read; None for all.

    Raises:
        InputError: where it is none of them, an image comes with two lists of references, or no image is of the split.
    """
    source = JsonSource(path, content)
    finder = NameFinder(columns, "references")
    collector = _ReferenceCollector()
    for row in read_caption_rows(source, "references", finder, None, collector.describe_image):
        flags = () if keep_flagged else find_flags(row.row)
        collector.add(row, flags)

    return collector.finish(source, split, _describe_names(source, finder))


class _ReferenceCollector:
    """Takes the rows of a file of references one by one."""

    def __init__(self) -> None:
        self._listed: dict[str, tuple[str, ...]] = {}
        self._single: dict[str, list[str]] = {}
        self._lines: dict[str, int] = {}
        self._splits: dict[str, str] = {}
        self._descriptions: list[dict[str, Any]] = []
        self._flags: Counter[str] = Counter()
        self._n_void = 0

    def describe_image(self, row: dict[str, Any]) -> None:
        """Take what a file says of an image beside its references."""
        self._descriptions.append(row)

    def add(self, row: CaptionRow, flags: tuple[str, ...]) -> None:
        """Take one reference, or all of an image.

        Raises:
            InputError: where it is malformed, or the image has other references already.
        """
        image_id = image_key(row.cells, row.where)
        self._lines.setdefault(image_id, row.line)
        split = row.row.get("split")
        if isinstance(split, str):
            self._splits[image_id] = split
        if flags:
            self._flags.update(flags)
            self._n_void += 1
            self._single.setdefault(image_id, [])
            return

        if "caption" in row.cells:
            value = fill_empty(text_of(row.cells["caption"]))
            if isinstance(value, str) and not is_printed_list(value.strip()):
                # ` ||| ` in some captions of JSON is a part of them, as for pycocoevalcap.
                texts = (replace_surrogates(value),)
            else:
                if not isinstance(value, list):
                    value = field({"caption": value}, "caption", str, row.where)
                texts = parse_references(value, row.where, "caption")
            self._single.setdefault(image_id, []).extend(texts)
            return

        value = row.cells["references"]
        if row.is_member and isinstance(value, str):
            # A text as an object's member would be the caption of a file of candidates.
            raise InputError(
                f"{row.where}: 'references' is {shorten(repr(value))}, not list; write one reference as a list of one, unless "
                "candidates= and references= are swapped"
            )
        if isinstance(value, list):
            value = [fill_empty(text_of(text)) for text in value]
        if not isinstance(value, tuple):
            value = field({"references": value}, "references", (list, str), row.where)
        texts = parse_references(value, row.where)
        if self._listed.setdefault(image_id, texts) != texts:
            raise InputError(
                f"{row.where}: image '{image_id}' has other references in an earlier row; keep one list"
            )

    def finish(
        self, source: JsonSource, split: str | None, notes: tuple[str, ...]
    ) -> ReferenceFile:
        """Return the references of all images.

        Raises:
            InputError: where there are none, or none of the split.
        """
        texts = dict(self._listed)
        single_captions = list(chain.from_iterable(self._single.values()))
        are_joined = all(SEPARATOR.strip() in caption for caption in single_captions)
        for image_id, captions in self._single.items():
            if are_joined:
                captions = split_joined(captions)
            texts[image_id] = tuple(captions)
        if not texts:
            raise InputError(f"{source.name}: it contains no references")

        if all(map(_NUMBERED_NAME.fullmatch, texts)) and not self._listed:
            texts = self._join_numbered(texts)

        # An empty list is no flag.
        void_images: set[str] = set()
        for image_id, captions in texts.items():
            if not captions and image_id not in self._listed:
                void_images.add(image_id)
        other_names = self._name_images(texts)
        if split is not None:
            texts = self._select_split(source, split, texts)
        return ReferenceFile(
            source=source,
            texts=texts,
            lines=self._lines,
            other_names=other_names,
            void_images=frozenset(void_images),
            notes=(*notes, *self._describe_flags(source, void_images)),
        )

    def _join_numbered(self, texts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the references of each image, whose name has a number for each of them, as in Flickr8k's tokens."""
        joined: dict[str, tuple[str, ...]] = {}
        for name, captions in texts.items():
            image_id = name.rpartition("#")[0]
            joined[image_id] = (*joined.get(image_id, ()), *captions)
            self._lines.setdefault(image_id, self._lines[name])
            if name in self._splits:
                self._splits.setdefault(image_id, self._splits[name])
        return joined

    def _name_images(self, texts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """Return what else the descriptions call images, by the key; a name of two images is left out."""
        named: dict[str, dict[str, str]] = {}
        ambiguous: set[tuple[str, str]] = set()
        for description in self._descriptions:
            names: dict[str, str] = {}
            for key, value in description.items():
                if is_name(key, value):
                    names[key] = str(value)
            # The first name that the references know tells which image is described.
            image_id = next((name for name in names.values() if name in texts), None)
            if image_id is None:
                continue
            if isinstance(description.get("split"), str):
                self._splits.setdefault(image_id, description["split"])
            for key, name in names.items():
                if named.setdefault(key, {}).setdefault(name, image_id) != image_id:
                    ambiguous.add((key, name))

        for key, name in ambiguous:
            del named[key][name]
        return named

    def _select_split(
        self, source: JsonSource, split: str, texts: Mapping[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, ...]]:
        selected: dict[str, tuple[str, ...]] = {}
        for image_id, captions in texts.items():
            if self._splits.get(image_id) == split:
                selected[image_id] = captions
        if not selected:
            splits = ", ".join(sorted(set(self._splits.values()))) or "none"
            raise InputError(f"{source.name}: no image is of split={split}; its splits: {splits}")
        return selected

    def _describe_flags(self, source: JsonSource, void_images: Collection[str]) -> list[str]:
        if not self._n_void:
            return []

        remark = ""
        if len(void_images) == 1:
            remark = ", and with them 1 image that has no other"
        elif void_images:
            remark = f", and with them {len(void_images):,} images that have no others"
        note = describe_void(
            self._n_void,
            self._flags,
            noun="reference",
            file_name=Path(source.name).name,
            remark=remark,
            option="flagged=keep",
        )
        return [note]


def describe_files(files: Iterable[CandidateFile | ReferenceFile]) -> list[str]:
    """Return the lines below a table on how files were read, and on what looks like a fault of them."""
    notes: list[str] = []
    findings: list[SuspectedFault] = []
    for file in files:
        notes += file.notes
        findings += file.find_faults()

    return [*dict.fromkeys(notes), *summarise(findings)]


def image_key(row: Any, where: str) -> str:
    """Return an image id as text; COCO's numbers and file names are both legal."""
    # COCO's are numbers, and there are millions of them.
    if type(row) is dict:
        image_id = row.get("image_id")
        if type(image_id) is int:
            return str(image_id)
        if type(image_id) is str:
            return replace_surrogates(image_id)
        # A column of numbers with a gap in it was one of floats for a time.
        if type(image_id) is float and image_id.is_integer():
            return str(int(image_id))
        # wandb's tables have an object for each image.
        if type(image_id) is dict and isinstance(image_id.get("path"), str):
            return replace_surrogates(image_id["path"])
    return replace_surrogates(str(field(row, "image_id", (str, int), where)))
