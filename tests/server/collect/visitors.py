"""Visitors of a study site that several tests need."""

from __future__ import annotations

from sqlalchemy import select

from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.store.tables import serves


def load_rows(site):
    return site.store.database.run_blocking(site.store.load_rows)


def finish_tutorial(url, nickname=""):
    """Return the browser of a player who has finished the tutorial of two pairs."""
    browser = join_study(url, nickname)
    for _ in range(2):
        browser.post("/rate", {**browser.get("/rate").hidden, "rating": 4})
    return browser


def open_unit_id(site):
    query = select(serves.c.unit).where(serves.c.answered_at.is_(None))
    return site.store.database.run_blocking(lambda c: c.execute(query).scalar_one())


def sign_in_admin(site, url, password="correct horse battery"):
    admin = Browser(url)
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    dashboard = admin.post("/admin/setup", {**page.hidden, "password": password, "again": password})
    assert dashboard.heading == "Dashboard"
    return admin
