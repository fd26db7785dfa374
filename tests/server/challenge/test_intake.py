"""What comes in: every file gets a clear verdict, and what is called valid is scored."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import random
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation.evaluator import Prepared
from captau.server.challenge.intake import uploads as intake
from captau.server.storage.database import StoreError
from captau.server.web.errors import RefusedError
from tests.server.challenge.conftest import (
    CAPTIONS,
    RATINGS,
    REFERENCES,
    captions,
    make_site,
    new_account,
    scores,
    write_challenge,
)

NAME = "captions_test2014_mine_results.json"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("challenges")
    for kind in ("captions", "metrics"):
        write_challenge(folder, kind, statistics={"interval": "none"})
    found = {c.kind: Prepared(c) for c in read_challenges(str(folder))}
    for one in found.values():
        one.warm()
    return found


def verdict_of(prepared, folder, data, name):
    """The verdict of a file, sent as `name`."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    (folder / f"upload{Path(name).suffix}").write_bytes(data)
    return intake.check(prepared, folder, name)


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def parquet(text):
    buffer = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_parquet(buffer)
    return buffer.getvalue()


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


GOOD = captions().encode()
SEEDS = {
    "captions": [
        ("c.json", GOOD),
        ("c.zip", zipped(**{NAME: GOOD})),
        ("c.jsonl", lines(json.loads(GOOD))),
    ],
    "metrics": [
        ("s.csv", scores().encode()),
        ("s.parquet", parquet(scores())),
        ("s.jsonl", lines(pd.read_csv(io.StringIO(scores())).to_dict("records"))),
    ],
}


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(5)
        if how == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            del data[at : at + rng.randint(1, 30)]
        elif how == 2:
            data[at:at] = rng.choice(
                [b"\x00", b'"', b"{", b"]", b"\xff", b",", b"PK\x03\x04", b"\n"]
            )
        elif how == 3:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start : start + 40]
        else:
            data = data[: at + 1]
    return bytes(data)


def secrets():
    """Texts of the references, and numbers of the ratings."""
    texts = [
        word for refs in REFERENCES.values() for r in refs for word in r.split() if "zq" in word
    ]
    return [*texts, *map(str, RATINGS)]


def test_a_thousand_mutated_files_get_a_thousand_verdicts(prepared, tmp_path):
    rng, valid, seen = random.Random(1), 0, set()
    told = lambda share, step: None  # noqa: E731
    for number in range(1000):
        kind = ("captions", "metrics")[number % 2]
        name, seed = SEEDS[kind][number // 2 % 3]
        one, folder = prepared[kind], tmp_path / kind
        verdict = verdict_of(one, folder, mutated(rng, seed), name)
        assert verdict.summary.startswith(f"{name}: ")
        assert len(verdict.faults) == min(verdict.n_faults, 50)
        assert str(tmp_path) not in "".join(verdict.faults)
        assert (verdict.n_faults == 0) == (": valid: " in verdict.summary)
        said = " ".join(verdict.faults)
        assert not [word for word in secrets() if word in said]
        if verdict.n_faults:
            seen |= {line.split(": ", 1)[1][:24] for line in verdict.faults}
        else:
            valid += 1
            found = one.evaluate(intake.evaluated_file(one.challenge, folder), told)
            assert len(found.scores) == (4 if kind == "captions" else 2)
    assert valid > 10
    assert len(seen) > 50


@pytest.mark.parametrize(("kind", "number"), [(k, n) for k in SEEDS for n in range(3)])
def test_each_form_is_valid(prepared, tmp_path, kind, number):
    name, data = SEEDS[kind][number]
    verdict = verdict_of(prepared[kind], tmp_path / "x", data, name)
    many = {"captions": "12 captions", "metrics": "24 scores"}[kind]
    assert verdict.summary == f"{name}: valid: {many}"
    assert verdict.faults == []


def test_the_results_on_the_challenges_set_count(tmp_path):
    path = write_challenge(tmp_path, split="test2014")
    one = Prepared(read_challenges(str(path))[0])
    other = "captions_val2014_mine_results.json"
    both = zipped(**{other: b"[]", NAME: GOOD})
    assert not verdict_of(one, tmp_path / "x", both, "b.zip").n_faults
    assert (tmp_path / "x" / "captions.json").read_bytes() == GOOD
    without = Prepared(read_challenges(str(write_challenge(tmp_path)))[0])
    told = verdict_of(without, tmp_path / "x", both, "b.zip")
    assert told.faults == ["b.zip: results on 2 sets; this challenge is of one"]
    # Alone they are taken whatever set their name says.
    assert not verdict_of(one, tmp_path / "x", zipped(**{other: GOOD}), "b.zip").n_faults


def test_scores_of_several_metrics_are_not_one_submission(prepared, tmp_path):
    frame = pd.read_csv(io.StringIO(scores()))
    two = pd.concat([frame.assign(metric="a"), frame.assign(metric="b")]).to_csv(index=False)
    told = verdict_of(prepared["metrics"], tmp_path / "x", two.encode(), "s.csv")
    assert told.faults == ["s.csv: scores of 2 metrics; one a submission"]
    one = frame.assign(metric="a").to_csv(index=False).encode()
    assert not verdict_of(prepared["metrics"], tmp_path / "x", one, "s.csv").n_faults
    path = intake.evaluated_file(prepared["metrics"].challenge, tmp_path / "x")
    plain = tmp_path / "plain.csv"
    plain.write_text(scores())
    told = lambda share, step: None  # noqa: E731
    assert (
        prepared["metrics"].evaluate(path, told).scores
        == prepared["metrics"].evaluate(plain, told).scores
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd.json", "passwd.json"),
        ("C:\\x\\y.zip", "y.zip"),
        ("a\x00b\u202ec.json", "a_b_c.json"),
        ("é ü.json", "é ü.json"),
        ("", "submission"),
        ("x" * 300 + ".json", "x" * 95 + ".json"),
    ],
)
def test_a_strangers_name_is_no_path(given, shown):
    assert intake.file_name(given) == shown


def taken(site, name, *pieces, challenge="small_captions"):
    async def body():
        for piece in pieces:
            yield piece

    return asyncio.run(intake.take(site.store, site.store.challenge(challenge), name, body()))


def test_a_file_is_taken_whole_or_not_at_all(tmp_path):
    site = make_site(tmp_path)
    try:
        sent = taken(site, "a.json", b"[", b"]")
        assert sent.bytes == 2
        assert (tmp_path / "kept" / sent.key / "upload.json").read_bytes() == b"[]"
        kept = sorted((tmp_path / "kept").iterdir())
        for name, pieces, part in (
            ("a.exe", [b""], "a file called .json, .jsonl, .ndjson, .zip is expected"),
            ("a.csv", [b""], "a file called .json"),
            ("a.json", [bytes(1 << 20)] * 33, "more than 32 MB"),
        ):
            with pytest.raises(RefusedError, match=part):
                taken(site, name, *pieces)
        assert sorted((tmp_path / "kept").iterdir()) == kept
    finally:
        site.store.database.close()
    # What became of no submission is gone at the next start.
    again = make_site(tmp_path)
    assert not (tmp_path / "kept" / sent.key).exists()
    again.store.database.close()


def test_captions_of_the_small_challenges_hold_no_secret():
    assert not [word for word in secrets() if word in json.dumps(CAPTIONS) + captions() + scores()]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    site = make_site(tmp_path)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = sorted((tmp_path / "kept").iterdir())
    for where, name in ((intake, "_to_disk"), (Path, "mkdir")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full)
            with pytest.raises(StoreError, match="No space left"):
                taken(site, "a.json", b"[]")
        assert sorted((tmp_path / "kept").iterdir()) == kept
    site.store.database.close()


def test_others_see_all_of_what_a_submission_is_called(tmp_path):
    site = make_site(tmp_path)
    token, _ = new_account(site.store.database)
    account = asyncio.run(site.store.by_token(token))
    sent = taken(site, "a.json", b"[]")
    challenge = site.store.challenge("small_captions")
    given = ("\x00best\u202e \x1b[2Jone\ud800", "two\nlines\u2066\x7f")
    asyncio.run(intake.receive(site.store, challenge, account, sent, *given))
    found = asyncio.run(site.store.submission(sent.key))
    assert (found.system, found.note) == ("best [2Jone", "two\nlines")
    site.store.database.close()
