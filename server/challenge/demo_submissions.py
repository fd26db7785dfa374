"""Three example submissions to each demo challenge, so that no leaderboard is empty at first sight."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from ...datasets.registry import load
from ...metrics.registry import metric
from ..web.errors import RefusedError
from .site import Site
from .uploads import store_upload, submit_upload

#: The systems of the dataset `demo` that are submitted, from good to poor.
DEMO_SYSTEMS = ("exact", "wrong_colour", "unrelated")
#: The metrics whose scores are submitted.
DEMO_METRICS = ("rouge_l", "cider", "bleu_1")


async def add_demo_submissions(site: Site) -> None:
    """Submit the captions of `DEMO_SYSTEMS` and the scores of `DEMO_METRICS`, each as a team of its own.

    Nothing is submitted where an earlier start did so.
    """
    for number, (challenge_name, name, rows) in enumerate(_submissions(), 1):
        password = secrets.token_urlsafe(24)  # nobody signs in to these accounts
        try:
            member, _ = await site.accounts.sign_up(f"Example {number}", password, password, "", "")
        except RefusedError:
            return
        challenge = site.store.get_challenge(challenge_name)
        body = _in_one_piece("\n".join(map(json.dumps, rows)).encode())
        upload = await store_upload(site.store, challenge, f"{name}.jsonl", body)
        await submit_upload(site.store, challenge, member, upload, name, "")


def _submissions() -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the challenge, the name and the rows of each submission."""
    items = load("demo").items
    rows: Any
    for system in DEMO_SYSTEMS:
        rows = items[items["system"] == system][["image_id", "caption"]]
        yield "demo_captions", system, rows.to_dict("records")
    for name in DEMO_METRICS:
        rows = items[["item_id"]].assign(score=metric(name).score(items))
        yield "demo_metrics", name, rows.to_dict("records")


async def _in_one_piece(content: bytes) -> AsyncGenerator[bytes]:
    yield content
