"""The commands, a row each: name, options, task and summary.

To add a command, write its options in `benchmarks/options/`, its module in `benchmarks/commands/`, and a row here.
Nothing heavy is imported until a command is asked for, so that `captau --help` answers at once.
"""

from __future__ import annotations

from ...datasets.errors import InputError, unknown
from . import tasks
from .command import Command

# fmt: off
_ROWS = (
    ("bench", "bench:BenchOptions", tasks.run_in_folder, "score datasets with metrics and correlate with people's ratings"),
    ("gather", "gather:GatherOptions", tasks.gather_sweep, "show what the jobs of a sweep (--multirun) computed as one table, and rerun failed jobs"),
    ("compare", "bench:CompareOptions", tasks.run_in_folder, "which metrics differ: intervals of differences, tests, rank clusters"),
    ("agree", "agree:AgreeOptions", tasks.measure_agreement, "how well people agree: raters, and the ceilings that follow; captions; words"),
    ("sensitivity", "sensitivity:SensitivityOptions", tasks.run_with_figures, "how far numbers move with images, raters, references and protocols"),
    ("complement", "complement:ComplementOptions", tasks.run_in_folder, "which metrics say the same, and which add to one another"),
    ("thresholds", "thresholds:ThresholdsOptions", tasks.run_with_figures, "what a metric retains and how much of it is good, by threshold"),
    ("rank", "rank:RankOptions", tasks.run_with_figures, "which captioning system people prefer, and how each metric orders the systems"),
    ("train", "train:TrainOptions", tasks.train_rater, "train a learned rater, and see how it agrees with people on images it has not seen"),
    ("reproduce", "reproduce:ReproduceOptions", tasks.run_in_folder, "rebuild a paper's tables and compare them cell by cell"),
    ("score", "score:ScoreOptions", tasks.score_captions, "score your own captions"),
    ("filter", "large:FilterOptions", tasks.filter_captions, "retain the captions of a large scored set that are above a threshold"),
    ("validate", "validate:ValidateOptions", tasks.validate_submission, "check a submission, captions or a metric's scores, and list its faults"),
    ("submit", "serve:SubmitOptions", tasks.run_web_command, "send captions, or a metric's scores, to a challenge, and wait for their scores"),
    ("table", "table:TableOptions", tasks.print_table, "finished runs and published numbers as one table, for a paper"),
    ("cite", "table:CiteOptions", tasks.print_citations, "BibTeX of what a run used, and a methods sentence"),
    ("report", "report:ReportOptions", tasks.write_report, "a finished run as one self-contained HTML page"),
    ("plot", "report:PlotOptions", tasks.draw_figures, "a finished run's figures as SVG and PNG files"),
    ("check", "check:CheckOptions", tasks.check_baseline, "fail when a score, a correlation or what they rest on differs from a baseline"),
    ("data list", "data:ListOptions", tasks.list_datasets, "the datasets, and whether they are here"),
    ("data fetch", "data:FetchOptions", tasks.fetch_datasets, "download datasets"),
    ("data import", "data:ImportOptions", tasks.import_datasets, "take datasets' files from what you downloaded by hand"),
    ("data verify", "data:VerifyOptions", tasks.verify_datasets, "hash and count the datasets that are here"),
    ("data overlap", "data:OverlapOptions", tasks.compare_datasets, "which images and captions datasets share"),
    ("data df", "data:DocumentFrequencyOptions", tasks.count_document_frequencies, "count CIDEr's document frequencies for scoring single images"),
    ("collect", "collect:CollectOptions", tasks.run_web_command, "serve a study in which people judge captions, as a web site"),
    ("collect export", "collect:ExportOptions", tasks.run_web_command, "write what a study gathered as files that captau and others read"),
    ("collect stability", "collect:StabilityOptions", tasks.run_web_command, "compare what a study gathered with what its re-run did"),
    ("collect simulate", "collect:SimulateOptions", tasks.run_web_command, "play raters of given skill through a study's own web site"),
    ("serve", "serve:ServeOptions", tasks.run_web_command, "serve challenges: submissions, scores by private references or ratings, a leaderboard"),
)
# fmt: on

COMMANDS: dict[str, Command] = {row[0]: Command(*row) for row in _ROWS}


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
