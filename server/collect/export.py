"""What a study gathered, as files: captau's interchange, and as the papers' authors publish theirs.

Raters go by codes; nicknames, times of day and whatever else is known of a person stay in the database.
Answers of excluded raters, of tutorial and practice, and to attention items are left out.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.caption_quality import FEWEST, MOST_SKIPS, p_hat
from ...datasets.coco import coco_id
from ...datasets.errors import unknown
from ...datasets.schema import CaptionSet, Card, make_items
from .protocols.thumb import normalised
from .store import COUNTED, Item, Store, Unit

FORMS = ("captau", "paper")
#: The folds of Caption-Quality by our names of splits.
_FOLDS = {"train": "train", "validation": "dev", "test": "test"}


@dataclass(frozen=True)
class Said:
    """One answer that counts."""

    unit: Unit
    item: Item
    rater: str
    value: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Gathered:
    """All answers that count, and what was settled, by the item's number in the database."""

    said: tuple[Said, ...]
    settled: Mapping[int, dict[str, Any]]
    left_out: Mapping[str, int]


def gather(store: Store, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Gathered:
    """The answers that count, of all rows (`Store.everything`)."""
    out = {r["id"] for r in rows["raters"] if r["excluded_at"] is not None}
    places = {i.id: (u, i) for u in store.units.values() for i in u.items}
    code = {r["id"]: store.code(r["id"]) for r in rows["raters"]}
    said = [
        Said(*places[a["item"]], code[a["rater"]], a["value"], a["seconds"])
        for a in rows["answers"]
        if a["phase"] in COUNTED and a["rater"] not in out
    ]
    left_out = {"excluded_raters": len(out)}
    if store.study.protocol == "good_bad":
        skips: dict[int, int] = {}
        for s in said:
            skips[s.item.id] = skips.get(s.item.id, 0) + (s.value["answer"] == "skip")
        dropped = {item for item, count in skips.items() if count > MOST_SKIPS}
        said = [s for s in said if s.item.id not in dropped]
        left_out[f"pairs_of_more_than_{MOST_SKIPS}_skips"] = len(dropped)
    settled = {r["item"]: r["value"] for r in rows["resolutions"] if r["rater"] not in out}
    return Gathered(tuple(said), settled, left_out)


def ratings(store: Store, gathered: Gathered) -> pd.DataFrame:
    """Ratings in long form: `item` (its number), `dimension, rater, value`."""
    found = [
        (s.item.id, dimension, s.rater, value)
        for s in gathered.said
        for dimension, value in store.form.ratings(s.value).items()
    ]
    return pd.DataFrame(found, columns=pd.Index(["item", "dimension", "rater", "value"]))


def caption_set(store: Store, gathered: Gathered) -> CaptionSet | None:
    """What was gathered as captau has datasets; None where there is no rating yet."""
    frame = ratings(store, gathered)
    if frame.empty:
        return None
    places = {i.id: (u, i) for u in store.units.values() for i in u.items}
    numbers = list(dict.fromkeys(frame["item"]))
    rated = [places[n] for n in numbers]
    items = make_items(
        [u.image_id for u, _ in rated],
        [i.caption for _, i in rated],
        [i.references for _, i in rated],
        systems=[i.system for _, i in rated],
        images=[u.image for u, _ in rated],
        splits=[i.split for _, i in rated],
    )
    ids = dict(zip(numbers, items["item_id"], strict=True))
    card = Card(
        name=store.study.name,
        title=store.study.title,
        revision="1",
        licence="yours",
        citation="",
        homepage="",
        scales=store.form.scales,
        has_references=False,
    )
    long = frame.assign(item_id=[ids[n] for n in frame["item"]])
    return CaptionSet(items, long, card=card)


def files(
    store: Store, rows: Mapping[str, Sequence[Mapping[str, Any]]], form: str
) -> dict[str, bytes]:
    """The files of an export, by name.

    Args:
        store: the study.
        rows: all there is (`Store.everything`).
        form: `captau` for `dataset=file`, or `paper` for what the protocol's authors publish.

    Raises:
        InputError: on another form.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    gathered = gather(store, rows)
    if store.study.protocol == "references":
        found = {"captions.json": _coco(store, gathered)}
    elif form == "captau":
        found = _interchange(store, gathered)
    else:
        if store.study.protocol == "good_bad":
            gathered = _with_enough(gathered)
        found = {
            "game": _iicr,
            "good_bad": _caption_quality,
            "thumb": _thumb,
            "four": _capeval,
        }[store.study.protocol](store, gathered)
    about = {
        "command": "collect export",
        "study": store.study.name,
        "title": store.study.title,
        "protocol": store.study.protocol,
        "form": form,
        "answers": len(gathered.said),
        "raters": len({s.rater for s in gathered.said}),
        "left_out": dict(gathered.left_out),
        "scales": {d: str(s) for d, s in store.form.scales.items()},
    }
    record = json.dumps(about, indent=2, ensure_ascii=False).encode() + b"\n"
    return {**found, "run.json": record}


def _interchange(store: Store, gathered: Gathered) -> dict[str, bytes]:
    said = _once(gathered.said)
    found = {"ratings.csv": _long(store, [(s, s.value) for s in said])}
    if gathered.settled:
        first = {s.item.id: s for s in reversed(said)}
        rows = [
            (Said(first[n].unit, first[n].item, "settled", value, 0.0), value)
            for n, value in gathered.settled.items()
            if n in first
        ]
        found["settled.csv"] = _long(store, rows)
    return found


def _long(store: Store, rows: Sequence[tuple[Said, Mapping[str, Any]]]) -> bytes:
    """One row a rating; columns that not every item has are left out, as `dataset=file` wants it."""
    has = {
        "references": all(s.item.references for s, _ in rows),
        "system": all(s.item.system for s, _ in rows),
        "split": all(s.item.split for s, _ in rows),
    }
    columns = [c for c, there in has.items() if there]
    head = ["image", "caption", *columns, "rater", "dimension", "value", "seconds"]
    out: list[list[Any]] = []
    for s, value in rows:
        known = {
            "references": json.dumps(list(s.item.references), ensure_ascii=False),
            "system": s.item.system,
            "split": s.item.split,
        }
        for dimension, number in store.form.ratings(value).items():
            out.append(
                [
                    s.unit.image_id,
                    s.item.caption,
                    *(known[c] for c in columns),
                    s.rater,
                    dimension,
                    f"{number:g}",
                    f"{s.seconds:.1f}",
                ]
            )
    return _csv(head, out)


def _once(said: Iterable[Said]) -> list[Said]:
    """Without a second answer by the same rater to an equal item, should a source have equal items."""
    first: dict[tuple[str, str, str | None, str], Said] = {}
    for s in said:
        first.setdefault((s.unit.image_id, s.item.caption, s.item.system, s.rater), s)
    return list(first.values())


def _iicr(store: Store, gathered: Gathered) -> dict[str, bytes]:
    """The game's ratings as `captau data import` takes CocoG (images by COCO's number) and FlickrG."""
    del store
    coco = all(coco_id(s.unit.image_id).isdecimal() for s in gathered.said)
    rows = [
        [s.unit.image_id, s.item.caption, s.rater, s.value["overall"], s.item.system or ""]
        for s in _once(gathered.said)
    ]
    name = "cocog.csv" if coco else "flickrg.csv"
    return {name: _csv(["image", "caption", "rater", "value", "source"], rows)}


def _with_enough(gathered: Gathered) -> Gathered:
    """Without the pairs of fewer answers than Caption-Quality's reader keeps."""
    answered = Counter(s.item.id for s in gathered.said if s.value["answer"] != "skip")
    kept = tuple(s for s in gathered.said if answered[s.item.id] >= FEWEST)
    fewer = len({s.item.id for s in gathered.said}) - len({s.item.id for s in kept})
    left_out = {**gathered.left_out, f"pairs_of_fewer_than_{FEWEST}_answers": fewer}
    return replace(gathered, said=kept, left_out=left_out)


def _caption_quality(store: Store, gathered: Gathered) -> dict[str, bytes]:
    """Caption-Quality's three folds, with p̂ and the answers it is of."""
    del store
    by_item: dict[int, list[Said]] = {}
    for s in gathered.said:
        by_item.setdefault(s.item.id, []).append(s)
    models = all(s.item.system for s in gathered.said)
    folds: dict[str, list[list[str]]] = {fold: [] for fold in _FOLDS.values()}
    for said in by_item.values():
        words = [{"good": "YES", "bad": "NO"}.get(s.value["answer"], "SKIP") for s in said]
        given = [w == "YES" for w in words if w != "SKIP"]
        estimate = float(p_hat(np.array([sum(given) / len(given)]))[0])
        unit, item = said[0].unit, said[0].item
        folds[_FOLDS.get(item.split, "test")].append(
            [
                unit.image_id,
                " ".join(item.caption.split()),
                *([str(item.system)] if models else []),
                ",".join(words),
                f"{estimate:g}",
            ]
        )
    head = ["IMAGE_KEY", "CAPTION_PRED", *(["MODEL"] if models else [])]
    head += ["ANSWERS", "ROUNDED_AVG_USER_RATING"]
    return {
        f"OID-rated-image-captions.v1.{fold}.tsv": "".join(
            "\t".join(row) + "\n" for row in [head, *rows]
        ).encode()
        for fold, rows in folds.items()
    }


def _thumb(store: Store, gathered: Gathered) -> dict[str, bytes]:
    """THumB's JSON lines: what annotators agree on or settled; the rest is left out until they do."""
    by_item: dict[int, list[Said]] = {}
    for s in gathered.said:
        by_item.setdefault(s.item.id, []).append(s)
    lines: list[str] = []
    references: dict[str, tuple[str, ...]] = {}
    for number, said in by_item.items():
        agreed = len(said) > 1 and all(s.value == said[0].value for s in said)
        value = gathered.settled.get(number) or (said[0].value if agreed else None)
        if value is None:
            continue
        unit, item = said[0].unit, said[0].item
        r = store.form.ratings(value)
        row = {
            "SYS": item.system or "unknown",
            "hyp": normalised(item.caption),
            "seg_id": unit.image_id,
            "P": r["precision"],
            "R": r["recall"],
            "Fl": r["fluency"],
            "Inc": r["inclusive"],
            "Con": r["conciseness"],
            "human_score": r["total"],
        }
        lines.append(json.dumps(row, ensure_ascii=False))
        references[unit.image_id] = item.references
    refs = [
        json.dumps({"seg_id": i, "refs": list(texts)}, ensure_ascii=False)
        for i, texts in references.items()
    ]
    return {
        "mscoco_THumB-1.0.jsonl": "".join(f"{line}\n" for line in lines).encode(),
        "mscoco_references.json": "".join(f"{line}\n" for line in refs).encode(),
    }


def _capeval(store: Store, gathered: Gathered) -> dict[str, bytes]:
    """CapEval1k's targets: the mean of an item's ratings, brought to 0-1, as the authors' LMDB has them.

    A table, since an LMDB of word pieces would not give back every caption's letters and blanks.
    """
    by_item: dict[int, list[Said]] = {}
    for s in gathered.said:
        by_item.setdefault(s.item.id, []).append(s)
    scale = store.form.scales["overall"]
    rows: list[list[Any]] = []
    for said in by_item.values():
        mean = sum(s.value["overall"] for s in said) / len(said)
        unit, item = said[0].unit, said[0].item
        texts = json.dumps(list(item.references), ensure_ascii=False)
        known = [unit.image_id, item.caption, texts, item.system or ""]
        rows.append([*known, len(said), scale.share(mean)])
    head = ["image", "caption", "references", "system", "ratings", "value"]
    return {"capeval.csv": _csv(head, rows)}


def _coco(store: Store, gathered: Gathered) -> bytes:
    """What was written, as COCO's caption annotations: `captau score references=captions.json`."""
    number = _numbers(store)
    content = {
        "images": [
            {"id": number[i], "file_name": i}
            for i in dict.fromkeys(s.unit.image_id for s in gathered.said)
        ],
        "annotations": [
            {"id": k, "image_id": number[s.unit.image_id], "caption": s.value["text"]}
            for k, s in enumerate(gathered.said, start=1)
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"


def _numbers(store: Store) -> dict[str, int]:
    """The images' numbers: COCO's where each has one of its own, else their units' in the study."""
    units = {u.image_id: u.id for u in store.units.values()}
    names = {i: coco_id(i) for i in units}
    if all(n.isdecimal() and len(n) < 19 for n in names.values()):  # readers hold 64 bits
        found = {i: int(n) for i, n in names.items()}
        if len(set(found.values())) == len(found):
            return found
    return units


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue().encode()
