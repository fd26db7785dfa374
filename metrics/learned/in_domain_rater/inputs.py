"""The inputs of the in-domain rater: how alike a candidate and its references are, also in the light of other images.

Similarities are those of a frozen model's states, n-grams and scene graphs (`compute_similarities`). No row's similarities
depend on the other rows. From the training images' references only, without any rating, `Background` learns two things:

- which differences are mere wording: embeddings of one image's references differ by noise, those of
  different images by content. Probabilistic linear discriminant analysis (Prince and Elder 2007; the
  two-covariance form) finds directions in which the noise has variance 1, and gives the likelihood ratio of
  the candidate being one more caption of the image against its being any image's;
- what else people say of such an image: an embedding is smoothed, by the mean of the images near it.

An image that has one of the row's own texts among its references is no neighbour of that row. So neither a
training row's own image, nor the image that a candidate was borrowed from, is of any help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....datasets.caption_texts import comparison_form
from ...base import Floats
from ...neural.store import Array, FeatureStore, key_of
from ...progress import progress_counter
from ...registry import metric as make_metric
from ...rows import Rows
from ...text.spice import models as spice_models
from ..captau_rater import analyse_discriminants
from ..common.encoder_recipe import TextStates, normalise, normalise_states, weigh_tokens

SPICE_METRICS = (
    *("spice", "spice_precision", "spice_recall", "spice_object", "spice_relation"),
    *("spice_attribute", "spice_color", "spice_count", "spice_size"),
)


def has_parser() -> bool:
    """Say whether the parser's files are on this machine."""
    return not spice_models.missing_jars(spice_models.jar_folder())


#: Standard deviations beyond which an input is clipped.
CLIP = 4.0
#: Quantiles of similarities over a row's references; with five references, each one's.
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Precision and recall of tokens may add up to 0 or less; their F would explode there.
MIN_SUM = 0.1
#: The store's name for what `_ReferenceStates` computes; to be changed with it.
SIMILARITIES_VERSION = "captau similarities 1"
NGRAM_METRICS = (
    *("bleu_1", "bleu_2", "bleu_3", "bleu_4"),
    *("rouge_1", "rouge_2", "rouge_s", "rouge_l", "meteor"),
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
    keys = [
        key_of("\0".join([c, *sorted(rs)]))
        for c, rs in zip(rows.captions, rows.references, strict=True)
    ]

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

    metrics = [*NGRAM_METRICS, *(SPICE_METRICS if has_spice else ())]
    state_store = FeatureStore.of(f"{SIMILARITIES_VERSION}|{texts.signature}")
    metric_store = FeatureStore.of("|".join(make_metric(m).signature for m in metrics))
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
        self.starts = np.cumsum([0, *(t.shape[1] for t in tokens[:-1])])
        self.weights = np.concatenate([weigh_tokens(t.shape[1]) for t in tokens])
        self.length = float(np.mean([t.shape[1] for t in tokens]))
        self.sentences = np.stack(sentences, axis=1)  # (4, n_references, width)
        centroids = self.sentences.mean(1)
        self.centroids = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
        self.agreements: dict[str, float] = {}
        upper = np.triu_indices(self.sentences.shape[1], 1)
        for layer in range(4):
            cosines = (self.sentences[layer] @ self.sentences[layer].T)[upper]
            cosines = cosines if cosines.size else np.ones(1)
            for name, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
                self.agreements[f"agreement_{layer}_{name}"] = float(reduce(cosines))

    def compare(self, states: Array) -> dict[str, float]:
        """Return the similarities of a candidate with the references, by name."""
        tokens, sentence = normalise_states(states)
        weights = weigh_tokens(tokens.shape[1])
        result = dict(self.agreements)
        length = tokens.shape[1]
        result["length"], result["references_length"] = np.log(length), np.log(self.length)
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
    columns = {m: [m, f"{m}_undefined"] if m in SPICE_METRICS else [m] for m in metrics}
    return [column for names in columns.values() for column in names]


#: Lower temperatures make the weight of a neighbour fall faster with its cosine. Vectors use the first.
TEMPERATURES = (0.05, 0.1)
#: The share of a spherical covariance in that of wording, which few captions determine poorly.
SPHERICAL_SHARE = 0.3
_CHUNK = 1024


@dataclass(frozen=True)
class Background:
    """Statistics of the training images' references; the arrays are saved under these names.

    Attributes:
        centroids: of each image's references at the encoder's last layer, of length 1, shape (n_images, width).
        captions: hashes of their texts, shape (n_images, most captions), padded with 0.
        means: of all references by layer, shape (4, width).
        axes: their columns are axes along which wording has variance 1 and no covariance,
            shape (4, width, width).
        variances: between images along each axis, shape (4, width).
    """

    centroids: NDArray[np.float32]
    captions: NDArray[np.int64]
    means: Floats
    axes: Floats
    variances: Floats

    NAMES: ClassVar[tuple[str, ...]] = (
        *(f"same_image_{layer}_{name}" for layer in range(4) for name in ("ratio", "near", "far")),
        *(f"smoothed_{t:g}_{side}" for t in TEMPERATURES for side in ("both", "left", "right")),
    )

    @classmethod
    def learn(cls, texts: TextStates, rows: Rows) -> Background:
        """Learn from the references of rows: of each image, those of its first row."""
        images, first = np.unique(rows.frame["image_id"].to_numpy(dtype=np.str_), return_index=True)
        references = [texts.references[i] for i in first]
        hashes = [sorted({_hash(text) for text in rows.references[i]}) for i in first]
        captions = np.zeros((len(images), max(map(len, hashes))), dtype=np.int64)
        for row, image_hashes in zip(captions, hashes, strict=True):
            row[: len(image_hashes)] = image_hashes
        sentences = texts.sentences.astype(np.float64)
        centroids = np.stack([sentences[own, -1].mean(0) for own in references])
        statistics = [
            analyse_discriminants([sentences[own, layer] for own in references], SPHERICAL_SHARE)
            for layer in range(4)
        ]
        means, axes, variances = map(np.stack, zip(*statistics, strict=True))
        return cls(normalise(centroids).astype(np.float32), captions, means, axes, variances)

    def compare(self, texts: TextStates, rows: Rows) -> tuple[Floats, Array]:
        """Compare each row's candidate with its references.

        Returns:
            values of `NAMES`, shape (n_rows, len(NAMES)); product and absolute difference of the smoothed
            embeddings, shape (n_rows, 2 × width), float32.
        """
        # In 64 bits, since temperatures would magnify differences of rounding from batch to batch.
        sentences = texts.sentences.astype(np.float64)
        candidates = sentences[np.array(texts.candidates)]
        references = np.stack([sentences[own].mean(0) for own in texts.references])
        counts = np.array([len(own) for own in texts.references])[:, None]
        ratios = [
            self._compare_images(candidates[:, layer], references[:, layer], counts, layer)
            for layer in range(4)
        ]
        last_candidates, last_references = candidates[:, -1], normalise(references[:, -1])
        own_images = self._find_own_images(rows)
        chunks = [slice(start, start + _CHUNK) for start in range(0, len(rows), _CHUNK)]
        parts = [
            self._compare_smoothed(last_candidates[c], last_references[c], own_images[c])
            for c in chunks
        ]
        smoothed, vectors = map(np.concatenate, zip(*parts, strict=True))
        return np.hstack([*ratios, smoothed]), vectors

    def _compare_images(
        self, candidates: Floats, references: Floats, counts: Array, layer: int
    ) -> Floats:
        """Return the log likelihood ratio of one image against two, and two cosines, shape (n, 3).

        In the second cosine, axes that separate images well count more than in the first.
        """
        variance = self.variances[layer]
        x = (candidates - self.means[layer]) @ self.axes[layer]
        y = (references - self.means[layer]) @ self.axes[layer]
        # The posterior of the image given its references: mean along the axes, and variance.
        precision = counts * variance + 1
        posterior, spread = counts * variance / precision * y, variance / precision + 1
        ratio = (np.log(variance + 1) - np.log(spread)).sum(1) + (
            x**2 / (variance + 1) - (x - posterior) ** 2 / spread
        ).sum(1)
        share = np.sqrt(variance / (1 + variance))
        near, far = (
            (normalise(x * weight) * normalise(y * weight)).sum(1) for weight in (share, share**2)
        )
        return np.column_stack([ratio / 2, near, far])

    def _compare_smoothed(
        self, candidates: Floats, references: Floats, own_images: list[list[int]]
    ) -> tuple[Floats, Array]:
        """Return cosines of smoothed with smoothed or raw embeddings, and products and differences."""
        scores = [side @ self.centroids.T for side in (candidates, references)]
        for row, images in enumerate(own_images):
            for side in scores:
                side[row, images] = -np.inf
        cosines: list[Floats] = []
        vectors: list[Floats] = []
        for temperature in TEMPERATURES:
            x = self._smooth(candidates, scores[0], temperature)
            y = self._smooth(references, scores[1], temperature)
            pairs = ((x, y), (x, references), (candidates, y))
            cosines += [(a * b).sum(1) for a, b in pairs]
            vectors += [x * y, np.abs(x - y)]
        return np.column_stack(cosines), np.hstack(vectors[:2]).astype(np.float32)

    def _smooth(self, vectors: Floats, scores: Floats, temperature: float) -> Floats:
        """Return the weighted mean of each vector's neighbours; without any, the vector itself."""
        top = scores.max(1, keepdims=True)
        is_alone = np.isneginf(top)
        weights = np.exp((scores - np.where(is_alone, 0, top)) / temperature)
        return normalise(np.where(is_alone, vectors, weights @ self.centroids))

    def _find_own_images(self, rows: Rows) -> list[list[int]]:
        """Return, for each row, the images that have one of its texts among their references."""
        owners: dict[int, list[int]] = {}
        for image, hashes in enumerate(self.captions.tolist()):
            for number in filter(None, hashes):
                owners.setdefault(number, []).append(image)
        return [
            [image for text in {c, *rs} for image in owners.get(_hash(text), ())]
            for c, rs in zip(rows.captions, rows.references, strict=True)
        ]


def _hash(text: str) -> int:
    """Return the hash of a caption's normal form; never 0, which pads."""
    return int.from_bytes(key_of(comparison_form(text))[:7], "little") + 1
