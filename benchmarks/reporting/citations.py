"""`captau cite`: two sentences for a paper, an appendix that names the protocol, and BibTeX of what finished runs used."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ..evaluation.overview import MEAN
from ..evaluation.wording import interval_words, rank_words
from ..runs.finished_run import FinishedRun, check_same_data, read_runs
from ..runs.latex_text import break_signature, escape_latex
from ..runs.tables import count_of
from ..scoring.catalog import MetricStyle, read_config
from ..statistics.bootstrap import StatisticsOptions
from ..statistics.coefficients.coefficient import find_coefficient
from .bibliography import Bibliography
from .cited_data import (
    describe_choices,
    describe_data,
    describe_measured_data,
    find_measured_rows,
    list_once,
)
from .run_parts import ScoredCaptions, scored_parts
from .tables import named_run
from .tables.joined_table import find_printed_labels

#: The distributions that compute coefficients and intervals; metrics name theirs in signatures.
COMPUTING = ("numpy", "scipy", "numba")


def cite(folders: Sequence[Path], published: Sequence[str] = ()) -> str:
    """Return two sentences for a paper and an appendix, in LaTeX, and the BibTeX of all that they cite.

    Args:
        folders: finished runs.
        published: papers in `conf/paper/`; those whose numbers stand in the runs' table are cited, in a third sentence.

    Raises:
        InputError: on a run that cannot be read, runs over different data, or papers where the table has no published numbers.
    """
    runs = read_runs(folders)
    if not runs[0].has_correlations and published:
        raise InputError(
            f"{runs[0].folder} is a run of captau {runs[0].command}, whose table has no published numbers; leave published= out"
        )
    if runs[0].has_corpus_scores:
        return _cite_scores(runs)
    if not runs[0].has_correlations:
        return _cite_studies(runs)
    return _cite_correlations(runs, published)


def _cite_correlations(runs: Sequence[FinishedRun], published: Sequence[str]) -> str:
    """Cite what runs that correlate metrics with people used, and the papers whose numbers stand beside theirs."""
    sources = named_run.name_runs(runs)
    works = Bibliography()
    captau = _cite_captau(runs, works)
    sentences = [f"We measure how well metrics agree with people with {captau}."]
    rows_by_source = [(source, find_measured_rows(source)) for source in sources]
    for source, rows in rows_by_source:
        sentences += describe_measured_data(source, rows, works)

    cited_metrics: list[tuple[str, str, str, str]] = []
    for source in sources:
        cited_metrics += _metrics(source)
    metrics = _CitedMetrics(works, cited_metrics)

    intervals: list[str] = []
    if any(source.run.correlations["ci_low"].notna().any() for source in sources):
        phrases = named_run.describe_statistics(
            sources, lambda o: f"{interval_words(o)}, seed {o.seed}"
        )
        intervals = [escape_latex(words) for words in phrases]
        sentences += [f"Intervals: {words}." for words in intervals]

    ranks: list[str] = []
    if any(source.ranks for source in sources):
        # The mean's rank is told with the mean.
        ranked: list[str] = []
        for source in sources:
            ranked += [name for dataset, _, name, _ in source.ranks if dataset != MEAN]
        phrases = named_run.describe_statistics(sources, lambda o: rank_words(o, ranked))
        ranks = [escape_latex(words) for words in phrases]
        sentences += [f"Ranks of metrics: {words}." for words in ranks]

    for source in sources:
        if source.overview is not None:
            datasets = escape_latex(source.overview.mean_words)
            sentences.append(
                f"The mean is taken {datasets}, and an image is drawn once for all datasets."
            )

    names: list[str] = []
    measured: set[str] = set()
    for source, rows in rows_by_source:
        for _, row in rows:
            measured.add(row["dataset"])
            # Files hold every coefficient; tables print those of the protocol.
            if row["coefficient"] in source.protocol(row).coefficients:
                names.append(find_coefficient(row["coefficient"]).words)

    first = f"With {captau} we measure how well {metrics.in_words} agree with people{_on(runs, works, measured)}."
    second = _second_sentence(list_once(names), intervals, ranks)
    third, printed_rows = _cite_printed(runs, published, works)
    brief = " ".join([first, second, *third])
    sentences += printed_rows
    return _write_paper("Coefficients and intervals", brief, sentences, metrics, runs, works)


def _cite_printed(
    runs: Sequence[FinishedRun], published: Sequence[str], works: Bibliography
) -> tuple[list[str], list[str]]:
    """Return the sentence on printed numbers, and that of the appendix on whose row is whose; none without such numbers."""
    if not published:
        return [], []

    keys: list[str] = []
    clauses: list[str] = []
    for paper, labels in find_printed_labels(runs, published).items():
        (key,) = works.add(read_config("paper", paper)["citation"])
        keys.append(key)
        clauses.append(rf"{list_once([escape_latex(label) for label in labels])} by \cite{{{key}}}")
    if not keys:
        return [], []

    cited = rf"\cite{{{','.join(keys)}}}"
    return (
        [f"Numbers that we did not compute stand as they are printed by {cited}."],
        [f"Numbers of these rows are as printed: {'; '.join(clauses)}."],
    )


def _cite_captau(runs: Sequence[FinishedRun], works: Bibliography) -> str:
    versions = ", ".join(dict.fromkeys(run.run["versions"]["captau"] for run in runs))
    (key,) = works.add(_CAPTAU_ENTRY.replace("VERSION", versions))
    return rf"captau {versions} \cite{{{key}}}"


def _cite_studies(runs: Sequence[FinishedRun]) -> str:
    """Cite what runs without correlations and corpus scores used; their run.json says what they measure."""
    check_same_data(runs)
    works = Bibliography()
    captau = _cite_captau(runs, works)
    sentences: list[str] = []
    intervals: list[str] = []
    actions: list[str] = []
    metrics: list[tuple[str, str, str, str]] = []
    for run in runs:
        measures = run.run.get("measures")
        action = f"measure {measures}" if measures else f"run its command {run.command}"
        actions.append(action)
        sentences.append(f"With {captau} we {action}.")

        signatures = run.run.get("signatures", {})
        protocols = run.run.get("protocols", {})
        for name, data in run.run.get("data", {}).items():
            protocol = named_run.protocol_of(run, protocols[name]) if name in protocols else None
            dimensions = ", ".join(protocol.dimension).replace("_", " ") if protocol else ""
            details = [f"dimension: {dimensions}"] if dimensions else []
            split = protocol.split if protocol else None
            sentence = f"The data is {describe_data(data, split, works, details)}"
            if protocol and signatures:
                sentence += f": {'; '.join(describe_choices(protocol, works))}"
            sentences.append(f"{sentence}.")

        options: dict[str, Any] = run.run["config"].get("statistics") or {}
        # A command whose intervals come from no resampling says itself what they are.
        if own_intervals := run.run.get("intervals"):
            keys = ",".join(works.add(own_intervals["citation"]))
            intervals.append(rf"{escape_latex(own_intervals['words'])} \cite{{{keys}}}")
            sentences.append(f"Intervals: {intervals[-1]}.")
        elif options and (statistics := StatisticsOptions(**options)).uses_resampling:
            intervals.append(escape_latex(f"{interval_words(statistics)}, seed {statistics.seed}"))
            sentences.append(f"Intervals: {intervals[-1]}.")

        styles = {spec: named_run.style_of(spec, "given") for spec in signatures}
        metrics += _cited_metrics(styles, signatures)

    cited = _CitedMetrics(works, metrics)
    first = f"With {captau} we {list_once(actions)}{_on(runs, works)}."
    reported = f"numbers of {cited.in_words}" if cited.lines else "numbers"
    has_protocol = any(run.run.get("protocols") for run in runs)
    second = _second_sentence(reported, intervals, [], has_protocol=has_protocol)
    return _write_paper("Numbers", f"{first} {second}", sentences, cited, runs, works)


def _cite_scores(runs: Sequence[FinishedRun]) -> str:
    """Cite what runs of `captau score` used."""
    parts: list[ScoredCaptions] = []
    for run in runs:
        parts += scored_parts(run)
    works = Bibliography()
    captau = _cite_captau(runs, works)
    sentences = [f"We score captions with {captau}."]
    captions: list[str] = []
    intervals: list[str] = []
    ranks: list[str] = []
    for part in parts:
        n_images = int(part.corpus["n_images"].max())
        references = ""
        if part.has_several_references:
            references = f" with the references {escape_latex(part.dataset)}"

        systems = [escape_latex(system) for system in part.systems]
        captions.append(
            f"{list_once(systems, 'systems')} on {count_of(n_images, 'image')}{references}"
        )
        sentences.append(
            f"Captions of {count_of(n_images, 'image')}{references} are scored: {', '.join(systems)}."
        )

        options = part.statistics
        if part.corpus["ci_low"].notna().any():
            intervals.append(escape_latex(f"{interval_words(options)}, seed {options.seed}"))
            sentences.append(f"Intervals: {intervals[-1]}.")
        if len(part.differences):
            ranks.append(escape_latex(rank_words(options).replace("metrics", "systems")))
            sentences.append(f"Ranks of systems: {ranks[-1]}.")

    metrics: list[tuple[str, str, str, str]] = []
    for part in parts:
        styles = {metric: MetricStyle(**part.styles[metric]) for metric in part.metrics}
        metrics += _cited_metrics(styles, part.run.run["signatures"])

    cited = _CitedMetrics(works, metrics)
    first = f"With {captau} we score the captions of {list_once(captions)}."
    second = _second_sentence(cited.in_words, intervals, ranks)
    brief = f"{first} {second}"
    return _write_paper("Scores and intervals", brief, sentences, cited, runs, works)


def _on(
    runs: Sequence[FinishedRun], works: Bibliography, measured: Collection[str] | None = None
) -> str:
    """Return " on" and the titles of the runs' datasets with citations; nothing where there are none.

    Args:
        runs, works: whose datasets are cited, and where.
        measured: the datasets that have a number; by default all.
    """
    titles: list[str] = []
    for run in runs:
        for name, data in run.run.get("data", {}).items():
            if measured is not None and name not in measured:
                continue
            keys = ",".join(works.add(data["citation"]))
            titles.append(rf"{escape_latex(data['title'])} \cite{{{keys}}}")
    return f" on {list_once(titles)}" if titles else ""


def _second_sentence(
    reported: str, intervals: list[str], ranks: list[str], *, has_protocol: bool = True
) -> str:
    """Say what we report, with its intervals and ranks where all runs have the same, and what the appendix has."""
    first_clause = f"We report {reported}"
    if len(set(intervals)) == 1:
        first_clause += f" with the {intervals[0]}"

    clauses = [first_clause]
    if len(set(ranks)) == 1:
        clauses.append(ranks[0])
    details = "the protocol and all versions" if has_protocol else "all versions"
    clauses.append(f"the appendix has {details}")
    return f"{'; '.join(clauses)}."


class _CitedMetrics:
    """Metrics with signatures and citations, each once.

    Attributes:
        lines: of LaTeX, a metric each.
        in_words: the metrics' labels with citations, or their number.
        uncited: labels of metrics of which no paper is known.
    """

    def __init__(self, works: Bibliography, metrics: Sequence[tuple[str, str, str, str]]) -> None:
        lines: dict[tuple[str, str], str] = {}
        names: list[str] = []
        self.uncited: list[str] = []

        for spec, label, signature, citation in metrics:
            keys = works.add(citation)
            if not keys and label not in self.uncited:
                self.uncited.append(label)

            citation_command = rf" \cite{{{','.join(keys)}}}" if keys else ""
            names.append(f"{escape_latex(label)}{citation_command}")
            short_signature = break_signature(named_run.shorten_hashes(signature))
            line = rf"{names[-1]} (\texttt{{{short_signature}}})"
            lines.setdefault((spec, signature), line)

        self.lines = list(lines.values())
        self.in_words = list_once(names, "metrics")


def _write_paper(
    subject: str,
    brief: str,
    sentences: list[str],
    metrics: _CitedMetrics,
    runs: Sequence[FinishedRun],
    works: Bibliography,
) -> str:
    """Return the two sentences, the appendix with metrics and versions at its end, and the entries."""
    if metrics.lines:
        sentences = [*sentences, f"Metrics, with signatures: {'; '.join(metrics.lines)}."]
    for run in runs:
        versions = run.run["versions"].items()
        packages: list[str] = []
        for name, version in versions:
            if name in COMPUTING:
                packages.append(f"{name} {version}")
        sentences.append(f"{subject} were computed with {', '.join(packages)}.")

    paper = _fill_paragraph(brief)
    appendix = _fill_paragraph(" ".join(dict.fromkeys(sentences)))

    # Names of files and signatures do not break well: their lines may have wide blanks, and none runs into the margin.
    appendix = f"\\begin{{sloppypar}}\n{appendix}\n\\end{{sloppypar}}"

    if metrics.uncited:
        names = ", ".join(metrics.uncited).replace("@", "(at)")
        appendix += f"\n\n% captau knows no paper of {names}; cite the source yourself."
    return f"% For the paper:\n{paper}\n\n{_APPENDIX}\n{appendix}\n\n% BibTeX:\n{works}\n"


def _fill_paragraph(text: str) -> str:
    """Return a paragraph of lines of a hundred letters, in which BibTeX finds no entry."""
    paragraph = textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
    # Outside of entries BibTeX passes over all but this sign, behind % as well.
    return paragraph.replace("@", r"\char64{}")


_APPENDIX = "% For its appendix:"
_CAPTAU_ENTRY = """@misc{captau,
  title={captau: how well image-caption metrics agree with human ratings},
  author={{The captau maintainers}},
  note={Version VERSION}
}"""


def _metrics(source: named_run.NamedRun) -> list[tuple[str, str, str, str]]:
    """Spec, label, signature and BibTeX of each metric with a number, in the order of tables."""
    frame = source.run.correlations
    below: set[str] = set()
    for names in source.below.values():
        below |= set(names)

    styles: dict[str, MetricStyle] = {}
    for spec in dict.fromkeys(frame.loc[frame["value"].notna(), "metric"]):
        if spec not in below:
            styles[spec] = source.styles[spec]
    return _cited_metrics(styles, source.run.run["signatures"])


def _cited_metrics(
    styles: Mapping[str, MetricStyle], signatures: Mapping[str, str]
) -> list[tuple[str, str, str, str]]:
    """Return spec, label, signature and BibTeX of metrics, in the order of tables."""
    cited: list[tuple[str, str, str, str]] = []
    for spec, style in sorted(styles.items(), key=lambda entry: entry[1].order):
        signature = signatures.get(spec, "no signature")
        cited.append((spec, style.label, signature, style.citation))
    return cited
