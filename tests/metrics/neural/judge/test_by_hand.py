"""The judge's parts one by one: exact messages, limits, waits, costs, lines of a file of answers, and pairs."""

from __future__ import annotations

import contextlib
import json
import math
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from captau.datasets.errors import InputError
from captau.metrics.neural.judge import endpoint, presets
from captau.metrics.neural.judge.answers import AnswerFile, Answers, _make_answer, _shorten_answer
from captau.metrics.neural.judge.endpoint import Question, SpendingLimits, SpentError
from captau.metrics.neural.judge.metric import (
    MllmJudge,
    Prices,
    estimate_costs,
    summarise_costs,
)
from captau.metrics.neural.judge.pairs import PairJudgements
from captau.metrics.neural.judge.presets import Preset, UnusableError, choice_of, score_of


@contextmanager
def refused(message, kind=InputError):
    """What is inside raises an error with exactly this text."""
    with pytest.raises(kind) as error:
        yield
    assert str(error.value) == message


# Answers that are unusable

LONG = "x" * 79 + "yz"  # of which 80 characters are shown
CUT = "x" * 79 + "y"


def said(content, **more):
    return {"choices": [{"message": {"content": content}, **more}]}


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (LONG, "number", f"the answer '{CUT}' has no number"),
        (f"1.5 {LONG}", "number", f"the answer '1.5 {'x' * 76}' has no number from 0 to 1"),
        (LONG, "json", f"the answer '{CUT}' has no number"),
        (f"101 {LONG}", "json", f"the answer '101 {'x' * 76}' has no number from 0 to 100"),
        (
            f"ab{LONG[2:]}",
            "dollars",
            f"the answer '{'b' + 'x' * 77 + 'yz'}' has no whole number from 0 to 100 between dollar signs",
        ),
        (
            "$101$",
            "dollars",
            "the answer '$101$' has no whole number from 0 to 100 between dollar signs",
        ),
    ],
)
def test_answers_are_shown_in_part(content, reading, message):
    for finish, end in (("stop", ""), ("length", "; it was cut off by max_tokens")):
        with refused(f"{message}{end}", UnusableError):
            score_of(said(content, finish_reason=finish), reading, "none")


def test_other_unusable_answers_are_shown_in_part():
    with refused(f"the answer '{CUT}' has no judgement", UnusableError):
        choice_of(said(LONG))
    with refused("the answer has no text", UnusableError):
        choice_of(said(None))
    refusal = {"choices": [{"message": {"content": "0.5", "refusal": f"no\n{LONG}"}}]}
    with refused(f"the model refused ('no {'x' * 77}')", UnusableError):
        score_of(refusal)
    with refused("the model refused ('0.5')", UnusableError):
        score_of(said("0.5", finish_reason="content_filter"))
    with refused("the model refused ('')", UnusableError):
        score_of(said(None, finish_reason="content_filter"))
    tokens = [{"token": "0." + "4" * 90, "logprob": -1.0, "top_logprobs": []}]
    with refused(
        f"the tokens of the answer spell '0.{'4' * 78}', not '0.{'5' * 78}'", UnusableError
    ):
        score_of(said("0." + "5" * 90, logprobs={"content": tokens}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"score": 70}', 0.7),
        ('so {"score": "100"} {"score": 1}', 1.0),
        ('{"score": 0}', 0.0),
        ("score 0.5", 0.5),
        ("1", 0.01),
        (".25", 0.25),
        ('{"other": 3} 40', 0.03),
        ("100", 1.0),
    ],
)
def test_clairs_numbers(text, expected):
    assert score_of(said(text), "json", "none") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$0$", 0.0), ("$100$", 1.0), ("a $ {{7}} $ $8$", 0.07), ("${ 55 }$", 0.55)],
)
def test_g_vevals_numbers(text, expected):
    assert score_of(said(text), "dollars", "none") == expected


def entry(token, **likely):
    probabilities = {t.strip("_"): p for t, p in likely.items()}
    top = [{"token": t, "logprob": math.log(p)} for t, p in probabilities.items()]
    return {
        "token": token,
        "logprob": math.log(probabilities.get(token, 0.01)),
        "top_logprobs": top,
    }


def test_whole_numbers_are_averaged_behind_the_dollar_sign():
    """80 with ½, 90 with ¼ and 7 with ⅛; "08", "101" and words do not count: (40 + 22½ + ⅞) / ⅞."""
    likely = {"_80": 0.5, "_90": 0.25, "_7": 0.125, "_08": 0.05, "_101": 0.05, "of": 0.02}
    content = [entry("so $"), entry("80", **likely), entry("$")]
    found = score_of(said("so $80$", logprobs={"content": content}), "dollars", "integers")
    assert found == pytest.approx((40 + 22.5 + 0.875) / 0.875 / 100)
    message = (
        "the number 80 is not a single token after a dollar sign, so it cannot be smoothed; smoothing=none "
        "takes it as it is"
    )
    for tokens in (["$", "8", "0", "$"], ["80"], ["80", "$"]):
        with refused(message, UnusableError):
            answer = said("$80$", logprobs={"content": [entry(t) for t in tokens]})
            score_of(answer, "dollars", "integers")


@pytest.mark.parametrize(
    ("logprobs", "message"),
    [
        (None, "the answer has no probabilities (logprobs); smoothing=none does without them"),
        (
            {"content": []},
            "the answer has no probabilities (logprobs); smoothing=none does without them",
        ),
        (
            {"content": [entry("0.5", _a=0.6, _b=0.41)]},
            "the probabilities of the answer (logprobs) are none",
        ),
    ],
)
def test_probabilities_that_are_none(logprobs, message):
    with refused(message, UnusableError):
        score_of(said("0.5", logprobs=logprobs))


def test_probabilities_may_sum_to_a_little_more_than_1():
    assert presets._places({"logprobs": {"content": [entry("a", a=0.6, b=0.4009)]}}) == [
        ("a", {"a": pytest.approx(0.6), "b": pytest.approx(0.4009)})
    ]
    # A token that is not among the likeliest has its own probability.
    ((_, likely),) = presets._places({"logprobs": {"content": [entry("z", a=0.5)]}})
    assert likely == {"a": pytest.approx(0.5), "z": pytest.approx(0.01)}


def test_a_preset_is_filled_in_one_pass():
    preset = Preset(
        *("t", "s", "{caption}|{references}|{other}", "references", "number", "none", 0.5, 7),
        references={"before": "<", "between": "; ", "after": ">"},
    )
    assert (preset.top_logprobs, preset.shows_image, preset.shows_references) == (20, False, True)
    filled = preset.fill({"caption": " a\n{references}  b"}, ["x  y", "{caption}"])
    assert filled == "a {references} b|<x y; {caption}>|{other}"
    plain = Preset("t", "s", "{references}", "image", "number", "none", 0.5, 7)
    assert (plain.shows_image, plain.shows_references) == (True, False)
    assert plain.fill({}, ["a", "b"]) == "a\nb"
    assert Preset("t", "s", "", "image_and_references", "json", "none", 0, 1).shows_image


def test_a_prompt_of_ones_own_has_the_places_of_the_presets(tmp_path):
    path = tmp_path / "p.txt"
    preset = Preset("t", "s", "{caption_1} {caption_2}", "image", "choice", "none", 0, 1)
    path.write_text("{caption_1} {caption}")
    with refused(f"{path}: no {{caption_2}}, where inputs=image has it"):
        presets.read_prompt(str(path), preset)
    path.write_text("{caption_2} {caption_1}")
    assert presets.read_prompt(str(path), preset) == "{caption_2} {caption_1}"


# The endpoint


def test_limits_are_reached_and_not_passed():
    limits = SpendingLimits(2, 10)
    assert (limits.sent, limits.used) == (0, 0)
    limits.count_request()
    limits.count_tokens({"usage": {"total_tokens": 9}})
    limits.count_request()
    assert (limits.sent, limits.used) == (2, 9)
    with refused("max_requests=2", SpentError):
        limits.count_request()
    limits = SpendingLimits(None, 10, used=9)
    limits.count_request()
    limits.count_tokens({"usage": {"total_tokens": 2}})
    with refused("max_total_tokens=10: 11 used", SpentError):
        limits.count_request()
    with refused("max_total_tokens=0: 0 used", SpentError):
        SpendingLimits(None, 0).count_request()
    with refused("max_requests=0", SpentError):
        SpendingLimits(0, None).count_request()
    for answer in ({}, {"usage": None}, {"usage": {"total_tokens": "9"}}):
        SpendingLimits(1, None).count_tokens(answer)
        with refused(
            "the endpoint does not say how many tokens it used, so max_total_tokens cannot be enforced; set only "
            "max_requests"
        ):
            limits.count_tokens(answer)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("nan", None), ("soon", None)],
)
def test_waits_that_are_asked_for(value, expected):
    assert endpoint._retry_after(value) == expected


def test_waits_until_a_date():
    for change, expected in ((30, 30), (-30, 0)):
        until = datetime.now(UTC) + timedelta(seconds=change)
        assert endpoint._retry_after(format_datetime(until)) == pytest.approx(expected, abs=3)
        plain = format_datetime(until.replace(tzinfo=None))  # "-0000": no zone, which is UTC's
        assert endpoint._retry_after(plain) == pytest.approx(expected, abs=3)


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
    assert endpoint._refusal(answer, with_key) == message


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        (None, False),
        ([], False),
        ({}, False),
        ({"choices": []}, False),
        ({"choices": [{"message": "a"}]}, False),
        ({"choices": [{"message": {}}]}, True),
    ],
)
def test_chat_completions_have_a_message(body, is_answer):
    assert endpoint._parsed(response(200, "", body)) == (body if is_answer else None)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_faults_that_may_pass_are_tried_again(status, monkeypatch, tmp_path):
    posted = []

    def post(*_, **__):
        posted.append(status)
        return SimpleNamespace(
            status_code=status if len(posted) == 1 else 200, headers={}, json=lambda: said("1")
        )

    monkeypatch.setattr(endpoint.Endpoint, "_session", SimpleNamespace(post=post))
    monkeypatch.setattr(endpoint.Endpoint, "_pause", lambda self, seconds: None)
    one = endpoint.Endpoint(
        *("http://h", {}, Answers(tmp_path), SpendingLimits(None, None), 1, 1, 1.0),
        lambda *_: None,
    )
    assert one.ask([Question("a")], str, lambda _: None) == [said("1")]
    assert posted == [status] * 2


@pytest.mark.parametrize("retries", [0, 3, 8])
def test_waits_double_up_to_a_minute(retries, monkeypatch, tmp_path):
    monkeypatch.delenv("CAPTAU_JUDGE_KEY", raising=False)
    posted, pauses = [], []

    def post(url, **options):
        posted.append((url, options["json"], options["timeout"], options["allow_redirects"]))
        return SimpleNamespace(status_code=503, headers={})

    monkeypatch.setattr(endpoint.Endpoint, "_session", SimpleNamespace(post=post))
    monkeypatch.setattr(endpoint.Endpoint, "_pause", lambda self, seconds: pauses.append(seconds))
    announced = []
    one = endpoint.Endpoint(
        *("http://h/v1/", {"model": "m"}, Answers(tmp_path), SpendingLimits(None, None)),
        *(1, retries, 7.5, lambda *words: announced.append(words)),
    )
    question = Question("why")
    with refused(
        f"http://h/v1/: item 0: status 503, {retries + 1} times; 0 of 1 answers are kept, and a new run goes on "
        f"from there"
    ):
        one.ask([question], lambda i: f"item {i}", announced.append)
    body = {"model": "m", "messages": [{"role": "user", "content": "why"}]}
    assert posted == [("http://h/v1/chat/completions", body, 7.5, False)] * (retries + 1)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60][:retries]
    assert announced == [0, ([question], [])]


@pytest.mark.parametrize(
    ("asked", "message"), [("300", None), ("301", "status 429, and asks to wait 301 s")]
)
def test_the_longest_wait_is_five_minutes(asked, message, monkeypatch, tmp_path):
    answers = iter([(429, asked), (200, None)])
    pauses = []

    def post(*_, **__):
        status, wait = next(answers)
        return SimpleNamespace(
            status_code=status, headers={"Retry-After": wait}, json=lambda: said("0.5")
        )

    monkeypatch.setattr(endpoint.Endpoint, "_session", SimpleNamespace(post=post))
    monkeypatch.setattr(endpoint.Endpoint, "_pause", lambda self, seconds: pauses.append(seconds))
    one = endpoint.Endpoint(
        *("http://h", {}, Answers(tmp_path), SpendingLimits(None, None), 1, 1, 1.0),
        lambda *_: None,
    )
    if message is None:
        assert one.ask([Question("a")], str, lambda _: None) == [said("0.5")]
        assert pauses == [300.0]
    else:
        with refused(
            f"http://h: 0: {message}; 0 of 1 answers are kept, and a new run goes on from there"
        ):
            one.ask([Question("a")], str, lambda _: None)


def test_images_are_sent_as_they_are_where_endpoints_take_them(tmp_path):
    for name, mode, kind in (
        ("a.jpg", "RGB", "image/jpeg"),
        ("a.png", "L", "image/png"),
        ("a.webp", "RGB", "image/webp"),
    ):
        Image.new(mode, (2, 3)).save(tmp_path / name)
        assert endpoint._image(tmp_path / name) == (kind, (tmp_path / name).read_bytes())
    for name, mode in (("a.gif", "RGB"), ("b.png", "RGBA"), ("c.png", "P")):
        Image.new(mode, (2, 3)).save(tmp_path / name)
        kind, data = endpoint._image(tmp_path / name)
        assert kind == "image/png"
        assert data != (tmp_path / name).read_bytes()
    content = endpoint._content(Question("why", str(tmp_path / "a.png")))
    assert [part["type"] for part in content] == ["image_url", "text"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert content[1] == {"type": "text", "text": "why"}
    assert endpoint._content(Question("why")) == "why"
    assert Question("a").identity == {"text": "a", "image": None}
    assert Question("a", None, 2).identity == {"text": "a", "image": None, "vote": 2}
    gone = str(tmp_path / "gone.png")
    with refused(f"{gone}: cannot be read (No such file or directory)"):
        _ = Question("a", gone).identity


# Costs


def used(sent, answered):
    return {"usage": {"prompt_tokens": sent, "completion_tokens": answered}}


def test_costs_before_and_after_in_full():
    free, paid = Prices(None, 3.0), Prices(2.0, 8.0)
    questions = [Question("x" * 10), Question("y" * 4000, "i.png")]
    plain = (
        "2 requests, about 1,002 tokens sent (at 4 characters each, and those of the images), at most 14 "
        "answered"
    )
    assert estimate_costs(questions, [], 7, free) == plain
    assert estimate_costs(questions[:1], [{}], 7, paid) == (
        "1 requests, about 2 tokens sent (at 4 characters each), at most 7 answered, cost about 0.0001"
    )
    stored = [used(100, 5), used(201, 3), {"usage": None}, {"usage": {"prompt_tokens": 3}}]
    # 150.5 each and 14 answered: (301 · 2 + 14 · 8) / 10⁶.
    assert estimate_costs(questions, stored, 7, paid) == (
        "2 requests, about 301 tokens sent (as many each as 2 earlier ones), at most 14 answered, cost about "
        "0.0007"
    )
    assert summarise_costs(stored, paid) == (
        "2 answers took 301 tokens sent and 8 answered, cost 0.0007; 2 answers do not say theirs"
    )
    assert summarise_costs(stored[:2], free) == "2 answers took 301 tokens sent and 8 answered"
    assert summarise_costs([{}], paid) == ""
    assert Prices(2.0, None).describe_cost(1, 1) == ""
    assert Prices(2e6, 1e6).describe_cost(1000, 500) == ", cost 2,500.0000"


def test_the_judges_options():
    judge = MllmJudge("m")
    assert {k: v for k, v in vars(judge).items() if not k.startswith("_")} == {
        "model": "m",
        "url": "http://localhost:8000/v1",
        "preset": "fleur",
        "prompt": None,
        "smoothing": "preset",
        "unusable": "error",
        "temperature": None,
        "max_tokens": None,
        "top_logprobs": None,
        "votes": 1,
        "answers": None,
        "price_sent": None,
        "price_answered": None,
        "max_requests": 10_000,
        "max_total_tokens": None,
        "concurrency": 4,
        "retries": 5,
        "timeout": 120.0,
        "device": "auto",
        "backend": "openai",
    }
    assert (MllmJudge.bounds, MllmJudge.is_cacheable) == ((0.0, 1.0), False)
    assert MllmJudge.file_fields == ("prompt",)
    assert judge.needs == {"images"}


@pytest.mark.parametrize(
    ("field", "low", "below"),
    [
        *((name, 1, 0) for name in ("max_tokens", "top_logprobs", "concurrency", "votes")),
        *(
            (name, 0, -1)
            for name in (
                *("retries", "max_requests", "max_total_tokens", "temperature"),
                *("price_sent", "price_answered"),
            )
        ),
        ("timeout", 0.001, 0.0009),
    ],
)
def test_options_that_are_too_low_are_refused(field, low, below):
    assert getattr(MllmJudge("m", **{field: low}), field) == low
    with refused(f"metric mllm_judge: {field} is {below}; at least {low} is expected"):
        MllmJudge("m", **{field: below})


# Files of answers


def test_a_line_has_what_a_score_needs():
    top = [{"token": "b", "logprob": -2.0, "bytes": [1]}]
    answer = {
        "id": 7,
        "choices": [
            {
                "message": {"content": "a", "refusal": "no", "role": "x"},
                "finish_reason": "stop",
                "logprobs": {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": top}]},
            }
        ],
        "usage": {"total_tokens": 3},
    }
    record = _shorten_answer(answer)
    assert record == {
        "text": "a",
        "tokens": [["a", -1.0, [["b", -2.0]]]],
        "refusal": "no",
        "finish_reason": "stop",
        "usage": {"total_tokens": 3},
    }
    token = {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": -2.0}]}
    assert _make_answer(record) == {
        "choices": [
            {
                "message": {"content": "a", "refusal": "no"},
                "finish_reason": "stop",
                "logprobs": {"content": [token]},
            }
        ],
        "usage": {"total_tokens": 3},
    }
    plain = {"choices": [{"message": {"content": "a"}, "logprobs": None}]}
    assert _shorten_answer(plain) == {"text": "a"}
    assert _make_answer({"text": "a"}) == {
        "choices": [{"message": {"content": "a", "refusal": None}, "finish_reason": None}],
        "usage": None,
    }


def test_a_file_of_answers_in_full(tmp_path):
    path = tmp_path / "new" / "answers.jsonl"
    store = Answers(tmp_path / "store")
    one = AnswerFile(path, "m", {"temperature": 0}, store)
    request = {"text": "é", "image": "sha256-abc", "vote": 2, "url": "u"}
    other = {"text": "b", "image": None}
    assert one.get(request) is None
    one.put(request, said("0.5"))
    one.put(other, said("1"))
    keys = {"model": "m", "settings": {"temperature": 0}}
    digest = "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        **keys,
        "prompt_sha256": digest,
        "image_sha256": "abc",
        "vote": 2,
        "text": "0.5",
    }
    assert (lines[1]["image_sha256"], lines[1]["vote"]) == (None, 0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"model": "cut')
    again = AnswerFile(path, "m", {"temperature": 0}, Answers(tmp_path / "none"))
    assert again.get(request)["choices"][0]["message"]["content"] == "0.5"
    again.put({"text": "c", "image": None}, said("2"))
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes()[len(whole) :].count(b"\n") == 1
    path.write_bytes(whole + whole.replace(b'"0.5"', b'"0.6"'))
    with refused(f"{path}:3: the answer differs from that of an earlier line"):
        AnswerFile(path, "m", {}, store)
    path.write_bytes(whole + b"{}\n")
    with refused(f"{path}:3: not an answer of a judge; delete the line"):
        AnswerFile(path, "m", {}, store)
    with refused(f"{tmp_path}: a folder, not a file of answers"):
        AnswerFile(tmp_path, "m", {}, store)
    assert (
        store.path(request) == store.root / store.path(request).stem[:2] / store.path(request).name
    )
    assert json.loads(store.path(request).read_bytes()) == {
        "request": request,
        "answer": said("0.5"),
    }
    store.path(request).write_text("[1]")
    assert store.get(request) is None


# Pairs


@pytest.mark.parametrize(
    ("ab", "ba", "strength"),
    [(3, 1, 1), (-1, -2, -1), (0, 0, 0), (1, -1, 0), (1, 0, 0), (0, -1, 0), (math.nan, 1, None)],
)
def test_both_orders_have_to_agree(ab, ba, strength):
    orders = pd.DataFrame(
        {"pair_id": ["p"], "item_a": ["x"], "item_b": ["y"], "ab": [ab], "ba": [ba]}
    )
    judged = PairJudgements(SimpleNamespace(), "m", orders.astype({"ab": float, "ba": float}), 0)
    assert judged.strengths.to_dict() == ({} if strength is None else {"p": strength})
    rows = judged.preferences[["pair_id", "item_a", "item_b", "rater", "dimension", "strength"]]
    assert rows.to_numpy().tolist() == (
        [] if strength is None else [["p", "x", "y", "m", "overall", strength]]
    )
    assert np.isfinite(judged.preferences["strength"]).all()


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
    with refused(f"http://h: 0: the request failed (Bearer …); {kept}"):
        one.ask([Question("a")], str, lambda _: None)


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "answers.jsonl"
    store = Answers(tmp_path / "store")
    one = object.__new__(AnswerFile)
    for name, value in {"path": path, "model": "m", "settings": {}, "answers": store}.items():
        setattr(one, name, value)
    one._records, one._size, one._lock = {}, 0, contextlib.nullcontext()
    with refused(f"{path}: answers cannot be kept there (File exists)"):
        one.put({"text": "a", "image": None}, said("1"))
    store = Answers(tmp_path / "file")
    with refused(
        f"{store.path({}).parent}: answers cannot be kept there (Not a directory); set cache.root=DIR"
    ):
        store.put({}, said("1"))
