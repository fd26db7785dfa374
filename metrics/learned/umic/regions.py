"""Region features, a detector's description of images: folders of them, read and written.

A folder holds them in either layout, at its top or in folders inside it:

- the UMIC and UNITER authors' LMDB (`feat_th0.2_max100_min10/data.mdb`, beside it
  `nbb_th0.2_max100_min10.json`; or `all/data.mdb`): key `coco_val2014_000000391895.npz`, value
  msgpack, or within LZ4, or npz (`…_compressed`), with `features`, `norm_bb` and `conf`;
- npz, a file an image (`391895.npz`, `demo_000.png.npz`, or named as those keys are): `img_feat` and
  `img_pos_feat`, as `write_regions` writes them, or the authors' three arrays.

Of the authors' arrays the first regions count, in the file's order: as many as the JSON says, else as
many as have a confidence above 0.2, but at least 10 and at most 100.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ....datasets.reading.json_files import read_json
from ....datasets.sources.umic_lmdb import check_whole, named_image
from ..common.features import find_scene, region_features

Array = NDArray[np.floating[Any]]

#: Regions count if the detector's confidence is greater than this, but not fewer or more than these.
MIN_CONFIDENCE = 0.2
MIN_REGIONS = 10
MAX_REGIONS = 100

#: First bytes of LZ4 frames and of zip files (npz).
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZIP_MAGIC = b"PK"
#: The only arrays that are read from npz files.
_NPZ_ARRAYS = ("img_feat", "img_pos_feat", "features", "norm_bb", "conf")
_NUMBER_TYPE = re.compile(r"[<>=|]?[fiu][1248]")


@dataclass(frozen=True)
class ImageRegions:
    """The regions of an image.

    Attributes:
        features: shape (n_regions, dimensions), finite.
        boxes: x1, y1, x2, y2, width and height as shares of the image's, and width × height; float32
            of shape (n_regions, 7), finite.
    """

    features: Array
    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.features)


def decode_regions(data: bytes, count: int | None, label: str) -> ImageRegions:
    """Decode the regions of an image.

    Args:
        data: msgpack, also within LZ4, or npz.
        count: the number of regions that count; None derives it from confidences.
        label: of the data, for messages.

    Raises:
        InputError: if the data are damaged, or `check_regions` refuses them.
    """
    import lz4.frame
    import msgpack

    try:
        if data.startswith(_LZ4_MAGIC):
            data = lz4.frame.decompress(data)
        if data.startswith(_ZIP_MAGIC):
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays: Any = {name: file[name] for name in _NPZ_ARRAYS if name in file.files}
        else:
            arrays = msgpack.unpackb(data, raw=False, object_hook=decode_array)
    except (
        RuntimeError,  # of LZ4
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise InputError(f"{label}: not region features, or damaged ({error})") from error

    return check_regions(arrays, count, label)


def decode_array(table: dict[Any, Any]) -> Any:
    """Return the array that msgpack-numpy wrote; refuse objects, which it would unpickle."""
    fields: dict[Any, Any] = {}
    for key, value in table.items():
        fields[key.decode() if isinstance(key, bytes) else key] = value
    if fields.get("nd") is not True:
        return table

    dtype = fields["type"]
    if isinstance(dtype, bytes):
        dtype = dtype.decode()
    if not isinstance(dtype, str) or not _NUMBER_TYPE.fullmatch(dtype):
        raise ValueError(f"an array of type {dtype}")
    return np.frombuffer(fields["data"], np.dtype(dtype)).reshape(fields["shape"])


def check_regions(arrays: Any, count: int | None, label: str) -> ImageRegions:
    """Return the regions in captau's two arrays, or in the authors' three.

    Raises:
        InputError: if an array is missing, of a wrong shape or type, or not finite; or no region counts.
    """
    if not isinstance(arrays, dict):
        raise InputError(f"{label}: not a table of arrays, but {type(arrays).__name__}")

    is_captau = "img_feat" in arrays
    names = ("img_feat", "img_pos_feat") if is_captau else ("features", "norm_bb")
    features_name, boxes_name = names
    features = _check_matrix(arrays.get(features_name), features_name, label)
    boxes = _check_matrix(arrays.get(boxes_name), boxes_name, label)
    if len(boxes) != len(features) or boxes.shape[1] not in (6, 7):
        raise InputError(
            f"{label}: {boxes_name} is of shape {boxes.shape}; ({len(features)}, 6) or "
            f"({len(features)}, 7) is expected"
        )

    if not is_captau:
        count = count or check_confidence(arrays.get("conf"), len(features), label)
        features = features[:count]
        boxes = boxes[:count]
    if not len(features):
        raise InputError(f"{label}: no region in it; at least one is needed")
    for name, matrix in zip(names, (features, boxes), strict=True):
        if not np.isfinite(matrix).all():
            raise InputError(f"{label}: {name} holds NaN or infinity; compute the features again")

    boxes = boxes.astype(np.float32)
    if boxes.shape[1] == 6:  # without the area, width × height
        widths = boxes[:, 4:5]
        heights = boxes[:, 5:6]
        boxes = np.hstack([boxes, widths * heights])
    return ImageRegions(features, boxes)


def _check_matrix(value: Any, name: str, label: str) -> Array:
    if not isinstance(value, np.ndarray):
        actual = "not there"
    elif value.ndim != 2 or value.dtype.kind != "f":
        actual = f"{value.dtype} of shape {value.shape}"
    else:
        return value

    raise InputError(
        f"{label}: {name} is {actual}; floats of shape (regions, numbers) are expected"
    )


def check_confidence(confidence: Any, n_regions: int, label: str) -> int:
    """Return how many regions count by the detector's confidence; `MAX_REGIONS` without any.

    Raises:
        InputError: if it is not one number for each region.
    """
    if confidence is None:
        return MAX_REGIONS
    if not isinstance(confidence, np.ndarray) or confidence.shape != (n_regions,):
        raise InputError(f"{label}: conf is not one number for each of the {n_regions} regions")
    return count_regions(confidence)


def count_regions(confidence: NDArray[Any]) -> int:
    """Return how many regions count by the detector's confidence in each, shape (n_regions,)."""
    return min(max(int((confidence > MIN_CONFIDENCE).sum()), MIN_REGIONS), MAX_REGIONS)


class Regions:
    """The region features in a folder, each image's read on demand.

        with Regions(folder) as regions:
            image_regions = regions["391895"]

    Args:
        folder: see the module's docstring.

    Raises:
        InputError: on entering, if there are no features in it, or a database is truncated.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._entries: dict[str, _RegionEntry] = {}

    def __enter__(self) -> Regions:
        with ExitStack() as stack:
            databases, files = _list_files(self.folder)
            for path in databases:
                self._add(_read_keys(path, stack))
            self._add({path.stem: _RegionEntry(str(path), path.read_bytes) for path in files})
            # All is well: what was opened stays open until `__exit__`.
            self._stack = stack.pop_all()

        if not self._entries:
            raise InputError(
                f"{self.folder}: no region features; an LMDB (data.mdb) or npz files are expected, see "
                f"docs/umic.md"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._entries = {}

    def _add(self, entries: Mapping[str, _RegionEntry]) -> None:
        for name, entry in entries.items():
            # An entry such as `coco_val2014_000000391895` is found by its own name, and as image 391895.
            image_ids = {name, named_image(name) or name}
            for image_id in image_ids:
                if image_id in self._entries:
                    raise InputError(
                        f"{self.folder}: image '{image_id}' is in it twice, as {entry.label} and as "
                        f"{self._entries[image_id].label}; keep one"
                    )
                self._entries[image_id] = entry

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._entries

    def __getitem__(self, image_id: str) -> ImageRegions:
        """Read the regions of an image.

        Raises:
            InputError: if there are none, or they are damaged or hold NaN.
        """
        if image_id not in self._entries:
            raise InputError(f"{self.folder}: no region features for image '{image_id}'")
        return self._entries[image_id].read()


class DemoRegions(Regions):
    """The regions of the demo's scenes, with random vectors (`common/features.py`)."""

    def __init__(self) -> None:
        super().__init__(Path("demo"))

    def __enter__(self) -> DemoRegions:
        return self

    def __contains__(self, image_id: str) -> bool:
        try:
            find_scene(image_id)
        except InputError:
            return False
        return True

    def __getitem__(self, image_id: str) -> ImageRegions:
        scene = find_scene(image_id)
        features, boxes = region_features(scene)
        return ImageRegions(features, boxes.astype(np.float32))


def open_regions(folder: Path | None) -> Regions:
    """Return the features in a folder, or the demo's if it is None, for use in a `with`."""
    return DemoRegions() if folder is None else Regions(folder)


@dataclass(frozen=True)
class _RegionEntry:
    """A file or a database's entry with the regions of an image.

    Attributes:
        label: for messages.
        read_bytes: raises `OSError` if a file cannot be read.
        count: the number of regions that count, if the database says it.
    """

    label: str
    read_bytes: Callable[[], Any]
    count: int | None = None

    def read(self) -> ImageRegions:
        try:
            data = self.read_bytes()
        except OSError as error:
            raise InputError(f"{self.label}: cannot be read ({error.strerror})") from error
        return decode_regions(data, self.count, self.label)


def _list_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders of databases, and the npz files."""
    levels = ("", "*/", "*/*/")
    databases: list[Path] = []
    files: list[Path] = []
    for level in levels:
        databases += [path.parent for path in folder.glob(f"{level}data.mdb")]
        files += folder.glob(f"{level}*.npz")

    # `feat_…` is a selection from `all` beside it.
    selected = {path.parent for path in databases if path.name.startswith("feat_")}
    kept_databases: list[Path] = []
    for path in databases:
        is_replaced = path.name.startswith("all") and path.parent in selected
        if not is_replaced:
            kept_databases.append(path)

    return sorted(kept_databases), sorted(files)


def _find_counts(database: Path) -> Path | None:
    """Return the JSON file with the number of regions of each image, if it exists."""
    name = database.name.removeprefix("feat_").removesuffix("_compressed")
    path = database.parent / f"nbb_{name}.json"
    return path if path.is_file() else None


def _read_keys(folder: Path, stack: ExitStack) -> dict[str, _RegionEntry]:
    """Open a database until the stack is closed; return its entries by image name."""
    import lmdb

    check_whole(folder, values=False)
    counts_path = _find_counts(folder)
    counts: Any = read_json(counts_path) if counts_path else {}
    if not isinstance(counts, dict):
        raise InputError(f"{counts_path}: an object image → number of regions is expected")

    environment = stack.enter_context(lmdb.open(str(folder), readonly=True, lock=False))
    transaction = stack.enter_context(environment.begin())
    entries: dict[str, _RegionEntry] = {}
    for key in transaction.cursor().iternext(values=False):
        name = bytes(key).decode("utf-8", "replace")
        if name == "__keys__":
            continue

        count: Any = counts.get(name)
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InputError(f"{counts_path}: '{name}' is {count!r}, not a number of regions")

        label = f"{folder / 'data.mdb'}: key '{name}'"
        read_bytes = partial(transaction.get, bytes(key))
        entries[name.removesuffix(".npz")] = _RegionEntry(label, read_bytes, count)

    return entries


def write_regions(
    folder: Path,
    image_id: str,
    features: ArrayLike,
    boxes: ArrayLike,
    size: tuple[float, float],
    confidence: ArrayLike | None = None,
) -> Path:
    """Write a detector's regions of an image as a file that `Regions` reads.

    Args:
        folder: created if it does not exist.
        image_id: as in the dataset (`captau.load(NAME).items`).
        features: shape (n_regions, dimensions).
        boxes: x1, y1, x2, y2 in pixels, shape (n_regions, 4).
        size: width and height of the image in pixels.
        confidence: the detector's, from 0 to 1, shape (n_regions,): only the regions with the highest
            are written, by the rule of the module's docstring; without it all are.

    Returns:
        the path of the file.

    Raises:
        InputError: if shapes do not match, a number is not finite, or the id is no file name.
    """
    label = f"region features of '{image_id}'"
    if Path(image_id).name != image_id:
        raise InputError(f"{label}: an image id that names a file is expected, without folders")

    features = np.asarray(features)
    corners = np.asarray(boxes, dtype=np.float64)
    if corners.shape != (len(features), 4) or min(size) <= 0:
        raise InputError(
            f"{label}: boxes of shape {corners.shape} in an image of {size[0]} x {size[1]}; "
            f"({len(features)}, 4) in pixels is expected"
        )
    if confidence is not None:
        confidence = np.asarray(confidence)
        count = check_confidence(confidence, len(features), label)
        order = np.argsort(-confidence, kind="stable")[:count]
        features = features[order]
        corners = corners[order]

    shares = corners / np.array([*size, *size])
    top_left = shares[:, :2]
    bottom_right = shares[:, 2:]
    described_boxes = np.hstack([shares, bottom_right - top_left]).astype(np.float32)
    arrays = {"img_feat": features, "img_pos_feat": described_boxes}
    regions = check_regions(arrays, None, label)

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{image_id}.npz"
    with replacing(path) as stream:
        np.savez(stream, img_feat=regions.features, img_pos_feat=regions.boxes)
    return path


def hash_regions(folder: Path) -> str:
    """Return `sha256-…` of all features in a folder; each file is read once a process."""
    databases, files = _list_files(folder)
    counts = [path for path in map(_find_counts, databases) if path]
    data_files = [database / "data.mdb" for database in databases]

    # Size and time of change stand in the cache's key, so that a changed file is read again.
    keys: list[tuple[Path, int, int]] = []
    for path in sorted([*data_files, *counts, *files]):
        stat = path.stat()
        keys.append((path, stat.st_size, stat.st_mtime_ns))
    return _hash_files(tuple(keys))


@lru_cache(maxsize=16)
def _hash_files(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in files:
        with path.open("rb") as stream:
            digest.update(f"{path.name}:".encode())
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256-{digest.hexdigest()}"
