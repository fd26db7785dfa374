"""The house: imports run one way, names are derived from what is there, and imports stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Each package, and what it may import of the others.
MAY_IMPORT = {
    "datasets": set(),
    "metrics": {"datasets"},
    "conf": set(),
    "results": set(),
    "benchmarks": {"datasets", "metrics", "conf", "results"},
    "server": {"datasets", "metrics", "conf", "results", "benchmarks"},
}


def imported(path: Path, package: str) -> set[str]:
    """Which of our packages a module imports, relatively or absolutely, at the top or inside."""
    found: set[str] = set()
    depth = len(path.relative_to(ROOT / package).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level > depth:
                assert node.level == depth + 1, f"{path}: reaches above captau"
                found |= (
                    {node.module.split(".")[0]} if node.module else {a.name for a in node.names}
                )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "captau":
            found.add(((node.module or "") + ".").split(".")[1] or "captau")
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("captau.")}
    return found - {package}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_leftwards(package):
    modules = list((ROOT / package).rglob("*.py"))
    assert modules
    for path in modules:
        strangers = imported(path, package) - MAY_IMPORT[package]
        assert not strangers, f"{path.relative_to(ROOT)} imports {strangers}"


def test_the_arrow_test_sees_arrows():
    assert imported(ROOT / "benchmarks" / "commands" / "bench.py", "benchmarks") >= {
        "datasets",
        "metrics",
    }
    assert imported(ROOT / "metrics" / "text" / "java.py", "metrics") == {"datasets"}


def test_only_benchmarks_reads_conf():
    for package in ("datasets", "metrics"):
        for path in (ROOT / package).rglob("*.py"):
            assert "captau.conf" not in path.read_text(encoding="utf-8"), path


def test_every_package_is_in_pyproject():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    there = {
        "captau." + ".".join(p.parent.relative_to(ROOT).parts)
        for package in MAY_IMPORT
        for p in (ROOT / package).rglob("__init__.py")
    }
    assert there | {"captau"} == set(config["packages"])


def test_captau_holds_no_logic():
    assert sorted(p.name for p in (ROOT / "captau").iterdir() if p.suffix == ".py") == [
        "__init__.py"
    ]


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


def test_scipys_statistics_load_when_they_are_used():
    """They take a second, which `captau score` and `--cfg job` have no use for."""
    code = "import captau.benchmarks.commands.score, sys; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_metric_has_its_yaml_and_every_suite_its_metrics():
    from captau.benchmarks.scoring.catalog import read_config, resolve_metrics
    from captau.conf import group
    from captau.metrics.registry import metric_names

    assert set(group("metric")) == set(metric_names())
    for suite in group("suite"):
        assert [m.spec for m in resolve_metrics(suite)] == read_config("suite", suite)["metrics"]


def test_public_names():
    import captau

    for name in captau.__all__:
        assert callable(getattr(captau, name))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        captau.nothing_like_it  # noqa: B018
