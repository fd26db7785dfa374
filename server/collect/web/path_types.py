"""Types of path parameters that a study's pages share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

#: The key of a unit that was shown, or the token of an invitation.
Key = Annotated[str, Path(pattern=r"^[\w-]{1,64}$")]
