"""Definitions that are registered and forgotten at the same time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db.transaction import atomic

from orchestrator.db.locks import Advisory, advisory_key, take_advisory
from orchestrator.db.transactions import transaction
from orchestrator.services import tagging
from tests import flows
from tests.support import Contender
from workflows import start_workflow
from workflows.models import Execution, Revision, WorkflowDefinition
from workflows.services import control, definitions, retention, revisions

pytestmark = pytest.mark.usefixtures("committed")
LATER = datetime.now(UTC) + timedelta(days=2)


def test_a_version_that_is_being_registered_keeps_the_tags_of_its_name() -> None:
    name = flows.register(flows.simple("a"))
    tagging.add(flows.NAMESPACE, "workflow", name, [("team", "red")], actor="ann")
    with transaction():
        take_advisory([advisory_key(Advisory.DEFINITION, flows.NAMESPACE, name)])
        WorkflowDefinition.sql.upsert(flows.NAMESPACE, name, 2, {"name": name, "tasks": [flows.simple("a")]}, None)
        forgetting = Contender(lambda: definitions.unregister(flows.NAMESPACE, name, 1)).until_blocked()
    forgetting.result()
    assert [(tag.key, tag.value) for tag in tagging.find(flows.NAMESPACE, "workflow", name)] == [("team", "red")]


# Revisions that nobody needs


def revision_of(run: UUID) -> UUID:
    return Execution.objects.values_list("revision_id", flat=True).get(id=run)


def stored(*revisions: UUID) -> list[bool]:
    return [Revision.objects.filter(id=revision).exists() for revision in revisions]


def remove(run: UUID) -> None:
    control.terminate_remove(flows.NAMESPACE, run, actor="olga")


def prune() -> int:
    return retention.retire_revisions(LATER)


def used_before() -> tuple[str, UUID]:
    """A workflow, and the revision of a run that is gone."""
    name = flows.register(flows.simple("a"))
    run = start_workflow(name)
    revision = revision_of(run)
    remove(run)
    return name, revision


@pytest.mark.parametrize("remembered", [True, False])
def test_a_revision_that_a_start_has_found_is_not_removed_under_it(remembered: bool) -> None:
    name, revision = used_before()
    if not remembered:
        revisions._RESOLVED.clear()

    def forget() -> int:
        definitions.unregister(flows.NAMESPACE, name, 1)
        return prune()

    with atomic():
        run = start_workflow(name)
        assert Contender(forget).result() == 0, "it waits for nobody"
    assert revision_of(run) == revision
    assert stored(revision) == [True]
    assert prune() == 0
    flows.drain()
    assert flows.statuses(run) == {"a": "SCHEDULED"}


def test_a_start_does_not_wait_for_the_pruner_and_stores_its_own() -> None:
    name, revision = used_before()
    with transaction():
        assert Revision.sql.lock_free([revision]) == [revision]
        run = Contender(lambda: start_workflow(name)).result()
    assert revision_of(run) != revision
    assert stored(revision_of(run)) == [True]


def test_a_start_that_remembers_a_revision_that_is_gone_stores_it_again() -> None:
    name, revision = used_before()
    with transaction():
        assert Revision.sql.lock_free([revision]) == [revision]
        assert Revision.sql.delete_unused([revision]) == 1
    run = start_workflow(name)
    assert stored(revision, revision_of(run)) == [False, True]


def test_a_run_that_came_before_the_lock_is_seen_after_it() -> None:
    name, revision = used_before()
    run = start_workflow(name)
    assert revision_of(run) == revision
    with transaction():
        assert Revision.sql.delete_unused(Revision.sql.lock_free([revision])) == 0
    assert stored(revision) == [True]


def test_what_no_definition_and_no_run_names_goes_in_batches() -> None:
    definitions.register_tasks(flows.NAMESPACE, [{"name": "a", "retryCount": 3}])
    name, current = used_before()
    run = start_workflow("inline", definition={"name": "inline", "version": 1, "tasks": [flows.simple("a")]})
    inline = revision_of(run)
    flows.register(flows.simple("a"), flows.simple("b"), name=name)
    kept = start_workflow(name)
    second = revision_of(kept)
    definitions.register_tasks(flows.NAMESPACE, [{"name": "a", "retryCount": 7}])
    third = revision_of(start_workflow(name))
    assert retention.retire_revisions() == 0, "they are new"
    assert prune() == 1
    assert stored(current, inline, second, third) == [False, True, True, True], "runs name the others"
    remove(run)
    remove(kept)
    assert (retention.retire_revisions(LATER, batch=1), retention.retire_revisions(LATER, batch=1), prune()) == (1, 1, 0)
    assert stored(inline, second, third) == [False, False, True]


def test_a_revision_that_a_version_names_stays_without_a_run() -> None:
    child = flows.register(flows.simple("leaf"))
    definitions.register_tasks(flows.NAMESPACE, [{"name": "a"}])
    name = flows.register(flows.simple("a"), flows.child("c", child))
    run = start_workflow(name)
    revision = revision_of(run)
    remove(run)
    assert (prune(), stored(revision)) == (0, [True])
    definitions.unregister(flows.NAMESPACE, name, 1)
    assert (prune(), stored(revision)) == (1, [False])
