"""Several systems and sets of references, intervals, trust, pipes, and files that do not fit."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.commands.score import ScoreResults, run
from captau.benchmarks.evaluation.caption_ranges import CaptionRange, Spread
from captau.benchmarks.evaluation.evidence import load_evidence
from captau.benchmarks.evaluation.reliability import OUTSIDE, MetricReliability, Reliability
from captau.benchmarks.options.score import ScoreOptions, files_of
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.scoring.corpus_scores import select_images
from captau.benchmarks.scoring.score_store import Locations
from captau.benchmarks.statistics.bootstrap import (
    BLOCK,
    StatisticsOptions,
    count_blocks,
    draw_weights,
)
from captau.datasets.reading.caption_files import read_candidates
from captau.datasets.registry import load
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.printed import lines_of
from tests.conftest import AWKWARD, give_stdin, run_captau, says

WORDS = [
    "a",
    "the",
    "dog",
    "cat",
    "runs",
    "sits",
    "on",
    "under",
    "red",
    "big",
    "bus",
    "grass",
    "two",
    "men",
    "with",
    "hat",
]
#: Of each kind of corpus score.
SPECS = [
    "bleu_1",
    "bleu_4",
    "rouge_l",
    "meteor",
    "cider",
    "sacrebleu",
    "sacrebleu(smooth_method=add-k)",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two systems on 40 images, and two sets of references."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)

    def caption() -> str:
        return " ".join(rng.choice(WORDS, 7))

    references = {str(i): [caption() for _ in range(4)] for i in range(40)}
    good = {i: refs[0].replace("a", "the", 1) for i, refs in references.items()}
    poor = {i: " ".join(c.split()[:4]) if int(i) % 2 else c for i, c in good.items()}
    for name, table in {
        "good": good,
        "poor": poor,
        "c4": references,
        "c2": {i: refs[1:3] for i, refs in references.items()},
        "half": {i: references[i] for i in list(references)[:20]},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(table))
    return folder


def score(
    folder: Path,
    candidates: list[str],
    references: list[str],
    specs: Any = "bleu_4",
    **options: Any,
) -> ScoreResults:
    return run(
        ScoreOptions(
            candidates=files_of([str(folder / c) for c in candidates], "candidates"),
            references=files_of([str(folder / r) for r in references], "references"),
            metrics=resolve_metrics(specs),
            locations=Locations(use_cache=False),
            **options,
        )
    )


@pytest.mark.parametrize("spec", SPECS)
def test_pooled_is_the_corpus_score_of_the_drawn_rows(spec: str) -> None:
    """Of resampled rows `pooled` has what `corpus` has of the rows themselves, each as often."""
    pairs = [(c, (r,)) for c in AWKWARD for r in AWKWARD]
    pairs += [(c, tuple(r for r in AWKWARD if r != c)) for c in AWKWARD]
    frame = pd.DataFrame(pairs, columns=["caption", "references"])
    one, rows = metric(spec), Rows(frame)
    scores = one.score(rows)
    pooled = one.corpus_resampler(rows, scores)
    assert pooled is not None
    assert pooled(np.ones((len(frame), 1)))[0] == pytest.approx(
        one.corpus_score(rows, scores), rel=1e-12
    )
    weights = draw_weights(len(frame), 0, 0)[:, :4]
    for column, value in zip(weights.T, pooled(weights), strict=True):
        drawn = np.repeat(np.arange(len(frame)), column.astype(int))
        # The scores of rows are kept, so CIDEr's are not those of the drawn rows' own frequencies.
        expected = one.corpus_score(Rows(frame.iloc[drawn]), scores[drawn])
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_a_program_that_would_run_for_every_sample_has_no_interval() -> None:
    rows = Rows.from_items([{"caption": "a dog", "references": ["a dog"]}])
    for spec in ("bleu_4(backend=pycocoevalcap)", "meteor(backend=pycocoevalcap)"):
        assert metric(spec).corpus_resampler(rows, np.ones(1)) is None


def test_systems_are_compared_on_the_same_draws(files: Path) -> None:
    """Against the plain way: each drawn sample's BLEU from its own captions, both systems on it."""
    options = StatisticsOptions(replicates=BLOCK, interval="percentile")
    found = score(files, ["good.json", "poor.json"], ["c4.json"], ["bleu_4"], statistics=options)
    frames = {t.system: t.items for t in found.caption_scores.systems}
    assert list(frames) == ["good", "poor"]
    assert count_blocks(BLOCK) == 1
    values: dict[str, list[float]] = {"good": [], "poor": []}
    for column in draw_weights(40, options.seed, 0).T:
        drawn = np.repeat(np.arange(40), column.astype(int))
        for system, frame in frames.items():
            values[system].append(metric("bleu_4").corpus_score(frame.iloc[drawn]))
    for trial in found.caption_scores.systems:
        ends = trial.intervals["bleu_4"]
        expected = np.quantile(values[trial.system], [0.025, 0.975])
        assert (ends.low, ends.high) == pytest.approx(tuple(expected), rel=1e-9)
    assert found.caption_scores.differences is not None
    row = found.caption_scores.differences.iloc[0]
    apart = np.array(values["good"]) - np.array(values["poor"])
    assert row["difference"] == pytest.approx(row["score_a"] - row["score_b"])
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        tuple(np.quantile(apart, [0.025, 0.975]))
    )
    assert row["p_value"] == pytest.approx(2 * ((apart <= 0).sum() + 1) / (BLOCK + 1))
    assert (row["system_a"], row["system_b"], row["n_images"]) == ("good", "poor", 40)


def test_systems_and_sets_side_by_side(files: Path) -> None:
    names = ["good.json", "poor.json"], ["c4.json", "c2.json"]
    found = score(files, *names, ["bleu_1", "cider"])
    alone = {
        (s, r): score(files, [f"{s}.json"], [f"{r}.json"], ["bleu_1", "cider"])
        for s in ("good", "poor")
        for r in ("c4", "c2")
    }
    for (system, references), one in alone.items():
        assert found.caption_scores.corpus[system][references] == one.caption_scores.corpus
        columns = {c: f"{c}@{references}" for c in ("bleu_1", "cider")}
        mine = found.caption_scores.frame.query("system == @system")
        for column, named in columns.items():
            assert mine[named].tolist() == one.caption_scores.frame[column].tolist()
    assert [*found.caption_scores.frame.columns][:3] == ["item_id", "image_id", "system"]
    assert found.caption_scores.frame["item_id"].is_unique
    assert len(found.caption_scores.frame) == 80
    assert len(found.caption_scores.corpus_rows) == 8
    main_table, *differences = found.tables
    assert main_table.columns[:8] == [
        "good, c4",
        "±",
        "poor, c4",
        "±",
        "good, c2",
        "±",
        "poor, c2",
        "±",
    ]
    assert [t.title for t in differences] == [
        "Differences, references c4",
        "Differences, references c2",
    ]
    (label, cells) = lines_of(differences[0])[0]
    assert label == "good − poor"
    assert all(cell.startswith("+") for cell in cells)
    assert cells[0].endswith("*"), "half of every other caption is gone"
    assert "differences.csv" in found.files()
    one_set = score(files, ["good.json"], ["c4.json", "c2.json"], "bleu_1")
    assert list(one_set.caption_scores.corpus) == ["c4", "c2"]
    assert list(one_set.caption_scores.frame.columns) == [
        "item_id",
        "image_id",
        "bleu_1@c4",
        "bleu_1@c2",
    ]
    assert one_set.caption_scores.differences is None


def test_a_system_against_itself_differs_by_nothing(files: Path) -> None:
    found = run(
        ScoreOptions(
            candidates=files_of(
                [f"a={files / 'good.json'}", str(files / "good.json")], "candidates"
            ),
            references=files_of(str(files / "c4.json"), "references"),
            metrics=resolve_metrics(SPECS[:5]),
        )
    )
    assert found.caption_scores.differences is not None
    assert (found.caption_scores.differences["difference"] == 0).all()
    assert (found.caption_scores.differences["p_value"] == 1).all()
    assert not any("*" in cell for _, cells in lines_of(found.tables[1]) for cell in cells)


def test_intervals_on_demand(files: Path) -> None:
    none = score(
        files,
        ["good.json", "poor.json"],
        ["c4.json"],
        statistics=StatisticsOptions(interval="none"),
    )
    assert none.caption_scores.differences is None
    assert "±" not in none.tables[0].columns
    bca = score(files, ["poor.json"], ["c4.json"], statistics=StatisticsOptions(interval="bca"))
    plain = score(files, ["poor.json"], ["c4.json"])
    ends = [one.caption_scores.systems[0].intervals["bleu_4"] for one in (bca, plain)]
    assert ends[0] != ends[1]
    assert all(one.low < plain.caption_scores.corpus["bleu_4"] < one.high for one in ends)
    with says("statistics.interval=fisher needs correlations"):
        score(files, ["poor.json"], ["c4.json"], statistics=StatisticsOptions(interval="fisher"))


def test_images_that_not_all_have(files: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.json"
    few.write_text(json.dumps({"3": "a dog", "5": "a cat"}))
    good, c4, half = (str(files / f"{name}.json") for name in ("good", "c4", "half"))
    with says(f"{few}: 38 of the 40 images of {c4} have no caption, such as '0'", "partial=true"):
        score(files, [str(few)], [c4])
    with says(f"{files / 'good.json'}:1: image '20' has no references in {half}"):
        score(files, [good], [half])
    with says(f"{few}: 18 of the 20 images of {half} have no caption", "partial=true"):
        score(files, [str(few)], [half, c4])
    # As c40 of COCO, which is of 5,000 of the test images (Chen et al. 2015, section 2).
    found = score(files, [good], [c4, half])
    assert {t.references: len(t.items) for t in found.caption_scores.systems} == {
        "c4": 40,
        "half": 20,
    }
    assert found.tables[0].notes[0].startswith("Captions: 40 with c4, 20 with half.")
    assert found.caption_scores.frame["bleu_4@half"].isna().sum() == 20
    assert found.caption_scores.frame["bleu_4@c4"].notna().all()
    assert not any(note.startswith("partial") for note in found.tables[0].notes)
    alone = score(files, [good], [c4])
    assert found.caption_scores.systems[0].corpus == alone.caption_scores.systems[0].corpus
    systems = {path: read_candidates(Path(path)) for path in (str(few), good)}
    with says(f"{good}:1: image '0' is not in {few}; leave it out", "partial=true"):
        select_images(systems, {}, partial=False)
    both = score(files, [good, str(few)], [c4], partial=True)
    assert [t.items["image_id"].tolist() for t in both.caption_scores.systems] == [["3", "5"]] * 2
    assert "partial: 2 of the 40 images of c4." in both.tables[0].notes
    stranger = tmp_path / "stranger.json"
    stranger.write_text(json.dumps({"nobody": "a dog"}))
    with says(f"{stranger}:1: image 'nobody' has no references in {c4}"):
        score(files, [str(stranger)], [c4], partial=True)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"7": "a dog"}))
    with says(f"no image has a caption by {few}, {other} and references in {c4}"):
        score(files, [str(few), str(other)], [c4], partial=True)


def test_names_of_files(tmp_path: Path) -> None:
    def names(*entries: str) -> list[tuple[str, str]]:
        return [(one.name, str(one.path)) for one in files_of(list(entries), "candidates")]

    assert names("a/x.json", "b/y.jsonl.gz") == [("x", "a/x.json"), ("y", "b/y.jsonl.gz")]
    assert names("a/r.json", "b/r.json") == [("a/r.json", "a/r.json"), ("b/r.json", "b/r.json")]
    assert names("mine=a/r.json", "b/r.json") == [("mine", "a/r.json"), ("r", "b/r.json")]
    assert names("lr=0.1/r.json") == [("lr", "0.1/r.json")]
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    (folder / "r.json").touch()
    assert names(str(folder / "r.json")) == [("r", str(folder / "r.json"))]
    assert names("-") == [("stdin", "-")]
    for twice in (("x=a", "x=b"), ("a.json", "a.json")):
        with says("two of candidates are called", "name them: candidates=a=FILE,b=FILE"):
            names(*twice)
    for empty in ([], [""], {}, None, 3):
        with says("a file is expected, or several as A,B"):
            files_of(empty, "references")


def reliability_of(
    specs: list[str], captions: Sequence[CaptionRange] = (), reference_free: Sequence[str] = ()
) -> MetricReliability:
    ranges = {str(i) if len(captions) > 1 else "": c for i, c in enumerate(captions)}
    return load_evidence(specs, "published").apply_to(ranges, reference_free)


def test_trust_as_published() -> None:
    """The numbers of CLIPScore's Table 1, what no paper there prints, and what captau measured itself."""
    found = reliability_of(["bleu_1", "bleu_2", "cider", "pac_s", "umic", "sacrebleu", "x"]).by_spec
    assert list(found) == ["bleu_1", "bleu_2", "cider", "pac_s", "umic", "sacrebleu"]
    assert found["bleu_2"].source == "measured by captau (results/measured.csv)"
    assert str(found["bleu_1"]) == "τ_c 32.3 on flickr8k_expert"
    assert (found["cider"].value, found["cider"].source) == (0.439, "Hessel et al. 2021, Table 1")
    assert "hessel2021clipscore" in found["cider"].citation
    assert str(found["pac_s"]) == "τ_c 54.3 on flickr8k_expert", (
        "of another paper, on the same rows"
    )
    assert found["umic"].source.endswith("(column Flickr8k, protocol.references=mean_over_single)")
    assert str(found["sacrebleu"]) == "r 13.0 on thumb (total)"
    assert found["sacrebleu"].source == "Kasai et al. 2022, Table 4 (column w/ Human Total)"
    assert reliability_of(["cider(variant=plain)"]).by_spec == {}


FLICKR8K: dict[str, Any] = {
    "caption_words": Spread(8, 10, 12),
    "reference_words": Spread(8, 10, 12),
    "references": Spread(5, 5, 5),
    "script": "latin",
    "frequent_words": {"a": 0.2, "in": 0.05, "the": 0.05, "on": 0.05},
    "n_words": 1000,
}


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        ({}, ["τ_c 43.9 on flickr8k_expert", "τ_c 54.3 on flickr8k_expert"]),
        # One reference of each image: Lee et al. 2021 score against one at a time.
        (
            {"references": Spread(1, 1, 1)},
            ["τ_c 41.9 on flickr8k_expert", "τ_c 54.3 on flickr8k_expert"],
        ),
        ({"references": Spread(40, 40, 40)}, [OUTSIDE, "τ_c 54.3 on flickr8k_expert"]),
        ({"reference_words": Spread(90, 100, 110)}, [OUTSIDE, "τ_c 54.3 on flickr8k_expert"]),
        ({"caption_words": Spread(90, 106, 150)}, [OUTSIDE, OUTSIDE]),
        ({"script": "han", "frequent_words": {}}, [OUTSIDE, OUTSIDE]),
        ({"frequent_words": {"ein": 0.1, "in": 0.02}}, [OUTSIDE, OUTSIDE]),
        # Too few words to tell the language by.
        (
            {"frequent_words": {"ein": 0.1}, "n_words": 49},
            ["τ_c 43.9 on flickr8k_expert", "τ_c 54.3 on flickr8k_expert"],
        ),
    ],
)
def test_published_numbers_are_of_captions_like_the_judged_ones(
    changes: dict[str, Any], cells: list[str]
) -> None:
    """CIDEr compares with references, PAC-S does not: their number matters to CIDEr alone."""
    captions = CaptionRange(n_captions=100, **{**FLICKR8K, **changes})
    found = reliability_of(["cider", "pac_s"], [captions], ["pac_s"])
    assert [found.cell(spec) for spec in ("cider", "pac_s")] == cells
    assert set(found.outside) == {
        spec for spec, cell in zip(("cider", "pac_s"), cells, strict=True) if cell == OUTSIDE
    }


def test_captions_of_one_system_outside_the_range_are_enough() -> None:
    usual = CaptionRange(n_captions=100, **FLICKR8K)
    long = CaptionRange(n_captions=100, **{**FLICKR8K, "caption_words": Spread(90, 106, 150)})
    found = reliability_of(["cider"], [usual, long])
    assert found.by_spec == {}
    assert found.outside["cider"].startswith("(1) have 106 words, the judged ones 6 to 20")


def test_evidence_of_unknown_captions_says_so() -> None:
    number = Reliability("tau_c", 0.5, "polaris", "a paper", has_range=False)
    assert str(number) == "τ_c 50.0 on polaris, range not known"


def test_texts_without_blanks_between_words_are_counted_below_the_table(tmp_path: Path) -> None:
    """Golden, worked: of three captions and four references one and two have no blanks."""
    (tmp_path / "c.json").write_text(
        json.dumps({"1": "一只黑色的狗在草地上奔跑", "2": "一 只 黑色 的 狗", "3": "a dog"})
    )
    (tmp_path / "r.json").write_text(
        json.dumps(
            {"1": ["一只狗在草地上奔跑", "黑色的狗在草地上"], "2": ["一 只 狗"], "3": ["a dog"]}
        )
    )
    found = score(tmp_path, ["c.json"], ["r.json"], ["bleu_1", "cider", "sacrebleu(tokenize=char)"])
    (note,) = (n for n in found.tables[0].notes if "tokeniser" in n)
    assert note == (
        "BLEU-1, CIDEr: the tokeniser cannot find the words of 1 of 3 captions and 2 of 4 references, so "
        "that their scores say nothing; take tokenize=zh for Chinese, ja for Japanese or char for any language, or "
        "set words apart by blanks first."
    )


def test_metrics_from_python_warn_of_texts_without_blanks(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"caption": "一只黑色的狗在草地上奔跑", "references": ["一只狗在草地上奔跑"]}]
    metric("rouge_l").score(rows)
    metric("rouge_score_l").score([{"caption": "собака", "references": ["собака"]}])
    assert [record.getMessage() for record in caplog.records] == [
        "metric rouge_l: the tokeniser cannot find the words of 1 of 1 captions and 1 of 1 references, so "
        "that their scores say nothing; take tokenize=zh for Chinese, ja for Japanese or char for any language, or "
        "set words apart by blanks first",
        "metric rouge_score_l: the tokeniser cannot find the words of 1 of 1 captions and 1 of 1 references, "
        "so that their scores say nothing; rouge-score reads the letters a–z alone; take rouge_l",
    ]


def test_a_note_counts_the_captions_of_all_systems_that_are_among_their_references(
    tmp_path: Path,
) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"1": "A dog.", "2": "a cat", "3": "x"}))
    (tmp_path / "r.json").write_text(json.dumps({i: ["a dog", "a cat"] for i in "123"}))
    (tmp_path / "d.json").write_text(json.dumps({"1": "a dog", "2": "y", "3": "x"}))
    results = score(tmp_path, ["c.json", "d.json"], ["r.json"], "bleu_1")
    (note,) = [note for note in results.tables[0].notes if "their image's" in note]
    assert note == (
        "c: 2 of 3 captions repeat one of their image's references, 1 of them exactly; d: 1 of 3 captions repeats one "
        "of its image's references exactly. These captions are scored against themselves, and too high: "
        "remove them from the references."
    )


def test_reliability_of_one_metric_imports_no_other() -> None:
    code = """
        import sys
        from captau.benchmarks.evaluation.evidence import load_evidence
        assert list(load_evidence(["rouge_l"], "published").apply_to({}).by_spec) == ["rouge_l"]
        sys.exit("captau.metrics.text.cider" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.fixture(scope="module")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One caption of each image of the demo with its references, and a run of `captau bench` on the demo."""
    folder = tmp_path_factory.mktemp("demo")
    items = load("demo").items.drop_duplicates("image_id")
    captions = dict(zip(items["image_id"], items["caption"], strict=True))
    references = dict(zip(items["image_id"], map(list, items["references"]), strict=True))
    (folder / "mine.json").write_text(json.dumps(captions))
    (folder / "refs.json").write_text(json.dumps(references))
    arguments = ("metrics=[bleu_4]", "ceilings=false", f"output_dir={folder / 'run'}")
    assert run_captau("bench", *arguments) == 0
    return folder


def test_trust_of_a_run(files: Path, demo_files: Path, tmp_path: Path) -> None:
    folder = demo_files / "run"
    table = pd.read_csv(folder / "correlations.csv").iloc[0]
    found = score(demo_files, ["mine.json"], ["refs.json"], ["bleu_4", "cider"], trust=str(folder))
    one = found.caption_scores.reliability.by_spec["bleu_4"]
    assert (one.value, one.low, one.high) == tuple(table[["value", "ci_low", "ci_high"]])
    half = f"{50 * (one.high - one.low):.1f}"
    cells = {label: cells[-1] for label, cells in lines_of(found.tables[0])}
    assert cells == {"BLEU-4": f"τ_c {100 * one.value:.1f} ± {half} on demo", "CIDEr": "not known"}
    assert any(f"run {folder}" in note for note in found.tables[0].notes)
    rows = found.caption_scores.corpus_rows.set_index("metric")
    assert rows.loc["bleu_4", "agreement"] == one.value
    assert np.isnan(rows.loc["cider", "agreement"])
    with says("trust=nowhere is neither 'published' nor the folder of a run"):
        score(files, ["good.json"], ["c4.json"], trust="nowhere")
    (tmp_path / "empty").mkdir()
    with says("has no run.json"):
        score(files, ["good.json"], ["c4.json"], trust=str(tmp_path / "empty"))
    without = score(files, ["good.json"], ["c4.json"])
    assert "agreement with people" not in without.tables[0].columns


def test_trust_of_a_run_of_rank(demo_files: Path, tmp_path: Path) -> None:
    """The cells have the share of pairs of systems in people's order; no sentence says which metric agrees best."""
    folder = tmp_path / "systems"
    words = ("metrics=[bleu_4,cider]", "statistics.replicates=50", f"output_dir={folder}")
    assert run_captau("rank", *words) == 0
    orders = pd.read_csv(folder / "metric_orders.csv")
    orders = orders[orders["coefficient"] == "pairwise_accuracy"].set_index("metric")
    found = score(demo_files, ["mine.json"], ["refs.json"], ["bleu_4", "cider"], trust=str(folder))
    cells = {label: cells[-1] for label, cells in lines_of(found.tables[0])}
    for spec, label in (("bleu_4", "BLEU-4"), ("cider", "CIDEr")):
        row: Any = orders.loc[spec]
        assert cells[label].startswith(f"same order {100 * row['value']:.1f} ±")
        assert cells[label].endswith(f"on demo, {row['n_systems']} systems")
    assert "agree best with people" not in found.tables[0].verdict
    share = (
        "the share (%) of pairs of systems that a metric puts in people's order, not of yours but"
    )
    assert any(share in note for note in found.tables[0].notes)
    assert set(found.caption_scores.corpus_rows["agreement_on"]) == {"demo, 6 systems"}


def test_the_newest_run_is_named_where_last_is_trusted(
    demo_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_captau("bench", "metrics=[bleu_1]", "statistics.interval=none") == 0
    (folder,) = Path("results/runs").iterdir()
    with says(f"nor the folder of a run; the newest is trust={folder}"):
        score(demo_files, ["mine.json"], ["refs.json"], ["bleu_4"], trust="last")


def test_trust_of_a_run_that_correlates_nothing(demo_files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "agreement"
    assert run_captau("agree", f"output_dir={folder}") == 0
    with says(f"trust={folder} is a run of captau agree", "captau bench or captau rank"):
        score(demo_files, ["mine.json"], ["refs.json"], ["bleu_4"], trust=str(folder))


def test_captions_unlike_those_of_the_evidence_get_no_coefficient(demo_files: Path) -> None:
    """The demo's captions, each said five times over, are longer than any that was judged."""
    captions = json.loads((demo_files / "mine.json").read_text())
    long = {image_id: " and ".join([text] * 5) for image_id, text in captions.items()}
    (demo_files / "long.json").write_text(json.dumps(long))
    found = score(
        demo_files, ["long.json"], ["refs.json"], ["bleu_4", "cider"], trust=str(demo_files / "run")
    )
    cells = {label: cells[-1] for label, cells in lines_of(found.tables[0])}
    assert cells == {"BLEU-4": "none for such captions", "CIDEr": "not known"}
    (note,) = (n for n in found.tables[0].notes if n.startswith("none for such captions"))
    assert note.startswith("none for such captions, BLEU-4: your captions have ")
    assert "words, the judged ones 6 to 21 (demo)" in note
    row: Any = found.caption_scores.corpus_rows.set_index("metric").loc["bleu_4"]
    assert np.isnan(row["agreement"])
    assert "the judged ones 6 to 21" in row["note"]
    assert list(found.run["outside_evidence"]) == ["bleu_4"]
    assert found.run["trust"] == {}


def test_a_run_without_ranges_is_no_evidence(demo_files: Path, tmp_path: Path) -> None:
    """Runs of earlier versions say nothing of their captions."""
    run = demo_files / "run"
    folder = Path(shutil.copytree(run, tmp_path / "old"))
    for change, message in (
        (lambda data: data.pop("range"), "run.json has no range of demo's captions"),
        (lambda data: data.update(range={"script": "latin"}), "the range of captions is malformed"),
    ):
        with edited_record(run, target=folder) as record:
            change(record["data"]["demo"])
        with says(str(folder), message):
            score(demo_files, ["mine.json"], ["refs.json"], trust=str(folder))


@pytest.fixture
def captau(capsysbinary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `captau score`; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPTAU_JAVA", "")
    monkeypatch.setenv("CAPTAU_CACHE", os.environ["CAPTAU_CACHE"])

    def run(*words: str, stdin: bytes = b"") -> tuple[Any, str, str]:
        give_stdin(monkeypatch, stdin)
        ended = run_captau("score", *words)
        out, err = capsysbinary.readouterr()
        return ended, out.decode(), err.decode()

    return run


def test_pipes(captau: Any, files: Path, tmp_path: Path) -> None:
    words = ("candidates=-", f"references={files / 'c4.json'}", "metrics=[bleu_4,rouge_l]")
    lines = "".join(
        json.dumps({"image_id": i, "caption": c}) + "\n"
        for i, c in json.loads((files / "good.json").read_text()).items()
    ).encode()
    status, out, err = captau(*words, "stdout=scores.jsonl", stdin=lines)
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 40
    assert list(rows[0]) == ["item_id", "image_id", "bleu_4", "rouge_l"]
    assert not list(tmp_path.iterdir()), "a pipe leaves no folder"
    status, table, _ = captau(
        *words, "stdout=scores.csv", "output_dir=out", stdin=gzip.compress(lines)
    )
    assert status == 0
    assert table == (tmp_path / "out" / "scores.csv").read_text()
    assert pd.read_csv(io.StringIO(table))["rouge_l"].tolist() == [r["rouge_l"] for r in rows]
    run_json = json.loads((tmp_path / "out" / "run.json").read_text())
    assert set(run_json["data"]) == {"standard input", str(files / "c4.json")}
    status, out, _ = captau(*words, "stdout=corpus.json", stdin=lines)
    assert json.loads(out)["rouge_l"] == pytest.approx(np.mean([r["rouge_l"] for r in rows]))
    keep = ("keep.metric=rouge_l", "keep.above=0.99", "stdout=kept.json")
    assert len(json.loads(captau(*words, *keep, stdin=lines)[1])) == sum(
        r["rouge_l"] >= 0.99 for r in rows
    )


def test_undefined_is_null_in_lines(captau: Any, files: Path, tmp_path: Path) -> None:
    (tmp_path / "nowhere.py").write_text(
        "def nan(items):\n    return [float('nan')] * len(items)\n"
    )
    status, out, _ = captau(
        f"candidates={files / 'good.json'}",
        'metrics=["python(nowhere:nan)"]',
        "stdout=scores.jsonl",
    )
    assert status == 0
    assert {json.loads(line)["nan"] for line in out.splitlines()} == {None}


def test_lists_on_the_command_line(captau: Any, files: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a, (b) it's.json"
    odd.write_bytes((files / "poor.json").read_bytes())
    status, out, err = captau(
        f'candidates=[{files / "good.json"},"{odd}",x y={files / "poor.json"}]',
        f"references=[c4={files / 'c4.json'},two={files / 'c2.json'}]",
        "metrics=[bleu_1]",
        "output_dir=out",
    )
    assert status == 0, err
    corpus = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert {s: list(of) for s, of in corpus.items()} == {
        s: ["c4", "two"] for s in ("good", "a, (b) it's", "x y")
    }
    assert "Differences, references two" in out
    differences = pd.read_csv(tmp_path / "out" / "differences.csv")
    assert differences.groupby("references", sort=False).size().to_dict() == {"c4": 3, "two": 3}
    for row in differences.to_dict("records"):
        value_a, value_b = (
            corpus[row[system]][row["references"]]["bleu_1"] for system in ("system_a", "system_b")
        )
        assert row["difference"] == pytest.approx(value_a - value_b)
        cells = f"{100 * row['difference']:.1f}"
        assert cells in out
    one = (f"candidates={files / 'good.json'}", f"references={files / 'c4.json'}")
    assert captau(*one, "metrics=[bleu_1]", "output_dir=out")[0] == 0
    assert not (tmp_path / "out" / "differences.csv").exists(), "of an earlier run"


FAULTS = {
    "two of a name": (["candidates=[g.json,g.json]"], "two of candidates are called 'g.json'"),
    "no file": (["candidates=[]"], "the option candidates=… is needed"),
    "stdin twice": (["candidates=-", "references=-"], "standard input can be read only once"),
    "nothing piped": (["candidates=-"], "standard input:1: not valid JSON (nothing is in it)"),
    "keep of two": (
        ["candidates=[g.json,h.json]", "keep.metric=bleu_1", "keep.above=1"],
        "keep.metric= needs one system",
    ),
    "stdout": (["stdout=scores.jsnl"], "unknown value of stdout 'scores.jsnl': did you mean"),
    "stdout of nothing kept": (["stdout=kept.json"], "needs keep.metric=METRIC"),
    "trust": (["trust=publishd"], "trust=publishd is neither 'published' nor"),
    "trust of the newest": (
        ["trust=last"],
        "trust=last is neither 'published' nor the folder of a run",
    ),
    "captions that are no texts": (
        ["candidates=n.json"],
        "n.json:2: image '1': '1' is 3, no caption; take it out",
    ),
    "twice": (
        ["candidates=t.json"],
        "t.json:3: entry 1: a second caption for image '0', whose first is on line 2",
    ),
    "cut": (["candidates=cut.json"], "cut.json:2: not valid JSON"),
    "empty": (["candidates=empty.json"], "empty.json:1: not valid JSON (nothing is in it)"),
    "references for captions": (
        ["candidates=several.json"],
        "several.json:1: image '0': 'caption' is 2 texts, ['a', 'b'], where one is expected",
    ),
    "statistics": (["statistics.replicates=0"], "statistics.replicates is 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line_and_status_2(fault: str, captau: Any, tmp_path: Path) -> None:
    for name, text in {
        "g.json": '{"0": "a", "1": "b"}',
        "h.json": '{"0": "a", "1": "b"}',
        "n.json": '{"0": "a",\n"1": 3}',
        "t.json": '[\n{"image_id": 0, "caption": "a"},\n{"image_id": 0, "caption": "b"}]',
        "cut.json": '[{"image_id": 0, "caption": "a"},\n{"image_id": 1, "cap',
        "empty.json": "",
        "r.json": '{"0": ["a"], "1": ["b"]}',
        "several.json": '{"0": ["a", "b"], "1": ["b", "c"]}',
    }.items():
        (tmp_path / name).write_text(text)
    words, said = FAULTS[fault]
    defaults = ["candidates=g.json", "references=r.json", "metrics=[bleu_1]"]
    keys = {word.partition("=")[0] for word in words}
    given = [*words, *(d for d in defaults if d.partition("=")[0] not in keys)]
    status, out, err = captau(*given)
    assert status == 2
    assert out == ""
    (line,) = err.strip().splitlines()
    assert said in line
    assert not (tmp_path / "results").exists()


def test_files_need_no_names_and_a_pipe_is_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signature is that which `run.json` has, where the run's own notes stay."""
    monkeypatch.chdir(tmp_path)
    captions = json.dumps({"1": "a dog runs", "2": "a man plays guitar"})
    Path("mine.json").write_text(captions)
    references = {"1": ["a dog runs on grass"], "2": ["two men play guitar"]}
    Path("refs.json").write_text(json.dumps(references))

    options = ["metrics=bleu_1", "notes=short"]
    assert run_captau("score", "mine.json", "refs.json", *options, "output_dir=out") == 0
    printed = capsys.readouterr().out
    record = json.loads(Path("out/run.json").read_text(encoding="utf-8"))
    assert record["signatures"]["bleu_1"] in printed.replace("\\|", "|")
    assert record["notes"][0].startswith("2 captions")
    assert "2 captions" not in printed

    # What may be wrong with the numbers is said all the same.
    Path("empty.json").write_text(json.dumps({"1": "", "2": "a man plays guitar"}))
    assert run_captau("score", "empty.json", "refs.json", *options, "output_dir=out2") == 0
    assert "1 of 2 captions is empty, punctuation apart" in capsys.readouterr().out

    give_stdin(monkeypatch, captions.encode())
    assert run_captau("score", "-", "refs.json", *options, "stdout=corpus.json") == 0
    piped = json.loads(capsys.readouterr().out)
    assert piped == json.loads(Path("out/corpus.json").read_text(encoding="utf-8"))
