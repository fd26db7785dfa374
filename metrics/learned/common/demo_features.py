"""Tiny features of the demo's scenes and captions, in place of those of large models.

Every colour and shape has a random vector from a fixed seed; vectors of scenes and captions follow from
their parts. So raters can be tried anywhere, with features of the kinds they need. They say nothing
about photographs.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import numpy as np

from ....datasets.errors import InputError
from ....datasets.sources import demo
from ...base import Floats

#: Dimensions of every vector.
WIDTH = 16
_SEED = 7
_PLAIN_WORDS = {everyday: plain for plain, everyday in demo.EVERYDAY.items()}
#: A higher number makes a thing of a caption attend more to the object most like it.
_SHARPNESS = 8.0


@cache
def _word_vectors() -> dict[str, Floats]:
    """Return orthogonal vectors of all colours and shapes."""
    basis, _ = np.linalg.qr(np.random.default_rng(_SEED).normal(size=(WIDTH, WIDTH)))
    return dict(zip((*demo.COLOURS, *demo.SHAPES), basis, strict=False))


@cache
def _rated_scenes() -> dict[str, demo.Scene]:
    return {scene.image_id: scene for scene in demo.scenes()}


def find_scene(image_id: str) -> demo.Scene:
    """Return the scene of an image, rated or not.

    Raises:
        InputError: if the demo has no image with that id.
    """
    rated_scenes = _rated_scenes()
    if image_id in rated_scenes:
        return rated_scenes[image_id]
    match = re.fullmatch(r"further_(\d+)\.png", image_id)
    if match is None:
        raise InputError(
            f"the demo has no image '{image_id}', and these features are of the demo's scenes alone"
        )
    return demo.further(int(match.group(1)))[0]


def object_vectors(scene: demo.Scene) -> Floats:
    """Return a vector for each object of a scene, shape (n_objects, WIDTH)."""
    return np.stack([_thing_vector(o.colour, o.shape) for o in scene.objects])


def _thing_vector(colour: str, shape: str) -> Floats:
    return _word_vectors()[colour] + _word_vectors()[shape]


def thing_vectors(caption: str) -> Floats:
    """Return a vector for each thing that a caption names, shape (n_things, WIDTH); else one of zeros.

    A thing is a shape and the colour before it.
    """
    words = [_PLAIN_WORDS.get(w, w) for w in re.findall(r"[a-z]+", caption.lower())]
    words = [w for w in words if w in _word_vectors()]
    vectors = [
        _thing_vector(colour, shape)
        for colour, shape in pairwise(words)
        if colour in demo.COLOURS and shape in demo.SHAPES
    ]
    return np.stack(vectors) if vectors else np.zeros((1, WIDTH))


def image_vector(scene: demo.Scene) -> Floats:
    """Return the sum of a scene's object vectors, shape (WIDTH,)."""
    return object_vectors(scene).sum(axis=0)


def text_vector(caption: str) -> Floats:
    """Return the mean of a caption's thing vectors, shape (WIDTH,)."""
    return thing_vectors(caption).mean(axis=0)


def attended_vectors(scene: demo.Scene, caption: str) -> tuple[Floats, Floats]:
    """Return vectors of a scene and of a caption, each attending to the other, shape (WIDTH,) each.

    As in the last layer of a two-stream encoder (ViLBERT): every object meets the things of the
    caption that are most like it, and the other way round; the vectors are means of the products.
    """
    objects, things = object_vectors(scene), thing_vectors(caption)
    attention = np.exp(_SHARPNESS * (objects @ things.T))
    objects_met = objects * ((attention / attention.sum(axis=1, keepdims=True)) @ things)
    things_met = things * ((attention / attention.sum(axis=0)).T @ objects)
    return objects_met.mean(axis=0) * WIDTH, things_met.mean(axis=0) * WIDTH


def region_features(scene: demo.Scene) -> tuple[Floats, Floats]:
    """Return a scene's objects as a detector sees them.

    Returns:
        features, shape (n_objects, WIDTH), and boxes, shape (n_objects, 7): left, top, right, bottom,
        width, height, as shares of the picture, and the area.
    """
    boxes: list[list[float]] = []
    for o in scene.objects:
        radius = demo.SIZES[o.size]
        left, top, right, bottom = o.x - radius, o.y - radius, o.x + radius, o.y + radius
        width, height = right - left, bottom - top
        boxes.append([left, top, right, bottom, width, height, width * height])
    return object_vectors(scene), np.array(boxes)
