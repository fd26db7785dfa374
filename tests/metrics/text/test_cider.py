"""CIDEr against values worked by hand (Vedantam et al. 2015; Chen et al. 2015, section 3.6)."""

from __future__ import annotations

import json
import math
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.datasets.errors import InputError
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from captau.metrics.text.cider import (
    Cider,
    DocumentFrequencies,
    NgramIdf,
    ReferenceCorpus,
    count_documents,
    document_frequencies,
)
from captau.metrics.text.tokens import ptb
from captau.metrics.text.tokens.corpus import Corpus
from tests.conftest import WITH_JAVA, says

POOL = [
    "",
    "a dog",
    "a dog runs",
    "a dog sleeps",
    "a cat sleeps on the grass",
    "a dog runs on the grass and a cat runs on the grass",
    "dog dog dog",
    "zebras graze",
]
IN_JAVA = pytest.param("cider(backend=pycocoevalcap)", marks=pytest.mark.java)
SPECS = pytest.mark.parametrize("spec", ["cider", "cider(variant=plain)", IN_JAVA])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "caption": st.sampled_from(POOL),
            "references": st.lists(st.sampled_from(POOL), min_size=1, max_size=3).map(tuple),
            "weight": st.integers(1, 4),
        }
    ),
    min_size=1,
    max_size=6,
)


def row(caption: str, *references: str) -> dict[str, object]:
    return {"caption": caption, "references": references}


@pytest.fixture(scope="module", autouse=True)
def _tokenised_once():
    ptb.tokenize(POOL)


def test_the_reference_itself_reaches_the_upper_bound():
    rows = [row(text, text) for text in ("a dog runs fast", "two cats sleep there")]
    assert metric("cider").score(rows) == pytest.approx([metric("cider").bounds[1]] * 2)


@SPECS
def test_two_images(spec):
    # Worked by hand. With two documents an n-gram of one weighs log 2 and "a", in both, nothing;
    # log 2 cancels in the cosine. First image: 1 of 2 weighing words ("dog"), 1 of 2 bigrams
    # ("a dog"), no trigram, no 4-gram. Second image: all of its words, bigrams and trigrams, and no
    # 4-gram to match.
    rows = [row("a dog sleeps", "a dog runs"), row("a cat sleeps", "a cat sleeps")]
    expected = [10 * (1 / 2 + 1 / 2 + 0 + 0) / 4, 10 * (1 + 1 + 1 + 0) / 4]
    # "sleeps" of the first candidate is known from the second image alone.
    np.testing.assert_allclose(metric(spec).score(rows), expected, rtol=1e-12)
    assert metric(spec).corpus_score(rows) == pytest.approx(sum(expected) / 2, rel=1e-12)


@SPECS
def test_three_images_by_logarithms(spec):
    # Worked by hand. Of three documents "a" is in all: 0; "dog" and "sleeps" and "a dog" are in
    # two: x = log 3/2; all else is in one: y = log 3.
    rows = [
        row("a dog sleeps", "a dog runs"),
        row("a dog sleeps", "a dog sleeps"),
        row("a cat sleeps", "a cat sleeps"),
    ]
    x, y = log(3 / 2), log(3)
    # Candidate (dog x, sleeps x) on reference (dog x, runs y).
    unigrams = x * x / (sqrt(2) * x * sqrt(x * x + y * y))
    # Candidate (a dog x, dog sleeps y) on reference (a dog x, dog runs y).
    bigrams = x * x / (x * x + y * y)
    expected = [10 * (unigrams + bigrams) / 4, 7.5, 7.5]
    np.testing.assert_allclose(metric(spec).score(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["captau", WITH_JAVA])
def test_d_clips_counts_and_punishes_length(backend):
    # Worked by hand; every n-gram is in one of two documents, and log 2 cancels. Candidate (dog 2,
    # runs 1), (dog dog 1, dog runs 1); reference (dog 1, runs 1), (dog runs 1). The candidate has
    # one bigram more, which is what pycocoevalcap calls its length.
    rows = [row("dog dog runs", "dog runs"), row("cat sleeps", "cat sleeps")]
    plain = 10 * (3 / (sqrt(5) * sqrt(2)) + 1 / sqrt(2)) / 4
    clipped = 10 * (2 / (sqrt(5) * sqrt(2)) + 1 / sqrt(2)) / 4
    penalty = math.exp(-1 / (2 * 6**2))
    assert metric("cider(variant=plain)").score(rows)[0] == pytest.approx(plain, rel=1e-12)
    assert metric("cider").score(rows)[0] == pytest.approx(clipped * penalty, rel=1e-12)
    narrow = clipped * math.exp(-1 / (2 * 0.5**2))
    spec = f"cider(sigma=0.5,backend={backend})"
    assert metric(spec).score(rows)[0] == pytest.approx(narrow, rel=1e-12)


def test_references_are_averaged():
    # Worked by hand: the first reference matches in full (2 of 4 orders), the second in nothing.
    rows = [row("dog runs", "dog runs", "zebras graze"), row("cat sleeps", "cat sleeps")]
    assert metric("cider").score(rows)[0] == pytest.approx(10 * (1 + 1) / 4 / 2, rel=1e-12)


def test_an_unknown_n_gram_weighs_most():
    # Worked by hand: "zebras", in no document, weighs log 2 as if it were in one.
    rows = [row("dog zebras", "dog"), row("cat", "cat")]
    assert metric("cider").score(rows)[0] == pytest.approx(
        10 * (1 / sqrt(2)) / 4 * math.exp(-1 / 72), rel=1e-12
    )


@SPECS
def test_empty_texts(spec):
    rows = [row("", "a dog"), row("a dog", ""), row("", ""), row("a cat", "a cat")]
    np.testing.assert_array_equal(metric(spec).score(rows)[:3], metric(spec).bounds[0])


def test_references_without_a_word():
    """pycocoevalcap's own class stops here."""
    assert metric("cider").score([row("", ""), row("a dog", "")]).tolist() == [0, 0]


def test_a_single_image_needs_document_frequencies(tmp_path):
    # One document: every n-gram is in it, log 1 is 0.
    one = [row("a dog runs", "a dog runs")]
    assert metric("cider").score(one) == [0.0]
    path = tmp_path / "df.json"
    document_frequencies([("a dog runs",), ("a cat sleeps",)]).write(path)
    # Worked by hand: identical to its reference, without a 4-gram.
    assert metric(f"cider(df={path})").score(one) == pytest.approx(7.5, rel=1e-12)
    assert metric(f"cider(df={path},variant=plain)").score(one) == pytest.approx(7.5, rel=1e-12)


def test_document_frequencies_worked_by_hand():
    frequencies = document_frequencies([("A dog.", "a dog runs"), ("a cat",)])
    assert frequencies.documents == 2
    assert frequencies.counts == {
        ("a",): 2,
        ("dog",): 1,
        ("a", "dog"): 1,
        ("runs",): 1,
        ("dog", "runs"): 1,
        ("a", "dog", "runs"): 1,
        ("cat",): 1,
        ("a", "cat"): 1,
    }


def test_document_frequencies_survive_a_file(tmp_path):
    frequencies = document_frequencies(
        [("Ein Mädchen läuft 🐕", '"quoted" a \u2028 b'), ("", "a"), ("狗 a",)]
    )
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    frequencies.write(one)
    assert DocumentFrequencies.read(one) == frequencies
    turned = dict(reversed(frequencies.counts.items()))
    DocumentFrequencies(frequencies.documents, turned).write(other)
    assert one.read_bytes() == other.read_bytes()
    assert "tokenize" not in json.loads(one.read_bytes())  # as in files of earlier versions
    chinese = document_frequencies([("狗跑",)], "zh")
    chinese.write(one)
    assert DocumentFrequencies.read(one) == chinese


def test_prepared_references_are_the_documents_unless_a_file_is(tmp_path):
    rows = [row(POOL[i], *POOL[i + 1 : i + 3]) for i in range(6)]
    path = tmp_path / "df.json"
    document_frequencies([("a dog runs",), ("a cat sleeps",), ("a dog",)]).write(path)
    document_frequencies([("a dog runs",), ("zebras graze",)]).write(tmp_path / "other.json")
    shared = Rows.from_items(rows)  # whose metrics share frequencies, if they are the same
    for spec in ("cider", f"cider(df={path})", f"cider(df={tmp_path / 'other.json'})"):
        np.testing.assert_array_equal(metric(spec).score(shared), metric(spec).score(rows))
        score = metric(spec).prepare_references([r["references"] for r in rows])
        scores = score([r["caption"] for r in rows], np.arange(6))
        np.testing.assert_allclose(scores, metric(spec).score(rows), rtol=1e-12)


def test_tokenisers_share_no_frequencies():
    rows = [row("狗跑 猫", "狗跑", "猫跑"), row("猫 跑", "猫 跑")]
    shared = Rows.from_items(rows)
    for spec in ("cider", "cider(tokenize=intl)", "cider(tokenize=zh)"):
        np.testing.assert_array_equal(metric(spec).score(shared), metric(spec).score(rows))


@pytest.mark.parametrize("variant", ["d", "plain"])
def test_document_frequencies_of_the_scored_rows_change_nothing(variant, tmp_path):
    rows = [row(POOL[i], *POOL[i + 1 : i + 3]) for i in range(6)]
    path = tmp_path / "df.json"
    document_frequencies([r["references"] for r in rows]).write(path)
    without = metric(f"cider(variant={variant})").score(rows)
    assert without.max() > 0
    np.testing.assert_array_equal(
        metric(f"cider(variant={variant},df={path})").score(rows), without
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("", "not valid JSON"),
        ('{"format": "captau document fr', "not valid JSON"),
        ("[]", "not a document-frequency file; make one with captau score"),
        (json.dumps({"documents": 1, "counts": {}}), "not a document-frequency file"),
    ],
)
def test_a_file_that_holds_no_document_frequencies(content, message, tmp_path):
    path = tmp_path / "df.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=rf"df\.json.*{message}"):
        metric(f"cider(df={path})").score([row("a dog", "a dog")])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("backend=pycocoevalcap,variant=plain", "supports neither variant=plain nor df"),
        ("backend=pycocoevalcap,df=x.json", "supports neither variant=plain nor df"),
        ("sigma=0", "sigma is 0, not above 0"),
        ("sigma=-6", "sigma is -6, not above 0"),
    ],
)
def test_parameters_that_do_not_go_together(parameters, message):
    with pytest.raises(InputError, match=message):
        metric(f"cider({parameters})")


@SPECS
def test_a_row_of_weight_three_counts_as_three_rows(spec):
    dog, cat = row("a dog sleeps", "a dog runs"), row("a cat sleeps", "a cat sleeps")
    copies = metric(spec).score([dog, dog, dog, cat])
    weighted = metric(spec).score([{**dog, "weight": 3}, {**cat, "weight": 1}])
    np.testing.assert_allclose(weighted, copies[[0, 3]], rtol=1e-12)
    alone = metric(spec).score([dog, cat])
    assert abs(weighted[0] - alone[0]) > 0.01
    # Worked by hand: of 4 documents dog, runs are in 3, x = log 4/3; cat, sleeps in 1, y = log 4.
    # Words: (dog x, sleeps y) on (dog x, runs x); bigrams: (a dog x, dog sleeps y) likewise.
    x, y = log(4 / 3), log(4)
    cosine = x * x / (sqrt(x * x + y * y) * sqrt(2) * x)
    # The candidate's own "dog sleeps" is in no document: y as well.
    assert weighted[0] == pytest.approx(10 * 2 * cosine / 4, rel=1e-12)


@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_laws(rows, order):
    for spec in ["cider", "cider(variant=plain)"]:
        scores = metric(spec).score(rows)
        turned = list(range(len(rows)))
        order.shuffle(turned)
        permuted = metric(spec).score([rows[i] for i in turned])
        np.testing.assert_allclose(permuted, scores[turned], rtol=1e-9, atol=1e-12)
        copies = metric(spec).score([{**r, "weight": 1} for r in rows for _ in range(r["weight"])])
        firsts = np.cumsum([r["weight"] for r in rows]) - 1
        np.testing.assert_allclose(copies[firsts], scores, rtol=1e-9, atol=1e-12)
    assert np.all(metric("cider").score(rows) <= metric("cider(variant=plain)").score(rows) + 1e-9)


@pytest.mark.java
@given(rows=ROWS)
def test_both_backends_agree(rows):
    if all(not any(r["references"]) for r in rows):
        return  # pycocoevalcap stops where no reference has a word
    np.testing.assert_allclose(
        metric("cider(backend=pycocoevalcap)").score(rows),
        metric("cider").score(rows),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("documents", "count", "message"),
    [
        ("-3", "1", "'documents' is -3; at least 1 is expected"),
        ("0", "1", "'documents' is 0; at least 1 is expected"),
        ("true", "1", "'documents' is True, not int"),
        ("2.0", "1", "'documents' is 2.0, not int"),
        ("9", '"x"', "the count of 'a dog' is 'x', not a whole number"),
        ("9", "NaN", "the count of 'a dog' is nan"),
        ("9", "1.5", r"the count of 'a dog' is 1\.5"),
        ("9", "true", "the count of 'a dog' is True"),
        ("9", "0", "the count of 'a dog' is 0"),
        ("1", "50", "the count of 'a dog' is 50, not a whole number from 1 to the 1 documents"),
    ],
)
def test_document_frequencies_that_cannot_be(documents, count, message, tmp_path):
    path = tmp_path / "df.json"
    path.write_text(
        f'{{"format": "captau document frequencies 1", "documents": {documents}, '
        f'"counts": {{"a": 1, "a dog": {count}}}}}'
    )
    with pytest.raises(InputError, match=rf"df\.json: {message}"):
        DocumentFrequencies.read(path)


def test_what_cider_says_of_itself(tmp_path):
    scorer = metric("cider")
    assert scorer.bounds == (0.0, 10.0)
    assert scorer.depends_on_corpus
    assert scorer.file_fields == ("df",)
    assert scorer.later_fields == ("tokenize",)
    assert scorer.parameters == {
        **{"tokenize": "ptb", "variant": "d", "sigma": 6.0, "df": None, "backend": "captau"},
    }
    keys = {"cider": "df", "cider(tokenize=zh)": "df[zh]", "cider(df=x)": "df x"}
    keys["cider(df=x,tokenize=zh)"] = "df[zh] x"
    assert {spec: metric(spec).frequencies_key for spec in keys} == keys


def test_the_class_that_is_wrapped_scores_weighted_rows_alike():
    """Words that a blank parts need no Java."""
    rows = [
        {"caption": "a dog runs", "references": ["a dog sits", "the dog runs"], "weight": 2},
        {"caption": "a cat", "references": ["cats sleep on a sofa"], "weight": 1},
        {"caption": "zebras graze there", "references": ["zebras graze"], "weight": 3},
    ]
    theirs = Cider(tokenize="intl", backend="pycocoevalcap").compute(Rows.from_items(rows))
    ours = Cider(tokenize="intl").compute(Rows.from_items(rows))
    np.testing.assert_allclose(theirs, ours, rtol=1e-12)
    assert ours[0] > 0
    narrow = {"tokenize": "intl", "sigma": 0.7}
    theirs = Cider(**narrow, backend="pycocoevalcap").compute(Rows.from_items(rows))
    np.testing.assert_allclose(theirs, Cider(**narrow).compute(Rows.from_items(rows)), rtol=1e-12)
    with says(
        "metric cider(tokenize=intl,backend=pycocoevalcap): scores would depend on the batch"
    ):
        Cider(tokenize="intl", backend="pycocoevalcap").prepare_references([("a",)])


def test_weights_of_n_grams():
    """Worked by hand: log 8 less log of the documents, 1 at least; new ones are numbered behind."""
    idf = NgramIdf(math.log(8), [np.array([1.0, 2.0, 0.0]), np.array([])])
    assert idf(np.array([0, 1, 2]), 1).tolist() == [log(8), log(8) - log(2), log(8)]
    assert idf(np.array([], int), 2).tolist() == []
    new = [np.array([4.0, 0.0]), np.array([8.0])]
    idf = NgramIdf(math.log(8), [np.array([1.0, 2.0, 0.0]), np.array([])], new)
    assert idf(np.array([4, 1, 3]), 1).tolist() == [log(8), log(8) - log(2), log(8) - log(4)]
    assert idf(np.array([0]), 2).tolist() == [0]


def test_documents_are_counted_by_weight_in_any_chunks(cut_into_chunks):
    references = [("a b", "a"), ("b a b",), ("a b", "a"), ("",)]
    corpus = Corpus.tokenize([""] * 4, references)
    for words in (1, 3, 100):
        cut_into_chunks(words)
        counts = count_documents(corpus, np.array([1.0, 5.0, 2.0, 9.0]))
        by_ngram = {
            ngram: count
            for n, values in enumerate(counts, 1)
            for ngram, count in zip(corpus.ngrams(n), values.tolist(), strict=True)
        }
        assert by_ngram == {
            **{("a",): 8, ("b",): 8, ("a", "b"): 8, ("b", "a"): 5, ("b", "a", "b"): 5},
        }
        assert len(counts) == 4


@pytest.mark.parametrize("orders", [1, 2, 3, 4])
def test_captions_beside_references_have_the_n_grams_of_a_whole_corpus(orders):
    """Shared n-grams have the references' numbers, new ones those behind, each spelt as it is."""
    references = [("a dog runs fast", "the dog"), ("a cat sleeps",), ("dog",)]
    captions = ["the dog runs fast", "a bird runs a bird", "", "a cat"]
    prepared = ReferenceCorpus(references, orders)
    batch = prepared.set_captions(captions, np.array([2, 0, 0, 1]))
    corpus = batch.corpus
    assert len(batch.new_ngrams) == orders
    for n in range(1, orders + 1):
        names = [*prepared.corpus.ngrams(n), *batch.new_ngrams[n - 1]]
        assert len(set(names)) == len(names) == len(corpus.grams(n).distinct)
        found = [names[i] if i >= 0 else None for i in corpus.grams(n).ngram_at.tolist()]
        texts = ["a dog runs fast", "the dog", "a cat sleeps", "dog", *captions]
        lines = [text.split() for text in texts]
        assert found == [
            tuple(line[i : i + n]) if i + n <= len(line) else None
            for line in lines
            for i in range(len(line))
        ]
    assert corpus.sets.tolist() == [2, 0, 0, 1]
    assert corpus.candidates.tolist() == [4, 5, 6, 7]
    empty = ReferenceCorpus([("",)], orders).set_captions(["a dog", "a"], np.array([0, 0]))
    assert empty.new_ngrams == [[("a",), ("dog",)], [("a", "dog")], [], []][:orders]


def test_the_file_of_frequencies_as_it_is_written(tmp_path):
    document_frequencies([("a b",), ("a é",)]).write(tmp_path / "df.json")
    assert (tmp_path / "df.json").read_text(encoding="utf-8") == (
        '{\n"format": "captau document frequencies 1",\n"documents": 2,\n"counts": {\n"a": 2,\n"a b": 1,\n"a é": 1,\n'
        '"b": 1,\n"é": 1\n}\n}'
    )
    DocumentFrequencies(3, {("x",): 3}, "zh").write(tmp_path / "df.json")
    assert (tmp_path / "df.json").read_text(encoding="utf-8") == (
        '{\n"format": "captau document frequencies 1",\n"tokenize": "zh",\n"documents": 3,\n"counts": {\n"x": 3\n}\n}'
    )
