"""The commands, a row each: name, summary, options and task.

To add a command, write its options in `benchmarks/options/`, its module in `benchmarks/commands/`, and a row here.
Nothing heavy is imported until a command is asked for, so that `captau --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError, unknown
from . import tasks

if TYPE_CHECKING:
    from ..options.declaration import Option, Options


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: as it is typed, of one or two words.
        summary: a line for the overview.
        options_path: module and class below `benchmarks.options`.
        task: takes the options, shows what the command returns, and returns an exit status.
        takes_all: the config group of which `all` stands for every name.
        models: names that `dataset=` takes beside datasets.
        positional: the option that a word without a key is of.
    """

    name: str
    summary: str
    options_path: str
    task: Callable[[Any], int | None]
    takes_all: str = ""
    models: tuple[str, ...] = ()
    positional: str = ""

    @property
    def slug(self) -> str:
        """The name as configurations, pages and entry points have it."""
        return self.name.replace(" ", "_")

    @property
    def options(self) -> type[Options]:
        """The class of its options."""
        module, _, name = self.options_path.partition(":")
        return getattr(import_module(f"..options.{module}", __package__), name)

    def declared(self) -> list[Option]:
        """List the options that are typed; keys of the schema alone are left out."""
        return [one for one in self.options.declared() if one.help]


def _run(module: str, command: str = "", draws: bool = False) -> Callable[[Any], int | None]:
    return partial(tasks.run_in_folder, module, command or module, draws)


def _web(name: str) -> Callable[[Any], int | None]:
    return partial(tasks.run_web_command, name)


_DATA: dict[str, Any] = {"takes_all": "dataset"}
_MODELS = ("spice_models",)

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            "bench",
            "score datasets with metrics and correlate with people's ratings",
            "bench:BenchOptions",
            _run("bench"),
        ),
        Command(
            "gather",
            "show what the jobs of a sweep (--multirun) computed as one table, and rerun failed jobs",
            "gather:GatherOptions",
            tasks.gather_sweep,
        ),
        Command(
            "compare",
            "which metrics differ: intervals of differences, tests, rank clusters",
            "bench:CompareOptions",
            _run("bench", "compare"),
        ),
        Command(
            "agree",
            "how well people agree: raters, and the ceilings that follow; captions; words",
            "agree:AgreeOptions",
            tasks.measure_agreement,
        ),
        Command(
            "sensitivity",
            "how far numbers move with images, raters, references and protocols",
            "sensitivity:SensitivityOptions",
            _run("sensitivity", draws=True),
        ),
        Command(
            "complement",
            "which metrics say the same, and which add to one another",
            "complement:ComplementOptions",
            _run("complement"),
        ),
        Command(
            "thresholds",
            "what a metric retains and how much of it is good, by threshold",
            "thresholds:ThresholdsOptions",
            _run("thresholds", draws=True),
        ),
        Command(
            "rank",
            "which captioning system people prefer, and how each metric orders the systems",
            "rank:RankOptions",
            _run("rank", draws=True),
        ),
        Command(
            "train",
            "train a learned rater, and see how it agrees with people on images it has not seen",
            "train:TrainOptions",
            tasks.train_rater,
        ),
        Command(
            "reproduce",
            "rebuild a paper's tables and compare them cell by cell",
            "reproduce:ReproduceOptions",
            _run("reproduce"),
            takes_all="paper",
        ),
        Command("score", "score your own captions", "score:ScoreOptions", tasks.score_captions),
        Command(
            "filter",
            "retain the captions of a large scored set that are above a threshold",
            "large:FilterOptions",
            tasks.filter_captions,
        ),
        Command(
            "validate",
            "check a submission, captions or a metric's scores, and list its faults",
            "validate:ValidateOptions",
            tasks.validate_submission,
            positional="file",
        ),
        Command(
            "submit",
            "send captions, or a metric's scores, to a challenge, and wait for their scores",
            "serve:SubmitOptions",
            _web("submit"),
            positional="file",
        ),
        Command(
            "table",
            "finished runs and published numbers as one table, for a paper",
            "table:TableOptions",
            tasks.print_table,
        ),
        Command(
            "cite",
            "BibTeX of what a run used, and a methods sentence",
            "table:CiteOptions",
            tasks.print_citations,
        ),
        Command(
            "report",
            "a finished run as one self-contained HTML page",
            "report:ReportOptions",
            tasks.write_report,
        ),
        Command(
            "plot",
            "a finished run's figures as SVG and PNG files",
            "report:PlotOptions",
            tasks.draw_figures,
        ),
        Command(
            "check",
            "fail when a score, a correlation or what they rest on differs from a baseline",
            "check:CheckOptions",
            tasks.check_baseline,
        ),
        Command(
            "data list",
            "the datasets, and whether they are here",
            "data:ListOptions",
            tasks.list_datasets,
        ),
        Command(
            "data fetch",
            "download datasets",
            "data:FetchOptions",
            tasks.fetch_datasets,
            models=_MODELS,
            **_DATA,
        ),
        Command(
            "data import",
            "take datasets' files from what you downloaded by hand",
            "data:ImportOptions",
            tasks.import_datasets,
            **_DATA,
        ),
        Command(
            "data verify",
            "hash and count the datasets that are here",
            "data:VerifyOptions",
            tasks.verify_datasets,
            models=_MODELS,
            **_DATA,
        ),
        Command(
            "data overlap",
            "which images and captions datasets share",
            "data:OverlapOptions",
            tasks.compare_datasets,
            **_DATA,
        ),
        Command(
            "data df",
            "count CIDEr's document frequencies for scoring single images",
            "data:DocumentFrequencyOptions",
            tasks.count_document_frequencies,
        ),
        Command(
            "collect",
            "serve a study in which people judge captions, as a web site",
            "collect:CollectOptions",
            _web("collect"),
        ),
        Command(
            "collect export",
            "write what a study gathered as files that captau and others read",
            "collect:ExportOptions",
            _web("collect_export"),
        ),
        Command(
            "collect stability",
            "compare what a study gathered with what its re-run did",
            "collect:StabilityOptions",
            _web("collect_stability"),
        ),
        Command(
            "collect simulate",
            "play raters of given skill through a study's own web site",
            "collect:SimulateOptions",
            _web("collect_simulate"),
        ),
        Command(
            "serve",
            "serve challenges: submissions, scores by private references or ratings, a leaderboard",
            "serve:ServeOptions",
            _web("serve"),
        ),
    )
}


def split_command(arguments: list[str]) -> tuple[Command, list[str]]:
    """Return the command and the words behind it; `data list` is one command of two words.

    Raises:
        InputError: on an unknown command.
    """
    for n_words in (2, 1):
        name = " ".join(arguments[:n_words])
        if len(arguments) >= n_words and name in COMMANDS:
            return COMMANDS[name], arguments[n_words:]
    if arguments == ["data"]:
        names = [name for name in COMMANDS if name.startswith("data ")]
        raise InputError(f"captau data needs a word more: {', '.join(names)}")
    if "=" in arguments[0]:
        raise InputError(
            f"a command comes first: captau bench {arguments[0]}; commands: {', '.join(COMMANDS)}"
        )
    typed = " ".join(arguments[:2]) if arguments[0] == "data" else arguments[0]
    raise unknown("command", typed, COMMANDS)
