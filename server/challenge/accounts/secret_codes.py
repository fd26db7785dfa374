"""Random codes and tokens; the database holds their hashes only.

They are long and random, so that SHA-256 without a salt protects them.
"""

from __future__ import annotations

import hashlib
import secrets

#: Letters and digits that are not mistaken for one another.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def make_code() -> str:
    """Return twenty random characters in groups of five (98 bits), to be copied by hand."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def hash_code(code: str) -> str:
    """Return the hash of a code as it was typed: case and surrounding blanks do not matter."""
    return hash_token(code.strip().lower())


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
