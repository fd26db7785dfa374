"""Small run folders with made-up numbers, for tests of what is rendered of them."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pandas as pd

from captau.benchmarks.evaluation.judged_pairs import FLOORS
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.results import (
    FORMAT,
    RANK_COLUMNS,
    SCORE_COLUMNS,
    make_correlations,
    to_csv,
    to_parquet,
)
from captau.benchmarks.scoring.catalog import MetricStyle, metric_style, usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.rating_table import CEILINGS
from captau.datasets.registry import card
from captau.metrics.registry import metric
from tests.benchmarks.edited_runs import edited_record

NO_IMAGE = "needs images, and a.jpg:1 has none"
WHERE_LOOKED = "docs/neural.md says where they are looked for"
MISSING_IMAGE = f"missing: {NO_IMAGE}; {WHERE_LOOKED}"

#: Dataset, dimension, coefficient, metric, value, low, high, rank, note. The numbers are made up.
ROWS = [
    ("flickr8k_expert", "overall", "tau_c", "bleu_1", 0.3004, 0.28, 0.32, 2, ""),
    ("flickr8k_expert", "overall", "tau_c", "meteor", 0.41249, 0.39, 0.43, 1, ""),
    # As printed equal to METEOR's 41.2, though less.
    ("flickr8k_expert", "overall", "tau_c", "cider", 0.4118, 0.395, 0.431, 1, ""),
    ("flickr8k_expert", "overall", "tau_c", "umic", -0.05, -0.071, -0.02, 3, ""),
    ("flickr8k_expert", "overall", "tau_c", "Mine <b>|*50%_", 0.3996, 0.38, 0.42, 1, ""),
    (
        *("flickr8k_expert", "overall", "tau_c", "clipscore", None, None, None, None),
        MISSING_IMAGE,
    ),
    ("flickr8k_expert", "overall", "tau_c", "floor_random", -0.0004, -0.02, 0.02, None, "by lot"),
    ("flickr8k_expert", "overall", "tau_c", "ceiling_oracle", 0.7, 0.68, 0.72, None, "the mean"),
    ("flickr8k_expert", "overall", "tau_b", "bleu_1", 0.31, 0.29, 0.33, 2, ""),
    ("flickr8k_expert", "overall", "tau_b", "meteor", 0.40, 0.38, 0.42, 1, ""),
    ("flickr8k_expert", "overall", "tau_b", "cider", 0.42, 0.40, 0.44, 1, ""),
    (
        *("flickr8k_expert", "overall", "tau_b", "umic", None, None, None, None),
        "undefined: all scores are equal",
    ),
    ("flickr8k_expert", "overall", "tau_b", "Mine <b>|*50%_", 0.39, 0.37, 0.41, 1, ""),
    ("flickr8k_expert", "overall", "tau_b", "floor_random", 0.001, -0.02, 0.02, None, "by lot"),
    ("flickr8k_expert", "overall", "tau_b", "ceiling_oracle", 0.8, 0.78, 0.82, None, "the mean"),
    ("thumb", "precision", "pearson", "bleu_1", 0.2, None, None, None, ""),
    ("thumb", "precision", "pearson", "cider", 0.3, None, None, None, ""),
    ("thumb", "total", "pearson", "bleu_1", 0.25, None, None, None, ""),
    ("thumb", "total", "pearson", "cider", 0.35, None, None, None, ""),
]


def made_results(
    rows: list[tuple[Any, ...]] | None = None,
    *,
    protocol: dict[str, Any] | None = None,
    statistics: dict[str, Any] | None = None,
    revision: str = "0123456789abcdef",
    **record: Any,
) -> Results:
    """Results that look like those of `captau bench`.

    Args:
        rows: as `ROWS`.
        protocol: what differs from each dataset's usual one.
        statistics: what differs from the usual ones.
        revision: that of the datasets.
        record: what differs in run.json.
    """
    rows = ROWS if rows is None else rows
    datasets = list(dict.fromkeys(row[0] for row in rows))
    protocols = {
        name: Protocol.resolve(name, usual_protocol(name), protocol or {}) for name in datasets
    }
    specs = [s for s in dict.fromkeys(row[3] for row in rows) if s not in {**FLOORS, **CEILINGS}]
    given = [s for s in specs if s.startswith("Mine")]
    correlations = make_correlations(
        {
            "dataset": dataset,
            "protocol": protocols[dataset].name,
            "dimension": dimension,
            "metric": spec,
            "coefficient": coefficient,
            "value": float("nan") if value is None else value,
            "n_items": 1234,
            "n_ratings": 3702,
            "ci_low": float("nan") if low is None else low,
            "ci_high": float("nan") if high is None else high,
            "p_value": 0.5,
            "note": note,
        }
        for dataset, dimension, coefficient, spec, value, low, high, _, note in rows
    )
    ranks = [
        (dataset, dimension, coefficient, spec, rank)
        for dataset, dimension, coefficient, spec, *_, rank, _ in rows
        if rank is not None
    ]
    run = {
        "command": "bench",
        "config": {
            "statistics": {"interval": "percentile", "replicates": 500, **(statistics or {})}
        },
        "protocols": {name: vars(one) for name, one in protocols.items()},
        "signatures": {spec: f"{spec}|backend:made|made:1" for spec in specs},
        "metrics": {
            spec: dataclasses.asdict(
                MetricStyle(spec, 900, 1, 3, "", "given", True, "")
                if spec in given
                else metric_style(metric(spec))
            )
            for spec in specs
        },
        "floors": FLOORS,
        "ceilings": CEILINGS,
        "missing": {
            row[0]: {row[3]: {"problem": NO_IMAGE, "remedy": WHERE_LOOKED}}
            for row in rows
            if row[-1] == MISSING_IMAGE
        },
        "data": {
            name: {
                "revision": revision,
                "title": card(name).title,
                "synthetic": card(name).synthetic,
                "citation": card(name).citation,
                "digest": f"digest of {name}",
            }
            for name in datasets
        },
        "format": FORMAT,
        "versions": {"captau": "1.2.3", "numpy": "2.0.0", "scipy": "1.13.0"},
        **record,
    }
    return Results(
        {
            "correlations.csv": correlations,
            "scores.parquet": pd.DataFrame(columns=pd.Index(SCORE_COLUMNS)),
            "ranks.csv": pd.DataFrame(ranks, columns=pd.Index(RANK_COLUMNS)),
        },
        run,
    )


def made_run(folder: Path, rows: list[tuple[Any, ...]] | None = None, **changes: Any) -> Path:
    """The files of `made_results` in a new folder."""
    folder.mkdir()
    for name, content in made_results(rows, **changes).files().items():
        (folder / name).write_bytes(content)
    return folder


def rewrite(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Put another table into a run's folder as if the run had written it."""
    content = to_parquet(frame) if name.endswith("parquet") else to_csv(frame)
    (folder / name).write_bytes(content)
    with edited_record(folder) as record:
        record["files"][name] = hashlib.sha256(content).hexdigest()
