"""The captions of a run for a page: what was said of each, by people and by metrics, in few bytes."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.images import find_image
from .charts import Part

#: The longer side of a picture, in pixels.
SIDE = 128
#: In the ranks, what is undefined.
UNDEFINED = 65535
#: How many ranks there are between the least score and the greatest.
STEPS = 10_000
#: What of the room captions may take where there are pictures as well.
SHARE = 0.7


@dataclass(frozen=True)
class Embedded:
    """The captions as a page holds them.

    Attributes:
        text: JSON that no HTML can break out of; see `script_json`.
        shown, total: how many captions it holds, and how many there are.
        pictures, found, unreadable: how many pictures it holds, how many were found, and how many of
            those tried could not be read.
    """

    text: str
    shown: int
    total: int
    pictures: int
    found: int
    unreadable: int


def script_json(value: Any) -> str:
    """JSON for inside a `<script type="application/json">`, whatever the texts in it say.

    `<`, `>` and `&` are escaped, so that neither `</script>` nor `<!--` is in it; so are U+2028 and
    U+2029, which end a line in JavaScript, and halves of surrogate pairs, which no file can hold.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda c: f"\\u{ord(c.group()):04x}", text)


def percentiles(columns: pd.DataFrame) -> pd.DataFrame:
    """Of each value the share of the column's values below it, equal ones half; NaN stays NaN."""
    return (columns.rank() - 0.5) / columns.notna().sum()


def embed(
    parts: Sequence[Part],
    images: Path | None,
    room: int,
    advance: Callable[[], None] = lambda: None,
) -> Embedded:
    """The captions of datasets, within so many bytes.

    Where there is no room for all, half are those on which metrics or people disagree most, and half
    are taken evenly from the rest. What room is left goes to pictures, of the same captions first.

    Args:
        parts: datasets whose run kept its items.
        images: a folder to look for pictures in first (`datasets.images.find_image`).
        room: bytes.
        advance: called after each picture.
    """
    views = [_View(part) for part in parts]
    files = [view.files(images) for view in views]
    found = sum(map(len, files))
    total = sum(view.total for view in views)
    for_captions = int(room * SHARE) if found else room
    keep = 1.0
    while True:
        chosen = [view.chosen(keep) for view in views]
        told = [view.told(rows) for view, rows in zip(views, chosen, strict=True)]
        size = len(script_json(told).encode())
        if size <= for_captions or keep < 1e-3:
            break
        keep *= 0.97 * for_captions / size
    left = room - size
    pictures = unreadable = 0
    for view, rows, one, paths in zip(views, chosen, told, files, strict=True):
        for image in view.images_of(rows):
            if image not in paths or left <= 0:
                continue
            picture = _picture(paths[image])
            advance()
            if picture is None:
                unreadable += 1
                continue
            left -= len(picture) + 12  # its place, quotes and a comma
            if left < 0:
                break
            one["pictures"][one["images"].index(image)] = picture
            pictures += 1
    shown = sum(map(len, chosen))
    return Embedded(script_json(told), shown, total, pictures, found, unreadable)


class _View:
    """The captions of one dataset, with the ranks of their scores."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.items = part.items
        self.total = len(self.items)
        self.people = pd.DataFrame(
            {d: part.people(d) for d in part.scales}, index=self.items.index, dtype=float
        )
        self.ranks = percentiles(part.oriented).join(
            percentiles(self.people).add_prefix("people: ")
        )
        asked = [m for m in part.metrics if m in part.oriented]
        self.asked = len(asked)
        weighed = self.ranks[[*asked, *self.ranks.columns[len(part.oriented.columns) :]]]
        self.apart = (weighed.max(axis=1) - weighed.min(axis=1)).fillna(0).to_numpy()

    def chosen(self, keep: float) -> list[int]:
        """Which items a page has room for, as places in the dataset's order."""
        count = int(self.total * keep) if keep < 1 else self.total
        if count >= self.total:
            return list(range(self.total))
        order = np.argsort(-self.apart, kind="stable")
        most, rest = order[: count - count // 2], np.sort(order[count - count // 2 :])
        even = rest[(np.arange(count // 2) * len(rest)) // max(count // 2, 1)]
        return sorted(map(int, [*most, *even]))

    def images_of(self, rows: Sequence[int]) -> list[str]:
        """Image ids, those first whose captions are the most disputed."""
        order = sorted(rows, key=lambda row: -self.apart[row])
        return list(dict.fromkeys(self.items["image_id"].iloc[order]))

    def files(self, images: Path | None) -> dict[str, Path]:
        """Where the pictures lie, by image id."""
        found: dict[str, Path] = {}
        for image_id, path in zip(self.items["image_id"], self.items["image"], strict=True):
            if image_id in found:
                continue
            file = find_image(image_id, self.part.dataset, images) if images else None
            if file is None and isinstance(path, str) and Path(path).is_file():
                file = Path(path)
            if file is not None:
                found[image_id] = file
        return found

    def told(self, rows: Sequence[int]) -> dict[str, Any]:
        """What the page is told of these items; `page/report.js` reads it."""
        part, items = self.part, self.items.iloc[list(rows)]
        place = {item_id: at for at, item_id in enumerate(items["item_id"])}
        scores = part.scores.iloc[list(rows)]
        ranks = self.ranks.iloc[list(rows)].to_numpy(dtype=float)
        packed = np.where(np.isnan(ranks), UNDEFINED, np.round(np.nan_to_num(ranks) * STEPS))
        images, of_image = _codes(items["image_id"])
        systems, of_system = _codes([s if isinstance(s, str) else "" for s in items["system"]])
        splits, of_split = _codes(items["split"])
        references, of_references = _codes([tuple(map(str, r)) for r in items["references"]])
        pairs = part.preferences
        pairs = pairs[pairs["item_a"].isin(place.keys()) & pairs["item_b"].isin(place.keys())]
        categories, of_category = _codes(pairs["category"])
        return {
            "title": part.title,
            "total": self.total,
            "metrics": [part.label(m) for m in scores.columns],
            "asked": self.asked,
            "people": [{"name": d, "scale": str(scale)} for d, scale in part.scales.items()],
            "images": images,
            "systems": systems,
            "splits": splits,
            "references": references,
            "items": {
                # What begins with its image's id has a blank for that, which begins no id.
                "id": [
                    f" {item_id.removeprefix(image_id)}"
                    if item_id.startswith(image_id)
                    else item_id
                    for item_id, image_id in zip(items["item_id"], items["image_id"], strict=True)
                ],
                "caption": items["caption"].tolist(),
                "image": of_image,
                "system": of_system,
                "split": of_split,
                "references": of_references,
            },
            "ratings": self._ratings(place),
            "categories": categories,
            "pairs": [
                [place[a], place[b], category, winner]
                for a, b, category, winner in zip(
                    pairs["item_a"], pairs["item_b"], of_category, pairs["winner"], strict=True
                )
            ],
            "scores": _base64(scores.to_numpy(dtype="<f4").T),
            "ranks": _base64(packed.astype("<u2").T),
            "pictures": {},
        }

    def _ratings(self, place: dict[str, int]) -> list[list[list[float]]]:
        """By dimension and item, in the raters' order."""
        found: list[list[list[float]]] = []
        for dimension in self.part.scales:
            of_items: list[list[float]] = [[] for _ in place]
            ratings = self.part.ratings
            ratings = ratings[ratings["dimension"] == dimension]
            for item_id, value in zip(ratings["item_id"], ratings["value"], strict=True):
                if item_id in place:
                    short = round(float(value), 4)
                    of_items[place[item_id]].append(int(short) if short.is_integer() else short)
            found.append(of_items)
        return found


def _codes(values: Any) -> tuple[list[Any], list[int]]:
    """The different values in order of appearance, and the place of each."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return list(places), codes


def _base64(numbers: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()


def _picture(path: Path) -> str | None:
    """A small copy as a data address; None where the file is no picture that can be read."""
    from PIL import Image, ImageOps, features

    form = "WEBP" if features.check("webp") else "JPEG"
    buffer = io.BytesIO()
    try:
        with Image.open(path) as opened:
            opened.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is read no larger than needed
            small = ImageOps.exif_transpose(opened)
            small.thumbnail((SIDE, SIDE))
            small = small.convert("RGBA")
            white = Image.new("RGBA", small.size, "white")
            white.alpha_composite(small)
            white.convert("RGB").save(buffer, format=form, quality=60)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
