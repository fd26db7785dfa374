"""SPICE's jars are fetched once, whole and checked, or it is said how to carry them over by hand."""

from __future__ import annotations

import hashlib
import threading

import pytest
from jgo.maven import _core

from captau.metrics.text.spice import models as spice_models
from captau.metrics.text.spice.models import Jar, fetch, folder, jars, missing, wrong
from tests.conftest import says

CONTENTS = {"tool-1.0.jar": b"PK code", "tool-1.0-models.jar": b"PK models" * 1000}


def made(classifier: str, content: bytes) -> Jar:
    return Jar(
        "org.example", "tool", "1.0", classifier, len(content), hashlib.sha256(content).hexdigest()
    )


@pytest.fixture
def central(site, monkeypatch, tmp_path):
    """A Maven repository on this machine with two small jars, which are those that SPICE needs."""
    monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"central": site.url})
    monkeypatch.setattr(
        spice_models, "JARS", (made("", b"PK code"), made("models", b"PK models" * 1000))
    )
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path))
    monkeypatch.delenv("CAPTAU_SPICE_JARS", raising=False)
    site.files |= {f"/org/example/tool/1.0/{name}": content for name, content in CONTENTS.items()}
    return site


def asked(site) -> list[str]:
    return [path for path, _ in site.asked if path.endswith(".jar")]


def test_the_pins():
    """The names and hashes of DESIGN.md, and Maven Central's names."""
    assert [j.file for j in spice_models.JARS] == [
        "stanford-corenlp-3.6.0.jar",
        "stanford-corenlp-3.6.0-models.jar",
        "rhino-1.7.15.jar",
    ]
    assert spice_models.JARS[1].coordinates == "edu.stanford.nlp:stanford-corenlp:3.6.0:models"
    assert spice_models.JARS[1].sha256.startswith("d285157bd788")


def test_fetched_once(central, tmp_path):
    wanted = [tmp_path / "spice_models" / name for name in CONTENTS]
    assert jars() == wanted
    assert [path.read_bytes() for path in wanted] == list(CONTENTS.values())
    assert jars() == wanted
    assert len(asked(central)) == 2
    assert sorted(p.name for p in folder().iterdir()) == sorted([*CONTENTS, ".captau.lock"])


def test_what_is_here_is_not_fetched_again(central):
    folder().mkdir()
    (folder() / "tool-1.0.jar").write_bytes(b"PK code")
    fetch(folder())
    assert asked(central) == ["/org/example/tool/1.0/tool-1.0-models.jar"]


def test_another_folder(central, monkeypatch, tmp_path):
    carried = tmp_path / "carried"
    carried.mkdir()
    for name, content in CONTENTS.items():
        (carried / name).write_bytes(content)
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(carried))
    assert jars() == [carried / name for name in CONTENTS]
    assert asked(central) == []


def test_a_closed_network(central, monkeypatch, tmp_path):
    monkeypatch.setattr(_core, "DEFAULT_REMOTE_REPOS", {"central": "http://127.0.0.1:9"})
    with says(
        "tool-1.0.jar (org.example:tool:1.0, 0 MB)",
        "tool-1.0-models.jar (org.example:tool:1.0:models",
        "captau data fetch dataset=spice_models",
        str(tmp_path / "spice_models"),
        "java.spice=DIR",
        "CAPTAU_SPICE_JARS",
    ):
        jars()


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_server_that_does_not_give_it(status, central):
    central.statuses = [status] * 20
    with says("could not be had from Maven Central", "captau data fetch dataset=spice_models"):
        jars()
    assert len(missing(folder())) == 2


def test_another_content_is_not_taken(central):
    central.files["/org/example/tool/1.0/tool-1.0-models.jar"] = b"PK virus"
    with says("the SHA-256 of tool-1.0-models.jar there is"):
        jars()
    assert [j.file for j in missing(folder())] == ["tool-1.0-models.jar"]
    assert not (folder() / ".maven").exists()
    central.files["/org/example/tool/1.0/tool-1.0-models.jar"] = CONTENTS["tool-1.0-models.jar"]
    assert len(jars()) == 2


def test_a_download_that_breaks_off(central):
    central.cuts = [3000]
    central.files.pop("/org/example/tool/1.0/tool-1.0.jar")
    folder().mkdir()
    (folder() / "tool-1.0.jar").write_bytes(b"PK code")
    with says("could not be had from Maven Central"):
        jars()
    assert [j.file for j in missing(folder())] == ["tool-1.0-models.jar"]
    assert len(jars()) == 2


def test_what_a_killed_run_left_is_no_jar(central):
    torn = folder() / ".maven" / "org" / "example" / "tool" / "1.0" / "tool-1.0.jar"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PK c")
    (folder() / "tool-1.0-models.jar").write_bytes(b"PK m")
    assert len(jars()) == 2
    assert not torn.exists()
    assert not wrong(folder())


def test_a_changed_jar_is_not_run_and_fetch_replaces_it(central):
    folder().mkdir()
    for name, content in CONTENTS.items():
        (folder() / name).write_bytes(content[::-1])
    with says("tool-1.0.jar is not org.example:tool:1.0", "captau data fetch dataset=spice_models"):
        jars()
    assert len(fetch(folder())) == 2
    assert len(jars()) == 2


def test_two_runs_at_once_fetch_once(central):
    central.pause = 0.1
    both = [threading.Thread(target=fetch, args=(folder(),)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(asked(central)) == 2
    assert len(jars()) == 2


def test_a_folder_that_cannot_be_written(central, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPTAU_SPICE_JARS", str(tmp_path / "file" / "jars"))
    with says("cannot be written", "java.spice=DIR"):
        jars()
