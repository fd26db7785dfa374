"""`Protocol`: what it accepts, which items it selects, and which data points it makes of them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captau.benchmarks.evaluation.wording import dataset_notes
from captau.benchmarks.scoring.catalog import resolve_metrics
from captau.benchmarks.scoring.protocol import Protocol, sign
from captau.benchmarks.scoring.protocol_choice import Choice
from captau.datasets.caption_texts import find_own_references
from captau.datasets.preferences import make_preferences
from captau.datasets.schema import CaptionSet, Card, Scale, make_items
from tests.conftest import says

USUAL: dict[str, Any] = {
    "name": "usual",
    "dimension": "overall",
    "ratings": "per_rating",
    "references": "all",
    "k": None,
    "corpus": "dataset",
    "systems": None,
    "split": None,
    "coefficients": ["tau_c", "tau_b"],
    "undefined": "nan",
    "level": "pooled",
    "own_references": "keep",
}
SCALES = {"overall": Scale(1, 5), "wit": Scale(0, 1)}
CARD = Card("toy", "Toy", "1", "", "", "", scales=SCALES)


def resolve(**changes: Any) -> Protocol:
    return Protocol.resolve("toy", USUAL, changes)


def test_the_usual_protocol() -> None:
    assert resolve() == Protocol(
        name="usual",
        dimension=("overall",),
        ratings="per_rating",
        references="all",
        k=None,
        corpus="dataset",
        systems=None,
        split=None,
        coefficients=("tau_c", "tau_b"),
        undefined="nan",
        level="pooled",
    )
    # None means unchanged, and so does what the usual protocol says anyway.
    assert resolve(**dict.fromkeys(USUAL)) == resolve()
    assert resolve(**{**USUAL, "dimension": ["overall"]}) == resolve()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ratings": "mean"}, "usual ratings=mean"),
        ({"references": "first_k", "k": 3}, "usual references=first_k k=3"),
        ({"dimension": ["wit", "overall"]}, "usual dimension=[wit,overall]"),
        ({"dimension": "wit"}, "usual dimension=[wit]"),
        ({"systems": "S1"}, "usual systems=[S1]"),
        ({"systems": ["S1", "S2"], "split": "dev"}, "usual systems=[S1,S2] split=dev"),
        ({"coefficients": "spearman"}, "usual coefficients=[spearman]"),
        ({"coefficients": ["tau_b", "tau_c"]}, "usual coefficients=[tau_b,tau_c]"),
        ({"undefined": "drop", "corpus": "per_system"}, "usual corpus=per_system undefined=drop"),
        ({"level": "by_image"}, "usual level=by_image"),
        ({"own_references": "drop"}, "usual own_references=drop"),
        ({"name": "mine"}, "mine"),
        ({"name": "mine", "ratings": "median"}, "mine ratings=median"),
    ],
)
def test_the_name_tells_what_differs(changes: dict[str, Any], name: str) -> None:
    made = resolve(**changes)
    assert made.name == name
    for key, value in changes.items():
        if key not in ("name", "dimension", "systems", "coefficients"):
            assert getattr(made, key) == value


def test_preferences_alone_have_no_dimension() -> None:
    usual = {**USUAL, "dimension": None, "coefficients": ["accuracy"]}
    assert Protocol.resolve("toy", usual, {}).dimension == ()
    assert Protocol.resolve("toy", usual, {}).name == "usual"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"ratings": "medan"}, ["protocol.ratings 'medan'", "did you mean median"]),
        ({"references": "mean_over"}, ["'mean_over'", "did you mean mean_over_single"]),
        ({"references": ["all"]}, ["protocol.references", "known: all, first_k"]),
        ({"corpus": "system"}, ["protocol.corpus 'system'", "did you mean per_system"]),
        ({"level": "by_imag"}, ["protocol.level 'by_imag'", "did you mean by_image"]),
        ({"own_references": "leave"}, ["protocol.own_references 'leave'", "mean leave_out"]),
        (
            {"coefficients": ["soft_pairwise_accuracy"], "level": "by_system"},
            ["protocol.coefficients=soft_pairwise_accuracy", "set protocol.level=system"],
        ),
        ({"undefined": "zero"}, ["protocol.undefined 'zero'", "known: drop, error, nan"]),
        ({"coefficients": ["tau_c", "tau_d"]}, ["'tau_d'", "did you mean tau_"]),
        ({"coefficients": "kendall"}, ["'kendall'", "known: acc_eq, accuracy, "]),
        ({"coefficients": []}, ["protocol.coefficients is empty"]),
        ({"references": "first_k"}, ["protocol.references=first_k needs protocol.k=N"]),
        ({"references": "first_k", "k": 0}, ["protocol.k is 0"]),
        ({"k": -1}, ["protocol.k is -1"]),
        ({"k": "2"}, ["protocol.k is '2'"]),
        ({"k": 1.5}, ["protocol.k is 1.5"]),
        ({"references": "first_k", "k": True}, ["protocol.k is True"]),
        ({"k": 1}, ["protocol.k=1 needs protocol.references", "first_k, mean_over_single"]),
        ({"coefficients": 5}, ["value of protocol.coefficients '5'"]),
        ({"systems": {"S1": 1}}, ["protocol.systems is {'S1': 1}", "a list of names"]),
    ],
)
def test_unknown_values(changes: dict[str, Any], parts: list[str]) -> None:
    with says("protocol.", *parts):
        resolve(**changes)


def toy() -> CaptionSet:
    """Four items of two systems; their ratings stand in another order than the items."""
    items = make_items(
        ["1", "1", "2", "2"],
        ["a", "b", "c", "d"],
        [("r",)] * 4,
        systems=["S1", "S2", "S1", "S2"],
    ).assign(split=["test", "test", "test", "dev"])
    a, b, c, d = items["item_id"]
    told = [
        (b, "overall", (2, 3)),
        (a, "overall", (1, 2, 2, 5)),
        (a, "wit", (0.5,)),
        (c, "overall", (3, 4, 4)),
        (d, "wit", (1.0,)),
    ]
    ratings = [(i, dim, f"r{k}", float(v)) for i, dim, vs in told for k, v in enumerate(vs)]
    pairs = [
        ("p0", a, b, "X", "a"),
        ("p1", b, a, "X", "b"),
        ("p2", c, c, "Y", "tie"),
    ]
    return CaptionSet(
        items,
        pd.DataFrame(ratings, columns=["item_id", "dimension", "rater", "value"]),
        make_preferences(pairs),
        card=CARD,
    )


PREFERENCES = Protocol.resolve(
    "toy", {**USUAL, "dimension": None, "coefficients": ["accuracy"]}, {}
)


@pytest.mark.parametrize(
    ("changes", "captions", "weights"),
    [
        # A data point a rating of the (first) dimension; d, which has none, counts once.
        ({}, "abcd", [4, 2, 3, 1]),
        ({"dimension": "wit"}, "abcd", [1, 1, 1, 1]),
        ({"dimension": ["overall", "wit"]}, "abcd", [4, 2, 3, 1]),
        # A data point an item.
        ({"ratings": "mean"}, "abcd", [1, 1, 1, 1]),
        ({"ratings": "rounded_mean"}, "abcd", [1, 1, 1, 1]),
        ({"systems": "S1"}, "ac", [4, 3]),
        ({"systems": ["S2", "S1"]}, "abcd", [4, 2, 3, 1]),
        ({"split": "test"}, "abc", [4, 2, 3]),
        ({"split": "test", "systems": ["S2"]}, "b", [2]),
    ],
)
def test_select(changes: dict[str, Any], captions: str, weights: list[int]) -> None:
    chosen = resolve(**changes).select_items(toy())
    assert "".join(chosen["caption"]) == captions
    assert chosen["weight"].tolist() == weights
    assert chosen.index.tolist() == list(range(len(captions)))


def test_weights_of_preferences_are_appearances() -> None:
    """a and b stand in two pairs each, c on both sides of one, d in none and counts once."""
    assert PREFERENCES.select_items(toy())["weight"].tolist() == [2, 2, 2, 1]
    assert dataclasses.replace(PREFERENCES, systems=("S2",)).select_items(toy())[
        "weight"
    ].tolist() == [
        2,
        1,
    ]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            {"systems": ["S1", "S"]},
            ["system of dataset toy 'S'", "did you mean S", "known: S1, S2"],
        ),
        ({"systems": 5}, ["system of dataset toy '5'"]),
        ({"dimension": 5}, ["dimension of dataset toy '5'"]),
        ({"split": 5}, ["split of dataset toy '5'"]),
        ({"split": "tes"}, ["split of dataset toy 'tes'", "did you mean test"]),
        ({"dimension": "overal"}, ["dimension of dataset toy", "did you mean overall?"]),
        ({"split": "dev", "systems": "S1"}, ["toy", "no item", "systems=[S1]", "split=dev"]),
        ({"systems": []}, ["toy", "no item"]),
    ],
)
def test_select_faults(changes: dict[str, Any], parts: list[str]) -> None:
    with says(*parts):
        resolve(**changes).select_items(toy())


def test_a_set_without_systems_knows_none() -> None:
    items = make_items(["1"], ["a"], [("r",)])
    with says("unknown system of dataset toy 'S1': known: none"):
        dataclasses.replace(PREFERENCES, systems=("S1",)).select_items(CaptionSet(items, card=CARD))


def data_points(
    protocol: Protocol, caption_set: CaptionSet, items: pd.DataFrame, dimension: str
) -> pd.DataFrame:
    """Return the data points of one dimension, on the protocol's scale."""
    return protocol.data_points_of(protocol.change_ratings(caption_set).ratings, items, dimension)


@pytest.mark.parametrize(
    ("ratings", "captions", "values"),
    [
        ("per_rating", "aaaabbccc", [1, 2, 2, 5, 2, 3, 3, 4, 4]),
        ("mean", "abc", [10 / 4, 5 / 2, 11 / 3]),
        # Halves go up: 2.5 is 3, which IEEE would round to 2; 11/3 is 4.
        ("rounded_mean", "abc", [3, 3, 4]),
        # Of 1 2 2 5 the two in the middle are 2; of 2 3 they are 2 and 3.
        ("median", "abc", [2, 2.5, 4]),
    ],
)
def test_points(ratings: str, captions: str, values: list[float]) -> None:
    """In the order of the items, whatever that of the ratings is."""
    data = toy()
    protocol = resolve(ratings=ratings)
    items = protocol.select_items(data)
    points = data_points(protocol, data, items, "overall")
    assert list(points.columns) == ["item_id", "value"]
    caption = items.set_index("item_id")["caption"]
    assert "".join(points["item_id"].map(caption)) == captions
    assert points["value"].tolist() == pytest.approx(values)
    # Of the items that were selected alone, and of one dimension alone.
    one = points["item_id"].map(caption).eq("b")
    of_b = data_points(protocol, data, items[items["caption"] == "b"], "overall")
    assert of_b["value"].tolist() == points.loc[one, "value"].tolist()
    wit = data_points(protocol, data, items, "wit")
    assert wit["item_id"].map(caption).tolist() == ["a", "d"]
    assert wit["value"].tolist() == [1.0 if ratings == "rounded_mean" else 0.5, 1.0]


@pytest.mark.parametrize(
    ("values", "rounded"),
    [((1, 2), 2), ((2, 3), 3), ((3, 4), 4), ((1, 1, 2), 1), ((1, 2, 2), 2), ((1, 1, 1, 3), 2)],
)
def test_rounded_means(values: tuple[float, ...], rounded: float) -> None:
    """Means of 1.5, 2.5, 3.5, 1.33, 1.67 and 1.5."""
    items = make_items(["1"], ["a"], [("r",)])
    told = [(items["item_id"][0], "overall", f"r{k}", float(v)) for k, v in enumerate(values)]
    ratings = pd.DataFrame(told, columns=["item_id", "dimension", "rater", "value"])
    protocol = resolve(ratings="rounded_mean")
    data = CaptionSet(items, ratings, card=CARD)
    assert data_points(protocol, data, items, "overall")["value"].tolist() == [rounded]


@pytest.mark.parametrize("ratings", ["per_rating", "mean", "rounded_mean", "median"])
def test_no_points(ratings: str) -> None:
    data = toy()
    protocol = resolve(ratings=ratings)
    items = data.items[data.items["caption"] == "d"]
    assert data_points(protocol, data, items, "overall").empty


def test_each_name_counts_once() -> None:
    made = resolve(coefficients=["tau_c", "tau_c"], dimension=["wit", "wit", "overall"])
    assert made.coefficients == ("tau_c",)
    assert made.dimension == ("wit", "overall")


def test_a_policy_without_k_drops_the_usual_one() -> None:
    usual = {**USUAL, "references": "first_k", "k": 4}
    assert Protocol.resolve("toy", usual, {}).k == 4
    assert Protocol.resolve("toy", usual, {"references": "all"}).k is None
    with says("protocol.k=3 needs"):
        Protocol.resolve("toy", usual, {"references": "all", "k": 3})


def test_dimensions_of_other_weights() -> None:
    """a has 4 ratings of overall and 1 of wit; with a data point an item it counts once in both."""
    data, made = toy(), resolve(dimension=["overall", "wit"])
    with says("of wit than of overall", "metric m", "one at a time, protocol.dimension=wit"):
        made.check_equal_weights(data, made.select_items(data), "m")
    for made in (resolve(dimension=["overall", "wit"], ratings="mean"), resolve()):
        made.check_equal_weights(data, made.select_items(data), "m")


def copies() -> CaptionSet:
    """Copies of one of two references and of the only one, and a caption that is none; pairs of them."""
    captions, references = ["A dog.", "a cat", "a bird"], [("a dog", "b"), ("a cat",), ("c",)]
    items = make_items(["1", "2", "3"], captions, references)
    dog, cat, bird = items["item_id"]
    ratings = [(i, "overall", "r", float(v)) for i, v in ((dog, 5), (cat, 4), (bird, 2))]
    pairs = [
        ("p0", dog, bird, "X", "a"),
        ("p1", bird, bird, "X", "tie"),
        ("p2", cat, dog, "X", "b"),
    ]
    return CaptionSet(
        items,
        pd.DataFrame(ratings, columns=["item_id", "dimension", "rater", "value"]),
        make_preferences(pairs),
        card=CARD,
    )


@pytest.mark.parametrize(
    ("changes", "captions", "references"),
    [
        ({}, ["A dog.", "a cat", "a bird"], [("a dog", "b"), ("a cat",), ("c",)]),
        ({"own_references": "drop"}, ["a bird"], [("c",)]),
        (
            {"own_references": "leave_out", "undefined": "drop"},
            ["A dog.", "a bird"],
            [("b",), ("c",)],
        ),
        (
            {"own_references": "leave_out_image", "undefined": "drop"},
            ["A dog.", "a bird"],
            [("b",), ("c",)],
        ),
        # "a cat" is in no pair that keeps a reference; "a bird" is none of the dog's.
        ({"own_references": "leave_out_pair"}, ["A dog.", "a bird"], [("b",), ("c",)]),
    ],
)
def test_own_references_are_scored_left_out_with_their_captions_or_left_out(
    changes: dict[str, Any], captions: list[str], references: list[tuple[str, ...]]
) -> None:
    items = resolve(**changes).select_items(copies())
    assert items["caption"].tolist() == captions
    assert items["references"].tolist() == references


def test_captions_that_are_their_only_reference_stop_a_run() -> None:
    """Nothing can be scored without references, and 0 would be a lie."""
    with says(
        "dataset toy: protocol.own_references=leave_out leaves 1 captions without references, first '2:",
        "protocol.undefined=drop leaves them out",
        "protocol.own_references=drop all copies",
    ):
        resolve(own_references="leave_out").select_items(copies())


def test_pairs_without_another_reference_stop_a_run_where_there_are_no_others() -> None:
    data = copies()
    cat_alone = CaptionSet(data.items, preferences=data.preferences[2:], card=CARD)
    only = CaptionSet(
        cat_alone.items.assign(references=[("a dog",), ("a cat",), ("c",)])[:2],
        preferences=cat_alone.preferences,
        card=CARD,
    )
    protocol = dataclasses.replace(PREFERENCES, own_references="leave_out_pair")
    with says(
        "dataset toy: protocol.own_references=leave_out_pair leaves nothing",
        "no pair has a reference beside its own captions; protocol.own_references=keep",
    ):
        protocol.select_items(only)
    assert protocol.select_items(data)["caption"].tolist() == ["A dog.", "a bird"]


def test_the_rule_for_pairs_is_refused_of_ratings_alone() -> None:
    data = copies()
    with says(
        "dataset toy: protocol.own_references=leave_out_pair is a rule for pairs, and there are ratings alone; set "
        "protocol.own_references=leave_out"
    ):
        resolve(own_references="leave_out_pair").select_items(
            CaptionSet(data.items, data.ratings, card=CARD)
        )


TEXTS = st.sampled_from(["a dog", "A dog.", "a cat", "the cat", "狗"])


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple)), max_size=8))
def test_no_caption_is_scored_against_a_copy_of_itself(
    rows: list[tuple[str, tuple[str, ...]]],
) -> None:
    """Whatever the texts: no policy but `keep` leaves a copy, and `keep` leaves all as it is."""
    captions, references = zip(*rows, ("unlike", ("any other",)), strict=True)
    items = make_items([str(i) for i in range(len(captions))], list(captions), list(references))
    data = CaptionSet(items, card=CARD)
    for policy in ("drop", "leave_out", "leave_out_image"):
        changes = {"own_references": policy, "undefined": "drop"}
        selected = dataclasses.replace(PREFERENCES, **changes).select_items(data)
        assert find_own_references(selected).n_copies == 0
        assert all(selected["references"])
    assert PREFERENCES.select_items(data)["references"].tolist() == list(references)


@pytest.mark.parametrize("policy", ["drop", "leave_out", "leave_out_image"])
def test_a_set_of_copies_alone_leaves_nothing(policy: str) -> None:
    data = copies()
    only = CaptionSet(data.items[1:2], card=CARD)
    protocol = dataclasses.replace(PREFERENCES, own_references=policy)
    with says("every caption is one of its references", f"own_references={policy} leaves nothing"):
        protocol.select_items(only)


def test_a_usual_protocol_without_own_references_keeps_them() -> None:
    usual = {k: v for k, v in USUAL.items() if k != "own_references"}
    assert Protocol.resolve("toy", usual, {}) == resolve()
    assert Protocol.resolve("toy", {**USUAL, "own_references": None}, {}) == resolve()


def test_a_protocol_is_read_back_from_the_record_of_a_run() -> None:
    protocol = resolve(systems="S1", own_references="drop")
    record = json.loads(json.dumps(vars(protocol)))
    assert Protocol.from_record(record) == protocol
    del record["own_references"]
    assert Protocol.from_record(record).own_references == "keep"


#: A program that declares a choice, as one more field of `Protocol` would, and runs a command over it.
ANOTHER_CHOICE = """
import dataclasses, sys
from captau.benchmarks.scoring import protocol

words = {"trim": "outliers are trimmed"}
declared = protocol.choice(
    "none", "how outliers are treated: {values}", values=("none", "trim"), words=words, is_later=True
)
protocol.Protocol = dataclasses.make_dataclass(
    "Protocol", [("outliers", str, declared)], bases=(protocol.Protocol,), frozen=True
)
protocol.CHOICES["outliers"] = declared.metadata["choice"]

from captau.benchmarks.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_choice_is_declared_once(tmp_path) -> None:
    """Options, help, checks, results, notes, records and the methods section know it."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", ANOTHER_CHOICE, *words],
            cwd=tmp_path,
            env={**os.environ, "CAPTAU_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    shown = " ".join(run("bench", "--help", "all").stdout.split())
    assert "protocol.outliers=NAME how outliers are treated: none, trim" in shown
    assert "'y': known: none, trim" in run("bench", "protocol.outliers=y").stderr
    done = run("bench", "protocol.outliers=trim", "metrics=rouge_1", "output_dir=run")
    assert done.returncode == 0, done.stderr
    assert "; outliers are trimmed" in " ".join(done.stdout.split())
    assert set(pd.read_csv(tmp_path / "run" / "correlations.csv")["protocol"]) == {
        "usual outliers=trim"
    }
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["protocols"]["demo"]["outliers"] == "trim"
    cited = " ".join(run("cite", "run=run").stdout.split())
    assert "outliers are trimmed; an undefined score" in cited


def rated(**card: Any) -> CaptionSet:
    """Two raters of three captions, of whom cid gives all the same, and ann uses another part of the scale than bob."""
    items = make_items(["x"] * 3, ["one", "two", "three"], [("r",)] * 3)
    answers = {"ann": (1, 3, 5), "bob": (4, 4, 5), "cid": (2, 2, 2)}
    ratings = pd.DataFrame(
        [
            (item, "overall", rater, float(value))
            for rater, values in answers.items()
            for item, value in zip(items["item_id"], values, strict=True)
        ],
        columns=pd.Index(["item_id", "dimension", "rater", "value"]),
    )
    return CaptionSet(items, ratings, card=dataclasses.replace(CARD, **card))


def test_z_scores_by_hand() -> None:
    """Worked: ann's mean is 3 and her deviation √(8/3); bob's 13/3 and √(2/9); cid has none."""
    caption_set = rated()
    protocol = resolve(rater_scale="z")
    ann, bob = (8 / 3) ** -0.5, (2 / 9) ** -0.5
    expected = [-2 * ann, 0, 2 * ann, -bob / 3, -bob / 3, 2 * bob / 3]
    assert protocol.change_ratings(caption_set).ratings["value"].tolist() == pytest.approx(expected)
    items = protocol.select_items(caption_set)
    assert items["weight"].tolist() == [2, 2, 2]
    mean = dataclasses.replace(protocol, ratings="mean")
    points = data_points(mean, caption_set, items, "overall")["value"]
    assert points.tolist() == pytest.approx([(expected[i] + expected[i + 3]) / 2 for i in range(3)])
    assert len(data_points(resolve(), caption_set, items, "overall")) == 9


def test_z_scores_are_tied_where_they_are_equal() -> None:
    """Ben rates a third of a level above Ann, in another order, and Cat twice as widely: all three have the same z-scores.

    The z-score of an answer says which of Ann's five levels it stands for, and an item's mean z-score what the sum of its
    three levels is, so that whole numbers say what is tied.
    """
    of_ann = [1, 1, 2, 3, 5, 2, 4, 1, 3, 2]
    levels = {"ann": of_ann, "ben": of_ann[::-1], "cat": of_ann[3:] + of_ann[:3]}
    names = [f"caption {number}" for number in range(len(of_ann))]
    items = make_items(["x"] * len(names), names, [("r",)] * len(names))
    answers = {
        "ann": levels["ann"],
        "ben": [x + 1 / 3 for x in levels["ben"]],
        "cat": [2 * x for x in levels["cat"]],
    }
    rows: list[tuple[str, str, str, float]] = []
    for rater, values in answers.items():
        for item, value in zip(items["item_id"], values, strict=True):
            rows.append((item, "overall", rater, float(value)))
    ratings = pd.DataFrame(rows, columns=pd.Index(["item_id", "dimension", "rater", "value"]))
    card = dataclasses.replace(CARD, scales={"overall": Scale(1, 10)})
    caption_set = CaptionSet(items, ratings, card=card)

    protocol = resolve(rater_scale="z")
    assert protocol.change_ratings(caption_set).ratings["value"].nunique() == len(set(of_ann)) == 5
    mean = dataclasses.replace(protocol, ratings="mean")
    selected = mean.select_items(caption_set)
    points = data_points(mean, caption_set, selected, "overall")
    sums = dict(zip(items["item_id"], map(sum, zip(*levels.values(), strict=True)), strict=True))
    sums_of_points = [sums[item] for item in points["item_id"]]
    assert points["value"].rank().tolist() == pd.Series(sums_of_points).rank().tolist()


def test_one_z_score_of_a_rater_does_not_depend_on_which_captions_count() -> None:
    caption_set = rated()
    items = resolve().select_items(caption_set)
    protocol = resolve(rater_scale="z")
    everything = data_points(protocol, caption_set, items, "overall")["value"].tolist()
    assert (
        data_points(protocol, caption_set, items.iloc[:1], "overall")["value"].tolist()
        == (everything[:2])
    )


@pytest.mark.parametrize("subject", ["anonymous", "rounded"])
def test_z_scores_that_make_no_sense(subject: str) -> None:
    if subject == "rounded":
        with says("protocol.ratings=rounded_mean rounds to grades"):
            resolve(rater_scale="z", ratings="rounded_mean")
    else:
        with says("dataset toy: protocol.rater_scale=z needs to know who rated"):
            resolve(rater_scale="z").select_items(rated(anonymous_raters=True))


def test_the_note_counts_ratings_without_a_z_score() -> None:
    notes = dataset_notes(rated(remarks=("Odd.",)), resolve(rater_scale="z"))
    assert notes == [
        "toy: Odd.",
        "toy: 3 of 9 ratings have no z-score and are left out, as their raters gave all captions the same.",
    ]
    assert dataset_notes(rated(), resolve()) == []


def test_signatures_name_the_unusual_choices_that_change_texts() -> None:
    """Of the choices, `normalise` alone changes texts; two protocols of one run are both named."""
    metric = resolve_metrics("bleu_4")[0]
    usual, thumb = Protocol(k=None, own_references="drop"), Protocol(normalise="thumb")
    assert sign(metric, [usual]) == metric.signature
    assert sign(metric, [usual, thumb, thumb]) == f"{metric.signature}|normalise:thumb"


AT_ONCE = "candidates are scored against all references at once"
IDF = "corpus statistics (document frequencies) are taken over the dataset"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"each rating is a data point; {AT_ONCE}; {IDF}"),
        ({"dimension": ()}, f"{AT_ONCE}; {IDF}"),
        (
            {"references": "first_k", "k": 3, "ratings": "mean"},
            f"an item's ratings are averaged; candidates are scored against the first 3 references; {IDF}",
        ),
        (
            {"references": "first_k", "k": 1},
            f"each rating is a data point; candidates are scored against the first reference; {IDF}",
        ),
        (
            {"systems": ("a", "b"), "split": "test", "undefined": "drop", "level": "by_image"},
            f"each rating is a data point; {AT_ONCE}; {IDF}; captions are those of a, b; captions are those of the split test; "
            "coefficients are within images, and averaged over them",
        ),
        (
            {"own_references": "drop", "ties": "drop", "rater_scale": "z"},
            f"each rating is a data point; {AT_ONCE}; {IDF}; captions that are one of their image's references are left out; "
            "pairs of equal scores are left out; each rater's ratings are standardised to z-scores",
        ),
    ],
)
def test_a_line_on_what_moves_numbers(changes: dict[str, Any], line: str) -> None:
    assert Protocol(**changes).describe() == line


def clauses(*said_of: Any, **changes: Any) -> dict[str, str]:
    return dict(Protocol(**changes).clauses(said_of, lambda text: f"<{text}>"))


ALL_AT_ONCE = "candidates are scored against all references at once"
CORPUS = "corpus statistics (document frequencies) are taken over the dataset"


def test_clauses_of_a_methods_section() -> None:
    assert clauses("") == {"references": ALL_AT_ONCE, "corpus": CORPUS}
    assert clauses("", "ratings", "judgements") == {
        "ratings": "each rating is a data point",
        "references": ALL_AT_ONCE,
        "corpus": CORPUS,
        "undefined": "an undefined score leaves the coefficient undefined",
        "level": "coefficients are over all data points",
    }
    assert clauses("pairs") == {"ties": "equal scores of a pair count half"}
    assert clauses() == {}
    k = {"references": "first_k", "k": 2}
    assert clauses("", systems=("a", "b_c"), split="t", normalise="thumb", **k) == {
        "references": "candidates are scored against the first 2 references",
        "corpus": CORPUS,
        "systems": "captions are those of <a, b_c>",
        "split": "captions are those of the split <t>",
        "normalise": "captions and references are normalised by the rule <thumb>",
    }
    one = "candidates are scored against one reference at a time and the "
    for policy, rest in (
        ("mean_over_single", "scores averaged"),
        ("max_over_single", "highest counts"),
    ):
        assert clauses("", references=policy)["references"] == one + rest
        of_k = clauses("", references=policy, k=3)["references"]
        assert of_k == one + rest + ", of the first 3"


def test_a_record_that_lacks_a_choice_or_has_another() -> None:
    record = json.loads(json.dumps(vars(resolve())))
    for name in ("level", "own_references", "normalise", "ties", "rater_scale"):
        fewer = {key: value for key, value in record.items() if key != name}
        assert Protocol.from_record(fewer) == Protocol.from_record(record) == resolve()
    fewer = {key: value for key, value in record.items() if key not in ("split", "corpus")}
    with pytest.raises(TypeError, match=r"^the protocol lacks corpus, split$"):
        Protocol.from_record(fewer)
    with pytest.raises(TypeError, match="another"):
        Protocol.from_record({**record, "another": 1})


def test_a_protocol_for_a_dataset_of_ratings_and_pairs() -> None:
    """The toy set is rated for overall and wit, and its pairs are of the kinds X and Y."""
    both = toy()
    protocol = Protocol()
    assert protocol.for_dataset(both).dimension == ("overall", "wit")
    assert protocol.for_dataset(both).coefficients == ("tau_c", "tau_b", "accuracy")
    of_pairs = dataclasses.replace(protocol, dimension=("wit", "X"))
    assert of_pairs.pair_dimensions(both) == ("X",)
    assert of_pairs.for_dataset(both).dimension == ("wit",)
    ratings = CaptionSet(both.items, both.ratings, card=CARD)
    assert protocol.for_dataset(ratings) == dataclasses.replace(
        protocol, dimension=("overall", "wit"), coefficients=("tau_c", "tau_b")
    )
    alone = dataclasses.replace(protocol, coefficients=("accuracy",), dimension=("wit",))
    assert alone.for_dataset(ratings) == alone


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None])
def test_a_choice_that_is_a_number_refuses_others(value: Any) -> None:
    declared = Choice(1, "the least number of raters", type=int, least=1)
    declared.check_number(1, "protocol.min_raters")
    with says(f"protocol.min_raters is {value!r}; a whole number from 1 on is expected"):
        declared.check_number(value, "protocol.min_raters")
