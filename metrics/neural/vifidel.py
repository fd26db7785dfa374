"""VIFIDEL: how far a caption's words have to move to become the labels of the objects in its image."""

from __future__ import annotations

import math
import operator
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ...datasets.errors import InputError
from ...datasets.reading.cells import parse_references
from ...datasets.reading.json_files import read_json, read_text
from ...datasets.reading.table import read_table
from ..base import Floats
from ..progress import progress_counter
from ..registry import register
from ..rows import Key, Rows, index_by_key, look_up_all, row_keys
from .embeddings import FromFiles
from .models import need_extra

#: Word → its vector of length 1, shape (dimensions,).
WordVectors = Mapping[str, Floats]


@register("vifidel")
@dataclass(frozen=True)
class Vifidel(FromFiles):
    """exp(−WMD) of the objects' labels and the caption (Madhyastha et al. 2019).

    WMD is the Word Mover's Distance (Kusner et al. 2015): the least cost of turning one bag of words
    into the other, each of weight 1, where moving weight between two words costs the Euclidean
    distance of their vectors of length 1. Labels count as often as they were detected. As in the
    authors' code (ImperialNLP/vifidel, `scorer.py`), which prints the distance itself, words are
    scikit-learn's: two letters or more, lower-cased, without its English stop words; the words of
    "teddy bear" move apart. A word without a vector is left out, as Kusner et al. do. Where no word
    is left of the labels or of the caption, the score is undefined (NaN).

    Args:
        labels: a file of the objects' labels by image: a JSON object image id → list of labels; or
            JSON lines, CSV or Parquet with `image_id` and `labels`, a list or labels with ` ||| `
            between them.
        vectors: a file of word vectors: text (GloVe's, or word2vec's with its first line; .txt,
            .vec), word2vec's binary format (.bin), or npz with `word` and `vector`.
        importance: with `references`, a word's vector is multiplied by its distance from the
            references, max(0, 1 − its greatest cosine with a word of one) / 2, averaged over them
            (`objdescrefs` in the authors' code): what people mention moves at little cost.
    """

    labels: str | None = None
    vectors: str | None = None
    importance: Literal["none", "references"] = "none"
    backend: Literal["captau"] = "captau"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    distributions: ClassVar[tuple[str, ...]] = ("captau", "scikit-learn", "scipy")
    file_fields: ClassVar[tuple[str, ...]] = ("labels", "vectors")
    endings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "labels": (".json", ".jsonl", ".csv", ".parquet"),
        "vectors": (".bin", ".txt", ".vec", ".npz"),
    }

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return frozenset({"references"} if self.importance == "references" else ())

    def check_rows(self, rows: Rows) -> None:
        need_extra(self.name, ("sklearn",))
        super().check_rows(rows)

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where a file is broken, or an image has no entry in that of the labels.
        """
        words = _analyser()

        file = self.file("labels")
        labels = read_labels(file)
        images = row_keys(rows, ["image_id"], file)
        names_by_row = look_up_all(labels, images, "label list", file)
        objects = [words(" ".join(names)) for names in names_by_row]
        captions = [words(caption) for caption in rows.captions]
        references: list[list[list[str]]] = [[] for _ in captions]
        is_weighed = self.importance == "references"
        if is_weighed:
            references = []
            for texts in rows.references:
                references.append([words(text) for text in texts])

        vocabulary = set(chain(*objects, *captions))
        for texts in references:
            vocabulary.update(*texts)
        vectors = read_vectors(self.file("vectors"), vocabulary)
        if strangers := len(vocabulary) - len(vectors):
            rows.add_remark(
                self.spec,
                f"{strangers} of {len(vocabulary)} words have no vector and are left out",
            )

        # Captions of an image often come twice, and the distance is a linear programme.
        cached_distances: dict[Any, float] = {}
        scores: list[float] = []
        with progress_counter(self.spec, len(rows)) as advance:
            for things, caption, texts in zip(objects, captions, references, strict=True):
                key = (tuple(things), tuple(caption), tuple(map(tuple, texts)))
                if key not in cached_distances:
                    weights = texts if is_weighed else None
                    cached_distances[key] = fidelity(things, caption, vectors, weights)
                scores.append(cached_distances[key])
                advance(1)

        return np.array(scores)


def fidelity(
    objects: Sequence[str],
    caption: Sequence[str],
    vectors: WordVectors,
    references: Sequence[Sequence[str]] | None = None,
) -> float:
    """exp(−WMD) of two bags of words; see `Vifidel`.

    Args:
        objects, caption: words, as often as they occur.
        vectors: of length 1.
        references: words of each, where importance is weighed by them.

    Returns:
        a number in (0, 1]; NaN where no word with a vector is left.
    """
    known_objects = [word for word in objects if word in vectors]
    known_words = [word for word in caption if word in vectors]
    if not known_objects or not known_words:
        return math.nan

    vocabulary = sorted({*known_objects, *known_words})
    matrix = np.stack([vectors[word] for word in vocabulary])
    if references is not None:
        weights = _importance(matrix, references, vectors)
        if weights is None:
            return math.nan
        matrix = matrix * weights[:, None]

    index = {word: position for position, word in enumerate(vocabulary)}
    counts = np.zeros((2, len(vocabulary)))
    for side, bag in enumerate((known_objects, known_words)):
        for word in bag:
            counts[side, index[word]] += 1 / len(bag)

    return math.exp(-movers_distance(counts[0], counts[1], matrix))


def movers_distance(source: Floats, target: Floats, points: Floats) -> float:
    """Return the earth mover's distance of two weightings of the same points.

    Args:
        source, target: weights of shape (n_points,), each of sum 1.
        points: shape (n_points, dimensions).
    """
    from scipy.optimize import linprog
    from scipy.spatial.distance import cdist

    # Weight that both have at a point need not move; what is left makes a smaller problem.
    surplus = np.clip(source - target, 0, None)
    deficit = np.clip(target - source, 0, None)
    origins = np.flatnonzero(surplus > 1e-12)
    targets = np.flatnonzero(deficit > 1e-12)
    if not origins.size:
        return 0.0

    cost = cdist(points[origins], points[targets])
    rows, columns = cost.shape
    leaves = np.kron(np.eye(rows), np.ones(columns))
    # The last point's arrival follows from the others', for all that leaves arrives.
    arrives = np.kron(np.ones(rows), np.eye(columns))[:-1]
    solution = linprog(
        cost.ravel(),
        A_eq=np.concatenate([leaves, arrives]),
        b_eq=np.concatenate([surplus[origins], deficit[targets][:-1]]),
        method="highs",
    )
    return float(cast("Any", solution).fun)


def _importance(
    matrix: Floats, references: Sequence[Sequence[str]], vectors: WordVectors
) -> Floats | None:
    """Return a weight for each word (a row of `matrix`); None where no reference has a known word."""
    weights: list[Floats] = []
    for reference in references:
        distinct_words = dict.fromkeys(reference)
        words = [vectors[word] for word in distinct_words if word in vectors]
        if words:
            nearest = (matrix @ np.stack(words).T).max(axis=1)
            weights.append(np.clip(1 - nearest, 0, None) / 2)

    return np.mean(weights, axis=0) if weights else None


def _analyser() -> Any:
    """Text → its words, by scikit-learn's rule, without stop words."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(stop_words="english").build_analyzer()


def read_labels(path: Path) -> dict[Key, tuple[str, ...]]:
    """Return the labels of each image, by `(image_id,)`; none where nothing was detected.

    Raises:
        InputError: where the file is missing or broken, or an image has two lists.
    """
    if path.suffix.lower() == ".json" and read_text(path).lstrip().startswith("{"):
        by_image: dict[str, Any] = read_json(path)
        labels: dict[Key, tuple[str, ...]] = {}
        for image_id, value in by_image.items():
            labels[(image_id,)] = parse_references(value, f"{path}: '{image_id}'", "labels")
        return labels

    table = read_table(path)
    cells = zip(table.places, table.filled("image_id"), table.column("labels"), strict=True)
    entries: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
    for row_place, image, value in cells:
        entries.append((row_place, (image,), parse_references(value, row_place, "labels")))

    return index_by_key(entries, "label list", operator.eq)


def read_vectors(path: Path, words: Collection[str]) -> dict[str, Floats]:
    """Return the vectors of `words`, scaled to length 1; no others are kept in memory.

    Raises:
        InputError: where the file is missing or broken (with the line), or a vector has NaN or no
            length.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file of word vectors")
    readers = {".npz": _npz, ".bin": _binary, ".txt": _text, ".vec": _text}
    if path.suffix.lower() not in readers:
        raise InputError(
            f"{path}: the name of a file of word vectors ends in {' or '.join(readers)}"
        )

    vectors: dict[str, Floats] = {}
    for word, vector in readers[path.suffix.lower()](path, words):
        length = float(np.linalg.norm(vector))
        if not math.isfinite(length) or not length:
            raise InputError(f"{path}: the vector of '{word}' is zeros alone, or holds NaN")
        # Of a word that comes twice, the first counts, as in gensim.
        vectors.setdefault(word, vector / length)

    return vectors


def _text(path: Path, words: Collection[str]) -> Iterator[tuple[str, Floats]]:
    """Parse lines of a word and its numbers; a first line of two numbers is word2vec's."""
    size = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            cells = line.rstrip().split(b" ")
            if number == 1 and len(cells) == 2 and all(cell.isdigit() for cell in cells):
                size = int(cells[1])
                continue

            size = size or len(cells) - 1
            # A word may hold blanks itself; the numbers are the last cells.
            word = b" ".join(cells[:-size]).decode("utf-8", "replace")
            if len(cells) <= size or size < 1:
                raise InputError(
                    f"{path}:{number}: a word and {size or 'its'} numbers are expected"
                )
            if word not in words:
                continue

            try:
                yield word, np.array([float(cell) for cell in cells[-size:]])
            except ValueError as error:
                raise InputError(
                    f"{path}:{number}: the vector of '{word}' is not numeric"
                ) from error


def _binary(path: Path, words: Collection[str]) -> Iterator[tuple[str, Floats]]:
    """word2vec's binary format: a line with count and dimensions; word, blank, 32-bit floats."""
    with path.open("rb") as stream:
        header = stream.readline(64).split()
        if len(header) != 2 or not all(cell.isdigit() for cell in header):
            raise InputError(f"{path}: not word2vec's binary format: its first line is two numbers")
        count, size = map(int, header)
        for i in range(count):
            word = _until_blank(stream).lstrip(b"\n").decode("utf-8", "replace")
            data = stream.read(4 * size)
            if len(data) < 4 * size:
                raise InputError(f"{path}: it ends within word {i + 1} of {count}; get a new copy")
            if word in words:
                yield word, np.frombuffer(data, dtype="<f4").astype(np.float64)


def _until_blank(stream: BinaryIO) -> bytes:
    out = bytearray()
    while (char := stream.read(1)) not in (b" ", b""):
        out += char
    return bytes(out)


def _npz(path: Path, words: Collection[str]) -> Iterable[tuple[str, Floats]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            names: NDArray[Any] = file["word"]
            vectors: NDArray[Any] = file["vector"]
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: not an npz file with `word`, texts, and `vector`, a row each ({error})"
        ) from error
    if vectors.ndim != 2 or names.shape != (len(vectors),) or vectors.dtype.kind != "f":
        raise InputError(f"{path}: {names.size} of word, but vector is of shape {vectors.shape}")

    entries: list[tuple[str, Floats]] = []
    for row, name in enumerate(names.tolist()):
        if str(name) in words:
            entries.append((str(name), vectors[row].astype(np.float64)))
    return entries
