"""`Command`: what the registry says of each command, and what its tasks, help and completion read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..options.declaration import Composed, Option, Options


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: as it is typed, of one or two words.
        options_path: module and class below `benchmarks.options`.
        task: takes the command and its options, shows what the command returns, and returns an exit status.
        summary: a line for the overview.
        group: the heading of the overview below which it stands.
    """

    name: str
    options_path: str
    task: Callable[[Command, Any], int | None]
    summary: str
    group: str

    @property
    def slug(self) -> str:
        """The name as configurations, pages and entry points have it."""
        return self.name.replace(" ", "_")

    @property
    def module(self) -> str:
        """The module of its options, and of its work below `benchmarks.commands`."""
        return self.options_path.partition(":")[0]

    @property
    def options(self) -> type[Options]:
        """The class of its options."""
        name = self.options_path.partition(":")[2]
        return getattr(import_module(f"..options.{self.module}", __package__), name)

    def declared(self) -> list[Option]:
        """List the options that are typed; keys of the schema alone are left out."""
        return [option for option in self.options.declared() if option.help]

    def run(self, composed: Composed) -> int:
        """Make the command's options of a composed configuration, run its task, and return the exit status.

        Raises:
            InputError: on whatever of the user's cannot be used.
        """
        from ..options.shared import apply_environment
        from .questions import ask_downloads

        apply_environment(composed)
        options = self.options.read(composed)
        ask_downloads(options)
        return self.task(self, options) or 0
