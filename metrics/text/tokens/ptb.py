"""The Penn Treebank tokenisation that the COCO server and pycocoevalcap apply to every caption.

Chen et al. 2015, section 3.1: Stanford's PTBTokenizer (CoreNLP 3.4.1), lower case, punctuation
removed. `captau` is our own (`penn.py`), equal to it; `pycocoevalcap` is the Java program itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ....datasets.errors import InputError
from ...base import Metric, version_of
from ...rows import Rows
from ..java import identity, jar, java, run
from .penn import plain_words, tokens

#: Who makes the tokens.
Backend = Literal["captau", "pycocoevalcap"]

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

# What is read behind each text: the tokeniser reads ahead over the line's end, and keeps the full stop
# of a last word such as "No." or "U." or not by what the next line begins with. Most captions begin
# with "A". The rest ends what a text may have left open: a tag's quote would run on to the next text's.
_NEXT, _NEXT_TOKENS = "A \"'<", "a '' ' <"

# Of so many characters of texts the tokens are kept; then memory starts afresh.
_KEPT = 5_000_000


@dataclass
class _Memory:
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    characters: int = 0


# By who made the tokens.
_known: dict[str, _Memory] = {}
# Of texts that come again and again (`pin_tokens`); never thrown away.
_standing: dict[str, str] = {}


@dataclass(frozen=True)
class TokenMetric(Metric):
    """A metric on PTB tokens; with the backend `pycocoevalcap` its jar and a Java make them."""

    @property
    def programs(self) -> tuple[str, ...]:
        if self.parameters["backend"] != "pycocoevalcap":
            return ()
        return (f"pycocoevalcap:{version_of('pycocoevalcap')}", identity())


def tokenize(texts: Iterable[str], backend: Backend = "captau") -> list[str]:
    """Tokens of each text, joined by blanks, as pycocoevalcap's `PTBTokenizer` gives them.

    Args:
        texts: captions, any length; an empty one gives an empty string. A line end inside a caption
            counts as a blank (pycocoevalcap would lose step with its captions there). A text's tokens
            are its own (pycocoevalcap's depend on the next caption after "No." or "U." at the end).
        backend: `captau`, or `pycocoevalcap` for the Java program; what they give is equal.

    Raises:
        InputError: where Java fails.
    """
    wanted = list(texts)
    maker = identity() if backend == "pycocoevalcap" else backend
    known = _known.setdefault(maker, _Memory())
    standing = _standing if maker == "captau" else {}
    new = [t for t in dict.fromkeys(wanted) if t not in known.tokens and t not in standing]
    if new:
        lines = [_LINE_ENDS.sub(" ", t) for t in new]
        made = _tokenize(lines) if backend == "pycocoevalcap" else map(_words, lines)
        known.tokens.update(zip(new, made, strict=True))
        known.characters += sum(map(len, new))
        if known.characters > _KEPT:
            _known.pop(maker, None)
    return [standing[t] if t in standing else known.tokens[t] for t in wanted]


def pin_tokens(texts: Iterable[str]) -> None:
    """Keep the tokens of texts for as long as the process lasts.

    Of references that one submission after another is scored against: `tokenize` forgets what is more
    than it can hold.
    """
    wanted = list(dict.fromkeys(texts))
    _standing.update(zip(wanted, tokenize(wanted), strict=True))


def tokenize_rows(
    rows: Rows, backend: Backend = "captau"
) -> tuple[list[str], list[tuple[str, ...]]]:
    """The rows' candidates and references, tokenised."""

    def compute() -> tuple[list[str], list[tuple[str, ...]]]:
        texts = [*rows.captions, *(r for refs in rows.references for r in refs)]
        made = iter(tokenize(texts, backend))
        return (
            [next(made) for _ in rows.captions],
            [tuple(next(made) for _ in refs) for refs in rows.references],
        )

    return rows.compute_once(f"ptb {backend}", compute)


def _words(line: str) -> str:
    words = plain_words(line)
    return by_rules(line) if words is None else words


def by_rules(text: str) -> str:
    """What `tokenize` gives for one text, by the full rules, also where a short cut would do."""
    return _without_punctuation(" ".join(tokens(_LINE_ENDS.sub(" ", text))))


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
        "".join(f"{line}\n{_NEXT}\n" for line in lines).encode("utf-8", "replace"),
    )
    back = output.decode("utf-8", "replace").split("\n")[:-1]
    if len(back) < 2 or back[-1] != _NEXT_TOKENS:
        raise InputError(
            f"Java ({java()}) gave no tokens back; name another Java with java.home=DIR"
        )
    if len(back) != 2 * len(lines) or set(back[1::2]) != {_NEXT_TOKENS}:
        # Some text ends a line in a way not foreseen above. Halving finds it; alone, all that comes
        # back is its own.
        if len(lines) == 1:
            return [_without_punctuation(" ".join(back[:-1]))]
        half = len(lines) // 2
        return [*_tokenize(lines[:half]), *_tokenize(lines[half:])]
    return [_without_punctuation(line) for line in back[::2]]


def _without_punctuation(line: str) -> str:
    return " ".join(w for w in line.rstrip().split(" ") if w not in PUNCTUATION)
