"""Responses with an image file."""

from __future__ import annotations

from pathlib import Path

from fastapi import Response
from fastapi.responses import FileResponse
from PIL import Image

from ...web.errors import NotFoundError
from ..items.images import MEDIA_TYPES


def image_response(path: str) -> Response:
    """Return an image file; its content says its media type.

    Raises:
        NotFoundError: if it is gone, or no longer an image.
    """
    try:
        with Image.open(path) as image:
            media_type = MEDIA_TYPES[image.format or ""]
    except (OSError, KeyError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise NotFoundError from error
    headers = {"cache-control": "private, max-age=86400, immutable"}
    return FileResponse(Path(path), media_type=media_type, headers=headers)
