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
