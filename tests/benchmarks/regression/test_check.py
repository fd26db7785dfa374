"""`captau check`: what moved is found, named and explained; what did not move leaves everything as it is."""

from __future__ import annotations

import contextlib
import math
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
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import captau
from captau.benchmarks.options.check import CheckOptions
from captau.benchmarks.regression.baseline_file import (
    PARTS,
    Baseline,
    MetricBaseline,
    decimals_of,
    draw_sample,
    mean,
    moved,
    parts_of,
    read,
    std,
    steady,
    unit_of,
    written,
)
from captau.benchmarks.regression.check import Checked, run
from captau.benchmarks.regression.differences import Difference
from captau.benchmarks.runs.output_folder import write_file
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.errors import InputError
from captau.metrics.text.cider import Cider
from tests.conftest import run_captau, says

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "results" / "golden"
NAMES = ["bleu_1", "cider", "rouge_score_l"]


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


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A baseline of the demo, as the command makes it."""
    path = tmp_path_factory.mktemp("made") / "demo.yaml"
    assert (
        run_captau("check", f"baseline={path}", "update=true", f"metrics=[{','.join(NAMES)}]") == 0
    )
    return path


@pytest.fixture
def base(recipe, tmp_path):
    """A copy of it, to be edited."""
    path = tmp_path / "base.yaml"
    path.write_bytes(recipe.read_bytes())
    return path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def rows_of(out):
    """The printed table: part, metric, what, baseline, now, by, likely cause."""
    lines = [line for line in out.splitlines() if line.startswith("| ")]
    return [[c.strip() for c in line.strip("|").split(" | ")] for line in lines[1:]]


def drift(monkeypatch, change):
    """Every CIDEr score from here on goes through `change(scores)`; no version says so."""
    score = Cider.compute
    monkeypatch.setattr(Cider, "compute", lambda self, rows: change(score(self, rows).copy()))


# Numbers, by hand.


def test_moved_by_hand():
    assert moved(0.5, 0.5 + 2e-9, 1e-9)
    assert not moved(0.5, 0.5 + 5e-10, 1e-9)
    assert moved(math.nan, 0.5, 1.0)
    assert moved(0.5, math.nan, 1.0)
    assert not moved(math.nan, math.nan, 0.0)
    assert not moved(math.inf, math.inf, 1e-9)
    assert moved(math.inf, 1.0, 1e-9)


def test_digits_by_hand():
    """One digit more than the tolerance has; half of what tables print of τ_c, 43.9, is 0.0005."""
    assert [decimals_of(t) for t in (1e-9, 5e-4, 1.0)] == [10, 5, 1]
    assert unit_of("tau_c") == pytest.approx(0.001)


def test_mean_and_standard_deviation_as_numpy_has_them():
    values = np.random.default_rng(0).normal(size=999).tolist()
    assert mean(values) == pytest.approx(np.mean(values), abs=1e-15)
    assert std(values) == pytest.approx(np.std(values), abs=1e-15)
    assert math.isnan(mean([]))
    assert math.isnan(std([]))


IDS = [f"image{i}:{i:08x}" for i in range(60)]
SCORES = st.lists(
    st.one_of(st.floats(-10, 10), st.just(math.nan)), min_size=len(IDS), max_size=len(IDS)
)


@given(SCORES, st.lists(st.floats(-1, 1), min_size=len(IDS), max_size=len(IDS)), st.randoms())
def test_means_move_no_further_than_scores(values, by, random):
    """That is why they can be compared at the same tolerance; and the order of items is nothing."""
    before = np.array(values)
    after = before + 1e-6 * np.array(by)
    for old, new in zip(parts_of(IDS, before), parts_of(IDS, after), strict=True):
        assert not moved(old, new, 1e-6 + 1e-12)
    defined = ~np.isnan(before)
    assert not moved(std(before[defined].tolist()), std(after[defined].tolist()), 1e-6 + 1e-12)
    order = random.sample(range(len(IDS)), len(IDS))
    again = parts_of([IDS[i] for i in order], before[order])
    np.testing.assert_array_equal(again, parts_of(IDS, before))


def test_a_sample_is_the_same_everywhere_and_stays_when_data_grow():
    # Pinned: another hash, or another order, would draw every baseline anew.
    assert draw_sample("abcde", 2, 0) == ["c", "d"]
    small, large = draw_sample(IDS, 10, 3), draw_sample([*IDS, "new:1", "new:2"], 10, 3)
    assert len(set(small) - set(large)) <= 2
    assert draw_sample(IDS, 10, 4) != small
    assert draw_sample(IDS, 1000, 0) == IDS


# The file.


def test_the_file_says_what_it_is_about(recipe):
    """And any reader of YAML reads the same of it as captau does."""
    text = recipe.read_text(encoding="utf-8")
    plain = yaml.safe_load(text)
    assert plain["dataset"] == "demo"
    assert plain["tolerance"] == 1e-9
    assert plain["protocol"]["ratings"] == "per_rating"
    assert list(plain["metrics"]) == NAMES
    assert len(plain["sample"]) == 25
    assert plain["metrics"]["rouge_score_l"]["signature"].count("rouge_score:") == 1
    assert {"captau", "python", "rouge_score", "numpy"} <= set(plain["packages"])
    found = read(recipe)
    for name, kept in found.metrics.items():
        assert plain["metrics"][name]["correlations"] == kept.correlations
        assert tuple(plain["metrics"][name]["parts"]) == kept.parts
    assert {i: dict(s) for i, s in found.sample.items()} == plain["sample"]
    # One line an item, all its metrics in it.
    assert sum(line.startswith('  "demo_') for line in text.splitlines()) == 25


def test_its_scores_are_those_of_the_metric(recipe):
    scores = captau.bench("demo", "cider", ceilings=False).scores.set_index("item_id")["score"]
    found = read(recipe)
    for item, shown in found.sample.items():
        assert shown["cider"] == round(scores[item], 10)
    assert found.metrics["cider"].mean == pytest.approx(scores.mean(), abs=1e-10)


NUMBERS = st.one_of(
    st.floats(-100, 100), st.just(math.nan), st.just(math.inf), st.just(-math.inf), st.just(1e300)
)
TEXTS = st.text(
    st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12
) | st.sampled_from(
    ["null", "true", "1", "no", "a: b", "# c", "\u2028", "\x7f\x85", "🐕", '"', "\\"]
)


@settings(max_examples=60)
@given(
    name=TEXTS,
    signature=TEXTS,
    sample=st.dictionaries(TEXTS, NUMBERS, min_size=1, max_size=3),
    tolerance=st.sampled_from([1e-12, 1e-9, 3e-4, 1.0]),
)
def test_what_is_written_reads_back(tmp_path_factory, name, signature, sample, tolerance):
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {"systems": ["a b", "null"]})
    kept = MetricBaseline(
        None, signature, {f"{name} tau_c": 0.123456}, 3, 1, 0.25, 0.5, (0.5,) * PARTS
    )
    given_ = Baseline(
        dataset="demo",
        file_options={},
        data={"revision": "1", "items": 3, "digest": "0" * 64},
        protocol=protocol,
        seed=0,
        tolerance=tolerance,
        versions="signatures",
        packages={name: "1.0"},
        metrics={name: kept},
        sample={item: {name: value} for item, value in sample.items()},
    )
    path = tmp_path_factory.mktemp("written") / "b.yaml"
    text = written(given_)
    path.write_bytes(text.encode())
    found = read(path)
    assert found.protocol == protocol
    assert found.metrics[name].signature == signature
    assert found.packages == {name: "1.0"}
    for item, value in sample.items():
        back = found.sample[item][name]
        assert not moved(value, back, tolerance / 10)
    assert written(found) == text
    assert yaml.safe_load(text)["metrics"][name]["signature"] == signature


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


def test_a_number_at_the_edge_of_rounding_keeps_its_digits():
    """0.25 ± a bit is written 0.2 or 0.3 with one decimal; the baseline's stays."""
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})

    def one(value):
        kept = MetricBaseline("cider", "s", {}, 1, 0, value, 0.0, (value,) * PARTS)
        return Baseline(
            "demo", {}, {}, protocol, 0, 1.0, "none", {}, {"cider": kept}, {"i": {"cider": value}}
        )

    low, high = one(0.25 - 1e-15), one(0.25 + 1e-15)
    assert written(low) != written(high)
    assert written(steady(high, one(0.2))) == written(one(0.2))


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
    assert [row for row in rows_of(out) if "parts of the items" in row[2]]


def test_one_item_that_is_not_shown(check, base, monkeypatch):
    def nudge(scores):
        scores[-1] += 1e-6
        return scores

    drift(monkeypatch, nudge)
    status, out, _ = check(f"baseline={base}", "metrics=[cider]")
    assert status == 1
    assert rows_of(out)[0][2] in ("mean of all 360 items", "1 of 16 parts of the items, most") or (
        "of all 360" in rows_of(out)[0][2]
    )


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
    assert {row[-1] for row in rows[1:]} == {"changed data"}
    (tmp_path / "mine.csv").unlink()
    status, _, err = check("baseline=b/mine.yaml")
    assert status == 2
    assert "mine.csv" in err


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


# Bad input.


def fault(err, path):
    """The one line, after its place; and the line number."""
    (line,) = err.strip().splitlines()
    match = re.fullmatch(rf"captau: {re.escape(str(path))}:(\d+): (.+)", line)
    assert match, line
    return int(match[1]), match[2]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: 1", "format: 9", "format 9, and this captau reads 1"),
        ("format: 1", "format: one", "format is 'one', not int"),
        ("dataset: demo", "dataset: dmeo", "did you mean demo"),
        ("seed: 0", "sead: 0", "did you mean seed"),
        ("seed: 0\n", "", "'seed' is missing"),
        ("seed: 0", "seed: -1", "a whole number from 0 on"),
        ("seed: 0", "seed: true", "seed is True, not int"),
        ("tolerance: 1.0e-09", "tolerance: 0", "a number from 1e-12 to 1"),
        ("tolerance: 1.0e-09", "tolerance: 1_0", "tolerance is '1_0', not float"),
        ("versions: signatures", "versions: some", "known: all, none, signatures"),
        ("ratings: per_rating", "ratings: mode", "value of protocol.ratings 'mode'"),
        ("ratings: per_rating, ", "", "'ratings' is missing"),
        ("items: 360, digest", "items: many, digest", "items is 'many', not int"),
        ("made: cider", "made: cidr", "did you mean cider"),
        ("made: cider", "made: bleu_2", "makes bleu_2, not cider"),
        ("made: cider", "made: null", "run that test"),
        ("undefined: 0", "undefined: 0.5", "undefined is 0.5, not int"),
        ("parts: [", "parts: [0.5, ", "parts holds 17 numbers; 16 are expected"),
        ("parts: [0.", "parts: [x0.", "not a number"),
        ("overall tau_c", "overall tau_x", "no dimension and coefficient"),
        ('\n  "demo_', '\n  "dome_', "is not in dataset demo"),
        ("{bleu_1: ", "{bleu_9: ", "unknown key 'bleu_9'"),
        (", cider: ", ", cider: x", "not float or null"),
        (", cider: ", ", cider: .nan #", "mend the line"),
        (", cider: ", ", cider: NaN, bleu_1: ", "'bleu_1' stands twice"),
        ("sample:\n", "sample:\n<<<<<<< HEAD\n", "mend the line"),
        ("sample:\n", "sample:\n\t- x\n", "mend the line"),
        ("sample:\n", "sample:\n  ? [a]\n  : b\n", "a key that is no text"),
        ("seed: 0", "seed: \x07", "YAML does not allow the character U+0007"),
        ("seed: 0", "seed: &x 0\nother: *x", "an alias"),
        ("seed: 0", 'seed: "0', "mend the line"),
        ("metrics:\n", "metrics: {}\nmetrics_:\n", "mend the line"),
    ],
)
def test_an_edited_baseline_is_told_in_a_line_and_left_alone(base, old, new, said):
    edit(base, old, new)
    before = base.read_bytes()
    for update in (False, True):
        with pytest.raises(InputError) as caught:
            run(CheckOptions(baseline=base, update=update))
        line, message = fault(f"captau: {caught.value}", base)
        assert said in message
        assert 1 <= line <= before.count(b"\n") + 1
        assert base.read_bytes() == before


def test_the_line_is_the_right_one(check, base):
    lines = base.read_text(encoding="utf-8").splitlines()
    at = next(i for i, text in enumerate(lines) if text.startswith("  cider:"))
    lines[at + 4] = lines[at + 4].replace("std: 0", "std: O")
    base.write_text("\n".join(lines), encoding="utf-8")
    line, message = fault(check(f"baseline={base}")[2], base)
    assert line == at + 5
    assert message.startswith("no baseline (std is 'O")
    assert "take the file anew from version control" in message


@contextlib.contextmanager
def says_where(path):
    """What is inside may raise an `InputError` that names the line, and nothing else."""
    try:
        yield
    except InputError as error:
        place = re.match(rf"{re.escape(str(path))}:\d+: ", str(error))
        if place is None:
            raise AssertionError(f"no line: {error}") from error
        raise


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_done_to_the_text_is_told_in_a_line(recipe, tmp_path_factory, data):
    """Cut, doubled, exchanged or deleted: it reads, or an `InputError` says where it does not."""
    text = recipe.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    new = data.draw(
        st.sampled_from(["", "\n", "{", "]", ": ", "- ", '"', "&a ", "*a", "!!int ", "|"])
    )
    path = tmp_path_factory.mktemp("fuzz") / "b.yaml"
    path.write_bytes((text[:start] + new + text[end:]).encode())
    with contextlib.suppress(InputError), says_where(path):
        read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: no baseline ('format' is missing)"),
        ("- 1", ":1: no baseline (keys and values are expected)"),
        ("[" * 3000, ":1: no baseline"),
        ("format: " + "9" * 5000, ":1: no baseline (format is '999"),
        ("format: 1\n---\nformat: 1", ":2: no baseline"),
    ],
)
def test_what_is_no_baseline_at_all(tmp_path, text, said):
    path = tmp_path / "b.yaml"
    path.write_text(text)
    with says(f"{path}{said}"):
        read(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("baseline=none.yaml",), "captau check baseline=none.yaml update=true"),
        ((), "baseline=… is needed"),
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
        (("baseline=base.yaml", "dataset=[demo,thumb]"), "a baseline is of one dataset"),
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


@pytest.mark.parametrize("name", ["demo", "flickr8k_expert"])
def test_golden_baselines_hold_all_text_metrics_and_no_data(name):
    from captau.benchmarks.scoring.catalog import read_config as conf

    path = GOLDEN / f"{name}.yaml"
    found = read(path)
    assert list(found.metrics) == conf("suite", "text_all")["metrics"]
    assert written(found) == path.read_text(encoding="utf-8")
    assert path.stat().st_size < 30_000
    assert {p.stem for p in GOLDEN.iterdir()} == {"demo", "flickr8k_expert"}


def test_every_golden_number_is_its_published_one():
    """Hessel et al. 2021, Table 1 (τ_c) and its τ_b: 32.3, 30.8, 32.3, 41.8, 43.9, as printed."""
    found = read(GOLDEN / "flickr8k_expert.yaml")
    for name, value in (
        ("bleu_1", 32.3),
        ("bleu_4", 30.8),
        ("rouge_l", 32.3),
        ("meteor", 41.8),
        ("cider", 43.9),
    ):
        assert round(100 * found.metrics[name].correlations["overall tau_c"], 1) == value


def test_a_baseline_from_before_some_options_has_their_defaults(tmp_path):
    text = (GOLDEN / "demo.yaml").read_text()
    later = ", own_references: keep, normalise: none, ties: half}"
    assert later in text
    path = tmp_path / "old.yaml"
    path.write_text(text.replace(later, "}"))
    assert read(path).protocol == read(GOLDEN / "demo.yaml").protocol


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


def test_a_function_that_the_command_line_names_runs(check, baseline_with_code, tmp_path):
    for option in ("allow=leaves_a_file:words", "allow=[leaves_a_file:words]", baseline_with_code):
        assert check("baseline=code.yaml", option)[0] == 0
        assert (tmp_path / "it_ran").exists()
