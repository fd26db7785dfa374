"""`captau check candidates=NEW against=OLD`: red where a system fell significantly, green elsewhere."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captau.benchmarks.cli.main import main
from captau.benchmarks.regression import system_check
from captau.benchmarks.regression.choices import SystemCheckChoices
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.statistics.bootstrap import StatisticsOptions
from captau.datasets.errors import InputError
from tests.benchmarks.printed import lines_of
from tests.conftest import says

N_IMAGES = 20
REFERENCE = "a red square on white"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Captions that repeat the references, that are half wrong, and that have another word in one of twenty images."""
    captions = {
        "whole": [REFERENCE] * N_IMAGES,
        "worse": ["a red dog", "a red square on white"] * (N_IMAGES // 2),
        "alike": ["a red square on black", *[REFERENCE] * (N_IMAGES - 1)],
    }
    for name, texts in captions.items():
        rows = [{"image_id": i, "caption": text} for i, text in enumerate(texts)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    references = {str(i): [REFERENCE] for i in range(N_IMAGES)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    return tmp_path


def check(
    folder: Path,
    new: str,
    old: str,
    names: Any = "rouge_l",
    tolerance: float | None = None,
    **statistics: Any,
) -> system_check.CheckedSystem:
    choices = SystemCheckChoices(
        candidates=folder / f"{new}.json",
        against=folder / old,
        references=folder / "refs.json",
        metrics=resolve_metrics(names),
        statistics=StatisticsOptions(**statistics),
        tolerance=tolerance,
    )
    return system_check.SystemCheck(choices).run()


def rows_of(result: system_check.CheckedSystem) -> list[tuple[str, list[str]]]:
    return lines_of(result.tables[0])


def test_a_system_that_fell(files):
    """Worked by hand: ROUGE-L of "a red dog" has recall 2/5 and precision 2/3, so F (β 1.2) is 2.44·(4/15)/(2/5 + 1.44·2/3).

    That is 0.4784. Half of the captions have it, the others 1: the mean is 0.7392, so that the change is -26.1.
    """
    result = check(files, "worse", "whole.json")
    assert result.status == 1
    (_, cells), *others = rows_of(result)
    assert cells[:3] == ["100.0", "73.9", "-26.1"]
    assert cells[-1] == "fell"
    assert not others
    assert "fell significantly" in result.summary
    assert b'failures="1"' in result.xml()


def test_the_bar_counts_each_caption_of_each_metric_and_the_blocks_of_draws(files, monkeypatch):
    """Two systems and three metrics; a total that is not reached, or passed, would show."""
    totals, steps = [], []

    class Counted(system_check.StepProgress):
        def __init__(self, total: int) -> None:
            totals.append(total)
            super().__init__(total)

        def advance(self) -> None:
            steps.append(1)

        @contextlib.contextmanager
        def step(self, description: str):
            steps.append(1)
            yield

    monkeypatch.setattr(system_check, "StepProgress", Counted)
    check(files, "worse", "whole.json", ["bleu_1", "rouge_l", "rouge_1"], replicates=40)
    assert totals == [len(steps)]


def test_captions_that_a_baseline_could_not_be_read_back_with_are_refused(files, monkeypatch):
    """A caption has two nodes of YAML, and 1,000 are left for the rest."""
    choices = SystemCheckChoices(
        candidates=files / "whole.json",
        against=files / "b.yaml",
        references=files / "refs.json",
        metrics=resolve_metrics("bleu_1"),
        update=True,
    )

    def allow(n_nodes: int) -> None:
        monkeypatch.setattr(system_check, "MAX_NODES", n_nodes)

    allow(1000 + 2 * N_IMAGES)
    made = system_check.SystemCheck(choices).run()
    assert made.summary.startswith(f"{files / 'b.yaml'}: written: {N_IMAGES} captions")
    allow(999 + 2 * N_IMAGES)
    with says(f"{N_IMAGES} captions are too many for a baseline"):
        other_choices = replace(choices, against=files / "c.yaml")
        system_check.SystemCheck(other_choices).run()


def test_a_system_that_rose_or_did_not_change_significantly(files):
    assert rows_of(check(files, "whole", "worse.json"))[0][1][-1] == "rose"
    result = check(files, "alike", "whole.json")
    assert rows_of(result)[0][1][-1] == "no significant change"
    assert result.status == 0
    assert b'failures="0"' in result.xml()


def test_the_level_decides(files):
    """Worked by hand: one image of twenty fell, which (19/20)^20 = 36 % of resamples do not draw.

    The two-sided p-value is so about 0.7, which is below 0.9 and above 0.05.
    """
    assert check(files, "alike", "whole.json", level=0.1).status == 1
    assert check(files, "alike", "whole.json").status == 0


def test_a_metric_of_which_less_is_better_fell_where_it_grew(files, tmp_path):
    (tmp_path / "length.py").write_text(
        "import captau\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Length(captau.Metric):\n    higher_is_better = False\n"
        "    def compute(self, rows): return [float(len(c)) for c in rows.captions]\n"
    )
    names = f"{tmp_path / 'length.py'}:Length"
    assert rows_of(check(files, "whole", "worse.json", names))[0][1][-1] == "fell"
    assert rows_of(check(files, "worse", "whole.json", names))[0][1][-1] == "rose"


def test_a_run_of_captau_score_is_compared_with(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    with pytest.raises(SystemExit):
        main(
            [
                *[
                    "score",
                    "candidates=whole.json",
                    "references=refs.json",
                    "metrics=rouge_l",
                    "output_dir=old",
                ]
            ]
        )
    words = "check candidates=worse.json against=old references=refs.json metrics=rouge_l"
    with pytest.raises(SystemExit) as ended:
        main([*words.split()])
    assert ended.value.code == 1
    assert rows_of(check(files, "worse", "old")) == rows_of(check(files, "worse", "whole.json"))

    # A run of two systems is one of neither.
    with pytest.raises(SystemExit):
        main(
            [
                "score",
                "candidates=whole.json,worse.json",
                "references=refs.json",
                "metrics=rouge_l",
                "output_dir=both",
            ]
        )
    with pytest.raises(SystemExit) as ended:
        main(words.replace("=old", "=both").split())
    assert ended.value.code == 2
    assert "both holds 2 systems, whole and worse; name the file of one" in capsys.readouterr().err


def run(words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", *words.split()])
    return int(ended.value.code or 0)


def test_a_baseline_holds_captions_scores_and_metrics(files, monkeypatch, capsys):
    """Worked by hand: half of the captions are "a red dog", of whose 3 words 2 are among the reference's 5.

    ROUGE-L is as above. BLEU-1 of the corpus is (10·2 + 10·5)/(10·3 + 10·5)·exp(1 - 100/80) = 0.6814, and a mean over
    images would be (2/3·exp(1 - 5/3) + 1)/2 = 0.6711.
    """
    monkeypatch.chdir(files)
    make = "candidates=whole.json against=old.yaml references=refs.json update=true"
    assert run(f"{make} metrics=rouge_l,bleu_1") == 0
    text = Path("old.yaml").read_text()
    assert '  bleu_1: {made: bleu_1, signature: "bleu_1|n:1|' in text
    assert "score: 1}" in text
    assert '  "3": "a red square on white"' in text
    assert run(make) == 0
    assert Path("old.yaml").read_text() == text
    assert "is as it was" in capsys.readouterr().out
    words = "candidates=worse.json against=old.yaml references=refs.json"
    assert run(words) == 1
    out = capsys.readouterr().out
    assert [out.count(cell) for cell in ("73.9", "68.1", "fell")] == [1, 1, 3]
    assert run("candidates=whole.json against=old.yaml references=refs.json") == 0
    assert run(f"{words} metrics=rouge_1") == 1


def test_a_held_score_that_moved_fails_and_says_why(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    make = "candidates=worse.json against=old.yaml references=refs.json update=true metrics=rouge_l"
    words = "candidates=worse.json against=old.yaml references=refs.json"
    run(make)
    text = Path("old.yaml").read_text()
    Path("old.yaml").write_text(text.replace("score: 0.739", "score: 0.749"))
    assert run(words) == 1
    out = capsys.readouterr().out
    assert "the code of captau or of another package" in out
    assert "no significant change" in out
    assert "update=true" in out
    Path("old.yaml").write_text(text)
    references = json.loads(Path("refs.json").read_text()) | {"1": ["a red dog"]}
    Path("refs.json").write_text(json.dumps(references))
    assert run(words) == 1
    assert "other references" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dataset: demo", "old.yaml: a baseline of metrics, which baseline=old.yaml"),
        ("format: 2", "old.yaml:1: format 2, and this captau reads 1"),
        ("format: 1\nreferences: x\nmetrics: {}\ncaptions: {a: [b]}", "old.yaml:4: captions.a: ['b']: a text is expected"),
        (
            "format: 1\nreferences: x\nmetrics: {f: {made: 'mine.py:f', signature: f, score: 1}}\ncaptions: {a: b}",
            "old.yaml:3: mine.py:f runs only if the command names it; if you trust it, name all metrics: metrics=mine.py:f\n",
        ),
    ],
)  # fmt: skip
def test_a_baseline_of_a_system_that_is_none_is_refused(
    files, monkeypatch, capsys, content, message
):
    monkeypatch.chdir(files)
    Path("old.yaml").write_text(content)
    assert run("candidates=whole.json against=old.yaml references=refs.json") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "candidates=whole.json against=alike.json references=refs.json update=true",
            "write against=system.yaml",
        ),
        ("candidates=whole.json", "the option against=… is needed"),
        ("candidates=whole.json against=alike.json", "needs references"),
        ("candidates=whole.json against=alike.json sample=3", "sample= does not go with"),
        ("candidates=whole.json against=no.yaml references=refs.json", "update=true makes it"),
        ("candidates=whole.json against=no.json references=refs.json", "no.json"),
        ("", "name the baseline"),
        (
            "candidates=whole.json against=alike.json references=refs.json statistics.interval=none",
            "has no test",
        ),
    ],
)
def test_what_is_missing_is_said(files, monkeypatch, capsys, words, message):
    monkeypatch.chdir(files)
    assert run(words) == 2
    assert message in capsys.readouterr().err


def test_one_image_has_no_test(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text('{"1": "a dog"}')
    (tmp_path / "refs.json").write_text('{"1": ["a dog"]}')
    with pytest.raises(InputError, match="no metric has a test of 1 image"):
        check(tmp_path, "a", "b.json")


def test_the_table_and_the_lines_of_three_metrics_in_whole(files, monkeypatch):
    """Worked by hand: BLEU-1 of the corpus as below, ROUGE-L as above; ROUGE-1 of "a red dog" is its recall, 2/5."""
    monkeypatch.chdir(files)
    names = ["bleu_1", "rouge_l", "rouge_1"]
    result = check(Path(), "worse", "whole.json", names, replicates=200, correction="holm")
    (table,) = result.tables
    assert (table.title, table.corner) == ("worse.json against whole.json", "metric")
    assert table.heads == ["old", "new", "change", "from", "to", "p", "verdict"]
    assert [(label, cells[:3], cells[-1]) for label, cells in lines_of(table)] == [
        ("BLEU-1", ["100.0", "68.1", "-31.9"], "fell"),
        ("ROUGE-L", ["100.0", "73.9", "-26.1"], "fell"),
        ("ROUGE-1", ["100.0", "70.0", "-30.0"], "fell"),
    ]
    for _, cells in lines_of(table):
        low, change, high = float(cells[3]), float(cells[2]), float(cells[4])
        assert low < change < high < 0
    test, *faults = table.notes
    assert test == (
        "20 images. from, to: the 95 % interval of the change (paired bootstrap over images, 200 replicates); "
        "p is corrected for 3 metrics (Holm)."
    )
    assert faults[0].startswith("All 20 captions are one text, 'a red square on white'")
    assert result.summary == (
        "worse.json fell significantly below whole.json by BLEU-1 (-31.9), ROUGE-L (-26.1), "
        "ROUGE-1 (-30.0) (tested: 3 metrics)"
    )
    assert [
        (d.metrics, d.subject, d.before, d.now, d.change, d.fails) for d in result.differences
    ] == [
        (("bleu_1",), "BLEU-1", "100.0", "68.1", "-31.9", True),
        (("rouge_l",), "ROUGE-L", "100.0", "73.9", "-26.1", True),
        (("rouge_1",), "ROUGE-1", "100.0", "70.0", "-30.0", True),
    ]
    assert (result.metrics, result.dataset) == (tuple(names), "whole.json")


@pytest.mark.parametrize(
    ("correction", "n_metrics", "note"),
    [
        ("none", 2, "p is not corrected."),
        ("bh", 2, "p is corrected for 2 metrics (Benjamini-Hochberg)."),
        ("holm", 1, "p is corrected for one metric (Holm)."),
    ],
)
def test_the_note_says_what_p_values_are_corrected_for(files, correction, n_metrics, note):
    names = ["bleu_1", "rouge_l"][:n_metrics]
    result = check(files, "alike", "whole.json", names, correction=correction, level=0.9)
    assert result.tables[0].notes[0].endswith(note)
    assert "the 90 % interval" in result.tables[0].notes[0]
    tested = "one metric" if n_metrics == 1 else "2 metrics"
    assert result.summary == (
        f"{files / 'alike.json'} did not fall significantly below {files / 'whole.json'} (tested: {tested})"
    )
    assert not result.differences


def test_a_metric_without_a_test_has_a_row_that_says_so(files, tmp_path):
    """A tolerance compares it all the same. The captions have 9 letters and 21: (9 + 21) / 2 = 15."""
    (tmp_path / "length.py").write_text(
        "import captau\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Length(captau.Metric):\n"
        "    def compute(self, rows): return [float(len(c)) for c in rows.captions]\n"
        "    def corpus_resampler(self, rows, scores): return None\n"
    )
    names = ["rouge_l", f"{tmp_path / 'length.py'}:Length"]
    result = check(files, "worse", "whole.json", names)
    assert [cells[-1] for _, cells in rows_of(result)] == ["fell", "not tested"]
    assert rows_of(result)[1][1][:6] == ["–"] * 6
    assert [line.subject for line in result.differences] == ["ROUGE-L"]
    assert result.summary.endswith("(tested: one metric)")
    compared = check(files, "worse", "whole.json", names, tolerance=7.0)
    assert [cells[-1] for _, cells in rows_of(compared)] == ["within the tolerance"] * 2
    assert compared.summary.endswith("(compared: 2 metrics)")


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Captions of five images that repeat their references, and that share no word with them."""
    for name, text in (("whole", REFERENCE), ("gone", "xyz")):
        rows = [{"image_id": i, "caption": text} for i in range(5)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    references = {str(i): [REFERENCE] for i in range(5)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    return tmp_path


def test_where_no_fall_could_be_significant_the_check_says_so(five, capsys, monkeypatch):
    """Of five images no p is below 2 / 2⁵ = .0625: ROUGE-L may fall from 100 to 0."""
    monkeypatch.chdir(five)
    options = ["check", "candidates=gone.json", "against=whole.json", "references=refs.json"]
    options.append("metrics=rouge_l")
    with pytest.raises(SystemExit) as stopped:
        main(options)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "captau: gone.json: too few images (5) for any fall to be significant; say how far a score may fall, "
        "tolerance=NUMBER, which needs no test\n"
    )
    with pytest.raises(SystemExit) as stopped:
        main([*options, "tolerance=0.02"])
    assert stopped.value.code == 1
    assert "gone.json fell by more than 0.02 below whole.json by ROUGE-L (-100.0)" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("statistics", "shortage"),
    [({"replicates": 38}, "too few replicates (38)"), ({"level": 0.999}, "too few replicates")],
)
def test_too_few_replicates_are_named_as_well(files, statistics, shortage):
    """By hand: no p is below 2 / 39 = .051 of 38 replicates, nor below 2 / 1,001 = .002 of 1,000."""
    with says(shortage, "tolerance=NUMBER"):
        check(files, "worse", "whole.json", **statistics)
    assert check(files, "worse", "whole.json", replicates=39).status == 1


def test_a_tolerance_decides_in_place_of_the_test(files):
    """By hand, as above: ROUGE-L falls by .2608, significantly; one caption with another word by .2 / 20 = .01."""
    result = check(files, "worse", "whole.json", tolerance=0.27)
    assert result.status == 0
    assert rows_of(result)[0][1][-1] == "within the tolerance"
    assert result.summary == (
        f"{files / 'worse.json'} did not fall by more than 0.27 below {files / 'whole.json'} (compared: one metric)"
    )
    assert check(files, "worse", "whole.json", tolerance=0.26).status == 1
    assert check(files, "alike", "whole.json", tolerance=0.01).status == 0
    assert check(files, "alike", "whole.json", tolerance=0.0099).status == 1
    rose = check(files, "whole", "worse.json", tolerance=0.1)
    assert (rose.status, rows_of(rose)[0][1][-1]) == (0, "rose")


@pytest.mark.parametrize("tolerance", [-0.1, float("inf"), float("nan")])
def test_a_tolerance_is_a_number_from_0_on(files, tolerance):
    with says("tolerance is ", "a number from 0 on is expected"):
        check(files, "worse", "whole.json", tolerance=tolerance)


def test_a_baseline_of_a_system_holds_no_tolerance(files):
    with says("tolerance= does not go with update=true"):
        SystemCheckChoices(
            candidates=files / "whole.json",
            against=files / "b.yaml",
            update=True,
            tolerance=0.1,
        )
