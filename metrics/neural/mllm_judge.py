"""A multimodal language model as judge, asked for a number, which is smoothed by its probabilities."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...datasets.cache import cache_folder
from ...datasets.errors import InputError
from ...datasets.reading.json_files import read_text
from ..base import Floats, Metric, UnavailableError, version_of
from ..progress import advance_to, progress_counter
from ..registry import register
from ..rows import Rows
from .device import TURN, resolve
from .endpoint import Answer, Answers, Endpoint, Purse, Question
from .local_chat import LocalChat
from .weights import need_extra, transformers_folder, transformers_hash

Inputs = Literal["image", "image_and_references", "references"]

#: What is asked, by what the judge sees. The structure is FLEUR's and RefFLEUR's (Lee et al. 2024):
#: the task with the scale and the demand for a bare number, what the ends of the scale mean, the
#: captions, and the question again.
PROMPTS: Mapping[str, str] = {
    "image": (
        "Judge how well a caption describes the image, on a scale from 0.0 to 1.0. Answer with one "
        "decimal number and nothing else.\n\n"
        "What the numbers mean:\n"
        "0.0: nothing that the caption says is in the image.\n"
        "1.0: the caption says clearly and correctly what is in the image.\n\n"
        "Caption: {caption}\n\n"
        "Your number (from 0.0 to 1.0):"
    ),
    "image_and_references": (
        "Judge how well a caption describes the image, on a scale from 0.0 to 1.0. Answer with one "
        "decimal number and nothing else.\n\n"
        "What the numbers mean:\n"
        "0.0: nothing that the caption says is in the image.\n"
        "1.0: the caption says clearly and correctly what is in the image.\n\n"
        "Captions that people wrote for the image:\n{references}\n\n"
        "Caption to judge: {caption}\n\n"
        "Your number (from 0.0 to 1.0):"
    ),
    "references": (
        "People have described an image. Judge how well a further caption describes the same image, "
        "on a scale from 0.0 to 1.0. Answer with one decimal number and nothing else.\n\n"
        "What the numbers mean:\n"
        "0.0: nothing that the caption says can be in the image.\n"
        "1.0: the caption says clearly and correctly what is in the image.\n\n"
        "Captions that people wrote for the image:\n{references}\n\n"
        "Caption to judge: {caption}\n\n"
        "Your number (from 0.0 to 1.0):"
    ),
}
#: A number, with or without digits before the point.
_NUMBER = re.compile(r"(?<![\w.])-?(?=\.?[0-9])[0-9]*(?:\.(?P<decimals>[0-9]+))?")
#: What after a number tells that its scale does not end at 1: `%`, `/10`, `out of 5`.
_OTHER_SCALE = re.compile(r"\s*(?:%|(?:/|out of)\s*(?!1(?:\.0*)?(?![0-9.]))[0-9])")


@register("mllm_judge")
@dataclass(frozen=True)
class MllmJudge(Metric):
    """FLEUR's score smoothing (Lee et al. 2024, and Yebin46/FLEUR `fleur.py`) on any model.

    The model is asked for a number from 0.0 to 1.0, and answers greedily. With 0.ab… its answer and
    p₁, p₂ the probabilities of the digits where a and b stand,

        score = Σ_i p₁(i) · i/10 + Σ_i p₂(i) · i/100,

    the second sum where b is there and not a last 0; for 1.0, with p those of the digit before the
    point, score = 0.9 · p(0) + p(1). A token of several digits counts as the number that it spells.
    A digit that is not among the `top_logprobs` likeliest tokens has the probability 0.

    An answer without a number from 0 to 1, or without probabilities, is an error that names the item,
    or undefined (NaN) with `unusable=undefined`; `smoothing=none` takes the number as it stands.

    The key of an endpoint is read from the environment variable CAPTAU_JUDGE_KEY and goes nowhere
    else. Answers are kept in the cache folder for good, whatever becomes of the run.

    Args:
        model: its name at the endpoint; or a local folder or hub name.
        url: of the endpoint, up to and without /chat/completions.
        inputs: what the judge sees beside the caption: `image` is FLEUR, `image_and_references`
            RefFLEUR; with `references` alone any language model will do.
        prompt: a text file in place of the built-in text, with `{caption}` and, as the inputs have
            it, `{references}`.
        smoothing: `digits`, or `none`.
        unusable: what becomes of an item with an unusable answer.
        temperature, max_tokens, top_logprobs: as the endpoint understands them; the local model
            always answers greedily.
        max_requests: how many requests one call may send.
        max_total_tokens: after how many tokens, as the endpoint counts them, it stops asking.
        concurrency: how many requests are under way at once.
        retries: how often one is repeated after status 429 or 5xx, a timeout or a lost connection.
        timeout: seconds to wait for an answer.
        device: where a local model runs.
        backend: `openai`, any endpoint that speaks its chat completions; or `transformers`.
    """

    model: str
    url: str = "http://localhost:8000/v1"
    inputs: Inputs = "image"
    prompt: str | None = None
    smoothing: Literal["digits", "none"] = "digits"
    unusable: Literal["error", "undefined"] = "error"
    temperature: float = 0.0
    max_tokens: int = 16
    top_logprobs: int = 20
    max_requests: int | None = 10_000
    max_total_tokens: int | None = None
    concurrency: int = 4
    retries: int = 5
    timeout: float = 120.0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    backend: Literal["openai", "transformers"] = "openai"

    #: Answers are kept themselves, and what costs nothing to compute need not be.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("prompt",)

    def __post_init__(self) -> None:
        minima = {"max_tokens": 1, "top_logprobs": 1, "concurrency": 1, "retries": 0}
        limits = {"max_requests": 0, "max_total_tokens": 0, "temperature": 0, "timeout": 1e-3}
        for field, low in {**minima, **limits}.items():
            value = getattr(self, field)
            if value is not None and value < low:
                raise InputError(f"metric mllm_judge: {field} is {value}; {low} is the least")

    @property
    def name(self) -> str:
        return "mllm_judge"

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        needs = {"image": {"images"}, "references": {"references"}}
        return frozenset(needs.get(self.inputs, {"images", "references"}))

    @property
    def lock(self) -> AbstractContextManager[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return TURN if self.backend == "transformers" else nullcontext()

    @property
    def programs(self) -> tuple[str, ...]:
        """The text that is asked and, of a local model, what computes it."""
        prompt_digest = (
            f"prompt-sha256-{hashlib.sha256(PROMPTS[self.inputs].encode()).hexdigest()[:16]}"
        )
        if self.backend == "openai":
            return (prompt_digest,)
        try:
            weights = transformers_hash(transformers_folder(self.name, self.model))
        except UnavailableError:
            weights = "missing"
        versions = (f"{d}:{version_of(d)}" for d in ("torch", "transformers"))
        return (prompt_digest, f"weights:{weights}", f"on:{resolve(self.device)}", *versions)

    def check_rows(self, rows: Rows) -> None:
        super().check_rows(rows)
        if self.backend == "transformers":
            need_extra(self.name, ("torch", "transformers"))
            transformers_folder(self.name, self.model)

    def compute(self, rows: Rows) -> Floats:
        """Scores of shape (len(rows),).

        Raises:
            InputError: where a limit is reached, the endpoint refuses or fails for good, an image
                cannot be read, or (`unusable=error`) an answer is unusable; it names the item.
        """
        questions = self._questions(rows)
        with progress_counter(self.model, len(questions)) as advance:
            answers = self._judge().ask(questions, rows.label, advance_to(advance))
        scores = np.full(len(rows), math.nan)
        reasons: dict[int, str] = {}
        for i, answer in enumerate(answers):
            try:
                scores[i] = score_of(answer, smooth=self.smoothing == "digits")
            except UnusableError as error:
                reasons[i] = str(error)
        if reasons:
            first, reason = next(iter(reasons.items()))
            count = f"{len(reasons)} of {len(rows)} answers are unusable"
            if self.unusable == "error":
                raise InputError(
                    f"metric mllm_judge: {rows.label(first)}: {reason} ({count}); "
                    f"unusable=undefined leaves such items out"
                )
            rows.add_remark(self.spec, f"{count}, and their scores undefined")
        return scores

    def _judge(self) -> Endpoint | LocalChat:
        answers = Answers(cache_folder("judge"))
        if self.backend == "transformers":
            return LocalChat(
                folder=transformers_folder(self.name, self.model),
                device=resolve(self.device),
                max_tokens=self.max_tokens,
                top_logprobs=self.top_logprobs,
                images=self.inputs != "references",
                answers=answers,
            )
        parameters: dict[str, Any] = {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        if self.smoothing == "digits":
            parameters |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        return Endpoint(
            url=self.url,
            parameters=parameters,
            answers=answers,
            purse=Purse(self.max_requests, self.max_total_tokens),
            concurrency=self.concurrency,
            retries=self.retries,
            timeout=self.timeout,
        )

    def _questions(self, rows: Rows) -> list[Question]:
        """One question a row; white space in a caption becomes single blanks, as in FLEUR's code."""
        prompt = self._prompt()
        needs = self.inputs != "references"
        return [
            Question(_filled(prompt, caption, references), image if needs else None)
            for caption, references, image in zip(
                rows.captions, rows.references, rows.images, strict=True
            )
        ]

    def _prompt(self) -> str:
        if self.prompt is None:
            return PROMPTS[self.inputs]
        text = read_text(Path(self.prompt).expanduser())
        digit_count = {"{caption}"} | ({"{references}"} if self.inputs != "image" else set[str]())
        for token_at in sorted(digit_count):
            if token_at not in text:
                raise InputError(f"{self.prompt}: no {token_at}, where inputs={self.inputs} has it")
        return text


def _filled(prompt: str, caption: str, references: Sequence[str]) -> str:
    """Return the prompt with caption and references (a line each) in their places, in one pass."""
    parts = {
        "{caption}": " ".join(caption.split()),
        "{references}": "\n".join(" ".join(r.split()) for r in references),
    }
    return re.sub(r"\{(?:caption|references)\}", lambda token_at: parts[token_at[0]], prompt)


class UnusableError(Exception):
    """An answer that no score follows from; the text says why."""


def score_of(answer: Answer, *, smooth: bool) -> float:
    """Return the score that a chat completion gives; see `MllmJudge`.

    Returns:
        a number from 0 to 1.

    Raises:
        UnusableError: where it has no number from 0 to 1, or no probabilities and is to be smoothed.
    """
    choice: Any = answer["choices"][0]
    content = choice["message"].get("content")
    if not isinstance(content, str):
        raise UnusableError("the answer has no text")
    try:
        value, _, _ = _number(content)
    except UnusableError as error:
        cut = "; it was cut off by max_tokens" if choice.get("finish_reason") == "length" else ""
        raise UnusableError(f"{error}{cut}") from None
    if not smooth:
        return value
    places = _places(choice)
    text = "".join(token for token, _ in places)
    spelt, integer_start, decimals = _number(text)
    if spelt != value:
        raise UnusableError(f"the tokens of the answer spell '{text[:80]}', not '{content[:80]}'")
    starts = np.cumsum([0, *(len(token) for token, _ in places)])

    def token_at(char: int) -> tuple[str, str, dict[str, float]]:
        """Split the token that holds a character there; return both parts and the likely tokens."""
        i = int(np.searchsorted(starts, char, side="right")) - 1
        token, likely = places[i]
        offset = char - int(starts[i])
        return token[:offset], token[offset:], likely

    if value == 1 or decimals[0] == decimals[1]:
        before, _, likely = token_at(integer_start)
        first = {d: sum(p for t, p in likely.items() if _begins(t, before + d)) for d in "01"}
        return min((0.9 * first["0"] if value == 1 else 0.0) + first["1"], 1.0)
    # As FLEUR reads it: the first decimal always, the second where it is there and not a last 0.
    digit_count = min(len(text[slice(*decimals)].rstrip("0")) or 1, 2)
    score, digits_read = 0.0, 0
    while digits_read < digit_count:
        before, after, likely = token_at(decimals[0] + digits_read)
        digits = re.match(r"[0-9]+", after)
        size = min(len(digits[0]) if digits else 1, 2 - digits_read)
        for token, p in likely.items():
            rest = token.removeprefix(before)
            if token.startswith(before) and re.fullmatch(r"[0-9]+", rest):
                score += p * int(rest[:size].ljust(size, "0")) * 10.0 ** -(digits_read + size)
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
    return value, match.start(), match.span("decimals") if match["decimals"] else (0, 0)


def _places(choice: Any) -> list[tuple[str, dict[str, float]]]:
    """Return each token of an answer, and the probabilities of the likeliest tokens at its place.

    Raises:
        UnusableError: where the answer does not bring them, or they are no probabilities.
    """
    try:
        places: list[tuple[str, dict[str, float]]] = []
        for entry in choice["logprobs"]["content"]:
            likely = {str(t["token"]): math.exp(t["logprob"]) for t in entry["top_logprobs"]}
            likely.setdefault(str(entry["token"]), math.exp(entry["logprob"]))
            places.append((str(entry["token"]), likely))
    except (KeyError, TypeError, ValueError, OverflowError):
        places = []
    if not places:
        raise UnusableError(
            "the answer has no probabilities (logprobs); smoothing=none does without them"
        )
    if any(not sum(likely.values()) <= 1.001 for _, likely in places):
        raise UnusableError("the probabilities of the answer (logprobs) are none")
    return places
