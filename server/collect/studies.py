"""A study: what is rated, how, by whom; read from YAML, its items and images checked."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, UnidentifiedImageError

from ...benchmarks.scoring.catalog import resolve_metrics
from ...conf import group
from ...datasets.errors import InputError, unknown
from ...datasets.images import find_image
from ...datasets.registry import load, names
from ...datasets.schema import item_ids, make_items
from ...datasets.table import read_table
from ..yaml_fields import YamlFields, read_yaml_fields
from .game import LEVELS, Rules
from .protocols import FORMS

PROTOCOLS = tuple(FORMS)
WAYS = ("open", "invitation", "crowd")
#: What Pillow calls the kinds of images that browsers show.
IMAGE_KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_REMEDY = "; items.images=FOLDER says where images lie, under their usual names"


@dataclass(frozen=True)
class Candidate:
    """A caption to be judged; it has none where captions are to be written.

    Attributes:
        known: the mean of ratings that the source has of it, on 1 to 5; what simulated raters go by.
    """

    item_id: str
    image_id: str
    caption: str
    references: tuple[str, ...]
    system: str | None
    split: str
    known: float | None = None


@dataclass(frozen=True)
class Unit:
    """What is shown at once: its captions are of one image.

    Attributes:
        pool: `main`, whose answers are the dataset, or `tutorial`, `probation`, `attention`.
        image: the image's file.
        fixed: known ratings of a tutorial's or curated pair; the accepted ones of an attention item; the
            computed ones of a game's.
        explanation: why the known rating is the right one.
    """

    pool: str
    image_id: str
    image: str
    items: tuple[Candidate, ...]
    fixed: tuple[int, ...] = ()
    explanation: str = ""


@dataclass(frozen=True)
class Limits:
    """How much one address or session may ask for."""

    joins: int = 60
    logins: int = 10
    requests: int = 20


@dataclass(frozen=True)
class Study:
    """A study as its file says.

    Attributes:
        ratings: how many answers an item (or image) is to have.
        per_rater: how many answers one person may give; None for as many as there are.
        participants: `open`, `invitation` or `crowd`.
        parameter: in a crowd's link, what names the worker.
        completion: the code that a crowd's worker gets in return.
        every: an attention item comes after so many answers.
        rules: of the game.
        min_words: of a reference.
        units: everything that is shown.
    """

    name: str
    title: str
    protocol: str
    intro: str
    consent: str
    ratings: int
    per_rater: int | None
    participants: str
    parameter: str
    completion: str
    nicknames: bool
    every: int
    rules: Rules
    min_words: int
    limits: Limits
    units: tuple[Unit, ...] = field(repr=False)

    @property
    def digest(self) -> str:
        """Of what is rated and how; texts may change while a study runs, these may not.

        A game's computed ratings are those it was begun with, whatever their metrics say by now, and its
        wait changes nothing of what is rated.
        """
        kept = [
            (
                u.pool,
                u.image_id,
                [(i.caption, i.references, i.system, i.split) for i in u.items],
                () if u.pool == "main" else u.fixed,
            )
            for u in self.units
        ]
        rules = asdict(replace(self.rules, wait=0.0))
        text = json.dumps([self.protocol, rules, kept], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def read_study(study: str, data_root: Path | None = None) -> Study:
    """A study by its name among captau's own, or by its file.

    Raises:
        InputError: where there is none, its file has a fault (said with line and field), or an item has
            no image that can be shown.
    """
    known = group("collect")
    if study in known:
        path = Path(str(resources.files("captau.conf") / "collect" / f"{study}.yaml"))
    else:
        path = Path(study).expanduser()
        if path.suffix not in (".yaml", ".yml"):
            raise unknown("study", study, [*known, "FILE.yaml"])
    return _study(read_yaml_fields(path), path.parent, data_root)


def _study(top: YamlFields, folder: Path, data_root: Path | None) -> Study:
    name = top.text("name")
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise top.error("name", f"'{name}': letters, digits, '_', '-' and '.' are expected")
    protocol = top.choice("protocol", PROTOCOLS)
    participants = top.choice("participants", WAYS, "open")
    game, crowd, limits = top.section("game"), top.section("crowd"), top.section("limits")
    if protocol != "game" and "game" in top:
        raise top.error("game", f"the protocol is {protocol}; leave it out")
    if participants != "crowd" and "crowd" in top:
        raise top.error("crowd", f"participants is {participants}; leave it out")
    usual, asks = Rules(), Limits()
    rules = Rules(
        game.number("wait", usual.wait, 0, 3600),
        game.count("tutorial_pairs", usual.tutorial, 0),
        game.count("pairs", usual.pairs, 1),
        game.count("points", usual.points, -2_000_000),
        game.count("attempts", 3, 1)
        if participants == "crowd"
        else game.optional_count("attempts"),
    )
    study = Study(
        name=name,
        title=top.text("title", name, 200),
        protocol=protocol,
        intro=top.text("intro", ""),
        consent=top.text("consent"),
        ratings=top.count("ratings", 10 if protocol == "good_bad" else 3, 1, 1000),
        per_rater=top.optional_count("per_rater"),
        participants=participants,
        parameter=crowd.text("parameter", "worker", 64),
        completion=crowd.text("completion", "", 64),
        nicknames=top.flag("nicknames", protocol == "game"),
        every=top.count("attention_every", 10, 1),
        rules=rules,
        min_words=top.count("min_words", 8, 1, 50),
        limits=Limits(
            limits.count("joins", asks.joins, 1),
            limits.count("logins", asks.logins, 1),
            limits.count("requests", asks.requests, 1),
        ),
        units=_units(top, game, folder, data_root, protocol, rules),
    )
    _fit(study, top, game)
    for fields in (crowd, limits, game, top):
        fields.reject_unknown()
    return study


def _fit(study: Study, top: YamlFields, game: YamlFields) -> None:
    """That no field undoes what another asks for."""
    rules, most = study.rules, study.per_rater
    if study.protocol == "game":
        if rules.points > 2 * rules.pairs:
            raise game.error(
                "points",
                f"{rules.points}; game.pairs={rules.pairs} bring {2 * rules.pairs} at most",
            )
        if most is not None and most < rules.pairs:
            raise top.error("per_rater", f"{most}; game.pairs={rules.pairs} at least are needed")
    if study.protocol == "thumb" and study.ratings < 2:
        raise top.error("ratings", "1; thumb has two annotators at least, who settle differences")
    if "min_words" in top and study.protocol != "references":
        raise top.error("min_words", f"the protocol is {study.protocol}; leave it out")
    if "attention_every" in top:
        if not any(u.pool == "attention" for u in study.units):
            raise top.error(
                "attention_every", "there is no attention item; list some, or leave it out"
            )
        if most is not None and study.every >= most:
            raise top.error(
                "attention_every",
                f"{study.every}; per_rater={most} answers end before the first comes",
            )


def _units(
    top: YamlFields,
    game: YamlFields,
    folder: Path,
    data_root: Path | None,
    protocol: str,
    rules: Rules,
) -> tuple[Unit, ...]:
    source = top.section("items")
    frame, images = _items(source, folder, data_root, protocol)
    known = _Known(frame, images)
    special: list[Unit] = []
    if protocol == "game":
        special += [
            known.unit("tutorial", row, row.levels("ratings", 1, 5))
            for row in game.sections("tutorial")
        ]
        if len(special) != rules.tutorial:
            raise game.error(
                "tutorial",
                f"{len(special)} pairs; game.tutorial_pairs is {rules.tutorial}; make them equal",
            )
        if game.is_list("probation"):
            special += [
                known.unit("probation", row, row.levels("ratings", 1, 5))
                for row in game.sections("probation")
            ]
        else:
            curated = game.count("probation", rules.pairs, 0)
            special += known.agreed(game, curated)
        found = sum(unit.pool == "probation" for unit in special)
        if found < rules.pairs:
            raise game.error(
                "probation", f"{found} pairs; game.pairs={rules.pairs} at least are needed"
            )
    if protocol in ("game", "good_bad"):
        low, high = (1, 5) if protocol == "game" else (0, 1)
        special += [
            known.unit("attention", row, row.levels("accepted", low, high))
            for row in top.sections("attention")
        ]
    elif "attention" in top:
        raise top.error("attention", f"known answers go with game and good_bad, not {protocol}")
    main = known.rest(protocol)
    if not main:
        raise InputError(f"{source.location}: no items are left to rate")
    limit = source.optional_count("limit")
    if protocol == "game" and min(len(main), limit or len(main)) < rules.pairs:
        if limit is not None and limit < rules.pairs:
            raise source.error("limit", f"{limit}; game.pairs={rules.pairs} at least are needed")
        raise InputError(
            f"{source.location}: items: {len(main)} pairs are left; game.pairs={rules.pairs} at least are needed"
        )
    rng = np.random.default_rng(source.count("seed", 0, 0))
    order = rng.permutation(len(main))[:limit].tolist()
    main = [main[i] for i in order]
    source.reject_unknown()
    if protocol == "game":
        main = _cold(main, game)
    units = (*special, *main)
    _check_images(units, source.location)
    return units


def _items(
    source: YamlFields, folder: Path, data_root: Path | None, protocol: str
) -> tuple[pd.DataFrame, Path | None]:
    """The items' frame with the column `mean` of known ratings, and the folder of the images."""
    given = [key for key in ("dataset", "file") if key in source]
    if len(given) != 1:
        raise InputError(f"{source.location}: items: either dataset or file is needed")
    at = source.optional("images")
    images = (folder / Path(at).expanduser()).resolve() if at else None
    if images and not images.is_dir():
        raise source.error("images", f"{images} is no folder")
    if given[0] == "dataset":
        name = source.choice("dataset", names())
        caption_set = load(name, data_root)
        frame = caption_set.items
        if images:
            paths = {i: find_image(i, name, images) for i in frame["image_id"].unique()}
            frame["image"] = [paths[i] and str(paths[i]) for i in frame["image_id"]]
        ratings = caption_set.ratings
        scale = caption_set.card.scales.get("overall")
        if scale is not None and len(ratings):
            ratings = ratings[ratings["dimension"] == "overall"]
            frame = frame.join(
                ratings.groupby("item_id")["value"].agg(["min", "max", "mean", "size"]),
                on="item_id",
            )
            for column in ("min", "max", "mean"):
                frame[column] = 1 + 4 * scale.share(frame[column])
    else:
        frame = _table(folder / source.text("file"), protocol, images)
    systems = source.texts("systems")
    for system in systems:
        if system not in set(frame["system"]):
            raise source.error("systems", str(unknown("system", system, map(str, frame["system"]))))
    if systems:
        frame = frame[frame["system"].isin(systems)]
    return frame.reset_index(drop=True), images


def _table(path: Path, protocol: str, images: Path | None) -> pd.DataFrame:
    """Images and captions from a table: `image`, `caption`, and if there are any `references`, `system`."""
    table = read_table(path)
    ids = table.filled("image")
    captions = [""] * len(ids) if protocol == "references" else table.filled("caption")
    base = images or path.parent.resolve()
    places = {i: _inside(base, i) or find_image(i, "", base) for i in set(ids)}
    outside = {i for i, path in places.items() if path and not path.resolve().is_relative_to(base)}
    for place, image_id in zip(table.places, ids, strict=True):
        if image_id in outside:
            raise InputError(f"{place}: '{image_id}' lies outside of {base}")
    has = "references" in table
    return make_items(
        ids,
        captions,
        table.references("references") if has else [()] * len(ids),
        systems=[s or None for s in table.texts("system")] if "system" in table else None,
        images=[str(places[i]) if places[i] else None for i in ids],
    )


def _inside(base: Path, name: str) -> Path | None:
    try:
        path = (base / name).resolve()
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


class _Known:
    """The items of a study, of which tutorial, curated and attention pairs are taken out."""

    def __init__(self, frame: pd.DataFrame, images: Path | None) -> None:
        self._frame = frame
        self._root = images
        self._image = dict(zip(frame["image_id"], frame["image"], strict=True))
        self._rows: list[Any] = frame.to_dict("records")  # a frame's own rows are slow
        self._row = {(r["image_id"], r["caption"]): at for at, r in enumerate(self._rows)}
        self._taken: set[int] = set()

    def unit(self, pool: str, row: YamlFields, fixed: Sequence[int]) -> Unit:
        """One that a study's file spells out."""
        image_id, caption = row.text("image"), row.text("caption")
        explanation = row.text("explanation", "" if pool != "tutorial" else None)
        row.reject_unknown()
        at = self._row.get((image_id, caption))
        if at is not None:
            self._taken.add(at)
            return self._of(pool, at, fixed, explanation)
        image = self._image.get(image_id)
        if image is None and self._root is not None:
            image = find_image(image_id, "", self._root)
        if image is None:
            raise row.error("image", f"no image '{image_id}' among the items{_REMEDY}")
        (item_id,) = item_ids([image_id], [caption], [None])
        item = Candidate(item_id, image_id, caption, (), None, "")
        return Unit(pool, image_id, str(image), (item,), tuple(fixed), explanation)

    def agreed(self, game: YamlFields, wanted: int) -> list[Unit]:
        """Pairs whose known ratings are all the same, as many of each level as can be."""
        if "min" not in self._frame:
            raise game.error(
                "probation", "the items come without ratings; list the pairs, each with its ratings"
            )
        same = self._frame[(self._frame["min"] == self._frame["max"]) & (self._frame["size"] >= 2)]
        levels = {
            level: [i for i in same.index[same["mean"] == level] if i not in self._taken]
            for level in LEVELS
        }
        chosen: list[tuple[int, int]] = []
        while len(chosen) < wanted and any(levels.values()):
            for level in LEVELS:
                if levels[level] and len(chosen) < wanted:
                    chosen.append((levels[level].pop(0), level))
        self._taken |= {at for at, _ in chosen}
        return [
            self._of("probation", at, [level] * int(self._frame["size"][at]), "")
            for at, level in chosen
        ]

    def rest(self, protocol: str) -> list[Unit]:
        """What is rated: a caption each, or an image with all of its captions."""
        known = {self._pair(at) for at in self._taken}  # by whichever system, its ratings are known
        left = [at for at in range(len(self._rows)) if self._pair(at) not in known]
        if protocol not in ("four", "references"):
            return [self._of("main", at, (), "") for at in left]
        by_image: dict[str, list[int]] = {}
        for at in left:
            by_image.setdefault(self._rows[at]["image_id"], []).append(at)
        units: list[Unit] = []
        for image_id, rows in by_image.items():
            items = tuple(self._candidate(at) for at in rows)
            if protocol == "references":
                first = items[0]
                items = (Candidate(image_id, image_id, "", (), None, first.split),)
                units.append(Unit("main", image_id, self._file(rows[0]), items))
            else:
                units += [
                    Unit("main", image_id, self._file(rows[0]), items[start : start + 4])
                    for start in range(0, len(items), 4)
                ]
        return units

    def _of(self, pool: str, at: int, fixed: Sequence[int], explanation: str) -> Unit:
        item = self._candidate(at)
        return Unit(pool, item.image_id, self._file(at), (item,), tuple(fixed), explanation)

    def _pair(self, at: int) -> tuple[str, str]:
        return self._rows[at]["image_id"], self._rows[at]["caption"]

    def _file(self, at: int) -> str:
        image = self._rows[at]["image"]
        return image if isinstance(image, str) else ""

    def _candidate(self, at: int) -> Candidate:
        row = self._rows[at]
        system = row["system"] if isinstance(row["system"], str) else None
        known = float(row["mean"]) if "mean" in row and row["mean"] == row["mean"] else None
        texts = row["caption"], row["references"]
        return Candidate(row["item_id"], row["image_id"], *texts, system, row["split"], known)


def _cold(units: Iterable[Unit], game: YamlFields) -> list[Unit]:
    """The game's pairs with two computed ratings each, to begin with (section 3.2)."""
    units = list(units)
    if not game.is_list("cold_start") and game.text("cold_start", "") == "ratings":
        known = [i.known for u in units for i in u.items]
        if None in known:
            raise game.error("cold_start", "not every item comes with ratings; name metrics")
        return [
            replace(u, fixed=(math.floor(k + 0.5),) * 2)
            for u, k in zip(units, known, strict=True)
            if k is not None
        ]
    wanted = game.texts("cold_start", ("rouge_l", "cider"))
    if not 1 <= len(wanted) <= 2:
        raise game.error("cold_start", "one metric or two are expected")
    rows = [
        {"caption": i.caption, "references": list(i.references), "image": u.image}
        for u in units
        for i in u.items
    ]
    try:
        levels = [_levels(metric.score(rows)) for metric in resolve_metrics(list(wanted))]
    except InputError as error:
        raise game.error("cold_start", str(error)) from error
    two = levels if len(levels) == 2 else levels * 2
    return [replace(u, fixed=(a, b)) for u, a, b in zip(units, *two, strict=True)]


def _levels(scores: np.ndarray) -> list[int]:
    """Scores as levels: the worst fifth is 1, the best 5; equal scores get equal levels."""
    order = np.sort(scores)
    low = np.searchsorted(order, scores, side="left")
    high = np.searchsorted(order, scores, side="right")
    share = (low + high) / 2 / len(scores)
    return np.clip(1 + np.floor(share * 5), 1, 5).astype(int).tolist()


def _check_images(units: Sequence[Unit], place: str) -> None:
    """Every unit has an image that a browser can show."""
    without = [u for u in units if not u.image]
    if without:
        raise InputError(
            f"{place}: {len(without)} of {len(units)} items have no image file, '{without[0].image_id}' "
            f"for one{_REMEDY}"
        )
    for path in dict.fromkeys(u.image for u in units):
        try:
            with Image.open(path) as picture:
                kind = picture.format
                picture.verify()
        except Image.DecompressionBombError as error:
            raise InputError(f"{path}: too many pixels; make it smaller") from error
        except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no image that can be read"
            raise InputError(f"{path}: {reason}; replace it or leave its items out") from error
        if kind not in IMAGE_KINDS:
            raise InputError(f"{path}: {kind} images are not shown by browsers; save it as PNG")
