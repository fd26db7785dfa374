"""Named annotators who share the units of a study: who scores first, who checks, who looks at fluency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....datasets.errors import unknown
from ....datasets.reading.yaml_fields import YamlFields
from ..items.units import Stage, StudyUnit

#: The fields of a group by turn, and the phase of each; the last two may be missing.
_PHASES = {"first": "main", "second": "check", "third": "check", "fluency": "fluency"}
_NEEDED = ("first", "second")


@dataclass(frozen=True)
class AnnotatorGroup:
    """Annotators who judge the same units, by turn; without images they get their share of all others."""

    stages: tuple[Stage, ...]
    images: tuple[str, ...] = ()


def read_groups(section: YamlFields, participants: str) -> tuple[AnnotatorGroup, ...]:
    """Return the groups that the list `annotators` of a section names.

    Args:
        section: with `annotators`, and perhaps `native_speakers`, of whom each group needs one.
        participants: the study's way to take part.

    Raises:
        InputError: if somebody has two turns at a unit, no native speaker sees a group's units, or the study's
            links are not personal.
    """
    native_speakers = section.texts("native_speakers")
    if "annotators" not in section:
        if native_speakers:
            raise section.error("native_speakers", "there are no annotators; name them")
        return ()
    if participants != "invitation":
        raise section.error(
            "annotators", f"participants is {participants}; named annotators need invitation"
        )
    groups: list[AnnotatorGroup] = []
    for row in section.sections("annotators"):
        names: dict[str, str] = {}
        for turn in _PHASES:
            if turn not in row and turn not in _NEEDED:
                continue
            name = row.text(turn, None, 32).strip()
            if name.casefold() in map(str.casefold, names):
                raise row.error(
                    turn, f"'{name}' has another turn at these images; name somebody else"
                )
            names[name] = turn
        if native_speakers and not names.keys() & set(native_speakers):
            raise row.error(
                "fluency", f"nobody of {', '.join(names)} is a native speaker; name one to check it"
            )
        stages = tuple(Stage(_PHASES[turn], name) for name, turn in names.items())
        groups.append(AnnotatorGroup(stages, row.texts("images")))
        row.reject_unknown()
    if not groups:
        raise section.error("annotators", "at least one group is needed")
    return tuple(groups)


def assign_groups(
    units: Sequence[StudyUnit], groups: Sequence[AnnotatorGroup], section: YamlFields
) -> list[StudyUnit]:
    """Return units with the stages of their groups; those that no group lists are dealt in turn.

    Raises:
        InputError: if a listed image is not rated, or an image is left without group.
    """
    by_image: dict[str, AnnotatorGroup] = {}
    image_ids = {unit.image_id for unit in units}
    for group in groups:
        for image in group.images:
            if image in by_image:
                raise section.error("annotators", f"'{image}' is listed twice; keep one")
            if image not in image_ids:
                raise section.error("annotators", str(unknown("image", image, image_ids)))
            by_image[image] = group
    dealers = [group for group in groups if not group.images]
    unlisted_images = [unit.image_id for unit in units if unit.image_id not in by_image]
    if unlisted_images and not dealers:
        raise section.error(
            "annotators",
            f"no group has the image '{unlisted_images[0]}'; add one without images for the rest",
        )
    by_image |= {
        image: dealers[k % len(dealers)] for k, image in enumerate(dict.fromkeys(unlisted_images))
    }
    return [replace(unit, stages=by_image[unit.image_id].stages) for unit in units]
