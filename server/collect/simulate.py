"""Raters of given skill, played through a study's own web site: `captau collect simulate`.

Each player is a thread with an HTTP connection of its own; it reads pages and fills in forms as a
browser does. The server is a process of its own.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html.parser import HTMLParser
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from ...benchmarks.runs.output_folder import OutputFolder
from ...benchmarks.runs.tables import ResultTable, markdown_of
from ...datasets.errors import InputError, unknown
from ..web.listener import listen, serve
from .app import make_app
from .commands import open_site
from .protocols.thumb import normalised
from .studies import Study, read_study

#: How far from what a caption deserves a player's feeling lies (a standard deviation).
NOISE = {"honest": 0.5, "careless": 1.2}
KINDS = (*NOISE, "random", "constant", "majority")
#: Who plays where nobody is named.
USUAL = {"honest": 12, "careless": 4, "random": 4, "constant": 4, "majority": 4}


class Page(HTMLParser):
    """What a player reads of a page: its forms' fields, its captions, the points."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__()
        self.status, self.text = status, text
        self.action = ""
        self.hidden: dict[str, str] = {}
        self.captions: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = at.get("action", "")
        elif tag == "input" and at.get("type") == "hidden":
            self.hidden.setdefault(at["name"], at["value"])
        elif tag == "p" and at.get("class") == "caption":
            self._within = "caption"
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.captions[-1] += data

    @property
    def heading(self) -> str:
        """The page's first heading."""
        found = re.search(r"<h1>(.*?)</h1>", self.text, re.DOTALL)
        return found[1].strip() if found else ""

    @property
    def score(self) -> int | None:
        """The points that the page tells of."""
        found = re.search(r'class="points [^"]*">([+-]?\d+)', self.text)
        return int(found[1]) if found else None


class Browser:
    """A connection with a cookie; every request's seconds are kept in `took`."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        at = urlsplit(url)
        self._open: Callable[[], http.client.HTTPConnection] = lambda: http.client.HTTPConnection(
            at.hostname or "", at.port, timeout=timeout
        )
        self._connection = self._open()
        self.cookies: dict[str, str] = {}
        self.took: list[float] = []
        self.where = ""

    def get(self, path: str) -> Page:
        """A page, redirects followed."""
        return self._ask("GET", path, None)

    def post(self, path: str, fields: Mapping[str, Any], *, follow: bool = True) -> Page:
        """A form sent, redirects followed."""
        return self._ask("POST", path, urlencode(fields, doseq=True), follow=follow)

    def raw(
        self, method: str, path: str, body: str | bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """A response as it is."""
        sent = {"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items()), **headers}
        if body is not None:
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
        began = time.perf_counter()
        try:
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError):  # kept open for too long
            self._connection.close()
            self._connection = self._open()
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        content = response.read()
        self.took.append(time.perf_counter() - began)
        for cookie in response.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response.status, {k.lower(): v for k, v in response.getheaders()}, content

    def _ask(self, method: str, path: str, body: str | None, *, follow: bool = True) -> Page:
        status, headers, content = self.raw(method, path, body)
        self.where = path
        while follow and status == 303:
            self.where = headers["location"]
            status, headers, content = self.raw("GET", self.where)
        return Page(status, content.decode())


def joined(url: str, nickname: str = "", path: str = "/") -> Browser:
    """A browser that has consented and joined.

    Raises:
        RuntimeError: where the study does not take it.
    """
    browser = Browser(url)
    fields: dict[str, str] = {**browser.get(path).hidden, "consent": "yes"}
    if nickname:
        fields["nickname"] = nickname
    page = browser.post("/join", fields)
    if page.status != 200:
        raise RuntimeError(f"joining: {page.status} {page.heading}")
    return browser


@dataclass
class Played:
    """What one player did: points by phase, in order, and every request's seconds."""

    kind: str
    answers: int = 0
    scores: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    took: list[float] = field(default_factory=list[float])
    fault: str = ""

    turns: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Player:
    """A rater of a kind.

    Attributes:
        known: what each caption deserves, from 1 to 5.
        told: whether feedback is looked at; without it there are two requests an answer, not three.
        pace: seconds from one answer to the next; 0 for as fast as the server answers.
    """

    kind: str
    known: Mapping[str, float]
    study: Study
    told: bool = True
    pace: float = 0.0

    def play(self, url: str, answers: int, seed: Sequence[int]) -> Played:
        """Join, and answer so often, or until nothing is left."""
        rng, played = np.random.default_rng(list(seed)), Played(self.kind)
        try:
            nickname = f"{self.kind} {seed[-1]}" if self.study.nicknames else ""
            browser = joined(url, nickname)
            seen: Counter[int] = Counter()
            due = time.perf_counter() + self.pace * rng.random()  # not all at the same moment
            page = browser.get("/rate")
            while played.answers < answers and "key" in page.hidden:
                phase = _phase(page)
                due = max(due + self.pace, time.perf_counter() + _left(page))
                time.sleep(max(0.0, due - time.perf_counter()))
                fields = {**page.hidden, **self._fill(page.captions, rng, seen)}
                page = browser.post("/rate", fields, follow=self.told)
                if page.status not in (200, 303):
                    raise RuntimeError(f"{page.status} {page.heading}")
                played.answers += 1
                if page.score is not None:
                    played.scores.setdefault(phase, []).append(page.score)
                    played.turns += re.findall(r'data-turn="(\w+)"', page.text)
                    found = re.search(r"before you is <b>(\d)", page.text)
                    seen.update([int(found[1])] if found else [])
                if "key" not in page.hidden:
                    page = browser.get("/rate")
            played.took = browser.took
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            played.fault = str(error) or type(error).__name__
        return played

    def _fill(
        self, captions: Sequence[str], rng: np.random.Generator, seen: Counter[int]
    ) -> dict[str, Any]:
        levels = [self._level(c, rng, seen) for c in captions]
        protocol = self.study.protocol
        if protocol == "game":
            return {"rating": levels[0]}
        if protocol == "good_bad":
            return {"answer": "skip" if rng.random() < 0.03 else "good" if levels[0] > 2 else "bad"}
        if protocol == "thumb":
            fault = {"fault": ["grammar"]} if rng.random() < 0.1 else {}
            other = self._level(captions[0], rng, seen)
            return {"precision": levels[0], "recall": other, "inclusive": "0", **fault}
        if protocol == "four":
            return {f"overall_{k}": level for k, level in enumerate(levels, start=1)}
        colours, shapes = ("red", "green", "blue", "black"), ("star", "circle", "square", "hexagon")
        one, two = rng.permutation(4)[:2].tolist()
        return {
            "text": f"A {colours[one]} {shapes[two]} stands on white, not far from a {colours[two]} "
            f"{shapes[one]}."
        }

    def _level(self, caption: str, rng: np.random.Generator, seen: Counter[int]) -> int:
        if self.kind == "constant":
            return 3
        if self.kind == "random":
            return int(rng.integers(1, 6))
        if self.kind == "majority":
            return seen.most_common(1)[0][0] if seen else 3
        felt = rng.normal(self.known.get(normalised(caption), 3.0), NOISE[self.kind])
        return int(min(max(round(felt), 1), 5))


def _phase(page: Page) -> str:
    """The game's phase by what a page says in its head."""
    names = {">Tutorial ": "tutorial", ">Practice ": "probation"}
    return next((phase for text, phase in names.items() if text in page.text), "playing")


def _left(page: Page) -> float:
    found = re.search(r'data-left="([\d.]+)"', page.text)
    return float(found[1]) if found else 0.0


def deserved(study: Study) -> dict[str, float]:
    """What each caption of a study deserves: known ratings, or else the computed ones, or 3."""
    found: dict[str, list[float]] = {}
    for unit in study.units:
        for item in unit.items:
            worth = item.known
            if worth is None:
                worth = fmean(unit.fixed) if unit.fixed else 3.0
            found.setdefault(normalised(item.caption), []).append(worth)
    return {caption: fmean(worths) for caption, worths in found.items()}


def play_all(
    url: str,
    study: Study,
    players: Sequence[str],
    answers: int,
    seed: int,
    *,
    told: bool = True,
    pace: float = 0.0,
) -> tuple[list[Played], float]:
    """All players at once; what they did, and the seconds from the first request to the last."""
    known = deserved(study)
    found: list[Played | None] = [None] * len(players)

    def one(k: int, kind: str) -> None:
        player = Player(kind, known, study, told, pace)
        found[k] = player.play(url, answers, (seed, k))

    threads = [
        threading.Thread(target=one, args=(k, kind), daemon=True) for k, kind in enumerate(players)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [p for p in found if p is not None], time.perf_counter() - began


class Server:
    """A study's server as a process of its own, on a free port; `url` is where.

    Args:
        options: as `captau collect` takes them.
        wait: what the game makes players wait, in seconds.

    Raises:
        InputError: what the server finds wrong.
    """

    def __init__(self, options: Mapping[str, Any], wait: float = 0.0) -> None:
        ways = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in ways else "spawn"
        )
        if "forkserver" in ways:  # what is imported once need not be for every server
            context.set_forkserver_preload(["captau.server.collect.admin", "uvicorn"])
        here, there = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_child, args=(dict(options), wait, there), daemon=True
        )
        self.process.start()
        there.close()
        try:
            said = here.recv()
        except EOFError:
            said = "the server did not start"
        if not said.startswith("http"):
            self.process.join()
            raise InputError(said)
        self.url = said

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.join()


def _child(options: dict[str, Any], wait: float, told: Connection) -> None:
    """The server's process: a study with its wait changed and no limits."""
    try:
        taken = listen("127.0.0.1", 0)
        site = open_site(options, wait=wait)
    except InputError as error:
        told.send(str(error))
        return
    told.send(f"http://127.0.0.1:{taken.getsockname()[1]}")
    serve(make_app(site), taken)


def run(options: dict[str, Any]) -> None:
    """Play, and show what came of it.

    Raises:
        InputError: on an unknown kind of players, or a fault of the study.
    """
    players = _players(USUAL if options["players"] is None else options["players"])
    if not 1 <= options["answers"] <= 100_000:
        raise InputError(f"answers={options['answers']}: a number from 1 on is expected")
    data_root = options["data"]["root"]
    study = read_study(options["study"], Path(data_root).expanduser() if data_root else None)
    study = replace(study, rules=replace(study.rules, wait=options["wait"]))
    if study.participants != "open":
        raise InputError(
            f"study {study.name}: participants is {study.participants}; simulated ones need open"
        )
    with (
        OutputFolder(options["output_dir"], "collect-simulate") as folder,
        tempfile.TemporaryDirectory() as scratch,
    ):
        database = options["database"] or str(Path(scratch) / "study.sqlite3")
        server = Server({**options, "database": database}, options["wait"])
        try:
            played, seconds = play_all(
                server.url, study, players, options["answers"], options["seed"]
            )
        finally:
            server.stop()
        tables = [_paid(played), _speed(played, seconds)]
        record = {
            "command": "collect simulate",
            "study": study.name,
            "players": dict(Counter(players)),
            "answers": options["answers"],
            "wait": options["wait"],
            "seed": options["seed"],
            "noise": NOISE,
            "seconds": round(seconds, 3),
            "played": [{k: v for k, v in asdict(p).items() if k != "took"} for p in played],
        }
        folder.write(
            {
                "table.md": "\n\n".join(map(markdown_of, tables)).encode() + b"\n",
                "run.json": json.dumps(record, indent=1).encode() + b"\n",
            }
        )
    print("\n\n".join(map(markdown_of, tables)))
    print(f"\nwritten to {folder.path}")
    if options["database"]:
        print(f"the answers are in {options['database']}")
    faults = [p.fault for p in played if p.fault]
    if faults:
        raise InputError(f"{len(faults)} of {len(played)} players were stopped: {faults[0]}")


def _players(given: Any) -> list[str]:
    if not isinstance(given, dict) or not given:
        raise InputError(f"players={given}: {{honest: 10, random: 5}} is expected")
    for kind, many in given.items():
        if kind not in KINDS:
            raise unknown("kind of player", str(kind), KINDS)
        if isinstance(many, bool) or not isinstance(many, int) or not 0 <= many <= 10_000:
            raise InputError(f"players.{kind}={many}: a whole number is expected")
    players = [kind for kind, many in given.items() for _ in range(many)]
    if not players:
        raise InputError("players: none")
    return players


def _paid(played: Sequence[Played]) -> ResultTable:
    """What each kind got for an answer, and how many of it passed the game's first pairs."""
    rows: list[tuple[str, list[str]]] = []
    for kind in dict.fromkeys(p.kind for p in played):
        of = [p for p in played if p.kind == kind]

        def mean(phase: str, of: Sequence[Played] = of) -> str:
            scores = [s for p in of for s in p.scores.get(phase, ())]
            return f"{fmean(scores):.2f}" if scores else ""

        turns = [t for p in of for t in p.turns if t.startswith("trial_")]
        passed = f"{turns.count('trial_passed')} of {len(turns)}" if turns else ""
        cells = [str(len(of)), str(sum(p.answers for p in of))]
        rows.append((kind, [*cells, mean("tutorial"), mean("playing"), mean("probation"), passed]))
    columns = ["players", "answers", "points: tutorial", "game", "practice", "passed"]
    return ResultTable(
        "What players were paid",
        "kind",
        columns,
        rows,
        notes=[
            "Points: the mean of an answer's, by Algorithm 1 of Scott et al. 2023. Passed: had the points "
            "that the first pairs ask for."
        ],
    )


def _speed(played: Sequence[Played], seconds: float) -> ResultTable:
    """How fast the server answered."""
    took = sorted(t for p in played for t in p.took)
    answers = sum(p.answers for p in played)
    at = (lambda share: took[min(len(took) - 1, int(share * len(took)))]) if took else lambda _: 0.0
    cells = [
        f"{answers:,}",
        f"{answers / seconds:.0f}",
        f"{len(took) / seconds:.0f}",
        f"{1000 * at(0.5):.0f}",
        f"{1000 * at(0.95):.0f}",
        str(sum(bool(p.fault) for p in played)),
    ]
    columns = ["answers", "answers/s", "requests/s", "median ms", "95 % ms", "stopped players"]
    return ResultTable("How fast", "players", columns, [(str(len(played)), cells)], numeric=False)
