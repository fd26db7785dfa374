"""The pages of those who take part, and of whoever looks at a leaderboard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile

from ...person_names import collapse_blanks, name_key
from ...web.errors import NotFoundError, RefusedError, TooManyRequestsError
from ...web.forms import RowNumber, client_address, field_value, form_schema, local_path
from ...web.passwords import PASSWORD_LENGTH
from ...web.sessions import Session
from ..accounts.accounts import Member
from ..definition_file import Challenge
from ..intake.uploads import ENDINGS, receive, take
from ..leaderboard.board import ALPHA, Board
from ..submission_store import Account, Store, Submission
from .app import Site

Name = Annotated[str, InPath(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Key = Annotated[str, InPath(pattern=r"^[0-9a-f]{16}$")]

_SIGN = form_schema("token", "name", "password", "again", "team", "code", "to")
_TEAM = form_schema("token", "name", "code")
_ACCOUNT = form_schema("token", "old", "password", "again", "label")
_UPLOAD = {
    "requestBody": {
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        **{n: {"type": "string"} for n in ("token", "system", "note")},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            }
        }
    }
}
#: How many captions' scores a page shows; the file has all.
_ITEMS = 100


def routes(site: Site) -> APIRouter:
    """The routes of those who take part."""
    router = APIRouter(default_response_class=Response)
    store, records, people, views = site.store, site.records, site.accounts, site.views

    def signing(request: Request) -> Session:
        """A session to sign in by, which is not signed in yet."""
        found = site.read_session(request)
        return found if found and found.member is None else Session.new()

    def limited(request: Request, name: str) -> None:
        # By what accounts are looked up by, so that one account has one limit however it is spelt.
        if not site.sign_in_limiter.take(client_address(request)) or not site.names.take(
            name_key(collapse_blanks(name))
        ):
            raise TooManyRequestsError

    def begin(member: Member, response: Response) -> Response:
        return site.set_session(response, Session.new(member.id, epoch=member.epoch))

    # Challenges -------------------------------------------------------------------------------

    @router.get("/")
    async def landing(request: Request) -> Response:
        """What there is to take part in."""
        session, member = await site.onlooker(request)
        now = store.clock()
        listed = [
            {
                "one": one,
                "open": one.phase(now),
                "left": await records.left(one, member) if member else None,
                "state": await records.state(one),
            }
            for one in store.challenges.values()
        ]
        return site.show("challenges.html", session, member, listed=listed)

    @router.get("/challenges/{name}")
    async def challenge_page(request: Request, name: Name) -> Response:
        """What a challenge asks, when, and how to take part."""
        session, member = await site.onlooker(request)
        challenge = store.challenge(name)
        origin = site.address.origin or f"{request.url.scheme}://{request.url.netloc}"
        return site.show(
            "challenge.html",
            session,
            member,
            one=challenge,
            open=challenge.phase(store.clock()),
            left=await records.left(challenge, member) if member else None,
            state=await records.state(challenge),
            columns=views.columns[name],
            endings=ENDINGS[challenge.kind],
            url=f"{origin}{site.base}",
            here=f"/challenges/{name}",
        )

    @router.get("/challenges/{name}/submit")
    async def upload_page(request: Request, name: Name) -> Response:
        """A file is asked for."""
        session, member = await site.member(request)
        return await upload_form(session, member, store.challenge(name))

    async def upload_form(
        session: Session, member: Member, challenge: Challenge, fault: str = "", status: int = 200
    ) -> Response:
        return site.show(
            "submit.html",
            session,
            member,
            status,
            one=challenge,
            open=challenge.phase(store.clock()),
            left=await records.left(challenge, member),
            endings=ENDINGS[challenge.kind],
            fault=fault,
        )

    @router.post("/challenges/{name}/submissions", openapi_extra=_UPLOAD)
    async def upload(request: Request, name: Name) -> Response:
        """A submission; it is on the disk before it is acknowledged."""
        session, member = await site.member(request)
        challenge = store.challenge(name)
        fields, file = await site.read_form_and_file(request, session)
        try:
            if file is None or not file.filename:
                raise RefusedError("Choose a file.")
            sent = await take(store, challenge, file.filename, _pieces(file))
            system, note = field_value(fields, "system"), field_value(fields, "note")
            number = await receive(store, challenge, member, sent, system, note)
        except RefusedError as error:
            return await upload_form(session, member, challenge, str(error), 400)
        finally:
            if file is not None:
                await file.close()
        if site.workers is not None:
            await asyncio.to_thread(site.workers.wake, "check", number)
        return site.redirect(f"/submissions/{sent.key}")

    # Leaderboards -----------------------------------------------------------------------------

    @router.get("/challenges/{name}/board")
    async def board_page(request: Request, name: Name) -> Response:
        """The leaderboard, as its address says."""
        session, member = await site.onlooker(request)
        challenge = store.challenge(name)
        asked = views.asked(challenge, request.query_params)
        seen = await views.board(challenge, asked, member.team if member else None)
        return site.show(
            "leaderboard.html",
            session,
            member,
            one=challenge,
            asked=asked,
            seen=seen,
            board=seen.board,
            alpha=ALPHA,
            home=f"/challenges/{name}/board",
            here=f"/challenges/{name}/board?{asked.address()}",
        )

    @router.get("/challenges/{name}/board.{form}")
    async def board_file(
        request: Request, name: Name, form: Annotated[str, InPath(pattern="^(csv|json)$")]
    ) -> Response:
        """The same as a table, or for programs."""
        _, member = await site.onlooker(request)
        challenge = store.challenge(name)
        asked = views.asked(challenge, request.query_params)
        seen = await views.board(challenge, asked, member.team if member else None)
        return board_response(seen.board, form)

    # Submissions ------------------------------------------------------------------------------

    @router.get("/submissions")
    async def mine(request: Request) -> Response:
        """What the team has sent."""
        session, member = await site.member(request)
        found = await records.of_team(member.team)
        return site.show("submissions.html", session, member, found=found, told=views.told)

    async def seen(request: Request, key: str) -> tuple[Session | None, Member | None, Submission]:
        """A submission, its team's or one on a published leaderboard.

        Raises:
            NotFoundError: where it is neither.
        """
        session, member = await site.onlooker(request)
        sub = await store.submission(key)
        challenge = store.challenge(sub.challenge)
        if member is None or sub.team != member.team:
            state = await records.state(challenge)
            if not state.published or sub.state != "scored" or sub.standing:
                raise NotFoundError
        return session, member, sub

    @router.get("/submissions/{key}")
    async def submission(request: Request, key: Key) -> Response:
        """A submission: its verdict, its scores; others' by their scores alone."""
        session, member, sub = await seen(request, key)
        challenge = store.challenge(sub.challenge)
        own = member is not None and sub.team == member.team
        rows: list[dict[Any, Any]] = []
        if own and challenge.per_item and sub.state == "scored":
            found = await asyncio.to_thread(_items, store.file(key, "items.parquet"))
            rows = found.to_dict("records")
        return site.show(
            "submission.html",
            session,
            member,
            **views.submission(challenge, sub),
            own=own,
            items=rows[:_ITEMS],
            n_items=len(rows),
            here=f"/submissions/{key}",
        )

    @router.get("/submissions/{key}/state")
    async def progress(request: Request, key: Key) -> JSONResponse:
        """How far it is, for the page that waits."""
        _, member = await site.member(request)
        sub = await store.submission(key)
        if sub.team != member.team:
            raise NotFoundError
        return JSONResponse(
            {
                "state": sub.state,
                "progress": round(sub.progress, 3),
                "step": sub.step,
                "done": sub.done,
            }
        )

    @router.get("/submissions/{key}/items.csv")
    async def items(request: Request, key: Key) -> Response:
        """The score of each caption, to its team, where the challenge allows it."""
        _, member = await site.member(request)
        return await items_response(store, key, member)

    # Signing up and in ------------------------------------------------------------------------

    def sign_page(
        request: Request, kind: str, status: int = 200, fault: str = "", **values: str
    ) -> Response:
        session = signing(request)
        given = {"name": "", "team": "", "code": "", "to": "/", **values}
        page = site.show(
            "sign.html",
            session,
            None,
            status,
            kind=kind,
            fault=fault,
            given=given,
            length=PASSWORD_LENGTH,
        )
        return site.set_session(page, session)

    @router.get("/signup")
    async def sign_up_page(request: Request) -> Response:
        """A name and a password are asked for."""
        _, member = await site.onlooker(request)
        return site.redirect("/submissions") if member else sign_page(request, "up")

    @router.post("/signup", openapi_extra=_SIGN)
    async def sign_up(request: Request) -> Response:
        """A new account, its recovery codes shown once."""
        fields = await site.read_form(request, signing(request))
        given = {k: field_value(fields, k)[:100] for k in ("name", "team", "code")}
        if not site.joins.take(client_address(request)):
            raise TooManyRequestsError
        password, again = _secret(fields, "password"), _secret(fields, "again")
        try:
            member, codes = await people.sign_up(
                given["name"], password, again, given["team"], given["code"]
            )
        except RefusedError as error:
            return sign_page(request, "up", 400, str(error), **given)
        session = Session.new(member.id, epoch=member.epoch)
        return site.set_session(
            site.show("codes.html", session, member, codes=codes, new=True), session
        )

    @router.get("/signin")
    async def sign_in_page(request: Request, to: str = "") -> Response:
        """Name and password are asked for; `to` is the page to go on to."""
        _, member = await site.onlooker(request)
        return (
            site.redirect(local_path(to)) if member else sign_page(request, "in", to=local_path(to))
        )

    @router.post("/signin", openapi_extra=_SIGN)
    async def sign_in(request: Request) -> Response:
        """Sign in, and go on where somebody came from."""
        fields = await site.read_form(request, signing(request))
        name, to = field_value(fields, "name")[:100], local_path(field_value(fields, "to"))
        limited(request, name)
        try:
            password = _secret(fields, "password")
            member = await people.sign_in(name, password, client_address(request))
        except RefusedError as error:
            return sign_page(request, "in", 403, str(error), name=name, to=to)
        if member is None:
            fault = "No account has that name and password."
            return sign_page(request, "in", 403, fault, name=name, to=to)
        return begin(member, site.redirect(to))

    @router.get("/recover")
    async def recover_page(request: Request) -> Response:
        """A recovery code is asked for."""
        _, member = await site.onlooker(request)
        return site.redirect("/submissions") if member else sign_page(request, "recover")

    @router.post("/recover", openapi_extra=_SIGN)
    async def recover(request: Request) -> Response:
        """A new password, by a recovery code."""
        fields = await site.read_form(request, signing(request))
        name = field_value(fields, "name")[:100]
        limited(request, name)
        password, again = _secret(fields, "password"), _secret(fields, "again")
        try:
            code = field_value(fields, "code")[:100]
            member = await people.recover(name, code, password, again, client_address(request))
        except RefusedError as error:
            return sign_page(request, "recover", 400, str(error), name=name)
        if member is None:
            fault = "That is no recovery code of that account, or it was used."
            return sign_page(request, "recover", 403, fault, name=name)
        return begin(member, site.redirect("/account"))

    @router.post("/signout", openapi_extra=_TEAM)
    async def sign_out(request: Request) -> Response:
        """Sign out, here."""
        session, _ = await site.member(request)
        await site.read_form(request, session)
        return site.set_session(site.redirect("/"), Session.new())

    # Account, team, tokens --------------------------------------------------------------------

    async def account_page(
        session: Session, member: Member, status: int = 200, fault: str = "", **values: Any
    ) -> Response:
        return site.show(
            "account.html",
            session,
            member,
            status,
            **{
                "fault": fault,
                "said": "",
                "token_made": "",
                "code_made": "",
                "left": await people.codes_left(member),
                "tokens": await people.tokens(member),
                "members": await people.members(member.team),
                "length": PASSWORD_LENGTH,
                **values,
            },
        )

    @router.get("/account")
    async def account(request: Request) -> Response:
        """Team, password, recovery codes and tokens."""
        session, member = await site.member(request)
        return await account_page(session, member)

    async def taken(request: Request) -> tuple[Session, Member, Mapping[str, list[str]]]:
        session, member = await site.member(request)
        return session, member, await site.read_form(request, session)

    async def again(session: Session, member: Member, error: RefusedError) -> Response:
        return await account_page(session, member, 400, str(error))

    @router.post("/account/password", openapi_extra=_ACCOUNT)
    async def change_password(request: Request) -> Response:
        """Another password; all other sessions end."""
        session, member, fields = await taken(request)
        limited(request, member.name)
        old, new, twice = (_secret(fields, name) for name in ("old", "password", "again"))
        try:
            changed = await people.change_password(member, old, new, twice)
        except RefusedError as error:
            return await again(session, member, error)
        return begin(changed, site.redirect("/account"))

    @router.post("/account/codes", openapi_extra=_ACCOUNT)
    async def renew_codes(request: Request) -> Response:
        """New recovery codes, shown once."""
        session, member, fields = await taken(request)
        limited(request, member.name)
        try:
            codes = await people.renew_codes(member, _secret(fields, "old"))
        except RefusedError as error:
            return await again(session, member, error)
        return site.show("codes.html", session, member, codes=codes, new=False)

    @router.post("/account/signout", openapi_extra=_ACCOUNT)
    async def sign_out_everywhere(request: Request) -> Response:
        """End all sessions."""
        _, member, _ = await taken(request)
        await people.sign_out_everywhere(member)
        return site.set_session(site.redirect("/signin"), Session.new())

    @router.post("/account/tokens", openapi_extra=_ACCOUNT)
    async def new_token(request: Request) -> Response:
        """A token for programs, shown once."""
        session, member, fields = await taken(request)
        try:
            token = await people.new_token(member, field_value(fields, "label"))
        except RefusedError as error:
            return await again(session, member, error)
        return await account_page(session, member, token_made=token)

    @router.post("/account/tokens/{token}/revoke", openapi_extra=_ACCOUNT)
    async def revoke(request: Request, token: RowNumber) -> Response:
        """End a token."""
        _, member, _ = await taken(request)
        await people.revoke(member, token)
        return site.redirect("/account")

    @router.post("/team/invite", openapi_extra=_TEAM)
    async def invite(request: Request) -> Response:
        """A new invitation code, shown once."""
        session, member, _ = await taken(request)
        code = await people.invite(member)
        return await account_page(session, member, code_made=code)

    @router.post(
        "/team/{act}",
        openapi_extra=_TEAM,
    )
    async def team(
        request: Request, act: Annotated[str, InPath(pattern="^(rename|join|leave)$")]
    ) -> Response:
        """Call the team otherwise, join another, or found one of one's own."""
        session, member, fields = await taken(request)
        if not site.joins.take(client_address(request)):  # nobody tries codes
            raise TooManyRequestsError
        try:
            if act == "rename":
                await people.rename(member, field_value(fields, "name"))
            elif act == "join":
                await people.enter(member, field_value(fields, "code")[:100])
            else:
                await people.leave(member, field_value(fields, "name"))
        except RefusedError as error:
            return await again(session, member, error)
        return site.redirect("/account")

    return router


def _secret(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """A password as it was typed, blanks and all."""
    values = fields.get(name, ())
    return values[0][:1000] if len(values) == 1 else ""


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(1 << 20):
        yield piece


def _items(path: Path) -> pd.DataFrame:
    """The score of each caption."""
    try:
        return pd.read_parquet(path)
    except OSError as error:
        raise NotFoundError from error


async def items_response(store: Store, key: str, account: Account) -> Response:
    """The score of each caption of a submission as CSV.

    Raises:
        NotFoundError: where it is not its team's, the challenge does not allow it, or there are none yet.
    """
    sub = await store.submission(key)
    allowed = store.challenge(sub.challenge).per_item and sub.state == "scored"
    if sub.team != account.team or not allowed:
        raise NotFoundError
    found = await asyncio.to_thread(_items, store.file(key, "items.parquet"))
    text = found.to_csv(index=False, lineterminator="\n")
    return _file(text, f"{key}.csv", "text/csv; charset=utf-8")


def board_response(board: Board, form: str) -> Response:
    """A leaderboard as a file."""
    if form == "csv":
        return _file(board.csv(), f"{board.challenge}.csv", "text/csv; charset=utf-8")
    return _file(board.json(), f"{board.challenge}.json", "application/json")


def _file(text: str, name: str, kind: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=kind, headers=headers)
