"""`captau calibrate` of a language model as judge, by an endpoint that answers by rule."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.benchmarks.commands.test_calibrate import measures_of, of_file, write_judged
from tests.conftest import run_captau
from tests.metrics.neural.judge.judge_stub import Stub, cache, completion, stub, sure

__all__ = ["cache", "stub"]  # the fixtures


def spec_of(stub: Stub, **parameters: Any) -> str:
    """Return a judge at this endpoint, as it is typed."""
    given = {"model": "m", "url": stub.url, "preset": "references", "concurrency": 1, **parameters}
    return f"mllm_judge({','.join(f'{key}={value}' for key, value in given.items())})"


@pytest.mark.slow
def test_the_votes_of_a_judge_are_its_repeats(tmp_path: Path, stub: Stub) -> None:
    """The second of three votes says the opposite of the others about every third caption."""
    judged = write_judged(tmp_path / "judged.csv", 90)
    good = pd.read_csv(judged).set_index("caption")["value"].to_dict()
    n_votes: dict[str, int] = {}

    def reply(body: Any) -> dict[str, Any]:
        caption = re.findall(r"a caption \d+", json.dumps(body))[0]
        n_votes[caption] = n_votes.get(caption, 0) + 1
        says_yes = bool(good[caption])
        if n_votes[caption] == 2 and int(caption.split()[-1]) % 3 == 0:
            says_yes = not says_yes
        return completion(*sure("0.9" if says_yes else "0.1"))

    stub.reply = reply
    out = tmp_path / "run"
    metric = spec_of(stub, smoothing="none", votes=3, temperature=1)
    words = [*of_file(judged), f'metrics=["{metric}"]', "threshold=0.5", f"output_dir={out}"]
    assert run_captau("calibrate", *words) == 0
    assert len(stub.asked) == 3 * 90
    rows = measures_of(out)
    # Of three pairs of votes one agrees on all captions, and two on two thirds.
    assert rows["self_agreement"]["value"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert rows["self_agreement"]["note"] == "3 repeats"
    assert rows["accuracy"]["value"] == 1


def test_a_judge_of_pairs_is_asked_in_both_orders(tmp_path: Path, stub: Stub) -> None:
    """It always says the first: each answer prefers the first, and every pair is contradicted."""
    rows = [(f"{n}.jpg", f"a dog {n}", f"a big cat {n}", "ab"[n % 2], "a dog") for n in range(12)]
    names = pd.Index(["image", "caption_a", "caption_b", "winner", "references"])
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "pairs.csv", index=False)
    stub.reply = lambda body: completion(*sure("Reason: so it is.\nJudgement: Caption 1"))
    out = tmp_path / "run"
    words = ["dataset=file", f"file.path={tmp_path / 'pairs.csv'}", "pairs=pairwise_references"]
    words += [f'metrics=["{spec_of(stub)}"]', f"output_dir={out}"]
    assert run_captau("calibrate", *words) == 0
    # Two orders of each pair, and no question about a caption alone.
    assert len(stub.asked) == 2 * 12
    measured = measures_of(out)
    assert measured["position"]["value"] == 1
    assert measured["position"]["n_items"] == 24
    assert 0.5 < measured["position"]["ci_low"] < 1
    assert measured["order"]["value"] == 1
    assert measured["length"]["note"] == "undefined: no such pair"
    assert "self_preference" not in measured


def write_answers(path: Path, rows: list[tuple[str, ...]], *names: str) -> Path:
    columns = pd.Index(["image", "caption_a", "caption_b", "answer", *names])
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


def write_twelve_pairs(path: Path) -> list[str]:
    """Write pairs of which people prefer the caption of four words, b in every second one; return words for it."""
    rows = [(f"{n}.jpg", f"a dog {n}", f"a big cat {n}", "ab"[n % 2]) for n in range(12)]
    pd.DataFrame(rows, columns=pd.Index(["image", "caption_a", "caption_b", "winner"])).to_csv(
        path, index=False
    )
    return ["dataset=file", f"file.path={path}"]


def test_a_judges_answers_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 12 pairs in both orders it prefers the longer in 8, b; in the other 4 the one shown first, in both orders.

    Position: of 24 answers those of `ba` to the 8 prefer the first, b, and both to the 4: 16. Order: 4 of 12. Length: all 8.
    """
    words = write_twelve_pairs(tmp_path / "pairs.csv")
    rows: list[tuple[str, ...]] = []
    turned: list[tuple[str, ...]] = []
    for n in range(12):
        # Image ids may be written in another way, and blanks do not count.
        for order in ("ab", "ba"):
            prefers = "b" if n < 8 else order[0]
            rows.append((f"{n}.jpg", f"a  dog {n}", f"a big cat {n}", prefers, order))
            # The same answer with the caption that was shown first in the first column.
            shown = [f"a dog {n}", f"a big cat {n}"]
            is_first = prefers == order[0]
            if order == "ba":
                shown.reverse()
            turned.append((f"folder/{n}.jpg", *shown, "a" if is_first else "b"))
    files = [
        write_answers(tmp_path / "orders.csv", rows, "order"),
        write_answers(tmp_path / "turned.csv", turned),
    ]
    for file in files:
        out = tmp_path / file.stem
        assert run_captau("calibrate", *words, f"pairs={file}", f"output_dir={out}") == 0
        measured = measures_of(out)
        values = {name: measured[name]["value"] for name in ("position", "order", "length")}
        assert values == pytest.approx({"position": 16 / 24, "order": 4 / 12, "length": 1})
        assert measured["position"]["metric"] == file.stem
        assert measured["length_people"]["value"] == pytest.approx(4 / 8)
        printed = capsys.readouterr().out
        assert f"{file.stem} answered 12 of 12 pairs in both orders" in printed
        assert file.name in json.loads((out / "run.json").read_text())["pairs"]


def test_two_judges_who_were_asked_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_twelve_pairs(tmp_path / "pairs.csv")
    rows: list[tuple[str, ...]] = []
    for n in range(10):
        rows.append((f"{n}.jpg", f"a dog {n}", f"a big cat {n}", "Caption 1", "fair"))
        rows.append((f"{n}.jpg", f"a dog {n}", f"a big cat {n}", "tie" if n else "B", "lazy"))
    answers = write_answers(tmp_path / "answers.csv", rows, "judge")
    out = tmp_path / "run"
    assert run_captau("calibrate", *words, f"pairs={answers}", f"output_dir={out}") == 0
    measured = pd.read_csv(out / "calibration.csv").set_index(["metric", "measure"])
    assert measured.loc[("fair", "position"), "value"] == 1
    assert measured.loc[("lazy", "position"), "n_items"] == 1
    assert measured.loc[("fair", "length"), "value"] == 0
    assert measured.loc[("fair", "order"), "note"] == "undefined: no such pair"
    assert "only if that was drawn at random" in measured.loc[("fair", "position"), "note"]
    assert "fair answered 10 of 12 pairs, each in one order" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "names", "parts"),
    [
        (
            ("1.jpg", "a dog 1", "a big cat 1", "first", "ba"),
            ("order",),
            ("order ba", "write a or b"),
        ),
        (
            ("1.jpg", "a dog 1", "a big cat 1", "a", "2"),
            ("order",),
            ("order is '2'; ab is expected",),
        ),
        (("1.jpg", "a dog 1", "a big cat 1", "good"), (), ("answer is 'good'",)),
        (
            ("x.jpg", "a dog 1", "a big cat 1", "a"),
            (),
            ("no answer is about a pair of file", "'x.jpg'"),
        ),
    ],
)
def test_answers_that_cannot_be_understood(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    row: tuple[str, ...],
    names: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    words = write_twelve_pairs(tmp_path / "pairs.csv")
    answers = write_answers(tmp_path / "answers.csv", [row], *names)
    assert run_captau("calibrate", *words, f"pairs={answers}", f"output_dir={tmp_path / 'r'}") == 2
    said = capsys.readouterr().err
    assert f"{answers}:2: " in said
    for part in parts:
        assert part in said


def test_a_file_of_answers_that_is_not_there_and_one_without_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = write_twelve_pairs(tmp_path / "pairs.csv")
    assert run_captau("calibrate", *words, "pairs=pairwse") == 2
    assert "pairs is 'pairwse', neither pairwise nor pairwise_references nor a file" in (
        capsys.readouterr().err
    )
    (tmp_path / "empty.csv").write_text("image,caption_a,caption_b\n1.jpg,a,b\n")
    assert run_captau("calibrate", *words, f"pairs={tmp_path / 'empty.csv'}") == 2
    assert "with the columns image, caption_a, caption_b, answer" in capsys.readouterr().err
