"""The inner loops of METEOR, compiled by Numba: phrases of texts, and the alignment of two texts.

`alignment` calls `find_phrases` and `align`. The other functions are `register_jitable`: they are compiled as parts of these
two, and Numba need not make them callable from Python, which would take it a while for each. The compiled code is stored
beside this file (or in the user's cache folder). The module's name keeps the registry from importing it, so that Numba is
only loaded where METEOR is scored.

A text is a run of words; a word is an index into arrays of its properties. A match joins `LENGTH1` words of
the candidate, from `START1`, with `LENGTH2` words of the reference. In names, 1 stands for the candidate and
2 for the reference.
"""

# pyright: reportUntypedFunctionDecorator=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable

#: Partial alignments that are kept at each word of the reference.
BEAM = 40
#: Statistics of an alignment, in the order in which METEOR prints them.
STATISTICS = 23
# Numba compiles a function once more for each of Python's numbers that it is called with, and once for all of NumPy's.
EXACT, STEM, SYNONYM, PARAPHRASE = np.arange(4)
ZERO = np.int64(0)
ONE = np.int64(1)
#: Columns of `_Matches.table`.
START1, LENGTH1, LENGTH2, MODULE, NEXT = range(5)
#: Rows of `_Matches.lists`.
COUNT, FIRST, LAST = range(3)
#: Columns of `paths`: words covered, chunks, distance, the end of the last match in the candidate (-1 if the
#: word before has none) and in the reference, the path before, and the match added to it.
COVERED, CHUNKS, DISTANCE, END1, END2, ORIGIN, MATCH = range(7)
FIELDS = 7
#: A number of `used` has a bit for each of so many words of the candidate.
WORD_BITS = 32

_INTS = types.Array(types.int32, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_MASKS = types.Array(types.uint64, 1, "C", readonly=True)
_OUT = types.int32[::1]
_INT = types.int64


def _compile(signature: Any) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        try:
            return numba.njit(signature, cache=True, nogil=True)(function)
        except Exception:  # the stored code is damaged or cannot be written
            return numba.njit(signature, nogil=True)(function)

    return decorate


class _WordedTexts(NamedTuple):
    """Texts, and the properties of their words; see `align`."""

    starts: Any
    words: Any
    key: Any
    stem: Any
    function: Any
    mask: Any
    set_first: Any
    sets: Any


class _Phrases(NamedTuple):
    """The phrases in texts and their paraphrases, see `align`, and working memory for `_match_paraphrases`.

    Attributes:
        head, chain, stamp: of the occurrences of each phrase in a text the first, the one after each, and the pass for
            which they hold.
    """

    first: Any
    position: Any
    length: Any
    phrase: Any
    to_first: Any
    to: Any
    head: Any
    chain: Any
    stamp: Any


class _Matches(NamedTuple):
    """The possible matches of two texts.

    Attributes:
        table: a row a match, with the columns `START1` to `NEXT`.
        lists: of the matches that begin at each word of the reference, the rows `COUNT` to `LAST`.
        cover: by how many matches each word of the candidate and of the reference is covered.
        place, stamp: of each word its first place in the reference, and the pair for which it holds.
    """

    table: Any
    lists: Any
    cover: Any
    place: Any
    stamp: Any


class _TextPair(NamedTuple):
    """A candidate (1) and a reference (2): the number of each text, its first word, and its number of words."""

    text1: Any
    begin1: Any
    n1: Any
    text2: Any
    begin2: Any
    n2: Any


@_compile(types.Tuple((_OUT, _OUT, _OUT, _OUT))(_INTS, _INTS, _INTS, _INTS, _BYTES, _INT))
def find_phrases(
    words: Any, starts: Any, first_child: Any, node_word: Any, used: Any, longest: Any
) -> Any:
    """Find the phrases of the paraphrase table in each text.

    Args:
        words: the table's number of each word of all texts; -1 for words that it lacks.
        starts: the start of each text among them, and the end.
        first_child, node_word, used: the trie (`index`).
        longest: the most words of a phrase.

    Returns:
        the start of each text's occurrences and the end of all, and position, length and node of each occurrence,
        ordered by text, position and length; behind the end, these three are not set.
    """
    n_texts = len(starts) - 1
    first = np.empty(n_texts + 1, np.int32)
    first[0] = 0
    room = len(words) * longest
    position = np.empty(room, np.int32)
    length = np.empty(room, np.int32)
    node = np.empty(room, np.int32)

    n = 0
    for text in range(n_texts):
        for i in range(starts[text], starts[text + 1]):
            parent = 0
            for j in range(i, min(i + longest, starts[text + 1])):
                word = words[j]
                low = first_child[parent]
                high = first_child[parent + 1]
                while low < high:
                    middle = (low + high) // 2
                    if node_word[middle] < word:
                        low = middle + 1
                    else:
                        high = middle

                if low == first_child[parent + 1] or node_word[low] != word:
                    break

                parent = low
                if used[parent]:
                    position[n] = i - starts[text]
                    length[n] = j - i + 1
                    node[n] = parent
                    n += 1

        first[text + 1] = n

    return first, position, length, node


@register_jitable
def _add_match(
    matches: _Matches, n: Any, start2: Any, length2: Any, start1: Any, length1: Any, module: Any
) -> int:
    """Append a match to the list of its first word in the reference; only count it if there is no room."""
    table = matches.table
    lists = matches.lists
    if n < len(table):
        table[n, START1] = start1
        table[n, LENGTH1] = length1
        table[n, LENGTH2] = length2
        table[n, MODULE] = module
        table[n, NEXT] = -1

        if lists[COUNT, start2]:
            table[lists[LAST, start2], NEXT] = n
        else:
            lists[FIRST, start2] = n

        lists[COUNT, start2] += 1
        lists[LAST, start2] = n

        for k in range(length1):
            matches.cover[0, start1 + k] += 1
        for k in range(length2):
            matches.cover[1, start2 + k] += 1

    return n + 1


@register_jitable
def _add_word_match(matches: _Matches, n: Any, start2: Any, start1: Any, module: Any) -> int:
    """Append the match of one word with one word, as `_add_match` does."""
    return _add_match(
        matches, n, start2=start2, length2=ONE, start1=start1, length1=ONE, module=module
    )


@register_jitable
def _share_synset(texts: _WordedTexts, word1: Any, word2: Any) -> bool:
    """Return whether two words share a synset; the synsets of each word are sorted."""
    set_first = texts.set_first
    sets = texts.sets
    a = set_first[word1]
    b = set_first[word2]

    # Both lists are sorted: the smaller synset cannot come later in the other.
    while a < set_first[word1 + 1] and b < set_first[word2 + 1]:
        if sets[a] == sets[b]:
            return True
        if sets[a] < sets[b]:
            a += 1
        else:
            b += 1
    return False


@register_jitable
def _overlaps(used: Any, path: Any, table: Any, m: Any) -> bool:
    """Return whether a path already uses a word of a match in the candidate.

    The words in the reference need no look where the first of them is free: earlier matches end before it, and those that
    are in the alignment from the start share no word with others.
    """
    for k in range(table[m, START1], table[m, START1] + table[m, LENGTH1]):
        if used[path, k // WORD_BITS] & (1 << k % WORD_BITS):
            return True
    return False


@register_jitable
def _mark_used(used: Any, path: Any, table: Any, m: Any) -> None:
    """Mark the words of a match in the candidate as used by a path."""
    for k in range(table[m, START1], table[m, START1] + table[m, LENGTH1]):
        used[path, k // WORD_BITS] |= 1 << k % WORD_BITS


@register_jitable
def _ranks_before(covered: Any, chunks: Any, distance: Any, rivals: Any, j: Any) -> bool:
    """Return whether a path with these values ranks before a rival."""
    if covered != rivals[j, COVERED]:
        return covered > rivals[j, COVERED]
    if chunks != rivals[j, CHUNKS]:
        return chunks < rivals[j, CHUNKS]
    return distance < rivals[j, DISTANCE]


@register_jitable
def _make_room(best: Any, n: Any, covered: Any, chunks: Any, distance: Any) -> int:
    """Move the paths among the first `n` that a new one outranks down by a row; return the row that is free for it."""
    rank = n
    while rank > 0 and _ranks_before(covered, chunks, distance, best, rank - 1):
        rank -= 1

    for k in range(min(n, BEAM - 1), rank, -1):
        for field in range(FIELDS):
            best[k, field] = best[k - 1, field]
    return rank


@register_jitable
def _search(
    alignment: Any,
    matches: _Matches,
    paths: Any,
    best: Any,
    used: Any,
    trace: Any,
    n1: Any,
    n2: Any,
) -> None:
    """Complete `alignment` by beam search; matches that nothing contests are already in it.

    From left to right over the words of the reference, each path takes each match that begins there
    and whose words are free, or none. Paths are ranked by words covered (exact ones count 1 a word,
    others 1 for every two words of a phrase), then by fewer chunks, then by shorter distance; ties
    keep the order in which they came up. METEOR adds the distance of a match not to the path that takes
    it but to those that are made after it at the same word. The body stays in one piece: split into
    functions, it takes a quarter longer.

    Args:
        alignment: the match that begins at each word of the reference, -1 for none.
        paths, best, used, trace: working memory. Two generations of `BEAM` paths take turns in
            `paths`, and in `used` with the words of the candidate that they use. Each row of `trace`
            has the origin and the match of each path of a generation.
    """
    table = matches.table
    n_numbers = n1 // WORD_BITS + 1
    for k in range(n_numbers):
        used[0, k] = 0
    for word2 in range(n2):
        if alignment[word2] != -1:
            _mark_used(used, ZERO, table, alignment[word2])

    for field in range(FIELDS):
        paths[0, field] = 0
    paths[0, END1] = -1
    n_paths = 1
    now = ZERO

    for word2 in range(n2):
        n = ZERO
        for path in range(now, now + n_paths):
            is_free = alignment[word2] == -1 and paths[path, END2] <= word2

            # The matches that begin here, in their order, then -1 for none; or the one that is there already, if any.
            m = alignment[word2]
            if is_free and matches.lists[COUNT, word2]:
                m = matches.lists[FIRST, word2]

            distance = paths[path, DISTANCE]
            is_last = False
            while not is_last:
                # What comes up here is a match that the path may take, or else the last: no match, or the one that
                # is there already.
                is_optional = is_free and m != -1
                is_last = not is_optional
                following = -1
                if is_optional:
                    following = table[m, NEXT]
                    if _overlaps(used, path, table, m):
                        # A match whose words are taken is skipped, as if it were not on the list.
                        m = following
                        continue

                covered = paths[path, COVERED]
                chunks = paths[path, CHUNKS]
                new_distance = distance
                end1 = paths[path, END1]
                end2 = paths[path, END2]
                if m != -1:
                    start1 = table[m, START1]
                    if is_optional:
                        # It counts for the paths that are made after this one, as METEOR has it.
                        distance += abs(word2 - start1)
                    else:
                        new_distance += abs(word2 - start1)
                    if table[m, MODULE] == EXACT:
                        covered += 2
                    else:
                        covered += table[m, LENGTH1] // 2 + table[m, LENGTH2] // 2
                    if end1 != -1 and start1 != end1:
                        chunks += 1
                    end1 = start1 + table[m, LENGTH1]
                    end2 = word2 + table[m, LENGTH2]
                elif is_free:
                    if end1 != -1:
                        chunks += 1
                    end1 = -1

                # Of thousands of matches of a word that is often repeated, nearly all rank behind the beam.
                if n < BEAM or _ranks_before(covered, chunks, new_distance, best, BEAM - 1):
                    rank = _make_room(best, n, covered, chunks, new_distance)
                    best[rank, COVERED] = covered
                    best[rank, CHUNKS] = chunks
                    best[rank, DISTANCE] = new_distance
                    best[rank, END1] = end1
                    best[rank, END2] = end2
                    best[rank, ORIGIN] = path - now
                    best[rank, MATCH] = m
                    n = min(n + 1, BEAM)
                m = following

        # The other half of `paths` and `used` takes the new generation.
        before = now
        now = BEAM - now
        n_paths = n
        for path in range(n):
            for field in range(FIELDS):
                paths[now + path, field] = best[path, field]

            origin = best[path, ORIGIN]
            m = best[path, MATCH]
            trace[word2, 2 * path] = origin
            trace[word2, 2 * path + 1] = m

            for k in range(n_numbers):
                used[now + path, k] = used[before + origin, k]
            if m != -1:
                _mark_used(used, now + path, table, m)

    # Close the last chunk, and follow the first of the best paths back.
    top = now
    for path in range(now, now + n_paths):
        if paths[path, END1] != -1:
            paths[path, CHUNKS] += 1
        if _ranks_before(
            paths[path, COVERED], paths[path, CHUNKS], paths[path, DISTANCE], paths, top
        ):
            top = path

    top -= now
    for word2 in range(n2 - 1, -1, -1):
        alignment[word2] = trace[word2, 2 * top + 1]
        top = trace[word2, 2 * top]


@register_jitable
def _repeat_matches(matches: _Matches, n: Any, place: Any, start2: Any) -> int:
    """Add the matches of a word at an earlier place of the reference to those of the same word at a later one."""
    table = matches.table
    m = matches.lists[FIRST, place]
    for _ in range(matches.lists[COUNT, place]):
        n = _add_word_match(matches, n, start2, table[m, START1], table[m, MODULE])
        m = table[m, NEXT]
    return n


@register_jitable
def _match_words(matches: _Matches, texts: _WordedTexts, pair: _TextPair, number: Any) -> Any:
    """Add the matches of single words; return their number, negative if the texts are equal.

    Args:
        number: of the pair, which no other has, from 1.
    """
    key = texts.key
    stem = texts.stem
    mask = texts.mask
    words1 = texts.words[pair.begin1 : pair.begin1 + pair.n1]
    words2 = texts.words[pair.begin2 : pair.begin2 + pair.n2]

    is_equal = pair.n1 == pair.n2
    for start2, word2 in enumerate(words2):
        is_equal = is_equal and key[words1[start2]] == key[word2]

    n = ZERO
    for start2, word2 in enumerate(words2):
        # There is no room for more, and the pair is left out.
        if n > len(matches.table):
            break
        # In a long text most words have come before.
        if matches.stamp[word2] == number:
            n = _repeat_matches(matches, n, matches.place[word2], start2)
            continue
        matches.stamp[word2] = number
        matches.place[word2] = start2

        for start1, word1 in enumerate(words1):
            if key[word1] == key[word2]:
                n = _add_word_match(matches, n, start2, start1, EXACT)
        # Equal texts match word by word exactly, which no stem or synonym betters.
        if is_equal:
            continue

        for start1, word1 in enumerate(words1):
            if stem[word1] == stem[word2] and key[word1] != key[word2]:
                n = _add_word_match(matches, n, start2, start1, STEM)

        for start1, word1 in enumerate(words1):
            # Without a common bit there is no common synset to look for.
            has_common_bit = (mask[word1] & mask[word2]) != 0
            is_other_word = key[word1] != key[word2]
            if has_common_bit and is_other_word and _share_synset(texts, word1, word2):
                n = _add_word_match(matches, n, start2, start1, SYNONYM)
    return -n if is_equal else n


@register_jitable
def _match_paraphrases(
    matches: _Matches, n: Any, phrases: _Phrases, pair: _TextPair, is_reference: Any, number: Any
) -> int:
    """Add the matches of a text's phrases with their paraphrases in the other text.

    Args:
        is_reference: whether the text is the reference and the other text the candidate, or the reverse.
        number: of this pass, which no other has, from 1.
    """
    head = phrases.head
    chain = phrases.chain
    stamp = phrases.stamp
    position = phrases.position
    length = phrases.length
    to = phrases.to
    text = pair.text2 if is_reference else pair.text1
    opposite = pair.text1 if is_reference else pair.text2

    # From the last to the first, so that each chain runs in the order of the text.
    for o in range(phrases.first[opposite + 1] - 1, phrases.first[opposite] - 1, -1):
        p = phrases.phrase[o]
        chain[o] = head[p] if stamp[p] == number else -1
        head[p] = o
        stamp[p] = number

    for o in range(phrases.first[text], phrases.first[text + 1]):
        p = phrases.phrase[o]
        for k in range(phrases.to_first[p], phrases.to_first[p + 1]):
            q = head[to[k]] if stamp[to[k]] == number else -1
            while q != -1:
                # The phrase in the reference, and the one in the candidate.
                phrase2 = o if is_reference else q
                phrase1 = q if is_reference else o
                n = _add_match(
                    matches,
                    n,
                    start2=np.int64(position[phrase2]),
                    length2=np.int64(length[phrase2]),
                    start1=np.int64(position[phrase1]),
                    length1=np.int64(length[phrase1]),
                    module=PARAPHRASE,
                )
                q = chain[q]
    return n


@register_jitable
def _align_uncontested(alignment: Any, matches: _Matches, n2: Any) -> int:
    """Align the words of matches whose words no other match covers; return their number."""
    table = matches.table
    lists = matches.lists
    cover = matches.cover
    n_aligned = 0
    for j in range(n2):
        alignment[j] = -1
        if lists[COUNT, j] != 1:
            continue

        m = lists[FIRST, j]
        is_alone = True
        for k in range(table[m, LENGTH2]):
            is_alone = is_alone and cover[1, j + k] == 1
        for k in range(table[m, LENGTH1]):
            is_alone = is_alone and cover[0, table[m, START1] + k] == 1

        if is_alone:
            n_aligned += 1
            alignment[j] = m

    return n_aligned


@register_jitable
def _summarise(row: Any, alignment: Any, table: Any, texts: _WordedTexts, pair: _TextPair) -> None:
    """Write the statistics of an alignment."""
    words = texts.words
    function = texts.function
    begin1 = pair.begin1
    begin2 = pair.begin2

    row[:] = 0
    row[0] = pair.n1
    row[1] = pair.n2
    for k in range(pair.n1):
        row[2] += function[words[begin1 + k]]
    for k in range(pair.n2):
        row[3] += function[words[begin2 + k]]

    chunks = 0
    j = 0
    end1 = -1
    while j < pair.n2:
        m = alignment[j]
        if m == -1:
            if end1 != -1:
                chunks += 1
                end1 = -1
            j += 1
            continue

        # Columns 4 to 19: by module, content and function words of the candidate and of the reference.
        column = 4 + 4 * table[m, MODULE]
        start1 = table[m, START1]
        for k in range(table[m, LENGTH1]):
            row[column + 2 * function[words[begin1 + start1 + k]]] += 1
            row[21] += 1
        for k in range(table[m, LENGTH2]):
            row[column + 1 + 2 * function[words[begin2 + j + k]]] += 1
            row[22] += 1

        if end1 != -1 and start1 != end1:
            chunks += 1
        j += table[m, LENGTH2]
        end1 = start1 + table[m, LENGTH1]

    row[20] = chunks + (end1 != -1)


@_compile(types.void(types.int32[:, ::1], *[_INTS] * 6, _BYTES, _MASKS, *[_INTS] * 8, _INT))
def align(
    out: Any,
    candidates: Any,
    references: Any,
    starts: Any,
    words: Any,
    key: Any,
    stem: Any,
    function: Any,
    mask: Any,
    set_first: Any,
    sets: Any,
    occurrence_first: Any,
    position: Any,
    length: Any,
    phrase: Any,
    to_first: Any,
    to: Any,
    max_matches: Any,
) -> None:
    """Align pairs of texts.

    Args:
        out: receives the statistics, shape (pairs, 23); -1 in the first column for pairs of more than
            `max_matches` matches.
        candidates, references: the texts of each pair.
        starts, words: the start of each text, and the words of all.
        key, stem: numbers by which METEOR compares words and stems, for each word.
        function: 1 for function words.
        mask: bits of each word's synsets; words without a common bit share none.
        set_first, sets: the start of each word's synsets, and all of them.
        occurrence_first, position, length, phrase: the phrases in each text, as `find_phrases` returns
            them, numbered as in `to`.
        to_first, to: the paraphrases of each phrase (`alignment.select_paraphrases`).
        max_matches: the most matches of a pair.
    """
    texts = _WordedTexts(starts, words, key, stem, function, mask, set_first, sets)
    # All of them of one type, as Numba compiles a function once more for each combination of types that it is called with,
    # and made by one function of NumPy's: each of these takes Numba a while.
    head = np.empty(len(to_first), np.int64)
    chain = np.empty(len(phrase), np.int64)
    stamp = np.empty(len(to_first), np.int64)
    stamp[:] = 0
    phrases = _Phrases(occurrence_first, position, length, phrase, to_first, to, head, chain, stamp)

    longest = 0
    for text in range(len(starts) - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    matches = _Matches(
        np.empty((max_matches, 5), np.int64),  # memory that is never touched costs nothing
        np.empty((3, longest), np.int64),
        np.empty((2, longest), np.int64),
        np.empty(len(key), np.int64),
        np.empty(len(key), np.int64),
    )
    matches.stamp[:] = 0

    alignment = np.empty(longest, np.int64)
    paths = np.empty((2 * BEAM, FIELDS), np.int64)
    best = np.empty((BEAM, FIELDS), np.int64)
    used = np.empty((2 * BEAM, longest // WORD_BITS + 1), np.int64)
    trace = np.empty((longest, 2 * BEAM), np.int64)

    for row in range(len(candidates)):
        text1 = candidates[row]
        text2 = references[row]
        begin1 = starts[text1]
        begin2 = starts[text2]
        n1 = starts[text1 + 1] - begin1
        n2 = starts[text2 + 1] - begin2
        pair = _TextPair(text1, begin1, n1, text2, begin2, n2)

        matches.cover[0, :n1] = 0
        matches.cover[1, :n2] = 0
        matches.lists[COUNT, :n2] = 0

        # The numbers of pairs and passes begin at 1: 0 stands for none.
        n = _match_words(matches, texts, pair, row + 1)
        if n >= 0:
            # Phrases of the reference whose paraphrases are in the candidate, then the reverse.
            for number, is_reference in enumerate((True, False), 2 * row + 1):
                n = _match_paraphrases(matches, n, phrases, pair, is_reference, number)

        # Negative where the texts are equal.
        n = abs(n)
        if n > max_matches:
            out[row, 0] = -1
            continue

        if _align_uncontested(alignment, matches, n2) < n:
            _search(alignment, matches, paths, best, used, trace, n1, n2)
        _summarise(out[row], alignment, matches.table, texts, pair)
