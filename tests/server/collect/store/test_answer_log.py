"""Answers are recorded once, also by servers that are killed at random moments under load."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter

import pytest
from sqlalchemy import func, select

from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.simulation import StudyServer
from captau.server.collect.store.study_database import Rater
from captau.server.collect.store.tables import answers, serves, units
from captau.server.web.errors import NotFoundError
from tests.server.collect.conftest import make_site, write_study
from tests.server.collect.store.conftest import NOW, load, run

KILLS, RATERS = 20, 6


@pytest.mark.kill
def test_killed_servers_lose_no_acknowledged_answer_and_count_none_twice(tmp_path):
    rows = [{"image": "p0.png", "caption": f"caption {k}"} for k in range(1500)]
    path = write_study(tmp_path, "good_bad", ratings=3)
    (tmp_path / "captions.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    options = CollectOptions(study=str(path), database=tmp_path / "small.sqlite3")
    rng = random.Random(7)
    acknowledged: dict[str, str] = {}
    pending: list[dict[str, str]] = [{} for _ in range(RATERS)]
    cookies: list[dict[str, str]] = [{} for _ in range(RATERS)]

    def rate(url: str, k: int) -> None:
        """Answer until the server is gone; what was sent and not acknowledged is sent again first."""
        try:
            if cookies[k]:
                browser = Browser(url, timeout=20)
                browser.cookies = dict(cookies[k])
            else:
                browser = join_study(url)
                cookies[k] = dict(browser.cookies)
            while True:
                if not pending[k]:
                    page = browser.get("/rate")
                    if page.status != 200:
                        return
                    pending[k] = {**page.hidden, "answer": rng.choice(["good", "bad", "skip"])}
                if browser.post("/rate", pending[k], follow=False).status != 303:
                    return
                acknowledged[pending[k]["key"]] = pending[k]["answer"]
                pending[k] = {}
        except (OSError, http.client.HTTPException, RuntimeError):
            return  # killed

    for _ in range(KILLS):
        server = StudyServer(options)
        threads = [threading.Thread(target=rate, args=(server.url, k)) for k in range(RATERS)]
        for thread in threads:
            thread.start()
        n_answers = len(acknowledged) + rng.randrange(6, 30)
        while len(acknowledged) < n_answers and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        server.kill()
        for thread in threads:
            thread.join()

    assert len(acknowledged) > 5 * KILLS  # it was under load
    site = make_site(tmp_path, database=tmp_path / "small.sqlite3")
    run = site.store.database.run_blocking
    query = select(serves.c.key, answers.c.value).join(answers, answers.c.serve == serves.c.id)
    answer_rows = run(lambda c: c.execute(query).all())
    stored = {row.key: row.value["answer"] for row in answer_rows}
    assert len(stored) == len(answer_rows)
    assert {key: stored.get(key) for key in acknowledged} == acknowledged
    # What was stored and not acknowledged is at most the one answer each that was on its way.
    assert len(stored) - len(acknowledged) <= RATERS
    # Nobody was shown anything twice, and the counts are those of the answers.
    serve_rows = run(lambda c: c.execute(select(serves.c.rater, serves.c.unit)).all())
    assert max(Counter(map(tuple, serve_rows)).values()) == 1
    n_counted = run(lambda c: c.execute(select(func.sum(units.c.given))).scalar_one())
    count_query = select(func.count(answers.c.id))
    assert n_counted == run(lambda c: c.execute(count_query).scalar_one()) == len(stored)
    site.store.database.close()


def test_an_answer_is_recorded_once_and_found_by_its_rater_alone(open_store):
    store = open_store(items={"limit": 2})
    for _ in range(2):
        run(store.participants.join("", "", ""))
    shown = run(store.assignment.next_unit(1))
    for rater, key in ((1, shown.key), (1, "none"), (2, shown.key)):
        with pytest.raises(NotFoundError):
            run(store.answers.find(rater, key))
    first = run(store.answers.record(1, shown.key, [{"answer": "good"}]))
    assert (first.is_repeat, first.differs, list(first.values)) == (
        False,
        False,
        [{"answer": "good"}],
    )
    assert first.rater == Rater(1, None, 0, 1, {})
    for answer, differs in (("good", False), ("bad", True)):
        again = run(store.answers.record(1, shown.key, [{"answer": answer}]))
        assert (again.is_repeat, again.differs, list(again.values)) == (
            True,
            differs,
            [{"answer": "good"}],
        )
    found = run(store.answers.find(1, shown.key))
    assert (found.is_repeat, list(found.values), found.rater.n_answers) == (
        True,
        [{"answer": "good"}],
        1,
    )
    with pytest.raises(NotFoundError):
        run(store.answers.find(2, shown.key))
    rows = [(r["rater"], r["phase"], r["value"], r["at"]) for r in load(store, answers)]
    assert rows == [(1, "main", {"answer": "good"}, NOW)]
