"""Protocols, intervals and ranks in words, for tables, reports and citations."""

from __future__ import annotations

from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions


def interval_words(options: StatisticsOptions) -> str:
    """What an interval is."""
    how = "Fisher's formula, data points taken as independent"
    if options.uses_resampling:
        kind = {"percentile": "percentile", "bca": "BCa"}[options.interval]
        how = f"{kind} bootstrap over images, {options.replicates:,} replicates"
    return f"{100 * options.level:g} % interval ({how})"


def rank_words(options: StatisticsOptions) -> str:
    """What a rank is."""
    which = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}
    return (
        "a new one begins with the first metric that one of the rank before beats significantly "
        f"(paired bootstrap over images, level {100 * (1 - options.level):g} %, "
        f"{which[options.correction]})"
    )


def describe_protocol(protocol: Protocol) -> str:
    """A protocol in a line."""
    parts = [f"ratings {protocol.ratings}"] if protocol.dimension else []
    parts.append(f"references {protocol.references}" + (f" k={protocol.k}" if protocol.k else ""))
    parts.append(f"corpus {protocol.corpus}")
    if protocol.level != "pooled":
        parts.append(f"level {protocol.level}")
    if protocol.systems:
        parts.append(f"systems {', '.join(protocol.systems)}")
    if protocol.split:
        parts.append(f"split {protocol.split}")
    return ", ".join(parts)


def join_notes(*notes: str) -> str:
    return "; ".join(n for n in notes if n)
