"""Tables of comparisons: one row a judgement of two captions, or a JSON file of votes as AudioCaps-Eval is published.

Published files are taken as they are. Two systems' equal captions are a pair; a caption whose references differ by pair is
an item for each; a rater's several answers to a pair count once, with their mean. The card's `remarks` count all three.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError, shorten
from ..preferences import PREFERENCE_COLUMNS, STRENGTHS, derive_winners
from ..schema import CaptionSet, Card
from .cells import parse_number, parse_references
from .judgement_exports import is_missing
from .table import JudgementColumns, Table, name_raters


@dataclass(frozen=True)
class PairColumns:
    """One row a judgement of two captions of an image, in columns of equal length.

    Attributes:
        places: where each row stands, for messages.
        image_ids, captions_a, captions_b: what was compared.
        strengths: positive where the first caption is better, negative where the second is, 0 where they tie.
        dimensions: what was judged.
        raters: who judged; None where that is not known: a pair's judgements are then numbered.
        systems_a, systems_b, references, splits, images, clusters: of each row, where there are any.
        references_b: those of the second caption, where they are not the first one's.
        is_graded: whether strengths have grades.
    """

    places: Sequence[str]
    image_ids: Sequence[str]
    captions_a: Sequence[str]
    captions_b: Sequence[str]
    strengths: Sequence[float]
    dimensions: Sequence[str]
    raters: Sequence[str] | None = None
    systems_a: Sequence[str] | None = None
    systems_b: Sequence[str] | None = None
    references: Sequence[tuple[str, ...]] | None = None
    references_b: Sequence[tuple[str, ...]] | None = None
    splits: Sequence[str] | None = None
    images: Sequence[str | None] | None = None
    clusters: Sequence[str] | None = None
    is_graded: bool = False

    def caption_set(self, card: Card) -> CaptionSet:
        """Make a `CaptionSet` in which equal captions of an image and system, with equal references, are one item.

        Raises:
            InputError: where a pair is of one caption by one system, or rows of one item differ in split or cluster.
        """
        systems = _of_both(self.systems_a, self.systems_b)
        self._check_captions(systems)

        # Both captions of each row, the first ones and then the second ones.
        both = JudgementColumns(
            places=[*self.places, *self.places],
            image_ids=[*self.image_ids, *self.image_ids],
            captions=[*self.captions_a, *self.captions_b],
            values=(),
            references=_of_both(self.references, self.references_b),
            systems=systems,
            splits=_of_both(self.splits),
            images=_of_both(self.images),
            clusters=_of_both(self.clusters),
            apart=True,
        )
        items, item_of = both.make_items()

        n_rows = len(self.places)
        ids = items["item_id"].to_numpy(dtype=object)
        items_a = ids[item_of[:n_rows]]
        items_b = ids[item_of[n_rows:]]
        pair_ids = [f"{a}|{b}" for a, b in zip(items_a, items_b, strict=True)]

        # A pair is the same whichever of its captions stands first.
        unordered = [frozenset(pair) for pair in zip(items_a, items_b, strict=True)]
        pairs = pd.factorize(pd.Series(unordered))[0].tolist()

        raters = self.raters
        if raters is None:
            raters = name_raters(None, pairs, self.dimensions, self.places)

        judged = pd.DataFrame(
            {
                "pair_id": pair_ids,
                "item_a": items_a,
                "item_b": items_b,
                "dimension": self.dimensions,
                "rater": raters,
                "strength": self.strengths,
            }
        )
        preferences = self._merge_answers(judged.assign(pair=pairs))

        remarks = (
            _count_equal_captions(items, preferences),
            _count_other_references(items),
            _count_answers(len(judged) - len(preferences)),
        )
        card = replace(card, remarks=(*card.remarks, *filter(None, remarks)))
        return CaptionSet(items, preferences=preferences, card=card)

    def _check_captions(self, systems: Sequence[str] | None) -> None:
        """Raise InputError at a pair of equal captions that no two systems wrote."""
        n_rows = len(self.places)
        for row, location in enumerate(self.places):
            first = " ".join(self.captions_a[row].split())
            second = " ".join(self.captions_b[row].split())
            is_of_two = systems is not None and systems[row] != systems[n_rows + row]
            if first == second and not is_of_two:
                raise InputError(
                    f"{location}: both captions are '{first}'; a pair is of two captions, unless two systems wrote "
                    "them (file.system_a=, file.system_b=)"
                )

    def _merge_answers(self, judged: pd.DataFrame) -> pd.DataFrame:
        """Make one answer of a rater's several to a pair on a dimension: their mean, in the order of the first.

        Without grades the sign of the mean counts, so that two opposite answers are a tie.
        """
        keys = [judged[column] for column in ("pair", "dimension", "rater")]
        first = judged.groupby(keys)["item_a"].transform("first")
        # A positive strength prefers `item_a`, which may be the other caption in a later answer.
        signed = judged["strength"].where(judged["item_a"] == first, -judged["strength"])
        # Adding 0 turns -0.0 into 0.0.
        means = signed.groupby(keys).transform("mean") + 0.0
        merged = judged.assign(strength=means if self.is_graded else np.sign(means))

        is_first = ~judged.duplicated(["pair", "dimension", "rater"])
        return merged.loc[is_first, list(PREFERENCE_COLUMNS)].reset_index(drop=True)


def _of_both(a: Sequence[Any] | None, b: Sequence[Any] | None = None) -> list[Any] | None:
    """Return a column of the first captions and then of the second ones, which share it unless they have their own."""
    if a is None:
        return None

    return [*a, *(b or a)]


def _count_equal_captions(items: pd.DataFrame, preferences: pd.DataFrame) -> str:
    captions = items.set_index("item_id")["caption"]
    pairs = preferences.drop_duplicates("pair_id")
    captions_a = captions.loc[pairs["item_a"]].to_numpy()
    captions_b = captions.loc[pairs["item_b"]].to_numpy()
    n_equal = int((captions_a == captions_b).sum())
    if not n_equal:
        return ""

    return f"{n_equal:,} of {len(pairs):,} pairs are of two systems' equal captions, which metrics that read captions tie."


def _count_other_references(items: pd.DataFrame) -> str:
    keys = items[["image_id", "caption", "system"]].fillna("")
    n_captions = int((keys.groupby(list(keys.columns)).size() > 1).sum())
    if not n_captions:
        return ""

    return f"{n_captions:,} captions have other references in other pairs; each of their sets is an item."


def _count_answers(n_merged: int) -> str:
    if not n_merged:
        return ""

    return f"{n_merged:,} answers are a rater's second or later one to a pair; the mean of the rater's answers counts."


#: A side of a pair in a verdict, in lower case: `a`, `model_a`, `Caption 1`, `left`, `A is better`.
_SIDE = re.compile(
    r"(?:(?:caption|text|response|answer|option|candidate|model|system|assistant|output|image|choice|description)[\s_-]*)?"
    r"(a|b|1|2|first|second|left|right)(?:\s+(?:caption|one))?(?:\s+(?:is\s+better|wins))?"
)
#: A comparison: `A>B`, `A>>B`, `1 < 2`, `A=B`.
_COMPARISON = re.compile(r"(a|b|1|2)\s*(>+|<+|=+|~)\s*(a|b|1|2)")
#: The most characters of a word that an error repeats.
_SHOWN_WORD = 40
#: What the first caption of a pair does, where that is all that a word says.
_OUTCOMES = {
    "win": "a",
    "wins": "a",
    "won": "a",
    "lose": "b",
    "loses": "b",
    "loss": "b",
    "lost": "b",
}
#: Whom each name of a side means.
_SIDES = {
    **dict.fromkeys(("a", "1", "first", "left"), "a"),
    **dict.fromkeys(("b", "2", "second", "right"), "b"),
}
#: Words for neither caption being better.
_TIES = (
    "tie",
    "tied",
    "equal",
    "equally good",
    "draw",
    "same",
    "no difference",
    "no preference",
    "both",
    "neither",
    "both good",
    "both bad",
    "bothbad",
    "tie (bothbad)",
    "tie (both bad)",
    "[[c]]",  # so judges are asked to write
)
#: Words of those who gave no verdict.
_NO_VERDICT = ("skip", "skipped", "bad", "invalid", "unsure", "not sure", "cannot tell")


def read_winners(
    table: Table,
    winner: str,
    systems: tuple[str | None, str | None],
    words: Mapping[str, str] | None,
    sides: Mapping[str, str] | None = None,
) -> tuple[Table, list[str]]:
    """Return the rows with a verdict, their winners as `a`, `b` or `tie`, and a sentence on those without.

    Args:
        table: the rows.
        winner: the column of winners: `a`, `b`, `tie`, another word for one, or the name of the row's own system.
        systems: the columns of the captions' systems; None where there are none.
        words: what other words mean: `a`, `b`, `tie` or `none`.
        sides: what the columns' own names of the two captions mean, such as 0 and 1 of `caption_0` and `caption_1`.

    Raises:
        InputError: on words that say nothing of this, or where no row has a verdict.
    """
    if winner not in table:
        return table, []

    meanings = dict(sides or {})
    for word, meaning in (words or {}).items():
        meanings[str(word).strip().lower()] = str(meaning)
    for word, meaning in meanings.items():
        if meaning not in (*STRENGTHS, "none"):
            raise InputError(f"file.winners: '{word}' is '{meaning}', not a, b, tie or none")
    columns = [None if name is None else table.column(name) for name in systems]

    verdicts: list[str] = []
    judged_rows: list[int] = []
    left_out: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    unread: dict[str, str] = {}
    for row, (where, cell) in enumerate(zip(table.places, table.column(winner), strict=True)):
        row_systems = ["" if column is None else str(column[row]) for column in columns]
        verdict = _find_winner(cell, row_systems, meanings)
        if verdict in STRENGTHS and _is_other_side(cell, row_systems, meanings):
            doubtful[str(cell).strip()] += 1
        if verdict == "none":
            left_out["empty" if is_missing(cell) else str(cell).strip()] += 1
        elif verdict in STRENGTHS:
            verdicts.append(verdict)
            judged_rows.append(row)
        else:
            unread.setdefault(str(cell).strip(), where)

    if unread:
        raise _unread_winners(winner, unread)
    if not judged_rows and len(table):
        raise InputError(f"{table.places[0]}: {winner} is empty or no verdict in each row")
    read = table.keep(judged_rows).with_columns({winner: list(verdicts)})
    return read, [*_describe_left_out(left_out), *_describe_doubtful(doubtful, winner)]


def _describe_left_out(left_out: Counter[str]) -> list[str]:
    """Say how many rows have no verdict, and by which words; nothing where all have one."""
    if not left_out:
        return []

    n_left_out = left_out.total()
    is_or_are = "row has no verdict and is" if n_left_out == 1 else "rows have no verdict and are"
    counts = ", ".join(f"{word}: {count:,}" for word, count in left_out.items())
    return [f"{n_left_out:,} {is_or_are} left out ({counts})."]


def _is_other_side(cell: Any, systems: Sequence[str], meanings: Mapping[str, str]) -> bool:
    """Tell whether a winner is a place, and the name of the system in the other place: `A` where the second caption is of A."""
    text = str(cell).strip()
    if text.lower() in meanings or systems[0] == systems[1] or text not in systems:
        return False

    return _read_verdict(text.lower()) not in ("", "ab"[systems.index(text)])


def _describe_doubtful(doubtful: Mapping[str, int], winner: str) -> list[str]:
    """Say how many winners are both a place and the system in the other place, and as what they were read."""
    if not doubtful:
        return []

    word, _ = next(iter(doubtful.items()))
    n_rows = sum(doubtful.values())
    row_or_rows = "row" if n_rows == 1 else "rows"
    read_as = "system"
    remedy = "'file.winners={A: a, B: b}' takes it for the place"
    if word in STRENGTHS:
        # The letters `a` and `b` are places, whatever systems are called.
        read_as = "place"
        remedy = "rename the systems"
    return [
        f"In {n_rows:,} {row_or_rows} the {winner}, such as '{word}', is a place and the name of the system in the other place; it is "
        f"taken for the {read_as} ({remedy})."
    ]


#: From so many pairs on, strengths of one sign are of another scale more likely than by chance.
_FEWEST_STRENGTHS = 5


def describe_strengths(table: Table, strength: str | None) -> list[str]:
    """Say where strengths prefer the first caption in no pair, or the second, as numbers of another scale do."""
    if strength is None or len(table) < _FEWEST_STRENGTHS:
        return []

    numbers = [parse_number(cell) for cell in table.column(strength)]
    has_negative = any(number < 0 for number in numbers)
    has_positive = any(number > 0 for number in numbers)
    if has_negative and has_positive:
        return []
    sign, side = ("negative", "second") if has_positive else ("positive", "first")
    ties = " 0 is a tie." if 0 in numbers else ""
    return [
        f"No '{strength}' is {sign}, so that the {side} caption is better in no pair: positive numbers prefer the first one, "
        f"negative ones the second.{ties}"
    ]


def _unread_winners(winner: str, unread: Mapping[str, str]) -> InputError:
    """Return the error for words of no meaning, each with the place of its first row."""
    word, where = next(iter(unread.items()))
    numbers = [parse_number(text) for text in unread]
    if any(number < 0 for number in numbers):
        return InputError(
            f"{where}: {winner} is '{shorten(word)}'; file.strength={winner} reads numbers, positive where a is better and "
            "negative where b is"
        )

    if "0" in unread:
        return InputError(
            f"{where}: {winner} is '{shorten(word)}', and 0 is the first caption for some and a tie for others; say what each "
            "number means: 'file.winners={0: a, 1: b}' or 'file.winners={0: tie, 1: a, 2: b}'"
        )

    example_words = [text[:_SHOWN_WORD] for text in unread][:3]
    examples: list[str] = []
    for example_word, side in zip(example_words, "aba", strict=False):
        examples.append(f"{example_word}: {side}")
    usual_words = ", ".join((*STRENGTHS, "skip"))
    return InputError(
        f"{where}: {winner} is '{shorten(word)}', not one of {usual_words}, nor a system of the row; say what it means, such as "
        f"'file.winners={{{', '.join(examples)}}}' (a, b, tie or none)"
    )


def _find_winner(cell: Any, systems: Sequence[str], meanings: Mapping[str, str]) -> str:
    """Return `a`, `b`, `tie`, `none` for no verdict, or an empty text for a word of no meaning."""
    if is_missing(cell):
        return meanings.get("", "none")

    # A column of whole numbers with a gap in it is one of floats.
    is_whole = isinstance(cell, float) and cell.is_integer()
    text = str(int(cell)) if is_whole else str(cell).strip()
    if text.lower() in meanings:
        return meanings[text.lower()]
    if "0" in meanings and text.isdecimal():
        # Beside 0 the usual 1 may be the second.
        return ""
    if text in STRENGTHS:
        return text
    if systems[0] != systems[1] and text in systems:
        return "ab"[systems.index(text)]

    return _read_verdict(text.lower())


def _read_verdict(word: str) -> str:
    """Return what a word in lower case means; an empty text for nothing."""
    if word.replace("_", " ") in _TIES:
        return "tie"
    if word in _NO_VERDICT:
        return "none"

    bare = word.strip(" []()\"'.*")
    if bare in _OUTCOMES:
        return _OUTCOMES[bare]
    if match := _SIDE.fullmatch(bare):
        return _SIDES[match[1]]
    if match := _COMPARISON.fullmatch(bare):
        first = _SIDES[match[1]]
        second = _SIDES[match[3]]
        if first == second:
            return ""
        if match[2][0] in "=~":
            return "tie"
        return first if match[2][0] == ">" else second

    return ""


def read_strengths(table: Table, winner: str, strength: str | None) -> list[float]:
    """Return each row's strength: the graded one, else 1 where `a` wins, -1 where `b` does, 0 for `tie`.

    Args:
        table: the rows.
        winner: the column of winners.
        strength: the column of grades; None where there is none.

    Raises:
        InputError: on a winner that is none of the three, a strength that is not a number, or where the two columns
            disagree.
    """
    winners = None
    if winner in table or strength is None:
        winners = [text.strip() for text in table.filled(winner, "; name it with file.winner=")]
        for location, text in zip(table.places, winners, strict=True):
            if text not in STRENGTHS:
                raise InputError(
                    f"{location}: {winner} is '{text}', not one of {', '.join(STRENGTHS)}"
                )

    if strength is None:
        return [STRENGTHS[text] for text in winners or ()]

    strengths = table.floats(strength, None, "; name it with file.strength=")

    # Without winners there is nothing to compare the strengths with.
    derived_winners = derive_winners(strengths)
    for location, text, derived in zip(table.places, winners or (), derived_winners, strict=False):
        if text != derived:
            raise InputError(
                f"{location}: {winner} is {text}, and {strength} prefers {derived}; a positive strength prefers a, a "
                "negative b"
            )

    return strengths


#: The keys of pairs in a file of votes: who wrote the two captions, in two letters or in two words, and a number where
#: there are several. In AudioCaps-Eval they are two people's (HC), one of them of another recording (HI), a person's and a
#: machine's (HM), and two machines' (MM; Zhou et al. 2022, "Can Audio Captions Be Evaluated with Image Caption Metrics?").
#: Others have kinds of their own, such as HH.
_VOTES = re.compile(r"([A-Z]{2}|[A-Za-z]+-[A-Za-z]+)(?:_\d+)?")
#: The kinds that are known without a look at what stands below the key.
_KNOWN_KINDS = ("HC", "HI", "HM", "MM")
#: Where such a file names the recording, in the order of preference; `raw_name` is missing in half of AudioCaps-Eval.
_RECORDINGS = ("raw_name", "audio_id", "image_id", "file_name", "id")


def has_votes(table: Table) -> bool:
    """Tell whether a table is a file of votes: it has `references`, and a key such as `HC` or `MM_1` with pairs."""
    return "references" in table and bool(_find_kinds(table))


def _find_kinds(table: Table) -> list[str]:
    """List the keys of pairs: those that are named as kinds are, and have pairs if their kind is no known one."""
    keys: list[str] = []
    for key in table.names:
        match = _VOTES.fullmatch(key)
        if match and (match[1] in _KNOWN_KINDS or any(map(_has_form_of_pair, table.column(key)))):
            keys.append(key)
    return keys


def _has_form_of_pair(cell: Any) -> bool:
    """Tell whether a cell is a list as long as a pair with its votes, which are a list at its end."""
    return isinstance(cell, list) and len(cell) in (5, 6) and isinstance(cell[-1], list)


def count_unread_pairs(table: Table) -> str:
    """Say how many cells of a file of votes have the form of a pair below a key that names no kind; empty without any."""
    kinds = _find_kinds(table)
    counts: dict[str, int] = {}
    for key in table.names:
        n_pairs = sum(map(_has_form_of_pair, table.column(key)))
        if key not in kinds and n_pairs:
            counts[key] = n_pairs
    if not counts:
        return ""

    n_unread = sum(counts.values())
    words = "pair is" if n_unread == 1 else "pairs are"
    return (
        f"{n_unread:,} {words} not read, of the keys {', '.join(counts)}; a key of pairs is two letters or two words "
        "joined by a hyphen, and may have a number, such as HM_1 or Human-Machine_1."
    )


def read_votes(table: Table, image: str = "image") -> PairColumns:
    """Read votes on pairs of captions, as AudioCaps-Eval and Clotho-Eval have them.

    Each entry is a recording, or image, with `references`, and below keys such as `HC`, `MM_1` or `Human-Machine_1` a pair:
    `[caption_a, caption_b, source_a, source_b, [1, 0, -1, 1]]`, whose votes are 1 for a, -1 for b and 0 for neither. The
    key without its number is the dimension. Where one of the captions is a reference, both are scored without it; where
    both are, as in `HC`, each is scored without itself.

    Raises:
        InputError: where a pair is of another form.
    """
    name = image if image in table else _find_recordings(table)
    image_ids = None if name is None else table.filled(name)
    all_references = table.column("references")

    rows: list[tuple[Any, ...]] = []
    for key in _find_kinds(table):
        dimension = key.partition("_")[0]
        for number, cell in enumerate(table.column(key)):
            if cell is None:
                continue
            where = f"{table.places[number]}: {key}"
            captions, sources, votes = _read_pair(cell, where)
            texts = parse_references(all_references[number], table.places[number])

            # Where both captions are references, as in HC, each is scored beside the other.
            copied_texts = [text for text in captions if text in texts]
            references: list[tuple[str, ...]] = []
            for caption in captions:
                left_out = copied_texts if len(copied_texts) == 1 else [caption]
                references.append(tuple(text for text in texts if text not in left_out))
            if not all(references):
                raise InputError(f"{where}: no reference is left beside the pair's own captions")

            image_id = str(number) if image_ids is None else image_ids[number]
            for vote in votes:
                rows.append((where, image_id, *captions, vote, dimension, *sources, *references))

    if not rows:
        raise InputError(f"{table.path}: it has no votes")

    columns = list(zip(*rows, strict=True))
    return PairColumns(
        places=columns[0],
        image_ids=columns[1],
        captions_a=columns[2],
        captions_b=columns[3],
        strengths=columns[4],
        dimensions=columns[5],
        systems_a=columns[6],
        systems_b=columns[7],
        references=columns[8],
        references_b=columns[9],
    )


def _find_recordings(table: Table) -> str | None:
    """Return the first column that names the recording of each row; None where no column does."""
    for name in _RECORDINGS:
        if name in table and None not in table.column(name):
            return name
    return None


def _read_pair(cell: Any, where: str) -> tuple[list[str], list[str], list[float]]:
    """Return captions, sources and votes of a pair; half of AudioCaps-Eval has a number before the votes."""
    if _has_form_of_pair(cell):
        texts = cell[:4]
        votes = cell[-1]
        are_texts = all(isinstance(text, str) and text.strip() for text in texts)
        are_votes = all(vote in (1, 0, -1) for vote in votes)
        if are_texts and votes and are_votes:
            return texts[:2], texts[2:], [float(vote) for vote in votes]

    raise InputError(
        f"{where} is not [caption_a, caption_b, source_a, source_b, votes], votes being a list of 1, 0 and -1"
    )
