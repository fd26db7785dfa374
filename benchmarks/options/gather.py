"""Options of `captau gather`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .declaration import NEEDED, Options, option


@dataclass(frozen=True, kw_only=True)
class GatherOptions(Options):
    """Options of `captau gather`."""

    examples: ClassVar[str] = """
captau bench --multirun dataset=flickr8k_expert,thumb metrics=[bleu_4],[cider] output_dir=sweep
captau gather run=sweep                                one table of the jobs that are done
captau gather run=sweep rerun=true                     runs those that are not, and no others
"""
    writes: ClassVar[str] = """
Writes gathered.csv (the cells of each run's own file, as they stand there, after the job's number and its own
overrides), gathered.md, gathered.json (with each job's overrides, state and message). The exit status is 1 where a
job is not done, with a line on stderr for each (docs/clusters.md).
"""

    run: Path = option(
        NEEDED,
        "the folder of a sweep (--multirun of bench, compare, agree, score, train, reproduce, sensitivity, "
        "complement or thresholds)",
        takes="DIR",
    )
    rerun: bool = option(False, "true runs first what failed, was killed or never begun")
    output_dir: Path | None = option(
        None, "where to write (default: the sweep's folder)", takes="DIR"
    )
