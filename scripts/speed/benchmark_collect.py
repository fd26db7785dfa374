"""How many ratings a second `captau collect` takes from many raters at once.

    python scripts/speed/benchmark_collect.py [raters=200] [answers=15] [pace=0] [database=FILE]

Raters are played by processes of their own through HTTP, each rater with its own connection, one answer
every `pace` seconds, or as fast as they are answered. A database that is kept starts empty.
Good or bad on the demo's 120 captions; there are two requests a rating. `raters=200 answers=120 pace=5` takes ten minutes.
Exits with status 1 if the database lacks a rating that a rater saw confirmed.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select

from captau.benchmarks.cli.script_options import read_options
from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.simulation import PlayRecord, StudyServer, play_all
from captau.server.collect.store.tables import SCHEMA
from captau.server.collect.store.tables import answers as answer_rows
from captau.server.collect.study import read_study
from captau.server.storage.database import Database

PROCESSES = 2


def play(
    url: str, raters: int, answers: int, pace: float, seed: int
) -> tuple[list[PlayRecord], float]:
    study = read_study("demo_good_bad")  # players go by the captions, which are the demo's
    return play_all(url, study, ["honest"] * raters, answers, seed, reads_feedback=False, pace=pace)


def cpu_seconds(pid: int) -> float | None:
    """What a process has used so far, where the system says so (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    given = read_options(__doc__, ("raters", "answers", "pace", "database"))
    raters, answers = int(given.get("raters", 200)), int(given.get("answers", 15))
    pace = float(given.get("pace", 0))
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.yaml"
        study.write_text(
            "name: load\nprotocol: good_bad\nconsent: a measurement\n"
            "items: {dataset: demo}\nratings: 1000\n"
        )
        database = Path(given.get("database", Path(folder) / "load.sqlite3"))
        server = StudyServer(CollectOptions(study=str(study), database=database))
        context = multiprocessing.get_context("spawn")
        with context.Pool(PROCESSES) as pool:
            jobs = [
                (server.url, raters // PROCESSES, answers, pace, seed) for seed in range(PROCESSES)
            ]
            pool.starmap(time.sleep, [(0.1,)] * PROCESSES)  # they are up
            parts = pool.starmap(play, jobs)
        spent = cpu_seconds(server.process.pid)
        server.stop()
        stored = Database(database, SCHEMA, read_only=True)
        query = select(func.count()).select_from(answer_rows)
        kept = stored.run_blocking(lambda c: c.execute(query).scalar_one())
        stored.close()
    played = [p for part, _ in parts for p in part]
    seconds = max(s for _, s in parts)
    took = sorted(t for p in played for t in p.took)
    done = sum(p.answers for p in played)
    faults = [p.fault for p in played if p.fault]
    at = {share: 1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.95, 0.99)}
    print(
        f"{len(played)} raters, {done:,} ratings in {seconds:.1f} s: {done / seconds:.0f} a second"
    )
    print(f"{len(took):,} requests, {len(took) / seconds:.0f} a second")
    print("latency: " + ", ".join(f"{share:.0%} {ms:.0f} ms" for share, ms in at.items()))
    print(
        f"load average of the last minute: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    if spent is not None:
        print(f"the server's CPU: {1000 * spent / done:.1f} ms a rating, its start included")
    print(f"faults: {len(faults)} {faults[:1]}")
    print(f"lost: {max(0, done - kept):,} of {done:,} confirmed ratings")
    return int(kept < done)


if __name__ == "__main__":
    sys.exit(main())
