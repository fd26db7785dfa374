"""METEOR's index, from small sources of our own: its content, damage, and processes that share it."""

from __future__ import annotations

import gzip
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from captau.datasets.cache import cache_folder
from captau.metrics.progress import LoggedBar, show_bar
from captau.metrics.text.meteor import _kernel, alignment
from captau.metrics.text.meteor import index as index_module
from captau.metrics.text.meteor.tables import compile_tables, parse_prefixes
from captau.metrics.text.meteor.words import Lexicon, WordProperties, find_words, java_hash
from tests.conftest import says

PAIRS = [("big dog", "hound"), ("hound", "big dog"), ("hound", "dog")]


@pytest.fixture
def sources(tmp_path):
    """Return a program and a paraphrase file with next to no content."""
    jar = tmp_path / "small.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("synonym/english.synsets", "car\n7 5\nauto\n5\ngoose\n9\n")
        archive.writestr("synonym/english.exceptions", "goose\ngeese geeses\n")
        archive.writestr("function/english.words", "the\na\n")
        archive.writestr("function/other.words", "")
        archive.writestr("nonbreaking/english.prefixes", "# titles\nmr\n\npp #NUMERIC_ONLY#\n")
    pairs = tmp_path / "pairs.gz"
    pairs.write_bytes(gzip.compress("".join(f"0.5\n{a}\n{b}\n" for a, b in PAIRS).encode()))
    return jar, pairs


@pytest.fixture
def open_index():
    """Return `open_index`, which remembers no index from before."""
    index_module.open_index.cache_clear()
    yield index_module.open_index
    index_module.open_index.cache_clear()


def arrays_of(index) -> dict:
    """Return the index's fields, and its words' properties, by the names that `compile_tables` gives them."""
    properties = {f"word_{k}": v for k, v in vars(index.properties).items()}
    return {k: v for k, v in vars(index).items() if k != "properties"} | properties


def contents(index) -> dict:
    values = {k: v for k, v in arrays_of(index).items() if k != "path"}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def test_an_index_worked_by_hand(sources, tmp_path, open_index):
    index = open_index(*sources, tmp_path / "new" / "cache")
    # Worked by hand: words in order, and the trie breadth first: big, dog, hound, big dog.
    assert index.words.tolist() == [b"big", b"dog", b"hound"]
    assert index.first_child.tolist() == [1, 4, 5, 5, 5, 5]
    assert index.node_word.tolist() == [-1, 0, 1, 2, 1]
    assert index.used.tolist() == [0, 0, 1, 1, 1]
    assert index.to_first.tolist() == [0, 0, 0, 0, 2, 3]
    assert index.to.tolist() == [4, 2, 3]
    assert index.longest == 2
    assert index.lemmas.tolist() == [b"auto", b"car", b"goose"]
    assert index.lemma_first.tolist() == [0, 1, 3, 4]
    assert index.lemma_sets.tolist() == [5, 5, 7, 9]
    assert index.forms.tolist() == [b"geese", b"geeses"]
    assert index.form_sets.tolist() == [9, 9]
    assert index.function == {"the", "a"}
    assert index.prefixes == {"mr": False, "pp": True}
    # None of these words is in the lexicon. Java's hash of "dog" is ("d" · 31 + "o") · 31 + "g".
    assert index.properties.stem[1] == index.properties.key[1] == (100 * 31 + 111) * 31 + 103
    assert index.properties.set_first.tolist() == [0, 0, 0, 0]
    assert not index.to.flags.writeable


def test_each_array_is_read_as_it_was_compiled(sources, tmp_path, open_index):
    jar, pairs = sources
    lines = "".join(f"0.5\nword {i} w{i % 7}\nother{i % 90}\n" for i in range(300))
    pairs.write_bytes(gzip.compress(lines.encode()))
    arrays, _ = compile_tables(jar, pairs, lambda _share, _step: None)
    index = open_index(jar, pairs, tmp_path / "cache")
    assert sum(array.nbytes > 1000 for array in arrays.values()) >= 5
    for name, array in arrays.items():
        np.testing.assert_array_equal(arrays_of(index)[name], array)
        assert arrays_of(index)[name].flags.aligned  # Numba takes no others


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=2, max_size=9, unique=True),
    st.lists(st.text("abc", max_size=9), min_size=1, max_size=3),
)
@example(["a", "ab", "aba"], ["abab"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_phrases_are_those_that_a_search_of_every_place_sees(sources, phrases, texts):
    """Phrases and texts of one-letter words; each phrase but the last is a paraphrase of the next."""
    jar, pairs = sources
    table = list(itertools.pairwise(phrases))
    lines = "".join(f"1\n{' '.join(a)}\n{' '.join(b)}\n" for a, b in table)
    pairs.write_bytes(gzip.compress(lines.encode()))
    arrays, small = compile_tables(jar, pairs, lambda _share, _step: None)
    words = [word.decode() for word in arrays["words"]]
    numbers = [words.index(letter) if letter in words else -1 for letter in "".join(texts)]
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    trie = (arrays[name] for name in ("first_child", "node_word", "used"))
    first, position, length, node = _kernel.find_phrases(
        np.array(numbers, np.int32), starts, *trie, small["longest"]
    )
    seen = [
        [(i, n) for i in range(len(text)) for n in range(1, 5) if text[i : i + n][n - 1 :]]
        for text in texts
    ]
    seen = [
        [(i, n) for i, n in s if t[i : i + n] in phrases] for s, t in zip(seen, texts, strict=True)
    ]
    found = list(zip(position.tolist(), length.tolist(), strict=True))
    assert [found[a:b] for a, b in itertools.pairwise(first.tolist())] == seen
    # Of the phrases that occur, which are paraphrases of which.
    spelt = [t[i : i + n] for s, t in zip(seen, texts, strict=True) for i, n in s]
    nodes, place = np.unique(node[: first[-1]], return_index=True)
    selected = [spelt[i] for i in place]
    begins, to = alignment.select_paraphrases(nodes, arrays["to_first"], arrays["to"])
    assert [[selected[k] for k in to[a:b]] for a, b in itertools.pairwise(begins)] == [
        [b for a, b in table if a == phrase and b in selected] for phrase in selected
    ]


@pytest.mark.parametrize("pair", [("dog", "hound"), ("hound", "dog")])
def test_a_paraphrase_of_either_side_matches(sources, tmp_path, open_index, pair):
    """Worked by hand: the table has "dog" as a paraphrase of "hound", and not the reverse."""
    index = open_index(*sources, tmp_path / "cache")
    aligner = alignment.Aligner(index, "english", is_normalised=True)
    (statistics,) = aligner.compute_statistics(*([text] for text in pair))
    assert statistics.tolist() == [1, 1, *[0] * 14, 1, 1, 0, 0, 1, 1, 1]


def test_a_stem_that_a_phrase_contests_is_left_out_where_it_makes_a_chunk(
    sources, tmp_path, open_index
):
    """Worked by hand: "hound" matches itself, not "big dog"; "dogs" would match "dog", apart from it."""
    jar, pairs = sources
    pairs.write_bytes(gzip.compress(b"0.5\nhound\nbig dog\n"))
    index = open_index(jar, pairs, tmp_path / "cache")
    aligner = alignment.Aligner(index, "english", is_normalised=True)
    (statistics,) = aligner.compute_statistics(["dogs lion hound"], ["big dog hound"])
    assert statistics.tolist() == [3, 3, 0, 0, 1, 1, *[0] * 14, 1, 1, 1]


def test_an_irregular_form_has_no_other_base():
    """Worked by hand: "axes" is a form of "axis" here, and would be the plural of "axe"."""
    lexicon = Lexicon(
        *(np.array([b"axe", b"axis"]), np.array([0, 1, 2]), np.array([7, 8])),
        *(np.array([b"axes"]), np.array([0, 1]), np.array([8])),
        frozenset(),
    )
    properties = WordProperties.describe(["axes", "axe", "axess"], lexicon, str)
    assert properties.sets.tolist() == [8, 7]
    assert properties.set_first.tolist() == [0, 1, 2, 2]
    turned = properties.take(np.array([1, 0]))
    assert (turned.sets.tolist(), turned.set_first.tolist()) == ([7, 8], [0, 1, 2])


def test_words_of_three_letters_have_a_base_and_those_of_two_none():
    """Worked by hand: without its "s", "tas" is "ta" and "as" would be "a"; "tass" ends in two."""
    lexicon = Lexicon(
        *(np.array([b"a", b"ta", b"tas"]), np.array([0, 1, 2, 3]), np.array([4, 5, 6])),
        *(np.array([], "S1"), np.array([0]), np.array([], int)),
        frozenset({"tas"}),
    )
    properties = WordProperties.describe(["as", "tas", "a", "tass"], lexicon, str)
    assert properties.set_first.tolist() == [0, 0, 2, 3, 3]
    assert properties.sets.tolist() == [5, 6, 4]
    assert properties.is_function.tolist() == [0, 1, 0, 0]


def test_a_table_without_words_has_none():
    assert find_words(np.array([], "S3"), [b"dog", b""]) == [-1, -1]


class RecordedBar(LoggedBar):
    """A bar that keeps each state of its one line: what is done, and what it says."""

    def __init__(self):
        super().__init__()
        self.states = []

    def update(self, task_id, **changes):
        super().update(task_id, **changes)
        (task,) = self.tasks
        self.states.append((task.completed, task.total, task.description))


def test_the_bar_moves_while_tables_are_compiled_and_says_what_is_done(
    sources, tmp_path, open_index
):
    bar = RecordedBar()
    with show_bar(bar):
        open_index(*sources, tmp_path / "cache")
    percents = [percent for percent, _, _ in bar.states]
    assert percents == sorted(percents)
    assert percents[-1] == 95  # the file is still to be written
    assert {total for _, total, _ in bar.states} == {100}
    steps = list(dict.fromkeys(text.partition(", once, ")[2] for _, _, text in bar.states))
    expected = ["reading", "phrases", "tree of phrases", "paraphrases", "stems of words", "writing"]
    assert [step for step in steps if step] == expected


def index_file(cache: Path) -> Path:
    (path,) = cache.glob("*.index")
    return path


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"x" + data[1:],
        lambda data: data[:-70] + bytes([data[-70] ^ 1]) + data[-69:],
        lambda data: data.replace(b'"size"', b'"sise"', 1),
        lambda data: data.replace(b"{", b"[", 1),
        lambda data: data.replace(b'"first_child"', b'"last_child!"', 1),
        lambda data: data.replace(b'["the"', b'["thy"', 1),
    ],
)
def test_a_damaged_index_is_compiled_again(sources, tmp_path, open_index, harm):
    cache = tmp_path / "cache"
    before = contents(open_index(*sources, cache))
    path = index_file(cache)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(harm(data))
    open_index.cache_clear()
    assert contents(open_index(*sources, cache)) == before
    assert path.read_bytes() == data


def test_other_sources_make_another_index(sources, tmp_path, open_index):
    jar, pairs = sources
    first = open_index(jar, pairs, tmp_path / "cache")
    pairs.write_bytes(gzip.compress(b"0.5\ndog\nhound\n"))
    open_index.cache_clear()
    assert contents(open_index(jar, pairs, tmp_path / "cache")) != contents(first)
    assert len(list((tmp_path / "cache").glob("*.index"))) == 2


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_damaged_sources_are_named(sources, tmp_path, open_index, which, content):
    path = sources[which]
    path.write_bytes(path.read_bytes()[:-12] if content is None else content)
    with says(str(path), "is damaged; pip install --force-reinstall pycocoevalcap"):
        open_index(*sources, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.index"))
    assert not list((tmp_path / "cache").glob(".*.tmp"))


def test_a_cache_that_cannot_be_written_warns(sources, tmp_path, open_index, caplog, monkeypatch):
    (tmp_path / "file").touch()
    expected = contents(open_index(*sources, tmp_path / "cache"))
    assert contents(open_index(*sources, tmp_path / "file" / "cache")) == expected
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("METEOR's index is not kept")
    assert "set cache.root=DIR" in record.getMessage()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    open_index.cache_clear()
    with says("METEOR's index", "set cache.root=DIR", "meteor(backend=pycocoevalcap)"):
        open_index(*sources, tmp_path / "file" / "cache")


CHILD = """
import sys, time
from pathlib import Path
from captau.metrics.text.meteor import index as index_module
compile_tables = index_module.compile_tables
def compile_slowly(*sources):
    print("compiling", flush=True)
    time.sleep(float(sys.argv[4]))
    return compile_tables(*sources)
index_module.compile_tables = compile_slowly
print(len(index_module.open_index(*map(Path, sys.argv[1:4])).to), flush=True)
"""


def start_child(sources, cache: Path, seconds: float):
    """Start a process that opens the index, and takes so long to compile it."""
    command = [sys.executable, "-c", CHILD, *map(str, sources), str(cache), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_compile_once(sources, tmp_path):
    processes = [start_child(sources, tmp_path / "cache", 0.5) for _ in range(2)]
    outputs = sorted(process.communicate()[0].split() for process in processes)
    assert outputs == [["3"], ["compiling", "3"]]
    assert [p.returncode for p in processes] == [0, 0]


@pytest.mark.slow
def test_indexes_of_two_languages_compiled_at_once_are_both_kept(sources, tmp_path, open_index):
    other = start_child(sources, tmp_path / "cache", 1)
    assert other.stdout.readline() == "compiling\n"
    open_index(*sources, tmp_path / "cache", "other")
    assert other.communicate()[0] == "3\n"
    assert len(list((tmp_path / "cache").glob("*.index"))) == 2


def test_a_kill_while_compiling_leaves_nothing_wrong(sources, tmp_path, open_index):
    cache = tmp_path / "cache"
    victim = start_child(sources, cache, 600)
    assert victim.stdout.readline() == "compiling\n"
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    assert list(cache.glob(".*.tmp"))
    assert not list(cache.glob("*.index"))
    began = time.monotonic()
    assert len(open_index(*sources, cache).to) == len(PAIRS)
    assert time.monotonic() - began < 60, "the lock went with its process"
    assert not list(cache.glob(".*.tmp"))


def test_the_index_of_pycocoevalcap_is_kept_in_the_cache_folder():
    index_module.load_index()
    sizes = [path.stat().st_size for path in cache_folder("meteor").glob("*.index")]
    assert max(sizes) > 50e6
    assert str(cache_folder()) == os.environ["CAPTAU_CACHE"]


def test_tables_without_paraphrases(sources):
    arrays, small = compile_tables(sources[0], None, lambda _share, _step: None, "other")
    assert small == {"longest": 1, "function": [], "prefixes": {}}
    values = {name: array.tolist() for name, array in arrays.items()}
    assert values["first_child"] == [1, 1]
    assert values["used"] == [0]
    assert values["to_first"] == [0, 0]
    assert [
        values[name] for name in ("words", "to", "lemmas", "forms", "word_key", "word_sets")
    ] == [[] for _ in range(6)]
    assert values["lemma_first"] == values["form_first"] == values["word_set_first"] == [0]


def test_prefixes_are_read_line_by_line():
    lines = ["# a comment", "", "mr", "pp #NUMERIC_ONLY#", "no #numeric", "  st  x #NUMERIC_ONLY# "]
    assert parse_prefixes(lines) == {"mr": False, "pp": True, "no": False, "st": False}


def test_the_table_of_words_worked_by_hand(sources, tmp_path, open_index):
    """Words of the paraphrase table come first, with its numbers: big 0, dog 1, hound 2."""
    index = open_index(*sources, tmp_path / "cache")
    table = alignment.WordTable(index, str.upper)
    assert table.missing(["zz", "dog", "zz"]) == ["zz", "dog"]
    table.add(["hound", "zz", "dog", "a"])
    assert len(table) == 4
    assert table.paraphrase.tolist() == [2, 1, -1, -1]
    assert table.missing(["a", "big", "zz"]) == ["big"]
    assert table.numbers_of(["zz", "hound", "a", "dog"]).tolist() == [2, 0, 3, 1]
    assert table.properties.key.tolist() == [java_hash(w) for w in ("hound", "dog", "zz", "a")]
    assert table.properties.stem.tolist() == [java_hash(w) for w in ("hound", "dog", "ZZ", "A")]
    assert table.properties.is_function.tolist() == [0, 0, 0, 1]
    table.add(["big", "dog\x00"])
    assert table.paraphrase.tolist() == [2, 1, -1, -1, 0, 1]
    assert table.numbers_of(["big", "dog\x00"]).tolist() == [4, 5]
    assert table.properties.key[5] == java_hash("dog\x00") != java_hash("dog")
