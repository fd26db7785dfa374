"""The steps of submissions: each is taken once, and limits hold as the challenge defines them."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import func, select, update

from captau.benchmarks.commands.validate import Verdict
from captau.server.challenge import worker, worker_pool
from captau.server.challenge.submission_files import store_upload, submit_upload
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from captau.server.challenge.submissions import Allowance, select_submissions
from captau.server.challenge.tables import challenges, results, submissions
from captau.server.storage.database import StoreError
from captau.server.web.errors import RefusedError
from tests.server.challenge.conftest import (
    captions_json,
    create_account,
    make_manual_worker,
    make_site,
    serve_options,
    write_challenge,
)

RESULT = {"seconds": 1.0, "digest": "d", "scores": [], "run": {}}
VALID = Verdict([], 0, "valid")
INVALID = Verdict(["wrong"], 1, "not valid")


@pytest.fixture
def site(tmp_path):
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


@pytest.fixture
def limited_site(tmp_path):
    write_challenge(tmp_path, phases=[{"name": "one", "per_day": 2, "in_all": 3}])
    opened = make_site(tmp_path)
    yield opened
    opened.store.database.close()


def account_of(site, name="somebody", team=None):
    token, _ = create_account(site.store.database, name, team)
    return asyncio.run(site.tokens.find_account(token))


def submit(site, account, text=None):
    """Submit captions and return the submission's number."""
    challenge = site.store.get_challenge("small_captions")

    async def body():
        yield (captions_json() if text is None else text).encode()

    async def store_and_submit():
        upload = await store_upload(site.store, challenge, "a.json", body())
        return await submit_upload(site.store, challenge, account, upload, "", " a note ")

    return asyncio.run(store_and_submit())


def load(site, number):
    """Return a submission of the database."""
    condition = submissions.c.id == number
    return site.store.database.run_blocking(lambda c: select_submissions(c, condition)[0])


def record_verdict(site, number, verdict=VALID):
    """Claim and record as the worker that checks does."""
    lifecycle = SubmissionLifecycle(site.store)
    lifecycle.claim_next("w", "received")
    lifecycle.record_verdict(number, "w", verdict)


def record_result(site, number):
    """Claim and record as the worker that evaluates does."""
    lifecycle = SubmissionLifecycle(site.store)
    lifecycle.claim_next("w", "queued")
    lifecycle.record_result(number, "w", RESULT)


def set_received_at(site, at):
    """Change the time of all submissions."""
    statement = update(submissions).values(received_at=at)
    site.store.database.run_blocking(lambda c: c.execute(statement) and None)


def test_results_of_known_submissions_are_left_out(site, monkeypatch):
    monkeypatch.setattr("captau.server.challenge.submissions._MAX_VARIABLES", 2)
    account, numbers = account_of(site), []
    for _ in range(5):
        numbers.append(submit(site, account))
        record_verdict(site, numbers[-1])
        record_result(site, numbers[-1])
    numbers.append(submit(site, account))

    def read(known=()):
        found = site.store.database.run_blocking(lambda c: select_submissions(c, known=known))
        assert [submission.id for submission in found] == numbers
        return [s.result and (s.result.digest, s.result.scores) for s in found]

    result = ("d", [])
    assert read() == [*[result] * 5, None]
    assert read(set(numbers[1:4])) == [result, None, None, None, result, None]


def test_each_step_is_taken_once(site):
    lifecycle = SubmissionLifecycle(site.store)
    number = submit(site, account_of(site))
    assert load(site, number).system == "a"
    assert load(site, number).note == "a note"
    assert lifecycle.claim_next("first", "received").key == load(site, number).key
    assert lifecycle.claim_next("second", "received") is None
    for worker_name in ("second", "a third"):  # workers that have not claimed it
        lifecycle.record_verdict(number, worker_name, INVALID)
    assert load(site, number).state == "received"
    lifecycle.record_verdict(number, "first", VALID)
    assert load(site, number).state == "queued"
    assert lifecycle.claim_next("first", "queued").state == "running"
    assert lifecycle.claim_next("second", "queued") is None
    lifecycle.record_progress(number, "second", 0.9, "x")
    lifecycle.record_progress(number, "first", 0.5, "cider")
    assert (load(site, number).progress, load(site, number).step) == (0.5, "cider")
    # After another worker has claimed it, the first one's result is ignored.
    lifecycle.give_up("first", "it died")
    assert lifecycle.claim_next("third", "queued").attempts == 2
    assert not lifecycle.record_result(number, "first", RESULT)
    assert lifecycle.record_result(number, "third", RESULT)
    assert not lifecycle.record_result(number, "third", RESULT)
    count = select(func.count()).select_from(results)
    assert site.store.database.run_blocking(lambda c: c.execute(count).scalar_one()) == 1
    assert load(site, number).state == "scored"
    assert load(site, number).result.scores == []


def test_a_submission_fails_with_a_reason_after_all_attempts(site):
    lifecycle = SubmissionLifecycle(site.store)
    account = account_of(site)
    number = submit(site, account)
    record_verdict(site, number)
    for attempt in range(3):
        assert lifecycle.claim_next("w", "queued")
        lifecycle.give_up("w", "it took more memory than is given")
        assert load(site, number).state == ("queued" if attempt < 2 else "failed")
    reason = "it took more memory than is given; it was tried 3 times"
    assert load(site, number).reason == reason
    # If another attempt would not help, it fails at once; what cannot be checked is not valid.
    hopeless = submit(site, account)
    record_verdict(site, hopeless)
    lifecycle.claim_next("w", "queued")
    lifecycle.give_up("w", "no", is_final=True)
    assert (load(site, hopeless).state, load(site, hopeless).reason) == ("failed", "no")
    unreadable = submit(site, account)
    for _ in range(3):
        lifecycle.claim_next("w", "received")
        lifecycle.give_up("w", "it was too much")
    submission = load(site, unreadable)
    assert (submission.state, submission.faults) == ("invalid", ["it was too much"])
    assert not submission.counts


def test_the_end_of_the_server_is_no_attempt(tmp_path, site):
    number = submit(site, account_of(site))
    record_verdict(site, number)
    SubmissionLifecycle(site.store).claim_next("w", "queued")
    site.store.database.close()
    reopened = make_site(tmp_path)
    submission = load(reopened, number)
    assert (submission.state, submission.attempts) == ("queued", 0)
    lifecycle = SubmissionLifecycle(reopened.store)
    assert not lifecycle.record_result(number, "w", RESULT)
    assert lifecycle.claim_next("next", "queued").id == number
    reopened.store.database.close()


def test_only_valid_submissions_count_towards_the_limits(limited_site):
    store = limited_site.store
    first = account_of(limited_site)
    mate = account_of(limited_site, "mate", first.team)
    for _ in range(3):
        record_verdict(limited_site, submit(limited_site, first, "[]"), INVALID)
    record_verdict(limited_site, submit(limited_site, first))
    # Two members submit at once where one is left: both are taken, and the second is invalid once checked.
    numbers = submit(limited_site, first), submit(limited_site, mate)
    for number in numbers:
        record_verdict(limited_site, number)
    assert [load(limited_site, n).state for n in numbers] == ["queued", "invalid"]
    assert "limit" in load(limited_site, numbers[1]).faults[0]
    with pytest.raises(RefusedError, match="2 submissions on a day in the phase one"):
        submit(limited_site, mate)
    set_received_at(limited_site, store.clock() - 86_400)
    record_verdict(limited_site, submit(limited_site, mate))
    with pytest.raises(RefusedError, match="3 submissions in all in the phase one"):
        submit(limited_site, first)
    outsider = account_of(limited_site, "outsider")
    challenge = store.get_challenge("small_captions")
    allowance = store.database.run_blocking(
        lambda c: store.count_allowance(c, challenge, challenge.phases[0], outsider, store.clock())
    )
    assert allowance == Allowance(2, 3)


def test_a_submission_to_a_phase_that_the_challenge_has_no_more_exceeds_no_limit(limited_site):
    first = account_of(limited_site)
    for _ in range(4):
        number = submit(limited_site, first)
        limited_site.store.database.run_blocking(
            lambda c, n=number: (
                c.execute(submissions.update().where(submissions.c.id == n).values(phase="earlier"))
                and None
            )
        )
        record_verdict(limited_site, number)
        assert load(limited_site, number).state == "queued"


def test_a_submission_checked_past_midnight_counts_on_the_day_it_was_sent(limited_site):
    first = account_of(limited_site)
    mates = [account_of(limited_site, name, first.team) for name in ("mate", "second mate")]
    numbers = [submit(limited_site, account) for account in (first, *mates)]
    set_received_at(limited_site, limited_site.store.clock() - 86_400)
    for number in numbers:
        record_verdict(limited_site, number)
    assert [load(limited_site, n).state for n in numbers] == ["queued", "queued", "invalid"]
    record_verdict(limited_site, submit(limited_site, first))  # today's limit is untouched


def test_submissions_are_taken_one_at_a_time_while_a_phase_is_open(tmp_path, site):
    account = account_of(site)
    number = submit(site, account)
    with pytest.raises(RefusedError, match="still being checked"):
        submit(site, account)
    record_verdict(site, number)
    site.store.database.run_blocking(
        lambda c: c.execute(update(challenges).values(frozen_at=1.0)) and None
    )
    with pytest.raises(RefusedError, match="takes no submissions for the moment"):
        submit(site, account)
    folders = [p for p in (tmp_path / "files").iterdir() if p.is_dir()]
    assert len(folders) == 1  # refused uploads are removed
    site.store.database.close()
    write_challenge(tmp_path, phases=[{"name": "past", "to": "2020-01-01"}])
    reopened = make_site(tmp_path)
    with pytest.raises(RefusedError, match="No phase of Small captions"):
        submit(reopened, account)
    reopened.store.database.close()


def test_an_account_sends_a_number_of_files_an_hour(tmp_path):
    write_challenge(tmp_path, limits={"uploads": 2})
    opened = make_site(tmp_path, ["captions"])
    account = account_of(opened)
    for _ in range(2):
        record_verdict(opened, submit(opened, account), INVALID)
    message = "You have sent 2 files within the last hour; the limit is 2."
    with pytest.raises(RefusedError, match=message):
        submit(opened, account)
    set_received_at(opened, opened.store.clock() - 3590)
    with pytest.raises(RefusedError, match=message):
        submit(opened, account)
    set_received_at(opened, opened.store.clock() - 3601)
    record_verdict(opened, submit(opened, account))
    opened.store.database.close()


def test_a_submission_is_overdue_after_the_seconds_of_its_challenge(site, clock):
    lifecycle = SubmissionLifecycle(site.store)
    submit(site, account_of(site))
    assert not lifecycle.is_overdue("w")
    lifecycle.claim_next("w", "received")
    overdue = []
    for seconds in (900, 1):
        clock[0] += seconds
        overdue.append((lifecycle.is_overdue("w"), lifecycle.is_overdue("v")))
    assert overdue == [(False, False), (True, False)]


def test_a_worker_ends_if_the_database_takes_nothing(tmp_path, site, monkeypatch):
    """So that the server releases its submission, which would wait until it is overdue otherwise."""
    account = account_of(site)
    work = make_manual_worker(tmp_path, site)
    number = submit(site, account)

    def fail(*_, **__):
        raise StoreError("database or disk is full")

    for step in ("record_verdict", "give_up"):
        monkeypatch.setattr(SubmissionLifecycle, step, fail)
    with pytest.raises(StoreError, match="full"):
        work()
    monkeypatch.undo()
    lifecycle = SubmissionLifecycle(site.store)
    lifecycle.give_up("manual-check", "it ended")
    assert lifecycle.claim_next("next", "received").id == number


def test_a_worker_without_work_ends(tmp_path, site, monkeypatch):
    """And does what waits before."""
    monkeypatch.setattr(worker, "_limit_resources", lambda memory, niceness: None)
    monkeypatch.setattr(worker, "_IDLE_SECONDS", 0.5)
    number = submit(site, account_of(site))
    assert SubmissionLifecycle(site.store).has_unfinished()
    for kind in worker_pool.WorkKind:
        setup = {**vars(serve_options(tmp_path)), "kind": kind, "name": kind}
        worker.Worker(setup).run()
    assert load(site, number).state == "scored"
    assert not SubmissionLifecycle(site.store).has_unfinished()


def test_the_pool_survives_errors_and_logs_a_repeated_one_once(site, monkeypatch, caplog):
    n_looks = 0

    def fail(*_, **__):
        nonlocal n_looks
        n_looks += 1
        if n_looks > 5:
            site.workers._stopping.set()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(worker_pool, "_LOOK_INTERVAL", 0.001)
    monkeypatch.setattr(site.workers, "_look_after", fail)
    site.workers._supervise()
    assert n_looks == 6
    assert caplog.messages == ["workers: [Errno 24] Too many open files"]
