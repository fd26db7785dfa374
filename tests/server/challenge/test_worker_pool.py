"""SIGKILL of workers and of the server at random moments: no submission is lost or counted twice."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import case, func, select

from captau.datasets.errors import InputError
from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.submissions import SubmissionState
from captau.server.challenge.tables import SCHEMA, results, submissions
from captau.server.storage.database import Database
from tests.server.challenge.conftest import captions_json, create_account, write_challenge

pytestmark = pytest.mark.kill

N_TEAMS = 4
#: Each kill costs the start of up to three processes. More by hand: CAPTAU_KILLS=50 pytest ….
N_KILLS = int(os.environ.get("CAPTAU_KILLS", "3"))


@pytest.mark.skipif(not Path("/proc").exists(), reason="workers are found by /proc")
def test_no_acknowledged_submission_is_lost_or_counted_twice(tmp_path, start_serve):
    # The kills must not use up the attempts.
    changes = {"limits": {"attempts": 1000}, "metrics": ["rouge_l"]}
    path = write_challenge(tmp_path, statistics={"interval": "none"}, **changes)
    words = [f"challenge={path}", "database=site.sqlite3"]
    rng = random.Random(5)
    server = start_serve(*words)
    database = Database(tmp_path / "site.sqlite3", SCHEMA, guest=True)
    tokens = [create_account(database, f"team{k}")[0] for k in range(N_TEAMS)]
    acknowledged: dict[str, str] = {}
    url, stop = [server.url], threading.Event()

    def submit_repeatedly(k: int) -> None:
        """Submit one file after another and note the acknowledged ones."""
        path, number = tmp_path / f"{k}.json", 0
        while not stop.is_set():
            number += 1
            path.write_text(captions_json(**{"img00.png": f"caption {k} of number {number}"}))
            try:
                client = ChallengeClient(url[0], tokens[k])
                submission = client.submit(path, "small_captions", f"{k}-{number}")
                acknowledged[submission["id"]] = submission["sha256"]
            except InputError:  # no server, or the last submission is still being checked
                time.sleep(0.3)

    def count_steps() -> int:
        """Return the number of steps that all submissions have taken."""
        positions = {state.value: position for position, state in enumerate(SubmissionState)}
        total = func.sum(1 + case(positions, value=submissions.c.state))
        return database.run_blocking(lambda c: c.execute(select(total)).scalar()) or 0

    def wait_until(condition) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            assert time.monotonic() < deadline, server.output
            time.sleep(0.05)

    threads = [
        threading.Thread(target=submit_repeatedly, args=(k,), daemon=True) for k in range(N_TEAMS)
    ]  # they must not outlive a test that fails
    for thread in threads:
        thread.start()
    n_server_kills = 0
    for moment in range(N_KILLS):
        before = count_steps()
        wait_until(lambda before=before: count_steps() >= before + N_TEAMS)
        time.sleep(rng.uniform(0, 0.5))
        if moment % 3 == 1:
            n_server_kills += 1
            server.kill()
            server = start_serve(*words, log=f"serve{moment}.log")
            url[0] = server.url
        else:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(server.worker_pids), signal.SIGKILL)
    wait_until(lambda: len(acknowledged) > N_TEAMS)  # the site was under load
    stop.set()
    for thread in threads:
        thread.join()

    unscored = select(func.count()).where(submissions.c.state != "scored")
    wait_until(lambda: not database.run_blocking(lambda c: c.execute(unscored).scalar_one()))
    rows = database.run_blocking(lambda c: c.execute(select(submissions)).all())
    digests = {row.key: row.sha256 for row in rows}
    assert {key: digests.get(key) for key in acknowledged} == acknowledged
    # At each kill of the server, a team had at most one submission on its way.
    assert len(rows) - len(acknowledged) <= N_TEAMS * n_server_kills
    assert all(row.counts for row in rows)
    scored = database.run_blocking(
        lambda c: c.execute(select(results.c.submission)).scalars().all()
    )
    assert sorted(scored) == sorted(row.id for row in rows)
    database.close()
