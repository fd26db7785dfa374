"""Caption-Quality: the reader on small files in the authors' format, with counts of answers and without."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.statistics.rating_table import count_by_level
from captau.datasets.reading.source_files import missing, sha256
from captau.datasets.schema import CaptionSet, SourceFile
from captau.datasets.sources.caption_quality import CARD, load_caption_quality, p_hat
from tests.conftest import raises_exactly, says

FOLDS = {"train": "train", "dev": "validation", "test": "test"}
# Answers and those that said yes: 7 of 10; 4 of 9; a pair of 7 answers is dropped; 8 of 8.
COUNTS = {"k1": (10, 7), "k2": (9, 4), "k3": (7, 7), "k4": (8, 8)}
P_HAT = {"k1": 0.75, "k2": 0.5, "k4": 1.0}  # round(5.6) / 8, round(3.56) / 8, 8 / 8


def columns(kind: str) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of what people said, and each pair's cells."""
    if kind == "counts":
        return ["COUNT_RATINGS", "COUNT_GOOD_RATINGS"], {
            k: [str(n) for n in counts] for k, counts in COUNTS.items()
        }
    return ["ROUNDED_AVG_USER_RATING"], {k: [str(v)] for k, v in P_HAT.items()}


def write(root: Path, kind: str, fold: str, end: str = "\n") -> Path:
    names, rows = columns(kind)
    lines = ["\t".join(["IMAGE_KEY", "CAPTION_PRED", *names])]
    lines += ["\t".join([f"{fold}_{k}", f'{k} says "hi', *cells]) for k, cells in rows.items()]
    path = root / "caption_quality" / f"OID-rated-image-captions.v1.{fold}.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(end.join([*lines, ""]), newline="", encoding="utf-8-sig")
    return path


def make(root: Path, kind: str, end: str = "\n") -> Path:
    for fold in FOLDS:
        write(root, kind, fold, end)
    return root


@pytest.mark.parametrize("kind", ["counts", "p_hat"])
def test_every_field(kind: str, tmp_path: Path) -> None:
    made = load_caption_quality(make(tmp_path, kind))
    items = made.items
    assert items["image_id"].tolist() == [f"{f}_{k}" for f in FOLDS for k in P_HAT]
    assert items["caption"].tolist() == [f'{k} says "hi' for _ in FOLDS for k in P_HAT]
    assert items["split"].tolist() == [split for split in FOLDS.values() for _ in P_HAT]
    assert items["references"].tolist() == [()] * 9
    assert items["image"].tolist() == items["system"].tolist() == [None] * 9
    overall = made.ratings[made.ratings["dimension"] == "overall"]
    assert overall["value"].tolist() == list(P_HAT.values()) * 3
    assert overall["item_id"].tolist() == items["item_id"].tolist()
    assert made.dimensions == (("overall",) if kind == "p_hat" else ("overall", "good"))
    assert made.card is CARD


def test_the_answers_are_ratings(tmp_path: Path) -> None:
    made = load_caption_quality(make(tmp_path, "counts"))
    good = made.ratings[made.ratings["dimension"] == "good"]
    found = good.groupby("item_id", sort=False)["value"].agg(["size", "sum"]).to_numpy().tolist()
    assert found == [[10, 7], [9, 4], [8, 8]] * 3
    assert set(good["rater"]) <= {f"rater_{k}" for k in range(1, 11)}


def write_counts(root: Path, fold: str, *rows: str) -> Path:
    path = root / "caption_quality" / f"OID-rated-image-captions.v1.{fold}.tsv"
    path.parent.mkdir(exist_ok=True)
    lines = ("IMAGE_KEY\tCAPTION_PRED\tCOUNT_RATINGS\tCOUNT_GOOD_RATINGS", *rows)
    path.write_text("\n".join(lines))
    return path


def test_answers_are_dealt_in_the_order_of_seeded_numbers(tmp_path: Path) -> None:
    """The first as many of a pair's numbers, in order of size, say yes; each fold draws for all of its pairs."""
    counts = {"train": [(8, 3), (5, 5), (10, 9)], "dev": [(9, 0), (11, 11)], "test": [(8, 8)]}
    wanted = []
    for fold, pairs in counts.items():
        write_counts(tmp_path, fold, *(f"i\tc {fold} {n} {k}\t{n}\t{k}" for n, k in pairs))
        numbers = np.random.default_rng(0).random((len(pairs), max(n for n, _ in pairs)))
        for row, (n, k) in zip(numbers, pairs, strict=True):
            order = sorted(range(n), key=row.__getitem__)
            answers = [1.0 if answer < k else 0.0 for answer in order]
            wanted += [(f"c {fold} {n} {k}", f"rater_{j + 1}", v) for j, v in enumerate(answers)]
    wanted = [row for row in wanted if row[0] != "c train 5 5"]
    made = load_caption_quality(tmp_path)
    captions = made.items.set_index("item_id")["caption"]
    good = made.ratings[made.ratings["dimension"] == "good"]
    assert list(zip(good["item_id"].map(captions), good["rater"], good["value"], strict=True)) == [
        *wanted
    ]
    overall = made.ratings[made.ratings["dimension"] == "overall"]
    assert overall["value"].tolist() == [0.375, 0.875, 0.0, 1.0, 1.0]
    assert set(overall["rater"]) == {"mean"}


def test_a_pair_of_a_thousand_answers_is_the_last_that_is_read(tmp_path: Path) -> None:
    write_counts(tmp_path, "dev", "i\tc\t1000\t1000")
    assert len(load_caption_quality(tmp_path).ratings) == 1001
    for row, name in (("i\tc\t1001\t3", "COUNT_RATINGS"), ("i\tc\t9\t1001", "COUNT_GOOD_RATINGS")):
        path = write_counts(tmp_path, "dev", row)
        scale = "not on the scale 0 to 1000 in steps of 1"
        with raises_exactly(f"{path}:2: {name} is '1001', {scale}"):
            load_caption_quality(tmp_path)


def test_the_first_pair_of_more_yes_than_answers_is_named(tmp_path: Path) -> None:
    path = write_counts(tmp_path, "dev", "i\ta\t9\t9", "i\tb\t8\t9", "i\tc\t9\t11", "i\td\t0\t1")
    with raises_exactly(f"{path}:3: COUNT_GOOD_RATINGS 9 is more than COUNT_RATINGS 8"):
        load_caption_quality(tmp_path)


def test_a_fold_without_answers_is_read_beside_another(tmp_path: Path) -> None:
    write_counts(tmp_path, "train")
    write_counts(tmp_path, "dev", "i\ta\t0\t0", "i\tb\t9\t9")
    made = load_caption_quality(tmp_path)
    assert made.items["caption"].tolist() == ["b"]
    assert made.items["split"].tolist() == ["validation"]
    assert made.ratings["value"].tolist() == [1.0] * 10


@pytest.mark.parametrize("column", ["COUNT_RATINGS", "COUNT_GOOD_RATINGS"])
def test_one_column_of_counts_is_as_none(column: str, tmp_path: Path) -> None:
    path = write_counts(tmp_path, "dev")
    path.write_text(f"IMAGE_KEY\tCAPTION_PRED\t{column}\tROUNDED_AVG_USER_RATING\ni\ta\t3\t0.3\n")
    assert load_caption_quality(tmp_path).ratings.iloc[:, 1:].to_numpy().tolist() == [
        ["overall", "mean", 0.25]
    ]
    path.write_text(f"IMAGE_KEY\tCAPTION_PRED\t{column}\ni\ta\t3\n")
    with raises_exactly(
        f"{path}: no column 'ROUNDED_AVG_USER_RATING'; it has IMAGE_KEY, CAPTION_PRED, {column}; "
        "it, or COUNT_GOOD_RATINGS and COUNT_RATINGS, is needed"
    ):
        load_caption_quality(tmp_path)


def test_counts_are_dealt_alike_every_time(tmp_path: Path) -> None:
    make(tmp_path, "counts")
    assert load_caption_quality(tmp_path).digest == load_caption_quality(tmp_path).digest


def test_line_ends_change_nothing(tmp_path: Path) -> None:
    before = load_caption_quality(make(tmp_path, "counts")).digest
    assert load_caption_quality(make(tmp_path, "counts", "\r\n")).digest == before


def test_models_are_systems(tmp_path: Path) -> None:
    for path in (write(tmp_path, "p_hat", fold) for fold in FOLDS):
        lines = path.read_text("utf-8-sig").splitlines()
        path.write_text("\n".join([f"{lines[0]}\tMODEL", *(f"{line}\tm7" for line in lines[1:])]))
    assert set(load_caption_quality(tmp_path).items["system"]) == {"m7"}
    write(tmp_path, "p_hat", "test")
    assert set(load_caption_quality(tmp_path).items["system"]) == {None}


def test_p_hat() -> None:
    """Levinboim et al. 2021, equation 1: to the nearest eighth, of 8, 9 or 10 answers."""
    assert p_hat(np.array([0.7, 0.3, 5 / 9, 0.5, 1.0])).tolist() == [0.75, 0.25, 0.5, 0.5, 1.0]
    for n in (8, 9, 10):  # never half-way between two eighths
        assert not any((8 * k / n) % 1 == 0.5 for k in range(n + 1) if n != 8)


FAULTS = {
    "off scale": ("p_hat", 2, "dev_k1\ta\t1.5", [":2: ROUNDED", "'1.5', not on the scale 0 to 1"]),
    "no number": ("p_hat", 2, "dev_k1\ta\tx", [":2: ROUNDED_AVG_USER_RATING is 'x', not a number"]),
    "half a vote": ("counts", 2, "dev_k1\ta\t1.5\t2", [":2: COUNT_RATINGS is '1.5'"]),
    "more than all": ("counts", 2, "dev_k1\ta\t8\t9", [":2: COUNT_GOOD_RATINGS 9 is more than"]),
    "short": ("p_hat", 4, "dev_k4\ta", [":4: 2 cells", "3 columns", "truncated"]),
    "no key": ("p_hat", 2, "\ta\t0.5", [":2: IMAGE_KEY is empty"]),
    "no answers": (
        "p_hat",
        1,
        "IMAGE_KEY\tCAPTION_PRED\tX",
        ["no column 'ROUNDED_AVG_USER_RATING'"],
    ),
    "no caption": (
        "p_hat",
        1,
        "IMAGE_KEY\tX\tROUNDED_AVG_USER_RATING",
        ["no column 'CAPTION_PRED'; it has"],
    ),
    "not UTF-8": ("p_hat", 3, "dev_k2\tcaf\udce9\t0.5", [":3: not UTF-8"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_line_and_column(fault: str, tmp_path: Path) -> None:
    kind, line, text, parts = FAULTS[fault]
    path = make(tmp_path, kind) / "caption_quality" / "OID-rated-image-captions.v1.dev.tsv"
    lines = path.read_text("utf-8").split("\n")
    lines[line - 1] = text
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    with says(str(path), *parts):
        load_caption_quality(tmp_path)


def test_pairs_of_too_few_answers_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "caption_quality"
    folder.mkdir()
    for fold in FOLDS:
        text = (
            f"IMAGE_KEY\tCAPTION_PRED\tCOUNT_RATINGS\tCOUNT_GOOD_RATINGS\n{fold}_k\ta dog\t3\t2\n"
        )
        (folder / f"OID-rated-image-captions.v1.{fold}.tsv").write_text(text, encoding="utf-8")
    with raises_exactly(
        f"{folder}: none of 3 pairs has 8 answers or more; the others are dropped as in the paper"
    ):
        load_caption_quality(tmp_path)


def test_each_fold_can_be_read_alone(tmp_path: Path) -> None:
    write(tmp_path, "counts", "dev")
    caption_set = load_caption_quality(tmp_path)
    assert set(caption_set.items["split"]) == {"validation"}
    with says("split 'test'", "OID-rated-image-captions.v1.test.tsv", CARD.homepage, "data fetch"):
        select(caption_set, "test")
    assert len(select(caption_set, "validation")) == len(select(caption_set, None)) == 3


def test_addresses_of_images_do_not_stand_in_for_missing_folds(tmp_path: Path) -> None:
    folder = write(tmp_path, "counts", "dev").parent
    for fold in FOLDS:
        (folder / f"OID-rated-image-captions.v1.{fold}.meta").write_text("IMAGE_KEY\tOriginalURL\n")
    assert [source.split for source in missing(tmp_path, CARD)] == ["train", "test"]


def test_without_any_fold_the_first_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "caption_quality").mkdir()
    with says("dataset caption_quality: the file", "v1.train.tsv", CARD.homepage):
        load_caption_quality(tmp_path)


def select(caption_set: CaptionSet, split: str | None) -> pd.DataFrame:
    protocol = Protocol.resolve(
        "caption_quality", usual_protocol("caption_quality"), {"split": split}
    )
    return protocol.for_dataset(caption_set).select_items(caption_set)


# The real development fold. Golden: the facts that data/README.md states, and what Levinboim et al. 2021 print.


@pytest.fixture(scope="module")
def real(data_root: Path) -> CaptionSet:
    return load_caption_quality(data_root)


@pytest.fixture(scope="module")
def released(data_root: Path) -> pd.DataFrame:
    """The released table as pandas reads it, without captau."""
    path = data_root / CARD.sources[1].path
    return pd.read_csv(path, sep="\t", keep_default_na=False, quoting=csv.QUOTE_NONE)


def test_the_real_fold_has_the_published_counts(real: CaptionSet) -> None:
    """Levinboim et al. 2021, Table 1, row Dev: samples, unique images, unique captions.

    The table's 4 "unique models" are not the file's, which names twelve; of an image it has 4 captions at most.
    """
    items = real.items
    counts = [len(items), items["image_id"].nunique(), items["caption"].nunique()]
    assert counts == [2392, 654, 1832]
    assert set(items["system"]) == {f"MODEL_{k}" for k in range(12)}
    assert items.groupby("image_id").size().max() == 4
    assert set(items["split"]) == {"validation"}


def test_the_real_fold_has_eight_to_eleven_answers_a_pair(
    real: CaptionSet, released: pd.DataFrame
) -> None:
    good = real.ratings[real.ratings["dimension"] == "good"]
    answers = good.groupby("item_id", sort=False)["value"].agg(["size", "sum"])
    assert answers["size"].value_counts().to_dict() == {9: 968, 10: 934, 8: 478, 11: 12}
    assert answers["size"].to_numpy() == pytest.approx(released["COUNT_RATINGS"].to_numpy())
    assert answers["sum"].to_numpy() == pytest.approx(released["COUNT_GOOD_RATINGS"].to_numpy())
    assert len(good) == 22008


def test_the_real_fold_is_rounded_as_equation_1_says(
    real: CaptionSet, released: pd.DataFrame
) -> None:
    means = released["COUNT_GOOD_RATINGS"] / released["COUNT_RATINGS"]
    printed = released["ROUNDED_AVG_USER_RATING"].to_numpy()
    assert (p_hat(means.to_numpy()) == printed).all()
    overall = real.ratings[real.ratings["dimension"] == "overall"]["value"]
    assert (overall.to_numpy() == printed).all()


def test_the_real_fold_has_the_histogram_of_figure_2(real: CaptionSet) -> None:
    """Levinboim et al. 2021, Figure 2, the bars of dev; the figure prints no numbers, data/README.md does."""
    overall = real.ratings[real.ratings["dimension"] == "overall"]
    counts = count_by_level(overall, CARD.scales["overall"])
    assert list(counts.values()) == [53, 180, 298, 249, 397, 259, 422, 326, 208]


def test_the_real_fold_has_the_samples_of_table_2(real: CaptionSet) -> None:
    """Levinboim et al. 2021, Table 2: captions of the dev fold with their ratings."""
    samples = {
        "a general view of atmosphere .": {0.375},
        "this is a picture of a yacht .": {0.75},
        "the yacht is a great place to take a rest .": {0.875},
        "person and her husband take a walk .": {0.125},
        "people walking along the beach": {0.25, 0.5},
        "cat in the grass with a dog": {0.25},
        "a tiger in the grass": {0.25},
        "cat lying on the grass": {0.75},
        "a police car in the middle of the road": {0.125},
        "automobile model in the rain": {0.5},
        "vehicles drive through a flooded street": {0.875},
        "plants for sale at the local market": {0.625},
        "a selection of plants in the flower market": {0.875},
        "flowers for sale at the market": {1.0},
        "the team at the opening .": {0.375},
        "the cast performs on stage .": {0.5},
        "the cast of musical film": {0.75},
    }
    overall = real.ratings[real.ratings["dimension"] == "overall"]
    ratings = real.items.merge(overall, on="item_id").groupby("caption")["value"].agg(set)
    assert ratings[list(samples)].to_dict() == samples


def test_repeated_captions_of_an_image_are_rated_less_alike_than_in_the_papers_rerun(
    real: CaptionSet,
) -> None:
    """Of docs/reproduction.md: equal captions of an image, each rated by a set of people of its own.

    Levinboim et al. 2021, section 3.3, print 0.015, 0.212 and 85 % for 509 captions that were rated twice.
    """
    overall = real.ratings[real.ratings["dimension"] == "overall"]
    rated = real.items.merge(overall, on="item_id")
    groups = rated.groupby(["image_id", "caption"], sort=False)["value"].agg(list)
    differences = np.array([a - b for values in groups for a, b in combinations(values, 2)])
    assert len(differences) == 426
    assert round(differences.mean(), 3) == 0.021
    assert round(differences.std(), 3) == 0.330
    assert round((np.abs(differences) <= 0.25).mean(), 3) == 0.695


@pytest.mark.parametrize("source", [s for s in CARD.sources if s.sha256], ids=lambda s: s.path)
def test_the_real_files_are_of_the_cards_revision(source: SourceFile, data_root: Path) -> None:
    assert sha256(data_root / source.path) == source.sha256
