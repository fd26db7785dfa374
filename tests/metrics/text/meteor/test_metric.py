"""METEOR from the published formula, worked by hand on small captions, and laws that it keeps."""

from __future__ import annotations

import sys
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from captau.metrics.registry import metric
from captau.metrics.text.meteor import alignment
from captau.metrics.text.meteor import metric as meteor_module
from tests.conftest import WITH_JAVA, says

BACKENDS = ["captau", WITH_JAVA]

# The English parameters of METEOR 1.5.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
STEM, SYNONYM, PARAPHRASE = 0.6, 0.8, 0.6


@pytest.fixture(params=BACKENDS)
def meteor(request):
    """Return a function that scores one caption, by each backend."""
    meteor = metric(f"meteor(backend={request.param})")
    return lambda caption, *refs: meteor.score([{"caption": caption, "references": refs}])[0]


def score_tokens(caption: str, *references: str) -> float:
    """Score a caption of tokens by our own METEOR, without the tokeniser."""
    return float(meteor_module.meteor_scores(statistics_of(caption, *references)[None])[0])


def statistics_of(caption: str, *references: str) -> np.ndarray:
    (chunk,) = meteor_module.best_statistics([caption], [references])
    return chunk[0]


def expected_score(precision: float, recall: float, chunks: int, matches: float) -> float:
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


@pytest.mark.parametrize(
    ("caption", "reference", "expected"),
    [
        # Worked by hand, from words that match exactly.
        # "dog": 1 of 2 and 1 of 2 words, in 1 chunk.
        ("dog sleeps", "dog runs", expected_score(1 / 2, 1 / 2, chunks=1, matches=1)),
        # "dog barks": 2 of 3 and 2 of 2 words, in 1 chunk.
        ("dog barks loudly", "dog barks", expected_score(2 / 3, 1, chunks=1, matches=2)),
        # "dog", "runs": 2 of 3 words on both sides, in 2 chunks.
        ("dog big runs", "dog small runs", expected_score(2 / 3, 2 / 3, chunks=2, matches=2)),
        ("cat dog", "dog cat", expected_score(1, 1, chunks=2, matches=2)),
        # A content word counts δ, a function word 1 - δ: "dog" matches and "the" does not.
        (
            "the dog",
            "a dog",
            expected_score(DELTA / (DELTA + 1 - DELTA), DELTA, chunks=1, matches=1),
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
        ("big dog cat", "dog big dog cat", expected_score(1, 3 / 4, chunks=1, matches=3)),
        # "zebra" and "barks" match in turn: 4 of 4 words in 2 chunks, or more if crossed.
        (
            "zebra barks tiger barks",
            "tiger barks zebra barks",
            expected_score(1, 1, chunks=2, matches=4),
        ),
        # "front" matches exactly, which counts more than that "in front of" has the paraphrase "before". 2 of 3 words
        # of the candidate match; of the reference's, "front" and "lion", with "of" between them: 2 chunks.
        (
            "before front lion",
            "in front of lion",
            expected_score(2 / 3, 2 * DELTA / (2 * DELTA + 2 * (1 - DELTA)), chunks=2, matches=2),
        ),
        # "front" and "before" are paraphrases, which count 0.6: 1 of 3 words, and a content word beside "in".
        (
            "red fronts front",
            "in before",
            expected_score(0.6 / 3, 0.6 * DELTA, chunks=1, matches=1),
        ),
        # The second "front", which follows "red" as "before" does.
        ("red before", "front red front", expected_score(1.6 / 2, 1.6 / 3, chunks=1, matches=2)),
        # The first "front" makes a second chunk, with a stem that counts 0.6.
        (
            "of red front in front",
            "in fronts front",
            expected_score(1.45 / 2.75, 1.45 / 1.75, chunks=2, matches=3),
        ),
        # The last "front" stays alone: the first two words make one chunk.
        ("front runs", "front runs front", expected_score(1, 2 / 3, chunks=1, matches=2)),
        # "fronts" matches by itself: the Java program prefers it to "fronts in" as a paraphrase of "fronts of".
        ("in fronts in", "fronts of of", expected_score(0.6, 0.6, chunks=1, matches=1)),
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
    best = expected_score(1 / 2, 1, chunks=1, matches=1)
    assert best > meteor("dog zebra", "dog giraffe")
    assert meteor("dog zebra", "dog giraffe", "zebra") == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_corpus_score_pools_statistics(backend):
    # Worked by hand: 1 of 2 and 2 of 3 words of the candidates match, 1 of 2 and 2 of 2 of the
    # references, in one chunk each.
    meteor = metric(f"meteor(backend={backend})")
    items = [
        {"caption": "dog sleeps", "references": ("dog runs",)},
        {"caption": "dog barks loudly", "references": ("dog barks",)},
    ]
    pooled = expected_score(3 / 5, 3 / 4, chunks=2, matches=3)
    assert meteor.corpus_score(items) == pytest.approx(pooled, rel=1e-12)
    assert meteor.corpus_score([items[0]] * 3) == pytest.approx(meteor.score(items)[0])
    # Thrice the first: 4 of ... 3 + 2 of 9 and 5 of 8 words, in 4 chunks. A weight says the same.
    tripled = expected_score(5 / 9, 5 / 8, chunks=4, matches=5)
    assert meteor.corpus_score([items[0], *items, items[0]]) == pytest.approx(tripled, rel=1e-12)
    weighted = [items[0] | {"weight": 3}, items[1] | {"weight": 1}]
    assert meteor.corpus_score(weighted) == pytest.approx(tripled, rel=1e-12)
    # Rows whose words all match in one chunk add no chunk: 2 + 2 of 2 + 3 words, 1 chunk.
    exact_match = {"caption": "dog barks", "references": ("dog barks",)}
    joint_score = expected_score(4 / 5, 1, chunks=1, matches=4)
    assert meteor.corpus_score([exact_match, items[1]]) == pytest.approx(joint_score, rel=1e-12)
    scores = meteor.score(items)
    summands = meteor.corpus_summands(items, scores)
    resampler = meteor.corpus_resampler(items, scores)
    if backend == "captau":
        sums = summands.sum(axis=0)
        assert meteor.corpus_score_from_sums(sums) == pytest.approx(pooled, rel=1e-12)
        weights = np.array([[1.0, 3.0], [1.0, 1.0]])
        assert resampler(weights) == pytest.approx([pooled, tripled], rel=1e-12)
    else:
        assert summands is resampler is None


def test_the_tables_are_a_program_that_scores_depend_on():
    (program,) = metric("meteor").programs
    assert program.startswith("pycocoevalcap:")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with says("metric meteor needs numba", "captau[meteor]"):
        metric("meteor").score([{"caption": "dog", "references": ("dog",)}])


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
    monkeypatch.setattr(alignment, "CHUNK", 512)
    monkeypatch.setattr(alignment, "_MAX_WORDS", 700)
    rows = [{"caption": f"dog {i}", "references": (f"dog {i}",)} for i in range(4000)]
    rows[1234] = {"caption": "dog sleeps", "references": ("dog runs",)}
    scores = metric(f"meteor(backend={backend})").score(rows)
    assert scores[1234] == pytest.approx(0.2)
    scores[1234] = 1.0
    assert (scores == 1.0).all()


def test_statistics_worked_by_hand():
    # Lengths; function words ("the", "is"); exact matches: "red" on both sides, content, and "the",
    # "is", function; stems none; synonyms car = automobile; paraphrases none; one chunk; 4 words.
    statistics = statistics_of("the car is red", "the automobile is red")
    assert statistics.tolist() == [4, 4, 2, 2, 1, 1, 2, 2, *[0] * 4, 1, 1, 0, 0, *[0] * 4, 1, 4, 4]


def test_no_java_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("CAPTAU_JAVA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(
        meteor_module, "tokenize_rows", lambda rows, _: (rows.captions, rows.references)
    )
    metric("meteor").start()
    row = {"caption": "dog sleeps", "references": ("dog runs",)}
    assert metric("meteor").score([row]) == pytest.approx(0.2)
    assert metric("meteor").corpus_score([row]) == pytest.approx(0.2)


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
    score = score_tokens(caption, *references)
    assert 0 <= score <= 1
    assert score == max(score_tokens(caption, r) for r in references)
    shuffled = references.copy()
    random.shuffle(shuffled)
    assert score_tokens(caption, *shuffled) == score


@settings(max_examples=60)
@given(TEXTS.filter(bool))
def test_itself(caption):
    assert score_tokens(caption, caption) == 1.0


@settings(max_examples=60)
@given(TEXTS, TEXTS)
@example("before front", "in front of")
@example("in front of", "front before")
def test_a_match_has_two_sides(caption, reference):
    """Words are matched once each, and a chunk needs a match."""
    statistics = statistics_of(caption, reference)
    for side in (0, 1):
        matched = statistics[4 + side : 20 : 2].sum()
        assert matched == statistics[21 + side] <= statistics[side]
        assert statistics[6 + side : 20 : 4].sum() <= statistics[2 + side]
    assert (statistics[20] == 0) == (statistics[21] == 0) == (statistics[22] == 0)
    assert statistics[20] <= min(statistics[21], statistics[22])


def search_alignments(
    candidate: list[str], reference: list[str], free: frozenset[int], last: int = -9
) -> tuple[int, int]:
    """Try every alignment: the most words that match, negative, and then the fewest chunks of so many."""
    if not candidate:
        return 0, 0
    word, *rest = candidate
    options = [search_alignments(rest, reference, free)]
    for place in free:
        if reference[place] == word:
            matches, chunks = search_alignments(rest, reference, free - {place}, place)
            options.append((matches - 1, chunks + (place != last + 1)))
    return min(options)


#: For six words METEOR's search, which keeps a limited number of alignments, may miss the fewest chunks.
NONSENSE = st.lists(st.sampled_from(["vrax", "yont", "blorf"]), min_size=1, max_size=5)


@settings(max_examples=100)
@given(NONSENSE, NONSENSE)
def test_as_many_words_match_as_can_in_as_few_chunks_as_can(candidate, reference):
    """As Denkowski and Lavie 2014 choose an alignment; all 131,769 pairs of such texts were tried once."""
    matches, chunks = search_alignments(candidate, reference, frozenset(range(len(reference))))
    statistics = statistics_of(" ".join(candidate), " ".join(reference))
    assert statistics[[20, 21, 22]].tolist() == [chunks, -matches, -matches]


def test_scores_do_not_depend_on_the_company():
    """Alone, in chunks or all at once."""
    texts = ["a dog runs", "the dog ran in front of a car", "", "red red dog", "a a a dog the dog"]
    pairs = [(a, b) for a in texts for b in texts]
    (at_once,) = meteor_module.best_statistics([a for a, _ in pairs], [(b,) for _, b in pairs])
    assert at_once.tolist() == [statistics_of(a, b).tolist() for a, b in pairs]


# Long texts


def test_long_captions():
    long = "a very long caption " * 2500
    # "very long" is one chunk, wherever it is statistics.
    statistics = statistics_of("zebra very long dog", long)
    assert statistics[[0, 1, 20, 21, 22]].tolist() == [4, 10_000, 1, 2, 2]
    assert score_tokens(long, "zebra very long dog") > 0
    assert score_tokens(f"dog {'x' * 100_000}", "dog") > 0


def test_as_many_matches_as_are_allowed_are_aligned(monkeypatch):
    row = {"caption": "dog dog", "references": ("dog dog dog",), "item_id": "x"}
    expected = metric("meteor").score([row])
    monkeypatch.setattr(alignment, "MAX_MATCHES", 6)
    assert metric("meteor").score([row]) == expected
    monkeypatch.setattr(alignment, "MAX_MATCHES", 5)
    with says("x: its words match"):
        metric("meteor").score([row])


def test_too_many_matches_are_named():
    rows = [
        {"caption": "dog", "references": ("dog",), "item_id": "short"},
        {"caption": "dog " * 4000, "references": ("cat", "dog " * 3000), "item_id": "long"},
    ]
    with says("long: its words match", "8,388,608", "shorten"):
        metric("meteor").score(rows)


@pytest.mark.parametrize(
    ("caption", "reference", "expected"),
    [
        # "autos" and "cars" are the plurals of synonyms; "pass" is no plural of "pas", a step of a dance.
        ("autos", "cars", SYNONYM),
        ("couches", "sofas", SYNONYM),
        ("pass", "pas", 0.0),
        # Matched in one chunk, as the last "big dog", or in two with words that lie closer: one chunk wins, though
        # the second chunk is still open where the words end.
        (
            "blorf snarp quim drell big dog",
            "big vrax big dog yont dog",
            expected_score(2 / 6, 2 / 6, chunks=1, matches=2),
        ),
    ],
)
def test_alignments_worked_by_hand(caption, reference, expected):
    assert score_tokens(caption, reference) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("exponent", [0.2, 1.0, 1.3, 1.4])  # the languages' β
def test_powers_are_rounded_to_the_nearest(exponent):
    """All ratios of up to 60 chunks to words, and others, beside the same with 60 digits."""
    ratios = np.array([a / b for b in range(1, 61) for a in range(61)] + [0.0, 5e-324, np.nan])
    ratios = np.unique(np.append(ratios, np.random.default_rng(0).random(5000)))
    context = Context(prec=60)
    expected = [
        float(context.power(Decimal(ratio), Decimal(exponent))) if ratio > 0 else ratio
        for ratio in ratios.tolist()
    ]
    powers = meteor_module.rounded_powers(ratios, exponent)
    np.testing.assert_array_equal(powers, expected)


@pytest.mark.parametrize(
    ("ratio", "power"),
    [
        # √(1 + 3·2⁻⁵²) is 1 + 1.5·2⁻⁵² less 9/8·2⁻¹⁰⁴, just below the middle between two doubles.
        (1 + 3 * 2**-52, 1 + 2**-52),
        # √(1 - 2⁻⁵³) is 1 - 2⁻⁵⁴ less 2⁻¹⁰⁹, just below the middle before a power of two.
        (1 - 2**-53, 1 - 2**-53),
    ],
)
def test_a_power_next_to_the_middle_between_two_doubles(ratio, power):
    """Long doubles hold the middle itself, which would be rounded up, to the even neighbour."""
    assert meteor_module.rounded_powers(np.array([ratio]), 0.5).tolist() == [power]


def test_chunks_of_two_rows_give_the_same_statistics(monkeypatch):
    words = ("dog", "cat", "cow", "fox", "hen")
    rows = [(f"a {w} runs", ("a bird flies", f"the {w} runs fast")) for w in words]
    rows[3] = ("a fox", ("a fox",))
    texts, references = zip(*rows, strict=True)
    whole = np.concatenate(list(meteor_module.best_statistics(texts, references)))
    monkeypatch.setattr(alignment, "CHUNK", 2)
    chunks = list(meteor_module.best_statistics(texts, references))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(chunks), whole)


def test_what_meteor_says_of_itself(tmp_path):
    scorer = metric("meteor")
    assert scorer.bounds == (0.0, 1.0)
    assert scorer.takes_longest
    assert scorer.depends_only_on_content
    assert scorer.file_fields == ("paraphrases",)
    assert scorer.later_fields == ("tokenize", "language", "paraphrases")
    assert scorer.distributions == ("captau", "snowballstemmer")
    assert scorer.parameters == {
        **{"tokenize": "ptb", "backend": "captau", "language": "auto", "paraphrases": None},
    }
    assert not metric("bleu_4").takes_longest


@pytest.mark.parametrize(
    ("parameters", "language", "is_normalised"),
    [
        ("", "english", True),
        ("(language=en)", "english", True),
        ("(tokenize=intl)", "english", False),
        ("(tokenize=zh)", "other", False),
        ("(tokenize=char,language=en)", "english", False),
        ("(tokenize=intl,language=de)", "german", False),
        ("(tokenize=intl,language=other)", "other", False),
    ],
)
def test_the_setting_of_a_language(parameters, language, is_normalised):
    setting = metric(f"meteor{parameters}").setting
    assert (setting.language.name, setting.is_normalised) == (language, is_normalised)
    assert setting.paraphrases is None


def test_texts_that_match_in_one_chunk():
    rows = np.zeros((6, 23), int)
    rows[:, [0, 1, 20]] = [3, 4, 1]
    for column, count in ((4, 1), (10, 1), (18, 1), (5, 2), (11, 1), (19, 1)):
        rows[:, column] = count
    rows[1, 20], rows[2, 20], rows[3, 0], rows[4, 1], rows[5, 13] = 2, 0, 4, 3, 1
    assert meteor_module.match_in_one_chunk(rows).tolist() == [True, *[False] * 5]


@pytest.mark.parametrize("code", ["en", "de", "fr", "ru"])
def test_scores_follow_from_statistics(code):
    """The formula by plain numbers, on statistics in which each column differs."""
    language = meteor_module.LANGUAGES[code]
    row = [40, 50, 18, 23, 2, 3, 4, 5, 1, 2, 3, 1, 2, 4, 1, 2, 3, 2, 1, 4, 7, 17, 23]
    sides = []
    for side in (0, 1):
        weighted = sum(
            weight
            * (
                language.delta * row[4 + 4 * m + side]
                + (1 - language.delta) * row[6 + 4 * m + side]
            )
            for m, weight in enumerate(language.weights)
        )
        words, function = row[side], row[2 + side]
        sides.append(
            weighted / (language.delta * (words - function) + (1 - language.delta) * function)
        )
    precision, recall = sides
    mean = 1 / ((1 - language.alpha) / precision + language.alpha / recall)
    expected = mean * (1 - language.gamma * (7 / 20) ** language.beta)
    nothing = [5, 5, *[0] * 21]
    scores = meteor_module.meteor_scores(np.array([row, nothing]), language)
    assert scores.tolist() == [pytest.approx(expected, rel=1e-13), 0.0]


def test_a_very_long_caption_is_said_to_take_long(caplog: pytest.LogCaptureFixture):
    """Before the work begins, and of captions as long as that alone."""
    for n_words, n_lines in ((4_999, 0), (5_000, 1)):
        text = " ".join(f"w{number}" for number in range(n_words))
        assert metric("meteor").score([{"caption": text, "references": ["a dog"]}]) == 0
        assert len(caplog.records) == n_lines
    assert caplog.messages[0].startswith("metric meteor: a caption has 5,000 words;")
