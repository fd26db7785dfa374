"""CHAIR: the objects that a caption mentions and its image does not have (Rohrbach et al. 2018).

An object is one of COCO's 80 categories, and a caption mentions it by the category's name, by a synonym from a file,
or by the plural of either. An image has the objects that its references mention, and those of a file of labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.json_files import read_json, read_text
from ..base import Floats, PooledMetric, WordMetric
from ..registry import register
from ..rows import Items, Rows

#: The categories of COCO's instances (Lin et al. 2014), by their names in `instances_val2014.json`.
COCO_OBJECTS = (
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
)
_ANIMALS = (
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "animal",
    "cub",
)
#: Words before an animal or a vehicle that say no person: "baby bird" (the authors' `utils/chair.py`).
QUALIFIERS: Mapping[str, tuple[str, ...]] = {
    "baby": _ANIMALS,
    "adult": _ANIMALS,
    "passenger": ("jet", "train"),
}
#: Phrases that mention no object by a word in them, or another one (the same file).
PHRASES: Mapping[str, str] = {
    "home plate": "",
    "train track": "",
    "toilet seat": "toilet",
    "bow tie": "tie",
}
#: Plurals of names, and of synonyms' last words, that no rule makes.
IRREGULAR_PLURALS: Mapping[str, str] = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "goose": "geese",
    "ox": "oxen",
    "foot": "feet",
}
_WORD = re.compile(r"[a-z0-9]+(?:['’-][a-z0-9]+)*")


@dataclass(frozen=True)
class Mention:
    """An object that a caption mentions, and the places of its words among those that blanks part."""

    object_name: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class _Chair(WordMetric):
    """Base of both metrics.

    Args:
        synonyms: a file with a line an object: its names with commas between them, the first one COCO's. The authors'
            is `data/synonyms.txt` at github.com/LisaAnne/Hallucination. None: the names of the categories alone.
        labels: a JSON file of the objects in each image, image id → list of names; None: the references' alone.
    """

    synonyms: str | None = None
    labels: str | None = None
    backend: Literal["captau"] = "captau"

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("synonyms", "labels")
    #: Labels are known by the image's id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False

    def compute_blame(self, rows: Rows) -> list[Floats]:
        """Blame the words of each mention of an object that the image does not have."""
        blame: list[Floats] = []
        for caption, (mentions, _) in zip(rows.captions, self._mentions(rows), strict=True):
            values = np.zeros(len(caption.split()))
            for mention in mentions:
                values[list(mention.positions)] = 1.0
            blame.append(values)

        return blame

    def _counts(self, rows: Rows) -> Floats:
        """Count each caption's mentions of objects that its image lacks, and all of its mentions, shape (n_rows, 2)."""
        counts = [(len(wrong), n_mentions) for wrong, n_mentions in self._mentions(rows)]
        return np.array(counts, dtype=float)

    def _mentions(self, rows: Rows) -> list[tuple[list[Mention], int]]:
        """Return each caption's mentions of objects that its image lacks, and the number of all mentions."""
        key = f"chair {self.synonyms} {self.labels}"
        return rows.compute_once(key, lambda: self._find_mentions(rows))

    def _find_mentions(self, rows: Rows) -> list[tuple[list[Mention], int]]:
        vocabulary = read_vocabulary(self.synonyms)
        if self.synonyms is None:
            rows.add_remark(
                self.spec,
                "the names of COCO's categories count without synonyms, so that a man is no person; "
                "synonyms=FILE has some (docs/hallucination.md)",
            )

        labels = _read_labels(self.labels, vocabulary) if self.labels else {}
        images = rows.frame["image_id"].tolist() if labels and "image_id" in rows.frame else None
        if labels and images is None:
            raise InputError(f"metric {self.spec}: the captions have no image_id to find labels by")

        # References repeat: of an image with many captions they are the same.
        objects_of = lru_cache(maxsize=65536)(lambda text: find_mentions(text, vocabulary))
        mentions: list[tuple[list[Mention], int]] = []
        pairs = zip(rows.captions, rows.references, strict=True)
        for index, (caption, references) in enumerate(pairs):
            present: set[str] = set()
            for reference in references:
                present.update(mention.object_name for mention in objects_of(reference))
            if images is not None:
                if images[index] not in labels:
                    raise InputError(f"{self.labels}: no labels of image '{images[index]}'")
                present |= labels[images[index]]

            of_caption = objects_of(caption)
            wrong: list[Mention] = []
            for mention in of_caption:
                if mention.object_name not in present:
                    wrong.append(mention)
            mentions.append((wrong, len(of_caption)))

        return mentions


@register("chair_s")
@dataclass(frozen=True)
class ChairSentence(_Chair):
    """Score 1 for a caption that mentions an object that its image does not have, else 0 (CHAIRs)."""

    def compute(self, rows: Rows) -> Floats:
        return (self._counts(rows)[:, 0] > 0).astype(np.float64)


@register("chair_i")
@dataclass(frozen=True)
class ChairInstance(PooledMetric, _Chair):
    """The share of a caption's mentions of objects that its image does not have (CHAIRi).

    As in the authors' code it is 0 for a caption that mentions no object: nothing is made up. The corpus score is the
    share of all mentions.
    """

    def compute(self, rows: Rows) -> Floats:
        return self.pool(self._counts(rows))

    def corpus_summands(self, items: Items, scores: Floats) -> Floats:
        """Return the counts of wrong and of all mentions."""
        return self._counts(Rows.from_items(items))

    def pool(self, sums: NDArray[Any]) -> Floats:
        """Return the shares of all mentions, or 0 without any."""
        wrong, mentions = sums.T
        return wrong / np.maximum(mentions, 1)


#: From a phrase of one word or more, singular or plural, to the object that it mentions; empty for none.
Vocabulary = Mapping[tuple[str, ...], str]


def find_mentions(text: str, vocabulary: Vocabulary) -> list[Mention]:
    """Find the objects that a text mentions, the longest phrases first, as often as it does.

    A word is what blanks part, or a part of it between other characters than letters, digits, hyphens and apostrophes.
    """
    words: list[tuple[str, int]] = []
    for position, part in enumerate(text.lower().split()):
        words += [(word, position) for word in _WORD.findall(part)]

    longest = max(map(len, vocabulary))
    mentions: list[Mention] = []
    start = 0
    while start < len(words):
        for length in range(min(longest, len(words) - start), 0, -1):
            span = words[start : start + length]
            object_name = vocabulary.get(tuple(word for word, _ in span))
            if object_name is not None:
                # An empty name stands for a phrase that mentions nothing: its words are passed over.
                if object_name:
                    positions = tuple(dict.fromkeys(position for _, position in span))
                    mentions.append(Mention(object_name, positions))
                start += length
                break
        else:
            start += 1

    names = {word for word, _ in words}
    # The seat of a toilet is no chair.
    if "toilet" in names and "seat" in names:
        seats = {position for word, position in words if word == "seat"}
        mentions = [mention for mention in mentions if not seats.issuperset(mention.positions)]

    return mentions


def read_vocabulary(synonyms: str | None) -> Vocabulary:
    """Read the phrases by which objects are mentioned.

    Raises:
        InputError: where the file cannot be read, or a line's first name is not one of COCO's categories.
    """
    names = {name: [name] for name in COCO_OBJECTS}
    if synonyms is not None:
        path = expand_home(synonyms)
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            first, *synonyms_of_line = [" ".join(part.split()) for part in line.lower().split(",")]
            if not first:
                continue
            if first not in names:
                raise InputError(
                    f"{path}:{number}: '{first}' is not one of COCO's 80 objects; a line is an object's name and its "
                    "synonyms, with commas between them"
                )
            names[first] += filter(None, synonyms_of_line)

    vocabulary: dict[tuple[str, ...], str] = {}
    for name, phrases in names.items():
        for phrase in phrases:
            vocabulary[tuple(phrase.split())] = name

    for qualifier, nouns in QUALIFIERS.items():
        for noun in nouns:
            vocabulary[qualifier, noun] = vocabulary.get((noun,), "")

    for phrase, name in PHRASES.items():
        vocabulary[tuple(phrase.split())] = name

    # A plural never takes the place of a name: "glasses" would be no plural if a file named them.
    plurals: dict[tuple[str, ...], str] = {}
    for (*beginning, last_word), name in vocabulary.items():
        plurals[(*beginning, plural(last_word))] = name
    return plurals | vocabulary


def plural(word: str) -> str:
    """Return the plural of an English noun."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith("man"):
        return f"{word[:-3]}men"
    if re.search(r"(s|x|z|ch|sh)$", word):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    if re.search(r"([^f]fe|[lr]f|oaf)$", word):
        return re.sub("fe?$", "ves", word)
    return f"{word}s"


def _read_labels(path: str, vocabulary: Vocabulary) -> dict[str, set[str]]:
    """Read the objects of each image.

    Raises:
        InputError: where the file is malformed, or a label mentions no object.
    """
    file = expand_home(path)
    content: Any = read_json(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: an object image id → list of labels is expected")

    labels: dict[str, set[str]] = {}
    for image, names in content.items():
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_list:
            raise InputError(f"{file}: image '{image}': {names!r} is not a list of labels")

        objects = [vocabulary.get(tuple(name.lower().split())) for name in names]
        if None in objects:
            unknown_name = names[objects.index(None)]
            raise InputError(
                f"{file}: image '{image}': '{unknown_name}' is not one of COCO's objects"
            )
        labels[image] = {name for name in objects if name}

    return labels
