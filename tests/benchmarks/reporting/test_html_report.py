"""`captau report`: the page, what is embedded in it, and a browser that opens it (`benchmarks/reporting/html_report.py`)."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import captau
from captau.benchmarks.reporting.caption_browser import STEPS, UNDEFINED, percentiles, script_json
from captau.benchmarks.reporting.html_report import build, render_markdown
from captau.benchmarks.reporting.part_tables import CoefficientTable
from captau.benchmarks.reporting.run_parts import run_datasets
from captau.benchmarks.runs.finished_run import read_run
from tests.benchmarks.reporting.made_runs import ROWS, made_run, rewrite
from tests.benchmarks.reporting.report_pages import data_of, texts
from tests.conftest import AWKWARD, run_captau

#: What a page must not take for its own, and must show as it stands.
HOSTILE = [
    "</script><script>document.title = 'taken'</script>",
    '<img src=x onerror="document.title = `taken`">',
    "<!-- <script> & &amp; \u2028 ' \" \\",
    "כלב רץ בפארק עם ילד",
    "{{ 7 * 7 }} {% raw %}",
]
CAPTIONS = [*dict.fromkeys([*AWKWARD[1:], *HOSTILE])]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A finished run of the demo, with a page."""
    folder = tmp_path_factory.mktemp("report") / "run"
    protocol = {"coefficients": ["tau_c", "accuracy"]}
    captau.bench(
        "demo",
        ["bleu_1", "cider"],
        protocol=protocol,
        statistics={"replicates": 20},
        output_dir=folder,
    )
    assert run_captau("report", f"run={folder}") == 0
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A finished run with few charts."""
    folder = tmp_path_factory.mktemp("small") / "run"
    captau.bench(
        "demo",
        "cider",
        protocol={"coefficients": ["tau_c"]},
        statistics={"interval": "none"},
        output_dir=folder,
    )
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run over captions and names that would break a careless page."""
    folder = tmp_path_factory.mktemp("hostile")
    with (folder / "mine.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["image", "caption", "value", "references", "system"])
        for at, caption in enumerate(CAPTIONS):
            references = json.dumps([CAPTIONS[-at - 1]])
            rows.writerow([f"{at}<b>.jpg", caption, at % 5 + 1, references, "a <i>system</i>"])
    scores = pd.DataFrame({"image_id": [f"{at}<b>.jpg" for at in range(len(CAPTIONS))]})
    scores["caption"] = [captau.datasets.schema.replace_surrogates(c) for c in CAPTIONS]
    scores["score"] = np.arange(len(CAPTIONS))
    scores.to_parquet(folder / "scores.parquet")
    captau.bench(
        "file",
        ["bleu_1", f'file(path="{folder / "scores.parquet"}",name="</script><b>")'],
        file={"path": str(folder / "mine.csv"), "low": 1, "high": 5, "step": 1},
        statistics={"interval": "none"},
        output_dir=folder / "run",
    )
    assert run_captau("report", f"run={folder / 'run'}") == 0
    return folder / "run"


@pytest.fixture
def copy(small, tmp_path):
    return shutil.copytree(small, tmp_path / "run")


class Page(HTMLParser):
    """What a browser makes of a page, as far as it matters here."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem:
            self.scripts.append(data)
        self.texts.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def number_of(text):
    """Return the number of a cell, which has a minus where it is below zero."""
    return float(text.replace("−", "-"))


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_the_page_holds_the_runs_captions_ratings_and_scores(demo):
    (part,) = data_of(demo)
    set_, results = captau.load("demo"), pd.read_parquet(demo / "scores.parquet")
    assert part["items"]["caption"] == set_.items["caption"].tolist()
    references = [part["references"][i] for i in part["items"]["references"]]
    assert [tuple(r) for r in references] == set_.items["references"].tolist()
    values = set_.ratings.groupby("item_id", sort=False)["value"].apply(list)
    assert part["ratings"][0] == values.loc[set_.items["item_id"]].tolist()
    assert part["metrics"] == ["BLEU-1", "CIDEr"]
    scores = numbers(part["scores"], "<f4").reshape(2, -1)
    for row, metric in zip(scores, ("bleu_1", "cider"), strict=True):
        expected = results.loc[results["metric"] == metric, "score"].to_numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-6)
    assert len(part["pairs"]) == len(set_.preferences)
    ids = [
        part["images"][image] + rest[1:] if rest.startswith(" ") else rest
        for rest, image in zip(part["items"]["id"], part["items"]["image"], strict=True)
    ]
    assert ids == set_.items["item_id"].tolist()


def test_percentiles_by_hand(demo):
    """Of 3, 1, 2, 2: 3 has three below it and itself half, 3.5 of 4."""
    frame = pd.DataFrame({"a": [3.0, 1, 2, 2], "b": [np.nan, 5, 5, np.inf]})
    shares = percentiles(frame)
    assert shares["a"].tolist() == [3.5 / 4, 0.5 / 4, 2 / 4, 2 / 4]
    assert shares["b"].tolist()[1:] == [1 / 3, 1 / 3, 2.5 / 3]
    assert np.isnan(shares["b"][0])
    (part,) = data_of(demo)
    ranks = numbers(part["ranks"], "<u2").reshape(3, -1)
    results = pd.read_parquet(demo / "scores.parquet")
    expected = results.loc[results["metric"] == "cider", "score"].rank() - 0.5
    np.testing.assert_array_equal(ranks[1], np.round(expected / 360 * STEPS))
    assert UNDEFINED > STEPS


def test_the_page_can_load_and_run_nothing_but_its_own(demo, hostile):
    for folder in (demo, hostile):
        page = page_of(folder)
        text = (folder / "report.html").read_text(encoding="utf-8")
        data, script = page.of("script")
        assert data["type"] == "application/json"
        assert not script
        (policy,) = (m["content"] for m in page.of("meta") if m.get("http-equiv"))
        assert "default-src 'none'" in policy
        own = text.rpartition("<script>")[2].partition("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy
        for tag, attributes in page.tags:
            assert tag not in ("iframe", "object", "embed", "base"), tag
            for name, value in attributes.items():
                assert not name.startswith("on"), (tag, name)
                if name in ("src", "href", "xlink:href"):
                    assert (value or "").startswith(("#", "data:")), value
        assert "@import" not in text
        assert "url(http" not in text


def test_hostile_captions_and_names_stay_text(hostile):
    (part,) = data_of(hostile)
    assert part["items"]["caption"] == CAPTIONS
    page = page_of(hostile)
    assert len(page.of("script")) == 2
    assert not page.of("img")
    assert not page.of("b")
    assert "</script><b>" in page.texts
    assert "</script><b>" in part["metrics"]


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_text_breaks_out_of_a_script(value):
    text = script_json(value)
    text.encode()
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value
    page = Page(f'<script type="application/json">{text}</script><p>')
    assert [tag for tag, _ in page.tags] == ["script", "p"]
    assert "".join(page.scripts) == text


def test_two_pages_of_one_run_are_the_same_bytes(demo, tmp_path):
    again = shutil.copytree(demo, tmp_path / "again")
    assert build(again).content == (demo / "report.html").read_bytes()


def test_headings_landmarks_and_tables_for_those_who_hear_the_page(demo):
    page = page_of(demo)
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(page.of(landmark)) == 1, landmark
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert len(page.of("table")) == len(page.of("caption"))
    charts = [a for a in page.of("svg") if a.get("role") == "img"]
    assert len(charts) == len(page.of("figure")) > 9
    for attributes in [a for _, a in page.tags if "aria-labelledby" in a]:
        assert set(str(attributes["aria-labelledby"]).split()) <= set(ids)
    assert page.of("html") == [{"lang": "en"}]


def test_the_verdict_says_whether_the_lead_is_significant(tmp_path):
    """By hand from `made_runs.ROWS`: METEOR and CIDEr share rank 1 for τ_c; of the printed values, 41.2 − 40.0 is 1.2."""
    (part,) = run_datasets(read_run(made_run(tmp_path / "run", ROWS[:8])))
    assert (
        CoefficientTable(part)
        .verdict()
        .endswith("third of five, level with METEOR and CIDEr, 1.2 below METEOR.")
    )
    rows = [(*ROWS[0][:4], 0.3, 0.2, 0.4, 1, ""), (*ROWS[1][:4], 0.1, 0.0, 0.2, 2, "")]
    (part,) = run_datasets(read_run(made_run(tmp_path / "clear", rows)))
    assert CoefficientTable(part).verdict().endswith("(τ_c 30.0), significantly ahead of METEOR.")
    (part,) = run_datasets(read_run(made_run(tmp_path / "alone", rows[1:])))
    assert CoefficientTable(part).verdict().startswith("No metric agrees with people beyond chance")


def test_numbers_below_zero_have_a_minus_and_the_users_row_is_marked(tmp_path):
    """A hyphen is shorter than a minus; dates, versions and texts keep theirs."""
    rows = [(*ROWS[0][:4], 0.3, 0.2, 0.4, 1, ""), (*ROWS[4][:4], -0.1, -0.2, 0.1, 2, "")]
    run = made_run(tmp_path / "run", rows)
    page = build(run).content.decode()
    assert '<td class="n">−10.0</td><td class="n">−20.0 – 10.0</td>' in page
    assert not re.search(r"<td[^>]*>(<strong>)?-[\d.]", page)
    own = f'<th scope="row" dir="auto">{html.escape(ROWS[4][3])} <span class="yours">yours</span></th>'
    assert page.count(f'<tr class="own">{own}') == 1
    assert page.count('<tr class="own">') == 1

    table = render_markdown("| a | b |\n|:--|--:|\n| 2026-01-02 | -1.5 |\n| -x | 1e-05 |\n")
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table) == [
        "2026-01-02",
        "−1.5",
        "-x",
        "1e-05",
    ]


def test_run_details(demo):
    text = " ".join(page_of(demo).texts)
    record = json.loads((demo / "run.json").read_text())
    assert record["signatures"]["cider"] in text
    assert record["data"]["demo"]["digest"] in text
    assert "SYNTHETIC" in text
    assert record["versions"]["numpy"] in text
    assert "captau compare tests every two metrics" in text


def test_pictures_are_small_and_those_that_cannot_be_read_are_counted(copy, tmp_path, capsys):
    (part,) = data_of_build(copy, tmp_path)
    assert part["pictures"] == {}
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.effect_noise((640, 320), 90).save(folder / "demo_000.png")
    (folder / "demo_001.png").write_bytes(b"no picture")
    out = tmp_path / "with.html"
    assert run_captau("report", f"run={copy}", f"images={folder}", f"output={out}") == 0
    told = capsys.readouterr().out
    assert "1 of 2 pictures, 1 unreadable" in told
    assert "Pictures that could not be read: 1." in out.read_text(encoding="utf-8")
    (part,) = embedded(out)
    ((image, address),) = part["pictures"].items()
    assert part["images"][int(image)] == "demo_000.png"
    head, _, data = address.partition(",")
    assert head in ("data:image/webp;base64", "data:image/jpeg;base64")
    path = tmp_path / "small"
    path.write_bytes(base64.b64decode(data))
    assert Image.open(path).size == (128, 64)


def embedded(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.findall(r'id="data">(.*?)</script>', text, re.S)[0])


def data_of_build(folder, tmp_path):
    """The captions of a page made where the demo's own pictures are out of reach."""
    items = pd.read_parquet(folder / "items.parquet").assign(image=None)
    rewrite(folder, "items.parquet", items)
    report = build(folder)
    path = tmp_path / "none.html"
    path.write_bytes(report.content)
    assert report.embedded is not None
    assert report.embedded.n_found == 0
    return embedded(path)


def test_a_page_keeps_to_its_size_and_to_the_most_disputed_captions(copy, tmp_path):
    (full,) = data_of_build(copy, tmp_path)
    without = (tmp_path / "none.html").stat().st_size - len(script_json([full]).encode())
    limit = (without + 40_000) / 1e6
    report = build(copy, megabytes=limit)
    assert len(report.content) <= limit * 1e6
    assert report.embedded is not None
    assert 0 < report.embedded.n_shown < 360
    text = report.content.decode()
    assert f"room for {report.embedded.n_shown} of 360 captions" in text
    (part,) = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.S)[0])
    assert len(part["items"]["caption"]) == report.embedded.n_shown
    ranks = numbers(full["ranks"], "<u2").reshape(2, -1) / STEPS
    most = full["items"]["caption"][int((ranks.max(axis=0) - ranks.min(axis=0)).argmax())]
    assert most in part["items"]["caption"]


def test_a_run_without_items_has_a_page_without_captions(copy):
    (copy / "items.parquet").unlink()
    report = build(copy)
    text = report.content.decode()
    assert report.embedded is None
    assert "keeps no items and ratings" in text
    assert "CIDEr" in text
    assert 'id="data"' not in text


def test_a_run_of_another_command_has_its_tables(tmp_path):
    """Rows and cells are those of `table.md`, heads its titles, and what looks like HTML is text."""
    folder = tmp_path / "run"
    words = ["metrics=rouge_1", "statistics.replicates=20", f"output_dir={folder}"]
    assert run_captau("rank", *words) == 0
    page = build(folder).content.decode()
    printed = (folder / "table.md").read_text(encoding="utf-8")
    rows = [line[2:-1].split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    cells = [
        [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", page.split('id="tables"')[1], re.S)
    ]
    assert [[cell.strip() for cell in row] for row in rows] == cells[: len(rows)]
    titles = re.findall(r"^\*\*(.*)\*\*$", printed, re.M)
    assert titles
    assert titles == [
        html.unescape(t) for t in re.findall(r"<h3><strong>(.*?)</strong></h3>", page)
    ]
    assert "|:--" not in page
    # What the tables show stands at the top, as run.json has it.
    verdicts = json.loads((folder / "run.json").read_text(encoding="utf-8"))["verdicts"]
    assert verdicts
    header = html.unescape(page.partition("</header>")[0])
    for sentence in verdicts.values():
        assert f"{sentence}</p>" in header


def test_a_dataset_on_which_no_metric_could_be_computed_says_so_once(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "image,caption,value\n1.jpg,a dog,1\n1.jpg,a cat,2\n2.jpg,two men,5\n2.jpg,a man,3\n"
    )
    captau.bench(
        ["demo", "file"],
        ["bleu_1", "rouge_l"],
        file={"path": str(tmp_path / "mine.csv"), "low": 1, "high": 5},
        statistics={"interval": "none"},
        output_dir=tmp_path / "run",
    )
    assert run_captau("report", f"run={tmp_path / 'run'}") == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<h2 id="d2">') :]
    assert "4 captions, 4 ratings" in section
    assert section.count("BLEU-1 and ROUGE-L are missing: needs references") == 1
    assert "Filtering captions by a metric: no metric has scores here." in section
    assert "Coefficients with intervals: no metric has a value here." in section


def test_a_table_of_a_run_cannot_bring_html():
    page = render_markdown(
        "**a <b>**\n\n| <script>x</script> | b |\n|:--|--:|\n| <img src=x> | 1 |\n"
    )
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


@pytest.mark.slow
def test_faults(demo, copy, tmp_path, capsys, monkeypatch):
    def said(*words: str) -> str:
        assert run_captau("report", *words) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        return line

    monkeypatch.chdir(tmp_path)
    assert "there is no finished run in results/runs; name one with run=DIR" in said()
    assert "images=" in said(f"run={demo}", f"images={tmp_path / 'absent'}")
    assert "megabytes is 0.0" in said(f"run={demo}", "megabytes=0")
    (tmp_path / "page.html").mkdir()
    assert "cannot be written" in said(f"run={copy}", f"output={tmp_path / 'page.html'}")
    line = said(f"run={copy}", "megabytes=0.1")
    assert "charts" in line
    enough = re.search(r"megabytes=([\d.]+) or more", line)
    assert enough
    assert build(copy, megabytes=float(enough.group(1))).embedded
    (copy / "ratings.parquet").write_bytes(b"PAR1")
    assert "ratings.parquet is not as the run wrote it" in said(f"run={copy}")
    (copy / "run.json").write_text('{"command": "bench", "format": 0}')
    assert "another form" in said(f"run={copy}")
    assert not list(copy.glob("*.html"))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    line = said(f"run={demo}")
    assert "captau report needs jinja2: pip install 'captau[report]'" in line


# In a browser.


def test_a_browser_sorts_filters_and_opens_a_caption(looked_at, demo):
    page = looked_at(demo)
    heads = page.locator("#main table.data").first.locator("thead th")
    at = next(k for k, text in enumerate(heads.all_inner_texts()) if text.startswith("τ_c"))
    cells = f"section:first-of-type > .scroll:first-of-type tbody td:nth-child({at + 1})"
    button = heads.nth(at).locator("button")
    button.press("Enter")
    assert heads.nth(at).get_attribute("aria-sort") == "descending"
    # Two metrics and three rows of what people reach; the floors of preferences have no τ_c.
    values = [number_of(t) for t in texts(page, cells) if t]
    assert values == sorted(values, reverse=True)
    assert len(values) == 5
    button.press("Enter")
    assert heads.nth(at).get_attribute("aria-sort") == "ascending"
    assert [number_of(t) for t in texts(page, cells) if t] == sorted(values)

    # The table of all coefficients has rows enough for a filter.
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    coefficients = page.locator("//details[summary[.='All coefficients']]")
    coefficients.locator("input[type=search]").press_sequentially("CIDEr overall pearson")
    rows = coefficients.locator("tbody tr:not([hidden])")
    assert rows.count() == 1
    assert "cider" in rows.first.inner_text()

    # Captions: by how far CIDEr and people are apart, as pandas has it.
    page.select_option("#first", label="CIDEr")
    page.select_option("#second", label="people (overall)")
    assert texts(page, "#count") == ["360 of 360 captions"]
    set_ = captau.load("demo")
    scores = pd.read_parquet(demo / "scores.parquet")
    cider = scores[scores["metric"] == "cider"].set_index("item_id")["score"]
    people = set_.ratings.groupby("item_id")["value"].mean()
    share = percentiles(pd.DataFrame({"c": cider, "p": people}))
    apart = (share["c"] - share["p"]).abs()
    shown = texts(page, "#list button")
    assert len(shown) == 25
    captions = set_.items.set_index("item_id")["caption"]
    np.testing.assert_allclose(
        sorted(apart, reverse=True)[0], apart[captions == shown[0]].max(), atol=1e-3
    )
    page.press("#after", "Enter")
    assert texts(page, "#page") == ["page 2 of 15"]

    wanted = captions.iloc[0]
    page.locator("#search").press_sequentially(wanted)
    opener = page.locator("#list button").first
    page.wait_for_function(
        "wanted => document.querySelector('#list button')?.textContent.trim() === wanted",
        arg=wanted,
    )
    opener.press("Enter")
    dialog = page.locator("#caption")
    assert dialog.get_attribute("open") is not None
    said = dialog.inner_text()
    item = set_.items.iloc[0]
    assert item["item_id"] in said
    assert all(reference in said for reference in item["references"])
    assert f"{cider.iloc[0]:.4g}" in said
    assert dialog.locator("img").count()
    page.keyboard.press("Escape")
    assert dialog.get_attribute("open") is None
    assert opener.evaluate("e => e === document.activeElement")


def test_a_browser_shows_hostile_captions_as_they_stand(looked_at, hostile):
    page = looked_at(hostile)
    page.select_option("#order", label="as in the dataset")
    shown = page.evaluate("[...document.querySelectorAll('#list button')].map(b => b.textContent)")
    assert shown == CAPTIONS
    hebrew = page.locator("#list button").nth(CAPTIONS.index(HOSTILE[3]))
    assert hebrew.evaluate("e => getComputedStyle(e).direction") == "rtl"
    hebrew.press("Enter")
    assert page.locator("#caption-text").inner_text() == HOSTILE[3]
    page.click("#caption-close")
    assert "taken" not in page.title()
    assert page.locator("b, i").count() == 0


@pytest.fixture(scope="module")
def blamed(tmp_path_factory):
    """A finished run with a caption of HAT's shape, whose sofa people mark and CHAIR blames; with a page."""
    folder = tmp_path_factory.mktemp("blamed")
    rows = [
        {
            "caption": caption,
            "grounding": [[word, word == "couch"] for word in caption.split()],
            "contains_hallucination": "couch" in caption,
            "image_path": f"{number}.jpg",
            "references": ["A dog runs."],
        }
        for number, caption in enumerate(["a dog", " the dog on a  couch", "a cat"])
    ]
    (folder / "hat").mkdir()
    (folder / "hat" / "hat-trainval.json").write_text(json.dumps(rows))
    captau.bench("hat", ["chair_s", "bleu_1"], data_root=folder, output_dir=folder / "run")
    assert run_captau("report", f"run={folder / 'run'}") == 0
    return folder / "run"


def test_the_page_holds_the_words_that_are_blamed(blamed):
    (part,) = embedded(blamed / "report.html")
    assert part["blamed"] == {
        "1": [[4, "people", 1.0], [4, "CHAIRs", 1.0]],
        "2": [[1, "CHAIRs", 1.0]],
    }


def test_a_browser_marks_the_words_that_are_blamed(looked_at, blamed):
    page = looked_at(blamed)
    page.select_option("#order", label="as in the dataset")
    page.locator("#list button").nth(1).press("Enter")
    marks = page.locator("#caption-text mark")
    assert marks.all_inner_texts() == ["couch"]
    assert marks.first.get_attribute("title") == "people 1, CHAIRs 1"
    assert page.locator("#caption-text").evaluate("e => e.textContent") == " the dog on a  couch"
    said = page.locator("#caption").inner_text()
    assert "people: couch" in said
    assert "CHAIRs: couch" in said


def test_a_phone_needs_no_sideways_scrolling(looked_at, demo):
    page = looked_at(demo, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("width", [390, 1280])
def test_the_links_of_many_datasets_all_show(looked_at, demo, width):
    page = looked_at(demo, width=width)
    # As many links as a run of sixteen datasets has.
    page.evaluate("""() => {
        const list = document.querySelector("nav ul");
        for (let k = 0; k < 16; k++) list.append(list.firstElementChild.cloneNode(true));
    }""")
    ends = page.eval_on_selector_all(
        "nav a", "links => links.map(link => link.getBoundingClientRect().right)"
    )
    assert len(ends) == 19
    assert max(ends) <= width
