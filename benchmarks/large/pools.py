"""Pools of processes that perform the tasks of a large run: on this machine, or by Ray on a cluster.

A task is small and so is its result; whatever is large lies in files. A worker that dies ends the run, whose finished tasks
are kept, so that the same command goes on after them.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Self

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from ..runs.ray_address import TOKEN, address_of, fault_of
from .plan import Task

#: A function of a task, which every process can import.
Work = Callable[[Task], dict[str, Any]]

#: Prefixes of the environment variables that a cluster's workers get as well.
_SHARED_PREFIXES = ("CAPTAU_", "AWS_", "FSSPEC_", "HF_")
#: The size of Ray's object store in bytes: the smallest that Ray allows, as tasks and results are small.
_OBJECT_STORE_BYTES = 100_000_000
#: How often a Ray on this machine is started; on a busy one its parts miss one another.
_START_ATTEMPTS = 3


class Pool(ABC):
    """Base of the pools.

    Attributes:
        engine: as `engine=` has it.
        workers: how many tasks run at a time.
    """

    engine: str
    workers: int

    @abstractmethod
    def run(self, work: Work, tasks: Sequence[Task]) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Yield tasks with their results, in any order.

        Raises:
            InputError: where a worker dies.
        """

    @abstractmethod
    def run_models(
        self, work: Work, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Yield tasks with their results, where a task runs a model.

        One task at a time has a device, or all cores of a machine.
        """


@contextmanager
def open_pool(engine: str, workers: int | None, address: str | None) -> Generator[Pool]:
    """Open the pool of an engine.

    Args:
        engine: `local` or `ray`.
        workers: how many tasks at a time; None for every core, 0 for this process alone.
        address: of a Ray cluster; None starts one on this machine.

    Raises:
        InputError: where Ray is not installed or its cluster cannot be reached.
    """
    if engine == "ray":
        with _join_ray(workers, address), RayPool(workers) as pool:
            yield pool
        return

    n_workers = count_cores() if workers is None else workers
    if not n_workers:
        yield ThisProcess()
        return

    with ProcessPool(n_workers) as pool:
        yield pool


class ThisProcess(Pool):
    """One task after another, in this process."""

    engine = "local"
    workers = 1

    def run(self, work: Work, tasks: Sequence[Task]) -> Iterator[tuple[Task, dict[str, Any]]]:
        for task in tasks:
            yield task, work(task)

    def run_models(
        self, work: Work, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        return self.run(work, tasks)


class ProcessPool(Pool):
    """Processes of this machine, spawned so that they share no locks with this one; a context manager.

    Args:
        workers: how many there are.
    """

    engine = "local"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        # They stay for all stages, as what they import takes seconds.
        self._processes = _start_processes(workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.shutdown(cancel_futures=True)

    def run(self, work: Work, tasks: Sequence[Task]) -> Iterator[tuple[Task, dict[str, Any]]]:
        return _collect(self._processes, work, tasks)

    def run_models(
        self, work: Work, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        with _start_processes(1) as processes:
            yield from _collect(processes, work, tasks)


def _start_processes(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_end_with_parent,
    )


def _collect(
    processes: ProcessPoolExecutor, work: Work, tasks: Sequence[Task]
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Yield tasks with their results as they come."""
    futures: dict[Future[dict[str, Any]], Task] = {}
    try:
        for task in tasks:
            futures[processes.submit(work, task)] = task

        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise _worker_died_error() from error
    finally:
        # After an error no further task begins.
        for future in futures:
            future.cancel()


def _worker_died_error() -> InputError:
    return InputError(
        "a worker died, perhaps for lack of memory; finished shards are kept: start the same command again, with fewer "
        "workers= or rows= if it dies again"
    )


def _end_with_parent() -> None:
    """Make a process of the pool end when the process that started it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class RayPool(Pool):
    """Processes of a cluster that this process has joined; a context manager.

    Args:
        workers: how many there are at most; None for every core of the cluster.
    """

    engine = "ray"

    def __init__(self, workers: int | None) -> None:
        import ray

        cores = int(ray.cluster_resources().get("CPU", 1))
        self._devices = int(ray.cluster_resources().get("GPU", 0))
        self.workers = min(workers, cores) if workers else cores
        self._processes: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_processes()

    def run(self, work: Work, tasks: Sequence[Task]) -> Iterator[tuple[Task, dict[str, Any]]]:
        from ray.util.multiprocessing import Pool as RayProcesses

        if self._processes is None:
            # They stay for all stages, as what they import takes seconds.
            self._processes = RayProcesses(self.workers, ray_remote_args={"num_cpus": 1})

        return _collect_from_ray(self._processes, work, tasks)

    def run_models(
        self, work: Work, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, dict[str, Any]]]:
        import ray
        from ray.util.multiprocessing import Pool as RayProcesses

        self._end_processes()  # their cores are for the models

        n_processes = self._devices
        resources = {"num_gpus": 1}
        if not self._devices:
            # Without a device a model has all cores of a machine, of the largest ones.
            living_nodes = [node for node in ray.nodes() if node["Alive"]]
            cores = [int(node["Resources"].get("CPU", 0)) for node in living_nodes]
            most_cores = max(cores)
            n_cores = min(self.workers, most_cores)
            resources = {"num_cpus": n_cores}
            n_processes = min(self.workers // n_cores, cores.count(most_cores))

        n_processes = max(1, min(n_processes, len(tasks)))
        processes = RayProcesses(n_processes, ray_remote_args=resources)
        try:
            yield from _collect_from_ray(processes, work, tasks)
        finally:
            processes.terminate()
            processes.join()

    def _end_processes(self) -> None:
        if self._processes is not None:
            self._processes.terminate()
            self._processes.join()
            self._processes = None


def _collect_from_ray(
    processes: Any, work: Work, tasks: Sequence[Task]
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Yield tasks with their results as they come."""
    from ray.exceptions import RayError

    if not tasks:
        return

    numbered_tasks = [(work, number, task) for number, task in enumerate(tasks)]
    try:
        for pair in processes.imap_unordered(_work_on_numbered_task, numbered_tasks, chunksize=1):
            if isinstance(pair, RayError):  # Ray returns the error of a process that died
                raise _worker_died_error() from pair

            number, result = pair
            yield tasks[number], result
    except RayError as error:
        raise _worker_died_error() from error


def _work_on_numbered_task(numbered: tuple[Work, int, Task]) -> tuple[int, dict[str, Any]]:
    work, number, task = numbered
    return number, work(task)


@contextmanager
def _join_ray(workers: int | None, address: str | None) -> Generator[None]:
    """Join a cluster, or start one on this machine, and leave it at the end; one that is joined already is used."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise InputError(
            f"engine=ray: {error.name} is not installed: pip install 'captau[ray]'"
        ) from error

    if ray.is_initialized():
        yield
        return

    # Else Ray warns that a later version will leave the devices' variables of tasks without a device alone.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

    address = address_of(address)
    if address is None:
        _start_ray(count_cores() if workers is None else workers)
    else:
        _connect_to_ray(address)

    try:
        yield
    finally:
        ray.shutdown()


def _connect_to_ray(address: str) -> None:
    import ray
    from ray.exceptions import RayError

    fault = fault_of(address)
    if fault is not None:
        raise _unreachable_error(address, fault)

    shared: dict[str, str] = {}
    for name, value in os.environ.items():
        # The rest of this machine's environment is none of a cluster's.
        if name.startswith(_SHARED_PREFIXES):
            shared[name] = value

    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": shared},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (RayError, ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable_error(address, f"{error}; {TOKEN}") from error


def _start_ray(cpus: int) -> None:
    """Start a Ray on this machine, whose workers have this process' environment.

    Raises:
        InputError: where it does not start in `_START_ATTEMPTS` attempts.
    """
    import ray

    for attempts_left in reversed(range(_START_ATTEMPTS)):
        try:
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
            return
        except Exception as error:  # a machine that is too busy has no class of its own
            ray.shutdown()
            if not attempts_left:
                reason = " ".join(str(error).split())[:200]
                raise InputError(
                    f"engine=ray: Ray does not start on this machine ({reason}); try again when it is less "
                    f"busy, or engine=local"
                ) from error


def _unreachable_error(address: str, reason: str) -> InputError:
    return InputError(
        f"ray.address={address}: no cluster can be reached there ({' '.join(reason.split())}); start one "
        f"with ray start --head, or leave the address out"
    )
