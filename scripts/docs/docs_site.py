"""The pages of the documentation site that follow from the code, made while MkDocs builds it.

A hook of `mkdocs.yml`: metrics, datasets, commands and their options come from the registries, the
schemas and `conf/`; the quick start from README.md; the reproduced cells from docs/reproduction.csv.
`generated()` gives all of them as Markdown, so that nothing here knows MkDocs but the `on_…` functions.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docs_commands import command_page, commands_index, slug
from docs_datasets import cells_page, dataset_page, datasets_index
from docs_metrics import metric_names, metric_page, metrics_index
from docs_text import DOCS, ROOT, code, docstring, relink
from run_notebook import markdown_page

import captau
from captau.benchmarks.cli.registry import COMMANDS
from captau.datasets import registry as datasets

#: README's sections that the site says elsewhere, from the registries or its own menu.
NOT_QUICK = ("In the box", "Licence and citation")


@cache
def generated() -> dict[str, str]:
    """Every generated page: its path on the site → its Markdown."""
    pages = {
        "index.md": home(),
        "quick_start.md": quick_start(),
        "contributing.md": at_root("CONTRIBUTING.md"),
        "security.md": at_root("SECURITY.md"),
        "changelog.md": at_root("CHANGELOG.md"),
        "notebook.md": markdown_page(json.loads((DOCS / "quickstart.ipynb").read_text("utf-8"))),
        "python_reference.md": python_page(),
        "reproduced_cells.md": cells_page(),
        "metrics/index.md": metrics_index(),
        "datasets/index.md": datasets_index(),
        "commands/index.md": commands_index(),
    }
    pages |= {f"metrics/{name}.md": metric_page(name) for name in metric_names()}
    pages |= {f"datasets/{name}.md": dataset_page(name) for name in datasets.names()}
    return pages | {f"commands/{slug(name)}.md": command_page(name) for name in COMMANDS}


# What stands in files already.


def home() -> str:
    """README's beginning with its first section, and where to go from there."""
    intro, parts = sections("README.md")
    first_title, first_text = next(iter(parts.items()))
    intro = f"{intro}## {first_title}\n{first_text}".replace("docs/images/", "images/")
    counts = [
        f"- [{len(metric_names())} metrics](metrics/index.md): formula, source, parameters and "
        "signature of each.",
        f"- [{len(datasets.names())} datasets](datasets/index.md): what people were asked, licence, "
        "citation, and where to get each.",
        f"- [{len(COMMANDS)} commands](commands/index.md): every option and its default.",
    ]
    ways = [
        "- [Quick start](quick_start.md): from a clone to a table, and recipes.",
        "- [Why papers disagree](why_papers_disagree.md): one metric, one dataset, many numbers.",
        "- [From captions to a number](concepts.md): the words that captau uses, and how far a "
        "metric can get.",
        "- [Score your own captions](own_captions.md), [use your own judgements]"
        "(own_judgements.md), [collect judgements](collect.md).",
        *counts,
    ]
    return relink(f"{intro}\n## Where to go\n\n" + "\n".join(ways) + "\n", "README.md")


def quick_start() -> str:
    """README's sections, but for those that the site says elsewhere."""
    _, parts = sections("README.md")
    for title in NOT_QUICK:
        if title not in parts:
            raise ValueError(f"README.md has no section '{title}'; see NOT_QUICK in {__file__}")
    kept = (f"## {title}\n{text}" for title, text in parts.items() if title not in NOT_QUICK)
    text = "\n".join(kept).replace("docs/images/", "images/")
    return relink("# Quick start\n\n" + text, "README.md")


def at_root(name: str) -> str:
    """A file at the root, as it stands."""
    return relink((ROOT / name).read_text(encoding="utf-8"), name)


def sections(name: str) -> tuple[str, dict[str, str]]:
    """What a file at the root says before its first section, and its sections by title."""
    text = (ROOT / name).read_text(encoding="utf-8")
    first, *rest = re.split(r"^## (.+)\n", text, flags=re.M)
    return first, dict(zip(rest[::2], rest[1::2], strict=True))


# Python.


def python_page() -> str:
    parts = [
        "# Python reference",
        docstring(captau)[0],
    ]
    for name in captau.__all__:
        thing = getattr(captau, name)
        text, said = docstring(thing)
        head = f"## captau.{name}"
        is_function = inspect.isfunction(thing)
        call = code(f"captau.{name}{inspect.signature(thing)}", "python") if is_function else ""
        parts += [head, call, text]
        for heading, rows in said.items():
            parts.append(
                f"**{heading}**\n\n"
                + "\n".join(f"- `{k}`: {v}" if k else f"- {v}" for k, v in rows.items())
            )
    return "\n\n".join(p for p in parts if p)


# MkDocs.


def on_config(config: Any) -> Any:
    """Put generated pages, and hand-written ones that the menu does not name, into the menu."""
    named = set(re.findall(r"[\w/]+\.md", yaml.safe_dump(config.nav)))
    for section in config.nav:
        for title, inside in section.items() if isinstance(section, dict) else []:
            if not isinstance(inside, list):
                continue
            folder = str(inside[0]).partition("/index.md")[0]
            # After the index and before what else stands there.
            inside[1:1] = [p for p in generated() if p.startswith(f"{folder}/") and p not in named]
            if title == "Guides":
                inside += [p.name for p in sorted(DOCS.glob("*.md")) if p.name not in named]
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files


#: How much a page counts in the search beside others: guides and metrics come before lists.
_SEARCH: dict[str, dict[str, float | bool]] = {
    r"(own_captions|new_metric|metrics/cider)\.md": {"boost": 3},
    r"metrics/(?!index|cider\.).*|(ci_gate|tables|collect)\.md": {"boost": 2},
    r"(changelog|licences|datasets/fleur)\.md": {"boost": 0.1},
    r"reproduced_cells\.md": {"exclude": True},
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    for pattern, weight in _SEARCH.items():
        if re.fullmatch(pattern, page.file.src_uri):
            page.meta["search"] = weight
    if page.file.src_uri in generated():
        return markdown
    return relink(markdown, f"docs/{page.file.src_uri}")


#: Before the theme's code: pages from disk cannot open a worker by its address, but one of a text.
_WORKER_OF_TEXT = """\
if (location.protocol === "file:") {{
  const NativeWorker = window.Worker
  const text = {source}
  window.Worker = function () {{
    return new NativeWorker(URL.createObjectURL(new Blob([text], {{type: "text/javascript"}})))
  }}
}}
"""


def on_post_build(config: Any) -> None:
    """Write the search's worker and its index as scripts, since a browser fetches no other file of pages from disk."""
    site = Path(config.site_dir)
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    text = _WORKER_OF_TEXT.format(source=json.dumps(worker.read_text(encoding="utf-8")))
    (site / "search" / "worker.js").write_text(text, encoding="utf-8")
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    (site / "search" / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
