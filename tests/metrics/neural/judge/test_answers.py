"""The lines of a file of answers, by hand."""

from __future__ import annotations

import contextlib
import json

from captau.metrics.neural.judge.answers import AnswerFile, Answers
from tests.conftest import raises_exactly
from tests.metrics.neural.judge.judge_stub import said


def test_a_file_of_answers_in_full(tmp_path):
    path = tmp_path / "new" / "answers.jsonl"
    store = Answers(tmp_path / "store")
    one = AnswerFile(path, "m", {"temperature": 0}, store)
    request = {"text": "é", "image": "sha256-abc", "vote": 2, "url": "u"}
    other = {"text": "b", "image": None}
    assert one.get(request) is None
    one.put(request, said("0.5"))
    one.put(other, said("1"))
    keys = {"model": "m", "settings": {"temperature": 0}}
    digest = "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        **keys,
        "prompt_sha256": digest,
        "image_sha256": "abc",
        "vote": 2,
        "text": "0.5",
    }
    assert (lines[1]["image_sha256"], lines[1]["vote"]) == (None, 0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"model": "cut')
    again = AnswerFile(path, "m", {"temperature": 0}, Answers(tmp_path / "none"))
    assert again.get(request)["choices"][0]["message"]["content"] == "0.5"
    again.put({"text": "c", "image": None}, said("2"))
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes()[len(whole) :].count(b"\n") == 1
    path.write_bytes(whole + whole.replace(b'"0.5"', b'"0.6"'))
    with raises_exactly(f"{path}:3: the answer differs from that of an earlier line"):
        AnswerFile(path, "m", {}, store)
    path.write_bytes(whole + b"{}\n")
    with raises_exactly(f"{path}:3: not an answer of a judge; delete the line"):
        AnswerFile(path, "m", {}, store)
    with raises_exactly(f"{tmp_path}: a folder, not a file of answers"):
        AnswerFile(tmp_path, "m", {}, store)
    assert (
        store.path(request) == store.root / store.path(request).stem[:2] / store.path(request).name
    )
    assert json.loads(store.path(request).read_bytes()) == {
        "request": request,
        "answer": said("0.5"),
    }
    store.path(request).write_text("[1]")
    assert store.get(request) is None


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "answers.jsonl"
    store = Answers(tmp_path / "store")
    one = object.__new__(AnswerFile)
    for name, value in {"path": path, "model": "m", "settings": {}, "answers": store}.items():
        setattr(one, name, value)
    one._records, one._size, one._lock = {}, 0, contextlib.nullcontext()
    with raises_exactly(f"{path}: answers cannot be kept there (File exists)"):
        one.put({"text": "a", "image": None}, said("1"))
    store = Answers(tmp_path / "file")
    with raises_exactly(
        f"{store.path({}).parent}: answers cannot be kept there (Not a directory); set cache.root=DIR"
    ):
        store.put({}, said("1"))


def test_a_kept_file_that_holds_no_answer_is_none(tmp_path):
    answers, request = Answers(tmp_path), {"model": "m"}
    path = answers.path(request)
    path.parent.mkdir()
    for text in ("[", '["answer"]', '"answer"', '{"request": {}}', "null"):
        path.write_text(text)
        assert answers.get(request) is None
    path.write_text('{"answer": {"text": "85"}}')
    assert answers.get(request) == {"text": "85"}
