"""A slice of `scripts/fuzz_inputs.py`: broken and hostile inputs are refused in a line, or accepted, soon."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "fuzz_inputs.py"


def test_broken_inputs_give_no_traceback_and_none_that_is_never_valid_is_accepted(capsys):
    fuzz = runpy.run_path(str(SCRIPT))["fuzz"]
    counts, faults = fuzz(48, seed=1, most_seconds=math.inf)  # the script times them
    assert not faults
    assert len(counts) == 8
    assert sum(outcomes["refused"] for outcomes in counts.values()) > 24
