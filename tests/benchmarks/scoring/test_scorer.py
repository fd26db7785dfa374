"""Reference and corpus policies against doing it by hand, and the store of scores."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captau.benchmarks.runs.progress_bar import StepProgress
from captau.benchmarks.scoring.protocol import Protocol
from captau.benchmarks.scoring.score_store import ScoreStore
from captau.benchmarks.scoring.scorer import Scorer, run_side_by_side, score_all
from captau.datasets.cache import cache_folder, cache_root
from captau.datasets.errors import InputError
from captau.datasets.schema import make_items
from captau.metrics.base import Metric
from captau.metrics.external import metric as make_metric
from captau.metrics.registry import metric
from captau.metrics.rows import Rows
from tests.conftest import install_version, says, use_cores

#: How many rows each call of a metric of this file was asked for.
CALLS: list[int] = []


@dataclass(frozen=True)
class Shared(Metric):
    """How many words of all references the caption has, and 10 for each reference it is shown."""

    factor: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    distributions: ClassVar[tuple[str, ...]] = ("captau", "tests")

    @property
    def name(self) -> str:
        return "shared"

    def compute(self, rows: Rows) -> np.ndarray:
        CALLS.append(len(rows))
        return np.array(
            [
                self.factor * (len(set(c.split()) & set(" ".join(r).split())) + 10 * len(r))
                for c, r in zip(rows.captions, rows.references, strict=True)
            ]
        )


@dataclass(frozen=True)
class Crowd(Metric):
    """The weight of all rows that are scored together."""

    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    distributions: ClassVar[tuple[str, ...]] = ("captau", "tests")
    depends_on_corpus: ClassVar[bool] = True
    depends_only_on_content: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "crowd"

    def compute(self, rows: Rows) -> np.ndarray:
        CALLS.append(len(rows))
        return np.full(len(rows), float(rows.weights.sum()))


@dataclass(frozen=True)
class Length(Metric):
    """The caption's words; it needs no references, and starts a program."""

    needs: ClassVar[frozenset[str]] = frozenset()
    distributions: ClassVar[tuple[str, ...]] = ("captau", "tests")
    takes_longest: ClassVar[bool] = True
    started: ClassVar[list[str]] = []

    @property
    def name(self) -> str:
        return "length"

    def start(self) -> None:
        self.started.append(self.name)

    def compute(self, rows: Rows) -> np.ndarray:
        CALLS.append(0)
        return np.array([float(len(c.split())) for c in rows.captions])


@dataclass(frozen=True)
class Hole(Shared):
    """Undefined where the one reference is "x"."""

    is_cacheable: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "hole"

    def compute(self, rows: Rows) -> np.ndarray:
        gaps = [r == ("x",) for r in rows.references]
        return np.where(gaps, np.nan, super().compute(rows))


USUAL = Protocol(
    name="usual",
    dimension=("overall",),
    ratings="mean",
    references="all",
    k=None,
    corpus="dataset",
    systems=None,
    split=None,
    coefficients=("tau_c",),
    undefined="nan",
)
CAPTIONS = ["a b", "a b", "q", "z"]
REFERENCES = [("a", "a b c", "x"), ("b",), ("q r", "r"), ("z", "y", "z z")]


def items(**columns: Any) -> pd.DataFrame:
    """Four captions with three, one, two and three references."""
    made = make_items(["1", "2", "3", "4"], CAPTIONS, REFERENCES, systems=["S", "T", "S", "S"])
    return made.assign(**{"weight": [1, 2, 4, 8], **columns})


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    Length.started.clear()


@pytest.fixture
def store(tmp_path: Path) -> ScoreStore:
    return ScoreStore(tmp_path / "cache")


def score(
    chosen: Metric,
    store: ScoreStore | None = None,
    frame: pd.DataFrame | None = None,
    **changes: Any,
) -> list[float]:
    scorer = Scorer("toy", items() if frame is None else frame, replace(USUAL, **changes))
    return scorer.score(chosen, store or ScoreStore(None)).tolist()


def shared(caption: str, references: list[str]) -> float:
    return len(set(caption.split()) & set(" ".join(references).split())) + 10 * len(references)


def shared_of_items(items: pd.DataFrame) -> list[float]:
    return [shared(c, r) for c, r in zip(items["caption"], items["references"], strict=True)]


@dataclass(frozen=True)
class Silent(Metric):
    """The same without a word on what it needs."""

    def compute(self, rows: Rows) -> list[float]:
        return [shared(c, list(r)) for c, r in zip(rows.captions, rows.references, strict=True)]


@pytest.mark.parametrize("source", [shared, shared_of_items, Silent])
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"references": "first_k", "k": 2}, [22, 11, 21, 21]),
        ({"references": "mean_over_single"}, [11, 11, 10.5, 32 / 3]),
        ({"references": "max_over_single"}, [12, 11, 11, 11]),
    ],
)
def test_the_protocol_chooses_the_references_of_metrics_from_outside(
    source: Any, changes: dict[str, Any], wanted: list[float], store: ScoreStore
) -> None:
    """The values are those of the test below; none is stored, since nothing tells when the code changes."""
    assert score(make_metric(source), store, **changes) == pytest.approx(wanted)
    assert not list((store.root or Path()).rglob("*.parquet"))


# Golden: worked here. Against one reference at a time the four score 11 12 10, 11, 11 10, 11 10 11.
@pytest.mark.parametrize(
    ("changes", "wanted", "calls"),
    [
        ({}, [32, 11, 21, 31], [4]),
        ({"references": "first_k", "k": 2}, [22, 11, 21, 21], [4]),
        ({"references": "first_k", "k": 9}, [32, 11, 21, 31], [4]),
        ({"references": "mean_over_single"}, [11, 11, 10.5, 32 / 3], [4, 3, 2]),
        ({"references": "mean_over_single", "k": 2}, [11.5, 11, 10.5, 10.5], [4, 3]),
        ({"references": "max_over_single"}, [12, 11, 11, 11], [4, 3, 2]),
        ({"references": "max_over_single", "k": 1}, [11, 11, 11, 11], [4]),
        ({"corpus": "per_system"}, [32, 11, 21, 31], [3, 1]),
        ({"corpus": "per_system", "references": "max_over_single"}, [12, 11, 11, 11], [3, 1, 3, 2]),
    ],
)
def test_reference_policies(changes: dict[str, Any], wanted: list[float], calls: list[int]) -> None:
    assert score(Shared(), **changes) == pytest.approx(wanted)
    assert calls == CALLS, "rows of each pass"


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, [15, 15, 15, 15]),
        ({"corpus": "per_system"}, [13, 2, 13, 13]),
        # The second pass lacks the second item, the third the third as well.
        ({"references": "mean_over_single"}, [(15 + 13 + 9) / 3, 15, 14, 37 / 3]),
        ({"references": "max_over_single", "corpus": "per_system"}, [13, 2, 13, 13]),
    ],
)
def test_what_corpus_statistics_are_taken_over(
    changes: dict[str, Any], wanted: list[float]
) -> None:
    assert score(Crowd(), **changes) == pytest.approx(wanted)


@pytest.mark.parametrize("policy", ["mean_over_single", "max_over_single"])
@pytest.mark.parametrize("spec", ["rouge_1", "bleu_2", "cider"])
def test_a_real_metric_one_reference_at_a_time(spec: str, policy: str) -> None:
    """Where every item has as many references, each pass is the metric on all items."""
    captions = ["a dog runs on grass", "two cats sleep", "a red bus in the street"]
    references = [
        ("the dog runs", "a brown dog on the grass"),
        ("cats", "two cats sleep on a bed"),
        ("a bus", "a street with a red bus"),
    ]
    frame = make_items(["1", "2", "3"], captions, references).assign(weight=1)
    passes = [
        metric(spec).score(
            [
                {"caption": c, "references": (r[k],)}
                for c, r in zip(captions, references, strict=True)
            ]
        )
        for k in (0, 1)
    ]
    by_hand = np.mean(passes, axis=0) if policy == "mean_over_single" else np.max(passes, axis=0)
    assert score(metric(spec), frame=frame, references=policy) == pytest.approx(by_hand.tolist())
    assert np.ptp(by_hand) > 0


def test_a_metric_without_references_is_asked_once() -> None:
    frame = items(references=pd.Series([()] * 4, dtype=object))
    for changes in ({}, {"references": "mean_over_single"}, {"corpus": "per_system"}):
        assert score(Length(), frame=frame, **changes) == [2, 2, 1, 1]
    assert CALLS == [0, 0, 0]


def test_missing_references_are_named() -> None:
    frame = items(references=pd.Series([("a",), (), ("b",), ("c",)], dtype=object))
    for references in ("all", "mean_over_single", "max_over_single"):
        with says("metric shared needs references", frame["item_id"][1]):
            score(Shared(), frame=frame, references=references)


def test_per_system_needs_systems() -> None:
    frame = items(system=pd.Series(["S", None, "T", "T"], dtype=object))
    with says("dataset toy: protocol.corpus=per_system needs the system of every item"):
        score(Shared(), frame=frame, corpus="per_system")


@pytest.mark.parametrize("policy", ["mean_over_single", "max_over_single"])
def test_undefined_against_one_reference_is_undefined(policy: str) -> None:
    found = score(Hole(), references=policy)
    assert np.isnan(found).tolist() == [True, False, False, False]
    with says(
        "metric hole is undefined for 1 of 4 items of toy",
        f"'{items()['item_id'][0]}'",
        "protocol.undefined=drop",
    ):
        score(Hole(), references=policy, undefined="error")


def stored(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file())


def test_a_second_run_computes_nothing(store: ScoreStore) -> None:
    first = score(Shared(), store)
    assert (store.hits, store.misses) == (0, 1)
    again = ScoreStore(store.root)
    assert score(Shared(), again) == first
    assert (again.hits, again.misses) == (1, 0)
    assert CALLS == [4]
    (path,) = stored(store.root)
    assert path.parent == store.root / "scores" / "toy"
    assert path.name.startswith("shared-")
    assert path.suffix == ".parquet"


def test_nan_is_kept(store: ScoreStore) -> None:
    path = store.path("toy", "m", "key")
    scores = np.array([np.nan, 0.1 + 0.2, -0.0, np.inf])
    store.put(path, items()["item_id"], scores)
    found = store.get(path, items()["item_id"])
    assert found is not None
    assert found.scores.tobytes() == scores.tobytes()


def test_without_a_store_or_where_scores_may_not_be_kept(store: ScoreStore) -> None:
    for _ in range(2):
        score(Shared(), ScoreStore(None))
        score(Hole(), store)
    assert len(CALLS) == 4
    assert not store.root.exists()


def damaged(path: Path, how: str) -> None:
    whole, ids = path.read_bytes(), pq.read_table(path).column("item_id").to_pylist()
    tables = {
        "other columns": {"item_id": ids, "points": [0.0] * 4},
        "other order": {"item_id": ids[::-1], "score": [0.0] * 4},
        "fewer rows": {"item_id": ids[:2], "score": [0.0] * 2},
        "texts": {"item_id": ids, "score": ["a"] * 4},
    }
    contents = {
        "cut": whole[: len(whole) // 2],
        "cut by one": whole[:-1],
        "empty": b"",
        "other": b"x" * 99,
    }
    if how in contents:
        path.write_bytes(contents[how])
    else:
        pq.write_table(pa.table(tables[how]), path)


@pytest.mark.parametrize(
    "how",
    ["cut", "cut by one", "empty", "other", "other columns", "other order", "fewer rows", "texts"],
)
def test_a_damaged_file_is_computed_anew(how: str, store: ScoreStore) -> None:
    first = score(Shared(), store)
    (path,) = stored(store.root)
    damaged(path, how)
    assert score(Shared(), store) == first
    assert CALLS == [4, 4]
    assert score(Shared(), store) == first, "and replaced"
    assert CALLS == [4, 4]
    assert stored(store.root) == [path]


def test_a_cache_that_cannot_be_written_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The cache root is a file: no folder can be made in it, not even by root."""
    file = tmp_path / "cache"
    file.touch()
    store = ScoreStore(file)
    assert score(Shared(), store) == [32, 11, 21, 31]
    assert score(Shared(2), store) == [64, 22, 42, 62]
    (line,) = caplog.messages
    assert line.startswith("scores are not kept")
    assert str(file) in line
    assert "Not a directory" in line or "exists" in line
    assert "cache.root=DIR" in line


def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: object, stream: Any, **__: Any) -> None:
        stream.write(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    assert score(Shared(), ScoreStore(tmp_path)) == [32, 11, 21, 31]
    assert "No space left on device" in caplog.text
    assert stored(tmp_path) == []
    assert list(tmp_path.rglob("scores"))


def key(chosen: Metric, frame: pd.DataFrame | None = None, **changes: Any) -> Path:
    scorer = Scorer("toy", items() if frame is None else frame, replace(USUAL, **changes))
    path = scorer.path(chosen, ScoreStore(Path("cache")))
    assert path is not None
    return path


OTHERS = [
    {"caption": ["a b", "a b", "q", "Z"]},
    {"item_id": list("abcd")},
    {"references": pd.Series([*REFERENCES[:3], ("z", "y", "zz")], dtype=object)},
    {"references": pd.Series([*REFERENCES[:3], ("y", "z", "z z")], dtype=object)},
]


def test_other_inputs_have_other_keys() -> None:
    for chosen in (Shared(), Crowd()):
        keys = [key(chosen), *(key(chosen, items(**columns)) for columns in OTHERS)]
        keys += [key(chosen, references=r) for r in ("mean_over_single", "max_over_single")]
        keys += [key(chosen, references="first_k", k=k) for k in (1, 2)]
        keys.append(key(chosen, items().iloc[:3]))
        assert len(set(keys)) == len(keys)
        assert key(chosen) == keys[0], "equal inputs have equal keys"
        moved = items(image=["elsewhere/a.jpg", None, None, None])
        same = key(chosen, moved) == keys[0]
        assert same == chosen.depends_only_on_content, (
            "another machine's folders are nothing to text"
        )


def test_weights_and_systems_matter_to_corpus_statistics_alone() -> None:
    weights, systems = items(weight=[1, 1, 1, 1]), items(system=["S", "S", "S", "T"])
    assert key(Shared()) == key(Shared(), weights) == key(Shared(), systems)
    assert key(Shared()) == key(Shared(), corpus="per_system")
    keys = [key(Crowd()), key(Crowd(), weights), key(Crowd(), systems)]
    assert len({*keys, key(Crowd(), corpus="per_system")}) == 4


def test_images_matter_where_equal_captions_need_not_score_alike() -> None:
    frame = items()
    others = frame.assign(image_id=[f"other {i}" for i in frame["image_id"]])
    assert key(Shared(), frame) == key(Shared(), others)
    assert key(Crowd(), frame) != key(Crowd(), others)


def test_other_parameters_have_other_keys(tmp_path: Path) -> None:
    assert key(Shared()) != key(Shared(2))
    assert key(metric("cider")) != key(metric("cider(variant=plain)"))
    frequencies = tmp_path / "df"
    frequencies.write_text("one")
    of_file = replace(metric("cider"), df=str(frequencies))
    before = key(of_file)
    frequencies.write_text("two")
    assert key(of_file) != before, "a file's content counts, not its name"


def test_other_versions_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(Shared())
    install_version(monkeypatch, "99")
    assert key(Shared()) != before


@pytest.mark.parametrize("spec", ["../../etc", "a b/c", "é" * 200, "m(path=/x/y)"])
def test_names_of_files_are_safe(spec: str, store: ScoreStore) -> None:
    path = store.path("toy", spec, "key")
    assert path is not None
    assert path.parent == store.root / "scores" / "toy"
    assert len(path.name.encode()) < 120
    store.put(path, items()["item_id"], np.zeros(4))
    assert stored(store.root) == [path]


def test_two_stores_at_once(tmp_path: Path) -> None:
    """Whoever writes last, a reader sees whole files alone."""
    ids = pd.Series([f"item {k}" for k in range(2000)])
    scores = np.linspace(0, 1, 2000)
    stores = [ScoreStore(tmp_path) for _ in range(3)]
    path = stores[0].path("toy", "m", "key")
    stores[0].put(path, ids, scores)
    together = threading.Barrier(3)

    def write(store: ScoreStore) -> None:
        together.wait()
        for _ in range(15):
            store.put(path, ids, scores)

    writers = [threading.Thread(target=write, args=(s,)) for s in stores[1:]]
    for writer in writers:
        writer.start()
    together.wait()
    reads = 0
    while any(w.is_alive() for w in writers) or reads < 10:
        found = stores[0].get(path, ids)
        assert found is not None
        assert (found.scores == scores).all()
        reads += 1
    for writer in writers:
        writer.join()
    assert stores[0].misses == 0
    assert [s.root for s in stores] == [tmp_path] * 3
    assert stored(tmp_path) == [path]


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTAU_CACHE", str(tmp_path / "environment"))
    assert cache_root(tmp_path / "argument") == tmp_path / "argument"
    assert cache_root() == tmp_path / "environment"
    assert cache_folder("meteor", "x") == tmp_path / "environment" / "meteor" / "x"
    monkeypatch.setenv("CAPTAU_CACHE", "")
    assert cache_root().name == "captau"


def test_score_all(store: ScoreStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order asked for; a program is started first, and only where it is needed."""
    use_cores(monkeypatch, 1)
    chosen = [Length(), Shared(), Crowd()]
    for run in (1, 2):
        with StepProgress(3) as progress:
            found = score_all(Scorer("toy", items(), USUAL), chosen, store, progress)
        assert list(found) == ["length", "shared", "crowd"]
        assert found["length"].tolist() == [2, 2, 1, 1]
        assert found["crowd"].tolist() == [15] * 4
        assert Length.started == ["length"]
        assert (store.misses, store.hits) == (3, 3 * (run - 1))
    assert CALLS == [4, 0, 4], "length, which takes longest, was asked second"


def test_what_killed_runs_left_in_the_store_is_swept(store: ScoreStore) -> None:
    """By age: what is fresh may be of a run under way."""
    score(Shared(), store)
    folder = stored(store.root)[0].parent
    old, fresh = folder / ".a.tmp", folder / ".b.tmp"
    for path in (old, fresh):
        path.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    score(Shared(2), store)
    assert not old.exists()
    assert fresh.exists()


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    use_cores(monkeypatch, 2)


@pytest.mark.usefixtures("two_cores")
def test_metrics_run_side_by_side() -> None:
    together = threading.Barrier(2, timeout=20)
    run_side_by_side(lambda _: together.wait() and None, [Length(), Shared()])


@pytest.mark.usefixtures("two_cores")
def test_the_first_failure_is_raised_and_nothing_further_begun() -> None:
    together = threading.Barrier(2, timeout=20)
    begun: list[str] = []

    def fail(metric: Metric) -> None:
        begun.append(metric.name)
        together.wait()
        raise InputError(metric.name)

    with says("shared"):
        run_side_by_side(fail, [Shared(), Length(), Crowd(), Crowd()])
    assert sorted(begun) == ["length", "shared"]
