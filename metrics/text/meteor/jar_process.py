"""METEOR's Java program, as pycocoevalcap runs it: the authority for our own METEOR.

It is started once a process and receives all rows in a stream; it needs about 5 s and 1.2 GB to load its
paraphrases.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import IO

from ....datasets.errors import InputError
from ..java import (
    OPTIONS,
    Watchdog,
    exit_message,
    java_program,
    pycocoevalcap_file,
    silence_message,
)
from .languages import ENGLISH, Setting
from .tables import read_function_words

# By setting.
_running: dict[Setting, MeteorProcess] = {}


def running_process(setting: Setting = ENGLISH) -> MeteorProcess:
    """Return the running process of a setting; start one if there is none, without waiting for it."""
    process = _running.get(setting)
    if process is not None and process.program != java_program():
        process.stop()
    if process is None or not process.is_alive:
        process = _running[setting] = MeteorProcess(setting)
        atexit.register(process.stop)
    return process


class MeteorProcess:
    """The Java program and its line protocol: SCORE returns statistics, EVAL returns scores."""

    def __init__(self, setting: Setting) -> None:
        self.program = java_program()
        self.lock = threading.Lock()
        # A file and not a pipe: nobody reads it meanwhile, and a full pipe would block Java.
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        jar = pycocoevalcap_file("meteor", "meteor-1.5.jar")
        # A fixed heap: by default Java takes a gigabyte more for the same speed.
        command = [self.program, "-Xms1200m", "-Xmx1200m", "-XX:+UseParallelGC", *OPTIONS]
        command += ["-jar", str(jar), "-", "-", "-stdio", *setting.jar_options]
        # Unless it is told so, the jar takes the English function words for every language.
        self.function_words = tempfile.NamedTemporaryFile()  # noqa: SIM115 - read when the process starts
        if setting.language.name != "english":
            self.function_words.write(read_function_words(jar, setting.language.name))
            self.function_words.flush()
            command += ["-s", self.function_words.name]
        try:
            self.process = subprocess.Popen(
                command,
                cwd=jar.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
            )
        except OSError as error:
            raise InputError(f"Java did not start: {self.program} ({error.strerror})") from error

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (
            self.process.stdin,
            self.process.stdout,
            self.errors,
            self.function_words,
        ):
            with suppress(BrokenPipeError):  # unwritten requests have no reader any more
                if stream is not None:
                    stream.close()

    def compute_statistics(
        self, candidates: list[str], references: list[tuple[str, ...]]
    ) -> list[str]:
        """Return METEOR's statistics of each row, as the lines that it prints."""
        lines = [
            " ||| ".join(["SCORE", *(_without_bars(r) for r in refs), _without_bars(candidate)])
            for candidate, refs in zip(candidates, references, strict=True)
        ]
        return self._exchange(lines, len(lines))

    def evaluate(self, statistics: list[str]) -> tuple[list[float], float]:
        """Return the score of each row, and that of the summed statistics."""
        answers = self._exchange([" ||| ".join(["EVAL", *statistics])], len(statistics) + 1)
        return [float(line) for line in answers[:-1]], float(answers[-1])

    def _exchange(self, lines: list[str], n_answers: int) -> list[str]:
        """Write lines and read as many answers as are expected; one thread at a time."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        with self.lock:
            # A thread writes, since either pipe may fill up.
            writer = threading.Thread(target=_write, args=(stdin, lines), daemon=True)
            writer.start()
            try:
                answers = self._read(stdout, n_answers)
            except BaseException:
                # Answers that are still unread (after Ctrl-C, say) would become those of the next rows.
                self.process.kill()
                writer.join()
                self.stop()
                raise
            writer.join()
        return answers

    def _read(self, stdout: IO[bytes], n_answers: int) -> list[str]:
        answers: list[str] = []
        with Watchdog(self.process) as watchdog:
            for _ in range(n_answers):
                line = stdout.readline()
                watchdog.reset()
                if not line:
                    raise InputError(
                        f"METEOR stopped after {len(answers)} of {n_answers} rows. "
                        f"{self._exit_message(watchdog.has_killed)}"
                    )
                answers.append(line.decode("utf-8").strip())
        return answers

    def _exit_message(self, was_silent: bool) -> str:
        status = self.process.wait()
        self.errors.seek(0)
        if was_silent:
            return silence_message(self.program)
        return exit_message(self.program, status, self.errors.read())


def _write(stdin: IO[bytes], lines: list[str]) -> None:
    with suppress(BrokenPipeError):  # the reader sees the end of the output and says so
        for line in lines:
            stdin.write(f"{line}\n".encode("utf-8", "replace"))
        stdin.flush()


def _without_bars(text: str) -> str:
    """Remove `|||`, which separates the protocol's fields, as pycocoevalcap does."""
    return text.replace("|||", "").replace("  ", " ")
