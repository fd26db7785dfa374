"""Weights of raters: safetensors files, and modules that they must fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...neural.weights import check_file


def save_tensors(path: Path, tensors: dict[str, Any], card: dict[str, str]) -> None:
    """Write tensors and a card of texts, whole or not at all."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    # One entry: safetensors writes several in any order, and equal raters shall be equal files.
    with replacing(path) as stream:
        stream.write(save(plain, {"card": json.dumps(card, sort_keys=True)}))


def load_tensors(path: Path, wanted: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """What `save_tensors` wrote.

    Args:
        wanted: what the card must hold.

    Raises:
        InputError: where the file is missing or damaged, or its card lacks something.
    """
    check_file(path)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            card = card_of(file.metadata())
            if lacking := [k for k in wanted if k not in card]:
                raise InputError(f"{path}: its metadata lack {lacking[0]}; train or get it anew")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, card
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: no safetensors file, or damaged; train or get it anew"
        ) from error


def card_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The card in a file's metadata; empty where another program wrote the file."""
    try:
        card = json.loads((metadata or {}).get("card", "{}"))
    except ValueError:
        return {}
    return card if isinstance(card, dict) else {}


def fill(module: Any, path: Path, tensors: dict[str, Any]) -> None:
    """Put tensors into a module of just these.

    Raises:
        InputError: with the names and shapes that do not match.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [
        f"{name}: {given.get(name, 'missing')} where {wanted.get(name, 'none')} is expected"
        for name in sorted(wanted.keys() | given.keys())
        if wanted.get(name) != given.get(name)
    ]
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise InputError(
            f"{path}: the weights of another architecture: {'; '.join(wrong[:5])}{more}"
        )
    module.load_state_dict(tensors)
