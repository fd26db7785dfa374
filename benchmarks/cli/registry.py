"""The commands by the group of the overview, a row each: name, options, task and summary.

To add a command, write its options in `benchmarks/options/`, its module in `benchmarks/commands/`, and a row here; or a
package with an entry point (`packaged_commands`).
Nothing heavy is imported until a command is asked for, so that `captau --help` answers at once.
"""

from __future__ import annotations

import difflib
from functools import cache

from ...datasets.errors import InputError, unknown
from . import tasks
from .command import Command

# fmt: off
_GROUPS = {
    "Measure metrics": (
        ("bench", "bench:BenchOptions", tasks.run_by_dataset, "correlate metrics' scores with people's judgements"),
        ("compare", "bench:CompareOptions", tasks.compare_metrics, "test which metrics differ; show what moved between two runs"),
        ("probe", "analyses:ProbeOptions", tasks.run_with_figures, "show which faults in captions a metric notices"),
        ("rank", "rank:RankOptions", tasks.rank_systems, "rank captioning systems by people and by metrics"),
        ("agree", "analyses:AgreeOptions", tasks.measure_agreement, "measure how well people agree with each other"),
        ("sensitivity", "analyses:SensitivityOptions", tasks.run_with_figures, "show how far numbers move with images, raters and choices"),
        ("complement", "analyses:ComplementOptions", tasks.run_in_folder, "show which metrics say the same, and which add something"),
        ("thresholds", "analyses:ThresholdsOptions", tasks.run_with_figures, "show what a metric's threshold keeps, and how good it is"),
        ("calibrate", "calibrate:CalibrateOptions", tasks.run_with_figures, "show whether the yes of a metric or a judge can be believed"),
        ("train", "train:TrainOptions", tasks.train_rater, "train a learned rater, and test it on unseen images"),
    ),
    "Your own captions": (
        ("score", "score:ScoreOptions", tasks.score_captions, "score your own captions"),
        ("estimate", "estimate:EstimateOptions", tasks.estimate_ratings, "estimate people's rating of a system from few ratings"),
        ("validate", "validate:ValidateOptions", tasks.validate_submission, "check a submission, and list its faults"),
        ("submit", "sites:SubmitOptions", tasks.run_web_command, "send captions or scores to a challenge"),
    ),
    "Papers": (
        ("reproduce", "reproduce:ReproduceOptions", tasks.run_in_folder, "rebuild a paper's tables, and compare them cell by cell"),
        ("table", "finished_runs:TableOptions", tasks.print_table, "join finished runs, as of a sweep, and published numbers"),
        ("cite", "finished_runs:CiteOptions", tasks.print_citations, "print two sentences for a paper, an appendix and BibTeX"),
        ("report", "finished_runs:ReportOptions", tasks.write_report, "write a finished run as one HTML page"),
        ("plot", "finished_runs:PlotOptions", tasks.draw_figures, "draw a finished run's figures"),
    ),
    "Guard": (
        ("check", "check:CheckOptions", tasks.check_baseline, "fail when a score moved from a baseline"),
    ),
    "Data": (
        ("data list", "data:ListOptions", tasks.list_datasets, "list the datasets, and whether they are here"),
        ("data fetch", "data:FetchOptions", tasks.fetch_datasets, "download datasets"),
        ("data import", "data:ImportOptions", tasks.import_datasets, "take a dataset's files from a manual download"),
        ("data verify", "data:VerifyOptions", tasks.verify_datasets, "hash and count the datasets that are here"),
        ("data overlap", "data:OverlapOptions", tasks.compare_datasets, "show which images and captions datasets share"),
    ),
    "Web": (
        ("collect", "sites:CollectOptions", tasks.run_web_command, "serve a study in which people judge captions"),
        ("collect export", "sites:ExportOptions", tasks.run_web_command, "write a study's answers as files"),
        ("collect stability", "sites:StabilityOptions", tasks.run_web_command, "compare a study with its re-run"),
        ("collect simulate", "sites:SimulateOptions", tasks.run_web_command, "play raters of given skill through a study"),
        ("serve", "sites:ServeOptions", tasks.run_web_command, "serve a challenge with private references and a leaderboard"),
    ),
}
# fmt: on

COMMANDS: dict[str, Command] = {
    name: Command(name, f"..options.{options_path}", task, summary, group)
    for group, rows in _GROUPS.items()
    for name, options_path, task, summary in rows
}


@cache
def packaged_commands() -> dict[str, Command]:
    """Return the commands of other packages by name; to read what is installed takes longer than `captau --help`.

    An entry point of the group `captau.commands` names a command and the class of its options, beside which a function
    `run` does its work.
    """
    from importlib.metadata import entry_points

    own_slugs = {command.slug for command in COMMANDS.values()}
    commands: dict[str, Command] = {}
    for entry in entry_points(group="captau.commands"):
        # captau's own commands stay what they are.
        if entry.name not in own_slugs:
            summary = f"a command of {entry.module}"
            command = Command(entry.name, entry.value, tasks.run_in_folder, summary, "Packages")
            commands[entry.name] = command
    return commands


def find_command(name: str) -> Command:
    """Return a command of captau or of another package.

    Raises:
        InputError: where there is none of this name.
    """
    if name in COMMANDS:
        return COMMANDS[name]
    if name in packaged_commands():
        return packaged_commands()[name]
    raise unknown("command", name, [*COMMANDS, *packaged_commands()])


#: Words that were commands, and what is typed instead.
_MOVED = {
    "gather": "captau table run='DIR/*'",
    "filter": "captau score keep.run=DIR keep.metric=METRIC keep.above=SCORE",
    "data df": "captau score references=FILE save_df=FILE",
}


def split_command(arguments: list[str]) -> tuple[Command, list[str]]:
    """Return the command and the words behind it; `data list` is one command of two words.

    Raises:
        InputError: on an unknown command.
    """
    for n_words in (2, 1):
        name = " ".join(arguments[:n_words])
        if name in COMMANDS:
            typed = " ".join(arguments[:2])
            near = difflib.get_close_matches(typed, COMMANDS, n=1, cutoff=0.8)
            is_word = typed.replace(" ", "").isalpha()  # no option, as in `collect port=0`
            # A command of two words, the second of which is misspelt.
            is_meant = any(" " in command for command in near)
            if is_word and is_meant and typed not in COMMANDS:
                raise unknown("command", typed, COMMANDS)
            return COMMANDS[name], arguments[n_words:]
    if arguments == ["data"]:
        names = [name for name in COMMANDS if name.startswith("data ")]
        raise InputError(f"captau data needs a second word: {', '.join(names)}")
    if arguments[0] == "version":
        raise InputError("captau --version prints the version")
    if arguments[0].startswith("-") or "=" in arguments[0]:
        raise InputError(
            f"a command comes first: captau bench {arguments[0]}; captau --help lists the commands"
        )
    typed = " ".join(arguments[:2]) if arguments[0] == "data" else arguments[0]
    if typed in _MOVED:
        raise InputError(f"captau {typed} is now {_MOVED[typed]}")
    return find_command(typed), arguments[1:]
