"""Keep the results of a fixed list of captau commands, and compare two such folders value by value.

    python scripts/comparison/compare_results.py run OLD --captau old/.venv/bin/captau
    python scripts/comparison/compare_results.py run NEW --captau .venv/bin/captau --databases OLD
    python scripts/comparison/compare_results.py compare OLD NEW

For whoever restructures the code and must not change a number. `compare_results.yaml` lists the commands, and what
the comparison skips and why. The script knows the command line and the files that captau writes, and none of its
modules, so that it runs older and newer versions alike. `run` goes on where it was stopped; `--only WORD` takes
the steps whose name has the word, with those that they rest on. Datasets come from CAPTAU_DATA; those
that are not there are left out, as are SPICE without CAPTAU_SPICE_JARS and neural metrics without CAPTAU_WEIGHTS (a
folder from `make_tiny_models.py`). `compare` ends with status 1 where a value differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from results_files import Column, Rules, read_columns
from results_inputs import play_challenge, write_inputs

LIST = Path(__file__).with_suffix(".yaml")
TIMEOUT = 1200
#: What commands see beside the caller's environment: sums of floats depend on the number of threads.
FIXED = {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "ignore"}
#: Variables that name models; only steps that need them see them.
MODELS = {"CAPTAU_SPICE_JARS", "CAPTAU_WEIGHTS"}


@dataclass(frozen=True)
class Step:
    """A command of the list.

    Attributes:
        command: what follows `captau`; empty for the steps that are functions of `results_inputs`.
        stdout: the file for the standard output.
        needs: a folder of CAPTAU_DATA, or an environment variable.
    """

    name: str
    command: str = ""
    stdout: str = "stdout.txt"
    needs: str = ""
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def requirements(self) -> set[str]:
        """Return the names of the steps whose files this one reads."""
        names = set(re.findall(r"\.\./(\w+)/", self.command + str(self.environment)))
        if self.name in ("inputs", "challenge"):
            names.add("bench_demo_usual" if self.name == "inputs" else "inputs")
        return names

    def is_possible(self) -> bool:
        """Return whether the data or the models that the step needs are on this machine."""
        if self.needs.startswith("CAPTAU_"):
            return bool(os.environ.get(self.needs))
        return not self.needs or (Path(os.environ["CAPTAU_DATA"]) / self.needs).exists()


def load_steps() -> list[Step]:
    """Return all steps of the list, each combination of its `for` lists as one."""
    steps = []
    for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))["steps"]:
        lists = entry.pop("for", {})
        for choice in itertools.product(*lists.values()):
            values = dict(zip(lists, map(str, choice), strict=True))
            fields = {k: fill(v, {**values, "inputs": "../inputs"}) for k, v in entry.items()}
            fields["name"] = re.sub(r"\W+", "_", fields["name"]).strip("_")
            steps.append(Step(**fields))
    return steps


def fill(template: Any, values: dict[str, str]) -> Any:
    """Return a text, or a dictionary of texts, with `{NAME}` replaced by the value of that name."""
    if isinstance(template, dict):
        return {key: fill(text, values) for key, text in template.items()}
    for name, value in values.items():
        template = template.replace("{" + name + "}", value)
    return template


def select_steps(steps: list[Step], word: str) -> list[Step]:
    """Return the steps whose name contains `word`, and those that they read files of, in order."""
    names = {step.name for step in steps if word in step.name}
    for step in reversed(steps):
        if step.name in names:
            names |= step.requirements
    return [step for step in steps if step.name in names]


def run_steps(out: Path, captau: Path, word: str, databases: Path | None) -> None:
    """Run the steps that have not been done in `out`, and say how each ended."""
    steps = [step for step in select_steps(load_steps(), word) if step.is_possible()]
    began = time.monotonic()
    fresh: set[str] = set()
    for number, step in enumerate(steps, 1):
        record = out / step.name / "step.json"
        is_done = record.is_file() and json.loads(record.read_text())["command"] == step.command
        is_done &= not step.requirements & fresh
        if not is_done:
            fresh.add(step.name)
            run_step(step, out, captau)
            copies = databases.glob(f"{step.name}/study.sqlite3*") if databases else ()
            for path in copies:
                shutil.copy(path, out / step.name)
        result = json.loads(record.read_text())
        total = time.monotonic() - began
        print(
            f"[{number}/{len(steps)} {total:5.0f} s] {step.name}: status {result['status']}, "
            f"{result['seconds']:.0f} s{' (done before)' if is_done else ''}",
            flush=True,
        )


def run_step(step: Step, out: Path, captau: Path) -> None:
    """Run one step in a fresh folder of its own, and write `step.json` when it has ended."""
    folder = out / step.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, **FIXED, **step.environment, "CAPTAU_CACHE": str(out / "cache")}
    for name in MODELS - {step.needs}:
        environment.pop(name, None)
    began = time.monotonic()
    if step.name == "inputs":
        write_inputs(folder, out / "bench_demo_usual" / "run")
        status = 0
    elif step.name == "challenge":
        status = play_challenge(folder, captau, environment)
    else:
        with (
            (folder / step.stdout).open("wb") as output,
            (folder / "stderr.txt").open("wb") as faults,
        ):
            status = subprocess.run(
                [str(captau), *shlex.split(step.command)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=faults,
                timeout=TIMEOUT,
                check=False,
            ).returncode
    seconds = round(time.monotonic() - began, 1)
    record = {"command": step.command, "status": status, "seconds": seconds}
    (folder / "step.json").write_text(json.dumps(record, indent=1) + "\n")


@dataclass
class Comparison:
    """The differences between two folders of results, and counts of what was compared."""

    old: Path
    new: Path
    rules: Rules
    files: int = 0
    values: int = 0
    differences: list[str] = field(default_factory=list[str])
    rewordings: list[str] = field(default_factory=list[str])
    skipped: Counter[str] = field(default_factory=Counter[str])

    def compare_step(self, name: str) -> None:
        """Compare all files of a step, unless the two folders hold the results of different commands."""
        commands = [
            json.loads((r / name / "step.json").read_text())["command"]
            for r in (self.old, self.new)
        ]
        if commands[0] != commands[1]:
            self.differences.append(f"{name}: the commands differ: {commands[0]} → {commands[1]}")
            return
        paths = [
            {str(p.relative_to(root)) for p in (root / name).rglob("*") if p.is_file()}
            for root in (self.old, self.new)
        ]
        for path in sorted(paths[0] | paths[1]):
            reason = self.rules.reason_to_skip(path)
            if reason:
                self.skipped[reason] += 1
            elif path not in paths[0] or path not in paths[1]:
                which = "new" if path in paths[0] else "old"
                self.differences.append(f"{path}: not in the {which} folder")
            else:
                self.compare_file(path)

    def compare_file(self, path: str) -> None:
        """Compare a file column by column."""
        self.files += 1
        # Names of columns in run.json hold the places of files, which lie in the two folders.
        old, new = (
            {
                name.replace(str(root), "OUT"): column
                for name, column in read_columns(root / path).items()
            }
            for root in (self.old, self.new)
        )
        if "shape" in old and old["text"] != new["text"]:
            del old["shape"], new["shape"]
            self.skipped["lines of drawings, which move with the width of their changed texts"] += 1
        for name in dict.fromkeys([*old, *new]):
            reason = self.rules.reason_to_skip(path, name)
            if reason:
                self.skipped[reason] += 1
            elif name not in old or name not in new:
                which = "new" if name in old else "old"
                is_wording = (old.get(name) or new[name]).kind == "wording"
                target = self.rewordings if is_wording else self.differences
                target.append(f"{path}: column {name}: not in the {which} file")
            else:
                self.compare_column(path, name, old[name], new[name])

    def compare_column(self, path: str, name: str, old: Column, new: Column) -> None:
        """Compare two columns, and note the first rows that differ."""
        is_wording = old.kind == "wording" or self.rules.is_wording(path, name)
        if not is_wording:
            self.values += len(old.texts)
        if old.texts == new.texts:
            return
        rows = zip(
            (text.replace(str(self.old), "OUT") for text in old.texts),
            (text.replace(str(self.new), "OUT") for text in new.texts),
            strict=False,
        )
        changes = [(row, a, b) for row, (a, b) in enumerate(rows, 1) if a != b]
        if len(old.texts) != len(new.texts):
            changes.append((0, f"{len(old.texts)} rows", f"{len(new.texts)} rows"))
        for row, a, b in changes[:5]:
            line = f"{path}: row {row}, column {name}: {a[:160]!r} → {b[:160]!r}"
            is_equal = is_wording or (row and old.kind == "printed" and numbers(a) == numbers(b))
            (self.rewordings if is_equal else self.differences).append(line)
        if len(changes) > 5:
            target = self.rewordings if is_wording else self.differences
            target.append(f"{path}: column {name}: {len(changes) - 5} more rows differ")


def print_lines(lines: list[str]) -> None:
    """Print lines that begin with a file, at most twelve of each file."""
    for file, group in itertools.groupby(lines, key=lambda line: line.split(": ", 1)[0]):
        listed = list(group)
        print(*listed[:12], sep="\n")
        if len(listed) > 12:
            print(f"{file}: {len(listed) - 12} more")


def numbers(text: str) -> list[str]:
    """Return the numbers in a printed cell."""
    return re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text.replace("−", "-"))


def compare_folders(old: Path, new: Path, word: str, wording: bool) -> int:
    """Compare two folders that `run` filled, print what differs, and return the exit status."""
    rules = Rules.load(LIST)
    comparison = Comparison(old.resolve(), new.resolve(), rules)
    steps = [step.name for step in load_steps() if word in step.name]
    old_steps, new_steps = (
        {name for name in steps if (root / name / "step.json").is_file()} for root in (old, new)
    )
    for which, names in (("old", new_steps - old_steps), ("new", old_steps - new_steps)):
        if names:
            comparison.differences.append(
                f"steps not in the {which} folder: {', '.join(sorted(names))}"
            )
    for name in sorted(old_steps & new_steps):
        comparison.compare_step(name)
    print_lines(comparison.differences)
    if wording:
        print("Changes of wording:")
        print_lines(comparison.rewordings)
    for reason, count in sorted(comparison.skipped.items()):
        print(f"skipped: {count} columns or files: {reason}")
    print(
        f"{len(old_steps & new_steps)} steps, {comparison.files:,} files, {comparison.values:,} values: "
        f"{len(comparison.differences)} differences, {len(comparison.rewordings)} changes of wording"
        f"{'' if wording else ' (--wording shows them)'}"
    )
    return 1 if comparison.differences else 0


def main() -> int:
    """Run the sub-command of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the commands, and keep their results in a folder")
    run.add_argument("out", type=Path)
    run.add_argument(
        "--captau", type=Path, required=True, help="the executable, in its environment's bin folder"
    )
    run.add_argument(
        "--databases",
        type=Path,
        metavar="OLD",
        help="export the studies' answers in this folder of an earlier run",
    )
    compare = commands.add_parser("compare", help="compare two folders")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument(
        "--wording", action="store_true", help="show the changes of wording as well"
    )
    for command in (run, compare):
        command.add_argument(
            "--only", default="", metavar="WORD", help="only steps whose name contains it"
        )
    options = parser.parse_args()
    if options.command == "compare":
        return compare_folders(options.old, options.new, options.only, options.wording)
    if "CAPTAU_DATA" not in os.environ:
        parser.error("CAPTAU_DATA has to name the folder of datasets")
    # Not resolved: a virtual environment's Python is a link.
    run_steps(options.out.resolve(), options.captau.absolute(), options.only, options.databases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
