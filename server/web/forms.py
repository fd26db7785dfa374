"""Fields and addresses that visitors send: read defensively, for the routers of every site."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path, Request

from .rate_limits import limited_address

#: A path below this site that no browser takes for another site's address ("//host", "/\\host").
_LOCAL_PATH = re.compile(r"/(?:[\x21-\x2e\x30-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]{0,1000})?")
#: The number of a database row in an address.
RowNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


def form_schema(*field_names: str) -> dict[str, Any]:
    """Describe a form's fields for the interface's OpenAPI document."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in field_names}}
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    return {"requestBody": {"content": content}}


def field_value(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the value of a field, stripped; empty if it was sent not at all or more than once."""
    values = fields.get(name, ())
    return values[0].strip() if len(values) == 1 else ""


def client_address(request: Request) -> str:
    """Return the client's address as limits count it; behind a proxy it is the one that the proxy names."""
    return limited_address(request.client.host) if request.client else ""


def local_path(path: str) -> str:
    """Return the page to go on to after signing in, or the first page if the path is not this site's.

    Args:
        path: from an address or a form, which anybody may have written.
    """
    return path if _LOCAL_PATH.fullmatch(path) else "/"
