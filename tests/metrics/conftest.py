"""PyTorch with one thread: on tiny networks threads spend more time on each other than on numbers."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
