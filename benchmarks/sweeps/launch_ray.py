"""Jobs of a sweep on a Ray cluster: its workers do one after another."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

# A busy machine may take longer than the minute that Ray gives its own processes to start.
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict
from ray.exceptions import RayError

from ...datasets.errors import InputError
from ..runs.ray_address import TOKEN, address_of, fault_of


class RayLauncher(Launcher):
    """Launcher of jobs on a running cluster, or on one of this machine alone.

    Args:
        address: of its head, `HOST:PORT`; None starts a cluster here, which ends with the sweep.
        num_cpus, num_gpus, memory: what a job needs of the cluster.
        max_retries: how often a job whose worker died is started again.
    """

    def __init__(
        self,
        address: str | None,
        num_cpus: float,
        num_gpus: float,
        memory: int | None,
        max_retries: int,
    ) -> None:
        self._address = address_of(address)
        self._remote_options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "memory": memory,
            "max_retries": max_retries,
        }

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store what Hydra hands to a launcher."""
        self._context, self._task, self._config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs; one whose worker died is returned as failed.

        Raises:
            InputError: where the cluster cannot be reached.
        """
        setup_globals()
        has_joined = not ray.is_initialized()
        if has_joined:
            self._join()
        try:
            remote = ray.remote(**self._remote_options)(_run_job)
            shared = ray.put((self._context, self._config, self._task, Singleton.get_state()))
            jobs = [
                remote.remote(shared, list(overrides), initial_job_idx + n)
                for n, overrides in enumerate(job_overrides)
            ]
            return [_wait_for(job) for job in jobs]
        finally:
            if has_joined:
                ray.shutdown()

    def _join(self) -> None:
        if self._address and (fault := fault_of(self._address)) is not None:
            raise _unreachable(self._address, fault)
        local: dict[str, Any] = {} if self._address else {"include_dashboard": False}
        try:
            ray.init(
                address=self._address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **local,
            )
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else "no answer"
            if self._address:
                reason += f"; {TOKEN}"
            raise _unreachable(self._address, reason) from error


def _unreachable(address: str | None, reason: str) -> InputError:
    if address is None:
        return InputError(f"Ray cannot start on this machine ({reason})")
    return InputError(f"the Ray cluster at {address} cannot be reached ({reason}); is it running?")


def _run_job(shared: Any, overrides: list[str], number: int) -> None:
    """Run one job, in a worker's process."""
    context, config, task, state = shared
    setup_globals()
    Singleton.set_state(state)
    job_config = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(job_config):
        job_config.hydra.job.id = job_config.hydra.job.num = number
    HydraConfig.instance().set_config(job_config)
    run_job(
        hydra_context=context,
        task_function=task,
        config=job_config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def _wait_for(job: Any) -> JobReturn:
    """Wait for the end of a job, and return whether its process survived; its results lie in its folder."""
    try:
        ray.get(job)
    except RayError as error:
        failed = JobReturn(status=JobStatus.FAILED)
        failed.return_value = error
        return failed
    return JobReturn(status=JobStatus.COMPLETED)
