"""METEOR's tables, compiled from the files in pycocoevalcap.

The sources are the jar (function words; for English also nonbreaking prefixes, WordNet's synsets and irregular forms) and
a file of paraphrases (`paraphrase-en.gz`: 5.3 million pairs of phrases). Arrow is imported only to compile them.

Phrases form a trie. Its nodes are numbered breadth first, so that a node's children follow each other:
those of node `n` are `first_child[n]` to `first_child[n + 1]`, sorted by their word. Node 0 is the empty
phrase. A word's number is its place in the sorted array `words`. The paraphrases of a node's phrase are
the nodes `to[to_first[n]]` to `to[to_first[n + 1]]`, in the order of the file.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....datasets.errors import InputError
from ..tokens.corpus import sort_stably
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
    # Synsets stay texts until they are written: a list for each of 147,000 words would cost Python's garbage collector time.
    numbers_of = dict(_pair_lines(synsets))

    def read_synsets(word: str) -> set[int]:
        # A set, since a word may list a synset twice.
        return set(map(int, numbers_of.get(word, "").split()))

    synsets_of_form: dict[str, set[int]] = {}
    for base, forms in _pair_lines(exceptions):
        for form in forms.split():
            synsets_of_form.setdefault(form, set()).update(read_synsets(base))

    lemmas = sorted(numbers_of)
    forms = sorted(synsets_of_form)
    lemma_first, lemma_sets = _flatten(sorted(read_synsets(lemma)) for lemma in lemmas)
    form_first, form_sets = _flatten(sorted(synsets_of_form[form]) for form in forms)

    return {
        "lemmas": np.array([lemma.encode() for lemma in lemmas]),
        "lemma_first": lemma_first,
        "lemma_sets": lemma_sets,
        "forms": np.array([form.encode() for form in forms]),
        "form_first": form_first,
        "form_sets": form_sets,
    }


def _pair_lines(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a list of the jar, in which they have a line each in turn, and an empty one ends it."""
    keys = lines[:-1:2]
    values = lines[1::2]
    yield from zip(keys, values, strict=True)


def _flatten(lists: Iterable[list[int]]) -> tuple[Ints, Ints]:
    """Return the start of each list, and all lists one after another."""
    first = [0]
    numbers: list[int] = []
    for numbers_of_list in lists:
        numbers += numbers_of_list
        first.append(len(numbers))

    return np.array(first, np.int32), np.array(numbers, np.int32)


def _compile_paraphrases(path: Path, progress: Progress) -> tuple[Arrays, int]:
    """Compile the trie of phrases and their paraphrases; also return the most words of a phrase."""
    sources, targets, phrases = _read_pairs(path, progress)
    progress(_PHRASES_BEGIN, "phrases")
    words, texts = _split_phrases(phrases)
    progress(_TREE_BEGINS, "tree of phrases")

    first_child, node_word, node = _build_trie(texts, len(words))
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
    keep their line end. The paraphrases of a phrase follow one another, about twelve of them, so that it is looked up once.
    """
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute
    source_blocks: list[pa.BinaryArray] = []
    target_blocks: list[pa.BinaryArray] = []
    # By block, the number of paraphrases of each of its phrases.
    counts: list[Ints] = []
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

                lines = _cut(data, ends)
                runs = compute.run_end_encode(lines.take(pa.array(np.arange(1, len(ends), 3))))
                source_blocks.append(runs.values)
                counts.append(np.diff(np.asarray(runs.run_ends, np.int32), prepend=np.int32(0)))
                target_blocks.append(lines.take(pa.array(np.arange(2, len(ends), 3))))
                progress(_PHRASES_BEGIN * file.tell() / size, "reading")
        if rest or not any(map(len, target_blocks)):
            raise EOFError
    except (OSError, EOFError, zlib.error) as error:
        raise _damage_error(path) from error

    # All blocks in one go, since dictionaries that are made block by block take as long again to be joined.
    encoded = pa.chunked_array([*source_blocks, *target_blocks]).dictionary_encode()
    numbers = [np.asarray(chunk.indices) for chunk in encoded.chunks]
    numbers_of_sources = np.concatenate(numbers[: len(source_blocks)])
    sources = np.repeat(numbers_of_sources, np.concatenate(counts))
    targets = np.concatenate(numbers[len(source_blocks) :])

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
    # A phrase ends in a line end, which becomes the blank behind its last word.
    data = data_buffer.slice(0, offsets[-1]).to_pybytes().replace(b"\n", b" ")

    word_ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _BLANK) + 1
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


def _build_trie(texts: Ints, n_words: int) -> tuple[Ints, Ints, Ints]:
    """Return `first_child`, `node_word`, and the node of each phrase."""
    node = np.zeros(len(texts), np.int32)
    parents = [np.array([-1], np.int64)]
    words = [np.array([-1], np.int32)]
    size = 1
    for depth in range(texts.shape[1]):
        (longer,) = np.nonzero(texts[:, depth] >= 0)
        # Parent and word as one number, by which nodes are sorted: by their parents, then by their words.
        keys, order = sort_stably(node[longer].astype(np.int64) * n_words + texts[longer, depth])
        is_new = np.diff(keys, prepend=-1) > 0
        node[longer[order]] = size + np.cumsum(is_new) - 1
        distinct = keys[is_new]
        size += len(distinct)
        parents.append(distinct // n_words)
        words.append((distinct % n_words).astype(np.int32))

    # In ascending order, since nodes are numbered breadth first: a node's children begin where its number does.
    parent = np.concatenate(parents)
    first_child = np.searchsorted(parent, np.arange(size + 1)).astype(np.int32)
    return first_child, np.concatenate(words), node
