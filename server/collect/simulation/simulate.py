"""`captau collect simulate`: simulated raters, the points that each kind wins, and the server's speed."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ....benchmarks.options.collect import SimulateOptions
from ....benchmarks.runs.output_folder import OutputFolder
from ....benchmarks.runs.tables import ResultTable, markdown_of
from ....datasets.errors import InputError, unknown
from ..study.study_file import read_study
from .players import NOISE, PLAYER_KINDS, PlayRecord, play_all
from .server_process import StudyServer

#: The players by default.
DEFAULT_PLAYERS = {"honest": 12, "careless": 4, "random": 4, "constant": 4, "majority": 4}


@dataclass(frozen=True)
class SimulationReport:
    """The text of a simulation for the terminal, and the fault of players that were stopped, if any."""

    text: str
    fault: str


def run_simulation(options: SimulateOptions) -> SimulationReport:
    """Run players, and write what they did to an output folder.

    Args:
        options: those of `captau collect simulate`.

    Raises:
        InputError: on an unknown kind of players, or a fault of the study.
    """
    players = options.players
    kinds = list_players(DEFAULT_PLAYERS if players is None else players)
    if not 1 <= options.answers <= 100_000:
        raise InputError(f"answers={options.answers}: a number from 1 on is expected")
    study = read_study(options.study, options.data_root)
    study = replace(study, form=study.form.with_wait(options.wait))
    if study.participants != "open":
        raise InputError(
            f"study {study.name}: participants is {study.participants}; simulated participants need open"
        )
    with (
        OutputFolder(options.output_dir, "collect-simulate") as folder,
        tempfile.TemporaryDirectory() as scratch,
    ):
        database = options.database or str(Path(scratch) / "study.sqlite3")
        server = StudyServer(replace(options.site_options(), database=database), options.wait)
        try:
            records, seconds = play_all(server.url, study, kinds, options.answers, options.seed)
        finally:
            server.stop()
        tables = [_points_table(records), _speed_table(records, seconds)]
        run = {
            "command": "collect simulate",
            "study": study.name,
            "players": dict(Counter(kinds)),
            "answers": options.answers,
            "wait": options.wait,
            "seed": options.seed,
            "noise": NOISE,
            "seconds": round(seconds, 3),
            "played": [{k: v for k, v in asdict(r).items() if k != "took"} for r in records],
        }
        folder.write(
            {
                "table.md": "\n\n".join(map(markdown_of, tables)).encode() + b"\n",
                "run.json": json.dumps(run, indent=1).encode() + b"\n",
            }
        )
    lines = ["\n\n".join(map(markdown_of, tables)), f"\nwritten to {folder.path}"]
    if options.database:
        lines.append(f"the answers are in {options.database}")
    faults = [record.fault for record in records if record.fault]
    summary = f"{len(faults)} of {len(records)} players were stopped: {faults[0]}" if faults else ""
    return SimulationReport("\n".join(lines), summary)


def list_players(counts: Any) -> list[str]:
    """Return the kind of each player, from the number of players by kind.

    Raises:
        InputError: on an unknown kind, or a number that is none.
    """
    if not isinstance(counts, dict) or not counts:
        raise InputError(f"players={counts}: {{honest: 10, random: 5}} is expected")
    for kind, count in counts.items():
        if kind not in PLAYER_KINDS:
            raise unknown("kind of player", str(kind), PLAYER_KINDS)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000:
            raise InputError(f"players.{kind}={count}: a whole number is expected")
    players = [kind for kind, count in counts.items() for _ in range(count)]
    if not players:
        raise InputError("players: none")
    return players


def _points_table(records: Sequence[PlayRecord]) -> ResultTable:
    """Return each kind's players and answers; of a game the mean points of an answer, and how many passed the trial."""
    has_points = any(record.scores for record in records)
    rows: list[tuple[str, list[str]]] = []
    for kind in dict.fromkeys(r.kind for r in records):
        group = [r for r in records if r.kind == kind]
        turns = [turn for r in group for turn in r.turns if turn.startswith("trial_")]
        n_passed = f"{turns.count('trial_passed')} of {len(turns)}" if turns else ""
        cells = [str(len(group)), str(sum(r.answers for r in group))]
        if has_points:
            cells += [_mean_score(group, phase) for phase in ("tutorial", "playing", "probation")]
            cells.append(n_passed)
        rows.append((kind, cells))
    columns = ["players", "answers"]
    if not has_points:
        return ResultTable("Simulated raters", "kind", columns, rows)
    columns += ["points: tutorial", "game", "practice", "passed"]
    note = (
        "Points: the mean of an answer's, by Algorithm 1 of Scott et al. 2023. Passed: had the points "
        "that the first pairs ask for."
    )
    return ResultTable("What players were paid", "kind", columns, rows, notes=[note])


def _mean_score(records: Sequence[PlayRecord], phase: str) -> str:
    scores = [score for r in records for score in r.scores.get(phase, ())]
    return f"{fmean(scores):.2f}" if scores else ""


def _speed_table(records: Sequence[PlayRecord], seconds: float) -> ResultTable:
    """Return how fast the server answered."""
    request_seconds = sorted(t for r in records for t in r.took)
    n_answers = sum(r.answers for r in records)

    def quantile(share: float) -> float:
        last = len(request_seconds) - 1
        return request_seconds[min(last, int(share * (last + 1)))] if request_seconds else 0.0

    cells = [
        f"{n_answers:,}",
        f"{n_answers / seconds:.0f}",
        f"{len(request_seconds) / seconds:.0f}",
        f"{1000 * quantile(0.5):.0f}",
        f"{1000 * quantile(0.95):.0f}",
        str(sum(bool(r.fault) for r in records)),
    ]
    columns = ["answers", "answers/s", "requests/s", "median ms", "95 % ms", "stopped players"]
    rows = [(str(len(records)), cells)]
    return ResultTable("How fast", "players", columns, rows, numeric=False)
