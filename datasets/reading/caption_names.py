"""The names that files give to images, captions and references, and how those of a file are found."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping
from typing import Any

from ..errors import shorten
from .cells import text_of
from .table import USUAL_COLUMNS, Columns

#: What files call images, captions of any side, and lists of references, the usual name first.
ALIASES: dict[str, tuple[str, ...]] = {
    "image_id": (
        "image_id",
        "image",
        "file_name",
        "filename",
        "image_name",
        "img",
        "img_id",
        "video_id",
        "video",
        "audio_id",
        "image_path",
        "img_path",
        "image_file",
        "image_filename",
        "img_name",
        "file_path",
        "video_name",
        "audio_name",
        "question_id",
        "image.path",
    ),
    # `comment` is Flickr30k's on Kaggle, `text` LLaVA's of its answers.
    "caption": ("caption", "comment", "sentence", "text"),
    "references": (
        "references",
        "refs",
        "reference_strs",
        "captions",
        "gts",
        "gt",
        "gt_captions",
        "gt_caption",
        "ground_truths",
        "ground_truth",
        "ground_truth_captions",
        "ground_truth_caption",
        "reference",
        "ref",
        "reference_captions",
        "reference_caption",
        "human_captions",
        "human_caption",
        "all_captions",
    ),
}
#: What files call systems; each may as well stand in all rows of one system.
_SYSTEM_NAMES = frozenset(
    ["model", "model_id", "model_name", "system_id", "system_name", "method", "captioner"]
)
#: What files call the captions of a system, which are no references.
SYSTEM_CAPTIONS = (
    "caption_predicted",
    "predicted_caption",
    "generated_caption",
    "prediction",
    "pred",
    "pred_caption",
    "caption_pred",
    "caption_generated",
    "model_caption",
    "generated_text",
    "generated",
    "hypothesis",
    "hyp",
    "candidate",
    "model_output",
    "response",
    "output",
    "res",
)
#: Those that may be something else beside `caption`, such as a judge's answer.
_AMBIGUOUS = ("candidate", "model_output", "response", "output", "res")
#: What files call references beside the captions of a system; alone, they may be anything.
_OPPOSITES = ("answer", "answers", "label", "labels", "target", "targets")
#: Names of one list in each row; under other names, a text is one reference of several rows.
_LISTS = ("references", "refs", "reference_strs", "captions", "gts")
#: Columns of which tables of judged pairs have all of one row.
_JUDGED = (
    ("caption_a", "caption_b"),
    ("chosen", "rejected"),
    ("preferred", "rejected"),
    ("win", "lose"),
    ("better", "worse"),
    ("winner",),
)
#: An object with more members is of images, and no row.
_MOST_NAMES = 64
#: So many rows tell which columns look like captions.
_MOST_LOOKED_AT = 100
_VLMEVALKIT = {"image_id": "index", "caption": "prediction", "references": "answer"}
#: Columns of one reference each: Clotho's `caption_1` to `caption_5`, and the like.
_NUMBERED = re.compile(r"((?:caption|reference|ref|comment|sentence)s?)([_ .]?)(\d+)")
#: What stands in the names of columns that may hold captions.
_IS_OF_CAPTIONS = re.compile(
    r"caption|sentence|comment|refs?(?:erence)?s?$|ground.?truth|^gts?$|pred|generated|hypothes",
    re.IGNORECASE,
)


class NameFinder:
    """Finds the columns of a file, and remembers which of them had another name than the usual one.

    Args:
        columns: the names that the user gave.
        content: what the file holds: `caption` for a system's captions, else `references`.

    Attributes:
        columns: those of the file.
        has_usual_columns: whether these are the usual ones.
        used: what was found under another name than the usual, which the user did not give.
        unread: columns that look like captions of the same kind, and are not read.
        remarks: sentences on what else is not read.
        judgements: columns of people's verdicts on pairs, which are not read.
    """

    def __init__(self, columns: Columns, content: str) -> None:
        is_of_candidates = content == "caption"
        self.columns = columns.of_candidates() if is_of_candidates else columns.of_references()
        self.has_usual_columns = self.columns == USUAL_COLUMNS
        self.used: dict[str, str] = {}
        self.unread: dict[str, None] = {}
        self.remarks: list[str] = []
        self.judgements: tuple[str, ...] = ()
        self._is_beside_caption = False
        self._aliases: dict[tuple[str, ...], str | None] = {}
        self._n_looked_at = 0
        self._is_of_candidates = is_of_candidates
        self._is_caption_given = is_of_candidates and bool(columns.candidate_caption)

    def find(self, usual: str, names: Collection[str]) -> str | None:
        """Return the column of images, captions or references, by its usual name; None where there is none.

        Args:
            usual: `image_id`, `caption` or `references`.
            names: of the columns; a mapping has a value of each.
        """
        named_column = getattr(self.columns, usual)
        if named_column != usual and named_column in names:
            return named_column
        # VLMEvalKit's names are those of columns of many files; together they are its own.
        if "image_id" not in names and _is_of_vlmevalkit(names):
            return _VLMEVALKIT[usual]

        if usual == "caption" and self._is_of_candidates and not self._is_caption_given:
            name = self._find_system_caption(names)
            if name is not None:
                return name
            if self._is_beside_caption:
                return None
        if usual in names:
            return usual

        alias = self._find_alias(usual, names)
        if alias is not None:
            self.used[usual] = alias
        return alias

    def _find_alias(self, usual: str, names: Collection[str]) -> str | None:
        """Return the column that has another name than the usual one; None where there is none.

        Rows of the same keys have the same answer, which is found once.

        Args:
            usual: as `find` takes it, or `prediction` for any name that only a system's captions have.
            names: of the columns.
        """
        if len(names) > _MOST_NAMES:
            return None

        key = (usual, *names)
        if key not in self._aliases:
            self._aliases[key] = self._look_for_alias(usual, names)
        return self._aliases[key]

    def _look_for_alias(self, usual: str, names: Collection[str]) -> str | None:
        """Return what `_find_alias` does, without looking at earlier answers."""
        if usual == "prediction":
            return find_name(SYSTEM_CAPTIONS, names)

        aliases = ALIASES[usual]
        if usual == "references" and self._find_alias("prediction", names) is not None:
            aliases = (*aliases, *_OPPOSITES)
        alias = find_name(aliases, names)
        # The first of `reference, reference_2, reference_3`.
        is_single = usual == "references" and alias is not None and alias not in _LISTS
        if is_single and self.find_numbered(names):
            return None
        return alias

    def _find_system_caption(self, names: Collection[str]) -> str | None:
        """Return the column of a system's captions, by a name that references do not have; None where there is none.

        Beside such a column, `caption` is mostly the reference. A number there is a score or a class.
        """
        # What was found in one row counts for all.
        used = self.used.get("caption")
        if used is not None and used in names:
            return used
        name = self._find_alias("prediction", names)
        if name is None or (isinstance(names, Mapping) and not _may_be_caption(names[name])):
            return None
        if name in _AMBIGUOUS and "caption" in names:
            return None

        self.used["caption"] = name
        # A row that lacks it has no caption: 'caption' is the other side's.
        self._is_beside_caption = "caption" in names
        if self._is_beside_caption:
            self.unread["caption"] = None
        return name

    def find_numbered(self, names: Collection[str]) -> list[str]:
        """Return the columns of one reference each: those of the pattern that the user gave, else `caption_1` and the like."""
        pattern = self.columns.references
        if "*" in pattern:
            return [name for name in names if fnmatch.fnmatchcase(name, pattern)]

        with_number = [name for name in names if name[-1:].isdecimal()]
        if not with_number:
            return []

        # The plain name is the first of `caption, caption_2, caption_3`, and of pandas' `caption, caption.1` for equal
        # heads. Beside `caption_1` it may be the other side's.
        numbered: set[str] = set()
        plain: set[str] = set()
        numbered_from_one: set[str] = set()
        for name in with_number:
            match = _NUMBERED.fullmatch(name)
            if not match:
                continue
            numbered.add(match[0])
            plain.add(match[1])
            if match[3] in ("0", "1") and match[2] != ".":
                numbered_from_one.add(match[1])
        numbered |= plain - numbered_from_one

        columns = [name for name in names if name in numbered]
        return columns if len(columns) > 1 else []

    def note_judgements(self, names: Collection[str]) -> None:
        """Remember which columns are people's verdicts on pairs."""
        if not self.judgements and self._n_looked_at < _MOST_LOOKED_AT:
            self._n_looked_at += 1
            self.judgements = find_judgements(names)

    def note_unread(self, row: Mapping[str, Any], used: str | None = None) -> None:
        """Remember which columns beside the one that is used look like captions too.

        Args:
            row: a value of each column.
            used: the column of the captions, or of one reference a row; by default the one that `find` returns.
        """
        if self._n_looked_at >= _MOST_LOOKED_AT:
            return

        used = used or self.find("caption", row)
        others_side = ALIASES["references"] if self._is_of_candidates else SYSTEM_CAPTIONS
        for name, value in row.items():
            if name in (used, self.used.get("image_id")) or name in others_side:
                continue
            if not may_hold_captions(name) or _NUMBERED.fullmatch(name) is not None:
                continue
            # One text is a system's caption, and a list of them are references.
            is_of_side = self._is_of_candidates != isinstance(value, list)
            if is_of_side and _holds_words(value):
                self.unread[name] = None

    def describe(self, file_name: str) -> list[str]:
        """Say which columns had another name than the usual, and what was left; nothing where there is nothing to say."""
        parts = [f"{usual} is '{name}'" for usual, name in self.used.items()]
        sentences = [f"In {file_name}, {', '.join(parts)}."] if parts else []
        if self.unread:
            names = shorten(", ".join(f"'{name}'" for name in self.unread))
            option = "columns.references"
            if self._is_of_candidates:
                option = "candidates.columns.caption"
            is_or_are = "is" if len(self.unread) == 1 else "are"
            sentences.append(
                f"In {file_name}, {names} {is_or_are} not read ({option}= names a column)."
            )
        if self.judgements:
            sentences.append(f"In {file_name}, {describe_judgements(self.judgements)}.")
        return [*self.remarks, *sentences]


def find_judgements(names: Collection[str]) -> tuple[str, ...]:
    """Return the columns by which a table is one of judged pairs; none where it is of captions."""
    for judged in _JUDGED:
        if all(name in names for name in judged):
            return judged

    return ()


def describe_judgements(names: Collection[str]) -> str:
    """Say that columns are judgements, and which command reads them."""
    quoted_names = " and ".join(f"'{name}'" for name in names)
    looks = "looks" if len(names) == 1 else "look"
    return f"{quoted_names} {looks} like judgements of pairs, which captau bench dataset=file file.path=FILE reads"


def find_name(aliases: Collection[str], names: Collection[str]) -> str | None:
    """Return the first of several names that is there, in whatever case and with whatever signs: `Image ID`."""
    for alias in aliases:
        if alias in names:
            return alias
    # Names in lower case are taken as they stand.
    if all(name.islower() for name in names):
        return None

    by_form: dict[str, str] = {}
    for name in names:
        by_form.setdefault(_form_of(name), name)
    for alias in aliases:
        form = _form_of(alias)
        if form in by_form:
            return by_form[form]
    return None


def _form_of(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _is_of_vlmevalkit(names: Collection[str]) -> bool:
    """Tell whether columns have all names of `_VLMEVALKIT`; written out, as a loop takes ten times as long for each row."""
    return "index" in names and "prediction" in names and "answer" in names


def may_hold_captions(name: str) -> bool:
    """Tell whether the name of a column says that it may hold captions of any side."""
    names = (*ALIASES["caption"], *SYSTEM_CAPTIONS)
    return _IS_OF_CAPTIONS.search(name) is not None or find_name(names, [name]) is not None


def is_of_rows(name: str | None, value: Any) -> bool:
    """Tell whether a column of references has one in each of an image's rows, and not all of them in a list."""
    is_list = name is None or name in _LISTS or name == _VLMEVALKIT["references"]
    return isinstance(value, str) and not is_list


def _may_be_caption(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip() or any(map(str.isalpha, value))

    return value is None or isinstance(value, list) or isinstance(text_of(value), str)


def _holds_words(value: Any) -> bool:
    """Tell whether a value is a text, or a list of texts, of several words."""
    if isinstance(value, list):
        return bool(value) and all(_holds_words(element) for element in value)

    return isinstance(value, str) and len(value.split()) > 1


def is_name(key: str, value: Any) -> bool:
    """Tell whether a member of an object that describes an image may be a name or an id of it."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False

    return key.endswith(("id", "name", "image")) and key != "license_id"


def may_name_system(name: str) -> bool:
    """Tell whether a column may tell systems apart, though only one that is called `system` is read so."""
    return name.strip().lower() in _SYSTEM_NAMES
