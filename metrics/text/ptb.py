"""The Penn Treebank tokenisation that the COCO server and pycocoevalcap apply to every caption.

Chen et al. 2015, section 3.2: Stanford's PTBTokenizer (CoreNLP 3.4.1), lower case, punctuation
removed. Each distinct text is tokenised once in the life of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...datasets.errors import InputError
from ..base import Metric, Rows
from .java import identity, jar, java, run

# What pycocoevalcap removes after tokenising.
PUNCTUATION = frozenset(
    [
        "''",
        "'",
        "``",
        "`",
        "-LRB-",
        "-RRB-",
        "-LCB-",
        "-RCB-",
        ".",
        "?",
        "!",
        ",",
        ":",
        "-",
        "--",
        "...",
        ";",
    ]
)

# What the tokeniser or a pipe takes for the end of a line; inside a caption it is white space.
_LINE_ENDS = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")

# Tokens of each text, by the Java that made them.
_known: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class TokenMetric(Metric):
    """A metric on PTB tokens, which this module, pycocoevalcap's jar and a Java make."""

    distributions: ClassVar[tuple[str, ...]] = ("captau", "pycocoevalcap")

    @property
    def programs(self) -> tuple[str, ...]:
        return (identity(),)


def tokenize(texts: Iterable[str]) -> list[str]:
    """Tokens of each text, joined by blanks, as pycocoevalcap's `PTBTokenizer` gives them.

    Args:
        texts: captions, any length; an empty one gives an empty string. A line end inside a caption
            counts as a blank (pycocoevalcap would lose step with its captions there). A text's tokens
            are its own (pycocoevalcap's depend on the next caption after "No." or "U." at the end).

    Raises:
        InputError: where Java fails.
    """
    wanted = list(texts)
    known = _known.setdefault(identity(), {})
    new = [t for t in dict.fromkeys(wanted) if t not in known]
    if new:
        known.update(zip(new, _tokenize([_LINE_ENDS.sub(" ", t) for t in new]), strict=True))
    return [known[t] for t in wanted]


def tokenized(rows: Rows) -> tuple[list[str], list[tuple[str, ...]]]:
    """The rows' candidates and references, tokenised."""

    def compute() -> tuple[list[str], list[tuple[str, ...]]]:
        texts = [*rows.candidates, *(r for refs in rows.references for r in refs)]
        tokens = iter(tokenize(texts))
        return (
            [next(tokens) for _ in rows.candidates],
            [tuple(next(tokens) for _ in refs) for refs in rows.references],
        )

    return rows.share("ptb", compute)


def _tokenize(lines: Sequence[str]) -> list[str]:
    output = run(
        [
            # A short life: the simple collector and the quick compiler start fastest.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            str(jar("tokenizer", "stanford-corenlp-3.4.1.jar")),
            "edu.stanford.nlp.process.PTBTokenizer",
            "-preserveLines",
            "-lowerCase",
        ],
        # The tokeniser reads ahead, and keeps the full stop of a last word such as "No." or "U." or
        # not by what the next line begins with. So each text is followed by a line "A", as most
        # captions begin; then its tokens do not depend on its neighbours.
        "".join(f"{line}\nA\n" for line in lines).encode("utf-8", "replace"),
    )
    back = output.decode("utf-8", "replace").split("\n")[:-1]
    if len(back) < 2 or back[-1] != "a":
        raise InputError(
            f"Java ({java()}) gave no tokens back; name another Java with java.home=DIR"
        )
    if len(back) != 2 * len(lines) or set(back[1::2]) != {"a"}:
        # Some text ends a line in a way not foreseen above. Halving finds it; alone, all that comes
        # back is its own.
        if len(lines) == 1:
            return [_without_punctuation(" ".join(back[:-1]))]
        half = len(lines) // 2
        return [*_tokenize(lines[:half]), *_tokenize(lines[half:])]
    return [_without_punctuation(line) for line in back[::2]]


def _without_punctuation(line: str) -> str:
    return " ".join(w for w in line.rstrip().split(" ") if w not in PUNCTUATION)
