"""`captau score` of shards: the scores of a small file, whatever the shards and the engine."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.large import merging, tasks
from captau.datasets.reading import shard_rows
from captau.datasets.reading.shard_files import find_shards
from captau.datasets.reading.shard_rows import read_rows
from captau.datasets.reading.table import Columns
from captau.metrics.registry import metric
from captau.metrics.text.cider import document_frequencies
from tests.benchmarks.large.large_sets import (
    METRICS,
    command,
    plain,
    put,
    rows_of,
    score,
    scores_in,
    write,
)
from tests.conftest import run_captau, says

FILES = ("percentiles.csv", "histograms.csv")


@pytest.fixture(scope="module")
def rows():
    return rows_of(90)


@pytest.fixture(scope="module")
def one_shard_run(rows, tmp_path_factory):
    """A run over one shard, whose rows are scored at one go."""
    folder = tmp_path_factory.mktemp("one_shard_run")
    score(write(folder / "set.parquet", rows), folder / "out", rows=1000)
    return folder / "out"


def test_references_that_are_looked_up_are_bounded_as_those_of_rows(tmp_path, monkeypatch):
    """All rows have one image, so that its long reference is in memory once for each row."""
    monkeypatch.setattr(shard_rows, "MOST_BYTES", 100_000)
    row = {"image_id": "1", "caption": "a dog"}
    write(tmp_path / "set.jsonl", [row] * 90)
    write(tmp_path / "r.jsonl", [{**row, "references": ["a dog " * 1_000]}])
    with says("set.jsonl: the texts of rows 0 to 16 have more than 0 MB"):
        score(
            tmp_path / "set.jsonl",
            tmp_path / "out",
            ["bleu_1"],
            references=(str(tmp_path / "r.jsonl"),),
        )


def check_equal(expected: Path, output: Path) -> None:
    """Check that two runs have the same scores, and corpus scores that differ by rounding alone."""
    ours, theirs = (json.loads((o / "corpus.json").read_text()) for o in (output, expected))
    assert ours == pytest.approx(theirs, rel=1e-12)
    for name in FILES:
        assert (output / name).read_bytes() == (expected / name).read_bytes(), name
    ours, theirs = (scores_in(o).sort_values("item_id", kind="stable") for o in (output, expected))
    assert ours["item_id"].tolist() == theirs["item_id"].tolist()
    assert (ours[METRICS].to_numpy() == theirs[METRICS].to_numpy()).all()


def test_a_large_set_scores_as_the_metrics_do_by_themselves(one_shard_run, rows):
    part_scores, items = scores_in(one_shard_run), plain(rows)
    corpus = json.loads((one_shard_run / "corpus.json").read_text())
    table = pd.read_csv(one_shard_run / "percentiles.csv")
    bins = pd.read_csv(one_shard_run / "histograms.csv")
    for name in METRICS:
        scorer = metric(name)
        scores = scorer.score(items)
        assert part_scores[name].to_numpy().tolist() == scores.tolist()
        assert corpus[name] == pytest.approx(scorer.corpus_score(items, scores), rel=1e-13)
        part = table[table["metric"] == name]
        np.testing.assert_allclose(
            part["value"], np.percentile(scores, part["percentile"]), rtol=1e-12, atol=1e-300
        )
        part = bins[bins["metric"] == name]
        edges = [*part["low"], part["high"].iloc[-1]]
        assert part["count"].tolist() == np.histogram(scores, edges)[0].tolist()
        assert part["count"].sum() == len(rows)


@pytest.mark.parametrize(
    "name", ["meteor", "sacrebleu", "rouge_1", "rouge_score_l", "cider(variant=plain)"]
)
def test_metrics_without_document_frequencies_score_the_same_in_parts(name, rows, tmp_path):
    rows = rows[len(rows) // 2 :]
    score(write(tmp_path / "set.jsonl", rows), tmp_path / "out", [name], rows=7)
    scorer, items = metric(name), plain(rows)
    scores = scorer.score(items)
    assert scores_in(tmp_path / "out")[name].tolist() == scores.tolist()
    corpus = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert corpus[scorer.spec] == pytest.approx(scorer.corpus_score(items, scores), rel=1e-12)


KINDS = [
    "a.parquet",
    "a.jsonl",
    "a.ndjson.gz",
    "a.jsonl.zst",
    "a.jsonl.bz2",
    "a.csv",
    "a.tar",
    "a.tar.gz",
]
#: Those that the quick tier reads.
QUICK_KINDS = ("a.parquet", "a.jsonl")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK_KINDS else pytest.mark.slow) for name in KINDS],
)
def test_every_kind_of_shard_gives_the_same_scores(name, one_shard_run, rows, tmp_path):
    write(tmp_path / "set" / name, rows[:50])
    write(tmp_path / "set" / name.replace("a.", "b."), rows[50:])
    score(tmp_path / "set", tmp_path / "out", rows=13)
    check_equal(one_shard_run, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [s["rows"] for s in manifest["shards"]] == [50, 40]
    assert manifest["rows"] == 90
    for number, shard in enumerate(manifest["shards"]):
        path = tmp_path / "out" / "scores" / shard["scores"]["name"]
        assert path.name == f"{number:06d}.parquet"
        assert len(pd.read_parquet(path)) == shard["rows"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == shard["scores"]["sha256"]
    assert not (tmp_path / "out" / ".work").exists()


@pytest.mark.slow
def test_neither_the_shards_nor_their_order_change_a_score(one_shard_run, rows, tmp_path):
    shuffled = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
    paths = [write(tmp_path / f"{i}.jsonl", shuffled[i * 9 : i * 9 + 9]) for i in range(10)]
    score(paths[::-1], tmp_path / "out", rows=4)
    check_equal(one_shard_run, tmp_path / "out")


@pytest.mark.parametrize("name", ["refs.jsonl", "refs.parquet", "refs.json"])
def test_references_may_lie_in_a_file_of_their_own(name, one_shard_run, rows, tmp_path):
    write(tmp_path / "set.jsonl", [{k: r[k] for k in ("image_id", "caption")} for r in rows])
    references = {r["image_id"]: r["references"] for r in rows[::-1]}
    if name == "refs.json":
        (tmp_path / name).write_text(json.dumps(references))
    else:
        write(tmp_path / name, [{"image_id": i, "references": r} for i, r in references.items()])
    score(tmp_path / "set.jsonl", tmp_path / "out", references=(str(tmp_path / name),), rows=20)
    check_equal(one_shard_run, tmp_path / "out")


def test_engine_local_gives_the_scores_of_a_small_file(rows, tmp_path, capsys):
    candidates, references = tmp_path / "c.json", tmp_path / "r.json"
    candidates.write_text(json.dumps([{k: r[k] for k in ("image_id", "caption")} for r in rows]))
    references.write_text(json.dumps({r["image_id"]: r["references"] for r in rows}))
    words = [
        "score",
        f"candidates={candidates}",
        f"references={references}",
        "metrics=[bleu_4,cider]",
    ]
    assert command(*words, f"output_dir={tmp_path / 'small'}", "statistics.interval=none") == 0
    # A run in the folder of one that was killed takes its files of Hydra away, and no living run's.
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (ended.pid, os.getppid()):
        (tmp_path / "large" / f".hydra.{pid}.tmp").mkdir(parents=True)
    assert command(*words, f"output_dir={tmp_path / 'large'}", "engine=local", "workers=0") == 0
    left = {path.name for path in (tmp_path / "large").glob(".hydra*")}
    assert left == {".hydra", f".hydra.{os.getppid()}.tmp"}
    printed = capsys.readouterr().out
    assert "90 captions in" in printed
    # Once below each table; how CIDEr is computed is told of a large set alone, unless notes=full asks.
    assert printed.count("90 captions. Scores ×100.") == 2
    assert printed.count("CIDEr is CIDEr-D as pycocoevalcap computes it.") == 1
    small, large = (
        json.loads((tmp_path / n / "corpus.json").read_text()) for n in ("small", "large")
    )
    assert large == pytest.approx(small, rel=1e-13)
    scores = pd.read_csv(tmp_path / "small" / "scores.csv")
    large_scores = scores_in(tmp_path / "large")
    assert large_scores["item_id"].tolist() == scores["item_id"].tolist()
    assert large_scores["cider"].tolist() == scores["cider"].tolist()
    assert not (tmp_path / "large" / "scores.csv").exists()


def notes_of(output):
    """Return the notes below the table of a large set."""
    text = (output / "table.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and line[0] not in "|*"]


@pytest.mark.parametrize(
    "names", [["a.parquet"], ["a.jsonl", "b.jsonl.gz"], ["a.tar", "b.parquet"]]
)
def test_images_without_a_caption_and_ignored_systems_are_told(names, rows, tmp_path):
    """Of 6 images 4 have captions, one of them in both shards; the 4 captions, or 8, are of two systems."""
    references = tmp_path / "refs.json"
    references.write_text(json.dumps({r["image_id"]: r["references"] for r in rows[:6]}))
    captions = [
        {"image_id": row["image_id"], "caption": row["caption"], "system": f"s{number % 2}"}
        for number, row in enumerate(rows[:4])
    ]
    paths = [write(tmp_path / name, captions) for name in names]
    options = {"references": (str(references),), "rows": 3}
    score(paths, tmp_path / "out", ["rouge_l"], **options)
    notes = notes_of(tmp_path / "out")
    assert (
        "Captions of 4 of 6 images with references; images without a caption enter no score."
        in notes
    )
    assert [note for note in notes if "'system'" in note] == [
        "The column 'system' is ignored: all captions are scored as one set. Score each system by itself to "
        "compare them."
    ]
    record = json.loads((tmp_path / "out" / "distributions.json").read_text())
    assert record["images"] == {"captioned": 4, "referenced": 6}
    again = score(paths, tmp_path / "out", ["rouge_l"], **options)
    assert "was done before" in again.summary
    assert set(notes) == set(again.tables[0].notes)


def test_a_whole_set_without_systems_has_neither_note(rows, tmp_path, one_shard_run):
    references = tmp_path / "refs.json"
    references.write_text(json.dumps({r["image_id"]: r["references"] for r in rows}))
    write(tmp_path / "a.parquet", [{k: r[k] for k in ("image_id", "caption")} for r in rows])
    score(tmp_path / "a.parquet", tmp_path / "out", references=(str(references),))
    for folder in (tmp_path / "out", one_shard_run):
        assert not [n for n in notes_of(folder) if "with references" in n or "system" in n]
    record = json.loads((one_shard_run / "distributions.json").read_text())
    assert (record["images"], record["has_systems"]) == (None, False)


def test_the_table_has_the_corpus_score_and_percentiles_of_each_metric(one_shard_run):
    """Percentiles by NumPy of the scores; corpus scores as corpus.json has them. All are ×100."""
    corpus = json.loads((one_shard_run / "corpus.json").read_text())
    scores = scores_in(one_shard_run)
    labels = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr")
    expected = []
    for label, spec in zip(labels, METRICS, strict=True):
        percentiles = np.percentile(scores[spec], (5, 50, 95))
        cells = " | ".join(f"{100 * value:.1f}" for value in (corpus[spec], *percentiles))
        expected.append(f"| {label} | {cells} |")
    text = (one_shard_run / "table.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| ")][1:] == expected


def test_cider_takes_saved_document_frequencies_beside_the_sets_own(rows, tmp_path):
    references = tmp_path / "refs.json"
    references.write_text(json.dumps({r["image_id"]: r["references"] for r in rows}))
    df = tmp_path / "df.json"
    assert command("score", f"references={references}", f"save_df={df}") == 0
    spec = f"cider(df={df})"
    part = rows[:20]
    score(write(tmp_path / "set.parquet", part), tmp_path / "out", [spec, "cider"], rows=6)
    scores = scores_in(tmp_path / "out")
    for name in (spec, "cider"):
        scorer = metric(name)
        assert scores[scorer.spec].tolist() == scorer.score(plain(part)).tolist()


def test_a_large_set_takes_one_tokeniser_for_its_own_document_frequencies(rows, tmp_path):
    part = [{**row, "caption": f"{row['caption']} 狗在公园里跑"} for row in rows[:12]]
    path = write(tmp_path / "set.parquet", part)
    df, spec = tmp_path / "df.json", "cider(tokenize=zh)"
    document_frequencies([tuple(row["references"]) for row in part]).write(df)
    names = [spec, "bleu_4(tokenize=zh)", f"cider(df={df})", "bleu_4"]
    score(path, tmp_path / "out", names, rows=5)
    scores = scores_in(tmp_path / "out")
    for name in names:
        assert scores[name].tolist() == metric(name).score(plain(part)).tolist()
    with says("count the document frequencies of a large set under different tokenisers"):
        score(path, tmp_path / "both", [spec, "cider"])


KILLER = """
import os, pathlib, signal

def score(items):
    flag = pathlib.Path("killed")
    if not flag.exists() and "image 40" in set(items["image_id"]):
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [float(len(caption)) for caption in items["caption"]]
"""


@pytest.mark.kill
def test_a_worker_that_dies_ends_the_run_which_goes_on_when_started_again(
    one_shard_run, rows, tmp_path, monkeypatch
):
    (tmp_path / "killer.py").write_text(KILLER)
    monkeypatch.chdir(tmp_path)
    for i in range(3):
        write(tmp_path / "set" / f"{i}.parquet", rows[i * 30 : i * 30 + 30])
    metrics = [*METRICS, "python(killer:score)"]
    with says("a worker died", "finished shards are kept", "start the same command again"):
        score("set", "out", metrics, workers=1)
    assert (tmp_path / "killed").exists()
    assert not (tmp_path / "out" / "manifest.json").exists()

    score("set", "out", metrics, workers=2)
    corpus = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert corpus.pop("score") == np.mean([len(r["caption"]) for r in rows])
    expected = json.loads((one_shard_run / "corpus.json").read_text())
    assert corpus == pytest.approx(expected, rel=1e-12)
    ours, theirs = ((o / "percentiles.csv").read_text() for o in (tmp_path / "out", one_shard_run))
    assert ours.startswith(theirs)
    costs = json.loads((tmp_path / "out" / "run.json").read_text())["costs"]["stages"]
    assert costs["count"] | {"tasks": 0, "again": 3} == costs["count"]
    assert costs["score"] | {"tasks": 2, "again": 1} == costs["score"]


def start(*words: str) -> subprocess.Popen[bytes]:
    code = f"from captau.benchmarks.cli.main import main; main({list(words)!r})"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


@pytest.mark.kill
def test_a_run_that_is_killed_at_any_instant_goes_on_and_its_workers_exit(tmp_path):
    """It is killed at instants by lot, and the run that ends has the files of one at one go, but for run.json."""
    rows = rows_of(600, seed=5)
    for i in range(12):
        write(tmp_path / "set" / f"{i}.parquet", rows[i * 50 : i * 50 + 50])
    score(tmp_path / "set", tmp_path / "whole", rows=5)
    words = ["score", f"candidates={tmp_path / 'set'}", f"metrics=[{','.join(METRICS)}]"]
    words += [f"output_dir={tmp_path / 'out'}", "rows=5", "workers=2"]
    rng = np.random.default_rng(1)
    work = tmp_path / "out" / ".work"
    again = 0
    for n_results in sorted(rng.integers(1, 24, 5).tolist()):
        process = start(*words)
        while (
            len(list(work.glob("*/count/*.json")) + list(work.glob("*/score-*/*.json"))) < n_results
        ):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.2))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for_end(list(map(int, children)))
        assert not (tmp_path / "out" / "manifest.json").exists()
        again = len(list(work.glob("*/score-*/*.json")))

    score(tmp_path / "set", tmp_path / "out", rows=5)
    check_equal(tmp_path / "whole", tmp_path / "out")
    for path in (tmp_path / "whole").rglob("*"):
        name = path.relative_to(tmp_path / "whole")
        if path.is_file() and path.name != "run.json":
            assert (tmp_path / "out" / name).read_bytes() == path.read_bytes(), name
    costs = json.loads((tmp_path / "out" / "run.json").read_text())["costs"]["stages"]
    assert costs["score"] | {"again": again, "tasks": 12 - again} == costs["score"]
    assert costs["count"]["tasks"] == 0


def wait_for_end(pids: list[int]) -> None:
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/stat").exists() and state(pid) != "Z" for pid in pids):
        assert time.monotonic() < until, "a worker outlived its run"
        time.sleep(0.1)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_finished_run_is_not_repeated(rows, tmp_path, monkeypatch):
    path = write(tmp_path / "set.jsonl", rows)
    first = score(path, tmp_path / "out")
    before = (tmp_path / "out" / "run.json").read_bytes()
    second = score(path, tmp_path / "out")
    assert "nothing to do" in second.summary
    assert second.corpus == first.corpus
    assert second.tables == first.tables
    assert (tmp_path / "out" / "run.json").read_bytes() == before
    assert not (tmp_path / "out" / ".work").exists()
    # Scores are gone: all is done anew.
    next((tmp_path / "out" / "scores").glob("*.parquet")).unlink()
    assert "nothing to do" not in score(path, tmp_path / "out").summary
    # Other settings replace what was finished.
    score(path, tmp_path / "out", ["bleu_1"], rows=30)
    scores = pd.read_parquet(next((tmp_path / "out" / "scores").glob("*.parquet")))
    assert [name for name in scores.columns if name in METRICS] == ["bleu_1"]


def test_two_runs_write_the_same_files_but_for_run_json(rows, tmp_path):
    """Times, memory and processes stand in run.json alone."""
    path = write(tmp_path / "set.jsonl", rows)
    for output in ("first", "second"):
        score(path, tmp_path / output, rows=20)
    first, second = (
        {p.relative_to(tmp_path / output): p.read_bytes() for p in files if p.name != "run.json"}
        for output in ("first", "second")
        if (files := [p for p in (tmp_path / output).rglob("*") if p.is_file()])
    )
    assert len(first) == 8
    assert first == second


@pytest.mark.parametrize("loss", ["gone", "shorter"])
def test_a_set_that_shrank_does_not_replace_the_scores_of_the_whole(loss, rows, tmp_path):
    for i in range(3):
        write(tmp_path / "set" / f"{i}.jsonl", rows[i * 30 : i * 30 + 30])
    score(tmp_path / "set", tmp_path / "out", ["bleu_1"])
    before = (tmp_path / "out" / "run.json").read_bytes()
    path = tmp_path / "set" / "1.jsonl"
    if loss == "gone":
        path.unlink()
        messages = ("1.jsonl: is gone since", "put it back", "output_dir=")
    else:
        write(path, rows[30:50])
        messages = ("1.jsonl: has 20 captions, but had 30", "put it back", "output_dir=")
    with says(*messages):
        score(tmp_path / "set", tmp_path / "out", ["bleu_1"])
    assert (tmp_path / "out" / "run.json").read_bytes() == before
    score(tmp_path / "set", tmp_path / "other", ["bleu_1"])


@pytest.mark.slow
def test_counts_beyond_memory_are_added_on_the_disk(tmp_path, monkeypatch):
    """DuckDB has 32 MB, of which the counts of 200,000 words need more."""
    words = [f"w{i}" for i in np.random.default_rng(0).permutation(200_000)]
    rows = []
    for i in range(0, len(words), 20):
        references = [" ".join(words[i : i + 20]), " ".join(words[i - 20 : i])]
        rows.append(
            {"image_id": str(i), "caption": " ".join(words[i : i + 5]), "references": references}
        )
    for i in range(2):
        write(tmp_path / "set" / f"{i}.jsonl", rows[i * 5_000 : i * 5_000 + 5_000])
    score(tmp_path / "set", tmp_path / "whole", ["cider"])
    monkeypatch.setattr(merging, "MEMORY", "32MB")
    score(tmp_path / "set", tmp_path / "out", ["cider"])
    ours, theirs = (scores_in(o)["cider"] for o in (tmp_path / "out", tmp_path / "whole"))
    assert ours.tolist() == theirs.tolist()
    assert ours.tolist()[:100] == metric("cider").score(plain(rows)).tolist()[:100]


def test_what_duckdb_lacks_is_one_line(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "MEMORY", "1kB")
    with says("out/.work", "Out of Memory", "start the same command again: what is done is kept"):
        score(write(tmp_path / "set.jsonl", rows), tmp_path / "out", ["cider"])


def test_without_duckdb_the_extra_is_named(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "duckdb", None)  # an import of it fails
    path = write(tmp_path / "set.jsonl", rows)
    words = [f"candidates={path}", "engine=local", f"output_dir={tmp_path / 'out'}"]
    assert command("score", *words) == 2
    message = "large sets need duckdb, which is not installed: pip install 'captau[large]'"
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_small_shards_have_scores_of_their_own(one_shard_run, rows, tmp_path, capsys):
    for i in range(18):
        write(tmp_path / "set" / f"{i}.{'jsonl' if i < 10 else 'tar'}", rows[i * 5 : i * 5 + 5])
    score(tmp_path / "set", tmp_path / "out", rows=20)
    check_equal(one_shard_run, tmp_path / "out")
    names = sorted(p.stem for p in (tmp_path / "out" / "scores").iterdir())
    assert names == [f"{i:06d}" for i in range(18)]
    words = [f"keep.run={tmp_path / 'out'}", "keep.metric=cider", "keep.above=0.5", "workers=0"]
    assert command("score", *words, f"output_dir={tmp_path / 'kept'}") == 0
    scores = scores_in(tmp_path / "out")["cider"].to_numpy().reshape(18, 5)
    shards = pd.read_csv(tmp_path / "kept" / "shards.csv")
    assert shards["kept"].tolist() == (scores >= 0.5).sum(axis=1).tolist()
    examples = pd.read_csv(tmp_path / "kept" / "examples.csv")
    lowest = examples.loc[examples["captions"] == "lowest", "image_id"].iloc[0]
    assert lowest.replace("-", " ") == rows[int(scores.argmin())]["image_id"]


def test_rows_that_repeat_are_counted_over_all_parts(rows, tmp_path):
    repeated = [*rows[:40], *rows[10:30], rows[10]]
    result = score(write(tmp_path / "set.jsonl", repeated), tmp_path / "out", ["bleu_1"], rows=7)
    text = "21 rows repeat the image and the caption of an earlier row"
    assert any(text in note for note in result.tables[0].notes)
    record = json.loads((tmp_path / "out" / "distributions.json").read_text())
    assert record["repeated"] == 21


@pytest.mark.slow
def test_foreign_files_in_the_work_folder_stay(rows, tmp_path):
    path = write(tmp_path / "set.jsonl", rows)
    theirs = tmp_path / "scratch" / "precious.txt"
    theirs.parent.mkdir()
    theirs.touch()
    for metrics in (METRICS, ["bleu_1"]):
        score(path, tmp_path / "out", metrics, work=theirs.parent)
    assert "nothing to do" in score(path, tmp_path / "out", ["bleu_1"], work=theirs.parent).summary
    assert [p.name for p in theirs.parent.iterdir() if p.suffix != ".lock"] == ["precious.txt"]


def test_two_runs_at_once_do_not_share_a_folder(rows, tmp_path):
    from filelock import FileLock

    path = write(tmp_path / "set.jsonl", rows)
    (tmp_path / "out").mkdir()
    with (
        FileLock(tmp_path / "out" / ".work.lock"),
        says("another run is writing there", "output_dir="),
    ):
        score(path, tmp_path / "out")


@pytest.mark.slow
def test_what_a_run_did_is_kept_while_one_of_other_settings_runs(rows, tmp_path, monkeypatch):
    """A run stops for want of room; of another one's settings nothing is done yet; then the first goes on."""
    for i in range(3):
        write(tmp_path / "set" / f"{i}.jsonl", rows[i * 30 : i * 30 + 30])
    with monkeypatch.context() as patched:
        patched.setitem(tasks.STAGES, "score", full_after(2, tasks.STAGES["score"]))
        with says("scores/part", "No space left on device", "make room", "what is done is kept"):
            score(tmp_path / "set", tmp_path / "out")
        with says("No space left on device"):
            score(tmp_path / "set", tmp_path / "out", ["bleu_1"])
    score(tmp_path / "set", tmp_path / "out")
    costs = json.loads((tmp_path / "out" / "run.json").read_text())["costs"]["stages"]
    assert [costs[stage]["again"] for stage in ("count", "merge", "score")] == [3, 1, 2]


def test_a_finished_run_stays_whole_while_another_fails_in_its_folder(rows, tmp_path, monkeypatch):
    path = write(tmp_path / "set.jsonl", rows)
    score(path, tmp_path / "out", ["bleu_1"])
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    with monkeypatch.context() as patched:
        patched.setitem(tasks.STAGES, "summarise", full_after(0, tasks.STAGES["summarise"]))
        with says("No space left on device"):
            score(path, tmp_path / "out", ["rouge_l"])
    assert {p: p.read_bytes() for p in before} == before
    assert "nothing to do" in score(path, tmp_path / "out", ["bleu_1"]).summary


def test_a_shard_that_is_mended_is_done_anew_and_no_other(rows, tmp_path):
    """Without CIDEr, whose document frequencies are of all shards, scores of the others are kept."""
    for i in range(3):
        write(tmp_path / "set" / f"{i}.jsonl", rows[i * 30 : i * 30 + 30])
    bad_line(tmp_path / "set" / "2.jsonl", rows[60:])
    with says("2.jsonl: corrupt"):
        score(tmp_path / "set", tmp_path / "out", ["bleu_1"])
    write(tmp_path / "set" / "2.jsonl", rows[60:])
    score(tmp_path / "set", tmp_path / "out", ["bleu_1"])
    costs = json.loads((tmp_path / "out" / "run.json").read_text())["costs"]["stages"]
    assert costs["score"] | {"again": 2, "tasks": 1} == costs["score"]


def full_after(times, perform):
    """Return a stage whose disk is full after some tasks."""
    n_left = [times]

    def stage(plan, task):
        if not n_left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "scores/part")
        n_left[0] -= 1
        return perform(plan, task)

    return stage


@pytest.mark.parametrize("stage", ["count", "merge"])
def test_a_full_disk_is_named_by_the_folder_that_is_written(stage, rows, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # of a write: without a name

    monkeypatch.setitem(tasks.STAGES, stage, full)
    with says("out/.work", ": No space left on device; make room"):
        score(write(tmp_path / "set.jsonl", rows), tmp_path / "out")


# What is wrong with shards.


def corrupt_parquet(path: Path, rows: list[dict[str, object]]) -> None:
    write(path, rows)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def corrupt_page(path: Path, rows: list[dict[str, object]]) -> None:
    """Write a file with a good footer and a damaged page of values."""
    write(path, rows)
    content = bytearray(path.read_bytes())
    content[60:400] = b"\xff" * 340
    path.write_bytes(bytes(content))


def cut_gzip(path: Path, rows: list[dict[str, object]]) -> None:
    write(path, rows)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def cut_between_members(path: Path, rows: list[dict[str, object]]) -> None:
    """Write what a killed writer leaves, or a copy of whole blocks."""
    write(path, rows)
    path.write_bytes(path.read_bytes()[: 3 * 2 * 512 * 5])


def bad_header(path: Path, rows: list[dict[str, object]]) -> None:
    write(path, rows)
    with tarfile.open(path) as archive:
        offset = archive.getmembers()[30].offset
    content = bytearray(path.read_bytes())
    content[offset : offset + 9] = b"\xff" * 9
    path.write_bytes(bytes(content))


def empty(path: Path, _: list[dict[str, object]]) -> None:
    path.touch()


def bad_line(path: Path, rows: list[dict[str, object]]) -> None:
    write(path, rows)
    path.write_bytes(path.read_bytes() + b'{"image_id": "x", "capt')


def flipped_bit(path: Path, rows: list[dict[str, object]]) -> None:
    """Flip one bit of a caption in a file that has page checksums."""
    pq.write_table(pa.Table.from_pylist(rows), path, compression="none", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index(str(rows[0]["caption"]).encode()) + 2] ^= 1
    path.write_bytes(bytes(content))


CORRUPT = {
    "b.parquet": corrupt_parquet,
    "e.parquet": flipped_bit,
    "c.parquet": corrupt_page,
    "b.jsonl.gz": cut_gzip,
    "b.jsonl.zst": cut_gzip,
    "b.tar.gz": cut_gzip,
    "b.tar": cut_gzip,
    "c.tar": cut_between_members,
    "d.tar": bad_header,
    "c.jsonl.gz": empty,
    "c.jsonl.zst": empty,
    "d.parquet": empty,
    "b.jsonl": bad_line,
}
#: Those that the quick tier reads.
QUICK_CORRUPT = ("e.parquet", "b.tar.gz", "b.jsonl")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK_CORRUPT else pytest.mark.slow)
        for name in CORRUPT
    ],
)
def test_a_corrupt_shard_ends_the_run_or_is_left_out(name, rows, tmp_path):
    good = write(tmp_path / "a.jsonl", rows[:40])
    CORRUPT[name](tmp_path / name, rows[40:])
    paths = [good, tmp_path / name]
    with says(f"{name}: corrupt", "skip_corrupt=true"):
        score(paths, tmp_path / "out", ["cider"])
    scores = score(paths, tmp_path / "skipped", ["cider"], skip_corrupt=True)
    assert "1 of 2 shards were corrupt and left out" in scores.summary
    manifest = json.loads((tmp_path / "skipped" / "manifest.json").read_text())
    assert manifest["rows"] == 40
    assert name in manifest["shards"][1]["skipped"]
    alone = score(good, tmp_path / "alone", ["cider"])
    assert scores.corpus == alone.corpus


def test_a_set_of_corrupt_shards_alone_has_no_captions(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.parquet").touch()
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with says("2 of 2 shards were corrupt and no captions are left", "a.parquet: corrupt"):
        score(paths, tmp_path / "out", skip_corrupt=True)


def test_a_disk_that_fails_makes_no_shard_corrupt(tmp_path):
    """With `skip_corrupt` a shard would be left out for want of room, say for a tar's images."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.txt", b"a dog")
        put(archive, "1.jpg", b"a picture")
    (shard,) = find_shards([str(tmp_path / "a.tar")])
    with pytest.raises(FileNotFoundError):
        list(read_rows(tmp_path / "a.tar", shard, Columns(), 10, images=tmp_path / "gone"))


@pytest.mark.slow
def test_shards_may_have_columns_of_unlike_types(rows, one_shard_run, tmp_path):
    """An id may be a number in one shard and a text in another; references may be missing where no metric needs them."""
    numbered = [{**row, "image_id": i} for i, row in enumerate(rows)]
    texts = [{**row, "image_id": str(i)} for i, row in enumerate(rows)]
    write(tmp_path / "set" / "a.parquet", numbered[:40])
    write(tmp_path / "set" / "b.parquet", texts[40:])
    score(tmp_path / "set", tmp_path / "out")
    scores = scores_in(tmp_path / "out")
    assert scores["image_id"].tolist() == list(map(str, range(90)))
    assert (scores[METRICS].to_numpy() == scores_in(one_shard_run)[METRICS].to_numpy()).all()
    bare = [{key: row[key] for key in ("image_id", "caption")} for row in texts[40:]]
    write(tmp_path / "set" / "b.parquet", bare)
    with says("b.parquet: row 0: no references"):
        score(tmp_path / "set", tmp_path / "other")


def test_a_column_that_is_there_twice_is_named(tmp_path):
    names = ["image_id", "caption", "caption", "references"]
    pq.write_table(
        pa.table([["1"], ["a dog"], ["a cat"], [["a dog"]]], names), tmp_path / "a.parquet"
    )
    with says("a.parquet: has two columns 'caption'"):
        score(tmp_path / "a.parquet", tmp_path / "out")


def test_a_missing_column_is_named_with_the_remedy(rows, tmp_path):
    write(tmp_path / "a.parquet", [{"id": "1", "caption": "a dog"}])
    with says("a.parquet: no column 'image_id'; there are: id, caption", "columns.image_id=NAME"):
        score(tmp_path / "a.parquet", tmp_path / "out")
    write(tmp_path / "a.jsonl", [rows[0], {"image_id": "1", "text": "a dog"}])
    with says("a.jsonl:2: no column 'caption'", "text", "columns.caption=NAME"):
        score(tmp_path / "a.jsonl", tmp_path / "out")
    renamed = [{"id": r["image_id"], "text": r["caption"], "refs": r["references"]} for r in rows]
    write(tmp_path / "b.parquet", renamed)
    words = ["score", f"candidates={tmp_path / 'b.parquet'}", "metrics=bleu_1", "engine=local"]
    words += ["workers=0"]
    words += ["columns.image_id=id", "columns.caption=text", "columns.references=refs"]
    assert command(*words, f"output_dir={tmp_path / 'out b'}") == 0


def test_rows_without_references_or_captions_are_named(rows, tmp_path):
    write(tmp_path / "a.jsonl", [{"image_id": "1", "caption": "a dog"}])
    with says("a.jsonl: row 0: no references", "references=FILE"):
        score(tmp_path / "a.jsonl", tmp_path / "out")
    write(tmp_path / "refs.jsonl", [{"image_id": "2", "references": ["a"]}])
    with says("a.jsonl: row 0: image '1' has no references"):
        score(tmp_path / "a.jsonl", tmp_path / "o", references=(str(tmp_path / "refs.jsonl"),))
    write(tmp_path / "refs.jsonl", [{"image_id": "1", "references": ["a"]}] * 2)
    with says("refs.jsonl: row 1: image '1' comes a second time"):
        score(tmp_path / "a.jsonl", tmp_path / "o", references=(str(tmp_path / "refs.jsonl"),))
    table = pa.table({"image_id": ["1", "2"], "caption": ["a", None], "references": [["b"], ["c"]]})
    pq.write_table(table, tmp_path / "null.parquet")
    with says("null.parquet: row 1: 'caption' is null"):
        score(tmp_path / "null.parquet", tmp_path / "out n")
    table = pa.table({"image_id": ["1"], "caption": ["a"], "references": ["b"]})
    pq.write_table(table, tmp_path / "text.parquet")
    with says("text.parquet: 'references' is string, not a list of texts"):
        score(tmp_path / "text.parquet", tmp_path / "out t")


def test_a_shard_that_changes_during_the_run_ends_it(rows, tmp_path, monkeypatch):
    (tmp_path / "changer.py").write_text(
        "import pathlib\n"
        "def score(items):\n"
        "    with pathlib.Path('set.jsonl').open('a') as stream:\n"
        "        stream.write('\\n')\n"
        "    return [0.0] * len(items)\n"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set.jsonl", rows)
    with says("set.jsonl: changed since the run began", "output_dir="):
        score("set.jsonl", "out", ["python(changer:score)"])
    assert not list((tmp_path / "out" / "scores").glob("*.parquet"))
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_missing_and_unknown_shards_are_named(tmp_path, rows):
    with says("nowhere.parquet: cannot be read"):
        score(tmp_path / "nowhere.parquet", tmp_path / "out")
    with says("*.parquet: no shards there"):
        score(tmp_path / "*.parquet", tmp_path / "out")
    (tmp_path / "folder").mkdir()
    with says("folder: no shards there", "Parquet"):
        score(tmp_path / "folder", tmp_path / "out")
    (tmp_path / "x.docx").touch()
    with says("x.docx: its ending tells no kind"):
        score(tmp_path / "x.docx", tmp_path / "out")
    write(tmp_path / "empty.jsonl", [])
    with says("empty.jsonl: it contains no captions"):
        score(tmp_path / "empty.jsonl", tmp_path / "out")


@pytest.mark.slow
def test_options_of_small_and_of_large_sets_do_not_mix(rows, tmp_path, capsys):
    small, large = tmp_path / "c.parquet", tmp_path / "c.tar"
    for path in (small, large):
        write(path, rows)
    for words, message in (
        (
            [f"candidates={small}", "workers=2"],
            "workers= works on large sets only; add engine=local",
        ),
        (
            [f"candidates={small}", "engine=local", "partial=true"],
            "partial= does not work on large sets",
        ),
        ([f"candidates={large}", "partial=true"], "partial= does not work on large sets"),
        ([f"candidates={large}", "stdout=corpus.json"], "stdout= does not work on large sets"),
        ([f"candidates=[{large},base={large}]"], "'base=' names a system"),
        ([f"candidates={large}", "engine=spark"], "unknown engine 'spark'"),
        ([f"candidates={large}", "ray.address=a:1"], "ray.address=a:1 goes with engine=ray"),
        ([f"candidates={large}", "rows=0"], "rows is 0"),
        ([f"candidates={large}", "keep.metric=cider", "keep.above=1"], "captau score keep.run=DIR"),
    ):
        assert command("score", *words, f"output_dir={tmp_path / 'out'}") == 2
        assert message in capsys.readouterr().err


@pytest.mark.java
def test_a_backend_that_needs_all_captions_at_once_is_refused(rows, tmp_path):
    write(tmp_path / "c.parquet", rows)
    with says("all captions at once"):
        score(tmp_path / "c.parquet", tmp_path / "out", ["cider(backend=pycocoevalcap)"])


def test_shards_are_found_in_their_order(tmp_path):
    for name in ("part-10.parquet", "part-9.parquet", "_SUCCESS", ".hidden.parquet", "notes.txt"):
        (tmp_path / name).touch()
    names = [
        Path(s.path).name for s in find_shards([str(tmp_path), str(tmp_path / "part-9.parquet")])
    ]
    assert names == ["part-9.parquet", "part-10.parquet"]


def test_the_keys_of_a_tar_keep_their_folders(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "x/1.txt", b"a dog runs\n")
        put(archive, "x/1.json", b'{"references": ["a dog"]}')
        put(archive, "x/1.jpg", b"no picture")
        put(archive, "x/2.jpg", b"no caption: no row")
        put(archive, "y/1.txt", b"a cat")
        put(archive, "y/1.json", b'{"references": ["the cat"], "image_id": 7}')
    score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])
    assert scores_in(tmp_path / "out")["image_id"].tolist() == ["x/1", "7"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["1.jpg.1.txt"], ["'1.jpg.1.txt' has dots in its name", "rename it"]),
        (["1.txt", "1.txt"], ["'1.txt' is there twice"]),
        (["1.txt", "1.TXT"], ["'1.TXT' is there twice"]),
    ],
)
def test_a_tar_loses_no_caption_in_silence(names, words, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in names:
            put(archive, name, b"a dog")
    with says("a.tar: member", *words):
        score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_second_archive_behind_the_first_is_named(packing, tmp_path):
    """`cat a.tar b.tar` joins two archives, of which `tarfile` reads the first."""
    for name in ("1", "2"):
        with tarfile.open(tmp_path / name, "w:gz" if packing else "w") as archive:
            put(archive, f"{name}.txt", b"a dog")
    joined = tmp_path / f"a.tar{packing}"
    joined.write_bytes((tmp_path / "1").read_bytes() + (tmp_path / "2").read_bytes())
    with says(f"a.tar{packing}: something follows the end of the archive", "--concatenate"):
        score(joined, tmp_path / "out", ["bleu_1"])


@pytest.mark.parametrize("second", ["1.caption", "1.json"])
def test_a_sample_with_two_captions_is_named(second, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.txt", b"a dog")
        put(archive, second, b'{"caption": "a cat"}')
    with says("a.tar: sample '1': has two captions", "keep one"):
        score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])


def test_a_sample_may_hold_its_caption_as_text_and_in_json(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.txt", b"a dog\n")
        put(archive, "1.json", b'{"caption": "a dog", "references": ["a dog"]}')
    score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])
    assert scores_in(tmp_path / "out")["bleu_1"].tolist() == [pytest.approx(1)]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_caption_that_is_a_link_in_a_tar_is_named(kind, tmp_path):
    """tar packs a second name of a file as a link, which has no content of its own."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.txt", b"a dog")
        link = tarfile.TarInfo("2.txt")
        link.type, link.linkname = kind, "1.txt"
        archive.addfile(link)
    with says("a.tar: member '2.txt' is a link", "tar --dereference --hard-dereference"):
        score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])


def test_files_that_macos_adds_to_a_tar_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.json", b'{"references": ["a dog"]}')
        put(archive, "._1.txt", b"not a caption")
        put(archive, "1.txt", b"a dog")
        link = tarfile.TarInfo("._2.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "._1.txt"
        archive.addfile(link)
    score(tmp_path / "a.tar", tmp_path / "out", ["bleu_1"])
    assert scores_in(tmp_path / "out")["image_id"].tolist() == ["1"]


def test_undefined_scores_have_no_corpus_score(rows, tmp_path, monkeypatch):
    """Percentiles are those of the scores that are defined."""
    (tmp_path / "gaps.py").write_text(
        "def score(items):\n    return [float('nan') if 'dog' in c else 1.0 for c in items['caption']]\n"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set.jsonl", rows)
    scores = score("set.jsonl", "out", ["python(gaps:score)"], rows=10)
    gaps = sum("dog" in r["caption"] for r in rows)
    assert f"undefined for {gaps} captions" in " ".join(scores.tables[0].notes)
    assert list(json.loads(Path("out/corpus.json").read_text()).values()) == [None]
    assert pd.read_csv("out/percentiles.csv")["value"].tolist() == [1.0] * 11
    assert pd.read_csv("out/histograms.csv")["count"].sum() == len(rows) - gaps


@pytest.mark.filterwarnings("error")
def test_infinite_scores_have_percentiles_and_no_histogram(rows, tmp_path, monkeypatch):
    """Neither have they a corpus score."""
    (tmp_path / "far.py").write_text(
        "def score(items):\n    return [float('inf') if 'dog' in c else 1.0 for c in items['caption']]\n"
    )
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "set.jsonl", rows)
    score("set.jsonl", "out", ["python(far:score)"], rows=10)
    assert list(json.loads(Path("out/corpus.json").read_text()).values()) == [None]
    assert pd.read_csv("out/percentiles.csv")["value"].iloc[[0, -1]].tolist() == [1.0, np.inf]
    assert pd.read_csv("out/histograms.csv").empty


def test_what_looks_like_a_fault_of_the_captions_is_counted(tmp_path, capsys) -> None:
    """Faults with which a submission is not valid are counted in all rows, and others in the first rows."""
    rows = [
        {"image": f"{n}.jpg", "caption": f"a dog of number {n}", "references": ["a dog<sep>a cat"]}
        for n in range(12)
    ]
    rows[1]["caption"] = "a **dog**"
    rows[9]["caption"] = ""
    rows[10]["caption"] = "a cat\0"
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(2):
        part = rows[6 * number : 6 * number + 6]
        text = "".join(f"{json.dumps(row)}\n" for row in part)
        (folder / f"{number}.jsonl").write_text(text)
    words = [
        "metrics=[bleu_1]",
        "workers=0",
        "trust=null",
        "rows=3",
        f"output_dir={tmp_path / 'o'}",
    ]
    assert run_captau("score", f"candidates={folder}", *words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 12 captions is empty, punctuation apart, such as that of image '9.jpg'" in shown
    assert "(1.jsonl: row 3)" in shown
    assert "1 of 12 captions holds control characters (NUL and the like), such as" in shown
    assert "Of the first 3: 1 of 3 captions holds Markdown" in shown
    assert "Of the first 3: 3 of 3 references hold" in shown
    assert "as if several captions were joined by it" in shown
    assert "In 0.jsonl, image_id is 'image'." in shown
    assert "All of it is scored as it stands." in shown


def test_an_error_of_a_library_is_repeated_in_part(tmp_path, capsys) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "0.csv").write_bytes(b"image_id,caption,references\n1,a dog,a dog\n" + b"x" * 500)
    assert run_captau("score", f"candidates={folder}", "metrics=[bleu_1]", "workers=0") == 2
    line = capsys.readouterr().err
    assert "0.csv: corrupt (CSV parse error" in line
    assert len(line) < 600
