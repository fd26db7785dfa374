"""METEOR's tables as one memory-mapped file, compiled once from the files in pycocoevalcap.

The sources are the jar (function words; for English also nonbreaking prefixes, WordNet's synsets and irregular forms) and
a file of paraphrases (`paraphrase-en.gz`: 5.3 million pairs of phrases). Arrow is imported only to compile them.

The index is kept in the user's cache folder under the hash of its sources and of `FORMAT`. It
is written under a temporary name and renamed, by one process at a time; a truncated or altered one is
compiled again.

The file has a line with the format, a line of JSON (the place of each array, the small tables, a
checksum of these and of the arrays), and the arrays, each at a multiple of 64 bytes.

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
import logging
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....datasets.cache import cache_folder, replacing
from ....datasets.errors import InputError
from ...progress import advance_to, progress_counter
from .words import Ints, Lexicon, WordProperties, make_stemmer

if TYPE_CHECKING:
    import pyarrow as pa


Arrays = dict[str, NDArray[Any]]

#: What the names of the arrays of `WordProperties` begin with.
PROPERTY_PREFIX = "word_"

#: Called with the share of the work that is done, from 0 to 1, and what is being done next.
Progress = Callable[[float, str], None]
#: The shares at which the steps begin, as they take their time.
_PHRASES_BEGIN, _TREE_BEGINS, _STEMS_BEGIN, _WRITING_BEGINS = 0.35, 0.62, 0.71, 0.95
#: After so many words their stems are counted as done.
_WORDS_OF_A_STEP = 2_000

_BLANK = ord(" ")
_NEWLINE = ord("\n")


def compile_tables(
    program: Path, paraphrases: Path | None, progress: Progress, language: str = "english"
) -> tuple[Arrays, dict[str, Any]]:
    """Compile the arrays and the small tables of an `Index`.

    Args:
        program: METEOR's jar.
        paraphrases: a compressed paraphrase file of METEOR; None for no paraphrases.
        language: as the jar's files are named.
        progress: called as the work goes on.

    Raises:
        InputError: if a file is damaged.
    """
    try:
        with zipfile.ZipFile(program) as archive:
            # Other languages have no such lists: these are empty ones, which end in an empty line as those of the jar do.
            synsets = [""]
            exceptions = [""]
            prefixes = [""]
            if language == "english":
                synsets = archive.read("synonym/english.synsets").decode().split("\n")
                exceptions = archive.read("synonym/english.exceptions").decode().split("\n")
                prefixes = archive.read("nonbreaking/english.prefixes").decode().splitlines()
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, zlib.error) as error:
        raise _damage_error(program) from error

    if paraphrases is None:
        paraphrase_arrays, longest = _empty_paraphrases()
    else:
        paraphrase_arrays, longest = _compile_paraphrases(paraphrases, progress)

    function_words = read_function_words(program, language).decode().splitlines()
    arrays = _compile_synonyms(synsets, exceptions)
    lexicon = Lexicon(**arrays, function=frozenset(function_words))
    words = [word.decode("utf-8", "replace") for word in paraphrase_arrays["words"].tolist()]
    stem_word = _count_words(make_stemmer(language), len(words), progress)
    properties = WordProperties.describe(words, lexicon, stem_word)
    for name, array in vars(properties).items():
        arrays[f"{PROPERTY_PREFIX}{name}"] = array
    progress(_WRITING_BEGINS, "writing")

    small = {"longest": longest, "function": function_words, "prefixes": parse_prefixes(prefixes)}
    return arrays | paraphrase_arrays, small


def _count_words(
    stem_word: Callable[[str], str], n_words: int, progress: Progress
) -> Callable[[str], str]:
    """Return a stemmer that tells, every so many words, how much is done."""
    n_done = 0

    def stem_and_count(word: str) -> str:
        nonlocal n_done
        if n_done % _WORDS_OF_A_STEP == 0:
            share = _STEMS_BEGIN + (_WRITING_BEGINS - _STEMS_BEGIN) * n_done / n_words
            progress(share, "stems of words")
        n_done += 1
        return stem_word(word)

    return stem_and_count


def read_function_words(program: Path, language: str) -> bytes:
    """Read a language's function words from METEOR's jar, a line each.

    Raises:
        InputError: if the jar is damaged.
    """
    try:
        with zipfile.ZipFile(program) as archive:
            return archive.read(f"function/{language}.words")
    except (zipfile.BadZipFile, KeyError, zlib.error) as error:
        raise _damage_error(program) from error


def _damage_error(path: Path) -> InputError:
    return InputError(
        f"{path} is damaged; pip install --force-reinstall pycocoevalcap, or get METEOR's file again"
    )


def _empty_paraphrases() -> tuple[Arrays, int]:
    """Return a trie of the empty phrase alone."""
    no_numbers = np.zeros(0, np.int32)
    arrays: Arrays = {
        "words": np.zeros(0, "S1"),
        # Node 0 has no child: its children would be the nodes from 1 to before 1.
        "first_child": np.ones(2, np.int32),
        "node_word": np.full(1, -1, np.int32),
        "used": np.zeros(1, np.uint8),
        "to_first": np.zeros(2, np.int32),
        "to": no_numbers,
    }
    return arrays, 1


def parse_prefixes(lines: list[str]) -> dict[str, bool]:
    prefixes: dict[str, bool] = {}
    for line in lines:
        parts = line.split()
        if parts and not parts[0].startswith("#"):
            prefixes[parts[0]] = parts[1:2] == ["#NUMERIC_ONLY#"]

    return prefixes


def _compile_synonyms(synsets: list[str], exceptions: list[str]) -> Arrays:
    """Compile words and irregular forms with their synsets."""
    synsets_of: dict[bytes, list[int]] = {}
    for word, numbers in _pair_lines(synsets):
        synsets_of[word.encode()] = sorted({int(number) for number in numbers.split()})

    synsets_of_form: dict[bytes, set[int]] = {}
    for base, forms in _pair_lines(exceptions):
        for form in forms.encode().split():
            synsets_of_form.setdefault(form, set()).update(synsets_of.get(base.encode(), ()))

    lemmas, lemma_first, lemma_sets = _flatten(synsets_of)
    forms, form_first, form_sets = _flatten({k: sorted(v) for k, v in synsets_of_form.items()})

    return {
        "lemmas": lemmas,
        "lemma_first": lemma_first,
        "lemma_sets": lemma_sets,
        "forms": forms,
        "form_first": form_first,
        "form_sets": form_sets,
    }


def _pair_lines(lines: list[str]) -> list[tuple[str, str]]:
    """Return the keys and values of a list of the jar, in which they have a line each in turn, and an empty one ends it."""
    keys = lines[:-1:2]
    values = lines[1::2]
    return list(zip(keys, values, strict=True))


def _flatten(lists: dict[bytes, list[int]]) -> tuple[NDArray[np.bytes_], Ints, Ints]:
    """Return the sorted keys, the start of each one's list, and all lists one after another."""
    keys = sorted(lists)
    lengths = [len(lists[key]) for key in keys]
    first = np.cumsum([0, *lengths], dtype=np.int32)
    numbers = chain.from_iterable(lists[key] for key in keys)

    return np.array(keys), first, np.array(list(numbers), dtype=np.int32)


def _compile_paraphrases(path: Path, progress: Progress) -> tuple[Arrays, int]:
    """Compile the trie of phrases and their paraphrases; also return the most words of a phrase."""
    sources, targets, phrases = _read_pairs(path, progress)
    progress(_PHRASES_BEGIN, "phrases")
    words, texts = _split_phrases(phrases)
    progress(_TREE_BEGINS, "tree of phrases")

    first_child, node_word, node = _build_trie(texts)
    progress(_STEMS_BEGIN, "paraphrases")

    sources = node[sources]
    targets = node[targets]
    used = np.zeros(len(node_word), np.uint8)
    used[sources] = 1
    used[targets] = 1
    to_first = np.zeros(len(node_word) + 1, np.int32)
    np.cumsum(np.bincount(sources, minlength=len(node_word)), out=to_first[1:])

    arrays: Arrays = {
        "words": words,
        "first_child": first_child,
        "node_word": node_word,
        "used": used,
        "to_first": to_first,
        "to": targets[np.argsort(sources, kind="stable")],
    }
    return arrays, texts.shape[1]


def _read_pairs(path: Path, progress: Progress) -> tuple[Ints, Ints, pa.BinaryArray]:
    """Read the pairs of the paraphrase file as numbers of phrases, and the distinct phrases.

    A pair has three lines: a probability that METEOR leaves unread, a phrase, its paraphrase. Phrases
    keep their line end.
    """
    import pyarrow as pa

    blocks: list[pa.DictionaryArray] = []
    size = path.stat().st_size
    rest = b""
    try:
        with path.open("rb") as file, gzip.open(file) as stream:
            while block := stream.read(1 << 24):
                data = rest + block
                ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
                # Whole pairs of three lines; what is left over comes before the next block.
                ends = ends[: len(ends) // 3 * 3]
                rest = data[ends[-1] if len(ends) else 0 :]
                # The first line of each three is the probability.
                phrase_lines = np.flatnonzero(np.arange(len(ends)) % 3 != 0)
                phrases = _cut(data, ends).take(pa.array(phrase_lines))
                blocks.append(phrases.dictionary_encode())
                progress(_PHRASES_BEGIN * file.tell() / size, "reading")
        if rest or not any(map(len, blocks)):
            raise EOFError
    except (OSError, EOFError, zlib.error) as error:
        raise _damage_error(path) from error

    encoded = pa.chunked_array(blocks).unify_dictionaries()
    numbers = np.concatenate([np.asarray(chunk.indices) for chunk in encoded.chunks])
    sources, targets = numbers.reshape(-1, 2).T

    return sources, targets, encoded.chunk(0).dictionary


def _cut(data: Any, ends: NDArray[np.int64]) -> pa.BinaryArray:
    """Cut bytes into pieces that end before each of `ends`."""
    import pyarrow as pa

    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends), buffers)


def _split_phrases(phrases: pa.BinaryArray) -> tuple[NDArray[np.bytes_], Ints]:
    """Return the words of all phrases, sorted, and each phrase as their numbers, padded with -1."""
    _, offset_buffer, data_buffer = phrases.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[: len(phrases) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[: offsets[-1]].copy()
    data[data == _NEWLINE] = _BLANK

    word_ends = np.flatnonzero(data == _BLANK) + 1
    words = _cut(data, word_ends).dictionary_encode()
    # The blank behind a word is part of the piece.
    unsorted = np.array([word[:-1] for word in words.dictionary.to_pylist()])

    order = np.argsort(unsorted, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))

    # A phrase has the words that end after its begin, and no later than its end.
    n_words_before = np.searchsorted(word_ends, offsets, side="right")
    lengths = np.diff(n_words_before)
    texts = np.full((len(phrases), lengths.max()), -1, np.int32)
    # Row by row, as the words follow one another.
    is_word = np.arange(texts.shape[1]) < lengths[:, None]
    texts[is_word] = rank[np.asarray(words.indices)]

    return unsorted[order], texts


def _build_trie(texts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return `first_child`, `node_word`, and the node of each phrase."""
    node = np.zeros(len(texts), np.int32)
    parents = [np.array([-1], np.int64)]
    words = [np.array([-1], np.int32)]
    size = 1
    for depth in range(texts.shape[1]):
        (longer,) = np.nonzero(texts[:, depth] >= 0)
        # Parent and word as one number, by which nodes are sorted: by their parents, then by their words.
        keys = (node[longer].astype(np.int64) << 32) | texts[longer, depth]
        distinct, inverse = np.unique(keys, return_inverse=True)
        node[longer] = size + inverse
        size += len(distinct)
        parents.append(distinct >> 32)
        words.append((distinct & 0xFFFFFFFF).astype(np.int32))

    # In ascending order, since nodes are numbered breadth first: a node's children begin where its number does.
    parent = np.concatenate(parents)
    first_child = np.searchsorted(parent, np.arange(size + 1)).astype(np.int32)
    return first_child, np.concatenate(words), node


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
