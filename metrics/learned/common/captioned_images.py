"""Captioned images, which raters learn from without ratings: references, files, or the demo's further scenes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....datasets import demo
from ....datasets.errors import InputError
from ....datasets.table import read_table
from ....datasets.umic_lmdb import named_image
from .recipe import Examples

if TYPE_CHECKING:
    from .training import Session

#: The further scenes of the demo; every tenth is for validation.
DEMO_SCENES = 2000
#: The share of a file's images that is for validation.
HELD_OUT = 0.1


@dataclass(frozen=True)
class Captioned:
    """Images with captions of them.

    Attributes:
        image_ids: shape (n_images,), each once.
        captions: of each, one at least.
    """

    image_ids: list[str]
    captions: list[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.image_ids)


def captioned(
    given: str, train: Examples, validation: Examples, session: Session
) -> tuple[Captioned, Captioned]:
    """Captioned images to train on and to choose by; the session is told of those that it does not know.

    Args:
        given: `references` (of the examples' images), `demo` (its further scenes), or a file (CSV, JSON
            lines, Parquet) with the columns `image_id` and `caption`.
        train, validation: the examples; a file's images that are among `validation`, or that the
            session tests on, are left out.
        session: by whose seed a file is cut in two.

    Raises:
        InputError: where there are none.
    """
    if given == "references":
        return _references(train), _references(validation)
    if given == "demo":
        scenes = [demo.further(number) for number in range(DEMO_SCENES)]
        sides = [
            Captioned([s.image_id for s, _ in part], [captions for _, captions in part])
            for part in (
                [s for i, s in enumerate(scenes) if i % 10],
                [s for i, s in enumerate(scenes) if i % 10 == 0],
            )
        ]
        return sides[0], sides[1]
    found = _read(Path(given).expanduser())
    for image in {*map(str, validation.image_ids), *session.test_image_ids}:
        found.pop(image, None)
    if len(found) < 2:
        raise InputError(
            f"{given}: {len(found)} captioned images to train on; two at least are needed"
        )
    session.extra_image_ids |= found.keys()
    mixed = [str(i) for i in session.rng("captioned").permutation(sorted(found))]
    cut = max(1, round(HELD_OUT * len(mixed)))
    chosen, rest = sorted(mixed[:cut]), sorted(mixed[cut:])
    return (
        Captioned(rest, [tuple(found[i]) for i in rest]),
        Captioned(chosen, [tuple(found[i]) for i in chosen]),
    )


def _references(examples: Examples) -> Captioned:
    of: dict[str, tuple[str, ...]] = {}
    for image, references in zip(examples.image_ids, examples.rows.references, strict=True):
        of.setdefault(str(image), references)
    of = {image: references for image, references in of.items() if references}
    if not of:
        raise InputError("no image has references to learn from; name a file of captions")
    return Captioned(list(of), list(of.values()))


def _read(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file of captions; or say references, or demo")
    table = read_table(path)
    lacking = [c for c in ("image_id", "caption") if c not in table]
    if lacking:
        raise InputError(f"{path}: no column {lacking[0]}; image_id and caption are needed")
    found: dict[str, list[str]] = {}
    for image, caption in zip(table.column("image_id"), table.column("caption"), strict=True):
        found.setdefault(_image_id(str(image)), []).append(str(caption))
    return found


def _image_id(image: str) -> str:
    """An image as datasets call it, where the file has the long names of COCO's and UMIC's files."""
    return named_image(Path(image).stem.lower()) or image
