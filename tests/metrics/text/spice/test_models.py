"""SPICE's jars are fetched once, whole and checked; errors name the files to copy by hand."""

from __future__ import annotations

import hashlib
import threading

import pytest
from jgo.maven import _core

from captau.metrics.text.spice import models as spice_models
from captau.metrics.text.spice.models import (
    Jar,
    damaged_jars,
    fetch_jars,
    jar_folder,
    load_jars,
    missing_jars,
)
from tests.conftest import says

pytestmark = pytest.mark.java

CONTENTS = {"tool-1.0.jar": b"PK code", "tool-1.0-models.jar": b"PK models" * 1000}


def make_jar(classifier: str, content: bytes) -> Jar:
    return Jar(
        "org.example", "tool", "1.0", classifier, len(content), hashlib.sha256(content).hexdigest()
    )


@pytest.fixture
def central(site, monkeypatch, tmp_path):
    """Serve a Maven repository with two small jars instead of those that SPICE needs."""
    monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"central": site.url})
    monkeypatch.setattr(
        spice_models, "JARS", (make_jar("", b"PK code"), make_jar("models", b"PK models" * 1000))
    )
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    monkeypatch.delenv("CAPTAU_SPICE_JARS", raising=False)
    site.files |= {f"/org/example/tool/1.0/{name}": content for name, content in CONTENTS.items()}
    return site


def requested_jars(site) -> list[str]:
    return [path for path, _ in site.asked if path.endswith(".jar")]


def test_the_pinned_names_and_hashes():
    """The names and hashes of DESIGN.md, and Maven Central's names."""
    assert [j.file for j in spice_models.JARS] == [
        "stanford-corenlp-3.6.0.jar",
        "stanford-corenlp-3.6.0-models.jar",
        "rhino-1.7.15.jar",
    ]
    assert spice_models.JARS[1].coordinates == "edu.stanford.nlp:stanford-corenlp:3.6.0:models"
    assert spice_models.JARS[1].sha256.startswith("d285157bd788")
    assert [j.size for j in spice_models.JARS] == [7_270_741, 378_116_526, 1_407_735]


def test_jars_are_fetched_once(central, tmp_path):
    paths = [tmp_path / "spice_models" / name for name in CONTENTS]
    assert load_jars() == paths
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert load_jars() == paths
    assert len(requested_jars(central)) == 2
    assert sorted(p.name for p in jar_folder().iterdir()) == sorted([*CONTENTS, ".captau.lock"])


def test_present_jars_are_not_fetched_again(central):
    jar_folder().mkdir()
    (jar_folder() / "tool-1.0.jar").write_bytes(b"PK code")
    fetch_jars(jar_folder())
    assert requested_jars(central) == ["/org/example/tool/1.0/tool-1.0-models.jar"]


def test_jars_in_a_configured_folder_are_used(central, monkeypatch, tmp_path):
    carried = tmp_path / "carried"
    carried.mkdir()
    for name, content in CONTENTS.items():
        (carried / name).write_bytes(content)
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(carried))
    assert load_jars() == [carried / name for name in CONTENTS]
    assert requested_jars(central) == []


def test_without_network_the_error_names_files_and_remedies(central, monkeypatch, tmp_path):
    monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"central": "http://127.0.0.1:9"})
    with says(
        "tool-1.0.jar (org.example:tool:1.0, 0 MB)",
        "tool-1.0-models.jar (org.example:tool:1.0:models",
        "captau data fetch dataset=spice_models",
        str(tmp_path / "spice_models"),
        "java.spice=DIR",
        "CAPTAU_SPICE_JARS",
    ):
        load_jars()


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_server_that_refuses_is_an_error(status, central):
    central.statuses = [status] * 20
    with says(
        "could not be downloaded from Maven Central", "captau data fetch dataset=spice_models"
    ):
        load_jars()
    assert len(missing_jars(jar_folder())) == 2


def test_a_jar_of_another_content_is_refused(central):
    central.files["/org/example/tool/1.0/tool-1.0-models.jar"] = b"PK virus"
    with says("the SHA-256 of tool-1.0-models.jar there is"):
        load_jars()
    assert [j.file for j in missing_jars(jar_folder())] == ["tool-1.0-models.jar"]
    assert not (jar_folder() / ".maven").exists()
    central.files["/org/example/tool/1.0/tool-1.0-models.jar"] = CONTENTS["tool-1.0-models.jar"]
    assert len(load_jars()) == 2


def test_a_download_that_breaks_off_leaves_no_jar(central):
    central.cuts = [3000]
    central.files.pop("/org/example/tool/1.0/tool-1.0.jar")
    jar_folder().mkdir()
    (jar_folder() / "tool-1.0.jar").write_bytes(b"PK code")
    with says("could not be downloaded from Maven Central"):
        load_jars()
    assert [j.file for j in missing_jars(jar_folder())] == ["tool-1.0-models.jar"]
    assert len(load_jars()) == 2


def test_leftovers_of_a_killed_run_are_no_jars(central):
    torn = jar_folder() / ".maven" / "org" / "example" / "tool" / "1.0" / "tool-1.0.jar"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PK c")
    (jar_folder() / "tool-1.0-models.jar").write_bytes(b"PK m")
    assert len(load_jars()) == 2
    assert not torn.exists()
    assert not damaged_jars(jar_folder())


def test_a_changed_jar_is_not_run_and_fetch_replaces_it(central):
    jar_folder().mkdir()
    for name, content in CONTENTS.items():
        (jar_folder() / name).write_bytes(content[::-1])
    with says("tool-1.0.jar is not org.example:tool:1.0", "captau data fetch dataset=spice_models"):
        load_jars()
    assert len(fetch_jars(jar_folder())) == 2
    assert len(load_jars()) == 2


def test_two_runs_at_once_fetch_once(central):
    central.pause = 0.1
    threads = [threading.Thread(target=fetch_jars, args=(jar_folder(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(requested_jars(central)) == 2
    assert len(load_jars()) == 2


def test_a_folder_that_cannot_be_written_is_an_error(central, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(tmp_path / "file" / "jars"))
    with says("cannot be written", "java.spice=DIR"):
        load_jars()


def test_what_is_told_of_a_download(central, monkeypatch):
    sizes = {"": 60_000_000, "models": 300_000_000}
    jars = [Jar("org.example", "tool", "1.0", kind, size, "") for kind, size in sizes.items()]
    monkeypatch.setattr(spice_models, "JARS", tuple(jars))
    download = spice_models.pending_download()
    assert vars(download) == {
        **{"name": "spice_models", "n_bytes": 360_000_000},
        "description": "The metric SPICE needs a parser: Stanford CoreNLP 3.6.0 with its models, and Rhino",
        "licence": "GPL-3.0-or-later (CoreNLP), MPL-2.0 (Rhino)",
    }
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "")
    with says(
        "metric x needs SPICE's parser, 360 MB that are not on this machine; captau data fetch dataset=spice_models "
        "downloads them, and so does weights.download=true"
    ):
        spice_models.check_permission("x")
    monkeypatch.setenv("CAPTAU_DOWNLOAD", "spice_models")
    spice_models.check_permission("x")


def test_jars_of_the_right_size_are_present(central):
    jar_folder().mkdir()
    assert [jar.classifier for jar in missing_jars(jar_folder())] == ["", "models"]
    (jar_folder() / "tool-1.0.jar").write_bytes(b"PK edoc")
    (jar_folder() / "tool-1.0-models.jar").write_bytes(b"PK models")
    assert [jar.classifier for jar in missing_jars(jar_folder())] == ["models"]
    assert [jar.classifier for jar in damaged_jars(jar_folder())] == ["", "models"]


def test_each_jar_is_noted_as_it_comes(central, tmp_path):
    notes = []
    root = tmp_path / "jars"
    assert fetch_jars(root, notes.append) == [root / name for name in CONTENTS]
    assert notes == [
        f"{root / 'tool-1.0.jar'}: 7 bytes from org.example:tool:1.0",
        f"{root / 'tool-1.0-models.jar'}: 9,000 bytes from org.example:tool:1.0:models",
    ]
    assert fetch_jars(root, notes.append) == []
    assert len(notes) == 2
