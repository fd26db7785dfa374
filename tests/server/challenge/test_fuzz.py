"""The interface as its own description says, with whatever schemathesis makes up: never a 500."""

from __future__ import annotations

from collections import Counter

import requests
import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.challenge.web.app import make_app
from tests.server.challenge.conftest import captions, make_site, new_account, running

SETTINGS = settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def test_no_request_breaks_the_interface(tmp_path):
    site = make_site(tmp_path)
    site.workers = None
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    operations = [
        one
        for result in schema.get_all_operations()
        if (one := result.ok()).path.startswith("/api")
    ]
    assert len(operations) == 7
    seen: Counter[int] = Counter()
    with running(site) as url:
        token, _ = new_account(site.store.database)

        def once(case):
            if "name" in (case.path_parameters or {}):
                case.path_parameters["name"] = "small_captions"
            headers = {"authorization": f"Bearer {token}"}
            response = case.call(base_url=url, headers=headers, timeout=30)
            seen[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text

        for operation in operations:
            SETTINGS(given(operation.as_strategy())(once))()
        # A body that is taken, beside the made-up ones.
        where = f"{url}/api/challenges/small_captions/submissions?file=a.json"
        other, _ = new_account(site.store.database, "other")
        headers = {"authorization": f"Bearer {other}"}
        sent = requests.post(where, data=captions().encode(), headers=headers, timeout=30)
        assert sent.status_code == 201
    assert seen[200] >= 5
    assert seen[404] + seen[409] + seen[422] >= 5
