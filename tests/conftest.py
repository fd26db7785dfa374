"""Shared by all tests: the real data, a cache of the run's own, and captions that break things."""

from __future__ import annotations

import ast
import gc
import io
import os
import runpy
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.mark.expression import Expression
from absl import logging as absl_logging
from hypothesis import settings

from captau.benchmarks.cli.main import main
from captau.metrics import progress, registry

if TYPE_CHECKING:
    from fastapi import FastAPI

#: How long an example takes is no property of the code.
# The same fifty examples in every run; `pytest --hypothesis-profile=random` draws a hundred others.
settings.register_profile("random", settings.default, deadline=None)
settings.register_profile(
    "captau", settings.get_profile("random"), derandomize=True, max_examples=50
)
settings.load_profile("captau")
# On a slow machine a test of what is printed would otherwise see a line of progress.
progress.LOG_SECONDS = 24 * 3600.0

# absl (rouge-score's) keeps the stderr of its import and closes it when logging is set up anew, as
# submitit does on import: that stderr must not be a test's.
absl_logging.get_absl_handler().python_handler.setStream(sys.__stderr__)

NO_DATA = "CAPTAU_DATA is not set: this test needs the real data"

#: Shared by every parity test (golden tier 2): what has broken one implementation or another.
AWKWARD = [
    "",
    "A dog.",
    "a dog runs across the grass",
    "Ein Mädchen läuft über die Straße – schnell!",
    "🐕 dog in the 🏞️ park 👩‍👩‍👧",
    "two\rlines\vof\fa\u2028broken\u2029caption",
    " ".join(["a", "very", "long", "caption"] * 75),
    "a dog runs across the grass",
    "don't can't it's the dog's $5.50 (five) [dollars] U.S. e-mail@x.org 1/2 -- ... \"quoted\"",
    "A DOG RUNS ||| ACROSS",
]


@contextmanager
def raises_exactly(message: str, kind: type[Exception] | None = None) -> Iterator[None]:
    """What is inside raises an error, by default an `InputError`, with exactly this text."""
    from captau.datasets.errors import InputError

    with pytest.raises(kind or InputError) as error:
        yield
    assert str(error.value) == message


@contextmanager
def says(*parts: str) -> Iterator[None]:
    """What is inside raises an `InputError` of one line that holds every part."""
    from captau.datasets.errors import InputError

    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def run_captau(*words: object) -> int:
    """A command as the command line runs it; its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def record_steps(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """Return a list that fills with the total and the steps that a module counts by `progress_counter`."""
    steps: list[int] = []

    @contextmanager
    def count(label: str, total: int) -> Iterator[Callable[[int], None]]:
        steps.append(total)
        yield steps.append

    monkeypatch.setattr(module, "progress_counter", count)
    return steps


def give_stdin(
    monkeypatch: pytest.MonkeyPatch, content: bytes, *, is_terminal: bool = False
) -> None:
    """Put bytes into the standard input, as if they were typed where it is a terminal."""
    stream = io.TextIOWrapper(io.BytesIO(content))
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdin", stream)


def use_cores(monkeypatch: pytest.MonkeyPatch, n_cores: int) -> None:
    """Let metrics be scored as on a machine with so many cores."""
    monkeypatch.setattr("captau.benchmarks.scoring.scorer.count_cores", lambda: n_cores)


def install_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Let every package, captau too, be installed in this version."""
    monkeypatch.setattr("captau.metrics.base.version", lambda _: version)


#: The backend of metrics that starts Java.
WITH_JAVA = pytest.param("pycocoevalcap", marks=pytest.mark.java)


@contextmanager
def serving(app: FastAPI, **options: Any) -> Iterator[str]:
    """A server of an application in a thread; the address is what is given."""
    import uvicorn

    from captau.server.web.listener import listen, server_config

    taken = listen("127.0.0.1", 0)
    server = uvicorn.Server(server_config(app, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def captau(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the program in a folder of its own; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPTAU_JAVA", "")  # so that what java.home= sets is undone after the test
    monkeypatch.setenv("CAPTAU_CACHE", os.environ["CAPTAU_CACHE"])  # likewise cache.root=

    def run(*words: object) -> tuple[int, str, str]:
        status = run_captau(*words)
        return status, *capfd.readouterr()

    return run


@pytest.fixture(scope="module", autouse=True)
def _forget_registered_metrics() -> Iterator[None]:
    """Forget what tests of a module register, which tests of lists of metrics would meet."""
    before = set(registry._METRICS)
    yield
    for name in registry._METRICS.keys() - before - registry._own_modules().keys():
        del registry._METRICS[name]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """No test reads or fills the user's cache; the workers of one run share theirs."""
    before = os.environ.get("CAPTAU_CACHE")
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    cache.mkdir(exist_ok=True)
    os.environ["CAPTAU_CACHE"] = str(cache)
    yield
    if before is None:
        del os.environ["CAPTAU_CACHE"]
    else:
        os.environ["CAPTAU_CACHE"] = before


@pytest.fixture(autouse=True)
def _forget_modules_of_tests(tmp_path_factory: pytest.TempPathFactory):
    """Forget the modules that a test wrote and imported, so that no later test imports them."""
    search_path, module_names = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = search_path
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - module_names:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]


def lend_tables(cache: Path) -> None:
    """METEOR's tables, which take long to compile, for a run with a cache folder of its own."""
    from captau.datasets.cache import cache_folder
    from captau.metrics.text.meteor.index import load_index

    load_index()
    (cache / "meteor").mkdir(parents=True)
    for path in cache_folder("meteor").glob("*.index"):
        os.link(path, cache / "meteor" / path.name)


@pytest.fixture
def no_known_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no text have been tokenised before, and forget what a test tokenises."""
    from captau.metrics.text.tokens import ptb

    monkeypatch.setattr(ptb, "_caches", {})


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The real data; the test skips where it is not at hand."""
    root = os.environ.get("CAPTAU_DATA")
    if not root:
        pytest.skip(NO_DATA)
    path = Path(root)
    assert path.is_dir(), f"CAPTAU_DATA is {root}, which is not a folder"
    return path


@pytest.fixture(scope="session")
def spice_jars(_own_cache: None) -> list[Path]:
    """SPICE's jars, from CAPTAU_SPICE_JARS; CAPTAU_DOWNLOAD=1 fetches them (387 MB) once a session."""
    from captau.datasets.errors import InputError
    from captau.metrics.text.spice import models as spice_models

    try:
        return spice_models.load_jars()
    except InputError as error:
        pytest.skip(f"this test needs SPICE's jars: {error}")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A weights folder of tiny random models, which `scripts/stand_ins/make_tiny_models.py` wrote."""
    folder = tmp_path_factory.mktemp("tiny") / "models"
    script = Path(__file__).parents[1] / "scripts" / "stand_ins" / "make_tiny_models.py"
    runpy.run_path(str(script))["make"](folder)
    return folder


@pytest.fixture
def weights(tiny, tmp_path, monkeypatch):
    """The tiny models are where models are looked for, and nothing is in the feature store."""
    monkeypatch.setenv("CAPTAU_WEIGHTS", str(tiny))
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPTAU_DOWNLOAD", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tiny


@pytest.fixture(scope="module")
def chromium():
    """Debian's headless Chromium; not for the whole session, as it keeps other event loops from running."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    if binary is None:
        pytest.skip("no Chromium is installed (Debian: chromium)")
    from playwright.sync_api import sync_playwright

    flags = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync")
    flags += ("disable-background-networking", "disable-component-update")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=binary, args=[f"--{flag}" for flag in flags]
        )
        yield browser
        browser.close()


class Site:
    """A web server on this machine that fails as it is told to.

    Attributes:
        files: path → content; what is not there is a 404.
        redirects: path → where it leads.
        statuses: what the next answers are instead of the file, in turn.
        cuts: after how many bytes of the body the next answers break off, in turn; None lets one pass.
        pause: seconds to wait before each half of a body.
        asked: path and headers of each request so far.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.statuses: list[int] = []
        self.cuts: list[int | None] = []
        self.pause = 0.0
        self.asked: list[tuple[str, dict[str, str]]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:  # a client that goes away is no fault
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = dict(request.headers.items())
        self.asked.append((request.path, headers))
        body = self.files.get(request.path)
        if self.statuses:
            return request.send_error(self.statuses.pop(0))
        if request.path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[request.path])
            request.send_header("Content-Length", "0")
            return request.end_headers()
        if body is None:
            return request.send_error(404)
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else None
        sent = body[:cut]
        for half in (sent[: len(sent) // 2], sent[len(sent) // 2 :]):
            time.sleep(self.pause)
            request.wfile.write(half)
            request.wfile.flush()
        request.close_connection = True
        return None


@pytest.fixture
def site() -> Iterator[Site]:
    one = Site()
    yield one
    one.close()


def read_module_marks(path: Path) -> set[str]:
    """Return the names of the marks in a test module's `pytestmark`, without importing it."""
    text = path.read_text(encoding="utf-8")
    if "\npytestmark = " not in text:  # most modules have none, and parsing them all takes a second
        return set()

    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = ast.walk(node.value)
            return {m.attr for m in marks if isinstance(m, ast.Attribute)} - {"mark"}
    return set()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that their own marks deselect: what they import may not be installed."""
    expression = config.getoption("markexpr")
    if collection_path.suffix != ".py" or not expression:
        return None
    marks = read_module_marks(collection_path)
    is_selected = Expression.compile(expression).evaluate(lambda name, **_: name in marks)
    return True if marks and not is_selected else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector away from the tests themselves: ten thousand objects with many parts.

    They live as long as the run, and a search through all of them takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


#: What tests with these fixtures need.
MARKS_OF_FIXTURES = {
    "chromium": pytest.mark.browser,
    "language_model": pytest.mark.neural,
    "memory_bucket": pytest.mark.cluster,
    "multimodal_model": pytest.mark.neural,
    "no_weights": pytest.mark.neural,
    "object_server": pytest.mark.cluster,
    "spice_jars": pytest.mark.java,
    "tiny": pytest.mark.neural,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark each test by what its fixtures need, before marks select."""
    for item in items:
        for fixture in set(item.fixturenames) & set(MARKS_OF_FIXTURES):
            item.add_marker(MARKS_OF_FIXTURES[fixture])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With the data set, a test that skipped for want of it is a failure of the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CAPTAU_DATA"):
        return
    skipped = [r for r in reporter.stats.get("skipped", []) if NO_DATA in str(r.longrepr)]
    if skipped:
        reporter.write_line(f"CAPTAU_DATA is set, yet {len(skipped)} tests skipped for want of it")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
