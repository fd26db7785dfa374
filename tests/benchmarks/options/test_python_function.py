"""The functions from Python say what the options of their commands say, and read values as these do."""

from __future__ import annotations

import inspect
import json
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import captau
from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.options import shared
from captau.benchmarks.options.declaration import declarations, part
from captau.benchmarks.options.python_function import DICTIONARIES, compose, parameters_of
from captau.benchmarks.scoring.protocol import Protocol
from tests.conftest import run_captau

ROOT = Path(__file__).resolve().parents[3]
#: Commands whose function from Python their options make.
FUNCTIONS = tuple(name for name in captau.__all__ if name in COMMANDS)
MINE = {"1.jpg": "a brown dog runs", "2.jpg": "two men sing"}
REFERENCES = {"1.jpg": ["a dog runs on grass"], "2.jpg": ["two men sing a song", "men sing"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_keyword_for_each_option_of_its_command(name: str) -> None:
    options_class = COMMANDS[name].options
    signature = inspect.signature(getattr(captau, name))
    parameters = {parameter.name: parameter for parameter in parameters_of(options_class)}
    assert list(signature.parameters) == list(parameters)

    own_options = [
        option
        for declaration in declarations(options_class).values()
        for option in declaration.options
        if option.help and not option.is_of_terminal
    ]
    given = {option.key for parameter in parameters.values() for option in parameter.options}
    assert given == {option.key for option in own_options}
    for parameter in parameters.values():
        keyword = signature.parameters[parameter.name]
        assert keyword.annotation == parameter.annotation
        assert parameter.name in (getattr(captau, name).__doc__ or "")
        default = parameter.options[0].default
        if parameter.name in DICTIONARIES:
            assert keyword.default is None
        elif keyword.default is not inspect.Parameter.empty:
            assert keyword.default == (tuple(default) if isinstance(default, list) else default)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_that_are_left_out_are_the_defaults_of_the_command(name: str) -> None:
    """`compose` must not lack a key that `Options.read` asks for."""
    options_class = COMMANDS[name].options
    needed = {"reproduce": {"paper": "umic_2021"}, "score": {"candidates": MINE}}
    needed["estimate"] = needed["score"]
    composed = compose(options_class, needed.get(name, {}))
    for option in options_class.declared():
        if "." in option.key:
            assert composed[option.key] == option.default


@pytest.mark.parametrize("protocols", [shared.protocols_of, shared.protocols_of_people])
def test_a_command_without_choices_of_the_protocol_has_the_usual_ones(protocols: Any) -> None:
    @dataclass(frozen=True, kw_only=True)
    class SizeOptions(shared.ScoringOptions):
        datasets: dict[str, Protocol] = part(protocols, *shared.DATASETS)

    options = SizeOptions.read(compose(SizeOptions, {"dataset": "demo"}))
    assert options.datasets["demo"].ratings == "per_rating"


def test_the_stub_for_editors_is_what_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "docs" / "write_stub.py"))
    assert set(FUNCTIONS) == set(script["FUNCTIONS"])
    stub = (ROOT / "captau" / "__init__.pyi").read_text(encoding="utf-8")
    assert stub == script["make_stub"](), "run python scripts/docs/write_stub.py"


def test_a_run_from_python_records_what_the_command_records(tmp_path: Path) -> None:
    words = ["dataset=demo", "metrics=bleu_1,rouge_l", "protocol.coefficients=tau_b", "floors=true"]
    words += ["statistics.interval=none", f"output_dir={tmp_path / 'typed'}"]
    assert run_captau("bench", *words) == 0
    captau.bench(
        "demo",
        ["bleu_1", "rouge_l"],
        protocol={"coefficients": "tau_b"},
        floors=True,
        statistics={"interval": "none"},
        output_dir=tmp_path / "python",
    )
    typed, python = (
        json.loads((tmp_path / name / "run.json").read_text())["config"]
        for name in ("typed", "python")
    )
    # The command line fills in the choices of a usual protocol that are those of every dataset.
    usual = typed.pop("datasets")["demo"]["protocol"]
    own = python.pop("datasets")["demo"]["protocol"]
    assert own.items() <= usual.items()
    for config in (typed, python):
        config.pop("output_dir")
        config["protocol"].pop("name")
    assert python == typed


def test_what_no_file_holds_is_named_in_the_record() -> None:
    demo = captau.load("demo")
    results = captau.bench([demo], [len_of, "bleu_1"], statistics={"interval": "none"})
    assert results.run["config"]["in_memory"] == ["dataset", "metrics"]
    assert results.run["config"]["metrics"] == ["len_of", "bleu_1"]
    assert list(results.run["config"]["datasets"]) == ["demo"]


def len_of(caption: str) -> float:
    return float(len(caption))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bench", {"ceilings": "no"}, "ceilings is 'no'; true or false is expected"),
        ("probe", {"pairs": 2.5}, "pairs is 2.5; a whole number is expected"),
        ("probe", {"pairs": True}, "pairs is True; a whole number is expected"),
        ("score", {"keep_above": "high"}, "keep.above is 'high'; a number is expected"),
        ("bench", {"statistics": {"levle": 0.9}}, "unknown option of statistics 'levle'"),
        ("bench", {"statistics": {"swap": "item"}}, "unknown option of statistics 'swap'"),
        ("bench", {"statistics": "bca"}, "statistics is 'bca'; a dict of options is expected"),
        ("bench", {"file": {"pat": "a.csv"}}, "unknown option of file 'pat'"),
        ("bench", {"file": {"path": "a.csv"}}, "belongs to dataset=file; choose that too"),
        ("agree", {"protocol": {"ties": "keep"}}, "unknown option of protocol 'ties'"),
        ("bench", {"protocol": "umic"}, "unknown protocol 'umic'"),
        ("bench", {"dataset": "dmeo"}, "unknown dataset 'dmeo'"),
        (
            "bench",
            {"dataset": pd.DataFrame({"image_id": [1]})},
            "dataset is a DataFrame; a name, a",
        ),
        ("bench", {"dataset": ()}, "dataset is empty"),
        ("reproduce", {"paper": "umic"}, "unknown paper 'umic'"),
        ("rank", {"by": "votes"}, "unknown rank.by 'votes'"),
    ],
)
def test_wrong_values_are_refused_in_one_line(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    if name == "score":
        arguments = {"candidates": MINE, "references": REFERENCES, **arguments}
    with pytest.raises(captau.InputError) as raised:
        getattr(captau, name)(**arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_keyword_that_no_option_makes_is_a_type_error() -> None:
    with pytest.raises(
        TypeError, match=r"captau\.bench: got an unexpected keyword argument 'ceiling'"
    ):
        captau.bench("demo", ceiling=True)
    with pytest.raises(
        TypeError, match=r"captau\.score: missing a required argument: 'candidates'"
    ):
        captau.score()


def test_columns_of_a_file_have_the_names_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("picture,text\n1.jpg,a brown dog runs\n2.jpg,two men sing\n")
    columns = {"image_id": "picture", "caption": "text"}
    of_file = captau.score(path, REFERENCES, "rouge_l", columns=columns)
    of_dict = captau.score(MINE, REFERENCES, "rouge_l")
    assert of_file.scores["rouge_l"].tolist() == of_dict.scores["rouge_l"].tolist()


def test_agreement_and_published_tables_are_functions_too() -> None:
    agreement = captau.agree("demo", draws=2)
    assert "krippendorff_alpha_ordinal" in set(agreement.frames["agreement.csv"]["measure"])
    with pytest.raises(captau.InputError, match="the data folder nowhere does not exist"):
        captau.reproduce("umic_2021", data_root="nowhere")
