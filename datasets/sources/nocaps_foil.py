"""nocaps-FOIL: captions of nocaps and the same with one object exchanged, by domain (Petryk et al. 2024).

The right caption is preferred to the foiled one; the preferences' dimension is the domain of the image. As a detection, the
foiled captions have a `hallucination`, a fault that low scores are to find.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..errors import InputError
from ..preferences import PreferenceRow, make_preferences
from ..reading.json_files import field, read_json_entries, texts
from ..reading.source_files import find
from ..registry import dataset
from ..schema import RATING_COLUMNS, CaptionSet, Card, Scale, make_items
from .hat import CARD as HAT
from .hat import DIMENSION, RATER, aloha

DOMAINS = ("in-domain", "near-domain", "out-domain")
PAIRS = aloha(
    "nocaps_foil/nocaps-val-foil.json",
    "nocaps-val-foil.json",
    sha256="ec15966bbaf4ba7faa5cb3eb6a5ebbd4b38bc3345de42b7f0e5f6cc333f642ca",
)
CARD = Card(
    name="nocaps_foil",
    title="nocaps-FOIL",
    revision=HAT.revision,
    licence="not stated by the release: not to be passed on; captions CC BY 2.0 (nocaps)",
    citation=HAT.citation,
    homepage=HAT.homepage,
    scales={DIMENSION: Scale(0, 1, 1)},
    sources=(PAIRS,),
    expected={"images": 2500, "items": 5000, "ratings": 5000, "preferences": 2500},
    anonymous_raters=True,
    faults=(DIMENSION,),
)


@dataset(CARD)
def load_nocaps_foil(root: Path) -> CaptionSet:
    """Read the pairs of right and foiled captions.

    Raises:
        InputError: where the file is missing or malformed, or a pair is of one caption.
    """
    path = find(root, CARD, PAIRS)
    images: list[str] = []
    captions: list[str] = []
    references: list[tuple[str, ...]] = []
    domains: list[str] = []
    for where, row in read_json_entries(path):
        pair = [" ".join(field(row, name, str, where).split()) for name in ("baseline", "foil")]
        if pair[0] == pair[1]:
            raise InputError(f"{where}: 'baseline' and 'foil' are one caption, '{pair[0]}'")
        domains.append(field(row, "domain", str, where))
        if domains[-1] not in DOMAINS:
            raise InputError(f"{where}: 'domain' is '{domains[-1]}', none of {', '.join(DOMAINS)}")
        images += [field(row, "image_path", str, where)] * 2
        references += [texts(row, "references", where)] * 2
        captions += pair
    items = make_items(images, captions, references)
    ids = items["item_id"].tolist()
    pairs: list[PreferenceRow] = [
        (f"pair-{number:04d}", ids[2 * number], ids[2 * number + 1], domain, "a")
        for number, domain in enumerate(domains)
    ]
    ratings = pd.DataFrame(
        [(item_id, DIMENSION, RATER, float(index % 2)) for index, item_id in enumerate(ids)],
        columns=pd.Index(RATING_COLUMNS),
    )
    return CaptionSet(items, ratings, make_preferences(pairs), card=CARD)
