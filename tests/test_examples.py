"""The example of TRL's GRPO, run as a user runs it; without TRL it is skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.neural

EXAMPLE = Path(__file__).parents[1] / "scripts" / "examples" / "train_grpo.py"


def test_grpo_trains_with_a_reward(tmp_path: Path) -> None:
    """Rewards of scale unit lie in 0 to 1, and two steps are logged."""
    pytest.importorskip("trl", reason="needs TRL: pip install trl")
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rewards = dict(re.findall(r"step (\d): mean reward (\S+)", ended.stdout))
    assert list(rewards) == ["1", "2"]
    assert all(0 <= float(value) <= 1 for value in rewards.values())
