"""What captau's own rater sees of rows: texts as a language model's states, and frozen similarities.

`Texts` keeps a model's states of each distinct text, at four layers, in the feature store. `similarities`
are those of a candidate and its references by these states, by n-grams and by scene graphs; `likeness` is
vectors of what the two share. None of it depends on the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...base import Floats
from ...neural.store import Array, FeatureStore, key_of
from ...neural.text import Encoder, TextModel
from ...progress import progress_counter
from ...registry import metric
from ...rows import Rows

#: Where similarities to several references are read off; of five references, at each one's.
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Precision and recall of tokens may add up to nothing or less; their F would explode there.
LEAST_SUM = 0.1
#: To be changed where `_References` computes anything else, for the store.
DESCRIBED = "captau similarities 1"
NGRAMS = (
    *("bleu_1", "bleu_2", "bleu_3", "bleu_4"),
    *("rouge_1", "rouge_2", "rouge_s", "rouge_l", "meteor"),
)
SCENES = (
    *("spice", "spice_precision", "spice_recall", "spice_object", "spice_relation"),
    *("spice_attribute", "spice_color", "spice_count", "spice_size"),
)


def kept_layers(layers: int) -> tuple[int, int, int, int]:
    """The layers whose states are kept: the embeddings, the middle, and the last two."""
    return 0, layers // 2, layers - 1, layers


class Texts:
    """The distinct texts of rows, and a model's states of them.

    Args:
        rows: with references.
        model: whose states; its batch size moves them by float32's rounding alone.
        limit: the most tokens that are read of a text.

    Attributes:
        candidates: each row's text, by number.
        references: each row's, in the texts' own order, so that the order given cannot matter.
        lengths: of the texts in tokens, the special ones included, shape (n_texts,).
    """

    def __init__(self, rows: Rows, model: TextModel, limit: int) -> None:
        encoder = _States(model, kept_layers(model.layers), min(limit, model.limit))
        what = f"states|layers {encoder.layers}|{encoder.limit} tokens|float16"
        position, self._found = model.of_rows(rows, what, encoder)
        self.candidates = [position[c] for c in rows.captions]
        self.references = [[position[r] for r in sorted(rs)] for rs in rows.references]
        self.lengths = self._found.lengths
        self.signature = f"{what}|{model.signature}"

    def states(self, texts: Sequence[int] | NDArray[np.integer]) -> list[Array]:
        """Of each text, shape (n_tokens, 4, width), float32."""
        return [s.reshape(len(s), 4, -1).astype(np.float32) for s in self._found[np.asarray(texts)]]

    @cached_property
    def sentences(self) -> Array:
        """Each text's mean state at the four layers, of length 1, shape (n_texts, 4, width), float32."""
        return np.stack([_directions(s)[1] for s in self.states(range(len(self.lengths)))])

    def middle(self, texts: NDArray[np.integer]) -> tuple[Array, NDArray[np.int64]]:
        """States of the middle layer, one text's after the other's, and the texts' lengths."""
        found = [s.reshape(len(s), 4, -1)[:, 1] for s in self._found[texts]]
        return np.concatenate(found).astype(np.float32), self.lengths[texts]


class _States(Encoder):
    """A model's states at some layers, side by side."""

    def __init__(self, model: TextModel, layers: tuple[int, ...], limit: int) -> None:
        super().__init__(model, limit)
        self.layers = layers

    def __call__(self, texts: Sequence[str]) -> list[Array]:
        import torch

        tokens = self._tokens(texts)
        with torch.inference_mode():
            states = self._loaded(**tokens, output_hidden_states=True).hidden_states
            table = torch.cat([states[layer] for layer in self.layers], dim=2)
        lengths = tokens["attention_mask"].sum(1).tolist()
        found = table.half().cpu().numpy()
        return [found[i, :n] for i, n in enumerate(lengths)]


def similarities(texts: Texts, rows: Rows, *, spice: bool) -> tuple[list[str], Floats]:
    """What a frozen model, n-gram metrics and, if wanted, SPICE say of rows, from the feature store.

    Returns:
        names, and values of shape (n_rows, n_names).
    """
    keys = [
        key_of("\0".join([c, *sorted(rs)]))
        for c, rs in zip(rows.captions, rows.references, strict=True)
    ]

    def described(todo: list[int]) -> Iterator[tuple[list[int], list[Array]]]:
        # Rows of the same references stand together, which are read once then.
        order = sorted(todo, key=lambda i: texts.references[i])
        last: list[int] | None = None
        side: _References | None = None
        with progress_counter("similarities, rows", len(order)) as advance:
            for i in order:
                if texts.references[i] != last or side is None:
                    last = texts.references[i]
                    side = _References(texts.states(last))
                found = side.compared(texts.states([texts.candidates[i]])[0])
                yield [i], [np.array(list(found.values()))]
                advance(1)

    def worded(todo: list[int]) -> Iterator[tuple[list[int], list[Array]]]:
        yield todo, list(np.stack(list(wordings(Rows(rows.frame.iloc[todo]), names).values()), 1))

    names = [*NGRAMS, *(SCENES if spice else ())]
    signature = f"{DESCRIBED}|{texts.signature}"
    store = FeatureStore.of(signature).get(keys, described)
    by_words = FeatureStore.of("|".join(metric(n).signature for n in names)).get(keys, worded)
    every = np.arange(len(keys))
    return _described_names() + _worded_names(names), np.hstack([store[every], by_words[every]])


def _described_names() -> list[str]:
    states = np.ones((3, 4, 1), dtype=np.float32)
    return list(_References([states]).compared(states))


class _References:
    """References of a row, ready to be compared with candidates.

    At each of the four layers: cosines of mean-pooled embeddings (quantiles over the references, mean,
    with their centroid); precision, recall and F of greedily matched tokens, special ones left out
    (greatest, least, mean); how like each other the references are. And lengths.
    """

    def __init__(self, states: list[Array]) -> None:
        tokens, self.sentences = zip(*map(_directions, states), strict=True)
        self.tokens = np.concatenate(tokens, axis=1)
        self.starts = np.cumsum([0, *(t.shape[1] for t in tokens[:-1])])
        self.inner = np.concatenate([_inner(t.shape[1]) for t in tokens])
        self.length = float(np.mean([t.shape[1] for t in tokens]))
        stacked = np.stack(self.sentences, axis=1)  # (4, n_references, width)
        self.stacked = stacked
        centroids = stacked.mean(1)
        self.centroids = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
        self.own: dict[str, float] = {}
        above = np.triu_indices(stacked.shape[1], 1)
        for layer in range(4):
            likeness = (stacked[layer] @ stacked[layer].T)[above]
            likeness = likeness if likeness.size else np.ones(1)
            for name, of in (("mean", np.mean), ("min", np.min), ("max", np.max)):
                self.own[f"agreement_{layer}_{name}"] = float(of(likeness))

    def compared(self, states: Array) -> dict[str, float]:
        tokens, sentence = _directions(states)
        inner = _inner(tokens.shape[1])
        found = dict(self.own)
        length = tokens.shape[1]
        found["length"], found["references_length"] = np.log(length), np.log(self.length)
        found["length_ratio"] = np.log(length / self.length)
        cosines = np.einsum("ld,lrd->lr", sentence, self.stacked)
        centroid = (sentence * self.centroids).sum(1)
        table = tokens @ self.tokens.transpose(0, 2, 1)  # (4, n_tokens, n_tokens of all references)
        best = np.maximum.reduceat(table, self.starts, axis=2)
        precision = np.einsum("lar,a->lr", best, inner) / inner.sum()
        share = np.add.reduceat(self.inner, self.starts)
        recall = np.add.reduceat(table.max(1) * self.inner, self.starts, axis=1) / share
        both = 2 * precision * recall / np.maximum(precision + recall, LEAST_SUM)
        anywhere = table.max(2)
        for layer in range(4):
            for at, value in zip(QUANTILES, np.quantile(cosines[layer], QUANTILES), strict=True):
                found[f"cosine_{layer}_{at:g}"] = value
            found[f"cosine_{layer}_mean"] = cosines[layer].mean()
            found[f"centroid_{layer}"] = centroid[layer]
            for name, of in (("precision", precision), ("recall", recall), ("f", both)):
                found[f"{name}_{layer}_max"] = of[layer].max()
                found[f"{name}_{layer}_mean"] = of[layer].mean()
            found[f"f_{layer}_min"] = both[layer].min()
            found[f"anywhere_{layer}_mean"] = anywhere[layer] @ inner / inner.sum()
            found[f"anywhere_{layer}_min"] = anywhere[layer][inner > 0].min()
        return {name: float(value) for name, value in found.items()}


def _directions(states: Array) -> tuple[Array, Array]:
    """Tokens (4, n_tokens, width) and their mean (4, width), of length 1."""
    tokens = states.transpose(1, 0, 2)
    mean = tokens.mean(1)
    return (
        tokens / np.linalg.norm(tokens, axis=2, keepdims=True),
        mean / np.linalg.norm(mean, axis=1, keepdims=True),
    )


def _inner(length: int) -> Floats:
    """1 for the tokens of a text, 0 for the special ones around it, unless there are no others."""
    weights = np.ones(length)
    if length > 2:
        weights[[0, -1]] = 0.0
    return weights


def likeness(texts: Texts) -> Array:
    """Of each row, in what its candidate's embedding and the references' centroid agree and differ.

    Returns:
        their product and absolute difference, by layer, shape (n_rows, 8 × width), float32.
    """
    sentences = texts.sentences
    out: list[Array] = []
    for candidate, references in zip(texts.candidates, texts.references, strict=True):
        centroids = sentences[references].mean(0)
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        one = sentences[candidate]
        out.append(np.concatenate([one * centroids, np.abs(one - centroids)]).ravel())
    return np.stack(out)


def wordings(rows: Rows, names: Sequence[str]) -> dict[str, Floats]:
    """Scores of metrics that need no corpus, by name.

    A part of SPICE that is undefined, for want of such tuples, is 0, and marked so in a column of its own.
    """
    out: list[Floats] = []
    for name in names:
        found = metric(name).score(rows)
        undefined = np.isnan(found)
        out.append(np.where(undefined, 0.0, found))
        if name in SCENES:
            out.append(undefined.astype(np.float64))
    return dict(zip(_worded_names(names), out, strict=True))


def _worded_names(names: Sequence[str]) -> list[str]:
    return [n for name in names for n in (name, f"{name}_undefined") if n == name or name in SCENES]
