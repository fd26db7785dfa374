"""How `captau score` of large sets grows: CPU time and memory, by stage and with each engine.

    python scripts/speed/benchmark_scale.py --rows 10000 100000 --output scale.json
    python scripts/speed/benchmark_scale.py --rows 10000 100000 1000000 --engines local ray

Generated captions: each image has five references and a candidate, sentences of a chain whose words and
successions are as unequally frequent as a language's (Zipf). The text suite without METEOR and SPICE, or `--metrics`.
The table goes to standard output, and all that was measured into the JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

METRICS = "bleu_1,bleu_2,bleu_3,bleu_4,rouge_l,cider"
REFERENCES = 5
#: Rows of a shard, words of the vocabulary, and successors of a word.
SHARD, WORDS, SUCCESSORS = 20_000, 30_000, 200
_PR_SET_CHILD_SUBREAPER = 36
CONSONANTS, VOWELS = "bcfghklmnprstvz", "aeiou"


def cumulated(size: int, exponent: float) -> np.ndarray:
    """Zipf's law, summed up."""
    shares = 1 / np.arange(1, size + 1) ** exponent
    return np.cumsum(shares / shares.sum())


def vocabulary() -> list[str]:
    """So many words, the most frequent the shortest."""
    syllables = [c + v for c in CONSONANTS for v in VOWELS]
    found: list[str] = []
    for number in range(WORDS):
        word, left = "", number
        while not word or left:
            left, syllable = divmod(left, len(syllables))
            word += syllables[syllable]
        found.append(word)
    return found


def successor(words: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The word that stands at a place among those that follow another: always the same one."""
    with np.errstate(over="ignore"):
        x = words.astype(np.uint64) * np.uint64(1_000_003) + places.astype(np.uint64) + np.uint64(1)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return np.searchsorted(cumulated(WORDS, 1.0), (x >> np.uint64(11)).astype(float) / 2**53)


def sentences(rows: int, seed: int, words: list[str]) -> list[list[str]]:
    """The sentences of each row, which begin alike; the candidate is the first."""
    rng = np.random.default_rng(seed)
    number = rows * (1 + REFERENCES)
    lengths = rng.integers(7, 15, number)
    chain = np.empty((number, int(lengths.max())), dtype=np.int64)
    first = np.searchsorted(cumulated(WORDS, 1.0), rng.random(rows))
    chain[:, 0] = np.repeat(first, 1 + REFERENCES)
    places = cumulated(SUCCESSORS, 1.1)
    for i in range(1, chain.shape[1]):
        chain[:, i] = successor(chain[:, i - 1], np.searchsorted(places, rng.random(number)))
    texts = [
        f"A {' '.join(words[w] for w in row[:length])}."
        for row, length in zip(chain.tolist(), lengths.tolist(), strict=True)
    ]
    each = 1 + REFERENCES
    return [texts[i : i + each] for i in range(0, number, each)]


def make(folder: Path, rows: int) -> Path:
    """A set of so many rows in shards; one that is there is taken."""
    path = folder / f"rows-{rows}"
    if not path.is_dir():
        words = vocabulary()
        unfinished = folder / f".rows-{rows}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for i, begin in enumerate(range(0, rows, SHARD)):
            some = sentences(min(SHARD, rows - begin), begin, words)
            table = {
                "image_id": [str(begin + j) for j in range(len(some))],
                "caption": [texts[0] for texts in some],
                "references": [texts[1:] for texts in some],
            }
            pq.write_table(pa.table(table), unfinished / f"part-{i:05d}.parquet")
        unfinished.rename(path)
    return path


def run_measured(command: list[str]) -> dict[str, Any]:
    """Run a command, and return the seconds, the CPU seconds and the largest memory of all its processes together.

    Daemons count as well: this process adopts those whose parents end (Linux's subreaper). Memory is the sum of the
    proportional set sizes, in bytes, and also by the name of the process. Both are read from /proc four times a second, as Ray does not wait for its
    workers, whose CPU time `getrusage` would miss.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory_by_name, cpu_by_process = Counter[str](), dict[tuple[int, str], float]()
    while process.poll() is None:
        pids = descendants(os.getpid())
        sizes = Counter[str]()
        for pid in pids:
            name = "driver" if pid == process.pid else process_name(pid)
            sizes[name] += proportional_size(pid)
        memory_by_name = max(memory_by_name, sizes, key=Counter.total)
        cpu_by_process |= dict(filter(None, map(cpu_seconds, pids)))
        time.sleep(0.25)
    seconds = time.perf_counter() - begun
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    if process.returncode:
        raise SystemExit(f"exit status {process.returncode}: {' '.join(command)}")
    all_cpu_seconds = sum(cpu_by_process.values())
    return {
        "seconds": seconds,
        "all_cpu_seconds": all_cpu_seconds,
        "all_memory": memory_by_name.total(),
        "memory_by_name": memory_by_name,
    }


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def process_name(pid: int) -> str:
    """The name of a process: `workers`, or that of its program."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        if "multiprocessing.resource_tracker" in command:
            return "resource_tracker"
        if "multiprocessing.spawn" in command or re.match(r"ray::(?!.*Agent)", command):
            return "workers"
        words = [Path(word).name for word in command.split() if not word.startswith("-")]
        return next((word for word in words if not word.startswith("python")), "python")
    return "ended"


def cpu_seconds(pid: int) -> tuple[tuple[int, str], float] | None:
    """The CPU time of a process so far, by its number and its start, since numbers are used again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (pid, fields[19]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_size(pid: int) -> int:
    """The memory of a process in bytes; what it shares with others counts by their number."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def measure(
    candidates: Path, folder: Path, rows: int, engine: str, workers: int, metrics: str
) -> dict[str, Any]:
    """One run, from the start of the process to its end."""
    output = folder / f"out-{rows}-{engine}"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from captau.benchmarks.cli.main import main; main()", "score"]
    command += [f"candidates={candidates}", f"metrics=[{metrics}]", f"output_dir={output}"]
    command += [f"engine={engine}", f"workers={workers}", "trust=null"]
    processes = run_measured(command)
    run = json.loads((output / "run.json").read_text())
    corpus = json.loads((output / "corpus.json").read_text())
    shutil.rmtree(output)
    costs = run["costs"]
    return {
        "rows": rows,
        "references": REFERENCES,
        "engine": engine,
        "workers": workers,
        "metrics": metrics,
        **processes,
        "run_seconds": run["seconds"],
        "cpu_seconds": sum(stage["cpu_seconds"] for stage in costs["stages"].values()),
        "input_bytes": sum(p.stat().st_size for p in candidates.iterdir()),
        "stages": costs["stages"],
        "driver_rss": costs["driver_rss"],
        "worker_rss": costs["worker_rss"],
        "corpus": corpus,
    }


def table(found: list[dict[str, Any]]) -> str:
    """What was measured, as Markdown."""
    lines = [
        "| rows | engine | seconds | µs a row | CPU of tasks, µs a row | CPU of all processes | driver, MB | worker, MB | "
        "all processes, MB |",
        "|--:|:--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in found:
        each = 1e6 / one["rows"]
        cells = [
            f"{one['rows']:,}",
            one["engine"],
            f"{one['seconds']:.1f}",
            f"{one['seconds'] * each:.0f}",
            f"{one['cpu_seconds'] * each:.0f}",
            f"{one['all_cpu_seconds'] * each:.0f}",
            f"{one['driver_rss'] / 1e6:.0f}",
            f"{one['worker_rss'] / 1e6:.0f}",
            f"{one['all_memory'] / 1e6:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *stages(found), "", *processes(found), "", *ratios(found)]
    return "\n".join(lines)


def stages(found: list[dict[str, Any]]) -> list[str]:
    """Of the largest run with the local engine, each stage's share."""
    largest = max((o for o in found if o["engine"] == found[0]["engine"]), key=lambda o: o["rows"])
    lines = [
        f"Stages of {largest['rows']:,} rows, engine {largest['engine']}:",
        "",
        "| stage | tasks | CPU, µs a row | most memory of a worker, MB |",
        "|:--|--:|--:|--:|",
    ]
    for name, stage in largest["stages"].items():
        cpu = stage["cpu_seconds"] * 1e6 / largest["rows"]
        memory = stage["rss"] / 1e6
        lines.append(f"| {name} | {stage['tasks']:,} | {cpu:.1f} | {memory:,.0f} |")
    return lines


def processes(found: list[dict[str, Any]]) -> list[str]:
    """The memory of each kind of process at the moment of most memory, of the largest runs."""
    largest = [run for run in found if run["rows"] == max(run["rows"] for run in found)]
    names = dict.fromkeys(name for run in largest for name in run["memory_by_name"])
    lines = [
        f"Memory of {largest[0]['rows']:,} rows at its most, MB:",
        "",
        f"| process | {' | '.join(run['engine'] for run in largest)} |",
        f"|:--|{'--:|' * len(largest)}",
    ]
    for name in names:
        cells = [f"{run['memory_by_name'].get(name, 0) / 1e6:.0f}" for run in largest]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def ratios(found: list[dict[str, Any]]) -> list[str]:
    """Growth with the rows, engine against engine, and how far the corpus scores are apart."""
    lines: list[str] = []
    by_engine: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(found, key=lambda o: o["rows"]):
        by_engine.setdefault(one["engine"], []).append(one)
    for engine, runs in by_engine.items():
        for before, after in pairwise(runs):
            wall, cpu = (
                (after[k] / after["rows"]) / (before[k] / before["rows"])
                for k in ("seconds", "all_cpu_seconds")
            )
            lines.append(
                f"{engine}: a row of {after['rows']:,} takes {wall:.2f} times as long as one of "
                f"{before['rows']:,} (CPU {cpu:.2f})."
            )
    for one in by_engine.get("local", []):
        for other in by_engine.get("ray", []):
            if one["rows"] == other["rows"]:
                apart = max(abs(v - other["corpus"][k]) for k, v in one["corpus"].items())
                lines.append(
                    f"{one['rows']:,} rows: ray takes {other['seconds'] / one['seconds']:.2f} times as long "
                    f"as local, {other['all_cpu_seconds'] / one['all_cpu_seconds']:.2f} times the CPU time and "
                    f"{other['all_memory'] / one['all_memory']:.2f} times the memory of all processes; their corpus "
                    f"scores differ by {apart:g} at most."
                )
    return lines


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--engines", nargs="+", default=["local", "ray"], choices=["local", "ray"])
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where the generated sets are kept")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="captau-scale-") as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        found: list[dict[str, Any]] = []
        for rows in chosen.rows:
            candidates = make(folder, rows)
            for engine in chosen.engines:
                found.append(
                    measure(candidates, folder, rows, engine, chosen.workers, chosen.metrics)
                )
                print(f"{rows:,} rows, {engine}: {found[-1]['seconds']:.1f} s", file=sys.stderr)
                if chosen.output:
                    chosen.output.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
