"""Conversations with a machine about an image, as chat programs, their training data and the batches of their services keep them.

`messages` (`role`, `content`) is OpenAI's form, `conversations` (`from`, `value`) that of ShareGPT and LLaVA. A line of a
batch's output has the answer to one request, below keys that differ by service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, shorten

#: Where a row has its conversation.
CONVERSATIONS = ("messages", "conversations", "conversation")
#: What conversations call the machine.
_MACHINES = ("assistant", "gpt", "model", "bot", "chatbot", "ai", "chatgpt")
#: Where a line of a batch's output has its answer: OpenAI's two kinds, Anthropic's and Gemini's; `*` is the first element.
_ANSWERS = (
    ("response", "body", "choices", "*", "message"),
    ("response", "body", "output"),
    ("result", "message"),
    ("response", "candidates", "*", "content"),
    ("outputs", "*"),
)
#: The keys where an answer, or the error in its place, begins.
_ANSWER_KEYS = frozenset(path[0] for path in _ANSWERS)
#: A row with a conversation or an answer has one of these keys.
_CHAT_KEYS = _ANSWER_KEYS.union(CONVERSATIONS)
#: What such a line calls its request.
_REQUESTS = ("custom_id", "key")
_SPEAKER_KEYS = ("role", "from")
_TEXT_KEYS = ("content", "value", "text", "parts")


def find_conversation(row: Mapping[str, Any]) -> str | None:
    """Return the key of a row's conversation; None where it has none."""
    for key in CONVERSATIONS:
        if key in row and _is_conversation(row[key]):
            return key

    return None


def _is_conversation(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False

    return all(isinstance(message, dict) and _find_speaker(message) for message in value)


def _find_speaker(message: Any) -> str:
    for key in _SPEAKER_KEYS:
        if isinstance(message, dict) and isinstance(message.get(key), str):
            return message[key].strip().lower()

    return ""


def read_answer(conversation: list[dict[str, Any]], where: str) -> str:
    """Return the last answer of the machine; an empty text where it answered with nothing.

    Args:
        conversation: what `find_conversation` names.
        where: the place of the row, for messages.

    Raises:
        InputError: where the machine says nothing in it.
    """
    for message in reversed(conversation):
        if _find_speaker(message) in _MACHINES:
            return _read_text(message)

    speakers = ", ".join(dict.fromkeys(map(_find_speaker, conversation)))
    raise InputError(
        f"{where}: the conversation has no answer of a machine; its speakers are {shorten(speakers)}, and "
        f"{', '.join(_MACHINES[:3])} are expected"
    )


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, which may be in parts, of which some are images."""
    content = next((message[key] for key in _TEXT_KEYS if message.get(key) is not None), "")
    if not isinstance(content, list):
        return str(content)

    texts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(text)
    return " ".join(texts)


def _read_batch_answer(row: Mapping[str, Any]) -> str | None:
    """Return the answer in a line of a batch's output; an empty text where the request failed, None of other rows."""
    if row.keys().isdisjoint(_ANSWER_KEYS):
        return None

    for path in _ANSWERS:
        value = _follow(row, path)
        if isinstance(value, list):
            # A model's thoughts stand before its message.
            value = next((part for part in value if _find_speaker(part) in _MACHINES), None)
        if isinstance(value, dict):
            return _read_text(value)

    # A request that failed has an error instead, such as that of a filter.
    is_batch = "custom_id" in row and ("response" in row or "result" in row)
    has_failed = row.get("error") or isinstance(_follow(row, ("response", "body", "error")), dict)
    has_failed = has_failed or isinstance(_follow(row, ("result", "error")), dict)
    return "" if is_batch and has_failed else None


def _follow(row: Any, path: Sequence[str]) -> Any:
    value = row
    for key in path:
        if key == "*" and isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value


def with_answer(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return a row with its machine's last answer as `caption`, and its `image`; a row without a conversation stays.

    Where it names no image, `image_id` is the conversation's `id`.

    Raises:
        InputError: where the machine says nothing in the conversation.
    """
    # Nearly all rows have neither a conversation nor an answer.
    if row.keys().isdisjoint(_CHAT_KEYS):
        return row

    key = find_conversation(row)
    if key is None:
        return _with_batch_answer(row)

    unfolded = {name: value for name, value in row.items() if name != key}
    unfolded.setdefault("caption", read_answer(row[key], where))
    image = _find_image(row)
    if image is not None:
        unfolded["image"] = image
    elif "id" in row:
        unfolded.setdefault("image_id", row["id"])
    return unfolded


def _with_batch_answer(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a line of a batch's output with its answer as `caption` of the image that its request is called; other rows stay."""
    answer = _read_batch_answer(row)
    if answer is None:
        return row

    unfolded = {name: value for name, value in row.items() if name not in _ANSWER_KEYS}
    unfolded.setdefault("caption", answer)
    request = next((row[name] for name in _REQUESTS if name in row), None)
    if request is not None:
        unfolded.setdefault("image_id", request)
    return unfolded


def _find_image(row: Mapping[str, Any]) -> Any:
    """Return the name of the one image that a conversation is about; None where there is none, or there are several."""
    for key in ("image", "images"):
        value = row.get(key)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        # Hugging Face keeps an image as its bytes and its path.
        if isinstance(value, dict):
            value = value.get("path")
        if isinstance(value, str | int):
            return value

    return None
