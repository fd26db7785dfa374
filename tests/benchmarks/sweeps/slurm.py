"""A stand-in for SLURM as far as submitit calls it: scripts for the front of the PATH.

`sbatch` runs the tasks of a script at once, each by `srun` in a process of its own as a node would, and
`sacct` says how they stand. They schedule nothing: no waiting, limits or partitions.
"""

from __future__ import annotations

import sys
from pathlib import Path

SBATCH = """
import os, pathlib, re, subprocess, sys

here = pathlib.Path(__file__).parent / "jobs"
if len(sys.argv) == 2:  # a script to submit
    here.mkdir(exist_ok=True)
    number = str(100 + len(list(here.glob("*.sh"))))
    script = here / f"{number}.sh"
    script.write_bytes(pathlib.Path(sys.argv[1]).read_bytes())
    array = re.search(r"--array=0-(\\d+)", script.read_text())
    tasks = [f"{number}_{n}" for n in range(int(array[1]) + 1)] if array else [number]
    for task in tasks:
        (here / task).write_text("RUNNING")
        words = [sys.executable, __file__, script, task]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen(words, start_new_session=True, **quiet)
    print("Submitted batch job", number)
else:  # a task of one, in the background
    script, task = sys.argv[1:]
    number, _, index = task.partition("_")
    settings = {"JOB_ID": number, "JOB_NUM_NODES": "1", "JOB_NODELIST": "localhost", "NTASKS": "1"}
    settings |= dict.fromkeys(("NODEID", "PROCID", "LOCALID"), "0")
    if index:
        settings |= {"ARRAY_JOB_ID": number, "ARRAY_TASK_ID": index}
    env = os.environ | {f"SLURM_{key}": value for key, value in settings.items()}
    ended = subprocess.run(["bash", script], env=env)
    (here / task).write_text("FAILED" if ended.returncode else "COMPLETED")
"""

#: Called as submitit does: srun --unbuffered --output FILE --error FILE COMMAND…
SRUN = """
import os, subprocess, sys

_, _, _, out, _, error, *words = sys.argv
names = {"%A": "ARRAY_JOB_ID", "%a": "ARRAY_TASK_ID", "%j": "JOB_ID", "%t": "PROCID"}
for sign, key in names.items():
    value = os.environ.get(f"SLURM_{key}", "")
    out, error = out.replace(sign, value), error.replace(sign, value)
with open(out, "w") as output, open(error, "w") as warned:
    sys.exit(subprocess.run(words, stdout=output, stderr=warned).returncode)
"""

SACCT = """
import pathlib

print("JobID|State|NodeList")
for path in (pathlib.Path(__file__).parent / "jobs").glob("*"):
    if path.suffix != ".sh":
        print(f"{path.name}|{path.read_text()}|localhost")
"""


def stand_in(folder: Path) -> Path:
    """Put the scripts into a folder, for the PATH; what is submitted lies in `jobs` there."""
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT}.items():
        path = folder / name
        path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
        path.chmod(0o755)
    return folder
