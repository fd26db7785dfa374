"""Signing in by a provider of OpenID Connect: the authorisation-code flow with PKCE, state and nonce.

`sign_in_pages` has the two addresses that a visitor's browser opens; Authlib and joserfc do what the standards say
(OpenID Connect Core 1.0, sections 3.1.2 and 3.1.3; RFC 7636; RFC 9207). Authlib's client for Starlette would lose checks
that sites rely on (of the issuer, of RFC 9207's `iss`, of the userinfo's subject, of fixed algorithms), and would need
httpx and a second session cookie.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from ...benchmarks.options.sites import OidcOptions
from ...datasets.caption_texts import collapse_blanks
from ...datasets.errors import InputError
from ..texts import is_valid_name
from .errors import ProviderDownError, RefusedError
from .sessions import Session

#: The environment variable that may hold the client's secret.
SECRET_VARIABLE = "CAPTAU_OIDC_SECRET"
#: Algorithms of ID tokens: signatures by a key that only the provider has.
_ALGORITHMS = ["RS256", "RS512", "PS256", "ES256", "ES384"]
#: Seconds that an attempt to sign in may take, and the most attempts that are remembered. The site limits
#: how many an address begins.
_SECONDS, _MAX_ATTEMPTS = 600, 10_000
#: The provider answers itself: a redirect could lead inwards, with a code or a token.
_REQUEST: dict[str, Any] = {"timeout": 10, "allow_redirects": False}
#: Seconds by which clocks may differ.
_LEEWAY = 60

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """A person whom the provider has signed in.

    Attributes:
        key: a hash of issuer and subject, which stay the same where names and addresses change.
        names: names for an account, the best first.
    """

    key: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Attempt:
    """A visitor who was sent to the provider; `page` is where they go on to."""

    address: str
    session_name: str
    page: str
    redirect_uri: str
    nonce: str
    verifier: str
    began: float


class OidcProvider:
    """A provider, and the visitors who are there to sign in.

    Its methods wait for the provider, and are not for the event loop's thread.

    Args:
        options: with an issuer and a client's name.
        secret: of the client; empty for a public one.

    Attributes:
        name: the provider's host, for people.
        is_only: whether people sign in by no other way.
    """

    def __init__(self, options: OidcOptions, secret: str = "") -> None:
        self._issuer, self._client_id = options.issuer or "", options.client_id or ""
        self._secret, self._allow = secret, options.allow
        self.name, self.is_only = urlsplit(self._issuer).netloc, options.only
        self._attempts: dict[str, _Attempt] = {}
        self._lock = threading.Lock()  # an attempt that is finished must not come back
        self._metadata: Mapping[str, Any] = {}
        self._keys: Any = None

    def begin(self, address: str, session: Session, page: str, redirect_uri: str) -> str:
        """Return the provider's address that a visitor is sent to.

        Args:
            address: the visitor's, as limits count it. Where too many attempts are open, the oldest of the
                address that has the most is forgotten, so that a few addresses lock nobody else out.
            session: of the visitor, who must come back with the same.
            page: of this site, to go on to.
            redirect_uri: the address of this site that the provider sends the visitor back to.

        Raises:
            ProviderDownError: if the provider does not answer as it should.
        """
        now = time.monotonic()
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        client = self._make_client(redirect_uri)
        url, state = client.create_authorization_url(
            self._load_metadata()["authorization_endpoint"], code_verifier=verifier, nonce=nonce
        )
        attempt = _Attempt(address, session.name, page, redirect_uri, nonce, verifier, now)
        with self._lock:
            self._attempts = {s: a for s, a in self._attempts.items() if now - a.began < _SECONDS}
            if len(self._attempts) >= _MAX_ATTEMPTS:
                self._forget_attempt()
            self._attempts[state] = attempt
        return url

    def finish(self, session: Session | None, answer: Mapping[str, str]) -> tuple[Identity, str]:
        """Return who a visitor is and the page they go on to; each attempt is finished once.

        Args:
            session: of the visitor.
            answer: the fields of the address with which the provider sent the visitor back.

        Raises:
            ProviderDownError: if the provider does not answer as it should.
            RefusedError: if the visitor is not signed in.
        """
        with self._lock:
            attempt = self._attempts.pop(answer.get("state", ""), None)
        if (
            attempt is None
            or time.monotonic() - attempt.began > _SECONDS
            or session is None
            or session.name != attempt.session_name
            or answer.get("iss", self._issuer) != self._issuer
        ):
            raise RefusedError("This sign-in took too long, or began elsewhere. Sign in again.")
        if not answer.get("code"):
            raise RefusedError("The sign-in service did not sign you in.")
        claims = self._load_claims(attempt, answer["code"])
        if not self._is_allowed(claims):
            raise RefusedError("Your account there is not among those that may sign in here.")
        return _identify(self._issuer, claims), attempt.page

    def _forget_attempt(self) -> None:
        """Forget the oldest attempt of the address that has the most."""
        n_attempts = Counter(attempt.address for attempt in self._attempts.values())
        address = max(n_attempts, key=n_attempts.__getitem__)
        del self._attempts[next(s for s, a in self._attempts.items() if a.address == address)]

    def _make_client(self, redirect_uri: str) -> Any:
        from authlib.integrations.requests_client import OAuth2Session

        methods = self._load_metadata().get("token_endpoint_auth_methods_supported", ())
        has_post = "client_secret_post" in methods and "client_secret_basic" not in methods
        method = "client_secret_post" if has_post else "client_secret_basic"
        return OAuth2Session(
            self._client_id,
            self._secret or None,
            token_endpoint_auth_method=method if self._secret else "none",
            scope="openid email profile",
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            leeway=0,  # the access token is used at once, however soon it expires
        )

    def _load_claims(self, attempt: _Attempt, code: str) -> dict[str, Any]:
        """Exchange a code for an ID token, check that, and return what the provider says of the visitor."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        metadata = self._load_metadata()
        try:
            client = self._make_client(attempt.redirect_uri)
            token = client.fetch_token(
                metadata["token_endpoint"],
                code=code,
                grant_type="authorization_code",
                code_verifier=attempt.verifier,
                **_REQUEST,
            )
            claims = self._check_token(str(token.get("id_token", "")), attempt.nonce)
            if "userinfo_endpoint" in metadata and "access_token" in token:
                user = client.get(metadata["userinfo_endpoint"], **_REQUEST).json()
                if user["sub"] != claims["sub"]:
                    raise ValueError("the userinfo is somebody else's")
                claims = {**user, **claims}
        except (AuthlibBaseError, JoseError, ValueError, TypeError, KeyError) as error:
            # Also of an answer that is no JSON; texts of the provider are not for the page.
            _log.warning("%s: a sign-in is refused: %r", self.name, error)
            raise RefusedError("The sign-in service did not sign you in as it should.") from error
        except requests.RequestException as error:
            raise self._is_down(error) from error
        return claims

    def _check_token(self, id_token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token; raise JoseError or ValueError if it is not for this sign-in."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError

        if self._keys is None:
            self._keys = self._load_keys()
        try:
            token = jwt.decode(id_token, self._keys, algorithms=_ALGORITHMS)
        except InvalidKeyIdError:  # the provider may have new keys
            self._keys = self._load_keys()
            token = jwt.decode(id_token, self._keys, algorithms=_ALGORITHMS)
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self._client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        registry.validate(token.claims)
        if token.claims.get("azp", self._client_id) != self._client_id:
            raise ValueError("the token is another client's")
        return token.claims

    def _is_allowed(self, claims: Mapping[str, Any]) -> bool:
        email, groups = claims.get("email"), claims.get("groups")
        names = [f"group:{group}" for group in groups] if isinstance(groups, list) else []
        if claims.get("email_verified") is True and isinstance(email, str):
            names.append(email.rpartition("@")[2].lower())
        return not self._allow or not {a.lower() for a in self._allow}.isdisjoint(
            map(str.lower, names)
        )

    def _load_metadata(self) -> Mapping[str, Any]:
        """Return the provider's description of itself, which is asked for once."""
        if not self._metadata:
            url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = self._get_json(url)
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            addresses = map(metadata.get, names)
            scheme = urlsplit(self._issuer).scheme
            if metadata.get("issuer") != self._issuer or not all(
                isinstance(a, str) and urlsplit(a).scheme in ("https", scheme) for a in addresses
            ):
                raise self._is_down(
                    ValueError(f"{url} describes another issuer, or lacks addresses")
                )
            self._metadata = metadata
        return self._metadata

    def _load_keys(self) -> Any:
        from joserfc.jwk import KeySet

        return KeySet.import_key_set(self._get_json(self._load_metadata()["jwks_uri"]))  # pyright: ignore[reportArgumentType]

    def _get_json(self, url: str) -> Mapping[str, Any]:
        try:
            response = requests.get(url, **_REQUEST)
            response.raise_for_status()
            value = response.json()
        except (requests.RequestException, ValueError) as error:
            raise self._is_down(error) from error
        if not isinstance(value, dict):
            raise self._is_down(ValueError(f"{url} holds no object"))
        return value

    def _is_down(self, error: Exception) -> ProviderDownError:
        _log.warning("%s does not answer as it should: %s", self.name, error)
        return ProviderDownError(
            "The sign-in service does not answer as it should. Try again later."
        )


def open_provider(options: OidcOptions) -> OidcProvider | None:
    """Return the provider of a site's options; None if they name none.

    Raises:
        InputError: if the options do not go together, or a package is missing.
    """
    if options.issuer is None:
        if options != OidcOptions():
            raise InputError("oidc.*= needs oidc.issuer=URL")
        return None
    parts = urlsplit(options.issuer)
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.netloc or not (parts.scheme == "https" or is_local):
        raise InputError(f"oidc.issuer={options.issuer}: https://… is expected")
    if not options.client_id:
        raise InputError(
            "oidc.issuer= needs oidc.client_id=; the provider gives it to a new client"
        )
    try:
        import authlib  # noqa: F401  # pyright: ignore[reportUnusedImport]
        import joserfc  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise InputError(
            f"oidc.issuer=: {error.name} is not installed: pip install 'captau[oidc]'"
        ) from error
    return OidcProvider(options, _read_secret(options.secret_file))


def _read_secret(file: Path | None) -> str:
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "")
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"oidc.secret_file={file}: cannot be read ({reason})") from error


def _identify(issuer: str, claims: Mapping[str, Any]) -> Identity:
    subject = f"{issuer}\n{claims['sub']}"
    texts = [claims.get("preferred_username"), claims.get("email"), claims.get("name")]
    names = [collapse_blanks(text.partition("@")[0]) for text in texts if isinstance(text, str)]
    key = hashlib.sha256(subject.encode("utf-8", "replace")).hexdigest()
    return Identity(key, tuple(name for name in names if is_valid_name(name)))
