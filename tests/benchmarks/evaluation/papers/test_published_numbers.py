"""The numbers that papers print, held against the printed tables themselves."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from captau.benchmarks.evaluation.papers.published_numbers import (
    PUBLISHED_COLUMNS,
    MetricInPrint,
    Training,
    describe_choice,
    describe_versions,
    differences,
    find_judgements,
    find_printed_metric,
    is_comparable,
    mark_printed,
    paper_files,
    protocol_differences,
    rank_number,
    read_numbers,
    read_printed_metrics,
    read_published,
    select_numbers,
    short_citation,
)
from captau.benchmarks.scoring.catalog import usual_protocol
from captau.benchmarks.scoring.protocol import Protocol
from captau.datasets.registry import card


def protocol(dataset: str, **changes: object) -> Protocol:
    return Protocol.resolve(dataset, usual_protocol(dataset), changes)


def numbers_of(paper: str, table: str, column: str) -> dict[str, str]:
    return {n.row: n.text for n in read_numbers(paper) if (n.table, n.column) == (table, column)}


def test_numbers_are_those_that_the_papers_print() -> None:
    """Hessel et al. 2021, Table 2; and Levinboim et al. 2021, Table 3, printed as 0.49 and so on."""
    assert numbers_of("clipscore_2021", "Table 2", "tau_b") == {
        "BLEU-4": "16.9",
        "CIDEr": "24.6",
        "METEOR": "22.2",
        "ROUGE-L": "19.9",
        "SPICE": "24.4",
        "BERT-S (RoBERTa-F)": "22.8",
        "LEIC": "29.5",
        "CLIP-S (no refs)": "34.4",
        "RefCLIP-S": "36.4",
    }
    printed = read_published("caption_quality_2021")
    printed = printed[(printed["table"] == "Table 3") & (printed["column"] == "rho dev")]
    shown = numbers_of("caption_quality_2021", "Table 3", "rho dev")
    assert shown["Bilinear"] == "49"
    of_rows = dict(zip(printed["row"], printed["published"], strict=True))
    assert {row: f"0.{text}" for row, text in shown.items()} == {r: of_rows[r] for r in shown}


def test_a_number_says_what_it_is() -> None:
    numbers = {(n.table, n.row, n.column): n for n in read_numbers("clipscore_2021")}
    number = numbers["Table 1", "BLEU-1", "tau_c"]
    assert (number.paper, number.spec, number.dataset) == (
        "clipscore_2021",
        "bleu_1",
        "flickr8k_expert",
    )
    assert (number.dimension, number.coefficient, number.training) == (
        "overall",
        "tau_c",
        Training.NO,
    )
    assert (number.source, number.remark, number.note) == ("Hessel et al. 2021, Table 1", "", "")
    assert (number.caveat, number.revision) == ("", "")
    assert number.protocol == protocol("flickr8k_expert")
    assert numbers["Table 1", "LEIC", "tau_b"].spec is None
    assert numbers["Table 4", "length", "Mean"].spec is None  # a floor is no metric
    assert numbers["Table 4", "RefCLIP-S", "Mean"].dataset == "pascal50s"
    assert numbers["Table 7", "RefCLIP-S", "Mean"].dataset == "pascal50s_votes"
    (kit,) = (
        n
        for n in read_numbers("pac_s_plus_2025")
        if (n.dataset, n.coefficient, n.row) == ("composite", "tau_b", "RefCLIP-S")
    )
    assert kit.note == (
        "Sarto et al. 2025, Table 1, as CaptionEvalKit 0.1.3 gives it; CLIP ViT-B/32"
    )


def test_papers_are_cited_by_authors_and_year() -> None:
    assert short_citation("clipscore_2021") == "Hessel et al. 2021"
    assert paper_files("thumb_2022") == (
        "conf/paper/thumb_2022.yaml",
        "results/published/thumb_2022.csv",
    )
    assert tuple(read_published("thumb_2022").columns) == PUBLISHED_COLUMNS


def test_metrics_in_print_have_one_name_and_what_else_a_table_asks() -> None:
    """Kasai et al. 2022, appendix: "BLEU" is sacreBLEU's BLEU-4 of sentences."""
    metrics = read_printed_metrics()
    assert metrics["BLEU"] == MetricInPrint("sacreBLEU", "BLEU-4 (sacreBLEU)", has_references=True)
    assert metrics["ROUGE"] == MetricInPrint("ROUGE-L")
    assert metrics["UMIC"] == MetricInPrint("UMIC", has_references=False)
    # No source says whether NUBIA needs references.
    assert metrics["NUBIA"].has_references
    assert find_printed_metric("of nobody") == MetricInPrint("of nobody")


def test_references_are_no_difference_for_a_metric_without_them() -> None:
    """Lee et al. 2021 take references one by one, of which UMIC has none; that captions are dropped concerns it."""
    here = protocol("composite")
    numbers = {n.row: n for n in read_numbers("umic_2021") if n.dataset == "composite"}
    assert differences(numbers["UMIC"], here) == []
    assert differences(numbers["BLEU-4"], here) == [
        "references mean_over_single (here all)",
        "own_references keep (here leave_out_image)",
    ]
    dropped = replace(here, own_references="drop")
    assert differences(numbers["UMIC"], dropped) == ["own_references keep (here drop)"]


def test_a_note_on_recomputed_cells_is_none_on_the_printed_ones() -> None:
    """Two recomputed cells of Hirano et al. 2025 lie half a tenth above the print; 57.6 of Polos is the print."""
    numbers = {n.row: n for n in read_numbers("pearl_2025") if n.dataset == "composite"}
    assert numbers["Polos"].text == "57.6"
    assert {number.caveat for number in numbers.values()} == {""}


def places(paper: str, dataset: str, *columns: tuple[str, str], **changes: object) -> list[str]:
    found = select_numbers(paper, dataset, columns, protocol(dataset, **changes))
    return list(dict.fromkeys(f"{n.dataset}, {n.table}, {n.column}" for n in found))


def test_columns_have_the_numbers_of_the_nearest_protocol() -> None:
    tau_c, tau_b = ("overall", "tau_c"), ("overall", "tau_b")
    assert places("clipscore_2021", "flickr8k_expert", tau_b, tau_c) == [
        "flickr8k_expert, Table 1, tau_c",
        "flickr8k_expert, Table 1, tau_b",
    ]
    assert places("clipscore_2021", "composite", tau_c) == ["composite, Table 3, tau_c"]
    assert places("clipscore_2021", "composite", tau_c, own_references="keep") == [
        "composite, Table 6, tau_c w/ GT"
    ]
    assert places("clipscore_2021", "composite", ("overall", "pearson")) == []
    assert places("clipscore_2021", "polaris", tau_c) == []
    found = select_numbers("clipscore_2021", "flickr8k_cf", [tau_b], protocol("flickr8k_cf"))
    assert {n.row: n.text for n in found} == numbers_of("clipscore_2021", "Table 2", "tau_b")


def test_numbers_of_the_tables_own_protocol_come_first() -> None:
    numbers = {n.column: n for n in read_numbers("clipscore_2021") if n.dataset == "composite"}
    usual, keep = protocol("composite"), protocol("composite", own_references="keep")
    alike, unlike = numbers["tau_c no GT"], numbers["tau_c w/ GT"]
    assert rank_number(alike, usual) == (False, False, 0, "2021")
    assert rank_number(unlike, usual) == (True, True, 1, "2021")
    assert rank_number(unlike, keep) == (False, True, 0, "2021")
    assert rank_number(alike, keep) == (True, False, 1, "2021")
    caveat = replace(alike, caveat="drawn at random")
    assert rank_number(caveat, usual) == (True, True, 1, "2021")
    assert differences(caveat, keep) == [
        "own_references leave_out_image (here keep)",
        "drawn at random",
    ]
    strange = replace(alike, dataset="of_nobody", protocol=Protocol())
    assert rank_number(strange, usual) == (True, False, 1, "2021")


def test_protocols_differ_in_what_decides_a_comparison() -> None:
    usual = protocol("flickr8k_expert")
    assert protocol_differences(usual, usual) == []
    assert (
        protocol_differences(replace(usual, name="x", dimension=("y",), ties="drop"), usual) == []
    )
    other = replace(usual, references="first_k", k=5, systems=("a", "b"))
    assert protocol_differences(other, usual) == [
        "references first_k (here all)",
        "k 5 (here all)",
        "systems a, b (here all)",
    ]
    assert protocol_differences(usual, other)[1:] == ["k all (here 5)", "systems all (here a, b)"]


@pytest.mark.parametrize(
    ("value", "words"), [(None, "all"), (("a", "b"), "a, b"), ("keep", "keep"), (5, "5")]
)
def test_a_choice_is_said_in_words(value: object, words: str) -> None:
    assert describe_choice(value) == words


@pytest.mark.parametrize(
    ("printed", "here", "is_alike"),
    [("", "1", True), ("1", "1", True), ("2", "1", False), ("1", "", False)],
)
def test_numbers_of_another_revision_are_not_compared(
    printed: str, here: str, is_alike: bool
) -> None:
    assert is_comparable(printed, here) is is_alike


def test_two_versions_are_named() -> None:
    assert describe_versions("nebula", "Spica", "2024") == (
        "printed on judgements of nebula that captau does not read: Spica, not 2024"
    )


def test_the_version_of_judgements_is_that_of_the_card_that_names_one() -> None:
    """Nebula's card calls its scores 2024, as the papers' files do; a run on another revision has other ones."""
    assert find_judgements("nebula", card("nebula").revision) == "2024"
    assert find_judgements("nebula", "another") == "another"
    assert find_judgements("flickr8k_expert", "1") == "1"
    assert find_judgements("of_nobody", "1") == "1"


def test_cells_of_authors_files_are_not_printed() -> None:
    table = pd.DataFrame(
        [
            ("fleur_2024", "compute_correlation.py"),
            ("fleur_2024", "Table 1"),
            ("clipscore_2021", "Table 1"),
            ("of_nobody", "compute_correlation.py"),
        ],
        columns=pd.Index(["paper", "table"]),
        index=[4, 2, 3, 1],
    )
    marks = mark_printed(table)
    assert marks.to_dict() == {4: False, 2: True, 3: True, 1: True}
    assert marks.dtype == bool
    assert mark_printed(table[:0]).empty
    assert {n.table for n in read_numbers("fleur_2024")} == {"Table 1"}
