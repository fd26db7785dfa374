"""Broken and hostile inputs for every reader, and for the forms and the HTTP API of both sites: each is refused in a line, or accepted, within five seconds.

    python scripts/checks/fuzz_inputs.py [inputs=1000] [seed=0]

Small valid files, and lines that are typed, are broken in the ways of `BREAKAGES` and `HOSTILE_LINES`, drawn by the seed, and read as the commands read them. The script prints
a row for each reader and group of requests (a third of the inputs, see `fuzz_sites.py`), and ends with status 1 if one input gave a traceback, took longer than five seconds, was accepted although
its breakage leaves no valid file, or gave a message that is not one short line without control characters.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from captau.benchmarks.cli.main import main as captau_main
from captau.benchmarks.cli.script_options import read_options
from captau.datasets.errors import InputError
from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import make_evaluator
from captau.server.collect.study import read_study

MOST_SECONDS = 5
REFERENCES = {"a": ["a dog", "the dog runs"], "b": ["a cow"]}
CANDIDATES = [{"image_id": "a", "caption": "a dog"}, {"image_id": "b", "caption": "cows"}]
RATINGS = "image,caption,references,value,rater\n" + "".join(
    f'{image},{caption},"[""a dog"", ""a cow""]",{value},{rater}\n'
    for rater in ("r", "s")
    for image, caption, value in (("a", "a dog", 1), ("a", "a cat", 3), ("b", "cows", 5))
)
SYSTEMS = "image,caption,references,value,rater,system\n" + "".join(
    f'{image},{system} runs,"[""a dog"", ""a cow""]",{value},r,{system}\n'
    for image in "abc"
    for system, value in (("dog", 1), ("cat", 3), ("cow", 5))
)
CHALLENGE = {
    "name": "fuzz",
    "kind": "captions",
    "phases": [{"name": "test", "per_day": 2, "from": "2027-01-01"}],
    "references": [{"name": "c2", "file": "references.json"}],
    "metrics": ["rouge_l"],
    "statistics": {"interval": "percentile", "replicates": 100},
    "limits": {"megabytes": 4},
}
STUDY = {
    "name": "fuzz",
    "protocol": "good_bad",
    "consent": "A test.",
    "items": {"dataset": "demo"},
    "ratings": 3,
    "limits": {"joins": 20},
}
HOSTILE_VALUES = [
    *(None, True, -1, 10**30, 1e308, float("nan"), float("inf"), "", [], {}, [[]], {"a": {}}),
    *(
        "x" * 100_000,
        "\x1b[31m\u202e",
        "../../etc/passwd",
        "x" * 5000 + ".json",
        "python(os:system)",
    ),
]


#: Lines that are typed, and single words that stand behind others.
HOSTILE_LINES = (
    *("metrics=${x}", "metrics=${oc.env:HOME}", "statistics.seed=${oc.decode:[}", "dataset=${..}"),
    *("metrics=file(path=/dev/zero)", "metrics=python(os:system)", "metrics=cider(df=/dev/zero)"),
    *(
        "metrics=",
        "metrics=[",
        "protocol.k=1e999",
        "dataset=../..",
        "statistics.level=nan",
        "=",
        "a=b",
    ),
    *(
        "--multirun",
        "--config-dir",
        "--help",
        "+x=1",
        "~metrics",
        "hydra.run.dir=/proc/nothing",
        "java.home=/",
    ),
    "bench --multirun statistics.seed=range(0,0) metrics=rouge_1",
    "bench --multirun metrics=choice() statistics.interval=none",
    "check baseline=/dev/zero",
    "check baseline=/dev/null",
    "report run=/dev/null",
    "score candidates=/dev/zero references=/dev/zero metrics=rouge_1",
    "table run=last,\x1b[31m",
    "rank dataset=file file.path=/dev/zero",
)


def break_bytes(content: bytes, rng: random.Random) -> bytes:
    """Insert bytes that no UTF-8 text holds."""
    at = rng.randrange(len(content))
    return content[:at] + b"\xff\xfe" + content[at:]


def cut(content: bytes, rng: random.Random) -> bytes:
    """Leave out the end, a valid file's last lines at least."""
    return content[: rng.randrange(len(content))]


def flip(content: bytes, rng: random.Random) -> bytes:
    """Change one byte."""
    at = rng.randrange(len(content))
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def nest(content: bytes, rng: random.Random) -> bytes:
    """Nest lists more deeply than readers can follow."""
    content = content[content.startswith(b"#") and content.index(b"\nformat") + 1 :]
    return content[:1] + b"[" * rng.choice([2_000, 200_000]) + content[1:]


def insert(content: bytes, rng: random.Random) -> bytes:
    """Insert what steers terminals, ends texts, or is long."""
    at = rng.randrange(len(content))
    return (
        content[:at] + rng.choice([b"\0", b"\x1b]0;x\x07", b"9" * 9000, b'"', b"\n"]) + content[at:]
    )


def replace_value(content: bytes, rng: random.Random) -> bytes:
    """Put a hostile value in the place of one of a JSON or YAML file's values."""
    document: Any = yaml.safe_load(content) if content[:1] not in b"[{" else json.loads(content)
    parents = list(_containers(document))
    parent = rng.choice(parents)
    parent[rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))] = (
        rng.choice(HOSTILE_VALUES)
    )
    return json.dumps(document).encode()  # JSON is YAML as well


def _containers(value: Any) -> list[Any]:
    children = (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else []
    )
    return ([value] if children else []) + [c for child in children for c in _containers(child)]


def double(content: bytes, rng: random.Random) -> bytes:
    """Append the file to itself, as `cat` does with two files."""
    return content + content


def take_line(content: bytes, rng: random.Random) -> bytes:
    """Type something hostile instead, or behind what is typed."""
    line = rng.choice(HOSTILE_LINES).encode()
    return line if b" " in line else content + b" " + line


Breakage = Callable[[bytes, random.Random], bytes]
#: Ways to break a file.
BREAKAGES: tuple[Breakage, ...] = (break_bytes, nest, cut, flip, insert, double)
#: Ways to break a JSON or YAML file.
DOCUMENT_BREAKAGES: tuple[Breakage, ...] = (*BREAKAGES, *[replace_value] * 3)


@dataclass(frozen=True)
class Reader:
    """A valid file and what reads it.

    Attributes:
        read: raises InputError, or returns captau's exit status.
        breakages: the ways to break it.
        never_valid: those of which no valid file comes.
    """

    file: str
    content: bytes
    read: Callable[[Path], int | None]
    breakages: tuple[Breakage, ...] = DOCUMENT_BREAKAGES
    never_valid: tuple[Breakage, ...] = (break_bytes, nest, double)


def command(*words: str) -> Callable[[Path], int | None]:
    """Return a reader that runs captau on a file; `{}` stands for it, and `{folder}` for its folder."""

    def run(path: Path) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path.parent / "out")
        return captau([word.format(path, folder=path.parent) for word in words])

    return run


def captau(words: list[str]) -> int:
    """Run captau in this process, and return its exit status."""
    try:
        captau_main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def read_challenge(path: Path) -> None:
    for challenge in read_challenges(str(path)):
        make_evaluator(challenge).check_challenge()


def rank_and_report(path: Path) -> int | None:
    """Rank the systems of a table of ratings, and make a page of the run."""
    words = ("rank", "dataset=file", "file.path={}", "file.system=system", "metrics=rouge_1")
    few = ("statistics.replicates=20", "output_dir={folder}/out")
    return command(*words, *few)(path) or captau(["report", f"run={path.parent}/out"])


def make_tar() -> bytes:
    """Return a shard of the candidates as WebDataset packs them."""
    shard = io.BytesIO()
    with tarfile.open(fileobj=shard, mode="w") as archive:
        for row in CANDIDATES:
            for ending, text in (("txt", row["caption"]), ("json", json.dumps(row))):
                member = tarfile.TarInfo(f"{row['image_id']}.{ending}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    return shard.getvalue()


def make_parquet() -> bytes:
    """Return a shard of the candidates as Parquet."""
    shard = io.BytesIO()
    pd.DataFrame(CANDIDATES).to_parquet(shard)
    return shard.getvalue()


def make_table_readers() -> list[Reader]:
    """Return the readers of tables of ratings."""
    return [
        Reader(
            "ratings.csv",
            RATINGS.encode(),
            command(
                "bench",
                "dataset=file",
                "file.path={}",
                "metrics=rouge_1",
                "statistics.interval=none",
                "output_dir={folder}/out",
            ),
            BREAKAGES,
        ),
        Reader("systems.csv", SYSTEMS.encode(), rank_and_report, BREAKAGES),
    ]


def make_site_readers() -> list[Reader]:
    """Return the readers of the files of both sites."""
    return [
        Reader(
            "challenge.yaml",
            yaml.safe_dump(CHALLENGE, sort_keys=False).encode(),
            lambda path: read_challenge(path),
        ),
        Reader(
            "study.yaml",
            yaml.safe_dump(STUDY, sort_keys=False).encode(),
            lambda path: read_study(str(path)) and None,
        ),
    ]


def make_readers(folder: Path) -> list[Reader]:
    """Write the valid files and return their readers."""
    (folder / "references.json").write_text(json.dumps(REFERENCES))
    (folder / "candidates.json").write_text(json.dumps(CANDIDATES))
    bench = command(
        "bench", "metrics=rouge_1", "statistics.replicates=20", f"output_dir={folder}/run"
    )
    baseline = command("check", "baseline={}", "update=true", "metrics=rouge_1", "sample=2")
    if bench(folder) or baseline(folder / "first.yaml"):
        raise SystemExit("the valid files cannot be made")
    score = ("score", "metrics=rouge_1", "output_dir={folder}/out")
    lines = "".join(json.dumps(row) + "\n" for row in CANDIDATES)
    score_candidates = command(*score, "candidates={}", "references={folder}/references.json")
    score_shard = command(
        *score,
        "engine=local",
        "workers=0",
        "candidates={}",
        "references={folder}/../references.json",
    )
    return [
        Reader("c.json", json.dumps(CANDIDATES).encode(), score_candidates),
        Reader("c.jsonl", lines.encode(), score_candidates, BREAKAGES),
        Reader("tar/shard.tar", make_tar(), score_shard, BREAKAGES, (nest, double)),
        Reader("parquet/shard.parquet", make_parquet(), score_shard, BREAKAGES, (nest,)),
        Reader(
            "r.json",
            json.dumps(REFERENCES).encode(),
            command(*score, "candidates={folder}/candidates.json", "references={}"),
        ),
        *make_table_readers(),
        Reader(
            "config/experiment/mine.yaml",
            b"metrics: [rouge_1]\nstatistics: {interval: none, seed: 3}\nprotocol: {references: first_k, k: 4}\n",
            command(
                *("bench", "experiment=mine", "--config-dir", "{folder}/.."),
                "output_dir={folder}/out",
            ),
            never_valid=(break_bytes, nest),
        ),
        Reader(
            "line.txt",
            b"bench metrics=rouge_1 statistics.interval=none",
            lambda path: captau(path.read_text("utf-8", "surrogateescape").split()),
            (take_line, take_line, take_line, flip, insert),
            (),
        ),
        Reader(
            "run/run.json",
            (folder / "run" / "run.json").read_bytes(),
            command("table", "run={folder}", "output={folder}/../t.md"),
        ),
        Reader(
            "baseline.yaml", (folder / "first.yaml").read_bytes(), command("check", "baseline={}")
        ),
        *make_site_readers(),
    ]


def try_input(
    reader: Reader, path: Path, is_never_valid: bool, most_seconds: float
) -> tuple[str, str]:
    """Read a broken file; return the outcome and, of a fault, what was seen."""
    path.parent.mkdir(exist_ok=True, parents=True)
    begun, printed = time.monotonic(), io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            status = reader.read(path)
        message = printed.getvalue().rstrip("\n") if status else ""
    except InputError as error:
        status, message = 2, f"captau: {error}"
    except Exception:
        return "traceback", traceback.format_exc()
    seconds = time.monotonic() - begun
    if seconds > most_seconds:
        return "slow", f"{seconds:.1f} s"
    last_line = message.rpartition("\n")[2]
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", message) or len(last_line) > 5000:
        return "bad message", repr(message[:300])
    if not status:
        return ("wrongly accepted", "") if is_never_valid else ("accepted", "")
    return "refused", message


def fuzz(
    n_inputs: int, seed: int, most_seconds: float = MOST_SECONDS
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Try inputs; return the counts of outcomes by reader, and a text for each fault.

    An input that takes more than `most_seconds` is a fault.
    """
    rng = random.Random(seed)
    counts: dict[str, Counter[str]] = {}
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        readers = make_readers(folder)
        for reader in readers:
            (folder / reader.file).parent.mkdir(exist_ok=True, parents=True)
            (folder / reader.file).write_bytes(reader.content)
            outcome, seen = try_input(reader, folder / reader.file, False, most_seconds)
            if outcome != "accepted":
                raise SystemExit(f"{reader.file}: the valid file is {outcome} {seen}")
        for number in range(n_inputs):
            reader = readers[number % len(readers)]
            breakage = rng.choice(reader.breakages)
            is_never_valid = breakage in reader.never_valid
            path = folder / reader.file
            path.write_bytes(breakage(reader.content, rng))
            outcome, seen = try_input(reader, path, is_never_valid, most_seconds)
            counts.setdefault(reader.file, Counter())[outcome] += 1
            if outcome not in ("refused", "accepted"):
                faults.append(
                    f"input {number}, {reader.file}, {breakage.__name__}: {outcome}\n{seen}"
                )
    return counts, faults


def main() -> int:
    import fuzz_sites  # beside this script

    given = read_options(__doc__, ("inputs", "seed"))
    os.environ.setdefault("NO_COLOR", "1")
    n_inputs, seed = int(given.get("inputs", 1000)), int(given.get("seed", 0))
    counts, faults = fuzz(n_inputs - n_inputs // 3, seed)
    site_counts, site_faults = fuzz_sites.fuzz(n_inputs // 3, seed, MOST_SECONDS)
    counts, faults = counts | site_counts, faults + site_faults
    for reader, outcomes in counts.items():
        print(
            f"{reader}: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        )
    print(*faults, sep="\n")
    print(f"{sum(c.total() for c in counts.values()):,} inputs, {len(faults)} faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
