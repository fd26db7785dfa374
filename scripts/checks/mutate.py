"""Measure which share of seeded faults the tests find, by mutation testing with cosmic-ray.

Cosmic-ray lists the places in a module that can be changed, and how: another operator, another number, a
loop that does not run. A seeded sample of places is drawn, and one change of each. The module's tests then
run in a child process that imports the changed source; the files stay as they are.

    python scripts/checks/mutate.py mutants=500 seed=1 workers=2
    python scripts/checks/mutate.py only=benchmarks/statistics/boot*

Killed: a test fails. Timed out: a test takes over `TEST_SECONDS` of CPU that does not without the change, or
hangs for `HANG_SECONDS` of the clock. Tests that are slow anyway stop at `TEST_SECONDS` and pass. Equivalent: no test can find it, for the reason in
`scripts/checks/equivalent_mutants.csv`; such changes do not enter the share. Changes of annotations, or of zip's
`strict=`, which asserts, are not drawn. Numba does not compile. Linux only.
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
from collections import Counter, defaultdict
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

os.environ |= {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1"}

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import Phase, settings
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[2]
#: Modules, and their tests beside those named after them; beside the folder of the module's tests.
TESTS = {
    "_kernels": "weighted_pairs",
    "alignment": "metric",
    "automaton penn_rules": "penn ../../../parity/penn",
    "bleu rouge": "../registry ../../parity/n_grams",
    "cider": "frequency_table ../registry ../../parity/n_grams",
    "chair": "../registry",
    "bootstrap": "significance levels",
    "bradley_terry": "../commands/rank",
    "accuracy": "../preferences ../weighted_pairs",
    "coefficient": "kendall pairwise_accuracy pearson ../levels ../weighted_pairs",
    "corpus": "../cider ../frequency_table ../../reward ../../../parity/n_grams",
    "disattenuation": "significance ../commands/agree",
    "intervals": "bootstrap preferences significance",
    "levels": "bootstrap coefficients/detection",
    "models": "../../../benchmarks/commands/spice",
    "meteor/index": "jar_process",
    "meteor/words": "index metric",
    "panels remarks": "significance",
    "kendall pairwise_accuracy pearson": "coefficient ../levels ../weighted_pairs",
    "rater_agreement rating_table": "agreement_measures ../commands/agree",
    "weighted_pairs": "coefficients/pearson",
    "meteor/_kernel": "index metric",
    "meteor/jar_process": "../java",
    "meteor/metric": "jar_process ../java ../../registry",
    "spice/metric": "jar_process ../../registry",
}
OPTIONS = ["-xq", "-pno:cacheprovider", "-pno:xdist", "-mnot neural", "-knot pycocoevalcap"]
OPTIONS += ["--hypothesis-profile=mutation"]
TEST_SECONDS = 1
HANG_SECONDS = 120
FIRST_SECONDS = 5  # what a test may take that runs first, and imports packages
OUTCOMES = ("killed", "timed out", "survived", "equivalent")
# Hypothesis draws the same examples each time, remembers none, and stops at the first that fails.
PHASES = (Phase.explicit, Phase.generate)
settings.register_profile("mutation", deadline=None, derandomize=True, database=None, phases=PHASES)
# Hypothesis collects before each example, which takes longer than most examples.
gc.disable()
gc.collect = lambda generation=2: 0
Mutant = tuple[str, str, str, str]  # module, changed source, changed lines before and after


def find_test_files(module: str) -> list[str]:
    path = Path(module)
    keys = {path.stem, f"{path.parent.name}/{path.stem}"}
    more = [names for modules, names in TESTS.items() if keys & set(modules.split())]
    names = " ".join([path.stem, *more]).split()
    folder = ROOT / "tests" / path.parent
    files = ((folder / name).with_name(f"test_{Path(name).name}.py").resolve() for name in names)
    return [str(file.relative_to(ROOT)) for file in files if file.exists()]


def dump_evaluated(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "strict"]
        for field in {"annotation", "returns"} & node.__dict__.keys():
            setattr(node, field, None if field == "returns" else ast.Constant(0))
    return ast.dump(tree)


def find_sites(module: str) -> list[list[tuple[str, str, int]]]:
    """Return module, operator and number of each change, by the place that it changes."""
    tree, sites = get_ast((ROOT / module).read_text(encoding="utf-8")), defaultdict(list)
    for name in sorted(name for name in operator_names() if not get_operator(name).arguments()):
        operator = get_operator(name)()
        places = (place for node in ast_nodes(tree) for place in operator.mutation_positions(node))
        for number, place in enumerate(places):
            sites[place].append((module, name, number))
    return [sites[place] for place in sorted(sites)]


def mutate(module: str, name: str, number: int) -> Mutant | None:
    source = (ROOT / module).read_text(encoding="utf-8")
    # Cosmic-ray cannot change an exception's name that has a dot.
    with contextlib.suppress(SyntaxError, AttributeError):
        changed = mutate_code(source, get_operator(name)(), number)
        if dump_evaluated(changed) != dump_evaluated(source):
            lines = list(difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0))[2:]
            before, after = (" ".join(x[1:].strip() for x in lines if x[0] == s) for s in "-+")
            return module, changed, before, after
    return None


class MutatedImport(SourceFileLoader):
    """An import of one module from changed source."""

    source: str

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, _: str) -> object:
        return compile(self.source, self.path, "exec")


class TimedTests:
    """Tests in the order of their CPU seconds, each of which stops after `TEST_SECONDS`."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.known, self.seconds = seconds, dict[str, float]()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.known.get(item.nodeid, 0))

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object:
        def stop(*_: object) -> None:
            stopped.append(True)
            raise KeyboardInterrupt

        stopped: list[bool] = []
        signal.alarm(HANG_SECONDS)
        signal.signal(signal.SIGPROF, stop)
        limit = TEST_SECONDS if self.known else FIRST_SECONDS
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            return (yield)
        except BaseException:  # Hypothesis may raise another one in its stead
            if not stopped:
                raise
            if self.known and self.known[pyfuncitem.nodeid] < TEST_SECONDS / 2:
                os._exit(99)
            return True
        finally:
            left = signal.setitimer(signal.ITIMER_PROF, 0)[0]
            self.seconds[pyfuncitem.nodeid] = limit - left


def run_tests(module: str, source: str, folder: Path, seconds: dict[str, float]) -> str:
    """Run a module's tests on changed source in a child process, and return the outcome."""
    parent, child = os.getpid(), os.fork()
    if not child:
        os.setsid()
        signal.alarm(HANG_SECONDS)
        log = os.open(folder / f"log{parent}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        loader = MutatedImport("captau." + module[:-3].replace("/", "."), str(ROOT / module))
        loader.source = source
        sys.meta_path.insert(0, loader)
        os.environ["PYTEST_XDIST_WORKER"] = "gw0"  # so that the cache is beside the temporary files
        timed = TimedTests(seconds)
        options = [*OPTIONS, f"--basetemp={folder}/run{parent}", *find_test_files(module)]
        status = int(pytest.main(options, plugins=[timed]))
        report = json.dumps([timed.seconds, list(sys.modules)])
        (folder / f"report{parent}").write_text(report, encoding="utf-8")
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return {0: "survived", 99: "timed out", -signal.SIGALRM: "timed out"}.get(status, "killed")


def time_tests(module: str, folder: Path) -> dict[str, float]:
    """Return the CPU seconds of each test on the source as it is, and import what the tests import.

    The order counts, for a test may fill caches for the next: the second run has the order of the mutants'.
    """
    source = (ROOT / module).read_text(encoding="utf-8")
    seconds: dict[str, float] = {}
    for _ in range(2):
        order = {test: TEST_SECONDS + seconds[test] for test in seconds}
        if run_tests(module, source, folder, order) != "survived":
            raise RuntimeError((folder / f"log{os.getpid()}").read_text(encoding="utf-8"))
        report = json.loads((folder / f"report{os.getpid()}").read_text(encoding="utf-8"))
        seconds = {test: max(value, seconds.get(test, 0)) for test, value in report[0].items()}
        for name in report[1]:
            if name.split(".")[0] not in ("captau", "tests"):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    return seconds


def draw_mutants(patterns: str, count: int, seed: int) -> list[Mutant]:
    files = {path for pattern in patterns.split(",") for path in ROOT.glob(f"{pattern}.py")}
    sites = [site for path in sorted(files) for site in find_sites(str(path.relative_to(ROOT)))]
    rng = random.Random(seed)
    drawn = (mutate(*rng.choice(site)) for site in rng.sample(sites, len(sites)))
    return list(islice(filter(None, drawn), count))


def test_mutants(
    mutants: list[Mutant], equivalents: set[tuple[str, ...]], folder: Path
) -> list[tuple[str, str]]:
    """Return the module and the outcome of each mutant."""
    seconds: dict[str, dict[str, float]] = {}
    outcomes: list[tuple[str, str]] = []
    for module, source, *lines in mutants:
        if module not in seconds:
            seconds[module] = time_tests(module, folder)
        outcome = run_tests(module, source, folder, seconds[module])
        if outcome == "survived" and (module, *lines) in equivalents:
            outcome = "equivalent"
        outcomes.append((module, outcome))
        print(outcome, module, *lines, sep="\t", file=sys.stderr, flush=True)
    return outcomes


def print_row(name: str, counts: Counter[str]) -> None:
    found = counts["killed"] + counts["timed out"]
    n = max(found + counts["survived"], 1)  # where all are equivalent, 0 of 1
    low, high = binomtest(found, n).proportion_ci(method="wilson")
    cells = (name, counts.total(), *(counts[outcome] for outcome in OUTCOMES), f"{found / n:.1%}")
    print("|", " | ".join(map(str, cells)), f"| {low:.1%} to {high:.1%} |")


def main(words: list[str]) -> None:
    options = {"mutants": "500", "seed": "1", "workers": "1"}
    options["only"] = "benchmarks/statistics/*,metrics/text/**/*"
    options |= dict(word.split("=", 1) for word in words)
    mutants = draw_mutants(options["only"], int(options["mutants"]), int(options["seed"]))
    with (ROOT / "scripts" / "checks" / "equivalent_mutants.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        equivalents = {(row["module"], row["before"], row["after"]) for row in csv.DictReader(file)}
    modules = sorted({mutant[0] for mutant in mutants})
    shares: list[list[Mutant]] = [[] for _ in range(int(options["workers"]))]
    for mutant in mutants:
        shares[modules.index(mutant[0]) % len(shares)].append(mutant)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        compile_tables = "from captau.metrics.text.meteor import index; index.load_index()"
        environment = os.environ | {"CAPTAU_CACHE": f"{folder}/cache"}
        subprocess.run([sys.executable, "-c", compile_tables], env=environment, check=True)
        test = partial(test_mutants, equivalents=equivalents, folder=Path(folder))
        with get_context("fork").Pool(len(shares)) as pool:
            for module, outcome in chain(*pool.map(test, shares, 1)):
                outcomes[module][outcome] += 1
    print("| module | sampled |", " | ".join(OUTCOMES), "| found | 95 % |\n|:--|" + "--:|" * 7)
    for module, counts in sorted(outcomes.items()):
        print_row(module, counts)
    for package in ("benchmarks", "metrics", ""):
        counts = (outcomes[module] for module in outcomes if module.startswith(package))
        print_row(f"all {package}", sum(counts, Counter()))


if __name__ == "__main__":
    main(sys.argv[1:])
