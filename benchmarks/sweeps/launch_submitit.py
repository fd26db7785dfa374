"""Jobs of a sweep through submitit: a process each, by SLURM or on this machine."""

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

#: What an executor takes when it is made; all else it takes later.
_MADE_WITH = ("submitit_folder", "max_num_timeout")


class Submitit(BaseSubmititLauncher):
    """Hydra's launcher, but for `launch`, which outlives the death of a job's process.

    Args:
        cluster: `slurm`, or `local` for processes of this machine.
        at_once: how many run at once; None leaves it to the cluster.
        options: those of hydra-submitit-launcher.
    """

    def __init__(self, cluster: str, at_once: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._EXECUTOR = cluster
        self._at_once = at_once

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs; one whose process died is returned as failed.

        Raises:
            InputError: where there is no such cluster here.
        """
        assert self.config is not None
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        executor = self._made()
        asked = [
            (list(overrides), "hydra.sweep.dir", initial_job_idx + n, "", Singleton.get_state())
            for n, overrides in enumerate(job_overrides)
        ]
        at_once = self._at_once or len(asked)
        jobs: list[submitit.Job[Any]] = []
        while len(jobs) < len(asked):
            room = at_once - sum(not job.done() for job in jobs)
            if room > 0:
                jobs += executor.map_array(self, *zip(*asked[len(jobs) :][:room], strict=True))
            else:
                time.sleep(0.2)
        return [_returned(job) for job in jobs]

    def _made(self) -> submitit.AutoExecutor:
        made = {f"{self._EXECUTOR}_{k}": v for k, v in self.params.items() if k in _MADE_WITH[1:]}
        try:
            executor = submitit.AutoExecutor(
                folder=self.params["submitit_folder"], cluster=self._EXECUTOR, **made
            )
        except RuntimeError as error:  # no sbatch on the path
            raise InputError(f"hydra/launcher={self._EXECUTOR}: {error}") from error
        shared = set(OmegaConf.structured(BaseQueueConf).keys())
        executor.update_parameters(
            **{
                key if key in shared else f"{self._EXECUTOR}_{key}": value
                for key, value in self.params.items()
                if key not in _MADE_WITH
            }
        )
        return executor


def _returned(job: submitit.Job[Any]) -> JobReturn:
    """What became of a job, once it has ended; its results lie in its folder."""
    died = job.exception()
    if died is None:
        return JobReturn(status=JobStatus.COMPLETED)
    failed = JobReturn(status=JobStatus.FAILED)
    failed.return_value = died
    return failed
