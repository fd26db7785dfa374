"""The question before a large download, which a terminal alone is asked: it stops no command without one."""

from __future__ import annotations

from tests.terminal import run_in_terminal


def test_a_baseline_is_checked_and_two_runs_are_compared_on_a_terminal(tmp_path):
    baseline = ("check", "baseline=mine.yaml")
    for words in (
        (*baseline, "update=true", "metrics=rouge_1"),
        baseline,
        ("bench", "metrics=rouge_1", "output_dir=a"),
        ("bench", "metrics=rouge_1,rouge_2", "output_dir=b"),
        ("compare", "run=a,b"),
    ):
        status, shown = run_in_terminal(*words, folder=tmp_path)
        assert status == 0, (words, shown)
        assert "Traceback" not in shown
    assert "rouge_2" in shown  # the metric that only the second run has
