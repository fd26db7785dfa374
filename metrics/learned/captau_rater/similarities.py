"""Similarities of a candidate and its references, the inputs of the rater that learns from ratings.

Similarities are those of a frozen model's states, n-grams and scene graphs. No row's similarities depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from ...base import Floats
from ...neural.store import Array, FeatureStore, key_of
from ...progress import progress_counter
from ...registry import metric as make_metric
from ...rows import Rows
from ...text.spice import models as spice_models
from ..common.encoder_recipe import TextStates, normalise_states, weigh_tokens

SPICE_METRICS = (
    "spice",
    "spice_precision",
    "spice_recall",
    "spice_object",
    "spice_relation",
    "spice_attribute",
    "spice_color",
    "spice_count",
    "spice_size",
)


def has_parser() -> bool:
    """Say whether the parser's files are on this machine."""
    return not spice_models.missing_jars(spice_models.jar_folder())


#: Quantiles of similarities over a row's references; with five references, each one's.
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Precision and recall of tokens may add up to 0 or less; their F would explode there.
MIN_SUM = 0.1
#: The store's name for what `_ReferenceStates` computes; to be changed with it.
SIMILARITIES_VERSION = "captau similarities 1"
NGRAM_METRICS = (
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "bleu_4",
    "rouge_1",
    "rouge_2",
    "rouge_s",
    "rouge_l",
    "meteor",
)


def select_layers(n_layers: int) -> tuple[int, int, int, int]:
    """Return the layers whose states are stored: the embeddings, the middle, and the last two."""
    return 0, n_layers // 2, n_layers - 1, n_layers


def compute_similarities(
    texts: TextStates, rows: Rows, *, has_spice: bool
) -> tuple[list[str], Floats]:
    """Compute similarities by states and n-gram metrics, and SPICE's, through the feature store.

    Returns:
        names, and values of shape (n_rows, n_names).
    """
    keys: list[bytes] = []
    for caption, references in zip(rows.captions, rows.references, strict=True):
        keys.append(key_of("\0".join([caption, *sorted(references)])))

    def compare_states(missing: list[int]) -> Iterator[tuple[list[int], list[Array]]]:
        # Rows with the same references stand together, so that these are read once.
        order = sorted(missing, key=texts.references.__getitem__)
        with progress_counter("similarities, rows", len(order)) as advance:
            for own_references, same_rows in groupby(order, key=texts.references.__getitem__):
                references = _ReferenceStates(texts.states(own_references))
                for i in same_rows:
                    similarities = references.compare(texts.states([texts.candidates[i]])[0])
                    yield [i], [np.array(list(similarities.values()))]
                    advance(1)

    def compute_metrics(missing: list[int]) -> Iterator[tuple[list[int], list[Array]]]:
        yield missing, list(_compute_metrics(Rows(rows.frame.iloc[missing]), metrics))

    metrics: list[str] = list(NGRAM_METRICS)
    if has_spice:
        metrics += SPICE_METRICS
    state_store = FeatureStore.of(f"{SIMILARITIES_VERSION}|{texts.signature}")
    metric_store = FeatureStore.of("|".join(make_metric(name).signature for name in metrics))
    by_states = state_store.get(keys, compare_states)
    by_metrics = metric_store.get(keys, compute_metrics)
    index = np.arange(len(keys))
    names = [*_state_similarity_names(), *_metric_column_names(metrics)]
    return names, np.hstack([by_states[index], by_metrics[index]])


def _state_similarity_names() -> list[str]:
    states = np.ones((3, 4, 1), dtype=np.float32)
    return list(_ReferenceStates([states]).compare(states))


class _ReferenceStates:
    """States of a row's references, to be compared with candidates'.

    At each of the four layers: cosines of mean-pooled embeddings (quantiles over the references, mean,
    with their centroid); precision, recall and F of greedily matched tokens, without special ones
    (greatest, least, mean); the references' likeness to each other. And lengths.
    """

    def __init__(self, states: list[Array]) -> None:
        tokens, sentences = zip(*map(normalise_states, states), strict=True)
        self.tokens = np.concatenate(tokens, axis=1)
        lengths = [tokens_of_text.shape[1] for tokens_of_text in tokens]
        self.starts = np.cumsum([0, *lengths[:-1]])
        self.weights = np.concatenate([weigh_tokens(length) for length in lengths])
        self.length = float(np.mean(lengths))

        self.sentences = np.stack(sentences, axis=1)  # (4, n_references, width)
        centroids = self.sentences.mean(1)
        self.centroids = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)

        self.agreements: dict[str, float] = {}
        upper = np.triu_indices(self.sentences.shape[1], 1)
        for layer in range(4):
            cosines = (self.sentences[layer] @ self.sentences[layer].T)[upper]
            if not cosines.size:  # a single reference agrees with itself
                cosines = np.ones(1)
            for name, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
                self.agreements[f"agreement_{layer}_{name}"] = float(reduce(cosines))

    def compare(self, states: Array) -> dict[str, float]:
        """Return the similarities of a candidate with the references, by name."""
        tokens, sentence = normalise_states(states)
        length = tokens.shape[1]
        weights = weigh_tokens(length)

        result = dict(self.agreements)
        result["length"] = np.log(length)
        result["references_length"] = np.log(self.length)
        result["length_ratio"] = np.log(length / self.length)

        cosines = np.einsum("ld,lrd->lr", sentence, self.sentences)
        centroid = (sentence * self.centroids).sum(1)

        table = tokens @ self.tokens.transpose(0, 2, 1)  # (4, n_tokens, n_tokens of all references)
        best = np.maximum.reduceat(table, self.starts, axis=2)
        precision = np.einsum("lar,a->lr", best, weights) / weights.sum()
        totals = np.add.reduceat(self.weights, self.starts)
        recall = np.add.reduceat(table.max(1) * self.weights, self.starts, axis=1) / totals
        f_score = 2 * precision * recall / np.maximum(precision + recall, MIN_SUM)
        anywhere = table.max(2)

        for layer in range(4):
            quantiles = np.quantile(cosines[layer], QUANTILES)
            for share, quantile in zip(QUANTILES, quantiles, strict=True):
                result[f"cosine_{layer}_{share:g}"] = quantile
            result[f"cosine_{layer}_mean"] = cosines[layer].mean()
            result[f"centroid_{layer}"] = centroid[layer]
            for name, scores in (("precision", precision), ("recall", recall), ("f", f_score)):
                result[f"{name}_{layer}_max"] = scores[layer].max()
                result[f"{name}_{layer}_mean"] = scores[layer].mean()
            result[f"f_{layer}_min"] = f_score[layer].min()
            result[f"anywhere_{layer}_mean"] = anywhere[layer] @ weights / weights.sum()
            result[f"anywhere_{layer}_min"] = anywhere[layer][weights > 0].min()

        return {name: float(value) for name, value in result.items()}


def compute_comparison_vectors(texts: TextStates) -> Array:
    """Compare each candidate's embedding with the centroid of its references, element by element.

    Returns:
        their product and absolute difference, by layer, shape (n_rows, 8 × width), float32.
    """
    sentences = texts.sentences
    vectors: list[Array] = []
    for candidate, references in zip(texts.candidates, texts.references, strict=True):
        centroids = sentences[references].mean(0)
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)

        embedding = sentences[candidate]
        pair = [embedding * centroids, np.abs(embedding - centroids)]
        vectors.append(np.concatenate(pair).ravel())
    return np.stack(vectors)


def _compute_metrics(rows: Rows, metrics: Sequence[str]) -> Floats:
    """Return metrics' scores, and for each of SPICE's a column of where it is undefined.

    A part of SPICE that is undefined, because no text has such tuples, is 0.
    """
    columns: list[Floats] = []
    for name in metrics:
        scores = make_metric(name).score(rows)
        is_undefined = np.isnan(scores)
        columns.append(np.where(is_undefined, 0.0, scores))
        if name in SPICE_METRICS:
            columns.append(is_undefined.astype(np.float64))

    return np.stack(columns, 1)


def _metric_column_names(metrics: Sequence[str]) -> list[str]:
    columns: list[str] = []
    for name in metrics:
        columns.append(name)
        if name in SPICE_METRICS:
            columns.append(f"{name}_undefined")
    return columns
