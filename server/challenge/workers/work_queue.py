"""The queue that wakes workers: huey's, on SQLite by default, or on Redis or PostgreSQL.

The database decides what waits. A message holds a kind of work and a submission's number; a lost one is sent
again (`worker_pool`), and for a second one the work is already claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import StrEnum, auto
from typing import Any, cast

from huey import Huey, PostgresHuey, RedisHuey, SqliteHuey
from huey.registry import Message
from huey.serializer import Serializer

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ..submissions import SubmissionState


class WorkKind(StrEnum):
    """The kinds of work; each has its own queue, so that checks do not wait for evaluations."""

    CHECK = auto()
    EVALUATE = auto()

    @property
    def waiting_state(self) -> SubmissionState:
        """Return the state of submissions that wait for this work."""
        is_check = self is WorkKind.CHECK
        return SubmissionState.RECEIVED if is_check else SubmissionState.QUEUED


class _JsonSerializer(Serializer):
    """Messages as JSON: nothing is unpickled, whoever writes into the queue."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps([data.id, data.name, data.args]).encode()

    def _deserialize(self, data: bytes) -> Message:
        message_id, name, args = json.loads(data)
        return Message(message_id, name, retries=0, retry_delay=0, args=args, kwargs={})


class WorkQueue:
    """A queue of one kind of work.

    Args:
        address: a file, redis://… or postgresql://….
        kind: of the work.
        work: does the work on a submission, in a worker.

    Raises:
        InputError: if it cannot be reached.
    """

    def __init__(
        self, address: str, kind: WorkKind, work: Callable[[Any], None] = lambda number: None
    ) -> None:
        self.kind = kind
        self.huey = _open(address, kind)

        def work_on(number: Any) -> None:  # messages name it: it is the same in every process
            work(number)

        self._task = cast("Any", self.huey.task(name=str(kind))(work_on))

    def put(self, numbers: Iterable[int]) -> None:
        """Wake a worker for each submission."""
        for number in numbers:
            self._task(number)

    @property
    def size(self) -> int:
        """Return the number of messages that wait."""
        return cast("int", self.huey.pending_count())

    def clear(self) -> None:
        """Remove all messages."""
        self.huey.storage.flush_queue()


def _open(address: str, kind: WorkKind) -> Huey:
    options: dict[str, Any] = {
        "name": f"captau.{kind}",
        "results": False,
        "serializer": _JsonSerializer(),
        "immediate": False,
    }
    try:
        if address.startswith(("redis://", "rediss://")):
            huey: Huey = RedisHuey(url=address, **options)
        elif address.startswith(("postgresql://", "postgres://")):
            huey = PostgresHuey(dsn=address, **options)
        elif "://" in address:
            raise InputError(
                f"queue={address.partition(':')[0]}://…: a path (SQLite), redis://… or postgresql://… is "
                f"expected"
            )
        else:
            path = expand_home(address)
            path.parent.mkdir(parents=True, exist_ok=True)
            huey = SqliteHuey(filename=str(path), fsync=False, **options)
        huey.pending_count()
    except InputError:
        raise
    except Exception as error:  # each storage has its own
        address = address.rpartition("@")[2]  # without a password
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"queue={address}: {reason}") from error
    return huey
