"""`captau collect simulate`: simulated raters, the points that each kind wins, and the server's speed."""

from __future__ import annotations

import http.client
import multiprocessing
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlencode

import numpy as np

from ...benchmarks.options.sites import CollectOptions, SimulateOptions
from ...benchmarks.reporting.run_results import Results
from ...benchmarks.runs.output_folder import OutputFolder
from ...benchmarks.runs.results import RunClock, describe_environment
from ...benchmarks.runs.tables import AnyCell, ResultTable, Row, count_cell, number_cell
from ...datasets.caption_texts import normalise_thumb
from ...datasets.errors import InputError, unknown
from ..storage.private_files import private_umask
from ..web.listener import listen, serve
from .simulated_browser import Page, join_study
from .study import Study, read_study
from .web.app import make_app
from .web.site import open_site

#: The standard deviation of a player's opinion around the level that a caption deserves.
NOISE = {"honest": 0.5, "careless": 1.2}
PLAYER_KINDS = (*NOISE, "random", "constant", "majority")


@dataclass
class PlayRecord:
    """A player's answers.

    Attributes:
        answers: their number.
        scores: the points won by phase, in order.
        took: the seconds of each request.
        fault: the error that stopped the player; empty if none did.
        turns: the changes of the game's phase, in order.
    """

    kind: str
    answers: int = 0
    scores: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    took: list[float] = field(default_factory=list[float])
    fault: str = ""
    turns: list[str] = field(default_factory=list[str])

    def add_feedback(self, phase: str, page: Page) -> None:
        """Add the points and turn that a page tells."""
        if page.score is not None:
            self.scores.setdefault(phase, []).append(page.score)
            if page.turn:
                self.turns.append(page.turn)


@dataclass(frozen=True)
class Player:
    """A simulated rater.

    Attributes:
        deserved_levels: the level that each caption deserves, from 1 to 5.
        reads_feedback: whether feedback is read; without it there are two requests an answer, not three.
        pace: the seconds from one answer to the next; 0 for as fast as the server answers.
    """

    kind: str
    deserved_levels: Mapping[str, float]
    study: Study
    reads_feedback: bool = True
    pace: float = 0.0

    def play(self, url: str, n_answers: int, seed: Sequence[int]) -> PlayRecord:
        """Join a study and give so many answers, or as many as there are pairs or captions for."""
        rng = np.random.default_rng(list(seed))
        record = PlayRecord(self.kind)
        try:
            name = f"{self.kind} {seed[-1]}"
            nickname = name if self.study.nicknames else ""
            path = "/"
            if self.study.participants == "crowd":
                path += f"?{urlencode({self.study.worker_parameter: name})}"
            browser = join_study(url, nickname, path)

            consensus_counts: Counter[int] = Counter()

            def level(caption: str) -> int:
                return self._draw_level(caption, rng, consensus_counts)

            # Players do not all begin at the same moment.
            due = time.perf_counter() + self.pace * rng.random()
            page = browser.get("/rate")
            while record.answers < n_answers and "key" in page.hidden:
                phase = page.practice or "playing"
                due = max(due + self.pace, time.perf_counter() + page.wait)
                time.sleep(max(0.0, due - time.perf_counter()))

                answer = self.study.form.simulate_answer(level, page.captions, rng)
                page = browser.post("/rate", {**page.hidden, **answer}, follow=self.reads_feedback)
                if page.status not in (200, 303):
                    raise RuntimeError(f"{page.status} {page.heading}")

                record.answers += 1
                record.add_feedback(phase, page)
                # A player who goes along with the others learns their answers from the feedback
                # alone.
                if page.score is not None and page.consensus is not None:
                    consensus_counts[page.consensus] += 1

                if "key" not in page.hidden:
                    page = browser.get("/rate")

            record.took = browser.request_seconds
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            record.fault = str(error) or type(error).__name__

        return record

    def _draw_level(
        self, caption: str, rng: np.random.Generator, consensus_counts: Counter[int]
    ) -> int:
        if self.kind == "constant":
            return 3
        if self.kind == "random":
            return int(rng.integers(1, 6))
        if self.kind == "majority":
            return consensus_counts.most_common(1)[0][0] if consensus_counts else 3

        deserved = self.deserved_levels.get(normalise_thumb(caption), 3.0)
        opinion = rng.normal(deserved, NOISE[self.kind])
        return int(min(max(round(opinion), 1), 5))


def deserved_levels(study: Study) -> dict[str, float]:
    """Return the level that each caption deserves: its mean rating, else the computed one, else 3."""
    levels: dict[str, list[float]] = {}
    for unit in study.units:
        known_levels = study.form.known_levels(unit) or [3.0] * len(unit.items)
        for item, known_level in zip(unit.items, known_levels, strict=True):
            level = known_level if item.mean_rating is None else item.mean_rating
            levels.setdefault(normalise_thumb(item.caption), []).append(level)

    return {caption: fmean(caption_levels) for caption, caption_levels in levels.items()}


def play_all(
    url: str,
    study: Study,
    kinds: Sequence[str],
    n_answers: int,
    seed: int,
    *,
    reads_feedback: bool = True,
    pace: float = 0.0,
) -> tuple[list[PlayRecord], float]:
    """Run players at once; return their records, and the seconds from the first request to the last."""
    levels = deserved_levels(study)
    records: list[PlayRecord | None] = [None] * len(kinds)

    def run_player(k: int, kind: str) -> None:
        player = Player(
            kind=kind,
            deserved_levels=levels,
            study=study,
            reads_feedback=reads_feedback,
            pace=pace,
        )
        records[k] = player.play(url, n_answers, (seed, k))

    threads: list[threading.Thread] = []
    for k, kind in enumerate(kinds):
        threads.append(threading.Thread(target=run_player, args=(k, kind), daemon=True))

    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    seconds = time.perf_counter() - start
    return [record for record in records if record is not None], seconds


class StudyServer:
    """A study's server on a free port; `url` is its address.

    Args:
        options: those of `captau collect`.
        wait: the game's wait, in seconds.

    Raises:
        InputError: on a fault of the study.
    """

    def __init__(self, options: CollectOptions, wait: float = 0.0) -> None:
        # A fork server would take modules from the working folder, such as a clone's own captau/.
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(options, wait, sender), daemon=True)
        self.process.start()
        # Without its own end of the pipe, this process notices when the other one dies.
        sender.close()

        url = ""
        try:
            url, fault = receiver.recv()
        except EOFError:
            fault = "the server did not start"
        if fault:
            self.process.join()
            raise InputError(fault)
        self.url: str = url

    def kill(self) -> None:
        """End the process at once, by SIGKILL."""
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        """Let the server finish, and end the process."""
        self.process.terminate()
        self.process.join()


@private_umask()
def _serve(options: CollectOptions, wait: float, sender: Connection) -> None:
    """Serve a study without limits; send its address and a fault, either of which is empty."""
    try:
        listener = listen("127.0.0.1", 0)
        site = open_site(options, wait=wait)
    except InputError as error:
        sender.send(("", str(error)))
        return

    sender.send((f"http://127.0.0.1:{listener.getsockname()[1]}", ""))
    serve(make_app(site), listener)


#: What the command measures, as reports and citations say it.
MEASURES = "what players of given skill make of a study"
#: The players by default.
DEFAULT_PLAYERS = {"honest": 12, "careless": 4, "random": 4, "constant": 4, "majority": 4}


@dataclass(frozen=True)
class SimulationReport:
    """The tables of a simulation, the lines below them, and the fault of players that were stopped, if any."""

    tables: Sequence[ResultTable]
    text: str
    fault: str


def run_simulation(options: SimulateOptions) -> SimulationReport:
    """Run players, and write what they did to an output folder.

    Args:
        options: those of `captau collect simulate`.

    Raises:
        InputError: on an unknown kind of players, or a fault of the study.
    """
    kinds = list_players(DEFAULT_PLAYERS if options.players is None else options.players)
    if not 1 <= options.answers <= 100_000:
        raise InputError(f"answers={options.answers}: a number from 1 on is expected")

    study = read_study(options.study, options.data_root)
    study = replace(study, form=study.form.with_wait(options.wait))

    if study.annotator_names:
        raise InputError(
            f"study {study.name}: its images are assigned to {', '.join(study.annotator_names)}; "
            "leave thumb.annotators out to simulate it"
        )

    clock = RunClock()
    with (
        OutputFolder(options.output_dir, "collect-simulate") as folder,
        tempfile.TemporaryDirectory() as scratch,
    ):
        database = options.database or Path(scratch) / "study.sqlite3"
        # Answers of players do not get into the study's own database unless it is named.
        server = StudyServer(replace(options.site_options(), database=database), options.wait)
        try:
            records, seconds = play_all(server.url, study, kinds, options.answers, options.seed)
        finally:
            server.stop()

        tables = [make_points_table(records), make_speed_table(records, seconds)]
        run = {
            **_describe_run(options, study, kinds, records),
            **describe_environment(),
            **clock.record(),
            "seconds": round(seconds, 3),
        }
        results = Results({}, run, tables=tables)
        folder.write(results.files())

    lines = [f"\nwritten to {folder.path}"]
    if options.database:
        lines.append(f"the answers are in {options.database}")

    faults = [record.fault for record in records if record.fault]
    fault = ""
    if faults:
        fault = f"{len(faults)} of {len(records)} players were stopped: {faults[0]}"

    return SimulationReport(tables, "\n".join(lines), fault)


def _describe_run(
    options: SimulateOptions,
    study: Study,
    kinds: Sequence[str],
    records: Sequence[PlayRecord],
) -> dict[str, Any]:
    """Return what was asked for and what players did, for run.json."""
    played: list[dict[str, Any]] = []
    for record in records:
        fields = asdict(record)
        # The table has the quantiles of these times.
        del fields["took"]
        played.append(fields)

    players = dict(Counter(kinds))
    return {
        "command": "collect simulate",
        "config": {
            "study": options.study,
            "players": players,
            "answers": options.answers,
        },
        "study": study.name,
        "players": players,
        "answers": options.answers,
        "wait": options.wait,
        "seed": options.seed,
        "noise": NOISE,
        "played": played,
        "measures": MEASURES,
    }


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

    players: list[str] = []
    for kind, count in counts.items():
        players += [kind] * count
    if not players:
        raise InputError("players: none")

    return players


def make_points_table(records: Sequence[PlayRecord]) -> ResultTable:
    """Return each kind's players and answers; of a game the mean points of an answer, and how many passed the trial."""
    has_points = any(record.scores for record in records)

    rows: list[Row] = []
    for kind in dict.fromkeys(record.kind for record in records):
        group = [record for record in records if record.kind == kind]
        cells = [count_cell(len(group)), count_cell(sum(record.answers for record in group))]

        turns: list[str] = []
        for record in group:
            turns += [turn for turn in record.turns if turn.startswith("trial_")]
        passed = f"{turns.count('trial_passed')} of {len(turns)}" if turns else ""

        if has_points:
            cells += [_mean_score(group, phase) for phase in ("tutorial", "playing", "probation")]
            cells.append(passed)

        rows.append(Row(kind, cells))

    columns = ["players", "answers"]
    if not has_points:
        return ResultTable("Simulated raters", "kind", columns, rows)

    columns += ["points: tutorial", "game", "practice", "passed"]

    note = (
        "Points: the mean of an answer's, by Algorithm 1 of Scott et al. 2023. Passed: had the points "
        "that the first pairs ask for."
    )
    return ResultTable("What players were paid", "kind", columns, rows, notes=[note])


def _mean_score(records: Sequence[PlayRecord], phase: str) -> AnyCell:
    scores: list[int] = []
    for record in records:
        scores += record.scores.get(phase, ())

    return number_cell(fmean(scores), 1, 2) if scores else ""


def make_speed_table(records: Sequence[PlayRecord], seconds: float) -> ResultTable:
    """Return how fast the server answered."""
    request_seconds: list[float] = []
    for record in records:
        request_seconds += record.took
    request_seconds.sort()
    n_answers = sum(record.answers for record in records)

    def quantile(share: float) -> float:
        if not request_seconds:
            return 0.0

        n_requests = len(request_seconds)
        return request_seconds[min(n_requests - 1, int(share * n_requests))]

    cells = [
        f"{n_answers:,}",
        f"{n_answers / seconds:.0f}",
        f"{len(request_seconds) / seconds:.0f}",
        f"{1000 * quantile(0.5):.0f}",
        f"{1000 * quantile(0.95):.0f}",
        str(sum(bool(record.fault) for record in records)),
    ]
    columns = [
        "answers",
        "answers/s",
        "requests/s",
        "median ms",
        "95th percentile ms",
        "stopped players",
    ]
    rows = [Row(str(len(records)), cells)]

    return ResultTable("How fast", "players", columns, rows, numeric=False)
