"""The tables of a study's database; one database holds one study."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from ...storage.database import Schema
from ...storage.site_settings import settings_table

metadata = MetaData()

site_settings = settings_table(metadata)

#: Units are shown as a whole: a caption, captions of an image, or an image without. `given` counts the
#: answers that enter the dataset; `last_served` is the number of the serving that showed it last.
units = Table(
    "units",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("pool", String(16), nullable=False),
    Column("position", Integer, nullable=False),
    Column("image_id", Text, nullable=False),
    Column("fixed", JSON, nullable=False),
    Column("given", Integer, nullable=False),
    Column("last_served", Integer, nullable=False),
    Index("units_next", "pool", "given", "last_served", "position"),
)

items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("unit", ForeignKey("units.id"), nullable=False, index=True),
    Column("item_id", Text, nullable=False),
    Column("caption", Text, nullable=False),
    Column("references", JSON, nullable=False),
    Column("system", Text),
    Column("split", Text, nullable=False),
)

raters = Table(
    "raters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("nickname", String(64)),
    #: The nickname as it is compared (`person_names.name_key`).
    Column("nickname_key", Text, unique=True),
    #: A hash of the crowd platform's code, which itself is not stored.
    Column("worker", String(64), unique=True),
    Column("joined_at", Float, nullable=False),
    Column("consented", Text, nullable=False),
    Column("state", JSON, nullable=False),
    Column("points", Integer, nullable=False),
    Column("given", Integer, nullable=False),
    Column("excluded_at", Float),
    # A deleted person's number, which their session names, is nobody else's later.
    sqlite_autoincrement=True,
)

#: One row each time that a unit was shown; `key` makes its answer count once.
serves = Table(
    "serves",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("rater", ForeignKey("raters.id"), nullable=False),
    Column("unit", ForeignKey("units.id"), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("order", JSON, nullable=False),
    Column("served_at", Float, nullable=False),
    Column("answered_at", Float),
    UniqueConstraint("rater", "unit", "attempt"),
    Index("serves_open", "unit", "answered_at"),
    Index("serves_waiting", "answered_at", "served_at"),
)

answers = Table(
    "answers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("serve", ForeignKey("serves.id"), nullable=False),
    Column("item", ForeignKey("items.id"), nullable=False, index=True),
    Column("rater", ForeignKey("raters.id"), nullable=False, index=True),
    Column("phase", String(16), nullable=False),
    Column("value", JSON, nullable=False),
    #: The feedback on it: the game's consensus, mean, score, turn.
    Column("told", JSON),
    Column("seconds", Float, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("serve", "item"),
)

#: The admin's actions on raters, and the reasons for them.
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("action", String(32), nullable=False),
    Column("rater", Integer),
    Column("why", Text, nullable=False),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("note", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("rater", ForeignKey("raters.id")),
)

#: The number stands for "caps" in ASCII.
SCHEMA = Schema(
    tables=metadata,
    application_id=0x6361_7073,
    revision=1,
    command_name="captau collect",
)
