"""The pages of whoever runs the study."""

from __future__ import annotations

from fastapi import APIRouter

from .app import Site


def routes(site: Site) -> APIRouter:
    """The admin's routes."""
    return APIRouter()
