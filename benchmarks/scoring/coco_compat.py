"""captau's metrics behind the calls of others: `captau.compat`.

    from captau.compat import COCOEvalCap        # for pycocoevalcap.eval.COCOEvalCap
    from captau.compat import EvaluateMetric     # called as metrics of Hugging Face's evaluate
    from captau.compat import AccumulatedMetric  # called as those of torchmetrics

None of the three needs the library whose calls it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.errors import InputError
from ...metrics.base import Floats, Metric
from ...metrics.registry import metric
from ...metrics.rows import Rows
from ...metrics.text.spice.metric import compute_figures
from .scorer import run_side_by_side

__all__ = ["AccumulatedMetric", "COCOEvalCap", "EvaluateMetric"]

#: What pycocoevalcap calls them, in its order.
_METHODS = {
    "Bleu_1": "bleu_1",
    "Bleu_2": "bleu_2",
    "Bleu_3": "bleu_3",
    "Bleu_4": "bleu_4",
    "METEOR": "meteor",
    "ROUGE_L": "rouge_l",
    "CIDEr": "cider",
}
_SPICE = "SPICE"


class COCOEvalCap:
    """Drop-in for pycocoevalcap's class, equal to its values, and without a Java but for SPICE.

    Two differences: SPICE's details of an image stand with that image, where pycocoevalcap, unless
    the ids are sorted, puts them to another; and a caption with a line break inside is one caption.

    Args:
        coco: the annotations, `pycocotools.coco.COCO` or whatever has its `getImgIds` and `imgToAnns`.
        cocoRes: the results, from `coco.loadRes`.
        spice: whether to compute SPICE, whose parser has to be downloaded once (docs/spice.md).

    Attributes:
        params: `{"image_id": ids}`, which images to evaluate; it may be changed before.
        eval: each metric's score of all images, by pycocoevalcap's names.
        imgToEval: by image id its scores and its id under `image_id`; SPICE as a dict by kind of tuple.
        evalImgs: the same as a list.
    """

    def __init__(self, coco: Any, cocoRes: Any, spice: bool = True) -> None:  # noqa: N803
        self.coco = coco
        self.cocoRes = cocoRes
        self.spice = spice
        self.params: dict[str, Any] = {"image_id": coco.getImgIds()}
        self.eval: dict[str, float] = {}
        self.imgToEval: dict[Any, dict[str, Any]] = {}
        self.evalImgs: list[dict[str, Any]] = []

    def evaluate(self) -> dict[str, float]:
        """Fill `eval`, `imgToEval` and `evalImgs`, print each score, and return `eval` (pycocoevalcap returns nothing).

        Raises:
            InputError: on an image without just one result, or without annotations.
        """
        ids = list(self.params["image_id"])

        item_ids: list[str] = []
        captions: list[str] = []
        references: list[tuple[str, ...]] = []
        for image_id in ids:
            item_ids.append(f"image {image_id}")
            captions.append(self._caption(image_id))
            references.append(self._references(image_id))
        frame = pd.DataFrame({"item_id": item_ids, "caption": captions})
        # A column of objects: pandas would make a table of lists that are of one length.
        rows = Rows(frame.assign(references=pd.Series(references, dtype=object)))

        metrics = {name: metric(method) for name, method in _METHODS.items()}
        for instance in metrics.values():
            instance.start()
        results: dict[Metric, tuple[float, Floats]] = {}

        def score_metric(instance: Metric) -> None:
            scores = instance.score(rows)
            results[instance] = (instance.corpus_score(rows, scores), scores)

        # METEOR takes longest, and so goes first.
        run_side_by_side(score_metric, sorted(metrics.values(), key=lambda m: m.name != "meteor"))

        self.imgToEval = {image_id: {"image_id": image_id} for image_id in ids}
        for name, instance in metrics.items():
            corpus, scores = results[instance]
            self._set(name, ids, corpus, scores.tolist())
        if self.spice:
            self._spice(ids, rows)
        self.evalImgs = list(self.imgToEval.values())
        return self.eval

    def _caption(self, image_id: Any) -> str:
        results = self.cocoRes.imgToAnns.get(image_id, [])
        if len(results) != 1:
            raise InputError(f"image {image_id} has {len(results)} results; one is expected")
        return results[0]["caption"]

    def _references(self, image_id: Any) -> tuple[str, ...]:
        annotations = self.coco.imgToAnns.get(image_id, [])
        if not annotations:
            raise InputError(
                f"image {image_id} has no annotations; take it from params['image_id']"
            )
        return tuple(annotation["caption"] for annotation in annotations)

    def _spice(self, ids: list[Any], rows: Rows) -> None:
        """Set SPICE's figures of each image, and the mean of their F1 as the score of all."""
        unknown = float("nan")
        # One whose texts could not be parsed keeps this.
        by_image: list[dict[str, dict[str, float]]] = [{"All": {"f": unknown}} for _ in ids]
        for index, by_kind in compute_figures(rows):
            figures: dict[str, dict[str, float]] = {}
            for kind, values in by_kind.items():
                figures_of_kind: dict[str, float] = {}
                for key, value in values.items():
                    figures_of_kind[key] = unknown if value is None else float(value)
                figures[kind] = figures_of_kind
            by_image[index] = figures

        f_scores = [figures["All"]["f"] for figures in by_image]
        self._set(_SPICE, ids, float(np.mean(f_scores)), by_image)

    def _set(self, name: str, ids: list[Any], corpus: float, scores: list[Any]) -> None:
        self.eval[name] = corpus
        for image_id, score in zip(ids, scores, strict=True):
            self.imgToEval[image_id][name] = score
        print(f"{name}: {corpus:.3f}")


class _Accumulated:
    """Captions that come in batches, and the metric that scores them.

    Args:
        spec: the metric, as `captau.metric` takes it: `cider`, `"cider(df=coco_df.json)"`.
    """

    def __init__(self, spec: str) -> None:
        self.metric = metric(spec)
        self._rows: list[dict[str, Any]] = []

    def reset(self) -> None:
        """Forget what was added."""
        self._rows.clear()

    def _add(self, captions: Sequence[str], references: Iterable[str | Sequence[str]]) -> None:
        sets: list[tuple[str, ...]] = []
        for texts in references:
            sets.append((texts,) if isinstance(texts, str) else tuple(texts))

        # A str would pass for a list of captions of one letter.
        if isinstance(captions, str) or len(captions) != len(sets):
            raise InputError(
                f"metric {self.metric.spec}: {len(captions)} captions and {len(sets)} sets of references; "
                f"lists of one length are expected"
            )

        for caption, texts in zip(captions, sets, strict=True):
            self._rows.append({"caption": caption, "references": texts})

    def _scored(self, rows: list[dict[str, Any]]) -> tuple[float, Floats]:
        """The score of all, and of each."""
        shared = Rows.from_items(rows).require_any()
        scores = self.metric.score(shared)
        return self.metric.corpus_score(shared, scores), scores


class EvaluateMetric(_Accumulated):
    """A metric with the calls of Hugging Face's `evaluate`.

    `compute(predictions=…, references=…)`, or `add` and `add_batch` and then `compute()`, gives
    `{"cider": score of all, "scores": score of each}` and forgets what was added.
    """

    def add(
        self,
        *,
        prediction: str | None = None,
        reference: str | Sequence[str] | None = None,
        predictions: str | None = None,
        references: str | Sequence[str] | None = None,
    ) -> None:
        """Add one caption and its reference, or several.

        Public code calls them `predictions` and `references` here too.

        Raises:
            InputError: where one is missing, or has both names.
        """
        captions = [text for text in (prediction, predictions) if text is not None]
        texts = [text for text in (reference, references) if text is not None]
        if len(captions) != 1 or len(texts) != 1:
            raise InputError(
                f"metric {self.metric.spec}: add takes one prediction= and one reference="
            )

        self._add(captions, texts)

    def add_batch(
        self, *, predictions: Sequence[str], references: Sequence[str | Sequence[str]]
    ) -> None:
        """Captions, and the reference or references of each."""
        self._add(predictions, references)

    def compute(
        self,
        *,
        predictions: Sequence[str] = (),
        references: Sequence[str | Sequence[str]] = (),
    ) -> dict[str, Any]:
        """The scores of what was added and is given.

        Raises:
            InputError: where that is nothing, or the lists are of different lengths.
        """
        self._add(predictions, references)
        corpus, scores = self._scored(self._rows)
        self.reset()
        return {self.metric.spec: corpus, "scores": scores.tolist()}


class AccumulatedMetric(_Accumulated):
    """A metric with the calls of torchmetrics: `update`, `compute`, `reset`; called, it does the first two.

    Values are floats, not tensors. It is no `torch.nn.Module`, so it does not go into a collection.
    """

    def update(self, preds: Sequence[str], target: Sequence[str | Sequence[str]]) -> None:
        """Captions, and the reference or references of each."""
        self._add(preds, target)

    def compute(self) -> float:
        """The score of all captions since the last `reset`.

        Raises:
            InputError: where there are none.
        """
        return self._scored(self._rows)[0]

    def __call__(self, preds: Sequence[str], target: Sequence[str | Sequence[str]]) -> float:
        """Add these, and give the score of these alone."""
        before = len(self._rows)
        self.update(preds, target)
        return self._scored(self._rows[before:])[0]
