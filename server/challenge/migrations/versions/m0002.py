"""The column of accounts that a provider of OpenID Connect signs in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add it."""
    op.add_column("accounts", sa.Column("identity", sa.String(length=64), nullable=True))
    op.create_index("accounts_identity", "accounts", ["identity"], unique=True)
