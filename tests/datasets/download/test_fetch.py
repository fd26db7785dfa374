"""Downloads against a server on this machine that fails in every way a network does."""

from __future__ import annotations

import errno
import hashlib
import io
import re
import resource
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from captau.datasets import registry
from captau.datasets.download.archives import Archive
from captau.datasets.download.fetch import fetch
from captau.datasets.download.web_file import FetchLimits
from captau.datasets.errors import InputError
from captau.datasets.schema import Card, SourceFile

CONTENT = bytes(range(256)) * 1000
LENGTH = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = FetchLimits(tries=1, timeout=5)
ONCE = FetchLimits(tries=0, timeout=5)


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def card(*sources: SourceFile) -> Card:
    return Card("mine", "Mine", "1", "", "", "", sources=sources)


def file_at(*addresses: str, **changes) -> Card:
    source = SourceFile("mine/data.bin", "https://example.org/", SHA256, downloads=addresses)
    return card(replace(source, **changes))


def left(root: Path) -> list[str]:
    """What lies in the data folder, but for the lock."""
    names = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    return sorted(names - {".captau.lock"})


def fails(one: Card, root: Path, how: FetchLimits = QUICK) -> str:
    with pytest.raises(InputError) as caught:
        fetch(one, root, how)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("dataset mine: ") or str(root) in message
    return message


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def served(site):
    site.files["/data.bin"] = CONTENT
    return file_at(f"{site.url}/data.bin")


def test_a_download(site, served, root) -> None:
    seen: list[tuple[str, int, int]] = []
    notes: list[str] = []
    path = root / "mine" / "data.bin"
    assert fetch(served, root, QUICK, lambda *a: seen.append(a), notes.append) == [path]
    assert path.read_bytes() == CONTENT
    assert left(root) == ["mine/data.bin"]
    assert notes == [f"{path}: 256,000 bytes from {site.url}/data.bin"]
    assert seen[-1] == ("mine/data.bin", LENGTH, LENGTH)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    ((_, headers),) = site.asked
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("captau/")


def test_what_is_there_and_right_is_not_fetched_again(site, served, root) -> None:
    fetch(served, root, QUICK)
    assert fetch(served, root, QUICK) == []
    assert len(site.asked) == 1


def test_a_git_blob_id_will_do_for_a_hash(site, served, root) -> None:
    url = f"{site.url}/data.bin"
    assert fetch(file_at(url, sha256="", git_blob=blob(CONTENT)), root, QUICK)
    message = fails(file_at(url, sha256="", git_blob=blob(b"another")), root)
    assert (
        f"git blob id of mine/data.bin there is {blob(CONTENT)}, not {blob(b'another')}" in message
    )


@pytest.mark.parametrize("cut", [0, 1, LENGTH - 1])
def test_a_cut_download_starts_over(site, served, root, cut) -> None:
    site.cuts = [cut]
    fetch(served, root, QUICK)
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert left(root) == ["mine/data.bin"]
    assert len(site.asked) == 2


def test_a_connection_that_breaks_again_and_again_is_given_up(site, served, root) -> None:
    site.cuts = [1000] * 2
    assert fails(served, root).endswith("/data.bin: the connection breaks off)")
    assert left(root) == []


@pytest.mark.parametrize("earlier", [None, b"an older revision"])
def test_a_tampered_file_is_refused(site, served, root, earlier) -> None:
    site.files["/data.bin"] = CONTENT[:-1] + b"x"
    path = root / "mine" / "data.bin"
    if earlier:
        path.parent.mkdir(parents=True)
        path.write_bytes(earlier)
    message = fails(served, root)
    assert "the SHA-256 of mine/data.bin there is" in message
    assert SHA256 in message
    assert left(root) == (["mine/data.bin"] if earlier else [])
    assert not earlier or path.read_bytes() == earlier


def test_a_tampered_file_is_sought_at_the_mirror(site, served, root) -> None:
    site.files["/bad"] = b"x"
    notes: list[str] = []
    one = file_at(f"{site.url}/bad", f"{site.url}/data.bin")
    fetch(one, root, QUICK, note=notes.append)
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert len(notes) == 2
    assert notes[0].startswith(f"{site.url}/bad: the SHA-256")


def test_an_older_revision_is_replaced(site, served, root) -> None:
    path = root / "mine" / "data.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"older")
    assert fetch(served, root, QUICK) == [path]
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("first", "said"), [("/nowhere", "404 Not Found"), ("/circle", "it redirects without end")]
)
def test_the_mirror_is_next(site, served, root, first, said) -> None:
    site.redirects["/circle"] = "/circle"
    site.redirects["/moved"] = "/data.bin"
    notes: list[str] = []
    fetch(file_at(site.url + first, f"{site.url}/moved"), root, ONCE, note=notes.append)
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert notes[0] == f"{site.url}{first}: {said}"


def test_the_error_tells_each_reason_once(site, root) -> None:
    site.redirects["/circle"] = "/circle"
    addresses = [f"{site.url}/{name}" for name in ("gone", "circle", "lost")]
    notes: list[str] = []
    with pytest.raises(InputError) as error:
        fetch(file_at(*addresses, path="mine/other.bin"), root, ONCE, note=notes.append)
    assert str(error.value) == (
        f"dataset mine: mine/other.bin could not be downloaded ({addresses[0]} and {addresses[2]}: "
        f"404 Not Found; {addresses[1]}: it redirects without end)"
    )
    assert notes == [], "what the error tells is not told before"


def test_a_failing_server_is_asked_again(site, served, root) -> None:
    site.statuses = [503]
    fetch(served, root, QUICK)
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert len(site.asked) == 2


def test_a_server_that_keeps_failing_is_given_up(site, served, root) -> None:
    site.statuses = [503] * 9
    assert "503 Service Unavailable" in fails(served, root)
    assert len(site.asked) == 2
    assert left(root) == []


def test_no_server(site, served, root) -> None:
    site.close()
    assert fails(served, root, ONCE).endswith("/data.bin: the connection fails)")


def test_a_server_that_says_nothing(site, served, root) -> None:
    site.pause = 6
    how = replace(ONCE, timeout=1)
    assert fails(served, root, how).endswith("/data.bin: the connection fails)")


def test_an_address_that_is_none(root) -> None:
    assert "the request failed (InvalidSchema)" in fails(
        file_at("ftp://example.org/data.bin"), root, ONCE
    )


@contextmanager
def redirecting_over_tls(folder: Path, target: str) -> Iterator[tuple[str, Path]]:
    """A server with TLS that redirects every request; yields its address and the certificate to trust."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = (
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", certificate
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls_is_not_given_up_by_a_redirect(site, served, root, tmp_path, monkeypatch) -> None:
    with redirecting_over_tls(tmp_path, f"{site.url}/data.bin") as (url, certificate):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        message = fails(file_at(f"{url}/data.bin"), root, ONCE)
    assert "it redirects to an address without TLS" in message
    assert left(root) == []
    assert site.asked == []


def test_tls_certificates_are_checked(site, served, root) -> None:
    url = f"{site.url.replace('http:', 'https:')}/data.bin"
    assert "its TLS certificate is not trusted" in fails(file_at(url), root, ONCE)


def test_offline(site, served, root) -> None:
    message = fails(served, root, FetchLimits(offline=True))
    assert message == (
        f"dataset mine: data.offline=true, so not fetched: mine/data.bin from {site.url}/data.bin"
    )
    assert site.asked == []
    assert not root.exists()
    fetch(served, root, QUICK)
    assert fetch(served, root, FetchLimits(offline=True)) == []


def test_what_has_to_be_got_by_hand_is_said_and_the_rest_is_fetched(site, served, root) -> None:
    page = SourceFile("theirs/asked_for.txt", "https://example.org/form")
    message = fails(card(page, *served.sources), root)
    assert message == (
        "dataset mine: asked_for.txt cannot be fetched: get it from https://example.org/form and run "
        "captau data import dataset=mine source=PATH"
    )
    assert left(root) == ["mine/data.bin"]


def test_stand_ins_are_tried_where_a_file_cannot_be_had(site, served, root) -> None:
    lost = SourceFile("mine/lost.json", "", SHA256, downloads=(f"{site.url}/lost.json",))
    one = card(lost, replace(served.sources[0], alternative=True))
    notes: list[str] = []
    assert fetch(one, root, ONCE, note=notes.append) == [root / "mine/data.bin"]
    assert (
        notes[-1] == f"mine/lost.json could not be downloaded ({site.url}/lost.json: 404 Not Found)"
    )
    assert fetch(one, root, ONCE) == [], "the stand-in will do"
    del site.files["/data.bin"]
    (root / "mine/data.bin").unlink()
    message = fails(one, root, ONCE)
    assert "mine/lost.json could not be downloaded" in message
    assert "mine/data.bin could not be downloaded" in message


def test_a_stand_in_spares_a_request(site, served, root) -> None:
    page = SourceFile("theirs/asked_for.txt", "https://example.org/form")
    one = card(page, replace(served.sources[0], alternative=True))
    notes: list[str] = []
    assert fetch(one, root, QUICK, note=notes.append) == [root / "mine/data.bin"]
    assert notes[0] == "for theirs/asked_for.txt another file can stand in"


# Archives.


def zipped(members: dict[str, bytes], *, links: tuple[str, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if name in links else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tarred(
    members: dict[str, bytes], *, links: tuple[str, ...] = (), kind=tarfile.SYMTYPE
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if name in links:
                info.type, info.linkname = kind, "../../outside"
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def packed(site):
    """Two members of one archive, of which the site has none yet."""
    url = f"{site.url}/all.zip"
    return card(
        *(
            SourceFile(
                f"mine/{name}",
                "https://example.org/",
                hashlib.sha256(name.encode()).hexdigest(),
                downloads=(url,),
                member=name,
            )
            for name in ("one.txt", "two.txt")
        )
    )


GOOD = {"one.txt": b"one.txt", "two.txt": b"two.txt", "three.txt": b"unwanted"}
DEEP = {f"Text/{name}": content for name, content in GOOD.items()}


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("members", [GOOD, DEEP])
def test_the_named_members_are_taken_and_no_others(site, packed, root, pack, members) -> None:
    site.files["/all.zip"] = pack(members)
    assert fetch(packed, root, QUICK) == [root / "mine/one.txt", root / "mine/two.txt"]
    assert left(root) == ["mine/one.txt", "mine/two.txt"]
    assert (root / "mine/two.txt").read_bytes() == b"two.txt"
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (zipped({**GOOD, "../evil": b"x"}), "'../evil' in it would lead out"),
        (tarred({**GOOD, "../evil": b"x"}), "'../evil' in it would lead out"),
        (zipped({**GOOD, "a/../../evil": b"x"}), "would lead out"),
        (tarred({**GOOD, "/etc/evil": b"x"}), "'/etc/evil' in it would lead out"),
        (zipped({**GOOD, "/etc/evil": b"x"}), "'/etc/evil' in it would lead out"),
        (zipped({**GOOD, "C:\\evil": b"x"}), "would lead out"),
        (zipped({**GOOD, "a\\..\\evil": b"x"}), "would lead out"),
        (zipped({**GOOD, "link": b"/etc"}, links=("link",)), "'link' in it is a link"),
        (zipped(GOOD, links=("one.txt",)), "'one.txt' in it is a link"),
        (tarred(GOOD, links=("one.txt",)), "'one.txt' in it is a link"),
        (tarred({**GOOD, "hard": b""}, links=("hard",), kind=tarfile.LNKTYPE), "is a link"),
        (tarred({**GOOD, "dev": b""}, links=("dev",), kind=tarfile.CHRTYPE), "or a device"),
        (tarred({**GOOD, "pipe": b""}, links=("pipe",), kind=tarfile.FIFOTYPE), "or a device"),
        (zipped(GOOD)[:-40], "not a whole zip or tar archive"),
        (tarred(GOOD)[:-40], "not a whole zip or tar archive"),
        (b"<html>not found</html>", "not a whole zip or tar archive"),
        (zipped({"one.txt": b"one.txt"}), "'two.txt' is not in it"),
        (zipped({"a/one.txt": b"", "b/one.txt": b""}), "'one.txt' is not in it"),
        (zipped({**GOOD, "two.txt": b"tampered"}), "the SHA-256 of mine/two.txt there is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "archive",
)
def test_a_bad_archive_is_refused(site, packed, root, tmp_path, archive, said) -> None:
    site.files["/all.zip"] = archive
    two = root / "mine" / "two.txt"
    two.parent.mkdir(parents=True)
    two.write_bytes(b"an older revision")
    assert said in fails(packed, root)
    # `one.txt` stands only where it is right and what is wrong came after it.
    assert set(left(root)) <= {"mine/one.txt", "mine/two.txt"}
    assert two.read_bytes() == b"an older revision"
    assert (
        not (root / "mine/one.txt").exists() or (root / "mine/one.txt").read_bytes() == b"one.txt"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data"], "nothing got out"


def test_a_damaged_member(site, packed, root) -> None:
    content = bytearray(zipped(GOOD))
    content[content.index(b"one.txt") + len(b"one.txt")] ^= 0xFF
    site.files["/all.zip"] = bytes(content)
    assert "'one.txt' in it cannot be read" in fails(packed, root)
    assert left(root) == []


def test_archive_names(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_bytes(tarred(DEEP))
    with Archive(path) as archive:
        assert archive.names == list(DEEP)
        assert b"".join(archive.chunks("Text/one.txt")) == b"one.txt"


# The disk, and other processes.


class Full:
    """A stream on a disk that is full after so many bytes."""

    def __init__(self, stream, room: int) -> None:
        self.stream, self.room = stream, room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.stream.write(data)


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Let this process write no file beyond a size, as on a disk that becomes full there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_download_that_cannot_be_written(site, served, root) -> None:
    path = root / "mine" / "data.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"an older revision")
    with largest_file(100_000):
        message = fails(served, root)
    assert "cannot be written (File too large); make room or set data.root=DIR" in message
    assert left(root) == ["mine/data.bin"]
    assert path.read_bytes() == b"an older revision"
    fetch(served, root, QUICK)


def test_a_member_on_a_full_disk(site, packed, root, monkeypatch) -> None:
    site.files["/all.zip"] = zipped(GOOD)
    path = root / "mine" / "two.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"an older revision")
    opened = Path.open

    def on_a_full_disk(self, mode="r", *rest, **more):
        stream = opened(self, mode, *rest, **more)
        return Full(stream, 0) if self.name.endswith(".tmp") and "b" in mode else stream

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", on_a_full_disk)
        message = fails(packed, root)
    assert "cannot be written (No space left on device); make room or set data.root=DIR" in message
    assert left(root) == ["mine/two.txt"]
    assert path.read_bytes() == b"an older revision"
    fetch(packed, root, QUICK)


@pytest.mark.parametrize("place", ["", "mine"])
def test_a_file_where_a_folder_should_be(site, served, root, place) -> None:
    if place:
        root.mkdir()
    (root / place).write_text("x")
    assert "cannot be written" in fails(served, root)


RUN = """
import sys
from pathlib import Path
from captau.datasets.download.fetch import fetch
from captau.datasets.download.web_file import FetchLimits
from captau.datasets.schema import Card, SourceFile
url, root, digest = sys.argv[1:]
source = SourceFile("mine/data.bin", "", digest, downloads=(url,))
how = FetchLimits(tries=2)
fetch(Card("mine", "", "", "", "", "", sources=(source,)), Path(root), how, note=print)
"""


def start(site, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, f"{site.url}/data.bin", str(root), SHA256],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once(site, served, root) -> None:
    site.pause = 0.5
    runs = [start(site, root) for _ in range(2)]
    said = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert len(site.asked) == 1, "the second finds it there"
    assert sum("another captau is writing" in out for out, _ in said) <= 1
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert left(root) == ["mine/data.bin"]


def half_downloads(root: Path) -> list[Path]:
    """Return the files below the folder of downloads that have begun to fill."""
    folder = root / ".captau.downloads"
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_killed_run_leaves_no_file_of_that_name(site, served, root) -> None:
    site.pause = 1
    run = start(site, root)
    until = time.monotonic() + 60
    while not half_downloads(root) and time.monotonic() < until:
        time.sleep(0.02)
    run.kill()
    run.communicate()
    assert not (root / "mine" / "data.bin").exists()
    assert [name.startswith(".captau.downloads/") for name in left(root)] == [True]
    site.pause = 0
    fetch(served, root, QUICK)
    assert (root / "mine/data.bin").read_bytes() == CONTENT
    assert left(root) == ["mine/data.bin"]


# The cards.

SOURCES = {s.path: s for name in registry.names() for s in registry.card(name).sources}


#: Of these neither a hash nor a revision is known: the hub lists hashes, and the first download is recorded.
RECORDED = ("longcap_arena/", "caption_quality/")


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_download_is_pinned_or_checked(source: SourceFile) -> None:
    for url in source.downloads:
        assert url.startswith("https://")
        pinned = re.search(r"[/@][0-9a-f]{40}/", url)
        is_recorded = source.path.startswith(RECORDED)
        assert pinned or source.sha256 or source.git_blob or is_recorded, url
    assert re.fullmatch(r"[0-9a-f]{64}|", source.sha256)
    assert re.fullmatch(r"[0-9a-f]{40}|", source.git_blob)
    assert len(set(source.downloads)) == len(source.downloads)
    assert all(part in SOURCES.values() or part.git_blob for part in source.parts)
    if not source.is_downloaded:
        assert re.match(r"https?://", source.url), "the page to get it from by hand"


def test_one_path_is_one_file() -> None:
    """Two cards that read a file agree where it comes from, though one may need it, or take others for it, and the other not."""
    for name in registry.names():
        for source in registry.card(name).sources:
            other = SOURCES[source.path]
            use = {"alternative": False, "optional": False, "adds": "", "also": ()}
            assert replace(source, **use) == replace(other, **use)
