"""Metrics as rewards: a function from captions and their images to numbers, for trainers.

`captau.reward` makes one. References that are given when it is made are worked on once, so that a call costs what new captions
cost; a call may bring the references of its captions instead.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from ..datasets.errors import InputError, shorten, unknown
from ..datasets.reading.cells import parse_references
from .base import Floats, Metric
from .external import MetricSource
from .external import metric as make_metric
from .rows import Rows

#: Whether rewards are in their metric's own range, or from 0 to 1.
Scale = Literal["own", "unit"]


class TrainerReward(ABC):
    """A function of captions, their images and references, in the forms in which trainers call one."""

    __name__: str

    @abstractmethod
    def __call__(
        self,
        captions: Sequence[str],
        images: Sequence[Any] | None = None,
        references: Sequence[str | Sequence[str]] | None = None,
    ) -> list[float]:
        """Score captions.

        Args:
            captions: new texts.
            images: the image of each caption, as `references` or `image_paths` of `reward` name it, as text or number; an
                image may come as often as it has captions.
            references: the references of each caption, instead of those of its image.

        Returns:
            The score of each caption, in their order; NaN where it is undefined.

        Raises:
            InputError: where they differ in number, an image is unknown, or a caption is not a text.
        """

    def for_trl(
        self, image_column: str | None = None, references_column: str | None = None
    ) -> Callable[..., list[float]]:
        """Return a function that TRL's trainers take among their `reward_funcs`.

        They call it with names, `completions` and the columns of their dataset among them; a completion
        is a text or a list of messages, of which the last one counts.

        Args:
            image_column: the dataset's column that names the image.
            references_column: the dataset's column of references, if they are not those of `reward`.

        Raises:
            InputError: where a column is not there, when the function is called.
        """

        def score_completions(completions: Sequence[Any], **columns: Any) -> list[float]:
            captions: list[str] = []
            for completion in completions:
                is_text = isinstance(completion, str)
                captions.append(completion if is_text else completion[-1]["content"])
            images = None
            if image_column is not None:
                images = self._take(columns, image_column, "the trainer's rows have")
            references = None
            if references_column is not None:
                references = self._take(columns, references_column, "the trainer's rows have")

            return self(captions, images, references)

        score_completions.__name__ = self.__name__
        return score_completions

    def for_verl(self, image_key: str | None = None) -> Callable[..., Any]:
        """Return a function with the signature of verl's `compute_score`.

        verl calls it with `data_source, solution_str, ground_truth, extra_info` for one caption, or with lists of them
        under the plural names. The ground truth is the caption's references, one text or several.

        Args:
            image_key: the key of `extra_info` that names the image, whose references count then.
        """

        def compute_score(
            data_source: Any = None,
            solution_str: Any = None,
            ground_truth: Any = None,
            extra_info: Any = None,
            **plural: Any,
        ) -> Any:
            is_batch = "solution_strs" in plural
            captions = plural["solution_strs"] if is_batch else [solution_str]
            truths = plural.get("ground_truths") if is_batch else [ground_truth]

            if image_key is None:
                scores = self(captions, None, truths)
            else:
                infos = plural.get("extra_infos") if is_batch else [extra_info]
                images: list[Any] = []
                for info in infos or ():
                    images.append(self._take(info or {}, image_key, "extra_info has"))
                scores = self(captions, images)

            return scores if is_batch else scores[0]

        return compute_score

    def _take(self, columns: Mapping[str, Any], name: str, subject: str) -> Any:
        if name not in columns:
            raise InputError(
                f"reward {self.__name__}: {subject} no '{name}'; there are {', '.join(columns) or 'none'}"
            )
        return columns[name]


class Reward(TrainerReward):
    """A metric as a reward, in the metric's own range and negated where less of the metric is better; threads may share it.

    Args:
        metric: what scores.
        references: by image, its references.
        image_paths: by image, its file.
        scale: `unit` maps the metric's bounds to 0, the worst, and 1.

    Raises:
        InputError: where the metric needs references or images that are not there, references are no
            texts, a caption's score would depend on the other captions of its batch, or a metric without bounds is to be scaled.
    """

    def __init__(
        self,
        metric: Metric,
        references: Mapping[Any, Sequence[str]],
        image_paths: Mapping[Any, str | PathLike[str]],
        scale: Scale = "own",
    ) -> None:
        self.metric = metric
        self.__name__ = metric.spec
        self._image_paths = {str(image): str(path) for image, path in image_paths.items()}

        self._references: dict[str, tuple[str, ...]] = {}
        for image, texts in references.items():
            checked = _check_references(image, texts)
            # As ids, the number 1 and the text "1" are one image.
            known = self._references.setdefault(str(image), checked)
            if known != checked:
                raise InputError(
                    f"image {image!r}: the same id as a text and a number has other references"
                )

        self._check_needs(references)
        self._scale = _make_scale(metric, scale)
        self._numbers = {image: number for number, image in enumerate(self._references)}
        self._score = metric.prepare_references(list(self._references.values()))

    def _check_needs(self, references: Mapping[Any, Sequence[str]]) -> None:
        """Check that there is what the metric needs, and that a score depends on nothing but its caption."""
        metric = self.metric
        if "images" in metric.needs and not self._image_paths:
            raise InputError(f"metric {metric.spec}: a reward of it needs image_paths={{image: …}}")

        counts_batch = metric.depends_on_corpus and metric.parameters.get("df") is None
        if "references" in metric.needs and not references and counts_batch:
            raise InputError(
                f"metric {metric.spec}: a reward of it needs references={{image: …}}, or df=FILE where each call brings its "
                "references, since scores would otherwise depend on the batch"
            )

    def __call__(
        self,
        captions: Sequence[str],
        images: Sequence[Any] | None = None,
        references: Sequence[str | Sequence[str]] | None = None,
    ) -> list[float]:
        subject = f"reward {self.metric.spec}"
        if isinstance(captions, str):
            raise InputError(f"{subject}: captions are {captions!r}, not a list of texts")
        for column, words in ((images, "images"), (references, "sets of references")):
            if column is not None and len(captions) != len(column):
                raise InputError(
                    f"{subject}: the number of captions is {len(captions)}, and of {words} {len(column)}"
                )

        for i, caption in enumerate(captions):
            if not isinstance(cast(object, caption), str):
                raise InputError(f"caption {i} is {caption!r}, not a text")

        if not len(captions):
            return []

        names = None if images is None else [str(image) for image in images]
        # Prepared references are scored faster; a call's own ones are not prepared.
        try:
            if self._score is not None and references is None and names is not None:
                numbers = np.array([self._numbers[name] for name in names])
                scores = self._score(captions, numbers)
            else:
                scores = self.metric.score(self._make_rows(captions, names, references))
        except KeyError as error:
            # Prepared images are kept as texts; the message names the image as it was given.
            unknown_image = error.args[0]
            image = next(image for image in images or () if str(image) == unknown_image)
            prepared = next(iter(self._references or self._image_paths), None)
            example = "" if prepared is None else f"; an image of it is {prepared!r}"
            raise InputError(
                f"{subject}: it was not prepared for image {image!r}{example}"
            ) from error

        return self._scale(scores).tolist()

    def _make_rows(
        self,
        captions: Sequence[str],
        images: Sequence[str] | None,
        references: Sequence[str | Sequence[str]] | None,
    ) -> Rows:
        """Make rows of captions, with the references of the call or of their images."""
        metric = self.metric
        columns: dict[str, Any] = {"caption": list(captions)}

        if references is not None:
            if metric.depends_on_corpus and metric.parameters.get("df") is None:
                raise InputError(
                    f"reward {metric.spec}: references of a call need df=FILE, since scores would otherwise depend on the "
                    "batch"
                )
            texts_of_captions: list[tuple[str, ...]] = []
            for i, texts in enumerate(references):
                of_caption = [texts] if isinstance(texts, str) else texts
                texts_of_captions.append(_check_references(i, of_caption, "caption"))
            columns["references"] = texts_of_captions

        if images is not None:
            columns["image_id"] = list(images)
            # A metric that needs no references may use those that there are.
            is_known = self._references.keys() >= set(images)
            if references is None and (is_known or "references" in metric.needs):
                columns["references"] = [self._references[image] for image in images]
            has_files = self._image_paths.keys() >= set(images)
            if has_files or "images" in metric.needs:
                columns["image"] = [self._image_paths[image] for image in images]
        elif "references" in metric.needs and references is None:
            raise InputError(
                f"reward {metric.spec}: it needs the image or the references of each caption"
            )

        return Rows(pd.DataFrame(columns))


class MixedReward(TrainerReward):
    """A weighted sum of rewards.

    Args:
        weights: the weight of each.
    """

    def __init__(self, weights: Mapping[Reward, float]) -> None:
        self.weights = weights
        self.__name__ = "+".join(f"{weight:g}*{part.__name__}" for part, weight in weights.items())

    def __call__(
        self,
        captions: Sequence[str],
        images: Sequence[Any] | None = None,
        references: Sequence[str | Sequence[str]] | None = None,
    ) -> list[float]:
        parts: list[Floats] = []
        for part, weight in self.weights.items():
            parts.append(weight * np.array(part(captions, images, references)))

        return np.sum(parts, axis=0).tolist()


def reward(
    metric: MetricSource | Mapping[str, float],
    references: Mapping[Any, Sequence[str]] | None = None,
    *,
    df: str | PathLike[str] | None = None,
    image_paths: Mapping[Any, str | PathLike[str]] | None = None,
    scale: Scale = "own",
) -> Reward | MixedReward:
    """Make a reward of a metric, or of a mixture of metrics.

    Args:
        metric: a metric, its name with parameters in brackets, a function (docs/new_metric.md), or a mapping of metrics to
            weights, of which the reward is the weighted sum.
        references: image → its references. Without them, each call brings the references of its captions.
        df: for CIDEr, a file that `captau score save_df=` wrote. By default each image of `references` is a
            document; a batch is never counted.
        image_paths: image → its file, for metrics that look at images.
        scale: `own` for the metric's own range; `unit` from 0, the worst, to 1, by the metric's bounds.

    Raises:
        InputError: as in `Reward`, or if `df` is given for metrics without document frequencies, or a mixture is empty.

    Example:
        >>> score = reward("cider", {"1": ["a dog runs fast"], "2": ["a cat sleeps"]})
        >>> [round(value, 4) for value in score(["a dog runs", "a dog"], ["1", "2"])]
        [5.7696, 0.0]
    """
    if scale not in ("own", "unit"):
        raise unknown("value of scale", str(scale), ["own", "unit"])

    for argument, value in (("references", references), ("image_paths", image_paths)):
        if value is not None and not isinstance(cast(object, value), Mapping):
            raise InputError(
                f"reward: {argument} is {shorten(repr(value))}, not a dict with an image for each key; json.load reads one from a "
                "file"
            )

    weights = metric if isinstance(metric, Mapping) else {metric: 1.0}
    instances = {make_metric(source): float(weight) for source, weight in weights.items()}
    if not instances:
        raise InputError("reward: the mixture is empty; name a metric and its weight")

    if df is not None and not any("df" in instance.parameters for instance in instances):
        raise InputError(
            f"metric {next(iter(instances)).spec}: it has no document frequencies (df)"
        )

    parts: dict[Reward, float] = {}
    for instance, weight in instances.items():
        if df is not None and "df" in instance.parameters:
            instance = dataclasses.replace(instance, **{"df": str(df)})
        parts[Reward(instance, references or {}, image_paths or {}, scale)] = weight

    return MixedReward(parts) if isinstance(metric, Mapping) else next(iter(parts))


def _make_scale(metric: Metric, scale: Scale) -> Callable[[Floats], Floats]:
    """Return the function from a metric's scores to rewards."""
    sign = 1.0 if metric.higher_is_better else -1.0
    if scale == "own":
        # 0.0 less a score of 0.0 is 0.0, where its negative would be -0.0.
        return lambda scores: scores if metric.higher_is_better else 0.0 - scores

    low, high = metric.bounds
    if low is None or high is None:
        raise InputError(
            f"metric {metric.spec}: scale=unit needs bounds, and it has none; leave out scale="
        )

    worst = low if metric.higher_is_better else high
    # Adding 0.0 makes 0.0 of a worst score of -0.0.
    return lambda scores: 0.0 + sign * (scores - worst) / (high - low)


def _check_references(image: Any, texts: Sequence[str], subject: str = "image") -> tuple[str, ...]:
    where = f"{subject} {image!r}"
    references = parse_references(texts, where)

    if not references:
        raise InputError(f"{where} has no references; give at least one")
    return references
