"""Small studies, and their servers on free ports."""

from __future__ import annotations

import json

import pytest
import yaml
from PIL import Image

from tests.conftest import serving

#: Captions of the small studies, by image: an awkward one among them.
CAPTIONS = [
    (f"p{k}.png", f"{what} number {k}", f"a reference of picture {k}")
    for k in range(6)
    for what in ("a square", "<b>bold</b> & 'quoted' “square” 🐕", "a wrong circle")
]


def write_study(folder, protocol="game", **changes):
    """Write a study of 18 captions of 6 pictures into `folder` and return its file; None leaves a field out."""
    for k in range(6):
        Image.new("RGB", (40, 30), (40 * k, 90, 200)).save(folder / f"p{k}.png")
    rows = [
        {"image": i, "caption": c, "references": [r], "system": f"sys-{len(c.split())}"}
        for i, c, r in CAPTIONS
    ]
    text = "".join(f"{json.dumps(r)}\n" for r in rows)
    (folder / "captions.jsonl").write_text(text, encoding="utf-8")
    study = {
        "name": "small",
        "title": "A small study",
        "protocol": protocol,
        "intro": "Look, then judge.",
        "consent": "You take part in a test.",
        "items": {"file": "captions.jsonl"},
        "ratings": 3,
        "limits": {"joins": 10_000, "logins": 1000, "requests": 10_000},
    }
    if protocol == "game":
        pair = {"image": "p0.png", "ratings": [4, 4, 5]}
        study["game"] = {
            "wait": 0,
            "tutorial_pairs": 2,
            "pairs": 3,
            "points": 3,
            "cold_start": ["rouge_l"],
            "tutorial": [
                {**pair, "caption": f"practice {k}", "explanation": "It says what is there."}
                for k in range(2)
            ],
            "probation": [{**pair, "caption": f"probation {k}"} for k in range(4)],
        }
    for key, value in changes.items():
        if value is None:
            study.pop(key, None)
        elif isinstance(value, dict):
            study[key] = {**study.get(key, {}), **value}
        else:
            study[key] = value
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def read_fields(model, text=None, **fields):
    """Return a section of a study's file as its model, from a text or from fields."""
    from captau.datasets.reading.yaml_document import YamlDocument
    from captau.datasets.reading.yaml_model import validate

    text = yaml.safe_dump(fields, sort_keys=False) if text is None else text
    return validate(YamlDocument(text, "study.yaml"), model)


def read_study_fields(form, **fields):
    """Return a study's file of a form, with some fields and those that it needs."""
    needed = {"name": "small", "protocol": form.name, "consent": "You take part in a test."}
    return read_fields(form.study_model, **fields, **needed)


def make_site(folder, protocol="game", database=None, url="", **changes):
    """Open the site of a small study, its database beside it."""
    from captau.benchmarks.options.sites import CollectOptions
    from captau.server.collect.web.site import open_site

    path = folder / "study.yaml"
    if changes or not path.exists():
        path = write_study(folder, protocol, **changes)
    database = database or folder / "small.sqlite3"
    return open_site(CollectOptions(study=str(path), database=database, url=url))


def serve_site(site):
    """Serve a site in a thread; the context yields its address."""
    from captau.server.collect.web.app import make_app

    return serving(make_app(site))


@pytest.fixture
def serve_small(tmp_path):
    """Return a function that serves a small study until the test ends, and returns site and address."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def serve(protocol="game", **changes):
            site = make_site(tmp_path, protocol, **changes)
            return site, stack.enter_context(serve_site(site))

        yield serve
