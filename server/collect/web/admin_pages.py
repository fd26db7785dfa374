"""The admin's pages: progress, raters, invitations and exports."""

from __future__ import annotations

import asyncio
import io
import math
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Request, Response

from ....datasets.errors import InputError
from ...texts import format_time
from ...web.errors import NotFoundError, RefusedError
from ...web.site import visible_origin
from ...web.visitors import RowNumber, field_value, form_schema
from ..export import export_files
from ..forms.course import RaterProgress
from ..rater_figures import compute_rater_figures, excluded_raters
from ..store.study_database import TableRows
from .site import CurrentSite, StudySite

_FORM = form_schema("token", "why", "sure", "note", "many")
#: The most bars of the chart, and the spans of time that a bar may stand for, in seconds.
_MAX_BARS = 48
_SPANS = (60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)

router = APIRouter(prefix="/admin", default_response_class=Response)


@router.get("")
async def show_dashboard(request: Request, site: CurrentSite) -> Response:
    """Show how the study goes."""
    session = site.require_admin(request)
    store = site.store
    course = site.study.form.course
    rows = await store.load_all_rows()

    # Agreement and figures take a while; other visitors are served meanwhile.
    measures = await site.agreement.get(store, rows)
    agreement, undefined_measures = _split_measures(measures)
    figures = await asyncio.to_thread(compute_rater_figures, store, rows)

    unit_answers = _count_answers(site, rows)
    units_by_answers = Counter(answers.n_given for answers in unit_answers)
    form_cells: dict[int, dict[str, Any]] = {}
    for row in rows["raters"]:
        progress = RaterProgress(row["state"], row["points"])
        form_cells[row["id"]] = course.describe(progress)

    rated_items: set[int] = set()
    for number, (unit, item) in store.items_by_id().items():
        if unit.is_rated and store.form.is_counted(unit, item):
            rated_items.add(number)
    notes_by_rater: dict[int, str] = {}
    unused_notes: Counter[str] = Counter()
    for row in rows["invitations"]:
        if row["rater"] is None:
            unused_notes[row["note"]] += 1
        else:
            notes_by_rater[row["rater"]] = row["note"]

    times: list[float] = []
    for row in rows["answers"]:
        if row["item"] in rated_items:
            times.append(row["at"])

    return site.render(
        "dashboard.html",
        session,
        raters=rows["raters"],
        figures=figures,
        form_cells=form_cells,
        form_columns=list(course.describe(course.begin())),
        rater_code=store.rater_code,
        starts_with_ratings=store.starts_with_ratings,
        excluded=excluded_raters(rows),
        agreement=agreement,
        undefined_measures=undefined_measures,
        participants_link=_participants_link(site, request),
        units_by_answers=sorted(units_by_answers.items()),
        # More answers than a unit needs do not make up for those that others lack.
        n_done=sum(min(answers.n_given, answers.n_needed) for answers in unit_answers),
        n_needed=sum(answers.n_needed for answers in unit_answers),
        answers_over_time=_answers_over_time(times),
        events=rows["events"][-50:][::-1],
        n_invitations=len(rows["invitations"]),
        notes_by_rater=notes_by_rater,
        unused_notes=sorted(unused_notes.items()),
        format_time=format_time,
    )


class _UnitAnswers(NamedTuple):
    """The number of answers that a unit has got, and how many it needs."""

    n_given: int
    n_needed: int


def _count_answers(site: StudySite, rows: TableRows) -> list[_UnitAnswers]:
    """Return the numbers of answers of each unit that is assigned to raters."""
    counts: list[_UnitAnswers] = []
    for row in rows["units"]:
        if row["pool"] == "main":
            # Where raters check each other, a unit needs an answer for each stage.
            n_stages = len(site.store.units[row["id"]].stages)
            counts.append(_UnitAnswers(row["given"], n_stages or site.study.ratings))
    return counts


@router.post("/raters/{number}/{action}", openapi_extra=_FORM)
async def change_rater(
    request: Request,
    number: RowNumber,
    action: Annotated[str, Path(pattern="^(exclude|include|delete)$")],
    site: CurrentSite,
) -> Response:
    """Exclude a participant, include them again, or delete them."""
    fields = await site.read_form(request, site.require_admin(request))
    reason = field_value(fields, "why")[:500]
    if not reason:
        raise RefusedError("Give a reason; it is recorded.")
    participants = site.store.participants
    if action == "delete":
        if field_value(fields, "sure") != "yes":
            raise RefusedError("Tick the box; a deletion cannot be undone.")
        await participants.delete(number, reason)
    else:
        await participants.set_excluded(number, reason, excluded=action == "exclude")

    # The dashboard shows at once what the change did to the agreement.
    site.agreement.expire()
    return site.redirect("/admin")


@router.post("/invitations", openapi_extra=_FORM)
async def invite(request: Request, site: CurrentSite) -> Response:
    """Create invitation links and show them once: the database stores only their hashes."""
    session = site.require_admin(request)
    fields = await site.read_form(request, session)
    count = field_value(fields, "many") or "1"

    participants = site.study.participants
    if participants != "invitation":
        raise RefusedError(f"This study is {participants}; it has no invitations.")
    # Cut short, as Python reads no number of thousands of digits.
    if not count.isascii() or not count.isdecimal() or not 1 <= int(count[:6]) <= 500:
        raise RefusedError("You can make 1 to 500 invitations at a time.")
    note = _read_note(fields)

    names = site.study.annotator_names
    if names and (note not in names or count != "1"):
        raise RefusedError(f"One link each; its note is one of the names: {', '.join(names)}.")

    tokens = await site.store.participants.invite(note, int(count))

    origin = visible_origin(site.address, request)
    links = [f"{origin}{site.base}/i/{token}" for token in tokens]
    return site.render("invitations.html", session, links=links, note=note)


@router.post("/invitations/withdraw", openapi_extra=_FORM)
async def withdraw(request: Request, site: CurrentSite) -> Response:
    """Withdraw the invitations of a note that nobody has used."""
    fields = await site.read_form(request, site.require_admin(request))
    await site.store.participants.withdraw(_read_note(fields))
    return site.redirect("/admin")


def _read_note(fields: Mapping[str, Sequence[str]]) -> str:
    """Return the note of invitations, cut as the database keeps it."""
    return field_value(fields, "note")[:200]


@router.post("/starting-ratings", openapi_extra=_FORM)
async def compute_starting_ratings(request: Request, site: CurrentSite) -> Response:
    """Compute the ratings that units start with again, by the study's file as it is now."""
    await site.read_form(request, site.require_admin(request))
    if not site.store.starts_with_ratings:
        raise NotFoundError

    try:
        study = await asyncio.to_thread(site.read_again)
    except InputError as error:
        raise RefusedError(str(error)) from error

    await site.store.replace_starting_ratings(study)
    return site.redirect("/admin")


@router.get("/export/{export_format}")
async def export(
    request: Request, export_format: Annotated[str, Path(max_length=20)], site: CurrentSite
) -> Response:
    """Return the study's answers as a zip archive."""
    site.require_admin(request)
    rows = await site.store.load_all_rows()
    try:
        files = await asyncio.to_thread(export_files, site.store, rows, export_format)
    except InputError as error:
        raise NotFoundError from error

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for name, content in files.items():
            zip_file.writestr(name, content)

    # Headers take ASCII alone.
    name = f"{site.study.name}-{export_format}.zip".encode("ascii", "replace").decode()
    headers = {"content-disposition": f'attachment; filename="{name.replace("?", "_")}"'}
    return Response(archive.getvalue(), media_type="application/zip", headers=headers)


def _participants_link(site: StudySite, request: Request) -> str:
    """Return the address that whoever runs the study hands out; a crowd's has a place for the worker."""
    link = f"{visible_origin(site.address, request)}{site.base}/"
    if site.study.participants == "crowd":
        link += f"?{site.study.worker_parameter}=WORKER"
    return link


def _split_measures(
    measures: Mapping[str, tuple[float, str]],
) -> tuple[dict[str, tuple[float, str]], dict[str, list[str]]]:
    """Return the measures that have a value, with it and its note; and of the others the names by the reason."""
    defined: dict[str, tuple[float, str]] = {}
    undefined: dict[str, list[str]] = {}
    for name, (value, note) in measures.items():
        if math.isnan(value):
            undefined.setdefault(note.removeprefix("undefined: "), []).append(name)
        else:
            defined[name] = (value, note)

    return defined, undefined


def _answers_over_time(times: Sequence[float]) -> list[tuple[str, int]]:
    """Count the answers that came in, by equal spans of time; return each one's beginning and count."""
    if not times:
        return []

    first = min(times)
    last = max(times)
    span = _SPANS[-1]
    for candidate in _SPANS:
        if (last - first) / candidate < _MAX_BARS:
            span = candidate
            break

    # Spans without answers count nothing, and have their place all the same.
    start = int(first // span)
    counts = Counter(int(time // span) - start for time in times)
    return [(format_time((start + k) * span), counts[k]) for k in range(max(counts) + 1)]
