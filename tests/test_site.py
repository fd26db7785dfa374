"""The documentation site: built without a warning or a network, with a page for everything there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.commands.reproduce import summarise
from captau.benchmarks.evaluation.papers.published_numbers import Training, read_numbers
from captau.conf import group
from captau.datasets import registry as datasets
from captau.metrics import registry as metrics

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",  # counts warnings, which --quiet would keep from it
        "--site-dir",
        str(out),
    ]
    # A proxy that nobody answers at: what asks the network fails, and so would the build.
    environment = os.environ | dict.fromkeys(
        ("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"
    )
    environment["NO_MKDOCS_2_WARNING"] = "1"
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search("WARNING|ERROR", done.stderr), done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    """The built site: path → text of the page, without its tags."""
    return {str(p.relative_to(site)): p.read_text(encoding="utf-8") for p in site.rglob("*.html")}


def text_of(page: str) -> str:
    return bare(page.partition("<article")[2].partition(">")[2])


def bare(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def test_nothing_is_fetched_when_a_page_is_read(pages):
    for path, page in pages.items():
        for tag in re.findall(r"<(?:script|link|img|iframe|source|video)\b[^>]*>", page):
            where = re.search(r"\b(?:src|href)=\"([^\"]*)\"", tag)
            assert not where or not re.match(r"(\w+:)?//", where[1]), f"{path}: {tag}"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("compare two systems", "own_captions.html"),
        ("worst captions", "own_captions.html"),
        ("clipscore", "metrics/clipscore.html"),
        ("my own metric", "new_metric.html"),
        ("latex table", "tables.html"),
    ],
)
def test_the_search_works_from_disk_and_finds_the_right_page_first(site, chromium, words, page):
    from playwright.sync_api import expect

    from tests.server.chromium import ChromiumPage

    opened = ChromiumPage(chromium, site.as_uri(), 1280)
    addresses: list[str] = []
    opened.page.on("request", lambda request: addresses.append(request.url))
    opened.open("/index.html")
    opened.page.fill(".md-search__input", words)
    first = opened.page.locator(".md-search-result__item a").first
    expect(first).to_have_attribute("href", re.compile(rf"/{page}(\?|$)"))
    assert all(re.match("file:|blob:null/|data:", address) for address in addresses)
    assert not opened.errors


def test_a_page_for_everything(pages):
    for folder, names in (
        ("metrics", metrics.metric_names()),
        ("datasets", datasets.names()),
        ("commands", [c.replace(" ", "_") for c in COMMANDS]),
    ):
        assert {f"{folder}/{name}.html" for name in [*names, "index"]} == {
            path for path in pages if path.startswith(f"{folder}/")
        }
        index = pages[f"{folder}/index.html"]
        assert all(f'href="{name}.html"' in index for name in names)
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in pages
        assert f'href="{page.stem}.html"' in pages["index.html"], "the menu lacks it"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_told_of_with_its_default(pages, command):
    page = pages[f"commands/{command.replace(' ', '_')}.html"]
    table = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    cells = [[bare(c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in table]
    rows = {row[0]: row[1:] for row in cells if len(row) == 3}
    for option in COMMANDS[command].declared():
        default, meaning = rows[option.key]
        assert default, option
        assert meaning, option


def test_pages_say_what_the_code_says(pages):
    bertscore = text_of(pages["metrics/bertscore.html"])
    assert "R = Σ_x w(x) max_y cos(x, y) / Σ_x w(x)" in bertscore
    assert "padding zero, ignore zero whether padding counts as a cosine of 0" in bertscore
    assert "cider|variant:d|sigma:6|df:none|backend:captau|captau:" in text_of(
        pages["metrics/cider.html"]
    )
    thumb = text_of(pages["datasets/thumb.html"])
    for fact in ("2,500", "-9 to 5", "kasai2022transparent", "captau data fetch dataset=thumb"):
        assert fact in thumb
    bench = text_of(pages["commands/bench.html"])
    assert "statistics.replicates 1000 the number of bootstrap samples" in bench
    train = text_of(pages["commands/train.html"])
    assert "rater.epochs 4000 600" in train
    # What another command's help explains is explained here as well.
    assert "protocol.k – the number of references" in train
    assert "make bench" in text_of(pages["quick_start.html"])


def test_the_reproduction_table_is_that_of_the_cells():
    cells = pd.read_csv(ROOT / "docs" / "reproduction.csv", dtype=str, keep_default_na=False)
    assert set(cells["paper"]) == set(group("paper"))
    script = refresh()
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert script["page_with"](page, cells) == page
    counts, _, _ = summarise(cells).partition(" differ: ")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{counts} differ" in " ".join(readme.split())


def test_the_page_state_of_the_art_is_current():
    """Made by `python scripts/published/state_of_the_art.py` from results/published/ and docs/reproduction.csv."""
    import runpy

    script = runpy.run_path(str(ROOT / "scripts" / "published" / "state_of_the_art.py"))
    page = (ROOT / "docs" / "state_of_the_art.md").read_text(encoding="utf-8")
    assert script["state_of_the_art"]() == page
    # Two papers that disagree are both shown; revisions of a dataset stand apart.
    assert re.search(r"\| BLEU-4 \|.*\| 16\.9 \| yes \|.*Sarto et al. 2023", page)
    assert re.search(r"\| BLEU-4 \|.*\| 16\.4 \| no: 16\.9 \| Hirano et al. 2025", page)
    assert {"## Nebula, revision 2024", "## Nebula, revision Spica"} <= set(page.splitlines())


def test_what_is_known_of_a_metric_in_print_agrees_with_its_numbers():
    facts = pd.read_csv(ROOT / "results" / "published" / "metrics.csv", dtype=str)
    assert facts["source"].notna().all()
    assert set(facts["references"]) == {"yes", "no", "unknown"}
    assert set(facts["training"]) == {"formula", "zero-shot", "supervised", "unknown"}
    training = {
        name: row["training"]
        for row in facts.to_dict("records")
        for name in row["printed_as"].split("|")
    }
    for paper in group("paper"):
        for number in read_numbers(paper):
            if number.training == Training.YES:
                assert training[number.row] == "supervised"
            if training[number.row] in ("formula", "zero-shot"):
                assert number.training == Training.NO


def test_a_comparison_is_kept_without_places_of_this_machine():
    comparison = pd.DataFrame(
        {
            "match": ["", "false"],
            "note": [
                "missing: metric umic needs the checkpoint 'a.pt': not in /home/x",
                "1 tie: a/b",
            ],
        }
    )
    kept = refresh()["kept"](comparison)["note"].tolist()
    assert kept == ["missing: metric umic needs the checkpoint 'a.pt'", "1 tie: a/b"]
    with pytest.raises(ValueError, match="one table of papers is expected, not 0"):
        refresh()["page_with"]("# No table\n", comparison)


def refresh():
    import runpy

    return runpy.run_path(str(ROOT / "scripts" / "published" / "refresh_reproduction.py"))


def test_make_targets_and_extras_that_docs_name_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.M))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    text = "\n".join(p.read_text(encoding="utf-8") for p in PAGES)
    told = set(re.findall(r"^make (\w+)|`make (\w+)`", text, re.M))
    named = {a or b for a, b in told}
    assert {"bench", "test"} <= named <= targets
    wanted = {
        extra.strip()
        for names in re.findall(r"pip install '(?:captau|\.)\[([^\]]+)\]", text)
        for extra in names.split(",")
    }
    assert {"neural", "report"} <= wanted <= set(extras)
