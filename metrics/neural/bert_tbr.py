"""BERT-TBR (Yi et al. 2020): what one reference lacks and another has is added before it is matched.

CLIPScore's tables call it BERT-S++. The formula is that of the authors' released code
(ck0123/improved-bertscore-for-image-captioning-evaluation, `run_metric.py`), which gave the printed
figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.reading.json_files import read_text
from ..base import Floats
from ..progress import progress_counter
from ..registry import register
from ..rows import Rows
from .bertscore import TokenEncoder
from .device import TURN, Device, resolve
from .from_files import FromFiles
from .text import TextModel, load_tokenizer
from .weights import model_programs, need_extra, random_note, transformers_folder


@dataclass(frozen=True)
class Tokens:
    """A text as the model sees it.

    Attributes:
        vectors: of length 1, shape (n_tokens + 2, dimensions), [CLS] first and [SEP] last.
        words: the tokens between these.
        weights: their idf, shape (n_tokens,).
    """

    vectors: Floats
    words: Sequence[str]
    weights: Floats

    @property
    def inner(self) -> Floats:
        return self.vectors[1:-1]


@register("bert_tbr")
@dataclass(frozen=True)
class BertTbr(FromFiles):
    """Recall of references that were completed by each other, with and without stop words.

    A token t is matched by a text where its best cosine with the text's tokens, b(t), is above the
    threshold. Each reference r gets every token of another reference that r does not match, unless
    a reference before that other one does; of the completed reference r⁺ and the candidate,

        score = mean_r (Σ idf(t) b(t) / Σ idf(t)) · mean b(t'),

    where t runs over the matched tokens of r⁺, and t' over those which are no stop words and whose
    match is none. A sum over nothing is 0. idf(t) = log((n + 1) / (c + 1)), c of the n references and
    candidates of all rows having t.

    In the released code the vector of an added token is by mistake that of the token before it in
    its reference, and is shifted by one more place, so that the first is [SEP] and the last is lost;
    `added=intended` takes each token's own vector.

    Args:
        model: a folder, or a name as of `bertscore`.
        layer: whose output is taken.
        threshold: above which cosine a token is matched.
        stop_words: a file of them, a line each; the authors' is `stop_word_list.txt` in their
            repository.
        added: which vectors added tokens have.
        batch_size: texts at a time.
        device: auto takes CUDA or MPS where they are.
    """

    model: str = "bert-base-uncased"
    layer: int = 8
    threshold: float = 0.4
    stop_words: str | None = None
    added: Literal["released", "intended"] = "released"
    batch_size: int = 64
    device: Device = "auto"
    backend: Literal["captau"] = "captau"

    depends_only_on_content: ClassVar[bool] = True
    depends_on_corpus: ClassVar[bool] = True
    lock: ClassVar[AbstractContextManager[Any]] = TURN
    distributions: ClassVar[tuple[str, ...]] = ("captau", "bert-score", "torch", "transformers")
    file_fields: ClassVar[tuple[str, ...]] = ("stop_words",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"stop_words": (".txt",)}

    @property
    def name(self) -> str:
        return "bert_tbr"

    @property
    def programs(self) -> tuple[str, ...]:
        return (*super().programs, *model_programs(self.spec, self.model, self.device))

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        need_extra(self.spec, ("torch", "transformers", "bert_score"))
        transformers_folder(self.spec, self.model)

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where the model or the stop words cannot be read.
        """
        stop_words = frozenset(read_text(self.file("stop_words")).split())
        folder = transformers_folder(self.spec, self.model)
        model = TextModel(self.spec, folder, resolve(self.device), self.batch_size)
        layers = int(model.config["num_hidden_layers"])
        if not 0 < self.layer <= layers:
            raise InputError(
                f"metric {self.spec}: layer is {self.layer}; the model has 1 to {layers}"
            )
        encoder = TokenEncoder(model, self.layer)
        position, features = model.of_rows(rows, f"bert-score tokens|layer {self.layer}", encoder)
        if note := random_note(folder):
            rows.add_remark(self.spec, note)
        tokenizer = load_tokenizer(folder, model.limit)
        weigh = AllTextsIdf(
            rows, lambda text: features[[position[text]]][0][:, -1].astype(np.int64)
        )

        def of(text: str) -> Tokens:
            table = features[[position[text]]][0]
            vectors = table[:, :-1].astype(np.float64)
            ids = table[1:-1, -1].astype(np.int64)
            return Tokens(
                vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
                tokenizer.convert_ids_to_tokens(ids.tolist()),
                weigh(ids),
            )

        uses_own_words = self.added == "intended"
        scores = np.empty(len(rows))
        with progress_counter(self.spec, len(rows)) as advance:
            for i, (candidate, refs) in enumerate(zip(rows.captions, rows.references, strict=True)):
                scores[i] = recall(
                    of(candidate),
                    list(map(of, refs)),
                    stop_words,
                    self.threshold,
                    own_vectors=uses_own_words,
                )
                advance(1)
        return scores


class AllTextsIdf:
    """log((n + 1) / (c + 1)), c of the n references and candidates of all rows having the token."""

    def __init__(self, rows: Rows, ids: Callable[[str], NDArray[np.int64]]) -> None:
        times = Counter[str]()
        texts = zip(rows.captions, rows.references, rows.weights.tolist(), strict=True)
        for candidate, references, weight in texts:
            for text in (candidate, *references):
                times[text] += weight
        self.counts = Counter[int]()
        for text, n in times.items():
            for token in set(ids(text).tolist()):
                self.counts[token] += n
        self.total = times.total()

    def __call__(self, ids: NDArray[np.int64]) -> Floats:
        return np.array([math.log((self.total + 1) / (self.counts[i] + 1)) for i in ids.tolist()])


def recall(
    candidate: Tokens,
    references: Sequence[Tokens],
    stop_words: Collection[str],
    threshold: float,
    *,
    own_vectors: bool,
) -> float:
    """Return the score of one candidate; see `BertTbr`.

    Args:
        own_vectors: whether an added token has its own vector (`added=intended`).
    """
    # matched[i][j]: which tokens of reference j reference i matches.
    matched = [[_best(i.inner, j.inner) > threshold for j in references] for i in references]
    is_content_word = np.array([w not in stop_words for w in candidate.words], dtype=bool)
    total = 0.0
    for base, reference in enumerate(references):
        added = [
            (reference_index, int(k))
            for reference_index in range(len(references))
            if reference_index != base
            for k in np.flatnonzero(~matched[base][reference_index])
            if not any(matched[i][reference_index][k] for i in range(reference_index) if i != base)
        ]
        words = [*reference.words, *(references[j].words[k] for j, k in added)]
        weights = [*reference.weights, *(references[j].weights[k] for j, k in added)]
        if own_vectors:
            vectors = [references[j].vectors[k + 1] for j, k in added]
        else:
            # Row k of `vectors` is the token before the k-th.
            vectors = [reference.vectors[-1], *(references[j].vectors[k] for j, k in added)]
            vectors = vectors[: len(added)]
        completed = np.stack([*reference.inner, *vectors]) if words else reference.inner
        best = _best(candidate.inner, completed)
        counted = best > threshold
        weight = np.asarray(weights)[counted]
        weighted = float(best[counted] @ weight / weight.sum()) if weight.sum() else 0.0
        of_content = _best(candidate.inner[is_content_word], completed)
        content = np.array([w not in stop_words for w in words], dtype=bool)
        counted = content & (of_content > threshold)
        plain = float(of_content[counted].mean()) if counted.any() else 0.0
        total += weighted * plain
    return total / len(references)


def _best(text: Floats, tokens: Floats) -> Floats:
    """The greatest cosine of each token with those of a text, 0 at least, shape (len(tokens),)."""
    if not len(text):
        return np.zeros(len(tokens))
    return np.maximum((text @ tokens.T).max(axis=0, initial=0.0), 0.0)
