"""The interface as its own description says, with whatever schemathesis makes up: never a 500."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from captau.server.collect.simulation.browser import join_study
from captau.server.collect.web.app import make_app
from tests.server.collect.conftest import make_site, running
from tests.server.collect.test_site import signed_in

SETTINGS = settings(max_examples=10, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("protocol", ["game", "thumb"])
def test_no_request_breaks_the_server(tmp_path, protocol):
    site = make_site(tmp_path, protocol)
    schema = schemathesis.openapi.from_dict(make_app(site).openapi())
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 20
    seen: Counter[int] = Counter()
    with running(site) as url:
        # As somebody who takes part, and runs the study as well.
        rater, admin = join_study(url), signed_in(site, url)
        cookies = "; ".join(
            f"{name}={value}" for name, value in {**rater.cookies, **admin.cookies}.items()
        )
        key = rater.get("/rate").hidden["key"]
        tokens = {
            True: admin.get("/admin").hidden["token"],
            False: rater.get("/rate").hidden["token"],
        }

        def once(case):
            if isinstance(case.body, dict):
                # Else no form would come further than its token.
                case.body["token"] = tokens[case.operation.path.startswith("/admin")]
                case.body["key"] = key
            response = case.call(base_url=url, headers={"cookie": cookies}, timeout=30)
            seen[response.status_code] += 1
            assert response.status_code < 500, (response.status_code, case.as_curl_command())
            assert "Traceback" not in response.text

        for operation in operations:
            SETTINGS(given(operation.as_strategy())(once))()
    # They came further than the door: some were taken, some refused.
    assert seen[200] > 20
    assert seen[400] + seen[404] + seen[422] > 20
