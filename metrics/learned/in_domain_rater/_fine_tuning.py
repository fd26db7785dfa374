"""Fine-tuning of the Siamese network, and its predictions; `recipe.py` imports it when it needs torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...base import Floats
from ...neural.store import Array
from ..common.recipe import Examples, Ints, correlate_with_ratings
from ..common.text_states import TextStates
from ..common.training import TrainingSession, clip_gradients, schedule_learning_rates
from ._siamese_network import SiameseNetwork, TextBatch

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
