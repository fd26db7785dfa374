"""Results from Python: what they hold, print and draw, and captions in memory beside captions in files."""

from __future__ import annotations

import inspect
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import captau
from captau.benchmarks.commands.score import ScoreResults
from captau.benchmarks.reporting.charts import run_charts as charts
from captau.benchmarks.reporting.run_results import Results
from captau.benchmarks.runs.results import (
    BLAME_COLUMNS,
    CORRELATION_COLUMNS,
    DISATTENUATED_COLUMNS,
    RANK_COLUMNS,
    SCORE_COLUMNS,
    SIGNIFICANCE_COLUMNS,
)
from captau.benchmarks.runs.tables import ResultTable, Row, count_cell, frame_of, number_cell
from captau.benchmarks.scoring.corpus_scores import DIFFERENCE_COLUMNS
from captau.datasets.preferences import PREFERENCE_COLUMNS
from captau.datasets.schema import ITEM_COLUMNS, RATING_COLUMNS

ROOT = Path(__file__).parents[3]
CAPTIONS = {"1": "a dog runs on the grass", "2": "a cat sleeps on a bed"}
REFERENCES = {
    "1": ["a dog runs across the grass", "a brown dog is running"],
    "2": ["a cat is sleeping on a bed", "the cat sleeps"],
}
RESULT_ROWS = [{"image_id": int(i), "caption": c} for i, c in CAPTIONS.items()]
REFERENCE_ROWS = [{"image_id": i, "references": tuple(texts)} for i, texts in REFERENCES.items()]
ANNOTATION_ROWS = [{"image_id": i, "caption": c} for i, texts in REFERENCES.items() for c in texts]
METRICS = ["rouge_l", "cider"]


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory) -> ScoreResults:
    folder = tmp_path_factory.mktemp("files")
    for name, content in (("c.json", CAPTIONS), ("r.json", REFERENCES)):
        (folder / name).write_text(json.dumps(content))
    return captau.score(folder / "c.json", str(folder / "r.json"), METRICS)


@pytest.mark.parametrize(
    "candidates",
    [
        CAPTIONS,
        RESULT_ROWS,
        pd.DataFrame(RESULT_ROWS),
        pd.DataFrame(RESULT_ROWS).set_index("image_id"),
        pd.Series(CAPTIONS),
    ],
    ids=["dict", "rows", "frame", "frame by image", "series"],
)
@pytest.mark.parametrize(
    "references",
    [
        REFERENCES,
        REFERENCE_ROWS,
        ANNOTATION_ROWS,
        {"annotations": ANNOTATION_ROWS},
        pd.DataFrame(REFERENCE_ROWS),
        pd.DataFrame(ANNOTATION_ROWS),
    ],
    ids=["dict", "rows", "annotations", "coco", "frame", "frame of annotations"],
)
def test_captions_in_memory_score_as_those_in_files(
    candidates: Any, references: Any, from_files: ScoreResults
) -> None:
    scored = captau.score(candidates, references, METRICS)
    pd.testing.assert_frame_equal(scored.scores, from_files.scores)
    names = ["system", "references"]
    pd.testing.assert_frame_equal(
        scored.corpus.drop(columns=names), from_files.corpus.drop(columns=names)
    )


@pytest.mark.parametrize("form", ["dict", "frame", "files"])
def test_several_systems_come_by_name(form: str, tmp_path: Path) -> None:
    base = {"1": "a dog", "2": "cats"}
    path = tmp_path / "base.json"
    path.write_text(json.dumps(base))
    rows = [(i, c, name) for name, d in (("mine", CAPTIONS), ("base", base)) for i, c in d.items()]
    candidates: Any = {
        "dict": {"mine": CAPTIONS, "base": path},
        "frame": pd.DataFrame(rows, columns=["image_id", "caption", "system"]),
        "files": [f"base={path}", path.with_name("mine.json")],
    }[form]
    (tmp_path / "mine.json").write_text(json.dumps(CAPTIONS))
    scored = captau.score(candidates, REFERENCES, METRICS)
    assert set(scored.corpus["system"]) == {"mine", "base"}
    assert scored.differences is not None
    assert len(scored.differences) == 2
    assert scored.table(1).shape == (1, 2)
    # Both references of an image are scored against in each set.
    sets = captau.score(CAPTIONS, {"all": REFERENCES, "rows": REFERENCE_ROWS}, "rouge_l")
    assert sets.corpus.groupby("references")["score"].first().nunique() == 1


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (5, "candidates: a path, a dict, a list of dicts or a DataFrame is expected, and not int"),
        ({"1": 5}, r"candidates:1: image '1': '1' is 5, no caption"),
        ([{"image_id": 1}], r"candidates:1: entry 0: 'caption' is missing"),
        ({"1": {"a set"}}, "candidates: a set is in it; image ids and texts are expected"),
        ({}, "candidates: it contains no captions"),
        (["a dog runs.", "two men"], "there is no file 'a dog runs.'; captions are given with"),
        (["a dog " * 100], "captions are given with their images"),
        (["base=a dog.json", "x"], "a dog.json: cannot be read"),
        (
            pd.Series(["a", "b"], index=["1", "1"]),
            "an image id is twice in the index of the Series",
        ),
        ("shards/*.parquet", "large set, in shards; the command captau score takes it"),
        ({"mine": {"1": "a"}, "base": 5}, "candidates base: a path, a dict, a list"),
        ({1: "a", "1": "b"}, "candidates: an image id is there twice, as a number and as text"),
        (pd.DataFrame([[1, "a", "b"]], columns=["image_id", "caption", "caption"]), "one name"),
        (pd.DataFrame([{**RESULT_ROWS[0], "system": None}]), "no value in the column 'system'"),
        (
            pd.DataFrame([{**row, "system": s} for row in RESULT_ROWS for s in (1, "1")]),
            "a second system is called '1'",
        ),
    ],
)
def test_captions_of_another_form_are_refused_in_one_line(candidates: Any, message: str) -> None:
    with pytest.raises(captau.InputError, match=message) as raised:
        captau.score(candidates, REFERENCES, "rouge_l")
    assert "\n" not in str(raised.value)


def test_options_of_score_are_those_of_the_command(tmp_path: Path) -> None:
    scored = captau.score(
        CAPTIONS | {"3": "no references"},
        REFERENCES | {"3": ["one"], "4": ["nobody captioned it"]},
        METRICS,
        partial=True,
        normalise="thumb",
        trust=None,
        keep_metric="rouge_l",
        keep_above=0.5,
        statistics={"interval": "none"},
        output_dir=tmp_path / "run",
    )
    assert [row["image_id"] for row in scored.kept_captions or []] == [1, 2]
    assert list(scored.table().columns) == ["score"]
    assert scored.corpus["ci_low"].isna().all()
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["config"]["partial"] is True
    assert written["config"]["protocol"] == {"normalise": "thumb"}
    corpus = pd.read_csv(tmp_path / "run" / "corpus.csv").set_index("metric")["score"]
    assert corpus.to_dict() == scored.corpus.set_index("metric")["score"].to_dict()


def test_a_table_becomes_a_frame_with_heads_that_differ() -> None:
    """Worked by hand: `±` stands twice, a dash is not a number, and a mark makes a column text."""
    first = [number_cell(1.5, 1, 1), number_cell(0.1, 1, 1), count_cell(2), number_cell(0.2, 1, 1)]
    second = ["–", "", count_cell(4), number_cell(0.3, 1, 1), "–"]
    rows = [Row("A", [*first, "+3*"]), Row("B", second)]
    frame = frame_of(ResultTable("T", "metric", ["τ_c", "±", "τ_b", "±", "gap"], rows))
    assert list(frame.columns) == ["τ_c", "τ_c ±", "τ_b", "τ_b ±", "gap"]
    assert frame.index.name == "metric"
    assert frame["τ_c"].tolist()[0] == 1.5
    assert frame.loc["B"].isna().tolist() == [True, True, False, False, True]
    assert frame.loc["A", "gap"] == "+3*"


def test_every_result_prints_and_draws_itself() -> None:
    quick: Any = {"protocol": {"coefficients": ["tau_c"]}, "statistics": {"replicates": 50}}
    results = captau.bench("demo", METRICS, ceilings=False, **quick)
    ranking = captau.rank("demo", METRICS, statistics={"replicates": 50})
    for result in (results, ranking, captau.score(CAPTIONS, REFERENCES, METRICS)):
        assert result._repr_html_().count("<table") == len(result.tables)
        assert repr(result) == result.to_markdown()
        assert result.to_latex().count(r"\toprule") == len(result.tables)
        assert isinstance(result.table(), pd.DataFrame)
    rows = results.correlations.set_index(["metric", "coefficient"])
    cider = rows.loc[("cider", "tau_c"), "value"]
    assert results.table().loc["CIDEr", "τ_c"] == round(100 * cider, 1)
    figures = results.plot("forest", format=["svg", "pdf"])
    assert [name.rpartition(".")[2] for name in figures.files] == ["svg", "pdf"]
    assert figures._repr_html_().count("<img") == 1
    pdf = next(content for name, content in figures.files.items() if name.endswith("pdf"))
    # Conferences ask for embedded fonts, and for none of Type 3.
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert "systems.png" in ranking.plot(format="png").files
    with pytest.raises(captau.InputError, match="no figure of this kind"):
        ranking.plot("forest")


def test_figures_are_written_into_a_folder(tmp_path: Path) -> None:
    figures = captau.rank("demo", METRICS, statistics={"replicates": 50}).plot()
    paths = figures.save(tmp_path / "new")
    assert [path.name for path in paths] == list(figures.files)
    assert paths[0].read_bytes() == figures.files[paths[0].name]


def test_datasets_show_their_card_counts_and_first_rows() -> None:
    judgements = captau.load("demo")
    page = judgements._repr_html_()
    for text in ("Demo (demo)", "Apache-2.0", "overall 1 to 5", "360", "1,080", "demo_000.png"):
        assert text in page
    assert judgements.card._repr_html_().removesuffix("</table>") in page


def test_the_page_on_python_names_every_attribute_and_column() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for columns in (
        *(CORRELATION_COLUMNS, SCORE_COLUMNS, RANK_COLUMNS, SIGNIFICANCE_COLUMNS, BLAME_COLUMNS),
        *(DISATTENUATED_COLUMNS, DIFFERENCE_COLUMNS, ITEM_COLUMNS, RATING_COLUMNS),
        (*PREFERENCE_COLUMNS, "winner"),
        tuple(captau.score(CAPTIONS, REFERENCES, "rouge_l").corpus.columns),
    ):
        assert f"`{', '.join(columns)}`" in page
    for kind in (captau.Results, ScoreResults):
        for name, member in inspect.getmembers(kind):
            is_data = isinstance(member, property) or inspect.isfunction(member)
            if is_data and not name.startswith("_") and name != "stream":
                assert re.search(rf"`{name}\b|\b{name}`", page), name
    for name in captau.Results.__dataclass_fields__:
        assert f"`{name}`" in page, name


@pytest.mark.parametrize("name", ["bench", "compare", "rank", "score", "reward", "load", "metric"])
def test_public_functions_name_and_type_their_parameters(name: str) -> None:
    for parameter in inspect.signature(getattr(captau, name)).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        if name not in ("load", "metric"):  # a dataset's and a metric's own options
            assert parameter.kind is not inspect.Parameter.VAR_KEYWORD


FILES = {
    "correlations": "correlations.csv",
    "overview": "overview.csv",
    "scores": "scores.parquet",
    "disattenuated": "disattenuated.csv",
    "comparison": "comparison.csv",
    "words": "words.parquet",
    "ranks": "ranks.csv",
}


@pytest.mark.parametrize("name", FILES)
def test_a_table_has_its_file(name: str) -> None:
    frames = {file: pd.DataFrame({"file": [file]}) for file in FILES.values()}
    found = getattr(Results(frames, {}), name)
    assert found["file"].tolist() == [FILES[name]]
    if name not in ("correlations", "scores"):
        assert getattr(Results({}, {}), name) is None


def test_differences_and_their_matrix_come_together() -> None:
    frames = {name: pd.DataFrame({"n": [name]}) for name in ("significance.csv", "matrix.csv")}
    found = Results(frames, {}).significance
    assert found is not None
    assert [frame["n"].tolist() for frame in found] == [["significance.csv"], ["matrix.csv"]]
    assert Results({"significance.csv": pd.DataFrame()}, {}).significance is None


def test_judgements_need_all_of_their_files() -> None:
    assert Results({}, {}).judgements is None
    assert Results({"items.parquet": pd.DataFrame()}, {}).judgements is None


def test_tables_are_printed_one_below_the_other() -> None:
    tables = [ResultTable(t, "row", ["x"], [Row("r", [t])]) for t in ("one", "two")]
    results = Results({}, {}, tables=tables)
    text = results.to_markdown()
    assert text.startswith("**one**\n")
    assert text.count("\n\n**two**\n") == 1
    assert repr(results) == text
    assert results.table().loc["r", "x"] == "one"
    assert results.table(1).loc["r", "x"] == "two"
    assert results.table(-1).loc["r", "x"] == "two"
    with pytest.raises(captau.InputError, match="there is no table 2; there are 2 tables, and the"):
        results.table(2)
    page = results._repr_html_()
    assert page.count("<table") == 2
    assert page.index("one") < page.index("two")


def test_judgements_are_items_ratings_and_preferences() -> None:
    frames = {f"{n}.parquet": pd.DataFrame({n: [1]}) for n in ("preferences", "ratings", "items")}
    found = Results(frames, {}).judgements
    assert found is not None
    assert [list(frame) for frame in (found.items, found.ratings, found.preferences)] == [
        *(["items"], ["ratings"], ["preferences"])
    ]


def test_files_of_a_run_end_with_its_record() -> None:
    table = ResultTable("T", "row", ["x"], [Row("r", ["1"])])
    frames = {"a.csv": pd.DataFrame({"a": [1]}), "b.parquet": pd.DataFrame({"b": [2]})}
    results = Results(
        frames,
        {"command": "x"},
        tables=[table],
        figures={"f.svg": b"f"},
        other_files={"o.txt": b"o"},
    )
    files = results.files()
    assert list(files) == [
        *("a.csv", "b.parquet", "o.txt", "table.md", "table.tex", "f.svg", "run.json")
    ]
    assert files["a.csv"] == b"a\n1\n"
    assert pd.read_parquet(io.BytesIO(files["b.parquet"]))["b"].tolist() == [2]
    assert list(json.loads(files["run.json"])["files"]) == list(files)[:-1]
    assert results.summary == ""
    assert results.to_latex().count("tabular") == 2


@pytest.mark.parametrize(
    ("kind", "form", "asked"),
    [
        (None, "svg", ((), ("svg",))),
        ("forest", ["svg", "pdf"], (("forest",), ("svg", "pdf"))),
        (["a", "b"], "png", (("a", "b"), ("png",))),
    ],
)
def test_figures_are_drawn_from_the_files_of_a_run(
    kind: Any, form: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(folder: Path, kinds: Any, formats: Any) -> Any:
        assert (folder / "a.csv").read_bytes() == b"a\n1\n"
        return kinds, formats

    monkeypatch.setattr(charts, "draw_charts", draw)
    results = Results({"a.csv": pd.DataFrame({"a": [1]})}, {})
    assert results.plot(kind, format=form) == asked
    assert results.plot() == ((), ("svg",))
