"""Annotators check each other's answers one after the other: no table of settled disagreements."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Drop it; the copy that is made before has it still."""
    op.drop_table("resolutions")
