"""The folders of a large run: where its results and its intermediate files lie, and whose they are.

Results lie on this machine or in an object store, and each file appears whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...datasets.cache import cache_folder, replacing
from ...datasets.errors import InputError
from ...datasets.paths import expand_home
from ...datasets.reading.object_stores import RemotePath, is_url
from ...datasets.reading.shard_files import Shard, find_shards, kind_of
from ...metrics.base import Floats
from ..options.large import LargeOptions
from ..runs.output_folder import RUN_FILE, files_of_record, hold_lock, write_file
from .plan import digest_of


@contextmanager
def lock_folder(work: Path, output: str) -> Generator[None]:
    """Keep other runs out of a folder while the block lasts.

    Args:
        work: the folder of intermediate files.
        output: where the run writes, for the message.

    Raises:
        InputError: where another run holds the lock.
    """
    lock = work.with_name(f"{work.name}.lock")
    problem = f"{output}: another run is writing there; wait for it, or name another output_dir="
    with hold_lock(lock, problem):
        yield


class ResultFolder:
    """Files by name, in a folder or in an object store.

    Every method raises InputError where an object store cannot be reached.

    Args:
        location: a path, or a URL that fsspec opens.

    Attributes:
        local: the path; None for a URL.
    """

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self.local = None if is_url(location) else expand_home(location)
        self._root = self.local or RemotePath(location)

    def prepare(self, name: str) -> None:
        """Make a folder below, or check that the store takes files, before anything is computed."""
        folder = self._root / name
        if isinstance(folder, Path):
            folder.mkdir(parents=True, exist_ok=True)
        else:
            # A store has no folders; whether it may be written to shows when something is.
            (folder / ".probe").write_bytes(b"")
            (folder / ".probe").unlink()

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        path = self._root / name
        if isinstance(path, Path):
            write_file(path, content)
        else:
            path.write_bytes(content)

    def copy_in(self, name: str, source: Path) -> None:
        """Copy a file of this machine into the folder."""
        path = self._root / name
        if isinstance(path, Path):
            with source.open("rb") as content, replacing(path) as stream:
                shutil.copyfileobj(content, stream)
        else:
            path.copy_from(source)

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None where there is no such file."""
        size = self.size(name)
        if size is None:
            return None

        path = self._root / name
        return path.read_bytes() if isinstance(path, Path) else path.read_bytes(size)

    def size(self, name: str) -> int | None:
        """Return how many bytes a file has; None where there is no such file."""
        path = self._root / name
        if isinstance(path, Path):
            return path.stat().st_size if path.is_file() else None
        return path.size() if path.exists() else None

    def list_names(self, name: str) -> list[str]:
        """Return the sorted names of the files in a folder below."""
        folder = self._root / name
        if isinstance(folder, Path):
            return sorted(path.name for path in folder.iterdir())
        return sorted(folder.list_names())

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._root / name).unlink()


#: The version of the manifest.
FORMAT = 3
MANIFEST = "manifest.json"
#: The file of all that a run reports, of which a run that has nothing to do makes its tables.
RECORD = "distributions.json"
#: Folders within the output folder: the scores, and intermediate files.
SCORES, WORK = "scores", ".work"
_RESTORE = "put it back, or score into another output_dir="


class RunFolder:
    """The output folder and the work folder of a run.

    Args:
        options: the options of the run.
        shards: the shards that they name.

    Attributes:
        output: the folder of the results.
        work: the folder of intermediate files, which is removed at the end.
        settings_work: the folder in it of those of these settings.
        key: a digest of all that the scores depend on.
        candidates: the option `candidates` and the folder where relative paths start, as the manifest has them.
    """

    def __init__(self, options: LargeOptions, shards: Sequence[Shard]) -> None:
        settings = _describe_settings(options)
        self.output = ResultFolder(options.output)
        described_shards = [asdict(shard) for shard in shards]
        self.key = digest_of({**settings, "shards": described_shards})
        self.candidates = {"candidates": list(options.candidates), "directory": str(Path.cwd())}
        self._shards = shards
        self._name = options.output
        local = self.output.local
        # One work folder for each output, so that runs with different outputs do not meet there.
        digest = hashlib.sha256((str(local.resolve()) if local else options.output).encode())
        name = digest.hexdigest()[:16]
        if options.work:
            self.work = options.work / f"captau-{name}"
        else:
            self.work = local / WORK if local else cache_folder("large", name)

        self.settings_work = self.work / digest_of(settings)

    def claim(self, stack: ExitStack) -> None:
        """Keep both folders for this run until a stack closes.

        Raises:
            InputError: where they cannot be written, or another run is writing there.
        """
        try:
            self.settings_work.mkdir(parents=True, exist_ok=True)
            self.output.prepare(SCORES)
            stack.enter_context(lock_folder(self.work, self._name))
        except OSError as error:
            raise InputError(
                f"output folder {self._name} cannot be written ({error.strerror}); set output_dir=DIR"
            ) from error

    def read_earlier_rows(self) -> dict[str, int]:
        """Return how many rows each shard had when a finished run read the same candidates; none without such a run.

        Raises:
            InputError: where one of these shards is gone.
        """
        manifest = json.loads(self.output.read(MANIFEST) or b"{}")
        # Of other candidates the earlier run says nothing.
        earlier_candidates = {key: manifest.get(key) for key in self.candidates}
        if earlier_candidates != self.candidates:
            return {}

        rows_by_path = {shard["path"]: int(shard["rows"]) for shard in manifest["shards"]}
        absent = set(rows_by_path).difference(shard.path for shard in self._shards)
        if absent:
            raise InputError(f"{min(absent)}: is gone since {self._name} was scored; {_RESTORE}")
        return rows_by_path

    def check_not_shorter(self, path: str, rows: int, earlier_rows: int) -> None:
        """Raise InputError where a shard has fewer rows than in the finished run that this one would replace."""
        if rows < earlier_rows:
            raise InputError(
                f"{path}: has {rows:,} captions, but had {earlier_rows:,} when {self._name} was scored; {_RESTORE}"
            )

    def read_finished_record(self) -> dict[str, Any] | None:
        """Return the record of a finished run of the same settings and shards; None where there is none."""
        manifest = json.loads(self.output.read(MANIFEST) or b"{}")
        if manifest.get("key") != self.key:
            return None

        for shard in manifest["shards"]:
            scores = shard["scores"]
            if scores and self.output.size(f"{SCORES}/{scores['name']}") != scores["bytes"]:
                return None

        return json.loads(self.output.read(RECORD) or b"null")

    def write_results(self, score_files: Mapping[str, Path], files: Mapping[str, bytes]) -> None:
        """Write the results, in order, and remove those of an earlier run that have no successor.

        Args:
            score_files: by name, the Parquet files of the shards' scores, on this machine.
            files: all other files; the last one says that the results are complete.
        """
        earlier_files = files_of_record(self.output.read(RUN_FILE) or b"")
        # By these an earlier run counts as finished, whose scores are replaced now.
        for name in (MANIFEST, RUN_FILE):
            self._remove_if_there(name)

        for name, path in score_files.items():
            self.output.copy_in(f"{SCORES}/{name}", path)

        for name in self.output.list_names(SCORES):
            if name.endswith(".parquet") and name not in score_files:
                self.output.remove(f"{SCORES}/{name}")

        for name in earlier_files:
            if name not in files:
                self._remove_if_there(name)

        for name, content in files.items():
            self.output.write(name, content)

    def _remove_if_there(self, name: str) -> None:
        if self.output.size(name) is not None:
            self.output.remove(name)

    def remove_work(self) -> None:
        """Remove the folder of intermediate files."""
        shutil.rmtree(self.work, ignore_errors=True)


def _describe_settings(options: LargeOptions) -> dict[str, Any]:
    """Return all that the scores depend on, but for the shards."""
    references: list[dict[str, Any]] = []
    for path in options.references:
        # A file of another kind, such as COCO's JSON, is read whole.
        shards = [_stat_file(path)] if kind_of(path) is None else find_shards([path])
        references += map(asdict, shards)

    return {
        "format": FORMAT,
        "references": references,
        "metrics": [m.signature for m in options.metrics],
        "columns": asdict(options.columns),
        "rows": options.rows,
        "skip_corrupt": options.skip_corrupt,
    }


def _stat_file(path: str) -> Shard:
    """Describe a file of references in another form than shards."""
    try:
        stat = expand_home(path).stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    return Shard(path, "json", stat.st_size, str(stat.st_mtime_ns))


def read_scores(folder: str, scores: Mapping[str, Any], spec: str) -> Floats:
    """Read a metric's scores of a shard, shape (n_rows,).

    Args:
        folder: of the scores, a path or a URL.
        scores: the file, as the manifest lists it.
        spec: the metric's.

    Raises:
        InputError: where the file is not there, or is not the one that the manifest lists.
    """
    name = scores["name"]
    content = ResultFolder(folder).read(name)
    if content is None:
        raise InputError(f"{folder}/{name}: is not there; score the set anew")
    if hashlib.sha256(content).hexdigest() != scores["sha256"]:
        raise InputError(f"{folder}/{name}: is not what was scored; score the set anew")
    return pq.read_table(pa.BufferReader(content), columns=[spec])[spec].to_numpy()
