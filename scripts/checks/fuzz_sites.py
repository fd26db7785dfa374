"""Broken and hostile requests for the forms and the HTTP API of both sites; `fuzz_inputs.py` runs it and counts.

A study and a challenge are served in this process. Valid requests are broken in the ways of `BREAKAGES`, drawn by a seed, and sent
as bytes. A fault is an error 500, an exception in the log, an answer that takes too long, and a request that was accepted although
its breakage leaves no valid one.
"""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote_plus, urlencode

import uvicorn
import yaml
from fastapi import FastAPI

from captau.benchmarks.cli.script_options import show_manual
from captau.benchmarks.options.sites import CollectOptions, ServeOptions
from captau.server.challenge.site_opening import open_site as open_challenges
from captau.server.challenge.web.app import make_app as make_challenges_app
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.web.app import make_app as make_study_app
from captau.server.collect.web.site import open_site as open_study
from captau.server.web.listener import listen, server_config

PASSWORD = "a password of the test"
REFERENCES = {f"{k}.png": ["a dog", "the dog runs"] for k in range(3)}
CAPTIONS = json.dumps([{"image_id": image, "caption": "a dog"} for image in REFERENCES]).encode()
LIMITS = {"joins": 10**6, "requests": 10**6, "logins": 10**6}
CHALLENGE = {
    "name": "fuzz",
    "kind": "captions",
    "phases": [{"name": "test"}],
    "references": [{"name": "c2", "file": "references.json"}],
    "metrics": ["rouge_l"],
    "limits": {**LIMITS, "megabytes": 1},
}
STUDY = {
    "name": "fuzz",
    "protocol": "good_bad",
    "consent": "A test.",
    "items": {"dataset": "demo"},
    "ratings": 1000,
    "limits": LIMITS,
}
HOSTILE_TEXTS = (
    *("", " ", "0", "-1", "9" * 400, "1e999", "NaN", "true", "null", "[]", "{}", "\0", "\ud800"),
    *("\r\nset-cookie: captau=x", "<script>alert(1)</script>", "{{ 7*7 }}", "' OR 1=1 --"),
    *("../../etc/passwd", "//evil.example", "\u202e", "\U0001f600" * 50, "x" * 50_000, "%00"),
)


@dataclass(frozen=True)
class SentRequest:
    """A request; `fields` or `body` is its content."""

    path: str
    method: str = "POST"
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return it as it is sent."""
        body = (
            urlencode(self.fields, errors="surrogatepass").encode()
            if self.body is None
            else self.body
        )
        lengths = {} if "transfer-encoding" in self.headers else {"content-length": str(len(body))}
        kind = {"content-type": "application/x-www-form-urlencoded"} if self.fields else {}
        headers = {"host": "x", "connection": "close", **lengths, **kind, **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{self.method} {self.path} HTTP/1.1\r\n{lines}\r\n"
        return head.encode("utf-8", "surrogatepass") + body


Breakage = Callable[[SentRequest, random.Random], SentRequest]


def forge_token(request: SentRequest, rng: random.Random) -> SentRequest:
    """Leave out the token against forgery, or send another."""
    token = rng.choice(
        [{}, {"token": ""}, {"token": "x" * 64}, {"token": rng.choice(HOSTILE_TEXTS)}]
    )
    others = {name: value for name, value in request.fields.items() if name != "token"}
    headers = {name: v for name, v in request.headers.items() if name != "authorization"}
    body = None if request.body is None else request.body.replace(b'"token"', b'"tokem"')
    return replace(
        request, fields={**others, **token} if others else {}, headers=headers, body=body
    )


def spoil_field(request: SentRequest, rng: random.Random) -> SentRequest:
    """Put a hostile text in the place of a field, or of a part of the address."""
    text = rng.choice(HOSTILE_TEXTS)
    if request.fields and rng.random() < 0.8:
        return replace(request, fields={**request.fields, rng.choice(list(request.fields)): text})
    parts = request.path.split("/")
    parts[rng.randrange(1, len(parts))] = quote_plus(text.encode("utf-8", "surrogatepass")[:6000])
    return replace(request, path="/".join(parts))


def spoil_body(request: SentRequest, rng: random.Random) -> SentRequest:
    """Send a body that is no form, or one that is cut, changed or in another encoding."""
    body = bytearray(request.to_bytes().partition(b"\r\n\r\n")[2] or b"x")
    at = rng.randrange(len(body))
    bodies = [
        *(bytes(body[:at]), bytes(body[:at]) + b"\xff\xfe\0%%zz&&==" + bytes(body[at:])),
        *(b"[" * 60_000, b'{"a": 1e999}', b"9" * 5000, b"&" * 50_000, b"a=1&" * 1200, body * 2),
        *(body.decode("latin-1").encode("utf-16"), b"\x1f\x8b\x08\0" + bytes(body)),
    ]
    kinds = [
        "application/json",
        "text/plain; charset=utf-99",
        "multipart/form-data",
        ";;;",
        "a/b\t",
    ]
    headers = {"content-type": rng.choice(kinds)} if rng.random() < 0.3 else {}
    return replace(
        request,
        body=bytes(rng.choice(bodies)),
        headers={**request.headers, **headers}
        | (
            {}
            if headers or not request.fields
            else {"content-type": "application/x-www-form-urlencoded"}
        ),
    )


def send_multipart_nonsense(request: SentRequest, rng: random.Random) -> SentRequest:
    """Send a form of several parts that does not hold together."""
    name = rng.choice(["../../x.json", "x" * 5000, "\0.json", '"', "a.json\r\nx: y", "=cmd.json"])
    disposition = f'content-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    bodies = [
        *(
            b"--b\r\n",
            b"--b--",
            b"--b\r\n\r\n\r\n--b--\r\n",
            b"--b\r\n" * 3000,
            b"--b\r\n" + b"a" * 30_000,
        ),
        *(
            b"--b\r\n" + disposition + CAPTIONS,
            b"--b\r\n" + disposition + CAPTIONS + b"\r\n--b--\r\n",
        ),
        b'--b\r\ncontent-disposition: form-data; name="x"\r\n\r\n1\r\n' * 1100 + b"--b--\r\n",
        b"--b\r\ncontent-disposition: form-data\r\n\r\n1\r\n--b--\r\n",
        b"--b\r\n" + b"x: y\r\n" * 5000 + b"\r\n1\r\n--b--\r\n",
    ]
    boundary = rng.choice(["b", "b", "b", "", "c", "b" * 3000, "\xff"])
    kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
    return replace(request, fields={}, body=rng.choice(bodies), headers={**request.headers, **kind})


def spoil_head(request: SentRequest, rng: random.Random) -> SentRequest:
    """Send headers, a method or an address that no browser sends."""
    headers = rng.choice(
        [
            {"cookie": "captau=" + "x" * 3000},
            {"cookie": ";;=;captau=\xff"},
            {"authorization": "Bearer \xff\xfe"},
            {"authorization": "Bearer " + "x" * 7000},
            {"transfer-encoding": "chunked"},
            {"content-length": "-1"},
            {"content-length": "9" * 30},
            {"content-encoding": "gzip"},
            {"x": "y" * 9000},
            {f"x{k}": "y" for k in range(150)},
            {"accept": "\0"},
        ]
    )
    method = rng.choice([request.method, request.method, "PUT", "TRACE", "\xff", "GET", "OPTIONS"])
    return replace(request, method=method, headers={**request.headers, **headers})


#: Ways to break a request, and whether what comes of it is never accepted.
BREAKAGES: tuple[tuple[Breakage, bool], ...] = (
    *((forge_token, True), (spoil_field, False), (spoil_field, False)),
    *((spoil_body, False), (send_multipart_nonsense, False), (spoil_head, False)),
)


@dataclass
class Target:
    """A group of requests of one site: `make` returns a valid one, drawn by a generator."""

    name: str
    port: int
    make: Callable[[random.Random], SentRequest]


@contextmanager
def serve(app: FastAPI) -> Iterator[int]:
    """Serve an application in a thread; yield its port."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(server_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def make_targets(folder: Path, stack: ExitStack) -> list[Target]:
    """Serve both sites and return their forms and the API."""
    (folder / "references.json").write_text(json.dumps(REFERENCES))
    for name, fields in (("study", STUDY), ("challenge", CHALLENGE)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(fields))
    study = open_study(
        CollectOptions(study=str(folder / "study.yaml"), database=folder / "a.sqlite3")
    )
    study_port = stack.enter_context(serve(make_study_app(study)))
    options = ServeOptions(challenge=str(folder / "challenge.yaml"), database=folder / "b.sqlite3")
    challenges = open_challenges(options)
    challenges.workers = None
    port = stack.enter_context(serve(make_challenges_app(challenges)))
    rater = join_study(f"http://127.0.0.1:{study_port}")
    member = Browser(f"http://127.0.0.1:{port}")
    fields = {"name": "Ann", "password": PASSWORD, "again": PASSWORD}
    member.post("/signup", {**member.get("/signup").hidden, **fields})
    hidden = member.get("/account").hidden
    token = member.post("/account/tokens", {**hidden, "label": "x"}).text.partition("captau_")[2][
        :32
    ]

    def cookie(browser: Browser) -> dict[str, str]:
        return {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}

    def answer(rng: random.Random) -> SentRequest:
        fields = {**rater.get("/rate").hidden, "answer": rng.choice(["good", "bad", "skip"])}
        return SentRequest("/rate", fields=fields, headers=cookie(rater))

    def account_form(rng: random.Random) -> SentRequest:
        # The first token is the one that the HTTP API is asked with, and is never revoked.
        token_ids = re.findall(r"/account/tokens/(\d+)/revoke", member.get("/account").text)
        token_form = ("/account/tokens", {"label": "x"})
        if len(token_ids) > 1:
            token_form = (f"/account/tokens/{max(map(int, token_ids))}/revoke", {})
        own, fields = rng.choice(
            [
                ("/team/rename", {"name": f"Team {rng.randrange(10**9)}"}),
                ("/team/invite", {}),
                token_form,
                ("/account/codes", {"old": PASSWORD}),
            ]
        )
        return SentRequest(own, fields={"token": hidden["token"], **fields}, headers=cookie(member))

    def upload(rng: random.Random) -> SentRequest:
        parts = [(b'"token"', hidden["token"].encode()), (b'"file"; filename="a.json"', CAPTIONS)]
        body = b"".join(
            b"--b\r\ncontent-disposition: form-data; name=%s\r\n\r\n%s\r\n" % part for part in parts
        )
        headers = {**cookie(member), "content-type": "multipart/form-data; boundary=b"}
        return SentRequest(
            "/challenges/fuzz/submissions", body=body + b"--b--\r\n", headers=headers
        )

    def api(rng: random.Random) -> SentRequest:
        headers = {"authorization": f"Bearer captau_{token}"}
        if rng.random() < 0.6:
            path = "/api/challenges/fuzz/submissions?file=a.json"
            return SentRequest(path, body=CAPTIONS, headers=headers)
        return SentRequest("/api/submissions", "GET", headers=headers)

    return [
        Target("answers of a study", study_port, answer),
        Target("forms of an account", port, account_form),
        Target("uploads by form", port, upload),
        Target("HTTP API", port, api),
    ]


def send(port: int, request: SentRequest) -> tuple[int, str]:
    """Send a request; return the status, 0 without an answer, and the head of the answer with its beginning."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        answer = b""
        try:
            connection.sendall(request.to_bytes())
            if "transfer-encoding" in request.headers:  # its body has no end
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        except OSError:  # refused before it was sent
            pass
    status = answer[9:12]
    return int(status) if status.isdigit() else 0, answer[:3000].decode("latin-1")


class _Exceptions(logging.Handler):
    """A handler that keeps the exceptions that servers log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


def judge(status: int, answer: str, is_never_valid: bool) -> str:
    """Return the outcome of a request."""
    if status >= 500 or "Traceback" in answer:
        return "traceback"
    is_accepted = 200 <= status < 400 and "location: /signin" not in answer.lower()
    if is_accepted:
        return "wrongly accepted" if is_never_valid else "accepted"
    return "refused"


def check_targets(targets: list[Target], rng: random.Random) -> None:
    """Check that a valid request of each target is accepted."""
    for target in targets:
        status, answer = send(target.port, target.make(rng))
        if not 200 <= status < 400 and status != 409:  # one is still being checked
            raise SystemExit(f"{target.name}: the valid request is refused: {answer}")


def fuzz(
    n_inputs: int, seed: int, most_seconds: float
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Send requests; return as `fuzz_inputs.fuzz` does."""
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = {}
    faults: list[str] = []
    exceptions = _Exceptions()
    logging.getLogger("uvicorn.error").addHandler(exceptions)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        stack.callback(logging.getLogger("uvicorn.error").removeHandler, exceptions)
        targets = make_targets(Path(name), stack)
        check_targets(targets, rng)
        for number in range(n_inputs):
            target = targets[number % len(targets)]
            breakage, is_never_valid = rng.choice(BREAKAGES)
            request = breakage(target.make(rng), rng)
            begun = time.monotonic()
            status, answer = send(target.port, request)
            outcome = judge(status, answer, is_never_valid)
            if time.monotonic() - begun > most_seconds:
                outcome = "slow"
            if exceptions.texts:
                outcome, answer = "traceback", exceptions.texts.pop()
                exceptions.texts.clear()
            counts.setdefault(target.name, Counter())[outcome] += 1
            if outcome not in ("refused", "accepted"):
                faults.append(
                    f"request {number}, {target.name}, {breakage.__name__}: {outcome}\n"
                    f"{request.to_bytes()[:300]!r}\n{answer}"
                )
        # Else what came before was refused for another reason; of uploads one is still being checked.
        check_targets(targets[:2], rng)
    return counts, faults


if __name__ == "__main__":
    # There is nothing to run here: `fuzz_inputs.py` takes the options.
    show_manual(__doc__, ["--help"])
