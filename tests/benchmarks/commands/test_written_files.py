"""What commands print and write on small made-up files, to the letter.

The golden files under `tests/golden/written/` hold the printed text and what the files say, with numbers rounded to
six digits; of `run.json` that which no machine, clock or version moves. After a wanted change `CAPTAU_GOLDEN=write pytest tests/benchmarks/commands/test_written_files.py`
writes them anew; read the difference before it is committed. What they say was checked by eye once; values are
derived by hand, or held against reference implementations, in the tests of the modules.
"""

from __future__ import annotations

import json
import operator
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import captau
from captau.benchmarks.cli import tasks
from captau.benchmarks.reporting.citations import cite
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.runs.terminal_table import rich_of
from captau.metrics.text.spice import models as spice_models
from tests.conftest import run_captau
from tests.latex import compile_article

GOLDEN = Path(__file__).parents[2] / "golden" / "written"
#: What pictures show, and captions of three systems that say more and more of it.
SCENES = """a man with a red hat|rides a brown horse|near the road
two dogs|run after a blue ball|on green grass
a young woman|is holding an umbrella|in the rain
the black cat|sleeps on a wooden chair|by the window
three children|are playing with a kite|at the beach
an old bus|is standing at a stop|in a small town
a boy|eats a large pizza|at the table
a white boat|floats on the water|under a bridge
some people|wait for a train|on the platform
a girl in a dress|throws a ball|to her brother""".splitlines()
#: Metrics of one's own: one looks at images, which these files have none of, and one is often undefined.
MINE = """
from pathlib import Path

def looks(caption, image):
    return len(Path(image).name)

def brevity(caption):
    return 1 / len(caption.split())

def odd(caption):
    return len(caption) if len(caption) % 2 else float("nan")
"""
PAPER = """title: "Doe 2026, A Metric of Scenes"
citation: "@article{doe2026, title={A Metric of Scenes}, author={Doe, J.}, year={2026}}"
tables:
  - table: Table 1
    title: Demo, Kendall's tau
    kind: correlation
    dataset: demo
    scale: 100
    protocol: {dimension: overall, ratings: per_rating}
    rows: {BLEU-1: bleu_1, ROUGE-L: rouge_l, Scenes: null}
    columns: {tau_c: {coefficient: tau_c}, tau_b: {coefficient: tau_b}}
    note: drawn by lot
  - table: Table 2
    title: Demo, Kendall's tau again
    kind: correlation
    dataset: demo
    scale: 100
    protocol: {dimension: overall, ratings: per_rating}
    rows: {ROUGE-L: rouge_l, BLEU-1: bleu_1}
    columns: {tau_c: {coefficient: tau_c}}
"""
PRINTED = """table,dataset,row,column,published,trained,source,note
Table 1,demo,BLEU-1,tau_c,28.5,no,"Doe 2026, Table 1",
Table 1,demo,BLEU-1,tau_b,25,no,"Doe 2026, Table 1",rounded
Table 1,demo,ROUGE-L,tau_c,33.50,no,"Doe 2026, Table 1",
Table 1,demo,Scenes,tau_c,90.0,unknown,"Doe 2026, Table 1",
Table 2,demo,ROUGE-L,tau_c,33.6,no,"Doe 2026, Table 2",
"""
RATINGS = [
    "file.path=ratings.csv",
    "file.scales={precision: {low: 1, high: 5, step: 1}, recall: {low: 1, high: 5, step: 1}}",
]
FILE = ["dataset=file", *RATINGS]
PAIRS = ["dataset=file", "file.path=pairs.csv"]
FAST = ["metrics=bleu_1,rouge_l", "statistics.replicates=40"]
#: A small rater, whose vectors of images and captions of `ratings.csv` are in a file each.
RATER = ["rater=icr", "rater.epochs=2", "rater.hidden=[4]", "threads=1", "device=cpu"]
VECTORS = ["rater.images=images.npz", "rater.texts=texts.npz"]
#: Words of a command by the name of its golden file.
CASES = {
    "agree": ["agree", *FILE, "draws=4", "by=system"],
    "agree_pairs": ["agree", *PAIRS, "draws=4"],
    "agree_captions": [
        *("agree", "kind=captions", "references=references.json", "metrics=bleu_1,rouge_l"),
    ],
    "agree_words": [
        *("agree", "kind=words", "references=references.json", "words.n=8"),
    ],
    "bench": ["bench", *FILE, *FAST, "floors=true"],
    "bench_mean": [
        *("bench", *FILE, *FAST, "protocol.ratings=mean", "protocol.dimension=recall"),
        *("protocol.coefficients=pearson,spearman", "statistics.disattenuate=true"),
    ],
    "bench_pairs": ["bench", *PAIRS, *FAST, "floors=true"],
    "bench_calibrated": ["bench", *PAIRS, *FAST, "protocol.ties=calibrated"],
    "bench_systems": ["bench", *FILE, *FAST, "protocol.level=system"],
    "compare": [
        "compare",
        *FILE,
        *FAST,
        "tests=bootstrap,permutation,williams",
        "protocol.coefficients=pearson,tau_c",
    ],
    "compare_datasets": [
        *("compare", "dataset=demo,file", *RATINGS, *FAST, "protocol.coefficients=tau_c"),
    ],
    "rank": ["rank", *FILE, *FAST],
    "rank_pairs": ["rank", *PAIRS, *FAST],
    "complement": ["complement", *FILE, "metrics=bleu_1,rouge_l,cider", "draws=4"],
    "calibrate": [
        *("calibrate", "metrics=rouge_l,bleu_1", "statistics.replicates=40"),
        *("candidates=A.json", "references=references.json", "bins=4"),
    ],
    "calibrate_repeats": [
        *("calibrate", "metrics=rouge_l", "repeats=rouge_1", "threshold=0.5", "bins=4"),
        *("statistics.interval=none", "probabilities=isotonic"),
    ],
    "estimate": [
        *("estimate", "candidates=many.json", "references=many_refs.json", "ratings=few_rated.csv"),
        "metrics=bleu_1,rouge_l",
    ],
    "estimate_plan": [
        *("estimate", "plan=true", "candidates=many.json", "references=many_refs.json", "n=12"),
        *("metrics=rouge_l", "choose=stratified"),
    ],
    "thresholds": ["thresholds", *FILE, "metrics=bleu_1,rouge_l", "good=0.6", "precision=0.7"],
    **{
        f"sensitivity_{kind}": [
            *("sensitivity", *FILE, "metrics=rouge_l,bleu_1", f"kind={kind}", "draws=4"),
            *("protocol.dimension=recall", "protocol.coefficients=pearson"),
        ]
        for kind in ("images", "raters", "references", "length", "protocols", "power")
    },
    "probe": [
        *("probe", "references=references.json", "metrics=bleu_1,rouge_l", "pairs=6"),
        "statistics.replicates=40",
    ],
    "reproduce": ["reproduce", "paper=doe_2026", "--config-dir", "my"],
    "reproduce_without_tables": ["reproduce", "paper=doe_2027", "--config-dir", "my"],
    "score": [
        *("score", "candidates=A.json,B.json", "references=references.json,two.json"),
        *("metrics=bleu_4,rouge_l", "statistics.interval=percentile", "statistics.replicates=40"),
    ],
    "agree_pairs_by_system": ["agree", *PAIRS, "by=system"],
    "agree_words_of_datasets": ["agree", "kind=words", "dataset=file,demo", *RATINGS, "words.n=2"],
    "agree_datasets": ["agree", "dataset=file,demo", *RATINGS, "draws=2", "by=split"],
    "agree_words_of_captions": ["agree", "kind=words", *FILE, "words.n=3", "details=true"],
    "bench_datasets": [
        *("bench", "dataset=demo,file", *RATINGS, "metrics=bleu_1,rouge_l,mine.py:looks"),
        "statistics.interval=none",
    ],
    "bench_left_out": [
        *("bench", "dataset=demo,file", *RATINGS, "metrics=bleu_1,rouge_l"),
        *("protocol.dimension=recall", "statistics.replicates=20"),
    ],
    "bench_no_metric_anywhere": [
        *("bench", "dataset=file,street", *RATINGS, "metrics=mine.py:looks", "--config-dir", "my"),
    ],
    "bench_one_image": [
        *("bench", "dataset=file", "file.path=one_image.csv", "file.low=1", "file.high=5"),
        "metrics=bleu_1,rouge_l",
    ],
    "rank_one_image": [
        *("rank", "dataset=file", "file.path=one_image.csv", "file.low=1", "file.high=5"),
        "metrics=bleu_1",
    ],
    "rank_one_pair": ["rank", "dataset=file", "file.path=one_pair.csv", "metrics=rouge_l"],
    "complement_one_image": [
        *("complement", "dataset=file", "file.path=one_image.csv", "file.low=1", "file.high=5"),
        *("metrics=bleu_1,rouge_l", "draws=1"),
    ],
    "sensitivity_one_image": [
        *("sensitivity", "dataset=file", "file.path=one_image.csv", "file.low=1", "file.high=5"),
        *("metrics=bleu_1,rouge_l", "kind=length", "draws=2"),
    ],
    "agree_words_of_one_image": ["agree", "kind=words", "references=one.json", "words.n=2"],
    "score_one_image": [
        *("score", "candidates=one_caption.json", "references=one.json", "metrics=bleu_1"),
    ],
    "bench_one_pair": [
        *("bench", "dataset=file", "file.path=one_pair.csv", "metrics=mine.py:looks"),
        *("floors=true", "statistics.interval=none"),
    ],
    "bench_without_metrics": ["bench", *PAIRS, "metrics=mine.py:looks", "floors=true"],
    "compare_one_metric": ["compare", *FILE, "metrics=bleu_1,mine.py:looks"],
    "rank_datasets": [
        *("rank", "dataset=file,demo", *RATINGS, "metrics=bleu_1", "statistics.interval=none"),
    ],
    "rank_weighted": [
        *("rank", "dataset=file", "file.path=penalties.csv", "metrics=rouge_l,bleu_1"),
        "file.scales={precision: {low: 1, high: 5}, fluency: {low: -1, high: 0}}",
        *("rank.weights={precision: 0.5, fluency: 2}", "rank.best_worst=fluency"),
        *("statistics.replicates=20", "details=true"),
    ],
    "rank_penalties": [
        *("rank", "dataset=file", "file.path=penalties.csv", "metrics=bleu_1"),
        "file.scales={precision: {low: 1, high: 5}, fluency: {low: -1, high: 0}}",
        *("statistics.interval=none", "details=true"),
    ],
    "rank_pairs_rao_kupper": [
        *("rank", *PAIRS, "rank.ties=rao_kupper", "rank.by=preferences", "metrics=bleu_1"),
        "statistics.interval=none",
    ],
    "rank_without_pairs": ["rank", *FILE, "rank.by=preferences", "metrics=bleu_1"],
    "complement_undefined": [
        *("complement", *FILE, "metrics=rouge_l,mine.py:odd,bleu_1", "draws=2"),
        "protocol.dimension=recall",
    ],
    "complement_dropped": [
        *("complement", *FILE, "metrics=rouge_l,mine.py:odd,bleu_1", "draws=2"),
        *("protocol.dimension=recall", "protocol.undefined=drop"),
    ],
    "complement_two_images": [
        *("complement", "dataset=file", "file.path=few.csv", "file.low=1", "file.high=5"),
        *("metrics=bleu_1,rouge_l", "draws=2", "seed=3"),
    ],
    "complement_pairs": ["complement", *PAIRS, "metrics=bleu_1,rouge_l,cider", "draws=2"],
    "complement_datasets": [
        *("complement", "dataset=file,demo", *RATINGS, "metrics=bleu_1,rouge_l", "draws=1"),
    ],
    "thresholds_datasets": [
        *("thresholds", "dataset=file,demo", *RATINGS, "metrics=rouge_l,bleu_1,mine.py:odd"),
    ],
    "thresholds_of_two_dimensions": [
        *("thresholds", *FILE, "metrics=bleu_1,mine.py:looks"),
        "good=precision>=3 and recall>=3",
    ],
    "probe_of_captions": [
        *("probe", "candidates=C.json", "references=references.json", "metrics=bleu_1"),
        *("faults=other_image,empty", "pairs=5", "seed=2", "statistics.replicates=20"),
    ],
    "probe_of_references": [
        *("probe", *FILE, "captions=references", "metrics=bleu_1,mine.py:looks", "pairs=4"),
        *("faults=other_image,shuffled", "statistics.interval=none", "details=true"),
    ],
    "score_without_references": [
        *("score", "candidates=A.json,odd=C.json", "metrics=mine.py:odd,mine.py:brevity"),
        *("statistics.interval=none", "trust=null", "partial=true"),
    ],
    "score_needs_references": ["score", "candidates=A.json", "metrics=bleu_1,rouge_l"],
    "score_file_alone": [
        *("score", "candidates=A.json", "references=two.json", "metrics=mine.py:odd"),
        *("stdout=corpus.csv", "statistics.replicates=20"),
    ],
    "score_kept": [
        *(
            "score",
            "candidates=B.json",
            "references=references.json",
            "metrics=bleu_1,mine.py:looks",
        ),
        *("keep.metric=bleu_1", "keep.above=0.9", "protocol.normalise=thumb"),
    ],
    "score_partial": [
        *("score", "candidates=A.json,C.json", "references=references.json", "partial=true"),
        *("metrics=rouge_l,bleu_1", "statistics.replicates=20"),
    ],
    "score_lines": [
        *("score", "candidates=cafe.json", "references=cafes.json", "metrics=bleu_1,mine.py:odd"),
        *("stdout=scores.jsonl", "statistics.interval=none"),
    ],
    "data_list": ["data", "list", "data.root=data"],
    "data_list_cards": ["data", "list", "dataset=thumb,demo,foil,fleur", "data.root=data"],
    "data_verify": ["data", "verify", "dataset=demo,thumb,fleur", "data.root=data"],
    "data_verify_all": ["data", "verify", "dataset=all", "data.root=none"],
    "data_verify_images": [
        *("data", "verify", "dataset=demo,spice_models", "data.root=data"),
        "data.images=data",
    ],
    "data_fetch": [
        *("data", "fetch", "dataset=demo,thumb,spice_models", "data.root=data"),
        "data.offline=true",
    ],
    "data_import": [
        "data",
        "import",
        "dataset=thumb,demo,fleur",
        "source=A.json",
        "data.root=data",
    ],
    "data_import_all": ["data", "import", "dataset=all", "source=data", "data.root=imported"],
    "train": [
        *("train", *RATER, "seeds=0,1", "metrics=bleu_1,rouge_2", "statistics.replicates=20"),
    ],
    "train_folds": [
        *("train", *RATER, *FILE, *VECTORS, "target=recall", "design=folds", "folds=2"),
        *("shuffled=true", "strict_control=true"),
    ],
    "train_without_target": [
        *("train", *RATER, *VECTORS, "dataset=file,demo", *RATINGS, "target=recall"),
        "design=transfer",
    ],
    "train_all": ["train", *RATER, *FILE, *VECTORS, "target=precision", "design=all"],
    "validate": ["validate", "file=A.json", "references=references.json"],
    "validate_faults": ["validate", "file=wrong.json", "references=references.json"],
    "validate_lines": ["validate", "file=lines.jsonl"],
    "validate_lines_of_a_json_file": ["validate", "file=lines.json"],
    "validate_broken": ["validate", "file=broken.json", "references=references.json"],
    "validate_one_line": ["validate", "file=line.json", "references=references.json", "limit=3"],
    "validate_scores_of_items": ["validate", "kind=scores", "file=scores.csv", "dataset=demo"],
    "validate_scores": ["validate", "kind=scores", "file=wrong.csv", "dataset=demo"],
}


OF_RATINGS = {
    "dataset": "file",
    "file": {
        "path": "ratings.csv",
        "scales": {name: {"low": 1, "high": 5, "step": 1} for name in ("precision", "recall")},
    },
    "metrics": ["bleu_1", "rouge_l"],
    "statistics": {"replicates": 20},
}
OF_PAIRS = {
    "dataset": "file",
    "file": {"path": "pairs.csv"},
    "metrics": "rouge_l",
    "statistics": {"interval": "none"},
}
SCORE_FILES = ("corpus.csv", "scores.csv", "differences.csv")
#: Names of functions and their arguments by the name of the golden file.
PYTHON_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "python_bench": ("bench", {**OF_RATINGS, "ceilings": False, "protocol": {"ratings": "mean"}}),
    "python_bench_pairs": ("bench", {**OF_PAIRS, "floors": True}),
    "python_compare": (
        "compare",
        {
            **OF_RATINGS,
            "tests": ["williams"],
            "protocol": {"dimension": "recall", "coefficients": ["pearson"]},
        },
    ),
    "python_rank": ("rank", {**OF_RATINGS, "weights": {"recall": 2}, "best_worst": ["recall"]}),
    "python_rank_pairs": ("rank", {**OF_PAIRS, "ties": "rao_kupper", "by": "preferences"}),
    "python_probe": (
        "probe",
        {
            "candidates": {"i0": "a man rides a horse", "i1": "two dogs run"},
            "references": {"i0": ["a man on a horse", "a rider"], "i1": ["dogs run", "a ball"]},
            "metrics": ["bleu_1"],
            "faults": ["shuffled", "half"],
            "pairs": 3,
            "seed": 1,
            "statistics": {"replicates": 20},
        },
    ),
    "python_probe_dataset": (
        "probe",
        {
            "dataset": "demo",
            "metrics": "rouge_l",
            "captions": "references",
            "faults": ["case"],
            "pairs": 2,
        },
    ),
    "python_score": (
        "score",
        {
            "candidates": {"i0": "a man rides a horse", "i1": "two dogs run"},
            "references": "references.json",
            "metrics": ["bleu_1", "rouge_l"],
            "partial": True,
            "normalise": "thumb",
            "trust": None,
            "keep_metric": "rouge_l",
            "keep_above": 0.5,
            "statistics": {"interval": "none"},
        },
    ),
    "python_score_systems": (
        "score",
        {
            "candidates": ["A.json", "B.json"],
            "references": {
                "one": {f"i{n}": ["a dog"] for n in range(10)},
                "two": [{"image_id": f"i{n}", "references": ["a cat"]} for n in range(10)],
            },
            "metrics": "bleu_1",
            "statistics": {"replicates": 20},
        },
    ),
}


#: Those whose tables are drawn as well, as in a terminal of 72 columns: spare columns give way there.
NARROW = (
    *("agree", "bench", "bench_datasets", "compare_datasets", "data_list_cards", "rank", "score"),
    *("rank_weighted", "sensitivity_images"),
)

#: What a run's record says of its machine, clock, packages and options, which have their own tests.
CHANGING = ("config", "digest", "platform", "seconds", "started", "versions")


def draw_tables(tables: list) -> None:
    for table in tables:
        console = Console(width=72, height=25, color_system=None, force_terminal=False)
        with console.capture() as drawn:
            console.print(rich_of(table, 72))
        print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def write_files(folder: Path) -> None:
    """Write ratings by three raters, preferences by two, captions of two systems and references."""
    scenes = [scene.split("|") for scene in SCENES]
    references = [[" ".join(s), f"{s[0]} {s[2]}", f"{s[1]} while it is quiet"] for s in scenes]
    captions = [
        {"A": s[0], "B": f"{s[0]} {s[1]}", "C": f"{s[0]} {s[1]} {scenes[n - n % 3][2]}"}
        for n, s in enumerate(scenes)
    ]
    ratings = ["image,caption,system,rater,references,dimension,value"]
    for n, row in enumerate(captions):
        cell = json.dumps(references[n]).replace('"', '""')
        for k, (system, caption) in enumerate(row.items()):
            for rater in range(3):
                precision = (3, 4, 2)[k] + (n * 7 + k * 3 + rater * (n % 4)) % 3 - 1
                recall = max(1, (1, 3, 4)[k] + (n * 5 + k + rater * n) % 3 - 1)
                for dimension, value in (("precision", precision), ("recall", recall)):
                    ratings.append(f'i{n},{caption},{system},r{rater},"{cell}",{dimension},{value}')
    (folder / "ratings.csv").write_text("\n".join(ratings) + "\n")
    penalties = ["image,caption,system,references,dimension,value"]
    for n, row in enumerate(captions):
        for k, (system, caption) in enumerate(row.items()):
            start = f"i{n},{caption},{system},{references[n][0]}"
            penalties.append(f"{start},precision,{1 + (n + k) % 5}")
            penalties.append(f"{start},fluency,{-(n * k % 3) / 2}")
    (folder / "penalties.csv").write_text("\n".join(penalties) + "\n")
    image_ids = [f"i{n}" for n in range(len(captions))]
    texts = sorted({caption for row in captions for caption in row.values()})
    rng = np.random.default_rng(0)
    for name, keys in (("images", {"image_id": image_ids}), ("texts", {"caption": texts})):
        (values,) = keys.values()
        np.savez(folder / f"{name}.npz", embedding=rng.normal(size=(len(values), 3)), **keys)
    pairs = ["image,caption_a,caption_b,system_a,system_b,rater,references,dimension,winner"]
    for n, row in enumerate(captions):
        cell = json.dumps(references[n]).replace('"', '""')
        for number, (a, b) in enumerate(("AB", "CB", "AC")):
            for rater in range(2):
                winner = ("a", "b", "tie", "b")[(n * (rater + 1) + number) % 4]
                dimension = ("fit", "style")[n % 2]
                pairs.append(
                    f'i{n},{row[a]},{row[b]},{a},{b},r{rater},"{cell}",{dimension},{winner}'
                )
    (folder / "pairs.csv").write_text("\n".join(pairs) + "\n")
    by_image = {f"i{n}": texts for n, texts in enumerate(references)}
    (folder / "references.json").write_text(json.dumps(by_image))
    (folder / "two.json").write_text(json.dumps({i: x[:2] for i, x in by_image.items()}))
    for system in "ABC":  # the last one lacks two images
        texts = {f"i{n}": row[system] for n, row in enumerate(captions) if system != "C" or n > 1}
        (folder / f"{system}.json").write_text(json.dumps(texts))
    (folder / "wrong.json").write_text('{"i0": "a cat", "i1": "", "i1": 3, "x": "a dog"}')
    (folder / "wrong.csv").write_text("image_id,caption,mine\n1,a cat,0.5\n,a dog,high\n")
    lines = ['{"image_id": "a", "caption": "a dog"}', "", '{"image_id": "a", "caption": "?!"}']
    lines += ['{"image_id": true, "caption": "a cat"}', '{"image_id": 7}', "[1]", "{", "9" * 5000]
    (folder / "lines.jsonl").write_text("\n".join([*lines, "[" * 9999]))
    (folder / "lines.json").write_text("\n".join(lines[:3]))
    (folder / "broken.json").write_text('[\n{"image_id": "a"\n')
    (folder / "line.json").write_text('{"image_id": "i0", "caption": "\\ud800"}')
    scores = "image_id,caption,metric,score\n1,a dog,m,0.5\n1,a dog,n,inf\n1,a dog,m,high\n"
    (folder / "scores.csv").write_text(scores)
    cafe = {"café": "a cup of coffee", "thé": "a tea"}
    (folder / "cafe.json").write_text(json.dumps(cafe), encoding="utf-8")
    cafes = {image: [caption, "a drink"] for image, caption in cafe.items()}
    (folder / "cafes.json").write_text(json.dumps(cafes), encoding="utf-8")
    (folder / "my" / "dataset").mkdir(parents=True)
    (folder / "my" / "dataset" / "street.yaml").write_text(
        "file: {path: ../../few.csv, low: 1, high: 5}"
    )
    few = [line for line in penalties if line.startswith(("image", "i1", "i2"))]
    few = [line.replace("precision", "value") for line in few if "fluency" not in line]
    (folder / "few.csv").write_text("\n".join(few) + "\n")
    (folder / "one_image.csv").write_text("\n".join(few[:4]) + "\n")
    (folder / "one.json").write_text(json.dumps({"i0": references[0]}))
    (folder / "one_caption.json").write_text(json.dumps({"i0": captions[0]["B"]}))
    (folder / "one_pair.csv").write_text("\n".join(pairs[:2]) + "\n")
    (folder / "mine.py").write_text(MINE)
    # Captions of forty images, each of which says one, two or three parts of its scene; 24 are rated, in no order.
    many = {f"m{n}": " ".join(scenes[n % 10][: 1 + n * 7 % 3]) for n in range(40)}
    (folder / "many.json").write_text(json.dumps(many))
    of_many = {f"m{n}": references[n % 10] for n in range(40)}
    (folder / "many_refs.json").write_text(json.dumps(of_many))
    rated = ["image_id,rater,value"]
    for n in (k * 17 % 40 for k in range(24)):
        rated += [f"m{n},r{rater},{1 + n * 7 % 3 + (n + rater) % 3}" for rater in range(2)]
    (folder / "few_rated.csv").write_text("\n".join(rated) + "\n")
    (folder / "my" / "paper").mkdir(parents=True)
    printed = {"2026": PRINTED, "2027": PRINTED.replace("Table 2", "Table 3")}
    for year, numbers in printed.items():
        (folder / "my" / "paper" / f"doe_{year}.yaml").write_text(PAPER.replace("2026", year))
        (folder / "my" / "paper" / f"doe_{year}.csv").write_text(numbers.replace("2026", year))
    for name in ("data/thumb/mscoco_THumB-1.0.jsonl", f"jars/{spice_models.JARS[0].file}"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("damaged")


def round_numbers(text: str) -> str:
    """Round numbers of more than six decimals to six digits."""
    return re.sub(r"-?\d+\.\d{6,}(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", text)


def read_text(path: Path) -> str:
    """Return what a file says, a table as CSV."""
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
        if "references" in table:
            table["references"] = table["references"].map("|".join)
        return table.to_csv(index=False)
    text = path.read_text(encoding="utf-8")
    if path.name != "run.json":
        return text
    record = {name: part for name, part in json.loads(text).items() if name not in CHANGING}
    record["files"] = list(record["files"])
    for style in record.get("metrics", {}).values():
        del style["citation"]
    for card in record.get("data", {}).values():
        if isinstance(card, dict) and "range" in card:
            card["range"]["frequent_words"] = len(card["range"]["frequent_words"])
    lines = (f"{name}: {json.dumps(part, ensure_ascii=False)}" for name, part in record.items())
    text = re.sub(r":\d+(\.\d+)+", ":VERSION", "\n".join(lines))
    return re.sub(r'"[0-9a-f]{64}"', "DIGEST", text)


#: The steps of progress, and each time that files were written, rows by table and what was left to do.
WRITES: list[str] = []


def check_row_numbers(results: Results) -> dict[str, bytes]:
    """Return a run's files, of frames whose rows are numbered from 0 as Python users see them."""
    for name, frame in results.frames.items():
        assert list(frame.index) == list(range(len(frame))), name
    rows = ", ".join(f"{len(frame)} in {name}" for name, frame in results.frames.items())
    WRITES.append(f"rows: {rows}; unfinished: {results.run.get('unfinished')}")
    return FILES_OF(results)


FILES_OF = Results.files


def check_steps(progress: StepProgress, *exception: Any) -> None:
    """Leave a progress bar, and note how many of its steps were counted."""
    (task,) = progress._bar.tasks
    if exception == (None, None, None) and task.total is not None:
        assert task.completed <= task.total, task.description
        WRITES.append(f"steps: {task.completed} of {task.total}")
    LEAVE(progress, *exception)


LEAVE = StepProgress.__exit__


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the files above."""
    WRITES.clear()
    monkeypatch.setattr(Results, "files", check_row_numbers)
    monkeypatch.setattr(StepProgress, "__exit__", check_steps)
    monkeypatch.setattr(spice_models, "jar_folder", lambda: Path("jars"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures have their own tests
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


def read_files(folder: Path) -> dict[str, str]:
    """Return what the files of a run say, by name."""
    return {
        path.relative_to(folder).as_posix(): read_text(path)
        for path in sorted([*folder.glob("*"), *folder.glob("*/README.md")])
        if path.suffix in (".csv", ".json", ".md", ".parquet")
    }


def hold_against_golden(name: str, parts: list[str], files: dict[str, str], folder: Path) -> None:
    """Compare what was printed and written with a golden file, of long tables some lines alone."""
    for file, text in files.items():
        lines = text.splitlines()
        n_shown = {".csv": 30, ".parquet": 8}.get(Path(file).suffix, len(lines))
        step = max(1, len(lines) // n_shown)
        parts += [f"== {file}, one line of {step}" if step > 1 else f"== {file}", *lines[::step]]
    made = "\n".join(parts) + "\n"
    for place in (str(folder), os.environ["CAPTAU_CACHE"]):
        made = made.replace(place, "FOLDER")
    made = round_numbers(made)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
        pytest.skip("written anew")
    assert made == golden.read_bytes().decode()


#: Those that train a network.
TRAININGS = [name for name in CASES if name.startswith("train")]


def writes_latex(name: str) -> bool:
    """Return whether a case writes tables of numbers as LaTeX, by its golden file; the raters' are those of others."""
    return name not in TRAININGS and '"table.tex"' in (GOLDEN / f"{name}.txt").read_text("utf-8")


#: Cases of commands that others show as well: what is left out, and several datasets.
SLOW_CASES = re.compile(r".*_(one_image|two_images|one_pair|datasets|dimensions|undefined|dropped)")


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a case: whether it trains, or is one of `make test-all` alone."""
    if name in TRAININGS:
        return [pytest.mark.training]
    return [pytest.mark.slow] if SLOW_CASES.fullmatch(name) else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in CASES])
def test_golden(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in NARROW:
        monkeypatch.setattr(tasks, "show_tables", draw_tables)
    words = CASES[name]
    is_check = "validate" in words or words[0] == "data"
    status = run_captau(*words, *([] if is_check else ["output_dir=out", "cache.scores=stored"]))
    captured = capsys.readouterr()
    files = read_files(folder / "out")
    parts = [f"$ captau {' '.join(words)}"]
    parts += [f"exit {status}"] if status else []
    written = files.get("table.md", "").splitlines()
    parts += [line for line in captured.out.splitlines() if line not in written]
    parts += ["== stderr", *captured.err.splitlines()] if captured.err else []
    parts += ["== written", *WRITES] if WRITES else []
    hold_against_golden(name, parts, files, folder)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("name", list(filter(writes_latex, CASES)))
def test_tables_compile_in_an_article_without_an_overfull_box(name: str, folder: Path) -> None:
    """What a command writes goes into an article of one column, and of two, as it is."""
    run_captau(*CASES[name], "output_dir=out", "cache.scores=stored")
    text = (folder / "out" / "table.tex").read_text(encoding="utf-8")
    assert r"\begin{tabular}" in text
    # What is cited of the run stands above its BibTeX.
    cited = cite([folder / "out"]).partition("% BibTeX:")[0]
    for columns in ("onecolumn", "twocolumn"):
        assert "Overfull" not in compile_article(text, columns, folder)
        assert "Overfull" not in compile_article(cited, columns, folder)


@pytest.mark.parametrize("name", PYTHON_CASES)
def test_golden_of_python(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A call from Python, with the options that its run.json has."""
    function, arguments = PYTHON_CASES[name]
    call = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    with caplog.at_level("WARNING"):
        results = getattr(captau, function)(**arguments, cache_root="stored", output_dir="out")
    files = read_files(folder / "out")
    assert results.to_markdown() == files["table.md"].rstrip("\n")
    assert (folder / "stored").is_dir()
    if function == "score":
        frames = (results.corpus, results.scores, results.differences)
        assert all(map(operator.is_, frames, map(results.frames.get, SCORE_FILES)))
    config = json.loads((folder / "out" / "run.json").read_text(encoding="utf-8"))["config"]
    options = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in config.items()]
    parts = [f">>> captau.{function}({call})", *caplog.messages, "== options", *options]
    hold_against_golden(name, parts, files, folder)
