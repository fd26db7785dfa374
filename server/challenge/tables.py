"""The tables of a challenge site's database; one database holds the challenges of one site.

Times are seconds since 1970.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

from ..storage.database import Schema
from ..storage.site_settings import settings_table

metadata = MetaData()

meta = settings_table(metadata)

#: The state of each challenge; its definition is in its file.
challenges = Table(
    "challenges",
    metadata,
    Column("name", String(64), primary_key=True),
    #: `Challenge.digest`: results under different digests are not comparable.
    Column("digest", String(64), nullable=False),
    Column("frozen_at", Float),
    Column("published_at", Float),
    #: Scores of human captions, rows as in `results.scores`; null until they are computed.
    Column("human", JSON),
)

teams = Table(
    "teams",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    #: `person_names.name_key` of the name: equal for names that read the same.
    Column("name_key", Text, nullable=False, unique=True),
    #: The hash of the code by which others join; null if nobody may join.
    Column("invitation", String(64), unique=True),
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,
)

#: Every account belongs to a team, if only a team of one.
accounts = Table(
    "accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("name_key", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
    Column("team", ForeignKey("teams.id"), nullable=False, index=True),
    Column("joined_at", Float, nullable=False),
    #: How often all sessions of the account were ended.
    Column("epoch", Integer, nullable=False),
    Column("blocked_at", Float),
    # Sessions name this number, so it must not be given to another account.
    sqlite_autoincrement=True,
)

#: Hashes of the recovery codes, each of which lets a member choose a new password once.
recoveries = Table(
    "recoveries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("used_at", Float),
)

#: Hashes of the tokens that programs sign in with.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("label", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("used_at", Float),
    Column("revoked_at", Float),
)

#: One row a submission; `state` is a `submissions.SubmissionState`. Its files are in a folder named by
#: its key.
submissions = Table(
    "submissions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("challenge", ForeignKey("challenges.name"), nullable=False),
    Column("phase", String(64), nullable=False),
    Column("team", ForeignKey("teams.id"), nullable=False),
    Column("account", ForeignKey("accounts.id"), nullable=False),
    #: The system's name on the leaderboard.
    Column("system", String(64), nullable=False),
    Column("note", Text, nullable=False),
    #: The uploaded file's name.
    Column("file", String(128), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("received_at", Float, nullable=False),
    Column("state", String(16), nullable=False),
    Column("checked_at", Float),
    #: Of an invalid submission: the first faults, a line each, and the number of all faults.
    Column("faults", JSON, nullable=False),
    Column("n_faults", Integer, nullable=False),
    Column("summary", Text, nullable=False),
    #: Whether it counts against the team's limits; valid ones do until an admin resets the limits.
    Column("counts", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    #: The name of the worker process that works on it, null while none does.
    Column("worker", String(32)),
    Column("started_at", Float),
    #: The share that is done, from 0 to 1, and the current step.
    Column("progress", Float, nullable=False),
    Column("step", String(64), nullable=False),
    Column("finished_at", Float),
    #: The reason for a failure.
    Column("reason", Text, nullable=False),
    #: "", "hidden" or "disqualified", and the admin's reason.
    Column("standing", String(16), nullable=False),
    Column("standing_why", Text, nullable=False),
    Index("submissions_state", "state", "id"),
    Index("submissions_team", "challenge", "team"),
    Index("submissions_account", "challenge", "account"),
    sqlite_autoincrement=True,
)

#: At most one row a submission, however often it was evaluated.
results = Table(
    "results",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission", ForeignKey("submissions.id"), nullable=False, unique=True),
    Column("made_at", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    #: The challenge's digest at that time.
    Column("digest", String(64), nullable=False),
    #: Rows with references, metric, value, ci_low, ci_high, n, note (`Evaluation.scores`).
    Column("scores", JSON, nullable=False),
    #: Signatures, protocol and versions that recompute the scores.
    Column("run", JSON, nullable=False),
)

#: The log of actions that concern security or a submission's standing.
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    #: The account; null for the admin, and for visitors who are not signed in.
    Column("account", Integer),
    Column("action", String(32), nullable=False),
    #: The submission, team, challenge, account or token that was acted on.
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
)

#: The number of its databases stands for "capc" in ASCII.
SCHEMA = Schema(
    tables=metadata,
    application_id=0x6361_7063,
    revision=1,
    command_name="captau serve",
)
