"""The pages of participants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse
from PIL import Image

from ..person_names import NAME_RULE, collapse_blanks, is_valid_name
from ..web.errors import NotFoundError, RefusedError, TooManyRequestsError
from ..web.forms import RowNumber, client_address, field_value, form_schema
from ..web.sessions import Session
from . import game
from .app import Site
from .protocols.base import FormError
from .store import KEPT, Rater, Shown
from .studies import IMAGE_KINDS

Key = Annotated[str, InPath(pattern=r"^[\w-]{1,64}$")]


_FORM = form_schema("token", "key", "rating", "answer", "text", "nickname", "worker")


def routes(site: Site) -> APIRouter:
    """The participants' routes."""
    router = APIRouter(default_response_class=Response)
    store, study = site.store, site.study

    def landing(session: Session | None, status: int = 200, **values: Any) -> Response:
        session = session or Session.new()
        page = site.render(
            "landing.html",
            session,
            status,
            **{"fault": "", "worker": "", "invitation": "", "nickname": "", **values},
        )
        return site.set_session(page, session)

    def shown_page(session: Session, shown: Shown, status: int = 200, fault: str = "") -> Response:
        done = shown.rater.state["done"] if study.protocol == "game" else shown.rater.given
        return site.render(
            store.form.template, session, status, shown=shown, done=done, fault=fault
        )

    @router.get("/")
    async def start(request: Request) -> Response:
        """Who we are and what is asked; whoever joined goes on."""
        session = site.read_session(request)
        worker = request.query_params.get(study.parameter, "")[:200]
        if (
            session is not None
            and session.member is not None
            and await store.is_of(session.member, worker)
        ):
            return site.redirect("/rate")
        return landing(session if session and session.member is None else None, worker=worker)

    @router.get("/i/{token}")
    async def invitation(request: Request, token: Key) -> Response:
        """A personal link: to join by, and to come back by from another device."""
        if not site.joins.take(client_address(request)):
            raise TooManyRequestsError
        rater = await store.invited(token)
        if rater is not None:
            return site.set_session(site.redirect("/rate"), Session.new(rater))
        return landing(None, invitation=token)

    @router.post("/join", openapi_extra=_FORM)
    async def join(request: Request) -> Response:
        """Consent given, take part."""
        session = site.read_session(request)
        if session is not None and session.member is not None:
            return site.redirect("/rate")
        fields = await site.read_form(request, session)
        nickname, worker = (
            collapse_blanks(field_value(fields, "nickname")),
            field_value(fields, "worker")[:200],
        )
        token = field_value(fields, "invitation")[:64]
        asked = {"nickname": nickname[:64], "worker": worker, "invitation": token}
        if field_value(fields, "consent") != "yes":
            fault = "Tick the box to take part."
            return landing(session, 400, fault=fault, **asked)
        if nickname and not (study.nicknames and is_valid_name(nickname)):
            fault = f"A nickname has {NAME_RULE}."
            return landing(session, 400, fault=fault, **asked)
        if not site.joins.take(client_address(request)):
            raise TooManyRequestsError
        try:
            rater = await store.join(nickname, worker, token)
        except RefusedError as error:
            return landing(session, 400, fault=str(error), **asked)
        return site.set_session(site.redirect("/rate"), Session.new(rater))

    @router.get("/rate")
    async def rate(request: Request) -> Response:
        """What is to be answered now."""
        session, number = site.rater(request)
        try:
            shown = await store.next(number)
        except NotFoundError:
            return landing(None)
        if isinstance(shown, Rater):
            return site.redirect("/done")
        return shown_page(session, shown)

    @router.post("/rate", openapi_extra=_FORM)
    async def answer(request: Request) -> Response:
        """An answer to what was shown; the same one again changes nothing."""
        session, number = site.rater(request)
        fields = await site.read_form(request, session)
        key = field_value(fields, "key")
        try:
            n = await _captions(key, number)
            values = store.form.read(fields, n, study.min_words)
            answered = await store.answer(number, key, values)
        except (FormError, game.RefusedError) as error:
            shown = await store.next(number)
            if isinstance(shown, Rater) or shown.key != key:
                raise
            early = isinstance(error, game.TooEarlyError)
            return shown_page(session, shown, 425 if early else 400, str(error))
        if study.protocol == "game" or answered.differs:
            return site.redirect(f"/told/{key}{'?other=yes' if answered.differs else ''}")
        return site.redirect("/rate")

    async def _captions(key: str, number: int) -> int:
        if study.protocol != "four":
            return 1
        shown = await store.next(number)
        if not isinstance(shown, Rater) and shown.key == key:
            return len(shown.items)
        return len((await store.answered(number, key)).values)

    @router.get("/check")
    async def check(request: Request) -> JSONResponse:
        """What is wrong with an answer so far, or its total; nothing is recorded."""
        site.rater(request)
        fields: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            fields.setdefault(name, []).append(value)
        try:
            (value, *_) = store.form.read(fields, 1, study.min_words)
        except FormError as error:
            return JSONResponse({"said": str(error)})
        total = store.form.ratings(value).get("total")
        return JSONResponse({"said": "Ready." if total is None else f"Total: {total:g}"})

    @router.get("/told/{key}")
    async def told(request: Request, key: Key, other: str = "") -> Response:
        """How a rating compares with those before it; `other` where another had been sent."""
        session, number = site.rater(request)
        answered = await store.answered(number, key)
        return site.render(
            "told.html",
            session,
            answered=answered,
            other=bool(other),
            rater=answered.rater,
            rules=study.rules,
        )

    @router.get("/image/{key}")
    async def image(request: Request, key: Key) -> Response:
        """An image that was shown to whoever asks."""
        _, number = site.rater(request)
        return picture(await store.image(number, key))

    @router.get("/resolve")
    async def disagreements(request: Request) -> Response:
        """Two annotators' disagreements, to be talked over and settled."""
        session, number = site.rater(request)
        if study.protocol != "thumb":
            raise NotFoundError
        found = await store.disagreements(number)
        return site.render(
            "resolve.html", session, found=found, me=number, form=store.form, fault=""
        )

    @router.post("/resolve/{item}", openapi_extra=_FORM)
    async def settle(request: Request, item: RowNumber) -> Response:
        """What two annotators settled on."""
        session, number = site.rater(request)
        fields = await site.read_form(request, session)
        if study.protocol != "thumb":
            raise NotFoundError
        (value,) = store.form.read(fields, 1, study.min_words)
        await store.settle(number, item, value)
        return site.redirect("/resolve")

    @router.get("/resolve/{item}/image")
    async def settled_image(request: Request, item: RowNumber) -> Response:
        """The image of a caption that whoever asks has judged."""
        _, number = site.rater(request)
        return picture(await store.image_of(number, item))

    @router.get("/board")
    async def board(request: Request) -> Response:
        """The scores, under nicknames."""
        session, _ = site.rater(request)
        if not study.nicknames:
            raise NotFoundError
        return site.render("board.html", session, rows=await store.board())

    @router.get("/done")
    async def done(request: Request) -> Response:
        """Thanks, and the code for the crowd platform."""
        session, number = site.rater(request)
        shown = await store.next(number)
        if not isinstance(shown, Rater):
            return site.redirect("/rate")
        end = await store.end(shown)
        crowd = study.participants == "crowd" and end != "out" and shown.given
        code = store.completion(number) if crowd else ""
        return site.render(
            "done.html",
            session,
            code=code,
            rater=shown,
            end=end,
            rules=study.rules,
            kept=KEPT // 60,
        )

    @router.get("/health")
    async def health(check: Annotated[str, Query(max_length=20)] = "") -> Response:
        """Whether the database answers; for whoever watches over the server."""
        del check
        await site.admin_account.load_password_hash()
        return Response("ok\n", media_type="text/plain")

    return router


def picture(path: str) -> Response:
    """An image file; what it is, its content says.

    Raises:
        NotFoundError: where it is gone, or is no image any more.
    """
    try:
        with Image.open(path) as found:
            kind = IMAGE_KINDS[found.format or ""]
    except (OSError, KeyError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise NotFoundError from error
    headers = {"cache-control": "private, max-age=86400, immutable"}
    return FileResponse(Path(path), media_type=kind, headers=headers)
