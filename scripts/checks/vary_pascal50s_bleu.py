"""Vary BLEU-4 on PASCAL-50S: which tokenisation, smoothing and length could have given CLIPScore's printed accuracies?

    CAPTAU_DATA=… python scripts/checks/vary_pascal50s_bleu.py [DRAWS]

prints a row a variant: the mean accuracy over draws of five references, by category and as their mean, on the labels of Table 4
of Hessel et al. 2021 and on the votes of 11 people of Table 7, with the printed rows on top. A tie counts half.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np

import captau
from captau.benchmarks.cli.script_options import show_manual
from captau.metrics.text.tokens.ptb import tokenize

#: The references of a draw; the paper averages five draws.
SIZE = 5
CATEGORIES = ("HC", "HI", "HM", "MM")
PRINTED = {"pascal50s": (60.4, 90.6, 84.9, 54.7), "pascal50s_votes": (52.5, 90.4, 84.9, 55.3)}

Counts = list[Counter[tuple[str, ...]]]


def count_n_grams(words: Sequence[str]) -> Counts:
    """Count the n-grams of a sentence, n from 1 to 4."""
    counts: Counts = []
    for n in range(1, 5):
        counts.append(Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)))
    return counts


def read_words(texts: Sequence[str], tokenisation: str) -> dict[str, list[str]]:
    """Return the words of each text."""
    if tokenisation == "PTB":
        return dict(zip(texts, [line.split() for line in tokenize(list(texts))], strict=True))
    if tokenisation == "blanks, cased":
        return {text: text.split() for text in texts}
    return {text: text.lower().split() for text in texts}


def choose_length(n_words: int, lengths: Sequence[int], rule: str) -> float:
    """Return the references' length that a candidate's is held against."""
    if rule == "closest":
        return min((abs(length - n_words), length) for length in lengths)[1]
    return min(lengths) if rule == "shortest" else sum(lengths) / len(lengths)


def smooth(matches: Sequence[int], totals: Sequence[int], smoothing: str) -> list[float]:
    """Return the precisions of n-grams."""
    if smoothing == "COCO":
        return [(m + 1e-15) / (t + 1e-9) for m, t in zip(matches, totals, strict=True)]
    if smoothing == "+1 from 2-grams":
        later = [(m + 1) / (t + 1) for m, t in zip(matches[1:], totals[1:], strict=True)]
        return [matches[0] / max(totals[0], 1), *later]
    if smoothing == "0.1 for none":
        return [(m or 0.1) / max(t, 1) for m, t in zip(matches, totals, strict=True)]
    return [m / max(t, 1) for m, t in zip(matches, totals, strict=True)]


def score(candidate: Counts, references: Sequence[Counts], smoothing: str, rule: str) -> float:
    """Return sentence BLEU-4."""
    n_words = sum(candidate[0].values())
    length = choose_length(n_words, [sum(r[0].values()) for r in references], rule)
    matches: list[int] = []
    for n in range(4):
        hits = sum(
            min(count, max(r[n][gram] for r in references)) for gram, count in candidate[n].items()
        )
        matches.append(hits)
    totals = [max(n_words - n, 0) for n in range(4)]
    precisions = smooth(matches, totals, smoothing)
    if min(precisions) <= 0:
        return 0.0
    mean = math.exp(sum(map(math.log, precisions)) / 4)
    ratio = (n_words + 1e-15) / (length + 1e-9)
    return mean * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)


def score_text(
    caption: str, references: Sequence[str], *, counts: dict[str, Counts], smoothing: str, rule: str
) -> float:
    """Return sentence BLEU-4 of texts whose n-grams are counted."""
    return score(counts[caption], [counts[text] for text in references], smoothing, rule)


def measure(score_of: Callable[[str, list[str]], float], dataset: str, n_draws: int) -> list[float]:
    """Return the mean accuracy over draws by category."""
    pool = captau.load("pascal50s_votes").items.drop_duplicates("image_id")
    references = dict(zip(pool["image_id"], pool["references"], strict=True))
    judged = captau.load(dataset)
    captions = dict(zip(judged.items["item_id"], judged.items["caption"], strict=True))
    image_of = dict(zip(judged.items["item_id"], judged.items["image_id"], strict=True))
    sums = judged.preferences.groupby(["dimension", "item_a", "item_b"], sort=True)["strength"]
    pairs = sums.agg(lambda s: list(np.sign(s))).reset_index()

    hits: dict[str, list[float]] = {category: [] for category in CATEGORIES}
    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        for row in pairs.to_dict("records"):
            a = captions[row["item_a"]]
            b = captions[row["item_b"]]
            others = [r for r in references[image_of[row["item_a"]]] if r not in (a, b)]
            drawn = [others[i] for i in rng.choice(len(others), SIZE, replace=False)]
            lead = np.sign(score_of(a, drawn) - score_of(b, drawn))
            votes = np.array([v for v in row["strength"] if v != 0])
            hits[row["dimension"]] += list(0.5 + lead * votes / 2)
    return [100 * float(np.mean(hits[category])) for category in CATEGORIES]


def main() -> None:
    """Print the table."""
    show_manual(__doc__)
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    judged = captau.load("pascal50s_votes").items
    texts = {*judged["caption"], *captau.load("pascal50s").items["caption"]}
    for references in judged["references"]:
        texts |= set(references)

    print("dataset tokens smoothing length", *CATEGORIES, "mean", sep="\t")
    for dataset, printed in PRINTED.items():
        print(dataset, "printed", "", "", *printed, round(float(np.mean(printed)), 1), sep="\t")
    variants = [
        ("PTB", "COCO", "closest"),
        *product(["PTB"], ["COCO"], ["shortest", "average"]),
        *product(["PTB"], ["none", "+1 from 2-grams", "0.1 for none"], ["closest"]),
        *product(["blanks"], ["COCO", "none", "+1 from 2-grams"], ["closest"]),
        ("blanks, cased", "COCO", "closest"),
    ]
    for tokenisation, smoothing, rule in variants:
        words = read_words(sorted(texts), tokenisation)
        counts = {text: count_n_grams(own_words) for text, own_words in words.items()}
        score_of = partial(score_text, counts=counts, smoothing=smoothing, rule=rule)
        for dataset in PRINTED:
            shares = measure(score_of, dataset, n_draws)
            cells = [f"{share:.1f}" for share in [*shares, float(np.mean(shares))]]
            print(dataset, tokenisation, smoothing, rule, *cells, sep="\t", flush=True)


if __name__ == "__main__":
    main()
