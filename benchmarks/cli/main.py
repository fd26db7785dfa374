"""The command line: `captau <command> [key=value …]`, on Hydra's override grammar.

Hydra stays at this edge: it composes and validates, `config` makes plain dataclasses of that, and a
plain function does the work. Whatever a person typed wrong becomes one line on stderr and status 2.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...conf import group
from ...datasets.errors import InputError, unknown
from .log_lines import show_log

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from ..large.run import Scored
    from ..runs.tables import ResultTable

# Heavy imports stay inside the functions: `captau --help` answers at once.

COMMANDS = {
    "bench": "score datasets with metrics and correlate with people's ratings",
    "gather": "what the jobs of a sweep (--multirun) found, as one table; runs again what failed",
    "compare": "which metrics differ: intervals of differences, tests, rank clusters",
    "agree": "how well people agree: raters, and the ceilings that follow; captions; words",
    "sensitivity": "how far numbers move with images, raters, references and protocols",
    "complement": "which metrics say the same, and which add to one another",
    "thresholds": "what a metric keeps and how much of it is good, by threshold",
    "train": "train a learned rater, and see how it agrees with people on images it has not seen",
    "reproduce": "rebuild a paper's tables and compare them cell by cell",
    "score": "score your own captions",
    "filter": "keep the captions of a large scored set that are above a threshold",
    "validate": "check a submission, captions or a metric's scores, and list what is wrong",
    "submit": "send captions, or a metric's scores, to a challenge, and wait for what they score",
    "table": "finished runs and published numbers as one table, for a paper",
    "cite": "BibTeX of what a run used, and a methods sentence",
    "report": "a finished run as one self-contained HTML page",
    "plot": "a finished run's figures as SVG and PNG files",
    "check": "fail when a score, a correlation or what they rest on differs from a baseline",
    "data list": "the datasets, and whether they are here",
    "data fetch": "download datasets",
    "data import": "take datasets' files from what you downloaded by hand",
    "data verify": "hash and count the datasets that are here",
    "data overlap": "which images and captions datasets share",
    "data df": "count CIDEr's document frequencies for scoring single images",
    "collect": "serve a study in which people judge captions, as a web site",
    "collect export": "write what a study gathered as files that captau and others read",
    "collect stability": "compare what a study gathered with what its re-run did",
    "collect simulate": "play raters of given skill through a study's own web site",
    "serve": "serve challenges: submissions, scores by private references or ratings, a leaderboard",
}

#: Hydra's flags that make sense here, with the words that may follow each.
_FLAGS: dict[str, tuple[str, ...]] = {
    "--help": (),
    "-h": (),
    "--hydra-help": (),
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--resolve": (),
    "--multirun": (),
    "-m": (),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}

#: Options whose value is a path or free text: taken as it stands, whatever Hydra makes of its letters.
_PATHS = (
    "baseline",
    "candidates",
    "cache.root",
    "cache.scores",
    "data.images",
    "data.root",
    "file",
    "database",
    "file.path",
    "images",
    "java.home",
    "java.spice",
    "junit",
    "label",
    "output",
    "output_dir",
    "references",
    "run",
    "source",
    "title",
    "trust",
    "words.scores",
    "study",
    "url",
    "ray.address",
    "thresholds",
    "work",
    "columns.image_id",
    "columns.caption",
    "columns.references",
    "challenge",
    "files",
    "queue",
    "token",
    "system",
    "note",
)
#: Of these, the ones that may be several.
_SEVERAL = ("candidates", "references", "run", "challenge")

#: The config group of which each command takes `all` for every name: `paper=all`.
_ALL = {"reproduce": "paper"} | {
    f"data {word}": "dataset" for word in ("fetch", "import", "verify", "overlap")
}

#: What these commands take for a dataset beside the datasets: files that a metric needs.
_MODELS = {"data fetch": ("spice_models",), "data verify": ("spice_models",)}


def main(arguments: list[str] | None = None) -> None:
    """Run the program; ends the process with status 0, 2 (the user's input) or 1 (our fault)."""
    given = sys.argv[1:] if arguments is None else arguments
    show_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without τ prints "?"
    try:
        status = _run(given)
        sys.stdout.flush()
    except InputError as error:
        message = " ".join(str(error).split())
        print(f"captau: {message}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        done = {"data": "downloaded", "train": "trained"}.get(given[0] if given else "", "scored")
        print(f"captau: stopped; what was {done} is kept", file=sys.stderr)
        status = 130
    except OSError as error:
        # Of our own output; files are written elsewhere, and say so. `| head` is no fault.
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest may go
        status = 0
        if not isinstance(error, BrokenPipeError):
            print(f"captau: standard output: {error.strerror}", file=sys.stderr)
            status = 2
    raise SystemExit(status)


def _run(given: list[str]) -> int:
    if given and given[0] in ("-sc", "--shell-completion"):
        _completion(given)
        return 0
    if (
        not given
        or given[0] in ("-h", "--help", "help")
        or given in (["data", "-h"], ["data", "--help"])
    ):
        print(overview())
        return 0
    if given[0] in ("--version", "-V"):
        print(f"captau {version('captau')}")
        return 0
    return _run_command(*split_command(given))


def overview() -> str:
    """What `captau --help` prints."""
    lines = [
        "captau: how well do image-caption metrics agree with people?",
        "",
        "usage: captau <command> [key=value …]",
        "",
        *(f"  {name:<16} {what}" for name, what in COMMANDS.items()),
        "",
        f"datasets: {', '.join(group('dataset'))}",
        f"metrics:  {', '.join(group('metric'))}",
        f"suites:   {', '.join(group('suite'))}",
        f"papers:   {', '.join(group('paper'))}, all",
        "",
        "captau <command> --help explains a command. Start with: captau bench",
    ]
    return "\n".join(lines)


def split_command(given: list[str]) -> tuple[str, list[str]]:
    """The command and what follows it; `data list` is one command of two words.

    Raises:
        InputError: on an unknown command.
    """
    for words in (2, 1):
        name = " ".join(given[:words])
        if len(given) >= words and name in COMMANDS:
            return name, given[words:]
    if given == ["data"]:
        words = [name for name in COMMANDS if name.startswith("data ")]
        raise InputError(f"captau data needs a word more: {', '.join(words)}")
    wanted = " ".join(given[:2]) if given[0] == "data" else given[0]
    if "=" in given[0]:
        raise InputError(
            f"a command comes first: captau bench {given[0]}; commands: {', '.join(COMMANDS)}"
        )
    raise unknown("command", wanted, COMMANDS)


def _run_command(command: str, rest: list[str]) -> int:
    overrides, flags = _split_flags(command, rest)
    if not flags or not set(flags) <= {"-m", "--multirun"}:
        return _run_hydra(command, [*overrides, *flags])
    return _sweep(command, overrides)


def _sweep(command: str, overrides: Sequence[str]) -> int:
    """`--multirun`: a run for each combination, each in a folder of its own within the sweep's.

    Raises:
        InputError: where the sweep cannot begin; what a job lacks is a line on stderr.
    """
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from ...conf.schema import register
    from ..runs.output_folder import OutputFolder
    from ..sweeps.sweep import plan, run_sweep

    register(command)
    chosen = [w.partition("=")[2].strip("'") for w in overrides if w.startswith("output_dir=")]
    options = [w for w in overrides if w.startswith(("hydra.", "hydra/"))]
    own = [w for w in overrides if not w.startswith(("hydra.", "hydra/", "output_dir="))]
    work = _TASKS[command.replace(" ", "_")]
    with OutputFolder(chosen[-1] if chosen else None, "multirun") as folder:
        try:
            planned = plan(command, own, options, folder.path)
        except (HydraException, OmegaConfBaseException, ValueError, KeyError) as error:
            raise _explain(error, command) from error
        return run_sweep(planned, work)


def _split_flags(command: str, rest: list[str]) -> tuple[list[str], list[str]]:
    """Overrides and Hydra's flags, apart; its own parser wants the overrides together.

    Raises:
        InputError: on another flag, or a word that is no key=value of an option there is.
    """
    overrides: list[str] = []
    flags: list[str] = []
    for word in rest:
        flag, equals, value = word.partition("=")
        if word.startswith("-"):
            if flag not in _FLAGS:
                raise unknown(f"flag of captau {command}", word, _FLAGS)
            if equals and value not in _FLAGS[flag]:
                raise InputError(f"{word}: {_words_after(flag)}")
            flags += [flag, value] if equals else [flag]
        elif flags and word in _FLAGS.get(flags[-1], ()):
            flags.append(word)
        elif equals:
            overrides += _override(command, word)
        elif command in ("validate", "submit") and not any(
            w.startswith("file=") for w in overrides
        ):
            overrides += _override(command, f"file={word}")
        else:
            raise InputError(f"'{word}' is not of the form key=value; see captau {command} --help")
    for flag, after in pairwise([*flags, ""]):
        if flag in ("--cfg", "-c") and after not in _FLAGS[flag]:
            raise InputError(f"{flag}: {_words_after(flag)}")
    if "--resolve" in flags and not {"--cfg", "-c"} & set(flags):
        raise InputError("--resolve goes with --cfg: --cfg job --resolve")
    return overrides, flags


def _words_after(flag: str) -> str:
    words = _FLAGS[flag]
    return f"one of {', '.join(words)} is expected" if words else "it takes no value"


def _override(command: str, word: str) -> list[str]:
    """One key=value, its key and names checked, a path quoted, `all` spelt out, models set apart.

    Raises:
        InputError: on an option or a name that there is not.
    """
    key, _, value = word.partition("=")
    if key == "hydra.mode":
        raise InputError("hydra.mode is not for typing; --multirun sweeps")
    if key.startswith(("hydra.", "hydra/", "datasets.")):
        return [word]
    if key.startswith("rater.") and command == "train":
        return [word]  # its options are those of the chosen rater, which checks them
    if key not in _options(command):
        # `+key` would add an option that nothing reads, and `~key` take one away that is needed.
        raise unknown(f"option of captau {command}", key, _options(command))
    if key in ("dataset", "protocol", "paper", "rater"):
        models = _MODELS.get(command, ())
        known = [*group(key), *models, *(["all"] if key == _ALL.get(command) else [])]
        if value == "all" and "all" in known:
            return [f"{key}=[{','.join(group(key))}]"]
        names = re.findall(r"[^\[\],\s'\"]+", value)
        if not names:
            raise InputError(f"{key}= is empty; known: {', '.join(known)}")
        for name in names:
            if name not in (*group(key), *models):
                raise unknown(key, name, known)
        if chosen := [name for name in names if name in models]:
            others = [name for name in names if name not in models]
            rest = [f"{key}=[{','.join(others)}]"] if others else []
            return [f"models=[{','.join(chosen)}]", *rest]
    elif key in _PATHS and value and value[0] not in "'\"" and value != "null":
        if key in _SEVERAL and value[0] == "[" and value[-1] == "]":
            parts = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,])+", value[1:-1])
            paths = [_quoted(re.sub(r"^(\w+=)?(['\"])(.*)\2$", r"\1\3", p.strip())) for p in parts]
            return [f"{key}=[{','.join(paths)}]"]
        return [f"{key}={_quoted(value)}"]
    return [word]


def _quoted(path: str) -> str:
    """A path in quotes of Hydra's grammar, its `~` spelt out."""
    path = str(Path(path).expanduser()) if path.startswith("~") else path
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _run_hydra(command: str, words: list[str]) -> int:
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from ...conf.schema import register

    register(command)
    name = command.replace(" ", "_")
    failure: Exception | None = None
    status = 0

    def task(config: DictConfig) -> None:
        # Hydra would print a line of its own about an exception; it is raised outside instead.
        nonlocal failure, status
        try:
            status = _TASKS[name](config) or 0
        except Exception as error:
            failure = error

    # Without this Hydra prints errors itself, over many lines, and exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    argv, sys.argv = sys.argv, ["captau", *words]
    try:
        hydra.main(
            version_base="1.3", config_path="pkg://captau.conf", config_name=f"command/{name}"
        )(task)()
    except (HydraException, OmegaConfBaseException, ValueError, KeyError) as error:
        raise _explain(error, command) from error
    finally:
        sys.argv = argv
    if failure is not None:
        raise failure
    return status


def _explain(error: Exception, command: str) -> InputError:
    """One line for what Hydra or OmegaConf found wrong with the overrides."""
    text = str(error)
    missing = getattr(error, "missing_cfg_file", None)
    if isinstance(missing, str) and "/" in missing:
        where, _, name = missing.strip("/").rpartition("/")
        return unknown(where, name, group(where))
    options = _options(command)
    match = (
        re.search(r"Could not override '([^']+)'", text)
        or re.search(r"Key '([^']+)' (?:is )?not in '", text)
        or re.search(r"full_key: ([\w.]+)", text)
    )
    if match and ("Could not override" in text or "not in" in text):
        key = match.group(1).partition("@")[0]
        if key.startswith("rater.") and command == "train":
            return InputError(
                f"'{key}' is no option of this rater; captau train rater=NAME --cfg job shows them"
            )
        return unknown(f"option of captau {command}", key, options)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if type(error).__name__ == "OverrideParseException":
        override = getattr(error, "override", "")
        return InputError(
            f"'{override}' is not of the form key=value ({first}); quote what has brackets or blanks: "
            f"'metrics=[\"cider(df=FILE)\"]'"
        )
    # The reason stands at the end of the chain: "Value 'abc' … could not be converted to Integer".
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = str(cause).strip().splitlines()[0] if str(cause).strip() else ""
    return InputError(first if reason in ("", first) else f"{first}: {reason}")


def _options(command: str) -> list[str]:
    """Every option of a command, dotted, and its config groups."""
    from omegaconf import OmegaConf

    from ...conf import schema

    node = schema.OPTIONS[command]

    def dotted(table: Any, prefix: str = "") -> list[str]:
        names: list[str] = []
        for key in table:
            inner = None if OmegaConf.is_missing(table, key) else table[key]
            if OmegaConf.is_dict(inner) and inner:
                names += dotted(inner, f"{prefix}{key}.")
            else:
                names.append(f"{prefix}{key}")
        return names

    names = [
        n
        for n in dotted(OmegaConf.structured(node))
        if n not in ("datasets", "models", "papers", "rater")
    ]
    groups = {"bench": ["dataset", "protocol"], "compare": ["dataset", "protocol"]}
    groups |= {
        word: ["dataset", "protocol"] for word in ("sensitivity", "complement", "thresholds")
    }
    groups |= {"agree": ["dataset"], "reproduce": ["paper"]}
    groups |= {"train": ["rater", "dataset", "protocol"]}
    groups |= {"check": ["dataset", "protocol"], "validate": ["dataset"]}
    groups |= {f"data {word}": ["dataset"] for word in ("fetch", "import", "verify", "overlap")}
    return [*names, *groups.get(command, [])]


def _completion(given: list[str]) -> None:
    """Bash, zsh and fish: Hydra completes a command's options, and this completes the command.

    Raises:
        InputError: where the shell is none of them.
    """
    command, line = "bench", os.environ.get("COMP_LINE", "")
    if len(given) != 2 or not re.fullmatch(r"(install|uninstall|query)=(bash|fish|zsh)", given[1]):
        raise InputError(f"{given[0]} install=bash, install=zsh or install=fish is expected")
    if any("query" in word for word in given):
        words = line.split()
        typed = words[1:] if line.endswith(" ") or len(words) < 2 else words[1:-1]
        last = "" if line.endswith(" ") or len(words) < 2 else words[-1]
        try:
            command, _ = split_command(typed) if typed else ("", [])
        except InputError:
            command = ""
        if not command:
            rows = [c.split() for c in COMMANDS]
            fits = [r[len(typed)] for r in rows if r[: len(typed)] == typed and len(r) > len(typed)]
            print("\n".join(dict.fromkeys(f for f in fits if f.startswith(last))))
            return
        # Hydra knows one program with options, so the command's words are taken out of its view.
        os.environ["COMP_LINE"] = re.sub(
            r"^(\S+)\s+" + r"\s+".join(map(re.escape, command.split())), r"\1", line
        )
    known = {name.partition(".")[0] for name in _options(command)}
    offered = io.StringIO()
    with contextlib.redirect_stdout(offered):
        _run_hydra(command, given)
    # Hydra offers every config group there is; a command has its own options.
    words = offered.getvalue()
    if "query" in given[1]:
        fits = [w for w in words.split() if re.split(r"[.=]", w)[0] in known]
        words = "\n".join([*fits, *_metric_words(command, f" {line}".split(" ")[-1])])
    print(words.strip())


def _metric_words(command: str, last: str) -> list[str]:
    """Completions of `metrics=`, which is no config group: suites and metrics."""
    if "metrics" not in _options(command) or not last.startswith("metrics="):
        return []
    names = [f"metrics={name}" for name in [*group("suite"), *group("metric")]]
    return [name for name in names if name.startswith(last)]


def _show(tables: list[ResultTable]) -> None:
    from rich.console import Console

    from ..runs.tables import markdown_of, rich_of

    if sys.stdout.isatty():
        console = Console()
        for table in tables:
            console.print(rich_of(table, console.width))
    else:
        print("\n\n".join(markdown_of(t) for t in tables))


def _folder(output_dir: Any, command: str) -> Any:
    """The run's folder; each job of a sweep has its own."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from ..runs.output_folder import OutputFolder

    hydra = HydraConfig.get()
    if hydra.mode == RunMode.MULTIRUN:
        output_dir = hydra.runtime.output_dir
    return OutputFolder(output_dir, command)


class _Finished(Protocol):
    """What a command that writes files found."""

    @property
    def tables(self) -> list[ResultTable]: ...

    def files(self) -> dict[str, bytes]: ...


Found = TypeVar("Found", bound=_Finished)


def _finish(command: str, output_dir: Path | None, work: Callable[[], Found]) -> Found:
    """Do the work, write its files into the run's folder, and show its tables."""
    with _folder(output_dir, command) as folder:
        found = work()
        folder.write(found.files())
    _show(found.tables)
    print(f"\nwritten to {folder.path}")
    return found


def _bench(config: DictConfig) -> None:
    from ..commands.bench import run
    from ..options import bench_config

    chosen = bench_config(config)
    command = "compare" if chosen.tests else "bench"
    if summary := _finish(command, chosen.locations.output_dir, lambda: run(chosen)).summary:
        print(summary)


def _agree(config: DictConfig) -> None:
    from ..commands import agree
    from ..commands import agree_captions as human
    from ..commands import agree_words as words
    from ..options import agree_config, human_config
    from ..reporting.figure_files import NO_FIGURES, can_draw

    if config.kind not in ("captions", "words"):
        chosen = agree_config(config)
        _finish("agree", chosen.locations.output_dir, lambda: agree.run(chosen))
        return
    people = human_config(config)
    if people.kind == "captions":
        _finish("agree", people.locations.output_dir, lambda: human.run(people))
        return
    _finish("agree", people.locations.output_dir, lambda: words.run(people))
    if not can_draw():
        print(NO_FIGURES)


def _sensitivity(config: DictConfig) -> None:
    from ..commands.sensitivity import run
    from ..options import sensitivity_config
    from ..reporting.figure_files import NO_FIGURES, can_draw

    chosen = sensitivity_config(config)
    if summary := _finish("sensitivity", chosen.locations.output_dir, lambda: run(chosen)).summary:
        print(summary)
    if not can_draw():
        print(NO_FIGURES)


def _complement(config: DictConfig) -> None:
    from ..commands.complement import run
    from ..options import complement_config

    chosen = complement_config(config)
    if summary := _finish("complement", chosen.locations.output_dir, lambda: run(chosen)).summary:
        print(summary)


def _thresholds(config: DictConfig) -> None:
    from ..commands.thresholds import run
    from ..options import thresholds_config
    from ..reporting.figure_files import NO_FIGURES, can_draw

    chosen = thresholds_config(config)
    if summary := _finish("thresholds", chosen.locations.output_dir, lambda: run(chosen)).summary:
        print(summary)
    if not can_draw():
        print(NO_FIGURES)


def _train(config: DictConfig) -> None:
    from hydra.core.hydra_config import HydraConfig

    from ..commands.train import run
    from ..options import train_config

    chosen = train_config(config, HydraConfig.get().overrides.task)
    with _folder(chosen.locations.output_dir, "train") as folder:
        found = run(chosen, folder.path)
        folder.write(found.files())
    for spare in found.spare:
        shutil.rmtree(spare, ignore_errors=True)
    _show(found.tables)
    print(f"\nwritten to {folder.path}")
    if found.summary:
        print(found.summary)


def _reproduce(config: DictConfig) -> None:
    from ..commands.reproduce import run
    from ..options import reproduce_config

    chosen = reproduce_config(config)
    if not chosen.papers:
        raise InputError(f"the option paper=… is needed: {', '.join(group('paper'))}, or all")
    print(_finish("reproduce", chosen.locations.output_dir, lambda: run(chosen)).summary)


def _score(config: DictConfig) -> None:
    from ..commands.score import run
    from ..options import is_large, score_config

    if is_large(config):
        _score_large(config)
        return
    chosen = score_config(config)
    if chosen.stdout == "table":
        _finish("score", chosen.locations.output_dir, lambda: run(chosen))
        return
    if chosen.locations.output_dir is None:  # in a pipe nobody asked for a folder
        found = run(chosen)
    else:
        with _folder(chosen.locations.output_dir, "score") as folder:
            found = run(chosen)
            folder.write(found.files())
    sys.stdout.flush()
    sys.stdout.buffer.write(found.stream(chosen.stdout))
    sys.stdout.buffer.flush()


def _score_large(config: DictConfig) -> None:
    from ...datasets.object_store import is_url
    from ..large.run import run
    from ..options import large_config

    given = config.output_dir
    if given is not None and is_url(given):
        _show_large(run(large_config(config, given)))
        return
    with _folder(given, "score") as folder:
        _show_large(run(large_config(config, str(folder.path))))


def _show_large(found: Scored) -> None:
    _show(found.tables)
    print(f"\n{found.summary}")


def _filter(config: DictConfig) -> None:
    from ..large.filtering import run
    from ..options import filter_config

    found = run(filter_config(config))
    _show(found.tables)
    print(f"\nwritten to {found.folder}")
    print(found.summary)


def _validate(config: DictConfig) -> int:
    from ..commands.validate import validate
    from ..options import validate_config

    verdict = validate(validate_config(config))
    for line in verdict.faults:
        print(f"captau: {' '.join(line.split())}", file=sys.stderr)
    print(verdict.summary)
    return 2 if verdict.n_faults else 0


def _report(config: DictConfig) -> None:
    from ..options import report_config
    from ..reporting.html_report import run

    print(run(report_config(config)).summary)


def _plot(config: DictConfig) -> None:
    from ..commands.plot import run
    from ..options import plot_config

    plots = run(plot_config(config))
    for line in plots.lacking:
        print(line)
    print(f"{plots.folder}: {len(plots.files)} files")


def _data_list(config: DictConfig) -> None:
    from ..commands.data import overview as datasets

    _show([datasets(config.data.root)])


def _data_fetch(config: DictConfig) -> int:
    from ..commands.data import fetch, fetch_models
    from ..options import data_config

    chosen = data_config(config)
    failed = fetch(chosen.names, chosen.root, chosen.offline, print)
    return _told(failed + (fetch_models(chosen.offline, print) if chosen.models else []))


def _data_import(config: DictConfig) -> int:
    from ..commands.data import take
    from ..options import data_config

    chosen = data_config(config)
    return _told(take(chosen.names, chosen.source, chosen.root, print, named=chosen.named))


def _data_verify(config: DictConfig) -> int:
    from ..commands.data import verify
    from ..options import data_config

    chosen = data_config(config, needed=False)
    table, good = verify(
        chosen.names, chosen.root, chosen.images, named=chosen.named, models=bool(chosen.models)
    )
    _show([table])
    return 0 if good else 1


def _data_overlap(config: DictConfig) -> None:
    from ..commands.data_overlap import overlap
    from ..options import data_config

    chosen = data_config(config)
    _show([overlap(chosen.names, chosen.root)])


def _told(failed: list[str]) -> int:
    """A line on stderr for each thing that could not be had, and the status that goes with it."""
    for message in failed:
        print(f"captau: {' '.join(message.split())}", file=sys.stderr)
    return 2 if failed else 0


def _data_df(config: DictConfig) -> None:
    from ..commands.data import save_df
    from ..options import df_config

    references, output = df_config(config)
    documents = save_df(references, output)
    print(f"{output}: document frequencies of {documents:,} images")


def _check(config: DictConfig) -> int:
    from hydra.core.hydra_config import HydraConfig

    from ..options import check_config
    from ..regression.check import run

    found = run(check_config(config, HydraConfig.get().overrides.task))
    if found.tables:
        _show(found.tables)
        print()
    print(found.summary)
    found.report()
    return found.status


def _table(config: DictConfig) -> None:
    from ..options import table_config
    from ..reporting.joined_table import join
    from ..reporting.table_layouts import LAYOUTS

    chosen = table_config(config)
    _print_or_write(LAYOUTS[chosen.style](join(chosen)), chosen.output)


def _cite(config: DictConfig) -> None:
    from ..options import cite_config
    from ..reporting.citations import cite

    chosen = cite_config(config)
    _print_or_write(cite(chosen.runs), chosen.output)


def _gather(config: DictConfig) -> int:
    from ..options import gather_config
    from ..sweeps.gather import run

    gathered = run(gather_config(config))
    if gathered.runs:
        _show([gathered.table])
    for line in gathered.lacking:
        print(f"captau: {' '.join(line.split())}", file=sys.stderr)
    print(f"\nwritten to {gathered.folder}: {gathered.summary}")
    return 1 if gathered.lacking else 0


def _print_or_write(text: str, output: Path | None) -> None:
    """Onto standard output, or into a file."""
    from ..runs.output_folder import write_file

    if output is None:
        print(text, end="")
    else:
        write_file(output, text.encode())
        print(f"written to {output}")


def _served(name: str) -> Callable[[DictConfig], int | None]:
    """A command of the web side, which is found by its entry point: nothing here imports it."""

    def task(config: DictConfig) -> int | None:
        from importlib.metadata import entry_points

        (entry,) = entry_points(group="captau.commands", name=name)
        try:
            return entry.load()(config)
        except ModuleNotFoundError as error:
            if (error.name or "captau").startswith("captau"):
                raise  # our own fault
            raise InputError(
                f"{error.name} is not installed: pip install 'captau[server]'"
            ) from error

    return task


_TASKS: dict[str, Callable[[DictConfig], int | None]] = {
    "bench": _bench,
    "compare": _bench,
    "agree": _agree,
    "sensitivity": _sensitivity,
    "complement": _complement,
    "thresholds": _thresholds,
    "train": _train,
    "reproduce": _reproduce,
    "score": _score,
    "validate": _validate,
    "report": _report,
    "plot": _plot,
    "data_list": _data_list,
    "data_fetch": _data_fetch,
    "data_import": _data_import,
    "data_verify": _data_verify,
    "data_overlap": _data_overlap,
    "data_df": _data_df,
    "check": _check,
    "table": _table,
    "cite": _cite,
    "collect": _served("collect"),
    "collect_export": _served("collect_export"),
    "collect_simulate": _served("collect_simulate"),
    "filter": _filter,
    "gather": _gather,
    "collect_stability": _served("collect_stability"),
    "serve": _served("serve"),
    "submit": _served("submit"),
}
