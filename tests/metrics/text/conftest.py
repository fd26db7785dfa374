"""Small chunks of text, no tokens from before, and a Java that is not waited for as long as a user's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from captau.metrics.text import java
from captau.metrics.text.spice import jar_process
from captau.metrics.text.tokens import corpus


@pytest.fixture
def cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that says how many words a chunk of a corpus has at most."""
    return lambda n_words: monkeypatch.setattr(corpus, "WORDS", n_words)


@pytest.fixture
def wait_for_java(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that says for how long Java may be silent, parse a caption, and take to end."""

    def wait(
        *, silence: float | None = None, parsing: float | None = None, ending: float | None = None
    ) -> None:
        if silence is not None:
            for module in (java, jar_process):
                monkeypatch.setattr(module, "SILENCE", silence)
        if parsing is not None:
            monkeypatch.setattr(jar_process, "SECONDS", parsing)
        if ending is not None:
            monkeypatch.setattr(java, "_EXIT_SECONDS", ending)

    return wait
