"""Rounds of merging: every key of every file reaches the file of its range, and the opens grow as n log n."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captau
from captau.benchmarks.large import plan
from captau.benchmarks.large.plan import MergeRound, plan_rounds


def test_a_class_in_a_file_is_made_again_in_a_worker(tmp_path):
    """A plan's file names it as a person does, since no worker can import its module by name."""
    source = "import captau\nclass Words(captau.Metric):\n    def compute(self, rows):\n        return [1.0]\n"
    (tmp_path / "words_of_a_plan.py").write_text(source)
    made = captau.metric(f"{tmp_path}/words_of_a_plan.py:Words")
    description = json.loads(json.dumps(plan.describe_metric(made)))
    assert description == {"origin": f"{tmp_path}/words_of_a_plan.py:Words"}
    assert plan.build_metric(description) == made


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 1 << 30), st.sampled_from([2, 4]))
def test_the_last_files_hold_each_range_of_all_files(n_files, n_bytes, fan):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "FAN", fan)
        rounds = plan_rounds(n_files, n_bytes)
    # By number, the original files that a file is made of, and the range of its keys from 0 to 1.
    files = [({i}, (Fraction(0), Fraction(1))) for i in range(n_files)]
    for merge_round in rounds:
        outputs = []
        for task in range(merge_round.n_tasks):
            number, n_ranges, inputs = merge_round.inputs(task)
            bounds = (Fraction(number, n_ranges), Fraction(number + 1, n_ranges))
            assert len(inputs) <= fan
            for i in inputs:
                assert files[i][1][0] <= bounds[0] < bounds[1] <= files[i][1][1]
            assert sum(len(files[i][0]) for i in inputs) == len(
                set().union(*(files[i][0] for i in inputs))
            )
            outputs.append((set().union(*(files[i][0] for i in inputs)), bounds))
        files = outputs
    assert all(sources == set(range(n_files)) for sources, _ in files)
    ends = [bounds for _, bounds in files]
    assert ends == [(Fraction(i, len(ends)), Fraction(i + 1, len(ends))) for i in range(len(ends))]


def test_few_files_are_merged_in_one_round():
    """250 files of 2.2 GB, as 10⁶ rows make: ranges of 128 MiB are 16, so 17 or more are 32."""
    assert plan_rounds(250, 2_219_000_000) == (MergeRound(250, 1, 250, 32),)


def test_opens_grow_more_slowly_than_files_times_ranges():
    """10⁹ rows in 31,250 files of 70 MB would be 5·10⁸ opens in one round of 16,384 ranges."""
    rounds = plan_rounds(31_250, 31_250 * 70_000_000)
    assert rounds == (MergeRound(31_250, 1, 256, 256), MergeRound(123, 256, 123, 64))
    n_opens = [sum(len(r.inputs(task)[2]) for task in range(r.n_tasks)) for r in rounds]
    assert n_opens == [31_250 * 256, 123 * 256 * 64]
