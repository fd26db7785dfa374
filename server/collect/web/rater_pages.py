"""Pages on which people join a study, rate, see feedback and the board, and finish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, JSONResponse
from PIL import Image

from ....datasets.caption_texts import collapse_blanks
from ...texts import NAME_RULE, is_valid_name
from ...web.errors import NotFoundError, RefusedError, TooManyRequestsError
from ...web.sessions import Session
from ...web.visitors import client_address, field_value, form_schema
from ..forms.course import OutOfTurnError, TooEarlyError
from ..forms.form import FormError
from ..items.item_pool import MEDIA_TYPES
from ..store.assignment import RESERVATION_SECONDS
from ..store.study_database import EndReason, Rater, ShownUnit
from .site import CurrentSite, Key, StudySite


def image_response(path: str) -> Response:
    """Return an image file; its content says its media type.

    Raises:
        NotFoundError: if it is gone, or no longer an image.
    """
    try:
        with Image.open(path) as image:
            media_type = MEDIA_TYPES[image.format or ""]
    except (OSError, KeyError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise NotFoundError from error

    headers = {"cache-control": "private, max-age=86400, immutable"}
    return FileResponse(Path(path), media_type=media_type, headers=headers)


_SIGNS_AROUND_LINKS = ".,;:!?()[]<>\"'"

_JOIN_FORM = form_schema("token", "consent", "nickname", "worker", "invitation")

router = APIRouter(default_response_class=Response)


def landing_page(
    site: StudySite, session: Session | None, status: int = 200, **variables: Any
) -> Response:
    """Render the page that introduces the study and asks for consent."""
    session = session or Session.new()
    defaults = {"fault": "", "worker": "", "invitation": "", "nickname": ""}

    page = site.render("landing.html", session, status, **{**defaults, **variables})
    return site.set_session(page, session)


@router.get("/")
async def show_landing(request: Request, site: CurrentSite) -> Response:
    """Introduce the study; participants go on to rate."""
    session = site.read_session(request)
    worker = request.query_params.get(site.study.worker_parameter, "")[:200]
    if (
        session is not None
        and session.member is not None
        and await site.store.participants.is_participant(session.member, worker)
    ):
        return site.redirect("/rate")

    return landing_page(site, site.unsigned_session(request), worker=worker)


@router.get("/i/{token}")
async def open_invitation(
    request: Request, token: Annotated[str, PathParameter(max_length=200)], site: CurrentSite
) -> Response:
    """Let the holder of a personal link join, or come back from another device."""
    if not site.join_limiter.take(client_address(request)):
        raise TooManyRequestsError
    # Programs for mail take the sign behind a link for a part of it.
    token = token.strip(_SIGNS_AROUND_LINKS)
    try:
        rater_id = await site.store.participants.find_invited(token)
    except NotFoundError:
        fault = "No invitation has this link. Open the whole link that you were sent."
        return landing_page(site, None, 404, fault=fault)

    if rater_id is not None:
        return site.set_session(site.redirect("/rate"), Session.new(rater_id))

    return landing_page(site, None, invitation=token)


@router.post("/join", openapi_extra=_JOIN_FORM)
async def join(request: Request, site: CurrentSite) -> Response:
    """Join the study."""
    session = site.read_session(request)
    if session is not None and session.member is not None:
        return site.redirect("/rate")

    fields = await site.read_form(request, session)
    nickname = collapse_blanks(field_value(fields, "nickname"))
    worker, token = field_value(fields, "worker")[:200], field_value(fields, "invitation")[:64]
    variables = {"nickname": nickname[:64], "worker": worker, "invitation": token}
    fault = ""
    if field_value(fields, "consent") != "yes":
        fault = "Tick the box to take part."
    elif nickname and not (site.study.nicknames and is_valid_name(nickname)):
        fault = f"A nickname has {NAME_RULE}."
    if fault:
        return landing_page(site, session, 400, fault=fault, **variables)
    if not site.join_limiter.take(client_address(request)):
        raise TooManyRequestsError

    try:
        # Forms that were refused above have not counted towards the limit.
        rater_id = await site.store.participants.join(nickname, worker, token)
    except RefusedError as error:
        return landing_page(site, session, 400, fault=str(error), **variables)

    return site.set_session(site.redirect("/rate"), Session.new(rater_id))


@router.get("/health")
async def check_health(
    site: CurrentSite, check: Annotated[str, Query(max_length=20)] = ""
) -> Response:
    """Answer if the database does; for monitoring."""
    await site.admin_account.load_password_hash()
    return Response("ok\n", media_type="text/plain")


_RATING_FORM = form_schema("token", "key", "rating", "answer", "text")


@router.get("/rate")
async def show_unit(request: Request, site: CurrentSite) -> Response:
    """Show the unit to rate now."""
    session, rater_id = site.require_rater(request)
    try:
        shown_unit = await site.store.assignment.next_unit(rater_id)
    except NotFoundError:
        # The participant was deleted since their session began.
        return landing_page(site, None)
    if isinstance(shown_unit, Rater):
        return site.redirect("/done")

    return _unit_page(site, session, shown_unit)


@router.post("/rate", openapi_extra=_RATING_FORM)
async def answer(request: Request, site: CurrentSite) -> Response:
    """Record an answer; the same one again changes nothing."""
    session, rater_id = site.require_rater(request)
    fields = await site.read_form(request, session)
    key = field_value(fields, "key")
    try:
        unit = await site.store.assignment.find_unit(rater_id, key)
        values = site.study.form.read_answer(fields, len(unit.items))
        recorded = await site.store.answers.record(rater_id, key, values)
    except (FormError, OutOfTurnError) as error:
        shown_unit = await site.store.assignment.next_unit(rater_id)
        # The answer belongs to a page that is not the one to show now.
        if isinstance(shown_unit, Rater) or shown_unit.key != key:
            raise
        if isinstance(error, TooEarlyError):
            form = site.study.form
            fault = form.translate(TooEarlyError.MESSAGE, seconds=error.seconds_left)
            return _unit_page(site, session, shown_unit, 425, fault)
        return _unit_page(site, session, shown_unit, 400, str(error))

    page = "/rate"
    if site.study.form.course.feedback_columns or recorded.differs:
        page = f"/told/{key}{'?other=yes' if recorded.differs else ''}"
    # The page's script goes there itself, so that it can stay where there is no connection.
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"page": f"{site.base}{page}"})

    return site.redirect(page)


@router.get("/check")
async def check_answer(request: Request, site: CurrentSite) -> JSONResponse:
    """Describe an answer that is being filled in, or say what it lacks; nothing is recorded."""
    site.require_rater(request)
    fields: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        fields.setdefault(name, []).append(value)

    try:
        return JSONResponse({"said": site.study.form.describe_fields(fields)})
    except FormError as error:
        return JSONResponse({"said": str(error)})


@router.get("/told/{key}")
async def show_feedback(request: Request, key: Key, site: CurrentSite, other: str = "") -> Response:
    """Show the feedback on an answer; `other` says that a different one was sent later."""
    session, rater_id = site.require_rater(request)
    recorded = await site.store.answers.find(rater_id, key)
    template = site.study.form.course.feedback_template
    return site.render(template, session, recorded=recorded, is_changed=bool(other))


@router.get("/image/{key}")
async def show_image(request: Request, key: Key, site: CurrentSite) -> Response:
    """Return an image that was shown to the participant."""
    _, rater_id = site.require_rater(request)
    unit = await site.store.assignment.find_unit(rater_id, key)
    return image_response(unit.image)


@router.get("/board")
async def show_scoreboard(request: Request, site: CurrentSite) -> Response:
    """Show the scores, under nicknames."""
    session, _ = site.require_rater(request)
    if not site.study.nicknames:
        raise NotFoundError
    rows = await site.store.participants.load_scoreboard()

    return site.render("scoreboard.html", session, rows=rows)


@router.get("/done")
async def show_end(request: Request, site: CurrentSite) -> Response:
    """Thank the participant, and show the code for the crowd platform."""
    session, rater_id = site.require_rater(request)
    rater = await site.store.assignment.next_unit(rater_id)
    if not isinstance(rater, Rater):
        return site.redirect("/rate")
    end_reason = await site.store.assignment.end_reason(rater)

    is_paid = site.study.participants == "crowd" and end_reason != EndReason.OUT and rater.n_answers

    return site.render(
        "end.html",
        session,
        completion_code=site.store.completion_code(rater_id) if is_paid else "",
        rater=rater,
        end_reason=end_reason,
        reservation_minutes=RESERVATION_SECONDS // 60,
    )


def _unit_page(
    site: StudySite, session: Session, shown_unit: ShownUnit, status: int = 200, fault: str = ""
) -> Response:
    variables = {"shown_unit": shown_unit, "fault": fault, "n_most": site.store.most_answers}
    return site.render(site.study.form.template, session, status, **variables)
