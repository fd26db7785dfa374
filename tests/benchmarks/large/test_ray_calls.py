"""What `engine=ray` asks of Ray, for which a class stands here that notes it; `test_ray` has the same with Ray."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from captau.benchmarks.large import engines
from captau.benchmarks.large.engines import RayEngine
from tests.conftest import raises_exactly

STARTED = {
    **{"address": "local", "include_dashboard": False, "object_store_memory": 100_000_000},
    **{"log_to_driver": False, "logging_level": "ERROR"},
}


class RayFaultError(Exception):
    """Stands for the errors of Ray."""


class FakeRay(ModuleType):
    """Ray on some nodes, whose tasks give `results`; it notes what it is asked in `calls`."""

    def __init__(self, nodes=(4,), gpus=0, faults=(), results=None):
        super().__init__("ray")
        self.calls, self.faults, self.results = [], list(faults), results or (lambda *a: a)
        self.n_running = self.most_running = 0
        self.is_started, self.given = False, []
        self.cluster = {"CPU": float(sum(nodes)), **({"GPU": float(gpus)} if gpus else {})}
        self.machines = [{"Resources": {"CPU": float(n)}, "Alive": True} for n in nodes]

    def is_initialized(self):
        return self.is_started

    def init(self, **options):
        self.calls.append(("init", options))
        if self.faults:
            raise self.faults.pop(0)
        self.is_started = True

    def shutdown(self):
        self.calls.append("shutdown")

    def cluster_resources(self):
        return self.cluster

    def nodes(self):
        dead = {"Resources": {"CPU": 64.0}, "Alive": False}
        return [*self.machines, dead, {"Resources": {}, "Alive": True}]

    def remote(self, **options):
        self.calls.append(("remote", options))

        def submit(*arguments):
            self.n_running += 1
            self.most_running = max(self.most_running, self.n_running)
            self.given.append(arguments)
            return len(self.given) - 1

        def wrap(target):
            if isinstance(target, type):
                actor = SimpleNamespace(perform=SimpleNamespace(remote=submit))
                return SimpleNamespace(remote=lambda: self.calls.append("actor") or actor)
            return SimpleNamespace(remote=submit)

        return wrap

    def wait(self, references):
        return references[:1], references[1:]

    def get(self, reference):
        self.n_running -= 1
        if isinstance(found := self.results(*self.given[reference]), Exception):
            raise found
        return found

    def kill(self, actor):
        self.calls.append("kill")


@pytest.fixture
def use_ray(monkeypatch):
    """Return a function that puts a fake Ray into the place of the package, and returns it."""

    def use(**options):
        ray = FakeRay(**options)
        exceptions = ModuleType("ray.exceptions")
        exceptions.RayError = RayFaultError
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
        return ray

    monkeypatch.setattr(engines, "address_of", lambda address: address)
    monkeypatch.setattr(engines, "fault_of", lambda address: None)
    monkeypatch.setattr(engines, "count_cores", lambda: 3)
    return use


@pytest.mark.parametrize(("workers", "cpus", "running"), [(None, 3, 4), (2, 2, 2), (9, 9, 4)])
def test_a_ray_of_this_machine_has_as_many_cores_as_there_are_or_workers(
    workers, cpus, running, use_ray
):
    """At most as many tasks run as the Ray that started has cores, four here."""
    ray = use_ray()
    with RayEngine(workers, None) as engine:
        assert ray.calls == [("init", {**STARTED, "num_cpus": cpus})]
        assert (engine.name, engine.workers) == ("ray", running)
    assert ray.calls[1:] == ["shutdown"]


def test_a_ray_that_runs_already_is_used_and_left(use_ray):
    ray = use_ray()
    ray.is_started = True
    with RayEngine(None, None) as engine:
        assert engine.workers == 4
    assert ray.calls == []


def test_a_ray_of_this_machine_is_started_three_times_at_most(use_ray):
    faults = [RuntimeError("busy"), OSError("busy")]
    ray = use_ray(faults=faults)
    RayEngine(1, None)
    start = ("init", {**STARTED, "num_cpus": 1})
    assert ray.calls == [start, "shutdown", start, "shutdown", start]
    ray = use_ray(faults=[*faults, RuntimeError("no\n  room")])
    with raises_exactly(
        "engine=ray: Ray does not start on this machine (no room); try again when it is less busy, or "
        "engine=local",
    ):
        RayEngine(1, None)
    assert ray.calls == [start, "shutdown"] * 3


def test_a_cluster_gets_the_variables_of_captau_and_of_stores_alone(use_ray, monkeypatch):
    ray = use_ray(nodes=(2, 2))
    for name in list(os.environ):
        if name.startswith(("CAPTAU_", "AWS_", "FSSPEC_", "HF_")):
            monkeypatch.delenv(name)
    shared = {"CAPTAU_X": "1", "AWS_X": "2", "FSSPEC_X": "3", "HF_X": "4"}
    for name, value in {**shared, "SECRET": "5"}.items():
        monkeypatch.setenv(name, value)
    assert RayEngine(None, "host:1").workers == 4
    assert ray.calls == [
        (
            "init",
            {
                "address": "host:1",
                "runtime_env": {"env_vars": shared},
                **{"log_to_driver": False, "logging_level": "ERROR"},
            },
        )
    ]


@pytest.mark.parametrize("kind", [RayFaultError, ConnectionError, RuntimeError, ValueError])
def test_a_cluster_that_cannot_be_reached_is_named(kind, use_ray, monkeypatch):
    use_ray(faults=[kind("nobody\n answers")])
    remedy = "; start one with ray start --head, or leave the address out"
    where = "ray.address=host:1: no cluster can be reached there"
    with raises_exactly(f"{where} (nobody answers; {' '.join(engines.TOKEN.split())}){remedy}"):
        RayEngine(None, "host:1")
    ray = use_ray()
    monkeypatch.setattr(engines, "fault_of", lambda address: "no\n port")
    with raises_exactly(f"{where} (no port){remedy}"):
        RayEngine(None, "host:1")
    assert ray.calls == []


def test_each_worker_has_one_task_at_a_time_and_tasks_begin_in_their_order(use_ray):
    ray = use_ray()
    engine = RayEngine(2, None)
    tasks = [{"id": str(k)} for k in range(5)]
    found = list(engine.run("score", "PLAN", tasks))
    assert found == [(task, ("score", "PLAN", task)) for task in tasks]
    assert (ray.most_running, ray.n_running) == (2, 0)
    assert ray.calls[1:] == [("remote", {"num_cpus": 1, "max_retries": 3})]


@pytest.mark.parametrize(
    ("nodes", "gpus", "workers", "share", "n_actors"),
    [
        ((8, 8), 3, None, {"num_gpus": 1}, 3),
        ((8, 8), 9, None, {"num_gpus": 1}, 5),  # as many as there are tasks
        ((8, 8, 2), 0, None, {"num_cpus": 8}, 2),  # the largest nodes alone
        ((8, 8), 0, 8, {"num_cpus": 8}, 1),
        ((8, 8), 0, 4, {"num_cpus": 4}, 1),
    ],
)
def test_a_model_has_a_device_or_all_cores_of_a_node(
    nodes, gpus, workers, share, n_actors, use_ray
):
    ray = use_ray(nodes=nodes, gpus=gpus)
    engine = RayEngine(workers, None)
    tasks = [{"id": str(k)} for k in range(5)]
    found = sorted((task["id"], result) for task, result in engine.run_models("PLAN", tasks))
    assert found == [(task["id"], ("PLAN", task)) for task in tasks]
    restarts = {"max_restarts": 3, "max_task_retries": 3}
    assert ray.calls[1:] == [
        ("remote", {**restarts, **share}),
        *["actor"] * n_actors,
        *["kill"] * n_actors,
    ]
    assert ray.most_running == n_actors


def test_a_task_that_fails_says_what_is_kept_and_its_actors_end(use_ray):
    ray = use_ray(gpus=1, results=lambda *_: RayFaultError("first line\nout of memory" + "!" * 300))
    engine = RayEngine(None, None)
    with raises_exactly(
        f"engine=ray: a task failed (RayFaultError: out of memory{'!' * 187}); what is done is kept: start the same "
        f"command again",
    ):
        list(engine.run_models("PLAN", [{"id": "a"}]))
    assert ray.calls[-2:] == ["actor", "kill"]
