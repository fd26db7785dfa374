"""Password hashes (Argon2id) of the admin and of accounts."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

#: The fewest characters of a password.
PASSWORD_LENGTH = 10

_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """Hash a password with Argon2id."""
    return _hasher.hash(password)


def is_password(hashed: str, password: str) -> bool:
    """Return whether a password has this hash."""
    try:
        return _hasher.verify(hashed, password)
    except (Argon2Error, InvalidHashError):
        return False
