"""What looks like a fault of a file is counted below the table, with an example and its place, and nothing is changed."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.benchmarks.commands.score import score
from captau.datasets.reading.text_checks import TEXT_CHECKS
from tests.field_files import (
    CAPTIONS,
    CIDER,
    COCO,
    REFERENCES,
    RESULTS,
    with_captions,
    write,
)

FIRST = RESULTS[0]["caption"]
CLOSING = "All of it is scored as it stands; captau validate lists each place."


def score_files(folder: Path, candidates: Any = RESULTS, references: Any = COCO):
    """Score JSON by CIDEr; the value as tables have it, and the lines about the files."""
    results = score(
        write(folder / "c.json", candidates),
        write(folder / "r.json", references),
        "cider",
        statistics={"interval": "none"},
        trust=None,
    )
    notes = results.notes[1:]
    closing = [number for number, note in enumerate(notes, start=1) if note.endswith(CLOSING)]
    return round(100 * results.caption_scores.corpus["cider"], 1), notes[: sum(closing)]


def test_files_without_faults_have_no_line(tmp_path: Path) -> None:
    assert score_files(tmp_path) == (CIDER, [])


def with_first(caption: str) -> list[dict[str, Any]]:
    return [{**RESULTS[0], "caption": caption}, *RESULTS[1:]]


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("", "is empty, punctuation apart, such as that of image '391895' (c.json:1)"),
        (" \t ", "is empty"),
        ("...", "is empty"),
        ("nan", "is the word for a missing value, such as 'nan' of"),
        ("N/A", "is the word for a missing value"),
        ("None", "is the word for a missing value"),
        ("Failed to obtain answer via API.", "looks like a failed request or a refusal"),
        ("Error code: 429", "looks like a failed request or a refusal"),
        ("I'm sorry, but I can't assist with that.", "looks like a failed request or a refusal"),
        ("I cannot describe this image.", "looks like a failed request or a refusal"),
        ("As an AI language model, I see", "looks like a failed request or a refusal"),
        ("391895", "is their image's id"),
        ("<think>Short.</think> a man", "holds a model's thoughts"),
        ("USER: <image>\nDescribe it. ASSISTANT: a man", "holds the turns of a chat"),
        ("[INST] go [/INST] a man", "holds the turns of a chat"),
        ("a man <|endoftext|>", "holds a model's special tokens"),
        ("<s> a man </s>", "holds a model's special tokens"),
        ("startseq a man endseq", "holds a model's special tokens"),
        ("a man [SEP]", "holds a model's special tokens"),
        ("**a man**", "holds Markdown"),
        ("# A man", "holds Markdown"),
        ("- a man", "holds Markdown"),
        ("a man<br>", "holds HTML"),
        ("a man &amp; a dog", "holds HTML"),
        ("a man\\na dog", "holds escapes"),
        ("['a man', 'a dog']", "is a list or an object as a program prints it"),
        ('{"caption": "a man"}', "is a list or an object as a program prints it"),
        ("a man \ufffd", "holds the sign of a character that was lost"),
    ],
)
def test_a_faulty_caption_is_counted(caption: str, words: str, tmp_path: Path) -> None:
    value, notes = score_files(tmp_path, with_first(caption))
    assert value < CIDER, "it is scored as it stands"
    assert any(note.startswith(f"1 of 6 captions {words}") for note in notes), notes
    assert notes[-1] == CLOSING


@pytest.mark.parametrize(
    "caption",
    [
        "a sign that says stop # 1",
        "two dogs (one brown) at 5:30 a.m.",
        "a man & a dog; they run",
        "a well-known person -- a singer -- on stage",
        "The image shows a man",
        "a 3/4 view of a car",
        "missing persons poster on a wall",
        "a null island sign",
        "an error message on a screen",
        "a dog | a cat",
    ],
)
def test_a_usual_caption_is_no_fault(caption: str, tmp_path: Path) -> None:
    assert score_files(tmp_path, with_first(caption))[1] == []


def test_faults_of_all_captions_are_one_line(tmp_path: Path) -> None:
    value, notes = score_files(tmp_path, with_captions(lambda _: "a dog"))
    assert notes == ["All 6 captions are one text, 'a dog' of image '391895' (c.json:1).", CLOSING]
    value, notes = score_files(tmp_path, with_captions(lambda text: f"The image shows {text}"))
    assert notes[0].startswith(
        "All 6 captions begin with words about the image, such as 'The image"
    )
    value, notes = score_files(tmp_path, with_captions(lambda text: f"{text} <|endoftext|>"))
    assert value == 76.8  # pycocoevalcap
    assert notes == [
        "6 of 6 captions hold a model's special tokens, such as 'a man rides a motorbike on a dirt road <|endoftext|>' "
        "of image '391895' (c.json:1).",
        CLOSING,
    ]


@pytest.mark.parametrize(
    "separator", ["|", ";", "; ", "<sep>", " [SEP] ", " ### ", "\t", "\n", " ||| "]
)
def test_references_that_were_joined_are_named(separator: str, tmp_path: Path) -> None:
    joined = {i: [separator.join(texts)] for i, texts in REFERENCES.items()}
    value, notes = score_files(tmp_path, references=joined)
    assert value < 10
    name = {"\t": "a tab", "\n": "a line end"}.get(separator, f"'{separator.strip()}'")
    assert notes[0].startswith(f"6 of 6 references hold {name}, as if several captions were joined")
    assert "write a JSON list, or ' ||| ' between them in a table." in notes[0]


def test_a_semicolon_in_some_references_is_a_semicolon(tmp_path: Path) -> None:
    references = {i: list(texts) for i, texts in REFERENCES.items()}
    references[391895] = ["a man; a road", "a rider on a motorbike in the country"]
    assert score_files(tmp_path, references=references)[1] == []


@pytest.mark.parametrize("texts", [[""], ["", "a man riding a motorcycle on a dirt road"]])
def test_an_empty_reference_is_counted(texts: list[str], tmp_path: Path) -> None:
    references = {**{i: list(t) for i, t in REFERENCES.items()}, 391895: texts}
    n_references = 15 + len(texts)
    _, notes = score_files(tmp_path, references=references)
    assert notes == [
        f"1 of {n_references} references is empty, punctuation apart, such as that of image '391895' (r.json:1).",
        CLOSING,
    ]


def test_at_most_five_lines_say_how_many_checks_there_are_more(tmp_path: Path) -> None:
    captions = ["", "nan", "<think>a", "**b**", "c<br>", "d </s>"]
    rows = [{"image_id": i, "caption": c} for i, c in zip(CAPTIONS, captions, strict=True)]
    _, notes = score_files(tmp_path, rows)
    assert len(notes) == 5
    assert notes[-1] == f"2 more checks found something. {CLOSING}"


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_an_empty_cell_is_counted_in_every_kind_of_table(ending: str, captau, tmp_path) -> None:
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    rows = pd.DataFrame(RESULTS)
    rows.loc[0, "caption"] = None
    path = tmp_path / f"c.{ending}"
    writers = {"csv": rows.to_csv, "xlsx": rows.to_excel, "parquet": rows.to_parquet}
    writers[ending](path, index=False)
    references = write(tmp_path / "r.json", COCO)
    status, out, _ = captau(
        "score",
        f"candidates={path}",
        f"references={references}",
        "metrics=cider",
        "statistics.interval=none",
        "trust=null",
    )
    assert status == 0
    line = 1 if ending == "parquet" else 2
    assert (
        f"1 of 6 captions is empty, punctuation apart, such as that of image '391895' (c.{ending}:{line})."
        in out
    )


def test_a_pipe_has_the_lines_on_stderr(captau, tmp_path: Path) -> None:
    candidates = write(tmp_path / "c.json", with_first(""))
    references = write(tmp_path / "r.json", COCO)
    status, out, err = captau(
        "score",
        f"candidates={candidates}",
        f"references={references}",
        "metrics=cider",
        "stdout=corpus.json",
    )
    assert status == 0
    assert list(json.loads(out)) == ["cider"]
    assert "1 of 6 captions is empty" in err


def test_validate_lists_what_score_counts(captau, tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", with_captions(lambda text: f"**{text}**"))
    joined = {i: ["|".join(texts)] for i, texts in REFERENCES.items()}
    references = write(tmp_path / "r.json", joined)
    status, out, err = captau("validate", path, f"references={references}", "limit=100")
    assert status == 0
    assert out == f"{path}: valid: 6 captions; 12 places may be wrong, and none is changed\n"
    assert err.count("the caption holds Markdown: '**") == 6
    assert err.count("the reference holds '|', as if several captions were joined by it: '") == 6
    path = write(tmp_path / "c.json", with_first(""))
    assert captau("validate", path)[0] == 2, "an empty caption is a fault"


def test_the_page_lists_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs" / "own_captions.md").read_text(encoding="utf-8")
    table = page.split("### What looks like a fault")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    of_whole_files = ["same_text", "lead_in", "same_words", "cut", "glued"]
    codes = list(dict.fromkeys(check.code for check in TEXT_CHECKS))
    assert listed == codes + of_whole_files


def test_files_given_twice_are_refused(captau, tmp_path: Path) -> None:
    """Hydra takes the last of two values; the first file would not be scored, without a word."""
    files = [f"candidates={write(tmp_path / name, RESULTS)}" for name in ("a.json", "b.json")]
    references = write(tmp_path / "r.json", COCO)
    status, _, err = captau("score", *files, f"references={references}", "metrics=cider")
    assert status == 2
    assert "candidates= is given 2 times; several are written candidates=A,B" in err


@pytest.mark.parametrize("ending", ["csv.gz", "tsv", "jsonl.bz2"])
def test_scores_are_read_packed(ending: str, captau, tmp_path: Path) -> None:
    scores = pd.DataFrame(RESULTS).assign(score=range(6))
    if ending.startswith("jsonl"):
        scores.to_json(tmp_path / f"mine.{ending}", orient="records", lines=True)
    else:
        separator = "\t" if ending == "tsv" else ","
        scores.to_csv(tmp_path / f"mine.{ending}", index=False, sep=separator)
    candidates = write(tmp_path / "c.json", RESULTS)
    files = (f"candidates={candidates}", f"references={write(tmp_path / 'r.json', COCO)}")
    status, out, _ = captau("score", *files, f"metrics=mine.{ending}", "stdout=corpus.json")
    assert status == 0
    assert json.loads(out) == {"mine": 2.5}


def test_document_frequencies_in_a_pickle_are_called_that(captau, tmp_path: Path) -> None:
    (tmp_path / "df.p").write_bytes(pickle.dumps({"df": {"a": 1}}))
    candidates = write(tmp_path / "c.json", RESULTS)
    files = (f"candidates={candidates}", f"references={write(tmp_path / 'r.json', COCO)}")
    status, _, err = captau("score", *files, "metrics=cider(df=df.p)")
    assert status == 2
    assert "df.p: it is a pickle, which could run code and is not read" in err
    assert "captau score references=FILE save_df=FILE makes a document-frequency file" in err


def test_probe_and_check_count_the_same_faults(captau, tmp_path: Path) -> None:
    marked = [
        {"image_id": f"{row['image_id']}.jpg", "caption": f"{row['caption']} </s>"}
        for row in RESULTS
    ]
    write(tmp_path / "new.json", marked)
    write(tmp_path / "old.json", RESULTS)
    write(tmp_path / "r.json", COCO)
    files = ["candidates=new.json", "references=r.json", "metrics=bleu_1"]
    for words in (["probe", "faults=half"], ["check", "against=old.json", "tolerance=1"]):
        status, shown, _ = captau(words[0], *files, *words[1:])
        assert status == 0
        assert "The images of new.json and of the references match by the names of their" in shown
        assert "6 of 6 captions hold a model's special tokens, such as" in shown
        assert CLOSING in shown
