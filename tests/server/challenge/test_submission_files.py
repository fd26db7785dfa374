"""Uploaded files: every file gets a clear verdict, and every file found valid is scored."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import json
import os
import random
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from captau.server.challenge import submission_files
from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import make_evaluator
from captau.server.storage.database import StoreError
from captau.server.web.errors import RefusedError
from tests.server.challenge.conftest import (
    CAPTIONS,
    captions_json,
    create_account,
    make_site,
    private_texts,
    scores_csv,
    write_challenge,
)

COCO_NAME = "captions_test2014_mine_results.json"


def ignore_progress(share, step):
    """Report progress to nobody."""


@pytest.fixture(scope="module")
def evaluators(tmp_path_factory):
    """Return the evaluators of both small challenges, by kind."""
    folder = tmp_path_factory.mktemp("challenges")
    for kind in ("captions", "metrics"):
        write_challenge(folder, kind, statistics={"interval": "none"})
    by_kind = {c.kind: make_evaluator(c) for c in read_challenges(str(folder))}
    for evaluator in by_kind.values():
        evaluator.warm_up()
    return by_kind


@pytest.fixture
def site(tmp_path):
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def check(evaluator, folder, data, name):
    """Return the verdict on a file that is sent as `name`."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    (folder / f"upload{Path(name).suffix}").write_bytes(data)
    return evaluator.check_submission(folder, name)


def zip_files(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def to_parquet(text):
    buffer = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_parquet(buffer)
    return buffer.getvalue()


def to_json_lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


VALID_JSON = captions_json().encode()
VALID_FILES = {
    "captions": [
        ("c.json", VALID_JSON),
        ("c.zip", zip_files(**{COCO_NAME: VALID_JSON})),
        ("c.jsonl", to_json_lines(json.loads(VALID_JSON))),
    ],
    "metrics": [
        ("s.csv", scores_csv().encode()),
        ("s.parquet", to_parquet(scores_csv())),
        ("s.jsonl", to_json_lines(pd.read_csv(io.StringIO(scores_csv())).to_dict("records"))),
    ],
}


def mutate(rng, data):
    """Return the data with one to four random changes."""
    data = bytearray(data)
    snippets = [b"\x00", b'"', b"{", b"]", b"\xff", b",", b"PK\x03\x04", b"\n"]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + rng.randint(1, 30)]
            case 2:
                data[at:at] = rng.choice(snippets)
            case 3:
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + 40]
            case _:
                data = data[: at + 1]
    return bytes(data)


def test_a_thousand_mutated_files_get_a_verdict_each(evaluators, tmp_path):
    rng, n_valid, messages = random.Random(1), 0, set()
    for number in range(1000):
        kind = ("captions", "metrics")[number % 2]
        name, data = VALID_FILES[kind][number // 2 % 3]
        evaluator, folder = evaluators[kind], tmp_path / kind
        verdict = check(evaluator, folder, mutate(rng, data), name)
        assert verdict.summary.startswith(f"{name}: ")
        assert len(verdict.faults) == min(verdict.n_faults, 50)
        assert str(tmp_path) not in "".join(verdict.faults)
        assert (verdict.n_faults == 0) == (": valid: " in verdict.summary)
        faults = " ".join(verdict.faults)
        assert not [private for private in private_texts() if private in faults]
        if verdict.n_faults:
            messages |= {line.split(": ", 1)[1][:24] for line in verdict.faults}
        else:
            n_valid += 1
            evaluation = evaluator.evaluate(folder, ignore_progress)
            assert len(evaluation.scores) == (4 if kind == "captions" else 2)
    assert n_valid > 10
    assert len(messages) > 50


@pytest.mark.parametrize(("kind", "number"), [(k, n) for k in VALID_FILES for n in range(3)])
def test_each_file_format_is_valid(evaluators, tmp_path, kind, number):
    name, data = VALID_FILES[kind][number]
    verdict = check(evaluators[kind], tmp_path / "x", data, name)
    content = {"captions": "12 captions", "metrics": "24 scores"}[kind]
    assert verdict.summary == f"{name}: valid: {content}"
    assert verdict.faults == []


def test_of_an_archive_the_results_on_the_challenge_s_split_are_checked(tmp_path):
    (challenge,) = read_challenges(str(write_challenge(tmp_path, split="test2014")))
    evaluator = make_evaluator(challenge)
    val_name = "captions_val2014_mine_results.json"
    both = zip_files(**{val_name: b"[]", COCO_NAME: VALID_JSON})
    assert not check(evaluator, tmp_path / "x", both, "b.zip").n_faults
    assert (tmp_path / "x" / "captions.json").read_bytes() == VALID_JSON
    (without_split,) = read_challenges(str(write_challenge(tmp_path)))
    verdict = check(make_evaluator(without_split), tmp_path / "x", both, "b.zip")
    assert verdict.faults == ["b.zip: results on 2 sets; this challenge has one"]
    # A single member is taken whatever split its name says.
    single = zip_files(**{val_name: VALID_JSON})
    assert not check(evaluator, tmp_path / "x", single, "b.zip").n_faults


def test_scores_of_several_metrics_are_refused(evaluators, tmp_path):
    evaluator, folder = evaluators["metrics"], tmp_path / "x"
    frame = pd.read_csv(io.StringIO(scores_csv()))
    two = pd.concat([frame.assign(metric="a"), frame.assign(metric="b")]).to_csv(index=False)
    verdict = check(evaluator, folder, two.encode(), "s.csv")
    assert verdict.faults == ["s.csv: scores of 2 metrics; a submission has one"]
    named = frame.assign(metric="a").to_csv(index=False).encode()
    assert not check(evaluator, folder, named, "s.csv").n_faults
    named_scores = evaluator.evaluate(folder, ignore_progress).scores
    assert not check(evaluator, folder, scores_csv().encode(), "s.csv").n_faults
    assert evaluator.evaluate(folder, ignore_progress).scores == named_scores


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd.json", "passwd.json"),
        ("C:\\x\\y.zip", "y.zip"),
        ("a\x00b\u202ec.json", "a_b_c.json"),
        ("é ü.json", "é ü.json"),
        ("", "submission"),
        ("x" * 300 + ".json", "x" * 95 + ".json"),
    ],
)
def test_a_sender_s_file_name_is_no_path(name, cleaned):
    assert submission_files.clean_file_name(name) == cleaned


def store(site, name, *pieces):
    async def body():
        for piece in pieces:
            yield piece

    challenge = site.store.get_challenge("small_captions")
    return asyncio.run(submission_files.store_upload(site.store, challenge, name, body()))


def test_a_file_is_stored_whole_or_not_at_all(tmp_path):
    site = make_site(tmp_path)
    folder = tmp_path / "files"
    try:
        upload = store(site, "a.json", b"[", b"]")
        assert upload.bytes == 2
        assert upload.key.startswith("c"), "spreadsheets take a key of digits for a number"
        assert (folder / upload.key / "upload.json").read_bytes() == b"[]"
        before = sorted(folder.iterdir())
        for name, pieces, message in (
            ("a.exe", [b""], "the name of the file must end in .json, .jsonl, .ndjson, .zip"),
            ("a.csv", [b""], "the name of the file must end in .json"),
            ("a.json", [bytes(1 << 20)] * 33, "larger than 32 MB"),
        ):
            with pytest.raises(RefusedError, match=message):
                store(site, name, *pieces)
        assert sorted(folder.iterdir()) == before
    finally:
        site.store.database.close()
    # An upload that became no submission is removed at the next start.
    reopened = make_site(tmp_path)
    assert not (folder / upload.key).exists()
    reopened.store.database.close()


def test_public_data_of_the_small_challenges_hold_no_private_texts():
    public = json.dumps(CAPTIONS) + captions_json() + scores_csv()
    assert not [private for private in private_texts() if private in public]


def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path, site, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = tmp_path / "files"
    before = sorted(folder.iterdir())
    for owner, name in ((submission_files, "_flush_to_disk"), (Path, "mkdir")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(StoreError, match="No space left"):
                store(site, "a.json", b"[]")
        assert sorted(folder.iterdir()) == before


def submit(site, texts, file="a.json"):
    """Submit a file with texts for system and note, and return the submission."""
    token, _ = create_account(site.store.database)
    account = asyncio.run(site.tokens.find_account(token))
    upload = store(site, file, b"[]")
    challenge = site.store.get_challenge("small_captions")
    asyncio.run(submission_files.submit_upload(site.store, challenge, account, upload, *texts))
    return asyncio.run(site.store.load_submission(upload.key))


def test_invisible_characters_of_system_and_note_are_removed(site):
    submission = submit(site, ("\x00best\u202e \x1b[2Jone\ud800", "two\nlines\u2066\x7f"))
    assert (submission.system, submission.note) == ("best [2Jone", "two\nlines")


@pytest.mark.parametrize(
    ("system", "file", "shown"),
    [
        ("=HYPERLINK(1)", "a.json", "HYPERLINK(1)"),
        ("+-@=1+1", "a.json", "1+1"),
        ("-", "-cmd.json", "cmd"),
        ("\u202e", "+.json", "system"),
    ],
)
def test_no_system_is_named_like_a_formula_of_a_spreadsheet(site, system, file, shown):
    assert submit(site, (system, ""), file).system == shown


def test_names_of_files_are_cleaned_and_name_the_system(site):
    challenge = site.store.get_challenge("small_captions")

    async def body():
        yield VALID_JSON

    async def submit(account, sent):
        upload = await submission_files.store_upload(site.store, challenge, sent, body())
        await submission_files.submit_upload(site.store, challenge, account, upload, "", "n" * 2001)
        return await site.store.load_submission(upload.key)

    for sent, file, system in (
        ("my results.json", "my results.json", "my results"),
        (r"C:\fakepath\a (1)+b-c.json", "a (1)+b-c.json", "a (1)+b-c"),
        ("../../etc/x;y'z.json", "x_y_z.json", "x_y_z"),
        ("=1+1.json", "_1+1.json", "_1+1"),
        ("+-1.json", "+-1.json", "1"),
        ("-.json", "-.json", "system"),
        ("d" * 200 + ".json", "d" * 95 + ".json", "d" * 64),
    ):
        token, _ = create_account(site.store.database, f"sender of {sent}")
        account = asyncio.run(site.tokens.find_account(token))
        submission = asyncio.run(submit(account, sent))
        assert (submission.file, submission.system, submission.note) == (file, system, "n" * 2000)
    assert submission_files.clean_file_name("") == "submission"


def test_a_file_may_have_all_the_megabytes_and_no_byte_more(tmp_path):
    write_challenge(tmp_path, limits={"megabytes": 1})
    opened = make_site(tmp_path, ["captions"])
    challenge = opened.store.get_challenge("small_captions")

    async def body(size):
        yield b"x" * (size // 2)
        yield b"x" * (size - size // 2)

    def store(size):
        return asyncio.run(
            submission_files.store_upload(opened.store, challenge, "a.json", body(size))
        )

    upload = store(1 << 20)
    assert upload.bytes == 1 << 20
    assert upload.sha256 == hashlib.sha256(b"x" * (1 << 20)).hexdigest()
    path = submission_files.find_upload(opened.store.folder / upload.key)
    assert (path.name, path.stat().st_size) == ("upload.json", 1 << 20)
    folders = set(opened.store.folder.iterdir())
    with pytest.raises(RefusedError, match="larger than 1 MB, the limit of this site"):
        store((1 << 20) + 1)
    assert set(opened.store.folder.iterdir()) == folders
    submission_files.discard_upload(opened.store, upload.key)
    submission_files.discard_upload(opened.store, upload.key)  # already gone
    assert not path.parent.exists()
    opened.store.database.close()
