"""A small site without workers, its visitors, and submissions in the states that workers leave them in."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest
import yaml
from argon2 import PasswordHasher
from sqlalchemy import select

from captau.benchmarks.commands.validate import Verdict
from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.site import Site
from captau.server.challenge.store_opening import open_store
from captau.server.challenge.submission_files import write_item_scores, write_replicates
from captau.server.challenge.submission_lifecycle import SubmissionLifecycle
from captau.server.challenge.submissions import select_submissions
from captau.server.challenge.tables import SCHEMA, submissions
from captau.server.collect.simulated_browser import Browser
from captau.server.storage.database import Database
from captau.server.web import passwords
from tests.server.challenge.conftest import serve_site

PASSWORD = "correct horse battery"
IMAGES = [f"p{k}.png" for k in range(6)]
#: Private texts that no page, answer or message may show.
REFERENCES = {
    "c2": {i: [f"zyxreference {i} one", f"a zyxsecret thing in {i}"] for i in IMAGES},
    "c5": {i: [f"zyxreference {i} number {k}" for k in range(5)] for i in IMAGES},
}
#: An invitation or recovery code, and a token.
CODE = re.compile(r"(?:\w{5}-){3}\w{5}")
TOKEN = re.compile(r"captau_[\w-]{32}")


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch):
    """Make Argon2 as cheap as possible, since it is not tested here."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", hasher)


@pytest.fixture
def serve_small(tmp_path):
    """Return a function that serves a small challenge until the test ends, and returns site and address."""
    with ExitStack() as stack:

        def serve(*paths, address=None, **changes):
            paths = paths or (write_challenge(tmp_path, **changes),)
            site = make_site(tmp_path, *paths, address=address)
            return site, stack.enter_context(serve_site(site))

        yield serve


def write_challenge(folder, name="small", **changes):
    """Write a challenge of captions of six images into `folder` and return its file."""
    for reference_set, texts in REFERENCES.items():
        (folder / f"{reference_set}.json").write_text(json.dumps(texts), encoding="utf-8")
    fields = {
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
        fields[key] = {**fields.get(key, {}), **value} if isinstance(value, dict) else value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(fields, allow_unicode=True), encoding="utf-8")
    return path


def make_site(folder, *paths, **options):
    """Return the site of some challenges, on a database beside them, without workers."""
    challenges = read_challenges([str(p) for p in paths] or [str(write_challenge(folder))])
    database = Database(folder / "site.sqlite3", SCHEMA)
    return Site(open_store(database, challenges, folder / "files"), **options)


class Visitor(Browser):
    """A visitor with a browser."""

    codes: list[str]
    name: str

    def send(self, path, follow=True, page="/account", **fields):
        """Send a form with the token of a page."""
        return self.post(path, {"token": self.token(page), **fields}, follow=follow)

    def token(self, page="/account"):
        """Return the token of a page's form."""
        return self.get(page).hidden.get("token", "")

    def sign_up(self, name, team="", code="", password=PASSWORD):
        """Create an account, and keep its recovery codes."""
        fields = {"name": name, "team": team, "code": code}
        fields |= {"password": password, "again": password}
        page = self.send("/signup", page="/signup", **fields)
        self.name = name
        self.codes = re.findall(rf"^(?:<pre[^>]*>)?({CODE.pattern})$", page.text, re.M)
        return page

    def sign_in(self, name, password=PASSWORD):
        """Send the form of name and password."""
        return self.send("/signin", page="/signin", name=name, password=password)

    def create_token(self, label=""):
        """Return a new token for programs."""
        return TOKEN.search(self.send("/account/tokens", label=label).text)[0]

    def create_invitation(self):
        """Return a new invitation code of the team."""
        return CODE.search(self.send("/team/invite").text)[0]

    def upload(self, challenge, name, content, token=None, **fields):
        """Send a file as a browser's form does; returns status, headers and body."""
        if token is None:
            token = self.token(f"/challenges/{challenge}/submit")
        body, content_type = multipart({"token": token, **fields}, name, content)
        path = f"/challenges/{challenge}/submissions"
        return self.raw("POST", path, body, **{"content-type": content_type})


def sign_up(url, name, **fields):
    """Return a visitor with a new account."""
    visitor = Visitor(url)
    page = visitor.sign_up(name, **fields)
    assert page.status == 200, page.text
    return visitor


def sign_up_admin(site, url):
    """Return the admin, whose password is set now."""
    admin = Visitor(url)
    page = admin.get(f"/admin/setup?code={site.setup_code}")
    fields = {**page.hidden, "password": PASSWORD, "again": PASSWORD}
    assert admin.post("/admin/setup", fields).heading == "Dashboard"
    return admin


def multipart(fields, name, content):
    """Return a form with a file as bytes, and its content type."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
        for k, v in fields.items()
    ]
    if name is not None:
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(f"{head}Content-Type: application/json\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + b"--x--\r\n", "multipart/form-data; boundary=x"


def valid_captions():
    """Return a submission without faults."""
    return json.dumps([{"image_id": i, "caption": f"a thing in {i}"} for i in IMAGES]).encode()


def submission_key(response):
    """Return the key of a submission from the response to its upload."""
    status, headers, body = response
    assert status == 303, (status, body[-600:])
    return headers["location"].rsplit("/", 1)[1]


def load_table(site, table):
    """Return all rows of a table."""
    rows = site.store.database.run_blocking(lambda c: c.execute(select(table)).mappings().all())
    return [dict(row) for row in rows]


def load_submission(site, key):
    """Return a submission of the database."""
    condition = submissions.c.key == key
    (submission,) = site.store.database.run_blocking(lambda c: select_submissions(c, condition))
    return submission


def record_verdict(site, key, faults=(), worker="w"):
    """Record a verdict as the worker that checks does."""
    number = load_submission(site, key).id
    lifecycle = SubmissionLifecycle(site.store)
    assert lifecycle.claim_next(worker, "received").id == number
    summary = "not valid" if faults else "valid: 6 captions"
    lifecycle.record_verdict(number, worker, Verdict(list(faults), len(faults), summary))


def begin_evaluation(site, key, worker="w"):
    """Claim a submission as the worker that evaluates does, and return its number."""
    number = load_submission(site, key).id
    assert SubmissionLifecycle(site.store).claim_next(worker, "queued").id == number
    return number


def score(site, key, value=0.5, **options):
    """Find a submission valid and score it as `finish_evaluation` does."""
    record_verdict(site, key)
    begin_evaluation(site, key)
    finish_evaluation(site, key, value, **options)


def finish_evaluation(site, key, value, worker="w", spread=0.001, seed=0, backend="x"):
    """Record the score `value` by every metric, with bootstrap replicates around it."""
    number = load_submission(site, key).id
    challenge = site.store.get_challenge(load_submission(site, key).challenge)
    specs = [metric.spec for metric in challenge.metrics]
    reference_sets = [references.name for references in challenge.reference_sets]
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
        for name in reference_sets
        for spec in specs
    ]
    rng = np.random.default_rng(seed)
    replicates = {
        (name, spec): value + rng.normal(0, spread, 200)
        for name in reference_sets
        for spec in specs
    }
    items = pd.DataFrame({"image_id": IMAGES})
    for column in (f"{spec}@{name}" for spec in specs for name in reference_sets):
        items[column] = np.linspace(0, 1, 6)
    folder = site.store.folder / key
    write_replicates(folder, replicates)
    write_item_scores(folder, items)
    signatures = {spec: f"{spec}|backend:{backend}" for spec in specs}
    run = {"signatures": signatures, "captau": "1.2.3"}
    result = {"seconds": 1.0, "digest": "d", "scores": rows, "run": run}
    assert SubmissionLifecycle(site.store).record_result(number, worker, result)


def score_three_teams(site, url):
    """Score Reds with two submissions, Blues with one as good as theirs, Greens far behind."""
    visitors = {}
    for name, values in (("Reds", (0.6, 0.8)), ("Blues", (0.799,)), ("Greens", (0.2,))):
        visitors[name] = sign_up(url, f"of {name}", team=name)
        for n, value in enumerate(values):
            content = valid_captions()
            response = visitors[name].upload("small", "r.json", content, system=f"{name} {n}")
            seed = len(visitors) + 10 * n
            score(site, submission_key(response), value, spread=0.02, seed=seed)
    return visitors


def read_tables(text):
    """Return the rows of all tables of a page, each as the texts of its cells."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, re.S)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows]
    return [tuple(" ".join(re.sub("<[^>]+>", " ", c).split()) for c in row) for row in cells]


def read_board(text):
    """Return rank (or place, without tests), team and system of each row of a leaderboard's page."""
    body = re.search(r"<table class=\"board\">.*?<tbody>(.*?)</tbody>", text, re.S)[1]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in body.split("</tr>")]
    rows = [[re.sub("<[^>]+>", "\t", c).strip() for c in row] for row in cells if row]
    # The system stands above its team, and that above the time.
    return [(r[0], *re.split(r"\t+", r[1])[1::-1]) if r[1:] else (r[0],) for r in rows]
