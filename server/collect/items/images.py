"""Image files that browsers can show."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, UnidentifiedImageError

from ....datasets.errors import InputError
from .units import StudyUnit

#: Media types of the images that browsers show, by Pillow's name of the format.
MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
IMAGES_REMEDY = "; items.images=FOLDER says where images lie, under their usual names"


def check_images(units: Sequence[StudyUnit], location: str) -> None:
    """Check that every unit has an image that a browser can show.

    Args:
        units: the units of a study.
        location: file and line of the study, for messages.

    Raises:
        InputError: if an image is missing or unreadable.
    """
    without_image = [unit for unit in units if not unit.image]
    if without_image:
        raise InputError(
            f"{location}: {len(without_image)} of {len(units)} items have no image file, "
            f"'{without_image[0].image_id}' for one{IMAGES_REMEDY}"
        )
    for path in dict.fromkeys(unit.image for unit in units):
        try:
            with Image.open(path) as image:
                image_format = image.format
                image.verify()
        except Image.DecompressionBombError as error:
            raise InputError(f"{path}: too many pixels; make it smaller") from error
        except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no image that can be read"
            raise InputError(f"{path}: {reason}; replace it or leave its items out") from error
        if image_format not in MEDIA_TYPES:
            raise InputError(
                f"{path}: {image_format} images are not shown by browsers; save it as PNG"
            )
