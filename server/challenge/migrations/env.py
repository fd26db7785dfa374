"""Alembic environment: runs a migration on the connection that `storage.migration` provides."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
