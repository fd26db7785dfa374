"""A browser that opens report pages, and finished runs."""

from __future__ import annotations

from contextlib import chdir

import pytest

from captau.benchmarks.reporting.charts import figure_files
from tests.benchmarks.commands.test_written_files import CASES, FAST, FILE, PAIRS, write_files
from tests.conftest import run_captau

#: Words of the commands whose runs are made once.
RUNS = {
    "compare": ["compare", *FILE, *FAST, "tests=bootstrap", "floors=true"],
    "compare_pairs": ["compare", *PAIRS, *FAST, "tests=bootstrap"],
    "bench_datasets": ["bench", *CASES["compare_datasets"][1:], "floors=true"],
    **{name: CASES[name] for name in ("score", "rank_pairs")},
}


@pytest.fixture(scope="session")
def made_folders(tmp_path_factory):
    """The folder of each finished run by its name, as far as tests asked for it, and the files that it read."""
    folder = tmp_path_factory.mktemp("finished")
    write_files(folder)
    return {"": folder}


@pytest.fixture
def finished_run(request, made_folders):
    """The folder of a finished run of `RUNS`, which no test changes."""
    folder = made_folders[""] / request.param
    if request.param not in made_folders:
        with chdir(folder.parent):
            assert run_captau(*RUNS[request.param], f"output_dir={request.param}") == 0
        made_folders[request.param] = folder
    return folder


@pytest.fixture
def looked_at(chromium):
    """A function that opens a run's page, which must ask for nothing else and say nothing."""
    asked, said = [], []
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    def open_(folder, width=1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((folder / "report.html").as_uri())
        return page

    yield open_
    context.close()
    assert asked
    assert all(url.startswith(("file:", "data:")) for url in asked), asked
    assert said == []


@pytest.fixture
def drawn_figures(monkeypatch):
    """Descriptions of the figures that are made into files, whose content is `x`."""
    from tests.benchmarks.reporting.described_figures import describe

    def save(figure, form, *_, **__):
        if form == "svg":
            described.append(describe(figure))
        return b"x"

    described: list[str] = []
    monkeypatch.setattr(figure_files, "_saved", save)
    return described
