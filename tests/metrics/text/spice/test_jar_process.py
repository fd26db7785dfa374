"""Runs of SPICE whose Java stalls, is killed, or has too little memory.

A shell script stands for Java and obeys words in captions; `test_metric` runs the real one.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from captau.benchmarks.runs.output_folder import is_process_alive
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.spice import jar_process as spice_java
from captau.metrics.text.spice import metric as spice
from captau.metrics.text.spice.jar_process import ParseFailure
from tests.conftest import says

pytestmark = pytest.mark.java

DOG = [["dog"]]
NONE = '{"f": null, "pr": null, "re": null}'
KINDS = ", ".join(
    f'"{kind}": {NONE}'
    for kind in ("Object", "Relation", "Attribute", "Color", "Cardinality", "Size")
)
SCORES = f'[{{"scores": {{"All": {{"f": 0.5, "pr": 0.25, "re": 1.0}}, {KINDS}}}}}]'


@pytest.fixture
def script(tmp_path, monkeypatch, wait_for_java, no_jars):
    """Return a function that lets a script stand for Java, with an empty store."""
    monkeypatch.setattr(spice_java, "load_jars", list)
    monkeypatch.setattr(spice, "tokenize_rows", lambda rows: (rows.captions, rows.references))
    wait_for_java(ending=2.0)
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    spice_java.stop_idle()

    def write(*lines: str) -> Path:
        path = tmp_path / "java"
        path.write_text("\n".join(["#!/bin/sh", f"here={tmp_path}", *lines, ""]))
        path.chmod(0o755)
        monkeypatch.setenv("CAPTAU_JAVA", str(path))
        return path

    yield write
    spice_java.stop_idle()


@pytest.fixture
def parser(script):
    """Write a parser that does what the caption says, and counts its starts and requests."""
    return script(
        'echo "$*" >>"$here/starts"',
        'echo $$ >>"$here/pids"',
        """echo '"ready"'""",
        "while read -r line; do",
        '  echo "$line" >>"$here/requests"',
        '  case "$line" in',
        "    *stalls*) exec sleep 600;;",
        "    *swells*) exit 3;;",
        "    *dies*) kill -9 $$;;",
        '    *fails*) echo \'{"error": "java.lang.StackOverflowError"}\';;',
        '    *once*) test -e "$here/once" && echo \'[["dog"]]\' || { touch "$here/once"; kill -9 $$; };;',
        f"    \\[*) echo '{SCORES}';;",
        "    *) echo '[[\"dog\"]]';;",
        "  esac",
        "done",
    )


def count(parser: Path, name: str) -> int:
    path = parser.with_name(name)
    return len(path.read_text().splitlines()) if path.exists() else 0


def rows(*captions: str) -> Rows:
    return Rows.from_items(
        [
            {"caption": c, "references": ("a cat",), "item_id": f"x{i}"}
            for i, c in enumerate(captions)
        ]
    )


def test_a_caption_that_stalls_the_parser_is_named_and_the_rest_scored(
    parser, wait_for_java, caplog
):
    wait_for_java(parsing=3.0)
    scores = metric("spice").score(rows("a dog", "this stalls", "a bird"))
    assert np.array_equal(scores, [0.5, np.nan, 0.5], equal_nan=True)
    (message,) = caplog.messages
    assert "SPICE of x1 is undefined: a caption of 2 words could not be parsed" in message
    assert "it took longer than 3 s: this stalls" in message


def test_a_caption_that_stalled_is_only_tried_again_with_other_limits(
    parser, wait_for_java, monkeypatch
):
    wait_for_java(parsing=0.5)
    failed = ParseFailure("it took longer than 0.5 s", "0.5 s, 4 GB")
    assert spice.parse_scenes(["this stalls"]) == {"this stalls": failed}
    assert spice.parse_scenes(["this stalls"]) == {"this stalls": failed}
    assert count(parser, "requests") == 1
    wait_for_java(parsing=0.6)
    assert spice.parse_scenes(["this stalls"])["this stalls"].limits == "0.6 s, 4 GB"
    monkeypatch.undo()
    assert spice_java.limits() == "900 s, 4 GB"  # which failures in users' stores have
    assert count(parser, "requests") == 2


@pytest.mark.parametrize(
    ("caption", "reason"),
    [("it swells", "it needs more than 4 GB"), ("it fails", "java.lang.StackOverflowError")],
)
def test_a_caption_beyond_the_parser_is_undefined_and_named(caption, reason, parser, caplog):
    scores = metric("spice").score(rows("a dog", caption, "a bird"))
    assert np.array_equal(scores, [0.5, np.nan, 0.5], equal_nan=True)
    assert f"{reason}: {caption}" in caplog.text
    assert parser.with_name("requests").read_text().count(caption) == 1


def test_a_reference_beyond_the_parser_only_affects_its_rows(parser, caplog):
    items = [
        {"caption": "a dog", "references": ("a cat", "it fails")},
        {"caption": "a dog", "references": ("a cat",)},
    ]
    scores = metric("spice").score(items)
    assert np.array_equal(scores, [np.nan, 0.5], equal_nan=True)
    assert "SPICE of row 0 is undefined" in caplog.text


def test_a_caption_of_several_rows_is_named_once(parser, caplog):
    items = [{"caption": c, "references": ("it fails",)} for c in ("a dog", "a cat", "a bird")]
    assert np.isnan(metric("spice").score(items)).all()
    (message,) = caplog.messages
    assert "SPICE of row 0 and 2 rows more is undefined" in message


def test_a_parser_that_is_killed_is_started_again(parser, caplog):
    assert metric("spice").score(rows("a dog", "killed once", "a bird")).tolist() == [0.5] * 3
    assert caplog.messages == []
    assert count(parser, "starts") == 3  # two parsers, and one program that scores


def test_a_parser_that_dies_again_ends_the_run_and_what_was_parsed_is_kept(parser):
    with says("SPICE's parser died twice over one caption", "was killed by signal 9"):
        metric("spice").score(rows("a dog", "a bird", "this dies", "never asked"))
    n_requests = count(parser, "requests")
    assert spice.parse_scenes(["a dog", "a bird"]) == {"a dog": DOG, "a bird": DOG}
    assert count(parser, "requests") == n_requests


def test_each_caption_is_parsed_once_ever(parser):
    first = spice.parse_scenes(["a dog", "a bird", "a dog"])
    assert first == {"a dog": DOG, "a bird": DOG}
    assert spice.parse_scenes(["a bird", "a cat"]) == {"a bird": DOG, "a cat": DOG}
    assert count(parser, "requests") == 3


def test_a_process_that_was_stopped_leaves_no_file_open(parser):
    process = spice_java.acquire(can_parse=True)
    process.stop()
    pipes = process.process
    assert all(file.closed for file in (pipes.stdin, pipes.stdout, process.errors))


def test_the_program_that_scores_hashes_alike_each_time(parser):
    """With random hashes equal rows would get unequal scores, in the last digits."""
    metric("spice").score(rows("a dog"))
    parse, score = parser.with_name("starts").read_text().splitlines()
    assert parse.endswith(" parse")
    assert "-XX:hashCode=2" not in parse
    assert "-XX:hashCode=2" in score


def pid_of_last(parser: Path) -> int:
    """Return the process id of the program that was started last."""
    return int(parser.with_name("pids").read_text().split()[-1])


def wait_until_ended(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_process_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_idle_process_waits_for_work_and_ends(parser, monkeypatch):
    spice.parse_scenes(["a dog"])
    with monkeypatch.context() as patch:
        patch.setattr(spice_java, "_IDLE_SECONDS", 0.1)
        spice.parse_scenes(["a bird"])
    assert count(parser, "starts") == 1
    wait_until_ended(pid_of_last(parser))
    spice.parse_scenes(["a cat"])
    assert count(parser, "starts") == 2
    spice_java.stop_idle()
    wait_until_ended(pid_of_last(parser))


def test_an_idle_process_that_was_killed_is_replaced(parser):
    spice.parse_scenes(["a dog"])
    os.kill(pid_of_last(parser), signal.SIGKILL)
    assert spice.parse_scenes(["a bird"]) == {"a bird": DOG}
    assert count(parser, "starts") == 2


def test_another_java_is_taken_at_once(parser, monkeypatch):
    spice.parse_scenes(["a dog"])
    other = parser.with_name("other")
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(other))
    with says("stopped with status 1"):
        spice.parse_scenes(["a bird"])


def test_parsers_share_the_captions_and_lose_none(parser, monkeypatch):
    monkeypatch.setattr(spice_java, "_CAPTIONS_PER_PARSER", 1)
    monkeypatch.setattr(spice_java, "count_cores", lambda: 3)
    monkeypatch.setattr(spice_java, "HEAP_GB", 0.01)
    captions = [f"dog {i}" for i in range(300)]
    assert spice.parse_scenes(captions) == dict.fromkeys(captions, DOG)
    assert count(parser, "starts") == 3
    assert count(parser, "requests") == 300


def test_a_run_that_is_interrupted_keeps_what_was_parsed_and_leaves_no_java(parser, monkeypatch):
    """As Ctrl-C does, between two captions."""
    processes = []
    start = spice_java.SpiceProcess.__init__

    def remember(self, **options):
        processes.append(self)
        start(self, **options)

    monkeypatch.setattr(spice_java.SpiceProcess, "__init__", remember)
    real_parse = spice_java.parse

    def interrupted_parse(captions):
        for i, result in enumerate(real_parse(captions)):
            if i == 2:
                raise KeyboardInterrupt
            yield result

    with monkeypatch.context() as patch:
        patch.setattr(spice, "parse", interrupted_parse)
        with pytest.raises(KeyboardInterrupt):
            spice.parse_scenes(["a", "b", "c", "this stalls"])
    n_requests = count(parser, "requests")
    assert spice.parse_scenes(["a", "b"]) == {"a": DOG, "b": DOG}
    assert count(parser, "requests") == n_requests
    for idle in processes:
        assert idle.process.wait(60) is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["echo 'no such luck' >&2", "exit 1"], "stopped with status 1: no such luck"),
        (["exit 0"], "stopped with status 0"),
        (["echo hello", "exec sleep 600"], "was killed by signal 9: hello"),
        (["echo Could not reserve enough space", "exit 1"], "status 1: Could not reserve enough"),
        (["exec sleep 600"], "said nothing for 3 s"),
    ],
)
def test_a_java_that_fails_is_an_error(lines, message, script, wait_for_java):
    wait_for_java(silence=3.0)
    script(*lines)
    with says(message):
        metric("spice").score(rows("a dog"))


def test_a_missing_java_is_an_error(script, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", "/nowhere")
    with says("no Java program at", "set java.home"):
        metric("spice").score(rows("a dog"))


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_killed_while_it_scores_is_started_again_once(times, parser):
    """Once costs a start; twice ends the run, and the parsed captions are there for the next."""
    kill = (
        f'echo >>"$here/k"; [ $(wc -l <"$here/k") -gt {times} ] && echo \'{SCORES}\' || kill -9 $$'
    )
    parser.write_text(parser.read_text().replace(f"echo '{SCORES}'", kill))
    if times == 1:
        assert metric("spice").score(rows("a dog")).tolist() == [0.5]
    else:
        with says("SPICE died while it scored", "was killed by signal 9"):
            metric("spice").score(rows("a dog"))
    n_requests = count(parser, "requests")
    assert spice.parse_scenes(["a dog", "a cat"]) == {"a dog": DOG, "a cat": DOG}
    assert count(parser, "requests") == n_requests


def test_a_row_that_cannot_be_scored_is_an_error(parser):
    text = parser.read_text().replace(f"echo '{SCORES}'", 'echo \'{"error": "java.lang.X"}\'')
    parser.write_text(text)
    with says("SPICE failed: java.lang.X"):
        metric("spice").score(rows("a dog"))
