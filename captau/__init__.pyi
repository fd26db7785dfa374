"""The public names of captau, for editors and type checkers; scripts/docs/write_stub.py writes this file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captau import compat as compat
from captau import testing as testing
from captau.benchmarks.commands.score import ScoreResults
from captau.benchmarks.options.score import Captions, References
from captau.benchmarks.reporting.printed_tables import PrintedTables
from captau.benchmarks.reporting.run_results import Results as Results
from captau.benchmarks.scoring.protocol import Protocol as Protocol
from captau.datasets.errors import InputError as InputError
from captau.datasets.registry import load as load
from captau.datasets.schema import CaptionSet as CaptionSet
from captau.metrics.base import Metric as Metric
from captau.metrics.external import MetricSource
from captau.metrics.external import metric as metric
from captau.metrics.registry import register as register
from captau.metrics.reward import reward as reward

__version__: str

__all__ = [
    "CaptionSet",
    "InputError",
    "Metric",
    "Protocol",
    "Results",
    "agree",
    "bench",
    "calibrate",
    "compare",
    "compat",
    "complement",
    "estimate",
    "load",
    "metric",
    "probe",
    "rank",
    "register",
    "reproduce",
    "reward",
    "score",
    "sensitivity",
    "table",
    "testing",
    "thresholds",
]

def agree(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    *,
    kind: str = "ratings",
    by: str = "dataset",
    seed: int = 0,
    draws: int = 20,
    protocol: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    references: str | Path | None = None,
    held_out: str = "each",
    k: int | None = None,
    metrics: MetricSource | Sequence[MetricSource] | None = None,
    epsilon: float = 0.2,
    n_words: int = 1000,
    label: str | Sequence[str] = (),
    scores: str | Path | None = None,
    has_parts: bool = False,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Measure how far people agree on ratings, captions or words; `captau agree` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        kind: what people agree on. One of `ratings`, `captions`, `words`.
        by: how mean ratings are grouped into distributions; human sets the system called human against
            all others. One of `dataset`, `system`, `split`, `human`.
        seed: the seed of all random draws.
        draws: the number of random draws; of three ratings where there are more, of halves of the
            ratings, and of captions with held_out=draw.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`). Keys: dimension, systems, split.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        references: captions by image (default: the dataset's); the forms are those of captau score.
        held_out: which caption of an image is scored against the others; each takes every caption in
            turn, last takes the last one, as the paper does, and draw takes a random one (kind=captions
            only).
        k: the number of other captions; the first N + 1 captions of an image count (default: all; for
            kind=words one less than most images have).
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        epsilon: what a person costs beside a metric, in the alternative-annotator test of metrics=; its
            authors name 0.2 for experts, 0.15 for skilled raters, 0.1 for crowds.
        n_words: the number of words; the most frequent ones count.
        label: words to show and to name in the figure.
        scores: a system's scores, for its precision at human recall; CSV, JSON lines or Parquet with
            image_id, word and score.
        has_parts: true adds nouns, verbs, adjectives and others; this is Figure 3 of the paper, and
            needs captau[neural].
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `agreement.csv`; of ratings `distributions.csv` and, with
            metrics, `metric_raters.csv`, of captions `human.csv` and of words `words.csv` besides.

    Raises:
        InputError: on an unknown name, missing or malformed data, a dataset without ratings, or
            references of which no image has two.
    """

def bench(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    ceilings: bool = True,
    floors: bool = False,
    protocol: str | Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Score datasets with metrics and correlate with people's ratings; `captau bench` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        ceilings: false leaves out the rows of what people reach; they stand below the metrics where
            items have several ratings (captau agree).
        floors: true adds rows that a metric has to beat; these are random scores and caption length.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed, correction, disattenuate.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `correlations` and `scores` are DataFrames.

    Raises:
        InputError: on an unknown name, missing or malformed data, or an unwritable folder.
    """

def calibrate(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    good: float | str = 0.5,
    precision: float = 0.8,
    choose: str = "youden",
    threshold: float | Mapping[str, float] | None = None,
    probabilities: str = "logistic",
    bins: int = 10,
    repeats: MetricSource | Sequence[MetricSource] | None = None,
    pairs: str | Path | None = None,
    candidates: Captions | None = None,
    references: References | None = None,
    protocol: str | Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Measure whether the yes of metrics can be believed; `captau calibrate` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        good: when a caption is good; SHARE means that most of its ratings are at least this share of
            the scale, and 0.5 is the middle. Or conditions on dimensions, each met by most ratings:
            'correct>=1 and helpful>=1'.
        precision: the share of kept captions that should be good.
        choose: what the threshold is chosen for; youden (the greatest TPR + TNR), kappa, or precision
            (the greatest recall at precision=).
        threshold: captions with this score or a better one get a yes, instead of a chosen threshold; a
            number, or one a metric: {cider: 0.8}.
        probabilities: the rule from scores to probabilities of a good caption; logistic, isotonic, or
            none, where scores are probabilities.
        bins: the most bins of the reliability diagram.
        repeats: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        pairs: a judge's answers about the pairs of datasets with preferences: a file with the columns
            image, caption_a, caption_b, answer and order (ab or ba), or pairwise or
            pairwise_references, which ask each mllm_judge of metrics= in both orders, with the image or
            with the references.
        candidates: one caption per image: a file (docs/own_captions.md), a dict image id → caption, a
            list of `{"image_id": …, "caption": …}`, or a DataFrame with these columns. Several systems
            are a list of files, a dict from names to any of these except a text, or a DataFrame with a
            column `system`.
        references: a file, a dict image id → captions, a list of `{"image_id": …, "references": […]}`,
            COCO's annotations, or a DataFrame with the columns `image_id` and `references`, or
            `image_id` and `caption`. Several sets are a list of files, or a dict from names to any of
            these except a text.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        columns: the columns, or keys, of files of captions, such as `{"caption": "text"}`. Keys:
            image_id, caption, references, rows, candidate_id, candidate_caption, candidate_rows.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `calibration.csv`, a row a measure, `bins.csv` and `roc.csv`.

    Raises:
        InputError: as in `captau.bench`, or on too few good or bad captions in a half of the images.
    """

def compare(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    ceilings: bool = True,
    floors: bool = False,
    tests: str | Sequence[str] = ("bootstrap", "permutation", "williams", "mcnemar"),
    protocol: str | Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Test which metrics differ in their agreement with people; `captau compare` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        ceilings: false leaves out the rows of what people reach; they stand below the metrics where
            items have several ratings (captau agree).
        floors: true adds rows that a metric has to beat; these are random scores and caption length.
        tests: which significance tests; bootstrap is paired, over images; permutation is PERM-BOTH;
            williams (Pearson's r) and mcnemar (accuracy) treat data points as independent
            (docs/statistics.md).
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed, correction, disattenuate, swap.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `significance` holds a DataFrame with one row per pair of metrics, coefficient
            and test, and the matrix of corrected p-values.

    Raises:
        InputError: as in `captau.bench`, or if fewer than two metrics are named.
    """

def complement(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    draws: int = 100,
    seed: int = 0,
    protocol: str | Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Show which metrics say the same, and which add something; `captau complement` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        draws: the number of resampled datasets; inclusion of a metric is counted in them.
        seed: the seed of the folds and of all random draws.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `complementarity.csv`.

    Raises:
        InputError: as in `captau.bench`, for a single metric, or a dataset without ratings.
    """

def estimate(
    candidates: Captions | Mapping[str, Captions] | Sequence[str | Path],
    references: References | None = None,
    ratings: str | Path | None = None,
    *,
    metrics: MetricSource | Sequence[MetricSource] = "text",
    chosen: str = "random",
    dimension: str | None = None,
    population: str = "images",
    plan: bool = False,
    n: int | None = None,
    width: float | None = None,
    difference: float | None = None,
    power: float = 0.8,
    sd: float | None = None,
    choose: str = "random",
    form: str = "four",
    images: str | Path | None = None,
    partial: bool = False,
    columns: Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
) -> Results:
    """Estimate people's mean rating of systems from few ratings, and plan which captions to rate; `captau estimate` from Python.

    Args:
        candidates: one caption per image: a file (docs/own_captions.md), a dict image id → caption, a
            list of `{"image_id": …, "caption": …}`, or a DataFrame with these columns. Several systems
            are a list of files, a dict from names to any of these except a text, or a DataFrame with a
            column `system`.
        references: a file, a dict image id → captions, a list of `{"image_id": …, "references": […]}`,
            COCO's annotations, or a DataFrame with the columns `image_id` and `references`, or
            `image_id` and `caption`. Several sets are a list of files, or a dict from names to any of
            these except a text.
        ratings: ratings of some of them: a table with image_id and value (numbers, or yes and no), and
            perhaps system, caption, rater, dimension; or of comparisons with winner or strength.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        chosen: how the rated images were chosen; random, shuffled (the first ones of a file that had
            been shuffled), or a file with image_id and probability, such as plan.csv.
        dimension: of the dimensions of the ratings, the one to estimate.
        population: of what intervals speak; captions: these alone, images: images like these, raters:
            raters like these as well.
        plan: true chooses which captions to rate next, and says how many.
        n: with plan=true, the number of images to have rated in all.
        width: with plan=true, as many as give an interval of this width, from low to high.
        difference: with plan=true, as many as show a difference of this size between two systems.
        power: the probability with which difference= is to be found.
        sd: the standard deviation of ratings, where no ratings= of a pilot tell it.
        choose: how plan=true chooses; random, stratified (by score), guided (more where metrics or the
            pilot's ratings disagree).
        form: the study's question; four: a rating from 1 to 5, good_bad: yes or no, ab: which of two
            systems.
        images: the folder of images, for the study and for metrics that look at them.
        partial: true takes the images that all systems have captioned.
        columns: the columns, or keys, of files of captions, such as `{"caption": "text"}`. Keys:
            image_id, caption, references, rows, candidate_id, candidate_caption, candidate_rows.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: level, seed, correction.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.

    Returns:
        `Results`, whose `frames` have `estimates.csv` and `gains.csv`, or with `plan` `plan.csv`.

    Raises:
        InputError: on a missing or malformed file, ratings of other captions, rated images that are no
            random or recorded choice, or too few of them.
    """

def probe(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    captions: str = "candidates",
    candidates: Captions | None = None,
    references: References | None = None,
    faults: str | Sequence[str] = (),
    pairs: int = 1000,
    seed: int = 0,
    columns: Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Measure which faults in captions metrics notice; `captau probe` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        captions: which captions of a dataset get a fault: its candidates, or one reference of each
            image, which is left out of the references then; files of references alone always give
            references.
        candidates: one caption per image: a file (docs/own_captions.md), a dict image id → caption, a
            list of `{"image_id": …, "caption": …}`, or a DataFrame with these columns. Several systems
            are a list of files, a dict from names to any of these except a text, or a DataFrame with a
            column `system`.
        references: a file, a dict image id → captions, a list of `{"image_id": …, "references": […]}`,
            COCO's annotations, or a DataFrame with the columns `image_id` and `references`, or
            `image_id` and `caption`. Several sets are a list of files, or a dict from names to any of
            these except a text.
        faults: which faults and controls (default: all); object, attribute, number, gender, roles,
            negation, addition, other_image, half, twice, eight_times, shuffled, sorted, joined,
            generic, empty, copy, other_reference, case, synonym; of sugarcrepe and valse their own
            kinds besides, such as swap_obj.
        pairs: the most pairs of a fault.
        seed: the seed of all draws of faults.
        columns: the columns, or keys, of files of captions, such as `{"caption": "text"}`. Keys:
            image_id, caption, references, rows, candidate_id, candidate_caption, candidate_rows.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `probes.csv` and `probe_pairs.parquet`.

    Raises:
        InputError: on an unknown name, missing or malformed data, or captions without references.
    """

def rank(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    weights: Mapping[str, float] | None = None,
    by: str | None = None,
    ties: str = "davidson",
    control: str | Sequence[str] | None = None,
    best_worst: str | Sequence[str] | None = None,
    protocol: str | Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Rank captioning systems by people's judgements of their captions; `captau rank` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        weights: adds a weighted total of dimensions: {precision: 0.5, recall: 0.5}; penalties and
            faults have negative weights.
        by: ratings or preferences (default: ratings if the dataset has them).
        ties: the model of ties between two captions: davidson, rao_kupper.
        control: of preferences, adds a ranking with these features of captions held equal: length,
            characters, sentences, words_per_sentence, commas, or a metric of metrics=, such as a column
            of your own (metrics=mine.csv control=mine).
        best_worst: the dimensions in which a system must be best, or worst, at once (default: all
            except penalties and totals).
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed, correction.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        The run's tables: `frames["systems.csv"]` and the others of docs/rank.md are DataFrames.

    Raises:
        InputError: as in `captau.bench`, or where no dataset has two systems or the judgements that
            `by` names.
    """

def reproduce(
    paper: str | Sequence[str],
    *,
    leave_out: str | Sequence[str] = (),
    raters: str | Path | Sequence[str | Path] = (),
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
) -> Results:
    """Rebuild published tables and compare cell by cell; `captau reproduce` from Python.

    Args:
        paper: which papers (captau --help all lists them).
        leave_out: metrics to leave out, such as [spice]; SPICE parses 20,000 captions the first time
            (docs/spice.md).
        raters: folders of captau train, whose raters fill the rows of the papers' own models that fit
            them (several seeds: their mean); a rater fills no cell of images that it was trained on.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.

    Returns:
        `Results`, whose `comparison` is a DataFrame with a row for each printed cell.

    Raises:
        InputError: on an unknown paper, malformed data, or where nothing is computed for want of files.
    """

def score(
    candidates: Captions | Mapping[str, Captions] | Sequence[str | Path],
    references: References | Mapping[str, References] | Sequence[str | Path] | None = None,
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    images: str | Path | None = None,
    partial: bool = False,
    flagged: str = "drop",
    split: str | None = None,
    normalise: str = "none",
    trust: str | Path | None = "published",
    notes: str = "brief",
    keep_metric: str | None = None,
    keep_above: float | None = None,
    columns: Mapping[str, Any] | None = None,
    statistics: Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
) -> ScoreResults:
    """Score your own captions; `captau score` from Python.

    Args:
        candidates: one caption per image: a file (docs/own_captions.md), a dict image id → caption, a
            list of `{"image_id": …, "caption": …}`, or a DataFrame with these columns. Several systems
            are a list of files, a dict from names to any of these except a text, or a DataFrame with a
            column `system`.
        references: a file, a dict image id → captions, a list of `{"image_id": …, "references": […]}`,
            COCO's annotations, or a DataFrame with the columns `image_id` and `references`, or
            `image_id` and `caption`. Several sets are a list of files, or a dict from names to any of
            these except a text.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        images: the folder of images, for metrics that look at them.
        partial: true scores the images that all systems have captioned; without it, a missing caption
            is an error. With several sets of references, each may have its own images.
        flagged: drop leaves out references that their own file flags as void, such as VizWiz's
            is_rejected and is_precanned, and counts them; keep scores with them.
        split: of references that name splits, such as Karpathy's files, those of this one; the default
            is all.
        normalise: the text rule for captions and references before they are scored: none, thumb
            (docs/protocols.md).
        trust: the source of each metric's agreement with people; published means the papers, DIR a
            finished run of captau bench, or of captau rank for systems. It is shown where captions like
            yours were judged; null shows none.
        notes: brief says what a reader of the table needs, full explains all that it shows, as table.md
            does; short prints the metrics' signatures in one line, as papers quote them, and what looks
            like a fault of the files; the rest is in run.json.
        keep_metric: writes kept.json: the captions that this metric gives keep.above or more (captau
            thresholds shows what a threshold keeps).
        keep_above: the lowest score that is kept.
        columns: the columns, or keys, of files of captions, such as `{"caption": "text"}`. Keys:
            image_id, caption, references, rows, candidate_id, candidate_caption, candidate_rows.
        statistics: options of intervals and tests, such as `{"interval": "bca", "replicates": 10000}`.
            Keys: interval, replicates, level, seed, correction.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.

    Returns:
        `ScoreResults`, whose `corpus`, `scores` and `differences` are DataFrames.

    Raises:
        InputError: on an unknown name, a missing or malformed file, two captions for an image, a
            caption of an image without references, an image without a caption, or captions of none of
            the forms above.
    """

def sensitivity(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    kind: str | Sequence[str] = "images",
    draws: int | None = None,
    seed: int = 0,
    protocol: str | Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Vary the images, raters, references, protocol or caption length behind correlations; `captau sensitivity` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        kind: which studies to run; images: a curve over the number of images, up to twice as many;
            raters: a curve over the number of ratings an item; references: a curve over the number of
            references, for which every metric scores again; power: the least difference between two
            metrics that the dataset can show; protocols: every combination of ratings, references,
            coefficient, copies of references and duplicates, and how far values and ranks move; length:
            coefficients within bands of captions of similar length.
        draws: the number of random draws (default: 1000 for images, power and length, 50 for raters, 5
            for references).
        seed: the seed of all random draws.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `sensitivity.csv`.

    Raises:
        InputError: on an unknown name, missing or malformed data, or an unwritable folder.
    """

def table(
    run: str | Path | Sequence[str | Path] = "last",
    *,
    intervals: str | None = None,
    ranks: str = "superscript",
    published: str | Sequence[str] | None = None,
    coefficients: str | Sequence[str] | None = None,
    dimensions: str | Sequence[str] | None = None,
    rows: str | Sequence[str] | None = None,
    sort: str | Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    own: str | Sequence[str] = ("given",),
    notes: str = "brief",
    title: str | None = None,
    label: str | None = None,
) -> PrintedTables:
    """Join finished runs, and published numbers, in one table; `captau table` from Python.

    Args:
        run: folders of finished runs; last is the newest in results/runs/. Several are of bench,
            compare, reproduce or train, or all of score.
        intervals: subscript, plusminus or none; both ends, half the width or no interval (default:
            subscript, but none beside several datasets).
        ranks: superscript, none, or groups: rows that share a rank in the column that sorts stand under
            a heading.
        published: papers whose numbers stand beside yours; only those of the same datasets and
            coefficients, one a metric and column.
        coefficients: only these columns, in this order, or headline (the default: one a dataset, and
            the mean) or all (those of the protocols; the default of reproduce); of runs of score, these
            metrics.
        dimensions: only these dimensions or categories, in this order.
        rows: only these metrics, in this order; also labels and groups (bleu_4, CIDEr, ceilings), of
            which the best stands first, and systems of score.
        sort: the column that sorts rows within groups, best first; a coefficient, dataset or dimension,
            or several that together name one column (default: the mean, or else the first column).
        names: labels of your own by metric or label: {cider: CIDEr-D}.
        own: your own rows; they are marked (ours) where no heading says it; metrics, labels or groups.
        notes: brief, full or none; brief says how to read the numbers, full adds sources and
            signatures.
        title: the line above the table.
        label: LaTeX's \\label.

    Returns:
        `PrintedTables`, which a notebook shows; `table()` is a DataFrame, `to_latex()` and
            `to_markdown()` are texts.

    Raises:
        InputError: on an unknown name, a folder without a finished run, runs over different data, or
            runs that have a table of their own, such as those of rank.
    """

def thresholds(
    dataset: str | CaptionSet | Sequence[str | CaptionSet] = "demo",
    metrics: MetricSource | Sequence[MetricSource] = "text",
    *,
    good: float | str = 0.5,
    precision: float = 0.8,
    protocol: str | Mapping[str, Any] | None = None,
    data_root: str | Path | None = None,
    output_dir: str | Path | None = None,
    cache_root: str | Path | None = None,
    cache_scores: str | Path | None = None,
    cache_use: bool = True,
    file: Mapping[str, Any] | None = None,
) -> Results:
    """Compute each metric's precision and recall by threshold; `captau thresholds` from Python.

    Args:
        dataset: the names of datasets or of named sets, or your own `CaptionSet` objects, which have
            the usual protocol of `dataset=file`.
        metrics: suites, metric specs (`"cider(variant=plain)"`, `"mine.py:overlap"`, `"mine.csv"`),
            functions, or `Metric` objects and classes (docs/new_metric.md).
        good: when a caption is good; SHARE means that most of its ratings are at least this share of
            the scale, and 0.5 is the middle. Or conditions on dimensions, each met by most ratings:
            'correct>=1 and helpful>=1'.
        precision: the share of kept captions that should be good.
        protocol: what differs from each dataset's usual protocol, such as `{"dimension": "recall",
            "coefficients": ["tau_c"]}` (see `Protocol`), or the name of a protocol. Keys: name,
            dimension, ratings, references, k, corpus, systems, split, coefficients, undefined, level,
            own_references, normalise, ties, rater_scale.
        data_root: the folder of datasets (default: $CAPTAU_DATA, else the user's cache folder).
        output_dir: the folder for the run's files; None writes no files.
        cache_root: the folder of stored scores and METEOR's tables (default: $CAPTAU_CACHE, else the
            user's cache folder).
        cache_scores: another place for stored scores: a shared folder, or s3://BUCKET/FOLDER.
        cache_use: false neither reads nor stores scores.
        file: options of the dataset `file`, which reads your own judgements, such as `{"path":
            "mine.csv", "value": "score"}`. Keys: path, name, image, caption, value, rater, references,
            dimension, system, split, low, high, step, scales, caption_a, caption_b, winner, winners,
            strength, system_a, system_b, cluster, missing, flagged, where.

    Returns:
        `Results`, whose `frames` have `thresholds.csv`, the curves, and `recall.csv`, a row a metric.

    Raises:
        InputError: as in `captau.bench`, or on a dataset without ratings, or with good captions alone,
            or none.
    """
