"""The language of a study's pages: catalogues, files of one's own, and the wording of forms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment
from jinja2.ext import extract_from_ast

import captau.server.collect
import captau.server.web
from captau.datasets.schema import Scale
from captau.server.collect.export import export_files
from captau.server.collect.forms import FORMS
from captau.server.collect.forms.course import TooEarlyError
from captau.server.collect.simulated_browser import Browser, join_study
from captau.server.collect.study import load_catalogue, read_study
from captau.server.texts import NAME_RULE
from tests.conftest import says
from tests.server.collect.conftest import write_study
from tests.server.collect.visitors import load_rows, sign_in_admin

#: Calls in the sources whose text arguments raters see, translated.
_TEXT_CALLS = {"translate", "Level", "Dimension", "Wording", "FluencyProblem"}
_ERROR_CALLS = {"OutOfTurnError", "RefusedError"}


def package_folder(package):
    return Path(package.__file__).parent


def texts_of_pages():
    """Return the texts that templates for raters translate."""
    folders = [package_folder(captau.server.collect), package_folder(captau.server.web)]
    sources = [path.read_text() for f in folders for path in (f / "templates").rglob("*.html")]
    message_lists = (extract_from_ast(Environment().parse(source), ("_",)) for source in sources)
    texts = {text for messages in message_lists for _, _, text in messages}
    return {text[0] if isinstance(text, tuple) else text for text in texts} - {None}


def texts_of_forms():
    """Return the texts that forms and their errors show."""
    folder = package_folder(captau.server.collect)
    texts = {TooEarlyError.MESSAGE}
    for wording in (form.wording for form in FORMS.values()):
        texts |= {wording.question, *wording.instructions.split("\n\n")}
        for dimension in wording.dimensions:
            texts.add(dimension.question)
            texts |= {text for level in dimension.levels for text in (level.name, level.text)}
    texts.discard("")
    stores = [folder / "store" / name for name in ("participants.py", "answer_log.py")]
    for path in [*(folder / "forms").glob("*.py"), *stores]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in _TEXT_CALLS | _ERROR_CALLS:
                constants = [a.value for a in node.args if isinstance(a, ast.Constant)]
                texts |= {
                    paragraph
                    for value in constants
                    if isinstance(value, str)
                    for paragraph in value.split("\n\n")
                    if re.search(r"[A-Z ]", paragraph)
                }
    return texts


def texts_of_sites():
    """Return the messages that every page may answer with: of joining, of signing in, and of refusals."""
    web_folder = package_folder(captau.server.web)
    paths = [web_folder / name for name in ("application.py", "site.py")]
    paths.append(package_folder(captau.server.collect) / "web" / "rater_pages.py")
    texts = {f"A nickname has {NAME_RULE}."}
    for path in paths:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        constants = [n for n in nodes if isinstance(n, ast.Constant) and id(n) not in docstrings]
        texts |= {n.value for n in constants if re.fullmatch(r"[A-Z].* .*\.", str(n.value))}
    return texts


def test_the_german_catalogue_has_every_text_that_raters_see():
    catalogue = load_catalogue("de")
    page_texts = texts_of_pages() | texts_of_forms() | texts_of_sites()
    assert not page_texts - set(catalogue), "texts without translation"
    assert not set(catalogue) - page_texts, "translations of texts that no page has"
    for text, translation in catalogue.items():
        assert re.findall(r"%\(\w+\)s", text) == re.findall(r"%\(\w+\)s", translation), text


def test_a_german_study_has_german_pages_and_an_english_dashboard(serve_small):
    site, url = serve_small("references", lang="de")
    page = Browser(url).get("/")
    assert '<html lang="de">' in page.text
    assert "<button>Beginnen</button>" in page.text
    browser = join_study(url)
    page = browser.get("/rate")
    assert page.heading == "Beschreiben Sie das Bild in einem Satz"
    assert "Ihr Satz, mindestens 8 Wörter" in page.text
    refused = browser.post("/rate", {**page.hidden, "text": "Ein Bild"})
    assert "Schreiben Sie mindestens 8 Wörter; es sind 2." in refused.text
    assert '<html lang="en">' in sign_in_admin(site, url).get("/admin").text


def test_a_study_brings_its_own_translations(tmp_path):
    path = write_study(tmp_path, "good_bad", lang="fr")
    with says("study.yaml:", "lang: 'fr'", "en, de", "translations="):
        read_study(str(path))
    texts = tmp_path / "fr.yaml"
    texts.write_text(
        'Skip: Passer\n"%(n)s of at most %(most)s done": "%(m)s faits"\n', encoding="utf-8"
    )
    path = write_study(tmp_path, "good_bad", lang="fr", translations="fr.yaml")
    with says("fr.yaml:2: %(n)s of at most %(most)s done", "placeholders differ"):
        read_study(str(path))
    texts.write_text("Skip: Passer\n", encoding="utf-8")
    language = read_study(str(path)).form.wording.language
    assert (language.code, language.translate("Skip")) == ("fr", "Passer")
    assert language.translate("Next") == "Next"


SEVEN = [{"value": k, "name": f"niveau {k}", "text": f"signifie {k}"} for k in range(7)]


def test_question_levels_and_dimensions_come_from_the_study(serve_small):
    dimensions = [
        {"name": "vivid", "question": "How <vivid> is it?", "levels": SEVEN},
        {"name": "overall"},
    ]
    site, url = serve_small(
        "four", question="What of these?", instructions="One.\n\nTwo.", dimensions=dimensions
    )
    browser = join_study(url)
    page = browser.get("/rate")
    assert page.heading == "What of these?"
    assert "<p>One.</p><p>Two.</p>" in page.text
    assert "How &lt;vivid&gt; is it?" in page.text
    assert page.text.count("<b>niveau 6.</b> signifie 6") == len(page.captions)
    n = len(page.captions)
    levels = {f"vivid_{k}": 6 for k in range(1, n + 1)} | {
        f"overall_{k}": 5 for k in range(1, n + 1)
    }
    refused = browser.post("/rate", {**page.hidden, **levels, "vivid_2": 7})
    assert "Caption 2: Choose one of 0, 1, 2, 3, 4, 5, 6: How &lt;vivid&gt; is it?" in refused.text
    browser.post("/rate", {**page.hidden, **levels})
    rows = load_rows(site)
    assert {tuple(a["value"].items()) for a in rows["answers"]} == {(("vivid", 6), ("overall", 5))}
    files = export_files(site.store, rows, "captau")
    assert yaml.safe_load(files["ratings.yaml"]) == {
        "scales": {
            "vivid": {"low": 0, "high": 6, "step": 1},
            "overall": {"low": 1, "high": 5, "step": 1},
        }
    }


def test_levels_are_numbers_from_minus_100_to_100(tmp_path):
    for values, part in (
        ((-100, -99), ""),
        ((99, 100), ""),
        ((-101, -100), "value: -101 is not a whole number from -100 to 100"),
        ((100, 101), "value: 101 is not a whole number from -100 to 100"),
    ):
        levels = [{"value": value, "text": "x"} for value in values]
        dimensions = [{"name": "overall"}, {"name": "new", "levels": levels}]
        path = write_study(tmp_path, "four", dimensions=dimensions)
        if part:
            with says(str(path), part):
                read_study(str(path))
        else:
            assert read_study(str(path)).form.scales["new"] == Scale(*values, 1)


@pytest.mark.parametrize(
    ("protocol", "dimensions", "parts"),
    [
        ("four", [{"name": "overall"}, {"name": "overall"}], [":15: ", "asked for twice"]),
        ("extrinsic", [{"name": "new"}], [":14: ", "levels: they are needed"]),
        (
            "four",
            [{"name": "new", "levels": [{"value": 1, "text": "x"}, {"value": 2}]}],
            [":18: dimensions[1].levels[2].text: this field is required"],
        ),
        (
            "four",
            [{"name": "new", "levels": [{"value": 1, "text": " "}]}],
            [":17: dimensions[1].levels[1].text: it is empty"],
        ),
        (
            "four",
            [{"name": "new", "levels": [{"value": k, "text": "x"} for k in (1, 3)]}],
            [":15: dimensions[1].levels: their values are 1, 3"],
        ),
        ("thumb", [{"name": "fluent"}], [":14: ", "unknown dimension 'fluent'"]),
        ("game", [{"name": "overall", "levels": SEVEN}], ["dimensions[1].levels", "1 to 5"]),
        ("four", [], ["dimensions: at least one"]),
        ("references", [{"name": "overall"}], ["dimensions: this protocol has none"]),
        (
            "four",
            "overall",
            ["dimensions: 'overall': a list, with lines that begin with '- ', is expected"],
        ),
    ],
)
def test_faults_of_dimensions_are_reported_with_file_and_line(
    tmp_path, protocol, dimensions, parts
):
    path = write_study(tmp_path, protocol, dimensions=dimensions)
    with says(str(path), *parts):
        read_study(str(path))


def test_other_levels_make_another_study_and_other_texts_do_not(tmp_path):
    digest = read_study(str(write_study(tmp_path, "four"))).digest
    texts = [{"name": "overall", "question": "And overall?"}]
    assert (
        read_study(str(write_study(tmp_path, "four", dimensions=texts, lang="de"))).digest == digest
    )
    levels = [{"name": "overall", "levels": SEVEN}]
    assert read_study(str(write_study(tmp_path, "four", dimensions=levels))).digest != digest
