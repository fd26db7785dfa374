"""The inner loops of METEOR, compiled by Numba: phrases of texts, and the alignment of two texts.

No metric lies here, so the registry leaves this module alone: Numba is imported where METEOR is
scored and nowhere else. What is compiled is kept beside this file (or in the user's cache folder).

A text is a run of words; a word is an index into arrays of what METEOR asks of it. A match joins
`length1` words of the candidate, from `start1`, with `length2` words of the reference.
"""

# pyright: reportUntypedFunctionDecorator=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

#: Partial alignments kept at each word of the reference.
BEAM = 40
#: Statistics of an alignment, in the order in which METEOR prints them.
STATISTICS = 23
EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
#: Fields of a match.
START1, LENGTH1, LENGTH2, MODULE, NEXT = range(5)
#: Fields of a path: words covered, chunks, distance, the next word of the reference, the end of the
#: last match in the candidate (-1: the word before has none), and how it came about.
COVERED, CHUNKS, DISTANCE, INDEX, END, CAME, TOOK = range(7)
FIELDS = 7

_INTS = types.Array(types.int32, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_MASKS = types.Array(types.uint64, 1, "C", readonly=True)
_NEW = types.int32[::1]
_TABLE = types.int32[:, ::1]
_PATHS = types.int64[:, ::1]
_USED = types.uint8[:, ::1]


def _compiled(signature: Any) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        try:
            return numba.njit(signature, cache=True, nogil=True)(function)
        except Exception:  # what was kept is damaged, or nothing can be: compiled for this process
            return numba.njit(signature, nogil=True)(function)

    return decorate


@_compiled(types.Tuple((_NEW, _NEW, _NEW, _NEW))(_INTS, _INTS, _INTS, _INTS, _BYTES, types.int64))
def phrases(
    words: Any,
    starts: Any,
    first_child: Any,
    node_word: Any,
    used: Any,
    longest: Any,
) -> Any:
    """Which phrases of the paraphrase table each text holds.

    Args:
        words: the table's number of each word of all texts; -1 for one that it lacks.
        starts: where each text begins among them, and the end.
        first_child, node_word, used: the trie (`meteor_index`).
        longest: the most words of a phrase.

    Returns:
        where each text's occurrences begin, and of each its position, its length and its node,
        ordered by text, position and length.
    """
    count = len(starts) - 1
    begin = np.zeros(count + 1, np.int32)
    most = len(words) * longest
    position = np.empty(most, np.int32)
    length = np.empty(most, np.int32)
    node = np.empty(most, np.int32)
    n = 0
    for text in range(count):
        for i in range(starts[text], starts[text + 1]):
            at = 0
            for j in range(i, min(i + longest, starts[text + 1])):
                word = words[j]
                low, high = first_child[at], first_child[at + 1]
                while low < high:
                    middle = (low + high) // 2
                    if node_word[middle] < word:
                        low = middle + 1
                    else:
                        high = middle
                if low == first_child[at + 1] or node_word[low] != word:
                    break
                at = low
                if used[at]:
                    position[n], length[n], node[n] = i - starts[text], j - i + 1, at
                    n += 1
        begin[text + 1] = n
    return begin, position[:n].copy(), length[:n].copy(), node[:n].copy()


@_compiled(types.Tuple((_NEW, _NEW))(_INTS, _INTS, _INTS))
def paraphrases(
    nodes: Any,
    first: Any,
    to: Any,
) -> Any:
    """The paraphrases of some phrases among themselves.

    Args:
        nodes: distinct nodes, sorted.
        first, to: of each node, where its paraphrases begin, and the paraphrases' nodes.

    Returns:
        of each of `nodes` where its paraphrases begin, and these as indices into `nodes`, in the
        table's order.
    """
    local = np.full(len(first), -1, np.int32)
    for i in range(len(nodes)):
        local[nodes[i]] = i
    begin = np.zeros(len(nodes) + 1, np.int32)
    for i in range(len(nodes)):
        n = begin[i]
        for k in range(first[nodes[i]], first[nodes[i] + 1]):
            n += local[to[k]] >= 0
        begin[i + 1] = n
    inside = np.empty(begin[-1], np.int32)
    n = 0
    for i in range(len(nodes)):
        for k in range(first[nodes[i]], first[nodes[i] + 1]):
            if local[to[k]] >= 0:
                inside[n] = local[to[k]]
                n += 1
    return begin, inside


@_compiled(types.int64(_TABLE, types.int64, _TABLE, _TABLE, *[types.int64] * 5))
def _add(
    matches: Any,
    n: Any,
    lists: Any,
    cover: Any,
    start2: Any,
    length2: Any,
    start1: Any,
    length1: Any,
    module: Any,
) -> int:
    """Append a match to the list of its first word in the reference; counted alone where full."""
    if n < len(matches):
        matches[n, START1] = start1
        matches[n, LENGTH1] = length1
        matches[n, LENGTH2] = length2
        matches[n, MODULE] = module
        matches[n, NEXT] = -1
        # Rows of `lists`: how many, the first, the last.
        if lists[0, start2]:
            matches[lists[2, start2], NEXT] = n
        else:
            lists[1, start2] = n
        lists[0, start2] += 1
        lists[2, start2] = n
        for k in range(length1):
            cover[0, start1 + k] += 1
        for k in range(length2):
            cover[1, start2 + k] += 1
    return n + 1


@_compiled(types.boolean(_INTS, _INTS, types.int64, types.int64))
def _meet(
    first: Any,
    sets: Any,
    word1: Any,
    word2: Any,
) -> bool:
    """Whether two words share a synset; the sets of each are sorted."""
    a, b = first[word1], first[word2]
    while a < first[word1 + 1] and b < first[word2 + 1]:
        if sets[a] == sets[b]:
            return True
        if sets[a] < sets[b]:
            a += 1
        else:
            b += 1
    return False


@_compiled(types.boolean(_USED, types.int64, types.int64, _TABLE, types.int64, types.int64))
def _taken(
    used: Any,
    path: Any,
    n1: Any,
    matches: Any,
    m: Any,
    start2: Any,
) -> bool:
    """Whether a path uses a word of a match already."""
    for k in range(start2, start2 + matches[m, LENGTH2]):
        if used[path, n1 + k]:
            return True
    for k in range(matches[m, START1], matches[m, START1] + matches[m, LENGTH1]):
        if used[path, k]:
            return True
    return False


@_compiled(types.boolean(_PATHS, types.int64, _PATHS, types.int64))
def _before(
    one: Any,
    i: Any,
    other: Any,
    j: Any,
) -> bool:
    """Whether a path ranks before another."""
    if one[i, COVERED] != other[j, COVERED]:
        return one[i, COVERED] > other[j, COVERED]
    if one[i, CHUNKS] != other[j, CHUNKS]:
        return one[i, CHUNKS] < other[j, CHUNKS]
    return one[i, DISTANCE] < other[j, DISTANCE]


@_compiled(types.int64(_PATHS, types.int64))
def _placed(
    best: Any,
    n: Any,
) -> int:
    """Move the path in the last row before those that it ranks before; how many are kept of `n` + 1."""
    place = n
    while place > 0 and _before(best, BEAM, best, place - 1):
        place -= 1
    if place == BEAM:
        return n
    for k in range(min(n, BEAM - 1), place, -1):
        for field in range(FIELDS):
            best[k, field] = best[k - 1, field]
    for field in range(FIELDS):
        best[place, field] = best[BEAM, field]
    return min(n + 1, BEAM)


@_compiled(
    types.void(_NEW, _TABLE, _TABLE, _PATHS, _PATHS, _USED, _TABLE, types.int64, types.int64)
)
def _search(
    chosen: Any,
    matches: Any,
    lists: Any,
    paths: Any,
    best: Any,
    used: Any,
    trace: Any,
    n1: Any,
    n2: Any,
) -> None:
    """The beam search: complete `chosen`, where the matches that nothing contests stand already.

    From left to right over the words of the reference, each path takes each match that begins there
    and whose words are free, or none. Paths are ranked by words covered (exact ones count 1 a word,
    others 1 for every two words of a phrase), then by fewer chunks, then by shorter distance; ties
    keep the order in which they came up. METEOR adds the distance of a match not to the path that
    takes it but to those that are made after it at the same word: so it is here.

    Args:
        paths, best, used, trace: room to work in. Two generations of `BEAM` paths take turns in
            `paths`, and in `used` with the words of candidate and reference that they use; the last
            row of `best` is a path that seeks its place among those before. Each row of `trace` tells
            of each path of a generation from which it came, and with which match.
    """
    for m in range(n2):
        used[0, n1 + m] = 0
    for m in range(n1):
        used[0, m] = 0
    for at in range(n2):
        m = chosen[at]
        if m != -1:
            for k in range(matches[m, LENGTH2]):
                used[0, n1 + at + k] = 1
            for k in range(matches[m, LENGTH1]):
                used[0, matches[m, START1] + k] = 1
    for field in range(FIELDS):
        paths[0, field] = 0
    paths[0, END] = -1
    count, now = 1, 0
    for at in range(n2):
        n = 0
        for path in range(now, now + count):
            free = not used[path, n1 + at]
            # The matches that begin here, in their order, then -1: none of them.
            m = -1
            if free and lists[0, at]:
                m = lists[1, at]
            elif not free and paths[path, INDEX] == at:
                m = chosen[at]
            distance = paths[path, DISTANCE]
            last = False
            while not last:
                following = -1
                last = m == -1 or not free
                if m != -1 and free:
                    following = matches[m, NEXT]
                    if _taken(used, path, n1, matches, m, at):
                        m = following
                        continue
                for field in range(FIELDS):
                    best[BEAM, field] = paths[path, field]
                best[BEAM, CAME] = path - now
                best[BEAM, TOOK] = m
                best[BEAM, DISTANCE] = distance
                if m != -1:
                    start1 = matches[m, START1]
                    if free:
                        distance += abs(at - start1)
                    else:
                        best[BEAM, DISTANCE] += abs(at - start1)
                    if matches[m, MODULE] == EXACT:
                        best[BEAM, COVERED] += 2
                    else:
                        best[BEAM, COVERED] += matches[m, LENGTH1] // 2 + matches[m, LENGTH2] // 2
                    if paths[path, END] != -1 and start1 != paths[path, END]:
                        best[BEAM, CHUNKS] += 1
                    best[BEAM, INDEX] = at + matches[m, LENGTH2]
                    best[BEAM, END] = start1 + matches[m, LENGTH1]
                elif free:
                    if paths[path, END] != -1:
                        best[BEAM, CHUNKS] += 1
                    best[BEAM, INDEX] = at + 1
                    best[BEAM, END] = -1
                n = _placed(best, n)
                m = following
        old, now = now, BEAM - now
        count = n
        for path in range(n):
            for field in range(FIELDS):
                paths[now + path, field] = best[path, field]
            came, m = best[path, CAME], best[path, TOOK]
            trace[at, 2 * path] = came
            trace[at, 2 * path + 1] = m
            for k in range(n1 + n2):
                used[now + path, k] = used[old + came, k]
            if m != -1:
                for k in range(matches[m, LENGTH2]):
                    used[now + path, n1 + at + k] = 1
                for k in range(matches[m, LENGTH1]):
                    used[now + path, matches[m, START1] + k] = 1
    # The last chunk is closed, and the first of the best taken.
    top = now
    for path in range(now, now + count):
        if paths[path, END] != -1:
            paths[path, CHUNKS] += 1
        if _before(paths, path, paths, top):
            top = path
    top -= now
    for at in range(n2 - 1, -1, -1):
        chosen[at] = trace[at, 2 * top + 1]
        top = trace[at, 2 * top]


@_compiled(
    types.void(
        _TABLE,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _BYTES,
        _MASKS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        _INTS,
        types.int64,
    )
)
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
    most: Any,
) -> None:
    """Align pairs of texts.

    Args:
        out: gets the statistics, shape (pairs, 23); -1 in the first where there are more than `most`
            matches.
        candidates, references: the text of each pair.
        starts, words: where each text begins, and the words of all.
        key, stem: of each word, the number by which METEOR compares it, and its stem's.
        function: of each word, whether it is a function word.
        mask: of each word, bits of its synsets; without a common bit two words share none.
        set_first, sets: of each word, where its synsets begin, and all of them.
        occurrence_first, position, length, phrase: the phrases in each text, as `phrases` finds them,
            numbered as in `to`.
        to_first, to: the paraphrases of each phrase (`paraphrases`).
        most: how many matches a pair may have.
    """
    longest = 0
    for text in range(len(starts) - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    matches = np.empty((most, 5), np.int32)  # memory that nobody touches costs nothing
    lists = np.zeros((3, longest), np.int32)
    cover = np.zeros((2, longest), np.int32)
    chosen = np.empty(longest, np.int32)
    paths = np.empty((2 * BEAM, FIELDS), np.int64)
    best = np.empty((BEAM + 1, FIELDS), np.int64)
    used = np.empty((2 * BEAM, 2 * longest), np.uint8)
    trace = np.empty((longest, 2 * BEAM), np.int32)
    # The occurrences of a phrase in the text at hand: the first, the next of each, and the stamp of
    # the text for which they hold.
    head = np.empty(len(to_first), np.int32)
    chain = np.empty(len(phrase), np.int32)
    stamp = np.full(len(to_first), -1, np.int64)
    for pair in range(len(candidates)):
        one, two = candidates[pair], references[pair]
        a, b = starts[one], starts[two]
        n1, n2 = starts[one + 1] - a, starts[two + 1] - b
        for k in range(n1):
            cover[0, k] = 0
        for k in range(n2):
            cover[1, k] = 0
            lists[0, k] = 0
        n = 0
        same = n1 == n2
        for j in range(n2):
            for i in range(n1):
                if key[words[a + i]] == key[words[b + j]]:
                    n = _add(matches, n, lists, cover, j, 1, i, 1, EXACT)
            same = same and key[words[a + j]] == key[words[b + j]]
        if not same:
            for j in range(n2):
                for i in range(n1):
                    v, w = words[a + i], words[b + j]
                    if stem[v] == stem[w] and key[v] != key[w]:
                        n = _add(matches, n, lists, cover, j, 1, i, 1, STEM)
            for j in range(n2):
                for i in range(n1):
                    v, w = words[a + i], words[b + j]
                    if mask[v] & mask[w] and key[v] != key[w] and _meet(set_first, sets, v, w):
                        n = _add(matches, n, lists, cover, j, 1, i, 1, SYNONYM)
            # Phrases of the reference whose paraphrases are in the candidate, then the reverse.
            for o in range(occurrence_first[one + 1] - 1, occurrence_first[one] - 1, -1):
                p = phrase[o]
                chain[o] = head[p] if stamp[p] == 2 * pair else -1
                head[p], stamp[p] = o, 2 * pair
            for o in range(occurrence_first[two], occurrence_first[two + 1]):
                for k in range(to_first[phrase[o]], to_first[phrase[o] + 1]):
                    q = head[to[k]] if stamp[to[k]] == 2 * pair else -1
                    while q != -1:
                        n = _add(
                            matches,
                            n,
                            lists,
                            cover,
                            position[o],
                            length[o],
                            position[q],
                            length[q],
                            PARAPHRASE,
                        )
                        q = chain[q]
            for o in range(occurrence_first[two + 1] - 1, occurrence_first[two] - 1, -1):
                p = phrase[o]
                chain[o] = head[p] if stamp[p] == 2 * pair + 1 else -1
                head[p], stamp[p] = o, 2 * pair + 1
            for o in range(occurrence_first[one], occurrence_first[one + 1]):
                for k in range(to_first[phrase[o]], to_first[phrase[o] + 1]):
                    q = head[to[k]] if stamp[to[k]] == 2 * pair + 1 else -1
                    while q != -1:
                        n = _add(
                            matches,
                            n,
                            lists,
                            cover,
                            position[q],
                            length[q],
                            position[o],
                            length[o],
                            PARAPHRASE,
                        )
                        q = chain[q]
        if n > most:
            out[pair, 0] = -1
            continue

        # Matches whose words nothing else would match are certain; the search finds the others.
        certain = 0
        for j in range(n2):
            chosen[j] = -1
            if lists[0, j] != 1:
                continue
            m = lists[1, j]
            alone = True
            for k in range(matches[m, LENGTH2]):
                alone = alone and cover[1, j + k] == 1
            for k in range(matches[m, LENGTH1]):
                alone = alone and cover[0, matches[m, START1] + k] == 1
            if alone:
                certain += 1
                chosen[j] = m
        if certain < n:
            _search(chosen, matches, lists, paths, best, used, trace, n1, n2)

        row = out[pair]
        row[:] = 0
        row[0], row[1] = n1, n2
        for k in range(n1):
            row[2] += function[words[a + k]]
        for k in range(n2):
            row[3] += function[words[b + k]]
        chunks = 0
        j, end = 0, -1
        while j < n2:
            m = chosen[j]
            if m == -1:
                if end != -1:
                    chunks += 1
                    end = -1
                j += 1
                continue
            at = 4 + 4 * matches[m, MODULE]
            start1 = matches[m, START1]
            for k in range(matches[m, LENGTH1]):
                row[at + 2 * function[words[a + start1 + k]]] += 1
                row[21] += 1
            for k in range(matches[m, LENGTH2]):
                row[at + 1 + 2 * function[words[b + j + k]]] += 1
                row[22] += 1
            if end != -1 and start1 != end:
                chunks += 1
            j += matches[m, LENGTH2]
            end = start1 + matches[m, LENGTH1]
        row[20] = chunks + (end != -1)
