"""The synthetic `demo` dataset: coloured shapes, captions of them, and ratings that follow a rule.

It needs no files and no network, so that a command can be tried, and a test run, anywhere. Every
caption is written from structured claims, and its rating is what a rule finds when it compares the
claims with the scene, plus a rater's bias and noise. How a metric does here says nothing about how
it does on people's ratings of photographs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from ..cache import cache_folder, replacing
from ..errors import unknown
from ..preferences import make_preferences
from ..registry import dataset
from ..schema import RATING_COLUMNS, CaptionSet, Card, Scale, make_items

if TYPE_CHECKING:
    from PIL import Image

T = TypeVar("T")

SEED = 20
SCENES = 60

CARD = Card(
    name="demo",
    title="Demo",
    revision="1",
    licence="Apache-2.0",
    citation="""@misc{captau,
  title={captau: how well image-caption metrics agree with human ratings},
  note={Synthetic dataset demo, revision 1}
}""",
    homepage="",
    scales={"overall": Scale(1, 5, 1)},
    expected={"images": SCENES, "items": 360, "ratings": 1080, "preferences": 240},
    synthetic=True,
)

COLOURS = ("red", "blue", "green", "yellow", "purple", "orange", "black", "pink")
# Corners, and how far out every second one is where that is not the whole radius.
SHAPES = {"circle": 60, "square": 4, "triangle": 3, "star": 10, "diamond": 4, "hexagon": 6}
WAISTS = {"star": 0.45, "diamond": 0.6}
# Radii and places are in parts of the canvas. Centres lie near those of a 3 x 3 grid, so that along
# either axis two are more than CLEAR apart or nearly level, and no two objects can touch.
SIZES = {"small": 0.07, "medium": 0.095, "large": 0.125}
JITTER = 0.04
CLEAR = 0.2
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
# What each is called, plainly and in everyday words.
RELATIONS = {
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
EVERYDAY = {"circle": "disc", "diamond": "rhombus", "small": "tiny", "large": "big"}

SYSTEMS = ("exact", "terse", "wrong_colour", "wrong_relation", "wrong_object", "unrelated")
# A pair sets a right system against the one that errs in what the category names.
PAIRS = {
    "colour": ("exact", "wrong_colour"),
    "relation": ("exact", "wrong_relation"),
    "object": ("terse", "wrong_object"),
    "unrelated": ("terse", "unrelated"),
}
# Each rater's bias and noise (a standard deviation), in points of the scale.
RATERS = {"rater_1": (0.0, 0.5), "rater_2": (-0.5, 0.7), "rater_3": (0.3, 1.0)}
PREFERENCE_NOISE = 1.3


@dataclass(frozen=True)
class Thing:
    """An object as a caption names it."""

    colour: str
    shape: str
    size: str


@dataclass(frozen=True)
class Placed(Thing):
    """An object of a scene, with its centre: `x` from the left, `y` from the top."""

    x: float
    y: float


@dataclass(frozen=True)
class Scene:
    """The content of a picture; no two of its objects have a colour or a shape in common."""

    image_id: str
    objects: tuple[Placed, ...]


@dataclass(frozen=True)
class Claims:
    """The claims of a caption: its things, and how each but the last stands to the next."""

    things: tuple[Thing, ...]
    relations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """A system's caption of a scene, with the claims it was written from."""

    scene: Scene
    system: str
    claims: Claims
    caption: str


@dataclass(frozen=True)
class Style:
    """A way to put claims into words.

    `link` stands between the first two things and `then` between the next two, each with the
    relation; without a link the things are listed and their relations left unsaid.
    """

    frame: str
    link: str = ""
    then: str = ""
    article: str = "a"
    sized: bool = False
    everyday: bool = False
    backwards: bool = False

    def write(self, claims: Claims) -> str:
        """The caption; one that ends in a full stop is a sentence and begins with a capital."""
        things = claims.things
        relations = claims.relations
        if self.backwards:
            things = things[::-1]
            relations = tuple(OPPOSITE[relation] for relation in relations[::-1])

        nouns = [self._noun(thing) for thing in things]
        text = nouns[0]
        if self.link:
            for i, relation in enumerate(relations):
                link = self.then if i else self.link
                plain, everyday = RELATIONS[relation]
                text += link.format(everyday if self.everyday else plain) + nouns[i + 1]
        elif len(nouns) > 1:
            text = f"{', '.join(nouns[:-1])} and {nouns[-1]}"

        count = ("one", "two", "three")[len(nouns) - 1]
        text = self.frame.format(text, count=count)
        return text[0].upper() + text[1:] if text.endswith(".") else text

    def _noun(self, thing: Thing) -> str:
        # A medium size goes without saying.
        size = thing.size if self.sized and thing.size != "medium" else ""
        shape = thing.shape
        if self.everyday:
            size = EVERYDAY.get(size, size)
            shape = EVERYDAY.get(shape, shape)

        noun = f"{size} {thing.colour} {shape}".strip()
        article = "an" if self.article == "a" and noun[0] in "aeiou" else self.article
        return f"{article} {noun}".strip()


# The frames of references and of systems differ, so that no system quotes a reference.
REFERENCE_STYLES = (
    Style("There is {}.", " {} ", ", {} "),
    Style("{}.", " sits {} ", ", which is {} ", sized=True, everyday=True),
    Style("{}.", " can be seen {} ", " that is {} ", article="the", backwards=True),
    Style("A picture with {}."),
    Style("On a white background there are {count} shapes: {}.", sized=True, everyday=True),
    Style("{}", " {} ", ", {} ", article="", everyday=True),
    Style("I can see {}.", " {} ", " that is {} ", sized=True, backwards=True),
    Style("Someone drew {}", " just {} ", ", this one {} ", everyday=True),
)
CANDIDATE_STYLES = (
    Style("{}", " is {} ", " that is {} ", sized=True),
    Style("an image of {}", " {} ", " which is {} "),
    Style("{} on white", " placed {} ", " {} ", everyday=True),
    Style("the drawing shows {}", " located {} ", ", {} ", sized=True, backwards=True),
)
TERSE_STYLES = (
    Style("{}", sized=True),
    Style("a drawing of {}"),
    Style("there is {} here", everyday=True),
)


@cache
def scenes() -> tuple[Scene, ...]:
    """Every scene, in the order of the image ids."""
    rng = np.random.default_rng([SEED, 0])
    return tuple(_scene(rng, f"demo_{number:03d}.png") for number in range(SCENES))


@cache
def further(number: int) -> tuple[Scene, tuple[str, ...]]:
    """One of endlessly many scenes beside the demo's, with ten captions that are true of it.

    Nobody rated them: raters that learn from captioned images are trained on them, as on COCO for
    people's ratings. Five captions are written as references are, three as long candidates are, and
    two as terse ones.
    """
    rng = np.random.default_rng([SEED, 3, number])
    scene = _scene(rng, f"further_{number:05d}.png")
    long: list[str] = []
    for style in _shuffled(rng, CANDIDATE_STYLES)[:3]:
        long.append(style.write(_truth(rng, scene)))
    short: list[str] = []
    for style in _shuffled(rng, TERSE_STYLES)[:2]:
        thing = scene.objects[int(rng.integers(len(scene.objects)))]
        short.append(style.write(Claims((thing,))))

    return scene, (*_references(rng, scene), *long, *short)


def _scene(rng: np.random.Generator, image_id: str) -> Scene:
    colours = _shuffled(rng, COLOURS)
    shapes = _shuffled(rng, SHAPES)
    # The order of the draws makes the scenes what they are.
    cells = _shuffled(rng, range(9))
    n_objects = int(rng.integers(2, 4))

    objects: list[Placed] = []
    for cell in cells[:n_objects]:
        column, row = divmod(cell, 3)
        x = (2 * column + 1) / 6 + float(rng.uniform(-JITTER, JITTER))
        y = (2 * row + 1) / 6 + float(rng.uniform(-JITTER, JITTER))
        size = _shuffled(rng, SIZES)[0]
        objects.append(Placed(colour=colours.pop(), shape=shapes.pop(), size=size, x=x, y=y))

    return Scene(image_id, tuple(objects))


@cache
def candidates() -> tuple[Candidate, ...]:
    """Write each system's caption of each scene: scene by scene, in the order of `SYSTEMS`."""
    rng = np.random.default_rng([SEED, 1])
    out: list[Candidate] = []
    for scene in scenes():
        for system in SYSTEMS:
            claims = _claims(rng, system, scene)
            styles = TERSE_STYLES if system == "terse" else CANDIDATE_STYLES
            out.append(Candidate(scene, system, claims, _shuffled(rng, styles)[0].write(claims)))

    return tuple(out)


def holds(first: Placed, relation: str, second: Placed) -> bool:
    """Tell whether the first object clearly stands in the relation to the second."""
    dx = second.x - first.x
    dy = second.y - first.y
    distances = {"left": dx, "right": -dx, "above": dy, "below": -dy}
    return distances[relation] > CLEAR


def quality(claims: Claims, scene: Scene) -> float:
    """Rate claims from 0 to 1 by how right and how complete they are: the rule behind the ratings.

    Each thing named is compared with the object most like it: 1 for the same colour and shape, 0.4
    for one of the two. A relation that holds is worth the lesser of its two things, one that does
    not 0. Precision is the mean of all these, coverage how well each object is named at all. Errors
    weigh more than omissions, since people forgive a short caption sooner than a false one.
    """
    worth: list[float] = []
    meant: list[Placed] = []
    table: list[list[float]] = []
    for thing in claims.things:
        likenesses = [_likeness(thing, placed) for placed in scene.objects]
        best = max(likenesses)
        table.append(likenesses)
        worth.append(best)
        meant.append(scene.objects[likenesses.index(best)])

    related: list[float] = []
    for i, relation in enumerate(claims.relations):
        # A relation between things that are not what the caption names is worth as little as they.
        is_true = holds(meant[i], relation, meant[i + 1])
        related.append(min(worth[i : i + 2]) if is_true else 0.0)

    coverage = fmean(max(column) for column in zip(*table, strict=True))
    return fmean(worth + related) ** 2 * (0.6 + 0.4 * coverage)


def rule() -> list[float]:
    """Rate each candidate without raters' bias and noise, in the order of `candidates`."""
    scale = CARD.scales["overall"]
    ratings: list[float] = []
    for candidate in candidates():
        worth = quality(candidate.claims, candidate.scene)
        ratings.append(scale.low + (scale.high - scale.low) * worth)
    return ratings


def _likeness(first: Thing, second: Thing) -> float:
    n_equal = (first.colour == second.colour) + (first.shape == second.shape)
    return (0.0, 0.4, 1.0)[n_equal]


def _claims(rng: np.random.Generator, system: str, scene: Scene) -> Claims:
    """Draw a system's claims about a scene; its errors name what the scene does not show."""
    truth = _truth(rng, scene)
    things = list(truth.things)
    relations = list(truth.relations)

    # An error names what no object of the scene has, so that it is one.
    scene_colours = {thing.colour for thing in scene.objects}
    scene_shapes = {thing.shape for thing in scene.objects}
    colours = _shuffled(rng, [colour for colour in COLOURS if colour not in scene_colours])
    shapes = _shuffled(rng, [shape for shape in SHAPES if shape not in scene_shapes])
    i = int(rng.integers(len(relations) if system == "wrong_relation" else len(things)))

    match system:
        case "terse":
            things = [things[i]]
            relations = []
        case "wrong_colour":
            things[i] = replace(things[i], colour=colours[0])
        case "wrong_relation":
            relations[i] = OPPOSITE[relations[i]]
        case "wrong_object":
            things[i] = replace(things[i], colour=colours[0], shape=shapes[0])
        case "unrelated":
            things = []
            for colour, shape in zip(colours[:2], shapes[:2], strict=True):
                things.append(Thing(colour, shape, _shuffled(rng, SIZES)[0]))
            relations = _shuffled(rng, RELATIONS)[:1]
        case _:  # the exact one
            pass

    return Claims(tuple(things), tuple(relations))


def _truth(rng: np.random.Generator, scene: Scene) -> Claims:
    """Claim all objects of a scene, each in a relation to the next that holds."""
    relations: list[str] = []
    for first, second in pairwise(scene.objects):
        # Of two objects, several relations may hold.
        drawn = _shuffled(rng, RELATIONS)
        relations.append(next(relation for relation in drawn if holds(first, relation, second)))

    return Claims(scene.objects, tuple(relations))


def _references(rng: np.random.Generator, scene: Scene) -> tuple[str, ...]:
    references: list[str] = []
    for style in _shuffled(rng, REFERENCE_STYLES)[:5]:
        references.append(style.write(_truth(rng, scene)))
    return tuple(references)


def _shuffled(rng: np.random.Generator, options: Iterable[T]) -> list[T]:
    choices = list(options)
    return [choices[int(i)] for i in rng.permutation(len(choices))]


@dataset(CARD)
def load_demo(root: Path) -> CaptionSet:
    """Make the demo dataset, with its pictures drawn into the cache folder; `root` is not used."""
    rng = np.random.default_rng([SEED, 2])
    scale = CARD.scales["overall"]
    drawn_candidates = candidates()
    references = {scene.image_id: _references(rng, scene) for scene in scenes()}
    images = [candidate.scene.image_id for candidate in drawn_candidates]
    captions = [candidate.caption for candidate in drawn_candidates]
    systems = [candidate.system for candidate in drawn_candidates]

    folder = pictures()
    items = make_items(
        images,
        captions,
        [references[image_id] for image_id in images],
        systems=systems,
        images=[str(folder / image_id) if folder else None for image_id in images],
    )

    ids = list(items["item_id"])
    deserved = list(rule())
    ratings: list[tuple[str, str, str, float]] = []
    for item_id, value in zip(ids, deserved, strict=True):
        for rater, (bias, noise) in RATERS.items():
            felt = float(rng.normal(value + bias, noise))
            rating = float(min(max(round(felt), scale.low), scale.high))
            ratings.append((item_id, "overall", rater, rating))

    preferences: list[tuple[str, str, str, str, str]] = []
    for category, compared in PAIRS.items():
        for number in range(SCENES):
            system_a, system_b = _shuffled(rng, compared)
            a = number * len(SYSTEMS) + SYSTEMS.index(system_a)
            b = number * len(SYSTEMS) + SYSTEMS.index(system_b)
            winner = "a" if rng.normal(deserved[a] - deserved[b], PREFERENCE_NOISE) > 0 else "b"
            preferences.append((f"{category}-{number:03d}", ids[a], ids[b], category, winner))

    return CaptionSet(
        items,
        pd.DataFrame(ratings, columns=pd.Index(RATING_COLUMNS)),
        make_preferences(preferences),
        card=CARD,
    )


def pictures() -> Path | None:
    """Return the folder of the pictures, in the cache, after drawing those that are missing.

    Returns:
        None where the folder cannot be written, so that metrics that need no image go on.
    """
    folder = cache_folder("demo", CARD.revision)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for scene in scenes():
            path = folder / scene.image_id
            if not path.is_file():
                with replacing(path) as stream:
                    render(scene.image_id).save(stream, format="png")
    except OSError:
        return None
    return folder


def render(image_id: str, size: int = 256) -> Image.Image:
    """Draw the picture of a scene, `size` pixels wide and high, on white.

    Raises:
        InputError: where no scene has that id; the nearest ones are named.
    """
    from PIL import Image, ImageDraw  # only drawing needs Pillow

    scenes_by_image = {scene.image_id: scene for scene in scenes()}
    if image_id not in scenes_by_image:
        raise unknown("demo image", image_id, scenes_by_image)

    picture = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(picture)
    for thing in scenes_by_image[image_id].objects:
        n_corners = SHAPES[thing.shape]
        waist = WAISTS.get(thing.shape, 1.0)
        # A square on its corner would pass for a diamond.
        turn = 0.5 if thing.shape == "square" else 0.0
        outline: list[tuple[float, float]] = []
        for i in range(n_corners):
            radius = SIZES[thing.size] * (waist if i % 2 else 1.0)
            angle = 2 * math.pi * (i + turn) / n_corners
            x = thing.x + radius * math.sin(angle)
            y = thing.y - radius * math.cos(angle)
            outline.append((x * size, y * size))
        draw.polygon(outline, fill=thing.colour)

    return picture
