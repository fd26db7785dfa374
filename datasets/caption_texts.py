"""The texts of captions: their writing systems, their normalised forms, and copies of references among them.

A caption that is one of its image's references scores as well as can be with every metric that compares words, and
people rate it well for another reason: a person wrote it. `find_own_references` is the rule by which
`protocol.own_references`, `captau data verify` and `captau sensitivity` recognise them; `leave_out_of_pairs` leaves them
out for both captions of a pair. `NORMALISATIONS` are the rules that make the form of captions alike before they are
scored (`protocol.normalise`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def replace_surrogates(text: str) -> str:
    """Return a text whose unpaired surrogates, which no encoding can hold, are U+FFFD."""
    if text.isascii():
        return text

    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def collapse_blanks(text: str) -> str:
    """Return a text with one blank between words, and none around them."""
    return " ".join(text.split())


#: How long words are, in letters, in scripts that set no blanks between them: at most, on average over a text. Chinese
#: and Japanese words have one to three letters, those of the other scripts three to seven.
_WORD_LENGTHS = {"han": 3, "kana": 4, "thai": 8, "lao": 8, "khmer": 8, "myanmar": 8}
#: Scripts by the first words of Unicode's names of letters, where these differ.
_SCRIPTS = {
    "cjk": "han",
    "ideographic": "han",
    "hiragana": "kana",
    "katakana": "kana",
    "halfwidth": "kana",
    "fullwidth": "latin",
}
#: Signs that stand with letters of any script.
_SIGNS = ("combining", "variation")
#: The characters of ASCII that are no letters.
_ASCII_NON_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())


@lru_cache(maxsize=65536)
def letter_script(character: str) -> str:
    """Return the script of a letter or vowel sign, such as `latin`, by Unicode's name of it; else empty."""
    if character.isascii():
        return "latin" if character.isalpha() else ""
    if unicodedata.category(character)[0] not in "LM":
        return ""

    script = re.split(r"[ -]", unicodedata.name(character, "").lower())[0]
    if script in _SIGNS:
        return ""

    return _SCRIPTS.get(script, script)


def find_script(texts: Iterable[str]) -> str:
    """Return the script of most letters, such as `latin`; empty where there are no letters.

    Where a tenth of the Chinese characters and kana are kana, the script is `kana`: Japanese is written in both.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if text.isascii():
            # What is left without the others are the letters.
            counts["latin"] += len(text.encode().translate(None, _ASCII_NON_LETTERS))
        else:
            counts.update(map(letter_script, text))

    # Digits and signs are of no script.
    del counts[""]
    if 10 * counts["kana"] >= counts["han"] + counts["kana"]:
        counts["kana"] += counts.pop("han", 0)

    if not counts.total():
        return ""

    return max(counts, key=counts.__getitem__)


def is_unsegmented(text: str) -> bool:
    """Return whether a text has no blanks between its words (Chinese, Japanese, Thai, Lao, Khmer, Burmese).

    A text that was cut into words beforehand, or is one short word, counts as segmented.
    """
    if text.isascii():
        return False

    # Vowel signs are no word characters to `re`, and would end a run of letters.
    letters = "".join([char for char in text if unicodedata.category(char)[0] != "M"])
    n_letters = 0
    n_longest_words = 0
    for run in re.findall(r"[^\W\d_]+", letters):
        script = find_script([run])
        if script in _WORD_LENGTHS:
            n_letters += len(run)
            n_longest_words += _WORD_LENGTHS[script]

    return n_letters > n_longest_words


Booleans = NDArray[np.bool_]

#: What of ASCII is no letter or digit.
_ASCII_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


@lru_cache(maxsize=65536)
def comparison_form(text: str) -> str:
    """Return the form in which a caption and a reference are compared: its letters and digits, lower-cased.

    Blanks do not count either: texts that were cut into word pieces and joined again, or whose hyphens became blanks,
    are equal to their originals. Letters and digits of other scripts than the Latin follow as they are; a–z and 0–9
    alone would make all Chinese texts equal. So do texts without any, such as emoji. Composed and decomposed accents
    are equal.
    """
    if text.isascii():
        return text.encode().translate(None, _ASCII_SIGNS).decode().lower()

    lowered = unicodedata.normalize("NFC", text.lower())
    form = re.sub(r"[^a-z0-9]+", "", lowered)
    if lowered.isascii():
        return form

    letters = "".join(filter(_is_foreign, lowered))
    if letters:
        return f"{form}\0{letters}"
    return form or lowered


def _is_foreign(character: str) -> bool:
    is_digit = not character.isascii() and unicodedata.category(character) == "Nd"
    return is_digit or letter_script(character) not in ("", "latin")


@dataclass(frozen=True)
class OwnReferences:
    """Marks of the items whose caption is one of their references.

    Attributes:
        is_copy: whether an item's caption is one of its references, in their `comparison_form`; shape (n_items,).
        is_exact: whether it is, letter by letter; shape (n_items,).
        is_single: whether an item has no `other_references`, but has references; shape (n_items,).
        other_references: each item's references without those that are copied.
    """

    is_copy: Booleans
    is_exact: Booleans
    is_single: Booleans
    other_references: list[tuple[str, ...]]

    @property
    def n_copies(self) -> int:
        """The number of copies."""
        return int(self.is_copy.sum())

    def count(self) -> str:
        """Return "12 of 360 captions repeat one of their image's references, 3 of them exactly"."""
        share = f"{self.n_copies:,} of {len(self.is_copy):,} captions"
        words = "repeat one of their image's references"
        if self.n_copies == 1:
            words = "repeats one of its image's references"

        exactness = f", {self.n_exact:,} of them exactly"
        if self.n_copies == 0:
            exactness = ""
        elif self.n_exact == self.n_copies:
            exactness = " exactly"
        elif not self.n_exact:
            exactness = " but for case, blanks or punctuation"
        return f"{share} {words}{exactness}"

    @property
    def n_exact(self) -> int:
        """The number of copies letter by letter."""
        return int(self.is_exact.sum())


def find_own_references(items: pd.DataFrame, *, of_image: bool = False) -> OwnReferences:
    """Mark the items whose caption is one of their references.

    Args:
        items: of a `CaptionSet`; its columns `image_id`, `caption` and `references` count.
        of_image: whether `other_references` lack what any caption of the image copies, and not the item's own alone.
    """
    captions = items["caption"].tolist()
    references = items["references"].tolist()
    forms = [comparison_form(caption) for caption in captions]
    # The captions of an image share their references.
    forms_of_references: dict[tuple[str, ...], list[str]] = {}
    for texts in references:
        if texts not in forms_of_references:
            forms_of_references[texts] = [comparison_form(text) for text in texts]

    copied = [{form} for form in forms]
    if of_image:
        by_image = pd.Series(forms, dtype=object).groupby(items["image_id"].to_numpy()).agg(set)
        copied = by_image[items["image_id"]].tolist()

    other_references: list[tuple[str, ...]] = []
    is_copy: list[bool] = []
    is_exact: list[bool] = []
    is_single: list[bool] = []
    for caption, form, texts, copied_forms in zip(captions, forms, references, copied, strict=True):
        text_forms = forms_of_references[texts]
        # Nearly all captions copy none of their references.
        other_texts = texts
        if not copied_forms.isdisjoint(text_forms):
            uncopied: list[str] = []
            for text, text_form in zip(texts, text_forms, strict=True):
                if text_form not in copied_forms:
                    uncopied.append(text)
            other_texts = tuple(uncopied)

        other_references.append(other_texts)
        is_copy.append(form in text_forms)
        is_exact.append(caption in texts)
        is_single.append(bool(texts) and not other_texts)

    return OwnReferences(
        is_copy=np.array(is_copy, dtype=bool),
        is_exact=np.array(is_exact, dtype=bool),
        is_single=np.array(is_single, dtype=bool),
        other_references=other_references,
    )


@dataclass(frozen=True)
class PairReferences:
    """Items and preferences of which both captions of a pair lack the references that one of the two is.

    Attributes:
        items: those of a `CaptionSet`. A caption that stands in several pairs is an item for each set of references
            that it is scored against: the largest keeps the item's id, the others have a number behind it (`#2`).
        preferences: those of the `CaptionSet`, of these items.
        source_ids: the id that each of the items had before, shape (n_items,).
        is_without: whether an item had references and has none left, shape (n_items,).
    """

    items: pd.DataFrame
    preferences: pd.DataFrame
    source_ids: NDArray[np.object_]
    is_without: Booleans

    @property
    def is_pair_without(self) -> pd.Series:
        """Tell of each preference whether a caption of its pair has no reference left, by the index of `preferences`."""
        ids = set(self.items.loc[self.is_without, "item_id"])
        return self.preferences[["item_a", "item_b"]].isin(ids).any(axis=1)


def leave_out_of_pairs(items: pd.DataFrame, preferences: pd.DataFrame) -> PairReferences:
    """Leave out, for both captions of each pair, the references that one of the two is.

    A pair is fair so: a caption is not scored against itself, and the other one has no reference more. An item that
    stands in no pair keeps its references.

    Args:
        items: of a `CaptionSet`.
        preferences: of a `CaptionSet`; its columns `item_a` and `item_b` count.
    """
    item_ids = items["item_id"].tolist()
    form_of = dict(zip(item_ids, map(comparison_form, items["caption"]), strict=True))
    references_of = dict(zip(item_ids, items["references"], strict=True))

    # The references of each item beside each other item that it is compared with.
    references_beside: dict[tuple[str, str], tuple[str, ...]] = {}
    sets_of: dict[str, set[tuple[str, ...]]] = {item_id: set() for item_id in item_ids}
    pairs = preferences[["item_a", "item_b"]].drop_duplicates()
    for a, b in zip(pairs["item_a"], pairs["item_b"], strict=True):
        own_forms = {form_of[a], form_of[b]}
        for item_id, other_id in ((a, b), (b, a)):
            texts = references_of[item_id]
            other_texts = tuple(text for text in texts if comparison_form(text) not in own_forms)
            references_beside[item_id, other_id] = other_texts
            sets_of[item_id].add(other_texts)

    row_numbers: list[int] = []
    references: list[tuple[str, ...]] = []
    new_ids: list[str] = []
    id_of: dict[tuple[str, tuple[str, ...]], str] = {}
    for row_number, item_id in enumerate(item_ids):
        # In an order of their contents, so that no id depends on the order of a file's rows.
        sets = sorted(sets_of[item_id], key=lambda texts: (-len(texts), texts))
        for number, texts in enumerate(sets or [references_of[item_id]], start=1):
            new_id = item_id if number == 1 else f"{item_id}#{number}"
            id_of[item_id, texts] = new_id
            row_numbers.append(row_number)
            references.append(texts)
            new_ids.append(new_id)

    items_a: list[str] = []
    items_b: list[str] = []
    for a, b in zip(preferences["item_a"], preferences["item_b"], strict=True):
        items_a.append(id_of[a, references_beside[a, b]])
        items_b.append(id_of[b, references_beside[b, a]])

    sources = items.iloc[row_numbers].reset_index(drop=True)
    had_references = sources["references"].map(len).to_numpy() > 0
    has_references = np.array([len(texts) > 0 for texts in references], dtype=bool)
    return PairReferences(
        items=sources.assign(item_id=new_ids, references=pd.Series(references, dtype=object)),
        preferences=preferences.assign(item_a=items_a, item_b=items_b),
        source_ids=sources["item_id"].to_numpy(dtype=object),
        is_without=had_references & ~has_references,
    )


#: What ends a sentence; and what may stand behind that.
_FINAL_MARKS = tuple(".!?…。！？")
_CLOSING = "\"'”’»)]"
_TAIL = re.compile(rf"[\s{re.escape(''.join(_FINAL_MARKS))}]+\Z")


def normalise_thumb(caption: str) -> str:
    """Return a caption by the rule of Kasai et al. 2022, section 2.2.3, "Text Processing".

    Spaces at the ends are removed, the first letter becomes a capital, and a period is added. A caption
    that ends with another final mark, or with one inside quotation marks or brackets, keeps it and gets
    no period; a space before the final mark is removed. An empty caption stays empty.

    Example:
        >>> [normalise_thumb(caption) for caption in ("a dog runs .", "what a dog !")]
        ['A dog runs.', 'What a dog!']
    """
    text = _TAIL.sub(_join_marks, caption.strip())
    if text and not text.rstrip(_CLOSING).endswith(_FINAL_MARKS):
        text = f"{text}."
    return text[:1].upper() + text[1:]


def _join_marks(tail: re.Match[str]) -> str:
    """Return the final marks of a caption without the blanks before and between them."""
    return "".join(tail[0].split())


#: The rules by name; `none` leaves captions as they are.
NORMALISATIONS: dict[str, Callable[[str], str] | None] = {"none": None, "thumb": normalise_thumb}


def normalise_items(items: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Return items with their captions and references normalised by one of `NORMALISATIONS`.

    Item ids stay those of the captions as they were.
    """
    normalise = NORMALISATIONS[rule]
    if normalise is None:
        return items

    captions = list(map(normalise, items["caption"].tolist()))
    references = [tuple(map(normalise, texts)) for texts in items["references"]]
    return items.assign(
        caption=pd.Series(captions, index=items.index, dtype=object),
        references=pd.Series(references, index=items.index, dtype=object),
    )
