"""Taking in what was got by hand, as its authors ship it, and what the data folder says of itself."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from captau.datasets import registry
from captau.datasets.download.imports import OfferedFile, count_common_folders, shipped_names, take
from captau.datasets.download.writing import arriving, write
from captau.datasets.errors import InputError
from captau.datasets.reading.source_files import fits, missing, size, state, used
from captau.datasets.schema import Card, SourceFile


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


PAGE = "https://example.org/page"
RATINGS = SourceFile("mine/ratings.tsv", PAGE, sha(b"ratings"))
TEXTS = SourceFile("common/texts.json", f"{PAGE}/raw/theirs.json", alternative=True)
CARD = Card("mine", "Mine", "1", "", "", "", sources=(RATINGS, TEXTS))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def files(folder: Path, **contents: bytes) -> Path:
    """A folder with files; `__` in a name is a slash, and the ending is .tsv."""
    for name, content in contents.items():
        path = folder / f"{name.replace('__', '/')}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def packed(folder: Path, kind: str) -> Path:
    target = folder.with_name(f"given.{kind}")
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    if kind == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            for path in paths:
                archive.write(path, path.relative_to(folder))
    else:
        with tarfile.open(target, "w:gz") as archive:
            for path in paths:
                archive.add(path, path.relative_to(folder))
    return target


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
def test_files_are_found_wherever_they_lie(tmp_path: Path, root: Path, kind: str) -> None:
    given = files(tmp_path / "given", deep__down__RATINGS=b"ratings", other=b"x")
    (given / "theirs.json").write_bytes(b"{}")
    given = given if kind == "folder" else packed(given, kind)
    notes: list[str] = []
    assert take(CARD, given, root, notes.append) == [
        root / "mine/ratings.tsv",
        root / "common/texts.json",
    ]
    assert (root / "mine/ratings.tsv").read_bytes() == b"ratings"
    assert (root / "common/texts.json").read_bytes() == b"{}"
    assert notes[0].endswith("ratings.tsv: from deep/down/RATINGS.tsv; of the card's revision")
    assert notes[1].endswith("texts.json: from theirs.json; no hash of it is known")
    hidden = [p.name for p in root.rglob(".*")]
    assert hidden == [".captau.lock"]


def test_a_single_file_of_any_name(tmp_path: Path, root: Path) -> None:
    given = tmp_path / "download (1)"
    given.write_bytes(b"ratings")
    assert take(CARD, given, root) == [root / "mine/ratings.tsv"]
    blob = replace(RATINGS, sha256="", git_blob=hashlib.sha1(b"blob 7\0ratings").hexdigest())
    assert take(replace(CARD, sources=(blob,)), given, tmp_path / "other")


def test_another_revision_is_taken_with_a_warning(tmp_path: Path, root: Path) -> None:
    notes: list[str] = []
    take(CARD, files(tmp_path / "given", ratings=b"newer"), root, notes.append)
    assert (root / "mine/ratings.tsv").read_bytes() == b"newer"
    assert "warning: its hash is not that of the card's revision" in notes[0]
    assert state(root, CARD, RATINGS) == "differs"


def test_the_right_file_stays(tmp_path: Path, root: Path) -> None:
    take(CARD, files(tmp_path / "a", ratings=b"ratings"), root)
    notes: list[str] = []
    assert take(CARD, files(tmp_path / "b", ratings=b"newer"), root, notes.append) == []
    assert notes == [f"{root / 'mine/ratings.tsv'}: is there, and right"]
    assert (root / "mine/ratings.tsv").read_bytes() == b"ratings"


def test_of_two_files_of_a_name_the_hash_decides(tmp_path: Path, root: Path) -> None:
    given = files(tmp_path / "given", mine__ratings=b"newer", old__ratings=b"ratings")
    take(CARD, given, root)
    assert (root / "mine/ratings.tsv").read_bytes() == b"ratings"


def test_then_the_folder_decides(tmp_path: Path, root: Path) -> None:
    given = files(tmp_path / "given", x__Mine__ratings=b"a", y__ratings=b"b")
    take(CARD, given, root)
    assert (root / "mine/ratings.tsv").read_bytes() == b"a"


def test_then_nobody_does(tmp_path: Path, root: Path) -> None:
    given = files(tmp_path / "given", x__ratings=b"a", y__ratings=b"b")
    with pytest.raises(InputError, match=r"both x/ratings.tsv and y/ratings.tsv may be mine/"):
        take(CARD, given, root)
    assert not root.exists()
    files(given, y__ratings=b"a")
    assert take(CARD, given, root), "two copies of one file are no question"


def test_another_datasets_file_is_none_of_ours(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Composite's three databases have one name."""
    given = files(tmp_path / "given", theirs__ratings=b"theirs")
    other = replace(
        CARD, name="other", sources=(SourceFile("o/ratings.tsv", PAGE, sha(b"theirs")),)
    )
    monkeypatch.setattr(registry, "names", lambda: ["other"])
    monkeypatch.setattr(registry, "card", lambda _: other)
    with pytest.raises(InputError, match=r"dataset mine: .* has none of its files \(ratings.tsv, "):
        take(CARD, given, root)


def test_parts_and_other_forms(tmp_path: Path, root: Path) -> None:
    """Where a file is not there itself, what else it may be is taken, in all its parts."""
    source = SourceFile("mine/all.csv", PAGE, also=("mine/data/test-*.tsv", "mine/test.tsv"))
    card = replace(CARD, sources=(source,))
    given = files(tmp_path / "given", data__test_0=b"0", data__test_1=b"1", test=b"x")
    for part in "01":
        (given / f"data/test_{part}.tsv").rename(given / f"data/test-{part}.tsv")
    assert take(card, given, root) == [root / f"mine/data/test-{n}.tsv" for n in "01"]
    assert state(root, card, source) == "unchecked"
    assert size(root, card) == 2
    assert missing(root, card) == []


def test_unless_sure_only_what_is_surely_ours_is_taken(tmp_path: Path, root: Path) -> None:
    """As with dataset=all, and a folder of whatever one has downloaded."""
    source = SourceFile("mine/all.csv", PAGE, also=("mine/test*.tsv",))
    card = replace(CARD, sources=(source, RATINGS))
    given = files(tmp_path / "given", test=b"x", ratings=b"newer")
    with pytest.raises(InputError, match="none of its files"):
        take(card, given, root, is_named=False)
    files(given, Mine__1_test=b"no", Mine__test=b"yes", ratings=b"ratings")
    paths = [root / "mine/test.tsv", root / "mine/ratings.tsv"]
    assert take(card, given, root, is_named=False) == paths
    assert (root / "mine/test.tsv").read_bytes() == b"yes"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere", "does not exist; name a folder, an archive or a file"),
        ("empty", "has none of its files (ratings.tsv, texts.json)"),
        ("evil.zip", "would lead out of the folder"),
    ],
)
def test_bad_sources(tmp_path: Path, root: Path, given: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("ratings.tsv", b"ratings")
        archive.writestr("../evil", b"x")
    with pytest.raises(InputError) as caught:
        take(CARD, tmp_path / given, root)
    assert said in str(caught.value)
    assert not root.exists()


def test_shipped_names() -> None:
    """As the pinned addresses call them, and `captau collect export`."""
    cards = registry.card("capeval1k")
    assert [sorted(shipped_names(s)) for s in cards.sources] == [
        ["data.mdb"],
        ["bert-base-cased-vocab.txt", "vocab.txt"],
        ["karpathy_test_references.json", "reference_captions.json"],
        ["capeval.csv"],
    ]


# The data folder.


def test_stand_ins(root: Path) -> None:
    assert used(root, CARD) == [RATINGS]
    assert missing(root, CARD) == [RATINGS]
    (root / "common").mkdir(parents=True)
    (root / "common/texts.json").write_bytes(b"{}")
    assert used(root, CARD) == [TEXTS]
    assert missing(root, CARD) == []
    assert size(root, CARD) == 2
    (root / "mine").mkdir()
    (root / "mine/ratings.tsv").write_bytes(b"ratings")
    assert used(root, CARD) == [RATINGS]
    assert state(root, CARD, RATINGS) == "right"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        fits(tmp_path, RATINGS)


def test_nothing_arrives_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("earlier")
    with pytest.raises(TypeError), arriving(path) as temporary:
        write([b"later", "no bytes"], temporary)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "path", "n_folders"),
    [
        ("f", "f", 0),
        ("a/f", "f", 0),
        ("a/f", "a/g", 1),
        ("A/b/f", "a/B/f", 2),
        ("x/b/f", "a/b/f", 1),
        ("a/x/f", "a/b/f", 0),
        ("c/a/b/f", "a/b/f", 2),
        ("a/b/c/f", "x/y/c/f", 1),
        ("a/b/c/f", "x/b/c/f", 2),
    ],
)
def test_the_folders_right_above_a_file_that_are_the_same(
    name: str, path: str, n_folders: int
) -> None:
    assert count_common_folders(name, path) == n_folders


def test_an_offered_file_is_right_by_sha_256_or_by_the_blob_id_of_git() -> None:
    """A blob id is the SHA-1 of "blob", the size, a zero byte and the content."""
    offered = OfferedFile("f", lambda: iter([b"rat", b"ings"]))
    blob = hashlib.sha1(b"blob 7\0ratings").hexdigest()
    assert offered.is_right(SourceFile("f", PAGE, sha(b"ratings")))
    assert offered.is_right(SourceFile("f", PAGE, git_blob=blob))
    assert offered.is_right(SourceFile("f", PAGE, sha(b"ratings"), git_blob="x"))
    assert not offered.is_right(SourceFile("f", PAGE, sha(b"x"), git_blob=blob))
    assert not offered.is_right(SourceFile("f", PAGE, git_blob="x"))
    assert not offered.is_right(SourceFile("f", PAGE))
