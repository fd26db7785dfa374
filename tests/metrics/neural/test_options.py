"""Which neural metrics depend on more than a caption and its own references."""

from __future__ import annotations

from captau.metrics.neural.bertscore import BertScore
from captau.metrics.neural.vifidel import Vifidel


def test_what_depends_on_what():
    assert (BertScore().depends_on_corpus, BertScore().depends_only_on_content) == (False, False)
    assert BertScore(idf=True, padding="ignore").depends_on_corpus
    assert BertScore(padding="ignore").depends_only_on_content
    assert Vifidel().needs == frozenset()
    assert Vifidel(importance="references").needs == {"references"}
