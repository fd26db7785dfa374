"""The output folder of a run: all files are written or none, each whole."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from ...datasets.download.writing import write
from ...datasets.errors import InputError, unwritable
from ...datasets.paths import expand_home

logger = logging.getLogger(__name__)

DEFAULT_FOLDER = Path("results") / "runs"
#: The files of runs whose run.json does not name them, the main one of each command first; captau 0.1 wrote such.
UNNAMED_FILES = (
    "correlations.csv",
    "agreement.csv",
    "metric_raters.csv",
    "corpus.csv",
    "systems.csv",
    "sensitivity.csv",
    "complementarity.csv",
    "thresholds.csv",
    "recall.csv",
    "distributions.csv",
    "human.csv",
    "words.csv",
    "best_worst.csv",
    "system_tests.csv",
    "metric_orders.csv",
    "wins.csv",
    "elo.csv",
    "shards.csv",
    "percentiles.csv",
    "examples.csv",
    "histograms.csv",
    "distributions.json",
    "corpus.json",
    "manifest.json",
    "table.md",
    "table.tex",
    "rating_distribution.svg",
    "rating_distribution.png",
    "stability.svg",
    "stability.png",
    "systems.svg",
    "systems.png",
    "sensitivity.svg",
    "sensitivity.png",
    "precision_recall.svg",
    "precision_recall.png",
    "word_agreement.svg",
    "word_agreement.png",
)
#: The folder of `captau plot`, whose figures are removed as well.
PLOTS_FOLDER = "plots"
RUN_FILE = "run.json"
#: The page of `captau report`, which a new run removes as well.
REPORT_FILE = "report.html"
#: The folder of Hydra's files of a run: its configuration and what was typed.
HYDRA_FOLDER = ".hydra"
#: An earlier run lies under the temporary name of this one while another takes its place.
_ASIDE = "earlier"


def check_writable(path: Path) -> None:
    """Check that a file can be written, before its content is computed.

    Raises:
        InputError: where it cannot.
    """
    path = path.resolve()
    # Folders that are not there yet are made when the file is written.
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    probe = temporary_of(folder / "probe")

    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if _is_special(path):
            return
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(path, error, "name another file") from error


def _is_special(path: Path) -> bool:
    """Tell whether a path is a device, a pipe or a socket, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_file(path: Path, content: bytes) -> None:
    """Write one file whole, or leave it as it was; write to a device or a pipe as it stands.

    Raises:
        InputError: where there is no room or no right to write.
    """
    path = path.resolve()  # of a link, what it points to
    temporary = temporary_of(path)

    try:
        if _is_special(path):
            with path.open("wb") as stream:
                stream.write(content)
            return

        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, re.escape(path.name))
        write([content], temporary)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        # What is no fault of the folder, such as Ctrl-C, goes on as it is.
        if not isinstance(error, OSError):
            raise
        raise unwritable(path, error, "name another file") from error


def remove_leftovers(folder: Path, name: str = ".+") -> None:
    """Remove temporary files of killed runs whose name matches, and keep the run that one had moved aside."""
    for path in folder.glob(".*.tmp"):
        match = re.fullmatch(rf"\.({name})\.(\d+)\.tmp", path.name)
        if match is None or is_process_alive(int(match.group(2))):
            continue

        if not path.is_dir():
            path.unlink(missing_ok=True)
        elif match.group(1) == _ASIDE and (path / RUN_FILE).is_file():
            _complete_earlier_run(folder, path)
            _keep_beside(folder, path)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _complete_earlier_run(folder: Path, aside: Path) -> None:
    """Move what a killed process had not yet moved of an earlier run, whose run.json went first.

    No file of the new run has its name before all of the earlier run's are moved, so that what is missing aside is
    still the earlier run's.
    """
    missing: list[str] = []
    for name in _list_files(folder, (aside / RUN_FILE).read_bytes()):
        if (folder / name).is_file() and not (aside / name).exists():
            missing.append(name)
    _move_files(missing, folder, aside)


@contextlib.contextmanager
def hold_lock(path: Path, problem: str) -> Generator[None]:
    """Hold the lock of a file while the block lasts; the system's lock goes with its process, and the file at the end.

    Raises:
        InputError: with the problem, where another process holds it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(problem) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def find_run(text: str) -> Path:
    """Return the folder of a run; `last` is the newest finished one below the default folder, `./last` a folder of that name.

    Raises:
        InputError: if no folder is named, or the last one is asked for and there is none.
    """
    if not text:
        raise InputError("the option run=… is needed; see --help")
    if text != "last":
        return expand_home(text)

    folders = list_runs()
    if not folders:
        raise InputError(f"there is no finished run in {DEFAULT_FOLDER}; name one with run=DIR")

    # Said aloud: `last` names another folder after the next run.
    logger.info("run=%s", folders[0])
    return folders[0]


def find_runs(text: str) -> list[Path]:
    """Return the folders of runs that a text names: one, or with `*` and the like those of a sweep, by their numbers.

    Raises:
        InputError: as `find_run` does, or if nothing that matches holds a finished run.
    """
    folder = find_run(text)
    is_pattern = not set(text).isdisjoint("*?[")
    # A folder may have a star in its name.
    if not is_pattern or folder.exists():
        return [folder]

    anchor = Path(folder.anchor)
    runs: list[Path] = []
    unfinished: list[str] = []
    for path in anchor.glob(str(folder.relative_to(anchor))):
        if (path / RUN_FILE).is_file():
            runs.append(path)
        elif path.is_dir():
            unfinished.append(str(path))
    if not runs:
        raise InputError(f"run={text}: no folder that matches holds a finished run")
    if unfinished:
        logger.warning("no finished run is in %s", ", ".join(sorted(unfinished)))

    def by_numbers(path: Path) -> list[tuple[int, str]]:
        # 2 comes before 10.
        return [(len(part), part) for part in path.parts]

    return sorted(runs, key=by_numbers)


def list_runs() -> list[Path]:
    """List the folders of finished runs below the default folder, the newest first."""
    files = list(DEFAULT_FOLDER.glob(f"*/{RUN_FILE}"))
    files.sort(key=lambda file: (file.stat().st_mtime_ns, file), reverse=True)
    return [file.parent for file in files]


class OutputFolder:
    """The folder of one run; a context manager, so that a failed run leaves no empty folder behind.

    Args:
        folder: the folder; None makes a fresh folder under `results/runs/`.
        command: the command's name, for the fresh folder's.

    Raises:
        InputError: where the folder cannot be made or written to, before anything is computed.
    """

    def __init__(self, folder: str | Path | None, command: str) -> None:
        self._new_folders: list[Path] = []
        self._is_written = False
        try:
            self.path = self._make(expand_home(folder)) if folder else self._make_new(command)
            probe = temporary_of(self.path / "probe")
            probe.touch()
            probe.unlink()
        except OSError as error:
            self._remove_empty()
            where = folder or DEFAULT_FOLDER
            raise InputError(
                f"output folder {where} cannot be written ({error.strerror}); set output_dir=DIR"
            ) from error

    def _make(self, path: Path) -> Path:
        missing = [p for p in (path, *path.parents) if not p.exists()]
        path.mkdir(parents=True, exist_ok=True)
        self._new_folders = missing
        return path

    def _make_new(self, command: str) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        # Several runs may begin within a second, as those of a sweep do.
        for number in range(1, 1000):
            name = f"{stamp}-{command}"
            if number > 1:
                name += f"-{number}"
            path = DEFAULT_FOLDER / name
            if path.exists():
                continue

            missing = [p for p in path.parents if not p.exists()]
            try:
                path.mkdir(parents=True)
            except FileExistsError:  # another run was quicker
                continue
            self._new_folders = [path, *missing]
            return path

        raise FileExistsError(None, "a thousand runs in a second", str(DEFAULT_FOLDER))

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(self, *_: object) -> None:
        # A run that failed leaves no folder that looks like one.
        if not self._is_written:
            self._remove_empty()

    def _remove_empty(self) -> None:
        for path in self._new_folders:
            try:
                path.rmdir()
            except OSError:
                # It is not empty, and so neither are those that hold it.
                return

    def write(self, files: dict[str, bytes]) -> None:
        """Write files: first all under temporary names, then each renamed in the given order.

        An earlier run's files are moved aside first, its run.json before all: that one never stands beside files of
        another run. They come back where writing fails. A run of another command, or with other options, is kept in
        a folder beside this one.

        Raises:
            InputError: where there is no room or no right to write; the folder is as it was then.
        """
        temporaries = {name: temporary_of(self.path / name) for name in files}
        # What a killed process left behind, so that it does not stay for ever.
        remove_leftovers(self.path)

        try:
            for name, content in files.items():
                write([content], temporaries[name])

            # Found out before an earlier run's files are moved.
            for name in files:
                if (self.path / name).is_dir():
                    raise IsADirectoryError(errno.EISDIR, f"{name} is a folder")

            with self._earlier_run_aside(temporaries, files.get(RUN_FILE)):
                for name in files:
                    temporaries[name].replace(self.path / name)
        except BaseException as error:
            for temporary in temporaries.values():
                temporary.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"{self.path}: cannot be written ({error.strerror}); make room or set output_dir=DIR"
            ) from error

        self._is_written = True

    @contextlib.contextmanager
    def _earlier_run_aside(
        self, temporaries: Mapping[str, Path], new_record: bytes | None
    ) -> Generator[None]:
        """Move the files of an earlier run aside while the block lasts, and back where it fails.

        A process that is killed meanwhile leaves them in a hidden folder, which the next run here keeps.

        Args:
            temporaries: the files that the block renames, by the names that they get.
            new_record: the new run's run.json, if it has one.
        """
        try:
            record = (self.path / RUN_FILE).read_bytes()
        except OSError:
            record = b""
        names = [name for name in _list_files(self.path, record) if (self.path / name).is_file()]
        if not names:
            yield
            return

        is_repeated = _is_same_run(record, new_record)
        aside = temporary_of(self.path / _ASIDE)
        try:
            _move_files(names, self.path, aside)
            yield
        except BaseException:
            for name, temporary in temporaries.items():
                if not temporary.exists():  # it has its name already
                    (self.path / name).unlink(missing_ok=True)
            moved = [name for name in names if (aside / name).exists()]
            # Its run.json comes back last, as it went first.
            _move_files(reversed(moved), aside, self.path)
            shutil.rmtree(aside, ignore_errors=True)
            raise

        if is_repeated:
            shutil.rmtree(aside, ignore_errors=True)
        else:
            _keep_beside(self.path, aside)


def _list_files(folder: Path, record: bytes) -> list[str]:
    """List the files of a run, with its page, its figures and Hydra's files, by its run.json; none if that is not captau's."""
    names = files_of_record(record)
    if not names:
        return []

    for path in (folder / PLOTS_FOLDER).glob("*"):
        if path.suffix in (".svg", ".png", ".pdf"):
            names.append(f"{PLOTS_FOLDER}/{path.name}")
    for path in (folder / HYDRA_FOLDER).glob("*.yaml"):
        names.append(f"{HYDRA_FOLDER}/{path.name}")
    return names


def _is_same_run(earlier: bytes, new: bytes | None) -> bool:
    """Tell whether two run.json are of one command with the same options."""
    if new is None:
        return False
    first, second = json.loads(earlier), json.loads(new)
    return all(first.get(key) == second.get(key) for key in ("command", "config"))


def _move_files(names: Iterable[str], source: Path, target: Path) -> None:
    """Move files from one folder to another, in order, and remove the folders in it that this leaves empty."""
    emptied: set[Path] = set()
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(target / name)
        emptied.add((source / name).parent)

    for folder in emptied - {source}:
        with contextlib.suppress(OSError):
            folder.rmdir()


def temporary_of(path: Path) -> Path:
    """Return the temporary name of a file or folder, which tells whether the process that made it is alive."""
    return path.with_name(f".{path.name.removeprefix('.')}.{os.getpid()}.tmp")


def _keep_beside(folder: Path, earlier: Path) -> None:
    """Keep the files of an earlier run of a folder in a new one beside it."""
    if folder.name in ("", ".."):  # such as `.`, which has no name of its own
        folder = folder.resolve()
    target = folder.with_name(f"{folder.name}-earlier")
    number = 1
    while target.exists():
        number += 1
        target = folder.with_name(f"{folder.name}-earlier-{number}")

    try:
        earlier.rename(target)
    except OSError:  # no right to write beside the folder
        target = earlier
    logger.warning("the earlier run in %s is kept in %s", folder, target)


def files_of_record(content: bytes) -> list[str]:
    """Return the files of the run that a run.json describes: itself first, then those it names, and the report.

    The list is empty where the file is not captau's.
    """
    try:
        record = json.loads(content)
        names = list(record["files"]) if "files" in record else UNNAMED_FILES
        is_ours = isinstance(record["command"], str) and all(map(_is_file_name, names))
    except (ValueError, LookupError, TypeError):
        return []

    if not is_ours:
        return []
    return [RUN_FILE, *names, REPORT_FILE]


def _is_file_name(name: str) -> bool:
    """Tell whether a name is of a file in the folder itself, so that an edited run.json removes nothing elsewhere."""
    return name == Path(name).name and name not in ("", "..")


class Writable(Protocol):
    """Results of a run, which become files."""

    def files(self) -> dict[str, bytes]:
        """Return the files by name."""
        ...


RunResults = TypeVar("RunResults", bound=Writable)


def run_into(
    output_dir: str | Path | None, command: str, compute: Callable[[], RunResults]
) -> RunResults:
    """Run a command that Python calls, and write its files where a folder is named.

    Raises:
        InputError: where the folder cannot be written, before anything is computed.
    """
    if output_dir is None:
        return compute()
    with OutputFolder(output_dir, command) as folder:
        results = compute()
        folder.write(results.files())
    return results


def is_process_alive(pid: int) -> bool:
    """Say whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It is another user's, whom one may send no signal.
        return True
    return True
