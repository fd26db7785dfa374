"""The judge's endpoint by hand: limits, waits, refusals and images, to the letter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from PIL import Image

from captau.metrics.neural.judge import endpoint
from captau.metrics.neural.judge.answers import Answers
from captau.metrics.neural.judge.endpoint import Question, SpendingLimits, SpentError
from tests.conftest import raises_exactly


def test_limits_are_reached_and_not_passed():
    limits = SpendingLimits(2, 10)
    assert (limits.sent, limits.used) == (0, 0)
    limits.count_request()
    limits.count_tokens({"usage": {"total_tokens": 9}})
    limits.count_request()
    assert (limits.sent, limits.used) == (2, 9)
    with raises_exactly("max_requests=2", SpentError):
        limits.count_request()
    limits = SpendingLimits(None, 10, used=9)
    limits.count_request()
    limits.count_tokens({"usage": {"total_tokens": 2}})
    with raises_exactly("max_total_tokens=10: 11 used", SpentError):
        limits.count_request()
    with raises_exactly("max_total_tokens=0: 0 used", SpentError):
        SpendingLimits(None, 0).count_request()
    with raises_exactly("max_requests=0", SpentError):
        SpendingLimits(0, None).count_request()
    for answer in ({}, {"usage": None}, {"usage": {"total_tokens": "9"}}):
        SpendingLimits(1, None).count_tokens(answer)
        with raises_exactly(
            "the endpoint does not say how many tokens it used, so max_total_tokens cannot be enforced; set only "
            "max_requests"
        ):
            limits.count_tokens(answer)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("nan", None), ("soon", None)],
)
def test_waits_that_are_asked_for(value, expected):
    assert endpoint.read_retry_after(value) == expected


def test_waits_until_a_date():
    for change, expected in ((30, 30), (-30, 0)):
        until = datetime.now(UTC) + timedelta(seconds=change)
        assert endpoint.read_retry_after(format_datetime(until)) == pytest.approx(expected, abs=3)
        plain = format_datetime(until.replace(tzinfo=None))  # "-0000": no zone, which is UTC's
        assert endpoint.read_retry_after(plain) == pytest.approx(expected, abs=3)


def response(status, text, body=None):
    def read():
        if body is None:
            raise ValueError
        return body

    return SimpleNamespace(status_code=status, text=text, json=read)


@pytest.mark.parametrize(
    ("answer", "with_key", "message"),
    [
        (response(400, ""), True, "status 400"),
        (response(404, "a\n  b"), True, "status 404: a b"),
        (response(400, "x" * 301), False, f"status 400: {'x' * 300}"),
        (response(400, "x", {"error": {"message": "why"}}), False, "status 400: why"),
        (response(400, "x", {"error": "why"}), False, "status 400: x"),
        (response(400, "x", []), False, "status 400: x"),
        (response(401, "x"), True, "status 401: x; check the key in CAPTAU_JUDGE_KEY"),
        (response(403, ""), False, "status 403; set CAPTAU_JUDGE_KEY to your key"),
        (response(402, ""), False, "status 402"),
    ],
)
def test_refusals_are_one_line_with_a_remedy(answer, with_key, message):
    assert endpoint.describe_refusal(answer, with_key) == message


def test_images_are_sent_as_they_are_where_endpoints_take_them(tmp_path):
    for name, mode, kind in (
        ("a.jpg", "RGB", "image/jpeg"),
        ("a.png", "L", "image/png"),
        ("a.webp", "RGB", "image/webp"),
    ):
        Image.new(mode, (2, 3)).save(tmp_path / name)
        assert endpoint.read_image(tmp_path / name) == (kind, (tmp_path / name).read_bytes())
    for name, mode in (("a.gif", "RGB"), ("b.png", "RGBA"), ("c.png", "P")):
        Image.new(mode, (2, 3)).save(tmp_path / name)
        kind, data = endpoint.read_image(tmp_path / name)
        assert kind == "image/png"
        assert data != (tmp_path / name).read_bytes()
    content = endpoint.make_content(Question("why", str(tmp_path / "a.png")))
    assert [part["type"] for part in content] == ["image_url", "text"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert content[1] == {"type": "text", "text": "why"}
    assert endpoint.make_content(Question("why")) == "why"
    assert Question("a").identity == {"text": "a", "image": None}
    assert Question("a", None, 2).identity == {"text": "a", "image": None, "vote": 2}
    gone = str(tmp_path / "gone.png")
    with raises_exactly(f"{gone}: cannot be read (No such file or directory)"):
        _ = Question("a", gone).identity


def test_a_request_that_cannot_be_sent_says_so_without_the_key(monkeypatch, tmp_path):
    import requests

    monkeypatch.setenv("CAPTAU_JUDGE_KEY", " secret ")

    def post(*_, auth, **__):
        prepared = auth(SimpleNamespace(headers={}))
        raise requests.exceptions.InvalidHeader(prepared.headers["Authorization"])

    monkeypatch.setattr(endpoint.Endpoint, "_session", SimpleNamespace(post=post))
    one = endpoint.Endpoint(
        *("http://h", {}, Answers(tmp_path), SpendingLimits(None, None), 1, 5, 1.0),
        lambda *_: None,
    )
    kept = "0 of 1 answers are kept, and a new run goes on from there"
    with raises_exactly(f"http://h: 0: the request failed (Bearer …); {kept}"):
        one.ask([Question("a")], str, lambda _: None)
