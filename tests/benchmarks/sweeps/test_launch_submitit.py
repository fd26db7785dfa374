"""Jobs by submitit with a stand-in for its executor: what it is asked, how many jobs at once, and what comes back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hydra.core.utils import JobStatus
from omegaconf import OmegaConf

from tests.conftest import says

launch_submitit = pytest.importorskip("captau.benchmarks.sweeps.launch_submitit")


class Job:
    """A job that is done from its n-th look on."""

    def __init__(self, overrides, looks, error=None):
        self.overrides, self.looks, self.error = overrides, looks, error

    def done(self):
        self.looks -= 1
        return self.looks < 0

    def exception(self):
        return self.error


made = []


class Executor:
    """Notes what it is asked; a job named `dies` ends with an error."""

    def __init__(self, **options):
        self.options, self.parameters, self.arrays = options, {}, []
        made.append(self)

    def update_parameters(self, **parameters):
        self.parameters |= parameters

    def map_array(self, function, *columns):
        rows = list(zip(*columns, strict=True))
        self.arrays.append((function, rows))
        return [
            Job(row[0], 1, ValueError("died") if row[0] == ["a=dies"] else None) for row in rows
        ]


@pytest.fixture
def launch(tmp_path, monkeypatch):
    def run(limit, jobs, first=0, cluster="local", **options):
        launcher = launch_submitit.SubmititLauncher(cluster, limit, submitit_folder="f", **options)
        launcher.config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path / "a" / "b")}}})
        return launcher, launcher.launch(jobs, first)

    made.clear()
    waits = []
    monkeypatch.setattr(launch_submitit.submitit, "AutoExecutor", Executor)
    monkeypatch.setattr(launch_submitit.time, "sleep", waits.append)
    monkeypatch.setattr(launch_submitit, "Singleton", SimpleNamespace(get_state=lambda: "state"))
    run.waits, run.folder = waits, tmp_path / "a" / "b"
    return run


def row(value, number):
    return [f"a={value}"], "hydra.sweep.dir", number, "", "state"


def test_all_jobs_are_handed_over_at_once_where_there_is_no_limit(launch):
    launcher, returned = launch(None, [("a=1",), ("a=dies",), ("a=3",)], 4, "slurm")
    (executor,) = made
    assert executor.arrays == [(launcher, [row(1, 4), row("dies", 5), row(3, 6)])]
    assert [job.status == JobStatus.FAILED for job in returned] == [False, True, False]
    assert {job.status for job in returned[::2]} == {JobStatus.COMPLETED}
    assert str(returned[1]._return_value) == "died"
    assert launch.folder.is_dir()
    assert launch.waits == []
    assert len(launch(None, [("a=1",)], 0)[1]) == 1  # the folder is there already


def test_no_more_jobs_run_at_once_than_the_limit(launch):
    """The first two jobs are done at the second look, and make room for two; then one is left."""
    launcher, returned = launch(2, [(f"a={n}",) for n in range(5)])
    (executor,) = made
    assert [rows for _, rows in executor.arrays] == [
        [row(0, 0), row(1, 1)],
        [row(2, 2), row(3, 3)],
        [row(4, 4)],
    ]
    assert {function for function, _ in executor.arrays} == {launcher}
    assert launch.waits == [0.2, 0.2]
    assert len(returned) == 5


def test_options_of_a_cluster_bear_its_name(launch):
    options = {"timeout_min": 7, "cpus_per_task": 2, "partition": "some", "max_num_timeout": 3}
    launch(None, [("a=1",)], cluster="slurm", **options)
    (executor,) = made
    assert executor.options == {"folder": "f", "cluster": "slurm", "slurm_max_num_timeout": 3}
    assert executor.parameters == {"timeout_min": 7, "cpus_per_task": 2, "slurm_partition": "some"}
    launch(None, [("a=1",)])
    assert made[1].options == {"folder": "f", "cluster": "local"}
    assert made[1].parameters == {}


def test_a_cluster_that_is_not_here_is_named(launch, monkeypatch):
    def refuse(**options):
        raise RuntimeError("Could not detect it")

    monkeypatch.setattr(launch_submitit, "submitit", SimpleNamespace(AutoExecutor=refuse))
    with says("hydra/launcher=slurm: Could not detect it"):
        launch(None, [("a=1",)], cluster="slurm")
