"""The pages as their own description says, with whatever schemathesis makes up: never a 500."""

from __future__ import annotations

from collections import Counter

import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.challenge.web.app import make_app
from tests.server.challenge.conftest import running
from tests.server.challenge.visitors import (
    Visitor,
    good,
    key_of,
    make_site,
    quick_passwords,
    score,
    signed_in_admin,
    write_challenge,
)

__all__ = ["quick_passwords"]

SETTINGS = settings(max_examples=6, database=None, suppress_health_check=list(HealthCheck))


def test_no_request_breaks_a_page(tmp_path):
    open_ = {"leaderboard": "public", "per_item": True}
    free = [{"name": "test"}]
    site = make_site(tmp_path, write_challenge(tmp_path, visibility=open_, phases=free))
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    every = [result.ok() for result in schema.get_all_operations()]
    operations = [one for one in every if not one.path.startswith("/api")]
    assert len(operations) > 35
    seen: Counter[int] = Counter()
    with running(site) as url:
        # As a team's member, and whoever runs the site as well.
        ann, admin = Visitor(url), signed_in_admin(site, url)
        ann.sign_up("Ann", team="Reds")
        score(site, key := key_of(ann.upload("small", "r.json", good())))
        kept = dict(ann.cookies)
        known = {"name": "small", "key": key, "number": 1, "token": 1}
        tokens = {True: admin.token("/admin"), False: ann.token("/account")}

        def once(case):
            # Half of them of what is there, and with the session's token: else no form would come far.
            told = sum(seen.values()) % 2
            if told and case.path_parameters:
                case.path_parameters |= {
                    k: v for k, v in known.items() if k in case.path_parameters
                }
            if isinstance(case.body, dict):
                case.body["token"] = tokens[case.operation.path.startswith("/admin")]
            cookies = "; ".join(f"{k}={v}" for k, v in {**admin.cookies, **kept}.items())
            response = case.call(
                base_url=url, headers={"cookie": cookies}, timeout=30, allow_redirects=False
            )
            seen[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text
            for hidden in ("zyxreference", "zyxsecret"):
                assert hidden not in response.text

        # Last those that end the sessions of all that comes after.
        ends = ("signout", "logout", "/{act}", "password")
        for operation in sorted(operations, key=lambda one: one.path.endswith(ends)):
            SETTINGS(given(operation.as_strategy())(once))()
    # They came further than the door: some were taken, some refused.
    assert seen[200] > 30
    assert seen[303] > 10
    assert seen[400] + seen[404] + seen[422] > 40
