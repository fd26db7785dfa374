"""METEOR's Java program, as pycocoevalcap runs it: the authority that our own METEOR is held against.

It is started once a process and fed all rows in a stream; it needs about 5 s and 1.2 GB to load its
paraphrases.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading
from typing import IO

from ....datasets.errors import InputError
from ..java import OPTIONS, Watchdog, died, jar, java, silent

_running: Program | None = None


def program() -> Program:
    """The running program, started where there is none; it is not waited for."""
    global _running
    if _running is not None and _running.program != java():
        _running.stop()
    if _running is None or not _running.alive:
        _running = Program()
        atexit.register(_running.stop)
    return _running


class Program:
    """The Java program and its line protocol: SCORE gives statistics, EVAL gives scores."""

    def __init__(self) -> None:
        self.program = java()
        self.lock = threading.Lock()
        # A file and not a pipe: nobody reads it meanwhile, and a full pipe would block Java.
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        # A fixed heap: left to itself Java takes a gigabyte more for the same speed.
        command = [self.program, "-Xms1200m", "-Xmx1200m", "-XX:+UseParallelGC", *OPTIONS]
        command += ["-jar", str(jar("meteor", "meteor-1.5.jar"))]
        command += ["-", "-", "-stdio", "-l", "en", "-norm"]
        try:
            self.process = subprocess.Popen(
                command,
                cwd=jar("meteor", "meteor-1.5.jar").parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
            )
        except OSError as error:
            raise InputError(f"Java did not start: {self.program} ({error.strerror})") from error

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:  # what was still to be flushed has no reader any more
                continue

    def statistics(self, candidates: list[str], references: list[tuple[str, ...]]) -> list[str]:
        """METEOR's statistics of each row, as the lines it prints."""
        lines = [
            " ||| ".join(["SCORE", *(_safe(r) for r in refs), _safe(candidate)])
            for candidate, refs in zip(candidates, references, strict=True)
        ]
        return self._exchange(lines, len(lines))

    def evaluate(self, statistics: list[str]) -> tuple[list[float], float]:
        """The score of each row, and that of the summed statistics."""
        back = self._exchange([" ||| ".join(["EVAL", *statistics])], len(statistics) + 1)
        return [float(line) for line in back[:-1]], float(back[-1])

    def _exchange(self, lines: list[str], expected: int) -> list[str]:
        """Write lines while reading as many as are expected back; one thread at a time."""
        with self.lock:
            return self._locked_exchange(lines, expected)

    def _locked_exchange(self, lines: list[str], expected: int) -> list[str]:
        # A thread writes, since either pipe may fill up.
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        writer = threading.Thread(target=_write, args=(stdin, lines), daemon=True)
        writer.start()
        back: list[str] = []
        try:
            with Watchdog(self.process) as watchdog:
                for _ in range(expected):
                    line = stdout.readline()
                    watchdog.heard()
                    if not line:
                        raise InputError(
                            f"METEOR stopped after {len(back)} of {expected} rows. "
                            f"{self._end(watchdog.bit)}"
                        )
                    back.append(line.decode("utf-8").strip())
        except BaseException:
            # Answers not yet read (after Ctrl-C, say) would be taken for those of the next rows.
            self.process.kill()
            writer.join()
            self.stop()
            raise
        writer.join()
        return back

    def _end(self, hung: bool) -> str:
        """How the process ended, which it has."""
        status = self.process.wait()
        self.errors.seek(0)
        return silent(self.program) if hung else died(self.program, status, self.errors.read())


def _write(stdin: IO[bytes], lines: list[str]) -> None:
    try:
        for line in lines:
            stdin.write(f"{line}\n".encode("utf-8", "replace"))
        stdin.flush()
    except BrokenPipeError:
        return  # the reader sees the end of the output and says so


def _safe(text: str) -> str:
    """`|||` separates the protocol's fields; pycocoevalcap takes it out in the same way."""
    return text.replace("|||", "").replace("  ", " ")
