"""Whoever runs a site: their password and their sessions, kept in the site's own database."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

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

from ..datasets.errors import InputError
from .database import Database
from .security import PASSWORD_LENGTH, hash_password, right_password

#: The admin's password may be handed over in it; it is stored as a hash alone.
PASSWORD = "CAPTAU_ADMIN_PASSWORD"

#: What every site's database has a table for, whichever its other tables are.
_meta = table("meta", column("key"), column("value"))


def meta_table(metadata: MetaData) -> Table:
    """That table among a site's own: its name, digest, secrets, its admin's password."""
    return Table(
        "meta",
        metadata,
        Column("key", String(64), primary_key=True),
        Column("value", Text, nullable=False),
    )


def get_meta(c: Connection, key: str) -> str | None:
    """A value that the site keeps of itself."""
    return c.execute(select(_meta.c.value).where(_meta.c.key == key)).scalar()


def put_meta(c: Connection, key: str, value: str) -> None:
    """Set one."""
    c.execute(delete(_meta).where(_meta.c.key == key))
    c.execute(insert(_meta).values(key=key, value=value))


class Keeper:
    """The admin of a site.

    Attributes:
        epoch: how often all were signed out of the admin's pages.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.epoch = database.do(_epoch)

    async def password(self) -> str | None:
        """The hash of the admin's password; None where none is set yet."""
        return await self._database.run(_password)

    @property
    def ready(self) -> bool:
        """Whether a password is set; not for the loop's thread."""
        return self._database.do(_password) is not None

    def set_password(self, hashed: str, *, replace: bool) -> bool:
        """Set it, and sign everybody out.

        Returns False, and changes nothing, where there is one that is not to be replaced.
        """

        def work(c: Connection) -> int | None:
            if _password(c) is not None and not replace:
                return None
            put_meta(c, "password", hashed)
            return _next_epoch(c)

        epoch = self._database.do(work)
        if epoch is not None:
            self.epoch = epoch
        return epoch is not None

    def sign_out(self) -> None:
        """End all sessions of the admin's pages."""
        self.epoch = self._database.do(_next_epoch)

    def take_over(self, password: str | None) -> None:
        """Make a password from the environment the admin's, unless it is already."""
        if password is None:
            return
        hashed = self._database.do(_password)
        if hashed is None or not right_password(hashed, password):
            self.set_password(hash_password(password), replace=True)


def given_password() -> str | None:
    """The password that the environment hands over.

    Raises:
        InputError: where it is too short.
    """
    password = os.environ.get(PASSWORD)
    if password is not None and len(password) < PASSWORD_LENGTH:
        raise InputError(f"{PASSWORD} has fewer than {PASSWORD_LENGTH} characters")
    return password


def outside(url: str | None) -> tuple[str, bool, str]:
    """What `url=` says of how the outside sees a site: the path it is under, whether by https, its origin.

    Raises:
        InputError: on an address that is none.
    """
    address = urlsplit(url or "")
    if url and (address.scheme not in ("http", "https") or not address.netloc):
        raise InputError(f"url={url}: http://… or https://… is expected")
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    return address.path.rstrip("/"), address.scheme == "https", origin


def announce(keeper: Keeper, url: str, setup: str) -> None:
    """Print where the admin signs in."""
    if keeper.ready:
        print(f"dashboard: {url}/admin", flush=True)
    else:
        print(f"dashboard: {url}/admin/setup?code={setup} (choose a password)", flush=True)


def _password(c: Connection) -> str | None:
    return get_meta(c, "password")


def _epoch(c: Connection) -> int:
    return int(get_meta(c, "epoch") or 0)


def _next_epoch(c: Connection) -> int:
    epoch = _epoch(c) + 1
    put_meta(c, "epoch", str(epoch))
    return epoch
