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
from numpy.typing import NDArray

from ...datasets.reading.source_files import find_image
from ..runs.results import PEOPLE_SOURCE
from .run_parts import RunPart

#: The longer side of a picture, in pixels.
SIDE = 128
#: The rank of an undefined score.
UNDEFINED = 65535
#: How many ranks there are between the least score and the greatest.
STEPS = 10_000
#: The share of the room that captions may take where there are pictures as well.
SHARE = 0.7
#: Words that are blamed less are not marked.
MIN_BLAME = 0.05


@dataclass(frozen=True)
class Embedded:
    """The captions as a page holds them.

    Attributes:
        text: JSON that no HTML can break out of; see `script_json`.
        n_shown, n_total: how many captions it holds, and how many there are.
        n_pictures, n_found, n_unreadable: how many pictures it holds, how many were found, and how many of
            those tried could not be read.
    """

    text: str
    n_shown: int
    n_total: int
    n_pictures: int
    n_found: int
    n_unreadable: int


def script_json(value: Any) -> str:
    """Return JSON for inside a `<script type="application/json">`, whatever the texts in it say.

    `<`, `>` and `&` are escaped, so that neither `</script>` nor `<!--` is in it; so are U+2028 and
    U+2029, which end a line in JavaScript, and halves of surrogate pairs, which no file can hold.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda c: f"\\u{ord(c.group()):04x}", text)


def percentiles(columns: pd.DataFrame) -> pd.DataFrame:
    """Return for each value the share of its column's values below it, equal ones half; NaN stays NaN."""
    return (columns.rank() - 0.5) / columns.notna().sum()


def embed(
    parts: Sequence[RunPart],
    images: Path | None,
    room: int,
    advance: Callable[[], None] = lambda: None,
) -> Embedded:
    """Return the captions of datasets, within so many bytes.

    Where there is no room for all, half are those on which metrics or people disagree most, and half
    are taken evenly from the rest. What room is left goes to pictures, of the same captions first.

    Args:
        parts: datasets whose run kept its items.
        images: a folder to look for pictures in first (`source_files.find_image`).
        room: bytes.
        advance: called after each picture.
    """
    views = [CaptionView(part) for part in parts]
    files = [view.files(images) for view in views]

    n_found = sum(map(len, files))
    total = sum(view.total for view in views)
    caption_room = int(room * SHARE) if n_found else room

    rows_by_view, page_data, size = _fill(views, caption_room)
    bytes_left = room - size
    n_pictures, n_unreadable = _add_pictures(
        views, rows_by_view, page_data, files, bytes_left, advance
    )

    return Embedded(
        text=script_json(page_data),
        n_shown=sum(map(len, rows_by_view)),
        n_total=total,
        n_pictures=n_pictures,
        n_found=n_found,
        n_unreadable=n_unreadable,
    )


def _fill(
    views: Sequence[CaptionView], room: int
) -> tuple[list[list[int]], list[dict[str, Any]], int]:
    """Choose as many rows of each view as fit into so many bytes.

    Returns:
        The rows of each view, the page's data of each, and their size in bytes.
    """
    fraction = 1.0
    while True:
        rows_by_view: list[list[int]] = []
        page_data: list[dict[str, Any]] = []
        for view in views:
            rows = view.choose_rows(fraction)
            rows_by_view.append(rows)
            page_data.append(view.make_page_data(rows))

        size = len(script_json(page_data).encode())
        if size <= room or fraction < 1e-3:
            return rows_by_view, page_data, size

        # A little less than what would fit, as texts are of unlike lengths.
        fraction *= 0.97 * room / size


def _add_pictures(
    views: Sequence[CaptionView],
    rows_by_view: Sequence[Sequence[int]],
    page_data: Sequence[dict[str, Any]],
    files: Sequence[dict[str, Path]],
    room: int,
    advance: Callable[[], None],
) -> tuple[int, int]:
    """Add pictures to the page's data while there is room, in bytes.

    Returns:
        How many pictures were added, and how many cannot be read.
    """
    n_pictures = 0
    n_unreadable = 0
    for view, rows, view_data, paths in zip(views, rows_by_view, page_data, files, strict=True):
        for image in view.images_of(rows):
            if image not in paths or room <= 0:
                continue

            picture = make_thumbnail(paths[image])
            advance()
            if picture is None:
                n_unreadable += 1
                continue

            room -= len(picture) + 12  # its place, quotes and a comma
            if room < 0:
                break

            image_place = view_data["images"].index(image)
            view_data["pictures"][image_place] = picture
            n_pictures += 1

    return n_pictures, n_unreadable


class CaptionView:
    """The captions of one dataset, with the ranks of their scores."""

    def __init__(self, part: RunPart) -> None:
        self.part = part
        self.items = part.items
        self.total = len(self.items)
        mean_ratings: dict[str, Any] = {}
        for dimension in part.scales:
            mean_ratings[dimension] = part.people(dimension)
        self.people = pd.DataFrame(mean_ratings, index=self.items.index, dtype=float)

        people_ranks = percentiles(self.people).add_prefix("people: ")
        self.ranks = percentiles(part.oriented).join(people_ranks)
        correlated_metrics = [metric for metric in part.metrics if metric in part.oriented]
        self.n_correlated = len(correlated_metrics)

        # A page has single captions, or all captions of an image together: its units.
        compared_ranks = self.ranks[[*correlated_metrics, *people_ranks.columns]]
        self.by_image = part.is_by_image
        self.unit = np.arange(self.total)
        disagreement = compared_ranks.max(axis=1) - compared_ranks.min(axis=1)
        if self.by_image:
            # Of an image it is the widest range of one metric's ranks, or people's, over its captions.
            self.unit, _ = pd.factorize(self.items["image_id"])
            ranks_by_image = compared_ranks.groupby(self.unit)
            ranges = ranks_by_image.max() - ranks_by_image.min()
            disagreement = ranges.max(axis=1)
        self.disagreement = disagreement.fillna(0).to_numpy()

    def choose_rows(self, fraction: float) -> list[int]:
        """Choose the items that a page has room for, as positions in the dataset's order."""
        n_units = len(self.disagreement)
        count = int(n_units * fraction) if fraction < 1 else n_units
        if count >= n_units:
            return list(range(self.total))

        order = np.argsort(-self.disagreement, kind="stable")
        n_even = count // 2
        n_disputed = count - n_even
        disputed = order[:n_disputed]
        rest = np.sort(order[n_disputed:])
        even_places = (np.arange(n_even) * len(rest)) // max(n_even, 1)
        chosen_units = np.concatenate([disputed, rest[even_places]])

        is_chosen = np.isin(self.unit, chosen_units)
        return np.flatnonzero(is_chosen).tolist()

    def images_of(self, rows: Sequence[int]) -> list[str]:
        """Return the image ids of rows, those first whose captions are the most disputed."""
        order = sorted(rows, key=lambda row: -self.disagreement[self.unit[row]])
        return list(dict.fromkeys(self.items["image_id"].iloc[order]))

    def files(self, images: Path | None) -> dict[str, Path]:
        """Return the path of each picture, by image id."""
        path_by_image: dict[str, Path] = {}
        for image_id, path in zip(self.items["image_id"], self.items["image"], strict=True):
            if image_id in path_by_image:
                continue
            file = find_image(image_id, self.part.dataset, images) if images else None
            if file is None and isinstance(path, str) and Path(path).is_file():
                file = Path(path)
            if file is not None:
                path_by_image[image_id] = file
        return path_by_image

    def make_page_data(self, rows: Sequence[int]) -> dict[str, Any]:
        """Make the page's data of these items; `page/report.js` reads it."""
        part = self.part
        items = self.items.iloc[list(rows)]
        position = {item_id: index for index, item_id in enumerate(items["item_id"])}
        scores = part.scores.iloc[list(rows)]

        # A text that many captions share stands once, and each of these has its place.
        images, of_image = _codes(items["image_id"])
        # A caption without a system has None or NaN there.
        system_names = [name if isinstance(name, str) else "" for name in items["system"]]
        systems, of_system = _codes(system_names)
        splits, of_split = _codes(items["split"])
        references, of_references = _codes([tuple(map(str, r)) for r in items["references"]])

        higher: list[bool] = []
        formats: list[list[Any]] = []
        for metric in scores:
            style = part.styles.get(str(metric), {})
            higher.append(bool(style.get("higher_is_better", True)))
            formats.append([style.get("scale", 1), style.get("decimals", 4)])

        return {
            "title": part.title,
            "total": self.total,
            "by_image": self.by_image,
            "higher": higher,
            "formats": formats,
            "leading": part.leading_position,
            "metrics": [part.label(metric) for metric in scores.columns],
            "asked": self.n_correlated,
            "people": [{"name": name, "scale": str(scale)} for name, scale in part.scales.items()],
            "images": images,
            "systems": systems,
            "splits": splits,
            "references": references,
            "items": {
                "id": _short_ids(items),
                "caption": items["caption"].tolist(),
                "image": of_image,
                "system": of_system,
                "split": of_split,
                "references": of_references,
            },
            "ratings": self._ratings(position),
            "blamed": self._blamed_words(position),
            **self._compared_pairs(position),
            "scores": _base64(scores.to_numpy(dtype="<f4").T),
            "ranks": _base64(self._pack_ranks(rows).T),
            "pictures": {},
        }

    def _pack_ranks(self, rows: Sequence[int]) -> NDArray[np.uint16]:
        """Return the ranks of items as whole steps, an array of shape (rows, columns)."""
        ranks = self.ranks.iloc[list(rows)].to_numpy(dtype=float)
        steps = np.round(np.nan_to_num(ranks) * STEPS)
        return np.where(np.isnan(ranks), UNDEFINED, steps).astype("<u2")

    def _compared_pairs(self, position: dict[str, int]) -> dict[str, Any]:
        """Return the dimensions on which people compared pairs of these items, and each pair with its winner."""
        pairs = self.part.preferences
        pairs = pairs[pairs["item_a"].isin(position.keys()) & pairs["item_b"].isin(position.keys())]
        dimensions, of_dimension = _codes(pairs["dimension"])

        pair_rows: list[list[Any]] = []
        columns = (pairs["item_a"], pairs["item_b"], of_dimension, pairs["winner"])
        for item_a, item_b, dimension, winner in zip(*columns, strict=True):
            pair_rows.append([position[item_a], position[item_b], dimension, winner])

        return {"compared": dimensions, "pairs": pair_rows}

    def _blamed_words(self, position: dict[str, int]) -> dict[int, list[list[Any]]]:
        """Return each blamed word of each item: its place in the caption, who blames it, and how much."""
        words = self.part.words
        words = words[(words["value"] >= MIN_BLAME) & words["item_id"].isin(position.keys())]
        blamed: dict[int, list[list[Any]]] = {}
        columns = words[["item_id", "position", "source", "value"]]
        for item_id, word_position, source, value in columns.itertuples(index=False, name=None):
            name = source if source == PEOPLE_SOURCE else self.part.label(source)
            blamed.setdefault(position[item_id], []).append([word_position, name, round(value, 2)])
        return blamed

    def _ratings(self, position: dict[str, int]) -> list[list[list[float]]]:
        """Return the ratings by dimension and item, in the raters' order."""
        ratings_by_dimension: list[list[list[float]]] = []
        for dimension in self.part.scales:
            by_item: list[list[float]] = [[] for _ in position]
            ratings = self.part.ratings
            ratings = ratings[ratings["dimension"] == dimension]
            for item_id, value in zip(ratings["item_id"], ratings["value"], strict=True):
                if item_id in position:
                    rating = round(float(value), 4)
                    # 4 is shorter than 4.0.
                    by_item[position[item_id]].append(
                        int(rating) if rating.is_integer() else rating
                    )
            ratings_by_dimension.append(by_item)
        return ratings_by_dimension


def _short_ids(items: pd.DataFrame) -> list[str]:
    """Return the items' ids, with a blank in place of the image's id where they begin with it.

    No id begins with a blank, so that the page can put it back.
    """
    short_ids: list[str] = []
    for item_id, image_id in zip(items["item_id"], items["image_id"], strict=True):
        has_image_id = item_id.startswith(image_id)
        short_ids.append(f" {item_id.removeprefix(image_id)}" if has_image_id else item_id)
    return short_ids


def _codes(values: Any) -> tuple[list[Any], list[int]]:
    """Return the different values in order of appearance, and the place of each value among these."""
    codes_by_value: dict[Any, int] = {}
    codes: list[int] = []
    for value in values:
        codes.append(codes_by_value.setdefault(value, len(codes_by_value)))
    return list(codes_by_value), codes


def _base64(numbers: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()


def make_thumbnail(path: Path) -> str | None:
    """Return a small copy as a data address; None where the file is no picture that can be read."""
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

    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f"data:image/{form.lower()};base64,{encoded}"
