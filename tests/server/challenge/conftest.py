"""Small challenges of each kind, and their site on a free port or as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import yaml
from sqlalchemy import insert

from captau.benchmarks.options.sites import ServeOptions
from captau.server.challenge.members import hash_token
from captau.server.challenge.site_opening import open_site
from captau.server.challenge.tables import accounts, teams, tokens
from captau.server.challenge.web.app import make_app
from captau.server.challenge.worker import Worker
from captau.server.challenge.worker_pool import WorkKind
from tests.conftest import serving

#: The private references of the small challenges; tests search for their words in all outputs.
REFERENCES = {
    f"img{k:02}.png": tuple(f"zq{word}{k}ref a {shape} on the left" for word in ("alpha", "beta"))
    for k, shape in enumerate(("square", "circle", "star", "ring", "cross", "cube") * 2)
}
CAPTIONS = [
    (image, f"{text} number {k}")
    for k, image in enumerate(REFERENCES)
    for text in ("a plain square", "<b>bold</b> & 'quoted' “star” 🐕")
]
#: The private ratings: odd numbers that occur nowhere else.
RATINGS = [round(1.0371 + (7 * k % 37) / 9.7, 6) for k in range(len(CAPTIONS))]
UNLIMITED = {"joins": 10_000, "logins": 1000, "requests": 100_000, "uploads": 100_000}


def private_texts():
    """Return the private words of the references, and the ratings as text."""
    words = [word for texts in REFERENCES.values() for text in texts for word in text.split()]
    return [*(word for word in words if "zq" in word), *map(str, RATINGS)]


def write_challenge(folder, kind="captions", name=None, **changes):
    """Write a small challenge into `folder` and return its file."""
    name = name or f"small_{kind}"
    fields = {
        "name": name,
        "title": f"Small {kind}",
        "kind": kind,
        "intro": "A test.",
        "phases": [{"name": "all"}],
        "statistics": {"replicates": 50},
        "limits": UNLIMITED,
    }
    if kind == "captions":
        (folder / "references.json").write_text(json.dumps(REFERENCES))
        first_references = {image: texts[:1] for image, texts in list(REFERENCES.items())[:5]}
        (folder / "few.json").write_text(json.dumps(first_references))
        fields["references"] = [
            {"name": "c2", "file": "references.json"},
            {"name": "c1", "file": "few.json"},
        ]
        fields["metrics"] = ["rouge_l", "cider"]
    else:
        frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"]).assign(score=RATINGS)
        frame.to_csv(folder / "ratings.csv", index=False)
        fields["dataset"] = "file"
        fields["ratings"] = {"path": "ratings.csv", "image": "image_id", "value": "score"}
        fields["protocol"] = {"coefficients": ["tau_b", "pearson"]}
    for key, value in changes.items():
        is_merged = isinstance(value, dict) and key in fields
        fields[key] = {**fields[key], **value} if is_merged else value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def captions_json(**changes):
    """Return a valid submission to the small challenge of captions; `changes` are by image."""
    captions = {i: f"a good {texts[0].split()[2]} on the left" for i, texts in REFERENCES.items()}
    rows = [{"image_id": i, "caption": c} for i, c in {**captions, **changes}.items()]
    return json.dumps(rows)


def scores_csv():
    """Return a valid submission to the small challenge of metrics."""
    frame = pd.DataFrame(CAPTIONS, columns=["image_id", "caption"])
    return frame.assign(score=[len(caption) for _, caption in CAPTIONS]).to_csv(index=False)


def serve_options(folder, **changes):
    """Return the options of `captau serve` for the challenges in `folder`."""
    return ServeOptions(
        **{
            "challenge": str(folder),
            "database": folder / "site.sqlite3",
            "files": folder / "files",
            **changes,
        }
    )


def make_site(folder, kinds=("captions", "metrics"), **changes):
    """Return the site of the small challenges."""
    if not list(folder.glob("*.yaml")):
        for kind in kinds:
            write_challenge(folder, kind)
    return open_site(serve_options(folder, **changes))


def create_account(database, name="somebody", team=None):
    """Create an account with a token, and return the token and the number of its team."""

    def insert_rows(connection):
        team_id = team
        if team_id is None:
            statement = insert(teams).values(name=name, name_key=name, created_at=1.0)
            team_id = connection.execute(statement.returning(teams.c.id)).scalar_one()
        row = {"name": name, "name_key": name, "password": "-", "team": team_id}
        statement = insert(accounts).values(**row, joined_at=1.0, epoch=0)
        account_id = connection.execute(statement.returning(accounts.c.id)).scalar_one()
        token = f"token-of-{name}"
        row = {"account": account_id, "hash": hash_token(token), "label": "test", "created_at": 1.0}
        connection.execute(insert(tokens).values(row))
        return token, team_id

    return database.run_blocking(insert_rows)


def serve_site(site):
    """Serve a site, with its workers, in a context that yields the address."""
    return serving(make_app(site))


def make_manual_worker(folder, site):
    """Return a function that checks and evaluates all submissions that wait, in this process."""
    setup = vars(serve_options(folder))
    workers = [Worker({**setup, "kind": kind, "name": f"manual-{kind}"}) for kind in WorkKind]
    for worker in workers:
        worker.warm_up()

    def work():
        for worker in workers:
            while worker.work():
                pass

    return work


class ServeProcess:
    """`captau serve` as a process; its output goes to a file."""

    def __init__(self, folder, *words, log="serve.log", **environment):
        self.log = folder / log
        code = "from captau.benchmarks.cli.main import main; main()"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, "serve", "port=0", *words],
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        # The dashboard's line is the last before the site answers.
        while not (match := re.search(r"^dashboard: (http://\S+:\d+)/.*\n", self.output, re.M)):
            assert self._process.poll() is None, self.output
            time.sleep(0.05)
        self.url = match[1]

    @property
    def output(self):
        """Return what the process printed."""
        return self.log.read_text(encoding="utf-8")

    @property
    def worker_pids(self):
        """Return the processes of the workers."""
        pids = []
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
                pids += (thread / "children").read_text(encoding="ascii").split()
        return [int(pid) for pid in pids]

    def kill(self):
        """End the process by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self):
        """End the process by SIGTERM."""
        self._process.terminate()
        self._process.wait()


@pytest.fixture
def start_serve(tmp_path):
    """Return a function that starts `captau serve`, which ends with the test."""
    processes = []

    def start(*words, **options):
        processes.append(ServeProcess(tmp_path, *words, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()
