"""A client of a challenge site's JSON interface, for `captau submit`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from ...benchmarks.runs.progress_bar import StepProgress
from ...benchmarks.runs.tables import format_number
from ...benchmarks.scoring.catalog import metric_style
from ...datasets.errors import InputError
from ...metrics.registry import metric

#: The seconds to wait for an answer, and the attempts while the site is away.
_TIMEOUT = 60.0
_ATTEMPTS = 5
#: The shortest and longest pause between looks at a submission, in seconds.
_MIN_PAUSE = 0.1
_MAX_PAUSE = 2.0


class ChallengeClient:
    """A client of a site.

    Args:
        url: the site's address.
        token: of an account there.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.headers["authorization"] = f"Bearer {token}"

    def submit(
        self, path: Path, challenge: str, system: str | None = None, note: str | None = None
    ) -> dict[str, Any]:
        """Send a file and return the submission.

        Raises:
            InputError: if there is no such file, or the site refuses it.
        """
        parameters = {"file": path.name, "system": system, "note": note}
        resource = f"challenges/{quote(challenge, safe='')}/submissions"

        try:
            with path.open("rb") as file:
                return self._request("POST", resource, params=parameters, data=file)
        except _TooLargeError as error:
            size = path.stat().st_size
            raise InputError(
                f"{path}: {size:,} bytes, more than {self._url} takes{error}"
            ) from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error

    def submission(self, key: str) -> dict[str, Any]:
        """Return a submission as it is now; waits if the site is away for a moment."""
        # A site that is brought up to date is back in a moment.
        for attempt in range(1, _ATTEMPTS):
            try:
                return self._request("GET", f"submissions/{key}")
            except _AwayError:
                time.sleep(_MAX_PAUSE * attempt)

        return self._request("GET", f"submissions/{key}")

    def wait(self, key: str) -> dict[str, Any]:
        """Return a submission when its state is final."""
        pause = _MIN_PAUSE
        with StepProgress(100) as progress:
            percent = 0
            submission = self.submission(key)
            while not submission["done"]:
                while percent < int(100 * submission["progress"]):
                    percent += 1
                    progress.advance()

                # Short evaluations are told at once, and long ones do not burden the site.
                time.sleep(pause)
                pause = min(1.5 * pause, _MAX_PAUSE)
                submission = self.submission(key)

        return submission

    def _request(self, method: str, resource: str, **options: Any) -> dict[str, Any]:
        """Return the JSON object of an answer.

        Raises:
            InputError: if the site refuses the request, is away, or is no challenge site.
        """
        url = f"{self._url}/api/{resource}"
        try:
            # A redirect could lead the token to another site.
            response = self._session.request(
                method, url, timeout=_TIMEOUT, allow_redirects=False, **options
            )
            is_error = response.status_code >= 400
            content_type = response.headers.get("content-type", "")
            # A proxy before the site refuses large files as well, in words of its own.
            if response.status_code == 413:
                is_from_site = content_type.startswith("text/plain")
                raise _TooLargeError(f" ({response.text.strip()})" if is_from_site else "")
            # An error in plain text is a sentence for the user.
            if is_error and content_type.startswith("text/plain"):
                raise InputError(f"{self._url}: {response.text.strip()}")

            answer = response.json()
        except requests.exceptions.JSONDecodeError as error:
            raise InputError(
                f"{self._url}: this is not an answer of captau serve; name the site with url=…"
            ) from error
        except (requests.RequestException, ValueError) as error:
            raise _AwayError(f"{self._url}: {type(error).__name__}; is that the site?") from error

        if is_error:
            message = answer.get("error") if isinstance(answer, dict) else None
            raise InputError(f"{self._url}: {message or f'status {response.status_code}'}")

        return answer


class _TooLargeError(Exception):
    """The body of a request is too large; the text is what the site says of that, if it is the site that does."""


class _AwayError(InputError):
    """The site does not answer."""


def print_outcome(submission: dict[str, Any]) -> int:
    """Print the scores or faults of a finished submission and return the exit status."""
    if submission["state"] == "invalid":
        for line in submission["faults"]:
            print(f"captau: {line}", file=sys.stderr)
        print(submission["summary"])
        return 2
    if submission["state"] == "failed":
        message = f"{submission['file']}: not evaluated: {submission['reason']}"
        print(f"captau: {message}", file=sys.stderr)
        return 1

    print(submission["summary"])

    lines: list[tuple[str, str, str]] = []
    for row in submission["scores"]:
        label, scale, decimals = _style_of(row["metric"])
        if row["references"]:
            label += f", {row['references']}"
        value = "—" if row["value"] is None else format_number(row["value"], scale, decimals)
        interval = ""
        if row["ci_low"] is not None:
            low = format_number(row["ci_low"], scale, decimals)
            interval = f"  {low} to {format_number(row['ci_high'], scale, decimals)}"
        lines.append((label, value, interval))

    has_intervals = any(interval for _, _, interval in lines)
    lines.insert(0, ("metric", "score", "  95 % interval" if has_intervals else ""))
    width = max(len(label) for label, _, _ in lines)
    for label, value, interval in lines:
        print(f"{label:<{width}}  {value:>8}{interval}")

    return 0


def _style_of(name: str) -> tuple[str, float, int]:
    """Return a metric's name, by what its scores are multiplied, and their decimals, as the site's tables have them."""
    try:
        style = metric_style(metric(name))
    except InputError:  # a coefficient, or a metric that the site alone has
        return name, 1.0, 4

    return style.label, style.scale, style.decimals
