"""Tiny features of the demo's scenes and captions, in place of those of large models.

Every colour and shape has a vector that is drawn once, with a fixed seed; those of scenes and captions
follow from what they are made of. So raters can be tried anywhere, with features of the
kinds they need. They say nothing about photographs.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import numpy as np

from ....datasets import demo
from ....datasets.errors import InputError
from ...base import Floats

#: Dimensions of every vector.
WIDTH = 16
_SEED = 7
_WORDS = {word: plain for plain, word in demo.EVERYDAY.items()}
#: How sharply a thing of a caption attends to the object most like it.
_SHARPNESS = 8.0


@cache
def _vectors() -> dict[str, Floats]:
    """Of every colour and shape, at right angles to one another."""
    turned, _ = np.linalg.qr(np.random.default_rng(_SEED).normal(size=(WIDTH, WIDTH)))
    return dict(zip((*demo.COLOURS, *demo.SHAPES), turned, strict=False))


@cache
def _scenes() -> dict[str, demo.Scene]:
    return {scene.image_id: scene for scene in demo.scenes()}


def scene_of(image_id: str) -> demo.Scene:
    """The scene of an image, rated or not.

    Raises:
        InputError: where the demo has none of that id.
    """
    known = _scenes()
    if image_id in known:
        return known[image_id]
    match = re.fullmatch(r"further_(\d+)\.png", image_id)
    if match is None:
        raise InputError(
            f"the demo has no image '{image_id}', and these features are of the demo's scenes alone"
        )
    return demo.further(int(match.group(1)))[0]


def objects(scene: demo.Scene) -> Floats:
    """A vector for each object of a scene, shape (n_objects, WIDTH)."""
    return np.stack([_thing(o.colour, o.shape) for o in scene.objects])


def _thing(colour: str, shape: str) -> Floats:
    return _vectors()[colour] + _vectors()[shape]


def things(caption: str) -> Floats:
    """A vector for each thing that a caption names, shape (n_things, WIDTH); zeros where there is none.

    A thing is a shape and the colour before it.
    """
    words = [_WORDS.get(w, w) for w in re.findall(r"[a-z]+", caption.lower())]
    words = [w for w in words if w in _vectors()]
    found = [
        _thing(colour, shape)
        for colour, shape in pairwise(words)
        if colour in demo.COLOURS and shape in demo.SHAPES
    ]
    return np.stack(found) if found else np.zeros((1, WIDTH))


def image(scene: demo.Scene) -> Floats:
    """A picture as one vector, shape (WIDTH,): the sum of its objects'."""
    return objects(scene).sum(axis=0)


def text(caption: str) -> Floats:
    """A caption as one vector, shape (WIDTH,): the mean of its things'."""
    return things(caption).mean(axis=0)


def attended(scene: demo.Scene, caption: str) -> tuple[Floats, Floats]:
    """A picture and a caption as each looks in the other's light, shape (WIDTH,) each.

    As in the last layer of a two-stream encoder (ViLBERT): every object meets the things of the
    caption that are most like it, and the other way round; what is kept is their product.
    """
    seen, named = objects(scene), things(caption)
    likeness = seen @ named.T
    to_named = np.exp(_SHARPNESS * likeness)
    of_objects = seen * ((to_named / to_named.sum(axis=1, keepdims=True)) @ named)
    of_things = named * ((to_named / to_named.sum(axis=0)).T @ seen)
    return of_objects.mean(axis=0) * WIDTH, of_things.mean(axis=0) * WIDTH


def regions(scene: demo.Scene) -> tuple[Floats, Floats]:
    """A picture as a detector sees it.

    Returns:
        features, shape (n_objects, WIDTH), and boxes, shape (n_objects, 7): left, top, right, bottom,
        width, height, all in parts of the picture, and the area.
    """
    boxes: list[list[float]] = []
    for o in scene.objects:
        radius = demo.SIZES[o.size]
        left, top, right, bottom = o.x - radius, o.y - radius, o.x + radius, o.y + radius
        width, height = right - left, bottom - top
        boxes.append([left, top, right, bottom, width, height, width * height])
    return objects(scene), np.array(boxes)
