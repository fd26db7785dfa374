"""BERTScore (Zhang et al. 2020): greedy matching of tokens by the cosine of their embeddings.

Model, tokens and layer are bert-score's own; what it computes for equal texts over and over is
computed once here. Equal to `bert_score.score` to 1e-6 (tests/parity/test_bertscore.py).

bert-score pads the pairs of a batch to one length, and its padding takes part in the maximum as a
cosine of 0. So a token whose cosines are all negative counts 0 in most batches and what it has in
some: a score depends a little on its neighbours. Models whose cosines are all positive (RoBERTa) do
not show it; with a sentence model it moves scores by up to 0.02. `padding=ignore` is the paper's formula.

BERT-TBR (Yi et al. 2020) adds to a reference what it lacks and another has before it is matched; CLIPScore's tables call it
BERT-S++. The formula is that of the authors' released code (ck0123/improved-bertscore-for-image-captioning-evaluation,
`run_metric.py`), which gave the printed figures.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.json_files import read_text
from ..base import Floats
from ..progress import progress_counter
from ..registry import register
from ..rows import Rows
from .embeddings import FromFiles
from .models import Device
from .store import Array, Features
from .text import TextModel, TextModelMetric, load_model, load_tokenizer, quiet


@register("bertscore")
@dataclass(frozen=True)
class BertScore(TextModelMetric):
    """Precision, recall or F of BERTScore, of the best of several references, as bert-score has it.

    With x the tokens of a reference and y those of a candidate:
    R = Σ_x w(x) max_y cos(x, y) / Σ_x w(x), P likewise over y, F = 2PR/(P+R). An empty text has 0.
    Sums leave out the special tokens; a maximum is over them as well.

    Args:
        model: a folder, or a name in the weights folder, the Hugging Face cache, or of a package.
        layer: whose output is taken; None is bert-score's choice for the model, and the last layer of
            a model that it does not know.
        measure: which of the three.
        references: whether the greatest over the references counts, or their mean.
        idf: weigh word pieces by their inverse document frequency over the references of all rows.
        rescale: (score − b)/(1 − b), b being what unrelated sentences reach.
        baseline: a file of such b by layer in bert-score's format; None is its own for the model.
        padding: whether padding counts as a cosine of 0, as in bert-score, or is ignored.
        batch_size: texts, and pairs that are padded together, at a time.
        device: auto takes CUDA or MPS where they are. Numbers are float32 on all, as in bert-score.
    """

    model: str = "roberta-large"
    layer: int | None = None
    measure: Literal["f", "precision", "recall"] = "f"
    references: Literal["max", "mean"] = "max"
    idf: bool = False
    rescale: bool = False
    baseline: str | None = None
    padding: Literal["zero", "ignore"] = "zero"
    batch_size: int = 64
    device: Device = "auto"
    backend: Literal["bert_score"] = "bert_score"

    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers", "bert_score")
    distributions: ClassVar[tuple[str, ...]] = ("captau", "bert-score", "torch", "transformers")

    @property
    def depends_on_corpus(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.idf

    @property
    def depends_only_on_content(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.padding == "ignore"

    def compute(self, rows: Rows) -> Floats:
        model = self.find_model()
        layer = self._layer(model)
        baseline = self._baseline(layer) if self.rescale else None
        encoder = TokenEncoder(model, layer)
        position, features = model.of_rows(rows, f"bert-score tokens|layer {layer}", encoder)

        if full := int((features.lengths >= model.limit).sum()):
            rows.add_remark(
                self.spec, f"{full:,} texts reach the model's {model.limit} tokens, where they end"
            )
        self.note_random_weights(rows, model)

        weigh = _Plain(encoder.special)
        if self.idf:
            weigh = TokenIdf(rows, position, features, has_candidates=False)

        lengths = features.lengths
        candidate_lengths = lengths[[position[caption] for caption in rows.captions]]
        reference_lengths: list[NDArray[np.int64]] = []
        for texts in rows.references:
            reference_lengths.append(lengths[[position[text] for text in texts]])
        padded = self._padded(candidate_lengths, reference_lengths)

        combine = np.max if self.references == "max" else np.mean
        scores = np.empty((len(rows), 3))

        # The references of rows that share them are read and normalised once.
        rows_by_references: dict[tuple[str, ...], list[int]] = {}
        for i, texts in enumerate(rows.references):
            rows_by_references.setdefault(texts, []).append(i)

        for texts, same_rows in rows_by_references.items():
            references = _Side(features[[position[text] for text in texts]], weigh)
            for i in same_rows:
                candidate_position = position[rows.captions[i]]
                candidate = _Side(features[[candidate_position]], weigh)
                short_references, short_candidates = padded[i]
                by_reference = _matched(candidate, references, short_references, short_candidates)
                scores[i] = combine(by_reference, axis=1)

        if baseline is not None:
            scores = (scores - baseline) / (1 - baseline)
        return scores[:, ("precision", "recall", "f").index(self.measure)]

    def _padded(
        self, candidates: NDArray[np.int64], references: list[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Tell for each row and each of its references whether bert-score pads reference and candidate.

        Args:
            candidates: lengths in tokens, shape (n,).
            references: lengths of each row's references.
        """
        counts = [len(lengths) for lengths in references]
        candidate_rows = np.repeat(candidates, counts)
        reference_rows = np.concatenate(references)
        is_short_reference = np.zeros(len(reference_rows), dtype=bool)
        is_short_candidate = np.zeros(len(candidate_rows), dtype=bool)
        if self.padding == "zero":
            for start in range(0, len(candidate_rows), self.batch_size):
                batch = slice(start, start + self.batch_size)
                longest_reference = reference_rows[batch].max()
                longest_candidate = candidate_rows[batch].max()
                is_short_reference[batch] = reference_rows[batch] < longest_reference
                is_short_candidate[batch] = candidate_rows[batch] < longest_candidate

        padded: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []
        for count, end in zip(counts, np.cumsum(counts), strict=True):
            pairs = slice(end - count, end)
            padded.append((is_short_reference[pairs], is_short_candidate[pairs]))
        return padded

    def _layer(self, model: TextModel) -> int:
        from bert_score.utils import model2layers

        layer_count = model.config.get("num_hidden_layers") or model.config.get("num_layers")
        layers = int(layer_count or model.config.get("n_layers") or 0)
        names = (self.model, Path(self.model).name)
        layer = self.layer
        if layer is None:
            known_names = [name for name in names if name in model2layers]
            layer = model2layers[known_names[0]] if known_names else layers
        if not 0 < layer <= layers:
            raise InputError(f"metric {self.spec}: layer is {layer}; the model has 1 to {layers}")
        return layer

    def _baseline(self, layer: int) -> NDArray[np.float64]:
        """Return P, R and F of unrelated sentences, shape (3,)."""
        package = find_spec("bert_score")
        assert package is not None
        assert package.origin is not None
        baseline_folder = Path(package.origin).parent / "rescale_baseline" / "en"
        if self.baseline:
            paths = [expand_home(self.baseline)]
        else:
            # A model of the hub lies in a folder of its owner's name.
            names = (self.model, Path(self.model).name)
            paths = [baseline_folder / f"{name}.tsv" for name in names]

        files = [path for path in paths if path.is_file()]
        if not files:
            raise InputError(
                f"metric {self.spec}: no baseline to rescale by at {paths[0]}; give baseline=FILE or "
                f"leave rescale out"
            )
        path = files[0]
        with path.open(encoding="utf-8", newline="") as stream:
            rows = {row["LAYER"]: row for row in csv.DictReader(stream)}
        try:
            return np.array([float(rows[str(layer)][k]) for k in "PRF"], dtype=np.float64)
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path}: no P, R, F of layer {layer} ({error})") from error


class TokenEncoder:
    """Embeddings of one layer, loaded when the first text is not in the store.

    A feature has a row a token: its embedding, and its id as one number more, which float32 holds
    exactly.
    """

    def __init__(self, model: TextModel, layer: int) -> None:
        self.model = model
        self.layer = layer

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self.model.folder, self.model.limit)

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids that weigh nothing: of the tokens before and after a text."""
        return frozenset((self._tokenizer.sep_token_id, self._tokenizer.cls_token_id))

    @cached_property
    def _loaded(self) -> Any:
        from bert_score.utils import get_model

        path = str(self.model.folder)
        if "t5" in path and self.model.config.get("model_type") not in ("t5", "mt5"):
            raise InputError(
                f"{path}: bert-score takes any model with 't5' in its path for a T5; move the folder"
            )
        # bert-score does not check that the checkpoint fills the model; this does.
        load_model(self.model.folder)
        with quiet():
            loaded: Any = get_model(path, self.layer)
        return loaded.to(self.model.device)

    def _ids(self, text: str) -> list[int]:
        from bert_score.utils import sent_encode

        # For an empty text bert-score calls what transformers from version 5 on does not have.
        return sent_encode(self._tokenizer, text) if text.strip() else self._tokenizer.encode("")

    def __call__(self, texts: Sequence[str]) -> list[Array]:
        from bert_score.utils import bert_encode, padding

        ids = [self._ids(text) for text in texts]
        padded, lengths, mask = padding(ids, self._tokenizer.pad_token_id)
        device = self.model.device
        features = bert_encode(self._loaded, padded.to(device), mask.to(device)).cpu().numpy()

        tables: list[Array] = []
        for i, n_tokens in enumerate(lengths.tolist()):
            table = np.column_stack([features[i, :n_tokens], np.asarray(ids[i])])
            tables.append(table.astype(np.float32))

        return tables


class _Plain:
    """Every token weighs 1, the special ones nothing."""

    def __init__(self, special: frozenset[int]) -> None:
        self.special = list(special)

    def __call__(self, ids: NDArray[np.int64]) -> Floats:
        return (~np.isin(ids, self.special)).astype(np.float64)


class TokenIdf:
    """log((n + 1)/(c + 1)), c of n texts having the token; special ones too.

    Args:
        rows: a text counts as often as it is among them.
        position, features: the place of each text, and the features of `TokenEncoder`.
        has_candidates: whether candidates are among the texts; else they are the references alone.
    """

    def __init__(
        self, rows: Rows, position: dict[str, int], features: Features, *, has_candidates: bool
    ) -> None:
        times = Counter[str]()
        texts = zip(rows.captions, rows.references, rows.weights.tolist(), strict=True)
        for candidate, references, weight in texts:
            if has_candidates:
                times[candidate] += weight
            for text in references:
                times[text] += weight

        self.counts = Counter[int]()
        for text, count in times.items():
            (tokens,) = features[[position[text]]]
            for token in set(tokens[:, -1].astype(np.int64).tolist()):
                self.counts[token] += count
        self.total = times.total()

    def __call__(self, ids: NDArray[np.int64]) -> Floats:
        weights = [math.log((self.total + 1) / (self.counts[token] + 1)) for token in ids.tolist()]
        return np.array(weights)


class _Side:
    """Texts of one row side by side: all their tokens, and where each text begins."""

    def __init__(self, features: list[Array], weigh: _Plain | TokenIdf) -> None:
        table = np.concatenate(features)
        vectors = table[:, :-1]
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.weights = weigh(table[:, -1].astype(np.int64))
        self.lengths = np.array([len(feature) for feature in features])
        self.starts = np.cumsum(self.lengths) - self.lengths
        # A text of the two special tokens alone is empty.
        self.is_empty = self.lengths == 2

    def sums(self, values: Floats) -> Floats:
        """Return the sums over each text's tokens, along the last axis."""
        return np.add.reduceat(values, self.starts, axis=-1)


def _matched(
    candidate: _Side,
    references: _Side,
    short_references: NDArray[np.bool_],
    short_candidates: NDArray[np.bool_],
) -> Floats:
    """Return P, R and F of a candidate against each of its references, shape (3, references)."""
    cosines = (candidate.vectors @ references.vectors.T).astype(np.float64)
    # The greatest cosine of each candidate's token with each reference, shape (tokens, references), and of each
    # reference's token with the candidate, shape (tokens of all references,).
    of_candidate = np.maximum.reduceat(cosines, references.starts, axis=1)
    of_references = cosines.max(axis=0)

    # Padding counts as a cosine of 0, so that no maximum over a padded text is below it: that of a candidate's token over a
    # reference, and that of a reference's token over the candidate.
    of_candidate = np.where(short_references, np.maximum(of_candidate, 0), of_candidate)
    is_candidate_padded = np.repeat(short_candidates, references.lengths)
    of_references = np.where(is_candidate_padded, np.maximum(of_references, 0), of_references)

    with np.errstate(invalid="ignore", divide="ignore"):
        precision = candidate.weights @ of_candidate / candidate.weights.sum()
        weighted = references.sums(references.weights * of_references)
        recall = weighted / references.sums(references.weights)
        is_empty = references.is_empty | candidate.is_empty
        # As bert-score has it: F is of P and R before those of empty texts become 0, and is 0 itself only where it is NaN.
        f = np.nan_to_num(2 * precision * recall / (precision + recall), nan=0.0)

    precision = np.where(is_empty, 0.0, precision)
    recall = np.where(is_empty, 0.0, recall)
    return np.stack([precision, recall, f])


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
class BertTbr(TextModelMetric, FromFiles):
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

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    depends_only_on_content: ClassVar[bool] = True
    depends_on_corpus: ClassVar[bool] = True
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers", "bert_score")
    distributions: ClassVar[tuple[str, ...]] = ("captau", "bert-score", "torch", "transformers")
    file_fields: ClassVar[tuple[str, ...]] = ("stop_words",)
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {"stop_words": (".txt",)}

    def compute(self, rows: Rows) -> Floats:
        """Return scores of shape (len(rows),).

        Raises:
            InputError: where the model or the stop words cannot be read.
        """
        stop_words = frozenset(read_text(self.file("stop_words")).split())
        model = self.find_model()
        layers = int(model.config["num_hidden_layers"])
        if not 0 < self.layer <= layers:
            raise InputError(
                f"metric {self.spec}: layer is {self.layer}; the model has 1 to {layers}"
            )
        encoder = TokenEncoder(model, self.layer)
        position, features = model.of_rows(rows, f"bert-score tokens|layer {self.layer}", encoder)
        self.note_random_weights(rows, model)
        tokenizer = load_tokenizer(model.folder, model.limit)
        weigh = TokenIdf(rows, position, features, has_candidates=True)

        def make_tokens(text: str) -> Tokens:
            (table,) = features[[position[text]]]
            vectors = table[:, :-1].astype(np.float64)
            ids = table[1:-1, -1].astype(np.int64)
            return Tokens(
                vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
                tokenizer.convert_ids_to_tokens(ids.tolist()),
                weigh(ids),
            )

        own_vectors = self.added == "intended"
        scores = np.empty(len(rows))
        with progress_counter(self.spec, len(rows)) as advance:
            for i, candidate in enumerate(rows.captions):
                scores[i] = recall(
                    make_tokens(candidate),
                    [make_tokens(text) for text in rows.references[i]],
                    stop_words,
                    self.threshold,
                    own_vectors=own_vectors,
                )
                advance(1)
        return scores


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
    matched: list[list[NDArray[np.bool_]]] = []
    for matching in references:
        by_reference: list[NDArray[np.bool_]] = []
        for reference in references:
            by_reference.append(_best(matching.inner, reference.inner) > threshold)
        matched.append(by_reference)

    is_content_word = np.array([word not in stop_words for word in candidate.words], dtype=bool)

    total = 0.0
    for base, reference in enumerate(references):
        added = _find_added_tokens(base, matched)
        words = list(reference.words)
        weights = list(reference.weights)
        vectors: list[Floats] = []
        for index, k in added:
            other = references[index]
            words.append(other.words[k])
            weights.append(other.weights[k])
            # [CLS] stands before the words, so that row k is the token before word k, which the released code takes.
            row = k + 1 if own_vectors else k
            vectors.append(other.vectors[row])
        if not own_vectors:
            # It also shifts the vectors: [SEP] comes first, and the last one is lost.
            vectors = [reference.vectors[-1], *vectors][: len(added)]
        completed = np.stack([*reference.inner, *vectors]) if words else reference.inner

        best = _best(candidate.inner, completed)
        counted = best > threshold
        weight = np.asarray(weights)[counted]
        weighted = float(best[counted] @ weight / weight.sum()) if weight.sum() else 0.0

        of_content = _best(candidate.inner[is_content_word], completed)
        content = np.array([word not in stop_words for word in words], dtype=bool)
        counted = content & (of_content > threshold)
        plain = float(of_content[counted].mean()) if counted.any() else 0.0
        total += weighted * plain

    return total / len(references)


def _find_added_tokens(
    base: int, matched: Sequence[Sequence[NDArray[np.bool_]]]
) -> list[tuple[int, int]]:
    """Return the tokens that a reference gets from the others: the number of the other one, and that of its token.

    They are those of each other reference that neither this one matches, nor any before the other one.

    Args:
        base: the number of the reference that gets them.
        matched: see `recall`.
    """
    added: list[tuple[int, int]] = []
    for index in range(len(matched)):
        if index == base:
            continue
        is_matched = matched[base][index].copy()
        for earlier in range(index):
            is_matched |= matched[earlier][index]
        added += [(index, int(k)) for k in np.flatnonzero(~is_matched)]
    return added


def _best(text: Floats, tokens: Floats) -> Floats:
    """Return the greatest cosine of each token with those of a text, 0 at least, shape (len(tokens),)."""
    if not len(text):
        return np.zeros(len(tokens))
    return np.maximum((text @ tokens.T).max(axis=0, initial=0.0), 0.0)
