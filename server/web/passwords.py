"""Password hashes (Argon2id), and the admin's password and sessions."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from sqlalchemy import Connection

from ...datasets.errors import InputError
from ..storage.database import Database
from ..storage.site_settings import get_setting, put_setting
from .errors import RefusedError

#: The fewest and the most characters of a password.
PASSWORD_LENGTH = 10
MAX_PASSWORD_LENGTH = 200

_hasher = PasswordHasher()

Result = TypeVar("Result")


def _lower_priority() -> None:
    """Let the threads that serve pages go before this one; on Linux a thread has a priority of its own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


# A hash takes both cores of a small machine for a tenth of a second. One at a time leaves the threads of pages free.
_hashing = ThreadPoolExecutor(1, "captau-passwords", initializer=_lower_priority)


async def _hash_aside(function: Callable[..., Result], *args: str) -> Result:
    """Call a function that hashes, behind the pages that are asked for meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_hashing, function, *args)


def hash_password(password: str) -> str:
    """Hash a password with Argon2id."""
    return _hasher.hash(password)


def is_password(hashed: str, password: str) -> bool:
    """Return whether a password has this hash."""
    try:
        return _hasher.verify(hashed, password)
    except (Argon2Error, InvalidHashError):
        return False


async def check_password(hashed: str, password: str) -> bool:
    """Return whether a password has this hash, without holding up the event loop."""
    return await _hash_aside(is_password, hashed, password[:MAX_PASSWORD_LENGTH])


async def hash_new_password(password: str, repeated: str) -> str:
    """Hash a password that somebody chose.

    Raises:
        RefusedError: if it is too short or too long, or is not repeated.
    """
    if not PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise RefusedError(f"A password has {PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters.")
    if password != repeated:
        raise RefusedError("The two passwords are not the same.")

    return await _hash_aside(hash_password, password)


#: The environment variable that may hold the admin's password; only its hash is stored.
PASSWORD_VARIABLE = "CAPTAU_ADMIN_PASSWORD"


class AdminAccount:
    """The admin of a site.

    Attributes:
        epoch: how often all of the admin's sessions have been ended.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.epoch = database.run_blocking(_load_epoch)

    async def load_password_hash(self) -> str | None:
        """Return the hash of the admin's password; None if none is set yet."""
        return await self._database.run(_load_password_hash)

    @property
    def has_password(self) -> bool:
        """True if a password is set; not for the event loop's thread."""
        return self._database.run_blocking(_load_password_hash) is not None

    def set_password(self, hashed: str, *, replace: bool) -> bool:
        """Set the password's hash and end all sessions.

        Returns False and changes nothing if there is a password and `replace` is False.
        """

        def store(c: Connection) -> int | None:
            if _load_password_hash(c) is not None and not replace:
                return None
            put_setting(c, "password", hashed)
            return _advance_epoch(c)

        epoch = self._database.run_blocking(store)
        if epoch is not None:
            self.epoch = epoch

        return epoch is not None

    def end_sessions(self) -> None:
        """End all sessions of the admin's pages."""
        self.epoch = self._database.run_blocking(_advance_epoch)

    def adopt_password(self, password: str | None) -> None:
        """Set a password from the environment, unless it is None or set already."""
        if password is None:
            return

        hashed = self._database.run_blocking(_load_password_hash)
        # Setting a password ends all sessions, which a restart of the server should not.
        if hashed is None or not is_password(hashed, password):
            self.set_password(hash_password(password), replace=True)

    def sign_in_hint(self, url: str, setup_code: str) -> str:
        """Return the line that tells whoever started the server where the admin signs in."""
        if self.has_password:
            return f"dashboard: {url}/admin"
        return f"dashboard: {url}/admin/setup?code={setup_code} (choose a password)"


def password_from_environment() -> str | None:
    """Return the admin's password from the environment; None if it is not set.

    Raises:
        InputError: if it is too short.
    """
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None and len(password) < PASSWORD_LENGTH:
        raise InputError(f"{PASSWORD_VARIABLE} has fewer than {PASSWORD_LENGTH} characters")

    return password


def _load_password_hash(c: Connection) -> str | None:
    return get_setting(c, "password")


def _load_epoch(c: Connection) -> int:
    return int(get_setting(c, "epoch") or 0)


def _advance_epoch(c: Connection) -> int:
    epoch = _load_epoch(c) + 1
    put_setting(c, "epoch", str(epoch))
    return epoch
