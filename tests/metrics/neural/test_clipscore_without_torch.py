"""Scores of CLIPScore's family by hand, without PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captau.metrics.neural import clipscore
from captau.metrics.registry import metric
from captau.metrics.rows import Rows

# Scores

AXES = {"dog": (1, 0), "cat": (0, 1), "not": (-1, 0), "both": (3, 4)}


class FakeClip:
    """Texts are the mean of their words' axes, of which two fit; images are named by a word."""

    note = ""

    def texts(self, texts, remark):
        rows = []
        for text in texts:
            start, words = text[:16], text[16:].split()
            assert start == "A photo depicts "
            rows.append([*np.mean([AXES[w] for w in words[:2]], axis=0) * 2, len(words) > 2])
        return np.array(rows, float)

    def fits(self, text):
        return len(text[16:].split()) <= 2

    def images(self, paths, remark):
        assert len(set(paths)) == len(paths)
        return np.array([AXES[Path(path).stem] for path in paths], float)


ROWS = [
    {"caption": "both", "references": ["dog", "cat"], "image": "dog.png"},
    {"caption": "dog", "references": ["not"], "image": "not.png"},
    {"caption": "cat", "references": ["cat", "dog"], "image": "both.png"},
    {"caption": "dog", "references": ["cat"], "image": "dog.png"},
    {"caption": "dog dog cat", "references": ["cat"], "image": "cat.png"},
]


def harmonic(a, b):
    return 2 * a * b / (a + b)


@pytest.mark.parametrize(
    ("spec", "expected", "last"),
    [
        ("clipscore", [1.5, 0, 2.0, 2.5, 0], 2.5),
        ("refonlyclipscore", [0.8, 0, 1, 0, 0], 1),
        ("refclipscore", [harmonic(1.5, 0.8), 0, harmonic(2, 1), 0, 0], harmonic(2.5, 1)),
        ("pac_s", [1.2, 0, 1.6, 2, 0], 2),
        ("refpac_s", [harmonic(1.2, 0.8), 0, harmonic(1.6, 1), 0, 0], harmonic(2, 1)),
    ],
)
def test_the_family_by_hand(spec, expected, last, monkeypatch, all_extras):
    """Cosines of captions and images: 0.6, -1, 0.8, 1; of "dog dog cat" the last word is cut, or a piece."""
    monkeypatch.setattr(clipscore, "CHUNK", 2)
    monkeypatch.setattr(clipscore._ClipMetric, "_clip", lambda self: FakeClip())
    monkeypatch.setattr(clipscore._ClipMetric, "programs", ())
    rows = Rows.from_items(ROWS)
    chosen = metric(spec)
    assert chosen.compute(rows) == pytest.approx(expected)
    cut = "1 text is longer than the model's context and was cut short"
    assert rows.remarks == {chosen.spec: [cut]}
    split = metric(f"{spec}(long=split_max)")
    monkeypatch.setattr(FakeClip, "note", "random")
    assert split.compute(rows) == pytest.approx([*expected[:4], last])
    assert rows.remarks[split.spec] == [
        "random",
        "1 text is longer than the model's context and was split into 2 pieces (long=split_max)",
    ]
