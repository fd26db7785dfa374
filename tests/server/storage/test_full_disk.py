"""Both sites on a disk that fills up: a small file system of its own, which Linux lets root mount."""

from __future__ import annotations

import json
import subprocess

import pytest

from captau.server.challenge import tables
from tests.server.challenge import visitors as challenge
from tests.server.challenge.visitors import quick_passwords
from tests.server.collect import conftest as collect
from tests.server.collect.visitors import join_study, load_rows

__all__ = ["quick_passwords"]


@pytest.fixture
def small_disk(tmp_path):
    """Yield a folder on a file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "captau-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder):
    """Fill a file system with a file, and return the file."""
    path = folder / "filler"
    with pytest.raises(OSError, match="No space left"):
        path.write_bytes(b"x" * (4 << 20))
    return path


def test_a_study_on_a_full_disk_loses_no_acknowledged_answer(small_disk):
    site = collect.make_site(small_disk, "good_bad", ratings=20)
    with collect.serve_site(site) as url:
        browsers = [join_study(url) for _ in range(8)]
        fields = {**browsers[0].get("/rate").hidden, "answer": "good"}
        statuses = [browsers[0].post("/rate", fields, follow=False).status]
        pages = [browser.get("/rate") for browser in browsers]
        filler = fill(small_disk)
        for _ in range(2):
            for number, browser in enumerate(browsers):
                fields = {**pages[number].hidden, "answer": "good"}
                statuses.append(browser.post("/rate", fields, follow=False).status)
                page = browser.get("/rate")
                assert page.status in (200, 507)
                pages[number] = page if page.status == 200 else pages[number]
        assert set(statuses) == {303, 507}
        filler.unlink()
        statuses.append(
            browser.post("/rate", {**pages[-1].hidden, "answer": "good"}, follow=False).status
        )
        assert statuses[-1] == 303
        answers = load_rows(site)["answers"]
        assert len(answers) == statuses.count(303)
    site.store.database.close()


def test_a_challenge_on_a_full_disk_keeps_what_it_acknowledged_and_nothing_else(small_disk):
    path = challenge.write_challenge(small_disk, phases=[{"name": "all"}])
    site = challenge.make_site(small_disk, path)
    with challenge.serve_site(site) as url:
        members = [challenge.sign_up(url, f"Ann {k}") for k in range(3)]
        tokens = [(m.token("/challenges/small/submit"), m.create_token()) for m in members]
        keys = [
            challenge.submission_key(
                members[0].upload("small", "a.json", challenge.valid_captions())
            )
        ]
        filler = fill(small_disk)
        content = json.dumps(
            [{"image_id": image, "caption": "a thing " * 900} for image in challenge.IMAGES]
        ).encode()
        status, _, body = members[1].upload("small", "a.json", content, token=tokens[1][0])
        assert (status, b"could not be stored" in body) == (507, True)
        bearer = {"authorization": f"Bearer {tokens[2][1]}"}
        status, _, body = members[2].raw(
            "POST", "/api/challenges/small/submissions?file=a.json", content, **bearer
        )
        assert (status, "could not be stored" in json.loads(body)["error"]) == (507, True)
        assert members[0].get("/").status == 200  # pages are shown as ever
        filler.unlink()
        keys.append(challenge.submission_key(members[1].upload("small", "a.json", content)))
        assert [row["key"] for row in challenge.load_table(site, tables.submissions)] == keys
        folders = {p.name for p in site.store.folder.iterdir() if p.is_dir()}
        assert folders == set(keys)
    site.store.database.close()
