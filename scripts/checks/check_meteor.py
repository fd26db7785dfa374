"""Compare our METEOR with the Java program in pycocoevalcap, row by row.

    python scripts/checks/check_meteor.py [--data-root DIR] [--fuzz N] [--seed N] [DATASET ...]

It compares distinct rows of the datasets (all that are at hand by default), with all references and with
each alone, and N fuzzed rows: captions whose words were moved, repeated, inflected, replaced by
synonyms and paraphrases or mixed with punctuation and rare characters; then the stems of all words of
the tables and captions, and the formula on made-up statistics. It counts and lists the rows that differ
in the statistics or in the score. Its exit status is 1 if statistics or stems differ, or a score by more
than 1e-15.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from snowballstemmer.english_stemmer import EnglishStemmer

from captau.datasets.registry import load
from captau.metrics.text.java import pycocoevalcap_file, run_java
from captau.metrics.text.meteor import jar_process as meteor_jar
from captau.metrics.text.meteor import metric as meteor
from captau.metrics.text.meteor.index import Index, load_index
from captau.metrics.text.meteor.words import split_words
from captau.metrics.text.tokens.ptb import tokenize

DATASETS = ["flickr8k_expert", "thumb", "capeval1k", "pascal50s", "demo"]
Row = tuple[str, tuple[str, ...]]
MAX_LISTED = 20
#: The effect on a score of Java's power function, which is not always rounded to the nearest.
ROUNDING = 1e-15
#: Words that the jar's stemmer program leaves alone; METEOR itself stems all.
_NUMBER = re.compile("[0-9,.-]+")


def rows_of(dataset: str, root: Path | None, every: int = 1) -> tuple[list[Row], list[Row]]:
    """Return distinct tokenised rows with all references, and with each alone.

    Args:
        every: takes every so many items.
    """
    items = load(dataset, root).items[::every]
    texts = list(
        dict.fromkeys([*items["caption"], *(r for refs in items["references"] for r in refs)])
    )
    tokens = dict(zip(texts, tokenize(texts), strict=True))
    rows = dict.fromkeys(
        (tokens[c], tuple(tokens[r] for r in refs))
        for c, refs in zip(items["caption"], items["references"], strict=True)
    )
    return list(rows), list(dict.fromkeys((c, (r,)) for c, refs in rows for r in refs))


def compare(name: str, rows: list[Row]) -> bool:
    """Print the differences; return whether there is none that matters."""
    candidates, references = [c for c, _ in rows], [r for _, r in rows]
    lines = meteor_jar.running_process().compute_statistics(candidates, references)
    theirs = np.array([[float(x) for x in line.split()] for line in lines])
    start = time.process_time()
    ours = np.concatenate(list(meteor.best_statistics(candidates, references)))
    seconds = time.process_time() - start
    their_scores, their_corpus = meteor_jar.running_process().evaluate(lines)
    our_scores = meteor.meteor_scores(ours)
    statistics_differ = (theirs != ours).any(axis=1)
    scores_differ = our_scores != np.array(their_scores)
    far = np.abs(our_scores - their_scores) > ROUNDING
    pooled = ours.astype(np.float64)
    pooled[meteor.match_in_one_chunk(pooled), 20] = 0
    our_corpus = float(meteor.meteor_scores(pooled.sum(axis=0)[None])[0])
    print(
        f"{name}: {len(rows):,} rows; {statistics_differ.sum()} differ in the statistics, "
        f"{scores_differ.sum()} in the score ({far.sum()} by more than {ROUNDING}); corpus score "
        f"{our_corpus!r}, {'equal' if our_corpus == their_corpus else f'not {their_corpus!r}'}; "
        f"{seconds:.2f} s of a core for {sum(map(len, references)):,} alignments",
        flush=True,
    )
    for i in np.flatnonzero(statistics_differ | scores_differ)[:MAX_LISTED]:
        print(f"  {candidates[i]!r} {references[i]!r}")
        print(f"    Java   {their_scores[i]!r} {theirs[i].astype(int).tolist()}")
        print(f"    captau {our_scores[i]!r} {ours[i].tolist()}")
    close = abs(our_corpus - their_corpus) <= ROUNDING
    return bool(not statistics_differ.any() and not far.any() and close)


def compare_stems(words: set[str]) -> bool:
    """Print the stems that differ from those of the jar's own stemmer; return whether none does."""
    text = sorted(w for w in words if w and w == "".join(w.split()) and not _NUMBER.fullmatch(w))
    lines = run_java(
        ["-cp", str(pycocoevalcap_file("meteor", "meteor-1.5.jar")), "Stemmer", "en"],
        "\n".join(text).encode(),
    )
    stem = EnglishStemmer().stemWord
    differences = [
        (word, theirs, stem(word))
        for word, theirs in zip(text, lines.decode().split("\n")[:-1], strict=True)
        if stem(word) != theirs
    ]
    print(
        f"stems: {len(text):,} words; {len(differences)} differ {differences[:MAX_LISTED]}",
        flush=True,
    )
    return not differences


def compare_formula(limit: int = 200) -> bool:
    """Compare the formula on all ratios of chunks to fewer than `limit` matched words."""
    rows = np.zeros((limit * limit // 2, 23))
    n = 0
    for matched in range(2, limit):
        for chunks in range(1, matched // 2 + 1):
            matched1, matched2 = matched // 2, matched - matched // 2
            rows[n, [0, 1, 2, 3]] = matched1 + 3, matched2 + 2, 2, 1
            rows[n, [4, 5, 20, 21, 22]] = matched1, matched2, chunks, matched1, matched2
            n += 1
    rows = rows[:n]
    theirs = np.array(
        meteor_jar.running_process().evaluate([" ".join(map(str, r)) for r in rows.tolist()])[0]
    )
    ours = meteor.meteor_scores(rows)
    far = np.abs(ours - theirs) > ROUNDING
    print(
        f"formula: {n:,} statistics with fewer than {limit} matched words; {(ours != theirs).sum()} scores "
        f"differ, {far.sum()} by more than {ROUNDING}; none below "
        f"{int(rows[ours != theirs][:, 21:23].sum(axis=1).min(initial=limit))} matched words",
        flush=True,
    )
    return not far.any()


class Fuzz:
    """A generator of rows that are hard to align.

    Args:
        captions: tokenised captions to begin with.
    """

    def __init__(self, captions: list[str], tables: Index, seed: int) -> None:
        self.captions = captions
        self.random = random.Random(seed)
        self.tables = tables
        words = tables.lemmas.tolist()
        self.words_of_set: dict[int, list[str]] = {}
        self.sets: dict[str, list[int]] = {}
        for i, word in enumerate(words):
            text = word.decode()
            if "_" not in text:
                self.sets[text] = tables.lemma_sets[
                    tables.lemma_first[i] : tables.lemma_first[i + 1]
                ].tolist()
                for n in self.sets[text]:
                    self.words_of_set.setdefault(n, []).append(text)
        self.words = [w.decode() for w in tables.words.tolist()]
        self.number = {w: i for i, w in enumerate(self.words)}
        self.irregular = [w.decode() for w in tables.forms.tolist()]
        # The way back from a node of the trie to its phrase.
        first = tables.first_child
        self.parent = np.repeat(np.arange(len(first) - 1), np.diff(first))

    def phrase(self, node: int) -> list[str]:
        words: list[str] = []
        while node:
            words.append(self.words[self.tables.node_word[node]])
            node = int(self.parent[node - 1])
        return words[::-1]

    def paraphrase(self, words: list[str]) -> list[str] | None:
        """Replace the longest phrase that begins here by a paraphrase of it."""
        at, best = 0, (0, 0)
        for n, word in enumerate(words, 1):
            low, high = self.tables.first_child[at], self.tables.first_child[at + 1]
            number = self.number.get(word, -1)
            at = low + int(np.searchsorted(self.tables.node_word[low:high], number))
            if at == high or self.tables.node_word[at] != number:
                break
            if (
                self.tables.to_first[at] < self.tables.to_first[at + 1]
                and self.random.random() < 0.7
            ):
                best = (n, at)
        if not best[0]:
            return None
        n, at = best
        to = self.random.randrange(self.tables.to_first[at], self.tables.to_first[at + 1])
        return [*self.phrase(int(self.tables.to[to])), *words[n:]]

    def word(self, word: str) -> str:
        draw = self.random.random()
        if draw < 0.35 and self.sets.get(word):
            return self.random.choice(self.words_of_set[self.random.choice(self.sets[word])])
        if draw < 0.6:
            return word + self.random.choice(
                ["s", "es", "ed", "ing", "er", "est", "ly", "'s", "ies"]
            )
        if draw < 0.7:
            return self.random.choice(self.irregular)
        if draw < 0.8:
            return self.random.choice(self.words)
        if draw < 0.85 and len(word) > 2:
            return word[: self.random.randrange(1, len(word))]
        if draw < 0.9:
            return self.random.choice(list(self.sets))
        return word

    def insert_marks(self, text: str) -> str:
        marks = ".,'`-–—\"“”‘’_/|&$%#@!?;:()*+=<>~^0123456789éßñžщḁᵫ🐕中\x0b\xa0\u2003\x01\u0301"
        pieces = [
            "...",
            "''",
            "--",
            "|||",
            "u.s.",
            "e.g.",
            "1,000",
            "1/2",
            "'s",
            "n't",
            " ",
            "-lrb-",
            "x-ray",
            "mr.",
            "no. 5",
        ]
        out = list(text)
        for _ in range(self.random.randrange(1, 6)):
            at = self.random.randrange(len(out) + 1)
            out.insert(
                at, self.random.choice([self.random.choice(marks), self.random.choice(pieces)])
            )
        return "".join(out)

    def text(self, base: str) -> str:
        """Return a variation of a caption."""
        words = base.split()
        for _ in range(self.random.randrange(8)):
            draw = self.random.random()
            if not words:
                words = self.random.choice(self.captions).split()
                continue
            at = self.random.randrange(len(words))
            if draw < 0.3:
                words = [*words[:at], *(self.paraphrase(words[at:]) or words[at:])]
            elif draw < 0.55:
                words[at] = self.word(words[at])
            elif draw < 0.65:
                words.insert(self.random.randrange(len(words) + 1), words[at])
            elif draw < 0.75:
                end = min(len(words), at + self.random.randrange(1, 5))
                moved = words[at:end]
                del words[at:end]
                to = self.random.randrange(len(words) + 1)
                words[to:to] = moved
            elif draw < 0.8:
                words.pop(at)
            elif draw < 0.85:
                words = words * self.random.randrange(1, 4)
            elif draw < 0.9:
                self.random.shuffle(words)
            else:
                words += self.random.choice(self.captions).split()[: self.random.randrange(1, 12)]
        text = " ".join(words)
        return self.insert_marks(text) if self.random.random() < 0.3 else text

    def rows(self, count: int) -> Iterator[Row]:
        for _ in range(count):
            base = self.random.choice(self.captions)
            references = tuple(
                self.text(base) for _ in range(self.random.choice([1, 1, 1, 2, 3, 5]))
            )
            yield self.text(base), references


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="*", metavar="DATASET")
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--fuzz", type=int, default=20_000, help="how many fuzzed rows")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    meteor_jar.running_process()
    is_equal = True
    captions: dict[str, None] = {}
    for name in arguments.datasets or DATASETS:
        rows, single = rows_of(name, arguments.data_root)
        captions.update((c, None) for c, _ in rows)
        captions.update((r[0], None) for _, r in single)
        is_equal &= compare(f"{name}, all references", rows)
        is_equal &= compare(f"{name}, single references", single)
    if arguments.fuzz:
        fuzz = Fuzz(list(captions), load_index(), arguments.seed)
        rows = list(fuzz.rows(arguments.fuzz))
        is_equal &= compare(f"fuzzed, seed {arguments.seed}", rows)
    tables = load_index()
    table_words = [*tables.words.tolist(), *tables.lemmas.tolist(), *tables.forms.tolist()]
    words = {w for c in captions for w in split_words(c, tables.prefixes)}
    is_equal &= compare_stems(words | {w.decode() for w in table_words})
    is_equal &= compare_formula()
    raise SystemExit(not is_equal)


if __name__ == "__main__":
    main()
