"""SIGKILL of workers and of the server at random moments: nothing acknowledged is lost, nothing twice."""

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
from captau.server.challenge.client import Client
from captau.server.challenge.migrations import FOLDER
from captau.server.challenge.submission_store import STATES
from captau.server.challenge.tables import results, submissions
from captau.server.storage.database import Database
from tests.server.challenge.conftest import captions, new_account, write_challenge

TEAMS = 4
#: So many moments; each costs the start of a process or three. More by hand: CAPTAU_KILLS=50 pytest ….
KILLS = int(os.environ.get("CAPTAU_KILLS", "3"))


@pytest.mark.skipif(not Path("/proc").exists(), reason="workers are found by /proc")
def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(tmp_path, served):
    # As many tries as it takes: the machine is not at fault here.
    changes = {"limits": {"attempts": 1000}, "metrics": ["rouge_l"]}
    path = write_challenge(tmp_path, statistics={"interval": "none"}, **changes)
    words = [f"challenge={path}", "database=site.sqlite3"]
    rng = random.Random(5)
    server = served(*words)
    database = Database(str(tmp_path / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    tokens = [new_account(database, f"team{k}")[0] for k in range(TEAMS)]
    acknowledged: dict[str, str] = {}
    url, stop = [server.url], threading.Event()

    def send(k: int) -> None:
        """Submit one after another; what is acknowledged is noted."""
        path, number = tmp_path / f"{k}.json", 0
        while not stop.is_set():
            number += 1
            path.write_text(captions(**{"img00.png": f"caption {k} of number {number}"}))
            try:
                found = Client(url[0], tokens[k]).submit(path, "small_captions", f"{k}-{number}")
                acknowledged[found["id"]] = found["sha256"]
            except InputError:  # gone, or the last one is still being checked
                time.sleep(0.3)

    def steps() -> int:
        """How many steps submissions have taken."""
        steps = case(
            {state: place for place, state in enumerate(STATES)}, value=submissions.c.state
        )
        return database.run_blocking(lambda c: c.execute(select(func.sum(1 + steps))).scalar()) or 0

    def until(condition) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            assert time.monotonic() < deadline, server.said
            time.sleep(0.05)

    threads = [threading.Thread(target=send, args=(k,)) for k in range(TEAMS)]
    for thread in threads:
        thread.start()
    killed = []
    for moment in range(KILLS):
        before = steps()
        until(lambda before=before: steps() >= before + TEAMS)
        time.sleep(rng.uniform(0, 0.5))
        victim = None if moment % 3 == 1 else rng.choice(server.children)
        killed.append(victim)
        if victim is None:
            server.kill()
            server = served(*words, log=f"serve{moment}.log")
            url[0] = server.url
        else:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(acknowledged) > TEAMS  # it was under load

    left = select(func.count()).where(submissions.c.state != "scored")
    until(lambda: not database.run_blocking(lambda c: c.execute(left).scalar_one()))
    rows = database.run_blocking(lambda c: c.execute(select(submissions)).all())
    by_key = {row.key: row.sha256 for row in rows}
    assert {key: by_key.get(key) for key in acknowledged} == acknowledged
    # What is there and was not acknowledged is at most the one of each that was on its way.
    assert len(rows) - len(acknowledged) <= TEAMS * killed.count(None)
    assert all(row.counts for row in rows)
    scored = database.run_blocking(
        lambda c: c.execute(select(results.c.submission)).scalars().all()
    )
    assert sorted(scored) == sorted(row.id for row in rows)
    database.close()
