"""Alembic migrations of the tables of a challenge site."""

from pathlib import Path

FOLDER = Path(__file__).parent
