"""A minimal browser: a connection with cookies, and the parts of a page that simulated raters read."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urlsplit


class Page(HTMLParser):
    """A page: its first form, its captions and the game's feedback.

    Attributes:
        action: the address of its first form.
        hidden: the hidden fields of its forms.
        captions: the captions shown.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__()
        self.status = status
        self.text = text
        self.action = ""
        self.hidden: dict[str, str] = {}
        self.captions: list[str] = []
        self._is_in_caption = False

        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = attributes.get("action", "")
        elif tag == "input" and attributes.get("type") == "hidden":
            self.hidden.setdefault(attributes["name"], attributes["value"])
        elif tag == "p" and attributes.get("class") == "caption":
            self._is_in_caption = True
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._is_in_caption = False

    def handle_data(self, data: str) -> None:
        if self._is_in_caption:
            self.captions[-1] += data

    def _search(self, pattern: str) -> str | None:
        match = re.search(pattern, self.text, re.DOTALL)
        return match[1].strip() if match else None

    @property
    def heading(self) -> str:
        """The page's first heading."""
        return self._search(r"<h1>(.*?)</h1>") or ""

    @property
    def score(self) -> int | None:
        """The points that an answer won."""
        points = self._search(r'class="points [^"]*">([+-]?\d+)')
        return None if points is None else int(points)

    @property
    def turn(self) -> str | None:
        """The change of phase that an answer brought about."""
        return self._search(r'data-turn="(\w+)"')

    @property
    def consensus(self) -> int | None:
        """The consensus that the feedback on an answer tells."""
        consensus = self._search(r"data-consensus>(\d)")
        return None if consensus is None else int(consensus)

    @property
    def practice(self) -> str | None:
        """The kind of practice that a pair belongs to: `tutorial` or `probation`."""
        return self._search(r'data-practice="(\w+)"')

    @property
    def wait(self) -> float:
        """The seconds until an answer is accepted."""
        return float(self._search(r'data-wait="([\d.]+)"') or 0.0)


class Browser:
    """A connection with cookies.

    Attributes:
        request_seconds: the time that each request took.
        path: of the page that was loaded last, after redirects.
    """

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        self._connect: Callable[[], http.client.HTTPConnection] = lambda: (
            http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        )
        self._connection = self._connect()
        self.cookies: dict[str, str] = {}
        self.request_seconds: list[float] = []
        self.path = ""

    def get(self, path: str) -> Page:
        """Load a page, following redirects."""
        return self._load("GET", path, None)

    def post(self, path: str, fields: Mapping[str, Any], *, follow: bool = True) -> Page:
        """Send a form, following redirects."""
        return self._load("POST", path, urlencode(fields, doseq=True), follow=follow)

    def raw(
        self, method: str, path: str, body: str | bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return the response's status, headers and content."""
        cookies = [f"{name}={value}" for name, value in self.cookies.items()]
        sent = {"cookie": "; ".join(cookies), **headers}
        if body is not None:
            sent.setdefault("content-type", "application/x-www-form-urlencoded")

        start = time.perf_counter()
        try:
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError):  # idle for too long
            self._connection.close()
            self._connection = self._connect()
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        content = response.read()
        self.request_seconds.append(time.perf_counter() - start)

        for cookie in response.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value

        return response.status, {k.lower(): v for k, v in response.getheaders()}, content

    def _load(self, method: str, path: str, body: str | None, *, follow: bool = True) -> Page:
        status, headers, content = self.raw(method, path, body)
        # A connection of `http.client` follows no redirect by itself.
        self.path = path
        while follow and status == 303:
            self.path = headers["location"]
            status, headers, content = self.raw("GET", self.path)
        return Page(status, content.decode())


def join_study(url: str, nickname: str = "", path: str = "/") -> Browser:
    """Return a browser that has consented and joined.

    Raises:
        RuntimeError: if the study does not accept it.
    """
    browser = Browser(url)
    fields: dict[str, str] = {**browser.get(path).hidden, "consent": "yes"}

    if nickname:
        fields["nickname"] = nickname

    page = browser.post("/join", fields)
    if page.status != 200:
        raise RuntimeError(f"joining: {page.status} {page.heading}")

    return browser
