"""Measure which share of seeded faults the tests find, by mutation testing with cosmic-ray.

Cosmic-ray lists the places in a module that can be changed, and how: another operator, another number, a
loop that does not run. A seeded sample of places is drawn in each package, and one change of each. The tests
of the package's folder (and of `MORE_TESTS`) run once to record which functions each of them calls. Then
those that call the changed function run in a child process that imports the changed source; the files stay
as they are. Code outside functions is tested by all tests that call a function of its module, and by those of
the file that bears the module's name.

    python scripts/checks/mutate.py mutants=40 seed=1 workers=2
    python scripts/checks/mutate.py only=benchmarks/statistics,server/challenge

Killed: a test fails. Timed out: a test takes over `TEST_SECONDS` of CPU that does not without the change, or
hangs for `HANG_SECONDS` of the clock. Tests that are slow anyway stop at `TEST_SECONDS` and pass. Survived:
no test failed in `MUTANT_SECONDS` of CPU. Equivalent: no test can find it, for the reason in
`scripts/checks/equivalent_mutants.csv` (a `*` there stands for any change of a line); such changes do not enter the
share. Changes of annotations are not drawn, nor those of `strict=` of zip, of `frozen=` and `kw_only=` of
dataclasses, and of the `*` behind which arguments have to be named, which only forbid. Linux only.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import difflib
import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from functools import cache, partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numba
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import Phase, settings
from scipy.stats import binomtest

from captau.benchmarks.cli.script_options import read_options

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = """benchmarks/cli benchmarks/commands benchmarks/evaluation benchmarks/large benchmarks/options
benchmarks/regression benchmarks/reporting benchmarks/runs benchmarks/scoring benchmarks/statistics
datasets/download datasets/reading datasets/sources metrics/learned
metrics/neural metrics/text server/challenge server/collect server/storage server/web"""
#: Packages with kernels, which Numba does not compile.
KERNELS = ("benchmarks/statistics", "metrics/text")
#: Packages whose tests with PyTorch run too.
NEURAL = ("metrics/learned", "metrics/neural")
#: Folders of tests of a package besides the folder of its name.
MORE_TESTS = {
    "benchmarks/evaluation": [
        "benchmarks/commands",
        "benchmarks/reporting/tables/test_joined_table.py",
        "metrics/neural/judge/test_pairs.py",
    ],
    "benchmarks/options": ["benchmarks/cli", "benchmarks/commands"],
    "benchmarks/reporting": ["benchmarks/commands/test_written_files.py"],
    "benchmarks/runs": ["benchmarks/commands/test_written_files.py"],
    "benchmarks/scoring": ["benchmarks/commands/test_written_files.py"],
    "benchmarks/statistics": ["benchmarks/commands/test_written_files.py"],
    "datasets/reading": [
        "benchmarks/large",
        "datasets/sources",
        "server/collect/test_study.py",
        "server/challenge/test_definition_file.py",
    ],
    "metrics/text": ["parity"],
    "server/storage": ["server/challenge", "server/collect"],
    "server/web": ["server/challenge", "server/collect"],
}
MARKS = "browser or cluster or dev or docs or kill or proxy or slow or training or wheel"
OPTIONS = ["-q", "-pno:cacheprovider", "-pno:xdist", "-knot pycocoevalcap"]
OPTIONS += ["--hypothesis-profile=mutation"]
TEST_SECONDS = 1
HANG_SECONDS = 120
MUTANT_SECONDS = 30
FIRST_SECONDS = 6  # what a test may take when it is recorded, and imports packages
FORBIDDING = ("strict", "frozen", "kw_only")
OUTCOMES = ("killed", "timed out", "survived", "equivalent")
# Hypothesis draws the same examples each time, remembers none, and stops at the first that fails.
PHASES = (Phase.explicit, Phase.generate)
settings.register_profile("mutation", deadline=None, derandomize=True, database=None, phases=PHASES)
# Hypothesis collects before each example, which takes longer than most examples.
gc.disable()
gc.collect = lambda generation=2: 0


class Mutant(NamedTuple):
    package: str
    module: str
    function: int  # the line where the changed function begins, 0 outside functions
    source: str
    before: str
    after: str


class Calls(NamedTuple):
    """What a test takes and calls: its CPU seconds, and the first lines of functions by module."""

    seconds: float
    functions: dict[str, list[int]]


def dump_evaluated(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in FORBIDDING]
        if isinstance(node, ast.arguments):
            defaults = [*node.defaults, *filter(None, node.kw_defaults)]
            node.args, node.defaults = [*node.posonlyargs, *node.args, *node.kwonlyargs], defaults
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        for field in {"annotation", "returns"} & node.__dict__.keys():
            setattr(node, field, None if field == "returns" else ast.Constant(0))
    return ast.dump(tree)


def find_sites(module: str) -> list[list[tuple[str, int, str, int]]]:
    """Return module, line, operator and number of each change, by the place that it changes."""
    tree, sites = get_ast((ROOT / module).read_text(encoding="utf-8")), defaultdict(list)
    for name in sorted(name for name in operator_names() if not get_operator(name).arguments()):
        operator = get_operator(name)()
        places = (place for node in ast_nodes(tree) for place in operator.mutation_positions(node))
        for number, place in enumerate(places):
            sites[place].append((module, place[0][0], name, number))
    return [sites[place] for place in sorted(sites)]


def find_function(source: str, line: int) -> int:
    """Return the line where the innermost function around a line begins, 0 where there is none."""
    begins = [0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if begin <= line <= (node.end_lineno or 0):
                begins.append(begin)
    return max(begins)


def mutate(package: str, module: str, line: int, name: str, number: int) -> Mutant | None:
    source = (ROOT / module).read_text(encoding="utf-8")
    # Cosmic-ray cannot change an exception's name that has a dot.
    with contextlib.suppress(SyntaxError, AttributeError):
        changed = mutate_code(source, get_operator(name)(), number)
        if dump_evaluated(changed) != dump_evaluated(source):
            lines = list(difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0))[2:]
            before, after = (" ".join(x[1:].strip() for x in lines if x[0] == s) for s in "-+")
            return Mutant(package, module, find_function(source, line), changed, before, after)
    return None


def draw_mutants(package: str, count: int, seed: int) -> list[Mutant]:
    files = [path.relative_to(ROOT) for path in sorted((ROOT / package).rglob("*.py"))]
    sites = [site for file in files for site in find_sites(str(file))]
    rng = random.Random(seed)
    drawn = (mutate(package, *rng.choice(site)) for site in rng.sample(sites, len(sites)))
    return list(islice(filter(None, drawn), count))


class MutatedImport(SourceFileLoader):
    """An import of one module from changed source."""

    source: str

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, _: str) -> object:
        return compile(self.source, self.path, "exec")


class TestRun:
    """A run of tests, each of which stops after a limit of CPU seconds.

    Args:
        known: the tests to run, in this order; where there are none, all run and their calls are recorded.
    """

    __test__ = False

    def __init__(self, known: dict[str, Calls]) -> None:
        self.known, self.seconds, self.failed = known, dict[str, float](), set[str]()
        self.codes: dict[str, set[CodeType]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.known:
            order = {test: number for number, test in enumerate(self.known)}
            items[:] = sorted(
                (item for item in items if item.nodeid in order),
                key=lambda item: order[item.nodeid],
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> object:
        # What a fixture calls once for a file counts for each test of the file.
        self._record(item.nodeid.split("::")[0])
        if self.known and time.process_time() > MUTANT_SECONDS:
            os._exit(0)
        return (yield)

    def _record(self, name: str) -> None:
        if not self.known:
            codes = self.codes[name]

            def trace(frame: FrameType, *_: object) -> None:
                codes.add(frame.f_code)

            sys.settrace(trace)
            threading.settrace(trace)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object:
        def stop(*_: object) -> None:
            stopped.append(True)
            raise KeyboardInterrupt

        stopped: list[bool] = []
        self._record(pyfuncitem.nodeid)
        signal.alarm(HANG_SECONDS)
        signal.signal(signal.SIGPROF, stop)
        limit = TEST_SECONDS if self.known else FIRST_SECONDS
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            return (yield)
        except BaseException:  # Hypothesis may raise another one in its stead
            if not stopped:
                self.failed.add(pyfuncitem.nodeid)
                raise
            if self.known and self.known[pyfuncitem.nodeid].seconds < TEST_SECONDS / 2:
                os._exit(99)
            return True
        finally:
            left = signal.setitimer(signal.ITIMER_PROF, 0)[0]
            self.seconds[pyfuncitem.nodeid] = limit - left

    def report(self) -> dict[str, Calls]:
        sys.settrace(None)
        signal.alarm(0)  # no test hangs any more
        calls = {}
        for test in self.seconds.keys() - self.failed:
            functions = defaultdict(set)
            for code in self.codes[test] | self.codes[test.split("::")[0]]:
                if module := find_module(code.co_filename):
                    functions[module].add(code.co_firstlineno)
            calls[test] = Calls(
                self.seconds[test], {file: sorted(x) for file, x in functions.items()}
            )
        return calls


@cache
def find_module(name: str) -> str:
    """Return a file's path within the project, empty for a file of another."""
    file = os.path.realpath(name)
    return os.path.relpath(file, ROOT) if file.startswith(str(ROOT)) and ".venv" not in file else ""


def run_tests(
    package: str, files: list[str], known: dict[str, Calls], folder: Path, *mutated: str
) -> str:
    """Run tests in a child process, on the changed source of a module if one is given."""
    parent, child = os.getpid(), os.fork()
    if not child:
        os.setsid()
        signal.alarm(HANG_SECONDS)
        log = os.open(folder / f"log{parent}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        numba.config.DISABLE_JIT = package in KERNELS
        if mutated:
            module, source = mutated
            name = "captau." + module[:-3].replace("/", ".").removesuffix(".__init__")
            loader = MutatedImport(name, str(ROOT / module))
            loader.source = source
            sys.meta_path.insert(0, loader)
        os.environ["PYTEST_XDIST_WORKER"] = "gw0"  # so that the cache is beside the temporary files
        tests = TestRun(known)
        marks = MARKS if package in NEURAL else f"{MARKS} or neural"
        options = [*OPTIONS, f"-mnot ({marks})", f"--basetemp={folder}/run{parent}"]
        options += ["-x"] * bool(known)
        status = int(pytest.main([*options, *files], plugins=[tests]))
        # What is the project's, or is imported by its scripts, every child imports anew.
        names = [
            name
            for name, x in list(sys.modules.items())
            if not find_module(getattr(x, "__dict__", {}).get("__file__") or "")
        ]
        report = json.dumps([{} if known else tests.report(), names])
        (folder / f"report{parent}").write_text(report, encoding="utf-8")
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return {0: "survived", 99: "timed out", -signal.SIGALRM: "timed out"}.get(status, "killed")


def record_tests(package: str, folder: Path) -> dict[str, Calls]:
    """Return what each test of a package calls, and import what the tests import."""
    folders = [f"tests/{name}" for name in (package, *MORE_TESTS.get(package, ()))]
    folders = [name for name in folders if (ROOT / name).exists()]
    outcome = run_tests(package, folders, {}, folder)
    if outcome != "survived":  # tests that fail without a change find none
        print((folder / f"log{os.getpid()}").read_text(encoding="utf-8")[-1000:], file=sys.stderr)
    report = json.loads((folder / f"report{os.getpid()}").read_text(encoding="utf-8"))
    for name in report[1]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return {test: Calls(*calls) for test, calls in report[0].items()}


def select_tests(calls: dict[str, Calls], mutant: Mutant) -> dict[str, Calls]:
    """Return the tests that call the changed function, those of the module's file first, then the quickest.

    Of code outside functions, they are those that call a function of the module and those of its file, else all.
    """
    mirrored = f"test_{Path(mutant.module).stem}.py"
    if mutant.function:
        calling = {
            test: x
            for test, x in calls.items()
            if mutant.function in x.functions.get(mutant.module, ())
        }
    else:
        calling = {
            test: x for test, x in calls.items() if mutant.module in x.functions or mirrored in test
        } or calls
    order = sorted(calling, key=lambda test: (mirrored not in test, calls[test].seconds))
    return {test: calls[test] for test in order}


def test_mutant(
    mutant: Mutant,
    calls: dict[str, dict[str, Calls]],
    equivalents: set[tuple[str, ...]],
    folder: Path,
) -> tuple[str, str]:
    """Return the package and the outcome of a mutant."""
    tests = select_tests(calls[mutant.package], mutant)
    files = sorted({test.split("::")[0] for test in tests})
    outcome = "survived"
    if tests:
        source = (mutant.module, mutant.source)
        outcome = run_tests(mutant.package, files, tests, folder, *source)
    known = {(mutant.module, mutant.before, after) for after in (mutant.after, "*")}
    if outcome == "survived" and known & equivalents:
        outcome = "equivalent"
    words = (outcome, f"{mutant.module}:{mutant.function}", mutant.before, mutant.after, len(tests))
    print(*words, sep="\t", file=sys.stderr, flush=True)
    return mutant.package, outcome


def print_row(name: str, counts: Counter[str]) -> None:
    found = counts["killed"] + counts["timed out"]
    n = max(found + counts["survived"], 1)  # where all are equivalent, 0 of 1
    low, high = binomtest(found, n).proportion_ci(method="wilson")
    cells = (name, counts.total(), *(counts[outcome] for outcome in OUTCOMES), f"{found / n:.1%}")
    print("|", " | ".join(map(str, cells)), f"| {low:.1%} to {high:.1%} |")


def main(words: list[str]) -> None:
    options = {"mutants": "40", "seed": "1", "workers": "1", "only": ",".join(PACKAGES.split())}
    options |= read_options(__doc__, options, words)
    count, seed = int(options["mutants"]), int(options["seed"])
    packages = options["only"].split(",")
    mutants = [mutant for name in packages for mutant in draw_mutants(name, count, seed)]
    with (ROOT / "scripts" / "checks" / "equivalent_mutants.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        equivalents = {(row["module"], row["before"], row["after"]) for row in csv.DictReader(file)}
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        compile_tables = "from captau.metrics.text.meteor import index; index.load_index()"
        environment = os.environ | {"CAPTAU_CACHE": f"{folder}/cache"}
        subprocess.run([sys.executable, "-c", compile_tables], env=environment, check=True)
        calls = {name: record_tests(name, Path(folder)) for name in packages}
        test = partial(test_mutant, calls=calls, equivalents=equivalents, folder=Path(folder))
        with get_context("fork").Pool(int(options["workers"])) as pool:
            for package, outcome in pool.imap(test, mutants):
                outcomes[package][outcome] += 1
    print("| package | sampled |", " | ".join(OUTCOMES), "| found | 95 % |\n|:--|" + "--:|" * 7)
    for package, counts in outcomes.items():
        print_row(package, counts)
    print_row("all", sum(outcomes.values(), Counter()))


if __name__ == "__main__":
    main(sys.argv[1:])
