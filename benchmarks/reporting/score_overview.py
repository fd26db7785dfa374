"""The overview of a user's own captions on the report page: a verdict, and the table of corpus scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..evaluation.wording import CORRECTION_LABELS
from ..runs.tables import MISSING, ResultTable
from .scored_captions import ScoredCaptions


@dataclass(frozen=True)
class ScoreOverview:
    """The corpus scores of a user's own captions.

    Attributes:
        part: the captions.
    """

    part: ScoredCaptions

    def lead(self) -> str:
        """Describe how many captions were scored against what."""
        part = self.part
        n_images = int(part.corpus["n_images"].max())
        systems = f" of each of {len(part.systems)} systems" if len(part.systems) > 1 else ""
        against = (
            f", scored against the references {part.dataset}" if part.has_several_references else ""
        )
        return f"{n_images:,} captions{systems}{against}."

    def best_systems(self, metric: str) -> list[str]:
        """Return the system with the best score and those that share its rank, the best first."""
        part = self.part
        order = part.sort_systems(metric)
        ranks = part.ranks.get(metric, {})
        return [s for s in order if s == order[0] or ranks.get(s) == 1]

    def verdict(self) -> str:
        """Say in one sentence which system is best by the metric that agrees best with people."""
        part = self.part
        metric = part.leading_metric
        label = part.label(metric)
        agreement = part.describe_agreement(metric)
        trusted = f", which agrees best with people ({agreement})" if agreement else ""
        best = self.best_systems(metric)
        if not best:
            return f"{label} has no score of these captions."
        score = part.format_score(part.rows[best[0], metric]["score"], metric)
        if len(part.systems) == 1:
            return f"{best[0]} scores {score} by {label}{trusted}."
        sentence = f"By {label}{trusted}, {best[0]} is best ({score})"
        if metric not in part.ranks:
            sentence += "; its lead was not tested for significance"
        elif len(best) == 1:
            sentence += ", significantly ahead of every other system"
        else:
            sentence += f", but its lead over {' and '.join(best[1:])} is not significant"
        leaders = Counter(names[0] for m in part.metrics if (names := self.best_systems(m)))
        if len(part.metrics) > 1:
            sentence += f"; {leaders[best[0]]} of {len(part.metrics)} metrics put it first"
        return f"{sentence}."

    def table(self) -> tuple[ResultTable, set[tuple[int, int]]]:
        """Return metrics as rows and systems as columns; and which cells are the best or tied with it."""
        part = self.part
        has_agreement = any(part.describe_agreement(m) for m in part.metrics)
        rows: list[tuple[str, list[str]]] = []
        best: set[tuple[int, int]] = set()
        for row, metric in enumerate(part.metrics):
            cells = [self._cell(system, metric) for system in part.systems]
            cells += [part.describe_agreement(metric) or MISSING] if has_agreement else []
            rows.append((part.label(metric), cells))
            if len(part.systems) > 1:
                best |= {(row, part.systems.index(s)) for s in self.best_systems(metric)}
        notes: list[str] = []
        if best:
            tied = ""
            if part.ranks:
                correction = CORRECTION_LABELS[part.statistics.correction]
                tied = (
                    " and those that share its rank: they do not differ significantly (paired bootstrap over images, "
                    f"level {100 * (1 - part.statistics.level):g} %, {correction})"
                )
            notes.append(f"Bold: the best system of a row{tied}.")
        table = ResultTable(
            "Scores of all captions together",
            "metric",
            [*part.systems, *(["agreement with people"] if has_agreement else [])],
            rows,
            notes=[*notes, *part.run.run.get("notes", [])],
        )
        return table, best

    def _cell(self, system: str, metric: str) -> str:
        """Return a score with half the width of its interval."""
        row = self.part.rows[system, metric]
        score = self.part.format_score(row["score"], metric)
        half_width = self.part.format_score((row["ci_high"] - row["ci_low"]) / 2, metric)
        return score if half_width == MISSING else f"{score} ± {half_width}"
