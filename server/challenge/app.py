"""The web application of a site of challenges."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI

from .. import signin
from ..keeper import Keeper
from ..security import MOST_BYTES, Buckets, Guard
from ..web import Web, finish
from .challenges import Challenge, Limits
from .store import Store
from .worker import Workers


class Site(Web):
    """What every page of a site needs.

    Args:
        store: the challenges in their database.
        workers: who checks and evaluates; None where nobody does.
        title: of the site.
        outside: as of `Web`.

    Attributes:
        limits: what one address or account may ask for: of several challenges the most.
        requests: counts what an account, or an address without one, asks for.
        joins: counts new accounts of an address.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers | None = None,
        title: str = "",
        outside: tuple[str, bool, str] = ("", False, ""),
    ) -> None:
        every = [c.limits for c in store.challenges.values()]
        self.limits = Limits(
            joins=max(one.joins for one in every),
            logins=max(one.logins for one in every),
            requests=max(one.requests for one in every),
        )
        first = next(iter(store.challenges.values()))
        named = title or (first.title if len(every) == 1 else "Challenges")
        keeper = Keeper(store.database)
        shown = {"title": named, "challenges": store.challenges}
        super().__init__(
            "captau.server.challenge", keeper, store.secret, outside, self.limits.logins, shown
        )
        self.store, self.workers, self.title = store, workers, named
        self.joins = Buckets(self.limits.joins, self.limits.joins / 60)
        self.requests = Buckets(self.limits.requests * 3, self.limits.requests)

    @property
    def challenges(self) -> Mapping[str, Challenge]:
        """By name."""
        return self.store.challenges


def make_app(site: Site) -> FastAPI:
    """The application; it ends the workers and closes the database when it ends."""
    from . import api

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        del app
        if site.workers is not None:
            site.workers.start()
        yield
        if site.workers is not None:
            site.workers.stop()
        site.store.database.close()

    app = FastAPI(
        title=site.title,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
        root_path="",
        redirect_slashes=False,  # it would send people to whatever host their request named
    )
    app.include_router(api.routes(site), prefix=site.base)
    app.include_router(signin.routes(site), prefix=site.base)
    finish(app, site)
    app.add_middleware(Guard, secure=site.secure, most=most_bytes(site))
    return app


def most_bytes(site: Site) -> Callable[[str], int]:
    """The most bytes of a body, by path: where submissions go, what the challenge takes."""
    most = {
        f"{site.base}/{way}/{c.name}/submissions": (c.limits.megabytes << 20) + MOST_BYTES
        for c in site.challenges.values()
        for way in ("api/challenges", "challenges")
    }
    return lambda path: most.get(path, MOST_BYTES)
