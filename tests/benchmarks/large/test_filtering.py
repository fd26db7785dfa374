"""`captau score keep.run=`: kept rows are those that were scored, and the report adds up."""

from __future__ import annotations

import gzip
import json
import tarfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.large import threshold
from captau.benchmarks.large.run_folder import lock_folder
from captau.benchmarks.statistics.preferences import wilson_interval
from tests.benchmarks.large.large_sets import command, put, rows_of, score, scores_in, write
from tests.conftest import says


@pytest.fixture(scope="module")
def rows():
    return [{**row, "url": f"http://x/{i}"} for i, row in enumerate(rows_of(60, seed=2))]


def filter_run(run, output, *words, metric="cider"):
    return command(
        "score",
        f"keep.run={run}",
        f"output_dir={output}",
        f"keep.metric={metric}",
        "workers=0",
        *words,
    )


def test_an_image_that_is_a_link_in_a_tar_is_not_dropped_without_a_word(tmp_path, capsys):
    """Scores of texts need no image; a copy of the sample does."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "1.json", b'{"caption": "a dog", "references": ["a dog"]}')
        link = tarfile.TarInfo("1.jpg")
        link.type, link.linkname = tarfile.LNKTYPE, "0.jpg"
        archive.addfile(link)
    score(tmp_path / "a.tar", tmp_path / "run", ["bleu_1"])
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.share=1", metric="bleu_1") == 2
    assert "a.tar: member '1.jpg' is a link" in capsys.readouterr().err


def write_three_shards(rows, folder):
    for i in range(3):
        write(folder / "set" / f"{i}.jsonl", rows[i * 20 : i * 20 + 20])


def test_rows_stay_as_they_were_in_every_kind_of_shard(rows, tmp_path, capsys):
    names = ["a.parquet", "b.jsonl", "c.jsonl.gz", "d.jsonl.zst", "e.tar", "f.tar.gz"]
    for i, name in enumerate(names):
        write(tmp_path / "set" / name, rows[i * 10 : i * 10 + 10])
    score(tmp_path / "set", tmp_path / "run", ["cider", "bleu_1"], rows=4)
    scores = scores_in(tmp_path / "run")["cider"].to_numpy()
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 0
    expected = [r for r, s in zip(rows, scores, strict=True) if s >= 0.5]
    assert 0 < len(expected) < len(rows)
    assert f"kept {len(expected)} of 60 captions" in capsys.readouterr().out
    folder = tmp_path / "out" / "kept"
    assert [p.name for p in sorted(folder.iterdir())] == [
        *("000000-a.parquet", "000001-b.jsonl", "000002-c.jsonl.gz", "000003-d.jsonl"),
        *("000004-e.tar", "000005-f.tar.gz"),
    ]
    copies = pq.read_table(folder / "000000-a.parquet").to_pylist()
    copies += list(map(json.loads, (folder / "000001-b.jsonl").read_text().splitlines()))
    copies += list(
        map(json.loads, gzip.decompress((folder / "000002-c.jsonl.gz").read_bytes()).splitlines())
    )
    copies += list(map(json.loads, (folder / "000003-d.jsonl").read_text().splitlines()))
    for name in ("000004-e.tar", "000005-f.tar.gz"):
        with tarfile.open(folder / name) as archive:
            members = archive.getmembers()
            assert len(members) % 3 == 0  # json, txt and cls of each
            copies += [
                json.loads(archive.extractfile(m).read())
                for m in members
                if m.name.endswith(".json")
            ]
    assert copies == expected
    table = pd.read_csv(tmp_path / "out" / "shards.csv")
    assert table["kept"].sum() == len(expected)
    assert (table["kept"] + table["dropped"] == table["rows"]).all()
    sides = pd.read_csv(tmp_path / "out" / "percentiles.csv")
    for side, values in (("kept", scores[scores >= 0.5]), ("dropped", scores[scores < 0.5])):
        part = sides[sides["captions"] == side]
        np.testing.assert_allclose(part["score"], np.percentile(values, part["percentile"]))
    examples = pd.read_csv(tmp_path / "out" / "examples.csv", keep_default_na=False)
    by_caption = {r["caption"]: s for r, s in zip(rows, scores, strict=True)}
    above = examples[examples["captions"] == "just above"]
    assert above["score"].tolist() == sorted(scores[scores >= 0.5])[:5]
    assert len(examples) == 15
    assert set(examples["caption"]) <= set(by_caption)
    # What was kept can be scored and filtered again.
    assert score(folder, tmp_path / "again", ["bleu_1"]).summary.startswith(
        f"{len(expected)} captions"
    )


def test_a_filtered_gzip_shard_has_the_same_bytes_each_time(rows, tmp_path):
    """The header of a gzip file may name a file; that of a temporary one would differ."""
    score(write(tmp_path / "a.jsonl.gz", rows), tmp_path / "run", ["cider"])
    for output in ("first", "second"):
        assert filter_run(tmp_path / "run", tmp_path / output, "keep.above=0.5") == 0
    first, second = (
        (tmp_path / output / "kept" / "000000-a.jsonl.gz").read_bytes()
        for output in ("first", "second")
    )
    assert first == second


@pytest.mark.parametrize("kind", ["categories", "views", "lists of one length"])
def test_texts_that_pandas_and_polars_write_are_kept_as_they_are(kind, rows, tmp_path):
    table = pa.Table.from_pylist([{**r, "references": r["references"][:1]} for r in rows])
    score(write(tmp_path / "a.parquet", table.to_pylist()), tmp_path / "plain", ["cider"])
    captions, lists = table["caption"], table["references"]
    table = {
        "categories": lambda: table.set_column(1, "caption", captions.dictionary_encode()),
        "views": lambda: table.set_column(1, "caption", captions.cast(pa.string_view())),
        "lists of one length": lambda: table.set_column(
            2, "references", lists.cast(pa.list_(pa.string(), 1))
        ),
    }[kind]()
    pq.write_table(table, tmp_path / "b.parquet")
    score(tmp_path / "b.parquet", tmp_path / "run", ["cider"])
    scores = scores_in(tmp_path / "run")["cider"]
    assert scores.tolist() == scores_in(tmp_path / "plain")["cider"].tolist()
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 0
    copy = pq.read_table(tmp_path / "out" / "kept" / "000000-b.parquet")
    assert copy.schema == table.schema
    assert (
        copy.to_pylist()
        == [r for r, s in zip(table.to_pylist(), scores, strict=True) if s >= 0.5]
        != []
    )


@pytest.mark.slow
def test_the_threshold_is_the_lowest_that_reaches_a_precision(tmp_path, capsys):
    """The threshold and the share of good captions are those of `captau thresholds`."""
    import captau

    items = captau.load("demo").items
    rows = [
        {"image_id": i, "caption": c, "references": list(r)}
        for i, c, r in zip(items["image_id"], items["caption"], items["references"], strict=True)
    ]
    write(tmp_path / "set.parquet", rows)
    metrics = ["cider", "rouge_l", "bleu_1"]
    score(tmp_path / "set.parquet", tmp_path / "run", metrics, rows=100)
    curves = tmp_path / "curves"
    assert command("thresholds", "metrics=[rouge_l,bleu_1]", f"output_dir={curves}") == 0
    both = pd.read_csv(curves / "thresholds.csv")
    table = both[both["metric"] == "rouge_l"]
    row = table[table["precision"] >= 0.6].iloc[-1]
    words = [f"keep.thresholds={curves}", "keep.precision=0.6"]
    assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric="rouge_l") == 0
    threshold = json.loads((tmp_path / "out" / "run.json").read_text())["known"]
    assert threshold["threshold"] == row["threshold"]
    assert threshold["precision"] == row["precision"]
    assert (threshold["low"], threshold["high"]) == wilson_interval(
        row["precision"], int(row["n_kept"])
    )
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        f"expected precision {row['precision']:.3f} (95 % interval {threshold['low']:.3f}"
        in printed
    )
    scores = scores_in(tmp_path / "run")["rouge_l"]
    n_kept = (scores >= row["threshold"]).sum()
    assert f"kept {n_kept} of 360 captions ({n_kept / 360:.1%}), in" in printed
    row = both[(both["metric"] == "bleu_1") & (both["precision"] >= 0.6)].iloc[-1]
    assert filter_run(tmp_path / "run", tmp_path / "bleu", *words, metric="bleu_1") == 0
    found = json.loads((tmp_path / "bleu" / "run.json").read_text())["known"]
    assert (found["threshold"], found["precision"]) == (row["threshold"], row["precision"])
    # Of several dimensions one is chosen.
    capsys.readouterr()
    other = table.assign(dimension="detail", threshold=9.0)
    pd.concat([other, table]).to_csv(curves / "thresholds.csv", index=False)
    assert filter_run(tmp_path / "run", tmp_path / "o", *words, metric="rouge_l") == 2
    choices = "keep.dataset=demo keep.dimension=detail, keep.dataset=demo keep.dimension=overall"
    assert f"several curves of rouge_l; choose one: {choices}" in capsys.readouterr().err
    words.append("keep.dimension=overall")
    assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric="rouge_l") == 0
    again = json.loads((tmp_path / "out" / "run.json").read_text())["known"]
    assert again["threshold"] == threshold["threshold"]
    # A curve that does not get so far.
    table[table["precision"] < 0.6].to_csv(curves / "thresholds.csv", index=False)
    assert filter_run(tmp_path / "run", tmp_path / "o", *words, metric="rouge_l") == 2
    message = capsys.readouterr().err
    assert "no threshold of rouge_l reaches precision 0.6; the most is 0.5" in message
    assert filter_run(tmp_path / "run", tmp_path / "o", *words, metric="cider") == 2
    assert "weighs words by the set that it scores" in capsys.readouterr().err


@pytest.mark.slow
def test_bad_options_and_changed_shards_are_one_line(rows, tmp_path, capsys):
    path = write(tmp_path / "set.jsonl", rows)
    score(path, tmp_path / "run", ["cider", "rouge_1"])
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=1", metric="bleu_1") == 2
    assert "unknown metric of this run 'bleu_1'" in capsys.readouterr().err
    for metric, words, message in (
        ("cider", [], "say which captions are kept"),
        ("cider", ["keep.precision=0.9"], "keep.precision= needs keep.thresholds=DIR"),
        (
            "rouge_1",
            ["keep.precision=0.9", f"keep.thresholds={tmp_path}"],
            "no finished run of captau thresholds",
        ),
        ("cider", ["keep.precision=2", f"keep.thresholds={tmp_path}"], "keep.precision is 2"),
        ("cider", ["keep.above=nan"], "keep.above is nan"),
        ("cider", ["keep.above=1", "keep.share=0.5"], "say which captions are kept, in one way"),
        ("cider", ["keep.share=0"], "keep.share is 0"),
        ("chair_i", ["keep.share=0.5"], "low scores of chair_i are better"),
    ):
        assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric=metric) == 2
        assert message in capsys.readouterr().err
    assert filter_run(tmp_path / "nowhere", tmp_path / "out", "keep.above=1") == 2
    assert "no manifest.json in it" in capsys.readouterr().err
    assert command("score", f"run={tmp_path / 'run'}") == 2
    assert f"captau score keep.run={tmp_path / 'run'} filters it" in capsys.readouterr().err
    write(path, rows[:5])
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=1") == 2
    assert (
        "set.jsonl: changed since it was scored; put it back, or score the set anew"
        in capsys.readouterr().err
    )
    assert command("score", "keep.run=x", "keep.above=1") == 2
    assert "keep.metric=METRIC is needed" in capsys.readouterr().err


def test_scores_that_are_not_those_of_the_manifest_are_not_filtered(rows, tmp_path, capsys):
    path = write(tmp_path / "a.jsonl", rows)
    score(path, tmp_path / "run", ["rouge_l"])
    scores = tmp_path / "run" / "scores" / "000000.parquet"
    frame = pd.read_parquet(scores)
    frame.assign(rouge_l=1.0).to_parquet(scores)
    words = ["keep.above=0.1"]
    assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric="rouge_l") == 2
    assert "000000.parquet: is not what was scored" in capsys.readouterr().err
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric="rouge_l") == 2
    message = "manifest.json: another version of captau wrote it; score the set anew"
    assert message in capsys.readouterr().err


def test_a_run_is_not_filtered_into_itself(rows, tmp_path, capsys, monkeypatch):
    score(write(tmp_path / "set.jsonl", rows), tmp_path / "run", ["cider"])
    before = sorted(p.name for p in (tmp_path / "run").iterdir())
    monkeypatch.chdir(tmp_path)
    assert filter_run(tmp_path / "run", "run", "keep.above=0.5") == 2
    assert "output_dir=run is the scored run itself" in capsys.readouterr().err
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == before


def test_a_folder_of_kept_shards_belongs_to_one_run(rows, tmp_path, capsys):
    write_three_shards(rows, tmp_path)
    score(tmp_path / "set", tmp_path / "run", ["cider"])
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 0
    score(tmp_path / "set" / "1.jsonl", tmp_path / "run", ["cider"])
    capsys.readouterr()
    with lock_folder(tmp_path / "out" / ".work", "out"):
        assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 2
    assert "out: another run is writing there" in capsys.readouterr().err
    assert len(list((tmp_path / "out" / "kept").iterdir())) == 3
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 0
    assert [p.name for p in (tmp_path / "out" / "kept").iterdir()] == ["000000-1.jsonl"]


@pytest.mark.parametrize("share", [0.5, 0.1, 1.0])
def test_the_best_share_is_exact_over_all_parts(share, rows, tmp_path, capsys):
    """The expected threshold is the score at the rank that the share rounds up to, of all scores sorted."""
    write_three_shards(rows, tmp_path)
    score(tmp_path / "set", tmp_path / "run", ["cider"], rows=7)
    assert filter_run(tmp_path / "run", tmp_path / "out", f"keep.share={share}") == 0
    scores = scores_in(tmp_path / "run")["cider"].to_numpy()
    threshold = np.sort(scores)[::-1][round(share * 60) - 1]
    n_kept = (scores >= threshold).sum()
    assert f"kept {n_kept} of 60 captions" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out" / "shards.csv")["kept"].sum() == n_kept
    assert (
        json.loads((tmp_path / "out" / "run.json").read_text())["known"]["threshold"] == threshold
    )


def test_captions_that_tie_with_the_last_of_the_best_share_are_kept_and_named(tmp_path, capsys):
    captions = ["a dog runs", "a dog runs", "a dog runs", "a cat sits", "two men"]
    rows = [
        {"image_id": str(i), "caption": caption, "references": ["a dog runs"]}
        for i, caption in enumerate(captions)
    ]
    score(write(tmp_path / "a.jsonl", rows), tmp_path / "run", ["rouge_l"], rows=2)
    words = ["keep.share=0.4"]
    assert filter_run(tmp_path / "run", tmp_path / "out", *words, metric="rouge_l") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "kept 3 of 5 captions" in printed
    assert "3 captions tie at 1. All of them are kept, 1 more than the share." in printed
    assert json.loads((tmp_path / "out" / "run.json").read_text())["tied"] == 3


def test_a_run_is_filtered_from_any_folder(rows, tmp_path, monkeypatch):
    """The paths of the shards start where the set was scored, and other relative paths where it is filtered."""
    write(tmp_path / "there" / "set.jsonl", rows)
    monkeypatch.chdir(tmp_path / "there")
    score("set.jsonl", "run", ["cider"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert filter_run("../there/run", "out", "keep.above=0.5") == 0
    assert [p.name for p in (tmp_path / "here" / "out" / "kept").iterdir()] == ["000000-set.jsonl"]
    assert pd.read_csv("out/shards.csv")["shard"].tolist() == ["set.jsonl"]


@pytest.mark.parametrize("refusal", ["a changed shard", "a shard that is gone", "damaged scores"])
def test_a_refused_filter_leaves_nothing_behind(refusal, rows, tmp_path, capsys):
    write_three_shards(rows, tmp_path)
    score(tmp_path / "set", tmp_path / "run", ["cider"])
    assert filter_run(tmp_path / "run", tmp_path / "earlier", "keep.above=0.5") == 0
    before = {p: p.is_dir() or p.read_bytes() for p in (tmp_path / "earlier").rglob("*")}
    shard = tmp_path / "set" / "2.jsonl"
    if refusal == "a changed shard":
        write(shard, rows[:5])
    elif refusal == "a shard that is gone":
        shard.unlink()
    else:
        next((tmp_path / "run" / "scores").iterdir()).write_bytes(b"")
    for output in ("out", "earlier"):
        assert filter_run(tmp_path / "run", tmp_path / output, "keep.above=0.5") == 2
    name = "scores" if refusal == "damaged scores" else "2.jsonl"
    assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert {p: p.is_dir() or p.read_bytes() for p in (tmp_path / "earlier").rglob("*")} == before


def test_a_filter_that_fails_on_its_way_leaves_nothing_behind(rows, tmp_path, capsys):
    """JSON that is no JSON lines is scored, but cannot be filtered; earlier shards are copied before."""
    write(tmp_path / "a.jsonl", rows[:20])
    captions = [{"image_id": r["image_id"], "caption": r["caption"]} for r in rows[20:]]
    (tmp_path / "b.json").write_text(json.dumps(captions))
    paths, references = [tmp_path / "a.jsonl", tmp_path / "b.json"], (str(tmp_path / "r.jsonl"),)
    write(tmp_path / "r.jsonl", [{**r, "caption": ""} for r in rows])
    score(paths, tmp_path / "run", ["cider"], references=references)
    assert filter_run(tmp_path / "run", tmp_path / "out", "keep.above=0.5") == 2
    assert "b.json: write it as JSON lines to filter it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("record", "is_refused"),
    [
        ({"signatures": {"rouge_l": "rouge_l|1"}}, False),
        ({"signatures": {"rouge_l": "rouge_l|2"}}, True),
        ({"signatures": {"cider": "cider|1"}}, False),
        ({"signatures": None}, False),
        ({}, False),
    ],
)
def test_a_curve_is_of_the_metric_that_scored(record, is_refused, tmp_path):
    """By its signature, where the run of `captau thresholds` has one."""
    curve = {"dataset": ["d", "d"], "dimension": ["o", "o"], "metric": ["rouge_l", "cider"]}
    pd.DataFrame(curve).to_csv(tmp_path / "thresholds.csv", index=False)
    (tmp_path / "run.json").write_text(json.dumps(record))
    config = SimpleNamespace(thresholds=tmp_path, dataset=None, dimension=None, metric="rouge_l")
    path = tmp_path / "thresholds.csv"
    if is_refused:
        message = (
            f"metric rouge_l was another one when {path} was made (rouge_l|2) than when the captions were "
            f"scored (rouge_l|1); run captau thresholds anew"
        )
        with says(message):
            threshold.read_curve(config, path, "rouge_l|1")
    else:
        points = threshold.read_curve(config, path, "rouge_l|1")
        assert points.to_dict("records") == [
            {"dataset": "d", "dimension": "o", "metric": "rouge_l"}
        ]
