"""A study whose texts, captions, systems and images' names are markup, addresses of this machine, or paths elsewhere."""

from __future__ import annotations

import json
import re
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from PIL import Image

from captau.server.collect.study import read_study
from tests.conftest import says
from tests.server.collect.conftest import make_site, serve_site, write_study
from tests.server.collect.visitors import join_study, sign_in_admin

MARKUP = (
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "<script>alert(1)",
    "{{ 7*7 }}{% raise %}",
    "javascript:alert(1)",
    "..%2f..%2fetc%2fpasswd",
    "a?b#c&amp;d;",
)


class Markup(HTMLParser):
    """The markup of a page.

    Attributes:
        scripts: the addresses of its scripts, empty for one within the page.
        addresses: all addresses of links, forms and images.
        handlers: attributes that run code.
    """

    def __init__(self, page):
        super().__init__()
        self.scripts, self.addresses, self.handlers = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.scripts += [attributes.get("src", "")] if tag == "script" else []
        self.addresses += [attributes[k] for k in ("src", "href", "action") if k in attributes]
        self.handlers += [name for name in attributes if name.startswith("on")]


def check_page(text):
    page = Markup(text)
    assert page.scripts == ["/static/captau.js"]
    assert page.handlers == []
    assert [a for a in page.addresses if not re.match("/(?!/)|#", a)] == []
    assert ">49<" not in text


@pytest.fixture
def study(tmp_path):
    """Write a study of which every text is markup, and return its file."""
    path = write_study(tmp_path, "good_bad", title=MARKUP[0], intro=MARKUP[2], consent=MARKUP[1])
    rows = []
    for text in MARKUP:
        Image.new("RGB", (8, 8)).save(tmp_path / f"{text}.png")
        rows.append({"image": f"{text}.png", "caption": f"{text} says", "system": text})
    content = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "captions.jsonl").write_text(content, encoding="utf-8")
    return path


def test_no_text_of_a_study_is_taken_for_markup(study):
    site = make_site(study.parent, "good_bad")
    with serve_site(site) as url:
        browser, seen = join_study(url), []
        for _ in MARKUP:
            page = browser.get("/rate")
            check_page(page.text)
            (source,) = re.findall(r'<img[^>]* src="([^"]+)"', page.text)
            assert re.fullmatch(r"/image/[\w-]+", source)
            status, headers, body = browser.raw("GET", source)
            assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
            seen += page.captions
            browser.post("/rate", {**page.hidden, "answer": "good"})
        assert sorted(seen) == sorted(f"{text} says" for text in MARKUP)
        admin = sign_in_admin(site, url)
        for page in ("/", "/admin"):
            check_page(admin.get(page).text)
            assert "default-src 'none'" in admin.raw("GET", page)[1]["content-security-policy"]
    site.store.database.close()


@pytest.mark.parametrize(
    "path",
    [
        *("/image/..%2f..%2fetc%2fpasswd", "/image/../../etc/passwd", "/image/%2e%2e/study.yaml"),
        *("/static/../study.yaml", "/static/..%2f..%2fsite.py", "/static/%2fetc%2fpasswd"),
        *("/image/study.yaml", "/image/\\..\\study.yaml", "/image/%00", "//etc/passwd"),
    ],
)
def test_no_address_leads_to_another_file(study, path):
    site = make_site(study.parent, "good_bad")
    with serve_site(site) as url:
        browser = join_study(url)
        status, _, body = browser.raw("GET", path)
        assert 400 <= status < 500
        assert b"root:" not in body
        assert b"consent:" not in body
    site.store.database.close()


def test_an_image_that_is_an_address_of_this_machine_is_not_asked_for(study):
    asked = []

    class Inside(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)

    server = HTTPServer(("127.0.0.1", 0), Inside)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    rows = study.parent / "captions.jsonl"
    hosts = ("127.0.0.1", "localhost", "[::1]", "0x7f000001")
    for name in (*(f"http://{h}:{server.server_port}/x.png" for h in hosts), "file:///etc/passwd"):
        rows.write_text(json.dumps({"image": name, "caption": "a"}), encoding="utf-8")
        with says("no image file", name):
            read_study(str(study))
    server.shutdown()
    server.server_close()
    assert asked == []
