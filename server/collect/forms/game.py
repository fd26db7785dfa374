"""The rating game: five levels, feedback and points (Scott et al. 2023); its rules are in `game_rules`.

Each pair starts with computed ratings (section 3.2). The authors took VSE++ first, and their own models once they had
trained them. Here they come from metrics or trained raters, or from the ratings that a dataset has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Self, cast

import numpy as np
from pydantic import Discriminator, Field, PlainValidator, Tag

from ....benchmarks.scoring.catalog import resolve_metrics
from ....datasets.errors import InputError
from ....datasets.reading.yaml_model import LongText, YamlModel, fault, number, whole_number
from ....datasets.schema import Scale
from ....datasets.sources.coco_captions import coco_id
from ....metrics.base import Floats, Metric
from ...texts import Language
from ..items.item_pool import ItemPool, Levels, PairFields
from ..items.item_source import ItemsFields
from ..items.units import StudyItem, StudyUnit
from . import game_rules
from .counted_answers import CountedAnswers, csv_bytes
from .course import Course, NextUnit, RaterProgress, SubmittedAnswer
from .form import Form, FormFields
from .game_rules import LEVELS, GameState, OpenPair, Rules
from .study_fields import StudyFields
from .wording import Wording, load_wording

#: The computed ratings of a pair; people's ratings take their places.
N_COMPUTED = 2
_DEFAULT_METRICS = ("rouge_l", "cider")
_RATINGS = "ratings"


@dataclass(frozen=True)
class ColdStart:
    """The sources of computed ratings; none stands for the ratings that the items come with.

    Attributes:
        metrics: the spec of each metric, with the ends of its scale where the study names them.
    """

    metrics: tuple[tuple[str, Scale | None], ...]

    def compute_levels(self, items: Sequence[StudyItem], game: GameFields) -> list[tuple[int, ...]]:
        """Return the computed ratings of each item, `N_COMPUTED` of them.

        Raises:
            InputError: if a metric cannot score the items, or an item comes without ratings.
        """
        if self.metrics:
            columns = [
                self._metric_levels(spec, scale, items, game) for spec, scale in self.metrics
            ]
        else:
            columns = [_known_levels(items, game)]

        # A single source gives each pair the same rating twice.
        by_rating = [columns[k % len(columns)].tolist() for k in range(N_COMPUTED)]
        return list(zip(*by_rating, strict=True))

    def _metric_levels(
        self, spec: str, scale: Scale | None, items: Sequence[StudyItem], game: GameFields
    ) -> Floats:
        try:
            metric, *further_metrics = resolve_metrics([spec])
            if further_metrics:
                raise InputError(f"{spec} is a suite; name one metric or two")
            _check_references(metric, items)
            rows: list[dict[str, Any]] = []
            for item in items:
                row = {
                    "item_id": item.item_id,
                    "image_id": item.image_id,
                    "image": item.image,
                    "caption": item.caption,
                    "references": list(item.references),
                    "system": item.system,
                }
                rows.append(row)
            scores = metric.score(rows)
        except InputError as error:
            raise game.error("cold_start", str(error)) from error

        is_undefined = ~np.isfinite(scores)
        if is_undefined.any():
            first_undefined = int(np.flatnonzero(is_undefined)[0])
            item = items[first_undefined]
            raise game.error(
                "cold_start", f"{spec} has no score for '{item.caption}'; name another metric"
            )

        ends = metric.rating_scale
        if scale is None and ends is not None:
            scale = Scale(*ends)
        if scale is not None:
            return round_to_levels(scale, scores)

        # Of a metric without scale only the order of the items counts.
        return rank_in_fifths(scores if metric.higher_is_better else -scores)


def _check_references(metric: Metric, items: Sequence[StudyItem]) -> None:
    """Check that the items have references if a metric needs them.

    Raises:
        InputError: with metrics to choose instead.
    """
    n_without = sum(not item.references for item in items)
    if n_without and "references" in metric.needs:
        raise InputError(
            f"{metric.spec} needs references, and {n_without:,} of {len(items):,} items have none; name metrics "
            "that need none, such as clipscore, vse_cosine(images=FILE,texts=FILE) or rater(path=FOLDER), "
            "or add the column references"
        )


def _known_levels(items: Sequence[StudyItem], game: GameFields) -> Floats:
    """Return the items' own mean ratings, rounded; a half goes up."""
    means = [item.mean_rating for item in items if item.mean_rating is not None]
    if len(means) < len(items):
        raise game.error("cold_start", "not every item comes with ratings; name metrics")

    # NumPy's own rounding takes a half to the even number.
    return np.floor(np.array(means) + 0.5).astype(int)


def round_to_levels(scale: Scale, scores: Floats) -> Floats:
    """Return scores as the nearest of the five levels, whose ends are those of their scale."""
    lowest = LEVELS[0]
    highest = LEVELS[-1]
    levels = lowest + (highest - lowest) * scale.share(scores)
    return np.clip(np.floor(levels + 0.5), lowest, highest).astype(int)


def rank_in_fifths(scores: Floats) -> Floats:
    """Return scores as levels: the worst fifth is 1, the best 5; equal scores get equal levels."""
    from scipy.stats import rankdata

    share = (rankdata(scores) - 0.5) / len(scores)
    return np.clip(1 + np.floor(share * 5), 1, 5).astype(int)


def _read_cold_start(value: Any) -> ColdStart:
    """Return the sources that a study's file names: `ratings`, or one metric or two."""
    if value == _RATINGS:
        return ColdStart(())

    entries: list[Any] = value if isinstance(value, list) else []
    if not 1 <= len(entries) <= N_COMPUTED:
        raise fault("one or two metrics, in a list, or 'ratings' are expected")

    return ColdStart(tuple(_read_entry(entry) for entry in entries))


def _read_entry(entry: Any) -> tuple[str, Scale | None]:
    """Return a metric's spec, and its scale where the entry has `low` and `high`."""
    if isinstance(entry, str):
        return entry, None
    if isinstance(entry, dict) and set(entry) == {"metric", "low", "high"}:
        spec = entry["metric"]
        low = entry["low"]
        high = entry["high"]
        if isinstance(spec, str) and _is_number(low) and _is_number(high) and low < high:
            return spec, Scale(low, high)

    raise fault(f"{entry!r}: a metric, or {{metric: …, low: 0, high: 1}}, is expected")


def _is_number(value: Any) -> bool:
    # YAML's true and false are whole numbers of Python.
    return isinstance(value, int | float) and not isinstance(value, bool)


class RatedPair(PairFields):
    """A pair with its ratings."""

    ratings: Levels


class TutorialPair(RatedPair):
    """A pair whose ratings are explained."""

    explanation: LongText  # pyright: ignore[reportGeneralTypeIssues]  # here it has no default


_usual = Rules()


class GameFields(YamlModel):
    """The section `game` of a study's file: the rules, the cold start, and the pairs of tutorial and practice."""

    wait: Annotated[float, number(0, 3600)] = _usual.wait
    tutorial_pairs: Annotated[int, whole_number(0)] = _usual.tutorial
    pairs: Annotated[int, whole_number(1)] = _usual.pairs
    points: Annotated[int, whole_number(-2_000_000)] = _usual.points
    attempts: Annotated[int, whole_number(1)] | None = None
    cold_start: Annotated[ColdStart, PlainValidator(_read_cold_start)] = ColdStart(
        tuple((spec, None) for spec in _DEFAULT_METRICS)
    )
    tutorial: list[TutorialPair] = Field(default_factory=list)
    #: The pairs, or how many of the items are taken.
    probation: (
        Annotated[
            Annotated[list[RatedPair], Tag("pairs")]
            | Annotated[int, whole_number(0), Tag("number")],
            Discriminator(lambda value: "pairs" if isinstance(value, list) else "number"),
        ]
        | None
    ) = None


class GameStudy(StudyFields):
    """A study's file with the rules of its game."""

    game: GameFields = Field(default_factory=GameFields)


class GameCourse(Course):
    """A player's way through the game: tutorial, trial, perhaps practice, and the game, with points for each answer."""

    feedback_template = "forms/game_feedback.html"
    end_template = "forms/game_end.html"
    feedback_columns = ("consensus", "mean", "score", "turn")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.wait = rules.wait

    def begin(self) -> RaterProgress:
        """Return the progress of a new player."""
        return RaterProgress(asdict(game_rules.start(self.rules)), 0)

    def next_task(self, state: Mapping[str, Any]) -> NextUnit | None:
        """Return the task of the player's phase; None once practice has ended for good."""
        tasks = {
            "tutorial": NextUnit("tutorial", pool="tutorial"),
            "trial": NextUnit("trial", allows_attention=False),
            "probation": NextUnit(
                "probation", pool="probation", attempt=state["attempt"], is_shuffled=True
            ),
            "playing": NextUnit("playing"),
        }
        return tasks.get(state["phase"])

    def start_unit(
        self, state: dict[str, Any], task: NextUnit, key: str, now: float
    ) -> dict[str, Any]:
        """Return a player's state with a pair open; attention items are no part of the game."""
        if task.phase == "attention":
            return state

        return asdict(game_rules.serve(_game_state(state), key, now))

    def respond(
        self, answer: SubmittedAnswer, progress: RaterProgress, others: Sequence[float]
    ) -> tuple[dict[str, Any] | None, RaterProgress]:
        """Return a rating's outcome, and the player's progress after it."""
        rating = int(answer.value["overall"])
        fixed = answer.unit.fixed
        now = answer.submitted_at

        if answer.phase == "attention":
            # Nothing is won by attention items: the answer is judged beside the game, and the player's state stays.
            state = GameState(phase="playing", open=OpenPair(answer.key, answer.served_at))
            _, outcome = game_rules.answer(
                state,
                answer.key,
                rating=rating,
                now=now,
                previous=fixed,
                rules=self.rules,
            )
            return {**asdict(outcome), "score": 0}, progress

        # People's ratings take the places of the computed ones, one by one.
        others = others if answer.unit.is_rated else ()
        n_replaced = min(len(others), N_COMPUTED)
        previous = [*others, *fixed[n_replaced:]]
        state, outcome = game_rules.answer(
            _game_state(progress.state),
            answer.key,
            rating=rating,
            now=now,
            previous=previous,
            rules=self.rules,
        )

        return asdict(outcome), RaterProgress(asdict(state), state.points)

    def describe(self, progress: RaterProgress) -> dict[str, Any]:
        """Return a player's points, and their phase with the attempt at practice."""
        phase = progress.state["phase"]
        attempt = progress.state["attempt"]
        return {"points": progress.points, "phase": f"{phase} ({attempt})" if attempt else phase}


@dataclass(frozen=True)
class GameForm(Form):
    """One caption, five levels; points for being close to the others."""

    name = "game"
    template = "forms/game.html"
    study_model = GameStudy
    keeps_levels = True  # points are computed from them

    rules: Rules = field(default_factory=Rules)
    cold_start: ColdStart = field(default_factory=lambda: ColdStart(()))
    wording: Wording = field(default=load_wording("game"), kw_only=True)

    @classmethod
    def from_study(cls, study: StudyFields, language: Language) -> Self:
        """Read the rules and the cold start in the section `game`."""
        game = cast(GameStudy, study).game
        # A crowd's workers, who are paid, do not practise for ever.
        usual_attempts = 3 if study.participants == "crowd" else None
        rules = Rules(
            wait=game.wait,
            tutorial=game.tutorial_pairs,
            pairs=game.pairs,
            points=game.points,
            attempts=usual_attempts if game.attempts is None else game.attempts,
        )
        # An answer brings two points at most.
        if rules.points > 2 * rules.pairs:
            raise game.error(
                "points",
                f"{rules.points}; game.pairs={rules.pairs} bring {2 * rules.pairs} at most",
            )

        per_rater = study.per_rater
        if per_rater is not None and per_rater < rules.pairs:
            raise study.error(
                "per_rater", f"{per_rater}; game.pairs={rules.pairs} at least are needed"
            )

        return cls(rules, game.cold_start, wording=cls.read_wording(study, language))

    def digest_rules(self) -> dict[str, Any]:
        """Return the rules but for the wait, which changes nothing of what is rated."""
        return asdict(replace(self.rules, wait=0.0))

    def special_units(self, study: StudyFields, pool: ItemPool) -> list[StudyUnit]:
        """Return the pairs of tutorial and probation, and those with known answers."""
        game = cast(GameStudy, study).game
        rules = self.rules

        tutorial = _list_units("tutorial", game.tutorial, pool)
        if len(tutorial) != rules.tutorial:
            raise game.error(
                "tutorial",
                f"{len(tutorial)} pairs; game.tutorial_pairs is {rules.tutorial}; make them equal",
            )

        if isinstance(game.probation, list):
            probation = _list_units("probation", game.probation, pool)
        else:
            n_pairs = rules.pairs if game.probation is None else game.probation
            probation = pool.take_unanimous("probation", n_pairs, LEVELS, game)
        if len(probation) < rules.pairs:
            raise game.error(
                "probation",
                f"{len(probation)} pairs; game.pairs={rules.pairs} at least are needed",
            )

        return [*tutorial, *probation, *super().special_units(study, pool)]

    def prepare_units(
        self, units: Sequence[StudyUnit], study: StudyFields, *, computes_ratings: bool
    ) -> list[StudyUnit]:
        """Return the pairs with the computed ratings that they start with (section 3.2)."""
        if not computes_ratings:
            return list(units)

        self._check_pairs(len(units), study.items)

        # A unit of the game has a single item.
        items: list[StudyItem] = []
        for unit in units:
            items += unit.items
        levels = self.cold_start.compute_levels(items, cast(GameStudy, study).game)
        return [replace(unit, fixed=fixed) for unit, fixed in zip(units, levels, strict=True)]

    def _check_pairs(self, n_units: int, source: ItemsFields) -> None:
        """Check that there are as many pairs as the trial has."""
        limit = source.limit
        n_pairs = self.rules.pairs
        if n_units >= n_pairs:
            return

        if limit is not None and limit < n_pairs:
            raise source.error("limit", f"{limit}; game.pairs={n_pairs} at least are needed")
        raise source.error(
            None, f"{n_units} pairs are left; game.pairs={n_pairs} at least are needed"
        )

    @property
    def course(self) -> GameCourse:
        """A player's way through the game."""
        return GameCourse(self.rules)

    def with_wait(self, seconds: float) -> Self:
        """Return the game with another wait."""
        return replace(self, rules=replace(self.rules, wait=seconds))

    def read_answer(self, fields: FormFields, n_captions: int) -> list[dict[str, Any]]:
        """Return the rating."""
        (dimension,) = self.wording.dimensions
        return [{"overall": self.read_level(fields, "rating", dimension)}]

    def ratings(self, value: Mapping[str, Any]) -> dict[str, float]:
        """Return the overall rating."""
        return {"overall": float(value["overall"])}

    def template_variables(self) -> dict[str, Any]:
        """Return the rules."""
        return {"rules": self.rules}

    def paper_files(self, answers: CountedAnswers) -> dict[str, bytes]:
        """Return ratings as `captau data import` takes CocoG (images by COCO's number) and FlickrG."""
        is_coco = all(coco_id(a.unit.image_id).isdecimal() for a in answers.answers)
        rows: list[list[Any]] = []
        for answer in answers.without_repeats():
            image_id = answer.unit.image_id
            rating = answer.value["overall"]
            system = answer.item.system or ""
            rows.append([image_id, answer.item.caption, answer.rater, rating, system])

        name = "cocog.csv" if is_coco else "flickrg.csv"
        return {name: csv_bytes(["image", "caption", "rater", "value", "source"], rows)}

    def simulate_answer(
        self, level: Callable[[str], int], captions: Sequence[str], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return a rating."""
        return {"rating": level(captions[0])}


def _list_units(pool_name: str, pairs: Sequence[RatedPair], pool: ItemPool) -> list[StudyUnit]:
    """Return the units of pairs that a study's file lists with their ratings."""
    units: list[StudyUnit] = []
    for pair in pairs:
        pair.check_levels("ratings", pair.ratings, LEVELS[0], LEVELS[-1])
        units.append(pool.listed_unit(pool_name, pair, pair.ratings))

    return units


def _game_state(state: Mapping[str, Any]) -> GameState:
    fields: dict[str, Any] = dict(state)
    open_pair = fields.pop("open")
    return GameState(**fields, open=OpenPair(**open_pair) if open_pair else None)
