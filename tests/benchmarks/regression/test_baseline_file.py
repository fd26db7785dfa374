"""The file of a baseline: its numbers by hand, what is written reads back, and every fault is told in a line."""

from __future__ import annotations

import contextlib
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import captau
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
from captau.benchmarks.regression.check import run
from captau.benchmarks.regression.choices import CheckChoices
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.errors import InputError
from tests.benchmarks.regression.conftest import NAMES, edit, fault
from tests.conftest import says

GOLDEN = Path(__file__).parents[3] / "results" / "golden"


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


def test_a_correlation_keeps_its_digits_within_the_last_written_one():
    """τ_c is written with five decimals, two more than the three of 0.439: at most 0.00001 off it stays."""
    protocol = Protocol.resolve("demo", usual_protocol("demo"), {})

    def one(value):
        kept = MetricBaseline(
            "cider", "s", {"overall tau_c": value}, 1, 0, 0.0, 0.0, (0.0,) * PARTS
        )
        return Baseline("demo", {}, {}, protocol, 0, 1e-9, "none", {}, {"cider": kept}, {})

    for by, is_kept in ((0.95e-5, True), (-0.95e-5, True), (1.05e-5, False), (-1.05e-5, False)):
        kept = steady(one(0.5 + by), one(0.5)).metrics["cider"].correlations["overall tau_c"]
        assert kept == (0.5 if is_kept else 0.5 + by)
    assert written(one(0.123456)).count("{overall tau_c: 0.12346}") == 1


# Bad input.
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: 1", "format: 9", "format 9, and this captau reads 1"),
        ("format: 1", "format: one", "format: 'one': a whole number"),
        ("dataset: demo", "dataset: dmeo", "did you mean demo"),
        ("seed: 0", "sead: 0", "did you mean seed"),
        ("seed: 0\n", "", "seed: this field is required"),
        ("seed: 0", "seed: -1", "seed: -1: input should be greater than or equal to 0"),
        ("seed: 0", "seed: true", "seed: True: a whole number"),
        ("tolerance: 1.0e-09", "tolerance: 0", "a number from 1e-12 to 1"),
        ("tolerance: 1.0e-09", "tolerance: 1_0", "a number from 1e-12 to 1"),
        ("versions: signatures", "versions: some", "known: all, none, signatures"),
        ("ratings: per_rating", "ratings: mode", "value of protocol.ratings 'mode'"),
        ("ratings: per_rating, ", "", "protocol.ratings: this field is required"),
        ("items: 360, digest", "items: many, digest", "data.items: 'many': a whole number"),
        ("made: cider", "made: cidr", "did you mean cider"),
        ("made: cider", "made: bleu_2", "makes bleu_2, not cider"),
        ("made: cider", "made: null", "run that test"),
        ("undefined: 0", "undefined: 0.5", "undefined: 0.5: a whole number"),
        ("parts: [", "parts: [0.5, ", "at most 16 items after validation, not 17"),
        ("parts: [0.", "parts: [x0.", "a number is expected"),
        ("overall tau_c", "overall tau_x", "no dimension and coefficient"),
        ('\n  "demo_', '\n  "dome_', "is not in dataset demo"),
        ("{bleu_1: ", "{bleu_9: ", "unknown metric 'bleu_9'"),
        (", cider: ", ", cider: x", "a number is expected"),
        (", cider: ", ", cider: .nan #", "mend the line"),
        (", cider: ", ", cider: .nan, x: ", "write null for"),
        (", cider: ", ", cider: NaN, bleu_1: ", "bleu_1 appears twice"),
        ("sample:\n", "sample:\n<<<<<<< HEAD\n", "mend the line"),
        ("sample:\n", "sample:\n\t- x\n", "mend the line"),
        ("sample:\n", "sample:\n  ? [a]\n  : b\n", "a key that is not a text"),
        ("seed: 0", "seed: \x07", "YAML does not allow the character U+0007"),
        ("seed: 0", "seed: &x 0\nother: *x", "unknown field 'other'"),
        ("seed: 0", 'seed: "0', "mend the line"),
        ("metrics:\n", "metrics: {}\nmetrics_:\n", "mend the line"),
    ],
)
def test_an_edited_baseline_is_told_in_a_line_and_left_alone(base, old, new, said):
    edit(base, old, new)
    before = base.read_bytes()
    for update in (False, True):
        with pytest.raises(InputError) as caught:
            run(base, CheckChoices(), update=update)
        line, message = fault(f"captau: {caught.value}", base)
        assert said in message
        assert 1 <= line <= before.count(b"\n") + 1
        assert base.read_bytes() == before


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
        ("", ":1: format: this field is required"),
        ("- 1", ":1: the file: fields are expected"),
        ("[" * 3000, ":1: nested too deeply"),
        ("format: " + "9" * 5000, ":1: format: it is too long"),
        ("format: 1\n---\nformat: 1", ":2: but found another document"),
    ],
)
def test_what_is_no_baseline_at_all(tmp_path, text, said):
    path = tmp_path / "b.yaml"
    path.write_text(text)
    with says(f"{path}{said}"):
        read(path)


@pytest.mark.parametrize("name", ["demo", "flickr8k_expert"])
def test_golden_baselines_hold_all_text_metrics_and_no_data(name):
    from captau.benchmarks.scoring.catalog import read_config as conf

    path = GOLDEN / f"{name}.yaml"
    found = read(path)
    assert list(found.metrics) == conf("suite", "text_all")["metrics"]
    # A new choice of the protocol stands there with its usual value, which moves no number: nothing is computed anew.
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        path.write_text(written(found), encoding="utf-8", newline="")
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
    later = ", own_references: keep, normalise: none, ties: half, rater_scale: none}"
    assert later in text
    path = tmp_path / "old.yaml"
    path.write_text(text.replace(later, "}"))
    assert read(path).protocol == read(GOLDEN / "demo.yaml").protocol


@pytest.mark.parametrize(
    ("before", "now", "reach", "has_moved"),
    [
        (0.5, 0.5, 0.0, False),
        (0.5, 0.75, 0.25, False),
        (0.75, 0.5, 0.25, False),
        (0.5, 0.76, 0.25, True),
        (-0.5, 0.5, 0.25, True),
        (math.nan, math.nan, 1.0, False),
        (math.nan, 0.5, 1.0, True),
        (0.5, math.nan, 1.0, True),
        (0.5, 0.5 + 5e-10, 1e-9, False),
        (0.5, 0.5 + 2e-9, 1e-9, True),
        (math.nan, math.nan, 0.0, False),
        (math.inf, math.inf, 0.0, False),
        (math.inf, 1.0, 1e-9, True),
        (math.inf, -math.inf, 1.0, True),
    ],
)
def test_a_number_has_moved_beyond_its_reach(
    before: float, now: float, reach: float, has_moved: bool
) -> None:
    assert moved(before, now, reach) is has_moved


@pytest.mark.parametrize(
    ("tolerance", "decimals"), [(1.0, 1), (0.1, 2), (0.01, 3), (0.02, 3), (1e-6, 7)]
)
def test_one_decimal_more_than_the_tolerance_has_matters(tolerance: float, decimals: int) -> None:
    assert decimals_of(tolerance) == decimals
