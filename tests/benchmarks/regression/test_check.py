"""`captau check`: what moved is found, named and explained; what did not move leaves everything as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import captau
from captau.benchmarks.regression.baseline_file import (
    read,
)
from captau.benchmarks.regression.checked import Checked
from captau.benchmarks.regression.differences import Difference, make_difference_table
from captau.benchmarks.runs.output_folder import write_file
from captau.metrics.text.cider import Cider
from tests.benchmarks.printed import lines_of
from tests.benchmarks.regression.conftest import edit, fault
from tests.conftest import run_captau, says

GOLDEN = Path(__file__).parents[3] / "results" / "golden"


@pytest.fixture
def check(capsys, monkeypatch, tmp_path):
    """Runs `captau check` in a folder of its own; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPTAU_CACHE", os.environ["CAPTAU_CACHE"])
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def command(*words):
        ended = run_captau("check", *map(str, words))
        captured = capsys.readouterr()
        return ended, captured.out, captured.err

    return command


def rows_of(out):
    """The printed table: part, metric, what, baseline, now, by, likely cause, which stands below it where it is shared."""
    lines = [line for line in out.splitlines() if line.startswith("| ")]
    rows = [[c.strip() for c in line.strip("|").split(" | ")] for line in lines[1:]]
    shared = re.search(r"^Likely cause of what moved: (.*)\.$", out, re.M)
    if shared is None:
        return rows
    return [[*row, shared[1] if row[0] in ("scores", "correlations") else ""] for row in rows]


def drift(monkeypatch, change):
    """Every CIDEr score from here on goes through `change(scores)`; no version says so."""
    score = Cider.compute
    monkeypatch.setattr(Cider, "compute", lambda self, rows: change(score(self, rows).copy()))


# Nothing moved.
def test_all_is_well_and_a_second_update_changes_no_byte(check, base):
    status, out, err = check(f"baseline={base}")
    assert (status, err) == (0, "")
    assert "as in the baseline (3 metrics on 360 items of demo, 25 of them one by one)" in out
    before, stamp = base.read_bytes(), base.stat().st_mtime_ns
    status, out, _ = check(f"baseline={base}", "update=true")
    assert status == 0
    assert "is as it was" in out
    assert (base.read_bytes(), base.stat().st_mtime_ns) == (before, stamp)


def test_the_last_bits_of_another_machine_change_no_byte(check, base, monkeypatch):
    noise = np.random.default_rng(1)
    drift(monkeypatch, lambda s: s * (1 + noise.uniform(-4e-16, 4e-16, len(s))))
    before = base.read_bytes()
    assert check(f"baseline={base}")[0] == 0
    assert check(f"baseline={base}", "update=true")[0] == 0
    assert base.read_bytes() == before


# Something moved.
def test_a_score_of_a_shown_item_moves_though_no_version_did(check, base, monkeypatch):
    """The scores that an earlier run kept do not hide it."""
    assert captau.bench("demo", "cider").run["signatures"]
    drift(monkeypatch, lambda s: s + 0.125)
    status, out, err = check(f"baseline={base}")
    assert (status, err) == (1, "")
    rows = rows_of(out)
    assert {row[1] for row in rows} == {"cider"}
    shown, all_items = rows
    assert shown[0] == "scores"
    assert shown[2].startswith("25 of 25 sampled items, most of all demo_")
    assert float(shown[4]) - float(shown[3]) == pytest.approx(0.125, abs=1e-9)
    assert shown[5] == all_items[5] == "+0.125"
    assert all_items[2] == "mean of all 360 items"
    assert shown[6] == "no version, parameter or data changed: the code of captau"
    assert f"captau check baseline={base} update=true" in out


def test_an_order_of_scores_that_turns_is_found_by_correlation(check, base, monkeypatch):
    drift(monkeypatch, lambda s: -s)
    rows = [row for row in rows_of(check(f"baseline={base}")[1]) if row[0] == "correlations"]
    (tau_c,) = [row for row in rows if row[2] == "overall τ_c"]
    assert float(tau_c[4]) == -float(tau_c[3])
    assert float(tau_c[5]) == pytest.approx(2 * float(tau_c[4]), abs=0.1)


def test_scores_that_change_places_are_found_though_their_mean_stays(check, base, monkeypatch):
    def turn(scores):
        scores[: len(scores) // 2] = scores[: len(scores) // 2][::-1].copy()
        return scores

    drift(monkeypatch, turn)
    status, out, _ = check(f"baseline={base}", "metrics=[cider]")
    assert status == 1
    assert not [row for row in rows_of(out) if row[2].startswith("mean of all")]
    assert [row for row in rows_of(out) if "groups of items" in row[2]]


def test_one_item_that_is_not_shown(check, base, monkeypatch):
    def nudge(scores):
        scores[-1] += 1e-6
        return scores

    drift(monkeypatch, nudge)
    status, out, _ = check(f"baseline={base}", "metrics=[cider]")
    assert status == 1
    assert re.search("of all 360|1 of the 16 groups of items", rows_of(out)[0][2])


def test_within_the_tolerance_nothing_moved(check, base, monkeypatch):
    drift(monkeypatch, lambda s: s + 9e-10)
    assert check(f"baseline={base}")[0] == 0


def test_a_score_that_becomes_undefined(check, base, monkeypatch):
    drift(monkeypatch, lambda s: np.where(np.arange(len(s)) < 9, np.nan, s))
    status, out, _ = check(f"baseline={base}", "metrics=[cider]")
    assert status == 1
    (row,) = [row for row in rows_of(out) if row[2] == "undefined scores of all items"]
    assert row[3:5] == ["0", "9"]


def test_update_takes_what_moved_and_that_alone(check, base, monkeypatch):
    before = base.read_text(encoding="utf-8").splitlines()
    drift(monkeypatch, lambda s: s + 0.125)
    status, out, _ = check(f"baseline={base}", "update=true")
    assert status == 0
    assert "written" in out
    assert "+0.125" in out
    after = base.read_text(encoding="utf-8").splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 25 + 2  # the shown items, mean and parts; the correlations stay
    assert check(f"baseline={base}")[0] == 0


def test_a_parameter_that_changed_is_named(check, base):
    edit(base, "cider|variant:d|sigma:6", "cider|variant:d|sigma:5")
    status, out, _ = check(f"baseline={base}")
    assert status == 1
    assert rows_of(out) == [["parameters", "cider", "sigma", "5", "6", "", ""]]
    edit(base, "mean: ", "mean: 1")
    edit(base, "mean: 0.8", "mean: 0.7")
    (row,) = [row for row in rows_of(check(f"baseline={base}")[1]) if row[1] == "cider"][1:]
    assert row[-1] == "parameter sigma: 5 → 6"


@pytest.mark.slow
def test_versions_fail_as_one_wishes(check, base):
    """rouge_score is in a signature, python in none."""
    for package, old in (
        ("rouge_score", r"rouge_score: \"[\d.]+\""),
        ("python", r"python: \".+\""),
    ):
        text = base.read_text(encoding="utf-8")
        base.write_text(re.sub(old, f'{package}: "0.0.1"', text), encoding="utf-8")
    edit(base, "|rouge_score:0.1", "|rouge_score:0.0.1-0.1")

    def failing(policy, *words):
        status, out, _ = check(f"baseline={base}", *policy, *words)
        rows = rows_of(out)
        assert {row[2] for row in rows} <= {"python", "rouge_score"}
        return status, {row[2] for row in rows if "told only" not in row[-1]}

    assert failing(()) == (1, {"rouge_score"})
    assert failing(("versions=all",)) == (1, {"rouge_score", "python"})
    assert failing(("versions=none",)) == (0, set())
    assert failing((), "metrics=[cider]") == (0, set())


def test_a_package_is_suspected_where_a_score_moved(check, base, monkeypatch):
    text = base.read_text(encoding="utf-8")
    base.write_text(re.sub(r'numpy: ".+"', 'numpy: "1.0"', text), encoding="utf-8")
    drift(monkeypatch, lambda s: s + 1)
    rows = rows_of(check(f"baseline={base}")[1])
    assert rows[0][2:5] == ["numpy", "1.0", np.__version__]
    assert rows[0][-1] == "told only (versions=signatures)"
    assert rows[1][-1] == f"perhaps numpy 1.0 → {np.__version__}"


OWN = """image,caption,references,value
a.jpg,even the dog,evening dog,3
b.jpg,a cat,the cat sat,1
c.jpg,one bird,birds in a tree,2
"""


def test_changed_data_are_named(check, tmp_path):
    """With the dataset `file`, whose options the baseline keeps."""
    (tmp_path / "mine.csv").write_text(OWN)
    words = ("dataset=file", "file.path=mine.csv", "metrics=[rouge_1]", "sample=2")
    assert check("baseline=b/mine.yaml", "update=true", *words)[0] == 0
    assert check("baseline=b/mine.yaml")[0] == 0
    (tmp_path / "mine.csv").write_text(OWN.replace("one bird", "two birds"))
    status, out, _ = check("baseline=b/mine.yaml")
    assert status == 1
    rows = rows_of(out)
    assert rows[0][0:3] == ["data", "", "digest"]
    assert {row[-1] for row in rows if row[0] != "data"} == {"changed data"}
    assert not [row for row in rows if "groups of items" in row[2]]
    (tmp_path / "mine.csv").unlink()
    status, _, err = check("baseline=b/mine.yaml")
    assert status == 2
    assert "mine.csv" in err


@pytest.mark.parametrize(
    ("sample", "knows_new"),
    [pytest.param(3, True, id="all shown"), pytest.param(1, False, id="one shown")],
)
def test_a_changed_caption_is_named_as_far_as_the_sample_tells(
    check, tmp_path, sample, knows_new
) -> None:
    (tmp_path / "mine.csv").write_text(OWN)
    words = ("dataset=file", "file.path=mine.csv", "metrics=[rouge_1]", f"sample={sample}")
    assert check("baseline=base.yaml", "update=true", *words)[0] == 0
    changed_id, *_ = read(tmp_path / "base.yaml").sample
    # No other item has this image.
    (old,) = [line for line in OWN.splitlines() if line.startswith(changed_id[:5])]
    image, caption, *others = old.split(",")
    new = ",".join([image, f"{caption} runs", *others])
    (tmp_path / "mine.csv").write_text(OWN.replace(old, new))

    status, out, _ = check("baseline=base.yaml")
    items = [row[2:5] for row in rows_of(out) if row[2].startswith("item")]
    assert (status, items[0]) == (1, [f"item {changed_id}", "there", "–"])
    assert f"{sample - 1} of them one by one" in out
    if knows_new:
        (new_item,) = items[1:]
        assert new_item[0].startswith(f"item {image}:")
        assert new_item[1:] == ["–", "there"]
    else:
        assert len(items) == 1


def test_an_error_in_one_function_leaves_the_others_compared(check, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = tmp_path / "counts_words.py"
    code.write_text("def words(items):\n    return [len(c.split()) for c in items['caption']]\n")
    (tmp_path / "mine.csv").write_text(OWN)
    data = ("dataset=file", "file.path=mine.csv")
    metrics = "metrics=rouge_1,counts_words.py:words"
    assert check("baseline=b.yaml", "update=true", *data, metrics)[0] == 0
    again = ("baseline=b.yaml", "allow=counts_words.py:words", "junit=b.xml")
    assert check(*again)[0] == 0

    # The error comes while it scores, or where it is loaded; and another score may have moved, too.
    faulty_codes = ["def words(items):\n    return 1 / 0\n", "import no_such_package\n"]
    for faulty in faulty_codes:
        code.write_text(faulty)
        status, out, _ = check(*again)
        (row,) = rows_of(out)
        assert (status, row[:2], row[4]) == (1, ["scores", "words"], "error")
        assert re.search("ZeroDivisionError|ModuleNotFoundError", row[-1])
        assert "words raises an error; the rest is as in the baseline (one metric on 3 items" in out
        suite = ElementTree.parse(tmp_path / "b.xml").getroot()[0]
        failed = {case.get("name"): case.find("failure") is not None for case in suite}
        assert (failed["words: scores"], failed["rouge_1: scores"]) == (True, False)
        assert "words: correlations" not in failed

    edit(tmp_path / "b.yaml", "tau_c: ", "tau_c: -")
    status, out, _ = check(*again)
    assert (status, {row[1] for row in rows_of(out)}) == (1, {"rouge_1", "words"})
    assert "words raises an error; correlations differ" in out

    # A baseline is not made without a function that it is to hold, and nothing else may be left.
    assert check(*again, "update=true")[0] == 2
    status, _, err = check("baseline=b.yaml", metrics)
    assert (status, "no_such_package" in err) == (2, True)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The Python of a fresh environment in which two dependencies really are of other versions."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/*/site-packages")
    ours = next(p for p in sys.path if p.endswith("site-packages"))
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "rouge-score==0.1.1", "sacrebleu==2.4.3"], check=True)
    # Everything else is this environment's, behind what was installed there.
    (site / "parent.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return python


@pytest.mark.slow
def test_a_dependency_of_another_version_fails_the_check_and_is_named(check, elsewhere, tmp_path):
    here = version("rouge_score")
    words = ("metrics=[rouge_score_l,sacrebleu,rouge_1]", "sample=2")
    assert check("baseline=b.yaml", "update=true", *words)[0] == 0
    # As if the one had moved a score as well.
    edit(
        tmp_path / "b.yaml",
        "scores: {items: 360, undefined: 0, mean: 0.",
        "scores: {items: 360, undefined: 0, mean: 0.9",
    )
    program = "from captau.benchmarks.cli.main import main; main()"
    done = subprocess.run(
        [elsewhere, "-c", program, "check", "baseline=b.yaml", "junit=j.xml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    rows = rows_of(done.stdout)
    versions = {row[2]: row for row in rows if row[0] == "versions"}
    assert set(versions) == {"rouge_score", "sacrebleu"}
    assert versions["rouge_score"][1:5] == ["rouge_score_l", "rouge_score", here, "0.1.1"]
    assert versions["sacrebleu"][4] == "2.4.3"
    assert versions["sacrebleu"][-1] == "no score moved"
    (moving,) = [row for row in rows if row[0] == "scores"]
    assert (moving[1], moving[-1]) == ("rouge_score_l", f"rouge_score {here} → 0.1.1")
    failed = {
        case.get("name")
        for case in ElementTree.parse(tmp_path / "j.xml").iter("testcase")
        if case.find("failure") is not None
    }
    assert failed == {"versions", "rouge_score_l: scores"}


# Reports.
def test_junit_and_step_summary(check, base, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert check(f"baseline={base}", "junit=reports/good.xml", "metrics=[cider,bleu_1]")[0] == 0
    drift(monkeypatch, lambda s: s + 0.125)
    assert check(f"baseline={base}", "junit=reports/bad.xml", "metrics=[cider,bleu_1]")[0] == 1
    good = ElementTree.parse(tmp_path / "reports" / "good.xml").getroot().find("testsuite")
    assert (good.get("tests"), good.get("failures")) == ("8", "0")
    bad = ElementTree.parse(tmp_path / "reports" / "bad.xml").getroot().find("testsuite")
    assert (bad.get("tests"), bad.get("failures")) == ("8", "1")
    (case,) = [c for c in bad if c.find("failure") is not None]
    assert case.get("name") == "cider: scores"
    assert "+0.125" in case.find("failure").text
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    first, second = summary.split("### captau check")[1:]
    assert "as in the baseline" in first
    assert "| scores | cider |" in second


def test_a_report_has_no_letter_that_xml_lacks():
    odd = Difference("scores", ("a\x00b",), "item <\x1b&>", "0", "1", cause="x")
    one = Checked(Path("b.yaml"), "demo", ("a\x00b",), (odd,), "")
    failure = ElementTree.fromstring(one.xml()).find(".//failure")
    assert failure.get("message") == "item <\ufffd&>: 0 → 1 (x)"


def test_the_line_is_the_right_one(check, base):
    lines = base.read_text(encoding="utf-8").splitlines()
    at = next(i for i, text in enumerate(lines) if text.startswith("  cider:"))
    lines[at + 4] = lines[at + 4].replace("std: 0", "std: O")
    base.write_text("\n".join(lines), encoding="utf-8")
    line, message = fault(check(f"baseline={base}")[2], base)
    assert line == at + 5
    assert message.startswith("metrics.cider.scores.std: 'O")
    assert "take the file anew from version control" in message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("baseline=none.yaml",), "captau check baseline=none.yaml update=true"),
        ((), "name the baseline, baseline=FILE"),
        (("baseline=base.yaml", "dataset=thumb"), "dataset=… was given, and base.yaml has demo"),
        (("baseline=base.yaml", "protocol.ratings=mean"), "protocol=… was given"),
        (("baseline=base.yaml", "tolerance=1e-3"), "base.yaml has 1e-09; leave it out"),
        (("baseline=base.yaml", "sample=7"), "base.yaml has 25"),
        (("baseline=base.yaml", "metrics=[bleu_2]"), "unknown metric of base.yaml 'bleu_2'"),
        (("baseline=base.yaml", "packages=[torch]"), "unknown package of base.yaml 'torch'"),
        (("baseline=base.yaml", "versions=most"), "known: all, none, signatures"),
        (("baseline=base.yaml", "tolerance=2"), "a number from 1e-12 to 1"),
        (("baseline=base.yaml", "sample=0"), "a whole number from 1 on"),
        (("baseline=base.yaml", "seed=-1"), "a whole number from 0 on"),
        (("baseline=base.yaml", "dataset=[demo,thumb]"), "a baseline has one dataset"),
        (("baseline=base.yaml", "junit=base.yaml/x.xml"), "cannot be written"),
        (("baseline=.", "update=true"), "Is a directory"),
        (("baseline=base.yaml/b.yaml", "update=true"), "cannot be"),
    ],
)
def test_options_that_make_no_sense(check, base, words, said):
    status, out, err = check(*words)
    assert (status, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert said in line


def test_options_that_the_baseline_has_are_welcome(check, base):
    words = ("dataset=demo", "sample=25", "tolerance=1e-9", "seed=0", "metrics=[cider]")
    assert check(f"baseline={base}", *words)[0] == 0


def test_update_with_other_options_makes_it_anew(check, base):
    words = (
        "update=true",
        "metrics=[rouge_1]",
        "sample=3",
        "protocol.ratings=mean",
        "tolerance=1e-6",
    )
    status, out, _ = check(f"baseline={base}", *words)
    assert (status, rows_of(out)) == (0, [])
    found = read(base)
    assert list(found.metrics) == ["rouge_1"]
    assert (len(found.sample), found.protocol.ratings, found.tolerance) == (3, "mean", 1e-6)
    assert check(f"baseline={base}", "update=true", "sample=4")[0] == 0
    assert read(base).protocol.ratings == "mean"


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "b.yaml"
    path.write_text("before")
    (tmp_path / f".b.yaml.{2**22 + 1}.tmp").write_text("of a killed run")
    (tmp_path / f".other.{2**22 + 1}.tmp").write_text("not ours")
    write_file(path, b"after")
    assert path.read_text() == "after"
    assert sorted(p.name for p in tmp_path.iterdir()) == [f".other.{2**22 + 1}.tmp", "b.yaml"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with says(f"{path}: cannot be written (No space left on device)"):
        write_file(path, b"more")
    assert path.read_text() == "after"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_a_suite_without_its_weights_leaves_metrics_out(check, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tmp_path))
    status, out, _ = check("baseline=b.yaml", "update=true", "metrics=[rouge_1,reference_free]")
    assert status == 0
    assert "left out: clipscore" in out
    assert list(read(tmp_path / "b.yaml").metrics) == ["rouge_1"]


# captau's own gate: versions are told, for CI installs whatever is new; scores must not move.
def test_the_demo_is_as_the_golden_baseline_has_it(check):
    status, out, err = check(f"baseline={GOLDEN / 'demo.yaml'}", "versions=none")
    assert (status, err) == (0, ""), out


def test_flickr8k_is_as_the_golden_baseline_has_it(check, data_root):
    status, out, err = check(f"baseline={GOLDEN / 'flickr8k_expert.yaml'}", "versions=none")
    assert (status, err) == (0, ""), out


@pytest.fixture
def baseline_with_code(check, tmp_path, monkeypatch):
    """A baseline that names a function whose module leaves a file behind when it is imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaves_a_file.py").write_text(
        "from pathlib import Path\nPath('it_ran').touch()\n"
        "def words(items):\n    return [len(c.split()) for c in items['caption']]\n"
    )
    spec = "metrics=python(leaves_a_file:words)"
    assert check("baseline=code.yaml", "update=true", "sample=2", spec)[0] == 0
    (tmp_path / "it_ran").unlink()
    sys.modules.pop("leaves_a_file")
    return spec


@pytest.mark.parametrize("options", [(), ("update=true",), ("allow=leaves_a_file:others",)])
def test_a_function_that_only_the_baseline_names_does_not_run(
    check, baseline_with_code, tmp_path, options
):
    status, out, err = check("baseline=code.yaml", *options)
    assert (status, out) == (2, "")
    assert err.startswith("captau: code.yaml:")
    assert err.endswith("if you trust it: allow=leaves_a_file:words\n")
    assert not (tmp_path / "it_ran").exists()


def test_the_remedy_allows_all_functions_of_the_baseline(check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.py").write_text(
        "def words(items):\n    return [len(c.split()) for c in items['caption']]\n"
        "def letters(items):\n    return [len(c) for c in items['caption']]\n"
    )
    metrics = "metrics=two.py:words,two.py:letters"
    assert check("baseline=two.yaml", "update=true", "sample=2", metrics)[0] == 0

    both = "allow=two.py:words,two.py:letters"
    for options in ((), ("allow=two.py:words",), ("allow=two.py:letters",)):
        status, _, err = check("baseline=two.yaml", *options)
        assert (status, err.endswith(f"if you trust all that it names: {both}\n")) == (2, True)
    assert check("baseline=two.yaml", both)[0] == 0


@pytest.mark.slow
def test_a_class_in_a_file_runs_as_a_function_does(check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.py").write_text(
        "from pathlib import Path\nimport dataclasses, captau\nPath('it_ran').touch()\n"
        "@captau.register('counted')\n@dataclasses.dataclass(frozen=True)\nclass Words(captau.Metric):\n"
        "    def compute(self, rows):\n        return [float(len(c)) for c in rows.captions]\n"
    )
    assert check("baseline=code.yaml", "update=true", "sample=2", "metrics=counts.py:Words")[0] == 0
    assert 'made: "counts.py:Words"' in (tmp_path / "code.yaml").read_text()
    (tmp_path / "it_ran").unlink()
    sys.modules.pop(str(tmp_path / "counts.py"))
    status, _, err = check("baseline=code.yaml")
    assert (status, "if you trust it: allow=counts.py:Words\n" in err) == (2, True)
    assert not (tmp_path / "it_ran").exists()
    assert check("baseline=code.yaml", "allow=counts.py:Words")[0] == 0

    # The remedy is a command that runs as it stands.
    (tmp_path / "counts.py").write_text(
        (tmp_path / "counts.py").read_text().replace("float(len(c))", "float(len(c) // 2)")
    )
    sys.modules.pop(str(tmp_path / "counts.py"))
    status, out, _ = check("baseline=code.yaml", "allow=counts.py:Words")
    remedy = "captau check baseline=code.yaml update=true allow=counts.py:Words"
    assert (status, out.rstrip().endswith(remedy)) == (1, True)
    assert check(*remedy.split()[2:])[0] == 0


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param("mllm_judge", marks=pytest.mark.slow),
        pytest.param("MLLM-Judge", marks=pytest.mark.slow),
        " mllm_judge",
    ],
)
def test_a_judge_that_only_the_baseline_names_is_not_asked(check, tmp_path, spelling):
    """It would send the captions and the key in CAPTAU_JUDGE_KEY to the address in the file."""
    assert check("baseline=judge.yaml", "update=true", "sample=2", "metrics=bleu_1")[0] == 0
    text = (tmp_path / "judge.yaml").read_text()
    spec = '"mllm_judge(model=m,url=http://127.0.0.1:9/v1)"'
    made = spec.replace("mllm_judge", spelling)
    text = text.replace("bleu_1:", f"{spec}:").replace("made: bleu_1", f"made: {made}")
    (tmp_path / "judge.yaml").write_text(text)
    status, out, err = check("baseline=judge.yaml")
    assert (status, out) == (2, "")
    assert err.endswith("if you trust it: allow=mllm_judge\n")
    status, _, err = check("baseline=judge.yaml", "allow=mllm_judge")
    assert "if you trust it" not in err


def test_a_function_that_the_command_line_names_runs(check, baseline_with_code, tmp_path):
    for option in ("allow=leaves_a_file:words", "allow=[leaves_a_file:words]", baseline_with_code):
        assert check("baseline=code.yaml", option)[0] == 0
        assert (tmp_path / "it_ran").exists()


def test_more_than_three_metrics_that_are_all_are_counted():
    for names, shown in (("abc", "a, b, c"), ("abcd", "all 4"), ("abcde", "a, b, c, d")):
        found = Difference("versions", tuple(names[:4]), "numpy", "1", "2")
        table = make_difference_table("T", [found], tuple(names), ("then", "now"))
        assert lines_of(table) == [("versions", [shown, "numpy", "1", "2", "", ""])]
        assert table.heads == ["metric", "what", "then", "now", "by", "likely cause"]
