"""Names, cards, their YAML files, and where data is looked for."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import platformdirs
import pytest

import captau
from captau.benchmarks.scoring.catalog import dataset_names, read_config, usual_protocol
from captau.benchmarks.scoring.protocol import CHOICES, Protocol
from captau.conf import group
from captau.datasets import registry
from captau.datasets.errors import InputError
from captau.datasets.reading.source_files import find, locate
from captau.datasets.schema import CaptionSet, Card, SourceFile
from tests.conftest import run_captau, says

NAMES = registry.names()
#: The demo is built in; what `file` reads is a user's own.
WITH_FILES = [name for name in NAMES if name not in ("demo", "file")]


def test_the_datasets() -> None:
    """Names are a contract: others may come, and none of these goes."""
    assert sorted(NAMES) == NAMES
    assert set(NAMES) >= {
        *(
            "capeval1k",
            "composite_8k",
            "composite_30k",
            "composite_coco",
            "composite",
            "fleur",
            "demo",
            "file",
        ),
        *("flickr8k_expert", "flickr8k_cf", "pascal50s", "pascal50s_votes", "thumb"),
        "billboard_thumb",
        "caption_quality",
        *("cocog", "flickrg", "iicr16k", "foil", "polaris", "nebula", "hat"),
        *("nocaps_foil", "iiw_400", "iiw_docci", "longcap_arena", "caparena"),
        *("context_matters", "context_matters_blv"),
        *("cxc_sits", "cxc_sts", "sugarcrepe", "valse"),
    }


@pytest.mark.parametrize("call", [registry.card, registry.load, usual_protocol])
@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("flickr8k_", "did you mean flickr8k_cf or flickrg or flickr8k_expert?"),
        ("composite_", "did you mean composite or"),
        ("pascal50", "did you mean pascal50s"),
        ("qqq", "known: billboard_thumb, "),
        ("", "known: billboard_thumb, "),
        ("two\nlines", "known: billboard_thumb, "),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(call, typed: str, near: str) -> None:
    with says("unknown dataset '", near):
        call(typed)


@pytest.mark.parametrize("typed", [None, 5, ["demo"]])
def test_what_is_no_name_is_no_dataset(typed) -> None:
    with says(f"unknown dataset '{typed}'", "known: billboard_thumb, "):
        registry.load(typed)
    with pytest.raises(captau.InputError):
        captau.load(typed)


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="dataset thumb is registered twice"):
        registry.dataset(registry.card("thumb"))(registry.load)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own, which has imported nothing yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_source_is_imported_when_one_of_its_datasets_is_asked_for() -> None:
    """THumB's module needs no other; names, and what protocols change, need none at all."""
    ended = run_python(
        "import sys\n"
        "from captau.datasets import registry\n"
        "def sources():\n"
        "    return sorted(m.rpartition('.')[2] for m in sys.modules if '.datasets.sources.' in m)\n"
        "registry.names(), registry.protocol_changes('file')\n"
        "print(sources())\n"
        "registry.card('thumb')\n"
        "print(sources())\n"
    )
    assert ended.stdout.splitlines() == ["[]", "['thumb']"], ended.stderr


@pytest.mark.slow
def test_the_demo_is_benched_without_other_sources(tmp_path: Path) -> None:
    ended = run_python(
        "import sys\n"
        "from captau.benchmarks.cli.main import main\n"
        f"sys.argv = ['captau', 'bench', 'metrics=rouge_1', r'output_dir={tmp_path / 'run'}']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as ended:\n"
        "    assert not ended.code\n"
        "print(sorted(m.rpartition('.')[2] for m in sys.modules if '.datasets.sources.' in m))\n"
    )
    assert ended.stdout.splitlines()[-1] == "['demo']", ended.stderr


def test_every_module_of_sources_registers_what_its_readers_are_called() -> None:
    """All are imported here, one after the other, and the names are those that were told before."""
    ended = run_python(
        "import importlib, pkgutil\n"
        "from captau.datasets import registry, sources\n"
        "names = registry.names()\n"
        "for module in pkgutil.iter_modules(sources.__path__):\n"
        "    importlib.import_module(f'{sources.__name__}.{module.name}')\n"
        "print(names == registry.names(), *(registry.card(name).name == name for name in names))\n"
    )
    assert ended.stdout.split() == ["True"] * (len(NAMES) + 1), ended.stderr


def test_a_name_of_a_source_that_is_not_imported_yet_is_taken() -> None:
    ended = run_python(
        "from captau.datasets.registry import dataset\n"
        "from captau.datasets.schema import Card\n"
        "dataset(Card('polaris', '', '', '', '', ''))(lambda root: None)\n"
    )
    assert ended.stderr.splitlines()[-1] == "ValueError: dataset polaris is registered twice"


@pytest.mark.parametrize(
    ("module", "name", "protocol", "remedy"),
    [
        ("captau.datasets.sources.made", "made", None, "call the reader of dataset made load_made"),
        ("captau.datasets.sources.thumb", "thumb", {"k": 1}, "into conf/dataset/thumb.yaml"),
    ],
)
def test_a_module_of_sources_says_what_it_has_to_be_like(
    module: str, name: str, protocol: dict[str, int] | None, remedy: str, own_registry: None
) -> None:
    registry._READERS.pop(name, None)

    def read(root: Path) -> CaptionSet:
        raise NotImplementedError

    read.__module__ = module
    with pytest.raises(ValueError, match=remedy):
        registry.dataset(Card(name, "", "", "", "", ""), protocol)(read)


def test_every_file_has_its_dataset() -> None:
    assert set(group("dataset")) <= {*registry.names()}
    assert dataset_names() == registry.names()


@pytest.mark.parametrize("name", group("dataset"))
def test_a_file_states_what_differs_alone(name: str) -> None:
    assert list(read_config("dataset", name)) == ["protocol"]
    usual = usual_protocol(name)
    for changes in usual.pop("by_dimension", {}).values():
        assert {**usual, **changes} != usual
    for option, value in usual.items():
        assert value != CHOICES[option].usual


@pytest.mark.parametrize("name", NAMES)
def test_the_usual_protocol_resolves(name: str) -> None:
    protocol = Protocol.resolve(name, usual_protocol(name), {})
    assert protocol.name == "usual"
    card = registry.card(name)
    # A dataset without a file in `conf/dataset/` has all of its dimensions.
    assert protocol.dimension == ("all",) or set(protocol.dimension) <= set(card.scales)
    assert protocol.dimension or protocol.coefficients == ("accuracy",)


def test_a_registration_alone_makes_a_dataset(tmp_path, monkeypatch, own_registry) -> None:
    """Without a file in `conf/dataset/`, Python and the command line know it, with the usual protocol."""
    demo = registry.load("demo")
    card = dataclasses.replace(demo.card, name="mini")

    @registry.dataset(card)
    def load_mini(root: Path) -> CaptionSet:
        return CaptionSet(demo.items, demo.ratings, demo.preferences, card=card)

    assert Protocol.resolve("mini", usual_protocol("mini"), {}) == Protocol()
    options = {"protocol": {"dimension": "overall"}, "statistics": {"interval": "none"}}
    mini, known = (captau.bench(name, "rouge_1", **options) for name in ("mini", "demo"))
    assert list(mini.correlations["value"]) == list(known.correlations["value"])
    monkeypatch.chdir(tmp_path)
    assert run_captau("bench", "dataset=mini", "metrics=rouge_1", "output_dir=run") == 0
    rows = pd.read_csv("run/correlations.csv")
    assert set(rows["dataset"]) == {"mini"}
    assert set(rows["coefficient"]) >= {"tau_c", "tau_b", "accuracy"}


def test_images_that_lie_in_the_data_folder_are_found(tmp_path: Path, own_registry) -> None:
    """A metric that looks at images then needs no option; the data's digest does not depend on where they lie."""
    demo = registry.load("demo")
    card = dataclasses.replace(demo.card, name="mini", sources=(SourceFile("mini.csv", "u"),))
    items = demo.items.assign(image=None)

    @registry.dataset(card)
    def load_mini(root: Path) -> CaptionSet:
        return CaptionSet(items, demo.ratings, demo.preferences, card=card)

    (tmp_path / "mini.csv").touch()
    without = registry.load("mini", tmp_path)
    assert without.items["image"].isna().all()
    folder = tmp_path / "mini" / "images"
    folder.mkdir(parents=True)
    for path in set(demo.items["image"]):
        shutil.copy(path, folder)
    found = registry.load("mini", tmp_path)
    assert list(found.items["image"]) == [str(folder / name) for name in items["image_id"]]
    assert found.digest == without.digest == demo.digest

    def size(caption: str, image: str) -> float:
        return float(Path(image).stat().st_size)

    results = captau.bench(
        "mini",
        size,
        data_root=tmp_path,
        statistics={"interval": "none"},
        output_dir=tmp_path / "run",
    )
    scores = dict(zip(results.scores["image_id"], results.scores["score"], strict=True))
    assert scores["demo_000.png"] == size("", str(folder / "demo_000.png"))


@pytest.mark.parametrize("name", ["demo", *WITH_FILES])
def test_cards_are_complete(name: str) -> None:
    card = registry.card(name)
    assert card.name == name
    assert card.title
    assert card.licence
    assert re.match(r"https?://\S+$", card.homepage) or card.synthetic
    entry = re.fullmatch(
        r"@(article|inproceedings|misc|software)\{(\w+),(.*)\n\}", card.citation, re.S
    )
    assert entry, card.citation
    body = entry[3]
    fields = dict(re.findall(r"\n  (\w+)=\{((?:[^{}]|\{[^{}]*\})*)\}(?=,?\n|,?$)", body))
    needed = {"title"} if card.synthetic else {"title", "author", "year"}
    assert needed <= set(fields)
    assert body.count("{") == body.count("}") == len(fields) + sum(map(braces, fields.values()))
    assert card.synthetic or re.fullmatch(r"(19|20)\d\d", fields["year"])
    assert set(card.expected) <= {"images", "items", "ratings", "preferences"}
    assert all(count > 0 for count in card.expected.values())
    assert card.revision
    assert card.synthetic or card.sources
    for source in card.sources:
        assert source.url
        assert not re.search(r"github\.com/.*/(blob|tree)/(?![0-9a-f]{40}/)", source.url), (
            "no commit"
        )
        assert not Path(source.path).is_absolute()
        assert re.fullmatch(r"[0-9a-f]{64}|", source.sha256)


def braces(text: str) -> int:
    return text.count("{")


def test_only_the_demo_is_synthetic() -> None:
    assert [name for name in NAMES if registry.card(name).synthetic] == ["demo"]
    assert [name for name in NAMES if not registry.card(name).sources] == ["demo", "file"]


def test_where_data_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTAU_DATA", str(tmp_path / "environment"))
    assert registry.data_root(tmp_path / "argument") == tmp_path / "argument"
    assert registry.data_root(str(tmp_path / "argument")) == tmp_path / "argument"
    assert registry.data_root() == tmp_path / "environment"
    usual = platformdirs.user_cache_path("captau") / "data"
    monkeypatch.setenv("CAPTAU_DATA", "")
    assert registry.data_root() == usual
    monkeypatch.delenv("CAPTAU_DATA")
    assert registry.data_root() == usual
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.data_root("~/data") == tmp_path / "data"


def test_load_reads_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTAU_DATA", str(tmp_path / "environment"))
    with says(str(tmp_path / "environment")):
        registry.load("thumb")
    with says(str(tmp_path / "argument")):
        registry.load("thumb", tmp_path / "argument")


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_missing_folder_says_where_to_get_the_data(name: str, tmp_path: Path) -> None:
    first = registry.card(name).sources[0]
    folder = tmp_path / "none"
    with says(
        f"dataset {name}", f"{folder} does not exist", "data.root=DIR", first.path, first.url
    ):
        registry.load(name, folder)


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_missing_file_says_where_to_get_it(name: str, tmp_path: Path) -> None:
    """A folder where the file should be is no file either."""
    for source in registry.card(name).sources:
        (tmp_path / source.path).mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        registry.load(name, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    part = "composite_8k" if name == "composite" else name
    assert message.startswith(f"dataset {part}: the file {tmp_path}")
    # composite_8k does with flickr8k.json where the token file is not there.
    sources = [*registry.card(name).sources, *registry.card("flickr8k_expert").sources]
    assert any(s.path in message and s.url in message for s in sources)


def test_the_demo_needs_no_folder(tmp_path: Path) -> None:
    assert registry.load("demo", tmp_path / "none").card.synthetic


def test_a_file_may_lie_in_a_folder_of_the_datasets_name(tmp_path: Path) -> None:
    source = SourceFile("theirs/file.txt", "https://example.org/file.txt")
    card = Card("mine", "Mine", "1", "", "", "")
    assert locate(tmp_path, card, source) is None
    with says("dataset mine: the file", "theirs/file.txt", "https://example.org/file.txt"):
        find(tmp_path, card, source)
    for folder in ("mine", "theirs"):  # the usual place comes first
        path = tmp_path / folder / "file.txt"
        path.parent.mkdir()
        path.touch()
        assert find(tmp_path, card, source) == path


def test_a_notebook_shows_an_input_error_as_its_line() -> None:
    """IPython prints what `_render_traceback_` returns in the place of the traceback."""
    error = InputError("file.csv:3: no caption")
    shown = getattr(error, "_render_traceback_")()  # noqa: B009, a private name by IPython's own rule
    assert shown == ["InputError: file.csv:3: no caption"]
