"""What README and docs tell people to type runs, and the site builds without a warning.

Every command in README.md, CONTRIBUTING.md, docs/*.md and the commands' help is run, in the order of its page,
in a scratch folder and a terminal of 80 columns, on small files of our own making in the authors' formats. A new page is found by itself.
Every table is drawn for terminals of 60 and 120 columns as well, and no word or number of it is cut there.
`SMALLER` says which options make a command cheap enough for a test, `ELSEWHERE` which commands need what a
test has not: these are composed (`--cfg job`) and no more.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lmdb
import lz4.frame
import msgpack
import numpy as np
import pytest
import yaml
from PIL import Image
from rich.cells import cell_len
from rich.console import Console

import captau
from captau.benchmarks.cli.main import main
from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.runs import terminal_table
from captau.benchmarks.runs.tables import ResultTable, split_head
from captau.benchmarks.runs.terminal_table import rich_of
from captau.datasets import registry as datasets
from captau.datasets.sources import umic_lmdb
from tests.terminal import WIDTH, own_terminal

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Options that make commands of this beginning cheap, or fit for the small files; a command's own go first.
SMALLER = {
    "captau sensitivity": ["draws=2"],
    "captau complement": ["draws=2"],
    "captau train rater=icr": ["rater.epochs=2"],
    "captau score candidates=shards": ["workers=0"],
    "captau score candidates=captions.jsonl engine=local": ["workers=0"],
    "captau score keep.run=": ["workers=0"],
}
#: Scores shards without processes of its own.
CHEAP = ["metrics=[cider,rouge_l]", "workers=0"]
NETWORK = "downloads"
MODELS = "wants weights, features or images that cannot be made small"
BY_HAND = "takes in what a person downloaded"
SPICE = "parses captions by SPICE's jars (387 MB); tests/parity/test_spice.py runs it"
#: Commands that are composed alone, by their beginning, and why.
ELSEWHERE = {
    "captau data fetch": NETWORK,
    "captau data import": BY_HAND,
    "captau data verify dataset=spice_models": NETWORK,
    "captau bench dataset=flickr8k_expert metrics=spice": SPICE,
    "captau bench dataset=thumb metrics=spice": SPICE,
    "captau probe dataset=flickr8k_expert captions=references metrics=spice": SPICE,
    "captau probe references=refs.json metrics=spice": SPICE,
    "captau probe dataset=flickr8k_expert captions=references metrics=text,": MODELS,
    "captau probe dataset=flickr8k_expert captions=references metrics=bleu_4,": MODELS,
    "captau probe references=refs.json metrics=text,sentence_cosine,": MODELS,
    "captau thresholds dataset=flickr8k_expert metrics=cider,spice": SPICE,
    "captau bench dataset=flickr8k_expert metrics=cider,spice": SPICE,
    "captau bench dataset=capeval1k metrics=umic,umic_c": MODELS,
    "captau bench dataset=flickr8k_expert,flickr8k_cf,composite": "wants Composite, too",
    "captau bench dataset=classic": "wants Composite; commands/test_several_datasets.py has several sets",
    "captau train rater=icr dataset=cocog": MODELS,
    "captau train rater=icr dataset=flickr8k_expert": MODELS,
    "captau bench dataset=flickr8k_expert protocol.split=test metrics=text,rater": MODELS,
    "captau thresholds dataset=flickr8k_expert protocol.split=test metrics=rater": MODELS,
    "captau score candidates=mine.json metrics=rater": MODELS,
    "captau data verify dataset=thumb data.images": "looks for COCO's photographs",
    "captau thresholds dataset=caption_quality": MODELS,
    "captau train rater=qe dataset=caption_quality": MODELS,
    "captau bench dataset=caption_quality protocol.split=validation": "wants a script's score file",
    "captau train rater=umic": "trains for minutes; tests/metrics/learned/umic/test_umic_recipe.py has it smaller",
    "captau train -m rater=umic": "the same",
    "captau bench dataset=flickr8k_expert metrics=vse_cosine": "wants an embedding of every image",
    "captau bench dataset=nocaps_foil": "reads a dataset that is not among the small files",
    "captau bench dataset=sugarcrepe": "reads a dataset that is not among the small files",
    "captau probe dataset=sugarcrepe": "the same; tests/benchmarks/commands/test_probe.py makes one",
    "captau probe dataset=valse": "the same",
    "captau bench dataset=thumb metrics=text,scores.csv": "wants a score of every caption",
    "captau bench dataset=thumb protocol.systems=Up-Down,": "wants BILLBOARD's files",
    "captau sensitivity dataset=nebula": "reads a dataset that is not among the small files",
    "captau score candidates=shards engine=ray": "starts a Ray; tests/benchmarks/large/test_ray.py has one",
    "captau calibrate dataset=file file.path=pairs.csv pairs=answers.csv": "wants a judge's answers; commands/test_calibrate_judges.py has them",
    "captau bench -m hydra/launcher=": "starts processes; tests/benchmarks/cli/test_hydra.py runs launchers",
    "captau bench dataset=thumb metrics=cider cache.scores=": "wants a shared folder or an object store",
    "captau agree kind=words references=captions_val2014.json words.parts=true words.scores=": "wants a system's scores",
    "captau collect": "serves a site until it is stopped; tests/server/test_command.py runs it",
    "captau table run=sweep/*": "reads a sweep; tests/benchmarks/cli/test_hydra.py makes one",
    "captau bench -m hydra/sweeper=": "needs a plugin; tests/benchmarks/cli/test_hydra.py optimises",
    "captau agree dataset=file file.path=gathered/": "reads what people said on that site",
    "captau bench dataset=file file.path=gathered/": "the same",
    "captau rank dataset=file file.path=gathered/": "the same",
    "captau serve": "serves a site until it is stopped; tests/server/challenge runs it",
    "captau submit": "sends a file to that site",
    "captau reproduce": "rebuilds tables of the real data; tests/golden/test_published.py runs it",
    "captau bench dataset=flickr8k_expert metrics=mllm_judge": "asks a language model's server",
}
#: Status other than 0: the small files are not the authors', and that is said.
STATUS = {"captau data verify": 1}
#: What a page's Python calls by a name that the reader fills in.
NAMES: dict[str, dict[str, Any]] = {
    "umic.md": {
        "features": np.zeros((3, 2048), dtype=np.float32),
        "boxes": np.array([[0, 0, 10, 10]] * 3, dtype=np.float32),
        "confidences": np.array([0.9, 0.5, 0.4], dtype=np.float32),
    },
}


# Finding commands.


def is_command(line: str) -> bool:
    return bool(re.match(r"(captau|python scripts/\S+)(\s|$)", line))


def is_form(command: str) -> bool:
    """Whether it shows where something goes (`dataset=NAME`, `run=…`), or names a command and no more."""
    stands_for = re.search(
        r"…|=['\"[]*[A-Z]{1,}\b(?!\.)|\b(DIR|FILE|PATH|NAME|OPTION|SUITE|METRIC)\b", command
    )
    return (
        bool(stands_for) or len(command.split()) < 2 or command.removeprefix("captau ") in COMMANDS
    )


def steps(text: str) -> list[tuple[str, str]]:
    """What a page tells to do, in order: commands, Python, and files by their names.

    Commands are lines of fenced blocks, and whole ones within the text.
    """
    found: list[tuple[int, str, str]] = []
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        at, language, content = match.start(), match[1], match[2]
        named = re.search(r"save it as `([^`]+)`[^`]*\Z", text[:at])
        module = re.match(r"# (\w+\.py)\n", content)
        if named and language in ("csv", "json"):
            found.append((at, named[1], content))
        elif language == "python":
            found.append((at, module[1] if module else "python", content))
        elif language in ("", "bash", "console"):
            lines = re.sub(r"\\\n\s*", "", content).splitlines()
            lines = [line.removeprefix("$ ") for line in lines]
            found += [(at + i, "command", line) for i, line in enumerate(lines) if is_command(line)]
    prose = re.sub(r"^```.*?^```$", lambda m: " " * len(m[0]), text, flags=re.S | re.M)
    for match in re.finditer(r"(?<!`)`([^`]+)`", prose):
        command = " ".join(match[1].split())
        if is_command(command) and not is_form(command):
            found.append((match.start(), "command", command))
    return [(kind, content) for _, kind, content in sorted(found)]


def help_examples(command: str) -> list[str]:
    """Return the examples of a command's help, without their remarks."""
    lines = COMMANDS[command].options.examples.strip().splitlines()
    return [line for line in (x.partition("  ")[0] for x in lines) if is_command(line)]


def plain(command: str) -> str:
    """A command without the shell's quotes and comments, to be compared by its beginning."""
    return " ".join(shlex.split(command, comments=True))


def listed(table: dict[str, Any], command: str) -> Any:
    """The entry of a table by which a command begins, the longest; None where there is none."""
    fits = [k for k in table if plain(command).startswith(k)]
    return table[max(fits, key=len)] if fits else None


@cache
def all_commands() -> dict[str, list[str]]:
    """Page or help → its commands."""
    pages = {p.name: [text for kind, text in steps_of(p) if kind == "command"] for p in PAGES}
    return pages | {name: help_examples(name) for name in COMMANDS}


@cache
def steps_of(page: Path) -> list[tuple[str, str]]:
    return steps(page.read_text(encoding="utf-8"))


# Small files of our own making, in the authors' formats.


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder: the demo's first images as Flickr8k, THumB, CapEval1k, PASCAL-50S and others hold theirs."""
    root = tmp_path_factory.mktemp("data")
    made = captau.load("demo")
    items = made.items.iloc[: 6 * 20]
    ratings = made.ratings.groupby("item_id", sort=False)["value"].apply(list)
    coco = {image: str(1000 + i) for i, image in enumerate(items["image_id"].unique())}
    by_image = [
        (image, rows, rows["references"].iloc[0]) for image, rows in items.groupby("image_id")
    ]
    judgements = {
        image: {
            "image_path": f"Flickr8k_Dataset/{image}",
            "ground_truth": list(references),
            "human_judgement": [
                {
                    "image_id": image,
                    "image_path": image,
                    "caption": row.caption,
                    "rating": min(value, 4),
                }
                for row in rows.itertuples()
                for value in ratings[row.item_id]
            ],
        }
        for image, rows, references in by_image
    }
    write(root / "flickr8k" / "flickr8k.json", judgements)
    write(
        root / "coco" / "karpathy_test_references.json", {coco[i]: list(r) for i, _, r in by_image}
    )
    thumb = ((row, round(np.mean(ratings[row.item_id]))) for row in items.itertuples())
    lines = (
        {
            "seg_id": row.image_id,
            "hyp": row.caption,
            "SYS": "Human" if row.system == "exact" else row.system,
            "P": grade,
            "R": grade,
            "human_score": grade,
        }
        | dict.fromkeys(("Fl", "Inc", "Con"), 0.0)
        for row, grade in thumb
    )
    write(
        root / "thumb" / "mscoco_THumB-1.0.jsonl",
        "".join(f"{json.dumps(line)}\n" for line in lines),
    )
    references = ({"seg_id": image, "refs": list(texts[:4])} for image, _, texts in by_image)
    write(
        root / "thumb" / "mscoco_references.json", "".join(f"{json.dumps(r)}\n" for r in references)
    )
    pairs = [
        {
            "image": image,
            "captions": [rows["caption"].iloc[0], rows["caption"].iloc[k + 2]],
            "references": list(texts),
            "label": 0,
            "category": category,
        }
        for k, category in enumerate(("HC", "HI", "HM", "MM"))
        for image, rows, texts in by_image
    ]
    write(
        root / datasets.card("pascal50s").sources[0].path,
        {c: [p for p in pairs if p["category"] == c] for c in ("HC", "HI", "HM", "MM")},
    )
    composite = [
        {
            "image": f"COCO_val2014_{int(coco[row.image_id]):012d}.jpg",
            "caption": row.caption,
            "references": list(row.references),
            "human": ratings[row.item_id][0],
        }
        for row in items.itertuples()
    ]
    write(root / umic_lmdb.COMPOSITE_JSON.path, {"coco": composite, "flickr8k": composite})
    game = (
        {
            "image": f"{int(coco[row.image_id]):012d}.jpg",
            "caption": row.caption,
            "rater": f"p{k}",
            "value": value,
        }
        for row in items.itertuples()
        for k, value in enumerate(ratings[row.item_id])
    )
    write(root / "cocog" / "cocog.jsonl", "".join(f"{json.dumps(row)}\n" for row in game))
    for fold, part in ((f, items.iloc[k::3]) for k, f in enumerate(("train", "dev", "test"))):
        rows = (
            f"{r.image_id}\t{r.caption}\t{(np.mean(ratings[r.item_id]) - 1) / 4 // 0.125 / 8}"
            for r in part.itertuples()
        )
        text = "\n".join(["IMAGE_KEY\tCAPTION_PRED\tROUNDED_AVG_USER_RATING", *rows, ""])
        write(root / "caption_quality" / f"OID-rated-image-captions.v1.{fold}.tsv", text)
    hat = (
        {
            "caption": row.caption,
            "grounding": [
                [w, k == 1 and bool(row.Index % 2)] for k, w in enumerate(row.caption.split())
            ],
            "contains_hallucination": bool(row.Index % 2),
            "image_path": f"COCO_val2014_{int(coco[row.image_id]):012d}.jpg",
            "references": list(row.references),
        }
        for row in items.itertuples()
    )
    write(root / datasets.card("hat").sources[0].path, list(hat))
    write_capeval1k(
        root,
        [
            (
                f"coco_val2014_{int(coco[r.image_id]):012d}",
                r.caption,
                np.mean(ratings[r.item_id]) / 5,
            )
            for r in items.itertuples()
        ],
    )
    return root


def write_capeval1k(root: Path, rows: list[tuple[str, str, float]]) -> None:
    """The UMIC authors' database; its word pieces are the captions' words."""
    pieces = ["[PAD]", *sorted({word for _, caption, _ in rows for word in caption.split()})]
    write(root / umic_lmdb.VOCABULARY.path, "\n".join(pieces) + "\n")
    folder = root / "capeval1k"
    with lmdb.open(str(folder), map_size=1 << 24) as env, env.begin(write=True) as transaction:
        for key, (image, caption, value) in enumerate(rows):
            row = {
                "input_ids": [pieces.index(word) for word in caption.split()],
                "img_fname": f"{image}.npz",
                "target": float(value),
            }
            transaction.put(str(key).encode(), lz4.frame.compress(msgpack.packb(row)))
    (folder / "lock.mdb").unlink()


#: What a person's own files hold, by the option that names one: six images, of which a test can find a difference.
IDS = (391895, 1, 2, 3, 4, 5)
TEXTS = [
    ("a dog runs", "a dog runs"),
    ("a cat sleeps", "a cat sleeps on a bed"),
    ("two men talk", "two people talk"),
    ("a boat sails", "a boat sails on the sea"),
    ("a child plays", "a child plays in the sand"),
    ("a bus waits", "a red bus waits"),
]
CAPTIONS = [{"image_id": i, "caption": caption} for i, (caption, _) in zip(IDS, TEXTS, strict=True)]
REFERENCES = [
    {"image_id": i, "references": [f"{text} here", f"there {text}"]}
    for i, (_, text) in zip(IDS, TEXTS, strict=True)
]
#: As lmms-eval writes them.
SAMPLES = [
    {
        "filtered_resps": [c["caption"]],
        "coco_CIDEr": {"image_id": r["image_id"], "pred": c["caption"], "answer": r["references"]},
    }
    for c, r in zip(CAPTIONS, REFERENCES, strict=True)
]
ANNOTATIONS = {
    "images": [{"id": i} for i in IDS],
    "annotations": [
        {"id": k, "image_id": row["image_id"], "caption": text}
        for k, (row, text) in enumerate(
            (row, text) for row in REFERENCES for text in row["references"]
        )
    ],
}
RATINGS = "image,caption,references,system,value\n" + "".join(
    f"{i}.jpg,{'a dog' if k else 'a cat'} runs {i},a dog runs {i} ||| dogs,s{k},{1 + (i + k + r) % 5}\n"
    for i in range(8)
    for k in range(2)
    for r in range(2)
)
PAIRS = "image,caption_a,caption_b,winner,system_a,system_b,references\n" + "".join(
    f"{i}.jpg,a dog runs {i},a cat sits {i},{winner},s{i % 2},s2,a dog runs {i}\n"
    for i, winner in enumerate(["a", "b", "a", "tie", "a", "b", "b", "a"])
)


class Scratch:
    """A folder in which a page's commands run, with what they read put there before."""

    def __init__(self, folder: Path, chosen: list[str]) -> None:
        self.folder = folder
        self.chosen = chosen  # datasets for whose items files are made

    def prepare(self, words: list[str]) -> None:
        """Make the files that a command reads and that no command or code before it has made."""
        if words[0] == "estimate":
            self.prepare_estimate(dict(word.partition("=")[::2] for word in words[1:]))
        files = [word for word in words[1:] if "=" not in word] if words[0] == "score" else []
        if files:
            *candidates, references = files
            words = [*words, f"candidates={','.join(candidates)}", f"references={references}"]
        for word in words:
            key, _, value = word.partition("=")
            names = re.findall(r"[^\[\],]+", value)
            if key == "candidates" and value.startswith("shards"):
                self.shards()
            elif key == "against" and value.endswith(".yaml"):
                if "update=true" not in words and not (self.folder / value).exists():
                    made = ["candidates=old.json", "references=refs.json", word]
                    self.prepare(["check", *made[:2]])
                    self.run(["check", *made, "update=true", "metrics=[rouge_1,cider]"])
            elif key in ("candidates", "against"):
                for name in names:
                    rows = SAMPLES if name.startswith("samples") else CAPTIONS
                    self.lacking(name, self.rows(name, rows))
            elif key == "references" and words[0] != "bench":
                for name in names:
                    self.lacking(
                        name, self.rows(name, REFERENCES) if name.endswith("l") else ANNOTATIONS
                    )
            elif key == "file.path":
                self.lacking(value, PAIRS if value.startswith("pairs") else RATINGS)
            elif key == "keep.run":
                if not (self.folder / value).exists():
                    self.shards()
                    self.run(["score", "candidates=shards", f"output_dir={value}", *CHEAP])
            elif key == "keep.thresholds":
                if not (self.folder / value).exists():
                    self.run(["thresholds", "metrics=[rouge_l]", f"output_dir={value}"])
            elif key == "run":
                for name in names:
                    if not (self.folder / name).exists():
                        self.run(["bench", "metrics=[rouge_1,cider]", f"output_dir={name}"])
            elif key == "baseline" and not (self.folder / value).exists():
                self.run(["check", word, "update=true", "metrics=[rouge_1,cider]"])
            elif words[0] == "validate" and word.endswith(".zip"):
                with zipfile.ZipFile(self.folder / word, "w") as archive:
                    name = "captions_val2014_mine_results.json"
                    archive.writestr(name, json.dumps(CAPTIONS))
            elif words[0] == "validate" and word.endswith(".json") and "=" not in word:
                self.lacking(word, CAPTIONS)
            elif (
                words[0] == "validate"
                and word.endswith(".csv")
                and "columns.caption=answer" in words
            ):
                table = "image_id,answer\n"
                for row in CAPTIONS:
                    table += f"{row['image_id']},{row['caption']}\n"
                self.lacking(word, table)
            elif words[0] == "validate" and word.endswith(".csv"):
                of = [w.partition("=")[2] for w in words if w.startswith("dataset=")]
                self.lacking(word, self.scores(of))
            elif key == "images":
                (self.folder / value).mkdir(exist_ok=True)
            self.of_metrics(word)

    def prepare_estimate(self, options: dict[str, str]) -> None:
        """Captions of 60 images, and ratings of 30 of them, or of those that a plan chose."""
        ids = [f"{n}.jpg" for n in range(60)]
        systems = [Path(name).stem for name in options["candidates"].split(",")]
        for k, system in enumerate(systems):
            captions = {i: " ".join(["a dog runs"] * (1 + (n + k) % 3)) for n, i in enumerate(ids)}
            self.lacking(f"{system}.json", captions)
        self.lacking(options["references"], {i: ["a dog runs", "a dog runs home"] for i in ids})
        if folder := options.get("images"):
            (self.folder / folder).mkdir(exist_ok=True)
            for image in ids:
                Image.new("RGB", (4, 4)).save(self.folder / folder / image)

        rated = [ids[n] for n in np.random.default_rng(0).permutation(60)[:30]]
        if plan := options.get("chosen"):
            if not (self.folder / plan).exists():
                made = [f"{key}={options[key]}" for key in ("candidates", "references")]
                out = f"output_dir={Path(plan).parent}"
                self.run(["estimate", "plan=true", "metrics=[rouge_1]", *made, "n=30", out])
            rows = csv.DictReader((self.folder / plan).read_text(encoding="utf-8").splitlines())
            rated = [row["image_id"] for row in rows if row["order"]]
        if "ratings" in options:
            lines = ["image_id,system,value"]
            for system in systems:
                lines += [f"{i},{system},{1 + int(i[:-4]) % 4}" for i in rated]
            self.lacking(options["ratings"], "\n".join([*lines, ""]))

    def of_metrics(self, word: str) -> None:
        """The files that metrics name."""
        for name in re.findall(r"\bfile\(path=([^,)]+)", word):
            self.lacking(name, self.scores(self.chosen))
        for name, function in re.findall(r"(?:\bpython\(|metrics=)(\w+):(\w+)", word):
            there = str(getattr(sys.modules.get(name), "__file__", ""))
            if not there.startswith(str(self.folder)):  # another test's, of the same name
                sys.modules.pop(name, None)
            self.lacking(
                f"{name}.py", f"def {function}(items): return items['caption'].str.len()\n"
            )
        for name, function in re.findall(r"(\w+)\.py:(\w+)", word):
            source = f"def {function}(caption, references): return len(caption)\n"
            self.lacking(f"{name}.py", source)
        if word.startswith(("metrics=", "repeats=")):
            for name in re.findall(r"[=,](\w+\.csv)", word):
                self.lacking(name, self.scores(self.chosen))
        for name in re.findall(r"\bcider\(df=([^,)]+)", word):
            if not (self.folder / name).exists():
                self.lacking("df_references.json", ANNOTATIONS)
                self.run(["score", "references=df_references.json", f"save_df={name}"])
        for name in re.findall(r"\brater\(path=([^,)]+)", word):
            if not (self.folder / name).exists():
                self.run(["train", "rater=icr", "rater.epochs=2", f"output_dir={name}"])

    def shards(self) -> None:
        """A folder of shards of the demo's captions."""
        if not (self.folder / "shards").exists():
            (self.folder / "shards").mkdir()
            items = captau.load("demo").items[["image_id", "caption", "references"]]
            items.assign(references=items["references"].map(list)).to_parquet(
                self.folder / "shards" / "0.parquet"
            )

    def rows(self, name: str, rows: list[dict[str, Any]]) -> Any:
        return "".join(f"{json.dumps(row)}\n" for row in rows) if name.endswith("l") else rows

    def scores(self, chosen: list[str]) -> str:
        """A score for every item of these datasets."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["item_id", "score"])
        for i in dict.fromkeys(i for name in chosen for i in captau.load(name).items["item_id"]):
            writer.writerow([i, len(i)])
        return out.getvalue()

    def lacking(self, name: str, content: Any) -> None:
        if name not in ("-", "null") and not (self.folder / name).exists():
            write(self.folder / name, content)

    def run(self, words: list[str]) -> int:
        """Run a command in a terminal of 80 columns, check what it showed, and return its exit status."""
        drawn: list[ResultTable] = []

        def draw(table: ResultTable, width: int | None = None) -> Any:
            drawn.append(table)
            return rich_of(table, width)

        with (
            patch.object(terminal_table, "rich_of", draw),
            own_terminal() as lines,
            pytest.raises(SystemExit) as ended,
        ):
            main(words)
        check_shown(words, lines, drawn)
        for table in drawn:
            if not table.numeric:
                check_texts(table, WIDTH, lines)
            for width in OTHER_WIDTHS:
                check_table(table, width)
        return int(ended.value.code or 0)


#: Widths of terminals in which tables are drawn as well.
OTHER_WIDTHS = (60, 120)


def check_table(table: ResultTable, width: int) -> None:
    """Check what a terminal of another width shows of a table: no line is too long, and no word is broken or lost."""
    lines = drawn_at(table, width)
    assert all(cell_len(line.rstrip()) <= width for line in lines)
    if table.numeric:
        check_words(lines, [table])
        check_numbers(table, width, lines)
    else:
        # Where it is listed, it has no heads.
        check_texts(table, width, lines)


def check_numbers(table: ResultTable, width: int, lines: list[str]) -> None:
    """Check that each number of a table stands whole in a line, but for those of columns that a note says are missing."""
    text = " ".join(" ".join(lines).split())
    _, is_missing, missing = text.partition("The terminal is too narrow for ")
    shown = set(re.sub("[│┃]", " ", "\n".join(lines)).split())
    for row in table.rows_with_cells:
        for head, cell in zip(table.heads, row.cells, strict=True):
            # Of columns of one head, as ±, some may be missing.
            is_one_of_several = table.heads.count(head) > 1
            if is_missing and (is_one_of_several or any(word in missing for word in head.split())):
                continue
            words = [word for word in str(cell).split() if not any(word in one for one in shown)]
            assert not words, f"cut at {width} columns: {words} of {head}"


def drawn_at(table: ResultTable, width: int) -> list[str]:
    """Return the lines of a table as a terminal of a width shows them."""
    file = io.StringIO()
    Console(width=width, file=file).print(rich_of(table, width))
    return file.getvalue().splitlines()


def check_texts(table: ResultTable, width: int, lines: list[str]) -> None:
    """Check that each word of a table of texts stands whole in a line, and that none goes beyond the terminal."""
    lines = [re.sub("[│┃]", " ", line) for line in lines]
    shown = {word for line in lines for word in line.split()}
    words = {word for row in table.rows for cell in row.cells for word in str(cell).split()}
    indent = 2
    cut = {word for word in words if cell_len(word) <= width - indent} - shown
    assert not cut, f"cut at {width} columns: {cut}"
    assert all(cell_len(line.rstrip()) <= width for line in lines if line[:1] in "┏┃┡│└")


#: Words of commands that print what is to be copied, whose lines are not broken.
COPIED = ("cite", "--cfg", "style=", "stdout=", "--shell-completion", "-sc")
#: How long a word may be that a table keeps whole.
LONGEST_WORD = 24


def check_shown(words: list[str], lines: list[str], drawn: list[ResultTable]) -> None:
    """Check that there is no traceback, no line that is too long, and no word of a table that is broken or lost."""
    assert not any(line.startswith("Traceback") for line in lines)
    if not any(word.startswith(COPIED) for word in words):
        long_lines = [
            line
            for line in lines
            if cell_len(line) > WIDTH and len(line.split()) > 1 and line[0] != " "
        ]
        assert not long_lines
    check_words(lines, drawn)


def check_words(lines: list[str], drawn: list[ResultTable]) -> None:
    """Check that no word of a table's heads and labels is broken or lost, but for the heads that a note says are missing."""
    shown = set(re.sub("[│┃]", " ", "\n".join(lines)).split())
    text = " ".join(" ".join(lines).split())
    _, _, too_narrow = text.partition("The terminal is too narrow for ")
    for table in drawn:
        heads = [head for head in table.heads if head not in too_narrow]
        pieces = set(split_head(" ".join(heads)))
        if any(all(p not in word for word in shown) for p in pieces):
            short_heads = dict(zip(table.heads, table.short_heads, strict=True))
            heads = [short_heads[head] for head in heads]
        pieces = [p for head in [table.corner, *heads] for p in split_head(head)]
        pieces += [p for row in table.rows for p in split_head(row.label)]
        lost = {p for p in pieces if p and len(p) <= LONGEST_WORD} - shown
        assert not {p for p in lost if not any(p in word for word in shown)}


def execute(command: str, scratch: Scratch, seen: set[str]) -> None:
    """Run one command, or compose it."""
    program, *words = shlex.split(command, comments=True)
    if program == "python":
        return check_script(words, scratch)
    if listed(ELSEWHERE, command):
        # A sweep is many configurations, so the options that it varies are left out.
        flags = {"-m", "--multirun"}
        one = [word for word in words if not (flags & set(words) and varies(word))]
        # The sweeper comes with a plugin.
        one = [word for word in one if not word.startswith(("hydra/sweeper=", "hydra.sweeper."))]
        assert scratch.run([*(w for w in one if w not in flags), "--cfg", "job"]) == 0
        return None
    leaves_something = any(word.startswith(("output", "save_df")) for word in words)
    if leaves_something or plain(command) not in seen:
        given = {word.partition("=")[0] for word in words}
        smaller = listed(SMALLER, command) or []
        more = [option for option in smaller if option.partition("=")[0] not in given]
        scratch.prepare([*words, *more])
        assert scratch.run([*words, *more]) == (listed(STATUS, command) or 0)
        seen.add(plain(command))
    return None


def varies(word: str) -> bool:
    """Whether a sweep runs over several values of an option: commas outside of brackets."""
    return "," in re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", word)


def check_script(words: list[str], scratch: Scratch) -> None:
    """Scripts run for minutes, on real data: that they are there and know their options is seen here."""
    path = ROOT / words[0]
    source = path.read_text(encoding="utf-8")
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in source, f"{path.name} has no {word}"
    if path.name == "make_tiny_models.py":  # the fixture `tiny` has run it
        (scratch.folder / words[1]).symlink_to(os.environ["CAPTAU_WEIGHTS"])


@pytest.fixture(scope="module")
def seen() -> set[str]:
    """Commands that have run: what two pages say is run once."""
    return set()


@pytest.fixture
def scratch(tmp_path, data, tiny, monkeypatch) -> Iterator[Scratch]:
    """A folder of one's own; tiny models for weights; the cache is the session's."""
    for name, value in (("CAPTAU_DATA", data), ("CAPTAU_WEIGHTS", tiny), ("HF_HUB_OFFLINE", 1)):
        monkeypatch.setenv(name, str(value))
    for name in ("CAPTAU_CACHE", "CAPTAU_DOWNLOAD", "CAPTAU_JAVA", "CAPTAU_SPICE_JARS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # undone what a command sets
    for name in ("http_proxy", "https_proxy", "all_proxy"):  # what asks the network fails at once
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Scratch(tmp_path, ["demo", "flickr8k_expert", "thumb"])
    for name in set(sys.modules) - before:  # another page may have a module of the same name
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", [p for p in PAGES if steps_of(p)], ids=lambda p: p.name)
def test_what_a_page_tells_to_do(page, scratch, seen, capsys):
    namespace: dict[str, Any] = dict(NAMES.get(page.name, {}))
    for kind, content in steps_of(page):
        try:
            if kind == "command":
                execute(content, scratch, seen)
            elif kind == "python":
                exec(content, namespace)
            else:
                write(scratch.folder / kind, content)
        except BaseException as error:
            said = capsys.readouterr()
            pytest.fail(f"{page.name}: {content}\n{error!r}\n{said.out[-500:]}{said.err[-800:]}")
        capsys.readouterr()


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help(name, scratch, seen, capsys, monkeypatch):
    assert help_examples(name)
    for number, command in enumerate(help_examples(name)):
        folder = scratch.folder / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        try:
            execute(command, Scratch(folder, scratch.chosen), seen)
        except BaseException as error:
            said = capsys.readouterr()
            pytest.fail(f"{command}\n{error!r}\n{said.out[-500:]}{said.err[-800:]}")
        capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_yaml_examples_of_a_page_can_be_read(page):
    for block in re.findall(r"^```ya?ml[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
        yaml.safe_load(block)


def test_no_list_names_a_command_that_is_not_there():
    commands = [plain(c) for found in all_commands().values() for c in found]
    for table in (ELSEWHERE, SMALLER, STATUS):
        for beginning in table:
            assert any(c.startswith(beginning) for c in commands), beginning
    assert set(NAMES) <= {p.name for p in PAGES}
