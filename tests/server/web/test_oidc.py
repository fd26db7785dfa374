"""Signing in by OpenID Connect without a provider: what it is asked for, and which of its answers count.

`test_oidc_sign_in` has the same with Authlib and joserfc, for which classes stand here that note what they are given.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import requests

from captau.benchmarks.options.sites import OidcOptions
from captau.server.web import oidc
from captau.server.web.errors import (
    ProviderDownError,
    RefusedError,
)
from captau.server.web.oidc import Identity, OidcProvider, _read_secret, open_provider
from captau.server.web.sessions import Session
from tests.conftest import says

ISSUER = "https://p.example"
ENDPOINTS = {
    name: f"{ISSUER}/{name}"
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
}
CLAIMS = {"sub": "42", "preferred_username": "ann"}
BACK = "https://here.example/signin/oidc/back"
DOWN = "The sign-in service does not answer as it should. Try again later."
UNLIKE = "The sign-in service did not sign you in as it should."


class PackageError(Exception):
    """Stands for the errors of both packages."""


class KeyIdError(PackageError):
    """Stands for joserfc's error of a key that the provider does not publish."""


@pytest.fixture
def packages(monkeypatch):
    """Return what the stand-ins of the packages are asked for, and what they answer."""
    noted = SimpleNamespace(clients=[], asked=[], decoded=[], registries=[], validated=[])
    noted.token, noted.user = {"id_token": "ID", "access_token": "x"}, {"sub": "42", "name": "Ann"}
    noted.claims, noted.unknown_keys = [dict(CLAIMS)], set()

    class Client:
        def __init__(self, *args, **options):
            noted.clients.append((*args, options))

        def create_authorization_url(self, url, **options):
            noted.asked.append((url, options))
            return f"{url}?", f"state {len(noted.asked)}"

        def fetch_token(self, url, **options):
            noted.asked.append((url, options))
            if isinstance(noted.token, Exception):
                raise noted.token
            return noted.token

        def get(self, url, **options):
            noted.asked.append((url, options))
            return SimpleNamespace(json=lambda: noted.user)

    class Registry:
        def __init__(self, **options):
            noted.registries.append(options)

        def validate(self, claims):
            noted.validated.append(claims)

    def decode(token, keys, **options):
        noted.decoded.append((token, keys, options))
        if keys in noted.unknown_keys:
            raise KeyIdError
        return SimpleNamespace(claims=dict(noted.claims[-1]))

    contents = {
        "authlib": {},
        "authlib.common": {},
        "authlib.common.errors": {"AuthlibBaseError": PackageError},
        "authlib.integrations": {},
        "authlib.integrations.requests_client": {"OAuth2Session": Client},
        "joserfc": {"jwt": SimpleNamespace(decode=decode, JWTClaimsRegistry=Registry)},
        "joserfc.errors": {"JoseError": PackageError, "InvalidKeyIdError": KeyIdError},
        "joserfc.jwk": {"KeySet": SimpleNamespace(import_key_set=lambda keys: keys["keys"])},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return noted


@pytest.fixture
def clock(monkeypatch):
    """Return the time by which attempts are measured, which a test may change."""
    now = [1000.0]
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def make_provider(metadata=ENDPOINTS, secret="", **options):
    provider = OidcProvider(OidcOptions(issuer=ISSUER, client_id="captau", **options), secret)
    provider._metadata = metadata
    return provider


def test_a_visitor_is_sent_to_the_provider_with_secrets_of_the_attempt(packages, clock):
    provider, session = make_provider(), Session.new()
    assert (
        provider.begin("192.0.2.1", session, "/account", BACK)
        == f"{ISSUER}/authorization_endpoint?"
    )
    ((url, asked),) = packages.asked
    assert (url, set(asked)) == (ENDPOINTS["authorization_endpoint"], {"code_verifier", "nonce"})
    # 32 and 48 random bytes in base64.
    assert (len(asked["nonce"]), len(asked["code_verifier"])) == (43, 64)
    ((state, attempt),) = provider._attempts.items()
    assert (state, attempt) == (
        "state 1",
        oidc._Attempt(
            *("192.0.2.1", session.name, "/account", BACK, asked["nonce"], asked["code_verifier"]),
            1000.0,
        ),
    )
    (client,) = packages.clients
    assert client == (
        "captau",
        None,
        {
            **{"token_endpoint_auth_method": "none", "scope": "openid email profile"},
            **{"redirect_uri": BACK, "code_challenge_method": "S256", "leeway": 0},
        },
    )


@pytest.mark.parametrize(
    ("methods", "secret", "method"),
    [
        (None, "s", "client_secret_basic"),
        (["client_secret_post"], "s", "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], "s", "client_secret_basic"),
        (["private_key_jwt"], "s", "client_secret_basic"),
        (["client_secret_post"], "", "none"),
    ],
)
def test_the_client_shows_its_secret_in_a_way_that_the_provider_takes(
    packages, methods, secret, method
):
    supported = {} if methods is None else {"token_endpoint_auth_methods_supported": methods}
    make_provider({**ENDPOINTS, **supported}, secret)._make_client(BACK)
    ((_, sent, options),) = packages.clients
    assert (sent, options["token_endpoint_auth_method"]) == (secret or None, method)


def test_attempts_are_forgotten_after_ten_minutes(packages, clock):
    provider = make_provider()
    for clock[0] in (0.0, 0.5, 600.0):  # the first is ten minutes old now
        provider.begin("192.0.2.1", Session.new(), "/", BACK)
    assert [attempt.began for attempt in provider._attempts.values()] == [0.5, 600.0]


def test_attempts_of_the_address_with_the_most_are_forgotten_first(packages, clock, monkeypatch):
    monkeypatch.setattr(oidc, "_MAX_ATTEMPTS", 3)
    provider = make_provider()
    for address in ("one", "two", "two", "three"):
        provider.begin(address, Session.new(), "/", BACK)
    assert [a.address for a in provider._attempts.values()] == ["one", "two", "three"]


def test_a_visitor_comes_back_once_in_time_with_the_same_session(packages, clock):
    provider, session = make_provider(allow=("group:staff",)), Session.new(5)
    provider._keys = "keys"

    def finish(seconds=600.0, session=session, **answer):
        """Return what coming back so long after the beginning leads to."""
        clock[0] = 0.0
        provider.begin("192.0.2.1", session or Session.new(), "/account", BACK)
        state = next(reversed(provider._attempts))
        clock[0] = seconds
        try:
            return provider.finish(session, {"state": state, "code": "c", **answer})
        except RefusedError as error:
            return str(error)

    late = "This sign-in took too long, or began elsewhere. Sign in again."
    packages.claims = [{**CLAIMS, "groups": ["staff"]}]
    key = hashlib.sha256(f"{ISSUER}\n42".encode()).hexdigest()
    signed_in = Identity(key, ("ann", "Ann")), "/account"
    assert finish() == signed_in
    assert finish(iss=ISSUER) == signed_in
    assert finish(600.1) == late
    assert finish(iss="https://evil.example") == finish(iss="https://z.example") == late
    assert finish(state="another") == late
    assert finish(session=None) == late
    for name in ("", "~"):  # before and after every other name
        provider.begin("192.0.2.1", replace(session, name=name), "/", BACK)
        state = next(reversed(provider._attempts))
        for _ in range(2):  # somebody else's, and then used
            with pytest.raises(RefusedError, match=late):
                provider.finish(session, {"state": state, "code": "c"})
    assert finish(code="") == "The sign-in service did not sign you in."
    packages.claims = [CLAIMS]
    assert finish() == "Your account there is not among those that may sign in here."
    with pytest.raises(RefusedError, match=late):
        provider.finish(session, {})


def make_attempt():
    return oidc._Attempt("192.0.2.1", "s", "/", BACK, "NONCE", "VERIFIER", 0.0)


def test_a_code_is_exchanged_and_the_token_checked(packages, monkeypatch):
    asked = []

    def get(url, **options):
        asked.append((url, options))
        answer = {"keys": f"keys {len(asked)}"}
        return SimpleNamespace(raise_for_status=lambda: None, json=lambda: answer)

    monkeypatch.setattr(oidc.requests, "get", get)
    provider, usual = make_provider(), {"timeout": 10, "allow_redirects": False}
    # The token's claims stand before the userinfo's.
    packages.user = {"sub": "42", "name": "Ann", "preferred_username": "another"}
    assert provider._load_claims(make_attempt(), "CODE") == {**CLAIMS, "name": "Ann"}
    assert packages.asked == [
        (
            ENDPOINTS["token_endpoint"],
            {
                **{"code": "CODE", "grant_type": "authorization_code"},
                **{"code_verifier": "VERIFIER", **usual},
            },
        ),
        (ENDPOINTS["userinfo_endpoint"], usual),
    ]
    algorithms = {"algorithms": ["RS256", "RS512", "PS256", "ES256", "ES384"]}
    assert packages.decoded == [("ID", "keys 1", algorithms)]
    needed = {"essential": True}
    assert packages.registries == [
        {
            **{"leeway": 60, "iss": {**needed, "value": ISSUER}, "sub": needed},
            **{"aud": {**needed, "value": "captau"}, "exp": needed, "iat": needed},
            "nonce": {**needed, "value": "NONCE"},
        }
    ]
    assert packages.validated == [CLAIMS]
    # The keys are asked for once, and again where a token names another.
    provider._load_claims(make_attempt(), "CODE")
    assert asked == [(ENDPOINTS["jwks_uri"], usual)]
    packages.unknown_keys = {"keys 1"}
    provider._load_claims(make_attempt(), "CODE")
    assert asked == [(ENDPOINTS["jwks_uri"], usual)] * 2
    assert [keys for _, keys, _ in packages.decoded[1:]] == ["keys 1", "keys 1", "keys 2"]


@pytest.mark.parametrize(
    ("changes", "claims"),
    [
        ({"token": {"id_token": "ID"}}, CLAIMS),  # without the right to ask for more
        ({"metadata": {k: v for k, v in ENDPOINTS.items() if "user" not in k}}, CLAIMS),
        ({"claims": [{**CLAIMS, "azp": "captau"}]}, {**CLAIMS, "azp": "captau", "name": "Ann"}),
        ({"claims": [{**CLAIMS, "azp": "another"}]}, UNLIKE),
        ({"user": {"sub": "43"}}, UNLIKE),
        ({"user": {"sub": "41"}}, UNLIKE),
        ({"user": {}}, UNLIKE),
        ({"user": None}, UNLIKE),
        ({"token": PackageError()}, UNLIKE),
        ({"token": ValueError()}, UNLIKE),
        ({"token": requests.ConnectionError()}, DOWN),
    ],
)
def test_answers_that_fit_and_those_that_do_not(packages, changes, claims):
    provider = make_provider(changes.pop("metadata", ENDPOINTS))
    provider._keys = "keys"
    vars(packages).update(changes)
    if isinstance(claims, str):
        kind = ProviderDownError if claims == DOWN else RefusedError
        with pytest.raises(kind, match=claims):
            provider._load_claims(make_attempt(), "CODE")
    else:
        assert provider._load_claims(make_attempt(), "CODE") == claims


@pytest.mark.parametrize(
    ("answer", "is_believed"),
    [
        ({"issuer": ISSUER[:5] + ISSUER[5:], **ENDPOINTS}, True),
        ({"issuer": f"{ISSUER}/", **ENDPOINTS}, False),
        (ENDPOINTS, False),
        ({"issuer": ISSUER, **ENDPOINTS, "jwks_uri": None}, False),
        ({"issuer": ISSUER, **ENDPOINTS, "jwks_uri": "http://p.example/keys"}, False),
        ({"issuer": ISSUER, **ENDPOINTS, "token_endpoint": "ftp://p.example"}, False),
        ([], False),
        (ValueError(), False),
        (requests.HTTPError(), False),
    ],
)
def test_a_provider_describes_itself_once(monkeypatch, answer, is_believed):
    asked = []

    def get(url, **options):
        asked.append((url, options))

        def give():
            if isinstance(answer, Exception):
                raise answer
            return answer

        is_status = isinstance(answer, requests.HTTPError)
        return SimpleNamespace(raise_for_status=give if is_status else lambda: None, json=give)

    monkeypatch.setattr(oidc.requests, "get", get)
    provider = make_provider({})
    for _ in range(2):
        if is_believed:
            assert provider._load_metadata() == answer
        else:
            with pytest.raises(ProviderDownError, match=DOWN):
                provider._load_metadata()
    url = f"{ISSUER}/.well-known/openid-configuration"
    assert asked == [(url, {"timeout": 10, "allow_redirects": False})] * (1 if is_believed else 2)


def test_a_provider_on_this_machine_may_have_no_https(monkeypatch):
    issuer = "http://localhost:1/x/"
    metadata = {"issuer": issuer} | {name: f"{issuer}{name}" for name in ENDPOINTS}
    provider = OidcProvider(OidcOptions(issuer=issuer, client_id="c"))
    asked = []
    monkeypatch.setattr(provider, "_get_json", lambda url: asked.append(url) or metadata)
    assert provider._load_metadata() == metadata
    assert asked == ["http://localhost:1/x/.well-known/openid-configuration"]
    assert (provider.name, provider.is_only) == ("localhost:1", False)


def test_the_client_s_secret_is_read_from_a_file_or_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("CAPTAU_OIDC_SECRET", raising=False)
    assert _read_secret(None) == ""
    monkeypatch.setenv("CAPTAU_OIDC_SECRET", "from the environment")
    assert _read_secret(None) == "from the environment"
    path = tmp_path / "secret"
    path.write_text(" from the file\n")
    assert _read_secret(path) == "from the file"
    path.write_bytes(b"\xff")
    with says(f"oidc.secret_file={path}: cannot be read (not UTF-8 text)"):
        _read_secret(path)
    with says("cannot be read (No such file or directory)"):
        _read_secret(tmp_path / "none")


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"preferred_username": "ann", "email": "a.b@x.example", "name": "Ann  B"}, ("ann", "a.b", "Ann B")),
        ({"preferred_username": "<x>", "email": 7, "name": "Ann"}, ("Ann",)),
        ({}, ()),
    ],
)  # fmt: skip
def test_an_identity_has_the_names_that_an_account_may_have(claims, names):
    identity = oidc._identify("https://p.example", {"sub": "1", **claims})
    assert identity.names == names
    assert identity.key == oidc._identify("https://p.example", {"sub": "1"}).key
    assert identity.key != oidc._identify("https://q.example", {"sub": "1"}).key


@pytest.mark.parametrize(
    ("claims", "is_allowed"),
    [
        ({"email": "ann@Lab.example", "email_verified": True}, True),
        ({"email": "ann@lab.example", "email_verified": "true"}, False),
        ({"email": "ann@lab.example"}, False),
        ({"email": "lab.example@x.example", "email_verified": True}, False),
        ({"groups": ["Staff"]}, True),
        ({"groups": "staff"}, False),
        ({"groups": ["lab.example"]}, False),
    ],
)
def test_allowed_domains_and_groups(claims, is_allowed):
    options = OidcOptions(issuer="https://p", client_id="c", allow=("lab.EXAMPLE", "group:staff"))
    assert OidcProvider(options)._is_allowed(claims) == is_allowed
    assert OidcProvider(OidcOptions(issuer="https://p", client_id="c"))._is_allowed(claims)


def test_options_of_a_provider_go_together():
    assert open_provider(OidcOptions()) is None
    for options, message in (
        (OidcOptions(client_id="c"), "oidc.*= needs oidc.issuer=URL"),
        (OidcOptions(issuer="http://p.example", client_id="c"), "oidc.issuer=http://p.example: https://"),
        (OidcOptions(issuer="https://", client_id="c"), "oidc.issuer=https://: https://… is expected"),
        (OidcOptions(issuer="https://p.example"), "oidc.issuer= needs oidc.client_id="),
    ):  # fmt: skip
        with says(message):
            open_provider(options)


@pytest.mark.dev
def test_a_provider_may_be_on_this_machine_without_https():
    for issuer in ("https://p.example", "http://localhost:1", "http://127.0.0.1:1"):
        assert (
            open_provider(OidcOptions(issuer=issuer, client_id="c")).name == issuer.split("//")[1]
        )
