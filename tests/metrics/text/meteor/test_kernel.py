"""The inner loops: alignments of the Java program, and how the loops are compiled."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from captau.metrics.text.meteor import _kernel
from captau.metrics.text.meteor import metric as meteor_module

#: Texts of few words, some of which match in many ways, with the statistics that METEOR's Java program prints.
with Path(__file__).with_name("java_statistics.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


@pytest.mark.parametrize("part", range(12))
def test_statistics_are_the_java_programs(part):
    rows = ROWS[part::12]
    (statistics,) = meteor_module.best_statistics(
        [row["candidate"] for row in rows], [(row["reference"],) for row in rows]
    )
    expected = [[int(n) for n in row["statistics"].split()] for row in rows]
    assert statistics.tolist() == expected


@pytest.mark.parametrize("can_be_stored", [True, False])
def test_loops_are_stored_and_compiled_anew_where_they_cannot_be(can_be_stored, monkeypatch):
    calls = []

    def njit(signature, **options):
        calls.append((signature, options))
        if options.get("cache") and not can_be_stored:
            raise OSError("no space")
        return lambda function: ("compiled", function)

    monkeypatch.setattr(_kernel.numba, "njit", njit)
    assert _kernel._compile("void()")(len) == ("compiled", len)
    expected = [("void()", {"cache": True, "nogil": True}), ("void()", {"nogil": True})]
    assert calls == expected[: 2 - can_be_stored]
