"""The JSON interface under made-up requests by its own description: no request is answered with a 500."""

from __future__ import annotations

from collections import Counter

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.challenge.web.app import make_app
from tests.server.challenge.conftest import captions_json, create_account, make_site, serve_site

pytestmark = pytest.mark.dev

SETTINGS = settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def test_no_request_breaks_the_interface(tmp_path):
    site = make_site(tmp_path)
    site.workers = None
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    operations = [
        operation
        for result in schema.get_all_operations()
        if (operation := result.ok()).path.startswith("/api")
    ]
    assert len(operations) == 7
    statuses: Counter[int] = Counter()
    with serve_site(site) as url:
        token, _ = create_account(site.store.database)

        def send(case):
            if "name" in (case.path_parameters or {}):
                case.path_parameters["name"] = "small_captions"
            headers = {"authorization": f"Bearer {token}"}
            response = case.call(base_url=url, headers=headers, timeout=30)
            statuses[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text

        for operation in operations:
            SETTINGS(given(operation.as_strategy())(send))()
        # A valid body beside the made-up ones.
        submissions_url = f"{url}/api/challenges/small_captions/submissions?file=a.json"
        token, _ = create_account(site.store.database, "second")
        headers = {"authorization": f"Bearer {token}"}
        body = captions_json().encode()
        response = requests.post(submissions_url, data=body, headers=headers, timeout=30)
        assert response.status_code == 201
    assert statuses[200] >= 5
    assert statuses[404] + statuses[409] + statuses[422] >= 5
