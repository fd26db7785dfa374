"""`Command`: what the registry says of each command, and what its tasks, help and completion read.

Before a command runs on a terminal, it asks for permission to download what is large.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...datasets.download.permission import LargeDownload
    from ...metrics.base import Metric
    from ..options.declaration import Composed, Option, Options


@dataclass(frozen=True)
class Outcome:
    """The exit status and headline value that a command leaves to the program that started it.

    Attributes:
        status: the exit status.
        objective: the headline value, which a sweep may optimise; None where there is none.
    """

    status: int = 0
    objective: float | None = None


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: as it is typed, of one or two words.
        options_path: the module, relative to this package or of another one, and the class of its options.
        task: takes the command and its options, shows what the command returns, and returns an exit status or an outcome.
        summary: a line for the overview.
        group: the heading of the overview below which it stands.
    """

    name: str
    options_path: str
    task: Callable[[Command, Any], Outcome | int | None]
    summary: str
    group: str

    @property
    def slug(self) -> str:
        """The name as configurations, pages and entry points have it."""
        return self.name.replace(" ", "_")

    @property
    def options(self) -> type[Options]:
        """The class of its options."""
        module, _, name = self.options_path.partition(":")
        return getattr(import_module(module, __package__), name)

    def load_work(self) -> Callable[..., Any]:
        """Return the function that does its work: `run` of its module, or beside the options of another package."""
        module = self.options_path.partition(":")[0]
        is_of_this_package = module.startswith(".")
        work_module = f"..commands.{self.slug}" if is_of_this_package else module
        return import_module(work_module, __package__).run

    def declared(self) -> list[Option]:
        """List the options that are typed; keys of the schema alone are left out."""
        return [option for option in self.options.declared() if option.help]

    def run(self, composed: Composed) -> Outcome:
        """Make the command's options of a composed configuration, run its task, and return its outcome.

        Raises:
            InputError: on whatever of the user's cannot be used.
        """
        from ..options.shared import apply_environment

        apply_environment(composed)
        options = self.options.read(composed)
        _ask_downloads(options.needed_metrics())
        outcome = self.task(self, options)
        return outcome if isinstance(outcome, Outcome) else Outcome(outcome or 0)


def _ask_downloads(metrics: Iterable[Metric]) -> None:
    """Ask for permission to download what metrics need, each download once; elsewhere than on a terminal, do nothing.

    A yes is added to CAPTAU_DOWNLOAD, so that it holds for child processes too.
    """
    from ...datasets.download.permission import is_allowed

    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    pending = (metric.pending_download() for metric in metrics)
    downloads = {download.name: download for download in pending if download is not None}
    for download in downloads.values():
        if not is_allowed(download) and _ask(download):
            allowed = os.environ.get("CAPTAU_DOWNLOAD")
            names = f"{allowed},{download.name}" if allowed else download.name
            os.environ["CAPTAU_DOWNLOAD"] = names


def _ask(download: LargeDownload) -> bool:
    question = (
        f"captau: {download.description} ({download.n_bytes / 1e6:.0f} MB, licence {download.licence}). "
        f"Download now? [y/N] "
    )
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
