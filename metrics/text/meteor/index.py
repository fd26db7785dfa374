"""METEOR's tables as one memory-mapped file, compiled once from the files in pycocoevalcap.

The sources are the jar (function words, nonbreaking prefixes, WordNet's synsets and irregular forms)
and `paraphrase-en.gz` (5.3 million pairs of phrases). The index is kept in the user's cache folder
under the hash of both and of `FORMAT`. It is written under a temporary name and renamed, one process
at a time; one that is truncated or altered is compiled again.

The file: a line that says what it is, a line of JSON (the arrays with their place, the small tables,
a checksum), and the arrays, each at a multiple of 64 bytes.

Phrases form a trie. Its nodes are numbered breadth first, so that a node's children follow each other:
those of node `n` are `first_child[n]` to `first_child[n + 1]`, sorted by their word. Node 0 is the empty
phrase. A word's number is its place in the sorted array `words`. The paraphrases of a node's phrase are
the nodes `to[to_first[n]]` to `to[to_first[n + 1]]`, in the order of the file.
"""

from __future__ import annotations

import atexit
import gzip
import hashlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....datasets.cache import cache_folder, replacing
from ....datasets.errors import InputError
from ...progress import advance_to, progress_counter
from ..java import jar

#: Changes with the layout, so that an index of another version is not read.
FORMAT = 1
_MAGIC = f"captau meteor index {FORMAT}\n".encode()
_ALIGNMENT = 64

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Index:
    """The tables.

    Attributes:
        words: the words of the paraphrase table, as UTF-8, sorted.
        first_child, node_word, used, to_first, to: the trie and the paraphrases; `used` is 1 where a
            node is a phrase of the table and not the beginning of one alone.
        longest: the most words of a phrase.
        lemmas, lemma_first, lemma_sets: WordNet's words, sorted, and the synsets of each, sorted.
        forms, form_first, form_sets: irregular forms, sorted, and the synsets of their base forms.
        function: function words.
        prefixes: words that keep their full stop → whether only before a number.
    """

    words: NDArray[np.bytes_]
    first_child: Ints
    node_word: Ints
    used: NDArray[np.uint8]
    to_first: Ints
    to: Ints
    longest: int
    lemmas: NDArray[np.bytes_]
    lemma_first: Ints
    lemma_sets: Ints
    forms: NDArray[np.bytes_]
    form_first: Ints
    form_sets: Ints
    function: frozenset[str]
    prefixes: dict[str, bool]


#: Called with the share of the work that is done, from 0 to 1.
Progress = Callable[[float], None]


def index() -> Index:
    """The index of the installed pycocoevalcap, compiled if it is not there yet.

    Raises:
        InputError: where pycocoevalcap lacks its files, or they are damaged.
    """
    return open_index(jar("meteor", "meteor-1.5.jar"), paraphrase_file(), cache_folder("meteor"))


def paraphrase_file() -> Path:
    """METEOR's English paraphrases inside pycocoevalcap."""
    return jar("meteor", "data", "paraphrase-en.gz")


@cache
def open_index(program: Path, paraphrases: Path, folder: Path) -> Index:
    """The index of a jar and a paraphrase file, kept in a folder.

    Raises:
        InputError: where a file is damaged, or the index can be written nowhere.
    """
    digest = hashlib.sha256(_MAGIC)
    for path in (program, paraphrases):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    name = f"{digest.hexdigest()[:24]}.index"
    found = load(folder / name)
    if found is not None:
        return found
    try:
        return _compiled(folder / name, program, paraphrases)
    except (OSError, NotImplementedError) as error:  # the latter where files cannot be locked
        print(
            f"captau: warning: METEOR's index is not kept for the next run: {folder} cannot be "
            f"written ({getattr(error, 'strerror', error)}); set cache.root=DIR",
            file=sys.stderr,
        )
    try:
        temporary = Path(tempfile.mkdtemp(prefix="captau-meteor-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _compiled(temporary / name, program, paraphrases)
    except OSError as error:
        raise InputError(
            f"METEOR's index (78 MB) can be written neither to {folder} nor to "
            f"{tempfile.gettempdir()} ({error.strerror}); set cache.root=DIR, or use "
            f"meteor(backend=pycocoevalcap)"
        ) from error


def _compiled(path: Path, program: Path, paraphrases: Path) -> Index:
    """Compile the index into `path`, unless another process does so meanwhile."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        found = load(path)
        if found is not None:
            return found
        for left in path.parent.glob(".*.tmp"):  # of a killed run: no other one is at it now
            left.unlink(missing_ok=True)
        with replacing(path) as stream, _share_done() as progress:
            _write(stream, *_tables(program, paraphrases, progress))
        found = load(path)
    assert found is not None
    return found


def load(path: Path) -> Index | None:
    """The index in a file, mapped into memory; None where it is missing, cut off or altered."""
    try:
        data = np.memmap(path, np.uint8, "r").view(np.ndarray)
        if data[: len(_MAGIC)].tobytes() != _MAGIC:
            return None
        size = int(data[len(_MAGIC) : len(_MAGIC) + 16].tobytes())
        begin = len(_MAGIC) + 16
        header = json.loads(data[begin : begin + size].tobytes())
        body = data[_aligned(begin + size) :]
        if header["size"] != len(body) or header["crc"] != zlib.crc32(body.data):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    arrays: dict[str, Any] = {
        name: body[start:end].view(dtype) for name, (dtype, start, end) in header["arrays"].items()
    }
    small = header["small"]
    return Index(
        **arrays,
        longest=small["longest"],
        function=frozenset(small["function"]),
        prefixes=small["prefixes"],
    )


def _write(stream: Any, arrays: dict[str, NDArray[Any]], small: dict[str, Any]) -> None:
    places: dict[str, tuple[str, int, int]] = {}
    size = crc = 0
    pieces: list[bytes] = []
    for name, array in arrays.items():
        piece = array.tobytes()
        places[name] = (array.dtype.str, size, size + len(piece))
        piece += bytes(_aligned(len(piece)) - len(piece))
        size += len(piece)
        crc = zlib.crc32(piece, crc)
        pieces.append(piece)
    header = json.dumps({"size": size, "crc": crc, "arrays": places, "small": small}).encode()
    start = len(_MAGIC) + 16 + len(header)
    stream.write(_MAGIC + f"{len(header):15d}\n".encode() + header)
    stream.write(bytes(_aligned(start) - start))
    for piece in pieces:
        stream.write(piece)
    stream.flush()
    os.fsync(stream.fileno())


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _tables(
    program: Path, paraphrases: Path, progress: Progress
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """All arrays and small tables of an `Index`."""
    try:
        with zipfile.ZipFile(program) as archive:
            synsets = archive.read("synonym/english.synsets").decode().split("\n")
            exceptions = archive.read("synonym/english.exceptions").decode().split("\n")
            function = archive.read("function/english.words").decode().splitlines()
            prefixes = archive.read("nonbreaking/english.prefixes").decode().splitlines()
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, zlib.error) as error:
        raise _damaged(program) from error
    arrays = _synonyms(synsets, exceptions)
    arrays |= _paraphrases(paraphrases, progress)
    longest = int(arrays.pop("longest")[0])
    small = {"longest": longest, "function": function, "prefixes": _prefixes(prefixes)}
    return arrays, small


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged; pip install --force-reinstall pycocoevalcap")


def _prefixes(lines: list[str]) -> dict[str, bool]:
    fields = [line.split() for line in lines]
    return {f[0]: f[1:2] == ["#NUMERIC_ONLY#"] for f in fields if f and not f[0].startswith("#")}


def _synonyms(synsets: list[str], exceptions: list[str]) -> dict[str, NDArray[Any]]:
    """Words and irregular forms with their synsets; both files name a thing and then list."""
    of = {
        word.encode(): sorted({int(n) for n in sets.split()})
        for word, sets in zip(synsets[:-1:2], synsets[1::2], strict=True)
    }
    bases: dict[bytes, set[int]] = {}
    for base, forms in zip(exceptions[:-1:2], exceptions[1::2], strict=True):
        for form in forms.encode().split():
            bases.setdefault(form, set()).update(of.get(base.encode(), ()))
    lemmas, lemma_first, lemma_sets = _lists(of)
    forms, form_first, form_sets = _lists({form: sorted(sets) for form, sets in bases.items()})
    return {
        "lemmas": lemmas,
        "lemma_first": lemma_first,
        "lemma_sets": lemma_sets,
        "forms": forms,
        "form_first": form_first,
        "form_sets": form_sets,
    }


def _lists(of: dict[bytes, list[int]]) -> tuple[NDArray[np.bytes_], Ints, Ints]:
    """Sorted keys, where the list of each begins, and all lists one after another."""
    keys = sorted(of)
    first = np.cumsum([0, *(len(of[k]) for k in keys)], dtype=np.int32)
    return np.array(keys), first, np.array([n for k in keys for n in of[k]], dtype=np.int32)


def _paraphrases(path: Path, progress: Progress) -> dict[str, NDArray[Any]]:
    """The trie; three lines a pair: a probability that METEOR leaves unread, a phrase, another."""
    # Phrases are numbered in the order in which they come up.
    numbers: defaultdict[bytes, int] = defaultdict(count().__next__)
    pairs: list[Ints] = []
    size = path.stat().st_size
    rest = b""
    try:
        with path.open("rb") as file, gzip.open(file) as stream:
            while block := stream.read(1 << 24):
                lines = (rest + block).split(b"\n")
                whole = (len(lines) - 1) // 3 * 3
                rest = b"\n".join(lines[whole:])
                both = [map(numbers.__getitem__, lines[side:whole:3]) for side in (1, 2)]
                pairs.append(np.array([np.fromiter(b, np.int32, whole // 3) for b in both]))
                progress(0.6 * file.tell() / size)
        if rest or not numbers:
            raise EOFError
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path) from error
    left, right = np.concatenate(pairs, axis=1)
    words, texts = _phrases(list(numbers))
    numbers.clear()
    progress(0.8)
    first_child, node_word, node = _trie(texts)
    progress(0.9)
    left, right = node[left], node[right]
    used = np.zeros(len(node_word), np.uint8)
    used[left] = used[right] = 1
    to_first = np.zeros(len(node_word) + 1, np.int32)
    np.cumsum(np.bincount(left, minlength=len(node_word)), out=to_first[1:])
    return {
        "words": words,
        "first_child": first_child,
        "node_word": node_word,
        "used": used,
        "to_first": to_first,
        "to": right[np.argsort(left, kind="stable")],
        "longest": np.array([texts.shape[1]]),
    }


def _phrases(phrases: list[bytes]) -> tuple[NDArray[np.bytes_], Ints]:
    """The words of all phrases, sorted, and each phrase as their numbers, padded with -1."""
    vocabulary: defaultdict[bytes, int] = defaultdict(count().__next__)
    lengths = np.array([phrase.count(b" ") + 1 for phrase in phrases])
    texts = np.full((len(phrases), lengths.max()), -1, np.int32)
    for start in range(0, len(phrases), 1 << 18):  # all words at once would need much memory
        some = slice(start, start + (1 << 18))
        words = b" ".join(phrases[some]).split(b" ")
        there = np.arange(texts.shape[1]) < lengths[some, None]
        texts[some][there] = np.fromiter(map(vocabulary.__getitem__, words), np.int32, len(words))
    unsorted = np.array(list(vocabulary))
    order = np.argsort(unsorted, kind="stable")
    rank = np.empty(len(order) + 1, np.int32)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return unsorted[order], rank[texts]


def _trie(texts: Ints) -> tuple[Ints, Ints, Ints]:
    """`first_child`, `node_word`, and the node of each phrase."""
    node = np.zeros(len(texts), np.int32)
    parents = [np.array([-1], np.int64)]
    words = [np.array([-1], np.int32)]
    size = 1
    for depth in range(texts.shape[1]):
        (longer,) = np.nonzero(texts[:, depth] >= 0)
        keys = node[longer].astype(np.int64) << 32 | texts[longer, depth]
        distinct, inverse = np.unique(keys, return_inverse=True)
        node[longer] = size + inverse
        size += len(distinct)
        parents.append(distinct >> 32)
        words.append((distinct & 0xFFFFFFFF).astype(np.int32))
    parent = np.concatenate(parents)
    first_child = np.searchsorted(parent, np.arange(size + 1)).astype(np.int32)
    return first_child, np.concatenate(words), node


@contextmanager
def _share_done() -> Generator[Progress]:
    """What to call with the share of the compilation that is done."""
    with progress_counter("METEOR's tables, once", 100) as advance:
        done = advance_to(advance)
        yield lambda share: done(round(100 * share))
