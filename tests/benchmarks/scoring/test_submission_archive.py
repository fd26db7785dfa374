"""Which members of a zip are results, and the whole line that each other one gets."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from captau.benchmarks.scoring import submission_archive
from captau.benchmarks.scoring.submission_archive import Faults, is_zip, quote, results_in

MINE, MINE_VAL = "captions_test2014_mine_results.json", "captions_val2014_mine_results.json"
THEIRS = "captions_val2014_theirs_results.json"
PATH = Path("c.zip")


def pack(members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for info, content in members:
            archive.writestr(info, content)
    return buffer.getvalue()


def read(data, path=PATH):
    faults = Faults(limit=50)
    results = results_in(path, data, faults)
    assert faults.count == len(faults.lines)
    return results, faults.lines


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("c.zip", b"", True),
        ("c.ZIP", b"[]", True),
        ("c.json", b"[]", False),
        ("c.json", b"PK\x03\x04[]", True),
        ("c.json", b"PK\x05\x06", True),
        ("c.json", b"PK\x07\x08", False),
        ("c", b"xPK\x03\x04", False),
    ],
)
def test_what_is_a_zip(name, data, expected):
    assert is_zip(Path(name), data) is expected


def test_a_file_that_is_no_zip_is_one_result_without_a_name():
    assert read(b"[]", Path("c.json")) == ({"": b"[]"}, [])


NO_RESULTS = "c.zip: it contains no results; add captions_test2014_ALG_results.json"
TOP = "a folder or a path; put the results at the top of the archive"
CALL = "not the name of a results file; call it captions_test2014_ALG_results.json"
HIDDEN = [("__MACOSX/._a", "x"), (".DS_Store", "x"), ("._a.json", "x")]


@pytest.mark.parametrize(
    ("members", "results", "lines"),
    [
        ([(MINE, "[1]")], {MINE: b"[1]"}, []),
        ([(MINE_VAL, "[2]"), (MINE, "[1]")], {MINE_VAL: b"[2]", MINE: b"[1]"}, []),
        ([*HIDDEN, (MINE, "[1]")], {MINE: b"[1]"}, []),
        ([], {}, [NO_RESULTS]),
        (HIDDEN, {}, [NO_RESULTS]),
        ([(link(MINE), "/etc/passwd")], {}, [f"c.zip: '{MINE}': a link; pack the file itself"]),
        ([("a/", "")], {}, [f"c.zip: 'a/': {TOP}"]),
        ([(f"a/{MINE}", "[]"), (MINE, "[1]")], {MINE: b"[1]"}, [f"c.zip: 'a/{MINE}': {TOP}"]),
        ([("a\\b", "[]")], {}, [f"c.zip: 'a\\\\b': {TOP}"]),
        ([("c:b", "[]")], {}, [f"c.zip: 'c:b': {TOP}"]),
        ([("a.json", "[]"), (MINE, "[1]")], {MINE: b"[1]"}, [f"c.zip: 'a.json': {CALL}"]),
        (
            [(MINE_VAL, "[2]"), (THEIRS.replace("val", "test"), "[1]")],
            {MINE_VAL: b"[2]", THEIRS.replace("val", "test"): b"[1]"},
            ["c.zip: results of mine and of theirs; one at a time"],
        ),
        (
            [(MINE_VAL, "[2]"), (THEIRS, "[1]")],
            {MINE_VAL: b"[2]", THEIRS: b"[1]"},
            ["c.zip: 2 results; send one for each set, and two sets at most"],
        ),
        (
            [(MINE, "[1]"), (MINE_VAL, "[2]"), (MINE.replace("2014", "2015"), "[3]")],
            {MINE: b"[1]", MINE_VAL: b"[2]"},
            ["c.zip: 3 results; send one for each set, and two sets at most"],
        ),
        (
            [(MINE, "PK\x03\x04"), (MINE_VAL, "[2]")],
            {MINE_VAL: b"[2]"},
            [f"c.zip: {MINE}: an archive within the archive"],
        ),
    ],
)
def test_members_and_their_lines(members, results, lines):
    found, printed = read(pack(members))
    assert (list(found.items()), printed) == (list(results.items()), lines)


def test_the_name_of_an_entry_is_given_twice():
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = pack([(MINE, "[1]"), (MINE, "[2]")])
    line = f"c.zip: '{MINE}': it appears twice in the archive; keep one of them"
    assert read(data) == ({MINE: b"[1]"}, [line])


def test_methods_and_passwords():
    assert read(pack([(MINE, "[1]")], zipfile.ZIP_STORED)) == ({MINE: b"[1]"}, [])
    rare = f"c.zip: '{MINE}': packed by a rare method; pack it with the usual one"
    assert read(pack([(MINE, "[1]")], zipfile.ZIP_BZIP2)) == ({}, [rare])
    data = bytearray(pack([(MINE, "[1]")]))
    for start, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(start) + flags] |= 1
    locked = f"c.zip: '{MINE}': has a password; pack it without"
    assert read(bytes(data)) == ({}, [locked])


def test_the_most_members_and_bytes(monkeypatch):
    hidden = [(f"._{n}", "") for n in range(19)]
    assert read(pack([*hidden, (MINE, "[1]")])) == ({MINE: b"[1]"}, [])
    too_many = "c.zip: 21 files in it; results on one set or two are expected"
    assert read(pack([*hidden, ("._x", ""), (MINE, "[1]")])) == ({}, [too_many])
    monkeypatch.setattr(submission_archive, "MOST_BYTES", 1_000)
    both = [(MINE, "a" * 600), (MINE_VAL, "b" * 400)]
    assert read(pack(both)) == ({MINE: b"a" * 600, MINE_VAL: b"b" * 400}, [])
    both[1] = (MINE_VAL, "b" * 401)
    too_long = f"c.zip: {MINE_VAL}: more than 1,000 bytes when unpacked"
    assert read(pack(both)) == ({MINE: b"a" * 600}, [too_long])


def test_a_damaged_zip():
    data = pack([(MINE, "[1]")], zipfile.ZIP_STORED)
    incomplete = "c.zip: not a complete zip (File is not a zip file); pack it again"
    assert read(data[:-5]) == ({}, [incomplete])
    changed = data.replace(b"[1]", b"[2]")
    wrong = f"c.zip: not a complete zip (Bad CRC-32 for file '{MINE}'); pack it again"
    assert read(changed) == ({}, [wrong])
    # The directory has 46 bytes and the name of each member, of 60,001 or 60,002 letters.
    large = pack([(f"{n}" + "y" * 60_000, "") for n in range(18)])
    limit = "its directory has 1,080,854 bytes, where 1,048,576 at most are read"
    too_large = f"c.zip: not a complete zip ({limit}); pack it again"
    assert read(large) == ({}, [too_large])


def test_faults_are_counted_past_the_last_line():
    faults = Faults(limit=2)
    for line in "abc":
        faults.add(line)
    assert faults == Faults(2, ["a", "b"], 3)
    none = Faults(0)
    none.add("a")
    assert none == Faults(0, [], 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\nb", "'a\\nb'"),
        ("x" * 78, "'" + "x" * 78 + "'"),
        ("x" * 79, "'" + "x" * 37 + "..." + "x" * 38 + "'"),
        (10**79, "1" + "0" * 79),
        (10**80, "1" + "0" * 37 + "..." + "0" * 39),
        ([["x" * 60] * 3], f"[['{'x' * 60}', '" + "x" * 13 + "…"),
    ],
)
def test_a_value_is_quoted_in_80_characters(value, expected):
    assert quote(value) == expected
