"""Arrays of region features: decoded from msgpack, LZ4 or npz, and checked."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError

Array = NDArray[np.floating[Any]]

#: Regions count if the detector's confidence is greater than this, but not fewer or more than these.
MIN_CONFIDENCE = 0.2
MIN_REGIONS, MAX_REGIONS = 10, 100

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
            arrays = msgpack.unpackb(data, raw=False, object_hook=_decode_array)
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


def _decode_array(table: dict[Any, Any]) -> Any:
    """Return the array that msgpack-numpy wrote; refuse objects, which it would unpickle."""
    fields = {k.decode() if isinstance(k, bytes) else k: v for k, v in table.items()}
    if fields.get("nd") is not True:
        return table
    dtype = fields["type"].decode() if isinstance(fields["type"], bytes) else fields["type"]
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
    features, boxes = (_check_matrix(arrays.get(name), name, label) for name in names)
    if len(boxes) != len(features) or boxes.shape[1] not in (6, 7):
        raise InputError(
            f"{label}: {names[1]} is of shape {boxes.shape}; ({len(features)}, 6) or "
            f"({len(features)}, 7) is expected"
        )
    if not is_captau:
        count = count or check_confidence(arrays.get("conf"), len(features), label)
        features, boxes = features[:count], boxes[:count]
    if not len(features):
        raise InputError(f"{label}: no region in it; at least one is needed")
    for name, matrix in zip(names, (features, boxes), strict=True):
        if not np.isfinite(matrix).all():
            raise InputError(f"{label}: {name} holds NaN or infinity; compute the features again")
    boxes = boxes.astype(np.float32)
    if boxes.shape[1] == 6:
        boxes = np.hstack([boxes, boxes[:, 4:5] * boxes[:, 5:]])
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
