"""A chat-completions endpoint: asked in parallel, within a limit, and nothing asked twice.

Every answer is kept under the hash of what was asked, so that a run which stops for whatever reason
(a limit, a fault, Ctrl-C, a kill) has lost nothing that was paid for.
"""

from __future__ import annotations

import base64
import io
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ....datasets.errors import InputError, shorten
from ....datasets.reading.source_files import sha256
from .answers import Answer, AnswerStore

if TYPE_CHECKING:
    import requests


#: The environment variable that holds the key. No other is looked at: a key for one service must not
#: reach another.
KEY = "CAPTAU_JUDGE_KEY"
#: What may pass by itself.
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
#: The longest wait between two attempts, in seconds; an endpoint that asks for more is given up.
LONGEST = 300.0

#: Kinds of images that endpoints take as they are.
_SENT = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}


@dataclass
class SpendingLimits:
    """The limits of what one call may spend, shared by several threads.

    Attributes:
        requests: how many may be sent, repeated ones included; None for any number.
        tokens: how many may be used as the endpoint counts them (`usage.total_tokens`).
    """

    requests: int | None
    tokens: int | None
    sent: int = 0
    used: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_request(self) -> None:
        """Count a request that is about to be sent.

        Raises:
            SpentError: where a limit is reached.
        """
        with self._lock:
            if self.requests is not None and self.sent >= self.requests:
                raise SpentError(f"max_requests={self.requests}")
            if self.tokens is not None and self.used >= self.tokens:
                raise SpentError(f"max_total_tokens={self.tokens}: {self.used} used")
            self.sent += 1

    def count_tokens(self, answer: Answer) -> None:
        """Count the tokens of an answer.

        Raises:
            InputError: where they are limited and the endpoint does not say how many they were.
        """
        usage = answer.get("usage")
        total = usage.get("total_tokens") if isinstance(usage, dict) else None

        with self._lock:
            if isinstance(total, int):
                self.used += total
            elif self.tokens is not None:
                raise InputError(
                    "the endpoint does not say how many tokens it used, so max_total_tokens cannot "
                    "be enforced; set only max_requests"
                )


class SpentError(Exception):
    """A limit is reached; the text says which."""


class _StoppedError(Exception):
    """A request was not sent, because another one has failed."""


@dataclass(frozen=True)
class Question:
    """A question: a text, and an image's file or none; the same one is asked once a vote."""

    text: str
    image: str | None = None
    vote: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of a question: its text, its image's content, and its vote but for the first.

        Raises:
            InputError: where the image cannot be read.
        """
        try:
            image = f"sha256-{sha256(Path(self.image))}" if self.image else None
        except OSError as error:
            raise InputError(f"{self.image}: cannot be read ({error.strerror})") from error

        identity: dict[str, Any] = {"text": self.text, "image": image}
        # The first of several votes is the answer to a question that is asked once.
        if self.vote:
            identity["vote"] = self.vote

        return identity


@dataclass
class Endpoint:
    """`POST {url}/chat/completions`, as OpenAI defines it and vLLM, llama.cpp and others offer it.

    Args:
        url: up to and without `/chat/completions`.
        parameters: what is sent beside the messages (model, temperature, …).
        answers: where answers are kept.
        limits: what may be spent.
        concurrency: how many requests are under way at once.
        retries: how often one is sent again after a fault that may pass.
        timeout: seconds to wait for an answer.
        announce: called before anything is asked, with the questions to be asked and the stored answers.
    """

    url: str
    parameters: Mapping[str, Any]
    answers: AnswerStore
    limits: SpendingLimits
    concurrency: int
    retries: int
    timeout: float
    announce: Callable[[list[Question], list[Answer]], None]

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"url is '{self.url}'; an address such as https://HOST/v1 is expected")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(f"url: keep keys out of it; the variable {KEY} is for them")

        self._key = os.environ.get(KEY, "").strip()
        self._local = threading.local()
        self._stop = threading.Event()
        # Whether the endpoint has ever answered.
        self._met = threading.Event()

    def ask(
        self,
        questions: Sequence[Question],
        label: Callable[[int], str],
        done: Callable[[int], None],
    ) -> list[Answer]:
        """Return the answers, in the order of the questions; a stored one is not asked for again.

        Args:
            label: how to call a question in messages.
            done: called with the number of answers that are there, whenever it has changed.

        Raises:
            InputError: where a limit is reached, or a request fails for good. Requests under way are
                waited for, and all answers that came are kept.
        """
        answers: dict[int, Answer] = {}
        identities: dict[int, dict[str, Any]] = {}
        for i, question in enumerate(questions):
            identity = {"url": self.url, **self.parameters, **question.identity}
            stored_answer = self.answers.get(identity)
            if stored_answer is None:
                identities[i] = identity
            else:
                answers[i] = stored_answer

        done(len(answers))

        if identities:
            self.announce([questions[i] for i in identities], list(answers.values()))

        with ThreadPoolExecutor(self.concurrency) as pool:
            futures: dict[Future[Answer], int] = {}
            for i, identity in identities.items():
                futures[pool.submit(self._request_answer, questions[i], identity)] = i

            try:
                for future in as_completed(futures):
                    i = futures[future]
                    try:
                        answers[i] = future.result()
                    except _StoppedError:
                        # Another one failed, and is about to come.
                        continue
                    except (InputError, SpentError) as error:
                        pool.shutdown(cancel_futures=True)
                        finished = [f for f in futures if not f.cancelled()]
                        n_fine = sum(future.exception() is None for future in finished)
                        stored_count = len(questions) - len(identities) + n_fine
                        raise self._failed(label(i), error, stored_count, len(questions)) from error

                    done(len(answers))
            finally:
                # After Ctrl-C too: what is under way ends without another attempt.
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)

        return [answers[i] for i in range(len(questions))]

    def _failed(self, label: str, error: Exception, stored_count: int, total: int) -> InputError:
        consequence = (
            f"{stored_count} of {total} answers are kept, and a new run goes on from there"
        )
        if isinstance(error, SpentError):
            return InputError(f"{self.url}: stopped at {error}; {consequence}: raise the limit")

        return InputError(f"{self.url}: {label}: {error}; {consequence}")

    def _request_answer(self, question: Question, identity: dict[str, Any]) -> Answer:
        """Get one answer from the endpoint, stored before it is returned."""
        try:
            return self._send_until_answered(question, identity)
        except BaseException:
            # At once: no other may be sent while this failure waits to be looked at.
            self._stop.set()
            raise

    def _send_until_answered(self, question: Question, identity: dict[str, Any]) -> Answer:
        import requests

        body = {
            **self.parameters,
            "messages": [{"role": "user", "content": make_content(question)}],
        }
        # 1, 2, 4, … seconds, a minute at most.
        waits = iter([min(2.0**i, 60.0) for i in range(self.retries)])
        while True:
            if self._stop.is_set():
                raise _StoppedError

            self.limits.count_request()
            reason = ""
            beginning = ""
            requested_wait: float | None = None
            try:
                response = self._session.post(
                    f"{self.url.rstrip('/')}/chat/completions",
                    json=body,
                    timeout=self.timeout,
                    allow_redirects=False,
                    auth=self._authorize,
                )
            except (requests.ConnectionError, requests.Timeout) as error:
                if _nobody_there(error) and not self._met.is_set():
                    raise InputError(
                        "no server answers there; is it running? Set its address with url=…"
                    ) from error
                reason = f"no answer ({type(error).__name__})"
            except requests.RequestException as error:
                raise InputError(self._clean(f"the request failed ({error})")) from error
            else:
                self._met.set()
                if response.status_code == requests.codes.ok:
                    answer = _parsed(response)
                    if answer is not None:
                        self.answers.put(identity, answer)
                        self.limits.count_tokens(answer)
                        return answer
                    reason = "the answer is no chat completion"
                    beginning = self._clean(describe_beginning(response))
                elif response.status_code in PASSING:
                    reason = f"status {response.status_code}"
                    requested_wait = read_retry_after(response.headers.get("Retry-After"))
                else:
                    raise InputError(self._clean(describe_refusal(response, bool(self._key))))

            pause = next(waits, None)
            if pause is None:
                raise InputError(f"{reason}, {self.retries + 1} times{beginning}")

            if requested_wait is not None and requested_wait > LONGEST:
                raise InputError(f"{reason}, and asks to wait {requested_wait:.0f} s")

            self._pause(pause if requested_wait is None else requested_wait)

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the key into the header; with this as auth, requests does not look into ~/.netrc."""
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        return request

    def _pause(self, seconds: float) -> None:
        """Wait between two attempts, or until the run stops."""
        self._stop.wait(seconds)

    @property
    def _session(self) -> requests.Session:
        """A session a thread: its connection is kept open."""
        import requests

        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        return self._local.session

    def _clean(self, text: str) -> str:
        """Return a text from outside without the key, which some endpoints echo."""
        return text.replace(self._key, "…") if self._key else text


def _nobody_there(error: requests.RequestException) -> bool:
    """Tell whether no connection came about at all: refused, or no such host."""
    from urllib3.exceptions import NewConnectionError

    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, NewConnectionError)


def make_content(question: Question) -> Any:
    """Return a message's content: the text alone, or an image as a data URL and the text."""
    if question.image is None:
        return question.text
    kind, data = read_image(Path(question.image))

    url = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": question.text},
    ]


def read_image(path: Path) -> tuple[str, bytes]:
    """Return MIME type and bytes of an image: as they are where endpoints take them, else as RGB in PNG.

    Raises:
        InputError: where it cannot be read, is truncated, or is no image.
    """
    from PIL import Image

    try:
        data = path.read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            if image.format in _SENT and image.mode in ("L", "RGB"):
                return _SENT[image.format], data

            out = io.BytesIO()
            image.convert("RGB").save(out, "PNG")
            return "image/png", out.getvalue()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not an image that can be read ({error})") from error


def _parsed(response: requests.Response) -> Answer | None:
    """Return a chat completion with a message; None where the body is anything else."""
    try:
        answer = response.json()
        message = answer["choices"][0]["message"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return answer if isinstance(message, dict) else None


def describe_beginning(response: requests.Response) -> str:
    """Say how an answer begins that is no chat completion, such as the page of a gateway."""
    text = " ".join(response.text.split())
    return f", and begins {shorten(text)!r}" if text else ", and is empty"


def describe_refusal(response: requests.Response, with_key: bool) -> str:
    """Describe a refusal in a line, with its remedy."""
    text = " ".join(response.text.split())
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        text = str(response.json()["error"]["message"])

    explanation = f": {text[:300]}" if text else ""

    remedy = ""
    if response.status_code in (401, 403):
        remedy = f"; check the key in {KEY}" if with_key else f"; set {KEY} to your key"

    return f"status {response.status_code}{explanation}{remedy}"


def read_retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, a number or a date; None where it is neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            return None
        # A date without a zone is meant in UTC.
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()

    return None if math.isnan(seconds) else max(seconds, 0.0)
