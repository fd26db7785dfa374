"""Similar images, whose captions are hard negatives of UMIC's training (Lee et al. 2021, section 3.2).

They are those of the nearest mean region features, those of the most similar captions by CIDEr, or those of a file of
similarities or embeddings of a retrieval model such as VSE++ or CLIP.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.reading.json_files import read_json
from ....datasets.reading.table import read_table
from ...neural.embedding_files import Embeddings
from ...text.cider import ORDERS
from ...text.tokens.ptb import tokenize
from ..common.captioned_images import CaptionedImages, short_image_id
from .regions import Regions

logger = logging.getLogger(__name__)

#: The origins of similar images that are rules and no files.
SIMILARITY_RULES = ("regions", "cider")
#: Endings of files of embeddings, and of tables of pairs.
_EMBEDDINGS = (".npz", ".safetensors", ".parquet")
_TABLES = (".csv", ".tsv", ".jsonl")
#: How many of the most similar images are drawn from (Lee et al. 2021, section 3.2).
N_NEAREST = 3
#: Images that are compared with all others at a time.
_BLOCK = 1024

#: Image id → the most similar images, the nearest first.
SimilarImages = dict[str, list[str]]


def find_similar_images(origin: str, captioned: CaptionedImages, regions: Regions) -> SimilarImages:
    """Find the similar images of captioned images.

    Args:
        origin: `regions`, by the mean region features; `cider`, by the captions; or a file
            (`load_similar_images`).
        captioned: the images.
        regions: their features.

    Raises:
        InputError: if an image has no features, or the file does not fit.
    """
    if origin == "cider":
        return find_images_by_cider(captioned)
    if origin == "regions":
        return find_nearest_images(compute_mean_features(captioned, regions), list(captioned))
    return load_similar_images(expand_home(origin), captioned)


def load_similar_images(path: Path, captioned: CaptionedImages) -> SimilarImages:
    """Load the similar images of captioned images from a file.

    Args:
        path: a JSON object, image id → ids of similar images, the nearest first; a table with the columns
            `image_id`, `similar_image_id` and `similarity` (more is nearer; without it, in the order of the
            rows); or embeddings by `image_id` (`neural/embedding_files.py`), of which the cosine decides.
        captioned: the images; a file may have more.

    Raises:
        InputError: if the file is missing, malformed, or has none of the images.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file of similar images")

    ending = path.suffix.lower()
    if ending in _EMBEDDINGS:
        similar = _read_embeddings(path, captioned)
    elif ending in _TABLES:
        similar = _read_pairs(path)
    elif ending == ".json":
        similar = _read_lists(path)
    else:
        endings = ", ".join([".json", *_TABLES, *_EMBEDDINGS])
        raise InputError(f"{path}: the name of a file of similar images ends in {endings}")

    n_lacking = sum(image not in similar for image in captioned)
    if n_lacking == len(captioned):
        raise InputError(
            f"{path}: none of the {n_lacking:,} captioned images is in it, such as '{next(iter(captioned))}'; "
            f"are its image ids those of the captions?"
        )
    if n_lacking:
        logger.warning(
            "%s: no similar images of %s of the %s captioned images, whose random captions are of any image",
            path,
            f"{n_lacking:,}",
            f"{len(captioned):,}",
        )

    # No image is similar to itself, whatever the file says.
    for image, ids in similar.items():
        similar[image] = [neighbour for neighbour in ids if neighbour != image]
    return similar


def _read_embeddings(path: Path, captioned: CaptionedImages) -> SimilarImages:
    embeddings = Embeddings.read(path)
    slices = embeddings.entries(embeddings.columns(("image_id",)))
    rows: dict[str, int] = {}
    for (image,), part in slices.items():
        rows[short_image_id(image)] = part.start
    images = [image for image in captioned if image in rows]
    if not images:
        return {}
    return find_nearest_images(embeddings.vectors[[rows[image] for image in images]], images)


def _read_pairs(path: Path) -> SimilarImages:
    table = read_table(path)
    images = [short_image_id(image) for image in table.filled("image_id")]
    similar_images = [short_image_id(image) for image in table.filled("similar_image_id")]
    has_similarity = "similarity" in table
    values = table.floats("similarity", None) if has_similarity else [0.0] * len(images)

    pairs: dict[str, list[tuple[float, str]]] = {}
    for image, similar_image, value in zip(images, similar_images, values, strict=True):
        pairs.setdefault(image, []).append((value, similar_image))

    similar: SimilarImages = {}
    for image, similarities in pairs.items():
        # Equal similarities, and rows without any, stay in the file's order.
        nearest_first = sorted(similarities, key=lambda pair: -pair[0])
        similar[image] = [similar_image for _, similar_image in nearest_first]
    return similar


def _read_lists(path: Path) -> SimilarImages:
    lists: Any = read_json(path)
    if not isinstance(lists, dict):
        raise InputError(f"{path}: an object is expected, image id → a list of similar images")
    similar: SimilarImages = {}
    for image, ids in lists.items():
        if not isinstance(ids, list) or not all(isinstance(i, str | int) for i in ids):
            raise InputError(f"{path}: image '{image}': {ids!r:.60} is not a list of image ids")
        similar[short_image_id(image)] = [short_image_id(str(i)) for i in ids]

    return similar


def find_nearest_images(
    vectors: NDArray[np.floating[Any]], images: Sequence[str]
) -> dict[str, list[str]]:
    """Find for each image the `N_NEAREST` others by the cosine of their vectors.

    Args:
        vectors: shape (n_images, dimensions).
        images: their ids.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return _take_nearest(lambda block: units[block] @ units.T, images)


def find_images_by_cider(captioned: CaptionedImages) -> SimilarImages:
    """Find for each image the `N_NEAREST` others whose captions have the highest mean CIDEr against its own.

    The mean over all pairs of two images' captions of the cosine of their TF-IDF vectors (Vedantam et al. 2015)
    is the product of the images' means of unit vectors, so that one product of sparse matrices has them all.
    """
    images = list(captioned)
    tokens: list[list[list[str]]] = []
    for image in images:
        tokens.append([text.split() for text in tokenize(captioned[image])])

    means: list[Any] = []
    for n in range(1, ORDERS + 1):
        # A row a caption: its image, its share in the image's mean, and its n-grams.
        rows: list[tuple[int, float, Counter[tuple[str, ...]]]] = []
        for i, texts in enumerate(tokens):
            for words in texts:
                ngrams = zip(*(words[k:] for k in range(n)), strict=False)
                rows.append((i, 1 / len(texts), Counter(ngrams)))

        columns: dict[tuple[str, ...], int] = {}
        image_of_cell: list[int] = []
        column_of_cell: list[int] = []
        for i, _, counts in rows:
            for ngram in counts:
                image_of_cell.append(i)
                column_of_cell.append(columns.setdefault(ngram, len(columns)))
        of_image = np.array(image_of_cell, dtype=np.int64)
        of_ngram = np.array(column_of_cell, dtype=np.int64)

        distinct = np.unique(np.stack([of_image, of_ngram]), axis=1)
        idf = np.log(len(images) / np.bincount(distinct[1], minlength=len(columns)))

        cells: list[NDArray[np.float64]] = []
        for _, share, counts in rows:
            weights = np.array([count * idf[columns[ngram]] for ngram, count in counts.items()])
            length = np.linalg.norm(weights) if len(weights) else 0.0
            cells.append(weights * share / length if length else weights)

        shape = (len(images), len(columns))
        means.append(csr_matrix((np.concatenate(cells), (of_image, of_ngram)), shape=shape))

    vectors = hstack(means, format="csr")
    return _take_nearest(lambda block: (vectors[block] @ vectors.T).toarray(), images)


def _take_nearest(
    compare: Callable[[slice], NDArray[np.floating[Any]]], images: Sequence[str]
) -> SimilarImages:
    """Return for each image the most similar others.

    Args:
        compare: a block of the images → their similarities to all, shape (n_block, n_images).
        images: their ids.
    """
    count = min(N_NEAREST, len(images) - 1)
    nearest: SimilarImages = {}
    for start in range(0, len(images), _BLOCK):
        similarities = compare(slice(start, start + _BLOCK))
        n_rows = len(similarities)
        # An image is not its own neighbour.
        similarities[np.arange(n_rows), np.arange(start, start + n_rows)] = -np.inf
        order = np.argsort(-similarities, axis=1, kind="stable")[:, :count]
        for i, row in enumerate(order):
            nearest[images[start + i]] = [images[int(j)] for j in row]

    return nearest


def compute_mean_features(captioned: CaptionedImages, regions: Regions) -> NDArray[np.float32]:
    """Return the mean region features of each image, shape (n_images, dimensions).

    Raises:
        InputError: if an image has no features, or of another dimension than the first.
    """
    first = next(iter(captioned))
    means = np.empty((len(captioned), regions[first].features.shape[1]), dtype=np.float32)
    for i, image_id in enumerate(captioned):
        features = regions[image_id].features
        if features.shape[1] != means.shape[1]:
            raise InputError(
                f"{regions.folder}: image '{image_id}' has features of {features.shape[1]} numbers, and "
                f"'{first}' of {means.shape[1]}; of two detectors?"
            )
        means[i] = features.mean(axis=0)

    return means
