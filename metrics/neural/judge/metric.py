"""A language model as judge, asked for a number by the prompts of published metrics or one's own."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ....datasets.cache import cache_folder
from ....datasets.errors import InputError
from ....datasets.paths import expand_home
from ...base import Floats, Metric, version_of
from ...progress import advance_to, progress_counter
from ...registry import register
from ...rows import Rows
from ..models import MODEL_LOCK, model_programs, need_extra, resolve, transformers_folder
from .answers import Answer, AnswerFile, Answers, AnswerStore
from .endpoint import Endpoint, Question, SpendingLimits
from .local_chat import LocalChat
from .presets import Preset, UnusableError, load_preset, read_prompt, score_of

#: A rule of thumb for English, where no answer has said yet how many tokens a question has.
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, in any currency; None where they are not known."""

    sent: float | None
    answered: float | None

    def describe_cost(self, sent: float, answered: float) -> str:
        """Return the cost of some tokens, for a message; empty without prices."""
        if self.sent is None or self.answered is None:
            return ""
        return f", cost {(sent * self.sent + answered * self.answered) / 1e6:,.4f}"


def estimate_costs(
    questions: Sequence[Question], stored: Sequence[Answer], max_tokens: int, prices: Prices
) -> str:
    """Say what questions will take.

    Args:
        questions: those to be asked.
        stored: answers to others, from which tokens are estimated where they say them.
    """
    counts: list[tuple[int, int]] = []
    for answer in stored:
        count = _count_tokens(answer)
        if count is not None:
            counts.append(count)

    if counts:
        tokens_each = sum(sent for sent, _ in counts) / len(counts)
        sent = tokens_each * len(questions)
        origin = f"as many each as {len(counts)} earlier ones"
    else:
        sent = sum(len(question.text) for question in questions) / _CHARACTERS_PER_TOKEN
        origin = f"at {_CHARACTERS_PER_TOKEN} characters each"
        if any(question.image for question in questions):
            origin += ", and those of the images"

    answered = max_tokens * len(questions)
    cost = prices.describe_cost(sent, answered)

    return (
        f"{len(questions):,} requests, about {sent:,.0f} tokens sent ({origin}), "
        f"at most {answered:,} answered{cost.replace('cost', 'cost about')}"
    )


def summarise_costs(answers: Sequence[Answer], prices: Prices) -> str:
    """Say what answers took, as the endpoint counted it; empty where it did not."""
    sent = 0
    answered = 0
    counted = 0
    for answer in answers:
        tokens = _count_tokens(answer)
        if tokens is not None:
            sent += tokens[0]
            answered += tokens[1]
            counted += 1
    if not counted:
        return ""

    unknown = len(answers) - counted
    remainder = f"; {unknown:,} answers do not say theirs" if unknown else ""
    return (
        f"{counted:,} answers took {sent:,} tokens sent and {answered:,} answered"
        f"{prices.describe_cost(sent, answered)}{remainder}"
    )


def _count_tokens(answer: Answer) -> tuple[int, int] | None:
    usage: Any = answer.get("usage")
    if not isinstance(usage, dict):
        return None

    sent = usage.get("prompt_tokens")
    answered = usage.get("completion_tokens")
    if not isinstance(sent, int) or not isinstance(answered, int):
        return None
    return sent, answered


logger = logging.getLogger(__name__)

PresetName = Literal[
    "fleur",
    "reffleur",
    "references",
    "clair",
    "gveval_ref_free",
    "gveval_ref_only",
    "gveval_combined",
]

#: Parameters that change no score: those that enter no signature, and those that do.
_EXPENSES = ("answers", "price_sent", "price_answered")
_LIMITS = ("max_requests", "max_total_tokens", "concurrency", "retries", "timeout")


@register("mllm_judge")
@dataclass(frozen=True)
class MllmJudge(Metric):
    """A judge's number for a caption, from 0 to 1, smoothed by the probabilities of its tokens.

    FLEUR and RefFLEUR (Lee et al. 2024, and Yebin46/FLEUR `fleur.py`): the model is asked for a number from
    0.0 to 1.0. With 0.ab… its answer and p₁, p₂ the probabilities of the digits where a and b stand,

        score = Σ_i p₁(i) · i/10 + Σ_i p₂(i) · i/100,

    the second sum where b is there and not a last 0; for 1.0, with p those of the digit before the
    point, score = 0.9 · p(0) + p(1). A token of several digits counts as the number that it spells.
    A digit that is not among the `top_logprobs` likeliest tokens has the probability 0.

    CLAIR (Chan et al. 2023): the score of a JSON object, or the first number, by 100; never smoothed.
    G-VEval: of the whole numbers among the likeliest tokens behind the dollar sign, the mean by their
    probabilities, which are made to sum to 1, by 100.

    An answer without a number of its scale, a refusal, or an answer without probabilities is an error
    that names the item, or undefined (NaN) with `unusable=undefined`; `smoothing=none` takes the number as
    it stands.

    The key of an endpoint is read from the environment variable CAPTAU_JUDGE_KEY and goes nowhere
    else. Answers are kept in the cache folder for good, whatever becomes of the run.

    Args:
        model: its name at the endpoint; or a local folder or hub name.
        url: of the endpoint, up to and without /chat/completions.
        preset: what is asked: `fleur` (sees the image), `reffleur` (image and references), `references`
            (captau's own, for models without images), `clair` (references), `gveval_ref_free` (image),
            `gveval_ref_only` (references), `gveval_combined` (both).
        prompt: a text file in place of the preset's text, with `{caption}` and, as the preset has it,
            `{references}`.
        smoothing: the preset's, or `none`.
        unusable: what becomes of an item with an unusable answer.
        temperature, max_tokens, top_logprobs: as the endpoint understands them; by default the preset's.
            The local model always answers greedily.
        votes: how often each question is asked; the score is the mean of the usable answers.
        answers: a file of answers (JSON lines) that are not asked for again, and that new ones are added to;
            with it others repeat the run without the model.
        price_sent, price_answered: of a million tokens, for the costs that are said beforehand and after.
        max_requests: how many requests one call may send; with 0, what it would take is said.
        max_total_tokens: after how many tokens, as the endpoint counts them, it stops asking.
        concurrency: how many requests are under way at once.
        retries: how often one is repeated after status 429 or 5xx, a timeout or a lost connection.
        timeout: seconds to wait for an answer.
        device: where a local model runs.
        backend: `openai`, any endpoint that speaks its chat completions; or `transformers`.
    """

    model: str
    url: str = "http://localhost:8000/v1"
    preset: PresetName = "fleur"
    prompt: str | None = None
    smoothing: Literal["preset", "none"] = "preset"
    unusable: Literal["error", "undefined"] = "error"
    temperature: float | None = None
    max_tokens: int | None = None
    top_logprobs: int | None = None
    votes: int = 1
    answers: str | None = None
    price_sent: float | None = None
    price_answered: float | None = None
    max_requests: int | None = 10_000
    max_total_tokens: int | None = None
    concurrency: int = 4
    retries: int = 5
    timeout: float = 120.0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    backend: Literal["openai", "transformers"] = "openai"

    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    #: Answers are kept themselves, and what costs nothing to compute need not be.
    is_cacheable: ClassVar[bool] = False
    file_fields: ClassVar[tuple[str, ...]] = ("prompt",)

    def __post_init__(self) -> None:
        minima = {"max_tokens": 1, "top_logprobs": 1, "concurrency": 1, "retries": 0, "votes": 1}
        limits = {"max_requests": 0, "max_total_tokens": 0, "temperature": 0, "timeout": 1e-3}
        prices = {"price_sent": 0, "price_answered": 0}
        for field, low in {**minima, **limits, **prices}.items():
            value = getattr(self, field)
            if value is not None and value < low:
                raise InputError(
                    f"metric mllm_judge: {field} is {value}; at least {low} is expected"
                )

        temperature = self.temperature
        if temperature is None:
            temperature = load_preset(self.preset).temperature
        if self.votes > 1 and (not temperature or self.backend == "transformers"):
            raise InputError(
                f"metric mllm_judge: votes is {self.votes}, and each would be the same; set a "
                f"temperature above 0 at an endpoint"
            )

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        preset = load_preset(self.preset)
        columns: set[str] = set()
        if preset.shows_image:
            columns.add("images")
        if preset.shows_references:
            columns.add("references")
        return frozenset(columns)

    @property
    def lock(self) -> AbstractContextManager[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return MODEL_LOCK if self.backend == "transformers" else nullcontext()

    @property
    def signature(self) -> str:
        """All that scores depend on: neither where answers are kept nor what they cost."""
        plain = self._without(_EXPENSES)
        return super().signature if plain == self else plain.signature

    @property
    def label_spec(self) -> str:
        return self._without((*_EXPENSES, *_LIMITS)).spec

    def _without(self, names: Sequence[str]) -> MllmJudge:
        """Return this judge with the defaults of some parameters."""
        fields = [field for field in dataclasses.fields(self) if field.name in names]
        defaults = {field.name: field.default for field in fields}
        return dataclasses.replace(self, **defaults)

    @property
    def programs(self) -> tuple[str, ...]:
        """The request and, for a local model, the model that answers it."""
        digest = f"preset-sha256-{load_preset(self.preset).digest[:16]}"
        if self.backend == "openai":
            return (digest,)

        model = model_programs(self.name, self.model, self.device)
        versions = [f"{library}:{version_of(library)}" for library in ("torch", "transformers")]
        return (digest, *model, *versions)

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
        votes = np.ma.masked_invalid(self.score_votes(rows))
        return votes.mean(axis=1).filled(math.nan)

    def score_votes(self, rows: Rows) -> Floats:
        """Return the score of each vote, shape (len(rows), votes); NaN where an answer is unusable.

        Raises:
            InputError: as of `compute`.
        """
        preset = self.effective_preset(load_preset(self.preset))
        images = rows.images if preset.shows_image else [None] * len(rows)
        questions: list[Question] = []
        for caption, references, image in zip(rows.captions, rows.references, images, strict=True):
            text = preset.fill({"caption": caption}, references)
            questions += [Question(text, image, vote) for vote in range(self.votes)]

        answers = self.ask(questions, preset, lambda i: rows.label(i // self.votes))
        scores, reasons = self._read(answers, preset)
        costs = summarise_costs(answers, self._prices)
        unusable = self._describe_unusable(reasons, len(answers), rows)
        for remark in (costs, unusable):
            if remark:
                rows.add_remark(self.spec, remark)

        return scores.reshape(len(rows), self.votes)

    def _read(self, answers: Sequence[Answer], preset: Preset) -> tuple[Floats, dict[int, str]]:
        """Return the score of each answer, NaN where it is unusable, and why it is."""
        scores = np.full(len(answers), math.nan)
        reasons: dict[int, str] = {}
        for i, answer in enumerate(answers):
            try:
                scores[i] = score_of(answer, preset.reading, preset.smoothing)
            except UnusableError as error:
                reasons[i] = str(error)

        return scores, reasons

    def _describe_unusable(self, reasons: dict[int, str], n_answers: int, rows: Rows) -> str:
        """Return a remark on unusable answers; empty without any.

        Raises:
            InputError: if there are some, with `unusable=error`.
        """
        if not reasons:
            return ""

        first, reason = next(iter(reasons.items()))
        count = f"{len(reasons)} of {n_answers} answers are unusable"
        if self.unusable == "error":
            raise InputError(
                f"metric mllm_judge: {rows.label(first // self.votes)}: {reason} ({count}); "
                f"unusable=undefined leaves such items out"
            )
        return f"{count}, and their scores undefined"

    def effective_preset(self, preset: Preset) -> Preset:
        """Return a preset with this judge's own choices in it.

        Raises:
            InputError: if the file of the prompt cannot be used.
        """
        names = ("temperature", "max_tokens", "top_logprobs")
        changes: dict[str, Any] = {}
        for name in names:
            value = getattr(self, name)
            if value is not None:
                changes[name] = value
        if self.prompt is not None:
            changes["prompt"] = read_prompt(self.prompt, preset)
        if self.smoothing == "none":
            changes["smoothing"] = "none"

        return dataclasses.replace(preset, **changes)

    def ask(
        self, questions: Sequence[Question], preset: Preset, label: Callable[[int], str]
    ) -> list[Answer]:
        """Return the model's answers, in the order of the questions.

        Args:
            label: how to call a question in messages.

        Raises:
            InputError: as of `compute`.
        """
        with progress_counter(self.model, len(questions)) as advance:
            return self._model(preset).ask(questions, label, advance_to(advance))

    def _model(self, preset: Preset) -> Endpoint | LocalChat:
        """Return what answers, at this preset's settings."""
        is_smoothed = preset.smoothing != "none"
        settings: dict[str, Any] = {
            "temperature": preset.temperature,
            "max_tokens": preset.max_tokens,
        }
        if is_smoothed:
            settings |= {"logprobs": True, "top_logprobs": preset.top_logprobs}

        answers: AnswerStore = Answers(cache_folder("judge"))
        if self.answers is not None:
            path = expand_home(self.answers)
            answers = AnswerFile(path, self.model, settings, Answers(cache_folder("judge")))

        if self.backend == "transformers":
            return LocalChat(
                folder=transformers_folder(self.name, self.model),
                device=resolve(self.device),
                max_tokens=preset.max_tokens,
                top_logprobs=preset.top_logprobs,
                images=preset.shows_image,
                answers=answers,
            )

        def announce(missing: list[Question], stored: list[Answer]) -> None:
            text = estimate_costs(missing, stored, preset.max_tokens, self._prices)
            logger.warning("metric mllm_judge: %s: %s", self.model, text)

        return Endpoint(
            url=self.url,
            parameters={"model": self.model, **settings},
            answers=answers,
            limits=SpendingLimits(self.max_requests, self.max_total_tokens),
            concurrency=self.concurrency,
            retries=self.retries,
            timeout=self.timeout,
            announce=announce,
        )

    @property
    def _prices(self) -> Prices:
        return Prices(self.price_sent, self.price_answered)
