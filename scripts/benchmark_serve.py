"""The evaluation server under load: one large submission, and many at once.

    python scripts/benchmark_serve.py [--images 40000] [--users 50] [--folder DIR]

A challenge of made-up references, five an image and forty of every eighth image, as the COCO server had
c5 and c40; words by a fixed seed, as often as in English (Zipf). `captau serve` runs as a process of its own,
with one process that checks and one that evaluates, and the text suite without SPICE (`metrics=[text]`).

1. One submission for all images, sent as `captau submit` does: seconds until it is found valid, until it
   is scored, and the most memory of any of the server's processes (VmHWM).
2. As many users as are asked for submit at once, each a file of all images, while others look at pages:
   seconds until each is acknowledged, and how long pages took until all are queued.

Prints a Markdown table; exits with status 1 where a submission is lost, not valid, or counted twice.
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
from pathlib import Path

import numpy as np
import requests
from sqlalchemy import Connection, insert, select

from captau.server.challenge.accounts.secret_codes import hash_token
from captau.server.challenge.client import Client
from captau.server.challenge.migrations import FOLDER
from captau.server.challenge.tables import accounts, results, submissions, teams, tokens
from captau.server.storage.database import Database

#: The share of images that have forty references.
FORTY = 8
PAGES = ("/", "/api/challenges", "/api/challenges/big")


def write_challenge(folder: Path, images: int) -> Path:
    """References of both sets and the challenge's file."""
    rng = np.random.default_rng(0)
    words = np.array([_word(k) for k in range(8000)])
    shares = 1 / (np.arange(len(words)) + 2.7)
    shares /= shares.sum()
    topics = rng.choice(len(words), (images, 6), p=shares)

    def said(image: int) -> str:
        length = int(rng.integers(8, 14))
        of = np.where(
            rng.random(length) < 0.4,
            topics[image, rng.integers(6, size=length)],
            rng.choice(len(words), length, p=shares),
        )
        return "A " + " ".join(words[of]) + "."

    c5 = {str(k): [said(k) for _ in range(5)] for k in range(images)}
    c40 = {str(k): [said(k) for _ in range(40)] for k in range(images // FORTY)}
    for name, table in (("c5", c5), ("c40", c40)):
        (folder / f"{name}.json").write_text(json.dumps(table))
    for user in ("one", "many"):
        rows = [{"image_id": k, "caption": said(k)} for k in range(images)]
        (folder / f"{user}.json").write_text(json.dumps(rows))
    path = folder / "big.yaml"
    path.write_text(
        "name: big\nkind: captions\nphases: [{name: all}]\nmetrics: [text]\n"
        "references: [{name: c5, file: c5.json}, {name: c40, file: c40.json}]\n"
        "limits: {requests: 100000}\n"
    )
    return path


def _word(number: int) -> str:
    """A made-up word."""
    rng = random.Random(number)
    return "".join(
        rng.choice("bdfglmnprst") + rng.choice("aeiou") for _ in range(rng.randint(1, 4))
    )


def new_account(database: Database, name: str) -> str:
    """A token of an account with a team of its own."""

    def work(c: Connection) -> None:
        made = insert(teams).values(name=name, name_key=name, created_at=1.0)
        team = c.execute(made.returning(teams.c.id)).scalar_one()
        row = {"name": name, "name_key": name, "password": "-", "team": team, "joined_at": 1.0}
        account = c.execute(insert(accounts).values(**row, epoch=0).returning(accounts.c.id))
        row = {"account": account.scalar_one(), "hash": hash_token(name), "label": "benchmark"}
        c.execute(insert(tokens).values(**row, created_at=1.0))

    database.run_blocking(work)
    return name


def memory(process: int) -> int:
    """The most memory of a process and its children, each by itself, in MB."""
    found = []
    for pid in [process, *children(process)]:
        text = Path(f"/proc/{pid}/status").read_text()
        found.append(int(re.search(r"VmHWM:\s+(\d+)", text)[1]) // 1024)
    return max(found)


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(pid) for t in tasks for pid in (t / "children").read_text().split()]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=40_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        path = write_challenge(folder, options.images)
        code = "from captau.benchmarks.cli.main import main; main()"
        words = ["serve", f"challenge={path}", "port=0", "database=site.sqlite3"]
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
    log = folder / "serve.log"
    while not (found := re.search(r"http://\S+:\d+", log.read_text())):
        if server.poll() is not None:
            print(log.read_text(), file=sys.stderr)
            return 1
        time.sleep(0.1)
    url = found[0]
    database = Database(str(folder / "site.sqlite3"), FOLDER, "captau serve", guest=True)
    names = [new_account(database, f"user{k}") for k in range(options.users + 1)]
    # Until the workers have read the references: the first start of a challenge alone waits for it.
    began = time.monotonic()
    warm = folder / "warm.json"
    warm.write_text("[]")
    client = Client(url, names[-1])
    client.wait(client.submit(warm, "big")["id"])
    ready = time.monotonic() - began

    sent = time.monotonic()
    key = client.submit(folder / "one.json", "big")["id"]
    valid = scored = 0.0
    while not scored:
        state = client.submission(key)
        now = time.monotonic() - sent
        if state["state"] == "invalid":
            print(state["faults"], file=sys.stderr)
            return 1
        valid = valid or (now if state["state"] != "received" else 0.0)
        scored = now if state["done"] else 0.0
        time.sleep(0.1)
    rows = [
        ("workers have read the references", f"{ready:.1f} s"),
        (f"a submission of {options.images:,} captions is found valid", f"{valid:.1f} s"),
        ("it is scored, from then on", f"{scored - valid:.1f} s"),
        ("most memory of a process", f"{memory(server.pid):,} MB"),
    ]

    took: list[float] = []
    acknowledged: dict[str, float] = {}
    faults: list[str] = []
    stop = threading.Event()

    def look() -> None:
        session = requests.Session()
        while not stop.is_set():
            for page in PAGES:
                began = time.monotonic()
                answer = session.get(url + page, timeout=60)
                took.append(time.monotonic() - began)
                if answer.status_code != 200:
                    faults.append(f"{page}: status {answer.status_code}")
            time.sleep(0.05)

    def send(name: str) -> None:
        began = time.monotonic()
        try:
            found = Client(url, name).submit(folder / "many.json", "big")
            acknowledged[found["id"]] = time.monotonic() - began
        except Exception as error:
            faults.append(str(error))

    lookers = [threading.Thread(target=look) for _ in range(5)]
    senders = [threading.Thread(target=send, args=(name,)) for name in names[:-1]]
    began = time.monotonic()
    for thread in (*lookers, *senders):
        thread.start()
    for thread in senders:
        thread.join()
    waits = select(submissions.c.id).where(submissions.c.state == "received")
    while database.run_blocking(lambda c: c.execute(waits).all()):
        time.sleep(0.5)
    queued = time.monotonic() - began
    stop.set()
    for thread in lookers:
        thread.join()
    known = {
        row.key: row
        for row in database.run_blocking(lambda c: c.execute(select(submissions)).all())
    }
    lost = [k for k in acknowledged if k not in known or known[k].state == "invalid"]
    twice = len(
        database.run_blocking(lambda c: c.execute(select(results.c.submission)).all())
    ) - len({row.id for row in known.values() if row.state == "scored"})
    rows += [
        (
            f"{options.users} submit at once: the last is acknowledged",
            f"{max(acknowledged.values()):.1f} s",
        ),
        ("all are checked and queued", f"{queued:.1f} s"),
        (
            f"pages meanwhile, 95th percentile of {len(took):,}",
            f"{1000 * np.quantile(took, 0.95):.0f} ms",
        ),
        ("pages meanwhile, median", f"{1000 * np.median(took):.0f} ms"),
    ]
    print("| measured | |\n|:--|--:|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    database.close()
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    if lost or twice or len(acknowledged) < options.users:
        print(f"lost: {len(lost)}, twice: {twice}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
