"""Options of the analyses of datasets: `captau agree`, `sensitivity`, `complement`, `thresholds` and `probe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...datasets.errors import InputError, unknown
from ...datasets.reading.table import Columns
from ...metrics.base import Metric
from ..evaluation.probes.faults import CONTROLS, FAULTS
from ..evaluation.threshold_curves import Conjunction
from ..scoring.catalog import resolve_metrics
from ..scoring.protocol import Protocol
from ..statistics.bootstrap import StatisticsOptions
from . import shared
from .declaration import Composed, Options, PythonValue, option, part
from .large import columns_part
from .score import CANDIDATES_FROM_PYTHON, REFERENCES_FROM_PYTHON, NamedFile, one_file_of

#: What `captau agree` measures: ratings, captions, or the words that people use.
AGREEMENT_KINDS = ("ratings", "captions", "words")
#: Which caption of an image is held out.
HELD_OUT = ("each", "last", "draw")
#: Which items each distribution of ratings is of.
GROUPINGS = ("dataset", "system", "split", "human")
#: Options that not all kinds have, with the kinds that have them.
_KINDS_BY_OPTION = {
    "by": ("ratings",),
    "references": ("captions", "words"),
    "held_out": ("captions", "words"),
    "k": ("captions", "words"),
    "metrics": ("captions", "ratings"),
    "epsilon": ("ratings",),
    "words.n": ("words",),
    "words.scores": ("words",),
    "words.label": ("words",),
    "words.parts": ("words",),
    "protocol.dimension": ("ratings",),
    "protocol.systems": ("ratings",),
    "protocol.split": ("ratings",),
}
#: The options of a protocol that bear on raters alone.
_PROTOCOL = [o for o in shared.PROTOCOL if o.key in _KINDS_BY_OPTION]


def _has_reference_file(composed: Composed) -> bool:
    """Return whether captions of a file take the place of datasets."""
    # The demo is the default, which stands there where nobody names a dataset.
    names_dataset = tuple(composed["datasets"]) != ("demo",)
    if composed["references"] and names_dataset:
        raise InputError("give references=FILE or dataset=NAME, not both")
    return bool(composed["references"])


def _datasets_of(composed: Composed) -> dict[str, Protocol]:
    return {} if _has_reference_file(composed) else shared.protocols_of_people(composed)


def _computed_metrics(composed: Composed) -> tuple[Metric, ...]:
    if composed["metrics"] is not None:
        return resolve_metrics(composed["metrics"])
    return resolve_metrics("text") if composed["kind"] == "captions" else ()


def _check_epsilon(value: float, key: str) -> None:
    """Raise InputError where a difference of two shares is not from 0 to 1."""
    if not 0 <= value <= 1:
        raise InputError(f"{key} is {value}; a number from 0 to 1 is expected")


@dataclass(frozen=True, kw_only=True)
class AgreeOptions(shared.ScoringOptions):
    """Options of `captau agree`."""

    own_meaning: ClassVar[tuple[str, ...]] = ("metrics",)  # those of kind=captions
    python_positional: ClassVar[tuple[str, ...]] = ("dataset",)

    examples: ClassVar[str] = """
captau agree                                           the embedded demo
captau agree dataset=flickr8k_expert                   Table 3 of Scott et al. 2023
captau agree dataset=flickr8k_expert,demo            side by side
captau agree dataset=flickr8k_expert metrics=cider,judge.csv     metrics as one more rater
captau agree dataset=flickr8k_expert protocol.split=test
captau agree dataset=demo protocol.systems=exact,terse seed=7 draws=100
captau agree dataset=thumb protocol.dimension=precision,recall by=human      Figure 2 of Kasai et al. 2022
captau agree kind=captions references=captions_val2014.json      Chen et al. 2015, Table I
captau agree kind=words references=captions_val2014.json         its section 4.2
captau agree kind=words references=captions_val2014.json words.parts=true    its Figure 3
"""
    notes: ClassVar[str] = """
A dataset with one rating an item says nothing about agreement: its values are NaN, and the note gives the reason.
docs/agreement.md defines each measure; docs/human_agreement.md those of captions and words.

The options of caches, Java and weights are of use with kind=captions. Of several dimensions, a measure's name
begins with DIMENSION:
"""
    writes: ClassVar[str] = """
Writes agreement.csv, table.md, table.tex, run.json; with kind=ratings distributions.csv, rating_distribution.svg and
.png, stability.svg and .png, and with metrics= metric_raters.csv; with kind=captions human.csv; with kind=words words.csv,
word_agreement.svg and .png.
"""
    objective: ClassVar[str] = (
        "the mean over datasets and dimensions of Krippendorff's ordinal alpha; with kind=captions "
        "people's score by the first metric, with kind=words people's precision"
    )

    headings: ClassVar[Mapping[str, str]] = {
        "references": "Options of kind=captions and kind=words"
    }

    kind: str = option("ratings", "what people agree on", takes="ratings|captions|words")
    datasets: dict[str, Protocol] = part(_datasets_of, *shared.DATASETS, *_PROTOCOL, *shared.FILE)
    by: str = option(
        "dataset",
        "how mean ratings are grouped into distributions; human sets the system called human "
        "against all others",
        takes="|".join(GROUPINGS),
        check=shared.one_of(GROUPINGS, "value of by"),
    )
    seed: int = option(0, "the seed of all random draws", check=shared.at_least(0))
    draws: int = option(
        20,
        "the number of random draws; of three ratings where there are more, of halves of the "
        "ratings, and of captions with held_out=draw",
        check=shared.at_least(1, shared.MAX_DRAWS),
    )
    references: Path | None = option(
        None,
        "captions by image (default: the dataset's); the forms are those of captau score",
        takes="FILE",
    )
    held_out: str = option(
        "each",
        "which caption of an image is scored against the others; each takes every caption in turn,"
        " last takes the last one, as the paper does, and draw takes a random one (kind=captions "
        "only)",
        takes="each|last|draw",
        check=shared.one_of(HELD_OUT, "value of held_out"),
    )
    k: int | None = option(
        None,
        "the number of other captions; the first N + 1 captions of an image count (default: all; "
        "for kind=words one less than most images have)",
        check=shared.at_least(1),
    )
    metrics: tuple[Metric, ...] = part(
        _computed_metrics,
        shared.metrics_option(
            None,
            "suites and metrics; with kind=ratings those to compare with people as one more rater (default: none), with "
            "kind=captions those that score people's captions (default: text)",
        ),
        default=(),
    )
    epsilon: float = option(
        0.2,
        "what a person costs beside a metric, in the alternative-annotator test of metrics=; its authors name 0.2 for "
        "experts, 0.15 for skilled raters, 0.1 for crowds",
        check=_check_epsilon,
    )
    n_words: int = option(
        1000,
        "the number of words; the most frequent ones count",
        key="words.n",
        check=shared.at_least(1),
    )
    label: tuple[str, ...] = option(
        [],
        "words to show and to name in the figure",
        key="words.label",
        takes="A,B",
        read=shared.words_of,
    )
    scores: Path | None = option(
        None,
        "a system's scores, for its precision at human recall; CSV, JSON lines or Parquet with "
        "image_id, word and score",
        key="words.scores",
        takes="FILE",
    )

    has_parts: bool = option(
        False,
        "true adds nouns, verbs, adjectives and others; this is Figure 3 of the paper, and needs "
        "captau[neural]",
        key="words.parts",
    )

    details: bool = shared.details_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "words" and self.held_out == "draw":
            raise InputError(
                "held_out=draw needs kind=captions; for words, held_out=each is the mean of all draws"
            )
        # The class has the defaults of its fields.
        is_default = self.epsilon == type(self).epsilon
        if not is_default and not self.metrics:
            raise InputError("epsilon=… is for the metrics of metrics=; name them too")

    @classmethod
    def read(cls, composed: Composed) -> AgreeOptions:
        """Make the options of a composed configuration.

        Raises:
            InputError: on an unknown kind, an option of another one, or a value that makes no sense.
        """
        kind = composed["kind"]
        shared.check_choice("kind", kind, AGREEMENT_KINDS)
        for key in cls.changed_keys(composed, _KINDS_BY_OPTION):
            if kind not in _KINDS_BY_OPTION[key]:
                kinds = " or ".join(f"kind={name}" for name in _KINDS_BY_OPTION[key])
                raise InputError(f"{key}=… belongs to {kinds}")
        return super().read(composed)


#: What `captau sensitivity` varies.
SENSITIVITY_KINDS = ("images", "raters", "references", "power", "protocols", "length")


@dataclass(frozen=True, kw_only=True)
class SensitivityOptions(shared.MeasuringOptions):
    """Options of `captau sensitivity`."""

    examples: ClassVar[str] = """
captau sensitivity                                     the embedded demo, by number of images
captau sensitivity dataset=flickr8k_expert kind=protocols
captau sensitivity dataset=flickr8k_expert kind=images,raters,power metrics=bleu_4,cider
captau sensitivity dataset=thumb kind=references metrics=cider draws=20
"""
    writes: ClassVar[str] = """
Writes sensitivity.csv, table.md, table.tex, run.json; curves also as sensitivity.svg and sensitivity.png where
matplotlib is installed (pip install 'captau[report]'). docs/sensitivity.md explains each kind.
"""
    objective: ClassVar[str] = (
        "how far the first metric's coefficients move: the mean range of their values and bands over "
        "datasets, dimensions, kinds and coefficients, power apart"
    )

    kinds: tuple[str, ...] = option(
        "images",
        "which studies to run; images: a curve over the number of images, up to twice as many; "
        "raters: a curve over the number of ratings an item; references: a curve over the number "
        "of references, for which every metric scores again; power: the least difference between "
        "two metrics that the dataset can show; protocols: every combination of ratings, "
        "references, coefficient, copies of references and duplicates, and how far values and "
        "ranks move; length: coefficients within bands of captions of similar length",
        key="kind",
        takes="KIND|A,B",
        read=shared.words_of,
        check=shared.one_of(SENSITIVITY_KINDS),
    )
    draws: int | None = option(
        None,
        "the number of random draws (default: 1000 for images, power and length, 50 for raters, 5 "
        "for references)",
        check=shared.at_least(2, shared.MAX_DRAWS),
    )
    seed: int = option(0, "the seed of all random draws", check=shared.at_least(0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds:
            raise InputError(f"kind is empty; name at least one of {','.join(SENSITIVITY_KINDS)}")


@dataclass(frozen=True, kw_only=True)
class ComplementOptions(shared.MeasuringOptions):
    """Options of `captau complement`."""

    examples: ClassVar[str] = """
captau complement                                      the embedded demo
captau complement dataset=flickr8k_expert
captau complement dataset=thumb metrics=sacrebleu,rouge_score_l,cider draws=1000
"""
    writes: ClassVar[str] = """
Writes complementarity.csv, table.md, table.tex, run.json. docs/sensitivity.md explains what they hold.
"""
    objective: ClassVar[str] = (
        "the greatest R² that a selection by R² reaches on unseen images, the mean over datasets and "
        "dimensions"
    )

    draws: int = option(
        100,
        "the number of resampled datasets; inclusion of a metric is counted in them",
        check=shared.at_least(1, shared.MAX_DRAWS),
    )
    seed: int = option(0, "the seed of the folds and of all random draws", check=shared.at_least(0))


def _good_of(value: Any, key: str) -> float | Conjunction:
    try:
        return float(value)
    except (TypeError, ValueError):
        return Conjunction.parse(str(value), key)


def _check_good(value: float | Conjunction, key: str) -> None:
    if not isinstance(value, Conjunction):
        shared.check_share(value, key)


@dataclass(frozen=True, kw_only=True)
class CurveOptions(Options):
    """Options of precision-recall curves."""

    good: float | Conjunction = option(
        0.5,
        "when a caption is good; SHARE means that most of its ratings are at least this share of "
        "the scale, and 0.5 is the middle. Or conditions on dimensions, each met by most ratings: "
        "'correct>=1 and helpful>=1'",
        takes="SHARE|CONDITIONS",
        read=_good_of,
        check=_check_good,
        is_literal=True,
        python=PythonValue("float | str"),
    )
    precision: float = option(
        0.8,
        "the share of kept captions that should be good",
        takes="SHARE",
        check=shared.check_share,
    )


@dataclass(frozen=True, kw_only=True)
class ThresholdsOptions(CurveOptions, shared.MeasuringOptions):
    """Options of `captau thresholds`."""

    examples: ClassVar[str] = """
captau thresholds                                      the embedded demo
captau thresholds dataset=caption_quality 'metrics=rater(path=DIR),clipscore' precision=0.8
captau thresholds dataset=flickr8k_expert metrics=cider,spice good=0.66
captau thresholds dataset=thumb metrics=text 'good=precision>=4 and recall>=4'
"""
    writes: ClassVar[str] = """
Writes thresholds.csv (the curves), recall.csv, precision_recall.svg and .png, table.md, table.tex, run.json.
captau score keep.metric=… keep.above=… then filters your own captions.
"""
    objective: ClassVar[str] = (
        "the area under the first metric's precision-recall curve, the mean over datasets and dimensions"
    )


#: Which captions of a dataset `captau probe` gives a fault.
PROBED_CAPTIONS = ("candidates", "references")


def _probed_dataset_of(composed: Composed) -> str | None:
    if _has_reference_file(composed):
        return None
    names = shared.names_of(composed["datasets"])
    if len(names) > 1:
        raise InputError(
            f"captau probe takes one dataset; {len(names)} are named: {','.join(names)}"
        )
    return names[0]


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(shared.ScoringOptions):
    """Options of `captau probe`."""

    examples: ClassVar[str] = """
captau probe                                           the embedded demo, the text suite
captau probe dataset=thumb metrics=text                a dataset's captions
captau probe dataset=flickr8k_expert captions=references
captau probe references=refs.json metrics=text,sentence_cosine
captau probe dataset=sugarcrepe                        published faults beside captau's own
captau probe candidates=mine.json references=refs.json faults=gender,negation,joined
captau probe run=DIR 'metrics=file(path=scores.csv,name=Mine)'      scores of the pairs that a run wrote
"""
    notes: ClassVar[str] = """
Each fault is made by rule and seed; what cannot be made of a caption is counted in the notes (docs/probes.md). A metric
that only comes as a file scores the captions of probe_pairs.parquet: its file has item_id, which is a pair's item_id for
the original caption and its pair_id for the faulty one, and score.
"""
    writes: ClassVar[str] = """
Writes probes.csv (a row a metric and fault), probe_pairs.parquet (the pairs and their scores), probes.svg and .png,
table.md, table.tex, table.csv, run.json.
"""
    objective: ClassVar[str] = (
        "the mean over faults, controls apart, of the share that the first metric notices"
    )

    python_positional: ClassVar[tuple[str, ...]] = ("dataset", "metrics")

    dataset: str | None = part(_probed_dataset_of, *shared.DATASETS, *shared.FILE, default="demo")
    captions: str = option(
        "candidates",
        "which captions of a dataset get a fault: its candidates, or one reference of each image, which is left out "
        "of the references then; files of references alone always give references",
        takes="|".join(PROBED_CAPTIONS),
        check=shared.one_of(PROBED_CAPTIONS, "value of captions"),
    )
    candidates: NamedFile | None = option(
        None,
        "captions of your own, in the forms that captau score takes",
        read=lambda value, key: one_file_of(value, key, "captau probe"),
        takes="FILE",
        is_literal=True,
        python=replace(CANDIDATES_FROM_PYTHON, annotation="Captions | None"),
    )
    references: NamedFile | None = option(
        None,
        "captions by image, instead of a dataset's; in the forms that captau score takes",
        read=lambda value, key: one_file_of(value, key, "captau probe"),
        takes="FILE",
        is_literal=True,
        python=replace(REFERENCES_FROM_PYTHON, annotation="References | None"),
    )
    columns: Columns = columns_part()
    metrics: tuple[Metric, ...] = shared.metrics_part(shared.METRICS)
    faults: tuple[str, ...] = option(
        [],
        f"which faults and controls (default: all); {', '.join([*FAULTS, *CONTROLS])}; of sugarcrepe and valse their own "
        "kinds besides, such as swap_obj",
        takes="A,B",
        read=shared.words_of,
    )
    pairs: int = option(1000, "the most pairs of a fault", check=shared.at_least(1, 1_000_000))
    seed: int = option(0, "the seed of all draws of faults", check=shared.at_least(0))
    details: bool = shared.details_option()
    statistics: StatisticsOptions = shared.statistics_part(
        "interval",
        "replicates",
        "level",
        "seed",
        interval="expanded, percentile or bca (bootstrap over images), none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        shared.check_not_fisher(self.statistics)
        if self.candidates and not self.references:
            raise InputError("candidates= needs references=FILE")

    def choose_faults(self, kinds: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the chosen ones of a dataset's own kinds of faults, and those of captau's faults and controls, in order.

        Raises:
            InputError: where a name is neither.
        """
        own_faults = [*FAULTS, *CONTROLS]
        for fault in self.faults:
            if fault not in kinds and fault not in own_faults:
                raise unknown("fault", fault, [*own_faults, *kinds])

        chosen_kinds = [kind for kind in kinds if not self.faults or kind in self.faults]
        return chosen_kinds, [f for f in own_faults if not self.faults or f in self.faults]
