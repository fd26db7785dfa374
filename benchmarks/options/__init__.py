"""From Hydra's configuration to plain dataclasses, a module a command; nothing behind it knows Hydra."""

from __future__ import annotations

from .agree import AgreeOptions, HumanConfig, agree_config, human_config
from .bench import BenchOptions, bench_config
from .check import CheckOptions, check_config
from .collect import collect_config, stability_config
from .common import Named, changes_of, files_of, names_of, statistics_of
from .complement import ComplementOptions, complement_config
from .data import data_config, df_config
from .filter import FilterOptions, filter_config
from .gather import GatherOptions, gather_config
from .large import LargeOptions, is_large, large_config
from .report import CHARTS, ChartOptions, PlotOptions, ReportOptions, plot_config, report_config
from .reproduce import PaperTable, ReproduceOptions, reproduce_config
from .score import ScoreOptions, score_config
from .sensitivity import SensitivityOptions, sensitivity_config
from .table import STYLES, TableOptions, cite_config, table_config
from .thresholds import ThresholdsOptions, thresholds_config
from .train import TrainOptions, train_config
from .validate import ValidateOptions, validate_config

__all__ = [
    "CHARTS",
    "STYLES",
    "AgreeOptions",
    "BenchOptions",
    "ChartOptions",
    "CheckOptions",
    "ComplementOptions",
    "FilterOptions",
    "GatherOptions",
    "HumanConfig",
    "LargeOptions",
    "Named",
    "PaperTable",
    "PlotOptions",
    "ReportOptions",
    "ReproduceOptions",
    "ScoreOptions",
    "SensitivityOptions",
    "TableOptions",
    "ThresholdsOptions",
    "TrainOptions",
    "ValidateOptions",
    "agree_config",
    "bench_config",
    "changes_of",
    "check_config",
    "cite_config",
    "collect_config",
    "complement_config",
    "data_config",
    "df_config",
    "files_of",
    "filter_config",
    "gather_config",
    "human_config",
    "is_large",
    "large_config",
    "names_of",
    "plot_config",
    "report_config",
    "reproduce_config",
    "score_config",
    "sensitivity_config",
    "stability_config",
    "statistics_of",
    "table_config",
    "thresholds_config",
    "train_config",
    "validate_config",
]
