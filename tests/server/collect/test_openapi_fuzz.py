"""The interface as its own description says, with whatever schemathesis makes up: never a 500."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.collect.simulated_browser import join_study
from captau.server.collect.web.app import make_app
from tests.server.collect.conftest import make_site, serve_site
from tests.server.collect.visitors import sign_in_admin

pytestmark = pytest.mark.dev

SETTINGS = settings(max_examples=10, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("protocol", ["game", "thumb"])
def test_no_request_makes_the_server_fail(tmp_path, protocol):
    site = make_site(tmp_path, protocol)
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 20
    status_counts: Counter[int] = Counter()
    with serve_site(site) as url:
        # As somebody who takes part, and runs the study as well.
        rater, admin = join_study(url), sign_in_admin(site, url)
        cookies = "; ".join(
            f"{name}={value}" for name, value in {**rater.cookies, **admin.cookies}.items()
        )
        key = rater.get("/rate").hidden["key"]
        tokens = {
            True: admin.get("/admin").hidden["token"],
            False: rater.get("/rate").hidden["token"],
        }

        def send_case(case):
            if isinstance(case.body, dict):
                # Else no form would come further than its token.
                case.body["token"] = tokens[case.operation.path.startswith("/admin")]
                case.body["key"] = key
            response = case.call(base_url=url, headers={"cookie": cookies}, timeout=30)
            status_counts[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text

        for operation in operations:
            SETTINGS(given(operation.as_strategy())(send_case))()
    # They came further than the door: some were taken, some refused.
    assert status_counts[200] > 20
    assert status_counts[400] + status_counts[404] + status_counts[422] > 20
