"""The queue that wakes workers: huey's, on SQLite by default, or on Redis or PostgreSQL.

What waits is told by the database's rows. A message says no more than a kind of work and what it is of;
one that is lost is sent again (`worker.Workers`), and one that comes twice finds its work taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from huey import Huey, PostgresHuey, RedisHuey, SqliteHuey
from huey.registry import Message
from huey.serializer import Serializer

from ....datasets.errors import InputError

#: Kinds of work, each with a queue of its own: submissions are checked beside what is evaluated.
KINDS = ("check", "evaluate")


class _Json(Serializer):
    """Messages as JSON: nothing is unpickled, whoever writes into the queue."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps([data.id, data.name, data.args]).encode()

    def _deserialize(self, data: bytes) -> Message:
        number, name, args = json.loads(data)
        return Message(number, name, retries=0, retry_delay=0, args=args, kwargs={})


class Queue:
    """A queue of one kind of work.

    Args:
        address: a file, redis://… or postgresql://….
        kind: of `KINDS`.
        do: does a piece of it, in a worker.

    Raises:
        InputError: where it cannot be reached.
    """

    def __init__(
        self, address: str, kind: str, do: Callable[[Any], None] = lambda what: None
    ) -> None:
        self.kind = kind
        self.huey = _open(address, kind)

        def work(what: Any) -> None:  # its name and module are in each message, the same for all
            do(what)

        self._task = cast("Any", self.huey.task(name=kind)(work))

    def put(self, some: Iterable[Any]) -> None:
        """Wake a worker for each."""
        for what in some:
            self._task(what)

    @property
    def size(self) -> int:
        """How many messages nobody has taken."""
        return cast("int", self.huey.pending_count())

    def clear(self) -> None:
        """Take all messages out."""
        self.huey.storage.flush_queue()


def _open(address: str, kind: str) -> Huey:
    options: dict[str, Any] = {"results": False, "serializer": _Json(), "immediate": False}
    try:
        if address.startswith(("redis://", "rediss://")):
            huey: Huey = RedisHuey(f"captau.{kind}", url=address, **options)
        elif address.startswith(("postgresql://", "postgres://")):
            huey = PostgresHuey(f"captau.{kind}", dsn=address, **options)
        elif "://" in address:
            raise InputError(
                f"queue={address.partition(':')[0]}://…: a path (SQLite), redis://… or postgresql://… is "
                f"expected"
            )
        else:
            path = Path(address).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            huey = SqliteHuey(f"captau.{kind}", filename=str(path), fsync=False, **options)
        huey.pending_count()
    except InputError:
        raise
    except Exception as error:  # each storage has its own
        name = address.rpartition("@")[2]  # without a password
        raise InputError(
            f"queue={name}: {str(error).strip().splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    return huey
