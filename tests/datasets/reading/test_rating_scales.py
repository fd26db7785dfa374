"""Scales beside a table of ratings: written, read back, used by the commands, and what can be wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from captau.datasets.reading.rating_scales import (
    format_conditions,
    format_scales,
    read_dimensions,
    read_scales,
    read_table_conditions,
    scales_of_option,
    scales_path,
)
from captau.datasets.reading.scales_model import Conditions
from captau.datasets.registry import load
from captau.datasets.schema import Scale
from tests.conftest import run_captau, says

#: Scales as Kasai et al. 2022 (section 2.2) have them, penalties stored negative.
THUMB_SCALES = {"precision": Scale(1, 5, 1), "recall": Scale(1, 5, 1), "fluency": Scale(-5, 0)}
THUMB_YAML = """\
scales:
  precision: {low: 1, high: 5, step: 1}
  recall: {low: 1, high: 5, step: 1}
  fluency: {low: -5, high: 0}
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three systems' captions of four images, rated on three dimensions by two raters."""
    rows = [
        f"i{image},c {image} {system},{system},{dimension},{rater},{value}"
        for image in range(4)
        for system in "ABC"
        for rater in ("ann", "bob")
        for dimension, value in (
            ("precision", 2 + (image + ord(system)) % 3),
            ("recall", 2 + (image * 2 + ord(system) + len(rater) * (rater == "bob")) % 3),
            ("fluency", -0.1 * (image % 2)),
        )
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["image,caption,system,dimension,rater,value", *rows]) + "\n")
    return path


def write_scales(table: Path, text: str) -> Path:
    path = table.with_suffix(".yaml")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "scales", [THUMB_SCALES, {"fit": Scale(0, 1, 0.125), "größe: 'a'": Scale(-0.5, 0.5)}]
)
def test_written_scales_read_back_equal(scales: dict[str, Scale], tmp_path: Path) -> None:
    table = tmp_path / "ratings.csv"
    write_scales(table, format_scales(scales))
    assert read_scales(table) == scales


def test_totals_are_read_back(table: Path) -> None:
    write_scales(table, format_scales(THUMB_SCALES, ["recall"]))
    assert load("file", path=table).card.totals == ("recall",)


@pytest.mark.parametrize("key", ["totals", "faults"])
def test_a_total_or_fault_has_a_scale(key: str, table: Path) -> None:
    path = write_scales(table, f"{THUMB_YAML}{key}: [sum]\n")
    with says(f"{path}:5: {key}: 'sum' has no scale above"):
        read_scales(table)


def test_agreement_on_a_fault_is_positive_where_scores_fall_as_it_grows(tmp_path: Path) -> None:
    captions = ["a dog", "a cat", "a cat on a mat", "a man on a horse"]
    for name, values in (("value", [1, 2, 3, 4]), ("score", [0.9, 0.5, 0.4, 0.1])):
        lines = [f"{i},{c},{v}" for i, (c, v) in enumerate(zip(captions, values, strict=True))]
        text = "\n".join([f"image_id,caption,{name}", *lines, ""])
        (tmp_path / f"{name}.csv").write_text(text)
    words = [
        *("dataset=file", f"file.path={tmp_path / 'value.csv'}", "file.image=image_id"),
        *("file.dimension=invented", f"metrics=file(path={tmp_path / 'score.csv'},name=mine)"),
        *("protocol.coefficients=tau_b", "statistics.interval=none", "ceilings=false"),
    ]
    for lines, expected in (("", -1.0), ("faults: [invented]\n", 1.0)):
        write_scales(tmp_path / "value.csv", f"scales:\n  invented: {{low: 1, high: 4}}\n{lines}")
        folder = tmp_path / f"run{expected}"
        assert run_captau("bench", *words, f"output_dir={folder}") == 0
        values = pd.read_csv(folder / "correlations.csv").set_index("coefficient")["value"]
        assert values["tau_b"] == expected


def test_the_text_of_the_file_is_the_documented_one() -> None:
    assert format_scales(THUMB_SCALES) == THUMB_YAML


def test_a_table_without_a_file_of_scales_has_none(tmp_path: Path) -> None:
    assert read_scales(tmp_path / "ratings.csv") == {}


@pytest.mark.parametrize(
    "text",
    [
        "format: 1\nmetrics: {cider: {}}\n",
        "file: {path: ratings.csv, low: 1, high: 5}\n",
        "- a\n- b\n",
    ],
)
def test_a_file_of_something_else_is_not_of_scales(text: str, table: Path) -> None:
    """Such as the baseline of `captau check`, or a dataset's own file, that has the name of its table."""
    write_scales(table, text)
    assert read_scales(table) == {}
    assert read_table_conditions(table) == {}
    assert read_dimensions(table, "totals") == ()
    assert [Path(source.path) for source in load("file", path=table).card.sources] == [table]


def test_the_card_has_the_scales_of_the_file(table: Path) -> None:
    assert load("file", path=table).card.scales["precision"] == Scale(2, 4)
    sidecar = write_scales(table, THUMB_YAML)
    card = load("file", path=table).card
    assert card.scales == THUMB_SCALES
    assert [Path(source.path) for source in card.sources] == [table, sidecar]


def test_options_go_before_the_file_of_scales(table: Path) -> None:
    write_scales(table, THUMB_YAML)
    options: dict[str, Any] = {"scales": {"fluency": {"low": -2, "high": 0}}, "high": 10}
    scales = load("file", path=table, **options).card.scales
    assert scales["fluency"] == Scale(-2, 0)
    assert scales["precision"] == scales["recall"] == Scale(1, 10, 1)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("agree", "agreement.csv"),
        pytest.param("rank", "systems.csv", marks=pytest.mark.slow),
        pytest.param("bench", "correlations.csv", marks=pytest.mark.slow),
        ("thresholds", "thresholds.csv"),
    ],
)
def test_commands_read_the_scales_beside_the_table(
    command: str, file: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "python(tests.datasets.reading.test_rating_scales:caption_lengths)"
    metrics = [] if command == "agree" else [f'metrics=["{source}"]']
    options = [f"file.path={table}", *metrics, f"output_dir={tmp_path / 'out'}"]
    if command == "thresholds":
        options.append("protocol.dimension=precision")
    write_scales(table, THUMB_YAML)
    assert run_captau(command, "dataset=file", *options) == 0
    assert len(pd.read_csv(tmp_path / "out" / file))
    write_scales(table, THUMB_YAML.replace("high: 5", "high: 3", 1))
    assert run_captau(command, "dataset=file", *options) == 2
    assert "value is 4, not on the scale 1 to 3 in steps of 1" in capsys.readouterr().err


def caption_lengths(items: pd.DataFrame) -> list[float]:
    """Return something to call a metric."""
    return [float(sum(map(ord, caption))) for caption in items["caption"]]


FAULTS = {
    "no YAML": ("scales: {", ":1: "),
    "another field": (
        f"{THUMB_YAML}name: x\n",
        ":5: name: unknown field 'name': known: conditions, faults, scales, totals",
    ),
    "a misspelt field alone": (
        "scale:\n  recall: {low: 1, high: 5}\n",
        ":1: scale: unknown field 'scale': did you mean scales?",
    ),
    "no field above the scales": (
        "recall: {low: 1, high: 5}\n",
        ":1: recall: unknown field 'recall': did you mean scales? known: conditions, faults, scales, totals",
    ),
    "no scales": ("", ":1: scales: it is empty"),
    "a list": ("scales: [1, 2]\n", ":1: scales: [1, 2]: a mapping of fields is expected"),
    "no high": ("scales:\n  recall: {low: 1}\n", ":2: scales.recall.high: this field is required"),
    "a word": (
        "scales:\n  recall: {low: one, high: 5}\n",
        ":2: scales.recall.low: 'one' is not a number",
    ),
    "the wrong way": (
        "scales:\n  recall: {low: 5, high: 1}\n",
        ":2: scales.recall.high: 1 is not above low, 5",
    ),
    "uneven steps": (
        "scales:\n  recall: {low: 1, high: 5, step: 3}\n",
        ":2: scales.recall.step: steps of 3 do not lead from 1 to 5",
    ),
    "an unknown part": (
        "scales:\n  recall: {low: 1, high: 5, steps: 1}\n",
        ":2: scales.recall.steps: unknown field 'steps': did you mean step?",
    ),
    "twice": (
        "scales:\n  recall: {low: 1, high: 5}\n  recall: {low: 1, high: 4}\n",
        ":3: scales.recall appears twice; keep one of them",
    ),
    "a missing dimension": (
        "scales:\n  precison: {low: 1, high: 5}\n",
        ":1: scales: ratings.csv has ratings of 'precision', which has no scale there",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_malformed_file_of_scales_gives_file_and_line(fault: str, table: Path) -> None:
    text, part = FAULTS[fault]
    sidecar = write_scales(table, text)
    with says(f"{sidecar}{part}"):
        load("file", path=table)


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ({"fluenc": {"low": 0, "high": 1}}, "did you mean fluency?"),
        ({"fluency": {"low": 0}}, "{DIMENSION: {low: 1, high: 5, step: 1}} is expected"),
        ("five", "file.scales is 'five'; {DIMENSION:"),
    ],
)
def test_a_malformed_option_of_scales_shows_its_form(option: Any, part: str, table: Path) -> None:
    with says("file.scales", part):
        load("file", path=table, scales=option)


def test_scales_are_written_in_order_in_letters_as_they_are_and_in_one_line(tmp_path: Path) -> None:
    long = "größe " + "x" * 1100 + " y"
    scales = {"größe": Scale(0.5, 1, 0.25), "a": Scale(-5, 0), long: Scale(1.0, 2.0, 1.0)}
    text = format_scales(scales, ["größe", "a"])
    assert text == (
        "scales:\n"
        "  größe: {low: 0.5, high: 1, step: 0.25}\n"
        "  a: {low: -5, high: 0}\n"
        f"  ? {long}\n"
        "  : {low: 1, high: 2, step: 1}\n"
        "totals: [größe, a]\n"
    )
    table = tmp_path / "t.csv"
    write_scales(table, f"{text}faults: [a]\n")
    assert read_scales(table) == scales
    assert read_dimensions(table, "totals") == ("größe", "a")
    assert read_dimensions(table, "faults") == ("a",)
    assert read_dimensions(tmp_path / "none.csv", "totals") == ()
    assert scales_path(table) == tmp_path / "t.yaml"


def test_the_ends_of_a_scale_lie_within_a_thousand_millions_of_0(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    path = write_scales(
        table, "scales:\n  a: {low: -1000000000, high: 1000000000, step: 1000000000}\n"
    )
    assert read_scales(table) == {"a": Scale(-1e9, 1e9, 1e9)}
    for fields, message in {
        "low: -1000000001, high: 1": "low: -1000000001 is not a number from -1e+09 to 1e+09",
        "low: 1, high: 1000000001": "high: 1000000001 is not a number from -1e+09 to 1e+09",
        "low: 0, high: 5, step: 1000000001": "step: 1000000001 is not a number from 0 to 1e+09",
        "low: 0, high: 5, step: -1": "step: -1 is not a number from 0 to 1e+09",
        "low: 0, high: 5, step: 0": "step: steps of 0 do not lead from 0 to 5",
        "low: 0, high: 5, step: 5.5": "step: steps of 5.5 do not lead from 0 to 5",
        "low: 2.5, high: 2.5": "high: 2.5 is not above low, 2.5",
    }.items():
        write_scales(table, f"scales:\n  a: {{{fields}}}\n")
        with says(f"{path}:2: scales.a.{message}"):
            read_scales(table)
    write_scales(table, "scales: {a: {low: 0, high: 0.5, step: 0.5}}")
    assert read_scales(table) == {"a": Scale(0, 0.5, 0.5)}
    with says(
        f"{path}:1: scales: it is empty; write for each dimension NAME: {{low: 1, high: 5, step: 1}}"
    ):
        write_scales(table, "")
        read_scales(table)


def test_conditions_are_written_and_read_back(tmp_path: Path) -> None:
    conditions = {"countries": "US, großes UK", "pay": "x" * 499 + " "}
    text = format_conditions(conditions)
    assert text == f"conditions:\n  countries: US, großes UK\n  pay: '{conditions['pay']}'\n"
    assert format_conditions({}) == ""
    table = tmp_path / "t.csv"
    assert read_table_conditions(table) == {}
    path = write_scales(table, f"{THUMB_YAML}{text}")
    assert read_table_conditions(table) == conditions
    assert list(read_scales(table)) == ["precision", "recall", "fluency"]
    every = {name: f"of {name}" for name in Conditions.model_fields}
    assert tuple(every) == (
        *("countries", "approval_rate", "tasks", "pay", "qualification", "training", "raters"),
    )
    write_scales(table, format_conditions(every))
    assert read_table_conditions(table) == every
    ordered = format_conditions({"tasks": "b " * 600, "pay": "a"})
    assert ordered == f"conditions:\n  tasks: '{'b ' * 600}'\n  pay: a\n"
    for line, message in {
        "wages: low": "conditions.wages: unknown field 'wages': did you mean raters? known: approval_rate, countries",
        f"pay: {'x' * 501}": "conditions.pay: 501 characters; at most 500 are expected",
        "pay: [1]": "conditions.pay: [1]: a text is expected",
    }.items():
        write_scales(table, f"{THUMB_YAML}conditions:\n  {line}\n")
        for read in (read_scales, read_table_conditions):
            with says(f"{path}:6: {message}"):
                read(table)


def test_an_option_of_scales_is_read_as_the_file_is() -> None:
    option = {"fit": {"low": 0, "high": 1, "step": 0.5}, "b": {"low": -1, "high": 1}}
    assert scales_of_option(option, "k") == {"fit": Scale(0, 1, 0.5), "b": Scale(-1, 1)}
    assert scales_of_option({}, "k") == {}
    for bad in ({"fit": {"low": 0, "high": 1, "by": 1}}, {"fit": object}, [1]):
        with says(f"k is {bad!r}; {{DIMENSION: {{low: 1, high: 5, step: 1}}}} is expected"):
            scales_of_option(bad, "k")
