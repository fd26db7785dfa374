"""Options of the web side: `captau collect` and its commands, `captau serve` and `captau submit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError
from . import shared
from .declaration import NEEDED, Option, Options, option, part, path_of


def _read_database(text: str | None, key: str) -> Path | None:
    """Return the file of a database.

    Raises:
        InputError: on the address of a server.
    """
    scheme, is_address, _ = (text or "").partition("://")
    if is_address:
        raise InputError(f"{key}={scheme}://…: the path of a file is expected; it is SQLite's")
    return path_of(text)


#: Attributes of options that hold the file of a database, or a study.
_DATABASE: dict[str, Any] = {"takes": "FILE", "read": _read_database}
_STUDY: dict[str, Any] = {"takes": "NAME|FILE.yaml", "is_literal": True}


@dataclass(frozen=True, kw_only=True)
class SiteOptions(Options):
    """Options of a command that serves a web site."""

    environment: ClassVar[tuple[Option, ...]] = shared.SERVED

    host: str = option("127.0.0.1", "the address to listen at", takes="ADDRESS")
    port: int = option(8000, "the port to listen at; 0 for any")
    url: str | None = option(
        None,
        "the site's public address, with its path (default: where it listens)",
        takes="URL",
        is_literal=True,
    )
    proxy: bool = option(False, "true trusts a proxy on this machine about visitors' addresses")
    backup: Path | None = option(
        None, "copies the database to a new file, also while the site runs, and ends", takes="FILE"
    )
    reset_times: bool = option(
        False, "true sets stored times that are later than now to now, after a wrong clock"
    )
    data_root: Path | None = part(shared.data_root_of, shared.DATA_ROOT, default=None)


@dataclass(frozen=True, kw_only=True)
class CollectOptions(SiteOptions):
    """Options of `captau collect`: a study, by name or file, and the database of its answers."""

    examples: ClassVar[str] = """
captau collect                                        the rating game on the demo
captau collect study=mine.yaml port=8080
captau collect study=mine.yaml url=https://lab.example/study proxy=true    behind a proxy
captau collect study=mine.yaml database=answers.sqlite3
"""
    notes: ClassVar[str] = """
docs/collect.md explains how to write a study. Every answer is on the disk before it is acknowledged; stop the server as
you like. The dashboard's address is printed; $CAPTAU_ADMIN_PASSWORD sets its password, else the first who opens
the printed link does.
"""

    study: str = option("demo_game", "one of captau's studies, or your own file", **_STUDY)
    database: Path | None = option(
        None,
        "the database (default: collected/NAME.sqlite3)",
        **_DATABASE,
    )


@dataclass(frozen=True, kw_only=True)
class _StudyOptions(Options):
    """Options of a command that opens a study without serving it to people."""

    environment: ClassVar[tuple[Option, ...]] = shared.SERVED

    output_dir: Path | None = option(None, shared.OUTPUT_DIR.help, takes="DIR")
    data_root: Path | None = part(shared.data_root_of, shared.DATA_ROOT, default=None)
    study: str
    database: Path | None

    def site_options(self) -> CollectOptions:
        """Return the options under which `captau collect` serves the same study."""
        return CollectOptions(study=self.study, database=self.database, data_root=self.data_root)


@dataclass(frozen=True, kw_only=True)
class ExportOptions(_StudyOptions):
    """Options of `captau collect export`: a study, its database, the output folder and the files' form."""

    examples: ClassVar[str] = """
captau collect export study=mine.yaml output_dir=gathered
captau collect export study=mine.yaml form=participants
captau agree dataset=file file.path=gathered/ratings.csv
"""
    notes: ClassVar[str] = """
Raters are named by codes. It only reads the database, so that the site may run; the dashboard offers the same files.
"""
    study: str = option(NEEDED, "the study", **_STUDY)
    database: Path | None = option(
        None, "the study's database (default: collected/NAME.sqlite3)", **_DATABASE
    )
    form: str = option(
        "captau",
        "the form of the files; captau is for dataset=file, paper is the form that the paper's "
        "authors publish, which captau data import reads, participants lists points and minutes, "
        "log lists every answer in order",
        takes="captau|paper|participants|log",
    )


@dataclass(frozen=True, kw_only=True)
class StabilityOptions(Options):
    """Options of `captau collect stability`."""

    examples: ClassVar[str] = "captau collect stability run=gathered,again"
    notes: ClassVar[str] = """
As in Levinboim et al. 2021, section 3.3: the differences of the two runs' values of each item, p̂ of good_bad and the
mean rating elsewhere. The paper's numbers stand beside those of good_bad.
"""
    writes: ClassVar[str] = "Writes stability.csv, table.md, table.tex, run.json."

    runs: tuple[Path, ...] = shared.runs_option(
        "two folders that captau collect export wrote; both with form=captau",
        takes="FIRST,AGAIN",
        default=NEEDED,
    )
    least: int | None = option(
        None,
        "the ratings an item needs in both runs (default: 8 for good_bad, else 1)",
        check=shared.at_least(1),
    )
    output_dir: Path | None = option(None, shared.OUTPUT_DIR.help, takes="DIR")


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(_StudyOptions):
    """Options of `captau collect simulate`."""

    examples: ClassVar[str] = """
captau collect simulate                               what the game pays whom, on the demo
captau collect simulate 'players={honest: 200}' answers=20
captau collect simulate study=mine.yaml database=try.sqlite3
"""
    notes: ClassVar[str] = """
A server is started for it on a free port, with a database that starts empty; the players go through HTTP like
browsers, consent and tutorial included.
"""
    study: str = option("demo_game", "one of captau's studies, or your own file", **_STUDY)
    database: Path | None = option(None, "the database (default: a temporary file)", **_DATABASE)
    players: Mapping[str, int] | None = option(
        None,
        "the number of players of each kind (default: honest 12, careless, random, constant and "
        "majority 4 each)",
        takes="{KIND: N}",
    )
    answers: int = option(60, "answers of each player; the tutorial and practice count")
    wait: float = option(0.0, "how long a player waits between answers", takes="SECONDS")
    seed: int = option(0, "the seed of the players' answers")


@dataclass(frozen=True, kw_only=True)
class ServeOptions(SiteOptions):
    """Options of `captau serve`."""

    examples: ClassVar[str] = """
captau serve                                            the two demo challenges
captau serve challenge=mine.yaml port=8080
captau serve challenge=captions.yaml,metrics.yaml     or a folder of them
captau serve challenge=mine.yaml url=https://lab.example/challenge proxy=true    behind a proxy
captau serve challenge=mine.yaml database=challenge.sqlite3 workers=4
"""
    notes: ClassVar[str] = """
docs/challenges.md explains how to write a challenge. Every submission is on the disk before it is acknowledged; stop
the server as you like. The dashboard's address is printed; $CAPTAU_ADMIN_PASSWORD sets its password, else the first who
opens the printed link does.
"""
    environment: ClassVar[tuple[Option, ...]] = (
        *shared.SERVED,
        shared.JAVA_HOME,
        shared.JAVA_SPICE,
    )

    challenge: Any = option(
        "demo",
        "one challenge or several; demo is one of each kind",
        takes="NAME|FILE.yaml|FOLDER",
        is_literal=True,
        has_several=True,
    )
    title: str | None = option(
        None,
        "the site's title (default: the challenge's; captau for several)",
        takes="TEXT",
        is_literal=True,
    )
    database: Path | None = option(
        None,
        "the database (default: challenges/NAME.sqlite3)",
        **_DATABASE,
    )
    files: Path | None = option(
        None, "the folder of submissions (default: beside the database)", takes="DIR"
    )
    workers: int = option(1, "the number of submissions evaluated at a time")
    rescore: bool = option(
        False,
        "true scores all submissions again; needed when references, ratings, metrics or "
        "protocol changed",
    )


@dataclass(frozen=True, kw_only=True)
class SubmitOptions(Options):
    """Options of `captau submit`: a file, and the challenge and site that it goes to."""

    positional: ClassVar[tuple[str, ...]] = ("file",)
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
