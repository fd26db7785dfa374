"""The evaluation server under load: one large submission, and many at once.

    python scripts/speed/benchmark_serve.py [--images 40000] [--users 50] [--folder DIR] [--minutes 0] [--database URL]
        [--visitors 5] [--pause 0.05] [--sign-ups 0]

The challenge has synthetic references, five an image and forty of every eighth image, as the COCO server had
c5 and c40; words are drawn by a fixed seed, as often as in English (Zipf). `captau serve` runs as a process of
its own, with one process that checks and one that evaluates, and the text suite without SPICE
(`metrics=[text]`).

1. One submission for all images, sent as `captau submit` does: seconds until it is found valid, until it is
   scored, and the most memory of any of the server's processes (VmHWM).
2. Many users submit at once, each a file of all images, while others look at pages: seconds until each
   submission is acknowledged, and the time that pages take until all are queued. With `--minutes 10 --images 200`
   each user submits again and again, every half minute or so, and looks at the leaderboard in between.
3. With `--sign-ups 200` as many people create an account at once, while the same visitors look at pages.

`--images 200 --users 20 --visitors 180 --pause 1 --sign-ups 200` is 200 clients of whom 20 submit: each visitor looks at
four pages, rests for a second, and so on. Clients and server share the machine; the load average before and after says
what else did.

Prints a Markdown table; exits with status 1 if a submission is lost, invalid, or counted twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import numpy as np
import requests
from sqlalchemy import Connection, insert, select

from captau.server.challenge.client import ChallengeClient
from captau.server.challenge.members import hash_token
from captau.server.challenge.tables import SCHEMA, accounts, results, submissions, teams, tokens
from captau.server.collect.simulated_browser import Browser
from captau.server.storage.database import Database

#: One image of so many has forty references.
FORTY_REFERENCES_EVERY = 8
PAGES = ("/", "/api/challenges", "/api/challenges/big", "/challenges/big/board")
#: The mean of the seconds from a user's submission to the next, and those after which they look at the leaderboard.
PAUSE, LOOK = 30.0, 7.0


def write_challenge(folder: Path, n_images: int) -> Path:
    """Write references of both sets, two submissions and the challenge's file, which is returned."""
    rng = np.random.default_rng(0)
    words = np.array([make_word(k) for k in range(8000)])
    shares = 1 / (np.arange(len(words)) + 2.7)
    shares /= shares.sum()
    topics = rng.choice(len(words), (n_images, 6), p=shares)

    def make_caption(image: int) -> str:
        length = int(rng.integers(8, 14))
        is_topic = rng.random(length) < 0.4
        topic_words = topics[image, rng.integers(6, size=length)]
        frequent_words = rng.choice(len(words), length, p=shares)
        indices = np.where(is_topic, topic_words, frequent_words)
        return f"A {' '.join(words[indices])}."

    n_forty = n_images // FORTY_REFERENCES_EVERY
    for name, n_captioned, n_references in (("c5", n_images, 5), ("c40", n_forty, 40)):
        references = {
            str(k): [make_caption(k) for _ in range(n_references)] for k in range(n_captioned)
        }
        (folder / f"{name}.json").write_text(json.dumps(references))
    for name in ("single", "concurrent"):
        rows = [{"image_id": k, "caption": make_caption(k)} for k in range(n_images)]
        (folder / f"{name}.json").write_text(json.dumps(rows))
    path = folder / "big.yaml"
    path.write_text(
        "name: big\nkind: captions\nphases: [{name: all}]\nmetrics: [text]\n"
        "references: [{name: c5, file: c5.json}, {name: c40, file: c40.json}]\n"
        "limits: {requests: 100000, uploads: 100000, joins: 100000}\n"
        "visibility: {leaderboard: public}\n"
    )
    return path


def make_word(seed: int) -> str:
    """Return a word of one to four syllables."""
    rng = random.Random(seed)
    n_syllables = rng.randint(1, 4)
    return "".join(rng.choice("bdfglmnprst") + rng.choice("aeiou") for _ in range(n_syllables))


def create_account(database: Database, name: str) -> str:
    """Create an account with a team of its own, and return its token, which is the name."""

    def insert_rows(connection: Connection) -> None:
        team = insert(teams).values(name=name, name_key=name, created_at=1.0).returning(teams.c.id)
        row = {"name": name, "name_key": name, "password": "-", "joined_at": 1.0, "epoch": 0}
        row["team"] = connection.execute(team).scalar_one()
        account = insert(accounts).values(row).returning(accounts.c.id)
        row = {"account": connection.execute(account).scalar_one(), "hash": hash_token(name)}
        connection.execute(insert(tokens).values(**row, label="benchmark", created_at=1.0))

    database.run_blocking(insert_rows)
    return name


def peak_memory(pid: int) -> int:
    """Return the most memory in MB that the process, or one of its children, has used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for t in threads for child in (t / "children").read_text().split()]
    status_texts = [Path(f"/proc/{process}/status").read_text() for process in (pid, *children)]
    return max(int(re.search(r"VmHWM:\s+(\d+)", text)[1]) // 1024 for text in status_texts)


def main() -> int:
    """Start the server, measure it and stop it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=40_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--database", default="site.sqlite3")
    parser.add_argument("--visitors", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--sign-ups", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = write_challenge(folder, options.images)
        code = "from captau.benchmarks.cli.main import main; main()"
        words = [
            "serve",
            f"challenge={path}",
            "port=0",
            f"database={options.database}",
            "files=files",
        ]
        with (folder / "serve.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", code, *words],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            return measure(folder, server, options)
        finally:
            server.terminate()
            server.wait()


def measure(folder: Path, server: subprocess.Popen[bytes], options: argparse.Namespace) -> int:
    """Print the measured times and return the exit status."""
    log = folder / "serve.log"
    while not (match := re.search(r"http://\S+:\d+", log.read_text())):
        if server.poll() is not None:
            print(log.read_text(), file=sys.stderr)
            return 1
        time.sleep(0.1)
    url = match[0]
    database = Database(folder / options.database, SCHEMA, guest=True)
    names = [create_account(database, f"user{k}") for k in range(options.users + 1)]
    client = ChallengeClient(url, names[-1])
    rows = [("load average of the last minute, before", f"{os.getloadavg()[0]:.1f}")]
    rows += measure_single(folder, client, options.images)
    rows.append(("most memory of a process", f"{peak_memory(server.pid):,} MB"))
    load = Load(
        url=url,
        path=folder / "concurrent.json",
        tokens=names[:-1],
        seconds=60 * options.minutes,
        n_visitors=options.visitors,
        pause=options.pause,
    )
    load.run(database)
    rows += load.rows()
    if options.sign_ups:
        newcomers = Newcomers(url, options.sign_ups, options.visitors, options.pause)
        newcomers.run()
        rows += newcomers.rows()
        load.errors += newcomers.errors
    rows.append(("load average of the last minute, after", f"{os.getloadavg()[0]:.1f}"))
    print("| measured | |\n|:--|--:|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    for error, count in Counter(load.errors).items():
        print(f"{count} times: {error}", file=sys.stderr)
    n_lost, n_twice = load.count_faults(database)
    database.close()
    print(
        f"lost: {n_lost} of {len(load.acknowledged):,} acknowledged submissions; scored twice: {n_twice}"
    )
    return int(n_lost > 0 or n_twice > 0 or len(load.acknowledged) < options.users)


def measure_single(folder: Path, client: ChallengeClient, n_images: int) -> list[tuple[str, str]]:
    """Submit one file of all images, and return the names and values of the times that it takes."""
    # Workers read the references once, before the first submission to the challenge.
    began = time.monotonic()
    empty = folder / "empty.json"
    empty.write_text("[]")
    client.wait(client.submit(empty, "big")["id"])
    ready_after = time.monotonic() - began
    began = time.monotonic()
    key = client.submit(folder / "single.json", "big")["id"]
    valid_after = None
    while not (submission := client.submission(key))["done"]:
        if valid_after is None and submission["state"] != "received":
            valid_after = time.monotonic() - began
        time.sleep(0.1)
    scored_after = time.monotonic() - began
    if submission["state"] != "scored":
        raise SystemExit(f"the submission is {submission['state']}: {submission['faults']}")
    valid_after = scored_after if valid_after is None else valid_after
    return [
        ("workers have read the references", f"{ready_after:.1f} s"),
        (f"a submission of {n_images:,} captions is found valid", f"{valid_after:.1f} s"),
        ("it is scored, from then on", f"{scored_after - valid_after:.1f} s"),
    ]


@dataclass(kw_only=True)
class Visitors:
    """Visitors that look at pages.

    Attributes:
        n_visitors: how many look at once.
        pause: seconds for which each rests after all pages.
        page_seconds: the times that pages took.
    """

    url: str
    n_visitors: int
    pause: float
    page_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Let visitors look at pages while the block lasts."""
        threads = [threading.Thread(target=self.look_at_pages) for _ in range(self.n_visitors)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()

    def look_at_pages(self) -> None:
        """Request pages until the load stops."""
        session = requests.Session()
        # Visitors come one after the other.
        self.stopping.wait(random.uniform(0, self.pause))
        while not self.stopping.is_set():
            for page in PAGES:
                self.look_at(session, page)
            self.stopping.wait(self.pause)

    def look_at(self, session: requests.Session, page: str) -> None:
        """Request a page and count the time."""
        began = time.monotonic()
        try:
            status = session.get(self.url + page, timeout=60).status_code
        except requests.RequestException as error:
            status = type(error).__name__
        self.page_seconds.append(time.monotonic() - began)
        if status != 200:
            self.errors.append(f"{page}: status {status}")

    def page_rows(self) -> list[tuple[str, str]]:
        """Return the names and values of the times that pages took."""
        median, high, highest = 1000 * np.quantile(self.page_seconds, [0.5, 0.95, 0.99])
        return [
            (f"pages meanwhile, 95th percentile of {len(self.page_seconds):,}", f"{high:.0f} ms"),
            ("pages meanwhile, median", f"{median:.0f} ms"),
            ("pages meanwhile, 99th percentile", f"{highest:.0f} ms"),
        ]


class Newcomers:
    """People who create accounts at once, while visitors look at pages."""

    def __init__(self, url: str, n_newcomers: int, n_visitors: int, pause: float) -> None:
        self._url = url
        self._n_newcomers = n_newcomers
        self._visitors = Visitors(url=url, n_visitors=n_visitors, pause=pause)
        self._seconds: list[float] = []
        self.errors: list[str] = []

    def run(self) -> None:
        """Create all accounts."""
        threads = []
        for number in range(self._n_newcomers):
            threads.append(threading.Thread(target=self._sign_up, args=(f"newcomer {number}",)))
        with self._visitors.at_work():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.errors += self._visitors.errors

    def _sign_up(self, name: str) -> None:
        browser = Browser(self._url, timeout=600)  # nobody gives up
        password = "a long password"
        began = time.monotonic()
        try:
            fields = {**browser.get("/signup").hidden, "name": name}
            fields |= {"password": password, "again": password}
            page = browser.post("/signup", fields)
        except (OSError, HTTPException) as error:
            self.errors.append(f"sign-up: {type(error).__name__}")
            return
        self._seconds.append(time.monotonic() - began)
        if page.status != 200:
            self.errors.append(f"sign-up: status {page.status}")

    def rows(self) -> list[tuple[str, str]]:
        """Return the names and values of the measured times."""
        median, last = np.quantile(self._seconds, [0.5, 1])
        return [
            (f"{self._n_newcomers} sign up at once, median", f"{median:.1f} s"),
            ("the last is signed up", f"{last:.1f} s"),
            *self._visitors.page_rows(),
        ]


@dataclass(kw_only=True)
class Load(Visitors):
    """Users that submit a file at once, while visitors look at pages.

    Attributes:
        tokens: of the users.
        seconds: for which users submit again; 0 for once each.
        acknowledged: seconds until the acknowledgement, by submission.
        queued_after: seconds until all submissions are checked.
    """

    path: Path
    tokens: list[str]
    seconds: float = 0.0
    acknowledged: dict[str, float] = field(default_factory=dict)
    queued_after: float = 0.0

    def run(self, database: Database) -> None:
        """Submit all files and wait until all are checked."""
        users = [threading.Thread(target=self.submit, args=(token,)) for token in self.tokens]
        began = time.monotonic()
        with self.at_work():
            for thread in users:
                thread.start()
            for thread in users:
                thread.join()
            unchecked = select(submissions.c.id).where(submissions.c.state == "received")
            while database.run_blocking(lambda c: c.execute(unchecked).all()):
                time.sleep(0.5)
            self.queued_after = time.monotonic() - began

    def submit(self, token: str) -> None:
        """Submit the file as a user, and again as long as the load lasts."""
        client, session, rng = (
            ChallengeClient(self.url, token),
            requests.Session(),
            random.Random(token),
        )
        end = time.monotonic() + self.seconds
        if self.seconds:  # not all at the same moment
            time.sleep(rng.uniform(0, min(PAUSE, self.seconds)))
        while True:
            began = time.monotonic()
            try:
                submission = client.submit(self.path, "big")
                self.acknowledged[submission["id"]] = time.monotonic() - began
            except Exception as error:
                self.errors.append(str(error))
            next_at = began + rng.uniform(0.5, 1.5) * PAUSE
            if not self.seconds or next_at > end:
                return
            while (left := next_at - time.monotonic()) > 0:
                time.sleep(min(LOOK, left))
                self.look_at(session, "/challenges/big/board")

    def rows(self) -> list[tuple[str, str]]:
        """Return the names and values of the measured times."""
        n_users, rows = len(self.tokens), self.page_rows()
        if not self.seconds:
            slowest = max(self.acknowledged.values())
            queued = ("all are checked and queued", f"{self.queued_after:.1f} s")
            once = f"{n_users} submit at once: the last is acknowledged"
            return [(once, f"{slowest:.1f} s"), queued, *rows]
        halfway, late = 1000 * np.quantile(list(self.acknowledged.values()), [0.5, 0.99])
        name = f"{n_users} users, {self.seconds / 60:g} min, {len(self.acknowledged):,} submissions"
        return [
            (f"{name}: acknowledged, median", f"{halfway:.0f} ms"),
            ("acknowledged, 99th percentile", f"{late:.0f} ms"),
            *rows,
        ]

    def count_faults(self, database: Database) -> tuple[int, int]:
        """Return the numbers of lost or invalid submissions, and of results beyond one a submission."""
        queries = select(submissions), select(results.c.submission)
        # In one transaction, as workers may be at work still.
        rows, result_rows = database.run_blocking(lambda c: [c.execute(q).all() for q in queries])
        n_results = len(result_rows)
        valid_keys = {row.key for row in rows if row.state != "invalid"}
        n_scored = sum(row.state == "scored" for row in rows)
        return len(set(self.acknowledged) - valid_keys), n_results - n_scored


if __name__ == "__main__":
    raise SystemExit(main())
