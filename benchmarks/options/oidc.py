"""Options `oidc.*` of the commands that serve a site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .declaration import Composed, Option, Options, option, options_of
from .shared import words_of


@dataclass(frozen=True, kw_only=True)
class OidcOptions(Options):
    """A provider of OpenID Connect by which people sign in, and whom it may let in."""

    issuer: str | None = option(
        None,
        "the provider's issuer, as its documentation names it; needs pip install 'captau[oidc]'",
        takes="URL",
        is_literal=True,
    )
    client_id: str | None = option(
        None, "the name under which the provider knows this site", takes="TEXT", is_literal=True
    )
    secret_file: Path | None = option(
        None,
        "a file with the client's secret (default: $CAPTAU_OIDC_SECRET; without either, none)",
        takes="FILE",
    )
    allow: tuple[str, ...] = option(
        None,
        "who may sign in: domains of verified e-mail addresses, and groups as group:NAME "
        "(default: everybody whom the provider signs in)",
        takes="[A,B]",
        read=words_of,
    )
    only: bool = option(
        False, "true turns off every other way in; the dashboard keeps its password"
    )


OIDC: tuple[Option, ...] = options_of(
    OidcOptions, "oidc.", heading="Signing in by OpenID Connect (docs/challenges.md)"
)


def oidc_of(composed: Composed) -> OidcOptions:
    """Read the options `oidc.*`."""
    return OidcOptions.read(Composed(composed["oidc"]))
