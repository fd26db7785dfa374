"""Options of `captau report` and `captau plot`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from ...datasets.errors import InputError, unknown
from .common import check_shares, path_of, plain_of

#: What is drawn, and what it shows.
CHARTS = {
    "forest": "Coefficients with intervals",
    "categories": "Accuracy by category of preferences",
    "significance": "Which metrics differ",
    "ratings": "How people rated",
    "agreement": "How well people agree, and the ceilings",
    "scores": "Scores against ratings",
    "correlations": "Metrics against one another",
    "precision_recall": "Filtering captions by a metric",
}


@dataclass(frozen=True)
class ChartOptions:
    """What charts can be told; `good` and `precision` as in `ThresholdsOptions`."""

    good: float = 0.5
    precision: float = 0.8

    def __post_init__(self) -> None:
        check_shares(self.good, self.precision)


@dataclass(frozen=True)
class ReportOptions:
    """What `captau report` does.

    Attributes:
        run: the run's folder.
        output: the page; None for `report.html` in that folder.
        images: a folder to look for pictures in.
        megabytes: how large the page may be, in 10⁶ bytes.
        options: of its charts.
    """

    run: Path
    output: Path | None = None
    images: Path | None = None
    megabytes: float = 3.0
    options: ChartOptions = field(default_factory=ChartOptions)

    def __post_init__(self) -> None:
        if not self.megabytes > 0:
            raise InputError(f"megabytes is {self.megabytes}; a number above 0 is expected")
        if self.images is not None and not self.images.is_dir():
            raise InputError(f"images={self.images} is no folder")


@dataclass(frozen=True)
class PlotOptions:
    """What `captau plot` does.

    Attributes:
        run: the run's folder.
        kinds: of `CHARTS`.
        output_dir: where to; None for `plots` in that folder.
        options: of the charts.
    """

    run: Path
    kinds: tuple[str, ...] = tuple(CHARTS)
    output_dir: Path | None = None
    options: ChartOptions = field(default_factory=ChartOptions)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in CHARTS:
                raise unknown("kind", kind, CHARTS)
        if not self.kinds:
            raise InputError(f"kind is empty; name one at least: {', '.join(CHARTS)}")


def report_config(config: DictConfig) -> ReportOptions:
    """From the composed configuration of `captau report`."""
    plain = plain_of(config)
    return ReportOptions(
        run=Path(plain["run"]).expanduser(),
        output=path_of(plain["output"]),
        images=path_of(plain["images"]),
        megabytes=plain["megabytes"],
        options=ChartOptions(plain["good"], plain["precision"]),
    )


def plot_config(config: DictConfig) -> PlotOptions:
    """From the composed configuration of `captau plot`."""
    plain = plain_of(config)
    kind = plain["kind"]
    chosen = list(CHARTS) if kind is None else kind if isinstance(kind, list) else [kind]
    return PlotOptions(
        run=Path(plain["run"]).expanduser(),
        kinds=tuple(dict.fromkeys(map(str, chosen))),
        output_dir=path_of(plain["output_dir"]),
        options=ChartOptions(plain["good"], plain["precision"]),
    )
