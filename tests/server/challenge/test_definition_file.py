"""Challenge files: every fault is reported in a line with file, line and field, before anything is served."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import yaml

from captau.server.challenge.definition import Phase
from captau.server.challenge.definition_file import read_challenges
from captau.server.challenge.evaluation import make_evaluator
from tests.conftest import run_captau, says
from tests.server.challenge.conftest import write_challenge
from tests.yaml_values import VALUES, check_change, paths_of

#: The fields of a valid file, one of which each case changes; `None` removes it.
VALID_FIELDS = {
    "captions": {
        "name": "small",
        "title": "Small",
        "kind": "captions",
        "phases": "[{name: all}]",
        "references": "[{name: c2, file: references.json}]",
        "metrics": "[rouge_l]",
    },
    "metrics": {
        "name": "small",
        "kind": "metrics",
        "phases": "[{name: all}]",
        "dataset": "file",
        "ratings": "{path: ratings.csv, image: image_id, value: score}",
        "protocol": "{coefficients: [tau_b]}",
    },
}


def write_changed(folder, kind, /, **changes):
    """Write a valid challenge with one field changed, and return its file and the field's line."""
    write_challenge(folder, kind, "other").unlink()
    fields = {k: v for k, v in {**VALID_FIELDS[kind], **changes}.items() if v is not None}
    path = folder / "challenge.yaml"
    path.write_text("".join(f"{k}: {v}\n" for k, v in fields.items()), encoding="utf-8")
    (changed,) = changes
    return path, [*fields].index(changed) + 1 if changed in fields else 1


@pytest.mark.parametrize("kind", VALID_FIELDS)
def test_the_unchanged_fields_are_valid(tmp_path, kind):
    path, _ = write_changed(tmp_path, kind, name="right")
    (challenge,) = read_challenges(str(path))
    make_evaluator(challenge).check_challenge()
    assert (challenge.name, challenge.kind, challenge.source) == ("right", kind, f"{path}:1")
    assert challenge.rank_by == {"captions": "rouge_l", "metrics": "tau_b overall"}[kind]


#: Files with all the fields of their kind, each of which gets a value of each type of YAML's.
WHOLE_FILES = {
    "captions": {
        "phases": [{"name": "dev", "from": "2027-01-01", "to": "2027-02-01", "per_day": 3, "in_all": 9}],
        "references": [{"name": "c2", "file": "references.json", "split": "val"}],
        "metrics": ["rouge_l", "bleu_1"],
        "human": "last",
        "title": "Small",
        "intro": "Hello.",
        "rank_by": "rouge_l",
        "statistics": {"interval": "none", "replicates": 10, "seed": 1},
        "visibility": {"leaderboard": "public", "per_item": True, "exact": False},
        "limits": {"memory": 100, "seconds": 10},
    },
    "metrics": {
        "phases": [{"name": "all"}],
        "dataset": "file",
        "ratings": {"path": "ratings.csv", "image": "image_id", "value": "score"},
        "protocol": {"coefficients": ["tau_b"], "references": "first_k", "k": 1},
        "visibility": {"references": True},
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", [pytest.param("captions", marks=pytest.mark.slow), "metrics"])
def test_a_value_of_each_type_in_each_key_is_read_or_named_with_file_and_line(tmp_path, kind):
    path, _ = write_changed(tmp_path, kind, name="right")
    content = {"name": "small", "kind": kind, **WHOLE_FILES[kind]}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    assert read_challenges(str(path))
    for keys in paths_of(content):
        for value in VALUES:
            check_change(lambda: read_challenges(str(path)), path, content, keys, value)


@pytest.mark.parametrize(
    ("field", "value", "parts"),
    [
        ("name", None, ["name: this field is required"]),
        ("name", "Small ones", ["name: 'Small ones': small letters"]),
        ("name", "x" * 65, ["name: 65 characters; at most 64 are expected"]),
        ("title", '"a\u202eb"', ["title: the character U+202E"]),
        ("title", "a\x00b", ["YAML does not allow the character U+0000"]),
        ("title", "[a, b]", ["title: ['a', 'b']: a text is expected"]),
        ("title", "&a [*a]", ["nested too deeply, or recursive"]),
        ("title", "[" * 100 + "]" * 100, ["nested too deeply"]),
        ("title", "a" * 100_000, ["title: 100,000 characters; at most 200 are expected"]),
        ("title", "*a", ["undefined alias"]),
        ("title", "!!python/name:os.system", ["title: could not determine a constructor"]),
        ("kind", None, ["kind: this field is required"]),
        ("kind", "caption", ["kind: unknown kind 'caption': did you mean captions?"]),
        ("intro", "[", ["expected the node content"]),
        ("tittle", "Small", ["tittle: unknown field 'tittle': did you mean title?"]),
        ("phases", None, ["phases: at least one phase is needed"]),
        ("phases", "[]", ["phases: at least one phase is needed"]),
        ("phases", "all", ["phases: 'all': a list"]),
        ("phases", "[all]", ["phases[1]: fields are expected"]),
        ("phases", "[{per_day: 1}]", ["phases[1].name: this field is required"]),
        ("phases", "[{name: a}, {name: a}]", ["phases[2].name: two phases are called 'a'"]),
        (
            "phases",
            "[{name: a, from: soon}]",
            ["phases[1].from: 'soon': ", "valid datetime or date"],
        ),
        ("phases", "[{name: a, to: 2027-02-30}]", ["phases[1].to: day is out of range"]),
        ("phases", "[{name: a, from: 2027-03-01, to: 2027-02-01}]", ["phases[1].to: the phase"]),
        ("phases", "[{name: a, per_day: 0}]", ["phases[1].per_day: 0: ", "equal to 1"]),
        ("phases", "[{name: a, in_all: 1.5}]", ["phases[1].in_all: 1.5: a whole number"]),
        ("phases", "[{name: a, daily: 1}]", ["phases[1].daily: unknown field"]),
        ("references", None, ["references: at least one set is needed"]),
        ("references", "references.json", ["references: 'references.json': a list"]),
        ("references", "[{name: c2}]", ["references[1].name: either file or dataset"]),
        ("references", "[{file: references.json}]", ["references[1].name: this field is required"]),
        ("references", "[{name: c 2, file: few.json}]", ["references[1].name: 'c 2'"]),
        (
            "references",
            "[{name: a, file: few.json}, {name: a, file: few.json}]",
            ["references[2].name: 'a': another word"],
        ),
        ("references", "[{name: a, file: few.json, dataset: demo}]", ["either file or dataset"]),
        *(
            ("references", f"[{sets}]", [message])
            for sets, message in (
                ("{name: a, file: few.json, split: Val 1}", "references[1].split: 'Val 1'"),
                (
                    "{name: a, file: few.json, split: val2014}, {name: b, file: few.json}",
                    "references: each set needs a split, or none has one",
                ),
                (
                    ", ".join(f"{{name: {c}, file: few.json, split: {c}}}" for c in "abc"),
                    "references: 3 splits; a submission has results on two",
                ),
            )
        ),
        ("references", "[{name: a, file: none.json}]", ["references[1].file: ", "no such file"]),
        ("references", f"[{{name: a, file: {'x' * 300}}}]", ["file: ", "no such file"]),
        ("references", "[{name: a, file: few.json, first: 2}]", ["references[1].first: unknown"]),
        ("references", "[{name: a, dataset: demon}]", ["references[1].dataset: ", "demo?"]),
        ("references", "[{name: a, dataset: file}]", ["references[1].dataset: unknown"]),
        ("references", "[{name: a, dataset: demo, first: 0}]", ["references[1].first: 0: "]),
        ("metrics", "[rougel]", ["metrics: unknown metric or suite 'rougel'", "rouge_l"]),
        ("metrics", "[]", ["metrics: metrics is empty"]),
        ("metrics", "{rouge_l: 1}", ["metrics: suites or metrics are expected, as [text]"]),
        ("metrics", '["bleu_4(n=2)"]', ["metrics: unknown parameter of metric bleu_4 'n'"]),
        # What looks at images is refused, alone, in a suite, and by whatever name.
        ("metrics", "[rouge_l, clipscore]", ["metrics: clipscore looks at images"]),
        ("metrics", "[neural]", ["metrics: clipscore looks at images"]),
        ("metrics", "refclipscore", ["metrics: refclipscore looks at images"]),
        ("split", "[test2014]", ["split: ['test2014']: a text is expected"]),
        ("dataset", "demo", ["dataset: the kind is captions; leave it out"]),
        ("protocol", "{}", ["protocol: the kind is captions; leave it out"]),
        ("human", "some", ["human: unknown human 'some'"]),
        ("human", "none.json", ["human: ", "none.json: no such file"]),
        ("human", "[each, last]", ["human: one of last, each, draw, none, a file"]),
        ("human", "[few.json, few.json]", ["a file, or one of each is expected"]),
        ("human", "[]", ["a file, or one of each is expected"]),
        ("human", "{file: few.json}", ["a file, or one of each is expected"]),
        ("rank_by", "cider", ["rank_by: unknown score 'cider': known: rouge_l"]),
        ("statistics", "{interval: fisher}", ["statistics.interval: unknown interval 'fisher'"]),
        ("statistics", "{replicates: 0}", ["statistics.replicates: 0: ", "equal to 1"]),
        ("statistics", "{level: 0.9}", ["statistics.level: unknown field"]),
        ("statistics", "none", ["statistics: fields are expected"]),
        (
            "visibility",
            "{leaderboard: hidden}",
            ["visibility.leaderboard: 'hidden': ", "'private' or 'public'"],
        ),
        ("visibility", "{per_item: maybe}", ["visibility.per_item: 'maybe': true or false"]),
        ("visibility", "{references: true}", ["visibility.references: unknown field"]),
        ("limits", "{memory: 0}", ["limits.memory: 0: ", "equal to 1"]),
        ("limits", "{seconds: long}", ["limits.seconds: 'long': a whole number"]),
        ("limits", "{hours: 1}", ["limits.hours: unknown field 'hours'"]),
    ],
)
def test_faults_of_captions_name_file_line_and_field(tmp_path, field, value, parts):
    path, line = write_changed(tmp_path, "captions", **{field: value})
    # An open bracket is reported at the end of the file.
    line += field == "intro"
    with says(f"{path}:{line}: ", *parts):
        read_challenges(str(path))


@pytest.mark.parametrize(
    ("field", "value", "line_start", "parts"),
    [
        ("references", "[]", "references", ["references: the kind is metrics; leave it out"]),
        ("metrics", "[text]", "metrics", ["metrics: the kind is metrics; leave it out"]),
        ("human", "each", "human", ["human: the kind is metrics; leave it out"]),
        ("dataset", None, "", ["dataset: this field is required"]),
        (
            "dataset",
            "fil",
            "dataset",
            ["dataset: unknown dataset 'fil': did you mean foil or file or fleur?"],
        ),
        ("dataset", "demo", "ratings", ["ratings: the dataset is demo, not file; leave it out"]),
        ("ratings", None, "", ["ratings: this field is required", "docs/own_judgements.md"]),
        ("ratings", "ratings.csv", "ratings", ["ratings: 'ratings.csv': a mapping of fields"]),
        ("ratings", "{3: a}", "ratings", ["ratings: unknown option of dataset file"]),
        ("ratings", "{}", "ratings", ["ratings: ", "path"]),
        (
            "ratings",
            "{path: ratings.csv, value: 3.5}",
            "ratings",
            ["ratings.value: 3.5: a text is"],
        ),
        ("ratings", "{path: none.csv}", "ratings", ["ratings: ", "none.csv: cannot be read"]),
        (
            "ratings",
            "{path: ratings.csv, image: pictures}",
            "ratings",
            ["ratings: ", "no column 'pictures'"],
        ),
        (
            "ratings",
            "{path: ratings.csv, images: a}",
            "ratings",
            ["ratings: ", "'images': did you mean image"],
        ),
        ("protocol", "tau_b", "protocol", ["protocol: fields are expected"]),
        ("protocol", "{coefficient: tau_b}", "protocol", ["protocol.coefficient: unknown field"]),
        ("protocol", "{coefficients: [tau_d]}", "protocol", ["protocol: ", "'tau_d'"]),
        ("protocol", "{ratings: all}", "protocol", ["protocol: ", "protocol.ratings 'all'"]),
        ("protocol", "{k: many}", "protocol", ["protocol: ", "protocol.k is 'many'"]),
        ("protocol", "{dimension: [style]}", "protocol", ["protocol: ", "'style'", "overall"]),
        ("protocol", "{systems: [a]}", "protocol", ["protocol: ", "system", "'a'"]),
        ("protocol", "{split: dev}", "protocol", ["protocol: ", "split", "'dev'"]),
        ("protocol", "{coefficients: []}", "protocol", ["protocol: ", "coefficients"]),
        ("rank_by", "tau_c overall", "rank_by", ["rank_by: unknown score", "tau_b overall?"]),
        ("visibility", "{references: 2}", "visibility", ["visibility.references: 2: true or"]),
    ],
)
def test_faults_of_metrics_name_file_line_and_field(tmp_path, field, value, line_start, parts):
    path, _ = write_changed(tmp_path, "metrics", **{field: value})
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate([*lines, ""], start=1) if text.startswith(line_start))
    with says(f"{path}:{line}: ", *parts):
        read_challenges(str(path))


def test_limits_that_a_file_does_not_name_are_those_of_the_guide(tmp_path):
    """docs/challenges.md, `limits`."""
    (challenge,) = read_challenges(str(write_changed(tmp_path, "captions", limits="{joins: 7}")[0]))
    assert asdict(challenge.limits) == {
        **{"joins": 7, "logins": 10, "requests": 20, "uploads": 30, "megabytes": 32},
        **{"memory": 3000, "seconds": 900, "attempts": 3, "faults": 50},
    }


def test_a_phase_begins_with_its_first_second_and_ends_before_its_last():
    phase = Phase("a", 10.0, 20.0, None, None)
    assert [phase.is_open(now) for now in (9.9, 10.0, 19.9, 20.0)] == [False, True, True, False]
    assert replace(phase, begins=None).is_open(-1.0)
    assert replace(phase, ends=None).is_open(1e12)
    assert not replace(phase, ends=None).is_open(9.9)


def test_digests_are_those_that_databases_hold(tmp_path):
    """Another digest of an unchanged challenge would make its site refuse to start."""
    for kind in ("captions", "metrics"):
        write_challenge(tmp_path, kind)
    assert {c.kind: c.digest[:16] for c in read_challenges(str(tmp_path))} == {
        "captions": "61025266fe9bfe91",
        "metrics": "83b73974843fb87d",
    }


def test_repeated_fields_and_unreadable_files_are_reported(tmp_path):
    path = write_challenge(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}title: another\n", encoding="utf-8")
    with says(f"{path}:{len(text.splitlines()) + 1}: title appears twice"):
        read_challenges(str(path))
    for content, part in (
        (b"", ":1: name: this field is required"),
        (b"- a", ":1: the file: fields are"),
    ):
        path.write_bytes(content)
        with says(f"{path}{part}"):
            read_challenges(str(path))
    path.write_bytes(b"name: \xff")
    with says(str(path), "UTF-8"):
        read_challenges(str(path))
    with says("none.yaml: No such file"):
        read_challenges(str(tmp_path / "none.yaml"))
    with says("unknown challenge 'demmo': did you mean demo?"):
        read_challenges("demmo")
    with says("the option challenge=… is needed"):
        read_challenges([])
    (tmp_path / "empty").mkdir()
    with says("empty: no YAML file in the folder"):
        read_challenges(str(tmp_path / "empty"))


def test_two_challenges_of_the_same_name_are_reported(tmp_path):
    first, second = write_challenge(tmp_path, name="a"), write_challenge(tmp_path, name="b")
    text = second.read_text(encoding="utf-8")
    second.write_text(text.replace("name: b\n", "name: a\n", 1), encoding="utf-8")
    with says(f"{second}:1: name: ", f"{first}:1 is 'a' as well"):
        read_challenges(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"rank_by": "meteor"}, ["rank_by: unknown score 'meteor'"]),
        ({"metrics": ["clipscore"]}, ["metrics: clipscore looks at images"]),
        ({"references": [{"name": "a", "file": "cut.json"}]}, ["cut.json:1: "]),
        ({"references": [{"name": "a", "file": "none.json"}]}, ["no such file"]),
        (
            {"references": [{"name": "a", "file": "bare.json"}]},
            ["bare.json: it contains no references"],
        ),
        ({"metrics": ["bertscore(model=none)"]}, ["metric bertscore", "none"]),
        ({"metrics": ["cider(df=none.json)"]}, ["metrics: ", "none.json: cannot be read"]),
        (
            {"metrics": ["rouge_l", "python(nowhere:score)"]},
            ["metrics: ", "no module nowhere is here"],
        ),
        ({"metrics": ["python(math:nowhere)"]}, ["metrics: unknown function of math 'nowhere'"]),
        ({"metrics": ["python(math:sqrt)"]}, ["metrics: metric python(math:sqrt): TypeError"]),
    ],
)
def test_serve_exits_with_status_2_and_writes_nothing(tmp_path, capsys, changes, parts):
    (tmp_path / "cut.json").write_text('{"a": ["b"')
    (tmp_path / "bare.json").write_text("{}")
    path = write_challenge(tmp_path, **changes)
    before = sorted(tmp_path.iterdir())
    database = f"database={tmp_path / 'site.sqlite3'}"
    assert run_captau("serve", f"challenge={path}", "port=0", database) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"captau: {path}:")
    for part in parts:
        assert part in line
    assert printed.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_the_line_of_a_field_inside_a_block_is_reported(tmp_path):
    path = write_challenge(tmp_path, "metrics", limits={"memory": "much"})
    text = path.read_text(encoding="utf-8")
    line = next(n for n, x in enumerate(text.splitlines(), 1) if "memory" in x)
    assert yaml.safe_load(text)["limits"]["memory"] == "much"
    with says(f"{path}:{line}: limits.memory: 'much'"):
        read_challenges(str(path))


def test_the_digests_of_the_demo_challenges_are_those_that_databases_hold():
    """Source: captau before its modules were sorted; another digest would refuse existing databases.

    Those with percentile intervals are the former ones: the usual interval is a wider one by now, so that
    stored scores of challenges that name none must be computed again.
    """
    challenges = read_challenges("demo")
    assert {challenge.name: challenge.digest for challenge in challenges} == {
        "demo_captions": "b6249047f2eb9389cae026727ae8bd5b1723d774127163e858c001014e292dfd",
        "demo_metrics": "cbbfa17bf062ea2af1978a6278e194a387d054c0bf6161b094c117e61308ce08",
    }
    former = [
        replace(challenge, statistics=replace(challenge.statistics, interval="percentile"))
        for challenge in challenges
    ]
    assert {challenge.name: challenge.digest for challenge in former} == {
        "demo_captions": "f55f9fd08dd8a18871c7b2a415469dad2c23dc32819bb46dcce313be3af0d246",
        "demo_metrics": "dae488a51186190ba2277d61d4b7a423acf45dce356ba280c5743fe5fa1a658b",
    }
