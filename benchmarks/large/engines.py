"""Who does the tasks of a large run: a pool of processes here, or Ray, on this machine or a cluster.

A task is a small dict, and what comes back is another; whatever is large lies in files. Both engines do
the same tasks with the same function (`stages.perform`), so they give the same numbers. A worker that
dies is replaced and its task done again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Self

from ...datasets.errors import InputError
from ..runs.ray_address import TOKEN, address_of, fault_of
from .stages import Model, perform

Task = dict[str, Any]
Result = dict[str, Any]

#: So often a task is done anew when its worker dies; then it is the task that kills them.
RETRIES = 3
#: Of the processes' environment, what these begin is handed on to a cluster's.
_HANDED_ON = ("CAPTAU_", "AWS_", "FSSPEC_", "HF_")
#: Ray's store of objects holds tasks and results, which are small; this is the least that it takes.
_OBJECTS = 100_000_000
#: So often a Ray of our own is started; on a busy machine its parts miss one another.
_STARTS = 3
#: So many tasks go together at most, and a worker is to have so many turns at least.
_TOGETHER, _TURNS = 4, 8


class Engine(ABC):
    """Does tasks, several at a time.

    Attributes:
        workers: how many at a time.
    """

    name: str
    workers: int

    @abstractmethod
    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Do tasks of a stage, in any order; each is given back with what it gave.

        Args:
            stage: of `stages.STAGES`.
            plan: the path of the run's plan.
            tasks: what to do.

        Raises:
            InputError: where workers die again and again.
        """

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Do tasks whose workers hold a model: as few as there are devices for it."""
        return self.run("model", plan, tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def engine_of(name: str, workers: int | None, address: str | None) -> Engine:
    """An engine by its name.

    Raises:
        InputError: where it is not installed or its cluster cannot be reached.
    """
    if name == "ray":
        return Ray(workers, address)
    count = (os.cpu_count() or 1) if workers is None else workers
    return Local(count) if count else InProcess()


class InProcess(Engine):
    """One task after another, in this very process."""

    name = "local"
    workers = 1

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            yield task, perform(stage, plan, task)


class Local(Engine):
    """A pool of processes, each started afresh."""

    name = "local"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        yield from self._run(stage, plan, tasks, self.workers)

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        yield from self._run("model", plan, tasks, 1)  # a model has all cores, or the one device

    def _run(
        self, stage: str, plan: str, tasks: Sequence[Task], most: int
    ) -> Iterator[tuple[Task, Result]]:
        waiting = list(enumerate(tasks))[::-1]
        failures = [0] * len(tasks)
        running: dict[Future[Result], int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    number, task = waiting.pop()
                    try:
                        running[self._started().submit(perform, stage, plan, task)] = number
                    except BrokenProcessPool:  # it broke after the last look
                        waiting.append((number, task))
                        self._stop()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    number = running.pop(future)
                    try:
                        yield tasks[number], future.result()
                    except BrokenProcessPool:
                        # Which of the running tasks it was nobody knows; each is done again.
                        self._stop()
                        for lost in (number, *running.values()):
                            failures[lost] += 1
                            if failures[lost] > RETRIES:
                                raise killed(stage, tasks[lost]) from None
                            waiting.append((lost, tasks[lost]))
                        running.clear()
                        break
        finally:
            for future in running:
                future.cancel()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.workers,
                # Forked processes would share threads' locks with this one.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(os.getpid(),),
            )
        return self._pool

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __exit__(self, *_: object) -> None:
        self._stop()


def killed(stage: str, task: Task) -> InputError:
    """The error for a task whose workers die."""
    return InputError(
        f"{task.get('source', task['id'])}: its worker died {RETRIES + 1} times over ({stage}); for want of "
        f"memory? what is done is kept: start the same command again with fewer workers="
    )


def _begin(parent: int) -> None:
    """Of each process of the pool: it goes when the one that started it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Ray(Engine):
    """Ray Data: on a cluster, or on this machine where no address is given."""

    name = "ray"

    def __init__(self, workers: int | None, address: str | None) -> None:
        try:
            ray = import_module("ray")
            import_module("ray.data")
        except ModuleNotFoundError as error:
            raise InputError(
                f"engine=ray: {error.name} is not installed: pip install 'captau[ray]'"
            ) from error
        self._own = not ray.is_initialized()
        if self._own:
            self._connect(workers, address_of(address))
        cpus = int(ray.cluster_resources().get("CPU", 1))
        self.workers = min(workers, cpus) if workers else cpus

    def _connect(self, workers: int | None, address: str | None) -> None:
        import ray
        from ray.exceptions import RayError

        handed_on = {k: v for k, v in os.environ.items() if k.startswith(_HANDED_ON)}
        common: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            "runtime_env": {"env_vars": handed_on},
        }
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if address is None:
            _start_here((os.cpu_count() or 1) if workers is None else workers, common)
            return
        if (fault := fault_of(address)) is not None:
            raise _unreachable(address, fault)
        try:
            ray.init(address=address, **common)
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            raise _unreachable(address, f"{error}; {TOKEN}") from error

    def run(self, stage: str, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        def do(row: dict[str, Any]) -> dict[str, Any]:
            results = [perform(stage, plan, task) for task in json.loads(row["tasks"])]
            return {"number": row["number"], "results": json.dumps(results)}

        # Handing out takes a tenth of a second each, so a few tasks go together where there are many.
        most = min(self.workers, len(tasks))
        together = max(1, min(_TOGETHER, len(tasks) // (_TURNS * self.workers)))
        return self._rows(tasks, together, lambda data: data.map(do, num_cpus=1, concurrency=most))

    def run_models(self, plan: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        import ray

        at_once = int(ray.cluster_resources().get("GPU", 0))
        share: dict[str, Any] = {"num_gpus": 1}
        if not at_once:  # without a device a model has all cores of a node, of the largest ones
            cores = [int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["Alive"]]
            share = {"num_cpus": min(self.workers, max(cores))}
            at_once = min(self.workers // share["num_cpus"], cores.count(max(cores)))
        return self._rows(
            tasks,
            1,
            lambda data: data.map_batches(
                _Actor,
                fn_constructor_args=(plan,),
                batch_size=1,
                concurrency=at_once,
                **share,
            ),
        )

    def _rows(
        self, tasks: Sequence[Task], together: int, over: Any
    ) -> Iterator[tuple[Task, Result]]:
        import ray
        from ray.exceptions import RayError

        if not tasks:
            return
        with _quiet():
            groups = [tasks[i : i + together] for i in range(0, len(tasks), together)]
            # As texts, or Ray would make columns of what is in them, the same ones for all.
            items = [{"number": i, "tasks": json.dumps(group)} for i, group in enumerate(groups)]
            data = ray.data.from_items(items, override_num_blocks=len(items))
            try:
                for row in over(data).iter_rows():
                    yield from zip(groups[row["number"]], json.loads(row["results"]), strict=True)
            except RayError as error:
                said = str(error).strip().splitlines()[-1]
                raise InputError(
                    f"engine=ray: a task failed ({type(error).__name__}: {said[:200]}); what is done is "
                    f"kept: start the same command again"
                ) from error

    def __exit__(self, *_: object) -> None:
        if self._own:
            import ray

            ray.shutdown()


def _start_here(cpus: int, common: dict[str, Any]) -> None:
    """Start a Ray of our own.

    Raises:
        InputError: where it does not start, time and again.
    """
    import ray

    for left in reversed(range(_STARTS)):
        try:
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=_OBJECTS,
                **common,
            )
            return
        except Exception as error:  # a machine that is too busy has no class of its own
            ray.shutdown()
            if not left:
                said = " ".join(str(error).split())[:200]
                raise InputError(
                    f"engine=ray: Ray does not start on this machine ({said}); try again when it is less "
                    f"busy, or engine=local"
                ) from error


class _Actor:
    """Of Ray Data's actors: a model is loaded once and does batch after batch."""

    def __init__(self, plan: str) -> None:
        self._model = Model(plan)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {
            "number": batch["number"],
            "results": [
                json.dumps([self._model.perform(task) for task in json.loads(tasks)])
                for tasks in batch["tasks"]
            ],
        }


@contextmanager
def _quiet() -> Generator[None]:
    """Ray Data without bars and messages of its own."""
    import logging

    from ray.data import DataContext

    context = DataContext.get_current()
    before = context.enable_progress_bars
    context.enable_progress_bars = False
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        context.enable_progress_bars = before
        logger.setLevel(level)


def _unreachable(address: str, why: str) -> InputError:
    said = " ".join(why.split())
    return InputError(
        f"ray.address={address}: no cluster can be reached there ({said}); start one with ray start --head, "
        f"or leave the address out"
    )
