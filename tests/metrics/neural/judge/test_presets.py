"""Presets of the judge, by answers as their authors' code reads them; votes, costs, and files of answers."""

from __future__ import annotations

import itertools
import json
import logging
import math
from importlib import resources

import numpy as np
import pytest

from captau.benchmarks.scoring.catalog import metric_style
from captau.datasets.sources.fleur import load_fleur
from captau.metrics.neural.judge import presets
from captau.metrics.neural.judge.metric import (
    MllmJudge,
    PresetName,
)
from captau.metrics.neural.judge.presets import (
    Preset,
    UnusableError,
    choice_of,
    load_preset,
    score_of,
)
from tests.conftest import raises_exactly, says
from tests.metrics.neural.judge.judge_stub import (
    cache,
    completion,
    judge,
    pauses,
    rows,
    said,
    stub,
    sure,
)

__all__ = ["cache", "pauses", "stub"]  # the fixtures

G_VEVAL = [*sure("The", " final", " score", " is", " $"), ("85", {"85": 0.5, "80": 0.25, "x": 0.2})]


def answered(text, **parts):
    answer = completion(*sure(text))
    answer["choices"][0] |= parts
    return answer


def test_every_prompt_has_a_source_a_preset_and_its_places():
    pairwise = {"pairwise", "pairwise_references"}
    folder = resources.files("captau.metrics.neural.judge") / "prompts"
    names = {file.name.removesuffix(".yaml") for file in folder.iterdir()}
    assert {*PresetName.__args__, *pairwise} == names
    for name in names:
        preset = load_preset(name)
        places = ["{caption_1}", "{caption_2}"] if name in pairwise else ["{caption}"]
        assert all(preset.prompt.count(place) == 1 for place in places)
        assert preset.prompt.count("{references}") == preset.shows_references
        assert (
            "licence" in preset.source or "MIT" in preset.source or "captau's own" in preset.source
        )


def test_clair_asks_as_its_authors_code_does():
    # DavidMChan/clair at f33f96d5, clair.py: "- {caption}\n" a caption, on both sides.
    text = load_preset("clair").fill({"caption": "a  dog"}, ["a cat", "two cats"])
    assert "Candidate set:\n- a dog\n\nReference set:\n- a cat\n- two cats\n\nOn a" in text


def test_g_veval_asks_as_its_authors_code_does():
    # ztangaj/gveval at fee3fd7e, scorer.py: "'" and "'; '" between the references, no last quote.
    text = load_preset("gveval_ref_only").fill({"caption": "a {score} dog"}, ["a cat", "two cats"])
    assert "Reference captions:\n'a cat'; 'two cats\n\nGenerated captions:\na {score} dog\n" in text
    assert "The final score is ${{score}}$." in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"score": 85, "reason": "alike"}', 0.85),
        ('Here you are: {"score": "70.5"} and {"score": 1}', 0.705),
        ("I would say 85, since …", 0.85),
        ("0.85", 0.85),
        ('{"score": 0.5}', 0.005),
        ('{"grade": 60}', 0.6),
    ],
)
def test_clair_reads_an_answer_as_its_authors_code_does(text, expected):
    assert score_of(answered(text), "json", "none") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I cannot say.", "has no number"),
        ("850", "from 0 to 100"),
        ('{"score": null}', "no number"),
    ],
)
def test_clair_without_a_number_of_its_scale_is_unusable_and_not_0(text, message):
    with pytest.raises(UnusableError, match=message):
        score_of(answered(text), "json", "none")


def test_g_veval_averages_whole_numbers_by_their_probabilities():
    # (85 · 0.5 + 80 · 0.25) / 0.75 = 83.33…; what is not a number does not count.
    answer = completion(*G_VEVAL, *sure("$."))
    assert score_of(answer, "dollars", "integers") == pytest.approx(62.5 / 75)
    assert score_of(answer, "dollars", "none") == 0.85


@pytest.mark.parametrize("text", ["The final score is 85.", "$$", "$101$", "I would pay $5 for it"])
def test_g_veval_without_a_whole_number_between_dollar_signs_is_unusable(text):
    with pytest.raises(UnusableError, match="between dollar signs"):
        score_of(answered(text), "dollars", "none")


def test_g_veval_cannot_smooth_a_number_that_is_spelt_by_digits():
    with pytest.raises(UnusableError, match="smoothing=none"):
        score_of(completion(*sure("$", "8", "5", "$")), "dollars", "integers")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answered("0.5", finish_reason="content_filter"), r"refused \('0.5'\)"),
        (
            answered("", message={"content": None, "refusal": "I  can't."}),
            r"refused \('I can't.'\)",
        ),
    ],
)
@pytest.mark.parametrize(("reading", "smoothing"), [("number", "digits"), ("json", "none")])
def test_a_refusal_is_unusable_and_says_so(answer, message, reading, smoothing):
    with pytest.raises(UnusableError, match=message):
        score_of(answer, reading, smoothing)


@pytest.mark.parametrize("preset", ["references", "clair", "gveval_ref_only"])
def test_a_judge_that_answers_text_for_a_number_gets_one_line(preset, stub):
    stub.reply = lambda body: answered("A fine caption.\nI like it.")
    with says("x0: the answer 'A fine caption.", "1 of 1 answers are unusable"):
        judge(stub, preset=preset, smoothing="none").score(rows())


def test_presets_set_what_is_sent_and_ones_own_choice_wins(stub):
    stub.reply = lambda body: completion(*G_VEVAL, *sure("$"))
    judge(stub, preset="gveval_ref_only").score(rows())
    judge(stub, preset="gveval_ref_only", temperature=0.5, max_tokens=9, smoothing="none").score(
        rows()
    )
    sent = [{k: v for k, v in body.items() if k != "messages"} for _, _, body in stub.asked]
    first = {
        "model": "m",
        "temperature": 1.0,
        "max_tokens": 1024,
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert sent == [first, {"model": "m", "temperature": 0.5, "max_tokens": 9}]


# Votes and costs


def numbers(*texts):
    """Replies with these answers in turn, each of 100 tokens sent and 5 answered."""
    turns = itertools.cycle(texts)

    def reply(body):
        answer = answered(next(turns))
        answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
        return answer

    return reply


def test_votes_are_asked_for_one_by_one_and_averaged(stub):
    stub.reply = numbers("0.2", "0.6", "no")
    one = judge(
        stub, smoothing="none", temperature=1.0, votes=3, concurrency=1, unusable="undefined"
    )
    assert one.score(rows(2)) == pytest.approx([0.4, 0.4])
    assert one.score(rows(2)) == pytest.approx([0.4, 0.4])
    assert len(stub.asked) == 6
    # The first vote is what a run without votes asks.
    assert judge(stub, smoothing="none", temperature=1.0).score(rows()) == [0.2]
    assert len(stub.asked) == 6


def test_votes_that_are_all_unusable_are_undefined(stub):
    stub.reply = numbers("no")
    one = judge(stub, smoothing="none", temperature=1.0, votes=2, unusable="undefined")
    assert np.isnan(one.score(rows())).all()


@pytest.mark.parametrize("changes", [{}, {"backend": "transformers", "temperature": 1.0}])
def test_votes_that_would_all_be_the_same_are_refused(changes):
    with says("votes is 3, and each would be the same"):
        MllmJudge("m", votes=3, **changes)


def test_tokens_and_cost_are_said_beforehand_and_afterwards(stub, caplog):
    from captau.metrics.rows import Rows

    stub.reply = numbers("0.5")
    one = judge(stub, smoothing="none", price_sent=10.0, price_answered=20.0)
    with says("stopped at max_requests=0"), caplog.at_level(logging.WARNING):
        judge(stub, smoothing="none", max_requests=0, price_sent=1.0, price_answered=1.0).score(
            rows(2)
        )
    length = len(load_preset("references").fill({"caption": "a dog 0"}, rows()[0]["references"]))
    assert (
        f"m: 2 requests, about {2 * length / 4:,.0f} tokens sent (at 4 characters each), at most 32 "
        f"answered, cost about 0.0"
    ) in caplog.text
    shared = Rows.from_items(rows(2))
    one.score(shared)
    (remark,) = shared.remarks[one.spec]
    assert remark == "2 answers took 200 tokens sent and 10 answered, cost 0.0022"
    caplog.clear()
    one.score(rows(4))
    assert "2 requests, about 200 tokens sent (as many each as 2 earlier ones)" in caplog.text
    caplog.clear()
    one.score(rows(4))
    assert not caplog.text


def test_tables_call_a_judge_by_what_changes_its_scores(stub):
    one = judge(stub, answers="a.jsonl", price_sent=2.0, max_requests=5, retries=1, votes=1)
    label = metric_style(one).label
    assert label == f"MLLM judge(model=m,url={stub.url},preset=references)"


# Files of answers


def test_a_run_is_repeated_from_a_file_of_answers_without_the_model(stub, tmp_path, monkeypatch):
    path = tmp_path / "answers.jsonl"
    one = judge(stub, answers=str(path), price_sent=1.0)
    first = one.score(rows(3))
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "elsewhere"))
    stub.close()
    # Another address, and nobody there.
    again = judge(stub, answers=str(path), url="http://127.0.0.1:9/v1", max_requests=0)
    np.testing.assert_array_equal(again.score(rows(3)), first)
    assert one.signature == judge(stub).signature
    with says("stopped at max_requests=0", "3 of 4 answers are kept"):
        again.score(rows(4))


def test_a_file_of_answers_names_model_and_prompt_and_holds_no_caption_and_no_address(
    stub, tmp_path
):
    path = tmp_path / "new folder" / "answers.jsonl"
    judge(stub, answers=str(path)).score(rows(2))
    text = path.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert [record["model"] for record in records] == ["m", "m"]
    assert all(len(record["prompt_sha256"]) == 64 for record in records)
    assert {record["text"] for record in records} == {"0.85"}
    assert "dog" not in text
    assert stub.url not in text


def test_answers_that_were_kept_before_are_copied_into_the_file(stub, tmp_path):
    path = tmp_path / "answers.jsonl"
    judge(stub).score(rows(2))
    judge(stub, answers=str(path)).score(rows(2))
    assert len(stub.asked) == 2
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    judge(stub, answers=str(path)).score(rows(2))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_other_models_settings_and_votes_are_other_answers_of_the_same_file(stub, tmp_path):
    stub.reply = numbers("0.5")
    path = str(tmp_path / "answers.jsonl")
    for changes in ({}, {"model": "n"}, {"max_tokens": 9}, {"temperature": 1.0, "votes": 2}):
        judge(stub, smoothing="none", answers=path, **changes).score(rows())
    assert len(stub.asked) == 5


def test_a_line_that_was_cut_by_a_kill_is_asked_for_anew(stub, tmp_path):
    path = tmp_path / "answers.jsonl"
    judge(stub, answers=str(path)).score(rows(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    judge(stub, answers=str(path)).score(rows(2))
    assert len(path.read_bytes().splitlines()) == 2
    for line in path.read_bytes().splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    "line", ["no JSON", "[]", "{}", '{"text": "0.5"}', '{"text": 1, "tokens": 5}']
)
def test_a_line_that_is_no_answer_is_named(line, stub, tmp_path):
    path = tmp_path / "answers.jsonl"
    judge(stub, answers=str(path)).score(rows())
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    with says(f"{path}:2: not an answer of a judge; delete the line"):
        judge(stub, answers=str(path)).score(rows())


def test_two_different_answers_to_one_question_are_named(stub, tmp_path):
    path = tmp_path / "answers.jsonl"
    judge(stub, answers=str(path)).score(rows())
    line = path.read_text(encoding="utf-8")
    path.write_text(line + line.replace("0.85", "0.25"), encoding="utf-8")
    with says(f"{path}:2: the answer differs from that of an earlier line"):
        judge(stub, answers=str(path)).score(rows())


# FLEUR's own numbers


def most_that_greedy_digits_allow(digit):
    """The largest Σ p(i) · i where no digit is likelier than the one that was chosen."""
    return max(np.mean(np.arange(low, 10)) for low in range(digit + 1))


def test_fleurs_own_scores_lie_where_the_smoothing_of_greedy_digits_can_put_them(data_root):
    """For each raw number of the authors' files: at most what likeliest digits allow; raw if certain.

    40 of their 10,301 zeros lie above (0.45 to 0.51): there a digit must have been chosen that was not the
    likeliest, or another place been read; their files do not say which.
    """
    scores = load_fleur(data_root).ratings.pivot(
        index="item_id", columns="dimension", values="value"
    )
    assert len(scores) == 24718
    above = {}
    for raw, group in scores.groupby("raw"):
        text = f"{raw:g}" if raw not in (0.0, 1.0) else f"{raw:.1f}"
        assert score_of(completion(*sure(*text))) == pytest.approx(raw), text
        digits = enumerate(map(int, text.partition(".")[2]), start=1)
        most = sum(most_that_greedy_digits_allow(digit) * 0.1**place for place, digit in digits)
        above[text] = int((group["smoothed"] > (most if raw < 1 else 1) + 1e-4).sum())
    assert {text: count for text, count in above.items() if count} == {"0.0": 40}


LONG = "x" * 79 + "yz"  # of which 80 characters are shown


CUT = "x" * 79 + "y"


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
        with raises_exactly(f"{message}{end}", UnusableError):
            score_of(said(content, finish_reason=finish), reading, "none")


def test_other_unusable_answers_are_shown_in_part():
    with raises_exactly(f"the answer '{CUT}' has no judgement", UnusableError):
        choice_of(said(LONG))
    with raises_exactly("the answer has no text", UnusableError):
        choice_of(said(None))
    refusal = {"choices": [{"message": {"content": "0.5", "refusal": f"no\n{LONG}"}}]}
    with raises_exactly(f"the model refused ('no {'x' * 77}')", UnusableError):
        score_of(refusal)
    with raises_exactly("the model refused ('0.5')", UnusableError):
        score_of(said("0.5", finish_reason="content_filter"))
    with raises_exactly("the model refused ('')", UnusableError):
        score_of(said(None, finish_reason="content_filter"))
    tokens = [{"token": "0." + "4" * 90, "logprob": -1.0, "top_logprobs": []}]
    with raises_exactly(
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
        with raises_exactly(message, UnusableError):
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
    with raises_exactly(message, UnusableError):
        score_of(said("0.5", logprobs=logprobs))


def test_probabilities_may_sum_to_a_little_more_than_1():
    assert presets.read_token_places({"logprobs": {"content": [entry("a", a=0.6, b=0.4009)]}}) == [
        ("a", {"a": pytest.approx(0.6), "b": pytest.approx(0.4009)})
    ]
    # A token that is not among the likeliest has its own probability.
    ((_, likely),) = presets.read_token_places({"logprobs": {"content": [entry("z", a=0.5)]}})
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
    with raises_exactly(f"{path}: no {{caption_2}}, where inputs=image has it"):
        presets.read_prompt(str(path), preset)
    path.write_text("{caption_2} {caption_1}")
    assert presets.read_prompt(str(path), preset) == "{caption_2} {caption_1}"
