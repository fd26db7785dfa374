"""What commands print and write on small made-up files, to the letter.

The golden files under `tests/golden/written/` hold the printed text, `table.md` and the CSV files, with numbers
rounded to six digits. After a wanted change `CAPTAU_GOLDEN=write pytest tests/benchmarks/commands/test_written_files.py`
writes them anew; read the difference before it is committed. What they say was checked by eye once; values are
derived by hand, or held against reference implementations, in the tests of the modules.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from captau.benchmarks.cli import tasks
from captau.benchmarks.reporting import figure_files
from captau.benchmarks.runs.terminal_table import rich_of
from tests.conftest import run_captau

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
RATINGS = [
    "file.path=ratings.csv",
    "file.scales={precision: {low: 1, high: 5, step: 1}, recall: {low: 1, high: 5, step: 1}}",
]
FILE = ["dataset=file", *RATINGS]
PAIRS = ["dataset=file", "file.path=pairs.csv"]
FAST = ["metrics=bleu_1,rouge_l", "statistics.replicates=40"]
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
    "thresholds": ["thresholds", *FILE, "metrics=bleu_1,rouge_l", "good=0.6", "precision=0.7"],
    **{
        f"sensitivity_{kind}": [
            *("sensitivity", *FILE, "metrics=rouge_1,rouge_l", f"kind={kind}", "draws=4"),
            *("protocol.dimension=recall", "protocol.coefficients=pearson"),
        ]
        for kind in ("images", "raters", "references", "length", "protocols", "power")
    },
    "probe": [
        *("probe", "references=references.json", "metrics=bleu_1,rouge_l", "pairs=6"),
        "statistics.replicates=40",
    ],
    "score": [
        *("score", "candidates=A.json,B.json", "references=references.json,two.json"),
        *("metrics=bleu_4,rouge_l", "statistics.interval=percentile", "statistics.replicates=40"),
    ],
    "validate": ["validate", "file=A.json", "references=references.json"],
}


#: Those whose tables are drawn as well, as in a terminal of 72 columns: spare columns give way there.
NARROW = ("bench", "compare_datasets", "rank", "score", "agree")


def draw_tables(tables: list) -> None:
    for table in tables:
        console = Console(width=72, color_system=None)
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
    for system in "AB":
        texts = {f"i{n}": row[system] for n, row in enumerate(captions)}
        (folder / f"{system}.json").write_text(json.dumps(texts))


def round_numbers(text: str) -> str:
    """Round numbers of more than six decimals to six digits."""
    return re.sub(r"-?\d+\.\d{6,}(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", text)


@pytest.mark.parametrize("name", CASES)
def test_golden(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure_files, "find_spec", lambda _: None)  # figures have their own tests
    if name in NARROW:
        monkeypatch.setattr(tasks, "show_tables", draw_tables)
    write_files(tmp_path)
    words = CASES[name]
    folder = [] if name == "validate" else ["output_dir=out"]
    assert run_captau(*words, *folder) == 0, capsys.readouterr().err
    files = {
        path.name: path for path in (tmp_path / "out").glob("*") if path.suffix in (".csv", ".md")
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    parts = [f"$ captau {' '.join(words)}"]
    printed = capsys.readouterr().out.splitlines()
    parts += [line for line in printed if line not in texts.get("table.md", "").splitlines()]
    for file, text in sorted(texts.items()):
        lines = text.splitlines()
        step = max(1, len(lines) // 30) if file.endswith(".csv") else 1
        parts += [f"== {file}, one line of {step}" if step > 1 else f"== {file}", *lines[::step]]
    made = round_numbers("\n".join(parts)) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        golden.write_text(made, encoding="utf-8", newline="")
        pytest.skip("written anew")
    assert made == golden.read_bytes().decode()
