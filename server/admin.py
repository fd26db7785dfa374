"""The pages of whoever runs the study: how it goes, who takes part, what was gathered."""

from __future__ import annotations

import asyncio
import hmac
import io
import time
import zipfile
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath

from ..datasets.errors import InputError
from .app import Site, StrangerError, TooManyError, address
from .export import files
from .pages import Number, form_of
from .protocols.base import one
from .quality import agreement, rated
from .security import PASSWORD_LENGTH, Session, hash_password, right_password
from .store import COUNTED, MissingError, RefusedError

_FORM = form_of("token", "password", "again", "code", "why", "note", "many")
#: For how long measured agreement is shown before it is measured again, in seconds.
_FRESH = 30.0


def routes(site: Site) -> APIRouter:
    """The admin's routes."""
    router = APIRouter(prefix="/admin", default_response_class=Response)
    store, study = site.store, site.study
    measured: dict[str, Any] = {"at": -_FRESH, "found": {}}
    measuring = asyncio.Lock()

    def admin(request: Request) -> Session:
        session = site.session(request, admin=True)
        if session is None or not session.rater:
            raise StrangerError("/admin/login")
        return session

    def asking(request: Request) -> Session:
        """A session to sign in by, which is not signed in yet."""
        found = site.session(request, admin=True)
        return found if found and not found.rater else Session.new(admin=True)

    async def take(request: Request) -> dict[str, list[str]]:
        return dict(await site.form(request, admin(request)))

    @router.get("/login")
    async def login(request: Request) -> Response:
        """The password is asked for."""
        session = asking(request)
        ready = await store.password() is not None
        return site.set(
            site.page("login.html", session, fault="", ready=ready, setup="", length=0), session
        )

    @router.post("/login", openapi_extra=_FORM)
    async def sign_in(request: Request) -> Response:
        """Sign in."""
        session = asking(request)
        fields = await site.form(request, session)
        if not site.logins.take(address(request)):
            raise TooManyError
        hashed = await store.password()
        password = one(fields, "password")[:200]
        right = hashed is not None and await asyncio.to_thread(right_password, hashed, password)
        if not right:
            fault = "That is not the password."
            return site.page(
                "login.html", session, 403, fault=fault, ready=True, setup="", length=0
            )
        return site.set(site.to("/admin"), Session.new(1, admin=True, epoch=store.epoch))

    @router.get("/setup")
    async def setup(request: Request, code: str = "") -> Response:
        """The first password is chosen, by whoever has the link that the server printed."""
        if not site.logins.take(address(request)):
            raise TooManyError
        if not _same(code, site.setup) or await store.password() is not None:
            raise MissingError
        session = asking(request)
        page = site.page(
            "login.html", session, fault="", ready=True, setup=code, length=PASSWORD_LENGTH
        )
        return site.set(page, session)

    @router.post("/setup", openapi_extra=_FORM)
    async def choose(request: Request) -> Response:
        """The first password is set."""
        session = asking(request)
        fields = await site.form(request, session)
        if not site.logins.take(address(request)):
            raise TooManyError
        code = one(fields, "code")
        if not _same(code, site.setup):
            raise MissingError
        password = one(fields, "password")
        fault = ""
        if not PASSWORD_LENGTH <= len(password) <= 200:
            fault = f"Take at least {PASSWORD_LENGTH} characters."
        elif password != one(fields, "again"):
            fault = "The two are not the same."
        if fault:
            return site.page(
                "login.html", session, 400, fault=fault, ready=True, setup=code, length=10
            )
        hashed = await asyncio.to_thread(hash_password, password)
        if not await asyncio.to_thread(store.set_password, hashed, replace=False):
            raise MissingError
        return site.set(site.to("/admin"), Session.new(1, admin=True, epoch=store.epoch))

    @router.post("/logout", openapi_extra=_FORM)
    async def sign_out(request: Request) -> Response:
        """Sign out, wherever else somebody is signed in too."""
        await take(request)
        await asyncio.to_thread(store.sign_out)
        return site.set(site.to("/admin/login"), Session.new(admin=True))

    @router.get("")
    async def dashboard(request: Request) -> Response:
        """How the study goes."""
        session = admin(request)
        rows = await store.everything()
        async with measuring:
            if time.monotonic() - measured["at"] > _FRESH:
                measured["found"] = await asyncio.to_thread(agreement, store, rows)
                measured["at"] = time.monotonic()
        figures = await asyncio.to_thread(rated, store, rows)
        out = {r["id"] for r in rows["raters"] if r["excluded_at"] is not None}
        given = Counter(u["given"] for u in rows["units"] if u["pool"] == "main")
        return site.page(
            "admin.html",
            session,
            raters=rows["raters"],
            figures=figures,
            code=store.code,
            out=out,
            agreement=measured["found"],
            given=sorted(given.items()),
            done=sum(min(n, study.ratings) * m for n, m in given.items()),
            wanted=study.ratings * sum(given.values()),
            over_time=_over_time(rows["answers"]),
            events=rows["events"][-50:][::-1],
            invitations=rows["invitations"],
            when=_when,
        )

    @router.post("/raters/{number}/{act}", openapi_extra=_FORM)
    async def act(
        request: Request,
        number: Number,
        act: Annotated[str, InPath(pattern="^(exclude|include|delete)$")],
    ) -> Response:
        """Leave a participant out, take them in again, or delete them."""
        fields = await take(request)
        why = one(fields, "why")[:500]
        if not why:
            raise RefusedError("Say why; it is written down.")
        if act == "delete":
            if one(fields, "sure") != "yes":
                raise RefusedError("Tick the box: what is deleted does not come back.")
            await store.delete(number, why)
        else:
            await store.exclude(number, why, out=act == "exclude")
        measured["at"] = -_FRESH
        return site.to("/admin")

    @router.post("/invitations", openapi_extra=_FORM)
    async def invite(request: Request) -> Response:
        """New invitation links, shown once: the database keeps their hashes alone."""
        session = admin(request)
        fields = await site.form(request, session)
        many = one(fields, "many") or "1"
        if study.participants != "invitation":
            raise RefusedError(f"This study is {study.participants}; it has no invitations.")
        if not many.isascii() or not many.isdecimal() or not 1 <= int(many[:6]) <= 500:
            raise RefusedError("From 1 to 500 invitations at a time.")
        tokens = await store.invite(one(fields, "note")[:200], int(many))
        origin = site.origin or f"{request.url.scheme}://{request.url.netloc}"
        links = [f"{origin}{site.base}/i/{token}" for token in tokens]
        return site.page("invitations.html", session, links=links)

    @router.get("/export/{form}")
    async def export(request: Request, form: Annotated[str, InPath(max_length=20)]) -> Response:
        """What was gathered, as a zip archive."""
        admin(request)
        rows = await store.everything()
        try:
            found = await asyncio.to_thread(files, store, rows, form)
        except InputError as error:
            raise MissingError from error
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in found.items():
                packed.writestr(name, content)
        name = f"{study.name}-{form}.zip".encode("ascii", "replace").decode().replace("?", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(archive.getvalue(), media_type="application/zip", headers=headers)

    return router


def _same(one_: str, other: str) -> bool:
    return hmac.compare_digest(one_.encode("utf-8", "replace"), other.encode())


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _over_time(answers: list[dict[str, Any]], most: int = 48) -> list[tuple[str, int]]:
    """How many answers that count came in, by equal spans of time: their beginnings and counts."""
    times = [a["at"] for a in answers if a["phase"] in COUNTED]
    if not times:
        return []
    first, last = min(times), max(times)
    span = next(
        (
            s
            for s in (60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400)
            if (last - first) / s < most
        ),
        30 * 86_400,
    )
    start = int(first // span)
    counts = Counter(int(t // span) - start for t in times)
    return [(_when((start + k) * span), counts[k]) for k in range(max(counts) + 1)]
