"""`captau table`: runs and published numbers as one table, to the letter in every style.

The golden files under `tests/golden/tables/` are what the made-up runs of `made_runs.py` give. After a
wanted change `CAPTAU_GOLDEN=write pytest tests/benchmarks/reporting/tables/test_joined_table.py` writes them anew; read the
difference before it is committed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
from decimal import Decimal
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from captau.benchmarks.evaluation.papers.published_numbers import (
    protocol_differences,
    select_numbers,
)
from captau.benchmarks.options.finished_runs import STYLES
from captau.benchmarks.reporting.tables.joined_table import join
from captau.benchmarks.reporting.tables.table_choices import TableChoices
from captau.benchmarks.reporting.tables.table_layouts import LAYOUTS
from captau.benchmarks.runs.finished_run import read_runs
from captau.benchmarks.runs.tables import MISSING, PrintedBy, ResultTable, Row
from captau.benchmarks.runs.terminal_table import rich_of
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.registry import card
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import ROWS, made_run, rewrite
from tests.conftest import run_captau, says

GOLDEN = Path(__file__).parents[3] / "golden" / "tables"
ENDINGS = {"markdown": "md", "latex": "tex", "html": "html", "csv": "csv", "json": "json"}
PAPERS = ("clipscore_2021", "umic_2021", "thumb_2022")
#: Name of a golden file, and what makes it.
GOLDENS = {
    "run": {},
    "plusminus": {"intervals": "plusminus", "label": "tab:a_b", "title": "100 % of <it>"},
    "published": {"intervals": "none", "published": PAPERS, "coefficients": ("tau_c", "pearson")},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("table") / "run")


@pytest.fixture
def captau(capsys):
    def call(*arguments):
        ended = run_captau(*arguments)
        out, err = capsys.readouterr()
        return ended, out, err

    return call


def table(*folders, notes="full", coefficients=("all",), **choices) -> ResultTable:
    return join(read_runs(folders), TableChoices(notes=notes, coefficients=coefficients, **choices))


def numbers(of: ResultTable) -> list[Row]:
    """Return the rows without the headings."""
    return [row for row in of.rows if row.cells]


def labels_by_kind(of: ResultTable) -> list[tuple[str, list[str]]]:
    """Return the labels of each group of rows."""
    return [
        (kind, [row.label for row in rows])
        for kind, rows in groupby(numbers(of), key=lambda row: row.kind)
    ]


def row(of: ResultTable, label: str, source: str = ""):
    (found,) = [r for r in numbers(of) if r.label == label and r.source.partition(" ")[0] == source]
    return found


def texts(of: ResultTable, label: str, source: str = ""):
    return [str(cell) or None for cell in row(of, label, source).cells]


@pytest.mark.parametrize("name", GOLDENS)
@pytest.mark.parametrize("style", STYLES)
def test_golden(run, name, style):
    made = LAYOUTS[style](table(run, **GOLDENS[name])).rstrip("\n") + "\n"
    path = GOLDEN / f"{name}.{ENDINGS[style]}"
    if os.environ.get("CAPTAU_GOLDEN") == "write":
        path.write_text(made, encoding="utf-8", newline="")
    assert made == path.read_bytes().decode()
    assert made.rstrip("\n") == LAYOUTS[style](table(run, **GOLDENS[name])).rstrip("\n")


def test_every_style_has_a_layout():
    assert set(LAYOUTS) == set(STYLES) == set(ENDINGS)


def test_rows_are_grouped_by_kind(run):
    made = table(run)
    assert labels_by_kind(made) == [
        ("reference-based", ["METEOR", "CIDEr", "BLEU-1"]),
        ("reference-free", ["CLIP-S"]),
        ("learned", ["UMIC"]),
        ("given", ["Mine <b>|*50%_"]),
        ("floors", ["random scores"]),
        ("ceilings", ["oracle (mean rating)"]),
    ]
    assert made.spans == [("Flickr8k-Expert", 2), ("THumB 1.0", 2)]
    assert [c.head for c in made.columns] == ["τ_c", "τ_b", "precision r", "total r"]


def test_best_and_second_as_printed(run):
    """METEOR's 0.41249 and CIDEr's 0.4118 are both 41.2; the ceiling's 70 and the floor stay out."""
    made = table(run, coefficients=("tau_c",))
    emphasis = {r.label: r.cells[0].emphasis for r in numbers(made)}
    assert {k for k, v in emphasis.items() if v == "best"} == {"METEOR", "CIDEr"}
    assert {k for k, v in emphasis.items() if v == "second"} == {"Mine <b>|*50%_"}


@settings(max_examples=30)
@given(values=st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_no_number_above_the_best(tmp_path_factory, values):
    rows = [
        ("thumb", "total", "pearson", f"Mine {i}", v, None, None, None, "")
        for i, v in enumerate(values)
    ]
    made = table(made_run(tmp_path_factory.mktemp("runs") / "run", rows))
    cells = made.cells
    shown = sorted({Decimal(c.text) for c in cells}, reverse=True)
    assert {Decimal(c.text) for c in cells if c.emphasis == "best"} == {shown[0]}
    assert {Decimal(c.text) for c in cells if c.emphasis == "second"} == set(shown[1:2])
    assert all(c.emphasis == "best" for c in cells if Decimal(c.text) == shown[0])


def test_a_single_metric_is_not_the_best(tmp_path):
    made = table(made_run(tmp_path / "run", ROWS[:1]))
    assert [c.emphasis for c in made.cells] == [""]
    assert "Bold" not in LAYOUTS["markdown"](made)


def test_missing_cells_say_why(run):
    made = table(run)
    reasons = dict(made.footnotes)
    marked = {
        (r.label, i): [reasons[m] for m in c.marks]
        for r in numbers(made)
        for i, c in enumerate(r.cells)
        if str(c) == MISSING
    }
    assert marked["CLIP-S", 0] == ["needs images, and a.jpg:1 has none"]
    assert marked["UMIC", 1] == ["undefined: all scores are equal"]
    assert marked["METEOR", 2] == ["not computed on THumB 1.0"]
    assert all(marked.values())
    assert texts(made, "oracle (mean rating)")[2:] == [None, None]
    # In the order of reading.
    assert [mark for mark, _ in made.footnotes] == list("abcd")


def test_intervals_and_ranks(run):
    first = row(table(run), "BLEU-1").cells[0]
    assert (first.text, first.low, first.high, first.reach) == ("30.0", "28.0", "32.0", "2.0")
    assert first.rank == 2
    assert row(table(run, intervals="none"), "BLEU-1").cells[0].low == ""
    assert "(percentile bootstrap over images, 500 replicates)" in LAYOUTS["csv"](
        table(run)
    ) + " ".join(table(run).notes)
    assert not any("interval" in note for note in table(run, intervals="none").notes)


def test_columns_as_asked_for(run):
    made = table(run, coefficients=("tau_b", "tau_c"))
    assert [c.coefficient for c in made.columns] == ["tau_b", "tau_c"]
    made = table(run, dimensions=("total", "overall"))
    assert [(c.dataset, c.dimension) for c in made.columns] == [
        ("flickr8k_expert", "overall"),
        ("flickr8k_expert", "overall"),
        ("thumb", "total"),
    ]


def test_notes_name_protocol_revision_signatures(run):
    made = table(run)
    assert (
        "Flickr8k-Expert, revision 0123456789ab: 1,234 items, 3,702 data points; protocol usual: "
        "each rating is a data point; candidates are scored against all references at once; corpus statistics (document "
        "frequencies) are taken over the dataset."
    ) in made.notes
    assert ("METEOR", "meteor|backend:made|made:1") in made.signatures
    assert made.notes[-1] == "Computed by captau 1.2.3."


def test_hashes_are_cut_on_paper(tmp_path):
    signature = f"meteor|weights:sha256-{'0a' * 32}|n:1"
    made = table(made_run(tmp_path / "run", ROWS[1:2], signatures={"meteor": signature}))
    assert made.signatures == (("METEOR", "meteor|weights:sha256-0a0a0a0a0a0a|n:1"),)
    assert signature in LAYOUTS["json"](made)


def test_published_numbers_stand_beside(run):
    """Hessel et al. 2021, Table 1, τ_c, and Sarto et al. 2023, τ_b; Lee et al. 2021 are under another protocol."""
    papers = (*PAPERS, "pac_s_2023")
    made = table(run, published=papers, coefficients=("tau_c", "tau_b"))
    assert texts(made, "SPICE", "Hessel") == ["44.9", "51.7"]
    reasons = dict(made.footnotes)
    (mark,) = row(made, "SPICE", "Hessel").cells[1].marks
    assert reasons[mark] == "as printed by Sarto et al. 2023"
    # UMIC takes no references, so that it does not matter how Lee et al. 2021 use them.
    (mark,) = row(made, "UMIC_C", "Lee").cells[0].marks
    assert reasons[mark] == "as printed by Lee et al. 2021"
    # 0.300 is 30.0, with the digits that the paper printed.
    made_of_lee = table(run, published=("umic_2021",), coefficients=("tau_c",))
    assert texts(made_of_lee, "ROUGE-L", "Lee") == ["30.0"]
    # TIGEr is in no kind of ours.
    assert "TIGEr" in {r.label for r in numbers(made) if r.kind == "published"}


def test_a_published_metric_has_one_row(run):
    """Five papers print BLEU-4's τ_c, Lee et al. 2021 and Scott et al. 2023 under another protocol: 28.6 and 31.6."""
    papers = ("iicr_2023", "umic_2021", "pac_s_2023", "clipscore_2021")
    made = table(run, published=papers, coefficients=("tau_c",), dimensions=("overall",))
    labels = [r.label for r in numbers(made)]
    assert len(labels) == len(set(labels))
    assert texts(made, "BLEU-4", "Hessel") == ["30.8"]
    # The run's own numbers stand alone: 30.0 and 41.2, of which papers print 32.3 and 41.8.
    assert texts(made, "BLEU-1") == ["30.0"]
    (left_out,) = [note for note in made.notes if note.startswith("Left out, since a metric has")]
    papers_left_out = left_out.partition(" numbers of ")[2].removesuffix(".").split("; ")
    rows = {
        text.partition(" (")[0]: text.partition(" (")[2].split(", ") for text in papers_left_out
    }
    assert {"BLEU-1", "BLEU-4", "METEOR"} <= {name.rstrip(")") for name in rows["Lee et al. 2021"]}
    assert "BLEU-1" in rows["Hessel et al. 2021"]
    assert "BLEU-4" not in rows["Hessel et al. 2021"]
    # ROUGE stands in Scott et al. 2023 for ROUGE-L.
    assert "ROUGE-L" in rows["Scott et al. 2023"]


def test_of_the_papers_that_print_a_number_the_rows_own_protocol_comes_first(tmp_path):
    """Lee et al. 2021 print 27.4 for BLEU-1 with `mean_over_single`, Hessel et al. 2021 32.3 with all references."""
    papers = ("clipscore_2021", "umic_2021", "iicr_2023")
    rows = [("flickr8k_expert", "overall", "tau_c", "cider", 0.4, 0.3, 0.5, 1, "")]
    usual = table(made_run(tmp_path / "usual", rows), published=papers)
    assert texts(usual, "BLEU-1", "Hessel") == ["32.3"]
    single = {"references": "mean_over_single"}
    theirs = table(made_run(tmp_path / "theirs", rows, protocol=single), published=papers)
    assert texts(theirs, "BLEU-1", "Lee") == ["27.4"]
    # Under neither paper's protocol, the number of the dataset's usual one counts.
    other = {"references": "max_over_single", "split": "test"}
    neither = table(made_run(tmp_path / "neither", rows, protocol=other), published=papers)
    assert texts(neither, "BLEU-1", "Hessel") == ["32.3"]


def test_scott_s_rows_have_the_names_that_readers_know(run):
    made = table(run, published=("iicr_2023",), coefficients=("tau_c",), dimensions=("overall",))
    labels = {r.label for r in numbers(made) if r.source}
    assert {"VSE++", "ViLBERT alignment", "ICR (Flickr8k)", "ICR (CocoG)"} <= labels
    assert not labels & {"VSEPP", "VBAalignment", "Model Flickr8k", "Model cocoG"}


def test_the_title_names_no_dataset_without_a_number(tmp_path):
    rows = [
        ("flickr8k_expert", "overall", "tau_c", "cider", 0.4, 0.3, 0.5, 1, ""),
        ("thumb", "total", "pearson", "cider", math.nan, math.nan, math.nan, 1, "x"),
    ]
    title = table(made_run(tmp_path / "run", rows)).title
    assert title.endswith(": Flickr8k-Expert")


def test_a_terminal_names_the_papers_and_leaves_the_rest_to_full_notes(run):
    made = table(run, published=PAPERS, coefficients=("tau_c",), dimensions=("overall",))
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(rich_of(made.without_details(), 80))
    shown = " ".join(console.export_text().split())

    sources = {text.source for _, text in made.footnotes if isinstance(text, PrintedBy)}
    assert len(sources) == 2
    for source in sources:
        assert shown.count(source) in (1, 2)
    assert "† printed by ᵃ " in shown
    # Files and full notes have both lists.
    for words in ("The same numbers are printed by", "Left out, since a metric has one number"):
        assert words in LAYOUTS["markdown"](made)
        assert words not in shown


def test_published_numbers_compete_where_they_may(run):
    """BERT-S++'s .467 is of another protocol; RefCLIP-S wins."""
    made = table(run, published=PAPERS, coefficients=("tau_c",), dimensions=("overall",))
    emphasis = {(r.label, r.source): r.cells[0].emphasis for r in numbers(made) if r.cells[0]}
    assert emphasis["RefCLIP-S", "Hessel et al. 2021"] == "best"
    assert emphasis["CLIP-S (no refs)", "Hessel et al. 2021"] == "second"
    assert not any(v for (_, source), v in emphasis.items() if source.startswith("Lee"))
    assert emphasis["METEOR", ""] == ""


def test_printed_rows_are_told_from_computed_ones_on_a_terminal(run):
    """Rows without colours have a dagger, which a note explains; the group of the others says that it holds others alone."""
    made = table(run, published=("thumb_2022", "clipscore_2021"))
    console = Console(file=io.StringIO(), width=100)
    console.print(rich_of(made, 100))
    lines = console.file.getvalue().splitlines()
    assert any(line.strip() == "† as printed by papers, not computed by captau." for line in lines)
    marked = {line.split("†")[0].strip("│ ") for line in lines if "†" in line}
    assert {"SPICE", "RefCLIP-S", "TIGEr", "BLEU-4 (sacreBLEU)"} <= marked
    assert not marked & {"METEOR", "CIDEr", "BLEU-1"}
    assert any("other metrics, as" in line for line in lines)
    assert "†" not in LAYOUTS["markdown"](made)


def test_of_a_papers_columns_the_nearest_protocol_counts():
    """Kasai et al. 2022, Table 4, CIDEr's P: .27 without Human, .21 with."""
    usual = Protocol.resolve("thumb", usual_protocol("thumb"), {})
    wanted = [("precision", "pearson")]

    def cider(here):
        (one,) = [
            p for p in select_numbers("thumb_2022", "thumb", wanted, here) if p.row == "CIDEr"
        ]
        return one.text, protocol_differences(one.protocol, here)

    assert cider(usual) == ("21", [])
    without = {"systems": ["VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down"]}
    assert cider(Protocol.resolve("thumb", usual_protocol("thumb"), without)) == ("27", [])


def test_numbers_of_other_draws_say_so_and_do_not_compete(tmp_path):
    """Hessel et al. 2021, Table 4, averages five draws of references; a protocol cannot say that."""
    columns = [("pascal50s", f"{c}", "accuracy") for c in ("HC", "HI")]
    rows = [(*c, "bleu_4", 0.6, 0.5, 0.7, 1, "") for c in columns]
    made = table(made_run(tmp_path / "run", rows), published=("clipscore_2021",))
    theirs = row(made, "CIDEr", "Hessel")
    assert all(cell is None or cell.emphasis == "" for cell in theirs.cells)
    (mark,) = theirs.cells[0].marks
    assert "averages 5 random draws" in dict(made.footnotes)[mark]


NEBULA = [("nebula", "overall", "tau_c", "cider", 0.4806, 0.46, 0.5, 1, "")]


def test_numbers_of_another_revision_of_a_dataset_are_refused_with_the_reason(tmp_path):
    """Hirano et al. 2025 print 48.8 for CIDEr on corrected scores of Nebula; on the first ones it has 48.1."""
    papers = ("pearl_2025", "deneb_2024")
    made = table(made_run(tmp_path / "run", NEBULA, revision="2024"), published=papers)
    assert {r.source for r in numbers(made)} == {"", "Matsuda et al. 2024"}
    (refusal,) = [note for note in made.notes if note.startswith("Left out are numbers on other")]
    assert refusal == (
        "Left out are numbers on other judgements of Nebula (Spica) than those here (2024): Hirano et al. 2025 (8)."
    )
    spica = table(made_run(tmp_path / "other", NEBULA, revision="Spica"), published=papers)
    assert texts(spica, "METEOR", "Hirano") == ["47.6"]
    assert "(2024) than those here (Spica): Matsuda et al. 2024 (2)." in " ".join(spica.notes)


def test_numbers_of_papers_on_the_scores_that_captau_reads_stand_beside_its_own(tmp_path):
    """Kim et al. 2025 print 54.9 on the test split that they publish, which captau reads; Hirano et al. 2025 use later scores."""
    revision = card("nebula").revision
    run = made_run(tmp_path / "run", NEBULA, revision=revision)
    made = table(run, published=("expert_2025", "deneb_2024", "pearl_2025"))
    assert texts(made, "EXPERT", "Kim") == ["54.9"]
    assert texts(made, "RefPAC-S", "Matsuda") == ["50.6"]
    (refusal,) = [note for note in made.notes if "judgements" in note]
    assert refusal.endswith("than those here (2024): Hirano et al. 2025 (8).")
    assert revision not in " ".join(made.notes)


def test_of_papers_that_disagree_under_one_protocol_the_first_counts(tmp_path):
    """Of BLEU-4 on Flickr8k-CF Sarto et al. 2023 print 16.9 and Hirano et al. 2025 16.4."""
    rows = [("flickr8k_cf", "overall", "tau_b", "cider", 0.1706, 0.16, 0.17, 1, "")]
    made = table(made_run(tmp_path / "run", rows), published=("pearl_2025", "pac_s_2023"))
    assert texts(made, "BLEU-4", "Sarto") == ["16.9"]
    (left_out,) = [note for note in made.notes if note.startswith("Left out")]
    assert "Hirano et al. 2025 (BLEU-4" in left_out


def test_papers_that_print_the_computed_number_are_named(tmp_path):
    """16.86 is Sarto et al.'s 16.9, and not Hirano et al.'s 16.4."""
    rows = [("flickr8k_cf", "overall", "tau_b", "bleu_4", 0.1686, 0.16, 0.17, 1, "")]
    made = table(made_run(tmp_path / "run", rows), published=("pac_s_2023", "pearl_2025"))
    assert [r.source for r in made.rows if r.label == "BLEU-4"] == [""]
    assert any("printed by Sarto et al. 2023 (BLEU-4" in note for note in made.notes)
    assert any("numbers of Hirano et al. 2025 (BLEU-4" in note for note in made.notes)


def test_papers_that_print_the_same_number_share_a_row(run):
    """CLIPScore 2021 and Polos 2025 print 44.9 for SPICE on Flickr8k-Expert, τ_c."""
    papers = ("clipscore_2021", "pearl_2025", "umic_2021")
    made = table(run, published=papers, coefficients=("tau_c",), rows=("spice",))
    (only,) = numbers(made)
    assert (only.source, only.cells[0].text) == ("Hessel et al. 2021", "44.9")
    assert "The same numbers are printed by Hirano et al. 2025 (SPICE)." in made.notes
    assert any("numbers of Lee et al. 2021 (SPICE)" in note for note in made.notes)


def test_the_best_row_of_a_named_group_comes_first(run):
    """By hand: METEOR 41.249, CIDEr 41.18, BLEU-1 30.04; the field's order begins with BLEU-1."""
    made = table(run, rows=("given", "reference-based"))
    assert labels_by_kind(made)[1] == ("reference-based", ["METEOR", "CIDEr", "BLEU-1"])
    # Metrics that are named stand as they are named.
    named = table(run, rows=("bleu_1", "reference-based"))
    assert [r.label for r in numbers(named)] == ["BLEU-1", "METEOR", "CIDEr"]


def test_rows_are_chosen_ordered_and_named(run):
    made = table(
        run,
        rows=("ceilings", "CIDEr", "bleu_1", "umic"),
        names={"cider": "CIDEr-D", "oracle (mean rating)": "people"},
    )
    assert labels_by_kind(made) == [
        ("ceilings", ["people"]),
        ("reference-based", ["CIDEr-D", "BLEU-1"]),
        ("learned", ["UMIC"]),
    ]
    assert [label for label, _ in made.signatures] == ["CIDEr-D", "BLEU-1", "UMIC"]
    # The best of the rows that are shown is bold.
    assert [r.cells[0].emphasis for r in numbers(made)[1:3]] == ["best", "second"]


@pytest.mark.parametrize(
    ("sort", "labels"),
    [
        ((), ["METEOR", "CIDEr", "BLEU-1"]),
        (("tau_c",), ["METEOR", "CIDEr", "BLEU-1"]),
        (("thumb", "precision"), ["CIDEr", "BLEU-1", "METEOR"]),
    ],
)
def test_rows_are_sorted_within_their_groups(run, sort, labels):
    made = table(run, sort=sort)
    groups = labels_by_kind(made)
    assert [kind for kind, _ in groups] == [kind for kind, _ in labels_by_kind(table(run))]
    assert groups[0][1] == labels


def test_own_rows_are_marked(run):
    labels = {r.label for r in numbers(table(run, own=("umic", "cider")))}
    assert {label for label in labels if label.endswith(" (ours)")} == {
        "UMIC (ours)",
        "CIDEr (ours)",
    }
    named = table(run, names={"umic": "Ours"}, own=("umic",))
    assert texts(named, "Ours") == texts(table(run), "UMIC")


def test_notes_are_brief_full_or_none(run):
    full, brief, none = (table(run, notes=n) for n in ("full", "brief", "none"))
    assert set(brief.notes) < set(full.notes)
    assert any("protocol usual" in note for note in brief.notes)
    assert not any("Computed by" in note for note in brief.notes)
    assert (brief.signatures, none.signatures, none.notes, none.footnotes) == ((), (), [], ())
    for style, layout in LAYOUTS.items():
        if style not in ("json", "csv"):
            assert "Bold" in layout(brief)
            assert "Bold" not in layout(none)
    assert "minipage" not in LAYOUTS["latex"](none)


def test_table_and_appendix_do_not_share_a_file(run, captau, tmp_path):
    file = tmp_path / "t.md"
    status, _, err = captau("table", f"run={run}", f"output={file}", f"appendix={file}")
    assert (status, "this is the file of output=" in err, file.exists()) == (2, True, False)


@pytest.mark.parametrize("name", ["appendix.tex", "appendix.md"])
def test_signatures_go_to_an_appendix(run, captau, tmp_path, name):
    status, out, _ = captau("table", f"run={run}", f"appendix={tmp_path / name}", "notes=none")
    assert (status, "Signatures" in out) == (0, False)
    text = (tmp_path / name).read_text()
    is_latex = name.endswith("tex")
    assert (r"METEOR: meteor\textbar\allowbreak{}" if is_latex else "METEOR: `meteor|") in text
    assert "Computed by captau 1.2.3." in text


def test_nothing_published_fits(tmp_path):
    folder = made_run(tmp_path / "run", [r for r in ROWS if r[0] == "thumb"])
    made = table(folder, published=("clipscore_2021",))
    assert "No published number is of these datasets and coefficients." in made.notes


def test_two_runs_join(run, tmp_path):
    """The same metric stands once; another of its name has the run's name; clusters go where both meet."""
    other = made_run(
        tmp_path / "other",
        [
            ("flickr8k_expert", "overall", "tau_c", "cider", 0.99, 0.9, 1.0, 1, ""),
            ("flickr8k_expert", "overall", "tau_c", "spice", 0.45, 0.44, 0.46, 1, ""),
            ("flickr8k_expert", "overall", "tau_c", "meteor", 0.43, 0.42, 0.44, 2, ""),
        ],
        signatures={"cider": "cider|backend:made|made:1", "meteor": "meteor|made:2"},
        statistics={"replicates": 900},
    )
    made = table(run, other, coefficients=("tau_c", "tau_b"))
    assert texts(made, "CIDEr") == ["41.2", "42.0"]
    assert texts(made, "METEOR") == ["41.2", "40.0"]
    assert texts(made, "METEOR (other)") == ["43.0", MISSING]
    assert texts(made, "SPICE") == ["45.0", MISSING]
    ranks = {r.label: [c.rank if c else None for c in r.cells] for r in numbers(made)}
    assert ranks["SPICE"] == [None, None]
    assert ranks["CIDEr"] == [None, 1]
    assert any(note.startswith("No clusters where") for note in made.notes)
    assert any("900 replicates) (other)" in note for note in made.notes)


def test_two_protocols_are_two_columns(run, tmp_path):
    other = made_run(tmp_path / "other", ROWS[:3], protocol={"references": "mean_over_single"})
    made = table(run, other, coefficients=("tau_c",))
    assert [c.over for c in made.columns] == [
        "Flickr8k-Expert, references all",
        "Flickr8k-Expert, references mean_over_single",
    ]
    # The first run's ranks stay: nobody joined its column.
    assert row(made, "BLEU-1").cells[0].rank == 2


def test_a_synthetic_dataset_is_called_so(tmp_path):
    rows = [("demo", "overall", "tau_c", "cider", 0.3, None, None, None, "")]
    made = table(made_run(tmp_path / "run", rows))
    assert made.columns[0].over == "Demo (synthetic)"
    assert made.notes[0].startswith("SYNTHETIC")


def test_a_reproduced_paper_is_a_run_too(tmp_path):
    """Its run.json has protocols by table, and no styles."""
    folder = made_run(tmp_path / "run", ROWS[:3], command="reproduce")
    with edited_record(folder) as record:
        record["protocols"] = {"clipscore_2021 Table 1": record["protocols"]["flickr8k_expert"]}
        del record["metrics"], record["floors"], record["ceilings"]
    (folder / "ranks.csv").unlink()
    made = table(folder)
    assert labels_by_kind(made) == [("reference-based", ["BLEU-1", "METEOR", "CIDEr"])]
    assert row(made, "CIDEr").cells[0].rank is None


class Outline(HTMLParser):
    """Whether tags close, and the table's cells."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1] += [""] * int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.cells and {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data


def test_html_is_whole_and_escaped(run):
    made = Outline()
    made.feed(LAYOUTS["html"](table(run, published=PAPERS)))
    assert made.open == []
    assert not made.tags & {"b", "script", "link", "img"}
    width = len(made.cells[0])
    assert [len(cells) for cells in made.cells] == [
        width if i != 1 else width - 1 for i in range(len(made.cells))
    ]
    assert any(cells[0] == "Mine <b>|*50%_" for cells in made.cells)


def test_markdown_has_as_many_cells_in_each_row(run):
    lines = LAYOUTS["markdown"](table(run, published=PAPERS)).splitlines()
    rows = [re.sub(r"\\.", "", line) for line in lines if line.startswith("|")]
    assert {line.count("|") for line in rows} == {6}


def test_csv_reads_back(run):
    head, *rows = csv.reader(io.StringIO(LAYOUTS["csv"](table(run))))
    frame = pd.DataFrame(rows, columns=pd.Index(head)).set_index("metric")
    assert frame.loc["CIDEr", "Flickr8k-Expert τ_c"] == "41.2"
    assert frame.loc["CIDEr", "Flickr8k-Expert τ_c low"] == "39.5"
    assert frame.loc["CIDEr", "Flickr8k-Expert τ_c rank"] == "1"
    assert frame.loc["CLIP-S", "notes"].startswith("needs images")
    assert "THumB 1.0 total r low" not in frame.columns
    assert "Flickr8k-Expert τ_c ±" in LAYOUTS["csv"](table(run, intervals="plusminus"))


def test_json_has_values_in_full(run):
    made = json.loads(LAYOUTS["json"](table(run)))
    (meteor,) = [r for r in made["groups"][0]["rows"] if r["label"] == "METEOR"]
    assert meteor["cells"][0]["value"] == 0.41249
    assert meteor["cells"][2]["value"] is None
    assert meteor["cells"][2]["marks"] == ["not computed on THumB 1.0"]
    assert made["columns"][0]["protocol"]["ratings"] == "per_rating"
    assert math.isnan(row(table(run), "METEOR").cells[2].value)


def packages(text: str) -> list[str]:
    return re.findall(r"^% (\\usepackage\{\w+\})$", text, re.MULTILINE)


@pytest.mark.parametrize("name", GOLDENS)
def test_latex_compiles(run, tmp_path, name):
    """With the packages that it names, where TeX is at hand; its columns are counted anyway."""
    text = LAYOUTS["latex"](table(run, **GOLDENS[name]))
    assert len(packages(text)) == (3 if "published" in GOLDENS[name] else 2)
    rows = [line for line in text.splitlines() if line.endswith(r" \\") and "multicol" not in line]
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in rows}) == 1
    needed = [name.split("{")[1][:-1] + ".sty" for name in packages(text)]
    if shutil.which("pdflatex") is None or not all(
        subprocess.run(["kpsewhich", file], capture_output=True).stdout for file in needed
    ):
        return  # no TeX here, or a small one
    source = tmp_path / "table.tex"
    lines = [r"\documentclass{article}", *packages(text), r"\begin{document}", text]
    source.write_text("\n".join([*lines, r"\end{document}"]), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout
    assert (tmp_path / "table.pdf").stat().st_size > 0


def test_command(run, captau, tmp_path):
    status, out, err = captau("table", f"run={run}")
    assert (status, err) == (0, "")
    assert out == LAYOUTS["markdown"](table(run, notes="brief", coefficients=())) + "\n"
    target = tmp_path / "a table, mine.tex"
    status, out, _ = captau(
        "table", f"run=[{run}]", "style=latex", f"output={target}", "title=Ours, and theirs = 1"
    )
    assert status == 0
    assert "written to" in out
    expected = table(run, title="Ours, and theirs = 1", notes="brief", coefficients=())
    assert target.read_text() == LAYOUTS["latex"](expected) + "\n"
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_every_paper(run, captau):
    status, out, _ = captau("table", f"run={run}", "published=all", "style=csv", "intervals=none")
    assert status == 0
    assert "Sarto et al. 2023" in out


FAULTS = [
    (["run=absent"], ["absent", "is not a folder"]),
    ([], ["no finished run", "run=DIR"]),
    (["run=[]"], ["run= is empty"]),
    (["run=RUN", "style=word"], ["unknown style 'word'", "latex"]),
    (["run=RUN", "intervals=bars"], ["unknown value of intervals", "plusminus"]),
    (["run=RUN", "published=hessel_2021"], ["unknown paper 'hessel_2021'", "clipscore_2021"]),
    (["run=RUN", "published=[{a:1}]"], ["published is", "list of names"]),
    (["run=RUN", "coefficients=spearman"], ["unknown coefficient", "'spearman'", "tau_b"]),
    (["run=RUN", "dimensions=[recall]"], ["unknown dimension", "'recall'", "overall"]),
    (
        ["run=RUN", "dimensions=[total]", "coefficients=[tau_c]"],
        ["no column has both", "dimensions="],
    ),
    (["run=RUN", "rows=chair"], ["unknown row of rows 'chair'", "meteor"]),
    (["run=RUN", "names={chair: x}"], ["unknown row of names 'chair'"]),
    (
        ["run=RUN", "names={cider: X, meteor: X}"],
        ["names: the rows meteor and cider", "would both be called 'X'"],
    ),
    (["run=RUN", "names=x"], ["names is 'x'", "labels by metric"]),
    (["run=RUN", "own=chair"], ["unknown row of own 'chair'"]),
    (["run=RUN", "sort=recall"], ["sort=recall", "tau_c"]),
    (["run=RUN", "notes=long"], ["unknown notes 'long'", "brief"]),
    (["run=RUN", "style=latex", "label=t:a}"], ["label=t:a}", "in a label"]),
    (["run=RUN", "output=RUN"], ["cannot be written", "name another file"]),
    (["run=RUN", "styles=latex"], ["unknown option of captau table", "style"]),
]


@pytest.mark.parametrize(("arguments", "said"), FAULTS)
def test_faults_are_one_line(run, captau, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the last run is looked for in the current folder
    status, out, err = captau("table", *(a.replace("RUN", str(run)) for a in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("captau: ")
    assert err.count("\n") == 1
    for part in said:
        assert part in err


def test_unfinished_other_version_other_data(run, captau, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    with edited_record(copy) as record:
        record["data"]["thumb"]["digest"] = "another"
    assert captau("table", f"run=[{run},{copy}]")[0] == 2
    with says(str(copy), "different data", "thumb"):
        table(run, copy)
    (copy / "run.json").write_text(json.dumps({**record, "format": 0}))
    with says(str(copy), "another form", "again"):
        table(copy)
    (copy / "run.json").unlink()
    with says(str(copy), "unfinished"):
        table(copy)


def test_rows_that_run_json_does_not_know(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    frame = pd.read_csv(copy / "correlations.csv")
    rewrite(copy, "correlations.csv", frame.assign(dataset="polaris", protocol="x"))
    with says(str(copy), "polaris", "again"):
        table(copy)


def test_no_correlations(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    frame = pd.read_csv(copy / "correlations.csv")
    rewrite(copy, "correlations.csv", frame.iloc[:0])
    with says(str(copy), "no correlations"):
        table(copy)


def test_ranks_name_the_test_that_decides_them(tmp_path, captau):
    """Soft pairwise accuracy has a permutation test alone, and τ_c the bootstrap."""
    rows = [
        ("thumb", "total", coefficient, metric, value, None, None, 1, "")
        for coefficient in ("tau_c", "soft_pairwise_accuracy")
        for metric, value in (("cider", 0.4), ("bleu_1", 0.3))
    ]
    chosen = {"coefficients": ["soft_pairwise_accuracy", "tau_c"], "level": "system"}
    folder = made_run(tmp_path / "run", rows, protocol=chosen)
    (both,) = [note for note in table(folder).notes if "ranks:" in note]
    assert "paired bootstrap over images" in both
    assert "permutation test of soft_pairwise_accuracy" in both
    (one,) = [note for note in table(folder, coefficients=()).notes if "ranks:" in note]
    assert "bootstrap" not in one
    assert "permutation test of soft_pairwise_accuracy" in one
    assert "permutation test of soft" in captau("cite", f"run={folder}")[1].replace("\\_", "_")
