"""Addresses as limits count them."""

from __future__ import annotations

import pytest

from captau.server.web.visitors import limited_address


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
