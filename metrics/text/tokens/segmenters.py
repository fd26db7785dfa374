"""Tokenisers of other languages than English: sacreBLEU's, on lower-case text (Post 2018).

`ptb.tokenize` calls `segmenter`; metrics name their tokeniser by `tokenize=`, as `ptb.SegmentedMetric` declares it.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Literal

from ....datasets.errors import unknown
from ....datasets.writing_systems import find_script, is_unsegmented
from ...base import UnavailableError, version_of

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
    module, class_name = _CLASSES[name]
    tokenizer = getattr(importlib.import_module(f"sacrebleu.tokenizers.{module}"), class_name)()
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
    distributions = ("sacrebleu", *(("mecab-python3", "ipadic") if name == "ja" else ()))
    return tuple(f"{distribution}:{version_of(distribution)}" for distribution in distributions)
