"""Stores of a judge's answers: in the cache folder, and a file with which others repeat a run without the model.

A line of the file is JSON: `model`, `settings` (temperature, the most tokens), `prompt_sha256` (of the text that was asked,
captions and references in it), `image_sha256` (or null), `vote`, `text` (the answer), and where the endpoint said them
`tokens` (each with the probabilities of the likeliest tokens at its place), `finish_reason`, `refusal` and `usage`. The file
holds no captions and no address.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ....datasets.cache import replacing
from ....datasets.errors import InputError

Answer = dict[str, Any]


class AnswerStore(Protocol):
    """A place where answers are looked up and kept; a request is a JSON object."""

    def get(self, request: Mapping[str, Any]) -> Answer | None: ...

    def put(self, request: Mapping[str, Any], answer: Answer) -> None: ...


class Answers:
    """Answers on disk, one file each, by the hash of their request.

    A file is written under a temporary name and renamed: a killed run leaves whole files alone, and
    two runs at once do each other no harm. One that cannot be read is asked for anew.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, request: Any) -> Path:
        """Return the path of the answer to a request, which need not exist."""
        text = json.dumps(request, sort_keys=True, ensure_ascii=True)
        digest = hashlib.sha256(text.encode()).hexdigest()

        return self.root / digest[:2] / f"{digest}.json"

    def get(self, request: Mapping[str, Any]) -> Answer | None:
        """Return the answer, or None where there is none."""
        try:
            record = json.loads(self.path(request).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record["answer"] if isinstance(record, dict) and "answer" in record else None

    def put(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Keep an answer.

        Raises:
            InputError: where it cannot be written: what is paid for must not be lost.
        """
        path = self.path(request)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as stream:
                stream.write(json.dumps({"request": request, "answer": answer}).encode())
        except OSError as error:
            raise InputError(
                f"{path.parent}: answers cannot be kept there ({error.strerror}); set cache.root=DIR"
            ) from error


_KEY_FIELDS = ("model", "settings", "prompt_sha256", "image_sha256", "vote")


@dataclass
class AnswerFile:
    """Answers of a file, to which new ones are appended; a store as `Answers` is.

    Args:
        path: the file, which need not exist.
        model: the model's name.
        settings: what else an answer depends on, besides question and vote.
        answers: the store behind it; what that has already is copied into the file.
    """

    path: Path
    model: str
    settings: Mapping[str, Any]
    answers: Answers
    _records: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        data = b""
        with suppress(FileNotFoundError):
            try:
                data = self.path.read_bytes()
            except IsADirectoryError as error:
                raise InputError(f"{self.path}: a folder, not a file of answers") from error

        # A last line without an end was cut when a run was killed; the next answer goes in its place.
        self._size = data.rfind(b"\n") + 1

        for number, line in enumerate(data[: self._size].splitlines(), start=1):
            record = self._parse_line(line, number)
            key = _key({name: record[name] for name in _KEY_FIELDS})
            if self._records.setdefault(key, record)["text"] != record["text"]:
                raise InputError(
                    f"{self.path}:{number}: the answer differs from that of an earlier line"
                )

    def _parse_line(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
            _make_answer(record)
            is_complete = all(name in record for name in _KEY_FIELDS)
        except (ValueError, KeyError, TypeError, AttributeError):
            is_complete = False
            record = {}
        if not is_complete:
            raise InputError(f"{self.path}:{number}: not an answer of a judge; delete the line")

        return record

    def get(self, request: Mapping[str, Any]) -> Answer | None:
        """Return the answer to a request, or None where neither the file nor the store has one."""
        record = self._records.get(_key(self._name_request(request)))
        if record is not None:
            return _make_answer(record)

        answer = self.answers.get(request)
        if answer is not None:
            self._append(request, answer)

        return answer

    def put(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Keep an answer in the file, and in the store.

        Raises:
            InputError: where one of them cannot be written.
        """
        self.answers.put(request, answer)
        self._append(request, answer)

    def _name_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "model": self.model,
            "settings": dict(self.settings),
            "prompt_sha256": hashlib.sha256(request["text"].encode()).hexdigest(),
            "image_sha256": request["image"] and request["image"].removeprefix("sha256-"),
            "vote": request.get("vote", 0),
        }

    def _append(self, request: Mapping[str, Any], answer: Answer) -> None:
        name = self._name_request(request)
        record = {**name, **_shorten_answer(answer)}
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        # Several requests are under way at once.
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("r+b" if self.path.exists() else "wb") as stream:
                    stream.truncate(self._size)
                    stream.seek(self._size)
                    stream.write(line)
            except OSError as error:
                raise InputError(
                    f"{self.path}: answers cannot be kept there ({error.strerror})"
                ) from error

            self._size += len(line)
            self._records[_key(name)] = record


def _key(name: Mapping[str, Any]) -> str:
    return json.dumps(name, sort_keys=True)


def _shorten_answer(answer: Answer) -> dict[str, Any]:
    """Return what of a chat completion a score or a count of tokens needs."""
    choice: Any = answer["choices"][0]
    record: dict[str, Any] = {"text": choice["message"].get("content")}
    # A model that gives no probabilities has no tokens here.
    with suppress(KeyError, TypeError):
        tokens: list[list[Any]] = []
        for entry in choice["logprobs"]["content"]:
            likely_tokens: list[list[Any]] = []
            for likely in entry["top_logprobs"]:
                likely_tokens.append([likely["token"], likely["logprob"]])
            tokens.append([entry["token"], entry["logprob"], likely_tokens])
        record["tokens"] = tokens

    optional = {
        "refusal": choice["message"].get("refusal"),
        "finish_reason": choice.get("finish_reason"),
        "usage": answer.get("usage"),
    }
    for name, value in optional.items():
        if value is not None:
            record[name] = value
    return record


def _make_answer(record: Mapping[str, Any]) -> Answer:
    """Return the chat completion that a line stands for."""
    tokens: list[dict[str, Any]] = []
    for token, logprob, likely in record.get("tokens", []):
        top_logprobs: list[dict[str, Any]] = []
        for likely_token, likely_logprob in likely:
            top_logprobs.append({"token": likely_token, "logprob": likely_logprob})
        tokens.append({"token": token, "logprob": logprob, "top_logprobs": top_logprobs})

    message = {"content": record["text"], "refusal": record.get("refusal")}
    choice: dict[str, Any] = {"message": message, "finish_reason": record.get("finish_reason")}
    if "tokens" in record:
        choice["logprobs"] = {"content": tokens}

    return {"choices": [choice], "usage": record.get("usage")}
