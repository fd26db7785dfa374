"""The admin's password."""

from __future__ import annotations

import asyncio

import pytest

from captau.server.web import passwords
from captau.server.web.errors import RefusedError
from captau.server.web.passwords import AdminAccount, hash_password, password_from_environment
from tests.conftest import says


def test_the_admin_s_password_is_set_once_and_ends_sessions(database, monkeypatch):
    admin = AdminAccount(database)
    assert (admin.epoch, admin.has_password) == (0, False)
    hint = "dashboard: http://x/admin/setup?code=CODE (choose a password)"
    assert admin.sign_in_hint("http://x", "CODE") == hint
    first, second = hash_password("the first one"), hash_password("the second one")
    assert admin.set_password(first, replace=False)
    assert not admin.set_password(second, replace=False)
    assert (admin.epoch, asyncio.run(admin.load_password_hash())) == (1, first)
    assert admin.sign_in_hint("http://x", "CODE") == "dashboard: http://x/admin"
    epochs = []
    for password in (None, "the first one", "the second one"):
        admin.adopt_password(password)
        epochs.append(admin.epoch)
    admin.end_sessions()
    assert [*epochs, admin.epoch, AdminAccount(database).epoch] == [1, 1, 2, 3, 3]
    assert passwords.is_password(asyncio.run(admin.load_password_hash()), "the second one")
    assert not passwords.is_password("no hash", "the second one")
    monkeypatch.delenv("CAPTAU_ADMIN_PASSWORD", raising=False)
    assert password_from_environment() is None
    monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", "x" * 10)
    assert password_from_environment() == "x" * 10
    monkeypatch.setenv("CAPTAU_ADMIN_PASSWORD", "x" * 9)
    with says("CAPTAU_ADMIN_PASSWORD has fewer than 10 characters"):
        password_from_environment()


@pytest.mark.parametrize(
    ("length", "is_taken"), [(9, False), (10, True), (200, True), (201, False)]
)
def test_a_new_password_has_ten_to_two_hundred_characters(length, is_taken, monkeypatch):
    monkeypatch.setattr(passwords, "hash_password", lambda password: f"hash of {password}")
    password = "x" * length
    new = passwords.hash_new_password(password, password)
    if is_taken:
        assert asyncio.run(new) == f"hash of {password}"
    else:
        with pytest.raises(RefusedError, match=r"^A password has 10 to 200 characters\.$"):
            asyncio.run(new)
    with pytest.raises(RefusedError):
        asyncio.run(passwords.hash_new_password("x" * 10, "x" * 11))
