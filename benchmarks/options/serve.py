"""Options of `captau serve` and `captau submit`, which the web side runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from .collect import DATABASE, SiteOptions
from .declaration import NEEDED, Option, Options, option, part
from .oidc import OIDC, OidcOptions, oidc_of
from .shared import JAVA_HOME, JAVA_SPICE, SERVED


@dataclass(frozen=True, kw_only=True)
class ServeOptions(SiteOptions):
    """Options of `captau serve`."""

    examples: ClassVar[str] = """
captau serve                                            the two demo challenges
captau serve challenge=mine.yaml port=8080
captau serve challenge=captions.yaml,metrics.yaml     or a folder of them
captau serve challenge=mine.yaml url=https://lab.example/challenge proxy=true    behind a proxy
captau serve challenge=mine.yaml url=https://lab.example oidc.issuer=https://login.lab.example oidc.client_id=captau
captau serve challenge=mine.yaml database=postgresql://user@host/name workers=4
"""
    notes: ClassVar[str] = """
docs/challenges.md explains how to write a challenge. Every submission is on the disk before it is acknowledged; stop
the server as you like. The dashboard's address is printed; $CAPTAU_ADMIN_PASSWORD sets its password, else the first who
opens the printed link does.
"""
    environment: ClassVar[tuple[Option, ...]] = (*SERVED, JAVA_HOME, JAVA_SPICE)

    challenge: Any = option(
        "demo",
        "one challenge or several; demo is one of each kind",
        takes="NAME|FILE.yaml|FOLDER",
        is_literal=True,
        has_several=True,
    )
    title: str | None = option(
        None, "the site's title (default: the challenge's)", takes="TEXT", is_literal=True
    )
    database: str | None = option(
        None,
        "the database (default: challenges/NAME.sqlite3); may be PostgreSQL",
        **DATABASE,
    )
    files: str | None = option(
        None,
        "the folder of submissions (default: beside the database); without a database file, "
        "challenges/NAME",
        takes="DIR",
        is_literal=True,
    )
    workers: int = option(1, "the number of submissions evaluated at a time")
    rescore: bool = option(
        False,
        "true scores all submissions again; needed when references, ratings, metrics or "
        "protocol changed",
    )
    oidc: OidcOptions = part(oidc_of, *OIDC, default=OidcOptions())


@dataclass(frozen=True, kw_only=True)
class SubmitOptions(Options):
    """Options of `captau submit`: a file, and the challenge and site that it goes to."""

    positional: ClassVar[str] = "file"
    examples: ClassVar[str] = """
captau submit captions_test2014_mine_results.zip challenge=demo_captions url=https://lab.example
captau submit scores.csv challenge=demo_metrics system=mine note="layer 9"
"""
    notes: ClassVar[str] = """
The token is made on the site's page of your account; $CAPTAU_TOKEN hands it over. Faults of the file are listed, and
the exit status is 2; captau validate lists them offline.
"""

    file: Path = option(
        NEEDED,
        "captions, or a metric's scores; captions in .json, .jsonl or .zip, scores in .csv, .jsonl"
        " or .parquet",
        takes="FILE",
    )
    challenge: str = option(
        NEEDED, "the challenge's name on the site", takes="NAME", is_literal=True, has_several=True
    )
    url: str = option("http://127.0.0.1:8000", "the site's address", takes="URL", is_literal=True)
    token: str | None = option(
        None,
        "your token; safer in $CAPTAU_TOKEN, which others on the machine cannot see",
        takes="TOKEN",
        is_literal=True,
    )
    system: str | None = option(
        None,
        "the name on the leaderboard (default: the file's name)",
        takes="NAME",
        is_literal=True,
    )
    note: str | None = option(None, "a note for yourself", takes="TEXT", is_literal=True)
    wait: bool = option(True, "false returns as soon as the file is received")
