"""`captau compare run=A,B` names what differs between two finished runs, and why; the numbers are worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.edited_runs import edited_record

RATINGS = "image,caption,value\na,a dog,1\nb,a cat,2\nc,a bus,3\nd,a hat,4\n"


def bench(captau, folder, scores, *words):
    """Run bench on four rated captions, with a file of scores as the metric."""
    captions = [row.rpartition(",")[0] for row in RATINGS.splitlines()[1:]]
    lines = [f"{c},{s}" for c, s in zip(captions, scores, strict=True)]
    Path("ratings.csv").write_text(RATINGS)
    Path("scores.csv").write_text("\n".join(["image_id,caption,score", *lines]) + "\n")
    status, _, err = captau(
        *("bench", "dataset=file", "file.path=ratings.csv", "protocol.coefficients=pearson"),
        *("metrics=file(path=scores.csv,name=Mine)", "statistics.interval=none"),
        *(f"output_dir={folder}", *words),
    )
    assert status == 0, err


def compared_rows(captau, *folders):
    """Return the table's cells, by part and what differs, and the last line."""
    status, out, err = captau("compare", f"run={','.join(folders)}")
    assert status == 0, err
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    rows = {(cells[0], cells[2]): cells[3:] for cells in lines if len(cells) in (6, 7)}
    _, _, shared = out.partition("Likely cause of what moved: ")
    if shared:
        cause = shared.partition(".\n")[0]
        rows = {
            key: [*cells, cause if key[0] in ("scores", "correlations") else ""]
            for key, cells in rows.items()
        }
    return rows, out.splitlines()[-1]


def test_equal_runs_have_no_table(captau, tmp_path):
    bench(captau, "a", [1, 2, 3, 4])
    rows, end = compared_rows(captau, "a", "a")
    assert not rows
    assert end.startswith("a and a: 0 of 1 correlations differ")


def test_scores_that_moved_are_named_with_the_parameter_behind_them(captau, tmp_path):
    """Scores 1, 2, 3, 4 have r = 1 with ratings 1, 2, 3, 4, and 1, 2, 4, 3 have r = 4/5."""
    bench(captau, "a", [1, 2, 3, 4])
    bench(captau, "b", [1, 2, 4, 3])
    rows, end = compared_rows(captau, "a", "b")
    old, new, change, cause = rows["correlations", "file overall r"]
    assert (float(old), float(new), float(change)) == (100, 80, -20)
    assert cause.startswith("parameter path: sha256-")
    (moved,) = [cells for (part, what), cells in rows.items() if part == "scores"]
    assert [float(cell) for cell in moved[:2]] in ([3, 4], [4, 3])
    assert end.startswith("a and b: 1 of 1 correlations differ")


def test_options_versions_and_data_are_named(captau, tmp_path):
    bench(captau, "a", [1, 2, 3, 4])
    bench(captau, "b", [1, 2, 4, 3], "protocol.undefined=drop", "floors=true")
    with edited_record(tmp_path / "a") as record:
        record["versions"]["numpy"] = "0.1"
        record["data"]["file"]["digest"] = "0" * 64
    rows, _ = compared_rows(captau, "a", "b")
    assert rows["options", "protocol.undefined"][:2] == ["–", "drop"]
    assert rows["options", "floors"][:2] == ["False", "True"]
    assert rows["versions", "numpy"][0] == "0.1"
    assert rows["data", "file digest"][0] == "0" * 12
    assert rows["correlations", "file overall r"][3] == "protocol.undefined: nan → drop"
    assert rows["correlations", "file"][:2] == ["–", "there"]  # the floors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run=a,b,c"], "run= names 3 folders; two runs are compared"),
        (["run=a,b", "metrics=text"], "leave out metrics="),
        (["run=a,b"], "run=a is not a folder"),
    ],
)
def test_a_wrong_comparison_of_runs_is_one_line(words, message, captau):
    status, _, err = captau("compare", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
