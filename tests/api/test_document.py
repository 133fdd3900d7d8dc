"""The OpenAPI document and the server agree: no call of it fails the server, every status is documented."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
import schemathesis
import yaml
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from orchestrator.access import PERMISSIONS
from orchestrator.services import keys
from orchestrator.services.keys import KeyRequest
from tests import flows
from tests.api import table
from tests.api.client import methods, routes


@pytest.fixture
def key(committed: None) -> dict[str, str]:
    """Headers of somebody who may do everything."""
    made, secret = keys.create(KeyRequest(flows.NAMESPACE, "fuzzer", PERMISSIONS), actor="ann")
    return {"X-Authorization": f"{made.id}.{secret}"}


CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance)


@pytest.mark.timeout(300)
def test_every_call_is_answered_as_documented(key: dict[str, str]) -> None:
    """A few calls of every operation, well formed and not, as the document describes them."""
    document = schemathesis.openapi.from_wsgi("/api/schema", get_wsgi_application())
    found = []
    for one in document.get_all_operations():
        operation = one.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=4, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def calls(case: Any) -> None:
            case.validate_response(case.call(headers=key), checks=CHECKS)

        try:
            calls()
        except Exception as error:
            found.append(f"{operation.label}: {error}")
    assert not found, "\n".join(found)


def test_every_operation_documents_its_errors_and_names_itself_once() -> None:
    out = StringIO()
    call_command("spectacular", stdout=out)
    found = yaml.safe_load(out.getvalue())
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    assert all({"400", "401", "403", "404", "429"} <= operation["responses"].keys() for operation in operations)
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 100
    for operation in operations:
        spelled = [(p["in"], p["name"]) for p in operation.get("parameters", [])]
        assert len(spelled) == len(set(spelled)), operation["operationId"]


def test_the_table_of_paths_and_the_urls_agree() -> None:
    """Only the paths are compared: what else the table says is made anew whenever it is written."""
    written = set(re.findall(r"^\| ([A-Z]+) `([^`]*)`", table.TARGET.read_text().split("## Not served")[0], re.M))
    served = {
        (method.upper(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern))
        for pattern, view in routes()
        for method in methods(view)
    }
    again = "write docs/api.md again with `.venv/bin/python -m tests.api.table`"
    assert written == served, again


def test_what_conductor_serves_is_served_or_named_as_not() -> None:
    served = {f"{method},{table._plain(pattern)}" for pattern, view in routes() for method in methods(view)}
    missing = set(table.CONDUCTOR.split()) - served
    named = {"get,tasks/externalstoragelocation", "get,workflow/externalstoragelocation"}
    events = {path for path in missing if path.split(",")[1].split("/")[0] == "event" or path == "get,admin/queues"}
    assert missing - events == named
