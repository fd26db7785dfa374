"""What is installed: the base without GPL code, and what a command says of an extra that is missing."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

import captau
from captau.metrics.registry import metric

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement.strip())[0]


def base_packages() -> set[str]:
    """Follow the requirements of the base, without those of extras."""
    packages: set[str] = set()
    waiting = [name_of(requirement) for requirement in PROJECT["dependencies"]]
    while waiting:
        package = waiting.pop()
        if package not in packages:
            packages.add(package)
            try:
                requirements = importlib.metadata.requires(package) or []
            except importlib.metadata.PackageNotFoundError:  # of another system
                continue
            waiting += [name_of(r) for r in requirements if ";" not in r or "extra" not in r]
    return packages


def test_no_package_of_the_base_states_a_gpl_licence():
    """Source: each package's own metadata; GCC's run-time libraries are excepted by their licence."""
    under_gpl: list[str] = []
    for package in sorted(base_packages()):
        try:
            about = importlib.metadata.metadata(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        classifiers = [c for c in about.get_all("Classifier") or [] if c.startswith("License")]
        stated = [about.get("License-Expression") or "", (about.get("License") or "")[:100]]
        text = re.sub(r"GPL-\S+ WITH GCC-exception\S*", "", " ".join([*stated, *classifiers]))
        if "GPL" in text or "General Public License" in text:
            under_gpl.append(f"{package}: {text}")
    assert under_gpl == []


def test_the_page_of_installation_names_the_pythons_and_extras_of_pyproject():
    """Its last runs are of every Python, the first one with the lowest versions too; so are the script's and CI's."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    classifier = "Programming Language :: Python :: 3."
    pythons = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(classifier)]
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    runs = re.findall(r"^\| (3\.\d+)\.\d+ \| (\w+) \|", page, flags=re.MULTILINE)
    assert runs[0] == (pythons[0], "lowest")
    assert {python for python, _ in runs} == set(pythons)
    script = (ROOT / "scripts" / "checks" / "check_versions.sh").read_text(encoding="utf-8")
    assert f"${{PYTHONS:-{' '.join(pythons)}}}" in script
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"python: {json.dumps(pythons)}" in workflow
    rows = re.findall(r"^\| (`\[.*?) \|", page, flags=re.MULTILINE)
    named_extras = set(re.findall(r"`\[(\w+)\]`", " ".join(rows)))
    assert named_extras == set(PROJECT["optional-dependencies"]) - {"docs"}


@pytest.fixture
def without_coco(monkeypatch):
    """Hide the packages of the extra `[coco]`, which contains `[meteor]`."""
    extras = PROJECT["optional-dependencies"]
    hidden = {name_of(r).lower() for r in extras["coco"][1:] + extras["meteor"]}
    for module in hidden:
        monkeypatch.setitem(sys.modules, module, None)


def test_a_suite_lists_meteor_as_missing_without_its_extra(without_coco):
    results = captau.bench("demo", ["bleu_1", "text"], statistics={"interval": "none"})
    rows = results.correlations[results.correlations["metric"] == "meteor"]
    assert rows["value"].isna().all()
    assert rows["note"].str.contains("captau[meteor]", regex=False).all()


@pytest.mark.parametrize(
    ("spec", "extra"),
    [
        ("meteor", "meteor"),
        ("meteor(backend=pycocoevalcap)", "coco"),
        ("spice", "coco"),
        ("cider(backend=pycocoevalcap)", "coco"),
    ],
)
def test_a_metric_that_is_named_needs_its_extra(without_coco, monkeypatch, spec, extra):
    monkeypatch.delenv("CAPTAU_JAVA", raising=False)
    rows = [{"caption": "a dog", "references": ["a dog runs"]}]
    message = rf"metric {re.escape(spec)} needs \w+, which is not installed; pip install 'captau\[{extra}\]'"
    with pytest.raises(captau.InputError, match=message):
        metric(spec).score(rows)
