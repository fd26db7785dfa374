"""Tables as they are printed: Markdown, LaTeX and CSV to the letter."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from captau.benchmarks.runs.csv_table import csv_of
from captau.benchmarks.runs.html_table import html_of
from captau.benchmarks.runs.latex_table import latex_of
from captau.benchmarks.runs.latex_text import escape_latex
from captau.benchmarks.runs.markdown_table import escape_markdown, markdown_of
from captau.benchmarks.runs.results import tables_as_csv
from captau.benchmarks.runs.tables import (
    MISSING,
    Cell,
    Column,
    ResultTable,
    Row,
    TableNote,
    coefficient_cell,
    count_cell,
    format_coefficient,
    format_number,
    format_p_value,
    frame_of,
    is_empty_column,
    legend_lines,
    mark_best,
    number_cell,
    p_value_cell,
    signature_line,
)
from captau.benchmarks.runs.terminal_table import rich_of

TABLE = ResultTable(
    title="Toy_set: 100 % agreement",
    corner="metric",
    columns=[Column("τ_c", latex=r"$\tau_c$"), Column("a|b, c", latex="a")],
    rows=[Row("bleu_4", ["30.8", MISSING]), Row('file(path=a|b,name="x")', ["-1.0", "±2"])],
    notes=["Scores ×100 & more.", "1 | 2."],
)

MARKDOWN = r"""**Toy_set: 100 % agreement**

| metric | τ_c | a\|b, c |
|:--|--:|--:|
| bleu_4 | 30.8 | – |
| file(path=a\|b,name="x") | -1.0 | ±2 |

Scores ×100 & more.

1 | 2."""

LATEX = r"""% \usepackage{booktabs}
% \usepackage{graphicx}
\begin{table}
  \centering
  \caption{Toy\_set: 100 \% agreement}\smallskip
  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
  \begin{tabular}{lrr}
    \toprule
    metric & $\tau_c$ & a \\
    \midrule
    bleu\_4 & 30.8 & -- \\
    file(path=a\textbar{}b,name="x") & -1.0 & $\pm$2 \\
    \bottomrule
  \end{tabular}}
  \par\smallskip
  \begin{minipage}{\linewidth}\footnotesize\raggedright
    Scores $\times$100 \& more. 1 \textbar{} 2.\par
  \end{minipage}
\end{table}"""

CSV = """metric,τ_c,"a|b, c"
bleu_4,30.8,
"file(path=a|b,name=""x"")",-1.0,±2
"""

#: Everything that LaTeX takes for something else, and the letters of our own names and notes.
SPECIAL = r"\ & % $ # _ { } ~ ^ < > | τ κ ρ ± × → ≥ [x] `q' 50%"


def test_markdown() -> None:
    assert markdown_of(TABLE) == MARKDOWN


def test_no_tag_begins_in_markdown() -> None:
    table = ResultTable("t", "c", ["<b>"], [Row("<script>x|y", ["<0.001"])])
    assert r"| \<script>x\|y | <0.001 |" in markdown_of(table)
    assert r"| c | \<b> |" in markdown_of(table)


def test_latex() -> None:
    assert latex_of(TABLE) == LATEX


def test_html_escapes_labels_cells_and_notes() -> None:
    table = ResultTable("A < B", "metric", ["x"], [Row("<i>", ["1 & 2"])], notes=["<script>"])
    html = html_of(table)
    assert "<caption>A &lt; B</caption>" in html
    assert '<tr><th scope="col">metric</th><th scope="col">x</th></tr>' in html
    assert '<tr><th scope="row">&lt;i&gt;</th><td>1 &amp; 2</td></tr>' in html
    assert "<p>&lt;script&gt;</p>" in html


def test_csv() -> None:
    assert csv_of(TABLE) == CSV
    head, *rows = csv.reader(io.StringIO(CSV))
    assert head == ["metric", "τ_c", "a|b, c"]
    assert rows[1] == ['file(path=a|b,name="x")', "-1.0", "±2"]
    # Several tables of a run have a file each.
    assert [content.decode("utf-8-sig") for content in tables_as_csv([TABLE, TABLE]).values()] == [
        CSV
    ] * 2


def test_cells_of_text() -> None:
    table = ResultTable(
        "T", "m", ["x"], [Row("[a]", ["1|2"]), Row("* a", [MISSING])], numeric=False
    )
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
    table = ResultTable("T", "metric", heads, [Row(label, ["12.3", "-45.6", "100.0"])])
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
    rows = [Row(label, ["10.0"] * 7) for label in ("ROUGE-L", "oracle (mean rating)")]
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
    rows = [Row("cider", ["10.0", "1.0", "1"])]
    words = ["rank: ties share one.", "τ_c: by pairs."]
    notes = [TableNote(words[0], ("rank",)), TableNote(words[1], ("τ_c",))]
    table = ResultTable("T", "metric", ["τ_c", "±", "rank"], rows, notes=notes, spare=((1, 2),))
    assert shown_at(table, 30)[-2:] == words
    assert {"metric", "τ_c", "±", "rank"} == set(shown_at(table, 20)[1].split())
    assert "│" in "".join(shown_at(table, 30))
    assert "│" not in "".join(shown_at(table, 29))
    below = " ".join(" ".join(shown_at(table, 19)[4:]).split())
    assert words[0] not in below
    assert words[1] in below
    assert "±, rank" in below


def test_groups_of_columns_go_in_their_order_as_far_as_needed() -> None:
    table = ResultTable(
        *("T", "m", ["total", "±", "recall", "±"], [Row("a", ["40.0", "1.0", "30.0", "2.0"])]),
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
        "T", "m", [Column("Expertly", short="Ex.")], [Row("a", ["40.0"])], file="style=csv"
    )
    heads = {width: shown_at(table, width)[2].split()[1::2] for width in (16, 15, 12)}
    assert heads == {16: ["m", "Expertly"], 15: ["m", "Ex."], 12: ["m", "Ex."]}
    assert shown_at(table, 11)[1].split() == ["m", "Ex."]


def test_columns_go_from_the_right_where_no_spare_one_is_named() -> None:
    """Worked by hand: 1 cell of label and three columns of 4 take 16 without a frame, and two take 11."""
    table = ResultTable(
        "T", "m", ["1", "2", "3"], [Row("a", ["40.0", "30.0", "20.0"])], file="style=csv"
    )
    assert shown_at(table, 16)[1].split() == ["m", "1", "2", "3"]
    lines = shown_at(table, 15)
    assert lines[1].split() == ["m", "1", "2"]
    assert "too narrow for 3:" in " ".join(" ".join(lines).split())


def test_heads_fold_after_hyphens_and_underscores() -> None:
    table = ResultTable("T", "by", ["VinVL-large", "wrong_colour"], [Row("a", ["1", "2"])])
    lines = [line.replace("┃", " ").split() for line in shown_at(table, 24)[2:4]]
    assert lines == [["VinVL-", "wrong_"], ["by", "large", "colour"]]


def test_the_verdict_stands_between_the_rows_and_the_notes() -> None:
    note = "A note that is longer than the table and no wider than the terminal."
    table = ResultTable("T", "m", ["x"], [Row("a", ["1"])], notes=[note], verdict="a is best.")
    assert shown_at(table, 80)[-2:] == ["a is best.", note]
    assert markdown_of(table).endswith(f"| a | 1 |\n\na is best.\n\n{note}")
    assert latex_of(table).index("a is best.") < latex_of(table).index(note)
    assert f"<p>a is best.</p>\n<p>{note}</p>" in html_of(table)


def test_a_mark_on_your_own_metric_for_people_and_not_in_csv() -> None:
    table = ResultTable(
        "T", "metric", ["x"], [Row("a", ["1"]), Row("b", ["2"])], own_labels=frozenset("a")
    )
    for text in (markdown_of(table), latex_of(table), html_of(table)):
        assert "a *" in text
        assert "b *" not in text
        assert "* your own metric." in text
    assert csv_of(table) == "metric,x\na,1\nb,2\n"
    assert list(frame_of(table).index) == ["a", "b"]


def test_brackets_are_no_markup_in_the_terminal() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    table = ResultTable("T [a]", "[b]", ["[c]"], [Row("[/d]", ["[bold]1"])], ["dimension=[wit]"])
    console.print(rich_of(table))
    shown = console.export_text()
    for text in ("T [a]", "[b]", "[c]", "[/d]", "[bold]1", "dimension=[wit]"):
        assert text in shown


def test_without_notes_and_latex_heads() -> None:
    table = ResultTable("T", "m", ["x_y"], [Row("a", ["1"])])
    assert markdown_of(table) == "**T**\n\n| m | x_y |\n|:--|--:|\n| a | 1 |"
    assert r"    m & x\_y \\" in latex_of(table).splitlines()
    assert "minipage" not in latex_of(table)


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
    latex = re.sub(r"\\ifdefined\\Umathchar [^ ]+\\else [U+0-9A-F ]+\\fi\{\}", "", latex)
    return re.sub(r"^\{\}(?=[\[*])|\\text[a-z]+\{\}|\$\\[a-z]+(?:_[abc])?\$|\\[&%$#_{}]", "", latex)


@settings(max_examples=200)
@given(text=st.text(alphabet=SPECIAL + "aé–", max_size=20) | st.text(max_size=10))
def test_escaped_text_has_nothing_that_latex_acts_on(text: str) -> None:
    assert not set(plain(escape_latex(text))) & set(r"\&%$#_{}~^<>|")


def test_escaped_text_literally() -> None:
    assert escape_latex(SPECIAL) == (
        r"\textbackslash{} \& \% \$ \# \_ \{ \} \textasciitilde{} \textasciicircum{} "
        r"\textless{} \textgreater{} \textbar{} "
        r"$\tau$ $\kappa$ $\rho$ $\pm$ $\times$ $\to$ $\geq$ [x] `q' 50\%"
    )
    assert escape_latex("[x]*") == "{}[x]*"
    # Codes for pdfLaTeX, and the characters for programs that know them.
    assert escape_latex("ä 法律") == r"ä \ifdefined\Umathchar 法律\else U+6CD5 U+5F8B\fi{}"
    assert escape_latex("a\x1b[1m\x07\u202eb\nc") == (
        r"a\textbackslash{}x1b[1m\textbackslash{}x07\textbackslash{}u202eb\textbackslash{}nc"
    )


def test_coefficients_within_a_text_are_set_as_formulas() -> None:
    escaped = escape_latex("against Y and Z, τ_c; τ_b below, τ_case, tau_c, τ_X-YZ")
    assert escaped == (
        r"against Y and Z, $\tau_c$; $\tau_b$ below, $\tau$\_case, tau\_c, $\tau$\textsubscript{X-YZ}"
    )


def _has_booktabs():
    """A small TeX installation may have come without the package."""
    command = ["kpsewhich", "booktabs.sty"]
    return shutil.which(command[0]) and subprocess.run(command, capture_output=True).stdout


def test_latex_compiles(tmp_path: Path) -> None:
    """With LaTeX, where it is at hand; without, by its braces, columns and environments."""
    table = ResultTable(
        SPECIAL, SPECIAL, [SPECIAL] * 2, [Row(SPECIAL, [SPECIAL, MISSING])] * 2, [SPECIAL]
    )
    text = latex_of(table)
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    # Heads that a page has no room for have several lines, which are a table of their own.
    lines_of_head = [("begin", "tabular"), ("end", "tabular")]
    assert re.findall(r"\\(begin|end)\{([\w*]+)\}", text) == [
        ("begin", "table*"),
        ("begin", "tabular"),
        *(lines_of_head * 2),
        ("end", "tabular"),
        ("begin", "minipage"),
        ("end", "minipage"),
        ("end", "table*"),
    ]
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in lines] == [2, 2, 2]
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    if program is None or (program.endswith("pdflatex") and not _has_booktabs()):
        return  # no TeX here: what can be seen without one is checked above
    source = tmp_path / "table.tex"
    source.write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
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
    assert escape_latex("A − B") == "A $-$ B"


def test_a_table_of_texts_that_fits_with_folds_is_not_wider_than_the_terminal():
    """By hand: the least widths, labels 12 and columns 8, 6, 5, 7, 11 and 7, and 22 cells of frame make 78 of 80."""
    from rich.console import Console

    heads = ["files", "images", "items", "ratings", "preferences", "verdict"]
    cells = ["2 missing, 1 right", "654", "2,392", "24,400", "0", "part"]
    table = ResultTable("t", "dataset", heads, [Row("caption_quality", cells)], numeric=False)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(rich_of(table, 80))
    widths = [len(line.rstrip()) for line in shown.get().splitlines()]
    assert max(widths) == 80
    assert "part" in shown.get()


def test_a_frame_of_a_table() -> None:
    """Cells are numbers as they are printed; a repeated head takes the name of the head before it."""
    rows = [
        Row("a", [count_cell(1), number_cell(0.4004, 100, 1), count_cell(2), "x", "", "5"]),
        Row("heading"),
        Row("b", [MISSING, number_cell(math.nan, 100, 1), count_cell(3), "1", "", "6"]),
    ]
    frame = frame_of(ResultTable("t", "metric", ["±", "τ_c", "±", "note", "±", "n"], rows))
    assert frame.index.name == "metric"
    assert list(frame.index) == ["a", "b"]
    assert list(frame.columns) == ["±", "τ_c", "τ_c ±", "note", "note ±", "n"]
    assert frame["τ_c"].tolist()[0] == 40.0
    assert frame["±"].isna().tolist() == frame["τ_c"].isna().tolist() == [False, True]
    kinds = [str(kind) for kind in frame.dtypes[["±", "τ_c", "τ_c ±"]]]
    assert kinds == ["float64", "float64", "int64"]
    # A text stays a text, whatever it looks like.
    assert frame["note"].tolist() == ["x", "1"]
    assert frame["n"].tolist() == ["5", "6"]
    assert frame["note ±"].isna().all()
    # Without any value a column of dashes is NaN, as others are where they have one.
    dashes = frame_of(ResultTable("t", "metric", ["score"], [Row("a", [MISSING])]))
    assert str(dashes.dtypes["score"]) == "float64"


def test_cells_hold_the_number_that_they_show() -> None:
    """Worked by hand; 0.5115 × 100 is 51.15 less a little."""
    coefficient = coefficient_cell(0.5115, "tau_c")
    assert (coefficient.text, coefficient.value, coefficient.printed) == ("51.1", 0.5115, 51.1)
    assert (number_cell(-0.0004, 100, 1).text, number_cell(-0.0004, 100, 1).printed) == ("0.0", 0.0)
    assert (p_value_cell(0.0004).text, p_value_cell(0.0004).printed) == ("<0.001", 0.0004)
    count = count_cell(1234)
    assert isinstance(count, Cell)
    assert (count.text, count.printed) == ("1,234", 1234)
    assert count_cell(None) == ""
    undefined = number_cell(math.nan, 100, 1)
    assert undefined.text == MISSING
    assert math.isnan(undefined.printed)


def test_the_best_of_a_column_is_the_greatest_as_printed() -> None:
    cells = [number_cell(0.40001, 100, 1), "", number_cell(0.40002, 100, 1), Cell(MISSING)]
    marked = mark_best([*cells, number_cell(0.1, 100, 1)])
    emphases = [cell.emphasis for cell in marked if isinstance(cell, Cell)]
    assert emphases == ["best", "best", "", ""]
    assert mark_best([Cell(MISSING), "x"]) == [Cell(MISSING), "x"]


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
    rows = [Row("heading", []), *(Row("a", ["1", cell]) for cell in cells)]
    assert is_empty_column(rows, 1) is expected
    assert is_empty_column([Row("a", ["1"])], 0) is False


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


OF_A = TableNote("a: of a.", ("a",))
OF_B = TableNote("b: of b.", ("b",))
OF_C_AND_Y = TableNote("c, y: of both.", ("c", "y"))
OF_Y = TableNote("y: of y.", ("y",))
WIDE = ResultTable(
    "t",
    "m",
    [Column("a", "A", "s"), Column("b", "B", "t"), Column("c", "C", "u"), Column("b", "D", "v")],
    [Row("x", ["1", "", "3", "4"]), Row("h", []), Row("y", ["", "2", "", ""])],
    notes=[OF_A, OF_B, OF_C_AND_Y, OF_Y, "other"],
    spare=((3,), (1, 2)),
    details=(0, 2),
)


def test_columns_that_go_take_their_rows_and_notes_with_them() -> None:
    assert WIDE.without_columns(()) == WIDE
    assert WIDE.without_columns([1]) == ResultTable(
        "t",
        "m",
        [Column("a", "A", "s"), Column("c", "C", "u"), Column("b", "D", "v")],
        [Row("x", ["1", "3", "4"]), Row("h", [])],
        notes=[OF_A, OF_B, OF_C_AND_Y, "other"],
        spare=((2,), (1,)),
        details=(0, 1),
    )
    fewer = WIDE.without_columns({0, 3})
    assert (fewer.heads, fewer.rows) == (
        ["b", "c"],
        [Row("x", ["", "3"]), Row("h", []), Row("y", ["2", ""])],
    )
    assert fewer.notes == [OF_B, OF_C_AND_Y, OF_Y, "other"]
    assert (fewer.spare, fewer.details) == (((), (0, 1)), (1,))


def test_texts_are_changed_where_people_see_them() -> None:
    table = ResultTable(
        *("t", "m", ["x"], [Row("a", ["v"]), Row("b", [])]),
        notes=["n"],
        verdict="w",
        own_labels=frozenset("a"),
    )
    assert table.map_texts(str.upper) == ResultTable(
        *("T", "M", [Column("X", short="X")], [Row("A *", ["V"]), Row("B", [])]),
        notes=["N", "* YOUR OWN METRIC."],
        verdict="W",
    )
    assert table.lines_below == ["w", "n"]
    assert table.with_note("") is table
    assert TABLE.lines_below == TABLE.notes


NUMBER = Cell("43.9", 0.439, 43.9, low="41.0", high="46.8", reach="2.9", rank=1, marks=("a",))


def test_every_part_of_a_table_in_latex() -> None:
    """Intervals stand behind the numbers, ranks and footnotes above the line, published rows in grey."""
    best = dataclasses.replace(NUMBER, emphasis="best")
    table = ResultTable(
        "T_1",
        "metric",
        [Column("τ_c", over="A set"), Column("τ_b", over="A set"), Column("ρ", over="B")],
        [
            Row("text", kind="text"),
            Row("BLEU", [best, "", Cell("-1.0", -0.01, -1.0)], kind="text"),
            Row("CIDEr", ["", "", Cell("2.0", 0.02, 2.0)], kind="text", source="X 2020"),
        ],
        intervals="subscript",
        footnotes=(("a", "of a_b"),),
        signatures=(("BLEU", "bleu:a|1"),),
        has_legend=True,
        latex_label="tab:x",
    )
    lines = [line.strip() for line in latex_of(table).splitlines()]
    assert r"% \usepackage{xcolor}" in lines
    assert r"\label{tab:x}" in lines
    assert r"\begin{tabular}{lr@{}lrr}" in lines
    assert r" & \multicolumn{3}{c}{A set} & \multicolumn{1}{c}{B} \\".strip() in lines
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-5}" in lines
    assert r"metric & \multicolumn{2}{c}{$\tau_c$} & $\tau_b$ & $\rho$ \\" in lines
    assert r"\multicolumn{5}{l}{\emph{text}} \\" in lines
    tail = r"$^{\mathrm{1},\mathrm{a}}${}$_{41.0,\,46.8}$"
    assert rf"BLEU & \textbf{{43.9}} & {tail} &  & $-$1.0 \\" in lines
    grey = r"\textcolor{black!60}{CIDEr} &  &  &  & \textcolor{black!60}{2.0} \\"
    assert grey in lines
    assert r"$^{\mathrm{a}}$of a\_b.\par" in lines
    assert r"Signatures: BLEU: bleu:\allowbreak{}a\textbar\allowbreak{}1.\par" in lines


@pytest.mark.parametrize(
    ("cell", "intervals", "tail"),
    [
        (NUMBER, "subscript", "43.9¹ᵃ [41.0, 46.8]"),
        (NUMBER, "plusminus", "43.9 ± 2.9¹ᵃ"),
        (NUMBER, "none", "43.9¹ᵃ"),
        (Cell("43.9", 0.439, 43.9), "subscript", "43.9"),
        ("43.9", "plusminus", "43.9"),
    ],
)
def test_what_stands_behind_a_number_in_a_terminal(cell, intervals, tail) -> None:
    table = ResultTable("T", "m", ["x"], [Row("r", [cell])], intervals=intervals)
    assert f"│ {tail} │" in "".join(shown_at(table, 80))


def test_what_stands_behind_a_number_in_markdown_html_and_csv() -> None:
    rows = [Row("r", [NUMBER], kind="k"), Row("s", [Cell(MISSING)], kind="k", source="X 2020")]
    table = ResultTable("T", "m", ["x"], rows, intervals="subscript", footnotes=(("a", "see, it"),))
    markdown = markdown_of(table)
    assert "| r | 43.9<sup>1,a</sup><sub>41.0, 46.8</sub> |" in markdown
    assert "| *s* | *–* |" in markdown
    assert markdown.endswith("<sup>a</sup> see, it.")
    number = '<span class="number">43.9</span><sup>1,a</sup><sub>41.0, 46.8</sub>'
    assert f'<tr><th scope="row">r</th><td>{number}</td></tr>' in html_of(table)
    assert '<tr class="published"><th scope="row">s</th>' in html_of(table)
    assert csv_of(table) == (
        "kind,m,published by,x,x low,x high,x rank,notes\n"
        'k,r,,43.9,41.0,46.8,1,"see, it"\n'
        "k,s,X 2020,,,,,\n"
    )


def test_columns_share_heads_with_their_neighbours_alone() -> None:
    columns = [Column("x", over=over) for over in ("A", "A", "B", "A", "A", "A", "B")]
    table = ResultTable("t", "m", columns, [])
    assert table.spans == [("A", 2), ("B", 1), ("A", 3), ("B", 1)]
    assert table.heads[0] == "A x"
    head = '<th rowspan="2" scope="col">m</th><th colspan="2" scope="colgroup">A</th>'
    assert head in html_of(table)


def rows_of(*sources: str, kind: str = "given", emphasis: str = "best") -> list[Row]:
    cells = [Cell("1.0", 0.01, 1.0, emphasis=emphasis), ""]
    return [Row("r", cells, kind=kind, source=source) for source in sources]


BEST = "Bold and underlined: the best and the second best of a column, as printed"
PUBLISHED = (
    "Grey: as published, not computed by captau; out of competition where the protocol is another or captau computed "
    "the metric."
)


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([], []),
        (rows_of("", emphasis=""), []),
        (rows_of(""), [f"{BEST}; floors and what people reach do not compete."]),
        (rows_of("", kind="systems"), [f"{BEST}."]),
        (
            [*rows_of("", kind="systems"), *rows_of("")],
            [f"{BEST}; floors and what people reach do not compete."],
        ),
        (rows_of("", "S", emphasis=""), [PUBLISHED]),
    ],
    ids=["none", "plain", "best", "systems", "both", "published"],
)
def test_a_legend_explains_what_is_there(rows: list[Row], lines: list[str]) -> None:
    table = ResultTable("t", "m", ["x", "y"], rows, has_legend=True)
    assert legend_lines(table, "Grey") == lines
    assert legend_lines(dataclasses.replace(table, has_legend=False), "Grey") == []
    assert table.has_published_rows is any("published" in line for line in lines)


def test_signatures_are_a_line() -> None:
    table = ResultTable("t", "m", [], [], signatures=(("A", "a|1"), ("B", "b|2")))
    assert signature_line(table, str.lower, str.upper) == ["Signatures: a: A|1; b: B|2."]
    assert signature_line(dataclasses.replace(table, signatures=()), str, str) == []


def test_markdown_shows_texts_as_they_are() -> None:
    """A star before a blank and a bare `<` begin nothing, in CommonMark's rules."""
    assert escape_markdown(r"a_b \ ` *c* d * < | <i>") == r"a_b \\ \` \*c* d * < \| \<i>"
    # Below a table a bar ends no cell: a signature can be copied.
    table = ResultTable("t", "m", ["x"], [Row("a|b", ["1"])], notes=["cider|sigma:6 *"])
    assert markdown_of(table).splitlines()[-3:] == [r"| a\|b | 1 |", "", "cider|sigma:6 *"]


def test_notes_are_printed_in_brief_without_details() -> None:
    """A detail goes, a note in brief stands for the whole, and goes with its column."""
    notes = ["plain", TableNote("the whole of b", ("b",), brief="b"), TableNote.detail("how")]
    table = ResultTable("T", "row", ["a", "b"], [Row("x", ["1", "2"])], notes=notes, details=())
    brief = table.without_details()
    assert brief.notes == ["plain", "b"]
    assert table.notes == ["plain", "the whole of b", "how"]
    assert brief.without_columns([1]).notes == ["plain"]
    changed = table.map_texts(str.upper)
    assert changed.notes == ["PLAIN", "THE WHOLE OF B", "HOW"]
    assert changed.without_details().notes == ["PLAIN", "B"]
