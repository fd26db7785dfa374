"""METEOR's tables as one memory-mapped file, compiled once from the files in pycocoevalcap (`tables`).

The index is kept in the user's cache folder under the hash of its sources and of `FORMAT`. It
is written under a temporary name and renamed, by one process at a time; a truncated or altered one is
compiled again.

The file has a line with the format, a line of JSON (the place of each array, the small tables, a
checksum of these and of the arrays), and the arrays, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import shutil
import tempfile
import zlib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ....datasets.cache import cache_folder, replacing
from ....datasets.errors import InputError
from ...progress import advance_to, progress_counter
from .tables import PROPERTY_PREFIX, Arrays, compile_tables
from .words import Ints, Lexicon, WordProperties

#: Changes with the layout, so that an index of another version is not read.
FORMAT = 3
_MAGIC = f"captau meteor index {FORMAT}\n".encode()
#: The digits, blanks before them, of the size of the JSON behind the line with the format.
_SIZE_DIGITS = 16
_ALIGNMENT = 64

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Index(Lexicon):
    """METEOR's tables.

    Attributes:
        words: the words of the paraphrase table, as UTF-8, sorted.
        first_child, node_word, used, to_first, to: the trie and the paraphrases; `used` is 1 for nodes
            that are a phrase of the table, and not only the beginning of one.
        longest: the most words of a phrase.
        properties: those of `words`.
        prefixes: words that keep their full stop, and whether they do only before a number.
    """

    words: NDArray[np.bytes_]
    first_child: Ints
    node_word: Ints
    used: NDArray[np.uint8]
    to_first: Ints
    to: Ints
    longest: int
    properties: WordProperties
    prefixes: dict[str, bool]


def load_index(language: str = "english", paraphrases: Path | None = None) -> Index:
    """Load the index of the installed pycocoevalcap, compiling it if it is not there yet.

    Args:
        language: as the jar's files are named.
        paraphrases: METEOR's paraphrases of that language; by default the English ones of pycocoevalcap, and none
            for other languages.

    Raises:
        InputError: if pycocoevalcap lacks its files, or they are damaged.
    """
    from ..java import pycocoevalcap_file

    jar = pycocoevalcap_file("meteor", "meteor-1.5.jar")
    if paraphrases is None and language == "english":
        paraphrases = pycocoevalcap_file("meteor", "data", "paraphrase-en.gz")
    return open_index(jar, paraphrases, cache_folder("meteor"), language)


@cache
def open_index(
    program: Path, paraphrases: Path | None, folder: Path, language: str = "english"
) -> Index:
    """Open the index of a jar and a paraphrase file, which is kept in a folder.

    Raises:
        InputError: if a file is damaged, or the index cannot be written anywhere.
    """
    from ....datasets.reading.source_files import sha256
    from ...base import version_of

    # The index has stems.
    stemmer = version_of("snowballstemmer")
    digest = hashlib.sha256(_MAGIC + f"{language} {stemmer}".encode())
    for path in filter(None, (program, paraphrases)):
        digest.update(bytes.fromhex(sha256(path)))
    name = f"{digest.hexdigest()[:24]}.index"

    index = _read(folder / name)
    if index is not None:
        return index

    try:
        return _compile(folder / name, program, paraphrases, language)
    # NotImplementedError comes where files cannot be locked.
    except (OSError, NotImplementedError) as error:
        logger.warning(
            "METEOR's index is not kept for the next run: %s cannot be written (%s); set "
            "cache.root=DIR",
            folder,
            getattr(error, "strerror", error),
        )

    try:
        temporary = Path(tempfile.mkdtemp(prefix="captau-meteor-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _compile(temporary / name, program, paraphrases, language)
    except OSError as error:
        raise InputError(
            f"METEOR's index (79 MB) can be written neither to {folder} nor to "
            f"{tempfile.gettempdir()} ({error.strerror}); set cache.root=DIR, or use "
            f"meteor(backend=pycocoevalcap)"
        ) from error


def _compile(path: Path, program: Path, paraphrases: Path | None, language: str) -> Index:
    """Compile the index into `path`, unless another process is faster."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    # One lock for the indexes of all languages: whoever has it removes what killed processes left.
    with FileLock(path.with_name("index.lock")):
        index = _read(path)
        if index is not None:
            return index
        # What a killed process left.
        for leftover in path.parent.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        with (
            replacing(path) as stream,
            progress_counter("METEOR's tables, once", 100) as advance,
        ):
            advance_to_percent = advance_to(advance)

            def show(share: float, step: str) -> None:
                advance_to_percent(round(100 * share))
                advance.add_detail(step)

            tables = compile_tables(program, paraphrases, show, language)
            _write(stream, *tables)

        index = _read(path)

    assert index is not None
    return index


def _read(path: Path) -> Index | None:
    """Map an index file into memory; return None if it is missing, cut off or altered."""
    try:
        data = np.memmap(path, np.uint8, "r").view(np.ndarray)
        if data[: len(_MAGIC)].tobytes() != _MAGIC:
            return None
        begin = len(_MAGIC) + _SIZE_DIGITS
        size = int(data[len(_MAGIC) : begin].tobytes())
        header = json.loads(data[begin : begin + size].tobytes())
        body = data[_align(begin + size) :]
        if header["size"] != len(body):
            return None
        crc = header.pop("crc")
        if crc != zlib.crc32(body.data, _header_crc(header)):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None

    arrays: dict[str, Any] = {}
    for name, (dtype, start, end) in header["arrays"].items():
        arrays[name] = body[start:end].view(dtype)
    properties: dict[str, Any] = {}
    for field in fields(WordProperties):
        properties[field.name] = arrays.pop(f"{PROPERTY_PREFIX}{field.name}")
    small = header["small"]

    return Index(
        **arrays,
        properties=WordProperties(**properties),
        longest=small["longest"],
        function=frozenset(small["function"]),
        prefixes=small["prefixes"],
    )


def _write(stream: IO[bytes], arrays: Arrays, small: dict[str, Any]) -> None:
    places: dict[str, tuple[str, int, int]] = {}
    size = 0
    pieces: list[bytes] = []
    for name, array in arrays.items():
        piece = array.tobytes()
        places[name] = (array.dtype.str, size, size + len(piece))
        n_padding = _align(len(piece)) - len(piece)
        piece += bytes(n_padding)
        size += len(piece)
        pieces.append(piece)

    fields_of_header: dict[str, Any] = {"size": size, "arrays": places, "small": small}
    crc = _header_crc(fields_of_header)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)

    header = json.dumps({"crc": crc, **fields_of_header}).encode()
    start = len(_MAGIC) + _SIZE_DIGITS + len(header)
    n_padding = _align(start) - start

    stream.write(_MAGIC)
    stream.write(f"{len(header):{_SIZE_DIGITS}d}".encode())
    stream.write(header)
    stream.write(bytes(n_padding))
    for piece in pieces:
        stream.write(piece)
    stream.flush()
    os.fsync(stream.fileno())


def _header_crc(header: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(header).encode())


def _align(size: int) -> int:
    """Return the least multiple of `_ALIGNMENT` that is no less than a size."""
    n_blocks = (size + _ALIGNMENT - 1) // _ALIGNMENT
    return n_blocks * _ALIGNMENT
