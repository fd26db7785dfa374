"""A challenge's site from afar: `captau submit`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from ...benchmarks.runs.progress_bar import StepProgress
from ...datasets.errors import InputError

#: How long to wait for an answer, and how often to try anew where there is none, in seconds.
_TIMEOUT, _TRIES = 60.0, 5
_FIRST, _LAST = 0.1, 2.0


class Client:
    """Asks a site by its JSON interface.

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
        """Send a file; returns the submission as the site has it.

        Raises:
            InputError: where there is no such file, or it is not taken.
        """
        given = {"file": path.name, "system": system, "note": note}
        where = f"challenges/{quote(challenge, safe='')}/submissions"
        try:
            with path.open("rb") as file:
                return self._ask("POST", where, params=given, data=file)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error

    def submission(self, key: str) -> dict[str, Any]:
        """A submission as it is now; where the site is away for a moment, once it is back."""
        for attempt in range(_TRIES):
            try:
                return self._ask("GET", f"submissions/{key}")
            except _AwayError:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(_LAST * (attempt + 1))
        raise AssertionError

    def wait(
        self, key: str, told: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """A submission once nothing more happens to it.

        Args:
            key: its id.
            told: told of it each time that it is looked at.
        """
        pause = _FIRST
        with StepProgress(100) as progress:
            shown = 0
            while not (found := self.submission(key))["done"]:
                told(found)
                while shown < int(100 * found["progress"]):
                    shown += 1
                    progress.advance()
                time.sleep(pause)
                pause = min(1.5 * pause, _LAST)
        return found

    def _ask(self, method: str, where: str, **more: Any) -> dict[str, Any]:
        try:
            answer = self._session.request(
                method, f"{self._url}/api/{where}", timeout=_TIMEOUT, allow_redirects=False, **more
            )
            plain = answer.headers.get("content-type", "").startswith("text/plain")
            if plain and answer.status_code >= 400:  # of a body that is too large
                raise InputError(f"{self._url}: {answer.text.strip()}")
            found = answer.json()
        except requests.exceptions.JSONDecodeError as error:
            raise InputError(
                f"{self._url}: no answer of captau serve; name the site with url=…"
            ) from error
        except (requests.RequestException, ValueError) as error:
            raise _AwayError(f"{self._url}: {type(error).__name__}; is that the site?") from error
        if answer.status_code >= 400:
            said = found.get("error") if isinstance(found, dict) else None
            raise InputError(f"{self._url}: {said or f'status {answer.status_code}'}")
        return found


class _AwayError(InputError):
    """Nobody answers."""


def report(found: dict[str, Any]) -> int:
    """Print what became of a submission; returns the exit status."""
    if found["state"] == "invalid":
        for line in found["faults"]:
            print(f"captau: {line}", file=sys.stderr)
        print(found["summary"])
        return 2
    if found["state"] == "failed":
        print(f"captau: {found['file']}: not evaluated: {found['reason']}", file=sys.stderr)
        return 1
    print(found["summary"])
    rows = found["scores"]
    wide = max(len(_called(row)) for row in rows)
    for row in rows:
        value = "—" if row["value"] is None else f"{row['value']:.4f}"
        ends = ""
        if row["ci_low"] is not None:
            ends = f"  {row['ci_low']:.4f} to {row['ci_high']:.4f}"
        print(f"{_called(row):<{wide}}  {value:>8}{ends}")
    return 0


def _called(row: dict[str, Any]) -> str:
    return f"{row['metric']}, {row['references']}" if row["references"] else str(row["metric"])
