"""Sessions and how long they last."""

from __future__ import annotations

import asyncio

from captau.server.storage.site_settings import (
    settings_with_prefix,
)
from captau.server.web.sessions import MEMBER_AGE, EndedSessions, Session, Sessions


def test_a_session_is_its_own_for_its_time(machine_clock):
    session = Session.new()
    assert session == Session(session.name, None, False, 0)
    assert len(session.name) == 16
    full = Session.new(7, admin=True, epoch=3)
    assert (full.member, full.admin, full.epoch) == (7, True, 3)
    sessions = Sessions(b"secret")
    cookie = sessions.write(full)
    assert sessions.read(cookie, 100) == full
    assert sessions.read(f"{cookie}x", 100) is None
    assert sessions.read(None, 100) is None
    machine_clock[0] += 102
    assert sessions.read(cookie, 100) is None
    token = sessions.token(full)
    assert (len(token), sessions.is_token_of(full, token)) == (64, True)
    assert not sessions.is_token_of(session, token)
    assert not sessions.is_token_of(full, "")


def test_ended_sessions_are_kept_until_their_cookies_have_expired(database, machine_clock):
    ended, first, second = EndedSessions(database), Session.new(1), Session.new(1)
    asyncio.run(ended.add(first))
    assert (first in ended, second in ended) == (True, False)
    assert first in EndedSessions(database)
    now = machine_clock[0]
    kept = []
    for seconds in (MEMBER_AGE - 60, MEMBER_AGE + 60):
        machine_clock[0] = now + seconds
        EndedSessions(database)
        kept.append(database.run_blocking(lambda c: len(settings_with_prefix(c, "ended session "))))
    assert kept == [1, 0]
