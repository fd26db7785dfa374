"""Jobs of a sweep by hand: what a job's process writes, how sweeps name jobs, and what launchers are made of."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from captau import __version__
from captau.benchmarks.sweeps import jobs
from captau.benchmarks.sweeps import sweep as sweeps
from captau.benchmarks.sweeps.jobs import (
    JobOutcome,
    JobTask,
    Sweep,
    check_installed,
    is_done,
    read_outcome,
    read_sweep,
    write_outcome,
)
from captau.datasets.errors import InputError
from tests.conftest import says


@pytest.fixture
def run_job(tmp_path, monkeypatch):
    """Run a command as a job of the folder `job`, and return its outcome without what each run has anew."""
    folder, start = tmp_path / "job", tmp_path / "start"
    folder.mkdir(), start.mkdir()
    runtime = SimpleNamespace(output_dir=str(folder))
    monkeypatch.setattr(
        jobs, "HydraConfig", SimpleNamespace(get=lambda: SimpleNamespace(runtime=runtime))
    )

    def run(command, is_quiet=True, **environment):
        JobTask(command, str(start), environment, is_quiet)({"a": 1})
        outcome = read_outcome(folder)
        assert outcome.where.startswith(f"process {os.getpid()} on ")
        assert outcome.started.endswith("+00:00")
        assert 0 <= outcome.seconds < 60
        return replace(outcome, where="", started="", seconds=0.0)

    run.folder, run.start = folder, start
    return run


def test_a_job_runs_where_the_sweep_began_and_leaves_the_process_as_it_was(run_job, monkeypatch):
    monkeypatch.setenv("CAPTAU_ONE", "here")
    monkeypatch.delenv("CAPTAU_TWO", raising=False)

    def command(config):
        seen.append((config, Path.cwd(), os.environ["CAPTAU_ONE"], os.environ["CAPTAU_TWO"]))
        assert read_outcome(run_job.folder).state == "running"
        os.environ.update(CAPTAU_ONE="changed", CAPTAU_THREE="new")
        print("on the output")
        print("on the error output", file=sys.stderr)

    seen, before = [], Path.cwd()
    outcome = run_job(command, CAPTAU_ONE="there", CAPTAU_TWO="there")
    assert outcome == JobOutcome("done", captau=__version__)
    assert seen == [({"a": 1}, run_job.start, "here", "there")]
    assert (os.environ["CAPTAU_ONE"], Path.cwd()) == ("here", before)
    assert {"CAPTAU_TWO", "CAPTAU_THREE"}.isdisjoint(os.environ)
    text = (run_job.folder / "output.txt").read_text(encoding="utf-8")
    assert text == "on the output\non the error output\n"
    assert sorted(path.name for path in run_job.folder.iterdir()) == ["job.json", "output.txt"]


def test_a_job_in_this_process_prints_as_alone(run_job, capsys):
    run_job(lambda config: print("here"), is_quiet=False)
    assert capsys.readouterr().out == "here\n"
    assert [path.name for path in run_job.folder.iterdir()] == ["job.json"]


def test_a_job_that_fails_says_why(run_job):
    def raise_error(error):
        raise error

    wrong = run_job(lambda config: raise_error(InputError("a  is wrong")))
    assert wrong == JobOutcome("failed", 2, "a is wrong", captau=__version__)
    assert run_job(lambda config: 3) == JobOutcome("failed", 3, "exit status 3", "", __version__)
    fault = run_job(lambda config: raise_error(KeyError("no\nkey")))
    message = "KeyError: 'no\\nkey' (a fault of captau's; job.json has the traceback)"
    assert replace(fault, trace="") == JobOutcome("failed", 1, message, captau=__version__)
    assert fault.trace.startswith("Traceback")
    assert fault.trace.endswith("KeyError: 'no\\nkey'\n")


def test_a_job_that_is_stopped_has_not_failed_and_one_that_is_done_is_not_run(run_job):
    def stop(config):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JobTask(stop, str(run_job.start), {}, False)({})
    assert list(run_job.folder.iterdir()) == []
    run_job(lambda config: None)
    assert run_job(stop) == JobOutcome("done", captau=__version__)
    write_outcome(run_job.folder, JobOutcome("done", captau="0.0"))
    with pytest.raises(KeyboardInterrupt):
        run_job(stop)
    with jobs.FolderClaim(run_job.folder):  # another process is at work on it
        JobTask(stop, str(run_job.start), {}, False)({})


def test_a_job_that_is_stopped_and_whose_file_is_gone_is_stopped(run_job):
    def stop(config):
        (run_job.folder / "job.json").unlink()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JobTask(stop, str(run_job.start), {}, False)({})
    assert list(run_job.folder.iterdir()) == []


def test_an_outcome_is_written_into_a_folder_of_a_folder_that_is_not_there(tmp_path):
    for state in ("running", "done"):
        write_outcome(tmp_path / "a" / "b", JobOutcome(state))
        assert read_outcome(tmp_path / "a" / "b") == JobOutcome(state)


def test_joblib_runs_jobs_one_by_one_and_ray_takes_its_options(monkeypatch):
    for name, launcher in (
        ("hydra_plugins.hydra_joblib_launcher.joblib_launcher", "JoblibLauncher"),
        ("captau.benchmarks.sweeps.launch_ray", "RayLauncher"),
    ):
        module = ModuleType(name)
        setattr(module, launcher, lambda **options: options)
        monkeypatch.setitem(sys.modules, name, module)
    made = jobs.LAUNCHERS["joblib"][2]({"n_jobs": 2, "batch_size": "auto"})
    assert made == {"n_jobs": 2, "batch_size": 1}
    assert jobs.LAUNCHERS["ray"][2]({"num_cpus": 2}) == {"num_cpus": 2}


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (JobOutcome("done", captau=__version__), True),
        (JobOutcome("done", captau="0.0"), False),
        (JobOutcome("failed", captau=__version__), False),
    ],
)
def test_a_job_is_done_under_this_version(outcome, expected):
    assert is_done(outcome) is expected


def make_sweep(folder, *words):
    return Sweep(folder, "data list", tuple(words), ("hydra/launcher=joblib",), "/from")


def test_jobs_are_named_by_what_they_do_not_share(tmp_path):
    sweep = make_sweep(tmp_path, ("a=1", "b=x"), ("a=1", "b=y"), ("a=2", "b=y"))
    assert sweep.distinct_overrides == [("a=1", "b=x"), ("a=1", "b=y"), ("a=2", "b=y")]
    sweep = make_sweep(tmp_path, ("a=1", "b=x", "c=0"), ("a=1", "b=y", "c=0"))
    assert [sweep.name(0), sweep.name(1)] == ["job 0 (b=x)", "job 1 (b=y)"]
    assert make_sweep(tmp_path, ("a=1", "b=x")).distinct_overrides == [("a=1", "b=x")]
    assert sweep.arguments() == [
        *("data", "list", "--multirun", "a=1", "b=x,y", "c=0", "hydra/launcher=joblib"),
    ]


def test_the_arguments_of_a_sweep_run_the_same_jobs():
    jobs = ("dataset=demo", "metrics=[a,b]"), ("dataset=demo", "metrics=[c]")
    sweep = Sweep(Path("sweep"), "bench", jobs, (), ".")
    assert sweep.arguments() == ["bench", "--multirun", "dataset=demo", "metrics=[a,b],[c]"]
    assert sweep.distinct_overrides == [("metrics=[a,b]",), ("metrics=[c]",)]
    assert replace(sweep, command="data list", options=("hydra/launcher=ray",)).arguments()[:2] == [
        *("data", "list"),
    ]


def test_a_sweep_is_written_and_read_and_another_one_is_refused(tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    sweep = make_sweep(folder, ("a=1",), ("a=2",))
    sweep.save()
    record = json.loads((folder / "sweep.json").read_text())
    assert record == {
        "command": "data list",
        "jobs": [["a=1"], ["a=2"]],
        "options": ["hydra/launcher=joblib"],
        "directory": "/from",
        "format": 1,
        "captau": __version__,
    }
    assert read_sweep(folder) == sweep
    replace(sweep, options=(), directory="/elsewhere").save()
    assert read_sweep(folder) == replace(sweep, options=(), directory="/elsewhere")
    message = f"{folder} is the folder of another sweep, of 2 jobs of captau data list; set output_dir=DIR"
    for other in (replace(sweep, command="bench"), replace(sweep, jobs=sweep.jobs[:1])):
        with says(message):
            other.save()
    (folder / "sweep.json").write_text(json.dumps({**record, "jobs": 3}))
    with says(f"{folder / 'sweep.json'} cannot be read (", "; name another folder"):
        read_sweep(folder)
    with says(f"{tmp_path} has no sweep.json: it is no sweep's folder; captau bench --multirun"):
        read_sweep(tmp_path)


def test_a_job_whose_process_is_gone_was_killed(tmp_path):
    sweep = make_sweep(tmp_path, ("a=1",))
    assert sweep.outcome(0) == JobOutcome("waiting")
    running = JobOutcome("running", where="process 1 on node1", started="then")
    write_outcome(sweep.job_folder(0), running)
    message = "its process ended without a word (process 1 on node1)"
    assert sweep.outcome(0) == replace(running, state="killed", message=message)
    with jobs.FolderClaim(sweep.job_folder(0)):
        assert sweep.outcome(0) == running
    assert json.loads((tmp_path / "0" / "job.json").read_text()) == asdict(running)
    (tmp_path / "0" / "job.json").write_text('{"other": 1}')
    assert sweep.outcome(0) == JobOutcome("waiting")


@pytest.fixture
def modules(monkeypatch):
    """Say which modules are installed."""
    installed = {"joblib", "submitit", "ray"}

    def find(name):
        if "." in name and name.partition(".")[0] not in installed:
            raise ModuleNotFoundError(name)
        return name if name in installed else None

    monkeypatch.setattr(jobs, "find_spec", find)
    return installed


def test_a_job_that_ends_while_it_is_looked_at_was_not_killed(tmp_path, monkeypatch):
    """Its claim is gone, and what it wrote last says that it is done."""
    sweep = make_sweep(tmp_path, ("a=1",))
    for end in (JobOutcome("done"), JobOutcome("failed", 2, "no file"), JobOutcome("waiting")):
        answers = [JobOutcome("running"), end]
        monkeypatch.setattr(jobs, "read_outcome", lambda folder, a=answers: a.pop(0))
        assert sweep.outcome(0) == end


def test_what_a_launcher_needs_is_named(modules):
    check_installed(["hydra/launcher=ray", "hydra/launcher=basic", "hydra.launcher.x=joblib"])
    for name, module in (("joblib", "hydra_joblib"), ("slurm", "hydra_submitit")):
        word = f"hydra/launcher={name}"
        with says(f"{word} needs hydra_plugins.{module}_launcher: pip install 'captau[sweeps]'"):
            check_installed([word])
    modules |= {"hydra_plugins", "hydra_plugins.hydra_joblib_launcher"}
    check_installed(["hydra/launcher=joblib"])
    modules -= {"ray"}
    with says("hydra/launcher=ray needs ray: pip install 'captau[ray]'"):
        check_installed(["hydra/launcher=ray"])


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("a=3", ["a=3"]),
        ("a=1,2", ["a=1", "a=2"]),
        ("a=range(1,4)", ["a=1", "a=2", "a=3"]),
        ("+a=[x,y],[z]", ["+a=[x,y]", "+a=[z]"]),
        ("a='x y','z'", ["a='x y'", "a='z'"]),
    ],
)
def test_the_values_of_an_override(word, values):
    (parsed,) = OverridesParser.create().parse_overrides([word])
    assert sweeps._list_values(parsed) == values


def test_values_that_are_not_listed_are_refused():
    (parsed,) = OverridesParser.create().parse_overrides(["a=interval(0,1)"])
    with says("a=interval(0,1): name the values, as a=1,2 does"):
        sweeps._list_values(parsed)


def test_states_are_counted_in_their_order():
    states = ["waiting", "done", "killed", "done", "running", "failed"]
    outcomes = [JobOutcome(state) for state in states]
    text = "6 jobs: 2 done, 1 failed, 1 running, 1 killed, 1 waiting"
    assert sweeps.count_states(outcomes) == text
    assert sweeps.count_states(outcomes[:1]) == "1 job: 1 waiting"


@pytest.fixture
def run_sweep(tmp_path, monkeypatch):
    """Run a sweep of two jobs with a launcher by hand; return what it was set up with, and the outcomes."""

    def run(launcher="basic", launch=None):
        def make_launcher(config, loader, task):
            made.append((loader, task))
            return SimpleNamespace(launch=launch or end_well)

        def end_well(words, initial_job_idx):
            for number in range(len(words)):
                write_outcome(sweep.job_folder(number), JobOutcome("done"))
            return [SimpleNamespace(status=None) for _ in words]

        made = []
        monkeypatch.setattr(sweeps, "make_launcher", make_launcher)
        sweep = make_sweep(tmp_path / "sweep", ("a=1",), ("a=2",))
        sweep.folder.mkdir(exist_ok=True)
        runtime = SimpleNamespace(choices={"hydra/launcher": launcher})
        config = SimpleNamespace(hydra=SimpleNamespace(runtime=runtime))
        composed = sweeps.ComposedSweep(sweep, "the loader", config)
        return sweeps.run_sweep(composed, len), made

    run.folder = tmp_path / "sweep"
    return run


def test_a_sweep_hands_jobs_to_its_launcher_with_captau_s_variables(run_sweep, monkeypatch):
    for name in list(os.environ):
        if name.startswith("CAPTAU_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CAPTAU_DATA", "/data")
    for launcher, is_quiet in (("basic", False), ("joblib", True), ("a_plugin", True)):
        outcomes, made = run_sweep(launcher)
        task = JobTask(len, "/from", {"CAPTAU_DATA": "/data"}, is_quiet)
        assert made == [("the loader", task)]
        assert outcomes == [JobOutcome("done")] * 2
    assert sorted(path.name for path in run_sweep.folder.iterdir()) == ["0", "1", "sweep.json"]


def combine(*words, sweeper="basic"):
    """Return the jobs of overrides, and those that were composed."""
    composed = []
    loader = SimpleNamespace(load_sweep_config=lambda config, job: composed.append(job))
    runtime = SimpleNamespace(choices={"hydra/sweeper": sweeper})
    overrides = SimpleNamespace(task=list(words))
    config = SimpleNamespace(hydra=SimpleNamespace(runtime=runtime, overrides=overrides))
    return sweeps._combine_values(loader, config), composed


def test_every_value_is_composed_once_before_anything_runs():
    found, composed = combine("a=1,2", "b=3,4")
    assert found == (("a=1", "b=3"), ("a=1", "b=4"), ("a=2", "b=3"), ("a=2", "b=4"))
    assert composed == [["a=1", "b=3"], ["a=1", "b=4"], ["a=2", "b=3"]]
    assert combine("a=1,1") == ((("a=1",),), [["a=1"]])


@pytest.mark.parametrize("sweeper", ["ax", "optuna"])
def test_other_sweepers_than_captaus_are_refused(sweeper):
    with says("hydra/sweeper= cannot be set; captau runs every combination"):
        combine("a=1,2", sweeper=sweeper)


def test_a_sweep_whose_launcher_does_not_start_leaves_no_file(run_sweep):
    def fail(words, initial_job_idx):
        raise InputError("no cluster")

    def fail_later(words, initial_job_idx):
        write_outcome(run_sweep.folder / "1", JobOutcome("done"))
        raise InputError("no cluster any more")

    with says("no cluster"):
        run_sweep(launch=fail)
    assert list(run_sweep.folder.iterdir()) == []
    with says("no cluster any more"):
        run_sweep(launch=fail_later)
    assert sorted(path.name for path in run_sweep.folder.iterdir()) == ["1", "sweep.json"]
