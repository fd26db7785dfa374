"""Ray's launcher with a stand-in for Ray: what it asks of a cluster, and what it says where there is none."""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest
from hydra.core.utils import JobStatus

from captau.benchmarks.runs.ray_address import TOKEN
from tests.conftest import says

NAME = "captau.benchmarks.sweeps.launch_ray"


class RayError(Exception):
    """Ray's own errors."""


class Ray(ModuleType):
    """A cluster that does each job at once, and notes what it is asked."""

    def __init__(self):
        super().__init__("ray")
        self.calls, self.is_running, self.refusal = [], False, None

    def is_initialized(self):
        return self.is_running

    def init(self, **options):
        self.calls.append(("init", options))
        if self.refusal is not None:
            raise self.refusal

    def remote(self, **options):
        self.calls.append(("remote", options))
        return lambda function: SimpleNamespace(remote=lambda *words: (function, words))

    def put(self, shared):
        return shared

    def get(self, job):
        function, words = job
        return function(*words)

    def shutdown(self):
        self.calls.append(("shutdown", {}))


@pytest.fixture
def ray(monkeypatch):
    stand_in, errors = Ray(), ModuleType("ray.exceptions")
    errors.RayError = RayError
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setitem(sys.modules, "ray.exceptions", errors)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, NAME, None)  # forgotten after the test
    del sys.modules[NAME]
    stand_in.module = importlib.import_module(NAME)
    return stand_in


def launch(ray, address, jobs, first=0):
    launcher = ray.module.RayLauncher(address, 2.0, 0.5, None, 3)
    launcher.setup(hydra_context="context", task_function="task", config="config")
    return launcher.launch(jobs, first)


REMOTE = ("remote", {"num_cpus": 2.0, "num_gpus": 0.5, "memory": None, "max_retries": 3})
QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}


def test_jobs_run_one_after_another_and_one_whose_worker_died_has_failed(ray, monkeypatch):
    def run_job(shared, overrides, number):
        done.append((shared[:3], overrides, number))
        if number == 6:
            raise RayError("died")

    done = []
    monkeypatch.setattr(ray.module, "_run_job", run_job)
    returned = launch(ray, None, [("a=1",), ("a=2",), ("a=3",)], first=5)
    shared = ("context", "config", "task")
    assert done == [(shared, ["a=1"], 5), (shared, ["a=2"], 6), (shared, ["a=3"], 7)]
    failed = returned[1].status == JobStatus.FAILED
    assert (failed, str(returned[1]._return_value)) == (True, "died")
    assert [job.status for job in returned[::2]] == [JobStatus.COMPLETED] * 2
    local = {"address": "local", "include_dashboard": False, **QUIET}
    assert ray.calls == [("init", local), REMOTE, ("shutdown", {})]


def test_a_cluster_is_joined_and_one_that_runs_already_is_left_as_it_is(ray, monkeypatch):
    monkeypatch.setattr(ray.module, "fault_of", lambda address: None)
    launch(ray, "head:6379", [])
    assert ray.calls == [("init", {"address": "head:6379", **QUIET}), REMOTE, ("shutdown", {})]
    ray.is_running, ray.calls = True, []
    launch(ray, "head:6379", [])
    assert ray.calls == [REMOTE]


def test_a_cluster_that_cannot_be_reached_is_named(ray, monkeypatch):
    start = "the Ray cluster at head:6379 cannot be reached ({}); is it running?"
    monkeypatch.setattr(ray.module, "fault_of", lambda address: f"nobody at {address}")
    with says(start.format("nobody at head:6379")):
        launch(ray, "head:6379", [])
    assert ray.calls == []
    monkeypatch.setattr(ray.module, "fault_of", lambda address: None)
    for refusal, reason in (
        (ConnectionError("\n no\n more"), f"no; {TOKEN}"),
        (RayError(""), f"no answer; {TOKEN}"),
    ):
        ray.refusal = refusal
        with says(start.format(reason)):
            launch(ray, "head:6379", [])
    ray.refusal = RuntimeError("busy\nlog")
    with says("Ray cannot start on this machine (busy)"):
        launch(ray, None, [])
    assert ("shutdown", {}) not in ray.calls
