"""Tiny features of the demo's scenes and captions, in place of those of large models.

Every colour, shape, size and relation has a vector that is drawn once, with a fixed seed; what a
scene or a caption is made of follows from them. So raters can be tried anywhere, with features of the
kinds they need. They say nothing about photographs.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from ...datasets import demo
from ...datasets.errors import unknown
from ..base import Floats

#: Dimensions of every vector.
WIDTH = 32
_SEED = 7
#: What makes up things, and the words for it.
_PLAIN = (*demo.COLOURS, *demo.SHAPES, *demo.SIZES, *demo.RELATIONS)
_WORDS = {
    **{plain: plain for plain in _PLAIN},
    **{word: plain for plain, word in demo.EVERYDAY.items()},
    **{word: plain for plain, ways in demo.RELATIONS.items() for word in ways},
}
#: Longer names first, so that "to the left of" is not read as "left".
_KNOWN = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b"
)
#: How sharply a thing of a caption attends to the object most like it.
_SHARPNESS = 8.0


@cache
def _vectors() -> dict[str, Floats]:
    rng = np.random.default_rng(_SEED)
    return {word: rng.normal(size=WIDTH) / np.sqrt(WIDTH) for word in _PLAIN}


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
        raise unknown("demo image", image_id, known)
    return demo.further(int(match.group(1)))[0]


def objects(scene: demo.Scene) -> Floats:
    """A vector for each object of a scene, shape (n_objects, WIDTH): its colour's and its shape's."""
    of = _vectors()
    return np.stack([of[o.colour] + of[o.shape] for o in scene.objects])


def things(caption: str) -> Floats:
    """A vector for each thing that a caption names, shape (n_things, WIDTH).

    A thing ends with its shape; what stands before it back to the thing before is its own.
    """
    of = _vectors()
    out: list[Floats] = []
    held: list[str] = []
    for word in (_WORDS[m] for m in _KNOWN.findall(caption.lower())):
        if word in demo.COLOURS:
            held.append(word)
        elif word in demo.SHAPES:
            out.append(np.sum([of[w] for w in (*held, word)], axis=0))
            held = []
    return np.stack(out) if out else np.zeros((1, WIDTH))


def image(scene: demo.Scene) -> Floats:
    """A picture as one vector, shape (WIDTH,): the mean of its objects'."""
    return objects(scene).mean(axis=0)


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
