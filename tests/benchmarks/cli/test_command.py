"""The question before a large download, which a terminal alone is asked: it stops no command without one."""

from __future__ import annotations

import pytest

from tests.terminal import run_in_terminal

CAPTIONS = '{"1": "a dog runs", "2": "a cat sits"}'
REFERENCES = '{"1": ["a dog runs fast"], "2": ["a cat sits down"]}'


def test_the_first_command_and_its_table_run_on_a_terminal(tmp_path):
    bench = ("bench", "metrics=rouge_1", "statistics.replicates=50", "output_dir=run")
    for words in (bench, ("table", "run=run")):
        status, shown = run_in_terminal(*words, folder=tmp_path)
        assert status == 0, (words, shown)
        assert "Traceback" not in shown


@pytest.mark.slow
def test_each_command_runs_on_a_terminal(tmp_path):
    """The simplest form of each command that needs no network, no optional package and no real data."""
    (tmp_path / "c.json").write_text(CAPTIONS)
    (tmp_path / "r.json").write_text(REFERENCES)
    fast = ("metrics=rouge_1,rouge_2", "statistics.replicates=50")
    for words in (
        ("--help",),
        ("bench", "--help"),
        ("bench", *fast, "output_dir=run"),
        ("probe", *fast),
        ("rank", *fast),
        ("agree", "draws=2"),
        ("sensitivity", fast[0], "draws=10"),
        ("complement", fast[0], "draws=2"),
        ("score", "candidates=c.json", "references=r.json", fast[0]),
        ("validate", "c.json"),
        ("table", "run=run"),
        ("cite", "run=run"),
        ("data", "list"),
    ):
        status, shown = run_in_terminal(*words, folder=tmp_path)
        assert status == 0, (words, shown)
        assert "Traceback" not in shown


@pytest.mark.slow
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
