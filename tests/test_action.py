"""`action.yml`: GitHub's schema, and its scripts run by bash, with pip put aside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import captau

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.github-actions", "action.yml"),
        ("vendor.github-workflows", ".github/workflows/ci.yml"),
        ("vendor.github-workflows", ".github/workflows/release.yml"),
        ("vendor.compose-spec", "compose.yaml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/wrong_number.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_github_takes_it(schema, file, tmp_path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, ROOT / file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "bad.yml").write_text((ROOT / file).read_text(encoding="utf-8") + "\nrunz: 1\n")
    done = subprocess.run([*command, tmp_path / "bad.yml"], capture_output=True, check=False)
    assert done.returncode == 1


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == captau.__version__
    assert citation["license"] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_every_input_is_used_and_none_is_pasted_into_a_script():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        assert ("shell" in step) == ("run" in step)
    for one in ACTION["inputs"].values():
        assert one["description"].endswith(".")
        assert not one["required"]
        assert isinstance(one["default"], str)


def run(name, folder, bin_, **inputs):
    """A step as GitHub runs it: its `env` filled in, `bash -eo pipefail`."""
    values = {k: one.get("default", "") for k, one in ACTION["inputs"].items()} | {
        k.replace("_", "-"): v for k, v in inputs.items()
    }

    def filled(template):
        text = template.replace("${{ github.action_path }}", str(ROOT))
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text)

    environment = {k: filled(v) for k, v in STEPS[name]["env"].items()}
    script = folder / "step.sh"
    script.write_text(STEPS[name]["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env={**os.environ, **environment, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def no_pip(tmp_path):
    """A `python` on the PATH that prints what pip is given, a word a line, and is itself else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / "python"
    fake.write_text(
        f'#!/bin/bash\nif [ "$1" = -m ]; then printf "%s\\n" "$@"; else exec {sys.executable} "$@"; fi\n'
    )
    fake.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, [f"captau[meteor] @ {ROOT.as_uri()}"]),
        ({"version": "0.2.0", "extras": ""}, ["captau==0.2.0"]),
        ({"version": "0.2.0", "extras": "neural"}, ["captau[neural]==0.2.0"]),
        ({"extras": "neural", "install": "-r requirements.txt  .\n mine"},
         [f"captau[neural] @ {ROOT.as_uri()}", "-r", "requirements.txt", ".", "mine"]),
        ({"version": "$(touch pwned)", "install": "`touch pwned`"},
         ["captau[meteor]==$(touch pwned)", "`touch", "pwned`"]),
    ],
)  # fmt: skip
def test_what_is_installed(tmp_path, no_pip, inputs, words):
    done = run("Install captau", tmp_path, no_pip, **inputs)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert said == ["-m", "pip", "install", "--disable-pip-version-check", *words]
    assert not (tmp_path / "pwned").exists()


def test_downloads_are_kept_until_what_is_downloaded_changes(tmp_path, monkeypatch):
    """The cache's name is that of the inputs and of the baseline's content."""
    output = tmp_path / "output"
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    (tmp_path / "b.yaml").write_text("seed: 1\n")
    (tmp_path / "requirements.txt").write_text("inflect==7.5\n")
    of_files: list[dict[str, str]] = [
        {"baseline": "b.yaml"},
        {"against": "b.yaml", "version": "0.2.0"},
        {"install": "-r requirements.txt"},
    ]
    for inputs in ({}, {}, {"extras": "coco,neural"}, *of_files):
        done = run("Name the cache", tmp_path, Path(sys.executable).parent, **inputs)
        assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "b.yaml").write_text("seed: 2\n")
    (tmp_path / "requirements.txt").write_text("inflect==7.6\n")
    for inputs in of_files:
        run("Name the cache", tmp_path, Path(sys.executable).parent, **inputs)

    keys = output.read_text().splitlines()
    assert all(re.fullmatch(r"key=[0-9a-f]{16}", key) for key in keys)
    assert keys[0] == keys[1]
    assert len(set(keys)) == len(keys) - 1


def test_the_check_itself(tmp_path, monkeypatch):
    """Green where it makes the baseline, red on what moved; options one a line; summary and report."""
    ours = Path(sys.executable).parent
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    made = run(
        "Check",
        tmp_path,
        ours,
        baseline="a b.yaml",
        options='update=true  \n\t metrics=["rouge_1"]\r\n\n  sample=3\n',
    )
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "a b.yaml").read_text(encoding="utf-8")
    (tmp_path / "a b.yaml").write_text(text.replace("distance", "x").replace("n:1", "n:3"))
    red = run(
        "Check", tmp_path, ours, baseline="a b.yaml", options="versions=none", junit="o/j.xml"
    )
    assert red.returncode == 1
    assert "| parameters | rouge_1 | n | 3 | 1 |" in (tmp_path / "summary.md").read_text("utf-8")
    suite = next(ElementTree.parse(tmp_path / "o" / "j.xml").iter("testsuite"))
    assert int(suite.get("failures", 0)) == len(list(suite.iter("failure"))) > 0


def test_the_summary_says_why_nothing_was_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    ended = run("Check", tmp_path, Path(sys.executable).parent, baseline="none.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("captau: no baseline none.yaml; ")
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary == f"### captau check\n\nNothing was compared: {ended.stderr}"


def test_a_function_of_the_baseline_runs_where_the_input_allows_it(tmp_path):
    ours = Path(sys.executable).parent
    (tmp_path / "mine.py").write_text("def words(items):\n    return [1.0] * len(items)\n")
    options = "update=true\nmetrics=python(mine:words)"
    assert run("Check", tmp_path, ours, baseline="b.yaml", options=options).returncode == 0
    refused = run("Check", tmp_path, ours, baseline="b.yaml")
    assert (refused.returncode, "allow=mine:words" in refused.stderr) == (2, True)
    for allow in ("other:f  mine:words", "other:f, mine:words", "other:f\nmine:words\n"):
        allowed = run("Check", tmp_path, ours, baseline="b.yaml", allow=allow)
        assert allowed.returncode == 0, allowed.stderr


def test_the_check_of_a_system(tmp_path):
    """Red where the new captions share no word with the references that the old ones repeat."""
    captions = {"old.json": "a red square", "new.json": "nothing"}
    for name, text in captions.items():
        (tmp_path / name).write_text(json.dumps({str(i): text for i in range(9)}))
    (tmp_path / "refs.json").write_text(json.dumps({str(i): ["a red square"] for i in range(9)}))
    inputs = {"references": "refs.json", "options": "metrics=rouge_l\n"}
    ours = Path(sys.executable).parent
    red = run("Check", tmp_path, ours, candidates="new.json", against="old.json", **inputs)
    assert (red.returncode, red.stderr) == (1, "")
    green = run("Check", tmp_path, ours, candidates="old.json", against="new.json", **inputs)
    assert (green.returncode, green.stderr) == (0, "")
