"""The web application of a challenge site."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ...web.application import MAX_BODY_BYTES, build_application
from ..site import Site
from . import account_pages, admin_pages, challenge_pages, json_api, submission_pages

#: The groups of pages; the first route that matches an address answers.
_GROUPS = (
    json_api,
    challenge_pages,
    submission_pages,
    account_pages,
    admin_pages,
)


def make_app(site: Site) -> FastAPI:
    """Return the application; at its end it ends the workers and closes the database."""

    @asynccontextmanager
    async def run_workers(app: FastAPI) -> AsyncGenerator[None]:
        if site.workers is not None:
            site.workers.start()
        yield
        if site.workers is not None:
            site.workers.stop()
        site.store.database.close()

    routers = [group.router for group in _GROUPS]
    return build_application(
        site, routers, run_workers, body_limit=body_limits(site), title=site.title
    )


def body_limits(site: Site) -> Callable[[str], int]:
    """Return a function from a path to the most bytes of a body: more where files are submitted."""
    limits: dict[str, int] = {}
    for challenge in site.challenges.values():
        # A form has fields beside the file.
        limit = (challenge.limits.megabytes << 20) + MAX_BODY_BYTES
        for prefix in ("api/challenges", "challenges"):
            limits[f"{site.base}/{prefix}/{challenge.name}/submissions"] = limit

    return lambda path: limits.get(path, MAX_BODY_BYTES)
