"""`captau data list`, `fetch`, `import` and `verify`, on a small THumB from a server on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from captau.benchmarks.commands import data as module
from captau.benchmarks.commands.data import overlap
from captau.benchmarks.scoring.catalog import DATASET_SETS
from captau.datasets import registry
from captau.datasets.errors import InputError
from captau.datasets.reading.source_files import find
from captau.datasets.schema import CaptionSet, Card, make_items
from tests.benchmarks.printed import lines_of
from tests.conftest import run_captau

RATED = [
    {
        "seg_id": "974",
        "hyp": f"caption {n}",
        "SYS": f"system {n}",
        **{"P": 4, "R": 3, "Fl": 0.0, "Inc": 0.0, "Con": 0.0, "human_score": 3.5},
    }
    for n in range(2)
]
CONTENTS = {
    "mscoco_THumB-1.0.jsonl": "".join(f"{json.dumps(row)}\n" for row in RATED).encode(),
    "mscoco_references.json": json.dumps({"seg_id": "974", "refs": ["a", "b"]}).encode(),
}


@pytest.fixture
def captau(capsys, tmp_path, monkeypatch):
    """Runs the program in a folder of its own; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPTAU_DATA", "here")

    def run(*arguments):
        ended = run_captau("data", *arguments)
        captured = capsys.readouterr()
        return ended, captured.out, captured.err

    return run


def describe_by(monkeypatch: pytest.MonkeyPatch, card: Card) -> None:
    """Let a dataset of captau's have another card."""
    reader = registry.reader(card.name)
    monkeypatch.setitem(registry._READERS, card.name, (card, reader))


@pytest.fixture
def thumb(site, monkeypatch):
    """THumB's card, with two captions of one image and the server's addresses."""
    card = registry.card("thumb")
    site.files |= {f"/{name}": content for name, content in CONTENTS.items()}
    sources = tuple(
        replace(
            source,
            sha256=hashlib.sha256(CONTENTS[Path(source.path).name]).hexdigest(),
            downloads=(f"{site.url}/{Path(source.path).name}",),
        )
        for source in card.sources
    )
    card = replace(card, sources=sources, expected={"images": 1, "items": 2, "ratings": 12})
    describe_by(monkeypatch, card)
    return card


def row(out: str, name: str) -> list[str]:
    (line,) = (line for line in out.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def lines(stderr: str) -> list[str]:
    messages = stderr.strip().splitlines()
    assert all(message.startswith("captau: ") for message in messages), stderr
    return messages


def test_fetch(captau, thumb, tmp_path) -> None:
    status, out, err = captau("fetch", "dataset=thumb")
    assert (status, err) == (0, "")
    licence, citation = out.index(thumb.licence), out.index("@inproceedings{kasai2022transparent")
    assert licence < citation < out.index("mscoco_THumB-1.0.jsonl: "), "before anything comes"
    for name, content in CONTENTS.items():
        assert (tmp_path / "here/thumb" / name).read_bytes() == content
    status, out, _ = captau("fetch", "dataset=[thumb,demo]")
    assert status == 0
    assert "thumb: nothing to fetch, all is in here" in out
    assert "built in" in out


def test_fetch_into_another_folder(captau, thumb, tmp_path, monkeypatch) -> None:
    assert captau("fetch", "dataset=thumb", "data.root=there")[0] == 0
    name = "mscoco_references.json"
    assert (tmp_path / "there/thumb" / name).read_bytes() == CONTENTS[name]
    monkeypatch.setenv("CAPTAU_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert captau("fetch", "dataset=thumb")[0] == 0
    assert (registry.data_root() / "thumb" / name).read_bytes() == CONTENTS[name]


@pytest.mark.slow
def test_what_cannot_be_had_is_told_and_the_rest_is_fetched(captau, site, thumb, tmp_path) -> None:
    del site.files["/mscoco_THumB-1.0.jsonl"]
    status, out, err = captau("fetch", "dataset=[thumb,demo]")
    assert status == 2
    (line,) = lines(err)
    assert "dataset thumb: thumb/mscoco_THumB-1.0.jsonl could not be downloaded" in line
    assert "404 Not Found" in line
    assert "demo: " in out
    name = "mscoco_references.json"
    assert (tmp_path / "here/thumb" / name).read_bytes() == CONTENTS[name]


def test_fetch_names_the_page_the_files_and_the_import(captau, thumb, monkeypatch) -> None:
    page = replace(thumb.sources[0], downloads=(), url="https://example.org/form")
    card = replace(thumb, sources=(page,))
    describe_by(monkeypatch, card)
    status, _, err = captau("fetch", "dataset=thumb")
    assert status == 2
    assert lines(err) == [
        "captau: dataset thumb: mscoco_THumB-1.0.jsonl cannot be fetched: get it from "
        "https://example.org/form and run captau data import dataset=thumb source=PATH"
    ]
    assert "https://example.org/form (by hand)" in captau("list", "dataset=thumb")[1]


def test_what_has_to_be_got_by_hand_is_named_beside_the_rest(captau) -> None:
    """Offline, so that nothing is asked of the network here."""
    status, _, err = captau("fetch", "dataset=composite_30k,caparena", "data.offline=true")
    composite, caparena = lines(err)
    assert status == 2
    for part in (
        "data.offline=true, so not fetched: composite_30k/data.mdb from https://raw.githubuser",
        "flickr30k/results_20130124.token from https://github.com/multi30k/dataset",
    ):
        assert part in composite
    assert (
        "caparena_annots_eval.json cannot be fetched: get it from "
        "https://box.nju.edu.cn/f/0fd0a0d3dce243ab8c12/ and run "
        "captau data import dataset=caparena source=PATH"
    ) in caparena


@pytest.mark.slow
def test_fetch_all_offline(captau, tmp_path) -> None:
    """Every dataset is gone through, and nothing is asked or left."""
    status, out, err = captau("fetch", "dataset=all", "data.offline=true")
    assert status == 2
    assert len(lines(err)) == sum(bool(registry.card(n).sources) for n in registry.names())
    assert out.count("please cite:") >= len(lines(err))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_a_terminal(site, tmp_path) -> None:
    site.files["/f"] = b"x" * 1_000_000
    code = (
        "from captau.benchmarks.runs.progress_bar import DownloadProgress\n"
        "from captau.datasets.download.fetch import fetch\n"
        "from captau.datasets.schema import Card, SourceFile\n"
        "from pathlib import Path\n"
        f"s = SourceFile('mine/f', '', downloads=('{site.url}/f',))\n"
        "with DownloadProgress() as progress:\n"
        "    fetch(Card('m', '', '', '', '', '', sources=(s,)), Path('.'), None, progress, print)\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        text=True,
    ) as run:
        os.close(theirs)
        output = b""
        with suppress(OSError):  # Linux' end of what a terminal shows
            while piece := os.read(ours, 1 << 16):  # first: a full terminal stops the program
                output += piece
        out = run.stdout.read()
        assert run.wait() == 0
    os.close(ours)
    assert b"mine/f" in output
    assert b"1.0/1.0 MB" in output
    assert out.startswith(f"mine/f: 1,000,000 bytes from {site.url}/f; no hash of it was known")


@pytest.mark.parametrize("packed", [False, True])
def test_import(captau, thumb, tmp_path, packed) -> None:
    folder = tmp_path / "download" / "THumB-main" / "mscoco"
    folder.mkdir(parents=True)
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
    source = tmp_path / "download"
    if packed:
        source = tmp_path / "THumB-main.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in CONTENTS.items():
                archive.writestr(f"THumB-main/mscoco/{name}", content)
    status, out, err = captau("import", "dataset=thumb", f"source={source}")
    assert (status, err) == (0, "")
    assert out.endswith("thumb: all is here\n")
    assert captau("verify", "dataset=thumb")[0] == 0


def test_import_says_what_is_still_missing(captau, thumb, tmp_path) -> None:
    (tmp_path / "mscoco_references.json").write_bytes(b"another release")
    status, out, _ = captau("import", "dataset=thumb", "source=mscoco_references.json")
    assert status == 0
    assert "warning: its hash is not that of the card's revision" in out
    assert "thumb: still missing: thumb/mscoco_THumB-1.0.jsonl" in out


@pytest.mark.slow
def test_import_of_nothing(captau, thumb, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = captau("import", "dataset=thumb", "source=empty")
    assert status == 2
    assert "empty has none of its files" in lines(err)[0]
    # Of many datasets, the source has to hold something of one.
    (tmp_path / "empty" / "mscoco_references.json").write_bytes(CONTENTS["mscoco_references.json"])
    status, out, err = captau("import", "dataset=[thumb,pascal50s]", "source=empty")
    assert (status, err) == (0, "")
    assert "mscoco_references.json; of the card's revision" in out
    # A fault of the source is reported all the same, and once.
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../mscoco_references.json", b"")
    status, _, err = captau("import", "dataset=all", "source=evil.zip")
    assert status == 2
    assert "would lead out of the folder" in lines(err)[0]
    assert len(lines(err)) == 1


def test_verify(captau, thumb) -> None:
    captau("fetch", "dataset=thumb")
    status, out, _ = captau("verify", "dataset=thumb")
    assert status == 0
    assert row(out, "thumb") == ["thumb", "2 right", "1", "2", "12", "0", "0", "0", "ok"]


@pytest.mark.slow
def test_verify_all_leaves_what_is_not_here(captau, thumb) -> None:
    for arguments in ([], ["dataset=all"]):
        status, out, _ = captau("verify", *arguments)
        assert status == 0
        assert row(out, "thumb")[-1] == "not here"
        assert row(out, "demo") == ["demo", "built in", "60", "360", "1,080", "240", "0", "0", "ok"]
    status, out, _ = captau("verify", "dataset=thumb")
    assert status == 1
    assert row(out, "thumb")[-1] == "OFF"
    assert "thumb: thumb/mscoco_THumB-1.0.jsonl is missing" in out


@pytest.mark.slow
def test_named_sets(captau, thumb) -> None:
    status, out, _ = captau("list", "dataset=core")
    assert status == 0
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("**")] == [
        f"**{name}" for name in DATASET_SETS["core"]
    ]

    for command in ("list", "fetch", "verify"):
        status, _, err = captau(command, "dataset=here")
        assert status == 2
        assert "no dataset is in the data folder" in lines(err)[0]

    assert captau("fetch", "dataset=thumb")[0] == 0
    # An absent dataset of a set is no fault, and one that is named as well is.
    status, out, _ = captau("verify", "dataset=classic")
    assert status == 0
    assert row(out, "thumb")[-1] == "ok"
    assert row(out, "flickr8k_expert")[-1] == "not here"
    assert captau("verify", "dataset=classic,flickr8k_expert")[0] == 1

    status, out, _ = captau("verify", "dataset=here")
    assert status == 0
    assert "| flickr8k_expert |" not in out
    status, out, _ = captau("fetch", "dataset=here")
    assert status == 0
    assert out.startswith("thumb: nothing to fetch")


def test_verify_sees_a_changed_byte_and_a_lost_row(captau, thumb, tmp_path) -> None:
    captau("fetch", "dataset=thumb")
    path = tmp_path / "here/thumb/mscoco_THumB-1.0.jsonl"
    path.write_bytes(CONTENTS[path.name].split(b"\n")[0])
    status, out, _ = captau("verify")
    assert status == 1
    assert row(out, "thumb") == ["thumb", "1 differs, 1 right", "1", "1", "6", "0", "0", "0", "OFF"]
    assert "is not of the card's revision: its hash differs" in out
    assert "thumb: 1 items, where 2 are expected" in out
    assert row(captau("list")[1], "thumb")[1] == "differs"
    assert captau("fetch", "dataset=thumb")[0] == 0, "fetched anew"
    assert captau("verify")[0] == 0


def test_verify_tells_of_a_file_that_cannot_be_read(captau, thumb, tmp_path) -> None:
    captau("fetch", "dataset=thumb")
    (tmp_path / "here/thumb/mscoco_references.json").write_text("{")
    status, out, _ = captau("verify")
    assert status == 1
    assert "mscoco_references.json:1: not valid JSON" in out
    assert row(out, "thumb")[2:6] == ["–"] * 4


def test_verify_counts_missing_images(captau, thumb, tmp_path) -> None:
    captau("fetch", "dataset=thumb")
    folder = tmp_path / "images" / "val2014"
    folder.mkdir(parents=True)
    status, out, _ = captau("verify", "dataset=[thumb,demo]", "data.images=images")
    assert status == 0, "no fault: nothing needs them"
    assert row(out, "thumb")[-2:] == ["1 of 1", "ok"]
    (folder / "COCO_val2014_000000000974.jpg").touch()
    out = captau("verify", "dataset=[thumb,demo]", "data.images=images")[1]
    assert row(out, "thumb")[-2:] == ["0 of 1", "ok"]
    assert row(out, "demo")[-2:] == ["–", "ok"]


def test_list(captau, thumb) -> None:
    status, out, _ = captau("list")
    assert status == 0
    assert "| dataset | status | size | items | judgements |" in out
    assert row(out, "thumb") == ["thumb", "no", "–", "2", "12 ratings"]
    assert row(out, "pascal50s")[3:] == ["–", "4,000 pairs"]
    status, in_full, _ = captau("list", "dataset=thumb")
    assert status == 0
    assert row(in_full, "scale")[1] == "1 to 5 in steps of 1; -5 to 0; -9 to 5"
    assert row(in_full, "licence")[1] == thumb.licence
    assert row(out, "demo")[1] == "built in"
    captau("fetch", "dataset=thumb")
    size = sum(map(len, CONTENTS.values()))
    assert row(captau("list")[1], "thumb")[1:3] == ["yes", f"{size} bytes"]


@pytest.mark.slow
def test_some_splits_of_a_dataset_are_a_part(captau, tmp_path) -> None:
    folder = tmp_path / "here" / "polaris"
    folder.mkdir(parents=True)
    text = "imgid,mt,refs,score\ntest.jpg,a dog,\"['dogs']\",0.5\n"
    (folder / "polaris_test.csv").write_text(text)
    out = captau("list")[1]
    assert row(out, "polaris")[1:3] == ["part", f"{len(text)} bytes"]
    assert "polaris/polaris_train.csv from " in captau("list", "dataset=polaris")[1]
    for arguments in ([], ["dataset=polaris"]):
        status, out, _ = captau("verify", *arguments)
        assert status == 0
        cells = ["polaris", "2 missing, 1 unchecked", *"11100", "0", "part"]
        assert row(out, "polaris") == cells
    (folder / "polaris_test.csv").write_text(text.replace("0.5", "5"))
    status, out, _ = captau("verify")
    assert (status, row(out, "polaris")[-1]) == (1, "OFF")
    for split in ("train", "val", "test"):
        (folder / f"polaris_{split}.csv").write_text(text.replace("test", split))
    assert row(captau("list")[1], "polaris")[1] == "yes"
    status, out, _ = captau("verify")
    assert (status, row(out, "polaris")[-1]) == (1, "OFF")
    assert "polaris: 3 ratings, where 131,020 are expected" in out


def test_half_of_a_surrogate_pair_is_scored_like_any_character(
    capsys, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text(r'{"\ud800": "a \ud800 dog", "2": "a cat"}')
    Path("r.json").write_text(r'{"\ud800": ["a \udfff dog", "one dog"], "2": ["a cat"]}')
    for arguments in (
        ["score", "references=r.json", "save_df=df.json"],
        [
            *("score", "candidates=c.json", "references=r.json", "output_dir=out"),
            'metrics=["cider(df=df.json)",bleu_1,rouge_l,meteor,rouge_score_1,sacrebleu]',
        ],
    ):
        ended = run_captau(*arguments)
        assert ended == 0, capsys.readouterr().err
    assert "\ufffd" in Path("out/scores.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "number", "remedy"),
    [
        ("thumb", 0, "run captau data fetch dataset=thumb (from https://github.com/jungokasai/"),
        ("caparena", 0, "and run captau data import dataset=caparena source=PATH"),
    ],
)
def test_the_error_for_a_missing_file_names_the_command(name, number, remedy, tmp_path) -> None:
    card = registry.card(name)
    with pytest.raises(InputError) as caught:
        find(tmp_path, card, card.sources[number])
    assert remedy in str(caught.value)
    with pytest.raises(InputError, match=f"run captau data (fetch|import) dataset={name} "):
        registry.load(name, tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "the option dataset=… is needed: a name, A,B, a named set or all"),
        (["fetch", "dataset=thmub"], "did you mean thumb"),
        (["fetch", "dataset=thumb", "data.offlien=true"], "did you mean data.offline"),
        (["fetch", "dataset=thumb", "data.offline=maybe"], "data.offline"),
        (["import", "dataset=thumb"], "the option source=… is needed"),
        (["import", "source=x"], "the option dataset=… is needed"),
        (["import", "dataset=thumb", "source=nowhere"], "source=nowhere does not exist"),
        (["verify", "dataset=thmub"], "did you mean thumb"),
        (["verify", "data.images=nowhere"], "data.images=nowhere is not a folder"),
        ([], "data list, data fetch, data import, data verify"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(captau, tmp_path, arguments, message) -> None:
    status, _, err = captau(*arguments)
    assert status == 2
    (line,) = lines(err)
    assert message in line
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_the_real_data_verifies(capsys, data_root: Path) -> None:
    ended = run_captau("data", "verify")
    assert ended == 0, capsys.readouterr().out


def test_the_real_data_imports(captau, data_root: Path, tmp_path: Path) -> None:
    """By its authors' names and folders, and not by ours."""
    folder = tmp_path / "UMIC-master" / "txt_db" / "capeval1k"
    folder.mkdir(parents=True)
    shutil.copy(data_root / "capeval1k/data.mdb", folder)
    shutil.copy(data_root / "capeval1k/bert-base-cased-vocab.txt", folder / "vocab.txt")
    references = data_root / "coco/karpathy_test_references.json"
    shutil.copy(references, folder / "reference_captions.json")
    status, out, err = captau("import", "dataset=capeval1k", "source=UMIC-master")
    assert (status, err) == (0, "")
    assert out.count("of the card's revision") == 3
    assert captau("verify", "dataset=capeval1k")[0] == 0
    # The other databases of the release have the same name.
    assert captau("import", "dataset=composite_coco", "source=UMIC-master")[0] == 0
    assert not (tmp_path / "here/composite_coco/data.mdb").exists()


def made(name, rows):
    card = Card(name, name, "1", "none", "none", "", has_references=False)
    return CaptionSet(
        make_items(
            [r[0] for r in rows],
            [r[1] for r in rows],
            [()] * len(rows),
            splits=[r[2] for r in rows],
        ),
        card=card,
    )


@pytest.fixture
def load_from(monkeypatch):
    """Return a function that says which sets are loaded, by their names."""
    return lambda sets: monkeypatch.setattr(module.registry, "load", lambda name, _: sets[name])


def test_shared_images_captions_and_leaks_are_counted(load_from):
    sets = {
        "a": made("a", [("1", "x", "train"), ("2", "y", "test"), ("3", "z", "train")]),
        "b": made("b", [("1", "x", "train"), ("2", "other", "train"), ("9", "z", "test")]),
    }
    load_from(sets)
    (row,) = lines_of(overlap(["a", "b"], None))
    # images of a, of b, shared; shared and on the same side: train, validation, test; leaks; captions
    assert row == ("a, b", ["3", "3", "2", "1", "0", "0", "1", "1"])


def test_captions_among_their_own_references_are_counted(load_from):
    items = make_items(["1", "2", "3"], ["A dog.", "a cat", "x"], [("a dog",), ("a cat",), ("y",)])
    card = Card("a", "a", "1", "none", "none", "")
    sets = {"a": CaptionSet(items, card=card), "b": made("b", [("1", "x", "train")])}
    load_from(sets)
    assert overlap(["a", "b"], None).notes[1:] == [
        "a: 2 of 3 captions repeat one of their image's references, 1 of them exactly.",
        "b: 0 of 1 captions repeat one of their image's references.",
    ]


def test_two_datasets_are_needed():
    with pytest.raises(InputError, match="two datasets are needed"):
        overlap(["demo", "demo"], None)


def test_no_leaks_between_the_real_sets_of_coco(data_root):
    (row,) = lines_of(overlap(["capeval1k", "thumb"], data_root))
    assert row == ("capeval1k, thumb", ["250", "500", "26", "20", "4", "2", "0", "0"])


def test_the_page_of_a_dataset_is_named(tmp_path):
    (table,) = module.details(["flickr8k_expert"], tmp_path)
    facts = {fact: cells[0] for fact, cells in lines_of(table)}
    assert facts["page"] == registry.card("flickr8k_expert").homepage
    (table,) = module.details(["demo"], tmp_path)
    assert {fact: cells[0] for fact, cells in lines_of(table)}["page"] == (
        registry.card("demo").homepage or "–"
    )
