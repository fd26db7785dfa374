"""Image files as a model's input: read and decoded by threads, a few batches ahead of the model.

The rule is PIL's and that of the CLIPScore authors' code: a file is opened with `Image.open`, and the
model's own preprocessing does the rest (resize, crop, `convert("RGB")`, in its order). It follows that
of an animated image the first frame counts, transparency is dropped and not blended, EXIF rotation is
not applied, CMYK is converted by PIL's plain formula, and 16-bit grey is clipped to 8 bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from .store import key_of

Result = TypeVar("Result")

#: Decoding is done while the model computes; PIL lets other threads run meanwhile.
WORKERS = min(8, count_cores())
#: How many images are decoded ahead of the model, at most.
AHEAD = 128


def keys(paths: Sequence[str]) -> list[bytes]:
    """Return the store's key of each image: that of the file's content.

    Raises:
        InputError: where a file cannot be read.
    """
    return list(_ahead(_key, paths))


def decoded(paths: Sequence[str], preprocess: Callable[[Any], Any]) -> Iterator[Any]:
    """Return each image as the model's input, in order; at most `AHEAD` of them wait.

    Raises:
        InputError: where a file cannot be decoded, with its path.
    """
    return _ahead(lambda path: _decode(path, preprocess), paths)


def _key(path: str) -> bytes:
    try:
        return key_of(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: the image cannot be read ({error.strerror})") from error


def _decode(path: str, preprocess: Callable[[Any], Any]) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return preprocess(image)
    except (
        Exception
    ) as error:  # OSError, SyntaxError, ValueError, struct.error, … by format and fault
        raise InputError(f"{path}: not an image that PIL can read ({error})") from error


def _ahead(work: Callable[[str], Result], paths: Sequence[str]) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(work, path))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
