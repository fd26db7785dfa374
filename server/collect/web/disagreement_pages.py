"""Pages on which annotators settle their disagreements, for forms that ask for it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ...web.errors import NotFoundError
from ...web.forms import RowNumber, form_schema
from .image_response import image_response
from .site import CurrentSite, StudySite

_FORM = form_schema("token", "precision", "recall")

router = APIRouter(prefix="/resolve", default_response_class=Response)


@router.get("")
async def show_disagreements(request: Request, site: CurrentSite) -> Response:
    """Show an annotator's disagreements with others."""
    session, rater_id = site.require_rater(request)
    _require_settling(site)
    disagreements = await site.store.disagreements.load_open(rater_id)
    return site.render(
        "disagreements.html", session, disagreements=disagreements, rater_id=rater_id
    )


@router.post("/{item}", openapi_extra=_FORM)
async def settle(request: Request, item: RowNumber, site: CurrentSite) -> Response:
    """Record the answer that annotators settled on."""
    session, rater_id = site.require_rater(request)
    fields = await site.read_form(request, session)
    _require_settling(site)
    (value,) = site.study.form.read_answer(fields, 1)
    await site.store.disagreements.settle(rater_id, item, value)
    return site.redirect("/resolve")


@router.get("/{item}/image")
async def show_image(request: Request, item: RowNumber, site: CurrentSite) -> Response:
    """Return the image of a caption that the annotator judged."""
    _, rater_id = site.require_rater(request)
    return image_response(await site.store.disagreements.find_image(rater_id, item))


def _require_settling(site: StudySite) -> None:
    if not site.study.form.settles_disagreements:
        raise NotFoundError
