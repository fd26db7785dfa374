"""Exit statuses, messages and configurations of the program, without running a command's work."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captau.benchmarks.cli import command as command_module
from captau.benchmarks.cli import help as help_module
from captau.benchmarks.cli import (
    hydra_errors,
    hydra_runner,
    main,
    registry,
    run_program,
    stored_options,
    tasks,
    terminal,
)
from captau.benchmarks.cli.arguments import split_flags, use_config_dir
from captau.benchmarks.cli.command import Command
from captau.benchmarks.cli.registry import COMMANDS, split_command
from captau.benchmarks.scoring.catalog import choices_of
from captau.conf import CONFIG_DIR
from captau.datasets.errors import InputError
from tests.conftest import give_stdin, run_captau, says


def end_runs_by(monkeypatch: pytest.MonkeyPatch, raised: BaseException | None) -> None:
    """Let the program's work raise an error, or end with status 7 where there is none."""

    def run(_: list[str]) -> int:
        if raised is not None:
            raise raised
        return 7

    monkeypatch.setattr(main, "_run", run)


@pytest.mark.parametrize(("raised", "words", "status", "said"), [
    (None, ["bench"], 7, ""),
    (InputError("a  fault"), ["bench"], 2, "captau: a fault\n"),
    (KeyboardInterrupt(), ["bench"], 130, "captau: stopped; what was scored is kept\n"),
    (KeyboardInterrupt(), ["data", "fetch"], 130, "captau: stopped; what was downloaded is kept\n"),
    (KeyboardInterrupt(), ["train"], 130, "captau: stopped; what was trained is kept\n"),
    (KeyboardInterrupt(), ["collect"], 130, "captau: stopped; every answer that was acknowledged is kept\n"),
    (KeyboardInterrupt(), ["serve"], 130, "captau: stopped; every submission that was acknowledged is kept\n"),
    (KeyboardInterrupt(), ["bench", "cache.use=false"], 130, "captau: stopped\n"),
    (KeyboardInterrupt(), ["plot"], 130, "captau: stopped\n"),
    (KeyboardInterrupt(), ["check", "baseline=b.yaml"], 130, "captau: stopped\n"),
    (KeyboardInterrupt(), ["-sc", "query=bash"], 130, ""),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x"), ["bench"], 2, "captau: x: File name too long\n"),
    (OSError(errno.ELOOP, "Too many links", "x"), ["bench"], 2, "captau: x: Too many links\n"),
    (OSError(errno.ENOSPC, "No room", "x"), ["bench"], 2, "captau: x: No room\n"),
    (OSError(errno.EIO, "Broken"), ["bench"], 2, "captau: a file could not be written: Broken\n"),
    (OSError(errno.EMFILE, "Too many files", "x"), ["bench"], 2, "captau: x: Too many files: raise the limit with ulimit -n\n"),
])  # fmt: skip
def test_how_the_program_ends(
    raised: BaseException | None,
    words: list[str],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    end_runs_by(monkeypatch, raised)
    assert run_captau(*words) == status
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("fault", [
    PermissionError(errno.EACCES, "Permission denied", "x"),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),  # a child's, or a server's
    OSError("a library's words"),
])  # fmt: skip
def test_a_fault_that_is_no_output_s_is_raised(
    fault: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_runs_by(monkeypatch, fault)
    with pytest.raises(type(fault)):
        main.main(["bench"])


@pytest.mark.parametrize(("level", "text", "said"), [
    (logging.INFO, "a", "captau: a\n"),
    (logging.WARNING, "a\nb\tc", "captau: warning: a\nb\\tc\n"),
    (logging.ERROR, "a", "captau: error: a\n"),
    (logging.DEBUG, "a", ""),
])  # fmt: skip
def test_what_is_logged_is_a_line(
    level: int, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often the program shows the log, each record stands there once."""
    terminal.show_log()
    terminal.show_log()
    logging.getLogger("captau.made").log(level, text)
    assert capsys.readouterr().err.replace("b\tc", "b\\tc") == said


@pytest.mark.parametrize(
    "words", [[], ["-h"], ["--help"], ["help"], ["data", "-h"], ["data", "--help"]]
)
def test_words_that_show_the_overview(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_captau(*words) == 0
    assert capsys.readouterr().out == main.overview() + "\n"


def test_help_of_everything_and_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("-h", "--help", "help"):
        assert run_captau(word, "all") == 0
        assert capsys.readouterr().out == f"{main.overview()}\n\n{main.known_names()}\n"
    short, full = (
        make(COMMANDS["cite"]) for make in (help_module.short_help, help_module.help_text)
    )
    for words, text in [
        (("help", "cite"), short),
        (("cite", "-h"), short),
        (("cite", "--help", "all"), full),
    ]:
        assert run_captau(*words) == 0
        assert capsys.readouterr().out == text + "\n"
    for word in ("--version", "-V"):
        assert run_captau(word) == 0
        assert capsys.readouterr().out.startswith("captau ")


@pytest.mark.parametrize(("words", "name", "rest"), [
    (["bench"], "bench", []),
    (["data", "list", "thumb"], "data list", ["thumb"]),
    (["collect", "port=0"], "collect", ["port=0"]),
    (["collect", "export"], "collect export", []),
    (["validate", "a.json"], "validate", ["a.json"]),
])  # fmt: skip
def test_commands_have_one_word_or_two(words: list[str], name: str, rest: list[str]) -> None:
    assert split_command(words) == (COMMANDS[name], rest)


@pytest.mark.parametrize(("words", "message"), [
    (["data"], "captau data needs a second word: data list, data fetch, data import, data verify, data overlap"),
    (["version"], "captau --version prints the version"),
    (["dataset=demo"], "a command comes first: captau bench dataset=demo; captau --help lists the commands"),
    (["gather", "x"], "captau gather is now captau table run='DIR/*'"),
    (["filter"], "captau filter is now captau score keep.run=DIR keep.metric=METRIC keep.above=SCORE"),
    (["data", "df"], "captau data df is now captau score references=FILE save_df=FILE"),
    (["collect", "exprt"], "unknown command 'collect exprt': did you mean collect export"),
    (["bensh"], "unknown command 'bensh': did you mean bench"),
    (["data", "lst"], "unknown command 'data lst': did you mean data list"),
])  # fmt: skip
def test_words_that_are_no_command(words: list[str], message: str) -> None:
    with says(message):
        split_command(words)


@pytest.mark.parametrize(("name", "error", "message"), [
    ("bench", ValueError("Could not override 'metrix'."), "unknown option of captau bench 'metrix': did you mean metrics"),
    ("bench", KeyError("Key 'metrix' is not in 'x'"), "unknown option of captau bench 'metrix': did you mean metrics"),
    ("train", ValueError("Could not override 'rater.hiden'."),
     "'rater.hiden' is not an option of this rater; captau train rater=NAME --cfg job shows them"),
    ("bench", ValueError("Could not override 'rater.hiden'."), "unknown option of captau bench 'rater.hiden'"),
    ("bench", ValueError(""), "ValueError"),
    ("bench", ValueError("first\nsecond"), "first"),
])  # fmt: skip
def test_errors_of_hydra_are_one_line(name: str, error: Exception, message: str) -> None:
    assert str(hydra_errors.explain(error, COMMANDS[name])).startswith(message)


@pytest.mark.parametrize(("first", "cause", "message"), [
    ("Error merging override draws=x", "Value 'x' could not be converted to Integer", "draws=x: a whole number is expected"),
    ("Error merging override draws=x", "Value 'x' could not be converted to Float", "draws=x: a number is expected"),
    ("Error merging override floors=x", "Value 'x' is not a valid bool", "floors=x: true or false is expected"),
    ("Error merging override draws=x", "another", "Error merging override draws=x: another"),
    ("Something", "Value 'x' is not a valid bool", "Something: Value 'x' is not a valid bool"),
    ("Something", "", "Something"),
])  # fmt: skip
def test_the_cause_of_an_error_says_what_is_expected(first: str, cause: str, message: str) -> None:
    error = ValueError(first)
    error.__cause__ = ValueError(cause)
    assert str(hydra_errors.explain(error, COMMANDS["bench"])) == message


@pytest.mark.parametrize(("value", "text"), [
    (None, "null"), (True, "true"), (False, "false"), (3, "3"), (0.5, "0.5"), ("plain-word.x_1", "plain-word.x_1"),
    ("two words", "'two words'"), ("1x", "'1x'"), ("", "''"), ("it's", "'it\\'s'"), ([1, "a b", None], "[1,'a b',null]"),
    (("a",), "[a]"), ({"a b": [1], "c": {"d": True}}, "{'a b':[1],c:{d:true}}"), ([], "[]"),
])  # fmt: skip
def test_stored_values_in_hydras_grammar(value: Any, text: str) -> None:
    assert stored_options._hydra_text(value) == text


def test_stored_values_are_found_by_dotted_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"a": {"b": 1, "c": None}, "d.e": 2, "f": 3}
    keys = ("a.b", "a.c", "d.e", "f", "a.x", "f.x", "z")
    found = [stored_options._look_up(config, key, "none") for key in keys]
    assert found == [1, None, 2, 3, "none", "none", "none"]
    monkeypatch.chdir(tmp_path)
    Path("x,y").mkdir()
    folders = [stored_options.split_folders(text) for text in ("x,y", "x, z", "['x','z']", "x")]
    assert folders == [["x,y"], ["x", "z"], ["x", "z"], ["x"]]


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [("y\n", "big,made"), ("Yes \n", "big,made"), ("\n", "big"), ("no\n", "big")],
)
def test_a_download_is_asked_for_once(
    answer: str, allowed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    download = SimpleNamespace(
        name="made", description="a model", n_bytes=250_000_000, licence="MIT"
    )
    metrics: Any = [SimpleNamespace(pending_download=lambda: download)] * 2
    metrics.append(SimpleNamespace(pending_download=lambda: None))
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "big")
    give_stdin(monkeypatch, answer.encode(), is_terminal=True)
    command_module._ask_downloads(metrics)
    assert (os.environ["CAPTAU_DOWNLOAD"], capsys.readouterr().err) == ("big", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    command_module._ask_downloads(metrics)
    assert os.environ["CAPTAU_DOWNLOAD"] == allowed
    assert capsys.readouterr().err == "captau: a model (250 MB, licence MIT). Download now? [y/N] "


@pytest.mark.parametrize(("line", "expected"), [
    ("captau ", [name.split()[0] for name in COMMANDS]),
    ("captau", [name.split()[0] for name in COMMANDS]),
    ("captau s", ["sensitivity", "score", "submit", "serve"]),
    ("captau collect s", []),
    ("captau data f", ["fetch"]),
    ("captau nothing ", []),
])  # fmt: skip
def test_commands_are_completed(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(help_module, "_ask_hydra", lambda *_: "")
    monkeypatch.setenv("COMP_LINE", line)
    assert help_module.complete(["-sc", "query=bash"]).split() == list(dict.fromkeys(expected))


@pytest.mark.parametrize("words", [["-sc"], ["-sc", "install=sh"], ["-sc", "query=bash", "x"]])
def test_completion_is_of_three_shells(words: list[str]) -> None:
    with says("-sc install=bash, install=zsh or install=fish is expected"):
        help_module.complete(words)


def test_typed_options_reach_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task's status is the command's, and none is 0."""
    seen: list[Any] = []

    def task(_: Command, options: Any) -> int | None:
        seen.append((options.names, options.root))
        return 3 if options.names else None

    made = Command("data list", "..options.data:ListOptions", task, "", "")
    monkeypatch.setattr(hydra_runner, "find_command", {"data list": made}.__getitem__)
    assert hydra_runner.run_hydra(made, ["dataset=demo", "data.root=/x"]) == 3
    assert hydra_runner.run_hydra(made, []) == 0
    assert seen == [(("demo",), Path("/x")), ((), None)]
    with says("unknown option of captau data list 'data.rot': did you mean data.root"):
        hydra_runner.run_hydra(made, ["data.rot=1"])


def test_a_folder_of_own_files_counts_while_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    folder = str(tmp_path / "mine")
    for before in (None, "old"):
        if before:
            monkeypatch.setenv(CONFIG_DIR, before)
        else:
            monkeypatch.delenv(CONFIG_DIR, raising=False)
        for words in (["a", "--config-dir=mine", "b"], ["a", "--config-dir", "mine", "b"]):
            with use_config_dir(words) as rest:
                assert (rest, os.environ[CONFIG_DIR]) == (["a", "b"], folder)
            assert os.environ.get(CONFIG_DIR) == before
    with use_config_dir(["a", "b"]) as rest:
        assert (rest, os.environ[CONFIG_DIR]) == (["a", "b"], "old")
    for words in (["--config-dir"], ["--config-dir="], ["--config-dir", "gone"]):
        with says(": a folder is expected, as --config-dir my_files"), use_config_dir(words):
            pass


@pytest.mark.parametrize(("name", "word", "expected"), [
    ("data fetch", "dataset=spice_models", ["models=[spice_models]"]),
    ("data fetch", "dataset=demo,spice_models", ["models=[spice_models]", "dataset=[demo]"]),
    ("data fetch", "dataset=ALL", "unknown dataset 'ALL'"),
    ("bench", "dataset=all", "unknown dataset 'all'"),
    ("data import", "dataset=core", "unknown dataset 'core'"),
    ("bench", "metrics=", ["metrics=[]"]),
    ("bench", "hydra/launcher=joblib", ["hydra/launcher=joblib"]),
    ("bench", "datasets.demo.protocol.k=1", ["datasets.demo.protocol.k=1"]),
    ("reproduce", "leave_out=spice", ["leave_out=[spice]"]),
    ("reproduce", "leave_out=[spice]", ["leave_out=[spice]"]),
])  # fmt: skip
def test_names_and_lists_become_overrides(name: str, word: str, expected: Any) -> None:
    if isinstance(expected, str):
        with says(expected):
            split_flags(COMMANDS[name], [word])
    else:
        assert split_flags(COMMANDS[name], [word]) == (expected, [])


def test_the_options_of_a_run_are_those_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "dataset": ["thumb"],
        "rater": {"name": "icr", "hidden": [5], "demo": {"a": 1}},
        "folds": 5,
        "seeds": [0, 1],
        "statistics": {"level": 0.9, "seed": 0},
        "output_dir": "there",
    }
    run = SimpleNamespace(folder=tmp_path, command="train", run={"config": config})
    monkeypatch.setattr(stored_options, "read_run", lambda *_, **__: run)
    command = COMMANDS["train"]
    options = {option.key: option for option in command.declared()}

    def stored(*typed: str) -> dict[str, str]:
        return stored_options._read_run_options(command, options, "there", typed)

    assert stored() == {
        **{"rater": "icr", "dataset": "[thumb]", "seeds": "[0,1]", "statistics.level": "0.9"},
        "rater.hidden": "[5]",
    }
    config["in_memory"] = ["metrics", "dataset"]
    with says(
        "there was run from Python objects that were not saved (dataset); run it again from Python, or type dataset=…"
    ):
        stored("metrics=cider")
    config["in_memory"] = []
    config["datasets"] = 5
    with says("there/run.json: config.datasets is 5; names are expected; run it again"):
        stored()
    run.command = "cite"
    with says("there is a run of captau cite; one of bench, compare, probe, rank, "):
        stored()
    (tmp_path / "manifest.json").touch()
    with says("there is the run of a large set, which run= does not take: "):
        stored()


def test_the_version_is_the_first_word_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_captau("--version", "x") == 0
    assert capsys.readouterr().out == f"captau {version('captau')}\n"
    assert run_captau("bench", "--version") == 2
    said = "captau: --version: captau --version prints the version\n"
    assert capsys.readouterr().err == said


def test_the_overview_fits_eighty_columns() -> None:
    assert max(map(len, main.overview().splitlines())) <= 80


def test_an_interruption_while_the_program_is_loaded_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "main", stop)
    with pytest.raises(SystemExit) as ended:
        run_program()
    assert (ended.value.code, capsys.readouterr().err) == (130, "captau: stopped\n")


def test_commands_of_other_packages_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the name of a command of captau's own is passed over."""
    entries = [
        SimpleNamespace(name=name, value="made.module:Options", module="made.module")
        for name in ("extra", "bench", "data_list")
    ]
    asked: list[str] = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group: asked.append(group) or entries
    )
    registry.packaged_commands.cache_clear()
    try:
        found = registry.packaged_commands()
        assert asked == ["captau.commands"]
        assert list(found) == ["extra"]
        extra = found["extra"]
        assert (extra.name, extra.options_path) == ("extra", "made.module:Options")
        assert (extra.summary, extra.group) == ("a command of made.module", "Packages")
        assert extra.task is tasks.run_in_folder
        assert registry.find_command("extra") is extra
        assert registry.find_command("bench") is COMMANDS["bench"]
        assert split_command(["extra", "a=b"]) == (extra, ["a=b"])
        with says("unknown command 'extr': did you mean extra"):
            registry.find_command("extr")
    finally:
        registry.packaged_commands.cache_clear()


def test_a_second_word_that_is_near_a_commands_is_no_value() -> None:
    """`collect exprt` is a slip, `collect a` and `collect export=1` are none; `validate` takes a file."""
    for words, rest in ((["collect", "a"], ["a"]), (["collect", "export=1"], ["export=1"])):
        assert split_command(words) == (COMMANDS["collect"], rest)
    assert split_command(["collect", "export", "x"]) == (COMMANDS["collect export"], ["x"])
    with says("unknown command 'collect simulat': did you mean collect simulate"):
        split_command(["collect", "simulat", "x"])


def test_names_are_listed_whole_over_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"plug-in-{k}" for k in range(20)]
    monkeypatch.setattr(main, "packaged_commands", lambda: names)
    lines = main.known_names().splitlines()
    text = "\n".join(lines).replace("\n  ", " ")
    assert text.splitlines()[-1] == f"commands of other packages: {', '.join(names)}"
    assert f"datasets: {', '.join(choices_of('dataset'))}" in text.splitlines()
    assert max(map(len, lines)) <= 80


def test_an_override_that_cannot_be_composed_is_one_line() -> None:
    with says("unknown option of captau data list 'nope': captau data list --help all lists them"):
        hydra_runner.run_hydra(COMMANDS["data list"], ["nope=1"])


def test_score_imports_no_scipy(tmp_path: Path) -> None:
    """The intervals of one system need quantiles alone; SciPy would take longer to import than they take."""
    images = [f"{number}.jpg" for number in range(12)]
    candidates = [{"image_id": image, "caption": f"a dog and {image}"} for image in images]
    references = {image: [f"a dog by {image}", "a cat"] for image in images}
    (tmp_path / "candidates.json").write_text(json.dumps(candidates), encoding="utf-8")
    (tmp_path / "references.json").write_text(json.dumps(references), encoding="utf-8")

    program = (
        "import sys\n"
        "from captau.benchmarks.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as ended:\n"
        "    assert not ended.code\n"
        "print('scipy:', sorted(name for name in sys.modules if name.split('.')[0] == 'scipy'))\n"
    )
    words = ["score", "candidates.json", "references.json", "metrics=bleu_4,rouge_l,cider"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *words, "output_dir=run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines()[-1] == "scipy: []", ended.stderr
    assert "±" in (tmp_path / "run" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", "τ_c 45.7 ± 1.0 … ≥ 犬\n"),
        ("latin-1", "tau_c 45.7 ± 1.0 ... >= ?\n"),
        ("ascii", "tau_c 45.7 +- 1.0 ... >= ?\n"),
    ],
)
def test_a_locale_without_greek_letters_has_their_names(encoding: str, expected: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding, errors=terminal.PLAIN_LETTERS)
    terminal.show_text("τ_c 45.7 ± 1.0 … ≥ 犬", stream)
    stream.seek(0)
    assert stream.read() == expected
