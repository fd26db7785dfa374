"""A slice of `scripts/checks/fuzz_inputs.py` and `fuzz_sites.py`: broken and hostile inputs are refused in a line, or accepted, soon."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts" / "checks"


@pytest.mark.parametrize(
    ("script", "n_groups"),
    [pytest.param("fuzz_inputs.py", 13, marks=pytest.mark.slow), ("fuzz_sites.py", 4)],
)
def test_broken_inputs_give_no_traceback_and_none_that_is_never_valid_is_accepted(
    script, n_groups, capsys
):
    fuzz = runpy.run_path(str(SCRIPTS / script))["fuzz"]
    counts, faults = fuzz(52, seed=1, most_seconds=math.inf)  # the script times them
    assert not faults
    assert len(counts) == n_groups
    assert sum(outcomes["refused"] for outcomes in counts.values()) > 20
