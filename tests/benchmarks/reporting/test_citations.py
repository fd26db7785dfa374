"""`captau cite`: BibTeX of all that a run used, once each, and the protocol in full."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import bibtexparser
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captau
from captau.benchmarks.evaluation.prepared_datasets import provenance
from captau.benchmarks.evaluation.wording import shorten_revision
from captau.benchmarks.reporting.bibliography import Bibliography, entries
from captau.benchmarks.reporting.citations import cite
from captau.benchmarks.scoring.catalog import (
    bibliography,
    metric_style,
    read_config,
    usual_protocol,
)
from captau.benchmarks.scoring.protocol import CHOICES, Protocol
from captau.benchmarks.scoring.score_store import Locations
from captau.conf import group
from captau.datasets import registry
from captau.datasets.errors import InputError
from captau.datasets.schema import CaptionSet, make_items
from captau.metrics.registry import metric, metric_names
from tests.benchmarks.edited_runs import edited_record
from tests.benchmarks.reporting.made_runs import ROWS, made_run, rewrite
from tests.conftest import run_captau, says
from tests.latex import compile_article

#: Metrics of nobody's paper: a user's own.
OWN = ("file", "python", "rater", "script")
AGAIN = "@misc{a,\n  title={One}\n}"


def keys_of(bibtex: str) -> list[str]:
    """By another parser than captau's."""
    library = bibtexparser.parse_string(bibtex)
    assert not library.failed_blocks
    for entry in library.entries:
        assert {"title"} <= set(entry.fields_dict)
    return [entry.key for entry in library.entries]


def appendix_of(text: str) -> str:
    """The text below the two sentences for the paper, as one line without the places where names may break."""
    appendix = text.partition("% For its appendix:\n")[2].replace(r"\allowbreak{}", "")
    return " ".join(appendix.split())


def cited(text: str) -> set[str]:
    return {key for found in re.findall(r"\\cite\{([^}]*)\}", text) for key in found.split(",")}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("cite") / "run")


@pytest.mark.parametrize("name", [n for n in metric_names() if n not in OWN])
def test_every_metric_names_its_papers(name):
    citation = "\n".join(bibliography()[key] for key in read_config("metric", name)["cites"])
    library = bibtexparser.parse_string(citation)
    assert not library.failed_blocks
    for entry in library.entries:
        fields = {name: field.value for name, field in entry.fields_dict.items()}
        assert {"title", "author", "year"} <= set(fields)
        assert fields["year"] in entry.key
        assert re.fullmatch(r"\d+--\d+", fields.get("pages", "1--2"))
    assert [e.key for e in entries(citation)] == keys_of(citation) != []


@pytest.mark.parametrize(
    ("preset", "key"),
    [("fleur", "lee2024fleur"), ("clair", "chan2023clair"), ("gveval_combined", "tong2024gveval")],
)
def test_a_judge_cites_the_paper_of_its_preset(preset, key):
    judge = metric(f"mllm_judge(preset={preset},model=m)")
    assert keys_of(metric_style(judge).citation) == [key]


def test_no_entry_is_of_no_metric():
    styles = [read_config("metric", name) for name in group("metric")]
    lists = [s.get("cites", ()) for s in styles]
    lists += [keys for s in styles for keys in s.get("cites_by_preset", {}).values()]
    cited = {key for keys in lists for key in keys}
    assert sorted(bibliography()) == list(bibliography()) == sorted(cited)


def test_one_key_is_one_work():
    """Of metrics, datasets and papers; else `captau cite` would print two entries for one paper."""
    texts = list(bibliography().values())
    texts += [read_config("paper", name)["citation"] for name in group("paper")]
    texts += [registry.card(name).citation for name in registry.names()]
    titles: dict[str, str] = {}
    for entry in (e for text in texts for e in entries(text)):
        assert titles.setdefault(entry.key, entry.title) == entry.title
    assert len(set(titles.values())) == len(titles)


def test_an_at_sign_begins_no_entry(tmp_path):
    """BibTeX takes it for one wherever it stands outside of entries."""
    scores = tmp_path / "mine.csv"
    items = captau.load("demo").items
    items.assign(score=range(len(items)))[["item_id", "score"]].to_csv(scores, index=False)
    run = tmp_path / "run"
    options = {"statistics": {"interval": "none"}, "output_dir": run}
    captau.bench("demo", [f"file(path={scores},name=me@home)", "bleu_1"], **options)
    text = cite([run])
    assert [line for line in text.splitlines() if "@" in line and not line.startswith("@")] == []
    assert r"me\char64{}home" in text
    assert "me(at)home" in text


def test_every_choice_has_its_words():
    for name, choice in CHOICES.items():
        silent = {choice.usual} if choice.is_later else set()
        if not isinstance(choice.words, str):
            assert set(choice.allowed()) - silent <= set(choice.words) <= set(choice.allowed()), (
                name
            )


def test_what_was_used_is_cited_once(run):
    text = cite([run])
    keys = keys_of(text)
    assert len(keys) == len(set(keys))
    assert cited(text) == set(keys)
    assert {"captau", "hodosh2013framing", "kasai2022transparent", "papineni2002bleu"} <= set(keys)
    # CLIP-S is missing in this run; its paper is cited for method A alone, as Scott et al. 2023 cite it.
    assert text.count(r"\cite{hessel2021clipscore}") == text.count("method A of")
    assert text == cite([run])


def test_two_sentences_can_be_pasted(run):
    """They name metrics, data, coefficients and statistics, and leave the rest to the appendix."""
    paper = cite([run]).partition("% For its appendix:")[0].removeprefix("% For the paper:\n")
    first, second = re.split(r"(?<=\.) (?=[A-Z])", " ".join(paper.split()))
    assert first.startswith(r"With captau 1.2.3 \cite{captau} we measure how well ")
    assert r"CIDEr \cite{vedantam2015cider,chen2015microsoft}" in first
    assert r"Flickr8k-Expert \cite{hodosh2013framing}" in first
    assert second.startswith(r"We report Kendall's $\tau_c$")
    assert r" with the 95 \% interval (percentile bootstrap" in second
    assert second.endswith("; the appendix has the protocol and all versions.")
    assert "%" not in paper.replace(r"\%", "")  # a comment, in LaTeX


def test_papers_whose_printed_numbers_the_table_shows_are_cited(run):
    """Wada et al. 2024 print RefPAC-S on Flickr8k-Expert; Levinboim et al. 2021 nothing of the run's datasets."""
    papers = ("clipscore_2021", "polos_2024", "caption_quality_2021")
    text = cite([run], papers)
    keys = keys_of(text)
    assert set(keys) - set(keys_of(cite([run]))) == {"wada2024polos"}
    assert cited(text) == set(keys)
    paper = " ".join(text.partition("% For its appendix:")[0].split())
    assert paper.endswith(
        r"Numbers that we did not compute stand as they are printed by \cite{hessel2021clipscore,wada2024polos}."
    )
    appendix = appendix_of(text)
    assert r"and RefPAC-S by \cite{wada2024polos}" not in appendix
    assert r"; RefPAC-S by \cite{wada2024polos}." in appendix
    assert r"TIGEr" in appendix.partition("as printed: ")[2].partition(r" by \cite{hessel")[0]
    # The run has a number of METEOR there, which the table shows in place of a printed one.
    assert "METEOR" not in appendix.partition("as printed: ")[2].partition(" by ")[0]
    # Nothing of these papers stands in the table.
    assert cite([run], ("caption_quality_2021", "vela_2025")) == cite([run])


def test_all_papers_are_asked_for_as_of_the_table(run, tmp_path, capsys):
    assert run_captau("cite", f"run={run}", "published=all", f"output={tmp_path / 'a.bib'}") == 0
    text = (tmp_path / "a.bib").read_text(encoding="utf-8")
    assert text == cite([run], group("paper"))
    # The table says the same of its cells.
    assert run_captau("table", f"run={run}", "published=all") == 0
    table = capsys.readouterr().out
    sources = set(re.findall(r"</sup> (?:as printed by )?([A-Z]\w+ et al\. \d+)", table))
    citations = {paper: read_config("paper", paper) for paper in group("paper")}
    printed = text.partition("Numbers of these rows")[2].partition(" Metrics, with")[0]
    cited_papers = {
        config["title"].partition(",")[0]
        for config in citations.values()
        if {entry.key for entry in entries(config["citation"])} & cited(printed)
    }
    assert cited_papers == sources != set()


@pytest.mark.slow
def test_runs_without_published_rows_refuse_papers(studies):
    with pytest.raises(InputError, match="whose table has no published numbers"):
        cite([studies["agree"]], ("clipscore_2021",))


def test_a_dataset_without_a_number_is_not_what_was_measured(tmp_path):
    """BLEU-1 needs references, which the ratings of one's own do not have."""
    rows = [f"{n}.jpg,caption {n},{n % 3 + 1}" for n in range(9)]
    (tmp_path / "r.csv").write_text("\n".join(["image,caption,rating", *rows]))
    own = [f"file.path={tmp_path / 'r.csv'}", "file.name=Unmeasured"]
    options = ["metrics=bleu_1", "statistics.replicates=20", f"output_dir={tmp_path / 'run'}"]
    assert run_captau("bench", "dataset=demo,file", *own, *options) == 0
    assert "Unmeasured" in pd.read_csv(tmp_path / "run" / "correlations.csv")["dataset"].tolist()
    text = cite([tmp_path / "run"])
    assert "agree with people on Demo" in " ".join(text.split())
    assert "Unmeasured" not in text


def test_the_appendix_names_the_protocol(run):
    text = appendix_of(cite([run]))
    for part in (
        r"with captau 1.2.3 \cite{captau}",
        r"On Flickr8k-Expert \cite{hodosh2013framing} (revision 0123456789ab; 1,234 captions, 3,702 "
        r"data points of overall) we report Kendall's $\tau_c$ and Kendall's $\tau_b$: each rating is "
        r"a data point (method A of \cite{hessel2021clipscore}); candidates are scored against all "
        "references at once; corpus statistics (document frequencies) are taken over the dataset; "
        "coefficients are over all data points; an undefined score leaves the coefficient undefined.",
        r"On THumB 1.0 \cite{kasai2022transparent}",
        "an item's ratings are averaged",
        r"95 \% interval (percentile bootstrap over images, 500 replicates), seed 0",
        r"Benjamini-Hochberg",
        r"CIDEr \cite{vedantam2015cider,chen2015microsoft} (\texttt{cider",
        "computed with numpy 2.0.0, scipy 1.13.0",
        "% captau knows no paper of Mine <b>|*50%_; cite the source yourself.",
    ):
        assert part in text


#: What a data point of each rated dataset is, as its authors say (docs/datasets has the sources); a rating where nothing is said.
DATA_POINTS = {
    "billboard_thumb": "is the authors' CLIPScore, no judgement of people;",
    "cxc_sits": r"is the mean over its raters (agg\_score)",
    "cxc_sts": r"is the mean over its raters (agg\_score)",
    "capeval1k": "is the mean of five ratings, of some captions of four or six, scaled to 0 to 1;",
    "caption_quality": "is the share of its raters who said yes, rounded to eighths;",
    "composite": "is one rating;",
    "composite_8k": "is one rating;",
    "composite_30k": "is one rating;",
    "composite_coco": "is one rating;",
    "fleur": "is FLEUR's score, no judgement of people;",
    "flickr8k_cf": "is the share of three or more people who said that it fits the image;",
    "hat": "is whether a word of it is marked as a hallucination;",
    "nebula": "is the mean over its raters;",
    "nocaps_foil": "is whether an object in it was exchanged for another;",
    "thumb": "is the mean of precision and recall less the penalties;",
}
#: What is said of the files here that were read by the usual protocol; source: data/README.md, whose commits these are.
REVISIONS = {
    "flickr8k_expert": "revision b9cd6c9c0861",
    "flickr8k_cf": (
        r"\texttt{flickr8k/Flickr8k.token.txt}, SHA-256 1e1f3a371ba1; "
        r"\texttt{flickr8k/CrowdFlowerAnnotations.txt}, SHA-256 72a74aef443d"
    ),
    "nebula": "revision 74bbef41209f",
    "thumb": "revision fd099b4f311d",
    "hat": "revision 7da6b90ebe39",
    "caption_quality": "revision v1.0",
    "context_matters": "revision 46407c28cb41",
    "pascal50s": "revision b9cd6c9c0861",
    "iiw_400": "revision 96d393777e25",
}


def cite_of_files(name, root, folder, n_ratings=3702):
    """Return the appendix of a made-up run over the files of a dataset that lie in a data folder."""
    card = registry.card(name)
    protocol = Protocol.resolve(name, usual_protocol(name), {})
    dimension = card.headline or next((d for d in protocol.dimension if d in card.scales), "")
    dimension = dimension or next(iter(card.scales), "overall")
    of_ratings = [c for c in protocol.coefficients if c != "accuracy"]
    coefficient = of_ratings[0] if card.scales else "accuracy"
    caption_set = CaptionSet(make_items(["1"], ["a dog"], [("a dog",)]), card=card)
    data = provenance([], [caption_set], Locations(data_root=root))["data"]
    row = (name, dimension, coefficient, "rouge_l", 0.5, None, None, None, "")
    run = made_run(folder, [row], data=data)
    correlations = pd.read_csv(run / "correlations.csv")
    rewrite(run, "correlations.csv", correlations.assign(n_ratings=n_ratings))
    return appendix_of(cite([run]))


@pytest.mark.parametrize("name", registry.names())
def test_what_is_said_of_data_points_is_so(name, tmp_path):
    """Means, shares and labels are no ratings; what is a rating is "method A" only if captions have several."""
    text = cite_of_files(name, tmp_path, tmp_path / "run")
    if not registry.card(name).scales:
        assert "data point" not in text
    elif name in DATA_POINTS:
        assert f"each caption's data point {DATA_POINTS[name]}" in text
        assert "rating is a data point" not in text
        assert "ratings are averaged" not in text
    else:
        is_mean = usual_protocol(name).get("ratings") == "mean"
        words = "an item's ratings are averaged;"
        if not is_mean:
            words = r"each rating is a data point (method A of \cite{hessel2021clipscore});"
        assert words in text
        single = cite_of_files(name, tmp_path, tmp_path / "single", n_ratings=1234)
        assert is_mean or "each caption has one rating, which is a data point;" in single
    assert f"(revision {shorten_revision(registry.card(name).revision)}".replace("_", r"\_") in text


@pytest.mark.parametrize("name", registry.names())
def test_a_file_of_an_unknown_revision_is_named_by_its_hash(name, tmp_path):
    """The files of the split that was used: stand-ins, of which no commit has the hash."""
    card = registry.card(name)
    split = usual_protocol(name).get("split")
    digests = {}
    for source in card.sources:
        if source.alternative or source.optional:
            continue
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.path, encoding="utf-8")
        digests[source] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    text = cite_of_files(name, tmp_path, tmp_path / "run")
    for source, digest in digests.items():
        is_used = split is None or source.split in ("", split)
        assert (f"SHA-256 {digest}" in text) == is_used
    if digests:
        assert "revision" not in text


@pytest.mark.parametrize("name", REVISIONS)
def test_the_revision_is_that_of_the_file_that_was_read(name, data_root, tmp_path):
    assert f"({REVISIONS[name]}; 1,234 captions" in cite_of_files(name, data_root, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")
@pytest.mark.parametrize("datasets", ["core", "classic"])
def test_what_is_cited_of_a_named_set_has_no_overfull_box(datasets, data_root, tmp_path):
    """Names of files and signatures break in one column as in two."""
    options = ["metrics=text", "statistics.interval=none", f"output_dir={tmp_path / 'run'}"]
    assert run_captau("bench", f"dataset={datasets}", f"data.root={data_root}", *options) == 0
    texts = cite([tmp_path / "run"], group("paper")).partition("% BibTeX:")[0]
    assert "vocab.txt" in texts
    for columns in ("onecolumn", "twocolumn"):
        assert "Overfull" not in compile_article(texts, columns, tmp_path)


def test_runs_of_former_versions_are_cited_with_the_whole_revision_of_the_card(tmp_path):
    """Nebula's card names two repositories; its first twelve letters were those of one of them."""
    row = ("nebula", "overall", "tau_c", "rouge_l", 0.5, None, None, None, "")
    run = made_run(tmp_path / "run", [row], revision=registry.card("nebula").revision)
    assert (
        "(revision a4c99b14818d for train and validation, whose download was not tried; "
        "EXPERT's file for test; 1,234 captions" in appendix_of(cite([run]))
    )


def test_a_protocol_of_a_paper_is_cited(tmp_path):
    folder = made_run(
        tmp_path / "run",
        ROWS[:2],
        protocol={
            "name": "umic_2021",
            "references": "mean_over_single",
            "k": 3,
            "split": "test",
            "systems": ["a_b"],
        },
    )
    text = " ".join(cite([folder]).split())
    assert r"the protocol is that of \cite{lee2021umic}" in text
    assert "one reference at a time and the scores averaged, of the first 3;" in text
    assert r"those of a\_b; captions are those of the split test" in text
    assert "lee2021umic" in keys_of(text)


def test_preferences_and_synthetic_data(tmp_path):
    rows = [("demo", "colour", "accuracy", "cider", 0.8, None, None, None, "")]
    text = " ".join(cite([made_run(tmp_path / "run", rows)]).split())
    assert "On the synthetic dataset Demo" in text
    assert "3,702 preference pairs) we report accuracy on preference pairs:" in text
    assert "equal scores of a pair count half" in text
    assert "each rating" not in text
    assert "Intervals" not in text
    # Its card and captau itself are one work.
    assert keys_of(text).count("captau") == 1


def test_two_runs_are_one_paragraph(run, tmp_path):
    again = made_run(tmp_path / "again")
    other = made_run(tmp_path / "other", ROWS[:3], statistics={"replicates": 900})
    assert cite([run, again]) == cite([run])
    text = appendix_of(cite([run, again, other]))
    assert "500 replicates), seed 0 (run, again)" in text
    assert "900 replicates), seed 0 (other)" in text
    assert text.count(r"CIDEr \cite") == 1


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Return the folders of runs without correlations, by command."""
    folder = tmp_path_factory.mktemp("studies")
    extra_by_command = {
        "rank": ["metrics=bleu_1,cider", "statistics.replicates=100"],
        "agree": ["draws=2"],
        "sensitivity": ["metrics=bleu_1", "draws=2"],
        "complement": ["metrics=bleu_1,cider", "draws=2"],
        "thresholds": ["metrics=bleu_1"],
    }
    for command, extra in extra_by_command.items():
        arguments = ["dataset=demo", f"output_dir={folder / command}", *extra]
        assert run_captau(command, *arguments) == 0
    return {command: folder / command for command in extra_by_command}


@pytest.mark.slow
def test_every_study_is_cited_with_its_data_and_metrics(studies):
    texts = {command: " ".join(cite([run]).split()) for command, run in studies.items()}
    for command, text in texts.items():
        assert text.startswith("% For the paper: With captau ")
        measures = json.loads((studies[command] / "run.json").read_text())["measures"]
        assert f"we measure {measures} on Demo " in text
        assert f"we measure {measures}." in text
        assert "The data is the synthetic dataset Demo" in text
        assert ("papineni2002bleu" in keys_of(text)) == (command != "agree")
        assert ("candidates are scored against all references" in text) == (command != "agree")
    assert "(expanded percentile bootstrap over images, 100 replicates), seed 0" in texts["rank"]
    assert "Intervals" not in texts["thresholds"]
    together = appendix_of(cite(list(studies.values())))
    assert together.count(" we measure ") == len(studies)
    assert together.count("@article{vedantam2015cider") <= 1
    assert len(keys_of(together)) == len(set(keys_of(together)))


@pytest.mark.parametrize("command", ["rank", "agree", "sensitivity", "complement", "thresholds"])
def test_the_table_of_a_study_is_the_one_that_it_wrote(studies, capsys, command):
    run = studies[command]
    for style, name in (("markdown", "table.md"), ("latex", "table.tex")):
        assert run_captau("table", f"run={run}", f"style={style}") == 0
        assert capsys.readouterr().out.strip() == (run / name).read_text().strip()


@pytest.mark.parametrize("option", ["style=csv", "sort=tau_c"])
def test_a_study_has_no_other_table_than_its_own(studies, capsys, option):
    assert run_captau("table", f"run={studies['rank']}", option) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is a run of captau rank" in line
    assert "table" in line


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("references", None, "unknown value of protocol.references 'None'"),
        ("colour", "red", "protocols: "),
        ("dimension", None, "protocols.demo.dimension is None, not list"),
    ],
)
def test_a_study_whose_protocol_was_edited_is_one_line(
    studies, tmp_path, capsys, field, value, message
):
    with edited_record(studies["complement"], target=tmp_path) as record:
        record["protocols"]["demo"][field] = value
        record.pop("files")
    assert run_captau("cite", f"run={tmp_path}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_table_of_a_study_that_is_no_text_is_one_line(studies, tmp_path, capsys):
    with edited_record(studies["agree"], target=tmp_path) as record:
        record.pop("files")  # as captau 0.1 wrote it
    (tmp_path / "table.md").write_bytes(b"a\xff")
    assert run_captau("table", f"run={tmp_path}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "table.md:1: not UTF-8 text" in line


def test_equal_keys_of_two_works_get_letters():
    works = Bibliography()
    assert works.add(AGAIN) == ["a"]
    assert works.add(AGAIN.replace("One", "{One}")) == ["a"]
    assert works.add(AGAIN.replace("One", "Two") + "\n" + AGAIN.replace("One", "Three")) == [
        "aa",
        "ab",
    ]
    assert works.add(AGAIN.replace("One", "Two")) == ["aa"]
    assert keys_of(str(works)) == ["a", "aa", "ab"]


def test_entries_that_do_not_end():
    with says("BibTeX of a: its last } is missing; correct the citation"):
        entries(AGAIN[:-1])
    with says("BibTeX of a: no title = {…}; add it to the citation"):
        entries("@misc{a,\n  note={x}\n}")


@given(st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=8))
def test_keys_are_unique(keys):
    works = Bibliography()
    for number, key in enumerate(keys):
        works.add(f"@misc{{{key},\n  title={{Work {number}}}\n}}")
    assert len(works.entries) == len(keys)
    found = keys_of(str(works))
    assert len(set(found)) == len(keys)


def test_command(run, tmp_path, capsys):
    target = tmp_path / "captau.bib"
    for arguments in ([f"run={run}"], [f"run=[{run}]", f"output={target}"]):
        assert run_captau("cite", *arguments) == 0
    assert capsys.readouterr().out.startswith(cite([run]))
    assert target.read_text() == cite([run])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no finished run in results/runs"),
        (["run=absent"], "absent"),
        (["run=a", "style=x"], "style"),
    ],
)
def test_faults_are_one_line(capsys, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = run_captau("cite", *arguments)
    out, err = capsys.readouterr()
    assert (ended, out, err.count("\n")) == (2, "", 1)
    assert said in err
