"""The jars that SPICE needs and pycocoevalcap lacks, fetched once from Maven Central.

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
from ....datasets.download.permission import LargeDownload, is_allowed
from ....datasets.download.writing import Note, locked, silent
from ....datasets.errors import InputError, unwritable
from ....datasets.paths import expand_home
from ....datasets.reading.source_files import sha256
from ...base import UnavailableError, need_modules
from ...progress import progress_counter

#: Their name in `captau data fetch dataset=`.
NAME = "spice_models"
CORENLP = "3.6.0"
CONTENT = "Stanford CoreNLP 3.6.0 with its models, and Rhino"
LICENCE = "GPL-3.0-or-later (CoreNLP), MPL-2.0 (Rhino)"
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
  pages={382--398},
  year={2016}
}"""
_TIMEOUT = 60
_REMEDY = "set java.spice=DIR (or CAPTAU_SPICE_JARS)"


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
        parts = (self.artifact, self.version, self.classifier)
        return "-".join(filter(None, parts)) + ".jar"

    @property
    def coordinates(self) -> str:
        parts = (self.group, self.artifact, self.version, self.classifier)
        return ":".join(filter(None, parts))


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


def jar_folder() -> Path:
    """Return the folder of the jars, which may not exist yet."""
    configured = os.environ.get("CAPTAU_SPICE_JARS")
    return expand_home(configured) if configured else cache_folder(NAME)


def missing_jars(root: Path) -> list[Jar]:
    """List the jars that are not in a folder, or not of the right size."""
    return [jar for jar in JARS if not _has_size(root / jar.file, jar.size)]


def pending_download() -> LargeDownload | None:
    """Return the download of the jars that are not here; None where all are."""
    jars = missing_jars(jar_folder())
    if not jars:
        return None

    return LargeDownload(
        NAME,
        f"The metric SPICE needs a parser: {CONTENT}",
        LICENCE,
        sum(jar.size for jar in jars),
    )


def check_permission(metric: str) -> None:
    """Check that the jars are here or may be fetched.

    Raises:
        UnavailableError: where they are neither.
    """
    download = pending_download()
    if download is not None and not is_allowed(download):
        raise UnavailableError(
            f"metric {metric}",
            f"needs SPICE's parser, {download.n_bytes / 1e6:.0f} MB that are not on this machine",
            f"captau data fetch dataset={NAME} downloads them, and so does weights.download=true",
        )


def load_jars() -> list[Path]:
    """Return the jars; missing ones are fetched if that is allowed, and all hashes are checked once a process.

    Raises:
        UnavailableError: if jars are missing and may not be fetched.
        InputError: if a jar cannot be fetched, or has another content than it should have.
    """
    root = jar_folder()
    if missing_jars(root):
        check_permission("spice")
        fetch_jars(root)
    return _check_hashes(root)


def damaged_jars(root: Path) -> list[Jar]:
    """List the jars in a folder whose content is not what it should be.

    Raises:
        InputError: if a jar cannot be read.
    """
    present = [jar for jar in JARS if (root / jar.file).is_file()]
    return [jar for jar in present if _hash(root / jar.file) != jar.sha256]


def fetch_jars(root: Path, note: Note = silent) -> list[Path]:
    """Fetch the jars that are missing or damaged, waiting for another process that does so.

    Args:
        root: the folder to put them into; see `jar_folder`.
        note: called with a line for each jar.

    Returns:
        the fetched files.

    Raises:
        InputError: if a jar cannot be fetched or written; those fetched before are kept.
    """
    fetched: list[Path] = []
    staging = root / ".maven"
    try:
        with locked(root, note, remedy=_REMEDY):
            jars = list(dict.fromkeys([*missing_jars(root), *damaged_jars(root)]))
            # A killed process leaves torn files.
            shutil.rmtree(staging, ignore_errors=True)
            megabytes = sum(jar.size for jar in jars) // 10**6
            try:
                with progress_counter("SPICE's models, MB", megabytes) as advance:
                    for jar in jars:
                        path = root / jar.file
                        _fetch_from_maven(jar, staging, advance, jars).replace(path)
                        fetched.append(path)
                        note(f"{path}: {jar.size:,} bytes from {jar.coordinates}")
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise unwritable(root, error, _REMEDY) from error

    return fetched


def _fetch_from_maven(
    jar: Jar, staging: Path, advance: Callable[[int], None], jars: list[Jar]
) -> Path:
    """Fetch a jar into a folder below `staging`, and check its hash."""
    need_modules("metric spice", ["jgo"], "coco")
    import requests
    from jgo.maven import MavenContext, PythonResolver

    @contextmanager
    def progress(name: str, total: int) -> Generator[Callable[[int], None]]:
        received = 0

        def receive(count: int) -> None:
            nonlocal received
            # Whole megabytes are counted; what is left over counts with the next bytes.
            megabytes_before = received // 10**6
            received += count
            advance(received // 10**6 - megabytes_before)

        yield receive

    resolver = PythonResolver(progress_callback=progress)
    context = MavenContext(resolver, repo_cache=staging, timeout=_TIMEOUT)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    artifact = component.artifact(classifier=jar.classifier) if jar.classifier else None

    try:
        path = (artifact or component.artifact()).resolve()
    except (requests.RequestException, RuntimeError) as error:
        raise _fetch_error(jars, f"{jar.coordinates}: {type(error).__name__}") from error

    digest = _hash(path)
    if digest != jar.sha256:
        raise _fetch_error(jars, f"the SHA-256 of {jar.file} there is {digest}")

    return path


def _fetch_error(jars: list[Jar], reason: str) -> InputError:
    descriptions: list[str] = []
    for jar in jars:
        descriptions.append(f"{jar.file} ({jar.coordinates}, {jar.size / 1e6:.0f} MB)")
    files = ", ".join(descriptions)
    return InputError(
        f"SPICE needs {files}, which could not be downloaded from Maven Central ({reason}); run captau data "
        f"fetch dataset={NAME} where there is network, and put the files into {jar_folder()}, or name "
        f"another folder with java.spice=DIR (or CAPTAU_SPICE_JARS)"
    )


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


@cache
def _check_hashes(root: Path) -> list[Path]:
    for jar in damaged_jars(root):
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
