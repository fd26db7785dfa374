"""Packed files: known by their first bytes, unpacked from the beginning, and left open."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import pyarrow as pa
import pytest

from captau.datasets.reading.packed_files import find_packing, unpack, unpacked, without_packing
from tests.conftest import says

CONTENT = "a dog\nzwei Mädchen\n".encode() * 50_000
PACKED = {
    "gzip": gzip.compress(CONTENT),
    "bzip2": bz2.compress(CONTENT),
    "xz": lzma.compress(CONTENT),
    "Zstandard": pa.compress(CONTENT, codec="zstd", asbytes=True),
    "LZ4": pa.compress(CONTENT, codec="lz4", asbytes=True),
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_packed_stream_is_read_from_its_beginning_as_often_as_is_wanted(packing: str) -> None:
    stream = io.BytesIO(PACKED[packing])
    assert find_packing(PACKED[packing]) == packing
    for _ in range(2):
        stream.seek(9)
        with unpacked(stream, "it") as content:
            assert content.readline() == b"a dog\n"
            assert content.read() == CONTENT[6:]
    assert not stream.closed
    with says(f"it: not a complete {packing} file (", "; get a new copy"):
        unpack(PACKED[packing][:-12], "it", 1 << 30)


def test_other_content_stays_as_it_is() -> None:
    for content in (b"", b"{", b"BZ", b"a dog"):
        assert find_packing(content) is None
        assert unpack(content, "it", 0) == content
        with unpacked(io.BytesIO(content), "it") as stream:
            assert stream.read() == content


def test_more_than_memory_should_hold_is_refused() -> None:
    packed = PACKED["bzip2"]
    assert unpack(packed, "it", len(CONTENT)) == CONTENT
    with says("it: more than 0 MB when it is unpacked; unpack it"):
        unpack(packed, "it", len(CONTENT) - 1)


def test_errors_of_the_system_stay_its_own() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        unpack_stream(Broken(PACKED["gzip"]))


def unpack_stream(stream: io.BytesIO) -> bytes:
    """Return what a stream holds."""
    with unpacked(stream, "it") as content:
        return content.read()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl.gz", "a.jsonl"),
        ("a.csv.XZ", "a.csv"),
        ("a.gz.gz", "a.gz"),
        ("a.json", "a.json"),
        (".zst", ""),
    ],
)
def test_names_without_the_ending_of_a_packing(name: str, expected: str) -> None:
    assert without_packing(name) == expected


@pytest.mark.parametrize(
    "code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_wide_text_is_known_with_and_without_its_mark(code: str) -> None:
    text = '{"7": "ein Mädchen"}'
    packed = gzip.compress(text.encode(code))
    for content in (text.encode(code), packed):
        assert unpack(content, "it", 1 << 20).decode() == text
        with unpacked(io.BytesIO(content), "it") as stream:
            assert stream.read().decode() == text
    with says("it: not complete UTF-", " text; get a new copy"):
        unpack(text.encode(code)[:-1], "it", 1 << 20)
