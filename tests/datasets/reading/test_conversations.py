"""Conversations with a machine as captions: the machine's last answer of each, in the forms of OpenAI, ShareGPT and LLaVA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.caption_files import read_candidates, read_references
from tests.conftest import says
from tests.field_files import CAPTIONS, REFERENCES, write

EXPECTED = {str(i): caption for i, caption in CAPTIONS.items()}


def in_llava(answer: str) -> list[dict[str, str]]:
    return [
        {"from": "human", "value": "<image>\nWhat is this?"},
        {"from": "gpt", "value": "An image."},
        {"from": "human", "value": "Describe it."},
        {"from": "gpt", "value": answer},
    ]


def in_messages(answer: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "You describe images."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Describe it."}]},
        {"role": "assistant", "content": answer},
    ]


def in_parts(answer: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": answer}]
    return [
        {"role": "user", "content": "Describe it."},
        {"role": "assistant", "content": parts},
        {"role": "user", "content": "Thanks."},
    ]


def rows_of(name: str, converse: Any, image: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for i, caption in CAPTIONS.items():
        value: Any = [str(i)] if image == "images" else str(i)
        rows.append({image: value, name: converse(caption)})
    return rows


@pytest.mark.parametrize("image", ["image", "id", "images", "image_id"])
@pytest.mark.parametrize(
    ("name", "converse"),
    [("conversations", in_llava), ("messages", in_messages), ("messages", in_parts)],
)
def test_the_machine_s_last_answer_is_the_caption(
    name: str, converse: Any, image: str, tmp_path: Path
) -> None:
    rows = rows_of(name, converse, image)
    assert read_candidates(write(tmp_path / "c.json", rows)).captions == EXPECTED
    lines = pd.DataFrame(rows).to_json(orient="records", lines=True)
    assert read_candidates(write(tmp_path / "c.jsonl", lines)).captions == EXPECTED


@pytest.mark.parametrize("image", ["image", "id", "images"])
def test_conversations_of_parquet_are_those_of_json(image: str, tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pd.DataFrame(rows_of("conversations", in_llava, image)).to_parquet(path)
    assert read_candidates(path).captions == EXPECTED


def test_each_conversation_may_be_one_reference(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for i, texts in REFERENCES.items():
        rows += [{"image": str(i), "conversations": in_llava(text)} for text in texts]
    read = read_references(write(tmp_path / "r.json", rows))
    assert read.texts == {str(i): texts for i, texts in REFERENCES.items()}


def test_a_conversation_names_its_image_before_itself(tmp_path: Path) -> None:
    row = {"id": "conversation-1", "image": "7.jpg", "conversations": in_llava("a dog")}
    assert read_candidates(write(tmp_path / "c.json", [row])).captions == {"7.jpg": "a dog"}


def test_references_beside_a_conversation_are_read(tmp_path: Path) -> None:
    row = {"image": "7", "messages": in_messages("a dog"), "references": ["a cat", "a cow"]}
    path = write(tmp_path / "both.json", [row])
    assert read_candidates(path).captions == {"7": "a dog"}
    assert read_references(path).texts == {"7": ("a cat", "a cow")}


def test_an_answer_of_nothing_is_an_empty_caption(tmp_path: Path) -> None:
    row = {"image": "7", "messages": [{"role": "assistant", "content": None}]}
    assert read_candidates(write(tmp_path / "c.json", [row])).captions == {"7": ""}


def test_a_conversation_without_a_machine_says_who_speaks(tmp_path: Path) -> None:
    row = {"image": "7", "messages": [{"role": "user", "content": "Describe it."}]}
    with says("entry 0: the conversation has no answer of a machine; its speakers are user"):
        read_candidates(write(tmp_path / "c.json", [row]))


def of_openai(caption: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": caption, "refusal": None}
    body = {"model": "m", "choices": [{"index": 0, "message": message}]}
    return {"id": "r", "response": {"status_code": 200, "body": body}, "error": None}


def of_openai_responses(caption: str) -> dict[str, Any]:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": caption}],
    }
    output = [{"type": "reasoning", "summary": []}, message]
    return {"response": {"status_code": 200, "body": {"output": output}}, "error": None}


def of_anthropic(caption: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": caption}]}
    return {"result": {"type": "succeeded", "message": message}}


def of_gemini(caption: str) -> dict[str, Any]:
    content = {"parts": [{"text": caption}], "role": "model"}
    return {"response": {"candidates": [{"content": content}]}}


def of_vllm(caption: str) -> dict[str, Any]:
    return {"outputs": [{"text": caption}]}


@pytest.mark.parametrize("request_key", ["custom_id", "key"])
@pytest.mark.parametrize(
    "answer", [of_openai, of_openai_responses, of_anthropic, of_gemini, of_vllm]
)
def test_the_output_of_a_batch_is_read(answer: Any, request_key: str, tmp_path: Path) -> None:
    rows = [{request_key: str(i), **answer(caption)} for i, caption in CAPTIONS.items()]
    lines = "\n".join(map(json.dumps, rows))
    assert read_candidates(write(tmp_path / "c.jsonl", lines)).captions == EXPECTED


@pytest.mark.parametrize(
    "failure",
    [
        {"response": None, "error": {"code": "batch_expired"}},
        {"response": {"status_code": 400, "body": {"error": {"code": "content_filter"}}}},
        {"result": {"type": "errored", "error": {"type": "invalid_request"}}},
    ],
)
def test_a_request_that_failed_has_an_empty_caption_which_is_counted(
    failure: dict[str, Any], tmp_path: Path
) -> None:
    rows = [{"custom_id": "6", **of_openai("a dog")}, {"custom_id": "7", **failure}]
    read = read_candidates(write(tmp_path / "c.jsonl", "\n".join(map(json.dumps, rows))))
    assert read.captions == {"6": "a dog", "7": ""}
    assert [fault.code for fault in read.find_faults()] == ["empty"]


def test_samples_of_lmms_eval_without_metrics_of_captions_are_read(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for i, caption in CAPTIONS.items():
        question = {"image_id": i, "captions": list(REFERENCES[i])}
        rows.append({"doc_id": 0, "doc": question, "target": "", "filtered_resps": [caption]})
    path = write(tmp_path / "s.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_candidates(path).captions == EXPECTED
    assert read_references(path).texts == {str(i): texts for i, texts in REFERENCES.items()}


def test_an_image_of_wandb_is_called_by_its_path(tmp_path: Path) -> None:
    image = {"_type": "image-file", "path": "media/7.png", "width": 1}
    table = {"columns": ["image", "prediction"], "data": [[image, "a dog"]]}
    read = read_candidates(write(tmp_path / "t.table.json", table))
    assert read.captions == {"media/7.png": "a dog"}
