"""Tables as they are printed: Markdown, LaTeX and CSV to the letter."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from captau.benchmarks.runs.tables import (
    MISSING,
    ResultTable,
    booktabs_table,
    csv_of,
    format_coefficient,
    format_number,
    format_p_value,
    frame_of,
    is_empty_column,
    latex_escape,
    latex_of,
    latex_row,
    markdown_of,
)
from captau.benchmarks.runs.terminal_table import rich_of

TABLE = ResultTable(
    title="Toy_set: 100 % agreement",
    corner="metric",
    columns=["τ_c", "a|b, c"],
    latex_columns=[r"$\tau_c$", "a"],
    rows=[("bleu_4", ["30.8", MISSING]), ('file(path=a|b,name="x")', ["-1.0", "±2"])],
    notes=["Scores ×100 & more.", "1 | 2."],
)

MARKDOWN = r"""**Toy_set: 100 % agreement**

| metric | τ_c | a\|b, c |
|:--|--:|--:|
| bleu_4 | 30.8 | – |
| file(path=a\|b,name="x") | -1.0 | ±2 |

Scores ×100 & more.

1 \| 2."""

LATEX = r"""\begin{table}
  \centering
  \caption{Toy\_set: 100 \% agreement}
  \begin{tabular}{lrr}
    \toprule
    metric & $\tau_c$ & a \\
    \midrule
    bleu\_4 & 30.8 & -- \\
    file(path=a\textbar{}b,name="x") & -1.0 & $\pm$2 \\
    \bottomrule
  \end{tabular}
  \par\footnotesize Scores $\times$100 \& more.
  \par\footnotesize 1 \textbar{} 2.
\end{table}"""

CSV = """# Toy_set: 100 % agreement
metric,τ_c,"a|b, c"
bleu_4,30.8,
"file(path=a|b,name=""x"")",-1.0,±2
"""

#: Everything that LaTeX takes for something else, and the letters of our own names and notes.
SPECIAL = r"\ & % $ # _ { } ~ ^ < > | τ κ ρ ± × → ≥ [x] `q' 50%"


def test_markdown() -> None:
    assert markdown_of(TABLE) == MARKDOWN


def test_no_tag_begins_in_markdown() -> None:
    table = ResultTable("t", "c", ["<b>"], [("<script>x|y", ["<0.001"])])
    assert r"| \<script>x\|y | <0.001 |" in markdown_of(table)
    assert r"| c | \<b> |" in markdown_of(table)


def test_markdown_of_texts_that_are_markdown_already() -> None:
    rows = [("*learned*", []), ("a", ["**1**", r"x\|y"])]
    table = ResultTable("t", "c", ["x", "y"], rows, notes=[r"\<i>"])
    lines = markdown_of(table, is_escaped=True).splitlines()
    assert lines[4:] == ["| *learned* | | |", r"| a | **1** | x\|y |", "", r"\<i>"]


def test_latex() -> None:
    assert latex_of(TABLE) == LATEX


def test_html_escapes_labels_cells_and_notes() -> None:
    table = ResultTable("A < B", "metric", ["x"], [("<i>", ["1 & 2"])], notes=["<script>"])
    assert table._repr_html_() == (
        '<table><caption style="text-align:left"><b>A &lt; B</b></caption>'
        '<thead><tr><th style="text-align:left">metric</th><th style="text-align:right">x</th></tr></thead>'
        '<tbody><tr><th style="text-align:left">&lt;i&gt;</th><td style="text-align:right">1 &amp; 2</td></tr></tbody>'
        "</table><p><small>&lt;script&gt;</small></p>"
    )


def test_csv() -> None:
    assert csv_of(TABLE) == CSV
    head, *rows = csv.reader(io.StringIO(CSV.split("\n", 1)[1]))
    assert head == ["metric", "τ_c", "a|b, c"]
    assert rows[1] == ['file(path=a|b,name="x")', "-1.0", "±2"]


def test_cells_of_text() -> None:
    table = ResultTable("T", "m", ["x"], [("[a]", ["1|2"]), ("* a", [MISSING])], numeric=False)
    assert markdown_of(table).splitlines()[3:] == ["|:--|:--|", r"| [a] | 1\|2 |", "| * a | – |"]
    latex = latex_of(table)
    assert r"\begin{tabular}{ll}" in latex
    # LaTeX reads \\ [a] and \\* as line breaks with an argument.
    assert "\n    {}[a] & 1\\textbar{}2 \\\\\n    {}* a & -- \\\\\n" in latex


def test_terminal() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(rich_of(TABLE))
    shown = console.export_text()
    for text in ("Toy_set", "τ_c", "bleu_4", "30.8", MISSING, "Scores ×100 & more.", "1 | 2."):
        assert text in shown


@pytest.mark.parametrize("width", [60, 40])
def test_a_narrow_terminal_folds_labels_and_keeps_numbers(width: int) -> None:
    label = "cider(df=/a/rather/long/path/to/document_frequencies.json)"
    heads = ["precision τ_c", "recall τ_c", "total τ_c"]
    table = ResultTable("T", "metric", heads, [(label, ["12.3", "-45.6", "100.0"])])
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(rich_of(table))
    shown = console.export_text()
    assert "…" not in shown
    for number_ in ("12.3", "-45.6", "100.0"):
        assert number_ in shown
    first = [line.split("│")[1].strip() for line in shown.splitlines() if line.count("│") == 5]
    assert "".join(first) == label
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", [79, 80, 81, 90, 119])
def test_words_of_heads_and_the_frame_stay_whole_at_80_columns(width: int) -> None:
    heads = ["τ_c", "τ_b", *(f"{d} acc. %" for d in ("colour", "relation", "object", "unrelated"))]
    rows = [(label, ["10.0"] * 7) for label in ("ROUGE-L", "oracle (mean rating)")]
    table = ResultTable("T", "metric", [*heads, "mean acc. %"], rows)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(rich_of(table, width))
    shown = console.export_text()
    assert {"unrelated", "relation", "ROUGE-L"} <= set(shown.split())
    _, *lines = shown.splitlines()
    assert {line[-1] for line in lines} <= set("┓┃┩│┘")


def shown_at(table: ResultTable, width: int) -> list[str]:
    """Return the lines that a terminal of a width shows."""
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(rich_of(table, width))
    return console.export_text().splitlines()


def test_a_note_of_a_column_that_has_no_room_is_not_shown() -> None:
    """Worked by hand: columns of 6, 4, 3 and 4 cells take 30 with 3 of frame each and 1 at the end, and 20 without."""
    rows = [("cider", ["10.0", "1.0", "1"])]
    notes = ["rank: ties share one.", "τ_c: by pairs."]
    table = ResultTable("T", "metric", ["τ_c", "±", "rank"], rows, notes=notes, spare=((1, 2),))
    assert shown_at(table, 30)[-2:] == notes
    assert {"metric", "τ_c", "±", "rank"} == set(shown_at(table, 20)[1].split())
    assert "│" in "".join(shown_at(table, 30))
    assert "│" not in "".join(shown_at(table, 29))
    below = " ".join(" ".join(shown_at(table, 19)[4:]).split())
    assert notes[0] not in below
    assert notes[1] in below
    assert "±, rank" in below


def test_groups_of_columns_go_in_their_order_as_far_as_needed() -> None:
    table = ResultTable(
        *("T", "m", ["total", "±", "recall", "±"], [("a", ["40.0", "1.0", "30.0", "2.0"])]),
        spare=((3,), (2,)),
    )
    heads = {width: shown_at(table, width)[1].split() for width in (33, 22, 21, 18, 17)}
    assert shown_at(table, 34)[2].split()[1::2] == heads[33] == heads[22]
    assert heads[22] == ["m", "total", "±", "recall", "±"]
    assert heads[21] == heads[18] == ["m", "total", "±", "recall"]
    assert heads[17] == ["m", "total", "±"]


def test_heads_are_shortened_before_the_frame_goes() -> None:
    """Worked by hand: columns of 1 and 8 cells take 16 with a frame, and 13 if the second has 5."""
    table = ResultTable(
        "T", "m", ["Expertly"], [("a", ["40.0"])], short_columns=["Ex."], file="style=csv"
    )
    heads = {width: shown_at(table, width)[2].split()[1::2] for width in (16, 15, 12)}
    assert heads == {16: ["m", "Expertly"], 15: ["m", "Ex."], 12: ["m", "Ex."]}
    assert shown_at(table, 11)[1].split() == ["m", "Ex."]


def test_columns_go_from_the_right_where_no_spare_one_is_named() -> None:
    """Worked by hand: 1 cell of label and three columns of 4 take 16 without a frame, and two take 11."""
    table = ResultTable(
        "T", "m", ["1", "2", "3"], [("a", ["40.0", "30.0", "20.0"])], file="style=csv"
    )
    assert shown_at(table, 16)[1].split() == ["m", "1", "2", "3"]
    lines = shown_at(table, 15)
    assert lines[1].split() == ["m", "1", "2"]
    assert "too narrow for 3:" in " ".join(" ".join(lines).split())


def test_heads_fold_after_hyphens_and_underscores() -> None:
    table = ResultTable("T", "by", ["VinVL-large", "wrong_colour"], [("a", ["1", "2"])])
    lines = [line.replace("┃", " ").split() for line in shown_at(table, 24)[2:4]]
    assert lines == [["VinVL-", "wrong_"], ["by", "large", "colour"]]


def test_the_verdict_stands_between_the_rows_and_the_notes() -> None:
    note = "A note that is longer than the table and no wider than the terminal."
    table = ResultTable("T", "m", ["x"], [("a", ["1"])], notes=[note], verdict="a is best.")
    assert shown_at(table, 80)[-2:] == ["a is best.", note]
    assert markdown_of(table).endswith(f"| a | 1 |\n\na is best.\n\n{note}")
    assert latex_of(table).index("a is best.") < latex_of(table).index(note)
    assert f"a is best.<br>{note}" in table._repr_html_()


def test_a_mark_on_your_own_metric_for_people_and_not_in_csv() -> None:
    table = ResultTable(
        "T", "metric", ["x"], [("a", ["1"]), ("b", ["2"])], own_labels=frozenset("a")
    )
    for text in (markdown_of(table), latex_of(table), table._repr_html_()):
        assert "a *" in text
        assert "b *" not in text
        assert "* your own metric." in text
    assert csv_of(table) == "# T\nmetric,x\na,1\nb,2\n"
    assert list(frame_of(table).index) == ["a", "b"]


def test_brackets_are_no_markup_in_the_terminal() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    table = ResultTable("T [a]", "[b]", ["[c]"], [("[/d]", ["[bold]1"])], [], ["dimension=[wit]"])
    console.print(rich_of(table))
    shown = console.export_text()
    for text in ("T [a]", "[b]", "[c]", "[/d]", "[bold]1", "dimension=[wit]"):
        assert text in shown


def test_without_notes_and_latex_heads() -> None:
    table = ResultTable("T", "m", ["x_y"], [("a", ["1"])])
    assert markdown_of(table) == "**T**\n\n| m | x_y |\n|:--|--:|\n| a | 1 |"
    assert r"    m & x\_y \\" in latex_of(table).splitlines()
    assert "footnotesize" not in latex_of(table)


@pytest.mark.parametrize(
    ("value", "scale", "decimals", "text"),
    [
        (0.5115, 100, 1, "51.1"),  # 0.5115 * 100 is 51.15 less a little
        (0.51151, 100, 1, "51.2"),
        (1, 100, 1, "100.0"),
        (-0.3077, 100, 1, "-30.8"),
        (-0.0004, 100, 1, "0.0"),
        (-0.0, 1, 3, "0.000"),
        (0.0004, 100, 1, "0.0"),
        (-0.0005, 100, 2, "-0.05"),
        (-0.4, 1, 0, "0"),
        (1234.5, 1, 1, "1234.5"),
        (1 / 3, 1, 3, "0.333"),
        (float("nan"), 100, 1, MISSING),
    ],
)
def test_number(value: float, scale: float, decimals: int, text: str) -> None:
    assert format_number(value, scale, decimals) == text


@settings(max_examples=200)
@given(
    value=st.floats(-10, 10, allow_nan=False),
    decimals=st.integers(0, 3),
    scale=st.sampled_from([1, 100]),
)
def test_number_is_near_and_never_minus_nothing(value: float, decimals: int, scale: int) -> None:
    text = format_number(value, scale, decimals)
    assert abs(float(text) - value * scale) <= 0.5 * 10**-decimals + 1e-9
    assert not re.fullmatch(r"-[0.]+", text)
    assert len(text.partition(".")[2]) == decimals


def plain(latex: str) -> str:
    """LaTeX without its commands and escaped characters, which leaves what LaTeX would act on."""
    return re.sub(r"^\{\}(?=[\[*])|\\text[a-z]+\{\}|\$\\[a-z]+(?:_[abc])?\$|\\[&%$#_{}]", "", latex)


@settings(max_examples=200)
@given(text=st.text(alphabet=SPECIAL + "aé–", max_size=20) | st.text(max_size=10))
def test_escaped_text_has_nothing_that_latex_acts_on(text: str) -> None:
    assert not set(plain(latex_escape(text))) & set(r"\&%$#_{}~^<>|")


def test_escaped_text_literally() -> None:
    assert latex_escape(SPECIAL) == (
        r"\textbackslash{} \& \% \$ \# \_ \{ \} \textasciitilde{} \textasciicircum{} "
        r"\textless{} \textgreater{} \textbar{} "
        r"$\tau$ $\kappa$ $\rho$ $\pm$ $\times$ $\to$ $\geq$ [x] `q' 50\%"
    )
    assert latex_escape("[x]*") == "{}[x]*"


def test_coefficients_within_a_text_are_set_as_formulas() -> None:
    escaped = latex_escape("against Y and Z, τ_c; τ_b below, τ_case, tau_c, τ_X-YZ")
    assert escaped == (
        r"against Y and Z, $\tau_c$; $\tau_b$ below, $\tau$\_case, tau\_c, $\tau$\_X-YZ"
    )


def _has_booktabs():
    """A small TeX installation may have come without the package."""
    command = ["kpsewhich", "booktabs.sty"]
    return shutil.which(command[0]) and subprocess.run(command, capture_output=True).stdout


def test_latex_compiles(tmp_path: Path) -> None:
    """With LaTeX, where it is at hand; without, by its braces, columns and environments."""
    table = ResultTable(
        SPECIAL, SPECIAL, [SPECIAL] * 2, [(SPECIAL, [SPECIAL, MISSING])] * 2, [], [SPECIAL]
    )
    text = latex_of(table)
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "table"),
        ("begin", "tabular"),
        ("end", "tabular"),
        ("end", "table"),
    ]
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in lines] == [2, 2, 2]
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    if program is None or (program.endswith("pdflatex") and not _has_booktabs()):
        return  # no TeX here: what can be seen without one is checked above
    source = tmp_path / "table.tex"
    source.write_text(
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
        f"{text}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    flags = ["-halt-on-error", "-interaction=nonstopmode"] if program.endswith("pdflatex") else []
    done = subprocess.run(
        [program, *flags, source.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "table.pdf").stat().st_size > 0


def test_pdflatex_knows_no_minus_sign() -> None:
    """`captau sensitivity kind=power` names its rows "A − B"."""
    assert latex_escape("A − B") == "A $-$ B"


def test_a_table_of_texts_that_fits_with_folds_is_not_wider_than_the_terminal():
    """By hand: the least widths, labels 12 and columns 8, 6, 5, 7, 11 and 7, and 22 cells of frame make 78 of 80."""
    from rich.console import Console

    heads = ["files", "images", "items", "ratings", "preferences", "verdict"]
    cells = ["2 missing, 1 right", "654", "2,392", "24,400", "0", "part"]
    table = ResultTable("t", "dataset", heads, [("caption_quality", cells)], numeric=False)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(rich_of(table, 80))
    widths = [len(line.rstrip()) for line in shown.get().splitlines()]
    assert max(widths) == 80
    assert "part" in shown.get()


def test_a_frame_of_a_table() -> None:
    """A column of numbers alone is numeric; a repeated head takes the name of the head before it."""
    table = ResultTable(
        "t",
        "metric",
        ["±", "τ_c", "±", "note", "±", "n"],
        [("a", ["1", "40.0", "2", "x", "", "5"]), ("b", [MISSING, MISSING, "3", "1", "", "6"])],
    )
    frame = frame_of(table)
    assert frame.index.name == "metric"
    assert list(frame.columns) == ["±", "τ_c", "τ_c ±", "note", "note ±", "n"]
    assert frame["τ_c"].tolist()[0] == 40.0
    assert frame["±"].isna().tolist() == frame["τ_c"].isna().tolist() == [False, True]
    assert [str(kind) for kind in frame.dtypes[["±", "τ_c", "τ_c ±", "n"]]] == [
        *("float64", "float64", "int64", "int64"),
    ]
    assert frame["note"].tolist() == ["x", "1"]
    assert frame["note ±"].isna().all()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["", MISSING, "–x"], True),
        (["", "1"], False),
        (["0"], False),
        ([], True),
    ],
)
def test_columns_without_a_number(cells: list[str], expected: bool) -> None:
    rows = [("heading", []), *(("a", ["1", cell]) for cell in cells)]
    assert is_empty_column(rows, 1) is expected
    assert is_empty_column([("a", ["1"])], 0) is False


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "<0.001"), (0.00099, "<0.001"), (0.001, "0.001"), (0.0496, "0.050"), (1.0, "1.000")],
)
def test_p_values(value: float, text: str) -> None:
    assert format_p_value(value) == text
    assert format_p_value(float("nan")) == MISSING


def test_coefficients_with_their_own_digits() -> None:
    assert format_coefficient(0.5115, "tau_c") == "51.1"
    assert format_coefficient(0.51151, "accuracy") == "51.2"


WIDE = ResultTable(
    "t",
    "m",
    ["a", "b", "c", "b"],
    [("x", ["1", "", "3", "4"]), ("h", []), ("y", ["", "2", "", ""])],
    latex_columns=["A", "B", "C", "D"],
    short_columns=["s", "t", "u", "v"],
    notes=["a: of a.", "b: of b.", "c: of c.", "y: of y.", "other"],
    spare=((3,), (1, 2)),
    details=(0, 2),
)


def test_columns_that_go_take_their_rows_and_notes_with_them() -> None:
    assert WIDE.without_columns(()) == WIDE
    assert WIDE.without_columns([1]) == ResultTable(
        "t",
        "m",
        ["a", "c", "b"],
        [("x", ["1", "3", "4"]), ("h", [])],
        latex_columns=["A", "C", "D"],
        short_columns=["s", "u", "v"],
        notes=["a: of a.", "b: of b.", "c: of c.", "other"],
        spare=((2,), (1,)),
        details=(0, 1),
    )
    fewer = WIDE.without_columns({0, 3})
    assert (fewer.columns, fewer.rows) == (
        ["b", "c"],
        [("x", ["", "3"]), ("h", []), ("y", ["2", ""])],
    )
    assert fewer.notes == ["b: of b.", "c: of c.", "y: of y.", "other"]
    assert (fewer.spare, fewer.details) == (((), (0, 1)), (1,))


def test_texts_are_changed_where_people_see_them() -> None:
    table = ResultTable(
        *("t", "m", ["x"], [("a", ["v"]), ("b", [])]),
        notes=["n"],
        verdict="w",
        own_labels=frozenset("a"),
    )
    assert table.map_texts(str.upper) == ResultTable(
        *("T", "M", ["X"], [("A *", ["V"]), ("B", [])]),
        notes=["N", "* YOUR OWN METRIC."],
        verdict="W",
    )
    assert table.lines_below == ["w", "n"]
    assert table.with_note("") is table
    assert TABLE.lines_below == TABLE.notes


def test_every_part_of_a_table_in_latex() -> None:
    row = latex_row(["a", "1"])
    assert row == r"    a & 1 \\"
    shown = booktabs_table(
        *("T_1", "lr", [row], ["below"]),
        label="tab:x",
        size=r"\small",
        is_wide=True,
        is_fitted=True,
    )
    assert shown == "\n".join(
        [
            r"\begin{table*}",
            r"  \centering",
            r"  \caption{T\_1}",
            r"  \label{tab:x}",
            r"  \small",
            r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            r"  \begin{tabular}{lr}",
            r"    \toprule",
            r"    a & 1 \\",
            r"    \bottomrule",
            r"  \end{tabular}}",
            "below",
            r"\end{table*}",
        ]
    )
