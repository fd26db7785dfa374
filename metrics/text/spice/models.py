"""The jars that SPICE needs and pycocoevalcap does not bring: got once, from Maven Central.

SPICE parses captions with Stanford CoreNLP 3.6.0, whose models weigh 378 MB. Rhino runs the script
`spice.js` that drives SPICE. They lie in `spice_models` of the cache folder, or in the folder that
`CAPTAU_SPICE_JARS` (`java.spice=` on the command line) names; their hashes are fixed either way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ....datasets.cache import cache_folder
from ....datasets.errors import InputError
from ....datasets.files import sha256
from ....datasets.folder import Note, silent
from ...progress import progress_counter

#: What `captau data fetch dataset=` calls them.
NAME = "spice_models"
CORENLP = "3.6.0"
ABOUT = """Stanford CoreNLP 3.6.0 with its models, and Rhino, for the metric spice
licence: GPL-3.0-or-later (CoreNLP), MPL-2.0 (Rhino)"""
CITATION = """\
@inproceedings{manning2014corenlp,
  title={The {Stanford} {CoreNLP} Natural Language Processing Toolkit},
  author={Manning, Christopher D. and Surdeanu, Mihai and Bauer, John and Finkel, Jenny and Bethard, Steven J. and McClosky, David},
  booktitle={ACL: System Demonstrations},
  pages={55--60},
  year={2014}
}
@inproceedings{anderson2016spice,
  title={{SPICE}: Semantic Propositional Image Caption Evaluation},
  author={Anderson, Peter and Fernando, Basura and Johnson, Mark and Gould, Stephen},
  booktitle={ECCV},
  year={2016}
}"""
_TIMEOUT = 60


@dataclass(frozen=True)
class Jar:
    """A file by its Maven coordinates.

    Attributes:
        size: in bytes.
    """

    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        return "-".join(p for p in (self.artifact, self.version, self.classifier) if p) + ".jar"

    @property
    def coordinates(self) -> str:
        parts = (self.group, self.artifact, self.version, self.classifier)
        return ":".join(p for p in parts if p)


JARS = (
    Jar(
        "edu.stanford.nlp",
        "stanford-corenlp",
        CORENLP,
        "",
        7_270_741,
        "d341d5863276f55782c5ef73212222d6b3b48e02ae1951ab6de7618d28b12742",
    ),
    Jar(
        "edu.stanford.nlp",
        "stanford-corenlp",
        CORENLP,
        "models",
        378_116_526,
        "d285157bd7887ee3018094b5dbae092e49088b023361ccdb550ee1daf9b2c9bd",
    ),
    Jar(
        "org.mozilla",
        "rhino",
        "1.7.15",
        "",
        1_407_735,
        "2427fdcbc149ca0a25ccfbb7c71b01f39ad42708773a47816cd2342861766b63",
    ),
)


def folder() -> Path:
    """Where the jars lie, or will."""
    chosen = os.environ.get("CAPTAU_SPICE_JARS")
    return Path(chosen).expanduser() if chosen else cache_folder(NAME)


def missing(root: Path) -> list[Jar]:
    """The jars that are not in a folder, or not of the right size."""
    return [j for j in JARS if not _here(root / j.file, j)]


def jars() -> list[Path]:
    """The jars, fetched where they are not here yet, their hashes checked once a process.

    Raises:
        InputError: where one cannot be had, or is another file than it should be.
    """
    root = folder()
    if missing(root):
        fetch(root)
    return _checked(root)


def wrong(root: Path) -> list[Jar]:
    """The jars that are in a folder with another content than they should have.

    Raises:
        InputError: where one cannot be read.
    """
    return [j for j in JARS if (root / j.file).is_file() and _hash(root / j.file) != j.sha256]


def fetch(root: Path, note: Note = silent) -> list[Path]:
    """Get the jars that are missing or wrong; another process that does so is waited for.

    Args:
        root: the folder to put them into; see `folder`.
        note: called with a line for each jar.

    Returns:
        What was fetched.

    Raises:
        InputError: where a jar cannot be had or written; those got before are kept.
    """
    from filelock import FileLock

    done: list[Path] = []
    staging = root / ".maven"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".captau.lock"):
            needed = list(dict.fromkeys([*missing(root), *wrong(root)]))
            shutil.rmtree(staging, ignore_errors=True)  # what a killed run left is torn
            try:
                with progress_counter(
                    "SPICE's models, MB", sum(j.size for j in needed) // 10**6
                ) as advance:
                    for jar in needed:
                        path = root / jar.file
                        _from_maven(jar, staging, advance, needed).replace(path)
                        done.append(path)
                        note(f"{path}: {jar.size:,} bytes from {jar.coordinates}")
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"{root}: cannot be written ({error.strerror}); make room, or set java.spice=DIR (or "
            f"CAPTAU_SPICE_JARS)"
        ) from error
    return done


def _from_maven(jar: Jar, staging: Path, advance: Callable[[int], None], needed: list[Jar]) -> Path:
    """The jar, whole and checked, below `staging`."""
    import requests
    from jgo.maven import MavenContext, PythonResolver

    @contextmanager
    def progress(name: str, total: int) -> Generator[Callable[[int], None]]:
        here = 0

        def more(count: int) -> None:
            nonlocal here
            advance((here + count) // 10**6 - here // 10**6)
            here += count

        yield more

    resolver = PythonResolver(progress_callback=progress)
    context = MavenContext(resolver, repo_cache=staging, timeout=_TIMEOUT)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    artifact = component.artifact(classifier=jar.classifier) if jar.classifier else None
    try:
        path = (artifact or component.artifact()).resolve()
    except (requests.RequestException, RuntimeError) as error:
        raise _not_to_be_had(needed, f"{jar.coordinates}: {type(error).__name__}") from error
    found = _hash(path)
    if found != jar.sha256:
        raise _not_to_be_had(needed, f"the SHA-256 of {jar.file} there is {found}")
    return path


def _not_to_be_had(needed: list[Jar], reason: str) -> InputError:
    files = ", ".join(f"{j.file} ({j.coordinates}, {j.size / 1e6:.0f} MB)" for j in needed)
    return InputError(
        f"SPICE needs {files}, which could not be had from Maven Central ({reason}); run captau data "
        f"fetch dataset={NAME} where there is network, and put the files into {folder()}, or name "
        f"another folder with java.spice=DIR (or CAPTAU_SPICE_JARS)"
    )


def _here(path: Path, jar: Jar) -> bool:
    return path.is_file() and path.stat().st_size == jar.size


@cache
def _checked(root: Path) -> list[Path]:
    for jar in wrong(root):
        raise InputError(
            f"{root / jar.file} is not {jar.coordinates}: its SHA-256 differs; captau data fetch "
            f"dataset={NAME} replaces it"
        )
    return [root / jar.file for jar in JARS]


def _hash(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
