"""METEOR's Java program, as pycocoevalcap runs it: the authority for our own METEOR.

It is started once a process and receives all rows in a stream; it needs about 5 s and 1.2 GB to load its
paraphrases.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
from contextlib import suppress
from typing import IO

from ....datasets.errors import InputError
from ..java import OPTIONS, JavaProcess, StalledError, pycocoevalcap_file, silence_message
from .languages import ENGLISH, Setting
from .tables import read_function_words

# By setting.
_running: dict[Setting, MeteorProcess] = {}


def running_process(setting: Setting = ENGLISH) -> MeteorProcess:
    """Return the running process of a setting; start one if there is none, without waiting for it."""
    process = _running.get(setting)
    if process is not None and not process.is_usable:
        process.stop()
        process = None
    if process is None:
        process = MeteorProcess(setting)
        _running[setting] = process
        atexit.register(process.stop)

    return process


class MeteorProcess(JavaProcess):
    """The Java program and its line protocol: SCORE returns statistics, EVAL returns scores."""

    def __init__(self, setting: Setting) -> None:
        self.lock = threading.Lock()
        jar = pycocoevalcap_file("meteor", "meteor-1.5.jar")
        # A fixed heap: by default Java takes a gigabyte more for the same speed.
        arguments = ["-Xms1200m", "-Xmx1200m", "-XX:+UseParallelGC", *OPTIONS]
        arguments += ["-jar", str(jar), "-", "-", "-stdio", *setting.jar_options]
        # Unless it is told so, the jar takes the English function words for every language.
        self.function_words = tempfile.NamedTemporaryFile()  # noqa: SIM115 - read when the process starts
        if setting.language.name != "english":
            self.function_words.write(read_function_words(jar, setting.language.name))
            self.function_words.flush()
            arguments += ["-s", self.function_words.name]
        super().__init__(arguments, jar.parent)

    def stop(self) -> None:
        super().stop()
        self.function_words.close()

    def compute_statistics(
        self, candidates: list[str], references: list[tuple[str, ...]]
    ) -> list[str]:
        """Return METEOR's statistics of each row, as the lines that it prints."""
        lines: list[str] = []
        for candidate, texts in zip(candidates, references, strict=True):
            fields = ["SCORE", *map(_without_bars, texts), _without_bars(candidate)]
            lines.append(" ||| ".join(fields))

        return self._exchange(lines, len(lines))

    def evaluate(self, statistics: list[str]) -> tuple[list[float], float]:
        """Return the score of each row, and that of the summed statistics."""
        line = " ||| ".join(["EVAL", *statistics])
        answers = self._exchange([line], len(statistics) + 1)

        return [float(line) for line in answers[:-1]], float(answers[-1])

    def _exchange(self, lines: list[str], n_answers: int) -> list[str]:
        """Write lines and read as many answers as are expected; one thread at a time."""
        stdin = self.process.stdin

        assert stdin is not None
        with self.lock:
            # A thread writes, since either pipe may fill up.
            writer = threading.Thread(target=_write, args=(stdin, lines), daemon=True)
            writer.start()
            try:
                answers = self._read_answers(n_answers)
            except BaseException:
                # Answers that are still unread (after Ctrl-C, say) would become those of the next rows.
                self.process.kill()
                writer.join()
                self.stop()
                raise
            writer.join()
        return answers

    def _read_answers(self, n_answers: int) -> list[str]:
        answers: list[str] = []
        for _ in range(n_answers):
            reason = ""
            try:
                line = self.read_line()
            except StalledError:
                line = b""
                reason = silence_message(self.program)
            if not line:
                raise InputError(
                    f"METEOR stopped after {len(answers)} of {n_answers} rows. {reason or self.end()[1]}"
                )
            answers.append(line.decode("utf-8").strip())

        return answers


def _write(stdin: IO[bytes], lines: list[str]) -> None:
    # The reader sees the end of the output, and says so.
    with suppress(BrokenPipeError):
        for line in lines:
            stdin.write(f"{line}\n".encode("utf-8", "replace"))
        stdin.flush()


def _without_bars(text: str) -> str:
    """Remove `|||`, which separates the protocol's fields, as pycocoevalcap does."""
    return text.replace("|||", "").replace("  ", " ")
