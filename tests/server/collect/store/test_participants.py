"""Participants join once, come back, are excluded and deleted: each row as it is written."""

from __future__ import annotations

import hashlib

import pytest

from captau.server.collect.store.study_database import EndReason, Rater
from captau.server.collect.store.tables import raters, serves
from captau.server.web.errors import NotFoundError, RefusedError
from tests.server.collect.store.conftest import NOW, answer_all, load, run


def refuse(store, *fields):
    with pytest.raises(RefusedError) as raised:
        run(store.participants.join(*fields))
    return str(raised.value)


def test_a_new_participant_is_a_row_with_the_consent_of_that_day(open_store):
    store = open_store("game")
    assert run(store.participants.join("Élan V", "worker 7", "")) == 1
    assert run(store.participants.join("", "worker 7", "")) == 2  # whom only crowds have
    usual = {
        **{"worker": None, "joined_at": NOW, "consented": "You take part in a test."},
        "state": {"phase": "tutorial", "done": 0, "phase_points": 0, "points": 0, "attempt": 0}
        | {"open": None},
        **{"points": 0, "given": 0, "excluded_at": None},
    }
    assert load(store, raters) == [
        {"id": 1, "nickname": "Élan V", "nickname_key": "élan v", **usual},
        {"id": 2, "nickname": None, "nickname_key": None, **usual},
    ]
    assert refuse(store, "ÉLAN V", "", "") == "That nickname is taken. Choose another."
    assert refuse(store, "e\u0301lan V", "", "") == "That nickname is taken. Choose another."


def test_a_worker_of_a_crowd_takes_part_once_and_is_stored_as_a_hash(open_store):
    store = open_store(participants="crowd")
    join = store.participants.join
    assert (run(join("", "w1", "")), run(join("", "w2", ""))) == (1, 2)
    assert [row["worker"] for row in load(store, raters)] == [
        store.tag("worker", "w1"),
        store.tag("worker", "w2"),
    ]
    assert refuse(store, "", "w1", "") == "You have taken part already, in this or another browser."
    assert refuse(store, "", "", "") == (
        "Open this study from the crowd platform; its link identifies you."
    )
    is_participant = store.participants.is_participant
    known = [
        run(is_participant(*pair))
        for pair in ((1, "w1"), (1, " w1 "), (1, "w2"), (1, ""), (1, " "), (2, "w2"), (3, ""))
    ]
    assert known == [True, True, False, True, True, True, False]


def test_elsewhere_a_link_s_worker_does_not_matter(open_store):
    store = open_store()
    run(store.participants.join("", "w1", ""))
    found = [run(store.participants.is_participant(n, "w9")) for n in (1, 2)]
    assert found == [True, False]


def test_an_invitation_is_stored_as_a_hash_and_makes_one_participant(open_store):
    store = open_store(participants="invitation")
    tokens = run(store.participants.invite("lab", 3))
    assert [len(token) for token in tokens] == [22] * 3  # 16 random bytes in base64
    hashes = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]

    def rows(*used):
        return [
            {"id": k, "hash": h, "note": "lab", "created_at": NOW, "rater": used[k - 1]}
            for k, h in enumerate(hashes, start=1)
        ]

    load_rows = store.database.run_blocking
    assert load_rows(store.load_rows)["invitations"] == rows(None, None, None)
    find = store.participants.find_invited
    assert run(find(tokens[1])) is None
    assert run(store.participants.join("", "", tokens[1])) == 1
    assert run(store.participants.join("", "", tokens[1])) == 1
    assert run(store.participants.join("", "", tokens[0])) == 2
    assert load_rows(store.load_rows)["invitations"] == rows(2, 1, None)
    assert [run(find(token)) for token in tokens] == [2, 1, None]
    assert len(load(store, raters)) == 2
    with pytest.raises(NotFoundError):
        run(find("made up"))
    by_invitation = "This study is by invitation. Open the link that you were sent."
    assert refuse(store, "", "", "made up") == by_invitation
    assert load(store, raters)[0]["nickname"] is None  # a note is no name


def counts(store):
    rows = store.database.run_blocking(store.load_rows)
    return [unit["given"] for unit in rows["units"]], rows


def test_an_excluded_participant_s_answers_do_not_count_until_they_are_included(open_store):
    store = open_store(items={"limit": 3}, ratings=2)
    for _ in range(2):
        run(store.participants.join("", "", ""))
    answer_all(store, 1, 3)
    answer_all(store, 2, 2)
    assert counts(store)[0] == [2, 2, 1]
    exclude = store.participants.set_excluded
    for reason in ("asleep", "asleep again"):  # the second changes nothing
        run(exclude(1, reason, excluded=True))
    given, rows = counts(store)
    assert (given, [r["excluded_at"] for r in rows["raters"]]) == ([1, 1, 0], [NOW, None])
    for _ in range(2):
        run(exclude(1, "awake", excluded=False))
    given, rows = counts(store)
    assert (given, [r["excluded_at"] for r in rows["raters"]]) == ([2, 2, 1], [None, None])
    assert rows["events"] == [
        {"id": k, "at": NOW, "action": action, "rater": 1, "why": why}
        for k, (action, why) in enumerate((("exclude", "asleep"), ("include", "awake")), start=1)
    ]
    with pytest.raises(NotFoundError):
        run(exclude(3, "nobody", excluded=True))
    with pytest.raises(NotFoundError):
        run(store.participants.delete(3, "nobody"))


def test_a_deleted_participant_leaves_nothing_but_the_deletion(open_store):
    store = open_store(items={"limit": 3}, ratings=2, participants="invitation")
    tokens = run(store.participants.invite("lab", 2))
    for token in tokens:
        run(store.participants.join("", "", token))
    answer_all(store, 1, 3)
    answer_all(store, 2, 2)
    run(store.participants.delete(1, "they asked for it"))
    given, rows = counts(store)
    assert (given, [r["id"] for r in rows["raters"]]) == ([1, 1, 0], [2])
    assert {a["rater"] for a in rows["answers"]} == {2}
    assert [(i["id"], i["rater"]) for i in rows["invitations"]] == [(2, 2)]
    assert {s["rater"] for s in load(store, serves)} == {2}
    assert [(e["action"], e["rater"], e["why"]) for e in rows["events"]] == [
        ("invite", None, "2 links"),
        ("delete", 1, "they asked for it"),
    ]
    (token,) = run(store.participants.invite("lab", 1))
    assert run(store.participants.join("", "", token)) == 3  # the number is nobody else's


def test_why_nothing_is_left_for_a_rater(open_store):
    """The study is full, others are at the rest, or the rater has had their share."""
    store = open_store(items={"limit": 2}, ratings=1, per_rater=1)
    for _ in range(3):
        run(store.participants.join("", "", ""))
    for rater in (1, 2):
        run(store.assignment.next_unit(rater))
    third = run(store.assignment.next_unit(3))
    assert third == Rater(3, None, 0, 0, {})
    assert run(store.assignment.end_reason(third)) is EndReason.RESERVED
    answer_all(store, 1, 1)
    first = run(store.assignment.next_unit(1))
    assert (first, run(store.assignment.end_reason(first))) == (
        Rater(1, None, 0, 1, {}),
        EndReason.THROUGH,
    )
    answer_all(store, 2, 1)
    assert run(store.assignment.end_reason(third)) is EndReason.THROUGH


def test_a_reservation_lasts_ten_minutes(open_store, clock):
    store = open_store(items={"limit": 1}, ratings=1)
    for _ in range(2):
        run(store.participants.join("", "", ""))
    shown = run(store.assignment.next_unit(1))
    assert (shown.phase, shown.seconds_left, shown.previous, shown.unit.id) == ("main", 0.0, (), 1)
    found = []
    for seconds in (599.9, 600.0):
        clock[0] = NOW + seconds
        found.append(isinstance(run(store.assignment.next_unit(2)), Rater))
    assert found == [True, False]


def test_codes_are_of_a_rater_and_a_study(open_store):
    store = open_store(participants="crowd", per_rater=5)
    tag = store.tag("rater", 7)
    assert (len(tag), store.rater_code(7), store.tag("rater", 8) == tag) == (
        64,
        f"r{tag[:8]}",
        False,
    )
    assert store.completion_code(7) == f"C{store.tag('completion', 7)[:10].upper()}"
    assert (store.most_answers, store.pool_sizes) == (5, {"main": 18})
    assert len(store.secret) == 32
    assert store.tag("a", "b") != store.tag("ab")


def test_the_fewest_of_the_units_and_the_answers_a_rater_may_give_are_the_most(open_store):
    assert open_store(items={"limit": 3}, per_rater=4).most_answers == 3


def test_without_a_limit_a_rater_may_answer_every_unit(open_store):
    assert open_store(items={"limit": 4}).most_answers == 4
