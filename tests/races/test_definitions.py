"""Definitions that are registered and forgotten at the same time."""

from __future__ import annotations

import pytest

from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from orchestrator.services import tagging
from tests import flows
from tests.support import Contender
from workflows.models import WorkflowDefinition
from workflows.services import definitions

pytestmark = pytest.mark.usefixtures("committed")


def test_a_version_that_is_being_registered_keeps_the_tags_of_its_name() -> None:
    name = flows.register(flows.simple("a"))
    tagging.add(flows.NAMESPACE, "workflow", name, [("team", "red")], actor="ann")
    with transaction():
        take_advisory([advisory_key(Advisory.DEFINITION, flows.NAMESPACE, name)])
        WorkflowDefinition.sql.upsert(flows.NAMESPACE, name, 2, {"name": name, "tasks": [flows.simple("a")]}, None)
        forgetting = Contender(lambda: definitions.unregister(flows.NAMESPACE, name, 1)).until_blocked()
    forgetting.result()
    assert [(tag.key, tag.value) for tag in tagging.find(flows.NAMESPACE, "workflow", name)] == [("team", "red")]
