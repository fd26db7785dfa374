"""Places of a run: its data, its score cache, its output folder, and the user's own judgement file.

Commands read datasets and open the score store through `Locations`, which their options hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...conf import own_files
from ...datasets.cache import cache_root
from ...datasets.paths import expand_home
from ...datasets.registry import load
from ...datasets.schema import CaptionSet
from .catalog import read_config
from .score_store import ScoreStore, open_score_location

#: The dataset that reads the user's own judgements.
OWN = "file"


@dataclass(frozen=True)
class Locations:
    """Folders of a run, and the options of the dataset `file`.

    Attributes:
        data_root: the data folder; None for `CAPTAU_DATA`, else the user's cache folder.
        cache_root: the cache folder; None for `CAPTAU_CACHE`, else the user's cache folder.
        use_cache: whether scores are read back and stored.
        cache_scores: a folder or URL that holds scores instead of the cache folder.
        output_dir: the output folder; None makes a fresh one.
        file_options: options of the dataset `file`, such as its path and columns.
        loaded: datasets that are in memory, by name; they are not read.
    """

    data_root: Path | None = None
    cache_root: Path | None = None
    use_cache: bool = True
    cache_scores: str | None = None
    output_dir: Path | None = None
    file_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loaded: Mapping[str, CaptionSet] = field(default_factory=dict[str, CaptionSet])

    def load(self, dataset: str) -> CaptionSet:
        """Load a dataset from these places."""
        if dataset in self.loaded:
            return self.loaded[dataset]
        if own_file := own_files("dataset").get(dataset):
            options = dict(read_config("dataset", dataset)["file"])
            path = own_file.parent / expand_home(options.pop("path"))
            return load(OWN, self.data_root, path=path, name=dataset, **options)
        return load(dataset, self.data_root, **(self.file_options if dataset == OWN else {}))

    def store(self) -> ScoreStore:
        """Open the score store."""
        if not self.use_cache:
            return ScoreStore(None)
        scores = open_score_location(self.cache_scores) if self.cache_scores else None
        return ScoreStore(cache_root(self.cache_root), scores)
