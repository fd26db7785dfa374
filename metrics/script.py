"""Metrics in environments of their own: a script with inline metadata (PEP 723), which `uv run --script` runs.

The script is the user's code, and runs with the user's rights. It reads JSON lines with `caption`, `references` and `image`,
and writes a line with `score` for each; what it writes to stderr is shown when it fails.
"""

from __future__ import annotations

import importlib
import json
import math
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from ..datasets.errors import InputError
from ..datasets.paths import expand_home
from .base import Floats, UnavailableError
from .outside_metric import OutsideMetric
from .progress import progress_counter
from .registry import register
from .rows import Rows

#: How much of what a script wrote a message shows, in characters.
_MOST_QUOTED = 200


def find_uv(subject: str) -> str:
    """Return the path of uv: of its Python package, else on the PATH.

    Raises:
        UnavailableError: where there is none.
    """
    if find_spec("uv") is not None:
        with suppress(FileNotFoundError):
            return str(importlib.import_module("uv").find_uv_bin())
    path = shutil.which("uv")

    if path is None:
        raise UnavailableError(subject, "needs uv, which is not on the PATH", "pip install uv")

    return path


@register("script")
@dataclass(frozen=True)
class Script(OutsideMetric):
    """Scores by a script that `uv run --script` runs in an environment of its own (docs/new_metric.md).

    The script is started once for the captions of a set. Its scores are stored, under a hash of the file.

    Args:
        path: the script.
        name: the metric's name in results; by default the file's name without its ending.
    """

    path: str
    name: str = ""  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    depends_only_on_content: ClassVar[bool] = True
    is_cacheable: ClassVar[bool] = True
    file_fields: ClassVar[tuple[str, ...]] = ("path",)
    distributions: ClassVar[tuple[str, ...]] = ("captau",)

    @property
    def default_name(self) -> str:
        return Path(self.path).stem

    @property
    def label(self) -> str:
        return f"metric script(path={self.path})"

    @property
    def code(self) -> str:
        return self.path

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        self.find_file(self.path)
        find_uv(self.label)

    def compute(self, rows: Rows) -> Floats:
        command = [find_uv(self.label), "run", "--quiet", "--script", str(expand_home(self.path))]
        lines: list[str] = []
        for caption, references, image in zip(
            rows.captions, rows.references, rows.images, strict=True
        ):
            path = image and str(Path(image).absolute())
            record = {"caption": caption, "references": list(references), "image": path}
            lines.append(json.dumps(record))

        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            ) as process,
        ):
            try:
                return self._exchange(process, lines, rows, errors)
            finally:
                process.kill()

    def _exchange(
        self, process: subprocess.Popen[bytes], lines: list[str], rows: Rows, errors: IO[bytes]
    ) -> Floats:
        """Send all lines, and read a score for each.

        Raises:
            InputError: where the script fails, or answers anything else.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        # A thread writes, since a script that answers line by line stops when nobody reads its answers.
        writer = threading.Thread(target=_send, args=(process.stdin, lines), daemon=True)
        writer.start()

        scores: list[float] = []
        with progress_counter(f"{self.name}, captions", len(lines)) as advance:
            for line in process.stdout:
                if len(scores) == len(lines):
                    raise InputError(f"{self.label}: it wrote more than {len(lines):,} lines")
                scores.append(self._read_score(line, rows.label(len(scores))))
                advance(1)

        status = process.wait()
        writer.join()

        if status or len(scores) < len(lines):
            errors.seek(0)
            words = errors.read().decode("utf-8", "replace").strip().splitlines()
            last_words = f": {words[-1].strip()[:_MOST_QUOTED]}" if words else ""
            raise InputError(
                f"{self.label}: it ended with status {status} after {len(scores):,} of {len(lines):,} captions{last_words}"
            )

        return np.array(scores, dtype=np.float64)

    def _read_score(self, line: bytes, row: str) -> float:
        """Return the score of a line; NaN for null."""
        answer: Any = None
        with suppress(ValueError):
            answer = json.loads(line)

        score = answer.get("score", "") if isinstance(answer, dict) else ""
        if score is None:
            return math.nan

        if isinstance(score, bool) or not isinstance(score, int | float):
            text = line.decode("utf-8", "replace").strip()[:_MOST_QUOTED]
            raise InputError(
                f'{self.label}: it wrote {text!r} for {row}; {{"score": NUMBER}} is expected, and other words on stderr'
            )

        return float(score)


def _send(stream: IO[bytes], lines: list[str]) -> None:
    """Write lines and close the stream; a script that has ended reads no more."""
    with suppress(OSError, ValueError), stream:
        for line in lines:
            stream.write(line.encode() + b"\n")
