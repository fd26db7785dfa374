"""The pages of whoever runs the study: how it goes, who takes part, what was gathered."""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath

from ...datasets.errors import InputError
from ..web.errors import NotFoundError, RefusedError
from ..web.forms import RowNumber, field_value, form_schema
from .app import Site
from .export import files
from .quality import agreement, rated
from .store import COUNTED

_FORM = form_schema("token", "password", "again", "code", "why", "note", "many")
#: For how long measured agreement is shown before it is measured again, in seconds.
_FRESH = 30.0


def routes(site: Site) -> APIRouter:
    """The admin's routes."""
    router = APIRouter(prefix="/admin", default_response_class=Response)
    store, study = site.store, site.study
    measured: dict[str, Any] = {"at": -_FRESH, "found": {}}
    measuring = asyncio.Lock()

    async def take(request: Request) -> dict[str, list[str]]:
        return dict(await site.read_form(request, site.require_admin(request)))

    @router.get("")
    async def dashboard(request: Request) -> Response:
        """How the study goes."""
        session = site.require_admin(request)
        rows = await store.everything()
        async with measuring:
            if time.monotonic() - measured["at"] > _FRESH:
                measured["found"] = await asyncio.to_thread(agreement, store, rows)
                measured["at"] = time.monotonic()
        figures = await asyncio.to_thread(rated, store, rows)
        out = {r["id"] for r in rows["raters"] if r["excluded_at"] is not None}
        given = Counter(u["given"] for u in rows["units"] if u["pool"] == "main")
        return site.render(
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
        number: RowNumber,
        act: Annotated[str, InPath(pattern="^(exclude|include|delete)$")],
    ) -> Response:
        """Leave a participant out, take them in again, or delete them."""
        fields = await take(request)
        why = field_value(fields, "why")[:500]
        if not why:
            raise RefusedError("Say why; it is written down.")
        if act == "delete":
            if field_value(fields, "sure") != "yes":
                raise RefusedError("Tick the box: what is deleted does not come back.")
            await store.delete(number, why)
        else:
            await store.exclude(number, why, out=act == "exclude")
        measured["at"] = -_FRESH
        return site.redirect("/admin")

    @router.post("/invitations", openapi_extra=_FORM)
    async def invite(request: Request) -> Response:
        """New invitation links, shown once: the database keeps their hashes alone."""
        session = site.require_admin(request)
        fields = await site.read_form(request, session)
        many = field_value(fields, "many") or "1"
        if study.participants != "invitation":
            raise RefusedError(f"This study is {study.participants}; it has no invitations.")
        if not many.isascii() or not many.isdecimal() or not 1 <= int(many[:6]) <= 500:
            raise RefusedError("From 1 to 500 invitations at a time.")
        tokens = await store.invite(field_value(fields, "note")[:200], int(many))
        origin = site.address.origin or f"{request.url.scheme}://{request.url.netloc}"
        links = [f"{origin}{site.base}/i/{token}" for token in tokens]
        return site.render("invitations.html", session, links=links)

    @router.get("/export/{form}")
    async def export(request: Request, form: Annotated[str, InPath(max_length=20)]) -> Response:
        """What was gathered, as a zip archive."""
        site.require_admin(request)
        rows = await store.everything()
        try:
            found = await asyncio.to_thread(files, store, rows, form)
        except InputError as error:
            raise NotFoundError from error
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in found.items():
                packed.writestr(name, content)
        name = f"{study.name}-{form}.zip".encode("ascii", "replace").decode().replace("?", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(archive.getvalue(), media_type="application/zip", headers=headers)

    return router


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
