"""How far long work inside a metric is. Who shows it listens; nobody has to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

#: Called with what is being done, how much of it is done, and how much there is.
Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def heard_by(listener: Listener) -> Generator[None]:
    """While this lasts, `tell` calls the listener."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(what: str, done: int, total: int) -> None:
    """Say how far work is."""
    for listener in _listeners:
        listener(what, done, total)
