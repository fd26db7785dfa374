"""Metrics as rewards: a function from captions and their images to numbers, for trainers.

`captau.reward` makes one. References are worked on once, so that a call costs what new captions cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np
import pandas as pd

from ..datasets.errors import InputError
from ..datasets.reading.cells import parse_references
from .base import Metric
from .external import MetricSource
from .external import metric as make_metric
from .rows import Rows


class Reward:
    """A metric as a function of captions and images; several threads may call it.

    Args:
        metric: what scores.
        references: by image, its references.
        image_paths: by image, its file.

    Raises:
        InputError: where the metric needs references or images that are not there, references are no
            texts, or a caption's score would depend on the other captions of its batch.
    """

    def __init__(
        self,
        metric: Metric,
        references: Mapping[Any, Sequence[str]],
        image_paths: Mapping[Any, str | PathLike[str]],
    ) -> None:
        self.metric = metric
        self.__name__ = metric.spec
        self._image_paths = {image: str(path) for image, path in image_paths.items()}
        self._references = {
            image: _check_references(image, texts) for image, texts in references.items()
        }
        for need, images in (("references", self._references), ("images", self._image_paths)):
            if need in metric.needs and not images:
                argument = "image_paths" if need == "images" else need
                raise InputError(
                    f"metric {metric.spec}: a reward of it needs {argument}={{image: …}}"
                )
        self._numbers = {image: number for number, image in enumerate(self._references)}
        self._score = metric.prepare_references(list(self._references.values()))

    def __call__(self, captions: Sequence[str], images: Sequence[Any]) -> list[float]:
        """Score captions.

        Args:
            captions: new texts.
            images: the image of each caption, as `references` or `image_paths` name it; an image may
                come as often as it has captions.

        Returns:
            the score of each caption, in their order and in the metric's own range; negated where less of the
            metric is better; NaN where it is undefined.

        Raises:
            InputError: where the two differ in number, an image is unknown, or a caption is not a text.
        """
        if isinstance(captions, str) or len(captions) != len(images):
            raise InputError(
                f"reward {self.metric.spec}: {len(captions)} captions and {len(images)} images"
            )
        for i, caption in enumerate(captions):
            if not isinstance(cast(object, caption), str):
                raise InputError(f"caption {i} is {caption!r}, not a text")
        if not len(captions):
            return []
        try:
            if self._score is not None:
                numbers = np.array([self._numbers[image] for image in images])
                scores = self._score(captions, numbers)
            else:
                scores = self.metric.score(self._make_rows(captions, images))
        except KeyError as error:
            raise InputError(
                f"reward {self.metric.spec}: it was not prepared for image {error.args[0]!r}"
            ) from error
        return (scores if self.metric.higher_is_better else -scores).tolist()

    def for_trl(self, image_column: str) -> Callable[..., list[float]]:
        """Return a function that TRL's trainers take among their `reward_funcs`.

        They call it with names, `completions` and the columns of their dataset among them; a completion
        is a text or a list of messages, of which the last one counts.

        Args:
            image_column: the dataset's column that names the image.
        """

        def score_completions(completions: Sequence[Any], **columns: Any) -> list[float]:
            captions = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
            return self(captions, columns[image_column])

        score_completions.__name__ = self.__name__
        return score_completions

    def _make_rows(self, captions: Sequence[str], images: Sequence[Any]) -> Rows:
        columns: dict[str, list[Any]] = {
            "caption": list(captions),
            "image_id": list(map(str, images)),
        }
        # A metric that needs no references may use those that there are.
        if "references" in self.metric.needs or all(i in self._references for i in images):
            columns["references"] = [self._references[image] for image in images]
        if "images" in self.metric.needs or all(i in self._image_paths for i in images):
            columns["image"] = [self._image_paths[image] for image in images]
        return Rows(pd.DataFrame(columns))


def reward(
    metric: MetricSource,
    references: Mapping[Any, Sequence[str]] | None = None,
    *,
    df: str | PathLike[str] | None = None,
    image_paths: Mapping[Any, str | PathLike[str]] | None = None,
) -> Reward:
    """Make a reward of a metric.

    Args:
        metric: a metric, its name with parameters in brackets, or a function (docs/new_metric.md).
        references: image → its references.
        df: for CIDEr, a file that `captau score save_df=` wrote. By default each image of `references` is a
            document; a batch is never counted.
        image_paths: image → its file, for metrics that look at images.

    Raises:
        InputError: as in `Reward`, or if `df` is given for a metric without document frequencies.

    Example:
        >>> score = reward("cider", {"1": ["a dog runs fast"], "2": ["a cat sleeps"]})
        >>> [round(value, 4) for value in score(["a dog runs", "a dog"], ["1", "2"])]
        [5.7696, 0.0]
    """
    instance = make_metric(metric)
    if df is not None:
        if "df" not in instance.parameters:
            raise InputError(f"metric {instance.spec}: it has no document frequencies (df)")
        instance = dataclasses.replace(instance, **{"df": str(df)})
    return Reward(instance, references or {}, image_paths or {})


def _check_references(image: Any, texts: Sequence[str]) -> tuple[str, ...]:
    where = f"image {image!r}"
    references = parse_references(texts, where)
    if not references:
        raise InputError(f"{where} has no references; give at least one")
    return references
