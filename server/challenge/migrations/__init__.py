"""Alembic's steps from one version of the tables to the next."""

from pathlib import Path

FOLDER = Path(__file__).parent
