"""What the server scores is what `captau score` and `captau bench` score, to the last bit.

Source: the commands themselves, on the same files; both demo challenges as `captau serve challenge=demo`
has them, and submissions as `captau submit` sends them.
"""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

import captau
from captau.benchmarks.cli.main import main
from captau.datasets.registry import load
from captau.server.challenge.client import Client
from captau.server.challenge.evaluation.evaluator import unpack
from captau.server.challenge.migrations import FOLDER
from captau.server.storage.database import Database
from tests.server.challenge.conftest import new_account


def run(capsys, *words):
    """A command: its status, what it printed, what it said on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture(scope="module")
def demo():
    return load("demo")


@pytest.fixture
def folder(tmp_path, demo):
    """Submissions to both demo challenges, and what `captau score` needs for the same."""
    by_image = {i: list(part.iterrows()) for i, part in demo.items.groupby("image_id", sort=False)}
    for name, system in (("good", "exact"), ("poor", "unrelated")):
        chosen = demo.items[demo.items["system"] == system].iloc[::-1]  # in an order of its own
        rows = [{"image_id": i, "caption": c} for i, c in chosen[["image_id", "caption"]].values]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
        made = demo.items[["item_id"]].assign(
            score=[
                len(c) if name == "good" else -k % 7 for k, c in enumerate(demo.items["caption"])
            ]
        )
        made.to_csv(tmp_path / f"{name}.csv", index=False)
    rows = json.loads((tmp_path / "good.json").read_text())
    rows[3]["caption"] = " . "
    (tmp_path / "broken.json").write_text(json.dumps([*rows[1:], rows[5], {"image_id": "other"}]))
    (tmp_path / "broken.csv").write_text("item_id,score\nx,1\nx,nan\n")
    references = {i: rows[0][1]["references"] for i, rows in by_image.items()}
    (tmp_path / "c5.json").write_text(json.dumps({i: list(r) for i, r in references.items()}))
    (tmp_path / "c2.json").write_text(json.dumps({i: list(r[:2]) for i, r in references.items()}))
    return tmp_path


def test_both_kinds_from_the_command_line(folder, served, capsys, monkeypatch):
    server = served("database=site.sqlite3")
    database = Database(str(folder / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    token, _ = new_account(database)
    monkeypatch.setenv("CAPTAU_TOKEN", token)
    found = {}
    for name in ("good", "poor", "broken"):
        for kind, ending in (("captions", "json"), ("metrics", "csv")):
            words = [f"challenge=demo_{kind}", f"url={server.url}", f"system={name}"]
            status, out, err = run(capsys, "submit", str(folder / f"{name}.{ending}"), *words)
            if name == "broken":
                assert status == 2
                assert f"{name}.{ending}: not valid: " in out
                assert str(folder) not in out + err
                continue
            assert status == 0, (out, err)
            key = re.search(r" as (\w+)", out)[1]
            found[name, kind] = key, Client(server.url, token).submission(key)
    database.close()

    for (name, kind), (key, got) in found.items():
        assert got["state"] == "scored"
        assert got["system"] == name
        rows = pd.DataFrame(got["scores"])
        kept = folder / "site" / key
        if kind == "captions":
            sets = f"references=[c2={folder / 'c2.json'},c5={folder / 'c5.json'}]"
            out = folder / f"out-{name}"
            words = [f"candidates={folder / name}.json", sets, f"output_dir={out}"]
            assert run(capsys, "score", *words)[0] == 0
            wanted = pd.read_csv(out / "corpus.csv")
            assert rows["metric"].tolist() == wanted["metric"].tolist()
            assert rows["value"].tolist() == wanted["score"].tolist()
            assert rows["ci_low"].tolist() == wanted["ci_low"].tolist()
            assert rows["ci_high"].tolist() == wanted["ci_high"].tolist()
            of_items = pd.read_csv(out / "scores.csv")
            kept_items = pd.read_parquet(kept / "items.parquet")
            for column in of_items.columns.drop(["item_id", "image_id"]):
                assert kept_items[column].tolist() == of_items[column].tolist()
            told = json.loads((out / "run.json").read_text())
        else:
            wanted = captau.bench(
                "demo",
                [f"file(path={folder / name}.csv,name=submitted)"],
                ceilings=False,
                output_dir=folder / f"bench-{name}",
            )
            table = wanted.correlations
            assert rows["value"].tolist() == table["value"].tolist()
            assert rows["ci_low"].tolist() == table["ci_low"].tolist()
            assert rows["ci_high"].tolist() == table["ci_high"].tolist()
            keys = (table["coefficient"] + " " + table["dimension"]).tolist()
            assert rows["metric"].tolist() == keys
            told = wanted.run
        if kind == "captions":
            assert got["run"]["signatures"] == told["signatures"]
        assert got["run"]["versions"] == told["versions"]
        # The drawn scores have the value in their midst, and are of every row.
        drawn = unpack((kept / "drawn.parquet").read_bytes())
        assert [f"{r} {m}" for r, m in drawn] == [
            f"{r} {m}" for r, m in zip(rows["references"], rows["metric"], strict=True)
        ]
        for (_, row), replicates in zip(rows.iterrows(), drawn.values(), strict=True):
            assert len(replicates) == 1000
            assert replicates.min() <= row["value"] <= replicates.max()
    better = {k: v[1]["scores"][-1]["value"] for k, v in found.items()}
    assert better["good", "captions"] > better["poor", "captions"]
