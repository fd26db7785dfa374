"""The site of a study, as every page sees it, and the function that opens it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as PathParameter

from ....benchmarks.options.sites import CollectOptions
from ....datasets.errors import InputError
from ...storage.backup import back_up
from ...storage.clock import reset_times
from ...storage.database import Database, opening_errors
from ...storage.private_files import make_private_folder
from ...web.errors import SignInRequiredError, TooManyRequestsError
from ...web.passwords import AdminAccount, password_from_environment
from ...web.sessions import Session
from ...web.site import PublicAddress, WebSite, current_site, parse_public_address
from ...web.visitors import RateLimiter
from ..rater_figures import AgreementCache
from ..store.study_database import holds_study
from ..store.study_store import StudyStore
from ..store.tables import SCHEMA
from ..study import Study, StudyLimits, read_study


class StudySite(WebSite):
    """A study's pages and sessions.

    Args:
        store: the study in its database.
        address: the site as visitors see it.
        read_again: reads the study's file again, and computes the ratings that units start with.

    Attributes:
        join_limiter: counts new participants by address.
        request_limiter: counts requests by participant.
        agreement: the raters' agreement, for the dashboard.
    """

    def __init__(
        self,
        store: StudyStore,
        address: PublicAddress,
        read_again: Callable[[], Study],
    ) -> None:
        limits, study = store.study.limits, store.study
        template_globals = {
            "title": study.title,
            "study": study,
            "form": study.form,
            "clock_warning": store.clock.warning,
            **study.form.template_variables(),
        }
        super().__init__(
            "captau.server.collect",
            AdminAccount(store.database),
            store.secret,
            address,
            limits.logins,
            template_globals,
            study.form.wording.language,
        )
        self.store, self.read_again = store, read_again
        # Joins are limited by the minute, requests by the second, of which three seconds' may come at once.
        self.join_limiter = RateLimiter(burst=limits.joins, rate=limits.joins / 60)
        self.request_limiter = RateLimiter(burst=limits.requests * 3, rate=limits.requests)
        self.agreement = AgreementCache()

    @property
    def study(self) -> Study:
        """The study."""
        return self.store.study

    def require_rater(self, request: Request) -> tuple[Session, int]:
        """Return the participant's session and number.

        Raises:
            SignInRequiredError: if the visitor is no participant.
            TooManyRequestsError: if they ask too often.
        """
        session = self.read_session(request)
        if session is None or session.member is None:
            raise SignInRequiredError("/")
        if not self.request_limiter.take(str(session.member)):
            raise TooManyRequestsError
        return session, session.member


#: The folder of databases that no option names.
_DEFAULT_FOLDER = Path("collected")
#: The key of a unit that was shown, or the token of an invitation.
Key = Annotated[str, PathParameter(pattern=r"^[\w-]{1,64}$")]
#: The site of a request, for routers.
CurrentSite = Annotated[StudySite, Depends(current_site)]


def open_site(options: CollectOptions, *, wait: float | None = None) -> StudySite:
    """Open a study in its database, ready to be served.

    Args:
        options: those of `captau collect`.
        wait: for simulated raters, another wait than the study's, no limits, and no invitations.

    Raises:
        InputError: on a fault of the study, the database or the password.
    """
    study = read_study(options.study, options.data_root, prepares_units=False)
    password = password_from_environment()
    public_address = parse_public_address(options.url)
    database = _open_database(_database_path(options, study))
    try:
        with opening_errors(database.path):
            if options.database is None:  # it may have been made for everybody to read
                make_private_folder(_DEFAULT_FOLDER)
            if options.reset_times:
                _report(database.run_blocking(partial(reset_times, tables=SCHEMA.tables)))
            if not holds_study(database):
                # A database that holds the study has the ratings that units start with.
                study = read_study(options.study, options.data_root)
            if wait is not None:
                unlimited = StudyLimits(joins=1_000_000, logins=1_000_000, requests=1_000_000)
                study = replace(study, form=study.form.with_wait(wait), limits=unlimited)
                if study.participants == "invitation":
                    study = replace(study, participants="open")
            site = StudySite(
                StudyStore(database, study),
                public_address,
                partial(read_study, options.study, options.data_root),
            )
            site.admin_account.adopt_password(password)
            if site.store.clock.warning:
                _report(site.store.clock.warning)
    except BaseException:
        database.close()
        raise
    return site


def back_up_study(options: CollectOptions, backup: Path) -> str:
    """Copy a study's database to a new file, also while its site runs; return what to say of it.

    Raises:
        InputError: on a fault of the study, or as `backup.back_up` does.
    """
    study = read_study(options.study, options.data_root, prepares_units=False)
    path = _database_path(options, study)
    back_up(path, SCHEMA, backup)
    return f"{path}: copied to {backup}"


def open_snapshot(options: CollectOptions) -> StudyStore:
    """Open a study in its database to read it, while a site may be at work on it.

    Args:
        options: those of `captau collect`.

    Raises:
        InputError: on a fault of the study, or if the database is missing or holds another one.
    """
    study = read_study(options.study, options.data_root, prepares_units=False)
    path = _database_path(options, study)
    if not path.is_file():
        raise InputError(f"{path}: no such file; name the study's with database=FILE")

    database = _open_database(path, read_only=True)
    try:
        return StudyStore(database, study)
    except BaseException:
        database.close()
        raise


def _database_path(options: CollectOptions, study: Study) -> Path:
    return options.database or _DEFAULT_FOLDER / f"{study.name}.sqlite3"


def _open_database(path: Path, *, read_only: bool = False) -> Database:
    return Database(
        path,
        SCHEMA,
        _report,
        read_only=read_only,
    )


def _report(line: str) -> None:
    """Tell whoever runs the site something in a line."""
    print(f"captau: {line}", file=sys.stderr)
