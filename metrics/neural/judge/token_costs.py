"""Tokens that a judge takes and what they cost: estimated before it is asked, counted afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .endpoint import Answer, Question

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


def estimate(
    questions: Sequence[Question], stored: Sequence[Answer], max_tokens: int, prices: Prices
) -> str:
    """Say what questions will take.

    Args:
        questions: those to be asked.
        stored: answers to others, from which tokens are estimated where they say them.
    """
    counts = [count for answer in stored if (count := _count(answer)) is not None]
    if counts:
        tokens_each = sum(sent for sent, _ in counts) / len(counts)
        sent, origin = tokens_each * len(questions), f"as many each as {len(counts)} earlier ones"
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


def summarise(answers: Sequence[Answer], prices: Prices) -> str:
    """Say what answers took, as the endpoint counted it; empty where it did not."""
    counts = [count for answer in answers if (count := _count(answer)) is not None]
    if not counts:
        return ""
    sent, answered = (sum(column) for column in zip(*counts, strict=True))
    unknown = len(answers) - len(counts)
    remainder = f"; {unknown:,} answers do not say theirs" if unknown else ""
    return (
        f"{len(counts):,} answers took {sent:,} tokens sent and {answered:,} answered"
        f"{prices.describe_cost(sent, answered)}{remainder}"
    )


def _count(answer: Answer) -> tuple[int, int] | None:
    usage: Any = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (sent, answered) if isinstance(sent, int) and isinstance(answered, int) else None
