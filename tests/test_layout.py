"""The structure: imports run one way and never in a circle, names are derived, imports stay light."""

from __future__ import annotations

import ast
import csv
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: The packages below `captau`, and what each may import of the others.
PACKAGES = {
    "datasets": set[str](),
    "metrics": {"datasets"},
    "conf": set[str](),
    "results": set[str](),
    "benchmarks": {"datasets", "metrics", "conf", "results"},
    "server": {"datasets", "metrics", "conf", "results", "benchmarks"},
}

#: The folders of `benchmarks`, lowest first; those of one line do not import each other.
FLOORS = (
    {"statistics"},
    {"runs"},
    {"scoring"},
    {"evaluation"},
    {"reporting", "regression"},
    {"options"},
    {"commands", "large"},
    {"cli"},
)


def list_modules() -> dict[str, Path]:
    """Return every module below the root's packages, by its dotted name without `captau`."""
    modules: dict[str, Path] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


MODULES = list_modules()


def imported_modules(name: str) -> set[str]:
    """Return our own modules that a module imports: at the top, inside functions or for types."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    imports: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                assert node.level <= len(package) + 1, f"{path}: reaches above captau"
                base = package[: len(package) - node.level + 1] + base
            elif base[:1] == ["captau"]:
                base = base[1:]
            else:
                continue
            for alias in node.names:
                candidates = (".".join([*base, alias.name]), ".".join(base))
                imports |= set([c for c in candidates if c in MODULES][:1])
        elif isinstance(node, ast.Import):
            names = [alias.name.removeprefix("captau.") for alias in node.names]
            imports |= {n for n in names if n in MODULES}
    return imports - {name}


@pytest.fixture(scope="module")
def imports_by_module() -> dict[str, set[str]]:
    """What each module imports: made when a test asks, as every process of a run imports this file."""
    return {name: imported_modules(name) for name in MODULES}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_those_to_their_left(
    package: str, imports_by_module: dict[str, set[str]]
) -> None:
    for name, imports in imports_by_module.items():
        if name.split(".")[0] == package:
            packages = {i.split(".")[0] for i in imports} - {package}
            assert packages <= PACKAGES[package], name


@pytest.mark.parametrize("floor", range(len(FLOORS)))
def test_folders_of_benchmarks_import_only_those_below(
    floor: int, imports_by_module: dict[str, set[str]]
) -> None:
    below = set[str]().union(*FLOORS[:floor])
    for name, imports in imports_by_module.items():
        parts = name.split(".")
        if parts[0] == "benchmarks" and parts[1:2] and parts[1] in FLOORS[floor]:
            folders = {i.split(".")[1] for i in imports if i.startswith("benchmarks.")}
            assert folders - {parts[1]} <= below, name


def test_no_imports_run_in_a_circle(imports_by_module: dict[str, set[str]]) -> None:
    try:
        list(TopologicalSorter(imports_by_module).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_the_import_reader_sees_relative_absolute_and_inner_imports(
    imports_by_module: dict[str, set[str]],
) -> None:
    assert "datasets.errors" in imports_by_module["metrics.text.java"]
    assert "benchmarks.options.declaration" in imports_by_module["benchmarks.cli.help"]
    assert sum(map(len, imports_by_module.values())) > 500


def test_the_folders_of_benchmarks_are_those_that_have_their_place() -> None:
    modules = (ROOT / "benchmarks").rglob("*.py")
    entries = {path.relative_to(ROOT / "benchmarks").parts[0] for path in modules}
    assert entries == {"__init__.py"}.union(*FLOORS)


def test_no_run_lies_in_the_root() -> None:
    """A run that a command wrote into the clone itself would be committed with the next change."""
    assert not (ROOT / "run.json").exists()


def test_only_benchmarks_reads_conf():
    for package in ("datasets", "metrics"):
        for path in (ROOT / package).rglob("*.py"):
            assert "captau.conf" not in path.read_text(encoding="utf-8"), path


def test_every_package_is_in_pyproject():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    packages = {
        "captau." + ".".join(p.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for p in (ROOT / package).rglob("__init__.py")
    }
    assert packages | {"captau"} == set(config["packages"])


@pytest.mark.parametrize("name", ["testing", "compat"])
def test_public_modules_hold_imports_alone(name: str) -> None:
    path = ROOT / "captau" / f"{name}.py"
    docstring, *statements = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    assert [type(s) for s in statements] == [ast.ImportFrom, ast.Assign]


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import captau", {"numpy", "pandas", "scipy", "hydra", "pyarrow"}),
        (
            "import sys; sys.argv=['captau','--help']\n"
            "from captau.benchmarks.cli.main import main\n"
            "try: main()\nexcept SystemExit: pass",
            {"numpy", "pandas", "scipy", "hydra", "pyarrow"},
        ),
        (
            "from captau.metrics.registry import metric_names; metric_names()",
            {"numba", "snowballstemmer"},
        ),
    ],
)
def test_heavy_imports_are_lazy(code, heavy):
    listing = f"{code}\nimport sys; print('\\n' + ' '.join(m for m in sys.modules if '.' not in m))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("command", "metric_modules"),
    [
        ("bench metrics=bleu_4,cider", {"bleu", "cider"}),
        ("score candidates=c.csv references=r.csv metrics=bleu_4,rouge_l", {"bleu", "rouge"}),
    ],
)
def test_a_command_imports_what_it_uses(tmp_path, command, metric_modules):
    """No other metric, nothing of SciPy but its root and `special`, no charts or servers, and none of Numba, LMDB and rich."""
    (tmp_path / "c.csv").write_text("image_id,caption\n1,a dog runs\n2,a cat\n")
    (tmp_path / "r.csv").write_text("image_id,caption\n1,a dog runs fast\n2,a cat sits\n")
    code = (
        "import sys; from captau.benchmarks.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "output_dir=run", "cache.root=cache"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {
        "numba",
        "rich",
        "lmdb",
        "lz4",
        "msgpack",
        "matplotlib",
        "jinja2",
        "requests",
        "xml.etree",
    }
    scipy_modules = {name.split(".")[1] for name in loaded if name.startswith("scipy.")}
    public = {name for name in scipy_modules if not name.startswith("_")}
    # SciPy 1.18's special functions load its linear algebra.
    assert public <= {"special", "linalg", "version"}
    text_modules = {name.removeprefix("captau.metrics.text.") for name in loaded}
    registering = {"bleu", "cider", "rouge", "rouge_score", "sacrebleu", "chair", "meteor", "spice"}
    assert text_modules & registering == metric_modules
    assert not {name for name in loaded if name.startswith("captau.metrics.learned")}


def test_every_metric_has_its_yaml_and_every_suite_its_metrics():
    from captau.benchmarks.scoring.catalog import read_config, resolve_metrics
    from captau.conf import group
    from captau.metrics.registry import metric_names

    assert set(group("metric")) == set(metric_names())
    for suite in group("suite"):
        assert [m.spec for m in resolve_metrics(suite)] == read_config("suite", suite)["metrics"]


def test_dir_of_captau_lists_the_public_names_and_nothing_else():
    import captau

    assert set(dir(captau)) == {*captau.__all__, "__version__"}
    for name in captau.__all__:
        value = getattr(captau, name)
        assert callable(value) or value.__name__ == f"captau.{name}"
    with pytest.raises(AttributeError, match="nothing_like_it"):
        captau.nothing_like_it  # noqa: B018


def test_equivalent_changes_are_of_lines_that_stand_in_their_modules():
    """A row of a line that has changed would excuse no fault, or another one than its reason is about."""
    with (ROOT / "scripts/checks/equivalent_mutants.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = list(csv.DictReader(file))

    stale: list[str] = []
    for row in rows:
        lines = (ROOT / row["module"]).read_text(encoding="utf-8").splitlines()
        # `mutate.py` joins the lines of a change by blanks, without their margins.
        code = " ".join(line.strip() for line in lines)
        if f" {row['before']} " not in f" {code} ":
            stale.append(f"{row['module']}: {row['before']}")

    assert rows
    assert stale == []
