"""Image ids of captions and of references that are written in two ways, such as 391895 and COCO_val2014_000000391895.jpg.

A rule is a form in which both sides are compared. It is used where all ids of one side match by it and no two of a side
become one; else the ids stay, and the error says how many a rule would match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from urllib.parse import unquote

from ..errors import InputError
from .caption_files import CandidateFile, ReferenceFile

#: A whole number, with or without zeros before it or `.0` behind it.
_NUMBER = re.compile(r"0*(\d+)(?:\.0+)?")
#: A number as spreadsheets show it: 391,895 and 3.91895E+05.
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+")
_SCIENTIFIC = re.compile(r"\d(?:\.\d+)?[eE]\+?\d{1,2}")
#: COCO's files: COCO_val2014_000000391895, and 000000391895 since 2017.
_COCO_NAME = re.compile(r"(?:COCO_[a-z]+\d{4}_)?(\d{12})", re.IGNORECASE)
#: The endings of files of images, videos and sounds, and of what is stored for each of them.
_FILE_ENDING = re.compile(
    r"\.(?:jpe?g|jfif|png|webp|gif|bmp|tiff?|heic|avif|mp4|avi|webm|mkv|mov|wav|flac|mp3|ogg|m4a|npy|npz|pt|txt|json)$",
    re.IGNORECASE,
)
#: What stands behind the path of an address, and the number of a caption behind an image's name.
_ADDRESS_END = re.compile(r"\?[^/\\]*$|#\w*$")
#: A number behind a word, as in image_391895 and tensor(391895).
_LAST_NUMBER = re.compile(r"(?:.*[^\d.])?0*(\d+)[)\]]?")


@dataclass(frozen=True)
class IdRule:
    """A form of image ids in which two sides are compared.

    Attributes:
        words: what is compared, after "by".
        reduce: returns an id in that form.
        needs_numbers: whether one side has to be plain numbers, as `cat_1` and `dog_1` are two images.
    """

    words: str
    reduce: Callable[[str], str]
    needs_numbers: bool = False


def _strip(image_id: str) -> str:
    return image_id.strip(" \t\r\n\xa0\ufeff\"'")


def _compose(image_id: str) -> str:
    # Names of files on a Mac have their accents as characters of their own.
    return unicodedata.normalize("NFC", _strip(image_id))


def _without_folder(image_id: str) -> str:
    path = _ADDRESS_END.sub("", _compose(image_id))
    return unquote(re.split(r"[/\\]", path)[-1])


def _without_ending(image_id: str) -> str:
    return _FILE_ENDING.sub("", _without_folder(image_id))


def _without_case(image_id: str) -> str:
    return _without_ending(image_id).casefold()


def _as_number(image_id: str) -> str:
    text = image_id.strip()
    match = _NUMBER.fullmatch(text)
    if match:
        return match[1]
    if _GROUPED.fullmatch(text):
        return text.replace(",", "")
    # Spreadsheets write long numbers so; one that lost digits equals no other id.
    number = Decimal(text) if _SCIENTIFIC.fullmatch(text) else Decimal("0.5")
    return str(int(number)) if number == number.to_integral_value() else text


def _as_coco_number(image_id: str) -> str:
    name = _without_ending(image_id)
    match = _COCO_NAME.fullmatch(name)
    return _as_number(match[1]) if match else _as_number(name)


def _as_last_number(image_id: str) -> str:
    name = _without_ending(image_id)
    match = _LAST_NUMBER.fullmatch(name)
    return match[1] if match else name


#: The nearest to the ids as they stand first.
RULES = (
    IdRule("their ids without the blanks and quotes around them", _strip),
    IdRule("their ids with accents as parts of letters (Unicode's form NFC)", _compose),
    IdRule("their ids as numbers, without leading zeros and '.0'", _as_number),
    IdRule("the names of their files, without folders", _without_folder),
    IdRule("the names of their files, without folders and endings", _without_ending),
    IdRule("the names of their files, without folders, endings and case", _without_case),
    IdRule("the numbers in COCO's file names", _as_coco_number),
    IdRule("the numbers at the end of their ids", _as_last_number, needs_numbers=True),
)


def rules_for(ids: Iterable[str], reference_ids: Iterable[str]) -> list[IdRule]:
    """Return the rules for two sides of image ids, the nearest to the ids as they stand first."""
    has_numbers = all(map(str.isdecimal, ids)) or all(map(str.isdecimal, reference_ids))
    return [rule for rule in RULES if has_numbers or not rule.needs_numbers]


def match_forms(
    ids: Iterable[str], named: Mapping[str, str], reduce: Callable[[str], str]
) -> tuple[dict[str, str], bool]:
    """Return the image of each id whose form one image's names alone have, and whether a form is of several images.

    Args:
        ids: to be matched.
        named: the image of each name; of ids themselves, each is its own.
        reduce: returns a name or an id in the form that is compared.
    """
    by_form: dict[str, str] = {}
    ambiguous: set[str] = set()
    for name, image_id in named.items():
        form = reduce(name)
        if by_form.setdefault(form, image_id) != image_id:
            ambiguous.add(form)

    matched: dict[str, str] = {}
    for image_id in ids:
        form = reduce(image_id)
        if form in by_form and form not in ambiguous:
            matched[image_id] = by_form[form]
    return matched, bool(ambiguous)


@dataclass(frozen=True)
class _Match:
    """The matches of a rule.

    Attributes:
        words: as of the rule.
        rank: the rule's place, the nearest to the ids as they stand first.
        renamed: the references' id of each of the captions' ids that match.
        is_whole: whether all ids of one side match, and no two of a side become one.
    """

    words: str
    rank: int
    renamed: dict[str, str]
    is_whole: bool


def match_image_ids(
    systems: Mapping[str, CandidateFile], sets: Mapping[str, ReferenceFile]
) -> tuple[dict[str, CandidateFile], list[str]]:
    """Give captions the image ids of the references, where one rule matches them.

    Args:
        systems: the captions of each system.
        sets: the sets of references; without any, nothing is changed.

    Returns:
        The captions, and a sentence for each file whose ids were changed.

    Raises:
        InputError: where no id of a file is one of the references, and no rule matches all of a side.
    """
    reference_ids: set[str] = set()
    other_names: dict[str, dict[str, str]] = {}
    for references in sets.values():
        reference_ids |= references.texts.keys()
        for key, named in references.other_names.items():
            other_names.setdefault(key, {}).update(named)
    if not reference_ids:
        return dict(systems), []

    matched: dict[str, CandidateFile] = {}
    notes: list[str] = []
    for system, candidates in systems.items():
        ids = candidates.captions.keys()
        # Nearly always all of one side are there as they stand.
        if ids <= reference_ids or reference_ids <= ids:
            matched[system] = candidates
            continue

        matches = list(_find_matches(list(ids), reference_ids, other_names))
        whole_match = next((match for match in matches if match.is_whole), None)
        if whole_match is not None:
            _check_rivals(whole_match, matches, _name(candidates))
            matched[system] = _rename(candidates, whole_match.renamed)
            changed = {old: new for old, new in whole_match.renamed.items() if old != new}
            first, new = next(iter(changed.items()))
            notes.append(
                f"The images of {_name(candidates)} and of the references match by {whole_match.words}, such as '{first}' "
                f"and '{new}'."
            )
            continue

        if ids.isdisjoint(reference_ids):
            raise _no_match(candidates, sets, matches)
        matched[system] = candidates

    return matched, notes


def _find_matches(
    ids: Sequence[str], reference_ids: set[str], other_names: Mapping[str, Mapping[str, str]]
) -> Iterable[_Match]:
    """Yield what each rule matches, of the other names that the references' file has and of its ids.

    Names come first: '1.jpg' is the image whose file_name it is, and not the image 1.
    """
    by_id = {image_id: image_id for image_id in reference_ids}
    n_images = len(reference_ids)
    names_by_key: dict[str, Mapping[str, str]] = {}
    for key, named in other_names.items():
        # COCO's `images[].id` are the ids themselves.
        if any(name != image_id for name, image_id in named.items()):
            names_by_key[key] = named

    for rank, rule in enumerate((IdRule("", str), *rules_for(ids, reference_ids))):
        for key, named in names_by_key.items():
            without = f" ({rule.words.removeprefix('their ids ')})" if rule.words else ""
            words = f"the references' '{key}'{without}"
            yield _match(ids, named, rule.reduce, words, rank=rank, n_images=n_images)
        # Ids that are equal as they stand were found before.
        if rule.words:
            yield _match(ids, by_id, rule.reduce, rule.words, rank=rank, n_images=n_images)


def _check_rivals(match: _Match, matches: Iterable[_Match], name: str) -> None:
    """Check that one rule does not match images in two ways, by names and by ids.

    Raises:
        InputError: where it does.
    """
    for rival in matches:
        if rival.rank != match.rank or not rival.is_whole:
            continue
        for image_id, reference_id in match.renamed.items():
            rival_id = rival.renamed.get(image_id, reference_id)
            if rival_id != reference_id:
                raise InputError(
                    f"{name}: its images match those of the references in two ways, by {match.words} and by "
                    f"{rival.words}: '{image_id}' is '{reference_id}' or '{rival_id}'; write the references' ids"
                )


def _match(
    ids: Sequence[str],
    named: Mapping[str, str],
    reduce: Callable[[str], str],
    words: str,
    *,
    rank: int,
    n_images: int,
) -> _Match:
    renamed, has_ambiguous = match_forms(ids, named, reduce)
    targets = set(renamed.values())
    collides = len(targets) < len(renamed) or has_ambiguous
    covers_a_side = len(renamed) == len(ids) or len(targets) == n_images
    return _Match(words, rank, renamed, is_whole=bool(renamed) and covers_a_side and not collides)


def _rename(candidates: CandidateFile, renamed: Mapping[str, str]) -> CandidateFile:
    captions: dict[str, str] = {}
    lines: dict[str, int] = {}
    for image_id, caption in candidates.captions.items():
        new_id = renamed.get(image_id, image_id)
        captions[new_id] = caption
        lines[new_id] = candidates.lines[image_id]
    return replace(candidates, captions=captions, lines=lines)


def _name(candidates: CandidateFile) -> str:
    return candidates.source.path.name


def _no_match(
    candidates: CandidateFile,
    sets: Mapping[str, ReferenceFile],
    matches: Sequence[_Match],
) -> InputError:
    """Return the error for captions none of whose images has references, with an id of each side and the best rule."""
    where = " or ".join(references.source.name for references in sets.values())
    first = next(iter(candidates.captions))
    reference_id = next(i for references in sets.values() for i in references.texts)
    message = f"{candidates.locate(first)} has no references in {where}, where an image is '{reference_id}'"

    best = max(matches, key=lambda match: len(match.renamed))
    n_ids = len(candidates.captions)
    if best.renamed:
        return InputError(
            f"{message}; by {best.words}, {len(best.renamed):,} of {n_ids:,} images would match; rename the others"
        )
    outcome = f"none of the {n_ids:,} images matches" if n_ids > 1 else "it does not match"
    return InputError(f"{message}; {outcome} by any rule; use one kind of id")
