"""Engines that perform the tasks of a large run: a pool of processes here, or Ray, here or on a cluster.

A task is a small dict, and its result is another; whatever is large lies in files. All engines call the
same function (`stages.perform`), so they give the same numbers. A worker that dies is replaced and its
task repeated. `run` and `filtering` open one by `open_engine`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from typing import Any, Self

from ...datasets.cores import count_cores
from ...datasets.errors import InputError
from ..runs.ray_address import TOKEN, address_of, fault_of
from .stages import Result, Task, perform

#: How often a task is repeated whose worker dies; after that the task is to blame.
RETRIES = 3
#: Prefixes of the environment variables that a cluster's workers get as well.
_SHARED_PREFIXES = ("CAPTAU_", "AWS_", "FSSPEC_", "HF_")
#: The size of Ray's object store in bytes: the smallest that Ray allows, as tasks and results are small.
_OBJECT_STORE_BYTES = 100_000_000
#: How often a Ray on this machine is started; on a busy one its parts miss one another.
_START_ATTEMPTS = 3


class Engine(ABC):
    """Base of the engines; a context manager.

    Attributes:
        name: as `engine=` has it.
        workers: how many tasks run at a time.
    """

    name: str
    workers: int

    @abstractmethod
    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Yield the tasks of a stage with their results, in any order.

        Args:
            stage: a key of `stages.STAGES`.
            plan: the path of the run's plan.
            tasks: the tasks to perform.

        Raises:
            InputError: where the workers of a task die more often than `RETRIES`.
        """

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Yield the tasks of the stage `model` with their results; one worker for each device holds a model."""
        return self.run("model", plan, tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def open_engine(name: str, workers: int | None, address: str | None) -> Engine:
    """Return the engine of a name.

    Args:
        name: `local` or `ray`.
        workers: how many tasks at a time; None for every core, 0 for this process alone.
        address: of a Ray cluster; None starts one on this machine.

    Raises:
        InputError: where it is not installed or its cluster cannot be reached.
    """
    if name == "ray":
        return RayEngine(workers, address)
    count = count_cores() if workers is None else workers
    return PoolEngine(count) if count else InProcessEngine()


class InProcessEngine(Engine):
    """One task after another, in this process."""

    name = "local"
    workers = 1

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            yield task, perform(stage, plan, task)


class PoolEngine(Engine):
    """A pool of processes, spawned so that they share no locks with this one."""

    name = "local"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        yield from self._run(stage, plan, tasks, self.workers)

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        yield from self._run("model", plan, tasks, 1)  # a model has all cores, or the one device

    def _run(
        self, stage: str, plan: str, tasks: Sequence[Task], limit: int
    ) -> Iterator[tuple[Task, Result]]:
        """Yield tasks with their results, `limit` of them running at a time."""
        waiting = list(reversed(range(len(tasks))))
        failures = [0] * len(tasks)
        running: dict[Future[Result], int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    number = waiting.pop()
                    try:
                        future = self._open_pool().submit(perform, stage, plan, tasks[number])
                        running[future] = number
                    except BrokenProcessPool:  # it broke after the last wait
                        waiting.append(number)
                        self._close_pool()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    number = running.pop(future)
                    try:
                        yield tasks[number], future.result()
                    except BrokenProcessPool:
                        # Nothing says which of the running tasks broke it, so each is repeated.
                        self._close_pool()
                        for lost in (number, *running.values()):
                            failures[lost] += 1
                            if failures[lost] > RETRIES:
                                raise _worker_died_error(stage, tasks[lost]) from None
                            waiting.append(lost)
                        running.clear()
                        break
        finally:
            for future in running:
                future.cancel()

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.workers,
                # Forked processes would share threads' locks with this one.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_end_with_parent,
            )
        return self._pool

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __exit__(self, *_: object) -> None:
        self._close_pool()


def _worker_died_error(stage: str, task: Task) -> InputError:
    return InputError(
        f"{task.get('source', task['id'])}: its worker died {RETRIES + 1} times ({stage}), perhaps for lack "
        f"of memory; finished parts are kept: start the same command again with fewer workers="
    )


def _end_with_parent() -> None:
    """Make a process of the pool end when the process that started it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class RayEngine(Engine):
    """Ray: on a cluster, or on this machine where no address is given."""

    name = "ray"

    def __init__(self, workers: int | None, address: str | None) -> None:
        try:
            ray = import_module("ray")
        except ModuleNotFoundError as error:
            raise InputError(
                f"engine=ray: {error.name} is not installed: pip install 'captau[ray]'"
            ) from error
        self._has_connected = not ray.is_initialized()
        if self._has_connected:
            self._connect(workers, address_of(address))
        cpus = int(ray.cluster_resources().get("CPU", 1))
        self.workers = min(workers, cpus) if workers else cpus

    def _connect(self, workers: int | None, address: str | None) -> None:
        import ray
        from ray.exceptions import RayError

        messages: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if address is None:
            # Its workers have this process' environment, and start faster without one of their own.
            _start_local_ray(count_cores() if workers is None else workers, messages)
            return
        if (fault := fault_of(address)) is not None:
            raise _unreachable_error(address, fault)
        shared = {k: v for k, v in os.environ.items() if k.startswith(_SHARED_PREFIXES)}
        try:
            ray.init(address=address, runtime_env={"env_vars": shared}, **messages)
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            raise _unreachable_error(address, f"{error}; {TOKEN}") from error

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        import ray

        remote: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(perform)
        submit = partial(remote.remote, stage, plan)
        yield from self._collect(tasks, [submit] * self.workers)

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        import ray

        concurrency = int(ray.cluster_resources().get("GPU", 0))
        share: dict[str, Any] = {"num_gpus": 1}
        if not concurrency:  # without a device a model has all cores of a node, of the largest ones
            cores = [int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["Alive"]]
            share = {"num_cpus": min(self.workers, max(cores))}
            concurrency = min(self.workers // share["num_cpus"], cores.count(max(cores)))
        remote: Any = ray.remote(max_restarts=RETRIES, max_task_retries=RETRIES, **share)(
            _ModelActor
        )
        actors = [remote.remote() for _ in range(min(concurrency, len(tasks)))]
        try:
            yield from self._collect(tasks, [partial(a.perform.remote, plan) for a in actors])
        finally:
            for actor in actors:  # its device or cores are for the next stage
                ray.kill(actor)

    def _collect(
        self, tasks: Sequence[Task], submitters: Sequence[Callable[[Task], Any]]
    ) -> Iterator[tuple[Task, Result]]:
        """Yield tasks with their results; each submitter, which makes a reference to a result, has one at a time."""
        import ray
        from ray.exceptions import RayError

        waiting, idle = list(reversed(tasks)), list(submitters)
        running: dict[Any, tuple[Task, Callable[[Task], Any]]] = {}
        try:
            while waiting or running:
                while waiting and idle:
                    submit, task = idle.pop(), waiting.pop()
                    running[submit(task)] = task, submit
                (reference,), _ = ray.wait(list(running))
                task, submit = running.pop(reference)
                idle.append(submit)
                yield task, ray.get(reference)
        except RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(
                f"engine=ray: a task failed ({type(error).__name__}: {reason[:200]}); what is done is "
                f"kept: start the same command again"
            ) from error

    def __exit__(self, *_: object) -> None:
        if self._has_connected:
            import ray

            ray.shutdown()


def _start_local_ray(cpus: int, messages: dict[str, Any]) -> None:
    """Start a Ray on this machine.

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
                **messages,
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


class _ModelActor:
    """A process that loads a model once and performs one task after another."""

    def perform(self, plan: str, task: Task) -> Result:
        return perform("model", plan, task)


def _unreachable_error(address: str, reason: str) -> InputError:
    return InputError(
        f"ray.address={address}: no cluster can be reached there ({' '.join(reason.split())}); start one "
        f"with ray start --head, or leave the address out"
    )
