"""Pages on which participants rate, see feedback and the board, and finish."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ...web.errors import NotFoundError
from ...web.forms import field_value, form_schema
from ...web.sessions import Session
from ..forms.errors import FormError, OutOfTurnError, TooEarlyError
from ..store.assignment import RESERVATION_SECONDS
from ..store.study_database import EndReason, Rater, ShownUnit
from .image_response import image_response
from .joining_pages import landing_page
from .path_types import Key
from .site import CurrentSite, StudySite

_FORM = form_schema("token", "key", "rating", "answer", "text")

router = APIRouter(default_response_class=Response)


@router.get("/rate")
async def show_unit(request: Request, site: CurrentSite) -> Response:
    """Show the unit to rate now."""
    session, rater_id = site.require_rater(request)
    try:
        shown_unit = await site.store.assignment.next_unit(rater_id)
    except NotFoundError:
        return landing_page(site, None)
    if isinstance(shown_unit, Rater):
        return site.redirect("/done")
    return _unit_page(site, session, shown_unit)


@router.post("/rate", openapi_extra=_FORM)
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
        if isinstance(shown_unit, Rater) or shown_unit.key != key:
            raise
        if isinstance(error, TooEarlyError):
            form = site.study.form
            fault = form.translate(TooEarlyError.MESSAGE, seconds=error.seconds_left)
            return _unit_page(site, session, shown_unit, 425, fault)
        return _unit_page(site, session, shown_unit, 400, str(error))
    if site.study.form.feedback_columns or recorded.differs:
        return site.redirect(f"/told/{key}{'?other=yes' if recorded.differs else ''}")
    return site.redirect("/rate")


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
    template = site.study.form.feedback_template
    return site.render(template, session, recorded=recorded, is_changed=bool(other))


@router.get("/image/{key}")
async def show_image(request: Request, key: Key, site: CurrentSite) -> Response:
    """Return an image that was shown to the participant."""
    _, rater_id = site.require_rater(request)
    return image_response((await site.store.assignment.find_unit(rater_id, key)).image)


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
    return site.render(
        site.study.form.template, session, status, shown_unit=shown_unit, fault=fault
    )
