"""A chat-completions endpoint on this machine that fails as it is told to, for tests of judges."""

from __future__ import annotations

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from captau.metrics.neural.judge import endpoint
from captau.metrics.neural.judge.metric import MllmJudge


def completion(*places, content=None, tokens=10, finish="stop"):
    """A chat completion; each place is a token and the probabilities at it."""
    entries = [
        {
            "token": token,
            "logprob": math.log(likely[token]),
            "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in likely.items()],
        }
        for token, likely in places
    ]
    text = "".join(token for token, _ in places) if content is None else content
    return {
        "choices": [
            {
                "message": {"content": text},
                "logprobs": {"content": entries},
                "finish_reason": finish,
            }
        ],
        "usage": {"total_tokens": tokens},
    }


def sure(*tokens):
    return [(token, {token: 1.0}) for token in tokens]


EIGHT = ("8", {"8": 0.5, "9": 0.3, "7": 0.1, "high": 0.1})
FIVE = ("5", {"5": 0.6, "0": 0.4})


class Stub:
    """A chat-completions endpoint on this machine that fails as it is told to.

    Attributes:
        reply: what a request's JSON is answered with; a dict, or bytes as they are.
        faults: what happens to the next requests instead, in turn: a status with headers and body,
            "drop", which closes the connection without a word, or None, which is no fault.
        asked: headers and JSON of each request so far.
        most: how many requests were under way at once, at most.
        meet: where it is set, requests wait there for each other.
    """

    def __init__(self):
        self.reply = lambda body: completion(*sure("0", "."), EIGHT, FIVE)
        self.faults = []
        self.asked = []
        self.most = self._now = 0
        self.meet = None
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                stub.answer(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request):
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self._lock:
            self.asked.append((request.path, dict(request.headers.items()), body))
            self._now += 1
            self.most = max(self.most, self._now)
            fault = self.faults.pop(0) if self.faults else None
        try:
            if self.meet is not None:
                self.meet.wait(20)
            if fault == "drop":
                request.close_connection = True
                request.connection.close()
                return
            status, headers, content = fault or (200, {}, self.reply(body))
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            with self._lock:
                self._now -= 1
            request.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(data)
        finally:
            if fault == "drop":
                with self._lock:
                    self._now -= 1


@pytest.fixture
def stub():
    one = Stub()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Each test has a cache of its own, and no key."""
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(endpoint.KEY, raising=False)
    return tmp_path / "cache" / "judge"


@pytest.fixture
def pauses(monkeypatch):
    """How long it would have waited."""
    seconds = []
    monkeypatch.setattr(endpoint.Endpoint, "_pause", lambda self, s: seconds.append(s))
    return seconds


def judge(stub, **changes):
    return MllmJudge(**{"model": "m", "url": stub.url, "preset": "references", **changes})


def rows(n=1):
    return [
        {"item_id": f"x{i}", "caption": f"a dog {i}", "references": ("a cat", "two  cats\n")}
        for i in range(n)
    ]


def kept(cache):
    return sorted(cache.rglob("*.json"))


def said(content, **more):
    """Return an endpoint's answer."""
    return {"choices": [{"message": {"content": content}, **more}]}
