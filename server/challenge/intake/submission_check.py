"""The check of an uploaded file: all faults are listed before anything is scored."""

from __future__ import annotations

from pathlib import Path

from ....benchmarks.commands.validate import Faults, Verdict
from ..evaluation.evaluator import Evaluator
from ..submission_files import find_upload


def check_submission(evaluator: Evaluator, folder: Path, file_name: str) -> Verdict:
    """Check a submission; the file to evaluate is written if it is valid.

    Args:
        evaluator: of its challenge.
        folder: the submission's.
        file_name: as the sender calls the file.
    """
    faults = Faults(evaluator.challenge.limits.faults)
    name = Path(file_name)
    content = evaluator.check_file(folder, name, faults)
    if not faults.count:
        return Verdict([], 0, f"{name}: valid: {content}")
    noun = "fault" if faults.count == 1 else "faults"
    rest = f", the first {faults.limit:,} listed" if faults.count > faults.limit else ""
    lines = [line.replace(str(find_upload(folder)), str(name)) for line in faults.lines]
    summary = f"{name}: not valid: {faults.count:,} {noun}{rest}; {content}"
    return Verdict(lines, faults.count, summary)
