"""Settings that a site stores about itself: its name, digest, secrets and its admin's password."""

from __future__ import annotations

import secrets

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    String,
    Table,
    Text,
    column,
    delete,
    insert,
    select,
    table,
)

#: The key of the secret that signs sessions, and of the one that a site began with if that was made anew.
SECRET, FIRST_SECRET = "secret", "first_secret"

_settings = table("meta", column("key"), column("value"))


def settings_table(metadata: MetaData) -> Table:
    """Define the table of settings among a site's own tables."""
    return Table(
        "meta",
        metadata,
        Column("key", String(64), primary_key=True),
        Column("value", Text, nullable=False),
    )


def get_setting(c: Connection, key: str) -> str | None:
    """Return a setting; None if it is not set."""
    return c.execute(select(_settings.c.value).where(_settings.c.key == key)).scalar()


def settings_with_prefix(c: Connection, prefix: str) -> dict[str, str]:
    """Return the settings whose keys begin with a text, by key."""
    rows = c.execute(select(_settings).where(_settings.c.key.startswith(prefix, autoescape=True)))
    return {row.key: row.value for row in rows}


def delete_setting(c: Connection, key: str) -> None:
    """Remove a setting."""
    c.execute(delete(_settings).where(_settings.c.key == key))


def put_setting(c: Connection, key: str, value: str) -> None:
    """Set a setting."""
    delete_setting(c, key)
    c.execute(insert(_settings).values(key=key, value=value))


def new_secret() -> str:
    """Return a new secret of 32 bytes, in hexadecimal digits."""
    return secrets.token_hex(32)


def renew_secret(c: Connection) -> bool:
    """Make a site's secret anew, which ends all sessions; return False if it has none yet.

    The secret that the site began with is kept: names of raters in exports and the mark of a folder are made of it.
    """
    secret = get_setting(c, SECRET)
    if secret is None:
        return False
    if get_setting(c, FIRST_SECRET) is None:
        put_setting(c, FIRST_SECRET, secret)
    put_setting(c, SECRET, new_secret())
    return True
