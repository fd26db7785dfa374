"""The figure of `captau agree kind=words`, as Figure 3 of Chen et al. 2015."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...evaluation.people.word_agreement import model_precision
from ...evaluation.people.word_measures import WordMeasures, select_examples
from ...runs.tables import count_of
from .figure_files import SERIES, can_draw, files_of, style

#: The parts of speech with a panel of their own, in the order of the paper's Figure 3.
_PANEL_PARTS = ("noun", "adjective", "verb")


def word_figure(measures: Sequence[WordMeasures], label: Sequence[str]) -> dict[str, bytes]:
    """Draw named words, all words with the model's curve, and fewer captions; a row a dataset.

    Where the words' parts of speech are known, nouns, adjectives and verbs have panels of their own above.

    Args:
        measures: of each dataset.
        label: the words to name; empty for examples.

    Returns:
        the figure as files by name; none without matplotlib.
    """
    if not can_draw():
        return {}
    from matplotlib.figure import Figure

    with style():
        has_parts = any(of_dataset.frame["part"].any() for of_dataset in measures)
        n_rows = 2 if has_parts else 1
        figure = Figure(figsize=(12, 4 * n_rows * len(measures)), layout="constrained")
        grid = figure.subplots(n_rows * len(measures), 3, squeeze=False)
        parts = _PANEL_PARTS if has_parts else ("",)
        # A dataset has a panel for each part, one of all words and one of fewer captions; a place may stay empty.
        n_panels = len(parts) + 2
        axes_by_dataset = grid.reshape(len(measures), -1)
        for of_dataset, axes in zip(measures, axes_by_dataset, strict=True):
            panels = axes[:n_panels]
            empty_places = axes[n_panels:]
            *named, everything, fewer = panels
            for axis, part in zip(named, parts, strict=True):
                draw_named_words(axis, of_dataset, label, part)
            _draw_all(everything, of_dataset)
            _draw_fewer(fewer, of_dataset)
            for axis in empty_places:
                axis.set_axis_off()
            for axis in panels:
                axis.set_xlabel("human recall")
                axis.set_ylabel("human precision")
                axis.set_xlim(0, 1.02)
                axis.set_ylim(0, 1.02)
        return files_of(figure, "word_agreement")


def draw_named_words(axis: Any, measures: WordMeasures, label: Sequence[str], part: str) -> None:
    """Draw words with their names: those of `label`, else examples, of a part of speech if it is not empty."""
    frame = measures.frame
    if part:
        frame = frame[frame["part"] == part]
    words = set(frame["word"])
    # Another panel, or another dataset, may have those words that are not here.
    examples = select_examples(frame, [word for word in label if word in words])
    axis.scatter(examples["recall"], examples["precision"], s=14, color=SERIES[0])
    for word, x, y, height in place_labels(examples):
        # Names stand on the side on which the panel has more room.
        side, shift = ("right", -0.04) if x > 0.6 else ("left", 0.04)
        axis.annotate(
            word,
            (x, y),
            xytext=(x + shift, height),
            ha=side,
            va="center",
            fontsize="small",
            arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.5},
        )
    shown = f"{part}s" if part else "some words"
    axis.set_title(f"{measures.people.name}: {shown}")


def _draw_all(axis: Any, measures: WordMeasures) -> None:
    frame, k, fitted = measures.frame, measures.k, measures.fitted_k
    p = np.linspace(0, 1, 501)
    axis.scatter(
        frame["recall"], frame["precision"], s=6, alpha=0.5, color=SERIES[0], label="words"
    )
    axis.plot(p, model_precision(p, k), color=SERIES[0], label=f"model, k = {k}")
    if np.isfinite(fitted):
        text = f"model, k = {fitted:.2f} (fitted)"
        axis.plot(p, model_precision(p, fitted), "--", color=SERIES[1], label=text)
    axis.set_title(f"all {len(frame):,} words")
    axis.legend(fontsize="small", loc="lower right")


def _draw_fewer(axis: Any, measures: WordMeasures) -> None:
    p = np.linspace(0, 1, 501)
    for index, (k, points) in enumerate(measures.by_k.items()):
        color = SERIES[index % len(SERIES)]
        axis.scatter(points["recall"], points["precision"], s=4, alpha=0.4, color=color)
        axis.plot(p, model_precision(p, k), "-", color=color, label=count_of(k, "caption"))
    axis.set_title("against fewer captions")
    axis.legend(fontsize="small", loc="lower right")


def place_labels(examples: pd.DataFrame) -> list[tuple[str, float, float, float]]:
    """Return each word, its point and the height of its label, below the one before where they are near."""
    labels: list[tuple[str, float, float, float]] = []
    ranked = examples.dropna(subset=["recall", "precision"]).sort_values(
        ["precision", "recall"], ascending=[False, True]
    )
    for word, x, y in zip(ranked["word"], ranked["recall"], ranked["precision"], strict=True):
        label_height = y - 0.03
        for _, neighbour, _, height in labels:
            # A label stands below those before it that it would overlap.
            if abs(neighbour - x) < 0.25:
                label_height = min(label_height, height - 0.045)
        labels.append((word, x, y, label_height))
    return labels
