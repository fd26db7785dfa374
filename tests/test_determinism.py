"""Test ids depend on nothing but the code: no clock, hash seed, path or object address.

pytest-xdist stops with "Different tests were collected" when its workers disagree on the ids.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.neural

ROOT = Path(__file__).parents[1]

#: gzip's header, an object's address, pytest's temporary folders.
VOLATILE = re.compile(r"\\x1f\\x8b|\b0x[0-9a-f]{6,}|pytest-of-")


def start_collection(hash_seed: int) -> subprocess.Popen[str]:
    """Start a process that prints the ids of all tests, one a line."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "--collect-only", "-n", "0", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment | {"PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_ids(collection: subprocess.Popen[str]) -> list[str]:
    """Return the ids that a started collection prints."""
    output, _ = collection.communicate()
    assert collection.returncode == 0, output[-2000:]
    return [line for line in output.splitlines() if "::" in line]


def test_collections_seconds_and_hash_seeds_apart_give_the_same_ids() -> None:
    first = start_collection(hash_seed=1)
    time.sleep(1.1)  # gzip's header and most clocks count whole seconds
    second = start_collection(hash_seed=2)
    first_ids, second_ids = read_ids(first), read_ids(second)
    assert len(first_ids) > 1000
    assert first_ids == second_ids
    assert not [test_id for test_id in first_ids if VOLATILE.search(test_id)]
