"""The judge: smoothing worked by hand, and an endpoint that fails as it is told to."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.conf import group
from captau.metrics.neural.judge import endpoint
from captau.metrics.neural.judge import metric as judge_metric
from captau.metrics.neural.judge.endpoint import Question
from captau.metrics.neural.judge.metric import (
    MllmJudge,
    Prices,
    estimate_costs,
    summarise_costs,
)
from captau.metrics.neural.judge.presets import UnusableError, load_preset, score_of
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import AWKWARD, raises_exactly, says
from tests.metrics.neural.judge.judge_stub import (
    EIGHT,
    FIVE,
    cache,
    completion,
    judge,
    kept,
    pauses,
    rows,
    stub,
    sure,
)

__all__ = ["cache", "pauses", "stub"]  # the fixtures

SECRET = "sk-a-key-that-no-file-may-hold"


# Smoothing, worked by hand (Lee et al. 2024; `fleur.py` in Yebin46/FLEUR)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        # 0.8 · 0.5 + 0.9 · 0.3 + 0.7 · 0.1 = 0.74; then 0.05 · 0.6 = 0.03.
        ([*sure("0", "."), EIGHT, FIVE], 0.77),
        ([*sure("0", "."), EIGHT], 0.74),
        ([*sure(" 0", "."), EIGHT, FIVE, *sure("\n")], 0.77),
        ([*sure("Score", ":", " 0."), EIGHT, FIVE], 0.77),
        # A last 0 does not count, nor does a third decimal.
        ([*sure("0", "."), EIGHT, ("0", {"0": 0.5, "5": 0.5})], 0.74),
        ([*sure("0", "."), EIGHT, FIVE, ("3", {"3": 0.5, "9": 0.5})], 0.77),
        # 0.0: the digit behind the point.
        ([*sure("0", "."), ("0", {"0": 0.9, "1": 0.1})], 0.01),
        # 1.0: 0.9 · 0.2 + 0.7.
        ([("1", {"1": 0.7, "0": 0.2, "2": 0.1}), *sure(".", "0")], 0.88),
        ([("1", {"1": 0.7, "0": 0.2})], 0.88),
        ([("1.0", {"1.0": 0.7, "0.9": 0.2, "10": 0.1})], 0.88),
        # Without decimals 0 stands for itself.
        ([("0", {"0": 0.7, "1": 0.3})], 0.3),
        # A token of two digits: 0.85 · 0.5 + 0.9 · 0.3 + 0.05 · 0.2.
        ([*sure("0", "."), ("85", {"85": 0.5, "9": 0.3, "05": 0.2})], 0.705),
        # One digit was chosen, so of 95 the 9 counts; then the second place: 0.05 · 0.6.
        ([*sure("0", "."), ("8", {"8": 0.5, "95": 0.5}), FIVE], 0.88),
        # Of three digits two count.
        ([*sure("0", "."), ("855", {"855": 0.5, "912": 0.5})], 0.88),
        # A token that holds the point as well: only what begins alike is compared.
        ([("0", {"0": 1.0}), (".8", {".8": 0.5, ".6": 0.5})], 0.7),
        ([("0.8", {"0.8": 0.5, "0.6": 0.25, "1.0": 0.25})], 0.55),
        ([(".8", {".8": 0.5, ".6": 0.5})], 0.7),
        # Other numbers after the first.
        ([*sure("0", "."), EIGHT, *sure(" out of 1.0")], 0.74),
        ([*sure("0", "."), EIGHT, *sure("/", "1")], 0.74),
    ],
)
def test_smoothing(places, expected):
    assert score_of(completion(*places)) == pytest.approx(expected, abs=1e-9)


def test_without_smoothing_the_number_stands():
    answer = completion(*sure("0", "."), EIGHT, FIVE)
    assert score_of(answer, smoothing="none") == 0.85
    del answer["choices"][0]["logprobs"]
    assert score_of(answer, smoothing="none") == 0.85


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("I cannot see it.", "has no number"),
        ("", "has no number"),
        ("85", "has no number from 0 to 1"),
        ("1.5", "has no number from 0 to 1"),
        ("-0.5", "has no number from 0 to 1"),
        ("1/10", "has no number from 0 to 1"),
        ("1 out of 5", "has no number from 0 to 1"),
        ("1%", "has no number from 0 to 1"),
        (None, "has no text"),
        (["0.5"], "has no text"),
    ],
)
@pytest.mark.parametrize("smoothing", ["digits", "none"])
def test_an_answer_without_a_number(content, message, smoothing):
    answer = completion(*sure("x"))
    answer["choices"][0]["message"]["content"] = content
    with pytest.raises(UnusableError, match=message):
        score_of(answer, smoothing=smoothing)


def test_an_answer_that_was_cut_off_says_so():
    with pytest.raises(UnusableError, match="cut off by max_tokens"):
        score_of(completion(*sure("Let me"), finish="length"))


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"content": None},
        {"content": []},
        {"content": [{"token": "0.5"}]},
        {"content": [{"token": "0.5", "logprob": "high", "top_logprobs": []}]},
        {"content": [{"token": "0.5", "logprob": 9.0, "top_logprobs": []}]},
        {"content": [{"token": "0.5", "logprob": math.nan, "top_logprobs": []}]},
        {"content": [{"token": "0.5", "logprob": 1e9, "top_logprobs": []}]},
        {"content": [{"token": "0.4", "logprob": -0.1, "top_logprobs": []}]},
    ],
)
def test_an_answer_without_probabilities(logprobs):
    answer = completion(content="0.5")
    answer["choices"][0]["logprobs"] = logprobs
    with pytest.raises(UnusableError, match=r"logprobs|spell"):
        score_of(answer)
    assert score_of(answer, smoothing="none") == 0.5


# An endpoint


def test_what_is_sent_and_what_comes_back(stub, tmp_path, monkeypatch):
    monkeypatch.setenv(endpoint.KEY, SECRET)
    Image.new("RGB", (3, 2), "red").save(tmp_path / "red.jpg")
    one = judge(stub, preset="reffleur", model="llava")
    row = {**rows()[0], "caption": "a\tdog {references}", "image": str(tmp_path / "red.jpg")}
    assert one.score([row]) == pytest.approx([0.77], abs=1e-9)
    ((path, headers, body),) = stub.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {SECRET}"
    picture, text = body.pop("messages")[0]["content"]
    assert body == {
        "model": "llava",
        "temperature": 0.0,
        "max_tokens": 16,
        "logprobs": True,
        "top_logprobs": 20,
    }
    kind, data = picture["image_url"]["url"].split(";base64,")
    assert kind == "data:image/jpeg"
    assert base64.b64decode(data) == (tmp_path / "red.jpg").read_bytes()
    parts = load_preset("reffleur").prompt.split("{references}")
    assert text["text"] == parts[0] + "a cat\ntwo cats" + parts[1].replace(
        "{caption}", "a dog {references}"
    )


@pytest.mark.parametrize(
    ("preset", "needs"),
    [
        ("fleur", {"images"}),
        ("reffleur", {"images", "references"}),
        ("references", {"references"}),
        ("clair", {"references"}),
        ("gveval_ref_free", {"images"}),
        ("gveval_ref_only", {"references"}),
        ("gveval_combined", {"images", "references"}),
    ],
)
def test_what_each_preset_needs(preset, needs):
    assert MllmJudge("m", preset=preset).needs == needs
    assert ("{references}" in load_preset(preset).prompt) == ("references" in needs)


def test_without_smoothing_no_probabilities_are_asked_for(stub):
    assert judge(stub, smoothing="none").score(rows()).tolist() == [0.85]
    assert "logprobs" not in stub.asked[0][2]


def test_any_caption_is_asked_about(stub):
    items = [{"caption": c, "references": [c]} for c in AWKWARD]
    assert judge(stub).score(items) == pytest.approx(np.full(len(AWKWARD), 0.77))
    assert len(stub.asked) == len(set(AWKWARD))


def test_nothing_is_asked_twice(stub, tmp_path, cache):
    one = judge(stub)
    first = one.score([*rows(3), *rows(3)])
    assert len(stub.asked) == 3
    assert len(kept(cache)) == 3
    np.testing.assert_array_equal(one.score(rows(3)[::-1]), first[:3][::-1])
    assert len(stub.asked) == 3
    # Another model, question or option is another request; how it is bought is not.
    for changes in ({"model": "n"}, {"temperature": 0.5}, {"max_tokens": 9}, {"top_logprobs": 5}):
        before = len(stub.asked)
        judge(stub, **changes).score(rows())
        assert len(stub.asked) == before + 1, changes
    before = len(stub.asked)
    judge(stub, retries=0, concurrency=1, max_requests=0, timeout=1.0).score(rows(3))
    assert len(stub.asked) == before


def test_an_image_goes_by_its_content(stub, tmp_path):
    one = judge(stub, preset="fleur")
    for name, colour in (("a.png", "red"), ("b.png", "red"), ("a.png", "blue")):
        Image.new("RGB", (2, 2), colour).save(tmp_path / name)
        one.score([{"caption": "a dog", "image": str(tmp_path / name)}])
    assert len(stub.asked) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"answer": ', b"\xff"])
def test_a_broken_answer_on_disk_is_asked_for_anew(content, stub, cache):
    judge(stub).score(rows())
    kept(cache)[0].write_bytes(content)
    assert judge(stub).score(rows()) == pytest.approx([0.77])
    assert len(stub.asked) == 2
    assert judge(stub).score(rows()) == pytest.approx([0.77])
    assert len(stub.asked) == 2


def test_requests_run_in_parallel_within_the_limit(stub):
    # Two requests at a time wait for each other, so that one at a time would never end.
    stub.meet = threading.Barrier(2)
    judge(stub, concurrency=2).score(rows(6))
    assert stub.most == 2


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        ((429, {"Retry-After": "7"}, b""), [7.0]),
        ((503, {"Retry-After": "0"}, b""), [0.0]),
        ((429, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, b""), [0.0]),
        ((429, {"Retry-After": "300"}, b""), [300.0]),
        ((429, {"Retry-After": "soon"}, b""), [1.0]),
        ((429, {}, b""), [1.0]),
        ((500, {}, b"<html>"), [1.0]),
        ("drop", [1.0]),
        ((200, {}, b"<html>"), [1.0]),
        ((200, {}, b'{"choices": []}'), [1.0]),
        ((200, {}, b'{"choices": [{"message": null}]}'), [1.0]),
        ((200, {}, b'{"choices": [{"mess'), [1.0]),
    ],
)
def test_a_fault_that_passes(fault, waits, stub, pauses):
    stub.faults = [fault]
    assert judge(stub).score(rows()) == pytest.approx([0.77])
    assert len(stub.asked) == 2
    assert pauses == waits


def test_waits_grow_and_end(stub, pauses, cache):
    stub.faults = [(503, {}, b"")] * 9
    with says(stub.url, "x0: status 503, 9 times", "0 of 1 answers are kept"):
        judge(stub, retries=8).score(rows())
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(stub.asked) == 9


@pytest.mark.parametrize("seconds", ["301", "86400"])
def test_an_endpoint_that_asks_to_wait_too_long_is_given_up(seconds, stub, pauses):
    stub.faults = [(429, {"Retry-After": seconds}, b"")]
    with says(f"x0: status 429, and asks to wait {seconds} s"):
        judge(stub).score(rows())
    assert pauses == []


def test_a_timeout_is_tried_again(stub, pauses):
    gate = threading.Event()

    def slow(body):
        if not gate.is_set():
            gate.set()
            threading.Event().wait(6)
        return completion(*sure("0", "."), EIGHT)

    stub.reply = slow
    assert judge(stub, timeout=2.0).score(rows()) == pytest.approx([0.74])
    assert pauses == [1]


def test_an_endpoint_that_is_not_there(stub, pauses):
    stub.close()
    with says(stub.url, "x0: no server answers there; is it running?"):
        judge(stub).score(rows())
    assert pauses == []


def test_an_endpoint_that_goes_away_is_waited_for(stub, monkeypatch):
    seconds = []

    def close(self, pause):
        seconds.append(pause)
        stub.close()

    monkeypatch.setattr(endpoint.Endpoint, "_pause", close)
    stub.faults = [None, "drop"]
    with says(stub.url, "x1: no answer (ConnectionError), 3 times", "1 of 2 answers are kept"):
        judge(stub, retries=2, concurrency=1).score(rows(2))
    assert seconds == [1, 2]


def test_a_fault_keeps_what_was_bought(stub, pauses, cache):
    stub.reply = lambda body: (
        b"x" if "a dog 3" in body["messages"][0]["content"] else completion(*sure("0", "."), EIGHT)
    )
    fault = "x3: the answer is no chat completion, 2 times, and begins 'x'"
    with says(fault, "3 of 6 answers are kept"):
        judge(stub, retries=1, concurrency=1).score(rows(6))
    assert len(kept(cache)) == 3
    stub.reply = lambda body: completion(*sure("0", "."), EIGHT)
    before = len(stub.asked)
    assert judge(stub).score(rows(6)) == pytest.approx(np.full(6, 0.74))
    assert len(stub.asked) == before + 3


# Limits


def test_a_limit_of_requests(stub, cache):
    with says("stopped at max_requests=3; 3 of 5 answers are kept", "raise the limit"):
        judge(stub, max_requests=3).score(rows(5))
    assert len(stub.asked) == 3
    judge(stub, max_requests=2).score(rows(5))
    assert len(stub.asked) == 5


def test_repeated_requests_count(stub, pauses):
    stub.faults = [(503, {}, b"")] * 9
    with says("stopped at max_requests=4; 0 of 1"):
        judge(stub, max_requests=4).score(rows())
    assert len(stub.asked) == 4


def test_a_limit_of_tokens(stub, cache):
    with says("stopped at max_total_tokens=25: 30 used; 3 of 5 answers are kept"):
        judge(stub, max_total_tokens=25, concurrency=1).score(rows(5))
    assert len(stub.asked) == 3


def test_a_limit_of_tokens_that_are_not_told(stub, cache):
    stub.reply = lambda body: {"choices": completion(*sure("0", "."), EIGHT)["choices"]}
    with says("does not say how many tokens", "set only max_requests"):
        judge(stub, max_total_tokens=25, concurrency=1).score(rows(2))
    assert len(kept(cache)) == 1


def test_nothing_is_lost_where_the_run_is_interrupted(stub, cache, monkeypatch):
    """Ctrl-C while the third answer is counted."""

    def interrupt(done):
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("captau.metrics.neural.judge.metric.advance_to", lambda _: interrupt)
    with pytest.raises(KeyboardInterrupt):
        judge(stub, concurrency=1).score(rows(9))
    there = len(kept(cache))
    assert 3 <= there < 9
    monkeypatch.undo()
    monkeypatch.setenv("CAPTAU_CACHE", str(cache.parent))
    before = len(stub.asked)
    judge(stub).score(rows(9))
    assert len(stub.asked) == before + 9 - there


SCORE = """
import json, sys
from captau.metrics.neural.judge.metric import MllmJudge
rows = [{"caption": f"a dog {i}", "references": ["a cat"]} for i in range(40)]
print(MllmJudge("m", url=sys.argv[1], preset="references").score(rows).tolist())
"""


def test_a_killed_run_and_two_at_once(stub, cache):
    """A SIGKILL with answers under way; then two runs at once, which go on from what is kept."""
    reached, is_killed = threading.Event(), threading.Event()

    def slow(body):
        if len(stub.asked) > 10:
            reached.set()
            is_killed.wait(120)  # also where the test fails before
        return completion(*sure("0", "."), EIGHT)

    stub.reply = slow
    command = [sys.executable, "-c", SCORE, stub.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as killed:
        assert reached.wait(60)
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
    is_killed.set()
    there = kept(cache)
    assert 7 <= len(there) <= 11
    assert all(json.loads(path.read_text())["answer"] for path in there)
    stub.reply = lambda body: completion(*sure("0", "."), EIGHT)
    before = len(stub.asked)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) for _ in range(2)]
    said = [json.loads(one.communicate(timeout=60)[0]) for one in both]
    assert said == [[pytest.approx(0.74)] * 40] * 2
    assert len(kept(cache)) == 40
    assert len(stub.asked) - before <= 2 * (40 - len(there))
    assert all(json.loads(path.read_text())["answer"] for path in kept(cache))


# Refusals, and the key


def test_the_key_is_in_no_message_file_signature_or_spec(stub, cache, monkeypatch, capfd):
    monkeypatch.setenv(endpoint.KEY, SECRET)
    one = judge(stub)
    one.score(rows())
    echo = {"error": {"message": f"Incorrect key {SECRET}\nprovided"}}
    stub.faults = [(401, {}, echo)]
    with says("x1: status 401: Incorrect key …", f"check the key in {endpoint.KEY}") as caught:
        one.score(rows(2))
    del caught
    texts = [path.read_text() for path in cache.rglob("*") if path.is_file()]
    texts += [one.signature, one.spec, repr(one), *capfd.readouterr()]
    assert texts
    assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ((401, {}, b"no"), f"x0: status 401: no; set {endpoint.KEY} to your key"),
        (
            (404, {}, {"error": {"message": "no such model"}}),
            "x0: status 404: no such model",
        ),
        ((400, {}, {"error": "logprobs are not offered"}), "x0: status 400"),
        ((302, {"Location": "http://127.0.0.1:9/"}, b""), "x0: status 302"),
    ],
)
def test_a_refusal_is_not_tried_again(fault, message, stub, pauses):
    stub.faults = [fault]
    with says(stub.url, message):
        judge(stub).score(rows())
    assert len(stub.asked) == 1
    assert pauses == []


def test_no_other_key_is_sent(stub, tmp_path, monkeypatch):
    """Neither OpenAI's variable, which is for OpenAI, nor what ~/.netrc holds for the host."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    judge(stub).score(rows())
    assert "Authorization" not in stub.asked[0][1]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "an address such as https://HOST/v1 is expected"),
        ("file:///etc/passwd", "an address such as"),
        ("https://me:secret@host/v1", "keep keys out of it"),
        ("https://host/v1?key=secret", "keep keys out of it"),
    ],
)
def test_an_address_that_is_none(url, message):
    with says(message):
        MllmJudge("m", url=url, preset="references").score(rows())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency", 0),
        ("retries", -1),
        ("max_requests", -1),
        ("timeout", 0.0),
        ("max_tokens", 0),
    ],
)
def test_an_option_that_is_too_low(field, value):
    with says(f"metric mllm_judge: {field} is {value}; "):
        MllmJudge("m", **{field: value})


# Unusable answers, and questions that cannot be asked


def test_an_unusable_answer_names_the_item_or_is_undefined(stub):
    stub.reply = lambda body: completion(
        *(sure("no") if "dog 1" in body["messages"][0]["content"] else [*sure("0", "."), EIGHT])
    )
    with says(
        "x1: the answer 'no' has no number (1 of 3 answers are unusable)", "unusable=undefined"
    ):
        judge(stub).score(rows(3))
    one = judge(stub, unusable="undefined")
    table = Rows(pd.DataFrame(rows(3)))
    assert one.score(table).tolist() == pytest.approx([0.74, math.nan, 0.74], nan_ok=True)
    assert table.remarks == {one.spec: ["1 of 3 answers are unusable, and their scores undefined"]}
    assert len(stub.asked) == 3


def test_a_prompt_of_ones_own(stub, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Rate {caption} {x} given:\n{references}", encoding="utf-8")
    one = judge(stub, prompt=str(path))
    one.score(rows())
    assert stub.asked[0][2]["messages"][0]["content"] == "Rate a dog 0 {x} given:\na cat\ntwo cats"
    path.write_text("Rate {caption}")
    with says("prompt.txt", "no {references}, where inputs=references has it"):
        one.score(rows())
    path.unlink()
    with says("prompt.txt", "cannot be read"):
        one.score(rows())


def test_the_built_in_text_is_in_the_signature(monkeypatch):
    one = MllmJudge("m")
    before = one.signature
    assert dataclasses.replace(one, preset="references").signature != before
    changed = dataclasses.replace(load_preset("fleur"), prompt="{caption}")
    monkeypatch.setattr(judge_metric, "load_preset", lambda name: changed)
    assert one.signature != before


@pytest.mark.parametrize("mode", ["CMYK", "I;16", "P", "RGBA"])
def test_unusual_images_are_sent_as_rgb_in_png(mode, stub, tmp_path):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new(mode, (2, 2)).save(path)
    judge(stub, preset="fleur").score([{"caption": "a dog", "image": str(path)}])
    url = stub.asked[0][2]["messages"][0]["content"][0]["image_url"]["url"]
    (tmp_path / "sent.png").write_bytes(
        base64.b64decode(url.removeprefix("data:image/png;base64,"))
    )
    with Image.open(tmp_path / "sent.png") as sent:
        assert (sent.format, sent.mode, sent.size) == ("PNG", "RGB", (2, 2))


def test_an_image_that_cannot_be_read(stub, tmp_path):
    one = judge(stub, preset="fleur")
    Image.effect_noise((64, 64), 50).save(tmp_path / "whole.png")
    data = (tmp_path / "whole.png").read_bytes()
    for name, content in (("cut.png", data[: len(data) // 2]), ("page.png", b"<html></html>")):
        (tmp_path / name).write_bytes(content)
        with says(f"x0: {tmp_path / name}: not an image that can be read"):
            one.score([{**rows()[0], "image": str(tmp_path / name)}])
    with says("absent.png: cannot be read"):
        one.score([{**rows()[0], "image": str(tmp_path / "absent.png")}])
    with says("metric mllm_judge(model=m", "needs images, and x0 has none"):
        one.score(rows())
    assert stub.asked == []


def test_answers_that_cannot_be_kept_stop_the_run(stub, cache):
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    with says("answers cannot be kept there", "cache.root=DIR"):
        judge(stub).score(rows())


def test_it_is_in_no_suite():
    assert not any(
        isinstance(m, MllmJudge) for suite in group("suite") for m in resolve_metrics(suite)
    )
    with says("the parameter model is needed"):
        metric("mllm_judge")


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
    with raises_exactly(f"metric mllm_judge: {field} is {below}; at least {low} is expected"):
        MllmJudge("m", **{field: below})
