"""A site that is opened again: changed challenges, removed challenges, and its folder of files."""

from __future__ import annotations

import asyncio
import json
import os
from hashlib import sha256

import pytest

from captau.server.challenge.store_opening import open_store_for_worker
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from captau.server.challenge.submissions import save_human_scores
from captau.server.challenge.tables import SCHEMA
from captau.server.storage.database import Database
from tests.conftest import says
from tests.server.challenge.conftest import (
    REFERENCES,
    captions_json,
    make_manual_worker,
    make_site,
    write_challenge,
)
from tests.server.challenge.test_submission_lifecycle import (
    account_of,
    load,
    record_result,
    record_verdict,
    set_received_at,
    submit,
)


@pytest.fixture
def site(tmp_path):
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def test_changed_metrics_are_refused_unless_all_is_scored_again(tmp_path, site):
    number = submit(site, account_of(site))
    record_verdict(site, number)
    record_result(site, number)
    site.store.database.close()
    write_challenge(tmp_path, title="Another title", intro="Another intro.")
    make_site(tmp_path).store.database.close()  # texts may change
    write_challenge(tmp_path, metrics=["rouge_l"])
    with says("small_captions", "not those it was started with", "rescore=true"):
        make_site(tmp_path)
    rescored = make_site(tmp_path, rescore=True)
    assert load(rescored, number).state == "received"
    assert load(rescored, number).result is None
    rescored.store.database.close()
    make_site(tmp_path).store.database.close()


def test_rescoring_checks_submissions_against_the_changed_references(tmp_path):
    """No submission is scored on fewer images; limits that it was within before do not matter."""
    write_challenge(tmp_path, phases=[{"name": "one", "per_day": 1}])
    site = make_site(tmp_path, ["captions"])
    account = account_of(site)
    numbers = [submit(site, account)]
    make_manual_worker(tmp_path, site)()
    challenge = site.store.get_challenge("small_captions")
    asyncio.run(site.moderation.reset_limits(challenge, account.team, "a fault of ours"))
    numbers.append(submit(site, account, captions_json(**{"new.png": "a new one"})))
    make_manual_worker(tmp_path, site)()
    assert [load(site, n).state for n in numbers] == ["scored", "invalid"]
    numbers.append(submit(site, account))
    make_manual_worker(tmp_path, site)()
    outcomes = []
    for k, additions in enumerate(({}, {"new.png": ["a new one"]})):
        site.store.database.close()
        changed = {**REFERENCES, "img00.png": [f"another {k}"], **additions}
        (tmp_path / "references.json").write_text(json.dumps(changed))
        site = make_site(tmp_path, rescore=True)
        make_manual_worker(tmp_path, site)()
        submissions = [load(site, n) for n in numbers]
        outcomes.append([(submission.state, submission.counts) for submission in submissions])
    assert outcomes[0] == [("scored", False), ("invalid", False), ("scored", True)]
    assert outcomes[1] == [("invalid", False)] * 3
    assert "no caption of image 'new.png'" in load(site, numbers[0]).faults[0]
    site.store.database.close()


def test_submissions_to_a_removed_challenge_keep_waiting(tmp_path, site):
    account = account_of(site)
    waiting, scored = submit(site, account), submit(site, account_of(site, "mate", account.team))
    record_verdict(site, waiting)
    record_verdict(site, scored)
    record_result(site, scored)
    site.store.database.close()
    challenge_file, hidden_file = tmp_path / "small_captions.yaml", tmp_path / "hidden"
    challenge_file.rename(hidden_file)
    without = make_site(tmp_path)
    lifecycle = SubmissionLifecycle(without.store)
    assert lifecycle.claim_next("w", "queued") is None
    assert not lifecycle.has_unfinished()
    assert asyncio.run(without.queries.team_submissions(account.team)) == []
    without.store.database.close()
    hidden_file.rename(challenge_file)
    reopened = make_site(tmp_path)
    assert SubmissionLifecycle(reopened.store).claim_next("w", "queued").id == waiting
    reopened.store.database.close()


def test_a_worker_s_clock_is_not_before_the_server_s(tmp_path, site):
    """Otherwise a submission would seem overdue where the machine's clock was put back."""
    submit(site, account_of(site))
    set_received_at(site, site.store.clock() + 86_400)
    site.store.database.close()
    server = make_site(tmp_path).store
    database = Database(tmp_path / "site.sqlite3", SCHEMA, guest=True)
    store = open_store_for_worker(database, list(server.challenges.values()), server.folder)
    SubmissionLifecycle(store).claim_next("w", "received")
    assert not SubmissionLifecycle(server).is_overdue("w")
    database.close()
    server.database.close()


def test_human_scores_of_another_choice_are_not_shown(tmp_path):
    write_challenge(tmp_path, human="last")
    site = make_site(tmp_path, ["captions"])
    challenge = site.challenges["small_captions"]
    rows = [{"metric": "cider", "references": "c2", "value": 1.0}]
    site.store.database.run_blocking(lambda c: save_human_scores(c, challenge, rows))
    status = asyncio.run(site.queries.challenge_status(challenge))
    assert [row["value"] for row in status.human_scores] == [1.0]
    site.store.database.close()
    (tmp_path / "human.json").write_text(captions_json())
    for choice in ("none", "each", ["last", "human.json"]):
        write_challenge(tmp_path, human=choice)
        site = make_site(tmp_path)
        challenge = site.challenges["small_captions"]
        assert not asyncio.run(site.queries.challenge_status(challenge)).human_scores
        site.store.database.close()


def test_a_site_keeps_its_secret_to_itself(tmp_path, site):
    site.store.database.close()
    reopened = make_site(tmp_path)
    assert len(reopened.store.secret) == 32
    assert reopened.store.secret == site.store.secret  # sessions go on
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("site.sqlite3", "files")]
    assert modes == [0o600, 0o700]
    assert (tmp_path / "files/site").read_text() == sha256(site.store.secret).hexdigest()
    reopened.store.database.close()


def test_a_check_that_the_end_of_the_server_interrupted_waits_again(tmp_path, site):
    number = submit(site, account_of(site))
    assert SubmissionLifecycle(site.store).claim_next("w", "received").attempts == 1
    site.store.database.close()
    reopened = make_site(tmp_path)
    submission = load(reopened, number)
    assert (submission.state, submission.worker, submission.attempts) == ("received", None, 0)
    reopened.store.database.close()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    pictures = tmp_path / "birds" / "pictures"
    pictures.mkdir(parents=True)
    with says("birds", "a folder of their own"):
        make_site(tmp_path, files=pictures.parent)
    assert list(pictures.parent.iterdir()) == [pictures]


def test_a_start_that_was_interrupted_leaves_the_folder_to_the_next(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / ".1f.tmp").write_bytes(b"half a mark")
    make_site(tmp_path).store.database.close()
    make_site(tmp_path).store.database.close()
    assert len((tmp_path / "files" / "site").read_text()) == 64


def test_a_folder_of_another_site_is_left_alone(tmp_path, site):
    number = submit(site, account_of(site))
    with says("holds another site's files"):
        make_site(tmp_path, database=tmp_path / "other.sqlite3")
    assert (tmp_path / "files" / load(site, number).key / "upload.json").exists()


def test_only_files_of_unacknowledged_uploads_and_cut_ones_are_removed(tmp_path, site):
    number = submit(site, account_of(site))
    folder = tmp_path / "files"
    own = folder / load(site, number).key
    site.store.database.close()
    for name in ("notes", "0123456789abcdef"):
        (folder / name).mkdir()
    left = [folder / ".1f.tmp", own / ".2f.tmp", own / ".3f.tmp", folder / "notes" / ".4f.tmp"]
    for path in left:
        path.write_bytes(b"cut")
    for path in (left[0], left[1], left[3]):
        os.utime(path, (0, 0))  # long ago, so that nobody writes it any more
    make_site(tmp_path).store.database.close()
    assert [path.exists() for path in left] == [False, False, True, True]
    names = {path.name for path in folder.iterdir() if path.is_dir()}
    reopened = make_site(tmp_path)
    assert names == {"notes", load(reopened, number).key}
    reopened.store.database.close()
