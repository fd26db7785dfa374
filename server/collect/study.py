"""A study, by which units are rated, how and by whom, and the reader of its YAML file with items, images and language."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, RootModel

from ...conf import group
from ...datasets.errors import unknown
from ...datasets.paths import expand_home
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.reading.yaml_model import LongText, validate
from ..texts import ENGLISH, Language
from .forms import FORMS
from .forms.form import Form
from .forms.study_fields import StudyFields
from .items.item_pool import ItemPool, check_images
from .items.item_source import SourceShares, read_items
from .items.units import StudyUnit, number_units


@dataclass(frozen=True)
class StudyLimits:
    """Limits on what an address or a rater may ask for: joins a minute, attempts to sign in, requests a second."""

    joins: int
    logins: int
    requests: int


@dataclass(frozen=True)
class Study:
    """A study as its file defines it.

    Attributes:
        form: the way of judging.
        ratings: the answers that each unit is to have; where raters check each other's, the most.
        contact: whom raters may ask about the study; empty where its file names nobody.
        per_rater: the most answers of one person; None for no limit.
        participants: `open`, `invitation` or `crowd`.
        worker_parameter: the parameter of a crowd platform's link that names the worker.
        completion: the code that a crowd's worker gets in return; empty for one of their own.
        nicknames: whether raters may choose nicknames and see the board.
        attention_every: the answers after which an attention item comes.
        units: everything that is shown.
        conditions: how raters were found, paid and trained, in texts, for exports.
    """

    name: str
    title: str
    form: Form
    intro: str
    consent: str
    contact: str
    ratings: int
    per_rater: int | None
    participants: str
    worker_parameter: str
    completion: str
    nicknames: bool
    attention_every: int
    limits: StudyLimits
    units: tuple[StudyUnit, ...]
    conditions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def annotator_names(self) -> tuple[str, ...]:
        """The names of the annotators whose links the study's invitations are; none where anybody takes part."""
        names: set[str] = set()
        for unit in self.units:
            names.update(stage.annotator for stage in unit.stages)

        return tuple(sorted(names - {""}))

    @property
    def digest(self) -> str:
        """A hash of what is rated and by which rules; other texts may change while a study runs.

        A game's computed ratings are not part of it: they stay as they were when the study began, even if
        their metrics change.
        """
        units: list[Any] = []
        for unit in self.units:
            items = [(i.caption, i.references, i.system, i.split) for i in unit.items]
            fixed = () if unit.pool == "main" else unit.fixed
            units.append((unit.pool, unit.image_id, items, fixed))

        rules = self.form.digest_rules()
        # Databases that were begun by the first version have the game's usual rules in the digest of every form.
        attempts = 3 if self.participants == "crowd" else None
        usual = {"wait": 0.0, "tutorial": 10, "pairs": 20, "points": 25, "attempts": attempts}

        content: list[Any] = [self.form.name, rules or usual, units]

        scales = self.form.wording.scales
        if scales != type(self.form).wording.scales and "dimensions" not in rules:
            content.append({name: str(scale) for name, scale in scales.items()})

        text = json.dumps(content, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


_CATALOGUES = resources.files("captau.server.collect") / "languages"
_PLACEHOLDER = re.compile(r"%\(\w+\)s|%")


class _Translations(RootModel[dict[str, LongText]]):
    """Translations by English text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


def read_language(study: StudyFields, folder: Path) -> Language:
    """Return the language of a study's file, from its fields `lang` and `translations`.

    Args:
        study: the fields.
        folder: the file's folder, where the file of `translations` is looked up.

    Raises:
        InputError: if captau has no catalogue of the language and the study names no file either, or a
            translation has other placeholders than its text.
    """
    code = study.lang
    catalogue_codes = sorted(entry.name.removesuffix(".yaml") for entry in _CATALOGUES.iterdir())

    translations: dict[str, str] = {}
    if code in catalogue_codes:
        translations = load_catalogue(code)
    elif code != ENGLISH.code and study.translations is None:
        known_codes = ", ".join([ENGLISH.code, *catalogue_codes])
        raise study.error(
            "lang", f"'{code}': captau has {known_codes}; name your own texts with translations="
        )

    if study.translations is not None:
        path = folder / expand_home(study.translations)
        if not path.is_file():
            raise study.error("translations", f"there is no file {path}")
        document = YamlDocument.read(path)
        own_translations = validate(document, _Translations).root
        for english_text, translation in own_translations.items():
            if _placeholders(translation) != _placeholders(english_text):
                message = "its %-placeholders differ from the text's"
                raise document.error((english_text,), message)
        translations.update(own_translations)

    return Language(code, translations)


def load_catalogue(code: str) -> dict[str, str]:
    """Return captau's own translations into a language, by English text."""
    path = _CATALOGUES / f"{code}.yaml"
    document = YamlDocument(path.read_text(encoding="utf-8"), path.name)

    return validate(document, _Translations).root


def _placeholders(text: str) -> list[str]:
    return sorted(_PLACEHOLDER.findall(text))


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

    return _read_study(YamlDocument.read(path), path.parent, data_root, prepares_units)


def _read_study(
    document: YamlDocument, folder: Path, data_root: Path | None, prepares_units: bool
) -> Study:
    fields = _read_fields(document)
    if fields.participants != "crowd" and "crowd" in fields.model_fields_set:
        raise fields.error("crowd", f"participants is {fields.participants}; leave it out")

    form = FORMS[fields.protocol].from_study(fields, read_language(fields, folder))
    units = _read_units(fields, form, folder, data_root, prepares_units)
    ratings = form.default_ratings if fields.ratings is None else fields.ratings

    # Where raters check each other's answers, the stages say how many there are.
    n_stages = [len(unit.stages) for unit in units if unit.stages]
    limits = fields.limits

    study = Study(
        name=fields.name,
        title=fields.name if fields.title is None else fields.title,
        form=form,
        intro=fields.intro,
        consent=fields.consent,
        contact=fields.contact,
        ratings=max(n_stages, default=ratings),
        per_rater=fields.per_rater,
        participants=fields.participants,
        worker_parameter=fields.crowd.parameter,
        completion=fields.crowd.completion,
        nicknames=form.course.has_points if fields.nicknames is None else fields.nicknames,
        attention_every=fields.attention_every,
        limits=StudyLimits(limits.joins, limits.logins, limits.requests),
        units=units,
        conditions=fields.conditions.texts,
    )

    _check_attention(study, fields)
    return study


def _read_fields(document: YamlDocument) -> StudyFields:
    """Return the fields of a study's file, as the model of its form has them."""
    plain = document.plain
    if not isinstance(plain, dict) or plain.get("protocol") is None:
        # Its error names the protocol, or what stands before it.
        return validate(document, StudyFields)

    protocol = str(plain["protocol"])
    if protocol not in FORMS:
        raise document.error(("protocol",), str(unknown("protocol", protocol, FORMS)))

    model = FORMS[protocol].study_model
    for other_form in FORMS.values():
        for name in other_form.study_model.model_fields:
            if name in plain and name not in model.model_fields:
                raise document.error((name,), f"the protocol is {protocol}; leave it out")

    return validate(document, model)


def _read_units(
    study: StudyFields, form: Form, folder: Path, data_root: Path | None, prepares_units: bool
) -> tuple[StudyUnit, ...]:
    source = study.items
    frame, images = read_items(source, folder, data_root, form.read_table)
    pool = ItemPool(frame, images)
    special = form.special_units(study, pool)
    rng = np.random.default_rng(source.seed)

    items = pool.remaining()
    shares = SourceShares.read(source)
    if shares:
        items = shares.draw(items, source, rng)
    main = form.group_items(items)

    # A caption that is shown as practice or attention is not rated once more.
    special_captions = {_captions_of(unit) for unit in special}
    main = [unit for unit in main if _captions_of(unit) not in special_captions]
    if not main:
        raise source.error(None, "no items are left to rate")

    # A limit takes units from all of the source, not those at its beginning.
    main = [main[k] for k in rng.permutation(len(main))[: source.limit].tolist()]

    main = form.prepare_units(main, study, computes_ratings=prepares_units)
    units = number_units([*special, *main])

    check_images(units, source.location)
    return units


def _captions_of(unit: StudyUnit) -> tuple[str, frozenset[str]]:
    return unit.image_id, frozenset(item.caption for item in unit.items)


def _check_attention(study: Study, fields: StudyFields) -> None:
    """Check that an interval between attention items has any, and that a rater gets that far."""
    if "attention_every" not in fields.model_fields_set:
        return
    if not any(unit.pool == "attention" for unit in study.units):
        raise fields.error(
            "attention_every", "there is no attention item; list some, or leave it out"
        )
    if study.per_rater is not None and study.attention_every >= study.per_rater:
        raise fields.error(
            "attention_every",
            f"{study.attention_every}; per_rater={study.per_rater} answers end before the first comes",
        )
