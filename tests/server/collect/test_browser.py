"""The pages in real headless Chromium, on a phone's width and a desk's, by keyboard, with axe-core."""

from __future__ import annotations

import pytest

from tests.server.chromium import ChromiumPage
from tests.server.collect.conftest import make_site, serve_site
from tests.server.collect.visitors import load_rows

pytestmark = pytest.mark.browser

WIDTHS = (390, 1280)


@pytest.mark.parametrize("width", WIDTHS)
def test_tutorial_game_and_probation_work_by_keyboard(chromium, tmp_path, width):
    site = make_site(tmp_path, game={"wait": 0.4})
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, width).open().check("landing")
        page = chromium_page.join("Ann").check("tutorial").page
        check_dots_stand_beside_digits(page)
        turns = []
        for _ in range(12):
            page.wait_for_selector("[data-submit]:enabled")
            # The Rating Guide stands beside the levels on a desk, and below them on a phone.
            levels, guide = (page.locator(s).bounding_box() for s in (".levels", ".guide"))
            ends = levels["x"] + levels["width"], levels["y"] + levels["height"]
            if width == 1280:
                assert guide["x"] >= ends[0]
                assert guide["y"] < ends[1]
            else:
                assert guide["y"] >= ends[1]
            is_practice = "Practice" in page.text_content("header")
            is_tutorial = "Tutorial" in page.text_content("header")
            caption = page.text_content(".caption")
            unit = next(u for u in site.store.units.values() if u.items[0].caption == caption)
            # Rightly in tutorial and practice; as wrong as can be in the first pairs.
            consensus = round(sum(unit.fixed) / len(unit.fixed))
            key = str(consensus if is_practice or is_tutorial else 1 if consensus > 2 else 5)
            page.keyboard.press(key)
            assert page.is_checked(f"input[value='{key}']")
            page.keyboard.press("Enter")
            page.wait_for_selector("[data-turn]")
            page.wait_for_load_state()  # until then no key works
            turn = page.get_attribute("[data-turn]", "data-turn")
            turns += [turn] if turn else []
            if turn:
                chromium_page.check(f"feedback-{turn}")
            if turn == "probation_passed":
                break
            page.keyboard.press("Enter")
        assert turns == ["tutorial_done", "trial_failed", "probation_passed"]
        page.goto(f"{url}/board")
        chromium_page.check("board")
        assert "Ann" in page.text_content("table")


def check_dots_stand_beside_digits(page):
    """Check that the middle of each radio dot is as high as that of its digit."""
    distances = page.eval_on_selector_all(
        ".levels label",
        """labels => labels.map(label => {
            const input = label.querySelector("input");
            const text = document.createRange();
            text.setStartAfter(input);
            text.setEndAfter(label.lastChild);
            const [dot, digit] = [input, text].map(part => part.getBoundingClientRect());
            return Math.abs(dot.top + dot.height / 2 - digit.top - digit.height / 2);
        })""",
    )
    assert len(distances) == 5
    assert max(distances) < 1.5


@pytest.mark.parametrize("width", WIDTHS)
def test_the_game_s_dashboard_refreshes_computed_ratings_and_exports(chromium, tmp_path, width):
    site = make_site(tmp_path)
    path = tmp_path / "study.yaml"
    path.write_text(path.read_text().replace("- rouge_l", "- bleu_1"))
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, width).open(
            f"/admin/setup?code={site.setup_code}"
        )
        page = chromium_page.page
        page.fill("#password", "correct horse battery")
        page.fill("#again", "correct horse battery")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Dashboard')")
        page.focus("button:has-text('Compute again')")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=units have other ones")
        chromium_page.check("game-dashboard")
        for text, name in (("Participants", "participants"), ("Every answer", "log")):
            with page.expect_download() as download:
                page.click(f"a.button:text-is('{text}')")
            assert download.value.suggested_filename == f"small-{name}.zip"


def test_the_button_counts_the_wait_down(chromium, tmp_path):
    with serve_site(make_site(tmp_path, game={"wait": 500})) as url:
        page = ChromiumPage(chromium, url, 390).join().page
        page.wait_for_selector("[data-submit]:disabled")
        assert page.text_content("[data-submit]").startswith("Rate (")
        page.keyboard.press("3")
        page.keyboard.press("Enter")
        assert page.url.endswith("/rate")
        assert page.locator("[data-turn]").count() == 0


def test_zoom_back_button_and_second_tab_work(chromium, tmp_path):
    site = make_site(tmp_path, game={"tutorial_pairs": 0, "tutorial": [], "points": -100})
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, 390).join()
        page = chromium_page.page
        page.click(".picture")
        assert page.is_visible("dialog img")
        assert page.evaluate("document.querySelector('dialog img').naturalWidth") == 40
        sizes = [page.locator(f"{s} img").bounding_box()["width"] for s in ("dialog", ".picture")]
        assert sizes[0] > 1.5 * sizes[1]
        assert page.locator("dialog button").bounding_box()["width"] <= 390
        page.keyboard.press("Escape")
        assert not page.is_visible("dialog img")
        tab = chromium_page.context.new_page()
        tab.goto(f"{url}/rate")
        page.keyboard.press("4")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-turn]")
        tab.keyboard.press("2")  # the other tab answers the same pair otherwise
        tab.keyboard.press("Enter")
        tab.wait_for_selector("text=that rating stands")
        page.go_back()
        page.reload()
        page.keyboard.press("5")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-turn]")
        answers = load_rows(site)["answers"]
        assert [a["value"]["overall"] for a in answers] == [4, 5]
        assert len({a["item"] for a in answers}) == 2


def test_the_back_button_fills_in_nothing_for_the_next_picture(chromium, tmp_path):
    site = make_site(tmp_path, "four")
    with serve_site(site) as url:
        page = ChromiumPage(chromium, url, 390).join().page
        first = page.input_value("input[name=key]")
        for row in page.locator(".levels").all():
            row.locator("input").last.check()
        page.click("[data-submit]")
        page.wait_for_selector("text=1 of at most")
        page.goto(f"{url}/rate")
        page.go_back()
        page.wait_for_selector("text=1 of at most")
        assert page.input_value("input[name=key]") != first
        assert page.locator("input:checked").count() == 0


@pytest.mark.parametrize("protocol", ["good_bad", "four", "game"])
def test_without_a_connection_the_page_stays_and_the_answer_is_sent_later(
    chromium, tmp_path, protocol
):
    site = make_site(tmp_path, protocol)
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, 390).join()
        page = chromium_page.page
        for row in page.locator(".levels").all():
            row.locator("input").last.check()
        button = "button[value=bad]" if protocol == "good_bad" else "[data-submit]"

        chromium_page.context.set_offline(True)
        page.click(button)
        page.wait_for_selector("text=There is no connection to the site.")
        message = page.locator("[data-lost]").bounding_box()
        assert 0 <= message["y"] <= 801 - message["height"]  # in sight
        assert load_rows(site)["answers"] == []
        assert page.locator("input:checked").count() == page.locator(".levels").count()

        chromium_page.context.set_offline(False)
        page.click(button)
        page.wait_for_selector("[data-turn]" if protocol == "game" else "text=1 of at most")
        answers = load_rows(site)["answers"]
        assert {answer["serve"] for answer in answers} == {1}


def test_a_level_that_is_missing_is_shown_with_its_question(chromium, tmp_path):
    with serve_site(make_site(tmp_path, "thumb")) as url:
        page = ChromiumPage(chromium, url, 390).join().page
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.click("[data-submit]")
        page.wait_for_selector("input[name=precision_1]:focus")
        picture = page.locator(".sticky").bounding_box()
        question = page.locator("legend").first.bounding_box()
        assert question["y"] >= picture["y"] + picture["height"] - 1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("protocol", ["good_bad", "extrinsic", "thumb", "four", "ab", "references"])
def test_each_form_works_in_a_browser(chromium, tmp_path, protocol, width):
    site = make_site(tmp_path, protocol, ratings=2)
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, width).join().check(protocol)
        page = chromium_page.page
        if protocol == "good_bad":
            for key in "123":
                page.keyboard.press(key)
                page.wait_for_selector(f"text={key} of at most")
                page.wait_for_load_state()
        elif protocol == "extrinsic":
            page.keyboard.press(
                "Tab"
            )  # the skip link, then the instructions, the picture, the levels
            page.focus("input[name=correct_1]")
            for _ in range(3):
                page.keyboard.press("ArrowDown")
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_selector("text=1 of at most")
            assert set(load_rows(site)["answers"][0]["value"].values()) == {0}
        elif protocol == "thumb":
            n_captions = page.locator(".caption").count()
            for k in range(1, n_captions + 1):
                page.focus(f"input[name=precision_{k}]")
                page.keyboard.press("4" if k > 1 else "Space")  # digits choose nothing here
                page.keyboard.press("ArrowRight")
                page.check(f"input[name=recall_{k}][value='5']")
            page.locator("summary:has-text('Penalties')").first.press("Enter")
            page.check("#fault_broken_1")
            page.select_option("select[name=tenths_broken_1]", "10")
            page.wait_for_selector("text=Totals: 2.5; 3.5; 3.5")
            chromium_page.check("thumb-totals")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 of at most")
            second = ChromiumPage(chromium, url, width).join().check("thumb-second")
            assert "Another annotator has scored" in second.page.text_content("main")
            assert second.page.locator("input[type=radio]:checked").count() == 3 * n_captions
            second.page.focus("input[name=precision_1]:checked")
            second.page.keyboard.press("ArrowRight")
            second.page.keyboard.press("Enter")
            second.page.wait_for_selector("text=1 of at most")
            values = [a["value"] for a in load_rows(site)["answers"]]
            assert len(values) == 2 * n_captions
            assert sorted(v["precision"] for v in values) == [2] * (2 * n_captions - 1) + [3]
        elif protocol == "four":
            for k in range(1, page.locator(".caption").count() + 1):
                page.check(f"input[name=overall_{k}][value='{k}']")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 of at most")
        elif protocol == "ab":
            assert page.locator("h2").all_text_contents() == ["Caption A", "Caption B"]
            page.keyboard.press("2")
            assert page.is_checked("input[value='0']")
            page.keyboard.press("Enter")
            page.wait_for_selector("text=1 of at most")
        else:
            page.fill("textarea", "There is a plain picture")
            page.wait_for_selector("text=at least 8 words; there are 5")
            chromium_page.check("references-faults")
            page.fill("textarea", "A plain picture of one colour, seen from very near.")
            page.wait_for_selector("text=Ready.")
            page.click("[data-submit]")
            page.wait_for_selector("text=1 of at most")
        assert load_rows(site)["answers"]
        assert not chromium_page.errors


@pytest.mark.parametrize("width", WIDTHS)
def test_the_dashboard_works_in_a_browser(chromium, tmp_path, width):
    from captau.server.collect.simulated_browser import join_study

    site = make_site(tmp_path, "thumb", ratings=3, participants="open")
    with serve_site(site) as url:
        for k in range(3):
            annotator = join_study(url)
            for n in range(4):
                page = annotator.get("/rate")
                level = {f"precision_{c}": 1 + (n + k + c) % 5 for c in (1, 2, 3)}
                level |= {f"recall_{c}": 1 + n % 5 for c in (1, 2, 3)}
                annotator.post("/rate", {**page.hidden, **level})
        chromium_page = ChromiumPage(chromium, url, width).open(
            f"/admin/setup?code={site.setup_code}"
        )
        chromium_page.check("setup")
        page = chromium_page.page
        page.fill("#password", "correct horse battery")
        page.fill("#again", "correct horse battery")
        page.click("button:has-text('Set')")
        page.wait_for_selector("h1:has-text('Dashboard')")
        chromium_page.check("dashboard")
        assert "Krippendorff's α, interval" in page.text_content("main")
        page.locator("summary").first.click()
        page.locator("input[name=why]").first.fill("a test")
        page.click("button:has-text('Leave out')")
        page.wait_for_selector("text=: a test")
        chromium_page.check("dashboard-excluded")
        with page.expect_download() as download:
            page.click("text=For captau")
        assert download.value.suggested_filename == "small-captau.zip"


@pytest.mark.parametrize("protocol", ["game", "thumb", "extrinsic"])
def test_pages_in_german_work_in_a_browser(chromium, tmp_path, protocol):
    site = make_site(tmp_path, protocol, lang="de")
    with serve_site(site) as url:
        chromium_page = ChromiumPage(chromium, url, 390).open().check(f"{protocol}-landing-de")
        page = chromium_page.page
        assert page.get_attribute("html", "lang") == "de"
        chromium_page.join().check(f"{protocol}-de")
        assert page.text_content("[data-submit]") in ("Speichern", "Bewerten")
        page.goto(f"{url}/nowhere")
        assert page.text_content("main a.button") == "Weiter"
