"""The client of `captau submit` without a site: what it asks, how often, and what it prints."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import requests

from captau.benchmarks.options.sites import SubmitOptions
from captau.datasets.errors import InputError
from captau.server.challenge import client as module
from captau.server.challenge import commands
from captau.server.challenge.client import ChallengeClient, print_outcome
from tests.conftest import says

SITE = "http://site.example/lab"


def make_client(monkeypatch, *answers):
    """Return a client to which a site answers in turn, what was asked, and the pauses between."""
    asked, pauses, waiting = [], [], list(answers)

    def request(method, url, **options):
        if "data" in options:
            options["data"] = options["data"].read()
        asked.append((method, url, options))
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append))
    client = ChallengeClient(f"{SITE}//", "captau_x")
    assert client._session.headers["authorization"] == "Bearer captau_x"
    monkeypatch.setattr(client._session, "request", request)
    return client, asked, pauses


def answer(value, status=200, kind="application/json"):
    def read():
        if isinstance(value, Exception):
            raise value
        return value

    headers = {"content-type": kind} if kind else {}
    return SimpleNamespace(status_code=status, headers=headers, text=f" {value}\n", json=read)


USUAL = {"timeout": 60.0, "allow_redirects": False}


def test_a_file_is_sent_with_its_name(monkeypatch, tmp_path):
    client, asked, _ = make_client(monkeypatch, answer({"id": "k"}), answer({"id": "l"}))
    (tmp_path / "a.json").write_text("[]")
    assert client.submit(tmp_path / "a.json", "small/x", "mine", "a note") == {"id": "k"}
    client.submit(tmp_path / "a.json", "small")
    url = f"{SITE}/api/challenges"
    sent = {"data": b"[]", **USUAL}
    assert asked == [
        ("POST", f"{url}/small%2Fx/submissions", {"params": {"file": "a.json", "system": "mine", "note": "a note"}, **sent}),
        ("POST", f"{url}/small/submissions", {"params": {"file": "a.json", "system": None, "note": None}, **sent}),
    ]  # fmt: skip
    with says(f"{tmp_path}/b.json: No such file or directory"):
        client.submit(tmp_path / "b.json", "small")


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (answer("At most 32 MB are taken.\n", 413, "text/plain"), " (At most 32 MB are taken.)"),
        (answer("<html>nginx</html>", 413, "text/html"), ""),
    ],
)
def test_a_file_that_is_too_large_is_named_also_where_a_proxy_refuses_it(
    monkeypatch, tmp_path, refusal, words
):
    path = tmp_path / "a.json"
    path.write_text("x" * 1234)
    client, _, _ = make_client(monkeypatch, refusal)
    with pytest.raises(InputError) as error:
        client.submit(path, "small")
    assert str(error.value) == f"{path}: 1,234 bytes, more than {SITE} takes{words}"


def test_a_site_that_is_away_is_asked_five_times(monkeypatch):
    """With pauses of 2, 4, 6 and 8 seconds."""
    away = requests.ConnectionError()
    client, asked, pauses = make_client(monkeypatch, away, away, away, away, answer({"id": "k"}))
    assert client.submission("k") == {"id": "k"}
    assert asked == [("GET", f"{SITE}/api/submissions/k", USUAL)] * 5
    assert pauses == [2.0, 4.0, 6.0, 8.0]
    client, asked, pauses = make_client(monkeypatch, *[requests.Timeout()] * 5)
    with says(f"{SITE}: Timeout; is that the site?"):
        client.submission("k")
    assert (len(asked), len(pauses)) == (5, 4)


def test_pauses_between_looks_grow_to_two_seconds(monkeypatch):
    looks = [answer({"done": False, "progress": 0.0})] * 10
    client, asked, pauses = make_client(monkeypatch, *looks, answer({"done": True, "id": "k"}))
    assert client.wait("k") == {"done": True, "id": "k"}
    grown = [0.1, 0.15, 0.225, 0.3375, 0.50625, 0.759375, 1.1390625, 1.70859375, 2.0, 2.0]
    assert pauses == pytest.approx(grown)
    assert len(asked) == 11


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (answer({"error": "not so"}, 409), f"{SITE}: not so"),
        (answer({"error": "gone"}, 400), f"{SITE}: gone"),
        (answer({"error": ""}, 500), f"{SITE}: status 500"),
        (answer(["x"], 404), f"{SITE}: status 404"),
        (answer("gone for now", 503, "text/plain; charset=utf-8"), f"{SITE}: gone for now"),
        (answer(ValueError("x")), f"{SITE}: ValueError; is that the site?"),
        (
            answer(requests.exceptions.JSONDecodeError("x", "y", 0), 200, ""),
            f"{SITE}: this is not an answer of captau serve; name the site with url=…",
        ),
    ],
)
def test_a_refusal_is_told_in_the_site_s_words(monkeypatch, response, message):
    client, _, _ = make_client(monkeypatch, *[response] * 5)
    with says(message):
        client._request("GET", "x")
    # What is said in plain text with success is no refusal.
    client, _, _ = make_client(monkeypatch, answer({"a": 1}, 399, "text/plain"))
    assert client._request("GET", "x") == {"a": 1}


def row(metric, references, value, low=None, high=None):
    names = ("metric", "references", "value", "ci_low", "ci_high")
    return dict(zip(names, (metric, references, value, low, high), strict=True))


def test_outcomes_are_printed_with_their_status(capsys):
    scores = [
        row("cider", "c5", 0.98765, 0.9, 1.05),
        row("rouge_l", "", None),
        row("x", "c40", 12.5),
    ]
    assert print_outcome({"state": "scored", "summary": "a.json: valid", "scores": scores}) == 0
    assert capsys.readouterr() == (
        "a.json: valid\n"
        "metric        score  95 % interval\n"
        "CIDEr, c5      98.8  90.0 to 105.0\n"
        "ROUGE-L           —\n"
        "x, c40      12.5000\n",
        "",
    )
    invalid = {"state": "invalid", "summary": "a.json: not valid", "faults": ["one", "two"]}
    assert print_outcome(invalid) == 2
    assert capsys.readouterr() == ("a.json: not valid\n", "captau: one\ncaptau: two\n")
    assert print_outcome({"state": "failed", "file": "a.json", "reason": "no memory"}) == 1
    assert capsys.readouterr() == ("", "captau: a.json: not evaluated: no memory\n")


def test_a_submission_is_sent_and_waited_for(monkeypatch, tmp_path, capsys):
    made, waited = [], []

    class Client:
        def __init__(self, url, token):
            made.append((url, token))

        def submit(self, *args):
            made.append(args)
            return {"challenge": "small", "file": "a.json", "bytes": 12_345, "id": "k"}

        def wait(self, key):
            waited.append(key)
            return {"state": "failed", "file": "a.json", "reason": "x"}

    monkeypatch.setattr(module, "ChallengeClient", Client)
    monkeypatch.delenv("CAPTAU_TOKEN", raising=False)
    fields = {"file": tmp_path / "a.json", "challenge": "small", "url": SITE}
    with says("a token is needed; make one on your account page of the site, and set CAPTAU_TOKEN"):
        commands.submit(SubmitOptions(**fields))
    monkeypatch.setenv("CAPTAU_TOKEN", "of the environment")
    assert commands.submit(SubmitOptions(**fields, wait=False)) == 0
    assert capsys.readouterr().out == "small: received a.json (12,345 bytes) as k\n"
    options = SubmitOptions(**fields, token="mine", system="one", note="n")
    assert (commands.submit(options), waited) == (1, ["k"])
    assert made == [
        (SITE, "of the environment"),
        (tmp_path / "a.json", "small", None, None),
        (SITE, "mine"),
        (tmp_path / "a.json", "small", "one", "n"),
    ]
