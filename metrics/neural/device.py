"""The choice of a device, and batches that shrink when its memory is full."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar

from ...datasets.errors import InputError

Device = Literal["auto", "cpu", "cuda", "mps"]
Item = TypeVar("Item")

#: Models take turns (`Metric.lock`): each has all cores, kin find in the store what the one before put
#: there, and the libraries' imports and switches (transformers', `logging.disable`) bear no threads.
TURN = threading.RLock()


def resolve(device: Device) -> str:
    """Return the device that `auto` stands for here: cuda, mps or cpu.

    Raises:
        InputError: where the device that is named is not there.
    """
    if device == "cpu" or importlib.util.find_spec("torch") is None:
        return device
    import torch

    availability = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next((name for name, is_available in availability.items() if is_available), "cpu")
    if not availability[device]:
        raise InputError(
            f"device={device}: torch finds none on this machine; device=cpu works anywhere"
        )
    return device


def on(device: Device) -> str:
    """Return the device for a signature, whether or not it is here."""
    return f"on:{resolve(device) if device == 'auto' else device}"


def batches(
    items: Iterable[Item],
    size: int,
    run: Callable[[Sequence[Item]], Any],
    remark: Callable[[str], None],
) -> Iterator[tuple[Sequence[Item], Any]]:
    """`run` of batch after batch; one that does not fit into memory is halved, and so are the next.

    Args:
        items: what to run over, in order.
        size: of the first batches.
        run: what a batch gives.
        remark: told once where batches were halved.

    Raises:
        InputError: where not even one item fits.
    """
    source = iter(items)
    pending: list[Item] = []
    while True:
        pending += islice(source, max(size - len(pending), 0))
        if not pending:
            return
        batch = pending[:size]
        try:
            result = run(batch)
        except (RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch) == 1:
                raise InputError(
                    f"the device's memory does not hold a batch of one ({error}); try device=cpu"
                ) from error
            size = len(batch) // 2
            remark(f"memory was full: batches of {size}")
            _release()
            continue
        yield batch, result
        pending = pending[len(batch) :]


def _out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate" in text


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
