"""A provider of OpenID Connect on this machine, which signs ID tokens with an RSA key and can be made to misbehave."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from captau.benchmarks.options.sites import OidcOptions
from captau.server.web.oidc import OidcProvider
from tests.conftest import serving

SECRET = "a secret of the client"


class LocalProvider:
    """The provider of one user.

    Attributes:
        user: the claims of the user who is asked for next.
        changes: claims of the ID token that are wrong; None takes one out.
        is_down: whether it answers 500 to all.
        redirects: where it sends requests on to, by path.
        forge: makes the ID token of claims instead of the provider.
        issuer: its address.
    """

    def __init__(self) -> None:
        from joserfc.jwk import RSAKey

        self.key = RSAKey.generate_key(2048, {"kid": "first"}, auto_kid=False)
        self.published_key = self.key
        self.user = {"sub": "42", "preferred_username": "ann"}
        self.changes: dict[str, object] = {}
        self.is_down = False
        self.redirects: dict[str, str] = {}
        self.forge: Callable[[dict[str, object]], str] | None = None
        self.issuer = self.described_issuer = ""
        self._codes: dict[str, dict[str, str]] = {}
        self.app = FastAPI()
        for path, answer in (
            ("/.well-known/openid-configuration", self._describe),
            ("/authorize", self._authorize),
            ("/token", self._exchange),
            ("/keys", self._show_keys),
            ("/user", self._show_user),
        ):
            self.app.add_api_route(path, answer, methods=["GET", "POST"], response_model=None)
        self.app.middleware("http")(self._fail_if_down)

    async def _fail_if_down(self, request: Request, call_next) -> Response:
        if address := self.redirects.get(request.url.path):
            return RedirectResponse(address, 307)
        return Response("broken", 500) if self.is_down else await call_next(request)

    def _describe(self):
        paths = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "jwks_uri": "keys",
            "userinfo_endpoint": "user",
        }
        return {"issuer": self.described_issuer} | {
            name: f"{self.issuer}/{path}" for name, path in paths.items()
        }

    def _authorize(self, request: Request):
        query = dict(request.query_params)
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert {"openid", "email"} <= set(query["scope"].split())
        code = f"code{len(self._codes)}"
        self._codes[code] = {**query, **{f"user {k}": v for k, v in self.user.items()}}
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 303)

    async def _exchange(self, request: Request):
        from joserfc import jwt

        fields = {k: v[0] for k, v in parse_qs((await request.body()).decode()).items()}
        query = self._codes.pop(fields["code"], None)
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        client = base64.b64encode(f"captau:{SECRET}".encode()).decode()
        if (
            query is None
            or query["code_challenge"] != challenge
            or query["redirect_uri"] != fields["redirect_uri"]
            or request.headers["authorization"] != f"Basic {client}"
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "captau", "iat": now, "exp": now + 60}
        claims |= {"nonce": query["nonce"], "sub": self.user["sub"], **self.changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid}
        token = self.forge(claims) if self.forge else jwt.encode(header, claims, self.key)
        return {"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": token}

    def _show_keys(self):
        return {"keys": [self.published_key.as_dict(private=False)]}

    def _show_user(self):
        return self.user

    def make_client(self, **options) -> OidcProvider:
        """Return the provider as a site sees it."""
        return OidcProvider(OidcOptions(issuer=self.issuer, client_id="captau", **options), SECRET)


@pytest.fixture
def oidc():
    """Yield a provider that answers until the test ends."""
    provider = LocalProvider()
    with ExitStack() as stack:
        provider.issuer = provider.described_issuer = stack.enter_context(serving(provider.app))
        yield provider


def visit_provider(visitor, page="/"):
    """Begin to sign in; return the path with which the provider sends the visitor back."""
    status, headers, body = visitor.raw("GET", f"/signin/oidc?{urlencode({'to': page})}")
    assert status == 303, body
    answer = requests.get(headers["location"], allow_redirects=False, timeout=20)
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"
