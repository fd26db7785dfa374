"""The clock of a site: it never goes back, says when it is far ahead, and its times can be taken back."""

from __future__ import annotations

import html
import time
from dataclasses import replace

import pytest
from sqlalchemy import insert, select

from captau.benchmarks.options.sites import CollectOptions
from captau.server.challenge.site_opening import open_site as open_challenges
from captau.server.challenge.tables import audit
from captau.server.collect.store.tables import events
from captau.server.collect.web.site import open_site as open_study
from captau.server.storage.clock import Clock
from tests.server.challenge.conftest import make_site as make_challenge_site
from tests.server.challenge.conftest import serve_options
from tests.server.collect.conftest import make_site as make_study_site


def test_the_clock_goes_on_from_the_latest_time_of_the_database(machine_clock, monkeypatch):
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    machine_clock[0] = 1000.0
    clocks = Clock(), Clock(3000.0), Clock(1.0)
    now[0] = 57.5
    assert [clock() for clock in clocks] == [1007.5, 3007.5, 1007.5]


def test_the_clock_never_runs_backwards(machine_clock):
    clock = Clock()
    before = clock()
    machine_clock[0] = 0.0
    assert before <= clock() <= before + 60
    assert Clock(earliest=before)() >= before  # a restart after the machine's clock was put back


@pytest.mark.parametrize(
    ("hours", "lead"),
    [(0, None), (0.9, None), (1.2, "an hour"), (47, "47 hours"), (240, "10 days")],
)
def test_a_clock_that_is_an_hour_ahead_says_so(hours, lead, machine_clock):
    machine_clock[0] = 1e9
    warning = Clock(1e9 + 3600 * hours).warning
    if lead is None:
        assert warning == ""
    else:
        assert warning.startswith(
            f"The latest time in the database is {lead} ahead of this machine's clock, and"
        )
        assert warning.endswith("start it once with reset_times=true.")


#: A time in 2031, which a wrong clock once gave.
FUTURE = 1_950_000_000.0


def test_times_of_a_wrong_clock_are_shown_logged_and_taken_back(tmp_path, caplog):
    site = make_challenge_site(tmp_path)
    row = {"action": "sign in", "what": "account 1", "why": ""}
    rows = [{**row, "at": FUTURE}, {**row, "at": 1e9}]
    site.store.database.run_blocking(lambda c: c.execute(insert(audit), rows) and None)
    site.store.database.close()

    site = make_challenge_site(tmp_path)
    assert site.store.clock() >= FUTURE
    assert "ahead of this machine's clock" in caplog.text
    nothing = dict.fromkeys(("challenges", "rows", "teams", "accounts", "log"), ())
    page = html.unescape(site.render("admin.html", **nothing).body.decode())
    assert site.store.clock.warning in page
    site.store.database.close()

    caplog.clear()
    site = open_challenges(replace(serve_options(tmp_path), reset_times=True))
    assert site.store.clock() <= time.time() + 60
    assert "later than now" in caplog.text
    assert caplog.text.rstrip().endswith("UTC: 1")
    times = site.store.database.run_blocking(
        lambda c: c.execute(select(audit.c.at)).scalars().all()
    )
    assert min(times) == 1e9  # an earlier time stays as it is
    site.store.database.close()


def test_a_study_s_times_are_taken_back_too(tmp_path, capsys):
    site = make_study_site(tmp_path)
    row = {"at": FUTURE, "action": "exclude", "rater": None, "why": ""}
    site.store.database.run_blocking(lambda c: c.execute(insert(events).values(row)) and None)
    site.store.database.close()

    make_study_site(tmp_path).store.database.close()
    assert "ahead of this machine's clock" in capsys.readouterr().err

    options = CollectOptions(
        study=str(tmp_path / "study.yaml"), database=tmp_path / "small.sqlite3", reset_times=True
    )
    open_study(options).store.database.close()
    assert capsys.readouterr().err.rstrip().endswith("UTC: 1")
