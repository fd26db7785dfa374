"""Region features: what a detector saw in an image, and where; read from files that it wrote.

A folder holds them in either layout, at its top or in folders of it:

- the UMIC and UNITER authors' LMDB (`feat_th0.2_max100_min10/data.mdb`, beside it
  `nbb_th0.2_max100_min10.json`; or `all/data.mdb`): key `coco_val2014_000000391895.npz`, value
  msgpack, or within LZ4, or npz (`…_compressed`), with `features`, `norm_bb` and `conf`;
- npz, a file an image (`391895.npz`, `demo_000.png.npz`, or named as those keys are): `img_feat` and
  `img_pos_feat`, as `write_regions` writes them, or the authors' three arrays.

Of the authors' arrays the first regions count, in the file's order: as many as the JSON says, else as
many as are surer than 0.2, but at least 10 and at most 100.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ....datasets.files import read_json
from ....datasets.umic_lmdb import check_whole, named_image
from ..common import demo_features

Array = NDArray[np.floating[Any]]

#: Regions count where the detector is surer than this, but not fewer or more than these.
SURE = 0.2
FEWEST, MOST = 10, 100

_LZ4 = b"\x04\x22\x4d\x18"
_ZIP = b"PK"
#: Arrays that are read; no others are.
_ARRAYS = ("img_feat", "img_pos_feat", "features", "norm_bb", "conf")
_NUMBERS = re.compile(r"[<>=|]?[fiu][1248]")


@dataclass(frozen=True)
class Seen:
    """The regions of an image.

    Attributes:
        features: shape (n_regions, dimensions), finite.
        places: x1, y1, x2, y2, width and height as shares of the image's, and width × height; float32
            of shape (n_regions, 7), finite.
    """

    features: Array
    places: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.features)


class Regions:
    """The region features in a folder, read when an image is asked for.

        with Regions(folder) as regions:
            seen = regions["391895"]

    Args:
        folder: see above.

    Raises:
        InputError: on entering, where there are no features in it, or a database is truncated.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._where: dict[str, _Place] = {}

    def __enter__(self) -> Regions:
        with ExitStack() as stack:
            databases, files = _found(self.folder)
            for path in databases:
                self._add(_database(path, stack))
            self._add({path.stem: _File(path) for path in files})
            self._stack = stack.pop_all()
        if not self._where:
            raise InputError(
                f"{self.folder}: no region features; an LMDB (data.mdb) or npz files are expected, see "
                f"docs/umic.md"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._where = {}

    def _add(self, entries: Mapping[str, _Place]) -> None:
        for name, place in entries.items():
            for image_id in {name, named_image(name) or name}:
                if image_id in self._where:
                    raise InputError(
                        f"{self.folder}: image '{image_id}' is in it twice, as {place} and as "
                        f"{self._where[image_id]}; keep one"
                    )
                self._where[image_id] = place

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._where

    def __getitem__(self, image_id: str) -> Seen:
        """The regions of an image.

        Raises:
            InputError: where there are none, or what is there is damaged or holds NaN.
        """
        if image_id not in self._where:
            raise InputError(f"{self.folder}: no region features for image '{image_id}'")
        return self._where[image_id].read()


class DemoRegions(Regions):
    """The regions of the demo's scenes, drawn once by lot (`demo_features.py`)."""

    def __init__(self) -> None:
        super().__init__(Path("demo"))

    def __enter__(self) -> DemoRegions:
        return self

    def __contains__(self, image_id: str) -> bool:
        try:
            demo_features.scene_of(image_id)
        except InputError:
            return False
        return True

    def __getitem__(self, image_id: str) -> Seen:
        features, places = demo_features.regions(demo_features.scene_of(image_id))
        return Seen(features, places.astype(np.float32))


def open_regions(folder: Path | None) -> Regions:
    """The features in a folder, or the demo's, to be used in a `with`."""
    return DemoRegions() if folder is None else Regions(folder)


@dataclass(frozen=True)
class _File:
    """An npz file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> Seen:
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self}: cannot be read ({error.strerror})") from error
        return _seen(data, None, str(self))


@dataclass(frozen=True)
class _Entry:
    """A key of a database."""

    path: Path
    transaction: Any
    key: bytes
    count: int | None

    def __str__(self) -> str:
        return f"{self.path}: key '{self.key.decode('utf-8', 'replace')}'"

    def read(self) -> Seen:
        return _seen(self.transaction.get(self.key), self.count, str(self))


_Place = _File | _Entry


def _found(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders of databases, and the npz files."""
    levels = ("", "*/", "*/*/")
    databases = sorted(p.parent for level in levels for p in folder.glob(f"{level}data.mdb"))
    # `all` holds what `feat_…` beside it was chosen from.
    chosen = {p.parent for p in databases if p.name.startswith("feat_")}
    databases = [p for p in databases if not (p.name.startswith("all") and p.parent in chosen)]
    files = sorted(p for level in levels for p in folder.glob(f"{level}*.npz"))
    return databases, files


def _counts(database: Path) -> Path | None:
    """The JSON that says how many regions of each image count."""
    name = database.name.removeprefix("feat_").removesuffix("_compressed")
    path = database.parent / f"nbb_{name}.json"
    return path if path.is_file() else None


def _database(folder: Path, stack: ExitStack) -> dict[str, _Place]:
    import lmdb

    check_whole(folder, values=False)
    path = folder / "data.mdb"
    said = _counts(folder)
    counts: Any = read_json(said) if said else {}
    if not isinstance(counts, dict):
        raise InputError(f"{said}: an object image → number of regions is expected")
    environment = stack.enter_context(lmdb.open(str(folder), readonly=True, lock=False))
    transaction = stack.enter_context(environment.begin())
    entries: dict[str, _Place] = {}
    for key in transaction.cursor().iternext(values=False):
        name = bytes(key).decode("utf-8", "replace")
        if name == "__keys__":
            continue
        count: Any = counts.get(name)
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InputError(f"{said}: '{name}' is {count!r}, not a number of regions")
        entries[name.removesuffix(".npz")] = _Entry(path, transaction, bytes(key), count)
    return entries


def _seen(data: bytes, count: int | None, where: str) -> Seen:
    import lz4.frame
    import msgpack

    try:
        if data.startswith(_LZ4):
            data = lz4.frame.decompress(data)
        if data.startswith(_ZIP):
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays: Any = {name: file[name] for name in _ARRAYS if name in file.files}
        else:
            arrays = msgpack.unpackb(data, raw=False, object_hook=_array)
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
        raise InputError(f"{where}: not region features, or damaged ({error})") from error
    return _checked(arrays, count, where)


def _array(found: dict[Any, Any]) -> Any:
    """An array as msgpack-numpy writes it; objects, which it would unpickle, are refused."""
    plain = {k.decode() if isinstance(k, bytes) else k: v for k, v in found.items()}
    if plain.get("nd") is not True:
        return found
    kind = plain["type"].decode() if isinstance(plain["type"], bytes) else plain["type"]
    if not isinstance(kind, str) or not _NUMBERS.fullmatch(kind):
        raise ValueError(f"an array of type {kind}")
    return np.frombuffer(plain["data"], np.dtype(kind)).reshape(plain["shape"])


def _checked(arrays: Any, count: int | None, where: str) -> Seen:
    if not isinstance(arrays, dict):
        raise InputError(f"{where}: not a table of arrays, but {type(arrays).__name__}")
    ours = "img_feat" in arrays
    names = ("img_feat", "img_pos_feat") if ours else ("features", "norm_bb")
    features, places = (_table(arrays.get(name), name, where) for name in names)
    if places.shape != (len(features), places.shape[1]) or places.shape[1] not in (6, 7):
        raise InputError(
            f"{where}: {names[1]} is of shape {places.shape}; ({len(features)}, 6) or "
            f"({len(features)}, 7) is expected"
        )
    if not ours:
        count = count or _sure(arrays.get("conf"), len(features), where)
        features, places = features[:count], places[:count]
    if not len(features):
        raise InputError(f"{where}: no region in it; one at least is needed")
    for name, table in zip(names, (features, places), strict=True):
        if not np.isfinite(table).all():
            raise InputError(f"{where}: {name} holds NaN or infinity; compute the features again")
    return Seen(features, _with_area(places))


def _table(value: Any, name: str, where: str) -> Array:
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind != "f":
        is_ = (
            f"{value.dtype} of shape {value.shape}"
            if isinstance(value, np.ndarray)
            else "not there"
        )
        raise InputError(
            f"{where}: {name} is {is_}; floats of shape (regions, numbers) are expected"
        )
    return value


def _sure(sureness: Any, regions: int, where: str) -> int:
    if sureness is None:
        return MOST
    if not isinstance(sureness, np.ndarray) or sureness.shape != (regions,):
        raise InputError(f"{where}: conf is not one number for each of the {regions} regions")
    return how_many(sureness)


def how_many(sureness: NDArray[Any]) -> int:
    """How many regions count, by how sure the detector is of each, shape (n_regions,)."""
    return min(max(int((sureness > SURE).sum()), FEWEST), MOST)


def _with_area(places: Array) -> NDArray[np.float32]:
    wide = places.astype(np.float32)
    return wide if wide.shape[1] == 7 else np.hstack([wide, wide[:, 4:5] * wide[:, 5:]])


def write_regions(
    folder: Path,
    image_id: str,
    features: ArrayLike,
    boxes: ArrayLike,
    size: tuple[float, float],
    sureness: ArrayLike | None = None,
) -> Path:
    """Write what a detector saw in an image as a file that `Regions` reads.

    Args:
        folder: made where it is not there.
        image_id: as the dataset names it (`captau.load(NAME).items`).
        features: shape (n_regions, dimensions).
        boxes: x1, y1, x2, y2 in pixels, shape (n_regions, 4).
        size: width and height of the image in pixels.
        sureness: of the detector, from 0 to 1, shape (n_regions,): only the surest are written, by the
            rule above; without it all are.

    Returns:
        the path of the file.

    Raises:
        InputError: where shapes do not match, a number is not finite, or the id is no file name.
    """
    where = f"region features of '{image_id}'"
    if Path(image_id).name != image_id:
        raise InputError(f"{where}: an image id that names a file is expected, without folders")
    seen, corners = np.asarray(features), np.asarray(boxes, dtype=np.float64)
    if corners.shape != (len(seen), 4) or min(size) <= 0:
        raise InputError(
            f"{where}: boxes of shape {corners.shape} in an image of {size[0]} x {size[1]}; "
            f"({len(seen)}, 4) in pixels is expected"
        )
    if sureness is not None:
        sure = np.asarray(sureness)
        order = np.argsort(-sure, kind="stable")[: _sure(sure, len(seen), where)]
        seen, corners = seen[order], corners[order]
    shares = corners / np.array([*size, *size])
    places = np.hstack([shares, shares[:, 2:] - shares[:, :2]]).astype(np.float32)
    checked = _checked({"img_feat": seen, "img_pos_feat": places}, None, where)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{image_id}.npz"
    with replacing(path) as stream:
        np.savez(stream, img_feat=checked.features, img_pos_feat=checked.places)
    return path


def regions_hash(folder: Path) -> str:
    """`sha256-…` of all features in a folder; each file is read once a process."""
    databases, files = _found(folder)
    said = [path for path in map(_counts, databases) if path]
    paths = [*(d / "data.mdb" for d in databases), *said, *files]
    return _digest(tuple(_stated(sorted(paths))))


def _stated(paths: list[Path]) -> Iterator[tuple[Path, int, int]]:
    for path in paths:
        stat = path.stat()
        yield path, stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=16)
def _digest(paths: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in paths:
        with path.open("rb") as stream:
            digest.update(f"{path.name}:".encode())
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256-{digest.hexdigest()}"
