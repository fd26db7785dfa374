"""Weight files: safetensors with a card of texts, read into modules that they must fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....datasets.cache import replacing
from ....datasets.errors import InputError
from ...neural.models import check_file


def save_tensors(path: Path, tensors: dict[str, Any], card: dict[str, str]) -> None:
    """Write tensors and a card of texts, whole or not at all."""
    from safetensors.torch import save

    cpu_tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)

    # The card is one entry: safetensors writes several in any order, and equal raters must be equal files.
    with replacing(path) as stream:
        stream.write(save(cpu_tensors, {"card": json.dumps(card, sort_keys=True)}))


def load_tensors(
    path: Path, card_keys: Sequence[str] = (), *, file_format: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read the tensors and the card that `save_tensors` wrote.

    Args:
        card_keys: entries that the card must have.
        file_format: what its entry `format` must be; empty where it has none.

    Raises:
        InputError: if the file is missing, damaged or of another format, or its card lacks an entry.
    """
    check_file(path)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            card = parse_card(file.metadata())
            if file_format and card.get("format") != file_format:
                raise InputError(
                    f"{path}: a rater of another version of captau (format {card.get('format', 'unknown')}, here "
                    f"{file_format}); train it again with captau train, or use the version that trained it"
                )
            if missing := [key for key in card_keys if key not in card]:
                raise InputError(
                    f"{path}: its metadata lack {missing[0]}; train it again or get a new copy"
                )
            # The handle is no dictionary: it cannot be iterated but by `keys`.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, card
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: not a safetensors file, or damaged; train it again or get a new copy"
        ) from error


def parse_card(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return the card in a file's metadata; empty if another program wrote the file."""
    try:
        card = json.loads((metadata or {}).get("card", "{}"))
    except ValueError:
        return {}
    return card if isinstance(card, dict) else {}
