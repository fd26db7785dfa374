"""Jobs of a sweep by submitit: a process each, by SLURM or on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import submitit
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher
from omegaconf import OmegaConf

from ...datasets.errors import InputError

#: Options that an executor takes when it is made; it takes all others later.
_CONSTRUCTOR_OPTIONS = ("submitit_folder", "max_num_timeout")


class SubmititLauncher(BaseSubmititLauncher):
    """Hydra's launcher, but for `launch`, which outlives the death of a job's process.

    Args:
        cluster: `slurm`, or `local` for processes of this machine.
        limit: how many jobs run at once; None leaves it to the cluster.
        options: the options of hydra-submitit-launcher.
    """

    def __init__(self, cluster: str, limit: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._EXECUTOR = cluster
        self._limit = limit

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs; one whose process died is returned as failed.

        Raises:
            InputError: where there is no such cluster here.
        """
        assert self.config is not None
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        executor = self._make_executor()
        arguments = [
            (list(overrides), "hydra.sweep.dir", initial_job_idx + n, "", Singleton.get_state())
            for n, overrides in enumerate(job_overrides)
        ]
        limit = self._limit or len(arguments)
        jobs: list[submitit.Job[Any]] = []
        while len(jobs) < len(arguments):
            room = limit - sum(not job.done() for job in jobs)
            if room > 0:
                jobs += executor.map_array(self, *zip(*arguments[len(jobs) :][:room], strict=True))
            else:
                time.sleep(0.2)
        return [_wait_for(job) for job in jobs]

    def _make_executor(self) -> submitit.AutoExecutor:
        constructor_options = {
            f"{self._EXECUTOR}_{key}": self.params[key]
            for key in _CONSTRUCTOR_OPTIONS[1:]
            if key in self.params
        }
        try:
            executor = submitit.AutoExecutor(
                folder=self.params["submitit_folder"], cluster=self._EXECUTOR, **constructor_options
            )
        except RuntimeError as error:  # no sbatch on the path
            raise InputError(f"hydra/launcher={self._EXECUTOR}: {error}") from error
        shared = set(OmegaConf.structured(BaseQueueConf).keys())
        executor.update_parameters(
            **{
                key if key in shared else f"{self._EXECUTOR}_{key}": value
                for key, value in self.params.items()
                if key not in _CONSTRUCTOR_OPTIONS
            }
        )
        return executor


def _wait_for(job: submitit.Job[Any]) -> JobReturn:
    """Wait for the end of a job, and return whether its process survived; its results lie in its folder."""
    error = job.exception()
    if error is None:
        return JobReturn(status=JobStatus.COMPLETED)
    failed = JobReturn(status=JobStatus.FAILED)
    failed.return_value = error
    return failed
