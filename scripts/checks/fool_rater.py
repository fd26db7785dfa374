"""Try to fool a rater by ten edits that are no faults of `captau probe`: how often the edited caption scores lower.

    python scripts/checks/fool_rater.py [METRIC ...] [--references FILE] [--images 300]

Captions are one reference of each image, drawn by a fixed seed and left out of its references. Where an edit changes nothing,
the caption is left out and not counted. Prints a Markdown table with a row an edit and a column a metric; ties count ½.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import captau

#: Words that change places with one another, and words with a more general one.
SPATIAL = {
    "on": "under",
    "under": "on",
    "behind": "before",
    "near": "far from",
    "inside": "outside",
    "left": "right",
    "right": "left",
    "over": "below",
    "with": "without",
    "into": "out of",
}
GENERAL = {
    "dog": "animal",
    "cat": "animal",
    "horse": "animal",
    "man": "person",
    "woman": "person",
    "boy": "child",
    "girl": "child",
    "pizza": "food",
    "bus": "vehicle",
    "car": "vehicle",
    "train": "vehicle",
    "tennis": "sport",
    "skateboard": "object",
    "table": "furniture",
}
Edit = Callable[[str, Sequence[str], str], str]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"[\w']+", text.lower())


def replace_words(caption: str, table: dict[str, str]) -> str:
    """Replace each word of the table."""
    return re.sub(r"\w+", lambda match: table.get(match[0].lower(), match[0]), caption)


def add_tags(caption: str, references: Sequence[str], _: str) -> str:
    """Append the four longer words that most references share, as tags."""
    counts = Counter(w for text in references for w in set(words(text)) if len(w) > 3)
    return caption + " " + " ".join(f"#{word}" for word, _ in counts.most_common(4))


EDITS: dict[str, Edit] = {
    "distinct words of all references": lambda c, r, o: " ".join(
        dict.fromkeys(w for t in r for w in words(t))
    ),
    "the two shortest references in a row": lambda c, r, o: " ".join(sorted(r, key=len)[:2]),
    "caption, then a reference": lambda c, r, o: f"{c} {r[0]}",
    "caption, then four tags": add_tags,
    "caption, then another image's": lambda c, r, o: f"{c} {o}",
    "relations reversed": lambda c, r, o: replace_words(c, SPATIAL),
    "more general words": lambda c, r, o: replace_words(c, GENERAL),
    "a letter missing in longer words": lambda c, r, o: re.sub(r"\b(\w\w)\w(\w\w+)", r"\1\2", c),
    "as a question": lambda c, r, o: f"Is it true that {c[0].lower()}{c[1:].rstrip(' .')}?",
    "called a painting": lambda c, r, o: f"A painting of {c[0].lower()}{c[1:]}",
}


def main() -> None:
    """Edit the captions, score both, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    data = Path(os.environ.get("CAPTAU_DATA", "."))
    parser.add_argument("metrics", nargs="*", default=["cider"])
    parser.add_argument(
        "--references", type=Path, default=data / "coco" / "karpathy_test_references.json"
    )
    parser.add_argument("--images", type=int, default=300)
    options = parser.parse_args()
    by_image: dict[str, list[str]] = json.loads(options.references.read_text(encoding="utf-8"))
    rng = random.Random(0)
    images = rng.sample(
        sorted(image for image, texts in by_image.items() if len(texts) > 2), options.images
    )
    rows: list[tuple[str, str, list[str], str]] = []
    for image in images:
        caption, *references = rng.sample(by_image[image], len(by_image[image]))
        other_caption = rng.choice(by_image[rng.choice(images)])
        rows += [
            (name, caption, references, edited)
            for name, edit in EDITS.items()
            if (edited := edit(caption, references, other_caption)) != caption
        ]
    items = [
        [
            {"image_id": str(n), "caption": row[side], "references": row[2]}
            for n, row in enumerate(rows)
        ]
        for side in (1, 3)
    ]
    metrics = [captau.metric(spec) for spec in options.metrics]
    shares: list[list[float]] = []
    for metric in metrics:
        original, edited = map(metric.score, items)
        shares.append([(a > b) + (a == b) / 2 for a, b in zip(original, edited, strict=True)])
    print(
        f"| edit | pairs | {' | '.join(metric.name for metric in metrics)} |\n|:--|--:|{'--:|' * len(metrics)}"
    )
    for name in EDITS:
        index = [n for n, row in enumerate(rows) if row[0] == name]
        cells = [f"{100 * sum(share[n] for n in index) / len(index):.0f}" for share in shares]
        print(f"| {name} | {len(index)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
