"""Addresses as limits count them."""

from __future__ import annotations

import pytest
from fastapi import Request

from captau.server.web import visitors
from captau.server.web.visitors import RateLimiter, client_address, field_value, limited_address


@pytest.mark.parametrize(
    ("address", "limited"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_all_addresses_of_an_ipv6_network_count_as_one(address, limited):
    assert limited_address(address) == limited


def test_a_bucket_holds_a_burst_and_fills_at_its_rate(limit_clock):
    """A burst of two, then one each four seconds; another client has a bucket of its own."""
    limit_clock[0] = 100.0
    limiter = RateLimiter(2, 0.25)
    assert [limiter.take("ann") for _ in range(3)] == [True, True, False]
    assert limiter.take("bob")
    allowed = {}
    for limit_clock[0] in (103.9, 104.1, 104.2, 200.0, 200.0, 200.0):
        allowed.setdefault(limit_clock[0], []).append(limiter.take("ann"))
    assert allowed == {103.9: [False], 104.1: [True], 104.2: [False], 200.0: [True, True, False]}


def test_idle_clients_are_forgotten_where_there_are_too_many(limit_clock, monkeypatch):
    """A bucket of 2 that fills at 0.25 a second is full, and not remembered, after 8 seconds."""
    monkeypatch.setattr(visitors, "_MAX_CLIENTS", 2)
    limiter = RateLimiter(2, 0.25)
    for limit_clock[0], client in ((0, "ann"), (1, "bob"), (7, "cid"), (8.5, "dan")):
        limiter.take(client)
    assert sorted(limiter._levels) == ["bob", "cid", "dan"]


def test_the_address_of_a_client_may_be_unknown():
    assert client_address(Request({"type": "http", "client": ("192.0.2.1", 9)})) == "192.0.2.1"
    assert client_address(Request({"type": "http", "client": None})) == ""


def test_a_field_that_is_sent_twice_or_not_at_all_is_empty():
    fields = {"a": [" x "], "b": ["x", "y"], "c": []}
    assert [field_value(fields, name) for name in "abcd"] == ["x", "", "", ""]
