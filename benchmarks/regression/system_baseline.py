"""Baselines of a captioning system: its captions and their scores, for `captau check candidates=NEW against=FILE`.

Every check scores the captions anew. So both systems are scored alike by any metric, those of the whole corpus included,
and the scores in the file tell whether a metric moved.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...datasets.errors import InputError
from ...datasets.reading.caption_files import CandidateFile, ReferenceFile
from ...datasets.reading.json_source import JsonSource
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.reading.yaml_model import YamlModel, validate
from ...metrics.base import Metric
from ...metrics.external import user_code_of
from ...metrics.registry import metric as metric_of
from ...metrics.registry import recipe_of
from ..runs.tables import format_number
from ..scoring.catalog import metric_style
from ..scoring.protocol import Protocol, sign
from .baseline_file import REMEDY, Number, check_format, moved, number, yaml_text
from .differences import Difference, cause_of, format_change, signature_changes_of

FORMAT = 1

#: The decimals of a score in the file.
_DECIMALS = 10

_HEAD = """\
# A captioning system's baseline: what `captau check candidates=NEW against=FILE` compares with; docs/ci_gate.md explains it.
# Review it like code. With update=true the command writes the new captions and their scores.
"""


@dataclass(frozen=True)
class BaselineScore:
    """A system's score in a baseline: the spec that makes the metric, its signature, and the score of all captions."""

    recipe: str | None
    signature: str
    value: float


class _ScoreFields(YamlModel):
    """A metric as a file has it."""

    made: str | None
    signature: str
    score: Number


class _SystemFields(YamlModel):
    """The keys of a system's baseline."""

    format: int
    references: str
    metrics: dict[str, _ScoreFields]
    captions: dict[str, str]


@dataclass(frozen=True)
class SystemBaseline:
    """The content of a system's baseline.

    Attributes:
        captions: the system's captions.
        references: `digest_references` of their references.
        scores: by the metrics' specs.
        document: the file that was read; None for a baseline that is made.
    """

    captions: CandidateFile
    references: str
    scores: Mapping[str, BaselineScore]
    document: YamlDocument | None = None

    @classmethod
    def make(
        cls,
        captions: CandidateFile,
        references: str,
        corpus: Mapping[str, float],
        metrics: Sequence[Metric],
        normalise: str,
    ) -> SystemBaseline:
        """Make a baseline of captions and their scores by spec; `normalise` is the text rule of both."""
        protocols = [Protocol(normalise=normalise)]
        scores: dict[str, BaselineScore] = {}
        for metric in metrics:
            signature = sign(metric, protocols)
            scores[metric.spec] = BaselineScore(recipe_of(metric), signature, corpus[metric.spec])

        return cls(captions, references, scores)

    @classmethod
    def read(cls, path: Path) -> SystemBaseline:
        """Read a baseline.

        Raises:
            InputError: where it cannot be read, is one of metrics, or holds something else; with the line.
        """
        document = YamlDocument.read(path, remedy=REMEDY)
        if isinstance(document.plain, dict) and "dataset" in document.plain:
            raise InputError(
                f"{path}: a baseline of metrics, which baseline={path} compares with; captions are compared with that "
                f"of a system, which captau check candidates=OLD.json against=system.yaml references=FILE update=true "
                f"writes"
            )
        check_format(document, FORMAT)
        entries = validate(document, _SystemFields)
        scores: dict[str, BaselineScore] = {}
        for spec, metric in entries.metrics.items():
            scores[spec] = BaselineScore(metric.made, metric.signature, metric.score)

        lines = {i: document.lines["captions", i] for i in entries.captions}
        candidates = CandidateFile(JsonSource(path), entries.captions, lines)
        return cls(candidates, entries.references, scores, document)

    def written(self) -> str:
        """Return the text of the file: the same for the same content."""
        lines = [f"format: {FORMAT}", f"references: {yaml_text(self.references, quoted=True)}"]

        lines.append("metrics:")
        for spec, score in self.scores.items():
            cells = [
                f"made: {'null' if score.recipe is None else yaml_text(score.recipe)}",
                f"signature: {yaml_text(score.signature)}",
                f"score: {number(score.value, _DECIMALS)}",
            ]
            lines.append(f"  {yaml_text(spec)}: {{{', '.join(cells)}}}")

        lines.append("captions:")
        for image_id, caption in self.captions.captions.items():
            key = yaml_text(image_id, quoted=True)
            lines.append(f"  {key}: {yaml_text(caption, quoted=True)}")

        return _HEAD + "\n".join(lines) + "\n"

    def make_metrics(self) -> tuple[Metric, ...]:
        """Make the metrics that the file holds scores of.

        Raises:
            InputError: where one cannot be made, or would run code or ask a judge that nobody named.
        """
        assert self.document is not None
        metrics: list[Metric] = []
        for spec, score in self.scores.items():
            keys = ("metrics", spec, "made")
            if score.recipe is None:
                raise self.document.error(keys, f"{spec} was made in Python; name metrics=…")
            try:
                metric = metric_of(score.recipe)
            except InputError as error:
                raise self.document.error(keys, str(error)) from error

            # A baseline may come from anywhere: what it names is run only if the user names it as well.
            if user_code_of(metric) or metric.name == "mllm_judge":
                raise InputError(
                    f"{self.document.file}:{self.document.lines[keys]}: {score.recipe} runs only if the command names it; if "
                    f"you trust it, name all metrics: {self._metrics_option()}"
                )

            metrics.append(metric)

        return tuple(metrics)

    def _metrics_option(self) -> str:
        """Return the option that names all metrics of the file, as a shell takes it."""
        words: list[str] = []
        for spec, score in self.scores.items():
            # What was made in Python has no recipe, and its error comes before this one.
            word = score.recipe or spec
            metric = metric_of(word)
            code = user_code_of(metric)
            if code and metric.spec == code.rpartition(":")[2]:
                word = code
            words.append(word)

        return shlex.quote(f"metrics={','.join(words)}")

    def compare(self, now: SystemBaseline, metrics: Sequence[Metric]) -> list[Difference]:
        """List the scores that moved by half of the last printed digit, and why, among those that both have."""
        lines: list[Difference] = []
        for metric in metrics:
            old = self.scores.get(metric.spec)
            if old is None:
                continue

            new = now.scores[metric.spec]
            style = metric_style(metric)
            half_digit = 10**-style.decimals / style.scale / 2
            if not moved(old.value, new.value, half_digit):
                continue

            cause = "other references"
            if self.references == now.references:
                changes = signature_changes_of(old.signature, new.signature)
                subject = "the function" if user_code_of(metric) else "captau"
                unsigned = f"neither references nor signature changed: the code of {subject} or of another package"
                cause = cause_of(False, changes, {}, unsigned)

            line = Difference(
                part="scores",
                metrics=(metric.spec,),
                subject=f"{style.label} of the old captions",
                before=format_number(old.value, style.scale, style.decimals + 2),
                now=format_number(new.value, style.scale, style.decimals + 2),
                change=format_change(old.value * style.scale, new.value * style.scale),
                cause=cause,
            )
            lines.append(line)

        return lines


def is_baseline(path: Path) -> bool:
    """Tell by its name whether a file is a baseline: captions are JSON or a table, and runs are folders."""
    return path.suffix.lower() in (".yaml", ".yml") and not path.is_dir()


def digest_references(references: ReferenceFile | None, image_ids: Sequence[str]) -> str:
    """Return a hash of some images' references, in an order of the images' ids; empty without references."""
    if references is None:
        return ""

    texts = [[image_id, *references.texts[image_id]] for image_id in sorted(image_ids)]
    digest = hashlib.sha256(json.dumps(texts).encode())
    return digest.hexdigest()[:16]
