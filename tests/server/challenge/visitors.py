"""A small site without workers, those who visit it, and submissions as workers leave them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import yaml

from captau.server.collect.simulate import Browser

PASSWORD = "correct horse battery"
IMAGES = [f"p{k}.png" for k in range(6)]
#: What no page, answer or message may show.
REFERENCES = {
    "c2": {i: [f"zyxreference {i} one", f"a zyxsecret thing in {i}"] for i in IMAGES},
    "c5": {i: [f"zyxreference {i} number {k}" for k in range(5)] for i in IMAGES},
}


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch):
    """Argon2 at its cheapest: here it is not what is tested."""
    from argon2 import PasswordHasher

    from captau.server.web import passwords

    monkeypatch.setattr(
        passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    )


def write_challenge(folder, name="small", **changes):
    """A challenge of captions of six images in `folder`; returns its file."""
    for which, texts in REFERENCES.items():
        (folder / f"{which}.json").write_text(json.dumps(texts), encoding="utf-8")
    challenge = {
        "name": name,
        "title": f"The {name} challenge",
        "kind": "captions",
        "intro": "Describe.\n\nIn one sentence.",
        "phases": [{"name": "test", "per_day": 2, "in_all": 3}],
        "references": [{"name": n, "file": f"{n}.json"} for n in REFERENCES],
        "metrics": ["rouge_l", "cider"],
        "limits": {"joins": 10_000, "logins": 1000, "requests": 10_000},
    }
    for key, value in changes.items():
        if isinstance(value, dict):
            challenge[key] = {**challenge.get(key, {}), **value}
        else:
            challenge[key] = value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(challenge, allow_unicode=True), encoding="utf-8")
    return path


def make_site(folder, *paths, address=None):
    """The site of some challenges, on a database beside them, without workers."""
    from captau.server.challenge.definition_file import read_challenges
    from captau.server.challenge.migrations import FOLDER
    from captau.server.challenge.submission_store import Store
    from captau.server.challenge.web.app import Site
    from captau.server.storage.database import Database

    challenges = read_challenges([str(p) for p in paths] or [str(write_challenge(folder))])
    database = Database(str(folder / "site.sqlite3"), FOLDER, "captau serve")
    return Site(Store(database, challenges, folder / "files"), address=address)


class Visitor(Browser):
    """Somebody with a browser."""

    codes: list[str]
    name: str

    def send(self, path, follow=True, page="/account", **fields):
        """A form of a page, sent with its token."""
        return self.post(path, {"token": self.token(page), **fields}, follow=follow)

    def token(self, page="/account"):
        return self.get(page).hidden.get("token", "")

    def sign_up(self, name, team="", code="", password=PASSWORD):
        fields = {"name": name, "team": team, "code": code}
        fields |= {"password": password, "again": password}
        page = self.send("/signup", page="/signup", **fields)
        self.name = name
        self.codes = re.findall(r"^(?:<pre[^>]*>)?((?:\w{5}-){3}\w{5})$", page.text, re.M)
        return page

    def sign_in(self, name, password=PASSWORD):
        return self.send("/signin", page="/signin", name=name, password=password)

    def upload(self, challenge, name, content, token=None, **fields):
        """A file, as a browser's form sends it: status, headers, body."""
        if token is None:
            token = self.token(f"/challenges/{challenge}/submit")
        body, kind = multipart({"token": token, **fields}, name, content)
        path = f"/challenges/{challenge}/submissions"
        return self.raw("POST", path, body, **{"content-type": kind})


def multipart(fields, name, content):
    """A form with a file as bytes, and its kind."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
        for k, v in fields.items()
    ]
    if name is not None:
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(f"{head}Content-Type: application/json\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + b"--x--\r\n", "multipart/form-data; boundary=x"


def good(images=IMAGES):
    """A submission without a fault."""
    return json.dumps([{"image_id": i, "caption": f"a thing in {i}"} for i in images]).encode()


def signed_in_admin(site, url):
    """Whoever runs the site, their password chosen now."""
    admin = Visitor(url)
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    fields = {**page.hidden, "password": PASSWORD, "again": PASSWORD}
    assert admin.post("/admin/setup", fields).heading == "Dashboard"
    return admin


def key_of(uploaded):
    """The key of a submission, from the answer to its upload."""
    status, headers, body = uploaded
    assert status == 303, (status, body[-600:])
    return headers["location"].rsplit("/", 1)[1]


def row_of(site, key):
    from captau.server.challenge.submission_store import found_in
    from captau.server.challenge.tables import submissions

    (found,) = site.store.database.run_blocking(lambda c: found_in(c, submissions.c.key == key))
    return found


def judge(site, key, faults=(), worker="w"):
    """What the worker that checks does with its verdict."""
    number = row_of(site, key).id
    store = site.store
    store.database.run_blocking(lambda c: store.claim(c, number, worker, "received"))
    summary = "not valid" if faults else "valid: 6 captions"
    store.database.run_blocking(
        lambda c: store.checked(c, number, worker, list(faults), len(faults), summary)
    )


def begin(site, key, worker="w"):
    """What the worker that evaluates does first."""
    number = row_of(site, key).id
    store = site.store
    assert store.database.run_blocking(lambda c: store.claim(c, number, worker, "queued"))
    return number


def score(site, key, value=0.5, **drawn):
    """A submission found valid, and scored as `finish` does."""
    judge(site, key)
    begin(site, key)
    finish(site, key, value, **drawn)


def finish(site, key, value, worker="w", spread=0.001, seed=0, backend="x"):
    """What was begun is scored: `value` by every metric, its drawn scores around it."""
    import pandas as pd

    from captau.server.challenge.evaluation.evaluator import pack, packed

    number = row_of(site, key).id
    challenge = site.store.challenge(row_of(site, key).challenge)
    specs = [m.spec for m in challenge.chosen]
    sets = [r.name for r in challenge.references]
    rows = [
        {
            "references": name,
            "metric": spec,
            "value": value,
            "ci_low": value - 0.012345678,
            "ci_high": value + 0.012345678,
            "n": 6,
            "note": "",
        }
        for name in sets
        for spec in specs
    ]
    rng = np.random.default_rng(seed)
    drawn = {(n, s): value + rng.normal(0, spread, 200) for n in sets for s in specs}
    items = pd.DataFrame({"image_id": IMAGES})
    for column in (f"{spec}@{name}" for spec in specs for name in sets):
        items[column] = np.linspace(0, 1, 6)
    folder = site.store.folder / key
    (folder / "drawn.parquet").write_bytes(pack(drawn))
    (folder / "items.parquet").write_bytes(packed(items))
    run = {"signatures": {s: f"{s}|backend:{backend}" for s in specs}, "captau": "1.2.3"}
    result = {"seconds": 1.0, "digest": "d", "scores": rows, "run": run}
    store = site.store
    assert store.database.run_blocking(lambda c: store.finish(c, number, worker, result))
