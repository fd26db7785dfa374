"""The outcome of a check: its tables, its closing line, and the reports for CI."""

from __future__ import annotations

import os
import re
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ...datasets.errors import InputError
from ..runs.markdown_table import markdown_of
from ..runs.output_folder import write_file
from ..runs.tables import ResultTable
from .differences import ASPECTS, Difference, make_difference_table


@dataclass(frozen=True)
class Checked:
    """The outcome of a check.

    Attributes:
        path: the baseline.
        differences: in the order of the table.
        metrics: what was checked, and of which dataset.
        summary: a closing line.
        updated: whether the baseline was written instead of held against.
        junit: where the report goes.
        aspects: what was compared, of `ASPECTS`.
        failed: those of `metrics` that raised an error instead.
    """

    path: Path
    dataset: str
    metrics: tuple[str, ...]
    differences: tuple[Difference, ...]
    summary: str
    updated: bool = False
    junit: Path | None = None
    aspects: tuple[str, ...] = ASPECTS
    failed: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The exit status: 1 where something fails."""
        failing = [difference for difference in self.differences if difference.fails]
        return 1 if failing and not self.updated else 0

    @property
    def tables(self) -> list[ResultTable]:
        """The table of differences, where there are any."""
        if not self.differences:
            return []
        title = f"Differences from the baseline {self.path}"
        columns = ("baseline", "now")

        return [make_difference_table(title, self.differences, self.metrics, columns)]

    def markdown(self) -> str:
        """The table and the closing line, for GitHub's step summary."""
        return "\n\n".join(["### captau check", *map(markdown_of, self.tables), self.summary, ""])

    def xml(self) -> bytes:
        """A JUnit report: a case for the data, the versions, and each part of each metric."""
        suite = ElementTree.Element("testsuite", name=f"captau check {self.path}")
        of_all = [part for part in self.aspects if part in ASPECTS[:2]]
        of_metrics = [part for part in self.aspects if part not in of_all]
        cases = [(part, part, "") for part in of_all]
        for metric in self.metrics:
            # What raised an error has scores alone that fail; there is nothing else to compare.
            parts = ["scores"] if metric in self.failed else of_metrics
            cases += [(f"{metric}: {part}", part, metric) for part in parts]

        failures = 0
        for name, part, metric in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"captau.{_legal(self.dataset)}", name=_legal(name)
            )
            failing: list[Difference] = []
            for difference in self.differences:
                is_of_case = difference.part == part and (
                    not metric or metric in difference.metrics
                )
                if is_of_case and difference.fails:
                    failing.append(difference)
            if failing and not self.updated:
                failures += 1
                lines = [_legal(_line(d)) for d in failing]
                failure = ElementTree.SubElement(case, "failure", message=lines[0])
                failure.text = "\n".join(lines)

        suite.set("tests", str(len(cases)))
        suite.set("failures", str(failures))

        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"

    def report(self) -> None:
        """Write the JUnit report, and add to GitHub's step summary, where there are such.

        Raises:
            InputError: where they cannot be written.
        """
        if self.junit is not None:
            write_file(self.junit, self.xml())
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with Path(summary).open("a", encoding="utf-8", errors="replace") as stream:
                    stream.write(self.markdown())
            except OSError as error:
                raise InputError(
                    f"GITHUB_STEP_SUMMARY={summary}: cannot be written ({error.strerror})"
                ) from error


def _line(difference: Difference) -> str:
    change = f", by {difference.change}" if difference.change else ""
    cause = f" ({difference.cause})" if difference.cause else ""
    return f"{difference.subject}: {difference.before} → {difference.now}{change}{cause}"


def _legal(text: str) -> str:
    """A text without the characters that XML has no word for."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def count_metrics(metrics: Sized) -> str:
    """Return how many metrics there are, in words for people."""
    return "one metric" if len(metrics) == 1 else f"{len(metrics)} metrics"
