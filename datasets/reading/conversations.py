"""Conversations with a machine about an image, as chat programs and their training data keep them.

`messages` (`role`, `content`) is OpenAI's form, `conversations` (`from`, `value`) that of ShareGPT and LLaVA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError, shorten

#: Where a row has its conversation.
CONVERSATIONS = ("messages", "conversations", "conversation")
#: What conversations call the machine.
_MACHINES = ("assistant", "gpt", "model", "bot", "chatbot", "ai", "chatgpt")
_SPEAKER_KEYS = ("role", "from")
_TEXT_KEYS = ("content", "value", "text")


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


def _find_speaker(message: Mapping[str, Any]) -> str:
    for key in _SPEAKER_KEYS:
        if isinstance(message.get(key), str):
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


def with_answer(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return a row with its machine's last answer as `caption`, and its `image`; a row without a conversation stays.

    Where it names no image, `image_id` is the conversation's `id`.

    Raises:
        InputError: where the machine says nothing in the conversation.
    """
    key = find_conversation(row)
    if key is None:
        return row

    unfolded = {name: value for name, value in row.items() if name != key}
    unfolded.setdefault("caption", read_answer(row[key], where))
    image = _find_image(row)
    if image is not None:
        unfolded["image"] = image
    elif "id" in row:
        unfolded.setdefault("image_id", row["id"])
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
