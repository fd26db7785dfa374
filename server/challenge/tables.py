"""The tables of a site's database; one database holds one site's challenges."""

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

from ..storage.site_settings import settings_table

metadata = MetaData()

meta = settings_table(metadata)

#: What became of each challenge since it was begun; the rest is in its file.
challenges = Table(
    "challenges",
    metadata,
    Column("name", String(64), primary_key=True),
    #: Of references, ratings, metrics and protocol: results under another are not comparable.
    Column("digest", String(64), nullable=False),
    Column("frozen_at", Float),
    Column("published_at", Float),
    #: People's own scores, rows as `results.scores` has them; null until they are computed.
    Column("human", JSON),
)

teams = Table(
    "teams",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    #: The name as it is compared: equal for what reads the same.
    Column("name_key", Text, nullable=False, unique=True),
    #: A hash of the code by which others join; null where nobody may.
    Column("invitation", String(64), unique=True),
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,
)

#: Everybody is in a team, be it of one.
accounts = Table(
    "accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("name_key", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
    Column("team", ForeignKey("teams.id"), nullable=False, index=True),
    Column("joined_at", Float, nullable=False),
    #: How often all their sessions were ended.
    Column("epoch", Integer, nullable=False),
    Column("blocked_at", Float),
    # A deleted account's number, which its sessions name, is nobody else's later.
    sqlite_autoincrement=True,
)

#: Hashes of codes that let somebody choose a new password, each once.
recoveries = Table(
    "recoveries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("used_at", Float),
)

#: Hashes of what programs sign in by.
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

#: One row a submission; `store.STATES` says what it goes through. Its files lie in a folder of its key's
#: name.
submissions = Table(
    "submissions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("challenge", ForeignKey("challenges.name"), nullable=False),
    Column("phase", String(64), nullable=False),
    Column("team", ForeignKey("teams.id"), nullable=False),
    Column("account", ForeignKey("accounts.id"), nullable=False),
    #: What the leaderboard calls what was submitted.
    Column("system", String(64), nullable=False),
    Column("note", Text, nullable=False),
    #: As it was called where it came from.
    Column("file", String(128), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("received_at", Float, nullable=False),
    Column("state", String(16), nullable=False),
    Column("checked_at", Float),
    #: Where it is not valid: the first faults, a line each, and how many there are in all.
    Column("faults", JSON, nullable=False),
    Column("n_faults", Integer, nullable=False),
    Column("summary", Text, nullable=False),
    #: Whether it counts against the limits; of a valid one, unless it was forgiven.
    Column("counts", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    #: Whose work on it counts: a name of its own for each attempt, null while nobody is at it.
    Column("worker", String(32)),
    Column("started_at", Float),
    #: From 0 to 1, and what is being done.
    Column("progress", Float, nullable=False),
    Column("step", String(64), nullable=False),
    Column("finished_at", Float),
    #: Why it failed.
    Column("reason", Text, nullable=False),
    #: "", "hidden" or "disqualified", and why.
    Column("standing", String(16), nullable=False),
    Column("standing_why", Text, nullable=False),
    Index("submissions_state", "state", "id"),
    Index("submissions_team", "challenge", "team"),
    Index("submissions_account", "challenge", "account"),
    sqlite_autoincrement=True,
)

#: At most one a submission, whoever computed it how often.
results = Table(
    "results",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission", ForeignKey("submissions.id"), nullable=False, unique=True),
    Column("made_at", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    #: Of the challenge as it was then (`challenges.digest`).
    Column("digest", String(64), nullable=False),
    #: Rows of `evaluate.Row`: references, metric, value, ci_low, ci_high, n, note.
    Column("scores", JSON, nullable=False),
    #: What the numbers rest on: signatures, protocol, versions.
    Column("run", JSON, nullable=False),
)

#: Who did what that bears on safety or standing.
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    #: The account; null for whoever runs the site, and for strangers.
    Column("account", Integer),
    Column("action", String(32), nullable=False),
    #: To what: a submission, a team, a challenge, a token.
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
)
