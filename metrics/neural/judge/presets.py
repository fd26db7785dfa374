"""The prompts of judges, and what follows from their answers.

The presets of `prompts/*.yaml`, each with its source, are filled with captions and references. Scores and choices are read out
of chat completions, and smoothed by the probabilities of their tokens where a preset says so.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ....datasets.reading.json_files import read_text
from .answers import Answer

Inputs = Literal["image", "image_and_references", "references"]
Reading = Literal["number", "json", "dollars", "choice"]
Smoothing = Literal["digits", "integers", "none"]

_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Preset:
    """A prompt, what it shows the judge, and how an answer is read.

    Attributes:
        title, source: for people; `source` says whose the wording is and under which licence.
        prompt: the text, with `{caption}` (or `{caption_1}` and `{caption_2}`) and, as the inputs have it,
            `{references}`.
        inputs: what the judge sees beside captions.
        reading: where the number stands: `number`, the first from 0 to 1; `json`, CLAIR's "score" from
            0 to 100; `dollars`, G-VEval's whole number from 0 to 100 between dollar signs; `choice`, one
            of two captions.
        smoothing: how probabilities make the score: FLEUR's `digits`, G-VEval's `integers`, or `none`.
        temperature, max_tokens, top_logprobs: the authors' where the source says nothing else.
        references: texts before, between and after the references.
    """

    title: str
    source: str
    prompt: str
    inputs: Inputs
    reading: Reading
    smoothing: Smoothing
    temperature: float
    max_tokens: int
    top_logprobs: int = 20
    references: Mapping[str, str] = field(
        default_factory=lambda: {"before": "", "between": "\n", "after": ""}
    )

    @property
    def shows_image(self) -> bool:
        return self.inputs != "references"

    @property
    def shows_references(self) -> bool:
        return self.inputs != "image"

    @property
    def digest(self) -> str:
        """The SHA-256 of all that an answer depends on."""
        parts = (self.prompt, self.reading, self.smoothing, sorted(self.references.items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def fill(self, captions: Mapping[str, str], references: Sequence[str]) -> str:
        """Return the prompt with captions and references in their places, in one pass.

        White space in them becomes single blanks, as in FLEUR's code.

        Args:
            captions: by the name of their place, such as `caption`.
        """
        parts = {name: " ".join(text.split()) for name, text in captions.items()}
        cleaned = (" ".join(text.split()) for text in references)
        joined = self.references["between"].join(cleaned)
        parts["references"] = f"{self.references['before']}{joined}{self.references['after']}"

        # A name in braces, such as `{caption}`.
        placeholder = r"\{(" + "|".join(parts) + r")\}"

        # In one pass: a caption that holds `{references}` keeps its text.
        return re.sub(placeholder, lambda match: parts[match[1]], self.prompt)


@cache
def load_preset(name: str) -> Preset:
    """Load a preset of `prompts/`."""
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return Preset(**yaml.safe_load(text))


def read_prompt(path: str, preset: Preset) -> str:
    """Read a prompt of the user's own, in place of the preset's.

    Raises:
        InputError: where the file lacks a place that the preset's prompt has.
    """
    text = read_text(expand_home(path))
    for placeholder in re.findall(r"\{(?:caption(?:_[12])?|references)\}", preset.prompt):
        if placeholder not in text:
            raise InputError(f"{path}: no {placeholder}, where inputs={preset.inputs} has it")

    return text


#: A number, with or without digits before the point: a digit follows at once or behind the point, and no letter, digit
#: or point stands before.
_NUMBER = re.compile(r"(?<![\w.])-?(?=\.?[0-9])[0-9]*(?:\.(?P<decimals>[0-9]+))?")
#: The end of a scale from 0 to 1: `1`, `1.` or `1.0`, and not the beginning of `10`.
_END_AT_1 = r"1(?:\.0*)?(?![0-9.])"
#: What after a number tells that its scale does not end at 1: `%`, `/10`, `out of 5`.
_OTHER_SCALE = re.compile(rf"\s*(?:%|(?:/|out of)\s*(?!{_END_AT_1})[0-9])")
_IN_DOLLARS = re.compile(r"\$\s*\{*\s*([0-9]+)\s*\}*\s*\$")
_CHOICE = re.compile(r"judge?ment\W*(caption\s*[12]|tie)\b", re.IGNORECASE)


class UnusableError(Exception):
    """An answer that no score follows from; the text says why."""


def score_of(answer: Answer, reading: Reading = "number", smoothing: Smoothing = "digits") -> float:
    """Return the score that a chat completion gives; see `MllmJudge`.

    Returns:
        a number from 0 to 1.

    Raises:
        UnusableError: where the model refused or was cut off, there is no number of the scale, or no
            probabilities and the score is to be smoothed.
    """
    choice: Any = answer["choices"][0]
    content = _content(choice)
    try:
        if reading == "json":
            return _read_json(content)
        if reading == "dollars":
            integer = _read_integer(content)
            return _smooth_integer(choice, integer) if smoothing == "integers" else integer / 100
        value, _, _ = _number(content)
    except UnusableError as error:
        cut = "; it was cut off by max_tokens" if choice.get("finish_reason") == "length" else ""
        raise UnusableError(f"{error}{cut}") from None

    return value if smoothing == "none" else _smooth_digits(choice, content, value)


def choice_of(answer: Answer) -> int:
    """Return which of two captions a chat completion prefers: 1, 2, or 0 for neither.

    Raises:
        UnusableError: where the model refused, or the answer has no line of a judgement.
    """
    content = _content(answer["choices"][0])
    matches = _CHOICE.findall(content)
    if not matches:
        raise UnusableError(f"the answer '{content[:80]}' has no judgement")

    # `caption 1`, `caption 2` or `tie`.
    last_judgement = matches[-1]
    if last_judgement.endswith("1"):
        return 1
    return 2 if last_judgement.endswith("2") else 0


def _content(choice: Any) -> str:
    message = choice["message"]
    refusal = message.get("refusal")
    if refusal or choice.get("finish_reason") == "content_filter":
        text = " ".join(str(refusal or message.get("content") or "").split())
        raise UnusableError(f"the model refused ('{text[:80]}')")

    if not isinstance(message.get("content"), str):
        raise UnusableError("the answer has no text")
    return message["content"]


def _read_json(content: str) -> float:
    """Read CLAIR's answer as its authors do: the first JSON object's score, else the first number.

    A number below 1 outside JSON counts a hundredfold: some models answer from 0 to 1.
    """
    try:
        inside = content.split("{")[1].split("}")[0]
        score = float(json.loads("{" + inside + "}")["score"])
    except (ValueError, KeyError, IndexError, TypeError):
        match = re.search(r"\d*\.?\d+", content)
        if match is None:
            raise UnusableError(f"the answer '{content[:80]}' has no number") from None

        score = float(match[0])
        if score < 1:
            score *= 100

    if not 0 <= score <= 100:
        raise UnusableError(f"the answer '{content[:80]}' has no number from 0 to 100")
    return score / 100


def _read_integer(content: str) -> int:
    """Read G-VEval's answer: a whole number from 0 to 100 between dollar signs."""
    match = _IN_DOLLARS.search(content)
    if match is None or int(match[1]) > 100:
        raise UnusableError(
            f"the answer '{content[-80:]}' has no whole number from 0 to 100 between dollar signs"
        )

    return int(match[1])


def _smooth_integer(choice: Any, integer: int) -> float:
    """Average whole numbers by their probabilities behind the first dollar sign, as G-VEval does."""
    places = read_token_places(choice)
    # The number begins behind the first token with a dollar sign.
    dollars = [position for position, (token, _) in enumerate(places) if "$" in token]
    following = places[dollars[0] + 1 :] if dollars else []
    if not following or following[0][0] != str(integer):
        raise UnusableError(
            f"the number {integer} is not a single token after a dollar sign, so it cannot be "
            f"smoothed; smoothing=none takes it as it is"
        )

    _, likely = following[0]
    pattern = re.compile(r"[0-9]|[1-9][0-9]|100")
    weights: dict[int, float] = {}
    for token, probability in likely.items():
        if pattern.fullmatch(token):
            weights[int(token)] = probability
    total = sum(number * probability for number, probability in weights.items())

    return total / sum(weights.values()) / 100


def _smooth_digits(choice: Any, content: str, value: float) -> float:
    """Smooth a number from 0 to 1 by the probabilities of its digits, as FLEUR does."""
    places = read_token_places(choice)
    text = "".join(token for token, _ in places)
    spelt, integer_start, decimals = _number(text)
    if spelt != value:
        raise UnusableError(f"the tokens of the answer spell '{text[:80]}', not '{content[:80]}'")

    starts = np.cumsum([0, *(len(token) for token, _ in places)])

    def token_at(char: int) -> tuple[str, str, dict[str, float]]:
        """Split the token that holds a character there; return both parts and the likely tokens."""
        n_begun = int(np.searchsorted(starts, char, side="right"))
        i = n_begun - 1
        token, likely = places[i]
        offset = char - int(starts[i])
        return token[:offset], token[offset:], likely

    # Without a decimal, or for 1.0, FLEUR reads the digit before the point alone.
    first_decimal, end_of_decimals = decimals
    has_decimals = first_decimal < end_of_decimals
    if value == 1 or not has_decimals:
        before, _, likely = token_at(integer_start)
        p_zero = sum(p for token, p in likely.items() if _begins(token, before + "0"))
        p_one = sum(p for token, p in likely.items() if _begins(token, before + "1"))
        score = p_one
        if value == 1:
            score = 0.9 * p_zero + p_one
        return min(score, 1.0)

    # As FLEUR reads it: the first decimal always, the second where it is there and not a last 0.
    significant = text[first_decimal:end_of_decimals].rstrip("0")
    digit_count = min(max(len(significant), 1), 2)
    score = 0.0
    digits_read = 0
    while digits_read < digit_count:
        before, after, likely = token_at(first_decimal + digits_read)
        digits = re.match(r"[0-9]+", after)
        # A token of several digits counts as the number that it spells.
        n_digits_in_token = len(digits[0]) if digits else 1
        size = min(n_digits_in_token, 2 - digits_read)
        for token, p in likely.items():
            rest = token.removeprefix(before)
            if token.startswith(before) and re.fullmatch(r"[0-9]+", rest):
                # A likely token with fewer digits is filled up: 7 beside 65 counts as 70.
                number = int(rest[:size].ljust(size, "0"))
                score += p * number * 10.0 ** -(digits_read + size)

        digits_read += size

    return min(score, 1.0)


def _begins(token: str, number: str) -> bool:
    """Tell whether a token is a number of one digit, or begins with it and the point."""
    return token == number or token.startswith(f"{number}.")


def _number(text: str) -> tuple[float, int, tuple[int, int]]:
    """Return the first number of a text, where it begins, and from where to where its decimals stand.

    Raises:
        UnusableError: where there is none, it is not from 0 to 1, or it is of another scale.
    """
    match = _NUMBER.search(text)
    if match is None:
        raise UnusableError(f"the answer '{text[:80]}' has no number")
    value = float(match[0])
    if not 0 <= value <= 1 or _OTHER_SCALE.match(text, match.end()):
        raise UnusableError(f"the answer '{text[:80]}' has no number from 0 to 1")

    decimals = match.span("decimals") if match["decimals"] else (0, 0)
    return value, match.start(), decimals


def read_token_places(choice: Any) -> list[tuple[str, dict[str, float]]]:
    """Return each token of an answer, and the probabilities of the likeliest tokens at its place.

    Raises:
        UnusableError: where the answer does not bring them, or they are no probabilities.
    """
    try:
        places: list[tuple[str, dict[str, float]]] = []
        for entry in choice["logprobs"]["content"]:
            likely: dict[str, float] = {}
            for candidate in entry["top_logprobs"]:
                likely[str(candidate["token"])] = math.exp(candidate["logprob"])
            likely.setdefault(str(entry["token"]), math.exp(entry["logprob"]))
            places.append((str(entry["token"]), likely))
    except (KeyError, TypeError, ValueError, OverflowError):
        places = []

    if not places:
        raise UnusableError(
            "the answer has no probabilities (logprobs); smoothing=none does without them"
        )
    for _, likely in places:
        # NaN is above nothing and below nothing, and is refused too.
        if not sum(likely.values()) <= 1.001:
            raise UnusableError("the probabilities of the answer (logprobs) are none")

    return places
