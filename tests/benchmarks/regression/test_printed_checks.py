"""What `captau check` and comparisons of runs print and write, to the letter.

The golden files under `tests/golden/checks/` hold each command of `STEPS` with its exit status, what it printed and the
files that it wrote, but for versions of packages. `CAPTAU_GOLDEN=write pytest
tests/benchmarks/regression/test_printed_checks.py` writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.benchmarks.commands.test_written_files import FILE, round_numbers, write_files
from tests.conftest import run_captau

GOLDEN = Path(__file__).parents[2] / "golden" / "checks"
SYSTEMS = ["references=references.json", "statistics.replicates=40"]
METRICS = "metrics=bleu_1,rouge_l"
BENCH = ["bench", *FILE, "statistics.interval=none"]
#: By golden file, commands and changes of a file: its name, a pattern and what takes its place.
STEPS: dict[str, list[list[str] | tuple[str, str, str]]] = {
    "systems": [
        ["check", "candidates=B.json", "against=A.json", *SYSTEMS, METRICS],
        ["check", "candidates=A.json", "against=B.json", *SYSTEMS, METRICS, "junit=fall.xml"],
        ["check", "candidates=B.json", "against=A.json", *SYSTEMS, "metrics=bleu_1,half.py:score"],
    ],
    "system_baseline": [
        ["check", "candidates=A.json", "against=s.yaml", *SYSTEMS, METRICS, "update=true"],
        ("s.yaml", r"score: 0\.6\d*", "score: 0.625"),
        ["check", "candidates=A.json", "against=s.yaml", *SYSTEMS],
    ],
    "baseline": [
        ["check", "baseline=d.yaml", *FILE, METRICS, "sample=3", "packages=numpy", "update=true"],
        ["check", "baseline=d.yaml", "versions=none"],
        ("d.yaml", r"precision tau_c: -0\.1\d*", "precision tau_c: -0.2"),
        ("d.yaml", r"numpy: .*", "numpy: 0.0.1"),
        ("d.yaml", r"tolerance: .*", "tolerance: 0.001"),
        ["check", "baseline=d.yaml", "junit=moved.xml"],
        ["check", "baseline=d.yaml", "metrics=bleu_1", "versions=all"],
        ["check", "baseline=d.yaml", "update=true", "seed=1"],
    ],
    "runs": [
        [*BENCH, METRICS, "output_dir=one"],
        [*BENCH, "metrics=bleu_1,rouge_1", "protocol.ratings=mean", "output_dir=two"],
        ["compare", "run=one,two"],
        ["compare", "run=one,one"],
    ],
}


def without_versions(text: str) -> str:
    """Leave out numbers of versions, times and the machine."""
    text = re.sub(r'(?m)^(  [\w-]+): "\d[^"]*"$', r"\1: VERSION", text)
    return re.sub(r"\b\d+\.\d+\.\d+[\w.+]*\b|time=\"[^\"]*\"", "VERSION", text)


@pytest.mark.parametrize("name", STEPS)
def test_golden(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write_files(tmp_path)
    undefined = "def score(items):\n    return [float('nan')] * len(items)\n"
    (tmp_path / "half.py").write_text(undefined)
    seen = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    parts: list[str] = []
    for step in STEPS[name]:
        if isinstance(step, tuple):
            path, pattern, text = tmp_path / step[0], *step[1:]
            changed, count = re.subn(pattern, text, path.read_text(encoding="utf-8"), count=1)
            assert count, step
            path.write_text(changed, encoding="utf-8")
            seen[path.name] = path.read_bytes()
            parts.append(f"# in {path.name}: {text}")
            continue
        status = run_captau(*step)
        out, err = capsys.readouterr()
        parts.append(f"$ captau {' '.join(step)}\n{out}{err}exit status {status}")
        for path in sorted(tmp_path.iterdir()):
            if path.is_file() and seen.get(path.name) != path.read_bytes():
                seen[path.name] = path.read_bytes()
                parts.append(f"== {path.name}\n{path.read_text(encoding='utf-8')}")
    made = round_numbers(without_versions("\n".join(parts))) + "\n"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        (GOLDEN / f"{name}.txt").write_text(made, encoding="utf-8", newline="")
        pytest.skip("written anew")
    assert made == (GOLDEN / f"{name}.txt").read_bytes().decode()
