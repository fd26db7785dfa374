"""Options of commands that Python calls with arguments instead of typed keys; `captau.bench` and `captau.rank` read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ...metrics.base import Metric
from ..scoring.catalog import resolve_metrics, usual_protocol
from ..scoring.locations import OWN, Locations
from ..scoring.protocol import Protocol
from .shared import changes_of, names_of


def measuring_arguments(
    dataset: str | CaptionSet | Sequence[str | CaptionSet],
    metrics: str | Metric | Sequence[str | Metric],
    *,
    protocol: str | Mapping[str, Any] | None,
    data_root: str | Path | None,
    cache_root: str | Path | None,
    output_dir: str | Path | None,
    file: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the fields of `MeasuringOptions` for the arguments that `captau.bench` explains.

    Raises:
        InputError: on an unknown name, or an argument of another kind.
    """
    entries = list(dataset) if isinstance(dataset, list | tuple) else [dataset]
    loaded = {entry.card.name: entry for entry in entries if isinstance(entry, CaptionSet)}
    named = [e.card.name if isinstance(e, CaptionSet) else e for e in entries]
    datasets = names_of(named if loaded else dataset)
    changes = changes_of(protocol)
    chosen_metrics = resolve_metrics(metrics)
    if file is not None and not isinstance(file, Mapping):
        raise InputError(f"file is {file!r}; a dict of options is expected")
    return {
        "datasets": {
            name: Protocol.resolve(name, usual_protocol(OWN if name in loaded else name), changes)
            for name in datasets
        },
        "metrics": chosen_metrics,
        "locations": Locations(
            data_root=Path(data_root) if data_root else None,
            cache_root=Path(cache_root) if cache_root else None,
            output_dir=Path(output_dir) if output_dir else None,
            file_options=dict(file or {}),
            loaded=loaded,
        ),
        "configuration": {
            "dataset": datasets,
            "metrics": [m.spec for m in chosen_metrics],
            "protocol": changes,
            "data": {"root": data_root},
            "cache": {"root": cache_root},
            "output_dir": output_dir,
            "file": dict(file or {}),
        },
    }
