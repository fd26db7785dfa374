"""`captau validate`: every fault is found, in one pass, whatever the file is."""

from __future__ import annotations

import io
import json
import os
import random
import stat
import struct
import zipfile
from pathlib import Path

import pandas as pd
import pytest

import captau
from captau.benchmarks.commands import validate as module
from captau.benchmarks.commands.validate import Verdict, check_captions, validate
from captau.benchmarks.options.validate import ValidateOptions
from captau.benchmarks.scoring import submission_archive
from captau.benchmarks.scoring.submission_archive import Faults
from captau.datasets.errors import InputError
from captau.datasets.reading import json_files, json_source
from captau.datasets.reading.caption_files import read_candidates
from captau.datasets.reading.table import Columns
from tests.conftest import AWKWARD, run_captau, says

NAME = "captions_test2014_mine_results.json"
ROWS = [
    {"image_id": 42, "caption": "a dog runs"},
    {"image_id": 7, "caption": "two cats"},
    {"image_id": "a.jpg", "caption": "Ein Mädchen 🐕\u2028läuft"},
]
REFERENCES = {"42": ["a secret reference"], "7": ["another"], "a.jpg": ["a third"]}


def but_for_sites(path: Path) -> str:
    """Return what a verdict adds on captions in a table, which a challenge's site refuses."""
    if path.suffix == ".jsonl":
        return ""
    return "; a challenge takes captions as JSON, JSON lines or a zip, and not as a table"


def check(path: Path, **options) -> Verdict:
    return validate(ValidateOptions(file=path, **options))


def submitted(tmp_path: Path, content: object, name: str = "c.json") -> Path:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
    return path


def zipped(tmp_path: Path, *files: tuple[str | zipfile.ZipInfo, bytes], method: int = 8) -> Path:
    path = tmp_path / "c.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path


GOOD = json.dumps(ROWS).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", json.dumps(ROWS)),
        ("c.json", "\ufeff" + json.dumps(ROWS, indent=1, ensure_ascii=False)),
        ("c.json", {str(r["image_id"]): r["caption"] for r in ROWS}),
        ("c.jsonl", "\r\n".join(json.dumps(r) for r in ROWS)),
        ("c.txt", "\n\n".join(json.dumps(r, ensure_ascii=False) for r in ROWS) + "\n"),
    ],
)
def test_each_form_is_valid_with_what_it_says(tmp_path, name, content):
    path = submitted(tmp_path, content, name)
    references = submitted(tmp_path, REFERENCES, "r.json")
    verdict = check(path, references=references)
    assert verdict == Verdict([], 0, f"{path}: valid: 3 captions")
    assert len(read_candidates(path).captions) == 3


def test_a_zip_of_one_set_and_of_both(tmp_path):
    path = zipped(tmp_path, (NAME, GOOD), ("__MACOSX/._" + NAME, b"x"), (".DS_Store", b"x"))
    assert check(path).summary == f"{path}: valid: 3 captions"
    two = zipped(tmp_path, (NAME, GOOD), (NAME.replace("test", "val"), GOOD[:-1] + b"]"))
    assert check(two).summary == f"{two}: valid: 3 captions and 3 captions"
    references = submitted(tmp_path, REFERENCES, "r.json")
    with says("results on 2 sets", "member=NAME"):
        check(two, references=references)
    assert not check(two, references=references, member=NAME).n_faults
    with says("member=other.json is not in it"):
        check(two, member="other.json")
    with says("member=other.json names a file in a zip archive"):
        check(submitted(tmp_path, ROWS), member="other.json")


def test_of_a_zip_the_results_with_the_references_images_are_checked_against_them(tmp_path):
    """Validation and test results in one zip (Chen et al. 2015, section 5); the images tell which is which."""
    validation = NAME.replace("test", "val")
    others = json.dumps([{"image_id": n, "caption": "a dog"} for n in (1, 2)]).encode()
    references = submitted(tmp_path, REFERENCES, "r.json")
    for contents in ((GOOD, others), (others, GOOD)):
        two = zipped(tmp_path, *zip((NAME, validation), contents, strict=True))
        covering = (NAME, validation)[contents.index(GOOD)]
        verdict = check(two, references=references)
        assert not verdict.faults
        assert verdict.summary.endswith(f"{covering} is of the references' images")
    lacking = json.dumps(ROWS[:2]).encode()
    two = zipped(tmp_path, (NAME, lacking), (validation, others))
    assert check(two, references=references).faults == [
        f"{two}: {NAME}: no caption of image 'a.jpg'"
    ]
    two = zipped(tmp_path, (NAME, others), (validation, b"["))
    with says(
        "it holds results on 2 sets, and the references have 0 images of each", "member=NAME"
    ):
        check(two, references=references)


def test_every_fault_is_listed_up_to_the_limit(tmp_path):
    rows = [
        *ROWS,
        {"image_id": 42, "caption": "again"},
        {"image_id": 8, "caption": "nobody asked"},
        {"image_id": 9.5, "caption": "half"},
        {"image_id": True, "caption": "yes"},
        {"caption": "whose?"},
        {"image_id": 10},
        {"image_id": 11, "caption": None},
        {"image_id": 12, "caption": " .\u2028 ! "},
        {"image_id": 13, "caption": ""},
        ["a list"],
        {"image_id": 14, "caption": "half \ud83d a character"},
    ]
    twice = '{"image_id": 15, "caption": "one", "caption": "two"}'
    text = json.dumps(rows)[:-1] + f", {twice}]"
    path = submitted(tmp_path, text)
    verdict = check(path, limit=100)
    keys = "names another key; there are:"
    lost = (
        "the caption holds the sign of a character that was lost, \ufffd: 'half \ufffd a character'"
    )
    assert [line.removeprefix(f"{path}:1: ") for line in verdict.faults] == [
        "entry 3: a second caption for image '42', whose first is on line 1; keep one per image",
        "entry 5: 'image_id' is 9.5, not str or int",
        "entry 6: 'image_id' is True, not str or int",
        f"entry 7: 'image_id' is missing; columns.image_id=KEY {keys} caption",
        f"entry 8: 'caption' is missing; columns.caption=KEY {keys} image_id",
        "entry 12: a list, whose elements have no names; write objects with image_id and caption, as pandas' "
        "to_json(orient='records') does",
        "'caption' appears twice in one object; keep one of them",
        "image '11': the caption is empty, punctuation apart",
        "image '12': the caption is empty, punctuation apart",
        "image '13': the caption is empty, punctuation apart",
        f"image '14': {lost}",
    ]
    assert verdict.n_faults == 11
    first_faults = check(path, limit=2)
    assert first_faults.faults == verdict.faults[:2]
    assert "11 faults, the first 2 listed" in first_faults.summary


def test_images_against_the_references(tmp_path):
    references = submitted(tmp_path, {**REFERENCES, "5": ["x"], "6": ["y"]}, "r.json")
    path = submitted(tmp_path, [*ROWS, {"image_id": 8, "caption": "a"}])
    verdict = check(path, references=references)
    assert verdict.faults == [
        f"{path}:1: unknown image '8'",
        f"{path}: no caption of image '5'",
        f"{path}: no caption of image '6'",
    ]
    for reference in ("secret", "another", "third"):
        assert reference not in "".join(verdict.faults)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("c.json", b"", ["c.json:1", "not valid JSON"]),
        ("c.json", b"[]", ["it contains no captions"]),
        ("c.json", b"{}", ["it contains no captions"]),
        ("c.json", b"3", ["not int"]),
        ("c.json", b"null", ["not NoneType"]),
        ("c.json", GOOD[:-5], ["c.json:1", "not valid JSON (Unterminated string"]),
        ("c.json", GOOD + b"]", ["Extra data"]),
        ("c.json", b'[{"image_id": 1,\n"caption": "\xff"}]', ["c.json:2", "not UTF-8"]),
        ("c.json", b"[" * 100_000, ["nested too deeply"]),
        ("c.json", b"[" + b"9" * 5000 + b"]", ["c.json:1: a number of more than 4300 digits"]),
        ("c.json", b'{"1": "a", "1": "b"}', ["'1' appears twice"]),
        ("c.jsonl", b'{"image_id": 1, "caption": "a"}\n{"image_id"\n3\n', [":2", ":3"]),
        ("c.zip", GOOD, ["not a complete zip"]),
    ],
)
def test_broken_files(tmp_path, name, content, parts):
    path = submitted(tmp_path, content, name)
    verdict = check(path)
    assert verdict.n_faults
    for part in parts:
        assert part in "\n".join(verdict.faults)


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(NAME)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ([], "it contains no results"),
        ([("readme.txt", b"x")], "'readme.txt': not the name of a results file"),
        ([("results/" + NAME, GOOD)], "a folder or a path"),
        ([("../" + NAME, GOOD)], "a folder or a path"),
        ([("/etc/passwd", GOOD)], "a folder or a path"),
        ([("..\\" + NAME, GOOD)], "a folder or a path"),
        ([("C:" + NAME, GOOD)], "a folder or a path"),
        ([("empty/", b"")], "a folder or a path"),
        ([(NAME.replace("mine", "m\nx"), GOOD)], "not the name of a results file"),
        ([(NAME.replace("mine", "mïne"), GOOD)], "not the name of a results file"),
        ([(link(), b"/etc/passwd")], "a link"),
        ([(NAME, b"PK\x03\x04 another zip")], "an archive within"),
        ([(NAME, b"\x1f\x8b\x08 gzip")], "an archive within"),
        ([(f"{i}.json", b"") for i in range(21)], "21 files in it"),
        ([(NAME, GOOD), (NAME.replace("mine", "ours"), GOOD)], "one for each set"),
        (
            [(NAME, GOOD), (NAME.replace("test", "val").replace("mine", "ours"), GOOD)],
            "results of mine and of ours",
        ),
    ],
)
def test_odd_zips(tmp_path, files, part):
    verdict = check(zipped(tmp_path, *files))
    assert part in "\n".join(verdict.faults)
    assert "\n" not in verdict.faults[0]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path):
    verdict = check(zipped(tmp_path, (NAME, GOOD), (NAME, b"[]")))
    assert "appears twice in the archive" in verdict.faults[0]


def test_rare_methods_and_passwords(tmp_path):
    assert "rare method" in check(zipped(tmp_path, (NAME, GOOD), method=12)).faults[0]
    path = zipped(tmp_path, (NAME, GOOD))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # what an encrypted member has
    path.write_bytes(data)
    assert "has a password" in check(path).faults[0]


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    """Neither one that says its size nor one that lies about it is read beyond the limit."""
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 16)
    monkeypatch.setattr(submission_archive, "MOST_BYTES", 1 << 16)
    path = zipped(tmp_path, (NAME, b" " * (1 << 24)))
    assert path.stat().st_size < 1 << 16
    assert "more than 65,536 bytes when unpacked" in check(path).faults[0]
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 10)  # the size it claims
    path.write_bytes(data)
    assert check(path).n_faults
    half = b" " * 40_000
    two = zipped(tmp_path, (NAME, half), (NAME.replace("test", "val"), half))
    assert any("more than 65,536 bytes" in line for line in check(two).faults), "together"
    big = submitted(tmp_path, b" " * ((1 << 16) + 1))
    assert "65,536 at most are read" in check(big).faults[0]


@pytest.mark.parametrize("blanks", [" " * 5_000_000, "\n" * 900_000, " \n" * 900_000])
def test_nothing_but_blanks_is_read_once(tmp_path, blanks):
    """A file that is looked at from each of its blanks anew would take weeks."""
    assert "not valid JSON" in check(submitted(tmp_path, blanks)).faults[0]
    verdict = check(submitted(tmp_path, blanks + "\n".join(json.dumps(r) for r in ROWS)))
    assert (verdict.n_faults, verdict.summary[-10:]) == (0, "3 captions")


def test_a_thousand_broken_files_get_a_thousand_verdicts(tmp_path):
    """And what is called valid, `captau score` can read."""
    rng = random.Random(0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NAME, GOOD)
    lines = "\n".join(map(json.dumps, ROWS)).encode()
    seeds = [("c.zip", buffer.getvalue()), ("c.json", GOOD), ("c.jsonl", lines)]
    valid = 0
    for number in range(1000):
        name, seed = seeds[number % 3]
        data = bytearray(seed)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len(data) + 1)
            how = rng.randrange(4)
            if how == 0:
                data[position : position + 1] = bytes([rng.randrange(256)])
            elif how == 1:
                del data[position : position + rng.randint(1, 30)]
            elif how == 2:
                data[position:position] = rng.choice(
                    [b"\x00", b'"', b"{", b"]", b"\xff", b",", b"PK\x03\x04"]
                )
            else:
                data = data[: position + 1]
        path = submitted(tmp_path, bytes(data), name)
        verdict = check(path)
        assert (verdict.n_faults == 0) == (": valid: " in verdict.summary)
        assert len(verdict.faults) == min(verdict.n_faults, 20)
        if not verdict.n_faults and name != "c.zip":
            valid += 1
            assert read_candidates(path).captions
    assert valid > 10


def test_awkward_captions_are_valid_but_the_empty_one(tmp_path):
    rows = [{"image_id": i, "caption": text} for i, text in enumerate(AWKWARD)]
    path = submitted(tmp_path, rows)
    assert check(path).faults == [f"{path}:1: image '0': the caption is empty, punctuation apart"]


# What the paper's footnote removes, as it prints it, and as the tokeniser writes it (pycocoevalcap).
@pytest.mark.parametrize(
    "caption", ["“", "”", "‘", "’", ".", "?", "!", ",", ":", "-", "–", "…", ";"]
)
def test_punctuation_of_section_3_1_alone_is_no_caption(tmp_path, caption):
    path = submitted(tmp_path, [{"image_id": 1, "caption": f"{caption} {caption}"}])
    assert check(path).n_faults == 1


def scores_of(tmp_path: Path, frame: pd.DataFrame, name: str = "s.csv") -> Path:
    path = tmp_path / name
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("keys", [["item_id"], ["image_id", "caption"]])
def test_scores_of_a_dataset(tmp_path, ending, keys):
    items = captau.load("demo").items[keys].assign(score=0.5)
    path = scores_of(tmp_path, items, f"s.{ending}")
    assert check(path, dataset="demo").summary == f"{path}: valid: 360 scores"
    broken = pd.concat([items.iloc[1:], items.iloc[1:2].assign(score=2.0)])
    stranger = items.iloc[:1].assign(**{keys[0]: "nobody"})
    path = scores_of(tmp_path, pd.concat([broken, stranger]), f"s.{ending}")
    faults = check(path, dataset="demo").faults
    assert len(faults) == 3
    assert "a second score of" in faults[0]
    assert "unknown item 'nobody'" in faults[1]
    assert f"no score of {items[keys[0]].iloc[0]!r}" in faults[2]


def test_long_values_are_quoted_short(tmp_path):
    rows = [{"image_id": "x" * 10_000, "caption": ["y" * 10_000] * 100}, [1] * 100_000]
    verdict = check(submitted(tmp_path, rows))
    assert verdict.n_faults == 2
    assert max(map(len, verdict.faults)) < len(str(tmp_path)) + 500


def test_scores_that_are_none(tmp_path):
    path = submitted(tmp_path, "item_id,score\na,1\nb,much\nc,\nd,inf\n", "s.csv")
    verdict = check(path)
    assert [line.split(" is ")[0] for line in verdict.faults] == [
        f"{path}:{n}: the score of '{i}'" for n, i in ((3, "b"), (4, "c"), (5, "d"))
    ]
    path = submitted(tmp_path, "item,score\na,1\n", "s.csv")
    assert "no column image_id" in check(path).faults[0]
    path = submitted(tmp_path, b"PAR1 no parquet", "s.parquet")
    assert "not valid Parquet" in check(path).faults[0]
    path = submitted(tmp_path, 'item_id,score\n"a,1\n', "s.csv")
    assert "not valid CSV" in check(path).faults[0]
    assert "no scores in it" in check(submitted(tmp_path, "item_id,score\n", "s.csv")).faults[0]


def test_a_parquet_bomb_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    path = scores_of(tmp_path, pd.DataFrame({"item_id": ["a"] * 11, "score": 1.0}), "s.parquet")
    assert "11 rows; 10 at most" in check(path).faults[0]


def test_several_metrics_in_one_file(tmp_path):
    text = "metric,item_id,score\nA,x,1\nB,x,1\nA,x,2\n"
    faults = check(submitted(tmp_path, text, "s.csv")).faults
    assert len(faults) == 1
    assert "a second score of 'x' of metric 'A'" in faults[0]


def test_options_that_do_not_fit(tmp_path):
    path = submitted(tmp_path, ROWS)
    with says("no such file"):
        check(tmp_path / "none.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with says("is a pipe, which can be read once; write it into a file"):
        check(pipe)
    with says("it is a folder without a table; name a file"):
        check(tmp_path)
    with says("unknown kind 'score'", "did you mean scores"):
        check(path, kind="score")
    with says("limit is 0"):
        check(path, limit=0)
    with says("dataset=… belongs to scores"):
        check(path, kind="captions", dataset="demo")
    with says("references=… and member=… belong to captions"):
        check(path, kind="scores", references=path)
    with says("none.json"):
        check(path, references=tmp_path / "none.json")


def test_on_the_command_line(tmp_path, capsys):
    def run(*words: str):
        ended = run_captau("validate", *words)
        return ended, *capsys.readouterr()

    good, bad = submitted(tmp_path, ROWS, "a b.json"), submitted(tmp_path, b"[3, 4]", "bad.json")
    assert run(str(good)) == (0, f"{good}: valid: 3 captions\n", "")
    assert run(f"file={good}", "limit=3")[0] == 0
    status, out, err = run(str(bad), "limit=1")
    assert status == 2
    assert out == f"{bad}: not valid: 2 faults, the first 1 listed; no captions\n"
    assert err == f"captau: {bad}:1: entry 0: an object is expected, not int\n"
    assert run()[0] == 2
    assert "file=… is needed" in run()[2]
    assert run(str(good), str(bad))[0] == 2


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    path = submitted(tmp_path, GOOD)

    def fail(self, *_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(path), "open", fail)
    with says(f"{path}: cannot be read (Input/output error)"):
        check(path)


def test_a_name_that_is_too_long_cannot_be_read():
    name = Path("x" * 256)
    with says(f"{name}: cannot be read ([Errno 36] File name too long: "):
        check(name)


def test_a_text_with_too_many_containers_is_a_fault(monkeypatch):
    for reader in (json_files, json_source):
        monkeypatch.setattr(reader, "MAX_CONTAINERS", 3)
    faults = Faults(20)
    many = "more than 3 lists and objects; not a file of captions; get a new copy"
    assert check_captions(b"[[[{}]]]", Path("c.json"), "", None, faults) == 0
    lines = b'{"image_id": 1, "caption": [[[["a"]]]]}\n{"image_id": 2, "caption": "a"}'
    assert check_captions(lines, Path("c.jsonl"), "", None, faults) == 1
    assert faults.lines == [f"c.json:1: {many}", f"c.jsonl:1: {many}"]


def tables_of(tmp_path: Path, frame: pd.DataFrame) -> list[Path]:
    """Write a table in each format that `captau score` reads."""
    paths = [tmp_path / f"c.{ending}" for ending in ("csv", "tsv", "parquet", "csv.gz", "jsonl")]
    frame.to_csv(paths[0], index=False)
    frame.to_csv(paths[1], index=False, sep="\t")
    frame.to_parquet(paths[2])
    frame.to_csv(paths[3], index=False)
    frame.to_json(paths[4], orient="records", lines=True)
    try:
        frame.to_excel(tmp_path / "c.xlsx", index=False)
    except ImportError:
        return paths
    return [*paths, tmp_path / "c.xlsx"]


def test_captions_in_tables_are_checked_as_score_reads_them(tmp_path: Path) -> None:
    rows = [
        {"image_id": 42, "caption": "a reference", "prediction": "**a dog**"},
        {"image_id": 7, "caption": "a reference", "prediction": "two cats"},
        {"image_id": 9, "caption": "a reference", "prediction": ""},
    ]
    references = submitted(tmp_path, {"42": ["a"], "7": ["b"], "8": ["c"]}, "r.json")
    for path in tables_of(tmp_path, pd.DataFrame(rows)):
        verdict = check(path, references=references)
        place = path.name if path.suffix == ".parquet" else f"{path.name}:"
        assert [
            line.split(": ", 1)[0].rpartition("/")[2].startswith(place) for line in verdict.faults
        ]
        kinds = [line.rsplit(": ", 1)[-1] for line in verdict.faults]
        assert kinds == [
            "unknown image '9'",
            "the caption is empty, punctuation apart",
            "no caption of image '8'",
        ]
        (remark,) = verdict.remarks
        assert remark.endswith("image '42': the caption holds Markdown: '**a dog**'")
        assert "caption is 'prediction'" in verdict.summary
        assert "'caption' is not read" in verdict.summary


def test_the_content_of_a_table_tells_scores_from_captions(tmp_path: Path) -> None:
    captions = pd.DataFrame({"image_id": [42, 7], "caption": ["a dog", "two cats"]})
    for path in tables_of(tmp_path, captions):
        assert check(path) == Verdict([], 0, f"{path}: valid: 2 captions{but_for_sites(path)}")
        faults = check(path, kind="scores").faults
        assert "no column score" in faults[0]
    for path in tables_of(tmp_path, captions.assign(score=[0.5, 1])):
        if path.suffix != ".jsonl":
            assert check(path).summary == f"{path}: valid: 2 scores"


def test_names_of_columns_and_several_systems_are_taken(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": [42, 7], "words": ["a dog", "two cats"]})
    columns = Columns(image_id="key", caption="words")
    for path in tables_of(tmp_path, frame):
        assert (
            check(path, columns=columns).summary
            == f"{path}: valid: 2 captions{but_for_sites(path)}"
        )
    systems = [{"image_id": 42, "caption": "a", "system": name} for name in ("mine", "theirs")]
    path = submitted(tmp_path, systems)
    assert check(path).summary == f"{path}: valid: 2 captions of 2 systems"


def test_no_check_hides_the_places_of_another(tmp_path: Path) -> None:
    rows = [{"image_id": n, "caption": f"**a dog** of {'x' * n}"} for n in range(30)]
    rows[29]["caption"] = "a caf\u00c3\u00a9"
    path = submitted(tmp_path, rows)
    verdict = check(path, limit=5)
    assert len(verdict.remarks) == 7
    assert verdict.remarks[5] == "… and 24 more such lines, which a larger limit= lists"
    assert "in a wrong code" in verdict.remarks[6]
    assert "30 places may be wrong, and none is changed" in verdict.summary


def test_an_image_of_void_references_needs_no_caption(tmp_path: Path) -> None:
    annotations = [
        {"image_id": 42, "caption": "a dog", "is_rejected": False},
        {"image_id": 7, "caption": "a cat", "is_rejected": True},
    ]
    references = submitted(tmp_path, {"images": [], "annotations": annotations}, "r.json")
    for rows in (ROWS[:1], ROWS[:2]):
        verdict = check(submitted(tmp_path, rows), references=references)
        assert verdict.faults == []
        assert "1 reference is left out" in verdict.summary


def test_an_upload_of_another_program_is_called_what_it_is() -> None:
    """A challenge has the content of a file alone."""
    faults = Faults(20)
    assert check_captions(b"\x80\x04\x95\xff", Path("c.json"), "", None, faults) == 0
    assert faults.lines == [
        "c.json: it is a pickle, which could run code and is not read; write the data as JSON"
    ]


@pytest.mark.parametrize(
    ("caption", "said"),
    [
        ("a kni\0fe", "the caption holds control characters (NUL and the like): 'a kni\\x00fe'"),
        ("a kni\ud83dfe", "the caption holds the sign of a character that was lost, \ufffd"),
    ],
)
def test_nul_and_half_characters_are_faults_of_an_upload(caption: str, said: str) -> None:
    rows = [{"image_id": 42, "caption": caption}]
    faults = Faults(20)
    assert check_captions(json.dumps(rows).encode(), Path("c.json"), "", ["42"], faults) == 1
    (line,) = faults.lines
    assert said in str(InputError(line))
