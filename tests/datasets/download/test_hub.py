"""Downloads from Hugging Face's hub, against a server on this machine that stands for it; the hub itself was not asked.

The list of files has the shape that huggingface_hub's client reads: `type`, `path`, `oid`, `size` and, of large files, `lfs.oid`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from captau.datasets import registry
from captau.datasets.download.fetch import fetch, sources_to_fetch
from captau.datasets.download.hub import files_of, listing_of
from captau.datasets.download.web_file import FetchLimits
from captau.datasets.errors import InputError
from captau.datasets.reading.source_files import hub_file, locate_all, state
from captau.datasets.schema import Card, SourceFile

QUICK = FetchLimits(tries=0, timeout=5)
PARTS = {f"data/train-0000{i}-of-00002.parquet": bytes([i]) * 3000 for i in range(2)}
TRAIN = hub_file(
    "mine/train.csv",
    "we/mine",
    "a" * 40,
    "data/train-*.parquet",
    also=("mine/data/train*.parquet",),
)
LISTING = f"/api/datasets/we/mine/tree/{'a' * 40}/data"
RESOLVED = f"/datasets/we/mine/resolve/{'a' * 40}/"


def card(*sources: SourceFile) -> Card:
    return Card("mine", "Mine", "1", "", "", "", sources=sources)


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def hub(site, monkeypatch):
    """A mirror with two large files and a small one."""
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    files = {**PARTS, "data/notes.txt": b"not asked for"}
    entries = [{"type": "directory", "oid": "b" * 40, "size": 0, "path": "data/more"}]
    for path, content in files.items():
        site.files[RESOLVED + path] = content
        large = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        entries.append(
            {"type": "file", "oid": blob(content), "size": len(content), "path": path, "lfs": large}
        )
    site.files[LISTING] = json.dumps(entries).encode()
    return site


def fails(one: Card, root: Path) -> str:
    with pytest.raises(InputError) as caught:
        fetch(one, root, QUICK)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_files_of_a_pattern(hub, tmp_path) -> None:
    notes: list[str] = []
    done = fetch(card(TRAIN), tmp_path, QUICK, note=notes.append)
    assert done == [tmp_path / "mine" / path for path in PARTS]
    assert [path.read_bytes() for path in locate_all(tmp_path, card(TRAIN), TRAIN)] == [
        *PARTS.values()
    ]
    assert notes[0].startswith("mine/train.csv: 2 files, 6,000 bytes in all, with the hashes that ")
    assert [path for path, _ in hub.asked] == [LISTING, *(RESOLVED + path for path in PARTS)]
    assert fetch(card(TRAIN), tmp_path, QUICK) == []


def test_a_download_that_broke_off_between_parts_goes_on(hub, tmp_path) -> None:
    first, second = PARTS
    content = hub.files.pop(RESOLVED + second)
    assert f"{second}: 404" in fails(card(TRAIN), tmp_path).replace(RESOLVED, "")
    assert state(tmp_path, card(TRAIN), TRAIN) == "missing"
    hub.files[RESOLVED + second] = content
    hub.asked.clear()
    assert fetch(card(TRAIN), tmp_path, QUICK) == [tmp_path / "mine" / second]
    assert RESOLVED + first not in [path for path, _ in hub.asked]


def test_a_part_of_another_hash_is_refused(hub, tmp_path) -> None:
    first = next(iter(PARTS))
    hub.files[RESOLVED + first] = b"another"
    message = fails(card(TRAIN), tmp_path)
    assert f"{hashlib.sha256(PARTS[first]).hexdigest()}" in message
    assert not (tmp_path / "mine" / first).exists()


def test_a_small_file_is_checked_by_its_git_blob_id(hub, tmp_path) -> None:
    entry = {"type": "file", "oid": blob(b"a,b"), "size": 3, "path": "data/train-0.parquet"}
    hub.files[LISTING] = json.dumps([entry]).encode()
    hub.files[RESOLVED + "data/train-0.parquet"] = b"a;b"
    assert f"the git blob id of mine/data/train-0.parquet there is {blob(b'a;b')}" in fails(
        card(TRAIN), tmp_path
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "no file of that name"),
        (b"<html>", "no list of files"),
        (b'{"error": "?"}', "'path' is missing"),
        (b'["data"]', "an object is expected, not str"),
    ],
)
def test_a_list_that_is_none(hub, tmp_path, content, said) -> None:
    hub.files[LISTING] = content
    assert said in fails(card(TRAIN), tmp_path)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("name", ["data/train-*.parquet", "train.csv"])
def test_a_gated_set_names_the_remedy(hub, tmp_path, status, name) -> None:
    hub.statuses = [status]
    message = fails(card(hub_file("mine/train.csv", "we/mine", "main", name)), tmp_path)
    assert f"{status} " in message
    assert (
        "accept the terms on https://huggingface.co/datasets/we/mine, and set HF_TOKEN to a token"
        in message
    )


def test_the_token_goes_to_the_hub_alone(hub, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.files["/other"] = b"x"
    elsewhere = SourceFile("mine/other", "", downloads=(f"{hub.url}/other",))
    fetch(card(TRAIN, elsewhere), tmp_path, QUICK)
    assert {path: headers.get("Authorization") for path, headers in hub.asked} == {
        LISTING: "Bearer secret",
        **{RESOLVED + path: "Bearer secret" for path in PARTS},
        "/other": None,
    }


def test_an_unknown_hash_is_recorded_and_kept_to(hub, tmp_path) -> None:
    one = hub_file("mine/train.csv", "we/mine", "main", "train.csv")
    address, path = "/datasets/we/mine/resolve/main/train.csv", tmp_path / "mine/train.csv"
    hub.files[address] = b"a,b\n"
    digest = hashlib.sha256(b"a,b\n").hexdigest()
    notes: list[str] = []
    fetch(card(one), tmp_path, QUICK, note=notes.append)
    assert notes[-1].endswith(f"; no hash of it was known, train.csv.sha256 keeps SHA-256 {digest}")
    record = tmp_path / "mine/train.csv.sha256"
    assert record.read_text() == f"{digest}  train.csv\n"
    assert state(tmp_path, card(one), one) == "right"
    path.write_bytes(b"changed")
    assert state(tmp_path, card(one), one) == "differs"
    hub.files[address] = b"a,c\n"
    message = fails(card(one), tmp_path)
    assert f", not {digest}; delete {record} to take the new file" in message
    assert path.read_bytes() == b"changed"
    record.write_text("?")
    with pytest.raises(InputError, match="not a line of sha256sum; delete it"):
        state(tmp_path, card(one), one)
    record.unlink()
    path.unlink()
    fetch(card(one), tmp_path, QUICK)
    assert path.read_bytes() == b"a,c\n"


@pytest.mark.parametrize("name", ["polaris", "nebula", "longcap_arena", "caption_quality"])
def test_the_cards_name_addresses(name, tmp_path) -> None:
    sources = sources_to_fetch(tmp_path, registry.card(name))
    assert sources
    assert all(source.is_downloaded for source in sources)


def test_files_of_a_pattern_have_the_hash_that_the_hub_lists() -> None:
    """Of several addresses the first one is asked; other folders and names are none of its files."""
    source = replace(TRAIN, downloads=(*TRAIN.downloads, "https://example.org/train.csv"))
    (first,) = TRAIN.downloads
    page = first.partition("/resolve/")[0]
    entries = [
        {"path": "data/train-1.parquet", "size": 5, "oid": "s1", "lfs": {"oid": "l1", "size": 5}},
        {"path": "data/train-2.parquet", "size": 7, "oid": "s2"},
        {"path": "data/test-1.parquet", "size": 11, "oid": "s3"},
        {"path": "data/more/train-1.parquet", "size": 13, "oid": "s4"},
    ]
    files, n_bytes = files_of(source, entries, "there")
    assert n_bytes == 12
    assert files == [
        replace(
            source,
            path=f"mine/data/train-{n}.parquet",
            sha256=sha256,
            git_blob=git_blob,
            downloads=(f"{page}/resolve/{'a' * 40}/data/train-{n}.parquet",),
            also=(),
        )
        for n, sha256, git_blob in ((1, "l1", ""), (2, "", "s2"))
    ]
    assert listing_of(source).endswith(f"/api/datasets/we/mine/tree/{'a' * 40}/data")
    assert listing_of(replace(source, downloads=("https://example.org/a*b",))) == ""
    assert listing_of(replace(source, downloads=())) == ""
    assert listing_of(replace(source, downloads=(first.replace("*", "1"),))) == ""
