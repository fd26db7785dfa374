"""Metrics that read what another program computed from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...datasets.paths import expand_home
from ...datasets.reading.source_files import sha256
from ..base import Metric, UnavailableError
from ..rows import Rows
from .weights import weights_root


@dataclass(frozen=True)
class FromFiles(Metric):
    """A metric with fields that name files.

    Where one is not given, the file is looked for in the weights folder, as METRIC_FIELD with one of
    the field's endings (`vilbertscore_embeddings.npz`): so a paper's table finds it too.
    """

    #: The endings of each field's file.
    endings: ClassVar[Mapping[str, tuple[str, ...]]]
    #: A row's image is known by its id, which equal rows need not share.
    depends_only_on_content: ClassVar[bool] = False

    def file(self, field: str) -> Path:
        """Return the file of a field.

        Raises:
            UnavailableError: where it is not given, and none lies in the weights folder.
        """
        chosen_file = getattr(self, field)
        if chosen_file is not None:
            return expand_home(chosen_file)
        path = self._usual(field)
        if path is None:
            name = weights_root() / f"{self.name}_{field}{self.endings[field][0]}"
            raise UnavailableError(
                f"metric {self.name}",
                "needs a file",
                f"give {field}=FILE, or put it at {name} (its layout: docs/metrics_from_files.md)",
            )
        return path

    def _usual(self, field: str) -> Path | None:
        root = weights_root()
        paths = (root / f"{self.name}_{field}{ending}" for ending in self.endings[field])
        return next((path for path in paths if path.is_file()), None)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        for field in self.endings:
            self.file(field)

    @property
    def programs(self) -> tuple[str, ...]:
        """The content of files that were not given, for the signature."""
        usual_files = {f: self._usual(f) for f in self.endings if getattr(self, f) is None}
        return tuple(
            f"{field}:{f'sha256-{sha256(path)}' if path else 'missing'}"
            for field, path in usual_files.items()
        )
