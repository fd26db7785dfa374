"""The server scores submissions as `captau score` and `captau bench` do, to the last bit.

Source: the commands themselves, on the same files; both demo challenges as `captau serve challenge=demo`
serves them, and submissions as `captau submit` sends them.
"""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

import captau
from captau.benchmarks.cli.main import main
from captau.benchmarks.evaluation.judged_pairs import PAIR_FLOORS
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.registry import load
from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.submission_files import read_replicates
from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import Database
from tests.server.challenge.conftest import create_account


def run(capsys, *words):
    """Run a command and return its status, standard output and standard error."""
    with pytest.raises(SystemExit) as exit_info:
        main(list(words))
    printed = capsys.readouterr()
    return exit_info.value.code, printed.out, printed.err


@pytest.fixture
def folder(tmp_path):
    """Write submissions to both demo challenges, and the references for `captau score`."""
    items = load("demo").items
    for name, system in (("good", "exact"), ("poor", "unrelated")):
        own_items = items[items["system"] == system].iloc[::-1]  # not in the references' order
        rows = [{"image_id": i, "caption": c} for i, c in own_items[["image_id", "caption"]].values]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
        scores = [len(c) if name == "good" else -k % 7 for k, c in enumerate(items["caption"])]
        items[["item_id"]].assign(score=scores).to_csv(tmp_path / f"{name}.csv", index=False)
    rows = json.loads((tmp_path / "good.json").read_text())
    rows[3]["caption"] = " . "
    (tmp_path / "broken.json").write_text(json.dumps([*rows[1:], rows[5], {"image_id": "other"}]))
    (tmp_path / "broken.csv").write_text("item_id,score\nx,1\nx,nan\n")
    first_rows = items.groupby("image_id", sort=False).first()["references"]
    for name, k in (("c5", 5), ("c2", 2)):
        references = {image: list(texts[:k]) for image, texts in first_rows.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(references))
    return tmp_path


def check_captions(folder, capsys, name, key, submission):
    """Compare a submission of captions with `captau score`, and return its run's versions."""
    sets = f"references=[c2={folder / 'c2.json'},c5={folder / 'c5.json'}]"
    out = folder / f"out-{name}"
    words = [f"candidates={folder / name}.json", sets, f"output_dir={out}"]
    assert run(capsys, "score", *words)[0] == 0
    rows = pd.DataFrame(submission["scores"])
    expected = pd.read_csv(out / "corpus.csv")
    columns = {"metric": "metric", "value": "score", "ci_low": "ci_low", "ci_high": "ci_high"}
    for column, expected_column in columns.items():
        assert rows[column].tolist() == expected[expected_column].tolist()
    expected_items = pd.read_csv(out / "scores.csv")
    items = pd.read_parquet(folder / "site" / key / "items.parquet")
    for column in expected_items.columns.drop(["item_id", "image_id"]):
        assert items[column].tolist() == expected_items[column].tolist()
    expected_run = json.loads((out / "run.json").read_text())
    assert submission["run"]["signatures"] == expected_run["signatures"]
    assert submission["run"]["versions"] == expected_run["versions"]


def check_metrics(folder, name, submission):
    """Compare a submission of scores with `captau bench`."""
    results = captau.bench(
        "demo",
        [f"file(path={folder / name}.csv,name=submitted)"],
        ceilings=False,
        output_dir=folder / f"bench-{name}",
    )
    frame = results.correlations
    is_printed = frame["coefficient"].isin(Protocol().coefficients)
    expected = frame[is_printed & ~frame["metric"].isin(PAIR_FLOORS)]
    rows = pd.DataFrame(submission["scores"])
    for column in ("value", "ci_low", "ci_high"):
        assert rows[column].tolist() == expected[column].tolist()
    keys = (expected["coefficient"] + " " + expected["dimension"]).tolist()
    assert rows["metric"].tolist() == keys
    assert submission["run"]["versions"] == results.run["versions"]


def check_replicates(folder, key, submission):
    """Check that there are replicates of every score, with the score in their range."""
    replicates = read_replicates(folder / "site" / key / "drawn.parquet")
    rows = submission["scores"]
    assert list(replicates) == [(row["references"], row["metric"]) for row in rows]
    for row, values in zip(rows, replicates.values(), strict=True):
        assert len(values) == 1000
        assert values.min() <= row["value"] <= values.max()


@pytest.mark.slow
def test_both_kinds_of_challenge_score_as_the_commands_do(folder, start_serve, capsys, monkeypatch):
    server = start_serve("database=site.sqlite3")
    database = Database(folder / "site.sqlite3", SCHEMA, guest=True)
    token, _ = create_account(database)
    monkeypatch.setenv("CAPTAU_TOKEN", token)
    submissions = {}
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
            assert out.endswith(f"its page: {server.url.rstrip('/')}/submissions/{key}\n")
            submissions[name, kind] = key, ChallengeClient(server.url, token).submission(key)
    database.close()

    for (name, kind), (key, submission) in submissions.items():
        assert (submission["state"], submission["system"]) == ("scored", name)
        if kind == "captions":
            check_captions(folder, capsys, name, key, submission)
        else:
            check_metrics(folder, name, submission)
        check_replicates(folder, key, submission)
    last_values = {
        k: submission["scores"][-1]["value"] for k, (_, submission) in submissions.items()
    }
    assert last_values["good", "captions"] > last_values["poor", "captions"]
