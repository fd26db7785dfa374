"""Three example systems of the demo challenge of captions, so that its leaderboard is not empty at first sight."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator

from ...datasets.registry import load
from ..web.errors import RefusedError
from .site import Site
from .uploads import store_upload, submit_upload

#: The systems of the dataset `demo` that are submitted, from good to poor.
DEMO_SYSTEMS = ("exact", "wrong_colour", "unrelated")
_CHALLENGE = "demo_captions"


async def add_demo_submissions(site: Site) -> None:
    """Submit the captions of `DEMO_SYSTEMS`, each as a team of its own, unless an earlier start did."""
    challenge = site.store.get_challenge(_CHALLENGE)
    items = load("demo").items
    for number, system in enumerate(DEMO_SYSTEMS, 1):
        password = secrets.token_urlsafe(24)  # nobody signs in to these accounts
        try:
            member, _ = await site.accounts.sign_up(f"Example {number}", password, password, "", "")
        except RefusedError:
            return
        rows = items[items["system"] == system][["image_id", "caption"]]
        content = json.dumps(rows.to_dict("records")).encode()
        upload = await store_upload(site.store, challenge, f"{system}.json", _in_one_piece(content))
        await submit_upload(site.store, challenge, member, upload, system, "")


async def _in_one_piece(content: bytes) -> AsyncGenerator[bytes]:
    yield content
