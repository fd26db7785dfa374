"""The pages under made-up requests by their own description: no request is answered with a 500."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.challenge.web.app import make_app
from tests.server.challenge.conftest import serve_site
from tests.server.challenge.visitors import (
    make_site,
    quick_passwords,
    score,
    sign_up,
    sign_up_admin,
    submission_key,
    valid_captions,
    write_challenge,
)

pytestmark = pytest.mark.dev

__all__ = ["quick_passwords"]

SETTINGS = settings(max_examples=6, database=None, suppress_health_check=list(HealthCheck))


def test_no_request_breaks_a_page(tmp_path):
    visibility = {"leaderboard": "public", "per_item": True}
    path = write_challenge(tmp_path, visibility=visibility, phases=[{"name": "test"}])
    site = make_site(tmp_path, path)
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    operations = [result.ok() for result in schema.get_all_operations()]
    operations = [operation for operation in operations if not operation.path.startswith("/api")]
    assert len(operations) > 35
    statuses: Counter[int] = Counter()
    with serve_site(site) as url:
        # All requests are a team member's and the admin's at once.
        admin, ann = sign_up_admin(site, url), sign_up(url, "Ann", team="Reds")
        key = submission_key(ann.upload("small", "r.json", valid_captions()))
        score(site, key)
        cookies = admin.cookies | ann.cookies
        cookie_header = "; ".join(f"{name}={value}" for name, value in cookies.items())
        existing = {"name": "small", "key": key, "number": 1, "token": 1}
        admin_token, member_token = admin.token("/admin"), ann.token("/account")

        def send(case):
            # Half of the requests are for existing objects; all forms have the session's token.
            if sum(statuses.values()) % 2 and case.path_parameters:
                case.path_parameters |= {
                    k: v for k, v in existing.items() if k in case.path_parameters
                }
            if isinstance(case.body, dict):
                is_for_admin = case.operation.path.startswith("/admin")
                case.body["token"] = admin_token if is_for_admin else member_token
            headers = {"cookie": cookie_header}
            response = case.call(base_url=url, headers=headers, timeout=30, allow_redirects=False)
            statuses[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text
            for private in ("zyxreference", "zyxsecret"):
                assert private not in response.text

        # The operations that end the sessions come last.
        session_ends = ("signout", "logout", "/{act}", "password")
        for operation in sorted(operations, key=lambda o: o.path.endswith(session_ends)):
            SETTINGS(given(operation.as_strategy())(send))()
    # Many requests came further than the sign-in page.
    assert statuses[200] > 30
    assert statuses[303] > 10
    assert statuses[400] + statuses[404] + statuses[422] > 40
