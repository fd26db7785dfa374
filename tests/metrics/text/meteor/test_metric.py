"""METEOR from the published formula, worked by hand on small captions, and laws that it keeps."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captau.datasets.cache import cache_folder
from captau.metrics.registry import metric
from captau.metrics.text.meteor import alignment as meteor_align
from captau.metrics.text.meteor import index as meteor_index
from captau.metrics.text.meteor import metric as meteor_module
from captau.metrics.text.meteor.alignment import java_hash, words_of
from tests.conftest import says

BACKENDS = ["captau", "pycocoevalcap"]

# The English parameters of METEOR 1.5.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
STEM, SYNONYM, PARAPHRASE = 0.6, 0.8, 0.6


@pytest.fixture(params=BACKENDS)
def meteor(request):
    """METEOR of one caption, by each backend."""
    one = metric(f"meteor(backend={request.param})")
    return lambda caption, *refs: one.score([{"caption": caption, "references": refs}])[0]


def ours(caption: str, *references: str) -> float:
    """METEOR of tokens, without the tokeniser."""
    return float(meteor_module.score(statistics(caption, *references)[None])[0])


def statistics(caption: str, *references: str) -> np.ndarray:
    (found,) = meteor_module.statistics([caption], [references])
    return found[0]


def combined(precision: float, recall: float, chunks: int, matches: float) -> float:
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


@pytest.mark.parametrize(
    ("caption", "reference", "expected"),
    [
        # Worked by hand, from words that match exactly.
        # "dog": 1 of 2 and 1 of 2 words, in 1 chunk.
        ("dog sleeps", "dog runs", combined(1 / 2, 1 / 2, chunks=1, matches=1)),
        # "dog barks": 2 of 3 and 2 of 2 words, in 1 chunk.
        ("dog barks loudly", "dog barks", combined(2 / 3, 1, chunks=1, matches=2)),
        # "dog", "runs": 2 of 3 words on both sides, in 2 chunks.
        ("dog big runs", "dog small runs", combined(2 / 3, 2 / 3, chunks=2, matches=2)),
        ("cat dog", "dog cat", combined(1, 1, chunks=2, matches=2)),
        # A content word counts δ, a function word 1 - δ: "dog" matches and "the" does not.
        (
            "the dog",
            "a dog",
            combined(DELTA / (DELTA + 1 - DELTA), DELTA, chunks=1, matches=1),
        ),
        # A synonym counts 0.8. All words match in one chunk, where METEOR leaves the penalty out.
        (
            "the car is red",
            "the automobile is red",
            (DELTA * (SYNONYM + 1) + (1 - DELTA) * 2) / (DELTA * 2 + (1 - DELTA) * 2),
        ),
        # An equal stem counts 0.6: "zebra barks" against "zebra barking".
        ("zebra barks", "zebra barking", (1 + STEM) / 2),
        # The first "dog" stays with "big", as one chunk is better than two: 3 of 3 and 3 of 4 words.
        ("big dog cat", "dog big dog cat", combined(1, 3 / 4, chunks=1, matches=3)),
        # "zebra" and "barks" match in turn: 4 of 4 words in 2 chunks, or more if crossed.
        (
            "zebra barks tiger barks",
            "tiger barks zebra barks",
            combined(1, 1, chunks=2, matches=4),
        ),
        # Java's hashes of these two are equal, so METEOR takes them for one word.
        ("netatasata", "bamimigene", 1.0),
    ],
)
def test_worked_by_hand(meteor, caption, reference, expected):
    assert meteor(caption, reference) == pytest.approx(expected, rel=1e-12)


def test_a_paraphrase_counts_its_words(meteor):
    # Worked by hand. "in front of" has the paraphrase "before" in METEOR's table: 3 words of the
    # candidate ("of" and "in" are function words) match 1 of the reference (a content word) and count
    # 0.6 each; "zebra" and "lion" match exactly.
    precision = (2 * DELTA + PARAPHRASE * (DELTA + 2 * (1 - DELTA))) / (3 * DELTA + 2 * (1 - DELTA))
    recall = (2 * DELTA + PARAPHRASE * DELTA) / (3 * DELTA)
    # All words match in one chunk: no penalty.
    expected = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    assert meteor("zebra in front of lion", "zebra before lion") == pytest.approx(
        expected, rel=1e-12
    )


def test_the_best_reference_counts(meteor):
    # Worked by hand: "zebra" is 1 of 2 words of the candidate and all of the second reference.
    best = combined(1 / 2, 1, chunks=1, matches=1)
    assert best > meteor("dog zebra", "dog giraffe")
    assert meteor("dog zebra", "dog giraffe", "zebra") == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_corpus_score_pools_statistics(backend):
    # Worked by hand: 1 of 2 and 2 of 3 words of the candidates match, 1 of 2 and 2 of 2 of the
    # references, in one chunk each.
    one = metric(f"meteor(backend={backend})")
    items = [
        {"caption": "dog sleeps", "references": ("dog runs",)},
        {"caption": "dog barks loudly", "references": ("dog barks",)},
    ]
    pooled = combined(3 / 5, 3 / 4, chunks=2, matches=3)
    assert one.corpus_score(items) == pytest.approx(pooled, rel=1e-12)
    assert one.corpus_score([items[0]] * 3) == pytest.approx(one.score(items)[0])
    # Thrice the first: 4 of ... 3 + 2 of 9 and 5 of 8 words, in 4 chunks. A weight says the same.
    thrice = combined(5 / 9, 5 / 8, chunks=4, matches=5)
    assert one.corpus_score([items[0], *items, items[0]]) == pytest.approx(thrice, rel=1e-12)
    weighted = [items[0] | {"weight": 3}, items[1] | {"weight": 1}]
    assert one.corpus_score(weighted) == pytest.approx(thrice, rel=1e-12)
    # Rows whose words all match in one chunk add no chunk: 2 + 2 of 2 + 3 words, 1 chunk.
    whole = {"caption": "dog barks", "references": ("dog barks",)}
    both = combined(4 / 5, 1, chunks=1, matches=4)
    assert one.corpus_score([whole, items[1]]) == pytest.approx(both, rel=1e-12)


def test_no_rows_have_no_corpus_score():
    with says("no items to score"):
        metric("meteor").corpus_score([])


def test_a_candidate_among_its_references_has_the_greatest_score(meteor):
    for text in ["dog", "A man, in a hat.", "Ein Mädchen läuft über die Straße"]:
        assert meteor(text, "two cats", text) == 1.0


def test_empty_texts(meteor):
    assert meteor("", "a dog") == meteor("a dog", "") == meteor("", "") == 0.0
    assert meteor("...", "a dog") == meteor("a dog", "!!!") == 0.0
    assert meteor("🐕", "a dog") == 0.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_bars_of_the_protocol_inside_a_caption(backend):
    rows = [
        {"caption": "a dog ||| a cat", "references": ("a dog ||| a cat", "||| |||")},
        {"caption": "|||", "references": ("a dog",)},
        {"caption": "SCORE ||| EVAL ||| 1.0 2.0", "references": ("EVAL ||| a dog",)},
        {"caption": "a dog", "references": ("a dog",)},
    ]
    scores = metric(f"meteor(backend={backend})").score(rows)
    assert scores[[0, 3]].tolist() == [1.0, 1.0]
    assert scores[1] == 0.0
    assert 0 < scores[2] < 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_rows_than_a_pipe_or_a_chunk_holds(backend, monkeypatch):
    monkeypatch.setattr(meteor_module, "CHUNK", 512)
    monkeypatch.setattr(meteor_align, "_WORDS", 700)
    rows = [{"caption": f"dog {i}", "references": (f"dog {i}",)} for i in range(4000)]
    rows[1234] = {"caption": "dog sleeps", "references": ("dog runs",)}
    scores = metric(f"meteor(backend={backend})").score(rows)
    assert scores[1234] == pytest.approx(0.2)
    scores[1234] = 1.0
    assert (scores == 1.0).all()


def test_statistics_worked_by_hand():
    # Lengths; function words ("the", "is"); exact matches: "red" on both sides, content, and "the",
    # "is", function; stems none; synonyms car = automobile; paraphrases none; one chunk; 4 words.
    found = statistics("the car is red", "the automobile is red")
    assert found.tolist() == [4, 4, 2, 2, 1, 1, 2, 2, *[0] * 4, 1, 1, 0, 0, *[0] * 4, 1, 4, 4]


def test_no_java_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(
        meteor_module, "tokenize_rows", lambda rows: (rows.captions, rows.references)
    )
    metric("meteor").start()
    row = {"caption": "dog sleeps", "references": ("dog runs",)}
    assert metric("meteor").score([row]) == pytest.approx(0.2)


# Words: METEOR's normaliser


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a dog", "a dog"),
        ("  a   dog\t", "a dog"),
        ("it 's the dog's", "it ' s the dog 's"),
        ("t-shirt, x-ray", "t shirt , x ray"),
        ("a-b-c", "a b-c"),  # the second dash has lost its left neighbour to the first
        ("1,000 dogs,cats", "1,000 dogs , cats"),
        ("the u.s. flag", "the us flag"),
        ("e.g. a dog", "eg a dog"),
        ("mr. smith", "mr. smith"),  # before a small letter a full stop stays
        ("no. 5", "no . 5"),
        ("pp. 5", "pp. 5"),  # before a number after some words
        ("the end.", "the end ."),
        ("wait... what", "wait ... what"),
        ("wait....what.", "wait .... what ."),
        ("1990's", "1990 's"),
        ("“quoted” ‘words’", "\" quoted \" ' words '"),
        ("a – b -- c", "a - b - c"),
        ("50%", "50 %"),
        ("a_b/c", "a _ b / c"),
        ("straße 🐕中", "straße 🐕 中"),
        ("a\u2003dog\xa0runs", "a dog runs"),
        ("a|||b", "ab"),
        ("A Dog", "a dog"),
        ("", ""),
        ("\x01", ""),
    ],
)
def test_words(text, words):
    assert words_of(text, meteor_index.index().prefixes) == words.split()


def test_hashes_are_javas():
    # Worked by hand: h = 31 h + c over UTF-16 units, in 32 bits with a sign.
    assert java_hash("") == 0
    assert java_hash("ab") == 97 * 31 + 98
    assert java_hash("netatasata") == java_hash("bamimigene") == 1599209612
    assert java_hash("🐕") == 0xD83D * 31 + 0xDC15


# Laws

TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "the",
            "dog",
            "dogs",
            "runs",
            "running",
            "in",
            "front",
            "of",
            "before",
            "red",
            "car",
            "automobile",
            ".",
        ]
    ),
    max_size=12,
).map(" ".join)


@settings(max_examples=60)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4), st.randoms())
def test_references(caption, references, random):
    """The score is within its bounds, and the best over the references, in whatever order."""
    score = ours(caption, *references)
    assert 0 <= score <= 1
    assert score == max(ours(caption, r) for r in references)
    shuffled = references.copy()
    random.shuffle(shuffled)
    assert ours(caption, *shuffled) == score


@settings(max_examples=60)
@given(TEXTS.filter(bool))
def test_itself(caption):
    assert ours(caption, caption) == 1.0


@settings(max_examples=60)
@given(TEXTS, TEXTS)
def test_a_match_has_two_sides(caption, reference):
    """Words are matched once each, and a chunk needs a match."""
    found = statistics(caption, reference)
    for side in (0, 1):
        matched = found[4 + side : 20 : 2].sum()
        assert matched == found[21 + side] <= found[side]
        assert found[6 + side : 20 : 4].sum() <= found[2 + side]
    assert (found[20] == 0) == (found[21] == 0) == (found[22] == 0)
    assert found[20] <= min(found[21], found[22])


def test_scores_do_not_depend_on_the_company():
    """Alone, in chunks or all at once."""
    texts = ["a dog runs", "the dog ran in front of a car", "", "red red dog", "a a a dog the dog"]
    pairs = [(a, b) for a in texts for b in texts]
    (at_once,) = meteor_module.statistics([a for a, _ in pairs], [(b,) for _, b in pairs])
    assert at_once.tolist() == [statistics(a, b).tolist() for a, b in pairs]


# Long texts


def test_long_captions():
    long = "a very long caption " * 2500
    # "very long" is one chunk, wherever it is found.
    found = statistics("zebra very long dog", long)
    assert found[[0, 1, 20, 21, 22]].tolist() == [4, 10_000, 1, 2, 2]
    assert ours(long, "zebra very long dog") > 0
    assert ours(f"dog {'x' * 100_000}", "dog") > 0


def test_too_many_matches_are_named():
    rows = [
        {"caption": "dog", "references": ("dog",), "item_id": "short"},
        {"caption": "dog " * 4000, "references": ("cat", "dog " * 3000), "item_id": "long"},
    ]
    with says("long: its words match", "8,388,608", "shorten"):
        metric("meteor").score(rows)


# The index, from small sources of our own

PAIRS = [("big dog", "hound"), ("hound", "big dog"), ("hound", "dog")]


@pytest.fixture
def sources(tmp_path):
    """A program and a paraphrase file that hold next to nothing."""
    jar = tmp_path / "small.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("synonym/english.synsets", "car\n7 5\nauto\n5\ngoose\n9\n")
        archive.writestr("synonym/english.exceptions", "goose\ngeese geeses\n")
        archive.writestr("function/english.words", "the\na\n")
        archive.writestr("nonbreaking/english.prefixes", "# titles\nmr\n\npp #NUMERIC_ONLY#\n")
    pairs = tmp_path / "pairs.gz"
    pairs.write_bytes(gzip.compress("".join(f"0.5\n{a}\n{b}\n" for a, b in PAIRS).encode()))
    return jar, pairs


@pytest.fixture
def fresh():
    """Indices that were opened before are forgotten."""
    meteor_index.open_index.cache_clear()
    yield meteor_index.open_index
    meteor_index.open_index.cache_clear()


def contents(index):
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(index).items()}


def test_what_an_index_holds(sources, tmp_path, fresh):
    found = fresh(*sources, tmp_path / "cache")
    # Worked by hand: words in order, and the trie breadth first: big, dog, hound, big dog.
    assert found.words.tolist() == [b"big", b"dog", b"hound"]
    assert found.first_child.tolist() == [1, 4, 5, 5, 5, 5]
    assert found.node_word.tolist() == [-1, 0, 1, 2, 1]
    assert found.used.tolist() == [0, 0, 1, 1, 1]
    assert found.to_first.tolist() == [0, 0, 0, 0, 2, 3]
    assert found.to.tolist() == [4, 2, 3]
    assert found.longest == 2
    assert found.lemmas.tolist() == [b"auto", b"car", b"goose"]
    assert found.lemma_first.tolist() == [0, 1, 3, 4]
    assert found.lemma_sets.tolist() == [5, 5, 7, 9]
    assert found.forms.tolist() == [b"geese", b"geeses"]
    assert found.form_sets.tolist() == [9, 9]
    assert found.function == {"the", "a"}
    assert found.prefixes == {"mr": False, "pp": True}
    assert not found.to.flags.writeable


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
    ],
)
def test_a_damaged_index_is_compiled_again(sources, tmp_path, fresh, harm):
    cache = tmp_path / "cache"
    before = contents(fresh(*sources, cache))
    path = index_file(cache)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(harm(data))
    fresh.cache_clear()
    assert contents(fresh(*sources, cache)) == before
    assert path.read_bytes() == data


def test_other_sources_make_another_index(sources, tmp_path, fresh):
    jar, pairs = sources
    first = fresh(jar, pairs, tmp_path / "cache")
    pairs.write_bytes(gzip.compress(b"0.5\ndog\nhound\n"))
    fresh.cache_clear()
    assert contents(fresh(jar, pairs, tmp_path / "cache")) != contents(first)
    assert len(list((tmp_path / "cache").glob("*.index"))) == 2


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_damaged_sources_are_named(sources, tmp_path, fresh, which, content):
    path = sources[which]
    path.write_bytes(path.read_bytes()[:-12] if content is None else content)
    with says(str(path), "is damaged; pip install --force-reinstall pycocoevalcap"):
        fresh(*sources, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.index"))
    assert not list((tmp_path / "cache").glob(".*.tmp"))


def test_a_cache_that_cannot_be_written_warns(sources, tmp_path, fresh, capsys, monkeypatch):
    (tmp_path / "file").touch()
    expected = contents(fresh(*sources, tmp_path / "cache"))
    assert contents(fresh(*sources, tmp_path / "file" / "cache")) == expected
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("captau: warning: METEOR's index is not kept")
    assert "set cache.root=DIR" in line
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    fresh.cache_clear()
    with says("METEOR's index", "set cache.root=DIR", "meteor(backend=pycocoevalcap)"):
        fresh(*sources, tmp_path / "file" / "cache")


CHILD = """
import sys, time
from pathlib import Path
from captau.metrics.text.meteor import index as meteor_index
trie = meteor_index._trie
def slow(texts):
    print("compiling", flush=True)
    time.sleep(float(sys.argv[4]))
    return trie(texts)
meteor_index._trie = slow
print(len(meteor_index.open_index(*map(Path, sys.argv[1:4])).to), flush=True)
"""


def child(sources, cache: Path, seconds: float):
    command = [sys.executable, "-c", CHILD, *map(str, sources), str(cache), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_compile_once(sources, tmp_path):
    processes = [child(sources, tmp_path / "cache", 0.5) for _ in range(2)]
    said = sorted(process.communicate()[0].split() for process in processes)
    assert said == [["3"], ["compiling", "3"]]
    assert [p.returncode for p in processes] == [0, 0]


def test_a_kill_while_compiling_leaves_nothing_wrong(sources, tmp_path, fresh):
    cache = tmp_path / "cache"
    victim = child(sources, cache, 600)
    assert victim.stdout.readline() == "compiling\n"
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    assert list(cache.glob(".*.tmp"))
    assert not list(cache.glob("*.index"))
    began = time.monotonic()
    assert len(fresh(*sources, cache).to) == len(PAIRS)
    assert time.monotonic() - began < 60, "the lock went with its process"
    assert not list(cache.glob(".*.tmp"))


def test_the_index_is_kept_in_the_cache_folder():
    meteor_index.index()
    assert index_file(cache_folder("meteor")).stat().st_size > 50e6
    assert str(cache_folder()) == os.environ["CAPTAU_CACHE"]
