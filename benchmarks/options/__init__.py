"""From Hydra's configuration to plain dataclasses, a module a command; nothing behind it knows Hydra."""

from __future__ import annotations

from ..scoring.catalog import (
    METRIC_KINDS,
    MetricStyle,
    bibliography,
    metrics_of,
    optional_of,
    read,
    style,
    usual_protocol,
)
from .agree import AgreeConfig, HumanConfig, agree_config, human_config
from .bench import BenchConfig, bench_config
from .check import CheckConfig, check_config
from .collect import collect_config, stability_config
from .common import Named, Where, changes_of, files_of, names_of, statistics_of
from .complement import ComplementConfig, complement_config
from .data import data_config, df_config
from .filter import FilterConfig, filter_config
from .gather import GatherConfig, gather_config
from .large import LargeConfig, is_large, large_config
from .report import CHARTS, ChartOptions, PlotConfig, ReportConfig, plot_config, report_config
from .reproduce import PaperTable, ReproduceConfig, reproduce_config
from .score import ScoreConfig, score_config
from .sensitivity import SensitivityConfig, sensitivity_config
from .table import STYLES, TableConfig, cite_config, table_config
from .thresholds import ThresholdsConfig, thresholds_config
from .train import TrainConfig, train_config
from .validate import ValidateConfig, validate_config

__all__ = [
    "CHARTS",
    "METRIC_KINDS",
    "STYLES",
    "AgreeConfig",
    "BenchConfig",
    "ChartOptions",
    "CheckConfig",
    "ComplementConfig",
    "FilterConfig",
    "GatherConfig",
    "HumanConfig",
    "LargeConfig",
    "MetricStyle",
    "Named",
    "PaperTable",
    "PlotConfig",
    "ReportConfig",
    "ReproduceConfig",
    "ScoreConfig",
    "SensitivityConfig",
    "TableConfig",
    "ThresholdsConfig",
    "TrainConfig",
    "ValidateConfig",
    "Where",
    "agree_config",
    "bench_config",
    "bibliography",
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
    "metrics_of",
    "names_of",
    "optional_of",
    "plot_config",
    "read",
    "report_config",
    "reproduce_config",
    "score_config",
    "sensitivity_config",
    "stability_config",
    "statistics_of",
    "style",
    "table_config",
    "thresholds_config",
    "train_config",
    "usual_protocol",
    "validate_config",
]
