"""Small challenges of each kind, and their site on a free port."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from sqlalchemy import insert

from captau.server.challenge.commands import open_site
from captau.server.challenge.submission_store import token_hash
from captau.server.challenge.tables import accounts, teams, tokens
from captau.server.challenge.workers.work_queue import KINDS
from tests.conftest import serving

#: References and ratings of the small challenges; a test looks for each word of them in all that is told.
REFERENCES = {
    f"img{k:02}.png": tuple(f"zq{word}{k}ref a {shape} on the left" for word in ("alpha", "beta"))
    for k, shape in enumerate(("square", "circle", "star", "ring", "cross", "cube") * 2)
}
CAPTIONS = [
    (image, f"{text} number {k}")
    for k, image in enumerate(REFERENCES)
    for text in ("a plain square", "<b>bold</b> & 'quoted' “star” 🐕")
]
#: Odd numbers, which nothing else has.
RATINGS = [round(1.0371 + (7 * k % 37) / 9.7, 6) for k in range(len(CAPTIONS))]
FREE = {"joins": 10_000, "logins": 1000, "requests": 100_000, "uploads": 100_000}


def write_challenge(folder, kind="captions", name=None, **changes):
    """A small challenge in `folder`; returns its file."""
    name = name or f"small_{kind}"
    text = {
        "name": name,
        "title": f"Small {kind}",
        "kind": kind,
        "intro": "A test.",
        "phases": [{"name": "all"}],
        "statistics": {"replicates": 50},
        "limits": FREE,
    }
    if kind == "captions":
        (folder / "references.json").write_text(json.dumps(REFERENCES))
        one = {k: v[:1] for k, v in list(REFERENCES.items())[:5]}
        (folder / "few.json").write_text(json.dumps(one))
        text["references"] = [
            {"name": "c2", "file": "references.json"},
            {"name": "c1", "file": "few.json"},
        ]
        text["metrics"] = ["rouge_l", "cider"]
    else:
        frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"]).assign(score=RATINGS)
        frame.to_csv(folder / "ratings.csv", index=False)
        text["dataset"] = "file"
        text["ratings"] = {"path": "ratings.csv", "image": "image_id", "value": "score"}
        text["protocol"] = {"coefficients": ["tau_b", "pearson"]}
    for key, value in changes.items():
        text[key] = {**text[key], **value} if isinstance(value, dict) and key in text else value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(text, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def captions(**changes):
    """A valid submission to the small challenge of captions; `changes` by image."""
    rows = {i: f"a good {refs[0].split()[2]} on the left" for i, refs in REFERENCES.items()}
    return json.dumps([{"image_id": i, "caption": c} for i, c in {**rows, **changes}.items()])


def scores(shift=0.0):
    """A valid submission to the small challenge of metrics."""
    frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"])
    return frame.assign(score=[len(c) + shift * k for k, (_, c) in enumerate(CAPTIONS)]).to_csv(
        index=False
    )


def options_of(folder, challenge=None, **changes):
    """The options of `captau serve` for the challenges in `folder`."""
    return {
        "challenge": str(challenge or folder),
        "title": None,
        "database": str(folder / "site.sqlite3"),
        "files": str(folder / "kept"),
        "queue": None,
        "workers": 1,
        "rescore": False,
        "url": None,
        "data": {"root": None},
        **changes,
    }


def make_site(folder, kinds=("captions", "metrics"), **changes):
    """The site of small challenges."""
    if not list(folder.glob("*.yaml")):
        for kind in kinds:
            write_challenge(folder, kind)
    return open_site(options_of(folder, **changes))


def new_account(database, name="somebody", team=None):
    """An account with a token, of a team of its own; returns the token and the team's number."""

    def work(c):
        number = team
        if number is None:
            made = insert(teams).values(name=name, name_key=name, created_at=1.0)
            number = c.execute(made.returning(teams.c.id)).scalar_one()
        row = {"name": name, "name_key": name, "password": "-", "team": number}
        made = insert(accounts).values(**row, joined_at=1.0, epoch=0)
        account = c.execute(made.returning(accounts.c.id)).scalar_one()
        token = f"token-of-{name}"
        c.execute(
            insert(tokens).values(
                account=account, hash=token_hash(token), label="test", created_at=1.0
            )
        )
        return token, number

    return database.run_blocking(work)


def running(site):
    """A server of the site, with its workers; the address is what is given."""
    from captau.server.challenge.web.app import make_app

    return serving(make_app(site))


def by_hand(folder, site, **changes):
    """A function that checks and evaluates all that waits, in this process."""
    from captau.server.challenge.workers.worker import Worker

    setup = {k: v for k, v in options_of(folder, **changes).items() if k != "data"}
    setup |= {"data_root": None, "queue": str(folder / "kept" / "queue.sqlite3")}
    both = {k: Worker({**setup, "kind": k, "name": f"by-hand-{k}"}) for k in KINDS}
    for worker in both.values():
        worker.warm()

    def work():
        for kind, state in (("check", "received"), ("evaluate", "queued")):
            for number in site.store.database.run_blocking(site.store.waiting)[state]:
                both[kind].work(number)

    return work


class Served:
    """`captau serve` as a process of its own; what it says goes to a file."""

    def __init__(self, folder, *words, log="serve.log", **environment):
        self.log = folder / log
        code = "from captau.benchmarks.cli.main import main; main()"
        with self.log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, "serve", "port=0", *words],
                cwd=folder,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        while not (found := re.search(r"http://\S+:\d+", self.said)):
            assert self._process.poll() is None, self.said
            time.sleep(0.05)
        self.url = found[0]

    @property
    def said(self):
        return self.log.read_text(encoding="utf-8")

    @property
    def children(self):
        """The processes of the workers."""
        found = []
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            found += (thread / "children").read_text(encoding="ascii").split()
        return [int(pid) for pid in found]

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait()


@pytest.fixture
def served(tmp_path):
    """A function that starts `captau serve` in a folder; it ends with the test."""
    started = []

    def serve(*words, folder=tmp_path, **more):
        started.append(Served(folder, *words, **more))
        return started[-1]

    yield serve
    for one in started:
        one.stop()
