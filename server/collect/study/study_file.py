"""The reader of a study's YAML file; it checks the study, its items and images."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import numpy as np

from ....conf import group
from ....datasets.errors import InputError, unknown
from ....datasets.paths import expand_home
from ....datasets.reading.yaml_fields import YamlFields, read_yaml_fields
from ..forms import FORMS
from ..forms.form import Form
from ..items.images import check_images
from ..items.item_pool import ItemPool
from ..items.item_source import read_items
from ..items.source_shares import SourceShares
from ..items.units import StudyUnit, number_units
from .definition import Study, StudyLimits
from .study_language import read_language

#: The ways to take part.
PARTICIPANTS = ("open", "invitation", "crowd")


def read_study(study: str, data_root: Path | None = None, *, prepares_units: bool = True) -> Study:
    """Read a study by its name among captau's own, or from its file.

    Args:
        study: its name or file.
        data_root: the folder of the datasets.
        prepares_units: whether units get the ratings that they start with, which metrics may have to
            compute; a database that holds the study has them.

    Raises:
        InputError: if there is none, its file has a fault (named with line and field), or an item has no
            image that a browser can show.
    """
    own_studies = group("collect")
    if study in own_studies:
        path = Path(str(resources.files("captau.conf") / "collect" / f"{study}.yaml"))
    else:
        path = expand_home(study)
        if path.suffix not in (".yaml", ".yml"):
            raise unknown("study", study, [*own_studies, "FILE.yaml"])
    return _read_study(read_yaml_fields(path), path.parent, data_root, prepares_units)


def _read_study(
    top: YamlFields, folder: Path, data_root: Path | None, prepares_units: bool
) -> Study:
    name = top.text("name")
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise top.error("name", f"'{name}': letters, digits, '_', '-' and '.' are expected")
    form_name = top.choice("protocol", FORMS)
    participants = top.choice("participants", PARTICIPANTS, "open")
    for other_form in FORMS.values():
        for field in other_form.study_fields:
            if field in top and field not in FORMS[form_name].study_fields:
                raise top.error(field, f"the protocol is {form_name}; leave it out")
    if participants != "crowd" and "crowd" in top:
        raise top.error("crowd", f"participants is {participants}; leave it out")
    form = FORMS[form_name].from_study(top, participants, read_language(top, folder))
    units = _read_units(top, form, folder, data_root, prepares_units)
    ratings = top.count("ratings", form.default_ratings, 1, 1000)
    crowd, limits, default_limits = top.section("crowd"), top.section("limits"), StudyLimits()
    study = Study(
        name=name,
        title=top.text("title", name, 200),
        form=form,
        intro=top.text("intro", ""),
        consent=top.text("consent"),
        ratings=max((len(unit.stages) for unit in units if unit.stages), default=ratings),
        per_rater=top.optional_count("per_rater"),
        participants=participants,
        worker_parameter=crowd.text("parameter", "worker", 64),
        completion=crowd.text("completion", "", 64),
        nicknames=top.flag("nicknames", form.has_points),
        attention_every=top.count("attention_every", 10, 1),
        limits=StudyLimits(
            limits.count("joins", default_limits.joins, 1),
            limits.count("logins", default_limits.logins, 1),
            limits.count("requests", default_limits.requests, 1),
        ),
        units=units,
    )
    form.check_counts(top, study.ratings, study.per_rater)
    _check_attention(study, top)
    top.reject_unknown()
    return study


def _read_units(
    top: YamlFields, form: Form, folder: Path, data_root: Path | None, prepares_units: bool
) -> tuple[StudyUnit, ...]:
    source = top.section("items")
    frame, images = read_items(source, folder, data_root, form.read_table)
    pool = ItemPool(frame, images)
    special = form.practice_units(top, pool) + form.attention_units(top, pool)
    rng = np.random.default_rng(source.count("seed", 0, 0))
    items, shares = pool.remaining(), SourceShares.read(source)
    main = form.group_items(shares.draw(items, source, rng) if shares else items)
    special_captions = {_captions_of(unit) for unit in special}
    main = [unit for unit in main if _captions_of(unit) not in special_captions]
    if not main:
        raise InputError(f"{source.location}: no items are left to rate")
    limit = source.optional_count("limit")
    main = [main[k] for k in rng.permutation(len(main))[:limit].tolist()]
    source.reject_unknown()
    main = form.assign_stages(main, top)
    units = number_units([*special, *(form.prepare_units(main, top) if prepares_units else main)])
    check_images(units, source.location)
    return units


def _captions_of(unit: StudyUnit) -> tuple[str, frozenset[str]]:
    return unit.image_id, frozenset(item.caption for item in unit.items)


def _check_attention(study: Study, top: YamlFields) -> None:
    """Check that an interval between attention items has any, and that a rater gets that far."""
    if "attention_every" not in top:
        return
    if not any(unit.pool == "attention" for unit in study.units):
        raise top.error("attention_every", "there is no attention item; list some, or leave it out")
    if study.per_rater is not None and study.attention_every >= study.per_rater:
        raise top.error(
            "attention_every",
            f"{study.attention_every}; per_rater={study.per_rater} answers end before the first comes",
        )
